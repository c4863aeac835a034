"""Operators against PyTorch, on PyTorch's own samples: three of each operator and dtype."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("torch")
pytest.importorskip("torch.testing._internal.common_methods_invocations")

import ops_check  # noqa: E402


def names(op: object) -> str:
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


@pytest.mark.parametrize("op", ops_check.op_db, ids=names)
def test_agrees_with_pytorch(op: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts, texts = ops_check.check_operator(op, 3)
    assert not texts, "\n".join(texts)
    if counts.get("unsupported") and not counts.get("agree"):
        pytest.skip("cannot run yet")
