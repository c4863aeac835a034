"""Sparse tensors against PyTorch: COO and CSR, made, asked, converted, computed with,
differentiated, saved."""

from __future__ import annotations

import io
import pathlib
import pickle
import random
import re
import warnings
from collections.abc import Callable
from typing import Any

import archives
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

warnings.filterwarnings("ignore")
aten = rushlight.ops.aten
FLOATS = (torch.float32, torch.float64)
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64)


def values_of(shape: tuple[int, ...], dtype: Any) -> Any:
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 6, shape).to(dtype)


def coo(sizes: tuple[int, ...], sparse_dim: int, nnz: int, dtype: Any = torch.float32) -> Any:
    """A random tensor of coordinates, with duplicates."""
    if any(size == 0 for size in sizes[:sparse_dim]):
        nnz = 0
    indices = [torch.randint(0, max(size, 1), (nnz,)) for size in sizes[:sparse_dim]]
    table = torch.stack(indices) if indices else torch.zeros(0, nnz, dtype=torch.long)
    return torch.sparse_coo_tensor(table, values_of((nnz, *sizes[sparse_dim:]), dtype), sizes)


SHAPES = [
    ((3, 4), 2),
    ((5,), 1),
    ((2, 3, 4), 3),
    ((3, 4), 1),
    ((4, 3, 2), 2),
    ((2, 2, 2, 3), 2),
    ((0, 3), 2),
    ((3, 0), 1),
    ((), 0),
    ((1, 1), 2),
]


def some(dtype: Any = torch.float32, shapes: Any = SHAPES) -> list[Any]:
    """COO tensors of many shapes: without elements, with few, with duplicates, coalesced."""
    made = []
    for sizes, sparse_dim in shapes:
        for nnz in (0, 1, 7):
            t = coo(sizes, sparse_dim, nnz, dtype)
            made += [t, t.coalesce()]
    return made


def matrices(dtype: Any = torch.float32) -> list[Any]:
    made = some(dtype, [((3, 4), 2), ((1, 6), 2), ((5, 5), 2), ((0, 3), 2), ((3, 0), 2)])
    return made + [t.to_sparse_csr() for t in made[1::2]]


def dense(t: Any) -> Any:
    return t.to_dense() if t.layout != torch.strided else t


def same(got: Any, want: Any, what: str = "", parts: bool = False) -> None:
    """Of the same kind, with the same elements; parts: coordinates too."""
    if not isinstance(want, torch.Tensor):
        assert type(got) is type(want) and got == want, (what, got, want)
        return
    assert (got.layout, got.dtype, got.shape) == (want.layout, want.dtype, want.shape), (
        what,
        got,
        want,
    )
    if want.layout == torch.sparse_coo:
        assert got.sparse_dim() == want.sparse_dim(), (what, got, want)
        if parts:
            assert want._nnz() < 2 or got.is_coalesced() == want.is_coalesced(), (what, got, want)
            same(got._indices(), want._indices(), what)
            same(got._values(), want._values(), what)
    elif want.layout == torch.sparse_csr and parts:
        same(got.crow_indices(), want.crow_indices(), what)
        same(got.col_indices(), want.col_indices(), what)
    got, want = dense(got.detach()), dense(want.detach())
    if want.is_floating_point() or want.is_complex():
        near = 1e-2 if want.dtype in (torch.float16, torch.bfloat16) else 1e-5
        torch.testing.assert_close(
            got, want, rtol=near, atol=near, equal_nan=True, msg=what or None
        )
    else:
        assert torch.equal(got, want), (what, got, want)


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as e:  # noqa: BLE001 -- whatever PyTorch raises
        return e


def both(
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    what: str,
    parts: bool = False,
    more: bool = False,
) -> None:
    """Compare with PyTorch; what it refuses is refused, unless `more` is supported here."""
    want = outcome(theirs)
    got = outcome(ours)
    if isinstance(want, Exception):
        assert more or isinstance(got, Exception), (what, str(want)[:200], got)
    else:
        assert not isinstance(got, Exception), (what, got)
        same(got, want, what, parts)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)
    random.seed(0)


# -- Making and asking
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_cross_the_border_both_ways(dtype: Any) -> None:
    for t in some(dtype) + matrices(dtype):
        same(aten.clone(t), t, parts=True)
        same(aten.detach(t), t, parts=True)


