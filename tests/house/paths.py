#!/usr/bin/env python3
"""paths.py: paths in texts exist.

Documents name files of this repository in backticks; the opening comment of a C file starts with
its own path below src/ ("base/error.h -- ..."), and comments name headers as they are included. If
a file is moved, all of them must be changed.
"""

from __future__ import annotations

import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
# Without fuzz/: documents name files that are built there.
FOLDERS = (
    "bench", "cli", "docs", "examples", "include", "packaging", "python", "src", "tests", "tools",
)  # fmt: skip
NAMED = re.compile(r"`((?:" + "|".join(FOLDERS) + r")/[\w./-]*\w/?)(?::\d+)?`")
OPENING = re.compile(r"/\* ([\w./-]+\.(?:c|h|inc|def)) -- ")
HEADER = re.compile(r"\b([a-z]+(?:/[a-z0-9_]+)+\.h)\b")
MADE = ("ops/table/op_keys.h",)  # by the build


def documents() -> list[pathlib.Path]:
    return [TOP / "README.md", TOP / "src/ops/README.md", *sorted((TOP / "docs").glob("*.md"))]


def sources() -> list[pathlib.Path]:
    return sorted(
        p
        for folder in ("src", "cli", "python")
        for p in (TOP / folder).rglob("*")
        if p.suffix in (".c", ".h", ".inc", ".def")
    )


def of_document(path: pathlib.Path) -> list[str]:
    return [
        f"{path.relative_to(TOP)}:{i}: {name} does not exist"
        for i, line in enumerate(path.read_text().split("\n"), 1)
        for name in NAMED.findall(line)
        if not (TOP / name).exists()
    ]


def of_source(path: pathlib.Path, headers: set[str]) -> list[str]:
    text, own = path.read_text(errors="replace"), path.relative_to(TOP)
    found = OPENING.match(text)
    told = []
    if found and not str(own).endswith("/" + found[1]) and str(own) != found[1]:
        told.append(f"{own}:1: the opening comment calls it {found[1]}")
    for i, line in enumerate(text.split("\n"), 1):
        if line.startswith("#"):
            continue
        told += [
            f"{own}:{i}: {name} does not exist"
            for name in HEADER.findall(line)
            if name not in headers and name not in MADE and not name.startswith("sys/")
        ]
    return told


def main() -> int:
    files = sources()
    headers = {
        str(p)[at:]
        for path in [*files, *(TOP / "include").rglob("*.h"), *(TOP / "tests").rglob("*.h")]
        for p in [path.relative_to(TOP)]
        for at in [0, *(m.end() for m in re.finditer("/", str(p)))]
    }
    told = [x for path in documents() for x in of_document(path)]
    told += [x for path in files for x in of_source(path, headers)]
    for line in told:
        print(line)
    if not told:
        print(f"paths: {len(files)} files and {len(documents())} documents")
    return bool(told)


if __name__ == "__main__":
    sys.exit(main())
