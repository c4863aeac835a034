"""rushlight.export.export of torch's modules and of ours, compared with torch.export."""

from __future__ import annotations

import pathlib
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
    assert "size()[0] >= 4" in str(error.value)
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


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": {0: Dim("b")}}, "no argument 'z'"),
        (({0: Dim("b")}, {}), "expected 1 items, got 2"),
        ({"x": {3: Dim("b")}}, "it has 1 dimensions"),
        ({"x": {0: 7}}, "is 5 in the example, not 7"),
        ({"x": {0: Dim("b", min=6, max=9)}}, "in the range"),
    ],
)
def test_wrong_shapes_are_refused(shapes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        export(Decides(), (torch.ones(5),), dynamic_shapes=shapes)


def test_arguments_are_a_tuple() -> None:
    with pytest.raises(TypeError, match="to be a tuple of example positional inputs"):
        export(Decides(), torch.ones(5))  # type: ignore[arg-type]


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
