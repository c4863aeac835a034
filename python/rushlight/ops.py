"""Single operators: `rushlight.ops.aten.add(x, y)`, `rushlight.ops.aten.add.Tensor(x, y)`."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _rushlight

if TYPE_CHECKING:
    import inspect

    from ._rushlight import Tensor


class Operator:
    """All overloads of one operator; attributes are single overloads."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _lines(self) -> list[str]:
        """Return the schemas of the overloads that this calls."""
        lines = _rushlight.operator_schemas(self._name.partition(".")[0]).splitlines()
        return [
            line for line in lines if "." not in self._name or line.startswith(f"{self._name}(")
        ]

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        from . import methods

        return methods.document(self._name, self._lines(), 0)

    @property
    def __signature__(self) -> inspect.Signature:
        from . import methods

        lines = self._lines()
        if not lines:
            raise AttributeError("__signature__")
        return methods.signature([methods.Overload(line) for line in lines], False)

    def __dir__(self) -> list[str]:
        heads = (line.partition("(")[0].partition(".")[2] for line in self._lines())
        return ["default" if name == "" else name for name in heads]

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
        """Return the operator, or None."""
        if not _rushlight.has_operator(f"{self._name}::{name}"):
            return None
        operator = Operator(f"{self._name}::{name}")
        setattr(self, name, operator)
        return operator

    def __dir__(self) -> list[str]:
        start = f"{self._name}::"
        lines = (
            line for line in _rushlight.operator_schemas().splitlines() if line.startswith(start)
        )
        return [
            "find",
            *dict.fromkeys(re.split(r"[.(]", line[len(start) :], maxsplit=1)[0] for line in lines),
        ]

    def __getattr__(self, name: str) -> Operator:
        operator = self.find(name)
        if operator is None:
            raise AttributeError(f"there is no operator {self._name}::{name}")
        return operator


class Formula:
    """The gradient of one or several arguments of an operator: a function of the operator table.

    `inputs` are the arguments, `takes` the names of the formula's parameters: `grad` (`grad0`,
    `grad1`...) is the gradient of the result (of each), `result` the result, `needs` a list of
    bools for the inputs that are wanted, `self_sizes` the sizes of an argument, everything else an
    argument.
    """

    def __init__(self, name: str, index: int, inputs: str, takes: str) -> None:
        self._name = name
        self._index = index
        self.inputs = tuple(inputs.split())
        self.takes = tuple(takes.split())

    def __call__(self, values: dict[str, Any]) -> tuple[Any, ...]:
        """Return a gradient for each of `inputs`; their sizes and dtypes are taken from
        `values`."""
        given = tuple(values[name] for name in self.takes)
        return _rushlight.call_gradient(
            self._name, self._index, given, tuple(values.get(name) for name in self.inputs)
        )

    def __repr__(self) -> str:
        return f"<gradient of {self._name} for {', '.join(self.inputs)}>"


def gradient(name: str) -> dict[str, Formula]:
    """Return the formulas of "aten::mul.Tensor" by argument; empty if the table has none."""
    found = {}
    for index, (inputs, takes) in enumerate(_rushlight.gradients(name)):
        formula = Formula(name, index, inputs, takes)
        found.update(dict.fromkeys(formula.inputs, formula))
    return found


if TYPE_CHECKING:
    from ._operators import Aten, Prim, Quantized, Torchvision

aten: Aten = Namespace("aten")  # type: ignore[assignment]
prim: Prim = Namespace("prim")  # type: ignore[assignment]
quantized: Quantized = Namespace("quantized")  # type: ignore[assignment]
torchvision: Torchvision = Namespace("torchvision")  # type: ignore[assignment]


# -- Shapes
# --------------------------------------------------------------------------------------------------


class ResultShape(NamedTuple):
    """The description of one result tensor; -1 is a size that depends on data."""

    result: int  # which of the operator's results; the tensors of a list have the same number
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: Any
    alias: int | None  # the argument whose memory it shares
    is_argument: bool  # it is that argument itself
    formulas: tuple[list[str], list[str], str] | None = (
        None  # sizes, strides, offset; symbolic only
    )


class Shapes(NamedTuple):
    """The result of `shape`."""

    operator: str
    rule: str
    results: list[ResultShape]
    guards: list[str]  # the formulas hold where all of these do
    symbols: dict[
        str, tuple[int | None, int, int | None]
    ]  # name -> value in this call, least, largest


_DTYPES = {d.number: d for d in vars(_rushlight).values() if isinstance(d, _rushlight.dtype)}


def shape(name: str, *args: Any, symbolic: bool = False, **kwargs: Any) -> Shapes:
    """Describe the results of an operator without running it: `shape("aten::mm", a, b)`.

    `symbolic`: sizes of tensor arguments larger than 1 are treated as unknown (s0, s1 ..., equal
    ones as equal); the results then have formulas, which hold under the guards. Raises
    NotImplementedError if there is no rule.
    """
    operator, rule, results, guards, symbols = _rushlight.operator_shape(
        name, symbolic, *args, **kwargs
    )
    found = [
        ResultShape(
            r[0],
            tuple(r[1]),
            tuple(r[2]),
            r[3],
            _DTYPES.get(r[4]),
            None if r[5] < 0 else r[5],
            r[6],
            r[7:] or None,
        )
        for r in results
    ]
    return Shapes(operator, rule, found, guards, {s[0]: tuple(s[1:]) for s in symbols})


#: The paths of the libraries that load_library opened.
loaded_libraries: set[str] = set()


def load_library(path: str | os.PathLike[str]) -> None:
    """Open a shared object and let it register its operators and passes (rushlight/backend.h); a
    second time does nothing.

    Its code runs in the process. Programs find its operators if they are compiled after this call.
    """
    real = os.path.realpath(path)
    if real in loaded_libraries:
        return
    _rushlight.load_plugin(real)
    loaded_libraries.add(real)


def __getattr__(name: str) -> Namespace:
    if name.startswith("__"):
        raise AttributeError(name)
    return Namespace(name)


def tensor_method(self: Tensor, name: str) -> Any:
    """Return `x.name` for an operator that is not in the table but registered from outside."""
    operator = aten.find(name)
    if operator is None:
        raise AttributeError(
            f"'Tensor' has no attribute '{name}', and there is no operator aten::{name}"
        )
    return lambda *args, **kwargs: operator(self, *args, **kwargs)
