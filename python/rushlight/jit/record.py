"""What a trace becomes: nodes in frames, one frame for each call of a submodule, and their text.

A frame's nodes may use values of any other frame.  `functions` turns the tree of frames into
functions that call each other: what a frame uses from outside becomes its arguments, what others
use of it its results.  Parameters, buffers and submodules are values too (`attribute`): a frame of
the module `a.b` finds `a.b.w` in itself, and is given `c.w`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any


class Value:
    """What a node gives.  `number`: its name when it has no other; `path`: an attribute of the
    traced module."""

    __slots__ = ("frame", "name", "node", "number", "path", "type")

    def __init__(
        self, type: str, frame: Frame | None, name: str | None = None, number: int = 0
    ) -> None:
        self.type, self.frame, self.name, self.number = type, frame, name, number
        self.node: Node | None = None
        self.path: str | None = None

    @property
    def plain_type(self) -> str:
        """Without what is known of tensors' dtypes and sizes."""
        return erase(self.type)


WITHOUT_PLACE = {"aten::Int", "aten::Float", "aten::Bool", "aten::ScalarImplicit"}


def place(where: str) -> str:
    """The innermost frame, "f.py(7): f", as graphs show it: "f.py:7:0"."""
    file, _, line = where.partition("\n")[0].rpartition("): ")[0].rpartition("(")
    return f"{file}:{line}:0" if file else ""


class Node:
    """`attributes` as the text has them: 'name="forward"'.  `constant`: index of the tensor that a
    prim::Constant is. `tied`: values of one memory, when nothing else is written to.  `where`:
    Python's frames, innermost first, a line each. `host`: of a call of Python, the function that
    makes it and what it is given beside tensors."""

    __slots__ = (
        *(
            "attributes",
            "constant",
            "frame",
            "host",
            "inputs",
            "is_random",
            "kind",
            "mutates",
            "outputs",
            "tied",
            "where",
        ),
    )

    def __init__(
        self, kind: str, inputs: list[Value], attributes: str = "", where: str = ""
    ) -> None:
        self.kind, self.inputs, self.attributes, self.where = kind, inputs, attributes, where
        self.outputs: list[Value] = []
        self.mutates = self.is_random = False
        self.constant: int | None = None
        self.tied: list[Value] | None = None
        self.host: tuple[str, str] | None = None


class Frame:
    """One call of the module at `path` ("" is the traced one), or a task: then `future` is its
    result.  `loads`: what it finds in its module, by path; `found`: the same in the order of the
    text, each with the value that it is an attribute of."""

    __slots__ = (
        "found",
        "future",
        "inputs",
        "is_task",
        "items",
        "loads",
        "me",
        "method",
        "outputs",
        "parent",
        "path",
    )

    def __init__(self, path: str, parent: Frame | None, is_task: bool = False) -> None:
        self.path, self.parent, self.is_task = path, parent, is_task
        self.future: Value | None = None
        self.me = Value("", self)
        self.loads: dict[str, Value] = {}
        self.found: list[tuple[Value, Value]] = []
        self.items: list[Node | Frame] = []
        self.inputs: dict[Value, None] = {}
        self.outputs: dict[Value, None] = {}
        self.method = "forward"

    def owns(self, path: str) -> bool:
        """Is this path the frame's module, or inside it?"""
        return not self.is_task and (
            not self.path or path == self.path or path.startswith(self.path + ".")
        )


def erase(type: str) -> str:
    """ "(Float(2, strides=[1]), Long())" is "(Tensor, Tensor)"."""
    made, i = "", 0
    while i < len(type):
        start = i
        while i < len(type) and (type[i].isalnum() or type[i] in "_.:"):
            i += 1
        word = type[start:i]
        if word and i < len(type) and type[i] == "(" and word in SCALAR_TYPES:
            depth = 0
            while True:
                depth += {"(": 1, ")": -1}.get(type[i], 0)
                i += 1
                if depth == 0:
                    break
            made += "Tensor"
        elif word:
            made += word
        else:
            made += type[i]
            i += 1
    return made


SCALAR_TYPES = {
    "Byte",
    "Char",
    "Short",
    "Int",
    "Long",
    "Half",
    "Float",
    "Double",
    "ComplexHalf",
    "ComplexFloat",
    "ComplexDouble",
    "Bool",
    "QInt8",
    "QUInt8",
    "QInt32",
    "BFloat16",
    "UInt16",
    "UInt32",
    "UInt64",
    "Float8_e5m2",
    "Float8_e4m3fn",
}


