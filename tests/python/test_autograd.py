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
    m = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2)
    ).double()
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
    with pytest.raises(
        RuntimeError,
        match="a leaf Variable that requires grad is being used in an in-place operation",
    ):
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


# -- Beside torch: values, gradients and their gradients
# ------------------------------------------------------------


def flat(o: Any) -> list[Any]:
    if isinstance(o, torch.Tensor):
        return [o]
    return [
        t
        for x in (o.values() if isinstance(o, dict) else o if isinstance(o, (list, tuple)) else [])
        for t in flat(x)
    ]


def squares(results: list[Any], leaves: list[Any], again: bool) -> Any:
    loss = sum(r.pow(2).sum() * (i + 1) for i, r in enumerate(results))
    return torch.autograd.grad(loss, leaves, create_graph=again, allow_unused=True)


def same(
    theirs: Callable,
    ours: Callable,
    args: tuple[Any, ...],
    parameters: Any = (),
    second: bool = True,
) -> None:
    got, want = [], []
    for f, out in ((theirs, want), (ours, got)):
        torch.manual_seed(3)
        results = flat(f(*args))
        leaves = [
            a for a in [*args, *parameters] if isinstance(a, torch.Tensor) and a.requires_grad
        ]
        first = squares([r for r in results if r.requires_grad], leaves, second)
        more = sum(g.pow(2).sum() for g in first if g is not None)
        again = (
            torch.autograd.grad(more, leaves, allow_unused=True)
            if second and more.requires_grad
            else ()
        )
        out += [*results, *first, *(torch.zeros(()) if g is None else g for g in again)]
        out.append(torch.tensor([r.requires_grad for r in results]))
    for g, w in zip(got, want, strict=True):
        assert (g is None) == (w is None)
        if w is not None:
            torch.testing.assert_close(*torch.broadcast_tensors(g, w))


class Words(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(10, 4, padding_idx=0)
        self.out = torch.nn.Linear(4, 2)

    def forward(self, i: torch.Tensor) -> torch.Tensor:
        return self.out(self.table(i)).sum(1)


nn = torch.nn
MODULES = {
    "convolution": lambda: (
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)),
        leaf(2, 2, 5, 5),
    ),
    "lstm": lambda: (nn.LSTM(3, 4, 2), leaf(5, 2, 3)),
    "gru": lambda: (nn.GRU(3, 4, bidirectional=True, batch_first=True), leaf(2, 5, 3)),
    "cell": lambda: (nn.LSTMCell(3, 4), leaf(2, 3)),
    "attention": lambda: (nn.MultiheadAttention(8, 2), leaf(3, 2, 8), leaf(3, 2, 8), leaf(3, 2, 8)),
    "dropout": lambda: (nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), leaf(3, 4)),
    "norms": lambda: (nn.Sequential(nn.GroupNorm(2, 4), nn.LayerNorm(2)), leaf(3, 4, 2)),
    "words": lambda: (Words(), torch.randint(0, 10, (3, 4))),
}


@pytest.mark.parametrize("how", ["script", "trace"])
@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str, how: str) -> None:
    torch.manual_seed(1)
    module, *args = MODULES[name]()
    module = module.double()
    ours = (
        rushlight.script(module)
        if how == "script"
        else rushlight.trace(module, tuple(args), check_trace=False)
    )
    same(module, ours, tuple(args), list(module.parameters()))


def views(x):
    y = x.t() * 2
    y[1].mul_(3)
    z = y.reshape(2, -1)
    z[0, 0] = 5.0
    a = y[:, 0]
    a += 1
    return y, z, a


def masked(x):
    y = x.clone()
    y[x > 0] = 0
    y.masked_fill_(x > 1, 2.0)
    y[torch.tensor([0, 1])] = x[:2] * 3
    return y


def base(x):
    b = torch.zeros(3, 4, dtype=torch.double)
    r = b.select(0, 0)
    v = b.view(-1)
    r.copy_(x[0])
    b[1:] = x[1:] * 2
    return b, r, v * v


def stopped(x):
    y = x.detach()
    z = x * 1
    z.detach_()
    return y + x, z * x, (x * 2).requires_grad_()


