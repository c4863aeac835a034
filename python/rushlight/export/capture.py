"""`export`: a call of a module as an exported program, with torch.export's names.

A module of Rushlight's is captured as it is (rush_module_export). A torch.nn.Module is run once on
the example, by the recorder of rushlight.jit.trace, and what was recorded is captured: sizes stay
symbolic where `dynamic_shapes` says so, what Python decided on a size becomes a condition on it,
and what Python would decide on data is refused.
"""

from __future__ import annotations

import sys
from typing import Any

from .. import _rushlight
from .dynamic_shapes import Dim, ShapesCollection, _DerivedDim, _DimHint, _DimHintType, _StaticDim
from .exported_program import ExportedProgram
from .values import int_oo

__all__ = ["export"]

MOST = 2**63 - 1
Dimension = tuple["str | None", int, "str | None", int, int]


def _dimension(name: str, dim: int, spec: Any, size: int) -> Dimension | None:
    """Return how a dimension varies; None: it does not."""
    if isinstance(spec, _DimHint):
        if spec.type is _DimHintType.STATIC:
            return None
        most = MOST if spec.max is None else spec.max
        return name, dim, None, 2 if spec.min is None else spec.min, most
    if isinstance(spec, _StaticDim):
        spec = spec.value
    if isinstance(spec, int):
        if spec != size:
            raise ValueError(f"{name}: dimension {dim} is {size} in the example, not {spec}")
        return None
    if isinstance(spec, _DerivedDim):
        raise NotImplementedError(
            f"{name}: dimension {dim} is derived ({spec}): only Dim, Dim.AUTO, Dim.DYNAMIC, "
            "Dim.STATIC and ints are supported"
        )
    if not isinstance(spec, Dim):
        raise TypeError(f"{name}: expected a Dim, a hint, an int or None, got {spec!r}")
    most = MOST if spec.max == int_oo else spec.max
    return name, dim, spec.__name__, spec.min, most


def _dimensions(name: str, value: Any, spec: Any) -> list[Dimension]:
    """Return how the dimensions of an argument vary."""
    if spec is None:
        return []
    if isinstance(value, (list, tuple)):
        if not isinstance(spec, (list, tuple)) or len(spec) != len(value):
            raise ValueError(f"dynamic_shapes of {name}: expected {len(value)} items")
        return [
            d
            for i, (v, s) in enumerate(zip(value, spec, strict=True))
            for d in _dimensions(f"{name}[{i}]", v, s)
        ]
    if isinstance(value, dict):
        if not isinstance(spec, dict) or list(spec) != list(value):
            raise ValueError(f"dynamic_shapes of {name}: expected the keys {list(value)}")
        return [d for k in value for d in _dimensions(f"{name}[{k!r}]", value[k], spec[k])]
    given = spec if isinstance(spec, dict) else dict(enumerate(spec))
    sizes = tuple(int(n) for n in value.shape)
    if any(not -len(sizes) <= d < len(sizes) for d in given):
        raise ValueError(f"dynamic_shapes of {name}: it has {len(sizes)} dimensions")
    rows = [
        _dimension(name, d % len(sizes), s, sizes[d]) for d, s in given.items() if s is not None
    ]
    return [row for row in rows if row is not None]


def _all_dimensions(arguments: dict[str, Any], shapes: Any) -> list[Dimension]:
    if not shapes:
        return []
    if isinstance(shapes, (list, tuple)):
        if len(shapes) != len(arguments):
            raise ValueError(f"dynamic_shapes: expected {len(arguments)} items, got {len(shapes)}")
        shapes = dict(zip(arguments, shapes, strict=True))
    if unknown := [name for name in shapes if name not in arguments]:
        raise ValueError(f"dynamic_shapes: there is no argument {unknown[0]!r}")
    return [d for name, s in shapes.items() for d in _dimensions(name, arguments[name], s)]


def _recorded(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str]) -> Any:
    """Run a torch.nn.Module once and return what was recorded as a module; its state is as
    before."""
    import torch

    from ..jit import trace_run, traced_module

    inputs: Any = dict(zip(names, (*args, *kwargs.values()), strict=True)) if kwargs else args
    options = trace_run.Options(False, None, 0.0, False, bool(kwargs), False, exported=True)
    buffers = [(b, b.detach().clone()) for b in module.buffers()]
    try:
        return traced_module.trace_methods(module, {"forward": inputs}, options)
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def export(
    mod: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
) -> ExportedProgram:
    """Return the exported program of a call of a module with arguments like these.

    `mod`: a module of Rushlight's (of an archive, or scripted), or a torch.nn.Module.
    `dynamic_shapes`: by argument, the dimensions that may vary: `{"x": {0: Dim("batch")}}`.
    """
    if not isinstance(args, tuple):
        raise TypeError(
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}"
        )
    if strict:
        raise NotImplementedError("strict=True (capture of bytecode) is not supported")
    if preserve_module_call_signature:
        raise NotImplementedError("preserve_module_call_signature is not supported")
    kwargs = dict(kwargs or {})
    torch: Any = sys.modules.get("torch")
    is_ours = isinstance(mod, _rushlight.Module)
    if not is_ours and not (torch is not None and isinstance(mod, torch.nn.Module)):
        raise TypeError(
            f"`mod` must be a module of Rushlight's or a torch.nn.Module, got {type(mod)}"
        )
    names = _names(mod, len(args), kwargs, is_ours)
    if isinstance(dynamic_shapes, ShapesCollection):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    arguments = dict(zip(names, (*args, *kwargs.values()), strict=True))
    dimensions = _all_dimensions(arguments, dynamic_shapes)
    module = mod if is_ours else _recorded(mod, args, kwargs, names)
    made = _rushlight.export_call(module, "forward", args, kwargs, dimensions)
    return ExportedProgram(_rushlight.exported_of(made))


def _names(mod: Any, n_args: int, kwargs: dict[str, Any], is_ours: bool) -> list[str]:
    """Return the names of the given parameters."""
    if is_ours:
        found = [item.name for item in mod.inputs]
    else:
        from ..jit.trace_run import argument_names

        found = argument_names(mod.forward)
    found = found[:n_args] + [f"args_{i}" for i in range(len(found), n_args)]
    return [*found, *kwargs]
