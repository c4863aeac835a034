"""rushlight.script: chooses the part that compiles the object."""

from __future__ import annotations

import enum
import sys
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from .. import library
from . import decorator_flags
from .entry import entry
from .functions import ScriptFunction
from .qualified_name import qualified_name
from .runtime import is_enabled, warn_of_optimize


def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """Compile a function, a class or a torch.nn.Module, and everything that it calls.

    The result is a ScriptFunction for a function and a ScriptModule for a module; a class is
    returned itself, ready to be used in programs.
    """
    warn_of_optimize(optimize)
    if not is_enabled():
        return obj
    library.adopt_torch()
    if isinstance(obj, ScriptFunction) or getattr(obj, "_rush_is_scripted", False):
        return obj
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(obj, torch._C.ScriptFunction):
        inner = getattr(obj, "_torchdynamo_inline", None)
        if isinstance(inner, FunctionType):
            return _script_function(inner)
    if torch is not None and isinstance(obj, torch.nn.Module):
        from . import torch_modules  # noqa: F401 -- whose class modules get
        from .modules import script_module

        return script_module(obj)
    if hasattr(obj, "__prepare_scriptable__"):
        obj = obj.__prepare_scriptable__()
    if isinstance(obj, (FunctionType, MethodType)):
        return _script_function(obj, _rcb)
    if isinstance(obj, type):
        names = sys._getframe(_frames_up + 1).f_locals
        names = {
            k: v for k, v in names.items() if isinstance(v, (type, FunctionType, ScriptFunction))
        }
        return _script_class(obj, torch, names)
    return _script_other(obj)


def script_method(fn: Any) -> Any:
    """Make a method of a subclass of ScriptModule part of its program."""
    if not is_enabled():
        return fn
    frame = sys._getframe(1)
    names: dict[str, Any] = dict(frame.f_back.f_locals) if frame.f_back is not None else {}
    return decorator_flags.ScriptMethodStub(names, fn)


def _script_function(fn: Any, names: Any = None) -> ScriptFunction:
    if hasattr(fn, "__script_if_tracing_wrapper"):
        fn = fn.__original_fn
    if hasattr(fn, "__script_unsupported"):
        raise RuntimeError("TorchScript error: " + fn.__script_unsupported)
    d = entry()
    if d.overloads_of(fn):
        raise RuntimeError(
            f"Function {qualified_name(fn)} cannot be directly compiled because it is overloaded. "
            f"It must be used in a context "
            "of a function where its inputs can determine which overload to call."
        )
    return d.function(fn, names)


def _script_class(cls: Any, torch: Any, names: dict[str, Any]) -> Any:
    if torch is not None and issubclass(cls, torch.nn.Module):
        raise RuntimeError(
            f"Type '{cls}' cannot be compiled since it inherits from nn.Module, pass an instance "
            f"instead"
        )
    if issubclass(cls, enum.Enum):
        return cls
    if "__dict__" not in dir(cls) and not hasattr(cls, "__slots__"):
        raise RuntimeError(
            "TorchScript classes must be new-style classes. Please inherit from 'object'."
        )
    if len(cls.mro()) > 2:
        raise RuntimeError(
            "TorchScript classes does not support inheritance yet. Please directly inherit from "
            "'object'."
        )
    entry().class_(cls, names)
    return cls


def _script_other(obj: Any) -> Any:
    if isinstance(obj, (int, float, str, bytes, bool, complex, BuiltinFunctionType)) or obj is None:
        raise TypeError(f"{type(obj)!r} is a built-in class")
    if isinstance(obj, (list, dict)):
        from .containers import ScriptDict, ScriptList

        return ScriptList(obj) if isinstance(obj, list) else ScriptDict(obj)
    if type(obj).__name__ == "_lru_cache_wrapper":
        raise OSError(
            f"Can't get source for {type(obj)}. TorchScript requires source access in order to "
            "carry out compilation, make sure original .py files are available."
        )
    from .objects import script_object

    return script_object(obj)
