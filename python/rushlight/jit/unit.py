"""CompilationUnit: functions from a text, whose other names are those of the caller."""

from __future__ import annotations

import re
import sys
from typing import Any

from .door import Door, door
from .functions import ScriptFunction
from .scope import Scope

_DEF = re.compile(r"^def[ \t]+(\w+)", re.MULTILINE)
_OTHER = re.compile(r"^(?!def\b)[^\s#)\]}].*", re.MULTILINE)


class _Callback(Scope):
    """Names through a function that gives an object or None."""

    __slots__ = ("rcb",)

    def __init__(self, rcb: Any, names: dict[str, Any]) -> None:
        super().__init__(names={}, local_names=names)
        self.rcb = rcb

    def find(self, name: str, missing: Any = None) -> Any:
        assert self.locals is not None
        if name in self.locals:
            return self.locals[name]
        found = self.rcb(name)
        return missing if found is None else found


class CompilationUnit:
    """Functions compiled from a text; each is an attribute.

    Names that the text does not define are looked up where the unit is made: locals, then globals, then builtins.
    """

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        self.__dict__["_functions"] = {}
        if lang is not None:
            self.define(lang, None, _frames_up + 1)

    def define(self, lang: str, rcb: Any = None, _frames_up: int = 0) -> None:
        """More functions; a name that is there already is an error."""
        frame = sys._getframe(_frames_up + 1)
        known: dict[str, ScriptFunction] = self.__dict__["_functions"]
        scope = (
            _Callback(rcb, dict(known))
            if rcb is not None
            else Scope(names=frame.f_globals, local_names={**known, **frame.f_locals})
        )
        del frame
        d = door()
        made = d.outermost(lambda: self._compile(d, lang, scope))
        known.update(made)

    def _compile(self, d: Door, lang: str, scope: Scope) -> dict[str, ScriptFunction]:
        first = _DEF.search(lang)
        other = _OTHER.search(lang)
        if other is not None and (first is None or other.start() < first.start()):
            line = lang.count("\n", 0, other.start()) + 1
            word = re.match(r"\w+|.", other.group())
            raise RuntimeError(
                f"expected def but found {word.group() if word else ''!r} here:\n"
                f'  File "<string>", line {line}\n{other.group()}\n'
                f"{'~' * len(word.group() if word else '')} <--- HERE\n"
            )
        source = d.sources.of_text("<string>", lang)
        made: dict[str, ScriptFunction] = {}
        for found in _DEF.finditer(lang):
            name = found.group(1)
            if name in made or name in self.__dict__["_functions"]:
                raise RuntimeError(f"method '{name}' already defined.")
            f = d.unit.define(f"__torch__.{name}", source, lang.count("\n", 0, found.start()) + 1, scope)
            made[name] = ScriptFunction(f)
            made[name].text_name = name
            assert scope.locals is not None
            scope.locals[name] = made[name]
        for f in made.values():
            f.compile()
        return made

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__["_functions"].get(name)
        if found is None:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        return found

    def find_function(self, name: str) -> Any:
        """The function, or None."""
        return self.__dict__["_functions"].get(name.removeprefix("__torch__."))

    def get_functions(self) -> list[Any]:
        return list(self.__dict__["_functions"].values())

    def drop_all_functions(self) -> None:
        self.__dict__["_functions"].clear()

    def set_optimized(self, should_optimize: bool) -> None:
        """Has no effect: results do not depend on it."""