class Record:
    """A trace that grows.  Nodes go into the frame that is open.  Names and numbers are PyTorch's:
    each value takes a number when it is made; a name that is given again leaves a suffix to the
    value that had it."""

    def __init__(self) -> None:
        self.is_method = False  # is a module traced?
        self.root = self.frame = Frame("", None)
        self.inputs: list[Value] = []
        self.constants: list[Any] = []  # tensors, by Node.constant
        self.attributes: dict[str, Value] = {}
        self.n_values = 0
        self.owners: dict[str, Value] = {}  # by name
        self.suffixes: dict[str, int] = {}
        self.is_finished = self.is_counted = False
        self.n_calls: Counter[str] = Counter()  # of each module

    # -- Growing
    # ---------------------------------------------------------------------------------------------

    def open(self, path: str) -> None:
        frame = Frame(path, self.frame)
        self.frame.items.append(frame)
        self.frame = frame

    def open_task(self) -> None:
        frame = Frame(self.frame.path, self.frame, True)
        self.frame.items.append(frame)
        self.frame = frame

    def close_task(self, output: Value) -> Value:
        """The future of its output."""
        task = self.frame
        task.outputs[output] = None
        self.close()
        task.future = self.value(f"Future[{output.type}]", self.frame)
        return task.future

    def close(self) -> None:
        assert self.frame.parent is not None
        self.frame = self.frame.parent

    def value(self, type: str, frame: Frame) -> Value:
        self.n_values += 1
        return Value(type, frame, None, self.n_values - 1)

    def set_name(self, value: Value, name: str) -> None:
        """The value that had the name so far gets it with a number."""
        other = self.owners.get(name)
        if other is not None and other is not value:
            base, _, tail = name.rpartition(".")
            base, suffix = (base, int(tail)) if base and tail.isdigit() else (name, 1)
            suffix = max(suffix, self.suffixes.get(base, 0) + 1)
            while f"{base}.{suffix}" in self.owners:
                suffix += 1
            self.suffixes[base] = suffix + 1
            other.name = f"{base}.{suffix}"
            self.owners[other.name] = other
        value.name = name
        self.owners[name] = value

    def input(self, name: str | None, type: str) -> Value:
        value = self.value(type, self.root)
        if name and _is_plain(name):
            self.set_name(value, name)
        self.inputs.append(value)
        return value

    def node(
        self,
        kind: str,
        inputs: list[Value],
        types: list[str],
        attributes: str = "",
        where: str = "",
        after: Value | None = None,
    ) -> Node:
        """At the end of the open frame, or just behind what gives `after`."""
        has_place = kind not in WITHOUT_PLACE and (
            not kind.startswith("prim::") or (kind == "prim::Constant" and attributes)
        )
        node = Node(kind, inputs, attributes, where if has_place else "")
        node.frame = frame = self.frame if after is None or after.frame is None else after.frame
        for type in types:
            value = self.value(type, frame)
            value.node = node
            node.outputs.append(value)
        if after is None or after.frame is None:
            frame.items.append(node)
        else:
            frame.items.insert(
                frame.items.index(after.node) + 1 if after.node is not None else 0, node
            )
        return node

    def one(
        self,
        kind: str,
        inputs: list[Value],
        type: str,
        attributes: str = "",
        where: str = "",
        after: Any = None,
    ) -> Value:
        return self.node(kind, inputs, [type], attributes, where, after).outputs[0]

    def literal(self, type: str, text: str | None, where: str = "") -> Value:
        """A constant of a type that the text can show."""
        return self.one("prim::Constant", [], type, "" if text is None else f"value={text}", where)

    def tensor(self, tensor: Any, type: str, where: str = "") -> Value:
        """A constant tensor."""
        value = self.one("prim::Constant", [], type, "value=<Tensor>", where)
        assert value.node is not None
        value.node.constant = len(self.constants)
        self.constants.append(tensor)
        return value

    def attribute(self, path: str, type: str) -> Value:
        """What is found in the traced module by this path; a submodule has no type yet."""
        if path not in self.attributes:
            value = self.attributes[path] = Value(type, None)
            value.path = path
        return self.attributes[path]

    # -- Reading
    # ---------------------------------------------------------------------------------------------

    def nodes(self, frame: Frame | None = None) -> Iterator[Node]:
        """All nodes in the order in which they were recorded."""
        for item in (frame or self.root).items:
            if isinstance(item, Frame):
                yield from self.nodes(item)
            else:
                yield item

    # -- Finishing
    # ---------------------------------------------------------------------------------------------

    def drop_dead(self, output: Value) -> None:
        """Nodes that give nothing to anybody, and write to nothing that anybody reads; calls that
        are empty then."""
        nodes = list(self.nodes())
        memory = _Memory(nodes)
        given = [v for f in _frames(self.root) if f.is_task for v in f.outputs]
        used, dead = {output, *given}, set(nodes)
        seen = {memory.of(v) for v in (*used, *self.inputs)}
        n = -1
        while n != len(dead):
            n = len(dead)
            for node in reversed(nodes):
                if node in dead and (
                    any(v in used for v in node.outputs) or memory.is_seen(node, seen)
                ):
                    dead.discard(node)
                    used.update(node.inputs)
                    seen.update(memory.of(v) for v in node.inputs)

        def sweep(frame: Frame) -> None:
            for item in frame.items:
                if isinstance(item, Frame):
                    sweep(item)
            frame.items = [
                i
                for i in frame.items
                if (i.items or i.is_task if isinstance(i, Frame) else i not in dead)
            ]

        sweep(self.root)
        for node in dead:
            for value in node.outputs:
                if value.name is not None:
                    del self.owners[value.name]

    def share(self, value: Value, frame: Frame) -> None:
        """`frame` uses `value`: arguments and results of the calls between."""
        if value.path is not None:
            while not frame.owns(value.path):
                assert frame.parent is not None
                frame.inputs[value] = None
                frame = frame.parent
            return
        source, user = value.frame, frame
        assert source is not None
        while source is not user:
            if _is_inside(user, source):
                user.inputs[value] = None
                assert user.parent is not None
                user = user.parent
            else:
                source.outputs[value] = None
                assert source.parent is not None
                source = source.parent

    def connect(self, frame: Frame) -> None:
        """Inputs and outputs of all frames."""
        for item in frame.items:
            if isinstance(item, Frame):
                self.connect(item)
                if item.is_task:
                    for value in item.outputs:
                        self.share(value, item)
                else:
                    self.share(self.attribute(item.path, ""), frame)
            else:
                for value in item.inputs:
                    self.share(value, frame)

    def name_methods(self, frame: Frame, name: Any) -> None:
        """forward, forward1 ..."""
        for item in frame.items:
            if isinstance(item, Frame):
                item.method = name(None, "fork") if item.is_task else name(item.path, "forward")
                self.name_methods(item, name)

    def name_selves(self, frame: Frame) -> None:
        if not frame.is_task:
            self.set_name(frame.me, "self")
        for item in frame.items:
            if isinstance(item, Frame):
                self.name_selves(item)

    def resolve(self, frame: Frame, outputs: Any) -> None:
        """What a frame finds in its module: what is used last stands first, above all else."""
        for item in frame.items:
            if isinstance(item, Frame):
                self.resolve(item, item.outputs)
                if not item.is_task and frame.owns(item.path):
                    self.load(frame, item.path)
                self.load_all(frame, item.inputs)
            else:
                self.load_all(frame, item.inputs)
        self.load_all(frame, outputs)

    def load_all(self, frame: Frame, values: Any) -> None:
        for value in values:
            if value.path is not None and frame.owns(value.path):
                self.load(frame, value.path)

    def load(self, frame: Frame, path: str) -> None:
        if path in frame.loads or path == frame.path:
            return
        owner, at, found = frame.me, frame.path, []
        for name in path[len(frame.path) :].lstrip(".").split("."):
            at = f"{at}.{name}" if at else name
            holder = Value(self.attribute(at, "").type, frame)
            holder.path = at
            self.set_name(
                holder, name if _is_plain(name) else re.sub(r"\W", "_", f"_{name}", flags=re.A)
            )
            found.append((holder, owner))
            owner = holder
        frame.found[:0] = found
        frame.loads[path] = owner

    def finish(self, output: Value) -> None:
        """Nothing more is recorded."""
        if self.is_finished:
            return
        self.is_finished = True
        self.drop_dead(output)
        self.connect(self.root)
        self.share(output, self.root)
        if self.is_method:
            self.name_selves(self.root)
        self.resolve(self.root, [output])
        frames = [f for f in _frames(self.root) if not f.is_task]
        self.n_values += (
            sum(1 + len(f.found) + len(f.inputs) for f in frames) - 1 - len(self.root.inputs)
        )

    def functions(
        self, output: Value, module_type: Any, name: Any = None, is_counted: bool = False
    ) -> list[Function]:
        """Callees first; the last one is the traced function itself.  module_type(path) names a
        module's type, name(path, wanted) a method of it that is not there yet, or (for no path) a
        function.  is_counted: values are numbered as they come."""
        self.finish(output)
        self.is_counted = is_counted
        self.name_methods(self.root, name or _counted())
        self.n_calls = Counter(frame.path for frame in _frames(self.root) if not frame.is_task)
        made: list[Function] = []
        self._finish(self.root, [output], module_type, made)
        return made

    def _finish(
        self, frame: Frame, outputs: list[Value], module_type: Any, made: list[Function]
    ) -> None:
        for item in frame.items:
            if isinstance(item, Frame):
                self._finish(item, list(item.outputs), module_type, made)
        inputs = self.inputs if frame is self.root else list(frame.inputs)
        made.append(Function(self, frame, inputs, outputs, module_type))


