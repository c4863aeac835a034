"""torch.jit.isinstance outside of programs, and settings of executors."""

from __future__ import annotations

import os
import sys
import types
import typing
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Union

from .. import _rushlight


def _has(obj: Any, target: Any) -> bool:
    origin = typing.get_origin(target)
    args = typing.get_args(target)
    if target is Any:
        return True
    bare = next(
        (name for name in ("List", "Dict", "Tuple", "Optional") if target is getattr(typing, name)),
        None,
    )
    if bare is not None or target in (list, dict, tuple):
        name = bare or target.__name__.capitalize()
        if name == "Dict":
            raise RuntimeError(
                "Attempted to use Dict without contained types. Please add contained type, e.g. "
                "Dict[int, int]"
            )
        raise RuntimeError(
            f"Attempted to use {name} without a contained type. Please add a contained type, e.g. "
            f"{name}[int]"
        )
    if origin is None:
        return obj is None if target is None else isinstance(obj, target)
    if origin in (Union, getattr(types, "UnionType", Union)):
        return any(_has(obj, a) for a in args)
    if origin is tuple:
        if not isinstance(obj, tuple):
            return False
        args = () if args == ((),) else args
        return len(obj) == len(args) and all(_has(x, a) for x, a in zip(obj, args, strict=True))
    if origin in (list, dict) and isinstance(obj, origin) and not obj:
        warnings.warn(
            "The inner type of a container is lost when calling torch.jit.isinstance in eager "
            "mode. For example, List[int] "
            "would become list and therefore falsely return True for List[float] or List[str].",
            stacklevel=4,
        )
    if origin is dict:
        return isinstance(obj, dict) and all(
            _has(k, args[0]) and _has(v, args[1]) for k, v in obj.items()
        )
    if origin is list:
        return isinstance(obj, list) and all(_has(x, args[0]) for x in obj)
    return isinstance(obj, origin)


def isinstance_(obj: Any, target_type: Any) -> bool:
    """Implement isinstance that also checks the items of containers: isinstance(x, List[int])."""
    targets = target_type if isinstance(target_type, tuple) else (target_type,)
    return any(_has(obj, t) for t in targets)


isinstance_.__name__ = "isinstance"


def is_enabled() -> bool:
    """Return False after torch.jit._state.disable(), and with PYTORCH_JIT=0: then code remains
    Python's."""
    state = sys.modules.get("torch.jit._state")
    return (
        bool(state._enabled.enabled)
        if state is not None
        else os.environ.get("PYTORCH_JIT", "1") != "0"
    )


def warn_of_optimize(optimize: Any) -> None:
    """Warn that script, trace and trace_module have an argument without effect."""
    if optimize is not None:
        warnings.warn(
            "`optimize` is deprecated and has no effect. Use `with "
            "torch.jit.optimized_execution()` instead",
            FutureWarning,
            stacklevel=3,
        )


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """With False, calls run the code for any arguments and make no plans.  Results do not depend on
    it."""
    was_off, *limits = _rushlight.get_plan_limits()
    _rushlight.set_plan_limits(not should_optimize, *limits)
    try:
        yield
    finally:
        _rushlight.set_plan_limits(was_off, *_rushlight.get_plan_limits()[1:])


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """Has no effect: results do not depend on it."""
    if name not in ("fuser0", "fuser1", "fuser2", "fuser3"):
        raise Exception(f"unrecognized fuser option (name: {name})")
    yield


class _Switches:
    """The settings, which have no effect but can be read."""

    onednn = False


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Set how many plans are made for the sizes of arguments (STATIC), and behind them for any
    sizes (DYNAMIC); returns the previous setting.  At first one each: docs/executors.md."""
    numbers = {"STATIC": 0, "DYNAMIC": 0}
    for kind, depth in strategy:
        if kind not in numbers:
            raise ValueError(f"FusionBehavior only supported 'STATIC' or 'DYNAMIC', got: {kind}")
        numbers[kind] += int(depth)
    off, *_ = _rushlight.get_plan_limits()
    _, *before = _rushlight.set_plan_limits(off, *numbers.values())
    return [(kind, n) for kind, n in zip(numbers, before, strict=True) if n]


def set_profiling_executor(enabled: bool) -> bool:
    """Set if first calls record facts of values that later calls guard (the executor `profiling`),
    or plans assume only what is known when a call begins (`specialising`).  Returns the previous
    setting; results do not depend on it."""
    before = _rushlight.get_executor()
    if before != "simple":
        _rushlight.set_executor("profiling" if enabled else "specialising")
    return before == "profiling"


set_profiling_mode = set_profiling_executor  # PyTorch's has two switches for it


def set_autodiff_subgraph_inlining(enabled: bool) -> bool:
    """Set if plans of recorded calls leave single operators to records of their own (at first:
    yes), or make them parts, too.  Returns the previous setting; results do not depend on it."""
    return _rushlight.set_subgraph_inlining(enabled)


def last_executed_optimized_graph() -> Any:
    """Return the graph that the last call of any function or method ran; after a backward call,
    too, the graph of the forward call."""
    from .functions import shown

    graph = _rushlight.last_executed_graph()
    if graph is None:
        raise RuntimeError("no function or module that still exists has been called")
    return shown(graph)


def export_opnames(module: Any) -> list[str]:
    """Return the names of all operators of the module's program, sorted: "aten::add.Tensor"."""
    found: set[str] = set()

    def add(block: Any) -> None:
        for node in block.nodes():
            name = str(node.schema()).partition("(")[0]
            if "::" in name and not name.startswith("prim::"):
                found.add(name)
            for inner in node.blocks():
                add(inner)

    for submodule in module.modules():
        for method in submodule._get_methods():
            graph = method.inlined_graph
            for name in ("peephole", "constant_propagation", "dce"):
                graph.run_pass(name)
            add(graph)
    return sorted(found)


class strict_fusion:
    """Has no effect: everything that can be fused is fused."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        pass


def enable_onednn_fusion(enabled: bool) -> None:
    """Has no effect here; onednn_fusion_enabled returns the setting."""
    _Switches.onednn = bool(enabled)


def onednn_fusion_enabled() -> bool:
    """Return the last setting."""
    return _Switches.onednn
