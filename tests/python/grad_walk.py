"""Differentiate PyTorch's samples (op_db) by the gradients of the operator table, and compare with
torch.autograd.grad.

    python tests/python/grad_walk.py [--only NAME] [--samples 0] [--all] [--json FILE]
        [--graph | --plans]

Every operator that a sample calls is stopped before PyTorch's autograd sees it (a mode on the
PreDispatch key, so composite ones come whole).  If its entry has `grad`, it becomes one
autograd.Function: forward is Rushlight's operator, backward its formulas.  If it has only a `body`,
the body runs as Python in the same mode, so that its operators are differentiated. Anything else
that a gradient would flow through is "no formula of ...".  In-place operators are what returns
their result, and a copy: to record them is no matter of formulas.

With --graph each such operator is a program of one prim::DifferentiableGraph (graph_calls.py),
which Rushlight differentiates as a whole, and second derivatives are compared too.  With --plans
programs are called three times, so that their plans run.
"""

from __future__ import annotations

import argparse
import ast
import collections
import functools
import json
import math
import pathlib
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, List, Optional, Tuple  # noqa: UP035

import graph_calls
import rushlight
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

core.extract_test_fn = common_utils.extract_test_fn = lambda: (
    None
)  # reads the source of every frame above, for each sample

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import make_status  # noqa: E402

# Gradients of float32 carry the rounding of a whole backward pass.
TOLERANCE = {
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
    torch.float32: (1e-4, 1e-4),
}
# Entries that do not pass, and why; the list may only shrink.
EXCEPTIONS: dict[str, str] = {
    "as_strided.partial_views": "what lies outside of a view does not cross from torch: its offset "
    "in the storage is lost",
    "sparse.mm.reduce": "sparse tensors",
    "to_sparse": "sparse tensors",
    "nn.functional.linear_cross_entropy.chunked": "operators in Python of PyTorch's own, which no "
    "program can hold",
    "nn.functional.linear_cross_entropy.chunked_none": "operators in Python of PyTorch's own, "
    "which no program can hold",
    "as_strided_scatter": "PyTorch gives self the gradient of the elements that src overwrote; "
    "here of those that it left",
}
# Recording's own matters: what they do to gradients is no formula.
NATIVE = {
    "aten::copy_",
    "aten::detach",
    "aten::detach_",
    "aten::requires_grad_",
    "aten::lift_fresh",
    "aten::alias",
}


# --graph
GRAPHS: list[bool] = [False]
# Formulas that ran: (operator, its inputs).
REACHED: set[tuple[str, tuple[str, ...]]] = set()


class Missing(Exception):
    """No formula, nor a body."""


def depends(value: Any) -> bool:
    return any(isinstance(t, torch.Tensor) and t.requires_grad for t in tree_leaves(value))


def detached(value: Any) -> Any:
    return tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, value)


class Operator:
    """The table's data about one of PyTorch's operators."""

    def __init__(self, func: Any) -> None:
        self.func, self.schema = func, func._schema
        overload = self.schema.overload_name
        self.name = self.schema.name + ("." + overload if overload else "")
        row = table().rows.get(self.name)
        self.variant = row.variant if row and row.base else None
        self.row = row.base if self.variant else row
        self.gradients = (
            rushlight.ops.gradient(self.name) if row and "grad" in self.row.entry else {}
        )
        self.random = bool(row) and "OP_RANDOM" in row.effects
        self.no_grad = bool(row) and "OP_NO_GRAD" in row.effects
        self.arguments = [a.name for a in self.schema.arguments]
        self.functional = self.find_functional()

    def find_functional(self) -> Any:
        """Of an in-place operator: what returns its result."""
        name, overload = self.schema.name.split("::")[1], self.schema.overload_name
        if self.variant == "VARIANT_INPLACE":
            name, overload = self.row.schema.name.split("::")[1], self.row.schema.overload
        elif not (name.endswith("_") and not name.endswith("__") and self.schema.is_mutable):
            return None
        return getattr(
            getattr(torch.ops.aten, name.removesuffix("_"), None), overload or "default", None
        )

    def complete(self, args: Any, kwargs: Any) -> list[Any]:
        """All arguments, in order."""
        out = list(args)
        for a in self.schema.arguments[len(args) :]:
            if a.name in kwargs:
                out.append(kwargs[a.name])
            else:
                out.append(a.default_value)
        return out

    def call(self, function: Any, args: list[Any]) -> Any:
        """With what is keyword-only by name."""
        only = [a.name for a in self.schema.arguments if a.kwarg_only]
        n = len(args) - len(only)
        return function(*args[:n], **dict(zip(only, args[n:], strict=True)))

    def forward(self, args: list[Any]) -> Any:
        """Rushlight's results, or PyTorch's where random numbers are drawn or ours does not run."""
        if not self.random:
            try:
                space, _, full = self.name.partition("::")
                name, _, overload = full.partition(".")
                ours = getattr(getattr(getattr(rushlight.ops, space), name), overload or "default")
                return self.call(ours, args)
            except Exception:  # noqa: BLE001
                pass
        return self.call(self.func, args)


