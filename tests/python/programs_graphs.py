"""Networks of programs.py: graphs, points, tables and more."""

from __future__ import annotations

import math
from typing import Dict, List, Tuple

import torch
import torch.nn.functional as F
from programs_base import program, r
from torch import Tensor, nn


class GraphAttention(nn.Module):
    """GAT over an edge list: softmax per target node by scatter_reduce and index_add."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.left, self.right = (
            nn.Linear(5, 8, bias=False),
            nn.Parameter(r(2, 4)),
            nn.Parameter(r(2, 4)),
        )

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
        self.mlp = nn.Sequential(
            nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 8, 1)
        )
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
        groups = torch.gather(
            x.unsqueeze(1).expand(-1, 4, -1, -1), 2, near.unsqueeze(-1).expand(-1, -1, -1, 3)
        ) - centres.unsqueeze(2)
        turn = self.align(self.mlp(x.transpose(1, 2)).max(2)[0]).view(n, 3, 3) + torch.eye(3)
        y = self.mlp((groups.flatten(1, 2) @ turn).transpose(1, 2))
        return y.view(n, 8, 4, 3).amax(-1), at


program("point_net", PointNet, lambda: (r(2, 9, 3),))


class MixtureOfExperts(nn.Module):
    """Top-2 routing with masks, index_add back, and a load balancing loss."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(6, 4)
        self.experts = nn.ModuleList(
            [nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 6)) for _ in range(4)]
        )

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

    def forward(
        self, tables: Dict[str, Tensor], numbers: Tensor, words: Tensor, offsets: Tensor
    ) -> Tensor:
        parts: List[Tensor] = []
        for name, column in self.columns.items():
            parts.append(column(tables[name]))
        parts.append(self.numbers(numbers))
        y = self.layer(torch.stack(parts, 1))
        return self.out(y.mean(1), self.bag(words, offsets))


program(
    "tab_transformer",
    TabTransformer,
    lambda: (
        {"a": torch.tensor([1, 4]), "b": torch.tensor([0, 2])},
        r(2, 3),
        torch.tensor([1, 2, 9, 4]),
        torch.tensor([0, 3]),
    ),
    "script export",
)


class FactorizationMachine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.v, self.w, self.cross = (
            nn.Embedding(30, 4),
            nn.EmbeddingBag(30, 1, mode="sum"),
            nn.Parameter(r(12, 12)),
        )

    def forward(self, x: Tensor) -> Tensor:
        e = self.v(x)
        pairs = 0.5 * (e.sum(1).square() - e.square().sum(1)).sum(1, keepdim=True)
        flat = e.flatten(1)
        crossed = flat * (flat @ self.cross) + flat
        i, j = torch.triu_indices(3, 3, 1).unbind(0)
        inner = (e[:, i] * e[:, j]).sum(-1)
        return torch.sigmoid(
            self.w(x) + pairs + crossed.sum(1, keepdim=True) + inner.sum(1, keepdim=True)
        )


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
        self.lower, self.upper, self.diagonal = (
            nn.Parameter(r(4, 4)),
            nn.Parameter(r(4, 4)),
            nn.Parameter(r(4)),
        )
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
        self.poisson, self.kl = (
            nn.PoissonNLLLoss(full=True),
            nn.KLDivLoss(reduction="batchmean", log_target=True),
        )
        self.hinge, self.cosine, self.soft = (
            nn.HingeEmbeddingLoss(),
            nn.CosineEmbeddingLoss(margin=0.2),
            nn.SoftMarginLoss(),
        )
        self.multi = nn.MultiMarginLoss(p=2)
        self.rank = nn.MarginRankingLoss(margin=0.1)

    def forward(self, a: Tensor, b: Tensor, sign: Tensor, label: Tensor) -> List[Tensor]:
        p = torch.sigmoid(a)
        return [
            self.smooth(a, b),
            self.huber(a, b),
            self.poisson(a, b.abs().round()),
            self.kl(F.log_softmax(a, 1), F.log_softmax(b, 1)),
            self.hinge(a, sign),
            self.cosine(a, b, sign[:, 0]),
            self.soft(a, sign),
            self.multi(a, label),
            self.rank(a, b, sign),
            F.l1_loss(a, b),
            F.mse_loss(a, b),
            F.binary_cross_entropy_with_logits(a, p, pos_weight=torch.full([4], 2.0)),
            F.nll_loss(F.log_softmax(a, 1), label),
        ]


program("losses", Losses, lambda: (r(3, 4), r(3, 4), torch.sign(r(3, 4)), torch.tensor([0, 3, 1])))
