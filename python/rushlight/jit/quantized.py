"""Tensors that cannot be passed to and from torch by sharing their memory.

Quantized ones are copied, with the quantizer's parameters; those of the device meta have no data.
Sparse ones are rebuilt from their indices and values: values share memory.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import _rushlight

_CHANNELS = (
    torch.per_channel_affine,
    torch.per_channel_symmetric,
    torch.per_channel_affine_float_qparams,
)


def from_torch(t: Any) -> Any:
    """Return Rushlight's tensor for a quantized one of torch's."""
    integers = _rushlight.as_tensor(t.int_repr())
    if t.qscheme() in _CHANNELS:
        scales, zeros = (
            _rushlight.as_tensor(t.q_per_channel_scales()),
            _rushlight.as_tensor(t.q_per_channel_zero_points()),
        )
        axis = t.q_per_channel_axis()
        return _rushlight.call_operator(
            "aten::_make_per_channel_quantized_tensor", integers, scales, zeros, axis
        )
    return _rushlight.call_operator(
        "aten::_make_per_tensor_quantized_tensor", integers, t.q_scale(), t.q_zero_point()
    )


def to_torch(t: Any) -> Any:
    """Return torch's tensor for a quantized one."""

    def call(name: str) -> Any:
        return _rushlight.call_operator(f"aten::{name}", t)

    integers = torch.from_dlpack(call("int_repr"))
    if call("qscheme") in (1, 3, 4):  # torch's numbers of _CHANNELS
        scales, zeros = (
            torch.from_dlpack(call(f"q_per_channel_{what}")) for what in ("scales", "zero_points")
        )
        return torch._make_per_channel_quantized_tensor(
            integers, scales, zeros, call("q_per_channel_axis")
        )
    return torch._make_per_tensor_quantized_tensor(integers, call("q_scale"), call("q_zero_point"))


def meta_to_torch(t: Any) -> Any:
    """Return torch's tensor for one without data."""
    made = torch.empty_strided(
        tuple(t.shape),
        t.stride(),
        dtype=getattr(torch, str(t.dtype).rpartition(".")[2]),
        device="meta",
    )
    return made.requires_grad_(t.requires_grad)


def sparse_from_torch(t: Any) -> Any:
    """Return Rushlight's tensor for a sparse one of torch's."""
    call, t = _rushlight.call_operator, t.detach()
    if t.layout == torch.sparse_csr:
        crow, col = _rushlight.as_tensor(t.crow_indices()), _rushlight.as_tensor(t.col_indices())
        return call(
            "aten::_sparse_csr_tensor_unsafe",
            crow,
            col,
            _rushlight.as_tensor(t.values()),
            list(t.shape),
        )
    made = call(
        "aten::_sparse_coo_tensor_unsafe",
        _rushlight.as_tensor(t._indices()),
        _rushlight.as_tensor(t._values()),
        list(t.shape),
    )
    return call("aten::_coalesced_", made, True) if t.is_coalesced() else made


def sparse_to_torch(t: Any) -> Any:
    """Return torch's tensor for a sparse one."""

    def part(name: str) -> Any:
        made = _rushlight.call_operator(f"aten::{name}", t.detach())
        return torch.from_dlpack(
            _rushlight.call_operator("aten::clone", made) if "indices" in name else made
        )

    if t.is_sparse_csr:
        parts: tuple[Any, ...] = part("crow_indices"), part("col_indices"), part("values")
        made = torch.sparse_csr_tensor(*parts, size=tuple(t.shape), check_invariants=False)
    else:
        parts, is_coalesced = (
            (part("_indices"), part("_values")),
            _rushlight.call_operator("aten::is_coalesced", t),
        )
        made = torch.sparse_coo_tensor(
            *parts, size=tuple(t.shape), is_coalesced=is_coalesced, check_invariants=False
        )
    return made.requires_grad_(t.requires_grad)
