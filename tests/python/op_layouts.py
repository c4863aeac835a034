"""Other layouts of the same samples: what a program may hand to an operator, and a sample seldom
does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch


def transposed(t: torch.Tensor) -> torch.Tensor:
    """The first dimension is the fastest in memory."""
    order = list(reversed(range(t.dim())))
    return t.permute(order).contiguous().permute(order)


def strided(t: torch.Tensor) -> torch.Tensor:
    """Every second element of each dimension, behind a storage offset."""
    whole = torch.zeros([2 * n + 1 for n in t.shape], dtype=t.dtype)
    view = whole[tuple(slice(1, 2 * n + 1, 2) for n in t.shape)]
    view.copy_(t)
    return view


def channels_last(t: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return t.contiguous(memory_format=formats[t.dim()]) if t.dim() in formats else t


def expanded(t: torch.Tensor) -> torch.Tensor:
    """The first row again and again, by stride 0."""
    return t.narrow(0, 0, 1).expand_as(t) if t.dim() and t.shape[0] else t


def padded_rows(t: torch.Tensor) -> torch.Tensor:
    """Rows with a gap behind each."""
    return torch.cat([t, t[..., :1]], -1)[..., :-1] if t.dim() and t.shape[-1] else t


def empty(t: torch.Tensor) -> torch.Tensor:
    return t.narrow(0, 0, 0) if t.dim() else t


def empty_last(t: torch.Tensor) -> torch.Tensor:
    return t.narrow(-1, 0, 0) if t.dim() else t


def scalar(t: torch.Tensor) -> torch.Tensor:
    """0-dim."""
    return t.reshape(-1)[0] if t.numel() else t


def single(t: torch.Tensor) -> torch.Tensor:
    """Sizes of one, with strides that mean nothing."""
    if not t.dim() or not t.numel():
        return t
    one = t[tuple(slice(0, 1) for _ in t.shape)]
    return one.as_strided(one.shape, [7] * one.dim())


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    f.__name__: f
    for f in (
        transposed,
        strided,
        channels_last,
        expanded,
        padded_rows,
        empty,
        empty_last,
        scalar,
        single,
    )
}


def changed(value: Any, layout: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return layout(value.detach()) if value.layout == torch.strided else value
    if type(value) in (list, tuple):
        return type(value)(changed(v, layout) for v in value)
    return value


def layouts_of(sample: tuple) -> Iterator[tuple[str, tuple]]:
    """(name of the layout, sample): all tensors of it changed, and the first alone."""
    args, kwargs = sample
    for name, layout in LAYOUTS.items():
        try:
            yield (
                name,
                (changed(tuple(args), layout), {k: changed(v, layout) for k, v in kwargs.items()}),
            )
            if len(args) > 1:
                yield f"{name} first", ((changed(args[0], layout), *args[1:]), kwargs)
        except (RuntimeError, IndexError):  # the layout has no meaning for this tensor
            continue
