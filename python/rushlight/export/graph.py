"""Graphs of exported programs, with torch.fx's names: `GraphModule`, `Graph`, `Node`.

They are views of a program that was read: nodes cannot be changed, and there is one object for each
node, so that `is` and dicts work. Metadata is decoded when `meta` is first asked for.
"""

from __future__ import annotations

import dataclasses
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from .graph_signature import CustomObjArgument
from .operators import target_of
from .values import CustomObject, Expression, FakeTensor, SymBool, SymFloat, SymInt, leaf

_DELIMITER = ";"
_UNBACKED = re.compile(r"(u|zuf)\d+")
_PRODUCT = re.compile(r"(\w+)\*(\w+)")
_EQUALS_ONE = re.compile(r"Eq\((\w+), 1\)")


class _Fixed:
    """Refuses changes: what is written is the program as it was read."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"'{type(self).__name__}' object does not support mutation: a program that was read "
            "stays as it is"
        )

    __setitem__ = __delitem__ = __iadd__ = __imul__ = __ior__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    update = setdefault = popitem = _refuse


class immutable_list(_Fixed, list[Any]):  # type: ignore[misc]  # noqa: N801 -- torch's name
    """A list among the arguments of a node."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))


class immutable_dict(_Fixed, dict[Any, Any]):  # type: ignore[misc]  # noqa: N801
    """The named arguments of a node, or a dict among its arguments."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def _fixed(value: Any) -> Any:
    if isinstance(value, list):
        return immutable_list(_fixed(item) for item in value)
    if type(value) is tuple:
        return tuple(_fixed(item) for item in value)
    if isinstance(value, dict):
        return immutable_dict({key: _fixed(item) for key, item in value.items()})
    return value


# -- Nodes
# --------------------------------------------------------------------------------------------


class Node:
    """One step of a graph. `repr` is its name."""

    __slots__ = (
        "graph", "op", "name", "target", "args", "kwargs", "users", "all_input_nodes", "prev",
        "next", "_at", "_meta",
    )  # fmt: skip

    graph: Graph
    op: str  # placeholder, get_attr, call_function, output
    name: str
    target: Any  # a text, or of a call_function what it calls
    args: tuple[Any, ...]
    kwargs: immutable_dict
    users: dict[Node, None]  # nodes that use it, in the graph's order
    all_input_nodes: list[Node]
    prev: Node | None
    next: Node | None
    _at: Any
    _meta: dict[str, Any] | None

    def __init__(self, graph: Graph, at: Any, row: tuple[Any, ...]) -> None:
        put = object.__setattr__
        op, name, target, args, kwargs = row
        put(self, "graph", graph)
        put(self, "op", op)
        put(self, "name", name)
        put(self, "target", target_of(target) if op == "call_function" else target)
        put(self, "args", _fixed(args))
        put(self, "kwargs", _fixed(kwargs))
        put(self, "users", {})
        put(self, "all_input_nodes", [])
        put(self, "prev", graph._last)
        put(self, "next", None)
        put(self, "_at", at)
        put(self, "_meta", None)
        if graph._last is not None:
            put(graph._last, "next", self)
        graph._last = self
        for used in dict.fromkeys((*_nodes_in(self.args), *_nodes_in(self.kwargs))):
            used.users[self] = None
            self.all_input_nodes.append(used)

    def __setattr__(self, name: str, value: Any) -> None:
        raise NotImplementedError(
            f"a node of a program that was read cannot be changed (Node.{name})"
        )

    @property
    def type(self) -> None:
        """Always None: files have no types of nodes."""

    @property
    def meta(self) -> dict[str, Any]:
        """What is known beside the program: `val`, `stack_trace`, `nn_module_stack`, `torch_fn`,
        `from_node`, `custom`, `unbacked_bindings`. Changes are not written."""
        if self._meta is None:
            object.__setattr__(self, "_meta", self.graph._source.meta_of(self))
        return self._meta if self._meta is not None else {}

    @property
    def stack_trace(self) -> str | None:
        """The author's lines that made it, as a traceback's text."""
        return self.meta.get("stack_trace")

    def format_node(self) -> str:
        """Return its line of str(graph)."""
        lines = str(self.graph).splitlines()
        return lines[self.graph.nodes.index(self) + 1].strip()

    def __repr__(self) -> str:
        return self.name


def _nodes_in(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _nodes_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _nodes_in(item)


def map_arg(value: Any, change: Callable[[Node], Any]) -> Any:
    """Return an argument with `change(node)` in the place of each node."""
    if isinstance(value, Node):
        return change(value)
    if isinstance(value, list):
        return [map_arg(item, change) for item in value]
    if type(value) is tuple:
        return tuple(map_arg(item, change) for item in value)
    if isinstance(value, dict):
        return {key: map_arg(item, change) for key, item in value.items()}
    return value


class Graph:
    """The nodes of a program, or of a graph that a higher-order operator is given."""

    def __init__(self, source: _Source, at: Any) -> None:
        self._source, self._at = source, at
        self._last: Node | None = None
        self.owning_module: GraphModule | None = None
        nodes: list[Node] = []

        def make(node_at: Any, *row: Any) -> Node:
            node = Node(self, node_at, row)
            nodes.append(node)
            return node

        source.handle.walk(at, make, leaf)
        self._nodes = tuple(nodes)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes in the order of execution."""
        return self._nodes

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """Return the nodes of an `op`, of a call_function those of a target, in their order."""
        del sort  # they always are
        return [n for n in self._nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        """Return the last node."""
        return self._nodes[-1]

    def __str__(self) -> str:
        text: str = self._source.handle.text("graph", self._at)
        return text


class GraphModule:
    """A graph with the graphs inside it as submodules: `graph_module.true_graph_0`."""

    def __init__(self, source: _Source, at: Any) -> None:
        self._source = source
        self.graph = Graph(source, at)
        self.graph.owning_module = self
        self.meta: dict[str, Any] = {}
        self._modules = {
            name: GraphModule(source, inner) for name, inner in source.handle.subgraphs(at)
        }

    @property
    def code(self) -> str:
        """Python code of the graph."""
        text: str = self._source.handle.text("code", self.graph._at)
        return text

    def print_readable(self, print_output: bool = True) -> str:
        """Print and return code with shapes and the author's lines."""
        text: str = self._source.handle.text("readable", self.graph._at)
        if print_output:
            print(text)
        return text

    def named_children(self) -> Iterator[tuple[str, GraphModule]]:
        """Yield (name, graph module) of each graph inside."""
        yield from self._modules.items()

    def children(self) -> Iterator[GraphModule]:
        """Yield the graphs inside."""
        yield from self._modules.values()

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, GraphModule]]:
        """Yield (qualified name, graph module) of this one and all below."""
        yield prefix, self
        for name, inner in self._modules.items():
            yield from inner.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[GraphModule]:
        """Yield this one and all below."""
        for _, inner in self.named_modules():
            yield inner

    def get_submodule(self, target: str) -> GraphModule:
        """Return the graph module of a qualified name."""
        found = self
        for name in target.split(".") if target else ():
            found = getattr(found, name)
        return found

    def __getattr__(self, name: str) -> GraphModule:
        found = self.__dict__.get("_modules", {}).get(name)
        if found is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return found  # type: ignore[no-any-return]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._modules})

    def __repr__(self) -> str:
        return f"GraphModule({', '.join(self._modules)})"


