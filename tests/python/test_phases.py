"""Phases of PyTorch's executors: passes against PyTorch's own, by structure."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import rushlight
from conftest import TOP

torch = pytest.importorskip("torch")

X, Y = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)


@pytest.fixture(autouse=True)
def simple_executor() -> Iterator[None]:
    """Under the profiling executor PyTorch's pass for undefined gradients does something else."""
    before = torch._C._jit_set_profiling_executor(False)
    yield
    torch._C._jit_set_profiling_executor(before)


def parts(graph: Any) -> list[Any]:
    """Return the kinds of nodes: outside of subgraphs, and of each subgraph."""

    def kinds(g: Any) -> Counter[str]:
        found: Counter[str] = Counter()
        for n in g.nodes():
            if n.kind() != "prim::Constant":
                found[n.kind()] += 1
            if not n.hasAttribute("Subgraph"):
                for b in n.blocks():
                    found += kinds(b)
        return found

    def subgraphs(g: Any) -> list[Any]:
        out = []
        for n in g.nodes():
            if n.hasAttribute("Subgraph"):
                out.append(sorted(kinds(n.g("Subgraph")).items()))
            else:
                for b in n.blocks():
                    out += subgraphs(b)
        return out

    return [sorted(kinds(graph).items()), sorted(subgraphs(graph))]


FORWARD = {
    "parts": """graph(%x : Tensor, %y : Tensor, %n : int):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::mul(%x, %y)
  %b : Tensor = aten::add(%a, %y, %1)
  %t : Tensor = aten::tanh(%b)
  %p : Tensor = aten::add_(%t, %y, %1)
  %q : Tensor = aten::sigmoid(%p)
  %r : Tensor = aten::mul(%q, %q)
  %v : int[] = prim::ListConstruct(%n, %n)
  %w : Tensor = aten::view(%r, %v)
  %z : Tensor = aten::relu(%w)
  return (%z, %b)""",
    "branch": """graph(%x : Tensor, %y : Tensor, %c : bool):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::exp(%x)
  %z : Tensor = prim::If(%c)
    block0():
      %b : Tensor = aten::mul(%x, %a)
      %d : Tensor = aten::tanh(%b)
      -> (%d)
    block1():
      %e : Tensor = aten::sub(%y, %a, %1)
      -> (%e)
  %f : Tensor = aten::mul(%z, %a)
  %g : Tensor = aten::neg(%f)
  return (%g)""",
    "diamond": """graph(%x : Tensor, %y : Tensor):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::mm(%x, %y)
  %b : Tensor = aten::relu(%a)
  %c : Tensor = aten::sigmoid(%a)
  %d : Tensor = aten::mul(%b, %c)
  %e : Tensor = aten::add(%d, %a, %1)
  return (%e)""",
    "write": """graph(%x : Tensor, %y : Tensor):
  %a : Tensor = aten::mul(%x, %y)
  %p : Tensor = aten::relu_(%a)
  %b : Tensor = aten::mul(%a, %y)
  %c : Tensor = aten::tanh(%b)
  return (%c)""",
}


@pytest.mark.parametrize("name", FORWARD)
def test_autodiff_subgraphs(name):
    ours, theirs = rushlight.parse_ir(FORWARD[name]), torch._C.parse_ir(FORWARD[name])
    ours.run_pass("create_autodiff_subgraphs")
    torch._C._jit_pass_create_autodiff_subgraphs(theirs)
    assert parts(ours) == parts(theirs)
    ours.run_pass("inline_autodiff_subgraphs")
    ours.lint()


