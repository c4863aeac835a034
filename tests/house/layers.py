#!/usr/bin/env python3
"""layers.py [LIB.a...]: a file of src/ includes its own folder and those before it; cli/, python/
and examples/ only public headers.

With static libraries, what their objects call is looked at too: a declaration written by hand in
the place of an include would hide an arrow that runs back.  Generated files may name anything: the
operator table names every kernel.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
ORDER = [
    "base",
    "formats",
    "value",
    "tensor",
    "shape",
    "ops/table",
    "ops/call",
    "ops/point",
    "ops/math",
    "ops/kernels",
    *(
        f"ops/kernels/{name}"
        for name in ("nested", "layout", "sparse", "linalg", "nn", "quantized", "index", "random")
    ),
    *(f"ops/kernels/{name}" for name in ("reduce", "values", "vision")),
    "ir",
    "passes",
    "script/syntax",
    "script/emit",
    "script/print",
    "script/front",
    "fx",
    "trace",
    "autograd",
    "autodiff",
    "run",
    "export",
    "module",
    "archive",
    "show",
    "compile/code",
    "compile/x86",
    "compile",
    "api",
]
MOST_FILES = 60  # directly in one folder
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def source_files(folder: pathlib.Path) -> list[pathlib.Path]:
    return [p for p in sorted(folder.rglob("*")) if p.suffix in (".c", ".h", ".inc", ".def")]


def place(folder: str) -> int:
    return ORDER.index(folder) if folder in ORDER else -1


def check_src(path: pathlib.Path, complaints: list[str]) -> None:
    folder = str(path.parent.relative_to(TOP / "src"))
    if folder not in ORDER:
        complaints.append(f"{path.relative_to(TOP)}: {folder}/ has no place in the order")
        return
    for name in INCLUDE.findall(path.read_text()):
        other = name.rpartition("/")[0]
        if other in ("rushlight", folder) or "/" not in name:
            continue
        if other not in ORDER:
            complaints.append(f"{path.relative_to(TOP)}: includes {name}, of no folder of src/")
        elif place(other) > place(folder):
            complaints.append(
                f"{path.relative_to(TOP)}: {folder}/ stands before {other}/ but includes {name}"
            )


def check_size(folder: pathlib.Path, complaints: list[str]) -> None:
    n = sum(path.is_file() for path in folder.iterdir())
    if n > MOST_FILES:
        complaints.append(
            f"{folder.relative_to(TOP)}: {n} files; at most {MOST_FILES} stand directly in a folder"
        )


def is_beside(path: pathlib.Path, name: str) -> bool:
    """True if the file is next to the including one, or the build makes it there."""
    build = path.parent / "meson.build"
    return (path.parent / name).exists() or (
        build.exists() and f"output: '{name}'" in build.read_text()
    )


def check_outside(path: pathlib.Path, complaints: list[str]) -> None:
    for name in INCLUDE.findall(path.read_text()):
        if "/" in name and not name.startswith("rushlight/") and not (path.parent / name).exists():
            complaints.append(
                f"{path.relative_to(TOP)}: includes {name}; only public headers belong here"
            )
        elif "/" not in name and not is_beside(path, name):
            complaints.append(f"{path.relative_to(TOP)}: includes {name}, which is not beside it")


def objects() -> dict[str, str]:
    """Return the folders of the sources, by meson's names of their objects."""
    return {
        str(path.relative_to(TOP / "src")).replace("/", "_") + ".o": str(
            path.parent.relative_to(TOP / "src")
        )
        for path in source_files(TOP / "src")
        if path.suffix == ".c"
    }


def check_symbols(library: str, complaints: list[str]) -> None:
    folders = objects()
    defined: dict[str, str] = {}
    wanted: dict[str, set[str]] = {}
    run = subprocess.run(["nm", "-A", library], capture_output=True, text=True, check=True)
    for line in run.stdout.splitlines():
        name = line.rpartition(":")[0].rpartition("/")[2].rpartition(":")[2]
        kind, symbol = line.split()[-2:]
        if name not in folders:
            continue
        if kind == "U":
            wanted.setdefault(symbol, set()).add(name)
        elif kind in "TDRB":
            defined[symbol] = name
    if len(defined) < 1000:
        complaints.append(
            f"{library}: {len(defined)} symbols of src/ found; do objects have other names now?"
        )
    for symbol, users in sorted(wanted.items()):
        home = folders.get(defined.get(symbol, ""))
        for user in sorted(users):
            if home is not None and place(home) > place(folders[user]):
                complaints.append(
                    f"{user[:-2]}: uses {symbol} of {home}/, which stands behind {folders[user]}/"
                )


def main() -> int:
    complaints: list[str] = []
    for path in source_files(TOP / "src"):
        check_src(path, complaints)
    for folder in [
        TOP / "src",
        *(p for p in (TOP / "src").rglob("*") if p.is_dir() and p.name != "__pycache__"),
    ]:
        check_size(folder, complaints)
    for name in ("cli", "python", "examples"):
        for path in source_files(TOP / name):
            check_outside(path, complaints)
    for library in sys.argv[1:]:
        check_symbols(library, complaints)
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
