"""Recorded calls: a file of questions and answers that `rushlight verify` and `rushlight.record`
share.

>>> with rushlight.record(model, "calls.pt"):
...     model(x)                                  # as often as you like; any method
$ rushlight verify model.pt calls.pt

The model is one of ours, whose calls the extension reports (`_recorder`), or a module of torch's,
whose forward hooks do: then the file holds PyTorch's answers. Values are copied when a call begins
and when it has ended, because programs write to their arguments and to what they returned before.
The format is documented in docs/command.md; a tolerance for each leaf of floats is chosen here by
the same rule as in the command (cli/compare.c).
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from . import _rushlight

__all__ = ["Recording", "record", "record_calls"]

_FORMAT = 1
_RTOL = {"float16": 1e-3, "bfloat16": 1.6e-2, "float64": 1e-7, "complex128": 1e-7}
_INEXACT = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
_ATOMS = (bool, int, float, complex, str)


# -- Values
# ---------------------------------------------------------------------------------------------


def _torch() -> Any:
    return sys.modules.get("torch")


def _is_torch(value: Any) -> bool:
    torch = _torch()
    return torch is not None and hasattr(torch, "Tensor") and isinstance(value, torch.Tensor)


def _is_numpy(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def _copy(value: Any) -> Any:
    """Return the value as separate plain data: tensors, numbers, texts, lists, tuples and dicts."""
    if _is_torch(value):
        return value.detach().clone(memory_format=_torch().contiguous_format)
    if isinstance(value, _rushlight.Tensor):
        from . import ops

        return ops.aten.clone(ops.aten.detach(value))
    if _is_numpy(value):
        return value.copy() if value.ndim else value.item()
    if value is None or isinstance(value, _ATOMS):
        return value
    if isinstance(value, (list, tuple)):
        items = [_copy(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {_copy(key): _copy(item) for key, item in value.items()}
    raise TypeError(
        f"a value of type '{type(value).__name__}' cannot be part of a recorded call: expected "
        "tensors, numbers, texts, None, or lists, tuples and dicts of them"
    )


def _same(a: Any, b: Any) -> bool:
    """True if a copied value has not changed (NaN counts as changed: then it is recorded)."""
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(_same(a[key], b[key]) for key in a)
    if a is None or isinstance(a, _ATOMS):
        return bool(a == b)
    from . import ops

    return bool(ops.aten.equal(a, b)) if a.shape == b.shape and a.dtype == b.dtype else False


def _dtype_name(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _largest(tensor: Any) -> float:
    """Return the largest finite magnitude in a tensor of floats."""
    from . import ops

    flat = ops.aten.abs(_rushlight.as_tensor(tensor).reshape([-1]))
    finite = flat[ops.aten.isfinite(flat)]
    return float(ops.aten.max(finite).item()) if finite.numel() else 0.0


def _tolerances(
    value: Any, rtol: float | None, atol: float | None
) -> Iterator[tuple[float, float]]:
    """Return (rtol, atol) of each leaf of floats, depth first."""
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _tolerances(item, rtol, atol)
        return
    is_number = isinstance(value, (float, complex))
    if is_number or (hasattr(value, "dtype") and _dtype_name(value) in _INEXACT):
        if rtol is not None or atol is not None:
            yield rtol or 0.0, atol or 0.0
        elif is_number:
            yield 1e-7, 1e-7 * abs(value) if abs(value) < float("inf") else 0.0
        else:
            usual = _RTOL.get(_dtype_name(value), 1e-5)
            yield usual, usual * _largest(value)


# -- Recordings
# -----------------------------------------------------------------------------------------


class _Question(NamedTuple):
    """A call that has begun."""

    entry: dict[str, Any]
    args: tuple[Any, ...]


class Recording:
    """The calls of one model: inside `with recording:` each call of it, and each call made through
    `recording(...)`."""

    calls: list[dict[str, Any]]
    """What was recorded, in the format's words; may be edited."""

    def __init__(
        self,
        model: Any,
        file: str | os.PathLike[str] | None = None,
        *,
        rtol: float | None = None,
        atol: float | None = None,
        seed: int | None = 0,
    ) -> None:
        if not callable(model):
            raise TypeError(f"record() takes a model, not a value of type '{type(model).__name__}'")
        self.calls = []
        self._model, self._file = model, file
        self._rtol, self._atol, self._seed = rtol, atol, seed
        self._detach: list[Callable[[], Any]] = []
        self._open: list[_Question] = []

    def __enter__(self) -> Recording:
        if self._detach:
            raise RuntimeError("the recording is on already")
        self._detach = self._attach()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        for detach in self._detach:
            detach()
        self._detach = []
        if kind is None and self._file is not None:
            self.save(self._file)

    def __len__(self) -> int:
        return len(self.calls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model's forward, and record it."""
        return self._call(self._model, "forward", args, kwargs)

    def call(self, method: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the model, and record it."""
        return self._call(getattr(self._model, method), method, args, kwargs)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the calls recorded so far; the path ends in .pt."""
        origin = f"rushlight {_rushlight.__version__}: record {type(self._model).__name__}"
        _rushlight.save_value(
            file, {"format": _FORMAT, "origin": origin, "calls": list(self.calls)}
        )

    # -- Where calls come from --

    def _attach(self) -> list[Callable[[], Any]]:
        """Report the model's calls to this recording; return a function that stops it."""
        model, torch = self._model, _torch()
        if isinstance(model, _rushlight.Module):
            if model._recorder is not None:
                raise RuntimeError("the model is being recorded already")
            object.__setattr__(model, "_recorder", self)
            return [lambda: object.__setattr__(model, "_recorder", None)]
        if torch is not None and isinstance(model, torch.nn.Module):
            module = torch.nn.Module  # a ScriptModule refuses hooks by its own name only
            before = module.register_forward_pre_hook(model, self._torch_before, with_kwargs=True)
            after = module.register_forward_hook(model, self._torch_after, with_kwargs=True)
            return [before.remove, after.remove]
        raise TypeError(
            f"calls of a value of type '{type(model).__name__}' are recorded only where they go "
            f"through the recording: "
            "recording = rushlight.record(f); recording(x); recording.save(path)"
        )

    def _torch_before(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._open.append(self._begin("forward", args, kwargs, True))

    def _torch_after(
        self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        self._end(self._open.pop(), result)

    def _call(self, callee: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(self._model, _rushlight.Module):
            with contextlib.ExitStack() as ended:
                if not self._detach:
                    for detach in self._attach():
                        ended.callback(detach)
                return callee(*args, **kwargs)
        if self._detach:  # a hook sees it
            return callee(*args, **kwargs)
        question = self._begin(method, args, kwargs, True)
        try:
            result = callee(*args, **kwargs)
        except Exception as error:
            self._fail(question, error)
            raise
        self._end(question, result)
        return result

    # -- What is recorded: also called by the extension --

    def _begin(
        self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], is_random: bool
    ) -> _Question:
        entry: dict[str, Any] = {"method": method, "args": _copy(tuple(args))}
        entry["kwargs"] = _copy(dict(kwargs))
        if is_random and self._seed is not None:
            entry["seed"] = self._seed
            torch = _torch()
            (_rushlight if torch is None else torch).manual_seed(self._seed)
        from .grad_mode import is_grad_enabled

        if not is_grad_enabled():
            entry["no_grad"] = True
        return _Question(entry, args)

    def _finish(self, question: _Question, answer: dict[str, Any]) -> None:
        entry = question.entry
        after = _copy(tuple(question.args))
        changed = not _same(entry["args"], after)
        compared = (answer.get("result"), after if changed else None)
        answer["tolerances"] = list(_tolerances(compared, self._rtol, self._atol))
        if changed:
            answer["args_after"] = after
        self.calls.append({**entry, **answer})

    def _end(self, question: _Question, result: Any) -> None:
        self._finish(question, {"result": _copy(result)})

    def _fail(self, question: _Question, error: BaseException) -> None:
        message = str(error).rstrip().rpartition("\n")[2].removeprefix("RuntimeError: ")
        self._finish(question, {"raises": {"type": type(error).__name__, "contains": message}})


def record(
    model: Any,
    file: str | os.PathLike[str] | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int | None = 0,
) -> Recording:
    """Record calls of a model, for `rushlight verify MODEL CALLS`.

    `with record(model, "calls.pt"):` records each call of the model in the block, wherever it is
    made, with its result or exception, and writes the file at the end (not if the block raises).
    Without a block, call the returned recording instead of the model: `recording(x)`,
    `recording.call("encode", x)`, then `recording.save(path)`.

    The model is a program of rushlight, a torch.nn.Module (then PyTorch's results are recorded),
    or, through the recording only, any function. `rtol` and `atol` are the tolerances that are
    written for floats; without them they follow from dtype and magnitude. A program that draws
    random numbers starts each call from `seed` (None: the generator does not change, and such a
    call cannot be replayed).
    """
    return Recording(model, file, rtol=rtol, atol=atol, seed=seed)


def record_calls(
    model: Any,
    inputs: Iterable[Any],
    file: str | os.PathLike[str],
    *,
    method: str = "forward",
    **options: Any,
) -> list[Any]:
    """Call a model's method, write the calls to a file, and return the results.

    Each of `inputs` is a tuple of positional arguments, a dict of arguments by name, or one
    argument. Options are those of `record`.
    """
    recording = Recording(model, file, **options)
    results = []
    for given in inputs:
        args = given if isinstance(given, tuple) else () if isinstance(given, dict) else (given,)
        kwargs = given if isinstance(given, dict) else {}
        call = recording if method == "forward" else functools.partial(recording.call, method)
        results.append(call(*args, **kwargs))
    recording.save(file)
    return results
