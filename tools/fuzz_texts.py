"""Seeds that are text: TorchScript, graphs, schemas (fuzz_seeds.py)."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

TOP = pathlib.Path(__file__).resolve().parent.parent

TEXT = """
class M(Module):
  __parameters__ = ["w", ]
  w : Tensor
  training : bool
  def forward(self: __torch__.M, x: Tensor, k: Optional[List[int]]=None) -> Tuple[Tensor, Dict[str, int]]:
    if torch.gt(x, 0):
      y = ops.prim.NumToTensor(1)
    else:
      y, z = annotate(List[int], []), {"a": 1.5e-3, "b": "\\303\\251"}
    for i in range(10):
      y = torch.add(x, y[1:, ..., None], alpha=-2j) if not True else f"{x}"
    while not bool(y) and x is not None: x += 1
    return (y, z)
"""
UNIT = """
import torch
import math as m, enum
import torch.nn.functional as F
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union
from enum import Enum
from torch import Tensor

ONE = 1
PAIR = (1, -2.5)
Ints = List[int]

class Mode(Enum):
    A = 1
    B = 2

class Point(NamedTuple):
    x: int
    y: float = 2.5

class Acc(object):
    total: int
    def __init__(self, start: int = -3):
        self.total = start
        self.names: Dict[str, int] = {}
    @property
    def twice(self) -> int:
        return self.total * 2
    @twice.setter
    def twice(self, v: int):
        self.total = v // 2
    @property
    def once(self) -> int:
        return self.total
    @staticmethod
    def make(k: int) -> "Acc":
        return Acc(k)
    def __add__(self, other: "Acc") -> "Acc":
        return Acc(self.total + other.total)
    def __len__(self) -> int:
        return 3

def commented(x, n, o):
    # type: (Tensor, int, Optional[Tensor]) -> Tuple[Tensor, int]
    if o is not None and hasattr(o, "shape"):
        return o, n
    return x, n

def built(x: Tensor, n: int, o: Optional[int], u: Union[int, str, None], a: Any):
    t = tuple((1, 2, 3))
    d = dict(a=1, b=2)
    e = dict([(1, 2.0), (3, 4.0)])
    l = list((1, 2))
    z: Ints = list()
    f = torch.jit.fork(commented, x, n, o=None)
    g = torch.jit.wait(f)
    h = getattr(x, "shape", None)
    if torch.jit.is_scripting() and not torch.jit.is_tracing():
        n += ONE
    if isinstance(u, (int, str)) or isinstance(a, tuple) or isinstance(a, list):
        n -= 1
    for i, (p, q) in enumerate(zip(range(3), [1.0, 2.0, 3.0]), 1):
        n += i + p + int(q)
    k = [v * 2 for v in l]
    c = {s: 1 for s in ["a", "b"]}
    r = x[..., None, 1:, ::2, 0] if x.dim() > 3 else x
    x[0] = 1
    x[1:, 0] += 2
    w = t[-1] + t[0:2][0] + (1, 2.0, "a")[0]
    acc = Acc() + Acc.make(2)
    acc.twice = 4
    mode = Mode.A
    assert len(acc) == 3, f"{n} {w} {mode.name}"
    with torch.no_grad():
        y = F.relu(x) @ x
    if m.isnan(0.5) or float("inf") > m.pi ** 2:
        raise ValueError("x", n)
    while True:
        n = n * 2 if n % 3 else n << 1
        if n > 100 or (o is None and n == 5) or n in l:
            break
        elif n < -9:
            continue
    point = Point(1)
    del l[0]
    print("a", n, x.dtype, x.device, point.y, PAIR)
    return max(1, 2), sorted(b), any([True]), len(k), c["a"], abs(-1), y[y == 1], h
