"""Open PyTorch programs and run them, without PyTorch."""

import builtins
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from typing import Any, BinaryIO

from typing_extensions import Self

from . import export as export
from . import ir as ir
from . import jit as jit
from . import library as library
from . import ops as ops
from . import optim as optim
from . import profiler as profiler
from ._rushlight import Block as Block
from ._rushlight import Cancel as Cancel
from ._rushlight import Cancelled as Cancelled
from ._rushlight import EnumValue as EnumValue
from ._rushlight import Error as Error
from ._rushlight import Graph as Graph
from ._rushlight import Module as _Module
from ._rushlight import Node as Node
from ._rushlight import ScriptMethod as ScriptMethod
from ._rushlight import ScriptObject as ScriptObject
from ._rushlight import Tensor as Tensor
from ._rushlight import Value as Value
from ._rushlight import __version__ as __version__
from ._rushlight import as_tensor as as_tensor
from ._rushlight import bfloat16 as bfloat16
from ._rushlight import bool as bool
from ._rushlight import compile_counters as compile_counters
from ._rushlight import complex32 as complex32
from ._rushlight import complex64 as complex64
from ._rushlight import complex128 as complex128
from ._rushlight import dtype as dtype
from ._rushlight import empty_cache as empty_cache
from ._rushlight import float8_e4m3fn as float8_e4m3fn
from ._rushlight import float8_e4m3fnuz as float8_e4m3fnuz
from ._rushlight import float8_e5m2 as float8_e5m2
from ._rushlight import float8_e5m2fnuz as float8_e5m2fnuz
from ._rushlight import float16 as float16
from ._rushlight import float32 as float32
from ._rushlight import float64 as float64
from ._rushlight import from_dlpack as from_dlpack
from ._rushlight import get_cpu as get_cpu
from ._rushlight import get_executor as get_executor
from ._rushlight import get_num_threads as get_num_threads
from ._rushlight import get_rng_state as get_rng_state
from ._rushlight import int8 as int8
from ._rushlight import int16 as int16
from ._rushlight import int32 as int32
from ._rushlight import int64 as int64
from ._rushlight import load_value as load_value
from ._rushlight import manual_seed as manual_seed
from ._rushlight import memory_stats as memory_stats
from ._rushlight import parse_ir as parse_ir
from ._rushlight import qint8 as qint8
from ._rushlight import qint32 as qint32
from ._rushlight import quint4x2 as quint4x2
from ._rushlight import quint8 as quint8
from ._rushlight import reset_peak_memory_stats as reset_peak_memory_stats
from ._rushlight import save_value as save_value
from ._rushlight import set_cpu as set_cpu
from ._rushlight import set_executor as set_executor
from ._rushlight import set_num_threads as set_num_threads
from ._rushlight import set_rng_state as set_rng_state
from ._rushlight import tensor as tensor
from ._rushlight import uint8 as uint8
from ._rushlight import uint16 as uint16
from ._rushlight import uint32 as uint32
from ._rushlight import uint64 as uint64
from .functions import *  # noqa: F403
from .grad_mode import enable_grad as enable_grad
from .grad_mode import inference_mode as inference_mode
from .grad_mode import is_grad_enabled as is_grad_enabled
from .grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from .grad_mode import no_grad as no_grad
from .grad_mode import set_grad_enabled as set_grad_enabled
from .jit import Attribute as Attribute
from .jit import CompilationUnit as CompilationUnit
from .jit import Final as Final
from .jit import Future as Future
from .jit import RecursiveScriptClass as RecursiveScriptClass
from .jit import ScriptFunction as ScriptFunction
from .jit import TracingCheckError as TracingCheckError
from .jit import annotate as annotate
from .jit import enable_onednn_fusion as enable_onednn_fusion
from .jit import export_opnames as export_opnames
from .jit import fork as fork
from .jit import freeze as freeze
from .jit import fuser as fuser
from .jit import ignore as ignore
from .jit import interface as interface
from .jit import is_scripting as is_scripting
from .jit import is_tracing as is_tracing
from .jit import onednn_fusion_enabled as onednn_fusion_enabled
from .jit import optimize_for_inference as optimize_for_inference
from .jit import optimized_execution as optimized_execution
from .jit import run_frozen_optimizations as run_frozen_optimizations
from .jit import script as script
from .jit import script_if_tracing as script_if_tracing
from .jit import script_method as script_method
from .jit import set_fusion_strategy as set_fusion_strategy
from .jit import strict_fusion as strict_fusion
from .jit import trace as trace
from .jit import trace_module as trace_module
from .jit import unused as unused
from .jit import wait as wait
from .kinds import layout as layout
from .kinds import sparse_coo as sparse_coo
from .kinds import sparse_csr as sparse_csr
from .kinds import strided as strided
from .ops import load_library as load_library
from .outputs import BoundOutputs
from .pytree import register_dataclass as register_dataclass
from .pytree import register_namedtuple as register_namedtuple
from .pytree import register_pytree_node as register_pytree_node
from .recording import record as record
from .recording import record_calls as record_calls
from .signature import Input, Output

