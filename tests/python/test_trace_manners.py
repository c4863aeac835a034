"""What a trace looks like beside torch.jit.trace's: graphs' texts, what is refused and with which
words."""

from __future__ import annotations

import pathlib
import re
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

X = torch.arange(6.0).reshape(2, 3)


def text(graph: Any) -> str:
    """Without numbers of types."""
    return re.sub(r"\.?___torch_mangle_\d+", "", str(graph))


def masked(x: Any) -> Any:
    x = x.clone()
    x[x > 2] = 0
    return x


def written(x: Any) -> Any:
    x = x.clone()
    x.add_(1)
    x *= 2
    x[:, 1:] = 4
    return x.relu_()


def rows(x: Any) -> Any:
    a, b = x
    return a + b


def normalised(x: Any) -> Any:
    n = x.size(0) * x.size(1)
    n *= 2  # it is never read
    return F.group_norm(x[None].expand(2, -1, -1), 2)


FUNCTIONS: list[Callable[[Any], Any]] = [
    *(masked, written, rows, normalised),
    lambda x: (x + 1) * 2.5 - 3 / x,
    lambda x: x.view(x.size(0), -1) + x.view(x.shape[0], x.shape[1]),
    lambda x: torch.zeros(x.size()) + x,
    lambda x: x[: x.size(0) - 1, None, ..., [0, 1]],
    lambda x: x[:, torch.tensor([0, 1])],
    lambda x: x + torch.tensor([1.0, 2.0, 3.0]) + x.new_tensor([1.0]),
    lambda x: F.mse_loss(x, x + 1) + F.layer_norm(x, (3,)).sum(),
    lambda x: (x.topk(2), torch.max(x, 1)),
    lambda x: F.interpolate(x[None], scale_factor=2).flatten(1) * x.numel(),
    lambda x: x.split(1)[0] + torch.cat([x, x], 0).chunk(2)[1],
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_text_of_functions(function: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert text(rushlight.trace(function, X).graph) == text(torch.jit.trace(function, X).graph)


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.register_buffer("b", torch.ones(4))
        self.w = nn.Parameter(torch.ones(4))

    def forward(self, x: Any) -> Any:
        y = self.fc(x)
        return y * self.w + self.b + x.size(0)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        self.w = nn.Parameter(torch.ones(2))

    def forward(self, x: Any) -> Any:
        c = torch.full((1,), 2.0)
        h = self.inner(x) * c
        z = self.body(h)
        z = self.body(h) + z
        return z * self.w * self.inner.w.sum() * c, x.size(0)


def test_text_of_modules() -> None:
    module = Outer()
    ours, theirs = (
        rushlight.trace(module, X, check_trace=False),
        torch.jit.trace(module, X, check_trace=False),
    )
    for path, _ in module.named_modules():
        a, b = ours.get_submodule(path), theirs.get_submodule(path)
        assert text(a.graph) == text(b.graph), path
        assert text(a.code) == text(b.code), path
    assert text(ours.body.forward1.graph) == text(theirs.body.forward1.graph)


REFUSED: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (lambda x: x, ([X, 1],), {}),
    (lambda x: x, (object(),), {}),
    (lambda x, n: x, (X, 3), {}),
    (lambda x, d: x, (X, {}), {}),
    (lambda d: d["a"], ({"a": X, "b": (X,)},), {}),
    (lambda x: [], (X,), {"strict": False}),
    (lambda x: {}, (X,), {"strict": False}),
    (lambda x: {"a": x}, (X,), {}),
    (lambda x: x.numpy(), (X,), {}),
    (lambda x: None, (X,), {}),
    (lambda x: 3, (X,), {}),
    (lambda x: {"a": x, "b": (x,)}, (X,), {"strict": False}),
    (lambda x: C, (X,), {}),
    (lambda x: x + G, (X,), {}),
]
C, G = torch.ones(2), torch.ones(3, requires_grad=True)


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: Any) -> None:
    function, inputs, options = case
    told = []
    for trace in (rushlight.trace, torch.jit.trace):
        with warnings.catch_warnings(), pytest.raises(RuntimeError) as error:
            warnings.simplefilter("ignore")
            trace(function, inputs, **options)
        told.append(re.sub(r"0x[0-9a-f]+", "", str(error.value)).strip())
    assert told[0] == told[1]


