"""Small random programs on tensors, for guards that fail on purpose (test_guards.py).

Each has what a frame can have when it is replaced: loops with counts and conditions, branches,
`with`, forks, tuples and lists, early returns, errors, writes in place, calls that are inlined,
random numbers and an object whose attributes are set.
"""

from __future__ import annotations

import random
from collections.abc import Callable

HEAD = """\
from typing import Dict, List, Optional, Tuple
import torch

class Box:
    def __init__(self, x: torch.Tensor, n: int):
        self.x = x
        self.n = n

    def step(self, y: torch.Tensor) -> torch.Tensor:
        self.n = self.n + 1
        self.x = self.x + y.mean()
        return self.x * self.n

def halves(x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    k = x.size(0) // 2
    return x[:k + 1], x[k:]

def inner(x: torch.Tensor, n: int) -> torch.Tensor:
    if n == 5:
        raise ValueError("inner five")
    if n == 6:
        x = x.view(7, 7)
    return torch.relu(x) + n

def outer(x: torch.Tensor, n: int) -> torch.Tensor:
    y = inner(x * 2, n)
    if n > 2:
        return y - x
    return inner(y, n + 1)

"""


class Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.names = 0
        self.depth = 0

    def put(self, line: str) -> None:
        self.lines.append("    " * (self.depth + 1) + line)

    def fresh(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def tensor(self) -> str:
        """An expression of two to four rows and three columns."""
        return self.random.choice(
            (
                "a",
                "b",
                "a + b",
                "a * 2",
                "torch.relu(b)",
                "xs[0]",
                "xs[-1]",
                "pair[0]",
                "pair[1] - a",
                "box.x",
                "inner(a, m)",
                "outer(b, m)",
                "torch.cat([a, xs[0]])[:a.size(0)]",
                "b[:, :a.dim() + 1]",
                "torch.rand_like(a)",
                "torch.dropout(a, 0.5, True)",
            )
        )

    def condition(self) -> str:
        return self.random.choice(
            ("flag", "n > 2", "m == 1", "a.size(0) > 2", "bool(a.sum() > b.sum())", "len(xs) < 4")
        )

    # -- Statements

    def assign(self) -> None:
        self.put(f"{self.random.choice('ab')} = {self.tensor()}")

    def write(self) -> None:
        self.put(
            self.random.choice(
                (
                    "a = a.clone().add_(1)",
                    "xs[0].mul_(2)",
                    "a = a + 0",
                    "b[0] = 3.0",
                    "out.append(a)",
                    "xs = xs + [a + b]",
                    "pair = (b, a)",
                    "counts['k'] = counts.get('k', 0) + m",
                    "m += 1",
                    "a = box.step(b)[:, :3]",
                    "a.zero_()",
                )
            )
        )

    def sizes(self) -> None:
        kind = self.random.randrange(4)
        if kind == 0:
            self.put("h = torch.nonzero(a > b)")
            self.put("m += h.size(0) % 3")
        elif kind == 1:
            self.put("s = torch.masked_select(a, a > 0)")
            self.put("if s.numel() > 2:")
            self.put("    b = b + s[0]")
        elif kind == 2:
            self.put("u, v = halves(a)")
            self.put("a = u[:1] + v[-1:] + b")
        else:
            self.put("for x in xs:")
            self.put("    m += x.size(0) + x.dim()")

    def loop(self) -> None:
        i = self.fresh("i")
        trips = self.random.choice(("2", "3", "n", "len(xs)", "a.size(0)"))
        self.put(f"for {i} in range({trips}):")
        self.block(1, lambda: self.put(self.random.choice((f"m += {i}", f"a = a + {i}", "pass"))))
        if self.random.random() < 0.4:
            self.put(f"    if {self.condition()}:")
            self.put("        " + self.random.choice(("break", "continue")))
        self.put(f"    b = b + a * {i}")

    def until(self) -> None:
        k = self.fresh("k")
        self.put(f"{k} = 0")
        self.put(f"while {k} < 3 and {self.condition()}:")
        self.put(f"    {k} += 1")
        self.block(1)

    def branch(self) -> None:
        self.put(f"if {self.condition()}:")
        self.block(self.random.randint(1, 2))
        if self.random.random() < 0.6:
            self.put("else:")
            self.block(1)

    def leave(self) -> None:
        self.put(f"if {self.condition()} and m > 4:")
        self.put(
            "    "
            + self.random.choice(
                (
                    "return a, m, out",
                    "raise ValueError('left')",
                    "a = a.view(5, 7)",
                    "a = inner(a, 5)",
                    "a = outer(b, 6)",
                )
            )
        )

    def within(self) -> None:
        self.put("with torch.no_grad():")
        self.block(1)

    def fork(self) -> None:
        f = self.fresh("f")
        self.put(f"{f} = torch.jit.fork(inner, {self.random.choice('ab')}, m)")
        self.statement()
        self.put(f"a = torch.jit.wait({f})")

    def statement(self) -> None:
        kinds: list[Callable[[], None]] = [self.assign, self.write, self.write, self.sizes]
        if self.depth < 3:
            kinds += [self.loop, self.until, self.branch, self.branch, self.leave]
            kinds += [self.within, self.fork]
        self.random.choice(kinds)()

    def block(self, n: int, first: Callable[[], None] | None = None) -> None:
        self.depth += 1
        if first:
            first()
        for _ in range(n):
            self.statement()
        self.depth -= 1


def program(seed: int) -> str:
    """The text of a program: main(a, b, xs, n, flag) -> (tensor, int, list of tensors)."""
    w = Writer(seed)
    w.put("m = 0")
    w.put("h = 0 * a")
    w.put("out: List[torch.Tensor] = []")
    w.put("counts: Dict[str, int] = {}")
    w.put("pair = (a, b)")
    w.put("box = Box(a, 1)")
    for _ in range(w.random.randint(3, 7)):
        w.statement()
    w.put("return a + b, m + len(out) + counts.get('k', 0), out + [box.x, pair[0], xs[0]]")
    head = (
        "def main(a: torch.Tensor, b: torch.Tensor, xs: List[torch.Tensor], n: int, flag: bool) -> "
        "Tuple[torch.Tensor, int, List[torch.Tensor]]:\n"
    )
    return HEAD + head + "\n".join(w.lines) + "\n"
