"""torch.jit's decorators, which set attributes that both torch and this package read."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, Final, TypeVar

from . import decorator_flags
from .qualified_name import qualified_name
from .trace_state import is_recording

__all__ = [
    "Attribute",
    "Final",
    "annotate",
    "export",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "script_if_tracing",
    "unused",
]

_F = TypeVar("_F", bound=Callable[..., Any])


class Attribute:
    """A value of a module with its type: `self.x = Attribute({}, Dict[str, int])`."""

    __slots__ = ("type", "value")

    def __init__(self, value: Any, type: Any) -> None:
        self.value = value
        self.type = type

    def __iter__(self) -> Any:
        return iter((self.value, self.type))


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the value; in programs, it has that type."""
    return the_value


def export(fn: _F) -> _F:
    """Compile this method even if nothing calls it."""
    fn._torchscript_modifier = decorator_flags.EXPORT  # type: ignore[attr-defined]
    return fn


def unused(fn: Any) -> Any:
    """Make a call raise; the body is not compiled."""
    if isinstance(fn, property):
        prop = fn
        prop.fget._torchscript_modifier = decorator_flags.UNUSED  # type: ignore[union-attr]
        if prop.fset:
            prop.fset._torchscript_modifier = decorator_flags.UNUSED  # type: ignore[attr-defined]
        return prop
    fn._torchscript_modifier = decorator_flags.UNUSED
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Leave calls to Python; `drop`: as unused."""
    if callable(drop):
        drop._torchscript_modifier = decorator_flags.IGNORE
        return drop
    if not isinstance(drop, bool):
        raise RuntimeError(
            f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}"
        )
    drop_on_export = kwargs.pop("drop_on_export", None)
    if drop_on_export:
        warnings.warn(
            "ignore(drop_on_export=True) has been deprecated. Use torch.jit.unused instead.",
            FutureWarning,
            stacklevel=2,
        )
        drop = drop_on_export
    elif drop:
        warnings.warn(
            "ignore(True) has been deprecated. TorchScript will now drop the function call on "
            "compilation. Use torch.jit.unused now. {}",
            FutureWarning,
            stacklevel=2,
        )

    def decorator(fn: Any) -> Any:
        fn._torchscript_modifier = decorator_flags.UNUSED if drop else decorator_flags.IGNORE
        return fn

    return decorator


def _copy_to_script_wrapper(fn: _F) -> _F:
    fn._torchscript_modifier = decorator_flags.COPY_TO_SCRIPT_WRAPPER  # type: ignore[attr-defined]
    return fn


def _overload(fn: _F) -> _F:
    """Declare an overload of the following function of this name."""
    decorator_flags.add_overload(qualified_name(fn), fn)
    return fn


def _overload_method(fn: _F) -> _F:
    """Declare an overload of the following method of this name."""
    decorator_flags.add_method_overload(qualified_name(fn), fn.__qualname__.rpartition(".")[0], fn)
    return fn


def interface(cls: Any) -> Any:
    """Declare a class of methods without bodies: any class that has them all implements it."""
    if not isinstance(cls, type):
        raise RuntimeError("interface must be applied to a class")
    names = [c.__name__ for c in cls.__mro__]
    if len(names) != (3 if "Module" in names else 2):
        raise RuntimeError(
            "TorchScript interface does not support inheritance yet. Please directly inherit from "
            "'object' or 'nn.Module'."
        )
    cls.__torch_script_interface__ = qualified_name(cls)  # type: ignore[attr-defined]
    return cls


def is_scripting() -> bool:
    """Return False; in programs it is true."""
    return False


def is_tracing() -> bool:
    """True if a trace is being recorded, by `trace` or torch.jit.trace."""
    torch = sys.modules.get("torch")
    return is_recording() or bool(torch is not None and torch._C._is_tracing())


def script_if_tracing(fn: Any) -> Any:
    """Compile the function if a trace calls it; otherwise run it in Python."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not is_tracing():
            return fn(*args, **kwargs)
        from . import script

        return script(fn)(*args, **kwargs)

    wrapper.__original_fn = fn  # type: ignore[attr-defined]
    wrapper.__script_if_tracing_wrapper = True  # type: ignore[attr-defined]
    return wrapper
