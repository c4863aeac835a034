"""What a capture of torch's modules (torch_live.py) puts in the place of torch's functions, and of
Python's, while it runs: those that ask a tensor for its sizes or its data, make tensors of numbers,
change modes, or have a meaning of their own under torch.export.

Each of them is the original outside of a capture, and while the tracer is paused.
"""

from __future__ import annotations

import builtins
import functools
import math
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._functorch import vmap as _vmap
from torch._ops import HigherOrderOperator

from .torch_live import _SYMBOLIC, LiveTracer
from .torch_questions import dispatching
from .torch_trace import concrete, location
from .trace_state import current

__all__ = ["getitem", "replacements"]

_HIGHER_ORDER = os.path.join(os.path.dirname(torch.__file__), "_higher_order_ops")
_MODULE_CALLS = {torch.nn.Module._call_impl.__code__, torch.nn.Module._slow_forward.__code__}
_OF_VMAP = (
    "_add_batch_dim", "_remove_batch_dim", "_vmap_increment_nesting", "_vmap_decrement_nesting",
    "lazy_load_decompositions",
)  # fmt: skip


def _asking(original: Any, what: str) -> Callable[..., Any]:
    def method(self: torch.Tensor, dim: Any = None) -> Any:
        tracer = current()
        if not isinstance(tracer, LiveTracer) or tracer.paused or not tracer.varies(self):
            return original(self) if dim is None else original(self, dim)
        return tracer.asked(self, what, dim)

    return method


def _reading(original: Any, name: str) -> Callable[..., Any]:
    """x.item(), int(x), bool(x): a number that depends on data."""

    def method(self: torch.Tensor, *args: Any) -> Any:
        tracer = current()
        if not isinstance(tracer, LiveTracer) or tracer.paused or not tracer.known(self):
            return original(self, *args)
        if name == "__bool__" and torch._C.TensorBase.numel(self) > 1:
            return original(self, *args)  # which refuses
        number = tracer.item(self)
        if name == "item" or not isinstance(number, _SYMBOLIC):
            return number if name == "item" else original(self, *args)
        node = number.node
        if name == "__bool__":
            return node.bool_() if node.is_bool() else node.ne(node.wrap_int(0)).bool_()
        return node.float_() if name == "__float__" else int(node.guard_int("", 0))

    return method


def _listing(self: torch.Tensor) -> Any:
    tracer = current()
    if not isinstance(tracer, LiveTracer) or tracer.paused or not tracer.known(self):
        return torch._C.TensorBase.tolist(self)
    if torch._C.TensorBase.dim(self) == 0:
        return tracer.item(self)
    return [row.tolist() for row in torch.unbind(self)]


