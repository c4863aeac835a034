"""The names of Python's objects in programs."""

from __future__ import annotations

import enum
from typing import Any


def qualified_name(obj: Any) -> str:
    """Return the object's name in programs: "__torch__.module.name"."""
    own = getattr(obj, "_jit_override_qualname", None)
    if own is not None:
        return own
    compiled = getattr(obj, "qualified_name", None)
    if isinstance(compiled, str):
        return compiled
    if getattr(obj, "__name__", None):
        name = obj.__name__
    elif isinstance(obj, enum.Enum):
        name = obj.name
    else:
        raise RuntimeError("Could not get name of python class object")
    if name == "<lambda>":
        name = "_lambda"
    module = obj.__module__
    if module == "torch._classes":
        return obj.qualified_name
    if module is None:
        raise RuntimeError(
            f"Could not get qualified name for class '{name}': __module__ can't be None."
        )
    module = "__torch__" if module == "__main__" else "__torch__." + module
    if "." in name:
        raise RuntimeError(
            f"Could not get qualified name for class '{name}': '{name}' is not a valid identifier"
        )
    return f"{module}.{name}"
