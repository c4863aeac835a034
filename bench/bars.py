"""The bars of docs/performance.md against the peers' own scripts: bench/run.py --peers DIR.

Runs ../shared/peers' t1, t2, t6 and t7 with our columns (bench/peers_column.py) and prints every
row, geometric means by class, and for each bar whether it is met.  A row whose noise is above 10 %
is run again, at most 3 times; the quietest run counts.  Rows are written to BUILD/bars.json.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable

PARTS = ("steady", "gemm", "start", "mulchain")
NOISY, RERUNS = 0.10, 3
CLASSES = {  # rows of t2 by what bounds them: (rows, bar of the geometric mean)
    "overhead": (("mulchain_1k", "chain100", "mlp_tiny"), 8.0),
    "bandwidth": (("mulchain_1m", "ew_gelu", "ew_layernorm", "ew_softmax", "ew_swiglu"), 1.0),
    "arithmetic": (
        (
            "lstm_cell",
            "lstm_64",
            "conv1d_audio",
            "unet_small",
            "mobilenet_v2",
            "resnet18",
            "resnet50",
            "bert4",
            "gpt2_step",
        ),
        1.2,
    ),
}
LEAST_STEADY, LEAST_PYTHON = 0.8, 4.0
GEMM_MEAN, GEMM_LEAST = {1: 1.0, 2: 0.95}, 0.7
DTYPES = ("fp32", "bf16")
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclasses.dataclass
class Row:
    name: str
    threads: int
    ours: float
    peer: float
    peer_name: str
    ratio: float
    noise: float
    python: float | None = None  # the Python module's ratio


@dataclasses.dataclass
class Bars:
    """Runs the scripts and collects their results."""

    peers: pathlib.Path
    build: pathlib.Path
    threads: list[int]
    rounds: int
    cpu: bool
    only: str
    rows: list[Row] = dataclasses.field(default_factory=list)
    bars: list[tuple[str, float, float, bool]] = dataclasses.field(default_factory=list)

    def wanted(self, part: str) -> bool:
        """True if a part or a row was requested. Names of parts choose parts, anything else
        rows."""
        words = [w for w in self.only.split(",") if w]
        if part in PARTS:
            return not any(w in PARTS for w in words) or part in words
        rows = [w for w in words if w not in PARTS]
        return not rows or any(w in part for w in rows)

    def script(self, name: str, *args: str, extra: bool = True, threads: int = 0) -> str:
        env = dict(os.environ, RUSH_BUILD_DIR=str(self.build))
        if extra:
            env["PEERS_EXTRA"] = str(pathlib.Path(__file__).with_name("peers_column.py"))
        if threads:
            env |= {f"{lib}_NUM_THREADS": str(threads) for lib in ("OMP", "MKL", "OPENBLAS")}
        if self.cpu:
            env["PEERS_CLOCK"] = "cpu"
        command = [sys.executable, str(self.peers / name), *args]
        run = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
        if run.returncode:
            print(
                f"{name} failed: {(run.stderr.strip().splitlines() or ['?'])[-1][:300]}", flush=True
            )
        return run.stdout

    def ratio(
        self, peer: list[float], ours: list[float], threads: int
    ) -> tuple[float, float, float]:
        """Return (peer, ours, ratio) as the scripts compute them from rounds: medians, or minima on
        a shared machine."""
        if self.cpu and threads != 1:
            return min(peer), min(ours), min(peer) / min(ours)
        return (
            statistics.median(peer), statistics.median(ours),
            statistics.median(p / o for p, o in zip(peer, ours, strict=True)),
        )  # fmt: skip

    def show(self, row: Row) -> None:
        python = f"{row.python:>9.2f}" if row.python else f"{'':>9}"
        print(
            f"{row.name:<28}{row.threads:>8}{shown(row.ours):>10}{shown(row.peer):>10}"
            f"{row.ratio:>8.2f}{python}{row.noise:>7.0%}"
            f"  {row.peer_name}",
            flush=True,
        )

    def keep(self, rows: list[Row]) -> None:
        for row in rows:
            self.show(row)
        self.rows += rows

    def bar(self, what: str, got: float | None, least: float) -> None:
        met = got is not None and got >= least
        self.bars.append((what, got if got is not None else math.nan, least, met))

    def mean(self, what: str, rows: list[Row], least: float) -> None:
        self.bar(
            what,
            math.exp(statistics.fmean(math.log(r.ratio) for r in rows)) if rows else None,
            least,
        )

    # -- Parts
    # --------------------------------------------------------------------------------------

    def quietest(self, run: Callable[[], list[Row]]) -> list[Row]:
        """Return the rows of a run, with noisy ones replaced by quieter ones of further runs."""
        best = run()
        for _ in range(RERUNS):
            if all(r.noise <= NOISY for r in best):
                break
            again = {r.name: r for r in run()}
            best = [min(r, again.get(r.name, r), key=lambda x: x.noise) for r in best]
        return best

    def steady(self) -> None:
        """t2: against eager."""
        for threads in self.threads:
            found: dict[str, Row] = {}
            for name in (n for rows, _ in CLASSES.values() for n in rows if self.wanted(n)):
                rows = self.quietest(
                    lambda name=name, threads=threads: self.steady_row(name, threads)
                )
                self.keep(rows)
                found |= {r.name: r for r in rows}
            for kind, (names, least) in CLASSES.items():
                rows = [found[n] for n in names if n in found]
                if rows:
                    self.mean(f"steady, {kind}, {threads} thread(s), geometric mean", rows, least)
                python = [r for r in rows if r.python]
                if kind == "overhead" and python:
                    worst = min(r.python or 0.0 for r in python)
                    self.bar(
                        f"steady, {kind}, {threads} thread(s), Python module, worst row",
                        worst,
                        LEAST_PYTHON,
                    )
            if found:
                self.bar(
                    f"steady, {threads} thread(s), worst row",
                    min(r.ratio for r in found.values()),
                    LEAST_STEADY,
                )

    def steady_row(self, name: str, threads: int) -> list[Row]:
        args = ["-child", name, str(threads), str(self.rounds), "0.1", "eager"]
        out = self.script("t2_steady.py", *args, threads=threads)
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        if not lines or "rushlight" not in lines[-1]["xs"] or lines[-1]["why"]:
            print(f"{name}: no result, {lines[-1]['why'] if lines else ''}", flush=True)
            return []
        xs = lines[-1]["xs"]
        peer, ours, ratio = self.ratio(xs["eager"], xs["rushlight"], threads)
        python = (
            self.ratio(xs["eager"], xs["rushlight_py"], threads)[2]
            if "rushlight_py" in xs
            else None
        )
        return [
            Row(name, threads, ours, peer, "eager", ratio, max(map(noise, xs.values())), python)
        ]

    def gemm(self) -> None:
        """t6: against the best peer of each row."""
        for threads in self.threads:
            for dtype in DTYPES:
                if any(d in self.only.split(",") for d in DTYPES) and not self.wanted(dtype):
                    continue
                rows = self.quietest(
                    lambda threads=threads, dtype=dtype: self.gemm_rows(threads, dtype)
                )
                self.keep(rows)
                if not rows:
                    continue
                what = f"products and convolutions, {dtype}, {threads} thread(s), geometric mean"
                self.mean(what, rows, GEMM_MEAN.get(threads, 0.9))
                if threads == 1 and dtype == "fp32":
                    worst = min(r.ratio for r in rows)
                    self.bar("products and convolutions, 1 thread, worst row", worst, GEMM_LEAST)

    def gemm_rows(self, threads: int, dtype: str) -> list[Row]:
        args = ["-child", str(threads), dtype, str(self.rounds), "0.033", "0"]
        rows = []
        for line in self.script("t6_gemm_conv.py", *args, threads=threads).splitlines():
            if not line.startswith("{"):
                continue
            one = json.loads(line)
            xs = one["xs"]
            ours = xs.pop("rushlight", None)
            name = f"{one['row']} {dtype}"
            if not ours or not self.wanted(name):
                continue
            middle = min if self.cpu and threads != 1 else statistics.median
            best = min(xs, key=lambda k: middle(xs[k]))
            peer, mine, ratio = self.ratio(xs[best], ours, threads)
            worst = max(map(noise, [ours, *xs.values()]))
            rows.append(Row(name, threads, mine, peer, best, ratio, worst))
        return rows

    def table(self, script: str, *args: str) -> list[dict]:
        """Return the rows that a script writes into its tables."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "rows"
            self.script(script, "--json", str(path), "--rounds", str(self.rounds), *args)
            return (
                [json.loads(line) for line in path.read_text().splitlines()]
                if path.exists()
                else []
            )

    def start(self) -> None:
        """t1: from process start to the first result of a ResNet-18, against ONNX Runtime from
        C."""
        rows = {r["program"]: r for r in self.table("t1_startup.py", "--threads", "1")}
        if "rushlight" not in rows or "c_ort" not in rows:
            print("start: no result", flush=True)
            return
        ours, peer = rows["rushlight"], rows["c_ort"]
        key = "cpu" if self.cpu else "wall"
        mine, theirs = seconds(ours[key]), seconds(peer[key])
        ratio = theirs / mine
        loud = max(float(r["noise"].rstrip("%")) / 100 for r in (ours, peer))
        self.keep([Row("start, resnet18", 1, mine, theirs, "C + onnxruntime", ratio, loud)])
        self.bar("start, resnet18, against ONNX Runtime from C", ratio, 1.5)
        self.bar(
            f"start, resnet18, 150 MB over our peak of {ours['peak MB']} MB",
            150 / float(ours["peak MB"]),
            1.0,
        )

    def mulchain(self) -> None:
        """t7: three multiplications, the output allocated, against TorchScript and a loop in C."""
        for r in self.table("t7_mulchain.py", "--threads", "1"):
            if "floats" not in r or r.get("rushlight", "-") == "-":
                continue
            ours, n = seconds(r["rushlight"]), int(r["floats"])
            loud = float(r["noise"].rstrip("%")) / 100
            for column, least, sizes in (("jit", 5.0, ()), ("C alloc", 0.8, (1 << 10, 1 << 16))):
                if r.get(column, "-") == "-":
                    continue
                peer = seconds(r[column])
                self.keep([Row(f"mulchain {n}", 1, ours, peer, column, peer / ours, loud)])
                if not sizes or n in sizes:
                    self.bar(f"mulchain, {n} floats, against {column}", peer / ours, least)

    def document(self, path: pathlib.Path, head: str) -> None:
        """Write rows and bars into docs/performance.md."""
        lines = [
            head,
            "",
            "| row | threads | ours | peer | ratio | Python module | noise | peer is |",
            "|" + " --- |" * 8,
        ]
        for r in self.rows:
            python = f"{r.python:.2f}" if r.python else "-"
            lines.append(
                f"| {r.name} | {r.threads} | {shown(r.ours)} | {shown(r.peer)} | {r.ratio:.2f} | "
                f"{python} | {r.noise:.0%} | "
                f"{r.peer_name} |"
            )
        lines += ["", "| bar | measured | at least | |", "|" + " --- |" * 4]
        lines += [
            f"| {what} | {got:.2f} | {least:.2f} | {'met' if met else 'not met'} |"
            for what, got, least, met in self.bars
        ]
        before, rest = path.read_text().split("<!-- bars -->", 1)
        after = rest.split("<!-- end bars -->", 1)[1]
        path.write_text(
            before + "<!-- bars -->\n" + "\n".join(lines) + "\n<!-- end bars -->" + after
        )

    def report(self) -> bool:
        print(f"\n{'bar':<64}{'got':>8}{'least':>8}")
        for what, got, least, met in self.bars:
            print(f"{what:<64}{got:>8.2f}{least:>8.2f}  {'met' if met else 'NOT MET'}")
        data = {"rows": [dataclasses.asdict(r) for r in self.rows], "bars": self.bars}
        (self.build / "bars.json").write_text(json.dumps(data, indent=1) + "\n")
        return all(met for *_, met in self.bars)


def noise(xs: list[float]) -> float:
    s = sorted(xs)
    q = len(s) // 4
    return (s[-1 - q] - s[q]) / 2 / statistics.median(s) if len(s) > 2 else 0.0


def seconds(cell: str) -> float:
    """Convert '5.78us 0.72' of the scripts' tables."""
    text = cell.split()[0]
    unit = next(u for u in UNITS if text.endswith(u))
    return float(text[: -len(unit)]) * UNITS[unit]


def shown(s: float) -> str:
    unit = next((u for u in ("s", "ms", "us") if s >= UNITS[u]), "ns")
    return f"{s / UNITS[unit]:.3g} {unit}"


def run(bars: Bars) -> bool:
    """Run all requested parts; return True if every bar is met."""
    print(
        f"{'row':<28}{'threads':>8}{'ours':>10}{'peer':>10}{'ratio':>8}{'Python':>9}{'noise':>7}  "
        f"peer",
        flush=True,
    )
    for part in PARTS:
        if bars.wanted(part):
            getattr(bars, part)()
    return bars.report()
