"""What op_call refuses before a kernel runs: numbers that name nothing, undefined tensors in lists, dtypes without a common one."""

from __future__ import annotations

import pytest

import rushlight

INT64_MIN = -(2**63)


def run(tmp_path, body, *args):
    source = f"def f(x):\n{body}"
    return rushlight.script(source).f(*args)
