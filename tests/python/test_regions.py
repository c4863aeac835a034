"""Convolution networks that run in blocks of channels give the bits of their operators one by one,
on every instruction set and with any number of threads (src/compile/region.h)."""

from __future__ import annotations

import copy
import pathlib
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import rushlight
from executor_runs import Loaded

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402


class Residual(nn.Module):
    """A bottleneck whose shortcut is read twice, with a strided one behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 20, 7, 2, 3, bias=False)
        self.n0 = nn.BatchNorm2d(20)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.a, self.c = nn.Conv2d(20, 33, 1), nn.Conv2d(33, 20, 1)
        self.b = nn.Conv2d(33, 33, 3, 1, 1)
        self.na, self.nb = nn.BatchNorm2d(33), nn.BatchNorm2d(33, affine=False)
        self.d = nn.Conv2d(20, 48, 3, 2, 1)
        self.e = nn.Conv2d(20, 48, 1, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.pool(functional.relu(self.n0(self.stem(x))))
        y = functional.relu(self.na(self.a(x)))
        y = functional.relu(self.nb(self.b(y)))
        x = functional.relu(self.c(y) + x)
        return functional.relu(self.d(x) + self.e(x)), x


class Mobile(nn.Module):
    """Depthwise convolutions of several kernels, activations in formulas."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.n = nn.Conv2d(5, 40, 3, 2, 1, bias=False), nn.BatchNorm2d(40)
        self.d3 = nn.Conv2d(40, 40, 3, 1, 1, groups=40, bias=False)
        self.d5 = nn.Conv2d(40, 40, 5, 2, 2, groups=40)
        self.d7 = nn.Conv2d(40, 40, 7, 1, 3, groups=40)
        self.dd = nn.Conv2d(40, 40, 3, 1, 2, dilation=2, groups=40)
        self.dw = nn.Conv2d(40, 40, (1, 5), (1, 3), (0, 1), groups=40)
        self.p = nn.Conv2d(40, 24, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.hardswish(self.n(self.a(x)))
        x = functional.relu6(self.d3(x))
        y = functional.silu(self.d5(x))
        y = self.dd(self.d7(y)) * torch.sigmoid(y)
        return self.p(functional.hardsigmoid(self.dw(y)))


class Squeezed(nn.Module):
    """Squeeze and excite, activations in place, a shortcut that is added in place."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.n = nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24)
        self.d = nn.Conv2d(24, 24, 3, 1, 1, groups=24, bias=False)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.s, self.e = nn.Conv2d(24, 9, 1), nn.Conv2d(9, 24, 1)
        self.p, self.m = nn.Conv2d(24, 24, 1, bias=False), nn.BatchNorm2d(24)
        self.relu, self.swish = nn.ReLU(inplace=True), nn.Hardswish(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.swish(self.n(self.a(x)))
        y = self.swish(self.d(x))
        y = functional.hardsigmoid(self.e(self.relu(self.s(self.pool(y))))) * y
        y = self.m(self.p(y))
        y += x
        return self.pool(y).flatten(1)


class Odd(nn.Module):
    """What is at a region's border: several results, norms and chains on their own, long sums."""

    def __init__(self) -> None:
        super().__init__()
        self.n0, self.n1 = nn.BatchNorm2d(6), nn.BatchNorm2d(90)
        self.a = nn.Conv2d(6, 90, 3, 1, 1, dilation=1)
        self.b = nn.Conv2d(90, 17, 3, 1, 2, dilation=2)
        self.one = nn.Conv2d(1, 3, 3, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        z = functional.leaky_relu(self.n0(x) * 2.0 - 1.0, 0.3)
        y = self.a(z)
        w = self.n1(y)
        y = torch.max_pool2d(functional.relu(y) - w, [2, 2], ceil_mode=True)
        return self.b(y), torch.exp(w) + y.mean(), self.one(x[:, :1] * 0.0 - 0.0)


class Joined(nn.Module):
    """Channels joined: of this region and from outside, with a last part of a block."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(9, 32, 3, 1, 1), nn.Conv2d(32, 16, 3, 1, 1)
        self.c, self.d = nn.Conv2d(48, 21, 1), nn.Conv2d(37, 40, 3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = functional.relu(self.a(x))
        b = torch.sigmoid(self.b(a))
        c = self.c(functional.relu(torch.cat([a, b], 1)))
        return self.d(torch.cat([b, c], 1)) + torch.cat([b, torch.cat([b, x[:, :8]], 1)], 1)


class Spread(nn.Module):
    """Transposed convolutions that fill their image, joined with what they came from."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(8, 48, 3, 2, 1), nn.Conv2d(64, 20, 3, 1, 1)
        self.u, self.n = nn.ConvTranspose2d(48, 48, 2, 2), nn.BatchNorm2d(48)
        self.v = nn.ConvTranspose2d(20, 32, (1, 3), (1, 3))
        self.w = nn.ConvTranspose2d(20, 16, 2, 2, bias=False)
        self.e, self.c = nn.Conv2d(8, 16, 1), nn.Conv2d(16, 16, 3, 1, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.n(self.u(functional.relu(self.a(x))))
        y = self.b(torch.cat([y, self.e(x)], 1))
        return torch.tanh(self.v(y)), self.c(functional.relu(self.w(y)))


class Zeros(nn.Module):
    """Norms that give -0, and NaN, clamped in several ways."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.n = nn.Conv2d(2, 16, 1, bias=False), nn.BatchNorm2d(16)
        self.d = nn.Conv2d(16, 16, 3, 1, 1, groups=16, bias=False)

    def forward(
        self, x: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        y = [self.n(self.a(x)) for _ in range(3)]
        z = [self.n(self.d(self.a(x))) for _ in range(3)]
        return (
            functional.relu(y[0]),
            functional.relu6(y[1]),
            functional.hardtanh(y[2], -1.0, 0.0),
            functional.relu(z[0]),
            functional.hardtanh(z[1], 0.0, float("nan")),
            functional.hardtanh(z[2], -0.5, 0.25),
        )


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.n = nn.Conv1d(1, 64, 10, 5), nn.BatchNorm1d(64)
        self.b = nn.Conv1d(64, 30, 3, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.b(functional.relu(self.n(self.a(x)))))


class Branches(nn.Module):
    """Activations in place of what is joined, and checks that raise between the convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.mode = "row"
        self.a, self.n = nn.Conv2d(6, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32)
        self.b, self.c = nn.Conv2d(32, 16, 1), nn.Conv2d(32, 24, 3, 1, 1)
        self.d, self.e = nn.Conv2d(32, 48, 1), nn.Conv2d(88, 32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.n(self.a(x)), inplace=True)
        b = functional.relu(self.b(x), inplace=True)
        c = functional.relu(self.c(torch.max_pool2d(x, 3, 1, 1)), inplace=True)
        if self.mode not in ["batch", "row"]:
            raise ValueError("no such mode: " + self.mode)
        d = functional.relu(self.d(x), inplace=True)
        y = self.e(torch.cat([d, b, c], 1))
        y += x
        return (y * 2.0).mean([2, 3])


class Pools(nn.Module):
    """Averages of every kind, and what is repeated."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(5, 24, 3, 1, 1), nn.Conv2d(24, 24, 1)
        self.up = nn.Upsample(scale_factor=2.0)
        self.size = nn.AdaptiveAvgPool2d((3, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.a(x)
        y = functional.avg_pool2d(x, 3, 1, 1)
        y = y + functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        z = self.b(functional.avg_pool2d(y, [2, 3], ceil_mode=True))
        z = z + functional.avg_pool2d(y, [2, 3], ceil_mode=True, divisor_override=5)
        w = functional.interpolate(z, scale_factor=[4.0, 2.0], mode="nearest")
        v = functional.interpolate(w, size=(z.shape[2] * 3 - 1, 7), mode="nearest")
        v = v + functional.adaptive_avg_pool2d(functional.interpolate(v, scale_factor=0.7), 1)
        z = self.up(z) * torch.sigmoid(self.b(z.mean([2, 3], keepdim=True)))
        few = functional.avg_pool2d(z, 5)
        means = few.mean((-1, -2), keepdim=True) + z.mean([3, 2], keepdim=True)
        v = self.size(v) - self.size(z)
        return self.size(torch.relu(z)) * functional.relu(means) + self.size(w) + v


class Last(nn.Module):
    """ConvNeXt's blocks: norms and products of channels that are last, in several orders."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.n0 = nn.Conv2d(3, 40, 4, 4), nn.LayerNorm(40)
        self.d, self.n1 = nn.Conv2d(40, 40, 7, 1, 3, groups=40), nn.LayerNorm(40)
        self.a, self.b = nn.Linear(40, 72), nn.Linear(72, 40, bias=False)
        self.scale = nn.Parameter(torch.rand(40, 1, 1))
        self.n2 = nn.LayerNorm(40, elementwise_affine=False)
        self.down = nn.Conv2d(40, 80, 2, 2)
        self.n3, self.e = nn.LayerNorm(80, bias=False), nn.Conv2d(80, 80, 3, 1, 1, groups=80)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = self.n0(self.stem(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        y = self.n1(self.d(x).permute(0, 2, 3, -1 + 2))
        y = self.b(functional.gelu(self.a(y))).permute(0, -1, 1, 2)
        x = self.scale * y + x
        y = self.n2(x.permute(0, 2, 3, 1)) * self.scale.flatten() - 0.5
        y = self.down(y.permute(0, 3, 1, 2))
        z = self.n3(y.permute(0, 2, 3, 1))
        return self.e(z.permute(0, 3, 1, 2) + y), functional.relu(z), x * 2.0


class Turned(nn.Module):
    """Permutes between pointwise operators that one step computes."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(5, 24, 3, 1, 1), nn.Linear(24, 24)
        self.n = nn.LayerNorm(24, eps=1e-6)
        self.scale = nn.Parameter(torch.rand(24) + 0.5)
        self.c = nn.Conv2d(24, 16, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = functional.relu(self.a(x))
        y = self.b(self.n(x.permute(0, 2, 3, 1))) * self.scale
        x = x + y.permute(0, 3, 1, 2)
        y = (x * 2.0).permute(0, 2, 3, 1) - y
        z = y.permute(0, 3, 1, 2).tanh() + x
        return self.c(z), z


class Weighing(nn.Module):
    """Weights that other nodes of the network make."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.w = nn.Conv2d(3, 32, 3, 1, 1), nn.Parameter(torch.randn(32, 32, 3, 3) * 0.1)
        self.v = nn.Parameter(torch.randn(64, 32, 3, 3) * 0.1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ones = torch.ones(1, 3, 3, 32)
        y = functional.relu(self.a(x))
        w = torch.tanh(self.w * 0.5)
        z = functional.relu(functional.conv2d(y, w))
        z = functional.conv2d(z, self.v[:32]) + functional.conv2d(z, self.v[32:])
        return functional.conv2d(z, self.a(ones).reshape(32, 1, 3, 32)[..., :3], groups=32), w


class Numbers(nn.Module):
    """Tensors of one element as operands: learned scales, shifts and gates."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(5, 24, 3, 1, 1), nn.Conv2d(24, 40, 3, 2, 1)
        self.scale, self.shift = nn.Parameter(torch.tensor([1.7])), nn.Parameter(torch.tensor(-0.3))
        self.gate = nn.Parameter(torch.tensor([0.4]))
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.scale * functional.relu(self.a(x)) + self.shift
        y = self.scale * self.b(x) + self.gate - self.shift
        return self.pool(y) + self.shift * y


class Grouped(nn.Module):
    """Groups of few channels, of whole blocks, and channel by channel without a kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.n = nn.Conv2d(5, 72, 3, 2, 1, bias=False), nn.BatchNorm2d(72)
        self.g2 = nn.Conv2d(72, 72, 3, 1, 1, groups=36, bias=False)
        self.g4 = nn.Conv2d(72, 72, (3, 2), (1, 2), 2, dilation=2, groups=18)
        self.g8 = nn.Conv2d(72, 72, 3, 1, 1, groups=9, bias=False)
        self.one = nn.Conv2d(72, 72, 1, groups=72, bias=False)
        self.two = nn.Conv2d(72, 72, 1, 2, groups=72)
        self.p = nn.Conv2d(72, 96, 1)
        self.g32 = nn.Conv2d(96, 144, 3, 1, 1, groups=3, bias=False)
        self.of_48 = nn.Conv2d(144, 144, 3, 1, 1, groups=3)
        self.g48 = nn.Conv2d(144, 48, 1, groups=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.n(self.a(x)))
        x = functional.relu(self.n(self.g2(x)))
        x = self.g8(functional.silu(self.g4(x))) * 1e-20 + self.one(x[:, :, :1, :1].abs())
        x = self.one(x) * 1e20
        x = functional.relu6(self.n(self.two(x)))
        return self.g48(self.of_48(functional.relu(self.g32(self.p(x)))))


class Shifted(nn.Module):
    """Channels joined and sliced at any of them."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(9, 27, 3, 1, 1), nn.Conv2d(27, 10, 1)
        self.c, self.d = nn.Conv2d(58, 38, 3, 1, 1), nn.Conv2d(20, 37, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = functional.relu(self.a(x))
        b = torch.sigmoid(self.b(a))
        c = self.c(functional.relu(torch.cat([b, a, b[:, :, :], b, a[:, 5:6]], 1)))
        y = torch.tanh(c[:, 3:23, :, :]) + c[:, -20:]
        return torch.cat([self.d(y), b[:, 1:], y[:, 16:]], 1) * 0.5


class Normed(nn.Module):
    """Norms of groups of channels: one, all, some that begin inside a block; averages between."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(5, 36, 3, 1, 1), nn.Conv2d(36, 32, 3, 2, 1)
        self.n1, self.n3 = nn.GroupNorm(1, 36), nn.GroupNorm(3, 36, affine=False)
        self.n36, self.n4 = nn.GroupNorm(36, 36, eps=1e-3), nn.GroupNorm(4, 32)
        for n in (self.n1, self.n36, self.n4):
            nn.init.uniform_(n.weight, 0.5, 2.0)
            nn.init.uniform_(n.bias, -0.5, 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.a(x)
        y = self.n1(x)
        x = x + functional.avg_pool2d(y, 3, 1, 1, count_include_pad=False) - y
        x = functional.silu(self.n3(x)) + self.n36(x + 3.0)
        return self.n4(functional.relu(self.b(x)))


class LastParts(nn.Module):
    """Channels that are last, split, convolved in part and joined again."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.n = nn.Conv2d(3, 24, 4, 4), nn.LayerNorm(24)
        self.a, self.b = nn.Linear(24, 88), nn.Linear(46, 24)
        self.c = nn.Conv2d(17, 17, 5, 1, 2, groups=17)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).permute(0, 2, 3, 1)
        g, i, c = self.a(self.n(x)).split([46, 25, 17], dim=-1)
        c = self.c(c.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        y = torch.cat((i, c, g[..., 42:]), dim=-1)
        p, q = y.chunk(2, 3)
        y = self.b(functional.gelu(g) * y) + torch.cat([q, p], -1)[:, :, :, 11:35] * 0.5
        return self.stem(torch.cat([y, x], 3)[..., :3].permute(0, 3, 1, 2))


class Padded(nn.Module):
    """Padding with numbers, before and behind, also where a border of zeros follows."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(9, 24, 3, 2), nn.Conv2d(24, 40, 3, 2, 1)
        self.c = nn.Conv2d(40, 40, 3, groups=40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.a(functional.pad(x, [0, 1, 0, 1])))
        y = functional.max_pool2d(functional.pad(x, [0, 1, 2, 0], value=-1.5), 2, 1)
        z = self.b(functional.pad(y, [1, 2, 0, 0]))
        w = torch.constant_pad_nd(self.c(functional.pad(z, (2, 0))), [3, 1], 2)
        few = functional.pad(z * 2.0, [1, 0, 0, 3], value=float("-inf")).sigmoid()
        return torch.sigmoid(w) * functional.adaptive_avg_pool2d(few, 1)


class Parts(nn.Module):
    """Channels split into parts, which are changed in place and joined again."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(6, 48, 3, 1, 1), nn.Conv2d(16, 16, 3, 1, 1)
        self.c, self.d = nn.Conv2d(64, 38, 1), nn.Conv2d(10, 10, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.a(x), inplace=True)
        p, q, r = x.chunk(3, 1)
        s = functional.relu_(self.b(p) + q)
        t, u = self.b(s).split(8, dim=1)
        y = functional.relu(self.c(torch.cat([q.contiguous(), s, r, u, t], 1)), inplace=True)
        a, b, c = torch.split(y, [10, 15, 13], 1)
        d = self.d(a)[:, :10]
        d += b[:, 5:]
        return torch.cat([functional.hardswish(c, inplace=False), d[:, :, :, :]], 1) * 0.5


def convolutions(n: int, m: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(n, m, 3, padding=1), nn.ReLU(), nn.Conv2d(m, m, 3, padding=1))


class Shortcuts(nn.Module):
    """Values that live long beside those that are read at once; the sizes of an interpolation
    follow from those of the one before it."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = convolutions(3, 32), convolutions(32, 64)
        self.middle, self.up2 = convolutions(64, 128), convolutions(192, 64)
        self.up1, self.last = convolutions(96, 32), nn.Conv2d(32, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.down1(x)
        b = self.down2(functional.max_pool2d(a, 2))
        c = self.middle(functional.max_pool2d(b, 2))
        b = self.up2(torch.cat([functional.interpolate(c, scale_factor=2.0), b], 1))
        a = self.up1(torch.cat([functional.interpolate(b, scale_factor=2.0), a], 1))
        return self.last(a)


NETWORKS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "shifted": (Shifted, (1, 9, 11, 30)),
    "shifted, 2 images": (Shifted, (2, 9, 11, 12)),
    "grouped": (Grouped, (2, 5, 41, 30)),
    "grouped, 14 x 14": (Grouped, (1, 5, 28, 28)),
    "last": (Last, (2, 3, 41, 67)),
    "last, 16 x 16": (Last, (1, 3, 64, 64)),
    "turned": (Turned, (2, 5, 19, 23)),
    "turned, 8 x 8": (Turned, (1, 5, 8, 8)),
    "weighing": (Weighing, (2, 3, 19, 23)),
    "numbers": (Numbers, (2, 5, 19, 23)),
    "numbers, 16 x 16": (Numbers, (1, 5, 16, 16)),
    "pools": (Pools, (2, 5, 17, 22)),
    "pools, 12 x 12": (Pools, (1, 5, 12, 12)),
    "branches": (Branches, (2, 6, 19, 23)),
    "normed": (Normed, (2, 5, 17, 23)),
    "normed, 8 x 8": (Normed, (1, 5, 8, 8)),
    "last parts": (LastParts, (2, 3, 68, 76)),
    "last parts, 16 x 16": (LastParts, (1, 3, 64, 64)),
    "padded": (Padded, (2, 9, 17, 22)),
    "padded, 12 x 12": (Padded, (1, 9, 12, 12)),
    "parts": (Parts, (2, 6, 19, 23)),
    "parts, 8 x 8": (Parts, (1, 6, 8, 8)),
    "residual": (Residual, (2, 3, 61, 67)),
    "residual, 7 x 7": (Residual, (1, 3, 28, 28)),
    "mobile": (Mobile, (1, 5, 47, 60)),
    "squeezed": (Squeezed, (2, 3, 37, 50)),
    "odd": (Odd, (3, 6, 8, 31)),
    "joined": (Joined, (2, 9, 11, 30)),
    "spread": (Spread, (2, 8, 18, 26)),
    "spread, 7 x 7": (Spread, (1, 8, 14, 14)),
    "zeros": (Zeros, (1, 2, 8, 9)),
    "line": (Line, (2, 1, 400)),
    "shortcuts": (Shortcuts, (1, 3, 64, 64)),
}


def network(name: str) -> tuple[Any, Any]:
    torch.manual_seed(len(name))
    made, sizes = NETWORKS[name]
    net = made().eval()
    for part in net.modules():
        if isinstance(part, (nn.BatchNorm2d, nn.BatchNorm1d)):
            part.running_mean.uniform_(-0.5, 0.5)
            part.running_var.uniform_(0.3, 2.0)
            if part.affine:
                nn.init.uniform_(part.weight, 0.5, 2.0)
                nn.init.uniform_(part.bias, -0.5, 0.5)
    x = torch.randn(sizes)
    if name == "zeros":
        with torch.no_grad():
            net.a.weight.mul_(1e-30)
            net.n.weight.fill_(1e-30)
            net.n.weight[8:] = 1e30
            net.n.bias.fill_(-0.0)
            net.n.running_mean.zero_()
        x[0, 0, 0, 0] = float("nan")
    return net, x


def flat(out: Any) -> list[Any]:
    return list(out) if isinstance(out, tuple) else [out]


def same(got: Any, want: Any) -> bool:
    return all(
        g.shape == w.shape
        and torch.equal(g.isnan(), w.isnan())
        and torch.equal(g.nan_to_num(9.0).view(torch.int32), w.nan_to_num(9.0).view(torch.int32))
        for g, w in zip(flat(got), flat(want), strict=True)
    )


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    threads = rushlight.get_num_threads()
    with torch.no_grad():
        yield
    rushlight.set_num_threads(threads)
    rushlight.set_cpu("native")
    rushlight.set_executor("profiling")


def near(got: Any, theirs: Any, net: Any, x: Any) -> None:
    """PyTorch's result; where that differs, the exact one, which shows whose float32 is off."""
    for i, (g, w) in enumerate(zip(flat(got), flat(theirs), strict=True)):
        try:
            torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-4, equal_nan=True)
        except AssertionError:
            exact = flat(copy.deepcopy(net).double()(x.double()))[i]
            torch.testing.assert_close(g.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_bits_are_those_of_operators(name: str, tmp_path: pathlib.Path) -> None:
    net, x = network(name)
    path = tmp_path / "net.pt"
    torch.jit.script(net).save(str(path))
    with_grad = net(x)
    first = None
    for cpu in ("avx512", "avx2", "portable"):
        rushlight.set_cpu(cpu)
        if rushlight.get_cpu() != cpu:
            continue
        for threads in (1, 2, 8):
            rushlight.set_num_threads(threads)
            want = Loaded(path, "simple")(x)
            ours = Loaded(path, "profiling")
            for call in range(4):
                assert same(ours(x), want), (cpu, threads, call)
            near(want, with_grad, net, x)
            before = rushlight.compile_counters()
            ours(x)
            after = rushlight.compile_counters()
            if cpu != "portable":
                assert after["group_calls"] > before["group_calls"], cpu
                assert after["interpreted"] == before["interpreted"], cpu
            if first is None:
                first = want
            elif cpu != "portable":
                assert same(want, first)


def is_one_region(command: str, path: pathlib.Path, x: torch.Tensor) -> None:
    """The plan for x has one region, and no other operator that makes floats."""
    sizes = ",".join(str(n) for n in x.shape)
    out = subprocess.run(
        [command, "show", str(path), "--plan", f"randn({sizes})"], capture_output=True, text=True
    )
    assert out.returncode == 0, out.stderr
    main = out.stdout.split("\nwith ")[0]
    assert main.count("= rushlight::region") == 1, main
    assert not re.findall(r": Float\([^\n]*\) = aten::\w+", main), main


@pytest.mark.parametrize("name", ["residual", "mobile", "branches", "pools", "turned", "shifted"])
def test_an_exported_program_is_one_region(name: str, command: str, tmp_path: pathlib.Path) -> None:
    """Its lists are constants, and its defaults are written out."""
    net, x = network(name)
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(net, (x,)), path)
    ours, plain = Loaded(path, "profiling"), Loaded(path, "simple")
    want = plain(x)
    for _ in range(4):
        assert same(ours(x), want)
    near(want, net(x), net, x)
    is_one_region(command, path, x)


@pytest.mark.parametrize(
    "name", ["residual", "padded", "parts", "normed", "padded, 12 x 12", "parts, 8 x 8"]
)
def test_a_traced_program_is_one_region(name: str, command: str, tmp_path: pathlib.Path) -> None:
    """Its numbers are tensors, and splits are lists."""
    net, x = network(name)
    path = tmp_path / "net.pt"
    torch.jit.trace(net, (x,)).save(str(path))
    ours, plain = Loaded(path, "profiling"), Loaded(path, "simple")
    want = plain(x)
    for _ in range(4):
        assert same(ours(x), want)
    near(want, net(x), net, x)
    is_one_region(command, path, x)


@pytest.mark.parametrize("name", ["residual", "mobile", "squeezed", "shifted", "grouped"])
def test_weights_with_channels_last(name: str, command: str, tmp_path: pathlib.Path) -> None:
    """As users save them who prepare a network for PyTorch: module.to(memory_format=...)."""
    net, x = network(name)
    net = net.to(memory_format=torch.channels_last)
    x = x.contiguous(memory_format=torch.channels_last)
    path = tmp_path / "net.pt"
    torch.jit.trace(net, (x,)).save(str(path))
    for cpu in ("avx512", "avx2"):
        rushlight.set_cpu(cpu)
        if rushlight.get_cpu() != cpu:
            continue
        ours, plain = Loaded(path, "profiling"), Loaded(path, "simple")
        before = rushlight.compile_counters()
        for _ in range(4):
            got, want = ours(x), plain(x)
            assert same(got, want), cpu
            assert [g.stride() for g in flat(got)] == [w.stride() for w in flat(want)]
        assert rushlight.compile_counters()["group_calls"] > before["group_calls"]
        near(want, net(x), net, x)
        weights = [p for p in ours.module.parameters() if p.dim() == 4]
        changed = [p for p in plain.module.parameters() if p.dim() == 4]
        for p, q in zip(weights, changed, strict=True):
            p.mul_(1.5)
            q.mul_(1.5)
        assert same(ours(x), plain(x))


def test_writes_are_seen(tmp_path: pathlib.Path) -> None:
    """Weights are packed, statistics are not; both may change."""
    net, x = network("residual")
    path = tmp_path / "net.pt"
    torch.jit.script(net).save(str(path))
    ours, plain = Loaded(path, "profiling"), Loaded(path, "simple")
    for _ in range(4):
        assert same(ours(x), plain(x))
    for change in ("a.weight", "n0.running_var", "nb.running_mean", "na.bias", "c.bias"):
        before = ours(x)
        for one in (ours, plain):
            at = one.module
            *owners, attr = change.split(".")
            for owner in owners:
                at = getattr(at, owner)
            getattr(at, attr).mul_(1.5).add_(0.25)
        for _ in range(3):
            now = ours(x)
            assert same(now, plain(x)), change
            assert not same(now, before), change


def test_what_is_left_outside(command: str, tmp_path: pathlib.Path) -> None:
    """Kernels that conv.c computes in another order, and images that blocks would not fit."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.large = nn.Conv2d(16, 16, 20, 1, 10, groups=16)  # 400 elements
            self.two = nn.Conv2d(16, 32, 3, groups=2)
            self.few = nn.Conv2d(32, 2, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.few(torch.relu(self.two(torch.relu(self.large(x))))))

    torch.manual_seed(1)
    path, x = tmp_path / "net.pt", torch.randn(1, 16, 30, 33)
    torch.jit.script(Net().eval()).save(str(path))
    ours, plain = Loaded(path, "profiling"), Loaded(path, "simple")
    for _ in range(4):
        assert same(ours(x), plain(x))
    out = subprocess.run(
        [command, "show", str(path), "--plan", "randn(1,16,30,33)"], capture_output=True, text=True
    )
    assert out.returncode == 0 and "rushlight::region" not in out.stdout


def test_other_arguments(tmp_path: pathlib.Path) -> None:
    net, x = network("residual")
    path = tmp_path / "net.pt"
    torch.jit.script(net).save(str(path))
    ours, plain = Loaded(path, "profiling"), Loaded(path, "simple")
    arguments = [
        x,
        x.to(memory_format=torch.channels_last),
        x[:1],
        torch.cat([x, x]),
        x.transpose(2, 3),
        x * float("nan"),
        x * float("inf"),
        x * 1e-38,
    ]
    for a in arguments + arguments:
        for _ in range(3):
            got, want = ours(a), plain(a)
            for g, w in zip(got, want, strict=True):
                assert g.stride() == w.stride()
                torch.testing.assert_close(g, w, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", ["residual", "mobile", "squeezed", "line", "pools", "numbers"])
def test_any_number_of_images(name: str, tmp_path: pathlib.Path) -> None:
    """The second batch widens the plan; its regions take any number of images."""
    net, x = network(name)
    path = tmp_path / "net.pt"
    torch.jit.script(net).save(str(path))
    ours, plain = Loaded(path, "profiling"), Loaded(path, "simple")
    for batch in (1, 1, 3, 2, 7, 1, 4):
        images = torch.randn(batch, *x.shape[1:])
        for _ in range(2):
            assert same(ours(images), plain(images)), batch
    before = rushlight.compile_counters()
    ours(torch.randn(5, *x.shape[1:]))
    after = rushlight.compile_counters()
    assert after["group_calls"] > before["group_calls"]
    assert after["interpreted"] == before["interpreted"]
    assert "rushlight::region" in str(ours.module.graph_for(torch.randn(6, *x.shape[1:])))


class Sum(nn.Module):
    """Two images of an unknown number each, which may differ."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.a(x) + y)


def test_images_of_several_batches(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "net.pt"
    torch.jit.script(Sum().eval()).save(str(path))
    ours, plain = Loaded(path, "profiling"), Loaded(path, "simple")
    for n, m in ((2, 2), (2, 2), (3, 3), (4, 4), (4, 1), (1, 4), (5, 5), (1, 1), (3, 1)):
        x, y = torch.randn(n, 3, 9, 9), torch.randn(m, 8, 7, 7)
        for _ in range(2):
            assert same(ours(x, y), plain(x, y)), (n, m)


@pytest.mark.parametrize("name", ["branches", "pools", "shifted", "shifted, 2 images"])
def test_a_network_is_one_region(name: str, command: str, tmp_path: pathlib.Path) -> None:
    net, x = network(name)
    path = tmp_path / "net.pt"
    torch.jit.script(net).save(str(path))
    is_one_region(command, path, x)


def test_a_list_that_changes_later_is_left(tmp_path: pathlib.Path) -> None:
    """What a list holds is the tensor: a change behind the list is seen through it."""

    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 16, 3), nn.Conv2d(32, 8, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.a(x)
            parts = [y, y.neg()]
            y.relu_()
            return self.b(torch.cat(parts, 1))

    torch.manual_seed(3)
    path, x = tmp_path / "net.pt", torch.randn(2, 3, 9, 9)
    net = Late().eval()
    torch.jit.script(net).save(str(path))
    ours, plain = Loaded(path, "profiling"), Loaded(path, "simple")
    for _ in range(4):
        assert same(ours(x), plain(x))
    torch.testing.assert_close(ours(x), net(x), rtol=1e-4, atol=1e-4)


def test_it_is_seen(command: str, tmp_path: pathlib.Path) -> None:
    net, _ = network("mobile")
    path = tmp_path / "net.pt"
    torch.jit.script(net).save(str(path))
    out = subprocess.run(
        [command, "show", str(path), "--plan", "randn(1,5,47,60)"], capture_output=True, text=True
    )
    assert out.returncode == 0 and "rushlight::region" in out.stdout, out.stderr


def test_memory_of_long_and_short_lives(command: str, tmp_path: pathlib.Path) -> None:
    """Values that live long beside short-lived ones leave no large gaps in a region's memory."""

    net, x = network("shortcuts")
    path = tmp_path / "net.pt"
    torch.jit.script(net).save(str(path))
    is_one_region(command, path, x)
    out = subprocess.run(
        [command, "show", str(path), "--plan", "randn(1,3,64,64)"], capture_output=True, text=True
    )
    live = re.search(r"results take at most (\d+) bytes at once \((\d+) results\)", out.stdout)
    took = re.search(r"the last call took (\d+) bytes at once", out.stdout)
    assert live and took and int(live[2]) > 15, out.stderr
    assert int(took[1]) <= 1.1 * int(live[1])
