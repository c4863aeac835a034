"""The *_backward operators against PyTorch's, on random arguments of every float type that PyTorch
takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import rushlight  # noqa: E402

aten = torch.ops.aten
TOLERANCE = {torch.float64: (1e-9, 1e-9), torch.float32: (5e-5, 2e-5), torch.bfloat16: (2e-2, 2e-2)}
CASES: dict[str, Callable[[Any], tuple]] = {}


class Draw:
    """Random tensors of one dtype."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.wide = torch.float32 if dtype == torch.bfloat16 else dtype

    def __call__(self, *sizes: int, last: bool = False, scale: float = 1.0) -> torch.Tensor:
        t = (torch.randn(sizes, dtype=torch.float64) * scale).to(self.dtype)
        return t.contiguous(memory_format=torch.channels_last) if last else t

    def unit(self, *sizes: int) -> torch.Tensor:
        return (torch.rand(*sizes, dtype=torch.float64) * 0.98 + 0.01).to(self.dtype)

    def ints(self, high: int, *sizes: int) -> torch.Tensor:
        return torch.randint(0, high, sizes)


def case(name: str, *made: Callable[[Draw], tuple]) -> None:
    for i, make in enumerate(made):
        CASES[f"{name}#{i}"] = make


# -- Pointwise

S = (3, 5, 7)
for name, more in (
    ("threshold_backward", (0.2,)),
    ("sigmoid_backward", ()),
    ("tanh_backward", ()),
    ("hardtanh_backward", (-0.5, 1.0)),
    ("hardsigmoid_backward", ()),
    ("hardswish_backward", ()),
    ("leaky_relu_backward", (0.1, False)),
    ("silu_backward", ()),
    ("mish_backward", ()),
    ("softplus_backward", (1.5, 2.0)),
    ("gelu_backward", ()),
    ("softshrink_backward", (0.4,)),
    ("hardshrink_backward", (0.4,)),
    ("logit_backward", (0.3,)),
):
    case(name, lambda r, more=more: (r(*S, scale=3), r(*S, scale=3), *more))
case("gelu_backward.tanh", lambda r: (r(*S), r(*S), {"approximate": "tanh"}))
case(
    "elu_backward",
    lambda r: (r(*S), 1.5, 1.2, 0.7, False, r(*S)),
    lambda r: (r(*S), 1.5, 1.2, 0.7, True, r(*S)),
)
case("logit_backward.none", lambda r: (r(*S), r.unit(*S), None))
case("log_sigmoid_backward", lambda r: (r(*S), x := r(*S), torch.exp(-x.abs())))
case("glu_backward", lambda r: (r(3, 2, 5), r(3, 4, 5), 1), lambda r: (r(3, 4, 3), r(3, 4, 6), -1))
case("_prelu_kernel_backward", lambda r: (r(*S), r(*S), r(1, 5, 1)))
case(
    "rrelu_with_noise_backward",
    lambda r: (r(*S), r(*S), r.unit(*S), 0.1, 0.4, True, False),
    lambda r: (r(*S), r(*S), r.unit(*S), 0.1, 0.4, False, False),
)
case("native_dropout_backward", lambda r: (r(*S), r(*S) > 0, 1.25))

# -- Losses

for name, more in (
    ("mse_loss_backward", ()),
    ("smooth_l1_loss_backward", (0.7,)),
    ("huber_loss_backward", (0.6,)),
    ("soft_margin_loss_backward", ()),
):
    for k in range(3):
        case(
            f"{name}.{k}",
            lambda r, k=k, more=more: (r(*(S if k == 0 else ())), r(*S), r(*S), k, *more),
        )
