"""Some hundreds of random programs: rushlight, PyTorch and CPython agree.  `make nightly` runs
20,000."""

from __future__ import annotations

import ast

import pytest
import random_programs
import random_run

COUNT = 400


def test_three_interpreters_agree() -> None:
    pytest.importorskip("torch")
    totals = random_run.run(1, COUNT, jobs=2, batch=COUNT // 2)
    print(random_run.census_table(totals.census))
    assert not totals.found, "\n".join(random_run.report(f) for f in totals.found)
    assert totals.programs == COUNT
    assert len(totals.alone) <= 2, "\n".join(random_run.report(f) for f in totals.alone)


def test_a_seed_says_the_whole_program() -> None:
    assert random_programs.program(7) == random_programs.program(7)
    assert len({random_programs.program(seed).text for seed in range(50)}) == 50


def test_programs_get_smaller() -> None:
    """The steps are programs, and reach one that is small."""
    text = random_programs.program(3).text

    def has_for(tree: ast.Module) -> bool:
        return any(isinstance(n, ast.For) for n in ast.walk(tree))

    tree = ast.parse(text)
    again = True
    while again:
        again = False
        for smaller in random_run.smaller(tree):
            new = ast.parse(ast.unparse(ast.fix_missing_locations(smaller)))
            if has_for(new) and len(ast.unparse(new)) < len(ast.unparse(tree)):
                tree, again = new, True
                break
    assert (
        len(ast.unparse(tree).strip().split("\n")) <= 5
    )  # no more than a class, its method and the loop
