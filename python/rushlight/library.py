"""Operators of your own, written in Python, with the names and manners of torch.library.

>>> @rushlight.library.custom_op("mylib::scale", mutates_args=())
... def scale(x: rushlight.Tensor, k: float) -> rushlight.Tensor:
...     return x * k

Programs call them as `torch.ops.mylib.scale`, Python also as `rushlight.ops.mylib.scale`.  An
operator is known from its definition on: define it before the program is loaded or compiled.
Functions get torch's tensors where torch is imported, else rushlight's.

Gradients: the operator's gradient formula calls a second operator, `scale__backward`, whose
function is what register_autograd was given.  So autograd may be registered later than the
operator, whose entry in the table cannot change any more.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import _rushlight
from .methods import Overload

_SIMPLE: dict[str, Any] = {
    "int": int, "SymInt": int, "float": (float, int), "bool": bool, "str": str,
    "Scalar": (int, float, complex, bool), "complex": (complex, float, int),
}  # fmt: skip
_ANNOTATIONS = {
    "Tensor": "Tensor", "int": "SymInt", "float": "float", "bool": "bool", "str": "str",
    "Scalar": "Scalar", "number": "Scalar",
    "List[Tensor]": "Tensor[]", "List[int]": "SymInt[]", "List[float]": "float[]",
    "List[bool]": "bool[]", "dtype": "ScalarType", "device": "Device",
}  # fmt: skip


class _Operator:
    """The data of one operator; `call` is its kernel."""

    def __init__(self, schema: str) -> None:
        if not re.match(r"[^(]*::[^(]*\(.*->", schema, re.DOTALL):
            raise RuntimeError(
                f"'{schema}' is no schema: expected 'namespace::name(Tensor x, float k=1.0) -> "
                f"Tensor'"
            )
        self.schema = schema
        self.overload = Overload(schema)
        self.name = self.overload.name
        self.function: Callable[..., Any] | None = None
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.results = self.overload.result_kinds
        written = sum(1 << i for i, a in enumerate(self.overload.arguments) if a.is_written)
        inputs, formula = self._gradient() if not written else (None, None)
        register = _rushlight._register_operator
        if inputs is not None:
            register(self._backward_schema(inputs), self.call_backward, 0, None, None)
        register(schema, self.call, written, inputs, formula)

    # -- Calls
    # ----------------------------------------------------------------------------------------------

    def _split(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Convert arguments in the schema's order to Python's positional and keyword arguments."""
        found = list(zip(self.overload.arguments, args, strict=False))
        named = {a.name: v for a, v in found if a.keyword_only}
        return tuple(v for a, v in found if not a.keyword_only), named

    def call(self, *args: Any) -> tuple[Any, ...]:
        """Run the function for a program's call and check its results against the schema."""
        if self.function is None:
            raise NotImplementedError(
                f"{self.name}: the operator is defined and has no implementation; give it one with "
                f"Library.impl"
            )
        positional, named = self._split(args)
        return self._checked(self.function(*positional, **named))

    def _checked(self, found: Any) -> tuple[Any, ...]:
        n, got, wanted = len(self.results), f"a {type(found).__name__}", None
        values = (found,) if n == 1 else () if n == 0 and found is None else found
        if n == 0 and found is not None:
            wanted = "no result"
        elif not isinstance(values, (tuple, list)):
            wanted = f"{n} results"
        elif len(values) != n:
            wanted, got = f"{n} results", f"{len(values)} results"
        else:
            for i, (kind, value) in enumerate(zip(self.results, values, strict=True)):
                if not _fits(kind, value):
                    wanted, got = f"a {kind} as result {i}", f"a {type(value).__name__}"
                    break
        if wanted is not None:
            raise RuntimeError(f"{self.name}: expected {wanted} ({self.schema}), but got {got}")
        pairs = zip(self.results, values, strict=True)
        return tuple(float(v) if kind == "float" else v for kind, v in pairs)

    # -- Gradients
    # ---------------------------------------------------------------------------------------------

    def _gradient(self) -> tuple[str | None, str | None]:
        tensors = [a.name for a in self.overload.arguments if a.kind == "Tensor"]
        if not tensors or not self.results or any(kind != "Tensor" for kind in self.results):
            return None, None
        n = len(self.results)
        grads = ["grad"] if n == 1 else [f"grad{i}" for i in range(n)]
        results = ["result"] if n == 1 else [f"result{i}" for i in range(n)]
        given = [*grads, *(a.name for a in self.overload.arguments), *results]
        namespace, _, name = self.name.partition(".")[0].partition("::")
        return " ".join(tensors), f"torch.ops.{namespace}.{name}__backward({', '.join(given)})"

    def _backward_schema(self, inputs: str) -> str:
        n = len(self.results)
        head = self.name.partition(".")[0]
        grads = [f"Tensor grad_{i}" for i in range(n)]
        arguments = [f"{a.kind} {a.name}" for a in self.overload.arguments]
        results = ", ".join(["Tensor"] * len(inputs.split()))
        given = ", ".join([*grads, *arguments, *(f"Tensor result_{i}" for i in range(n))])
        return f"{head}__backward({given}) -> {results if ',' not in results else f'({results})'}"

    def call_backward(self, *given: Any) -> tuple[Any, ...]:
        """Return the gradients of the tensor arguments: those that register_autograd's function
        returned, zeros for None."""
        n = len(self.results)
        grads, args, results = given[:n], given[n:-n], given[-n:]
        if self.backward is None:
            raise RuntimeError(
                f"Trying to backward through {self.name} but no autograd formula was registered. "
                "If you need to use autograd, please use register_autograd."
            )
        context = Context(tuple(a.kind == "Tensor" for a in self.overload.arguments))
        if self.setup_context is not None:
            positional, named = self._split(args)
            output = results[0] if n == 1 else results
            if named:
                self.setup_context(
                    ctx=context, inputs=positional, keyword_only_inputs=named, output=output
                )
            else:
                self.setup_context(context, positional, output)
        found = self.backward(context, *grads)
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(args):
            raise RuntimeError(
                f"{self.name}: backward returned {len(found)} gradients for {len(args)} arguments"
            )
        return tuple(
            _rushlight.call_operator("aten::zeros_like", value) if gradient is None else gradient
            for a, value, gradient in zip(self.overload.arguments, args, found, strict=True)
            if a.kind == "Tensor"
        )


