"""The part `ops` of `make bench`: single operators (op_cases.py) against eager PyTorch under
inference_mode in the same run.

Ours is rush_op_run with complete arguments, in a loop in C (bench/op_column.c); PyTorch's is the
line that a user writes, in a loop in Python. Both work on the same memory, in alternating rounds.
Results are compared first. A row is an operator, a dtype, a size and a number of threads. Bars: the
geometric mean by size and threads, and the rows under 0.4, which must be listed with their reasons
in slow_ops.txt; listed rows that are faster now must be removed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

BARS = {"8": 2.0, "4Ki": 1.2, "1Mi": 0.9}
SLOW, MOST_SLOW, MARGIN = 0.4, 10, 1.25
SLOW_OPS = pathlib.Path(__file__).with_name("slow_ops.txt")
NOISY, RERUNS = 0.10, 2
FLOAT, INT, BOOL, NONE = 4, 3, 2, 0  # rush_tag
NUMBERS = {  # rush_dtype
    "uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6,
    "float64": 7, "complex64": 9, "complex128": 10, "bool": 11, "bfloat16": 15,
}  # fmt: skip
Row = dict[str, Any]


class Operator:
    """One operator with its arguments on our side."""

    def __init__(self, lib: Any, name: str, args: list, kwargs: dict, threads: int) -> None:
        import torch

        base, _, overload = name.removeprefix("aten::").partition(".")
        schema = getattr(getattr(torch.ops.aten, base), overload or "default")._schema
        self.lib, self.n_results = lib, len(schema.returns)
        self.me = lib.op_column_open(name.encode(), self.n_results, threads)
        self.kept: list[Any] = []
        self.check(-1 if lib.op_column_why(self.me) else 0)
        for i, a in enumerate(schema.arguments):
            value = args[i] if i < len(args) else kwargs.get(a.name, a.default_value)
            self.push(value, "float" in str(a.type))

    def check(self, status: int) -> None:
        if status:
            raise RuntimeError(self.lib.op_column_why(self.me).decode() or "too many arguments")

    def push(self, value: Any, as_float: bool) -> None:
        import torch

        lib = self.lib
        if isinstance(value, torch.Tensor):
            self.kept.append(value)
            sizes, strides = (
                (ctypes.c_int64 * max(value.dim(), 1))(*v) for v in (value.shape, value.stride())
            )
            number = NUMBERS[str(value.dtype).removeprefix("torch.")]
            self.check(
                lib.op_column_tensor(self.me, number, value.dim(), sizes, strides, value.data_ptr())
            )
        elif isinstance(value, (list, tuple)):
            for v in value:
                self.push(v, as_float)
            self.check(lib.op_column_list(self.me, len(value)))
        elif isinstance(value, str):
            self.check(lib.op_column_text(self.me, value.encode(), len(value)))
        elif value is None:
            self.check(lib.op_column_value(self.me, NONE, 0, 0.0))
        elif isinstance(value, bool):
            self.check(lib.op_column_value(self.me, BOOL, int(value), 0.0))
        elif isinstance(value, torch.dtype):
            self.check(
                lib.op_column_value(self.me, INT, NUMBERS[str(value).removeprefix("torch.")], 0.0)
            )
        elif isinstance(value, torch.memory_format):
            self.check(
                lib.op_column_value(self.me, INT, 0 if value == torch.contiguous_format else 1, 0.0)
            )
        elif isinstance(value, float) or as_float:
            self.check(lib.op_column_value(self.me, FLOAT, 0, float(value)))
        else:
            self.check(lib.op_column_value(self.me, INT, int(value), 0.0))

    def times(self, n: int) -> None:
        self.check(self.lib.op_column_call(self.me, n))

    def first_result(self) -> Any:
        import torch

        dtype, n_dims, sizes = ctypes.c_int(), ctypes.c_int(), ctypes.POINTER(ctypes.c_int64)()
        data = self.lib.op_column_result(
            self.me, 0, ctypes.byref(dtype), ctypes.byref(n_dims), ctypes.byref(sizes)
        )
        if not data:
            return None
        kind = getattr(torch, next(k for k, v in NUMBERS.items() if v == dtype.value))
        shape = [sizes[i] for i in range(n_dims.value)]
        count = math.prod(shape) * torch.empty(0, dtype=kind).element_size()
        if not count:
            return torch.empty(shape, dtype=kind)
        return (
            torch.frombuffer((ctypes.c_char * count).from_address(data), dtype=kind)
            .reshape(shape)
            .clone()
        )

    def close(self) -> None:
        self.lib.op_column_close(self.me)


def open_library(build: pathlib.Path) -> Any:
    lib = ctypes.CDLL(str(build / "bench" / "libbench_ops.so"))
    lib.op_column_open.restype = ctypes.c_void_p
    lib.op_column_open.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
    lib.op_column_why.restype = ctypes.c_char_p
    lib.op_column_result.restype = ctypes.c_void_p
    void, whole = ctypes.c_void_p, ctypes.c_int64
    for name, args in {
        "why": [], "close": [], "tensor": [ctypes.c_int, ctypes.c_int, void, void, void],
        "list": [ctypes.c_int],
        "value": [ctypes.c_int, whole, ctypes.c_double], "text": [ctypes.c_char_p, whole],
        "call": [whole], "result": [ctypes.c_int, void, void, void],
    }.items():  # fmt: skip
        getattr(lib, f"op_column_{name}").argtypes = [void, *args]
    return lib


# -- In a process of its own: one number of threads
# -------------------------------------------------------------------


def differs(ours: Any, theirs: Any) -> bool:
    import torch

    while isinstance(theirs, (list, tuple)):
        theirs = theirs[0]
    if not isinstance(theirs, torch.Tensor) or ours is None:
        return False
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return True
    half = theirs.dtype in (torch.bfloat16, torch.float16)
    rtol = 5e-2 if half else 2e-3
    if not (theirs.dtype.is_floating_point or theirs.dtype.is_complex):
        return not torch.equal(ours, theirs)
    wide = theirs.float() if half else theirs
    scale = float(wide.abs().nan_to_num(0, 0, 0).max()) if wide.numel() else 0.0
    return not torch.allclose(
        ours.float() if half else ours, wide, rtol=rtol, atol=rtol * scale + 1e-6, equal_nan=True
    )


def noise(values: list[float]) -> float:
    s = sorted(values)
    q = len(s) // 4
    return (s[-1 - q] - s[q]) / 2 / statistics.median(s)


def loop_over(call: str, names: dict[str, Any]) -> Callable[[int], None]:
    """Return a function of n that does `call` n times, its names local as in a user's function."""
    used = [n for n in names if n in compile(call, "case", "eval").co_names]
    text = (
        f"def loop(n_calls, {', '.join(f'{n}={n}' for n in used)}):\n for _ in "
        f"range(n_calls):\n  {call}\n"
    )
    space = dict(names)
    exec(text, space)  # noqa: S102  (the text is a line of op_cases.py)
    return space["loop"]