# -- Metadata
# --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, repr=False)
class NodeSource:
    """From which node of an earlier graph a pass made a node."""

    name: str
    target: str
    graph_id: int
    pass_name: str
    action: str
    from_node: list[NodeSource]

    def print_readable(self, indent: int = 0) -> str:
        """Return its text, a line for each step."""
        if indent > 9:
            return ""
        own = (
            f"{' ' * 4 * indent}(name={self.name}, pass_name={self.pass_name}, "
            f"action={self.action}, graph_id={self.graph_id})\n"
        )
        return own + "".join(source.print_readable(indent + 1) for source in self.from_node)

    def __repr__(self) -> str:
        return self.print_readable()


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """A step of a path: an item of a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx}]"


@dataclasses.dataclass(frozen=True)
class CallMethodKey:
    """A step of a path: a method of a tensor, `size`."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}()"


@dataclasses.dataclass(frozen=True)
class DivideByKey:
    """A step of a path: the symbol is the number divided by this one."""

    divisor: Any

    def __str__(self) -> str:
        return f".__floordiv__({self.divisor})"


@dataclasses.dataclass(frozen=True)
class ConvertIntKey:
    """A step of a path: the symbol is the bool as an int."""

    def __str__(self) -> str:
        return ".cast_symbool_to_symint_guardless()"


def _source_of(data: Any) -> NodeSource:
    return NodeSource(
        str(data.get("name", "")),
        str(data.get("target", "")),
        data.get("graph_id", -1),
        str(data.get("pass_name", "")),
        str(data.get("action", "")),
        [_source_of(item) for item in data.get("from_node") or ()],
    )


def _split_entry(entry: str) -> list[str]:
    """Split "key,path,type" at commas outside of brackets."""
    parts, start, depth = [], 0, 0
    for end, letter in enumerate(entry):
        depth += (letter in "[(") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(entry[start:end])
            start = end + 1
    parts.append(entry[start:])
    if len(parts) != 3:
        raise ValueError(f"expected key,path,type in the module stack, found {entry!r}")
    return parts


def _module_stack(text: str) -> dict[str, tuple[str, str]]:
    entries = (_split_entry(entry) for entry in text.split(_DELIMITER))
    return {key: (path, cls) for key, path, cls in entries}


