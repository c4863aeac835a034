"""Graphs of PyTorch's IR as objects: `Graph`, `Block`, `Node`, `Value`, `Use` and types, with the
manners of torch._C's.

>>> g = rushlight.parse_ir("graph(%x : Tensor):\\n  %y : Tensor = aten::relu(%x)\\n  return (%y)")
>>> [n.kind() for n in g.nodes()]
['aten::relu']

A handle keeps its graph alive.  A node that was destroyed says so when it is used.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from . import _rushlight
from ._rushlight import Block, Graph, Node, Value, make_type, parse_ir, parse_type
from ._rushlight import GraphType as Type
from ._rushlight import unify_types as unify_types

__all__ = """AliasDb Block Gradient Graph Node SubgraphRewriter SymbolicVariable Type Use Value
differentiate find_matches parse_ir parse_type unify_types""".split()


class Use:
    """One input of a node: `user` takes the value as input `offset`."""

    __slots__ = ("offset", "user")

    def __init__(self, user: Node, offset: int) -> None:
        self.user = user
        self.offset = offset

    def isAfter(self, other: Use) -> bool:
        """True if this use runs after the other."""
        if self.user == other.user:
            return self.offset > other.offset
        return other.user.isBefore(self.user)

    def __repr__(self) -> str:
        return f"Use(user={self.user!r}, offset={self.offset})"


def _only(items: list, what: str, node: Node) -> Any:
    if len(items) != 1:
        raise RuntimeError(
            f"Tried to access a single {what} on node '{node.kind()}' which has {len(items)} "
            f"{what}s. You may consider using node.{what}s() instead."
        )
    return items[0]


def _at(items: list, i: int) -> Any:
    if not 0 <= i < len(items):
        raise RuntimeError(f"ArrayRef: invalid index Index = {i}; Length = {len(items)}")
    return items[i]


# -- Nodes
# -------------------------------------------------------------------------------------------------


class _Node:
    def inputs(self) -> Iterator[Value]:
        """Return the input values."""
        return iter(self._inputs())

    def outputs(self) -> Iterator[Value]:
        """Return the output values."""
        return iter(self._outputs())

    def blocks(self) -> Iterator[Block]:
        """Return the nested blocks."""
        return iter(self._blocks())

    def inputsSize(self) -> int:
        return len(self._inputs())

    def outputsSize(self) -> int:
        return len(self._outputs())

    def hasMultipleOutputs(self) -> bool:
        return len(self._outputs()) > 1

    def inputsAt(self, i: int) -> Value:
        return _at(self._inputs(), i)

    def outputsAt(self, i: int) -> Value:
        return _at(self._outputs(), i)

    def input(self) -> Value:
        """Return the only input."""
        return _only(self._inputs(), "input", self)

    def output(self) -> Value:
        """Return the only output."""
        return _only(self._outputs(), "output", self)

    def addInput(self, value: Value) -> Value:
        self._set_input(len(self._inputs()), value, True)
        return value

    def insertInput(self, i: int, value: Value) -> Value:
        self._set_input(i, value, True)
        return value

    def replaceInput(self, i: int, value: Value) -> Value:
        """Replace input i by `value`; return the old input."""
        old = self.inputsAt(i)
        self._set_input(i, value, False)
        return old

    def removeAllInputs(self) -> None:
        for i in range(len(self._inputs()) - 1, -1, -1):
            self.removeInput(i)

    def addOutput(self) -> Value:
        return self.insertOutput(len(self._outputs()))

    def replaceAllUsesWith(self, other: Node) -> None:
        """Replace each output by the other node's output of the same index."""
        mine, theirs = self._outputs(), other._outputs()
        if len(mine) != len(theirs):
            raise RuntimeError(f"{len(mine)} outputs cannot be replaced by {len(theirs)}")
        for a, b in zip(mine, theirs, strict=True):
            a.replaceAllUsesWith(b)

    def hasUses(self) -> bool:
        return any(v._uses() for v in self._outputs())

    def insertBefore(self, other: Node) -> Node:
        self._place(other, False, False)
        return self

    def insertAfter(self, other: Node) -> Node:
        self._place(other, True, False)
        return self

    def moveBefore(self, other: Node) -> None:
        self._place(other, False, True)

    def moveAfter(self, other: Node) -> None:
        self._place(other, True, True)

    def isAfter(self, other: Node) -> bool:
        return other.isBefore(self)

    def matches(self, schema: str) -> bool:
        """True if this is the node's schema."""
        return "".join(self.schema().split()) == "".join(schema.split())

    def isNondeterministic(self) -> bool:
        words = ("rand", "dropout", "bernoulli", "normal", "multinomial")
        return any(word in self.schema() for word in words)

    def mustBeNone(self) -> bool:
        """True if the value is None in every run."""
        kind, outputs = self.kind(), self._outputs()
        if kind == "prim::AutogradZero" or (kind == "prim::Constant" and not self.hasAttributes()):
            return True
        return len(outputs) == 1 and outputs[0].type().kind() == "NoneType"

    def is_constant(self, name: str) -> bool:
        """True if the argument of that name is a constant."""
        return self.namedInput(name)._constant() is not None

    def get(self, name: str) -> Any:
        """Return the value of the argument of that name if it is a constant, otherwise None."""
        found = self.namedInput(name)._constant()
        return found[0] if found else None

    def pyname(self) -> str:
        """Return the name of the Python function that the node calls."""
        found = _PYTHON.search(str(self))
        if found is None:
            raise RuntimeError(f"{self.kind()} is no call of Python")
        return found[1]

    def scalar_args(self) -> list[str]:
        """Return the arguments that are not values, as text."""
        found = _PYTHON.search(str(self))
        return found[2].split(", ") if found is not None and found[2] else []

    def cconv(self) -> str:
        """Return one letter per argument: d, a value; c, a constant."""
        return "c" * len(self.scalar_args()) + "d" * self.inputsSize()

    def sourceRange(self) -> str:
        """Return the source lines of the node, with a mark."""
        return self._source()

    def scopeName(self) -> str:
        """Return the scope of a traced node: "__module.a/__module.a.b", the modules in which it was
        traced."""
        found = _SCOPE.search(str(self).partition("\n")[0])
        return found[1] if found else ""

    def getModuleHierarchy(self) -> str:
        """Return the scope with the modules' classes: "a(Encoder).b(Linear)"; for a prim::GetAttr,
        of the module that has the attribute."""
        names = _modules_of(self.owningGraph())
        if self.kind() == "prim::GetAttr":
            return names.get(self.input().debugName(), ("", ""))[1]
        path = self.scopeName().rpartition("/")[2].removeprefix("__module.")
        return next((shown for at, shown in names.values() if at == path), "") if path else ""

    def copyMetadata(self, other: Node) -> Node:
        return self

    def dump(self) -> None:
        print(self, end="")

    # Attributes: n.i("name"), n.i_("name", 3) and so on, a pair of methods per kind.

    def hasAttributes(self) -> bool:
        return bool(self.attributeNames())

    def hasAttribute(self, name: str) -> bool:
        return self._attr_kind(name) is not None

    def kindOf(self, name: str) -> str:
        kind = self._attr_kind(name)
        if kind is None:
            raise RuntimeError(f"required keyword attribute '{name}' is undefined")
        return kind

    def removeAttribute(self, name: str) -> Node:
        self._remove_attr(name)
        return self

    def copyAttributes(self, other: Node) -> Node:
        self._copy_attrs(other)
        return self


