"""The meaning of live Python objects in programs."""

from __future__ import annotations

import builtins
import cmath
import enum
import inspect
import math
import sys
import warnings
from collections import OrderedDict
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from .. import _rushlight
from . import decorator_flags, frontend, kinds
from .qualified_name import qualified_name
from .scope import Scope
from .sources import unwrapped

# Python functions that are operators: their path, and the operator if its name differs.
_OPERATORS = """
torch.backends.cudnn.is_acceptable=cudnn_is_acceptable torch.autograd.grad torch.autograd.backward
torch._C._infer_size torch.broadcast_shapes torch.nn.functional._no_grad_embedding_renorm_
torch.nn.init._no_grad_fill_ torch.nn.init._no_grad_normal_ torch.nn.init._no_grad_uniform_
torch.nn.init._no_grad_zero_ torch._C._get_tracing_state torch._C._get_cpu_capability
torch._VF.stft torch._VF.istft torch._VF.cdist torch._VF.norm torch._VF.unique_dim
torch._VF.unique_consecutive torch._VF.nuclear_norm torch._VF.frobenius_norm torch._VF.tensordot
torch._C._set_grad_enabled=set_grad_enabled torch.is_grad_enabled torch.set_grad_enabled
torch.jit._unwrap_optional torch.jit._script._unwrap_optional
"""
# Modules whose every callable is the operator of its name; these functions of torch's modules
# remain Python functions.
_OPERATOR_MODULES = """torch torch._C._nn torch._C._fft torch._C._linalg torch._C._nested
torch._C._sparse torch._C._special""".split()
_PYTHON_FUNCTIONS = """stft istft lu cdist norm unique unique_consecutive tensordot""".split()
_MATH = (
    "ceil copysign erf erfc exp expm1 fabs floor gamma lgamma log log10 log1p pow sqrt isnan asinh "
    "atanh cosh sinh tanh acos asin atan atan2 cos sin tan acosh fmod modf factorial frexp isinf "
    "degrees radians ldexp gcd isfinite"
)
_CMATH = (
    "isnan isfinite isinf log log10 sqrt exp sin tan cos asin acos atan sinh cosh tanh asinh "
    "acosh atanh"
)
# Objects that have syntax of their own in the language.
_FORMS = {
    "torch.jit.annotate": "jit.annotate",
    "torch.jit.isinstance": "jit.isinstance _jit_internal._isinstance",
    "torch.jit.fork": "jit.fork jit._fork",
    "torch.jit.wait": "jit.wait jit._wait",
    "torch.jit._awaitable": "jit._awaitable",
    "torch.jit._awaitable_nowait": "jit._awaitable_nowait",
    "torch.jit._awaitable_wait": "jit._awaitable_wait",
    "torch.jit.is_scripting": "jit.is_scripting _jit_internal.is_scripting",
    "torch.jit.is_tracing": """jit.is_tracing _jit_internal.is_tracing _C._has_torch_function
        _C._has_torch_function_unary _C._has_torch_function_variadic _C._is_tracing
        jit._trace.is_tracing""",
}
_BUILTINS = """len range zip enumerate print isinstance hasattr getattr min max abs all
any divmod sum ord chr bin hex oct pow round sorted hash id int float bool str complex
list tuple dict super""".split()


# Calls of these make tensors; as annotations they are Tensor.
TENSOR_TYPES = [
    f"{t}Tensor"
    for t in ("Float", "Double", "Half", "Byte", "Char", "Short", "Int", "Long", "Bool")
]
_MISSING = object()


def _has_source(cls: type) -> bool:
    try:
        return bool(inspect.getsource(cls))
    except (OSError, TypeError):
        return False


