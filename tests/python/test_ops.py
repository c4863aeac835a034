"""Operators against PyTorch, on PyTorch's own samples: three of each operator and dtype."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")  # of PyTorch's samples

import ops_check  # noqa: E402

# Known to differ, and why: each must differ, so that the list cannot outlive its reasons.
DIFFERENT = {
    "conv_transpose2d": "PyTorch sums float16 and bfloat16 in that dtype, here in float32",
    "conv_transpose3d": "PyTorch sums float16 and bfloat16 in that dtype, here in float32",
    "linalg_eigh": "an eigenvector's sign is free; LAPACK's choice is not followed for UPLO='U'",
    "matrix_exp": "float16 is refused; PyTorch's float32 is further from the true value than the tolerance",
}


def names(op: object) -> str:
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


@pytest.mark.parametrize("op", ops_check.op_db, ids=names)
def test_agrees_with_pytorch(op: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts, texts = ops_check.check_operator(op, 3)
    if op.aten_name in DIFFERENT:
        assert texts, f"{op.aten_name} agrees now: take it off DIFFERENT"
        pytest.xfail(DIFFERENT[op.aten_name])
    assert not texts, "\n".join(texts)
    if counts.get("unsupported") and not counts.get("agree"):
        pytest.skip("cannot run yet")