for k in range(3):
    case(
        f"binary_cross_entropy_backward.{k}",
        lambda r, k=k: (r(*(S if k == 0 else ())), r.unit(*S), r.unit(*S), r(*S) if k else None, k),
    )
    case(
        f"nll_loss_backward.{k}",
        lambda r, k=k: (
            r(*((6,) if k == 0 else ())),
            r(6, 5),
            t := r.ints(5, 6),
            w := r.unit(5),
            k,
            2,
            (w[t] * (t != 2)).sum().to(r.dtype),
        ),
    )
    case(
        f"nll_loss2d_backward.{k}",
        lambda r, k=k: (
            r(*((2, 3, 4) if k == 0 else ())),
            r(2, 5, 3, 4),
            r.ints(5, 2, 3, 4),
            None,
            k,
            1,
            torch.tensor(19.0, dtype=r.dtype),
        ),
    )
    case(
        f"multi_margin_loss_backward.{k}",
        lambda r, k=k: (
            r(*((6,) if k == 0 else ())),
            r(6, 5),
            r.ints(5, 6),
            1 + k % 2,
            0.8,
            r.unit(5) if k else None,
            k,
        ),
    )
    case(
        f"multilabel_margin_loss_backward.{k}",
        lambda r, k=k: (
            r(*((3,) if k == 0 else ())),
            x := r(3, 4),
            t := torch.tensor([[1, 3, -1, 0], [0, -1, 2, 2], [3, 2, 1, 0]]),
            k,
            aten.multilabel_margin_loss_forward(x, t, k)[1],
        ),
    )

# -- Layers


def norm(kind: str, weight: bool, mask: list[bool]) -> Callable[[Draw], tuple]:
    def make(r: Draw) -> tuple:
        x, w, b = r(4, 6, 5), r(6, 5) if weight else None, r(6, 5) if weight else None
        if kind == "layer":
            _, m, s = aten.native_layer_norm(x, [6, 5], w, b, 1e-5)
            return r(4, 6, 5), x, [6, 5], m, s, w, b, mask
        w, b = (r(6), r(6)) if weight else (None, None)
        if kind == "group":
            _, m, s = aten.native_group_norm(x, w, b, 4, 6, 5, 3, 1e-5)
            return r(4, 6, 5), x, m, s, w, 4, 6, 5, 3, mask
        x, train = r(4, 6, 5, 3), kind == "train"
        mean, var = r(6), r.unit(6)
        _, m, s = aten.native_batch_norm(x, w, b, mean, var, train, 0.1, 1e-3)
        return r(4, 6, 5, 3), x, w, mean, var, m, s, train, 1e-3, mask

    return make


ALL = [True, True, True]
case(
    "native_layer_norm_backward",
    norm("layer", True, ALL),
    norm("layer", False, [True, False, False]),
)
case(
    "native_group_norm_backward",
    norm("group", True, ALL),
    norm("group", False, [True, False, False]),
)
case(
    "native_batch_norm_backward",
    norm("train", True, ALL),
    norm("train", False, [True, False, False]),
    norm("eval", True, ALL),
    norm("eval", True, [False, True, False]),
)
case(
    "_softmax_backward_data",
    lambda r: (r(*S), r.unit(*S), 1, r.dtype),
    lambda r: (r(*S), r.unit(*S), -1, r.dtype),
)
case("_log_softmax_backward_data", lambda r: (r(*S), -r.unit(*S), 1, r.dtype))