_PYTHON = re.compile(r"\^(\w+)\[[^]]*\]\(([^)]*)\)")
_SCOPE = re.compile(r", scope: (\S+)")


def _modules_of(graph: Graph) -> dict[str, tuple[str, str]]:
    """Return the paths of values that are modules, by the values' names, and the same with the
    names of their classes."""
    found: dict[str, tuple[str, str]] = {}
    for node in graph.nodes():
        if node.kind() == "prim::GetAttr" and node.output().type().kind() == "ClassType":
            path, shown = found.get(node.input().debugName(), ("", ""))
            name, cls = node.s("name"), str(node.output().type()).rpartition(".")[2]
            texts = f"{path}.{name}".lstrip("."), f"{shown}.{name}({cls})".lstrip(".")
            found[node.output().debugName()] = texts
    return found


def _getter(kind: str) -> Callable[[Node, str], Any]:
    def get(self: Node, name: str) -> Any:
        have = self._attr_kind(name)
        plain = self._attr(name)
        if have != kind and not (kind == "ival" and have not in ("g", "gs", "ty", "tys")):
            raise RuntimeError(f"required keyword attribute '{name}' has the wrong type")
        if kind == "i":
            return int(plain)
        return plain[0] if kind == "ty" else plain

    return get


def _setter(kind: str) -> Callable[[Node, str, Any], Node]:
    convert: Any = {"i": int, "f": float, "s": str}.get(kind[0])

    def set_(self: Node, name: str, value: Any) -> Node:
        if kind in ("is", "fs"):
            value = list(map(convert, value))
        elif kind in ("i", "f", "s"):
            value = convert(value)
        self._set_attr(name, kind, [value] if kind in ("g", "ty") else value)
        return self

    return set_