def test_constructors_make_what_pytorch_makes() -> None:
    for t in some():
        i, v = t._indices(), t._values()
        both(
            lambda i=i, v=v: aten.sparse_coo_tensor(i, v),
            lambda i=i, v=v: torch.sparse_coo_tensor(i, v),
            "indices",
            True,
        )
        same(
            aten.sparse_coo_tensor(i, v, list(t.shape)),
            torch.sparse_coo_tensor(i, v, t.shape),
            parts=True,
        )
        same(
            aten.sparse_coo_tensor(i.int(), v, list(t.shape), dtype=torch.float64),
            t.double() if not t.is_coalesced() else torch.sparse_coo_tensor(i, v.double(), t.shape),
            parts=True,
        )
        same(
            aten._sparse_coo_tensor_unsafe(i, v, list(t.shape), is_coalesced=t.is_coalesced()),
            t,
            parts=True,
        )
        same(
            aten._sparse_coo_tensor_with_dims(
                t.sparse_dim(), t.dense_dim(), list(t.shape), layout=torch.sparse_coo
            ),
            torch.ops.aten._sparse_coo_tensor_with_dims(
                t.sparse_dim(), t.dense_dim(), list(t.shape), layout=torch.sparse_coo
            ),
            parts=True,
        )
        same(
            aten._sparse_coo_tensor_with_dims_and_tensors(
                t.sparse_dim(), t.dense_dim(), list(t.shape), i, v, layout=torch.sparse_coo
            ),
            torch.sparse_coo_tensor(i, v, t.shape),
            parts=True,
        )
    same(
        aten.sparse_coo_tensor([2, 3], dtype=torch.int64),
        torch.sparse_coo_tensor((2, 3), dtype=torch.int64),
        parts=True,
    )
    for index in (torch.int32, torch.int64):
        crow, col, v = (
            torch.tensor([0, 2, 2, 3], dtype=index),
            torch.tensor([0, 2, 1], dtype=index),
            torch.randn(3),
        )
        for size in ([], [[3, 3]]):
            want = torch.sparse_csr_tensor(crow, col, v, *size)
            same(aten.sparse_csr_tensor(crow, col, v, *size), want, parts=True)
            same(
                aten.sparse_compressed_tensor(crow, col, v, *size, layout=torch.sparse_csr),
                want,
                parts=True,
            )
        same(aten._sparse_csr_tensor_unsafe(crow, col, v, [3, 3]), want, parts=True)
        same(
            aten.sparse_csr_tensor(crow, col, torch.ones(3, 2), [3, 3, 2]),
            torch.sparse_csr_tensor(crow, col, torch.ones(3, 2), [3, 3, 2]),
            parts=True,
        )
        batch = [x.expand(2, -1).contiguous() for x in (crow, col, v)]
        same(
            aten.sparse_csr_tensor(*batch, [2, 3, 3]),
            torch.sparse_csr_tensor(*batch, [2, 3, 3]),
            parts=True,
        )