def measure(
    sides: list[Callable[[int], None]],
    clock: Callable[[], float],
    rounds: int,
    block: float,
    pause: float,
) -> Any:
    """Return the times of each side by round, in seconds per call."""
    counts = []
    for side in sides:
        begin = time.perf_counter()
        side(1)
        once = time.perf_counter() - begin
        if once < block:
            n = max(2, min(1000, int(block / 4 / max(once, 1e-8))))
            begin = time.perf_counter()
            side(n)
            once = (time.perf_counter() - begin) / n
        counts.append(max(1, min(1_000_000, int(block / max(once, 1e-9)))))
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for i, side in enumerate(sides):
            if pause:
                time.sleep(pause)  # the other's workers stop spinning
                side(1)
            begin = clock()
            side(counts[i])
            times[i].append((clock() - begin) / counts[i])
    return times


class Child:
    """Measures all rows of some dtypes with one number of threads; prints one JSON object per
    line."""

    def __init__(
        self, build: pathlib.Path, threads: int, clock: str, rounds: int, block: float
    ) -> None:
        import torch
        import torch.nn.functional as functional

        warnings.simplefilter("ignore")
        torch.set_num_threads(threads)
        self.lib, self.threads, self.rounds, self.block = (
            open_library(build),
            threads,
            rounds,
            block,
        )
        self.clock = time.process_time if clock == "cpu" and threads == 1 else time.perf_counter
        self.common = {"torch": torch, "F": functional}

    def row(self, case: Any, dtype: str, size: str, names: dict[str, Any]) -> Row:
        import torch

        out: Row = {"op": case.name, "dtype": dtype, "size": size, "threads": self.threads}
        space = {**self.common, **names}
        torch.manual_seed(0)
        args, kwargs = eval(f"(lambda *a, **k: (list(a), k))({case.args})", space)  # noqa: S307
        if size == "layer":
            names = {"call": eval(case.theirs, space), "a": args, "k": kwargs}  # noqa: S307
            call = "call(*a, **k)"
        else:
            call = case.theirs
        try:
            want = eval(call, {**self.common, **names})  # noqa: S307
        except (RuntimeError, NotImplementedError, IndexError) as e:
            return out | {"why": "PyTorch: " + str(e).splitlines()[0][:100], "skip": True}
        want = want.clone() if isinstance(want, torch.Tensor) else want
        try:
            ours = Operator(self.lib, case.op, args, kwargs, self.threads)
            ours.times(3)  # a weight is packed at its second use
        except RuntimeError as e:
            return out | {"why": str(e)[:200]}
        if case.compare and "in place" not in case.name and differs(ours.first_result(), want):
            out["why"] = "the answers differ"
        theirs = loop_over(call, {**self.common, **names})
        times: Any = ()
        for _ in range(RERUNS + 1):
            again = measure(
                [ours.times, theirs],
                self.clock,
                self.rounds,
                self.block,
                0.002 if self.threads > 1 else 0,
            )
            if not times or max(map(noise, again)) < max(map(noise, times)):
                times = again
            if max(map(noise, times)) < NOISY:
                break
        ours.close()
        pairs = [p / o for o, p in zip(*times, strict=True)]
        mine, peer = (statistics.median(t) for t in times)
        return out | {
            "ours": mine,
            "peer": peer,
            "ratio": statistics.median(pairs),
            "noise": max(map(noise, times)),
        }

    def run(self, dtypes: list[str], sizes: list[str], only: list[str]) -> None:
        import op_cases
        import torch

        for dtype in dtypes:
            for size in sizes:
                layers = size == "layer"
                kind = op_cases.DTYPES[dtype]
                torch.manual_seed(1)
                names = (
                    op_cases.layer_inputs(kind)
                    if layers
                    else op_cases.inputs(op_cases.SIZES[size], kind)
                )
                for case in op_cases.cases(op_cases.LAYERS if layers else op_cases.SIZED):
                    if dtype in case.dtypes and (
                        not only or case.name in only or case.op.split("::")[1] in only
                    ):
                        print(json.dumps(self.row(case, dtype, size, names)), flush=True)


