"""Graphs as objects, with the manners of torch._C's: reading, editing, running, types."""

from __future__ import annotations

import gc
import io
import re
import subprocess
import sys
import weakref

import pytest
import rushlight
from conftest import TOP, import_file
from rushlight.testing import FileCheck

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
    assert str(graph) == TEXT  # torch's parser forgets the names of nodes' outputs
    for g in (graph, theirs):
        add = g.findNode("aten::add")
        assert [n.kind() for n in g.nodes()] == [
            "prim::Constant",
            "aten::add",
            "aten::gt",
            "prim::If",
        ]
        assert (
            add.schema() == "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"
        )
        assert [v.debugName() for v in add.inputs()] == ["x", "n", "2"]
        assert [(u.user.kind(), u.offset) for u in add.output().uses()] == [
            ("aten::relu", 0),
            ("prim::Return", 0),
        ]
        assert add.namedInput("alpha").toIValue() == 1 and add.namedInput("self").toIValue() is None
        assert g.param_node().kind() == "prim::Param" and g.return_node().inputsSize() == 1
        assert [len(list(b.nodes())) for b in g.findNode("prim::If").blocks()] == [1, 0]
        assert g.findNode("aten::relu", recurse=False) is None
        assert len(g.findAllNodes("aten::relu")) == 1
        assert (
            add.isBefore(g.findNode("aten::relu")) and next(g.outputs()).node().kind() == "prim::If"
        )
        constant = next(g.nodes())
        assert (
            constant.attributeNames() == ["value"]
            and constant.i("value") == 1
            and constant.kindOf("value") == "i"
        )
        assert (
            str(next(g.inputs()).type()) == "Tensor"
            and next(g.inputs()).type().kind() == "TensorType"
        )
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
    square = copy.create("aten::mul", [next(copy.inputs())] * 2).insertBefore(
        copy.findNode("prim::If")
    )
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
    assert str(ir.unify_types(ir.IntType.get(), ir.NoneType.get())) == "Optional[int]"
    assert ir.unify_types(ir.IntType.get(), ir.StringType.get()) is None
    with pytest.raises(RuntimeError, match="unknown type"):
        ir.parse_type("Foo")


def canonical(text: str) -> str:
    """Without places in sources, values numbered in the order of the text."""
    numbers: dict[str, str] = {}
    text = re.sub(r" #[^\n]*", "", text)
    return re.sub(r"%[A-Za-z0-9_.]+", lambda m: numbers.setdefault(m[0], f"%{len(numbers)}"), text)


def test_simple_lstm_prints_as_torch_prints_it():
    source = import_file(TOP / "tests" / "data" / "simple_lstm.py")
    ours = rushlight.script(source.simple_lstm)
    for name in ("lstm_cell", "simple_lstm"):
        theirs = torch.jit.script(getattr(source, name)).graph
        assert canonical(str(rushlight.script(getattr(source, name)).graph)) == canonical(
            str(theirs)
        ), name
    torch.manual_seed(0)
    hidden = torch.randn(2, 3), torch.randn(2, 3)
    args = (
        torch.randn(5, 2, 4),
        hidden,
        torch.randn(12, 4),
        torch.randn(12, 3),
        torch.randn(12),
        torch.randn(12),
    )
    for a, b in zip(ours(*args), source.simple_lstm(*args), strict=True):
        torch.testing.assert_close(a, b)
    again = rushlight.parse_ir(str(ours.graph), scope=ours.graph)
    assert str(rushlight.parse_ir(str(again), scope=again)) == str(again)
    for a, b in zip(again(*args), ours(*args), strict=True):
        assert torch.equal(a, b)
    FileCheck().check("prim::Loop").check_next("block0").check_not("aten::mm").check(
        "CallFunction"
    ).run(ours.graph)
    FileCheck().check_count("aten::mm", 2, exactly=True).check_not("CallFunction").run(
        ours.inlined_graph
    )


ADDMM = """graph(%a, %b, %c, %one):
  %m = aten::mm(%a, %b)
  %s = aten::add(%m, %c, %one)
  return (%s)"""
LINEAR = """graph(%a : Tensor, %b : Tensor, %c : Tensor):
  %1 : int = prim::Constant[value=1]()
  %m : Tensor = aten::mm(%a, %b)
  %s : Tensor = aten::add(%m, %c, %1)
  %v : Tensor = aten::t(%s)
  %w : Tensor = aten::add_(%v, %c, %1)
  %z : Tensor = aten::relu(%s)
  %l : Tensor[] = prim::ListConstruct(%z, %a)
  return (%z, %l)"""


