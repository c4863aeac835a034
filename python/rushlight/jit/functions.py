"""Compiled functions as Python sees them."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

from .. import _rushlight

_GRAPH_OPTIMIZED = 8  # RUSH_DUMP_OPTIMIZED


class ScriptFunction(_rushlight.Function):
    """A function that was compiled; called like the one that it was made of."""

    def _rush_adopt(self, fn: Any) -> None:
        self.__name__ = getattr(fn, "__name__", "function")
        self.__doc__ = getattr(fn, "__doc__", None)
        self.__module__ = getattr(fn, "__module__", None)
        self._torchdynamo_inline = fn

    @property
    def name(self) -> str:
        return self.qualified_name.rpartition(".")[2]

    @property
    def graph(self) -> Any:
        return _rushlight.function_graph(self, False)

    @property
    def inlined_graph(self) -> Any:
        return _rushlight.function_graph(self, True)

    @property
    def code(self) -> str:
        return self.as_module().code

    @property
    def schema(self) -> str:
        return self.schema_text

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """The graph that runs, after a call with these arguments."""
        self(*args, **kwargs)
        return self.dump(_GRAPH_OPTIMIZED)

    def save(self, f: str | os.PathLike[str] | BinaryIO, _extra_files: Any = None) -> None:
        from .. import save

        save(self.as_module(), f, _extra_files=_extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        import io

        buffer = io.BytesIO()
        self.save(buffer, _extra_files)
        return buffer.getvalue()

    def get_debug_state(self) -> Any:
        raise NotImplementedError("there is no executor state to look at")

    def __repr__(self) -> str:
        return f"<rushlight.ScriptFunction {self.name}>"
