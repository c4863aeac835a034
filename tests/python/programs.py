"""Networks of many architectures, made with PyTorch and run by rushlight.

    python tests/python/programs.py [PATTERN]

PROGRAMS says how to make each module, its arguments, and the ways it becomes an archive: script, freeze, trace, export,
core (export after run_decompositions).  test_networks.py runs them all.
"""

from __future__ import annotations

import math
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any, Dict, List, NamedTuple, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ALL = "script freeze trace export core"
STATIC = "trace export core"  # Python that TorchScript does not take


class Program(NamedTuple):
    name: str
    make: Callable[[], nn.Module]
    args: Callable[[], tuple]
    modes: str


PROGRAMS: list[Program] = []


def program(name: str, make: Callable[[], nn.Module], args: Callable[[], tuple], modes: str = ALL) -> None:
    PROGRAMS.append(Program(name, make, args, modes))


def r(*sizes: int) -> Tensor:
    return torch.randn(*sizes)


# -- Sequences ---------------------------------------------------------------------------------------


class LuongTranslator(nn.Module):
    """Bidirectional LSTM encoder, decoder with Luong attention and input feeding, teacher forcing."""

    def __init__(self) -> None:
        super().__init__()
        self.src, self.dst = nn.Embedding(15, 6, padding_idx=0), nn.Embedding(12, 6)
        self.encoder = nn.LSTM(6, 4, bidirectional=True, batch_first=True)
        self.cell = nn.LSTMCell(14, 8)
        self.score, self.mix, self.out = nn.Linear(8, 8, bias=False), nn.Linear(16, 8), nn.Linear(8, 12)

    def forward(self, src: Tensor, dst: Tensor) -> Tuple[Tensor, Tensor]:
        memory, (h, c) = self.encoder(self.src(src))
        state, cell = torch.cat([h[0], h[1]], 1), torch.cat([c[0], c[1]], 1)
        mask = (src == 0).unsqueeze(1)
        fed = torch.zeros_like(state)
        logits: List[Tensor] = []
        maps: List[Tensor] = []
        for t in range(dst.size(1)):
            state, cell = self.cell(torch.cat([self.dst(dst[:, t]), fed], 1), (state, cell))
            weights = torch.bmm(self.score(state).unsqueeze(1), memory.transpose(1, 2)).masked_fill(mask, float("-inf"))
            weights = F.softmax(weights, 2)
            fed = torch.tanh(self.mix(torch.cat([torch.bmm(weights, memory).squeeze(1), state], 1)))
            logits.append(self.out(fed))
            maps.append(weights.squeeze(1))
        return torch.stack(logits, 1), torch.stack(maps, 1)


program("luong", LuongTranslator, lambda: (torch.tensor([[3, 4, 5, 0], [7, 8, 9, 2]]), torch.randint(0, 12, (2, 5))))


class BeamSearch(nn.Module):
    """Beam search over a GRU language model: topk over beams, gathers, early stop."""

    def __init__(self, beams: int = 3) -> None:
        super().__init__()
        self.embed, self.cell, self.out = nn.Embedding(11, 8), nn.GRUCell(8, 8), nn.Linear(8, 11)
        self.beams, self.end = beams, 2

    def forward(self, start: int, limit: int) -> Tuple[List[List[int]], Tensor]:
        k = self.beams
        state = torch.zeros(1, 8)
        token = torch.full([1], start, dtype=torch.long)
        scores = torch.zeros(1)
        sequences: List[List[int]] = [[start]]
        done: List[Tuple[float, List[int]]] = []
        for step in range(limit):
            state = self.cell(self.embed(token), state)
            logs = F.log_softmax(self.out(state), -1) + scores.unsqueeze(1)
            best, at = logs.flatten().topk(k)
            parents = torch.div(at, logs.size(1), rounding_mode="floor")
            token = at % logs.size(1)
            scores = best
            state = state[parents]
            grown: List[List[int]] = []
            for i in range(k):
                sequence = sequences[int(parents[i])] + [int(token[i])]
                if int(token[i]) == self.end:
                    done.append((float(best[i]) / len(sequence), sequence))
                    scores[i] = float("-inf")
                grown.append(sequence)
            sequences = grown
            if len(done) >= 2:
                break
        done.sort(reverse=True)
        return sequences + [x[1] for x in done], scores


program("beam_search", BeamSearch, lambda: (1, 6), "script freeze")


