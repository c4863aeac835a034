"""Calls that would take long end at their deadline (deadlines.py has the rows and measures
them)."""

from __future__ import annotations

import deadlines
import pytest

# Seconds: what a row may be late on a machine that does other things meanwhile.
LATE = 1.0
QUICK = [name for name, row in deadlines.ROWS.items() if not row.slow]
# Every third row here; deadlines.py runs all.
SOME = QUICK[::3]


@pytest.mark.parametrize("name", SOME)
def test_a_deadline_is_kept(name: str) -> None:
    one = deadlines.run_apart(name)
    assert one.ended in ("limit", "done"), one.message
    assert one.over < LATE


@pytest.mark.parametrize("name", ["sum_huge", "matmul", "while_true", "list_range"])
def test_a_call_is_cancelled(name: str) -> None:
    one = deadlines.run_apart(name, cancel=True)
    assert one.ended == "cancelled", one.message
    assert one.over < LATE


@pytest.mark.parametrize("name", ["mul_huge", "clone_huge", "cumsum_huge", "list_times"])
def test_what_is_too_large_is_refused_before_work_begins(name: str) -> None:
    one = deadlines.run_apart(name)
    assert one.ended == "limit" and "would pass the limit" in one.message
