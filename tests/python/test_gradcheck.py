"""`rushlight gradcheck`: right gradients pass, wrong ones are found, errors say what was
expected."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest
from conftest import TOP

PROGRAMS = """
def right(x, y):
    return (x * y).sin().sum(), [y.exp()], {"z": (x / (1 + y * y)).relu()}

def wrong(x):
    return x.detach() * x

def one_element_is_wrong(x):
    y = x * x
    z = y.detach()
    return torch.cat([y[:7], z[7:8], y[8:]])

def draws(x):
    return torch.dropout(x, 0.5, True).pow(2)

def whole(n: int) -> int:
    return n

def number(x):
    return x * 2

def raises(x):
    raise ValueError("no such thing")

def loops(x):
    while True:
        x = x * 1.0
    return x
"""


@pytest.fixture
def programs(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "programs.py").write_text(PROGRAMS)
    return tmp_path / "programs.py"


def run(command: str, *args: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [command, "gradcheck", *map(str, args)],
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_right_gradients_pass(command: str, programs: pathlib.Path) -> None:
    done = run(command, programs, "right", "randn(2,3)", "y=randn(3)")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["ok", "ok"]
    assert "input 0" in lines[0] and "6 of 6 elements" in lines[0]
    assert lines[1].split()[1] == "y"
    assert lines[2].startswith("2 passed, 0 failed; worst: ")


def test_a_network_passes_and_keeps_its_statistics(command: str) -> None:
    done = run(command, "examples/digits/digits.pt", "randn(2,1,8,8)", "--samples=3", "--json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[-1] == {"passed": 11, "failed": 0}
    assert rows[0]["name"] == "input 0" and rows[1]["name"] == "features.0.weight"
    for row in rows[:-1]:
        assert row["ok"] and row["checked"] == 3
        assert row["worst"]["difference"] <= 1e-5 + 1e-3 * abs(row["worst"]["numeric"])


def test_random_numbers_are_the_same_in_every_call(command: str, programs: pathlib.Path) -> None:
    assert run(command, programs, "draws", "randn(30)").returncode == 0
    assert run(command, programs, "draws", "randn(30)", "--seed=7").returncode == 0


def test_a_wrong_gradient_is_found(command: str, programs: pathlib.Path) -> None:
    done = run(command, programs, "wrong", "full([2], 3.0)")
    assert done.returncode == 1
    assert done.stdout.startswith("FAIL")
    assert "0 passed, 1 failed; worst: input 0[" in done.stdout


def test_the_worst_element_is_named(command: str, programs: pathlib.Path) -> None:
    done = run(command, programs, "one_element_is_wrong", "full([10], 2.0)")
    assert done.returncode == 1
    assert "worst at [7]" in done.stdout and "analytic 0" in done.stdout
    assert "worst: input 0[7], a difference of " in done.stdout
    few = run(command, programs, "one_element_is_wrong", "full([10], 2.0)", "--samples=2")
    assert few.returncode == 0 and "2 of 10 elements" in few.stdout
    loose = run(command, programs, "one_element_is_wrong", "full([10], 2.0)", "--atol=10")
    assert loose.returncode == 0


@pytest.mark.parametrize(
    "args, code, text",
    [
        (["whole", "3"], 2, "whole returns no floating-point tensor: expected one"),
        (["number", "3"], 2, "Expected a value of type 'Tensor"),
        (["number", "zeros(2,dtype=int64)"], 2, "no floating-point tensor"),
        (["raises", "randn(2)"], 4, "no such thing"),
        (["loops", "randn(2)", "--max-seconds=0.3"], 5, "0.3"),
        (["number"], 2, "number"),
        (["number", "randn(2)", "--samples=0"], 2, "--samples takes a number from 1, not '0'"),
        (["number", "randn(2)", "--samples=-3"], 2, "--samples takes a number from 1"),
        (["number", "randn(2)", "--sample=3"], 2, "--samples"),
    ],
)
def test_errors_name_what_was_expected(
    command: str, programs: pathlib.Path, args: list[str], code: int, text: str
) -> None:
    done = run(command, programs, *args)
    assert done.returncode == code, done.stdout + done.stderr
    assert text in done.stderr


def test_files(command: str) -> None:
    assert run(command).returncode == 2
    assert run(command, "no/such.pt", "randn(2)").returncode == 3
    done = run(command, "examples/digits/digits.pt2")
    assert done.returncode == 2
    assert "expected an exported program of float64 tensors" in done.stderr


def test_an_exported_program_of_float64(command: str, tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()).double()
    program = torch.export.export(net, (torch.randn(2, 4, dtype=torch.float64),))
    torch.export.save(program, tmp_path / "net.pt2")
    done = run(command, tmp_path / "net.pt2")
    assert done.returncode == 0 and "3 passed, 0 failed" in done.stdout, done.stderr
