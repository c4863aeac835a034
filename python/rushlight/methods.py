"""Tensor's methods, made from the operator table: every operator whose first argument is `self:
Tensor`.

functions.py also uses the conversion of schemas to Python (`Overload`, `signature`, `document`,
`Results`).
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from . import _rushlight, return_types
from ._rushlight import Tensor
from .kinds import device, layout

if TYPE_CHECKING:
    import inspect

# A method's schema: self is first, and nothing else is written to.
_SELF = re.compile(
    r"^aten::(?!__)(\w+)(?:\.\w+)?\(Tensor(?:\([^)]*\))? self\b[^!\n]*\) -> .*$", re.M
)
_WORDS = {"SymInt": "int", "Scalar": "number", "ScalarType": "dtype"}
_WORDS |= {"MemoryFormat": "int", "Layout": "int", "Device": "str"}
# numpy's names, which PyTorch takes too
ALIASES = {"axis": "dim", "keepdims": "keepdim", "x1": "self", "x2": "other"}
_ATTRIBUTES = {"T": "numpy_T", "H": "matrix_H", **{n: n for n in ("mT", "mH", "real", "imag")}}
_ALIASES = re.compile(r"\((?:\w|!|\||\*| |->)*\)")  # (a!), (a -> *)


class Argument:
    """One argument of a schema: `Tensor(a!) self`, `SymInt[2] stride=[1, 1]`."""

    def __init__(self, text: str, keyword_only: bool) -> None:
        declared, self.has_default, default = text.partition("=")
        kind, _, self.name = declared.rpartition(" ")
        self.default = _value(default) if self.has_default else None
        self.is_written = "!" in kind
        self.keyword_only = keyword_only
        self.kind = _ALIASES.sub("", kind)

    def __str__(self) -> str:
        shown = f"{self.name}: {shown_type(self.kind)}"
        return f"{shown} = {self.default!r}" if self.has_default else shown


def _value(text: str) -> Any:
    """A default: numbers, lists and strings as Python's; other words (Mean) as they are."""
    import ast

    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return float(text) if text in ("inf", "-inf", "nan") else text


def shown_type(kind: str) -> str:
    """Return the Python form of a schema's type."""
    if kind.endswith("?"):
        return f"{shown_type(kind[:-1])} | None"
    if kind.endswith("]"):
        inner = shown_type(kind[: kind.rindex("[")])
        return f"list[{inner}]"
    return _WORDS.get(kind, kind)


def split_arguments(text: str) -> Iterator[str]:
    """Split at commas outside brackets and strings."""
    depth = start = 0
    quote = ""
    for i, c in enumerate(text):
        if c in "\"'" and quote in ("", c) and text[i - 1 : i] != "\\":
            quote = "" if quote else c
        depth += 0 if quote else (c in "([") - (c in ")]")
        if c == "," and depth == 0 and not quote:
            yield text[start:i].strip()
            start = i + 1
    if text[start:].strip():
        yield text[start:].strip()