for _kind in ("f", "fs", "c", "s", "ss", "i", "is", "g", "gs", "ival", "t", "ts", "ty", "tys"):
    setattr(_Node, _kind, _getter(_kind))
    setattr(_Node, _kind + "_", _setter(_kind))

setattr(_Node, "z", _getter("t"))  # noqa: B010 -- a tensor of no dimension
setattr(_Node, "z_", _setter("t"))  # noqa: B010


# -- Values
# ------------------------------------------------------------------------------------------------


class _Value:
    def copyMetadata(self, other: Value) -> Value:
        """Copy the other value's type, and its name if it has one."""
        if not other.debugName().isdigit():
            self.setDebugName(other.debugName())
        return self.setType(other.type())

    def uses(self) -> list[Use]:
        """Return the uses of the value."""
        return [Use(node, i) for node, i in self._uses()]

    def hasUses(self) -> bool:
        return bool(self._uses())

    def replaceAllUsesWith(self, other: Value) -> None:
        self._replace_uses(other)

    def replaceAllUsesAfterNodeWith(self, node: Node, other: Value) -> None:
        self._replace_uses(other, node)

    def toIValue(self) -> Any:
        """Return the value if it is a constant, otherwise None."""
        found = self._constant()
        return found[0] if found else None

    def isConstant(self) -> bool:
        return self._constant() is not None

    def setTypeAs(self, other: Value) -> Value:
        return self.setType(other.type())

    def inferTypeFrom(self, value: Any) -> Value:
        """Set the type from a tensor: its dtype, device, sizes and strides."""
        return self.setType(TensorType.create_from_tensor(value))

    def isCompleteTensor(self) -> bool:
        """True if dtype, device, sizes and strides are known before it runs."""
        kind = self.type()
        return isinstance(kind, TensorType) and kind.isComplete()

    def requires_grad(self) -> bool:
        kind = self.type()
        return isinstance(kind, TensorType) and kind.requires_grad()

    requiresGrad = requires_grad


# -- Blocks and graphs
# -------------------------------------------------------------------------------------


