"""Freezing: makes the weights of modules part of their code."""

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
    """Return a copy of a module in eval mode whose submodules are inlined and whose attributes are
    constants.

    The copy has only forward, and the names in `preserved_attrs`: attributes and methods,
    "sub.weight" for a submodule's. Attributes that methods change remain attributes. With
    `optimize_numerics` batch norms and constant factors are folded into the weights.
    """
    names = tuple(preserved_attrs) if preserved_attrs is not None else ()
    return _rushlight.freeze(_script_module(mod, "Freezing"), names, bool(optimize_numerics), True)


def run_frozen_optimizations(
    mod: Any, optimize_numerics: bool = True, preserved_methods: list[str] | None = None
) -> None:
    """Run the optimisations for constant weights over a frozen module's forward and
    `preserved_methods`."""
    names = tuple(preserved_methods or ())
    _rushlight.freeze(
        _script_module(mod, "run_frozen_optimizations"), names, bool(optimize_numerics), None
    )


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """Return the module frozen, if it is not yet, with all optimisations that keep its results
    (except for their last bits)."""
    mod = _script_module(mod, "optimize_for_inference")
    others = list(other_methods or [])
    if hasattr(mod, "training"):
        mod = freeze(mod.eval(), preserved_attrs=others)
    else:
        run_frozen_optimizations(mod, preserved_methods=others)
    return mod
