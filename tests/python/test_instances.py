"""Instances: what a call of an operator decides, kept at its place in code (docs/executors.md).

Each program runs the same operators many times with other sizes, strides, dtypes and numbers, and
has to do what a first call does, which has no instances, bit for bit."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402


def bits(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        same = value.detach().contiguous()
        return value.dtype, tuple(value.shape), value.stride(), same.numpy().tobytes()
    if isinstance(value, (tuple, list)):
        return [bits(v) for v in value]
    return value


def outcome(f: Any, args: tuple) -> Any:
    try:
        return bits(f(*args))
    except Exception as error:
        return type(error), str(error).splitlines()[-1]


def check(program: Any, calls: list[tuple], folder: pathlib.Path) -> None:
    path = str(folder / "m.pt")
    torch.jit.script(program).save(path)
    module = rushlight.load(path)
    for args in calls:
        want = outcome(rushlight.load(path), args)
        assert outcome(module, args) == want, args
        assert outcome(module, args) == want, args


def tensors(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    torch.manual_seed(3)
    return [torch.randn(shape) for shape in shapes]


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(6, 5)
        self.second = torch.nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


class Views(torch.nn.Module):
    def forward(self, x: torch.Tensor, i: int) -> list[torch.Tensor]:
        y = x.select(0, i).unsqueeze(0).transpose(0, -1)
        a, b = x.chunk(2, 0)
        return [y, a, b, x[i:], x.flatten(), y.squeeze(), x.reshape(-1), x.contiguous()]


class Points(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, s: float, n: int) -> list[torch.Tensor]:
        return [
            x + y, x.add(y, alpha=s), x * s, x - n, torch.where(x > y, x, y), x.clamp(min=s),
            x / 2, x.pow(n), torch.sigmoid(x) * torch.tanh(y), x == y, x.neg(),
            torch.cat([x.flatten(), y.flatten()]),
        ]  # fmt: skip


class Loop(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        for i in range(n):
            x = torch.cat([x, x.narrow(0, i, 1)]).relu().t().contiguous().t() + i
        return x

    @torch.jit.export
    def step(self, x: torch.Tensor, i: int) -> torch.Tensor:
        return torch.cat([x, x.narrow(0, i, 1)]).relu().t().contiguous().t() + i


class Writes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x + 1
        z = y.view(-1)
        z.add_(1)
        return y, z


def test_sizes_that_change(tmp_path: pathlib.Path) -> None:
    calls = [(x,) for n in range(1, 40) for x in tensors((n, 6), (2, n, 6), (6,))]
    check(Layers(), calls, tmp_path)


def test_wrong_sizes_are_refused_as_before(tmp_path: pathlib.Path) -> None:
    good, bad = tensors((4, 6), (4, 5))
    check(Layers(), [(good,)] * 3 + [(bad,), (good,), (bad.double(),), (good.double(),)], tmp_path)


def test_views_of_other_offsets_and_strides(tmp_path: pathlib.Path) -> None:
    (base,) = tensors((8, 6))
    views = [
        base,
        base[1:7],
        base[2:],
        base.t(),
        base[:, ::2],
        base[::2, 1:],
        base[1:2].expand(4, 6),
    ]
    check(Views(), [(v, i) for v in views for i in (0, 1, -1, 7)] * 3, tmp_path)


def test_numbers_and_dtypes(tmp_path: pathlib.Path) -> None:
    a, b = tensors((3, 4), (3, 4))
    pairs = [(a, b), (a, b[0]), (a[:, :1], b), (a.t(), b.t()), (a.double(), b.double()),
             ((a * 5).long(), (b * 5).long()), (a.half(), b.half()), (a, (b * 3).int()),
             (a.to(torch.complex64), b.to(torch.complex64)), (a > 0, b > 0)]  # fmt: skip
    numbers = itertools.product((0.5, 1.0, -2.0), (0, 1, 2, 3))
    check(Points(), [(*p, s, n) for s, n in numbers for p in pairs], tmp_path)


def test_places_with_more_sizes_than_are_kept(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "m.pt")
    torch.jit.script(Loop()).save(path)
    for n, start in ((3, (3, 2)), (30, (7, 1)), (90, (30, 3))):
        (x,) = tensors(start)
        want = x
        for i in range(n):
            want = rushlight.load(path).step(want, i)
        module = rushlight.load(path)
        for _ in range(3):
            assert bits(module(x, n)) == bits(want)


def test_results_are_not_shared_between_calls(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "m.pt")
    torch.jit.script(Writes()).save(path)
    module = rushlight.load(path)
    x = torch.zeros(4)
    kept = [module(x) for _ in range(6)]
    for y, z in kept:
        assert y.tolist() == z.tolist() == [2, 2, 2, 2]


class Parts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(4, 6))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        w = self.w.t()
        return [w, w[:3], x.t(), x @ w, torch.cat([x, self.w]), x.relu()]


def test_who_requires_grad(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "m.pt")
    torch.jit.script(Parts()).save(path)
    theirs, mine = torch.jit.load(path), rushlight.load(path)
    x = torch.randn(2, 6)
    for own in (x, x.clone().requires_grad_()):
        for grad in (True, False, True):
            for _ in range(4):
                with torch.set_grad_enabled(grad):
                    want, got = theirs(own), mine(own)
                assert [t.requires_grad for t in got] == [t.requires_grad for t in want], grad
                assert [t.is_leaf for t in got] == [t.is_leaf for t in want], grad


def test_gradients_after_calls_without(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "m.pt")
    torch.jit.script(Layers()).save(path)
    theirs, mine = torch.jit.load(path), rushlight.load(path)
    (x,) = tensors((4, 6))
    for grad in (False, True, False, True):
        for _ in range(4):
            for module in theirs, mine:
                for p in module.parameters():
                    p.grad = None
            with torch.set_grad_enabled(grad):
                want, got = theirs(x), mine(x)
            assert got.requires_grad == want.requires_grad
            torch.testing.assert_close(got, want)
            if grad:
                want.sum().backward()
                got.sum().backward()
                for p, q in zip(mine.parameters(), theirs.parameters(), strict=True):
                    torch.testing.assert_close(torch.as_tensor(p.grad), q.grad)


# Functions of a text, which hold no parameters: calls of modules' methods in a process that has
# torch are watched for gradients, and have no instances then.
TEXT = """
def turned(x):
    return x.transpose(0, 1).clone(), x.transpose(0, 1).reshape(-1), torch.cat([x, x], 1)
