"""`Size` and `device`: the types of a tensor's shape and device."""

from __future__ import annotations

from typing import Any, SupportsIndex, overload

from . import _rushlight
from .archives import check_device


class Size(tuple[int, ...]):
    """The sizes of a tensor: a tuple of ints that stays one when it is sliced, added or
    repeated."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements: the product of the sizes."""
        n = 1
        for size in self:
            n *= size
        return n

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Size: ...
    def __getitem__(self, index: SupportsIndex | slice) -> int | Size:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(found, tuple) else found

    def __add__(self, other: Any) -> Any:
        return (
            Size(tuple.__add__(self, tuple(other)))
            if isinstance(other, (tuple, list))
            else NotImplemented
        )

    def __mul__(self, n: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, n))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"rushlight.Size({list(self)})"

    def __reduce__(self) -> tuple[type[Size], tuple[tuple[int, ...]]]:
        return Size, (tuple(self),)


_LAYOUTS = "strided sparse_coo sparse_csr _mkldnn sparse_csc sparse_bsr sparse_bsc jagged".split()


class layout(int):  # noqa: N801 -- torch's name
    """How a tensor's elements are stored: strided, sparse_coo, sparse_csr; programs name others."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "rushlight." + _LAYOUTS[self]

    __str__ = __repr__


strided, sparse_coo, sparse_csr = layout(0), layout(1), layout(2)


class device(str):  # noqa: N801 -- torch's name
    """A tensor's device. A str, so that it can be passed wherever a device's name can: `x.device ==
    "cpu"`."""

    __slots__ = ()

    def __new__(cls, type: Any, index: int | None = None) -> device:  # noqa: A002 -- torch's name
        name = str(type)
        if index is not None:
            if ":" in name:
                raise RuntimeError(
                    f"type (string) must not include an index because index was passed explicitly: "
                    f"{name}"
                )
            name = f"{name}:{index}"
        check_device(name)
        return str.__new__(cls, name)

    @property
    def type(self) -> str:
        """`cpu`, `meta`, `cuda` ..."""
        return str.__str__(self).partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]
        """The number after the colon, or None."""
        number = str.__str__(self).partition(":")[2]
        return int(number) if number else None

    def __repr__(self) -> str:
        return (
            f"device(type={self.type!r})"
            if self.index is None
            else f"device(type={self.type!r}, index={self.index})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (str.__str__(self),)


_rushlight._set_size_class(Size)