class CRF(nn.Module):
    """Linear chain CRF: the partition function by logsumexp, the best path by Viterbi."""

    def __init__(self, tags: int = 5) -> None:
        super().__init__()
        self.emit = nn.LSTM(4, 6, batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, tags)
        self.trans, self.first = nn.Parameter(r(tags, tags)), nn.Parameter(r(tags))

    def forward(self, x: Tensor, tags: Tensor) -> Tuple[Tensor, Tensor, List[List[int]]]:
        e = self.head(self.emit(x)[0])
        total = self.first + e[:, 0]
        gold = self.first[tags[:, 0]] + e[:, 0].gather(1, tags[:, :1]).squeeze(1)
        best = total
        back: List[Tensor] = []
        for t in range(1, x.size(1)):
            total = torch.logsumexp(total.unsqueeze(2) + self.trans, 1) + e[:, t]
            gold = gold + self.trans[tags[:, t - 1], tags[:, t]] + e[:, t].gather(1, tags[:, t : t + 1]).squeeze(1)
            values, at = (best.unsqueeze(2) + self.trans).max(1)
            best = values + e[:, t]
            back.append(at)
        paths: List[List[int]] = []
        for b in range(x.size(0)):
            tag = int(best[b].argmax())
            path = [tag]
            for t in range(len(back) - 1, -1, -1):
                tag = int(back[t][b][tag])
                path.insert(0, tag)
            paths.append(path)
        return torch.logsumexp(total, 1) - gold, best, paths


program("crf", CRF, lambda: (r(2, 6, 4), torch.randint(0, 5, (2, 6))), "script freeze")


class CausalBlock(nn.Module):
    def __init__(self, n_in: int, n_out: int, dilation: int) -> None:
        super().__init__()
        self.pad = 2 * dilation
        self.conv1 = torch.nn.utils.parametrizations.weight_norm(nn.Conv1d(n_in, n_out, 3, dilation=dilation))
        self.conv2 = nn.Conv1d(n_out, n_out, 3, dilation=dilation)
        self.skip = nn.Conv1d(n_in, n_out, 1) if n_in != n_out else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.conv1(F.pad(x, (self.pad, 0))))
        return F.relu(F.relu(self.conv2(F.pad(y, (self.pad, 0)))) + self.skip(x))


program("tcn", lambda: nn.Sequential(CausalBlock(3, 6, 1), CausalBlock(6, 6, 2), CausalBlock(6, 4, 4)), lambda: (r(2, 3, 20),), STATIC)


class GatedWave(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Conv1d(1, 6, 1)
        self.filters = nn.ModuleList([nn.Conv1d(6, 6, 2, dilation=2**i) for i in range(4)])
        self.gates = nn.ModuleList([nn.Conv1d(6, 6, 2, dilation=2**i) for i in range(4)])
        self.skips = nn.ModuleList([nn.Conv1d(6, 8, 1) for _ in range(4)])
        self.ends = nn.Sequential(nn.ReLU(), nn.Conv1d(8, 8, 1), nn.ReLU(), nn.Conv1d(8, 5, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.start(x)
        total = torch.zeros(1)
        for i, (f, g, s) in enumerate(zip(self.filters, self.gates, self.skips)):
            p = F.pad(x, [1 << i, 0])
            y = torch.tanh(f(p)) * torch.sigmoid(g(p))
            total = total + s(y)
            x = x + y
        return self.ends(total)


program("gated_wave", GatedWave, lambda: (r(2, 1, 24),))


class Decoder(nn.Module):
    """nn.TransformerDecoder with causal and padding masks."""

    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        layer = nn.TransformerDecoderLayer(16, 4, 32, batch_first=True, norm_first=norm_first, activation="gelu")
        self.decoder = nn.TransformerDecoder(layer, 2, nn.LayerNorm(16))
        self.out = nn.Linear(16, 20)

    def forward(self, tokens: Tensor, memory: Tensor, memory_padding: Tensor) -> Tensor:
        n = tokens.size(1)
        mask = torch.triu(torch.full((n, n), float("-inf")), 1)
        y = self.decoder(self.embed(tokens) * 4.0, memory, tgt_mask=mask, memory_key_padding_mask=memory_padding)
        return self.out(y)


for first in (False, True):
    program(f"decoder_{'pre' if first else 'post'}_norm", lambda f=first: Decoder(f),
            lambda: (torch.randint(0, 20, (2, 5)), r(2, 7, 16), torch.tensor([[False] * 7, [False] * 5 + [True] * 2])), "script freeze trace")
program("transformer", lambda: nn.Transformer(16, 4, 2, 2, 32, batch_first=True), lambda: (r(2, 6, 16), r(2, 4, 16)))
program("encoder_fast_path", lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2),
        lambda: (r(2, 6, 16),))


class RotaryAttention(nn.Module):
    """Grouped-query attention with rotary positions, RMS norm, SwiGLU and a KV cache."""

    def __init__(self, width: int = 16, heads: int = 4, kv: int = 2) -> None:
        super().__init__()
        self.heads, self.kv, self.dim = heads, kv, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, self.dim * n, bias=False) for n in (heads, kv, kv))
        self.o = nn.Linear(width, width, bias=False)
        self.up, self.gate, self.down = nn.Linear(width, 40), nn.Linear(width, 40), nn.Linear(40, width)
        self.register_buffer("freq", 1.0 / 10000.0 ** (torch.arange(0, self.dim, 2).float() / self.dim))

    def rotate(self, x: Tensor, start: int) -> Tensor:
        at = torch.arange(start, start + x.size(2), dtype=torch.float)
        angle = torch.outer(at, self.freq)
        cos, sin = torch.cos(angle), torch.sin(angle)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    def forward(self, x: Tensor, past_k: Tensor, past_v: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        b, n, _ = x.shape
        start = past_k.size(2)
        y = self.norm1(x)
        q = self.rotate(self.q(y).view(b, n, self.heads, self.dim).transpose(1, 2), start)
        k = self.rotate(self.k(y).view(b, n, self.kv, self.dim).transpose(1, 2), start)
        v = self.v(y).view(b, n, self.kv, self.dim).transpose(1, 2)
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        seen = torch.ones(n, start + n, dtype=torch.bool).tril(start)
        many = self.heads // self.kv
        a = F.scaled_dot_product_attention(q, k.repeat_interleave(many, 1), v.repeat_interleave(many, 1), attn_mask=seen)
        x = x + self.o(a.transpose(1, 2).reshape(b, n, -1))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), k, v


