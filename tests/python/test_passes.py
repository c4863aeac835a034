"""Passes over graph text: the recorded results, PyTorch's, and how long large graphs take."""

from __future__ import annotations

import pathlib
import re

import pytest
from conftest import TOP

import passes


@pytest.fixture(scope="module")
def tool(build: pathlib.Path) -> pathlib.Path:
    if not passes.tool(build).exists():
        pytest.skip("the tests' tools were not built")
    return build


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{case.name}-{case.path.stem}") for case in passes.cases()]
)
def test_golden(tool: pathlib.Path, case: passes.Case) -> None:
    assert passes.run(tool, case.name, [case.text])[0] == case.after


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{case.name}-{case.path.stem}")
        for case in passes.cases()
        if case.torch
    ],
)
def test_as_torch(tool: pathlib.Path, case: passes.Case) -> None:
    pytest.importorskip("torch")
    assert passes.normal(passes.run(tool, case.name, [case.text])[0]) == passes.normal(
        case.of_torch()
    )


def test_every_pass_has_cases(tool: pathlib.Path) -> None:
    assert sorted(passes.listed(tool)) == sorted({case.name for case in passes.cases()})


def test_documentation(tool: pathlib.Path) -> None:
    page = (TOP / "docs" / "passes.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (yes|no) \| (.*?) \|$", page, re.M)
    assert [(name, what) for name, _, what in rows] == list(passes.listed(tool).items())
    assert {name for name, exact, _ in rows if exact == "no"} == passes.rounding(tool)


def chain(n: int) -> str:
    """A graph of n nodes: chains of operators, branches and lists."""
    lines, last, flag = (
        ["graph(%x : Tensor, %y : Tensor, %c : bool):", "  %one : int = prim::Constant[value=1]()"],
        "x",
        "c",
    )
    for i in range(0, n, 10):
        lines += [
            f"  %a{i} : Tensor = aten::add(%{last}, %y, %one)",
            f"  %b{i} : Tensor = aten::mul(%a{i}, %x)",
            f"  %k{i} : int = prim::Constant[value={i % 100}]()",
            f"  %d{i} : Tensor = aten::mul(%a{i}, %x)",
            f"  %l{i} : Tensor[] = prim::ListConstruct(%b{i}, %d{i})",
            f"  %r{i} : Tensor, %s{i} : Tensor = prim::If(%{flag})",
            f"    block0():\n      %m{i} : Tensor = aten::relu(%b{i})\n      -> (%m{i}, %x)",
            f"    block1():\n      -> (%d{i}, %y)",
            f"  %t{i} : (Tensor, Tensor) = prim::TupleConstruct(%r{i}, %b{i})",
            f"  %u{i} : Tensor, %v{i} : Tensor = prim::TupleUnpack(%t{i})",
            f"  %w{i} : Tensor = aten::add(%u{i}, %v{i}, %k{i})",
        ]
        last = f"w{i}"
    return "\n".join([*lines, f"  return (%{last})\n"])


def test_large_graphs(tool: pathlib.Path) -> None:
    """100,000 nodes in a second at most; what grows faster than its graph would take minutes."""
    large = chain(100_000)
    for name in passes.listed(tool):
        took = int(passes.run(tool, name, [large], timed=True)[0].rsplit("# ", 1)[1].split()[0])
        assert took < 1e9, f"{name} took {took / 1e9:.2f} s"
