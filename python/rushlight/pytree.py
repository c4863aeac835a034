"""Classes as containers of values (pytree nodes), in the arguments and results of exported
programs.

torch.export flattens arguments and results into tensors: a `.pt2` stores a tree for each, whose
nodes have the serialized name of a class and a context, JSON that the class's registration wrote.
The core knows tuples, lists and dicts. `Trees` does the rest around a call: `lower` converts
instances of registered classes to those containers, and `rebuild` makes instances of the results.

Classes are looked up by their serialized names in the registry here, then, if torch is imported, in
torch's (torch.utils._pytree). Nothing is imported because a file names it. A program without such
nodes does not use this file.

Cost of a call: O(nodes) in Python, in addition to the class's own flatten and unflatten functions.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import json
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

__all__ = ["register_dataclass", "register_namedtuple", "register_pytree_node"]

_Flatten = Callable[[Any], tuple[Iterable[Any], Any]]
_Unflatten = Callable[[Iterable[Any], Any], Any]


class _Node(NamedTuple):
    """The data of a registration; a named tuple's class has no functions."""

    cls: type[Any]
    flatten: _Flatten | None
    unflatten: _Unflatten | None
    to_json: Callable[[Any], Any] | None
    from_json: Callable[[Any], Any] | None


_LOCK = threading.Lock()
_NODES: dict[type[Any], _Node] = {}
_NAMES: dict[str, type[Any]] = {}


# -- Registration
# ---------------------------------------------------------------------------------------


def _qualified_name(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _register(node: _Node, name: str | None, replace: bool) -> None:
    with _LOCK:
        if node.cls in _NODES and not replace:
            raise ValueError(f"{node.cls} is already registered as pytree node.")
        if node.cls in _NODES:
            said = f"{node.cls} is already registered as pytree node."
            warnings.warn(f"{said} Overwriting the previous registration.", stacklevel=3)
            for old in [old for old, cls in _NAMES.items() if cls is node.cls]:
                del _NAMES[old]
        _NODES[node.cls] = node
        _NAMES[name or _qualified_name(node.cls)] = node.cls


def register_pytree_node(
    cls: type[Any],
    flatten_fn: _Flatten,
    unflatten_fn: _Unflatten,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], Any] | None = None,
) -> None:
    """Let instances of a class be arguments and results of exported programs.

    As torch.utils._pytree.register_pytree_node: `flatten_fn(instance)` returns (children, context),
    and `unflatten_fn(children, context)` an instance. `serialized_type_name` is the class's name in
    `.pt2` files: the one with which the program was exported (default: module and qualified name).
    A context is written as JSON, converted by `to_dumpable_context` if it is not JSON itself, and
    read by `from_dumpable_context`.
    """
    del flatten_with_keys_fn  # of tracing only
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        both = f"Both to_dumpable_context and from_dumpable_context for {cls}"
        raise ValueError(f"{both} must be None or registered.")
    node = _Node(cls, flatten_fn, unflatten_fn, to_dumpable_context, from_dumpable_context)
    _register(node, serialized_type_name, replace=False)


def _field_names(cls: type[Any], names: list[str] | None, dropped: list[str]) -> list[str]:
    if not dataclasses.is_dataclass(cls):
        if names is None:
            raise ValueError(
                f"field_names must be specified with a list of all fields used to initialize "
                f"{cls}, as it is not a dataclass."
            )
        return list(names)
    all_names = [f.name for f in dataclasses.fields(cls) if f.init]
    if names is None:
        return all_names
    needed = set(all_names) - set(dropped)
    if needed != set(names):
        text = "field_names does not include all dataclass fields.\n"
        if needed - set(names):
            text += (
                f"Missing fields in `field_names`: {needed - set(names)}. If you want to include "
                "these fields in the pytree, please add them to `field_names`, otherwise please "
                "add them to `drop_field_names`.\n"
            )
        if set(names) - needed:
            text += (
                f"Unexpected fields in `field_names`: {set(names) - needed}. "
                "Please remove these fields, or add them to `drop_field_names`.\n"
            )
        raise ValueError(text)
    return list(names)


