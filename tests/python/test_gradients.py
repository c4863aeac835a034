"""Gradients of the operator table against torch.autograd.grad, on a few of PyTorch's samples;
grad_walk.py takes all."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")  # of PyTorch's samples

import grad_walk  # noqa: E402
import gradient_cases  # noqa: E402
import rushlight  # noqa: E402
import torch  # noqa: E402

ENTRIES = [op for op in grad_walk.op_db if op.supports_autograd]


@pytest.mark.parametrize("op", ENTRIES, ids=grad_walk.full_name)
def test_equals_autograd(op: object) -> None:
    name = grad_walk.full_name(op)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = grad_walk.walk(op, (2, 1))
    if name in grad_walk.EXCEPTIONS:
        pytest.xfail(grad_walk.EXCEPTIONS[name])
    assert not row["why"], "; ".join(row["why"])


@pytest.mark.parametrize("name", gradient_cases.CASES)
def test_what_no_sample_reaches(name: str) -> None:
    args, named = gradient_cases.CASES[name](gradient_cases.Maker())
    packet, _, overload = name.strip().partition(".")
    function = getattr(getattr(torch.ops.aten, packet), overload or "default")
    sample = grad_walk.core.SampleInput(args[0], args=args[1:], kwargs=named)
    assert grad_walk.inputs_of(sample), "nothing requires a gradient"
    grad_walk.REACHED.clear()
    assert grad_walk.check(function, sample) == ""
    assert any(reached == "aten::" + name.strip() for reached, _ in grad_walk.REACHED)


def test_at_least_nine_of_ten_have_one() -> None:
    assert len(grad_walk.EXCEPTIONS) <= len(ENTRIES) // 10


def test_formulas_take_what_they_name() -> None:
    formulas = rushlight.ops.gradient("aten::mul.Tensor")
    assert sorted(formulas) == ["other", "self"]
    assert formulas["self"].takes == ("grad", "other")
    assert rushlight.ops.gradient("aten::mul_.Tensor")["self"].takes == ("grad", "other")
    assert rushlight.ops.gradient("aten::sum")["self"].takes == ("grad", "self_sizes")
    assert rushlight.ops.gradient("aten::eq.Tensor") == {}
    with pytest.raises(ValueError, match="there is no operator aten::nothing"):
        rushlight.ops.gradient("aten::nothing")


def test_one_formula_serves_several_inputs() -> None:
    formulas = rushlight.ops.gradient("aten::matmul")
    assert formulas["self"] is formulas["other"]
    x, y = torch.randn(3, 4), torch.randn(4)
    to_x, to_y = formulas["self"]({"grad": torch.ones(3), "self": x, "other": y})
    torch.testing.assert_close(to_x, y.expand(3, 4))
    torch.testing.assert_close(to_y, x.sum(0))


def test_a_gradient_fits_its_argument() -> None:
    formula = rushlight.ops.gradient("aten::mul.Tensor")["other"]
    grad, x, y = (
        torch.ones(2, 3, dtype=torch.complex128),
        torch.randn(2, 3, dtype=torch.complex128),
        torch.randn(3),
    )
    (got,) = formula({"grad": grad, "self": x, "other": y})
    assert got.dtype == torch.float32 and got.shape == (3,)
    torch.testing.assert_close(got, x.sum(0).real.float())


def test_a_formula_refuses_values_of_other_types() -> None:
    formula = rushlight.ops.gradient("aten::mul.Scalar")["self"]
    with pytest.raises(RuntimeError, match="value 1 of a gradient of aten::mul is of another type"):
        formula({"grad": torch.ones(2), "other": "two", "self": torch.ones(2)})
