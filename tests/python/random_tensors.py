"""Random programs over tensors, for comparing executors (executor_runs.py).

    python tests/python/random_tensors.py SEED      prints a program and its calls

program(seed) gives a text with a class M, whose objects have state, and the calls of its method
`run`: arguments of changing sizes, dtypes, layouts and definedness, some of which require
gradients. A program reads and writes attributes, writes in place (arguments, state, views), keeps
tensors in lists, draws random numbers, asks for sizes, forks, switches the grad mode, has dead code
that may fail, and raises. What it computes has no meaning and is often an error: each executor has
to give the same.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import NamedTuple

HEAD = """from typing import List, Optional, Tuple
import torch
from torch import Tensor

def helper(x: Tensor, k: int) -> Tensor:
    if k > 4:
        raise ValueError("large")
    for i in range(k):
        x = x * 0.5 + i
    return x.sin()

def rows(x: Tensor, k: int) -> List[Tensor]:
    out: List[Tensor] = []
    for i in range(min(k, x.size(0))):
        out.append(x[i] * k)
    return out

class M:
    def __init__(self, w: Tensor, total: Tensor, n: int, training: bool, opt: Optional[Tensor]):
        self.w = w
        self.total = total
        self.n = n
        self.scale = 1.5
        self.training = training
        self.opt = opt

    def state(self) -> Tuple[Tensor, Tensor, int, float, bool, Optional[Tensor]]:
        return self.w, self.total, self.n, self.scale, self.training, self.opt

    def part(self, x: Tensor, k: int) -> Tensor:
        if self.n > 3 and k == 2:
            x = x.view(7, 7)
        return torch.relu(x * self.w + k)

    def bump(self, k: int) -> int:
        self.n += k
        return self.n

"""
END = """
def make(w: Tensor, total: Tensor, n: int, training: bool, opt: Optional[Tensor]) -> M:
    return M(w, total, n, training, opt)
