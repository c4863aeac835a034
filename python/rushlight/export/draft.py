"""What `draft_export` reports: everything that `export` would have refused, with torch.export's
names.

A draft is made of the example: a decision on data is taken as it was there and becomes a check of
the program; a dimension varies as far as the program allows; what a custom operator without a fake
implementation returns looks as it did, with sizes that depend on data.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

__all__ = ["DraftExportReport", "FailureReport", "FailureType"]


class FailureType(IntEnum):
    """Kinds of failures; torch's numbers."""

    MISSING_FAKE_KERNEL = 1
    DATA_DEPENDENT_ERROR = 2
    GUARD_ADDED = 3
    MISMATCHED_FAKE_KERNEL = 4

    def __str__(self) -> str:
        return self.name


class FailureReport(NamedTuple):
    """One thing that export would have refused: `data` has the expression, or the operator."""

    failure_type: FailureType
    data: dict[str, Any]
    xfail: bool = False

    def __str__(self) -> str:
        if self.failure_type == FailureType.MISSING_FAKE_KERNEL:
            return (
                f"Missing fake kernel.\n    torch.ops.{self.data['op']} is missing a fake kernel "
                "implementation: sizes of its results are taken to depend on data."
            )
        if self.failure_type == FailureType.DATA_DEPENDENT_ERROR:
            return (
                f"Data dependent error.\n    The program decides by '{self.data['expr']}', which "
                f"was "
                "so in the example; it is a runtime assertion of the draft. Use torch._check, "
                "torch.cond or another form without the value."
            )
        return f"Guard Added.\n    {self.data['reason']}"


class DraftExportReport:
    """All failures of a draft."""

    def __init__(self, failures: list[FailureReport]) -> None:
        self.failures = failures

    def successful(self) -> bool:
        """True if `export` makes the same program."""
        return all(failure.xfail for failure in self.failures)

    def __repr__(self) -> str:
        return f"DraftExportReport({self.failures})"

    def __str__(self) -> str:
        if self.successful():
            return (
                "Congratulations: No issues are found during export, and it was able to soundly "
                "produce a graph.\nYou can now change back to export()"
            )
        lines = [f"{i + 1}. {failure}" for i, failure in enumerate(self.failures)]
        return (
            f"WARNING: {len(self.failures)} issue(s) found during export, and it was not able to "
            "soundly produce a graph.\nPlease follow the instructions to fix the errors.\n\n"
            + "\n".join(lines)
        )


def report_of(text: str) -> DraftExportReport:
    """Return the report of the core's: entries end by \\x1e, and have a kind and a tab first."""
    found: list[FailureReport] = []
    for entry in text.split("\x1e"):
        kind, tab, rest = entry.partition("\t")
        if not tab:
            continue
        if kind == "missing_fake_kernel":
            found.append(FailureReport(FailureType.MISSING_FAKE_KERNEL, {"op": rest}))
        elif kind == "data_dependent_error":
            found.append(FailureReport(FailureType.DATA_DEPENDENT_ERROR, {"expr": rest}))
        else:
            found.append(FailureReport(FailureType.GUARD_ADDED, {"reason": rest}))
    return DraftExportReport(found)