@functools.cache
def table() -> Any:
    return make_status.load()


@functools.cache
def operator(func: Any) -> Operator:
    return Operator(func)


def as_list(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple) else [results]


def sizes(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return list(value.shape)
    return [sizes(v) for v in value] if isinstance(value, (list, tuple)) else None


class Recorded(torch.autograd.Function):
    """One call of an operator that has formulas."""

    @staticmethod
    def forward(
        ctx: Any, op: Operator, spec: Any, leaves: list[Any], holder: list[Any], *tensors: Any
    ) -> Any:
        """`leaves` is None where a tensor belongs."""
        it = iter(tensors)
        full = [next(it).detach() if leaf is Recorded else leaf for leaf in leaves]
        ctx.op, ctx.args = op, tree_unflatten(full, spec)
        # Views cannot be written to behind a Function; what is written is the copy's matter.
        flat, ctx.result_spec = tree_flatten(as_list(op.forward(ctx.args)))
        out = tuple(t.clone() if t._is_view() else t for t in flat)
        ctx.results = tree_unflatten([t.detach().clone() for t in out], ctx.result_spec)
        holder.append(ctx.result_spec)
        # a result whose gradient no formula needs is a by-product
        asked = {
            int(t[4:] or 0)
            for f in op.gradients.values()
            for t in f.takes
            if re.fullmatch(r"grad\d*", t)
        }
        parts = [i for i, result in enumerate(ctx.results) for _ in tree_leaves(result)]
        ctx.mark_non_differentiable(
            *(
                t
                for t, i in zip(out, parts, strict=True)
                if i not in asked or not (t.is_floating_point() or t.is_complex())
            )
        )
        return out

    @staticmethod
    def values(ctx: Any, grads: Any) -> dict[str, Any]:
        """By the names that formulas use."""
        grads = tree_unflatten(list(grads), ctx.result_spec)
        values: dict[str, Any] = {}
        for i, (grad, result) in enumerate(zip(grads, ctx.results, strict=True)):
            values[f"grad{i}"] = grad
            values[f"result{i}"] = result
        if len(grads) == 1:
            values |= {"grad": grads[0], "result": ctx.results[0]}
        names = [a.name for a in ctx.op.schema.arguments]
        values |= dict(zip(names, ctx.args, strict=True))
        return values | {f"{n}_sizes": sizes(v) for n, v in zip(names, ctx.args, strict=True)}

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        op = ctx.op
        values = Recorded.values(ctx, grads)
        needed = list(ctx.needs_input_grad[4:])
        made: dict[Any, tuple[Any, ...]] = {}
        out: list[Any] = []
        wanted = {}
        at = 0
        for name, arg in zip(op.arguments, ctx.args, strict=True):
            n = sum(isinstance(t, torch.Tensor) for t in tree_leaves(arg))
            wanted[name] = any(needed[at : at + n])
            at += n
        at = 0
        for name, arg in zip(op.arguments, ctx.args, strict=True):
            tensors = [isinstance(t, torch.Tensor) for t in tree_leaves(arg)]
            if not wanted[name]:
                out += [None] * sum(tensors)
                continue
            formula = op.gradients.get(name)
            if formula is None:  # then there is no gradient, and PyTorch's must be none
                out += [None] * sum(tensors)
                continue
            if formula not in made:
                made[formula] = called(
                    op, formula, values | {"needs": [wanted[i] for i in formula.inputs]}
                )
            got = made[formula][formula.inputs.index(name)]
            got = list(got) if isinstance(got, (list, tuple)) else [got]
            out += [g for g, is_tensor in zip(got, tensors, strict=True) if is_tensor]
        return (None, None, None, None, *out)


def called(op: Operator, formula: Any, values: dict[str, Any]) -> tuple[Any, ...]:
    REACHED.add((op.name, formula.inputs))
    try:
        return formula(values)
    except Exception as x:
        raise RuntimeError(f"gradient of {op.name}: {str(x).strip().splitlines()[-1]}") from x


def record(op: Operator, args: list[Any]) -> Any:
    if GRAPHS[0] and not op.random:
        try:
            return graph_calls.call(op.schema, op.func, args)
        except graph_calls.CannotBuildError:
            pass
    flat, spec = tree_flatten(args)
    tensors = [t for t in flat if isinstance(t, torch.Tensor)]
    leaves = [Recorded if isinstance(t, torch.Tensor) else t for t in flat]
    holder: list[Any] = []
    results = tree_unflatten(list(Recorded.apply(op, spec, leaves, holder, *tensors)), holder[0])
    return results[0] if len(results) == 1 else tuple(results)


# -- Bodies as Python
# ---------------------------------------------------------------------------------------


class Torch:
    """What `torch` is in a body: every operator, and Python's names."""

    result_type, tensor = staticmethod(torch.result_type), staticmethod(torch.tensor)

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(torch.ops.aten, name)  # overloads are chosen as TorchScript does
        except AttributeError:
            return getattr(torch, name)


@functools.cache
def names() -> dict[str, Any]:
    space = {
        "torch": Torch(), "math": math, "ops": torch.ops, "List": List, "Optional": Optional,
        "Tuple": Tuple, "Tensor": torch.Tensor, "number": Any, "annotate": lambda _, value: value,
    }  # fmt: skip
    for text in table().gradients.helpers.values():
        exec(compiled(text), space)
    return space


class Lists(ast.NodeTransformer):
    """x.size() is a list in TorchScript, and a tuple of its own kind in Python."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "size" and not node.args:
            return ast.Call(ast.Name("list", ast.Load()), [node], [])
        return node


def compiled(text: str) -> Any:
    tree = Lists().visit(ast.parse("from __future__ import annotations\n" + text))
    return compile(ast.fix_missing_locations(tree), "<body>", "exec")


@functools.cache
def body_function(text: str) -> Callable[..., Any]:
    space = dict(names())
    known = set(space)
    exec(compiled(text), space)
    return next(
        v for k, v in space.items() if k not in known and callable(v) and k != "__builtins__"
    )


# -- The mode
# -------------------------------------------------------------------------------------------------


class Walk(SchemaCheckMode):
    """Sends what needs a gradient through the table.  (Its base is what PyTorch lets stand on this
    key.)"""

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self, torch._C.DispatchKey.PreDispatch)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.run(operator(func), args, kwargs or {})

    def run(self, op: Operator, args: Any, kwargs: Any) -> Any:
        if not torch.is_grad_enabled() or not depends((args, kwargs)) or op.name in NATIVE:
            return op.func(*args, **kwargs)
        if op.gradients and not op.variant and not op.functional:
            return record(op, op.complete(args, kwargs))
        if op.functional:
            return args[0].copy_(self.run(operator(op.functional), args, kwargs))
        if op.no_grad:
            return detached(op.func(*args, **kwargs))
        if op.row and op.row.body and not op.variant:
            with enable_python_dispatcher(), Walk():
                return body_function(op.row.body)(*op.complete(args, kwargs))
        with torch.enable_grad():
            got = op.func(*args, **kwargs)
        if depends(got):
            raise Missing(f"no formula of {op.name}")
        return got


# -- Samples
# --------------------------------------------------------------------------------------------------


def inputs_of(sample: Any) -> list[torch.Tensor]:
    return [
        t
        for t in tree_leaves((sample.input, sample.args, sample.kwargs))
        if isinstance(t, torch.Tensor) and t.requires_grad
    ]


def outputs_of(op: Any, sample: Any, in_mode: bool) -> list[torch.Tensor]:
    torch.manual_seed(5)
    if in_mode:
        with enable_python_dispatcher(), Walk():
            out = sample.output_process_fn_grad(op(sample.input, *sample.args, **sample.kwargs))
    else:
        out = sample.output_process_fn_grad(op(sample.input, *sample.args, **sample.kwargs))
    return [
        t
        for t in tree_leaves(out)
        if isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex())
    ]


def gradients_of(
    outputs: list[torch.Tensor], inputs: list[torch.Tensor], weights: list[Any]
) -> list[torch.Tensor]:
    """Of the sum of products; zeros where nothing comes back."""
    parts = [
        (t, w) for t, w in zip(outputs, weights, strict=True) if w is not None and t.requires_grad
    ]
    if not parts:
        return [torch.zeros_like(i) for i in inputs]
    grads = torch.autograd.grad(
        [t for t, _ in parts], inputs, [w for _, w in parts], allow_unused=True
    )
    return [torch.zeros_like(i) if g is None else g for g, i in zip(grads, inputs, strict=True)]


def second_of(
    outputs: list[torch.Tensor], inputs: list[torch.Tensor], weights: list[Any]
) -> list[torch.Tensor] | None:
    """Gradients of a weighted sum of the gradients, or None where there are none.  The weights do
    not depend on the gradients: of a large one, rounding would decide its sine."""
    parts = [
        (t, w) for t, w in zip(outputs, weights, strict=True) if w is not None and t.requires_grad
    ]
    grads = torch.autograd.grad(
        [t for t, _ in parts],
        inputs,
        [w for _, w in parts],
        allow_unused=True,
        create_graph=True,
    )
    grads = [g for g in grads if g is not None and g.requires_grad]
    if not grads:
        return None
    r = torch.Generator().manual_seed(11)
    seconds = [torch.randn(g.shape, dtype=g.dtype, generator=r) for g in grads]
    made = torch.autograd.grad(grads, inputs, seconds, allow_unused=True)
    return [torch.zeros_like(i) if g is None else g for g, i in zip(made, inputs, strict=True)]


def check_second(op: Any, sample: Any, weights: list[Any]) -> str:
    """'' when second derivatives agree, or are refused in PyTorch's words."""
    inputs = inputs_of(sample)
    try:
        want = second_of(outputs_of(op, sample, False), inputs, weights)
    except Exception:  # noqa: BLE001
        return ""
    if want is None or not all(bool(w.isfinite().all()) for w in want):
        return ""
    try:
        got = second_of(outputs_of(op, sample, True), inputs, weights)
    except Exception as x:  # noqa: BLE001
        text = str(x).strip().split("\n")[-1]
        return "" if "is not implemented" in text else f"second: {type(x).__name__}: {text[:150]}"
    got = [torch.zeros_like(i) for i in inputs] if got is None else got
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        try:
            rtol, atol = TOLERANCE[w.dtype]
            torch.testing.assert_close(g, w, rtol=rtol * 10, atol=atol * 10, equal_nan=True)
        except AssertionError as x:
            return f"second gradient {i} differs: " + " ".join(str(x).split())[:150]
    return ""


def expected(op: Any, sample: Any) -> Any:
    """PyTorch's gradients and the weights of the sum, or None where it has none."""
    try:
        outputs = outputs_of(op, sample, False)
        if not any(t.requires_grad for t in outputs) or any(
            t.layout != torch.strided for t in outputs
        ):
            return None
        g = torch.Generator().manual_seed(7)
        weights = [
            torch.randn(t.shape, dtype=t.dtype, generator=g) if t.requires_grad else None
            for t in outputs
        ]
        return gradients_of(outputs, inputs_of(sample), weights), weights
    except Exception:  # noqa: BLE001
        return None


def check(op: Any, sample: Any) -> str | None:
    """'' when the gradients agree, None when PyTorch has none here, else why not."""
    want = expected(op, sample)
    if want is None:
        return None
    try:
        outputs = outputs_of(op, sample, True)
        if len(outputs) != len(want[1]):
            return f"{len(outputs)} results, not {len(want[1])}"
        got = gradients_of(outputs, inputs_of(sample), want[1])
    except Exception as x:  # noqa: BLE001
        text = str(x).strip().split("\n")
        return text[0] if isinstance(x, Missing) else f"{type(x).__name__}: {text[-1][:150]}"
    for i, (g, w) in enumerate(zip(got, want[0], strict=True)):
        try:
            rtol, atol = TOLERANCE[w.dtype]
            torch.testing.assert_close(g, w, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as x:
            return f"gradient {i} differs: " + " ".join(str(x).split())[:150]
    is_fine = all(w.dtype in (torch.float64, torch.complex128) for w in want[0])
    return check_second(op, sample, want[1]) if GRAPHS[0] and is_fine else ""


def samples(op: Any, dtype: torch.dtype, most: int) -> Iterator[Any]:
    """The first `most`, all when 0."""
    torch.manual_seed(3)
    try:
        for i, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=True)):
            if most and i >= most:
                return
            yield sample
    except Exception:  # noqa: BLE001
        return