program("llama_block", RotaryAttention, lambda: (r(2, 3, 16), r(2, 2, 5, 4), r(2, 2, 5, 4)))


class SelectiveScan(nn.Module):
    """Mamba's selective state space: a sequential scan with input-dependent steps."""

    def __init__(self, width: int = 6, state: int = 4) -> None:
        super().__init__()
        self.inner = nn.Linear(width, 2 * width)
        self.conv = nn.Conv1d(width, width, 3, groups=width, padding=2)
        self.step, self.b, self.c = nn.Linear(width, width), nn.Linear(width, state), nn.Linear(width, state)
        self.log_a = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(width, 1))
        self.d, self.out = nn.Parameter(torch.ones(width)), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.inner(x).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., : x.size(1)].transpose(1, 2))
        delta = F.softplus(self.step(u))
        decay = torch.exp(delta.unsqueeze(-1) * -torch.exp(self.log_a))
        fed = (delta * u).unsqueeze(-1) * self.b(u).unsqueeze(2)
        c = self.c(u)
        h = torch.zeros_like(fed[:, 0])
        out: List[Tensor] = []
        for t in range(x.size(1)):
            h = decay[:, t] * h + fed[:, t]
            out.append((h * c[:, t].unsqueeze(1)).sum(-1))
        return self.out((torch.stack(out, 1) + u * self.d) * F.silu(gate))


program("selective_scan", SelectiveScan, lambda: (r(2, 7, 6),))


