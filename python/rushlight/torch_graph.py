"""Conversion of graphs to torch._C.Graph, for torch's passes and tools, and back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ._rushlight import Graph, parse_ir

_NO_RESULT = re.compile(r"^( +) = ", re.MULTILINE)  # torch prints these so, and does not read them
_TENSOR = re.compile(
    r"^(.* : )(\w+)(\([^)]*\) = prim::Constant\[value=)(?:[^\]]|\](?!\(\)))*\]\(\)", re.MULTILINE
)
_SCOPE = re.compile(r", scope: \S+")  # not read either
_WARNING = re.compile(
    r"^ +aten::warn\(.*\n", re.MULTILINE
)  # torch runs them with a source range only, which texts do not have
_SUBGRAPHS = re.compile(r"^with \w+::\w+ = graph\(", re.MULTILINE)  # at the end of the text
# torch reads strides only with all sizes
_PART = re.compile(r"(\w+\((?=[^()]*\*)[^()]*?), strides=\[[^\]]*\]")
_NUMBERED = re.compile(r"\w+::\w+_\d+$")  # a node's kind in a text with subgraphs
_LIST = re.compile(
    r"^( +)(%[\w.]+ : (int|float|bool)\[\]) = prim::Constant\[value=(?:annotate\(List\[\w+\], "
    r")?\[([^\]]*)\]\)?\]\(\)",
    re.MULTILINE,
)


def _list_text(found: re.Match[str]) -> str:
    """Return the text of a list as torch reads one: constructed from its items."""
    indent, head, of, inside = found.groups()
    items = [item.strip() for item in inside.split(",") if item.strip()]
    names = [f"%item_{found.start()}_{i}" for i in range(len(items))]
    lines = [
        f"{indent}{name} : {of} = prim::Constant[value={item}]()"
        for name, item in zip(names, items, strict=True)
    ]
    return "\n".join([*lines, f"{indent}{head} = prim::ListConstruct({', '.join(names)})"])


def _tensors(graph: Any) -> list[Any]:
    """Return the nodes of constants that are tensors."""
    found = [n for n in graph.findAllNodes("prim::Constant") if n.hasAttributes()]
    return [n for n in found if n.output().type().kind() == "TensorType"]


def _nodes_of(block: Any) -> Iterator[Any]:
    """Yield the nodes of a graph or block and of the blocks in them, in the text's order."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes_of(inner)


def _set_subgraphs(made: Any, graph: Graph) -> None:
    """Replace the nodes of torch's graph that were read from a text with subgraphs, of which torch
    reads the kind only, by nodes with the subgraphs."""
    ours = [n for n in _nodes_of(graph) if n.hasAttribute("Subgraph")]
    theirs = [n for n in _nodes_of(made) if _NUMBERED.match(n.kind())]
    for old, node in zip(theirs, ours, strict=True):
        new = made.create(node.kind(), list(old.inputs()), old.outputsSize())
        new.g_("Subgraph", to_torch(node.g("Subgraph")))
        new.insertBefore(old)
        for was, value in zip(list(old.outputs()), new.outputs(), strict=True):
            value.setType(was.type())
            was.replaceAllUsesWith(value)
        old.destroy()


def to_torch(graph: Graph) -> Any:
    """Return a torch._C.Graph of the same text, calls inlined, without warnings; the tensors in it
    are the same."""
    import torch

    inlined = graph.copy()
    inlined.run_pass("inline")
    text = _PART.sub(r"\1", _SUBGRAPHS.split(inlined.str(False))[0])
    text = _SCOPE.sub("", _LIST.sub(_list_text, _WARNING.sub("", _NO_RESULT.sub(r"\1", text))))
    made = torch._C.parse_ir(_TENSOR.sub(r"\1\2\3<Tensor>]()", text), parse_tensor_constants=True)
    for node, ours in zip(_tensors(made), _tensors(inlined), strict=True):
        node.t_("value", ours.output().toIValue())
    _set_subgraphs(made, inlined)
    return made


def _fill(to: Any, of: Any, graph: Graph, values: dict[str, Any]) -> None:
    """Fill an empty block with another graph's block and everything in it."""
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
    """Replace the graph's contents by torch's."""
    new = parse_ir(
        _TENSOR.sub(
            lambda m: m[0] if "value={" in m[0] else f"{m[1]}{m[2]}{m[3]}<Tensor>]()", str(other)
        ),
        True,
    )
    for node, theirs in zip(_tensors(new), _tensors(other), strict=True):
        node.t_("value", theirs.t("value"))
    for _ in list(graph.outputs()):
        graph.eraseOutput(0)
    for node in reversed(list(graph.nodes())):
        node.destroy()
    for i in reversed(range(len(list(graph.inputs())))):
        graph.eraseInput(i)
    _fill(graph.block(), new.block(), graph, {})
