"""Modules, and statements around their calls."""

import math
from collections import OrderedDict
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from script_programs import calls
from torch import Tensor, nn
from torch.jit import Final

# -- Modules --------------------------------------------------------------------------------------------------------------


class Blocks(nn.Module):
    scale: Final[float]

    def __init__(self) -> None:
        super().__init__()
        self.scale = 0.5
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.heads = nn.ModuleDict(
            OrderedDict(
                [("cls", nn.Linear(4, 2)), ("box", nn.Sequential(nn.Linear(4, 3), nn.Tanh()))]
            )
        )
        self.act = nn.ReLU()
        self.gates = nn.ParameterList([nn.Parameter(torch.ones(4) * i) for i in range(3)])

    def forward(self, x: Tensor, which: str):
        for i, layer in enumerate(self.layers):
            x = self.act(layer(x)) * self.scale + i
        for layer in self.layers[1:]:
            x = x + layer(x)
        out: Dict[str, Tensor] = {}
        for name, head in self.heads.items():
            if name == which or which == "all":
                out[name] = head(x)
        last = self.layers[-1](x)
        for g in self.gates:
            last = last * g
        return out, last, len(self.layers), "cls" in self.heads, [k for k in self.heads.keys()]


calls((torch.ones(2, 4), "cls"), (torch.ones(1, 4), "all"), (torch.zeros(1, 4), "none"))(Blocks)


class Counter(nn.Module):
    total: int
    history: List[float]
    last: Optional[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.history = torch.jit.annotate(List[float], [])
        self.names = torch.jit.Attribute({}, Dict[str, int])
        self.register_buffer("running", torch.zeros(2))
        self.last = None

    @property
    def mean(self) -> float:
        return sum(self.history) / max(len(self.history), 1)

    @torch.jit.export
    def reset(self) -> None:
        self.total = 0
        self.history.clear()
        self.running.zero_()

    @torch.jit.unused
    def debug(self, x: Tensor) -> Tensor:
        return x

    @torch.jit.ignore
    def hidden(self) -> int:
        return 5

    def forward(self, x: Tensor, name: str):
        self.total += 1
        self.history.append(x.sum().item())
        self.names[name] = self.names.get(name, 0) + 1
        self.running = self.running * 0.5 + x
        previous = self.last
        self.last = x
        if self.total > 100:
            x = self.debug(x)
        changed = previous is None or not torch.equal(previous, x)
        return self.total, self.mean, self.names, self.running, changed


calls(
    (torch.tensor([1.0, 2.0]), "a"),
    (torch.tensor([1.0, 2.0]), "b"),
    (torch.tensor([3.0, 2.0]), "a"),
)(Counter)


class Overloads(nn.Module):
    @torch.jit._overload_method
    def go(self, x: int) -> int:
        pass

    @torch.jit._overload_method
    def go(self, x: Tensor) -> Tensor:
        pass

    def go(self, x):
        return x + 1

    def forward(self, x: Tensor, n: int):
        return self.go(x), self.go(n)


calls((torch.zeros(2), 3))(Overloads)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.heads = 2

    def split(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        return x.view(b, t, self.heads, c // self.heads).transpose(1, 2)

    def forward(
        self, x: Tensor, mask: Optional[Tensor] = None, cache: Optional[Dict[str, Tensor]] = None
    ):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        if cache is not None:
            if "k" in cache:
                k = torch.cat([cache["k"], k], dim=2)
                v = torch.cat([cache["v"], v], dim=2)
            cache["k"] = k
            cache["v"] = v
        w = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            w = w.masked_fill(mask == 0, float("-inf"))
        out = (F.softmax(w, dim=-1) @ v).transpose(1, 2).reshape(x.size(0), x.size(1), -1)
        return out, cache


calls(
    (torch.ones(1, 3, 6),),
    (torch.linspace(0, 1, 12).view(1, 2, 6), torch.tril(torch.ones(2, 2)), {}),
    (torch.ones(1, 1, 6), None, {"k": torch.ones(1, 2, 4, 3), "v": torch.ones(1, 2, 4, 3)}),
)(Attention)


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)
        self.drop = nn.Dropout(0.5)

    def forward(
        self, xs: Tensor, state: Optional[Tuple[Tensor, Tensor]] = None
    ) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        if state is None:
            state = (torch.zeros(xs.size(1), 4), torch.zeros(xs.size(1), 4))
        outs: List[Tensor] = []
        for x in xs.unbind(0):
            h, c = self.cell(self.drop(x), state)
            state = (h, c)
            outs.append(h)
        return torch.stack(outs), state


calls((torch.ones(3, 2, 3),), (torch.zeros(1, 1, 3), (torch.ones(1, 4), torch.ones(1, 4))))(Lstm)


class Parallel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)

    def work(self, x: Tensor, k: int) -> Tensor:
        return self.a(x) * k

    def forward(self, x: Tensor, n: int):
        futures: List[torch.jit.Future[Tensor]] = []
        for i in range(n):
            futures.append(torch.jit.fork(self.work, x, i))
        out = [torch.jit.wait(f) for f in futures]
        last = torch.jit.fork(self.work, x, n)
        return out, last.wait()


calls((torch.ones(2, 3), 3), (torch.ones(1, 3), 0))(Parallel)


class Printing(nn.Module):
    def forward(self, x: Tensor, n: int):
        print("start", n, 2.5, True, None, [1, 2], {"a": 1}, (n, "t"))
        print(x)
        for i in range(n):
            print(i, "step", x.shape)
        print()
        print("tab\tquote'", str(x.sum().item()))
        return n


calls((torch.ones(2, 2), 2), (torch.zeros(0), 0))(Printing)


class Constants(nn.Module):
    limit: Final[int]
    __constants__ = ["names"]

    def __init__(self) -> None:
        super().__init__()
        self.limit = 3
        self.names = ("a", "b")

    def forward(self, n: int):
        out = 0
        for i in range(self.limit):
            out += i * n
        return out, self.names[0], math.e, torch.float32, math.pi


calls(2, 5)(Constants)


@calls((torch.ones(2), 3), (torch.zeros(1), 0))
def with_no_grad(x: Tensor, n: int):
    with torch.no_grad():
        y = x * n
        if n == 0:
            return y, False
    return y + 1, y.requires_grad


@torch.jit.script
class Logger:
    def __init__(self, lines: List[str], name: str):
        self.lines = lines
        self.name = name

    def __enter__(self) -> str:
        self.lines.append("enter " + self.name)
        return self.name

    def __exit__(self, a: Any, b: Any, c: Any) -> None:
        self.lines.append("exit " + self.name)


@calls(1, 0)
def with_own(n: int) -> List[str]:
    lines: List[str] = []
    with Logger(lines, "outer") as o:
        with Logger(lines, "inner"):
            if n == 0:
                lines.append("in " + o)
        lines.append("after")
    return lines


@calls((torch.randn(3, 4), 1), (torch.randn(2, 2), 0))
def shapes(x: Tensor, d: int):
    n, m = x.shape
    s = list(x.shape)
    s[d] = 1
    y = x.view(-1).unsqueeze(0).expand(2, n * m)
    return (
        n * m,
        s,
        y.size(),
        x.numel(),
        x.dim(),
        x.size(d),
        x.permute(1, 0).stride(),
        x.is_contiguous(),
    )
