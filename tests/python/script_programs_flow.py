"""Programs of control flow and of tensors."""

import math
from typing import Dict, List

import torch
from script_programs import calls
from torch import Tensor

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
    return (
        a // b,
        a % b,
        a**b,
        math.floor(a),
        math.ceil(a),
        round(a),
        int(a),
        abs(a),
        math.fmod(a, b),
        math.copysign(a, -b),
        math.isnan(a),
        math.isinf(b),
        math.exp(b),
        math.log(b),
        math.log(b, 2),
        math.sqrt(b),
        math.pow(a, 2.0),
        math.atan2(a, b),
        math.degrees(a),
        math.radians(a),
        math.gcd(12, 18),
        math.factorial(5),
        math.pi,
        math.modf(a),
        math.frexp(a),
        math.ldexp(a, 3),
        math.erf(b),
        math.gamma(b),
        math.lgamma(b),
        max(a, b),
        min(a, 1.0),
        a > b,
        a == b,
        float(3),
        complex(a, b) * 2,
        complex(a, b) == complex(a, b),
        bool(a),
        math.log10(b),
        math.log1p(b),
    )


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
    return (
        y,
        x[1],
        x[-1, ..., 2],
        x[:, None].shape,
        x[0, 1, 2].item(),
        x[:, 1:, :2],
        x[idx],
        x[idx, idx],
        x[x > 12],
        x[0][1][2:],
        x[:, [0, 2]],
        x[None, ..., None].size(),
        x[torch.tensor([True, False])],
    )


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
    return (
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        x2,
        x % 3,
        abs(-x),
        x.sum().item() > 3,
        bool((x > 0).any()),
        int(x.sum()),
        float(x.mean()),
        len(x),
    )


@calls((torch.ones(2, 3), 4), (torch.zeros(3, 1), 2))
def growing(x: Tensor, n: int):
    xs: List[Tensor] = [x]
    for i in range(n):
        last = xs[-1]
        if bool(last.sum() > 20):
            last = last / 2
        xs.append(torch.cat([last, x * i], dim=0))
    return (
        torch.stack([t.sum() for t in xs]),
        xs[-1].shape,
        torch.cat(xs).size(0),
        [t.size(0) for t in xs],
    )


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
    return (
        a + b,
        a / 2,
        a // 2,
        a.to(torch.float16) * 2,
        b.to(torch.int32),
        a.to(torch.bool),
        b.double(),
        a.type_as(b),
        (a + 1.5).dtype,
        (a * 2).dtype == torch.int64,
        torch.result_type(a, b),
        a.is_floating_point(),
        b.is_floating_point(),
        b.half().float(),
        torch.promote_types(torch.int32, torch.float16),
        torch.zeros(2, dtype=torch.long, device=a.device),
    )


@calls((torch.randn(2, 5), 3), (torch.randn(1, 2), 1))
def factories(x: Tensor, n: int):
    return (
        torch.zeros(n),
        torch.ones(n, 2),
        torch.full((2,), n),
        torch.full([2], 1.5, dtype=torch.float64),
        torch.arange(n),
        torch.arange(0, n, 0.5),
        torch.linspace(0, 1, n),
        torch.eye(n),
        torch.empty(0),
        torch.zeros_like(x),
        torch.ones_like(x),
        torch.tensor([1, n]),
        torch.tensor(n),
        torch.tensor(2.5),
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        torch.tensor([True]),
        x.new_zeros(2),
        x.new_full([1], 3),
        torch.scalar_tensor(4),
        torch.as_tensor([1.0, 2.0]),
        torch.full_like(x, n),
        torch.triu(torch.ones(n, n)),
        torch.tril_indices(n, n),
        torch.meshgrid([torch.arange(n), torch.arange(2)], indexing="ij"),
    )
