"""Queries of tensors during a trace: methods of torch.Tensor and functions of torch without an
operator (size, bool, item, tensor ...), replaced while a trace is recorded so that the trace gets
them."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._library.utils import handle_dispatch_mode
from torch.overrides import TorchFunctionMode

from .. import _rushlight
from .entry import entry
from .torch_trace import (
    ONLY_CONSTANTS,
    WHAT_IS_LOST,
    Mode,
    Size,
    SymbolicNumber,
    TracedFuture,
    Tracer,
    instruction,
    known_lines,
    scripted,
    warn,
)
from .trace_state import current, here

PRE_DISPATCH = torch._C.DispatchKey.PreDispatch


def _converting(original: Callable, to: str) -> Callable:
    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        tracer = current()
        if tracer is None:
            return original(self, *args, **kwargs)
        if to:
            what = to if to.startswith("NumPy") else f"Python {to}"
            warn(f"Converting a tensor to a {what} {WHAT_IS_LOST}")
            with tracer.pause():
                return original(self, *args, **kwargs)
        mode = tracer.mode
        assert mode is not None
        mode.__exit__()  # what shows a tensor takes modes away by itself
        try:
            with tracer.pause():
                return original(self, *args, **kwargs)
        finally:
            mode.__enter__()

    method.__name__ = getattr(original, "__name__", "method")
    return method


def _creating(original: Callable, name: str) -> Callable:
    def function(*args: Any, **kwargs: Any) -> Any:
        tracer = current()
        if tracer is None:
            return original(*args, **kwargs)
        if args and isinstance(args[0], torch.Tensor) and name == "torch.as_tensor":
            return original(*args, **kwargs)
        warn(f"{name} {ONLY_CONSTANTS}")
        data = args[0] if args else kwargs.get("data")
        traced: Any = _traced_numbers(tracer, data)
        if traced is not None and name != "torch.from_numpy":
            given = ((name, kwargs.get(name)) for name in ("dtype", "device"))
            options = {name: value for name, value in given if value is not None}
            if options:
                return traced.to(**options)
            return torch.clone(traced) if traced is data else traced
        if name == "torch.from_numpy":
            with tracer.pause():
                made = original(*args, **kwargs)
            return tracer.lifted(made)
        if isinstance(data, torch.Tensor):
            return original(*args, **kwargs)
        with tracer.pause():
            made = original(*args, **kwargs)
        if made.layout != torch.strided:
            return made
        return tracer.new_constant(made, name != "torch.as_tensor")

    function.__name__ = name.rpartition(".")[2]
    return function


def _new_tensor(self: torch.Tensor, data: Any, *args: Any, **kwargs: Any) -> Any:
    tracer = current()
    if tracer is None or isinstance(data, torch.Tensor):
        return torch._C.TensorBase.new_tensor(self, data, *args, **kwargs)
    with tracer.pause():
        made = torch._C.TensorBase.new_tensor(self, data, *args, **kwargs)
    return tracer.new_constant(made, True)


def _data_of(self: torch.Tensor) -> torch.Tensor:
    """x.data: a tensor without a known origin."""
    tracer = current()
    made = torch._C.TensorBase.data.__get__(self)
    if tracer is not None:
        tracer.untracked.add(id(made))
        tracer.alive.append(made)
    return made


def _set_data(self: torch.Tensor, value: torch.Tensor) -> None:
    torch._C.TensorBase.data.__set__(self, value)


def _taking_sizes(original: Callable) -> Callable:
    """interpolate computes sizes as floats while tracing; the binding takes ints."""

    def integers(tracer: Tracer, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [integers(tracer, v) for v in value]
        if not isinstance(value, torch.Tensor) or not tracer.known(value):
            return value
        with tracer.pause():
            if torch._C.TensorBase.dim(value) or not value.is_floating_point():
                return value
            made = torch.tensor(int(value))
        tracer.values[id(made)] = tracer.value(value)
        tracer.alive.append(made)
        return made

    def function(*args: Any, **kwargs: Any) -> Any:
        tracer = current()
        if tracer is None:
            return original(*args, **kwargs)
        args = (*args[:1], *(integers(tracer, a) for a in args[1:]))
        return original(*args, **{k: integers(tracer, v) for k, v in kwargs.items()})

    return function


def _scripted_by_torch(original: Callable) -> Callable:
    """Replace functions of torch.jit.script by ours of the same Python function, so that the call
    stays one."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        fn = getattr(self, "_torchdynamo_inline", None)
        if current() is None or not inspect.isfunction(fn):
            return original(self, *args, **kwargs)
        return entry().function(fn)(*args, **kwargs)

    return call


