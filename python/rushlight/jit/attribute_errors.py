"""Error messages for values that an attribute of a module cannot have, with torch's wording."""

from __future__ import annotations

from typing import Any

from .. import _rushlight
from . import kinds
from .entry import entry


def _signature(f: Any, owner: Any) -> str:
    arguments = ", ".join(f"{t} {name}" for name, t, _, _ in f.arguments[1:])
    return (
        f"{f.schema_text.partition('(')[0]}({owner} self{', ' if arguments else ''}{arguments}) "
        f"-> {f.result}"
    )


def _fits(have: Any, wanted: Any) -> bool:
    """True if calls of the interface's method can call the class's."""
    given, taken = wanted.arguments[1:], have.arguments[1:]
    if [a[0] for a in given] != [a[0] for a in taken]:
        return False
    fits = all(g[1].isSubtypeOf(t[1]) for g, t in zip(given, taken, strict=True))
    return fits and have.result.isSubtypeOf(wanted.result)


def not_compatible(of: Any, interface: Any) -> str:
    """Return why objects of the class do not implement the interface."""
    shown = interface.annotation_str
    said = f"Object of type {of} is not compatible with interface {shown}\n"
    for name in interface.methods:
        have, wanted = of.method(name), interface.method(name)
        if have is None:
            return (
                f"{said}Class '{of}' does not have method '{name}' but interface '{shown}' does\n"
            )
        if not _fits(have, wanted):
            return (
                f"{said}Method on class '{of}' (1) is not compatible with interface '{shown}' (2)\n"
                f"  (1) {_signature(have, of)}\n  (2) {_signature(wanted, interface)}\n"
            )
    return said


# lists of these are converted at once
_WHOLE = (kinds.T_INT, kinds.T_FLOAT, kinds.T_BOOL, kinds.T_TENSOR)
_PLAIN: dict[int, Any] = {
    kinds.T_INT: int,
    kinds.T_FLOAT: (int, float),
    kinds.T_BOOL: bool,
    kinds.T_STRING: str,
    kinds.T_COMPLEX: complex,
}


def _cannot(value: Any, t: Any) -> str | None:
    """Return why the value does not have the type; None if it has it, or if the reason is not
    known."""
    kind = t.kind_number
    if kind == kinds.T_NONE:
        return f"Cannot cast {value} to None"
    if kind == kinds.T_OPTIONAL:
        return None if value is None else _cannot(value, t.elems[0])
    is_whole = kind == kinds.T_LIST and t.elems[0].kind_number in _WHOLE
    if kind in (kinds.T_LIST, kinds.T_TUPLE, kinds.T_DICT) and not is_whole:
        try:
            items: Any = dict(value).items() if kind == kinds.T_DICT else list(value)
            items = [x for pair in items for x in pair] if kind == kinds.T_DICT else items
        except (TypeError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        if kind == kinds.T_TUPLE and len(items) != len(t.elems):
            return None
        whys = (_cannot(item, t.elems[i % len(t.elems)]) for i, item in enumerate(items))
        return next((why for why in whys if why is not None), None)
    if kind not in (*_PLAIN, kinds.T_LIST):
        return None
    if isinstance(value, _PLAIN.get(kind, ())):
        if kind != kinds.T_INT or -(2**63) <= value < 2**63:
            return None
    return (
        f"Unable to cast Python instance of type {type(value)} to C++ type '?' "
        "(#define PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for details)"
    )


def not_an_object(value: Any) -> str:
    """Return the error for a value that is not of a program's class where an interface is
    expected."""
    return (
        f"Assigning the object {value} to an interface fails because the value is not a "
        "TorchScript compatible type, did you forget toturn it into a user defined TorchScript "
        "class?"
    )


def _bad_attribute(value: Any, t: Any) -> str | None:
    """Return the first attribute of an object of a script class whose value does not have the
    attribute's type."""
    if t.kind_number != kinds.T_CLASS:
        return None
    for name, of, _ in t.attrs:
        item = getattr(value, name, value)
        if item is value:
            return f"missing attribute {name}"
        try:
            entry().unit.convert(item, of)
        except TypeError:
            why = _cannot(item, of) or f"Unable to cast {item} to {of.annotation_str}"
            return f"Could not cast attribute '{name}' to type {of.annotation_str}: {why}"
    return None


def _attribute_type(module: Any, name: str) -> Any:
    return next(
        (t for have, t, _ in entry().unit.type_of_object(module).attrs if have == name), None
    )


def converted(module: Any, name: str, value: Any) -> Any:
    """Convert a value as torch does for the attribute: bools from values with a truth value, tuples
    from lists."""
    kind = getattr(_attribute_type(module, name), "kind_number", None)
    if kind == kinds.T_BOOL and (value is None or hasattr(type(value), "__bool__")):
        return bool(value)
    return tuple(value) if kind == kinds.T_TUPLE and isinstance(value, list) else value


def assigned(module: Any, name: str, value: Any) -> bool:
    """Set the attribute if the value is a member of its enum; return whether it was."""
    t = _attribute_type(module, name)
    if t is None or t.kind_number != kinds.T_ENUM:
        return False
    try:
        entry().unit.set_attr(module, name, value)
    except RuntimeError:
        return False
    return True


def attribute_error(module: Any, name: str, value: Any) -> str:
    """Return the error for a value that the module's attribute of that name cannot have."""
    unit, t = entry().unit, _attribute_type(module, name)
    if t is None:
        return f"there is no attribute '{name}' to set"
    if isinstance(value, _rushlight.Module):
        of = unit.type_of_object(value)
        if t.kind_number == kinds.T_INTERFACE:
            return not_compatible(of, t)
        return (
            f"Expected a value of type '{t.annotation_str}' for field '{name}', but found "
            f"'{of.annotation_str}'"
        )
    if t.kind_number == kinds.T_INTERFACE:
        of = entry().classes.known_type(type(value))
        why: Any = not_an_object(value) if of is None else not_compatible(of, t)
    else:
        why = _cannot(value, t) or _bad_attribute(value, t)
    why = why or f"Unable to cast {value} to {t.annotation_str}"
    return f"Could not cast attribute '{name}' to type {t.annotation_str}: {why}"
