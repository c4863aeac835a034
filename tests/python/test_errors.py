"""docs/errors.md: each example says what it says there; the classes of errors."""

from __future__ import annotations

import re

import pytest
import rushlight
from conftest import TOP
from rushlight import _rushlight

torch = pytest.importorskip("torch")

PAGE = (TOP / "docs" / "errors.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(
    r"^## ([^\n]*)\n.*?^```torchscript\n(.*?)^```\n\n(?:`(f\([^`]*)`:\n\n)?```text\n(.*?)^```",
    re.M | re.S,
)
EXAMPLES = [pytest.param(*m.groups()[1:], id=m[1]) for m in EXAMPLE.finditer(PAGE)]


@pytest.mark.parametrize(("source", "call", "message"), EXAMPLES)
def test_example(source: str, call: str | None, message: str) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        unit = _rushlight.compile(source, "example.py")
        if call:
            eval(call, {"f": unit.f, "ones": torch.ones})
    lines = str(caught.value).strip("\n").split("\n")
    assert f"{type(caught.value).__name__}: " + "\n".join(
        line.rstrip() for line in lines
    ) == message.rstrip("\n")


def test_there_are_ten_at_least() -> None:
    assert len(EXAMPLES) >= 10


def test_classes_of_what_the_program_raises() -> None:
    unit = _rushlight.compile("""
def f(n: int):
    if n == 0:
        raise ValueError("v")
    return [1][n]
""")
    with pytest.raises(rushlight.Error, match=r"builtins\.ValueError: v"):
        unit.f(0)
    with pytest.raises(RuntimeError, match="list index out of range"):
        unit.f(7)