def containers(x):
    return {"a": x * 2, "b": x.sin()}, [x * 3, x.exp()], (x, x + 1)


def reshaped(x):
    y = x * 1
    y.mul_(2).t_()
    return y.unsqueeze_(0)


def several(x):
    i = torch.tensor([0, 2])
    return (
        x.var(0),
        x.max(1)[0],
        x.norm(),
        x.cumsum(1),
        x.sort(1)[0],
        x.topk(2)[0],
        torch.fft.rfft(x).abs(),
        x[i],
    )


@pytest.mark.parametrize("f", [views, masked, base, stopped, containers, reshaped, several])
def test_functions(f: Callable[..., Any]) -> None:
    torch.manual_seed(2)
    same(f, rushlight.script(f), (leaf(3, 4),))


# -- Torch's own manners
# ----------------------------------------------------------------------------------------------


def test_a_graph_is_used_up() -> None:
    @rushlight.script
    def f(x):
        return x * x

    x = leaf(3)
    y = f(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    torch.testing.assert_close(x.grad, 4 * x.detach())
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_a_grad_fn_can_be_called() -> None:
    """With a gradient for each result, as a node of torch's operators; undefined ones too."""

    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.sin(a * b)

    a, b = (torch.rand(3, requires_grad=True) for _ in range(2))
    got, grad = rushlight.script(f)(a, b), torch.rand(3)
    want = torch.autograd.grad(f(a, b), (a, b), grad)
    for _ in range(2):  # it is not used up
        for mine, theirs in zip(got.grad_fn(grad), want, strict=True):
            torch.testing.assert_close(mine, theirs)
    assert got.grad_fn(None) == (None, None)
    with pytest.raises(TypeError, match="expected 1 arguments, got 2 instead"):
        got.grad_fn(grad, None)
    got.backward(grad)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        got.grad_fn(grad)


def test_writes_of_torchs_are_seen() -> None:
    @rushlight.script
    def f(x):
        return x.exp()

    y = f(leaf(3))
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_views_of_arguments_are_torchs() -> None:
    @rushlight.script
    def f(x):
        return x.view(-1)

    x = leaf(2, 2)
    y = x * 1
    f(y).mul_(2)
    (y * y).sum().backward()
    torch.testing.assert_close(x.grad, 8 * x.detach())
    with pytest.raises(
        RuntimeError, match="a view of a leaf Variable that requires grad is being used"
    ):
        rushlight.script(rows_in_place)(leaf(2, 2))


def rows_in_place(x):
    x[0] = 1
    return x


class Keeps(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2, dtype=torch.double))
        self.kept = torch.zeros(2, dtype=torch.double)

    @torch.jit.ignore
    def python(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept = self.kept + self.python(x * self.weight)
        return self.kept * 2


def test_state_and_python_functions() -> None:
    module, x = Keeps(), leaf(2)
    ours = rushlight.script(module)
    ours(x)
    (got,) = torch.autograd.grad(ours(x).sum(), x, retain_graph=True)
    torch.testing.assert_close(got, 8 * x.detach().cos())
    ours.kept.sum().backward()
    assert module.weight.grad is ours.weight.grad
    torch.testing.assert_close(ours.weight.grad, 4 * x.detach() * x.detach().cos())


def test_an_optimizer_and_what_is_frozen() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    ours = rushlight.script(module)
    module[0].weight.requires_grad_(False)
    optimizer = torch.optim.Adam(ours.parameters(), 0.05)
    x = torch.randn(10, 3)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = (ours(x) - x.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert module[0].weight.grad is None
    assert module[2].weight.grad is not None


def test_our_own_tensors() -> None:
    @rushlight.script
    def f(x):
        return (x * x).sum()

    x = rushlight.as_tensor([1.0, 2.0])
    x.requires_grad = True
    f(x).backward()
    f(x).backward()
    assert x.grad.tolist() == [4.0, 8.0]
    x.grad = None
    assert x.grad is None


def sampled(x, grid, mode: str, padding: str, aligned: bool):
    return torch.nn.functional.grid_sample(x, grid, mode, padding, aligned)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("aligned", [False, True])
def test_second_derivatives_of_samples(dims: int, padding: str, aligned: bool) -> None:
    torch.manual_seed(0)
    x, out = (
        torch.randn(2, 2, *[4, 3, 5][:dims], dtype=torch.double),
        torch.randn(2, 2, *[3, 2, 4][:dims], dtype=torch.double),
    )
    grid = (torch.rand(2, *[3, 2, 4][:dims], dims, dtype=torch.double) - 0.5) * 3.2
    for mode in ("bilinear", "bicubic")[: 4 - dims]:
        results = []
        for f in (sampled, rushlight.script(sampled)):
            of = [t.clone().requires_grad_() for t in (x, grid, out)]
            first = torch.autograd.grad(
                f(of[0], of[1], mode, padding, aligned), of[:2], of[2], create_graph=True
            )
            results.append([*first, *torch.autograd.grad([t.pow(2).sum() for t in first], of)])
        for a, b in zip(*results, strict=True):
            torch.testing.assert_close(a, b)


# -- Programs that request gradients themselves
# -------------------------------------------------------------


def asks(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    y = (x * w).sin()
    y.retain_grad()
    z = (y * y).sum()
    g = torch.autograd.grad([z], [x], create_graph=True)[0]
    assert g is not None
    z.backward(retain_graph=True)
    (g * g).sum().backward()
    return [g, y.grad, x.grad, w.grad, y]


def descends(x: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    w = torch.zeros([3], dtype=torch.double).requires_grad_()
    loss = w.sum()
    for _i in range(n):
        loss = ((w - x.detach()) ** 2).sum()
        loss.backward()
        with torch.no_grad():
            g = w.grad
            assert g is not None
            w -= 0.1 * g
            g.zero_()
    return w, loss


class Trains(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2, dtype=torch.double)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        loss = self.linear(x).pow(2).sum()
        loss.backward()
        return loss

    @torch.jit.export
    def gradient(self) -> torch.Tensor:
        return self.linear.weight.grad


def test_a_program_asks_for_gradients() -> None:
    results = []
    for script in (torch.jit.script, rushlight.script):
        torch.manual_seed(1)
        start, x = leaf(3), leaf(3)
        w = start * 2  # which has a history of torch's
        w.retain_grad()
        seen: list[Any] = []
        w.register_hook(lambda g, seen=seen: seen.append(g.detach().clone()))
        made = script(asks)(x, w)
        results.append([*(t.detach() for t in made), start.grad, x.grad, w.grad, *seen])
        assert made[0].requires_grad and made[2] is x.grad
        w, loss = script(descends)(start, 4)
        results[-1] += [w.detach(), w.grad, loss.detach()]
        assert w.is_leaf and w.requires_grad
    assert len(results[0]) == len(results[1])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


def test_a_module_trains_itself() -> None:
    torch.manual_seed(1)
    module, x = Trains(), torch.randn(4, 3, dtype=torch.double)
    first, second = torch.jit.script(module), rushlight.script(module)
    first(x)
    grad = module.linear.weight.grad.clone()
    module.zero_grad()
    second(x)
    torch.testing.assert_close(module.linear.weight.grad, grad)
    assert second.gradient() is module.linear.weight.grad


@pytest.mark.parametrize(
    "text",
    [
        "torch.autograd.grad([(x * z).sum()], [z])",
        "torch.autograd.grad([x * z], [x])",
        "torch.autograd.grad([(z * z).sum()], [x])",
        "torch.autograd.grad([(x * x).sum()], [x, w])",
        "(x * z).backward(torch.ones([2]))",
        "z.retain_grad()",
        "(z > 0).requires_grad_()",
    ],
)
def test_what_a_program_may_not_ask(text: str) -> None:
    code = f"def f(x, w, z):\n  return {text}\n"
    said = []
    for unit in (torch.jit.CompilationUnit, rushlight.CompilationUnit):
        with pytest.raises(RuntimeError) as e:
            unit(code).f(
                torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True), torch.ones(3)
            )
        said.append(str(e.value).strip().splitlines()[-1])
    assert said[0] == said[1]
