"""torch's functions that the operator table has."""

# mypy: disable-error-code="overload-overlap, overload-cannot-match"
# (An operator's overloads are tried in order, as in PyTorch: a later one may take what an earlier one takes.)

import builtins
from collections.abc import Sequence
from typing import Any, overload  # noqa: F401 -- the functions use both

from . import return_types as _results  # noqa: F401
from ._rushlight import Tensor, dtype
from .kinds import Size as Size
from .kinds import device as device
from .numerics import finfo as finfo
from .numerics import iinfo as iinfo
from .numerics import memory_format as memory_format

_bool = builtins.bool
_int = builtins.int
_float = builtins.float
_complex = builtins.complex
_str = builtins.str
_list = builtins.list
_number = builtins.complex  # and what it stands for: float, int, bool
_dtype = dtype
_Sizes = _int | Sequence[_int]

pi: _float
e: _float
inf: _float
nan: _float
newaxis: None
contiguous_format: memory_format
preserve_format: memory_format
channels_last: memory_format
channels_last_3d: memory_format
float: _dtype
double: _dtype
half: _dtype
int: _dtype
long: _dtype
short: _dtype
cfloat: _dtype
cdouble: _dtype
chalf: _dtype

NAMES: frozenset[_str]

def find(name: _str) -> Any: ...
def from_numpy(ndarray: Any) -> Tensor: ...
def asarray(obj: Any, *, dtype: Any = None, copy: _bool | None = None) -> Tensor: ...
def is_tensor(obj: Any) -> _bool: ...
def broadcast_shapes(*shapes: _Sizes) -> Size: ...
def tensordot(a: Any, b: Any, dims: Any = 2) -> Tensor: ...
def get_default_dtype() -> _dtype: ...
def set_default_dtype(d: Any, /) -> None: ...
def norm(
    input: Any, p: Any = "fro", dim: Any = None, keepdim: _bool = False, dtype: Any = None
) -> Tensor: ...
def unique(
    input: Any,
    sorted: _bool = True,
    return_inverse: _bool = False,
    return_counts: _bool = False,
    dim: _int | None = None,
) -> Any: ...
def unique_consecutive(
    input: Any, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None
) -> Any: ...
def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: _str = ...) -> tuple[Tensor, ...]: ...
def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def block_diag(*tensors: Tensor | Sequence[Tensor]) -> Tensor: ...
def cartesian_prod(*tensors: Tensor | Sequence[Tensor]) -> Tensor: ...
def chain_matmul(*matrices: Tensor | Sequence[Tensor]) -> Tensor: ...
def einsum(equation: _str, *operands: Tensor | Sequence[Tensor]) -> Tensor: ...

# FUNCTIONS
