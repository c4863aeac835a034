"""torch's functions that are in the operator table (`rushlight.zeros`, `rushlight.cat` ...), each
made when first used.

functions.txt lists the operators that are functions of torch; their parameters and docstrings come
from the table. Results have the kind of the tensor arguments; without any they are rushlight's.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import _rushlight, numerics
from ._names import FUNCTIONS
from ._rushlight import Tensor
from .kinds import Size, device
from .methods import (
    ALIASES,
    CASTS,
    Overload,
    Results,
    document,
    is_int_list,
    norm,
    renamed,
    signature,
    unique,
    unique_consecutive,
)
from .numerics import finfo, iinfo, memory_format

# Functions that take *tensors, and the position of the first.
_LISTS = {
    "atleast_1d": 0, "atleast_2d": 0, "atleast_3d": 0, "block_diag": 0, "broadcast_tensors": 0,
    "cartesian_prod": 0, "chain_matmul": 0, "einsum": 1, "meshgrid": 0,
}  # fmt: skip


class Function:
    """An operator as torch's function of the same name."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = "rushlight"
        self._name = f"aten::{name}"
        lines = _rushlight.operator_schemas(self._name).splitlines()
        self._overloads = [Overload(line) for line in lines]
        self._results = Results(name, self._overloads)
        names = {a.name for o in self._overloads for a in o.arguments}
        others = {**ALIASES, "input": "self"}.items()
        self._aliases = {k: v for k, v in others if k not in names and v in names}
        firsts = [o.arguments[0].kind for o in self._overloads if o.arguments]
        self._takes_sizes = any(map(is_int_list, firsts))
        self._first = _LISTS.get(name)
        # A factory: requires_grad applies to its result.
        self._makes = "requires_grad" not in names and "dtype" in names and "device" in names

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._takes_sizes and args and type(args[0]) is int:
            args = (list(args),)
        elif self._first is not None:
            args = self._gathered(args)
        if kwargs:
            kwargs = renamed(kwargs, self._aliases)
        if not self._makes or "requires_grad" not in kwargs:
            return self._results.finish(_rushlight.call_function(self._name, *args, **kwargs))
        requires_grad = kwargs.pop("requires_grad")
        made = _rushlight.call_function(self._name, *args, **kwargs)
        made.requires_grad = requires_grad
        return made

    def _gathered(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Collect separate tensors into the list that the operator takes; atleast_1d and similar
        functions also take a single one."""
        tensors, is_list = args[self._first :], self.__name__.startswith("atleast")
        if len(tensors) == 1 and (is_list or isinstance(tensors[0], (list, tuple))):
            return args
        return *args[: self._first], list(tensors)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return document(self._name, _rushlight.operator_schemas(self._name).splitlines(), 0)

    @property
    def __signature__(self) -> inspect.Signature:
        return signature(self._overloads, False)

    def __repr__(self) -> str:
        return f"<function rushlight.{self.__name__}, the operator {self._name}>"

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return find, (self.__name__,)


# -- Functions that are not operators, or whose arguments differ from torch's ------------------


def from_numpy(ndarray: Any) -> Tensor:
    """Return a Tensor on the memory of a numpy array."""
    if type(ndarray).__module__.partition(".")[0] != "numpy" or not hasattr(
        ndarray, "__array_interface__"
    ):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    return _rushlight.as_tensor(ndarray)


def asarray(obj: Any, *, dtype: Any = None, copy: bool | None = None) -> Tensor:
    """Return a Tensor of the data; it shares the data's memory if `copy` and the dtype allow it."""
    if copy:
        return _rushlight.tensor(obj, dtype)
    made = _rushlight.as_tensor(obj, dtype)
    if copy is False and isinstance(obj, (list, tuple, int, float, complex)):
        raise ValueError("can't alias arbitrary sequence into a tensor.")
    return made


def is_tensor(obj: Any) -> bool:
    """True if `obj` is a rushlight.Tensor."""
    return isinstance(obj, Tensor)


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """Return the shape that tensors of these shapes broadcast to."""
    sizes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    n = max((len(s) for s in sizes), default=0)
    out = [1] * n
    for s in sizes:
        for i, size in enumerate(s, n - len(s)):
            if size < 0:
                raise RuntimeError(
                    f"Trying to create tensor with negative dimension ({size}): ({size})"
                )
            if size not in (1, out[i]) and out[i] != 1:
                raise RuntimeError("Shape mismatch: objects cannot be broadcast to a single shape")
            out[i] = out[i] if size == 1 else size
    return Size(out)


def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """Sum products of elements over `dims`: a number of dimensions, or two lists of them."""
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        over = (list(range(-dims, 0)), list(range(dims)))
    else:
        over = tuple([d] if isinstance(d, int) else list(d) for d in dims)  # type: ignore[assignment]
    return _rushlight.call_function("aten::tensordot", a, b, *over)


def get_default_dtype() -> _rushlight.dtype:
    """Return the dtype of tensors of Python floats: torch's default dtype if torch is imported."""
    return _rushlight.default_dtype()


def set_default_dtype(d: Any, /) -> None:
    """Set the dtype of tensors of Python floats, of integers that become floats, and where none is
    given: torch's, too, if torch is imported."""
    torch, ours = sys.modules.get("torch"), _rushlight.set_default_dtype(d)
    if torch is not None:
        torch.set_default_dtype(getattr(torch, str(ours).rpartition(".")[2]))


_OWN: dict[str, Any] = {
    f.__name__: f
    for f in (
        *(from_numpy, asarray, is_tensor, broadcast_shapes, tensordot, norm),
        *(get_default_dtype, set_default_dtype),
        *(unique, unique_consecutive, Size, device, finfo, iinfo, memory_format),
    )
}
_OWN |= {name: getattr(numerics, name) for name in memory_format._NAMES}
_OWN |= {name: getattr(math, name) for name in ("pi", "e", "inf", "nan")} | {"newaxis": None}
for _name in "float double half int long short cfloat cdouble".split():
    _OWN[_name] = getattr(_rushlight, CASTS[_name])
_OWN["chalf"] = _rushlight.complex32
NAMES = FUNCTIONS | _OWN.keys()


def find(name: str) -> Any:
    """Return the function of that name, or None."""
    if name in _OWN:
        return _OWN[name]
    if name not in FUNCTIONS:
        return None
    return Function(name)
