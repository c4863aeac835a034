"""Source texts of live functions: found by the first line's number, linecache, and the compiler's
own lexer, without `inspect`."""

from __future__ import annotations

import linecache
import os
import re
import sys
import typing
from types import FunctionType
from typing import Any

_CODING = re.compile(rb"(?:[^\n]*\n)?[ \t\f]*#[^\n]*coding[:=][ \t]*(?!utf-?8)", re.IGNORECASE)


def unwrapped(fn: Any) -> Any:
    """Return the function inside decorators made with functools.wraps."""
    seen = 0
    while hasattr(fn, "__wrapped__") and seen < 100:
        fn = fn.__wrapped__
        seen += 1
    return fn


def _read(file: str) -> str | None:
    """Return the text of a file in UTF-8; None if it is not UTF-8, or declares another encoding."""
    try:
        with open(file, "rb") as f:
            data = f.read()
        return None if _CODING.match(data) else data.decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError):
        return None


class Sources:
    """The texts of the unit, by file."""

    def __init__(self, unit: Any) -> None:
        self._unit = unit
        self._files: dict[
            str, tuple[Any, Any, str]
        ] = {}  # what tells whether it changed, the source, its text

    def _of_file(self, file: str) -> Any:
        """Return the source of a file that linecache does not have: read as a whole, which is
        faster than by lines."""
        if file in linecache.cache:
            return None
        try:
            state = os.stat(file)
        except OSError:
            return None
        key = (state.st_mtime_ns, state.st_size)
        known = self._files.get(file)
        if known is not None and known[0] == key:
            return known[1]
        text = _read(file)
        return None if text is None else self._keep(file, key, text)

    def _of_lines(self, fn: FunctionType, file: str) -> Any:
        """Return the source of a text in linecache: it may be in no file."""
        linecache.checkcache(file)
        lines = linecache.getlines(file, fn.__globals__)
        if not lines:
            raise OSError(
                f"Can't get source for {fn}. TorchScript requires source access in order to carry "
                "out compilation, make sure original .py files are available."
            )
        known = self._files.get(file)
        if known is not None and known[0] is lines:
            return known[1]
        text = "".join(lines)
        return known[1] if known is not None and known[2] == text else self._keep(file, lines, text)

    def _keep(self, file: str, key: Any, text: str) -> Any:
        self._files[file] = (key, self._unit.add_source(file, text), text)
        return self._files[file][1]

    def of_function(self, fn: FunctionType) -> Any:
        """Return (source, line) for Unit.define."""
        file = fn.__code__.co_filename
        return self._of_file(file) or self._of_lines(fn, file), fn.__code__.co_firstlineno

    def overloads_above(self, fn: FunctionType) -> list[Any]:
        """Return (source, line) of each "@_overload def name" above the function in its file."""
        source, line = self.of_function(fn)
        lines = self._files[fn.__code__.co_filename][2].splitlines()
        found, decorated = [], 0
        for i, text in enumerate(lines[: line - 1], 1):
            word = text.strip()
            if word.startswith("@"):
                decorated = (
                    i if word.rpartition(".")[2].lstrip("@") in ("overload", "_overload") else 0
                )
            elif word.startswith(f"def {fn.__name__}(") and decorated:
                found.append((source, decorated))
                decorated = 0
            elif word and not word.startswith("#"):
                decorated = 0
        return found

    def function_of_text(self, text: str) -> Any:
        """Return a function with the names of torch and typing, whose text can be found again."""
        file = f"<ignored {len(self._files)} {hash(text)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        names = {**vars(typing), "torch": sys.modules.get("torch")}
        exec(compile(text, file, "exec"), names)  # noqa: S102 -- the author's own code
        return names[text[4 : text.index("(")]]

    def of_text(self, name: str, text: str, first_line: int = 1) -> Any:
        return self._unit.add_source(name, text, first_line)