class Overload:
    """One line of operator_schemas()."""

    def __init__(self, line: str) -> None:
        schema, _, self.classes = line.partition("\t")
        arguments, _, self.results = schema.rpartition(" -> ")
        self.name, _, inside = arguments.partition("(")
        self.arguments: list[Argument] = []
        keyword_only = False
        for part in split_arguments(inside[:-1]):
            if part == "*":
                keyword_only = True
            elif part != "...":
                self.arguments.append(Argument(part, keyword_only))
        self.views = re.match(r"Tensor\(\w+\)", self.results) is not None

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the names of the results; empty if they have none."""
        if not self.results.startswith("("):
            return ()
        parts = [part.rpartition(" ") for part in split_arguments(self.results[1:-1])]
        return tuple(name for kind, _, name in parts if kind and name.isidentifier())

    @property
    def result_kinds(self) -> list[str]:
        """The types of the results, without names and alias annotations."""
        inside = _ALIASES.sub("", self.results) if self.results != "()" else ""
        inside = inside[1:-1] if inside.startswith("(") else inside
        parts = [(part, *part.rpartition(" ")) for part in split_arguments(inside)]
        return [kind if name.isidentifier() and kind else part for part, kind, _, name in parts]

    @property
    def writes(self) -> bool:
        """True for in-place and out= forms."""
        return any(a.is_written for a in self.arguments)

    def shown(self, name: str, skip: int) -> str:
        parts, starred = [], False
        for a in self.arguments[skip:]:
            if a.keyword_only and not starred:
                parts.append("*")
                starred = True
            parts.append(str(a))
        results = re.sub(r"\((?:\w|!)+\)", "", self.results).strip("()")
        results = ", ".join(shown_type(r.split(" ")[0]) for r in split_arguments(results))
        results = f"({results})" if "," in results else results or "None"
        return f"{name}({', '.join(parts)}) -> {results}"


_DTYPES = {d.number: d for d in vars(_rushlight).values() if isinstance(d, _rushlight.dtype)}
# x.float() and similar methods, by PyTorch's names of the types.
CASTS = {_DTYPES[n].scalar_type.lower(): _DTYPES[n].name for n in (*range(8), 11, 15)}
CASTS |= {"cfloat": "complex64", "cdouble": "complex128"}


class Results:
    """Convert an operator's results to those of torch's functions: named tuples, tuples of tensors,
    dtypes."""

    __slots__ = ("_classes", "_is_dtype", "_is_tensors")

    def __init__(self, name: str, overloads: list[Overload]) -> None:
        kinds = [re.sub(r"\([^)]*\)", "", o.results) for o in overloads]
        self._is_tensors = "Tensor[]" in kinds
        self._is_dtype = "ScalarType" in kinds
        self._classes: dict[int, type[tuple[Any, ...]]] = {}
        for o in overloads:
            if o.fields and not o.writes:
                made = return_types.made(name, o.fields)  # type: ignore[attr-defined]
                self._classes.setdefault(len(o.fields), made)

    def finish(self, result: Any) -> Any:
        kind = type(result)
        if kind is tuple:
            return self._classes.get(len(result), tuple)(result)
        if kind is list and self._is_tensors:
            return tuple(result)
        if kind is int and self._is_dtype:
            return _DTYPES[result]
        return result


def renamed(kwargs: dict[str, Any], aliases: dict[str, str]) -> dict[str, Any]:
    """Convert keyword arguments to the schema's: numpy's names, and dtypes by name."""
    if isinstance(kwargs.get("dtype"), str):
        kwargs["dtype"] = _rushlight.as_tensor(0, kwargs["dtype"]).dtype
    if aliases.keys().isdisjoint(kwargs):
        return kwargs
    return {aliases.get(k, k): v for k, v in kwargs.items()}


def is_int_list(kind: str) -> bool:
    return re.match(r"(SymInt|int)\[", kind) is not None


def gathered(overload: Overload) -> str | None:
    """Collect separate ints for the only argument besides self, if that is a list of ints:
    x.view(2, 3) is x.view([2, 3])."""
    some = [a for a in overload.arguments[1:] if not a.keyword_only]
    return some[0].name if len(some) == 1 and is_int_list(some[0].kind) else None


def signature(overloads: list[Overload], is_method: bool) -> inspect.Signature:
    """Combine all overloads: a parameter that one of them lacks is optional, one that is positional
    in one of them may be positional."""
    import inspect  # both are slow to import, and seldom needed
    import keyword

    found: dict[str, list[tuple[int, Argument]]] = {}
    for overload in overloads:
        for i, a in enumerate(overload.arguments):
            found.setdefault(a.name, []).append((i, a))
    several = {gathered(o) for o in overloads} if is_method else set()
    places, star, named = [], [], []
    optional = False
    make = inspect.Parameter
    for name in sorted(found, key=lambda n: max(i for i, _ in found[n])):
        uses = [a for _, a in found[name]]
        defaults = [a.default for a in uses if a.has_default]
        shown = f"{name}_" if keyword.iskeyword(name) else name
        kind = shown_type(uses[0].kind)
        parameter = make(shown, make.POSITIONAL_OR_KEYWORD, annotation=kind)
        by_place = any(not a.keyword_only for a in uses)
        if name in several:
            star.append(make(shown, make.VAR_POSITIONAL, annotation="int"))
            continue
        if defaults or len(uses) < len(overloads) or (optional and by_place):
            parameter = parameter.replace(default=defaults[0] if defaults else ...)
            optional = optional or by_place
        if by_place and not star:
            places.append(parameter)
        else:
            named.append(parameter.replace(kind=make.KEYWORD_ONLY))
    result = "Tensor" if "Tensor" in overloads[0].results else make.empty
    return inspect.Signature([*places, *star[:1], *named], return_annotation=result)


_ELEMENTWISE = "Elementwise: tensors broadcast to one shape and are promoted to one dtype. Dtypes: "
_WRITES_SELF = """Writes to the tensor itself, which keeps its shape and dtype: results that do not \
fit are refused."""
_WRITES_OUT = "out= takes the result's shape; its dtype must be one that the result can be cast to."
_ERRORS = """Shapes, dtypes and arguments that PyTorch refuses raise its errors: RuntimeError, \
IndexError, TypeError ..."""


def document(name: str, lines: list[str], skip: int) -> str:
    """Return the text of help() for an operator: its overloads, dtypes, shape and errors, as far as
    the table has them."""
    overloads = [Overload(line) for line in lines]
    short = name.rpartition("::")[2]
    text = [f"The operator {name}.", "", *(f"    {o.shown(short, skip)}" for o in overloads), ""]
    kinds = next((o.classes for o in overloads if o.classes), "").replace(" ", ", ")
    writes_self = any(a.is_written for o in overloads for a in o.arguments[:1])
    facts = (
        (kinds, _ELEMENTWISE + f"{kinds}."),
        (any(o.views for o in overloads), "The result may share the tensor's memory."),
        (writes_self, _WRITES_SELF),
        (not writes_self and any(o.writes for o in overloads), _WRITES_OUT),
        (True, _ERRORS),
    )
    return "\n".join([*text, *(said for holds, said in facts if holds)])


class Method:
    """An operator as a method: its docstring is made when it is first read."""

    __slots__ = ("__name__", "_gathers", "_lines", "_name", "_results")

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self._name = f"aten::{name}"
        self._lines: list[str] = []
        self._gathers: tuple[bool, bool] | None = None
        self._results: Results | None = None

    def __get__(self, tensor: Any, owner: Any = None) -> Any:
        return self if tensor is None else types.MethodType(self, tensor)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) > 1 and type(args[1]) is int:
            args = self._gathered(args)
        if kwargs:
            kwargs = renamed(kwargs, ALIASES)
        result = _rushlight.call_operator(self._name, *args, **kwargs)
        return result if type(result) is Tensor else self._finished(result)

    def _finished(self, result: Any) -> Any:
        if self._results is None:
            self._results = Results(self.__name__, [Overload(line) for line in self._lines])
        return self._results.finish(result)

    def _gathered(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Collect ints: x.view(2, 3) is x.view([2, 3]), if a list of ints is the only argument."""
        if self._gathers is None:
            overloads = [Overload(line) for line in self._lines]
            first = {o.arguments[1].kind for o in overloads if len(o.arguments) > 1}
            numbers = ("int", "SymInt", "int?", "Scalar", "Tensor", "Scalar?")
            self._gathers = (any(map(gathered, overloads)), not first.isdisjoint(numbers))
        takes_list, takes_int = self._gathers
        rest = args[1:]
        is_list = takes_list and (len(rest) > 1 or not takes_int)
        return (args[0], list(rest)) if is_list and all(isinstance(i, int) for i in rest) else args

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return document(self._name, self._lines, 1)

    @property
    def __signature__(self) -> inspect.Signature:
        return signature([Overload(line) for line in self._lines], True)

    def __repr__(self) -> str:
        return f"<method {self.__name__} of Tensor, the operator {self._name}>"


