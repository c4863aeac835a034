"""Attention, transformer layers over padded and nested inputs, and einsum, against PyTorch: strides
too."""

from __future__ import annotations

import pathlib
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # of PyTorch's samples

import op_walk  # noqa: E402
import rushlight  # noqa: E402
from torch import nn  # noqa: E402

warnings.filterwarnings("ignore")


def same(name: str, *args: Any, **kwargs: Any) -> None:
    want = getattr(torch.ops.aten, name)(*args, **kwargs)
    got = getattr(rushlight.ops.aten, name)(*args, **kwargs)
    assert op_walk.difference(got, want) == ""


def heads(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes)


CASES = {
    "plain": lambda: ((heads(2, 4, 5, 8), heads(2, 4, 6, 8), heads(2, 4, 6, 8)), {}),
    "value_of_other_size": lambda: ((heads(2, 4, 5, 8), heads(2, 4, 6, 8), heads(2, 4, 6, 7)), {}),
    "grouped": lambda: (
        (heads(2, 4, 5, 8), heads(2, 2, 6, 8), heads(2, 2, 6, 8)),
        {"enable_gqa": True},
    ),
    # the most tensors that one call holds: each converted, expanded and flattened
    "halves_of_five_dimensions": lambda: (
        tuple(heads(2, 3, 4, n, 8).bfloat16() for n in (5, 6, 6)),
        {"attn_mask": heads(2, 3, 4, 5, 6).bfloat16()},
    ),
    "broadcast": lambda: ((heads(2, 4, 5, 8), heads(1, 4, 6, 8), heads(1, 4, 6, 8)), {}),
    "three": lambda: ((heads(4, 5, 8), heads(4, 6, 8), heads(4, 6, 8)), {}),
    "two": lambda: ((heads(5, 8), heads(6, 8), heads(6, 8)), {}),
    "five": lambda: ((heads(3, 2, 4, 5, 8), heads(3, 2, 4, 6, 8), heads(3, 2, 4, 6, 8)), {}),
    "float_mask": lambda: (
        (heads(2, 4, 5, 8), heads(2, 4, 6, 8), heads(2, 4, 6, 8)),
        {"attn_mask": heads(5, 6)},
    ),
    "bool_mask": lambda: (
        (heads(2, 4, 5, 8), heads(2, 4, 6, 8), heads(2, 4, 6, 8)),
        {"attn_mask": heads(2, 1, 1, 6) > 0},
    ),
    "nothing_seen": lambda: (
        (heads(2, 4, 5, 8), heads(2, 4, 6, 8), heads(2, 4, 6, 8)),
        {"attn_mask": heads(2, 1, 1, 6) > 9},
    ),
    "causal": lambda: (
        (heads(2, 4, 5, 8), heads(2, 4, 6, 8), heads(2, 4, 6, 8)),
        {"is_causal": True},
    ),
    "scaled": lambda: ((heads(2, 4, 5, 8), heads(2, 4, 6, 8), heads(2, 4, 6, 8)), {"scale": 0.3}),
    "turned": lambda: (
        (
            heads(2, 5, 4, 8).transpose(1, 2),
            heads(2, 6, 4, 8).transpose(1, 2),
            heads(2, 6, 4, 8).transpose(1, 2),
        ),
        {},
    ),
    "no_queries": lambda: ((heads(2, 4, 0, 8), heads(2, 4, 6, 8), heads(2, 4, 6, 8)), {}),
    "dropped": lambda: (
        (heads(2, 4, 5, 8), heads(2, 4, 6, 8), heads(2, 4, 6, 8)),
        {"dropout_p": 0.5},
    ),
    "bfloat16": lambda: (tuple(heads(2, 4, 5, 8).bfloat16() for _ in range(3)), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_scaled_dot_product_attention(case: str) -> None:
    args, kwargs = CASES[case]()
    torch.manual_seed(1)
    rushlight.manual_seed(1)
    want = torch.ops.aten.scaled_dot_product_attention(*args, **kwargs)
    torch.manual_seed(1)
    got = rushlight.ops.aten.scaled_dot_product_attention(*args, **kwargs)
    # of bfloat16, small elements of a sum carry the rounding of the large ones
    assert (
        op_walk.difference(got, want, tolerance=(1e-2, 1.6e-2) if case == "bfloat16" else None)
        == ""
    )


@pytest.mark.parametrize("mask", [None, 0, 1, 2], ids=str)
def test_multi_head_attention(mask: int | None) -> None:
    q = heads(2, 4, 8)
    weights = (heads(24, 8), heads(24), heads(8, 8), heads(8))
    masks = {
        None: None,
        0: torch.ones(4, 4).triu(1).bool(),
        1: torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0]]).bool(),
        2: torch.rand(2, 2, 4, 4) > 0.8,
    }
    for need in False, True:
        same("_native_multi_head_attention", q, q, q, 8, 2, *weights, masks[mask], need, True, mask)
    same(
        "_native_multi_head_attention",
        q,
        heads(2, 4, 8),
        heads(2, 4, 8),
        8,
        2,
        *weights,
        masks[mask],
        True,
        False,
        mask,
    )


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder(norm_first: bool, activation: str, tmp_path: pathlib.Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(
                8, 2, 12, batch_first=True, norm_first=norm_first, activation=activation
            )
            self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8))

        def forward(self, x, mask: torch.Tensor):
            return self.encoder(x, src_key_padding_mask=mask)

    program = torch.jit.script(Net().eval())
    torch.jit.save(program, str(tmp_path / "encoder.pt"))
    loaded = rushlight.load(str(tmp_path / "encoder.pt"))
    x, keep = heads(2, 4, 8), torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]]).bool()
    for mask in (
        ~keep,
        keep.flip(1),
        torch.zeros(2, 4).bool(),
    ):  # nested; a mask that is not at the left; nothing hidden
        for grad in False, True:
            with torch.set_grad_enabled(grad):
                assert op_walk.difference(loaded(x, mask), program(x, mask)) == ""


