#!/usr/bin/env python3
"""style.py: rules of form that a search can keep (docs/hacking.md).

Lines have at most 100 columns; a function has at most 60 lines or a `/* long: why */` in or
above its head; a .c file of more than 100 lines opens with what it does; a static function's name
stands in few files, so that a debugger can break on it; and C outside src/ops compares few strings
with operators' names: what is known of an operator is a column of its table.
"""

from __future__ import annotations

import collections
import pathlib
import re
import sys
from typing import NamedTuple

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tools"))
import wrap  # noqa: E402

MOST_LINES = 60  # of a function
OPENING = 100  # lines from which on a file opens with a comment
MOST_HOMES = 4  # files that have a static function of one name
FOLDERS = ("src", "cli", "python", "examples")
# Callbacks and steps that every file of their kind has, and macros' names.
SHARED_NAMES: set[str] = {"NAME"}
MOST_OPERATOR_NAMES = 16
# file: how many strings it compares with operators' names, and why they are no column of the table.
OPERATOR_NAMES: dict[str, tuple[int, str]] = {
    "src/api/ir_node.c": (2, "kinds of nodes by name: the public function takes a text"),
    "src/export/lower.c": (1, "a symbolic target's text, before an operator is chosen"),
    "src/compile/fuse.c": (1, "the backend's interface gives kinds as texts"),
    "src/ir/node.c": (1, "kinds of nodes by name: the question is a text"),
    "src/ir/parse.c": (1, "graph text, before there is a node"),
    "src/script/emit/call.c": (2, "names that a program writes, before there is an operator"),
    "src/script/emit/match.c": (2, "the namespace; a schema alone"),
    "src/script/emit/sugar.c": (2, "a name for messages; the namespace of suggestions"),
    "src/script/print/expr.c": (3, "texts of names: torch.NAME, torch.autograd.NAME"),
    "src/trace/recorder.c": (1, "the namespace"),
}
COMPARED = re.compile(
    r"(?:strcmp|str_eq|str_is|strncmp|is_op|is_named)"
    r'\s*\([^;{}]*?"(?:aten|prim|prims|quantized)::\w*'
)
HEAD = re.compile(r"(\w+)\s*\(")
ONE_LINE = re.compile(r"^static (?:inline )?[\w \*]*?\b(\w+)\(.*\)\s*\{.*\}$")


class Function(NamedTuple):
    name: str
    line: int
    n_lines: int
    is_static: bool
    says_long: bool


def sources() -> list[pathlib.Path]:
    return sorted(
        p for folder in FOLDERS for p in (TOP / folder).rglob("*") if p.suffix in (".c", ".inc")
    )


def functions(lines: list[str]) -> list[Function]:
    """Return the functions whose brace is in the first column, and those of one line."""
    found, i = [], 0
    while i < len(lines):
        one = ONE_LINE.match(lines[i])
        if one:
            found.append(Function(one[1], i + 1, 1, True, False))
        if lines[i] == "{":
            start = i
            while (
                start > 0
                and lines[start - 1].strip()
                and not lines[start - 1].startswith(("}", "/*", " *", "#"))
            ):
                start -= 1
            end = i
            while end < len(lines) and not lines[end].startswith("}"):
                end += 1
            head = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", " ".join(lines[start:i]))
            name = HEAD.search(head)
            if name:
                about = "\n".join(lines[max(0, start - 3) : i + 2])
                found.append(
                    Function(
                        name[1],
                        start + 1,
                        end - start + 1,
                        head.startswith("static"),
                        "/* long:" in about,
                    )
                )
            i = end
        i += 1
    return found


def check_functions(complaints: list[str]) -> None:
    homes: dict[str, set[str]] = collections.defaultdict(set)
    for path in sources():
        text, shown = path.read_text(), str(path.relative_to(TOP))
        lines = text.split("\n")
        if path.suffix == ".c" and len(lines) > OPENING and not text.startswith("/*"):
            complaints.append(
                f"{shown}:1: {len(lines)} lines and no opening comment: what, how, why this way, "
                f"cost"
            )
        for f in functions(lines):
            if f.n_lines > MOST_LINES and not f.says_long:
                complaints.append(
                    f"{shown}:{f.line}: {f.name} has {f.n_lines} lines (at most {MOST_LINES}, or "
                    f"/* long: why */)"
                )
            if f.is_static:
                homes[f.name].add(shown)
    for name, files in sorted(homes.items()):
        if len(files) > MOST_HOMES and name not in SHARED_NAMES:
            complaints.append(
                f"static {name} stands in {len(files)} files (at most {MOST_HOMES}): "
                f"{', '.join(sorted(files)[:4])} ..."
            )


def check_operator_names(complaints: list[str]) -> None:
    total = 0
    for path in sources():
        shown = str(path.relative_to(TOP))
        if not shown.startswith("src/") or shown.startswith("src/ops/"):
            continue
        n = len(COMPARED.findall(path.read_text()))
        total += n
        if n > OPERATOR_NAMES.get(shown, (0, ""))[0]:
            complaints.append(
                f"{shown}: compares {n} strings with operators' names; a column of the table says "
                f"what is known of one"
            )
    if total > MOST_OPERATOR_NAMES:
        complaints.append(
            f"{total} comparisons with operators' names outside of src/ops (at most "
            f"{MOST_OPERATOR_NAMES})"
        )


def check_width(complaints: list[str]) -> None:
    if not (TOP / ".git").exists():  # an unpacked archive: wrap.py asks git for the files
        return
    for path in wrap.committed():
        for i in wrap.complaints(path):
            complaints.append(
                f"{path.relative_to(TOP)}:{i}: longer than {wrap.WIDTH} columns (tools/wrap.py)"
            )


def main() -> int:
    complaints: list[str] = []
    check_functions(complaints)
    check_operator_names(complaints)
    check_width(complaints)
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
