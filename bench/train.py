"""Training steps: bench/run.py --only train.

A step is a call that records, cross entropy, backward and SGD with momentum, on the cases of the
peers' t8 (models of ../shared/peers/models.py).  Ours runs from C (bench/column.c) and, for the
small network, from Python without torch, in a process that waits for its turns; the peer is eager
PyTorch.  Losses are compared first.  A row `memory` is what steps add to the memory that a process
holds at once, each side in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import models

LR, MOMENTUM, WARM, CHECKED = 1e-3, 0.9, 5, 20
CASES = {  # name: (sizes of the input, classes, aim)
    "mlp_16 b1": ((1, 16), 16, "25 us"),
    "mlp_784 b64": ((64, 784), 10, ""),
    "mlp_1024 b256": ((256, 1024), 100, ""),
    "cnn b32": ((32, 3, 32, 32), 10, "ratio 1.3"),
    "lstm_64 t20": ((20, 64, 64), 64, "ratio 2"),
}
SMALL, PYTHON_AIM = "mlp_16 b1", "35 us"

# Reads a number of steps a line, answers with the seconds they took and the last loss.
PYTHON = """
import sys, time, rushlight
path, data, clock = sys.argv[1:4]
rushlight.set_num_threads(int(sys.argv[4]))
clock = time.process_time if clock == "cpu" else time.perf_counter
model = rushlight.load(path).train()
x, y = rushlight.load_value(data)
lr, momentum = map(float, sys.argv[5:])
optimizer = rushlight.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
loss_of = rushlight.ops.aten.cross_entropy_loss
def step():
    loss = loss_of(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss
for line in sys.stdin:
    begin = clock()
    for _ in range(int(line)):
        loss = step()
    print(clock() - begin, loss.item(), flush=True)
assert "torch" not in sys.modules
"""


def network(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return the module of a case and (input, classes)."""
    import torch

    peers = models.peers_models()

    class Sequence(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l = peers.SimpleLSTM(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = torch.zeros_like(x[0])
            return self.l(x, h, h)[0]

    torch.manual_seed(0)
    sizes, classes, _ = CASES[name]
    kind, _, rest = name.split()[0].partition("_")
    if kind == "mlp":
        n = int(rest)
        module = peers.mlp(n, 512 if n == 784 else n, classes)
    else:
        module = peers.small_cnn() if kind == "cnn" else Sequence()
    rows = sizes[1] if kind == "lstm" else sizes[0]
    return module.train(), (torch.randn(sizes), torch.randint(0, classes, (rows,)))


def eager(module: Any, args: tuple[Any, ...]) -> Callable[[int], float]:
    import torch

    optimizer = torch.optim.SGD(module.parameters(), lr=LR, momentum=MOMENTUM)

    def steps(n: int) -> float:
        for _ in range(n):
            loss = torch.nn.functional.cross_entropy(module(args[0]), args[1])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    return steps


class Side:
    """One column: runs steps and times them."""

    def __init__(self, steps: Callable[[int], float], clock: Callable[[], float]) -> None:
        self.run, self.clock = steps, clock

    def timed(self, n: int) -> tuple[float, float]:
        begin = self.clock()
        loss = self.run(n)
        return self.clock() - begin, loss


class PythonSide(Side):
    """A process without torch that trains when asked."""

    def __init__(self, path: pathlib.Path, data: pathlib.Path, clock: str, threads: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PYTHON, path, data, clock, str(threads), str(LR), str(MOMENTUM)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def timed(self, n: int) -> tuple[float, float]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{n}\n")
        self.process.stdin.flush()
        took, loss = self.process.stdout.readline().split()
        return float(took), float(loss)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def sides_of(name: str, threads: int, clock: str, folder: pathlib.Path) -> dict[str, Side]:
    import copy

    import peers_column
    import torch

    torch.set_num_threads(threads)
    module, args = network(name)
    path, data = folder / "net.pt", folder / "data.pt"
    torch.jit.script(module).save(str(path))
    torch.save(args, data)
    column = peers_column.Column(str(path), args, threads)
    column.train(LR, MOMENTUM)

    def ours(n: int) -> float:
        column.steps(n)
        return float(column.results()[0])

    now = time.process_time if clock == "cpu" and threads == 1 else time.perf_counter
    sides = {"ours": Side(ours, now), "theirs": Side(eager(copy.deepcopy(module), args), now)}
    if name == SMALL:
        sides["python"] = PythonSide(path, data, clock, threads)
    return sides


def child(name: str, threads: int, clock: str, rounds: int) -> None:
    """Measure one case: the sides take turns."""
    with tempfile.TemporaryDirectory() as folder:
        sides = sides_of(name, threads, clock, pathlib.Path(folder))
        losses = {key: side.timed(CHECKED)[1] for key, side in sides.items()}
        if max(losses.values()) - min(losses.values()) > 1e-4:
            raise SystemExit(f"the losses differ: {losses}")
        counts = {
            key: max(1, min(20000, int(0.1 * WARM / side.timed(WARM)[0])))
            for key, side in sides.items()
        }
        times: dict[str, list[float]] = {key: [] for key in sides}
        for _ in range(rounds):
            for key, side in sides.items():
                time.sleep(0.002)
                side.timed(1)
                times[key].append(side.timed(counts[key])[0] / counts[key])
        for side in sides.values():
            if isinstance(side, PythonSide):
                side.close()
    print(json.dumps(times))


def resident(key: str) -> int:
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split(key + ":")[1].split()[0])


def memory(name: str, side: str) -> None:
    """Print what steps add to the most memory that is held at once, in bytes: after a step of a
    small network has loaded the libraries' code."""
    with tempfile.TemporaryDirectory() as folder:
        small = sides_of(SMALL if name != SMALL else "mlp_784 b64", 1, "wall", pathlib.Path(folder))
        small[side].run(3)
        one = sides_of(name, 1, "wall", pathlib.Path(folder))[side]
        pathlib.Path("/proc/self/clear_refs").write_text("5")
        before = resident("VmRSS")
        one.run(CHECKED)
        print(json.dumps(1024 * max(1, resident("VmHWM") - before)))


def spawned(options: argparse.Namespace, *args: str) -> Any:
    env = dict(
        os.environ, RUSH_BUILD_DIR=str(options.build), OMP_NUM_THREADS="1",
        PYTHONPATH=str(options.build / "python"),
    )  # fmt: skip
    run = subprocess.run(
        [sys.executable, __file__, *args], capture_output=True, text=True, env=env, check=False
    )
    if run.returncode:
        raise RuntimeError((run.stderr.strip().splitlines() or ["?"])[-1])
    return json.loads(run.stdout.splitlines()[-1])


def run(options: argparse.Namespace, table: Any, wanted: Callable[[str], bool]) -> None:
    for name, (_, _, aim) in CASES.items():
        row = f"train {name}"
        if not wanted(row):
            continue
        try:
            got = spawned(options, "times", name, "1", options.clock, str(options.rounds))
            table.add(row, got["ours"], got["theirs"], "torch, eager", aim=aim)
            if "python" in got:
                table.add(
                    f"{row}, from Python", got["python"], got["theirs"], "torch, eager",
                    aim=PYTHON_AIM,
                )  # fmt: skip
            ours, theirs = (spawned(options, "memory", name, side) for side in ("ours", "theirs"))
            table.add_memory(f"{row}, memory", ours, theirs, "torch, eager")
        except (RuntimeError, ValueError) as error:
            table.fail(row, str(error))


if __name__ == "__main__":
    if sys.argv[1] == "times":
        child(sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
    else:
        memory(sys.argv[2], sys.argv[3])
