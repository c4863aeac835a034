"""Storages: the memory that a tensor and its views share, as returned by torch's
`untyped_storage()` and `storage()`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import _rushlight
from ._rushlight import Tensor


class _Storage:
    """A tensor's whole memory as a sequence of elements that can be written."""

    __slots__ = ("_row",)

    def __init__(self, row: Tensor) -> None:
        self._row = row

    def data_ptr(self) -> int:
        """Return the address of the first byte."""
        return self._row.data_ptr()

    def element_size(self) -> int:
        """Return the bytes of an element."""
        return int(self._row.element_size())

    def nbytes(self) -> int:
        """Return the bytes of all elements."""
        return len(self) * self.element_size()

    def size(self) -> int:
        """Return the number of elements."""
        return len(self)

    @property
    def device(self) -> Any:
        """The device of the memory."""
        return self._row.device

    def tolist(self) -> list[Any]:
        """Return all elements."""
        found: list[Any] = self._row.tolist()
        return found

    def fill_(self, value: Any) -> Any:
        """Set all elements."""
        self._row.fill_(value)
        return self

    def copy_(self, source: _Storage) -> Any:
        """Copy another storage's elements."""
        self._row.copy_(source._row)
        return self

    def clone(self) -> Any:
        """Return the same elements in new memory."""
        return type(self)(self._row.clone())

    def is_shared(self) -> bool:
        """Return False: the memory is this process's."""
        return False

    def __len__(self) -> int:
        return int(self._row.numel())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(self._row[index])
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return self._row[index].item()

    def __setitem__(self, index: int | slice, value: Any) -> None:
        self._row[index] = value

    def __repr__(self) -> str:
        return (
            f"[rushlight.{type(self).__name__}({self._what()}device={self.device}) of size "
            f"{len(self)}]"
        )

    def _what(self) -> str:
        return ""


class UntypedStorage(_Storage):
    """The memory as bytes."""

    __slots__ = ()


class TypedStorage(_Storage):
    """The memory as elements of the tensor's dtype."""

    __slots__ = ()

    @property
    def dtype(self) -> _rushlight.dtype:
        """The elements' dtype."""
        return self._row.dtype

    def untyped(self) -> UntypedStorage:
        """Return the same memory as bytes."""
        return UntypedStorage(self._row.view(_rushlight.uint8))

    def _what(self) -> str:
        return f"dtype={self.dtype}, "


def _row_of(tensor: Tensor) -> Tensor:
    if tensor.is_quantized:
        raise NotImplementedError(
            "storages of quantized tensors are not shown: int_repr() has the numbers"
        )
    n = tensor._storage_bytes() // tensor.element_size()
    row: Tensor = tensor.detach().as_strided([n], [1], 0)
    return row


def storage(self: Tensor) -> TypedStorage:
    """Return the memory that the tensor's views share, as elements."""
    return TypedStorage(_row_of(self))


def untyped_storage(self: Tensor) -> UntypedStorage:
    """Return the memory that the tensor's views share, as bytes."""
    return TypedStorage(_row_of(self)).untyped()
