"""Calls of Python in traces: `apply` of a torch.autograd.Function is one node, which calls it again
when the trace runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from . import kinds
from .entry import entry
from .scope import Scope

_numbers = itertools.count()


class _HostCall:
    """The scope of a caller's text: its only name is the Python function."""

    def __init__(self, call: Callable[..., Any], declared: Any) -> None:
        self.call, self.declared = call, declared

    def _rush_meaning(self, names: Any) -> Any:
        return (kinds.HOST_CALL, self.call, self.declared)


def caller(name: str, call: Callable[..., Any], n_args: int, result: str) -> Any:
    """Return a new function of tensors that calls the Python function, which is called `name` in
    graphs."""
    unit, sources = entry().unit, entry().sources
    names = [f"x{i}" for i in range(n_args)]
    head = f"({', '.join(f'{n}: Tensor' for n in names)}) -> {result}:\n    "
    declared = unit.define(
        "__torch__." + name,
        sources.of_text("<python>", f"def {name}{head}pass\n"),
        1,
        Scope(),
        None,
        0,
        "",
    )
    scope = Scope(names={name: _HostCall(call, declared)})
    text = f"def call_{name}{head}return {name}({', '.join(names)})\n"
    made = unit.define(
        f"__torch__.call_{name}_{next(_numbers)}", sources.of_text("<python>", text), 1, scope
    )
    made.compile()
    return made
