"""Records what PyTorch computes.

PyTorch runs the function on real tensors; a dispatch mode above autograd gets each operator with
its overload and complete arguments, before it is decomposed, and reports it to the recorder
(src/trace/recorder.h), which builds the graph. Sizes are returned as zero-dimensional tensors, so
that arithmetic on them is recorded too; if the binding takes such a tensor as a number, it calls
item and gets a symbolic integer or float that refers to the tensor. Queries without an operator
(size, bool, item ...) are methods of torch.Tensor, replaced while a trace is recorded; other
threads get the originals.

Only this file, torch_questions.py and torch_live.py use internals of PyTorch: the PreDispatch key
and its dispatcher, the tracing state that torch's own Python code reads, and the map of module
names.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import linecache
import os
import sys
import warnings
from collections import Counter
from typing import Any

import torch
import torch._ops
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from torch.jit._trace import TracerWarning

from .. import _rushlight
from .entry import entry
from .python_calls import caller
from .trace_state import current, here

PACKAGE = os.path.dirname(os.path.abspath(__file__))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
DISPATCH = (os.path.join(_TORCH, "_ops.py"), os.path.join(_TORCH, "_library"), contextlib.__file__)
OURS = (PACKAGE, *DISPATCH)
# Files whose frames are no places of an exported program.
UNSEEN = (
    os.path.join(_TORCH, "nn", "modules", "module.py"),
    os.path.join(_TORCH, "__init__.py"),
    os.path.join(_TORCH, "fx", "experimental"),
    os.path.join(os.path.dirname(PACKAGE), "export"),
)

DTYPE_NAMES = {
    getattr(torch, d.name): d.scalar_type
    for d in vars(_rushlight).values()
    if isinstance(d, _rushlight.dtype) and hasattr(torch, d.name)
}
# Types that the recorder takes as constants, besides tensors.
PLAIN = (str, int, float, complex, torch.dtype, torch.layout, torch.memory_format, torch.device)
# Types whose text in graphs is not their own.
TEXTS = {"NumberType": "Scalar", "QSchemeType": "int"}
# Types of numbers: what reads one from a tensor, and the number's type.
NUMBERS = {"IntType": ("aten::Int", "int"), "FloatType": ("aten::Float", "float")}
WHAT_IS_LOST = (
    "might cause the trace to be incorrect. We can't record the data flow of Python values, so "
    "this value will be treated as "
    "a constant in the future. This means that the trace might not generalize to other inputs!"
)
ONLY_CONSTANTS = (
    "results are registered as constants in the trace. You can safely ignore this warning if you "
    "use this function to create tensors out of constant variables that would be the same every "
    "time you call this function. In any other case, this might cause the trace to be incorrect."
)
# Operators that are recorded as the operators that they call, as torch.jit.trace does.
TAKEN_APART = {
    f"aten::{name}"
    for name in (
        "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
        "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell",
    )
}  # fmt: skip
# Operators that return a constant argument unchanged: torch.tensor(...) calls them on its result.
KEEPING = {"aten::lift_fresh", "aten::detach_", "aten::lift"}


def tensor_type(t: torch.Tensor) -> str:
    """Return "Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)"."""
    if t.layout != torch.strided or t.dtype not in DTYPE_NAMES or t.is_nested or t.is_quantized:
        return "Tensor"
    sizes = "".join(f"{int(n)}, " for n in t.size())
    strides = f"strides=[{', '.join(str(int(n)) for n in t.stride())}], " if t.dim() else ""
    return (
        f"{DTYPE_NAMES[t.dtype]}({sizes}{strides}requires_grad={int(t.requires_grad)}, "
        f"device={t.device})"
    )


class SymbolicNumber:
    """The node of a torch.SymInt or SymFloat: the number of a traced tensor."""

    def __init__(self, tracer: Tracer, tensor: torch.Tensor, number: Any) -> None:
        self.tracer, self.tensor, self.number = tracer, tensor, number

    def is_int(self) -> bool:
        return isinstance(self.number, int)

    def is_float(self) -> bool:
        return isinstance(self.number, float)

    def is_symbolic(self) -> bool:
        return True

    def is_bool(self) -> bool:
        return False

    def nested_int(self) -> None:
        return None

    has_hint = is_symbolic
    is_nested_int = is_constant = is_bool
    maybe_as_int = maybe_as_float = nested_int

    @property
    def hint(self) -> Any:
        return self.number

    def guard_int(self, file: str, line: int) -> int:
        """Handle a use of the tensor as a number in the binding: the operator that it calls next
        may refer to the tensor."""
        self.tracer.given.append((self, instruction()))
        return self.number

    guard_float = guard_int

    def int_(self) -> int:
        return int(self.number)

    def str(self) -> str:
        return str(self.number)

    _graph_repr = __repr__ = str

    def clone(self) -> SymbolicNumber:
        return self


class Size(tuple):
    """x.shape while tracing: its items are tensors."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance(x.shape, torch.Size)
        return torch.Size

    def numel(self) -> Any:
        made: Any = 1
        for n in self:
            made = n * made
        return made

    def __getitem__(self, i: Any) -> Any:
        made = super().__getitem__(i)
        return Size(made) if isinstance(i, slice) else made

    def __add__(self, other: Any) -> Size:
        return Size((*self, *other))

    def __radd__(self, other: Any) -> Size:
        return Size((*other, *self))


