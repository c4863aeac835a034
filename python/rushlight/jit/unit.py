"""CompilationUnit: functions from a text; its other names are looked up in the caller's frame."""

from __future__ import annotations

import sys
from typing import Any

from .. import _rushlight, library
from .entry import entry
from .functions import ScriptFunction
from .scope import Scope


class _Callback(Scope):
    """Names through a function that returns an object or None."""

    __slots__ = ("rcb",)

    def __init__(self, rcb: Any) -> None:
        super().__init__(names={})
        self.rcb = rcb

    def find(self, name: str, missing: Any = None) -> Any:
        found = self.rcb(name)
        return missing if found is None else found


class CompilationUnit:
    """Functions compiled from a text; each is an attribute.

    Names that the text does not define are looked up where the unit is made: locals, then globals,
    then builtins.
    """

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        self.__dict__["_functions"] = {}
        if lang is not None:
            self.define(lang, None, _frames_up + 1)

    def define(self, lang: str, rcb: Any = None, _frames_up: int = 0) -> None:
        """Add functions; a name that exists already is an error."""
        frame = sys._getframe(_frames_up + 1)
        known: dict[str, ScriptFunction] = self.__dict__["_functions"]
        scope = (
            _Callback(rcb)
            if rcb is not None
            else Scope(names=frame.f_globals, local_names=frame.f_locals)
        )
        del frame
        library.adopt_torch()
        d = entry()
        like = next(iter(known.values()), None)
        made = d.outermost(lambda: _rushlight.define_text(d, like, lang, "__torch__.", scope))
        for f in made:
            function = ScriptFunction(f)
            function.text_name = function.name
            known[function.name] = function

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__["_functions"].get(name)
        if found is None:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        return found

    def create_function(self, qualified_name: str, graph: Any, shouldMangle: bool = False) -> Any:
        """Make a function from a copy of a Graph."""
        known = self.__dict__["_functions"]
        if qualified_name in known and not shouldMangle:
            raise RuntimeError(f"method '{qualified_name}' already defined.")
        made = entry().function_of_graph(qualified_name, graph)
        known[made.name] = made
        return made

    def find_function(self, name: str) -> Any:
        """Return the function, or None."""
        return self.__dict__["_functions"].get(name.removeprefix("__torch__."))

    def get_functions(self) -> list[Any]:
        return list(self.__dict__["_functions"].values())

    def drop_all_functions(self) -> None:
        self.__dict__["_functions"].clear()

    def set_optimized(self, should_optimize: bool) -> None:
        """Has no effect: results do not depend on it."""
