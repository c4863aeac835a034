"""Arguments that lie about a tensor's geometry: refused as PyTorch refuses them, or computed as it
computes them.

A row is an operator and its arguments.  REFUSED: PyTorch's class, and its words up to the first
number or bracket. COMPUTED: PyTorch's result.  OURS: PyTorch crashes, or reads what is not there,
so the words are ours.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import rushlight

torch = pytest.importorskip("torch")

MOST, LEAST = 2**63 - 1, -(2**63)
NAN, INF = float("nan"), float("inf")

Row = tuple[str, tuple[Any, ...]]


def ones(*sizes: int) -> Any:
    return torch.ones(*sizes)


def ramp(*sizes: int) -> Any:
    return torch.arange(float(torch.Size(sizes).numel())).reshape(sizes)


def longs(*numbers: int) -> Any:
    return torch.tensor(numbers, dtype=torch.long)


GROUP_NORM = [
    (ones(*sizes), None, None, n, c, plane, groups, 1e-5)
    for sizes, n, c, plane, groups in (
        ((2, 4, 3), 3, 4, 3, 2),
        ((2, 4, 3), 2, 4, 4, 2),
        ((4,), 4096, 1, 1, 1),
        ((16,), 8, 1, 4, 1),
        ((2, 4, 3), 2, 4, 3, 0),
        ((2, 4, 3), 2, 4, 3, -1),
        ((2, 4, 3), 2, 4, 3, 3),
        ((2, 4, 3), 2, 4, 3, 2**40),
    )
]

REFUSED: list[Row] = [
    *(("native_group_norm", args) for args in GROUP_NORM),
    *(
        ("linear", (ones(*x), ones(4, 5), ones(*bias)))
        for x, bias in (
            ((3, 5), (3,)),
            ((3, 5), (2, 4)),
            ((3, 5), (1, 3, 4)),
            ((5,), (3, 4)),
            ((2, 3, 5), (3,)),
            ((2, 3, 5), (6, 4)),
            ((2, 3, 5), (2, 2, 3, 4)),
        )
    ),
    (
        "native_batch_norm",
        (ones(2, 4, 3), None, None, torch.zeros(1, 4), ones(1, 4), True, 0.1, 1e-5),
    ),
    # pads
    ("_pad_circular", (torch.tensor(1.0), [])),
    ("_pad_circular", (ones(2, 3, 4), [])),
    ("_pad_circular", (ones(3), [1, 1])),
    ("_pad_circular", (ones(2, 3, 4), [5, 0])),
    ("_pad_circular", (ones(2, 3, 4), [-5, 0])),
    ("_pad_circular", (ones(2, 3, 4), [MOST, 0])),
    ("constant_pad_nd", (ones(2, 3), [1])),
    ("constant_pad_nd", (torch.tensor(1.0), [1, 1])),
    ("reflection_pad1d", (ones(2, 3, 4), [4, 0])),
    ("reflection_pad1d", (ones(2, 3, 4), [-4, 0])),
    ("replication_pad1d", (torch.tensor(1.0), [1, 1])),
    ("replication_pad1d", (ones(2, 3, 4), [])),
    ("_pad_enum", (ramp(8, 1), [3, -2], 2, None)),
    ("_pad_enum", (ramp(1, 4), [1, 1], 4, None)),
    # resizing
    ("upsample_nearest1d", (ones(1, 1, 3), [2305843009213693953], None)),
    ("upsample_linear1d", (ones(1, 1, 3), [2305843009213693953], False, None)),
    ("upsample_nearest1d", (ones(1, 1, 3), [0], None)),
    ("upsample_nearest1d_backward", (ones(1, 1, 4), [4], [1, 1, 0], None)),
    # packed sequences
    ("_pad_packed_sequence", (ones(6, 4), longs(-1, 0, 1, 3), False, 0.0, 65536)),
    ("_pad_packed_sequence", (ones(6, 4), longs(3, 2, 1), False, 0.0, 2)),
    # pools
    ("max_pool2d", (ones(1, 1, 4, 4), [2**40])),
    ("max_pool2d", (ones(1, 1, 4, 4), [2], [2**40])),
    ("max_unpool2d", (ones(1, 1, 4, 4), torch.full((1, 1, 4, 4), 9), [3, 3])),
    ("max_unpool2d", (ones(1, 1, 4, 4), torch.full((1, 1, 2, 8), 0), [3, 3])),
    ("max_unpool2d", (ones(1, 1, 4, 4), torch.full((1, 1, 4, 4), 0), [-2, -3])),
    ("_adaptive_avg_pool2d_backward", (ones(1, 1, 0, 2), ones(1, 1, 4, 4))),
    # convolutions
    ("conv2d", (ones(1, 1, 4, 4), ones(1, 1, 3, 3), None, [1, 1], [0, 0], [2**40, 2**40])),
    # transforms
    ("_fft_c2r", (torch.ones(3, 4, dtype=torch.complex64), [], 0, 4)),
    ("_fft_r2c", (ones(3, 4), [], 0, True)),
    # quantization
    (
        "fake_quantize_per_tensor_affine.tensor_qparams",
        (ones(3), ones(0), torch.zeros(0, dtype=torch.int32), 0, 5),
    ),
    (
        "fake_quantize_per_tensor_affine.tensor_qparams",
        (ones(3), ones(2), torch.zeros(1, dtype=torch.int32), 0, 5),
    ),
    (
        "fake_quantize_per_channel_affine",
        (ones(3), ones(2), torch.zeros(1, dtype=torch.int32), 0, 0, 5),
    ),
    (
        "fake_quantize_per_channel_affine",
        (ones(3), ones(0), torch.zeros(0, dtype=torch.int32), 0, 0, 5),
    ),
    (
        "fake_quantize_per_channel_affine",
        (ones(3), ones(3), torch.zeros(3, dtype=torch.int32), 1, 0, 5),
    ),
]

COMPUTED: list[Row] = [
    *(
        ("linear", (ramp(*x) / 9, ramp(4, 5), ramp(*bias)))
        for x, bias in (
            ((3, 5), (3, 4)),
            ((3, 5), (3, 1)),
            ((3, 5), (1, 1)),
            ((2, 3, 5), (3, 4)),
            ((2, 3, 5), (2, 1, 4)),
            ((2, 2, 3, 5), (2, 1, 3, 4)),
            ((2, 0, 5), (2, 1, 4)),
        )
    ),
    ("native_group_norm", (ramp(2, 4, 3), None, None, 4, 2, 3, 2, 1e-5)),
    ("_pad_circular", (ramp(2, 3, 4), [-4, 0])),
    ("_pad_circular", (ones(2, 3, 0), [0, 0])),
    ("constant_pad_nd", (ramp(2, 3), [-3, 0])),
    ("constant_pad_nd", (ramp(2, 3), [3, -2])),
    ("replication_pad1d", (ramp(1, 8, 1), [3, -2])),
    ("replication_pad1d", (ramp(1, 8, 4), [-5, 3])),
    ("replication_pad1d", (ramp(1, 8, 4), [3, -5])),
    ("reflection_pad1d", (ramp(2, 3, 4), [-3, 3])),
    ("reflection_pad1d", (ramp(2, 3, 4), [3, -3])),
    *(("_pad_enum", (ramp(1, 4), [1, 1], mode, None)) for mode in range(4)),
    ("upsample_nearest1d", (ramp(1, 1, 3), [4], INF)),
    ("upsample_nearest1d", (ones(0, 1, 3), [4], None)),
    ("upsample_linear1d", (ramp(1, 1, 3), [4], False, INF)),
    ("conv2d", (ramp(1, 1, 1, 1), ones(1, 1, 1, 1), None, [100, 100], [10, 10])),
    ("conv2d", (ramp(1, 1, 4, 4), ones(1, 1, 3, 3), None, [2**40, 2**40])),
    ("max_pool2d", (ramp(1, 1, 4, 4), [2**31 - 1, 2**31 - 1], [1, 1], [2**30 - 1, 2**30 - 1])),
    ("avg_pool2d", (ramp(1, 1, 4, 4), [2, 2], [2, 2], [0, 0], False, True, -1)),
    (
        "avg_pool2d_backward",
        (
            torch.full((1, 1, 2, 2), INF),
            ones(1, 1, 5, 5),
            [1, 1],
            [3, 3],
            [0, 0],
            False,
            True,
            None,
        ),
    ),
]

OURS: list[tuple[str, tuple[Any, ...], str]] = [
    ("constant_pad_nd", (ones(2, 3), [MOST, MOST]), "overflowed"),
    ("upsample_nearest1d_backward", (ones(1, 1, 4), [4], [1, 1, 2**62], None), "overflowed"),
    (
        "_pad_packed_sequence",
        (ones(6, 4), longs(3, -1, 4), False, 0.0, -1),
        "batch_sizes do not fit",
    ),
    (
        "_pad_packed_sequence",
        (ones(6, 4), longs(7, 2, 1), False, 0.0, -1),
        "batch_sizes do not fit",
    ),
    (
        "conv_transpose2d",
        (ones(1, 1, 4, 4), ones(1, 1, 3, 3), None, [2**40, 2**40]),
        "without overflow",
    ),
    (
        "as_strided",
        (torch.quantize_per_channel(ones(2, 3), ones(3), torch.zeros(3), 1, torch.qint8), [6], [1]),
        "quantized per channel",
    ),
    ("reflection_pad1d", (ones(2, 3, 4), [MOST, MOST]), "Padding size should be less"),
    ("reflection_pad1d", (ones(1, 8, 1), [0, -2]), "negative output size"),
    ("native_group_norm", (ones(2, 4, 3), None, None, 2**62, 4, 4, 2, 1e-5), "Expected X.numel"),
]


def call(space: Any, name: str, args: tuple[Any, ...]) -> Any:
    operator, _, overload = name.partition(".")
    found = getattr(space, operator)
    return getattr(found, overload)(*args) if overload else found(*args)


def refusal(space: Any, name: str, args: tuple[Any, ...]) -> Exception | None:
    try:
        call(space, name, args)
    except Exception as error:
        return error
    return None


def opening(error: Exception | None) -> str:
    """The words before the first number or bracket, without the operator's name in front."""
    return re.split(r"[\d\[(]", re.sub(r"^[a-z_0-9]+\(\):? ?", "", str(error).split("\n")[0]))[
        0
    ].strip()