class Mode(ProxyTorchDispatchMode):
    """The dispatcher's entry: a mode of the PreDispatch key, which accepts only this class."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        tracer.mode = self

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # no wrapper around __torch_dispatch__

    def __enter__(self) -> Mode:
        torch._ops._set_mode_pre_dispatch(self)
        return self

    def __exit__(self, *error: Any) -> None:
        torch._ops.unset_mode_pre_dispatch(torch._C._TorchDispatchModeKey.PROXY)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        tracer = self.tracer
        if tracer.paused:
            return func(*args, **(kwargs or {}))
        return tracer.dispatched(func, args, kwargs or {})


class Pause:
    """Pause recording inside the block."""

    __slots__ = ("tracer",)

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def __enter__(self) -> None:
        self.tracer.paused += 1

    def __exit__(self, *error: Any) -> None:
        self.tracer.paused -= 1


class Kind:
    """The type of an operator's argument or result, read once."""

    __slots__ = ("inner", "name", "text")

    def __init__(self, kind: Any) -> None:
        self.name = kind.kind()
        has_inner = self.name in ("OptionalType", "ListType")
        inner: Any = Kind(kind.getElementType()) if has_inner else None
        self.inner, is_optional = inner, self.name == "OptionalType"
        self.text: str = inner.text + "?" if is_optional else TEXTS.get(self.name, str(kind))


class Signature:
    """The data of an operator's schema that the tracer needs, read once: each access crosses to
    C++."""

    __slots__ = ("arguments", "full", "is_recorded", "name", "results", "writes")

    def __init__(self, schema: Any) -> None:
        self.name = schema.name
        self.full = f"{schema.name}.{schema.overload_name}"  # "aten::relu." has no overload
        self.arguments = [
            (a.name, a.kwarg_only, a.default_value, Kind(a.type)) for a in schema.arguments
        ]
        self.results = [Kind(r.type) for r in schema.returns]
        gives = any("Tensor" in str(r.type) for r in schema.returns)
        self.is_recorded = schema.is_mutable or gives
        self.writes = schema.is_mutable or not schema.returns


@functools.cache
def signature(func: Any) -> Signature | None:
    """Return the signature of an overload of torch.ops; None: it has no schema."""
    return Signature(func._schema) if hasattr(func, "_schema") else None


