"""Methods that dataclasses generate, as text that the compiler reads."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from .scope import Scope


def _annotation(scope: Scope, field: Any, number: int) -> str:
    if isinstance(field.type, str):
        return field.type
    t = field.type.type if isinstance(field.type, dataclasses.InitVar) else field.type
    scope.locals[f"_type_{number}"] = t
    return f"_type_{number}"


def _init(cls: Any, scope: Scope) -> str:
    if any(f.default_factory is not dataclasses.MISSING for f in dataclasses.fields(cls)):
        raise NotImplementedError("Default factory initializers are not supported in TorchScript dataclasses")
    params, body, given = ["self"], [], []
    kept = {f.name for f in dataclasses.fields(cls)}  # others are arguments of __post_init__, or the class's own
    for i, f in enumerate(cls.__dataclass_fields__.values()):
        is_argument = isinstance(f.type, dataclasses.InitVar)
        if f.name not in kept and not is_argument:
            continue
        if f.init:
            default = "" if f.default is dataclasses.MISSING else f" = {f.default!r}"
            params.append(f"{f.name}: {_annotation(scope, f, i)}{default}")
            (given if is_argument else body).append(f.name if is_argument else f"    self.{f.name} = {f.name}")
        elif f.default is not dataclasses.MISSING:
            body.append(f"    self.{f.name} = {f.default!r}")
    if hasattr(cls, "__post_init__"):
        body.append(f"    self.__post_init__({', '.join(given)})")
    return f"def __init__({', '.join(params)}):\n" + "\n".join(body or ["    pass"]) + "\n"


def _compare(name: str, cls: Any, op: str, last: str) -> str:
    lines = [f"def {name}(self, other: _cls) -> bool:"]
    for f in dataclasses.fields(cls):
        if f.compare:
            lines.append(f"    val1 = self.{f.name}\n    val2 = other.{f.name}")
            if name == "__eq__":
                lines.append("    if not (val1 == val2):\n        return False")
            else:
                lines.append(f"    if val1 {op} val2:\n        return True\n    elif val1 != val2:\n        return False")
    return "\n".join(lines) + f"\n    return {last}\n"


def synthesize(door: Any, cls: Any, t: Any) -> set[str]:
    """Defines what @dataclass made; the names that are settled with that."""
    scope = Scope(names=getattr(sys.modules.get(cls.__module__), "__dict__", {}), local_names={"_cls": cls, cls.__name__: cls})
    texts = {"__init__": _init(cls, scope)}
    params = cls.__dataclass_params__
    if params.eq and "__eq__" in cls.__dict__ and getattr(cls.__dict__["__eq__"], "__code__", None) is not None:
        texts["__eq__"] = _compare("__eq__", cls, "==", "True")
    if params.order:
        for name, op, last in (
            ("__lt__", "<", "False"),
            ("__le__", "<", "True"),
            ("__gt__", ">", "False"),
            ("__ge__", ">", "True"),
        ):
            texts[name] = _compare(name, cls, op, last)
    for name, text in texts.items():
        own = cls.__dict__.get(name)
        if own is not None and own.__code__.co_filename != "<string>":
            continue  # written by the user
        source = door.sources.of_text(f"<dataclass {cls.__name__}.{name}>", text)
        door.unit.define(name, source, 1, scope, t)
    generated = {n for n, m in cls.__dict__.items() if getattr(getattr(m, "__code__", None), "co_filename", "") == "<string>"}
    return set(texts) | generated | {"__repr__", "__hash__", "__setattr__", "__delattr__", "__replace__"}
