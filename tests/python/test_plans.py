"""Plans: code for the facts of a call's arguments and for what attributes hold (docs/executors.md).

Each program is called many times, with and without plans, and has to do the same each time."""

from __future__ import annotations

import concurrent.futures
import copy
import gc
import pathlib
import re
import subprocess
from typing import Any, Callable, Optional

import pytest
from conftest import TOP, import_file

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from torch import nn  # noqa: E402


def loaded(module: nn.Module, folder: pathlib.Path) -> Any:
    path = folder / "m.pt"
    torch.jit.script(module).save(str(path))
    return rushlight.load(str(path))


def counts(module: Any) -> dict[str, int]:
    """Calls, hits, plans, made, widened and failures of forward."""
    line = module.forward.plans.splitlines()[0]
    found = re.match(
        r"forward: (\d+) calls, (\d+) of them ran a plan; (\d+) plans, (\d+) made, (\d+) of them "
        r"wider than the one before, (\d+) failures",
        line,
    )
    assert found, line
    names = ("calls", "hits", "plans", "made", "widened", "failures")
    return dict(zip(names, map(int, found.groups()), strict=True))


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    try:
        return f(*args)
    except Exception as error:
        return type(error), str(error)


def same(got: Any, want: Any) -> None:
    if isinstance(want, torch.Tensor):
        assert isinstance(got, torch.Tensor)
        assert got.dtype == want.dtype and got.shape == want.shape
        torch.testing.assert_close(got, want)
    elif isinstance(want, (tuple, list)) and want and not isinstance(want[0], type):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w)
    elif isinstance(want, tuple):  # an error: the last line of a text
        assert got[0].__name__ == want[0].__name__ or issubclass(got[0], want[0])
    else:
        assert got == want


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))

    def forward(self, x):  # noqa: ANN001, ANN201
        return self.net(x)


def test_a_changing_batch_costs_two_plans(tmp_path: pathlib.Path) -> None:
    module = Mlp().eval()
    ours = loaded(module, tmp_path)
    for n in [*range(1, 65), 3, 64, 1]:
        x = torch.randn(n, 4)
        same(ours(x), module(x))
    seen = counts(ours)
    assert seen["made"] <= 2 and seen["plans"] == 1 and seen["failures"] == 0
    assert seen["hits"] >= 60
    assert "Float(*, 4" in ours.forward.plans


def test_a_changing_batch_fails_no_guard(tmp_path: pathlib.Path) -> None:
    """What the first call recorded behind the pooling has its batch; a plan for any batch does not
    expect it again."""
    module = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.MaxPool2d(2), nn.Flatten(),
    ).eval()  # fmt: skip
    ours = loaded(module, tmp_path)
    for n in (5, 3, 9, 1, 16):
        x = torch.randn(n, 3, 32, 32)
        same(ours(x), module(x))
    seen = counts(ours)
    assert seen["made"] == 1 and seen["failures"] == 0
    assert re.findall("guards: .*", ours.forward.plans) == ["guards: 0 checked, 0 did not hold"]


def test_sizes_that_the_program_asks_for(tmp_path: pathlib.Path) -> None:
    class Net(nn.Module):
        def forward(self, x):  # noqa: ANN001, ANN201
            if x.size(1) > 3:
                x = x[:, :3]
            return x * x.size(0), x.numel(), x.is_contiguous()

    module = Net()
    for turned in (False, True):
        ours = loaded(module, tmp_path)
        for sizes in ((2, 3), (2, 3), (2, 4), (5, 4), (5, 2), (2, 3), (1, 9)):
            x = torch.randn(sizes)
            x = x.T if turned else x
            same(ours(x), module(x))


def test_ranks_and_dtypes_have_plans_of_their_own(tmp_path: pathlib.Path) -> None:
    class Net(nn.Module):
        def forward(self, x, y: Optional[torch.Tensor]):  # noqa: ANN001, ANN201, UP045
            if y is not None:
                x = x + y
            if x.dim() == 2:
                return x.sum(1), x.is_floating_point()
            return x * 2, x.is_floating_point()

    module = Net()
    ours = loaded(module, tmp_path)
    values = [torch.randn(2, 3), torch.randn(3), torch.arange(6).reshape(2, 3), torch.randn(2, 5)]
    for _ in range(3):
        for x in values:
            for y in (None, x, torch.ones(())):
                same(outcome(ours, x, y), outcome(module, x, y))
    assert 4 <= counts(ours)["plans"] <= 8