class _Block:
    def inputs(self) -> Iterator[Value]:
        return self.paramNode().outputs()

    def outputs(self) -> Iterator[Value]:
        return self.returnNode().inputs()

    def addInputToBlock(self, name: str = "") -> Value:
        params = self.paramNode()
        return params.insertOutput(params.outputsSize(), None, name)

    addInput = addInputToBlock

    def insertInput(self, i: int, name: str = "") -> Value:
        return self.paramNode().insertOutput(i, None, name)

    def eraseInput(self, i: int) -> None:
        self.paramNode().eraseOutput(i)

    def registerOutput(self, value: Value) -> int:
        end = self.returnNode()
        end.addInput(value)
        return end.inputsSize() - 1

    def insertOutput(self, i: int, value: Value) -> int:
        self.returnNode().insertInput(i, value)
        return i

    def eraseOutput(self, i: int) -> None:
        self.returnNode().removeInput(i)

    def replaceOutput(self, i: int, value: Value) -> Value:
        return self.returnNode().replaceInput(i, value)

    def appendNode(self, node: Node) -> Node:
        return node.insertBefore(self.returnNode())

    def prependNode(self, node: Node) -> Node:
        return node.insertBefore(next(self.nodes(), None) or self.returnNode())

    def addNode(self, kind: str, inputs: list[Value]) -> Node:
        return self.appendNode(self.owningGraph().create(kind, inputs))


class _Graph:
    def permuteInputs(self, order: list[int]) -> None:
        """Reorder the inputs: input i becomes the old input order[i]."""
        old = list(self.inputs())
        if sorted(order) != list(range(len(old))):
            raise RuntimeError("permuteInputs takes each input once")
        names = [v.debugName() for v in old]
        new = []
        for i in order:
            value = self.addInput().setType(old[i].type())
            old[i].replaceAllUsesWith(value)
            new.append((value, names[i]))
        for _ in old:
            self.eraseInput(0)
        for value, name in new:
            if not name.isdigit():
                value.setDebugName(name)

    def createClone(self, node: Node, value_map: Callable[[Value], Value]) -> Node:
        """Return a copy of the node, unlinked, with other inputs; without nested blocks."""
        clone = self.create(node.kind(), [value_map(v) for v in node.inputs()], node.outputsSize())
        clone.copyAttributes(node)
        for new, old in zip(clone.outputs(), node.outputs(), strict=True):
            new.setType(old.type())
        return clone

    @contextmanager
    def insert_point_guard(self, at: Node | Block) -> Iterator[None]:
        """Insert new nodes at that place inside the `with`; restore the old place afterwards."""
        before = self.insertPoint()
        self.setInsertPoint(at)
        try:
            yield
        finally:
            self.setInsertPoint(before)

    def alias_db(self, isFrozen: bool = False, descend_function_calls: bool = False) -> AliasDb:
        """Return the analysis of which values may share memory."""
        return AliasDb(self)

    def dump_alias_db(self) -> None:
        self.alias_db().dump()

    def makeMultiOutputIntoTuple(self) -> None:
        """Combine several outputs into one tuple."""
        values = list(self.outputs())
        if len(values) < 2:
            return
        pack = self.appendNode(self.create("prim::TupleConstruct", values))
        pack.output().setType(TupleType([v.type() for v in values]))
        for _ in values:
            self.eraseOutput(0)
        self.registerOutput(pack.output())

    def graph(self) -> Any:
        """Return the graph as torch's own (torch._C.Graph), calls inlined, for passes and tools of
        torch."""
        from .torch_graph import to_torch

        return to_torch(self)

    def set_graph(self, graph: Any) -> None:
        """Replace the graph by the contents of a torch._C.Graph."""
        from .torch_graph import from_torch

        from_torch(self, graph)

    def dump(self) -> None:
        print(self, end="")

    def __str__(self) -> str:
        """Return the graph's text; as in PyTorch's, functions that it calls have short names and
        tasks are graphs of their own (in an unfinished trace only the task's name is shown)."""
        torch = sys.modules.get("torch")
        ranges = torch is None or getattr(torch._C.Graph, "global_print_source_ranges", True)
        text = _CALLEE.sub(r"\1\2", self.str() if ranges else self.str(False))
        tasks = [n for n in _all_nodes(self) if _is_linked_task(n)] if _TASK.search(text) else []
        for i, task in enumerate(tasks):
            name = f"{task.kind()}_{i}"
            text = _TASK.sub(name, text, count=1) + f"with {name} = {task.g('Subgraph')}"
        return text


