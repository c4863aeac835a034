"""How many operators of PyTorch's default decomposition table are decomposed here.

    python tests/python/decompose_walk.py [--only REGEX] [--samples N] [--all]

The operators are the aten keys of torch.export.default_decompositions(). Each is tried on samples:
the calls that PyTorch's own samples (op_db) make of it, before and behind autograd, and of its
in-place and out= forms those of the functional one. A sample is a program of one call, exported by
PyTorch, saved, and opened here. An operator counts if PyTorch can export and decompose such a
program and Rushlight can run it; then run_decompositions() must leave no operator of the table, and
both PyTorch and Rushlight must compute the same results from what comes out.

A line for each operator that does not hold, then the numbers. test_decompose_walk.py tries some.
"""

from __future__ import annotations

import argparse
import collections
import io
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from op_walk import difference
from rushlight import export as ours
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

Sample = tuple[tuple, dict]
# Sizes stay nodes.
KEPT = {"aten.sym_size.int", "aten.sym_stride.int", "aten.sym_is_contiguous.default"}
DTYPES = [torch.float32, torch.int64, torch.bool, torch.complex64]
# Vectors that may be turned around.
UP_TO_SIGN = {"linalg_eigh", "linalg_svd", "svd", "qr"}
# Memory that is left as it was.
UNDEFINED = {"empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided", "resize_as"}


def table() -> dict[str, Any]:
    """The operators of aten that PyTorch decomposes by default, by name."""
    keys = [o for o in torch.export.default_decompositions() if str(o).startswith("aten.")]
    return {str(o): o for o in sorted(keys, key=str) if str(o) not in KEPT}


TABLE = table()


# -- Samples


class Found(collections.defaultdict[str, list[Sample]]):
    """Calls of operators by name, `most` of each, with copies of their tensors."""

    def __init__(self, most: int) -> None:
        super().__init__(list)
        self.most = most

    def note(self, func: Any, args: Any, kwargs: Any) -> None:
        calls = self[str(func)]
        if str(func).startswith("aten.") and len(calls) < self.most:
            calls.append(pytree.tree_map(copied, (args, kwargs)))


class Log(TorchDispatchMode):
    """Notes the calls that are left behind autograd."""

    def __init__(self, found: Found) -> None:
        super().__init__()
        self.found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found.note(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


class Runs(torch.fx.Interpreter):
    """Runs a graph, and notes its calls."""

    def __init__(self, graph: Any, found: Found) -> None:
        super().__init__(graph)
        self.found = found

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        self.found.note(target, args, kwargs)
        return super().call_function(target, args, kwargs)


def copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def trace(function: Callable, sample: Any, found: Found) -> None:
    """Note the operators that the function calls, before autograd's decompositions."""
    leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]

    def of_tensors(*tensors: torch.Tensor) -> Any:
        for i, t in zip(places, tensors, strict=True):
            leaves[i] = t
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return function(*args, **kwargs)

    given = [copied(leaves[i]) for i in places]
    with torch.no_grad():
        graph = make_fx(of_tensors, pre_dispatch=True)(*map(copied, given))
        Runs(graph, found).run(*given)


def differentiate(function: Callable, sample: Any, found: Found) -> None:
    """Note the operators behind autograd, of the call and of its gradient."""
    args = (sample.input, *sample.args)
    leaves = [t for t in pytree.tree_leaves((args, sample.kwargs)) if isinstance(t, torch.Tensor)]
    wanted = [t.requires_grad_() for t in leaves if t.is_floating_point() and t.is_leaf]
    with Log(found):
        results = pytree.tree_leaves(function(*args, **sample.kwargs))
        whole = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
        if wanted and whole:
            seeds = [torch.ones_like(r) for r in whole]
            torch.autograd.grad(whole, wanted, seeds, allow_unused=True)


def harvest(most: int, traced: int = 3) -> Found:
    """Calls of the table's operators in PyTorch's samples; the first of each entry are traced."""
    found = Found(most)
    for op in op_db:
        for dtype in DTYPES:
            if not op.supports_dtype(dtype, "cpu"):
                continue
            torch.manual_seed(0)
            for i, sample in enumerate(first(op.sample_inputs("cpu", dtype), 12)):
                jobs = [(differentiate, op.op)]
                if i < (traced if dtype == torch.float32 else 1):
                    others = [a.op for a in op.aliases] if i == 0 else []
                    jobs += [(trace, f) for f in (op.op, op.get_inplace(), *others)]
                for job, function in jobs:
                    try:
                        if function is not None:
                            job(function, sample, found)
                    except Exception:  # a sample that is not for this form, or has no gradient
                        continue
    return found


