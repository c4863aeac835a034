"""rushlight export: TorchScript becomes exported programs, compared with the original here and, if
torch is installed, with what torch.export.load makes of the file."""

from __future__ import annotations

import pathlib
from typing import Any, Callable

import pytest
import rushlight
import rushlight.export

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

needs_torch = pytest.mark.skipif(torch is None, reason="torch")
CALLS = {  # program -> (its text, calls: each a list of arguments as the command reads them)
    "arithmetic": (
        """
def forward(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(x @ y).sum(-1, keepdim=True) * 2.5 + x[:, :1]
""",
        ["randn(4,3)", "randn(3,5)"],
    ),
    "containers": (
        """
def forward(xs: List[Tensor], named: Dict[str, Tensor]) -> Dict[str, List[Tensor]]:
    out: List[Tensor] = []
    for i, x in enumerate(xs):
        out.append(x + i)
    out.insert(0, named["a"])
    return {"first": out[:1], "rest": out[1:]}
""",
        ["[randn(2), ones(3)]", "{'a': zeros(2,2)}"],
    ),
    "control": (
        """
def power(x: Tensor, n: int) -> Tensor:
    return x if n == 0 else x * power2(x, n - 1)

def power2(x: Tensor, n: int) -> Tensor:
    y = torch.ones_like(x)
    while n > 0:
        y = y * x
        n -= 1
    return y

def forward(x: Tensor, n: int = 3) -> Tuple[Tensor, int]:
    return power(x, n), x.numel() // n
""",
        ["randn(2,3)"],
    ),
    "branch on data": (
        """
def forward(x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]:
    z = x
    if bool((x.sum() > 0).all()):
        z = x + y
        w = y * 2
    else:
        z = x - y
        w = y * 3
    return z, w
""",
        ["ones(3)", "randn(3)"],
    ),
    "branch in branch": (
        """
def forward(x: Tensor, y: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        if bool(y.sum() > 0):
            z = x + y
        else:
            z = x - y
    else:
        z = x * 2
    return z + 1
""",
        ["ones(3)", "ones(3)"],
    ),
    "in place": (
        """
def forward(x: Tensor) -> Tensor:
    y = x.clone()
    z = y.view(-1)
    z.add_(1)
    y[0] = 7
    return y * z.sum()
""",
        ["randn(2,3)"],
    ),
    "many results": (
        """
def forward(x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    values, places = x.sort(dim=1)
    a, b = x.split(2, 1)
    return values, places, a * b
""",
        ["randn(3,4)"],
    ),
    "constants": (
        """
def forward(x: Tensor) -> Tensor:
    t = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    t.add_(1)
    n = torch.tensor(3)
    return x.reshape(int(n) - 1, -1) @ t
""",
        ["randn(4)"],
    ),
    "numbers of data": (
        """
def forward(x: Tensor) -> Tuple[Tensor, Tensor]:
    k = x.nonzero()
    return k + 1, x * float(x.sum().item())
""",
        ["ones(3)"],
    ),
}


def script(run: Callable[..., Any], folder: pathlib.Path, text: str) -> str:
    source, model = folder / "model.py", folder / "model.pt"
    source.write_text(f"import torch\nfrom torch import Tensor\nfrom typing import *\n\n{text}")
    run("script", str(source), "-o", str(model), "--method", "forward")
    return str(model)


def result(run: Callable[..., Any], model: str, args: list[str]) -> str:
    return run("run", model, *args, "--json").stdout


@pytest.mark.parametrize("name", CALLS)
def test_the_program_gives_what_the_original_gives(run, tmp_path: pathlib.Path, name: str) -> None:
    text, args = CALLS[name]
    model, made = script(run, tmp_path, text), str(tmp_path / "made.pt2")
    run("export", model, *args, "-o", made)
    assert result(run, made, args) == result(run, model, args)
    run("show", "--check", made)
    again = str(tmp_path / "again.pt2")
    rushlight.save(rushlight.load(made), again)
    assert pathlib.Path(again).read_bytes() == pathlib.Path(made).read_bytes()


@needs_torch
@pytest.mark.parametrize("name", CALLS)
def test_pytorch_opens_the_program(run, tmp_path: pathlib.Path, name: str) -> None:
    text, args = CALLS[name]
    model, made = script(run, tmp_path, text), str(tmp_path / "made.pt2")
    run("export", model, *args, "-o", made)
    program = torch.export.load(made)
    given, named = program.example_inputs
    torch.testing.assert_close(
        program.module()(*given, **named), torch.jit.load(model)(*given, **named)
    )


