#!/usr/bin/env python3
"""dtype.py CC LIB.a: the recipe "add a dtype" of docs/hacking.md holds: a number, a row, and how
its elements are converted.

Follows it for a dtype that PyTorch lacks, test16 (16 bits that hold a number plus 1000), in a copy
of src/ and include/.  Every file that reads the rows must compile; then dtype.c, linked with those
of them that matter before the library, loads a file of such elements and converts them."""

from __future__ import annotations

import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
# What the recipe changes: file -> (text, what is put before it), in order.
RECIPE = {
    "include/rushlight/rushlight.h": [("  RUSH_FLOAT8_E5M2 = 23,", "  RUSH_TEST16 = 17,\n")],
    "src/base/dtypes.def": [
        (
            "DTYPE(FLOAT8_E5M2,",
            'DTYPE(TEST16, 17, "test16", "Test16", NULL, 2, INT, NONE, NULL, "T16", 0, NONE)\n',
        )
    ],
    "src/tensor/convert.c": [
        ("  case RUSH_UINT16:\n", "  case RUSH_TEST16:\n"),
        ("  case RUSH_UINT16: EACH(l[i]", "  case RUSH_TEST16: EACH(l[i] = u16[i] - 1000)\n"),
        (
            "  case RUSH_UINT16: EACH(u16[i]",
            "  case RUSH_TEST16: EACH(u16[i] = (uint16_t)(l[i] + 1000))\n",
        ),
    ],
}
LINKED = ("src/tensor/dtype.c", "src/tensor/convert.c", "src/formats/safetensors.c")


def follow(copy: pathlib.Path) -> list[str]:
    """What the recipe says that does not fit the files."""
    missing = []
    for name, steps in RECIPE.items():
        path = copy / name
        text, at = path.read_text(), 0
        for before, added in steps:
            at = text.find(before, at)
            if at < 0:
                missing.append(f"{name}: there is no '{before.strip()}' to put a line before")
                break
            text = text[:at] + added + text[at:]
            at += len(added) + len(before)
        path.write_text(text)
    return missing


def readers(copy: pathlib.Path) -> list[pathlib.Path]:
    return [p for p in sorted(copy.glob("src/**/*.c")) if '"base/dtypes.def"' in p.read_text()]


def main() -> int:
    cc, library = shlex.split(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for name in ("src", "include"):
            shutil.copytree(TOP / name, copy / name)
        complaints = follow(copy)
        flags = ["-std=c11", "-D_GNU_SOURCE", "-O0", "-w", f"-I{copy / 'src'}"]
        flags += [f"-I{copy / 'include'}"]
        files = readers(copy)
        if len(files) < 9:
            complaints.append(f"only {len(files)} files read src/base/dtypes.def")
        commands = [[*cc, *flags, "-fsyntax-only", *map(str, files)]]
        linked = [*(str(copy / name) for name in LINKED), str(TOP / "tests" / "house" / "dtype.c")]
        program = str(copy / "dtype")
        commands.append([*cc, *flags, *linked, library, "-o", program, "-lz", "-lm", "-lpthread"])
        commands.append([program, str(copy / "numbers.safetensors")])
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                complaints.append(done.stderr or f"{command[0]} ended with {done.returncode}")
                break
    for line in complaints:
        print(line)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
