"""torch.jit's names over Rushlight: compile live Python functions, classes and modules.

>>> @rushlight.script
... def f(x: int) -> int:
...     return x + 1
"""

from __future__ import annotations

import enum
import sys
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from .._rushlight import Error
from ..profiler import ScriptProfile as _ScriptProfile  # noqa: F401 -- torch.jit has it
from .decorators import (
    Attribute,
    Final,
    annotate,
    export,
    ignore,
    interface,
    is_scripting,
    is_tracing,
    script_if_tracing,
    unused,
)
from .decorators import _copy_to_script_wrapper as _copy_to_script_wrapper
from .decorators import _overload as _overload
from .decorators import _overload_method as _overload_method
from .door import door
from .freezing import freeze, optimize_for_inference, run_frozen_optimizations
from .functions import ScriptFunction
from .futures import Future, fork, wait
from .names import qualified_name
from .objects import RecursiveScriptClass
from .runtime import (
    enable_onednn_fusion,
    export_opnames,
    fuser,
    is_enabled,
    onednn_fusion_enabled,
    optimized_execution,
    set_fusion_strategy,
    strict_fusion,
    warn_of_optimize,
)
from .runtime import isinstance_ as _isinstance
from .tracing import TracingCheckError, trace, trace_module
from .unit import CompilationUnit

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "Future",
    "RecursiveScriptClass",
    "ScriptFunction",
    "TracingCheckError",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "export_opnames",
    "fork",
    "freeze",
    "fuser",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "run_frozen_optimizations",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """Compiles a function, a class or a torch.nn.Module, and all that it calls.

    Functions give a ScriptFunction, modules a ScriptModule; a class is given back, ready to be used in programs.
    """
    warn_of_optimize(optimize)
    if not is_enabled():
        return obj
    if isinstance(obj, ScriptFunction) or getattr(obj, "_rush_is_scripted", False):
        return obj
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(obj, torch._C.ScriptFunction):
        inner = getattr(obj, "_torchdynamo_inline", None)
        if isinstance(inner, FunctionType):
            return _script_function(inner)
    if torch is not None and isinstance(obj, torch.nn.Module):
        from .modules import script_module

        return script_module(obj)
    if hasattr(obj, "__prepare_scriptable__"):
        obj = obj.__prepare_scriptable__()
    if isinstance(obj, (FunctionType, MethodType)):
        return _script_function(obj, _rcb)
    if isinstance(obj, type):
        names = sys._getframe(_frames_up + 1).f_locals
        names = {k: v for k, v in names.items() if isinstance(v, (type, FunctionType, ScriptFunction))}
        return _script_class(obj, torch, names)
    return _script_other(obj)


def script_method(fn: Any) -> Any:
    """Marks a method of a subclass of ScriptModule as part of its program."""
    from .torch_modules import ScriptMethodStub

    if not is_enabled():
        return fn
    frame = sys._getframe(1)
    names: dict[str, Any] = dict(frame.f_back.f_locals) if frame.f_back is not None else {}
    return ScriptMethodStub(names, fn)


def _unwrap_optional(x: Any) -> Any:
    assert x is not None, "Unwrapping null optional"
    return x


# names that would hide Python's own in this module, and torch.jit's older ones
_BY_NAME = {
    "isinstance": _isinstance,
    "_fork": fork,
    "_wait": wait,
    "_script_if_tracing": script_if_tracing,
    "_set_fusion_strategy": set_fusion_strategy,
}


def __getattr__(name: str) -> Any:
    if name in ("ScriptModule", "RecursiveScriptModule"):
        import rushlight

        return getattr(rushlight, name)
    if name in ("load", "save"):
        import rushlight

        return getattr(rushlight, name)
    found = _BY_NAME.get(name)
    if found is not None:
        return found
    raise AttributeError(f"module 'rushlight.jit' has no attribute '{name}'")


def _script_function(fn: Any, names: Any = None) -> ScriptFunction:
    if hasattr(fn, "__script_if_tracing_wrapper"):
        fn = fn.__original_fn
    if hasattr(fn, "__script_unsupported"):
        raise RuntimeError("TorchScript error: " + fn.__script_unsupported)
    d = door()
    if d.overloads_of(fn):
        raise RuntimeError(
            f"Function {qualified_name(fn)} cannot be directly compiled because it is overloaded. It must be used in a context "
            "of a function where its inputs can determine which overload to call."
        )
    return d.function(fn, names)


def _script_class(cls: Any, torch: Any, names: dict[str, Any]) -> Any:
    if torch is not None and issubclass(cls, torch.nn.Module):
        raise RuntimeError(f"Type '{cls}' cannot be compiled since it inherits from nn.Module, pass an instance instead")
    if issubclass(cls, enum.Enum):
        return cls
    if "__dict__" not in dir(cls) and not hasattr(cls, "__slots__"):
        raise RuntimeError("TorchScript classes must be new-style classes. Please inherit from 'object'.")
    if len(cls.mro()) > 2:
        raise RuntimeError("TorchScript classes does not support inheritance yet. Please directly inherit from 'object'.")
    door().class_(cls, names)
    return cls


def _script_other(obj: Any) -> Any:
    if isinstance(obj, (int, float, str, bytes, bool, complex, BuiltinFunctionType)) or obj is None:
        raise TypeError(f"{type(obj)!r} is a built-in class")
    if isinstance(obj, (list, dict)):
        from .containers import ScriptDict, ScriptList

        return ScriptList(obj) if isinstance(obj, list) else ScriptDict(obj)
    if type(obj).__name__ == "_lru_cache_wrapper":
        raise OSError(
            f"Can't get source for {type(obj)}. TorchScript requires source access in order to carry out compilation, "
            "make sure original .py files are available."
        )
    from .objects import script_object

    return script_object(obj)
