#!/usr/bin/env python3
"""fuzz_record.py TARGET SECONDS BUILD COVER: after a run of a fuzz target without a finding, write
its line of fuzz/results.tsv: date, seconds, executions, and how many lines of its reader's files
all inputs together reach (replayed in COVER, a build with clang's coverage). READERS lists these
files. Source lines are counted: lines that only a failing allocation reaches are part of the
total."""

from __future__ import annotations

import datetime
import glob
import json
import os
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
RESULTS = TOP / "fuzz" / "results.tsv"
HEAD = "target\tdate\tseconds\texecutions\tlines\treached\n"
READERS = {
    "zip": ["formats/zip.c"],
    "pickle": ["formats/pickle.c", "archive/unpickle.c", "archive/saved.c"],
    "model": ["formats/json.c", "archive/exported_*.c"],
    "export": ["archive/exported_*.c", "fx/*.c", "export/*.c"],
    "source": ["script/*/*.c", "passes/ssa.c", "passes/exits.c", "passes/closures.c"],
    "schema": ["value/schema.c"],
    "ir": ["ir/parse.c", "ir/parse_atoms.c"],
    "operators": ["ops/call/*.c", "ops/point/*.c", "tensor/*.c", "shape/rules*.c"],
    "archive": [
        "module/module.c",
        "archive/torchscript.c",
        "archive/legacy.c",
        "archive/origins.c",
        "formats/npy.c",
        "formats/safetensors.c",
    ],
}


def sources(target: str) -> list[str]:
    top = TOP / "src"
    found = {pattern: sorted(glob.glob(str(top / pattern))) for pattern in READERS[target]}
    gone = [pattern for pattern, files in found.items() if not files]
    if gone:
        sys.exit(f"{target}: no files in src are {', '.join(gone)}: correct READERS")
    return [str(pathlib.Path(p).relative_to(top)) for files in found.values() for p in files]


def coverage(target: str, build: pathlib.Path, cover: pathlib.Path) -> list[tuple[str, int, int]]:
    """Return (file, lines, reached) of each of the reader's files."""
    raw, data = cover / f"{target}.profraw", cover / f"{target}.profdata"
    replay = str(cover / "fuzz" / "replay")
    folders = [
        build / "corpus" / target,
        build / "seeds" / target,
        TOP / "tests" / "data" / "fuzz" / target,
    ]
    env = dict(os.environ, LLVM_PROFILE_FILE=str(raw))
    subprocess.run(
        [replay, *(str(f) for f in folders if f.is_dir())],
        env=env,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(["llvm-profdata", "merge", "-o", str(data), str(raw)], check=True)
    raw.unlink()
    done = subprocess.run(
        ["llvm-cov", "export", "-summary-only", f"-instr-profile={data}", replay],
        check=True,
        capture_output=True,
        text=True,
    )
    files = json.loads(done.stdout)["data"][0]["files"]
    counts = {f["filename"].split("/src/")[-1]: f["summary"]["lines"] for f in files}
    return [
        (name, counts[name]["count"], counts[name]["covered"])
        for name in sources(target)
        if name in counts
    ]


def main() -> int:
    target, seconds, build, cover = (
        sys.argv[1],
        int(sys.argv[2]),
        pathlib.Path(sys.argv[3]),
        pathlib.Path(sys.argv[4]),
    )
    log = (build / f"{target}.log").read_text(errors="replace")
    rows = coverage(target, build, cover)
    for name, lines, reached in rows:
        print(f"  {name:32} {reached:5} of {lines:5} lines  {100 * reached / lines:5.1f} %")
    lines, reached = sum(r[1] for r in rows), sum(r[2] for r in rows)
    executions = re.search(r"^stat::number_of_executed_units: (\d+)", log, re.M)
    print(f"{target}: {reached} of {lines} lines of its reader, {100 * reached / lines:.1f} %")
    if not executions or re.search(r"ERROR: |runtime error:|^fuzz: ", log, re.M):
        return 1
    kept = RESULTS.read_text().splitlines()[1:] if RESULTS.exists() else []
    by_name = {line.split("\t")[0]: line for line in kept}
    day = datetime.datetime.now(tz=datetime.timezone.utc).strftime("%Y-%m-%d")
    by_name[target] = f"{target}\t{day}\t{seconds}\t{executions[1]}\t{lines}\t{reached}"
    RESULTS.write_text(HEAD + "".join(by_name[name] + "\n" for name in READERS if name in by_name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