# -- The table
# --------------------------------------------------------------------------------------------------


def row_name(r: Row) -> str:
    return f"{r['op']}, {r['dtype']}, {r['size']}, {r['threads']} thread{'s' * (r['threads'] > 1)}"


def slow_list() -> dict[str, str]:
    """Return a dict from row name to reason."""
    lines = SLOW_OPS.read_text().splitlines() if SLOW_OPS.exists() else []
    pairs = (line.split("|", 1) for line in lines if line.strip() and not line.startswith("#"))
    return {name.strip(): reason.strip() for name, reason in pairs}


def mean(rows: list[Row]) -> float:
    return math.exp(statistics.fmean(math.log(r["ratio"]) for r in rows)) if rows else math.nan


class Ops:
    """Runs the children and checks the bars."""

    def __init__(self, o: argparse.Namespace) -> None:
        self.o = o
        self.rows: list[Row] = []
        self.bars: list[tuple[str, float, float, bool]] = []

    def run(self, shown: Callable[[float | None], str]) -> bool:
        words = [w for w in self.o.only.split(",") if w and w != "ops"]
        print(
            f"{'operator':<40}{'dtype':>9}{'size':>6}{'thr':>4}{'ours':>10}{'torch':>10}"
            f"{'ratio':>8}{'noise':>7}",
            flush=True,
        )
        for threads in self.o.threads:
            env = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
            child = [
                sys.executable,
                __file__,
                json.dumps(
                    [
                        str(self.o.build),
                        threads,
                        self.o.clock,
                        3 if self.o.quick else 5,
                        0.002 if self.o.quick else 0.003,
                        self.o.dtypes.split(","),
                        self.o.sizes.split(","),
                        words,
                    ]
                ),
            ]
            with subprocess.Popen(child, stdout=subprocess.PIPE, text=True, env=env) as process:
                for line in process.stdout or ():
                    row = json.loads(line)
                    if not row.get("skip"):
                        self.rows.append(row)
                        self.show(row, shown)
            if process.returncode:
                print(
                    f"{threads} thread(s): the process ended with {process.returncode}", flush=True
                )
        self.judge(whole=not words)
        for what, got, least, met in self.bars:
            print(f"{what:<64}{got:>8.2f}{least:>8.2f}  {'met' if met else 'NOT MET'}")
        return all(met for *_, met in self.bars)

    def show(self, r: Row, shown: Callable[[float | None], str]) -> None:
        cells = f"{r['op']:<40}{r['dtype']:>9}{r['size']:>6}{r['threads']:>4}"
        if "ratio" not in r:
            return print(f"{cells}  {r['why']}", flush=True)
        print(
            f"{cells}{shown(r['ours']):>10}{shown(r['peer']):>10}{r['ratio']:>8.2f}"
            f"{r['noise']:>7.0%}  {r.get('why', '')}",
            flush=True,
        )
        return None

    def judge(self, whole: bool) -> None:
        rows = [r for r in self.rows if "ratio" in r]
        for size, least in BARS.items():
            for threads in self.o.threads:
                of = [r for r in rows if r["size"] == size and r["threads"] == threads]
                if of:
                    got = mean(of)
                    self.bars.append(
                        (
                            f"operators, {size}, {threads} thread(s), geometric mean",
                            got,
                            least,
                            got >= least,
                        )
                    )
        slow = {row_name(r): r for r in rows if r["ratio"] < SLOW}
        listed = slow_list()
        for name, r in slow.items():
            print(
                f"under {SLOW}: {name}: {r['ratio']:.2f}; "
                f"{listed.get(name, 'NOT LISTED in slow_ops.txt')}"
            )
        fast = [row_name(r) for r in rows if row_name(r) in listed and r["ratio"] > SLOW * MARGIN]
        for name in fast:
            print(f"{name} is faster than {SLOW} now: take it out of slow_ops.txt")
        new = sum(name not in listed for name in slow)
        if whole:
            self.bars.append(
                (f"operators, rows under {SLOW} that are not listed: {new}", -new, 0, not new)
            )
            self.bars.append(
                (f"operators, rows listed that are not slow: {len(fast)}", -len(fast), 0, not fast)
            )
            self.bars.append(
                (
                    f"operators, rows listed: {len(listed)}",
                    -len(listed),
                    -MOST_SLOW,
                    len(listed) <= MOST_SLOW,
                )
            )
        broken = [r for r in self.rows if r.get("why")]
        self.bars.append(
            (f"operators, rows that failed or differ: {len(broken)}", -len(broken), 0, not broken)
        )

    def document(self, path: pathlib.Path, head: str, shown: Callable[[float | None], str]) -> None:
        """Write means, slow rows, and a line of ratios per operator into docs/performance.md."""
        rows = [r for r in self.rows if "ratio" in r]
        lines = [head, "", "| geometric mean | rows | ratio | at least |", "|" + " --- |" * 4]
        for dtype in ("all", *self.o.dtypes.split(",")):
            for size in self.o.sizes.split(","):
                for threads in self.o.threads:
                    of = [
                        r
                        for r in rows
                        if r["size"] == size
                        and r["threads"] == threads
                        and dtype in ("all", r["dtype"])
                    ]
                    least = f"{BARS[size]:.1f}" if dtype == "all" and size in BARS else ""
                    if of:
                        what = f"{dtype}, {size}, {threads} thread{'s' * (threads > 1)}"
                        lines.append(f"| {what} | {len(of)} | {mean(of):.2f} | {least} |")
        listed = slow_list()
        lines += ["", f"| row under {SLOW} | ours | PyTorch | ratio | reason |", "|" + " --- |" * 5]
        for r in sorted((r for r in rows if r["ratio"] < SLOW), key=lambda r: r["ratio"]):
            reason = listed.get(row_name(r), "not listed")
            lines.append(
                f"| {row_name(r)} | {shown(r['ours'])} | {shown(r['peer'])} | {r['ratio']:.2f} | "
                f"{reason} |"
            )
        for title, layers in (("operator", False), ("layer", True)):
            found = {
                (r["dtype"], r["size"], r["threads"])
                for r in rows
                if (r["size"] == "layer") == layers
            }
            columns = sorted(
                found, key=lambda c: (list(NUMBERS).index(c[0]), [*BARS, "layer"].index(c[1]), c[2])
            )
            cells = {(r["op"], r["dtype"], r["size"], r["threads"]): r["ratio"] for r in rows}
            names = list(dict.fromkeys(r["op"] for r in rows if (r["size"] == "layer") == layers))
            if not names:
                continue
            titles = [f"{d} {'' if layers else s + ' '}{t}t" for d, s, t in columns]
            lines += [
                "",
                f"| {title} | " + " | ".join(titles) + " |",
                "|" + " --- |" * (len(columns) + 1),
            ]
            for name in names:
                ratios = (cells.get((name, *c)) for c in columns)
                lines.append(
                    f"| {name} | " + " | ".join(f"{v:.2f}" if v else "-" for v in ratios) + " |"
                )
        before, rest = path.read_text().split("<!-- ops -->", 1)
        after = rest.split("<!-- end ops -->", 1)[1]
        path.write_text(before + "<!-- ops -->\n" + "\n".join(lines) + "\n<!-- end ops -->" + after)


if __name__ == "__main__":
    folder, n_threads, clock_name, n_rounds, block_s, all_dtypes, all_sizes, chosen = json.loads(
        sys.argv[1]
    )
    with __import__("torch").inference_mode():
        Child(pathlib.Path(folder), n_threads, clock_name, n_rounds, block_s).run(
            all_dtypes, all_sizes, chosen
        )
