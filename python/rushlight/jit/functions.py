"""Compiled functions as Python objects."""

from __future__ import annotations

import os
import pickle
import re
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from .. import _rushlight, archives
from ..methods import Overload

GRAPH_OPTIMIZED = 8  # RUSH_DUMP_OPTIMIZED
_PLANS = 17  # RUSH_DUMP_PLANS


class Argument:
    """A parameter or a result in a schema."""

    def __init__(
        self, name: str, type: Any, has_default: bool = False, kwarg_only: bool = False
    ) -> None:
        self.name, self.type, self.kwarg_only = name, type, kwarg_only
        self._has_default = has_default
        self.default_value: Any = None
        self.N: int | None = None
        self.alias_info = None
        self.is_out = False

    @property
    def real_type(self) -> Any:
        return self.type

    def has_default_value(self) -> bool:
        return self._has_default


class FunctionSchema(str):
    """A signature: its text, with its parts."""

    find: Any  # gives the Function whose signature it is

    @property
    def name(self) -> str:
        return self.partition("(")[0]

    @property
    def overload_name(self) -> str:
        return ""

    @property
    def arguments(self) -> list[Argument]:
        made = [Argument(*a) for a in self.find().arguments]
        defaults = {a.name: a.default for a in Overload(self).arguments}
        for a in made:
            a.default_value = defaults.get(a.name)
        for argument, kind in zip(made, self._types("inputs"), strict=False):
            argument.type = kind
        return made

    @property
    def returns(self) -> list[Argument]:
        types = self._types("outputs")
        return [Argument("", types[0] if types else self.find().result)]

    def _types(self, ends: str) -> list[Any]:
        """Return the types as graphs have them; nothing if there is no graph."""
        try:
            return [
                value.type()
                for value in getattr(_rushlight.function_graph(self.find(), False), ends)()
            ]
        except RuntimeError:
            return []

    def is_backward_compatible_with(self, old: FunctionSchema) -> bool:
        """True if calls that fit the old signature fit this one; here: if they are the same."""
        return str(self) == str(old)


class GraphText(str):
    """The text of a graph that runs; also has the methods of a Graph, of torch's if torch is
    imported."""

    _read: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._read is None:
            self._read = shown(_rushlight.parse_ir(str(self)))
        return getattr(self._read, name)


class Differentiated:
    """A part of a plan that is differentiated as one, for arguments of some kinds: the texts of the
    graphs that run, `f` and one `df` for each set of gradients that was needed.  `head` says which
    part it is (`prim::DifferentiableGraph_0`) and what the arguments are, `df_heads` from which
    results' gradients each df computes those of which arguments."""

    def __init__(self, text: str) -> None:
        first, *each = re.split(r"^df (from .*):$", text, flags=re.MULTILINE)
        head, _, f = first.partition("\n")
        self.head: str = head.rstrip(":")
        self.f = GraphText(f.strip())
        self.df_heads = each[::2]
        self.df = [GraphText(text.strip()) for text in each[1::2]]


