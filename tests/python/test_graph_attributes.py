"""Attributes of nodes that are graphs, and their text: as PyTorch's."""

from __future__ import annotations

import re
from typing import Any

import pytest
import rushlight

torch = pytest.importorskip("torch")

SUB = """graph(%a : Tensor,
      %b : Tensor):
  %2 : int = prim::Constant[value=1]()
  %3 : Tensor = aten::add(%a, %b, %2)
  return (%3)
"""
MAIN = """graph(%x : Tensor,
      %y : Tensor):
  %2 : Tensor = aten::mul(%x, %y)
  return (%2)
"""
KINDS = ["prim::DifferentiableGraph", "prim::FallbackGraph", "prim::TensorExprGroup", "my::op_2"]


def make(parse: Any) -> tuple[Any, list[Any]]:
    """Return a graph with nodes that have attributes of every kind of graph, and these nodes."""
    graph, inner = parse(MAIN), parse(SUB)
    first, nodes = next(iter(graph.nodes())), []
    nested = inner.create("prim::DifferentiableGraph", list(inner.inputs()), 1)
    nested.insertBefore(next(iter(inner.nodes())))
    nested.g_("Subgraph", parse(SUB))
    for kind in KINDS:
        node = graph.create(kind, list(graph.inputs()), 1)
        node.insertBefore(first)
        node.g_("Subgraph", inner if kind == KINDS[0] else parse(SUB))
        if kind != KINDS[2]:
            node.g_("ReverseSubgraph", parse(SUB)).i_("k", 3)
        nodes.append(node)
    last = graph.create("my::lists", list(graph.inputs()), 1)
    last.insertBefore(first)
    last.g_("f", parse(SUB)).gs_("fs", [parse(SUB), inner]).gs_("none", [])
    return graph, [*nodes, last]


def renumbered(text: str) -> str:
    """Return the text with numbers of values in the order of their appearance, graph by graph."""
    out = []
    for part in text.split("graph("):
        seen: dict[str, str] = {}
        for name in re.findall(r"%\d+", part):
            seen.setdefault(name, f"%{len(seen)}")
        out.append(re.sub(r"%\d+", lambda m, seen=seen: seen[m[0]], part))
    return "graph(".join(out)


def test_text_is_torchs():
    theirs, their_nodes = make(torch._C.parse_ir)
    ours, our_nodes = make(rushlight.parse_ir)
    assert renumbered(str(ours)) == renumbered(str(theirs))
    for a, b in zip(our_nodes, their_nodes, strict=True):
        assert renumbered(str(a)).strip() == renumbered(str(b)).strip()
        assert {n: a.kindOf(n) for n in a.attributeNames()} == {
            n: b.kindOf(n) for n in b.attributeNames()
        }


def test_reading_back():
    ours, nodes = make(rushlight.parse_ir)
    theirs, _ = make(torch._C.parse_ir)
    assert [renumbered(str(g)) for g in nodes[-1].gs("fs")] == [
        renumbered(str(g)) for g in list(theirs.nodes())[4].gs("fs")
    ]
    assert str(nodes[-1].g("f")) == SUB and nodes[-1].gs("none") == []
    assert str(nodes[0].g("ReverseSubgraph")) == SUB
    assert str(nodes[2].g("Subgraph")) == SUB
    assert str(ours.copy()) == str(ours)
    ours.lint()
    with pytest.raises(RuntimeError, match="attribute 'nope' is undefined"):
        nodes[-1].g("nope")
    with pytest.raises(RuntimeError, match="attribute 'fs' has the wrong type"):
        nodes[-1].g("fs")
    with pytest.raises(TypeError):
        nodes[-1].g_("f", 3)
    with pytest.raises(TypeError):
        nodes[-1].gs_("f", [3])
    assert not nodes[-1].removeAttribute("f").hasAttribute("f")


