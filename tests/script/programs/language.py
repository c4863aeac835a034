"""TorchScript as people write it.  Every function whose name begins with case_ is compiled from this text and by
PyTorch, and called with each row of CALLS (or without arguments)."""

import math
from enum import Enum
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor

Ints = List[int]


class Color(Enum):
    RED = 1
    GREEN = 2
    BLUE = 3


class Mode(Enum):
    FAST = "fast"
    SLOW = "slow"


class Point(NamedTuple):
    x: int
    y: float = 2.5
    label: Optional[str] = None


class Account:
    def __init__(self, owner: str, balance: int = 0):
        self.owner = owner
        self.balance = balance
        self.log: List[str] = []
        self.limits: Dict[str, int] = {"day": 100}
        self.last = torch.jit.annotate(Optional[int], None)

    def deposit(self, amount: int) -> int:
        self.balance += amount
        self.last = amount
        self.log.append(f"+{amount}")
        return self.balance

    @staticmethod
    def fee(amount: int) -> int:
        return amount // 10

    @property
    def doubled(self) -> int:
        return self.balance * 2

    def __len__(self) -> int:
        return len(self.log)

    def __getitem__(self, i: int) -> str:
        return self.log[i]

    def __setitem__(self, i: int, v: str) -> None:
        self.log[i] = v

    def __contains__(self, text: str) -> bool:
        return text in self.log

    def __add__(self, other: int) -> int:
        return self.balance + other

    def __iadd__(self, other: int):
        self.balance += other * 100
        return self

    def __eq__(self, other: int) -> bool:
        return self.balance == other

    def __lt__(self, other: int) -> bool:
        return self.balance < other

    def __neg__(self) -> int:
        return -self.balance

    def __bool__(self) -> bool:
        return self.balance > 0

    def __str__(self) -> str:
        return self.owner + ":" + str(self.balance)

    def __call__(self, n: int) -> int:
        return self.balance * n


class Guard:
    def __init__(self, log: List[str], name: str):
        self.log = log
        self.name = name

    def __enter__(self) -> int:
        self.log.append("in " + self.name)
        return len(self.log)

    def __exit__(self, type: Any, value: Any, tb: Any) -> None:
        self.log.append("out " + self.name)


class Node:
    def __init__(self, value: int):
        self.value = value
        self.next = torch.jit.annotate(Optional[int], None)

    def grow(self) -> "Node":
        out = Node(self.value + 1)
        out.next = self.value
        return out


@torch.jit.interface
class Shape:
    def area(self, scale: float) -> float:
        pass


class Square:
    def __init__(self, side: float):
        self.side = side

    def area(self, scale: float) -> float:
        return self.side * self.side * scale


class Circle:
    def __init__(self, r: float):
        self.r = r

    def area(self, scale: float) -> float:
        return 3.0 * self.r * self.r * scale


def helper(a: int, b: int = 2, c: int = 3) -> int:
    return a * 100 + b * 10 + c


def area_of(s: Shape, scale: float) -> float:
    return s.area(scale)


def case_constants() -> Tuple[float, float, float, int]:
    return math.pi, math.sqrt(16.0), math.floor(2.5) + math.inf, torch.int64


def case_enums(n: int) -> Tuple[str, int, bool, List[str], str]:
    c = Color.RED if n == 1 else Color.BLUE
    names: List[str] = []
    for k in Color:
        names.append(k.name)
    return c.name, c.value, c == Color.BLUE, names, Mode.SLOW.value


def case_named_tuple(n: int) -> Tuple[int, float, float, int]:
    p = Point(n)
    q = Point(y=1.5, x=n + 1, label="q")
    a, b, label = q
    total = 0
    if label is not None:
        total = len(label)
    return p.x + q.x, p.y + q.y, q[1] + b, a + total


def case_class(n: int) -> Tuple[int, int, int, int, str, bool, int, bool, str]:
    a = Account("ann", n)
    a.deposit(5)
    a += 1
    a[0] = a[0] + "!"
    last = a.last
    if last is None:
        last = -1
    return a.balance, a.doubled, len(a), Account.fee(250) + a.deposit(1), a[0], "+5!" in a, a + 1, a == n + 106, str(a)


def case_magic(n: int) -> Tuple[int, bool, int, int]:
    a = Account("bob", n)
    r = 0
    if a:
        r = 1
    return -a, a < 10, a(3), r


def case_defaults(n: int) -> Tuple[int, int, int, int]:
    return helper(n), helper(n, 5), helper(n, c=7), helper(b=1, a=n, c=0)


def case_with(n: int) -> Tuple[List[str], int]:
    log: List[str] = []
    total = 0
    with Guard(log, "a") as x, Guard(log, "b") as y:
        total = x * 10 + y + n
    with Guard(log, "c"):
        log.append("inside")
    return log, total


