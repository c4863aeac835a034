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


aten = Namespace("aten")
prim = Namespace("prim")
quantized = Namespace("quantized")
torchvision = Namespace("torchvision")


def __getattr__(name: str) -> Namespace:
    if name.startswith("__"):
        raise AttributeError(name)
    return Namespace(name)