def walk(op: Any, counts: tuple[int, ...]) -> dict[str, Any]:
    """Counts and reasons of one entry; how many samples in each dtype of TOLERANCE's first ones, 0:
    all."""
    row: dict[str, Any] = {"samples": 0, "passed": 0, "why": collections.Counter()}
    dtypes = op.supported_backward_dtypes("cpu")
    for dtype, most in zip(TOLERANCE, counts, strict=False):
        if dtype not in dtypes:
            continue
        for sample in samples(op, dtype, most):
            why = check(op, sample)
            if why is None:
                continue
            row["samples"] += 1
            row["passed"] += why == ""
            if why:
                row["why"][
                    f"{str(dtype)[6:]}: {why}" if not why.startswith("no formula") else why
                ] += 1
    return row


def full_name(op: Any) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def unreached() -> list[str]:
    """Formulas of the table that did not run, by operator; those of variants are their bases'."""
    found = []
    for name, row in table().rows.items():
        if "grad" in row.entry and not row.base:
            formulas = rushlight.ops.gradient(name)
            found += [
                f"{name} for {i}" for i, f in formulas.items() if (name, f.inputs) not in REACHED
            ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="entries whose names contain it")
    parser.add_argument("--exact", default="", help="entries of these names, with commas between")
    parser.add_argument("--samples", type=int, default=0, help="of each dtype; 0: all")
    parser.add_argument("--all", action="store_true", help="every reason, not the first two")
    parser.add_argument("--graph", action="store_true", help="through prim::DifferentiableGraph")
    parser.add_argument(
        "--plans", action="store_true", help="--graph, each program called until it has a plan"
    )
    parser.add_argument("--json", help="write what passed, failed, lacks a formula")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    GRAPHS[0] = options.graph or options.plans
    graph_calls.CALLS[0] = 3 if options.plans else 1
    went: dict[str, Any] = {"passed": [], "failed": {}, "reasons": EXCEPTIONS}
    lacking: collections.Counter[str] = collections.Counter()
    for op in op_db:
        name = full_name(op)
        if (
            not op.supports_autograd
            or options.only not in name
            or (options.exact and op.name not in options.exact.split(","))
        ):
            continue
        row = walk(op, (options.samples, options.samples, 5))
        if row["samples"] == 0:
            continue
        good = row["passed"] == row["samples"]
        if good:
            went["passed"].append(name)
        else:
            went["failed"][name] = dict(row["why"])
            lacking.update(
                {
                    w.removeprefix("no formula of ").split(" for ")[0]
                    for w in row["why"]
                    if w.startswith("no formula")
                }
            )
        word = "ok  " if good else "know" if name in EXCEPTIONS else "FAIL"
        print(f"{word} {name}: {row['passed']} of {row['samples']}", flush=True)
        if good and name in EXCEPTIONS:
            print("       passes now: take it off EXCEPTIONS")
        for why, n in list(row["why"].items())[: None if options.all else 2]:
            print(f"       {n} x {why}")
    if lacking:
        print("lacking:", ", ".join(f"{n} ({k})" for n, k in lacking.most_common()))
    went["unreached"] = unreached()
    if not (options.only or options.exact or GRAPHS[0]):  # graphs do not count their formulas
        print("formulas that no sample reaches:", ", ".join(went["unreached"]))
    total = len(went["passed"]) + len(went["failed"])
    print(
        f"{len(went['passed'])} of {total} entries pass "
        f"({100 * len(went['passed']) / max(total, 1):.1f} %)"
    )
    if GRAPHS[0]:
        print(f"{graph_calls.MADE['programs']} programs, {graph_calls.MADE['not built']} not built")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(went, indent=1))
    return 0 if set(went["failed"]) <= set(EXCEPTIONS) else 1


if __name__ == "__main__":
    sys.exit(main())
