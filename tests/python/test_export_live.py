"""rushlight.export.export of torch's modules and of ours, compared with torch.export."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from rushlight.export import Dim, export, save  # noqa: E402


class Mixed(torch.nn.Module):
    """Layers, buffers, decisions on sizes, numbers, views."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.attend = torch.nn.MultiheadAttention(3, 1, batch_first=True)
        self.drop = torch.nn.Dropout(0.1)
        self.conv = torch.nn.Conv1d(1, 2, 3)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: Any, y: Any) -> Any:
        self.seen.add_(1)
        z = torch.relu(self.norm(self.linear(x))) * 2.5
        if x.shape[1] != 4:
            raise ValueError("4 is expected")
        w = self.attend(z[None], z[None], z[None], need_weights=False)[0]
        return z.view(x.shape[0] * 3), self.drop(y[:, 1:]), w, self.conv(x[:, None]) + self.seen[0]


def operators(program: Any) -> list[str]:
    found = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    return [name for name in found if "_assert" not in name and "sym_size" not in name]


def reloaded(program: Any, folder: pathlib.Path) -> Any:
    path = folder / "program.pt2"
    save(program, str(path))
    return torch.export.load(str(path))


def test_metadata_are_torch_exports() -> None:
    class Stack(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mixed = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

        def forward(self, x: Any) -> Any:
            y = self.mixed(x) + x.shape[0]
            return self.mixed[1](y)

    args, keys = (torch.randn(3, 4),), ("stack_trace", "nn_module_stack")
    made = export(Stack(), args, dynamic_shapes=({0: Dim.AUTO},))
    want = torch.export.export(Stack(), args, dynamic_shapes=({0: torch.export.Dim.AUTO},))

    def rows(program: Any) -> list[Any]:
        nodes = [n for n in program.graph.nodes if n.op == "call_function"]
        return [(n.name, *(n.meta.get(k) for k in keys)) for n in nodes if "size" not in n.name]

    assert rows(made) == rows(want)
    assert str(made) == str(want)


class Kept(torch.nn.Module):
    """Takes and returns containers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: Any, named: Any, *, scale: int = 2) -> Any:
        return {"out": self.linear(x) * scale, "same": named["a"]}, 3


class KeptParts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Kept()
        self.rest = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())

    def forward(self, x: Any) -> Any:
        found, n = self.part(x, {"a": x + 1}, scale=5)
        return self.rest(found["out"]) + found["same"] * n


def test_calls_of_modules_keep_their_structure(tmp_path: pathlib.Path) -> None:
    module, args, kept = KeptParts(), (torch.randn(4, 3),), ("part", "rest")
    made = export(module, args, preserve_module_call_signature=kept)
    want = torch.export.export(module, args, preserve_module_call_signature=kept)

    def rows(program: Any) -> list[str]:
        calls = ((c.fqn, c.signature) for c in program.module_call_graph)
        return [f"{fqn} {s and (s.inputs, s.outputs, str(s.in_spec))}" for fqn, s in calls]

    assert rows(made) == rows(want)
    again = reloaded(made, tmp_path)
    assert rows(again) == rows(want)
    for flat in (rushlight.export.unflatten(made), torch.export.unflatten(again)):
        found, n = flat.part(args[0], {"a": args[0]}, scale=5)
        expected, _ = module.part(args[0], {"a": args[0]}, scale=5)
        assert n in (3, None)  # None: torch forgets constants
        torch.testing.assert_close(found, expected)


def test_vmap_and_associative_scan_are_torch_exports(tmp_path: pathlib.Path) -> None:
    args = torch.randn(4, 3), torch.randn(3)

    class One(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            scan = torch._higher_order_ops.associative_scan
            return torch.vmap(lambda a: a * y)(x), scan(
                lambda a, b: a + b, x, 0, combine_mode="generic"
            )

    made, want = export(One(), args), torch.export.export(One(), args)
    assert str(made) == str(want)
    for program in (made, reloaded(made, tmp_path)):
        torch.testing.assert_close(program.module()(*args), One()(*args))
    shapes = ({0: Dim("n")}, None)
    vmapped = export(Mapped(), args, dynamic_shapes=shapes)
    longer = torch.randn(6, 3), args[1]
    torch.testing.assert_close(vmapped.module()(*longer), Mapped()(*longer))
    with pytest.raises(RuntimeError, match=r"torch\.func\.grad"):
        export(Gradient(), args[1:])


class Mapped(torch.nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return torch.vmap(lambda a: (a + y, a.sum()), out_dims=(1, 0))(x)


class Gradient(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.func.grad(lambda a: (a**2).sum())(x)


class Numbers(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        y, n, k = torch.cond(
            x.sum() > 0, lambda v: (v.sin(), 1, 7), lambda v: (v.cos(), 2, 7), (x,)
        )
        return y * n, k


class CountsInts(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        loop = torch._higher_order_ops.while_loop
        return loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (x.shape[0] - 2, x))


def test_operators_carry_ints(tmp_path: pathlib.Path) -> None:
    made = export(Numbers(), (torch.ones(3),))
    for program in (made, reloaded(made, tmp_path)):
        for x in (torch.ones(3), -torch.ones(3)):
            torch.testing.assert_close(program.module()(x), Numbers()(x))
    made = export(CountsInts(), (torch.ones(4),), dynamic_shapes=({0: Dim.AUTO},))
    for program in (made, reloaded(made, tmp_path)):
        for n in (4, 3, 7):
            found, want = program.module()(torch.ones(n)), CountsInts()(torch.ones(n))
            assert int(found[0]) == int(want[0]) and torch.equal(found[1], want[1])


@pytest.mark.parametrize(
    ("branch", "what"),
    [
        (lambda v: v.add_(1), "input mutation"),
        (lambda v: v[0].mul_(2) + v, "input mutation"),
        (lambda v: v, "aliasing"),
        (lambda v: v[:], "aliasing"),
        (lambda v: (v + 1, 2.5), "unsupported branch return type"),
    ],
)
def test_what_a_branch_may_not_do_is_torchs_error(branch: Any, what: str) -> None:
    class Branch(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.cond(x.sum() > 0, branch, branch, (x,))

    x = torch.ones(3)
    with pytest.raises(torch._dynamo.exc.UncapturedHigherOrderOpError, match=what):
        export(Branch(), (x,))
    assert torch.equal(x, torch.ones(3))
    with pytest.raises(torch._dynamo.exc.TorchDynamoException):
        torch.export.export(Branch(), (x,))


class Indexed(torch.nn.Module):
    def forward(self, x: Any, n: Any) -> Any:
        half = x.shape[0] // 2
        i = n.item()
        torch._check(i >= 0)
        torch._check(i < x.shape[1])
        return x[:half], x[..., i], x[None, half:, 1:2]


def test_symbolic_indices_are_select_and_slice(tmp_path: pathlib.Path) -> None:
    args = torch.randn(6, 4), torch.tensor(2)
    made = export(Indexed(), args, dynamic_shapes=({0: Dim.AUTO}, None))
    want = torch.export.export(Indexed(), args, dynamic_shapes=({0: torch.export.Dim.AUTO}, None))
    wanted = [n for n in operators(want) if "select" in n or "slice" in n]
    assert [n for n in operators(made) if "select" in n or "slice" in n] == wanted
    other = torch.randn(9, 4), torch.tensor(0)
    torch.testing.assert_close(reloaded(made, tmp_path).module()(*other), Indexed()(*other))


def test_the_graph_and_the_results_are_torch_exports(tmp_path: pathlib.Path) -> None:
    module, args = Mixed().eval(), (torch.randn(5, 4), torch.randn(5, 6))
    before = {k: v.clone() for k, v in module.state_dict().items()}
    made = export(module, args)
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
    want = torch.export.export(module, args)
    assert operators(made) == operators(want)
    assert made.graph_signature.parameters == tuple(want.graph_signature.parameters)
    assert made.graph_signature.buffers == tuple(want.graph_signature.buffers)
    torch.testing.assert_close(reloaded(made, tmp_path).module()(*args), module(*args))


@pytest.mark.parametrize("batch", [1, 2, 7, 64])
def test_a_batch_may_vary(tmp_path: pathlib.Path, batch: int) -> None:
    module = Mixed().eval()
    size = Dim("batch", min=1, max=64)
    shapes = {"x": {0: size}, "y": {0: size}}
    made = export(module, (torch.randn(5, 4), torch.randn(5, 6)), dynamic_shapes=shapes)
    args = torch.randn(batch, 4), torch.randn(batch, 6)
    run = reloaded(made, tmp_path).module()
    torch.testing.assert_close(run(*args), module(*args))
    with pytest.raises(AssertionError, match="Guard failed"):
        run(torch.randn(65, 4), torch.randn(65, 6))


class Decides(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x + 1 if x.shape[0] > 3 else x - 1


def test_a_decision_on_a_size_is_a_condition(tmp_path: pathlib.Path) -> None:
    args = (torch.ones(5),)
    with pytest.raises(ValueError, match="Constraints violated") as error:
        export(Decides(), args, dynamic_shapes={"x": {0: Dim("b")}})
    assert "4 <= L['x'].size()[0]" in str(error.value)
    assert "b = Dim('b', min=4)" in str(error.value)
    made = reloaded(export(Decides(), args, dynamic_shapes={"x": {0: Dim.AUTO}}), tmp_path)
    assert torch.equal(made.module()(torch.ones(9)), torch.full((9,), 2.0))
    with pytest.raises(AssertionError, match="Guard failed"):
        made.module()(torch.ones(3))
    assert operators(export(Decides(), (torch.ones(2),))) == ["aten.sub.Tensor"]


class OnData(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x + 1 if x.sum() > 0 else x - 1


class Counts(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x * int(x.sum())


@pytest.mark.parametrize("module", [OnData(), Counts()])
def test_a_decision_on_data_is_refused_with_its_line(module: Any) -> None:
    with pytest.raises(RuntimeError, match="depends on data") as error:
        export(module, (torch.ones(3),))
    assert "test_export_live.py(" in str(error.value)


def test_named_and_nested_arguments(tmp_path: pathlib.Path) -> None:
    class Nested(torch.nn.Module):
        def forward(self, pair: Any, scale: Any) -> Any:
            return [pair[0] * scale, {"b": pair[1] + 1}["b"]]

    args, kwargs = ((torch.ones(2), torch.zeros(3)),), {"scale": torch.full((2,), 3.0)}
    made = reloaded(export(Nested(), args, kwargs), tmp_path)
    torch.testing.assert_close(made.module()(*args, **kwargs), Nested()(*args, **kwargs))


def test_modules_of_ours(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "net.pt")
    torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())).save(path)
    module, x = rushlight.load(path), torch.randn(2, 3)
    made = export(module, (x,), dynamic_shapes=({0: Dim("b")},))
    assert operators(made) == ["aten.linear.default", "aten.relu.default"]
    y = torch.randn(6, 3)
    torch.testing.assert_close(reloaded(made, tmp_path).module()(y), torch.jit.load(path)(y))


WRONG_SHAPES = [
    lambda dim: {"z": {0: dim("b")}},
    lambda dim: ({0: dim("b")}, {}),
    lambda dim: {"x": {0: 7}},
    lambda dim: {"x": {0: dim("b", min=6, max=9)}},
    lambda dim: {"x": [dim("b"), None]},
    lambda dim: {"x": {0: "b"}},
    lambda dim: {"x": dim("b")},
]


@pytest.mark.parametrize("shapes", WRONG_SHAPES)
def test_wrong_shapes_are_refused_as_torch_refuses_them(shapes: Any) -> None:
    with pytest.raises(Exception) as want:
        torch.export.export(Decides(), (torch.ones(5),), dynamic_shapes=shapes(torch.export.Dim))
    with pytest.raises(type(want.value)) as made:
        export(Decides(), (torch.ones(5),), dynamic_shapes=shapes(Dim))
    first = str(want.value).splitlines()[0].split("Dim(")[0]
    assert str(made.value).startswith(first[:60])


def test_arguments_are_a_tuple() -> None:
    with pytest.raises(ValueError, match="to be a tuple of example positional inputs") as error:
        export(Decides(), torch.ones(5))  # type: ignore[arg-type]
    assert isinstance(error.value, torch._dynamo.exc.UserError)


NETWORKS = {
    "norms": lambda: (
        torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3),
            torch.nn.GroupNorm(2, 8),
            torch.nn.InstanceNorm2d(8),
            torch.nn.SiLU(),
            torch.nn.AdaptiveAvgPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(32, 4),
            torch.nn.Softmax(-1),
        ),
        (torch.randn(3, 3, 9, 9),),
    ),
    "recurrent": lambda: (torch.nn.LSTM(8, 16, 2, batch_first=True), (torch.randn(3, 5, 8),)),
    "transformer": lambda: (
        torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True),
        (torch.randn(3, 5, 16),),
    ),
    "shuffle": lambda: (
        torch.nn.Sequential(
            torch.nn.Conv2d(3, 12, 3), torch.nn.PixelShuffle(2), torch.nn.Upsample(scale_factor=2)
        ),
        (torch.randn(3, 3, 6, 6),),
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_with_a_batch(tmp_path: pathlib.Path, name: str) -> None:
    module, args = NETWORKS[name]()
    module.eval()
    assert operators(export(module, args)) == operators(torch.export.export(module, args))
    made = export(module, args, dynamic_shapes=({0: Dim("batch", min=1, max=16)},))
    run = reloaded(made, tmp_path).module()
    for batch in (1, 2, 16):
        more = (torch.randn(batch, *args[0].shape[1:]),)
        torch.testing.assert_close(run(*more), module(*more), rtol=1e-4, atol=1e-5)


# -- What torch.export writes, node by node


def code_of(program: Any) -> str:
    return str(program.graph_module.code).strip()


def flat(program: Any) -> list[str]:
    """Return the operators of a program, with those of its graphs inside before their use."""
    found: list[str] = []

    def walk(module: Any) -> None:
        for node in module.graph.nodes:
            inner = getattr(module, str(node.target), None) if node.op == "get_attr" else None
            if inner is not None:
                walk(inner)
            if node.op == "call_function":
                found.append(str(node.target))

    walk(program.graph_module)
    return found


class NoGrad(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            y = self.linear(x)
            with torch.enable_grad():
                z = y.cos()
            w = z + 1
        return w + self.linear(x)


class Autocast(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
        return y.float() + 1


class Constants(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shift = torch.ones(4)

    def forward(self, x: Any) -> Any:
        x.cos()
        y = x.clone()
        y[0] = 7
        return x + torch.tensor([1.0, 2.0, 3.0, 4.0]) + torch.tensor(4) + self.shift, y[[0, 1]]


class Batch(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x.view(x.shape[0] * 2, 2) + x.shape[0], x * (x.shape[0] / 2)


class CondOnSize(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.shape[0] > 4, lambda x: x.cos(), lambda x: x.sin(), [x])


class Cond(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        y = x + 1
        return torch.cond(x.sum() > 0, lambda x: x + y, lambda x: x - y, (x,))


class While(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        from torch._higher_order_ops.while_loop import while_loop

        def go_on(i: Any, x: Any) -> Any:
            return i > 0

        def body(i: Any, x: Any) -> Any:
            return i - 1, x + 1

        return while_loop(go_on, body, (x.sum(), x))


class Map(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        from torch._higher_order_ops.map import map

        return map(lambda row, y: row + y, x, x[0].clone())


class Scan(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        from torch._higher_order_ops.scan import scan

        return scan(lambda carry, row: (carry + row, carry * row), x[0], x)


class NonZero(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return (x - 1).nonzero() + 1


SAME_CODE = [NoGrad, Autocast, Constants, Cond, Map, Scan, NonZero]


@pytest.mark.parametrize("cls", SAME_CODE)
def test_the_code_is_torch_exports(tmp_path: pathlib.Path, cls: Any) -> None:
    module, args = cls(), (torch.ones(4, 4),)
    want, made = torch.export.export(module, args), export(module, args)
    assert code_of(made) == code_of(want)
    assert flat(made) == flat(want)
    assert str(made.graph_signature).split() == str(want.graph_signature).split()
    torch.testing.assert_close(made.module()(*args), module(*args))
    torch.testing.assert_close(reloaded(made, tmp_path).module()(*args), module(*args))


def test_a_loop_on_data(tmp_path: pathlib.Path) -> None:
    module, args = While(), (torch.ones(2, 2),)
    made = export(module, args)
    assert flat(made) == flat(torch.export.export(module, args))
    for x in (torch.ones(2, 2), torch.zeros(2, 2), torch.full((2, 2), 2.0)):
        torch.testing.assert_close(made.module()(x), module(x))
        torch.testing.assert_close(reloaded(made, tmp_path).module()(x), module(x))


@pytest.mark.parametrize("cls", [Batch, CondOnSize])
def test_symbolic_numbers_are_torch_exports(tmp_path: pathlib.Path, cls: Any) -> None:
    module, args = cls(), (torch.ones(5, 4),)
    shapes = {"x": {0: torch.export.Dim("b", max=99)}}
    want = torch.export.export(module, args, dynamic_shapes=shapes)
    made = export(module, args, dynamic_shapes={"x": {0: Dim("b", max=99)}})
    assert code_of(made) == code_of(want)
    assert {str(k): str(v) for k, v in made.range_constraints.items()} == {
        str(k): str(v) for k, v in want.range_constraints.items()
    }
    for n in (2, 5, 17):
        x = torch.randn(n, 4)
        torch.testing.assert_close(made.module()(x), module(x))
        torch.testing.assert_close(reloaded(made, tmp_path).module()(x), module(x))


class Checked(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        n = x.item()
        torch._check(n >= 2)
        torch._check(n <= 5)
        return torch.full((n, 1), 1)


def test_a_checked_number_of_data(tmp_path: pathlib.Path) -> None:
    args = (torch.tensor([3]),)
    made = export(Checked(), args)
    assert flat(made) == flat(torch.export.export(Checked(), args))
    for run in (made.module(), reloaded(made, tmp_path).module()):
        assert run(torch.tensor([5])).shape == (5, 1)
        with pytest.raises(RuntimeError, match="Runtime assertion failed for expression u0 <= 5"):
            run(torch.tensor([6]))


class Joined(torch.nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return torch.cat([x, x[1:]]) + y


def test_derived_dimensions(tmp_path: pathlib.Path) -> None:
    dim = Dim("n", min=1)
    made = export(
        Joined(), (torch.ones(4), torch.ones(7)), dynamic_shapes=({0: dim}, {0: 2 * dim - 1})
    )
    assert [str(n.meta["val"].shape[0]) for n in made.graph.find_nodes(op="placeholder")] == [
        "s77",
        "2*s77 - 1",
    ]
    for run in (made.module(), reloaded(made, tmp_path).module()):
        args = (torch.ones(6), torch.ones(11))
        torch.testing.assert_close(run(*args), Joined()(*args))
        with pytest.raises(AssertionError, match="Guard failed"):
            run(torch.ones(6), torch.ones(12))
    with pytest.raises(ValueError, match="Constraints violated"):
        wrong = ({0: dim}, {0: dim + 3})
        export(Joined(), (torch.ones(4), torch.ones(7)), dynamic_shapes=wrong)


# -- Arguments and results


@dataclasses.dataclass
class Parts:
    first: Any
    second: Any


torch.export.register_dataclass(Parts, serialized_type_name="test_export_live.Parts")
Pair = collections.namedtuple("Pair", ["a", "b"])


class Mixture(torch.nn.Module):
    def forward(
        self, parts: Any, pair: Any, n: int, how: str, *rest: Any, flag: bool, **more: Any
    ) -> Any:
        out = {"sum": parts.first + pair.a * n, "none": None, "n": [n, pair.b]}
        if flag and how == "all":
            out["rest"] = (rest[0] + more["last"], Parts(parts.second, pair.a + 1))
        return Pair(out, 1.5)


def test_arguments_that_are_no_tensors() -> None:
    args = (
        Parts(torch.ones(2), torch.zeros(3)), Pair(torch.ones(2), torch.ones(1)), 3, "all",
        torch.ones(1),
    )  # fmt: skip
    kwargs = {"flag": True, "last": torch.ones(1)}
    made = export(Mixture(), args, kwargs)
    want = torch.export.export(Mixture(), args, kwargs)
    assert str(made.graph_signature).split() == str(want.graph_signature).split()
    found, wanted = made.module()(*args, **kwargs), Mixture()(*args, **kwargs)
    assert type(found) is Pair and isinstance(found.a["rest"][1], Parts)
    torch.testing.assert_close(found.a["sum"], wanted.a["sum"])
    torch.testing.assert_close(found.a["rest"][1].second, wanted.a["rest"][1].second)
    assert found.b == 1.5 and found.a["none"] is None and found.a["n"][0] == 3
    with pytest.raises(AssertionError, match="Guard failed"):
        made.module()(*args[:2], 4, *args[3:], **kwargs)


class Repeats(torch.nn.Module):
    def forward(self, x: Any, n: int) -> Any:
        return x + n, torch.ones(n)


def test_an_int_that_varies(tmp_path: pathlib.Path) -> None:
    made = export(Repeats(), (torch.ones(2), 4), dynamic_shapes={"x": None, "n": Dim.DYNAMIC})
    for run in (made.module(), reloaded(made, tmp_path).module()):
        torch.testing.assert_close(run(torch.ones(2), 7), Repeats()(torch.ones(2), 7))


class Writes(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(3))
        self.register_buffer("temporary", torch.zeros(3), persistent=False)

    def forward(self, x: Any) -> Any:
        x.add_(1)
        self.kept = self.kept + x
        self.temporary.add_(x)
        return self.kept + self.temporary


def test_what_is_written_to_stays_as_it_was(tmp_path: pathlib.Path) -> None:
    module, x = Writes(), torch.ones(3)
    kept = module.kept
    made = export(module, (x,))
    assert module.kept is kept and not kept.any() and not module.temporary.any()
    assert x.tolist() == [1, 1, 1]
    assert flat(made) == flat(torch.export.export(Writes(), (torch.ones(3),)))
    assert list(made.state_dict) == ["kept"] and list(made.constants) == ["temporary"]
    torch.testing.assert_close(
        reloaded(made, tmp_path).module()(torch.ones(3)), Writes()(torch.ones(3))
    )


class Twice(torch.nn.Module):
    def forward(self, x: Any, *rest: Any) -> Any:
        return x.view(x.shape[0], 1), [r + 1 for r in rest]


def test_a_shared_dim_is_called_by_its_last_size() -> None:
    args = tuple(torch.randn(3) for _ in range(3))

    def shapes(module: Any) -> Any:
        size = module.Dim("n", max=9)
        return {"x": {0: size}, "rest": ({0: size}, {0: size})}

    made = export(Twice(), args, dynamic_shapes=shapes(rushlight.export))
    want = torch.export.export(Twice(), args, dynamic_shapes=shapes(torch.export))
    assert str(made.range_constraints) == str(want.range_constraints)


class Decomposed(torch.nn.Module):
    """What decompositions drop or put in place: constants, dead code, regions, a new buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("sum", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        x.sin()
        self.sum = self.sum + x[0]
        y = self.norm(x) + torch.tensor([1.0, 2.0, 3.0])
        with torch.no_grad():
            y = y * 2
            with torch.enable_grad():
                y = y - 1
            torch.zeros(3)
        return y.max(1).values, torch.rand(3)


@pytest.mark.parametrize("is_default", [False, True])
@pytest.mark.parametrize("is_training", [False, True])
def test_decompositions_are_torchs(
    is_default: bool, is_training: bool, tmp_path: pathlib.Path
) -> None:
    module, args = Decomposed().train(is_training), (torch.randn(4, 3),)
    table = () if is_default else ({},)
    made = export(module, args).run_decompositions(*table)
    want = torch.export.export(module, args).run_decompositions(*table)

    def rows(program: Any, is_input: bool) -> list[tuple[str, str]]:
        nodes = [n for n in program.graph.nodes if (n.op == "placeholder") == is_input]
        return [(n.name, str(n.target)) for n in nodes]

    assert rows(made, False) == rows(want, False)
    assert sorted(rows(made, True)) == sorted(rows(want, True))  # torch puts constants elsewhere
    torch.testing.assert_close(reloaded(made, tmp_path).module()(*args)[0], module(*args)[0])


def test_torch_is_left_as_it_was() -> None:
    """A method of torch.Tensor that was replaced once may leave it a sequence for ever: traces of
    torch.tensor([size, ...]) failed after an export."""

    class Scaled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            h, w = x.shape[-2:]
            return x / torch.tensor([w - 1.0, h - 1.0])[0]

    before = dict(vars(torch.Tensor))
    export(torch.nn.ReLU(), (torch.randn(2),))
    assert dict(vars(torch.Tensor)) == before
    x = torch.randn(2, 3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(Scaled(), (x,), check_trace=False)
    torch.testing.assert_close(traced(x), x / 3)


def test_a_root_of_a_size() -> None:
    """It was forgotten: sqrt(float(n)) was float(n)."""

    class Scaled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x / torch.sym_sqrt(x.shape[0])

    program = export(Scaled(), (torch.ones(16, 4),), dynamic_shapes=({0: Dim("n")},))
    assert torch.equal(program.module()(torch.ones(9, 4)), torch.full((9, 4), 1 / 3))


def test_scan_of_nested_values() -> None:
    from torch._higher_order_ops.scan import scan

    class Scan(torch.nn.Module):
        def forward(self, init: Any, xs: Any) -> Any:
            def step(carry: Any, x: Any) -> Any:
                return {"a": carry["a"] + x[0]["m"]}, (x[0]["m"] + 1, x[0]["n"] * 2)

            return scan(step, init, xs)

    args = {"a": torch.zeros(3)}, ({"m": torch.ones(4, 3), "n": torch.ones(4, 3)},)
    found = export(Scan(), args).module()(*args)
    torch.testing.assert_close(found, Scan()(*args))


def test_code_that_asks_whether_fx_traces() -> None:
    """It took the other branch than with torch.export."""

    class Asking(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x + y if torch.fx._symbolic_trace.is_fx_tracing() else x * y

    args = collections.namedtuple("Args", "x y")(torch.ones(3) * 2, torch.ones(3) * 3)
    found = export(Asking(), args).module()(*args)
    theirs = torch.export.export(Asking(), args, strict=False).module()(*args)
    assert torch.equal(found, theirs) and found.tolist() == [5.0] * 3
    assert not torch.fx._symbolic_trace.is_fx_tracing()
