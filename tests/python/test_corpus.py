"""The whole public corpus, through the command and through the Python module; and that `verify`
notices what is wrong.

Needs torch and the corpus' maker (../shared, or RUSHLIGHT_SHARED).  It is made once into the build
directory; RUSHLIGHT_CORPUS names one that is there already.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import rushlight
from conftest import TOP

SECONDS = 5.0  # no case may take longer
NIGHTLY = bool(os.environ.get("RUSHLIGHT_NIGHTLY"))


def verify(command: str, *args: Any) -> tuple[int, list[dict]]:
    """(exit code, an object for each case)."""
    run = subprocess.run(
        [command, "verify", *map(str, args), "--json"], capture_output=True, text=True, timeout=1200
    )
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    return run.returncode, [line for line in lines if "case" in line]


def test_by_the_command(command: str, corpus: pathlib.Path) -> None:
    code, cases = verify(command, corpus)
    failed = [f"{case['case']}: {case['why'][:300]}" for case in cases if not case["passed"]]
    slow = [
        f"{case['case']}: {case['seconds']:.1f} s" for case in cases if case["seconds"] > SECONDS
    ]
    assert len(cases) >= 323 and not failed and not slow and code == 0, "\n".join(failed + slow)


def test_on_small_threads(command: str, corpus: pathlib.Path) -> None:
    code, cases = verify(command, corpus, "--stack=65536")
    failed = [f"{case['case']}: {case['why'][:300]}" for case in cases if not case["passed"]]
    most = max(case["stack_bytes"] for case in cases)
    assert len(cases) >= 323 and not failed and code == 0 and most <= 56 << 10, "\n".join(
        [f"{most} bytes", *failed]
    )


def test_by_the_python_module(corpus: pathlib.Path, corpus_tools: pathlib.Path) -> None:
    tool = TOP / "tools" / "corpus_python.py"
    run = subprocess.run(
        [sys.executable, str(tool), str(corpus), "--corpus", str(corpus_tools)],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-1000:]


@pytest.mark.skipif(not NIGHTLY, reason="RUSHLIGHT_NIGHTLY=1 runs it")
@pytest.mark.parametrize("option", ["--no-reuse", "--cpu=portable", "--threads=2", "--plan-first"])
def test_by_the_command_in_other_ways(command: str, corpus: pathlib.Path, option: str) -> None:
    _, cases = verify(command, corpus, option)
    failed = [f"{case['case']}: {case['why'][:300]}" for case in cases if not case["passed"]]
    assert not failed, "\n".join(failed)


def test_perturbed_copies_fail(
    command: str, corpus: pathlib.Path, corpus_tools: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    tool = [
        sys.executable,
        str(TOP / "tools" / "perturb.py"),
        str(corpus),
        str(tmp_path),
        "--corpus",
        str(corpus_tools),
    ]
    kinds = (
        ["--only="] if NIGHTLY else ["--only=modules/", "--only=export/", "--only=vision/resnet"]
    )
    for kind in kinds:
        most = [] if NIGHTLY else ["--most=12"]
        subprocess.run([*tool, kind, *most], check=True, capture_output=True)
    code, cases = verify(command, tmp_path)
    passed = [case["case"] for case in cases if case["passed"]]
    assert code == 1 and len(cases) >= 12 and not passed, f"these pass: {passed}"
    reasons = [case["why"] for case in cases if "cannot run" not in case["why"]]
    assert reasons and all("differ" in why or "not" in why or "raise" in why for why in reasons)


# A program whose recorded calls are then doctored.
SOURCE = """
def forward(self, n: int):
    if n < 0:
        raise ValueError("negative")
    print("n is", n)
    return torch.arange(n), float(n), [n], {"a": n, "b": n + 1}
"""


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A case that passes: two calls, one that returns and one that raises."""
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("echo")
    module = torch.jit.ScriptModule()
    module.define(SOURCE)
    torch.jit.save(module, str(folder / "model.pt"))
    result = (torch.arange(3), 3.0, [3], {"a": 3, "b": 4})
    common = {
        "method": "forward",
        "kwargs": {},
        "tolerances": [(1e-6, 1e-6)],
        "rtol": 1e-6,
        "atol": 1e-6,
    }
    calls = [
        {**common, "args": (3,), "result": result, "stdout": "n is 3\n"},
        {
            **common,
            "args": (-1,),
            "raises": {"type": "Error", "contains": "negative"},
            "tolerances": [],
        },
    ]
    torch.save({"format": 1, "origin": "tests", "calls": calls}, str(folder / "calls.pt"))
    return folder


def result(i: int, value: Any) -> Any:
    """Another item i of the first call's result."""

    def change(calls: list) -> None:
        items = list(calls[0]["result"])
        items[i] = value
        calls[0]["result"] = tuple(items)

    return change


def entry(i: int, key: str, value: Any) -> Any:
    return lambda calls: calls[i].__setitem__(key, value)


def tensor(data: list) -> Any:
    import torch

    return torch.tensor(data)