"""
SMALL = [
    "def f(x: Tensor, *a): return x",
    "async def f(x): return x",
    "class C(torch.nn.Module):\n  def f(self): return 1\ndef g(): return C()",
    "class C(Other):\n  pass\ndef g(): return C()",
    "class C:\n  @classmethod\n  def f(cls): return 1\ndef g(): return C.f()",
    "def f():\n  global a, b\n  return 1",
    "def f(t: Tuple[int, str], i: int): return t[i]",
    "def f(t: Tuple[int, int], i: int): return t[i], t[0:i], t[::0]",
    "def f(x: int): return x[0]",
    "def f(x: Tensor): return x[..., ...], x[..., 0]",
    "def f(a: int = -1, b: float = -0.5, c: complex = 2j, d: List[int] = [1], e: Tuple[int, str] = "
    "(1, 'x'), f: Dict[str, int] = {'a': 1}): return a",
    "def f(d: torch.device = torch.device('cpu'), t: torch.dtype = torch.float32, n: Optional[int] "
    "= None): return d",
    "def f(x):\n  # type: (int, int) -> int\n  return x",
    "def f(x):\n  # type: (...) -> int\n  return x",
    "def f(x):  # type: ignore\n  return x",
    "def f(x, **k): return x",
    "def f(x):\n  try:\n    return x\n  except ValueError as e:\n    pass\n  finally:\n    pass",
    "from . import a\nfrom ..b import *\nimport torch.nn.functional as F\nfrom torch.nn import "
    "functional\ndef f(x): return functional.relu(x)",
    "def f(x):\n  if x:\n    return 1",
    "def f(x: Optional[Tensor]):\n  if 0 < 1 and None is x or x is not None and x.dim() == 1:\n    "
    "return 1\n  return 2",
    "def f(x: int): return 1 if x else 'a'",
    "def f(n: int):\n  def inner(q: int) -> int:\n    return q + n\n  return inner(1), (lambda v: "
    "v), f'{n:>3} {n!r}'",
    "def f(l: List[int]): return [v for v in l if v > 1]",
    "def f(x: int): return super().f(x)",
    "def f(x: int): return tuple([1, 2])",
    "def f(x):\n  a = zip()\n  b = range(1, 2, step=3)\n  c = sorted([1], key=1)\n  return "
    "dict([1], a=1)",
    "def f(a: List[Tensor]):\n  a[0], b = a[1], 2\n  (c, *d) = a\n  e = f = 1\n  return d",
    "def f(x: Tensor): return torch.tensor([[1, 2], [3, 4]], dtype=torch.float32), "
    "torch.jit.annotate(List[int], []), F.relu(x)",
]
ARCHIVED = """
class M(Module):
  __parameters__ = ["w", ]
  __buffers__ = ["b", ]
  __forward_pre_hooks__ = ["pre", ]
  __forward_hooks__ = ["post", ]
  __annotations__["0"] = int
  training : bool
  a : int
  K : Final[Dict[str, int]] = {"a": 1}
  L : Final[List[float]] = [inf, -1.5, nan]
  D : Final[Device] = torch.device("cpu")
  Z : Final[complex] = 2j
  E : Final[__torch__.Color] = __torch__.Color.red
  C : Final[int] = CONSTANTS.c0
  def forward(self: __torch__.M, x: Tensor, *, k: int=CONSTANTS.c0) -> Tensor:
    _0 = uninitialized(Tensor)
    _1 = uninitialized(List[int])
    _2 = uninitialized(Dict[str, int])
    _3 = (uninitialized(str), uninitialized(float), uninitialized(Device), uninitialized(__torch__.Color), uninitialized(Union[int, str]))
    _4 = uninitialized(__torch__.P)
    o = __torch__.C2.__new__(__torch__.C2)
    _5 = (o).__init__(1, )
    c = ops.prim.unchecked_unwrap_optional(annotate(Optional[int], 3))
    d = unchecked_cast(List[int], [1])
    e = torch.format("{}", 1)
    f = fork(self.other, x)
    g = torch.wait(f)
    i = (self).f(x, )
    ops.prim.RaiseException("x", "builtins.ValueError")
    return torch.add(x, x, alpha=k)
  def other(self: __torch__.M, x: Tensor) -> Tensor:
    def lam(q: Tensor) -> Tensor:
      return torch.neg(q)
    return lam(x)
  def pre(self: __torch__.M, x: Tuple[Tensor]) -> Tuple[Tensor]:
    return x
  def post(self: __torch__.M, x: Tuple[Tensor], y: Tensor) -> Tensor:
    return y