def conv(
    n: int,
    stride: int,
    pad: int,
    apart: int,
    transposed: bool,
    groups: int,
    mask: list[bool],
    batch: int = 2,
    wide: bool = True,
) -> Callable[[Draw], tuple]:
    def make(r: Draw) -> tuple:
        space, window = (7, 8, 9)[:n], ((3, 2, 3) if wide else (1, 1, 1))[:n]
        x = r(batch, 4, *space)
        w = r(4, 6 // groups, *window) if transposed else r(6, 4 // groups, *window)
        out = [1] * n if transposed and stride > 1 else [0] * n
        y = aten.convolution(
            x, w, None, [stride] * n, [pad] * n, [apart] * n, transposed, out, groups
        )
        return (
            r(*y.shape),
            x,
            w,
            [6],
            [stride] * n,
            [pad] * n,
            [apart] * n,
            transposed,
            out,
            groups,
            mask,
        )

    return make


case(
    "convolution_backward",
    *[
        conv(n, s, p, d, t, g, ALL)
        for n in (1, 2, 3)
        for s, p, d in ((1, 0, 1), (2, 1, 1), (1, 1, 2), (3, 0, 2))
        for t in (False, True)
        for g in (1, 2)
    ],
    conv(2, 2, 1, 1, False, 1, [True, False, True]),
    *[
        conv(n, 2, 0, 1, t, g, ALL, wide=False)
        for n in (1, 2)
        for t in (False, True)
        for g in (1, 2)
    ],
    conv(2, 1, 1, 1, False, 1, ALL, batch=1),
)


def pooled(n: int, kind: str, *, last: bool = False) -> Callable[[Draw], tuple]:
    def make(r: Draw) -> tuple:
        x = r(2, 3, *(9, 8, 7)[3 - n :], last=last)
        k, s, p = [3, 2, 3][:n], [2, 2, 1][:n], [1, 0, 1][:n]
        if kind == "max":
            y, i = getattr(aten, f"max_pool{n}d_with_indices")(x, k, s, p, [1] * n, True)
            return r(*y.shape), x, k, s, p, [1] * n, True, i
        if kind == "adaptive_max":
            y, i = getattr(aten, f"adaptive_max_pool{n}d")(x, [4, 3, 5][:n])
            return r(*y.shape), x, i
        if kind == "fractional":
            y, i = getattr(aten, f"fractional_max_pool{n}d")(
                x, k, [4, 3, 4][:n], torch.rand(2, 3, n, dtype=r.dtype)
            )
            return r(*y.shape), x, k, [4, 3, 4][:n], i
        if kind == "adaptive_avg":
            return r(2, 3, *[4, 3, 10][:n]), x
        counted, divisor = kind == "padded", 5 if kind == "divided" else None
        y = getattr(aten, f"avg_pool{n}d")(x, k, s, p, True, counted, divisor)
        return r(*y.shape, last=last), x, k, s, p, True, counted, divisor

    return make


for n in (2, 3):
    case(f"max_pool{n}d_with_indices_backward", pooled(n, "max"))
    case(f"adaptive_max_pool{n}d_backward", pooled(n, "adaptive_max"))
    case(f"fractional_max_pool{n}d_backward", pooled(n, "fractional"))
    case(f"avg_pool{n}d_backward", *[pooled(n, k) for k in ("padded", "clipped", "divided")])
    case(f"_adaptive_avg_pool{n}d_backward", pooled(n, "adaptive_avg"))
    case(
        f"_adaptive_avg_pool{n}d_backward.whole",
        lambda r, n=n: (r(2, 3, *[1] * n), r(2, 3, *(9, 8, 7)[3 - n :])),
    )
case("avg_pool2d_backward.last", pooled(2, "padded", last=True))
case("max_pool2d_with_indices_backward.last", pooled(2, "max", last=True))


def resized(
    n: int, to: int, align: bool | None, scales: list | None = None, from_: int = 5
) -> Callable[[Draw], tuple]:
    def make(r: Draw) -> tuple:
        out, size = [to] * n, [2, 3] + [from_, from_ + 1, from_ + 2][:n]
        return (
            r(2, 3, *out),
            out,
            size,
            *(() if align is None else (align,)),
            *(scales or [None] * n),
        )

    return make


for n, name in enumerate(("linear1d", "bilinear2d", "trilinear3d"), 1):
    case(
        f"upsample_nearest{n}d_backward",
        resized(n, 11, None),
        resized(n, 3, None),
        resized(n, 9, None, [1.7] * n),
    )
    case(f"_upsample_nearest_exact{n}d_backward", resized(n, 11, None), resized(n, 3, None))
    case(
        f"upsample_{name}_backward",
        resized(n, 11, False),
        resized(n, 3, True),
        resized(n, 9, False, [1.7] * n),
    )
for name in (
    "upsample_bicubic2d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
    "_upsample_lanczos2d_aa",
):
    case(f"{name}_backward", resized(2, 11, False), resized(2, 3, True), resized(2, 3, False))


def sampled(n: int, mode: int, pad: int, align: bool, mask: list[bool]) -> Callable[[Draw], tuple]:
    def make(r: Draw) -> tuple:
        out = (4, 5, 3)[:n]
        return (
            r(2, 3, *out),
            r(2, 3, *(6, 5, 4)[:n]),
            r(2, *out, n, scale=0.8),
            mode,
            pad,
            align,
            mask,
        )

    return make


for n in (2, 3):
    case(
        f"grid_sampler_{n}d_backward",
        *[
            sampled(n, m, p, a, [True, True])
            for m in range(5 - n)
            for p in range(3)
            for a in (False, True)
        ],
        sampled(n, 0, 0, False, [False, True]),
    )
case(
    "affine_grid_generator_backward",
    lambda r: (r(2, 4, 5, 2), [2, 3, 4, 5], True),
    lambda r: (r(2, 4, 5, 3, 3), [2, 3, 4, 5, 3], False),
)
for kind in ("reflection", "replication"):
    for n in (1, 2, 3):
        pads = [1, 2, 2, 1, 0, 1][: 2 * n]
        case(
            f"{kind}_pad{n}d_backward",
            lambda r, n=n, pads=pads: (
                r(2, *[4 + pads[2 * i] + pads[2 * i + 1] for i in reversed(range(n))]),
                r(2, *[4] * n),
                pads,
            ),
        )

# -- Rows, distances, places

case(
    "embedding_dense_backward",
    lambda r: (r(3, 4, 5), r.ints(6, 3, 4), 6, -1, False),
    lambda r: (r(3, 4, 5), r.ints(6, 3, 4), 6, 2, True),
)


def bag(mode: int, by: bool, freq: bool, padding: int) -> Callable[[Draw], tuple]:
    def make(r: Draw) -> tuple:
        w, at, first = r(7, 5), r.ints(7, 9), torch.tensor([0, 2, 2, 6])
        weights = r(9) if by else None
        _, bags, size, most = aten._embedding_bag(
            w, at, first, freq, mode, False, weights, False, padding
        )
        if bags.numel() == 0 or mode != 2:
            bags = torch.tensor([0, 0, 2, 2, 2, 2, 3, 3, 3])
        return r(4, 5), at, bags, size, most, 7, freq, mode, weights, padding

    return make


case(
    "_embedding_bag_dense_backward",
    bag(0, False, False, -1),
    bag(0, True, True, 3),
    bag(1, False, True, -1),
    bag(2, False, False, -1),
)
case(
    "_embedding_bag_per_sample_weights_backward",
    lambda r: (
        r(4, 5),
        r(7, 5),
        r.ints(7, 9),
        torch.tensor([0, 2, 2, 6]),
        torch.tensor([0, 0, 2, 2, 2, 2, 3, 3, 3]),
        0,
    ),
)
for p in (0.0, 0.5, 1.0, 1.7, 2.0, 3.0, float("inf")):
    case(
        f"_cdist_backward.{p}",
        lambda r, p=p: (
            r(2, 4, 5),
            x := r(2, 4, 3),
            y := r(2, 5, 3),
            p,
            aten._cdist_forward(x, y, p, None),
        ),
    )
    case(f"_pdist_backward.{p}", lambda r, p=p: (r(10), x := r(5, 3), p, aten._pdist_forward(x, p)))
case("select_backward", lambda r: (r(3, 5), [3, 4, 5], 1, -2))
case("slice_backward", lambda r: (r(3, 2, 5), [3, 6, 5], 1, 1, 5, 2))
case("diagonal_backward", lambda r: (r(4, 3), [3, 4, 5], 1, 0, 2))
case("matrix_exp_backward", lambda r: (r(4, 4), r(4, 4)))
case("cumprod_backward", lambda r: (r(3, 4), x := r(3, 4), 1, x.cumprod(1)))
case("trace_backward", lambda r: (r(), [3, 4]))
case("index_select_backward", lambda r: (r(3, 6), [3, 4], 1, r.ints(4, 6)))
case(
    "masked_select_backward",
    lambda r: (r(5), r(3, 3), torch.eye(3, dtype=torch.bool).index_fill(0, torch.tensor(0), True)),
)
case(
    "value_selecting_reduction_backward", lambda r: (r(3, 5), 1, r.ints(4, 3, 5), [3, 4, 5], False)
)
case("unfold_backward", lambda r: (r(3, 3, 2), [3, 6], 1, 2, 2))


def attention(causal: bool, masked: bool, scale: float | None) -> Callable[[Draw], tuple]:
    def make(r: Draw) -> tuple:
        q, k, v = r(2, 3, 6, 4), r(2, 3, 5, 4), r(2, 3, 5, 4)
        mask = r(2, 3, 6, 5) if masked else None
        y, lse = aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, causal, attn_mask=mask, scale=scale
        )
        return r(2, 3, 6, 4), q, k, v, y, lse, 0.0, causal, {"attn_mask": mask, "scale": scale}

    return make


