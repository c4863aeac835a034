"""Open PyTorch programs and run them, without PyTorch."""

import builtins
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any, BinaryIO

from typing_extensions import Self

from . import jit as jit
from . import ops as ops
from . import profiler as profiler
from ._rushlight import EnumValue as EnumValue
from ._rushlight import Error as Error
from ._rushlight import Module as _Module
from ._rushlight import ScriptMethod as ScriptMethod
from ._rushlight import ScriptObject as ScriptObject
from ._rushlight import Tensor as Tensor
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
from ._rushlight import get_num_threads as get_num_threads
from ._rushlight import get_rng_state as get_rng_state
from ._rushlight import int8 as int8
from ._rushlight import int16 as int16
from ._rushlight import int32 as int32
from ._rushlight import int64 as int64
from ._rushlight import load_value as load_value
from ._rushlight import manual_seed as manual_seed
from ._rushlight import memory_stats as memory_stats
from ._rushlight import qint8 as qint8
from ._rushlight import qint32 as qint32
from ._rushlight import quint4x2 as quint4x2
from ._rushlight import quint8 as quint8
from ._rushlight import reset_peak_memory_stats as reset_peak_memory_stats
from ._rushlight import set_cpu as set_cpu
from ._rushlight import set_num_threads as set_num_threads
from ._rushlight import set_rng_state as set_rng_state
from ._rushlight import uint8 as uint8
from ._rushlight import uint16 as uint16
from ._rushlight import uint32 as uint32
from ._rushlight import uint64 as uint64
from .jit import Attribute as Attribute
from .jit import Final as Final
from .jit import ScriptFunction as ScriptFunction
from .jit import annotate as annotate
from .jit import export as export
from .jit import ignore as ignore
from .jit import interface as interface
from .jit import is_scripting as is_scripting
from .jit import is_tracing as is_tracing
from .jit import optimized_execution as optimized_execution
from .jit import script as script
from .jit import script_if_tracing as script_if_tracing
from .jit import set_fusion_strategy as set_fusion_strategy
from .jit import unused as unused

_bool = builtins.bool
_dtype = dtype

class ScriptModule(_Module):
    """A program loaded from an archive, with its state: what `load` returns."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any], strict: _bool = True) -> None: ...
    def named_parameters(self) -> Iterator[tuple[str, Any]]: ...
    def parameters(self) -> Iterator[Any]: ...
    def named_buffers(self) -> Iterator[tuple[str, Any]]: ...
    def buffers(self) -> Iterator[Any]: ...
    def train(self, mode: _bool = True) -> Self: ...
    def eval(self) -> Self: ...

def load(source: str | PathLike[str] | bytes | BinaryIO, *, check_full: _bool = False, copy: _bool = False) -> ScriptModule: ...
def tensor(data: Any, dtype: _dtype | None = None) -> Tensor: ...