AT, V = torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.tensor([3.0, 4.0, 5.0])
CROW, COL = torch.tensor([0, 2, 3]), torch.tensor([0, 1, 2])
LIES: dict[str, Any] = {
    "a coordinate too large": (torch.sparse_coo_tensor, AT, V, (2, 2)),
    "of the first dimension": (torch.sparse_coo_tensor, AT, V, (1, 3)),
    "a negative one": (torch.sparse_coo_tensor, -AT, V, (2, 3)),
    "a negative one, sizes inferred": (torch.sparse_coo_tensor, -AT, V),
    "few values": (torch.sparse_coo_tensor, AT, V[:2], (2, 3)),
    "no matrix of indices": (torch.sparse_coo_tensor, AT[0], V, (2, 3)),
    "few sizes": (torch.sparse_coo_tensor, AT, V, (2,)),
    "many sizes": (torch.sparse_coo_tensor, AT, V, (2, 3, 4)),
    "other dense sizes": (torch.sparse_coo_tensor, AT, torch.ones(3, 4), (2, 3, 5)),
    "values without dimensions": (torch.sparse_coo_tensor, AT, torch.tensor(1.0), (2, 3)),
    "an index where there is no place": (
        torch.sparse_coo_tensor,
        torch.zeros(2, 1, dtype=torch.long),
        V[:1],
        (0, 3),
    ),
    "two dtypes of indices": (torch.sparse_csr_tensor, CROW.int(), COL, V, (2, 3)),
    "indices that are no ints": (torch.sparse_csr_tensor, CROW.float(), COL.float(), V, (2, 3)),
    "few rows": (torch.sparse_csr_tensor, CROW, COL, V, (3, 3)),
    "a column too large": (torch.sparse_csr_tensor, CROW, COL, V, (2, 2)),
    "a negative column": (torch.sparse_csr_tensor, CROW, -COL, V, (2, 3)),
    "few values of rows": (torch.sparse_csr_tensor, CROW, COL, V[:2], (2, 3)),
    "rows that end early": (torch.sparse_csr_tensor, torch.tensor([0, 2, 2]), COL, V, (2, 3)),
    "rows that begin late": (torch.sparse_csr_tensor, torch.tensor([1, 3, 3]), COL, V, (2, 3)),
    "rows that fall": (
        torch.sparse_csr_tensor,
        torch.tensor([0, 4, 3]),
        torch.tensor([0, 2, 1]),
        V,
        (2, 3),
    ),
    "a dense dimension that sizes lack": (
        torch.sparse_csr_tensor,
        CROW,
        COL,
        torch.ones(3, 2),
        (2, 3),
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_indices_that_lie_are_refused_in_pytorchs_words(lie: str) -> None:
    maker, *args = LIES[lie]
    with torch.sparse.check_sparse_tensor_invariants():
        want = outcome(lambda: maker(*args))
    assert isinstance(want, RuntimeError), want
    with pytest.raises(RuntimeError) as got:
        getattr(aten, maker.__name__)(*(list(a) if isinstance(a, tuple) else a for a in args))
    assert str(got.value).split("\n")[0] == str(want).split("\n")[0]


def test_a_flag_that_lies_is_refused() -> None:
    with pytest.raises(
        RuntimeError,
        match="cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor",
    ):
        aten._sparse_coo_tensor_unsafe(AT.flip(1), V, [2, 3], is_coalesced=True)
    ours = rushlight.as_tensor(coo((3, 3), 2, 20)).clone()
    with pytest.raises(RuntimeError, match="cannot set is_coalesced"):
        aten._coalesced_(ours, True)


def test_indices_cannot_be_written_to() -> None:
    indices, values = rushlight.as_tensor(AT.clone()), rushlight.as_tensor(V.clone())
    s = aten.sparse_coo_tensor(indices, values, [2, 3])
    aten.fill_(indices, 1000)
    values.resize_(0)
    assert s.to_dense().tolist() == [[0, 0, 3], [4, 0, 5]]
    with pytest.raises(ValueError, match="read-only"):
        s._indices().fill_(1000)
    aten.mul_(s._values(), 2)
    assert s.to_dense().tolist() == [[0, 0, 6], [8, 0, 10]]


QUESTIONS = (
    "indices",
    "values",
    "_indices",
    "_values",
    "crow_indices",
    "col_indices",
    "_nnz",
    "is_coalesced",
    "sparse_dim",
    "dense_dim",
    "dim",
    "numel",
    "is_floating_point",
    "is_complex",
    "is_signed",
    "element_size",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_have_pytorchs_answers(question: str) -> None:
    for t in [*some(), *matrices(), torch.ones(2, 3)]:
        want, got = outcome(getattr(t, question)), outcome(lambda t=t: getattr(aten, question)(t))
        if isinstance(want, Exception):
            assert type(got) is type(want), (got, want)
            assert str(got).split(".")[0] == str(want).split(".")[0]
        else:
            same(got, want)


def test_tensors_have_the_attributes_and_methods() -> None:
    for theirs in (coo((2, 3), 2, 4), torch.eye(3).to_sparse_csr()):
        t = rushlight.as_tensor(theirs)
        assert (t.is_sparse, t.is_sparse_csr) == (theirs.is_sparse, theirs.is_sparse_csr)
        assert tuple(t.shape) == tuple(theirs.shape) and t.dtype == rushlight.float32
        assert (
            repr(t.layout) == str(theirs.layout).replace("torch", "rushlight")
            and t.layout != rushlight.strided
        )
        same(torch_of(pickle.loads(pickle.dumps(t))), theirs, parts=True)
        assert t.to_dense().tolist() == theirs.to_dense().tolist()
        assert (t * 2).to_dense().tolist() == (theirs * 2).to_dense().tolist()
        assert (t @ torch.ones(3, 2)).tolist() == (theirs @ torch.ones(3, 2)).tolist()
    assert rushlight.as_tensor(torch.ones(2)).is_sparse is False


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16])
def test_printing_is_pythons(dtype: Any) -> None:
    for t in some(dtype) + matrices(dtype):
        assert repr(rushlight.as_tensor(t)) == repr(t)
    big = coo((100, 100), 2, 2000, dtype)
    assert repr(rushlight.as_tensor(big)) == repr(big)
    if dtype.is_floating_point:
        t = coo((2, 3), 2, 2, dtype).requires_grad_()
        assert repr(rushlight.as_tensor(t)) == repr(t)


def test_printing_in_programs_is_libtorchs(capfd: pytest.CaptureFixture[str]) -> None:
    def f(x: torch.Tensor) -> str:
        print(x)
        return str(x)

    ours, theirs = rushlight.jit.script(f), torch.jit.script(f)
    for t in some():
        want, printed = theirs(t), capfd.readouterr().out
        assert ours(t) == want
        assert capfd.readouterr().out == printed


# -- Conversion
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16, torch.bfloat16])
def test_layouts_are_converted(dtype: Any) -> None:
    for t in some(dtype):
        same(aten.coalesce(t), t.coalesce(), parts=True)
        same(aten.to_dense(t), t.to_dense())
        same(aten._to_dense(t), t.to_dense())
        both(lambda t=t: aten.to_sparse_csr(t), t.to_sparse_csr, "to_sparse_csr", True)
        same(aten.to_sparse(t), t, parts=True)
        d = t.to_dense()
        for n in range(-1, d.dim() + 2):
            both(
                lambda d=d, n=n: aten.to_sparse(d, n),
                lambda d=d, n=n: d.to_sparse(n),
                f"to_sparse({n})",
                True,
            )
        same(aten.to_sparse(d), d.to_sparse(), parts=True)
    for t in matrices(dtype):
        same(aten.to_dense(t), t.to_dense())
        same(aten.to_sparse(t), t.to_sparse(), parts=True)
        same(
            aten.to_sparse(t, layout=torch.sparse_csr),
            t.to_sparse(layout=torch.sparse_csr),
            parts=True,
        )
        same(aten.to_sparse_csr(t.to_dense()), t.to_dense().to_sparse_csr(), parts=True)


@pytest.mark.parametrize("to", [torch.float64, torch.int64, torch.bool, torch.float16])
def test_dtypes_are_converted(to: Any) -> None:
    for t in some() + matrices():
        same(aten.to(t, to), t.to(to), parts=True)
        same(aten.to(t, t.dtype), t, parts=True)


def test_batches_of_rows_are_converted() -> None:
    crow, col = torch.tensor([[0, 1, 2], [0, 2, 2]]), torch.tensor([[1, 0], [0, 2]])
    t = torch.sparse_csr_tensor(crow, col, torch.randn(2, 2), (2, 2, 3))
    same(aten.to_dense(t), t.to_dense())
    assert repr(rushlight.as_tensor(t)) == repr(t)


