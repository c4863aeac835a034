"""Which sizes of inputs may vary: `Dim` and its kin, with torch.export.dynamic_shapes' names and
errors.

A derived dimension, `2*x + 1`, is a positive factor, an offset, and its root: sums, differences and
products by ints keep that form, so ranges are computed exactly.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import sys
from collections.abc import Callable
from typing import Any, ClassVar

from .._rushlight import Tensor
from ..pytree import is_namedtuple, node_of
from .exported_program import ExportedProgram
from .inputs import check_inputs
from .values import int_oo

__all__ = ["AdditionalInputs", "Dim", "ShapesCollection", "dims"]

MOST = 2**63 - 1


class _DimHintType(enum.Enum):
    """AUTO: what the program needs. STATIC: the example's size. DYNAMIC: it must vary."""

    AUTO = enum.auto()
    STATIC = enum.auto()
    DYNAMIC = enum.auto()


@dataclasses.dataclass(repr=False)
class _DimHint:
    """`Dim.AUTO`, `Dim.AUTO(min=2, max=64)`."""

    type: _DimHintType
    min: int | None = None
    max: int | None = None
    _factory: bool | None = True

    def __call__(self, min: int | None = None, max: int | None = None) -> _DimHint:  # noqa: A002
        if not self._factory:
            raise TypeError(f"'{type(self)}' object is not callable")
        for name, bound in (("min", min), ("max", max)):
            if bound is not None and bound < 0:
                raise AssertionError(f"{name} must be non-negative, got {bound}")
        if min is not None and max is not None and min > max:
            raise AssertionError(f"min must be <= max, got min={min}, max={max}")
        return _DimHint(self.type, min=min, max=max, _factory=False)

    def __repr__(self) -> str:
        parts = [self.type.name]
        parts += [f"min={self.min}"] if self.min is not None else []
        parts += [f"max={self.max}"] if self.max is not None else []
        return f"DimHint({', '.join(parts)})"


_LINEAR = "(Only increasing linear operations with integer coefficients are supported.)"


class Dim:
    """A size that may vary, between `min` and `max`; equal names are equal sizes.

    `Dim.AUTO`, `Dim.DYNAMIC` and `Dim.STATIC` leave the name and the range to the export.
    """

    AUTO: ClassVar[_DimHint] = _DimHint(_DimHintType.AUTO)
    DYNAMIC: ClassVar[_DimHint] = _DimHint(_DimHintType.DYNAMIC)
    STATIC: ClassVar[_DimHint] = _DimHint(_DimHintType.STATIC)

    def __init__(
        self,
        name: str,
        *,
        min: int | None = None,  # noqa: A002 -- torch's names
        max: int | None = None,  # noqa: A002
    ) -> None:
        least, most = 0 if min is None else min, int_oo if max is None else max
        if not most > least:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name
        self._range: tuple[Any, Any] = (least, most)

    @property
    def min(self) -> Any:
        """The least size."""
        return self._range[0]

    @property
    def max(self) -> Any:
        """The largest size; `int_oo`: no bound."""
        return self._range[1]

    def _derive(self, factor: int, offset: int) -> Dim:
        return _DerivedDim(self, factor, offset)

    def __add__(self, other: int) -> Dim:
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to add {other} to {self.__name__}, where an integer was expected. "
                f"{_LINEAR}"
            )
        return self._derive(1, other)

    def __radd__(self, other: int) -> Dim:
        return self + other

    def __sub__(self, other: int) -> Dim:
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to subtract {other} from {self.__name__}, where an integer was "
                f"expected. {_LINEAR}"
            )
        return self._derive(1, -other)

    def __rsub__(self, other: int) -> Dim:
        raise NotImplementedError(f"Attempted to negate {self.__name__}. {_LINEAR}")

    def __mul__(self, other: int) -> Dim:
        if type(other) is not int or other <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {other} with {self.__name__}, where a positive integer was "
                f"expected. {_LINEAR}"
            )
        return self._derive(other, 0)

    def __rmul__(self, other: int) -> Dim:
        return self * other

    @staticmethod
    def _readable(name: str, least: Any, most: Any) -> str:
        parts = [f"'{name}'"]
        parts += [f"min={least}"] if least != 2 else []
        parts += [f"max={most}"] if most != int_oo else []
        return f"Dim({', '.join(parts)})"

    def __repr__(self) -> str:
        return Dim._readable(self.__name__, self.min, self.max)


