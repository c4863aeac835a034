"""Lists and dicts that programs and Python share: rushlight.script([1, 2]), rushlight.script({"a":
1})."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .. import _rushlight
from . import kinds
from .entry import entry
from .functions import ScriptFunction
from .scope import Scope


def _type_of(value: Any) -> Any:
    types = entry().types
    if not value:  # nothing says of what
        tensor = types.simple(kinds.T_TENSOR)
        return (
            types.list_of(tensor)
            if isinstance(value, list)
            else types.dict_of(types.simple(kinds.T_STRING), tensor)
        )
    t = types.infer(value)
    if isinstance(t, str):
        raise _rushlight.Error(
            f"Unable to infer type of {'list' if isinstance(value, list) else 'dictionary'}: {t}"
        )
    return t


_LIST = (
    "def append(l: List[_E0], x: _E0):\n    l.append(x)\ndef clear(l: List[_E0]):\n    l.clear()\n"
)
_DICT = (
    "def put(d: Dict[_E0, _E1], k: _E0, v: _E1):\n    d[k] = v\ndef clear(d: Dict[_E0, "
    "_E1]):\n    d.clear()\n"
)
_made: dict[Any, dict[str, ScriptFunction]] = {}


def _functions(t: Any) -> dict[str, ScriptFunction]:
    """Return the functions that change containers of the type."""
    if t not in _made:
        d = entry()
        text = _LIST if len(t.elems) == 1 else _DICT
        source = d.sources.of_text("container", text)
        scope = Scope(names={f"_E{i}": elem for i, elem in enumerate(t.elems)})
        names = [
            (line, word.split()[1].partition("(")[0])
            for line, word in enumerate(text.splitlines(), 1)
            if word.startswith("def")
        ]
        _made[t] = {
            name: ScriptFunction(d.unit.define(f"__torch__.{name}", source, line, scope))
            for line, name in names
        }
    return _made[t]


class _Held:
    """A container that belongs to the program: its items have one type."""

    _rush_is_scripted = True

    def __init__(self, value: Any) -> None:
        self._type = _type_of(value)
        self._c = entry().unit.hold(value, self._type)

    def _item(self, value: Any, of: int) -> Any:
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

    def _op(self, name: str, *args: Any) -> Any:
        return _functions(self._type)[name](self, *args)

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
        self._item(value, 0)
        self._op("append", value)

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
        self._item(key, 0)
        self._item(value, 1)
        self._op("put", key, value)

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