# -- Computing
# --------------------------------------------------------------------------------------------------

UNARY = (
    "abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isinf isnan isneginf "
    "isposinf log1p nan_to_num "
    "neg rad2deg relu round sgn sign signbit sin sinh sqrt tan tanh trunc"
).split()


@pytest.mark.parametrize("name", UNARY)
def test_functions_that_keep_zero_run_on_values(name: str) -> None:
    for dtype in (torch.float32, torch.int64):
        for t in some(dtype) + (matrices(dtype) if name != "nan_to_num" else []):
            both(
                lambda t=t: getattr(aten, name)(t), lambda t=t: getattr(torch, name)(t), name, True
            )


def test_pow_of_values() -> None:
    for t in some():
        for by in (2, 3.0, 0):
            both(lambda t=t, by=by: aten.pow(t, by), lambda t=t, by=by: t.pow(by), "pow", True)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.complex64]
)
def test_sparse_and_sparse(dtype: Any) -> None:
    for sizes, sparse_dim in SHAPES:
        for n in (0, 1, 7):
            for m in (0, 3, 9):
                for fix in (lambda t: t, lambda t: t.coalesce()):
                    a, b = fix(coo(sizes, sparse_dim, n, dtype)), coo(sizes, sparse_dim, m, dtype)
                    for name in (
                        ("add", "sub", "mul") if sizes else ("add", "sub")
                    ):  # PyTorch's mul leaves memory as it is there
                        both(
                            lambda a=a, b=b, name=name: getattr(aten, name)(a, b),
                            lambda a=a, b=b, name=name: getattr(torch, name)(a, b),
                            name,
                            name != "mul" and dtype is not torch.bool,
                            dtype is torch.bool,
                        )
                    if dtype is not torch.bool:
                        same(aten.add(a, b, alpha=3), torch.add(a, b, alpha=3), parts=True)
                        same(aten.sub(a, b, alpha=2), torch.sub(a, b, alpha=2), parts=True)


def test_dtypes_of_two_are_promoted() -> None:
    a = coo((3, 4), 2, 5)
    for dtype in (torch.float64, torch.int64, torch.complex64):
        b = coo((3, 4), 2, 5, dtype)
        for name in ("add", "mul"):
            both(
                lambda b=b, name=name: getattr(aten, name)(a, b),
                lambda b=b, name=name: getattr(torch, name)(a, b),
                name,
            )
        both(lambda b=b: aten.mul(a, b.to_dense()), lambda b=b: a * b.to_dense(), "mul dense")
        both(lambda b=b: aten.add(a.to_dense(), b), lambda b=b: a.to_dense() + b, "add dense")


def test_others_than_their_kind_are_refused() -> None:
    a, b, d = coo((3, 4), 2, 5), coo((3, 4), 1, 2), torch.ones(3, 4)
    for call, words in (
        (
            lambda: aten.add(a, d),
            r"add\(sparse, dense\) is not supported. Use add\(dense, sparse\) instead.",
        ),
        (lambda: aten.add(a, 2), r"add\(sparse, dense\) is not supported"),
        (lambda: aten.add(a, b), "expected 'self' and 'other' to have same density"),
        (lambda: aten.add(a, coo((4, 3), 2, 3)), "expected sizes of 'self' and 'other' to match"),
        (lambda: aten.mul(a, b), "expects sparse inputs with equal dimensionality"),
        (
            lambda: aten.div(a, d),
            r"Sparse division requires a scalar or zero-dim dense tensor divisor \(got shape \[3, "
            r"4\] for divisor\)",
        ),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64])
def test_sparse_and_dense(dtype: Any) -> None:
    for t in some(dtype):
        d = values_of(tuple(t.shape), dtype)
        same(aten.add(d, t), d + t)
        same(aten.add(d, t, alpha=2), torch.add(d, t, alpha=2))
        same(aten.sub(d, t), d - t)
        for other in (d, d[..., :1] if d.dim() else d, d[:1] if d.dim() else d):
            both(lambda t=t, o=other: aten.mul(t, o), lambda t=t, o=other: t * o, "mul")
            both(lambda t=t, o=other: aten.mul(o, t), lambda t=t, o=other: o * t, "mul reversed")
        same(aten.sparse_mask(d, t), d.sparse_mask(t), parts=True)
    for t in matrices(dtype):
        d = values_of(tuple(t.shape), dtype)
        same(aten.add(d, t), d + t)
        both(lambda t=t, d=d: aten.mul(t, d), lambda t=t, d=d: t * d, "mul")
        same(aten.sparse_mask(d, t), d.sparse_mask(t), parts=True)


def test_rows_and_rows() -> None:
    for sizes in ((3, 4), (5, 5), (0, 3), (3, 0)):
        for n in (0, 4, 9):
            a, b = coo(sizes, 2, n).to_sparse_csr(), coo(sizes, 2, 5).to_sparse_csr()
            both(lambda a=a, b=b: aten.add(a, b), lambda a=a, b=b: a + b, "add", True)
            both(
                lambda a=a, b=b: aten.add(a, b, alpha=2),
                lambda a=a, b=b: torch.add(a, b, alpha=2),
                "add",
                True,
            )
            both(lambda a=a, b=b: aten.mul(a, b), lambda a=a, b=b: a * b, "mul")