def picked(x, i: int):
    return x[i].clone()
def shaped(x, f: float, g: float):
    return (torch.nn.functional.leaky_relu(x, f), torch.clamp(x, f, g),
            torch.nn.functional.threshold(x, f, g), torch.full([2, 2], f), torch.add(x, x, alpha=g),
            torch.arange(-4.0, g))
"""


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    return value.shape, value.numpy().tobytes()


def plain_outcome(f: Any, args: tuple) -> Any:
    try:
        return plain(f(*args))
    except Exception as error:
        return type(error), str(error).splitlines()[-1]


def text_calls() -> list[tuple[str, tuple]]:
    base = rushlight.tensor(torch.arange(50.0).reshape(10, 5).numpy() - 20)
    square, other = base[:5], base[5:]
    views = [square, square.t(), other, other.t(), base[2:7], base[::2]]
    numbers = [(0.5, 2.0), (-0.5, 2.0), (0.5, -3.0), (0.0, 7.5)]
    return [
        *(("turned", (v,)) for v in views),
        *(("picked", (v, i)) for v in views[:4] for i in (0, 4, -5, 5, -6, 2)),
        *(("shaped", (v, f, g)) for f, g in numbers for v in (square, other, square.t())),
    ]


def test_functions_after_many_calls_do_as_after_none() -> None:
    module = rushlight._rushlight.compile(TEXT)
    with rushlight.no_grad():
        for _ in range(3):
            for name, args in text_calls():
                want = plain_outcome(getattr(rushlight._rushlight.compile(TEXT), name), args)
                assert plain_outcome(getattr(module, name), args) == want, (name, args)