case(
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    attention(False, False, None),
    attention(True, False, 0.3),
    attention(False, True, None),
)


def ctc(flat: bool, zero: bool) -> Callable[[Draw], tuple]:
    def make(r: Draw) -> tuple:
        logs = torch.log_softmax(r(7, 3, 5), -1)
        targets = (
            torch.tensor([1, 2, 2, 3, 4, 1])
            if flat
            else torch.tensor([[1, 2, 2], [3, 4, 0], [1, 0, 0]])
        )
        loss, alpha = aten._ctc_loss(logs, targets, [7, 6, 5], [3, 2, 1], 0, zero)
        return r(3), logs, targets, [7, 6, 5], [3, 2, 1], loss, alpha, 0, zero

    return make


case("_ctc_loss_backward", ctc(False, False), ctc(True, True))


def called(where: Any, name: str, args: tuple) -> Any:
    kwargs = args[-1] if isinstance(args[-1], dict) else {}
    return getattr(where, name)(*(args[:-1] if kwargs else args), **kwargs)


def wide(value: Any, to: torch.dtype | None) -> Any:
    """The value on memory of its own, 16-bit floats as float32: PyTorch's own kernels round them in
    between."""
    if isinstance(value, dict):
        return {k: wide(v, to) for k, v in value.items()}
    if isinstance(value, torch.Tensor):
        return value.to(to) if to and value.dtype == torch.bfloat16 else value.clone()
    return to if to and value is torch.bfloat16 else value


