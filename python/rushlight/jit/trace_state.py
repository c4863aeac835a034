"""The trace that this thread records; PyTorch is not needed to read it."""

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
    """Return the trace over torch code that this thread records now."""
    tracer = here.tracer
    return tracer if tracer is not None and tracer.paused == 0 else None


def is_recording() -> bool:
    """True if this thread is recording a trace."""
    return current() is not None or here.n_of_library > 0