def _traced_numbers(tracer: Tracer, data: Any) -> torch.Tensor | None:
    """torch.tensor([x.size(0), 3]): stacked, so that the sizes remain values."""

    def known(d: Any) -> bool:
        return isinstance(d, torch.Tensor) and tracer.known(d)

    if isinstance(data, torch.Tensor):
        return data if known(data) else None
    if not isinstance(data, (list, tuple)) or not any(map(known, data)):
        return None
    is_tensor, make = torch.is_tensor, torch.scalar_tensor
    return torch.stack([d if is_tensor(d) else make(d, dtype=torch.int64) for d in data])


def _size(self: torch.Tensor, dim: Any = None) -> Any:
    tracer = current()
    if tracer is None or not tracer.known(self):
        return torch._C.TensorBase.size(self, *(() if dim is None else (dim,)))
    if dim is not None:
        return tracer.size(self, int(dim) if not isinstance(dim, torch.Tensor) else dim.__index__())
    return Size(tracer.size(self, d) for d in range(torch._C.TensorBase.dim(self)))


def _numel(self: torch.Tensor) -> Any:
    tracer = current()
    if tracer is None or not tracer.known(self):
        return torch._C.TensorBase.numel(self)
    return tracer.numel(self)


def _getitem(self: torch.Tensor, index: Any) -> Any:
    tracer = current()
    if tracer is None:
        return torch._C.TensorBase.__getitem__(self, index)
    view, rest = tracer.viewed(self, index)
    is_view = rest == (Ellipsis,) and view is not self
    return view if is_view else torch._C.TensorBase.__getitem__(view, rest)


def _setitem(self: torch.Tensor, index: Any, value: Any) -> None:
    tracer = current()
    view, rest = tracer.viewed(self, index) if tracer else (self, index)
    torch._C.TensorBase.__setitem__(view, rest, value)


def _index(self: torch.Tensor) -> int:
    """__index__, which range() and lists call; and the binding, whose next operator may refer to
    the tensor."""
    tracer = current()
    if tracer is None:
        return torch._C.TensorBase.__index__(self)
    with tracer.pause():
        number = torch._C.TensorBase.__index__(self)
    if tracer.known(self):
        tracer.given.append((SymbolicNumber(tracer, self, number), instruction()))
    return number


def _forking(original: Callable) -> Callable:
    def fork(func: Any, *args: Any, **kwargs: Any) -> Any:
        tracer = current()
        if tracer is None:
            return original(func, *args, **kwargs)
        return tracer.fork(func, args, kwargs)

    return fork


def _waiting(original: Callable) -> Callable:
    return lambda future: future.wait() if isinstance(future, TracedFuture) else original(future)


def _applying(original: Any) -> Any:
    """torch.autograd.Function.apply."""

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        tracer, bound = current(), original.__get__(None, cls)
        if tracer is None or kwargs:
            return bound(*args, **kwargs)
        return tracer.applied(cls, bound, args)

    return classmethod(apply)


