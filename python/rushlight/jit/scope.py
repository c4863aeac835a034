"""Where a name is looked for: a function's closure, its globals, the builtins; or a frame's."""

from __future__ import annotations

import builtins
import linecache
import re
import typing
from types import CodeType, FunctionType
from typing import Any

_MISSING = object()


def _collect(annotation: Any, out: dict[str, Any]) -> None:
    """The classes in an annotation, by name."""
    if isinstance(annotation, type) and not typing.get_origin(annotation):
        out[annotation.__name__] = annotation
    for part in typing.get_args(annotation):
        _collect(part, out)


class Scope:
    """Names as live Python code sees them, and the defaults of the function that it is of."""

    __slots__ = ("cells", "extra", "fn", "globals", "hints", "is_overload", "locals")

    def __init__(
        self, fn: FunctionType | None = None, names: dict[str, Any] | None = None, local_names: dict[str, Any] | None = None
    ) -> None:
        self.fn = fn
        self.extra: dict[str, Any] | None = None  # of a class: its own name, which may not be bound yet, and the caller's
        self.hints: dict[str, Any] | None = None
        self.is_overload = False  # defaults that are not of a parameter's type are none
        self.globals = fn.__globals__ if fn is not None else names or {}
        self.locals = local_names
        self.cells = None
        if fn is not None and fn.__closure__:
            self.cells = dict(zip(fn.__code__.co_freevars, fn.__closure__, strict=True))

    def find(self, name: str, missing: Any = None) -> Any:
        if self.cells and name in self.cells:
            try:
                return self.cells[name].cell_contents
            except ValueError:  # not filled yet
                return missing if self.extra is None else self.extra.get(name, missing)
        if self.extra is not None and name in self.extra:
            return self.extra[name]
        if self.locals is not None and name in self.locals:
            return self.locals[name]
        found = self.globals.get(name, _MISSING)
        return getattr(builtins, name, missing) if found is _MISSING else found

    def find_dotted(self, dotted: str, missing: Any = None) -> Any:
        first, *rest = dotted.split(".")
        found = self.find(first, missing)
        if found is missing and self.fn is not None:
            found = self._hinted(first, missing)
        for name in rest:
            if found is missing:
                return missing
            found = getattr(found, name, missing)
        return found

    def _hinted(self, name: str, missing: Any) -> Any:
        """What the function's live annotations call so: a local class or alias is in no closure."""
        fn = self.fn
        assert fn is not None
        if self.hints is None:
            self.hints = {}
            for annotation in fn.__annotations__.values():
                _collect(annotation, self.hints)
        if name not in self.hints:
            lines = linecache.getlines(fn.__code__.co_filename, fn.__globals__)
            text = "".join(lines[fn.__code__.co_firstlineno - 1 : fn.__code__.co_firstlineno + 40])
            alias = re.escape(name) + r"\s*[,)=:\n]"
            argument = re.search(r"(\w+)\s*:\s*" + alias, text)
            where = argument.group(1) if argument else "return" if re.search(r"->\s*" + alias, text) else ""
            found = fn.__annotations__.get(where, missing)
            self.hints[name] = missing if isinstance(found, str) else found
        return self.hints[name]

    def default(self, name: str) -> Any:
        """(value,) of the parameter's default, or None."""
        fn = self.fn
        if fn is None:
            return None
        keyword = fn.__kwdefaults__
        if keyword and name in keyword:
            return (keyword[name],)
        values = fn.__defaults__
        if not values:
            return None
        code: CodeType = fn.__code__
        names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
        return (values[names.index(name)],) if name in names else None


class Either(Scope):
    """A module's names, then what someone else sees."""

    __slots__ = ("other",)

    def __init__(self, names: dict[str, Any], other: Any) -> None:
        super().__init__(names=names)
        self.other = other

    def find(self, name: str, missing: Any = None) -> Any:
        found = super().find(name, _MISSING)
        if found is not _MISSING:
            return found
        return missing if self.other is None else self.other.find_dotted(name, missing)


class Asking(Scope):
    """A function's names, for which someone is asked first."""

    __slots__ = ("ask",)

    def __init__(self, fn: FunctionType, ask: Any) -> None:
        super().__init__(fn)
        self.ask = ask

    def find(self, name: str, missing: Any = None) -> Any:
        found = self.ask(name)
        return super().find(name, missing) if found is None else found
