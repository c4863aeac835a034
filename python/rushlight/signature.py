"""The parameters and results of a module's methods, as data: `module.inputs`, `module.outputs`,
`module.METHOD.inputs` ..."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

from . import _rushlight

Limits = tuple["int | None", "int | None"]


@dataclass(frozen=True, repr=False)
class Item:
    """One input or output of a method.

    Programs of torch.export describe tensors: `dtype`, and `shape`, a tuple of numbers and, for
    sizes that vary, of symbols or formulas ("s77", "2*s77 + 1"). `ranges` has the smallest and
    largest value of each of these, None if no limit is known; `example` is the shape with which the
    program was exported, None if it is not known. An int has one "size", its value: `shape` is
    None, and its symbol, if it has one, is in `ranges`. For other programs all four are None or
    empty.
    """

    name: str
    """`x`, `d['a']` for what is in a dict `d`; `output`, `output[1]`, `output.scores`."""
    type: str
    """As annotations have it: `Tensor`, `Optional[List[int]]`."""
    argument: int
    """The number of the argument that an input is or is in; of an output, of the result's item."""
    dtype: _rushlight.dtype | None = None
    shape: tuple[int | str, ...] | None = None
    example: tuple[int | None, ...] | None = None
    ranges: dict[str, Limits] = field(default_factory=dict)

    def _details(self) -> list[str]:
        details = [f"{self.name}: {self.type}"]
        if self.dtype is not None:
            details.append(f"dtype={self.dtype}")
        if self.shape is not None:
            sizes = ", ".join(map(str, self.shape))
            details.append(f"shape=({sizes}{',' if len(self.shape) == 1 else ''})")
        if self.ranges:
            details.append(f"ranges={self.ranges}")
        return details

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._details())})"


@dataclass(frozen=True, repr=False)
class Input(Item):
    """One input of a method: a parameter, or a leaf of an exported program's argument."""

    default: Any = inspect.Parameter.empty
    """What it is when it is left out; `inspect.Parameter.empty`: it has to be given."""
    constant: Any = inspect.Parameter.empty
    """What an exported program was made with and every call has to pass; `inspect.Parameter.empty`:
    nothing of the kind."""
    keyword_only: bool = False

    def _details(self) -> list[str]:
        details = super()._details()
        if self.default is not inspect.Parameter.empty:
            details.append(f"default={self.default!r}")
        if self.constant is not inspect.Parameter.empty:
            details.append(f"constant={self.constant!r}")
        if self.keyword_only:
            details.append("keyword_only=True")
        return details


@dataclass(frozen=True, repr=False)
class Output(Item):
    """One output of a method: its result, or a leaf of it: the items of tuples, for exported
    programs also of lists and dicts."""


_SizeRow = tuple["int | None", "int | None", "int | None", "str | None"]


def _description(
    type_: str, dtype: _rushlight.dtype | None, sizes: tuple[_SizeRow, ...] | None
) -> dict[str, Any]:
    if sizes is None:
        return {}
    ranges = {symbol: (least, most) for _, least, most, symbol in sizes if symbol is not None}
    if type_ != "Tensor":
        return {"ranges": ranges}
    shape = tuple(value if symbol is None else symbol for value, _, _, symbol in sizes)
    return {
        "dtype": dtype,
        "shape": shape,
        "example": tuple(size[0] for size in sizes),
        "ranges": ranges,
    }


def signature(module: Any, method: str) -> tuple[list[Input], list[Output]]:
    """Return the inputs and outputs of a module's method."""
    inputs, outputs = _rushlight.method_signature(module, method)
    empty = inspect.Parameter.empty
    return (
        [
            Input(
                name,
                type_,
                argument,
                **_description(type_, dtype, sizes),
                default=value if has_default else empty,
                constant=value if is_constant else empty,
                keyword_only=keyword_only,
            )
            for name, type_, argument, keyword_only, has_default, is_constant, value, dtype,
            sizes in inputs
        ],
        [Output(row[0], row[1], row[2], **_description(row[1], row[7], row[8])) for row in outputs],
    )
