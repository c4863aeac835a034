"""Programs with classes, refined types and containers."""

import enum
import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import torch
from script_programs import calls
from torch import Tensor, nn

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
    return (
        got,
        other,
        keys,
        values,
        items,
        popped,
        has,
        inverse,
        len(e),
        len(d),
        dict([("x", 1), ("y", 2)]),
        {i: i * i for i in range(3)},
    )


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
    return (
        out,
        pairs,
        idx,
        rev,
        list(range(5, 0, -2)),
        any([x > 2 for x in a]),
        all([x > 0 for x in a]),
        list(zip(a, b)),
    )


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
