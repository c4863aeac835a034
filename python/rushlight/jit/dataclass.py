"""Methods that dataclasses generate, as text for the compiler."""

from __future__ import annotations

import ast
import dataclasses
import sys
import typing
from typing import Any

from .scope import Scope

_METHODS = ("__init__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__")


def _is_optional(t: Any) -> bool:
    if isinstance(t, str):
        return "Optional" in t or "None" in t
    return type(None) in typing.get_args(t)


def _fields(cls: Any, scope: Scope) -> tuple[Any, ...]:
    """Return the rows of Unit.dataclass_method; types that are objects get names in the scope."""
    kept, rows = {f.name for f in dataclasses.fields(cls)}, []
    for i, f in enumerate(cls.__dataclass_fields__.values()):
        is_argument = isinstance(f.type, dataclasses.InitVar)
        if f.name not in kept and not is_argument:
            continue  # the class's own
        annotation = f.type
        if not isinstance(annotation, str):
            annotation = f"_type_{i}"
            scope.locals[annotation] = f.type.type if is_argument else f.type  # type: ignore[index]
        value = None if f.default is dataclasses.MISSING else repr(f.default)
        is_compared, is_optional = f.compare and not is_argument, _is_optional(f.type)
        rows.append((f.name, annotation, value, is_argument, f.init, is_compared, is_optional))
    return tuple(rows)


def _is_generated(method: Any) -> bool:
    return getattr(getattr(method, "__code__", None), "co_filename", "") == "<string>"


def synthesize(entry: Any, cls: Any, t: Any) -> set[str]:
    """Define the methods that @dataclass generated, and return their names. Methods that the author
    wrote are not replaced."""
    generated = {name for name, method in cls.__dict__.items() if _is_generated(method)}
    if "__delattr__" in generated:
        raise OSError(
            f"Can't get source for {cls.__delattr__}. TorchScript requires source access in order "
            "to carry out compilation, make sure original .py files are available."
        )
    scope = Scope(
        names=getattr(sys.modules.get(cls.__module__), "__dict__", {}),
        local_names={"_cls": cls, cls.__name__: cls},
    )
    if "__init__" in generated and any(
        f.default_factory is not dataclasses.MISSING for f in dataclasses.fields(cls)
    ):
        raise NotImplementedError(
            "Default factory initializers are not supported in TorchScript dataclasses"
        )
    fields = _fields(cls, scope) if generated & {*_METHODS} else ()
    for name in _METHODS:
        if name not in generated:
            continue
        text = entry.unit.dataclass_method(
            cls.__name__, "_cls", name, fields, hasattr(cls, "__post_init__")
        )
        try:
            ast.parse(text)
        except SyntaxError as error:
            raise RuntimeError(
                f"TorchScript failed to synthesize dataclass method '{name}' for class "
                f"'{cls.__name__}'. "
                "Please file a bug report at <https://github.com/pytorch/pytorch/issues>"
            ) from error
        source = entry.sources.of_text(f"<dataclass {cls.__name__}.{name}>", text)
        entry.unit.define(name, source, 1, scope, t)
    return generated | {"__repr__", "__hash__", "__setattr__", "__delattr__", "__replace__"}


def refuse_unregistered(cls: Any) -> None:
    """Refuse a dataclass that was not passed to script(), torch's or Rushlight's."""
    state = sys.modules.get("torch.jit._state")
    if state is not None and state._get_script_class(cls) is not None:
        return
    for method in cls.__dict__.values():
        if _is_generated(getattr(method, "__wrapped__", method)):
            raise OSError(
                f"Failed to get source for {method} using inspect.getsource\nGive the dataclass to "
                f"script() first."
            )
