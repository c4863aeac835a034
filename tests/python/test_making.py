"""tensor() and as_tensor(): what is taken for data and for a dtype.  Compared with torch where it
is there."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import rushlight

np = pytest.importorskip("numpy")


@pytest.mark.parametrize("make", [rushlight.tensor, rushlight.as_tensor])
def test_dtypes_of_everybody_are_understood(make: Any) -> None:
    for dtype in (
        rushlight.float64,
        "float64",
        "torch.float64",
        np.float64,
        np.dtype("float64"),
        np.dtype("f8"),
        float,
    ):
        assert make([1, 2], dtype=dtype).dtype == rushlight.float64
        assert make([1, 2], dtype).tolist() == [1.0, 2.0]
        assert make(np.arange(2), dtype=dtype).dtype == rushlight.float64
    assert make([0, 2], dtype=bool).tolist() == [False, True]
    assert make([1], dtype=complex).dtype == rushlight.complex128
    assert make([1.5], dtype="bfloat16").dtype == rushlight.bfloat16
    assert make([1.5], dtype=None).dtype == rushlight.float32


def test_torch_dtypes_are_understood() -> None:
    torch = pytest.importorskip("torch")
    for name in (
        "uint8",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "complex64",
        "bool",
        "float8_e4m3fn",
    ):
        made = rushlight.tensor([1, 0], dtype=getattr(torch, name))
        assert made.dtype.name == name and repr(made) == repr(
            torch.tensor([1, 0], dtype=getattr(torch, name))
        )
    assert rushlight.as_tensor(torch.ones(2), dtype=torch.int32).tolist() == [1, 1]


@pytest.mark.parametrize("make", [rushlight.tensor, rushlight.as_tensor])
def test_what_is_no_dtype_is_refused(make: Any) -> None:
    wrong: list[Any] = [
        "nonsense",
        "",
        "f8",
        5,
        True,
        object,
        np.floating,
        np.dtype(">f4"),
        np.dtype("U3"),
        "datetime64",
        [1],
    ]
    torch = sys.modules.get("torch")
    if torch:
        wrong += [torch.strided, torch.channels_last, torch.bits8]
    for dtype in wrong:
        for data in ([1, 2], 1.5, np.arange(2)):
            with pytest.raises(
                TypeError, match="^dtype: expected a dtype of rushlight, torch or numpy, or a name"
            ):
                make(data, dtype=dtype)


def test_as_tensor_shares_memory_unless_the_dtype_differs() -> None:
    a = np.arange(3, dtype=np.float32)
    rushlight.as_tensor(a, dtype="float32")[0] = 7.0
    assert a[0] == 7.0
    rushlight.as_tensor(a, dtype="float64")[0] = 9.0
    rushlight.tensor(a, dtype="float32")[0] = 9.0
    rushlight.tensor(a)[0] = 9.0
    assert a[0] == 7.0


def test_a_copy_has_no_history() -> None:
    x = rushlight.tensor([1.0])
    x.requires_grad = True
    assert (
        not rushlight.tensor(x).requires_grad and not rushlight.tensor(x, "float64").requires_grad
    )


DATA: list[Any] = [
    2, True, 1.5, 2j, -(2**63), [], [[], []], [[[]]], (1, 2), range(3), [range(2), (3, 4)], [[True],
                                                                                             [1.5]],
                                                                                             [1,
                                                                                              2.5,
                                                                                              2j],
    np.float64(1.5), [np.float64(1.5)], [np.float32(1.5)], [np.float16(1), 2.0], [np.int8(1), 2],
    [np.int8(1), np.uint8(2)],
    [np.bool_(True)], [np.complex64(1)], [np.array([1.0, 2.0], np.float32), [3, 4]], np.float16(2),
]  # fmt: skip
BAD_DATA: list[Any] = [
    None,
    "a",
    b"a",
    ["a"],
    [1, None],
    {1: 2},
    {1, 2},
    object(),
    [object()],
    iter([1]),
    [[1, 2], [3]],
    [[1, 2], 3],
    [1, [2]],
    2**63,
    [2**63],
    [-(2**63) - 1],
    np.array(["a"]),
    np.array([None]),
]
CAST: list[tuple[Any, str]] = [
    ([-255], "uint8"),
    ([-256], "uint8"),
    ([300], "uint8"),
    ([128], "int8"),
    ([-129], "int8"),
    ([-1], "uint16"),
    ([65536], "uint16"),
    ([-1], "uint32"),
    ([2**32], "uint32"),
    ([300.0], "uint8"),
    ([-0.5], "uint8"),
    ([1.5], "uint64"),
    ([1j], "int32"),
    ([1j], "bool"),
    ([1j], "float16"),
    ([float("inf")], "int64"),
    ([float("nan")], "int32"),
    ([1e19], "int64"),
    ([2**70], "float32"),
    ([2**70], "bool"),
    ([2**70], "int8"),
    ([2**70], "complex64"),
    ([2**64 - 1], "uint64"),
    ([2**64], "uint64"),
    ([-1], "uint64"),
    ([1.9, -1.9], "int32"),
    ([0.1, 1e40, 70000.0], "float16"),
    ([0.1, 3e38], "bfloat16"),
    ([0.1, 448.0], "float8_e4m3fn"),
    ([0.1 + 2j], "complex32"),
    ([1], "qint8"),
]


def outcome(make: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        made = make(*args, **kwargs)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        return type(error)
    return (
        str(made.dtype).removeprefix("torch.").removeprefix("rushlight."),
        tuple(made.shape),
        repr(made),
    )


@pytest.mark.parametrize("data", DATA + BAD_DATA, ids=repr)
def test_data_is_read_as_pytorch_reads_it(data: Any) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = outcome(rushlight.tensor, data), outcome(torch.tensor, data)
    if any(data is bad for bad in BAD_DATA):
        assert isinstance(ours, type) and isinstance(theirs, type)
    else:
        assert ours == theirs


@pytest.mark.parametrize(("data", "dtype"), CAST, ids=repr)
def test_numbers_that_do_not_fit_are_refused_as_pytorch_refuses_them(data: Any, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    assert outcome(rushlight.tensor, data, dtype=dtype) == outcome(
        torch.tensor, data, dtype=getattr(torch, dtype)
    )


def test_rows_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected sequence of length 0 at dim 1 \(got 1\)"):
        rushlight.tensor([[], [1]])  # torch drops the 1


def test_lists_that_change_or_hold_themselves_are_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="nested more than 64 levels"):
        rushlight.tensor(endless)

    class Number(float):
        def __float__(self) -> float:
            items.clear()
            return 1.0

    items: list[Any] = [Number(1), Number(2), Number(3)]
    rushlight.tensor(items)  # whatever comes out: memory is not read behind the list


def test_operators_take_dtypes_of_numpy_and_python() -> None:
    assert rushlight.tensor([1]).to(np.float64).dtype == rushlight.float64
    assert rushlight.tensor([1]).new_zeros([2], dtype=np.dtype("int32")).dtype == rushlight.int32
    assert rushlight.tensor([1]).new_zeros([2], dtype=float).dtype == rushlight.float64
    with pytest.raises(TypeError, match="dtype: expected"):
        rushlight.ops.aten.zeros([2], dtype=object)