# -- Methods that are no operators
# -------------------------------------------------------------------------


def _size(self: Tensor, dim: int | None = None) -> Any:
    """Return the sizes, or one of them."""
    return self.shape if dim is None else self.shape[dim]


def _wanted(found: tuple[Any, ...], *also: bool) -> Any:
    """Return the first result, and the requested ones of the others."""
    wanted = tuple(t for t, yes in zip(found, (True, *also), strict=True) if yes)
    return wanted if len(wanted) > 1 else wanted[0]


def unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the different elements (or slices), and optionally the index of each element among
    them, and their counts."""
    name, over = ("aten::_unique2", ()) if dim is None else ("aten::unique_dim", (dim,))
    flags = (return_inverse, return_counts)
    return _wanted(_rushlight.call_function(name, input, *over, sorted, *flags), *flags)


def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return the first of each run of equal neighbours, and optionally the run of each element, and
    the lengths of the runs."""
    flags = (return_inverse, return_counts)
    found = _rushlight.call_function("aten::unique_consecutive", input, *flags, dim)
    return _wanted(found, *flags)


def norm(
    input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """Return the vector norm over `dim` (all dimensions); "fro" is 2, "nuc" the sum of a matrix's
    singular values."""
    call = _rushlight.call_function
    if p == "nuc":
        return call("aten::nuclear_norm", input, *([] if dim is None else [dim]), keepdim)
    over, order = [dim] if isinstance(dim, int) else dim, 2.0 if p in ("fro", None) else float(p)
    return call("aten::linalg_vector_norm", input, order, over, keepdim, dtype=dtype)


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Return the tensor's type as torch names it ("torch.FloatTensor"); with a dtype or such a
    name, convert the tensor."""
    if dtype is None:
        return f"torch.{self.dtype.scalar_type}Tensor"
    if isinstance(dtype, str) and dtype.startswith("torch.") and dtype.endswith("Tensor"):
        found = next((d for d in _DTYPES.values() if d.scalar_type == dtype[6:-6]), None)
        if found is None:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = found
    return _rushlight.call_operator("aten::to", self, _rushlight.as_tensor(0, dtype).dtype)


def _apply(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element by the function's result for it; slow, and only for the CPU."""
    return _map(self, callable)


def _map(self: Tensor, *others: Any) -> Tensor:
    """Replace each element by the function's result for it and for the elements at the same place
    of the tensors; slow, and only for the CPU."""
    *tensors, callable = others
    rows = [t.expand(self.shape).flatten().tolist() for t in tensors]
    flat = [callable(*values) for values in zip(self.flatten().tolist(), *rows, strict=True)]
    return self.copy_(_rushlight.tensor(flat, self.dtype).view(self.shape)) if flat else self


def _map_one(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element x by callable(x, y), y of the tensor; slow, and only for the CPU."""
    return _map(self, tensor, callable)


def _map_two(
    self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]
) -> Tensor:
    """Replace each element by the function's result for it and for the elements of x and y; slow,
    and only for the CPU."""
    return _map(self, x, y, callable)


def _dim_order(self: Tensor) -> tuple[int, ...]:
    """Return the dimensions from the one with the largest stride to the one with the smallest."""
    strides = self.stride()
    return tuple(sorted(range(self.ndim), key=lambda d: (-strides[d], d)))


def _storage(name: str) -> Callable[[Tensor], Any]:
    def get(self: Tensor) -> Any:
        from . import storages

        return getattr(storages, name)(self)

    get.__name__, get.__qualname__ = name, f"Tensor.{name}"
    get.__doc__ = "The memory that the tensor and its views share."
    return get


def _new_tensor(self: Tensor, data: Any, dtype: Any = None) -> Tensor:
    """Return a tensor of these numbers, of this tensor's dtype unless one is given."""
    return _rushlight.tensor(data, dtype or self.dtype)


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """Return a numpy array (numpy's protocol)."""
    import numpy

    name = self.dtype.name
    try:
        elements = memoryview(self)
    except BufferError:
        how = "to(rushlight.complex64)" if name.startswith("complex") else "float()"
        how = "dequantize()" if self.is_quantized else how
        raise TypeError(
            f"Got unsupported ScalarType {name}: numpy has no such dtype; convert first, as in "
            f"x.{how}.numpy()"
        ) from None
    return numpy.array(elements, dtype=dtype, copy=copy)


def _where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """Return the tensor where the condition holds, the other elsewhere."""
    made: Tensor = _rushlight.call_operator("aten::where", condition, self, other)
    return made


def _polygamma(self: Tensor, n: int) -> Tensor:
    """Return the n-th derivative of digamma."""
    made: Tensor = _rushlight.call_operator("aten::polygamma", n, self)
    return made


def _format(self: Tensor, spec: str) -> str:
    """Format the number of a zero-dimensional tensor."""
    return format(self.item(), spec) if self.ndim == 0 else format(str(self), spec)


def _complex(self: Tensor) -> complex:
    """Return the single element as a complex number."""
    return complex(self.item())


def _reversed(self: Tensor) -> Tensor:
    """Reverse the first dimension."""
    return self.flip(0) if self.ndim else self


def _backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
) -> None:
    """Add the gradients of the tensor's history to the leaves' `grad`."""
    _rushlight._run_gradients([self], [gradient], None, create_graph, bool(retain_graph), True)


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """Copy to new memory."""
    if self.is_recorded:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment: detach() it first"
        )
    memo[id(self)] = copy = self.detach().clone()
    copy.requires_grad = self.requires_grad
    return copy


