"""Quantized tensors and layers against PyTorch: integers, scales and zero points are the same, not
close."""

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
tq = pytest.importorskip("torch.ao.quantization")


@pytest.fixture(autouse=True)
def engine() -> Any:
    torch.manual_seed(0)
    before = torch.backends.quantized.engine
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("PyTorch without its x86 kernels")
    torch.backends.quantized.engine = "fbgemm"
    yield
    torch.backends.quantized.engine = before


def agree(program: Any, tmp: pathlib.Path, *args: Any) -> None:
    """The saved program has PyTorch's results."""
    path = tmp / "program.pt"
    torch.jit.save(program, str(path))
    with torch.no_grad():
        want = program(*args)
        got = rushlight.load(str(path))(*args)
    assert op_walk.difference(got, want) == ""


def per_tensor(x: torch.Tensor, scale: float, zero_point: int, dtype: int):
    q = torch.quantize_per_tensor(x, scale, zero_point, dtype)
    p = torch.quantize_per_tensor(x, 0.2, 0, dtype)
    p.copy_(x)
    return (
        torch.int_repr(q),
        torch.dequantize(q),
        q.q_scale(),
        q.q_zero_point(),
        q.dtype,
        torch.int_repr(q.view(2, -1)[0]),
        torch.relu(q).int_repr(),
        torch.cat([q, q]).dequantize(),
        q[1:3].dequantize(),
        q == q,
        p.int_repr(),
    )


def per_channel(x: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor, axis: int, dtype: int):
    q = torch.quantize_per_channel(x, scales, zeros, axis, dtype)
    return (
        torch.int_repr(q),
        torch.dequantize(q),
        q.q_per_channel_scales(),
        q.q_per_channel_axis(),
        str(q),
    )


def dynamic(x: torch.Tensor, dtype: int, reduce_range: bool):
    q = torch.quantize_per_tensor_dynamic(x, dtype, reduce_range)
    return q.int_repr(), q.q_scale(), q.q_zero_point()


@pytest.mark.parametrize("dtype", [12, 13, 14])
def test_tensors(dtype: int, tmp_path: pathlib.Path) -> None:
    x = torch.cat(
        [torch.randn(94) * 10, torch.tensor([float("inf"), -float("inf"), 0.05, 0.15, -0.05, 1e20])]
    )
    if dtype == 14:
        x = x.clamp(-1e6, 1e6)  # PyTorch's relu of the largest int32 overflows
    agree(torch.jit.script(per_tensor), tmp_path, x.reshape(10, 10), 0.1, 3, dtype)
    agree(torch.jit.script(per_tensor), tmp_path, x.reshape(2, 50), 0.037, 3, dtype)
    for axis in 0, 1:
        agree(
            torch.jit.script(per_channel),
            tmp_path,
            torch.randn(4, 4, 3),
            torch.rand(4) + 0.01,
            torch.randint(0, 20, (4,)),
            axis,
            dtype,
        )


