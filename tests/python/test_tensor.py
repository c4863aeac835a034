"""Tensors of the Python module: making, printing, sharing memory with others.  Needs numpy, not
torch."""

from __future__ import annotations

import array

import pytest
import rushlight

np = pytest.importorskip("numpy")


def test_numbers_become_the_dtype_pytorch_gives_them() -> None:
    assert rushlight.tensor([[1, 2], [3, 4]]).dtype == rushlight.int64
    assert rushlight.tensor([1, 2.5]).dtype == rushlight.float32
    assert rushlight.tensor([1, 2.5]).tolist() == [1.0, 2.5]
    assert rushlight.tensor([True, 2]).tolist() == [1, 2]
    assert rushlight.tensor(2j).dtype == rushlight.complex64
    assert rushlight.tensor([]).dtype == rushlight.float32
    assert rushlight.tensor([0.1], dtype=rushlight.float64).item() == 0.1


def test_prints_as_pytorch() -> None:
    assert repr(rushlight.tensor([[1, 2], [3, 4]])) == "tensor([[1, 2],\n        [3, 4]])"
    assert repr(rushlight.tensor([1.0, 2.5])) == "tensor([1.0000, 2.5000])"
    assert repr(rushlight.tensor(True)) == "tensor(True)"
    assert repr(rushlight.float32) == "rushlight.float32"


def test_arithmetic_and_indexing() -> None:
    x = rushlight.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert (x + 1).tolist() == [[2.0, 3.0], [4.0, 5.0]]
    assert (2 * x - x / 2)[1, 0].item() == 4.5
    assert (10 - x).tolist() == [[9.0, 8.0], [7.0, 6.0]]
    assert (x @ x).tolist() == [[7.0, 10.0], [15.0, 22.0]]
    assert x[..., 1].tolist() == [2.0, 4.0]
    assert x[:, None].shape == (2, 1, 2)
    assert x[x > 2].tolist() == [3.0, 4.0]
    assert x.T.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert x.sum(1).tolist() == [3.0, 7.0]
    assert len(x) == 2 and float(x.max()) == 4.0 and bool((x > 0).all())
    with pytest.raises(AttributeError, match="no operator aten::no_such"):
        x.no_such()


def test_numpy_shares_memory_both_ways() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    t = rushlight.as_tensor(a)
    t += 1
    assert a[0, 0] == 1.0
    back = t.numpy()
    assert back.ctypes.data == a.ctypes.data and back.shape == (2, 3)
    back[1, 2] = 100
    assert t[1, 2].item() == 100.0
    turned = rushlight.as_tensor(a.T)
    assert turned.stride() == (1, 3) and turned.tolist() == a.T.tolist()


def test_memory_lives_as_long_as_someone_looks() -> None:
    a = rushlight.as_tensor(np.full(1000, 7.0)).numpy()
    assert a.sum() == 7000.0
    t = rushlight.as_tensor(np.ones(10))
    view = memoryview(t)
    del t
    assert view.format == "d" and view[3] == 1.0


def test_other_buffers() -> None:
    assert rushlight.as_tensor(array.array("i", [1, 2, 3])).tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="can't convert np.ndarray of type numpy.str_"):
        rushlight.as_tensor(np.array(["text"]))
    with pytest.raises(ValueError, match="negative"):
        rushlight.as_tensor(np.arange(4)[::-1])


def test_dlpack_both_ways() -> None:
    a = np.arange(4, dtype=np.int32)
    t = rushlight.from_dlpack(a)
    a[0] = 9
    assert t.tolist() == [9, 1, 2, 3]
    out = np.from_dlpack(t)
    assert out.ctypes.data == a.ctypes.data
    assert t.__dlpack_device__() == (1, 0)
    capsule = t.__dlpack__()
    del capsule  # unused: its tensor is released