def _copy(self: Tensor) -> Tensor:
    """Copy on the same memory."""
    made: Tensor = self.detach()
    made.requires_grad = self.requires_grad
    return made


def rebuild(data: bytes, dtype: str, shape: tuple[int, ...], requires_grad: bool) -> Tensor:
    """Restore a pickled tensor."""
    kind = getattr(_rushlight, dtype)
    if not data:
        made = _rushlight.as_tensor([0]).new_empty(list(shape), dtype=kind)
    else:
        flat = _rushlight.as_tensor(memoryview(bytearray(data)))
        made = flat.view(_rushlight.bool if kind is _rushlight.bool else kind).view(list(shape))
    made.requires_grad = requires_grad
    return made


def rebuild_sparse(
    layout: int, parts: tuple[Tensor, ...], size: list[int], flags: tuple[bool, bool]
) -> Tensor:
    """Restore a pickled sparse tensor."""
    name, more = ("csr", {}) if layout == 2 else ("coo", {"is_coalesced": flags[0]})
    operator = f"aten::_sparse_{name}_tensor_unsafe"
    made: Tensor = _rushlight.call_operator(operator, *parts, size, **more)
    made.requires_grad = flags[1]
    return made


def _reduce_sparse(self: Tensor) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
    names = ("_indices", "_values") if self.is_sparse else ("crow_indices", "col_indices", "values")
    parts = tuple(_rushlight.call_operator(f"aten::{name}", self.detach()) for name in names)
    is_coalesced = self.is_sparse and _rushlight.call_operator("aten::is_coalesced", self)
    flags = (bool(is_coalesced), self.requires_grad)
    return rebuild_sparse, (int(self.layout), parts, list(self.shape), flags)