def register_dataclass(
    cls: type[Any],
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Let instances of a dataclass be arguments and results of exported programs.

    As torch.export.register_dataclass: fields that are None are not children, and a program is
    exported for instances with the same fields None. `field_names` are needed for classes that are
    not dataclasses but are built from keywords. `serialized_type_name` is the class's name in
    `.pt2` files (default: module and qualified name).
    """
    names = _field_names(cls, field_names, drop_field_names or [])

    def flatten(instance: Any) -> tuple[list[Any], list[list[str]]]:
        given = [name for name in names if getattr(instance, name) is not None]
        absent = [name for name in names if getattr(instance, name) is None]
        return [getattr(instance, name) for name in given], [given, absent]

    def unflatten(children: Iterable[Any], context: Any) -> Any:
        given, absent = context
        return cls(**dict(zip(given, children, strict=True)), **dict.fromkeys(absent))

    _register(_Node(cls, flatten, unflatten, None, None), serialized_type_name, replace=True)


def register_namedtuple(cls: type[Any], *, serialized_type_name: str | None = None) -> None:
    """Register a named tuple class under its name in `.pt2` files (default: module and qualified
    name)."""
    if not is_namedtuple(cls):
        raise ValueError(f"expected a named tuple class, got {cls}")
    _register(_Node(cls, None, None, None, None), serialized_type_name, replace=True)


def is_namedtuple(cls: Any) -> bool:
    is_tuple = isinstance(cls, type) and issubclass(cls, tuple)
    return is_tuple and isinstance(getattr(cls, "_fields", None), tuple)


# -- Finding
# --------------------------------------------------------------------------------------------


def _torch_pytree() -> Any:
    """Return torch's registry if torch is imported."""
    return sys.modules.get("torch.utils._pytree")


def class_named(name: str) -> type[Any] | None:
    cls = _NAMES.get(name)
    if cls is None and (theirs := _torch_pytree()) is not None:
        cls = theirs.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name)
    return cls


def node_of(cls: type[Any]) -> _Node | None:
    node = _NODES.get(cls)
    theirs = None if node is not None else _torch_pytree()
    if theirs is not None and cls in theirs.SUPPORTED_NODES:
        functions, texts = theirs.SUPPORTED_NODES[cls], theirs.SUPPORTED_SERIALIZED_TYPES[cls]
        contexts = (texts.to_dumpable_context, texts.from_dumpable_context)
        node = _Node(cls, functions.flatten_fn, functions.unflatten_fn, *contexts)
    return node


def _enum_hook(o: dict[str, Any]) -> Any:
    """Return an enum's member as torch writes it, if its module is imported."""
    if "__enum__" not in o:
        return o
    module, _, path = str(o.get("fqn")).partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, "__dict__", {}).get(part)  # no module's __getattr__ runs
    is_enum = isinstance(found, type) and issubclass(found, enum.Enum)
    return found[o["name"]] if is_enum and o.get("name") in found.__members__ else o


# -- Specs
# ----------------------------------------------------------------------------------------------

_PLAIN = {"builtins.tuple": tuple, "builtins.list": list, "builtins.dict": dict}
# A file names the factory of a defaultdict, which a missing key calls: these make empty values,
# others become None.
_FACTORIES = {
    cls.__name__: cls
    for cls in (bool, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)
}
_REGISTER = "rushlight.register_dataclass, register_pytree_node"
_DICTS = ("builtins.dict", "collections.OrderedDict", "collections.defaultdict")