def test_nested_tensors_are_converted_and_copied(tmp_path: pathlib.Path) -> None:
    class Net(nn.Module):
        def forward(self, x, keep: torch.Tensor):
            parts = torch._nested_tensor_from_mask(x, keep)
            wide = parts.to(torch.float64).clone().type_as(parts.double())
            dense = x.double().type_as(parts)  # nothing of it becomes nested
            return torch.nested.to_padded_tensor(wide, 7.0), dense, dense.is_nested

    program = torch.jit.script(Net())
    torch.jit.save(program, str(tmp_path / "nested.pt"))
    x, keep = heads(2, 4, 8), torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]]).bool()
    want = program(x, keep)
    assert want[0].dtype == torch.float64 and not want[2]
    assert op_walk.difference(rushlight.load(str(tmp_path / "nested.pt"))(x, keep), want) == ""


EQUATIONS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,kj", (3, 4), (5, 4)),
    ("ij,jk->ki", (3, 4), (4, 5)),
    ("bqhd,bkhd->bhqk", (2, 5, 3, 4), (2, 6, 3, 4)),
    ("bij,bkj->bki", (2, 3, 4), (2, 5, 4)),
    ("i,j->ij", (3,), (4,)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("...ij,...jk->...ik", (2, 3, 4), (5, 1, 4, 6)),
    ("ni,oij,nj->no", (3, 4), (5, 4, 6), (3, 6)),
    ("i...->...", (3, 4, 5)),
    ("xyz,zw,wx->y", (2, 3, 4), (4, 5), (5, 2)),
    ("ij,k->i", (3, 4), (5,)),
    ("...,...->...", (3, 4), (4,)),
    ("ij,jk->ik", (0, 4), (4, 5)),
    ("ij,jk->ik", (3, 0), (0, 5)),
]


@pytest.mark.parametrize("equation", EQUATIONS, ids=lambda e: e[0])
def test_einsum(equation: tuple) -> None:
    same("einsum", equation[0], [torch.randn(*s) for s in equation[1:]])


@pytest.mark.parametrize(
    "equation", ["ij,jk->iz", "ij,jk->ii", "ijk,jk->i", "i1,jk", "ij", "ij,jk,kl"]
)
def test_einsum_refuses_as_pytorch(equation: str) -> None:
    operands = [torch.randn(3, 4), torch.randn(4, 5)]
    with pytest.raises(RuntimeError) as theirs:
        torch.ops.aten.einsum(equation, operands)
    with pytest.raises(RuntimeError) as ours:
        rushlight.ops.aten.einsum(equation, operands)
    assert str(ours.value).split("\n")[0][:60] == str(theirs.value).split("\n")[0][:60]
