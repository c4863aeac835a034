"""script_programs*.py: PyTorch and Rushlight run the same archives; results, prints and errors
agree."""

from __future__ import annotations

import copy
import pathlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
import script_programs_classes  # noqa: E402, F401
import script_programs_corners  # noqa: E402, F401
import script_programs_flow  # noqa: E402, F401
import script_programs_modules  # noqa: E402, F401
import script_programs_texts  # noqa: E402, F401
from script_programs import PROGRAMS  # noqa: E402


def same(got: Any, want: Any) -> bool:
    if isinstance(want, torch.Tensor):
        return (
            isinstance(got, torch.Tensor)
            and got.dtype == want.dtype
            and got.shape == want.shape
            and torch.allclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True)
        )
    if isinstance(want, tuple):
        return isinstance(got, tuple) and len(got) == len(want) and all(map(same, got, want))
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(same, got, want))
    if isinstance(want, dict):
        return list(got) == list(want) and all(map(same, got.values(), want.values()))
    if isinstance(want, complex):
        return isinstance(got, complex) and abs(got - want) <= 1e-6 + 1e-5 * abs(want)
    if isinstance(want, float):
        return isinstance(got, float) and (
            got == want or got != got and want != want or abs(got - want) < 1e-6 * abs(want)
        )
    if type(want).__module__ not in ("builtins", "torch"):  # enums
        return str(got).split(".")[-1].strip("<>") == str(want).split(".")[-1].strip("<>")
    return (
        type(got) is type(want)
        and got == want
        or str(got) == str(want)
        and "dtype" in type(want).__name__
    )


def answer(module: Any, args: tuple, capfd: Any) -> tuple[Any, str, str]:
    """(result, error, what was printed)."""
    capfd.readouterr()
    result, error = None, ""
    try:
        torch.manual_seed(0)
        result = module(*copy.deepcopy(args))
    except Exception as e:
        error = str(e).strip().split("\n")[-1]
    return result, error, capfd.readouterr().out


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_program(name: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture) -> None:
    thing, arguments = PROGRAMS[name]
    torch.manual_seed(1)
    program = torch.jit.script(thing().eval() if isinstance(thing, type) else thing)
    path = str(tmp_path / "program.pt")
    torch.jit.save(program, path)
    theirs, mine = torch.jit.load(path), rushlight.load(path)
    for args in arguments:
        want, want_error, want_text = answer(theirs, args, capfd)
        got, got_error, got_text = answer(mine, args, capfd)
        assert got_error == want_error, args
        assert got_text == want_text
        assert want_error or same(got, want), (args, got, want)