class Tracer:
    """One trace over torch code."""

    apart = TAKEN_APART  # names of operators of which the callees are recorded

    def __init__(self, type: Any = None) -> None:
        """`type`: the type of the module whose method is traced."""
        self.recorder = _rushlight.Recorder(entry().unit, type)
        self.n_open = 0  # calls of submodules
        self.values: dict[int, int | str] = {}  # by id of the tensor; paths of attributes
        self.named: set[int] = set()  # values that have names, or need none
        self.alive: list[Any] = []  # so that ids stay theirs
        self.outplace = False
        self.paused = 0
        self.mode: Mode | None = None
        self.given: list[tuple[SymbolicNumber, Any]] = []
        self.programs: dict[int, str] = {}  # paths of submodules that are programs, by id
        self.untracked: set[int] = set()  # ids of tensors of known memory that are constants
        self.memory: dict[tuple, int | str] = {}  # by what a tensor is a view of, and how

    # -- Tensors and their values
    # ----------------------------------------------------------------------------

    def bind(self, tensor: torch.Tensor, value: int | str) -> None:
        self.values[id(tensor)] = value
        self.alive.append(tensor)
        if id(tensor) not in self.untracked and self.has_memory(tensor):
            self.memory[self.place(tensor)] = value

    def bind_attribute(self, path: str, tensor: torch.Tensor) -> None:
        """Record a parameter or buffer of the traced module."""
        self.bind(tensor, path)

    def has_memory(self, tensor: torch.Tensor) -> bool:
        """True if a tensor is known by its memory."""
        return tensor.layout == torch.strided

    @staticmethod
    def place(tensor: torch.Tensor) -> tuple:
        base, cell = torch._C.TensorBase, tensor.untyped_storage()._cdata
        sizes = tuple(base.size(tensor))
        return cell, tensor.storage_offset(), sizes, base.stride(tensor), tensor.dtype

    def find(self, tensor: torch.Tensor) -> int | None:
        """Return the value of a tensor. PyTorch's factories return another object than their
        operator did: same memory, same value."""
        found = self.values.get(id(tensor))
        if found is None and id(tensor) not in self.untracked:
            with self.pause():
                has_memory = self.has_memory(tensor) and not tensor.is_nested
                found = self.memory.get(self.place(tensor)) if has_memory else None
            if found is not None:
                self.values[id(tensor)] = found
                self.alive.append(tensor)
        if isinstance(found, str):
            found = self.values[id(tensor)] = self.recorder.attribute(found)
            self.named.add(found)
        return found

    def known(self, tensor: Any) -> bool:
        return self.find(tensor) is not None

    def value(self, tensor: torch.Tensor) -> int:
        """Return the value of a tensor; an unknown tensor becomes a constant, an unnamed one gets
        the name of the variable that holds it."""
        found = self.find(tensor)
        if found is not None:
            if found not in self.named:
                name = variable_name(tensor)
                if name:
                    self.name(found, name)
        else:
            if tensor.requires_grad:
                raise RuntimeError(
                    "Cannot insert a Tensor that requires grad as a constant. Consider making it a "
                    f"parameter or input, or detaching the gradient\nTensor:\n{self.shown(tensor)}"
                )
            found = self.constant(tensor, location())
            self.bind(tensor, found)
        return found

    def name(self, value: int, name: str) -> None:
        self.recorder.set_name(value, name)
        self.named.add(value)

    def constant(self, tensor: torch.Tensor, where: str) -> int:
        with self.pause():
            return self.recorder.constant(tensor, where)

    def one(self, kind: str, inputs: list[int], type: str | None = None, where: str = "") -> int:
        """Return the value of a node with one output; without a type it is derived from the
        inputs."""
        return self.recorder.add(kind, inputs, (type,), where)[0]

    def type_of(self, tensor: torch.Tensor) -> str:
        with self.pause():
            return tensor_type(tensor)

    def shown(self, tensor: torch.Tensor) -> str:
        """Return the value as C++ prints it, if it is short."""
        with self.pause():
            if torch._C.TensorBase.dim(tensor) > 1 or torch._C.TensorBase.numel(tensor) > 100:
                return tensor.detach().__repr__()
            rows = [f"{n:g}" for n in tensor.detach().reshape(-1).tolist()]
            wide = max(map(len, rows), default=0)
            sizes = ",".join(map(str, torch._C.TensorBase.size(tensor)))
            lines = "".join(f" {row:>{wide}}\n" for row in rows)
            return f"{lines}[ torch.{DTYPE_NAMES.get(tensor.dtype, '')}Tensor{{{sizes}}} ]"

    def pause(self) -> Pause:
        return Pause(self)

    # -- Operators
    # ----------------------------------------------------------------------------------------------

    def dispatched(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """Compute one operator and record it."""
        known = signature(func)
        name = known.name if known is not None else ""
        if name in ("aten::item", "aten::_local_scalar_dense") and self.known(args[0]):
            return self.item(args[0])
        at, given, self.given = instruction() if self.given else None, self.given, []
        given = [g for g in given if g[1] == at]
        if (
            self.apart
            and torch.is_autocast_enabled("cpu")
            and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "AutocastCPU")
        ):
            with self.mode or contextlib.nullcontext():  # its casts are operators
                return func._op_dk(torch._C.DispatchKey.AutocastCPU, *args, **kwargs)
        key = self.taken_apart(name, args, bool(given))
        if key is not None:
            with self.mode or contextlib.nullcontext():
                return func._op_dk(key, *args, **kwargs)
        if self.outplace and name.endswith("_"):
            self.check_unique(name[len("aten::") :], args[0])
        keeps = name in KEEPING and not self.known(args[0])
        with self.pause():
            plain_args, plain_kwargs = args, kwargs
            if has_symbols(args) or has_symbols(kwargs):
                plain_args, plain_kwargs = concrete(args), concrete(kwargs)
            if known is None or keeps or not known.is_recorded:
                return func(*plain_args, **plain_kwargs)
            where = location()
            inputs = self.inputs(known, args, kwargs, given, where)
            result = func(*plain_args, **plain_kwargs)
        self.add(known, inputs, result, where)
        return result

    def check_unique(self, name: str, tensor: torch.Tensor) -> None:
        """Warn if an in-place write is recorded out of place while other tensors share the
        memory."""
        with self.pause():
            cell, rows = tensor.untyped_storage()._cdata, enumerate(self.alive)
            strided = ((t, i) for i, t in rows if t.layout == torch.strided)
            alive = {id(t): i for t, i in strided if t.untyped_storage()._cdata == cell}
        kept, count = Counter(map(id, self.alive)), sys.getrefcount
        others = [(at, i) for at, i in alive.items() if at != id(tensor)]
        n = 1 + sum(count(self.alive[i]) > kept[at] + 1 for at, i in others)
        if n > 1:
            warn(
                f"There are {n} live references to the data region being modified when tracing "
                f"in-place operator {name}. This might cause the trace to be incorrect, because "
                "all other views that also reference this data will not reflect this change in the "
                "trace! On the other hand, if all other views use the same memory chunk, but are "
                "disjoint (e.g. are outputs of torch.split), this might still be safe."
            )

    def taken_apart(self, name: str, args: tuple, has_given: bool) -> Any:
        """Return the key with which to call an operator whose callees are recorded instead; None:
        record the operator itself."""
        keys = torch._C.DispatchKey
        if name in self.apart and not has_given:
            return keys.CompositeImplicitAutograd
        if name.startswith("aten::_foreach_"):
            return keys.CompositeExplicitAutograd
        wrapped = torch._C._functorch.is_functorch_wrapped_tensor
        for arg in args:
            for a in arg if isinstance(arg, (list, tuple)) else (arg,):
                if isinstance(a, torch.Tensor) and wrapped(a):
                    raise RuntimeError(
                        "functions that torch.func or torch.vmap transforms cannot be traced"
                    )
        return None

    def item(self, tensor: torch.Tensor) -> Any:
        with self.pause():
            number = tensor.item()
        node = SymbolicNumber(self, tensor, number)
        self.alive.append(tensor)
        made = {int: torch.SymInt, float: torch.SymFloat}.get(type(number))
        return number if made is None else made(node)

    def inputs(
        self, known: Signature, args: tuple, kwargs: dict, given: list, where: str
    ) -> list[int]:
        n_args, rows = len(args), []
        for i, (name, is_named, default, kind) in enumerate(known.arguments):
            value = args[i] if i < n_args and not is_named else kwargs.get(name, default)
            if given:
                value = linked(value, given)
            rows.append((self.stashed(value, kind) if has_symbols(value) else value, kind))
        return [self.argument(value, kind, where) for value, kind in rows]

    def stashed(self, value: Any, kind: Kind) -> Any:
        """Record numbers that come from tensors where the tensors are made, before the call's other
        arguments."""
        if kind.inner is not None:
            if type(value) in (list, tuple):
                return [self.stashed(v, kind.inner) for v in value]
            return self.stashed(value, kind.inner)
        return self.symbolic(value, kind.name) if has_symbols(value) else value

    def argument(self, value: Any, kind: Kind, where: str) -> int:
        """Return the graph's value for an argument of the schema."""
        if isinstance(value, torch.Tensor) and kind.name != "ListType":
            return self.value(value)
        if isinstance(value, Made):
            return value
        if value is None:
            return self.recorder.constant(None)
        if kind.name == "OptionalType":
            return self.argument(value, kind.inner, where)
        if kind.name == "ListType":
            if not isinstance(value, (list, tuple)):
                value = [value]
            items = [self.argument(v, kind.inner, where) for v in value]
            return self.one("prim::ListConstruct", items, kind.inner.text + "[]")
        if kind.name == "TensorType":
            return self.number_tensor(value, where)
        return self.literal(value, kind.name, where)

    def symbolic(self, value: Any, kind: str) -> int:
        node = value.node
        if not isinstance(node, SymbolicNumber):
            return Made(self.literal(node.hint, kind, ""))
        tensor = self.value(node.tensor)
        if kind == "TensorType":
            return Made(tensor)
        name, type = NUMBERS.get(kind, ("aten::ScalarImplicit", "Scalar"))
        return Made(self.recorder.add(name, [tensor], (type,), None, tensor)[0])

    def number_tensor(self, value: Any, where: str) -> int:
        """Convert a Python number where the schema takes a tensor."""
        with self.pause():
            wide = {float: torch.float64, complex: torch.complex128}.get(type(value))
            tensor = torch.tensor(value, dtype=wide)
        return self.constant(tensor, where)

    def literal(self, value: Any, kind: str, where: str) -> int:
        if isinstance(value, torch.Generator):
            value = None
        elif isinstance(value, bool):
            value = int(value) if kind == "IntType" else value
        elif isinstance(value, int):
            value = float(value) if kind == "FloatType" else value
        elif kind == "DeviceObjType":
            value = torch.device(value)
        elif not isinstance(value, PLAIN):
            raise RuntimeError(f"a {type(value).__name__} cannot be recorded in a trace")
        return self.recorder.constant(value, where)

    def quotes(self, code: Any) -> bool:
        """True for a frame whose line's text is to be recorded, too."""
        return False

    def recorded_name(self, known: Signature) -> str:
        """Return what the recorder is told of an operator; the overload follows from the inputs."""
        return known.name

    def result_type(self, tensor: torch.Tensor) -> str | None:
        """Return the type of a result in the graph; None: that of the operator's schema."""
        return self.type_of(tensor)

    def add(self, known: Signature, inputs: list[int], result: Any, where: str) -> None:
        kinds, lists = known.results, []
        types: list[str | None] = []
        results = [result] if len(kinds) == 1 else list(result) if kinds else []
        for kind, value in zip(kinds, results, strict=True):
            if isinstance(value, torch.Tensor):
                types.append(self.result_type(value))
            elif isinstance(value, (list, tuple)):
                types.append("Tensor[]" if kind.name != "ListType" else kind.inner.text + "[]")
            else:
                types.append("Tensor" if kind.name == "OptionalType" else kind.text)
        name = self.recorded_name(known)
        if name == "aten::convolution":  # what it calls; the rest is about cuDNN
            name = "aten::_convolution"
            types = [(types[0] or "").replace("requires_grad=1", "requires_grad=0")]
            inputs = inputs + [self.recorder.constant(flag) for flag in (False, False, True, True)]
        is_outplace = self.outplace and known.writes and name.endswith("_")
        if is_outplace and hasattr(torch.ops.aten, name[6:-1]):
            name = name[:-1]
        outputs = self.recorder.add(name, inputs, tuple(types), where)
        for output, value in zip(outputs, results, strict=True):
            if isinstance(value, torch.Tensor):
                self.bind(value, output)
            elif isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
                lists.append((output, value))
        for output, value in lists:
            unpacked = self.recorder.add(
                "prim::ListUnpack", [output], tuple(map(self.result_type, value))
            )
            for one, t in zip(unpacked, value, strict=True):
                self.bind(t, one)

    # -- Calls of programs
    # ---------------------------------------------------------------------------------------

    def scripted(self, callee: Any, method: str | None, args: tuple, kwargs: dict) -> Any:
        """Compute a call of a compiled function or module, and record it as a call."""
        if method is None:
            declared, owner, call = callee, [], {"callee": callee}
        else:
            path = self.programs.get(id(callee))
            if path is None:
                raise RuntimeError(
                    f"Tried to trace {callee._c} but it is not part of the active trace. Modules "
                    "that are called during a trace must be registered as submodules of the thing "
                    "being traced."
                )
            declared = entry().unit.type_of_object(callee).method(method)
            owner, call = [self.recorder.attribute(path)], {"method": method}
        arguments = declared.arguments[len(owner) :]
        given = dict(zip((a[0] for a in arguments), args, strict=False)) | kwargs
        original = getattr(callee, "_torchdynamo_inline", None)
        values, plain = list(owner), {}
        for name, kind, _, _ in arguments:
            if name not in given and method is None:
                parameters = inspect.signature(original).parameters if original else {}
                given[name] = getattr(parameters.get(name), "default", None)
            elif name not in given:
                schema = callee._program_method(method).schema
                given[name] = next(a.default_value for a in schema.arguments if a.name == name)
            values.append(self.python_value(given[name], kind))
            with self.pause():
                plain[name] = self.python_number(given[name], str(kind))
        with self.pause():
            result = (callee if method is None else callee._program_method(method))(**plain)
        made = self.recorder.add(
            "prim::CallFunction" if method is None else "prim::CallMethod",
            values,
            (self.type_of(result) if isinstance(result, torch.Tensor) else None,),
            location(),
            **call,
        )
        self.bind_result(result, made[0])
        return result

    def applied(self, cls: Any, apply: Any, args: tuple) -> Any:
        """Record torch.autograd.Function.apply as a call of Python."""
        inputs = [self.value(arg) for arg in args if isinstance(arg, torch.Tensor)]
        scalars = [None if isinstance(arg, torch.Tensor) else (arg,) for arg in args]
        where = location()
        with self.pause():
            result = apply(*args)
        parts = result if isinstance(result, tuple) else (result,)
        other = next((part for part in parts if not isinstance(part, torch.Tensor)), parts)
        if other is not parts:
            raise RuntimeError(
                f"Tracer cannot set value trace for type {type(other).__name__.capitalize()}. "
                "Supported types are tensor, tensor list, and tuple of tensors."
            )

        def call(*tensors: Any) -> Any:
            left = iter(tensors)
            return apply(*(next(left) if scalar is None else scalar[0] for scalar in scalars))

        types, is_tuple = [self.type_of(part) for part in parts], isinstance(result, tuple)
        plain = f"Tuple[{', '.join('Tensor' for _ in parts)}]" if is_tuple else "Tensor"
        made = self.recorder.add(
            "^" + cls.__name__,
            inputs,
            (f"({', '.join(types)})" if is_tuple else types[0],),
            where,
            callee=caller(cls.__name__, call, len(inputs), plain),
            attrs=f'inplace=0, module="{cls.__module__}", Subgraph=<Graph>',
            scalars=", ".join(str(s[0]) for s in scalars if s is not None),
        )
        self.bind_result(result, made[0])
        return result

    @staticmethod
    def python_number(value: Any, kind: str) -> Any:
        if isinstance(value, torch.Tensor) and kind in ("int", "float", "bool"):
            return value.item()
        return value

    def python_value(self, value: Any, kind: Any) -> int:
        """Return the Python value for an argument of a program's function."""
        text = graph_type(kind)
        if isinstance(value, torch.Tensor):
            number = {"int": "aten::Int", "float": "aten::Float", "bool": "aten::Bool"}.get(text)
            return self.one(number, [self.value(value)], text) if number else self.value(value)
        elems = kind.elems
        if value is None:
            return self.recorder.constant(None)
        if text.endswith("?"):
            return self.python_value(value, elems[0])
        if isinstance(value, (list, tuple)) and elems:
            kinds = elems if text.startswith("(") else elems * len(value)
            parts = list(map(self.python_value, value, kinds))
            form = "List" if text.endswith("]") else "Tuple"
            return self.one(f"prim::{form}Construct", parts, text)
        if isinstance(value, dict):
            items = [v for item in value.items() for v in item]
            parts = list(map(self.python_value, items, elems * len(value)))
            return self.one("prim::DictConstruct", parts, text)
        return self.literal(value, "FloatType" if text == "float" else "AnyType", "")

    def bind_result(self, result: Any, value: int) -> None:
        held = (torch.Tensor, list, tuple, dict)
        if isinstance(result, torch.Tensor):
            self.bind(result, value)
        elif isinstance(result, (list, tuple)) and any(isinstance(x, held) for x in result):
            kind = "prim::TupleUnpack" if isinstance(result, tuple) else "prim::ListUnpack"
            outputs = self.recorder.add(kind, [value], tuple(map(self.shaped, result)))
            for item, output in zip(result, outputs, strict=True):
                self.bind_result(item, output)
        elif isinstance(result, dict):
            for key, item in result.items():
                inputs = [value, self.recorder.constant(key)]
                self.bind_result(item, self.one("aten::__getitem__", inputs, self.shaped(item)))

    def shaped(self, item: Any) -> str | None:
        """Return a tensor's type; the types of other values follow from their parts."""
        return self.type_of(item) if isinstance(item, torch.Tensor) else None

    # -- Tasks
    # ----------------------------------------------------------------------------------------------

    def fork(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """Run a task now, and record it as a function of its own."""
        self.recorder.open()
        try:
            result = func(*args, **kwargs)
            output = self.packed(result)
        except BaseException:
            self.recorder.close()
            raise
        return TracedFuture(result, self.recorder.close(output))

    def packed(self, value: Any) -> int:
        """Return a result as one value."""
        if isinstance(value, torch.Tensor):
            return self.value(value)
        if isinstance(value, (list, tuple)):
            parts = [self.packed(v) for v in value]
            kind = "prim::TupleConstruct" if isinstance(value, tuple) else "prim::ListConstruct"
            return self.one(kind, parts)
        raise RuntimeError(f"a task that gives a {type(value).__name__} cannot be traced")

    def wait(self, future: TracedFuture) -> Any:
        made = self.one("aten::wait", [future.recorded], None, location())
        self.bind_result(future.result, made)
        return future.result

    # -- Questions
    # ----------------------------------------------------------------------------------------------

    def size(self, tensor: torch.Tensor, dim: int) -> Any:
        """Return one size, as a tensor."""
        with self.pause():
            n_dims = torch._C.TensorBase.dim(tensor)
            n = torch._C.TensorBase.size(tensor, dim)
            dim = dim + n_dims if dim < 0 else dim
            made = torch.tensor(n)
        number = self.recorder.constant(dim, location())
        self.bind(made, self.to_tensor("aten::size", [self.value(tensor), number]))
        return made

    def numel(self, tensor: torch.Tensor) -> Any:
        with self.pause():
            made = torch.tensor(torch._C.TensorBase.numel(tensor))
        self.bind(made, self.to_tensor("aten::numel", [self.value(tensor)]))
        return made

    def to_tensor(self, kind: str, inputs: list[int]) -> int:
        """Return a number that an operator computes as a tensor."""
        number = self.one(kind, inputs, "int", location())
        return self.one("prim::NumToTensor", [number], "Long(device=cpu)")

    def number_of(self, index: Any) -> Any:
        """Return the symbolic number of a traced zero-dimensional tensor; None for anything
        else."""
        if not isinstance(index, torch.Tensor) or not self.known(index):
            return None
        with self.pause():
            is_int = index.dtype in (torch.int64, torch.int32, torch.int16, torch.int8)
            is_number = torch._C.TensorBase.dim(index) == 0 and is_int
        return self.item(index) if is_number else None

    def viewed(self, tensor: torch.Tensor, index: Any) -> tuple[torch.Tensor, Any]:
        """Index a tensor: return the view for all items but tensors, and the rest of the index."""
        items = index if isinstance(index, tuple) else (index,)
        n_dims, n_taken = torch._C.TensorBase.dim(tensor), sum(consumed(i) for i in items)
        if n_taken > n_dims or not all(is_plain(i) for i in items):
            return tensor, index
        aten = torch.ops.aten
        dim, rest = 0, []
        for item in items:
            if isinstance(item, list):
                item = self.listed(tensor, item)
            if isinstance(item, slice):
                start, stop, step = (self.bound(b) for b in (item.start, item.stop, item.step))
                start, stop = 0 if start is None else start, sys.maxsize if stop is None else stop
                step, item = 1 if step is None else step, slice(None)
                tensor = aten.slice.Tensor(tensor, dim, start, stop, step)
            elif item is None:
                tensor, item = aten.unsqueeze(tensor, dim), slice(None)
                dim += 1
                rest.append(item)
                continue
            elif item is not Ellipsis:
                number = self.bound(item)
                if isinstance(number, (int, torch.SymInt)):
                    with self.pause():
                        size = torch._C.TensorBase.size(tensor, dim)
                    if not -size <= concrete(number) < size:
                        return tensor, (*rest, item)
                    tensor = aten.select.int(tensor, dim, number)
                    continue
            rest.append(item)
            dim += n_dims - n_taken if item is Ellipsis else consumed(item)
        has_tensors = any(isinstance(i, torch.Tensor) for i in rest)
        return tensor, tuple(rest) if has_tensors else (Ellipsis,)

    def bound(self, number: Any) -> Any:
        """Return a traced number as the object that refers to its tensor."""
        found = self.number_of(number)
        return number if found is None else found

    def listed(self, tensor: torch.Tensor, item: Any) -> Any:
        """Return a list of numbers in an index as a constant."""
        with self.pause():
            made = torch.tensor(item, device=tensor.device)
        return self.new_constant(made, False)

    def new_constant(self, tensor: torch.Tensor, is_detached: bool) -> torch.Tensor:
        """Record what PyTorch records for a tensor made from Python's data."""
        with self.pause():
            kept = tensor.detach().clone()
        where, type, constant = location(), self.type_of(tensor), self.recorder.constant
        options = (tensor.device, tensor.dtype, False, False)
        inputs = [self.constant(kept, where), *(constant(option, where) for option in options)]
        made = self.one("aten::to", [*inputs, constant(None)], type, where)
        self.bind(tensor, self.one("aten::detach", [made], type, where) if is_detached else made)
        return tensor

    def lifted(self, tensor: torch.Tensor) -> torch.Tensor:
        """Record a constant as PyTorch does for data from NumPy."""
        where = location()
        constant = self.constant(tensor, where)
        self.bind(tensor, self.one("aten::lift_fresh", [constant], self.type_of(tensor), where))
        return tensor

    # -- Scopes: torch.nn.Module's calls of its tracing state
    # --------------------------------------------

    def push_scope(self, name: str) -> None:
        if self.paused:
            return
        self.recorder.open(name.partition(".")[2])
        self.n_open += 1

    def pop_scope(self) -> None:
        if not self.paused and self.n_open:
            self.recorder.close()
            self.n_open -= 1


class Made(int):
    """A value of the trace among arguments that are plain numbers."""


class TracedFuture:
    """The result of fork while tracing."""

    def __init__(self, result: Any, recorded: int) -> None:
        self.result, self.recorded = result, recorded

    def wait(self) -> Any:
        tracer = current()
        return self.result if tracer is None else tracer.wait(self)

    value = wait

    def done(self) -> bool:
        return True


def warn(text: str) -> None:
    """Warn at the line that caused it, even if it is in a file of torch."""
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((PACKAGE, *DISPATCH)):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, TracerWarning, stacklevel=level + 1)


