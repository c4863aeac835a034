#!/usr/bin/env python3
"""symbols.py LIB.so LIB.a: both show exactly the functions that the public headers declare."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from typing import Any

TOP = pathlib.Path(__file__).resolve().parents[2]


def declared() -> Any:
    names = set()
    for header in (TOP / "include" / "rushlight").glob("*.h"):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        text = re.sub(r"^#define RUSH_API.*$", "", text, flags=re.M)
        for part in text.split("RUSH_API")[1:]:
            found = re.search(r"\b(rush_\w+)\s*\(", part.split(";")[0])
            if found:
                names.add(found[1])
    return names


def defined(*command: Any) -> Any:
    text = subprocess.run(["nm", *command], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in text.splitlines() if len(line.split()) == 3}
    return {name.split("@")[0] for name in names} - {"RUSHLIGHT_0"}


def main() -> Any:
    want = declared()
    status = 0
    for have, what in (
        (defined("-D", "--defined-only", sys.argv[1]), sys.argv[1]),
        (defined("-g", "--defined-only", sys.argv[2]), sys.argv[2]),
    ):
        for name in sorted(have - want):
            print(f"{what}: shows {name}, which no public header declares")
            status = 1
        for name in sorted(want - have):
            print(f"{what}: lacks {name}, which a public header declares")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
