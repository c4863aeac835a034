"""The meaning of live Python objects in programs."""

from __future__ import annotations

import builtins
import enum
import inspect
import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from .. import _names, _rushlight
from . import decorator_flags, frontend, kinds
from .qualified_name import qualified_name
from .scope import Scope
from .sources import unwrapped

_MISSING = object()


def _has_source(cls: type) -> bool:
    try:
        return bool(inspect.getsource(cls))
    except (OSError, TypeError):
        return False


def _at(path: str) -> Any:
    first, _, rest = path.partition(".")
    found: Any = __import__(first) if rest else builtins
    for name in (rest or first).split("."):
        found = getattr(found, name, None)
    return found


class Variadic:
    """A Python function of any number of arguments: each call has a signature of its own."""

    def __init__(self, fn: Any, is_method: bool) -> None:
        if any(name != "self" for name in fn.__annotations__):
            raise RuntimeError(
                f"'{fn.__name__}' takes any number of arguments: it can be called without "
                f"annotations only"
            )
        self.fn = fn
        self.is_method = is_method


class Names:
    """Returns (kind, ...) for objects that programs name."""

    def __init__(self, entry: Any) -> None:
        self._entry = entry
        self._known: dict[int, Any] = {}
        self._alive: list[Any] = []  # what _known's numbers stand for
        self._torch: Any = None
        self._constants: tuple[type, ...] = (bool, int, float, complex, str)
        self._ops_types: tuple[type, ...] = ()
        self._script_functions: tuple[type, ...] = ()
        self._learn_known(False)

    def _learn_known(self, is_torch: bool) -> None:
        """Find the objects that the table of names (src/ops/table/names.py) has paths of."""
        for path in _names.KNOWN:
            if path.startswith("torch.") == is_torch and (obj := _at(path)) is not None:
                self._learn(obj, (kinds.PATH, path))

    def _learn(self, obj: Any, answer: Any) -> None:
        self._known.setdefault(id(obj), answer)
        self._alive.append(obj)

    def learn_form(self, obj: Any, path: str) -> None:
        """Register Rushlight's object with the same meaning as torch's."""
        self._known[id(obj)] = (kinds.PATH, path)
        self._alive.append(obj)

    def _learn_torch(self, torch: Any) -> None:
        self._torch = torch
        self._learn_known(True)
        python = set(map(id, map(_at, _names.PYTHON)))
        for path in _names.MODULES:
            for name, obj in vars(_at(path) if "." in path else torch).items():
                is_class = isinstance(obj, type) and not _rushlight.has_operator("aten::" + name)
                if callable(obj) and not is_class and id(obj) not in python:
                    self._learn(obj, (kinds.OPERATOR, "aten::" + name))
        self._entry.use_torch_errors(torch)
        for name in ("dtype", "device", "layout", "memory_format", "qscheme"):
            self._constants += (getattr(torch, name),)
        self._ops_types = (type(torch.ops), type(torch.ops.aten))
        self._packet = torch._ops.OpOverloadPacket
        self._script_functions = (torch.jit.ScriptFunction,)

    def of(self, obj: Any, constant: bool = False) -> Any:
        """Return (kind, ...) for an object. `constant`: plain values are allowed (as attributes of
        modules, but not closed over)."""
        known = self._known.get(id(obj))
        if known is not None:
            return known
        if self._torch is None and "torch" in sys.modules and hasattr(sys.modules["torch"], "jit"):
            self._learn_torch(sys.modules["torch"])
            return self.of(obj, constant)
        kind = type(obj)
        if kind is FunctionType:
            return self._function(obj)
        if kind is ModuleType:
            return (kinds.OBJECT, obj, "module")
        if obj is None:
            return (kinds.VALUE, None) if constant else None
        if self._ops_types and isinstance(obj, self._ops_types):
            return (kinds.OBJECT, obj, "module")
        own = getattr(obj, "_rush_meaning", None)
        if own is not None and not isinstance(obj, type):
            return own(self)
        if constant and isinstance(obj, self._constants):
            return (kinds.VALUE, obj, self._entry.types.of(kind, None) or None)
        if isinstance(obj, type):
            return self._class(obj)
        if isinstance(obj, enum.Enum):
            return (kinds.VALUE, obj, self._entry.classes.type_of(kind))
        if isinstance(obj, self._entry.function_type):
            return (kinds.FUNCTION, obj)
        if constant and kind is tuple:
            return (kinds.TUPLE, tuple(self.of(x, True) for x in obj))
        return self._other(obj, kind)

    def _other(self, obj: Any, kind: type) -> Any:
        if kind is BuiltinFunctionType:
            raise RuntimeError(f"Python builtin {obj!r} is currently not supported in Torchscript")
        if self._torch is not None:
            if isinstance(obj, self._packet):
                return (kinds.OPERATOR, obj._qualified_op_name)
            if isinstance(obj, self._script_functions):
                inner = getattr(obj, "_torchdynamo_inline", None)
                return self._function(inner) if inner else (kinds.OBJECT, obj, "ScriptFunction")
            if isinstance(obj, ModuleType):
                return (kinds.OBJECT, obj, "module")
        if isinstance(obj, MethodType):
            return (kinds.OBJECT, obj, "method")
        return (kinds.OBJECT, obj, kind.__name__)

    def _function(self, fn: Any) -> Any:
        table = decorator_flags.boolean_dispatch(fn)
        entry = self._entry
        if table is not None:
            both = tuple(self._function(table[name]) for name in ("if_false", "if_true"))
            return (kinds.DISPATCH, both, table["arg_name"], table["index"], bool(table["default"]))
        if hasattr(fn, "__script_if_tracing_wrapper"):
            fn = getattr(fn, "__original_fn")  # noqa: B009 -- not this class's
        if hasattr(fn, "__script_unsupported"):
            raise RuntimeError("TorchScript error: " + fn.__script_unsupported)
        if decorator_flags.is_ignored(fn):
            return self.ignored(fn)
        overloads = entry.overloads_of(fn)
        if overloads:
            return (kinds.OVERLOADS, overloads)
        return (kinds.FUNCTION, entry.compiled(fn))

    def ignored(self, fn: Any, is_method: bool = False) -> Any:
        """Return the entry of a function that is decorated to remain in Python."""
        flags = getattr(getattr(unwrapped(fn), "__code__", None), "co_flags", 0)
        is_dropped = decorator_flags.is_dropped(fn)
        if flags & inspect.CO_VARARGS and not is_dropped:
            return (kinds.OBJECT, Variadic(fn, is_method), "python function")
        if not is_dropped:
            return (kinds.HOST_CALL, fn, self._entry.declared(fn))
        said = "This Python function is annotated to be ignored and cannot be run"
        return (kinds.UNUSED, fn, self._entry.declared(fn), said)

    def _class(self, cls: Any) -> Any:
        if issubclass(cls, BaseException):
            if cls is AssertionError:
                return None
            if cls.__module__ == "builtins":
                return (kinds.EXCEPTION, "builtins." + cls.__name__)
            above = "__main__." if cls.__module__ == "__main__" else ""
            return (kinds.EXCEPTION, qualified_name(cls).replace("__torch__.", above, 1))
        t = self._entry.types.of(cls, None)
        if t is not None:
            return (kinds.TYPE, t)
        return (kinds.OBJECT, cls, cls.__name__)

    def called(self, obj: Any, n: int) -> Any:
        """Return the entry of a callable that remains in Python: called with tensors, it returns a
        tensor."""
        untyped, torch, result = self._entry.untyped, self._torch, None
        if isinstance(obj, Variadic):
            declared = untyped(obj.fn.__name__, n + obj.is_method)
            return (kinds.HOST_CALL, obj.fn, declared, obj.is_method)
        if torch is not None and isinstance(obj, (torch.jit.ScriptModule, _rushlight.Module)):
            raise RuntimeError("Cannot call a ScriptModule that is not a submodule of the caller")
        is_module = torch is not None and isinstance(obj, type) and issubclass(obj, torch.nn.Module)
        if is_module or (isinstance(obj, type) and _has_source(obj)):
            raise frontend.FrontendError(
                f"Cannot instantiate class '{obj.__name__}' in a script function"
            )
        if isinstance(obj, ModuleType) or not callable(obj):
            return None
        name = getattr(obj, "__name__", type(obj).__name__)
        call = getattr(type(obj), "__call__", None)  # noqa: B004 -- the attribute itself
        if isinstance(call, FunctionType) and call.__code__.co_flags & inspect.CO_VARARGS:
            if "return" in call.__annotations__:
                name, result = type(obj).__name__, (call.__annotations__["return"], Scope(call))
        return (kinds.HOST_CALL, obj, untyped(name, n, result))

    def attribute(self, obj: Any, name: str) -> Any:
        """What obj.name means."""
        if isinstance(obj, self._ops_types):
            if isinstance(obj, self._ops_types[1]):
                operator = f"{obj.name}::{name}"  # type: ignore[attr-defined]
                known = hasattr(obj, name) or _rushlight.has_operator(operator)
                return (kinds.OPERATOR, operator) if known else None
            return (kinds.OBJECT, getattr(obj, name), "module")
        own = None if isinstance(obj, (ModuleType, type)) else getattr(obj, "_rush_attribute", None)
        if own is not None:
            return own(name)
        found = getattr(obj, name, _MISSING)
        if found is _MISSING:
            return None
        return self.of(found, constant=isinstance(obj, ModuleType))
