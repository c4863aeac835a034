"""torch.jit's names over Rushlight: compile live Python functions, classes and modules."""

from typing import Any

from .._rushlight import Error as Error
from .decorators import Attribute as Attribute
from .decorators import Final as Final
from .decorators import annotate as annotate
from .decorators import export as export
from .decorators import ignore as ignore
from .decorators import interface as interface
from .decorators import is_scripting as is_scripting
from .decorators import is_tracing as is_tracing
from .decorators import script_if_tracing as script_if_tracing
from .decorators import unused as unused
from .freezing import freeze as freeze
from .freezing import optimize_for_inference as optimize_for_inference
from .freezing import run_frozen_optimizations as run_frozen_optimizations
from .functions import ScriptFunction as ScriptFunction
from .futures import Future as Future
from .futures import fork as fork
from .futures import wait as wait
from .objects import RecursiveScriptClass as RecursiveScriptClass
from .runtime import enable_onednn_fusion as enable_onednn_fusion
from .runtime import export_opnames as export_opnames
from .runtime import fuser as fuser
from .runtime import onednn_fusion_enabled as onednn_fusion_enabled
from .runtime import optimized_execution as optimized_execution
from .runtime import set_autodiff_subgraph_inlining as set_autodiff_subgraph_inlining
from .runtime import set_fusion_strategy as set_fusion_strategy
from .runtime import set_profiling_executor as set_profiling_executor
from .runtime import set_profiling_mode as set_profiling_mode
from .runtime import strict_fusion as strict_fusion
from .scripting import script as script
from .scripting import script_method as script_method
from .tracing import TracingCheckError as TracingCheckError
from .tracing import trace as trace
from .tracing import trace_module as trace_module
from .unit import CompilationUnit as CompilationUnit

def __getattr__(name: str) -> Any: ...