def _reduce(self: Tensor) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
    """Pickle the elements in row-major order; shared memory is not kept."""
    if self.is_quantized:
        raise TypeError("quantized tensors cannot be pickled: dequantize() them first")
    if self.layout:
        return _reduce_sparse(self)
    flat = self.detach().contiguous().view([-1])
    data = memoryview(flat.view(_rushlight.uint8)).tobytes() if flat.numel() else b""
    return rebuild, (data, self.dtype.name, tuple(self.shape), self.requires_grad)


def _cast(name: str, dtype: str) -> Callable[[Tensor], Tensor]:
    def cast(self: Tensor) -> Tensor:
        made: Tensor = _rushlight.call_operator("aten::to", self, getattr(_rushlight, dtype))
        return made

    cast.__name__, cast.__qualname__ = name, f"Tensor.{name}"
    cast.__doc__ = f"The tensor as {dtype}."
    return cast


def _attribute(operator: str) -> property:
    def get(self: Tensor) -> Any:
        return _rushlight.call_operator(operator, self)

    return property(get, doc=f"The operator {operator}.")


_IS = """cuda ipu maia mkldnn mps mtia nested sparse sparse_csr vulkan xla xpu""".split()


def _is(name: str) -> property:
    """Implement is_sparse and similar methods with the program's operator if there is one;
    otherwise return False."""
    if _rushlight.has_operator(f"prim::is_{name}"):
        return _attribute(f"prim::is_{name}")
    return property(lambda self: False, doc="False here.")


