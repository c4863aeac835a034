"""Which trace this thread records, for all who ask; nothing of PyTorch is needed to ask."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .torch_trace import Tracer


class _Here(threading.local):
    tracer: Tracer | None = None
    n_of_library = 0  # traces of rushlight.Tensors' code, which the C library records


here = _Here()


def current() -> Tracer | None:
    """The trace over torch code that this thread records now."""
    tracer = here.tracer
    return tracer if tracer is not None and tracer.paused == 0 else None


def is_recording() -> bool:
    """Is a trace being recorded by this thread?"""
    return current() is not None or here.n_of_library > 0
