#!/usr/bin/env python3
"""small.py CC LIB.a COMMAND: -Dops=FILE leaves operators out.

`show --ops` writes the file for digits.pt2; the table of these operators is linked before the library's (as in recipe.py) with
--gc-sections.  The program gives the same answer, is refused another operator by name, and is at most MOST_BYTES stripped."""

from __future__ import annotations

import pathlib
import shlex
import subprocess
import sys
import tempfile

from recipe import OPS, TOP, tables

MODEL = TOP / "tests" / "data" / "digits.pt2"
MOST_BYTES = 2_750_000  # docs/embedding.md has the map


def generate(out: pathlib.Path, listed: pathlib.Path) -> subprocess.CompletedProcess:
    inputs = [OPS / "schemas.txt", OPS / "tape.def", OPS.parent / "shape" / "rules.def"]
    command = [sys.executable, str(OPS / "gen.py"), f"--ops={listed}", *map(str, inputs), str(out), *tables()]
    return subprocess.run(command, capture_output=True, text=True)


def main() -> int:
    cc, library, rushlight = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        listed, program = work / "digits.ops", work / "small"
        shown = subprocess.run([rushlight, "show", str(MODEL), "--ops"], capture_output=True, text=True, check=True)
        listed.write_text(shown.stdout)
        made = generate(work / "table.c", listed)
        if made.returncode:
            print(made.stderr)
            return 1
        empty = work / "empty.ops"
        empty.write_text("# nothing\n")
        if "no line begins with the name of an operator" not in generate(work / "none.c", empty).stderr:
            print("an empty list is taken")
            return 1
        flags = [
            "-std=c11",
            "-D_GNU_SOURCE",
            "-O2",
            "-DNDEBUG",
            f"-I{TOP / 'src'}",
            f"-I{TOP / 'include'}",
            "-Wl,--gc-sections",
        ]
        sources = [str(work / "table.c"), str(TOP / "tests" / "house" / "small.c")]
        subprocess.run(
            [*shlex.split(cc), *flags, *sources, library, "-o", str(program), "-lz", "-lm", "-lpthread", "-ldl"], check=True
        )
        run = subprocess.run([str(program), str(MODEL)], capture_output=True, text=True)
        subprocess.run(["strip", str(program)], check=True)
        size = program.stat().st_size
    print(f"{size} bytes stripped\n{run.stdout}{run.stderr}")
    answered = "0.1084, 0.0727" in run.stdout and "aten::fft_fft" in run.stdout
    return 0 if run.returncode == 0 and answered and size <= MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