def test_patterns_are_found_and_replaced():
    graph = rushlight.parse_ir(LINEAR)
    args = [torch.randn(3, 3) for _ in range(3)]
    before = graph(*args)[0]
    (found,) = rushlight.ir.find_matches(ADDMM, graph)
    assert {k: v.debugName() for k, v in found.items()} == {
        k: k if k != "one" else "1" for k in ("a", "b", "c", "one", "m", "s")
    }
    rewriter = rushlight.ir.SubgraphRewriter().RegisterRewritePattern(
        ADDMM, "graph(%a, %b, %c, %one):\n  %s = aten::addmm(%c, %a, %b, %one, %one)\n  return (%s)"
    )
    assert rewriter.run(graph, lambda match: False) == 0
    assert rewriter.run(graph) == 1 and rewriter.run(graph) == 0
    graph.lint()
    FileCheck().check_not("aten::mm").check("aten::addmm").check_not("aten::mm").run(graph)
    torch.testing.assert_close(graph(*args)[0], before)
    wider = rushlight.parse_ir(LINEAR.replace("return (%z, %l)", "return (%z, %m)"))
    assert rewriter.run(wider) == 0  # the product is used outside


def test_aliases_and_moves():
    graph = rushlight.parse_ir(LINEAR)
    v = {x.debugName(): x for n in (graph.param_node(), *graph.nodes()) for x in n.outputs()}
    db = graph.alias_db()
    assert (
        db.may_alias(v["s"], v["v"])
        and not db.may_alias(v["m"], v["s"])
        and not db.may_alias(v["l"], v["a"])
    )
    assert db.may_contain_alias(v["l"], v["a"])
    assert db.has_writers(v["s"]) and db.has_writers(v["v"]) and not db.has_writers(v["m"])
    relu, t, mm = (graph.findNode(f"aten::{name}") for name in ("relu", "t", "mm"))
    assert not db.could_move_before_topologically(relu, t)  # it reads what add_ writes
    assert not db.could_move_after_topologically(mm, graph.findNode("aten::add_"))
    text = str(graph)
    assert db.could_move_after_topologically(t, t) and str(graph) == text
    one = next(graph.nodes())
    assert db.move_before_topologically_valid(
        graph.findNode("prim::ListConstruct"), graph.return_node()
    )
    assert not db.move_after_topologically_valid(one, graph.findNode("aten::add"))
    graph.lint()


def test_building_by_hand():
    graph = rushlight.Graph()
    x = rushlight.ir.SymbolicVariable.asNewInput(graph, "x")
    n = rushlight.ir.SymbolicVariable.asNewInput(graph, "n", "int")
    ((2 * x + n).tanh() @ x.t()).addAsOutput()
    graph.lint()
    value = torch.randn(2, 2)
    torch.testing.assert_close(graph(value, 3), torch.tanh(2 * value + 3) @ value.t())
    with pytest.raises(RuntimeError, match="Unknown builtin op: aten::nonsense"):
        x.nonsense()
    branch = graph.create("prim::If", [graph.insertConstant(True)], 1)
    for scale in (2, 3):
        with graph.insert_point_guard(branch.addBlock()):
            list(branch.blocks())[-1].registerOutput(graph.insert("aten::mul", [x.value(), scale]))
    graph.insertNode(branch)
    graph.eraseOutput(0)
    graph.registerOutput(branch.output())
    graph.lint()
    assert torch.equal(graph(value, 0), value * 2)


def test_patterns_are_found_in_scripted_graphs():
    graph = rushlight.script(scripted).graph
    rewriter = rushlight.ir.SubgraphRewriter()
    rewriter.RegisterRewritePattern(
        "graph(%x):\n  %y = aten::relu(%x)\n  return (%y)",
        "graph(%x):\n  %y = aten::tanh(%x)\n  return (%y)",
    )
    assert rewriter.runOnGraph(graph) == 1 and graph.findNode("aten::tanh") is not None


def scripted(x):
    return (x + 1).relu()


def test_values_take_types_and_names_of_others():
    graph = rushlight.parse_ir("graph(%x : Tensor, %y : Tensor):\n  return (%y)")
    x, y = graph.inputs()
    x.inferTypeFrom(torch.ones(2, 3))
    assert (
        x.isCompleteTensor()
        and "%x : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)" in str(graph)
    )
    x.setDebugName("q")
    y.copyMetadata(x)
    assert (x.debugName(), y.debugName()) == ("q.1", "q") and y.isCompleteTensor()


