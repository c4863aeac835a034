"""rushlight.export in torch.export's place: torch's own Dims, what torch opens, names and regions."""

from __future__ import annotations

import io
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from rushlight import export  # noqa: E402


def pair(module: Any, args: tuple[Any, ...], **options: Any) -> tuple[Any, Any]:
    """Return the programs of Rushlight and of torch."""
    theirs = torch.export.export(module, args, strict=False, **options)
    return export.export(module, args, **options), theirs


def reopened(program: Any) -> Any:
    """Write a program and let torch read it."""
    file = io.BytesIO()
    export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def code(program: Any) -> list[str]:
    """The text of a program without places."""
    lines = (line for line in str(program).splitlines() if line.strip())
    return [line for line in lines if not line.strip().startswith("#")]


# -- Dims


class Sums(torch.nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return x + y[: x.shape[0]]


ROWS = (torch.ones(3, 2), torch.ones(6, 2))


def shape_specs(module: Any) -> list[Any]:
    dim = module.Dim("rows", min=2, max=9)
    auto, static = module.Dim.AUTO, module.Dim.STATIC
    return [
        {"x": {0: dim}, "y": {0: 2 * dim}},
        ({0: auto}, {0: auto(min=3)}),
        {"x": (dim, static), "y": (2 * dim, 2)},
        None,
    ]


@pytest.mark.parametrize("at", range(4))
def test_dims_of_torch_are_taken(at: int) -> None:
    ours, theirs = pair(Sums(), ROWS, dynamic_shapes=shape_specs(torch.export)[at])
    own = export.export(Sums(), ROWS, dynamic_shapes=shape_specs(export)[at])
    assert str(ours) == str(theirs) and str(own.range_constraints) == str(ours.range_constraints)


def test_collections_of_torch_are_taken() -> None:
    shapes = torch.export.ShapesCollection()
    shapes[ROWS[0]] = {0: torch.export.Dim.AUTO}
    shapes[ROWS[1]] = {0: torch.export.Dim.AUTO}
    examples = torch.export.AdditionalInputs()
    examples.add((torch.ones(4, 2), torch.ones(8, 2)))
    for given in (shapes, examples):
        found = export.export(Sums(), ROWS, dynamic_shapes=given)
        assert [str(key) for key in found.range_constraints] == ["s77", "s17"]
