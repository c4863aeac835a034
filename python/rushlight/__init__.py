"""Open PyTorch programs and run them, without PyTorch.

>>> import rushlight
>>> model = rushlight.load("model.pt")          # or .pt2
>>> model(x)                                     # numpy, torch or rushlight tensors, no copies
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from . import _rushlight, jit, methods, ops, profiler
from ._rushlight import (
    EnumValue,
    Error,
    ScriptMethod,
    ScriptObject,
    Tensor,
    __version__,
    as_tensor,
    compile_counters,
    dtype,
    empty_cache,
    from_dlpack,
    get_cpu,
    get_num_threads,
    get_rng_state,
    load_value,
    manual_seed,
    memory_stats,
    reset_peak_memory_stats,
    set_cpu,
    set_num_threads,
    set_rng_state,
)
from .jit import *  # noqa: F403
from .jit import __all__ as _jit_names

__all__ = [
    *_jit_names,
    "EnumValue",
    "Error",
    "ScriptMethod",
    "ScriptModule",
    "ScriptObject",
    "Tensor",
    "__version__",
    "as_tensor",
    "compile_counters",
    "dtype",
    "empty_cache",
    "from_dlpack",
    "get_cpu",
    "get_num_threads",
    "get_rng_state",
    "jit",
    "load",
    "load_value",
    "manual_seed",
    "memory_stats",
    "ops",
    "profiler",
    "reset_peak_memory_stats",
    "set_cpu",
    "set_num_threads",
    "set_rng_state",
    "tensor",
]

_NUMBERS = (bool, int, float, complex, list, tuple)  # before `bool` becomes the dtype

for _name in dir(_rushlight):
    if isinstance(getattr(_rushlight, _name), dtype):
        globals()[_name] = getattr(_rushlight, _name)
        __all__.append(_name)


class ScriptModule(_rushlight.Module):
    """A program loaded from an archive, with its state: what `load` returns.

    Its methods are attributes (`model(x)` calls forward), and so are its parameters, buffers, submodules
    and other attributes, which can be assigned where the program declares them.
    """

    __slots__ = ()

    def state_dict(self) -> dict[str, Any]:
        """Parameters and buffers by qualified name; they share the module's memory."""
        return self._state(False)

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Copy tensors into the parameters and buffers of these names."""
        own = self._state(False)
        missing, unexpected = [k for k in own if k not in state], [k for k in state if k not in own]
        if strict and (missing or unexpected):
            parts = [f"missing: {', '.join(missing)}"] if missing else []
            parts += [f"unexpected: {', '.join(unexpected)}"] if unexpected else []
            raise RuntimeError(f"the state does not fit the module; {'; '.join(parts)}")
        for name, value in state.items():
            if name in own:
                self._set_state(name, value)

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """(qualified name, tensor) of every parameter."""
        yield from self._state(True).items()

    def parameters(self) -> Iterator[Any]:
        """Every parameter."""
        yield from self._state(True).values()

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """(qualified name, tensor) of every buffer."""
        parameters = self._state(True)
        yield from ((name, value) for name, value in self._state(False).items() if name not in parameters)

    def buffers(self) -> Iterator[Any]:
        """Every buffer."""
        yield from (value for _, value in self.named_buffers())

    def train(self, mode: bool = True) -> ScriptModule:
        """Set `training` here and in all submodules that have it; returns self."""
        self._set_training(mode)
        return self

    def eval(self) -> ScriptModule:
        """train(False)."""
        return self.train(False)


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
    if not isinstance(source, (str, os.PathLike, bytes, bytearray, memoryview)):
        if not hasattr(source, "read"):
            raise TypeError(f"load() takes a path, bytes or a binary file, not {type(source).__name__}")
        source = source.read()
    return _rushlight.load(source, check_full=check_full, copy=copy, type=ScriptModule)


def tensor(data: Any, dtype: dtype | None = None) -> Tensor:
    """A new tensor from numbers, nested lists, or a copy of another tensor."""
    if isinstance(data, _NUMBERS):
        return as_tensor(data, dtype)
    made = as_tensor(data)
    return ops.aten.to.dtype(made, dtype or made.dtype, False, True)


def _tensor_method(self: Tensor, name: str) -> Any:
    """`x.name` of an operator that the table lacks: one from outside."""
    operator = ops.aten.find(name)
    if operator is None:
        raise AttributeError(f"'Tensor' has no attribute '{name}', and there is no operator aten::{name}")
    return lambda *args, **kwargs: operator(self, *args, **kwargs)


methods.install()