def consumed(item: Any) -> int:
    """Return how many dimensions of a tensor an index consumes."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    is_mask = isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8)
    return torch._C.TensorBase.dim(item) if is_mask else 1


def is_plain(item: Any) -> bool:
    """True if the index is decomposed here; the binding handles all others."""
    if isinstance(item, list):
        return bool(item) and all(type(i) in (int, bool) for i in item)
    return (
        item is None
        or item is Ellipsis
        or isinstance(item, (slice, torch.Tensor))
        or (type(item) is int)
    )


def instruction() -> tuple[int, int]:
    """Return the position of the traced program: it shows whether a number was read for the
    following call."""
    frame = innermost()
    return (id(frame.f_code), frame.f_lasti) if frame is not None else (0, 0)


def linked(value: Any, given: list[tuple[SymbolicNumber, Any]]) -> Any:
    """Replace numbers that were read for the call's arguments by the objects that refer to their
    tensors."""
    if type(value) in (list, tuple):
        return [linked(v, given) for v in value]
    if type(value) not in (int, float):
        return value
    match = next((g for g in given if g[0].number == value), None)
    if match is None:
        return value
    given.remove(match)
    given.append(match)  # the last choice for the next number
    return torch.SymInt(match[0]) if isinstance(value, int) else torch.SymFloat(match[0])


def scripted(callee: Any, method: str | None, args: tuple, kwargs: dict) -> Any:
    """The extension calls this before it calls a program."""
    tracer = current()
    return NotImplemented if tracer is None else tracer.scripted(callee, method, args, kwargs)


def graph_type(kind: Any) -> str:
    """Return a program's type as graphs have it: "(Tensor, int[])"."""
    text = str(kind)
    form, bracket, _ = text.partition("[")
    parts = [graph_type(elem) for elem in kind.elems] if bracket else []
    shapes = {"Tuple": f"({', '.join(parts)})", "Dict": f"Dict({', '.join(parts)})"}
    if form in ("List", "Optional"):
        return parts[0] + ("[]" if form == "List" else "?")
    return shapes.get(form, text)


