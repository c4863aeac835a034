#!/usr/bin/env python3
"""bench/run.py --build DIR: what Rushlight takes, and what its peers take in the same run where
they are there.

Prints a table and writes DIR/bench.json: a list of {"row", "ours", "peer", "peer_name", "ratio",
"threads", "noise", "aim"}, times in seconds, ratio = peer's time over ours (above 1: we are
faster); `peer` and `ratio` are null without the peer.

Both sides run the same archives with the same inputs, in rounds that take turns (A B A B ...).  A
cell is the median of its rounds, the ratio the median of the rounds' ratios, the noise the worse
half interquartile range of the two.
--clock cpu counts processor time, for machines that others use at the same time (one thread only).
--docs writes the table into docs/performance.md.
--only train measures training steps (bench/train.py), time and memory.
--only ops measures single operators alone (bench/ops.py), --only ops,NAME,NAME some of them.
--peers DIR (../shared/peers) runs the peers' own scripts with our columns instead and prints which
bars are met (bench/bars.py); --only steady,gemm,start,mulchain chooses among them, --docs writes
them down too.  --only frontend: compile times beside torch.jit.script's (bench/front_end.py).
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import bars
import front_end
import models
import train

import ops

TOP = pathlib.Path(__file__).resolve().parent.parent
NETWORKS = (
    "mulchain_1k", "mulchain_1m", "affine_chain", "chain100", "mlp_tiny", "ew_gelu",
    "ew_layernorm", "ew_softmax", "ew_swiglu", "lstm_cell",
    "lstm_64", "conv1d_audio", "unet_small", "mobilenet_v2", "resnet18", "resnet50", "bert4",
    "gpt2_step",
)  # fmt: skip
JIT_START = """
import sys, torch
torch.set_num_threads(int(sys.argv[2]))
m = torch.jit.load(sys.argv[1])
with torch.inference_mode():
    y = m(torch.full((1, 3, 224, 224), 0.5))
print("sum %.4f" % float(y.sum()))
"""
JIT_LOAD = """
import json, statistics, sys, time, warnings
import torch
warnings.simplefilter("ignore")
if sys.argv[1].endswith("2"):
    import torch._export.serde.serialize, torch.fx.experimental.proxy_tensor
    load = torch.export.load
else:
    load = torch.jit.load
torch.set_num_threads(1)
clock = time.process_time if sys.argv[3] == "cpu" else time.perf_counter
times = []
for _ in range(int(sys.argv[2]) + 1):
    begin = clock()
    model = load(sys.argv[1])
    times.append(clock() - begin)
    del model