def test_numbers() -> None:
    for dtype in DTYPES:
        for t in some(dtype) + matrices(dtype)[1::2]:
            for number in (2, 2.5, torch.tensor(3.0), torch.tensor(2, dtype=torch.float64)):
                both(
                    lambda t=t, n=number: aten.mul(t, n),
                    lambda t=t, n=number: t * n,
                    "mul",
                    t.numel() > 0,
                )
                if t.layout == torch.sparse_coo:
                    both(
                        lambda t=t, n=number: aten.div(t, n),
                        lambda t=t, n=number: t / n,
                        "div",
                        True,
                    )


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16])
def test_sums(dtype: Any) -> None:
    for t in some(dtype):
        same(aten.sum(t), t.sum())
        same(aten._sparse_sum(t), torch.sparse.sum(t))
        same(aten._sparse_sum(t, dtype=torch.float64), torch.sparse.sum(t, dtype=torch.float64))
        for n in range(1, t.dim() + 1):
            for dims in ([n - 1], list(range(n)), [-n]):
                both(
                    lambda t=t, dims=dims: aten._sparse_sum(t, dims),
                    lambda t=t, dims=dims: torch.sparse.sum(t, dims),
                    f"sum {dims}",
                    True,
                    True,
                )
                both(
                    lambda t=t, dims=dims: aten._sparse_sum(t, dims, dtype=torch.float64),
                    lambda t=t, dims=dims: torch.sparse.sum(t, dims, dtype=torch.float64),
                    f"sum {dims}",
                )
                for keep in (False, True):
                    both(
                        lambda t=t, dims=dims, keep=keep: aten.sum(t, dims, keep),
                        lambda t=t, dims=dims, keep=keep: t.sum(dims, keep),
                        f"sum {dims}",
                    )
    for t in matrices(dtype):
        same(aten.sum(t), t.sum())


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.float64,
        torch.int64,
        torch.int32,
        torch.uint8,
        torch.complex64,
        torch.complex128,
    ],
)
def test_products_of_matrices(dtype: Any) -> None:
    for t in matrices(dtype):
        is_csr = t.layout == torch.sparse_csr
        if is_csr and not (dtype.is_floating_point or dtype.is_complex):
            continue
        right, left = values_of((t.shape[1], 5), dtype), values_of((2, t.shape[0]), dtype)
        same(aten.mm(t, right), t @ right)
        same(aten.matmul(t, right), t @ right)
        same(aten._sparse_mm(t, right), torch.sparse.mm(t, right))
        both(lambda t=t, d=left: aten.mm(d, t), lambda t=t, d=left: d @ t, "dense @ sparse")
        both(lambda t=t, d=right[:, 0]: aten.mv(t, d), lambda t=t, d=right[:, 0]: t.mv(d), "mv")
        both(lambda t=t, d=right[:, 0]: aten.matmul(t, d), lambda t=t, d=right[:, 0]: t @ d, "mv")
        both(
            lambda t=t, d=right: aten.mm(t, d.t().contiguous().t()),
            lambda t=t, d=right: t @ d,
            "strided",
        )
        with_ = values_of((t.shape[0], 5), dtype)
        for beta, alpha in ((1, 1), (2, 3), (0, 1)):
            both(
                lambda t=t, a=with_, b=right, be=beta, al=alpha: aten.addmm(
                    a, t, b, beta=be, alpha=al
                ),
                lambda t=t, a=with_, b=right, be=beta, al=alpha: torch.addmm(
                    a, t, b, beta=be, alpha=al
                ),
                "addmm",
            )
            both(
                lambda t=t, a=with_, b=right, be=beta, al=alpha: aten._sparse_addmm(
                    a, t, b, beta=be, alpha=al
                ),
                lambda t=t, a=with_, b=right, be=beta, al=alpha: torch.sparse.addmm(
                    a, t, b, beta=be, alpha=al
                ),
                "sparse.addmm",
            )
        if dtype.is_floating_point or dtype.is_complex:
            other = coo((t.shape[1], 4), 2, 6, dtype)
            other = other.to_sparse_csr() if is_csr else other
            same(aten.mm(t, other), t @ other, parts=not is_csr)
            same(aten._sparse_mm(t, other), torch.sparse.mm(t, other))


def test_linear_layers_with_sparse_weights() -> None:
    for weight in (coo((4, 3), 2, 6), coo((4, 3), 2, 6).to_sparse_csr()):
        for x in (torch.randn(5, 3), torch.randn(2, 5, 3), torch.randn(3)):
            for bias in (None, torch.randn(4)):
                want = torch.nn.functional.linear(x, weight.to_dense(), bias)
                same(aten.linear(x, weight, bias), want)


def test_products_refuse_what_pytorch_refuses() -> None:
    a = coo((3, 4), 2, 5)
    for b in (
        torch.ones(3, 4),
        coo((3, 4), 2, 2),
        torch.ones(4, 2, dtype=torch.float64),
        torch.ones(4),
        torch.ones(4).to_sparse(),
    ):
        both(lambda b=b: aten.mm(a, b), lambda b=b: torch.mm(a, b), "mm")
    both(
        lambda: aten.mm(a.bool(), torch.ones(4, 2, dtype=torch.bool)),
        lambda: a.bool() @ torch.ones(4, 2, dtype=torch.bool),
        "bool",
    )


