"""Flags of decorators on functions and classes; torch's and Rushlight's are the same attributes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .qualified_name import qualified_name

IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
UNUSED = "unused (ignored and replaced with raising of an exception)"
EXPORT = "export (compile this function even if nothing calls it)"
DEFAULT = "default (compile if called from a exported function / forward)"
COPY_TO_SCRIPT_WRAPPER = (
    "if this method is not scripted, copy the python method onto the scripted model"
)
DROP = "_drop (function is fully ignored, declaration can be unscriptable)"


UNUSED_CALL = "Cannot call @unused methods"


def modifier(fn: Any) -> Any:
    """Return the flag's text; functions without one have DEFAULT."""
    fn = getattr(fn, "__func__", fn)
    mark = getattr(fn, "_torchscript_modifier", None)
    return DEFAULT if mark is None else getattr(mark, "value", mark)


IGNORED = (IGNORE, UNUSED, DROP)


def is_ignored(fn: Any) -> bool:
    return modifier(fn) in IGNORED


def is_dropped(fn: Any) -> bool:
    return modifier(fn) in (UNUSED, DROP)


def torch_internal() -> Any:
    """Return torch._jit_internal if torch is imported, otherwise None."""
    return sys.modules.get("torch._jit_internal")


def boolean_dispatch(fn: Any) -> Any:
    """Return torch's table entry {"if_true", "if_false", "index", "default", "arg_name"}, or
    None."""
    internal = torch_internal()
    if internal is None:
        return None
    try:
        return internal.boolean_dispatched.get(fn)
    except TypeError:
        return None


_overloads: dict[str, list[Any]] = {}
_method_overloads: dict[str, dict[str, list[Any]]] = {}


def add_overload(qualified: str, fn: Any) -> None:
    _overloads.setdefault(qualified, []).append(fn)


def overloads(qualified: str) -> list[Any]:
    """Return the declarations decorated with @_overload, torch's or Rushlight's."""
    own = _overloads.get(qualified)
    internal = torch_internal()
    theirs = internal._overloaded_fns.get(qualified) if internal is not None else None
    return own or theirs or []


def add_method_overload(qualified: str, class_name: str, fn: Any) -> None:
    _method_overloads.setdefault(qualified, {}).setdefault(class_name, []).append(fn)


def method_overloads(fn: Any) -> dict[str, list[Any]]:
    """Return a method's overloads by the name of the class that declared them."""
    internal = torch_internal()
    declared = internal._overloaded_methods if internal is not None else {}
    if not any(name.endswith(fn.__name__) for of in (declared, _method_overloads) for name in of):
        return {}
    name = qualified_name(fn)
    return {**declared.get(name, {}), **_method_overloads.get(name, {})}


class ScriptMethodStub:
    """A method decorated with `script_method`."""

    def __init__(self, rcb: Any, original_method: Callable[..., Any]) -> None:
        self.resolution_callback = rcb
        self.original_method = original_method
