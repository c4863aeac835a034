"""Graphs over the border to torch: torch._C.Graph takes part in torch's passes and tools, ours in ours."""

from __future__ import annotations

import re
from typing import Any

from ._rushlight import Graph, parse_ir

_NO_RESULT = re.compile(r"^( +) = ", re.MULTILINE)  # torch prints these so, and does not read them
_TENSOR = re.compile(r"^.* : \w+\([^)]*\) = prim::Constant\[value=(?!\{)", re.MULTILINE)
_WARNING = re.compile(r"^ +aten::warn\(.*\n", re.MULTILINE)  # torch runs them with a source range only, which texts do not have
_LIST = re.compile(r"^( +)(%[\w.]+ : (int|float|bool)\[\]) = prim::Constant\[value=\[([^\]]*)\]\]\(\)", re.MULTILINE)


def _list_text(found: re.Match[str]) -> str:
    """A list as torch reads one: made of its items."""
    indent, head, of, inside = found.groups()
    items = [item.strip() for item in inside.split(",") if item.strip()]
    names = [f"%item_{found.start()}_{i}" for i in range(len(items))]
    lines = [f"{indent}{name} : {of} = prim::Constant[value={item}]()" for name, item in zip(names, items, strict=True)]
    return "\n".join([*lines, f"{indent}{head} = prim::ListConstruct({', '.join(names)})"])


def to_torch(graph: Graph) -> Any:
    """A torch._C.Graph of the same text, calls inlined, without warnings.  Tensors inside of it have no text: RuntimeError."""
    import torch

    inlined = graph.copy()
    inlined.run_pass("inline")
    text = _LIST.sub(_list_text, _WARNING.sub("", _NO_RESULT.sub(r"\1", str(inlined))))
    if "<Tensor>" in text or _TENSOR.search(text):
        raise RuntimeError("a graph with tensors as constants has no text that torch reads")
    return torch._C.parse_ir(text, parse_tensor_constants=True)


def _fill(to: Any, of: Any, graph: Graph, values: dict[str, Any]) -> None:
    """An empty block becomes another graph's block, with what is in it."""
    for value in of.inputs():
        made = values[value.debugName()] = to.addInputToBlock(value.debugName())
        made.setType(value.type())
    for node in of.nodes():
        clone = to.appendNode(graph.createClone(node, lambda v: values[v.debugName()]))
        for inner in node.blocks():
            _fill(clone.addBlock(), inner, graph, values)
        values.update(zip((v.debugName() for v in node.outputs()), clone.outputs(), strict=True))
    for value in of.outputs():
        to.registerOutput(values[value.debugName()])


def from_torch(graph: Graph, other: Any) -> None:
    """The graph becomes what torch's is."""
    new = parse_ir(str(other))
    for _ in list(graph.outputs()):
        graph.eraseOutput(0)
    for node in reversed(list(graph.nodes())):
        node.destroy()
    for i in reversed(range(len(list(graph.inputs())))):
        graph.eraseInput(i)
    _fill(graph.block(), new.block(), graph, {})
