"""Nodes of profiled, guarded and differentiated graphs run: PyTorch's executors make them."""

from __future__ import annotations

from typing import Any

import pytest
import rushlight

torch = pytest.importorskip("torch")

X, Y = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)


def run(text: str, *args: Any) -> Any:
    graph = rushlight.parse_ir(text)
    graph.lint()
    out = graph(*args)
    assert str(rushlight.parse_ir(str(graph))) == str(graph)
    return out


@pytest.mark.parametrize("kind", ["prim::DifferentiableGraph", "prim::FallbackGraph"])
def test_a_subgraph_runs(kind):
    out = run(
        f"""graph(%x : Tensor, %y : Tensor, %n : int):
  %u : int = prim::Constant[value=0]()
  %c : bool = aten::gt(%n, %u)
  %a : Tensor, %b : Tensor, %m : int = {kind}_0(%x, %y, %n, %u)
  %z : Tensor = prim::If(%c)
    block0():
      %q : Tensor, %r : Tensor, %s : int = {kind}_1(%a, %a, %m, %n)
      -> (%q)
    block1():
      -> (%b)
  return (%z, %a, %b, %m)
with {kind}_0 = graph(%p : Tensor, %y : Tensor, %n : int, %k : int):
  %one : int = prim::Constant[value=1]()
  %x : Tensor = aten::add(%p, %y, %n)
  %m : int = aten::add(%n, %one)
  return (%x, %p, %m)
with {kind}_1 = graph(%p : Tensor, %y : Tensor, %n : int, %k : int):
  %true : bool = prim::Constant[value=1]()
  %l : Tensor = prim::Loop(%n, %true, %p)
    block0(%i : int, %v : Tensor):
      %w : Tensor = {kind}_0(%v, %y)
      -> (%true, %w)
  return (%l, %p, %k)
with {kind}_0 = graph(%p : Tensor, %q : Tensor):
  %r : Tensor = aten::mul(%p, %q)
  return (%r)
""",
        X,
        Y,
        2,
    )
    a = X + 2 * Y
    assert torch.equal(out[0], a * a * a * a) and torch.equal(out[1], a)
    assert torch.equal(out[2], X) and out[3] == 3


def test_a_node_without_its_subgraph_is_refused():
    with pytest.raises(RuntimeError, match="without its graph"):
        run("graph(%x : Tensor):\n  %y : Tensor = prim::FallbackGraph_0(%x)\n  return (%y)", X)


def test_profile_nodes_pass_values():
    out = run(
        """graph(%x : Tensor, %n : int?):
  %a : Tensor = prim::profile[profiled_type=Float(7, 7), seen_none=0](%x)
  %b : int? = prim::profile_ivalue(%n)
  %c : Tensor = aten::relu(%a)
   = prim::profile()
  return (%c, %b)
""",
        X,
        None,
    )
    assert torch.equal(out[0], X) and out[1] is None


TYPES = {
    "Float(2, 3)": True,
    "Float(2, 3, strides=[3, 1], device=cpu)": True,
    "Float(*, 3)": True,
    "Tensor": True,
    "Double(2, 3)": False,
    "Float(3, 2)": False,
    "Float(2, 3, strides=[1, 2])": False,
    "Float(2, 3, 1)": False,
    "Tensor(requires_grad=0)": True,
    "Float(2, 3, requires_grad=1)": False,
}


@pytest.mark.parametrize("expected", TYPES)
def test_type_checks(expected):
    text = f"""graph(%x : Tensor, %y : Tensor):
  %a : {expected}, %b : Tensor, %c : bool = prim::TypeCheck[types=[{expected}, Tensor]](%x, %y)
  %z : Tensor = prim::If(%c)
    block0():
      %d : Tensor = aten::relu(%a)
      -> (%d)
    block1():
      -> (%b)
  return (%z, %c)
"""
    out = run(text, X, Y)
    assert out[1] is TYPES[expected]
    assert torch.equal(out[0], X if out[1] else Y)
    if "requires" not in expected and ("device" in expected or not out[1]):
        # PyTorch's parser does not know requires_grad alone, and its tensors fit no unknown device
        theirs = torch._C.parse_ir(text)
        assert torch._C._jit_interpret_graph(theirs, (X, Y))[1] is out[1]


