#!/usr/bin/env python3
"""What PyTorch refuses of the tensors that are written to, asked of every op_db entry: here it is
the same.

    python tests/python/out_rules.py [--only REGEX] [--all]

A line a rule: how often both accept with equal results, both refuse, and where they differ.
test_out_rules.py runs a part of it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from op_walk import (
    difference,
    entry_name,
    listed,
    run_ours,
    run_theirs,
    sample_text,
    samples_of,
    tensors_of,
)
from torch.testing._internal.common_methods_invocations import op_db
from torch_calls import Missing

Sample = tuple
# PyTorch writes behind the tensor's memory there.
UNSAFE = {"_batch_norm_with_update"}


def lead(result: Any) -> torch.Tensor:
    """The first result."""
    return tensors_of(result)[0]


def fresh(t: torch.Tensor) -> torch.Tensor:
    return torch.zeros(t.shape, dtype=t.dtype)


def given(result: Any, make: Callable) -> Any:
    """out= of the result's form, the first tensor made by `make`."""
    if isinstance(result, torch.Tensor):
        return make(result)
    return (make(result[0]), *(fresh(t) for t in result[1:]))


# -- out=
# ------------------------------------------------------------------------------------------------


def expanded(t: torch.Tensor) -> torch.Tensor | None:
    at = next((i for i, n in enumerate(t.shape) if n > 1), None)
    if at is None:
        return None
    sizes = list(t.shape)
    sizes[at] = 1
    return torch.zeros(sizes, dtype=t.dtype).expand(t.shape)


def other_dtype(dtype: torch.dtype) -> Callable:
    return lambda t: None if t.dtype == dtype else torch.zeros(t.shape, dtype=dtype)


def larger(t: torch.Tensor) -> torch.Tensor:
    return torch.zeros([*t.shape, 3], dtype=t.dtype)


def transposed(t: torch.Tensor) -> torch.Tensor | None:
    return (
        torch.zeros(t.shape[::-1], dtype=t.dtype).permute(*range(t.dim() - 1, -1, -1))
        if t.dim() > 1
        else None
    )


OUT_RULES: dict[str, Callable] = {
    "out= expanded": expanded,
    "out= larger": larger,
    "out= empty": lambda t: torch.zeros(0, dtype=t.dtype),
    "out= transposed": transposed,
    "out= int64": other_dtype(torch.int64),
    "out= bool": other_dtype(torch.bool),
    "out= float64": other_dtype(torch.float64),
    "out= float16": other_dtype(torch.float16),
    "out= complex64": other_dtype(torch.complex64),
}


def shifted(sample: Sample, want: torch.Tensor) -> Sample | None:
    """The first argument moved to lie one element before the result's memory."""
    x = sample[0][0]
    n = max(x.numel(), want.numel())
    if (
        not isinstance(x, torch.Tensor)
        or x.dtype != want.dtype
        or x.numel() < 2
        or want.numel() < 2
    ):
        return None
    memory = torch.zeros(n + 1, dtype=x.dtype)
    memory[: x.numel()] = x.detach().reshape(-1)
    view = memory[: x.numel()].view(x.shape)
    return (view, *sample[0][1:]), {
        **sample[1],
        "out": memory[1 : want.numel() + 1].view(want.shape),
    }


def same(sample: Sample, want: torch.Tensor) -> Sample | None:
    """The first argument is the result's tensor, too."""
    x = sample[0][0]
    if not isinstance(x, torch.Tensor) or x.dtype != want.dtype or x.shape != want.shape:
        return None
    x = x.detach().clone()
    return (x, *sample[0][1:]), {**sample[1], "out": x}


# -- In place
# -----------------------------------------------------------------------------------------------


def self_expanded(x: torch.Tensor, args: tuple) -> tuple | None:
    made = expanded(x)
    return None if made is None else (made, *args)


def self_shifted(x: torch.Tensor, args: tuple) -> tuple | None:
    """The second argument lies one element behind the first's memory."""
    y = args[0] if args else None
    if not isinstance(y, torch.Tensor) or y.dtype != x.dtype or y.shape != x.shape or x.numel() < 2:
        return None
    memory = torch.zeros(x.numel() + 1, dtype=x.dtype)
    memory[: x.numel()] = x.detach().reshape(-1)
    return (memory[: x.numel()].view(x.shape), memory[1:].view(x.shape), *args[1:])


def self_int(x: torch.Tensor, args: tuple) -> tuple | None:
    return (torch.ones(x.shape, dtype=torch.int64), *args)


def self_smaller(x: torch.Tensor, args: tuple) -> tuple | None:
    return (x.detach()[:1].clone(), *args) if x.dim() and x.shape[0] > 1 else None


IN_PLACE_RULES: dict[str, Callable] = {
    "in-place expanded": self_expanded,
    "in-place shifted": self_shifted,
    "in-place int64": self_int,
    "in-place smaller": self_smaller,
}


