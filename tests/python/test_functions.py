"""torch's functions and methods of the operator table: the same class, dtype, shape and values as
torch's."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import rushlight
from rushlight import functions

torch = pytest.importorskip("torch")

# `m` is torch or rushlight; x, y are matrices, v a vector, i integers, b booleans.
CALLS = """
m.zeros(2, 3)
m.zeros((2, 3), dtype=m.float64)
m.zeros(2, dtype=float)
m.zeros(2, device="cpu")
m.zeros(2, device=m.device("cpu"), requires_grad=True).requires_grad
m.zeros(0)
m.ones([2, 3], dtype=m.int32)
m.full((2,), 3)
m.full((2, 2), 1.5, dtype=m.half)
m.empty(2, 0)
m.arange(5)
m.arange(1, 2, 0.25)
m.arange(3.0)
m.linspace(0, 1, 5)
m.logspace(0, 1, 3)
m.eye(2)
m.eye(2, 3, dtype=m.long)
m.rand(2, 3).shape
m.randn((2,)).dtype
m.randint(10, (2,)).dtype
m.randint(1, 10, (2,), dtype=m.int32).shape
m.randperm(4).dtype
m.tril_indices(2, 2)
m.scalar_tensor(1.5)
m.zeros_like(x)
m.ones_like(x, dtype=m.int64)
m.full_like(x, 2)
m.empty_like(x).shape
m.cat([x, y], dim=0)
m.cat((x, y), axis=1)
m.stack((v, v), dim=1)
m.hstack([v, v])
m.where(b, v, v * 2)
m.where(b, 1, 0)
m.where(b)
m.max(x)
m.max(x, 1)
m.max(x, dim=0, keepdim=True).indices
m.max(x, y)
m.min(x, 1)
m.sort(v, descending=True)
m.topk(v, 2)
m.aminmax(x)
m.median(x, 0)
m.mode(i, 0)
m.kthvalue(v, 1)
m.cummax(v, 0)
m.frexp(v)
m.slogdet(x @ x.T)
m.std_mean(x)
m.relu(input=x)
m.relu(-x)
m.add(x, 1, alpha=2)
m.mean(x, axis=0)
m.sum(x, dim=(0, 1))
m.sum(x, 0, keepdims=True)
m.std(x, unbiased=False)
m.var(x, 0)
m.norm(x)
m.norm(x, dim=1)
m.norm(x, p=1)
m.norm(x, p=float("inf"), dim=0)
m.einsum("ij,kj->ik", x, y)
m.einsum("i,i", [v, v])
m.meshgrid(v, v, indexing="ij")
m.broadcast_tensors(v.view(3, 1), v)
m.broadcast_shapes((2, 1), (3,), 1)
m.block_diag(x, y)
m.cartesian_prod(i, i)
m.atleast_1d(v[0])
m.atleast_2d(v, v)
m.tensordot(x, y.T, 1)
m.tensordot(x, y, ([1], [1]))
m.split(v, 2)
m.split(v, [1, 2])
m.chunk(x, 2)
m.unbind(x)
m.tensor_split(v, 2)
m.result_type(x, 1)
m.promote_types(m.int32, m.float32)
m.can_cast(m.int32, m.float32)
m.unique(i)
m.unique(i, return_inverse=True, return_counts=True)
m.unique_consecutive(i)
m.unique_consecutive(i, return_counts=True)
m.is_floating_point(x)
m.numel(x)
m.is_tensor(x)
m.is_tensor(1)
m.permute(x, (1, 0))
m.flip(x, [0])
m.roll(v, 1)
m.complex(v, v)
m.bincount(i)
m.quantile(v, 0.5)
m.gradient(v)
m.nonzero(v)
m.softmax(x, -1)
m.matmul(x, y.T)
m.isclose(v, v)
m.equal(v, v)
m.allclose(v, v)
m.from_numpy(np.arange(3))
m.asarray([1, 2])
m.pi
m.float
m.long
m.get_default_dtype()
x.size()
x.size(1)
x.shape
x.shape[:1]
x.shape + (4,)
x.shape.numel()
x.to("cpu")
x.to("cpu", m.float64)
x.to(i)
x.to(m.int32)
x.to(dtype=m.int32)
x.to(device="cpu", dtype=m.float16)
x.type()
i.type()
x.type(m.int32)
x.type("torch.LongTensor")
x.float()
x.half()
x.long()
x.double()
x.int()
x.is_cuda
x.is_cpu
x.is_sparse
x.is_quantized
x.device.type
x.device.index
x.max(1)
x.sort(0)
x.split(1)
x.unbind(1)
x.chunk(2, 1)
x.norm(dim=1)
x.unique_consecutive()
x.view(3, 2)
x.new_zeros(2, 3)
x.new_full((2,), 3)
x.permute(1, 0)
x.clone().apply_(lambda e: e + 1)
x.clone().data_ptr() != x.data_ptr()
x.is_contiguous()
x.topk(1).values
""".strip().splitlines()


def values(m: Any) -> dict[str, Any]:
    return {
        "m": m,
        "np": np,
        "x": m.tensor([[0.5, 3.0, -1.0], [2.0, 0.25, 1.5]]),
        "y": m.tensor([[1.0, 2.0, 3.0], [0.0, -1.0, 4.0]]),
        "v": m.tensor([0.5, 2.0, 1.25]),
        "i": m.tensor([1, 3, 3, 0]),
        "b": m.tensor([True, False, True]),
    }


def shown(value: Any) -> Any:
    """What a result is, alike for both."""
    if isinstance(value, (torch.Tensor, rushlight.Tensor)):
        dtype = (
            value.dtype.name
            if isinstance(value, rushlight.Tensor)
            else str(value.dtype).removeprefix("torch.")
        )
        return (
            "Tensor",
            dtype,
            tuple(value.shape),
            np.asarray(value.tolist(), dtype=complex).round(5).tolist(),
        )
    if isinstance(value, (torch.dtype, rushlight.dtype)):
        return "dtype", value.name if isinstance(value, rushlight.dtype) else str(
            value
        ).removeprefix("torch.")
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shown(item) for item in value]
    return type(value).__name__, value


@pytest.mark.parametrize("call", CALLS)
def test_like_torch(call: str) -> None:
    assert shown(eval(call, values(rushlight))) == shown(eval(call, values(torch)))


def test_results_are_those_of_the_arguments() -> None:
    assert isinstance(rushlight.relu(torch.ones(2)), torch.Tensor)
    assert isinstance(rushlight.relu(np.ones(2)), np.ndarray)
    assert isinstance(rushlight.relu(rushlight.ones(2)), rushlight.Tensor)
    assert isinstance(rushlight.max(np.ones((2, 2)), 0).indices, np.ndarray)
    assert isinstance(
        rushlight.zeros(2), rushlight.Tensor
    )  # as rushlight.tensor, also where torch is


def test_every_function_says_what_it_takes() -> None:
    for name in sorted(functions.FUNCTIONS):
        function = getattr(rushlight, name)
        if isinstance(function, functions.Function):
            assert function.__doc__.startswith(f"The operator aten::{name}.")
            assert function.__signature__ is not None
    assert len(functions.FUNCTIONS) > 500 and {"zeros", "cat", "where"} <= set(dir(rushlight))


def test_named_results() -> None:
    x = rushlight.tensor([3.0, 1.0])
    found = rushlight.sort(x)
    assert type(found) is type(x.sort()) is rushlight.return_types.sort and found._fields == (
        "values",
        "indices",
    )
    assert repr(found).startswith(
        "rushlight.return_types.sort(\nvalues=tensor([1., 3.]),\nindices="
    )
    again = pickle.loads(pickle.dumps(found))
    assert type(again) is type(found) and again.values.tolist() == [1.0, 3.0]
    with pytest.raises(AttributeError, match="return_types' has no attribute 'relu'"):
        rushlight.return_types.relu  # noqa: B018


def test_sizes_and_devices() -> None:
    size = rushlight.zeros(2, 3).shape
    assert repr(size) == "rushlight.Size([2, 3])" and size == (2, 3) and hash(size) == hash((2, 3))
    assert (
        type(size * 2)
        is type(copy.deepcopy(size))
        is type(pickle.loads(pickle.dumps(size)))
        is rushlight.Size
    )
    cpu = rushlight.zeros(1).device
    assert (
        cpu == "cpu"
        and repr(cpu) == repr(torch.device("cpu"))
        and isinstance(cpu, rushlight.device)
    )
    assert repr(rushlight.device("cuda", 1)) == repr(torch.device("cuda", 1))
    for bad in ("foo", ""):
        with pytest.raises(RuntimeError) as theirs:
            torch.device(bad)
        with pytest.raises(RuntimeError) as ours:
            rushlight.device(bad)
        assert (
            str(ours.value).split(" device type")[0] == str(theirs.value).split(" device type")[0]
        )
    assert rushlight.zeros(1, dtype="float64").dtype == rushlight.float64


def test_what_is_not_there() -> None:
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got list\)"):
        rushlight.from_numpy([1])
    with pytest.raises(AttributeError, match="no attribute 'zeroes'"):
        rushlight.zeroes  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'typo'"):
        rushlight.zeros(1).typo  # noqa: B018
