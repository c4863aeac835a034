"""Networks of programs.py: images."""

from __future__ import annotations

import math
from typing import List, Tuple

import torch
import torch.nn.functional as F
from programs_base import STATIC, program, r
from torch import Tensor, nn


class WindowAttention(nn.Module):
    """Swin: windows, cyclic shift with its mask, relative position bias."""

    def __init__(self, width: int, heads: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.norm, self.qkv, self.out = (
            nn.LayerNorm(width),
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
        )
        self.shift: int = shift
        self.bias = nn.Parameter(r((2 * window - 1) ** 2, heads))
        at = torch.stack(
            torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")
        ).flatten(1)
        apart = (at[:, :, None] - at[:, None]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", apart[..., 0] * (2 * window - 1) + apart[..., 1])

    def windows(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        x = x.view(b, h // self.window, self.window, w // self.window, self.window, c)
        return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, self.window * self.window, c)

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        area = self.window * self.window
        y = self.norm(x)
        if self.shift > 0:
            y = torch.roll(y, [-self.shift, -self.shift], [1, 2])
        q, k, v = (
            self.qkv(self.windows(y))
            .view(-1, area, 3, self.heads, c // self.heads)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(c / self.heads)
        scores = scores + self.bias[self.index.view(-1)].view(area, area, -1).permute(2, 0, 1)
        if self.shift > 0:
            zone = torch.zeros(1, h, w, 1)
            zone[:, h - self.window : h - self.shift] += 1
            zone[:, h - self.shift :] += 2
            zone[:, :, w - self.window : w - self.shift] += 3
            zone[:, :, w - self.shift :] += 6
            zones = self.windows(zone).squeeze(-1)
            mask = (zones.unsqueeze(1) - zones.unsqueeze(2)).ne(0.0).float() * -100.0
            n = mask.size(0)
            scores = (scores.view(b, n, self.heads, area, area) + mask.unsqueeze(1)).flatten(0, 1)
        y = self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        y = (
            y.view(b, h // self.window, w // self.window, self.window, self.window, c)
            .permute(0, 1, 3, 2, 4, 5)
            .reshape(b, h, w, c)
        )
        if self.shift > 0:
            y = torch.roll(y, [self.shift, self.shift], [1, 2])
        return x + y


program(
    "swin",
    lambda: nn.Sequential(WindowAttention(8, 2, 4, 0), WindowAttention(8, 2, 4, 2)),
    lambda: (r(2, 8, 8, 8),),
)


class SqueezeExcite(nn.Module):
    """EfficientNet's inverted residual with squeeze and excitation."""

    def __init__(self, n: int = 6, wide: int = 12) -> None:
        super().__init__()
        self.expand = nn.Sequential(
            nn.Conv2d(n, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.SiLU(inplace=True)
        )
        self.depth = nn.Sequential(
            nn.Conv2d(wide, wide, 5, padding=2, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.Hardswish(inplace=True),
        )
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(wide, 3, 1),
            nn.ReLU6(),
            nn.Conv2d(3, wide, 1),
            nn.Hardsigmoid(),
        )
        self.project = nn.Sequential(nn.Conv2d(wide, n, 1, bias=False), nn.BatchNorm2d(n))

    def forward(self, x: Tensor) -> Tensor:
        y = self.depth(self.expand(x))
        return x + self.project(y * self.squeeze(y))


program(
    "efficient", lambda: nn.Sequential(SqueezeExcite(), SqueezeExcite()), lambda: (r(2, 6, 9, 7),)
)


class ConvNeXt(nn.Module):
    def __init__(self, n: int = 6) -> None:
        super().__init__()
        self.depth, self.norm = nn.Conv2d(n, n, 7, padding=3, groups=n), nn.LayerNorm(n, eps=1e-6)
        self.up, self.down, self.scale = (
            nn.Linear(n, 4 * n),
            nn.Linear(4 * n, n),
            nn.Parameter(torch.full((n,), 1e-1)),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.depth(x).permute(0, 2, 3, 1)
        return x + (self.down(F.gelu(self.up(self.norm(y)))) * self.scale).permute(0, 3, 1, 2)


program(
    "convnext",
    lambda: nn.Sequential(nn.Conv2d(3, 6, 4, 4), nn.GroupNorm(1, 6), ConvNeXt(), ConvNeXt()),
    lambda: (r(1, 3, 16, 16),),
)


class ShuffleUnit(nn.Module):
    def __init__(self, n: int = 8) -> None:
        super().__init__()
        h = n // 2
        self.branch = nn.Sequential(
            nn.Conv2d(h, h, 1),
            nn.BatchNorm2d(h),
            nn.ReLU(),
            nn.Conv2d(h, h, 3, padding=1, groups=h),
            nn.BatchNorm2d(h),
            nn.Conv2d(h, h, 1),
            nn.LeakyReLU(0.1),
        )
        self.shuffle = nn.ChannelShuffle(2)

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, 1)
        return self.shuffle(torch.cat([a, self.branch(b)], 1))


program("shuffle_net", ShuffleUnit, lambda: (r(2, 8, 6, 6),))


class TimeUNet(nn.Module):
    """Diffusion U-Net: sinusoidal time embedding, group norm blocks, self attention, up and down sampling."""

    def __init__(self, n: int = 8) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(n, 2 * n), nn.SiLU(), nn.Linear(2 * n, 2 * n))
        self.enter, self.norm1, self.norm2 = (
            nn.Conv2d(1, n, 3, padding=1),
            nn.GroupNorm(4, n),
            nn.GroupNorm(4, n),
        )
        self.conv1, self.conv2 = nn.Conv2d(n, n, 3, padding=1), nn.Conv2d(n, n, 3, padding=1)
        self.shift = nn.Linear(2 * n, 2 * n)
        self.down, self.attend = (
            nn.Conv2d(n, n, 3, 2, 1),
            nn.MultiheadAttention(n, 2, batch_first=True),
        )
        self.up, self.leave = nn.Conv2d(n, n, 3, padding=1), nn.Conv2d(2 * n, 1, 3, padding=1)
        self.n = n

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        freq = torch.exp(torch.arange(self.n // 2) * (-math.log(10000.0) / (self.n // 2 - 1)))
        angle = t.float().unsqueeze(1) * freq
        e = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        x = self.enter(x)
        scale, shift = self.shift(F.silu(e)).unsqueeze(-1).unsqueeze(-1).chunk(2, 1)
        y = self.conv1(F.silu(self.norm1(x)))
        y = x + self.conv2(F.silu(self.norm2(y) * (1 + scale) + shift))
        z = self.down(y)
        b, c, h, w = z.shape
        flat = z.flatten(2).transpose(1, 2)
        z = z + self.attend(flat, flat, flat, need_weights=False)[0].transpose(1, 2).view(
            b, c, h, w
        )
        z = self.up(F.interpolate(z, scale_factor=2.0, mode="nearest"))
        return self.leave(torch.cat([y, z], 1))


program("diffusion", TimeUNet, lambda: (r(2, 1, 8, 8), torch.tensor([3, 700])))


class Sampler(nn.Module):
    """The sampling loop of a diffusion model inside the program: random numbers, a schedule, clamping."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 4))
        self.register_buffer("beta", torch.linspace(1e-4, 0.2, 6))

    def forward(self, n: int) -> Tensor:
        alpha = (1 - self.beta).cumprod(0)
        x = torch.randn(n, 4)
        for t in range(5, -1, -1):
            noise = self.net(torch.cat([x, torch.full((n, 1), float(t) / 6)], 1))
            x = (x - self.beta[t] / torch.sqrt(1 - alpha[t]) * noise) / torch.sqrt(1 - self.beta[t])
            if t > 0:
                x = x + torch.sqrt(self.beta[t]) * torch.randn_like(x)
        return x.clamp(-3, 3)


program("diffusion_sampler", Sampler, lambda: (5,), "script freeze")


class Generator(nn.Module):
    """DCGAN's generator and a conditional batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ConvTranspose2d(6, 8, 4)
        self.norm = nn.BatchNorm2d(8, affine=False)
        self.scale, self.shift = nn.Embedding(3, 8), nn.Embedding(3, 8)
        self.rest = nn.Sequential(
            nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False),
            nn.InstanceNorm2d(4, affine=True),
            nn.ReLU(True),
            nn.ConvTranspose2d(4, 3, 3, 2, 1, output_padding=1),
            nn.PixelShuffle(1),
            nn.Tanh(),
        )

    def forward(self, z: Tensor, label: Tensor) -> Tensor:
        x = self.norm(self.first(z[:, :, None, None]))
        x = F.relu(
            x * (1 + self.scale(label)[:, :, None, None]) + self.shift(label)[:, :, None, None]
        )
        return self.rest(x)


program("generator", Generator, lambda: (r(2, 6), torch.tensor([0, 2])))


class StyleBlock(nn.Module):
    """StyleGAN2: convolution with modulated and demodulated weights as one grouped convolution; blur by upfirdn."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.style = nn.Parameter(r(5, 4, 3, 3)), nn.Linear(6, 4)
        self.register_buffer("kernel", torch.tensor([1.0, 3.0, 3.0, 1.0]))

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        b, c, h, n = x.shape
        s = self.style(w).view(b, 1, c, 1, 1) + 1
        weight = self.weight.unsqueeze(0) * s
        weight = weight * torch.rsqrt(weight.square().sum([2, 3, 4], keepdim=True) + 1e-8)
        y = F.conv2d(
            x.reshape(1, b * c, h, n), weight.view(b * 5, c, 3, 3), padding=1, groups=b
        ).view(b, 5, h, n)
        k = torch.outer(self.kernel, self.kernel)
        k = (k / k.sum()).expand(5, 1, 4, 4)
        y = F.conv2d(F.pad(y, [2, 1, 2, 1], mode="reflect"), k, groups=5)
        return F.leaky_relu(y + 0.1 * torch.ones(1, 1, h, n), 0.2) * math.sqrt(2)


program("style_gan", StyleBlock, lambda: (r(2, 4, 8, 8), r(2, 6)))


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv2d(1, 4, 3, 2, 1), nn.ELU(), nn.Flatten(), nn.Linear(64, 8)
        )
        self.decode = nn.Sequential(
            nn.Linear(4, 64),
            nn.ELU(),
            nn.Unflatten(1, (4, 4, 4)),
            nn.ConvTranspose2d(4, 1, 4, 2, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        mean, log_var = self.encode(x).chunk(2, 1)
        z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        y = self.decode(z)
        loss = F.binary_cross_entropy(y, x, reduction="sum") - 0.5 * torch.sum(
            1 + log_var - mean.pow(2) - log_var.exp()
        )
        return y, loss


program("vae", VAE, lambda: (torch.rand(2, 1, 8, 8),))


class VectorQuantizer(nn.Module):
    """VQ-VAE: nearest codes, straight-through estimate, perplexity of the codes."""

    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Embedding(7, 3)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        flat = x.permute(0, 2, 3, 1).reshape(-1, 3)
        far = (
            flat.pow(2).sum(1, keepdim=True)
            - 2 * flat @ self.codes.weight.t()
            + self.codes.weight.pow(2).sum(1)
        )
        at = far.argmin(1)
        q = self.codes(at).view(x.size(0), x.size(2), x.size(3), 3).permute(0, 3, 1, 2)
        used = F.one_hot(at, 7).float().mean(0)
        return x + (q - x).detach(), at, torch.exp(-(used * torch.log(used + 1e-10)).sum())


program("vq_vae", VectorQuantizer, lambda: (r(2, 3, 4, 4),))


class SpatialTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.locate = nn.Sequential(
            nn.Conv2d(1, 2, 5), nn.MaxPool2d(2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(50, 6)
        )

    def forward(self, x: Tensor) -> Tensor:
        theta = self.locate(x).view(-1, 2, 3) * 0.1 + torch.eye(2, 3)
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


program("spatial_transformer", SpatialTransformer, lambda: (r(2, 1, 14, 14),))


class OpticalFlow(nn.Module):
    """RAFT in small: all-pairs correlation, look-up by grid sampling, a ConvGRU that refines, convex upsampling."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, 8, 3, 2, 1)
        self.gate, self.new = (
            nn.Conv2d(8 + 11, 16, 3, padding=1),
            nn.Conv2d(8 + 11, 8, 3, padding=1),
        )
        self.flow, self.mask = nn.Conv2d(8, 2, 3, padding=1), nn.Conv2d(8, 36, 1)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        fa, fb = self.features(a), self.features(b)
        n, c, h, w = fa.shape
        volume = torch.einsum("nchw,nckl->nhwkl", fa, fb) / math.sqrt(c)
        volume = volume.reshape(n * h * w, 1, h, w)
        ys, xs = torch.meshgrid(torch.arange(h).float(), torch.arange(w).float(), indexing="ij")
        start = torch.stack([xs, ys]).expand(n, 2, h, w)
        at, hidden = start, torch.tanh(fa)
        for _ in range(2):
            around = torch.stack(
                torch.meshgrid(torch.linspace(-1, 1, 3), torch.linspace(-1, 1, 3), indexing="ij"),
                -1,
            )
            points = at.permute(0, 2, 3, 1).reshape(n * h * w, 1, 1, 2) + around
            points = 2 * points / torch.tensor([w - 1.0, h - 1.0]) - 1
            near = (
                F.grid_sample(volume, points, align_corners=True)
                .view(n, h, w, 9)
                .permute(0, 3, 1, 2)
            )
            seen = torch.cat([near, at - start], 1)
            z, k = torch.sigmoid(self.gate(torch.cat([hidden, seen], 1))).chunk(2, 1)
            new = torch.tanh(self.new(torch.cat([k * hidden, seen], 1)))
            hidden = (1 - z) * hidden + z * new
            at = at + self.flow(hidden)
        mask = self.mask(hidden).view(n, 1, 9, 2, 2, h, w).softmax(2)
        fine = F.unfold(2 * (at - start), [3, 3], padding=1).view(n, 2, 9, 1, 1, h, w)
        return (mask * fine).sum(2).permute(0, 1, 4, 2, 5, 3).reshape(n, 2, 2 * h, 2 * w)


program("optical_flow", OpticalFlow, lambda: (r(1, 3, 12, 10), r(1, 3, 12, 10)))


def box_iou(a: Tensor, b: Tensor) -> Tensor:
    low, high = torch.max(a[:, None, :2], b[:, :2]), torch.min(a[:, None, 2:], b[:, 2:])
    meet = (high - low).clamp(min=0).prod(2)
    area_a, area_b = (a[:, 2:] - a[:, :2]).prod(1), (b[:, 2:] - b[:, :2]).prod(1)
    return meet / (area_a[:, None] + area_b - meet)


def suppress(boxes: Tensor, scores: Tensor, limit: float) -> Tensor:
    order = scores.argsort(descending=True)
    keep: List[int] = []
    while order.numel() > 0:
        best = order[0]
        keep.append(int(best))
        if order.numel() == 1:
            break
        rest = order[1:]
        order = rest[box_iou(boxes[best].unsqueeze(0), boxes[rest])[0] <= limit]
    return torch.tensor(keep, dtype=torch.long)


class Retina(nn.Module):
    """Anchors over two levels, focal loss, decoding, class-wise suppression."""

    def __init__(self) -> None:
        super().__init__()
        self.c3, self.c4 = nn.Conv2d(3, 8, 3, 4, 1), nn.Conv2d(8, 8, 3, 2, 1)
        self.lateral, self.smooth = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 3, padding=1)
        self.cls, self.box = nn.Conv2d(8, 2 * 3, 3, padding=1), nn.Conv2d(8, 2 * 4, 3, padding=1)

    def anchors(self, h: int, w: int, stride: int) -> Tensor:
        ys, xs = torch.meshgrid(torch.arange(h) * stride, torch.arange(w) * stride, indexing="ij")
        centre = torch.stack([xs, ys, xs, ys], -1).view(-1, 1, 4).float()
        base = torch.tensor([[-4.0, -4.0, 4.0, 4.0], [-6.0, -3.0, 6.0, 3.0]]) * (stride / 4)
        return (centre + base).view(-1, 4)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        p3 = self.c3(x)
        p4 = F.relu(self.c4(F.relu(p3)))
        p3 = self.smooth(self.lateral(p3) + F.interpolate(p4, size=p3.shape[-2:], mode="nearest"))
        boxes: List[Tensor] = []
        scores: List[Tensor] = []
        for level, stride in ((p3, 4), (p4, 8)):
            anchors = self.anchors(level.size(2), level.size(3), stride)
            delta = self.box(level).permute(0, 2, 3, 1).reshape(-1, 4)
            size, middle = anchors[:, 2:] - anchors[:, :2], (anchors[:, 2:] + anchors[:, :2]) / 2
            middle = middle + delta[:, :2] * 0.1 * size
            size = size * torch.exp(torch.clamp(delta[:, 2:] * 0.2, max=4.0))
            boxes.append(torch.cat([middle - size / 2, middle + size / 2], 1))
            scores.append(self.cls(level).permute(0, 2, 3, 1).reshape(-1, 3).sigmoid())
        box, score = torch.cat(boxes), torch.cat(scores)
        best, label = score.max(1)
        keep = torch.nonzero(best > 0.3).squeeze(1)
        box, best, label = box[keep], best[keep], label[keep]
        keep = suppress(box + label.unsqueeze(1) * 1000.0, best, 0.5)[:10]
        return box[keep], best[keep], label[keep]


program("retina_net", Retina, lambda: (r(1, 3, 32, 32),), "script freeze")


class Yolo(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1),
            nn.BatchNorm2d(8),
            nn.Mish(),
            nn.MaxPool2d(5, 1, 2),
            nn.Conv2d(8, 2 * 7, 3, 2, 1),
        )
        self.register_buffer("sizes", torch.tensor([[10.0, 13.0], [30.0, 16.0]]))

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        b, _, h, w = y.shape
        y = y.view(b, 2, 7, h, w).permute(0, 1, 3, 4, 2).contiguous()
        gy, gx = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack((gx, gy), 2).view(1, 1, h, w, 2).float()
        y[..., 0:2] = (y[..., 0:2].sigmoid() * 2 - 0.5 + grid) * 4
        y[..., 2:4] = (y[..., 2:4].sigmoid() * 2) ** 2 * self.sizes.view(1, 2, 1, 1, 2)
        y[..., 4:] = y[..., 4:].sigmoid()
        return y.view(b, -1, 7)


program("yolo", Yolo, lambda: (r(1, 3, 16, 16),))


class DeformableConv(nn.Module):
    """Deformable convolution out of gathers and bilinear weights."""

    def __init__(self) -> None:
        super().__init__()
        self.offset, self.weight = nn.Conv2d(2, 18, 3, padding=1), nn.Parameter(r(3, 18))

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        off = self.offset(x).view(n, 9, 2, h, w)
        ky, kx = torch.meshgrid(torch.arange(-1, 2), torch.arange(-1, 2), indexing="ij")
        py = off[:, :, 0] + ky.reshape(1, 9, 1, 1) + torch.arange(h).view(1, 1, h, 1)
        px = off[:, :, 1] + kx.reshape(1, 9, 1, 1) + torch.arange(w).view(1, 1, 1, w)
        y0, x0 = py.floor(), px.floor()
        total = torch.zeros(n, c, 9, h, w)
        for dy in range(2):
            for dx in range(2):
                yy, xx = y0 + dy, x0 + dx
                weight = (1 - (py - yy).abs()) * (1 - (px - xx).abs())
                inside = (yy >= 0) & (yy < h) & (xx >= 0) & (xx < w)
                at = (
                    (yy.clamp(0, h - 1) * w + xx.clamp(0, w - 1))
                    .long()
                    .view(n, 1, -1)
                    .expand(n, c, -1)
                )
                total = total + x.flatten(2).gather(2, at).view(n, c, 9, h, w) * (
                    weight * inside
                ).unsqueeze(1)
        return torch.einsum("nchw,oc->nohw", total.reshape(n, c * 9, h, w), self.weight)


program("deformable_conv", DeformableConv, lambda: (r(2, 2, 5, 6),))


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.PReLU(4), nn.AvgPool2d(2), nn.Flatten(), nn.LazyLinear(6)
        )
        self.body(torch.zeros(1, 1, 10, 10))

    def forward(self, a: Tensor, p: Tensor, n: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        x, y, z = (
            (F.normalize(self.body(t), dim=1) for t in (a, p, n))
            if not torch.jit.is_scripting()
            else (a, p, n)
        )
        return F.triplet_margin_loss(x, y, z), F.cosine_similarity(x, y), F.pairwise_distance(x, z)


program("siamese", Siamese, lambda: (r(2, 1, 10, 10), r(2, 1, 10, 10), r(2, 1, 10, 10)), STATIC)


class SimCLR(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        z = F.normalize(self.head(torch.cat([a, b])), dim=-1)
        s = z @ z.t() / 0.5
        s = s.masked_fill(torch.eye(s.size(0), dtype=torch.bool), float("-inf"))
        n = a.size(0)
        return F.cross_entropy(s, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]))


program("simclr", SimCLR, lambda: (r(4, 6), r(4, 6)))


class SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 5, padding=2, padding_mode="replicate"),
            nn.Softplus(),
            nn.Conv2d(8, 4, 3, padding=1, padding_mode="circular"),
        )
        self.up = nn.PixelShuffle(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.body(x)) + F.interpolate(
            x, scale_factor=2.0, mode="bicubic", align_corners=False
        )


program("super_resolution", SuperResolution, lambda: (r(1, 1, 6, 7),))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, 4)
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.tokens = nn.Sequential(
            nn.Linear(16, 12), nn.GELU(approximate="tanh"), nn.Linear(12, 16)
        )
        self.channels = nn.Sequential(nn.Linear(8, 16), nn.GLU(), nn.Dropout(0.1), nn.Linear(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return (x + self.channels(self.norm2(x))).mean(1)


program("mlp_mixer", Mixer, lambda: (r(2, 3, 16, 16),))


class MaskedAutoencoder(nn.Module):
    """MAE: random masking by argsort of noise, gather, restore."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.token = nn.Linear(12, 8), nn.Parameter(r(1, 1, 8))
        self.block, self.out = (
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True),
            nn.Linear(8, 12),
        )

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        x = F.unfold(x, 2, stride=2).transpose(1, 2)
        n, k, _ = x.shape
        order = torch.argsort(torch.rand(n, k), dim=1)
        back = torch.argsort(order, dim=1)
        kept = k // 2
        y = torch.gather(self.embed(x), 1, order[:, :kept].unsqueeze(-1).expand(-1, -1, 8))
        y = torch.cat([self.block(y), self.token.expand(n, k - kept, -1)], 1)
        y = self.out(torch.gather(y, 1, back.unsqueeze(-1).expand(-1, -1, 8)))
        mask = (back >= kept).float()
        return F.fold(y.transpose(1, 2), [6, 6], 2, stride=2), (
            ((y - x) ** 2).mean(-1) * mask
        ).sum() / mask.sum()


program("masked_autoencoder", MaskedAutoencoder, lambda: (r(2, 3, 6, 6),))


class Segmenter(nn.Module):
    """Atrous pyramid pooling, dice and cross entropy losses over pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, 2, 1)
        self.branches = nn.ModuleList(
            [nn.Conv2d(6, 4, 3, padding=d, dilation=d) for d in (1, 2, 3)]
        )
        self.pool, self.out = nn.Conv2d(6, 4, 1), nn.Conv2d(16, 3, 1)

    def forward(self, x: Tensor, target: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        y = F.elu(self.stem(x))
        parts = [F.relu(b(y)) for b in self.branches]
        whole = self.pool(F.adaptive_avg_pool2d(y, [1, 1]))
        parts.append(F.interpolate(whole, size=y.shape[2:], mode="bilinear", align_corners=False))
        logits = F.interpolate(
            self.out(torch.cat(parts, 1)), size=x.shape[2:], mode="bilinear", align_corners=True
        )
        hot = F.one_hot(target.clamp(min=0), 3).permute(0, 3, 1, 2).float()
        p = logits.softmax(1)
        dice = 1 - (2 * (p * hot).sum([2, 3]) + 1) / (p.sum([2, 3]) + hot.sum([2, 3]) + 1)
        return (
            logits,
            dice.mean(),
            F.cross_entropy(
                logits,
                target,
                weight=torch.tensor([1.0, 2.0, 0.5]),
                ignore_index=-1,
                label_smoothing=0.1,
            ),
        )


program("segmenter", Segmenter, lambda: (r(2, 3, 12, 12), torch.randint(-1, 3, (2, 12, 12))))