def out_cases(op: Any, sample: Sample) -> Iterator[tuple[str, Callable, Sample]]:
    try:
        result = run_theirs(op.op, sample)[0]
    except Exception:
        return
    if not tensors_of(result) or not all(isinstance(t, torch.Tensor) for t in listed(result)):
        return
    for rule, make in OUT_RULES.items():
        if make(lead(result)) is not None:
            yield rule, op.op, (sample[0], {**sample[1], "out": given(result, make)})
    for rule, move in (("out= shifted", shifted), ("out= same", same)):
        if isinstance(result, torch.Tensor) and isinstance(sample[0][0], torch.Tensor):
            made = move(sample, result)
            if made is not None:
                yield rule, op.op, made


def cases(op: Any, most: int) -> Iterator[tuple[str, Callable, Sample]]:
    """(rule, function, sample)."""
    if op.name in UNSAFE:
        return
    for _, sample in samples_of(op, torch.float32, most):
        if op.supports_out:
            yield from out_cases(op, sample)
        inplace = op.get_inplace()
        if inplace is not None and isinstance(sample[0][0], torch.Tensor):
            for rule, make in IN_PLACE_RULES.items():
                args = make(sample[0][0], sample[0][1:])
                if args is not None:
                    yield rule, inplace, (args, sample[1])


def attempt(run: Callable, function: Callable, sample: Sample) -> tuple[Any, str, bool]:
    """(results, or the error's text, and whether it warned of resizing)."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            result = run(function, sample)
        except (Missing, NotImplementedError):
            raise
        except Exception as error:
            return None, f"{type(error).__name__}: {str(error).splitlines()[0]}", False
    return result, "", any("was resized" in str(w.message) for w in heard)


def check(op: Any, function: Callable, sample: Sample) -> tuple[str, str]:
    """('both accept' | 'both refuse' | 'texts differ' | 'differ', why)."""
    try:
        theirs, said, warned = attempt(run_theirs, function, sample)
        mine, mine_said, _ = attempt(run_ours, function, sample)
    except (Missing, NotImplementedError) as error:
        return "cannot run", str(error).splitlines()[0]
    if said and mine_said:
        return (
            ("both refuse", "")
            if said == mine_said
            else ("texts differ", f"{mine_said}\n      PyTorch: {said}")
        )
    if said or mine_said:
        return "differ", f"refused: {mine_said}" if mine_said else f"accepted; PyTorch: {said}"
    plain = (sample[0], {k: v for k, v in sample[1].items() if k != "out"})
    written = tensors_of(theirs[0])
    own = lead(run_theirs(op.op, plain)[0]).dtype if "out" in sample[1] and written else None
    # Some of PyTorch's operators compute in the dtype that they write: as exact as the result's own
    # will do.
    bounds = (1e-4, 1e-3) if own is not None and written[0].dtype != own else None
    why = difference(mine[0], theirs[0], op.name, bounds) or difference(
        mine[1], theirs[1], op.name, bounds, "afterwards"
    )
    return ("differ", why) if why else ("both accept", "warned" if warned else "")


def quiet() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)


def walk(index: int, options: argparse.Namespace) -> list[tuple[str, str, str, str]]:
    """(rule, way, sample, why) of every case of an entry."""
    op = op_db[index]
    chosen = (c for c in cases(op, options.samples) if re.search(options.rule, c[0]))
    return [
        (rule, *check(op, function, sample), sample_text(sample))
        for rule, function, sample in chosen
    ]


def apart(index: int, options: argparse.Namespace) -> list[tuple[str, str, str, str]]:
    """The same in a process of its own: PyTorch writes outside of some tensors that it should
    refuse."""
    with multiprocessing.get_context("fork").Pool(1, quiet) as pool:
        job = pool.apply_async(walk, (index, options))
        job.wait(60)
        return job.get() if job.ready() else [("crash", "cannot run", "no answer", "")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="entries whose name matches")
    parser.add_argument("--rule", default="", help="rules whose name matches")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument(
        "--texts", action="store_true", help="also where only the error's text differs"
    )
    options = parser.parse_args()
    counts: dict[str, Counter] = {}
    for index, op in enumerate(op_db):
        if not re.search(options.only, entry_name(op)) or not (op.supports_out or op.get_inplace()):
            continue
        said: set = set()
        for rule, way, why, text in apart(index, options):
            counts.setdefault(rule, Counter())[way] += 1
            if (way in ("differ", "cannot run") or (options.texts and way == "texts differ")) and (
                rule,
                why,
            ) not in said:
                print(f"{entry_name(op)}: {rule}: {way}: ({text:.100}): {why:.300}", flush=True)
            said.add((rule, why))
    for rule, found in counts.items():
        print(f"{rule:<20}" + ", ".join(f"{n} {way}" for way, n in sorted(found.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
