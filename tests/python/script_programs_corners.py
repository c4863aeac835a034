"""Programs in rarer corners of the language, and networks with logic of their own."""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from script_programs import calls
from torch import Tensor, nn
from torch.jit import Final

# -- Functions that call functions ---------------------------------------------------------------------------------


def helper(x: Tensor, k: float = 2.0, shift: int = 1) -> Tensor:
    return x * k + shift


def twice(x: Tensor) -> Tuple[Tensor, Tensor]:
    return helper(x), helper(x, shift=3, k=0.5)


@calls(torch.ones(2), torch.zeros(1))
def uses_helpers(x: Tensor):
    a, b = twice(x)
    c = helper(x, 3.0)
    return a + b, c


@torch.jit.script
def fib(n: int) -> int:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@calls(10, 0, 50)
def uses_script(n: int) -> Tuple[int, List[int]]:
    return fib(n), [fib(i) for i in range(5)]


@calls((1, 2), (5, 5))
def nested_functions(a: int, b: int) -> int:
    total = 0
    for f in range(2):
        if f == 0:
            total += max(a, b) * 2
        else:
            total -= min(a, b)
    return total


# -- Variables that change ------------------------------------------------------------------------------------------


@calls((True, 3), (False, 3))
def branches(c: bool, n: int):
    if c:
        x = torch.ones(n)
        y = "yes"
        z: Optional[int] = 3
    else:
        x = torch.zeros(n + 1)
        y = "no"
        z = None
    if z is None:
        z = 7
    w = z + 1
    return x, y, z, w


@calls(5, 0, 1)
def carried(n: int):
    a, b, c = 1, 2.0, "x"
    xs: List[Tuple[int, str]] = []
    while a < n:
        a, b = a + 1, b / a
        c += str(a)
        if a % 2 == 0:
            xs += [(a, c)]
        elif a == 3:
            continue
        else:
            b += 1
    else_value = b if len(xs) > 0 else -b
    return a, b, c, xs, else_value


@calls(torch.arange(5), torch.tensor([2, 2]))
def tensor_conditions(x: Tensor):
    if x.sum() > 5:
        kind = "big"
    elif x[0] == 2:
        kind = "two"
    else:
        kind = "small"
    n = 0
    while x.max() > n:
        n += 1
    if x.numel() and not bool((x < 0).any()):
        n += 10
    return kind, n


@calls((3, 4), (0, 0))
def assertions(a: int, b: int) -> int:
    assert a > 0
    assert b != 4, "b is four"
    return a + b


@calls(1, 2, 3, 4)
def nested_errors(n: int) -> str:
    if n == 1:
        raise NotImplementedError("not yet")
    if n == 2:
        raise TypeError("wrong type")
    if n == 3:
        raise Exception("plain")
    if n == 4:
        raise KeyError("key")
    return "fine"


@calls(torch.zeros(2, 3))
def library_error(x: Tensor) -> Tensor:
    return x @ x


@calls((torch.zeros(2), 5), (torch.zeros(2), -3))
def index_out(x: Tensor, i: int) -> Tensor:
    return x[i]


@calls(torch.ones(3))
def item_error(x: Tensor) -> float:
    return x.item()


@calls(([1.0, 2.0],), ([],))
def empty_max(x: List[float]):
    return max(x)


@calls(([3],), ([],))
def empty_pop(x: List[int]):
    y = x.pop()
    return y, x.pop(0)


@calls(("abc", 1), ("abc", 10), ("abc", -1))
def char_at(s: str, i: int) -> str:
    return s[i]


@calls(([1, 2, 3], 2), ([1, 2, 3], 9))
def remove_item(x: List[int], v: int):
    x.remove(v)
    return x


@calls(([1, 2, 3], 2), ([1], 5))
def index_of(x: List[int], v: int) -> int:
    return x.index(v)


@calls((2,), (3,))
def modulo_zero(n: int) -> int:
    return 7 % n


@calls((0.0,), (2.0,))
def divide_zero(x: float) -> float:
    return 1.0 / x


@calls(-1.0, 0.0, 4.0)
def math_domain(x: float):
    return math.sqrt(x), math.log(x + 1e-300)


# -- Scalars and implicit conversion ------------------------------------------------------------------------------------


