"""Python classes as types of programs: script classes, interfaces, enums, NamedTuples,
dataclasses."""

from __future__ import annotations

import dataclasses
import enum
import sys
from types import FunctionType
from typing import Any, ForwardRef

from . import decorator_flags, kinds
from .frontend import UnknownTypeError
from .qualified_name import qualified_name
from .scope import Either, Scope
from .sources import unwrapped


def is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _tensor_class() -> Any:
    return getattr(sys.modules.get("torch"), "Tensor", ())


def add_property(define: Any, t: Any, name: str, member: property) -> list[Any]:
    """Declare a property's methods and return them."""
    parts = (("getter", member.fget), ("setter", member.fset))
    made = [
        define(unwrapped(fn), f"__{name}_{part}", self_type=t)
        for part, fn in parts
        if fn is not None
    ]
    t.add_property(name, made[0], made[1] if len(made) > 1 else None)
    return made


class Classes:
    """Classes of one unit, each compiled at its first use."""

    def __init__(self, entry: Any) -> None:
        self._entry = entry
        self._types: dict[type, Any] = {}
        self._named_tuples: dict[str, Any] = {}  # fields and their types, by qualified name
        self._open: set[type] = set()  # NamedTuples whose fields are being resolved
        self.recent: list[type] = []  # since the outermost script() began: forgotten when it fails

    def known_type(self, cls: type) -> Any:
        return self._types.get(cls)

    def remember(self, cls: type, t: Any) -> None:
        self._types[cls] = t
        self.recent.append(cls)
        self._entry.unit.register_class(t, cls)

    def forget_recent(self) -> None:
        for cls in self.recent:
            t = self._types.pop(cls, None)
            if t is not None:
                t.forget()
        self.recent = []

    def type_of(self, cls: type, scope: Any = None) -> Any:
        """Return the Type, made now if it is new; None if the class cannot be used in programs.
        `scope`: the caller's names."""
        found = self._types.get(cls)
        if found is not None:
            return found
        if issubclass(cls, enum.Enum):
            return self._enum(cls)
        if is_named_tuple(cls):
            return self._named_tuple(cls, scope)
        if getattr(cls, "__torch_script_interface__", None):
            return self._interface(cls)
        torch = sys.modules.get("torch")
        if torch is not None and issubclass(cls, torch.nn.Module):
            return None
        is_builtin = issubclass(cls, BaseException) or cls.__module__ == "builtins"
        if is_builtin or not self._is_plain(cls):
            return None
        if dataclasses.is_dataclass(cls):
            from .dataclass import refuse_unregistered

            refuse_unregistered(cls)
        return self.compile(cls)

    def whole_type_of(self, cls: type) -> Any:
        """Return the Type with its methods compiled; a class that fails is removed."""
        known = cls in self._types
        t = self.type_of(cls)
        if known or t is None or t.kind_number != kinds.T_CLASS:
            return t
        try:
            t.complete()
            for name in t.methods:
                t.method(name).compile()
        except BaseException:
            del self._types[cls]
            t.forget()
            raise
        return t

    @staticmethod
    def _is_plain(cls: type) -> bool:
        """True if it can be a script class: written in Python, with no base but object."""
        if decorator_flags.is_ignored(cls) or issubclass(cls, (tuple, list, dict)):
            return False
        return all(
            hasattr(m, "__code__") or hasattr(m, "__func__")
            for m in cls.__dict__.values()
            if callable(m) or isinstance(m, (staticmethod, classmethod))
        )

    # -- Enums and NamedTuples
    # -----------------------------------------------------------------------------

    def _enum(self, cls: Any) -> Any:
        members = list(cls.__members__.values())
        if not members:
            raise ValueError(f"No enum values defined for: '{cls.__class__}'")
        first = type(members[0].value)
        for i, m in enumerate(members):
            if type(m.value) is not first:
                raise RuntimeError(
                    f"Could not unify type list since element {i} of type {type(m.value).__name__} "
                    f"did not match the types before it ({first.__name__})"
                )
        t = self._entry.unit.add_class(qualified_name(cls), kinds.C_ENUM, cls)
        for name, member in cls.__members__.items():
            t.add_member(name, member.value)
        self.remember(cls, t)
        return t

    def _named_tuple(self, cls: Any, asking: Any) -> Any:
        if cls in self._open:
            raise AssertionError(
                f"Unsupported annotation: NamedTuple {cls.__name__} has a field of its own type"
            )
        self._open.add(cls)
        names = getattr(sys.modules.get(cls.__module__), "__dict__", {})
        try:
            return self._named_tuple_of(cls, Either(names, asking))
        finally:
            self._open.discard(cls)

    def _named_tuple_of(self, cls: Any, scope: Any) -> Any:
        annotations: dict[str, Any] = {}
        for c in reversed(cls.__mro__):
            annotations |= c.__dict__.get("__annotations__", {})
        tensor = self._entry.types.simple(kinds.T_TENSOR)
        defaults = getattr(cls, "_field_defaults", {})
        fields = []
        for name in cls._fields:
            if isinstance(defaults.get(name), _tensor_class()):
                raise RuntimeError(
                    "Tensors are not supported as default NamedTuple fields. Their mutability "
                    "could lead to potential memory aliasing problems"
                )
            t = self._field_type(cls, annotations[name], scope) if name in annotations else tensor
            fields.append((name, t, (defaults[name],)) if name in defaults else (name, t))
        name = qualified_name(cls)
        shape = [(field[0], str(field[1])) for field in fields]
        if self._named_tuples.setdefault(name, shape) != shape:
            raise RuntimeError(f"Can't redefine NamedTuple: {name}")
        made = self._entry.unit.add_class(name, kinds.C_NAMED_TUPLE, cls)
        for field in fields:
            made.add_field(*field)
        self.remember(cls, made)
        return made

    def _field_type(self, cls: Any, annotation: Any, scope: Any) -> Any:
        forward = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
        said = f"Unknown type annotation: '{annotation}' in NamedTuple {cls.__name__}"
        is_name = isinstance(forward, str) and forward.isidentifier()
        if is_name and forward not in ("Tensor", "Any") and scope.find(forward, scope) is scope:
            raise UnknownTypeError(
                f"{said}. Likely due to partial support for ForwardRef parameters in NamedTuples, "
                "see #95858. Issue occurred at "
            )
        t = self._entry.types.of(annotation, scope)
        if t is None:
            raise ValueError(said)
        return t

    # -- Interfaces
    # ------------------------------------------------------------------------------------------

    def _interface(self, cls: Any) -> Any:
        torch = sys.modules.get("torch")
        is_module = torch is not None and issubclass(cls, torch.nn.Module)
        kind = kinds.C_MODULE_INTERFACE if is_module else kinds.C_INTERFACE
        t = self._entry.unit.add_class(qualified_name(cls), kind, cls)
        self._types[cls] = t
        self.recent.append(cls)
        for name, fn in list(cls.__dict__.items()):
            if isinstance(fn, FunctionType):
                self._entry.define(fn, name, self_type=t, flags=kinds.DECLARED_ONLY)
        return t

    # -- Script classes
    # ----------------------------------------------------------------------------------------

    def compile(self, cls: Any, names: dict[str, Any] | None = None) -> Any:
        """Declare the methods of a script class; they are compiled with the code that uses them.
        `names`: the caller's names."""
        found = self._types.get(cls)
        if found is not None:
            return found
        t = self._entry.unit.add_class(qualified_name(cls), kinds.C_SCRIPT, cls)
        self.remember(cls, t)
        if dataclasses.is_dataclass(cls):
            from .dataclass import synthesize

            made = synthesize(self._entry, cls, t)
        else:
            made = set()
        for name in sorted(cls.__dict__):
            if name not in made:
                self._member(cls, t, name, cls.__dict__[name], {**(names or {}), cls.__name__: cls})
        return t

    def _member(self, cls: Any, t: Any, name: str, member: Any, names: dict[str, Any]) -> None:
        def define(fn: Any, *args: Any, **kwargs: Any) -> Any:
            scope = Scope(fn)
            scope.extra = names
            return self._entry.define(fn, *args, scope=scope, **kwargs)

        if name == "__new__" or decorator_flags.modifier(member) == decorator_flags.DROP:
            return
        is_function = isinstance(member, FunctionType)
        if is_function and member.__name__ not in cls.__dict__:
            return
        if isinstance(member, (staticmethod, classmethod)):
            flag = kinds.STATIC if isinstance(member, staticmethod) else kinds.CLASS_METHOD
            fn = unwrapped(member.__func__)
            if not decorator_flags.is_ignored(fn):
                define(fn, name, self_type=t, flags=flag)
        elif isinstance(member, property):
            unused = getattr(cls, "__jit_unused_properties__", ())
            if decorator_flags.is_ignored(member.fget) or name in unused:
                return
            add_property(define, t, name, member)
        elif is_function and not decorator_flags.is_ignored(member):
            define(unwrapped(member), name, self_type=t)
        elif is_function and decorator_flags.is_dropped(member):
            define(unwrapped(member), name, self_type=t, drop_body=decorator_flags.UNUSED_CALL)

    def attribute(self, cls: Any, name: str) -> Any:
        """Return an attribute of the class's objects that its type does not have."""
        member = cls.__dict__.get(name) if isinstance(cls, type) else None
        if isinstance(member, FunctionType) and decorator_flags.is_ignored(member):
            return None
        if isinstance(member, classmethod):
            return (kinds.HIDDEN, f"class method '{name}' cannot be called in TorchScript")
        is_method = callable(member) or isinstance(member, (property, staticmethod))
        if member is None or is_method:
            return None
        return (
            kinds.HIDDEN,
            f"'{self._types[cls].qualified}' object has no attribute or method '{name}'. '{name}' "
            "is defined as a class attribute which currently is not supported. Consider converting "
            "this to an instance attribute.",
        )
