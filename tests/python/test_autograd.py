"""Gradients through programs that torch tensors go into: beside the same computation in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402


def twice(f: Callable[..., Any], *args: Any) -> None:
    """First and second derivatives of the scripted function, by differences."""
    g = rushlight.script(f)
    assert gradcheck(g, args)
    assert gradgradcheck(g, args)


def leaf(*sizes: int) -> Any:
    return torch.randn(*sizes, dtype=torch.double, requires_grad=True)


def arithmetic(x, w):
    y = x * w + x.exp()
    return y.sum(0), y


def rows(x, w):
    out = torch.zeros(3, 4, dtype=torch.double)
    for i in range(3):
        out[i] = x[i] * w
    out[:, 1:3] *= x[:, 1:3]
    out.add_(x)
    return out


def lists(x, w):
    a = torch.split(x, 2, 1)
    b = torch.stack([a[0], a[1] * w[:2]])
    return b, torch.cat(x.unbind(0)) * 2


def branches(x, w):
    if bool(x.sum() > 0):
        y = x * w
    else:
        y = x - w.sin()
    while bool(y.abs().sum() > 1.0):
        y = y * 0.5
    return y


@pytest.mark.parametrize("f", [arithmetic, rows, lists, branches])
def test_by_differences(f: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    twice(f, leaf(3, 4), leaf(4))


def test_a_module_in_training() -> None:
    m = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2)).double()
    x = torch.randn(5, 4, dtype=torch.double)
    m(x).sum().backward()
    want = [p.grad for p in m.parameters()]
    for p in m.parameters():
        p.grad = None
    rushlight.script(m)(x).sum().backward()
    for w, p in zip(want, m.parameters(), strict=True):
        torch.testing.assert_close(p.grad, w)


def test_an_argument_that_is_written() -> None:
    @rushlight.script
    def write(x, w):
        x.mul_(w)
        return x + 1

    def f(x: Any, w: Any) -> Any:
        y = x * 1
        return write(y, w) * y

    args = leaf(3, 4), leaf(4)
    assert gradcheck(f, args)
    assert gradgradcheck(f, args)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        write(*args)


def test_what_requires_no_grad() -> None:
    @rushlight.script
    def f(x, w):
        with torch.no_grad():
            y = x * w
        return y, x.detach(), (x > 0), x

    x, w = leaf(3), leaf(3)
    y, d, b, same = f(x, w)
    assert not y.requires_grad
    assert not d.requires_grad
    assert not b.requires_grad
    assert same is x
    with torch.no_grad():
        assert f(x, w)[0].grad_fn is None
