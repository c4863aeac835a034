"""Tasks: fork, wait and Future outside of programs, and futures that programs return."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .. import _rushlight
from .trace_state import current

T = TypeVar("T")


class Future(Generic[T]):
    """The result of a task, which is always complete: tasks run when they are forked, or when the
    call that forked them returns."""

    def __init__(
        self, result: Any = None, *, _c: Any = None, error: BaseException | None = None
    ) -> None:
        self._c = _c
        self._result = result
        self._error = error
        self._is_set = _c is not None or result is not None or error is not None

    def done(self) -> bool:
        return self._is_set

    def wait(self) -> T:
        if self._c is not None:
            self._result, self._c = _rushlight.future_result(self._c), None
        if self._error is not None:
            raise self._error
        if not self._is_set:
            raise RuntimeError("nobody set the result of this Future")
        return self._result

    def value(self) -> T:
        return self.wait()

    def set_result(self, result: Any) -> None:
        self._result, self._is_set = result, True

    def set_exception(self, error: BaseException) -> None:
        self._error, self._is_set = error, True

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        callback(self)

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        return _run(callback, (self,), {})


def _run(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
    made: Future[Any] = Future()
    try:
        made.set_result(fn(*args, **kwargs))
    except Exception as e:  # noqa: BLE001 -- raised again by wait
        made.set_exception(e)
    return made


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run func now; in programs, as a separate task. If torch is imported, the result is torch's
    Future."""
    tracer = current()
    if tracer is not None:
        return tracer.fork(func, args, kwargs)
    return done(func(*args, **kwargs)) if has_torch() else _run(func, args, kwargs)


def has_torch() -> bool:
    return hasattr(sys.modules.get("torch"), "futures")


def done(result: Any) -> Any:
    """Return torch's Future with its result."""
    made = sys.modules["torch"]._C.Future([])
    made.set_result(result)
    return made


def wait(future: Any) -> Any:
    """Return a task's result; raise its exception."""
    return future.wait()


def wrap(obj: Any, kind: str) -> Any:
    """Return the Python object for a result that is a future."""
    if kind not in ("future", "awaitable"):
        return obj
    made: Future[Any] = Future(_c=obj)
    if has_torch():
        try:
            given = made.wait()
            return (
                done(given)
                if kind == "future"
                else sys.modules["torch"].jit._awaitable_nowait(given)
            )
        except RuntimeError as error:
            made.set_exception(error)
    return made