def first(items: Any, n: int) -> Iterator[Any]:
    try:
        for i, item in enumerate(items):
            if i == n:
                return
            yield item
    except Exception:  # the samples' own code does not support every dtype
        return


def written(op: Any) -> list[Any]:
    return [a for a in op._schema.arguments if a.alias_info and a.alias_info.is_write]


def functional_samples(op: Any, found: Found) -> list[Sample]:
    """Samples of an in-place or out= form, made of those of the operator without."""
    name = op._schema.name.removeprefix("aten::")
    outs = [a.name for a in written(op) if a.kwarg_only]
    base = name if outs else name.removesuffix("_")
    if not written(op):
        return []
    packet = getattr(torch.ops.aten, base, None)
    made: list[Sample] = []
    for overload in packet.overloads() if packet else []:
        other = getattr(packet, overload)
        takes = [(a.name, str(a.type)) for a in other._schema.arguments]
        wanted = [(a.name, str(a.type)) for a in op._schema.arguments if a.name not in outs]
        if takes != wanted:
            continue
        made += [s for sample in found[str(other)] if (s := with_outs(op, other, sample, outs))]
    return made


def with_outs(op: Any, base: Any, sample: Sample, outs: list[str]) -> Sample | None:
    args, kwargs = pytree.tree_map(copied, sample)
    results = base(*args, **kwargs)
    results = results if isinstance(results, tuple) else (results,)
    if not outs:
        same = results[0].dtype == args[0].dtype and results[0].shape == args[0].shape
        return sample if same else None
    tensors = [torch.zeros_like(r) for r in results if isinstance(r, torch.Tensor)]
    if len(tensors) != len(outs):
        return None
    return sample[0], {**sample[1], **dict(zip(outs, tensors, strict=True))}


# Calls that op_db does not make.
X = torch.arange(-5.0, 7.0).reshape(3, 4) / 3
P = X.abs() + 0.25
N = torch.arange(12).reshape(3, 4)
B = N > 4
IMAGE = torch.arange(48.0).reshape(1, 3, 4, 4) / 7
LINE = IMAGE.reshape(1, 3, 16)
SOLID = IMAGE.reshape(1, 1, 3, 4, 4)
RNN_X, RNN_H = torch.randn(5, 2, 3), torch.randn(1, 2, 4)


def cells(n: int) -> list[torch.Tensor]:
    """Weights of one layer with n gates."""
    return [torch.randn(4 * n, 3), torch.randn(4 * n, 4), torch.randn(4 * n), torch.randn(4 * n)]


def layer(n: int, state: Any) -> Sample:
    return (RNN_X, state, cells(n), True, 1, 0.0, False, False, False), {}


def one_step(n: int, state: Any) -> Sample:
    return (torch.randn(2, 3), state, *cells(n)), {}


