"""One traced run of a callable over torch code, and the check that a second run gives the same
trace."""

from __future__ import annotations

import difflib
import functools
import inspect
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _rushlight
from .entry import entry

STRICT = (
    "Encountering a dict at the output of the tracer might cause the trace to be incorrect, this "
    "is only valid if the container structure does not change based on the module's inputs. "
    "Consider using a constant container instead (e.g. for `list`, use a `tuple` instead. for "
    "`dict`, use a `NamedTuple` instead). If you absolutely need this and know the side effects, "
    "pass strict=False to trace() to allow this behavior."
)
NOTHING = (
    "The traced function didn't return any values! Side-effects are not captured in traces, "
    "so it would be a no-op."
)
OUTPUTS = (
    "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from "
    "traced functions"
)
GRAPHS = "Graphs differed across invocations!"
CONSTANTS = (
    "Tensor-valued Constant nodes differed in value across invocations. This often indicates that "
    "the tracer has encountered untraceable code."
)


class TracingCheckError(Exception):
    """A second trace differs from the first."""

    def __init__(
        self,
        graph_diff_error: str | None,
        tensor_compare_error: str | None,
        extra_msg: str | None = None,
    ) -> None:
        self.message = "Tracing failed sanity checks!\n"
        if extra_msg is not None:
            self.message += extra_msg + "\n"
        for said, error in ((GRAPHS, graph_diff_error), (CONSTANTS, tensor_compare_error)):
            if error is not None:
                self.message += f"ERROR: {said}\n{_indent(error)}\n"
        # a class beside this one may be torch's of the same name
        Exception.__init__(self, self.message)


@functools.cache
def _check_error() -> type[TracingCheckError]:
    """Return the exception class to raise: torch's error, too, if torch is imported."""
    import torch

    bases = (TracingCheckError, torch.jit._trace.TracingCheckError)
    return type("TracingCheckError", bases, {"__module__": __name__})


def _indent(text: str) -> str:
    return "\n".join("\t" + line for line in text.split("\n"))


class _TracerWarning(Warning):
    """An operation that the trace cannot follow."""


def tracer_warning() -> type[Warning]:
    """Return the class of a trace's warnings: torch's if torch is imported."""
    return getattr(sys.modules.get("torch.jit._trace"), "TracerWarning", _TracerWarning)