def _numpy(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    tracer = current()
    if isinstance(tracer, LiveTracer) and not tracer.paused and tracer.known(self):
        raise RuntimeError(
            "The value of a tensor that depends on data is used as a NumPy array, which an "
            f"exported program cannot do, at {location().splitlines()[0]}"
        )
    return torch._C.TensorBase.numpy(self, *args, **kwargs)


def _shown(original: Any) -> Callable[..., Any]:
    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        tracer = current()
        if not isinstance(tracer, LiveTracer) or tracer.paused:
            return original(self, *args, **kwargs)
        mode = tracer.mode
        assert mode is not None
        mode.__exit__()
        try:
            with tracer.pause():
                return original(self, *args, **kwargs)
        finally:
            mode.__enter__()

    return method


def _creating(original: Any) -> Callable[..., Any]:
    """torch.tensor of symbolic numbers: made by scalar_tensor, and stacked."""

    def made_of(data: Any, dtype: Any) -> torch.Tensor:
        if isinstance(data, (list, tuple)):
            return torch.stack([made_of(item, dtype) for item in data])
        if isinstance(data, torch.Tensor):
            return data if dtype is None else data.to(dtype)
        if dtype is None:
            number = concrete(data)
            dtype = torch.int64 if type(number) is int else None
            dtype = torch.bool if type(number) is bool else dtype
        return torch.scalar_tensor(data, dtype=dtype)

    def function(data: Any, *args: Any, **kwargs: Any) -> Any:
        tracer = current()
        if isinstance(tracer, LiveTracer) and not tracer.paused:
            leaves = pytree.tree_leaves(data) if isinstance(data, (list, tuple)) else [data]
            if any(isinstance(leaf, _SYMBOLIC) for leaf in leaves):
                return made_of(data, kwargs.get("dtype"))
        return original(data, *args, **kwargs)

    return function


def _extreme(original: Any, of_tensors: Any, of_numbers: Any, bound: str) -> Callable[..., Any]:
    """max and min of two or more symbolic numbers or tensors, as torch.export has them."""

    def of_two(a: Any, b: Any) -> Any:
        tensors = [x for x in (a, b) if isinstance(x, torch.Tensor)]
        if len(tensors) == 2:
            return of_tensors(a, b)
        if tensors and isinstance(b if tensors[0] is a else a, (int, float)):
            return torch.clamp(tensors[0], **{bound: b if tensors[0] is a else a})
        if not tensors and any(isinstance(x, _SYMBOLIC) for x in (a, b)):
            return of_numbers(a, b)
        return original(a, b)

    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = current()
        items = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        is_open = any(isinstance(x, (torch.Tensor, *_SYMBOLIC)) for x in items)
        if (
            not isinstance(tracer, LiveTracer) or tracer.paused or kwargs or len(items) < 2
            or not is_open
        ):  # fmt: skip
            return original(*args, **kwargs)
        return functools.reduce(of_two, items)

    return call


def _power(original: Any) -> Callable[..., Any]:
    def power(x: Any, y: Any) -> Any:
        return x**y if isinstance(x, _SYMBOLIC) or isinstance(y, _SYMBOLIC) else original(x, y)

    return power


def _setting_grad(original: Any) -> Callable[[bool], None]:
    def set_grad_enabled(mode: bool) -> None:
        tracer = current()
        if isinstance(tracer, LiveTracer) and not tracer.paused:
            inputs = [tracer.recorder.constant(bool(mode))]
            tracer.recorder.add("aten::set_grad_enabled", inputs, (), location())
        original(mode)

    return set_grad_enabled


def _entering_autocast(original: Any) -> Callable[..., Any]:
    def enter(self: Any) -> Any:
        tracer = current()
        if isinstance(tracer, LiveTracer) and not tracer.paused:
            given = (self.device, self.fast_dtype, self._enabled, self._cache_enabled)
            with tracer.pause():
                inputs = [tracer.recorder.constant(value) for value in given]
            tracer.recorder.add("autocast", inputs, (), location())
        return original(self)

    return enter


def _leaving_autocast(original: Any) -> Callable[..., Any]:
    def leave(self: Any, *error: Any) -> Any:
        tracer = current()
        if isinstance(tracer, LiveTracer) and not tracer.paused:
            tracer.recorder.add("autocast", [], (), location())
        return original(self, *error)

    return leave


def _tracing_state() -> Any:
    """Return the tracer to nn.Module's calls, whose frames it records; torch is not tracing."""
    return current() if sys._getframe(1).f_code in _MODULE_CALLS else None


def _is_dynamo() -> bool:
    """True for the functions of higher-order operators, which call these as they are then."""
    return sys._getframe(1).f_code.co_filename.startswith(_HIGHER_ORDER)


def _higher_order(original: Any) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        tracer = current()
        if not isinstance(tracer, LiveTracer) or tracer.paused:
            return original(self, *args, **kwargs)
        return tracer.higher_order(self, args, kwargs)

    return call


def _checking_operators() -> list[Any]:
    """Return the classes of operators that check their arguments before they are called."""
    ops = ("cond", "while_loop", "scan", "map_impl", "associative_scan")
    classes = {type(getattr(torch.ops.higher_order, name)) for name in ops}
    return [cls for cls in classes if "__call__" in vars(cls)]


def _mapping(original: Any, name: str) -> Callable[..., Any]:
    """A function of torch.vmap: it is a node of the program."""

    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = current()
        if not isinstance(tracer, LiveTracer) or tracer.paused:
            return original(*args, **kwargs)
        return tracer.record_mapping(original, name, args)

    return call


def getitem(self: torch.Tensor, at: Any) -> Any:
    """x[n] and x[:n] of symbolic numbers and 0-d tensors: select and slice, as torch.export."""
    original, tracer = torch._C.TensorBase.__getitem__, current()
    if not isinstance(tracer, LiveTracer) or tracer.paused:
        return original(self, at)
    items = list(at) if isinstance(at, tuple) else [at]
    if not any(map(_is_open_index, items)):
        return original(self, at)
    if Ellipsis in [i for i in items if not isinstance(i, torch.Tensor)]:
        where = next(i for i, item in enumerate(items) if item is Ellipsis)
        n = self.dim() - sum(i is not None and i is not Ellipsis for i in items)
        items[where : where + 1] = [slice(None)] * n
    steps, dim = [], 0
    for item in items:
        if item is None:
            steps.append((torch.unsqueeze, [dim]))
        elif isinstance(item, slice):
            if (item.start, item.stop, item.step) not in ((None, None, None), (None, None, 1)):
                parts = map(_read_index, (item.start, item.stop, item.step))
                start, stop, step = parts
                steps.append(
                    (torch.ops.aten.slice, [dim, start, stop, 1 if step is None else step])
                )
        elif _is_number(item):
            steps.append((torch.select, [dim, _read_index(item)]))
            continue
        else:
            return original(self, at)
        dim += 1
    found = self
    for function, args in steps:
        found = function(found, *args)
    return found


def _is_scalar(item: Any) -> bool:
    return (
        isinstance(item, torch.Tensor)
        and item.dim() == 0
        and not item.dtype.is_floating_point
        and not item.dtype.is_complex
        and item.dtype != torch.bool
    )


def _is_number(item: Any) -> bool:
    return (isinstance(item, (int, torch.SymInt)) and not isinstance(item, bool)) or _is_scalar(
        item
    )


def _is_open_index(item: Any) -> bool:
    if isinstance(item, slice):
        parts = (item.start, item.stop, item.step)
        return any(isinstance(part, torch.SymInt) or _is_scalar(part) for part in parts)
    return isinstance(item, torch.SymInt)


def _read_index(item: Any) -> Any:
    return item.item() if isinstance(item, torch.Tensor) else item


def replacements() -> list[tuple[Any, str, Any]]:
    tensor, base = torch.Tensor, torch._C.TensorBase
    size = _asking(base.size, "size")
    rows: list[tuple[Any, str, Any]] = [
        (tensor, "size", size),
        (tensor, "shape", property(size, doc=base.shape.__doc__)),
        (tensor, "stride", _asking(base.stride, "stride")),
        (tensor, "storage_offset", _asking(base.storage_offset, "storage_offset")),
        (tensor, "numel", _asking(base.numel, "numel")),
        (tensor, "nelement", _asking(base.nelement, "numel")),
        (torch, "numel", _asking(torch.numel, "numel")),
        (tensor, "tolist", _listing),
        (tensor, "numpy", _numpy),
        (tensor, "__repr__", _shown(tensor.__repr__)),
        (torch._C, "_set_grad_enabled", _setting_grad(torch._C._set_grad_enabled)),
        (torch.amp.autocast, "__enter__", _entering_autocast(torch.amp.autocast.__enter__)),
        (torch.amp.autocast, "__exit__", _leaving_autocast(torch.amp.autocast.__exit__)),
        (builtins, "max", _extreme(max, torch.maximum, torch.sym_max, "min")),
        (builtins, "min", _extreme(min, torch.minimum, torch.sym_min, "max")),
        (math, "pow", _power(math.pow)),
        (torch, "tensor", _creating(torch.tensor)),
        (torch, "as_tensor", _creating(torch.as_tensor)),
        (torch._C, "_get_tracing_state", _tracing_state),
        (torch.compiler, "is_dynamo_compiling", _is_dynamo),
        (torch.compiler, "_is_compiling_flag", True),
        (torch.compiler, "_is_exporting_flag", True),
        (torch.fx._symbolic_trace, "_is_fx_tracing_flag", True),
        (HigherOrderOperator, "__call__", _higher_order(HigherOrderOperator.__call__)),
        *((cls, "__call__", _higher_order(cls.__call__)) for cls in _checking_operators()),
        *((_vmap, name, _mapping(getattr(_vmap, name), name)) for name in _OF_VMAP),
        *dispatching(),
    ]
    rows += [
        (tensor, name, _reading(getattr(tensor, name), name))
        for name in ("item", "__bool__", "__int__", "__float__", "__index__")
    ]
    return rows
