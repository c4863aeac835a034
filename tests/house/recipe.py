#!/usr/bin/env python3
"""recipe.py CC: the recipe "add an operator" holds: a pointwise operator is its formula and nothing else.

Takes an operator that is known by schema only, gives the generator one entry more, and compiles the table that comes out;
then entries with typical mistakes, each of which is one line with file and line."""

from __future__ import annotations

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
OPS = TOP / "src" / "ops"
MISTAKES = {
    'op("aten::no_such_operator", family="pointwise", expr="self")': "registers no operator",
    'op("{name}", family="pointwise", exp="self")': "exp",
    'op("{name}", family="pointwise", expr={{"float": "self +"}})': ":",
    'op("{name}", family="pointwise", expr={{"float": "other_name"}})': "other_name",
    'op("aten::neg", family="pointwise", expr="self")': "already",
    'op("{name}", family="pointwise", expr="self", grad={{"self": "grad * weight"}})': "names weight",
    'op("{name}", family="pointwise", expr="self", grad={{"other": "grad"}})': "no argument",
    'op("{name}", family="pointwise", expr="self", grad={{"self": "grad +"}})': "line 1 of its gradient",
    'grad("neg", self="grad")': "a gradient already",
    'grad("no_such_operator", self="grad")': "registers no operator",
    'helper("def times_conj(x: Tensor): return x")': "helper times_conj already",
}


def tables() -> list[str]:
    text = (OPS / "meson.build").read_text()
    return [str(OPS / name) for name in re.findall(r"'(\w+\.py)'", text.split("ops_tables = files(")[1].split(")")[0])]


def generate(out: pathlib.Path, extra: pathlib.Path) -> subprocess.CompletedProcess:
    command = [sys.executable, str(OPS / "gen.py"), str(OPS / "schemas.txt"), str(OPS / "tape.def"), str(OPS.parent / "shape" / "rules.def"),
               str(out), *tables()]
    return subprocess.run([*command, str(extra)], capture_output=True, text=True)


def free_operator(work: pathlib.Path) -> str:
    """One of the schemas `NAME(Tensor self) -> Tensor` that have no entry."""
    extra = work / "extra.py"
    for line in (OPS / "schemas.txt").read_text().splitlines():
        found = re.match(r"(aten::\w+)\(Tensor self\) -> Tensor$", line)
        if found:
            extra.write_text(f'op("{found[1]}", family="pointwise", expr={{"float": "self*self + 1"}})\n')
            if generate(work / "table.c", extra).returncode == 0:
                return found[1]
    sys.exit("every operator has an entry")


def main() -> int:
    cc = shlex.split(sys.argv[1])
    complaints = []
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        name = free_operator(work)
        table = (work / "table.c").read_text()
        print(f"added {name}")
        if f"/* {name} */" not in table and name not in table:
            complaints.append(f"{name} is not in the table")
        flags = ["-std=c11", "-D_GNU_SOURCE", f"-I{TOP / 'src'}", f"-I{TOP / 'include'}", "-fsyntax-only"]
        built = subprocess.run([*cc, *flags, str(work / "table.c")], capture_output=True, text=True)
        complaints += [built.stderr] if built.returncode else []
        for entry, said in MISTAKES.items():
            extra = work / "wrong.py"
            extra.write_text("\n\n" + entry.format(name=name) + "\n")
            done = generate(work / "wrong.c", extra)
            if done.returncode == 0 or "wrong.py:3" not in done.stderr or said not in done.stderr:
                complaints.append(f"{entry}: {done.stderr or 'accepted'}")
            if len(done.stderr.strip().splitlines()) > 1 or (work / "wrong.c").exists():
                complaints.append(f"{entry}: more than a line, or something was written: {done.stderr}")
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