FLOAT = "Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)"
GRADIENTS = {
    "defined": f"""graph(%x : {FLOAT}, %y : {FLOAT}):
  %k : bool = prim::AutogradAnyNonZero(%y, %x)
  %o : Tensor = prim::If(%k)
    block0():
      %m : Tensor = aten::mul(%x, %y)
      -> (%m)
    block1():
      %n : Tensor = prim::AutogradZero()
      -> (%n)
  %d : Tensor = prim::AutogradAdd(%x, %y)
  %e : Tensor = prim::AutogradAdd(%o, %d)
  return (%e)""",
    "zeros": f"""graph(%x : {FLOAT}, %y : {FLOAT}):
  %z : Tensor = prim::AutogradZero()
  %a : Tensor = prim::AutogradAdd(%x, %z)
  %b : Tensor = prim::AutogradAdd(%z, %y)
  %c : Tensor = prim::AutogradAdd(%a, %b)
  %d : Tensor = prim::AutogradAdd(%z, %z)
  %k : bool = prim::AutogradAnyNonZero(%z, %d)
  %o : Tensor = prim::If(%k)
    block0():
      %m : Tensor = aten::mul(%z, %y)
      -> (%m)
    block1():
      %n : Tensor = prim::AutogradZero()
      -> (%n)
  %e : Tensor = prim::AutogradAdd(%c, %o)
  return (%e, %d)""",
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_undefined_gradients(name):
    ours, theirs = rushlight.parse_ir(GRADIENTS[name]), torch._C.parse_ir(GRADIENTS[name])
    before = ours(X, Y)
    ours.run_pass("specialize_autogradzero")
    torch._C._jit_pass_specialize_autogradzero(theirs)
    assert parts(ours) == parts(theirs)
    after = ours(X, Y)
    for a, b in zip(before, after, strict=True) if isinstance(before, tuple) else [(before, after)]:
        assert b is None if a is None else torch.equal(a, b)


SHAPES = {
    "matrices": """graph(%x : Tensor, %y : Tensor):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::t(%x)
  %b : Tensor = aten::mm(%y, %a)
  %c : Tensor = aten::add(%b, %b, %1)
  %d : Tensor = aten::tanh(%c)
  return (%d)""",
    "sums": """graph(%x : Tensor, %y : Tensor):
  %1 : int = prim::Constant[value=1]()
  %f : NoneType = prim::Constant()
  %t : bool = prim::Constant[value=1]()
  %l : int[] = prim::Constant[value=[1]]()
  %a : Tensor = aten::mul(%x, %y)
  %b : Tensor = aten::sum(%a, %l, %t, %f)
  %c : Tensor = aten::gt(%b, %1)
  return (%b, %c)""",
}


@pytest.mark.parametrize("name", SHAPES)
def test_complete_shape_analysis(name):
    """Where PyTorch knows a dtype, it is ours; dimensions and sizes, where it knows these."""
    theirs = torch._C.parse_ir(SHAPES[name])
    torch._C._jit_pass_complete_shape_analysis(theirs, (X, Y), False)
    ours = rushlight.parse_ir(SHAPES[name])
    for v, t in zip(ours.inputs(), (X, Y), strict=True):
        v.inferTypeFrom(t)
    ours.run_pass("propagate_input_shapes")
    n = 0
    for a, b in zip(ours.nodes(), theirs.nodes(), strict=True):
        known, mine = b.output().type(), a.output().type()
        if known.kind() != "TensorType" or known.scalarType() is None:
            continue
        n += 1
        assert mine.scalarType() == known.scalarType() and mine.dim() == known.dim()
        assert known.sizes() is None or mine.sizes() == known.sizes()
    assert n >= 2


def test_synonyms():
    for name in ("unroll_loops", "propagate_requires_grad", "eliminate_redundant_guards"):
        rushlight.parse_ir(FORWARD["write"]).run_pass(name)
    with pytest.raises((RuntimeError, ValueError), match="there is no pass 'unroll'"):
        rushlight.parse_ir(FORWARD["write"]).run_pass("unroll")


@pytest.mark.parametrize("name", ["parts", "branch", "diamond"])
@pytest.mark.parametrize("passes", ["create_autodiff_subgraphs", "fuse"])
def test_subgraphs_keep_the_meaning(name, passes):
    graph = rushlight.parse_ir(FORWARD[name])
    x = torch.rand(3, 3)
    third = {"parts": [3], "branch": [True], "diamond": []}[name]
    before = graph(x.clone(), x + 1, *third)
    graph.run_pass(passes)
    assert "with prim::" in str(graph)
    after = graph(x.clone(), x + 1, *third)
    for a, b in zip(before, after, strict=True) if isinstance(before, tuple) else [(before, after)]:
        assert torch.equal(a, b)


def test_show_phases(command):
    """The tables, and the graph after each phase; those that round are left out."""
    done = subprocess.run(
        [command, "show", str(TOP / "tests" / "data" / "cnn.pt"), "--phases"],
        capture_output=True,
        text=True,
        check=True,
    )
    text = done.stdout
    tables = re.findall(r"^# (\w+): (\w+ \w.*)$", text, re.M)
    assert [name for name, _ in tables] == [
        "runOptimization",
        "runNondiffOptimization",
        "runProfilingOptimizations",
    ]
    page = (TOP / "docs" / "passes.md").read_text()
    for name, phases in tables:
        row = re.search(rf"^\| `{name}` \| (.*) \|$", page, re.M)
        assert row is not None
        documented = row[1].replace("then the context's passes", "custom_passes")
        assert documented.split(", ") == phases.split()
    assert "\n# runOptimization: dce" in text
    assert "\n# runNondiffOptimization: batch_mm: left out" in text
    assert text.count("graph(%self") >= 2 and "prim::DifferentiableGraph" in text


def test_sums_of_products():
    """prim::MMTreeReduce: products side by side, or one by one where the sizes differ."""
    text = """graph(%a : Tensor, %b : Tensor, %c : Tensor, %d : Tensor):
  %1 : int = prim::Constant[value=1]()
  %m1 : Tensor = aten::mm(%a, %b)
  %m2 : Tensor = aten::mm(%a, %d)
  %m3 : Tensor = aten::mm(%c, %b)
  %m4 : Tensor = aten::mm(%c, %d)
  %s1 : Tensor = aten::add(%m1, %m2, %1)
  %s2 : Tensor = aten::add(%m3, %m4, %1)
  %s3 : Tensor = aten::add(%s1, %s2, %1)
  return (%s3)"""
    graph = rushlight.parse_ir(text)
    graph.run_pass("batch_mm")
    assert "prim::MMTreeReduce" in str(graph)
    for a, b, c, d in (
        (torch.rand(2, 3), torch.rand(3, 4), torch.rand(2, 3), torch.rand(3, 4)),
        (torch.rand(1, 3), torch.rand(3, 4), torch.rand(2, 3), torch.rand(3, 1)),
    ):
        torch.testing.assert_close(graph(a, b, c, d), a @ b + a @ d + c @ b + c @ d)
