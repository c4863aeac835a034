"""Properties of dtypes (`finfo`, `iinfo`), and memory formats, with torch's names."""

from __future__ import annotations

from typing import Any

from . import _rushlight

# Of each floating-point dtype: bits, bits of the fraction, exponent of the smallest normal number,
# largest number, decimal digits of precision, and the distance from 1 to the next number as a power
# of two if it is not that of the fraction.
_FLOATS: dict[str, tuple[int, int, int, float, int]] = {
    "float16": (16, 10, -14, 65504.0, 3),
    "bfloat16": (16, 7, -126, (2 - 2.0**-7) * 2.0**127, 2),
    "float32": (32, 23, -126, (2 - 2.0**-23) * 2.0**127, 6),
    "float64": (64, 52, -1022, (2 - 2.0**-52) * 2.0**1023, 15),
    "float8_e4m3fn": (8, 3, -6, 448.0, 0),
    "float8_e5m2": (8, 2, -14, 57344.0, 0),
    "float8_e4m3fnuz": (8, 3, -7, 240.0, 0),
    "float8_e5m2fnuz": (8, 3, -15, 57344.0, 0),  # eps as PyTorch has it
}
_PARTS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
_INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def _name_of(kind: Any) -> str:
    return (
        _rushlight.as_tensor(0, kind).dtype.name
        if isinstance(kind, (str, type))
        else str(kind).rpartition(".")[2]
    )


class _Info:
    """Common base: two are equal if all their values are."""

    __slots__ = ("bits", "dtype", "max", "min")
    bits: int
    dtype: str

    def _said(self) -> list[str]:
        raise NotImplementedError

    def __repr__(self) -> str:
        said = [f"{name}={getattr(self, name):g}" for name in self._said()]
        return f"{type(self).__name__}({', '.join([*said, f'dtype={self.dtype}'])})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, _Info) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class finfo(_Info):  # noqa: N801 -- torch's name
    """The limits of a floating-point dtype (for a complex one: of its parts):
    `finfo(x.dtype).eps`."""

    __slots__ = ("eps", "resolution", "smallest_normal", "tiny")
    max: float
    min: float
    eps: float
    """the distance from 1 to the next number"""
    tiny: float
    smallest_normal: float
    resolution: float
    """10 to the power of minus the decimal digits that survive"""

    def __init__(self, type: Any = None) -> None:  # noqa: A002 -- torch's name
        name = "float32" if type is None else _name_of(type)
        self.dtype = _PARTS.get(name, name)
        if self.dtype not in _FLOATS:
            raise TypeError(
                f"rushlight.finfo() requires a floating point input type, not {name}. Use "
                f"rushlight.iinfo to handle integers"
            )
        self.bits, fraction, least, self.max, digits = _FLOATS[self.dtype]
        self.min, self.eps = -self.max, 2.0**-fraction
        self.tiny = self.smallest_normal = 2.0**least
        self.resolution = float(f"1e-{digits}")

    def _said(self) -> list[str]:
        return ["resolution", "min", "max", "eps", "smallest_normal", "tiny"]


class iinfo(_Info):  # noqa: N801 -- torch's name
    """The limits of an integer dtype: `iinfo(rushlight.int8).max`."""

    __slots__ = ()
    max: int
    min: int

    def __init__(self, type: Any) -> None:  # noqa: A002 -- torch's name
        self.dtype = _name_of(type)
        if self.dtype not in _INTS:
            raise TypeError(
                f"rushlight.iinfo() requires an integer input type, not {self.dtype}. Use "
                f"rushlight.finfo to handle floats"
            )
        self.bits = int(self.dtype.lstrip("uint"))
        signed = self.dtype[0] == "i"
        self.max = 2 ** (self.bits - signed) - 1
        self.min = -(2 ** (self.bits - 1)) if signed else 0

    def _said(self) -> list[str]:
        return ["min", "max"]


class memory_format(int):  # noqa: N801 -- torch's name
    """The order of elements in memory: an int, as programs and schemas have it, with torch's name
    for it."""

    _NAMES = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")

    def __repr__(self) -> str:
        return f"rushlight.{self._NAMES[self]}"

    __str__ = __repr__

    def __reduce__(self) -> str:
        return self._NAMES[self]


contiguous_format, preserve_format, channels_last, channels_last_3d = map(memory_format, range(4))
