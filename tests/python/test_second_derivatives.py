"""Second derivatives through records, by differences: a few of PyTorch's samples; second_walk.py
takes all (`make nightly`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")  # of PyTorch's samples

import grad_walk  # noqa: E402
import rushlight  # noqa: E402
import second_walk  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

ENTRIES = (
    "mul", "nn.functional.scaled_dot_product_attention",
    "nn.functional.multi_head_attention_forward", "nn.functional.layer_norm",
    "nn.functional.batch_norm", "native_layer_norm", "nn.functional.ctc_loss", "softmax",
    "linalg.lu_factor", "sort", "special.entr",
)  # fmt: skip


@pytest.mark.parametrize("name", ENTRIES)
def test_entry(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = second_walk.walk(name, 2, 60)
    assert not row["why"], "; ".join(row["why"])


def leaf(*sizes: int) -> Any:
    return torch.randn(*sizes, dtype=torch.double, requires_grad=True)


def plain(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)


@pytest.mark.parametrize("f", [plain, causal])
def test_attention_of_four_dimensions(f: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    args = leaf(1, 2, 3, 4), leaf(1, 2, 5, 4), leaf(1, 2, 5, 4)
    ours = rushlight.script(f)
    assert gradcheck(ours, args) and gradgradcheck(ours, args)  # PyTorch refuses the second


def test_multi_head_attention_without_weights() -> None:
    torch.manual_seed(0)
    ours = rushlight.script(torch.nn.MultiheadAttention(4, 2, dtype=torch.double))
    x = leaf(3, 1, 4)
    assert gradgradcheck(lambda x: ours(x, x, x, need_weights=False)[0], (x,))


def test_results_that_are_not_differentiable() -> None:
    """A formula that takes one loses what it depends on when it is differentiated in its turn:
    numbers of places (max, sort) and masks depend on nothing; what does is listed here, and made
    anew where gradients are enabled."""
    made_anew = {"aten::_scaled_dot_product_flash_attention_for_cpu", "aten::native_layer_norm"}
    numbers = {
        "aten::_embedding_bag", "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
        "aten::_pack_padded_sequence",
        "aten::adaptive_max_pool1d", "aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d",
        "aten::cummax", "aten::cummin",
        "aten::embedding_bag", "aten::embedding_bag.padding_idx",
        "aten::fake_quantize_per_channel_affine_cachemask",
        "aten::fake_quantize_per_tensor_affine_cachemask", "aten::fractional_max_pool2d",
        "aten::fractional_max_pool3d",
        "aten::frexp.Tensor", "aten::kthvalue", "aten::linalg_lu", "aten::linalg_lu_factor",
        "aten::linalg_lu_factor_ex", "aten::max.dim",
        "aten::max_pool1d_with_indices", "aten::max_pool2d_with_indices",
        "aten::max_pool3d_with_indices", "aten::median.dim",
        "aten::min.dim", "aten::mode", "aten::nanmedian.dim", "aten::native_dropout",
        "aten::rrelu_with_noise_functional", "aten::sort",
        "aten::sort.stable", "aten::topk", "torchvision::ps_roi_align", "torchvision::ps_roi_pool",
        "torchvision::roi_pool",
    }  # fmt: skip
    refused = {
        "aten::_ctc_loss",
        "aten::_ctc_loss.Tensor",
    }  # the formula's operator has no derivative
    found = set()
    for name, row in grad_walk.table().rows.items():
        if "grad" not in row.entry or row.base:
            continue
        takes = {t for f in rushlight.ops.gradient(name).values() for t in f.takes}
        asked = {"result" + t[4:] for t in takes if t.startswith("grad")}
        if any(t.startswith("result") and t not in asked for t in takes):
            found.add(name)
    assert found == made_anew | numbers | refused


def second(f: Callable[..., Any], *args: Any) -> list[Any]:
    first = torch.autograd.grad(f(*args).sum(), args, create_graph=True)
    weights = [torch.arange(1.0, g.numel() + 1, dtype=g.dtype).view_as(g) for g in first]
    return list(torch.autograd.grad(first, args, weights, allow_unused=True))


@pytest.mark.parametrize("name", ["special_i1", "special_i1e"])
def test_bessel_functions_at_zero(name: str) -> None:
    x = torch.tensor([0.0, 0.5, -2.0], dtype=torch.double, requires_grad=True)
    theirs = getattr(torch.special, name.removeprefix("special_"))
    torch.testing.assert_close(second(getattr(rushlight.ops.aten, name), x), second(theirs, x))


def test_a_norm_of_zeros() -> None:
    x = torch.zeros(3, dtype=torch.double, requires_grad=True)
    (got,) = second(lambda x: rushlight.ops.aten.linalg_vector_norm(x, 3.5), x)
    assert got.tolist() == [0, 0, 0]


@pytest.mark.parametrize("zeros", [(), (1,), (1, 2), (0, 1), (1, 2, 3), (0, 1, 2)])
@pytest.mark.parametrize("name", ["index_reduce", "scatter_reduce"])
def test_products_with_zeros(name: str, zeros: tuple[int, ...]) -> None:
    """Also of two zeros, which PyTorch refuses."""
    torch.manual_seed(1)
    at = torch.tensor([0, 0, 0, 1])
    values = torch.rand(5, dtype=torch.double) + 0.5
    values[list(zeros)] = 0
    x, src = values[:1].repeat(2).requires_grad_(), values[1:].clone().requires_grad_()

    def ours(x: torch.Tensor, src: torch.Tensor) -> Any:
        return getattr(rushlight.ops.aten, name)(x, 0, at, src, "prod")

    def plain(x: torch.Tensor, src: torch.Tensor) -> Any:
        return torch.stack([x[0] * src[0] * src[1] * src[2], x[1] * src[3]])

    torch.testing.assert_close(second(ours, x, src), second(plain, x, src))
