"""The targets of nodes: operators, higher-order operators, and Python's functions on numbers.

`OpOverload` has torch's texts: `str` is "aten.add.Tensor". It is equal to torch's object and to
`rushlight.ops.aten.add.Tensor`, and can be called. There is one object for each name.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable
from typing import Any

from .. import _rushlight

_OPS = "torch.ops."
_HIGHER_ORDER = "torch.ops.higher_order."


class OpOverload:
    """One overload of an operator, the target of most nodes."""

    def __init__(self, namespace: str, name: str, overload: str) -> None:
        self.namespace = namespace
        self._opname, self._overloadname = name, overload
        self.__name__ = f"{name}.{overload}"
        self.__qualname__ = self.__name__
        self.__module__ = f"torch.ops.{namespace}"

    def name(self) -> str:
        """Return the name in schemas: "aten::add.Tensor", "aten::relu"."""
        start = f"{self.namespace}::{self._opname}"
        return start if self._overloadname == "default" else f"{start}.{self._overloadname}"

    @property
    def schema(self) -> str | None:
        """The operator's schema as text; None: Rushlight does not know it."""
        lines = _rushlight.operator_schemas(f"{self.namespace}::{self._opname}").splitlines()
        return next((line for line in lines if line.startswith(f"{self.name()}(")), None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _rushlight.call_operator(self.name(), *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        name = getattr(other, "name", None) if hasattr(other, "_overloadname") else None
        found = name() if callable(name) else getattr(other, "_name", None)
        return isinstance(found, str) and found == self.name()

    def __hash__(self) -> int:
        return hash(self.name())

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        op = f"{self.namespace}.{self._opname}"
        return f"<OpOverload(op='{op}', overload='{self._overloadname}')>"


class HigherOrderOperator:
    """An operator whose arguments are graphs: cond, while_loop, map_impl, scan ..."""

    namespace = "higher_order"
    __module__ = "torch.ops.higher_order"

    def __init__(self, name: str) -> None:
        self._name = self.__name__ = name

    def name(self) -> str:
        """Return the name: "cond"."""
        return self._name

    def __eq__(self, other: object) -> bool:
        return str(other) == self._name and hasattr(other, "name")

    def __hash__(self) -> int:
        return hash(self._name)

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<HigherOrderOperator {self._name}>"


class PythonFunction:
    """A function of torch on symbolic numbers, `torch.sym_float`, or one that torch uses itself."""

    def __init__(self, module: str, name: str) -> None:
        self.__module__, self.__name__ = module, name

    def __call__(self, *args: Any) -> Any:
        compute = _FUNCTIONS.get(self.__name__)
        if compute is None:
            raise NotImplementedError(
                f"{self.__module__}.{self.__name__} is known by its name only: run the program "
                "with module()"
            )
        return compute(*args)

    def __repr__(self) -> str:
        return f"<function {self.__name__}>"


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sym_float": float,
    "sym_int": int,
    "sym_max": max,
    "sym_min": min,
    "sym_not": operator.not_,
    "sym_ite": lambda condition, a, b: a if condition else b,
    "sym_sum": sum,
    "_sym_sqrt": math.sqrt,
}
_MODULES = {"_operator": operator, "operator": operator, "math": math, "builtins": None}


@functools.lru_cache(maxsize=1 << 14)  # a file chooses the texts
def target_of(text: str) -> Any:
    """Return the object for the target of a call: "torch.ops.aten.add.Tensor", "_operator.mul"."""
    if text.startswith(_HIGHER_ORDER):
        return HigherOrderOperator(text[len(_HIGHER_ORDER) :])
    if text.startswith(_OPS):
        parts = text[len(_OPS) :].split(".")
        if len(parts) in (2, 3):
            return OpOverload(parts[0], parts[1], parts[2] if len(parts) == 3 else "default")
    module, _, name = text.rpartition(".")
    if module in _MODULES and hasattr(_MODULES[module], name):
        return getattr(_MODULES[module], name)
    return PythonFunction(module, name)


def torch_target(target: Any) -> Any:
    """Return torch's object for a target if torch is imported, otherwise the target."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(target, OpOverload):
        return target
    packet = getattr(getattr(torch.ops, target.namespace), target._opname)
    return getattr(packet, target._overloadname)