def _at(path: str) -> Any:
    first, *rest = path.split(".")
    found: Any = sys.modules.get(first)
    for name in rest:
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
        for name in _BUILTINS:
            self._learn(getattr(builtins, name), (kinds.PATH, name))
        for name in _MATH.split():
            self._learn(getattr(math, name), (kinds.OPERATOR, "aten::" + name))
        self._learn(math.remainder, (kinds.OPERATOR, "aten::mathremainder"))
        for name in _CMATH.split():
            self._learn(getattr(cmath, name), (kinds.OPERATOR, "aten::" + name))
        self._learn(cmath.phase, (kinds.OPERATOR, "aten::angle"))
        self._learn(cmath.rect, (kinds.OPERATOR, "aten::polar"))
        self._learn(OrderedDict, (kinds.OPERATOR, "aten::dict"))
        self._learn(warnings.warn, (kinds.OPERATOR, "aten::warn"))

    def _learn(self, obj: Any, answer: Any) -> None:
        self._known.setdefault(id(obj), answer)
        self._alive.append(obj)

    def learn_form(self, obj: Any, path: str) -> None:
        """Register Rushlight's object with the same meaning as torch's."""
        self._known[id(obj)] = (kinds.PATH, path)
        self._alive.append(obj)

    def _learn_torch(self, torch: Any) -> None:
        self._torch = torch
        for form, paths in _FORMS.items():
            for obj in filter(None, (_at(f"torch.{path}") for path in paths.split())):
                self._learn(obj, (kinds.PATH, form))
        for path in self._entry.prelude_paths():
            self._learn(_at(path), path)  # made when it is met
        for name in TENSOR_TYPES:
            self._learn(getattr(torch, name), (kinds.PATH, f"torch.{name}"))
        for row in _OPERATORS.split():
            path, _, name = row.partition("=")
            obj = _at(path)
            if obj is not None:
                self._learn(obj, (kinds.OPERATOR, "aten::" + (name or path.rpartition(".")[2])))
        special = {id(getattr(torch.functional, name)) for name in _PYTHON_FUNCTIONS}
        special |= {id(torch.no_grad), id(torch.autocast), id(torch.enable_grad)}
        for path in _OPERATOR_MODULES:
            for name, obj in vars(_at(path)).items():
                if not callable(obj) or id(obj) in special:
                    continue
                if not isinstance(obj, type) or _rushlight.has_operator("aten::" + name):
                    self._learn(
                        obj,
                        (
                            kinds.OPERATOR,
                            "aten::" + ("segment_reduce" if name == "_segment_reduce" else name),
                        ),
                    )
        self._entry.use_torch_errors(torch)
        self._constants = (
            bool,
            int,
            float,
            complex,
            str,
            torch.dtype,
            torch.device,
            torch.layout,
            torch.memory_format,
            torch.qscheme,
        )
        self._ops_types = (type(torch.ops), type(torch.ops.aten))
        self._packet = torch._ops.OpOverloadPacket
        self._script_functions = (torch.jit.ScriptFunction,)

    def of(self, obj: Any, constant: bool = False) -> Any:
        """Return (kind, ...) for an object. `constant`: plain values are allowed (as attributes of
        modules, but not closed over)."""
        known = self._known.get(id(obj))
        if type(known) is str:
            self._known[id(obj)] = known = self._entry.prelude_function(known)
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
                return (
                    self._function(inner)
                    if inner is not None
                    else (kinds.OBJECT, obj, "ScriptFunction")
                )
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
        code = getattr(unwrapped(fn), "__code__", None)
        if (
            code is not None
            and code.co_flags & inspect.CO_VARARGS
            and not decorator_flags.is_dropped(fn)
        ):
            return (kinds.OBJECT, Variadic(fn, is_method), "python function")
        declared = self._entry.declared(fn)
        if decorator_flags.is_dropped(fn):
            return (
                kinds.UNUSED,
                fn,
                declared,
                "This Python function is annotated to be ignored and cannot be run",
            )
        return (kinds.HOST_CALL, fn, declared)

    def _class(self, cls: Any) -> Any:
        if issubclass(cls, BaseException):
            if cls is AssertionError:
                return None
            name = (
                qualified_name(cls) if cls.__module__ != "builtins" else "builtins." + cls.__name__
            )
            return (
                kinds.EXCEPTION,
                name.replace("__torch__.", "__main__." if cls.__module__ == "__main__" else "", 1),
            )
        prelude = self._entry.prelude_class(cls)
        if prelude is not None:
            return prelude
        t = self._entry.types.of(cls, None)
        if t is not None:
            return (kinds.TYPE, t)
        return (kinds.OBJECT, cls, cls.__name__)

    def called(self, obj: Any, n: int) -> Any:
        """Return the entry of a callable that remains in Python: called with tensors, it returns a
        tensor."""
        if isinstance(obj, Variadic):
            name, count = obj.fn.__name__, n + obj.is_method
            return (
                kinds.HOST_CALL,
                obj.fn,
                self._entry.untyped(name, count),
                *([True] if obj.is_method else []),
            )
        torch = self._torch
        if torch is not None and isinstance(obj, (torch.jit.ScriptModule, _rushlight.Module)):
            raise RuntimeError("Cannot call a ScriptModule that is not a submodule of the caller")
        if torch is not None and isinstance(obj, type) and issubclass(obj, torch.nn.Module):
            raise frontend.FrontendError(
                f"Cannot instantiate class '{obj.__name__}' in a script function"
            )
        if isinstance(obj, ModuleType) or not callable(obj):
            return None
        if isinstance(obj, type) and _has_source(obj):
            raise frontend.FrontendError(
                f"Cannot instantiate class '{obj.__name__}' in a script function"
            )
        call = getattr(type(obj), "__call__", None)  # noqa: B004 -- the attribute itself
        if (
            isinstance(call, FunctionType)
            and call.__code__.co_flags & inspect.CO_VARARGS
            and "return" in call.__annotations__
        ):
            return (
                kinds.HOST_CALL,
                obj,
                self._entry.untyped(
                    type(obj).__name__, n, (call.__annotations__["return"], Scope(call))
                ),
            )
        return (
            kinds.HOST_CALL,
            obj,
            self._entry.untyped(getattr(obj, "__name__", type(obj).__name__), n),
        )

    def attribute(self, obj: Any, name: str) -> Any:
        """What obj.name means."""
        if isinstance(obj, self._ops_types):
            if isinstance(obj, self._ops_types[1]):
                operator = f"{obj.name}::{name}"  # type: ignore[attr-defined]
                return (
                    (kinds.OPERATOR, operator)
                    if hasattr(obj, name) or _rushlight.has_operator(operator)
                    else None
                )
            return (kinds.OBJECT, getattr(obj, name), "module")
        own = None if isinstance(obj, (ModuleType, type)) else getattr(obj, "_rush_attribute", None)
        if own is not None:
            return own(name)
        found = getattr(obj, name, _MISSING)
        if found is _MISSING:
            return None
        return self.of(found, constant=isinstance(obj, ModuleType))
