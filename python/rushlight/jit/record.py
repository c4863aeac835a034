"""What a trace becomes: nodes in frames, one frame for each call of a submodule, and their text.

A frame's nodes may use values of any other frame.  `functions` turns the tree of frames into functions that call each
other: what a frame uses from outside becomes its arguments, what others use of it its results.  Parameters, buffers and
submodules are values too (`attribute`): a frame of the module `a.b` finds `a.b.w` in itself, and is given `c.w`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Value:
    """What a node gives.  `constant`: index of a tensor; `path`: an attribute of the traced module."""

    __slots__ = ("constant", "frame", "name", "node", "path", "type")

    def __init__(self, type: str, frame: Frame | None, name: str | None = None) -> None:
        self.type, self.frame, self.name = type, frame, name
        self.node: Node | None = None
        self.constant: int | None = None
        self.path: str | None = None

    @property
    def plain_type(self) -> str:
        """Without what is known of tensors' dtypes and sizes."""
        return erase(self.type)


class Node:
    """`attributes` as the text has them: 'name="forward"'."""

    __slots__ = ("attributes", "inputs", "is_random", "kind", "mutates", "outputs", "where")

    def __init__(self, kind: str, inputs: list[Value], attributes: str = "", where: str = "") -> None:
        self.kind, self.inputs, self.attributes, self.where = kind, inputs, attributes, where
        self.outputs: list[Value] = []
        self.mutates = self.is_random = False


class Frame:
    """One call of the module at `path` ("" is the traced one)."""

    __slots__ = ("inputs", "items", "method", "outputs", "parent", "path")

    def __init__(self, path: str, parent: Frame | None) -> None:
        self.path, self.parent = path, parent
        self.items: list[Node | Frame] = []
        self.inputs: dict[Value, None] = {}
        self.outputs: dict[Value, None] = {}
        self.method = "forward"

    def owns(self, path: str) -> bool:
        """Is this path the frame's module, or inside it?"""
        return not self.path or path == self.path or path.startswith(self.path + ".")


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
    """A trace that grows.  Nodes go into the frame that is open."""

    def __init__(self) -> None:
        self.root = self.frame = Frame("", None)
        self.inputs: list[Value] = []
        self.constants: list[Any] = []  # tensors, by Value.constant
        self.attributes: dict[str, Value] = {}

    # -- Growing ---------------------------------------------------------------------------------------------

    def open(self, path: str) -> None:
        frame = Frame(path, self.frame)
        self.frame.items.append(frame)
        self.frame = frame

    def close(self) -> None:
        assert self.frame.parent is not None
        self.frame = self.frame.parent

    def input(self, name: str | None, type: str) -> Value:
        value = Value(type, self.root, name)
        self.inputs.append(value)
        return value

    def node(self, kind: str, inputs: list[Value], types: list[str], attributes: str = "", where: str = "") -> Node:
        node = Node(kind, inputs, attributes, where)
        for type in types:
            value = Value(type, self.frame)
            value.node = node
            node.outputs.append(value)
        self.frame.items.append(node)
        return node

    def one(self, kind: str, inputs: list[Value], type: str, attributes: str = "", where: str = "") -> Value:
        return self.node(kind, inputs, [type], attributes, where).outputs[0]

    def literal(self, type: str, text: str | None, where: str = "") -> Value:
        """A constant of a type that the text can show."""
        return self.one("prim::Constant", [], type, "" if text is None else f"value={text}", where)

    def tensor(self, tensor: Any, type: str) -> Value:
        """A constant tensor: a node of its own in each function that uses it."""
        value = Value(type, None)
        value.constant = len(self.constants)
        self.constants.append(tensor)
        return value

    def attribute(self, path: str, type: str) -> Value:
        """What is found in the traced module by this path; a submodule has no type yet."""
        if path not in self.attributes:
            value = self.attributes[path] = Value(type, None, path.rpartition(".")[2])
            value.path = path
        return self.attributes[path]

    # -- Reading ---------------------------------------------------------------------------------------------

    def nodes(self, frame: Frame | None = None) -> Iterator[Node]:
        """All nodes in the order in which they were recorded."""
        for item in (frame or self.root).items:
            if isinstance(item, Frame):
                yield from self.nodes(item)
            else:
                yield item

    # -- Finishing ---------------------------------------------------------------------------------------------

    def drop_dead(self, output: Value) -> None:
        """Nodes that give nothing to anybody and write to nothing; calls that are empty then."""
        used, dead = {output}, set()
        for node in reversed(list(self.nodes())):
            if node.mutates or any(v in used for v in node.outputs):
                used.update(node.inputs)
            else:
                dead.add(node)

        def sweep(frame: Frame) -> None:
            for item in frame.items:
                if isinstance(item, Frame):
                    sweep(item)
            frame.items = [i for i in frame.items if (i.items if isinstance(i, Frame) else i not in dead)]

        sweep(self.root)

    def share(self, value: Value, frame: Frame) -> None:
        """`frame` uses `value`: arguments and results of the calls between."""
        if value.constant is not None:
            return
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

    def connect(self, frame: Frame, name: Any) -> None:
        """Inputs and outputs of all frames; names of their methods: forward, forward1 ..."""
        for item in frame.items:
            if isinstance(item, Frame):
                item.method = name(item.path, "forward")
                self.connect(item, name)
                self.share(self.attribute(item.path, ""), frame)
            else:
                for value in item.inputs:
                    self.share(value, frame)

    def functions(self, output: Value, module_type: Any, is_method: bool, name: Any = None) -> list[Function]:
        """Callees first; the last one is the traced function itself.  module_type(path) names a module's type,
        name(path, wanted) a method of it that is not there yet."""
        self.drop_dead(output)
        self.connect(self.root, name or _counted())
        self.share(output, self.root)
        made: list[Function] = []
        self._finish(self.root, [output], module_type, is_method, made)
        return made

    def _finish(self, frame: Frame, outputs: list[Value], module_type: Any, is_method: bool, made: list[Function]) -> None:
        for item in frame.items:
            if isinstance(item, Frame):
                self._finish(item, list(item.outputs), module_type, True, made)
        inputs = self.inputs if frame is self.root else list(frame.inputs)
        made.append(Function(self, frame, inputs, outputs, module_type, is_method))


