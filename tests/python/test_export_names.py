"""The nodes of numbers, runtime assertions and ranges of rushlight.export are torch.export's: names,
order and texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rushlight.export as ours  # noqa: E402
from functorch.experimental.control_flow import map as mapped  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402

ones = torch.ones


class Of(torch.nn.Module):
    def __init__(self, f: Callable[..., Any]) -> None:
        super().__init__()
        self.f = f

    def forward(self, *args: Any) -> Any:
        return self.f(*args)


def text(program: Any) -> list[str]:
    """Return the program's text without places and devices."""
    lines = [*str(program).splitlines(), *str(program.graph).splitlines()]
    bare = (line.replace("device: ,", "device: cpu,") for line in lines if line.strip())
    return [line for line in bare if not line.strip().startswith("#")]


def dims(module: Any, *names: tuple[str, ...] | None) -> Any:
    """Return dynamic_shapes of one *args: by argument the names of its dimensions."""
    made = {n: module.Dim(n) for given in names for n in given or ()}
    return (tuple(given and tuple(made[n] for n in given) for given in names),)


def same(f: Callable[..., Any], args: tuple[Any, ...], *names: tuple[str, ...] | None) -> Any:
    """Export by both, compare, and return our program."""
    shapes = [dims(m, *names) if names else None for m in (torch.export, ours)]
    theirs = torch.export.export(Of(f), args, dynamic_shapes=shapes[0], strict=False)
    made = ours.export(Of(f), args, dynamic_shapes=shapes[1])
    assert text(made) == text(theirs)
    return made


# -- Numbers: named as they run, equal ones once, sizes of inputs in front
# -------------------------------------------------------------------------------------------------


def sums_of_sizes(x: Any, y: Any) -> Any:
    n = x.shape[0] + y.shape[0]
    z = torch.cat([x, y]) * 2
    return z, n, z.shape[0], 3 * y.shape[0], x.shape[0] * 1


def powers(x: Any, y: Any) -> Any:
    return x + 1, x.shape[0] ** 2 - 3 * y.shape[0], -x.shape[0]


def sizes_of_results(x: Any, y: Any) -> Any:
    made = torch.cat([x, x]).repeat(y.shape[0])
    return made.shape[0] + x.shape[0]


def comparisons(x: Any, y: Any) -> Any:
    n, m = x.shape[0] % 7, y.shape[0] // 2
    return x * n, torch.sym_max(n, m), torch.sym_min(n, 3)


@pytest.mark.parametrize("f", [sums_of_sizes, powers, sizes_of_results, comparisons])
def test_numbers_of_sizes(f: Callable[..., Any]) -> None:
    made = same(f, (ones(4), ones(6)), ("a",), ("b",))
    for args in ((ones(4), ones(6)), (ones(5), ones(3))):
        found, wanted = made.module()(*args), f(*args)
        assert torch.utils._pytree.tree_all(lambda x: x, torch.utils._pytree.tree_map(
            lambda a, b: bool(torch.all(torch.as_tensor(a == b))), found, wanted
        ))  # fmt: skip


# -- Assertions: where their last number is made, after its range
# -------------------------------------------------------------------------------------------------


def a_check(x: Any) -> Any:
    n = x.item()
    torch._check(n >= 2)
    torch._check(n < 10)
    return torch.zeros(n)


def a_check_of_two(x: Any) -> Any:
    n, m = x.tolist()
    torch._check(n >= 0)
    torch._check(m >= 0)
    torch._check(n == 2 * m + 1)
    torch._check(m != 3)
    return torch.zeros(n), torch.zeros(m)


def a_check_of_either(x: Any) -> Any:
    n = x.sum().item()
    torch._check((n == 2) | (n == 4) | (n > 5))
    return x * n


def an_equal_size(x: Any) -> Any:
    n = x.sum().item()
    torch._check(n == 6)
    return torch.zeros(6).view(n), x


def two_of_data(x: Any) -> Any:
    n, m = x.tolist()
    torch._check(n == m)
    return torch.zeros(n) * 2, torch.zeros(m)


def a_remainder(x: Any) -> Any:
    return torch.zeros(x[0].item()).view(-1, 4)


def read_twice(x: Any) -> Any:
    s = x.sum()
    torch._check(s.item() >= 0)
    return torch.zeros(s.item())


def a_sum_as_size(x: Any) -> Any:
    n, m = x.tolist()
    return torch.zeros(n + m)