class Context:
    """What setup_context saves for backward."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Does nothing: gradients are always tensors."""


_operators: dict[str, _Operator] = {}


def _is_tensor(value: Any) -> bool:
    tensors = (_rushlight.Tensor, getattr(sys.modules.get("torch"), "Tensor", _rushlight.Tensor))
    is_array = hasattr(value, "__array_interface__") and hasattr(value, "dtype")
    return isinstance(value, tensors) or is_array


def _fits(kind: str, value: Any) -> bool:
    if kind.endswith("?"):
        return value is None or _fits(kind[:-1], value)
    if kind.endswith("]"):
        return isinstance(value, (list, tuple)) and all(
            _fits(kind[: kind.rindex("[")], item) for item in value
        )
    if kind == "Tensor":
        return _is_tensor(value)
    wanted = _SIMPLE.get(kind)
    is_bool = isinstance(value, bool) and kind in ("int", "SymInt", "float")
    return wanted is None or (isinstance(value, wanted) and not is_bool)


def _full(name: str, namespace: str | None = None) -> str:
    full = name if "::" in name or namespace is None else f"{namespace}::{name}"
    if full.count("::") != 1 or not all(part for part in full.split("::")):
        raise ValueError(f"expected an operator's name as 'namespace::name', but got '{name}'")
    return full.removesuffix(".default")


def _known(name: str) -> _Operator:
    if name not in _operators:
        raise RuntimeError(f"there is no operator {name} of rushlight.library; define it first")
    return _operators[name]


def _define(schema: str) -> _Operator:
    made = _Operator(schema)
    _operators[made.name] = made
    return made


# -- torch.library's names
# -----------------------------------------------------------------------------------------


def infer_schema(
    function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Sequence[str],
    op_name: str | None = None,
) -> str:
    """Return the schema that a function's annotations describe: "(Tensor x, float k=1.0) ->
    Tensor"."""
    import inspect

    signature = inspect.signature(function)
    parts, starred = [], False
    for i, p in enumerate(signature.parameters.values()):
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise ValueError(
                f"infer_schema(func): *{p.name} is not supported: an operator's arguments are named"
            )
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        kind = _schema_type(p.annotation, f"Parameter {p.name}")
        if mutates_args == "unknown" or p.name in mutates_args:
            kind = re.sub(r"^Tensor", f"Tensor({'abcdefghijklmnopqrstuvwxyz'[i % 26]}!)", kind)
        default = f'="{p.default}"' if isinstance(p.default, str) else f"={p.default!r}"
        parts.append(f"{kind} {p.name}{default if p.default is not p.empty else ''}")
    wanted = () if mutates_args == "unknown" else mutates_args
    unknown = [name for name in wanted if name not in signature.parameters]
    if unknown:
        raise ValueError(
            f"infer_schema(func): mutates_args has {unknown}, which are no parameters of "
            f"{signature}"
        )
    return f"{op_name or ''}({', '.join(parts)}) -> {_schema_result(signature.return_annotation)}"


