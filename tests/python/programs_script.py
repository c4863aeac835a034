"""Small TorchScript programs as people write them, with the calls to make (test_programs.py compares with PyTorch)."""

import enum
import math
from collections import OrderedDict
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.jit import Final

PROGRAMS: Dict[str, Tuple[Any, List[tuple]]] = {}


def calls(*args: Any):
    """Register a function, or a module class without arguments, with argument tuples (or (method, args))."""

    def add(thing: Any) -> Any:
        PROGRAMS[thing.__name__] = (thing, [a if isinstance(a, tuple) else (a,) for a in args])
        return thing

    return add


# -- Texts ------------------------------------------------------------------------------------------------


@calls("the cat sat on the mat", "", "a", "hello   world\tfoo\nbar")
def tokenize(text: str):
    words: List[str] = []
    word = ""
    for ch in text:
        if ch.isspace():
            if len(word) > 0:
                words.append(word)
                word = ""
        else:
            word += ch
    if len(word) > 0:
        words.append(word)
    counts: Dict[str, int] = {}
    for w in words:
        if w in counts:
            counts[w] += 1
        else:
            counts[w] = 1
    return words, counts, sorted(counts.keys())


class Vocabulary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.index: Dict[str, int] = {"<unk>": 0, "the": 1, "cat": 2}
        self.words: List[str] = ["<unk>", "the", "cat"]
        self.emb = nn.Embedding(3, 4)

    @torch.jit.export
    def __len__(self) -> int:
        return len(self.words)

    @torch.jit.export
    def __contains__(self, word: str) -> bool:
        return word in self.index

    def encode(self, text: str, max_len: Optional[int] = None) -> List[int]:
        ids = [self.index[w] if w in self.index else 0 for w in text.lower().split(" ")]
        if max_len is not None:
            ids = ids[:max_len]
            while len(ids) < max_len:
                ids.append(0)
        return ids

    def forward(self, text: str, n: int):
        ids = self.encode(text, n)
        size = len(self)
        known = "cat" in self
        return self.emb(torch.tensor(ids)), ids, size, known, " ".join([self.words[i] for i in ids])


calls(("The cat sat", 4), ("cat", 1), ("", 2))(Vocabulary)


@calls("hello", "Hello World 123", "aXbXc", "")
def text_methods(s: str):
    return (s.upper(), s.lower(), s.title(), s.swapcase(), s.capitalize(), s.strip("h"), s.lstrip(), s.rstrip("o"), s.find("l"),
            s.rfind("l"), s.count("l"), s.replace("l", "L"), s.startswith("he"), s.endswith("o"), s.isdigit(), s.isalpha(),
            s.isalnum(), s.islower(), s.isupper(), s.center(11, "*"), s.ljust(8) + "|", s.rjust(8, "-"), s.zfill(7), s.split("X"),
            s.partition("o"), s.rpartition("o"), s.splitlines(), s[1:3], s[::-1], s[-2:], len(s), "-".join(list(s)), s + s,
            s.isspace(), s.istitle(), s.isidentifier(), s.expandtabs(4), s.rsplit("o", 1), s == "hello", s < "i", "ell" in s)


@calls((3, 2.5, "x", True), (-7, 1e10, "", False), (0, float("inf"), "q", True))
def formatting(i: int, f: float, s: str, b: bool):
    a = f"{i} and {f} {s} {b}"
    c = "{} / {} / {}".format(i, f, s)
    d = "%d|%s|%f|%5.2f|%x|%e" % (i if i >= 0 else 0, s, f if f < 1e9 else 1.0, 2.5, 255, 12345.678)
    e = str(i) + str(f) + str(b) + str([i, i]) + str((i, s)) + str({s: i})
    return a, c, d, e, f"{[1, 2]} {(i, f)}", "{0}".format(i), hex(i), oct(i), bin(i), chr(65 + abs(i) % 20), ord("a")


@calls("12", "-5", "x1", "3.5", "")
def parse_number(s: str):
    return int(s) + 1


