"""Graphs as objects, with the manners of torch._C's: reading, editing, running, types."""

from __future__ import annotations

import pytest
import rushlight

torch = pytest.importorskip("torch")

TEXT = """graph(%x : Tensor,
      %n : int):
  %2 : int = prim::Constant[value=1]()
  %y : Tensor = aten::add(%x, %n, %2)
  %c : bool = aten::gt(%n, %2)
  %z : Tensor = prim::If(%c)
    block0():
      %q : Tensor = aten::relu(%y)
      -> (%q)
    block1():
      -> (%y)
  return (%z)
"""


@pytest.fixture
def graph() -> rushlight.Graph:
    return rushlight.parse_ir(TEXT)


def test_reading(graph):
    theirs = torch._C.parse_ir(TEXT)
    assert str(graph) == TEXT  # torch's parser forgets names of what nodes give
    for g in (graph, theirs):
        add = g.findNode("aten::add")
        assert [n.kind() for n in g.nodes()] == ["prim::Constant", "aten::add", "aten::gt", "prim::If"]
        assert add.schema() == "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"
        assert [v.debugName() for v in add.inputs()] == ["x", "n", "2"]
        assert [(u.user.kind(), u.offset) for u in add.output().uses()] == [("aten::relu", 0), ("prim::Return", 0)]
        assert add.namedInput("alpha").toIValue() == 1 and add.namedInput("self").toIValue() is None
        assert g.param_node().kind() == "prim::Param" and g.return_node().inputsSize() == 1
        assert [len(list(b.nodes())) for b in g.findNode("prim::If").blocks()] == [1, 0]
        assert g.findNode("aten::relu", recurse=False) is None
        assert len(g.findAllNodes("aten::relu")) == 1
        assert add.isBefore(g.findNode("aten::relu")) and next(g.outputs()).node().kind() == "prim::If"
        constant = next(g.nodes())
        assert constant.attributeNames() == ["value"] and constant.i("value") == 1 and constant.kindOf("value") == "i"
        assert str(next(g.inputs()).type()) == "Tensor" and next(g.inputs()).type().kind() == "TensorType"
        with pytest.raises(RuntimeError, match="has the wrong type"):
            constant.s("value")
        with pytest.raises(RuntimeError, match="You may consider using node.inputs"):
            add.input()


def test_editing(graph):
    x = torch.tensor([-3.0, 2.0])
    add, branch = graph.findNode("aten::add"), graph.findNode("prim::If")
    assert torch.equal(graph(x, 2), torch.relu(x + 2))
    graph.registerOutput(graph.insert("aten::mul", [add.output(), 3]))
    graph.lint()
    assert torch.equal(graph(x, 0)[1], x * 3)
    add.moveAfter(branch)
    with pytest.raises(RuntimeError, match="defined after its user"):
        graph.lint()
    add.moveBefore(branch)
    copy = graph.copy()
    square = copy.create("aten::mul", [next(copy.inputs())] * 2).insertBefore(copy.findNode("prim::If"))
    copy.findNode("aten::add").replaceAllUsesWith(square)
    copy.findNode("aten::add").destroy()
    copy.lint()
    assert torch.equal(copy(x, 5)[0], x * x) and "aten::add" in str(graph)


def test_destroyed_nodes_say_so(graph):
    add = graph.findNode("aten::add")
    extra = graph.create("aten::relu", [add.output()]).insertAfter(add)
    value = extra.output()
    with pytest.raises(RuntimeError, match="its outputs have uses"):
        add.destroy()
    extra.destroy()
    for use in (extra.kind, extra.inputs, extra.destroy, value.type, value.uses):
        with pytest.raises(RuntimeError, match="destroyed|gone"):
            use()
    with pytest.raises(RuntimeError, match="destroyed|gone"):
        graph.registerOutput(value)
    inner = next(graph.findNode("aten::relu").outputs())
    del graph
    assert inner.debugName() == "q"


def test_types():
    ir = rushlight.ir
    t = ir.parse_type("Dict(str, Tensor?)[]")
    assert t.annotation_str == "List[Dict[str, Optional[Tensor]]]" and isinstance(t, ir.ListType)
    assert t == ir.ListType(ir.DictType(ir.StringType.get(), ir.OptionalType.ofTensor()))
    assert ir.IntType.get().isSubtypeOf(ir.OptionalType(ir.IntType.get()))
    assert not ir.ListType.ofInts().isSubtypeOf(ir.ListType.ofFloats())
    assert str(ir.unify_types(ir.IntType.get(), ir.NoneType.get())) == "int?"
    assert ir.unify_types(ir.IntType.get(), ir.StringType.get()) is None
    with pytest.raises(RuntimeError, match="unknown type"):
        ir.parse_type("Foo")
