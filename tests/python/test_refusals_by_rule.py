"""What shape rules refuse, PyTorch refuses with the same words: in a call, and in a trace, where
only the rule runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

rushlight = pytest.importorskip("rushlight")
torch = pytest.importorskip("torch")

f, i = torch.randn, torch.tensor
SQUARE, WIDE, ROW = f(3, 3), f(3, 4), f(3)
EMPTY = torch.empty(0, 3)
INTS = torch.ones(3, 3, dtype=torch.int64)
DOUBLES = torch.ones(3, 3, dtype=torch.float64)

# The operator, its arguments, PyTorch's function.
CASES: list[tuple[str, list[Any], Callable[..., Any]]] = [
    # reductions
    ("aten::sum.dim_IntList", [SQUARE, [0, 0]], lambda x, d: x.sum(d)),
    ("aten::mean", [INTS], torch.mean),
    ("aten::amax", [EMPTY, [0]], torch.amax),
    ("aten::amax", [EMPTY], torch.amax),
    ("aten::max", [EMPTY], torch.max),
    ("aten::max.dim", [EMPTY, 0], torch.max),
    ("aten::argmin", [EMPTY], torch.argmin),
    ("aten::argmax", [EMPTY, 0], torch.argmax),
    ("aten::var", [INTS], torch.var),
    ("aten::linalg_vector_norm", [EMPTY, float("inf")], torch.linalg.vector_norm),
    ("aten::linalg_vector_norm", [INTS], torch.linalg.vector_norm),
    # order
    ("aten::topk", [SQUARE, 4], torch.topk),
    ("aten::kthvalue", [SQUARE, 4], torch.kthvalue),
    ("aten::mode", [EMPTY, 0], torch.mode),
    ("aten::median.dim", [EMPTY, 0], torch.median),
    ("aten::cummax", [i(1.0), 1], torch.cummax),
    # linear algebra
    ("aten::linalg_inv", [WIDE], torch.linalg.inv),
    ("aten::linalg_inv", [ROW], torch.linalg.inv),
    ("aten::linalg_inv_ex", [INTS], torch.linalg.inv_ex),
    ("aten::linalg_cholesky", [WIDE], torch.linalg.cholesky),
    ("aten::linalg_det", [WIDE], torch.linalg.det),
    ("aten::linalg_slogdet", [WIDE], torch.linalg.slogdet),
    ("aten::linalg_qr", [ROW], torch.linalg.qr),
    ("aten::linalg_qr", [SQUARE, "all"], torch.linalg.qr),
    ("aten::linalg_eigh", [SQUARE, "X"], torch.linalg.eigh),
    ("aten::linalg_svd", [INTS], torch.linalg.svd),
    ("aten::linalg_solve", [SQUARE, DOUBLES], torch.linalg.solve),
    ("aten::linalg_solve", [SQUARE, f(4, 2)], torch.linalg.solve),
    ("aten::cholesky_solve", [f(4, 2), SQUARE], torch.cholesky_solve),
    # products
    ("aten::mm", [ROW, SQUARE], torch.mm),
    ("aten::mm", [SQUARE, f(4, 2)], torch.mm),
    ("aten::mm", [SQUARE, DOUBLES], torch.mm),
    ("aten::addmm", [f(5), SQUARE, SQUARE], torch.addmm),
    ("aten::bmm", [SQUARE, SQUARE], torch.bmm),
    ("aten::bmm", [f(2, 3, 4), f(2, 3, 4)], torch.bmm),
    ("aten::mv", [SQUARE, f(4)], torch.mv),
    ("aten::dot", [ROW, f(4)], torch.dot),
    ("aten::matmul", [i(1.0), ROW], torch.matmul),
    ("aten::matmul", [f(2, 3, 4), f(2, 3, 4)], torch.matmul),
    ("aten::linear", [SQUARE, f(2, 4)], torch.nn.functional.linear),
    # transforms
    ("aten::fft_fft", [ROW, 0], torch.fft.fft),
    ("aten::fft_fftn", [SQUARE, None, [0, 0]], torch.fft.fftn),
    ("aten::fft_rfft", [ROW.to(torch.complex64)], torch.fft.rfft),
    ("aten::fft_irfftn", [i(1.0)], torch.fft.irfftn),
    ("aten::fft_fft", [ROW, None, -1, "all"], torch.fft.fft),
    # indices
    ("aten::index_select", [SQUARE, 0, INTS], torch.index_select),
    ("aten::gather", [SQUARE, 0, ROW], torch.gather),
    ("aten::gather", [f(2, 3), 0, torch.zeros(2, 4, dtype=torch.int64)], torch.gather),
    ("aten::take", [SQUARE, ROW], torch.take),
    ("aten::scatter_add", [SQUARE, 0, i([0]), SQUARE], torch.scatter_add),
    ("aten::index_add", [SQUARE, 0, i([0]), SQUARE], torch.index_add),
    ("aten::index_copy", [SQUARE, 0, i([0]), WIDE[:1]], torch.index_copy),
    ("aten::take_along_dim", [SQUARE, i([0]), 0], torch.take_along_dim),
    # searching
    ("aten::searchsorted.Tensor", [f(2, 3), ROW], torch.searchsorted),
    ("aten::bucketize.Tensor", [ROW, SQUARE], torch.bucketize),
    ("aten::histc", [ROW, 0], torch.histc),
    # drawing
    ("aten::randperm", [-1], torch.randperm),
    ("aten::multinomial", [ROW.abs(), 4], torch.multinomial),
    ("aten::multinomial", [INTS, 1], torch.multinomial),
]


def words(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return "accepted"


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{c[0][6:]}" for k, c in enumerate(CASES)])
def test_refuses_as_pytorch_does(case: tuple[str, list[Any], Callable[..., Any]]) -> None:
    name, args, function = case
    theirs = words(lambda: function(*args))
    base, _, overload = name[6:].partition(".")
    packet = getattr(rushlight.ops.aten, base)
    ours = words(lambda: (getattr(packet, overload) if overload else packet)(*args))
    assert theirs != "accepted"
    assert ours == theirs
    assert words(lambda: rushlight.ops.shape(name, *args)) == theirs


def test_any_of_no_dimensions_reduces_none() -> None:
    x = i([[True, False], [False, False]])
    assert torch.equal(rushlight.ops.aten.any(x, []), x)
    assert rushlight.ops.shape("aten::any.dims", x, []).results[0].sizes == (2, 2)


def test_factors_have_the_batch_of_what_is_factored() -> None:
    a, b = f(1, 3, 3), f(4, 3, 2)
    ours, theirs = rushlight.ops.aten._linalg_solve_ex(a, b), torch._linalg_solve_ex(a, b)
    assert [x.shape for x in ours] == [x.shape for x in theirs]
    torch.testing.assert_close(ours[0], theirs[0])


def test_svd_without_vectors_gives_zeros() -> None:
    ours = rushlight.ops.aten.svd(WIDE, True, False)
    assert [tuple(x.shape) for x in ours] == [(3, 3), (3,), (4, 4)]
    assert not ours[0].any() and not ours[2].any()