class Spec:
    """One node of a tree spec; `type` None: a leaf."""

    def __init__(self, parsed: Mapping[str, Any]) -> None:
        self.type: str | None = parsed.get("type")
        self.context: Any = parsed.get("context")
        self.children = [Spec(child) for child in parsed.get("children_spec") or ()]
        is_plain = self.type is None or self.type in _PLAIN
        self.is_plain: bool = is_plain and all(child.is_plain for child in self.children)
        self.keys: list[Any] = self._read_keys() if self.type in _DICTS else []

    def _read_keys(self) -> list[Any]:
        context = self.read_context()
        keys = context.get("dict_context") if isinstance(context, dict) else context
        return keys if isinstance(keys, list) else []

    def read_context(self) -> Any:
        """Return the context as data: for most classes it is JSON in a text."""
        if not isinstance(self.context, str):
            return self.context
        return json.loads(self.context, object_hook=_enum_hook)

    def context_of(self, node: _Node) -> Any:
        """Return the context in the form that the class's functions use."""
        return node.from_json(self.context) if node.from_json is not None else self.read_context()

    def describe(self) -> str:
        names = {"builtins.tuple": "a tuple", "builtins.list": "a list"}
        names["collections.namedtuple"] = f"a {self.context}"
        if self.type is None:
            return "a leaf"
        if self.type in _DICTS:
            return f"a dict with the keys {self.keys}"
        known = names.get(self.type, f"a {self.type} with the context {self.context}")
        return f"{known} of {len(self.children)}"


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return f"a {type(value).__name__} with the keys {list(value)}"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a value of type '{_qualified_name(type(value))}'"


def _mismatch(spec: Spec, where: str, value: Any, why: str = "") -> ValueError:
    return ValueError(
        f"Trying to flatten user inputs with exported input tree spec: at {where} the exported "
        f"program takes {spec.describe()}, but got {why or _describe(value)}. Please check that "
        "the inputs have the same number and type of args and kwargs as the ones you used when "
        "tracing."
    )