H = torch.randn(2, 4)
CONV = (IMAGE, torch.randn(2, 3, 3, 3), torch.randn(2))
SCALES = torch.tensor([0.1, 0.2, 0.3])
OFFSETS = torch.zeros(3, dtype=torch.int32)
CALLS: dict[str, Any] = {
    **{f"__{n}__.Scalar": (N, 3) for n in ("and", "or", "xor")},
    **{f"__{n}__.Tensor": (N, N.flip(0)) for n in ("and", "or", "xor")},
    **{f"_cast_{n}.default": (X,) for n in ("Byte", "Char", "Double", "Float", "Half", "Int")},
    **{f"_cast_{n}.default": (X,) for n in ("Long", "Short")},
    "_convolution.deprecated": (*CONV, [1, 1], [1, 1], [1, 1], False, [0, 0], 1) + (False,) * 3,
    "_convolution_mode.default": (*CONV, [1, 1], "same", [1, 1], 1),
    "conv2d.padding": (*CONV, [1, 1], "valid"),
    "conv1d.padding": (LINE, torch.randn(2, 3, 4), None, [1], "same"),
    "conv3d.padding": (SOLID, torch.randn(2, 1, 2, 2, 2), None, [1, 1, 1], "same"),
    "thnn_conv2d.default": (*CONV[:2], [3, 3], CONV[2]),
    "slow_conv3d.default": (SOLID, torch.randn(2, 1, 2, 2, 2), [2, 2, 2]),
    "_euclidean_dist.default": (X, X.flip(0) + 1),
    "_fused_rms_norm.default": (X, [4], torch.randn(4), 1e-5),
    "_pad_circular.default": (IMAGE, [1, 2, 0, 1]),
    "_pad_enum.default": (IMAGE, [1, 2, 0, 1], 1),
    "_reshape_alias.default": (X, [4, 3], [3, 1]),
    "_scaled_dot_product_attention_math.default": (IMAGE, IMAGE, IMAGE),
    "_shape_as_tensor.default": (X,),
    "_unsafe_index.Tensor": (X, [torch.tensor([0, 2]), None]),
    "_unsafe_index_put.default": (X, [torch.tensor([0, 2])], torch.ones(2, 4)),
    "_weight_norm.default": (X, torch.randn(3, 1), 0),
    "_weight_norm_interface.default": (X, torch.randn(3, 1), 0),
    "absolute.default": (X,),
    "affine_grid_generator.default": (torch.randn(2, 2, 3), [2, 1, 4, 5], True),
    **{f"atleast_{k}d.Sequence": ([X, X[0], X[0, 0]],) for k in (1, 2, 3)},
    "chain_matmul.default": ([X, X.t(), X],),
    "clamp_max.default": (X, 0.5),
    "clip.Tensor": (X, X - 1, X + 1),
    "divide.Scalar_mode": (X, 0.5, "floor"),
    "divide.Tensor_mode": (X, P, "trunc"),
    "embedding_bag.default": (X, torch.tensor([0, 2, 1, 0]), torch.tensor([0, 2])),
    "eye.m_out": ((3, 4), {"out": torch.empty(3, 4)}),
    "eye.out": ((3,), {"out": torch.empty(3, 3)}),
    "fake_quantize_per_tensor_affine.default": (X, 0.1, 0, -8, 7),
    "fake_quantize_per_tensor_affine.tensor_qparams": (X, SCALES[:1], OFFSETS[:1], -8, 7),
    "fake_quantize_per_channel_affine.default": (X, SCALES, OFFSETS, 0, -8, 7),
    "fake_quantize_per_tensor_affine_cachemask_backward.default": (X, B),
    "fake_quantize_per_channel_affine_cachemask_backward.default": (X, B),
    "fill.Tensor": (X, torch.tensor(2.0)),
    "flatten_dense_tensors.default": ([X, N.float()],),
    "unflatten_dense_tensors.default": (torch.arange(24.0), [X, X]),
    "float_power.Scalar": (2.0, X),
    "float_power.Tensor_Scalar": (P, 2.5),
    "floor_divide.Scalar": (X, 0.4),
    "frobenius_norm.dim": (X, [1]),
    "gather_backward.default": (X, X, 1, N % 4, False),
    "gradient.scalarint": (X,),
    "hann_window.default": (7,),
    "hann_window.periodic": (7, False),
    "index_select_backward.default": (X, [5, 4], 0, torch.tensor([1, 4, 0])),
    "infinitely_differentiable_gelu_backward.default": (X, X + 1),
    "isin.Scalar_Tensor": (3, N),
    "isin.Tensor_Scalar": (N, 3),
    "item.default": (torch.tensor(3),),
    "linalg_matmul.default": (X, X.t()),
    "linalg_matrix_norm.default": (X,),
    "linalg_matrix_rank.default": (X, 1e-3),
    "linalg_norm.ord_str": (X, "nuc"),
    "linspace.out": ((0.0, 1.0, 5), {"out": torch.empty(5)}),
    "logspace.out": ((0.0, 1.0, 5), {"out": torch.empty(5)}),
    "lstm.input": layer(4, [RNN_H, RNN_H]),
    "gru.input": layer(3, RNN_H),
    "rnn_tanh.input": layer(1, RNN_H),
    "rnn_relu.input": layer(1, RNN_H),
    "lstm_cell.default": one_step(4, [H, H]),
    "gru_cell.default": one_step(3, H),
    "rnn_tanh_cell.default": one_step(1, H),
    "rnn_relu_cell.default": one_step(1, H),
    "matrix_power.default": (X @ X.t() / 9, 3),
    "meshgrid.default": ([X[0], X[1]],),
    "nanquantile.default": (X, torch.tensor([0.2, 0.7]), 1),
    "quantile.default": (X, torch.tensor([0.2, 0.7]), 1),
    "native_channel_shuffle.default": (IMAGE.reshape(1, 6, 2, 4), 3),
    "channel_shuffle.default": (IMAGE.reshape(1, 6, 2, 4), 3),
    "new_full.default": (X, [2, 3], 1.5),
    "nll_loss.default": (X, torch.tensor([1, 0, 3])),
    "nll_loss2d.default": (IMAGE, torch.ones(1, 4, 4, dtype=torch.int64)),
    "norm.Scalar": (X, 3),
    "norm.ScalarOpt_dim_dtype": ((X, 3, [1]), {"dtype": torch.float64}),
    "norm.ScalarOpt_dtype": ((X, 3), {"dtype": torch.float64}),
    "norm_except_dim.default": (X, 2, 0),
    "nuclear_norm.default": (X,),
    "nuclear_norm.dim": (X, [0, 1]),
    "pad_sequence.default": ([X, X[:2]],),
    "repeat_interleave.self_Tensor": ((X, torch.tensor([1, 2, 0]), 0), {"output_size": 3}),
    "slogdet.default": (X[:3, :3] @ X[:3, :3].t() + torch.eye(3),),
    "soft_margin_loss_backward.default": (X, X + 1, X.sign(), 0),
    "special_logsumexp.default": (X, [1]),
    "special_xlog1py.other_scalar": (P, 0.5),
    "special_xlog1py.self_scalar": (0.5, P),
    "special_xlogy.other_scalar": (P, 0.5),
    "special_xlogy.self_scalar": (0.5, P),
    "xlogy.Scalar_Other": (P, 0.5),
    "xlogy.Scalar_Self": (0.5, P),
    "squeeze_copy.dims": (X[:, None, :, None], [1, 3]),
    "trace_backward.default": (torch.tensor(2.0), [3, 4]),
    "trapezoid.dx": ((X,), {"dx": 0.5}),
    "trapz.dx": ((X,), {"dx": 0.5}),
    "cumulative_trapezoid.dx": ((X,), {"dx": 0.5}),
    "type_as.default": (X, N),
    "unsafe_split_with_sizes.default": (X, [1, 3], 1),
    "upsample_nearest1d.vec": (LINE, None, [2.0]),
    "upsample_nearest3d.vec": (SOLID, [2, 5, 3], None),
    "_upsample_nearest_exact1d.vec": (LINE, [7], None),
    "_upsample_nearest_exact2d.vec": (IMAGE, None, [2.0, 1.5]),
    "_upsample_nearest_exact3d.vec": (SOLID, [2, 5, 3], None),
    "_upsample_bicubic2d_aa.vec": (IMAGE, [3, 2], False, None),
    "_upsample_lanczos2d_aa.vec": (IMAGE, [3, 2], False, None),
    "vander.default": (X[0], 3),
    "where.Scalar": (B, 1, 2.5),
    "where.ScalarOther": (B, X, 2),
    "where.ScalarSelf": (B, 2, X),
    "where.default": (B,),
    "zero.default": (X,),
    "empty_like.default": (X,),
    "zeros_like.default": (X,),
    "einsum.default": ("b...ij, b...jk -> ...ki", [IMAGE, IMAGE]),
    "upsample_bicubic2d.vec": (IMAGE, None, False, [2.0, 2.0]),
}