LOOPS = {  # each returns what depends on how often its loop runs
    "a tensor decides": """
def forward(x: Tensor) -> Tensor:
    while bool(x.sum() > 0):
        x = x - 1
    return x
""",
    "a count and a tensor": """
def forward(x: Tensor) -> Tuple[Tensor, int]:
    i = 0
    while i < 5 and bool(x.sum() > 0):
        x = x - 1
        i += 1
    return x, i
""",
    "break": """
def forward(x: Tensor) -> Tensor:
    for i in range(10):
        x = x - i
        if bool(x.sum() < 0):
            break
    return x
""",
    "break and continue": """
def forward(x: Tensor) -> Tuple[Tensor, int]:
    i = 0
    while True:
        x = x - 1
        i += 1
        if bool(x.sum() < 0):
            break
        if bool(x[0] < -7):
            continue
        x = x * 1.1
    return x, i
""",
    "a number of data": """
def forward(x: Tensor) -> Tensor:
    n = 0
    for i in range(int(x.sum())):
        n += i
        x = x + i
    return x * n
""",
    "halves": """
def forward(x: Tensor) -> Tensor:
    i = int(x.sum())
    t = 0.5
    while i > 0:
        t = t + i * 0.5
        i = i // 2
    return x * t
""",
    "floats": """
def forward(x: Tensor) -> Tensor:
    s, odd = 0.5, False
    while float(x.sum()) > s:
        x = x - 1
        s = s * 1.5
        odd = not odd
    if odd:
        x = x * 2
    return x * s
""",
    "a loop in a loop": """
def forward(x: Tensor) -> Tensor:
    k = x.sum()
    while bool(k > 0):
        j = k
        while bool(j > 1):
            j = j - 1
        k = k - 1
        if bool(k > 2):
            x = x + j
        else:
            x = x - j
    return x
""",
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_on_data_is_a_while_loop(run, tmp_path: pathlib.Path, name: str) -> None:
    model, made = script(run, tmp_path, LOOPS[name]), str(tmp_path / "made.pt2")
    run("export", model, "ones(3)", "-o", made)
    assert "higher_order.while_loop" in run("show", made, "--fx").stdout
    run("show", "--check", made)
    program, original = rushlight.load(made), rushlight.load(model)
    for factor in (1, 4, 0, -1):
        x = rushlight.ones(3) * factor
        assert str(program(x)) == str(original(x))


@needs_torch
@pytest.mark.parametrize("name", LOOPS)
def test_pytorch_runs_the_loop(run, tmp_path: pathlib.Path, name: str) -> None:
    model, made = script(run, tmp_path, LOOPS[name]), str(tmp_path / "made.pt2")
    run("export", model, "ones(3)", "-o", made)
    program, original = torch.export.load(made).module(), torch.jit.load(model)
    for factor in (1, 4, 0, -1):
        x = torch.ones(3) * factor
        torch.testing.assert_close(program(x), original(x))


BATCH = """
def forward(x: Tensor, y: Tensor) -> Tuple[Tensor, Tensor]:
    b, n = x.shape
    z = torch.cat([x, y], 1).view(b * 2, -1)
    return z.reshape(b, -1)[:, : n + 1], torch.arange(b) * z.size(0)
"""


@pytest.mark.parametrize("batch", [1, 2, 5, 7, 64])
def test_a_batch_may_vary(run, tmp_path: pathlib.Path, batch: int) -> None:
    model, made = script(run, tmp_path, BATCH), str(tmp_path / "made.pt2")
    run("export", model, "randn(3,4)", "randn(3,6)", "-o", made, "--dynamic", "0=1:64")
    args = [f"randn({batch},4)", f"randn({batch},6)"]
    assert result(run, made, args) == result(run, model, args)


def test_sizes_outside_are_refused(run, tmp_path: pathlib.Path) -> None:
    model, made = script(run, tmp_path, BATCH), str(tmp_path / "made.pt2")
    run("export", model, "randn(3,4)", "randn(3,6)", "-o", made, "--dynamic", "0=1:64")
    assert "<= 64" in run("run", made, "randn(65,4)", "randn(65,6)", code=2).stderr
    assert "Guard failed" in run("run", made, "randn(3,4)", "randn(4,6)", code=2).stderr
    assert "4" in run("run", made, "randn(3,5)", "randn(3,6)", code=2).stderr


def test_a_size_that_cannot_vary_is_named(run, tmp_path: pathlib.Path) -> None:
    model = script(
        run, tmp_path, "def forward(x: Tensor) -> Tensor:\n    return x + torch.ones([4])\n"
    )
    got = run("export", model, "randn(4)", "-o", str(tmp_path / "m.pt2"), "--dynamic", "0", code=2)
    assert "Constraints violated" in got.stderr and "to be a constant (4)" in got.stderr
    assert "x + torch.ones([4])" in got.stderr


def test_what_is_inferred_becomes_a_guard(run, tmp_path: pathlib.Path) -> None:
    text = "def forward(x: Tensor) -> Tensor:\n    return x * (2 if x.size(0) % 2 == 0 else 3)\n"
    model, made = script(run, tmp_path, text), str(tmp_path / "m.pt2")
    run("export", model, "randn(4)", "-o", made, "--dynamic", "x.0=auto")
    assert result(run, made, ["ones(6)"]) == result(run, model, ["ones(6)"])
    assert "Guard failed" in run("run", made, "ones(5)", code=2).stderr


REFUSED = {
    "a loop that makes a tensor grow": (
        "def forward(x: Tensor) -> Tensor:\n    while bool(x.sum() > 0):\n"
        "        x = torch.cat([x, x - 5])\n    return x\n",
        "of different dtypes or sizes",
    ),
    "a list that grows in a loop": (
        "def forward(x: Tensor) -> Tensor:\n    xs = [x]\n    while bool(x.sum() > 0):\n"
        "        x = x - 1\n        xs.append(x)\n    return torch.stack(xs)\n",
        "changes a list or dict of outside",
    ),
    "a text": (
        "def forward(x: Tensor) -> str:\n    return 'a'\n",
        "returns a text, which PyTorch does not open",
    ),
    "different branches": (
        "def forward(x: Tensor) -> Tensor:\n    if bool(x.sum() > 0):\n        y = x.view(1, -1)\n"
        "    else:\n        y = x\n    return y\n",
        "of different dtypes or sizes",
    ),
    "a write to all of a tensor in a branch": (
        "def forward(x: Tensor) -> Tensor:\n    y = x * 1\n    if bool(x.sum() > 0):\n"
        "        y[:] = 1\n    return y\n",
        "writes to a tensor of outside",
    ),
    "a seed": (
        "def forward(x: Tensor) -> Tensor:\n    torch.manual_seed(7)\n    return x\n",
        "aten::manual_seed has an effect outside of the program",
    ),
    "a text of data": (
        "def forward(x: Tensor) -> Tensor:\n    named = {str(x.sum()): x}\n"
        "    return x * len(named)\n",
        "decides by a text that is made of a tensor's data",
    ),
    "a list of outside in a branch": (
        "def forward(x: Tensor) -> Tensor:\n    xs = [x]\n    if bool(x.sum() > 0):\n"
        "        xs.append(x * 2)\n    return xs[-1]\n",
        "changes a list or dict of outside",
    ),
    "sizes of what x[:] shows": (
        "def forward(x: Tensor) -> Tensor:\n    y = x * 1\n    z = y[:]\n    z.unsqueeze_(0)\n"
        "    return y + z\n",
        "changes the sizes of a tensor that x[:] shows",
    ),
    "a hash of data": (
        "def forward(x: Tensor) -> Tensor:\n    return x * hash((x, 1))\n",
        "aten::hash",
    ),
    "a write to a view in a branch": (
        "def forward(x: Tensor) -> Tensor:\n    y = x * 1\n    if bool(x.sum() > 0):\n"
        "        y[0] = 1\n    return y\n",
        "writes to a tensor of outside",
    ),
    "a write in a branch": (
        "def forward(x: Tensor) -> Tensor:\n    y = x * 1\n    if bool(x.sum() > 0):\n"
        "        y.add_(1)\n    return y\n",
        "writes to a tensor of outside",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exported_is_named_with_its_line(run, tmp_path, name: str) -> None:
    text, message = REFUSED[name]
    model = script(run, tmp_path, text)
    got = run("export", model, "ones(3)", "-o", str(tmp_path / "m.pt2"), code=4)
    assert message in got.stderr and "HERE" in got.stderr


def test_a_program_that_runs_for_long_is_refused(run, tmp_path: pathlib.Path) -> None:
    text = (
        "def forward(x: Tensor) -> Tensor:\n    for i in range(1000000000000):\n"
        "        x = x\n    return x\n"
    )
    model = script(run, tmp_path, text)
    got = run("export", model, "ones(3)", "-o", str(tmp_path / "m.pt2"), code=5)
    assert "too long to be exported" in got.stderr


@pytest.mark.parametrize("option", ["x", "64", "0=", "0=1:", "x.0=a:b:c", "-1"])
def test_wrong_dimensions_are_refused(run, digits: pathlib.Path, option: str) -> None:
    got = run("export", str(digits), "ones(2)", "-o", "m.pt2", "--dynamic", option, code=2)
    assert f"--dynamic '{option}'" in got.stderr


@needs_torch
def test_modules_keep_their_names_and_state(run, tmp_path: pathlib.Path) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = torch.nn.Linear(3, 4)
            self.two = torch.nn.Linear(3, 4)
            self.two.weight = self.one.weight
            self.register_buffer("seen", torch.zeros(()))
            self.shift = torch.ones(4)

        def forward(self, x):
            self.seen = self.seen + x.size(0)
            return torch.relu(self.one(x)) + self.two(x) + self.shift, self.seen

    net = Net().eval()
    model, made = str(tmp_path / "net.pt"), str(tmp_path / "net.pt2")
    torch.jit.script(net).save(model)
    run("export", model, "randn(2,3)", "-o", made)
    program = torch.export.load(made)
    assert set(program.state_dict) == set(net.state_dict())
    assert set(program.graph_signature.parameters) == {"one.weight", "one.bias", "two.bias"}
    assert program.graph_signature.lifted_tensor_constants == ("shift",)
    assert list(program.graph_signature.buffers_to_mutate.values()) == ["seen"]
    assert [e.fqn for e in program.module_call_graph] == ["", "one", "two"]
    linear = next(n for n in program.graph.nodes if "linear" in n.name)
    assert list(linear.meta["nn_module_stack"])[-1].endswith("one")
    assert "linear" in linear.meta["stack_trace"]
    x = torch.randn(2, 3)
    runner = program.module()
    for _ in range(2):
        torch.testing.assert_close(runner(x), net(x))


@needs_torch
def test_the_graph_is_that_of_torch_export(run, tmp_path: pathlib.Path) -> None:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
        torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(128, 10),
    ).eval()  # fmt: skip
    x = torch.randn(2, 3, 8, 8)
    model, made = str(tmp_path / "net.pt"), str(tmp_path / "net.pt2")
    torch.jit.script(net).save(model)
    run("export", model, "randn(2,3,8,8)", "-o", made)
    want = torch.export.export(net, (x,))
    calls = [
        [str(n.target) for n in p.graph.nodes if n.op == "call_function"]
        for p in (torch.export.load(made), want)
    ]
    assert calls[0] == calls[1]


def test_a_size_that_indexes_a_list_is_a_condition(run, tmp_path: pathlib.Path) -> None:
    text = (
        "def forward(x: Tensor) -> Tensor:\n    xs = [x, x + 1, x + 2, x + 3]\n"
        "    ones = [1] * x.size(0)\n    return xs[x.size(0) - 2] * len(ones)\n"
    )
    model, made = script(run, tmp_path, text), str(tmp_path / "m.pt2")
    run("export", model, "ones(3)", "-o", made)
    assert result(run, made, ["ones(3)"]) == result(run, model, ["ones(3)"])
    got = run("export", model, "ones(3)", "-o", made, "--dynamic", "0", code=2)
    assert "to be a constant (3)" in got.stderr


@needs_torch
def test_an_export_changes_nothing(run, tmp_path: pathlib.Path) -> None:
    class Net(torch.nn.Module):
        def __init__(self, writes: bool) -> None:
            super().__init__()
            self.scale, self.writes, self.sizes = torch.tensor(2.0), writes, [1]

        def forward(self, x):
            y = self.scale.detach() * 3
            if self.writes:
                view = self.scale.detach()
                view.add_(1)
            self.sizes.append(2)
            return x * y * len(self.sizes)

    for writes in (False, True):
        model, made = str(tmp_path / "net.pt"), str(tmp_path / "net.pt2")
        torch.jit.script(Net(writes)).save(model)
        module, x = rushlight.load(model), torch.ones(2)
        want = torch.jit.load(model)(x)
        if writes:  # y is made before
            with pytest.raises(NotImplementedError, match="constant"):
                rushlight.export.export(module, (x,))
        else:
            rushlight.export.save(rushlight.export.export(module, (x,)), made)
            assert torch.equal(torch.export.load(made).module()(x), want)
        assert torch.equal(module(x), want)


@needs_torch
def test_a_constant_that_was_read_is_not_written(tmp_path: pathlib.Path) -> None:
    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n = torch.tensor(1)

        def forward(self, x):
            y = x * int(self.n)
            self.n.add_(1)
            return y

    path = str(tmp_path / "counts.pt")
    torch.jit.script(Counts()).save(path)
    with pytest.raises(NotImplementedError, match="constant whose value was used"):
        rushlight.export.export(rushlight.load(path), (torch.ones(2),))


RUN = {
    "a list that is sorted": (
        "def forward(x: Tensor) -> Tensor:\n    s = [x.size(0), x.size(1)]\n    s.sort()\n"
        "    return x.reshape(s)\n",
        "ones(3,2)",
    ),
    "a printed size": (
        "def forward(x: Tensor) -> Tensor:\n    print(f'{x.shape} {x.sum()}')\n    return x * 2\n",
        "ones(3,2)",
    ),
    "a constant in both branches and behind": (
        "def forward(x: Tensor) -> Tensor:\n    k = torch.tensor([1.0, 2.0])\n"
        "    if bool(x.sum() > 0):\n        y = x * k\n    else:\n        y = x - k\n"
        "    return y + k\n",
        "ones(3,2)",
    ),
    "a number in a branch and behind": (
        "def forward(x: Tensor) -> Tensor:\n    k = torch.tensor(x.size(0))\n"
        "    if bool(x.sum() > 0):\n        y = x * k\n    else:\n        y = x - k\n"
        "    return y + k\n",
        "ones(3,2)",
    ),
    "a dict of a branch": (
        "def forward(x: Tensor) -> Tensor:\n    if bool(x.sum() > 0):\n"
        "        y = {'a': x, 'b': x + 1}\n"
        "    else:\n        y = {'a': x - 1, 'b': x}\n    return y['a'] + y['b']\n",
        "ones(3,2)",
    ),
    "a name by a size": (
        "def forward(x: Tensor) -> Tensor:\n    d = {f'{x.size(1)}': x}\n    return d['2'] * 2\n",
        "ones(3,2)",
    ),
}


@pytest.mark.parametrize("what", RUN)
def test_values_beside_tensors(run, tmp_path: pathlib.Path, what: str) -> None:
    text, arg = RUN[what]
    model, made = script(run, tmp_path, text), str(tmp_path / "m.pt2")
    varies = ["--dynamic", "0=2:8"] if "sorted" not in what else []
    run("export", model, arg, "-o", made, *varies)
    for a in [arg] + [arg.replace("3,", "5,")] * bool(varies):
        shown = run("run", model, a).stdout
        assert shown.endswith(run("run", made, a).stdout)


@needs_torch
def test_constants_that_share_memory(tmp_path: pathlib.Path) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1, dtype=torch.int64), False)
            self.seen = self.weight.detach()  # in a .pt2 constants lie apart from parameters

        def forward(self, x):
            with torch.no_grad():
                self.weight.mul_(2)
            return x * int(self.seen)

    class Constants(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = torch.ones(2, dtype=torch.int64)
            self.same = self.one.view(2)

        def forward(self, x):
            before = self.same + 1
            self.one.mul_(3)
            return x * int(self.same[0]) + before

    path, made = str(tmp_path / "net.pt"), str(tmp_path / "net.pt2")
    torch.jit.script(Net()).save(path)
    module, x = rushlight.load(path), torch.ones(2)
    with pytest.raises(NotImplementedError, match="constant|shares its memory"):
        rushlight.export.export(module, (x,))
    torch.jit.script(Constants()).save(path)
    rushlight.export.save(rushlight.export.export(rushlight.load(path), (x,)), made)
    assert torch.equal(rushlight.load(made)(x), torch.full([2], 5.0))
    assert torch.equal(torch.export.load(made).module()(x), torch.full([2], 5.0))


@needs_torch
def test_an_attribute_of_the_name_inputs(tmp_path: pathlib.Path) -> None:
    """The names of arguments are the method's, whatever attributes the program has."""

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inputs = 3

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.inputs

    file = str(tmp_path / "model.pt")
    torch.jit.save(torch.jit.script(Module()), file)
    made = rushlight.export.export(rushlight.load(file), (torch.ones(2),))
    assert made.graph_signature.user_inputs == ("x",)
    assert made.module()(torch.ones(2)).tolist() == [4.0, 4.0]
