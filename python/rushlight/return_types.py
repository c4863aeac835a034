"""Classes of results that have names: `x.max(0).values`, `rushlight.sort(x).indices`.

Each operator has one class, with the name and repr of torch.return_types, made from the schema's
results when first needed.
"""

from __future__ import annotations

from typing import Any

from . import _rushlight

_made: dict[tuple[str, tuple[str, ...]], type[tuple[Any, ...]]] = {}


class Named(tuple[Any, ...]):
    """A tuple whose items are also attributes."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lines = ",\n".join(
            f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True)
        )
        return f"rushlight.return_types.{type(self).__name__}(\n{lines})"

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (type(self).__name__, self._fields, tuple(self))


def _item(i: int, name: str) -> property:
    return property(lambda self: self[i], doc=f"Item {i}: {name}.")


def made(name: str, fields: tuple[str, ...]) -> type[tuple[Any, ...]]:
    """Return the class of an operator's results with these names."""
    found = _made.get((name, fields))
    if found is None:
        body: dict[str, Any] = {
            "__slots__": (),
            "__module__": __name__,
            "_fields": fields,
            "__match_args__": fields,
        }
        body.update({field: _item(i, field) for i, field in enumerate(fields)})
        found = _made[name, fields] = type(name, (Named,), body)
    return found


def named(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Restore pickled results."""
    return made(name, fields)(values)


def __getattr__(name: str) -> Any:
    from . import methods

    if not name.startswith("_"):
        for line in _rushlight.operator_schemas(f"aten::{name}").splitlines():
            fields = methods.Overload(line).fields
            if fields:
                return made(name, fields)
    raise AttributeError(f"module 'rushlight.return_types' has no attribute '{name}'")