def test_requires_grad_checks():
    text = """graph(%x : Tensor, %y : Tensor):
  %a : Tensor, %b : Tensor, %c : bool = prim::RequiresGradCheck[types=[Tensor(requires_grad=1), Tensor(requires_grad=0)]](%x, %y)
  return (%c, %a)
"""
    with_grad = X.clone().requires_grad_()
    assert run(text, with_grad, Y)[0] is True
    assert run(text, X, Y)[0] is False
    assert run(text, with_grad, with_grad)[0] is False


def test_guards():
    text = """graph(%x : Tensor, %y : Tensor):
  %g : Float(2, 3) = prim::Guard[profiled_type=Float(2, 3)](%x)
  %t : int = prim::BailoutTemplate_0()
  %h : Float(2, 3) = prim::BailOut[index=0](%t, %y, %g)
  %z : Tensor = aten::mul(%g, %h)
  return (%z)
with prim::BailoutTemplate_0 = graph(%x : Tensor):
  return (%x)
"""
    assert torch.equal(run(text, X, Y), X)
    with pytest.raises(RuntimeError, match=r"expected a tensor of the type Float\(2, 3\)"):
        run(text, X.t(), Y)
    with pytest.raises(RuntimeError, match=r"expected a tensor of the type Float\(2, 3\)"):
        run(text, X, Y.double())


ZERO = "  %zero : Tensor = prim::AutogradZero()\n"


def test_undefined_gradients():
    """Their operators, and prim::GradOf, which makes undefined of undefined."""
    out = run(
        f"""graph(%x : Tensor, %y : Tensor):
{ZERO}  %one : bool = prim::AutogradAnyNonZero(%zero, %x)
  %none : bool = prim::AutogradAnyNonZero(%zero, %zero)
  %all : bool = prim::AutogradAllNonZero(%x, %y)
  %some : bool = prim::AutogradAllNonZero(%x, %zero)
  %az : bool = prim::AutogradAllZero(%zero, %zero)
  %nz : bool = prim::AutogradAllZero(%zero, %y)
  %a : Tensor = prim::AutogradAdd(%x, %y)
  %b : Tensor = prim::AutogradAdd(%zero, %y)
  %c : Tensor = prim::AutogradAdd(%x, %zero)
  %d : Tensor = prim::AutogradAdd(%zero, %zero)
  %e : Tensor, %f : Tensor = prim::GradOf[name="aten::mul"](%x, %zero)
    block0():
      %g : Tensor = aten::mul(%x, %y)
      -> (%g, %x)
  %h : Tensor = prim::GradOf[name="aten::mul"](%zero, %d)
    block0():
      %i : Tensor = aten::mul(%zero, %y)
      -> (%i)
  %no : bool = prim::AutogradAnyNonZero(%h)
  return (%one, %none, %all, %some, %az, %nz, %no, %a, %b, %c, %e, %f, %d, %h)
""",
        X,
        Y,
    )
    assert out[:7] == (True, False, True, False, True, False, False)
    for ours, theirs in zip(out[7:12], (X + Y, Y, X, X * Y, X), strict=True):
        assert torch.equal(ours, theirs)
    assert out[12] is None and out[13] is None


def test_sums_to_a_size():
    text = """graph(%x : Tensor, %n : int[]?):
  %y : Tensor = aten::_grad_sum_to_size(%x, %n)
  return (%y)
"""
    assert torch.equal(run(text, X, None), X)
    assert torch.equal(run(text, X, [3]), X.sum(0))
    assert torch.equal(run(text, X, [2, 1]), X.sum(1, keepdim=True))


def test_operators_of_gradients_record():
    x = X.clone().requires_grad_()
    graph = rushlight.parse_ir(
        f"""graph(%x : Tensor, %y : Tensor):
{ZERO}  %n : int[] = prim::Constant[value=[3]]()
  %a : Tensor = prim::AutogradAdd(%x, %y)
  %b : Tensor = prim::AutogradAdd(%a, %zero)
  %c : Tensor = aten::_grad_sum_to_size(%b, %n)
  %d : Tensor = prim::DifferentiableGraph_0(%c)
  return (%d)
with prim::DifferentiableGraph_0 = graph(%a : Tensor):
  %b : Tensor = aten::mul(%a, %a)
  return (%b)
"""
    )
    y = rushlight.jit.CompilationUnit().create_function("f", graph)(x, Y)
    y.sum().backward()
    theirs = X.clone().requires_grad_()
    (theirs + Y).sum(0).pow(2).sum().backward()
    assert torch.equal(x.grad, theirs.grad)
