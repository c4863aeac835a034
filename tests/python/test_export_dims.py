"""Dim, dims, ShapesCollection, AdditionalInputs: as torch.export's, and with the same errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import rushlight
from conftest import DATA
from rushlight import export

try:
    import torch
    import torch.export.dynamic_shapes
except ImportError:
    MODULES: list[Any] = [export]
else:
    MODULES = [export, torch.export]


def outcome(code: Callable[[Any], Any], module: Any) -> str:
    try:
        return repr(code(module)).replace("rushlight.export", "torch.export")
    except Exception as error:
        text = str(error).replace("rushlight.export", "torch.export")
        return f"{type(error).__name__}: {text}"


X = object()
CODES: dict[str, Callable[[Any], Any]] = {
    "plain": lambda e: e.Dim("x"),
    "range": lambda e: (e.Dim("x", min=3), e.Dim("x", max=9), e.Dim("x", min=2, max=9)),
    "bounds": lambda e: (e.Dim("x").min, e.Dim("x").max, e.Dim("x", max=7).max),
    "no_range": lambda e: e.Dim("x", min=4, max=4),
    "no_name": lambda e: e.Dim("x y"),
    "name": lambda e: e.Dim("rows").__name__,
    "sums": lambda e: [e.Dim("x") + 1, 1 + e.Dim("x"), e.Dim("x") - 2, e.Dim("x") + 0],
    "products": lambda e: [e.Dim("x") * 2, 3 * e.Dim("x"), e.Dim("x") * 1],
    "nested": lambda e: [2 * e.Dim("x") + 1, 2 * (e.Dim("x") + 1), (2 * e.Dim("x") - 1) * 3 + 4],
    "derived_range": lambda e: [
        (d.min, d.max, d.root.__name__, d.fn(5)) for d in [2 * e.Dim("x", min=1, max=4) + 1]
    ],
    "derived_open": lambda e: (e.Dim("x") * 2 + 3).max,
    "derived_negative": lambda e: (e.Dim("x", min=1) - 2).min,
    "derived_large": lambda e: (e.Dim("x", max=2**62) * 4).max,
    "add_text": lambda e: e.Dim("x") + "1",
    "add_dim": lambda e: e.Dim("x") + e.Dim("y"),
    "subtract_float": lambda e: e.Dim("x") - 1.5,
    "negate": lambda e: 1 - e.Dim("x"),
    "multiply_zero": lambda e: e.Dim("x") * 0,
    "multiply_negative": lambda e: -1 * e.Dim("x"),
    "dims": lambda e: e.dims("a", "b", min=1, max=5),
    "dims_bad": lambda e: e.dims("a", "1"),
    "hints": lambda e: (e.Dim.AUTO, e.Dim.STATIC, e.Dim.DYNAMIC),
    "hint_range": lambda e: (e.Dim.AUTO(min=2), e.Dim.DYNAMIC(max=64), e.Dim.STATIC(min=1, max=2)),
    "hint_twice": lambda e: e.Dim.AUTO(min=2)(max=3),
    "hint_negative": lambda e: e.Dim.AUTO(min=-1),
    "hint_empty": lambda e: e.Dim.AUTO(min=3, max=2),
    "hints_equal": lambda e: e.Dim.AUTO == e.Dim.AUTO and e.Dim.AUTO(min=2) != e.Dim.AUTO,
    "shape_of_no_tensor": lambda e: e.ShapesCollection().__setitem__(3, {}),
    "example_list": lambda e: e.AdditionalInputs().add([1]),
    "example_kwargs": lambda e: e.AdditionalInputs().add((1,), [2]),
}


@pytest.mark.skipif(len(MODULES) == 1, reason="needs torch")
@pytest.mark.parametrize("name", CODES)
def test_as_torch(name: str) -> None:
    ours, theirs = (outcome(CODES[name], module) for module in MODULES)
    assert ours == theirs


def test_without_torch() -> None:
    x = export.Dim("x", min=1, max=4)
    assert repr(x) == "Dim('x', min=1, max=4)" and repr(2 * (x + 1) - 3) == "2*x - 1"
    assert ((2 * x + 1).min, (2 * x + 1).max) == (3, 9)
    assert repr(export.Dim("y").max) == "int_oo"


def model(x: Any, y: Any, n: int = 2) -> None:
    pass


@dataclasses.dataclass
class Pair:
    a: Any
    b: Any


export.register_dataclass(Pair)


def tensors(module: Any) -> Any:
    return rushlight.zeros if module is export else torch.zeros


@pytest.mark.parametrize("module", MODULES)
def test_shapes_collection(module: Any) -> None:
    make = tensors(module)
    a, b, c = make(2), make(3), make(4)
    shapes = module.ShapesCollection()
    shapes[a] = {0: "a"}
    shapes[b][0] = "b"
    assert len(shapes) == 2 and shapes[a] == {0: "a"}
    found = shapes.dynamic_shapes(model, (a, {"k": [b, c]}))
    assert found == {"x": {0: "a"}, "y": {"k": [{0: "b"}, None]}}
    with pytest.raises(AssertionError, match="Shapes assigned to input do not match"):
        shapes[a] = {0: "z"}
    with pytest.raises(ValueError, match="Some tensors that were assigned shapes were not found"):
        shapes.dynamic_shapes(model, (a, c))


def test_registered_classes_become_lists() -> None:
    a, b = rushlight.zeros(2), rushlight.zeros(3)
    shapes = export.ShapesCollection()
    shapes[b] = {0: "b"}
    assert shapes.dynamic_shapes(model, (a,), {"y": Pair(a, b)}) == {
        "x": None,
        "y": [None, {0: "b"}],
    }


@pytest.mark.parametrize("module", MODULES)
def test_additional_inputs(module: Any) -> None:
    make = tensors(module)
    inputs = module.AdditionalInputs()
    inputs.add((make(2, 5), [make(3)], 7))
    inputs.add((make(4, 5), [make(3)]), {"n": 7})
    found = inputs.dynamic_shapes(model, (make(2, 5), [make(3)], 7))
    assert found["y"] == [(None,)] and found["n"] is None
    assert repr(found["x"]) == "(DimHint(DYNAMIC), None)"
    inputs.add((make(2, 5), [make(3)], 8))
    found = inputs.dynamic_shapes(model, (make(2, 5), [make(3)], 7))
    assert repr(found["n"]) == "DimHint(DYNAMIC)"
    inputs.add((make(2, 5), ["text"], 8))
    with pytest.raises(ValueError):
        inputs.dynamic_shapes(model, (make(2, 5), [make(3)], 7))


def test_examples_are_verified() -> None:
    """With PyTorch's words; PyTorch itself fails for a constant with an apostrophe in it."""
    module, make = export, rushlight.zeros
    program = module.load(DATA / "exported.pt2")
    text = {"shift": make(3), "name": "it's"}
    inputs = module.AdditionalInputs()
    inputs.add((make(64, 4),), text)
    inputs.verify(program)
    for args, kwargs, message in (
        ((make(65, 4),), text, r"Expected input at \*args\[0\].shape\[0\] to be <= 64, but got 65"),
        ((make(5, 3),), text, r"at \*args\[0\].shape\[1\] to be equal to 4, but got 3. If you"),
        ((make(5),), text, r"Unexpected number of dimensions in input at \*args\[0\].shape"),
        ((make(5, 4),), {**text, "shift": 1}, "Expected input at 'shift' to be a tensor"),
        ((make(5, 4),), {**text, "name": "is"}, "Expected input at 'name' to be equal to it's"),
    ):
        inputs = module.AdditionalInputs()
        inputs.add(args, kwargs)
        with pytest.raises(RuntimeError, match=message):
            inputs.verify(program)
