"""torch.jit.isinstance outside of programs, and settings that have no effect here."""

from __future__ import annotations

import os
import sys
import types
import typing
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Union


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
    """Has no effect: results do not depend on it."""
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """Has no effect: results do not depend on it."""
    if name not in ("fuser0", "fuser1", "fuser2", "fuser3"):
        raise Exception(f"unrecognized fuser option (name: {name})")
    yield


class _Switches:
    """The settings, which have no effect but can be read."""

    strategy: typing.ClassVar[list[tuple[str, int]]] = [("STATIC", 2), ("DYNAMIC", 10)]
    onednn = False


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Has no effect here; returns the previous setting."""
    for kind, _ in strategy:
        if kind not in ("STATIC", "DYNAMIC"):
            raise ValueError(f"FusionBehavior only supported 'STATIC' or 'DYNAMIC', got: {kind}")
    before, _Switches.strategy = (
        _Switches.strategy,
        [(kind, int(depth)) for kind, depth in strategy],
    )
    return before


def export_opnames(module: Any) -> list[str]:
    """Return the names of all operators of the module's program, sorted: "aten::add.Tensor"."""
    from .functions import optimized

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
            add(optimized(method.inlined_graph))
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
