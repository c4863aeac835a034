"""The front end compared with torch.jit.script: bench/run.py --peers DIR --only frontend.

The generated function of DIR/t5_compile_time.py at several lengths, as a text (CompilationUnit) and
as a live function of a file, and real modules of DIR/models.py. Both sides compile the same code in
one process, alternately, short texts several times per turn; modules are compiled once per process,
because both keep compiled modules, and the median of several processes counts.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

LENGTHS = (100, 1000, 8000)
MODULES = ("mlp_tiny", "lstm_cell", "resnet18", "mobilenet_v2", "bert4", "gpt2_step")
TEXT_BAR, LIVE_BAR, LINEAR_BAR = (
    20.0,
    5.0,
    2.5,
)  # times faster; longest's time a line over the shortest's
HEAD = "import torch\nfrom torch import Tensor\n\n"


def timed(make: Callable[[], Any], times: int = 1) -> float:
    """Return the seconds of one call, as the mean of several calls; the result of each is released
    before the next."""
    gc.disable()
    clock = time.process_time if os.environ.get("PEERS_CLOCK") == "cpu" else time.perf_counter
    begin = clock()
    for _ in range(times):
        made = make()
        del made
    took = clock() - begin
    gc.enable()
    return took / times


def live_function(folder: pathlib.Path, text: str, number: int) -> Any:
    """Return the function of a new file, which no cache contains."""
    path = folder / f"big_{number}.py"
    path.write_text(HEAD + text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module.big


def measure_source(lines: int, rounds: int, bigsrc: Callable[[int], str]) -> dict[str, list[float]]:
    import rushlight
    import torch

    text = bigsrc(lines)
    times = max(1, 4000 // lines)  # one of a short text is too short to be timed alone
    out: dict[str, list[float]] = {"text": [], "text torch": [], "live": [], "live torch": []}
    for i in range(rounds + 1):  # the first round warms both up
        mine = timed(lambda: rushlight.CompilationUnit(text), times)
        theirs = timed(lambda: torch.jit.CompilationUnit(text), times)
        if i:
            out["text"].append(mine)
            out["text torch"].append(theirs)
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # behind the texts: live functions stay compiled, and take memory from them
        for i in range(rounds + 1):
            live = [live_function(pathlib.Path(folder), text, 2 * i + k) for k in range(2)]
            mine = timed(lambda f=live[0]: rushlight.script(f))
            theirs = timed(lambda f=live[1]: torch.jit.script(f))
            if i:
                out["live"].append(mine)
                out["live torch"].append(theirs)
    return out


def measure_module(name: str, models: Any) -> dict[str, list[float]]:
    import rushlight
    import torch

    rushlight.script(torch.nn.Linear(2, 2))
    torch.jit.script(torch.nn.Linear(2, 2))
    module = models.get(name)[0]
    mine = timed(lambda: rushlight.script(module))
    return {"live": [mine], "live torch": [timed(lambda: torch.jit.script(module))]}


def child(peers: pathlib.Path, what: str, rounds: int) -> None:
    sys.path.insert(0, str(peers))
    import torch

    torch.set_num_threads(1)
    if what.isdigit():
        import t5_compile_time

        result = measure_source(int(what), rounds, t5_compile_time.bigsrc)
    else:
        import models

        result = measure_module(what, models)
    print(json.dumps(result))


def spawn(peers: pathlib.Path, what: str, rounds: int) -> dict[str, list[float]]:
    command = [
        sys.executable,
        __file__,
        "--child",
        what,
        "--rounds",
        str(rounds),
        "--peers",
        str(peers),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        raise RuntimeError(
            done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it failed"
        )
    return json.loads(done.stdout.strip().splitlines()[-1])


class Report:
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.met = True
        print(
            f"{'front end':<30}{'ours':>10}{'torch':>10}{'ratio':>8}{'ns/line':>9}  bar", flush=True
        )

    def add(
        self, name: str, mine: list[float], theirs: list[float], bar: float, lines: int = 0
    ) -> float:
        ratio = statistics.median(t / m for m, t in zip(mine, theirs, strict=True))
        a_line = min(mine) / lines * 1e9 if lines else 0.0
        good = ratio >= bar
        self.met &= good
        self.rows.append(
            {
                "row": name,
                "ours": statistics.median(mine),
                "peer": statistics.median(theirs),
                "ratio": ratio,
            }
        )
        shown = f"{a_line:.0f}" if lines else ""
        print(
            f"{name:<30}{statistics.median(mine) * 1e3:>8.2f}ms"
            f"{statistics.median(theirs) * 1e3:>8.1f}ms{ratio:>8.1f}{shown:>9}"
            f"  {bar:g}: {'met' if good else 'NOT MET'}",
            flush=True,
        )
        return a_line

    def fail(self, name: str, why: str) -> None:
        self.met = False
        print(f"{name:<30}  {why[:120]}", flush=True)


def run(peers: pathlib.Path, rounds: int) -> bool:
    """Run the measurements; return True if every bar is met."""
    report = Report()
    a_line: dict[str, list[float]] = {"text": [], "live": []}
    for lines in LENGTHS:
        try:
            r = spawn(peers, str(lines), rounds)
        except RuntimeError as e:
            report.fail(f"{lines} lines", str(e))
            continue
        for kind, bar in (("text", TEXT_BAR), ("live", LIVE_BAR)):
            a_line[kind].append(
                report.add(f"{lines} lines, {kind}", r[kind], r[f"{kind} torch"], bar, lines)
            )
    for kind, each in a_line.items():
        if len(each) == len(LENGTHS):
            growth = each[-1] / each[0]
            report.met &= growth <= LINEAR_BAR
            good = "met" if growth <= LINEAR_BAR else "NOT MET"
            print(
                f"{kind}: a line of {LENGTHS[-1]} takes {growth:.2f} of one of {LENGTHS[0]}  "
                f"{LINEAR_BAR:g}: {good}"
            )
    for name in MODULES:
        try:
            each = [spawn(peers, name, 1) for _ in range(3)]
        except RuntimeError as e:
            report.fail(name, str(e))
            continue
        report.add(name, [x["live"][0] for x in each], [x["live torch"][0] for x in each], LIVE_BAR)
    return report.met


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.peers, options.child, options.rounds)
    else:
        sys.exit(0 if run(options.peers.resolve(), options.rounds) else 1)
