"""Open PyTorch programs and run them, without PyTorch.

>>> import rushlight
>>> model = rushlight.load("model.pt")          # or .pt2
>>> model(x)                                     # numpy, torch or rushlight tensors, no copies
"""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO

from . import _rushlight, ops
from ._rushlight import (
    EnumValue,
    Error,
    ScriptMethod,
    ScriptObject,
    Tensor,
    __version__,
    as_tensor,
    dtype,
    get_num_threads,
    load_value,
    manual_seed,
    memory_stats,
    set_num_threads,
)
from ._rushlight import Module as ScriptModule

__all__ = [
    "EnumValue",
    "Error",
    "ScriptMethod",
    "ScriptModule",
    "ScriptObject",
    "Tensor",
    "as_tensor",
    "dtype",
    "get_num_threads",
    "load",
    "load_value",
    "manual_seed",
    "memory_stats",
    "ops",
    "parameters",
    "set_num_threads",
    "state_dict",
    "tensor",
]

for _name in dir(_rushlight):
    if isinstance(getattr(_rushlight, _name), dtype):
        globals()[_name] = getattr(_rushlight, _name)
        __all__.append(_name)


def load(
    source: str | os.PathLike[str] | bytes | BinaryIO,
    *,
    check_full: bool = False,
    copy: bool = False,
) -> ScriptModule:
    """Open a TorchScript (.pt) or torch.export (.pt2) archive.

    `source` is a path (mapped: weights are used in place), bytes, or an open binary file.
    `check_full` checks the CRC of every record; `copy` copies the weights, for a file that may
    change while it is open.
    """
    if isinstance(source, (str, os.PathLike, bytes, bytearray, memoryview)):
        return _rushlight.load(source, check_full=check_full, copy=copy)
    if isinstance(source, io.IOBase) or hasattr(source, "read"):
        return _rushlight.load(source.read(), check_full=check_full, copy=copy)
    raise TypeError(f"load() takes a path, bytes or a binary file, not {type(source).__name__}")


def state_dict(module: ScriptModule) -> dict[str, Tensor]:
    """Parameters and buffers by qualified name."""
    return module._state(False)


def parameters(module: ScriptModule) -> dict[str, Tensor]:
    """Parameters by qualified name."""
    return module._state(True)


def tensor(data: Any, dtype: dtype | None = None) -> Tensor:
    """A new tensor from numbers or nested lists."""
    made = ops.aten.tensor(data, dtype=dtype) if dtype is not None else as_tensor(data)
    return as_tensor(made)


def _tensor_method(self: Tensor, name: str) -> Any:
    """`x.name`: the operator aten::name with x as its first argument."""
    operator = ops.aten.find(name)
    if operator is None:
        raise AttributeError(f"'Tensor' has no attribute '{name}', and there is no operator aten::{name}")
    return lambda *args, **kwargs: operator(self, *args, **kwargs)
