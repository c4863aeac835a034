"""rushlight.export in torch.export's place: torch's own Dims, files, names, regions."""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Callable
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


# -- Files


@dataclasses.dataclass
class Rows:
    first: Any
    second: Any


torch.export.register_dataclass(Rows, serialized_type_name="as_torch.Rows")


class OfClass(torch.nn.Module):
    def forward(self, rows: Any, scale: Any) -> Any:
        return Rows(rows.first @ rows.second, scale.mT)


def test_torch_opens_a_program_whose_example_has_a_class() -> None:
    args = (Rows(torch.randn(2, 3), torch.randn(3, 2)), torch.randn(2, 3))
    ours, theirs = pair(OfClass(), args)
    assert code(ours) == code(theirs)  # .mT is m_t in names
    for program in (ours, ours.run_decompositions()):
        opened = reopened(program)
        found, wanted = opened.module()(*args), OfClass()(*args)
        assert opened.example_inputs is None
        assert torch.equal(found.first, wanted.first) and torch.equal(found.second, wanted.second)


class Dense(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x.to_dense() + 1


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_arguments(layout: Any) -> None:
    x = torch.eye(3).to_sparse(layout=layout)
    program = export.export(Dense(), (x,))
    for made in (program, program.run_decompositions()):
        opened = reopened(made)
        assert opened.example_inputs[0][0].layout == layout
        assert torch.equal(opened.example_inputs[0][0].to_dense(), torch.eye(3))
        assert torch.equal(made.module()(x), torch.eye(3) + 1)
        assert torch.equal(opened.module()(x), torch.eye(3) + 1)


class Answers(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x.sum().item() > 2


class Texts(torch.nn.Module):
    def forward(self, x: Any, name: str) -> Any:
        return x + 1, name


def test_results_that_files_cannot_have() -> None:
    """They are results of the program, as in torch; torch writes no file, or none that it reads."""
    x = torch.ones(3)
    for module, args, wanted, what in (
        (Answers(), (x,), True, "a bool that is known only when it runs"),
        (Texts(), (x, "it"), "it", "a text"),
    ):
        program = export.export(module, args)
        found = program.module()(*args)
        assert (found[1] if isinstance(found, tuple) else found) == wanted
        message = f"returns {what}, which PyTorch does not open in a .pt2"
        with pytest.raises(NotImplementedError, match=message) as caught:
            export.save(program, io.BytesIO())
        assert what == "a text" or "in forward\n    return x.sum().item() > 2" in str(caught.value)


# -- Ranges of numbers


class Ranged(torch.nn.Module):
    def __init__(self, states: Callable[[Any], None]) -> None:
        super().__init__()
        self.states = states

    def forward(self, x: Any) -> Any:
        n = x.item()
        self.states(n)
        return x * n


@pytest.mark.parametrize(
    "states",
    [
        lambda n: torch._constrain_as_size(n, min=2, max=9),
        lambda n: torch.sym_constrain_range(n, min=2, max=9),
        lambda n: torch.sym_constrain_range_for_size(n, max=9),
    ],
)
def test_stated_ranges_are_checked(states: Any) -> None:
    ours, theirs = pair(Ranged(states), (torch.tensor(3),))
    assert code(ours) == code(theirs)
    for n in (11, -1):
        with pytest.raises(RuntimeError, match="Runtime assertion failed for expression u0"):
            ours.module()(torch.tensor(n))


# -- Places


def wrapped(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def call(*args: Any) -> Any:
        return f(*args) + 1

    return call


class Wrapped(torch.nn.Module):
    @wrapped
    def forward(self, x: Any) -> Any:
        return x * 2


class Around(torch.nn.Module):
    forward = wrapped(lambda self, x: x * 2)  # no function of that name


@pytest.mark.parametrize("module", [Wrapped(), Around()])
def test_only_lines_of_forward_are_places(module: Any) -> None:
    ours, theirs = pair(module, (torch.ones(2),))
    assert str(ours) == str(theirs)


# -- Regions


class InARow(torch.nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ y
            with torch.autocast("cpu", enabled=False):
                b = y @ x
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    c = b @ x
            d = a @ y
            with torch.autocast("cpu", enabled=False):
                e = x @ x
        with torch.autocast("cpu", dtype=torch.bfloat16):
            f = e @ y
        return a, b, c, d, e, f


class Mixed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x: Any, y: Any) -> Any:
        with torch.no_grad():
            a = self.linear(x) + 1
        with torch.autocast("cpu", dtype=torch.bfloat16):
            e = a @ y
            with torch.no_grad():
                g = e * x
            with torch.autocast("cpu", enabled=False):
                f = e.float() @ (x + y)
                with torch.no_grad():
                    i = f * x
            h = g @ y
        return e, f, g, h, i


def test_regions_of_autocast_are_torchs() -> None:
    ours, theirs = pair(InARow(), (torch.ones(2, 2), torch.ones(2, 2)))
    assert code(ours) == code(theirs)


def test_regions_of_two_kinds_inside_of_each_other() -> None:
    module, args = Mixed(), (torch.randn(2, 2), torch.randn(2, 2))
    program = export.export(module, args)
    program.validate()
    for found in (program.module()(*args), reopened(program).module()(*args)):
        for x, y in zip(found, module(*args), strict=True):
            assert x.dtype == y.dtype and torch.allclose(x, y, 1e-2, 1e-2)


class Branching(torch.nn.Module):
    def __init__(self, reads: str) -> None:
        super().__init__()
        self.reads = reads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        operands = (x * 2.0, x.sin(), x.cos())
        if self.reads == "none":
            return torch.cond(x.sum() > 0, lambda *_: x + 1.0, lambda *_: x - 1.0, operands)
        if self.reads == "one":
            return torch.cond(
                x.sum() > 0, lambda a, b, c: b + 1.0, lambda a, b, c: b - 1.0, operands
            )
        return torch.cond(x.sum() > 0, lambda a, b, c: a + c, lambda a, b, c: c - b, operands)


@pytest.mark.parametrize("reads", ["none", "one", "all"])
def test_operands_that_no_branch_reads_are_left_out(reads: str) -> None:
    x = torch.randn(3, 5)
    ours, theirs = pair(Branching(reads), (x,))
    assert code(ours) == code(theirs)
    for given in (x.abs(), -x.abs()):
        torch.testing.assert_close(ours.module()(given), theirs.module()(given))


@pytest.mark.parametrize("given", [torch.float32, torch.float64, torch.int64])
def test_the_default_dtype_is_torchs(given: torch.dtype) -> None:
    class Made(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x / 2 + torch.ones(3) * torch.zeros(2, 1) + torch.arange(3) * 0.5

    torch.set_default_dtype(torch.float64)
    try:
        ours, theirs = pair(Made(), (torch.ones(2, 3).to(given),))
    finally:
        torch.set_default_dtype(torch.float32)
    assert str(ours) == str(theirs)