print(json.dumps({"first": times[0], "again": statistics.median(times[1:])}))
"""


class Table:
    """Prints rows as they are measured and stores them."""

    def __init__(self) -> None:
        self.rows: list[dict] = []
        print(
            f"{'row':<38}{'threads':>8}{'ours':>10}{'peer':>10}{'ratio':>8}{'noise':>7}  peer; aim",
            flush=True,
        )

    def add(
        self,
        row: str,
        ours: list[float],
        peer: list[float],
        peer_name: str,
        threads: int = 1,
        aim: str = "",
    ) -> None:
        mine, other = middle(ours), middle(peer)
        pairs = [p / o for o, p in zip(ours, peer, strict=False)] if ours and peer else []
        one = {
            "row": row, "ours": mine, "peer": other, "peer_name": peer_name if peer else "",
            "ratio": statistics.median(pairs) if pairs else None, "threads": threads,
            "noise": max(noise(ours), noise(peer)), "aim": aim,
        }  # fmt: skip
        self.rows.append(one)
        print(
            f"{row:<38}{threads:>8}{shown(mine):>10}{shown(other):>10}"
            f"{one['ratio'] and round(one['ratio'], 2) or '-':>8}"
            f"{one['noise']:>7.0%}  {one['peer_name']}{'; ' if aim else ''}{aim}",
            flush=True,
        )

    def add_memory(self, row: str, ours: float, peer: float, peer_name: str) -> None:
        """Add a row of bytes."""
        ratio = peer / ours
        self.rows.append(
            {
                "row": row, "ours": None, "peer": None, "peer_name": peer_name, "ratio": ratio,
                "threads": 1, "noise": 0.0, "aim": "ratio 1", "ours_bytes": ours,
                "peer_bytes": peer,
            }
        )  # fmt: skip
        mine, other = (f"{n / 1e6:.3g} MB" for n in (ours, peer))
        print(
            f"{row:<38}{1:>8}{mine:>10}{other:>10}{ratio:>8.2f}{'':>7}  {peer_name}; ratio 1",
            flush=True,
        )

    def fail(self, row: str, why: str) -> None:
        self.rows.append(
            {
                "row": row,
                "ours": None,
                "peer": None,
                "peer_name": "",
                "ratio": None,
                "threads": 1,
                "noise": 0.0,
                "aim": why[:200],
            }
        )
        print(f"{row:<38}{'':>8}  {why[:120]}", flush=True)


def middle(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


def noise(values: list[float]) -> float:
    if len(values) < 3:
        return 0.0
    s = sorted(values)
    q = len(s) // 4
    return (s[-1 - q] - s[q]) / 2 / statistics.median(s)


def shown(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def spawn(command: list[str], clock: str, env: dict[str, str] | None = None) -> tuple[float, str]:
    """Return (seconds, stdout) of a process; processor seconds if clock is 'cpu'."""
    with tempfile.TemporaryFile() as out:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, env=env)
        _, status, use = os.wait4(process.pid, 0)
        took = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{pathlib.Path(command[0]).name} failed")
    return (use.ru_utime + use.ru_stime if clock == "cpu" else took), text


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.o = options
        self.table = Table()
        self.folder = options.build / "bench-models"
        self.bin = options.build / "bench"
        self.has_torch = models.torch is not None
        self.peers = models.peers_models()
        if options.clock == "cpu":
            os.environ["PEERS_CLOCK"] = "cpu"

    def wanted(self, row: str) -> bool:
        return not self.o.only or any(part in row for part in self.o.only.split(","))

    def turns(self, sides: list[Callable[[], float]], rounds: int) -> list[list[float]]:
        """Run each side once, then `rounds` alternating rounds."""
        for side in sides:
            side()
        return [
            list(values)
            for values in zip(*[[side() for side in sides] for _ in range(rounds)], strict=True)
        ]

    def start(self) -> None:
        """Measure the time from process start to the first result."""
        row = "process start to first result, resnet18"
        if self.peers and self.wanted(row):
            path = str(models.archive_of(self.folder, "resnet18"))
            ours = [str(self.bin / "bench_start"), path, "1"]
            theirs = [sys.executable, "-c", JIT_START, path, "1"]
            sums = [re.search(r"sum (\S+)", spawn(c, "wall")[1]) for c in (ours, theirs)]
            if not all(sums) or abs(float(sums[0][1]) - float(sums[1][1])) > 0.01:
                return self.table.fail(row, f"different answers: {sums}")
            mine, peer = self.turns(
                [lambda: spawn(ours, self.o.clock)[0], lambda: spawn(theirs, self.o.clock)[0]],
                self.o.rounds,
            )
            self.table.add(row, mine, peer, "Python, torch.jit.load", aim="ratio 10")
        row = "process start to first result, digits"
        if self.wanted(row):
            digits = str(TOP / "tests" / "data" / "digits.pt")
            command = [str(self.o.build / "cli" / "rushlight"), "run", digits, "zeros(1,1,8,8)"]
            (mine,) = self.turns([lambda: spawn(command, self.o.clock)[0]], self.o.rounds)
            self.table.add(row, mine, [], "")
        self.importing()
        return None

    def importing(self) -> None:
        """Measure what `import rushlight` adds to an empty Python: 20 warm pairs of processes, for
        any --rounds."""
        row = "import rushlight over an empty Python"
        if not self.wanted(row):
            return
        path = {**os.environ, "PYTHONPATH": str(self.o.build / "python")}
        sides = [[sys.executable, "-c", code] for code in ("import rushlight", "pass")]
        try:
            ours, empty = self.turns(
                [lambda c=c: spawn(c, self.o.clock, path)[0] for c in sides], 20
            )
        except RuntimeError as error:
            return self.table.fail(row, f"{error}: is the Python module built?")
        self.table.add(
            row,
            [max(a - b, 1e-9) for a, b in zip(ours, empty, strict=True)],
            [],
            "",
            aim="at most 10 ms",
        )

    def load_one(self, row: str, path: pathlib.Path, aim: str, peer_name: str) -> None:
        ours, theirs = [], []
        for _ in range(self.o.rounds):
            ours.append(
                json.loads(spawn([str(self.bin / "bench_load"), str(path), "5"], "wall")[1])
            )
            if self.has_torch:
                command = [sys.executable, "-c", JIT_LOAD, str(path), "3", self.o.clock]
                theirs.append(json.loads(spawn(command, "wall")[1]))
        for which in ("first", "again"):
            self.table.add(
                f"load {row}, {which}",
                [x[which] for x in ours],
                [x[which] for x in theirs],
                peer_name,
                aim=aim,
            )

    def load(self) -> None:
        if self.peers and self.wanted("load resnet50"):
            self.load_one(
                "resnet50, 102 MB",
                models.archive_of(self.folder, "resnet50"),
                "10 ms",
                "torch.jit.load",
            )
        corpus = pathlib.Path(os.environ.get("RUSHLIGHT_CORPUS", self.o.build / "corpus"))
        resamplers = corpus / "vision" / "resamplers.core" / "model.pt2"
        if self.wanted("load resamplers.core"):
            if resamplers.exists():
                self.load_one("resamplers.core", resamplers, "3 ms", "torch.export.load")
            else:
                self.table.fail(
                    "load resamplers.core", "no corpus in the build folder: `make test` makes it"
                )

    def overhead(self) -> None:
        if not self.has_torch or not self.wanted("overhead"):
            return
        path = models.overhead_archive(self.folder)
        ours: dict[str, list[float]] = {}
        jit: dict[str, list[float]] = {}
        lua: dict[str, list[float]] = {}
        script = self.folder / "overhead.lua"
        script.write_text(models.LUA)
        for _ in range(max(3, self.o.rounds // 2)):
            gather(ours, spawn([str(self.bin / "bench_overhead"), str(path)], "wall")[1])
            gather(jit, json_lines(jit_overhead(path, self.o.clock)))
            try:
                gather(lua, spawn(["lua5.4", str(script)], "wall")[1])
            except (OSError, RuntimeError):
                pass
        what = {
            "empty": "an empty call from C", "op8": "a + b of 8 floats from C",
            "add1": "a call that adds 1 element",
            "sumint": "s = s + i, an iteration", "listloop": "append and sum, an element",
            "addloop": "a tensor add in a loop",
            "chain100": "an operator of 8 elements in a method",
        }  # fmt: skip
        aims = {"empty": "200 ns", "op8": "100 ns", "sumint": "ratio 8"}
        for key, name in what.items():
            self.table.add(
                name,
                ours.get(key, []),
                jit.get(key, []),
                "TorchScript from Python",
                aim=aims.get(key, ""),
            )
        for key in ("sumint", "listloop"):
            self.table.add(
                what[key],
                ours.get(key, []),
                lua.get(key, []),
                "Lua 5.4",
                aim="ratio 0.83" if key == "sumint" else "",
            )

    def networks(self) -> None:
        if not self.peers:
            return
        for threads in self.o.threads:
            for name in NETWORKS:
                if not self.wanted(name):
                    continue
                path = models.archive_of(self.folder, name)
                command = [
                    sys.executable,
                    __file__,
                    "--child",
                    name,
                    "--threads",
                    str(threads),
                    "--clock",
                    self.o.clock,
                    "--rounds",
                    str(self.o.rounds),
                    "--build",
                    str(self.o.build),
                ]
                env = dict(
                    os.environ,
                    OMP_NUM_THREADS=str(threads),
                    MKL_NUM_THREADS=str(threads),
                    CHILD_MODEL=str(path),
                )
                run = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
                if run.returncode:
                    self.table.fail(name, (run.stderr.strip().splitlines() or ["?"])[-1])
                    continue
                got = json.loads(run.stdout.splitlines()[-1])
                self.table.add(
                    name, got["ours"], got["theirs"], "torch, eager", threads, aim="ratio 0.33"
                )

    def training(self) -> None:
        """Steps of training, in one thread."""
        if self.peers and self.has_torch:
            train.run(self.o, self.table, self.wanted)


def gather(into: dict[str, list[float]], text: str) -> None:
    for line in text.splitlines():
        if len(line.split()) == 2:
            into.setdefault(line.split()[0], []).append(float(line.split()[1]))


def json_lines(rows: dict[str, float]) -> str:
    return "\n".join(f"{key} {value}" for key, value in rows.items())


def jit_overhead(path: pathlib.Path, clock_name: str) -> dict[str, float]:
    """Measure the same rows in TorchScript, called from Python as its users do."""
    torch = models.torch
    torch.set_num_threads(1)
    clock = time.process_time if clock_name == "cpu" else time.perf_counter
    module = torch.jit.load(str(path))
    x, y, x8, y8 = torch.ones(1), torch.ones(1), torch.ones(8), torch.full((8,), 0.1)
    rows = {
        "empty": (lambda: module.empty(x), 2000, 1), "op8": (lambda: torch.add(x8, y8), 2000, 1),
        "add1": (lambda: module.add1(x, y), 2000, 1), "sumint": (lambda: module.sumint(1000000), 1,
                                                                 1e6),
        "listloop": (lambda: module.listloop(100000), 1, 1e5),
        "addloop": (lambda: module.addloop(x, y, 100000), 1, 1e5),
        "chain100": (lambda: module.chain100(x8, y8), 50, 100),
    }  # fmt: skip
    out = {}
    with torch.inference_mode():
        for name, (call, n, units) in rows.items():
            best = 1e9
            for _ in range(5):
                begin = clock()
                for _ in range(n):
                    call()
                best = min(best, (clock() - begin) / n)
            out[name] = best / units
    return out


def child(options: argparse.Namespace) -> None:
    """Measure one network, eager and ours alternately, in this process."""
    os.environ["RUSH_BUILD_DIR"] = str(options.build)
    import peers_column
    import torch

    threads = options.threads[0]
    torch.set_num_threads(threads)
    clock = time.process_time if options.clock == "cpu" and threads == 1 else time.perf_counter
    model, args = models.network(options.child)
    column = peers_column.Column(os.environ["CHILD_MODEL"], args, threads)

    def eager(n: int) -> None:
        for _ in range(n):
            model(*args)

    with torch.inference_mode():
        want = model(*args)
        column.times(1)
        for w, g in zip(
            want if isinstance(want, tuple) else (want,), column.results(), strict=False
        ):
            if not torch.allclose(w, g, rtol=2e-2, atol=2e-3 * (1 + float(w.abs().max()))):
                raise SystemExit("the answers differ")
        times: dict[str, list[float]] = {"ours": [], "theirs": []}
        sides = {"ours": column.times, "theirs": eager}
        counts = {}
        for key, side in sides.items():
            side(3)
            begin = time.perf_counter()
            side(2)
            counts[key] = max(
                1, min(100000, int(0.1 / max((time.perf_counter() - begin) / 2, 1e-9)))
            )
        for _ in range(options.rounds):
            for key, side in sides.items():
                time.sleep(0.002)  # the other's workers stop spinning
                side(1)
                begin = clock()
                side(counts[key])
                times[key].append((clock() - begin) / counts[key])
    print(json.dumps(times))


def machine() -> str:
    """Describe the machine."""
    info = pathlib.Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    found = re.search(r"model name\s*: (.*)", text)
    torch = f", torch {models.torch.__version__}" if models.torch is not None else ", no torch"
    return (
        f"{found[1] if found else 'a processor'}, {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f}{torch}"
    )


def write_docs(rows: list[dict], clock: str) -> None:
    path = TOP / "docs" / "performance.md"
    head, tail = (
        path.read_text().split("<!-- table -->", 1)[0],
        path.read_text().split("<!-- end -->", 1)[1],
    )
    what = "processor time" if clock == "cpu" else "time on the wall"
    lines = [
        f"{time.strftime('%Y-%m-%d')}, {machine()}; {what}.",
        "",
        "| row | threads | ours | peer | ratio | noise | peer is | aim |",
        "|" + " --- |" * 8,
    ]
    for r in rows:
        ratio = f"{r['ratio']:.2f}" if r["ratio"] else "-"
        lines.append(
            f"| {r['row']} | {r['threads']} | {shown(r['ours'])} | {shown(r['peer'])} | {ratio} | "
            f"{r['noise']:.0%} | "
            f"{r['peer_name']} | {r['aim']} |"
        )
    path.write_text(head + "<!-- table -->\n" + "\n".join(lines) + "\n<!-- end -->" + tail)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=lambda p: pathlib.Path(p).resolve(), default=TOP / "build")
    parser.add_argument("--threads", type=lambda s: [int(n) for n in s.split(",")], default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument(
        "--only", default="", help="rows whose name has one of these parts, comma separated"
    )
    parser.add_argument(
        "--docs", action="store_true", help="write the table into docs/performance.md"
    )
    parser.add_argument(
        "--peers", type=pathlib.Path, help="the folder of the peers' scripts: print the bars"
    )
    parser.add_argument("--quick", action="store_true", help="ops: shorter and fewer rounds")
    parser.add_argument("--dtypes", default="float32,bfloat16,int64", help="ops: which")
    parser.add_argument("--sizes", default="8,4Ki,1Mi,layer", help="ops: which")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    if options.peers:
        head = f"{time.strftime('%Y-%m-%d %H:%M')}, {machine()}, clock: {options.clock}."
        print(f"# {head}")
        if options.only == "frontend":
            os.environ["PEERS_CLOCK"] = options.clock
            os.environ["PYTHONPATH"] = os.pathsep.join(
                [str(options.build / "python"), os.environ.get("PYTHONPATH", "")]
            )
            return sys.exit(0 if front_end.run(options.peers.resolve(), options.rounds) else 1)
        cpu = options.clock == "cpu"
        all_bars = bars.Bars(
            options.peers.resolve(),
            options.build,
            options.threads,
            options.rounds,
            cpu,
            options.only,
        )
        met = bars.run(all_bars)
        if options.docs:
            all_bars.document(TOP / "docs" / "performance.md", head)
        return sys.exit(0 if met else 1)
    bench = Bench(options)
    if not bench.has_torch or not bench.peers:
        print("no torch or no ../shared/peers here: only what needs neither is measured")
    print(f"# {time.strftime('%Y-%m-%d %H:%M')}, {machine()}, clock: {options.clock}")
    met = True
    only_ops = "ops" in options.only.split(",")
    if not only_ops:
        for part in (bench.start, bench.load, bench.overhead, bench.networks, bench.training):
            part()
    rows = bench.table.rows
    if bench.has_torch and (only_ops or not options.only):
        head = f"{time.strftime('%Y-%m-%d')}, {machine()}; clock: {options.clock}."
        operators = ops.Ops(options)
        met = operators.run(shown)
        same = {"peer_name": "torch, eager", "aim": ""}
        rows = rows + [{"row": ops.row_name(r)} | same | r for r in operators.rows]
        if options.docs:
            operators.document(TOP / "docs" / "performance.md", head, shown)
    out = options.build / "bench.json"
    out.write_text(json.dumps(rows, indent=1) + "\n")
    if options.docs and bench.table.rows:
        write_docs(bench.table.rows, options.clock)
    print(f"written: {out.name} in the build folder")
    return sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
