"""Executors: what a call tells about itself does not depend on how its graph was changed.

What calls compute is compared in test_same_runs.py.
"""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest
import rushlight
from conftest import DATA, import_file

torch = pytest.importorskip("torch")

EXECUTORS = ("simple", "profiling")


class Scale(torch.nn.Module):
    """A module whose method fails for some arguments."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = by

    def inner(self, x: torch.Tensor, n: int) -> torch.Tensor:
        if n == 1:
            raise ValueError("one")
        if n == 2:
            x = x.view(7, 7)
        return x * self.by

    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return self.inner(x + 1, n).relu()


def shift(x: torch.Tensor, n: int) -> torch.Tensor:
    assert n != 3, "three"
    if n == 4:
        print("four", [1, 2][n])
    return x - n


def twice(x: torch.Tensor, n: int) -> torch.Tensor:
    for i in range(2):
        x = shift(x, n + i)
    return x


class Net(torch.nn.Module):
    """Calls in calls, in branches and loops."""

    def __init__(self) -> None:
        super().__init__()
        self.a = Scale(2.0)
        self.b = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        y = self.b(x)
        if n > 0:
            y = self.a(y, n)
        else:
            y = twice(y, -n)
        if n == -9:
            futures = [torch.jit.fork(twice, y, 3) for _ in range(2)]
            y = torch.jit.wait(futures[1])
        return twice(y, 6)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("executors") / "net.pt"
    torch.manual_seed(3)
    torch.jit.script(Net().eval()).save(str(path))
    return str(path)


def both(command: str, *args: str) -> list[subprocess.CompletedProcess]:
    return [
        subprocess.run(
            [command, *args, "--executor", executor], capture_output=True, text=True, timeout=120
        )
        for executor in EXECUTORS
    ]


@pytest.mark.parametrize("n", [0, 1, 2, 3, -2, -3, -4, -9, 5])
@pytest.mark.parametrize("size", ["2,4", "2,5"])
def test_errors_and_tracebacks(command: str, model: str, n: int, size: str) -> None:
    """A failure names the same lines and functions, although its calls were inlined."""
    plain, other = both(command, "run", model, f"ones({size})", f"{n}")
    assert (plain.returncode, plain.stdout, plain.stderr) == (
        other.returncode,
        other.stdout,
        other.stderr,
    )
    if size == "2,5":
        assert "in forward" in plain.stderr and plain.stderr.count("~~~") >= 2


def seen(text: str) -> dict:
    """What a profile counted, by the path of callers: times, groups and the order of rows, which
    follows times, are the executor's."""
    got = json.loads(text)
    rows = got["methods"]

    def path(row: dict) -> tuple[str, ...]:
        parent = row.get("parent")
        return (*(path(rows[parent]) if parent is not None else ()), row["name"])

    return {
        "methods": sorted((path(row), row["calls"]) for row in rows),
        "dropped": got["dropped"],
    }


def power(x: torch.Tensor, n: int) -> torch.Tensor:
    for _ in range(n):
        x = x @ x
    return x


class Powers(torch.nn.Module):
    """Calls without pointwise operators, which would become groups across calls."""

    def twice(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return power(power(x, n), n)

    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        for i in range(n):
            if i % 2 == 0:
                x = self.twice(x, i)
            x = power(x, 1).softmax(0)
        return self.twice(x, 1)


@pytest.mark.parametrize("n", ["0", "1", "5"])
def test_profiles_have_the_same_methods(command: str, tmp_path: pathlib.Path, n: str) -> None:
    """Every call is an event, each time: inlined calls have marks under a profile."""
    path = tmp_path / "powers.pt"
    torch.jit.script(Powers()).save(str(path))
    args = (str(path), "ones(3,3)", n, "--calls=3", "--warmup=1", "--json")
    plain, other = both(command, "profile", *args)
    assert plain.returncode == 0, plain.stderr
    assert seen(plain.stdout) == seen(other.stdout)
    methods = seen(plain.stdout)["methods"]
    powers = sum(calls for path, calls in methods if path[-1].endswith(".power"))
    assert powers == 3 * (int(n) + 2 * ((int(n) + 1) // 2) + 2)


def test_profile_of_a_call_that_fails(command: str, model: str) -> None:
    plain, other = both(command, "profile", model, "ones(1,4)", "1", "--calls=2", "--json")
    assert plain.returncode == other.returncode != 0
    assert plain.stderr == other.stderr


@pytest.mark.parametrize("name", ["life.pt", "digits.pt"])
def test_profiles_of_archives(command: str, name: str) -> None:
    path = pathlib.Path(DATA / name)
    args = ["generations=3"] if name == "life.pt" else ["zeros(1,1,8,8)"]
    plain, other = both(command, "profile", str(path), *args, "--calls=2", "--json")
    assert seen(plain.stdout) == seen(other.stdout)


def test_a_branch_on_an_argument_that_is_none(tmp_path: pathlib.Path) -> None:
    """The inlined argument is a constant, whose attributes a branch that is never taken sets."""
    text = """
from typing import List, Optional

class Box:
    def __init__(self, items: List[int]):
        self.items = items

def keep(n: int, box: Optional[Box] = None) -> int:
    if box is not None:
        if n > 3:
            print(n)
        else:
            box.items = [n] * 2
        n = n + len(box.items)
    else:
        n = n - 1
    return n

def f(n: int) -> int:
    return keep(n) + keep(n, Box([n]))
"""
    for executor in ("simple", "specialising", "profiling"):
        rushlight.set_executor(executor)
        path = tmp_path / f"{executor}_box.py"
        path.write_text(text)
        f = rushlight.script(import_file(path).f)
        assert [f(2), f(2), f(7)] == [5, 5, 14], executor
    rushlight.set_executor("profiling")