@pytest.mark.parametrize("dtype", [12, 13])
def test_ranges(dtype: int, tmp_path: pathlib.Path) -> None:
    for exponent in range(-3, 4):
        for reduce_range in False, True:
            agree(
                torch.jit.script(dynamic),
                tmp_path,
                torch.randn(50) * 10.0**exponent + exponent,
                dtype,
                reduce_range,
            )


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16], ids=str)
@pytest.mark.parametrize(
    "layer",
    [nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell, nn.Linear],
    ids=lambda k: k.__name__,
)
def test_dynamic_layers(layer: Any, dtype: torch.dtype, tmp_path: pathlib.Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = (
                layer(11, 13, num_layers=2, bidirectional=True)
                if layer in (nn.LSTM, nn.GRU)
                else layer(11, 13)
            )

        def forward(self, x):
            return self.part(x)

    x = torch.randn(5, 3, 11) if layer in (nn.LSTM, nn.GRU, nn.Linear) else torch.randn(3, 11)
    agree(torch.jit.script(tq.quantize_dynamic(Net().eval(), {layer}, dtype=dtype)), tmp_path, x)


def static(layer: nn.Module, *shape: int) -> Any:
    """The layer between quantizing and dequantizing, calibrated and converted."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.d, self.layer = tq.QuantStub(), tq.DeQuantStub(), layer

        def forward(self, x):
            return self.d(self.layer(self.q(x)))

    net = Net().eval()
    net.qconfig = tq.get_default_qconfig("fbgemm")
    prepared = tq.prepare(net)
    for _ in range(3):
        prepared(torch.randn(*shape))
    return torch.jit.script(tq.convert(prepared))


STATIC = [
    (nn.Linear(37, 70), (5, 37)),
    (nn.Linear(37, 70, bias=False), (5, 3, 37)),
    (nn.Conv1d(4, 8, 3, padding=1), (2, 4, 20)),
    (nn.Conv3d(4, 8, 3, padding=1), (2, 4, 6, 6, 6)),
    (nn.Conv2d(3, 8, 3), (2, 3, 18, 18)),
    (nn.Conv2d(8, 16, 1), (2, 8, 9, 9)),
    (nn.Conv2d(8, 16, 3, stride=2, padding=1), (2, 8, 9, 9)),
    (nn.Conv2d(8, 8, 3, groups=8, padding=1), (2, 8, 9, 9)),
    (nn.Conv2d(8, 16, 3, groups=2, dilation=2), (2, 8, 9, 9)),
    (nn.MaxPool2d(2), (2, 4, 12, 12)),
    (nn.AvgPool2d(2), (2, 4, 12, 12)),
    (nn.AdaptiveAvgPool2d(3), (2, 4, 12, 12)),
    (nn.ReLU6(), (2, 4, 12)),
    (nn.Hardswish(), (2, 4, 12)),
    (nn.ELU(), (2, 4, 12)),
    (nn.LeakyReLU(), (2, 4, 12)),
    (nn.Sigmoid(), (2, 4, 12)),
    (nn.Tanh(), (2, 4, 12)),
    (nn.GroupNorm(2, 4), (2, 4, 12)),
    (nn.LayerNorm(12), (2, 4, 12)),
    (nn.Upsample(scale_factor=2), (2, 4, 6, 6)),
]


@pytest.mark.parametrize("layer, shape", STATIC, ids=lambda v: str(v).replace(" ", ""))
def test_static_layers(layer: nn.Module, shape: tuple[int, ...], tmp_path: pathlib.Path) -> None:
    agree(static(layer, *shape), tmp_path, torch.randn(*shape))


def test_arithmetic(tmp_path: pathlib.Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.p, self.d = tq.QuantStub(), tq.QuantStub(), tq.DeQuantStub()
            self.a, self.b, self.c, self.e, self.f, self.g = (
                nn.quantized.FloatFunctional() for _ in range(6)
            )

        def forward(self, x, y):
            x, y = self.q(x), self.p(y)
            return (
                self.d(self.a.add(x, y)),
                self.d(self.b.mul(x, y)),
                self.d(self.c.cat([x, y], 1)),
                self.d(self.e.add_relu(x, y)),
                self.d(self.f.add_scalar(x, 0.7)),
                self.d(self.g.mul_scalar(x, -0.7)),
                self.d(x.mean([2, 3])),
                x > y,
            )

    net = Net().eval()
    net.qconfig = tq.get_default_qconfig("fbgemm")
    prepared = tq.prepare(net)
    for _ in range(3):
        prepared(torch.randn(2, 4, 6, 6), torch.randn(2, 4, 6, 6) * 2)
    agree(
        torch.jit.freeze(torch.jit.script(tq.convert(prepared))),
        tmp_path,
        torch.randn(2, 4, 6, 6),
        torch.randn(2, 4, 6, 6) * 2,
    )


def test_embeddings(tmp_path: pathlib.Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.bag = nn.Embedding(20, 8), nn.EmbeddingBag(20, 8, mode="sum")

        def forward(self, i, o):
            return self.one(i), self.bag(i.reshape(-1), o)

    net = Net().eval()
    net.one.qconfig = net.bag.qconfig = tq.float_qparams_weight_only_qconfig
    tq.prepare(net, inplace=True)
    agree(
        torch.jit.script(tq.convert(net)),
        tmp_path,
        torch.randint(0, 20, (3, 4)),
        torch.tensor([0, 3, 7]),
    )
