"""Checks of texts in the manner of LLVM's FileCheck and torch.testing.FileCheck.

>>> from rushlight.testing import FileCheck
>>> FileCheck().check("aten::add").check_not("aten::mul").check_count("return", 1,
exactly=True).run(graph)

Each check looks behind what the one before it found.  A graph is checked by its text.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

__all__ = ["FileCheck"]

_NOTHING = "No checks have been added to this instance ofFilecheck! Check for bad input."
_KINDS = (
    "CHECK",
    "CHECK-NEXT",
    "CHECK-SAME",
    "CHECK-NOT",
    "CHECK-DAG",
    "CHECK-SOURCE-HIGHLIGHTED",
    "CHECK-REGEX",
)
_LINE = re.compile(r"#[ \t]{0,6}CHECK([^\n]*)")
_COUNT = re.compile(r"-COUNT-(EXACTLY-)?(\d+):(?: (.*)|$)")
_SUFFIX = re.compile(r"(-[A-Z-]+)?: (.*)")


class _Check(NamedTuple):
    kind: str
    text: str
    count: int = 0  # type: ignore[assignment]  # tuple has a method of that name

    def __str__(self) -> str:
        return f"{self.kind}{f'-{self.count}' if self.kind == 'CHECK-COUNT' else ''}: {self.text}"


def _quoted(text: str) -> str:
    return (
        '"'
        + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("'", "\\'")
        + '"'
    )


def _excerpt(text: str, start: int, length: int) -> str:
    """Return the lines around a position, with a mark under it."""
    lines = text.split("\n")
    line = text.count("\n", 0, min(start, len(text)))
    column = start - (text.rfind("\n", 0, start) + 1)
    mark = " " * column + "~" * max(1, min(length, len(lines[line]) - column)) + " <--- HERE"
    behind = lines[line + 1 : line + 3]
    if behind and len(lines) == line + 1 + len(behind) and not behind[-1]:
        behind.pop()  # the text ends with its line
    shown = [*lines[max(0, line - 3) : line + 1], mark, *behind]
    return "\n".join(shown) + "\n"


class _Search:
    """One run over one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def find(
        self, check: _Check, start: int, end: int | None = None, what: str | None = None
    ) -> int:
        what = check.text if what is None else what
        at = self.text.find(what, start, end)
        if at < 0:
            raise RuntimeError(
                f"Expected to find {_quoted(what)} but did not find it\nSearched string:\n"
                f"{_excerpt(self.text, start, len(what))}From {check}\n"
            )
        return at

    def absent(self, check: _Check, start: int, end: int, what: str) -> None:
        at = self.text.find(what, start, end)
        if at >= 0:
            raise RuntimeError(
                f"Expected to not find {_quoted(what)} but found "
                f"it\n{_excerpt(self.text, at, len(what))}From {check}\n"
            )

    def highlighted(self, check: _Check, start: int) -> tuple[int, int]:
        """True if an occurrence has ~~~ (or ^^^) of its own length below it."""
        at, first = self.find(check, start), -1
        while at >= 0:
            first = at if first < 0 else first
            column = at - (self.text.rfind("\n", 0, at) + 1)
            line_end = self.text.find("\n", at)
            place = line_end + 1 + column
            end = place + len(check.text)
            if line_end < 0 or end >= len(self.text):
                break
            if not self.text[place:end].strip("~^"):
                self.absent(check, place - 1, place, "~")
                self.absent(check, end, end + 1, "~")
                return at, at + len(check.text)
            at = self.text.find(check.text, at + 1)
        raise RuntimeError(
            f"Expected to find {_quoted(check.text)}highlighted but it is "
            f"not.\n{_excerpt(self.text, first, len(check.text))}"
        )

    def match(self, group: list[_Check], before: int) -> tuple[int, int]:
        """Return where a group matches after `before`: its start and end."""
        check = group[0]
        if check.kind == "CHECK-DAG":
            places = [(self.find(c, before), len(c.text)) for c in group]
            return min(at for at, _ in places), max(at + n for at, n in places)
        if check.kind == "CHECK-COUNT":
            first, end = -1, before
            for _ in range(check.count):
                at = self.find(check, end)
                first, end = (at if first < 0 else first), at + len(check.text)
            return first, end
        if check.kind == "CHECK-SOURCE-HIGHLIGHTED":
            return self.highlighted(check, before)
        if check.kind == "CHECK-REGEX":
            found = re.compile(check.text).search(self.text, before)
            if not found:
                raise RuntimeError(
                    f"Expected to find regex {_quoted(check.text)} but did not find it\nSearched "
                    f"string:\n{_excerpt(self.text, before, 1)}From {check}\n"
                )
            return found.span()
        if check.kind == "CHECK-NEXT":
            before = self.find(check, before, None, "\n") + 1
        at = self.find(check, before)
        if check.kind in ("CHECK-SAME", "CHECK-NEXT"):
            self.absent(check, before, at, "\n")
        return at, at + len(check.text)

    def run(self, groups: list[list[_Check]]) -> None:
        end, i = 0, 0
        while i < len(groups):
            group, i = groups[i], i + 1
            if group[0].kind != "CHECK-NOT":
                _, end = self.match(group, end)
                continue
            start, until, end_of_next = end, len(self.text), len(self.text)
            if i < len(groups):
                until, end_of_next = self.match(groups[i], start)
                i += 1
            for check in group:
                self.absent(check, start, until, check.text)
            end = end_of_next


