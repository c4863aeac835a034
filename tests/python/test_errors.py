"""docs/errors.md: each example raises the error shown there; the classes of errors."""

from __future__ import annotations

import re

import pytest
import rushlight
import rushlight.jit.frontend  # the classes of errors
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


SOURCE = """
def f(x, y: int, *, k: float): return x + y * k
def g(x, y: int, w: float = 2.0): return x + y * w
"""
REFUSED = [  # function, positional arguments, named ones; a tensor stands for None
    ("f", (None, 1, 2.0), {}),
    ("f", (None, 1, 2.0, 3.0), {}),
    ("f", (None, 1), {"y": 3}),
    ("f", (None,), {"k": 2.0, "x": 3}),
    ("f", ("a",), {}),
    ("g", (), {}),
    ("g", (None, 1), {"y": 2}),
    ("g", (None, 1), {"z": 1}),
    ("g", (None,), {"y": 1, "x": 1}),
    ("g", (None, 1), {"w": 3.0, "x": 3}),
    ("g", (None, "1"), {"z": 1}),
    ("g", (None, 1, 2.0, 3.0), {}),
]


@pytest.mark.parametrize("name, args, named", REFUSED)
def test_refused_arguments_are_refused_in_pytorchs_words(
    name: str, args: tuple, named: dict
) -> None:
    said = []
    for module, tensor in ((torch.jit, torch.ones(2)), (rushlight, torch.ones(2))):
        f = getattr(module.CompilationUnit(SOURCE), name)
        with pytest.raises(RuntimeError) as refusal:
            f(*(tensor if a is None else a for a in args), **named)
        said.append(str(refusal.value))
    assert said[0] == said[1]


def test_what_a_function_takes_in_any_order() -> None:
    unit = rushlight.CompilationUnit(SOURCE)
    x = rushlight.ones(2)
    assert unit.f(x, k=2, y=True).tolist() == [3.0, 3.0]
    assert unit.g(w=3, y=1, x=x).tolist() == [4.0, 4.0]
    assert unit.g(x, 1).tolist() == [3.0, 3.0]
    many = ", ".join(f"a{i}: int = {i}" for i in range(70))
    f = rushlight.CompilationUnit(f"def f({many}) -> int: return a0 + a69").f
    assert f(a69=1) == 1 and f(*range(1, 71)) == 71
