"""x[index] and x[index] = value with lists, masks and tensors: basic indices make views, then
aten::index or aten::index_put_ run."""

from __future__ import annotations

from typing import Any

from . import _rushlight
from ._rushlight import Tensor
from .ops import aten


def _is_tensor(item: Any) -> bool:
    """True for tensors of Rushlight and torch, and for arrays."""
    return isinstance(item, Tensor) or (hasattr(item, "dtype") and hasattr(item, "shape"))


def _plain(item: Any) -> Any:
    """Convert lists and arrays to Rushlight's tensors."""
    if isinstance(item, (list, range)):
        made = _rushlight.as_tensor(list(item))
        return made if made.numel() else made.to(_rushlight.int64)
    if isinstance(item, tuple):
        return _plain(list(item))
    return _rushlight.as_tensor(item) if _is_tensor(item) and not isinstance(item, Tensor) else item


def _is_mask(item: Any) -> bool:
    return isinstance(item, Tensor) and item.dtype in (_rushlight.bool, _rushlight.uint8)


def _consumed(item: Any) -> int:
    """Return how many dimensions of the tensor an index consumes."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.ndim if _is_mask(item) else 1


def _viewed(x: Tensor, index: Any) -> tuple[Any, list[Any]]:
    """Return the view that the basic indices make, and the tensors that index it, by dimension."""
    items = [_plain(item) for item in (index if isinstance(index, tuple) else (index,))]
    skipped = x.ndim - sum(map(_consumed, items))
    if skipped < 0:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
    dim = 0
    tensors: list[Any] = []
    for item in items:
        if item is Ellipsis:
            dim += skipped
        elif item is None:
            x = aten.unsqueeze(x, dim)
            dim += 1
        elif isinstance(item, slice):
            ends = (None if i is None else i.__index__() for i in (item.start, item.stop))
            x = aten.slice(x, dim, *ends, 1 if item.step is None else item.step.__index__())
            dim += 1
        elif isinstance(item, bool) or (_is_mask(item) and item.ndim == 0):
            x = aten.unsqueeze(x, dim)
            tensors += [None] * (dim - len(tensors)) + [_rushlight.as_tensor([bool(item)])]
            dim += 1
        elif isinstance(item, Tensor) and item.ndim:
            tensors += [None] * (dim - len(tensors)) + [item]
            dim += item.ndim if _is_mask(item) else 1
        elif hasattr(item, "__index__"):
            x = aten.select(x, dim, item.__index__())
        else:
            raise TypeError(
                f"indices are ints, slices, None, Ellipsis, lists or tensors, not "
                f"'{type(item).__name__}'"
            )
    return x, tensors


def get_item(x: Tensor, index: Any) -> Tensor:
    """Return x[index]."""
    view, tensors = _viewed(x, index)
    if tensors:
        view = aten.index.Tensor(view, tensors)
    elif view is x:
        view = aten.alias(view)
    return view


def set_item(x: Tensor, index: Any, value: Any) -> None:
    """Set x[index] = value."""
    view, tensors = _viewed(x, index)
    if not isinstance(value, Tensor):
        value = (
            _rushlight.as_tensor(value)
            if _is_tensor(value)
            else _rushlight.as_tensor(value, x.dtype)
        )
    if tensors:
        aten.index_put_(view, tensors, value)
        return
    while value.ndim > view.ndim and value.shape[0] == 1:
        value = value.select(0, 0)
    aten.copy_(view, value)