class Color(Enum):
  red = 1
  green = 2
class P(NamedTuple):
  x : int
  y : float
class I(Interface):
  def f(self: __torch__.I, x: int) -> int:
    pass
class C2:
  x : int
  def __init__(self: __torch__.C2, x: int) -> NoneType:
    self.x = x
  def get(self: __torch__.C2) -> int:
    return self.x
"""
GRAPHS = [
    """graph(%x : Tensor,
      %n.1 : int,
      %l : int[],
      %o : Tensor?,
      %d : Dict(str, Tensor)):
  %2 : int = prim::Constant[value=1]()
  %3 : float = prim::Constant[value=0.10000000000000001]()
  %4 : float = prim::Constant[value=-3.]()
  %5 : str = prim::Constant[value="a\\n\\"\\303\\251"]()
  %6 : NoneType = prim::Constant()
  %7 : int[] = prim::Constant[value=[1, 2, 3]]()
  %8 : (int, str) = prim::Constant[value=(1, "x")]()
  %9 : Device = prim::Constant[value="cpu"]()
  %10 : complex = prim::Constant[value=1.5-2.j]()
  %11 : Dict(str, int) = prim::Constant[value={"a": 1}]()
  %12 : int? = prim::Constant()
  %13 : bool = aten::gt(%n.1, %2)
  %t : Tensor = prim::Constant[value={1}]()
  %inf : float = prim::Constant[value=inf]()
  %b : bool = prim::Constant[value=1]()
  %y : int, %z : int = prim::If(%13) # f.py:3:4
    block0():
      %16 : int = aten::add(%n.1, %2)
      -> (%16, %2)
    block1():
      -> (%n.1, %n.1)
  %w : int = prim::Loop(%n.1, %13, %2)
    block0(%i : int, %c : int):
      %r : int = aten::mul(%i, %c)
      -> (%13, %r)
   = prim::Print(%y, %z)
  %17 : Tensor = foo::bar[a=1, b=[1, 2], c="x", d=1.5, e=[1.5, 2.], f=["a", "b"]](%x)
  %18 : bool = prim::isinstance[types=[int, str]](%y)
  %19 : Tensor = aten::relu_(%x)
  %20 : Tensor[] = prim::ListConstruct(%x, %19)
  %21 : (Tensor, int) = prim::TupleConstruct(%x, %2)
  %22 : Tensor, %23 : int = prim::TupleUnpack(%21)
  return (%17)
""",
    """graph(%x : Tensor):
  %f : Future[Tensor] = prim::fork_0(%x)
  %y : Tensor = aten::wait(%f)
  return (%y)
with prim::fork_0 = graph(%x : Tensor):
  return (%x)
""",
    """graph(%self : __torch__.M,
      %x.1 : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)):
  %w : Tensor = prim::GetAttr[name="w"](%self)
  %y : Tensor = prim::CallMethod[name="f"](%self, %x.1)
   = prim::SetAttr[name="w"](%self, %y)
  %z : Tensor = prim::CallFunction[name="__torch__.g"](%y)
  %e : Enum<__torch__.E> = foo::bar()
  %i : InterfaceType<I> = foo::bar()
  %n : NamedTuple(a : int, b : Tensor) = foo::bar()
  %u : Union[int, str] = foo::bar()
  %d : Dict(str, int[]) = foo::bar()
  return (%w, %z)
""",
    """graph(%x : Tensor):
  %1 : bool = prim::Constant[value=1]()
  %2 : int[] = prim::Constant[value=[]]()
  %3 : (int, float)[] = prim::Constant[value=[(1, 2.5), (3, nan)]]()
  %4 : Long() = prim::Constant[value={3}]()
  %5 : Tensor = prim::Constant[value={2.5}]()
  %6 : Dict(int, str?) = prim::Constant[value={1: "a", 2: None}]()
  %7 : Device = prim::Constant[value="cuda:1"]()
  %8 : Device = prim::Constant[value="meta"]()
  %9 : bool? = prim::Constant[value=True]()
  %10 : bool = prim::Constant[value=False]()
  %11 : str = prim::Constant[value="\\a\\x\\101"]()
  %12 : Tensor[] = cond[a=-1, b=[-1, 2], c=1e5, d=nan, e="x"](%x)
    block0(%q : Tensor):
      -> (%q)
  %13 : int, %14 : Tensor = foo::many(%x, %1, %2)
  return ()
