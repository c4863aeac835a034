"""The operators of rushlight.export.export are torch.export's, in its order: modes inside of modes,
constants of the code, synonyms, conversions, indices."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from rushlight.export import export, save  # noqa: E402


def operators(program: Any) -> Iterator[str]:
    """Yield what a torch.fx.GraphModule calls, graphs inside after the call that has them."""
    for node in program.graph.nodes:
        if node.op == "call_function":
            yield str(node.target)
            for used in node.all_input_nodes:
                inner = getattr(program, used.target, None) if used.op == "get_attr" else None
                yield from operators(inner) if isinstance(inner, torch.fx.GraphModule) else ()


class ModesInModes(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            y = x * 2
            with torch.autocast("cpu", enabled=False):
                z = (y + x).relu()
            w = z - 1
        return x + w, z


class Constants(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        scale, flag, start = torch.tensor([1.0, 2.0, 3.0]), torch.tensor(3), torch.tensor(1.0)
        if flag.item() == 3:
            x = x * scale
        y = x.clone()
        y[:, 0] = 1
        return y + start * 2


class Synonyms(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.multiply(x, 2), torch.absolute(x), torch.true_divide(x, 3), torch.arange(3)


class Conversions(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        y = x.to(torch.float64)
        return y.to(x), y.float(), (x > 0) & (x < 1), x.type_as(y)


class Indices(torch.nn.Module):
    """An index of numbers makes no size of data: sizes of what comes out are numbers."""

    def forward(self, x: Any) -> Any:
        y = x[torch.arange(2)]
        return y[:, : y.shape[1]] * y.shape[0], y[[0, 1], None], torch.zeros(y.shape[0])


@pytest.mark.parametrize("cls", [ModesInModes, Constants, Synonyms, Conversions, Indices])
def test_operators_are_torch_exports(tmp_path: pathlib.Path, cls: Any) -> None:
    args = (torch.randn(2, 3),)
    path = str(tmp_path / "program.pt2")
    made = export(cls(), args)
    save(made, path)
    opened, want = torch.export.load(path), torch.export.export(cls(), args)
    assert list(operators(opened.graph_module)) == list(operators(want.graph_module))
    torch.testing.assert_close(opened.module()(*args), cls()(*args))
    torch.testing.assert_close(made.module()(*args), cls()(*args))


class Unused(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            x * 3
        with torch.no_grad():
            self.seen.add_(1)
        with torch.no_grad():
            pass
        return x + 1


def test_regions_without_results(tmp_path: pathlib.Path) -> None:
    """PyTorch makes calls without results of them, and does not open its own file then."""
    path = str(tmp_path / "program.pt2")
    save(export(Unused(), (torch.ones(3),)), path)
    opened = torch.export.load(path)
    assert list(operators(opened.graph_module)) == ["aten.add_.Tensor", "aten.add.Tensor"]
    module = opened.module()
    assert module(torch.ones(3)).tolist() == [2, 2, 2] and module.seen.tolist() == [1, 1, 1]
