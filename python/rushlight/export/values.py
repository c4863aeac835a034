"""What an exported program knows of its values without running: `FakeTensor`, symbolic numbers,
expressions and their ranges.

They are facts, as a file has them: nothing is computed with them. Sizes that depend on inputs are
`SymInt`s, whose text is the expression and whose hint is the value in the example.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..kinds import Size, device, layout
from ..numerics import memory_format


class _IntInfinity(float):
    """No bound of a range of ints; prints as `int_oo`."""

    __slots__ = ()

    def __neg__(self) -> _IntInfinity:
        return _IntInfinity(float.__neg__(self))

    def __repr__(self) -> str:
        return "int_oo" if self > 0 else "-int_oo"


int_oo = _IntInfinity("inf")


class Expression(str):
    """An expression over symbols, `2*s77 + 1`; it is its text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str.__str__(self)


class ValueRanges:
    """The least and the largest value of an expression; prints as `VR[2, 64]`."""

    def __init__(self, lower: float, upper: float) -> None:
        self.lower, self.upper = lower, upper

    def __contains__(self, value: float) -> bool:
        return bool(self.lower <= value <= self.upper)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ValueRanges):
            return NotImplemented
        return (self.lower, self.upper) == (other.lower, other.upper)

    def __hash__(self) -> int:
        return hash((self.lower, self.upper))

    def __repr__(self) -> str:
        return f"VR[{self.lower!r}, {self.upper!r}]"


# -- Symbolic numbers
# --------------------------------------------------------------------------------------------


class SymNode(NamedTuple):
    """What a symbolic number stands for: an expression, its hint (None: it depends on data)."""

    expr: Expression
    pytype: type
    hint: Any

    def has_hint(self) -> bool:
        """True if the value in the example is known."""
        return self.hint is not None


class _Symbolic:
    """A number that depends on inputs. Equal ones have the same expression."""

    _pytype: type = int

    def __init__(self, expr: str, hint: Any) -> None:
        self.node = SymNode(Expression(expr), self._pytype, hint)

    def _known(self) -> Any:
        if self.node.hint is None:
            raise ValueError(
                f"{self.node.expr} depends on data: a program that does not run has no value of it"
            )
        return self.node.hint

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.node.expr == self.node.expr  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self.node.expr))

    def __repr__(self) -> str:
        return str(self.node.expr)


class SymInt(_Symbolic):
    """A symbolic int; `int(x)` is its hint, the value in the example."""

    def __int__(self) -> int:
        return int(self._known())

    __index__ = __int__


class SymFloat(_Symbolic):
    """A symbolic float; `float(x)` is its hint."""

    _pytype = float

    def __float__(self) -> float:
        return float(self._known())


class SymBool(_Symbolic):
    """A symbolic bool; `bool(x)` is its hint."""

    _pytype = bool

    def __bool__(self) -> bool:
        return bool(self._known())


_SYMBOLIC: dict[str, type[_Symbolic]] = {"int": SymInt, "float": SymFloat, "bool": SymBool}


# -- Tensors and objects
# -----------------------------------------------------------------------------------------


class FakeTensor:
    """A tensor without elements: what is known of a value before the program runs."""

    def __init__(
        self,
        dtype: Any,
        sizes: list[Any],
        strides: list[Any],
        offset: Any,
        layout_number: int,
        device_name: str,
        requires_grad: bool,
    ) -> None:
        self.dtype = dtype
        self.shape: Any = Size(sizes)
        self.layout = layout(layout_number)
        self.device = device(device_name)
        self.requires_grad = requires_grad
        self._strides, self._offset = tuple(strides), offset

    def size(self, dim: int | None = None) -> Any:
        """Return the sizes, or one of them."""
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        """Return the strides in elements, or one of them."""
        return self._strides if dim is None else self._strides[dim]

    def storage_offset(self) -> Any:
        """Return the position of the first element in its storage."""
        return self._offset

    def dim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def numel(self) -> int:
        """Return the number of elements, in the example if it depends on inputs."""
        n = 1
        for size in self.shape:
            n *= int(size)
        return n

    def __repr__(self) -> str:
        parts = [f"size={tuple(self.shape)}"]
        if self.device != "cpu":
            parts.append(f"device={self.device!r}")
        if str(self.dtype) != "rushlight.float32":
            parts.append(f"dtype={self.dtype}")
        if self.requires_grad:
            parts.append("requires_grad=True")
        return f"FakeTensor(..., {', '.join(parts)})"


class CustomObject(NamedTuple):
    """A custom object of the original program: its name among the constants (None: not known) and
    its class."""

    name: str | None
    class_fqn: str


def leaf(kind: str, value: Any) -> Any:
    """Make the object for what plain Python has none for: the extension's callback."""
    if kind == "symbol":
        number, text, hint = value
        return _SYMBOLIC[number](text, hint)
    if kind == "tensor":
        return FakeTensor(*value)
    if kind == "layout":
        return layout(value)
    if kind == "memory_format":
        return memory_format(value)
    if kind == "device":
        return device(value)
    if kind == "object":
        return CustomObject(*value)
    from .operators import target_of

    return target_of(value)