def _layout(self: Tensor) -> layout:
    return layout(_rushlight.call_operator("prim::layout", self))


def _own() -> dict[str, Any]:
    own: dict[str, Any] = {f"is_{name}": _is(name) for name in _IS}
    own |= {
        "size": _size, "where": _where, "unique": unique, "unique_consecutive": unique_consecutive,
        "norm": norm, "type": _type, "apply_": _apply, "map_": _map_one, "map2_": _map_two,
        "storage": _storage("storage"), "untyped_storage": _storage("untyped_storage"),
        "dim_order": _dim_order,
        "const_data_ptr": lambda self: self.data_ptr(), "is_shared": lambda self: False,
        "is_meta": property(lambda self: self.device.type == "meta",
                            doc="True for sizes without data."),
        "name": property(lambda self: None, doc="None: tensors have no names."),
        "is_cpu": property(lambda self: self.device == "cpu", doc="True if it is in memory."),
        "device": property(lambda self: device(self._device), doc="Where the tensor is."),
        "layout": property(_layout, doc="How the elements are kept."),
        "new_tensor": _new_tensor, "polygamma": _polygamma,
        "nelement": lambda self: self.numel(), "ndimension": lambda self: self.ndim,
        "__format__": _format, "__complex__": _complex, "__array__": _array,
        "__reversed__": _reversed, "__copy__": _copy, "__deepcopy__": _deepcopy,
        "backward": _backward,
        "__reduce__": _reduce,
        "itemsize": property(lambda self: self.element_size(), doc="bytes of an element"),
        "nbytes": property(lambda self: self.numel() * self.element_size(),
                           doc="bytes of the elements"),
        "is_quantized": _attribute("prim::is_quantized"),
    }  # fmt: skip
    own |= {name: _cast(name, dtype) for name, dtype in CASTS.items()}
    return own | {name: _attribute(f"aten::{operator}") for name, operator in _ATTRIBUTES.items()}


def install() -> None:
    """Add the methods to Tensor."""
    methods: dict[str, Method] = {}
    for found in _SELF.finditer(_rushlight.operator_schemas()):
        method = methods.get(found[1])
        if method is None:
            method = methods[found[1]] = Method(found[1])
        method._lines.append(found[0])
    there = set(vars(Tensor))
    for name, method in methods.items():
        if name not in there and name not in _ATTRIBUTES:
            setattr(Tensor, name, method)
    for name, value in _own().items():
        setattr(Tensor, name, value)


install()