@calls((2, 0.5), (-3, 2.0))
def numbers(i: int, f: float):
    c = complex(i, f)
    return (
        i + f,
        i * f,
        i - f,
        f - i,
        i**f if i > 0 else 0.0,
        f**i,
        i / 2,
        i // 2,
        f // 0.3,
        float(i) == i,
        i == 2.0,
        i < f,
        i >= f,
        c + i,
        c * f,
        abs(c),
        int(f),
        float(i),
        bool(i),
        bool(f),
        str(c),
        c == complex(i, f),
        -c,
        round(f),
        max(i, 3),
        min(f, 0.25),
        i if f > 1 else -i,
        1e-3,
        10**2,
        2**-1,
        7 & 3,
        1 << 4,
        i != 0 and f != 0,
    )


@calls(torch.tensor(3), torch.tensor(2.7))
def conversions(x: Tensor):
    return int(x), float(x), bool(x), x.item(), str(int(x)), [int(x)] * 2, complex(x)


@calls((7, 3), (-7, 3), (7, -3))
def int_division(a: int, b: int):
    return (
        a // b,
        a % b,
        float(a) // b,
        float(a) % b,
        divmod(a, b),
        divmod(float(a), float(b)),
        a / b,
        int(a / b),
        math.floor(a / b),
    )


# -- Slices ---------------------------------------------------------------------------------------------------------------


@calls([0, 1, 2, 3, 4, 5], [])
def list_slices(x: List[int]):
    return (
        x[:],
        x[1:],
        x[:-1],
        x[::2],
        x[1::2],
        x[-3:],
        x[-2:-1],
        x[10:],
        x[2:1],
        x[::-1] if False else x[:2] + x[2:],
        x[:100],
    )


@calls("abcdef", "")
def text_slices(s: str):
    return s[:], s[1:], s[:-1], s[::2], s[-3:], s[-2:-1], s[10:], s[:100], s[2:2]


@calls((torch.arange(12).view(3, 4), 1), (torch.arange(12).view(3, 4), 2))
def tensor_slices(x: Tensor, i: int):
    y = x.clone()
    y[i] += 100
    y[:, i] = y[:, i] * 2
    y[i:, :i] = 0
    y[-1, -1] = -5
    z = x.clone()
    z[torch.tensor([0, 2])] = torch.tensor([9, 9, 9, 9])
    z[x % 5 == 0] += 1
    z[0, 1:3] = torch.tensor([70, 80])
    return (
        y,
        z,
        x[i - 1 :: 2],
        x[:, i:].t(),
        x[i][i],
        x[..., i],
        x[None, i],
        x[:i, :i].sum(),
        x[[0, 1], [1, 0]],
        x[:, None, i],
    )


@calls(torch.randn(2, 3, 4))
def unpacking(x: Tensor):
    a, b = x[0], x[1]
    c, d, e = x.unbind(1)
    n, m, k = x.shape
    (f, g), h = x.split(2, dim=1), 3
    s0, s1 = x.size()[:2]
    parts = x.chunk(2, dim=-1)
    v, i = x.max(dim=-1)
    q = torch.topk(x, 2)
    return (
        a + b,
        c - e,
        n * m * k,
        f.shape,
        g.shape,
        h,
        s0,
        s1,
        parts[0] + parts[1],
        v,
        i,
        q.values,
        q[1],
    )


# -- Dictionaries of tensors, of lists, of dictionaries ---------------------------------------------------------------------


@calls(({"x": torch.ones(2), "y": torch.zeros(2)}, 2), ({}, 0))
def tensor_dict(d: Dict[str, Tensor], n: int):
    out: Dict[str, Tensor] = {}
    for k, v in d.items():
        out[k + "_n"] = v * n
    for k in list(d.keys()):
        d[k] = d[k] + 1
    total = torch.zeros(2)
    for v in out.values():
        total += v
    return out, d, total, len(out), "x" in d, sorted(list(d.keys()))


@calls((3, "a"), (0, "b"))
def int_keys(n: int, s: str):
    d: Dict[int, List[str]] = {}
    for i in range(n):
        d[i % 2] = d.get(i % 2, torch.jit.annotate(List[str], [])) + [s + str(i)]
    f: Dict[float, int] = {0.5: 1, 1.5: 2}
    b: Dict[bool, str] = {True: "t", False: "f"}
    f[2.5] = n
    return d, f, b, b[n > 0], f.get(0.5)


