"""rushlight.trace beside torch.jit.trace: results on other inputs than traced, operators of the
graphs, warnings, errors."""

from __future__ import annotations

import collections
import io
import textwrap
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
import trace_ops  # noqa: E402
from trace_snippets import SNIPPETS, Snippet  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def r(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes)


def i(*sizes: int) -> torch.Tensor:
    return torch.randint(0, 2, sizes)


SCOPE = {"torch": torch, "np": np, "C": torch.randn(2, 3)[0:1].clone(), "r": r, "i": i}


def function_of(snippet: Snippet, n: int):
    text = snippet.text if "\nreturn" in snippet.text else f"return {snippet.text}"
    names = ", ".join("xyz"[:n])
    scope = {"__name__": "snippets", **SCOPE}
    exec(f"def f({names}):\n{textwrap.indent(text, '  ')}", scope)
    return scope["f"]


def inputs_of(text: str) -> tuple:
    return eval(f"({text},)", dict(SCOPE))


def flat(value) -> list:
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in flat(v)]
    if isinstance(value, dict):
        return [leaf for v in value.values() for leaf in flat(v)]
    return [value]


def clone(value):
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {k: clone(v) for k, v in value.items()}
    return type(value)(clone(v) for v in value)


def traced_by(trace, f, inputs, **options):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.manual_seed(0)
        made = trace(f, clone(inputs), check_trace=False, **options)
    texts = [
        str(w.message).split(".")[0]
        for w in seen
        if issubclass(w.category, torch.jit.TracerWarning)
    ]
    return made, texts


def kinds(graph) -> collections.Counter:
    found = collections.Counter()
    for line in str(graph).splitlines():
        _, _, right = line.partition(" = ")
        kind = right.partition("(")[0].partition("[")[0]
        if "::" in kind and kind not in (
            "prim::Constant",
            "prim::ListConstruct",
            "prim::TupleConstruct",
        ):
            found[kind] += 1
    return found


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda s: s.text.replace("\n", "; ")[:60])
def test_snippet(snippet: Snippet) -> None:
    torch.manual_seed(1)
    inputs, others = inputs_of(snippet.inputs), inputs_of(snippet.others)
    f = function_of(snippet, len(inputs))
    theirs, told = traced_by(torch.jit.trace, f, inputs, strict=False)
    ours, said = traced_by(rushlight.trace, f, inputs, strict=False)
    for given in (inputs, others):
        expected, got = theirs(*clone(given)), ours(*clone(given))
        assert type(got) is type(expected)
        for a, b in zip(flat(got), flat(expected), strict=True):
            torch.testing.assert_close(a, b, equal_nan=True)
    assert set(said) == set(told)
    if snippet.same_kinds:
        assert kinds(ours.graph) == kinds(theirs.graph), f"{ours.graph}\n{theirs.graph}"


def told(trace, f, inputs, **options) -> str:
    """Return the tracer's error for a function that it refuses."""
    with pytest.raises(Exception) as caught, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace(f, inputs, **options)
    return str(caught.value)


def state_of(x: torch.Tensor, calls=[0]) -> torch.Tensor:  # noqa: B006
    calls[0] += 1
    return x + 1 if calls[0] % 2 else x * 2


WRONG = {
    "a list of others": (lambda x: [(x, x)], (torch.ones(2),)),
    "dict": (lambda x: {"a": x}, (torch.ones(2),)),
    "dict in a tuple": (lambda x: (x, {"a": x}), (torch.ones(2),)),
    "nothing": (lambda x: None, (torch.ones(2),)),
    "a number": (lambda x: 3, (torch.ones(2),)),
    "takes a number": (lambda x, y: x, (torch.ones(2), 3)),
    "takes None": (lambda x, y: x, (torch.ones(2), None)),
    "takes a text": (lambda x: x, ("abc",)),
    "its own exception": (lambda x: x.view(7), (torch.ones(2),)),
}


