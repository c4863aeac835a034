"""torch.jit's names over Rushlight: compile live Python functions, classes and modules.

>>> @rushlight.script
... def f(x: int) -> int:
...     return x + 1

A name's part is imported when the name is first used, as in `rushlight` itself: loading and running
archives needs script_module alone, not the compiler's questions.
"""

from __future__ import annotations

import sys

from .._rushlight import Error as Error

TYPE_CHECKING = False  # typing's own costs an import of 3 ms
if TYPE_CHECKING:
    from typing import Any

# The part that defines each name, and torch.jit's older names by theirs.
_PARTS = {
    "decorators": """Attribute Final annotate export ignore interface is_scripting is_tracing
        script_if_tracing unused _copy_to_script_wrapper _overload _overload_method""",
    "freezing": "freeze optimize_for_inference run_frozen_optimizations",
    "functions": "ScriptFunction",
    "futures": "Future fork wait",
    "objects": "RecursiveScriptClass",
    "runtime": """enable_onednn_fusion export_opnames fuser last_executed_optimized_graph
        onednn_fusion_enabled optimized_execution set_autodiff_subgraph_inlining set_fusion_strategy
        set_profiling_executor set_profiling_mode strict_fusion""",
    "scripting": "script script_method",
    "tracing": "TracingCheckError trace trace_module",
    "unit": "CompilationUnit",
}
_WHERE = {name: (part, name) for part, names in _PARTS.items() for name in names.split()}
__all__ = sorted({"Error", *(name for name in _WHERE if name[0] != "_")})
_WHERE |= {
    "isinstance": ("runtime", "isinstance_"),
    "TopLevelTracedModule": ("tracing", "TopLevelTracedModule"),
    "TracedModule": ("tracing", "TracedModule"),
    "TracerWarning": ("tracing", "TracerWarning"),
    "_ScriptProfile": ("profiler", "ScriptProfile"),
    "_fork": ("futures", "fork"),
    "_script_if_tracing": ("decorators", "script_if_tracing"),
    "_set_fusion_strategy": ("runtime", "set_fusion_strategy"),
    "_wait": ("futures", "wait"),
}
_MODULES = """attribute_errors classes containers dataclass decorator_flags decorators entry
exported freezing frontend functions futures hooks kinds names modules objects python_calls
quantized runtime scope script_module scripting sources torch_modules torch_questions
torch_trace traced_module tracing types unit""".split()


def _unwrap_optional(x: Any) -> Any:
    assert x is not None, "Unwrapping null optional"
    return x


def _part(name: str) -> Any:
    """Return the module rushlight.jit.NAME; the profiler is rushlight's."""
    full = "rushlight.profiler" if name == "profiler" else f"{__name__}.{name}"
    __import__(full)
    return sys.modules[full]


def __getattr__(name: str) -> Any:
    if name in ("ScriptModule", "RecursiveScriptModule", "load", "save"):
        return getattr(sys.modules["rushlight"], name)
    if name in _MODULES:
        return _part(name)
    part, inside = _WHERE.get(name, ("", ""))
    if not part:
        raise AttributeError(f"module 'rushlight.jit' has no attribute '{name}'")
    found = getattr(_part(part), inside)
    if name != "isinstance":  # which would hide Python's here
        globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE, *_MODULES})
