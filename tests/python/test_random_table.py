"""Every operator that draws: the numbers and the generator's state after each call are PyTorch's.

State, whole numbers, uniform, bernoulli, randperm and dropout are equal; normal, exponential and
what is made of them lie within 2 units in the last place.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
FLOATS = [F32, F64, F16, BF16]
INTS = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
# Operators that write into a tensor, their numbers, and whether the bits are equal.
FILLS: list[tuple[str, tuple, dict, bool]] = [
    ("uniform_", (), {}, True), ("uniform_", (-3.5, 7.25), {}, True), ("uniform_", (2.0, 2.0), {},
                                                                       True),
    ("normal_", (), {}, False), ("normal_", (-2.5, 3.75), {}, False), ("normal_", (0.0, 0.0), {},
                                                                       False),
    ("exponential_", (), {}, False), ("exponential_", (3.5,), {}, False),
    ("cauchy_", (), {}, False), ("cauchy_", (-1.5, 2.5), {}, False),
    ("log_normal_", (), {}, False), ("log_normal_", (0.5, 0.25), {}, False),
    ("geometric_", (0.1,), {}, True), ("geometric_", (0.9,), {}, True),
    ("bernoulli_", (), {}, True), ("bernoulli_", (0.0,), {}, True), ("bernoulli_", (0.2,), {},
                                                                     True),
    ("bernoulli_", (1.0,), {}, True),
    ("random_", (), {}, True), ("random_", (100,), {}, True), ("random_", (-50, 70), {}, True),
]  # fmt: skip
WIDE = [
    (2**31 + 5,),
    (2**32,),
    (2**40,),
    (-(2**40), 2**41),
    (-(2**63), None),
    (2**28 - 1,),
    (2**28,),
    (2**62, 2**63 - 1),
]
INT_FILLS: list[tuple[str, tuple, dict, bool]] = [
    ("random_", (), {}, True), ("random_", (100,), {}, True), ("random_", (3, 90), {}, True),
    ("bernoulli_", (), {}, True), ("bernoulli_", (0.3,), {}, True), ("geometric_", (0.25,), {},
                                                                     True),
]  # fmt: skip


def layouts() -> list[tuple[str, Callable]]:
    """Tensors to write to: under, at and over 16 elements, with gaps, of other orders."""
    made: list[tuple[str, Callable]] = [
        (f"{n} elements", lambda d, n=n: torch.zeros(n, dtype=d))
        for n in (0, 1, 7, 15, 16, 17, 31, 32, 33, 100, 1000)
    ]
    made += [
        ("scalar", lambda d: torch.zeros((), dtype=d)),
        ("3 x 5", lambda d: torch.zeros(3, 5, dtype=d)),
        ("transposed", lambda d: torch.zeros(7, 9, dtype=d).t()),
        ("small transposed", lambda d: torch.zeros(3, 4, dtype=d).t()),
        ("every other", lambda d: torch.zeros(80, dtype=d)[::2]),
        ("a column", lambda d: torch.zeros(20, 6, dtype=d)[:, 2]),
        ("inner block", lambda d: torch.zeros(9, 11, dtype=d)[2:7, 3:9]),
        ("tail", lambda d: torch.zeros(64, dtype=d)[5:37]),
        (
            "channels last",
            lambda d: torch.zeros(2, 3, 4, 5, dtype=d).contiguous(
                memory_format=torch.channels_last
            ),
        ),
        ("reordered", lambda d: torch.zeros(4, 5, 6, dtype=d).permute(2, 0, 1)),
    ]
    return made


def base_of(t: Any) -> Any:
    return t._base if isinstance(t, torch.Tensor) and t._base is not None else t


def tensors_of(value: Any) -> list:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in tensors_of(v)] if isinstance(value, (tuple, list)) else []


def run(namespace: Any, name: str, make: Callable, args: tuple, kwargs: dict) -> tuple[list, Any]:
    """(results and what was written to, the state afterwards)."""
    ours = namespace is rushlight.ops
    torch.manual_seed(11)
    rushlight.manual_seed(11)
    first = make()
    operator = namespace.aten
    for part in name.split("."):
        operator = getattr(operator, part)
    with torch.no_grad():
        result = operator(*first, *args, **kwargs)
    state = (
        torch.frombuffer(bytearray(rushlight.get_rng_state()), dtype=torch.uint8)
        if ours
        else torch.get_rng_state()
    )
    return tensors_of(result) + [base_of(t) for t in tensors_of(first)], state


def ulps(got: Any, want: Any) -> float:
    """The largest distance in units of the wanted number's last place."""
    if want.is_complex():
        return max(ulps(torch.view_as_real(got), torch.view_as_real(want)), 0.0)
    if not want.is_floating_point():
        return 0.0 if torch.equal(got, want) else float("inf")
    same = (got == want) | (got.isnan() & want.isnan())
    if bool(same.all()):
        return 0.0
    a, b = got.double(), want.double()
    exponent = torch.frexp(b.abs().clamp_min(torch.finfo(want.dtype).tiny))[1] - 1
    unit = torch.ldexp(torch.full_like(b, torch.finfo(want.dtype).eps), exponent)
    return float(torch.where(same, torch.zeros_like(a), (a - b).abs() / unit).max())


