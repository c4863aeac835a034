"""Calls whose results go to tensors of the caller's."""

from __future__ import annotations

from typing import Any

from . import _rushlight


class BoundOutputs:
    """A method whose results go to given buffers: `bound = model.bind_outputs(out)`, then
    `bound(x)`.

    Buffers are numpy arrays, torch tensors or rushlight tensors, in the order of the method's
    `outputs`; None stands for an output without one, and so do outputs beyond the last. The results
    are the buffers themselves. The last operator on an output writes there itself where it can;
    else its values are copied there at the end: `copied` says of which buffers, after a call.

    A buffer has the output's dtype and shape, and is contiguous or has the result's strides: else
    ValueError, which says what was expected. Gradients are not recorded: where the result would
    require grad, a call is a RuntimeError. After an error the buffers' elements are undefined.
    Threads that call at once need buffers of their own.
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
