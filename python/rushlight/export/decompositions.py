"""Tables of decompositions: what `run_decompositions` takes.

A table is a dict whose keys are operators. What each of them becomes is known to the library, which
is told the names; torch's own table is taken as well as ours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .. import _rushlight
from .operators import target_of, torch_target

__all__ = ["default_decompositions"]


class Decomposition:
    """How the library decomposes an operator; a call runs the operator."""

    def __init__(self, op: Any) -> None:
        self.op = op

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.op(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<decomposition of {self.op}>"


def default_decompositions() -> dict[Any, Callable[..., Any]]:
    """Return the operators of torch's default table; entries may be removed."""
    found = map(op_of, _rushlight.decomposed_operators().splitlines())
    return {op: Decomposition(op) for op in found}


def op_of(name: str) -> Any:
    """Return the operator "aten::add.Tensor", torch's if torch is imported."""
    return torch_target(target_of("torch.ops." + name.replace("::", ".")))


def table_names(table: dict[Any, Any]) -> list[str]:
    """Return the names of a table's operators; refuses what is not the library's to decompose."""
    known = set(_rushlight.decomposed_operators().splitlines())
    defaults = _torch_defaults()
    names = []
    for op, function in table.items():
        name = op.name() if callable(getattr(op, "name", None)) else str(op)
        is_ours = isinstance(function, Decomposition) or (
            name in known and defaults is not None and defaults.get(op) in (function, None)
        )
        if name in known and is_ours:
            names.append(name)
        elif "::" not in name or not _is_of_torch(function):
            raise NotImplementedError(
                f"run_decompositions: the table has a function of its own for {name}; only "
                "the decompositions of the default table can be chosen from"
            )
    return names


def _is_of_torch(function: Any) -> bool:
    """True for torch's own decomposition of an operator that programs here do not have."""
    return str(getattr(function, "__module__", None) or "torch").partition(".")[0] == "torch"


def _torch_defaults() -> dict[Any, Any] | None:
    """Return torch's default table, if torch is there; composites are not in it."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        from torch._decomp import _core_aten_decompositions_post_autograd as table
    except ImportError:
        return {}
    return dict(table())