@calls("2.5", "1e3", "inf", "abc")
def parse_float(s: str):
    return float(s) * 2


@calls("(1+2)*3", "2*(3+4)*5", "1+", "7", "2*x")
def evaluate(text: str) -> int:
    """A tiny calculator with two stacks."""
    values: List[int] = []
    ops: List[str] = []
    i = 0
    while i < len(text):
        c = text[i]
        if c.isdigit():
            n = 0
            while i < len(text) and text[i].isdigit():
                n = n * 10 + int(text[i])
                i += 1
            values.append(n)
            continue
        elif c == "(":
            ops.append(c)
        elif c == ")":
            while ops[-1] != "(":
                op = ops.pop()
                b = values.pop()
                a = values.pop()
                values.append(a + b if op == "+" else a * b)
            ops.pop()
        elif c == "+" or c == "*":
            while len(ops) > 0 and (ops[-1] == "*" or (ops[-1] == "+" and c == "+")):
                op = ops.pop()
                b = values.pop()
                a = values.pop()
                values.append(a + b if op == "+" else a * b)
            ops.append(c)
        else:
            raise ValueError("unexpected character " + c)
        i += 1
    while len(ops) > 0:
        op = ops.pop()
        b = values.pop()
        a = values.pop()
        values.append(a + b if op == "+" else a * b)
    return values[0]


@calls(("kitten", "sitting"), ("", "abc"), ("same", "same"))
def edit_distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i in range(1, len(a) + 1):
        last = row[0]
        row[0] = i
        for j in range(1, len(b) + 1):
            kept = row[j]
            cost = 0 if a[i - 1] == b[j - 1] else 1
            row[j] = min(row[j] + 1, min(row[j - 1] + 1, last + cost))
            last = kept
    return row[len(b)]


@calls(("aab", 3), ("banana", 2))
def ngrams(text: str, n: int) -> Dict[str, List[int]]:
    places: Dict[str, List[int]] = {}
    for i in range(len(text) - n + 1):
        gram = text[i:i + n]
        if gram not in places:
            places[gram] = torch.jit.annotate(List[int], [])
        places[gram].append(i)
    return places


# -- Search -------------------------------------------------------------------------------------------------


class BeamSearch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(7, 5)
        self.rnn = nn.GRUCell(5, 6)
        self.out = nn.Linear(6, 7)
        self.eos = 0

    def forward(self, h: Tensor, width: int, steps: int):
        beams: List[Tuple[float, List[int], Tensor]] = [(0.0, [1], h)]
        done: List[Tuple[float, List[int]]] = []
        for _ in range(steps):
            found: List[Tuple[float, List[int], Tensor]] = []
            for score, tokens, state in beams:
                state = self.rnn(self.emb(torch.tensor([tokens[-1]])), state)
                logp = F.log_softmax(self.out(state), dim=-1)[0]
                best, ids = torch.topk(logp, width)
                for k in range(width):
                    token = int(ids[k].item())
                    total = score + float(best[k])
                    if token == self.eos:
                        done.append((total, tokens + [token]))
                    else:
                        found.append((total, tokens + [token], state))
            order: List[Tuple[float, int]] = [(-f[0], i) for i, f in enumerate(found)]
            order.sort()
            beams = [found[i] for q, i in order[:width]]
            if len(beams) == 0:
                break
        return [b[1] for b in beams], [d[1] for d in done], len(done)


calls((torch.zeros(1, 6), 3, 4), (torch.ones(1, 6), 1, 6))(BeamSearch)


