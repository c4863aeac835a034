"""Methods prepared before their first call: it compiles nothing, and preparing leaves nothing
behind."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import rushlight

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
TEXT = """
def chain(x, w, n: int = 1):
    for i in range(n):
        x = (x * w + w).relu()
    return x
def write(x):
    print("called")
    return x.add_(1)
"""


def compiled() -> dict[str, int]:
    counters = rushlight.compile_counters()
    return {name: counters[name] for name in ("functions", "groups", "plans")}


def test_the_first_call_compiles_nothing() -> None:
    module = rushlight._rushlight.compile(TEXT)
    x = np.ones(64, np.float32)
    had = compiled()
    assert module.chain.prepare(x, x, n=2) is None
    before = compiled()
    assert before["functions"] > had["functions"]
    assert np.array_equal(module.chain(x, x, n=2), np.full(64, 3, np.float32))
    assert compiled() == before


def test_nothing_is_changed(capfd: pytest.CaptureFixture[str]) -> None:
    module = rushlight._rushlight.compile(TEXT)
    x = np.ones(4, np.float32)
    module.write.prepare(x)
    assert x[0] == 1 and capfd.readouterr().out == ""
    module.write(x)
    assert x[0] == 2 and capfd.readouterr().out == "called\n"


@pytest.mark.parametrize("name", ["digits.pt", "digits.pt2"])
def test_without_arguments(name: str) -> None:
    model: Any = rushlight.load(str(DATA / name))
    model.eval()
    model.prepare()
    before = compiled()
    with rushlight.no_grad():
        model(np.zeros((1, 1, 8, 8), np.float32))
    assert compiled()["functions"] == before["functions"]


def test_what_the_call_refuses_is_refused() -> None:
    module = rushlight._rushlight.compile(TEXT)
    with pytest.raises(RuntimeError, match="missing value for argument 'w'"):
        module.chain.prepare(np.ones(2, np.float32))
