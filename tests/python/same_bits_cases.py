"""Random arguments for same_bits.py: (operator, arguments, keyword arguments), large enough for
whole vectors, several blocks and several pieces, of sizes that no vector width divides."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch

Case = tuple[str, tuple, dict]

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
WIDE = (torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)
INTS = (torch.int64, torch.int32, torch.uint8, torch.int16, torch.int8)
ALL = FLOATS + COMPLEX + INTS


def rand(shape: Any, dtype: torch.dtype = torch.float32, scale: float = 3.0) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.randint(0, 2, shape) > 0
    if not dtype.is_floating_point and not dtype.is_complex:
        low = 0 if dtype == torch.uint8 else -50
        return torch.randint(low, 50, shape).to(dtype)
    return (
        torch.randn(shape, dtype=torch.complex64 if dtype.is_complex else torch.float32) * scale
    ).to(dtype)


def positive(shape: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(shape).to(dtype) + (0.01 if dtype.is_floating_point else 1)


def size(low: int, high: int) -> int:
    return random.randint(low, high)


def laid_out(shape: tuple, dtype: torch.dtype) -> torch.Tensor:
    """Contiguous, or with dimensions exchanged, or a part of something larger."""
    way = random.randrange(3)
    if way == 1 and len(shape) > 1:
        order = list(range(len(shape)))
        random.shuffle(order)
        back = [order.index(i) for i in range(len(shape))]
        return rand([shape[i] for i in order], dtype).permute(back)
    if way == 2:
        return rand((*shape[:-1], shape[-1] * 2 + 1), dtype)[..., 1::2]
    return rand(shape, dtype)


def shapes(n: int) -> Iterator[tuple]:
    """From one long row to many short ones; about 100,000 elements."""
    yield (100003,)
    for _ in range(n):
        rank = size(1, 4)
        total = size(2000, 120000)
        shape = []
        for _ in range(rank - 1):
            side = size(1, max(2, int(total ** (2 / rank) / 1.5)))
            shape.append(side)
            total = max(total // side, 1)
        shape.append(total)
        random.shuffle(shape)
        yield tuple(shape)


# -- Pointwise
# --------------------------------------------------------------------------------------------------

UNARY = """abs acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac
gelu hardsigmoid hardswish hardtanh i0 isfinite isinf isnan lgamma log log10 log1p log2 log_sigmoid logical_not logit mish neg
nan_to_num positive rad2deg reciprocal relu relu6 round rsqrt selu elu celu sgn sigmoid sign signbit silu sin sinc sinh
softplus softshrink hardshrink special_entr special_erfcx special_i0e special_i1 special_i1e special_log_ndtr
special_ndtr special_ndtri special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
special_modified_bessel_i0 special_modified_bessel_k0 special_scaled_modified_bessel_k0 special_spherical_bessel_j0
sqrt square tan tanh trunc bitwise_not conj_physical leaky_relu""".split()
BINARY = """add sub mul div floor_divide remainder fmod pow atan2 maximum minimum fmax fmin hypot copysign nextafter logaddexp
logaddexp2 eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor xlogy special_xlog1py
special_zeta igamma igammac heaviside gcd lcm ldexp float_power true_divide rsub dist
special_chebyshev_polynomial_t special_hermite_polynomial_h special_legendre_polynomial_p""".split()


def pointwise(n: int) -> Iterator[Case]:
    for name in UNARY:
        for dtype in (
            torch.float32,
            torch.float64,
            torch.bfloat16,
            torch.float16,
            torch.complex64,
            torch.int64,
        ):
            for shape in list(shapes(n))[: n + 1 if dtype == torch.float32 else 1]:
                yield name, (laid_out(shape, dtype),), {}
    edges = torch.tensor(
        [
            0.0,
            -0.0,
            float("inf"),
            -float("inf"),
            float("nan"),
            1e-40,
            -1e-40,
            3.4e38,
            1e-38,
            0.5,
            88.7,
            -103.9,
        ]
    )
    for name in UNARY:
        yield name, (edges.repeat(1001),), {}
    for name in BINARY:
        for dtype in (
            torch.float32,
            torch.float64,
            torch.bfloat16,
            torch.float16,
            torch.complex64,
            torch.int64,
            torch.int32,
        ):
            for shape in list(shapes(n))[: n + 1 if dtype == torch.float32 else 1]:
                other = list(shape)
                if random.random() < 0.4:
                    other[size(0, len(shape) - 1)] = 1
                yield name, (laid_out(shape, dtype), laid_out(tuple(other), dtype)), {}
                if name in ("igamma", "igammac", "special_zeta", "pow", "xlogy"):
                    yield name, (positive(shape, dtype) * 4, positive(tuple(other), dtype) * 4), {}
    for dtype in FLOATS:
        x, y, z = (rand((317, 211), dtype) for _ in range(3))
        yield "addcmul", (x, y, z), {"value": 0.7}
        yield "addcdiv", (x, y, z), {"value": 0.7}
        yield "lerp", (x, y, 0.3), {}
        yield "lerp", (x, y, z), {}
        yield "clamp", (x, -0.5, 0.5), {}
        yield "where", (x > 0, y, z), {}
        yield "mul", (x, 0.1), {}
        yield "add", (x, 0.1), {"alpha": 0.3}
        yield "pow", (x.abs(), 2.5), {}
        yield "div", (x, y), {"rounding_mode": "floor"}
        yield "gelu", (x,), {"approximate": "tanh"}
        yield "polygamma", (2, x.abs()), {}
        yield "masked_fill", (x, y > 0, 1.5), {}
        yield "prelu", (x, rand((211,), dtype)), {}
        yield "glu", (rand((317, 210), dtype),), {}
        yield "rrelu", (x,), {"training": False}
        yield "threshold", (x, 0.1, 20.0), {}


# -- Reductions
# --------------------------------------------------------------------------------------------------

REDUCTIONS = """sum mean prod amax amin max min all any nansum nanmean logsumexp std var var_mean std_mean norm argmax argmin
count_nonzero median nanmedian mode aminmax""".split()
SCANS = "cumsum cumprod cummax cummin logcumsumexp softmax log_softmax sort argsort diff".split()


def reductions(n: int) -> Iterator[Case]:
    fixed = [
        (1, 50021),
        (50021, 1),
        (65539, 3),
        (3, 65539),
        (257, 513),
        (17, 31, 129),
        (7, 300, 33),
        (1000003,),
    ]
    for name in REDUCTIONS:
        for dtype in (*FLOATS, torch.complex64, torch.int64, torch.bool):
            some = fixed if dtype in (torch.float32, torch.bfloat16, torch.float64) else fixed[4:6]
            for shape in some + list(shapes(n)):
                if name in ("median", "mode", "nanmedian") and max(shape) > 60000:
                    continue
                x = laid_out(shape, dtype)
                dim = size(0, len(shape) - 1)
                if name not in ("logsumexp", "mode"):
                    yield name, (x,), {}
                if name in (
                    "sum",
                    "mean",
                    "amax",
                    "amin",
                    "nansum",
                    "nanmean",
                    "logsumexp",
                    "std",
                    "var",
                    "var_mean",
                    "count_nonzero",
                ):
                    yield name, (x, [dim]), {}
                    if len(shape) > 2:
                        yield name, (x, [0, 2]), {}
                        yield name, (x, [1, 2]), {}
                elif name == "norm":
                    for p in (1, 2, 3, float("inf")):
                        yield name, (x, p, [dim]), {}
                        yield "linalg_vector_norm", (x, p, [dim]), {}
                elif name == "aminmax":
                    yield name, (x,), {"dim": dim}
                else:
                    yield name, (x, dim), {}
            yield "trapezoid", (x,), {"dim": -1}
    for name in SCANS:
        for dtype in FLOATS:
            for shape in [(1, 50021), (65539, 3), (17, 31, 129), *shapes(n)]:
                yield name, (laid_out(shape, dtype), size(0, len(shape) - 1)), {}
    for dtype in FLOATS:
        for shape in [(50021,), (63, 501), *shapes(n)]:
            x = laid_out(shape, dtype)
            yield "topk", (x, min(5, shape[-1])), {}
            yield "kthvalue", (x, 1 + shape[-1] // 2), {}
            yield "quantile", (x[..., :9000].float(), 0.3), {}
            yield "histc", (x.float(), 30), {}
            yield "unique_dim", (x.reshape(-1, 1)[:500], 0), {}
            yield (
                "bincount",
                (torch.randint(0, 50, (x.numel(),)), positive((x.numel(),)).to(dtype)),
                {},
            )
            yield "dist", (x, rand(shape, dtype)), {}
            yield "dot", (x.reshape(-1), rand((x.numel(),), dtype)), {}
            yield "trace", (x.reshape(-1, 1).expand(-1, 3),), {}


# -- Products
# --------------------------------------------------------------------------------------------------


def products(n: int) -> Iterator[Case]:
    fixed = [
        (1, 700, 300),
        (300, 700, 1),
        (1, 5000, 1),
        (64, 64, 64),
        (129, 257, 65),
        (7, 3000, 9),
        (333, 5, 200),
        (2, 1030, 513),
    ]
    for dtype in (*FLOATS, *COMPLEX, torch.int64):
        few = fixed if dtype in (torch.float32, torch.bfloat16) else fixed[:5]
        for m, k, p in [*few, *((size(1, 200), size(1, 900), size(1, 200)) for _ in range(2 * n))]:
            a, b = laid_out((m, k), dtype), laid_out((k, p), dtype)
            yield "mm", (a, b), {}
            yield "mm", (rand((k, m), dtype).t(), b), {}
            yield "matmul", (a, rand((p, k), dtype).t()), {}
            yield "linear", (a, rand((p, k), dtype), rand((p,), dtype)), {}
            yield "linear", (a.reshape(m, 1, k), rand((p, k), dtype)), {}
            yield "addmm", (rand((p,), dtype), a, b), {"beta": 2, "alpha": 3}
            yield "mv", (a, rand((k,), dtype)), {}
            yield "addmv", (rand((m,), dtype), a, rand((k,), dtype)), {}
            yield "outer", (rand((m,), dtype), rand((p,), dtype)), {}
        for _ in range(n + 1):
            b, m, k, p = size(2, 12), size(1, 70), size(1, 300), size(1, 70)
            yield "bmm", (laid_out((b, m, k), dtype), laid_out((b, k, p), dtype)), {}
            yield (
                "baddbmm",
                (rand((b, m, p), dtype), rand((b, m, k), dtype), rand((b, k, p), dtype)),
                {},
            )
            yield (
                "addbmm",
                (rand((m, p), dtype), rand((b, m, k), dtype), rand((b, k, p), dtype)),
                {},
            )
            yield "matmul", (rand((b, 1, m, k), dtype), rand((3, k, p), dtype)), {}
            yield "einsum", ("bik,bkj->ji", [rand((b, m, k), dtype), rand((b, k, p), dtype)]), {}
            yield "kron", (rand((m, 9), dtype), rand((5, 7), dtype)), {}
    for dtype in WIDE:
        for p in (0.0, 1.0, 2.0, 3.0, float("inf")):
            yield "cdist", (rand((70, 33), dtype), rand((40, 33), dtype), p), {}
        yield (
            "chain_matmul",
            ([rand((40, 60), dtype), rand((60, 20), dtype), rand((20, 90), dtype)],),
            {},
        )
        yield "tensordot", (rand((9, 20, 30), dtype), rand((30, 20, 7), dtype), [1, 2], [1, 0]), {}
        yield (
            "bilinear",
            (
                rand((30, 20), dtype),
                rand((30, 25), dtype),
                rand((12, 20, 25), dtype),
                rand((12,), dtype),
            ),
            {},
        )


def convolutions(n: int) -> Iterator[Case]:
    for dtype in FLOATS:
        fixed = [
            (2, 16, 32, 3, 1),
            (1, 64, 64, 1, 1),
            (1, 32, 32, 3, 32),
            (3, 3, 20, 7, 1),
            (2, 24, 48, 3, 4),
        ]
        for b, c, o, k, g in [
            *fixed,
            *((size(1, 3), size(1, 30), size(1, 40), size(1, 5), 1) for _ in range(n)),
        ]:
            s, p, d = random.choice([1, 2]), size(0, k // 2), random.choice([1, 1, 2])
            h, w = size(12, 40), size(12, 40)
            weight, bias = rand((o, c // g, k, k), dtype, 0.3), rand((o,), dtype)
            x = rand((b, c, h, w), dtype)
            yield "conv2d", (x, weight, bias, [s, s], [p, p], [d, d], g), {}
            yield (
                "conv2d",
                (x.to(memory_format=torch.channels_last), weight, None, [s, s], [p, p], [1, 1], g),
                {},
            )
            yield "conv1d", (rand((b, c, 60), dtype), weight[..., 0], bias, [s], [p], [d], g), {}
            if k <= 3:
                yield (
                    "conv3d",
                    (
                        rand((b, c, 6, 9, 10), dtype),
                        rand((o, c // g, k, k, k), dtype, 0.3),
                        bias,
                        [s] * 3,
                        [p] * 3,
                        [1] * 3,
                        g,
                    ),
                    {},
                )
            back = rand((c, o // g, k, k), dtype, 0.3)
            yield (
                "conv_transpose2d",
                (rand((b, c, 13, 11), dtype), back, bias, [s, s], [p, p], [0, 0], g),
                {},
            )
            yield (
                "conv_transpose1d",
                (rand((b, c, 33), dtype), back[..., 0], bias, [s], [p], [0], g),
                {},
            )
        x = rand((1, 9, 40, 40), dtype)
        yield "im2col", (x, [3, 3], [1, 1], [1, 1], [2, 2]), {}
        yield (
            "col2im",
            (rand((1, 9 * 9, 38 * 38), dtype), [40, 40], [3, 3], [1, 1], [0, 0], [1, 1]),
            {},
        )


# -- Layers
# --------------------------------------------------------------------------------------------------


def layers(n: int) -> Iterator[Case]:
    for dtype in FLOATS:
        for _ in range(n + 1):
            b, c, h = size(1, 5), 4 * size(1, 12), size(9, 50)
            x = rand((b, c, h, h), dtype)
            gain, offset = rand((c,), dtype), rand((c,), dtype)
            yield (
                "batch_norm",
                (
                    x,
                    gain,
                    offset,
                    rand((c,), dtype),
                    positive((c,), dtype),
                    False,
                    0.1,
                    1e-5,
                    False,
                ),
                {},
            )
            yield (
                "batch_norm",
                (x, gain, offset, rand((c,), dtype), positive((c,), dtype), True, 0.1, 1e-5, False),
                {},
            )
            yield (
                "batch_norm",
                (
                    x.to(memory_format=torch.channels_last),
                    gain,
                    offset,
                    None,
                    None,
                    True,
                    0.1,
                    1e-5,
                    False,
                ),
                {},
            )
            rows = rand((size(1, 300), c), dtype)
            for training in (False, True):
                mean, var = rand((c,), dtype), positive((c,), dtype)
                args = (gain, offset, mean, var, training, 0.1, 1e-5, False)
                yield "batch_norm", (rows, *args), {}
                yield "batch_norm", (x.to(memory_format=torch.channels_last), *args), {}
            yield "instance_norm", (x, gain, offset, None, None, True, 0.1, 1e-5, False), {}
            yield "group_norm", (x, 4, gain, offset, 1e-5), {}
            yield "layer_norm", (x, [h], rand((h,), dtype), rand((h,), dtype), 1e-5), {}
            yield "layer_norm", (x, [c, h, h], None, None, 1e-5), {}
            yield "native_layer_norm", (x, [h, h], None, None, 1e-5), {}
            yield "rms_norm", (x, [h], rand((h,), dtype)), {}
            yield "_weight_norm", (rand((c, 50), dtype), positive((c, 1), dtype), 0), {}
            yield "renorm", (x, 2, 1, 0.7), {}
            yield "max_pool2d", (x, [3, 3], [2, 2], [1, 1]), {}
            yield (
                "max_pool2d_with_indices",
                (x.to(memory_format=torch.channels_last), [3, 2], [1, 2]),
                {},
            )
            yield "avg_pool2d", (x, [3, 3], [2, 2], [1, 1], False, False), {}
            yield "avg_pool2d", (x.to(memory_format=torch.channels_last), [2, 2]), {}
            yield "adaptive_avg_pool2d", (x, [4, 3]), {}
            yield "adaptive_max_pool2d", (x, [4, 3]), {}
            yield "avg_pool3d", (rand((b, 3, 9, 9, 9), dtype), [3, 3, 3]), {}
            yield "max_pool3d", (rand((b, 3, 9, 9, 9), dtype), [3, 3, 3]), {}
            yield "avg_pool1d", (rand((b, c, 77), dtype), [5]), {}
            for mode, aligned in (("bilinear", True), ("bilinear", False), ("bicubic", False)):
                yield "upsample_" + mode + "2d", (x, [h + 7, h * 2], aligned), {}
                yield (
                    "upsample_" + mode + "2d",
                    (x.to(memory_format=torch.channels_last), [h // 2 + 1, h + 3], aligned),
                    {},
                )
            yield "upsample_nearest2d", (x, [h + 7, h * 2]), {}
            yield "upsample_linear1d", (rand((b, c, 77), dtype), [130], False), {}
            yield "upsample_trilinear3d", (rand((b, 3, 9, 9, 9), dtype), [13, 8, 17], False), {}
            yield "_upsample_bilinear2d_aa", (x, [h // 2 + 1, h // 3 + 2], False), {}
            yield "_upsample_bicubic2d_aa", (x, [h // 2 + 1, h // 3 + 2], False), {}
            grid = (torch.rand(b, 31, 29, 2) * 2.4 - 1.2).to(dtype)
            for interpolation in (0, 1, 2):
                for padding in (0, 1, 2):
                    yield "grid_sampler_2d", (x, grid, interpolation, padding, False), {}
            yield "affine_grid_generator", (rand((b, 2, 3), dtype), [b, c, h, h], False), {}
            yield "pixel_shuffle", (x, 2), {}
            yield "softmax", (x, 1), {}
            yield "log_softmax", (x, 1), {}
            heads, length, width = size(1, 4), size(1, 130), 8 * size(1, 12)
            q, k, v = (rand((b, heads, length, width), dtype, 1.0) for _ in range(3))
            yield "scaled_dot_product_attention", (q, k, v), {}
            yield "scaled_dot_product_attention", (q, k, v, None, 0.0, True), {}
            yield "scaled_dot_product_attention", (q, k, v, rand((length, length), dtype)), {}
            yield (
                "scaled_dot_product_attention",
                (q[:, :, :1], k, v, torch.rand(1, length) > 0.3),
                {},
            )
            yield from recurrent(dtype)
            yield from losses(dtype)


def recurrent(dtype: torch.dtype) -> Iterator[Case]:
    t, b, i, h = size(1, 9), size(1, 17), size(1, 90), size(1, 130)
    x = rand((t, b, i), dtype, 1.0)
    for name, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
        weights = []
        for side in (i, i, 2 * h, 2 * h):
            weights += [
                rand((gates * h, side), dtype, 0.2),
                rand((gates * h, h), dtype, 0.2),
                rand((gates * h,), dtype),
                rand((gates * h,), dtype),
            ]
        state = rand((4, b, h), dtype)
        hx = [state, rand((4, b, h), dtype)] if name == "lstm" else state
        yield name, (x, hx, weights, True, 2, 0.0, False, True, False), {}
        first = [s[:1] for s in hx] if name == "lstm" else state[:1]
        yield name, (x, first, weights[:4], True, 1, 0.0, False, False, False), {}
        cell = [s[0] for s in first] if name == "lstm" else state[0]
        yield name + "_cell", (x[0], cell, *weights[:4]), {}


def losses(dtype: torch.dtype) -> Iterator[Case]:
    b, c = size(3, 300), size(2, 70)
    x, y = rand((b, c), dtype), rand((b, c), dtype)
    target = torch.randint(0, c, (b,))
    for reduction in (0, 1, 2):
        yield "mse_loss", (x, y, reduction), {}
        yield "l1_loss", (x, y, reduction), {}
        yield "smooth_l1_loss", (x, y, reduction), {}
        yield "huber_loss", (x, y, reduction), {}
        yield "kl_div", (x, y, reduction), {}
        yield "binary_cross_entropy", (torch.sigmoid(x), torch.sigmoid(y), None, reduction), {}
        yield "binary_cross_entropy_with_logits", (x, torch.sigmoid(y), None, None, reduction), {}
        yield "cross_entropy_loss", (x, target, positive((c,), dtype), reduction, -100, 0.1), {}
        yield "nll_loss", (x, target, None, reduction), {}
        yield "soft_margin_loss", (x, torch.sign(y), reduction), {}
        yield "hinge_embedding_loss", (x, torch.sign(y), 1.0, reduction), {}
        yield "poisson_nll_loss", (x, y, True, False, 1e-8, reduction), {}
        yield "multi_margin_loss", (x, target, 1, 1.0, None, reduction), {}
        yield "cosine_embedding_loss", (x, y, torch.ones(b), 0.0, reduction), {}
    yield "cosine_similarity", (x, y, 1), {}
    yield "pairwise_distance", (x, y), {}
    scores = torch.randn(50, 4, 20).log_softmax(2).to(dtype)
    yield "ctc_loss", (scores, torch.randint(1, 20, (4, 11)), [50, 49, 40, 30], [11, 10, 7, 5]), {}


# -- Indexing, transforms, linear algebra, random numbers, quantized
# ---------------------------------------------------


def indexing(n: int) -> Iterator[Case]:
    for dtype in (*FLOATS, torch.complex64, torch.int64, torch.bool):
        for _ in range(n + 1):
            rows, width, m = size(20, 900), size(1, 130), size(100, 5000)
            x, index, src = (
                rand((rows, width), dtype),
                torch.randint(0, rows, (m,)),
                rand((m, width), dtype),
            )
            yield "index_add", (x, 0, index, src), {}
            yield "index_put", (x, [index], src, True), {}
            yield "index_put", (x, [torch.arange(rows)], src[:1], False), {}
            yield "index_select", (x, 0, index), {}
            yield "index", (x, [index, None]), {}
            yield "gather", (x, 0, torch.randint(0, rows, (m, width))), {}
            yield "scatter_add", (x, 0, torch.randint(0, rows, (m, width)), src), {}
            for reduce in ("sum", "prod", "mean", "amax", "amin"):
                yield "scatter_reduce", (x, 0, torch.randint(0, rows, (m, width)), src, reduce), {}
                if reduce != "sum":
                    yield "index_reduce", (x, 0, index, src, reduce), {}
            yield "embedding", (x, index), {}
            for mode in (0, 1, 2):
                yield "embedding_bag", (x, index, torch.arange(0, m, 7), False, mode), {}
            yield "masked_select", (x, x != 0), {}
            yield "nonzero", (x,), {}
            yield "cat", ([x, src], 0), {}
            yield "stack", ([x, x], 1), {}
            yield "flip", (x, [0, 1]), {}
            yield "roll", (x, [3, 1], [0, 1]), {}
            yield "repeat", (x, [2, 3]), {}
            yield "clone", (laid_out((rows, width), dtype),), {}
            yield "contiguous", (laid_out((rows, 7, width), dtype),), {}
            for to in (
                torch.float32,
                torch.bfloat16,
                torch.float16,
                torch.float64,
                torch.int32,
                torch.uint8,
            ):
                if not dtype.is_complex:
                    yield "to", (x, to), {}
            for mode in ("reflect", "replicate", "circular"):
                yield "pad", (x[None], [min(3, width - 1)] * 2, mode), {}
            yield "tril", (x,), {}
            yield (
                "searchsorted",
                (
                    x.flatten().sort()[0]
                    if not dtype.is_complex and dtype != torch.bool
                    else index,
                    src,
                ),
                {},
            )
            yield "bucketize", (src, torch.linspace(-3, 3, 77)), {}


def transforms(n: int) -> Iterator[Case]:
    for length in (
        2,
        8,
        15,
        64,
        97,
        100,
        256,
        997,
        1000,
        1024,
        1536,
        4096,
        10007,
        *(size(2, 3000) for _ in range(4 * n)),
    ):
        for dtype in WIDE:
            rows = max(1, 60000 // length // 4)
            real, full = (
                rand((rows, length), dtype),
                rand((rows, length), COMPLEX[dtype == torch.float64]),
            )
            yield "fft_fft", (full,), {}
            yield "fft_ifft", (full,), {"norm": "ortho"}
            yield "fft_rfft", (real,), {}
            yield "fft_irfft", (full,), {}
            yield "fft_hfft", (full,), {}
            yield "fft_fft", (full.t(),), {"dim": 0}
    for dtype in WIDE:
        x = rand((3, 30, 45), dtype)
        yield "fft_fft2", (x,), {}
        yield "fft_rfftn", (x,), {}
        yield "fft_irfftn", (rand((3, 30, 45), COMPLEX[dtype == torch.float64]),), {}
        yield (
            "stft",
            (rand((2, 4000), dtype), 400, 160, 400, torch.hann_window(400, dtype=dtype)),
            {"return_complex": True},
        )
        spectrum = torch.stft(
            rand((2, 4000), dtype),
            400,
            160,
            400,
            torch.hann_window(400, dtype=dtype),
            return_complex=True,
        )
        yield "istft", (spectrum, 400, 160, 400, torch.hann_window(400, dtype=dtype)), {}


def linear_algebra(n: int) -> Iterator[Case]:
    for dtype in (*WIDE, *COMPLEX):
        for side in (1, 2, 3, 5, 17, 64, 100, *(size(2, 150) for _ in range(n))):
            for lead in ((), (5,)):
                a = rand((*lead, side, side), dtype, 1.0)
                b = rand((*lead, side, 9), dtype)
                definite = a @ a.mH + side * torch.eye(side, dtype=dtype)
                yield "linalg_inv", (a,), {}
                yield "linalg_solve", (a, b), {}
                yield "linalg_det", (a,), {}
                yield "linalg_slogdet", (a,), {}
                yield "linalg_lu_factor", (a,), {}
                yield "linalg_cholesky", (definite,), {}
                yield "cholesky_solve", (b, torch.linalg.cholesky(definite)), {}
                yield "linalg_solve_triangular", (torch.tril(definite), b), {"upper": False}
                yield "linalg_qr", (rand((*lead, side, side // 2 + 1), dtype),), {}
                yield "linalg_matrix_power", (a, 3), {}
                yield "linalg_matrix_exp", (a / side,), {}
                yield "linalg_eigh", (definite,), {}
                if side <= 64:
                    yield "linalg_svd", (a,), {}
                    yield "linalg_svdvals", (rand((*lead, side, 2 * side), dtype),), {}
                    yield "linalg_pinv", (a,), {}
                    yield (
                        "linalg_lstsq",
                        (rand((*lead, side + 5, side), dtype), rand((*lead, side + 5, 3), dtype)),
                        {},
                    )
                yield (
                    "linalg_cross",
                    (rand((*lead, side, 3), dtype), rand((*lead, side, 3), dtype)),
                    {},
                )
                yield "linalg_matrix_norm", (a,), {}
                yield "cov", (rand((side, 90), dtype),), {}
                yield "corrcoef", (rand((side, 90), dtype),), {}


def random_numbers(n: int) -> Iterator[Case]:
    for dtype in FLOATS:
        for shape in shapes(n):
            x = torch.zeros(shape, dtype=dtype)
            yield "rand", (list(shape),), {"dtype": dtype}
            yield "randn", (list(shape),), {"dtype": dtype}
            for name, args in (
                ("normal_", (1.0, 2.0)),
                ("uniform_", (-1.0, 2.0)),
                ("bernoulli_", (0.3,)),
                ("exponential_", (1.5,)),
                ("cauchy_", (0.0, 1.0)),
                ("log_normal_", (0.0, 1.0)),
                ("geometric_", (0.3,)),
                ("random_", ()),
            ):
                yield name, (x, *args), {}
            yield "bernoulli", (torch.rand(shape).to(dtype),), {}
            yield "dropout", (rand(shape, dtype), 0.4, True), {}
            yield "poisson", (positive(shape, dtype) * 5,), {}
            yield "normal", (rand(shape, dtype), positive(shape, dtype)), {}
            yield "multinomial", (positive((20, 90), dtype), 30, True), {}
            yield "multinomial", (positive((20, 90), dtype), 30, False), {}
            yield "_standard_gamma", (positive(shape, dtype) * 3,), {}
            yield "_sample_dirichlet", (positive((90, 30), dtype) * 3,), {}
            yield "binomial", (torch.full(shape, 20.0).to(dtype), torch.rand(shape).to(dtype)), {}
    yield "randperm", (100003,), {}
    yield "randint", (5, 1000, [300, 301]), {}


def quantized(n: int) -> Iterator[Case]:
    for shape in [(100003,), (37, 8, 129), *shapes(n)]:
        x = rand(shape)
        yield "fake_quantize_per_tensor_affine", (x, 0.05, 3, -128, 127), {}
        yield (
            "fake_quantize_per_channel_affine",
            (x, positive((shape[0],)), torch.zeros(shape[0], dtype=torch.int32), 0, -128, 127),
            {},
        )
    a, b = (torch.randint(-128, 127, s).to(torch.int8) for s in ((70, 333), (333, 90)))
    yield "_int_mm", (a, b), {}


def optimizers(n: int) -> Iterator[Case]:
    rates = {"lr": 0.02, "weight_decay": 0.03, "maximize": False}
    adam = {**rates, "beta1": 0.9, "beta2": 0.95, "eps": 1e-6, "amsgrad": True}
    sgd = {**rates, "momentum": 0.9, "dampening": 0.2, "nesterov": True, "is_first_step": False}
    steps = [torch.tensor(3.0)] * 3
    for dtype in FLOATS:
        lists = [[positive(s, dtype) for s in ((100003,), (17,), (70, 71))] for _ in range(5)]
        yield "_fused_sgd", (*lists[:3],), sgd
        yield "_fused_adam", (*lists, steps), adam
        yield "_fused_adamw", (*lists, steps), adam
        yield "_fused_adagrad", (*lists[:3], steps), {**rates, "lr_decay": 0.1, "eps": 1e-6}


def cases(n: int) -> Iterator[Case]:
    for family in (
        pointwise,
        reductions,
        products,
        convolutions,
        layers,
        indexing,
        transforms,
        linear_algebra,
        random_numbers,
        optimizers,
        quantized,
    ):
        yield from family(n)


# -- Quantized layers, as programs
# --------------------------------------------------------------------------------------


def quantized_programs() -> Iterator[tuple[str, Any, tuple]]:
    """(name, a scripted module, arguments): wide enough for every path of the integer kernels."""
    from torch import nn
    from torch.ao import quantization as tq

    class Net(nn.Module):
        def __init__(self, layer: nn.Module) -> None:
            super().__init__()
            self.q, self.d, self.layer = tq.QuantStub(), tq.DeQuantStub(), layer

        def forward(self, x):
            return self.d(self.layer(self.q(x)))

    for layer, shape in (
        (nn.Linear(333, 170), (65, 333)),
        (nn.Linear(64, 10), (1, 64)),
        (nn.Conv2d(24, 48, 3, padding=1), (2, 24, 33, 31)),
        (nn.Conv2d(3, 32, 7, stride=2), (1, 3, 64, 64)),
        (nn.Conv2d(32, 32, 3, groups=32), (2, 32, 30, 30)),
        (nn.Conv1d(16, 24, 5), (3, 16, 200)),
        (nn.Conv3d(8, 8, 3), (1, 8, 12, 12, 12)),
        (nn.MaxPool2d(3, 2), (2, 17, 40, 40)),
        (nn.AvgPool2d(3), (2, 17, 40, 40)),
        (nn.AdaptiveAvgPool2d(5), (2, 17, 40, 40)),
        (nn.Sigmoid(), (50, 1001)),
        (nn.Hardswish(), (50, 1001)),
        (nn.LayerNorm(1001), (50, 1001)),
        (nn.GroupNorm(4, 16), (3, 16, 500)),
        (nn.Upsample(scale_factor=2.0, mode="bilinear"), (2, 5, 31, 30)),
    ):
        net = Net(layer).eval()
        net.qconfig = tq.get_default_qconfig("fbgemm")
        prepared = tq.prepare(net)
        prepared(torch.randn(*shape))
        yield f"quantized {layer}", torch.jit.script(tq.convert(prepared)), (torch.randn(*shape),)
    for layer, shape in (
        (nn.LSTM(70, 130, 2, bidirectional=True), (20, 9, 70)),
        (nn.GRU(70, 130), (20, 9, 70)),
        (nn.Linear(700, 300), (30, 700)),
    ):
        for dtype in (torch.qint8, torch.float16):

            class Dynamic(nn.Module):
                def __init__(self, part: nn.Module) -> None:
                    super().__init__()
                    self.part = part

                def forward(self, x):
                    return self.part(x)

            net = tq.quantize_dynamic(Dynamic(layer).eval(), {type(layer)}, dtype=dtype)
            yield f"dynamic {dtype} {layer}", torch.jit.script(net), (torch.randn(*shape),)