def _source_fn_stack(text: str) -> list[tuple[str, Any]]:
    entries = (entry.partition(",") for entry in text.split(_DELIMITER))
    return [(name, target if "." not in target else _named(target)) for name, _, target in entries]


def _named(target: str) -> Any:
    return target_of(target) if target.startswith("torch.ops.") else target


_DECODE: Mapping[str, Callable[[str], Any]] = {
    "stack_trace": str,
    "nn_module_stack": _module_stack,
    "source_fn_stack": _source_fn_stack,
    "torch_fn": lambda text: tuple(text.split(_DELIMITER)),
    "custom": json.loads,
    "from_node": lambda text: [_source_of(item) for item in json.loads(text)],
}


def _decoded(node: Node, key: str, text: Any) -> Any:
    try:
        return _DECODE[key](text)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{key} of the node '{node.name}' is damaged: {error}") from None


class _Source:
    """The program that graphs are read from."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.root: GraphModule | None = None
        self._vals: dict[Node, tuple[Any, ...]] = {}
        self._bindings: dict[Node, dict[Any, tuple[Any, ...]]] | None = None

    def val_of(self, node: Node) -> tuple[Any, ...]:
        found = self._vals.get(node)
        if found is None:
            found = self.handle.val(node._at, leaf)
            if found and isinstance(found[0], list):  # several results, as torch has them
                found = (tuple(found[0]),)
            elif found and isinstance(found[0], CustomObject):
                found = (CustomObjArgument(node.name, found[0].class_fqn),)
            self._vals[node] = found
        return found

    def meta_of(self, node: Node) -> dict[str, Any]:
        text = self.handle.metadata(node._at)
        told = json.loads(text) if text else {}
        if not isinstance(told, dict):
            raise ValueError(f"the metadata of the node '{node.name}' is damaged: {told!r:.40}")
        meta = {
            key: _decoded(node, key, told[key]) if key in _DECODE else told[key]
            for key in dict.fromkeys((*_DECODE, *told))
            if told.get(key)
        }
        if node.op == "call_function" and node.target is not operator.getitem:
            meta.setdefault("nn_module_stack", {})  # files leave out empty ones
        val = self.val_of(node)
        if val:
            meta["val"] = val[0]
        elif node.op == "output":
            meta["val"] = map_arg(node.args[0], lambda used: used.meta.get("val"))
        if self._bindings is None:
            self._bindings = self._find_bindings()
        if node in self._bindings:
            meta["unbacked_bindings"] = self._bindings[node]
        return meta

    def _find_bindings(self) -> dict[Node, dict[Any, tuple[Any, ...]]]:
        """Find where each symbol that depends on data first occurs."""
        pending = {name for name, _, _ in self.handle.ranges() if _UNBACKED.fullmatch(name)}
        found: dict[Node, dict[Any, tuple[Any, ...]]] = {}
        if pending and self.root is not None:
            self._bind_in(self.root, pending, found)
        return found

    def _bind_in(
        self, module: GraphModule, pending: set[str], found: dict[Node, dict[Any, tuple[Any, ...]]]
    ) -> None:
        for inner in module.children():  # first, as torch reads them
            self._bind_in(inner, pending, found)
        for node in module.graph.nodes:
            bound = dict(_symbols_in(self.val_of(node)[:1], (), pending))
            if bound:
                found[node] = {key: path[1:] for key, path in bound.items()}


def _symbols_in(
    value: Any, path: tuple[Any, ...], pending: set[str]
) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    if isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            yield from _symbols_in(item, (*path, SequenceKey(i)), pending)
    elif isinstance(value, FakeTensor):
        yield from _symbols_in(value.shape, (*path, CallMethodKey("size")), pending)
        yield from _symbols_in(value.stride(), (*path, CallMethodKey("stride")), pending)
    elif isinstance(value, (SymInt, SymFloat, SymBool)):
        yield from _symbol_in(value, path, pending)


def _symbol_in(
    value: SymInt | SymFloat | SymBool, path: tuple[Any, ...], pending: set[str]
) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield the symbol that a number determines: u0 of u0, of 2*u0, of the bool Eq(u0, 1)."""
    text = value.node.expr
    if isinstance(value, SymBool):
        equal = _EQUALS_ONE.fullmatch(text)
        found, path = (equal[1] if equal else ""), (*path, ConvertIntKey())
    elif (product := _PRODUCT.fullmatch(text)) and (product[1] in pending) ^ (
        product[2] in pending
    ):
        found, other = product[2], product[1]
        if other in pending:
            found, other = other, found
        path = (*path, DivideByKey(int(other) if other.isdigit() else Expression(other)))
    else:
        found = text
    if found in pending:
        pending.discard(found)
        yield Expression(found), path


def read_graphs(handle: Any) -> GraphModule:
    """Make the graph module of a program."""
    source = _Source(handle)
    source.root = GraphModule(source, handle.graph())
    return source.root
