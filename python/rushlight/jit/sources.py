"""Source texts of live functions: the first line's number, linecache, and the compiler's own lexer; no `inspect`."""

from __future__ import annotations

import linecache
from types import FunctionType
from typing import Any


def unwrapped(fn: Any) -> Any:
    """The function that decorators made with functools.wraps stand for."""
    seen = 0
    while hasattr(fn, "__wrapped__") and seen < 100:
        fn = fn.__wrapped__
        seen += 1
    return fn


class Sources:
    """Texts that the unit has, by file."""

    def __init__(self, unit: Any) -> None:
        self._unit = unit
        self._files: dict[str, tuple[list[str], Any]] = {}

    def of_function(self, fn: FunctionType) -> Any:
        """(source, line) for Unit.define."""
        code = fn.__code__
        file = code.co_filename
        linecache.checkcache(file)
        lines = linecache.getlines(file, fn.__globals__)
        if not lines:
            raise OSError(
                f"Can't get source for {fn}. TorchScript requires source access in order to carry out compilation, "
                "make sure original .py files are available."
            )
        known = self._files.get(file)
        if known is None or (known[0] is not lines and known[0] != lines):
            known = (lines, self._unit.add_source(file, "".join(lines)))
            self._files[file] = known
        return known[1], code.co_firstlineno

    def overloads_above(self, fn: FunctionType) -> list[Any]:
        """(source, line) of each "@_overload def name" that stands above the function in its file."""
        source, line = self.of_function(fn)
        lines = self._files[fn.__code__.co_filename][0]
        found, decorated = [], 0
        for i, text in enumerate(lines[: line - 1], 1):
            word = text.strip()
            if word.startswith("@"):
                decorated = i if word.rpartition(".")[2].lstrip("@") in ("overload", "_overload") else 0
            elif word.startswith(f"def {fn.__name__}(") and decorated:
                found.append((source, decorated))
                decorated = 0
            elif word and not word.startswith("#"):
                decorated = 0
        return found

    def of_text(self, name: str, text: str, first_line: int = 1) -> Any:
        return self._unit.add_source(name, text, first_line)