def test_check_says_where_traces_differ() -> None:
    n = [0]

    def function(x: Any) -> Any:
        n[0] += 1
        return x + 1 if n[0] % 2 else x * 2

    for trace in (rushlight.trace, torch.jit.trace):
        n[0] = 0
        with pytest.raises(torch.jit._trace.TracingCheckError) as error, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trace(function, (X,))
        told = str(error.value)
        for part in (
            "Graphs differed across",
            "\t\t  graph(%x : Tensor):\n",
            "First diverging operator:",
            "Trace source location:",
        ):
            assert part in told


def test_printing_while_tracing() -> None:
    shown = []

    def function(x: Any) -> Any:
        shown.append(str(x))
        return x + 1

    traced = rushlight.trace(function, (X,), check_trace=False)
    assert shown == [str(X)] and torch.equal(traced(X), X + 1)


def test_scripted_callees_give_containers() -> None:
    @rushlight.script
    def pair(x: torch.Tensor, n: int | None = None) -> tuple[torch.Tensor, list[torch.Tensor]]:
        return x, [x, x + 1]

    @rushlight.script
    def named(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"a": x + 1}

    traced = rushlight.trace(lambda x: pair(x)[1][1] + pair(x, 2)[0] + named(x)["a"], X)
    assert torch.equal(traced(X + 1), 3 * (X + 1) + 2)


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seq = nn.Sequential(nn.Linear(3, 2), nn.ReLU())

    def forward(self, x: Any) -> Any:
        return self.seq(x) + 1


def test_places_and_scopes() -> None:
    ours, theirs = rushlight.trace(Deep(), X), torch.jit.trace(Deep(), X)
    graphs = ours.inlined_graph, theirs.inlined_graph
    linear, other = (g.findNode("aten::linear") for g in graphs)
    assert linear.scopeName() == other.scopeName() == "__module.seq/__module.seq.0"
    assert linear.getModuleHierarchy() == other.getModuleHierarchy() == "seq(Sequential).0(Linear)"
    assert linear.sourceRange().partition("\n")[0] == other.sourceRange().partition("\n")[0]
    assert text(ours.seq.graph) == text(theirs.seq.graph)
    with pytest.raises(
        RuntimeError,
        match=r"(?s)Traceback of TorchScript.*linear\.py\(\d+\): forward.*manners.py.*: forward",
    ):
        ours(torch.ones(2, 5))


def test_an_error_outlives_its_module() -> None:
    with pytest.raises(RuntimeError, match="missing value for argument 'input'"):
        rushlight.script(nn.Linear(3, 2))()


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, n: int) -> Any:
        return x * n

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 7, None


def test_functions_with_gradients_of_their_own_stay_pythons() -> None:
    made = rushlight.trace(lambda x: Twice.apply(x * 2, 3) + 1, X)
    node = made.graph.findNode("prim::PythonOp")
    assert (node.kind(), node.pyname(), node.scalar_args(), node.cconv()) == (
        "prim::PythonOp",
        "Twice",
        ["3"],
        "cd",
    )
    assert "^Twice[inplace=0, module=" in str(made.graph) and "^Twice(3)(" in made.code
    x = torch.ones(3, requires_grad=True)
    made(x).sum().backward()
    assert x.grad.tolist() == [14.0] * 3
    with pytest.raises(RuntimeError, match="Could not export Python function call 'Twice'"):
        rushlight.save(made, "/dev/null")


def test_submodules_are_not_called() -> None:
    made = rushlight.trace(Deep(), X)
    assert [type(m).__name__ for m in made.modules()] == ["TopLevelTracedModule"] + [
        "TracedModule"
    ] * 3
    with pytest.raises(RuntimeError, match="Trace submodules cannot be called"):
        made.seq(X)