class _Memory:
    """Which values may be of one memory."""

    CONTAINERS = (
        *(
            "prim::ListConstruct",
            "prim::TupleConstruct",
            "prim::DictConstruct",
            "prim::ListUnpack",
            "prim::TupleUnpack",
        ),
        "aten::__getitem__",
    )

    def __init__(self, nodes: list[Node]) -> None:
        self.parents: dict[Value, Value] = {}
        for node in nodes:
            tied = node.tied or []
            if node.kind in self.CONTAINERS:
                tied = [*node.inputs, *node.outputs]
            for value in tied[1:]:
                self.parents[self.of(value)] = self.of(tied[0])

    def of(self, value: Value) -> Value:
        while (above := self.parents.get(value, value)) is not value:
            value = above
        return value

    def is_seen(self, node: Node, seen: set[Value]) -> bool:
        """Does it write to what is seen: by others, or from outside?"""
        if not node.mutates or node.tied is None:
            return node.mutates
        return any(v.path is not None or self.of(v) in seen for v in node.tied)


def _frames(frame: Frame) -> Iterator[Frame]:
    yield frame
    for item in frame.items:
        if isinstance(item, Frame):
            yield from _frames(item)


def quoted(text: str) -> str:
    """A text as graphs have it."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(escapes.get(c, c) for c in text) + '"'


def _is_plain(name: str) -> bool:
    """May graph text have it as a value's name?"""
    return name.isascii() and name.isidentifier()


