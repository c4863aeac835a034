"""finfo and iinfo, memory formats, storages and element functions, as torch has them."""

from __future__ import annotations

import pickle
import warnings

import pytest
import rushlight

torch = pytest.importorskip("torch")

FLOATS = ["float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"]
FLOATS += ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
INTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("name", FLOATS)
def test_finfo(name: str) -> None:
    want, got = torch.finfo(getattr(torch, name)), rushlight.finfo(getattr(rushlight, name))
    for field in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
        assert getattr(got, field) == getattr(want, field), field
    assert str(got) == str(want)
    assert rushlight.finfo(getattr(torch, name)) == got and rushlight.finfo() == rushlight.finfo(
        rushlight.float32
    )


@pytest.mark.parametrize("name", INTS)
def test_iinfo(name: str) -> None:
    want, got = torch.iinfo(getattr(torch, name)), rushlight.iinfo(getattr(rushlight, name))
    assert (got.bits, got.min, got.max, got.dtype) == (want.bits, want.min, want.max, want.dtype)
    assert str(got) == str(want)


def test_what_has_no_limits() -> None:
    for call in (
        lambda: rushlight.finfo(rushlight.int32),
        lambda: rushlight.iinfo(rushlight.float32),
    ):
        with pytest.raises(TypeError, match="requires"):
            call()
    with pytest.raises(TypeError):
        rushlight.iinfo(rushlight.bool)


@pytest.mark.parametrize("name", ["contiguous_format", "channels_last", "preserve_format"])
def test_memory_formats(name: str) -> None:
    x = rushlight.randn(2, 3, 4, 5)
    theirs = torch.randn(2, 3, 4, 5)
    kind, want = getattr(rushlight, name), getattr(torch, name)
    assert str(kind) == f"rushlight.{name}" and isinstance(kind, rushlight.memory_format)
    assert pickle.loads(pickle.dumps(kind)) == kind
    assert x.clone(memory_format=kind).stride() == theirs.clone(memory_format=want).stride()
    if name != "preserve_format":
        made = x.contiguous(memory_format=kind)
        assert made.stride() == theirs.contiguous(memory_format=want).stride()
        assert (
            made.is_contiguous(memory_format=kind)
            and made.dim_order() == theirs.contiguous(memory_format=want).dim_order()
        )
    assert rushlight.empty(2, 3, 4, 5, memory_format=rushlight.channels_last).is_contiguous(
        memory_format=torch.channels_last
    )
    assert x.to(memory_format=rushlight.channels_last).stride() == (60, 1, 15, 3)


def test_storages() -> None:
    x, theirs = (
        rushlight.arange(6, dtype=rushlight.float32).view(2, 3),
        torch.arange(6.0).view(2, 3),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for a, b in (
            (x[1:].storage(), theirs[1:].storage()),
            (x[1:].untyped_storage(), theirs[1:].untyped_storage()),
        ):
            assert (
                len(a) == len(b) == a.size()
                and a.tolist() == b.tolist()
                and a.nbytes() == b.nbytes() == 24
            )
            assert a[4] == b[4] and a.element_size() == b.element_size() and list(a) == list(b)
            with pytest.raises(IndexError):
                a[len(a)]
        storage = x.t().storage()
        storage[1] = 7.0
        assert (
            x[0, 1] == 7
            and storage.data_ptr() == x.data_ptr()
            and storage.dtype == rushlight.float32
        )
        assert x.untyped_storage().clone().fill_(0).tolist() == [0] * 24 and x[0, 1] == 7
        assert "TypedStorage(dtype=rushlight.float32, device=cpu) of size 6" in repr(storage)
    for attribute in ("is_meta", "name"):
        assert getattr(x, attribute) == getattr(theirs, attribute)
    assert x.is_shared() is False and x.const_data_ptr() == x.data_ptr()


def test_functions_of_elements() -> None:
    x, theirs = rushlight.arange(6).view(2, 3), torch.arange(6).view(2, 3)
    assert (
        x.map_(rushlight.ones(3), lambda a, b: a * 2 + int(b)).tolist()
        == theirs.mul(2).add(1).tolist()
    )
    assert (
        x.map2_(x, rushlight.zeros(2, 1), lambda a, b, c: a + b).tolist()
        == theirs.mul(2).add(1).mul(2).tolist()
    )
    assert x.apply_(lambda a: -a)[0, 1] == -6
    y = torch.zeros(2, 3)
    y.map_(torch.ones(2, 3), lambda a, b: a + b)
    assert (
        rushlight.zeros(2, 3).map_(rushlight.ones(2, 3), lambda a, b: a + b).tolist() == y.tolist()
    )


def test_what_a_tensor_of_torch_has_is_there() -> None:
    """Names that are missing are known, each with its reason."""
    missing = {
        "as_subclass", "eig", "grad_dtype", "grad_fn", "ipu", "layout", "lstsq", "lu",
        "module_load", "mtia", "new",
        "register_hook", "register_post_accumulate_grad_hook", "reinforce", "share_memory_",
        "solve", "storage_type", "symeig", "to_sparse_coo", "volatile", "xpu",
    }  # fmt: skip
    x = rushlight.zeros(2, 3)
    lacks = set()
    for name in dir(torch.Tensor):
        try:
            getattr(x, name)
        except AttributeError:
            lacks.add(name)
        except (RuntimeError, NotImplementedError, TypeError):
            pass  # it is there and refuses this tensor
    assert {name for name in lacks if not name.startswith("_")} - missing == set()


def test_distances_of_close_rows_keep_their_digits() -> None:
    """Through a product they would be differences of large numbers."""
    torch.manual_seed(0)
    x = torch.randn(40, 33) * 100
    y = x[:30] + 1e-3
    want = torch.cdist(x.double(), y.double())
    got = rushlight.ops.aten.cdist(x, y, 2.0)
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-6)
    assert rushlight.ops.aten.cdist(x, x, 2.0).diagonal().eq(0).all()
    y[3] = float("inf")
    got = rushlight.ops.aten.cdist(x, y, 2.0)
    assert torch.equal(got.isfinite(), torch.cdist(x, y).isfinite())
    want = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").double()
    direct = rushlight.ops.aten.cdist(x, y, 2.0, 2)
    torch.testing.assert_close(direct.double(), want, rtol=1e-5, atol=1e-6)