@pytest.mark.parametrize("name", WRONG)
def test_refusals_are_torchs(name: str) -> None:
    f, inputs = WRONG[name]
    assert told(rushlight.trace, f, inputs) == told(torch.jit.trace, f, inputs)


def test_a_parameter_from_outside_is_refused() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    said = told(rushlight.trace, lambda x: x + weight, torch.ones(2))
    assert said.startswith("Cannot insert a Tensor that requires grad as a constant")


def test_checks() -> None:
    with pytest.raises(rushlight.TracingCheckError, match="Graphs differed across invocations"):
        rushlight.trace(state_of, torch.ones(2))
    with (
        pytest.raises(rushlight.TracingCheckError, match="First diverging operator"),
        pytest.warns(rushlight.TracerWarning),
    ):
        rushlight.trace(
            lambda x: x * 2 if x.sum() > 0 else x + 1,
            torch.ones(2),
            check_inputs=[(-torch.ones(2),)],
        )
    with pytest.warns(rushlight.TracerWarning) as seen:
        rushlight.trace(lambda x: x + torch.rand(2), torch.ones(2))
    assert "Trace had nondeterministic nodes" in str(seen[0].message)
    assert "Output nr 1. of the traced function does not match" in str(seen[1].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error", rushlight.TracerWarning)
        rushlight.trace(
            lambda x: x * x.size(0), torch.ones(2), check_inputs=[(torch.ones(5),), torch.ones(7)]
        )


class Inner(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.unused = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        self.scale = torch.nn.Buffer(torch.full((3,), 2.0))

    def forward(self, x):
        return self.linear(self.linear(x) * self.scale), x.size(0)

    def twice(self, x):
        return self.linear(x) * 2


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.rest = (
            Inner(),
            torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.ReLU(), torch.nn.Dropout()),
        )
        self.shared = self.inner.linear.weight
        self.program = rushlight.script(chosen)

    def forward(self, x, y=None):
        z, n = self.inner(x)
        return self.program(self.rest(z)).view(n, -1) @ self.shared


def chosen(x):
    if bool(x.sum() > 1000):
        return x * 0
    return x + 1


def outer() -> Outer:
    torch.manual_seed(0)
    return Outer().eval()


def test_modules_keep_their_parts() -> None:
    m = outer()
    t = rushlight.trace(m, torch.randn(2, 3))
    x = torch.randn(7, 3)
    torch.testing.assert_close(t(x), m(x))
    torch.testing.assert_close(t(x * 1e5), m(x * 1e5))
    assert repr(t).splitlines()[:3] == ["Outer(", "  original_name=Outer", "  (inner): Inner("]
    assert set(t.state_dict()) == set(m.state_dict())
    assert (
        isinstance(t, torch.nn.Module)
        and type(t).__name__ == "TopLevelTracedModule"
        and not t.training
    )
    assert 'prim::CallMethod[name="forward1"]' in str(t.inner.graph)
    assert "prim::CallFunction" in str(t.graph)
    with torch.no_grad():
        m.inner.scale.zero_()  # shared, not copied
    torch.testing.assert_close(t(x), m(x))


def test_saved_traces_open_in_torch() -> None:
    m, x, file = outer(), torch.randn(5, 3), io.BytesIO()
    m.program = torch.nn.Tanh()
    rushlight.save(rushlight.trace(m, torch.randn(2, 3)), file)
    file.seek(0)
    torch.testing.assert_close(torch.jit.load(file)(x), m(x))
    file.seek(0)
    torch.testing.assert_close(rushlight.load(file)(x), m(x))


def test_several_methods() -> None:
    m = Inner()
    t = rushlight.trace_module(
        m, {"forward": torch.randn(2, 3), "twice": torch.randn(2, 3)}, strict=True
    )
    torch.testing.assert_close(t.twice(torch.ones(4, 3)), m.twice(torch.ones(4, 3)))
    assert (
        told(rushlight.trace_module, m, 3) == "expected a dictionary of (method_name, input) pairs"
    )
    assert told(rushlight.trace, m.twice, torch.randn(2, 3)) == told(
        torch.jit.trace, m.twice, torch.randn(2, 3)
    )
    assert told(rushlight.trace_module, len, {}) == "expected torch.nn.Module as the first argument"


def test_named_inputs() -> None:
    f = rushlight.trace(
        lambda a, b: a - b, example_kwarg_inputs={"b": torch.ones(2), "a": torch.zeros(2)}
    )
    assert f(a=torch.ones(1), b=torch.zeros(1)).item() == 1
    assert str(f.schema) == "_lambda(Tensor a, Tensor b) -> Tensor"
    f = rushlight.trace(lambda *xs: xs[0] - xs[1], (torch.ones(2), torch.zeros(2)))
    assert f(torch.ones(1), torch.ones(1)).item() == 0


def test_calls_stay_calls() -> None:
    compiled = rushlight.script(chosen)
    inner = rushlight.trace(lambda x: x * 3, torch.ones(2))
    f = rushlight.trace(lambda x: compiled(inner(x)), torch.ones(2))
    assert str(f.graph).count("prim::CallFunction") == 2
    torch.testing.assert_close(f(torch.full((3,), 1e4)), torch.zeros(3))
    conditional = rushlight.trace(lambda x: rushlight.script_if_tracing(chosen)(x), torch.ones(2))
    torch.testing.assert_close(conditional(torch.full((3,), 1e4)), torch.zeros(3))


def test_is_tracing_and_what_is_left_behind() -> None:
    before, size = dict(vars(torch.Tensor)), torch.Tensor.size
    said = []

    def f(x):
        said.append((rushlight.is_tracing(), torch.jit.is_tracing(), type(x.size(0))))
        return x + 1

    rushlight.trace(f, torch.ones(2), check_trace=False)
    assert said == [(True, True, torch.Tensor)]
    with pytest.raises(ZeroDivisionError):
        rushlight.trace(lambda x: 1 / 0, torch.ones(2))
    assert not rushlight.is_tracing() and not torch.jit.is_tracing()
    assert (
        torch.Tensor.size is size
        and vars(torch.Tensor).keys() == before.keys()
        and type(torch.ones(2).size(0)) is int
    )
    nested = told(rushlight.trace, lambda x: rushlight.trace(lambda y: y, x)(x), torch.ones(2))
    assert nested == "Tracing can't be nested"


def test_outplace() -> None:
    f = rushlight.trace(lambda x: x.clone().add_(1).relu_(), torch.ones(2), _force_outplace=True)
    assert "add_" not in str(f.graph) and "relu_" not in str(f.graph)


def test_without_torchs_tensors() -> None:
    x = rushlight.tensor([[1.0, -2.0, 3.0]])
    f = rushlight.trace(lambda a, b: (a * b).relu() + 1, (x, x))
    assert f(rushlight.tensor([[1.0, 2.0]]), rushlight.tensor([[3.0, -1.0]])).tolist() == [
        [4.0, 1.0]
    ]
    assert told(rushlight.trace, lambda a: {"a": a}, (x,)).startswith(
        "Encountering a dict at the output of the tracer"
    )


def test_a_trace_that_failed_records_no_more() -> None:
    """Also while its exception, which refers to the trace, is still there."""
    x = rushlight.tensor([1.0, 2.0])
    unit = rushlight.jit.CompilationUnit(
        "def f(x):\n    return x.cumsum(0) if x.dim() == 1 else x.sum()\n"
    )
    with pytest.raises(RuntimeError) as kept:
        rushlight.trace(lambda a: {"a": a}, (x,))
    for _ in range(3):
        unit.f(x)
    assert kept.value and unit.f.get_debug_state().execution_plans


def test_operators_samples() -> None:
    """Some of PyTorch's operators; all of them: python tests/python/trace_ops.py."""
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        good = sum(
            trace_ops.walk(name, 1, said.append)[0] for name in ("index", "scatter", "where")
        )
    assert not [line for line in said if line.startswith("!")]
    assert good > 15
