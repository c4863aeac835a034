"""`export` of a torch.nn.Module: its arguments flattened, its call recorded (jit/torch_live.py),
and what was recorded captured (rush_module_export).

The recorded program takes and returns leaves; how they are nested, what they are called and which
of their sizes vary is described beside it. Names and conditions are torch.export's.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree

from .. import _rushlight
from .. import pytree as registry
from ..jit import torch_live
from .dynamic_shapes import Dim, _DerivedDim, _DimHint, _DimHintType, _StaticDim
from .errors import constraint_violation, shapes_error, user_error
from .values import int_oo

MOST = 2**63 - 1
PLAIN = (bool, int, float, str, type(None))

# (input or None, dimension, name or None, least, most, factor or 0, offset, symbol or 0, is
# dynamic)
Dimension = tuple["str | None", int, "str | None", int, int, int, int, int, bool]


class Leaf(NamedTuple):
    """A leaf of the arguments: its value, the name of its placeholder, what it is in conditions,
    and how its sizes vary."""

    value: Any
    name: str
    text: str
    shape: Any


# -- Arguments
# --------------------------------------------------------------------------------------------


def _share_registry() -> None:
    """Let torch's pytree know the classes that are registered here."""
    for cls, node in list(registry._NODES.items()):
        if cls in pytree.SUPPORTED_NODES or node.flatten is None or node.unflatten is None:
            continue
        names = [name for name, named in registry._NAMES.items() if named is cls]
        pytree.register_pytree_node(
            cls,
            node.flatten,  # type: ignore[arg-type]
            node.unflatten,
            serialized_type_name=names[0] if names else None,
            to_dumpable_context=node.to_json,
            from_dumpable_context=node.from_json,
            flatten_with_keys_fn=_with_keys(node),
        )


def _with_keys(node: Any) -> Any:
    def flatten(instance: Any) -> Any:
        children, context = node.flatten(instance)
        items = list(children)
        is_named = isinstance(context, list) and context and isinstance(context[0], list)
        keys = context[0] if is_named else range(len(items))
        return [(pytree.GetAttrKey(str(k)), c) for k, c in zip(keys, items, strict=True)], context

    return flatten


def _key_name(key: Any) -> str:
    found = getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))
    return re.sub(r"[^a-zA-Z0-9]", "_", str(found))


def _key_text(key: Any) -> str:
    return f".{key.name}" if isinstance(key, pytree.GetAttrKey) else str(key)