def name_of(row: tuple[Any, ...]) -> str:
    return row[0] + str([tuple(a.shape) if isinstance(a, torch.Tensor) else a for a in row[1]])


@pytest.mark.parametrize("row", REFUSED, ids=name_of)
def test_a_geometry_that_does_not_fit_is_refused_in_pytorchs_words(row: Row) -> None:
    want, got = refusal(torch.ops.aten, *row), refusal(rushlight.ops.aten, *row)
    assert (type(got).__name__, opening(got)) == (type(want).__name__, opening(want)), (want, got)


@pytest.mark.parametrize("row", COMPUTED, ids=name_of)
def test_a_geometry_that_is_only_odd_is_computed(row: Row) -> None:
    want, got = call(torch.ops.aten, *row), call(rushlight.ops.aten, *row)
    want, got = (x if isinstance(x, (tuple, list)) else [x] for x in (want, got))
    for theirs, mine in zip(want, got, strict=True):
        torch.testing.assert_close(mine, theirs, equal_nan=True)


@pytest.mark.parametrize("row", OURS, ids=name_of)
def test_what_pytorch_does_not_survive_is_refused(row: tuple[str, tuple[Any, ...], str]) -> None:
    got = refusal(rushlight.ops.aten, row[0], row[1])
    if got is None and row[0] == "as_strided":
        got = refusal(rushlight.ops.aten, "dequantize", (call(rushlight.ops.aten, row[0], row[1]),))
    assert isinstance(got, (RuntimeError, MemoryError)), got
    assert row[2] in str(got)
