"""Instances of script classes that belong to the program: rushlight.script(instance)."""

from __future__ import annotations

from typing import Any

from .entry import entry


class RecursiveScriptClass:
    """An object of a compiled class: its attributes and methods are the program's."""

    _rush_is_scripted = True

    def __init__(self, obj: Any) -> None:
        object.__setattr__(self, "_c", obj)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._c, name)

    def __setattr__(self, name: str, value: Any) -> None:
        entry().unit.set_attr(self._c, name, value)


def _forward(name: str) -> Any:
    def method(self: RecursiveScriptClass, *args: Any) -> Any:
        try:
            found = getattr(self._c, name)
        except AttributeError:
            raise NotImplementedError(
                f"{type(self).__name__}: the class has no method {name}"
            ) from None
        return found(*args)

    method.__name__ = name
    return method


for _name in (
    "iter len neg mul add sub pow truediv mod ne eq lt gt le ge and or xor contains getitem "
    "setitem call int float bool str enter exit"
).split():
    setattr(RecursiveScriptClass, f"__{_name}__", _forward(f"__{_name}__"))


def script_object(obj: Any) -> RecursiveScriptClass:
    """Return an object of the compiled class with the instance's state."""
    d = entry()
    if type(obj).__module__ == "builtins":
        raise TypeError(f"{type(obj)!r} is a built-in class")
    t = d.class_(type(obj))
    made = t.create()
    for name, _, _ in t.attrs:
        d.unit.set_attr(made, name, getattr(obj, name))
    return RecursiveScriptClass(made)
