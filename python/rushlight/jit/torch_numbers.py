"""Symbolic numbers of an export of torch code: torch.SymInt, SymFloat and SymBool whose nodes are
values of the recorder.

`Number` is such a node: PyTorch calls its methods by the names of its own nodes. Arithmetic records
an operator of TorchScript and computes the number of the example beside it. A number that Python
takes as it is (an `if`, an index, an argument that is no size) is recorded as an assertion without
a text: what the program decided by. torch._check is recorded as one with a text: the program checks
it.
"""

from __future__ import annotations

import dis
import math
import operator
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .torch_trace import Tracer

_CHECK = "Runtime assertion failed"
_SYMBOLIC = {bool: torch.SymBool, int: torch.SymInt, float: torch.SymFloat}
_TYPES = {bool: "bool", int: "int", float: "float"}


def symbolic(tracer: Tracer, value: int, number: Any, has_data: bool = False) -> Any:
    """Return torch's symbolic number for a value of the trace."""
    return _SYMBOLIC[type(number)](Number(tracer, value, number, has_data))


def _is_in_assert() -> bool:
    """True while an `assert` of Python asks: the program checks it, as with torch._check."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename in (__file__, torch.__file__):
        frame = frame.f_back
    if frame is None:
        return False
    found = iter(dis.get_instructions(frame.f_code))
    at = next((i for i in found if i.offset == frame.f_lasti), None)
    after = next((i for i in found if i.opname != "CACHE"), None)
    is_jump = at is not None and "JUMP" in at.opname
    return (
        is_jump
        and after is not None
        and (
            after.opname == "LOAD_ASSERTION_ERROR"
            or (after.opname == "LOAD_COMMON_CONSTANT" and after.argval is AssertionError)
        )
    )


class Number:
    """A value of the trace (0: a constant that no node needed yet), what it is in the example, and
    whether it depends on data."""

    __slots__ = ("has_data", "number", "tracer", "value")

    def __init__(self, tracer: Tracer, value: int, number: Any, has_data: bool = False) -> None:
        self.tracer, self.value, self.number, self.has_data = tracer, value, number, has_data

    def is_int(self) -> bool:
        return type(self.number) is int

    def is_float(self) -> bool:
        return type(self.number) is float

    def is_bool(self) -> bool:
        return type(self.number) is bool

    def is_symbolic(self) -> bool:
        return True

    def is_constant(self) -> bool:
        return False

    is_nested_int = is_constant

    def nested_int(self) -> None:
        return None

    maybe_as_int = maybe_as_float = maybe_as_bool = nested_int

    @property
    def hint(self) -> Any:
        return self.number

    def require_hint(self) -> Any:
        return self.number

    def has_hint(self) -> bool:
        return not self.has_data

    def pytype(self) -> type:
        return type(self.number)

    def __repr__(self) -> str:
        return repr(self.number)

    _graph_repr = __repr__

    def clone(self) -> Number:
        return self

    def wrap_int(self, number: int) -> Number:
        return Number(self.tracer, 0, int(number))

    def wrap_float(self, number: float) -> Number:
        return Number(self.tracer, 0, float(number))

    def wrap_bool(self, number: bool) -> Number:
        return Number(self.tracer, 0, bool(number))

    # -- Recording

    def recorded(self) -> int:
        """Return the value of the trace."""
        if not self.value:
            self.value = self.tracer.recorder.constant(self.number)
        return self.value

    def computed(self, kind: str, number: Any, *others: Number) -> Number:
        """Record an operator on this number and others, whose result is `number`."""
        from .torch_trace import location

        inputs = [node.recorded() for node in (self, *others)]
        value = self.tracer.one(kind, inputs, _TYPES[type(number)], location())
        has_data = self.has_data or any(node.has_data for node in others)
        return Number(self.tracer, value, number, has_data)

    def asserted(self) -> None:
        """Record that the program checks a bool when it runs."""
        from .torch_trace import location

        inputs = [self.recorded(), self.tracer.recorder.constant(_CHECK)]
        self.tracer.recorder.add("assertion", inputs, (), location())

    def decided(self) -> None:
        """Record that the code depends on what the number is."""
        from .torch_trace import location

        if self.value:
            inputs = [self.value, self.tracer.recorder.constant(self.number)]
            self.tracer.recorder.add("decided", inputs, (), location())

    # -- What Python takes as it is

    def guard_int(self, file: str, line: int) -> Any:
        self.decided()
        return self.number

    guard_float = guard_int

    def guard_bool(self, file: str, line: int) -> bool:
        if self.value and self.has_data and _is_in_assert():
            self.asserted()
            return True
        self.decided()
        return bool(self.number)

    guard_size_oblivious = guard_bool

    def guard_or_false(self, file: str, line: int) -> bool:
        return False if self.has_data else self.guard_bool(file, line)

    def guard_or_true(self, file: str, line: int) -> bool:
        return True if self.has_data else self.guard_bool(file, line)

    def statically_known_true(self, file: str, line: int) -> bool:
        return False  # nothing is known of it without a condition

    def int_(self) -> int:
        return int(self.guard_int("", 0))

    def float_(self) -> float:
        return float(self.guard_int("", 0))

    def bool_(self) -> bool:
        return self.guard_bool("", 0)

    # -- What the program checks

    def expect_true(self, file: str, line: int) -> bool:
        if self.value:
            self.asserted()
        elif not self.number:
            raise RuntimeError(_CHECK)
        return True

    def expect_size(self, file: str, line: int) -> bool:
        return self.ge(Number(self.tracer, 0, 0)).expect_true(file, line)

    # -- Arithmetic that is more than one operator

    def pow_by_natural(self, other: Number) -> Number:
        """Multiply as often as a constant says; a symbolic exponent is fixed."""
        n = int(other.guard_int("", 0))
        if not self.value:
            return Number(self.tracer, 0, self.number**n)
        return self.computed("aten::pow", self.number**n, Number(self.tracer, 0, n))

    def round(self, ndigits: Any = None) -> Number:
        """Round a float to an int: half of what is nearest is not an operator, so it is fixed."""
        return Number(self.tracer, 0, round(self.guard_int("", 0), ndigits))

    def sym_ite(self, yes: Number, no: Number) -> Number:
        return yes if self.bool_() else no

    def sym_sum(self, numbers: list[Number]) -> Number:
        made = numbers[0]
        for number in numbers[1:]:
            made = made.add(number)  # type: ignore[attr-defined]
        return made

    def is_integer(self) -> Number:
        return Number(self.tracer, 0, float(self.guard_int("", 0)).is_integer())

    def sym_not(self) -> Number:
        return self.computed("aten::__not__", not self.number)

    def pos(self) -> Number:
        return self

    # -- The rest are operators: see the loops below

    if TYPE_CHECKING:
        eq: Callable[[Number], Number]
        ge: Callable[[Number], Number]


_BINARY: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "add": ("aten::add", operator.add),
    "sub": ("aten::sub", operator.sub),
    "mul": ("aten::mul", operator.mul),
    "truediv": ("aten::div", operator.truediv),
    "int_truediv": ("aten::div", operator.truediv),
    "float_truediv": ("aten::div", operator.truediv),
    "floordiv": ("aten::floordiv", operator.floordiv),
    "int_floordiv": ("aten::floordiv", operator.floordiv),
    "mod": ("aten::remainder", operator.mod),
    "float_pow": ("aten::pow", operator.pow),
    "eq": ("aten::eq", operator.eq),
    "ne": ("aten::ne", operator.ne),
    "lt": ("aten::lt", operator.lt),
    "le": ("aten::le", operator.le),
    "gt": ("aten::gt", operator.gt),
    "ge": ("aten::ge", operator.ge),
    "and_": ("aten::__and__", lambda a, b: a and b),
    "or_": ("aten::__or__", lambda a, b: a or b),
    "sym_and": ("aten::__and__", lambda a, b: a and b),
    "sym_or": ("aten::__or__", lambda a, b: a or b),
    "sym_min": ("prim::min", min),
    "sym_max": ("prim::max", max),
    "lshift": ("aten::__lshift__", operator.lshift),
    "rshift": ("aten::__rshift__", operator.rshift),
    "bitwise_and": ("aten::__and__", operator.and_),
    "bitwise_or": ("aten::__or__", operator.or_),
    "bitwise_xor": ("aten::__xor__", operator.xor),
}
_UNARY: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "neg": ("aten::neg", operator.neg),
    "abs": ("prim::abs", abs),
    "floor": ("aten::floor", math.floor),
    "ceil": ("aten::ceil", math.ceil),
    "trunc": ("aten::Int", int),
    "sym_int": ("aten::Int", int),
    "sym_float": ("aten::Float", float),
    "_sym_sqrt": ("aten::sqrt", math.sqrt),
    "sym_sqrt": ("aten::sqrt", math.sqrt),
}
_CHANGING = ("neg", "abs", "_sym_sqrt", "sym_sqrt")  # also what has the result's type
_FLOATS = frozenset(("truediv", "int_truediv", "float_truediv", "float_pow"))


def _binary(name: str, kind: str, compute: Callable[[Any, Any], Any]) -> Callable[..., Number]:
    def method(self: Number, other: Number) -> Number:
        number = compute(self.number, other.number)
        if name in _FLOATS:
            number = float(number)
        if not self.value and not other.value:
            return Number(self.tracer, 0, number)
        return self.computed(kind, number, other)

    method.__name__ = name
    return method


def _unary(name: str, kind: str, compute: Callable[[Any], Any]) -> Callable[..., Number]:
    def method(self: Number) -> Number:
        number = compute(self.number)
        if type(number) is type(self.number) and name not in _CHANGING:
            return self
        return self.computed(kind, number) if self.value else Number(self.tracer, 0, number)

    method.__name__ = name
    return method


Number.str = Number.__repr__  # type: ignore[attr-defined]
for _name, _row in _BINARY.items():
    setattr(Number, _name, _binary(_name, *_row))
for _name, _one in _UNARY.items():
    setattr(Number, _name, _unary(_name, *_one))
