"""Single operators: `rushlight.ops.aten.add(x, y)`, `rushlight.ops.aten.add.Tensor(x, y)`."""

from __future__ import annotations

from typing import Any

from . import _rushlight


class Operator:
    """All overloads of one operator; attributes are single overloads."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _rushlight.call_operator(self._name, *args, **kwargs)

    def __getattr__(self, overload: str) -> Operator:
        if overload.startswith("__") or "." in self._name:
            raise AttributeError(overload)
        name = self._name if overload == "default" else f"{self._name}.{overload}"
        if not _rushlight.has_operator(name):
            raise AttributeError(f"{self._name} has no overload '{overload}'")
        operator = Operator(name)
        setattr(self, overload, operator)
        return operator

    def __repr__(self) -> str:
        return f"<operator {self._name}>"


class Namespace:
    """The operators of one namespace, `aten` for instance."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find(self, name: str) -> Operator | None:
        """The operator, or None."""
        if not _rushlight.has_operator(f"{self._name}::{name}"):
            return None
        operator = Operator(f"{self._name}::{name}")
        setattr(self, name, operator)
        return operator

    def __getattr__(self, name: str) -> Operator:
        operator = self.find(name)
        if operator is None:
            raise AttributeError(f"there is no operator {self._name}::{name}")
        return operator


class Formula:
    """The gradient of one or several arguments of an operator: a function of the operator table.

    `inputs` are the arguments, `takes` what the formula is called with, by name: `grad` (`grad0`, `grad1`...) the gradient of
    the result (of each), `result` the result, `needs` a list that says which inputs are wanted, `self_sizes` the sizes of an argument, everything else
    an argument.
    """

    def __init__(self, name: str, index: int, inputs: str, takes: str) -> None:
        self._name = name
        self._index = index
        self.inputs = tuple(inputs.split())
        self.takes = tuple(takes.split())

    def __call__(self, values: dict[str, Any]) -> tuple[Any, ...]:
        """A gradient for each of `inputs`; those among `values` say its sizes and dtype."""
        given = tuple(values[name] for name in self.takes)
        return _rushlight.call_gradient(self._name, self._index, given, tuple(values.get(name) for name in self.inputs))

    def __repr__(self) -> str:
        return f"<gradient of {self._name} for {', '.join(self.inputs)}>"


def gradient(name: str) -> dict[str, Formula]:
    """The formulas of "aten::mul.Tensor" by argument; empty when the table has none."""
    found = {}
    for index, (inputs, takes) in enumerate(_rushlight.gradients(name)):
        formula = Formula(name, index, inputs, takes)
        found.update(dict.fromkeys(formula.inputs, formula))
    return found


aten = Namespace("aten")
prim = Namespace("prim")
quantized = Namespace("quantized")
torchvision = Namespace("torchvision")


def __getattr__(name: str) -> Namespace:
    if name.startswith("__"):
        raise AttributeError(name)
    return Namespace(name)
