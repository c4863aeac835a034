"""gradgradcheck over PyTorch's samples (op_db), through records of ours: every operator that a
sample calls on what requires grad is one call of Rushlight's, recorded, and its gradient and that
one's come from the records.

    python tests/python/second_walk.py [--only NAME] [--samples 8] [--seconds 20]

An operator is right, or refuses with PyTorch's words (`derivative for ... is not implemented`).
Entries that PyTorch itself cannot differentiate twice are walked too: there refusing is what it
does.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import signal
import time
import warnings
from collections.abc import Callable
from typing import Any

import grad_walk
import rushlight
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.autograd import gradgradcheck
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

# Entries that are neither right nor refused, and why; the list may only shrink.
EXCEPTIONS: dict[str, str] = {
    "linalg.norm.subgradients_at_zero": "a norm has no second derivative at zero",
    "to_sparse": "sparse tensors",
    "sparse.mm.reduce": "sparse tensors",
    "nn.functional.linear_cross_entropy.chunked": "operators in Python of PyTorch's own, which no "
    "program can hold",
    "nn.functional.linear_cross_entropy.chunked_none": "operators in Python of PyTorch's own, "
    "which no program can hold",
}


class Ours(SchemaCheckMode):
    """Sends what needs a gradient to Rushlight's operators.  (Its base is what PyTorch lets stand
    on this key.)"""

    called = 0

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self, torch._C.DispatchKey.PreDispatch)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not torch.is_grad_enabled() or not grad_walk.depends((args, kwargs)):
            return func(*args, **kwargs)
        space, _, name = func._schema.name.partition("::")
        find = getattr(getattr(rushlight.ops, space), "find", None)
        ours = find(name) if find else None
        try:
            ours = getattr(ours, func._schema.overload_name or "default")
        except AttributeError:
            return func(*args, **kwargs)
        Ours.called += 1
        return ours(*args, **kwargs)


def function_of(op: Any, sample: Any) -> tuple[Callable[..., Any], list[Any]]:
    """(the operator as a function of what requires grad, that)."""
    flat, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
    at = [i for i, t in enumerate(flat) if isinstance(t, torch.Tensor) and t.requires_grad]

    def function(*tensors: Any) -> Any:
        values = list(flat)
        for i, t in zip(at, tensors, strict=True):
            values[i] = t
        given, args, kwargs = tree_unflatten(values, spec)
        torch.manual_seed(5)
        rushlight.manual_seed(5)
        with enable_python_dispatcher(), Ours():
            out = sample.output_process_fn_grad(op.gradcheck_wrapper(op, given, *args, **kwargs))
        return tuple(
            t
            for t in tree_leaves(out)
            if isinstance(t, torch.Tensor)
            and (t.is_floating_point() or t.is_complex())
            and t.requires_grad
        )

    return function, [flat[i] for i in at]


def theirs(op: Any, sample: Any) -> str:
    """'' where PyTorch has second derivatives of the sample, else what it says."""
    function, inputs = function_of(op, sample)
    try:
        out = sample.output_process_fn_grad(
            op.gradcheck_wrapper(op, sample.input, *sample.args, **sample.kwargs)
        )
        parts = [
            t
            for t in tree_leaves(out)
            if isinstance(t, torch.Tensor) and t.requires_grad and t.layout == torch.strided
        ]
        if not parts:
            return "nothing to differentiate"
        if any(t.dtype not in (torch.float64, torch.complex128) for t in [*parts, *inputs]):
            return "too coarse for differences"
        got = torch.autograd.grad(
            parts, inputs, [torch.ones_like(t) for t in parts], create_graph=True, allow_unused=True
        )
        got = tuple(g for g in got if g is not None and g.requires_grad)
        if got:
            got += torch.autograd.grad(
                got, inputs, [torch.ones_like(g) for g in got], allow_unused=True
            )
        if not all(bool(torch.isfinite(g).all()) for g in got if g is not None):
            return "not finite"
    except Exception as x:  # noqa: BLE001
        return str(x).strip().split("\n")[0]
    return ""


def check(op: Any, sample: Any) -> str:
    """'' right, 'skip' PyTorch has none and neither have we, else why not."""
    refused = theirs(op, sample)
    if refused in ("nothing to differentiate", "not finite", "too coarse for differences"):
        return "skip"
    function, inputs = function_of(op, sample)
    Ours.called = 0
    try:
        if not function(*inputs):
            return "skip"  # the result depends on nothing: a power of 0
        good = gradgradcheck(
            function, inputs, gen_non_contig_grad_outputs=False, fast_mode=True, atol=1e-4,
            rtol=1e-3, nondet_tol=op.gradcheck_nondet_tol, check_batched_grad=False,
        )  # fmt: skip
    except Exception as x:  # noqa: BLE001
        text = str(x).strip().split("\n")
        if "is not implemented" in str(x) and (
            "derivative for" in str(x) or "trying to differentiate twice" in str(x)
        ):
            return "skip" if refused else text[0][:200]
        if refused:
            return (
                "skip"
                if "mismatch" not in str(x)
                else "PyTorch refuses, and here is something wrong: " + text[0][:150]
            )
        return f"{type(x).__name__}: {text[0][:200]}"
    return "" if good and Ours.called else "skip"


def late(*_: Any) -> None:
    raise TimeoutError("took too long")


def walk(name: str, most: int, seconds: float) -> dict[str, Any]:
    """Counts and reasons of one entry."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, late)
    op = next(o for o in op_db if grad_walk.full_name(o) == name)
    row: dict[str, Any] = {"samples": 0, "passed": 0, "why": collections.Counter()}
    end = time.monotonic() + seconds
    for dtype in (torch.float64, torch.complex128):
        if dtype not in op.supported_backward_dtypes("cpu"):
            continue
        for sample in grad_walk.samples(op, dtype, most):
            if time.monotonic() > end or not grad_walk.inputs_of(sample):
                continue
            signal.alarm(120)
            why = check(op, sample)
            signal.alarm(0)
            if why == "skip":
                continue
            row["samples"] += 1
            row["passed"] += why == ""
            if why:
                row["why"][f"{str(dtype)[6:]}: {why}"] += 1
    return row


def _one(given: tuple[str, int, float]) -> tuple[str, dict[str, Any]]:
    return given[0], walk(*given)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="entries whose names contain it")
    parser.add_argument("--samples", type=int, default=8, help="of each dtype; 0: all")
    parser.add_argument(
        "--seconds", type=float, default=20, help="for one entry; samples beyond are left out"
    )
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    names = [
        grad_walk.full_name(op)
        for op in op_db
        if op.supports_autograd and options.only in grad_walk.full_name(op)
    ]
    failed, passed = [], 0
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for name, row in pool.imap(_one, [(n, options.samples, options.seconds) for n in names]):
            if not row["samples"]:
                continue
            good = row["passed"] == row["samples"]
            passed += good
            if not good and name not in EXCEPTIONS:
                failed.append(name)
            word = "ok  " if good else "know" if name in EXCEPTIONS else "FAIL"
            print(f"{word} {name}: {row['passed']} of {row['samples']}", flush=True)
            for why, n in row["why"].items():
                print(f"       {n} x {why}", flush=True)
    print(f"{passed} entries pass, {len(failed)} fail: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