class LongConvolution(nn.Module):
    """Hyena: an implicit filter as long as the sequence, applied through FFT."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.project = nn.Linear(width, 3 * width)
        self.filter = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, width))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n = x.size(1)
        t = torch.linspace(0, 1, n).unsqueeze(1)
        k = self.filter(torch.cat([t, torch.sin(6.0 * t), torch.cos(6.0 * t)], 1)) * torch.exp(-3.0 * t)
        q, v, g = self.project(x).split(x.size(2), 2)
        y = torch.fft.irfft(torch.fft.rfft(q * v, 2 * n, 1) * torch.fft.rfft(k, 2 * n, 0), 2 * n, 1)[:, :n]
        return self.out(y * torch.sigmoid(g))


program("hyena", LongConvolution, lambda: (r(2, 9, 4),))


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(3, 5, num_layers=2, bidirectional=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        y, h = self.rnn(packed)
        padded, n = nn.utils.rnn.pad_packed_sequence(y, batch_first=True, padding_value=-1.0)
        return padded, n, h


program("packed_gru", Packed, lambda: (r(6, 3, 3), torch.tensor([3, 6, 2])), "script freeze")


class Projected(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 6, 2, proj_size=3, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        return self.rnn(x)


program("projected_lstm", Projected, lambda: (r(2, 5, 4),))


class Speech(nn.Module):
    """DeepSpeech: spectrogram, 2-d convolutions, recurrent layers, CTC loss and greedy decoding."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))
        self.conv = nn.Sequential(nn.Conv2d(1, 4, 3, (2, 1), 1), nn.BatchNorm2d(4), nn.Hardtanh(0.0, 20.0))
        self.rnn = nn.GRU(20, 8, bidirectional=True)
        self.out = nn.Linear(16, 6)

    def forward(self, wave: Tensor, target: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        s = torch.stft(wave, 16, 8, window=self.window, return_complex=True).abs().clamp(min=1e-5).log()
        y = self.conv(s.unsqueeze(1))
        y = y.permute(3, 0, 1, 2).flatten(2)
        logs = F.log_softmax(self.out(self.rnn(y)[0]), 2)
        n = torch.full((wave.size(0),), logs.size(0), dtype=torch.long)
        m = torch.full((wave.size(0),), target.size(1), dtype=torch.long)
        return F.ctc_loss(logs, target, n, m, zero_infinity=True), logs, logs.argmax(2)


program("speech", Speech, lambda: (r(2, 128), torch.randint(1, 6, (2, 4))), "script freeze trace")

# -- Images ------------------------------------------------------------------------------------------


class WindowAttention(nn.Module):
    """Swin: windows, cyclic shift with its mask, relative position bias."""

    def __init__(self, width: int, heads: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.shift: int = shift
        self.bias = nn.Parameter(r((2 * window - 1) ** 2, heads))
        at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
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
        q, k, v = self.qkv(self.windows(y)).view(-1, area, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
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
        y = y.view(b, h // self.window, w // self.window, self.window, self.window, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        if self.shift > 0:
            y = torch.roll(y, [self.shift, self.shift], [1, 2])
        return x + y


program("swin", lambda: nn.Sequential(WindowAttention(8, 2, 4, 0), WindowAttention(8, 2, 4, 2)), lambda: (r(2, 8, 8, 8),))


class SqueezeExcite(nn.Module):
    """EfficientNet's inverted residual with squeeze and excitation."""

    def __init__(self, n: int = 6, wide: int = 12) -> None:
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(n, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.SiLU(inplace=True))
        self.depth = nn.Sequential(nn.Conv2d(wide, wide, 5, padding=2, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.Hardswish(inplace=True))
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, 3, 1), nn.ReLU6(), nn.Conv2d(3, wide, 1), nn.Hardsigmoid())
        self.project = nn.Sequential(nn.Conv2d(wide, n, 1, bias=False), nn.BatchNorm2d(n))

    def forward(self, x: Tensor) -> Tensor:
        y = self.depth(self.expand(x))
        return x + self.project(y * self.squeeze(y))


program("efficient", lambda: nn.Sequential(SqueezeExcite(), SqueezeExcite()), lambda: (r(2, 6, 9, 7),))


class ConvNeXt(nn.Module):
    def __init__(self, n: int = 6) -> None:
        super().__init__()
        self.depth, self.norm = nn.Conv2d(n, n, 7, padding=3, groups=n), nn.LayerNorm(n, eps=1e-6)
        self.up, self.down, self.scale = nn.Linear(n, 4 * n), nn.Linear(4 * n, n), nn.Parameter(torch.full((n,), 1e-1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.depth(x).permute(0, 2, 3, 1)
        return x + (self.down(F.gelu(self.up(self.norm(y)))) * self.scale).permute(0, 3, 1, 2)


program("convnext", lambda: nn.Sequential(nn.Conv2d(3, 6, 4, 4), nn.GroupNorm(1, 6), ConvNeXt(), ConvNeXt()), lambda: (r(1, 3, 16, 16),))


class ShuffleUnit(nn.Module):
    def __init__(self, n: int = 8) -> None:
        super().__init__()
        h = n // 2
        self.branch = nn.Sequential(nn.Conv2d(h, h, 1), nn.BatchNorm2d(h), nn.ReLU(), nn.Conv2d(h, h, 3, padding=1, groups=h),
                                    nn.BatchNorm2d(h), nn.Conv2d(h, h, 1), nn.LeakyReLU(0.1))
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
        self.enter, self.norm1, self.norm2 = nn.Conv2d(1, n, 3, padding=1), nn.GroupNorm(4, n), nn.GroupNorm(4, n)
        self.conv1, self.conv2 = nn.Conv2d(n, n, 3, padding=1), nn.Conv2d(n, n, 3, padding=1)
        self.shift = nn.Linear(2 * n, 2 * n)
        self.down, self.attend = nn.Conv2d(n, n, 3, 2, 1), nn.MultiheadAttention(n, 2, batch_first=True)
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
        z = z + self.attend(flat, flat, flat, need_weights=False)[0].transpose(1, 2).view(b, c, h, w)
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
        self.rest = nn.Sequential(nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False), nn.InstanceNorm2d(4, affine=True), nn.ReLU(True),
                                  nn.ConvTranspose2d(4, 3, 3, 2, 1, output_padding=1), nn.PixelShuffle(1), nn.Tanh())

    def forward(self, z: Tensor, label: Tensor) -> Tensor:
        x = self.norm(self.first(z[:, :, None, None]))
        x = F.relu(x * (1 + self.scale(label)[:, :, None, None]) + self.shift(label)[:, :, None, None])
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
        y = F.conv2d(x.reshape(1, b * c, h, n), weight.view(b * 5, c, 3, 3), padding=1, groups=b).view(b, 5, h, n)
        k = torch.outer(self.kernel, self.kernel)
        k = (k / k.sum()).expand(5, 1, 4, 4)
        y = F.conv2d(F.pad(y, [2, 1, 2, 1], mode="reflect"), k, groups=5)
        return F.leaky_relu(y + 0.1 * torch.ones(1, 1, h, n), 0.2) * math.sqrt(2)


program("style_gan", StyleBlock, lambda: (r(2, 4, 8, 8), r(2, 6)))


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ELU(), nn.Flatten(), nn.Linear(64, 8))
        self.decode = nn.Sequential(nn.Linear(4, 64), nn.ELU(), nn.Unflatten(1, (4, 4, 4)), nn.ConvTranspose2d(4, 1, 4, 2, 1), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        mean, log_var = self.encode(x).chunk(2, 1)
        z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        y = self.decode(z)
        loss = F.binary_cross_entropy(y, x, reduction="sum") - 0.5 * torch.sum(1 + log_var - mean.pow(2) - log_var.exp())
        return y, loss


program("vae", VAE, lambda: (torch.rand(2, 1, 8, 8),))


class VectorQuantizer(nn.Module):
    """VQ-VAE: nearest codes, straight-through estimate, perplexity of the codes."""

    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Embedding(7, 3)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        flat = x.permute(0, 2, 3, 1).reshape(-1, 3)
        far = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codes.weight.t() + self.codes.weight.pow(2).sum(1)
        at = far.argmin(1)
        q = self.codes(at).view(x.size(0), x.size(2), x.size(3), 3).permute(0, 3, 1, 2)
        used = F.one_hot(at, 7).float().mean(0)
        return x + (q - x).detach(), at, torch.exp(-(used * torch.log(used + 1e-10)).sum())


program("vq_vae", VectorQuantizer, lambda: (r(2, 3, 4, 4),))


class SpatialTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.locate = nn.Sequential(nn.Conv2d(1, 2, 5), nn.MaxPool2d(2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(50, 6))

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
        self.gate, self.new = nn.Conv2d(8 + 11, 16, 3, padding=1), nn.Conv2d(8 + 11, 8, 3, padding=1)
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
            around = torch.stack(torch.meshgrid(torch.linspace(-1, 1, 3), torch.linspace(-1, 1, 3), indexing="ij"), -1)
            points = at.permute(0, 2, 3, 1).reshape(n * h * w, 1, 1, 2) + around
            points = 2 * points / torch.tensor([w - 1.0, h - 1.0]) - 1
            near = F.grid_sample(volume, points, align_corners=True).view(n, h, w, 9).permute(0, 3, 1, 2)
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
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.Mish(), nn.MaxPool2d(5, 1, 2), nn.Conv2d(8, 2 * 7, 3, 2, 1))
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
                at = (yy.clamp(0, h - 1) * w + xx.clamp(0, w - 1)).long().view(n, 1, -1).expand(n, c, -1)
                total = total + x.flatten(2).gather(2, at).view(n, c, 9, h, w) * (weight * inside).unsqueeze(1)
        return torch.einsum("nchw,oc->nohw", total.reshape(n, c * 9, h, w), self.weight)


program("deformable_conv", DeformableConv, lambda: (r(2, 2, 5, 6),))


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.PReLU(4), nn.AvgPool2d(2), nn.Flatten(), nn.LazyLinear(6))
        self.body(torch.zeros(1, 1, 10, 10))

    def forward(self, a: Tensor, p: Tensor, n: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        x, y, z = (F.normalize(self.body(t), dim=1) for t in (a, p, n)) if not torch.jit.is_scripting() else (a, p, n)
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
        self.body = nn.Sequential(nn.Conv2d(1, 8, 5, padding=2, padding_mode="replicate"), nn.Softplus(), nn.Conv2d(8, 4, 3, padding=1, padding_mode="circular"))
        self.up = nn.PixelShuffle(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.body(x)) + F.interpolate(x, scale_factor=2.0, mode="bicubic", align_corners=False)


program("super_resolution", SuperResolution, lambda: (r(1, 1, 6, 7),))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, 4)
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.tokens = nn.Sequential(nn.Linear(16, 12), nn.GELU(approximate="tanh"), nn.Linear(12, 16))
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
        self.block, self.out = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True), nn.Linear(8, 12)

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
        return F.fold(y.transpose(1, 2), [6, 6], 2, stride=2), (((y - x) ** 2).mean(-1) * mask).sum() / mask.sum()


program("masked_autoencoder", MaskedAutoencoder, lambda: (r(2, 3, 6, 6),))


class Segmenter(nn.Module):
    """Atrous pyramid pooling, dice and cross entropy losses over pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, 2, 1)
        self.branches = nn.ModuleList([nn.Conv2d(6, 4, 3, padding=d, dilation=d) for d in (1, 2, 3)])
        self.pool, self.out = nn.Conv2d(6, 4, 1), nn.Conv2d(16, 3, 1)

    def forward(self, x: Tensor, target: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        y = F.elu(self.stem(x))
        parts = [F.relu(b(y)) for b in self.branches]
        whole = self.pool(F.adaptive_avg_pool2d(y, [1, 1]))
        parts.append(F.interpolate(whole, size=y.shape[2:], mode="bilinear", align_corners=False))
        logits = F.interpolate(self.out(torch.cat(parts, 1)), size=x.shape[2:], mode="bilinear", align_corners=True)
        hot = F.one_hot(target.clamp(min=0), 3).permute(0, 3, 1, 2).float()
        p = logits.softmax(1)
        dice = 1 - (2 * (p * hot).sum([2, 3]) + 1) / (p.sum([2, 3]) + hot.sum([2, 3]) + 1)
        return logits, dice.mean(), F.cross_entropy(logits, target, weight=torch.tensor([1.0, 2.0, 0.5]), ignore_index=-1, label_smoothing=0.1)


program("segmenter", Segmenter, lambda: (r(2, 3, 12, 12), torch.randint(-1, 3, (2, 12, 12))))

# -- Graphs, points, tables --------------------------------------------------------------------------


class GraphAttention(nn.Module):
    """GAT over an edge list: softmax per target node by scatter_reduce and index_add."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.left, self.right = nn.Linear(5, 8, bias=False), nn.Parameter(r(2, 4)), nn.Parameter(r(2, 4))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        n = x.size(0)
        h = self.project(x).view(n, 2, 4)
        src, dst = edges[0], edges[1]
        e = F.leaky_relu((h * self.left).sum(-1)[src] + (h * self.right).sum(-1)[dst], 0.2)
        at = dst.unsqueeze(1).expand(-1, 2)
        top = torch.full((n, 2), float("-inf")).scatter_reduce(0, at, e, "amax")
        e = torch.exp(e - top[dst])
        total = torch.zeros(n, 2).index_add(0, dst, e)
        a = e / (total[dst] + 1e-9)
        return F.elu(torch.zeros(n, 2, 4).index_add(0, dst, h[src] * a.unsqueeze(-1)).flatten(1))


EDGES = torch.tensor([[0, 1, 2, 3, 4, 0, 2, 4], [1, 2, 3, 4, 0, 2, 4, 1]])
program("graph_attention", GraphAttention, lambda: (r(5, 5), EDGES))


class GraphConv(nn.Module):
    """GCN with degrees by scatter_add, and pooling by graph with scatter_reduce of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 6)

    def propagate(self, x: Tensor, edges: Tensor) -> Tensor:
        n = x.size(0)
        degree = torch.ones(n).scatter_add(0, edges[1], torch.ones(edges.size(1)))
        norm = degree.rsqrt()[edges[0]] * degree.rsqrt()[edges[1]]
        return (x / degree.unsqueeze(1)).index_add(0, edges[1], x[edges[0]] * norm.unsqueeze(1))

    def forward(self, x: Tensor, edges: Tensor, graph: Tensor) -> Tensor:
        x = F.relu(self.propagate(self.a(x), edges))
        x = self.propagate(self.b(x), edges)
        at = graph.unsqueeze(1).expand(-1, 6)
        out: List[Tensor] = []
        zero = torch.zeros(2, 6)
        out.append(zero.scatter_reduce(0, at, x, "sum", include_self=False))
        out.append(zero.scatter_reduce(0, at, x, "mean", include_self=False))
        out.append(zero.scatter_reduce(0, at, x, "amax", include_self=False))
        out.append(zero.scatter_reduce(0, at, x, "amin", include_self=True))
        return torch.cat(out, 1)


program("graph_conv", GraphConv, lambda: (r(5, 4), EDGES, torch.tensor([0, 0, 1, 1, 1])))


class PointNet(nn.Module):
    """Shared MLPs, farthest point sampling, ball query by cdist, max pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 8, 1))
        self.align = nn.Linear(8, 9)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        n, k, _ = x.shape
        far = torch.full((n, k), 1e10)
        last = torch.zeros(n, dtype=torch.long)
        picked: List[Tensor] = []
        rows = torch.arange(n)
        for _ in range(4):
            picked.append(last)
            centre = x[rows, last].unsqueeze(1)
            far = torch.minimum(far, ((x - centre) ** 2).sum(-1))
            last = far.max(-1)[1]
        at = torch.stack(picked, 1)
        centres = torch.gather(x, 1, at.unsqueeze(-1).expand(-1, -1, 3))
        near = torch.cdist(centres, x).topk(3, largest=False)[1]
        groups = torch.gather(x.unsqueeze(1).expand(-1, 4, -1, -1), 2, near.unsqueeze(-1).expand(-1, -1, -1, 3)) - centres.unsqueeze(2)
        turn = self.align(self.mlp(x.transpose(1, 2)).max(2)[0]).view(n, 3, 3) + torch.eye(3)
        y = self.mlp((groups.flatten(1, 2) @ turn).transpose(1, 2))
        return y.view(n, 8, 4, 3).amax(-1), at


