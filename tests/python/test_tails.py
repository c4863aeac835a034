"""Every element counts: sizes around the ends of vectors, blocks and unrolled loops, beside plain
numpy in double.

Kernels work in vectors, blocks of them and what is left; a tail that is one element short is wrong
for a few sizes only. So the sizes go through all that is left of a block, the element that decides
stands last, first or anywhere, and each kernel runs on every instruction set that the machine has,
along contiguous, strided and outer dimensions.  `make test` runs some of the sizes, and all of them
along rows; the nightly runs all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy
import pytest
import rushlight

aten = rushlight.ops.aten
Array = numpy.ndarray
EDGES = (
    63,
    64,
    65,
    127,
    128,
    129,
    191,
    193,
    255,
    256,
    257,
    511,
    513,
    1023,
    1024,
    1025,
    2049,
    4095,
    4097,
)
NIGHTLY = bool(os.environ.get("RUSHLIGHT_NIGHTLY"))
FEW = (0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 127, 129, 257, 1025)
SIZES = (*range(71), *EDGES) if NIGHTLY else FEW
DTYPES = ("float32", "float64", "int64", "int32", "uint8", "bool", "float16")
LAYOUTS = ("row", "strided", "reversed rows", "outer", "middle")


@pytest.fixture(params=("avx512", "avx2", "portable"), autouse=True)
def cpu(request: pytest.FixtureRequest) -> Iterator[str]:
    rushlight.set_cpu(request.param)
    if rushlight.get_cpu() != request.param:
        rushlight.set_cpu("native")
        pytest.skip("not on this machine")
    yield request.param
    rushlight.set_cpu("native")


def sizes(layout: str) -> tuple[int, ...]:
    return (
        (*range(71), *EDGES[::3])
        if layout == "row" and rushlight.get_cpu() != "portable"
        else SIZES
    )


def numbers(n: int, dtype: str, seed: int) -> Array:
    """Small whole numbers, none of them 0 but bools: sums and products of few are exact, and each
    one shows."""
    r = numpy.random.default_rng(seed * 100003 + n)
    if dtype == "bool":
        return r.integers(0, 2, n).astype(bool)
    low = 1 if dtype == "uint8" else -3
    v = r.integers(low, 4, n)
    return numpy.where(v == 0, 2, v).astype(dtype)


def placed(v: Array, layout: str) -> tuple[rushlight.Tensor, int, int]:
    """v along a dimension of a tensor: the tensor, the dimension, and how many copies of v it has.

    What lies around v would spoil the result of whoever reads it.
    """
    n, spoil = (
        len(v),
        numpy.array(1).astype(v.dtype) if v.dtype == bool else numpy.array(100).astype(v.dtype),
    )
    if layout == "row":
        return rushlight.tensor(v.copy()), 0, 1
    if layout == "strided":
        a = numpy.full((n, 3), spoil)
        a[:, 1] = v
        return aten.select(rushlight.tensor(a), 1, 1), 0, 1
    if layout == "reversed rows":
        a = numpy.full((2, n + 5), spoil)
        a[:, 2 : 2 + n] = v
        return aten.slice(rushlight.tensor(a), 1, 2, 2 + n, 1), 1, 2
    if layout == "outer":
        return rushlight.tensor(numpy.repeat(v[:, None], 5, 1)), 0, 5
    return rushlight.tensor(numpy.broadcast_to(v[None, :, None], (2, n, 3)).copy()), 1, 6


def check(got: object, want: object, what: str, close: float = 0.0) -> None:
    g = numpy.asarray(
        got.numpy() if isinstance(got, rushlight.Tensor) else got, dtype=numpy.float64
    ).ravel()
    w = numpy.broadcast_to(numpy.asarray(want, dtype=numpy.float64), g.shape)
    if not (
        numpy.allclose(g, w, rtol=close, atol=close, equal_nan=True)
        if close
        else numpy.array_equal(g, w, equal_nan=True)
    ):
        pytest.fail(f"{what}: {g[:4]} instead of {w.ravel()[:4]}")


# -- Reductions: (tensor, dim) -> tensor, and numpy's result for one row in double
# -----------------------------------------

Reduce = tuple[Callable[..., object], Callable[[Array], object], str]


def is_float(dtype: str) -> bool:
    return dtype.startswith("float")


def signs(v: Array) -> float:
    return (
        float(numpy.prod(numpy.sign(v)) * 2.0 ** int((numpy.abs(v) > 1).sum() % 7))
        if len(v)
        else 1.0
    )


ANY = "float32 float64 int64 int32 uint8 bool float16"
REAL = "float32 float64"
REDUCTIONS: dict[str, Reduce] = {
    "sum": (lambda t, d: aten.sum(t, [d]), numpy.sum, "float32 float64 int64 int32 uint8 bool"),
    "nansum": (lambda t, d: aten.nansum(t, [d]), numpy.sum, REAL),
    "mean": (
        lambda t, d: aten.mean(t, [d]),
        lambda v: numpy.mean(v) if len(v) else numpy.nan,
        REAL,
    ),
    "amax": (lambda t, d: aten.amax(t, [d]), numpy.max, ANY),
    "amin": (lambda t, d: aten.amin(t, [d]), numpy.min, ANY),
    "max": (lambda t, d: aten.max(t, d)[0], numpy.max, ANY),
    "min": (lambda t, d: aten.min(t, d)[0], numpy.min, ANY),
    "any": (lambda t, d: aten.any(t, d), numpy.any, ANY),
    "all": (lambda t, d: aten.all(t, d), numpy.all, ANY),
    "count_nonzero": (lambda t, d: aten.count_nonzero(t, [d]), numpy.count_nonzero, ANY),
    "var": (
        lambda t, d: aten.var(t, [d], correction=0),
        lambda v: numpy.var(v) if len(v) else numpy.nan,
        REAL,
    ),
    "std": (
        lambda t, d: aten.std(t, [d], correction=0),
        lambda v: numpy.std(v) if len(v) else numpy.nan,
        REAL,
    ),
    "norm 1": (lambda t, d: aten.linalg_vector_norm(t, 1, [d]), lambda v: numpy.abs(v).sum(), REAL),
    "norm 2": (
        lambda t, d: aten.linalg_vector_norm(t, 2, [d]),
        lambda v: numpy.sqrt((v * v).sum()),
        REAL,
    ),
    "norm inf": (
        lambda t, d: aten.linalg_vector_norm(t, float("inf"), [d]),
        lambda v: numpy.abs(v).max(),
        REAL,
    ),
    "logsumexp": (
        lambda t, d: aten.logsumexp(t, [d]),
        lambda v: numpy.log(numpy.exp(v).sum()),
        REAL,
    ),
}
EMPTY = {
    "sum",
    "nansum",
    "any",
    "all",
    "count_nonzero",
    "norm 1",
    "norm 2",
}  # of no element: an answer, not an error


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, layout: str) -> None:
    ours, plain, dtypes = REDUCTIONS[name]
    for dtype in dtypes.split():
        for n in sizes(layout):
            if n == 0 and name not in EMPTY:
                continue
            v = numbers(n, dtype, 1)
            t, dim, _ = placed(v, layout)
            wide = v.astype(numpy.float64) if dtype != "bool" or name not in ("any", "all") else v
            check(
                ours(t, dim),
                plain(wide),
                f"{name} of {n} {dtype}, {layout}",
                2e-5 if is_float(dtype) else 0,
            )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_element_decides(layout: str) -> None:
    """Largest, smallest, the only true or false one: at each place of the last block, and at the
    first."""
    for dtype in ("float32", "float64", "int64", "int32", "uint8", "float16"):
        for n in (*range(1, 71), 129, 257, 1025) if NIGHTLY else FEW[1:]:
            for place in {0, n - 1, n - 1 - n % 7 if n > 7 else 0, n // 2}:
                v = numpy.full(n, 5).astype(dtype)
                v[place] = 9
                t, dim, _ = placed(v, layout)
                where = f"of {n} {dtype}, {layout}, at {place}"
                check(aten.amax(t, [dim]), 9, f"amax {where}")
                check(aten.argmax(t, dim), place, f"argmax {where}")
                check(aten.max(t, dim)[1], place, f"max's index {where}")
                v[place] = 1
                t, dim, _ = placed(v, layout)
                check(aten.amin(t, [dim]), 1, f"amin {where}")
                check(aten.argmin(t, dim), place, f"argmin {where}")
                v[:] = 0
                v[place] = 1
                t, dim, _ = placed(v, layout)
                check(aten.any(t, dim), True, f"any {where}")
                check(aten.sum(t, [dim]), 1, f"sum {where}")
                check(aten.count_nonzero(t, [dim]), 1, f"count_nonzero {where}")
                v[:] = 1
                v[place] = 0
                t, dim, _ = placed(v, layout)
                check(aten.all(t, dim), False, f"all {where}")
                v[place] = 3
                t, dim, _ = placed(v, layout)
                check(aten.prod(t, dim), 3, f"prod {where}")


def test_whole_tensors() -> None:
    for dtype in ("float32", "float64", "int64"):
        for n in SIZES[1:]:
            v = numbers(n, dtype, 2)
            t = rushlight.tensor(v.copy())
            what = f"of {n} {dtype}"
            check(aten.sum(t), v.astype(float).sum(), f"sum {what}", 1e-5)
            check(aten.max(t), v.max(), f"max {what}")
            check(aten.min(t), v.min(), f"min {what}")
            check(aten.argmax(t), v.argmax(), f"argmax {what}")
            check(aten.any(t), True, f"any {what}")
            check(aten.dot(t, t), (v.astype(float) ** 2).sum(), f"dot {what}", 1e-5)


# -- Along rows: a result for each element
# -----------------------------------------------------------------------------


def softmax(v: Array) -> Array:
    e = numpy.exp(v - v.max())
    return e / e.sum()


def normed(v: Array) -> Array:
    return (v - v.mean()) / numpy.sqrt(v.var() + 1e-5)


Scan = tuple[Callable[..., object], Callable[[Array], Array], str, float]
SCANS: dict[str, Scan] = {
    "cumsum": (lambda t, d: aten.cumsum(t, d), numpy.cumsum, "float32 float64 int64 int32", 1e-5),
    "cummax": (
        lambda t, d: aten.cummax(t, d)[0],
        numpy.maximum.accumulate,
        "float32 float64 int64",
        0,
    ),
    "cummin": (
        lambda t, d: aten.cummin(t, d)[0],
        numpy.minimum.accumulate,
        "float32 float64 int64",
        0,
    ),
    "sort": (
        lambda t, d: aten.sort(t, d)[0],
        numpy.sort,
        "float32 float64 int64 int32 uint8 bool float16",
        0,
    ),
    "flip": (lambda t, d: aten.flip(t, [d]), lambda v: v[::-1], "float32 int64 bool", 0),
    "softmax": (lambda t, d: aten.softmax(t, d), softmax, "float32 float64", 2e-5),
    "log_softmax": (
        lambda t, d: aten.log_softmax(t, d),
        lambda v: numpy.log(softmax(v)),
        "float32 float64",
        2e-5,
    ),
}


def along(n: int, dim: int, got: rushlight.Tensor, count: int) -> Array:
    """Each copy of the row, a line each."""
    return numpy.moveaxis(got.numpy(), dim, -1).reshape(count, n).astype(numpy.float64)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SCANS)
def test_rows(name: str, layout: str) -> None:
    ours, plain, dtypes, close = SCANS[name]
    for dtype in dtypes.split():
        for n in sizes(layout)[1:]:
            v = numbers(n, dtype, 3)
            t, dim, count = placed(v, layout)
            got = along(n, dim, ours(t, dim), count)
            for row in got:
                check(
                    row, plain(v.astype(numpy.float64)), f"{name} of {n} {dtype}, {layout}", close
                )


def test_sorting_keeps_every_element() -> None:
    for n in SIZES[1:]:
        v = numpy.random.default_rng(n).permutation(n)
        t = rushlight.tensor(v.astype(numpy.float32))
        values, order = aten.sort(t)
        check(values, numpy.arange(n), f"sort of {n}")
        check(order, numpy.argsort(v), f"sort's order of {n}")
        k = min(n, 1 + n // 3)
        check(aten.topk(t, k)[0], numpy.arange(n)[::-1][:k], f"topk of {n}")
        check(aten.kthvalue(t, k)[0], k - 1, f"kthvalue of {n}")
        check(aten.median(t), (n - 1) // 2, f"median of {n}")


def test_layers() -> None:
    for n in SIZES[2:]:
        for dtype in ("float32", "float64"):
            v = numbers(n, dtype, 4)
            t = rushlight.tensor(numpy.stack([v, v + 1]))
            for row in aten.layer_norm(t, [n], None, None, 1e-5).numpy():
                check(row, normed(v.astype(float)), f"layer_norm of {n} {dtype}", 1e-4)
            image = aten.view(rushlight.tensor(numpy.stack([v, v])), [1, 2, n])
            check(
                aten.group_norm(image, 2),
                numpy.tile(normed(v.astype(float)), 2),
                f"group_norm of {n} {dtype}",
                1e-4,
            )
            check(
                aten.batch_norm(image, None, None, None, None, True, 0.1, 1e-5, False),
                numpy.tile(normed(v.astype(float)), 2),
                f"batch_norm of {n} {dtype}",
                1e-4,
            )


# -- Pointwise
# --------------------------------------------------------------------------------------------------

Point = tuple[Callable[..., object], Callable[..., object], str]
POINTS: dict[str, Point] = {
    "add": (lambda a, b: aten.add(a, b), lambda a, b: a + b, "float32 float64 int64 int32 float16"),
    "mul": (lambda a, b: aten.mul(a, b), lambda a, b: a * b, "float32 float64 int64 int32 float16"),
    "add_": (lambda a, b: aten.add_(aten.clone(a), b), lambda a, b: a + b, "float32 float64 int64"),
    "neg": (lambda a, b: aten.neg(a), lambda a, b: -a, "float32 float64 int64 int32 float16"),
    "relu": (
        lambda a, b: aten.relu(a),
        lambda a, b: numpy.maximum(a, 0),
        "float32 float64 int64 int32",
    ),
    "abs": (lambda a, b: aten.abs(a), lambda a, b: numpy.abs(a), "float32 float64 int64 int32"),
    "lt": (
        lambda a, b: aten.lt(a, b),
        lambda a, b: a < b,
        "float32 float64 int64 int32 uint8 bool",
    ),
    "maximum": (
        lambda a, b: aten.maximum(a, b),
        numpy.maximum,
        "float32 float64 int64 int32 uint8",
    ),
    "where": (
        lambda a, b: aten.where(aten.lt(a, b), a, b),
        numpy.minimum,
        "float32 float64 int64 int32",
    ),
    "exp": (lambda a, b: aten.exp(a), lambda a, b: numpy.exp(a), "float32 float64"),
    "tanh": (lambda a, b: aten.tanh(a), lambda a, b: numpy.tanh(a), "float32 float64"),
    "sqrt": (
        lambda a, b: aten.sqrt(aten.abs(a)),
        lambda a, b: numpy.sqrt(numpy.abs(a)),
        "float32 float64",
    ),
    "add number": (lambda a, b: aten.add(a, 2), lambda a, b: a + 2, "float32 float64 int64 int32"),
    "to double": (
        lambda a, b: aten.to(a, 7),
        lambda a, b: a,
        "float32 int64 int32 uint8 bool float16",
    ),
    "to float": (
        lambda a, b: aten.to(a, 6),
        lambda a, b: a,
        "float64 int64 int32 uint8 bool float16",
    ),
    "to int": (lambda a, b: aten.to(a, 3), lambda a, b: a, "float64 float32 int64 uint8 bool"),
    "clone": (lambda a, b: aten.clone(a), lambda a, b: a, "float32 float64 int64 uint8 bool"),
    "fill": (
        lambda a, b: aten.fill_(aten.clone(a), 3),
        lambda a, b: a * 0 + 3,
        "float32 float64 int64 uint8",
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", POINTS)
def test_pointwise(name: str, layout: str) -> None:
    ours, plain, dtypes = POINTS[name]
    for dtype in dtypes.split():
        for n in sizes(layout):
            v, w = numbers(n, dtype, 5), numbers(n, dtype, 6)
            (a, dim, count), (b, _, _) = placed(v, layout), placed(w, layout)
            got = along(n, dim, ours(a, b), count)
            want = plain(v.astype(numpy.float64), w.astype(numpy.float64))
            close = 2e-6 if name in ("exp", "tanh", "sqrt") else 0
            check(
                got,
                numpy.tile(numpy.asarray(want, dtype=float), count),
                f"{name} of {n} {dtype}, {layout}",
                close,
            )


# -- Products and windows
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ("float32", "float64", "int64"))
def test_products(dtype: str) -> None:
    edges = (*range(1, 18), 31, 33, 65) if NIGHTLY else (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 33)
    for m in edges:
        for n in edges:
            for k in (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 33) if NIGHTLY else (1, 3, 8, 17):
                x, y = (
                    numbers(m * k, dtype, 7).reshape(m, k),
                    numbers(k * n, dtype, 8).reshape(k, n),
                )
                want = (x.astype(float) @ y.astype(float)).ravel()
                a, b = rushlight.tensor(x.copy()), rushlight.tensor(y.copy())
                what = f"({m}, {k}) @ ({k}, {n}) of {dtype}"
                check(aten.mm(a, b), want, what)
                check(
                    aten.mm(
                        aten.t(rushlight.tensor(x.T.copy())), aten.t(rushlight.tensor(y.T.copy()))
                    ),
                    want,
                    f"{what}, transposed",
                )
                if n == 1:
                    check(aten.mv(a, rushlight.tensor(y[:, 0].copy())), want, f"{what}, mv")


def window(x: Array, w: Array, stride: int, pad: int) -> Array:
    x = numpy.pad(x, ((0, 0), (pad, pad)))
    n = (x.shape[1] - w.shape[2]) // stride + 1
    return numpy.array(
        [[(x[:, i * stride : i * stride + w.shape[2]] * one).sum() for i in range(n)] for one in w]
    )


@pytest.mark.parametrize("kernel", (1, 2, 3, 5))
def test_convolutions(kernel: int) -> None:
    for n in (*range(kernel, 36), 63, 64, 65) if NIGHTLY else (*range(kernel, 19, 2), 32, 33, 65):
        for c_in, c_out in ((1, 1), (2, 3), (3, 9), (8, 17)) if n < 18 else ((2, 5),):
            for stride, pad in ((1, 0), (2, 1), (1, kernel - 1)):
                x = numbers(c_in * n, "float32", 9).reshape(c_in, n)
                w = numbers(c_out * c_in * kernel, "float32", 10).reshape(c_out, c_in, kernel)
                got = aten.conv1d(
                    rushlight.tensor(x[None].copy()), rushlight.tensor(w), None, [stride], [pad]
                )
                check(
                    got,
                    window(x.astype(float), w.astype(float), stride, pad).ravel(),
                    f"conv1d of {c_in} x {n}, {c_out} x {kernel}, {stride}, {pad}",
                )
                tall = aten.conv2d(
                    rushlight.tensor(x[None, :, :, None].copy()),
                    rushlight.tensor(w[..., None].copy()),
                    None,
                    [stride, 1],
                    [pad, 0],
                )
                check(
                    tall,
                    window(x.astype(float), w.astype(float), stride, pad).ravel(),
                    f"conv2d of {c_in} x {n}, {c_out} x {kernel}, {stride}, {pad}",
                )


def test_gathering() -> None:
    for n in SIZES[1:]:
        v = numbers(n, "float32", 11)
        order = numpy.random.default_rng(n).permutation(n)
        t, i = rushlight.tensor(v.copy()), rushlight.tensor(order.astype(numpy.int64))
        check(aten.index_select(t, 0, i), v[order], f"index_select of {n}")
        check(aten.gather(t, 0, i), v[order], f"gather of {n}")
        check(aten.index(t, [i]), v[order], f"index of {n}")
        back = numpy.empty_like(v)
        back[order] = v
        check(aten.scatter(aten.zeros_like(t), 0, i, t), back, f"scatter of {n}")
        check(aten.index_add(aten.zeros_like(t), 0, i, t), back, f"index_add of {n}")
        mask = numpy.random.default_rng(n + 1).integers(0, 2, n).astype(bool)
        mask[-1] = True
        m = rushlight.tensor(mask)
        check(aten.masked_select(t, m), v[mask], f"masked_select of {n}")
        check(aten.masked_fill(t, m, 7), numpy.where(mask, 7, v), f"masked_fill of {n}")
        check(aten.nonzero(m), numpy.nonzero(mask)[0], f"nonzero of {n}")
