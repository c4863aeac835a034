"""Functions of vector math against PyTorch, over every exponent of float32 and float64."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import vector_math  # noqa: E402

FUNCTIONS = {**vector_math.ONE, **vector_math.TWO}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_agrees_over_all_exponents(name: str, dtype: torch.dtype) -> None:
    error, at, wrong = vector_math.measure(name, dtype)
    assert not wrong, "\n".join(wrong)
    assert error <= FUNCTIONS[name][dtype == torch.float64], (
        f"{name}({at!r}) is {error:.2f} units off"
    )


@pytest.mark.parametrize(
    "name", ["silu", "gelu", "mish", "softplus", "log_sigmoid", "special_ndtr", "elu", "selu"]
)
def test_activations_are_within_tolerance(name: str) -> None:
    x = vector_math.samples(torch.float32)
    x = x[~(x.abs() > 1e38)]  # PyTorch's gelu of 2e38 is inf in vectors and 2e38 alone
    own = {"log_sigmoid": torch.nn.functional.logsigmoid, "special_ndtr": torch.special.ndtr}
    want = own.get(name, getattr(torch.nn.functional, name, None))(x)
    torch.testing.assert_close(vector_math.call(name, x), want, equal_nan=True)