def _callers_level() -> int:
    """Return the stack level of the package's caller."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame, level = frame.f_back, level + 1
    return level


class Options(NamedTuple):
    check: bool
    check_inputs: Any
    tolerance: float
    strict: bool
    named: bool
    outplace: bool
    stored: bool = False


def as_tuple(inputs: Any, torch: Any) -> tuple[Any, ...]:
    if isinstance(inputs, (_rushlight.Tensor, dict)) or (
        torch is not None and isinstance(inputs, torch.Tensor)
    ):
        return (inputs,)
    return tuple(inputs)


def leaves(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [value]


def argument_names(func: Any) -> list[str]:
    """Return the names of positional parameters; none behind *args."""
    try:
        parameters = inspect.signature(func).parameters.values()
    except (ValueError, TypeError):
        return []
    return [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]


def n_attributes(module: Any) -> int:
    """Return how many values PyTorch has for the contents of a module, before it traces."""
    children = [child for child in module._modules.values() if child is not None]
    n = len([p for p in module._parameters.values() if p is not None]) + len(module._buffers) + 2
    return n + len(children) + sum(map(n_attributes, children))


def _plain(value: Any) -> Any:
    """Convert named tuples to tuples and modules to None: a trace's inputs and outputs have no
    classes."""
    import torch

    if isinstance(value, (list, tuple)):
        return (list if isinstance(value, list) else tuple)(_plain(v) for v in value)
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    return None if isinstance(value, torch.nn.Module) else value


def inferred(value: Any) -> Any:
    """Return the type that an input or output has in a graph; refuse values without one."""
    found = entry().types.infer(_plain(value))
    if isinstance(found, str):
        raise RuntimeError(f"Tracer cannot infer type of {value}\n:{found}")
    return found


class Recording:
    """One recorded run of a callable on example inputs. `of`: the module whose method it is, and
    its type."""

    def __init__(
        self,
        func: Callable[..., Any],
        inputs: Any,
        options: Options,
        modules: dict[Any, str],
        paths: Any = (),
        signature: Any = None,
        of: tuple[Any, Any] | None = None,
    ) -> None:
        from . import torch_questions, torch_trace

        self.torch = __import__("torch")
        self.tracer = tracer = torch_trace.Tracer(of and of[1])
        tracer.outplace = options.outplace
        self.tensor_type = torch_trace.tensor_type
        if of is not None:
            tracer.recorder.skip(n_attributes(of[0]))
        for path, tensor in paths:
            tracer.bind_attribute(path, tensor)
        for module, path in modules.items():
            if isinstance(module, _rushlight.Module):
                tracer.programs[id(module)] = path.partition(".")[2]
        names = argument_names(signature or func)
        if options.named:
            names = [*(n for n in names if n in inputs), *(n for n in inputs if n not in names)]
            inputs = {name: inputs[name] for name in names}
        values = list(inputs.values()) if options.named else list(inputs)
        kind = inferred(tuple(values))
        if not all(_can_be_traced(v) for v in values):
            raise RuntimeError(
                f"Type '{kind.annotation_str}' cannot be traced. Only Tensors and (possibly "
                "nested) Lists, Dicts, and Tuples of Tensors can be traced"
            )
        given = [
            self.input(value, names[i] if i < len(names) else None)
            for i, value in enumerate(values)
        ]
        with torch_questions.tracing(tracer, modules):
            result = func(**dict(zip(names, given, strict=True))) if options.named else func(*given)
            if result is None:
                raise RuntimeError(NOTHING)
        self.result = result
        inferred(result)
        n_functions = tracer.recorder.finish(self.output_value(result, options.strict))
        self.graphs = [tracer.recorder.graph(i) for i in range(n_functions if options.check else 0)]

    def input(self, value: Any, name: str | None) -> Any:
        made = self.tracer.recorder.input(name, self.type_of(value))
        if name and name.isascii() and name.isidentifier():
            self.tracer.named.add(made)
        return self.unpack(value, made)

    def type_of(self, value: Any, is_plain: bool = False) -> str:
        """Return a value's type as graphs have it; plain: without the known properties of
        tensors."""
        if isinstance(value, self.torch.Tensor):
            return "Tensor" if is_plain else self.tensor_type(value)
        if isinstance(value, tuple):
            return f"({', '.join(self.type_of(v, is_plain) for v in value)})"
        if isinstance(value, list):
            return f"{self.type_of(value[0], True) if value else 'Tensor'}[]"
        if isinstance(value, dict):
            key, item = next(iter(value.items()), ("", None))
            held = self.type_of(item, True) if item is not None else "Tensor"
            return f"Dict({'str' if isinstance(key, str) else type(key).__name__}, {held})"
        raise RuntimeError(OUTPUTS)

    def unpack(self, value: Any, made: Any) -> Any:
        """Record the tensors in `value` as inputs; return the value to pass to the function."""
        tracer = self.tracer
        if isinstance(value, self.torch.Tensor):
            if tracer.known(value):
                is_strided = value.layout == self.torch.strided
                value = value.view(value.size()) if is_strided else value.detach()
                tracer.recorder.skip(value.dim() + 2)  # PyTorch records the view
            tracer.bind(value, made)
            return value
        if isinstance(value, dict):
            items = {}
            for key, item in value.items():
                inputs = [made, tracer.recorder.constant(key)]
                one = tracer.one("aten::__getitem__", inputs, self.type_of(item))
                items[key] = self.unpack(item, one)
            return type(value)(items)
        kind = "prim::TupleUnpack" if isinstance(value, tuple) else "prim::ListUnpack"
        outputs = tracer.recorder.add(kind, [made], tuple(self.type_of(v) for v in value))
        parts = [self.unpack(v, o) for v, o in zip(value, outputs, strict=True)]
        if isinstance(value, list):
            return parts
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)

    def output_tensor(self, value: Any) -> Any:
        if not self.tracer.known(value):
            raise RuntimeError(
                f"output {1} ({self.tracer.shown(value)}) of traced region did not have observable "
                "data dependence with trace inputs; this probably indicates your program cannot be "
                "understood by the tracer."
            )
        return self.tracer.find(value)

    def output_value(self, value: Any, strict: bool) -> Any:
        tracer = self.tracer
        if isinstance(value, self.torch.Tensor):
            return self.output_tensor(value)
        if strict and isinstance(value, dict):
            raise RuntimeError(STRICT)
        if strict and isinstance(value, list):
            told = STRICT.replace("Encountering a dict", "Encountering a list")
            warnings.warn(told, tracer_warning(), stacklevel=_callers_level())
        if isinstance(value, list) and not all(isinstance(v, self.torch.Tensor) for v in value):
            raise RuntimeError(OUTPUTS)
        if isinstance(value, dict):
            items = []
            for key, item in value.items():
                items += [tracer.recorder.constant(key), self.output_value(item, strict)]
            return tracer.one("prim::DictConstruct", items, self.type_of(value))
        if isinstance(value, (list, tuple)):
            parts = [self.output_value(v, strict) for v in value]
            kind = "prim::TupleConstruct" if isinstance(value, tuple) else "prim::ListConstruct"
            return tracer.one(kind, parts)
        raise RuntimeError(OUTPUTS)

    def text(self) -> str:
        return "".join(map(str, self.graphs))

    def nodes(self) -> list[Any]:
        return [node for graph in self.graphs for node in graph.nodes()]

    def random_lines(self) -> list[str]:
        """Return the traced function's own nodes that draw random numbers."""
        return [shown(n) for n in self.graphs[-1].nodes() if n.isNondeterministic()]

    def constants(self) -> list[Any]:
        """Return the nodes that are constant tensors."""
        return [n for n in self.nodes() if n.hasAttribute("value") and n.kindOf("value") == "t"]


def shown(node: Any) -> str:
    return str(node).strip()