def has_symbols(value: Any) -> bool:
    """True if there is a symbolic number in an argument."""
    kind = type(value)
    if kind is list or kind is tuple:
        return any(map(has_symbols, value))
    if kind is dict:
        return any(map(has_symbols, value.values()))
    return kind is torch.SymInt or kind is torch.SymFloat or kind is torch.SymBool


def concrete(value: Any) -> Any:
    """Replace symbolic numbers by their values."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return getattr(value.node, "number", value)
    if type(value) in (list, tuple):
        return type(value)(concrete(v) for v in value)
    if type(value) is dict:
        return {k: concrete(v) for k, v in value.items()}
    return value


def innermost() -> Any:
    """Return the innermost frame of Python that is neither ours nor PyTorch's dispatcher's."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OURS):
        frame = frame.f_back
    return frame


# Lines of text, while a trace is on: by code object and instruction.  A code object's own hash
# reads all of its constants, so its id is the key; the entry holds it, so that the id stays its
# own.
known_lines: dict[tuple[int, int], tuple[str, Any]] = {}


def location() -> str:
    """Return the place of that frame and its callers, "file.py(12): function", without ours."""
    frame, lines = innermost(), []
    tracer = here.tracer  # also while it is paused
    unseen = (PACKAGE,) if tracer is None or tracer.apart else (PACKAGE, *UNSEEN)
    while frame is not None:
        code = frame.f_code
        at = id(code), frame.f_lasti
        known = known_lines.get(at)
        if known is None:
            is_ours = code.co_filename.startswith(unseen)
            line = f"{code.co_filename}({frame.f_lineno}): {code.co_name}\n"
            if tracer is not None and tracer.quotes(code):
                text = linecache.getline(code.co_filename, frame.f_lineno).strip()
                line += f"    {text}\n"
            elif is_ours:
                line = ""
            known = known_lines[at] = line, code
        lines.append(known[0])
        frame = frame.f_back
    return "".join(lines)


def variable_name(tensor: torch.Tensor) -> str | None:
    """Return the name of that frame's variable that is this tensor."""
    frame = innermost()
    for name, value in frame.f_locals.items() if frame is not None else ():
        if value is tensor:
            return name if name != "self" and name.isascii() and name.isidentifier() else None
    return None
