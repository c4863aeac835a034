"""Grad mode: torch's if torch is imported, otherwise Rushlight's own, with torch's names and
behaviour.

Rushlight's is a context variable, so that each thread and task has its own: None (gradients are
enabled, and calls of modules in eval mode record nothing unless an argument requires grad), True
(inside `enable_grad()`: every call records), False (`no_grad()`) or "inference". `_rushlight` reads
it at each call.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from ._rushlight import _grad_mode

_F = TypeVar("_F", bound=Callable[..., Any])


def _torch() -> Any:
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "set_grad_enabled") else None  # else it is still being imported


def _switch(mode: Any) -> Callable[[], None]:
    """Set the mode; return a function that restores the old one."""
    torch = _torch()
    if torch is not None:
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(mode is None or mode is True)
        return lambda: torch.set_grad_enabled(before) and None
    ours = _grad_mode.get(None)
    _grad_mode.set(mode)
    return lambda: _grad_mode.set(ours) and None


def _generator(function: Any, mode: Callable[[], Any]) -> Any:
    """Apply the mode while the generator runs, but not between its items."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        step: Callable[[], Any] = functools.partial(next, generator)
        while True:
            try:
                with mode():
                    made = step()
            except StopIteration as end:
                return end.value
            try:
                step = functools.partial(generator.send, (yield made))
            except GeneratorExit:
                with mode():
                    generator.close()
                raise
            except BaseException as error:
                step = functools.partial(generator.throw, error)

    return wrapper


class _Mode:
    """A context manager that can also be a decorator."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def _enter(self) -> Callable[[], None]:
        raise NotImplementedError

    def _again(self) -> _Mode:
        """Return a new instance for each call of a decorated function."""
        return type(self)()

    def __enter__(self) -> None:
        self._undo.append(self._enter())

    def __exit__(self, *error: object) -> None:
        self._undo.pop()()

    def __call__(self, function: _F) -> _F:
        import inspect  # slow to import

        if inspect.isgeneratorfunction(function):
            return _generator(function, self._again)  # type: ignore[no-any-return]

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]


class _PlainMode(_Mode):
    """A mode that can be written as `@no_grad`, without parentheses."""

    def __new__(cls, function: Any = None) -> Any:
        return super().__new__(cls) if function is None else cls()(function)


class no_grad(_PlainMode):  # noqa: N801 -- torch's name
    """Calls inside record nothing."""

    def _enter(self) -> Callable[[], None]:
        return _switch(False)


class enable_grad(_PlainMode):  # noqa: N801
    """Calls inside record, including those of modules in eval mode."""

    def _enter(self) -> Callable[[], None]:
        return _switch(True)


class set_grad_enabled(_Mode):  # noqa: N801
    """Enable gradients or not: from now on, in a `with`, or in a decorated function.

    Without torch True is the default mode; `enable_grad()` records more.
    """

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = mode
        self._back: Callable[[], None] | None = self._enter()

    def _enter(self) -> Callable[[], None]:
        return _switch((_grad_mode.get(None) is True or None) if self.mode else False)

    def _again(self) -> _Mode:
        again = set_grad_enabled.__new__(set_grad_enabled)
        _Mode.__init__(again)
        again.mode, again._back = self.mode, None
        return again

    def __enter__(self) -> None:
        self._undo.append(self._back or self._enter())
        self._back = None

    def __call__(self, function: _F) -> _F:
        if self._back is not None:
            self._back()  # as a decorator it concerns the function alone
            self._back = None
        return super().__call__(function)


class inference_mode(_Mode):  # noqa: N801
    """The same as `no_grad()`; torch's if torch is imported."""

    def __new__(cls, mode: Any = True) -> Any:
        return super().__new__(cls) if isinstance(mode, bool) else cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.mode = mode

    def _again(self) -> _Mode:
        return inference_mode(self.mode)

    def _enter(self) -> Callable[[], None]:
        torch = _torch()
        if torch is None:
            return _switch("inference" if self.mode else None)
        theirs = torch.inference_mode(self.mode)
        theirs.__enter__()
        return lambda: theirs.__exit__(None, None, None)


def is_grad_enabled() -> bool:
    """True if gradients are enabled."""
    torch = _torch()
    return (
        bool(torch.is_grad_enabled()) if torch is not None else _grad_mode.get(None) in (None, True)
    )


def is_inference_mode_enabled() -> bool:
    """True inside `inference_mode()`."""
    torch = _torch()
    return (
        bool(torch.is_inference_mode_enabled())
        if torch is not None
        else _grad_mode.get(None) == "inference"
    )