def test_lists_in_attributes_parse_back() -> None:
    g = rushlight.parse_ir("graph(%x : Tensor):\n  %y : Tensor = my::op(%x)\n  return (%y)\n")
    node = next(g.nodes())
    floats, texts = [1.5, 2.0, float("inf"), -1.0, 1e300], ["a", 'b\n"c', "x, y]"]
    node.fs_("fs", floats)
    node.fs_("minus", [float("-inf"), -0.5])
    node.ss_("ss", texts)
    node.is_("is", [1, -2])
    again = rushlight.parse_ir(str(g))
    assert str(again) == str(g)
    other = next(again.nodes())
    assert (
        other.fs("fs") == floats
        and other.ss("ss") == texts
        and getattr(other, "is")("is") == [1, -2]
    )


def test_tensors_in_attributes_and_lists_parse_back() -> None:
    """As torch prints them: single tensors with their elements, lists without."""
    ours = rushlight.parse_ir("graph(%x : Tensor):\n  %y : Tensor = my::op(%x)\n  return (%y)\n")
    theirs = torch._C.parse_ir("graph(%x : Tensor):\n  %y : Tensor = my::op(%x)\n  return (%y)\n")
    for g in (ours, theirs):
        node = next(iter(g.nodes()))
        node.ts_("ts", [torch.ones(2), torch.zeros(9)])
        node.ts_("none", [])
        node.t_("small", torch.tensor([1, -2]))
        node.t_("one", torch.tensor(3.5))
        node.fs_("fs", [])
        node.ss_("ss", [])
        node.is_("is", [])
    line = str(ours).splitlines()[1]
    assert sorted(re.findall(r"(\w+)=", line)) == ["fs", "is", "none", "one", "small", "ss", "ts"]
    for part in re.findall(r"\w+=[^=]*(?=, \w+=|\]\()", str(theirs).splitlines()[1]):
        assert part in line
    again = rushlight.parse_ir(str(ours), True)
    assert str(again) == str(ours)
    assert (
        next(again.nodes()).t("small").tolist() == [1, -2]
        and next(again.nodes()).t("one").item() == 3.5
    )
    with pytest.raises(RuntimeError, match="the tensors of a list are not in the text"):
        rushlight.parse_ir(str(ours))