@calls(2, 3)
def deep(n: int):
    tree: Dict[str, Dict[str, List[Tuple[int, Optional[float]]]]] = {}
    for i in range(n):
        name = chr(97 + i)
        tree[name] = torch.jit.annotate(Dict[str, List[Tuple[int, Optional[float]]]], {})
        for j in range(i + 1):
            x: Optional[float] = None
            if j % 2 == 0:
                x = j / 2
            tree[name][str(j)] = [(i, x), (j, None)]
    count = 0
    for k, sub in tree.items():
        for kk, pairs in sub.items():
            for a, b in pairs:
                if b is not None:
                    count += a + int(b)
                else:
                    count += 1
    return tree, count


# -- Recursion over modules and containers -----------------------------------------------------------------------------------


class Tree(nn.Module):
    """A complete binary tree in lists, walked with a stack."""

    def __init__(self) -> None:
        super().__init__()
        self.left: List[int] = [1, 3, -1, -1, -1]
        self.right: List[int] = [2, 4, -1, -1, -1]
        self.cells = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])

    def depth(self, node: int) -> int:
        todo: List[Tuple[int, int]] = [(node, 1)]
        best = 0
        while len(todo) > 0:
            at, d = todo.pop()
            best = max(best, d)
            for child in [self.left[at], self.right[at]]:
                if child >= 0:
                    todo.append((child, d + 1))
        return best

    def forward(self, x: Tensor):
        level = 0
        for cell in self.cells:
            x = torch.tanh(cell(x))
            level += 1
            if x.sum() > 1.0:
                return x, level, self.depth(0)
        return x, -level, self.depth(1)


calls(torch.ones(1, 3), torch.zeros(2, 3))(Tree)


class Residual(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(n, n, 3, padding=1)
        self.bn = nn.BatchNorm2d(n)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)) + x)


class Pyramid(nn.Module):
    sizes: Final[List[int]]

    def __init__(self) -> None:
        super().__init__()
        self.sizes = [2, 4]
        self.stem = nn.Conv2d(1, 4, 3, stride=2)
        self.stages = nn.Sequential(Residual(4), nn.MaxPool2d(2), Residual(4))
        self.pools = nn.ModuleDict({str(s): nn.AdaptiveAvgPool2d(s) for s in [2, 4]})
        self.head = nn.Linear(4 * (4 + 16), 3)

    def forward(self, x: Tensor, names: Optional[List[str]] = None):
        x = self.stages(self.stem(x))
        found: List[Tensor] = []
        used: List[str] = []
        for name, pool in self.pools.items():
            if names is None or name in names:
                found.append(pool(x).flatten(1))
                used.append(name)
        y = torch.cat(found, 1) if len(found) > 0 else torch.zeros(1, 1)
        return (self.head(y) if y.shape[1] == 80 else y), used, self.sizes


calls(
    (torch.ones(1, 1, 20, 20),), (torch.ones(2, 1, 17, 17), ["2"]), (torch.ones(1, 1, 12, 12), [])
)(Pyramid)


class Detector(nn.Module):
    """Boxes, scores, suppression of overlaps."""

    def area(self, b: Tensor) -> Tensor:
        return (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])

    def iou(self, a: Tensor, b: Tensor) -> Tensor:
        lt = torch.max(a[:, None, :2], b[:, :2])
        rb = torch.min(a[:, None, 2:], b[:, 2:])
        wh = (rb - lt).clamp(min=0)
        inter = wh[..., 0] * wh[..., 1]
        return inter / (self.area(a)[:, None] + self.area(b) - inter)

    def forward(self, boxes: Tensor, scores: Tensor, limit: float) -> Tuple[Tensor, List[int]]:
        order = scores.argsort(descending=True)
        over = self.iou(boxes, boxes)
        keep: List[int] = []
        dead = torch.zeros(boxes.size(0), dtype=torch.bool)
        for i in range(order.size(0)):
            at = int(order[i])
            if bool(dead[at]):
                continue
            keep.append(at)
            dead |= over[at] > limit
        return boxes[torch.tensor(keep, dtype=torch.long)], keep


