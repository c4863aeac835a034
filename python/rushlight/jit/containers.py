"""Lists and dicts that programs and Python share: rushlight.script([1, 2]), rushlight.script({"a":
1})."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .. import _rushlight
from . import kinds
from .entry import entry


def _type_of(value: Any) -> Any:
    types, is_list = entry().types, isinstance(value, list)
    if not value:  # nothing says of what
        tensor, key = types.simple(kinds.T_TENSOR), types.simple(kinds.T_STRING)
        return types.list_of(tensor) if is_list else types.dict_of(key, tensor)
    t = types.infer(value)
    if isinstance(t, str):
        what = "list" if is_list else "dictionary"
        raise _rushlight.Error(f"Unable to infer type of {what}: {t}")
    return t


class _Held:
    """A container that belongs to the program: its items have one type."""

    _rush_is_scripted = True

    def __init__(self, value: Any) -> None:
        self._type = _type_of(value)
        self._c = entry().unit.hold(value, self._type)

    def _item(self, value: Any, of: int) -> Any:
        """Return the value as the program's, of the type of an item (a key)."""
        try:
            return entry().unit.hold(value, self._type.elems[of])
        except TypeError:
            raise TypeError(
                f"a value of type '{type(value).__name__}' does not fit {self._type.annotation_str}"
            ) from None

    def _python(self) -> Any:
        return entry().unit.take(self._c)

    def _swap(self, value: Any) -> None:
        """Replace the container's contents."""
        self._op("clear")
        self._fill(value)

    _fill: Callable[[Any], None]  # adds all of a plain container

    def _op(self, name: str, *args: Any) -> None:
        _rushlight.call_operator(f"aten::{name}", self._c, *args)

    def __len__(self) -> int:
        return len(self._python())

    def __bool__(self) -> bool:
        return bool(self._python())

    def __repr__(self) -> str:
        return repr(self._python())

    def __str__(self) -> str:
        return str(self._python())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._python())

    def __eq__(self, other: object) -> bool:
        return bool(self._python() == (other._python() if isinstance(other, _Held) else other))

    __hash__ = None  # type: ignore[assignment]


class ScriptList(_Held):
    """A list of one type."""

    def _fill(self, value: Any) -> None:
        for item in value:
            self.append(item)

    def _changed(self, change: Any) -> Any:
        value = self._python()
        result = change(value)
        self._swap(value)
        return result

    def __getitem__(self, i: Any) -> Any:
        return self._python()[i]

    def __setitem__(self, i: Any, value: Any) -> None:
        if not isinstance(i, slice):
            self._item(value, 0)
        else:
            value = list(value)
            for item in value:
                self._item(item, 0)
        self._changed(lambda items: items.__setitem__(i, value))

    def __delitem__(self, i: Any) -> None:
        self._changed(lambda items: items.__delitem__(i))

    def __contains__(self, value: Any) -> bool:
        self._item(value, 0)
        return value in self._python()

    def append(self, value: Any) -> None:
        self._op("append", self._item(value, 0))

    def extend(self, values: Any) -> None:
        values = list(values)
        for v in values:
            self._item(v, 0)
        self._fill(values)

    def insert(self, i: int, value: Any) -> None:
        self._item(value, 0)
        self._changed(lambda items: items.insert(i, value))

    def pop(self, i: int = -1) -> Any:
        return self._changed(lambda items: items.pop(i))

    def remove(self, value: Any) -> None:
        self._item(value, 0)
        self._changed(lambda items: items.remove(value))

    def count(self, value: Any) -> int:
        self._item(value, 0)
        return int(self._python().count(value))

    def clear(self) -> None:
        self._op("clear")


class ScriptDict(_Held):
    """A dict with keys of one type and values of one type."""

    def _fill(self, value: Any) -> None:
        for k, v in value.items():
            self[k] = v

    def __getitem__(self, key: Any) -> Any:
        self._item(key, 0)
        return self._python()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._op("_set_item", self._item(key, 0), self._item(value, 1))

    def __delitem__(self, key: Any) -> None:
        self._item(key, 0)
        value = self._python()
        del value[key]
        self._swap(value)

    def __contains__(self, key: Any) -> bool:
        try:
            self._item(key, 0)
        except TypeError:
            return False
        return key in self._python()

    def keys(self) -> Any:
        return self._python().keys()

    def values(self) -> Any:
        return self._python().values()

    def items(self) -> Any:
        return self._python().items()