class _StaticDim(Dim):
    """A size that does not vary."""

    def __init__(self, value: int) -> None:
        self.__name__ = str(value)
        self.value = value
        self._range = (value, value)


class _DerivedDim(Dim):
    """factor*root + offset."""

    def __init__(self, root: Dim, factor: int, offset: int) -> None:
        self.root, self.factor, self.offset = root, factor, offset
        name = root.__name__ if factor == 1 else f"{factor}*{root.__name__}"
        sign = "+" if offset > 0 else "-"
        self.__name__ = f"{name} {sign} {abs(offset)}" if offset else name

    def fn(self, size: Any) -> Any:
        """Return the size for a size of the root."""
        return self.factor * size + self.offset

    @property
    def min(self) -> Any:
        """The least size, which must not be negative."""
        least = self.fn(self.root.min)
        if least < 0:
            raise AssertionError(
                f"Expected derived min value of {self.__name__} to be >= 0. "
                f"Please specify an appropriate min value for {self.root.__name__} "
                f"(currently {self.root.min})."
            )
        return least

    @property
    def max(self) -> Any:
        """The largest size; `int_oo`: no bound."""
        if self.root.max == int_oo:
            return int_oo
        most = self.fn(self.root.max)
        if most > sys.maxsize - 1:
            raise AssertionError(
                f"Expected derived max value of {self.__name__} to be <= {sys.maxsize - 1}. "
                f"Please specify an appropriate max value for {self.root.__name__} "
                f"(currently {self.root.max})."
            )
        return most

    def _derive(self, factor: int, offset: int) -> Dim:
        return _DerivedDim(self.root, factor * self.factor, factor * self.offset + offset)

    def __repr__(self) -> str:
        return self.__name__


def dims(
    *names: str,
    min: int | None = None,  # noqa: A002 -- torch's names
    max: int | None = None,  # noqa: A002
) -> tuple[Dim, ...]:
    """Make several `Dim`s of one range."""
    return tuple(Dim(name, min=min, max=max) for name in names)


@dataclasses.dataclass
class _IntWrapper:
    """An int argument with an identity, for ShapesCollection."""

    val: int
    dynamism: _DimHint | int | None = dataclasses.field(init=False, default=None)


# -- torch's own
# --------------------------------------------------------------------------------------------


def _adopt_dim(spec: Any, kinds: Any) -> Any:
    """Return ours for a Dim or a hint of torch's; anything else stays."""
    if isinstance(spec, kinds._DimHint):
        return _DimHint(_DimHintType[spec.type.name], spec.min, spec.max, _factory=False)
    if isinstance(spec, kinds._StaticDim):
        return _StaticDim(spec.value)
    if isinstance(spec, kinds._DerivedDim):
        offset = spec.fn(0)  # increasing and linear, as torch demands
        return _DerivedDim(_adopt_dim(spec.root, kinds), spec.fn(1) - offset, offset)
    if isinstance(spec, kinds.Dim):
        most = None if spec.max > MOST else int(spec.max)
        return Dim(spec.__name__, min=int(spec.min), max=most)
    return spec


def adopted(shapes: Any) -> Any:
    """Return `dynamic_shapes` with ours in the place of torch's Dims and hints."""
    torch: Any = sys.modules.get("torch.export.dynamic_shapes")
    if torch is None or shapes is None:
        return shapes
    from torch.utils import _pytree

    return _pytree.tree_map(lambda spec: _adopt_dim(spec, torch), shapes)


# -- Trees
# --------------------------------------------------------------------------------------------


def _children(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]] | None:
    """Return the children of a container, and what makes a spec of theirs; None: a leaf.

    Containers of Python become such containers; instances of registered classes become lists, since
    a class need not take specs in the place of tensors.
    """
    if isinstance(tree, dict):
        return list(tree.values()), lambda items: dict(zip(tree, items, strict=True))
    if isinstance(tree, tuple) and is_namedtuple(type(tree)):
        return list(tree), lambda items: type(tree)(*items)
    if isinstance(tree, (list, tuple)):
        return list(tree), type(tree)
    node = node_of(type(tree))
    if node is None or node.flatten is None:
        return None
    return list(node.flatten(tree)[0]), list


def _map(change: Callable[[Any], Any], tree: Any) -> Any:
    found = _children(tree)
    if found is None:
        return change(tree)
    children, make = found
    return make([_map(change, child) for child in children])