class Trees:
    """The trees of one exported program's arguments and results."""

    def __init__(self, text: str) -> None:
        parsed = json.loads(text)
        self._names: list[str] = parsed["arg_names"]
        self._in, self._out = (
            Spec(next(tree for tree in parsed[at] if isinstance(tree, dict)))
            for at in ("in", "out")
        )

    def lower(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Convert the arguments to tuples, lists and dicts; values that do not match the spec are
        kept: the core refuses them."""
        by_place, by_name = self._in.children
        specs = dict(zip(self._names, by_place.children, strict=False))
        specs.update(zip(by_name.keys, by_name.children, strict=True))
        places = [*self._names, *("argument" for _ in by_place.children[len(self._names) :])]
        out = [lower_value(*at) for at in zip(by_place.children, args, places, strict=False)]
        named = {n: lower_value(specs[n], v, n) if n in specs else v for n, v in kwargs.items()}
        return (*out, *args[len(out) :]), named

    def rebuild(self, result: Any) -> Any:
        """Return the core's result with instances of the registered classes."""
        return rebuild_value(self._out, result)


# -- Arguments
# ------------------------------------------------------------------------------------------


def lower_value(spec: Spec, value: Any, where: str) -> Any:
    if spec.type is None:
        if node_of(type(value)) is not None and not isinstance(value, (dict, list, tuple)):
            raise _mismatch(spec, where, value)
        return value
    if spec.type in _DICTS:
        return _lower_dict(spec, value, where)
    if spec.type in ("builtins.tuple", "builtins.list"):
        if not isinstance(value, _PLAIN[spec.type]):
            raise _mismatch(spec, where, value)
        return _PLAIN[spec.type](_lower_items(spec, value, where))
    if spec.type == "collections.namedtuple":
        return _lower_namedtuple(spec, value, where)
    if spec.type == "collections.deque":
        is_deque = isinstance(value, collections.deque)
        if is_deque and value.maxlen != spec.read_context():
            raise _mismatch(spec, where, value, f"a deque with maxlen={value.maxlen}")
        return _lower_items(spec, list(value) if is_deque else value, where)
    return _lower_node(spec, value, where)


def _lower_items(spec: Spec, items: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(items, (list, tuple)) or len(items) != len(spec.children):
        raise _mismatch(spec, where, items)
    at = zip(spec.children, items, strict=True)
    return tuple(lower_value(child, item, f"{where}[{i}]") for i, (child, item) in enumerate(at))


def _lower_dict(spec: Spec, value: Any, where: str) -> dict[Any, Any]:
    if not isinstance(value, Mapping) or set(value) != set(spec.keys):
        raise _mismatch(spec, where, value)
    if spec.type == "collections.defaultdict" and isinstance(value, collections.defaultdict):
        factory, context = value.default_factory, spec.read_context()
        want = tuple(str(context.get(f"default_factory_{part}")) for part in ("module", "name"))
        if (getattr(factory, "__module__", None), getattr(factory, "__qualname__", None)) != want:
            why = f"a defaultdict of {factory}; it was a defaultdict of {'.'.join(want)}"
            raise _mismatch(spec, where, value, why)
    at = zip(spec.keys, spec.children, strict=True)
    return {key: lower_value(child, value[key], f"{where}[{key!r}]") for key, child in at}


def _lower_namedtuple(spec: Spec, value: Any, where: str) -> tuple[Any, ...]:
    cls = class_named(spec.context)
    if cls is not None and is_namedtuple(type(value)) and type(value) is not cls:
        raise _mismatch(spec, where, value)
    return _lower_items(spec, value, where)


def _lower_node(spec: Spec, value: Any, where: str) -> Any:
    """Convert an instance of the class that the file names, or accept plain containers in its
    place."""
    cls = class_named(str(spec.type))
    node = node_of(cls) if cls is not None and type(value) is cls else None
    if node is not None and node.flatten is not None:
        items, context = node.flatten(value)
        if context != spec.context_of(node):
            raise _mismatch(spec, where, value, f"one with the context {context}")
        return _lower_items(spec, tuple(items), where)
    if type(value) is dict and (names := _child_names(spec)) is not None:
        if set(value) != set(names):
            raise _mismatch(spec, where, value)
        at = zip(names, spec.children, strict=True)
        return {name: lower_value(child, value[name], f"{where}.{name}") for name, child in at}
    if type(value) in (list, tuple):
        return _lower_items(spec, value, where)
    text = _describe(value)
    if cls is None:
        text += f"; no class is registered as '{spec.type}' ({_REGISTER})"
    raise _mismatch(spec, where, value, text)


def _child_names(spec: Spec) -> list[Any] | None:
    """Return the names of the children if the context is a list of them, as the core reads it;
    otherwise None."""
    if not isinstance(spec.context, str) or not spec.context.startswith("["):
        return None
    context = spec.read_context()
    names = context[0] if context and isinstance(context[0], list) else context
    is_named = len(names) == len(spec.children) == len(set(map(str, names)))
    return list(names) if is_named and all(isinstance(name, str) for name in names) else None


# -- Results
# --------------------------------------------------------------------------------------------


def rebuild_value(spec: Spec, value: Any) -> Any:
    if spec.is_plain:
        return value
    items = list(value.values()) if isinstance(value, dict) else value
    children = [
        rebuild_value(child, item) for child, item in zip(spec.children, items, strict=True)
    ]
    if spec.type in _DICTS:
        return _rebuild_dict(spec, dict(zip(spec.keys, children, strict=True)))
    if spec.type == "builtins.list":
        return children
    if spec.type == "builtins.tuple":
        return tuple(children)
    if spec.type == "collections.deque":
        return collections.deque(children, maxlen=spec.read_context())
    if spec.type == "collections.namedtuple":
        cls = class_named(spec.context)
        return tuple(children) if cls is None else cls(*children)
    cls = class_named(str(spec.type))
    node = None if cls is None else node_of(cls)
    if node is not None and node.unflatten is not None:
        return node.unflatten(children, spec.context_of(node))
    return dict(zip(value, children, strict=True)) if isinstance(value, dict) else tuple(children)


def _rebuild_dict(spec: Spec, items: dict[Any, Any]) -> Any:
    if spec.type == "collections.OrderedDict":
        return collections.OrderedDict(items)
    if spec.type == "builtins.dict":
        return items
    context = spec.read_context()
    is_builtin = context.get("default_factory_module") == "builtins"
    return collections.defaultdict(
        _FACTORIES.get(context.get("default_factory_name")) if is_builtin else None, items
    )
