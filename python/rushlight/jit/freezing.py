"""Modules with their weights made part of their code."""

from __future__ import annotations

from typing import Any

from .. import _rushlight


def _script_module(mod: Any, what: str) -> _rushlight.Module:
    if not isinstance(mod, _rushlight.Module):
        raise RuntimeError(
            f"{what} expects a ScriptModule as input. "
            "Please use rushlight.script or rushlight.trace to script your 'nn.Module'."
        )
    return mod


def freeze(
    mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True
) -> Any:
    """A copy of a module in eval mode whose submodules are inlined and whose attributes are
    constants.

    Only forward is left, and what `preserved_attrs` names: attributes and methods, "sub.weight" for
    a submodule's. What methods change stays an attribute. With `optimize_numerics` batch norms and
    constant factors go into the weights.
    """
    names = tuple(preserved_attrs) if preserved_attrs is not None else ()
    return _rushlight.freeze(_script_module(mod, "Freezing"), names, bool(optimize_numerics), True)


def run_frozen_optimizations(
    mod: Any, optimize_numerics: bool = True, preserved_methods: list[str] | None = None
) -> None:
    """What constant weights allow, over a frozen module's forward and `preserved_methods`."""
    names = tuple(preserved_methods or ())
    _rushlight.freeze(
        _script_module(mod, "run_frozen_optimizations"), names, bool(optimize_numerics), None
    )


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """The module frozen, if it is not yet, with all that makes it faster and keeps its results (but
    for their last bits)."""
    mod = _script_module(mod, "optimize_for_inference")
    others = list(other_methods or [])
    if hasattr(mod, "training"):
        mod = freeze(mod.eval(), preserved_attrs=others)
    else:
        run_frozen_optimizations(mod, preserved_methods=others)
    return mod