def _can_be_traced(value: Any) -> bool:
    import torch

    return all(isinstance(leaf, torch.Tensor) for leaf in leaves(value))


def clone_inputs(inputs: Any) -> Any:
    """Copy the inputs, so that writes to them are not applied to the caller's."""
    import torch

    def clone(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            is_plain = value.layout == torch.strided and not value.is_mkldnn
            made = value.detach().clone(memory_format=torch.preserve_format if is_plain else None)
            is_inexact = made.is_floating_point() or made.is_complex()
            return made.requires_grad_(value.requires_grad) if is_inexact else made
        if isinstance(value, dict):
            return type(value)((k, clone(v)) for k, v in value.items())
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(clone(v) for v in value))
        return type(value)(clone(v) for v in value) if isinstance(value, (list, tuple)) else value

    return clone(inputs)


class Checker:
    """Traces again and compares: the graphs, then the results of the traced function, Python and
    the second trace."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def run(
        self, func: Any, inputs: Any, traced: Any, first: Recording, record: Callable[..., Any]
    ) -> None:
        import torch

        with torch.no_grad():
            again = record(clone_inputs(inputs))
        self.random = first.random_lines()
        self.differences = lambda: self.compare_graphs(first, again)
        with torch.no_grad():
            ours = self.call(traced, clone_inputs(inputs), "trace")
            theirs = self.call(func, clone_inputs(inputs), "Python function")
            if self.compare(ours, theirs, "Python function"):
                what = "repeated trace"
                self.compare(ours, self.call(traced, clone_inputs(inputs), what), what)
        graph_error, tensor_error = self.differences()
        if graph_error is not None or tensor_error is not None:
            raise _check_error()(graph_error, tensor_error)

    def warn_of_random(self) -> None:
        """Warn once, and only if results differ."""
        if self.random:
            shown = "\n".join("\t" + line for line in self.random)
            self.warn(
                "Trace had nondeterministic nodes. Did you forget call .eval() on your model? "
                f"Nodes:\n{shown}\nThis may cause errors in trace checking. To disable trace "
                "checking, pass check_trace=False to torch.jit.trace()"
            )
        self.random = []

    def warn(self, text: str) -> None:
        warnings.warn(text, tracer_warning(), stacklevel=_callers_level())

    def call(self, callee: Any, inputs: Any, what: str) -> Any:
        try:
            out = callee(**inputs) if self.options.named else callee(*inputs)
        except Exception as error:  # noqa: BLE001
            told = (
                f"encountered an exception while running the {what} with test "
                f"inputs.\nException:\n{_indent(str(error))}"
            )
            raise _check_error()(*self.differences(), extra_msg=told) from error
        return leaves(out)

    def compare(self, ours: list[Any], theirs: list[Any], what: str) -> bool:
        import torch

        is_same = True
        for i, (a, b) in enumerate(zip(ours, theirs, strict=False)):
            if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
                continue
            try:
                if a.is_quantized:
                    a, b = a.dequantize(), b.dequantize()
                wide = (lambda t: t) if a.is_complex() or b.is_complex() else torch.Tensor.double
                atol = torch.testing._comparison.default_tolerances(a, b)[1]
                torch.testing.assert_close(
                    wide(a), wide(b), rtol=self.options.tolerance, atol=atol, equal_nan=True
                )
            except AssertionError as error:
                is_same = False
                self.warn_of_random()
                self.warn(
                    f"Output nr {i + 1}. of the traced function does not match the corresponding "
                    f"output of the {what}. Detailed error:\n{error}"
                )

        return is_same

    def compare_graphs(self, first: Recording, again: Recording) -> tuple[str | None, str | None]:
        """Return the message about the graphs, and about constants, if they differ."""
        graph_error = None
        if first.text() != again.text():
            lines = difflib.ndiff(first.text().splitlines(True), again.text().splitlines(True))
            graph_error = "Graph diff:\n" + _indent("".join(lines).rstrip()) + "\n"
            for ours, theirs in zip(first.nodes(), again.nodes(), strict=False):
                if shown(ours) != shown(theirs):
                    told = difflib.ndiff([shown(ours) + "\n"], [shown(theirs) + "\n"])
                    graph_error += (
                        "First diverging operator:\nNode diff:\n"
                        + _indent("".join(told).strip())
                        + f"\nTrace source location:\n{_indent(ours.sourceRange().strip())}"
                        + f"\nCheck source location:\n{_indent(theirs.sourceRange().strip())}"
                    )
                    break
        return graph_error, self.compare_constants(first, again)

    def compare_constants(self, first: Recording, again: Recording) -> str | None:
        import torch

        for ours, theirs in zip(first.constants(), again.constants(), strict=False):
            try:
                torch.testing.assert_close(ours.t("value"), theirs.t("value"), equal_nan=True)
            except AssertionError as error:
                where = _indent(ours.sourceRange().strip())
                node = f"Node:\n{_indent(shown(ours))}\nSource Location:\n{where}\n"
                return f"{node}Comparison exception: {_indent(str(error))}"
        return None