def test_empty_constants_say_their_types() -> None:
    class Empty(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.jit.Attribute([], list[float])
            self.b = torch.jit.Attribute([], list[str])
            self.c = torch.jit.Attribute([[]], list[list[int]])
            self.d = torch.jit.Attribute({}, dict[str, float])
            self.e = torch.jit.Attribute([torch.ones(2)], list[torch.Tensor])

        def forward(self, x: torch.Tensor):
            return self.a, self.b, self.c, self.d, self.e

    scripted = torch.jit.script(Empty().eval())
    buffer = io.BytesIO()
    torch.jit.save(scripted, buffer)
    frozen = rushlight.jit.freeze(rushlight.load(buffer.getvalue()))
    value = re.search(r"\[value=.*\]", str(torch.jit.freeze(scripted).graph))
    assert value is not None and value[0] in str(frozen.graph)
    again = rushlight.parse_ir(str(frozen.graph), True, frozen.graph)
    assert str(again).splitlines()[1:] == str(frozen.graph).splitlines()[1:]


def test_types_of_tensors_need_no_torch() -> None:
    code = """
import rushlight, sys
g = rushlight.parse_ir("graph(%x : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu), %y : Tensor):\\n  return (%x)\\n")
x, y = (v.type() for v in g.inputs())
assert x.dtype() == rushlight.float32 and x.device() == "cpu" and x.isComplete() and x.sizes() == [2, 3]
assert y.dtype() is None and y.device() is None and not y.isComplete()
assert next(g.inputs()).isCompleteTensor() and "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_whole_interface_of_editing(capfd: pytest.CaptureFixture) -> None:
    """Every method that PyTorch's description of its IR lists for Graph, Node and Value."""
    g = rushlight.ir.parse_ir(
        "graph(%x : Tensor, %y : Tensor):\n  %one : int = prim::Constant[value=1]()\n"
        "  %s : Tensor = aten::add(%x, %y, %one)\n  return (%s)"
    )
    x, y = g.inputs()
    (s,) = g.outputs()
    add = s.node()
    assert add.kind() == "aten::add" and s.offset() == 0 and str(s.type()) == "Tensor"
    assert add.owningGraph().block() == g.block() and add.owningBlock() == g.block()
    assert [(u.user.kind(), u.offset) for u in x.uses()] == [("aten::add", 0)]
    assert add.namedInput("alpha").toIValue() == 1 and add.is_constant("alpha")
    assert add.get("alpha") == 1 and not add.is_constant("self") and add.get("self") is None
    assert "add.Tensor" in str(add.schema()) and add.sourceRange() is not None
    # inputs of the graph
    z = g.insertInput(1, "z")
    assert [v.debugName() for v in g.inputs()] == ["x", "z", "y"]
    g.eraseInput(1)
    w = g.addInput("w")
    # inputs of a node
    add.replaceInput(0, w)
    assert next(add.inputs()) == w and not x.hasUses()
    add.replaceInputWith(w, x)
    assert next(add.inputs()) == x
    made = g.create("prim::ListConstruct", [x], 1)
    g.appendNode(made)
    made.addInput(y)
    made.insertInput(1, w)
    assert [v.debugName() for v in made.inputs()] == ["x", "w", "y"]
    made.removeInput(1)
    # results of a node
    made.addOutput()
    made.insertOutput(0)
    assert made.outputsSize() == 3
    made.eraseOutput(2)
    made.eraseOutput(0)
    made.output().setType(rushlight.ir.ListType(x.type()))
    # results of the graph
    assert g.registerOutput(made.output()) in (1, None)
    assert len(list(g.outputs())) == 2
    g.eraseOutput(1)
    made.destroy()
    # numbers become constants; blocks
    twice = g.insert("aten::mul", [s, 3])
    assert list(twice.node().inputs())[1].toIValue() == 3
    branch = g.insertNode(g.create("prim::If", [g.insertConstant(True)], 0))
    branch.addBlock()
    branch.addBlock()
    assert len(list(branch.blocks())) == 2
    branch.eraseBlock(1)
    assert len(list(branch.blocks())) == 1
    branch.destroy()
    s.replaceAllUsesAfterNodeWith(twice.node(), twice)
    g.lint()
    g.dump()
    add.dump()
    assert "aten::add" in "".join(capfd.readouterr())
    assert torch.equal(g(torch.ones(2), torch.ones(2), None), torch.full((2,), 6.0))
    twice.node().destroy() if not twice.hasUses() else None
    with pytest.raises(RuntimeError):
        rushlight.ir.parse_ir("graph(%x : Tensor):\n  return (%y)")
    del z


def test_the_graph_of_a_function_is_one_object() -> None:
    """Passes that run on it can be seen when it is asked for again; calls run the program."""
    unit = rushlight.CompilationUnit("def f(x, y):\n    return x + len([x, y])\n")
    assert unit.f.graph is unit.f.graph
    unit.f.graph.run_pass("peephole")
    assert unit.f.graph.findNode("aten::len") is None
    assert unit.f.inlined_graph.findNode("aten::len") is not None
    assert unit.f(torch.zeros(1), torch.zeros(1)).item() == 2
    made = rushlight.CompilationUnit().create_function("g", unit.f.graph)
    assert made(torch.zeros(1), torch.zeros(1)).item() == 2
    made = weakref.ref(unit.f)
    graph = unit.f.graph
    del unit
    gc.collect()
    assert made() is None and graph.findNode("aten::add") is not None


def test_the_graph_of_a_method_is_one_object() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

        @torch.jit.export
        def other(self, x: torch.Tensor) -> torch.Tensor:
            return x + 2

    net = rushlight.script(Net())
    assert net.graph is net.forward.graph is not net.other.graph
    assert net.other.graph is net.other.graph
    copied = net.copy()
    assert copied.graph is not net.graph
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None


def test_a_tuple_has_the_types_of_its_elements() -> None:
    """Texts of PyTorch may declare another type, which its parser does not compare."""
    text = """graph(%a : Tensor, %o : int?):
  %b : Tensor = aten::relu(%a)
  %l : Tensor[] = prim::ListConstruct(%b)
  %t : (Tensor[], Tensor[]) = prim::TupleConstruct(%b, %l)
  %u : (Tensor?, int?) = prim::TupleConstruct(%b, %o)
  return (%t, %u)
"""
    graph = rushlight.parse_ir(text)
    graph.lint()
    wrong, right = (str(n.output().type()) for n in graph.findAllNodes("prim::TupleConstruct"))
    assert wrong == "Tuple[Tensor, List[Tensor]]"
    assert right == "Tuple[Optional[Tensor], Optional[int]]"
    (values, (_, none)) = graph(torch.ones(2), None)
    assert values[1][0].tolist() == [1, 1] and none is None
