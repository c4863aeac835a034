"""The trace that this thread records; PyTorch is not needed to read it."""

from __future__ import annotations

import threading
from typing import Any


class _Here(threading.local):
    tracer: Any = None  # a torch_trace.Tracer, which this file does not need
    n_of_library = 0  # traces of rushlight.Tensors' code, which the C library records


here = _Here()


def current() -> Any:
    """Return the trace over torch code that this thread records now."""
    tracer = here.tracer
    return tracer if tracer is not None and tracer.paused == 0 else None


def is_recording() -> bool:
    """True if this thread is recording a trace."""
    return current() is not None or here.n_of_library > 0