def case_with_return(n: int) -> Tuple[List[str], int]:
    log: List[str] = []
    with Guard(log, "a"):
        log.append("x")
    return log, n


def case_interface(n: float) -> float:
    return area_of(Square(n), 2.0) + area_of(Circle(n), 1.0)


def case_comprehensions(xs: List[int]) -> Tuple[List[int], List[float], Dict[int, int], List[str], List[List[int]], List[int]]:
    pairs = [(x, x * 2) for x in xs]
    return ([x * x for x in xs], [float(x) / 2 for x in xs], {x: x * x for x in xs}, [str(a) + str(b) for a, b in pairs],
            [[y + x for y in xs] for x in xs], [i + x for i, x in enumerate(xs)])


def case_strings(s: str, n: int) -> Tuple[str, str, str, List[str], str, str, bool, str, int]:
    name = "n"
    return (f"{name}={n}!", "{} and {}".format(s, n), s.upper() + s[1:3] + s[-1], s.split(","), ",".join([s, s]), "%s-%d" % (s, n),
            s.startswith("a"), s.replace("a", "b").strip(), s.find("b"))


def case_ternary(x: Optional[int], n: int) -> Tuple[int, str, int]:
    a = x if x is not None else -1
    b = "pos" if n > 0 else "neg" if n < 0 else "zero"
    c = x + n if x is not None and x > n else n
    return a, b, c


def case_refine(x: Optional[Tensor], y: Optional[List[int]]) -> Tensor:
    if x is None:
        x = torch.zeros(2)
    if y is not None and len(y) > 0:
        x = x + y[0]
    if y is None:
        return x
    assert y is not None
    return x * len(y)


def case_isinstance(v: Union[int, str, List[int]]) -> str:
    if isinstance(v, int):
        return "int " + str(v + 1)
    elif isinstance(v, str):
        return "str " + v.upper()
    else:
        return "list " + str(len(v))


def case_any(v: int) -> str:
    items: List[Any] = [v, "x", 1.5]
    out = ""
    for i in items:
        if isinstance(i, int):
            out = out + "i"
        elif isinstance(i, str):
            out = out + i
        else:
            out = out + "?"
    return out


def case_loops(n: int) -> Tuple[int, int, List[int]]:
    total = 0
    for i in range(n):
        if i == 2:
            continue
        if i > 6:
            break
        total += i
    k = n
    while k > 0:
        k -= 3
        if k == 1:
            break
    seen: List[int] = []
    for i in range(10, 0, -n):
        for j in range(i):
            if j > 1:
                break
            seen.append(i * 10 + j)
    return total, k, seen


def case_iteration(xs: List[int], d: Dict[str, int]) -> List[str]:
    out: List[str] = []
    for i, (a, b) in enumerate(zip(xs, xs[1:])):
        out.append(f"{i}:{a}-{b}")
    for k, v in d.items():
        out.append(k + str(v))
    for k in d:
        out.append(k)
    for v in d.values():
        out.append(str(v))
    for ch in "xyz":
        out.append(ch)
    for p, q in [(1, "u"), (2, "v")]:
        out.append(q + str(p))
    for e in (1, "two", 3.0):
        out.append(str(e))
    for i, x in enumerate(xs, 5):
        out.append(str(i + x))
    return out


def case_augmented(xs: List[int], t: Tensor) -> Tuple[List[int], Tensor, Dict[str, int], List[List[int]]]:
    xs[0] += 10
    xs[-1] *= 2
    xs += [7]
    t = t.clone()
    t[0] += 1
    t[1:] *= 2
    t[t > 5] -= 1
    d = {"a": 1}
    d["a"] += 5
    d["b"] = d["a"] * 20 // 7
    grid = [[1, 2], [3, 4]]
    grid[1][0] += 5
    return xs, t, d, grid


def case_unpack(t: Tensor) -> Tuple[int, int, List[int], Tensor]:
    (a, b), c = (1, 2), 3
    first, *rest = (1, 2, 3)
    r: List[int] = [a, b, c, first]
    for x in rest:
        r.append(x)
    n, m = t.shape
    u, v = t.unbind(0)
    a, b = b, a
    return n, m, r, u - v + a


def case_star_args(xs: Tuple[int, int]) -> int:
    return helper(*xs)


def case_chained(a: int, b: int, c: int) -> Tuple[bool, bool, bool, bool]:
    return a < b < c, a == b == c, not a < b, (a in [b, c]) or (a not in [1, 2])


def case_raise(n: int) -> int:
    if n == 1:
        raise ValueError("one")
    if n == 2:
        raise RuntimeError(f"two {n}")
    assert n != 3, "three"
    assert n != 4
    if n == 5:
        raise NotImplementedError
    if n == 6:
        raise KeyError("a", "b")
    return n