def test_no_branch_is_left_whose_condition_is_known(tmp_path: pathlib.Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flag, self.many = True, 3
            self.bias = None

        def forward(self, x):  # noqa: ANN001, ANN201
            if self.flag and self.bias is None:
                for _ in range(self.many):
                    x = x * 2
            if x.dim() > 3:
                x = x.flatten(2)
            return x

    module = Net()
    ours = loaded(module, tmp_path)
    graph = str(ours.graph_for(torch.ones(2)))  # the first call has no plan yet
    assert "prim::If" in graph
    graph = str(ours.graph_for(torch.ones(2)))
    assert "prim::If" not in graph and "prim::Loop" not in graph
    same(ours(torch.ones(2)), module(torch.ones(2)))


def test_an_unknown_rank_is_not_that_of_a_scalar(tmp_path: pathlib.Path) -> None:
    class Ranks(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int, int]:
            total = x.sum()
            y = x
            if bool(total > 0):
                y = x.unsqueeze(0)
            return y + total, y.dim(), total.dim()

    module = Ranks()
    mine = loaded(module, tmp_path)
    for x in [torch.ones(2, 3), -torch.ones(2, 3)] * 3:
        same(mine(x), module(x))


def test_attributes_that_change_are_read_again(tmp_path: pathlib.Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.name = 2.0, "a"
            self.w = nn.Parameter(torch.ones(3))
            self.drop = nn.Dropout(0.5)

        def forward(self, x):  # noqa: ANN001, ANN201
            if self.training:
                x = x + 1
            return x * self.scale * self.w.size(0) + self.w.sum()

    module = Net().eval()
    ours = loaded(module, tmp_path)
    x = torch.ones(2)
    for step in range(12):
        if step % 4 == 2:
            ours.scale = module.scale = float(step)
        if step % 4 == 3:
            ours.train(step % 8 == 3)
            module.train(step % 8 == 3)
        for _ in range(3):
            same(ours(x), module(x))
    assert counts(ours)["hits"] > 0


def test_methods_that_write_attributes(tmp_path: pathlib.Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.limit = 0, 4
            self.register_buffer("total", torch.zeros(2))

        def raise_limit(self) -> None:
            self.limit = self.limit + 30

        @torch.jit.export
        def grow(self) -> int:
            self.raise_limit()
            return self.limit

        def forward(self, x):  # noqa: ANN001, ANN201
            self.calls += 1
            self.total += x
            if self.calls > self.limit:
                x = x * 10
            return x + self.total, self.calls

    module = Net()
    script = torch.jit.script(module)
    path = tmp_path / "m.pt"
    script.save(str(path))
    ours = rushlight.load(str(path))
    for step in range(20):
        same(ours(torch.ones(2)), script(torch.ones(2)))
        if step in (7, 12):
            assert ours.grow() == script.grow()


def test_a_tensor_of_state_that_changes_its_sizes(tmp_path: pathlib.Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("w", torch.ones(2, 3))

        @torch.jit.export
        def shrink(self) -> None:
            self.w.resize_(1, 3)

        @torch.jit.export
        def turn(self) -> None:
            self.w.t_()

        def forward(self, x):  # noqa: ANN001, ANN201
            return x + self.w.sum(), self.w.size(0), self.w.dim(), self.w.numel()

    script = torch.jit.script(Net())
    path = tmp_path / "m.pt"
    script.save(str(path))
    ours = rushlight.load(str(path))
    x = torch.ones(2)
    for change in ("", "shrink", "turn"):
        if change:
            getattr(script, change)()
            getattr(ours, change)()
        for _ in range(4):
            same(ours(x), script(x))


def test_sizes_that_change_in_the_call(tmp_path: pathlib.Path) -> None:
    class Net(nn.Module):
        def forward(self, x):  # noqa: ANN001, ANN201
            before = x.dim()
            x.unsqueeze_(0)
            y = torch.empty(0)
            torch.add(x, 1, out=y)
            return before, x.dim(), x.size(0), y.size(0), y.sum()

    script = torch.jit.script(Net())
    ours = loaded(Net(), tmp_path)
    for n in (2, 2, 2, 3):
        same(ours(torch.ones(n)), script(torch.ones(n)))


def test_dead_code_still_fails(tmp_path: pathlib.Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shows = False

        def forward(self, x, i: int):  # noqa: ANN001, ANN201
            y = torch.mm(x, x)
            part = x[i]
            if self.shows:
                return y + part
            return x + 1

    module = Net()
    ours = loaded(module, tmp_path)
    for _ in range(4):
        same(ours(torch.ones(3, 3), 0), module(torch.ones(3, 3), 0))
        for args in ((torch.ones(3, 2), 0), (torch.ones(3, 3), 9)):
            with pytest.raises((RuntimeError, IndexError)):
                ours(*args)
    assert "prim::If" not in ours.forward.plans
    first = outcome(ours, torch.ones(3, 3), 9)
    assert all(outcome(ours, torch.ones(3, 3), 9) == first for _ in range(3))


def test_dimensions_of_convolutions_are_those_of_the_results() -> None:
    """Neither is the result of an image without a batch taken for one with, nor one that is resized
    for what it was."""

    def first(xs: list[torch.Tensor], w: torch.Tensor) -> int:
        return torch.conv2d(xs[0], w).dim()

    def resized(x: torch.Tensor, w: torch.Tensor) -> int:
        y = torch.conv2d(x, w)
        y.resize_([4, 4])
        return y.dim()

    compiled, w = rushlight.script(first), torch.randn(2, 3, 3, 3)
    for i in range(60):
        x = torch.randn(1, 3, 5, 5) if i % 3 == 0 else torch.randn(3, 5, 5)
        assert compiled([x], w) == x.dim()
    compiled = rushlight.script(resized)
    assert [compiled(torch.randn(1, 3, 5, 5), w) for _ in range(4)] == [2] * 4


def test_errors_are_those_of_the_first_call(tmp_path: pathlib.Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(4, 4)

        def forward(self, x):  # noqa: ANN001, ANN201
            y = self.one(x)
            if y.size(0) == 3:
                raise ValueError("three rows")
            return y.view(3, -1)

    ours = loaded(Net(), tmp_path)
    for x in (torch.ones(3, 4), torch.ones(5, 4), torch.ones(5, 3)):
        first = outcome(ours, x)
        assert isinstance(first, tuple)
        assert all(outcome(ours, x) == first for _ in range(4))


def test_results_that_look_equal_stay_two_tensors(tmp_path: pathlib.Path) -> None:
    class Net(nn.Module):
        def forward(self, x):  # noqa: ANN001, ANN201
            return x + 1, x + 1, x.expand(x.size()), x.contiguous()

    ours = loaded(Net(), tmp_path)
    for _ in range(4):
        x = torch.ones(3)
        a, b, c, d = ours(x)
        a.zero_()
        assert b.tolist() == [2, 2, 2]
        d.zero_()
        assert x.tolist() == [0, 0, 0] and c.tolist() == [0, 0, 0]


def test_recording_is_the_same_with_plans(tmp_path: pathlib.Path) -> None:
    module = Mlp().eval()
    ours = loaded(module, tmp_path)
    x = torch.randn(5, 4)
    for _ in range(3):
        ours(x)
    path = tmp_path / "m.pt"
    for _ in range(3):
        mine = rushlight.load(str(path))
        for record in (False, True, False, True):
            if record:
                y = mine(x.clone().requires_grad_())
                want = module(x)
                same(y.detach(), want.detach())
            else:
                same(mine(x), module(x))


def test_the_strategy_chooses_how_many_sizes_have_plans(tmp_path: pathlib.Path) -> None:
    module = Mlp().eval()
    loaded(module, tmp_path)

    def plans_for(strategy: list[tuple[str, int]]) -> dict[str, int]:
        before = rushlight.jit.set_fusion_strategy(strategy)
        try:
            ours = rushlight.load(str(tmp_path / "m.pt"))
            for _ in range(2):
                for n in range(1, 7):
                    x = torch.randn(n, 4)
                    same(ours(x), module(x))
            return counts(ours)
        finally:
            assert rushlight.jit.set_fusion_strategy(before) == strategy

    assert plans_for([("STATIC", 1)])["plans"] == 1  # for the sizes of the first call
    three = plans_for([("STATIC", 3), ("DYNAMIC", 1)])
    assert three["made"] == 3 and three["plans"] == 2 and three["widened"] == 1
    assert plans_for([("DYNAMIC", 1)])["plans"] == 1
    assert plans_for([("STATIC", 8)])["plans"] == 6


def test_execution_without_plans(tmp_path: pathlib.Path) -> None:
    module = Mlp().eval()
    ours = loaded(module, tmp_path)
    x = torch.randn(2, 4)
    with rushlight.jit.optimized_execution(False):
        for _ in range(3):
            same(ours(x), module(x))
        assert "prim::If" in str(ours.graph_for(x))
        assert counts(ours)["plans"] == 0
        with rushlight.jit.optimized_execution(True):
            ours(x)
            assert "prim::If" not in str(ours.graph_for(x))
        assert "prim::If" in str(ours.graph_for(x))
    assert counts(ours)["plans"] == 1


def test_functions_without_self_have_plans() -> None:
    def scaled(x, n: int):  # noqa: ANN001, ANN202
        for _ in range(3):
            x = x * 2
        if x.dim() == 1:
            x = x + n
        return x

    f = rushlight.script(scaled)
    for n in range(4):
        same(f(torch.ones(3), n), torch.ones(3) * 8 + n)
    assert "prim::Loop" not in str(rushlight._rushlight.last_graph(f))
    state = f.get_debug_state()
    (plan,) = state.execution_plans.values()
    assert "prim::Loop" not in plan.graph and "prim::Loop" in state.fallback.graph
    assert "Float(3, strides=[1], device=cpu)" in plan.facts[0]


def test_simple_lstm_is_unrolled_and_specialised() -> None:
    """graph_for shows what ran: five steps without a loop, each with the sizes of its tensors."""
    path = TOP / "tests" / "data" / "simple_lstm.py"
    source = import_file(path)
    torch.manual_seed(2)
    args = [torch.randn(5, 3, 6), (torch.randn(3, 4), torch.randn(3, 4))]
    args += [torch.randn(16, 6), torch.randn(16, 4), torch.randn(16), torch.randn(16)]
    text = path.read_text().partition("Tuple\n")[2]  # without the imports
    ours = rushlight.CompilationUnit(text).simple_lstm
    want = source.simple_lstm(*args)
    with torch.no_grad():
        assert "prim::Loop" in str(ours.graph_for(*args))  # the first call is of no plan
        graph = ours.graph_for(*args)
        same(ours(*args), want)
    text = str(graph)
    assert "prim::Loop" not in text and "prim::Call" not in text and "prim::If" not in text
    assert text.count("aten::mm(") == 10  # of the input and the hidden state, five steps
    assert "Float(5, 3, 6, strides=[18, 6, 1], device=cpu)" in text
    assert "Float(6, 16, strides=[1, 6], device=cpu) = aten::t(" in text


def test_functions_of_objects_read_each_of_them(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "boxes.py"
    path.write_text(
        "from typing import List\n"
        "import torch\n"
        "class Box:\n"
        "    def __init__(self, n: int):\n"
        "        self.n = n\n"
        "    def times(self, x: int) -> int:\n"
        "        return self.n * x\n"
        "def scaled(b: Box, x: int) -> int:\n"
        "    return b.times(x) if b.n > 2 else -b.n\n"
        "def make(n: int) -> Box:\n"
        "    return Box(n)\n"
    )
    program = rushlight.load(str(path))
    boxes = [program.make(n) for n in (1, 2, 3, 4)]
    for _ in range(3):
        assert [program.scaled(b, 10) for b in boxes] == [-1, -2, 30, 40]
        assert [b.times(5) for b in boxes] == [5, 10, 15, 20]


def test_copies_of_a_module_have_plans_of_their_own(tmp_path: pathlib.Path) -> None:
    ours = loaded(Mlp().eval(), tmp_path)
    x = torch.randn(2, 4)
    want = ours(x)
    for _ in range(3):
        ours(x)
    other = copy.deepcopy(ours)
    for _ in range(3):
        same(other(x), want)
    assert counts(other)["made"] == 1 and counts(ours)["made"] == 1


def test_many_threads_make_each_plan_once(tmp_path: pathlib.Path) -> None:
    module = Mlp().eval()
    ours = loaded(module, tmp_path)
    inputs = [torch.randn(n % 7 + 1, 4) for n in range(64)]
    wants = [module(x) for x in inputs]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for got, want in zip(pool.map(ours, inputs), wants, strict=True):
                same(got, want)
    seen = counts(ours)
    assert seen["failures"] == 0 and seen["made"] <= 3


def test_the_command_shows_plans(command: str, tmp_path: pathlib.Path) -> None:
    loaded(Mlp().eval(), tmp_path)
    shown = subprocess.run(
        [command, "show", str(tmp_path / "m.pt"), "--plan", "ones(2, 4)"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert shown.returncode == 0, shown.stderr
    assert "3 of them ran a plan; 1 plans" in shown.stdout
    assert "argument 1, x.1: Float(2, 4, strides=[4, 1], device=cpu)" in shown.stdout
    assert "attribute training: False" in shown.stdout
    assert "prim::If" not in shown.stdout
    memory = re.search(
        r"memory: results take at most (\d+) bytes at once \(\d+ results\)", shown.stdout
    )
    assert memory and int(memory[1]) % 64 == 0
    assert re.search(r"instances: \d+, at \d+ of \d+ operators", shown.stdout)
    assert re.search(r"the last call took \d+ bytes at once", shown.stdout)


class Heads(nn.Module):
    """The sizes of views are computed from sizes, layer by layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 24) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            b, t, c = x.shape
            q, k, v = layer(x).view(b, t, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
            x = (q @ k.transpose(-2, -1) @ v).transpose(1, 2).reshape(b, t, c)
        return x


def test_numbers_that_follow_from_sizes_are_known(tmp_path: pathlib.Path) -> None:
    """They leave no tensor without facts, and nothing to guard."""
    module, x = loaded(Heads().eval(), tmp_path), rushlight.ones(2, 5, 8)
    with rushlight.no_grad():
        module(x)
        graph = str(module.graph_for(x))
    assert "prim::Guard" not in graph
    assert " : Tensor = " not in graph and "Float(*" not in graph, graph
    with rushlight.no_grad():
        for rows in (2, 3, 4, 3):
            many = torch.rand(rows, 5, 8)
            same(
                torch.from_numpy(module(rushlight.tensor(many.numpy())).numpy()),
                torch.jit.load(str(tmp_path / "m.pt"))(many).detach(),
            )


def test_plan_is_one_view_among_others(command: str, tmp_path: pathlib.Path) -> None:
    loaded(Mlp().eval(), tmp_path)
    path = str(tmp_path / "m.pt")
    for words, why in (
        ([path, "ones(2, 4)", "--plan", "--graph"], "two views: one at a time"),
        ([path, "ones(2, 4)", "--plan", "--check"], "two views: one at a time"),
        (["--plan"], "--plan takes a model file"),
        ([path, "--plan"], "x"),  # the argument that is missing
    ):
        shown = subprocess.run(
            [command, "show", *words], capture_output=True, text=True, timeout=60
        )
        assert shown.returncode == 2 and why in shown.stderr, shown


def test_the_simple_executor_makes_none(command: str, tmp_path: pathlib.Path) -> None:
    loaded(Mlp().eval(), tmp_path)
    shown = subprocess.run(
        [command, "show", str(tmp_path / "m.pt"), "--plan", "ones(2, 4)", "--executor", "simple"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert shown.returncode == 0, shown.stderr
    assert "0 plans" in shown.stdout


def test_the_last_executed_graph() -> None:
    f = rushlight.jit.CompilationUnit("def f(x: Tensor):\n    return x + 1\n").f
    g = rushlight.jit.CompilationUnit("def f(x: Tensor):\n    return x * 2\n").f
    x = rushlight.ops.aten.ones([2])
    f(x)
    assert "aten::add" in str(rushlight.jit.last_executed_optimized_graph())
    g(x)
    assert "aten::mul" in str(rushlight.jit.last_executed_optimized_graph())
    f(x)
    assert "aten::add" in str(rushlight.jit.last_executed_optimized_graph())
    m = rushlight.load(TOP / "tests" / "data" / "digits.pt")
    m(rushlight.ops.aten.zeros([1, 1, 8, 8]))
    assert "aten::conv2d" in str(rushlight.jit.last_executed_optimized_graph())
    del m
    gc.collect()
    with pytest.raises(RuntimeError, match="no function or module that still exists"):
        rushlight.jit.last_executed_optimized_graph()


HALF, TWO = torch.tensor(0.5, dtype=torch.float64), torch.tensor(2)
TENTH, TURN = torch.tensor(0.1, dtype=torch.float16), torch.tensor(1j)


def with_constants(x: torch.Tensor) -> list[torch.Tensor]:
    """Traced, each number beside a tensor is a constant tensor of no dimensions."""
    return [
        x * 0.1,
        x + HALF,
        torch.add(x, TWO, alpha=3),
        x - TENTH,
        x / 3.3,
        x * TURN,
        x.sum() * HALF,
        x.to(torch.float16) * HALF,
        x.to(torch.int32) * HALF,
        x.to(torch.int32) / TWO,
        x.clone().mul_(HALF).add_(TWO),
        HALF - x,
        HALF * x.sum(),
        x > HALF,
        x.sum().pow(HALF),
    ]


def test_constant_tensors_become_numbers(tmp_path: pathlib.Path) -> None:
    """As PyTorch's executors have them: the dtypes of some results follow from it."""
    x = torch.arange(1, 36).reshape(5, 7) / 4  # sums are exact
    path = str(tmp_path / "m.pt")
    torch.jit.trace(with_constants, x, strict=False).save(path)
    module, given, wanted = (
        rushlight.load(path),
        rushlight.tensor(x.numpy()),
        torch.jit.load(path)(x),
    )
    with rushlight.no_grad():
        first = [y.numpy().tobytes() for y in module(given)]  # without a plan
        for _ in range(4):
            for got, want in zip(module(given), wanted, strict=True):
                same(torch.from_numpy(got.numpy()), want)
            assert [y.numpy().tobytes() for y in module(given)] == first
    assert counts(module)["hits"] > 0
    shown = module.forward.plans
    number = re.search(r"aten::mul\(%x\.1, %(\d+)\)", shown)
    assert number and f"%{number[1]} : float = prim::Constant[value=0.1" in shown, shown


def test_groups_have_the_numbers_of_traced_programs(tmp_path: pathlib.Path) -> None:
    x = torch.randn(5, 7)
    path = str(tmp_path / "m.pt")
    torch.jit.trace(lambda x: torch.relu(x * 0.3 + 0.1) - TWO, x).save(path)
    module, given = rushlight.load(path), rushlight.tensor(x.numpy())
    with rushlight.no_grad():
        for _ in range(4):
            same(torch.from_numpy(module(given).numpy()), torch.relu(x * 0.3 + 0.1) - TWO)
    assert len(re.findall(r"= rushlight::pointwise", module.forward.plans)) == 1
    assert "{" not in module.forward.plans.split("graph(")[1]


def test_sizes_that_a_traced_program_computes_are_known(tmp_path: pathlib.Path) -> None:
    """They are tensors there: the sizes of padding, of windows, of what is joined again."""

    def windows(x: torch.Tensor) -> torch.Tensor:
        b, h, w, c = x.shape
        x = torch.nn.functional.pad(x, (0, 0, 0, (4 - w % 4) % 4, 0, -h % 4))
        h, w = x.shape[1], x.shape[2]
        y = x.view(b, h // 4, 4, w // 4, 4, c).transpose(2, 3).reshape(-1, 16, c)
        return torch.softmax(y.reshape(b * (h // 4), -1, int(c * 2.0) // 2), 2)

    x = torch.randn(2, 6, 9, 5)
    path = str(tmp_path / "m.pt")
    torch.jit.trace(windows, x).save(path)
    module = rushlight.load(path)
    graph = ""
    with rushlight.no_grad():
        for size in (x, torch.randn(2, 8, 4, 5), torch.randn(2, 7, 4, 5)):
            for _ in range(3):
                got = module(rushlight.tensor(size.numpy()))
                same(torch.from_numpy(got.numpy()), windows(size))
            graph = graph or str(module.graph_for(rushlight.tensor(x.numpy())))
    assert "Float(*" not in graph and " : Tensor = " not in graph, graph
    assert "aten::Int" not in graph and "prim::NumToTensor" not in graph, graph
