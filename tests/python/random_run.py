"""Random programs (random_programs.py) run by rushlight, PyTorch and CPython, which must agree:
values, printed text, errors.

    python tests/python/random_run.py [--first 1 | --today] [--count 500] [--jobs 2] [--no-torch]
    [--census] [--until-found] [--tensors]

Rushlight runs each call with every executor, twice, so that plans run, and each program's graph
behind passes that the seed chooses: they must change nothing.  --tensors takes programs over
tensors (random_tensors.py) instead, which only the executors compare (executor_runs.py).

A program that differs is made smaller, statement by statement and expression by expression, while
the difference stays, and printed.  Programs run in processes of their own, so that one that crashes
is named too.  --no-torch leaves PyTorch out: to look for faults quickly.  Its last line counts
programs, calls, calls that raised, and differences.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import faulthandler
import io
import itertools
import json
import linecache
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import executor_runs
import random_programs
import random_tensors

NUMBERS = itertools.count()
HERE = pathlib.Path(__file__).resolve().parent
BATCH = 500  # programs a process
SECONDS = 120  # that a program may take, made smaller too
# Exceptions of CPython where TorchScript raises RuntimeError with a text.
TEXTS = (
    ("list index out of range", "IndexError"),
    ("basic_string::at", "IndexError"),
    ("pop from empty list", "IndexError"),
    ("is not in list", "ValueError"),
    ("not in list", "ValueError"),
    ("invalid literal", "ValueError"),
    ("division by 0", "ZeroDivisionError"),
    ("KeyError", "KeyError"),
    ("integer division or modulo by zero", "ZeroDivisionError"),
    ("stoll", "ValueError"),
)
# PyTorch's interpreter moves a value out of its register at its last use by the text: in a loop
# that is too early when the block around it gives the value on (`if a: x = f(); for i in ..: d =
# {0: x}` makes None of x).  And its compiler fails an assertion of its own where a loop has a break
# before a `with` that holds a continue.
ALONE = "PyTorch alone differs"
BEHIND = "rushlight differs behind passes"
EXECUTORS = "executors differ: "
OTHER_ERROR = EXECUTORS + executor_runs.OTHER_ERROR
PASSES = (
    "constant_loop_unrolling",
    "constant_pooling",
    "constant_propagation",
    "cse",
    "dce",
    "inline",
    "loop_peeling",
    "loop_unrolling",
    "lower_simple_tuples",
    "peephole",
    "remove_list_mutation",
)
FEW = 0.003  # of all programs
ADDRESS = re.compile(r"<\S+ object(?: at 0x\w+)?>")
Outcome = (
    tuple  # ("value", repr, printed), ("raised", class, message, printed), ("refused", message)
)


def plain(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(plain(i) for i in x)
    if isinstance(x, list):
        return [plain(i) for i in x]
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    return x


def last_line(e: BaseException) -> str:
    lines = [line for line in str(e).splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def class_of(e: BaseException) -> str:
    """The Python class of an error, of a TorchScript one too."""
    if type(e).__module__ == "builtins" and type(e) is not RuntimeError:
        return type(e).__name__
    line = last_line(e)
    named = re.match(r"(?:RuntimeError: )?builtins\.(\w+):|RuntimeError: (AssertionError)\b", line)
    if named:
        return named[1] or named[2]
    for text, name in TEXTS:
        if text in line:
            return name
    return "RuntimeError"


def message_of(e: BaseException) -> str:
    """Return the lines that the program itself printed, which begin with "! "."""
    line = last_line(Exception(e.args[0])) if e.args else ""
    return line[line.index("! ") :].strip() if "! " in line else ""


def outcomes(f: Callable[..., Any], calls: list[tuple]) -> list[Outcome]:
    out = []
    for args in calls:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                got: tuple = (
                    "value",
                    ADDRESS.sub("<object>", repr(plain(f(*copy.deepcopy(args))))),
                )
            except Exception as e:  # noqa: BLE001
                got = ("raised", class_of(e), message_of(e))
        out.append((*got, ADDRESS.sub("<object>", printed.getvalue())))
    return out


def python_module(text: str) -> types.ModuleType:
    # a new one each time: PyTorch keeps classes by their names
    name = f"random_program{next(NUMBERS)}"
    m = types.ModuleType(name)
    m.__file__ = f"/{name}.py"
    linecache.cache[m.__file__] = (len(text), None, text.splitlines(True), m.__file__)
    sys.modules[name] = m
    exec(compile(text, m.__file__, "exec", dont_inherit=True), m.__dict__)
    return m


def by_python(text: str, calls: list[tuple]) -> list[Outcome]:
    return outcomes(python_module(text).main, calls)


def by_torch(text: str, calls: list[tuple]) -> list[Outcome]:
    import torch

    try:
        f = torch.jit.script(python_module(text).main)
    except Exception as e:  # noqa: BLE001
        return [("refused", f"{type(e).__name__}: {e}")]
    finally:
        linecache.cache.clear()
    with torch.jit.optimized_execution(False):
        return outcomes(f, calls)


def passes_of(seed: int) -> list[str]:
    return ["inline", *random.Random(seed).choices(PASSES, k=5), "dce"]


def by_rushlight(
    text: str, calls: list[tuple], passes: list[str]
) -> tuple[list[Outcome], list[Outcome]]:
    """As it is, and behind passes."""
    import rushlight

    path = pathlib.Path(tempfile.gettempdir()) / f"random_program{os.getpid()}.py"
    path.write_text(text, encoding="utf-8")
    try:
        f = rushlight.load(str(path)).main
        graph = f.graph
    except Exception as e:  # noqa: BLE001
        refused = [("refused", f"{type(e).__name__}: {e}")]
        return refused, refused
    finally:
        path.unlink()
    plain_outcomes = outcomes(f, calls)
    try:
        for name in passes:
            graph.run_pass(name)
    except Exception as e:  # noqa: BLE001
        return plain_outcomes, [("refused", f"{type(e).__name__}: {e}")]
    return plain_outcomes, outcomes(graph, calls)


def by_executors(text: str, calls: list[tuple]) -> executor_runs.Difference | None:
    """What differs between executors in what calls of `main` do, whole errors among it."""
    import rushlight

    path = pathlib.Path(tempfile.gettempdir()) / f"random_program{os.getpid()}.py"
    path.write_text(text, encoding="utf-8")

    def run() -> Iterator[dict[str, Any]]:
        main = rushlight.load(str(path)).main
        for args in calls * 2:  # plans run from the second call
            yield executor_runs.observe(main, copy.deepcopy(args), lambda: None)

    try:
        return executor_runs.difference(run)
    finally:
        path.unlink()


def reason(message: str) -> str:
    """What of a message stays when the program gets smaller."""
    lines = [line.strip() for line in message.splitlines() if len(line) > 16]
    return re.sub(r"'[^']*'|\\d+", "_", lines[0] if lines else message)[:60]


def difference(text: str, calls: list[tuple], use_torch: bool, seed: int) -> tuple[str, list[Any]]:
    """What differs, or "", and the answers."""
    plain_outcomes, behind = by_rushlight(text, calls, passes_of(seed))
    answers = [by_python(text, calls), plain_outcomes]
    kind = ""
    if use_torch:
        answers.append(by_torch(text, calls))
        if "INTERNAL ASSERT" in answers[2][0][1] and answers[0] == answers[1]:
            kind = ALONE
        elif answers[2][0][0] == "refused":
            kind = "PyTorch refuses: " + reason(answers[2][0][1])
        elif answers[0] != answers[2] == answers[1]:
            kind = "CPython alone differs"  # the generator's fault
        elif answers[0] != answers[2] and answers[0] == answers[1]:
            kind = ALONE
    if not kind and answers[1][0][0] == "refused":
        kind = "rushlight refuses: " + reason(answers[1][0][1])
    if not kind and answers[0] != answers[1]:
        kind = "rushlight differs"
    if not kind and answers[1] != behind:
        kind, answers = f"{BEHIND} {','.join(passes_of(seed))}", [answers[0], behind]
    if not kind and (differs := by_executors(text, calls)):
        kind, answers = EXECUTORS + differs.what, [differs.text]
    return kind, answers


# -- Making a program smaller
# ------------------------------------------------------------------------


def expressions(tree: ast.AST) -> list[ast.expr]:
    """All but types."""
    types_: set[int] = set()
    for n in ast.walk(tree):
        for field in ("annotation", "returns"):
            if getattr(n, field, None):
                types_.update(id(x) for x in ast.walk(getattr(n, field)))
    return [n for n in ast.walk(tree) if isinstance(n, ast.expr) and id(n) not in types_]


def smaller(tree: ast.Module) -> Iterator[ast.Module]:
    """Each program that one step makes of the tree: coarse steps first."""

    def bodies(t: ast.AST) -> Iterator[list]:
        for node in ast.walk(t):
            for field in ("body", "orelse"):
                body = getattr(node, field, None)
                if isinstance(body, list) and body:
                    yield body

    n_bodies = len(list(bodies(tree)))
    for b in range(n_bodies):
        n = len(list(bodies(tree))[b])
        for i in range(n - 1, -1, -1):
            c = copy.deepcopy(tree)
            body = list(bodies(c))[b]
            gone = body.pop(i)
            if not body:
                body.append(ast.Pass())
                if isinstance(gone, ast.Pass):
                    continue
            yield c
            for part in ("body", "orelse"):
                if isinstance(gone, (ast.If, ast.For, ast.While, ast.With)) and getattr(
                    gone, part, None
                ):
                    c = copy.deepcopy(tree)
                    body = list(bodies(c))[b]
                    body[i : i + 1] = getattr(body[i], part)
                    yield c
    for k, node in enumerate(expressions(tree)):
        parts: list[Any] = [c for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
        if isinstance(node, (ast.Tuple, ast.List)) and isinstance(node.ctx, ast.Load) and node.elts:
            parts += [
                type(node)(node.elts[:j] + node.elts[j + 1 :], ast.Load())
                for j in range(len(node.elts))
            ]
        for part in parts:
            c = copy.deepcopy(tree)
            target = expressions(c)[k]
            for parent in ast.walk(c):
                for field, value in ast.iter_fields(parent):
                    if value is target:
                        setattr(parent, field, copy.deepcopy(part))
                    elif isinstance(value, list) and target in value:
                        value[value.index(target)] = copy.deepcopy(part)
            yield c


def shrink(
    text: str, calls: list[tuple], kind: str, use_torch: bool, seed: int
) -> tuple[str, list[tuple]]:
    """While the same kind of difference stays; CPython must still run it."""
    end = time.monotonic() + 20.0
    same = lambda t, c: attempt(t, c, use_torch, seed) == kind  # noqa: E731
    for call in calls:
        if same(text, [call]):
            calls = [call]
            break
    again = True
    while again and time.monotonic() < end:
        again = False
        for c in smaller(ast.parse(text)):
            if time.monotonic() > end:
                break
            try:
                new = ast.unparse(ast.fix_missing_locations(c))
            except Exception:  # noqa: BLE001
                continue
            if len(new) < len(text) and same(new, calls):
                text, again = new, True
                break
    return text, calls


def attempt(text: str, calls: list[tuple], use_torch: bool, seed: int) -> str:
    try:
        answers = by_python(text, calls)
    except Exception:  # noqa: BLE001
        return "invalid"
    if any(
        a[0] == "raised"
        and a[1] in ("NameError", "UnboundLocalError", "AttributeError", "TypeError")
        for a in answers
    ):
        return "invalid"
    return difference(text, calls, use_torch, seed)[0]


# -- Many programs
# -----------------------------------------------------------------------------------


def tensor_worker(first: int, count: int, stop: bool) -> None:
    """A line of JSON for each program over tensors."""
    for seed in range(first, first + count):
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        print(json.dumps({"seed": seed}), flush=True)
        p = random_tensors.program(seed)
        line: dict[str, Any] = {"done": seed, "calls": len(p.calls), "census": {}}
        first_calls = [seen["error"] for seen in executor_runs.tensor_calls(p) if "error" in seen]
        differs = executor_runs.difference(lambda p=p: executor_runs.tensor_calls(p))
        line["raised"] = len(first_calls)
        if differs:
            line |= {"kind": EXECUTORS + differs.what, "text": p.text, "inputs": repr(p[1:])}
            line["answers"] = [differs.text[:3000]]
        print(json.dumps(line), flush=True)
        if stop and differs and differs.what != executor_runs.OTHER_ERROR:
            break


def worker(first: int, count: int, use_torch: bool, stop: bool, whole: bool) -> None:
    """One process: a line of JSON a program."""
    for seed in range(first, first + count):
        faulthandler.dump_traceback_later(
            SECONDS, exit=True
        )  # a program that hangs is named like one that crashes
        print(json.dumps({"seed": seed}), flush=True)
        p = random_programs.program(seed)
        kind, answers = difference(p.text, p.calls, use_torch, seed)
        line: dict[str, Any] = {
            "done": seed,
            "raised": sum(a[0] == "raised" for a in answers[0]),
            "calls": len(p.calls),
            "census": p.census,
        }
        if kind.startswith("PyTorch"):  # the generator's fault
            line |= {
                "kind": kind,
                "text": p.text,
                "inputs": repr(p.calls),
                "answers": [repr(a)[:1500] for a in answers],
            }
        elif kind:
            text, calls = (
                (p.text, p.calls) if whole else shrink(p.text, p.calls, kind, use_torch, seed)
            )
            with contextlib.suppress(Exception):
                answers = difference(text, calls, use_torch, seed)[1]
            line |= {
                "kind": kind,
                "text": text,
                "inputs": repr(calls),
                "answers": [repr(a)[:1500] for a in answers],
            }
        print(json.dumps(line), flush=True)
        if stop and kind and kind not in (ALONE, OTHER_ERROR):
            break


class Totals:
    def __init__(self) -> None:
        self.programs = self.calls = self.raised = 0
        self.census: Counter = Counter()
        self.found: list[dict[str, Any]] = []
        self.alone: list[dict[str, Any]] = []
        self.other_errors: list[dict[str, Any]] = []


class Batch:
    """Run a process; its output goes to files, because a full pipe would stop it."""

    def __init__(self, first: int, count: int, flags: list[str]) -> None:
        self.first, self.count = first, count
        self.out, self.err = (
            tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") for _ in range(2)
        )
        command = [
            sys.executable,
            str(HERE / "random_run.py"),
            "--worker",
            str(first),
            str(count),
            *flags,
        ]
        self.process = subprocess.Popen(command, stdout=self.out, stderr=self.err)

        tensors = "--tensors" in flags
        self.text_of = lambda seed: (
            (random_tensors if tensors else random_programs).program(seed).text
        )

    def said(self) -> tuple[str, str]:
        self.process.wait()
        for f in (self.out, self.err):
            f.seek(0)
        return self.out.read(), self.err.read()


def read_batch(batch: Batch, totals: Totals) -> int:
    """Returns the last seed it began, or 0 when it ended well."""
    out, err = batch.said()
    process = batch.process
    begun = 0
    for text in out.splitlines():
        if not text.startswith("{"):
            continue
        line = json.loads(text)
        if "seed" in line:
            begun = line["seed"]
            continue
        begun = 0
        totals.programs += 1
        totals.calls += line["calls"]
        totals.raised += line["raised"]
        totals.census.update(line["census"])
        if "kind" in line:
            kinds = {ALONE: totals.alone, OTHER_ERROR: totals.other_errors}
            kinds.get(line["kind"], totals.found).append(line)
    if process.returncode and not begun or re.search(r"^\w+Error\b", err[-300:], re.MULTILINE):
        raise RuntimeError(f"a worker failed: {err[-2000:]}")
    if begun:
        totals.found.append(
            {
                "done": begun,
                "kind": f"the process ended with {process.returncode}",
                "inputs": err[-1500:],
                "answers": [],
                "text": batch.text_of(begun),
            }
        )
    return begun


def run(
    first: int,
    count: int,
    jobs: int = 1,
    use_torch: bool = True,
    until_found: bool = False,
    batch: int = BATCH,
    whole: bool = False,
    tensors: bool = False,
) -> Totals:
    """until_found: the first program that differs ends it.  whole: programs are not made
    smaller."""
    totals = Totals()
    flags = ["--no-torch"] * (not use_torch) + ["--until-found"] * until_found + ["--whole"] * whole
    flags += ["--tensors"] * tensors
    todo = [(i, min(batch, first + count - i)) for i in range(first, first + count, batch)][::-1]
    going: list[Batch] = []
    while todo or going:
        while todo and len(going) < jobs:
            going.append(Batch(*todo.pop(), flags))
        done = going.pop(0)
        stopped, end = read_batch(done, totals), done.first + done.count
        if stopped and end > stopped + 1:
            todo.append((stopped + 1, end - stopped - 1))
        if until_found and totals.found or len(totals.found) > 20:
            for other in going:
                other.process.kill()
            break
    return totals


def report(found: dict[str, Any]) -> str:
    answers = "\n".join(
        f"  {name:10} {a}"
        for name, a in zip(("CPython", "rushlight", "PyTorch"), found["answers"], strict=False)
    )
    return (
        f"seed {found['done']}: {found['kind']}\n{found['text']}\ncalled with "
        f"{found['inputs']}\n{answers}\n"
    )


def census_table(census: Counter) -> str:
    cells = [f"{what:38} {n:>8}" for what, n in sorted(census.items())]
    rows = (len(cells) + 1) // 2
    return "\n".join("   ".join(cells[i::rows]) for i in range(rows))


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        flags = sys.argv[4:]
        if "--tensors" in flags:
            tensor_worker(int(sys.argv[2]), int(sys.argv[3]), "--until-found" in flags)
            return 0
        worker(
            int(sys.argv[2]),
            int(sys.argv[3]),
            "--no-torch" not in flags,
            "--until-found" in flags,
            "--whole" in flags,
        )
        return 0
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--first", type=int, default=1)
    p.add_argument("--today", action="store_true", help="seeds that each day has for itself")
    p.add_argument("--count", type=int, default=500)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--no-torch", action="store_true")
    p.add_argument("--census", action="store_true")
    p.add_argument(
        "--alone", action="store_true", help="print programs where PyTorch stands alone, too"
    )
    p.add_argument("--until-found", action="store_true")
    p.add_argument("--tensors", action="store_true")
    o = p.parse_args()
    if o.today:
        o.first = int(time.time()) // 86400 % 10000 * 100000
    totals = run(
        o.first,
        o.count,
        o.jobs,
        not o.no_torch,
        o.until_found,
        min(BATCH, max(1, o.count // o.jobs)),
        tensors=o.tensors,
    )
    if o.census:
        print(census_table(totals.census))
    for f in totals.found + (totals.alone if o.alone else []):
        print(report(f))
    print(
        f"seeds {o.first}..{o.first + o.count - 1}: {totals.programs} programs, {totals.calls} "
        f"calls, {totals.raised} raised, "
        f"{len(totals.found)} differ, {len(totals.other_errors)} in which of two errors is raised, "
        f"PyTorch alone differs in {len(totals.alone)}"
        f"{' (PyTorch left out)' if o.no_torch or o.tensors else ''}"
    )
    few = max(2, FEW * totals.programs)
    return 1 if totals.found or len(totals.alone) > few or len(totals.other_errors) > few else 0


if __name__ == "__main__":
    sys.exit(main())
