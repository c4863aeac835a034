"""PyTorch's own functions, computed by Rushlight's operators.

Under `with Ours():` every builtin of PyTorch (torch.add, Tensor.view, torch._C._nn.gelu,
torch.ops.aten.add ...) is the operator of the same name here.  Functions that PyTorch writes in
Python run as they are, down to the builtins that they call: what a TorchScript program of them
would do.  A builtin that has no operator here raises Missing: nothing is computed by PyTorch
without being seen.
"""

from __future__ import annotations

import functools
import importlib
import sys
import types
from typing import Any

import rushlight
import torch
from torch.overrides import TorchFunctionMode


class Missing(Exception):
    """There is no operator behind this function of PyTorch's."""


# Questions about a tensor, and Python's own: nothing is computed.
ASKS = {
    "__bool__",
    "__complex__",
    "__contains__",
    "__deepcopy__",
    "__dir__",
    "__float__",
    "__format__",
    "__hash__",
    "__index__",
    "__int__",
    "__iter__",
    "__len__",
    "__reduce_ex__",
    "__repr__",
    "__setstate__",
    "_assert",
    "_debug_has_internal_overlap",
    "_get_tracing_state",
    "_has_compatible_shallow_copy_type",
    "_has_storage",
    "_is_view",
    "_is_zerotensor",
    "_set_grad_enabled",
    "are_deterministic_algorithms_enabled",
    "as_tensor",
    "broadcast_shapes",
    "can_cast",
    "data_ptr",
    "dim",
    "element_size",
    "from_numpy",
    "get_default_dtype",
    "get_device",
    "has_names",
    "initial_seed",
    "is_any_autocast_enabled",
    "is_autocast_enabled",
    "is_complex",
    "is_conj",
    "is_contiguous",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_floating_point",
    "is_grad_enabled",
    "is_inference",
    "is_inference_mode_enabled",
    "is_neg",
    "is_nonzero",
    "is_pinned",
    "is_same_size",
    "is_set_to",
    "is_shared",
    "is_signed",
    "is_sparse",
    "is_storage",
    "is_tensor",
    "manual_seed",
    "ndimension",
    "nelement",
    "numel",
    "numpy",
    "promote_types",
    "requires_grad_",
    "result_type",
    "seed",
    "set_default_dtype",
    "size",
    "storage",
    "storage_offset",
    "stride",
    "sym_size",
    "tensor",
    "tolist",
    "type",
    "untyped_storage",
}
ATTRIBUTES = {
    "T": "numpy_T",
    "mT": "mT",
    "H": "matrix_H",
    "mH": "mH",
    "real": "real",
    "imag": "imag",
}
# Methods and functions whose name is not the operator's.
NAMES = {
    "__invert__": "bitwise_not",
    "__neg__": "neg",
    "__pos__": "positive",
    "__abs__": "abs",
    "__matmul__": "matmul",
    "__rmul__": "mul",
    "__radd__": "add",
    "__truediv__": "div",
    "__floordiv__": "floor_divide",
    "__mod__": "remainder",
    "__idiv__": "div_",
    "__itruediv__": "div_",
    "__ifloordiv__": "floor_divide_",
    "__imod__": "remainder_",
    "__div__": "div",
    "nonzero_numpy": "nonzero_numpy",
}
DTYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "bool": torch.bool,
    "byte": torch.uint8,
    "char": torch.int8,
    "short": torch.int16,
    "int": torch.int32,
    "long": torch.int64,
    "cfloat": torch.complex64,
    "cdouble": torch.complex128,
    "chalf": torch.complex32,
}
VARIADIC = {
    "view",
    "reshape",
    "permute",
    "expand",
    "repeat",
    "flip",
    "new_empty",
    "new_zeros",
    "new_ones",
    "tile",
    "resize_",
    "sum_to_size",
    "zeros",
    "ones",
    "empty",
    "rand",
    "randn",
}
LISTS = {
    "broadcast_tensors",
    "meshgrid",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "cartesian_prod",
    "einsum",
}
RENAMED = {
    "axis": "dim",
    "keepdims": "keepdim",
    "input": "self",
    "x": "self",
    "x1": "self",
    "x2": "other",
}
# Arguments of PyTorch's Python binding alone.
BINDING = {"requires_grad", "pin_memory", "as_tuple"}
# Data that a given result has already.
FORM = {"dtype", "layout", "device"}