@calls((torch.tensor([[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [4.0, 1.0, 0.0]]), 0), (torch.full((4, 4), 2.0), 3))
def dijkstra(w: Tensor, start: int) -> List[float]:
    n = w.size(0)
    dist = [math.inf] * n
    seen = [False] * n
    dist[start] = 0.0
    for _ in range(n):
        u = -1
        for i in range(n):
            if not seen[i] and (u < 0 or dist[i] < dist[u]):
                u = i
        seen[u] = True
        for v in range(n):
            d = dist[u] + w[u, v].item()
            if d < dist[v]:
                dist[v] = d
    return dist


@calls(10, 1, 0, 30)
def sieve(n: int) -> List[int]:
    mask = [True] * (n + 1)
    found: List[int] = []
    for i in range(2, n + 1):
        if mask[i]:
            found.append(i)
            for j in range(i * i, n + 1, i):
                mask[j] = False
    return found


@calls(8, 5, 1)
def queens(n: int) -> int:
    """Backtracking without recursion."""
    cols = [-1] * n
    row = 0
    count = 0
    while row >= 0:
        cols[row] += 1
        while cols[row] < n:
            clash = False
            for r in range(row):
                if cols[r] == cols[row] or abs(cols[r] - cols[row]) == row - r:
                    clash = True
                    break
            if not clash:
                break
            cols[row] += 1
        if cols[row] >= n:
            cols[row] = -1
            row -= 1
        elif row == n - 1:
            count += 1
        else:
            row += 1
    return count


@calls(27, 1, 97)
def collatz(n: int) -> Tuple[int, int]:
    steps, top = 0, n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        top = max(top, n)
        steps += 1
    return steps, top


# -- State machines and classes --------------------------------------------------------------------------------


class Light(enum.Enum):
    RED = 0
    GREEN = 1
    YELLOW = 2


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


class Traffic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.light = Light.RED
        self.ticks = 0

    @torch.jit.export
    def step(self) -> Light:
        if self.light == Light.RED:
            self.light = Light.GREEN
        elif self.light == Light.GREEN:
            self.light = Light.YELLOW
        else:
            self.light = Light.RED
        self.ticks += 1
        return self.light

    def forward(self, n: int):
        names: List[str] = []
        total = 0
        for _ in range(n):
            now = self.step()
            names.append(now.name)
            total += now.value
        return names, total, self.ticks, self.light == Light.RED, [m.value for m in Light]


calls(4, 0, 2)(Traffic)


@calls("fast", "slow", "none")
def by_mode(name: str) -> Tuple[str, bool]:
    mode = Mode.FAST if name == "fast" else Mode.SLOW
    if mode == Mode.FAST:
        return mode.value, True
    elif mode == Mode.SLOW:
        return mode.name, False
    return "", False


@torch.jit.script
class Stack:
    def __init__(self, limit: int) -> None:
        self.items: List[int] = []
        self.limit = limit

    def push(self, x: int) -> bool:
        if len(self.items) >= self.limit:
            return False
        self.items.append(x)
        return True

    def pop(self) -> int:
        assert len(self.items) > 0, "empty stack"
        return self.items.pop()

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> int:
        return self.items[i]

    def __contains__(self, x: int) -> bool:
        return x in self.items

    @property
    def top(self) -> int:
        return self.items[-1]


@calls((3, [1, 2, 3, 4]), (1, [5]), (2, []))
def use_stack(limit: int, xs: List[int]):
    s = Stack(limit)
    pushed = [s.push(x) for x in xs]
    first = s[0]
    has = 2 in s
    n = len(s)
    top = s.top
    taken: List[int] = []
    while len(s) > 0:
        taken.append(s.pop())
    taken.append(s.pop())
    return pushed, first, has, n, top, taken


@torch.jit.script
class Vec:
    def __init__(self, x: float, y: float):
        self.x = x
        self.y = y

    def __add__(self, o: "Vec") -> "Vec":
        return Vec(self.x + o.x, self.y + o.y)

    def __mul__(self, k: float) -> "Vec":
        return Vec(self.x * k, self.y * k)

    def __eq__(self, o: "Vec") -> bool:
        return self.x == o.x and self.y == o.y

    def __lt__(self, o: "Vec") -> bool:
        return self.norm() < o.norm()

    def __neg__(self) -> "Vec":
        return Vec(-self.x, -self.y)

    def norm(self) -> float:
        return math.sqrt(self.x**2 + self.y**2)

    @staticmethod
    def unit(angle: float) -> "Vec":
        return Vec(math.cos(angle), math.sin(angle))


@calls((3.0, 4.0), (0.0, 0.0))
def use_vec(x: float, y: float):
    a = Vec(x, y)
    b = (a + Vec(1.0, 1.0)) * 2.0
    c = -b
    vs = [b, a, c]
    vs.sort()
    u = Vec.unit(0.5)
    return b.x, b.y, a == Vec(x, y), a < b, c.norm(), [v.x for v in vs], u.x


@torch.jit.interface
class Shape:
    def area(self) -> float:
        pass

    def name(self, prefix: str) -> str:
        pass


@torch.jit.script
class Circle:
    def __init__(self, r: float):
        self.r = r

    def area(self) -> float:
        return 3.0 * self.r * self.r

    def name(self, prefix: str) -> str:
        return prefix + "circle"


@torch.jit.script
class Square:
    def __init__(self, a: float):
        self.a = a

    def area(self) -> float:
        return self.a * self.a

    def name(self, prefix: str) -> str:
        return prefix + "square"


@calls([1.0, 2.0, 3.0], [])
def total_area(sizes: List[float]) -> Tuple[float, List[str]]:
    shapes: List[Shape] = []
    for i, s in enumerate(sizes):
        if i % 2 == 0:
            shapes.append(Circle(s))
        else:
            shapes.append(Square(s))
    total = 0.0
    names: List[str] = []
    for sh in shapes:
        total += sh.area()
        names.append(sh.name("a "))
    return total, names


class Point(NamedTuple):
    x: int
    y: int
    tag: str = "p"


class Box(NamedTuple):
    low: Point
    high: Point
    weights: List[float]


@calls((1, 2), (-3, 4))
def named(x: int, y: int):
    p = Point(x, y)
    q = Point(y=x, x=y, tag="q")
    b = Box(p, q, [0.5, float(x)])
    a, c, t = q
    return p, b, b.low.x + b.high[1], a + c, t, str(p), len(p)


# -- Optional, Union, Any -----------------------------------------------------------------------------------------


@calls((None, None), (3, None), (None, torch.ones(2)), (4, torch.ones(3)))
def refine(a: Optional[int], t: Optional[Tensor]):
    n = 0
    if a is not None:
        n += a
    if t is None:
        t = torch.zeros(1)
    b = a if a is not None else -1
    if a is None or a > 3:
        n += 100
    if a is not None and t.numel() == 3:
        n += a * 1000
    return n, b, t + 1


@calls(([1, None, 3],), ([],), ([None],))
def optional_items(xs: List[Optional[int]]):
    total = 0
    missing: List[int] = []
    for i, x in enumerate(xs):
        if x is None:
            missing.append(i)
        else:
            total += x
    return total, missing


@calls(1, 2.5, "s", [1, 2], None)
def what(x: Union[int, float, str, List[int], None]) -> str:
    if x is None:
        return "none"
    if isinstance(x, int):
        return "int " + str(x + 1)
    elif isinstance(x, float):
        return "float " + str(x * 2)
    elif isinstance(x, str):
        return "str " + x.upper()
    else:
        return "list " + str(len(x))


@calls(1, 2.0, "a", (3, "x"), [1, 2], torch.ones(2))
def any_kind(x: Any) -> str:
    if isinstance(x, (int, float)):
        return "number"
    if isinstance(x, str):
        return "text " + x
    if torch.jit.isinstance(x, List[int]):
        return "ints " + str(sum(x))
    if torch.jit.isinstance(x, Tuple[int, str]):
        return "pair " + x[1]
    if isinstance(x, Tensor):
        return "tensor " + str(x.dim())
    return "?"


# -- Containers --------------------------------------------------------------------------------------------------


@calls(([3, 1, 2], 5), ([], 0), ([7, 7], 7))
def list_work(xs: List[int], y: int):
    a = xs.copy()
    a.append(y)
    a.extend([9, 8])
    a.insert(1, 42)
    b = a[1:4]
    a[0] = -1
    c = [x * x for x in a]
    a.reverse()
    d = sorted(a)
    e = a.pop(0)
    del a[0]
    a += [1]
    n = a.count(7)
    found = a.index(9) if 9 in a else -1
    return a, b, c, d, e, n, found, len(a), min(d), max(d), sum(d), a == b, a[-1], a + [3], xs * 2


@calls(({"a": 1, "b": 2}, "a"), ({}, "z"), ({"z": 5}, "z"))
def dict_work(d: Dict[str, int], k: str):
    e = d.copy()
    e["new"] = 10
    got = e.get(k)
    other = e.get("none", -1)
    keys = [x for x in e.keys()]
    values = [x for x in e.values()]
    items = [(a, b) for a, b in e.items()]
    e.update({"b": 20, "c": 30})
    popped = e.pop("new")
    has = k in e
    e.setdefault("s", 77)
    if has:
        del e[k]
    inverse = {v: q for q, v in e.items()}
    e.clear()
    return got, other, keys, values, items, popped, has, inverse, len(e), len(d), dict([("x", 1), ("y", 2)]), {i: i * i for i in range(3)}


@calls((torch.arange(6.0).view(2, 3), 2), (torch.zeros(1, 1), 1))
def dict_of_lists(x: Tensor, n: int) -> Dict[str, List[Tensor]]:
    out: Dict[str, List[Tensor]] = {}
    for i in range(n):
        key = "even" if i % 2 == 0 else "odd"
        if key not in out:
            out[key] = torch.jit.annotate(List[Tensor], [])
        out[key].append(x * i)
        out[key].append(x.t())
    return out


@calls(3, 0)
def nested(n: int):
    grid: List[List[int]] = [[i * j for j in range(n)] for i in range(n)]
    table: Dict[int, Dict[str, Tuple[int, float]]] = {}
    for i in range(n):
        table[i] = {"t": (i, i / 2)}
        table[i]["u"] = (-i, 0.5)
    flat: List[int] = []
    for row in grid:
        for v in row:
            flat.append(v)
    return grid, table, flat, len(table)


@calls(([1, 2, 3], ["a", "b", "c"]), ([], []))
def zips(a: List[int], b: List[str]):
    out: List[Tuple[int, str]] = []
    for x, y in zip(a, b):
        out.append((x, y))
    pairs = {y: x for x, y in zip(a, b)}
    idx = [i for i, _ in enumerate(b)]
    rev = a[::-1]
    return out, pairs, idx, rev, list(range(5, 0, -2)), any([x > 2 for x in a]), all([x > 0 for x in a]), list(zip(a, b))


@calls((1, 2.5, "a"), (0, 0.0, ""))
def tuples(a: int, b: float, c: str):
    t = (a, b, c)
    x, y, z = t
    u = (t, (x, [y]))
    first, (second, third) = u
    swapped = (z, y, x)
    return t[0], t[-1], t[1:], swapped, first, third, len(t), u[1][1][0]


@calls([4, 2, 9, 1], [])
def quicksort(xs: List[int]) -> List[int]:
    """Iterative: scripted functions cannot recurse."""
    out = xs.copy()
    todo: List[Tuple[int, int]] = [(0, len(out) - 1)]
    while len(todo) > 0:
        lo, hi = todo.pop()
        if lo >= hi:
            continue
        pivot = out[hi]
        at = lo
        for i in range(lo, hi):
            if out[i] < pivot:
                out[i], out[at] = out[at], out[i]
                at += 1
        out[at], out[hi] = out[hi], out[at]
        todo.append((lo, at - 1))
        todo.append((at + 1, hi))
    return out


# -- Control flow -----------------------------------------------------------------------------------------------


@calls(0, 3, 7, 100)
def early(n: int) -> str:
    for i in range(n):
        if i == 5:
            return "five"
        for j in range(i):
            if i * j == 2:
                return "two"
            if j > 1:
                break
    while True:
        n -= 1
        if n < 0:
            return "done"
    return "never"


@calls((5, 2), (1, 1), (0, 3))
def loops(n: int, k: int):
    out: List[int] = []
    i = 0
    while i < n and len(out) < 10:
        i += 1
        if i % k == 0:
            continue
        for j in range(0, i, k):
            if j == 3:
                break
            out.append(j)
    x = 1 if n > 2 else (2 if n == 1 else 3)
    y = n > 0 and k / n > 0.1 or k == 3
    z = not (n == k) and n <= 5 <= 10
    return out, i, x, y, z


@calls(-1, 0, 5, 12)
def errors(n: int) -> int:
    if n < 0:
        raise ValueError(f"negative: {n}")
    elif n == 0:
        raise RuntimeError("zero")
    elif n > 10:
        raise IndexError("too large: {}".format(n))
    assert n != 5, f"five is {n}"
    return n


class MyError(Exception):
    pass


@calls(1, 2)
def own_error(n: int) -> int:
    if n == 1:
        raise MyError("mine " + str(n))
    return n


@calls(([1, 2], 5), ([1, 2], -3), ([1, 2], -2))
def index_error(xs: List[int], i: int) -> int:
    return xs[i]


@calls(({"a": 1}, "b"), ({"a": 1}, "a"))
def key_error(d: Dict[str, int], k: str) -> int:
    return d[k]


@calls((1, 0), (7, 2), (-7, 2))
def division(a: int, b: int):
    return a / b, a // b, a % b, divmod(a, b), a**b, a << b, a >> b, a & b, a | b, a ^ b, -a, abs(a)


@calls((7.5, 2.0), (-7.5, 2.0), (1.0, 0.5))
def float_math(a: float, b: float):
    return (a // b, a % b, a**b, math.floor(a), math.ceil(a), round(a), int(a), abs(a), math.fmod(a, b),
            math.copysign(a, -b), math.isnan(a), math.isinf(b), math.exp(b), math.log(b), math.log(b, 2), math.sqrt(b), math.pow(a, 2.0),
            math.atan2(a, b), math.degrees(a), math.radians(a), math.gcd(12, 18), math.factorial(5), math.pi,
            math.modf(a), math.frexp(a), math.ldexp(a, 3), math.erf(b), math.gamma(b), math.lgamma(b), max(a, b), min(a, 1.0),
            a > b, a == b, float(3), complex(a, b) * 2, complex(a, b) == complex(a, b), bool(a), math.log10(b), math.log1p(b))


# -- Tensors ----------------------------------------------------------------------------------------------------------


@calls(torch.arange(24.0).view(2, 3, 4))
def slicing(x: Tensor):
    y = x.clone()
    y[0] = 1.5
    y[:, 1] = -1
    y[..., 0] += 10
    y[1, 1:3, ::2] = torch.tensor([[7.0, 8.0], [9.0, 10.0]])
    y[y > 20] = 0
    y[0, torch.tensor([0, 2])] = 3.0
    idx = torch.tensor([1, 0])
    return (y, x[1], x[-1, ..., 2], x[:, None].shape, x[0, 1, 2].item(), x[:, 1:, :2], x[idx], x[idx, idx], x[x > 12], x[0][1][2:],
            x[:, [0, 2]], x[None, ..., None].size(), x[torch.tensor([True, False])])


@calls((torch.arange(6.0).view(2, 3), 2), (torch.ones(1, 4), 0))
def mixed_math(x: Tensor, n: int):
    a = x * n + 1 - n / 3
    b = 2**x
    c = -x // 2
    d = (x > 1) & (x < 4) | (x == 0)
    e = ~d
    f = n - x
    g = 1.0 / (x + 1)
    h = x @ x.t()
    x2 = x.clone()
    x2 += 1
    x2 *= n + 0.5
    x2 -= x
    x2 /= 2
    return a, b, c, d, e, f, g, h, x2, x % 3, abs(-x), x.sum().item() > 3, bool((x > 0).any()), int(x.sum()), float(x.mean()), len(x)


@calls((torch.ones(2, 3), 4), (torch.zeros(3, 1), 2))
def growing(x: Tensor, n: int):
    xs: List[Tensor] = [x]
    for i in range(n):
        last = xs[-1]
        if bool(last.sum() > 20):
            last = last / 2
        xs.append(torch.cat([last, x * i], dim=0))
    return torch.stack([t.sum() for t in xs]), xs[-1].shape, torch.cat(xs).size(0), [t.size(0) for t in xs]


@calls(torch.tensor([3.0, -1.0, 2.0]), torch.tensor([]), torch.tensor([float("nan"), 1.0]))
def tensor_loop(x: Tensor):
    total = 0.0
    out: List[float] = []
    for v in x:
        if bool(v > 0):
            total += v.item()
        out.append(float(v))
    return total, out, out, str(x.dtype), x.device.type, x.dtype == torch.float


@calls((torch.arange(4), torch.arange(4.0)), (torch.tensor([1, 0]), torch.tensor([1.5])))
def dtypes(a: Tensor, b: Tensor):
    return (a + b, a / 2, a // 2, a.to(torch.float16) * 2, b.to(torch.int32), a.to(torch.bool), b.double(), a.type_as(b), (a + 1.5).dtype,
            (a * 2).dtype == torch.int64, torch.result_type(a, b), a.is_floating_point(), b.is_floating_point(), b.half().float(),
            torch.promote_types(torch.int32, torch.float16), torch.zeros(2, dtype=torch.long, device=a.device))


@calls((torch.randn(2, 5), 3), (torch.randn(1, 2), 1))
def factories(x: Tensor, n: int):
    return (torch.zeros(n), torch.ones(n, 2), torch.full((2,), n), torch.full([2], 1.5, dtype=torch.float64), torch.arange(n),
            torch.arange(0, n, 0.5), torch.linspace(0, 1, n), torch.eye(n), torch.empty(0), torch.zeros_like(x), torch.ones_like(x),
            torch.tensor([1, n]), torch.tensor(n), torch.tensor(2.5), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([True]),
            x.new_zeros(2), x.new_full([1], 3), torch.scalar_tensor(4), torch.as_tensor([1.0, 2.0]), torch.full_like(x, n),
            torch.triu(torch.ones(n, n)), torch.tril_indices(n, n), torch.meshgrid([torch.arange(n), torch.arange(2)], indexing="ij"))


# -- Modules --------------------------------------------------------------------------------------------------------------


class Blocks(nn.Module):
    scale: Final[float]

    def __init__(self) -> None:
        super().__init__()
        self.scale = 0.5
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.heads = nn.ModuleDict(OrderedDict([("cls", nn.Linear(4, 2)), ("box", nn.Sequential(nn.Linear(4, 3), nn.Tanh()))]))
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


calls((torch.tensor([1.0, 2.0]), "a"), (torch.tensor([1.0, 2.0]), "b"), (torch.tensor([3.0, 2.0]), "a"))(Counter)


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

    def forward(self, x: Tensor, mask: Optional[Tensor] = None, cache: Optional[Dict[str, Tensor]] = None):
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


calls((torch.ones(1, 3, 6),), (torch.linspace(0, 1, 12).view(1, 2, 6), torch.tril(torch.ones(2, 2)), {}),
      (torch.ones(1, 1, 6), None, {"k": torch.ones(1, 2, 4, 3), "v": torch.ones(1, 2, 4, 3)}))(Attention)


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)
        self.drop = nn.Dropout(0.5)

    def forward(self, xs: Tensor, state: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
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
    return n * m, s, y.size(), x.numel(), x.dim(), x.size(d), x.permute(1, 0).stride(), x.is_contiguous()