# What is done to the recorded calls: each must be noticed.
CHANGES = {
    "a wrong dtype": lambda: result(0, tensor([0, 1, 2]).int()),
    "a float dtype": lambda: result(0, tensor([0.0, 1.0, 2.0])),
    "a wrong integer": lambda: result(0, tensor([0, 1, 3])),
    "a wrong shape": lambda: result(0, tensor([[0, 1, 2]])),
    "a wrong float": lambda: result(1, 3.1),
    "an int for a float": lambda: result(1, 3),
    "a tuple for a list": lambda: result(2, (3,)),
    "a longer list": lambda: result(2, [3, 3]),
    "another order of keys": lambda: result(3, {"b": 4, "a": 3}),
    "a list for the tuple": lambda: entry(
        0, "result", [tensor([0, 1, 2]), 3.0, [3], {"a": 3, "b": 4}]
    ),
    "other stdout": lambda: entry(0, "stdout", "n is 4\n"),
    "no stdout": lambda: entry(0, "stdout", ""),
    "another type of exception": lambda: entry(
        1, "raises", {"type": "ValueError", "contains": "negative"}
    ),
    "another message": lambda: entry(1, "raises", {"type": "Error", "contains": "positive"}),
    "a missing raise": lambda: entry(1, "args", (1,)),
    "a raise that is not recorded": lambda: entry(0, "args", (-1,)),
    "other arguments after the call": lambda: entry(0, "args_after", (4,)),
}


def test_the_recorded_case_passes(command: str, recorded: pathlib.Path) -> None:
    code, cases = verify(command, recorded)
    assert code == 0 and [case["passed"] for case in cases] == [True], cases


@pytest.mark.parametrize("name", CHANGES)
def test_verify_notices(
    command: str, recorded: pathlib.Path, tmp_path: pathlib.Path, name: str
) -> None:
    import torch

    saved = torch.load(recorded / "calls.pt", weights_only=True)
    CHANGES[name]()(saved["calls"])
    torch.save(saved, tmp_path / "calls.pt")
    code, cases = verify(command, recorded / "model.pt", tmp_path / "calls.pt")
    assert code == 1 and not cases[0]["passed"], cases


def passes_of(build: pathlib.Path) -> list[str]:
    import passes

    if not passes.tool(build).exists():
        pytest.skip("the tests' tools were not built")
    return list(passes.listed(build, of_functions=True))


# A fork that runs at once raises what its body raises, not the RuntimeError of a wait.
OTHER_ERRORS = {"effects/fork_raises"}


def test_after_passes(command: str, build: pathlib.Path, corpus: pathlib.Path) -> None:
    """Programs have the same results after all passes in a row; nightly, after each one alone."""
    names = passes_of(build)
    for some in ["inline," + ",".join(names), *(names if NIGHTLY else [])]:
        _, cases = verify(command, corpus, "--passes", some)
        failed = [f"{case['case']}: {case['why'][:300]}" for case in cases if not case["passed"]]
        assert len(cases) >= 323
        assert not [line for line in failed if line.split(":")[0] not in OTHER_ERRORS], (
            f"{some}: " + "\n".join(failed)
        )


def archives(corpus: pathlib.Path, every: int) -> list[pathlib.Path]:
    found = sorted([*corpus.rglob("model.pt"), *corpus.rglob("model.pt2")])
    return found[::every]


def graphs(path: pathlib.Path) -> Iterator[tuple[str, Any]]:
    module = rushlight.load(path)
    for name in module.methods():
        yield f"{path.parent.name}.{name}", getattr(module, name).graph


def test_print_parse_print_is_a_fixed_point(corpus: pathlib.Path) -> None:
    n = 0
    for path in archives(corpus, 1 if NIGHTLY else 8):
        for name, graph in graphs(path):
            graph.lint()
            text = graph.str(False)
            again = rushlight.parse_ir(text, True, graph)
            again.lint()
            assert again.str(False) == text, name
            n += 1
    print(f"{n} graphs")
    assert n >= (300 if NIGHTLY else 40)


def canonical(text: str) -> str:
    """Without places in sources, values numbered in the order of the text."""
    numbers: dict[str, str] = {}
    text = re.sub(r" #[^\n]*", "", text)
    return re.sub(r"%[A-Za-z0-9_.]+", lambda m: numbers.setdefault(m[0], f"%{len(numbers)}"), text)


def test_language_programs_print_as_torch_prints_them(corpus: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    same, other = [], []
    for path in archives(corpus, 1):
        if (
            path.parent.parent.name in ("vision", "sequence", "other", "old", "export")
            or path.suffix != ".pt"
        ):
            continue
        ours = rushlight.load(path)
        if "forward" not in ours.methods():
            continue
        equal = canonical(str(torch.jit.load(path).graph)) == canonical(str(ours.forward.graph))
        (same if equal else other).append(f"{path.parent.parent.name}/{path.parent.name}")
    print(f"{len(same)} of {len(same) + len(other)} print alike; others: {' '.join(other)}")
    assert len(same) >= 110
