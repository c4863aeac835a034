"""Open PyTorch programs and run them, without PyTorch.

>>> import rushlight
>>> model = rushlight.load("model.pt")          # or .pt2
>>> model(x)                                     # numpy, torch or rushlight tensors, no copies
"""

from __future__ import annotations

import os
import sys
from typing import Any, BinaryIO

from . import _rushlight, archives, ir, jit, methods, ops, profiler
from ._rushlight import (
    Block,
    Cancel,
    Cancelled,
    EnumValue,
    Error,
    Graph,
    Node,
    ScriptMethod,
    ScriptObject,
    Tensor,
    Value,
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
    parse_ir,
    reset_peak_memory_stats,
    set_cpu,
    set_num_threads,
    set_rng_state,
    tensor,
)
from .archives import save
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .jit import *  # noqa: F403
from .jit import __all__ as _jit_names
from .jit.script_module import ScriptModule as _ScriptModule
from .limits import limits, set_limits
from .ops import load_library

__all__ = [
    *_jit_names,
    "Block",
    "Cancel",
    "Cancelled",
    "EnumValue",
    "Error",
    "Graph",
    "Node",
    "ScriptMethod",
    "ScriptModule",  # noqa: F405 -- __getattr__ knows it
    "ScriptObject",
    "Tensor",
    "Value",
    "__version__",
    "as_tensor",
    "compile_counters",
    "dtype",
    "empty_cache",
    "enable_grad",
    "from_dlpack",
    "get_cpu",
    "get_num_threads",
    "get_rng_state",
    "inference_mode",
    "ir",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "jit",
    "limits",
    "load",
    "load_library",
    "load_value",
    "manual_seed",
    "memory_stats",
    "no_grad",
    "ops",
    "parse_ir",
    "profiler",
    "reset_peak_memory_stats",
    "save",
    "set_cpu",
    "set_grad_enabled",
    "set_limits",
    "set_num_threads",
    "set_rng_state",
    "tensor",
]

for _name in dir(_rushlight):
    if isinstance(getattr(_rushlight, _name), dtype):
        globals()[_name] = getattr(_rushlight, _name)
        __all__.append(_name)


def _module_class(made: bool = True) -> type[_ScriptModule]:
    """What `load` makes (`made`), or what users derive from: where torch is imported, a torch.nn.Module too."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn") or not hasattr(torch.nn, "Module"):
        return _ScriptModule
    from .jit import torch_modules

    return torch_modules.RecursiveScriptModule if made else torch_modules.ScriptModule


def __getattr__(name: str) -> Any:
    if name == "ScriptModule":
        return _module_class(False)
    if name == "RecursiveScriptModule":
        return _module_class()
    if name == "isinstance":
        return jit.isinstance
    if name in ("TopLevelTracedModule", "TracedModule", "TracerWarning"):
        from .jit import tracing

        return getattr(tracing, name)
    raise AttributeError(f"module 'rushlight' has no attribute '{name}'")


def load(
    f: str | os.PathLike[str] | bytes | BinaryIO,
    map_location: Any = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
    *,
    check_full: bool = False,
    copy: bool = False,
    program: str | None = None,
) -> _ScriptModule:
    """Open a TorchScript (.pt) or torch.export (.pt2) archive.

    `f` is a path (mapped: weights are used in place), bytes, or an open binary file. Weights go to the CPU, whatever
    device they were on, or with `map_location="meta"` are not read: then they have sizes only. Other devices are refused.
    The values of `_extra_files` become the contents of the archive's files of these names. `check_full` checks the CRC of
    every record; `copy` reads the file into memory instead of mapping it, for a file that may change while it is open.
    `program` names one of the programs of a torch.export package that holds several.
    """
    options = {"check_full": check_full, "copy": copy, "program": program, "type": _module_class()}
    module: _ScriptModule = archives.load(f, map_location, _extra_files, options)
    return module


def _tensor_method(self: Tensor, name: str) -> Any:
    """`x.name` of an operator that the table lacks: one from outside."""
    operator = ops.aten.find(name)
    if operator is None:
        raise AttributeError(f"'Tensor' has no attribute '{name}', and there is no operator aten::{name}")
    return lambda *args, **kwargs: operator(self, *args, **kwargs)


methods.install()
