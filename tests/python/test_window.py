"""Python as a window: Tensor's methods, operators, indexing and protocols do what torch.Tensor's
do."""

from __future__ import annotations

import copy
import inspect
import operator
import pickle
import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402


def ours(x: Any) -> Any:
    """A tensor of ours on memory of its own."""
    return rushlight.tensor(x)


def same(got: Any, want: Any) -> None:
    if isinstance(want, torch.Tensor):
        assert tuple(got.shape) == tuple(want.shape)
        assert got.dtype.name == str(want.dtype)[6:]
        torch.testing.assert_close(
            torch.tensor(got.tolist(), dtype=want.dtype).reshape(want.shape), want, equal_nan=True
        )
    elif isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w)
    else:
        assert got == want


F = torch.tensor([[1.5, -2.0, 3.0], [4.0, 0.5, -6.0]])
I = torch.tensor([[7, 2, 3], [4, 5, 1]])  # noqa: E741
B = torch.tensor([[True, False, True], [False, True, True]])

BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("op", BINARY + BITS, ids=lambda op: op.__name__)
def test_binary(op: Any) -> None:
    for x, y in ((I, 2), (2, I), (I, I + 1)) + (
        () if op in BITS else ((F, 2), (3.0, F.abs()), (F, I), (I, 2.5))
    ):
        mine = [ours(v) if isinstance(v, torch.Tensor) else v for v in (x, y)]
        same(op(*mine), op(x, y))


INPLACE = "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift".split()


@pytest.mark.parametrize("name", INPLACE)
def test_in_place(name: str) -> None:
    op = getattr(operator, name)
    want = (F if name == "itruediv" else I).clone()
    got = before = ours(want)
    got = op(got, 2)
    want = op(want, 2)
    assert got is before or got.tolist() == before.tolist()
    same(got, want)


def test_unary() -> None:
    for op in (operator.neg, operator.pos, abs):
        same(op(ours(F)), op(F))
    same(~ours(B), ~B)
    same(~ours(I), ~I)
    assert [10, 20, 30][ours(torch.tensor(1))] == 20
    assert complex(ours(torch.tensor(2.5))) == 2.5
    assert float(ours(torch.tensor(2.5))) == 2.5
    assert bool(ours(torch.tensor(1)))


def test_others_are_refused() -> None:
    for value in ("text", object(), None):
        with pytest.raises(TypeError):
            ours(F) + value
    assert (ours(F) == "text") is False
    with pytest.raises(TypeError):
        [1, 2][ours(F).sum()]


def test_iteration() -> None:
    assert [row.tolist() for row in ours(F)] == [row.tolist() for row in F]
    assert [row.tolist() for row in reversed(ours(F))] == [row.tolist() for row in reversed(F)]
    assert 3.0 in ours(F)
    assert 9.0 not in ours(F)
    with pytest.raises(TypeError, match="0-d"):
        iter(ours(torch.tensor(1)))
    a, b = ours(F)
    assert b.tolist() == F[1].tolist()


INDEXES = [
    0,
    -1,
    (1, 2),
    (slice(None), 1),
    slice(0, 1),
    (Ellipsis, 0),
    None,
    (None, 0),
    (0, None),
    (Ellipsis, None),
    Ellipsis,
    (),
    [0, 1],
    [1, 0, 1],
    ([0, 1], [1, 2]),
    (slice(None), [0, 2]),
    ([1], slice(1, 3)),
    (None, [0]),
    (Ellipsis, [1, 1]),
    True,
    False,
    (True, 1),
    torch.tensor([1, 0]),
    torch.tensor(1),
    (torch.tensor([0, 1]), torch.tensor([2, 0])),
    B,
    ~B,
    (torch.tensor([True, False]), 1),
    (slice(None), torch.tensor([True, False, True])),
    ([[0, 1], [1, 0]],),
    (0, [1, 2]),
    torch.tensor([[0, 1], [1, 1]]),
    (slice(None, None, 2), [0]),
    [True, False],
    ([],),
    (1, slice(0, None, 2)),
]