def a_stated_range(x: Any) -> Any:
    n = x.sum().item()
    torch.ops.aten.sym_constrain_range_for_size(n, min=2, max=9)
    return torch.zeros(n)


def a_float(x: Any) -> Any:
    n = (x * 1.5).sum().item()
    torch._check(n > 0)
    return x * n


def not_used(x: Any) -> Any:
    x.sum().item()
    return x + 1


CHECKS = [a_check_of_two, a_check_of_either, a_sum_as_size, read_twice, not_used]


@pytest.mark.parametrize("f", CHECKS)
def test_assertions_of_two_numbers(f: Callable[..., Any]) -> None:
    same(f, (torch.tensor([3, 1]),))


@pytest.mark.parametrize("f", [a_check, a_stated_range, not_used])
def test_assertions_of_a_number(f: Callable[..., Any]) -> None:
    made = same(f, (torch.tensor(3),))
    assert torch.equal(made.module()(torch.tensor(5)), f(torch.tensor(5)))


@pytest.mark.parametrize("f", [an_equal_size, a_remainder])
def test_assertions_that_fix(f: Callable[..., Any]) -> None:
    same(f, (torch.tensor([4, 2]),))


def test_equal_numbers_of_data_stay_two() -> None:
    same(two_of_data, (torch.tensor([3, 3]),))


def test_assertions_are_run() -> None:
    module = ours.export(Of(a_check), (torch.tensor(3),)).module()
    for n, why in ((1, "u0 >= 2"), (10, "u0 <= 9")):
        with pytest.raises(RuntimeError, match=why):
            module(torch.tensor(n))
    module = ours.export(Of(a_float), (ones(2),)).module()
    with pytest.raises(RuntimeError, match="0 < zuf0"):
        module(-ones(2))


# -- Sizes that depend on data
# -------------------------------------------------------------------------------------------------


def found(x: Any) -> Any:
    at = torch.nonzero(x)
    return at, at.shape[0] + x.shape[0]


def found_by_dimension(x: Any) -> Any:
    rows, columns = torch.where(x > 0)
    return rows + columns, rows.shape[0] * 2


def chosen(x: Any) -> Any:
    return x[x > 0].shape[0] + 1


@pytest.mark.parametrize("f", [found, found_by_dimension, chosen])
@pytest.mark.parametrize("names", [(), (("a", "b"),)])
def test_sizes_of_data(f: Callable[..., Any], names: tuple[Any, ...]) -> None:
    same(f, (torch.eye(4),), *names)


# -- Ranges: numbers of data first, then sizes of inputs as they are
# -------------------------------------------------------------------------------------------------


def derived(module: Any) -> Any:
    dim = module.Dim("a", min=3, max=6)
    return {"x": (dim + 1,), "y": (2 * dim,)}


class Both(torch.nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return x + 1, y * 2


@pytest.mark.parametrize("shapes", [derived, lambda m: {"x": (m.Dim.AUTO,), "y": (m.Dim("b"),)}])
def test_order_of_ranges(shapes: Any) -> None:
    args = ones(5), ones(8)
    theirs = torch.export.export(Both(), args, dynamic_shapes=shapes(torch.export), strict=False)
    made = ours.export(Both(), args, dynamic_shapes=shapes(ours))
    assert str(made.range_constraints) == str(theirs.range_constraints)


def test_ranges_of_data_are_first() -> None:
    made = same(found, (torch.eye(4),), ("a", "b"))
    assert [str(key) for key in made.range_constraints] == ["u0", "s33", "s50"]


# -- Graphs inside
# -------------------------------------------------------------------------------------------------


def each_row(x: Any, w: Any) -> Any:
    return mapped(lambda row, other: row * other + w, x + 1, x.sum(0))


def running(x: Any, w: Any) -> Any:
    return scan(lambda carried, row: (carried + row, row * w), x.sum(0), x)


@pytest.mark.parametrize("f", [each_row, running])
def test_graphs_inside(f: Callable[..., Any]) -> None:
    made = same(f, (ones(3, 2), ones(2)))
    for a, b in zip(
        torch.utils._pytree.tree_leaves(made.module()(ones(3, 2), ones(2))),
        torch.utils._pytree.tree_leaves(f(ones(3, 2), ones(2))),
        strict=True,
    ):
        assert torch.equal(a, b)
