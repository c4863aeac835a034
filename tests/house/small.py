#!/usr/bin/env python3
"""small.py CC LIB.a COMMAND: what -Dops=FILE, -Dautograd, -Dquantized, -Ddlopen and -Dfront_end
leave out. small.py --meson CC COMMAND: the same of a library that Meson builds with these options
(`make nightly`).

`show --ops` writes the file for digits.pt2.  The table of these operators, and then the files that
stand in the place of what is left out, are linked before the library's (as in recipe.py) with
--gc-sections: as a build with the options, in a second instead of minutes.  The program gives the
same answer, is refused by name what it lacks, and is at most so many bytes."""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

from recipe import OPS, TOP, tables

MODEL = TOP / "tests" / "data" / "digits.pt2"
MOST_BYTES = {
    "few": 3_340_000,
    "absent": 2_940_000,
    "meson": 1_500_000,
}  # docs/embedding.md has the map
SRC = TOP / "src"
ABSENT = [
    "autodiff/absent.c",
    "autograd/absent.c",
    "ops/kernels/quantized/quantized_absent.c",
    "api/plugin_absent.c",
    "script/front/absent.c",
]
FLAGS = [
    "-std=c11",
    "-D_GNU_SOURCE",
    "-O2",
    "-DNDEBUG",
    f"-I{SRC}",
    f"-I{TOP / 'include'}",
    "-Wl,--gc-sections",
]
LIBRARIES = ["-lz", "-lm", "-lpthread"]
REFUSALS = [
    "aten::fft_fft is known, but cannot run here: this library was built without some operators, "
    "-Dops"
]
MORE_REFUSALS = [
    "backward(), record_gradients): this library was built without gradients (-Dautograd=false)",
    "asking for gradients: this library was built without gradients (-Dautograd=false)",
    "gradients of aten::mul.Tensor: this library was built without gradients (-Dautograd=false)",
    "aten::quantize_per_tensor is known, but cannot run here",
    "this library was built without some operators, -Dops, -Dquantized=false",
    "plugin.so: this library was built without plug-ins (-Ddlopen=false)",
    "this library was built without the front end of TorchScript (-Dfront_end=false)",
]


def generate(out: pathlib.Path, listed: pathlib.Path, *options: str) -> subprocess.CompletedProcess:
    inputs = [OPS / "schemas.txt", OPS / "tape.def", TOP / "src" / "shape" / "rules.def"]
    command = [
        sys.executable,
        str(OPS / "gen.py"),
        f"--ops={listed}",
        *options,
        *map(str, inputs),
        str(out),
        *tables(),
    ]
    return subprocess.run(command, capture_output=True, text=True)


def check(program: pathlib.Path, which: str) -> bool:
    """Check that the program returns its result, is refused missing operators, and is small."""
    arguments = [str(program), str(MODEL), *([] if which == "few" else ["absent"])]
    run = subprocess.run(arguments, capture_output=True, text=True)
    subprocess.run(["strip", str(program)], check=True)
    size = program.stat().st_size
    print(f"{which}: {size} bytes stripped\n{run.stdout}{run.stderr}")
    wanted = ["0.1084, 0.0727", *REFUSALS, *([] if which == "few" else MORE_REFUSALS)]
    missing = [text for text in wanted if text not in run.stdout]
    if which != "few":
        archive = subprocess.run(
            [str(program), str(MODEL.with_suffix(".pt"))], capture_output=True, text=True
        )
        missing += (
            []
            if archive.returncode and MORE_REFUSALS[-1] in archive.stderr
            else ["a refusal of digits.pt"]
        )
    if missing:
        print(f"missing: {missing}")
    return run.returncode == 0 and not missing and size <= MOST_BYTES[which]


def linked(work: pathlib.Path, listed: pathlib.Path, cc: str, library: str) -> bool:
    empty = work / "empty.ops"
    empty.write_text("# nothing\n")
    if "no line begins with the name of an operator" not in generate(work / "none.c", empty).stderr:
        print("an empty list is taken")
        return False
    good = True
    for which, options, files in (
        ("few", [], []),
        ("absent", ["--without=gradients", "--without=quantized"], ABSENT),
    ):
        table, program = work / f"{which}.c", work / which
        made = generate(table, listed, *options)
        if made.returncode:
            print(made.stderr)
            return False
        sources = [
            str(table),
            str(TOP / "tests" / "house" / "small.c"),
            *(str(SRC / file) for file in files),
        ]
        more = [] if files else ["-ldl"]
        subprocess.run(
            [*shlex.split(cc), *FLAGS, *sources, library, "-o", str(program), *LIBRARIES, *more],
            check=True,
        )
        good &= check(program, which)
    return good


def built(work: pathlib.Path, listed: pathlib.Path, cc: str) -> bool:
    """Make a build of its own, as docs/embedding.md shows it."""
    off = [f"-D{part}=false" for part in ("front_end", "autograd", "quantized", "dlopen")]
    options = ["-Disa=portable", "-Dgc_sections=true", "-Dwerror=true", *off]
    parts = [f"-D{part}=disabled" for part in ("cli", "python", "tests")]
    build, program = work / "build", work / "small"
    setup = [
        "meson",
        "setup",
        str(build),
        str(TOP),
        f"-Dops={os.path.relpath(listed, TOP)}",
        *options,
        *parts,
    ]
    subprocess.run(setup, check=True, capture_output=True)
    subprocess.run(
        ["ninja", "-C", str(build), "src/librush_core.a"], check=True, capture_output=True
    )
    sources = [str(TOP / "tests" / "house" / "small.c"), str(build / "src" / "librush_core.a")]
    subprocess.run([*shlex.split(cc), *FLAGS, *sources, "-o", str(program), *LIBRARIES], check=True)
    return check(program, "meson")


def main() -> int:
    by_meson = sys.argv[1] == "--meson"
    cc, *rest, rushlight = sys.argv[2 if by_meson else 1 :]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        listed = work / "digits.ops"
        shown = subprocess.run(
            [rushlight, "show", str(MODEL), "--ops"], capture_output=True, text=True, check=True
        )
        listed.write_text(shown.stdout)
        return (
            0 if (built(work, listed, cc) if by_meson else linked(work, listed, cc, rest[0])) else 1
        )


if __name__ == "__main__":
    sys.exit(main())
