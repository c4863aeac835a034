"""`TreeSpec`: the structure of arguments and results, as torch.utils._pytree's.

A file has it as JSON, with the names of classes; those are found as for calls (pytree.py), and
nothing is imported because a file names it. A class that is not registered has its name in the
place of the class, and instances of it are dicts or tuples.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Sequence
from typing import Any

from ..pytree import Spec, class_named, lower_value, node_of, rebuild_value

_TYPES: dict[str, Any] = {
    "builtins.tuple": tuple,
    "builtins.list": list,
    "builtins.dict": dict,
    "collections.OrderedDict": collections.OrderedDict,
    "collections.defaultdict": collections.defaultdict,
    "collections.namedtuple": collections.namedtuple,
    "collections.deque": collections.deque,
}


class TreeSpec:
    """The structure of a value: containers with leaves in them."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self.type: Any = _type_of(spec)
        self.context: Any = _context_of(spec)
        self._children = [TreeSpec(child) for child in spec.children]
        self.num_children = len(self._children)
        is_leaf = spec.type is None
        self.num_nodes: int = 1 + sum(child.num_nodes for child in self._children)
        self.num_leaves: int = int(is_leaf) + sum(child.num_leaves for child in self._children)

    def is_leaf(self) -> bool:
        """True for a leaf."""
        return self._spec.type is None

    def children(self) -> list[TreeSpec]:
        """Return the specs of the children."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """Return the spec of one child."""
        return self._children[index]

    def flatten(self, tree: Any, where: str = "the value") -> list[Any]:
        """Return the leaves of a value of this structure; ValueError if it has another."""
        found: list[Any] = []
        self._collect(lower_value(self._spec, tree, where), found, where)
        return found

    def _collect(self, tree: Any, found: list[Any], where: str) -> None:
        if self.is_leaf():
            found.append(tree)
            return
        items = [tree[key] for key in self._spec.keys] if self._spec.keys else None
        if items is None:
            items = list(tree.values()) if isinstance(tree, dict) else list(tree)
        for i, (child, item) in enumerate(zip(self._children, items, strict=True)):
            child._collect(item, found, f"{where}[{i}]")

    def paths(self) -> list[str]:
        """Return where each leaf is: "[0][1]", "[1]['name']"."""
        if self.is_leaf():
            return [""]
        keys = self._spec.keys or range(self.num_children)
        pairs = zip(keys, self._children, strict=True)
        return [f"[{key!r}]{path}" for key, child in pairs for path in child.paths()]

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """Make the value of this structure with these leaves."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} "
                f"but the spec refers to a pytree that holds {self.num_leaves} "
                f"items ({self})."
            )
        return rebuild_value(self._spec, self._plain(iter(leaves)))

    def _plain(self, leaves: Any) -> Any:
        """Make plain containers with the leaves, as the core returns them."""
        if self.is_leaf():
            return next(leaves)
        items = [child._plain(leaves) for child in self._children]
        if self._spec.keys:
            return dict(zip(self._spec.keys, items, strict=True))
        if self.type is dict:
            return {}
        return items if self.type is list else tuple(items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (str(self.type), self.context, self._children) == (
            str(other.type),
            other.context,
            other._children,
        )

    def __hash__(self) -> int:
        return hash((str(self.type), str(self.context), tuple(self._children)))

    def __repr__(self, indent: int = 0) -> str:
        if self.is_leaf():
            return "*"
        indent += 2
        parts = [child.__repr__(indent) for child in self._children]
        inside = f",\n{' ' * indent}".join(parts)
        return f"TreeSpec({getattr(self.type, '__name__', self.type)}, {self.context}, [{inside}])"


def _type_of(spec: Spec) -> Any:
    if spec.type is None or spec.type in _TYPES:
        return _TYPES.get(spec.type or "")
    return class_named(spec.type) or spec.type


def _context_of(spec: Spec) -> Any:
    if spec.type is None or spec.type in ("builtins.tuple", "builtins.list"):
        return None
    if spec.type == "collections.namedtuple":
        name = str(spec.context)
        return class_named(name) or name
    if spec.type == "collections.defaultdict":
        context = spec.read_context()
        return [context.get("default_factory_name"), spec.keys]
    if spec.type in _TYPES:
        return spec.keys if spec.keys else spec.read_context()
    cls = class_named(spec.type)
    node = None if cls is None else node_of(cls)
    return spec.context if node is None else spec.context_of(node)


def treespec_loads(text: str | None) -> TreeSpec:
    """Read a spec of torch's JSON: [1, {type, context, children_spec}]."""
    try:
        return TreeSpec(Spec(next(tree for tree in json.loads(text or "") if type(tree) is dict)))
    except (ValueError, TypeError, AttributeError, KeyError, StopIteration, RecursionError) as e:
        raise ValueError(f"a tree spec is damaged: {text!r:.60}") from e