def check(
    name: str, make: Callable, args: tuple = (), kwargs: dict | None = None, exact: bool = True
) -> None:
    what = f"{name}{args}{kwargs or ''}"
    want, theirs = run(torch.ops, name, make, args, kwargs or {})
    got, mine = run(rushlight.ops, name, make, args, kwargs or {})
    assert torch.equal(mine, theirs), f"{what}: the generator's state differs"
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype, f"{what}: {g.dtype}, expected {w.dtype}"
        assert g.shape == w.shape, f"{what}: {tuple(g.shape)}, expected {tuple(w.shape)}"
        far = ulps(g, w)
        assert far <= (0 if exact else 2), f"{what}: {far} units in the last place"


@pytest.mark.parametrize(
    ("layout", "make"), layouts(), ids=lambda x: x if isinstance(x, str) else ""
)
@pytest.mark.parametrize("dtype", FLOATS)
def test_fills(dtype: Any, layout: str, make: Callable) -> None:
    for name, args, kwargs, exact in FILLS:
        if name == "random_" and args and dtype in (F16, BF16) and args[-1] == 2**40:
            continue
        check(name, lambda: (make(dtype),), args, kwargs, exact)


@pytest.mark.parametrize(
    ("layout", "make"), layouts(), ids=lambda x: x if isinstance(x, str) else ""
)
@pytest.mark.parametrize("dtype", INTS)
def test_fills_of_ints(dtype: Any, layout: str, make: Callable) -> None:
    for name, args, kwargs, exact in INT_FILLS:
        if dtype != torch.bool or not args or name == "bernoulli_":
            check(name, lambda: (make(dtype),), args, kwargs, exact)


@pytest.mark.parametrize("dtype", [torch.int64, F32, F64])
def test_wide_ranges(dtype: Any) -> None:
    for numbers in WIDE:
        if len(numbers) == 1:
            check("randint", lambda n=numbers: (n[0], [40]), (), {"dtype": dtype})
        check("random_", lambda: (torch.zeros(40, dtype=dtype),), numbers)
    check("randint.low", lambda: (-(2**50), 2**50, [3, 9]), (), {"dtype": dtype})


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", [[], [0], [5], [15], [16], [17], [3, 7], [40, 50]])
def test_factories(dtype: Any, sizes: list) -> None:
    for name in ("rand", "randn"):
        check(name, lambda: (sizes,), (), {"dtype": dtype}, name == "rand")
        check(f"{name}_like", lambda: (torch.zeros(sizes, dtype=dtype),), (), {}, name == "rand")
    check("randint", lambda: (9, sizes), (), {"dtype": dtype})
    check("randint_like", lambda: (torch.zeros(sizes, dtype=dtype), 9))
    check("randint_like.low_dtype", lambda: (torch.zeros(sizes, dtype=dtype), -4, 9))


def test_complex() -> None:
    for n, dtype in itertools.product((3, 7, 8, 9, 16, 33), (torch.complex64, torch.complex128)):
        check("randn", lambda n=n: ([n],), (), {"dtype": dtype}, False)
        check("rand", lambda n=n: ([n],), (), {"dtype": dtype})
        check(
            "normal_",
            lambda n=n, dtype=dtype: (torch.zeros(n, dtype=dtype),),
            (1.5, 0.5),
            {},
            False,
        )


