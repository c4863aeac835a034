"""The Python module beside torch: tensors cross the border without copies, errors and identity are
PyTorch's."""

from __future__ import annotations

import copy
import pathlib
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from torch import nn  # noqa: E402


class Pair(NamedTuple):
    first: torch.Tensor
    second: int


class Many(nn.Module):
    """A method for each way of crossing the border."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.count = 0
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return self.linear(x) * scale

    @torch.jit.export
    def same(self, x: torch.Tensor) -> torch.Tensor:
        return x

    @torch.jit.export
    def write(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x

    @torch.jit.export
    def remember(self, x: torch.Tensor) -> int:
        self.count += 1
        self.seen = self.seen + x
        return self.count

    @torch.jit.export
    def pair(self, x: torch.Tensor) -> Pair:
        return Pair(x, 3)

    @torch.jit.export
    def several(self, items: dict[str, list[int]]) -> tuple[dict[str, int], list[float], complex]:
        totals: dict[str, int] = {}
        for key, values in items.items():
            totals[key] = sum(values)
        return totals, [1.5, 2.5], complex(1.0, 2.0)

    @torch.jit.export
    def fail(self, n: int) -> int:
        if n < 0:
            raise ValueError(f"{n} is negative")
        return [1, 2, 3][n]

    @torch.jit.export
    def grows(self, items: list[int]) -> None:
        items.append(7)


@pytest.fixture
def pair(tmp_path: pathlib.Path) -> tuple:
    torch.manual_seed(0)
    torch.jit.script(Many()).save(str(tmp_path / "many.pt"))
    return torch.jit.load(str(tmp_path / "many.pt")), rushlight.load(tmp_path / "many.pt")


def test_results_are_torchs(pair: tuple) -> None:
    theirs, ours = pair
    x = torch.randn(4, 3)
    for got, want in (
        (ours(x), theirs(x)),
        (ours(x, 2.0), theirs(x, 2.0)),
        (ours(x, scale=3), theirs(x, scale=3)),
    ):
        assert type(got) is torch.Tensor and torch.allclose(got, want)
    items = {"b": [1, 2], "a": [3]}
    assert ours.several(items) == theirs.several(items)
    got = ours.pair(x)
    assert got.first is x and got.second == 3 and type(got).__name__ == "Pair"


def test_identity_and_writes(pair: tuple) -> None:
    _, ours = pair
    x = torch.zeros(3)
    assert ours.same(x) is x
    version = x._version
    assert ours.write(x) is x
    assert x.tolist() == [1.0, 1.0, 1.0] and x._version > version
    part = torch.zeros(2, 6)[:, ::2]
    ours.write(part)
    assert part.tolist() == [[1.0] * 3] * 2
    items = [1]
    ours.grows(items)
    assert items == [1], "lists are passed by value, as torch.jit does"


def test_state_stays_with_the_instance(pair: tuple) -> None:
    theirs, ours = pair
    copy = ours.copy()
    for model in (theirs, ours):
        assert [model.remember(torch.ones(3)) for _ in range(3)] == [1, 2, 3]
        assert model.count == 3 and model.seen.tolist() == [3.0] * 3
    assert copy.remember(torch.ones(3)) == 1
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [name for name, _ in ours.named_parameters()] == [
        name for name, _ in theirs.named_parameters()
    ]
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value)


def test_submodules_are_called_and_changed(pair: tuple) -> None:
    theirs, ours = pair
    x = torch.randn(4, 3)
    assert torch.allclose(ours.linear(x), theirs.linear(x))
    assert torch.allclose(ours.linear.forward(input=x), theirs.linear(x))
    assert ours.linear.weight.shape == (2, 3) and ours.linear.training is True
    ours.linear.training = False
    assert ours.linear.training is False
    with pytest.raises(AttributeError):
        ours.linear.colour  # noqa: B018
    with pytest.raises(RuntimeError):
        ours.linear(1, 2, 3)


def test_errors_are_pytorchs(pair: tuple) -> None:
    theirs, ours = pair
    for n in (-1, 5):
        with pytest.raises(Exception) as want:
            theirs.fail(n)
        with pytest.raises(Exception) as got:
            ours.fail(n)
        assert got.type.__name__ == want.type.__name__
        assert str(want.value).strip().splitlines()[-1] in str(got.value)
    for bad in ((), (1, 2, 3), ("text",)):
        with pytest.raises(Exception) as want:
            theirs(*bad)
        with pytest.raises(Exception) as got:
            ours(*bad)
        assert got.type is want.type


def test_gradients_of_a_loaded_module(pair: tuple) -> None:
    theirs, ours = pair
    x = torch.randn(4, 3, requires_grad=True)
    (want,) = torch.autograd.grad(theirs(x).sum(), x)
    y = ours(x)
    assert y.grad_fn is not None
    (got,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(got, want)
    with torch.no_grad():
        assert ours(x).grad_fn is None


def test_random_numbers_follow_torchs_generator(tmp_path: pathlib.Path) -> None:
    class Noise(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.dropout(x, 0.5, True)

    torch.jit.script(Noise()).save(str(tmp_path / "noise.pt"))
    theirs, ours = torch.jit.load(str(tmp_path / "noise.pt")), rushlight.load(tmp_path / "noise.pt")
    x = torch.ones(1000)
    torch.manual_seed(5)
    want = [theirs(x), torch.rand(2)]
    torch.manual_seed(5)
    got = [ours(x), torch.rand(2)]
    assert all(torch.equal(g, w) for g, w in zip(got, want, strict=False))


def test_dlpack_both_ways() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    t = rushlight.from_dlpack(x)
    x[0, 0] = 9
    assert t[0, 0].item() == 9.0
    back = torch.from_dlpack(t)
    assert back.data_ptr() == x.data_ptr() and back.stride() == x.stride()
    assert rushlight.as_tensor(torch.ones(2, dtype=torch.bfloat16)).dtype == rushlight.bfloat16


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([[1, 2], [3, 4]]),
        torch.tensor([1.0, 2.5, 1e10]),
        torch.tensor([]),
        torch.tensor(3),
        torch.zeros(2, 0),
        torch.tensor([True, False]),
        torch.arange(2000.0),
        torch.tensor([1 + 2j]),
        torch.tensor([float("nan"), float("inf")]),
        torch.ones(2, dtype=torch.float16),
        torch.randn(3, 20, 30),
        torch.tensor([1.0], requires_grad=True),
        torch.tensor([0.0001, 1000.0]),
        torch.tensor([-1, 100], dtype=torch.int8),
    ],
    ids=lambda v: f"{v.dtype}{list(v.shape)}",
)
def test_prints_as_pytorch(value: torch.Tensor) -> None:
    assert repr(rushlight.as_tensor(value)) == repr(value)


def test_a_program_is_a_torch_module(tmp_path: pathlib.Path) -> None:
    class Small(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count = self.count + 1
            return self.body(x)

    module = Small().eval()
    theirs = torch.jit.script(module)
    theirs.save(str(tmp_path / "small.pt"))
    ours, x = rushlight.load(tmp_path / "small.pt"), torch.randn(5, 3)
    assert isinstance(ours, torch.nn.Module) and isinstance(ours, rushlight.ScriptModule)
    assert repr(ours) == repr(theirs)
    assert ours.body is ours.body and ours.body[0].weight is next(ours.parameters())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in ours.named_modules()] == [n for n, _ in theirs.named_modules()]
    assert torch.allclose(
        torch.nn.Sequential(ours, torch.nn.ReLU())(x), theirs(x).relu(), atol=1e-6
    )
    assert ours.count.tolist() == [1.0, 1.0]
    with torch.no_grad():
        next(ours.parameters()).zero_()
    assert not torch.allclose(ours(x), theirs(x)), "one memory"
    ours.load_state_dict(theirs.state_dict())
    assert torch.allclose(ours.double()(x.double()), theirs(x).double(), atol=1e-5)
    deep = copy.deepcopy(ours)
    next(deep.parameters()).data.fill_(0)
    assert next(ours.parameters()).abs().sum() > 0
    seen = []
    handle = ours.register_forward_hook(lambda module, inputs, result: seen.append(result))
    ours(x.double())
    handle.remove()
    assert len(seen) == 1
    with pytest.raises(RuntimeError, match="Can't add a new parameter"):
        ours.extra = torch.nn.Parameter(x)
    with pytest.raises(RuntimeError, match="Cannot re-assign modules"):
        ours.body = torch.nn.Linear(1, 1)