program("point_net", PointNet, lambda: (r(2, 9, 3),))


class MixtureOfExperts(nn.Module):
    """Top-2 routing with masks, index_add back, and a load balancing loss."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(6, 4)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 6)) for _ in range(4)])

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        p = self.gate(x).softmax(-1)
        weight, at = p.topk(2, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            row, slot = torch.where(at == i)
            if row.numel() > 0:
                out.index_add_(0, row, expert(x[row]) * weight[row, slot].unsqueeze(1))
        share = F.one_hot(at[:, 0], 4).float().mean(0)
        return out, 4 * (share * p.mean(0)).sum()


program("mixture_of_experts", MixtureOfExperts, lambda: (r(7, 6),), "script freeze")


class TabTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.columns = nn.ModuleDict({"a": nn.Embedding(5, 4), "b": nn.Embedding(3, 4)})
        self.numbers = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 4))
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
        self.bag = nn.EmbeddingBag(10, 4, mode="mean")
        self.out = nn.Bilinear(4, 4, 2)

    def forward(self, tables: Dict[str, Tensor], numbers: Tensor, words: Tensor, offsets: Tensor) -> Tensor:
        parts: List[Tensor] = []
        for name, column in self.columns.items():
            parts.append(column(tables[name]))
        parts.append(self.numbers(numbers))
        y = self.layer(torch.stack(parts, 1))
        return self.out(y.mean(1), self.bag(words, offsets))


program("tab_transformer", TabTransformer, lambda: ({"a": torch.tensor([1, 4]), "b": torch.tensor([0, 2])}, r(2, 3), torch.tensor([1, 2, 9, 4]),
                                                     torch.tensor([0, 3])), "script export")


class FactorizationMachine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.v, self.w, self.cross = nn.Embedding(30, 4), nn.EmbeddingBag(30, 1, mode="sum"), nn.Parameter(r(12, 12))

    def forward(self, x: Tensor) -> Tensor:
        e = self.v(x)
        pairs = 0.5 * (e.sum(1).square() - e.square().sum(1)).sum(1, keepdim=True)
        flat = e.flatten(1)
        crossed = flat * (flat @ self.cross) + flat
        i, j = torch.triu_indices(3, 3, 1).unbind(0)
        inner = (e[:, i] * e[:, j]).sum(-1)
        return torch.sigmoid(self.w(x) + pairs + crossed.sum(1, keepdim=True) + inner.sum(1, keepdim=True))


program("factorization_machine", FactorizationMachine, lambda: (torch.randint(0, 30, (4, 3)),))


class NeuralODE(nn.Module):
    """Runge-Kutta steps with step size control in a while loop."""

    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, y: Tensor, end: float) -> Tuple[Tensor, int]:
        t, h, steps = 0.0, 0.3, 0
        while t < end and steps < 50:
            h = min(h, end - t)
            k1 = self.f(y)
            k2 = self.f(y + h * k1)
            error = float((k2 - k1).abs().max()) * h / 2
            if error < 0.05:
                y = y + h * (k1 + k2) / 2
                t += h
            h = h * min(2.0, max(0.3, 0.9 * math.sqrt(0.05 / (error + 1e-12))))
            steps += 1
        return y, steps


program("neural_ode", NeuralODE, lambda: (r(2, 3), 1.0), "script freeze")


class Policy(nn.Module):
    """Actor-critic over categorical actions: sampling with multinomial, log probabilities, entropy, advantages."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.act, self.value = nn.GRUCell(4, 6), nn.Linear(6, 3), nn.Linear(6, 1)

    def forward(self, seen: Tensor, rewards: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        h = torch.zeros(seen.size(1), 6)
        logs: List[Tensor] = []
        values: List[Tensor] = []
        for t in range(seen.size(0)):
            h = self.body(seen[t], h)
            p = F.log_softmax(self.act(h), -1)
            action = torch.multinomial(p.exp(), 1)
            logs.append(p.gather(1, action).squeeze(1))
            values.append(self.value(h).squeeze(1))
        value = torch.stack(values)
        gain = torch.zeros_like(value[0])
        gains: List[Tensor] = []
        for t in range(seen.size(0) - 1, -1, -1):
            gain = rewards[t] + 0.9 * gain
            gains.append(gain)
        returns = torch.stack(gains).flip(0)
        better = returns - value
        better = (better - better.mean()) / (better.std() + 1e-6)
        return returns, F.smooth_l1_loss(value, returns), -(torch.stack(logs) * better).mean()


program("policy", Policy, lambda: (r(4, 2, 4), r(4, 2)), "script freeze trace")


class Glow(nn.Module):
    """Normalising flow: actnorm, LU-parametrised mixing, affine coupling, log determinants."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.bias = nn.Parameter(torch.rand(4) + 0.5), nn.Parameter(r(4))
        self.lower, self.upper, self.diagonal = nn.Parameter(r(4, 4)), nn.Parameter(r(4, 4)), nn.Parameter(r(4))
        self.net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        x = (x + self.bias) * self.scale
        low = self.lower.tril(-1) + torch.eye(4)
        w = low @ (self.upper.triu(1) + torch.diag(self.diagonal))
        x = x @ w
        a, b = x.chunk(2, 1)
        s, t = self.net(a).chunk(2, 1)
        s = torch.sigmoid(s + 2.0)
        log_det = self.scale.log().sum() + self.diagonal.abs().log().sum() + s.log().sum(1)
        y = torch.cat([a, (b + t) * s], 1)
        return y, log_det - 0.5 * (y**2 + math.log(2 * math.pi)).sum(1)


program("glow", Glow, lambda: (r(3, 4),))


class Kalman(nn.Module):
    """A filter in linear algebra: solve, cholesky, inverse, log determinant."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.c = nn.Parameter(torch.eye(3) + 0.1 * r(3, 3)), nn.Parameter(r(2, 3))

    def forward(self, seen: Tensor) -> Tuple[Tensor, Tensor]:
        mean, cov = torch.zeros(3), torch.eye(3)
        total = torch.zeros(())
        out: List[Tensor] = []
        for t in range(seen.size(0)):
            mean, cov = self.a @ mean, self.a @ cov @ self.a.t() + 0.1 * torch.eye(3)
            s = self.c @ cov @ self.c.t() + 0.2 * torch.eye(2)
            gain = torch.linalg.solve(s, self.c @ cov).t()
            left = seen[t] - self.c @ mean
            total = total - 0.5 * (left @ torch.linalg.solve(s, left) + torch.logdet(s))
            mean = mean + gain @ left
            cov = (torch.eye(3) - gain @ self.c) @ cov
            out.append(mean)
        return torch.stack(out), total


program("kalman", Kalman, lambda: (r(4, 2),))


class Losses(nn.Module):
    """Each loss of torch.nn."""

    def __init__(self) -> None:
        super().__init__()
        self.smooth, self.huber = nn.SmoothL1Loss(beta=0.5), nn.HuberLoss(delta=0.7)
        self.poisson, self.kl = nn.PoissonNLLLoss(full=True), nn.KLDivLoss(reduction="batchmean", log_target=True)
        self.hinge, self.cosine, self.soft = nn.HingeEmbeddingLoss(), nn.CosineEmbeddingLoss(margin=0.2), nn.SoftMarginLoss()
        self.multi = nn.MultiMarginLoss(p=2)
        self.rank = nn.MarginRankingLoss(margin=0.1)

    def forward(self, a: Tensor, b: Tensor, sign: Tensor, label: Tensor) -> List[Tensor]:
        p = torch.sigmoid(a)
        return [self.smooth(a, b), self.huber(a, b), self.poisson(a, b.abs().round()),
                self.kl(F.log_softmax(a, 1), F.log_softmax(b, 1)), self.hinge(a, sign), self.cosine(a, b, sign[:, 0]), self.soft(a, sign),
                self.multi(a, label), self.rank(a, b, sign), F.l1_loss(a, b), F.mse_loss(a, b),
                F.binary_cross_entropy_with_logits(a, p, pos_weight=torch.full([4], 2.0)), F.nll_loss(F.log_softmax(a, 1), label)]


program("losses", Losses, lambda: (r(3, 4), r(3, 4), torch.sign(r(3, 4)), torch.tensor([0, 3, 1])))

# -- Running -----------------------------------------------------------------------------------------


def save(p: Program, module: nn.Module, args: tuple, mode: str, path: str) -> Callable:
    """Make the archive; what PyTorch would run."""
    if mode in ("export", "core"):
        exported = torch.export.export(module, args, strict=False)
        exported = exported.run_decompositions() if mode == "core" else exported
        torch.export.save(exported, path)
        return exported.module()
    made = torch.jit.trace(module, args, check_trace=False) if mode == "trace" else torch.jit.script(module)
    made = torch.jit.freeze(made) if mode == "freeze" else made
    torch.jit.save(made, path)
    return torch.jit.load(path)


def leaves(value: Any) -> list:
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def difference(got: Any, want: Any) -> str:
    """What differs, or ''."""
    a, b = leaves(got), leaves(want)
    if len(a) != len(b):
        return f"{len(a)} results, expected {len(b)}"
    for i, (x, y) in enumerate(zip(a, b)):
        if not isinstance(y, Tensor):
            if x != y:
                return f"result {i}: {x!r}, expected {y!r}"
        elif x.dtype != y.dtype or x.shape != y.shape:
            return f"result {i}: {x.dtype} {tuple(x.shape)}, expected {y.dtype} {tuple(y.shape)}"
        elif not torch.allclose(x, y, rtol=2e-4, atol=2e-5, equal_nan=True):
            return f"result {i}: differs by up to {(x - y).abs().max().item():.3g}"
    return ""


def check(p: Program, mode: str, folder: str) -> str:
    """'' when rushlight gives what PyTorch does."""
    import rushlight

    torch.manual_seed(7)
    module = p.make().eval()
    args = p.args()
    path = os.path.join(folder, f"{p.name}.{mode}.pt" + ("2" if mode in ("export", "core") else ""))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        theirs = save(p, module, args, mode, path)
        torch.manual_seed(8)
        want = theirs(*args)
    ours = rushlight.load(path)
    torch.manual_seed(8)
    return difference(ours(*args), want)


def main() -> int:
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for p in PROGRAMS:
            if not re.search(pattern, p.name):
                continue
            for mode in p.modes.split():
                try:
                    why = check(p, mode, folder)
                except Exception as error:
                    why = f"{type(error).__name__}: {str(error).strip()[-700:]}"
                bad += bool(why)
                print(f"{p.name}.{mode}: {why or 'agrees'}", flush=True)
    print(f"{bad} disagree")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