def operator_name(func: Any) -> str | None:
    """The operator behind a builtin: "aten::add", "aten::add.Tensor"; None for what is no
    operator's."""
    if isinstance(func, torch._ops.OpOverload):
        return (
            func.name() if func._overloadname != "default" else func.name().removesuffix(".default")
        )
    if isinstance(func, torch._ops.OpOverloadPacket):
        return func._qualified_op_name
    name = func.__name__
    if name == "__get__":
        attribute = ATTRIBUTES.get(func.__self__.__name__)
        return f"aten::{attribute}" if attribute else None
    if name in ("__set__", "__delete__") or name in ASKS:
        return None
    if name in NAMES:
        name = NAMES[name]
    elif (
        name.startswith("__i")
        and name.endswith("__")
        and rushlight.ops.aten.find(name[3:-2] + "_")
        and name != "__ior__"
    ):
        name = name if rushlight.ops.aten.find(name) else name[3:-2] + "_"
    elif name.startswith("__") and name.endswith("__") and rushlight.ops.aten.find(name) is None:
        name = name[2:-2]
    return f"aten::{name}"


def plain(value: Any) -> Any:
    """Arguments as the operators take them."""
    if isinstance(value, torch.Size):
        return list(value)
    if isinstance(value, torch.Tensor) and type(value) is not torch.Tensor:
        return value.as_subclass(torch.Tensor)
    if hasattr(value, "item") and type(value).__module__ == "numpy":
        return value.item()
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        return int(value) if isinstance(value, torch.SymInt) else float(value)
    if type(value) in (list, tuple):
        return type(value)(plain(v) for v in value)
    return value


def get_item(x: torch.Tensor, index: Any) -> Any:
    """x[index] by view operators and aten::index."""
    view, tensors = viewed(x, index)
    return rushlight.ops.aten.index.Tensor(view, tensors) if tensors else view


def set_item(x: torch.Tensor, index: Any, value: Any) -> None:
    """x[index] = value."""
    view, tensors = viewed(x, index)
    if not isinstance(value, torch.Tensor):
        value = torch.tensor(value, dtype=x.dtype)
    if tensors:
        rushlight.ops.aten.index_put_(view, tensors, value)
    else:
        rushlight.ops.aten.copy_(view, value)


def consumed(item: Any) -> int:
    """How many dimensions of the tensor an index takes."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return (
        item.dim()
        if isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8)
        else 1
    )


def viewed(x: torch.Tensor, index: Any) -> tuple[Any, list]:
    """The view that the basic indices make, and the tensors that index it, by dimension."""
    aten = rushlight.ops.aten
    items = list(index) if isinstance(index, tuple) else [index]
    items = [torch.tensor(i) if isinstance(i, (list, range)) else i for i in items]
    skipped = x.dim() - sum(consumed(i) for i in items)
    dim, tensors = 0, []
    for item in items:
        if isinstance(item, bool):
            item = torch.tensor(item)
        if item is Ellipsis:
            dim += skipped
        elif item is None:
            x = aten.unsqueeze(x, dim)
            dim += 1
        elif isinstance(item, slice):
            x = aten.slice(
                x,
                dim,
                *(None if i is None else int(i) for i in (item.start, item.stop)),
                int(item.step or 1),
            )
            dim += 1
        elif isinstance(item, torch.Tensor) and (item.dim() or item.dtype == torch.bool):
            if item.dim() == 0:
                x, item = aten.unsqueeze(x, dim), item.reshape(1)
            tensors += [None] * (dim - len(tensors)) + [item]
            dim += item.dim() if item.dtype == torch.bool else 1
        else:
            x = aten.select(x, dim, int(item))
    return x, tensors


@functools.cache
def looking_for_overrides() -> list[tuple[types.ModuleType, str]]:
    """PyTorch's modules that ask whether a mode or a subclass wants a call, and the names by which
    they ask."""
    for name in ("torch.masked", "torch.signal", "torch.nn.functional", "torch.functional"):
        importlib.import_module(name)
    asking = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
    modules = [
        m
        for n, m in sys.modules.items()
        if n.split(".")[0] == "torch" and isinstance(m, types.ModuleType)
    ]
    return [
        (m, name)
        for m in modules
        if m is not torch._C
        for name in asking
        if callable(vars(m).get(name))
    ]


def seed_both(seed: int, theirs: Any = torch.manual_seed) -> Any:
    """Some functions of the samples seed the generator themselves."""
    rushlight.manual_seed(seed)
    return theirs(seed)


@functools.cache
def argument_names(name: str) -> frozenset[str]:
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return frozenset()
    return frozenset(
        a.name for o in packet.overloads() for a in getattr(packet, o)._schema.arguments
    )


@functools.cache
def out_names(name: str) -> frozenset[str]:
    """Arguments of the overloads that are given their results."""
    packet = getattr(torch.ops.aten, name, None)
    schemas = [getattr(packet, o)._schema for o in packet.overloads()] if packet is not None else []
    return frozenset(
        a.name
        for schema in schemas
        if any(b.is_out for b in schema.arguments)
        for a in schema.arguments
    )


def named(name: str, kwargs: dict) -> dict:
    """Named arguments by the names of the schema; what only PyTorch's Python binding knows is left
    out."""
    known = argument_names(name)
    made = {}
    for k, v in kwargs.items():
        if (k in BINDING and k not in known) or (
            "out" in kwargs and k in FORM and k not in out_names(name)
        ):
            continue
        made[RENAMED[k] if k in RENAMED and k not in known else k] = plain(v)
    return made


def returned(name: str, result: Any) -> Any:
    """Return several results by name, as PyTorch's binding does."""
    kind = getattr(torch.return_types, name, None)
    return kind(result) if kind is not None and isinstance(result, tuple) else result