@pytest.mark.parametrize("name", CASES)
def test_backward(name: str) -> None:
    op, ran = name.split("#")[0].split(".")[0], 0
    for dtype, (rtol, atol) in TOLERANCE.items():
        if dtype == torch.bfloat16 and op.startswith("grid_sampler"):
            continue  # its coordinates are 16-bit floats, too, in PyTorch
        torch.manual_seed(3)
        try:
            args = CASES[name](Draw(dtype))
            like = called(aten, op, tuple(wide(a, None) for a in args))
            want = called(aten, op, tuple(wide(a, torch.float32) for a in args))
        except (RuntimeError, NotImplementedError):
            assert dtype == torch.bfloat16, "PyTorch refuses the case"
            continue
        got = called(rushlight.ops.aten, op, args)
        single = isinstance(want, torch.Tensor)
        for g, w, x in zip(*((t,) if single else t for t in (got, want, like)), strict=True):
            assert g is None or x is not None or w is not None
            if g is not None and x is not None and w is not None:
                if dtype != torch.bfloat16 or not torch.allclose(g, x, rtol=rtol, atol=atol):
                    torch.testing.assert_close(
                        g, w.to(x.dtype), rtol=rtol, atol=atol, equal_nan=True
                    )
                assert all(
                    n < 2 or a == b for n, a, b in zip(x.shape, g.stride(), x.stride(), strict=True)
                )
        ran += 1
    assert ran >= 2