def given(name: str) -> list[Sample]:
    call = CALLS.get(name.removeprefix("aten."))
    if call is None:
        return []
    return [call if len(call) == 2 and isinstance(call[1], dict) else (call, {})]


def samples_of(op: Any, found: Found) -> list[Sample]:
    def usable(sample: Sample) -> bool:
        tensors = [t for t in pytree.tree_leaves(sample) if isinstance(t, torch.Tensor)]
        return all(type(t) is torch.Tensor and t.layout == torch.strided for t in tensors)

    made = given(str(op)) + found[str(op)]
    if not made:
        try:
            made = functional_samples(op, found)
        except Exception:
            made = []
    return [s for s in made if usable(s)]


# -- One program


class Call(nn.Module):
    """Calls the operator; its tensors are inputs, what it writes to are copies and results."""

    def __init__(self, op: Any, sample: Sample) -> None:
        super().__init__()
        leaves, self.spec = pytree.tree_flatten(sample)
        self.op = op
        self.plain = [None if isinstance(x, torch.Tensor) else x for x in leaves]
        self.places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        self.inputs = tuple(leaves[i] for i in self.places)

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.plain)
        has_writes = bool(written(self.op))
        copies = [t.clone() if has_writes else t for t in tensors]
        for i, t in zip(self.places, copies, strict=True):
            leaves[i] = t
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        result = self.op(*args, **kwargs)
        return (result, copies) if has_writes else (result, tensors[:1])


class Skip(Exception):
    """The sample says nothing about the operator."""


