"""The same seed draws the same numbers as PyTorch's CPU generator, bit by bit, and leaves it in the
same state."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
SIZES = [
    [],
    [0],
    [5],
    [16],
    [17],
    [100],
    [3, 7],
    [40, 50],
]  # 16 and more normals come from a formula of their own


def drawn(ops: Any, name: str, args: tuple, kwargs: dict) -> tuple[Any, Any]:
    """The result, and what is drawn next."""
    torch.manual_seed(3)
    rushlight.manual_seed(3)
    args = tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in args)
    return getattr(ops, name)(*args, **kwargs), ops.rand([3])


def check(name: str, *args: Any, **kwargs: Any) -> None:
    both = (drawn(ops.aten, name, args, kwargs) for ops in (rushlight.ops, torch.ops))
    for got, want in zip(*both, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        assert torch.equal(torch.nan_to_num(got), torch.nan_to_num(want)), (name, args, kwargs)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", SIZES)
def test_floats(dtype: Any, sizes: list[int]) -> None:
    check("rand", sizes, dtype=dtype)
    check("randn", sizes, dtype=dtype)
    x = torch.zeros(sizes, dtype=dtype)
    p = torch.rand(sizes, dtype=torch.float64).to(dtype)
    for name, numbers in (
        ("normal_", (1.5, 0.3)),
        ("uniform_", (-1.3, 2.7)),
        ("exponential_", (1.7,)),
        ("cauchy_", (0.5, 1.7)),
        ("log_normal_", (0.5, 0.7)),
        ("geometric_", (0.3,)),
        ("bernoulli_", (0.3,)),
        ("random_", ()),
    ):
        check(name, x, *numbers)
    check("bernoulli", p)
    check("poisson", p * 3)
    check("poisson", p * 40)
    check("normal", p, 0.5)
    check("normal", 0.3, p)
    if dtype in (torch.float32, torch.float64):
        check("_standard_gamma", p * 3)
        check("binomial", (p * 100).floor(), p)
    if p.dim() and p.numel():
        check("multinomial", p + 0.01, 3)
        check("multinomial", p + 0.01, 1)
        check("multinomial", p + 0.01, 8, True)


@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_whole_numbers(dtype: Any) -> None:
    x = torch.zeros(50, dtype=dtype)
    check("randint", 2, [50], dtype=dtype)
    check("random_", x)
    if dtype != torch.bool:
        check("random_", x, 5, 100)
        check("randint_like", x, 3, 90)
    if dtype in (torch.int64, torch.float64):
        check("random_", x, -3, 2**40)
        check("random_", x, -(2**63), None)


@pytest.mark.parametrize("n", [0, 1, 2, 10, 1000])
def test_permutations(n: int) -> None:
    check("randperm", n)


def test_memory_order_counts() -> None:
    check("normal_", torch.zeros(7, 9).t(), 1.5, 0.3)
    check("rand_like", torch.zeros(2, 3, 4, 5).contiguous(memory_format=torch.channels_last))
    check("randn", [4, 9], dtype=torch.complex64)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("normal", (0.0, -1.0, [3])),
        ("uniform_", (torch.zeros(3), 2.0, 1.0)),
        ("exponential_", (torch.zeros(3), -1.0)),
        ("randint", (5, 5, [3])),
        ("randperm", (-1,)),
        ("multinomial", (torch.tensor([1.0, -1.0]), 1)),
        ("multinomial", (torch.tensor([0.0, 0.0]), 1)),
        ("random_", (torch.zeros(3, dtype=torch.uint8), 0, 300)),
    ],
)
def test_refusals(name: str, args: tuple) -> None:
    with pytest.raises(RuntimeError) as want:
        getattr(torch.ops.aten, name)(*args)
    with pytest.raises(RuntimeError) as got:
        getattr(rushlight.ops.aten, name)(*args)
    assert str(got.value).strip().split("\n")[0] == str(want.value).strip().split("\n")[0]
