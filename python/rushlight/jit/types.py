"""Annotations as types: live objects, and texts that are resolved through a scope."""

from __future__ import annotations

import collections
import enum
import sys
import types
import typing
from typing import Any, Union

from .. import _rushlight
from . import kinds

_SIMPLE = {
    int: kinds.T_INT,
    float: kinds.T_FLOAT,
    bool: kinds.T_BOOL,
    str: kinds.T_STRING,
    complex: kinds.T_COMPLEX,
    None: kinds.T_NONE,
    type(None): kinds.T_NONE,
    Any: kinds.T_ANY,
}
_CONTAINERS = {
    list: kinds.T_LIST,
    dict: kinds.T_DICT,
    collections.OrderedDict: kinds.T_DICT,
    tuple: kinds.T_TUPLE,
}

_BARE = (
    *(getattr(typing, name) for name in ("Tuple", "List", "Dict", "Optional")),
    tuple,
    list,
    dict,
)


class Types:
    """Types of one unit."""

    def __init__(self, unit: Any, classes: Any) -> None:
        self.unit = unit
        self.classes = classes
        self._known: dict[Any, Any] = {key: unit.make_type(kind) for key, kind in _SIMPLE.items()}
        self._has_torch = False

    def simple(self, kind: int) -> Any:
        return self.unit.make_type(kind)

    def list_of(self, elem: Any) -> Any:
        return self.unit.make_type(kinds.T_LIST, (elem,))

    def dict_of(self, key: Any, value: Any) -> Any:
        return self.unit.make_type(kinds.T_DICT, (key, value))

    def tuple_of(self, elems: Any) -> Any:
        return self.unit.make_type(kinds.T_TUPLE, tuple(elems))

    def union_of(self, elems: Any) -> Any:
        return self.unit.make_type(kinds.T_UNION, tuple(elems))

    def _learn_torch(self) -> None:
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "jit"):
            return
        self._has_torch = True
        named = {
            kinds.T_TENSOR: """Tensor FloatTensor DoubleTensor HalfTensor ByteTensor CharTensor
                ShortTensor IntTensor LongTensor BoolTensor""",
            kinds.T_INT: "dtype layout memory_format qscheme SymInt",
            kinds.T_DEVICE: "device",
            kinds.T_GENERATOR: "Generator",
            kinds.T_STREAM: "Stream",
        }
        for kind, names in named.items():
            for name in names.split():
                self._known[getattr(torch, name)] = self.simple(kind)
        self._known[torch.nn.Parameter] = self.simple(kinds.T_TENSOR)
        self._known[torch.Size] = self.list_of(self.simple(kinds.T_INT))

    def of(self, annotation: Any, scope: Any) -> Any:
        """Return the Type of an annotation, or None if it is not a type."""
        if isinstance(annotation, _rushlight.Type):
            return annotation
        if not self._has_torch:
            self._learn_torch()
        try:
            found = self._known.get(annotation)
        except TypeError:  # not hashable
            found = None
        if found is not None:
            return found
        if isinstance(annotation, str):
            return self.unit.parse_type(annotation, scope)
        if isinstance(annotation, typing.ForwardRef):
            return self.unit.parse_type(annotation.__forward_arg__, scope)
        origin = typing.get_origin(annotation)
        if annotation in _BARE or annotation is getattr(
            sys.modules.get("torch._C"), "Future", self
        ):
            return None  # of what?
        if origin is not None:
            return self._generic(origin, typing.get_args(annotation), scope)
        if annotation is getattr(sys.modules.get("torch._awaits"), "_Await", self):
            # isinstance asks: of anything
            return self.unit.make_type(kinds.T_AWAIT, (self.simple(kinds.T_ANY),))
        if annotation is _rushlight.Tensor:
            return self.simple(kinds.T_TENSOR)
        if isinstance(annotation, type):
            return self.classes.type_of(annotation, scope)
        return None

    def _generic(self, origin: Any, args: tuple[Any, ...], scope: Any) -> Any:
        if origin in (Union, getattr(types, "UnionType", Union)):
            inner = [self.of(a, scope) for a in args]
            return None if None in inner else self.union_of(inner)
        if origin is typing.Final or getattr(origin, "__name__", "") == "Final":
            return self.of(args[0], scope) if args else None
        if origin is tuple and args == ((),):
            args = ()
        inner = [self.of(a, scope) for a in args]
        if None in inner:
            return None
        kind = _CONTAINERS.get(origin)
        if kind == kinds.T_TUPLE:
            return self.tuple_of(inner)
        if kind is None:
            others = {"Future": kinds.T_FUTURE, "Await": kinds.T_AWAIT, "_Await": kinds.T_AWAIT}
            kind = others.get(getattr(origin, "__name__", ""))
        fits = len(inner) == (2 if kind == kinds.T_DICT else 1)
        return self.unit.make_type(kind, tuple(inner)) if kind is not None and fits else None

    # -- From values, as torch infers attributes ---------------------------------------------------

    def infer(self, value: Any) -> Any:
        """Return the Type of a live value, or a text with the reason why there is none."""
        known = self._known.get(type(value))
        if known is not None and not isinstance(value, type):
            return known
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            return self.simple(kinds.T_TENSOR)
        if isinstance(value, enum.Enum):
            return self.classes.type_of(type(value))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self.classes.type_of(type(value))
        if isinstance(value, tuple):
            inner = [self.infer(v) for v in value]
            bad = next((t for t in inner if isinstance(t, str)), None)
            return bad or self.tuple_of(inner)
        if isinstance(value, list):
            if not value:
                return "List trace inputs must have elements"
            return self._infer_common(value, "List", self.list_of)
        if isinstance(value, dict):
            return self._infer_dict(value)
        if isinstance(value, type):
            return (
                f"Only tensors and (possibly nested) tuples of tensors, lists, or dicts are "
                f"supported, not {value!r}"
            )
        if torch is not None and isinstance(value, torch.nn.Module):
            return "Cannot infer concrete type of torch.nn.Module"
        if torch is not None and isinstance(value, torch.ScriptObject):
            name = value._type().qualified_name()
            return self.unit.find_type(name) or f"Class {name} is not known here"
        return self.classes.known_type(type(value)) or (
            "Only tensors and (possibly nested) tuples of tensors, lists, or dicts are supported "
            "as inputs or outputs of traced functions, but instead got value of type "
            f"{type(value).__name__}."
        )

    def _infer_common(self, values: Any, what: str, make: Any) -> Any:
        common = None
        for v in values:
            t = self.infer(v)
            if isinstance(t, str):
                return f"Could not infer type of list element: {t}" if what == "List" else t
            merged = t if common is None else self.unit.unify(common, t)
            if merged is None:
                said = f"{what} inputs to traced functions must have consistent"
                return f"{said} {'element ' * (what == 'List')}type. Found {common} and {t}"
            common = merged
        return make(common)

    def _infer_dict(self, value: dict[Any, Any]) -> Any:
        if not value:
            return "Dictionary inputs must have entries"
        key = self._infer_common(list(value.keys()), "Dictionary", lambda t: t)
        item = self._infer_common(list(value.values()), "Dictionary", lambda t: t)
        return next((t for t in (key, item) if isinstance(t, str)), None) or self.dict_of(key, item)
