"""Submodules of torch.export's programs: the programs have no modules, but their state has the
names of the original ones, `conv.weight`.

`ExportedPart` is a view of the state below one name, with the queries of a module; the code was
flattened, so it is not callable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .kinds import PARAMETER
from .script_module import Contents


class ExportedPart(Contents):
    """The part of an exported program's state that belonged to a submodule: its parameters, buffers
    and submodules."""

    def __init__(self, root: Any, path: str) -> None:
        self._root, self._path = root, path

    @property
    def training(self) -> bool:
        """The program's value: it was exported in one mode."""
        return bool(self._root.training)

    def _named(self, kind: int | None = None, recurse: bool = True) -> Iterator[tuple[str, Any]]:
        start = f"{self._path}." if self._path else ""
        for name, has in self._root._slots():
            inside, is_kind = name[len(start) :], kind is None or has & kind
            if name.startswith(start) and is_kind and (recurse or "." not in inside):
                yield inside, self._root._slot(name)

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Any]]:
        """Yield (name, tensor) of every parameter below."""
        for name, value in self._named(PARAMETER, recurse):
            yield f"{prefix}.{name}" if prefix else name, value

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Any]]:
        """Yield (name, tensor) of every buffer below."""
        parameters = {name for name, _ in self._named(PARAMETER)}
        for name, value in self._named(None, recurse):
            if name not in parameters:
                yield f"{prefix}.{name}" if prefix else name, value

    def state_dict(self) -> dict[str, Any]:
        """Return parameters and buffers below by name; they share the program's memory."""
        return dict(self._named())

    def named_children(self) -> Iterator[tuple[str, ExportedPart]]:
        """Yield (name, part) of each direct submodule."""
        names = dict.fromkeys(name.partition(".")[0] for name, _ in self._named() if "." in name)
        for name in names:
            yield name, ExportedPart(self._root, f"{self._path}.{name}" if self._path else name)

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Yield (qualified name, part) of this part and all below it."""
        yield prefix, self
        for name, part in self.named_children():
            yield from part.named_modules(f"{prefix}.{name}" if prefix else name)

    def find(self, name: str) -> Any:
        """Return the tensor or part of that name, or None."""
        for have, value in self._named():
            if have == name:
                return value
            if have.startswith(f"{name}."):
                return ExportedPart(self._root, f"{self._path}.{name}" if self._path else name)
        return None

    def __getattr__(self, name: str) -> Any:
        found = None if name.startswith("__") else self.find(name)
        if found is None:
            raise AttributeError(f"the exported program's '{self._path}' has no attribute '{name}'")
        return found

    def __eq__(self, other: object) -> bool:
        is_part = isinstance(other, ExportedPart) and other._root is self._root
        return is_part and other._path == self._path  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((id(self._root), self._path))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name.partition(".")[0] for name, _ in self._named())})

    def __repr__(self) -> str:
        return f"ExportedPart({self._path}: {', '.join(name for name, _ in self._named())})"