@pytest.mark.parametrize("dtype", FLOATS)
def test_parameters_in_tensors(dtype: Any) -> None:
    for sizes in ([], [4], [15], [16], [17], [5, 7], [40, 3]):
        p = torch.linspace(0, 1, max(1, torch.Size(sizes).numel())).reshape(sizes).to(dtype)
        mean, std = (p * 8 - 4), p + 0.1
        check("normal.Tensor_float", lambda m=mean: (m,), (0.75,), {}, False)
        check("normal.float_Tensor", lambda s=std: (0.5, s), (), {}, False)
        check("normal.Tensor_Tensor", lambda m=mean, s=std: (m, s), (), {}, False)
        check("bernoulli", lambda p=p: (p,))
        check("bernoulli.p", lambda p=p: (p, 0.3))
        check("bernoulli_.Tensor", lambda p=p: (torch.zeros_like(p), p))
        check("poisson", lambda p=p: (p * 30,))
        if sizes and dtype in (F32, F64):
            check(
                "bernoulli_.Tensor",
                lambda p=p: (torch.zeros(p.shape[::-1]).permute(*range(p.dim() - 1, -1, -1)), p),
            )
            check("normal.Tensor_Tensor", lambda m=mean, s=std: (m[:1], s), (), {}, False)
        if dtype in (F32, F64):
            check("binomial", lambda p=p: ((p * 60).floor(), p))
            check("_standard_gamma", lambda p=p: (p * 4 + 0.05,), (), {}, False)
    check("normal.float_float", lambda: (1.0, 2.0, [40]), (), {"dtype": dtype}, False)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_parameters_out_of_order(dtype: Any) -> None:
    """The order in memory of the parameters decides for some, that of the result for others."""
    x = torch.linspace(0, 1, 60).reshape(3, 4, 5).to(dtype).permute(2, 0, 1)
    count = torch.full((3, 4, 5), 9.0, dtype=dtype).permute(2, 0, 1)
    for name, args, exact in (
        ("bernoulli", (x,), True), ("bernoulli.p", (x, 0.4), True), ("bernoulli_.float", (x.clone(),
                                                                                          0.4),
                                                                                          True),
        ("poisson", (x * 5,), True), ("binomial", (count, x), True),
        ("rand_like", (x,), True), ("randn_like", (x,), False), ("normal.Tensor_Tensor", (x,
                                                                                          x + 0.1),
                                                                                          False),
        ("normal.Tensor_float", (x, 0.5), False), ("normal.float_Tensor", (0.5, x[:, :2]), False),
        ("_standard_gamma", (x + 0.1,), False), ("_sample_dirichlet", (x + 0.1,), False),
        ("native_dropout", (x, 0.4, True), True), ("dropout_", (x.clone(), 0.4, True), True),
        ("rrelu", (x - 0.5, 0.1, 0.3, True), True), ("uniform", (x, 0.0, 2.0), True),
        ("exponential", (x, 2.0), False), ("geometric", (x, 0.2), True), ("random", (x,), True),
        ("cauchy", (x,), False),
        ("log_normal", (x,), False), ("feature_dropout", (x, 0.5, True), True),
    ):  # fmt: skip
        check(name, lambda args=args: args, (), {}, exact)