def _of_block(name: str) -> Callable[..., Any]:
    """Return a graph's method that calls its block's."""

    @functools.wraps(getattr(_Block, name))
    def method(self: Graph, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.block(), name)(*args, **kwargs)

    method.__name__ = name
    return method


_SHARED = """inputs outputs addInput insertInput eraseInput registerOutput insertOutput eraseOutput
appendNode prependNode"""
for _name in _SHARED.split():
    setattr(_Graph, _name, _of_block(_name))


def _is_linked_task(node: Node) -> bool:
    return node.kind() in ("prim::fork", "prim::awaitable") and node.hasAttribute("Subgraph")


_TASK = re.compile(r'prim::(?:fork|awaitable)\[name="[^"]*"\]')
_CALLEE = re.compile(r'(: Function = prim::Constant\[name=")[^"]*\.([^".]*")')


# -- Tools
# -------------------------------------------------------------------------------------------------


class AliasDb:
    """Which values of a graph may share memory, at the time when this was made."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._found = _rushlight.alias_analyse(graph)

    def may_alias(self, a: Value, b: Value) -> bool:
        """True if the two values may be the same object."""
        return _rushlight.alias_query(self._found, a, b, False)

    def may_contain_alias(self, a: Value, b: Value) -> bool:
        """True if one value, or something in it, may be something in the other."""
        return _rushlight.alias_query(self._found, a, b, True)

    def has_writers(self, of: Value | Node) -> bool:
        """True if the graph may write to the value (or to the node's inputs and outputs) or to
        something in it."""
        if isinstance(of, Value):
            return _rushlight.alias_query(self._found, of, None, False)
        return any(self.has_writers(v) for v in (*of.inputs(), *of.outputs()))

    def is_mutable(self, node: Node) -> bool:
        """True if the node's operator writes to an argument."""
        return "!" in node.schema()

    def move_before_topologically_valid(self, node: Node, at: Node) -> bool:
        """Move the node, and the nodes that must be before it, if this does not change the graph's
        results; return whether it did."""
        return _rushlight.move_if_valid(node, at, False, False)

    def move_after_topologically_valid(self, node: Node, at: Node) -> bool:
        """Move the node, and the nodes that must be after it, if this does not change the graph's
        results; return whether it did."""
        return _rushlight.move_if_valid(node, at, True, False)

    def could_move_before_topologically(self, node: Node, at: Node) -> bool:
        return _rushlight.move_if_valid(node, at, False, True)

    def could_move_after_topologically(self, node: Node, at: Node) -> bool:
        return _rushlight.move_if_valid(node, at, True, True)

    def __str__(self) -> str:
        nodes = (self._graph.param_node(), *_all_nodes(self._graph))
        values = [v for n in nodes for v in n.outputs()]
        lines = ["===1. GRAPH===", str(self._graph), "===2. ALIAS DB==="]
        for i, v in enumerate(values):
            others = [f"%{w.debugName()}" for w in values[:i] if self.may_contain_alias(v, w)]
            if others:
                lines.append(f"%{v.debugName()} may share memory with {', '.join(others)}")
        written = [f"%{v.debugName()}" for v in values if self.has_writers(v)]
        return "\n".join([*lines, "===3. Writes===", *written, ""])

    def dump(self) -> None:
        print(self, end="")


def _all_nodes(of: Graph | Block) -> Iterator[Node]:
    for node in of.nodes():
        yield node
        for block in node.blocks():
            yield from _all_nodes(block)


def find_matches(pattern: str | Graph, graph: Graph) -> list[dict[str, Value]]:
    """Return the matches of the pattern (a graph, or its text) in the graph: its values, by the
    names in the pattern."""
    return _rushlight.graph_match(graph, parse_ir(pattern) if isinstance(pattern, str) else pattern)


class SubgraphRewriter:
    """Replaces patterns, given as graphs' texts, in graphs."""

    def __init__(self) -> None:
        self._patterns: list[tuple[Graph, Graph]] = []

    def RegisterRewritePattern(
        self, pattern: str, replacement: str, value_names: Any = None
    ) -> SubgraphRewriter:
        """Register a pattern and its replacement; both have the same numbers of inputs and
        outputs."""
        self._patterns.append((parse_ir(pattern), parse_ir(replacement)))
        return self

    def runOnGraph(
        self, graph: Graph, filters: Callable[[dict[str, Value]], bool] | None = None
    ) -> int:
        """Replace the matches of each pattern in turn; `filters` get a match (values by name) and
        return whether it is replaced. Return the number of replacements."""
        return sum(_rushlight.graph_rewrite(graph, a, b, filters) for a, b in self._patterns)

    run = runOnGraph


class SymbolicVariable:
    """A value with operators and methods that extend the graph: (x + 1).tanh() inserts two
    calls."""

    __slots__ = ("_value",)

    def __init__(self, value: Value) -> None:
        self._value = value

    @staticmethod
    def asNewInput(graph: Graph, name: str = "", type: str | Type = "Tensor") -> SymbolicVariable:
        """Add an input to the graph and return it."""
        kind = parse_type(type, graph) if isinstance(type, str) else type
        return SymbolicVariable(graph.addInput(name).setType(kind))

    def value(self) -> Value:
        return self._value

    def addAsOutput(self) -> None:
        """Make the value an output of the graph."""
        self._value.owningGraph().registerOutput(self._value)

    def call(self, op: str, *args: Any, **kwargs: Any) -> SymbolicVariable:
        """Insert the operator with this value as its first argument."""
        plain = [a._value if isinstance(a, SymbolicVariable) else a for a in (self, *args)]
        named = {k: a._value if isinstance(a, SymbolicVariable) else a for k, a in kwargs.items()}
        return SymbolicVariable(self._value.owningGraph().insert(op, plain, **named))

    def __getattr__(self, name: str) -> Callable[..., SymbolicVariable]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self.call("aten::" + name, *args, **kwargs)

    def __repr__(self) -> str:
        return f"SymbolicVariable({self._value!r})"


def _binary(op: str, swapped: bool = False) -> Callable[[SymbolicVariable, Any], SymbolicVariable]:
    def method(self: SymbolicVariable, other: Any) -> SymbolicVariable:
        if not swapped:
            return self.call(op, other)
        graph = self._value.owningGraph()
        return SymbolicVariable(graph.insert(op, [other, self._value]))

    return method


for _pair in """add=add sub=sub mul=mul truediv=div mod=remainder pow=pow matmul=matmul
floordiv=floor_divide and=__and__ or=__or__ xor=__xor__""".split():
    _name, _, _op = _pair.partition("=")
    setattr(SymbolicVariable, f"__{_name}__", _binary("aten::" + _op))
    setattr(SymbolicVariable, f"__r{_name}__", _binary("aten::" + _op, True))
for _name in ("lt", "le", "gt", "ge"):
    setattr(SymbolicVariable, f"__{_name}__", _binary("aten::" + _name))
setattr(SymbolicVariable, "__neg__", lambda self: self.call("aten::neg"))  # noqa: B010


# -- Differentiation
# --------------------------------------------------------------------------------------------------


class Gradient(NamedTuple):
    """A differentiated graph, as torch._C._jit_differentiate describes it.

    `f` is the graph with further outputs; `df` takes the gradients of the outputs
    `df_input_vjps` of `f`, then the inputs and outputs of `f` that it captures, and returns the
    gradients of the inputs `df_output_vjps`."""

    f: Graph
    df: Graph
    f_real_outputs: int
    df_input_vjps: list[int]
    df_input_captured_inputs: list[int]
    df_input_captured_outputs: list[int]
    df_output_vjps: list[int]


def differentiate(graph: Graph) -> Gradient:
    """Differentiate a graph without control flow, writes and random numbers."""
    f, df, ((n,), vjps, inputs, outputs, made) = graph._differentiate()
    return Gradient(f, df, n, vjps, inputs, outputs, made)


# -- Types
# -------------------------------------------------------------------------------------------------


def _type(kind: str, elems: list[Type]) -> Type:
    return make_type(kind, elems)


class _Simple(Type):
    __slots__ = ()

    def __new__(cls) -> Type:
        return _type(cls.__name__, [])

    @classmethod
    def get(cls) -> Type:
        """Return the type."""
        return _type(cls.__name__, [])


class _Of(Type):
    __slots__ = ()

    def __new__(cls, elem: Type) -> Type:
        return _type(cls.__name__, [elem])

    def getElementType(self) -> Type:
        return self.containedTypes()[0]


class Facts(NamedTuple):
    """What is known about the tensors of a type; None (or -1): nothing."""

    dtype: str | None
    sizes: list[int | None] | None
    strides: list[int | None] | None
    device: str | None
    requires_grad: int
    defined: int
    contiguous: int


def _all_known(numbers: list[int | None] | None) -> list[int] | None:
    known = [n for n in numbers or [] if n is not None]
    return None if numbers is None or len(known) < len(numbers) else known


class TensorType(_Simple):
    """Tensor, and its known properties: Float(2, 3, strides=[3, 1], requires_grad=0,
    device=cpu)."""

    __slots__ = ()

    @classmethod
    def getInferred(cls) -> Type:
        return cls.get()

    @classmethod
    def create_from_tensor(cls, tensor: Any) -> Type:
        from .jit.torch_trace import tensor_type

        return parse_type(tensor_type(tensor))

    def str(self) -> str:
        return self._name() or "Tensor"

    @property
    def facts(self) -> Facts:
        """What is known about the tensors."""
        return Facts(*_rushlight.type_facts(self))

    def _with(self, **facts: Any) -> Type:
        return _rushlight.type_of_facts(*self.facts._replace(**facts))

    def sizes(self) -> list[int] | None:
        return _all_known(self.facts.sizes)

    def varyingSizes(self) -> list[int | None] | None:
        return self.facts.sizes

    def symbolic_sizes(self) -> list[int] | None:
        """Sizes; those that are not known are negative numbers, each another."""
        fresh = iter(range(-2, -99, -1))
        sizes = self.facts.sizes
        return None if sizes is None else [next(fresh) if n is None else n for n in sizes]

    def dim(self) -> int | None:
        return None if self.facts.sizes is None else len(self.facts.sizes)

    def strides(self) -> list[int] | None:
        return _all_known(self.facts.strides)

    def with_sizes(self, sizes: Iterable[int | None] | None) -> Type:
        """The type with these sizes; strides stay if there are as many."""
        new = None if sizes is None else list(sizes)
        kept = self.facts.strides or []
        strides = kept if new is None or len(kept) == len(new) else [None] * len(new)
        return self._with(sizes=new, strides=strides, contiguous=-1)

    def contiguous(self) -> Type:
        """The type of the same tensors in rows."""
        sizes = self.facts.sizes
        if sizes is None:
            return self._with(contiguous=1)
        strides: list[int | None] = []
        dense: int | None = 1
        for n in reversed(sizes):
            strides.insert(0, dense)
            dense = None if n is None or dense is None else dense * max(n, 1)
        return self._with(strides=strides, contiguous=1)

    def scalarType(self) -> str | None:
        name = self.facts.dtype
        return None if name is None else getattr(_rushlight, name).scalar_type

    def dtype(self) -> Any:
        name, torch = self.facts.dtype, sys.modules.get("torch", _rushlight)
        return None if name is None else getattr(torch, name)

    def with_dtype(self, dtype: Any) -> Type:
        return self._with(dtype=str(dtype).rpartition(".")[2], defined=1)

    def device(self) -> Any:
        name, torch = self.facts.device, sys.modules.get("torch")
        return torch.device(name) if torch and name else name

    def with_device(self, device: Any) -> Type:
        return self._with(device=None if device is None else str(device))

    def undefined(self) -> bool:
        """True if it is known to be the undefined tensor."""
        return self.facts.defined == 0

    def requires_grad(self) -> bool:
        """True if the tensor may require a gradient."""
        return self.facts.requires_grad != 0

    def isComplete(self) -> bool:
        return None not in (self.sizes(), self.strides(), self.scalarType(), self.device())


def _parsed(text: str) -> Any:
    return staticmethod(lambda: parse_type(text))


class ListType(_Of):
    """A list of one type of elements."""

    __slots__ = ()
    ofInts, ofFloats, ofBools = _parsed("int[]"), _parsed("float[]"), _parsed("bool[]")
    ofStrings, ofTensors = _parsed("str[]"), _parsed("Tensor[]")
    ofComplexDoubles = _parsed("complex[]")


class OptionalType(_Of):
    """A type, or None."""

    __slots__ = ()
    ofTensor = _parsed("Tensor?")


class DictType(Type):
    """A dict of one type of keys and one of values."""

    __slots__ = ()

    def __new__(cls, key: Type, value: Type) -> Type:
        return _type("DictType", [key, value])

    def getKeyType(self) -> Type:
        return self.containedTypes()[0]

    def getValueType(self) -> Type:
        return self.containedTypes()[1]


class TupleType(Type):
    """A tuple, perhaps with named fields."""

    __slots__ = ()

    def __new__(cls, elements: list[Type]) -> Type:
        return _type("TupleType", list(elements))

    def elements(self) -> list[Type]:
        return self.containedTypes()


class UnionType(Type):
    """One of several types."""

    __slots__ = ()

    def __new__(cls, types: list[Type]) -> Type:
        return _type("UnionType", list(types))


class _Named(Type):
    __slots__ = ()

    def name(self) -> str:
        return (self._name() or "").rpartition(".")[2]

    def qualified_name(self) -> str:
        return self._name() or ""


_written = (TensorType, ListType, OptionalType, DictType, TupleType, UnionType)
_classes: dict[str, type] = {cls.__name__: cls for cls in _written}
# Classes that have nothing of their own, by their base.
_OTHERS: dict[type, str] = {
    _Simple: """AnyType NoneType BoolType IntType FloatType ComplexType NumberType StringType
        DeviceObjType GeneratorType StorageType StreamObjType CapsuleType PyObjectType QuantizerType
        SymIntType SymFloatType SymBoolType AnyListType AnyTupleType AnyClassType AnyEnumType
        LayoutType ScalarTypeType MemoryFormatType QSchemeType""",
    _Of: "FutureType RRefType AwaitType",
    _Named: "ClassType InterfaceType EnumType",
}
for _base, _names in _OTHERS.items():
    for _name in _names.split():
        _body = {"__slots__": (), "__module__": __name__}
        _classes[_name] = globals()[_name] = type(_name, (_base,), _body)
        _classes[_name].__doc__ = f"The type of {_name.removesuffix('Type').lower()} values."
__all__ += sorted(_classes)


def install() -> None:
    """Add the methods above to the extension's types."""
    for to, of in ((Graph, _Graph), (Block, _Block), (Node, _Node), (Value, _Value)):
        for name, member in vars(of).items():
            if not name.startswith("__") or name in ("__iter__", "__str__"):
                setattr(to, name, member)
    _rushlight.register_types(_classes)
    for name in ("__str__", "__repr__"):  # as torch shows them
        setattr(Type, name, lambda self: self.annotation_str)


install()