def case_early(n: int) -> str:
    for i in range(n):
        if i * i > n:
            return "found " + str(i)
        for j in range(i):
            if i + j == 7:
                return "seven"
    if n > 100:
        return "big"
    return "none"


def case_nested_def(n: int) -> int:
    x = 0
    for i in range(n):
        y = i if i % 2 == 0 else -i
        x = x + y
    return x


def case_numbers(a: int, b: float) -> Tuple[float, int, int, float, float, int, int, float, float, int]:
    return (a / 2, a // 2, a % 3, a ** 2, b ** 2, a << 2, a & 6 | 1 ^ 3, abs(b - 10), round(b), int(b) + max(a, 3) - min(a, 1))


def case_containers(n: int) -> Tuple[List[int], Dict[str, List[int]], Tuple[int, str], List[Tuple[int, str]], int]:
    d: Dict[str, List[int]] = {}
    for i in range(n):
        key = "even" if i % 2 == 0 else "odd"
        if key not in d:
            d[key] = torch.jit.annotate(List[int], [])
        d[key].append(i)
    xs = list(range(n))
    xs.reverse()
    xs.extend([n, n + 1])
    xs.insert(1, -1)
    last = xs.pop()
    del xs[0]
    pairs = [(i, str(i)) for i in range(n)]
    return sorted(xs), d, (last, "x"), pairs, sum(xs) + len(d)


def case_optional_attribute(n: int) -> int:
    node = Node(n).grow()
    following = node.next
    if following is not None:
        return following * 10 + node.value
    return -1


def case_tensors(x: Tensor) -> Tuple[Tensor, Tensor, Tensor, int, bool]:
    y = x[:, 1:][0]
    z = x[..., None, -1]
    w = x[[0, 1], [1, 0]]
    return F.relu(x - 2.0) @ x.t(), y + z.squeeze(), w, x.size(1), bool((x > 0).all())


def case_indexed(xs: Ints, i: int) -> Tuple[int, List[int], List[int]]:
    return xs[i], xs[::2], xs[-2:]


def case_print(n: int) -> int:
    print("n is", n, [n, n], {"a": 1.5}, (1, "x"), None, True)
    return n


def case_while_true(n: int) -> int:
    k = 0
    while True:
        k += 1
        if k * k >= n:
            break
    return k


def case_unannotated(x, y):
    return x + y * 2


def case_complex(z: complex) -> Tuple[complex, float]:
    w = z * 2j + 1
    return w, abs(z)


def case_bool_ops(a: bool, b: bool, n: int) -> Tuple[bool, bool, bool, int]:
    return a and b, a or b, not a, n if a else -n


CALLS = {
    "case_enums": [(1,), (2,)],
    "case_named_tuple": [(4,)],
    "case_class": [(7,)],
    "case_magic": [(7,), (0,)],
    "case_defaults": [(4,)],
    "case_with": [(4,)],
    "case_with_return": [(4,)],
    "case_interface": [(3.0,)],
    "case_comprehensions": [([1, 2, 3],), ([],)],
    "case_strings": [("abc,d", 4)],
    "case_ternary": [(None, 1), (5, -2), (5, 0), (3, 8)],
    "case_refine": [(None, None), (torch.ones(2), None), (torch.ones(2), [4, 5]), (None, [])],
    "case_isinstance": [(1,), ("x",), ([1, 2],)],
    "case_any": [(1,)],
    "case_loops": [(1,), (3,), (9,)],
    "case_iteration": [([1, 2, 3], {"a": 1, "b": 2}), ([], {})],
    "case_augmented": [([1, 2, 3], torch.arange(4.0))],
    "case_unpack": [(torch.arange(4.0).reshape(2, 2),)],
    "case_star_args": [((3, 4),)],
    "case_chained": [(1, 2, 3), (2, 2, 2), (3, 1, 2)],
    "case_raise": [(0,), (1,), (2,), (3,), (4,), (5,), (6,)],
    "case_early": [(1,), (5,), (30,), (200,)],
    "case_nested_def": [(5,)],
    "case_numbers": [(7, 2.5), (-7, -0.5)],
    "case_containers": [(5,)],
    "case_optional_attribute": [(5,)],
    "case_tensors": [(torch.arange(4.0).reshape(2, 2),)],
    "case_indexed": [([1, 2, 3], 1), ([1, 2, 3], -1), ([1, 2, 3], 5)],
    "case_print": [(3,)],
    "case_while_true": [(50,)],
    "case_unannotated": [(torch.ones(2), torch.ones(2))],
    "case_complex": [(1 + 2j,)],
    "case_bool_ops": [(True, False, 3), (False, False, 3)],
}