# PyTorch's binding compares these with the tensor that it is given, and leaves them out.
NOT_WITH_OUT = {"dtype", "device", "layout", "as_tuple"}


@functools.cache
def names_with_out(name: str) -> set[str]:
    """The arguments of an operator's out= forms."""
    packet = getattr(torch.ops.aten, name, None)
    schemas = [getattr(packet, o)._schema for o in packet.overloads()] if packet else []
    return {a.name for s in schemas if any(x.is_out for x in s.arguments) for a in s.arguments}


class Ours(TorchFunctionMode):
    """See the head of the file.  `called` has the names of the operators that ran."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []
        self.patched: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> Ours:
        """Functions written in Python must run, not be handed over whole."""
        for module, name in looking_for_overrides():
            self.patched.append((module, name, vars(module)[name]))
            setattr(module, name, lambda *_: False)
        self.patched.append((torch, "manual_seed", torch.manual_seed))
        torch.manual_seed = seed_both
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for module, name, value in self.patched:
            setattr(module, name, value)
        self.patched = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        return self.call(func, args, kwargs or {})

    def call(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """One builtin by our operator."""
        name = getattr(func, "__name__", "")
        if name == "__getitem__":
            self.called.append("index")
            return get_item(*args)
        if name == "__setitem__":
            self.called.append("index_put_")
            return set_item(*args)
        operator = operator_name(func)
        if isinstance(func, types.FunctionType) or operator is None:
            return func(*args, **kwargs)
        if name == "nonzero" and kwargs.get("as_tuple"):
            operator = "aten::nonzero_numpy"
        if name in DTYPES and len(args) == 1:
            operator, args = "aten::to", (args[0], DTYPES[name])
        namespace, _, rest = operator.partition("::")
        found = getattr(rushlight.ops, namespace).find(rest)
        if found is None:
            raise Missing(f"{operator} ({func})")
        self.called.append(rest)
        if isinstance(kwargs.get("out"), (list, tuple)):
            return self.with_results(found, rest, args, kwargs)
        if "out" in kwargs:
            kwargs = {
                k: v for k, v in kwargs.items() if k not in NOT_WITH_OUT - names_with_out(rest)
            }
        return returned(
            rest, found(*self.arguments(rest, [plain(a) for a in args]), **named(rest, kwargs))
        )

    def with_results(self, operator: Any, name: str, args: tuple, kwargs: dict) -> Any:
        """out=(a, b): the overload that has as many results by name."""
        given = {k: v for k, v in kwargs.items() if k != "out"}
        refused: Exception = Missing(f"aten::{name} with {len(kwargs['out'])} results given")
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            names = [
                a.name
                for a in getattr(packet, overload)._schema.arguments
                if a.is_out or a.name == "out"
            ]
            if len(names) != len(kwargs["out"]):
                if len(names) != 1:
                    continue
                outs = {names[0]: list(kwargs["out"])}
            else:
                outs = dict(zip(names, kwargs["out"], strict=True))
            try:
                one = getattr(operator, overload)
                return returned(
                    name,
                    one(
                        *self.arguments(name, [plain(a) for a in args]),
                        **named(name, given),
                        **outs,
                    ),
                )
            except Exception as error:  # another overload may take these
                refused = error
        raise refused

    def arguments(self, name: str, args: list) -> list:
        """Positional arguments, ints and tensors given one by one gathered into lists."""
        if name in VARIADIC:
            at = 0 if name in ("zeros", "ones", "empty", "rand", "randn") else 1
            if len(args) > at and all(type(a) is int for a in args[at:]):
                return [*args[:at], args[at:]]
        if name in LISTS:
            at = 1 if name == "einsum" else 0
            rest = args[at:]
            if (
                rest
                and all(isinstance(a, torch.Tensor) for a in rest)
                and not (name.startswith("atleast") and len(rest) == 1)
            ):
                return [*args[:at], list(rest)]
        return args