def index_of_ours(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(map(index_of_ours, index))
    return ours(index) if isinstance(index, torch.Tensor) else index


@pytest.mark.parametrize("index", INDEXES, ids=str)
def test_indexing(index: Any) -> None:
    got = ours(F)[index_of_ours(index)]
    same(got, F[index])
    for value in (7.0, torch.tensor(-3.0)):
        mine, theirs = ours(F), F.clone()
        theirs[index] = value
        mine[index_of_ours(index)] = ours(value) if isinstance(value, torch.Tensor) else value
        assert mine.tolist() == theirs.tolist()
    mine, theirs = ours(F), F.clone()
    value = torch.arange(float(F[index].numel())).reshape(F[index].shape)
    theirs[index] = value
    mine[index_of_ours(index)] = ours(value)
    assert mine.tolist() == theirs.tolist()


def test_indices_that_are_refused() -> None:
    for index in ((0, 0, 0), 5, (slice(None), 7)):
        with pytest.raises(IndexError):
            ours(F)[index]
    with pytest.raises(TypeError):
        ours(F)["a"]
    with pytest.raises(TypeError):
        del ours(F)[0]


def test_an_index_is_a_view() -> None:
    x = ours(F)
    x[..., 0][1] = 99.0
    assert x[1, 0].item() == 99.0


METHODS: list[tuple[str, tuple, dict]] = [
    ("view", (3, 2), {}),
    ("view", ([3, 2],), {}),
    ("view", (6,), {}),
    ("view", (-1,), {}),
    ("reshape", (3, 2), {}),
    ("permute", (1, 0), {}),
    ("repeat", (2, 2), {}),
    ("expand", (4, 2, 3), {}),
    ("flip", (0, 1), {}),
    ("flip", (0,), {}),
    ("tile", (2,), {}),
    ("sum", (), {"axis": 0}),
    ("sum", (), {"dim": 1, "keepdims": True}),
    ("squeeze", (0,), {}),
    ("mean", (0,), {"keepdim": True}),
    ("unsqueeze", (1,), {}),
    ("transpose", (0, 1), {}),
    ("clamp", (), {"min": 0.0}),
    ("max", (), {}),
    ("max", (), {"axis": 1}),
    ("sort", (), {"descending": True}),
    ("softmax", (-1,), {}),
    ("split", (1,), {}),
    ("chunk", (2,), {}),
    ("unbind", (), {}),
    ("t", (), {}),
    ("numel", (), {}),
    ("dim", (), {}),
    ("size", (), {}),
    ("size", (1,), {}),
    ("float", (), {}),
    ("double", (), {}),
    ("int", (), {}),
    ("bool", (), {}),
    ("new_zeros", (2, 2), {}),
    ("new_ones", (3,), {}),
    ("matmul", (F.t(),), {}),
    ("add", (F,), {"alpha": 2}),
    ("where", (B, I), {}),
    ("norm", (), {}),
    ("masked_fill", (B, 1.0), {}),
    ("gather", (1, I % 3), {}),
    ("cumsum", (0,), {}),
    ("is_floating_point", (), {}),
    ("element_size", (), {}),
    ("contiguous", (), {}),
    ("argmax", (), {}),
    ("index_select", (0, torch.tensor([1])), {}),
    ("count_nonzero", (1,), {}),
    ("unique", (), {}),
    ("unique", (), {"return_counts": True}),
    ("unique", (), {"dim": 0}),
    ("new_tensor", ([1, 2],), {}),
    ("nelement", (), {}),
    ("roll", (1, 0), {}),
    ("digamma", (), {}),
]


@pytest.mark.parametrize(
    ("name", "args", "kwargs"), METHODS, ids=lambda x: x if isinstance(x, str) else ""
)
def test_methods(name: str, args: tuple, kwargs: dict) -> None:
    mine = tuple(ours(a) if isinstance(a, torch.Tensor) else a for a in args)
    same(getattr(ours(F), name)(*mine, **kwargs), getattr(F, name)(*args, **kwargs))


def test_attributes() -> None:
    z = torch.tensor([[1 + 2j, 3 - 1j]])
    for name in ("T", "mT", "H", "mH", "real", "imag"):
        same(getattr(ours(z), name), getattr(z, name))
    x = ours(F)
    assert (x.itemsize, x.nbytes, x.ndim, x.shape) == (F.itemsize, F.nbytes, F.ndim, tuple(F.shape))
    assert not x.is_quantized


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "bool", "int16", "complex64", "float8_e5m2"]
)
def test_copies(dtype: str) -> None:
    for x in (F, torch.tensor(3.0), torch.zeros(0, 2), F.t()):
        t = ours(x).to(getattr(rushlight, dtype))
        for again in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t), copy.copy(t)):
            assert again.dtype == t.dtype
            assert again.shape == t.shape
            plain = again if dtype.startswith("complex") else again.float()
            assert plain.tolist() == (t if dtype.startswith("complex") else t.float()).tolist()


def test_formats() -> None:
    assert f"{ours(torch.tensor(2.5)):.3f}" == "2.500"
    assert f"{ours(F)}" == str(ours(F))


def test_every_operator_of_a_tensor_is_a_method() -> None:
    names = set(dir(rushlight.Tensor))
    for line in rushlight._rushlight.operator_schemas().splitlines():
        head, _, rest = line.partition("(")
        first = re.match(r"Tensor(\(\w+!?\))? self[,)]", rest)
        name = head.partition("::")[2].partition(".")[0]
        if head.startswith("aten::") and not name.startswith("__") and first:
            assert name in names or "!" in rest[first.end() :].partition("->")[0]
    assert {"relu", "view", "add_", "linalg_vector_norm", "__setitem__"} <= names


def test_what_help_says() -> None:
    text = rushlight.Tensor.add.__doc__
    assert "add(other: Tensor, *, alpha: number = 1) -> Tensor" in text
    assert "bool, int, float, complex" in text
    assert "share the tensor's memory" in rushlight.Tensor.view.__doc__
    assert "Writes to the tensor itself" in rushlight.Tensor.add_.__doc__
    assert "out: Tensor" in rushlight.ops.aten.add.__doc__
    assert list(inspect.signature(rushlight.Tensor.add).parameters) == ["self", "other", "alpha"]
    assert list(inspect.signature(ours(F).clamp).parameters) == ["min", "max"]
    for name in dir(rushlight.Tensor):
        member = getattr(rushlight.Tensor, name)
        if isinstance(member, rushlight.methods.Method):
            assert member.__doc__
            inspect.signature(member)
    assert {"add", "relu", "linalg_inv"} <= set(dir(rushlight.ops.aten))
    assert {"Tensor", "Scalar", "out"} <= set(dir(rushlight.ops.aten.add))
