"""Pools of channels-last images, in floats and bytes, and convolutions of bytes: PyTorch's results,
on every instruction set."""

from __future__ import annotations

import pathlib
import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import rushlight

torch = pytest.importorskip("torch")
warnings.filterwarnings("ignore")

CPUS = ("portable", "avx2", "native")
aten = rushlight.ops.aten


@pytest.fixture(params=CPUS)
def cpu(request: pytest.FixtureRequest) -> Iterator[str]:
    try:
        rushlight.set_cpu(request.param)
    except RuntimeError:
        pytest.skip(f"no {request.param} here")
    yield request.param
    rushlight.set_cpu("native")


def window(draw: random.Random) -> tuple[list[int], ...]:
    kernel = [draw.randint(1, 4) for _ in range(2)]
    return (
        kernel,
        [draw.randint(1, 3) for _ in range(2)],
        [draw.randint(0, k // 2) for k in kernel],
        [draw.randint(1, 2) for _ in range(2)],
    )


def image(draw: random.Random, dtype: Any) -> Any:
    sizes = (2, draw.randint(2, 70), draw.randint(9, 30), draw.randint(9, 50))
    x = torch.randn(sizes) * 5
    if dtype in (torch.quint8, torch.qint8):
        return torch.quantize_per_tensor(x, 0.1, 3, dtype)
    x = x.to(dtype)
    if dtype.is_floating_point:
        x[torch.rand(sizes) < 0.02] = float("nan")
    return x


def same(got: Any, want: Any) -> None:
    assert got.dtype == want.dtype and got.shape == want.shape
    pairs = zip(got.stride(), want.stride(), want.shape, strict=True)
    assert all(g == w for g, w, n in pairs if n > 1)
    if want.is_quantized:
        assert (got.q_scale(), got.q_zero_point()) == (want.q_scale(), want.q_zero_point())
        got, want = got.int_repr(), want.int_repr()
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.uint8, torch.int64, torch.quint8, torch.qint8]
)
@pytest.mark.parametrize("last", [False, True])
def test_max_pool(cpu: str, dtype: Any, last: bool) -> None:
    draw = random.Random(f"{dtype} {last}")
    torch.manual_seed(1)
    for _ in range(12):
        x, (kernel, stride, pad, dilation) = image(draw, dtype), window(draw)
        if last:
            x = x.contiguous(memory_format=torch.channels_last)
        try:
            want = torch.max_pool2d(x, kernel, stride, pad, dilation)
        except RuntimeError:  # PyTorch counts a plane's elements in its own dtype
            want = torch.max_pool2d(x.int(), kernel, stride, pad, dilation).to(dtype)
        same(aten.max_pool2d(x, kernel, stride, pad, dilation), want)
        if dtype.is_floating_point:
            torch_pair = torch.ops.aten.max_pool2d_with_indices(x, kernel, stride, pad, dilation)
            ours = aten.max_pool2d_with_indices(x, kernel, stride, pad, dilation)
            for g, w in zip(ours, torch_pair, strict=True):
                same(g, w)


def test_adaptive_average_has_the_bits_of_planes(cpu: str) -> None:
    draw = random.Random(5)
    for size in ([1, 1], [1, 3], [7, 7], [4, 1]):
        x = torch.randn(2, draw.randint(2, 70), draw.randint(1, 30), draw.randint(3, 30))
        last = x.contiguous(memory_format=torch.channels_last)
        got = aten.adaptive_avg_pool2d(last, size)
        want = torch.nn.functional.adaptive_avg_pool2d(last, size)
        torch.testing.assert_close(got, want)
        same(got, want.copy_(aten.adaptive_avg_pool2d(x, size)))


class Conv(torch.nn.Module):
    def __init__(self, *packed: Any, relu: bool) -> None:
        super().__init__()
        self.packed, self.relu = torch.ops.quantized.conv2d_prepack(*packed), relu

    def forward(self, x: torch.Tensor, scale: float, zero: int) -> torch.Tensor:
        if self.relu:
            return torch.ops.quantized.conv2d_relu(x, self.packed, scale, zero)
        return torch.ops.quantized.conv2d(x, self.packed, scale, zero)


def test_convolutions_of_bytes(cpu: str, tmp_path: pathlib.Path) -> None:
    """Whole words of channels and not, groups, depthwise, padding that is larger than the input.
    Weights are less than 64: where there is no VNNI, PyTorch adds two products in 16 bits."""
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("PyTorch without its x86 kernels")
    torch.backends.quantized.engine = "fbgemm"
    draw = random.Random(7)
    torch.manual_seed(7)
    for n in range(24):
        groups = draw.choice([1, 1, 2, 0])
        ins, outs = draw.choice([1, 3, 4, 5, 16]), draw.choice([4, 7, 33])
        if groups == 0:
            groups = outs = ins
        ins, outs = (2 * ins, 2 * outs) if groups == 2 else (ins, outs)
        kernel, stride, _, dilation = window(draw)
        pad = [draw.randint(2, 9) for _ in range(2)]
        w = torch.randn(outs, ins // groups, *kernel) * 0.3
        if n % 2:
            zeros = torch.zeros(outs, dtype=torch.int64)
            scales = torch.rand(outs) * 0.02 + 0.025
            q = torch.quantize_per_channel(w, scales, zeros, 0, torch.qint8)
        else:
            q = torch.quantize_per_tensor(w, 0.025, 0, torch.qint8)
        bias = torch.randn(outs) if n % 3 else None
        x = torch.randn(2, ins, draw.randint(1, 20), draw.randint(3, 20))
        x = torch.quantize_per_tensor(x, 0.03, draw.randint(0, 200), torch.quint8)
        program = torch.jit.script(
            Conv(q, bias, stride, pad, dilation, groups, relu=draw.random() < 0.5)
        )
        torch.jit.save(program, str(tmp_path / "conv.pt"))
        got = rushlight.load(str(tmp_path / "conv.pt"))(x, 0.05, 7)
        same(got, program(x, 0.05, 7))