def scope(path: str) -> str:
    """Of nodes of the module "a.b": "__module.a/__module.a.b"."""
    names = path.split(".")
    return "/".join("__module." + ".".join(names[: i + 1]) for i in range(len(names)))


def _counted() -> Any:
    """forward, forward1, forward2 ... of each module."""
    calls: dict[str | None, int] = {}

    def name(path: str | None, wanted: str) -> str:
        n = calls[path] = calls.get(path, -1) + 1
        return f"{wanted}{n}" if n else wanted

    return name


def _is_inside(frame: Frame, outer: Frame) -> bool:
    at: Frame | None = frame
    while at is not None and at is not outer:
        at = at.parent
    return at is outer


class Function:
    """One frame as a function: `text` is its graph, comments of which say where in Python a node
    comes from (ir_parse_traced), `constants` the tensors of its prim::Constants in order."""

    def __init__(
        self,
        record: Record,
        frame: Frame,
        inputs: list[Value],
        outputs: list[Value],
        module_type: Any,
    ) -> None:
        self.record, self.frame, self.module_type = record, frame, module_type
        self.path, self.name = frame.path, frame.method
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.lines: list[str] = []
        self.line_of: dict[Node, str] = {}
        self.shown: dict[
            str, tuple[str, str]
        ] = {}  # by line: the same without what is our own, and where it comes from
        self.constants: list[Any] = []
        self.is_root = frame is record.root and not record.is_counted
        self.n_values = 0
        self.scope = f", scope: {scope(frame.path)}" if frame.path else ""
        self.last = record.n_values if self.is_root else self.count(frame, inputs)
        parameters = (
            [f"{self.define(frame.me)} : {module_type(frame.path)}"] if self.has_self() else []
        )
        self.left = dict.fromkeys(inputs)  # inputs without a name
        if not self.has_self() or frame is record.root or record.n_calls[frame.path] > 1:
            self.define_inputs(inputs)
        for holder, owner in frame.found:
            name = (holder.path or "").rpartition(".")[2]
            made = (
                f'{self.define(holder)} : {holder.type or module_type(holder.path)} = '
                f'prim::GetAttr[name="{name}"]'
            )
            self.lines.append(f"{made}({self.names[owner]})")
        for item in frame.items:
            if isinstance(item, Frame):
                self.call(item)
            else:
                self.add(item)
        result = self.result(outputs)
        self.define_inputs(list(self.left))
        parameters += [f"{self.names[v]} : {v.type or module_type(v.path)}" for v in inputs]
        self.head, self.last_line = (
            "graph(" + ",\n      ".join(parameters) + "):\n",
            f"  return ({result})\n",
        )
        self.text = self.head + "".join(f"  {line}\n" for line in self.lines) + self.last_line

    @staticmethod
    def count(frame: Frame, inputs: list[Value]) -> int:
        """How many values there are before the results of calls."""
        n = (not frame.is_task) + len(inputs) + len(frame.found)
        return n + sum(len(item.outputs) for item in frame.items)

    def has_self(self) -> bool:
        return self.record.is_method and not self.frame.is_task

    def define(self, value: Value, is_named: bool = True) -> str:
        name = value.name if is_named else None
        if name is None:
            name = str(value.number) if self.is_root and value.path is None else str(self.n_values)
        while name in self.taken:
            self.last += 1
            name = f"{value.name}.{self.last}" if value.name else str(self.last)
        self.n_values += 1
        self.taken.add(name)
        self.names[value] = "%" + name
        return "%" + name

    def define_inputs(self, values: list[Value]) -> None:
        """In PyTorch what is given to a method gets its number behind the node that uses it
        first."""
        for value in values:
            del self.left[value]
            self.define(value, value.frame is None or _is_inside(self.frame, value.frame))

    def fresh(self) -> str:
        self.last += 1
        return f"%{self.last - 1}"

    def use(self, value: Value) -> str:
        if value in self.left:
            self.define_inputs([value])
        if value not in self.names:
            assert value.path is not None
            self.names[value] = self.names[
                self.frame.loads[value.path] if value.path != self.path else self.frame.me
            ]
        return self.names[value]

    def add(self, node: Node) -> None:
        if node.constant is not None:
            self.constants.append(self.record.constants[node.constant])
        attributes = f"[{node.attributes}]" if node.attributes else ""
        callee = []
        if node.kind == "prim::CallFunction":  # as in PyTorch, the function is a value
            number = node.outputs[0].number - 1 if self.is_root else self.n_values
            self.n_values += 1
            self.lines.append(f"%{number} : Function = prim::Constant{attributes}()")
            callee, attributes = [f"%{number}"], ""
        outputs = ", ".join(f"{self.define(v)} : {v.type}" for v in node.outputs)
        inputs = callee + [self.use(v) for v in node.inputs]
        made = shown = f"{outputs} = {node.kind}{attributes}({', '.join(inputs)})"
        if node.host is not None:
            name, scalars = node.host
            shown = shown.replace("]", f"]({scalars})", 1)
            told = (
                f"[name={quoted(name)}, _attrs={quoted(node.attributes)}, "
                f"_scalars={quoted(scalars)}]"
            )
            made = made.replace(attributes, told, 1)
        self.line_of[node] = f"{shown} # {place(node.where)}" if node.where else shown
        frames = node.where.rstrip("\n").replace("\n", "\v")
        self.lines.append(f"{made}{self.scope} # {frames}" if frames else made + self.scope)
        self.shown[self.lines[-1]] = shown, node.where

    def fork(self, task: Frame) -> None:
        assert task.future is not None
        inputs = ", ".join(self.use(v) for v in task.inputs)
        self.n_values += 1
        self.names[task.future] = made = self.fresh()
        self.lines.append(
            f'{made} : {task.future.type} = prim::fork[name="{task.method}"]({inputs})'
        )

    def call(self, frame: Frame) -> None:
        if frame.is_task:
            return self.fork(frame)
        outputs = list(frame.outputs)
        self.n_values += len(outputs) == 1
        owner = self.use(self.record.attribute(frame.path, ""))
        inputs = ", ".join([owner, *(self.use(v) for v in frame.inputs)])
        made = f'prim::CallMethod[name="{frame.method}"]({inputs})'
        several = self.fresh()
        if len(outputs) == 1:
            self.names[outputs[0]] = several
            self.lines.append(f"{several} : {outputs[0].plain_type} = {made}")
            return
        types = f"({', '.join(v.plain_type for v in outputs)})" if outputs else "NoneType"
        self.lines.append(f"{several} : {types} = {made}")
        if outputs:
            unpacked = ", ".join(f"{self.define(v)} : {v.type}" for v in outputs)
            self.lines.append(f"{unpacked} = prim::TupleUnpack({several})")

    def result(self, outputs: list[Value]) -> str:
        if len(outputs) == 1:
            return self.use(outputs[0])
        made = self.fresh()
        if not outputs:
            self.lines.append(f"{made} : NoneType = prim::Constant()")
            return made
        inputs = ", ".join(self.use(v) for v in outputs)
        self.lines.append(
            f"{made} : ({', '.join(v.plain_type for v in outputs)}) = "
            f"prim::TupleConstruct({inputs})"
        )
        return made
