"""Why an attribute of a module does not take a value, in torch's words."""

from __future__ import annotations

from typing import Any

from .. import _rushlight
from . import kinds
from .door import door


def _signature(f: Any, owner: Any) -> str:
    arguments = ", ".join(f"{t} {name}" for name, t, _, _ in f.arguments[1:])
    return f"{f.schema_text.partition('(')[0]}({owner} self{', ' if arguments else ''}{arguments}) -> {f.result}"


def _fits(have: Any, wanted: Any) -> bool:
    """Can calls of the interface's method go to the class's?"""
    given, taken = [t for _, t, _, _ in wanted.arguments[1:]], [t for _, t, _, _ in have.arguments[1:]]
    names = [[a[0] for a in f.arguments[1:]] for f in (have, wanted)]
    return (
        names[0] == names[1]
        and all(g.isSubtypeOf(t) for g, t in zip(given, taken, strict=True))
        and have.result.isSubtypeOf(wanted.result)
    )


def not_compatible(of: Any, interface: Any) -> str:
    """Why objects of the class do not stand for the interface."""
    said = f"Object of type {of} is not compatible with interface {interface.annotation_str}\n"
    for name in interface.methods:
        have, wanted = of.method(name), interface.method(name)
        if have is None:
            return f"{said}Class '{of}' does not have method '{name}' but interface '{interface.annotation_str}' does\n"
        if not _fits(have, wanted):
            return (
                f"{said}Method on class '{of}' (1) is not compatible with interface '{interface.annotation_str}' (2)\n"
                f"  (1) {_signature(have, of)}\n  (2) {_signature(wanted, interface)}\n"
            )
    return said


def misfit(module: Any, name: str, value: Any) -> str:
    """What is said of a value that the module's attribute of that name does not take."""
    unit = door().unit
    t = next((t for have, t, _ in unit.type_of_object(module).attrs if have == name), None)
    if t is None:
        return f"there is no attribute '{name}' to set"
    if isinstance(value, _rushlight.Module):
        of = unit.type_of_object(value)
        if t.kind_number == kinds.T_INTERFACE:
            return not_compatible(of, t)
        return f"Expected a value of type '{t.annotation_str}' for field '{name}', but found '{of.annotation_str}'"
    return f"Could not cast attribute '{name}' to type {t.annotation_str}: Unable to cast {value} to {t.annotation_str}"