def _bound(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by the names of forward's parameters."""
    bound = inspect.signature(mod.forward).bind(*args, **kwargs)
    arguments: dict[str, Any] = dict(bound.arguments)
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind == parameter.VAR_KEYWORD and name in arguments:
            arguments.update(arguments.pop(name))
    return arguments


def _is_fake(value: Any) -> bool:
    return isinstance(value, torch._subclasses.FakeTensor)


def _real(value: Any) -> Any:
    """Return a tensor of zeros for one of torch's that has no data."""
    if not _is_fake(value):
        return value
    sizes, strides = [int(n) for n in value.size()], [int(n) for n in value.stride()]
    with torch._subclasses.fake_tensor.unset_fake_temporarily():
        made = torch.empty_strided(sizes, strides, dtype=value.dtype).zero_()
        return made.requires_grad_(value.requires_grad)


class Arguments:
    """The flattened arguments of a call, in the order of (args, kwargs)."""

    def __init__(self, mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.bound = _bound(mod, args, kwargs)
        self.in_spec = pytree.tree_flatten((args, kwargs))[1]
        parameters = inspect.signature(mod.forward).parameters
        variadic = {p.kind: name for name, p in parameters.items()}
        rest = variadic.get(inspect._ParameterKind.VAR_POSITIONAL)
        names = [
            n for n, p in parameters.items()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]  # fmt: skip
        self.arg_names = [*names[: len(args)], *kwargs]
        roots: list[tuple[Any, tuple[Any, ...]]] = []
        for i, value in enumerate(args):
            at = i - len(names)
            inside = (pytree.MappingKey(rest), pytree.SequenceKey(at))
            roots.append((value, (pytree.MappingKey(names[i]),) if at < 0 else inside))
        if rest is not None and len(args) > len(names):
            self.arg_names = [
                *names, *(f"{rest}_{i}" for i in range(len(args) - len(names))), *kwargs
            ]  # fmt: skip
        roots += [(value, (pytree.MappingKey(key),)) for key, value in kwargs.items()]
        self.paths: list[tuple[Any, ...]] = []
        self.values: list[Any] = []
        for value, root in roots:
            for path, leaf in pytree.tree_flatten_with_path(value)[0]:
                self.paths.append((*root, *path))
                self.values.append(_real(leaf))

    def names(self) -> list[str]:
        found: list[str] = []
        for path in self.paths:
            name = wanted = "_".join(_key_name(key).lower() for key in path)
            n = 0
            while name in found:
                n += 1
                name = f"{wanted}_{n}"
            found.append(name)
        return found

    def texts(self) -> list[str]:
        return [
            f"L['{path[0].key}']" + "".join(_key_text(key) for key in path[1:])
            for path in self.paths
        ]


# -- Sizes that vary
# -----------------------------------------------------------------------------------------


def _mismatch(why: str) -> Exception:
    return shapes_error(
        f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: {why}"
    )


def _of_other_type(value: Any, shape: Any, where: str) -> Exception:
    found = "not" if _is_leaf(shape) else f"a {type(shape)}"
    return _mismatch(f"`inputs{where}` is a {type(value)}, but `dynamic_shapes{where}` is {found}")


def _is_leaf(value: Any) -> bool:
    return pytree._get_node_type(value) not in pytree.SUPPORTED_NODES


def _children(value: Any) -> list[tuple[Any, Any]] | None:
    """Return (key, child) of a container; None: a leaf."""
    if _is_leaf(value):
        return None
    try:
        rows = pytree.SUPPORTED_NODES[pytree._get_node_type(value)].flatten_with_keys_fn(value)[0]  # type: ignore[misc]
        return list(rows)
    except (KeyError, TypeError):
        flat = pytree.SUPPORTED_NODES[pytree._get_node_type(value)].flatten_fn(value)[0]
        return [(pytree.SequenceKey(i), child) for i, child in enumerate(flat)]


def _shapes_of(value: Any, shape: Any, where: str, out: list[Any]) -> None:
    """Append what dynamic_shapes says of each leaf of a value."""
    children = _children(value)
    if children is None:
        _check_shape(value, shape, where)
        out.append(shape)
        return
    if shape is None:
        out += [None] * len(pytree.tree_leaves(value))
        return
    if isinstance(value, dict):
        if not isinstance(shape, dict):
            raise _of_other_type(value, shape, where)
        if set(shape) != set(value):
            raise _mismatch(
                f"`inputs{where}` has keys {list(value)}, but `dynamic_shapes{where}` has keys "
                f"{list(shape)}",
            )
        for key, child in children:
            _shapes_of(child, shape[key.key], f"{where}{key}", out)
        return
    parts: Any = shape
    is_sequence = isinstance(value, (list, tuple))
    if not isinstance(shape, (list, tuple)) or (is_sequence and type(shape) is not type(value)):
        if type(shape) is not type(value) or _is_leaf(shape):
            raise _of_other_type(value, shape, where)
        parts = [child for _, child in _children(shape) or ()]
    if len(parts) != len(children):
        raise _mismatch(
            f"`inputs{where}` has {len(children)} elements, but `dynamic_shapes{where}` has "
            f"{len(parts)} elements",
        )
    for (key, child), part in zip(children, parts, strict=True):
        _shapes_of(child, part, f"{where}{key}", out)


_WANTED = "expected None, an int, a Dim, Dim.AUTO, Dim.STATIC,  or Dim.DYNAMIC"


def _is_size(spec: Any) -> bool:
    return spec is None or (isinstance(spec, (int, Dim, _DimHint)) and not isinstance(spec, bool))


def _check_shape(value: Any, shape: Any, where: str) -> None:
    at = f"`dynamic_shapes{where}`"
    if not isinstance(value, torch.Tensor):
        is_int = isinstance(value, int) and not isinstance(value, bool)
        if shape is None or (is_int and (isinstance(shape, _DimHint) or shape == value)):
            return
        if is_int and isinstance(shape, Dim):
            raise ValueError(
                "Unable to specify input integers as dynamic through named Dims. Please use "
                "Dim.AUTO/DYNAMIC instead."
            )
        raise shapes_error(
            f"Cannot associate shape {shape} specified at {at} to non-tensor type {type(value)} "
            f"at `inputs{where}` (expected None)",
        )
    n_dims = torch._C.TensorBase.dim(value)
    if isinstance(shape, dict):
        for at_dim, spec in shape.items():
            if not isinstance(at_dim, int) or isinstance(at_dim, bool) or not _is_size(spec):
                raise shapes_error(
                    f"Unexpected dimension mapped to index {at_dim} in input tensor shape {shape} "
                    f"specified at {at} ({_WANTED},  but got {spec!r} instead)",
                )
            if not -n_dims <= at_dim < n_dims:
                raise shapes_error(
                    f"Unexpected dimension {at_dim} in input tensor shape {shape} specified at "
                    f"{at}: the tensor has {n_dims} dimensions",
                )
        return
    if isinstance(shape, (tuple, list)):
        if len(shape) != n_dims:
            raise shapes_error(
                f"Expected dynamic shape spec {shape} specified at {at} to have the same length as "
                f"the actual tensor shape {value.shape} (expected {n_dims}, but got {len(shape)} "
                "instead)",
            )
        for i, spec in enumerate(shape):
            if not _is_size(spec):
                raise shapes_error(
                    f"Unexpected dimension #{i} in input tensor shape {shape} specified at {at} "
                    f"({_WANTED}, but got {spec!r} instead)",
                )
        return
    if shape is not None:
        raise shapes_error(
            f"Unexpected input tensor shape {shape!r} specified at {at} (expected either a "
            "list/tuple of dimensions, or a dict mapping indices to dimensions, where each "
            "dimension is an int, a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC)",
        )


def _leaf_shapes(arguments: Arguments, shapes: Any) -> list[Any]:
    """Return what dynamic_shapes says of each leaf."""
    if not shapes:
        return [None] * len(arguments.values)
    bound, by_position = arguments.bound, isinstance(shapes, (tuple, list))
    if isinstance(shapes, (tuple, list)):
        if len(shapes) != len(bound):
            raise _mismatch(
                f"`inputs` has {len(bound)} elements, but `dynamic_shapes` has {len(shapes)} "
                "elements",
            )
        shapes = dict(zip(bound, shapes, strict=True))
    if not isinstance(shapes, dict):
        raise shapes_error(
            f"Expecting `dynamic_shapes` to be a dict or a tuple, got {type(shapes)}",
        )
    if set(shapes) != set(bound):
        only = next(iter(bound), "") if len(bound) == 1 else ""
        is_inner = bool(only) and only not in shapes and isinstance(bound[only], dict)
        hint = (
            "Since here `inputs` is a list/tuple enclosing a single dict, maybe you just forgot to "
            "enclose `dynamic_shapes` in a list/tuple?"
            if is_inner
            else "Alternatively, you could also ignore arg names entirely and specify "
            "`dynamic_shapes` as a list/tuple matching `inputs`."
        )
        raise shapes_error(
            "When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg "
            f"names {list(bound)} of `inputs`, but here they are {list(shapes)}. {hint}"
        )
    by_path: dict[tuple[str, ...], Any] = {}
    for i, (name, value) in enumerate(bound.items()):
        found: list[Any] = []
        where = f"[{i}]" if by_position else f"['{name}']"
        _shapes_of(value, shapes[name], where, found)
        paths = [p for p, _ in pytree.tree_flatten_with_path(value)[0]]
        for path, shape in zip(paths, found, strict=True):
            key = (name, *map(str, path))
            by_path[key] = shape
    keys = [(path[0].key, *map(str, path[1:])) for path in arguments.paths]
    return [by_path[key] for key in keys]


class _Symbols:
    """Numbers of symbols: torch's, hashes of where the sizes come from."""

    def __init__(self, sizes: list[tuple[str, Any]]) -> None:
        """Number the sizes that may vary, (source, spec), in their order.  Those of one Dim are one
        symbol: of their names the first, as torch finds it; if only others are derived of a Dim,
        it is named after the Dim."""
        self.taken: set[int] = set()
        self.sources = {source: self.hashed(source) for source, _ in sizes}
        self.named: dict[str, int] = {}
        for source, spec in sizes:
            if isinstance(spec, Dim) and not isinstance(spec, (_DerivedDim, _StaticDim)):
                one = self.sources[source]
                self.named[spec.__name__] = min(self.named.get(spec.__name__, one), one, key=str)
        for _, spec in sizes:
            if isinstance(spec, _DerivedDim) and spec.root.__name__ not in self.named:
                self.named[spec.root.__name__] = self.hashed(spec.root.__name__)

    def hashed(self, source: str) -> int:
        """Return the number and 1 of the symbol that a source has."""
        found = int(hashlib.sha256(source.encode()).hexdigest(), 16) % 100
        while found in self.taken:
            found += 1
        self.taken.add(found)
        return found + 1

    def number(self, name: str | None, source: str) -> int:
        """Return the number and 1 of a size's symbol."""
        return self.sources[source] if name is None else self.named[name]


def _shown(hint: _DimHint) -> str:
    return f"Dim.{hint.type.name}(min={hint.min}, max={hint.max})"


def _conflict(text: str, at: int, hint: _DimHint, size: int) -> str | None:
    """Return why a hint does not suit a size that cannot vary; None: it does."""
    where = f"inputs{text[1:]}" + (f".shape[{at}]" if at >= 0 else "")
    if hint.type is _DimHintType.DYNAMIC:
        return (
            f"- Received user-specified dim hint {_shown(hint)}, but export 0/1 specialized due to "
            f"hint of {size} for dimension {where}."
        )
    least, most = hint.min, hint.max
    if (least is not None and size < least) or (most is not None and size > most):
        return (
            f"- Received user-specified min/max range of [{least}, {most}], conflicting with the "
            f"inferred min/max range of [{size}, {size}], for {where}."
        )
    return None


def _dimension(text: str, at: int, spec: Any, size: int, symbols: _Symbols) -> Dimension | None:
    """Return how a size varies; None: it does not."""
    if spec is None:
        return None
    source = f"{text}.size()[{at}]" if at >= 0 else text
    if isinstance(spec, _DimHint):
        is_dynamic = spec.type is _DimHintType.DYNAMIC
        if spec.type is _DimHintType.STATIC or (at >= 0 and size < 2):
            return None
        most = MOST if spec.max is None else spec.max
        least = (2 if at >= 0 else -MOST) if spec.min is None else spec.min
        number = symbols.number(None, source)
        return text, at, None, least, most, 0, 0, number, is_dynamic
    if isinstance(spec, _StaticDim):
        spec = spec.value
    if isinstance(spec, int):
        if spec != size:
            raise constraint_violation(
                f"Static shape constraint of {spec} does not match input size of {size}, for "
                f"{source}"
            )
        return None
    root = spec.root if isinstance(spec, _DerivedDim) else spec
    factor, offset = (spec.factor, spec.offset) if isinstance(spec, _DerivedDim) else (0, 0)
    most = MOST if root.max == int_oo else root.max
    least, name = root.min, root.__name__
    if at >= 0 and not spec.min <= size <= spec.max:
        raise constraint_violation(f"{size} not in range [{max(spec.min, 2)}, {spec.max}]")
    if at >= 0 and size < 2:
        raise user_error(
            "CONSTRAINT_VIOLATION",
            f"Constraints violated ({name})! For more information, run with "
            f'TORCH_LOGS="+dynamic".\n  - You marked {name} as dynamic but your code specialized '
            f"it "
            f"to be a constant ({size}). If you're using mark_dynamic, either remove it or use "
            "maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with either Dim.STATIC or "
            f"Dim.AUTO.\nSuggested fixes:\n  {name} = {size}",
        )
    return text, at, name, least, most, factor, offset, symbols.number(name, source), False


def _sizes_given(arguments: Arguments, shapes: list[Any]) -> list[tuple[int, int, Any, int]]:
    """Return (leaf, dimension or -1, what dynamic_shapes says, the size) of each size of which it
    says something."""
    found: list[tuple[int, int, Any, int]] = []
    for i, (value, shape) in enumerate(zip(arguments.values, shapes, strict=True)):
        if shape is None:
            continue
        if not isinstance(value, torch.Tensor):
            found.append((i, -1, shape, value))
            continue
        sizes = tuple(torch._C.TensorBase.size(value))
        given = shape if isinstance(shape, dict) else dict(enumerate(shape))
        at = {d % len(sizes): spec for d, spec in given.items() if spec is not None}
        found += [(i, d, at[d], sizes[d]) for d in sorted(at)]
    return found


def _dimensions(arguments: Arguments, shapes: list[Any]) -> tuple[list[Dimension], dict[int, bool]]:
    """Return the sizes that vary, and which leaves have one."""
    rows: list[Dimension] = []
    varying = {i: False for i, shape in enumerate(shapes) if shape is not None}
    texts = arguments.texts()
    given = _sizes_given(arguments, shapes)
    symbols = _Symbols(
        [
            (f"{texts[i]}.size()[{d}]" if d >= 0 else texts[i], spec)
            for i, d, spec, size in given
            if isinstance(spec, Dim)
            or (isinstance(spec, _DimHint) and spec.type is not _DimHintType.STATIC and size >= 2)
            or (isinstance(spec, _DimHint) and d < 0)
        ]
    )
    _check_roots(texts, given)
    conflicts = []
    for i, d, spec, size in given:
        row = _dimension(texts[i], d, spec, size, symbols)
        if row is not None:
            rows.append(row)
            varying[i] = True
        elif isinstance(spec, _DimHint) and (text := _conflict(texts[i], d, spec, size)):
            conflicts.append(text)
    if conflicts:
        raise ValueError(
            "Found the following conflicts between user-specified ranges and inferred ranges from "
            "model tracing:\n" + "\n".join(conflicts)
        )
    return rows, varying


def _check_roots(texts: list[str], given: list[tuple[int, int, Any, int]]) -> None:
    """Refuse sizes that are not what they are derived to be, and names with two meanings."""
    roots: dict[str, int] = {}
    defined: dict[str, Dim] = {}
    for _, _, spec, size in given:
        if not isinstance(spec, Dim) or isinstance(spec, _StaticDim):
            continue
        first = defined.setdefault(spec.__name__, spec)
        if (first.min, first.max) != (spec.min, spec.max):
            raise user_error(
                "INVALID_INPUT",
                f"Found different definitions {first!r} and {spec!r} for the same symbolic "
                f"dimension {spec!r}!",
            )
        if not isinstance(spec, _DerivedDim):
            roots.setdefault(spec.__name__, size)
    for i, d, spec, size in given:
        if not isinstance(spec, _DerivedDim):
            continue
        name, root = spec.root.__name__, (size - spec.offset) // spec.factor
        known = roots.get(name)
        if known is None and root * spec.factor + spec.offset != size:
            raise user_error(
                "CONSTRAINT_VIOLATION",
                f"Expected shape[{d}] = {size} of input Tensor to be of the form {spec.__name__}, "
                f"where {name} is an integer",
            )
        known = roots.setdefault(name, root)
        if known * spec.factor + spec.offset != size:
            raise user_error(
                "CONSTRAINT_VIOLATION",
                f"Expected input {texts[i]}.size()[{d}] to be equal to {spec.__name__}, where "
                f"{name} = {known}, but got {size}",
            )


# -- Export
# -----------------------------------------------------------------------------------------------


def _check_leaves(arguments: Arguments) -> None:
    for value in arguments.values:
        if isinstance(value, (torch.Tensor, *PLAIN)):
            continue
        raise ValueError(
            f"Unsupported input type {type(value)}. Export only supports pytree containers of "
            "basic types (Tensor, int, float, ...) as input. To register a custom dataclass, use "
            "torch.export.register_dataclass. To register a custom container type, use "
            "torch.utils._pytree.register_pytree_node. To register a constant input, use "
            "torch.utils._pytree.register_constant",
        )


def _samples(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Return the example as the file keeps it: plain containers only."""
    plain = {tuple, list, dict}

    def is_plain(value: Any) -> bool:
        if type(value) in plain:
            return all(map(is_plain, value.values() if isinstance(value, dict) else value))
        is_tensor = isinstance(value, torch.Tensor) and not _is_fake(value)
        return is_tensor or type(value) in PLAIN

    return (args, kwargs) if is_plain(args) and is_plain(kwargs) else (None, None)


def _spec_text(spec: pytree.TreeSpec) -> str:
    """Return a tree as JSON; classes without a name in files get their own."""
    for cls in _classes_in(spec, set()):
        known = pytree.SUPPORTED_SERIALIZED_TYPES.get(cls)
        if known is not None and known.serialized_type_name != pytree.NO_SERIALIZED_TYPE_NAME_FOUND:
            continue
        if registry.is_namedtuple(cls) and cls not in registry._NODES:
            registry.register_namedtuple(cls)
        elif cls not in registry._NAMES.values():
            registry._NAMES[registry._qualified_name(cls)] = cls
    return json.dumps([1, _spec_parts(spec)])


def _classes_in(spec: pytree.TreeSpec, found: set[Any]) -> set[Any]:
    if not spec.is_leaf():
        is_named = spec.type is pytree.namedtuple
        found.add(spec._context if is_named else spec.type)
        for child in spec.children():
            _classes_in(child, found)
    return found


def _name_in_files(cls: Any) -> str:
    known = pytree.SUPPORTED_SERIALIZED_TYPES.get(cls)
    if known is not None and known.serialized_type_name != pytree.NO_SERIALIZED_TYPE_NAME_FOUND:
        return str(known.serialized_type_name)
    names = [name for name, named in registry._NAMES.items() if named is cls]
    return names[0] if names else registry._qualified_name(cls)


def _spec_parts(spec: pytree.TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    known = pytree.SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    context: Any = spec._context
    if spec.type is pytree.namedtuple:
        context = _name_in_files(context)
    elif known is not None and known.to_dumpable_context is not None:
        context = known.to_dumpable_context(context)
    else:
        context = json.dumps(context, cls=pytree.EnumEncoder)
    children = [_spec_parts(child) for child in spec.children()]
    return {"type": _name_in_files(spec.type), "context": context, "children_spec": children}


def _temporary(mod: torch.nn.Module) -> list[str]:
    """Return the names of buffers that are not part of the state dict."""
    return [
        f"{path}.{name}" if path else name
        for path, m in mod.named_modules(remove_duplicate=False)
        for name in m._non_persistent_buffers_set
    ]


@contextlib.contextmanager
def _calls_kept(mod: torch.nn.Module, paths: tuple[str, ...]) -> Iterator[None]:
    """Record how the modules at these paths are called."""
    handles = []

    def watch(path: str) -> None:
        def before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            leaves, spec = pytree.tree_flatten((args, kwargs))
            torch_live.record_call("module_inputs", (path, _spec_text(spec)), leaves)

        def after(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            leaves, spec = pytree.tree_flatten(result)
            torch_live.record_call("module_outputs", (path, _spec_text(spec)), leaves)

        module = mod.get_submodule(path)
        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(module.register_forward_hook(after, with_kwargs=True))

    try:
        for path in paths:
            watch(path)
        yield
    finally:
        for handle in handles:
            handle.remove()


def _classes(mod: torch.nn.Module) -> list[str]:
    """Return the path of each module, followed by its class."""
    modules = mod.named_modules(remove_duplicate=False)
    pairs = ((path, f"{type(m).__module__}.{type(m).__qualname__}") for path, m in modules)
    return [text for pair in pairs for text in pair]


def export_live(
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    is_draft: bool,
    kept: tuple[str, ...] = (),
    defers: bool = False,
) -> tuple[Any, str | None]:
    """Return the handle of the exported program of a call of a torch.nn.Module, and the report of a
    draft. `kept`: paths of modules whose calls keep their structure. `defers`: conditions on sizes
    are assertions of the program."""
    _share_registry()
    arguments = Arguments(mod, args, kwargs)
    _check_leaves(arguments)
    dimensions, varying = _dimensions(arguments, _leaf_shapes(arguments, dynamic_shapes))

    def call(leaves: list[Any]) -> Any:
        given, named = pytree.tree_unflatten(leaves, arguments.in_spec)
        return mod(*given, **named)

    names = arguments.names()
    with _calls_kept(mod, kept):
        recorded = torch_live.recording(
            mod, arguments.values, names, call, varying, is_draft, defers
        )
    structure = (
        _spec_text(arguments.in_spec),
        _spec_text(recorded.out_spec),
        arguments.arg_names,
        names,
        arguments.texts(),
        _temporary(mod),
        _classes(mod),
        *_samples(args, kwargs),
    )
    _rushlight.default_dtype()  # torch's is taken over
    made, report = _rushlight.export_call(
        recorded.program, "forward", tuple(arguments.values), {}, dimensions, structure, is_draft
    )
    return _rushlight.exported_of(made), report