def test_synonyms_become_one() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (
            torch.absolute(x)
            + x.multiply(2)
            + torch.special.expit(x)
            + torch.concat([x.arctan(), x]).sum()
        )

    found = re.compile(r"= (aten::\w+)")
    for ours, theirs in (
        (rushlight.trace(f, X), torch.jit.trace(f, X)),
        (rushlight.script(f), torch.jit.script(f)),
    ):
        assert found.findall(str(ours.graph)) == found.findall(str(theirs.graph))


def test_data_is_a_constant_and_out_of_place_writes_warn() -> None:
    by_data = lambda x: x.data * x  # noqa: E731
    assert text(rushlight.trace(by_data, X).graph) == text(torch.jit.trace(by_data, X).graph)

    def f(x: Any) -> Any:
        y = x * 1
        y.view(-1).add_(2)
        return y

    with pytest.warns(
        torch.jit.TracerWarning,
        match=r"There are 2 live references .* tracing in-place operator add_\.",
    ):
        rushlight.trace(f, X, _force_outplace=True, check_trace=False)


def test_methods_of_programs_have_their_defaults() -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor, n: int = 2) -> torch.Tensor:
            return x * n

    class Holder(nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return self.inner(x) + 1

    assert (
        rushlight.trace(Holder(rushlight.script(Scaled())), X)(X).tolist() == (X * 2 + 1).tolist()
    )


def test_threads_trace_one_by_one() -> None:
    made: list[Any] = []
    threads = [
        threading.Thread(target=lambda: made.append(rushlight.trace(lambda x: x + 1, X)(X)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4 and all(torch.equal(y, X + 1) for y in made)


def test_arrays_are_constants() -> None:
    array = X.numpy().copy()
    f = lambda x: x * torch.from_numpy(array) * 2j  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = rushlight.trace(f, X), torch.jit.trace(f, X)
    assert [n.kind() for n in ours.graph.nodes()] == [n.kind() for n in theirs.graph.nodes()]
    assert torch.equal(ours(X), f(X))


def test_script_profile() -> None:
    def hits(profile: Any) -> list[int]:
        lines = profile.dump_string().split("\n")
        return [int(line.split()[1]) for line in lines if "return (x @ x.t()).sum(0)" in line]

    function = rushlight.script(doubled)
    profile, other = rushlight.jit._ScriptProfile(), rushlight.jit._ScriptProfile()
    assert profile.dump_string() == ""
    profile.enable()
    function(X)
    with pytest.raises(RuntimeError, match="Only disabled profilers are allowed to dump stats"):
        profile.dump_string()
    profile.disable()
    assert "Line #    Hits" in profile.dump_string()
    (once,) = hits(profile)
    function(X)
    profile.enable()
    other.enable()  # several at once
    function(X)
    other.disable()
    function(X)
    profile.disable()
    assert hits(other) == [once] and hits(profile) == [3 * once]  # what it had before counts, too
    other.disable()
    assert hits(other) == [once]


def doubled(x: torch.Tensor) -> torch.Tensor:
    return (x @ x.t()).sum(0)


class Odd(torch.nn.Module):
    """Its submodule has a name that is no identifier."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.add_module(name, torch.nn.Linear(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self, self.name)(x).relu()


@pytest.mark.parametrize("name", ["block1-0", "0x", "a b", "a#b", "é"])
def test_submodules_may_have_any_name(name: str, tmp_path: pathlib.Path) -> None:
    module, x = Odd(name), torch.ones(2, 3)
    traced = rushlight.trace(module, x)
    torch.testing.assert_close(traced(x), module(x))
    traced.save(str(tmp_path / "m.pt"))
    for load in (rushlight.load, torch.jit.load):
        torch.testing.assert_close(load(str(tmp_path / "m.pt"))(x), module(x))


class Holder(torch.nn.Module):
    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * 2


def test_modules_may_hold_loaded_programs(tmp_path: pathlib.Path) -> None:
    path = str(pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.pt")
    x = torch.rand(2, 1, 8, 8)
    for load in (rushlight.load, torch.jit.load):
        module = Holder(load(path))
        traced = rushlight.trace(module, x)
        torch.testing.assert_close(traced(x), module(x))
        traced.save(str(tmp_path / "m.pt"))
        torch.testing.assert_close(torch.jit.load(str(tmp_path / "m.pt"))(x), module(x))
