#!/usr/bin/env python3
"""A file of src/ includes its own folder and those above it; cli/, python/ and examples/ only public headers."""

from __future__ import annotations

import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
ORDER = [
    "base",
    "formats",
    "value",
    "tensor",
    "shape",
    "ops",
    "ir",
    "passes",
    "script",
    "autograd",
    "run",
    "export",
    "archive",
    "compile",
    "api",
]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def source_files(folder: pathlib.Path) -> list:
    return [p for p in sorted(folder.rglob("*")) if p.suffix in (".c", ".h", ".inc", ".def")]


def check_src(path: str, complaints: list[str]) -> None:
    folder = path.relative_to(TOP / "src").parts[0]
    if folder not in ORDER:
        complaints.append(f"{path.relative_to(TOP)}: {folder}/ has no place in the order")
        return
    for name in INCLUDE.findall(path.read_text()):
        other = name.split("/")[0]
        if other in ("rushlight", folder) or "/" not in name:
            continue
        if other not in ORDER:
            complaints.append(f"{path.relative_to(TOP)}: includes {name}, of no folder of src/")
        elif ORDER.index(other) > ORDER.index(folder):
            complaints.append(f"{path.relative_to(TOP)}: {folder}/ stands above {other}/ but includes {name}")


def is_beside(path: pathlib.Path, name: str) -> bool:
    """There, or made there by the build."""
    build = path.parent / "meson.build"
    return (path.parent / name).exists() or (build.exists() and f"output: '{name}'" in build.read_text())


def check_outside(path: str, complaints: list[str]) -> None:
    for name in INCLUDE.findall(path.read_text()):
        if "/" in name and not name.startswith("rushlight/") and not (path.parent / name).exists():
            complaints.append(f"{path.relative_to(TOP)}: includes {name}; only public headers belong here")
        elif "/" not in name and not is_beside(path, name):
            complaints.append(f"{path.relative_to(TOP)}: includes {name}, which is not beside it")


def main() -> int:
    complaints = []
    for path in source_files(TOP / "src"):
        check_src(path, complaints)
    for folder in ("cli", "python", "examples"):
        for path in source_files(TOP / folder):
            check_outside(path, complaints)
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