class Code:
    """The code of a plan, by the names of torch's: what its parts that are differentiated as one
    run, in their order."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan

    def _states(self, plans_of: Callable[[Differentiated], dict[str, str]]) -> list[PartState]:
        states: dict[str, dict[str, str]] = {}
        for part in self._plan.differentiated:
            states.setdefault(part.head.partition(",")[0], {}).update(plans_of(part))
        return [PartState(plans) for plans in states.values()]

    def grad_executor_states(self) -> list[PartState]:
        """Return for each part the plans of its derivatives: one for each kind of arguments and set
        of gradients that was needed."""
        return self._states(
            lambda part: {
                f"{part.head}; {head}": text
                for head, text in zip(part.df_heads, part.df, strict=True)
            }
        )

    def differentiable_op_executor_states(self) -> list[PartState]:
        """Return for each part the plans of what calls run: one for each kind of arguments."""
        return self._states(lambda part: {part.head: part.f})

    def num_bailouts(self) -> int:
        """Return the number of guards, each of which may end in a bailout."""
        return len(re.findall(r" = prim::Guard\[", self._plan.graph))


class ExecutionPlan:
    """Code that some calls run: `graph` is the text of the graph it was made from, after the
    passes, with compiled groups as single nodes; `facts`, what it assumes; `differentiated`, what
    recorded calls run for its parts that are differentiated as one; `code` has this by torch's
    names."""

    def __init__(self, graph: str, facts: list[str]) -> None:
        graph, *parts = re.split(r"^f of (?=prim::DifferentiableGraph)", graph, flags=re.MULTILINE)
        self.graph = GraphText(graph)
        self.facts = facts
        self.differentiated = [Differentiated(text) for text in parts]

    @property
    def code(self) -> Code:
        return Code(self)


class PartState:
    """What runs of a part of a plan: its plans, by what they are for."""

    def __init__(self, plans: dict[str, str]) -> None:
        self.execution_plans = {head: ExecutionPlan(text, [head]) for head, text in plans.items()}


class ExecutorState:
    """What runs when a function is called: `fallback` for the first calls and for arguments that
    have no plan, and the plans, by what they assume."""

    def __init__(self, canonical: _rushlight.Graph, fallback: str, plans: str) -> None:
        self.graph = canonical
        self.fallback = ExecutionPlan(fallback, [])
        self.counts, *each = re.split(r"^plan \d+, (?=\d+ calls:$)", plans, flags=re.MULTILINE)
        self.execution_plans = {}
        for text in each:
            head, graph = text.split("\ngraph(", 1)
            facts = [line.strip() for line in head.splitlines()[1:]]
            self.execution_plans["; ".join(facts)] = ExecutionPlan("graph(" + graph, facts)


def shown(graph: Any) -> Any:
    """Return the graph as torch's, whose tools read its types, if torch is imported and can read
    the graph's text."""
    torch = sys.modules.get("torch")
    try:
        return graph.graph() if torch is not None and hasattr(torch, "_C") else graph
    except RuntimeError:
        return graph


class ScriptFunction(_rushlight.Function):
    """A compiled function; called like the one that it was made from."""

    def _rush_adopt(self, fn: Any) -> None:
        self.__name__ = getattr(fn, "__name__", "function")
        self.__doc__ = getattr(fn, "__doc__", None)
        self.__module__ = getattr(fn, "__module__", None)  # type: ignore[assignment]
        self._torchdynamo_inline = fn

    _rush_is_traced = False
    text_name: str | None = None  # of a CompilationUnit's function, which stands in no module

    @property
    def qualified_name(self) -> str:  # type: ignore[override]
        return self.text_name or super().qualified_name

    @property
    def name(self) -> str:
        return self.qualified_name.rpartition(".")[2]

    _graph: Any = None

    @property
    def graph(self) -> Any:
        """A copy of the program's graph, always the same one: passes and edits can be seen, and
        do not change what calls run."""
        if self._graph is None:
            self._graph = _rushlight.function_graph(self, False)
        return self._graph

    @property
    def inlined_graph(self) -> Any:
        return _rushlight.function_graph(self, True)

    @property
    def code(self) -> str:
        text = self.as_module().code
        head = "def forward(self"
        at = text.find(head)
        if at < 0:
            return text
        rest = text[at + len(head) :]
        return text[:at] + f"def {self.name}(" + rest.removeprefix(",").lstrip()

    @property
    def schema(self) -> FunctionSchema:
        made = FunctionSchema(self.schema_text)
        made.find = lambda: self
        return made

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """Return the graph that runs, after a call with these arguments."""
        self(*args, **kwargs)
        return shown(_rushlight.last_graph(self))

    def _debug_flush_compilation_cache(self) -> None:
        """Does nothing: compiled code does not depend on calls."""

    def save(self, f: str | os.PathLike[str] | BinaryIO, _extra_files: Any = None) -> None:
        archives.save(self.as_module(), f, _extra_files=_extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        import io

        buffer = io.BytesIO()
        self.save(buffer, _extra_files)
        return buffer.getvalue()

    def get_debug_state(self) -> ExecutorState:
        """Return the code that runs when the function is called."""
        graph = _rushlight.function_graph(self, False)
        return ExecutorState(graph, self.dump(GRAPH_OPTIMIZED), self.dump(_PLANS))

    def __reduce__(self) -> Any:
        raise pickle.PickleError("ScriptFunction cannot be pickled")

    def __repr__(self) -> str:
        return f"<rushlight.ScriptFunction {self.name}>"
