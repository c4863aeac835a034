"""Operators whose arguments are graphs, run by an interpreter of nodes (unflatten.py).

Each takes `run(graph, inputs)`, which runs a graph, and then the operator's own arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ops import Namespace

Run = Callable[[Any, Sequence[Any]], Any]
_aten = Namespace("aten")


def _cond(run: Run, pred: Any, true_graph: Any, false_graph: Any, operands: Any = ()) -> Any:
    return run(true_graph if bool(pred) else false_graph, operands)


def _while_loop(
    run: Run, cond_graph: Any, body_graph: Any, carried: Any, additional: Any = ()
) -> Any:
    values = tuple(carried)
    while True:
        going = run(cond_graph, [*values, *additional])
        if not bool(going[0] if isinstance(going, (tuple, list)) else going):
            return values
        values = tuple(run(body_graph, [*values, *additional]))


def _stack(rows: list[Any]) -> tuple[Any, ...]:
    """Stack the results of steps, place by place."""
    return tuple(_aten.stack(list(column), 0) for column in zip(*rows, strict=True))


def _slices(xs: Sequence[Any]) -> list[list[Any]]:
    n = int(xs[0].shape[0])
    return [[_aten.select.int(x, 0, i) for x in xs] for i in range(n)]


def _map_impl(run: Run, graph: Any, xs: Any, additional: Any = ()) -> Any:
    return _stack([run(graph, [*items, *additional]) for items in _slices(xs)])


def _scan(run: Run, graph: Any, init: Any, xs: Any, additional: Any = ()) -> Any:
    carried, rows = list(init), []
    for items in _slices(xs):
        out = list(run(graph, [*carried, *items, *additional]))
        carried = out[: len(init)]
        rows.append(out[len(init) :])
    return (*carried, *_stack(rows))


def _wrap_with_set_grad_enabled(run: Run, enabled: bool, graph: Any, *inputs: Any) -> Any:
    from ..grad_mode import set_grad_enabled

    with set_grad_enabled(enabled):
        return run(graph, inputs)


def _with_effects(run: Run, token: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    del run
    found = op(*args, **kwargs)
    if found is None:
        return (token,)
    return (token, *(found if isinstance(found, (tuple, list)) else (found,)))


def _hints_wrapper(run: Run, graph: Any, args: Any, kwargs: Any = None, hints: Any = None) -> Any:
    del kwargs, hints
    return run(graph, args)


def _strict_mode(run: Run, graph: Any, operands: Any) -> Any:
    return run(graph, operands)


def _print(run: Run, text: str, *args: Any, **kwargs: Any) -> None:
    del run
    print(text.format(*args, **kwargs))


OPERATORS: dict[str, Callable[..., Any]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "hints_wrapper": _hints_wrapper,
    "map_impl": _map_impl,
    "print": _print,
    "scan": _scan,
    "strict_mode": _strict_mode,
    "wrap_with_set_grad_enabled": _wrap_with_set_grad_enabled,
    "with_effects": _with_effects,
}
