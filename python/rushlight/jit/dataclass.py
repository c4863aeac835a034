"""Methods that dataclasses generate, as text for the compiler."""

from __future__ import annotations

import ast
import dataclasses
import sys
import typing
from typing import Any

from .scope import Scope


def _annotation(scope: Scope, field: Any, number: int) -> str:
    if isinstance(field.type, str):
        return field.type
    t = field.type.type if isinstance(field.type, dataclasses.InitVar) else field.type
    assert scope.locals is not None
    scope.locals[f"_type_{number}"] = t
    return f"_type_{number}"


def _init(cls: Any, scope: Scope) -> str:
    if any(f.default_factory is not dataclasses.MISSING for f in dataclasses.fields(cls)):
        raise NotImplementedError(
            "Default factory initializers are not supported in TorchScript dataclasses"
        )
    params, body, given = ["self"], list[str](), list[str]()
    kept = {
        f.name for f in dataclasses.fields(cls)
    }  # others are arguments of __post_init__, or the class's own
    for i, f in enumerate(cls.__dataclass_fields__.values()):
        is_argument = isinstance(f.type, dataclasses.InitVar)
        if f.name not in kept and not is_argument:
            continue
        if f.init:
            default = "" if f.default is dataclasses.MISSING else f" = {f.default!r}"
            params.append(f"{f.name}: {_annotation(scope, f, i)}{default}")
            (given if is_argument else body).append(
                f.name if is_argument else f"    self.{f.name} = {f.name}"
            )
        elif f.default is not dataclasses.MISSING:
            body.append(f"    self.{f.name} = {f.default!r}")
    if hasattr(cls, "__post_init__"):
        body.append(f"    self.__post_init__({', '.join(given)})")
    return f"def __init__({', '.join(params)}):\n" + "\n".join(body or ["    pass"]) + "\n"


_ORDER = {
    "__lt__": ("<", False),
    "__le__": ("<", True),
    "__gt__": (">", False),
    "__ge__": (">", True),
}


def _is_optional(t: Any) -> bool:
    if isinstance(t, str):
        return "Optional" in t or "None" in t
    return type(None) in typing.get_args(t)


def _compare(name: str, cls: Any) -> str:
    """Compare fields in turn: None equals only None, and has no order."""
    op, last = _ORDER.get(name, ("!=", True))
    inner = ["if val1 != val2:", "    return False"]
    if name in _ORDER:
        inner = [
            f"if val1 {op} val2:",
            "    return True",
            f"elif val2 {op} val1:",
            "    return False",
        ]
    one = (
        f"raise TypeError('Cannot compare {cls.__name__} with None')"
        if name in _ORDER
        else "return False"
    )
    lines = [f"def {name}(self, other: _cls) -> bool:"]
    for f in dataclasses.fields(cls):
        if not f.compare:
            continue
        lines += [f"    val1 = self.{f.name}", f"    val2 = other.{f.name}"]
        if not _is_optional(f.type):
            lines += ["    " + line for line in inner]
            continue
        lines += [
            "    if val1 is not None and val2 is not None:",
            *("        " + line for line in inner),
        ]
        lines += ["    elif (val1 is None) != (val2 is None):", f"        {one}"]
    return "\n".join([*lines, f"    return {last}", ""])


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
    for name in ("__init__", "__eq__", *_ORDER):
        if name not in generated:
            continue
        text = _init(cls, scope) if name == "__init__" else _compare(name, cls)
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
