"""Calls that write their results to tensors of the caller."""

from __future__ import annotations

from typing import Any

from . import _rushlight


class BoundOutputs:
    """A method whose results are written to given buffers: `bound = model.bind_outputs(out)`, then
    `bound(x)`.

    Buffers are numpy arrays, torch tensors or rushlight tensors, in the order of the method's
    `outputs`; an output without a buffer is None, and outputs beyond the last have none. The
    results are the buffers themselves. The operator that computes an output writes to the buffer
    directly if it can; otherwise the values are copied there at the end. After a call `copied` has
    a bool per buffer.

    A buffer must have the output's dtype and shape, and be contiguous or have the result's strides:
    otherwise a ValueError describes the expected buffer. Gradients are not recorded: if the result
    would require grad, the call is a RuntimeError. After an error the buffers' elements are
    undefined. Threads that call at the same time need buffers of their own.
    """

    def __init__(self, method: _rushlight.ScriptMethod, buffers: tuple[Any, ...]) -> None:
        self.method = method
        self.buffers = buffers
        self.copied: list[bool] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result, self.copied = self.method._call_into(self.buffers, args, kwargs)
        return result

    def __repr__(self) -> str:
        return f"BoundOutputs({self.method.name}, {len(self.buffers)} buffers)"
