"""What a TorchScript program can see of the interpreter, against PyTorch: tracebacks, forks,
requires_grad."""

from __future__ import annotations

import pathlib
from typing import Any, Dict, List

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from torch import nn  # noqa: E402


def outcome(f: Any, *args: Any) -> str:
    """The result, or the error with its whole text."""
    try:
        return repr(f(*args))
    except Exception as error:  # whatever PyTorch raises
        return f"{type(error).__name__}: {error}"


KEPT: list[Any] = []  # PyTorch runs unwaited tasks after their module is freed, and crashes


def both(tmp_path: pathlib.Path, module: Any) -> tuple[Any, Any]:
    path = str(tmp_path / "m.pt")
    torch.jit.script(module).save(path)
    KEPT.append(torch.jit.load(path))
    return KEPT[-1], rushlight.load(path)


class Inner(nn.Module):
    def forward(self, x, n: int):
        if n == 1:
            raise ValueError("bad " + str(n))
        if n == 2:
            assert x.numel() > 100, f"numel {n}"
        if n == 3:
            y = x.view(7, 9)
            return y
        return x + n


def helper(x, n: int):
    # a comment
    return torch.matmul(x, x) + n


class Failing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, n: int):
        y = self.inner(x, n)
        if n == 4:
            return self.linear(y)
        if n == 5:
            z = [1, 2]
            return y + z[n]
        return helper(y, n)


@pytest.mark.parametrize("n", range(1, 7))
def test_tracebacks_are_pytorchs(tmp_path: pathlib.Path, n: int) -> None:
    theirs, ours = both(tmp_path, Failing())
    assert outcome(ours, torch.ones(2, 5), n) == outcome(theirs, torch.ones(2, 5), n)


def work(x, n: int):
    if n == 3:
        raise ValueError("from the fork")
    if n == 4:
        return x.view(7)
    return x * n


def nested(x, n: int):
    f = torch.jit.fork(work, x, n)
    g = torch.jit.fork(work, x, n + 10)
    return torch.jit.wait(g) + torch.jit.wait(f)


class Forks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(1))

    def add(self, x, n: int):
        self.total.add_(n)
        return x + self.total

    def forward(self, x, n: int):
        futures: List[torch.jit.Future[torch.Tensor]] = []
        for i in range(n):
            futures.append(torch.jit.fork(nested, x, i))
        s = x
        for f in futures:
            s = s + torch.jit.wait(f)
        return s

    @torch.jit.export
    def unwaited(self, x, n: int):
        torch.jit.fork(work, x, n)
        return x

    @torch.jit.export
    def of_methods(self, x, n: int):
        f = torch.jit.fork(self.add, x, n)
        d: Dict[str, torch.jit.Future[torch.Tensor]] = {"f": f}
        t = (d["f"], n)
        return t[0].wait() + torch.jit.wait(f)


@pytest.mark.parametrize("method", ["forward", "unwaited", "of_methods"])
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5])
def test_forks(tmp_path: pathlib.Path, method: str, n: int) -> None:
    theirs, ours = both(tmp_path, Forks())
    x = torch.ones(2)
    assert outcome(getattr(ours, method), x, n) == outcome(getattr(theirs, method), x, n)


def first(x, n: int):
    return x // n if n > 0 else x.view(7)


def after(f: torch.jit.Future[torch.Tensor]):
    return torch.jit.wait(f) + 1


def after_two(f: torch.jit.Future[torch.Tensor], g: torch.jit.Future[torch.Tensor]):
    with torch.no_grad():
        a = torch.jit.wait(g)
    return a + torch.jit.wait(f)


def mode(x, w):
    return torch.tensor([torch.is_grad_enabled(), (x * w).requires_grad])


class Chains(nn.Module):
    def forward(self, x, n: int, k: int):
        f = torch.jit.fork(first, x, k)
        for _i in range(n):
            f = torch.jit.fork(after, f)
        return torch.jit.wait(f)

    @torch.jit.export
    def fibonacci(self, x, n: int, k: int):
        f = torch.jit.fork(first, x, k)
        g = f
        for _i in range(n):
            h = torch.jit.fork(after_two, f, g)
            f = g
            g = h
        return torch.jit.wait(g)

    @torch.jit.export
    def modes(self, x, n: int, k: int):
        w = torch.ones(2).requires_grad_()
        f = torch.jit.fork(mode, x, w)
        with torch.no_grad():
            g = torch.jit.fork(mode, x, w)
            a = torch.jit.wait(f)
            b = mode(x, w)
        return [a, b, torch.jit.wait(g), mode(x, w)]


@pytest.mark.parametrize("method", ["forward", "fibonacci", "modes"])
@pytest.mark.parametrize(("n", "k"), [(0, 1), (5, 1), (40, 1), (3000, 1), (0, 0), (1, 0), (4, 0)])
def test_tasks_wait_for_tasks(tmp_path: pathlib.Path, method: str, n: int, k: int) -> None:
    theirs, ours = both(tmp_path, Chains())
    x = torch.ones(2, dtype=torch.int64)
    assert outcome(getattr(ours, method), x, n, k) == outcome(getattr(theirs, method), x, n, k)


class Flags(nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor) -> List[bool]:
        y = x * w
        r = [y.requires_grad, y.is_leaf, x.requires_grad, w.is_leaf, y.detach().requires_grad]
        r.append((y > 1).requires_grad)
        r.append(torch.zeros_like(w).requires_grad)
        z = torch.zeros(3).requires_grad_()
        r.append(z.requires_grad)
        r.append(z.is_leaf)
        with torch.no_grad():
            r.append((w * 2).requires_grad)
            r.append(w.view(-1).requires_grad)
            r.append(torch.is_grad_enabled())
        u = x.clone()
        u.mul_(w)
        r.append(u.requires_grad)
        r.append(u.is_leaf)
        r.append(torch.chunk(w, 2)[0].requires_grad)
        r.append(x.contiguous().requires_grad)
        r.append(w.contiguous().is_leaf)
        r.append(torch.cat([x, w]).requires_grad)
        r.append(w.argmax().requires_grad)
        r.append(w.to(torch.float64).requires_grad)
        r.append(w.data.requires_grad)
        r.append(((x * 2) + w).exp().sum().requires_grad)
        return r

    @torch.jit.export
    def write(self, x: torch.Tensor, w: torch.Tensor):
        return w.add_(1)


@pytest.mark.parametrize("grad", [True, False])
def test_requires_grad_is_carried_on(tmp_path: pathlib.Path, grad: bool) -> None:
    theirs, ours = both(tmp_path, Flags())
    with torch.set_grad_enabled(grad):
        for method in ("forward", "write"):
            args = [(torch.ones(3), torch.ones(3, requires_grad=True)) for _ in range(2)]
            want = outcome(getattr(theirs, method), *args[0])
            assert outcome(getattr(ours, method), *args[1]).replace(
                ", requires_grad=True", ""
            ) == want.replace(", requires_grad=True", "")


def test_an_inner_loop_that_starts_from_a_count() -> None:
    def digits(n: int, base: int) -> List[int]:
        out: List[int] = []
        for i in range(n):
            rest = i
            total = 0
            for _ in range(2):
                total += rest % base
                rest = rest // base
            out.append(total * 100 + rest)
        return out

    assert rushlight.script(digits)(9, 2) == digits(9, 2)
