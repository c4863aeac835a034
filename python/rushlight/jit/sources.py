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

    def of_text(self, name: str, text: str, first_line: int = 1) -> Any:
        return self._unit.add_source(name, text, first_line)