calls(
    (
        torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 2.1], [3, 3, 4, 4]]),
        torch.tensor([0.5, 0.9, 0.1]),
        0.5,
    ),
    (torch.zeros(0, 4), torch.zeros(0), 0.5),
)(Detector)


class Sampler(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(11, 8)
        self.gru = nn.GRU(8, 8, batch_first=True)
        self.out = nn.Linear(8, 11)

    def forward(
        self,
        start: Tensor,
        steps: int,
        temperature: float = 1.0,
        top_k: int = 0,
        greedy: bool = False,
    ):
        tokens = start
        state = torch.zeros(1, start.size(0), 8)
        for _ in range(steps):
            y, state = self.gru(self.emb(tokens[:, -1:]), state)
            logits = self.out(y[:, -1]) / temperature
            if top_k > 0:
                v, _i = torch.topk(logits, top_k)
                logits = logits.masked_fill(logits < v[:, [-1]], -float("inf"))
            p = F.softmax(logits, dim=-1)
            nxt = p.argmax(-1, keepdim=True) if greedy else torch.multinomial(p, num_samples=1)
            tokens = torch.cat((tokens, nxt), dim=1)
        return tokens


calls(
    (torch.tensor([[1], [2]]), 4),
    (torch.tensor([[3]]), 3, 0.5, 2),
    (torch.tensor([[3]]), 3, 1.0, 0, True),
)(Sampler)


class Noise(nn.Module):
    """Random numbers of all kinds after one seed."""

    def forward(self, n: int):
        torch.manual_seed(5)
        a = torch.rand(n)
        b = torch.randn(n, 2)
        c = torch.randint(0, 10, [n])
        d = torch.randperm(n)
        e = torch.bernoulli(torch.full([n], 0.4))
        f = F.dropout(torch.ones(n), 0.5, True)
        g = torch.normal(0.0, 1.0, [n])
        h = torch.empty(n).uniform_(-1.0, 1.0)
        i = torch.zeros(n).exponential_(2.0)
        return (
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            i,
            torch.rand_like(a),
            torch.randn_like(b),
            torch.multinomial(a + 0.1, 2, True),
        )


calls(3, 20, 1)(Noise)


class Ema(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("steps", torch.tensor(0))
        self.decay = 0.9

    def forward(self, x: Tensor):
        with torch.no_grad():
            self.steps += 1
            self.mean.mul_(self.decay).add_(x.mean(0), alpha=1 - self.decay)
        fixed = self.mean / (1 - self.decay ** self.steps.item())
        return fixed, self.steps.clone(), (x - fixed).abs().max()


calls(torch.ones(2, 3), torch.zeros(1, 3), torch.arange(6.0).view(2, 3))(Ema)


class Config(NamedTuple):
    width: int
    names: List[str]
    rate: float = 0.5
    mask: Optional[Tensor] = None


class Output(NamedTuple):
    logits: Tensor
    state: Dict[str, Tensor]
    note: Optional[str]


class WithTuples(nn.Module):
    def build(self, n: int) -> Config:
        return Config(n, [str(i) for i in range(n)])

    def forward(self, x: Tensor, n: int) -> Output:
        config = self.build(n)
        mask = config.mask
        if mask is not None:
            x = x * mask
        state = {name: x * i for i, name in enumerate(config.names)}
        note: Optional[str] = None
        if n > 1:
            note = "many " + str(config.rate)
        out = Output(logits=x.sum(0), state=state, note=note)
        if out.note is None:
            return Output(out.logits + 1, out.state, "one")
        return out


calls((torch.ones(2, 2), 1), (torch.ones(2, 2), 3))(WithTuples)


class Inner(nn.Module):
    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k
        self.calls_made = 0

    @torch.jit.export
    def bump(self, by: int = 1) -> int:
        self.calls_made += by
        return self.calls_made

    def forward(self, x: Tensor) -> Tensor:
        self.bump(1)
        return x * self.k


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = Inner(2)
        self.b = Inner(3)
        self.both = nn.ModuleList([self.a, self.b])

    def forward(self, x: Tensor, n: int):
        for _ in range(n):
            for m in self.both:
                x = m(x)
        self.a.k += 1
        self.b.bump(10)
        return x, self.a.calls_made, self.b.calls_made, [m.k for m in self.both], self.a.bump(by=0)


calls((torch.ones(2), 1), (torch.ones(2), 2), (torch.ones(2), 0))(Outer)


@torch.jit.interface
class Layer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Plus(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class Times(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.full((2,), 3.0))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.w


class ByInterface(nn.Module):
    chosen: Layer

    def __init__(self) -> None:
        super().__init__()
        self.chosen = Times()
        self.layers = nn.ModuleList([Plus(), Times(), Plus()])

    def forward(self, x: Tensor, i: int):
        layer: Layer = self.layers[i]
        return self.chosen(layer.forward(x))


calls((torch.ones(2), 0), (torch.ones(2), 1))(ByInterface)


@torch.jit.script
class Node:
    def __init__(self, value: int, name: str = "n"):
        self.value = value
        self.name = name
        self.links: List[int] = []

    def link(self, to: int) -> "Node":
        self.links.append(to)
        return self

    def __str__(self) -> str:
        return self.name + ":" + str(self.value)


@torch.jit.script
class Graph:
    def __init__(self):
        self.nodes: List[Node] = []
        self.by_name: Dict[str, Node] = {}

    def add(self, node: Node) -> int:
        self.nodes.append(node)
        self.by_name[node.name] = node
        return len(self.nodes) - 1

    def reach(self, start: int) -> List[int]:
        seen: Dict[int, bool] = {}
        todo = [start]
        order: List[int] = []
        while len(todo) > 0:
            at = todo.pop(0)
            if at in seen:
                continue
            seen[at] = True
            order.append(self.nodes[at].value)
            for k in self.nodes[at].links:
                todo.append(k)
        return order


@calls(4, 1)
def graph_walk(n: int):
    g = Graph()
    for i in range(n):
        g.add(Node(i * 10, "n" + str(i)))
    for i in range(n):
        g.nodes[i].link((i * 2 + 1) % n).link((i + 1) % n)
    g.by_name["n0"].value = -1
    first: Optional[Node] = None
    for node in g.nodes:
        if node.value > 5 and first is None:
            first = node
    name = first.name if first is not None else "none"
    return g.reach(0), name, [len(x.links) for x in g.nodes], g.nodes[0].value, g.nodes[0].__str__()


@torch.jit.script
class Matrix:
    def __init__(self, rows: int, cols: int):
        self.rows = rows
        self.cols = cols
        self.data = [0.0] * (rows * cols)

    def __getitem__(self, at: int) -> float:
        return self.data[at]

    def __setitem__(self, at: int, v: float) -> None:
        self.data[at] = v

    def times(self, o: "Matrix") -> "Matrix":
        out = Matrix(self.rows, o.cols)
        for i in range(self.rows):
            for j in range(o.cols):
                s = 0.0
                for k in range(self.cols):
                    s += self[i * self.cols + k] * o[k * o.cols + j]
                out[i * o.cols + j] = s
        return out

    def __sub__(self, o: "Matrix") -> "Matrix":
        out = Matrix(self.rows, self.cols)
        for i in range(len(self.data)):
            out.data[i] = self.data[i] - o.data[i]
        return out

    def __len__(self) -> int:
        return self.rows


@calls(2, 3)
def matrix_class(n: int):
    a = Matrix(n, n)
    for i in range(n):
        for j in range(n):
            a[i * n + j] = float(i + j)
    b = a.times(a)
    c = b - a
    return b.data, c[1], len(c)


class Guarded(nn.Module):
    """Training and evaluation differ; attributes of many types."""

    table: Dict[str, List[int]]
    pair: Tuple[int, str]
    maybe: Optional[Dict[str, float]]

    def __init__(self) -> None:
        super().__init__()
        self.table = {"a": [1]}
        self.pair = (1, "one")
        self.maybe = None
        self.drop = nn.Dropout(0.3)
        self.device_name = "cpu"

    def forward(self, x: Tensor, key: str):
        if self.training:
            x = x * 100
        self.table[key] = self.table.get(key, torch.jit.annotate(List[int], [])) + [len(self.table)]
        self.pair = (self.pair[0] + 1, self.pair[1] + key)
        m = self.maybe
        if m is None:
            self.maybe = {key: 1.0}
        else:
            m[key] = m.get(key, 0.0) + 0.5
        if not hasattr(self, "device_name"):
            x = x - 1
        y = x.to(torch.device(self.device_name), dtype=torch.float64)
        return self.drop(y), self.table, self.pair, self.maybe


calls((torch.ones(1), "a"), (torch.ones(1), "b"), (torch.ones(1), "b"))(Guarded)


@calls(torch.arange(10.0), torch.ones(3))
def stateful_views(x: Tensor):
    y = x.view(-1)
    y[0] = 42
    z = x[1:]
    z.mul_(2)
    w = x.clone()
    w += x
    a = x
    a = a + 1
    return x, y, z, w, a


@calls((torch.tensor([[1, 2], [3, 4]]), 2), (torch.tensor([[5]]), 1))
def loops_over_tensors(x: Tensor, k: int):
    total = 0
    rows: List[Tensor] = []
    for row in x:
        for v in row:
            total += int(v) * k
        rows.append(row.flip(0))
    for i, row in enumerate(x):
        total += i * int(row[0])
    for a, b in zip(x, rows):
        total += int((a * b).sum())
    return total, torch.stack(rows), [int(r[0]) for r in rows]


@calls(3, 0)
def prints(n: int):
    print("n =", n)
    for i in range(n):
        print(f"{i}: {i * i}")
    print(
        torch.arange(n),
        torch.ones(2, 2),
        torch.tensor(1.5),
        torch.tensor([1.5e5, 1e-10]),
        torch.tensor([True]),
    )
    print(
        [torch.ones(1)],
        {"k": torch.zeros(1)},
        (1.0, "s"),
        float("nan"),
        -float("inf"),
        1e-7,
        123456789.0,
        0.1 + 0.2,
    )
    return n


@calls((torch.ones(2, 3), 0.5), (torch.zeros(3), 1.5))
def annotated(x: Tensor, p: float) -> Dict[str, Union[int, float, Tensor]]:
    out: Dict[str, Union[int, float, Tensor]] = {}
    out["n"] = x.dim()
    out["p"] = p
    out["x"] = x
    return out


@calls([1, 2.5, "x"], [])
def any_list(xs: List[Any]) -> Tuple[int, float, str]:
    n, f, s = 0, 0.0, ""
    for x in xs:
        if isinstance(x, int):
            n += x
        elif isinstance(x, float):
            f += x
        elif isinstance(x, str):
            s += x
    return n, f, s


@calls((torch.randn(3, 3), True), (torch.randn(3, 3), False))
def complex_work(x: Tensor, inverse: bool):
    z = torch.complex(x, x * 2)
    f = torch.fft.ifft2(z) if inverse else torch.fft.fft2(z)
    return (
        f.real,
        f.imag,
        z.abs(),
        torch.angle(z),
        z.conj() * z,
        torch.view_as_real(z),
        (z * complex(0, 1)).sum().item(),
        z.is_complex(),
    )


@calls((torch.tensor([3, 1, 2, 1]),), (torch.tensor([], dtype=torch.long),))
def ordering(x: Tensor):
    v, i = torch.sort(x, stable=True)
    u, inv, n = torch.unique(x, return_inverse=True, return_counts=True)
    return (
        v,
        i,
        u,
        inv,
        n,
        torch.cumsum(x, 0),
        torch.bincount(x),
        x.argsort(),
        torch.searchsorted(v, x),
        torch.isin(x, torch.tensor([1, 3])),
    )


@calls((torch.arange(6).view(2, 3), torch.tensor([1, 0])))
def gathers(x: Tensor, i: Tensor):
    return (
        x.gather(0, i.view(1, 2)),
        torch.index_select(x, 0, i),
        torch.where(x > 2, x, -x),
        x.masked_select(x > 1),
        torch.take(x, i),
        torch.zeros(2, 3, dtype=torch.long).scatter_(1, i.view(2, 1), 5),
        torch.nonzero(x > 3),
        x.repeat(1, 2),
        torch.roll(x, 1, 1),
        torch.flip(x, [0]),
        F.one_hot(i, 3),
        torch.tril(x),
        torch.einsum("ij,kj->ik", x, x),
        x.diagonal(),
        torch.cartesian_prod(i, i),
    )
