"""Some hundreds of programs that lie, through the command: refused or answered rightly.  `make
nightly` runs 20,000, under sanitizers too."""

from __future__ import annotations

import lying_programs
import lying_run
import pytest
from lying_run import Outcome, judge
from lying_world import INT, Case

COUNT = 800


def test_lies_do_no_harm(command: str) -> None:
    findings, census = lying_run.run_many(command, None, 1, COUNT, 2)
    print(lying_run.table(census))
    assert not findings, "\n".join(lying_run.report(f) for f in findings[:5])
    assert sum(n for (row, _), n in census.items() if row == "all") == COUNT
    ran = census["all", "answered"] + census["all", "raised"]
    assert ran >= 0.3 * COUNT, "most are nearly right"
    assert census["honest", "answered"] >= 0.03 * COUNT


def test_exporting_lies_does_no_harm(command: str) -> None:
    findings, census = lying_run.run_many(command, None, 1, COUNT, 2, "export")
    print(lying_run.table(census))
    assert not findings, "\n".join(lying_run.report(f) for f in findings[:5])
    total = sum(n for (row, _), n in census.items() if row == "all")
    assert census["all", "answered"] >= 0.15 * total, "many can be exported"


def test_a_seed_says_the_whole_program() -> None:
    assert lying_programs.case(7).data == lying_programs.case(7).data
    assert lying_programs.case(5).data == lying_programs.case(5).data
    assert len({lying_programs.case(seed).data for seed in range(50)}) == 50


CASE = Case(1, ["cast"], {"m/code/__torch__.py": b"return 94402233076624"}, [], INT)


@pytest.mark.parametrize(
    ("code", "out", "err", "found"),
    [
        (0, "@int 5\n@str sa\n7\n", "", ""),
        (0, "@int 94402233076624\n7\n", "", ""),  # the program prints that number
        (0, "@int 94402233076625\n7\n", "", "an address in the output: an int"),
        (0, "@Any <C object at 0x55d0c0ffee00>\n7\n", "", "an address in the output: 0x"),
        (0, "@int sa\n7\n", "", "printed 'sa' as int"),
        (0, "@float (1, 2)\n7\n", "", "printed '(1, 2)' as float"),
        (0, "'sa'\n", "", "result is a str, not int"),
        (-11, "", "", "signal 11"),
        (139, "", "", "signal 11"),
        (70, "", "", "exit code 70"),
        (
            1,
            "",
            "x.c:1: runtime error: load of null pointer",
            "x.c:1: runtime error: load of null pointer",
        ),
        (4, "", "rushlight: RuntimeError: unchecked_cast", ""),
    ],
)
def test_what_is_found(code: int, out: str, err: str, found: str) -> None:
    assert judge(CASE, Outcome(code, out, err, 0.1, 0.1)) == found


def test_an_end_that_is_late_is_found() -> None:
    assert judge(CASE, Outcome(5, "", "", 1.5, 1.5)) == "late"
    assert judge(CASE, Outcome(5, "", "", 1.5, 0.1)) == ""  # the machine was busy
    assert judge(CASE, Outcome(-9, "", "", 31.0, 0.1)) == "hangs"
