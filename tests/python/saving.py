"""Archives out, for every program that PyTorch can open: load here, save, load in PyTorch, run what
was recorded.

    python saving.py CORPUS [--corpus TOOLS] [--every N] [--only TEXT] [-v]

For each archive: the bytes are the same each time; what is saved opens here and gives the same
graphs and bytes again; it opens in PyTorch, gives the recorded results there and here, and prints
the code that PyTorch prints for the original (and in its records, but for the numbers of mangled
names). Folders without recorded calls work too: then nothing is run. Prints a count of what agreed;
a line for what does not; the exit code says whether there was any.
"""

from __future__ import annotations

import argparse
import collections
import difflib
import io
import pathlib
import re
import sys
import warnings
import zipfile
from typing import Any

import rushlight
import torch

# Where our text differs from PyTorch's, and why.
EXPLAINED = {
    # Unused casts: PyTorch drops them only where something else could be computed ahead;
    # numbers behind names follow.
    ("sequence/translator.script", "text"),
    ("vision/resamplers.script", "text"),
    ("vision/unet.script", "text"),
    # Results of a branch with equal first uses in PyTorch's order of uses; the graph is the same.
    ("vision/vit.script", "text"),
}


def renamed(graph: Any) -> str:
    """The text without ranges, values and constants numbered in the order in which the rest names
    them."""
    lines = [re.sub(r" # .*$", "", line) for line in str(graph).split("\n")]
    constants = [line for line in lines if re.match(r"\s+%\S+ : .* = prim::Constant", line)]
    names: dict[str, str] = {}

    def rename(line: str) -> str:
        return re.sub(r"%[\w.]+", lambda m: names.setdefault(m.group(0), f"%{len(names)}"), line)

    rest = [rename(line) for line in lines if line not in constants]
    constants.sort(key=lambda line: int(names.get(line.split()[0], "%999999")[1:]))
    return "\n".join([rename(line) for line in constants] + rest)


def code_records(data: bytes) -> dict[str, list[str]]:
    """Text lines by record, sorted, without the numbers that keep equal names of classes apart."""
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        return {
            re.sub(r"/___torch_mangle_\d+", "", name.split("/", 1)[1]): sorted(
                re.sub(r"___torch_mangle_\d+\.", "", z.read(name).decode()).split("\n")
            )
            for name in z.namelist()
            if name.endswith(".py")
        }


def records(data: bytes) -> dict[str, bytes]:
    """All but where code came from, which is told more coarsely each time, and the hash of
    everything."""
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        return {
            name: z.read(name)
            for name in z.namelist()
            if not name.endswith(("debug_pkl", "serialization_id"))
        }


def version(data: bytes) -> list[bytes]:
    """The archive's version record."""
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        return [z.read(name) for name in z.namelist() if name.endswith("version")]


def unlike(want: list[str], got: list[str]) -> str:
    """The first lines that differ."""
    return " | ".join(list(difflib.unified_diff(want, got, lineterm="", n=0))[2:8])


class Check:
    """One archive."""

    def __init__(self, path: pathlib.Path, casefile: Any, seen: collections.Counter[str]) -> None:
        self.path, self.casefile, self.seen = path, casefile, seen
        self.wrong: list[str] = []

    def say(self, what: str, ok: bool, why: str = "") -> None:
        short = "/".join(self.path.parts[-3:-1])
        if not ok and (short, what) in EXPLAINED:
            what, ok = f"{what} (explained)", True
        self.seen[what] += ok
        if not ok:
            self.wrong.append(f"{self.path}: {what}: {why[:400]}")

    def run(self) -> None:
        try:
            theirs = torch.jit.load(str(self.path))
        except Exception:
            self.seen["PyTorch cannot open it"] += 1
            return
        ours = rushlight.load(str(self.path))
        data = ours.save_to_buffer()
        self.say("same bytes twice", data == ours.save_to_buffer())
        again = rushlight.load(data)
        self.say("same records saved again", records(again.save_to_buffer()) == records(data))
        for name in ours.methods():
            one, two = getattr(ours, name), getattr(again, name)
            self.say("graph", renamed(one.graph) == renamed(two.graph), name)
        if "forward" in ours.methods():
            self.say(
                "code",
                ours.code == theirs.code,
                unlike(theirs.code.split("\n"), ours.code.split("\n")),
            )
        self.texts(theirs, data)
        try:
            opened = torch.jit.load(io.BytesIO(data))
        except Exception as error:
            self.say("opens in PyTorch", False, str(error))
            return
        self.say("opens in PyTorch", True)
        if self.casefile and (self.path.parent / "calls.pt").exists():
            self.calls(opened, again)

    def texts(self, theirs: Any, data: bytes) -> None:
        out = io.BytesIO()
        try:
            torch.jit.save(theirs, out)
        except Exception:
            self.seen["PyTorch cannot save it"] += 1
            return
        want, got = code_records(out.getvalue()), code_records(data)
        for name, text in want.items():
            if any(text):  # classes written in C have empty files
                self.say(
                    "text", text == got.get(name), f"{name}: {unlike(text, got.get(name, []))}"
                )
        self.say(
            "version",
            version(out.getvalue()) == version(data),
            f"{version(out.getvalue())}, ours {version(data)}",
        )

    def calls(self, opened: Any, again: Any) -> None:
        folder = str(self.path.parent)
        for what, model in (("runs in PyTorch", opened), ("runs here", again)):
            why = self.casefile.replay(folder, model)
            self.say(what, why is None, str(why))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--corpus", default="", help="the corpus' tools, for recorded calls")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    casefile = None
    if args.corpus:
        sys.path.insert(0, args.corpus)
        import casefile  # type: ignore[no-redef]
    paths = sorted(
        p for p in args.folder.rglob("*.pt") if p.name != "calls.pt" and args.only in str(p)
    )[args.start :: args.every]
    seen: collections.Counter[str] = collections.Counter()
    wrong = []
    for path in paths:
        check = Check(path, casefile, seen)
        try:
            check.run()
        except Exception as error:
            check.wrong.append(f"{path}: {type(error).__name__}: {str(error)[:400]}")
        seen["archives"] += 1
        for line in check.wrong:
            print(line.replace("\n", " | "), flush=True)
        wrong += check.wrong
    print(", ".join(f"{what}: {n}" for what, n in seen.items()), f"-- wrong: {len(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