def _counted() -> Any:
    """forward, forward1, forward2 ... of each module."""
    calls: dict[str, int] = {}

    def name(path: str, wanted: str) -> str:
        n = calls[path] = calls.get(path, -1) + 1
        return f"{wanted}{n}" if n else wanted

    return name


def _is_inside(frame: Frame, outer: Frame) -> bool:
    at: Frame | None = frame
    while at is not None and at is not outer:
        at = at.parent
    return at is outer


class Function:
    """One frame as a function: `text` is its graph, `constants` the tensors of its prim::Constants in order."""

    def __init__(
        self, record: Record, frame: Frame, inputs: list[Value], outputs: list[Value], module_type: Any, is_method: bool
    ) -> None:
        self.record, self.frame, self.module_type = record, frame, module_type
        self.path, self.name = frame.path, frame.method
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.lines: list[str] = []
        self.line_of: dict[Node, str] = {}
        self.constants: list[Any] = []
        self.loaded: dict[str, str] = {}
        self.n = 0
        parameters = [f"%self : {module_type(frame.path)}"] if is_method else []
        self.taken.add("self")
        self.arguments: list[str] = []
        for value in inputs:
            self.arguments.append(self.define(value))
            parameters.append(f"{self.arguments[-1]} : {value.type or module_type(value.path)}")
        for item in frame.items:
            if isinstance(item, Frame):
                self.call(item)
            else:
                self.add(item)
        result = self.result(outputs)
        head = ",\n      ".join(parameters)
        body = "".join(f"  {line}\n" for line in self.lines)
        self.text = f"graph({head}):\n{body}  return ({result})\n"

    def define(self, value: Value) -> str:
        name = value.name
        if name and not name.isidentifier():
            name = None
        if name:
            base, i = name, 0
            while name in self.taken:
                i += 1
                name = f"{base}.{i}"
            self.taken.add(name)
        else:
            self.n += 1
            name = str(self.n)
        self.names[value] = "%" + name
        return "%" + name

    def fresh(self) -> str:
        self.n += 1
        return f"%{self.n}"

    def load(self, path: str, type: str) -> str:
        """The attribute at `path`, by prim::GetAttrs from self."""
        rest = path[len(self.frame.path) :].lstrip(".") if self.frame.path else path
        if not rest:
            return "%self"
        if path not in self.loaded:
            above, _, name = path.rpartition(".")
            owner = "%self" if above == self.frame.path else self.load(above, self.module_type(above))
            holder = Value(type, None, name)
            self.lines.append(f'{self.define(holder)} : {type} = prim::GetAttr[name="{name}"]({owner})')
            self.loaded[path] = self.names[holder]
        return self.loaded[path]

    def use(self, value: Value) -> str:
        if value in self.names:
            return self.names[value]
        if value.path is not None:
            self.names[value] = self.load(value.path, value.type or self.module_type(value.path))
        elif value.constant is not None:
            self.constants.append(self.record.constants[value.constant])
            made = self.define(value)
            self.lines.append(f"{made} : {value.type} = prim::Constant[value=<Tensor>]()")
        return self.names[value]

    def add(self, node: Node) -> None:
        inputs = ", ".join([self.use(v) for v in node.inputs])
        outputs = ", ".join(f"{self.define(v)} : {v.type}" for v in node.outputs)
        attributes = f"[{node.attributes}]" if node.attributes else ""
        where = f" # {node.where}" if node.where else ""
        self.line_of[node] = f"{outputs} = {node.kind}{attributes}({inputs}){where}"
        self.lines.append(self.line_of[node])

    def call(self, frame: Frame) -> None:
        owner = self.use(self.record.attribute(frame.path, ""))
        inputs = ", ".join([owner, *(self.use(v) for v in frame.inputs)])
        outputs = list(frame.outputs)
        made = f'prim::CallMethod[name="{frame.method}"]({inputs})'
        if len(outputs) == 1:
            self.lines.append(f"{self.define(outputs[0])} : {outputs[0].plain_type} = {made}")
            return
        several = self.fresh()
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
        self.lines.append(f"{made} : ({', '.join(v.plain_type for v in outputs)}) = prim::TupleConstruct({inputs})")
        return made
