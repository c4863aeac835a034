"""Training of every archive of a corpus that can be trained: 100 steps of SGD, whose losses must
follow PyTorch's.

    python tests/python/train_walk.py CORPUS [--only PATTERN] [--steps 100]

An archive can be trained if PyTorch finds gradients of floating-point parameters in the first of
its recorded calls that has some.  Both sides load it, let all such parameters require gradients,
and repeat that call with the same random numbers.  The loss is the mean square of each result's
difference from 0.1, which has a minimum whatever the program computes.

Losses agree if they differ by no more than 1e-4, or 1e-4 of PyTorch's where that is more than 1.
The learning rate is the first of RATES with which PyTorch's losses fall, and change by half of that
at most when every parameter is one bit larger: where a last bit decides, two programs that are
right disagree.  If no rate is such (float16, bfloat16), twice what that bit changes is allowed.
Archives that are not trained are listed with PyTorch's reason.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import math
import pathlib
import sys
import time
import warnings
from typing import Any, NamedTuple

import executor_runs
import rushlight
import torch

RATES = (1e-2, 1e-3, 1e-4, 1e-5)
TOLERANCE = 1e-4
OURS, THEIRS, NUDGED = "rushlight", "PyTorch", "PyTorch, with every parameter one bit larger"


class Untrained(Exception):
    """Nothing to train: the reason."""


def loaded(path: pathlib.Path, ours: bool) -> Any:
    """The program in training mode, except for exported ones, whose mode is part of the graph."""
    is_export = path.suffix == ".pt2"
    if ours:
        model = rushlight.load(str(path))
    else:
        model = torch.export.load(path).module() if is_export else torch.jit.load(path)
    if not is_export:
        model.train()
    for p in model.parameters():
        if p.is_floating_point():
            p.requires_grad_()
    return model


def loss_of(model: Any, call: dict[str, Any]) -> Any:
    executor_runs.manual_seed(call.get("seed", 5))
    args, named = (executor_runs.copied(call[key], False) for key in ("args", "kwargs"))
    results = executor_runs.leaves(getattr(model, call["method"])(*args, **named))
    parts = [(r - 0.1).square().mean() for r in results if r.is_floating_point() and r.numel()]
    if not any(p.requires_grad for p in parts):
        raise Untrained("no result depends on a parameter")
    return sum(p.float() for p in parts)


def train(path: pathlib.Path, side: str, call: dict[str, Any], rate: float, steps: int) -> list:
    """The losses; they end early where they are not finite."""
    model = loaded(path, side == OURS)
    parameters = [p for p in model.parameters() if p.requires_grad]
    if side == NUDGED:
        for p in parameters:
            p.data.nextafter_(torch.full_like(p.data, math.inf))
    optimizer = (rushlight if side == OURS else torch).optim.SGD(parameters, lr=rate)
    losses: list[float] = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, call)
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            break
        loss.backward()
        optimizer.step()
    return losses


def trainable_call(path: pathlib.Path) -> dict[str, Any]:
    """The first recorded call that has gradients of parameters, or Untrained."""
    if not any(p.is_floating_point() for p in loaded(path, False).parameters()):
        raise Untrained("no floating-point parameters")
    reason = "no call returns"
    for call in torch.load(path.with_name("calls.pt"), weights_only=True)["calls"]:
        if "raises" in call:
            continue
        model = loaded(path, False)
        try:
            loss_of(model, call).backward()
        except Untrained as error:
            reason = str(error)
        except RuntimeError as error:
            reason = f"PyTorch: {str(error).strip().splitlines()[-1]}"
        else:
            if any(p.grad is not None for p in model.parameters()):
                return call
            reason = "no result depends on a parameter"
    raise Untrained(reason)


class Wanted(NamedTuple):
    rate: float
    losses: list[float]
    tolerance: float


def wanted(path: pathlib.Path, call: dict[str, Any], steps: int) -> Wanted:
    """What PyTorch does."""
    losses, found = [math.nan], None
    for rate in RATES:
        losses = train(path, THEIRS, call, rate, steps)
        if len(losses) < steps or losses[-1] > losses[0]:
            continue
        moved = distance(train(path, NUDGED, call, rate, steps), losses)
        if 2 * moved <= TOLERANCE:
            return Wanted(rate, losses, TOLERANCE)
        found = found or Wanted(rate, losses, 2 * moved)
    if found:
        return found
    raise Untrained("PyTorch's loss is " + ("larger" if math.isfinite(losses[-1]) else "infinite"))


def distance(got: list[float], want: list[float]) -> float:
    if len(got) != len(want):
        return math.inf
    return max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(got, want, strict=True))


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("corpus", type=pathlib.Path)
    p.add_argument("--only", default="*", help="archives whose name fits this pattern")
    p.add_argument("--steps", type=int, default=100)
    o = p.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    n_trained, failed = 0, []
    untrained = collections.defaultdict(list)
    for folder in sorted(path.parent for path in o.corpus.rglob("calls.pt")):
        name = str(folder.relative_to(o.corpus))
        if not fnmatch.fnmatch(name, o.only):
            continue
        path = next(m for m in (folder / "model.pt", folder / "model.pt2") if m.exists())
        start = time.monotonic()
        try:
            call = trainable_call(path)
            want = wanted(path, call, o.steps)
        except Untrained as error:
            untrained[str(error)].append(name)
            continue
        n_trained += 1
        try:
            got = train(path, OURS, call, want.rate, o.steps)
            far = distance(got, want.losses) / want.tolerance
            line = (
                f"{want.losses[0]:.6g} to {want.losses[-1]:.6g} with {want.rate:g}; apart by "
                f"{far * want.tolerance:.1e} of {want.tolerance:.1e}"
            )
        except Exception as error:  # noqa: BLE001
            far, line = math.inf, f"{type(error).__name__}: {str(error).strip()[-600:]}"
        verdict = "ok" if far <= 1 else "FAIL"
        if verdict == "FAIL":
            failed.append(name)
        print(f"{verdict:4} {name}: {line} ({time.monotonic() - start:.1f} s)", flush=True)
    for reason, names in sorted(untrained.items(), key=lambda item: -len(item[1])):
        print(f"not trained, {reason}: {len(names)}: {', '.join(names)}")
    print(f"{n_trained - len(failed)} of {n_trained} train as in PyTorch: {o.steps} steps")
    return 1 if failed or not n_trained else 0


if __name__ == "__main__":
    sys.exit(main())