@pytest.mark.parametrize("dtype", FLOATS)
def test_multinomial(dtype: Any) -> None:
    for sizes in ([1], [7], [40], [3, 9], [20, 33]):
        p = torch.linspace(0.05, 1, torch.Size(sizes).numel()).reshape(sizes).to(dtype)
        half = max(1, sizes[-1] // 2)
        for n, replacement in (
            (1, False),
            (1, True),
            (5, True),
            (100, True),
            (sizes[-1], False),
            (half, False),
        ):
            check("multinomial", lambda p=p: (p,), (n, replacement))
        check(
            "multinomial", lambda p=p: (p.t().contiguous().t() if p.dim() == 2 else p,), (3, True)
        )


@pytest.mark.parametrize("dtype", FLOATS)
def test_dropouts(dtype: Any) -> None:
    for (_, make), p in itertools.product(layouts(), (0.0, 0.3, 0.5, 1.0)):
        ones = lambda make=make: (make(dtype) + 1,)  # noqa: E731
        check("dropout", ones, (p, True))
        check("native_dropout", ones, (p, True))
        check("dropout", ones, (p, False))
        check("alpha_dropout", ones, (p, True), {}, False)
    for p in (0.3, 0.5):
        images = lambda: (torch.ones(2, 5, 4, 4, dtype=dtype),)  # noqa: E731
        check("feature_dropout", images, (p, True))
        check("feature_alpha_dropout", images, (p, True), {}, False)
        for name in ("dropout_", "alpha_dropout_", "feature_dropout_", "feature_alpha_dropout_"):
            check(name, images, (p, True), {}, False)


@pytest.mark.parametrize("dtype", [F32, F64, BF16])
def test_layers(dtype: Any) -> None:
    for n in (5, 16, 40):
        x = torch.linspace(-2, 2, n).to(dtype)
        check("rrelu", lambda x=x: (x,), (0.1, 0.3, True))
        check("rrelu_", lambda x=x: (x.clone(),), (0.1, 0.3, True))
        check("rrelu_with_noise", lambda x=x: (x, torch.zeros_like(x)), (0.1, 0.3, True))
        check("rrelu", lambda x=x: (x,), (0.1, 0.3, False))


@pytest.mark.parametrize("dtype", INTS[1:] + FLOATS)
def test_permutations(dtype: Any) -> None:
    for n in (0, 1, 2, 17, 120):
        check("randperm", lambda n=n: (n,), (), {"dtype": dtype})


def test_long_permutations() -> None:
    for n in (2000, 40000):
        check("randperm", lambda n=n: (n,))


def calls() -> Iterator[tuple[str, Callable, tuple, bool]]:
    yield "rand", lambda: ([300, 300],), (), True
    yield "randn", lambda: ([300, 300],), (), False
    yield "bernoulli_", lambda: (torch.zeros(300, 300),), (0.3,), True
    yield "exponential_", lambda: (torch.zeros(300, 300),), (), False
    yield "dropout", lambda: (torch.ones(300, 300),), (0.3, True), True
    yield "randint", lambda: (1000, [300, 300]), (), True
    yield "multinomial", lambda: (torch.ones(50, 300),), (40, True), True


def test_threads_do_not_matter() -> None:
    before = rushlight.get_num_threads()
    try:
        for name, make, args, exact in calls():
            for n in (1, 2, 5):
                rushlight.set_num_threads(n)
                check(name, make, args, {}, exact)
    finally:
        rushlight.set_num_threads(before)


def test_a_cached_normal_stays() -> None:
    """The second number of a pair waits in the state, between calls and in a state that is set
    again."""
    torch.manual_seed(5)
    rushlight.manual_seed(5)
    for _ in range(3):
        want, got = torch.ops.aten.randn([3]), rushlight.ops.aten.randn([3])
        assert ulps(got, want) <= 2
        assert bytes(torch.get_rng_state().numpy()) == rushlight.get_rng_state()
    state = rushlight.get_rng_state()
    first = rushlight.ops.aten.randn([5])
    rushlight.set_rng_state(state)
    assert torch.equal(rushlight.ops.aten.randn([5]), first)
    rushlight.set_rng_state(torch.get_rng_state())  # PyTorch's own
    assert ulps(rushlight.ops.aten.randn([5]), torch.ops.aten.randn([5])) <= 2
    with pytest.raises((RuntimeError, ValueError)):
        rushlight.set_rng_state(b"short")


def test_fractional_pooling() -> None:
    x2, x3 = torch.randn(2, 3, 10, 11), torch.randn(2, 2, 8, 9, 7)
    F = torch.nn.functional
    for dtype in (F32, F64):
        torch.manual_seed(2)
        rushlight.manual_seed(2)
        sizes = (torch.rand(2, 3, 2, dtype=dtype), torch.rand(2, 2, 3, dtype=dtype))
        again = (
            rushlight.ops.aten.rand([2, 3, 2], dtype=dtype),
            rushlight.ops.aten.rand([2, 2, 3], dtype=dtype),
        )
        assert all(torch.equal(a, b) for a, b in zip(sizes, again, strict=True))
        want = F.fractional_max_pool2d(
            x2.to(dtype), 3, output_size=(4, 5), _random_samples=sizes[0]
        )
        got = rushlight.ops.aten.fractional_max_pool2d(x2.to(dtype), [3, 3], [4, 5], again[0])[0]
        assert torch.equal(got, want)
        want = F.fractional_max_pool3d(
            x3.to(dtype), 2, output_size=(3, 4, 3), _random_samples=sizes[1]
        )
        got = rushlight.ops.aten.fractional_max_pool3d(
            x3.to(dtype), [2, 2, 2], [3, 4, 3], again[1]
        )[0]
        assert torch.equal(got, want)