def is_tensor(value: Any) -> bool:
    """True for a tensor of torch or of Rushlight."""
    torch: Any = sys.modules.get("torch")
    return isinstance(value, Tensor) or (torch is not None and isinstance(value, torch.Tensor))


def _combine(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return all arguments by the names of f's parameters."""
    if isinstance(f, ExportedProgram):
        f = f.module()
    signature = inspect.signature(getattr(f, "forward", f))
    return signature.bind(*args, **(kwargs or {})).arguments


class ShapesCollection:
    """Builds `dynamic_shapes` tensor by tensor, wherever these are among the arguments.

    >>> shapes = ShapesCollection()
    >>> shapes[x] = {0: Dim("batch")}
    >>> export(model, (x, {"y": y}), dynamic_shapes=shapes)
    """

    def __init__(self) -> None:
        self._shapes: dict[int, Any] = {}

    def __setitem__(self, t: Any, shape: Any) -> None:
        if not is_tensor(t) and not isinstance(t, _IntWrapper):
            raise AssertionError(
                f"Cannot assign shape to non-tensor or non-_IntWrapper type {type(t)}"
            )
        known = self._shapes.setdefault(id(t), shape)
        if known != shape:
            raise AssertionError(
                f"Shapes assigned to input do not match: expected {known}, got {shape}"
            )

    def __getitem__(self, t: Any) -> Any:
        return self._shapes.setdefault(id(t), {})

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(
        self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Return the shapes in the structure of the arguments of `m`."""
        seen = set()

        def find(leaf: Any) -> Any:
            if id(leaf) not in self._shapes:
                return None
            seen.add(id(leaf))
            return self._shapes[id(leaf)]

        found = _map(find, _combine(m, args, kwargs))
        if seen != set(self._shapes):
            raise ValueError(
                "Some tensors that were assigned shapes were not found in args. "
                "Maybe such tensors were copied when passing them as args? "
                "Maybe such tensors are contained in classes that were not registered with pytree?"
            )
        return found


class AdditionalInputs:
    """Finds out which sizes vary from further examples of arguments.

    >>> inputs = AdditionalInputs()
    >>> inputs.add((other_x,))
    >>> export(model, (x,), dynamic_shapes=inputs)
    """

    def __init__(self) -> None:
        self._examples: list[tuple[tuple[Any, ...], dict[str, Any] | None]] = []

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """Add arguments that the program is to work for."""
        if type(args) is not tuple:
            raise AssertionError(f"Representative args {args} must be a tuple")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(f"Representative kwargs {kwargs} must be None or a dict")
        self._examples.append((args, kwargs))

    def dynamic_shapes(
        self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Return the shapes in the structure of the arguments: sizes and ints that differ in the
        examples are Dim.DYNAMIC, others None."""
        sizes = [
            _map(
                lambda leaf: tuple(leaf.shape) if is_tensor(leaf) else leaf,
                _combine(m, given, named),
            )
            for given, named in [(args, kwargs), *self._examples]
        ]
        return _mark(sizes)

    def verify(self, ep: ExportedProgram) -> None:
        """Raise RuntimeError if the program does not accept one of the examples."""
        check_examples(ep, self)


def check_examples(ep: ExportedProgram, shapes: Any) -> None:
    """Raise RuntimeError if the program does not accept one of the examples of AdditionalInputs,
    ours or torch's."""
    for args, kwargs in getattr(shapes, "_examples", ()):
        check_inputs(ep, args, kwargs or {})


def _mark(values: list[Any]) -> Any:
    """Merge the same place of several examples."""
    first, others = values[0], values[1:]
    found = _children(first)
    if found is not None:
        rows = [_children(value) for value in values]
        same = [
            row is not None and type(v) is type(first) for row, v in zip(rows, values, strict=True)
        ]
        lengths = {len(row[0]) for row in rows if row is not None}
        if not all(same) or len(lengths) > 1:
            raise ValueError(f"The arguments of the examples differ in structure: {tuple(values)}.")
        columns = zip(*(row[0] for row in rows if row is not None), strict=True)
        return found[1]([_mark(list(column)) for column in columns])
    if not all(type(first) is type(other) for other in others):
        raise ValueError(
            "The following inputs were found to have differing types, "
            f"so they cannot be marked as dynamic: {(first, *others)}."
        )
    if all(other == first for other in others):
        return None
    if isinstance(first, int) and not isinstance(first, bool):
        return Dim.DYNAMIC
    raise ValueError(
        "The following inputs were found to have differing values, "
        f"but they cannot be marked as dynamic: {(first, *others)}."
    )
