"""Programs that lie (lying_programs.py) through the command: refused, or answered rightly; never a
crash.

    python tests/python/lying_run.py --command build/cli/rushlight [--against
    build-debug/cli/rushlight]
                                     [--seed 1 | --today] [--count 500] [--jobs 2] [--keep DIR]
                                     [--census] [--show SEED] [--verb export]

A finding is: a signal, a sanitizer's report, an internal error (exit code 70), an end later than
its limit and an allowance, an address in the output, a value printed that is not of the kind that
its type says, a result of another kind than forward declares, an honest program that is refused,
and (--against: the same program by another build, usually with
-Dslow_checks=true, where a wrong store to a register aborts) another answer of the other build.

Each program runs in a process of its own: a start takes 1 to 3 ms, and a crash is that program's.
With --verb export each TorchScript program is exported (rushlight export), and what comes out is
run: an end of both without one of the first four is no finding, since many programs cannot be
exported, and control flow on values is decided by then.

Findings are made smaller, line by line, while they stay; --keep writes some archives of each kind
into DIR.  The census says how programs of each lie end: answered, with an error (the command's exit
codes), or not compiled.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import lying_exports
import lying_programs
from lying_world import Case, Type

LIMIT = 0.5  # seconds that a program has
LATE = 0.6  # seconds after that: starting, compiling, releasing
LATE_AGAINST = 15.0  # the same for the other build, which may have sanitizers
HANGS = 30.0  # seconds after which it is ended
BYTES = 200_000_000
CODES = {0: "answered", 2: "usage", 3: "refused", 4: "raised", 5: "limit"}
REPORT = re.compile(
    r"ERROR: (?:Address|Leak|Thread|Memory)Sanitizer[^\n]*|[^\n]*runtime error:[^\n]*"
)
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b|\b\d{14,15}\b")
KINDS = {
    "int": re.compile(r"-?\d+$"),
    "bool": re.compile(r"(True|False)$"),
    "float": re.compile(r"-?(\d+\.?\d*(e[-+]?\d+)?|inf|nan)$"),
    "str": re.compile(r"s|$"),
    "NoneType": re.compile(r"None$"),
    "object": re.compile(r"<__torch__\."),
}


@dataclasses.dataclass
class Outcome:
    code: int
    out: str
    err: str
    seconds: float
    cpu: float

    def result(self) -> str:
        if self.code == 4 and "@start" not in self.out:
            return "not compiled"
        return CODES.get(self.code, "bad")

    def same(self) -> tuple[int, str, str]:
        last = self.err.strip().splitlines()[-1:] or [""]
        return self.code, ADDRESS.sub("ADDRESS", self.out), ADDRESS.sub("ADDRESS", last[0])


def run(command: str, path: pathlib.Path, c: Case, verb: str = "run") -> Outcome:
    line = [command, verb, str(path), *c.args]
    if verb == "export":
        line += ["-o", str(path.with_suffix(".made.pt2"))]
    line += ["--max-seconds", str(LIMIT), "--max-bytes", str(BYTES)]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    p = subprocess.Popen(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        out, err = p.communicate(timeout=HANGS)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    texts = [t.decode(errors="replace").replace(str(path), "FILE") for t in (out, err)]
    return Outcome(p.returncode, *texts, time.monotonic() - start, cpu)


def fits(t: Type, v: Any) -> bool:
    simple = {"int": int, "float": float, "bool": bool, "str": str}
    return t.kind not in simple or type(v) is simple[t.kind]


def wrong_result(c: Case, o: Outcome) -> str:
    lines = o.out.splitlines()
    if c.returns is None:
        return ""
    if not lines:
        return f"no result: expected {c.returns}"
    try:
        v = ast.literal_eval(lines[-1])
    except (SyntaxError, ValueError):
        v = lines[-1] if lines[-1] not in ("inf", "nan", "-inf") else 0.0
        return f"result is no {c.returns}" if v != 0.0 else ""
    return "" if fits(c.returns, v) else f"result is a {type(v).__name__}, not {c.returns}"


def wrong_print(c: Case, o: Outcome) -> str:
    for line in o.out.splitlines():
        word, _, rest = line.partition(" ")
        if word[:1] == "@" and word[1:] in KINDS and not KINDS[word[1:]].match(rest):
            return f"printed {rest[:20]!r} as {word[1:]}"
    return ""


def is_address(text: str, c: Case) -> bool:
    if text[:2] == "0x":
        return True
    return 0x5500_00000000 <= int(text) <= 0x7FFF_FFFFFFFF and text not in c.code


def judge(c: Case, o: Outcome, late: float = LATE, verb: str = "run") -> str:
    """The finding in one outcome, or ""."""
    reported = REPORT.search(o.err)
    if reported:
        return re.sub(r"0x[0-9a-f]+|\bpc \S+|==\d+==", "", reported[0])[:90]
    if o.seconds > HANGS:
        return "hangs"
    if o.code < 0 or o.code > 128:
        said = re.search(r"[^\n]*(?:assert|ASSERT)[^\n]*", o.err)
        return f"signal {-o.code if o.code < 0 else o.code - 128}" + (
            f": {said[0][:140]}" if said else ""
        )
    if o.code not in CODES:
        return f"exit code {o.code}"
    if o.seconds > LIMIT + late and o.cpu > LIMIT + 0.5 * late:  # busy itself, not for others
        return "late"
    found = sorted(a[0] for a in ADDRESS.finditer(o.out + o.err) if is_address(a[0], c))
    address = (
        "an address in the output: " + ("0x" if found[-1][:2] == "0x" else "an int")
        if found
        else ""
    )
    if address[-3:] == "int" or verb == "export":
        return address
    return wrong_print(c, o) or (wrong_result(c, o) if o.code == 0 else "") or address


@dataclasses.dataclass
class Finding:
    what: str
    case: Case
    outcomes: list[Outcome]
    seed: int = 0


class Driver:
    def __init__(self, command: str, against: str | None, folder: pathlib.Path, verb: str) -> None:
        self.commands = [command, *([against] if against else [])]
        self.folder = folder
        self.verb = verb

    def attempt(self, c: Case) -> tuple[str, list[Outcome]]:
        path = self.folder / f"case{os.getpid()}{c.suffix}"
        path.write_bytes(c.data)
        outcomes = []
        for command, late in zip(self.commands, (LATE, LATE_AGAINST), strict=False):
            o = run(command, path, c, self.verb)
            outcomes.append(o)
            what = judge(c, o, late, self.verb)
            if what in ("late", "hangs"):  # twice: the machine may have been busy
                what = judge(c, run(command, path, c, self.verb), late, self.verb)
            if not what and self.verb == "export" and o.code == 0:
                o = run(command, path.with_suffix(".made.pt2"), c)
                what = judge(c, o, late, self.verb)
            if what:
                return what, outcomes
        if self.verb == "export":
            return "", outcomes
        if c.honest and outcomes[0].code not in (
            0,
            5,
        ):  # 5: it needs longer; a loop over floats may never end
            return "an honest program is refused: " + reason(outcomes[0].err)[:60], outcomes
        if (
            len(outcomes) > 1
            and not any(o.code == 5 for o in outcomes)
            and outcomes[0].same() != outcomes[1].same()
        ):
            return "the two builds differ", outcomes
        return "", outcomes

    def smaller(self, c: Case, what: str, codes: list[int]) -> Case:
        """Without the lines, or parts of the model, that the finding does not need; it goes on to
        end in the same way."""
        end = time.monotonic() + 20

        def same(key: str, text: str) -> bool:
            nonlocal c
            new = dataclasses.replace(c, records={**c.records, key: text.encode()})
            found, outcomes = self.attempt(new) if time.monotonic() < end else ("", [])
            if not same_kind(found, what) or [o.code for o in outcomes] != codes:
                return False
            c = new
            return True

        for key in ("m/code/__torch__.py", "m/models/model.json"):
            if key in c.records:
                text = c.records[key].decode()
                (fewer_parts if key.endswith("json") else fewer_lines)(
                    text, lambda t, key=key: same(key, t)
                )
        return c


def fewer_lines(text: str, same: Callable[[str], bool]) -> None:
    step = 16
    while step:
        lines, i = text.split("\n"), 0
        while i < len(lines):
            rest = "\n".join(lines[:i] + lines[i + step :])
            if same(rest):
                text, lines = rest, rest.split("\n")
            else:
                i += step
        step //= 2


def fewer_parts(text: str, same: Callable[[str], bool]) -> None:
    """Without items of arrays, members of objects."""
    i = 0
    while True:
        j = json.loads(text)
        found = list(lying_exports.places(j))
        if i >= len(found):
            return
        c, k = found[i]
        del c[k]
        if same(json.dumps(j)):
            text = json.dumps(j)
        else:
            i += 1


def reason(err: str) -> str:
    """The message, without names and numbers."""
    lines = [re.sub(r"FILE: |rushlight: |RuntimeError: ?", "", x).strip() for x in err.splitlines()]
    said = [x for x in lines if x and not re.match(r"Traceback|File |~|def |class ", x)] or [""]
    return re.sub(r"\b[A-Za-z_]*\d+\w*", "_", said[0])[:100]


def same_kind(a: str, b: str) -> bool:
    return bool(a) and kind_of(a) == kind_of(b)


def kind_of(what: str) -> str:
    """What of a finding stays when the program changes."""
    return re.sub(r"'.*' as", "... as", what)


def worker(args: tuple[str, str | None, list[int], str]) -> tuple[list[Finding], Counter]:
    command, against, seeds, verb = args
    findings: list[Finding] = []
    census: Counter = Counter()
    seen: Counter = Counter()
    with tempfile.TemporaryDirectory(prefix="lying") as folder:
        d = Driver(command, against, pathlib.Path(folder), verb)
        for seed in seeds:
            c = lying_programs.case(seed)
            if verb == "export" and c.suffix == ".pt2":  # exported already
                continue
            what, outcomes = d.attempt(c)
            result = outcomes[0].result()
            for kind in {*c.kinds, "all"}:
                census[kind, "found" if what else result] += 1
            census["honest" if c.honest else "lying", "found" if what else result] += 1
            if result == "not compiled":
                census["not compiled: " + reason(outcomes[0].err), "n"] += 1
            if what:
                seen[kind_of(what), c.kinds[0]] += 1
                if (
                    seen[kind_of(what), c.kinds[0]] <= 2 and not c.honest
                ):  # a part of an honest program may lie
                    c = d.smaller(c, what, [o.code for o in outcomes])
                    again, outcomes = d.attempt(c)
                    findings.append(Finding(again or what, c, outcomes, seed))
                else:
                    findings.append(Finding(what, c, outcomes, seed))
    return findings, census


def run_many(
    command: str, against: str | None, first: int, count: int, jobs: int, verb: str = "run"
) -> tuple[list[Finding], Counter]:
    size = max(1, min(250, count // jobs))
    batches = [
        (command, against, list(range(at, min(at + size, first + count))), verb)
        for at in range(first, first + count, size)
    ]
    findings: list[Finding] = []
    census: Counter = Counter()
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        for f, n in pool.map(worker, batches):
            findings += f
            census += n
    return findings, census


def table(census: Counter) -> str:
    columns = [*CODES.values(), "not compiled", "bad", "found"]
    rows = sorted({k for k, v in census if v != "n"})
    out = [f"{'':18}" + "".join(f"{c:>13}" for c in columns)]
    out += [f"{r:18}" + "".join(f"{census[r, c]:>13}" for c in columns) for r in rows]
    out += [f"{n:6}  {k}" for (k, v), n in census.most_common() if v == "n"]
    return "\n".join(out)


def report(f: Finding) -> str:
    said = "\n".join(
        f"  exit {o.code} after {o.seconds:.2f} s: {(o.out[-300:] + o.err[-400:]).strip()}"
        for o in f.outcomes
    )
    return (
        f"seed {f.seed}: {f.what} ({', '.join(f.case.kinds)})\nargs "
        f"{f.case.args}\n{f.case.code}\n{said}\n"
    )


def keep(folder: pathlib.Path, findings: list[Finding]) -> None:
    """At most five archives of each kind, a file of texts beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds: Counter = Counter()
    for f in sorted(findings, key=lambda f: len(f.case.code)):
        kind = kind_of(f.what)
        kinds[kind, f.case.kinds[0]] += 1
        kinds[kind] += 1
        if kinds[kind, f.case.kinds[0]] > 1 or kinds[kind] > 5:
            continue
        name = re.sub(r"\W+", "_", f"{kind[:40]} {f.case.kinds[0]}").strip("_") + f"_{f.seed}"
        (folder / (name + f.case.suffix)).write_bytes(f.case.data)
        (folder / (name + ".txt")).write_text(report(f), encoding="utf-8")


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--command", required=True)
    p.add_argument("--against")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--today", action="store_true", help="seeds that each day has for itself")
    p.add_argument("--count", type=int, default=500)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--keep", type=pathlib.Path)
    p.add_argument("--census", action="store_true")
    p.add_argument("--show", type=int)
    p.add_argument("--verb", default="run", choices=["run", "export"])
    o = p.parse_args()
    if o.show is not None:
        c = lying_programs.case(o.show)
        print(c.kinds, "honest" if c.honest else "", c.args, f"\n{c.code}")
        return 0
    if o.today:
        o.seed = int(time.time()) // 86400 % 10000 * 100000
    findings, census = run_many(o.command, o.against, o.seed, o.count, o.jobs, o.verb)
    if o.census:
        print(table(census))
    by_kind = Counter(f"{kind_of(f.what)} ({f.case.kinds[0]})" for f in findings)
    for kind, n in by_kind.most_common():
        print(f"{n:5}  {kind}")
    if o.keep:
        keep(o.keep, findings)
    n = sum(count for (row, _), count in census.items() if row == "all")
    print(f"seeds {o.seed}..{o.seed + o.count - 1}: {n} programs, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
