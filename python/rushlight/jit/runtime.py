"""torch.jit.isinstance outside of programs, and switches that have no effect here."""

from __future__ import annotations

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
    if origin is None:
        if target in (typing.List, typing.Dict, typing.Tuple, typing.Optional, list, dict, tuple):  # noqa: UP006
            name = getattr(target, "_name", None) or target.__name__.capitalize()
            raise RuntimeError(
                f"Attempted to use {name} without a contained type. Please add a contained type, e.g. {name}[int]"
            )
        return obj is None if target is None else isinstance(obj, target)
    if origin in (Union, getattr(types, "UnionType", Union)):
        return any(_has(obj, a) for a in args)
    if origin is tuple:
        if not isinstance(obj, tuple):
            return False
        args = () if args == ((),) else args
        return len(obj) == len(args) and all(_has(x, a) for x, a in zip(obj, args, strict=True))
    if origin is dict:
        return isinstance(obj, dict) and all(_has(k, args[0]) and _has(v, args[1]) for k, v in obj.items())
    if origin is list:
        return isinstance(obj, list) and all(_has(x, args[0]) for x in obj)
    return isinstance(obj, origin)


def isinstance_(obj: Any, target_type: Any) -> bool:
    """isinstance that looks into containers: isinstance(x, List[int])."""
    targets = target_type if isinstance(target_type, tuple) else (target_type,)
    return any(_has(obj, t) for t in targets)


isinstance_.__name__ = "isinstance"


def warn_of_optimize(optimize: Any) -> None:
    """script, trace and trace_module take an argument that means nothing any more."""
    if optimize is not None:
        warnings.warn(
            "`optimize` is deprecated and has no effect. Use `with torch.jit.optimized_execution()` instead",
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
    yield


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Has no effect here: gives back what was given."""
    return strategy


class strict_fusion:
    """Has no effect: what can be fused is."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        pass


def enable_onednn_fusion(enabled: bool) -> None:
    """Has no effect here."""


def onednn_fusion_enabled() -> bool:
    """False: there is none here."""
    return False
