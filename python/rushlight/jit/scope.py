"""Where a name is looked for: a function's closure, its globals, the builtins; or a frame's."""

from __future__ import annotations

import builtins
from types import CodeType, FunctionType
from typing import Any

_MISSING = object()


class Scope:
    """Names as live Python code sees them, and the defaults of the function that it is of."""

    __slots__ = ("cells", "fn", "globals", "is_overload", "locals")

    def __init__(
        self, fn: FunctionType | None = None, names: dict[str, Any] | None = None, local_names: dict[str, Any] | None = None
    ) -> None:
        self.fn = fn
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
                return missing
        if self.locals is not None and name in self.locals:
            return self.locals[name]
        found = self.globals.get(name, _MISSING)
        return getattr(builtins, name, missing) if found is _MISSING else found

    def find_dotted(self, dotted: str, missing: Any = None) -> Any:
        first, *rest = dotted.split(".")
        found = self.find(first, missing)
        for name in rest:
            if found is missing:
                return missing
            found = getattr(found, name, missing)
        return found

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
