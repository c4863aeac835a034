"""`export`: a call of a module as an exported program, with torch.export's names.

A module of Rushlight's is captured as it is (rush_module_export). A torch.nn.Module is run once on
the example, and what was recorded is captured (live.py): sizes stay symbolic where `dynamic_shapes`
says so, what Python decided on a size becomes a condition on it, and what Python would decide on
data is refused.
"""

from __future__ import annotations

import sys
from typing import Any

from .. import _rushlight
from ..signature import signature
from .draft import report_of
from .dynamic_shapes import (
    MOST,
    Dim,
    _DerivedDim,
    _DimHint,
    _DimHintType,
    _StaticDim,
    adopted,
    check_examples,
)
from .errors import translated, user_error
from .exported_program import ExportedProgram
from .values import int_oo

__all__ = ["draft_export", "export"]

Dimension = tuple["str | None", int, "str | None", int, int, int, int, int, bool]


def _dimension(name: str, dim: int, spec: Any, size: int) -> Dimension | None:
    """Return how a dimension varies; None: it does not."""
    if isinstance(spec, _DimHint):
        if spec.type is _DimHintType.STATIC:
            return None
        most = MOST if spec.max is None else spec.max
        return (
            name,
            dim,
            None,
            2 if spec.min is None else spec.min,
            most,
            0,
            0,
            0,
            spec.type is _DimHintType.DYNAMIC,
        )
    if isinstance(spec, _StaticDim):
        spec = spec.value
    if isinstance(spec, int):
        if spec != size:
            raise ValueError(f"{name}: dimension {dim} is {size} in the example, not {spec}")
        return None
    if not isinstance(spec, Dim):
        raise TypeError(f"{name}: expected a Dim, a hint, an int or None, got {spec!r}")
    root = spec.root if isinstance(spec, _DerivedDim) else spec
    factor, offset = (spec.factor, spec.offset) if isinstance(spec, _DerivedDim) else (0, 0)
    most = MOST if root.max == int_oo else root.max
    return name, dim, root.__name__, root.min, most, factor, offset, 0, False


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


def export(
    mod: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """Return the exported program of a call of a module with arguments like these.

    `mod`: a module of Rushlight's (of an archive, or scripted), or a torch.nn.Module.
    `dynamic_shapes`: by argument, the dimensions that may vary: `{"x": {0: Dim("batch")}}`.
    `strict`: accepted as torch.export does; bytecode is not captured, the module's call is in both
    cases.
    `prefer_deferred_runtime_asserts_over_guards`: conditions on sizes are assertions of the program
    of a torch.nn.Module, and no guards of its calls.
    """
    del strict
    defers = prefer_deferred_runtime_asserts_over_guards
    kept = preserve_module_call_signature
    return _checked(mod, args, kwargs, dynamic_shapes, kept, False, defers)


def draft_export(
    mod: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    preserve_module_call_signature: tuple[str, ...] = (),
    strict: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """Return a program as `export` does, also where that refuses: what it would refuse is in the
    program's `_report` (draft.py)."""
    del strict
    defers = prefer_deferred_runtime_asserts_over_guards
    kept = preserve_module_call_signature
    return _checked(mod, args, kwargs, dynamic_shapes, kept, True, defers)


def _checked(
    mod: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    dynamic_shapes: Any,
    preserve_module_call_signature: tuple[str, ...],
    is_draft: bool,
    defers: bool,
) -> ExportedProgram:
    torch: Any = sys.modules.get("torch")
    is_ours = isinstance(mod, _rushlight.Module)
    if not is_ours and not (torch is not None and isinstance(mod, torch.nn.Module)):
        raise ValueError(
            f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}: a module of "
            "Rushlight's is taken, too."
        )
    if not is_ours and isinstance(mod, torch.jit.ScriptModule):
        raise ValueError(
            "Exporting a ScriptModule is not supported. Save it, and export the module that "
            "rushlight.load makes of the file."
        )
    if not isinstance(args, tuple):
        raise user_error(
            "INVALID_INPUT",
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}",
        )
    if preserve_module_call_signature and is_ours:
        raise NotImplementedError(
            "preserve_module_call_signature is for torch's modules: calls of scripted ones are "
            "inlined"
        )
    args, kwargs = tuple(args), dict(kwargs or {})  # args: a named tuple, too
    given = dynamic_shapes
    if hasattr(given, "dynamic_shapes"):  # a collection, ours or torch's
        dynamic_shapes = given.dynamic_shapes(mod, args, kwargs)
    dynamic_shapes = adopted(dynamic_shapes)
    try:
        kept = preserve_module_call_signature
        made, report = _export(mod, args, kwargs, dynamic_shapes, is_ours, is_draft, kept, defers)
    except (RuntimeError, ValueError) as error:
        found = translated(error)
        if found is error:
            raise
        raise found from error
    made._parts["example_inputs"] = args, kwargs
    if is_draft:
        made._report = report_of(report or "")
    check_examples(made, given)
    return made


def _export(
    mod: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    shapes: Any,
    is_ours: bool,
    is_draft: bool,
    kept: tuple[str, ...],
    defers: bool,
) -> tuple[ExportedProgram, str | None]:
    if not is_ours:
        from .live import export_live

        handle, report = export_live(mod, args, kwargs, shapes, is_draft, kept, defers)
        return ExportedProgram(handle), report
    # not mod.inputs: that may be an attribute of the program
    found = [item.name for item in signature(mod, "forward")[0]][: len(args)]
    names = [*found, *(f"args_{i}" for i in range(len(found), len(args))), *kwargs]
    arguments = dict(zip(names, (*args, *kwargs.values()), strict=True))
    dimensions = _all_dimensions(arguments, shapes)
    made, report = _rushlight.export_call(mod, "forward", args, kwargs, dimensions, None, is_draft)
    return ExportedProgram(_rushlight.exported_of(made)), report