"""
UNARY = "relu sigmoid tanh exp neg abs sin cos log1p sqrt square rsqrt floor".split()
BINARY = ("{} + {}", "{} * {}", "{} - {}", "{} / {}", "torch.maximum({}, {})", "{} @ {}")
BINARY += ("torch.where({} > 0, {}, 0.5)", "torch.atan2({}, {})", "{} ** {}")


class Argument(NamedTuple):
    """A tensor argument: sizes, dtype, whether it is transposed and requires gradients."""

    sizes: tuple[int, ...]
    dtype: str
    is_turned: bool
    needs_grad: bool


class Call(NamedTuple):
    x: Argument
    y: Argument | None
    k: int
    records: bool


class Program(NamedTuple):
    text: str
    state: tuple  # of make: w's sizes, n, training, whether there is `opt`
    calls: list[Call]


class Maker:
    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.names = 0
        self.depth = 0
        self.scope: dict[str, list[str]] = {"T": ["x", "self.w", "self.total"], "L": [], "I": ["k"]}
        self.scope |= {"O": ["y", "self.opt"]}

    def fresh(self, kind: str) -> str:
        self.names += 1
        name = f"{kind.lower()}{self.names}"
        self.scope[kind].append(name)
        return name

    def pick(self, kind: str) -> str:
        names = self.scope[kind]
        return self.r.choice(names[-4:] if self.r.random() < 0.6 else names)

    # -- Expressions

    def number(self) -> str:
        return self.r.choice(
            [
                lambda: str(self.r.randint(-1, 5)),
                lambda: self.pick("I"),
                lambda: "self.n",
                lambda: f"{self.pick('T')}.size({self.r.choice([0, 0, -1, 1])})",
                lambda: f"{self.pick('T')}.dim()",
                lambda: f"{self.pick('T')}.numel()",
                lambda: f"({self.pick('I')} + {self.r.randint(0, 3)})",
                lambda: f"len({self.pick('L')})" if self.scope["L"] else "2",
                lambda: f"self.bump({self.r.randint(0, 1)})",
            ]
        )()

    def condition(self) -> str:
        t = self.pick("T")
        return self.r.choice(
            [
                f"{t}.dim() == {self.r.randint(1, 2)}",
                f"{t}.size(0) > {self.r.randint(1, 5)}",
                f"{self.number()} > {self.r.randint(0, 4)}",
                f"{self.pick('O')} is None",
                "self.training",
                f"bool({t}.sum() > 0)",
                f"{t}.requires_grad",
                "torch.is_grad_enabled()",
                f"{t}.is_contiguous()",
                f"{t}.dtype == torch.float32",
                f"{t}.is_floating_point()",
                f"{t}.shape == {self.pick('T')}.shape",
            ]
        )

    def tensor(self) -> str:
        t, u, n = self.pick("T"), self.pick("T"), self.r.randint(0, 3)
        if self.r.random() < 0.6:
            if self.r.random() < 0.6:
                return f"torch.{self.r.choice(UNARY)}({t})"
            return self.r.choice(BINARY).format(t, u)
        views = [f"{t}.t()", f"{t}[{n}]", f"{t}[:{n + 1}]", f"{t}.unsqueeze(0)", f"{t}.flatten()"]
        views += [f"{t}.transpose(0, -1)", f"{t}.detach()", f"{t}.contiguous()", f"{t}.squeeze()"]
        views += [f"{t}.t().t()", f"{t}.type_as({u})", f"{t}.expand({t}.size())", f"{t} * 1"]
        views += [f"{t}.expand_as({u})", f"{t}.view(-1)", f"{t}.reshape(-1, {n + 1})", f"{t}"]
        others = [f"{t}.sum({n % 2})", f"{t}.mean()", f"{t}.sum(-1, keepdim=True)", f"{t}.clone()"]
        others += [f"{t}.to(torch.float64)", f"{t}.to({u}.dtype)", f"{t}.softmax(-1)", f"{t}.max()"]
        others += [f"torch.rand_like({t})", f"torch.dropout({t}, 0.5, self.training)", f"{t} * k"]
        others += [f"self.part({t}, {self.number()})", f"helper({t}, {n})", f"{t} * self.scale"]
        others += [f"torch.zeros_like({t})", f"torch.full([{n + 1}, 4], 0.5)", f"{t} - {n}"]
        few, one = ("[:4]", "[0]") if self.depth > 1 else ("", "")  # doubling fills the memory
        others += [f"torch.cat([{t}, {u}]){few}", f"torch.stack([{t}, {t}]){one}"]
        others += [f"{t}.cumsum(0)"]
        others += [f"torch.jit.wait(torch.jit.fork(helper, {t}, {n}))", f"torch.randn({n + 1}, 4)"]
        if self.scope["L"]:
            items = self.pick("L")
            others += [f"{items}[{n - 1}]", f"torch.cat({items})", f"torch.stack({items}).sum(0)"]
        return self.r.choice(views + others + others)

    # -- Statements

    def block(self, n: int) -> list[str]:
        """Statements of an inner block: what they define is not seen behind it."""
        kept = {kind: list(names) for kind, names in self.scope.items()}
        self.depth += 1
        lines = [line for _ in range(n) for line in self.statement()]
        self.depth -= 1
        self.scope = kept
        return ["    " + line for line in lines]

    def inner(self) -> list[str]:
        return self.block(self.r.randint(1, 3))

    def choice(self) -> list[str]:
        lines = [f"if {self.condition()}:", *self.inner()]
        if self.r.random() < 0.5:
            lines += ["else:", *self.inner()]
        return lines

    def optional(self) -> list[str]:
        o = self.r.choice(["y", "self.opt"])
        if o == "y":
            t = self.pick("T")
            target = t if not t.startswith("self") else self.fresh("T")
            return ["if y is not None:", f"    {target} = {t} + y"] if target == t else ["pass"]
        return ["o = self.opt", "if o is not None:", f"    {self.pick('T')}.add_(o)"]

    def loop(self) -> list[str]:
        self.names += 1
        i = f"i{self.names}"
        self.scope["I"].append(i)
        times = self.r.choice(["2", "3", "k", "x.size(0)", "5"])
        lines = [f"for {i} in range({times}):", *self.inner()]
        self.scope["I"].remove(i)
        if self.r.random() < 0.25:
            word = self.r.choice(["break", "continue"])
            lines += [f"    if {self.condition()}:", f"        {word}"]
        return lines

    def walk(self) -> list[str]:
        if not self.scope["L"]:
            return self.collect()
        items = self.pick("L")
        self.names += 1
        name = f"e{self.names}"
        self.scope["T"].append(name)
        kept = self.scope["L"]
        self.scope["L"] = [other for other in kept if other != items]  # it is not to grow
        lines = [f"for {name} in {items}:", *self.inner()]
        self.scope["L"] = kept
        self.scope["T"].remove(name)
        return lines

    def collect(self) -> list[str]:
        first, n = self.tensor(), self.r.randint(0, 3)
        source = self.r.choice([f"rows({self.pick('T')}, {n})", f"[{first}]", f"[{first}] * {n}"])
        source = self.r.choice([source, f"{self.pick('T')}.unbind(0)", f"({first}).chunk(2)"])
        name = self.fresh("L")
        return [f"{name}: List[Tensor] = list({source})"]

    def change_list(self) -> list[str]:
        if not self.scope["L"] or self.depth > 1:
            return self.collect()
        items, t = self.pick("L"), self.pick("T")
        return [
            self.r.choice(
                [
                    f"{items}.append({t})",
                    f"{items}[0] = {t}",
                    f"{items}.insert(0, {t})",
                    f"{items}.pop()",
                    f"{items}.reverse()",
                ]
            )
        ]

    def write(self) -> list[str]:
        t, u, n = self.pick("T"), self.pick("T"), self.r.randint(0, 3)
        forms = [f"{t}.add_({u})", f"{t}.mul_(0.5)", f"{t}[{n}] = {u}", f"{t}.zero_()"]
        forms += [f"{t}.relu_()", f"{t}[:{n}] += 1", f"{t}.copy_({u})", f"self.total += {t}.sum()"]
        forms += [f"{t}.sub_({n})", f"{t}.clamp_(-1.0, 2.0)", f"{t}.fill_(self.scale)"]
        if self.r.random() < 0.1:
            forms = [f"{t}.unsqueeze_(0)", f"{t}.t_()", f"torch.add({t}, 1, out={u})"]
            forms += [f"{t}.squeeze_(0)"]
        line = self.r.choice(forms)
        return ["with torch.no_grad():", f"    {line}"] if self.r.random() < 0.5 else [line]

    def attribute(self) -> list[str]:
        t = self.pick("T")
        return [
            self.r.choice(
                [
                    "self.n += 1",
                    f"self.n = {self.number()}",
                    "self.scale = self.scale + 0.5",
                    f"self.total = {t}",
                    f"self.opt = {t}",
                    "self.opt = None",
                    "self.training = not self.training",
                    f"self.w = self.w * {self.r.randint(1, 2)}",
                ]
            )
        ]

    def failure(self) -> list[str]:
        n = self.r.randint(0, 6)
        return [
            self.r.choice(
                [
                    f"assert {self.condition()}, 'asserted {n}'",
                    f"dead = {self.pick('T')}.view(7, {n})",
                    f"dead = {self.pick('T')}[{n}]",
                    f"dead = {self.pick('T')} @ {self.pick('T')}",
                    f"print('n', self.n, {self.number()})",
                    f"dead = {self.number()} // {self.number()}",
                ]
            )
        ]

    def raising(self) -> list[str]:
        condition = f"{self.number()} == {self.r.randint(0, 6)}"
        return [f"if {condition}:", f"    raise ValueError('raised {self.r.randint(0, 9)}')"]

    def assign(self) -> list[str]:
        text = self.tensor()
        local = [t for t in self.scope["T"] if not t.startswith("self")]
        name = self.r.choice(local) if self.r.random() < 0.4 else self.fresh("T")
        return [f"{name} = {text}"]

    def count(self) -> list[str]:
        text = self.number()
        return [f"{self.fresh('I')} = {text}"]

    def quiet(self) -> list[str]:
        mode = self.r.choice(["no_grad", "enable_grad"])
        return [f"with torch.{mode}():", *self.inner()]

    def statement(self) -> list[str]:
        few: list[tuple[Callable[[], list[str]], float]] = [
            (self.assign, 14),
            (self.count, 2),
            (self.write, 3),
            (self.attribute, 1),
            (self.failure, 0.3),
            (self.raising, 0.4),
            (self.collect, 1),
            (self.change_list, 2),
            (self.optional, 2),
        ]
        if self.depth < 3:
            few += [(self.choice, 4), (self.loop, 2), (self.walk, 1), (self.quiet, 1)]
        makers, weights = zip(*few, strict=True)
        return self.r.choices(makers, weights)[0]()

    # -- The whole

    def argument(self) -> Argument:
        r = self.r
        common, rare = [(2, 4), (3, 4), (4, 4), (1, 4), (4,), (5, 4)], [(), (2, 3, 4), (0, 4)]
        sizes = r.choice(common if r.random() < 0.8 else rare)
        dtype = r.choices(["float32", "float64", "int64", "bfloat16"], [8, 2, 1, 1])[0]
        turned = len(sizes) == 2 and sizes[0] > 1 and r.random() < 0.2
        return Argument(sizes, dtype, turned, dtype[0] == "f" and r.random() < 0.4)

    def call(self) -> Call:
        """Most have the sizes of the first."""
        y = self.argument() if self.r.random() < 0.5 else None
        return Call(self.argument(), y, self.r.randint(0, 4), self.r.random() < 0.5)

    def program(self) -> Program:
        body = [line for _ in range(self.r.randint(4, 12)) for line in self.statement()]
        results = [self.pick("T") for _ in range(3)]
        if self.r.random() < 0.4:  # equal results are two tensors
            results[0] = self.tensor()
            results[1] = self.r.choice([results[0], f"{results[0]} * 1", self.tensor()])
        items = [self.pick("L")] if self.scope["L"] else ["[x]"]
        lines = ["def run(self, x: Tensor, y: Optional[Tensor], k: int)"]
        lines[0] += " -> Tuple[Tensor, Tensor, Tensor, List[Tensor], int]:"
        lines += ["    " + line for line in body]
        lines += [f"    return {', '.join([*results, *items])}, {self.pick('I')}"]
        kinds = [self.call() for _ in range(3)]
        state = (self.r.choice([(4,), (1, 4), (4, 4)]), self.r.randint(0, 3))
        state += (self.r.random() < 0.3, self.r.random() < 0.5)
        text = HEAD + "\n".join("    " + line for line in lines) + "\n" + END
        return Program(text, state, [kinds[i] for i in (0, 0, 0, 1, 1, 0, 1, 2, 2, 0)])


def program(seed: int) -> Program:
    return Maker(seed).program()


if __name__ == "__main__":
    made = program(int(sys.argv[1]))
    print(made.text)
    print(made.state, *made.calls, sep="\n")
