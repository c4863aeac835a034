"""Lookup of names: in a function's closure, its globals, the builtins; or in a frame."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
import typing
from types import CodeType, FunctionType
from typing import Any

_MISSING = object()


def _pair(node: Any, annotation: Any, out: dict[str, Any]) -> None:
    """Map the names in an annotation's text to the objects in the annotation itself."""
    if isinstance(node, ast.Name) and not isinstance(annotation, str):
        out.setdefault(node.id, annotation)
    elif isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part, inner in zip(parts, typing.get_args(annotation), strict=False):
            _pair(part, inner, out)


def _named_in_text(fn: FunctionType) -> dict[str, Any]:
    """Return the names in the text of the function's annotations: aliases that are in no
    closure."""
    out: dict[str, Any] = {}
    try:
        head = ast.parse(textwrap.dedent(inspect.getsource(fn))).body[0]
    except (OSError, SyntaxError, IndexError):
        return out
    if isinstance(head, ast.FunctionDef):
        for arg in (*head.args.posonlyargs, *head.args.args, *head.args.kwonlyargs):
            _pair(arg.annotation, fn.__annotations__.get(arg.arg), out)
        _pair(head.returns, fn.__annotations__.get("return"), out)
    return out


def _collect(annotation: Any, out: dict[str, Any]) -> None:
    """Collect the classes in an annotation, by name."""
    if isinstance(annotation, type) and not typing.get_origin(annotation):
        out[annotation.__name__] = annotation
    for part in typing.get_args(annotation):
        _collect(part, out)


class Scope:
    """Names as live Python code sees them, and the defaults of the function."""

    __slots__ = ("cells", "extra", "fn", "globals", "hints", "is_overload", "locals")

    def __init__(
        self,
        fn: FunctionType | None = None,
        names: dict[str, Any] | None = None,
        local_names: dict[str, Any] | None = None,
    ) -> None:
        self.fn = fn
        self.extra: dict[str, Any] | None = (
            None  # of a class: its own name, which may not be bound yet, and the caller's
        )
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
        """Return the object of that name in the function's live annotations: a local class or alias
        is in no closure."""
        fn = self.fn
        assert fn is not None
        if self.hints is None:
            self.hints = {}
            for annotation in fn.__annotations__.values():
                _collect(annotation, self.hints)
            for alias, annotation in _named_in_text(fn).items():
                self.hints.setdefault(alias, annotation)
        return self.hints.get(name, missing)

    def default(self, name: str) -> Any:
        """Return (value,) for the parameter's default, or None."""
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
    """A module's names, then the names of another scope."""

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
    """A function's names, after those of another lookup."""

    __slots__ = ("ask",)

    def __init__(self, fn: FunctionType, ask: Any) -> None:
        super().__init__(fn)
        self.ask = ask

    def find(self, name: str, missing: Any = None) -> Any:
        found = self.ask(name)
        return super().find(name, missing) if found is None else found