def test_a_graph_is_copied_when_it_is_set():
    ours, nodes = make(rushlight.parse_ir)
    sub = rushlight.parse_ir(SUB)
    nodes[-1].g_("f", sub)
    sub.addInput("q")
    assert str(nodes[-1].g("f")) == SUB
    del sub, ours
    assert str(nodes[-1].g("f")) == SUB


def test_subgraphs_parse_back():
    graph = rushlight.parse_ir(MAIN)
    for kind in KINDS[:3] + ["my::op", "prim::DifferentiableGraph"]:
        node = graph.create(kind, list(graph.inputs()), 1).insertBefore(next(iter(graph.nodes())))
        inner, _ = make(rushlight.parse_ir)
        for n in list(inner.nodes())[1:-1]:
            n.destroy()
        node.g_("Subgraph", inner)
    text = str(graph)
    again = rushlight.parse_ir(text)
    again.lint()
    assert str(again) == text and text.count("with prim::DifferentiableGraph_0") == 11
    assert [n.kind() for n in again.nodes()] == [n.kind() for n in graph.nodes()]
    assert renumbered(str(next(iter(again.nodes())).g("Subgraph"))) == renumbered(str(inner))


def test_a_graph_that_the_text_has_not_is_refused():
    with pytest.raises(RuntimeError, match="'f' is not in the text"):
        rushlight.parse_ir(
            "graph(%x : Tensor):\n  %y : Tensor = a::b[f=<Graph>](%x)\n  return (%y)"
        )
    with pytest.raises(RuntimeError, match="no node is called"):
        rushlight.parse_ir(
            "graph():\n  return ()\nwith prim::FallbackGraph_0 = graph():\n  return ()"
        )


def test_types_as_attributes():
    def make(c: Any, parse: Any) -> Any:
        graph = parse(MAIN)
        t = c.TensorType.get().with_sizes([2, 3])
        node = graph.create("prim::profile", list(graph.inputs())[:1], 1)
        node.insertBefore(next(iter(graph.nodes())))
        node.ty_("profiled_type", t).i_("seen_none", 0)
        check = graph.create("prim::TypeCheck", list(graph.inputs()), 3)
        check.insertBefore(next(iter(graph.nodes()))).tys_("types", [t, t])
        check.outputsAt(2).setType(c.BoolType.get())
        return graph

    text = str(make(torch._C, torch._C.parse_ir))
    assert renumbered(str(make(rushlight.ir, rushlight.parse_ir))) == renumbered(text)
    assert str(rushlight.parse_ir(text)) == text
    nodes = list(rushlight.parse_ir(text).nodes())
    assert nodes[0].kindOf("types") == "tys" and nodes[1].kindOf("profiled_type") == "ty"


BAD = {
    "takes the node's inputs": (
        "prim::DifferentiableGraph_0(%x)",
        "graph(%x : Tensor, %y : Tensor):\n  return (%x)",
    ),
    "returns another type": (
        "prim::DifferentiableGraph_0(%x)",
        "graph(%x : Tensor):\n  %1 : int = prim::Constant[value=1]()\n  return (%1)",
    ),
    "a type for each input": ("prim::TypeCheck[types=[]](%x)", ""),
    "prim::GradOf has a block": ('prim::GradOf[name="a"](%x)', ""),
}


@pytest.mark.parametrize("message", BAD)
def test_the_verifier_names_what_is_wrong(message):
    node, sub = BAD[message]
    text = f"graph(%x : Tensor):\n  %y : Tensor = {node}\n  return (%y)\n"
    text += f"with {node.partition('(')[0]} = {sub}" if sub else ""
    with pytest.raises(RuntimeError, match=message):
        rushlight.parse_ir(text).lint()


def test_subgraphs_that_nest_too_deep_are_refused():
    text = "graph(%x : Tensor):\n  %y : Tensor = my::op_0(%x)\n  return (%y)\n"
    deep = text + "".join(f"with my::op_0 = {text}" for _ in range(100_000))
    with pytest.raises((RecursionError, RuntimeError), match="deep"):
        rushlight.parse_ir(deep)
