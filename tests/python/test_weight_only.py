"""Weights of 4 and 8 bits, and grouped products (mixtures of experts), against PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import rushlight  # noqa: E402

ours, theirs = rushlight.ops.aten, torch.ops.aten
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
CLOSE = {torch.float32: 1e-4, torch.bfloat16: 2e-2, torch.float16: 2e-3}


@pytest.mark.parametrize("n", [16, 32, 48, 64, 80, 128, 144])
def test_packed_as_pytorch_packs(n: int) -> None:
    w = torch.randint(0, 16, (n, 64), dtype=torch.int32)
    assert torch.equal(
        ours._convert_weight_to_int4pack_for_cpu(w, 2),
        theirs._convert_weight_to_int4pack_for_cpu(w, 2),
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("n", "group"), [(64, 32), (48, 64), (144, 128), (16, 256)])
def test_product_with_weights_of_4_bits(n: int, group: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    w = torch.randint(0, 16, (n, 512), dtype=torch.int32)
    packed = theirs._convert_weight_to_int4pack_for_cpu(w, 2)
    x, scales = torch.randn(5, 512).to(dtype), torch.rand(512 // group, n, 2).to(dtype)
    made = ours._weight_int4pack_mm_for_cpu(x, packed, group, scales)
    exact = torch.repeat_interleave(scales[..., 0].T, group, 1).double() * (
        w - 8
    ) + torch.repeat_interleave(scales[..., 1].T, group, 1)
    want = x.double() @ exact.T
    assert made.dtype == dtype
    torch.testing.assert_close(made.double(), want, rtol=CLOSE[dtype], atol=20 * CLOSE[dtype])
    torch.testing.assert_close(
        made,
        theirs._weight_int4pack_mm_for_cpu(x, packed, group, scales),
        rtol=CLOSE[dtype],
        atol=20 * CLOSE[dtype],
    )


def test_product_with_weights_of_8_bits() -> None:
    x, w, scales = (
        torch.randn(3, 32).bfloat16(),
        torch.randint(-128, 127, (16, 32), dtype=torch.int8),
        torch.rand(16).bfloat16(),
    )
    torch.testing.assert_close(
        ours._weight_int8pack_mm(x, w, scales),
        theirs._weight_int8pack_mm(x, w, scales),
        rtol=2e-2,
        atol=0.5,
    )


def grouped(dtype: torch.dtype) -> list[tuple]:
    ends = torch.tensor([8, 8, 24], dtype=torch.int32)

    def r(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, dtype=torch.float32).to(dtype)

    return [
        (r(24, 16), r(3, 16, 8), ends),
        (r(3, 4, 16), r(16, 24), ends),
        (r(8, 24), r(24, 16), ends),
        (r(3, 4, 16), r(3, 16, 8), None),
    ]


@pytest.mark.parametrize("dtype", FLOATS)
def test_grouped_products(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    for args in grouped(dtype):
        torch.testing.assert_close(
            ours._grouped_mm(*args),
            theirs._grouped_mm(*args),
            rtol=CLOSE[dtype],
            atol=10 * CLOSE[dtype],
        )
    x, w, ends = grouped(dtype)[0]
    torch.testing.assert_close(rushlight.ops.transformers.grouped_mm_fallback(x, w, ends),
                               theirs._grouped_mm(x, w, ends),
                               rtol=CLOSE[dtype], atol=10 * CLOSE[dtype])  # fmt: skip


def test_gradients_of_grouped_products() -> None:
    x, w, ends = grouped(torch.float32)[0]
    x.requires_grad_()
    w.requires_grad_()
    want = torch.cat([x[0:8] @ w[0], x[8:24] @ w[2]])
    weights = torch.randn_like(want)
    expected = torch.autograd.grad(want, (x, w), weights)
    for made in (
        ours._grouped_mm(x, w, ends),
        rushlight.ops.transformers.grouped_mm_fallback(x, w, ends),
    ):
        torch.testing.assert_close(
            torch.autograd.grad(made, (x, w), weights), expected, rtol=1e-4, atol=1e-4
        )


def test_exported_mixtures_of_experts_run(tmp_path: Any) -> None:
    class Experts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(3, 16, 8).bfloat16())

        def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
            return torch.relu(torch._grouped_mm(x, self.weight, ends))

    model = Experts()
    x, ends = torch.randn(24, 16).bfloat16(), torch.tensor([8, 8, 24], dtype=torch.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(model, (x, ends)), tmp_path / "m.pt2")
    torch.testing.assert_close(
        rushlight.load(tmp_path / "m.pt2")(x, ends), model(x, ends), rtol=2e-2, atol=0.1
    )


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("_convert_weight_to_int4pack_for_cpu", (torch.zeros(64, 32).long(), 2)),
        ("_convert_weight_to_int4pack_for_cpu", (torch.zeros(63, 32).int(), 2)),
        ("_convert_weight_to_int4pack_for_cpu", (torch.zeros(64, 31).int(), 2)),
        (
            "_weight_int4pack_mm_for_cpu",
            (torch.zeros(2, 64).double(), torch.zeros(32, 32).byte(), 32, torch.zeros(2, 32, 2)),
        ),
        (
            "_weight_int4pack_mm_for_cpu",
            (torch.zeros(2, 64), torch.zeros(32, 32, dtype=torch.uint8), 16, torch.zeros(4, 32, 2)),
        ),
        (
            "_weight_int4pack_mm_for_cpu",
            (
                torch.zeros(2, 64),
                torch.zeros(32, 32, dtype=torch.uint8),
                128,
                torch.zeros(1, 32, 2),
            ),
        ),
        ("_grouped_mm", (torch.zeros(8, 16), torch.zeros(3, 16, 8), None)),
        ("_grouped_mm", (torch.zeros(8, 16), torch.zeros(3, 16, 8), torch.tensor([1, 2, 8]))),
        (
            "_grouped_mm",
            (
                torch.zeros(8, 16).double(),
                torch.zeros(3, 16, 8).double(),
                torch.tensor([1, 2, 8], dtype=torch.int32),
            ),
        ),
    ],
)
def test_refused_as_pytorch_refuses(name: str, args: tuple) -> None:
    with pytest.raises(RuntimeError) as want:
        getattr(theirs, name)(*args)
    with pytest.raises(RuntimeError) as got:
        getattr(ours, name)(*args)
    assert str(got.value).split("\n")[-1][:40] in str(want.value) or str(want.value)[:40] in str(
        got.value
    )


def test_wrong_extents_are_refused() -> None:
    """PyTorch reads past the end of these."""
    x, w = torch.zeros(2, 64), torch.zeros(32, 32, dtype=torch.uint8)
    for args in (
        (x, w, 32, torch.zeros(1, 32, 2)),
        (x, w[:, :16], 32, torch.zeros(2, 32, 2)),
        (x, w[:8], 32, torch.zeros(2, 8, 2)),
    ):
        with pytest.raises(RuntimeError, match="_weight_int4pack_mm_cpu"):
            ours._weight_int4pack_mm_for_cpu(*args)
    for ends in ([5, 2, 8], [2, 5, 99], [-1, 2, 8]):
        with pytest.raises(RuntimeError, match="offsets must not fall"):
            ours._grouped_mm(
                torch.zeros(8, 16), torch.zeros(3, 16, 8), torch.tensor(ends, dtype=torch.int32)
            )