""",
    "graph(%x : Tensor):\n  return (%x) # f.py:1:2\nmore",
    "graph():\n  %1 : Tensor = prim::Constant[value=<Tensor>]()\n  return ()",
    'graph():\n  %1 : int = prim::Constant[value="a]()\n  return ()',
    "graph():\n  %1 : Future[int] = prim::Constant[value=1]()\n  return ()",
    "graph():\n  %1 : Dict(int) = foo::bar()\n  return ()",
    "graph():\n  %1 : int = foo::bar[a=[" + ", ".join(["1"] * 70) + "]]()\n  return ()",
    "graph(%x : Tensor):\n  return (%x)\nwith prim::fork_7 = graph():\n  return ()",
    'graph():\n  %1 : Device = prim::Constant[value="moon"]()\n  return ()',
    'graph():\n  %1 : Tensor = prim::CallFunction[name="gone"]()\n  return ()',
]
SCHEMAS = [
    "aten::f.Tensor(Tensor(a!) self, Tensor(b|c -> *)? other, *, Scalar alpha=1, int[2] k=[1, 2], "
    "float p=0.5, "
    'str m="x", bool t=True, int? n=None, ScalarType? dtype=None, Device device="cpu", Tensor[] '
    "l=[], "
    "Dict(str, int) d, (int, str) u, Layout layout=strided, MemoryFormat f=contiguous_format, "
    "complex z=1j) -> Tensor(a!)",
    "prim::g(...) -> ...",
    "prim::h(Any x, Future(int) f, RRef(t) r, t[](a!) l, Generator? g, __torch__.torch.classes.q.C "
    "c) -> (Tensor(a), int n)",
    "a::b(SymInt[] s=[-1, 0], float[]? f=None, int x=-9223372036854775808, Stream s, Storage t, "
    "QScheme q) -> ()",
    "a::b(Tensor(a -> b) x, float f=1e-05, float g=inf, int reduction=Mean, str s='q\\'\\n', "
    "Tensor[](a!) o) -> Tensor[](a!)",
    "a::b(int[3](a) x=1, bool[4] m, Optional[int] o, Union(int, float) u, List(int) l, Tensor? "
    "t=[], Await(int) w) -> int?",
]


def texts_of_tests() -> Iterator[bytes]:
    """Return the TorchScript in the tests: files, and single functions."""
    for path in sorted((TOP / "tests" / "script").glob("*/*.py")):
        yield from ((a + b).encode() for a, b in cases_of(path.read_text()))
    yield from (x.encode() for x in (UNIT, *SMALL))
    for part in re.split(r"\n(?=def |class )", UNIT):
        yield ("import torch\n" + part).encode()
    for path in sorted((TOP / "tests" / "script").glob("*/*.py")):
        yield path.read_bytes()
    programs = sorted((TOP / "tests" / "python").glob("script_programs_*.py"))
    source = "\n\n\n".join(path.read_text() for path in programs)
    head = (
        "import torch\nimport math\nimport enum\nfrom torch import Tensor\nfrom typing import *\n"
    )
    for part in re.split(r"\n\n\n(?=@|def |class )", source):
        part = re.sub(r"^@calls\(.*?\)\n(?=@|def |class )", "", part, flags=re.S)
        part = re.sub(r"^@torch\.jit\.\w+\n", "", part, flags=re.M)
        if part.startswith(("def ", "class ")) and "nn.Module" not in part:
            yield (head + part + "\n").encode()
    yield TEXT.encode()


def cases_of(source: str) -> Iterator[tuple[str, str]]:
    """Return the head of a file with each function on its own: one that fails must not hide the
    others."""
    parts = re.split(r"\n\n\n(?=def |class )", source)
    head = "\n\n\n".join([parts[0], *(p for p in parts[1:] if p.startswith("class "))]) + "\n\n\n"
    yield head, ""
    yield from ((head, p) for p in parts[1:] if p.startswith("def "))