def _words(annotation: Any) -> str:
    """Return an annotation's text without modules: `List[Tensor]`, `Optional[int]`."""
    is_class = isinstance(annotation, type) and not getattr(annotation, "__args__", None)
    text = annotation.__name__ if is_class else str(annotation)
    text = re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text)
    return re.sub(r"\b(?:list|Sequence)\[", "List[", text.replace("tuple[", "Tuple["))


def _schema_type(annotation: Any, what: str) -> str:
    words = _words(annotation)
    optional = re.fullmatch(r"Optional\[(.*)\]|(.*) \| None", words)
    if optional:
        return f"{_schema_type(optional[1] or optional[2], what)}?"
    if words not in _ANNOTATIONS:
        raise ValueError(
            f"infer_schema(func): {what} has unsupported type '{words}'. The valid types are: "
            f"{', '.join(_ANNOTATIONS)}, and Optional of them"
        )
    return _ANNOTATIONS[words]


def _schema_result(annotation: Any) -> str:
    words = _words(annotation)
    if words in ("None", "NoneType"):
        return "()"
    inside = re.fullmatch(r"Tuple\[(.*)\]", words)
    if inside:
        parts = (_schema_type(part.strip(), "Return") for part in inside[1].split(","))
        return f"({', '.join(parts)})"
    return _schema_type(annotation, "Return")


class CustomOpDef:
    """An operator that custom_op made: call it, or register further functions with it."""

    def __init__(self, operator: _Operator, function: Callable[..., Any]) -> None:
        self._operator = operator
        self._init_fn = function
        self._qualname = operator.name
        self.__name__, self.__doc__ = operator.name, function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _rushlight.call_function(self._operator.name, *args, **kwargs)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        self._operator.fake = fn
        return fn

    def register_kernel(self, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """Register the CPU's implementation; those of other devices are ignored."""
        return impl(self._qualname, device_types, fn)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        register_autograd(self._qualname, backward, setup_context=setup_context)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Sequence[str],
    device_types: Any = None,
    schema: str | None = None,
) -> Any:
    """Make a function the operator `name` ("mylib::scale"); its schema is read from the annotations
    unless `schema` has it.

    `mutates_args` are the names of the arguments that the function writes to. Without `fn` it is a
    decorator.
    """

    def make(function: Callable[..., Any]) -> CustomOpDef:
        text = schema if schema is not None else infer_schema(function, mutates_args=mutates_args)
        operator = _define(_full(name) + text)
        operator.function = function
        return CustomOpDef(operator, function)

    return make if fn is None else make(fn)


def define(qualname: str, schema: str) -> None:
    """Define an operator: `define("mylib::scale", "(Tensor x, float k) -> Tensor")`."""
    _define(_full(qualname) + schema)


def impl(qualname: str, types: Any = "default", func: Callable[..., Any] | None = None) -> Any:
    """Register the implementation of a defined operator, for the CPU (or "default",
    CompositeExplicitAutograd ...); also a decorator."""
    kinds = (types,) if isinstance(types, str) or types is None else tuple(types)
    names = [str(kind or "default").lower() for kind in kinds]
    is_ours = any(name in ("cpu", "default") or "composite" in name for name in names)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        operator = _known(_full(qualname))
        if is_ours:
            operator.function = function
        return function

    return register if func is None else register(func)