def test_dimensions() -> None:
    for t in some():
        both(lambda t=t: aten.t(t), t.t, "t", True)
        if t.dim():
            with pytest.raises(IndexError, match="out of range"):
                aten.index_select(t, 0, torch.tensor([9]))
        for d in range(t.dim()):
            for e in range(-t.dim(), t.dim()):
                both(
                    lambda t=t, d=d, e=e: aten.transpose(t, d, e),
                    lambda t=t, d=d, e=e: t.transpose(d, e),
                    "transpose",
                )
            for index in (0, -1, 1, 9):
                both(
                    lambda t=t, d=d, i=index: aten.select(t, d, i),
                    lambda t=t, d=d, i=index: t.select(d, i),
                    "select",
                )
            for index in ([], [0], [1, 0, 1]):
                index = torch.tensor(index, dtype=torch.long)
                if t.shape[d]:
                    both(
                        lambda t=t, d=d, i=index: aten.index_select(t, d, i),
                        lambda t=t, d=d, i=index: t.index_select(d, i),
                        "index_select",
                    )
        for d in range(-t.dim() - 1, t.dim() + 1):
            both(
                lambda t=t, d=d: aten.unsqueeze(t, d), lambda t=t, d=d: t.unsqueeze(d), "unsqueeze"
            )
        order = list(range(t.dim()))[::-1]
        if t.dense_dim() == 0:
            both(
                lambda t=t, o=order: aten.permute(t, o),
                lambda t=t, o=order: t.permute(o),
                "permute",
            )
        if t.sparse_dim():
            both(lambda t=t: aten.cat([t, t, t]), lambda t=t: torch.cat([t, t, t]), "cat")
    for t in some():
        same(aten.zeros_like(t), torch.zeros_like(t), parts=True)
        same(aten.empty_like(t), torch.empty_like(t), parts=True)
    for t in matrices():
        same(aten.zeros_like(t), torch.zeros_like(t), parts=True)


def test_writes_in_place() -> None:
    for t in some():
        for name, args in (
            ("mul_", (2.0,)),
            ("neg_", ()),
            ("zero_", ()),
            ("add_", (t,)),
            ("sub_", (t,)),
            ("div_", (2,)),
            ("abs_", ()),
            ("copy_", (t,)),
        ):
            ours, theirs = rushlight.as_tensor(t.clone()).clone(), t.clone()
            if theirs.is_coalesced() or name not in ("abs_",):
                getattr(aten, name)(ours, *args)
                getattr(theirs, name)(*args)
                want = theirs.to_dense()
                torch.testing.assert_close(torch.from_dlpack(ours.to_dense()), want)
    d = torch.ones(3, 4)
    aten.add_(d, coo((3, 4), 2, 0))
    s = coo((3, 4), 2, 5)
    aten.add_(d, s)
    same(d, torch.ones(3, 4) + s)


# -- The border
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, args",
    [
        ("sigmoid", ()),
        ("exp", ()),
        ("view", ([6],)),
        ("max", ()),
        ("sort", ()),
        ("eq.Tensor", None),
        ("cumsum", (0,)),
        ("nonzero", ()),
        ("mean.dim", ([0],)),
        ("bernoulli", ()),
        ("item", ()),
        ("as_strided", ([2], [1])),
    ],
)
def test_operators_that_take_none_are_refused_in_pytorchs_words(name: str, args: Any) -> None:
    op = aten
    for part in name.split("."):
        op = getattr(op, part)
    for t in (coo((2, 3), 2, 3), coo((2, 3), 2, 3).to_sparse_csr()):
        with pytest.raises(NotImplementedError) as e:
            op(t, *((t,) if args is None else args))
        backend = "SparseCsrCPU" if t.layout == torch.sparse_csr else "SparseCPU"
        assert f"with arguments from the '{backend}' backend" in str(e.value)
        assert str(e.value).startswith("Could not run 'aten::")


# Operators whose answers depend on the layout, or on chance, or that PyTorch's layouts make
# different: parts, questions.
OTHERWISE = re.compile(
    r"_?(values|indices|nnz|coalesce\w*|is_\w+|layout|\w*sparse\w*|rand\w*|empty\w*|new_empty\w*|"
    r"bernoulli\w*|dropout\w*|native_dropout"
    r"|sample\w*|multinomial|normal\w*|\w*_dim|stride\w*|storage\w*|get_device|version|shape_as_t"
    r"ensor|_?fw_primal|\w*rrelu\w*"
    r"|div|divide|true_divide)"  # of zeros by zero
)


