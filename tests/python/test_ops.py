"""Operators against PyTorch, on PyTorch's own samples: a part of what op_walk.py walks (`make
nightly`: all of it)."""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")  # of PyTorch's samples

import op_walk  # noqa: E402

KNOWN = op_walk.exceptions()


@pytest.mark.parametrize("op", op_walk.op_db, ids=op_walk.entry_name)
def test_agrees_with_pytorch(op: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = op_walk.walk(op, op_walk.DTYPES, most=3, forms=1, layouts=1)
    failures = op_walk.unlisted(row, KNOWN)
    assert not failures, "\n".join(failures)
    if not any(way == "pass" for _, _, way in row.counts):
        pytest.skip("no samples on this machine" if not row.why else row.why[0][4])