def register_fake(op: Any, func: Callable[..., Any] | None = None, /) -> Any:
    """Register a function that describes the results of an operator; `fake_of` returns it. Programs
    run without it."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _known(_full(getattr(op, "_qualname", op))).fake = function
        return function

    return register if func is None else register(func)


def fake_of(op: Any) -> Callable[..., Any] | None:
    """Return the function passed to register_fake for an operator, or None."""
    return _known(_full(getattr(op, "_qualname", op))).fake


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Any = None,
) -> None:
    """Register the gradient of an operator: `backward(ctx, grad)` returns one for each argument
    (None for arguments that are not tensors).

    `setup_context(ctx, inputs, output)` runs first and saves what backward needs in `ctx`.
    """
    operator = _known(_full(getattr(op, "_qualname", op)))
    if any(a.is_written for a in operator.overload.arguments):
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {operator.name} with "
            f"schema {operator.schema}"
        )
    operator.backward, operator.setup_context = backward, setup_context


class Library:
    """Operators of one namespace: `Library("mylib", "DEF")` defines them, "FRAGMENT" adds to it,
    "IMPL" implements."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in ("prim", "aten") and kind != "IMPL":
            raise ValueError(
                f"{ns} is a reserved namespace. Please try creating a library with another name."
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define "name(Tensor x) -> Tensor" in the namespace; return its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        name, bracket, rest = schema.partition("(")
        made = _define(f"{_full(name.strip(), self.ns)}{bracket}{rest}")
        return made.name.partition("::")[2]

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
    ) -> None:
        """Register the implementation of an operator of the namespace."""
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        impl(_full(str(op_name), self.ns), dispatch_key or self.dispatch_key or "default", fn)

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"


# -- Operators that are registered in torch
# --------------------------------------------------------------------------

_BUILT_IN = frozenset(
    "aten prim prims quantized quantized_decomposed mkldnn mkldnn_prepacked xnnpack prepacked "
    "onednn sparse inductor c10d c10d_functional _c10d_functional _c10d_functional_autograd "
    "_quantized cuda cudnn rngprims debugprims fsdp symm_mem static_runtime profiler mkl _test "
    "torch_ipex streams aoti_torch_cpu bundled fb torchvision_internal higher_order _inductor_test "
    "nestedtensor dist ort_mga custom_ops _dtensor device_mesh "
    "_dtensor_redistribute_dtensor".split()
)


_seen: list[tuple[int, ...]] = [()]  # what adopt_torch looked at last


def _torch_backward(
    torch: Any, found: Callable[..., Any]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return backward and setup_context of an operator of torch's: backward calls it again,
    recorded by torch."""

    def setup(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any = None) -> None:
        ctx.inputs, ctx.named = inputs, keyword_only_inputs or {}

    def leaf(value: Any) -> Any:
        if not _is_tensor(value):
            return value
        return value.detach().requires_grad_(value.is_floating_point() or value.is_complex())

    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        args = [leaf(value) for value in ctx.inputs]
        is_leaf = [_is_tensor(value) and value.requires_grad for value in args]
        leaves = [value for value, yes in zip(args, is_leaf, strict=True) if yes]
        with torch.enable_grad():
            made = found(*args, **ctx.named)
        outputs = made if isinstance(made, (tuple, list)) else (made,)
        taken = iter(torch.autograd.grad(outputs, leaves, grads, allow_unused=True))
        return (*(next(taken) if yes else None for yes in is_leaf), *(None for _ in ctx.named))

    return backward, setup


_ALIAS_SETS = re.compile(r"\(a(\d+)(?=!?\))")


def _one_letter(found: re.Match[str]) -> str:
    """Return "(b" for "(a1": torch.library.custom_op numbers the sets of arguments that are written
    to."""
    number = int(found[1])
    return f"({chr(ord('a') + number)}" if number < 26 else found[0]


def adopt_torch() -> None:
    """Make the operators that are registered in torch, by torch.library or by extensions, run
    through torch.

    Call this before programs are loaded or compiled. Listing all of torch's names takes a
    millisecond, so it is done only if a definition, a library or a module was added since the last
    time.
    """
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "library") or not hasattr(torch, "ops"):
        return
    now = (len(torch.library._defs), len(torch.ops.loaded_libraries), len(sys.modules))
    if now == _seen[0]:
        return
    _seen[0] = now
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        is_known = namespace in _BUILT_IN or full in _operators
        if is_known or _rushlight.has_operator(f"{namespace}::{name}"):
            continue
        try:
            found = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
            adopted = _define(_ALIAS_SETS.sub(_one_letter, str(found._schema)))
        except (AttributeError, RuntimeError, TypeError, ValueError):
            continue  # a name without a schema, or a schema of types that no program of ours has
        adopted.function = found
        adopted.backward, adopted.setup_context = _torch_backward(torch, found)
