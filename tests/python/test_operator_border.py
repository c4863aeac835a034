"""What op_call refuses before a kernel runs: odd numbers, undefined tensors in lists, dtypes
without a common one."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import rushlight

ops = rushlight.ops.aten
NO_DTYPES = [44, 46, 127, 255, -1, 2**32, -(2**63), 2**63 - 1]


def ones(*sizes: int) -> Any:
    return ops.ones(list(sizes))


@pytest.mark.parametrize("dtype", NO_DTYPES)
def test_numbers_that_are_no_dtype(dtype: int) -> None:
    x = ones(3, 4)
    for ask in (
        lambda: ops.sum(x, [0], True, dtype=dtype),
        lambda: ops.cumprod(x, 0, dtype=dtype),
        lambda: ops.zeros([2], dtype=dtype),
        lambda: ops.softmax(x, 0, dtype),
        lambda: ops.promote_types(dtype, 3),
    ):
        with pytest.raises(RuntimeError, match="there is no dtype"):
            ask()


def test_quantized_dtypes_are_for_their_operators() -> None:
    x = ones(3, 4)
    asks = [lambda: ops.sum(x, [0], True, dtype=13), lambda: ops.cumsum(x, 0, dtype=12)]
    if "torch" not in sys.modules:  # else empty() returns a tensor of torch's: it cannot hold this
        q = ops.empty([3, 4], dtype=13)
        asks += [lambda: ops.exp(x, out=q), lambda: ops.add(q, x)]
    for ask in asks:
        with pytest.raises(NotImplementedError, match="QUInt8|QInt8"):
            ask()


@pytest.mark.parametrize("number", [-1, 9, 2**40, -(2**63)])
def test_layouts_and_memory_formats(number: int) -> None:
    with pytest.raises(RuntimeError, match="there is no layout"):
        ops.zeros([2], layout=number)
    with pytest.raises(RuntimeError, match="there is no memory format"):
        ops.clone(ones(2, 2), memory_format=number)


def test_dtypes_without_a_common_one() -> None:
    odd, x = ops.to(ones(5), 24), ones(2)
    for ask in (
        lambda: ops.isin(odd, x),
        lambda: ops.bucketize(odd, x),
        lambda: ops.result_type(odd, x),
        lambda: ops.cat([odd, x, x]),
    ):
        with pytest.raises((RuntimeError, NotImplementedError)):
            ask()


def test_pairs_of_matrices_have_one_dtype() -> None:
    with pytest.raises(
        RuntimeError, match="same dtype, but found b of type Double and A of type Float"
    ):
        ops.cholesky_solve(ops.ones([3, 2], dtype=7), ops.eye(3))


def test_parameters_that_are_not_there() -> None:
    for n in (0, 2):
        with pytest.raises(
            RuntimeError, match=f"a Tensor with {n} elements cannot be converted to Scalar"
        ):
            ops.fake_quantize_per_tensor_affine(
                ones(3, 4), ops.zeros([n]), ops.zeros([n], dtype=3), 0, 5
            )
    with pytest.raises(RuntimeError, match="expected a tensor or a list of tensors"):
        ops.dequantize.any(5)


def test_statistics_of_two_dimensions() -> None:
    with pytest.raises(RuntimeError, match="TensorAccessor expected 1 dims but tensor has 2"):
        ops.batch_norm(
            ops.full([2, 64], 3.0),
            None,
            None,
            ops.zeros([1, 64]),
            ops.ones([1, 64]),
            True,
            0.5,
            1e-5,
            False,
        )


def test_numbers_whose_result_is_a_float_are_real() -> None:
    with pytest.raises(RuntimeError, match="complex"):
        ops.log.Scalar_Scalar(2.0, 1j)


def test_incomplete_gamma_of_large_numbers() -> None:
    torch = pytest.importorskip("torch")
    a, x = [2e4, 1e5, 1e8, 1e10], [2.01e4, 0.999e5, 1e8 + 1e4, 1e10]
    want = torch.igamma(
        torch.tensor(a, dtype=torch.float64), torch.tensor(x, dtype=torch.float64)
    ).tolist()
    got = ops.igamma(
        rushlight.tensor(a, dtype=rushlight.float64), rushlight.tensor(x, dtype=rushlight.float64)
    ).tolist()
    assert got == pytest.approx(want, rel=1e-8)
