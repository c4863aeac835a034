#!/usr/bin/env python3
"""Rules that a search can check: which files may jump, allocate, print and read the environment;
file lengths; no paths of a developer's machine in committed files; every file of the Python package
is installed."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from typing import Any

TOP = pathlib.Path(__file__).resolve().parents[2]
MOST_LINES = 1200

# pattern, its description, files of src/ that may use it
CALLS = [
    (r"\b(setjmp|longjmp)\s*\(", "jumps", {"src/base/session.c"}),
    (
        r"(?<![\w.>])(malloc|calloc|realloc|aligned_alloc|posix_memalign|strdup|strndup)\s*\(",
        "allocates around the context",
        {"src/base/error.c", "src/base/memory.c"},
    ),
    (
        r"(?<![\w.>])(printf|puts|putchar|perror)\s*\(|\bstdout\b|\bstderr\b",
        "prints",
        {"src/base/context.c"},
    ),
    (r"(?<![\w.>])(abort|exit|_exit|getenv|system|signal)\s*\(", "reaches for the process", set()),
    (
        r"\b(sprintf|strcpy|strcat|gets|alloca)\s*\(",
        "uses a function without bounds",
        {"src/base/text.c"},
    ),
]
# Written so that this file does not match itself.
PLACES = re.compile(r"(?<![\w.])/(?:home|root|work|Users|tmp/[a-z])/\w")


def without_comments(text: str) -> Any:
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    return re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)


def committed() -> list:
    run = subprocess.run(
        ["git", "-C", str(TOP), "ls-files"], capture_output=True, text=True, check=False
    )
    return [TOP / name for name in run.stdout.splitlines()]


def texts(path: str) -> Iterator[Any]:
    """Yield (name, text) of a committed file; of each record of an archive."""
    if not path.is_file():
        return
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as z:
            for name in z.namelist():
                yield f"{path.relative_to(TOP)}: {name}", z.read(name).decode("latin-1")
    else:
        yield str(path.relative_to(TOP)), path.read_bytes().decode("latin-1")


def not_installed() -> Iterator[str]:
    package = TOP / "python" / "rushlight"
    listed = re.findall(r"'(\w+\.py)'", (package / "meson.build").read_text())
    for path in sorted(package.rglob("*.py")):
        if path.name not in listed:
            yield f"{path.relative_to(TOP)}: python/rushlight/meson.build does not install it"


def main() -> int:
    complaints = list(not_installed())
    for path in sorted((TOP / "src").rglob("*.[ch]")):
        name = str(path.relative_to(TOP))
        text = without_comments(path.read_text())
        for pattern, what, allowed in CALLS:
            for found in re.finditer(pattern, text):
                if name not in allowed:
                    line = text.count("\n", 0, found.start()) + 1
                    complaints.append(f"{name}:{line}: {what}: {found[0]}")
        if text.count("\n") > MOST_LINES:
            complaints.append(f"{name}: {text.count(chr(10))} lines; find the seam")
    for path in committed():
        for name, text in texts(path):
            for found in PLACES.finditer(text):
                line = text.count("\n", 0, found.start()) + 1
                complaints.append(f"{name}:{line}: a path of somebody's machine: {found[0]}...")
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