def test_no_operator_sees_the_memory_of_a_sparse_tensor() -> None:
    """Every operator, with sparse tensors for tensors: an exception, or what dense tensors give;
    never zeros for elements."""
    t, d = (coo((3, 3), 2, 9) + torch.eye(3).to_sparse()).coalesce(), torch.rand(3, 3)
    n_ran, wrong = 0, []
    for s in (t, t.to_sparse_csr()):
        for name in dir(aten):
            packet = getattr(aten, name)
            for args in ((s,), (s, s), (d, s), ([s, s],), (s, 0), (s, 0, 1), (d, s, s)):
                got = outcome(lambda p=packet, args=args: p(*args))
                if isinstance(got, Exception) or OTHERWISE.fullmatch(name) or name.endswith("_"):
                    continue
                plain = [
                    [x.to_dense() for x in a]
                    if isinstance(a, list)
                    else dense(a)
                    if isinstance(a, torch.Tensor)
                    else a
                    for a in args
                ]
                want = outcome(lambda p=packet, args=plain: p(*args))
                if isinstance(got, torch.Tensor) and isinstance(want, torch.Tensor):
                    n_ran += 1
                    if not torch.allclose(dense(got), want, rtol=1e-4, atol=1e-4, equal_nan=True):
                        wrong.append(f"{name}, {len(args)} arguments, {s.layout}")
    assert wrong == []
    assert n_ran > 200


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_memory_is_shown_to_nobody(layout: Any) -> None:
    import numpy as np

    t = rushlight.as_tensor(torch.eye(3).to_sparse(layout=layout))
    for call, kind in (
        (t.numpy, TypeError),
        (lambda: memoryview(t), BufferError),
        (t.__dlpack__, BufferError),
        (t.tolist, NotImplementedError),
        (lambda: np.asarray(t), TypeError),
        (lambda: float(t), NotImplementedError),
        (t.item, NotImplementedError),
        (t.data_ptr, RuntimeError),
    ):
        with pytest.raises(kind):
            call()


# -- Programs
# --------------------------------------------------------------------------------------------------


class Layer(torch.nn.Module):
    """A program with a sparse buffer, and sparse tensors on the way."""

    def __init__(self, s: Any) -> None:
        super().__init__()
        self.register_buffer("s", s)
        self.n = 3

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool]:
        y = torch.mm(self.s, x)
        z = y.to_sparse()
        for _ in range(self.n):
            z = z + z * 0.5
        return y, z.coalesce(), self.s.is_sparse


@pytest.mark.parametrize("layout", ["coo", "coalesced", "csr"])
def test_archives_hold_sparse_tensors(layout: str, tmp_path: pathlib.Path, run: Any) -> None:
    s = coo((3, 4), 2, 7)
    s = s.coalesce() if layout == "coalesced" else s.to_sparse_csr() if layout == "csr" else s
    program, x = torch.jit.script(Layer(s)), torch.randn(4, 2)
    path = tmp_path / "layer.pt"
    program.save(str(path))
    want = program(x)
    loaded, kept = rushlight.load(str(path)), torch.jit.load(str(path)).s
    for _ in range(4):  # specialised after the first
        for got, expected in zip(loaded(x), want, strict=True):
            same(got, expected)
    same(loaded.s, kept, parts=True)
    again = io.BytesIO()
    rushlight.jit.save(loaded, again)
    again.seek(0)
    back = torch.jit.load(again)
    same(back.s, kept, parts=True)
    same(back(x)[1], want[1])
    frozen = rushlight.jit.freeze(rushlight.jit.load(str(path)).eval())
    same(frozen(x)[0], want[0])
    assert ("sparse_csr" if layout == "csr" else "sparse_coo") in run("show", str(path)).stdout
    assert "is_sparse" not in run("show", "--digest", str(path)).stdout
    run("show", "--html", str(path))
    assert "[ SparseCPUFloatType{}" in run("run", str(path), "randn(4,2)").stdout


def test_programs_take_and_give_sparse_tensors() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor], int]:
        if x.is_sparse and x.layout == torch.sparse_coo:
            z = torch.sparse.mm(x, y)
        else:
            z = y
        return x * 2, [z, x.t()], x.sparse_dim()

    ours, theirs = rushlight.jit.script(f), torch.jit.script(f)
    for x in (coo((3, 3), 2, 5), coo((3, 3), 2, 0)):
        for _ in range(3):
            got, want = ours(x, torch.ones(3, 3)), theirs(x, torch.ones(3, 3))
            same(got[0], want[0], parts=True)
            same(got[1][0], want[1][0])
            same(got[1][1], want[1][1])
            assert got[2] == want[2]


@pytest.mark.parametrize(
    "name", ["mul", "_to_sparse", "_to_sparse_csr", "add", "quantize_per_tensor"]
)
def test_quantized_tensors_do_not_mix_with_sparse_ones(name: str) -> None:
    q = torch.quantize_per_tensor(torch.ones(64, 64), 0.1, 3, torch.quint8)
    s = coo((64, 64), 2, 5)
    args = {"mul": (q, s), "add": (s, q), "quantize_per_tensor": (s, 0.1, 3, torch.quint8)}.get(
        name, (q,)
    )
    with pytest.raises(RuntimeError):  # NotImplementedError is one
        getattr(torch.ops.aten, name)(*args)
    with pytest.raises(NotImplementedError, match="sparse"):
        getattr(aten, name)(*args)


def test_a_plan_of_dense_tensors_meets_a_sparse_one() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        z = y * x
        return z.neg() * 0.5

    ours = rushlight.jit.script(f)
    expanded = torch.zeros(()).expand(3, 3)
    for _ in range(5):
        same(ours(expanded), f(expanded))
    s = coo((3, 3), 2, 5)
    for _ in range(3):
        same(ours(s), f(s))
    same(ours(expanded), f(expanded))


