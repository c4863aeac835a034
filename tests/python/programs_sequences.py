"""Networks of programs.py: sequences of tokens, sounds and states."""

from __future__ import annotations

from typing import List, Tuple

import torch
import torch.nn.functional as F
from programs_base import STATIC, program, r
from torch import Tensor, nn


class LuongTranslator(nn.Module):
    """Bidirectional LSTM encoder, decoder with Luong attention and input feeding, teacher forcing."""

    def __init__(self) -> None:
        super().__init__()
        self.src, self.dst = nn.Embedding(15, 6, padding_idx=0), nn.Embedding(12, 6)
        self.encoder = nn.LSTM(6, 4, bidirectional=True, batch_first=True)
        self.cell = nn.LSTMCell(14, 8)
        self.score, self.mix, self.out = (
            nn.Linear(8, 8, bias=False),
            nn.Linear(16, 8),
            nn.Linear(8, 12),
        )

    def forward(self, src: Tensor, dst: Tensor) -> Tuple[Tensor, Tensor]:
        memory, (h, c) = self.encoder(self.src(src))
        state, cell = torch.cat([h[0], h[1]], 1), torch.cat([c[0], c[1]], 1)
        mask = (src == 0).unsqueeze(1)
        fed = torch.zeros_like(state)
        logits: List[Tensor] = []
        maps: List[Tensor] = []
        for t in range(dst.size(1)):
            state, cell = self.cell(torch.cat([self.dst(dst[:, t]), fed], 1), (state, cell))
            weights = torch.bmm(self.score(state).unsqueeze(1), memory.transpose(1, 2)).masked_fill(
                mask, float("-inf")
            )
            weights = F.softmax(weights, 2)
            fed = torch.tanh(self.mix(torch.cat([torch.bmm(weights, memory).squeeze(1), state], 1)))
            logits.append(self.out(fed))
            maps.append(weights.squeeze(1))
        return torch.stack(logits, 1), torch.stack(maps, 1)


program(
    "luong",
    LuongTranslator,
    lambda: (torch.tensor([[3, 4, 5, 0], [7, 8, 9, 2]]), torch.randint(0, 12, (2, 5))),
)


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
            gold = (
                gold
                + self.trans[tags[:, t - 1], tags[:, t]]
                + e[:, t].gather(1, tags[:, t : t + 1]).squeeze(1)
            )
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
        self.conv1 = torch.nn.utils.parametrizations.weight_norm(
            nn.Conv1d(n_in, n_out, 3, dilation=dilation)
        )
        self.conv2 = nn.Conv1d(n_out, n_out, 3, dilation=dilation)
        self.skip = nn.Conv1d(n_in, n_out, 1) if n_in != n_out else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.conv1(F.pad(x, (self.pad, 0))))
        return F.relu(F.relu(self.conv2(F.pad(y, (self.pad, 0)))) + self.skip(x))


program(
    "tcn",
    lambda: nn.Sequential(CausalBlock(3, 6, 1), CausalBlock(6, 6, 2), CausalBlock(6, 4, 4)),
    lambda: (r(2, 3, 20),),
    STATIC,
)


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
        layer = nn.TransformerDecoderLayer(
            16, 4, 32, batch_first=True, norm_first=norm_first, activation="gelu"
        )
        self.decoder = nn.TransformerDecoder(layer, 2, nn.LayerNorm(16))
        self.out = nn.Linear(16, 20)

    def forward(self, tokens: Tensor, memory: Tensor, memory_padding: Tensor) -> Tensor:
        n = tokens.size(1)
        mask = torch.triu(torch.full((n, n), float("-inf")), 1)
        y = self.decoder(
            self.embed(tokens) * 4.0, memory, tgt_mask=mask, memory_key_padding_mask=memory_padding
        )
        return self.out(y)


for first in (False, True):
    program(
        f"decoder_{'pre' if first else 'post'}_norm",
        lambda f=first: Decoder(f),
        lambda: (
            torch.randint(0, 20, (2, 5)),
            r(2, 7, 16),
            torch.tensor([[False] * 7, [False] * 5 + [True] * 2]),
        ),
        "script freeze trace",
    )
program(
    "transformer",
    lambda: nn.Transformer(16, 4, 2, 2, 32, batch_first=True),
    lambda: (r(2, 6, 16), r(2, 4, 16)),
)
program(
    "encoder_fast_path",
    lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2),
    lambda: (r(2, 6, 16),),
)


class RotaryAttention(nn.Module):
    """Grouped-query attention with rotary positions, RMS norm, SwiGLU and a KV cache."""

    def __init__(self, width: int = 16, heads: int = 4, kv: int = 2) -> None:
        super().__init__()
        self.heads, self.kv, self.dim = heads, kv, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v = (
            nn.Linear(width, self.dim * n, bias=False) for n in (heads, kv, kv)
        )
        self.o = nn.Linear(width, width, bias=False)
        self.up, self.gate, self.down = (
            nn.Linear(width, 40),
            nn.Linear(width, 40),
            nn.Linear(40, width),
        )
        self.register_buffer(
            "freq", 1.0 / 10000.0 ** (torch.arange(0, self.dim, 2).float() / self.dim)
        )

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
        a = F.scaled_dot_product_attention(
            q, k.repeat_interleave(many, 1), v.repeat_interleave(many, 1), attn_mask=seen
        )
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
        self.step, self.b, self.c = (
            nn.Linear(width, width),
            nn.Linear(width, state),
            nn.Linear(width, state),
        )
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
        k = self.filter(torch.cat([t, torch.sin(6.0 * t), torch.cos(6.0 * t)], 1)) * torch.exp(
            -3.0 * t
        )
        q, v, g = self.project(x).split(x.size(2), 2)
        y = torch.fft.irfft(
            torch.fft.rfft(q * v, 2 * n, 1) * torch.fft.rfft(k, 2 * n, 0), 2 * n, 1
        )[:, :n]
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
        self.conv = nn.Sequential(
            nn.Conv2d(1, 4, 3, (2, 1), 1), nn.BatchNorm2d(4), nn.Hardtanh(0.0, 20.0)
        )
        self.rnn = nn.GRU(20, 8, bidirectional=True)
        self.out = nn.Linear(16, 6)

    def forward(self, wave: Tensor, target: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        s = (
            torch.stft(wave, 16, 8, window=self.window, return_complex=True)
            .abs()
            .clamp(min=1e-5)
            .log()
        )
        y = self.conv(s.unsqueeze(1))
        y = y.permute(3, 0, 1, 2).flatten(2)
        logs = F.log_softmax(self.out(self.rnn(y)[0]), 2)
        n = torch.full((wave.size(0),), logs.size(0), dtype=torch.long)
        m = torch.full((wave.size(0),), target.size(1), dtype=torch.long)
        return F.ctc_loss(logs, target, n, m, zero_infinity=True), logs, logs.argmax(2)


program("speech", Speech, lambda: (r(2, 128), torch.randint(1, 6, (2, 4))), "script freeze trace")