def test_operators_by_name() -> None:
    aten = rushlight.ops.aten
    x = rushlight.tensor([3.0, 1.0, 2.0])
    assert aten.add(x, x, alpha=2).tolist() == [9.0, 3.0, 6.0]
    assert aten.add.Tensor(x, x).tolist() == [6.0, 2.0, 4.0]
    values, indices = aten.sort(x)
    assert values.tolist() == [1.0, 2.0, 3.0] and indices.tolist() == [1, 2, 0]
    assert repr(aten.add.Tensor) == "<operator aten::add.Tensor>"
    with pytest.raises(AttributeError):
        aten.no_such_operator  # noqa: B018
    with pytest.raises(AttributeError):
        aten.add.NoSuchOverload  # noqa: B018


def test_results_follow_the_arguments() -> None:
    a = np.ones(3, dtype=np.float32)
    assert isinstance(rushlight.ops.aten.neg(a), np.ndarray)
    assert isinstance(rushlight.ops.aten.neg(rushlight.as_tensor(a)), rushlight.Tensor)


def test_in_place_returns_the_same_object() -> None:
    a = np.ones(3, dtype=np.float32)
    assert rushlight.ops.aten.add_(a, 1) is a and a.tolist() == [2.0, 2.0, 2.0]
    t = rushlight.tensor([1.0])
    assert rushlight.ops.aten.relu_(t) is t


def test_errors_have_pythons_classes() -> None:
    x = rushlight.tensor([1.0, 2.0])
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.sum(5)
    with pytest.raises(RuntimeError, match="size"):
        x + rushlight.tensor([1.0, 2.0, 3.0])
    with pytest.raises(OverflowError):
        x + 2**70
    with pytest.raises(TypeError, match="object"):
        rushlight.ops.aten.add(x, object())
    with pytest.raises(TypeError):
        len(rushlight.tensor(1))


def test_seed_repeats() -> None:
    rushlight.manual_seed(3)
    first = rushlight.ops.aten.rand([4])
    rushlight.manual_seed(3)
    second = rushlight.ops.aten.rand([4])
    assert np.asarray(first).tolist() == np.asarray(second).tolist()


def test_settings() -> None:
    before = rushlight.get_num_threads()
    rushlight.set_num_threads(1)
    assert rushlight.get_num_threads() == 1
    rushlight.set_num_threads(before)
    with pytest.raises(ValueError, match="threads"):
        rushlight.set_num_threads(0)
    assert rushlight.memory_stats()["peak_bytes"] >= rushlight.memory_stats()["live_bytes"] >= 0
    rushlight.empty_cache()
    rushlight.reset_peak_memory_stats()
    assert rushlight.memory_stats()["cached_bytes"] < 1 << 20


@pytest.mark.parametrize(
    "dtype",
    ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "complex32"],
)
def test_dtypes_that_numpy_lacks_are_refused_and_the_conversion_is_named(dtype: str) -> None:
    x = rushlight.tensor([1.0, 2.0], dtype=dtype)
    for convert in (
        x.numpy,
        lambda: np.asarray(x),
        lambda: np.array(x),
        lambda: np.asarray(x, dtype=np.float32),
    ):
        with pytest.raises(
            TypeError,
            match=f"Got unsupported ScalarType {dtype}.*convert first, as in x.(float|to)",
        ):
            convert()
    with pytest.raises(BufferError):
        memoryview(x)


def test_results_that_numpy_lacks_are_ours() -> None:
    made = rushlight.CompilationUnit("def f(x: Tensor):\n    return x.to(torch.bfloat16), x\n").f(
        np.ones(2, np.float32)
    )
    assert (
        isinstance(made[0], rushlight.Tensor)
        and made[0].dtype == rushlight.bfloat16
        and isinstance(made[1], np.ndarray)
    )


def test_numpy_converts_what_it_knows() -> None:
    x = rushlight.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert (
        np.asarray(x, dtype=np.int32).tolist() == [[1, 2], [3, 4]]
        and x.__array__().tolist() == x.tolist()
    )
    assert np.add(x, 1).tolist() == [[2.0, 3.0], [4.0, 5.0]]
    assert rushlight.tensor([1.0], dtype="bfloat16").float().numpy().tolist() == [1.0]