def targets(program: Any) -> set[str]:
    graphs = [m for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    return {str(n.target) for g in graphs for n in g.graph.nodes if n.op == "call_function"}


by_pytorch: set[str] = set()  # operators that PyTorch has decomposed once


def exported(op: Any, sample: Sample) -> tuple[Call, Any, bytes]:
    """The module, PyTorch's reading of its program, the file."""
    call = Call(op, sample)
    try:
        program = torch.export.export(call, call.inputs, strict=False)
        data = io.BytesIO()
        torch.export.save(program, data)
        program = torch.export.load(io.BytesIO(data.getvalue()))
    except Exception as error:
        raise Skip(f"PyTorch does not export it: {said(error)}") from None
    if str(op) not in targets(program):
        raise Skip("PyTorch exports it as other operators")
    if str(op) not in by_pytorch:
        try:
            left = targets(program.run_decompositions()) & {str(op)}
        except Exception as error:
            raise Skip(f"PyTorch does not decompose it: {said(error)}") from None
        if left:
            raise Skip("PyTorch leaves it")
        by_pytorch.add(str(op))
    return call, program, data.getvalue()


def said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split()):.150}"


def run(module: Any, inputs: tuple) -> Any:
    torch.manual_seed(0)
    return module(*pytree.tree_map(copied, inputs))


def check(op: Any, sample: Sample) -> str:
    """What is wrong, or ''. Raises Skip where there is nothing to check."""
    call, program, data = exported(op, sample)
    ending = ours.load(io.BytesIO(data))
    try:
        run(ending.module(), call.inputs)
    except NotImplementedError as error:
        raise Skip(f"Rushlight does not run it: {said(error)}") from None
    except Exception as error:
        raise Skip(f"Rushlight refuses the call: {said(error)}") from None
    try:
        made = ending.run_decompositions()
    except Exception as error:
        return f"open: {said(error)}"
    made.validate()
    saved = io.BytesIO()
    ours.save(made, saved)
    theirs = torch.export.load(io.BytesIO(saved.getvalue()))
    if left := targets(theirs) & set(TABLE):
        return f"left: {', '.join(sorted(left))}"
    want = run(program.module(), call.inputs)
    name = op._schema.name.split("::")[1]
    if torch.Tag.nondeterministic_seeded in op.tags or name in UNDEFINED:
        name = "empty"
    for who, module in (("here", made.module()), ("by PyTorch", theirs.module())):
        try:
            got = run(module, call.inputs)
        except Exception as error:
            return f"refused {who}: {said(error)}"
        if why := different(got, want, name):
            return f"differs {who}: {why}"
    return ""


def different(got: Any, want: Any, name: str) -> str:
    """What differs; strides may, as after PyTorch's own decompositions."""
    for g, w in zip(pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True):
        tensors = isinstance(g, torch.Tensor) and isinstance(w, torch.Tensor)
        wide = (5e-4, 1e-3) if tensors and (w.is_floating_point() or w.is_complex()) else None
        a, b = (g.contiguous(), w.contiguous()) if tensors else (g, w)
        if name in UP_TO_SIGN:
            a, b = a.abs(), b.abs()
        if why := difference(a, b, name, wide):
            return why
    return ""


# -- All of them


class Outcome:
    """What became of an operator: why it does not hold, or is not counted."""

    def __init__(self, op: Any, found: Found, most: int) -> None:
        self.n = 0
        self.wrong = self.skipped = ""
        self.ways: list[str] = []
        for sample in samples_of(op, found)[:most]:
            try:
                why = check(op, sample)
                self.n += 1
                self.ways.append(why)
                self.wrong = self.wrong or why
            except Skip as reason:
                self.skipped = self.skipped or str(reason)
            except Exception as error:
                self.n += 1
                self.wrong = self.wrong or f"failed: {said(error)}"
        if not self.n and not self.skipped:
            self.skipped = "no sample"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="operators whose name matches")
    parser.add_argument("--samples", type=int, default=4, help="of each operator")
    parser.add_argument("--all", action="store_true", help="also those that are not counted")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found = harvest(options.samples)
    held = counted = 0
    reasons: collections.Counter = collections.Counter()
    for name, op in TABLE.items():
        if not re.search(options.only, name):
            continue
        outcome = Outcome(op, found, options.samples)
        counted += outcome.n > 0
        held += outcome.n > 0 and not outcome.wrong
        if not outcome.n:
            reasons[outcome.skipped.split(":")[0]] += 1
        if outcome.wrong or (options.all and not outcome.n):
            print(f"{name:<50} {outcome.wrong or outcome.skipped}", flush=True)
    print(f"\n{len(TABLE)} operators of aten in PyTorch's default table; not counted:")
    for reason, n in reasons.most_common():
        print(f"  {n:>4} {reason}")
    print(f"{held} of {counted} operators decompose ({held / max(counted, 1):.1%})")
    return 0 if held >= 0.95 * counted else 1


if __name__ == "__main__":
    sys.exit(main())