# Names that are hidden by a dtype of the same name.
_bool = builtins.bool
_int = builtins.int
_float = builtins.float
_dtype = dtype

class ScriptModule(_Module):
    """A program with its state: what `load` and `script` return."""

    def __init__(self) -> None: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def _named(self, kind: _int) -> Iterator[tuple[str, Any]]: ...
    def named_children(self) -> Iterator[tuple[str, ScriptModule]]: ...
    def children(self) -> Iterator[ScriptModule]: ...
    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: _bool = True
    ) -> Iterator[tuple[str, ScriptModule]]: ...
    def modules(self) -> Iterator[ScriptModule]: ...
    def _members(self, kind: _int, prefix: str, recurse: _bool) -> Iterator[tuple[str, Any]]: ...
    def named_parameters(
        self, prefix: str = "", recurse: _bool = True
    ) -> Iterator[tuple[str, Any]]: ...
    def parameters(self, recurse: _bool = True) -> Iterator[Any]: ...
    def named_buffers(
        self, prefix: str = "", recurse: _bool = True
    ) -> Iterator[tuple[str, Any]]: ...
    def buffers(self, recurse: _bool = True) -> Iterator[Any]: ...
    def get_submodule(self, target: str) -> Any: ...
    def get_parameter(self, target: str) -> Any: ...
    def get_buffer(self, target: str) -> Any: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any], strict: _bool = True) -> None: ...
    def zero_grad(self, set_to_none: _bool = True) -> None: ...
    def to(self, *args: Any, **kwargs: Any) -> Self: ...
    def float(self) -> Self: ...
    def double(self) -> Self: ...
    def half(self) -> Self: ...
    def bfloat16(self) -> Self: ...
    def cpu(self) -> Self: ...
    def cuda(self, device: Any = None) -> Self: ...
    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: _bool = False,
        with_kwargs: _bool = False,
        always_call: _bool = False,
    ) -> Any: ...
    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: _bool = False, with_kwargs: _bool = False
    ) -> Any: ...
    def train(self, mode: _bool = True) -> Self: ...
    def eval(self) -> Self: ...
    def apply(self, fn: Callable[[Any], Any]) -> Self: ...
    def requires_grad_(self, requires_grad: _bool = True) -> Self: ...
    @property
    def original_name(self) -> str: ...
    @property
    def inlined_graph(self) -> Any: ...
    def bind_outputs(self, *buffers: Any) -> BoundOutputs: ...
    def prepare(self, *args: Any, **kwargs: Any) -> None: ...
    inputs: list[Input]
    outputs: list[Output]
    def _method_names(self) -> list[str]: ...
    def _get_methods(self) -> list[Any]: ...
    @property
    def _rush_is_scripted(self) -> _bool: ...
    @property
    def _c(self) -> Any: ...
    def graph_for(self, *args: Any, **kwargs: Any) -> Any: ...
    def get_debug_state(self) -> Any: ...
    def define(self, src: str) -> None: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: dict[_int, Any]) -> Self: ...
    def __reduce_ex__(self, protocol: Any) -> Any: ...
    def _has(self, name: str) -> _bool: ...
    def _held(self, asked: str) -> list[tuple[str, Any]]: ...
    def __len__(self) -> _int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __contains__(self, item: Any) -> _bool: ...
    def __bool__(self) -> _bool: ...
    def __dir__(self) -> list[str]: ...
    def extra_repr(self) -> str: ...
    def __repr__(self) -> str: ...
    def save(self, f: str | PathLike[str], _extra_files: dict[str, Any] | None = None) -> None: ...
    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes: ...
    @property
    def code_with_constants(self) -> tuple[str, Any]: ...

class limits:
    def __init__(
        self,
        *,
        max_seconds: _float | None = None,
        max_bytes: _int | None = None,
        cancel: Cancel | None = None,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: Any, error: Any, where: Any) -> None: ...

def set_limits(*, max_seconds: _float | None = None, max_bytes: _int | None = None) -> None: ...
def load(
    f: str | PathLike[str] | bytes | BinaryIO,
    map_location: Any = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: _bool = False,
    *,
    check_full: _bool = False,
    copy: _bool = False,
    program: str | None = None,
) -> ScriptModule: ...
def save(
    m: Any, f: str | PathLike[str] | BinaryIO, _extra_files: dict[str, Any] | None = None
) -> None: ...