def _dispatching(original: Callable) -> Callable:
    """Replace how PyTorch calls a mode; ours needs no list of the tensors' classes, which takes as
    long as a small operator."""

    def handle_dispatch_mode(mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        if type(mode) is Mode:
            return mode.__torch_dispatch__(func, (), args, kwargs)
        return original(mode, func, *args, **kwargs)

    return handle_dispatch_mode


def _taking_mode_off(original: Callable) -> Callable:
    """Replace how PyTorch takes the top mode off its stack around each operator: it looks at three
    slots by functions, imports and abstract classes, which takes longer than a small operator."""
    stack = torch._ops._mode_stack_state_for_pre_dispatch

    def pop_mode() -> Any:
        mode = stack.get(0)
        if type(mode) is not Mode or stack._schema_check_mode is not None or stack.get(1):
            return original()
        stack.set(0, None)
        torch._C._dispatch_tls_set_dispatch_key_included(PRE_DISPATCH, False)
        return mode

    return pop_mode


def _putting_mode_on(original: Callable) -> Callable:
    """Replace the other half: how the mode gets back onto the stack."""
    stack = torch._ops._mode_stack_state_for_pre_dispatch

    def set_mode(mode: Any) -> None:
        if type(mode) is not Mode or stack.count():
            original(mode)
            return
        stack.set(0, mode)
        torch._C._dispatch_tls_set_dispatch_key_included(PRE_DISPATCH, True)

    return set_mode


class Indexing(TorchFunctionMode):
    """Gets x[i] and x[i] = y: if these methods were replaced on torch.Tensor, C would treat it as a
    sequence for ever."""

    def __init__(
        self,
        replaced: dict[Any, Any],
        getitem: Callable[..., Any],
        setitem: Callable[..., Any] | None,
    ) -> None:
        super().__init__()
        self.replaced, self.getitem, self.setitem = replaced, getitem, setitem

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch._C.TensorBase.__getitem__:
            return self.getitem(*args)
        if func is torch._C.TensorBase.__setitem__ and self.setitem:
            return self.setitem(*args)
        # torch looks a function up by its name: what replaces it has run before
        return self.replaced.get(func, func)(*args, **(kwargs or {}))


# Methods that make Python's values of tensors, and what they make; "": only a text for people.
_CONVERSIONS = {
    "__bool__": "boolean", "__nonzero__": "boolean", "__int__": "integer", "__float__": "float",
    "item": "number", "tolist": "list", "numpy": "NumPy array", "__complex__": "complex",
    "__repr__": "",
}  # fmt: skip


def dispatching() -> list[tuple[Any, str, Any]]:
    """Return what is replaced so that the mode costs less."""
    ops = torch._ops
    return [
        (torch._library.utils, "handle_dispatch_mode", _dispatching(handle_dispatch_mode)),
        (
            ops,
            "_pop_mode_from_pre_dispatch",
            _taking_mode_off(ops._pop_mode_from_pre_dispatch),
        ),
        (ops, "_set_mode_pre_dispatch", _putting_mode_on(ops._set_mode_pre_dispatch)),
    ]


def replacements() -> list[tuple[Any, str, Any]]:
    tensor, base = torch.Tensor, torch._C.TensorBase
    shape = property(_size, doc=base.shape.__doc__)
    rows: list[tuple[Any, str, Any]] = [
        (tensor, "size", _size),
        (tensor, "data", property(_data_of, _set_data)),
        (tensor, "shape", shape),
        (tensor, "numel", _numel),
        (tensor, "nelement", _numel),
        (tensor, "new_tensor", _new_tensor),
        (torch, "numel", _numel),
        (torch._C.ScriptFunction, "__call__", _scripted_by_torch(torch._C.ScriptFunction.__call__)),
        (tensor, "__index__", _index),
        (torch.autograd.Function, "apply", _applying(vars(torch.autograd.Function)["apply"])),
        (torch._C, "fork", _forking(torch._C.fork)),
        (torch._C, "wait", _waiting(torch._C.wait)),
        (torch._C, "_get_tracing_state", current),
        (torch._C, "_is_tracing", lambda: current() is not None),
        *dispatching(),
    ]
    for name, to in _CONVERSIONS.items():
        if hasattr(tensor, name):
            rows.append((tensor, name, _converting(getattr(tensor, name), to)))
    resizing = ("upsample_", "_upsample", "adaptive_")
    sized = [(torch._C._nn, name) for name in dir(torch._C._nn) if name.startswith(resizing)]
    for owner, name in [*sized, (torch.nn.functional, "adaptive_avg_pool1d")]:
        rows.append((owner, name, _taking_sizes(getattr(owner, name))))
    for name in ("tensor", "as_tensor", "from_numpy"):
        rows.append((torch, name, _creating(getattr(torch, name), f"torch.{name}")))
    return rows


# -- Tracing
# --------------------------------------------------------------------------------------------------

_patch_lock = threading.RLock()
_turn = threading.Lock()  # one thread traces at a time: PyTorch keeps one mode of ours
_n_tracing = 0
_originals: list[tuple[Any, str, Any]] = []
_ABSENT = object()


_replaced: dict[Any, Any] = {}  # what stands in the place of what


def _install(rows: list[tuple[Any, str, Any]]) -> None:
    global _n_tracing
    with _patch_lock:
        _n_tracing += 1
        if _n_tracing > 1:
            return
        _rushlight.set_call_hook(scripted)
        for owner, name, made in rows:
            _originals.append((owner, name, vars(owner).get(name, _ABSENT)))
            _replaced[made] = getattr(owner, name)
            setattr(owner, name, made)


def _uninstall() -> None:
    global _n_tracing
    with _patch_lock:
        _n_tracing -= 1
        if _n_tracing:
            return
        _rushlight.set_call_hook(None)
        _replaced.clear()
        known_lines.clear()
        while _originals:
            owner, name, value = _originals.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


@contextlib.contextmanager
def tracing(
    tracer: Tracer,
    modules: dict[Any, str],
    rows: list[tuple[Any, str, Any]] | None = None,
    getitem: Callable[..., Any] | None = None,
) -> Iterator[None]:
    """Record what this thread computes. modules: names of nn.Modules whose calls become frames.
    rows: what is replaced meanwhile, if it is not what a trace replaces: (owner, name, by); and
    getitem what x[i] becomes then."""
    if here.tracer is not None:
        raise RuntimeError("Tracing can't be nested")
    with _turn:
        _install(replacements() if rows is None else rows)
        setitem = _setitem if rows is None else None
        indexing = Indexing(_replaced, getitem or _getitem, setitem)
        here.tracer = tracer
        names, fast = torch.jit._trace._trace_module_map, torch.backends.mha.get_fastpath_enabled()
        torch.jit._trace._trace_module_map = modules
        torch.backends.mha.set_fastpath_enabled(False)  # its fused operators are not a program's
        try:
            with enable_python_dispatcher(), Mode(tracer), indexing:
                yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            torch.jit._trace._trace_module_map = names
            here.tracer = None
            _uninstall()
