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
}
