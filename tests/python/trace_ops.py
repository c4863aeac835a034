"""PyTorch's samples of its operators (op_db, float32), traced by rushlight.trace and run again:
results are PyTorch's.

    python tests/python/trace_ops.py [--only NAME] [--samples N] [-v]

Tensors of a sample are the inputs, everything else is part of the function.  Operators that this
build cannot run are counted, not failures: op_walk.py is about them.
"""

from __future__ import annotations

import argparse
import itertools
import operator
import sys
import warnings
from collections.abc import Callable
from typing import Any

import rushlight
import torch
from torch.testing._internal.common_methods_invocations import op_db

# Their memory is not set.
SEED = 42  # what op_db's own functions set, which a trace does not repeat
SKIPPED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
}


def holes(value: Any, tensors: list) -> Callable[[list], Any]:
    """Takes the tensors out of a sample's arguments; puts others in."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return operator.itemgetter(len(tensors) - 1)
    if isinstance(value, (list, tuple)):
        parts = [holes(v, tensors) for v in value]
        kind = list if isinstance(value, list) else tuple
        if hasattr(value, "_fields"):
            return lambda given: type(value)(*(p(given) for p in parts))
        return lambda given: kind(p(given) for p in parts)
    if isinstance(value, dict):
        items = {k: holes(v, tensors) for k, v in value.items()}
        return lambda given: {k: p(given) for k, p in items.items()}
    return lambda given: value


def leaves(value: Any) -> list:
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in leaves(v)]
    return [value]


# What cannot agree.
EXCEPTIONS = {
    "svd": "signs of vectors are free",
    "linalg.svd": "signs of vectors are free",
    "linalg.eigh": "signs of vectors are free",
    "linalg.eig": "signs of vectors are free",
    "as_strided": "samples are views of more memory than a copy of them has",
    "matrix_exp": "sums of large numbers that cancel",
    "nn.functional.linear_cross_entropy": "its chunked kind makes a graph of itself, by the mode "
    "that traces",
    "nn.functional.scaled_dot_product_attention": "dropout by blocks, which draws in another order",
}


class Outcome(Exception):
    """Why a sample was not compared."""


def check(op: Any, sample: Any) -> None:
    """One sample; AssertionError where it differs."""
    tensors: list = []
    parts = holes((sample.input, sample.args, sample.kwargs), tensors)
    tensors = [t.detach() if t.layout == torch.strided else t for t in tensors]
    if not tensors or any(t.layout != torch.strided or t.is_nested for t in tensors):
        raise Outcome("no dense tensors")

    def f(*given: Any) -> Any:
        first, args, kwargs = parts(list(given))
        made = op(first, *args, **kwargs)
        return tuple(made) if isinstance(made, (tuple, list)) else made

    def clones() -> tuple:
        return tuple(t.clone() for t in tensors)

    torch.manual_seed(SEED)
    expected = f(*clones())
    if not leaves(expected) or not all(isinstance(t, torch.Tensor) for t in leaves(expected)):
        raise Outcome("results that are no tensors")
    torch.manual_seed(SEED)
    made = rushlight.trace(f, clones(), check_trace=False)
    torch.manual_seed(SEED)
    try:
        got = made(*clones())
    except (RuntimeError, NotImplementedError) as error:
        text = str(error)
        if any(
            word in text
            for word in ("cannot run here", "not supported", "unsupported", "not implemented")
        ):
            raise Outcome("cannot run here") from None
        raise
    for a, b in zip(leaves(got), leaves(expected), strict=True):
        assert a.dtype == b.dtype, f"{a.dtype}, not {b.dtype}\n{made.graph}"
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)


def walk(
    only: str, n_samples: int | None, report: Callable[[str], None]
) -> tuple[int, int, dict[str, int]]:
    n_good, n_bad, others = 0, 0, {}
    for op in op_db:
        if (only and only not in op.name) or op.name in SKIPPED or "jiterator" in op.name:
            continue
        if torch.float32 not in op.supported_dtypes("cpu"):
            continue
        torch.manual_seed(1)
        for i, sample in enumerate(
            itertools.islice(op.sample_inputs("cpu", torch.float32), n_samples)
        ):
            try:
                check(op, sample)
                n_good += 1
            except Outcome as why:
                others[str(why)] = others.get(str(why), 0) + 1
                report(f"- {op.name} {op.variant_test_name} {i}: {why}")
            except Exception as error:  # noqa: BLE001
                if op.name in EXCEPTIONS:
                    others[EXCEPTIONS[op.name]] = others.get(EXCEPTIONS[op.name], 0) + 1
                    continue
                n_bad += 1
                report(
                    f"! {op.name} {op.variant_test_name} {i}: {type(error).__name__}: "
                    f"{str(error)[:600]}"
                )
    return n_good, n_bad, others


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--samples", type=int)
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")

    def report(line: str) -> None:
        if options.v or line.startswith("!"):
            print(line, flush=True)

    good, bad, others = walk(options.only, options.samples, report)
    print(f"{good} samples agree, {bad} do not; {others}")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