class FileCheck:
    """A sequence of checks; each method adds one and returns the object."""

    def __init__(self) -> None:
        self._groups: list[list[_Check]] = []

    def _add(self, kind: str, text: str, count: int = 0) -> FileCheck:
        check = _Check(kind, text, count)
        if kind in ("CHECK-NOT", "CHECK-DAG") and self._groups and self._groups[-1][0].kind == kind:
            self._groups[-1].append(check)
        else:
            self._groups.append([check])
        return self

    def check(self, text: str) -> FileCheck:
        """The text is next, anywhere after the last match."""
        return self._add("CHECK", text)

    def check_not(self, text: str) -> FileCheck:
        """The text is not before the next check's match."""
        return self._add("CHECK-NOT", text)

    def check_next(self, text: str) -> FileCheck:
        """The text is on the next line."""
        return self._add("CHECK-NEXT", text)

    def check_same(self, text: str) -> FileCheck:
        """The text is on the same line."""
        return self._add("CHECK-SAME", text)

    def check_dag(self, text: str) -> FileCheck:
        """The text is next; adjacent checks of this kind match in any order."""
        return self._add("CHECK-DAG", text)

    def check_count(self, text: str, count: int, exactly: bool = False) -> FileCheck:
        """The text occurs this number of times; exactly: and not again before the next check."""
        if count == 0 and not exactly:
            raise RuntimeError("Count == 0 && !exactly doesn't do anything")
        if count:
            self._add("CHECK-COUNT", text, count)
        return self._add("CHECK-NOT", text) if exactly else self

    def check_source_highlighted(self, text: str) -> FileCheck:
        """The text is marked by ~~~ on the line below."""
        return self._add("CHECK-SOURCE-HIGHLIGHTED", text)

    def check_regex(self, pattern: str) -> FileCheck:
        """The pattern matches."""
        return self._add("CHECK-REGEX", pattern)

    def _parse(self, checks: str) -> None:
        self._groups = []
        for found in _LINE.finditer(checks):
            rest = found[1]
            count, plain = _COUNT.fullmatch(rest), _SUFFIX.match(rest)
            if count:
                self.check_count(count[3] or "", int(count[2]), bool(count[1]))
            elif plain and f"CHECK{plain[1] or ''}" in _KINDS:
                self._add(f"CHECK{plain[1] or ''}", plain[2])
            else:
                where = _excerpt(checks, found.start(1), 1)
                raise RuntimeError(f"Could not parse check at:\n{where}Check for bad input.")
        if not self._groups:
            raise RuntimeError(_NOTHING)

    def run(self, *args: Any) -> None:
        """Run the checks: run(text_or_graph), or run(checks, text_or_graph) with the checks in `#
        CHECK: ...` lines of `checks`."""
        if len(args) not in (1, 2):
            raise TypeError(f"run() takes a text, or checks and a text, not {len(args)} arguments")
        if len(args) == 2:
            self._parse(args[0])
        if not isinstance(args[-1], str) and "Graph" not in type(args[-1]).__name__:
            raise TypeError(f"run(): a text or a graph is checked, not a {type(args[-1]).__name__}")
        if not self._groups:
            raise RuntimeError(_NOTHING)
        _Search(str(args[-1])).run(self._groups)
