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
IMAGE, VOLUME, POINTS = f(2, 3, 4, 5), f(2, 3, 4, 5, 6), f(2, 1, 2, 2, 3)
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
    ("aten::index.Tensor", [SQUARE, [i([0, 1]), i([0, 1, 2])]], torch.ops.aten.index),
    ("aten::index_select", [SQUARE, 0, INTS], torch.index_select),
    ("aten::gather", [SQUARE, 0, ROW], torch.gather),
    ("aten::gather", [f(2, 3), 0, torch.zeros(2, 4, dtype=torch.int64)], torch.gather),
    ("aten::take", [SQUARE, ROW], torch.take),
    ("aten::scatter_add", [SQUARE, 0, i([0]), SQUARE], torch.scatter_add),
    ("aten::index_add", [SQUARE, 0, i([0]), SQUARE], torch.index_add),
    ("aten::index_copy", [SQUARE, 0, i([0]), WIDE[:1]], torch.index_copy),
    ("aten::take_along_dim", [SQUARE, i([0]), 0], torch.take_along_dim),
    # sampling
    ("aten::grid_sampler", [f(2, 3, 4, 5), f(1, 4, 4, 2), 0, 0, False], torch.grid_sampler),
    ("aten::grid_sampler", [f(2, 3, 4, 5), f(2, 4, 4, 3), 0, 0, False], torch.grid_sampler),
    ("aten::grid_sampler", [f(2, 3, 0, 5), f(2, 4, 4, 2), 0, 0, False], torch.grid_sampler),
    ("aten::grid_sampler", [VOLUME, POINTS, 2, 0, False], torch.grid_sampler),
    (
        "aten::grid_sampler",
        [IMAGE, POINTS.double()[..., :2, :2, :2].squeeze(1), 0, 0, False],
        torch.grid_sampler,
    ),
    ("aten::grid_sampler_2d", [VOLUME, POINTS, 0, 0, False], torch.grid_sampler_2d),
    ("aten::grid_sampler_3d", [IMAGE, f(2, 4, 4, 2), 0, 0, False], torch.grid_sampler_3d),
    ("aten::rrelu_with_noise", [SQUARE, WIDE], torch.ops.aten.rrelu_with_noise),
    # searching
    ("aten::searchsorted.Tensor", [f(2, 3), ROW], torch.searchsorted),
    ("aten::bucketize.Tensor", [ROW, SQUARE], torch.bucketize),
    ("aten::histc", [ROW, 0], torch.histc),
    # making
    ("aten::empty_strided", [[2, 3], [1]], torch.empty_strided),
    ("aten::empty_strided", [[2, 3], [-1, 1]], torch.empty_strided),
    ("aten::new_empty_strided", [ROW, [2, -3], [1, 1]], torch.Tensor.new_empty_strided),
    ("aten::empty_permuted", [[2, 3], [0]], torch.empty_permuted),
    ("aten::empty_permuted", [[2, 3], [0, 0]], torch.empty_permuted),
    ("aten::empty_permuted", [[2, 3], [0, -1]], torch.empty_permuted),
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


# Results, undefined ones too, with their strides.
RESULTS: list[tuple[str, list[Any]]] = [
    ("rrelu_with_noise", [WIDE.t(), WIDE.t().clone(), 0.1, 0.3]),
    ("rrelu_with_noise_functional", [WIDE.t(), f(4, 6)[:, ::2], 0.1, 0.3]),
    ("grid_sampler_2d", [IMAGE.bfloat16(), f(2, 6, 7, 2).bfloat16(), 1, 1, False]),
    ("grid_sampler_2d_backward", [f(2, 3, 6, 7), IMAGE, f(2, 6, 7, 2), 0, 0, False, [True, True]]),
    ("grid_sampler_2d_backward", [f(2, 3, 6, 7), IMAGE, f(2, 6, 7, 2), 2, 1, True, [False, True]]),
    ("grid_sampler_3d_backward", [f(2, 3, 1, 2, 2), VOLUME, POINTS, 0, 2, True, [True, True]]),
    ("_grid_sampler_2d_cpu_fallback_backward", [f(2, 3, 6, 7), IMAGE, f(2, 6, 7, 2), 0, 0, False]),
    *(
        (
            "_native_multi_head_attention",
            [X, X, X, 4, 2, f(12, 4), f(12), f(4, 4), f(4), None, weights, mean],
        )
        for X in (f(2, 3, 4),)
        for weights in (True, False)
        for mean in (True, False)
    ),
    (
        "embedding_bag.padding_idx",
        [f(5, 3), i([0, 1, 4, 2]), i([0, 2]), False, 0, False, None, False, -1],
    ),
    (
        "embedding_bag.padding_idx",
        [f(5, 3), i([0, 1, 4, 2]), i([0, 2]), False, 2, False, None, False, None],
    ),
]


@pytest.mark.parametrize("case", RESULTS, ids=[f"{k}-{c[0]}" for k, c in enumerate(RESULTS)])
def test_results_have_the_shapes_of_the_rule(case: tuple[str, list[Any]]) -> None:
    name, args = case
    base, _, overload = name.partition(".")

    def run(ops: Any) -> list[Any]:
        packet = getattr(ops.aten, base)
        made = (getattr(packet, overload) if overload else packet)(*args)
        return list(made) if isinstance(made, (tuple, list)) else [made]

    theirs, ours = run(torch.ops), run(rushlight.ops)
    assert [x is None for x in ours] == [x is None for x in theirs]
    for x, y in zip(ours, theirs, strict=True):
        if y is not None:
            torch.testing.assert_close(x, y)
            assert x.stride() == y.stride()
    described = rushlight.ops.shape(f"aten::{name}", *args).results
    assert [(r.sizes, r.strides, r.result) for r in described] == [
        (tuple(x.shape), x.stride(), k) for k, x in enumerate(theirs) if x is not None
    ]


def test_storage_is_as_large_as_strides_reach() -> None:
    for sizes, strides in (((2, 3), (7, 2)), ((2, 2), (3, 0)), ((0, 3), (7, 2)), ((2, 3), (1, 2))):
        ours = rushlight.ops.aten.empty_strided(sizes, strides)
        theirs = torch.empty_strided(sizes, strides)
        assert ours.stride() == theirs.stride()
        assert ours.untyped_storage().nbytes() == theirs.untyped_storage().nbytes()
    too_large = ((2, 3), (1 << 62, 1))
    assert words(lambda: rushlight.ops.aten.empty_strided(*too_large)) == words(
        lambda: torch.empty_strided(*too_large)
    )


def test_indices_may_not_make_too_many_dimensions() -> None:
    x, index = torch.zeros([1] * 62), torch.zeros([1] * 4, dtype=torch.int64)
    with pytest.raises(NotImplementedError, match="more than 64 dimensions"):
        rushlight.ops.aten.index(x, [index])


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
