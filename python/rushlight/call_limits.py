"""Limits of calls: seconds, bytes, and a handle with which another thread can end them."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from . import _rushlight
from ._rushlight import Cancel


class limits:  # noqa: N801 -- used like torch.no_grad
    """Limit the calls of programs in the block, on this thread: a call ends with TimeoutError after
    `max_seconds`, with MemoryError if more than `max_bytes` are in use beyond those at its start,
    and with Cancelled after `cancel.request()`.

    Blocks nest: a limit that is not given is that of the enclosing block.
    """

    def __init__(
        self,
        *,
        max_seconds: float | None = None,
        max_bytes: int | None = None,
        cancel: Cancel | None = None,
    ) -> None:
        self._wanted = (max_seconds, max_bytes, cancel)
        self._before: list[Any] = []

    def __enter__(self) -> limits:
        outer = _rushlight._swap_block()
        inherited = (outer[0] or None, outer[1] or None, outer[2]) if outer else (None, None, None)
        if outer:
            _rushlight._swap_block(*inherited)
        _rushlight._swap_block(
            *(
                inner if inner is not None else was
                for inner, was in zip(self._wanted, inherited, strict=True)
            )
        )
        self._before.append(inherited if outer else ())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        _rushlight._swap_block(*self._before.pop())


def set_limits(*, max_seconds: float | None = None, max_bytes: int | None = None) -> None:
    """Set the limits of every call from now on: seconds of each, and bytes in use in the whole
    module.

    None: no limit. A module's own `max_seconds` and `max_bytes`, and those of a block, apply too:
    the smallest limit counts.
    """
    _rushlight._set_limits(max_seconds, max_bytes)
