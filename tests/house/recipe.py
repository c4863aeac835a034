#!/usr/bin/env python3
"""recipe.py CC LIB.a: the recipe "add an operator" holds: a pointwise operator is its formula and
nothing else.

Gives the generator one entry more, rushtest::softsquare, which PyTorch lacks, links the table that
comes out before the library's, and runs recipe.c: the operator's values for several dtypes and
layouts, its refusals; then entries with typical mistakes, each of which is one line with file and
line."""

from __future__ import annotations

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
OPS = TOP / "src" / "ops" / "table"
MISTAKES = {
    'op("aten::no_such_operator", family="pointwise", expr="self")': "registers no operator",
    'op("{name}", family="pointwise", exp="self")': "exp",
    'op("{name}", family="pointwise", expr={{"float": "self +"}})': ":",
    'op("{name}", family="pointwise", expr={{"float": "other_name"}})': "other_name",
    'op("aten::neg", family="pointwise", expr="self")': "already",
    'op("{name}", family="pointwise", expr="self", grad={{"self": "grad * '
    'weight"}})': "names weight",
    'op("{name}", family="pointwise", expr="self", grad={{"other": "grad"}})': "no argument",
    'op("{name}", family="pointwise", expr="self", grad={{"self": "grad +"}})': "line 1 of its "
    "gradient",
    'op("aten::neg", schema="aten::neg(Tensor self) -> Tensor", family="pointwise", '
    'expr="self")': "schemas.txt",
    'op("mine::f", schema="mine::g(Tensor self) -> Tensor", family="pointwise", '
    'expr="self")': "expected mine::f(ARGUMENTS)",
    'grad("neg", self="grad")': "a gradient already",
    'grad("no_such_operator", self="grad")': "registers no operator",
    'helper("def times_conj(x: Tensor): return x")': "helper times_conj already",
}


def tables() -> list[str]:
    text = (OPS / "meson.build").read_text()
    return [
        str(OPS / name)
        for name in re.findall(
            r"'([\w/]+\.py)'", text.split("ops_tables = files(")[1].split(")")[0]
        )
    ]


def generate(out: pathlib.Path, extra: pathlib.Path) -> subprocess.CompletedProcess:
    inputs = [
        OPS / "gen.py",
        OPS / "schemas.txt",
        OPS / "tape.def",
        TOP / "src" / "shape" / "rules.def",
    ]
    command = [sys.executable, *map(str, inputs), str(out), *tables()]
    return subprocess.run([*command, str(extra)], capture_output=True, text=True)


ENTRY = """op("rushtest::softsquare", schema="rushtest::softsquare(Tensor self) -> Tensor", family="pointwise", promote="float",
   expr={"float": "self * self / (1 + abs(self))"})
"""


def run_with_entry(cc: list[str], library: str, work: pathlib.Path) -> str:
    """Return what is wrong with the operator of an additional entry, or ''."""
    extra = work / "extra.py"
    extra.write_text(ENTRY)
    made = generate(work / "table.c", extra)
    if made.returncode:
        return made.stderr
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O0", f"-I{TOP / 'src'}", f"-I{TOP / 'include'}"]
    program = str(work / "recipe")
    sources = [str(work / "table.c"), str(TOP / "tests" / "house" / "recipe.c")]
    command = [*cc, *flags, *sources, library, "-o", program, "-lz", "-lm", "-lpthread"]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode:
        return built.stderr
    run = subprocess.run([program], capture_output=True, text=True)
    print(run.stdout, end="")
    return run.stderr if run.returncode else ""


def main() -> int:
    cc = shlex.split(sys.argv[1])
    complaints = []
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        complaints += [run_with_entry(cc, sys.argv[2], work)]
        name = "aten::crow_indices_copy"  # known by schema only
        for entry, said in MISTAKES.items():
            extra = work / "wrong.py"
            extra.write_text("\n\n" + entry.format(name=name) + "\n")
            done = generate(work / "wrong.c", extra)
            if done.returncode == 0 or "wrong.py:3" not in done.stderr or said not in done.stderr:
                complaints.append(f"{entry}: {done.stderr or 'accepted'}")
            if len(done.stderr.strip().splitlines()) > 1 or (work / "wrong.c").exists():
                complaints.append(
                    f"{entry}: more than a line, or something was written: {done.stderr}"
                )
    complaints = [c for c in complaints if c]
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