@pytest.mark.parametrize("lie", ["size", "negative", "crow"])
def test_archives_that_lie_are_refused(lie: str, tmp_path: pathlib.Path) -> None:
    s = torch.sparse_coo_tensor(AT, V, (2, 3))
    s = s.to_sparse_csr() if lie == "crow" else s
    made = io.BytesIO()
    torch.jit.save(torch.jit.script(Layer(s)), made)
    content = archives.records(made.getvalue())
    root = next(iter(content)).split("/")[0]
    data = bytearray(content[f"{root}/data/0"])  # the indices, or crow's
    data[8:16] = (-1 if lie == "negative" else 77).to_bytes(8, "little", signed=True)
    path = tmp_path / "lie.pt"
    path.write_bytes(archives.changed(made.getvalue(), **{"data/0": bytes(data)}))
    with pytest.raises(RuntimeError, match="size is inconsistent|negative index|crow_indices"):
        rushlight.load(str(path))


def test_torchs_files_are_read(tmp_path: pathlib.Path, run: Any) -> None:
    torch.save({"s": torch.eye(3).to_sparse()}, tmp_path / "t.pt")
    shown = run("show", str(tmp_path / "t.pt")).stdout
    assert "sparse_coo float32[3, 3]" in shown and "1 to 1, mean 1" in shown
    for t in some() + matrices():
        torch.save({"t": t}, tmp_path / "t.pt")
        same(torch_of(rushlight.load_value(str(tmp_path / "t.pt"))["t"]), t, parts=True)


def torch_of(t: Any) -> Any:
    from rushlight.jit.quantized import sparse_to_torch

    return t if isinstance(t, torch.Tensor) else sparse_to_torch(t)


def test_limits_hold_in_sparse_kernels() -> None:
    n = 200_000
    big = torch.sparse_coo_tensor(torch.zeros(2, n, dtype=torch.long), torch.ones(n), (4, 4))
    with (
        pytest.raises(Exception, match="deadline|time|seconds|limit|memory|bytes"),
        rushlight.limits(seconds=0.2),
    ):
        aten.mm(aten.cat([big] * 10).t(), aten.cat([big] * 10))


# -- Gradients
# --------------------------------------------------------------------------------------------------

Tensor = torch.Tensor


def dense_of(s: Tensor) -> Tensor:
    return s.to_dense()


def sparse_mm(s: Tensor, d: Tensor) -> Tensor:
    return torch.sparse.mm(s, d)


def mm(s: Tensor, d: Tensor) -> Tensor:
    return torch.mm(s, d)


def mv(s: Tensor, d: Tensor) -> Tensor:
    return torch.mv(s, d[:, 0])


def addmm(s: Tensor, d: Tensor) -> Tensor:
    return torch.sparse.addmm(torch.ones(2, 2), s, d, beta=2.0, alpha=3.0)


def squares(s: Tensor) -> Tensor:
    return (s * s).to_dense()


def added(s: Tensor, d: Tensor) -> Tensor:
    return d.t() + s


def values(s: Tensor) -> Tensor:
    return s.coalesce().values()


def summed(s: Tensor) -> Tensor:
    return torch.sparse.sum(s * 2)


def turned(s: Tensor) -> Tensor:
    return s.neg().t().to_dense()


def sparse_sparse(s: Tensor) -> Tensor:
    return torch.sparse.mm(s, s.t()).to_dense()


def summed_over(s: Tensor) -> Tensor:
    return torch._sparse_sum(s, [0]).to_dense()


def made(d: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(torch.tensor([[0, 1, 0], [1, 0, 1]]), d[:, 0], [2, 3]).to_dense()


def made_dense(d: Tensor) -> Tensor:
    return torch.sparse.mm(d.to_sparse(), d.t()) + d.to_sparse_csr().to_dense().sum()


def embedded(d: Tensor) -> Tensor:
    return torch.nn.functional.embedding(torch.tensor([[1, 2], [2, 0]]), d, sparse=True)


@pytest.mark.parametrize("layout", ["duplicates", "coalesced", "csr"])
@pytest.mark.parametrize(
    "f",
    [
        dense_of,
        sparse_mm,
        mm,
        mv,
        addmm,
        squares,
        added,
        values,
        summed,
        turned,
        sparse_sparse,
        summed_over,
        made,
        made_dense,
        embedded,
    ],
)
def test_gradients_are_pytorchs(f: Any, layout: str) -> None:
    s = torch.sparse_coo_tensor(
        torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]]), torch.arange(4.0) + 1, (2, 3)
    )
    s = (
        s
        if layout == "duplicates"
        else s.coalesce()
        if layout == "coalesced"
        else s.coalesce().to_sparse_csr()
    )
    if layout == "csr" and f in (values, summed, turned, sparse_sparse, summed_over):
        pytest.skip("PyTorch has no such gradient of compressed rows")
    d, program = torch.randn(3, 2), rushlight.jit.script(f)
    names = f.__code__.co_varnames[: f.__code__.co_argcount]
    theirs = [{"s": s, "d": d}[name].clone().requires_grad_() for name in names]
    ours = [t.detach().clone().requires_grad_() for t in theirs]
    f(*theirs).sin().sum().backward()
    program(*ours).sin().sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        assert a.grad is not None and b.grad is not None
        same(a.grad, b.grad)
