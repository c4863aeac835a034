"""Tensors that cross the border to torch in other ways than by their memory.

Quantized ones are copied, with the quantizer's numbers; those of the device meta have none.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import _rushlight

_CHANNELS = (torch.per_channel_affine, torch.per_channel_symmetric, torch.per_channel_affine_float_qparams)


def from_torch(t: Any) -> Any:
    """Our tensor of a quantized one of torch's."""
    integers = _rushlight.as_tensor(t.int_repr())
    if t.qscheme() in _CHANNELS:
        scales, zeros = _rushlight.as_tensor(t.q_per_channel_scales()), _rushlight.as_tensor(t.q_per_channel_zero_points())
        axis = t.q_per_channel_axis()
        return _rushlight.call_operator("aten::_make_per_channel_quantized_tensor", integers, scales, zeros, axis)
    return _rushlight.call_operator("aten::_make_per_tensor_quantized_tensor", integers, t.q_scale(), t.q_zero_point())


def to_torch(t: Any) -> Any:
    """torch's tensor of our quantized one."""

    def call(name: str) -> Any:
        return _rushlight.call_operator(f"aten::{name}", t)

    integers = torch.from_dlpack(call("int_repr"))
    if call("qscheme") in (1, 3, 4):  # torch's numbers of _CHANNELS
        scales, zeros = (torch.from_dlpack(call(f"q_per_channel_{what}")) for what in ("scales", "zero_points"))
        return torch._make_per_channel_quantized_tensor(integers, scales, zeros, call("q_per_channel_axis"))
    return torch._make_per_tensor_quantized_tensor(integers, call("q_scale"), call("q_zero_point"))


def meta_to_torch(t: Any) -> Any:
    """torch's tensor of ours that has no data."""
    made = torch.empty_strided(tuple(t.shape), t.stride(), dtype=getattr(torch, str(t.dtype).rpartition(".")[2]), device="meta")
    return made.requires_grad_(t.requires_grad)
