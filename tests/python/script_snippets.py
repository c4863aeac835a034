"""Texts of functions and classes for both compilers, each with calls.  A text defines `f`; a line `#: a, b` is a call of it."""

SNIPPETS = {
"closure_constant": """
def make(n: int):
    def f(x):
        return x + n
    return f
f = make(3)
#: torch.ones(2)
""",
"closure_function": """
def make():
    def helper(x):
        return x * 2
    def f(x):
        return helper(x) + 1
    return f
f = make()
#: torch.ones(2)
""",
"default_values": """
N = 4
def f(x, n: int = N, s: str = "abc", o: Optional[float] = None, t: Tuple[int, int] = (1, 2)):
    if o is not None:
        return x * o
    return x + n + len(s) + t[1]
#: torch.ones(2)
#: torch.ones(2), 1
#: torch.ones(2), 1, "q", 2.0
""",
"default_mutable": """
def f(x, l: List[int] = [1]):
    return x
#: torch.ones(1)
""",
"default_tensor_mismatch": """
def f(x=1):
    return x
#: torch.ones(1)
""",
"float_default_int": """
def f(x: float = 1):
    return x
#:
#: 2.5
""",
"keyword_only": """
def f(x, *, n: int):
    return x + n
#: torch.ones(2)
""",
"type_comment": """
def f(x, y):
    # type: (Tensor, Optional[int]) -> Tensor
    if y is None:
        return x
    return x + y
#: torch.ones(2), None
#: torch.ones(2), 3
""",
"type_comment_multi": """
def f(x,  # type: Tensor
      n   # type: int
      ):
    # type: (...) -> Tensor
    return x + n
#: torch.ones(2), 3
""",
"alias": """
Pair = Tuple[int, int]
Maybe = Optional[List[int]]
def f(p: Pair, m: Maybe = None) -> int:
    if m is None:
        return p[0]
    return p[1] + len(m)
#: (1, 2)
#: (1, 2), [5]
""",
"string_annotation": """
def f(x: "Tensor", y: "Optional[int]" = None) -> "Tensor":
    return x if y is None else x + y
from torch import Tensor
#: torch.ones(1)
""",
"typing_dotted": """
import typing
import typing as tp
def f(x: typing.List[int], y: tp.Optional[int]) -> tp.Dict[str, int]:
    return {"a": len(x), "b": 1 if y is None else y}
#: [1], None
""",
"pep585": """
def f(x: list[int], d: dict[str, int], t: tuple[int, str]) -> int:
    return len(x) + d["a"] + t[0]
#: [1], {"a": 2}, (1, "b")
""",
"pep604": """
def f(x: int | None) -> int | str:
    if x is None:
        return "none"
    return x
#: None
#: 3
""",
"future_annotations": """
from __future__ import annotations
def f(x: List[int], y: Optional[int] = None) -> int:
    return len(x) + (0 if y is None else y)
#: [1, 2]
""",
"named_tuple_class": """
class Pt(NamedTuple):
    x: int
    y: float = 2.5
def f(n: int) -> Pt:
    p = Pt(n)
    return Pt(p.x + 1, p.y)
#: 3
""",
"named_tuple_collections": """
import collections
Pt = collections.namedtuple("Pt", ["a", "b"])
def f(x):
    return Pt(x, x + 1)
#: torch.ones(1)
""",
"named_tuple_in": """
class Pt(NamedTuple):
    x: int
    y: List[int]
def f(p: Pt) -> int:
    return p.x + len(p.y)
#: Pt(1, [2, 3])
#: (1, [2])
""",
"enum_int": """
import enum
class Color(enum.Enum):
    RED = 1
    GREEN = 2
def f(c: Color) -> int:
    if c == Color.RED:
        return 10
    return c.value
#: Color.RED
#: Color.GREEN
""",
"enum_out": """
class Color(Enum):
    RED = "r"
    GREEN = "g"
def f(n: int) -> Color:
    return Color.RED if n > 0 else Color.GREEN
#: 1
#: 0
""",
"enum_name": """
class Color(Enum):
    RED = "r"
def f(c: Color) -> Tuple[str, str]:
    return c.name, c.value
#: Color.RED
""",
"enum_iter": """
class Color(Enum):
    RED = 1
    GREEN = 2
def f() -> List[int]:
    return [c.value for c in Color]
#:
""",
"enum_mixed": """
class Color(Enum):
    RED = 1
    GREEN = "g"
def f(c: Color) -> int:
    return 1
#: Color.RED
""",
"script_class": """
class Acc:
    def __init__(self, n: int):
        self.n = n
        self.l = [n]
    def add(self, k: int) -> int:
        self.n += k
        self.l.append(k)
        return self.n
    @property
    def total(self) -> int:
        return self.n * 2
    @staticmethod
    def twice(x: int) -> int:
        return x * 2
def f(n: int) -> Tuple[int, int, int]:
    a = Acc(n)
    a.add(3)
    return a.n, a.total, Acc.twice(n)
#: 4
""",
"class_in_and_out": """
class P:
    def __init__(self, x: int, y: float):
        self.x = x
        self.y = y
def f(p: P) -> P:
    return P(p.x + 1, p.y * 2)
def shape(p): return (p.x, p.y)
#: P(1, 2.0)
""",
"class_magic": """
class V:
    def __init__(self, x: int):
        self.x = x
    def __add__(self, o: "V") -> "V":
        return V(self.x + o.x)
    def __getitem__(self, i: int) -> int:
        return self.x + i
    def __len__(self) -> int:
        return self.x
    def __contains__(self, i: int) -> bool:
        return i == self.x
    def __eq__(self, o: "V") -> bool:
        return self.x == o.x
def f(n: int) -> Tuple[int, int, int, bool, bool]:
    a = V(n) + V(2)
    return a.x, a[3], len(a), 4 in a, a == V(n)
#: 2
""",
"class_inherit": """
class A:
    def __init__(self):
        self.x = 1
class B(A):
    pass
def f() -> int:
    return B().x
#:
""",
"class_method_recursion": """
class A:
    def __init__(self):
        self.x = 1
    def go(self, n: int) -> int:
        return self.go(n - 1)
def f() -> int:
    return A().go(3)
#:
""",
"dataclass": """
import dataclasses
@torch.jit.script
@dataclasses.dataclass
class D:
    x: int
    y: float = 2.0
    def s(self) -> float:
        return self.x + self.y
def f(n: int) -> Tuple[float, bool]:
    d = D(n)
    return d.s(), d == D(n, 2.0)
#: 3
""",
"dataclass_order": """
import dataclasses
@torch.jit.script
@dataclasses.dataclass(order=True)
class D:
    a: int
    b: str
def f(n: int) -> Tuple[bool, bool, bool]:
    return D(n, "x") < D(3, "a"), D(1, "a") >= D(1, "b"), D(1, "a") != D(1, "a")
#: 2
#: 3
""",
"exception_user": """
class MyError(ValueError):
    pass
def f(x: int) -> int:
    if x > 1:
        raise MyError("too big")
    return x
#: 1
#: 2
""",
"exception_builtin": """
def f(x: int) -> int:
    if x == 0:
        raise ValueError(f"bad {x}")
    if x == 1:
        raise RuntimeError
    assert x != 2, "two"
    return [1, 2, 3][x]
#: 0
#: 1
#: 2
#: 5
""",
"ignore": """
@torch.jit.ignore
def host(x: int, y: torch.Tensor) -> torch.Tensor:
    print("python", x)
    return y + x
def f(x: int):
    return host(x, torch.ones(2)) * 2
#: 3
""",
"ignore_list": """
@torch.jit.ignore
def host(x: List[int]) -> Dict[str, int]:
    return {"n": len(x)}
def f(x: List[int]) -> int:
    return host(x)["n"]
#: [1, 2]
""",
"ignore_raises": """
@torch.jit.ignore
def host(x: int) -> int:
    raise KeyError("no")
def f(x: int) -> int:
    return host(x)
#: 3
""",
"unused": """
@torch.jit.unused
def host(x: int) -> int:
    return x
def f(x: int) -> int:
    if x > 0:
        return host(x)
    return 0
#: 0
#: 3
""",
"is_scripting": """
def f(x):
    if torch.jit.is_scripting():
        return x + 1
    else:
        return nonsense(x)
#: torch.ones(1)
""",
"not_scripting": """
def f(x):
    if not torch.jit.is_scripting():
        return nonsense(x)
    return x
#: torch.ones(1)
""",
"annotate": """
def f(n: int):
    x = torch.jit.annotate(List[int], [])
    for i in range(n):
        x.append(i)
    y: Optional[int] = None
    if n > 2:
        y = n
    return x, y
#: 3
#: 0
""",
"isinstance_refine": """
def f(x: Any) -> int:
    if isinstance(x, int):
        return x + 1
    if isinstance(x, str):
        return len(x)
    if torch.jit.isinstance(x, List[int]):
        return len(x)
    return -1
#: 3
#: "abcd"
#: [1, 2]
""",
"union": """
def f(x: Union[int, str, List[int]]) -> int:
    if isinstance(x, int):
        return x
    elif isinstance(x, str):
        return len(x)
    else:
        return x[0]
#: 3
#: "ab"
#: [7]
#: 2.5
""",
"fork_wait": """
def g(x, n: int):
    return x * n
def f(x):
    a = torch.jit.fork(g, x, 2)
    b = torch.jit._fork(g, x, n=3)
    return torch.jit.wait(a) + torch.jit._wait(b)
#: torch.ones(2)
""",
"future_type": """
def g(x):
    return x * 2
def f(x):
    fut: torch.jit.Future[Tensor] = torch.jit.fork(g, x)
    return fut.wait()
from torch import Tensor
#: torch.ones(2)
""",
"futures_list": """
def g(x):
    return x * 2
def f(x):
    futs = torch.jit.annotate(List[torch.jit.Future[torch.Tensor]], [])
    for i in range(3):
        futs.append(torch.jit.fork(g, x))
    return [torch.jit.wait(a) for a in futs]
#: torch.ones(2)
""",
"with_no_grad": """
def f(x):
    with torch.no_grad():
        y = x * 2
    return y
#: torch.ones(2, requires_grad=True)
""",
"context_manager": """
class Ctx:
    def __init__(self, l: List[int]):
        self.l = l
    def __enter__(self) -> int:
        self.l.append(1)
        return 5
    def __exit__(self, type: Any, value: Any, tb: Any):
        self.l.append(2)
def f(n: int) -> List[int]:
    l = [n]
    with Ctx(l) as c:
        l.append(c)
    return l
#: 0
""",
"math_names": """
import math as m
from math import sqrt, pi
def f(x: float) -> Tuple[float, float, int, bool]:
    return sqrt(x) + pi, m.sin(x) * m.e, m.floor(x), m.isnan(m.nan)
#: 2.0
""",
"ordered_dict": """
from collections import OrderedDict
def f() -> Dict[str, int]:
    d: Dict[str, int] = OrderedDict()
    d["b"] = 1
    d["a"] = 2
    return d
#:
""",
"torch_ops": """
def f(x):
    return torch.ops.aten.add(x, x), torch.ops.aten.relu(x)
#: torch.ones(2)
""",
"torch_constants": """
def f(n: int):
    return torch.zeros(n, dtype=torch.int64), torch.ones(n).to(torch.float16), torch.empty(0, device=torch.device("cpu"))
#: 2
""",
"torch_c": """
def f(x):
    return torch._C._nn.gelu(x), torch._VF.norm(x, 2.0)
#: torch.ones(2)
""",
"functional": """
import torch.nn.functional as F
from torch.nn.functional import relu
def f(x, training: bool):
    x = F.dropout(relu(x), 0.0, training)
    x = F.softmax(x, dim=-1, dtype=None)
    return F.max_pool1d(x.unsqueeze(0), 2), F.pad(x, [1, 1]), F.linear(x, torch.eye(4))
#: torch.randn(3, 4), False
""",
"functional_dispatch": """
import torch.nn.functional as F
def f(x):
    a, b = F.max_pool2d(x, 2, return_indices=True)
    c = F.max_pool2d(x, [2, 2])
    d = F.adaptive_max_pool2d(x, 2)
    return a, b, c, d
#: torch.arange(16.).view(1, 1, 4, 4)
""",
"functional_interpolate": """
import torch.nn.functional as F
def f(x):
    return F.interpolate(x, scale_factor=2.0, mode="nearest"), F.interpolate(x, size=[3, 3], mode="bilinear", align_corners=False)
#: torch.arange(4.).view(1, 1, 2, 2)
""",
"losses": """
import torch.nn.functional as F
def f(x, t):
    return F.cross_entropy(x, t), F.mse_loss(x, x * 2), F.nll_loss(F.log_softmax(x, 1), t, reduction="sum"), F.smooth_l1_loss(x, x + 1)
#: torch.randn(3, 4), torch.tensor([0, 1, 2])
""",
"torch_functional": """
def f(x):
    return torch.norm(x), torch.unique(torch.tensor([3, 1, 3])), torch.stft(torch.ones(16), 8, return_complex=True), torch.cdist(x, x)
#: torch.ones(3, 4)
""",
"einsum": """
def f(x):
    return torch.einsum("ij,kj->ik", x, x), torch.meshgrid(torch.arange(2), torch.arange(3))
#: torch.ones(2, 3)
""",
"overload": """
@torch.jit._overload
def g(x: int) -> int: ...
@torch.jit._overload
def g(x: str) -> str: ...
def g(x):
    return x + x
def f(n: int, s: str) -> Tuple[int, str]:
    return g(n), g(s)
#: 2, "ab"
""",
"overload_default": """
@torch.jit._overload
def g(x: int, y: int) -> int: ...
@torch.jit._overload
def g(x: float, y: int) -> float: ...
def g(x, y=3):
    return x * y
def f(n: int) -> Tuple[int, float]:
    return g(n, 2), g(1.5, 2)
#: 2
""",
"overload_direct": """
@torch.jit._overload
def f(x: int) -> int: ...
@torch.jit._overload
def f(x: str) -> str: ...
def f(x):
    return x
#: 2
""",
"script_function_called": """
@torch.jit.script
def g(x):
    return x * 3
def f(x):
    return g(x) + 1
#: torch.ones(2)
""",
"wrapped": """
import functools
def deco(fn):
    @functools.wraps(fn)
    def inner(*args, **kw):
        return fn(*args, **kw)
    return inner
@deco
def f(x):
    return x + 1
#: torch.ones(2)
""",
"script_if_tracing": """
@torch.jit.script_if_tracing
def g(x):
    if x.sum() > 0:
        return x + 1
    return x
def f(x):
    return g(x)
#: torch.ones(2)
""",
"interface": """
@torch.jit.interface
class I:
    def go(self, x: int) -> int:
        pass
@torch.jit.script
class A:
    def __init__(self):
        self.k = 2
    def go(self, x: int) -> int:
        return x * self.k
def use(i: I, x: int) -> int:
    return i.go(x)
def f(x: int) -> int:
    return use(A(), x)
#: 4
""",
"recursion": """
def f(n: int) -> int:
    return f(n - 1)
#: 3
""",
"mutual_recursion": """
def g(n: int) -> int:
    return f(n)
def f(n: int) -> int:
    return g(n - 1)
#: 3
""",
"callee_error": """
def g(x):
    return x.undefined_thing()
def f(x):
    return g(x)
#: torch.ones(1)
""",
"no_source_types": """
def f(x: "Foo"):
    return x
#: 3
""",
"unknown_type": """
import decimal
def f(x: decimal.Decimal):
    return x
#: 3
""",
"global_list": """
L = [1, 2]
def f(x):
    return x + L[0]
#: torch.ones(1)
""",
"global_module": """
import os
def f(x):
    return os.getcwd()
#: torch.ones(1)
""",
"lambda_closed": """
g = lambda x: x + 1
def f(x):
    return g(x)
#: torch.ones(1)
""",
"varargs": """
def f(*xs):
    return xs
#: 1
""",
"kwargs_call": """
def g(x, a: int = 1, b: int = 2):
    return x + a * 10 + b
def f(x):
    return g(x, b=5), g(b=1, a=2, x=x)
#: torch.zeros(1)
""",
"wrong_args": """
def f(x: int, y: str):
    return x
#: 1
#: "a", "b"
#: 1, "b", 3
#: 1.5, "b"
#: None, "b"
""",
"arg_conversions": """
def f(a: float, b: bool, c: List[float], d: Dict[str, float], e: Tuple[int, float], g: Optional[torch.Tensor]):
    return a, b, c, d, e
#: 1, True, [1, 2.5], {"a": 1}, (1, 2), None
#: 1, True, (1, 2), {}, (1, 2.0), torch.ones(1)
#: True, 1, [], {}, [1, 2.0], None
""",
"device_dtype_args": """
def f(d: torch.device, t: torch.dtype):
    return torch.zeros(1, device=d, dtype=t), d
#: torch.device("cpu"), torch.int32
""",
"any_args": """
def f(x: Any):
    return x
#: 3
#: [1, "a"]
#: {"a": [1]}
#: (1, (2, "x"))
#: None
#: torch.ones(1)
""",
"nested_containers": """
def f(x: Dict[str, List[Tuple[int, Optional[str]]]]) -> List[Optional[str]]:
    out: List[Optional[str]] = []
    for k, v in x.items():
        for n, s in v:
            out.append(s)
    return out
#: {"a": [(1, None), (2, "b")]}
""",
"star_unpack": """
def g(a: int, b: int, c: int) -> int:
    return a * 100 + b * 10 + c
def f(n: int) -> int:
    t = (n, 2)
    x, *y = [1, 2, 3], 4, 5
    return g(*t, 3)
#: 1
""",
"fstring": """
def f(x: int, y: float) -> str:
    return f"{x} and {y}!"
#: 1, 2.5
""",
"print": """
def f(x: int, s: str):
    print("hello", x, [1.5], s, None, (1, "a"))
#: 1, "q"
""",
"warn": """
import warnings
def f(x: int):
    warnings.warn("careful")
    return x
#: 1
""",
"comprehension": """
def f(n: int):
    a = [i * 2 for i in range(n)]
    d = {str(i): i for i in a}
    return a, d, [x + y for x, y in zip(a, a)], [(i, v) for i, v in enumerate(a)]
#: 3
""",
"slices": """
def f(x: List[int], s: str, t):
    return x[1:], x[::-1], s[:2], t[..., 0], t[None, 1:], t[:, ::2]
#: [1, 2, 3], "hello", torch.arange(6).view(2, 3)
""",
"while_break": """
def f(n: int) -> int:
    s = 0
    while True:
        s += n
        if s > 10:
            break
        if s % 2 == 0:
            continue
        s += 1
    return s
#: 3
""",
"early_return": """
def f(x: int) -> str:
    for i in range(x):
        if i == 2:
            return "two"
    else_ = "none"
    return else_
#: 1
#: 5
""",
"optional_unwrap": """
def f(x: Optional[int]) -> int:
    assert x is not None
    return x + 1
#: 1
#: None
""",
"grad_mode": """
def f(x):
    return torch.is_grad_enabled(), x.requires_grad
#: torch.ones(1, requires_grad=True)
""",
"inplace": """
def f(x):
    x += 1
    x.mul_(2)
    return x
#: torch.ones(2)
""",
"list_mutation": """
def f(x: List[int]) -> List[int]:
    x.append(3)
    return x
#: [1]
""",
"generator_seed": """
def f(n: int):
    torch.manual_seed(n)
    return torch.rand(3), torch.randn(2)
#: 3
""",
"random_outside": """
def f():
    return torch.rand(3)
#:
""",
"hasattr": """
class A:
    def __init__(self):
        self.x = 1
def f() -> int:
    a = A()
    if hasattr(a, "y"):
        return a.y
    return getattr(a, "x")
#:
""",
"final_global": """
from typing import Final
N: Final[int] = 3
def f(x):
    return x + N
#: torch.ones(1)
""",
"del_stmt": """
def f(d: Dict[str, int]) -> Dict[str, int]:
    del d["a"]
    return d
#: {"a": 1, "b": 2}
#: {}
""",
"complex": """
def f(x: complex) -> Tuple[float, complex]:
    return abs(x), x * 1j
#: 3 + 4j
""",
"int_overflow_in": """
def f(x: int) -> int:
    return x
#: 2 ** 70
""",
"bool_ops": """
def f(a: bool, b: Optional[int]) -> bool:
    return a and b is not None and b > 2
#: True, 3
#: True, None
""",
"doc_string": """
def f(x):
    \"\"\"A doc string.

    With lines.
    \"\"\"
    return x
#: torch.ones(1)
""",
"indented": """
if True:
    class Outer:
        @staticmethod
        def fn(x):
            return x + 1
f = Outer.fn
#: torch.ones(1)
""",
"decorated_lines": """
@torch.jit.export
@torch.jit._overload if False else (lambda fn: fn)
def f(
    x: int,
    y: int = (1 +
              2),
) -> int:
    return x + y
#: 1
""",
"line_continuation": """
def f(x: int) -> int:
    y = x + \\
        1
    s = ("a"
         "b")
    return y + len(s)
#: 1
""",
"nn_module_class": """
class M(torch.nn.Module):
    pass
def f(x):
    return M()(x)
#: torch.ones(1)
""",
"annotated_none": """
def f(x: int) -> None:
    print(x)
#: 1
""",
"wrong_return": """
def f(x: int) -> str:
    return x
#: 1
""",
"missing_return": """
def f(x: int) -> int:
    if x > 1:
        return x
#: 1
""",
"undefined": """
def f(x):
    return xx
#: torch.ones(1)
""",
"two_types": """
def f(x: int):
    if x > 1:
        y = 1
    else:
        y = "a"
    return y
#: 1
""",
"method_on_list": """
def f(x: List[int]) -> List[int]:
    x.sort(reverse=True)
    y = sorted(x)
    x.extend(y)
    return x
#: [3, 1, 2]
""",
"str_methods": """
def f(s: str):
    return s.split(","), s.upper(), s.replace("a", "b"), " ".join(["x", "y"]), s.startswith("a"), s.find("b")
#: "a,b,c"
""",
"tensor_attrs": """
def f(x):
    return x.shape, x.dtype, x.device, x.ndim, x.T, x.is_cuda, x.size(0)
#: torch.ones(2, 3)
""",
"torch_size_annotation": """
def f(x) -> torch.Size:
    return x.size()
#: torch.ones(2, 3)
""",
"cls_sorted": """
class Foo:
    def __init__(self, x: int):
        self.x = x
    def __lt__(self, other: "Foo") -> bool:
        return self.x < other.x
def f():
    l = [Foo(3), Foo(1), Foo(2)]
    l.sort()
    a = sorted(l, reverse=True) if False else sorted(l)
    return l[0].x, a[2].x
#:
""",
"cls_nolt": """
class Foo:
    def __init__(self, x: int):
        self.x = x
def f():
    l = [Foo(3), Foo(1)]
    l.sort()
    return l[0].x
#:
""",
"cls_str": """
class Foo:
    def __init__(self, x: int):
        self.x = x
    def __str__(self) -> str:
        return "foo " + str(self.x)
    def __int__(self) -> int:
        return self.x
    def __float__(self) -> float:
        return float(self.x)
    def __bool__(self) -> bool:
        return self.x > 0
def f():
    a = Foo(3)
    r = 0
    if a:
        r = 1
    return str(a), int(a), float(a), bool(a), r
#:
""",
"cls_ops": """
class V:
    def __init__(self, x: int):
        self.x = x
    def __sub__(self, o: int) -> int: return self.x - o
    def __mul__(self, o: int) -> int: return self.x * o
    def __truediv__(self, o: int) -> float: return self.x / o
    def __mod__(self, o: int) -> int: return self.x % o
    def __pow__(self, o: int) -> int: return self.x ** o
    def __floordiv__(self, o: int) -> int: return self.x // o
    def __ne__(self, o: int) -> bool: return self.x != o
    def __le__(self, o: int) -> bool: return self.x <= o
    def __ge__(self, o: int) -> bool: return self.x >= o
    def __gt__(self, o: int) -> bool: return self.x > o
    def __and__(self, o: int) -> int: return self.x & o
    def __or__(self, o: int) -> int: return self.x | o
    def __xor__(self, o: int) -> int: return self.x ^ o
    def __neg__(self) -> int: return -self.x
    def __call__(self, a: int) -> int: return self.x + a
    def __setitem__(self, i: int, v: int): self.x = i + v
    def __getitem__(self, i: int) -> int: return self.x * i
def f(n: int):
    v = V(n)
    a = (v - 1, v * 2, v % 3, v ** 2, v // 2, v != 3, v <= 3, v >= 3, v > 2, v & 1, v | 8, v ^ 1, -v, v(5))
    v[1] = 4
    return a, v[2]
#: 7
""",
"cls_opt_attr": """
class Foo:
    def __init__(self, x: Optional[int] = None):
        self.x = x
    def get(self) -> int:
        x = self.x
        if x is not None:
            return x
        return -1
    def bad(self) -> int:
        return 1
def f(): return Foo().get(), Foo(3).get()
#:
""",
"cls_attr_refine": """
class Foo:
    def __init__(self, x: Optional[int]):
        self.x: Optional[int] = x
    def get(self) -> int:
        if self.x is not None:
            return self.x
        return -1
def f(): return Foo(3).get()
#:
""",
"cls_wrong_attr": """
class Foo:
    def __init__(self, x: int):
        self.x = x
    def set(self):
        self.x = "a"
def f():
    a = Foo(1)
    a.set()
    return a.x
#:
""",
"cls_new_attr": """
class Foo:
    def __init__(self, x: int):
        self.x = x
    def set(self):
        self.y = 3
def f():
    a = Foo(1)
    a.set()
    return a.x
#:
""",
"cls_cond_attr": """
class Foo:
    def __init__(self, x: int):
        if x > 0:
            self.x = x
        else:
            self.x = 0
def f():
    return Foo(1).x
#:
""",
"cls_super": """
class Foo(object):
    def __init__(self, x: int):
        super(Foo, self).__init__()
        self.x = x
def f():
    return Foo(1).x
#:
""",
"cls_self_ref": """
class Node:
    def __init__(self, v: int):
        self.v = v
        self.next: Optional["Node"] = None
def f():
    a = Node(1)
    b = Node(2)
    a.next = b
    n = a.next
    if n is not None:
        return n.v
    return 0
#:
""",
"cls_in_containers": """
class Foo:
    def __init__(self, x: int):
        self.x = x
def g(l: List[Foo], d: Dict[str, Foo], t: Tuple[Foo, int]) -> int:
    return l[0].x + d["a"].x + t[0].x
def f():
    a = Foo(2)
    return g([a], {"a": a}, (a, 1))
#:
""",
"cls_return_list": """
class Foo:
    def __init__(self, x: int):
        self.x = x
def f(l: List[Foo]) -> Dict[str, Foo]:
    return {"a": l[0], "b": Foo(9)}
#: [Foo(1), Foo(2)]
""",
"cls_default": """
class Foo:
    def __init__(self, x: int = 3, *, y: int):
        self.x = x + y
def f():
    return Foo(y=2).x, Foo(1, y=1).x
#:
""",
"cls_unused_method": """
class Foo:
    def __init__(self, x: int):
        self.x = x
    @torch.jit.unused
    def bad(self, q):
        return q.whatever()
    @torch.jit.ignore
    def ign(self, q: int) -> int:
        return q
def f():
    return Foo(1).x
#:
""",
"cls_unused_called": """
class Foo:
    def __init__(self, x: int):
        self.x = x
    @torch.jit.unused
    def bad(self) -> int:
        return 2
def f():
    return Foo(1).bad()
#:
""",
"cls_const": """
class Foo:
    y = 3
    def __init__(self, x: int):
        self.x = x
def f():
    return Foo(1).y
#:
""",
"cls_static_no_self": """
class Foo:
    def __init__(self): self.x = 1
    @staticmethod
    def a(x): return x + 1
    def b(self, x): return Foo.a(x) + self.a(x)
def f(x):
    return Foo().b(x)
#: torch.ones(1)
""",
"cls_classmethod": """
class Foo:
    def __init__(self): self.x = 1
    @classmethod
    def make(cls) -> int: return 3
def f():
    return Foo.make()
#:
""",
"cls_property_set": """
class Foo:
    def __init__(self, x: int): self._x = x
    @property
    def x(self) -> int: return self._x
    @x.setter
    def x(self, v: int): self._x = v * 2
def f():
    a = Foo(1)
    a.x = 5
    return a.x
#:
""",
"cls_missing_init_type": """
class Foo:
    def __init__(self, x):
        self.x = x
def f(n: int):
    return Foo(n).x
#: 3
""",
"cls_isinstance": """
class A:
    def __init__(self): self.x = 1
class B:
    def __init__(self): self.y = 2
def f(x: Union[A, B]) -> int:
    if isinstance(x, A):
        return x.x
    return x.y
#: A()
#: B()
""",
"cls_eq_missing": """
class A:
    def __init__(self): self.x = 1
def f():
    return A() == A()
#:
""",
"cls_is": """
class A:
    def __init__(self): self.x = 1
def f():
    a = A()
    b = a
    return a is b, a is not A(), a is None
#:
""",
"enum_types": """
class C(Enum):
    A = 1.5
    B = 2.5
def f(x: Optional[C] = None) -> float:
    if x is None:
        return 0.0
    return x.value
#:
#: C.B
""",
"enum_wrong": """
class C(Enum):
    A = 1
class D(Enum):
    A = 1
def f(x: C) -> bool:
    return x == D.A
#: C.A
""",
"enum_arg_wrong": """
class C(Enum):
    A = 1
def f(x: C) -> C:
    return x
#: 1
""",
"enum_list_arg": """
class C(Enum):
    A = 1
    B = 2
def f(x: List[C], d: Dict[str, C]) -> List[C]:
    x.append(d["q"])
    return x
#: [C.A], {"q": C.B}
""",
"enum_print": """
class C(Enum):
    A = 1
def f(x: C):
    print(x)
    print(C.A)
#: C.A
""",
"enum_missing": """
class C(Enum):
    A = 1
def f() -> int:
    return C.Z.value
#:
""",
"intenum": """
import enum
class C(enum.IntEnum):
    A = 1
    B = 2
def f(x: C) -> int:
    return x.value + 1
#: C.B
""",
"enum_default": """
class C(Enum):
    A = 1
    B = 2
def f(x: C = C.B) -> C:
    return x
#:
""",
"nt_default": """
class P(NamedTuple):
    a: int
    b: List[int] = [1]
    c: Optional[str] = None
def f() -> P:
    return P(3)
#:
""",
"nt_kw": """
class P(NamedTuple):
    a: int
    b: int = 2
def f(x: int):
    p = P(b=x, a=1)
    a, b = p
    return p.a + p[1] + a + b, len(p)
#: 5
""",
"nt_missing": """
class P(NamedTuple):
    a: int
    b: int
def f():
    return P(1)
#:
""",
"nt_wrong": """
class P(NamedTuple):
    a: int
def f():
    return P("x")
#:
""",
"nt_nested": """
class P(NamedTuple):
    a: int
class Q(NamedTuple):
    p: P
    l: List[P]
def f(q: Q) -> Q:
    return Q(P(q.p.a + 1), q.l)
#: Q(P(1), [P(2)])
""",
"union_ret": """
def f(x: int) -> Union[int, str, List[int]]:
    if x == 0:
        return "zero"
    if x == 1:
        return [1]
    return x
#: 0
#: 1
#: 2
""",
"union_list": """
def f(x: List[Union[int, str]]) -> int:
    n = 0
    for y in x:
        if isinstance(y, int):
            n += y
        else:
            n += len(y)
    return n
#: [1, "abc", 2]
""",
"union_dict": """
def f() -> Dict[str, Union[int, str]]:
    d: Dict[str, Union[int, str]] = {"a": 1, "b": "x"}
    return d
#:
""",
"union_bad": """
def f(x: Union[int, str]) -> int:
    return x + 1
#: 1
""",
"union_none": """
def f(x: Union[int, None, str]) -> int:
    if x is None:
        return 0
    if isinstance(x, str):
        return 1
    return x
#: None
#: "a"
#: 5
""",
"opt_bad": """
def f(x: Optional[int]) -> int:
    return x + 1
#: 1
""",
"isinstance_tuple": """
def f(x: Union[int, float, str]) -> str:
    if isinstance(x, (int, float)):
        return "number"
    return x
#: 1
#: 2.5
#: "a"
""",
"isinstance_list": """
def f(x: Any):
    return isinstance(x, list), isinstance(x, dict), isinstance(x, tuple)
#: [1]
#: {"a": 1}
#: (1,)
""",
"builtins1": """
def f(l: List[int], s: str):
    return min(l), max(l), sum(l), abs(-3), any([True, False]), all([1, 0]), sorted(l), list(reversed(l)) if False else 0, divmod(7, 2), ord("a"), chr(98), hex(255), oct(8), bin(5), round(2.567), pow(2, 3), len(s)
#: [3, 1, 2], "abc"
""",
"builtins2": """
def f(l: List[int]):
    return list(range(3)), tuple([1, 2]) if False else (1,), str([1, 2]), int("3"), float("2.5"), bool(0), int(True), float(3), complex(1, 2)
#: [1]
""",
"strfmt": """
def f(x: int, y: float, s: str):
    return "{} {} {}".format(x, y, s), "%d-%s-%f" % (x, s, y), "%s" % s, "{0} {1}".format(x, s), "{:d}".format(x) if False else ""
#: 1, 2.5, "q"
""",
"del_list": """
def f(l: List[int]):
    del l[0]
    return l
#: [1, 2, 3]
""",
"del_slice": """
def f(l: List[int]):
    del l[0:2]
    return l
#: [1, 2, 3]
""",
"list_ops": """
def f(l: List[int]):
    l.insert(1, 9)
    x = l.pop()
    y = l.pop(0)
    l.reverse()
    c = l.count(9)
    i = l.index(9)
    l.remove(9)
    l2 = l.copy()
    l.clear()
    return l, l2, x, y, c, i, [1] * 3, [1] + [2], 2 in [1, 2], [1, 2] == [1, 2]
#: [1, 2, 3, 4]
""",
"dict_ops": """
def f(d: Dict[str, int]):
    a = d.get("a")
    b = d.get("z", 5)
    k = list(d.keys())
    v = list(d.values())
    it = [x for x, _ in d.items()]
    p = d.pop("a")
    d.update({"q": 7})
    s = d.setdefault("w", 3)
    c = "q" in d
    return a, b, k, v, it, p, s, c, len(d), d
#: {"a": 1, "b": 2}
""",
"dict_missing": """
def f(d: Dict[str, int]) -> int:
    return d["nope"]
#: {"a": 1}
""",
"list_index_err": """
def f(l: List[int]) -> int:
    return l[5]
#: [1]
""",
"empty_list_append_wrong": """
def f():
    l = []
    l.append(1)
    return l
#:
""",
"list_types": """
def f():
    return [1, "a"]
#:
""",
"tuple_ops": """
def f(t: Tuple[int, str, float]):
    a, *b = t
    return t[0], t[-1], t[1:], t + (1,), len(t), a, t == t, (1, 2) < (1, 3) if False else 0
#: (1, "a", 2.5)
""",
"tuple_idx": """
def f(t: Tuple[int, int], i: int):
    return t[i]
#: (1, 2), 1
""",
"tuple_idx_bad": """
def f(t: Tuple[int, str], i: int):
    return t[i]
#: (1, "a"), 1
""",
"for_tuple": """
def f(t: Tuple[int, str]):
    n = 0
    for x in t:
        n += 1
    return n
#: (1, "a")
""",
"for_else_str": """
def f(s: str):
    r: List[str] = []
    for i, c in enumerate(s, 1):
        r.append(c + str(i))
    for a, b in zip(s, [1, 2]):
        r.append(a)
    return r
#: "abc"
""",
"for_dict": """
def f(d: Dict[str, int]):
    n = 0
    for k in d:
        n += d[k]
    return n
#: {"a": 1, "b": 2}
""",
"for_tensor": """
def f(x):
    r = torch.zeros(2)
    for row in x:
        r = r + row
    return r
#: torch.ones(3, 2)
""",
"nested_fn": """
def f(x):
    def g(y):
        return y
    return g(x)
#: torch.ones(1)
""",
"try_": """
def f(x):
    try:
        return x
    except Exception:
        return x
#: torch.ones(1)
""",
"raise_only": """
def f(x: int) -> int:
    raise Exception("bad " + str(x))
#: 1
""",
"raise_cond": """
def f(x: int) -> int:
    if x > 0:
        raise NotImplementedError("neg")
    elif x == 0:
        raise KeyError("k")
    else:
        raise StopIteration
#: 1
#: 0
#: -1
""",
"assert_msg": """
def f(x: int):
    assert x > 0, f"x was {x}"
    assert x < 10
    return x
#: 0
#: 11
#: 5
""",
"with_two": """
class C:
    def __init__(self, n: int, l: List[int]):
        self.n = n
        self.l = l
    def __enter__(self) -> int:
        self.l.append(self.n)
        return self.n
    def __exit__(self, a: Any, b: Any, c: Any) -> None:
        self.l.append(-self.n)
def f() -> List[int]:
    l = torch.jit.annotate(List[int], [])
    with C(1, l) as a, C(2, l) as b:
        l.append(a + b)
    return l
#:
""",
"with_return": """
class C:
    def __init__(self, l: List[int]):
        self.l = l
    def __enter__(self):
        self.l.append(1)
    def __exit__(self, a: Any, b: Any, c: Any):
        self.l.append(2)
def f(l: List[int]) -> int:
    with C(l):
        if len(l) > 0:
            return 5
    return 6
#: []
""",
"with_bad": """
class C:
    def __init__(self):
        self.x = 1
def f(x):
    with C():
        return x
#: torch.ones(1)
""",
"with_bad_exit": """
class C:
    def __init__(self):
        self.x = 1
    def __enter__(self): pass
    def __exit__(self, a: int): pass
def f(x):
    with C():
        return x
#: torch.ones(1)
""",
"with_profiler": """
def f(x):
    with torch.autograd.profiler.record_function("q"):
        y = x + 1
    return y
#: torch.ones(1)
""",
"hash_": """
def f(x: int, y: str, z: float):
    return hash(x) == hash(x), hash(y) == hash(y), hash(z) == hash(z)
#: 1, "a", 2.5
""",
"complex_": """
import cmath
def f(x: complex):
    return cmath.sqrt(x), x.real, x.imag, abs(x), cmath.phase(x), torch.tensor(x), complex(3), x == x, cmath.pi
#: 3 + 4j
""",
"tensor_new": """
def f(x):
    return torch.tensor([1, 2]), torch.tensor([[1.5]]), torch.as_tensor(3), torch.ones([2], dtype=torch.long), torch.zeros_like(x), torch.arange(3), torch.full([2], 3.5), x.new_zeros(2), torch.empty(2).shape, torch.randn(2).dtype
#: torch.ones(2)
""",
"device_attrs": """
def f(x):
    d = x.device
    return d.type, d.index, d == torch.device("cpu"), torch.device("cuda:1"), str(d)
#: torch.ones(1)
""",
"dtype_cmp": """
def f(x):
    if x.dtype == torch.float32:
        return x.to(dtype=torch.int)
    return x.double()
#: torch.ones(1)
""",
"tolist": """
def f(x):
    a: List[float] = x.tolist()
    return a, x.item()
#: torch.ones(1)
""",
"method_chain": """
def f(x):
    return x.view(-1).add_(1).sum().item(), x.t().contiguous().permute(1, 0), x.size(), x.size(0), x.numel(), x.dim(), x.expand(2, 2), x.masked_fill(x > 1, 0.0)
#: torch.ones(2, 2)
""",
"setitem": """
def f(x):
    x[0] = 5
    x[1, 1] = 7
    x[:, 0] += 1
    x[x > 5] = 0
    return x
#: torch.ones(2, 2)
""",
"idx": """
def f(x, i: int):
    return x[i], x[i, ...], x[[0, 1]], x[torch.tensor([0])], x[:, None], x[-1:], x[True] if False else x
#: torch.ones(2, 2), 1
""",
"chained": """
def f(a: int, b: int, c: int):
    return a < b < c, a == b != c, not a, a if a > b else c, a and b if False else a
#: 1, 2, 3
""",
"aug": """
def f(x: int, l: List[int], t):
    x += 1
    x -= 2
    x *= 3
    l += [1]
    t *= 2
    t /= 2
    x %= 4
    x <<= 1
    x |= 8
    return x, l, t
#: 5, [0], torch.ones(1)
""",
"global_fn_attr": """
class K:
    pass
K.v = 3
def f(x):
    return x + K.v
#: torch.ones(1)
""",
"int_div": """
def f(a: int, b: int):
    return a / b, a // b, a % b, -a // b, float(a) // b
#: 7, 2
#: 1, 0
""",
"print_types": """
def f(x):
    print(1, 2.0, "s", True, None, [1.0, 2.0], (1, "a"), {"k": 1}, x)
#: torch.ones(2)
""",
"typing_any_ret": """
def f(x: int) -> Any:
    if x > 0:
        return x
    return "neg"
#: 1
#: -1
""",
"annotation_var": """
def f():
    x: int = 3
    y: List[int] = []
    z: Optional[str] = None
    w: Tuple[int, float] = (1, 2.0)
    return x, y, z, w
#:
""",
"annotation_bad": """
def f():
    x: int = "a"
    return x
#:
""",
"var_retype": """
def f(x: int):
    y = 1
    if x > 0:
        y = 2.5
    return y
#: 1
""",
"unset_var": """
def f(x: int):
    if x > 0:
        y = 1
    return y
#: 1
""",
"call_noncallable": """
def f(x: int):
    return x(1)
#: 1
""",
"attr_missing": """
def f(x):
    return x.foo
#: torch.ones(1)
""",
"op_missing": """
def f(x):
    return torch.nonexistent(x)
#: torch.ones(1)
""",
"op_args": """
def f(x):
    return torch.add(x, "a")
#: torch.ones(1)
""",
"kw_unknown": """
def g(x, a: int = 1): return x
def f(x):
    return g(x, b=2)
#: torch.ones(1)
""",
"kw_missing": """
def g(x, a: int): return x
def f(x):
    return g(x)
#: torch.ones(1)
""",
"too_many": """
def g(x): return x
def f(x):
    return g(x, x)
#: torch.ones(1)
""",
"func_as_value": """
def g(x): return x
def f(x):
    h = g
    return h(x)
#: torch.ones(1)
""",
"func_in_list": """
def g(x): return x
def f(x):
    l = [g]
    return x
#: torch.ones(1)
""",
"nonbool_if": """
def f(x: str):
    if x:
        return 1
    return 0
#: "a"
#: ""
""",
"list_if": """
def f(x: List[int]):
    if x:
        return 1
    return 0
#: [1]
#: []
""",
"opt_if": """
def f(x: Optional[int]):
    if x:
        return 1
    return 0
#: 1
""",
"ternary_types": """
def f(x: int):
    return 1 if x > 0 else "a"
#: 1
""",
"import_in": """
def f(x):
    import math
    return x
#: torch.ones(1)
""",
"global_stmt": """
def f(x):
    global y
    y = 1
    return x
#: torch.ones(1)
""",
"yield_": """
def f(x):
    yield x
#: torch.ones(1)
""",
"starargs_call": """
def g(a: int, b: int): return a + b
def f(t: List[int]):
    return g(*t)
#: [1, 2]
""",
"set_lit": """
def f():
    return {1, 2}
#:
""",
"lambda_": """
def f(x):
    g = lambda y: y
    return g(x)
#: torch.ones(1)
""",
"async_def": """
async def f(x):
    return x
#: torch.ones(1)
""",
"decorator_ctx": """
@torch.no_grad()
def f(x):
    return x + 1
#: torch.ones(1)
""",
"method_bound": """
class A:
    def go(self, x):
        return x + 1
f = A().go
#: torch.ones(1)
""",
"partial": """
import functools
def g(x, n: int): return x + n
f = functools.partial(g, n=2)
#: torch.ones(1)
""",
"callable_obj": """
class A:
    def __init__(self): self.n = 1
    def __call__(self, x: int) -> int:
        return x + self.n
f = A()
#: 3
""",
"shape_unpack": """
def f(x):
    a, b = x.shape
    c, d = x.size()
    return a + b + c + d
#: torch.ones(2, 3)
""",
"multi_assign": """
def f(x: int):
    a = b = c = x
    (d, e), g = (1, 2), 3
    [h, i] = [4, 5]
    return a, b, c, d, e, g, h, i
#: 3
""",
"nested_list": """
def f(x: List[List[int]]):
    r: List[int] = []
    for y in x:
        for z in y:
            r.append(z)
    return r, [[i] for i in r], x[0][1]
#: [[1, 2], [3]]
""",
"str_iter": """
def f(s: str):
    return [c for c in s], s[0], s[-1], s[1:], "a" in s, s * 2, s + "b", s == "abc", s < "b", len(s)
#: "abc"
""",
"fstr": """
def f(x: int, l: List[int], t: Tuple[int, str]):
    return f"{x}{l}{t} {x + 1}"
#: 1, [2], (3, "a")
""",
"wait_err": """
def g(x: int) -> int:
    raise ValueError("task")
def f(x: int):
    a = torch.jit.fork(g, x)
    return torch.jit.wait(a)
#: 1
""",
"fork_method": """
class A:
    def __init__(self): self.n = 1
    def go(self, x: int) -> int:
        return x + self.n
def f(x: int):
    a = A()
    return torch.jit.wait(torch.jit.fork(a.go, x))
#: 1
""",
"warn_twice": """
import warnings
def f(x: int):
    for i in range(3):
        warnings.warn("w" + str(i))
    return x
#: 1
""",
"export_fn": """
@torch.jit.export
def f(x): return x
#: torch.ones(1)
""",
"ignore_top": """
@torch.jit.ignore
def f(x): return x
#: torch.ones(1)
""",
"unused_top": """
@torch.jit.unused
def f(x): return x
#: torch.ones(1)
""",
"bool_arith": """
def f(a: bool, b: bool):
    return a + b if False else 0, a & b, a | b, a ^ b, int(a) + int(b), a == b, not a
#: True, False
""",
"inf_nan": """
def f():
    return float("inf"), float("-inf"), float("nan") != float("nan"), math.inf
#:
""",
"nested_cls_def": """
def f():
    class A:
        pass
    return 1
#:
""",
"rng": """
def f(x):
    return torch.nn.functional.dropout(x, 0.5, True), torch.bernoulli(x * 0.5), torch.randint(10, [3]), torch.randperm(4), torch.normal(0.0, 1.0, [2])
#: torch.ones(4)
""",
"opt_chain": """
def f(d: Dict[str, Optional[int]], l: List[Optional[int]]):
    n = 0
    x = d["a"]
    if x is not None and l[0] is None:
        n = x
    return n
#: {"a": 3}, [None]
""",
"final_var": """
from typing import Final
def f(x: int):
    y: Final[int] = 3
    return x + y
#: 1
""",
"literal_types": """
def f(x: "typing.List[int]"):
    return x
import typing
#: [1]
""",
"seq_annotation": """
from typing import Sequence
def f(x: Sequence[int]):
    return len(x)
#: [1]
""",
"callable_annotation": """
from typing import Callable
def f(x: Callable[[int], int]):
    return 1
#: 1
""",
"set_annotation": """
def f(x: set):
    return 1
#: {1}
""",
"np_annotation": """
import numpy as np
def f(x: np.ndarray):
    return x
#: np.ones(1)
""",
"numpy_args": """
import numpy as np
def f(x: float, n: int):
    return x, n
#: np.float64(1.5), np.int64(3)
#: np.float32(1.5), np.int32(3)
""",
"tensor_scalar_args": """
def f(x: float, n: int, b: bool):
    return x, n, b
#: torch.tensor(1.5), torch.tensor(3), torch.tensor(True)
""",
"parameter_arg": """
def f(x):
    return x * 2
#: torch.nn.Parameter(torch.ones(2))
""",
"size_arg": """
def f(x: List[int]):
    return len(x)
#: torch.ones(2, 3).shape
""",
"default_dict_arg": """
import collections
def f(d: Dict[str, int]):
    return d
#: collections.OrderedDict([("b", 1), ("a", 2)])
#: collections.defaultdict(int, {"z": 1})
""",
}
