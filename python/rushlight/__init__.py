"""Open PyTorch programs and run them, without PyTorch.

>>> import rushlight
>>> model = rushlight.load("model.pt")          # or .pt2
>>> model(x)                                     # numpy, torch or rushlight tensors, no copies

The import loads the extension and nothing else. Everything written in Python is a part (`_PARTS`)
that is imported when one of its names is first used (PEP 562), so `import rushlight` costs a few
milliseconds; a test counts the modules.
"""

from __future__ import annotations

import sys

from . import _rushlight

TYPE_CHECKING = False  # typing's own costs an import of 3 ms
if TYPE_CHECKING:
    import os
    from typing import Any, BinaryIO

    from .jit.script_module import ScriptModule as _ScriptModule

# Names of the extension's that are the package's, beside the dtypes.
_OWN = """Cancel Cancelled EnumValue Error ScriptObject __version__ as_tensor compile_counters dtype
empty_cache from_dlpack get_cpu get_executor get_num_threads get_rng_state load_value manual_seed
memory_stats reset_peak_memory_stats save_value set_cpu set_executor set_num_threads set_rng_state
tensor""".split()
# The part that defines each name. Parts also finish types of the extension (methods: Tensor; ir:
# Graph, Node ...), under these names.
_PARTS = {
    "archives": "save",
    "call_limits": "limits set_limits",
    "grad_mode": """enable_grad inference_mode is_grad_enabled is_inference_mode_enabled no_grad
        set_grad_enabled""",
    "kinds": "layout sparse_coo sparse_csr strided",
    "ir": "Block Graph Node Value parse_ir",
    "jit": """Attribute CompilationUnit Final Future RecursiveScriptClass ScriptFunction
        TracingCheckError annotate enable_onednn_fusion export_opnames fork freeze fuser
        ignore interface is_scripting is_tracing onednn_fusion_enabled optimize_for_inference
        optimized_execution run_frozen_optimizations script script_if_tracing script_method
        set_fusion_strategy strict_fusion trace trace_module unused wait""",
    "jit.script_module": "ScriptMethod",
    "jit.tracing": "TopLevelTracedModule TracedModule TracerWarning",
    "methods": "Tensor",
    "ops": "load_library",
    "recording": "record record_calls",
    "pytree": "register_dataclass register_namedtuple register_pytree_node",
}
_WHERE = {name: part for part, names in _PARTS.items() for name in names.split()}
_MODULES = """archives call_limits export functions grad_mode gradients indexing ir jit kinds
library methods numerics ops optim outputs profiler pytree recording return_types signature storages
testing torch_graph""".split()
_OWN += [
    name for name in dir(_rushlight) if isinstance(getattr(_rushlight, name), _rushlight.dtype)
]
_HIDDEN = ("TopLevelTracedModule", "TracedModule", "TracerWarning")
_PUBLIC = "ScriptModule export ir jit library load ops optim profiler".split()
__all__ = sorted({*_OWN, *_WHERE, *_PUBLIC} - {*_HIDDEN})
globals().update((name, getattr(_rushlight, name)) for name in _OWN)


def _module_class(made: bool = True) -> type[_ScriptModule]:
    """Return the class that `load` makes (`made`), or that users derive from; if torch is imported,
    it is also a torch.nn.Module."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn") or not hasattr(torch.nn, "Module"):
        from .jit.script_module import ScriptModule

        return ScriptModule
    from .jit import torch_modules

    return torch_modules.RecursiveScriptModule if made else torch_modules.ScriptModule


def _part(name: str) -> Any:
    """Return the module rushlight.NAME."""
    __import__(f"{__name__}.{name}")
    return sys.modules[f"{__name__}.{name}"]


def __getattr__(name: str) -> Any:
    if name == "ScriptModule":
        return _module_class(False)
    if name == "RecursiveScriptModule":
        return _module_class()
    if name in _MODULES:
        return _part(name)
    if name == "isinstance":  # kept out of globals(), where it would hide Python's
        return _part("jit.runtime").isinstance_
    part = _WHERE.get(name)
    if part is not None:
        found = getattr(_part(part), name)
    elif name.startswith("__") or name not in _part("functions").NAMES:
        raise AttributeError(f"module 'rushlight' has no attribute '{name}'")
    else:
        found = _part("functions").find(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES, *_part("functions").NAMES})


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

    `f` is a path (mapped: weights are used in place), bytes, or an open binary file. Weights are
    loaded to the CPU, whatever device they were on; with `map_location="meta"` they are not read
    and have only sizes. Other devices are refused. The values of `_extra_files` become the contents
    of the archive's files of these names. `check_full` checks the CRC of every record; `copy` reads
    the file into memory instead of mapping it, for a file that may change while it is open.
    `program` names one of the programs of a torch.export package that has several.
    """
    from . import archives

    if "torch" in sys.modules:
        from . import library

        library.adopt_torch()
    options = {"check_full": check_full, "copy": copy, "program": program, "type": _module_class()}
    module: _ScriptModule = archives.load(f, map_location, _extra_files, options)
    return module


# What the extension calls of the package, which it cannot import: its names, and their parts.
_FOR_EXTENSION = {
    "Graph": "ir",
    "ScriptMethod": "jit.script_module",
    "Tensor": "methods",
    "Trees": "pytree",
    "connect": "gradients",
    "from_torch": "jit.quantized",
    "get_item": "indexing",
    "meta_to_torch": "jit.quantized",
    "method_doc": "jit.script_module",
    "method_schema": "jit.script_module",
    "set_item": "indexing",
    "sparse_from_torch": "jit.quantized",
    "sparse_to_torch": "jit.quantized",
    "tensor_method": "ops",
    "to_torch": "jit.quantized",
}


def _for_extension(name: str) -> Any:
    return getattr(_part(_FOR_EXTENSION[name]), name)


_rushlight._set_package(_for_extension)
