"""TorchScript from a user's file: what PyTorch compiles from the same text answers the same."""

from __future__ import annotations

import copy
import pathlib
from typing import Any

import pytest
import rushlight
from conftest import import_file

torch = pytest.importorskip("torch")

FILE = pathlib.Path(__file__).resolve().parent.parent / "script" / "programs" / "language.py"


MODULE = import_file(FILE)
CASES = [name for name in vars(MODULE) if name.startswith("case_")]


@pytest.fixture(scope="module")
def ours() -> Any:
    return rushlight.load(str(FILE))


def same(got: Any, want: Any) -> None:
    if isinstance(want, torch.Tensor):
        got = torch.as_tensor(got)
        assert got.dtype == want.dtype and torch.equal(got, want)
    elif isinstance(want, (list, tuple)):
        assert isinstance(got, (list, tuple)) and len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            same(a, b)
    else:
        assert type(got) is type(want) and got == want


def outcome(call: Any, args: Any, capfd: Any) -> tuple[Any, str, str]:
    capfd.readouterr()
    try:
        result, error = call(*copy.deepcopy(args)), ""
    except Exception as e:  # noqa: BLE001
        result, error = None, str(e).strip().splitlines()[-1]
    return result, error, capfd.readouterr().out


@pytest.mark.parametrize("name", CASES)
def test_same_as_pytorch(name: str, ours: Any, capfd: Any) -> None:
    theirs = torch.jit.script(getattr(MODULE, name))
    for args in MODULE.CALLS.get(name, [()]):
        want, want_error, want_out = outcome(theirs, args, capfd)
        got, got_error, got_out = outcome(getattr(ours, name), args, capfd)
        assert got_error.removeprefix("RuntimeError: ") == want_error.removeprefix("RuntimeError: ")
        assert got_out == want_out
        same(got, want)


def leaving() -> Any:
    return import_file(FILE.with_name("leaving.py"))


@pytest.mark.parametrize("name", ["by_break", "by_break_and_continue", "by_all"])
@pytest.mark.parametrize("items", [[], [1], [1, 2, 3], [1, 2, 3, 4, 5, 6], [9]])
@pytest.mark.parametrize("v", [0, 7])
def test_ways_out_of_with_are_pythons(name: str, items: list[int], v: int) -> None:
    want = getattr(leaving(), name)(list(items), v)
    assert getattr(rushlight.load(str(FILE.with_name("leaving.py"))), name)(items, v) == want
