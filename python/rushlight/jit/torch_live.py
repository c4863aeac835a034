"""Records what a torch.nn.Module computes for an exported program: what torch.export sees of it.

As a trace (torch_trace.py), but sizes that may vary are torch.SymInts over values of the recorder
(torch_numbers.py), torch is told that it exports and not that it traces, data decide nothing, and
torch.cond, while_loop, map and scan are recorded as such. Which sizes may vary is known from the
arguments: results have such a size if an argument has, or if the operator makes a size of data.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree

from .. import _rushlight, library
from . import torch_trace
from .torch_numbers import Number, symbolic
from .torch_questions import tracing
from .torch_trace import Made, Tracer, concrete, location
from .trace_state import current
from .traced_module import Built

__all__ = ["LiveTracer", "record_call", "recording"]

_SIZED_BY_DATA = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}
# Composite operators whose parts make sizes of data.
_PARTS_SIZED_BY_DATA = {"where", "nonzero_numpy", "argwhere", "repeat_interleave", "combinations"}
_MASKS = (torch.bool, torch.uint8)
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_OUR_NAMESPACES = {
    "aten",
    "prim",
    "prims",
    "quantized",
    "torchvision",
    "sparse",
    "mkldnn",
    "rngprims",
}
_SIZES = {"aten::sym_size": "size", "aten::sym_numel": "numel", "aten::sym_stride": "stride"}
# What states the range of a number, and the least one unless it is given.
_RANGES = {"aten::sym_constrain_range": None, "aten::sym_constrain_range_for_size": 0}


def constrain(node: Any, least: int | None, most: int | None) -> None:
    """Record the range of a symbolic number, which the program checks where the number is made."""
    bounds = -(2**63) if least is None else least, 2**63 - 1 if most is None else most
    if bounds[0] > bounds[1]:
        raise RuntimeError(f"Invalid value range for {bounds[0]} and {bounds[1]}")
    inputs = [node.recorded(), *map(node.tracer.recorder.constant, bounds)]
    node.tracer.recorder.add("constrain", inputs, (), location())


class LiveTracer(Tracer):
    """One capture of a module's call."""

    apart: set[str] = set()

    def __init__(self, type: Any, is_draft: bool) -> None:
        super().__init__(type)
        self.is_draft = is_draft
        self.recorder.keep_unused()
        self.is_custom = False  # the operator that is recorded is not PyTorch's
        self.varying: set[int] = set()  # values of which a size may vary
        self.sizes: dict[tuple[int, Any, int], Any] = {}
        self.sized: dict[Any, bool] = {}  # by operator: its results have sizes that data make
        self.constants: set[int] = set()  # values of small tensors that are known
        self.held: dict[int, torch.Tensor] = {}  # by storage: what the caller has
        self.functions: list[tuple[str, int]] = []  # being recorded: of an operator, the last value
        self.saved: list[tuple[Any, Any]] = []  # storages of these before a write, and copies

    # -- Operators

    def quotes(self, code: Any) -> bool:
        """The frames of which torch.export keeps the lines."""
        return code.co_name == "forward" or code.co_filename == torch.__file__

    def recorded_name(self, known: torch_trace.Signature) -> str:
        return known.full

    def result_type(self, tensor: torch.Tensor) -> str | None:
        """What results look like is captured, but for casts of autocast and custom operators."""
        if self.is_custom or torch.is_autocast_enabled("cpu"):
            return self.type_of(tensor)
        return None

    def dispatched(self, func: Any, args: tuple, kwargs: dict) -> Any:
        known = torch_trace.signature(func)
        name = known.name if known is not None else ""
        if name in ("aten::item", "aten::_local_scalar_dense"):
            return self.item(args[0])
        if name in _RANGES and isinstance(args[0], torch.SymInt):
            least = kwargs.get("min")
            constrain(args[0].node, _RANGES[name] if least is None else least, kwargs.get("max"))
        if name in _SIZES and self.varies(args[0]):
            found = self.asked(args[0], _SIZES[name], *args[1:])
            return list(found) if isinstance(found, torch.Size) else found
        if known is not None and known.writes:
            if self.functions:
                self.check_writes(args[0])
            self.save(args)
        if name == "aten::lift_fresh" and not self.known(args[0]):
            return self.lifted_constant(args[0])
        is_custom = known is not None and func.namespace not in _OUR_NAMESPACES
        if is_custom and known and known.results:
            self.describe(func, args, kwargs)
        is_constant = bool(self.constants) and self.is_of_constants(func, args, kwargs)
        self.is_custom = is_custom
        result = super().dispatched(func, args, kwargs)
        if known is None or not known.is_recorded:
            return result
        if self.is_sized(func, args, kwargs):
            self.mark(result)
        if is_constant and isinstance(result, torch.Tensor) and result.numel() <= 1:
            self.constants.add(self.value(result))
        return result

    def describe(self, func: Any, args: tuple, kwargs: dict) -> None:
        """Record what a custom operator's results look like, by its fake implementation, if that
        may depend on sizes or data."""
        entry = torch._library.simple_registry.singleton.find(func.name())
        kernel = entry.fake_impl.kernel
        if kernel is None:
            return
        context = _FakeContext(self)
        mode = self.mode or contextlib.nullcontext()

        def fake(*given: Any) -> Any:
            result = kernel(*given, **kwargs)
            for leaf in torch.utils._pytree.tree_leaves(result):
                if isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                    raise NotImplementedError(
                        f"the custom operator {func.name()} returns a number that depends on sizes "
                        "or data: only its tensors can be exported"
                    )
            return result

        try:
            with mode, torch._library.fake_impl.set_ctx_getter(lambda: context):
                closure, _, _ = self.closure(fake, args)
        except RuntimeError as error:
            if self.is_draft and "no fake impl registered" in str(error):
                return
            raise
        self.recorder.add("expect", [closure], (), location())
        if context.n_made:
            self.sized[func] = True

    def is_of_constants(self, func: Any, args: tuple, kwargs: dict) -> bool:
        """True if an operator's result is known, since its arguments are."""
        tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        is_random = torch.Tag.nondeterministic_seeded in func.tags
        return bool(tensors) and not is_random and all(map(self.is_constant, tensors))

    def lifted_constant(self, tensor: torch.Tensor) -> torch.Tensor:
        """Record a tensor that the code makes of Python's numbers."""
        with self.pause():
            made = tensor.detach().clone()
        where = location()
        inputs = [self.constant(made, where)]
        value = self.one("aten::lift_fresh_copy", inputs, self.type_of(tensor), where)
        self.constants.add(value)
        self.bind(tensor, value)
        return tensor

    def is_constant(self, tensor: Any) -> bool:
        """True for a tensor of one element that is computed from constants only."""
        return not isinstance(tensor, torch.Tensor) or self.find(tensor) in self.constants

    def has_memory(self, tensor: torch.Tensor) -> bool:
        wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        return tensor.layout == torch.strided and not wrapped

    def hold(self, tensor: torch.Tensor) -> None:
        """Note a tensor of the caller's, which is to be as it was at the end."""
        if tensor.layout == torch.strided:
            self.held[tensor.untyped_storage()._cdata] = tensor

    def save(self, args: tuple) -> None:
        for t in pytree.tree_leaves(args):
            if isinstance(t, torch.Tensor) and self.has_memory(t):
                with self.pause():
                    storage = t.untyped_storage()
                    if self.held.pop(storage._cdata, None) is not None:
                        self.saved.append((storage, storage.clone()))

    def restore(self) -> None:
        for storage, copy in self.saved:
            storage.copy_(copy)

    def is_sized(self, func: Any, args: tuple, kwargs: dict) -> bool:
        """True if results may have sizes that vary."""
        by_data = self.sized.get(func)
        if by_data is None:
            by_data = not _SIZED_BY_DATA.isdisjoint(getattr(func, "tags", ()))
            packet = getattr(func, "_opname", "")
            if func.namespace == "aten" and packet in _PARTS_SIZED_BY_DATA:
                by_data = packet != "where" or func is torch.ops.aten.where.default
            self.sized[func] = by_data
        if func is torch.ops.aten.index.Tensor:  # of indices only masks make sizes
            by_data = any(t is not None and t.dtype in _MASKS for t in args[1])
        return (
            by_data or self.is_any_varying(args) or (bool(kwargs) and self.is_any_varying(kwargs))
        )

    def is_any_varying(self, given: Any) -> bool:
        for value in given.values() if isinstance(given, dict) else given:
            if isinstance(value, torch.Tensor):
                if self.varying and self.varies(value):
                    return True
            elif isinstance(value, (list, tuple)):
                if self.is_any_varying(value):
                    return True
            elif isinstance(value, _SYMBOLIC):
                return True
        return False

    def varies(self, tensor: torch.Tensor) -> bool:
        return bool(self.varying) and self.find(tensor) in self.varying

    def mark(self, result: Any) -> None:
        for t in pytree.tree_leaves(result):
            if isinstance(t, torch.Tensor):
                found = self.find(t)
                if found is not None:
                    self.varying.add(found)

    def value(self, tensor: torch.Tensor) -> int:
        found = self.find(tensor)
        if found is None:
            with self.pause():
                plain = tensor.detach() if tensor.requires_grad else tensor
            found = self.constant(plain, location())
            self.bind(tensor, found)
        return found

    def symbolic(self, value: Any, kind: str) -> int:
        node = value.node
        if not isinstance(node, Number):
            return Made(self.literal(node.hint, kind, ""))
        if kind == "TensorType":
            return Made(self.one("number", [node.recorded()], "Tensor"))
        if kind == "FloatType" and node.is_int():
            node = node.sym_float()  # type: ignore[attr-defined]
        return Made(node.recorded())

    def number_tensor(self, value: Any, where: str) -> int:
        return self.one("number", [self.recorder.constant(value)], "Tensor")

    # -- Questions

    def asked(self, tensor: torch.Tensor, what: str, dim: Any = None) -> Any:
        """Return a size, stride, or number of elements; without a dimension all of them."""
        base = torch._C.TensorBase
        with self.pause():
            n_dims = base.dim(tensor)
            numbers = {
                "size": base.size, "stride": base.stride, "numel": lambda t: (base.numel(t),),
                "storage_offset": lambda t: (base.storage_offset(t),),
            }[what](tensor)  # fmt: skip
        if what in ("numel", "storage_offset"):
            return self.number(tensor, f"aten::{what}", None, numbers[0])
        if dim is not None:
            at = int(dim)
            if not -n_dims <= at < n_dims:
                return numbers[at] if n_dims else getattr(base, what)(tensor, at)  # raises
            at %= n_dims
            return self.number(tensor, f"aten::{what}", at, numbers[at])
        every = [self.number(tensor, f"aten::{what}", i, n) for i, n in enumerate(numbers)]
        return torch.Size(every) if what == "size" else tuple(every)

    def number(self, tensor: torch.Tensor, kind: str, dim: int | None, number: int) -> Any:
        value = self.value(tensor)
        key = value, (kind, dim), number
        made = self.sizes.get(key)
        if made is None:
            inputs = [value] if dim is None else [value, self.recorder.constant(dim)]
            node = self.one(kind, inputs, "int", location())
            made = self.sizes[key] = symbolic(self, node, int(number))
        return made

    def item(self, tensor: torch.Tensor) -> Any:
        with self.pause():
            number = tensor.item()
        if not self.known(tensor) or isinstance(number, complex) or self.is_constant(tensor):
            return number
        kind = {bool: "bool", int: "int", float: "float"}[type(number)]
        value = self.one("aten::item", [self.value(tensor)], kind, location())
        return symbolic(self, value, number, has_data=True)

    # -- Higher-order operators

    def closure(
        self, func: Callable[..., Any], args: Any, name: str = ""
    ) -> tuple[int, list[Any], Any]:
        """Record a function of an operator: its value, what it returns, the tree of that.

        `name`: of the operator, which does not allow that the function writes to values that were
        there before, or returns them.
        """
        last = self.recorder.constant(0)  # values are numbered in order
        self.recorder.open()
        self.functions.append((name, last))
        sizes, self.sizes = self.sizes, {}  # what is asked inside is known inside
        try:
            leaves, spec = pytree.tree_flatten(func(*args))
            if name:
                self.check_aliases(name, leaves, last)
            parts = [self.recorded(leaf) for leaf in leaves]
            output = self.one("prim::TupleConstruct", parts)
        except BaseException:
            self.recorder.close()
            raise
        finally:
            self.sizes = sizes
            self.functions.pop()
        return self.recorder.close(output), leaves, spec

    def is_before(self, tensor: torch.Tensor, last: int) -> bool:
        """True if a tensor shares its memory with one that was there at value `last`."""
        found = self.find(tensor if tensor._base is None else tensor._base)
        return found is not None and found <= last

    def check_aliases(self, name: str, leaves: list[Any], last: int) -> None:
        """Refuse a function that returns what it is given, or one memory twice."""
        with self.pause():
            tensors = [t for t in leaves if isinstance(t, torch.Tensor)]
            memory = {t.untyped_storage()._cdata for t in tensors if self.has_memory(t)}
            is_twice = len(memory) < sum(map(self.has_memory, tensors))
            if is_twice or any(self.is_before(t, last) for t in tensors):
                raise _unsupported(name, "aliasing", "Higher order ops do not support aliasing.")

    def check_writes(self, tensors: Any) -> None:
        """Refuse a write to what the function of an operator is given."""
        name, last = self.functions[-1]
        with self.pause():
            written = [t for t in pytree.tree_leaves(tensors) if isinstance(t, torch.Tensor)]
            if name and any(self.is_before(t, last) for t in written):
                raise _unsupported(
                    name, "input mutation", "Higher order ops do not support input mutation."
                )

    def recorded(self, leaf: Any) -> int:
        """Return the value of what a program returns."""
        if isinstance(leaf, torch.Tensor):
            return self.value(leaf)
        if isinstance(leaf, _SYMBOLIC):
            return int(leaf.node.recorded())
        if not isinstance(leaf, (bool, int, float, str, type(None))):
            raise RuntimeError(
                f"Found {type(leaf)} in output, which is not a known type. If this type holds "
                "tensors, you need to register a pytree for it."
            )
        return self.recorder.constant(leaf)

    def parameters(self, tensors: list[Any], is_row: bool) -> tuple[list[Any], list[int]]:
        """Make what an operator passes to its function: the values, or a row of each tensor."""
        made: list[Any] = []
        values = []
        for tensor in tensors:
            if not is_row and isinstance(tensor, (int, torch.SymInt)):
                inputs = [self.recorded(tensor), self.recorder.constant(False)]
                values.append(self.one("parameter", inputs, "int", location()))
                made.append(symbolic(self, values[-1], int(concrete(tensor)), has_data=True))
                continue
            if not isinstance(tensor, torch.Tensor):
                raise RuntimeError(
                    f"a higher-order operator over a {type(tensor).__name__} cannot be exported"
                )
            with self.pause():
                one = (tensor.detach()[0] if is_row else tensor.detach()).clone()
                one.requires_grad_(tensor.requires_grad)
            inputs = [self.value(tensor), self.recorder.constant(is_row)]
            value = self.one("parameter", inputs, self.type_of(one), location())
            self.bind(one, value)
            if self.varies(tensor):
                self.varying.add(value)
            made.append(one)
            values.append(value)
        return made, values

    def results(self, kind: str, inputs: list[int], tensors: list[Any], varies: bool) -> list[Any]:
        """Record an operator whose results look like the tensors, or are ints."""
        with self.pause():
            made = [
                t.detach().clone().requires_grad_(t.requires_grad)
                if isinstance(t, torch.Tensor)
                else int(concrete(t))
                for t in tensors
            ]
        types = tuple(self.type_of(t) if isinstance(t, torch.Tensor) else "int" for t in made)
        values = self.recorder.add(kind, inputs, types, location())
        for i, value in enumerate(values):
            if isinstance(made[i], torch.Tensor):
                self.bind(made[i], value)
                if varies:
                    self.varying.add(value)
            else:
                made[i] = symbolic(self, value, made[i], has_data=True)
        return made

    def higher_order(self, op: Any, args: tuple, kwargs: dict) -> Any:
        """Record a call of a higher-order operator."""
        name = op.name() if callable(getattr(op, "name", None)) else str(op)
        record = getattr(self, f"record_{name}", None)
        if record is None:
            raise NotImplementedError(f"the higher-order operator {name} cannot be exported")
        return record(*args, **kwargs)

    def record_cond(self, pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
        if isinstance(pred, (bool, int, float)):
            return (true_fn if pred else false_fn)(*operands)
        if isinstance(pred, torch.Tensor) and not self.known(pred):
            with self.pause():
                is_true = bool(pred)
            return (true_fn if is_true else false_fn)(*operands)
        tensors = pytree.tree_leaves(operands)
        if not isinstance(operands, (tuple, list)) or not all(
            isinstance(t, torch.Tensor) for t in tensors
        ):
            raise RuntimeError(
                "Expect operands to be a tuple of possibly nested dict/list/tuple that only "
                f"consists of tensor leaves, but got {operands}."
            )
        condition = self.recorded(pred)
        values = [self.value(t) for t in tensors]
        yes, results, spec = self.closure(true_fn, operands, "torch.cond")
        no, others, other_spec = self.closure(false_fn, operands, "torch.cond")
        if spec != other_spec:
            raise RuntimeError(
                f"Unmatched output spec from torch.cond branches: true branch tree_spec {spec} vs "
                f"false branch tree_spec {other_spec}."
            )
        self.check_same(results, others)
        with self.pause():
            is_true = bool(concrete(pred))
        varies = any(self.varies(t) for t in (*tensors, *results))
        made = self.results(
            "cond", [condition, yes, no, *values], results if is_true else others, varies
        )
        same = [type(a) is int and a == b for a, b in zip(results, others, strict=True)]
        return pytree.tree_unflatten(
            [r if one else m for r, m, one in zip(results, made, same, strict=True)], spec
        )

    @staticmethod
    def check_same(results: list[Any], others: list[Any]) -> None:
        for a, b in zip(results, others, strict=True):
            for one in (a, b):
                if not isinstance(one, torch.Tensor) and type(one) is not int:
                    raise _unsupported(
                        "torch.cond",
                        f"unsupported branch return type ({type(one).__name__})",
                        "Constants returned from branches must be ints.",
                    )
            if type(a) is int and type(b) is int:
                continue
            if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
                raise _unsupported(
                    "torch.cond",
                    "different branch return types",
                    "One branch returns a tensor, the other one an int.",
                )
            shape, other = (tuple(torch._C.TensorBase.size(t)) for t in (a, b))
            if a.dtype != b.dtype or len(shape) != len(other):
                raise RuntimeError(
                    "Expect outputs of true and false branches to have the same metadata, but got "
                    f"{a.dtype} {list(shape)} and {b.dtype} {list(other)}"
                )

    def record_while_loop(
        self, cond_fn: Any, body_fn: Any, carried: Any, additional: Any = ()
    ) -> Any:
        tensors, spec = pytree.tree_flatten(carried)
        first, of_test = self.parameters(tensors, is_row=False)
        second, of_body = self.parameters(tensors, is_row=False)
        for i, one in enumerate(first):
            if not isinstance(one, torch.Tensor):  # both functions have one symbol, as in torch
                second[i], of_body[i] = one, of_test[i]

        def given(parts: list[Any]) -> tuple[Any, ...]:
            return (*pytree.tree_unflatten(parts, spec), *additional)

        test, _, _ = self.closure(cond_fn, given(first), "torch.while_loop")
        body, results, found = self.closure(body_fn, given(second), "torch.while_loop")
        if len(results) != len(tensors):
            raise RuntimeError(
                f"while_loop: the body returns {len(results)} values for {len(tensors)}: {found}"
            )
        inputs = [test, body, *(self.recorded(t) for t in tensors), *of_test, *of_body]
        varies = any(self.varies(t) for t in tensors if isinstance(t, torch.Tensor))
        return pytree.tree_unflatten(self.results("while_loop", inputs, results, varies), spec)

    def record_mapping(self, function: Any, name: str, args: tuple) -> Any:
        """Record a call of what torch.vmap is made of; values are those of one sample."""
        if name in ("_add_batch_dim", "_remove_batch_dim"):
            if name == "_add_batch_dim" and args[1] < 0:
                args = (args[0], args[1] + args[0].dim(), args[2])
            inputs = [self.value(args[0]), *(self.recorded(a) for a in args[1:])]
            varies = self.varies(args[0])
        else:
            inputs, varies = [self.recorded(a) for a in args], False
        with self.pause():
            made = function(*concrete(args))
        if not isinstance(made, torch.Tensor):
            self.recorder.add(name, inputs, (), location())
            return made
        value = self.one(name, inputs, "Tensor", location())
        self.bind(made, value)
        if varies or any(isinstance(a, torch.SymInt) for a in args):
            self.varying.add(value)
        return made

    def taken_apart(self, name: str, args: tuple, has_given: bool) -> Any:
        leaves = [t for t in pytree.tree_leaves(args) if isinstance(t, torch.Tensor)]
        functorch = torch._C._functorch
        if any(
            functorch.is_functorch_wrapped_tensor(t) and not functorch.is_batchedtensor(t)
            for t in leaves
        ):
            raise RuntimeError(
                "functions that torch.func.grad, jvp or another transform than vmap transforms "
                "cannot be exported: the program would have values of the example"
            )
        if name.startswith("aten::_foreach_"):
            return torch._C.DispatchKey.CompositeExplicitAutograd
        return None

    def record_map_impl(self, f: Any, xs: Any, pos_args: Any) -> Any:
        rows, values = self.parameters(list(xs), is_row=True)
        body, results, spec = self.closure(f, (*rows, *pos_args), "torch.ops.higher_order.map_impl")
        inputs = [
            body, self.recorder.constant(0), *(self.value(x) for x in xs), *values
        ]  # fmt: skip
        stacked = self.stacked(results, xs[0])
        varies = any(self.varies(x) for x in xs)
        return pytree.tree_unflatten(self.results("map", inputs, stacked, varies), spec)

    def record_scan(self, f: Any, init: Any, xs: Any, additional_inputs: Any = ()) -> Any:
        carried, of_init = self.parameters(list(init), is_row=False)
        rows, of_xs = self.parameters(list(xs), is_row=True)
        given = (*carried, *rows, *additional_inputs)
        body, results, spec = self.closure(f, given, "torch.ops.higher_order.scan")
        n = len(carried)
        inputs = [body, self.recorder.constant(n)]
        inputs += [*(self.value(t) for t in (*init, *xs)), *of_init, *of_xs]
        shown = [*results[:n], *self.stacked(results[n:], xs[0])]
        varies = any(self.varies(x) for x in (*init, *xs))
        return pytree.tree_unflatten(self.results("scan", inputs, shown, varies), spec)

    def stacked(self, rows: list[Any], xs: torch.Tensor) -> list[Any]:
        with self.pause():
            n = torch._C.TensorBase.size(xs, 0)
            return [row.detach().unsqueeze(0).repeat(n, *(1,) * row.dim()) for row in rows]


def _unsupported(name: str, what: str, why: str) -> Exception:
    """Return torch's error for a function that a higher-order operator does not take."""
    from torch._dynamo.exc import UncapturedHigherOrderOpError

    return UncapturedHigherOrderOpError(
        "This higher order operator doesn't work unless it is captured completely with "
        f"torch.compile. Got graph break/error:\n\nEncountered {what} during higher order op "
        f"tracing\n  Higher Order Operator: {name}\n  Explanation: {why}\n\n"
        f"{location()}"
    )


def record_call(kind: str, texts: tuple[str, ...], leaves: list[Any]) -> None:
    """Record how a module whose calls keep their structure is called, or what it returns."""
    tracer = current()
    if isinstance(tracer, LiveTracer) and not tracer.paused:
        values = [*map(tracer.recorder.constant, texts), *map(tracer.recorded, leaves)]
        tracer.recorder.add(kind, values, (), location())


class _FakeContext:
    """What torch.library.get_ctx() returns inside of a fake implementation."""

    def __init__(self, tracer: LiveTracer) -> None:
        self.tracer, self.n_made = tracer, 0

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:  # noqa: A002
        """Return a size that depends on data."""
        tracer = self.tracer
        most = 2**63 - 1 if max is None else max
        inputs = [tracer.recorder.constant(min), tracer.recorder.constant(most)]
        self.n_made += 1
        number = 2 if min <= 2 <= most else min
        value = tracer.one("size_of_data", inputs, "int", location())
        return symbolic(tracer, value, number, has_data=True)

    create_unbacked_symint = new_dynamic_size


# -- Modules
# --------------------------------------------------------------------------------------------------


class _Modules(Built):
    """The program's classes and objects of a module tree, with plain tensors among the
    attributes."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.constants: list[tuple[str, torch.Tensor]] = []
        super().__init__(module)

    def build(self, module: torch.nn.Module, path: str) -> tuple[Any, Any]:
        self.paths[path] = module
        for name, child in module._modules.items():
            if child is not None:
                self.build(child, f"{path}.{name}" if path else name)
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                self.constants.append((f"{path}.{name}" if path else name, value))
        if id(module) not in self.made:
            self.made[id(module)] = self.build_one(module)
        return self.made[id(module)]

    def more_slots(self, module: torch.nn.Module) -> list[tuple[str, Any]]:
        return [(n, v) for n, v in vars(module).items() if isinstance(v, torch.Tensor)]


class Recorded:
    """A module's call: the program with its method `forward`, whose arguments and results are flat,
    and the tree of what it returned."""

    def __init__(self, program: Any, out_spec: Any) -> None:
        self.program, self.out_spec = program, out_spec


@contextlib.contextmanager
def _state_kept(module: torch.nn.Module) -> Iterator[Callable[[LiveTracer], None]]:
    """Leave the module as it was.  Yields what records which buffers the code has replaced."""
    modules = dict(module.named_modules(remove_duplicate=False))
    buffers = [(b, b.detach().clone()) for b in module.buffers()]
    before = {path: (dict(m._buffers), dict(vars(m))) for path, m in modules.items()}

    def record(tracer: LiveTracer) -> None:
        for path, m in modules.items():
            for name, was in before[path][0].items():
                now = m._buffers.get(name)
                if now is not was and isinstance(now, torch.Tensor):
                    torch.ops.aten.copy_(was, now)  # as torch.export has it
            for name, value in vars(m).items():
                old = before[path][1].get(name)
                if isinstance(old, torch.Tensor) and value is not old:
                    where = f"self.{path}.{name}" if path else f"self.{name}"
                    warnings.warn(
                        f"The tensor attribute {where} was assigned during export. Such attributes "
                        "must be registered as buffers using the `register_buffer` API "
                        "(https://pytorch.org/docs/stable/generated/torch.nn.Module.html"
                        "#torch.nn.Module.register_buffer).",
                        stacklevel=2,
                    )

    try:
        yield record
    finally:
        for path, m in modules.items():
            own, attributes = before[path]
            m._buffers.clear()
            m._buffers.update(own)
            for name in [name for name in vars(m) if name not in attributes]:
                delattr(m, name)
            m.__dict__.update(attributes)
        with torch.no_grad():
            for buffer, was in buffers:
                buffer.copy_(was)


def _type_of(value: Any) -> str:
    kinds = {bool: "bool", int: "int", float: "float", str: "str", type(None): "NoneType"}
    return kinds[type(value)]


def recording(
    module: torch.nn.Module,
    leaves: list[Any],
    names: list[str],
    call: Callable[[list[Any]], Any],
    varying: dict[int, bool],
    is_draft: bool = False,
    defers: bool = False,
) -> Recorded:
    """Run call(leaves), which calls the module, and record it.

    `varying`: which leaves have a size that may vary, or are ints that may. `defers`: conditions on
    them are assertions of the program.
    """
    from .torch_replaced import getitem, replacements  # which needs LiveTracer

    library.adopt_torch()
    built = _Modules(module)
    tracer = LiveTracer(built.type, is_draft)
    scopes: dict[Any, str] = {}
    for path, child in built.paths.items():
        if path:
            scopes.setdefault(child, f"__module.{path}")
        if isinstance(child, _rushlight.Module):
            tracer.programs[id(child)] = path
    tensors = [*module.named_parameters(remove_duplicate=False)]
    tensors += [*module.named_buffers(remove_duplicate=False), *built.constants]
    for path, tensor in {id(t): (p, t) for p, t in tensors}.values():  # the last name, as torch
        tracer.bind_attribute(path, tensor)
        tracer.hold(tensor)
    given = []
    for i, (value, name) in enumerate(zip(leaves, names, strict=True)):
        is_tensor = isinstance(value, torch.Tensor)
        kind = tracer.type_of(value) if is_tensor else _type_of(value)
        made = tracer.recorder.input(name, kind)
        if is_tensor:
            tracer.hold(value)
            if tracer.known(value):
                value = value.detach().requires_grad_(value.requires_grad)
                tracer.untracked.add(id(value))
            tracer.bind(value, made)
            if varying.get(i):
                tracer.varying.add(made)
        elif varying.get(i):
            value = symbolic(tracer, made, value)
        given.append(value)
    if defers:
        tracer.recorder.add("defer_guards", [], (), "")
    cudnn, cache = torch._C._get_cudnn_enabled(), torch.is_autocast_cache_enabled()
    torch._C._set_cudnn_enabled(False)  # as torch.export, whose programs show both
    torch.set_autocast_cache_enabled(False)
    try:
        with _state_kept(module) as record_state, tracing(tracer, scopes, replacements(), getitem):
            out_leaves, out_spec = pytree.tree_flatten(call(given))
            output = tracer.one("prim::TupleConstruct", [tracer.recorded(x) for x in out_leaves])
            record_state(tracer)
    finally:
        torch._C._set_cudnn_enabled(cudnn)
        torch.set_autocast_cache_enabled(cache)
        tracer.restore()
    tracer.recorder.finish(output)
    tracer.recorder.define("forward")
    program = built.object
    if not isinstance(program, _rushlight.Module):
        program = built.entry.unit.module_of(program)
    return Recorded(program, out_spec)
