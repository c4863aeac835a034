"""Training through plans: gradients of recorded calls whose plans differentiate parts of the graph
as one have the bits of calls without plans, and losses follow PyTorch's for 100 steps."""

from __future__ import annotations

import json
import pathlib
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, Tuple  # noqa: UP035

import pytest
import rushlight
from rushlight import ir

torch = pytest.importorskip("torch")
nn = torch.nn
STEPS = 100


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.last = nn.BatchNorm2d(8), nn.Linear(8 * 16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.max_pool2d(torch.relu(self.norm(self.a(x))), 2)
        x = x + torch.tanh(self.b(x)) * 0.5
        return self.last(x.flatten(1))


class Cell(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.i, self.h = nn.Linear(n, 4 * n), nn.Linear(n, 4 * n)

    def forward(
        self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor
    ) -> Tuple[torch.Tensor, torch.Tensor]:  # noqa: UP006
        i, f, g, o = (self.i(x) + self.h(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Sequence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.last = Cell(8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros_like(x[:, 0])
        c = h
        for t in range(x.size(1)):
            h, c = self.cell(x[:, t], h, c)
        return self.last(h)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.other = nn.LayerNorm(8), nn.LayerNorm(8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.up, self.down, self.last = nn.Linear(8, 32), nn.Linear(32, 8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).view(x.size(0), x.size(1), 3, 2, 4).unbind(2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        seen = torch.softmax(q @ k.transpose(-2, -1) * 0.5, -1) @ v
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        x = x + self.down(torch.nn.functional.gelu(self.up(self.other(x))))
        return self.last(x.mean(1))


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.a, self.last = nn.Embedding(20, 8), nn.Linear(8, 8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        e = self.words(x)
        return self.last(torch.relu(self.a(e.mean(1))) + e[:, 0] * torch.sigmoid(e[:, 1]))


NETWORKS: dict[str, Callable[[], Any]] = {
    "mlp": lambda: nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.ReLU(),
                                 nn.Linear(16, 5)),
    "convolutions": Convolutions,
    "sequence": Sequence,
    "block": Block,
    "words": Words,
}  # fmt: skip
SIZES = {"mlp": (16,), "convolutions": (2, 8, 8), "sequence": (6, 8), "block": (6, 8)}
OPTIMIZERS = {
    "SGD": {"lr": 0.02, "momentum": 0.9},
    "Adam": {"lr": 2e-3},
}

WITHOUT_TORCH = """
import json, sys, rushlight
from rushlight.jit import optimized_execution
path, data, optimizer, options, plans, steps = sys.argv[1:]
model = rushlight.load(path).train()
inputs, labels = rushlight.load_value(data)
opt = getattr(rushlight.optim, optimizer)(model.parameters(), **json.loads(options))
losses = []
with optimized_execution(plans == "1"):
    for step in range(int(steps)):
        opt.zero_grad()
        loss = rushlight.ops.aten.cross_entropy_loss(model(inputs), labels)
        loss.backward()
        opt.step()
        losses.append(loss.item().hex())
assert "torch" not in sys.modules
print(json.dumps({"losses": losses,
                  "state": [[v.hex() for v in p.detach().flatten().tolist()]
                            for p in model.parameters()],
                  "graph": str(model.graph_for(inputs)) if plans == "1" else ""}))
"""


def data_of(name: str) -> tuple[Any, Any]:
    torch.manual_seed(11)
    labels = torch.randint(0, 5, (12,))
    if name == "words":
        return torch.randint(0, 20, (12, 7)), labels
    return torch.randn(12, *SIZES[name]), labels


def theirs(model: Any, name: str, optimizer: str) -> list[float]:
    inputs, labels = data_of(name)
    opt = getattr(torch.optim, optimizer)(model.parameters(), **OPTIMIZERS[optimizer])
    losses = []
    for _ in range(STEPS):
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


def ours(folder: pathlib.Path, optimizer: str, plans: bool) -> dict[str, Any]:
    program = folder / "program.py"
    program.write_text(WITHOUT_TORCH)
    done = subprocess.run(
        [sys.executable, program, folder / "net.pt", folder / "data.pt", optimizer,
         json.dumps(OPTIMIZERS[optimizer]), str(int(plans)), str(STEPS)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_train_as_in_pytorch(name: str, optimizer: str, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(3)
    model = NETWORKS[name]().train()
    torch.jit.script(model).save(str(tmp_path / "net.pt"))
    torch.save(data_of(name), tmp_path / "data.pt")
    with_plans, without = (ours(tmp_path, optimizer, plans) for plans in (True, False))
    assert with_plans["losses"] == without["losses"] and with_plans["state"] == without["state"]
    assert "prim::DifferentiableGraph" in with_plans["graph"]
    want = theirs(model, name, optimizer)
    got = [float.fromhex(v) for v in with_plans["losses"]]
    assert want[-1] < 0.7 * want[0]
    assert max(abs(a - b) for a, b in zip(got, want, strict=True)) <= 1e-4


# -- Random programs
# --------------------------------------------------------------------------------------------------

UNARY = "tanh sigmoid exp sin relu neg abs cos".split()


def statement(r: random.Random, i: int, values: list[str], depth: int) -> list[str]:
    a, b, c = (r.choice(values) for _ in range(3))
    kind = r.random()
    if kind < 0.3:
        return [f"v{i} = torch.{r.choice(UNARY)}({a})"]
    if kind < 0.55:
        return [f"v{i} = {a} {r.choice('+-*')} {b} * {c}"]
    if kind < 0.65:
        return [f"v{i} = torch.mm({a}, {b}) * 0.3"]
    if kind < 0.72:
        return [f"v{i} = {a}.t() + {b}"]
    if kind < 0.78:
        return [f"v{i} = torch.cumsum({a}, 0) * {b}"]
    if kind < 0.84:
        return [f"v{i} = torch.cat([{a}, {b}], 0)[:3] * {c}"]
    if kind < 0.9:
        return [f"v{i} = {a} * 1", f"v{i}[0] = {b}[0] * {c}[1]"]
    if depth:
        return [f"v{i} = {a} * {b}"]
    lines = [f"v{i} = {a}"]
    inner: list[str] = []
    for k in range(r.randint(1, 4)):
        names = [*values, f"v{i}", *(f"v{i}_{m}" for m in range(k))]
        inner += [line.replace(f"v{1000 + k}", f"v{i}_{k}")
                  for line in statement(r, 1000 + k, names, 1)]  # fmt: skip
    lines.append(f"for k in range({r.randint(1, 3)}):" if kind < 0.95 else "if flag:")
    return [*lines, *("    " + line for line in [*inner, f"v{i} = v{i} * v{i}_0"])]


def random_program(seed: int) -> str:
    r = random.Random(seed)
    values, lines = ["x", "y", "z"], []
    for i in range(r.randint(4, 14)):
        lines += statement(r, i, values, 0)
        values.append(f"v{i}")
    made = [v for v in values[3:] if r.random() < 0.25] or values[-1:]
    lines.append(f"return {', '.join(dict.fromkeys([*made, values[-1]]))}")
    head = "def f(x: Tensor, y: Tensor, z: Tensor, flag: bool):\n"
    return head + "\n".join("    " + line for line in lines) + "\n"


def gradients(function: Any, inputs: list[Any], needed: int) -> tuple[list[Any], list[Any]]:
    """Results with their gradients, and second derivatives."""
    args = [a.clone().requires_grad_(bool(needed >> i & 1)) for i, a in enumerate(inputs)]
    out = function(*args, True)
    out = out if isinstance(out, tuple) else (out,)
    leaves = [a for a in args if a.requires_grad]
    total = sum((o.sin() * (k + 1)).sum() for k, o in enumerate(out))
    first: Any = ()
    if total.requires_grad:
        first = torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    again = [g for g in first if g is not None and g.requires_grad]
    second: Any = ()
    if again:
        second = torch.autograd.grad([g.sin().sum() for g in again], leaves, allow_unused=True)
    return [*out, *first], list(second)


def bits(values: list[Any]) -> list[Any]:
    return [None if v is None else [f.hex() for f in v.flatten().tolist()] for v in values]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_have_the_same_bits(seed: int) -> None:
    text = random_program(seed)
    function = rushlight.CompilationUnit(text).f
    torch.manual_seed(seed)
    inputs = [torch.rand(3, 3, dtype=torch.double) * 0.5 + 0.1 for _ in range(3)]
    for needed in (7, 5):
        with rushlight.jit.optimized_execution(False):
            want, second = gradients(function, inputs, needed)
        for _ in range(3):
            got, again = gradients(function, inputs, needed)
            assert bits(got) == bits(want), text
            torch.testing.assert_close(again, second, rtol=1e-10, atol=1e-10)


# -- What a plan may not join
# --------------------------------------------------------------------------------------------------


def planned(text: str, *args: Any) -> tuple[Any, str]:
    """The function after three calls, and the graph of its plan."""
    function = rushlight.CompilationUnit(text).f
    for _ in range(3):
        function(*args)
    return function, str(function.graph_for(*args))


def leaf() -> Any:
    torch.manual_seed(1)
    return torch.rand(3, 3, dtype=torch.double, requires_grad=True)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("x.sin().cos()", 1),
        ("x * 2 + 1", 1),
        ("torch.softmax(x, -1) * 2", 1),
        ("x.mm(x) + x", 1),
        ("x.sin()", 0),
        ("x * 2", 0),
        ("(x.sin(), x.cos())", 0),
    ],
)
def test_two_operators_are_a_part_and_one_is_a_single_record(text: str, want: int) -> None:
    """As in PyTorch's executor, which counts its profile nodes, too."""
    text = f"def f(x: Tensor):\n    return {text}\n"
    function, graph = planned(text, leaf())
    assert graph.count("= prim::DifferentiableGraph") == want
    theirs = torch.jit.CompilationUnit(text).f
    for _ in range(3):
        theirs(leaf())
    assert str(theirs.graph_for(leaf())).count("= prim::DifferentiableGraph") == want


def test_a_result_that_another_one_needs_is_in_another_record() -> None:
    text = (
        "def f(x: Tensor):\n    a = x.sin().cos().tanh().exp().sigmoid()\n"
        "    return a, a.exp().sin().cos().tanh().exp()\n"
    )
    rushlight.CompilationUnit(text)
    unit = rushlight.CompilationUnit(
        text + "def g(x: Tensor):\n    a, b = f(x)\n"
        "    return torch.autograd.grad([b.sum()], [a])\n"
    )
    x = leaf()
    a = x.detach().sin().cos().tanh().exp().sigmoid().requires_grad_()
    (want,) = torch.autograd.grad(a.exp().sin().cos().tanh().exp().sum(), a)
    for _ in range(4):
        torch.testing.assert_close(unit.g(x)[0], want)


def test_one_tensor_as_two_arguments() -> None:
    function, graph = planned(
        "def f(x: Tensor, y: Tensor):\n    a = x * y + x * 3\n"
        "    return (a * y + y).sin() * x * y\n",
        leaf(), leaf(),
    )  # fmt: skip
    assert "DifferentiableGraph" in graph
    x = leaf()
    found = []
    for plans in (False, True):
        with rushlight.jit.optimized_execution(plans):
            found.append(bits(list(torch.autograd.grad(function(x, x).sum(), x))))
    assert found[0] == found[1]


def test_errors_and_their_places_are_those_of_single_records() -> None:
    text = (
        "def f(x: Tensor, y: Tensor):\n    a = x.sin() * x.cos()\n    return torch.mm(a.exp(), y)\n"
    )
    function, graph = planned(text, leaf(), leaf())
    assert "DifferentiableGraph" in graph
    messages = []
    for plans in (False, True):
        with rushlight.jit.optimized_execution(plans), pytest.raises(RuntimeError) as e:
            function(leaf(), torch.rand(2, 3, dtype=torch.double))
        messages.append(str(e.value))
    assert messages[0] == messages[1] and "torch.mm" in messages[0]


CHANGING = {
    "rows": (
        "    y = torch.mm(x, w) + b[0]\n    return (y.tanh() * y).sum(0).exp()\n",
        (4, 1, 3),
        (5, 5, 5, 2, 1, 7, 5, 1, 3),
    ),
    # with one row, the gradient of y inside is not summed
    "broadcast": (
        "    y = torch.mm(b, w)\n    return ((y * x).tanh() * y).exp() + y.sin()\n",
        (3, 1, 4),
        (3, 3, 3, 1, 5, 7, 1, 5),
    ),
}


@pytest.mark.parametrize("name", CHANGING)
def test_changing_sizes(name: str) -> None:
    text, (columns, *sizes), rows = CHANGING[name]
    function = rushlight.CompilationUnit("def f(x: Tensor, w: Tensor, b: Tensor):\n" + text).f
    torch.manual_seed(2)
    w, b = torch.rand(4, 3, requires_grad=True), torch.rand(sizes, requires_grad=True)
    for n in rows:
        x = torch.rand(n, columns)
        with rushlight.jit.optimized_execution(False):
            want = torch.autograd.grad(function(x, w, b).sum(), (w, b))
        got = torch.autograd.grad(function(x, w, b).sum(), (w, b))
        assert bits(list(got)) == bits(list(want))
    assert "DifferentiableGraph" in str(function.graph_for(x, w, b))


def test_saved_values_are_checked_and_freed() -> None:
    function, graph = planned(
        "def f(x: Tensor, y: Tensor):\n    return (x * y).sin() * y + x * y * 2\n", leaf(), leaf()
    )
    assert "DifferentiableGraph" in graph
    x, y = leaf() * 1, leaf() * 1
    out = function(x, y)
    with torch.no_grad():
        y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
    x = leaf()
    out = function(x, leaf())
    out.sum().backward(retain_graph=True)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.sum().backward()


def test_what_records_nothing_runs_compiled() -> None:
    function, _ = planned(
        "def f(x: Tensor, y: Tensor):\n    return (x * y).sin() * y + x * y * 2\n", leaf(), leaf()
    )
    before = rushlight.compile_counters()
    x = torch.rand(3, 3)
    for _ in range(3):
        function(x.clone().requires_grad_(), x)
    after = rushlight.compile_counters()
    assert after["group_calls"] > before["group_calls"]
    assert after["interpreted"] == before["interpreted"]


def test_single_operators_are_differentiated_as_parts_if_asked() -> None:
    text, x = "def f(x: Tensor):\n    return x.sin()\n", leaf()
    want = torch.autograd.grad(x.sin().sum(), x)
    was = rushlight.jit.set_autodiff_subgraph_inlining(False)
    try:
        function, graph = planned(text, x)
    finally:
        assert rushlight.jit.set_autodiff_subgraph_inlining(was) is False
    assert was is True and "prim::DifferentiableGraph_0" in graph
    torch.testing.assert_close(torch.autograd.grad(function(x).sum(), x), want)
    assert "DifferentiableGraph" not in planned(text, x)[1]


def kinds_in(graph: Any) -> list[str]:
    return [node.kind() for node in graph.nodes() if node.kind() != "prim::Constant"]


@pytest.fixture
def parts_of_one() -> Iterator[None]:
    """Differentiate parts of one operator as one, too."""
    was = rushlight.jit.set_autodiff_subgraph_inlining(False)
    yield
    rushlight.jit.set_autodiff_subgraph_inlining(was)


def test_graph_for_has_the_parts_as_subgraphs() -> None:
    """torch's tools read the graph: its nodes have PyTorch's kind, and the part is an attribute."""

    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        b = torch.zeros(n) + x  # of a size that the plan does not know
        return torch.tanh(torch.sigmoid(b * x)).mul(b)

    x = torch.rand(4, requires_grad=True)
    compiled = rushlight.jit.script(f)
    compiled(x, 4)
    graph = compiled.graph_for(x, 4)
    (part,) = graph.findAllNodes("prim::DifferentiableGraph")
    assert isinstance(graph, torch._C.Graph)
    assert part.g("Subgraph").findNode("aten::tanh")
    assert not graph.findNode("aten::tanh")


@pytest.mark.usefixtures("parts_of_one")
def test_parts_of_one_operator() -> None:
    def apart(x: torch.Tensor, y: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:  # noqa: UP006
        return x * x, y * y

    def beside(x: torch.Tensor, n: int) -> Tuple[torch.Tensor, torch.Tensor]:  # noqa: UP006
        return x * x, torch.zeros([n])  # which has nothing to differentiate

    x = torch.rand(1, requires_grad=True)
    for f, args, want in (
        (apart, (x, x), ["prim::DifferentiableGraph"] * 2 + ["prim::TupleConstruct"]),
        (
            beside,
            (x, 2),
            ["prim::DifferentiableGraph", "prim::ListConstruct", "aten::zeros"]
            + ["prim::TupleConstruct"],
        ),
    ):
        compiled = rushlight.jit.script(f)
        compiled(*args)
        assert kinds_in(compiled.graph_for(*args)) == want


def test_f_and_df_can_be_seen() -> None:
    x, y = leaf(), leaf().detach()
    function, _ = planned(
        "def f(x: Tensor, y: Tensor):\n    return (x * y).sin() * y + x * y * 2\n", x, y
    )
    (plan,) = function.get_debug_state().execution_plans.values()
    assert "f of" not in plan.graph
    (part,) = plan.differentiated
    assert part.head.startswith("prim::DifferentiableGraph_0, for Double(3, 3, requires_grad=1")
    assert part.f.startswith("graph(") and part.df == []  # no gradient was needed yet
    function(x, y).sum().backward()
    (plan,) = function.get_debug_state().execution_plans.values()
    (part,) = plan.differentiated
    assert part.df_heads == ["from gradients of results 0 to arguments 0"]
    assert all("rushlight::pointwise" in text for text in (part.f, *part.df))  # what runs


def test_plans_by_the_names_of_torch() -> None:
    """Graphs of a plan, of its parts and of their derivatives have the methods of torch's."""
    x, y = leaf(), leaf().detach()
    function, _ = planned(
        "def f(x: Tensor, y: Tensor):\n"
        "    return (x * y).sin() * y + x * y * 2, (y.cumsum(0) * x).tanh()\n", x, y
    )  # fmt: skip
    a, b = function(x, y)
    (a.sum() + b.sum()).backward()
    (plan,) = function.get_debug_state().execution_plans.values()
    parts = plan.graph.findAllNodes("prim::DifferentiableGraph")
    states = plan.code.grad_executor_states()
    assert len(parts) == len(states) == len(plan.code.differentiable_op_executor_states()) == 2
    for state, part in zip(states, plan.code.differentiable_op_executor_states(), strict=True):
        for plans in (state, part):
            (inner,) = plans.execution_plans.values()
            assert isinstance(inner.graph.copy(), torch._C.Graph)
            assert inner.graph.findNode("rushlight::pointwise")
    assert plan.code.num_bailouts() == 0


def test_graphs_of_plans_run_and_print() -> None:
    _, graph = planned(
        "def f(x: Tensor):\n    return x.sin().cos().tanh().exp().sigmoid()\n", leaf()
    )
    assert str(ir.parse_ir(graph)).count("prim::DifferentiableGraph") == graph.count(
        "prim::DifferentiableGraph"
    )
