"""Freezing: what is left of a module, that it computes the same, and that it refuses what
torch.jit.freeze refuses."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import rushlight

torch = pytest.importorskip("torch")
nn = torch.nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn, self.drop, self.lin = (
            nn.Conv2d(3, 4, 3),
            nn.BatchNorm2d(4),
            nn.Dropout(),
            nn.Linear(4, 4),
        )
        self.k, self.steps = 3, [1, 2]
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        y = self.drop(self.bn(self.conv(x)))
        self.count += 1
        for i in self.steps:
            y = y + i
        return y * self.k, self.count.clone()

    @torch.jit.export
    def other(self, x):
        return self.lin(x)


class Shared(nn.Module):
    """One memory under two names, one of which is written to."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.arange(6.0))
        self.register_buffer("b", self.a[2:])
        self.register_buffer("c", torch.ones(4))

    def forward(self, x):
        self.a.add_(1)
        return self.b + self.c + x


def loaded(module: Any, path: pathlib.Path) -> Any:
    torch.manual_seed(0)
    for buffer in module.buffers():
        if buffer.dtype.is_floating_point and not isinstance(module, Shared):
            buffer.data.copy_(torch.rand_like(buffer) + 0.5)
    torch.jit.script(module.eval()).save(str(path))
    return rushlight.load(path)


def test_weights_become_constants(tmp_path: pathlib.Path) -> None:
    model = loaded(Net(), tmp_path / "m.pt")
    twin, x = rushlight.load(tmp_path / "m.pt"), torch.randn(2, 3, 5, 5)
    frozen = rushlight.freeze(model)
    assert (
        set(frozen.state_dict()) == {"count"}
        and not hasattr(frozen, "other")
        and not hasattr(frozen, "k")
    )
    for name in ("dropout", "batch_norm", "CallMethod", "prim::Loop", "aten::mul"):
        assert name not in str(frozen.graph), name
    for _ in range(2):
        for mine, want in zip(frozen(x), twin(x), strict=True):
            torch.testing.assert_close(
                torch.as_tensor(mine), torch.as_tensor(want), rtol=1e-4, atol=1e-4
            )


def test_preserved(tmp_path: pathlib.Path) -> None:
    model, x = loaded(Net(), tmp_path / "m.pt"), torch.randn(2, 3, 5, 5)
    frozen = rushlight.freeze(model, ["other", "k", "conv.weight"], optimize_numerics=False)
    assert (
        "batch_norm" in str(frozen.graph)
        and frozen.k == 3
        and frozen.conv.weight.shape == (4, 3, 3, 3)
    )
    assert frozen(x)[0].shape == (2, 4, 3, 3)
    first = torch.as_tensor(frozen(x)[0])
    frozen.k = 6
    torch.testing.assert_close(torch.as_tensor(frozen(x)[0]), first * 2)
    assert torch.equal(
        torch.as_tensor(frozen.other(torch.ones(4))), torch.as_tensor(model.other(torch.ones(4)))
    )


def test_shared_memory_stays(tmp_path: pathlib.Path) -> None:
    model = loaded(Shared(), tmp_path / "m.pt")
    frozen, twin = rushlight.freeze(model), rushlight.load(tmp_path / "m.pt")
    assert set(frozen.state_dict()) == {"a", "b"}
    for _ in range(3):
        assert torch.equal(
            torch.as_tensor(frozen(torch.ones(4))), torch.as_tensor(twin(torch.ones(4)))
        )


def test_refusals(tmp_path: pathlib.Path) -> None:
    model = loaded(Net(), tmp_path / "m.pt")
    for training, names in ((True, None), (False, ["no"])):
        with pytest.raises(RuntimeError) as want:
            torch.jit.freeze(torch.jit.script(Net()).train(training), names)
        with pytest.raises(RuntimeError) as got:
            rushlight.freeze(model.train(training), names)
        assert str(got.value) == str(want.value)
    with pytest.raises(RuntimeError, match="Freezing expects a ScriptModule as input"):
        rushlight.freeze(Net())


def test_optimize_for_inference(tmp_path: pathlib.Path) -> None:
    model, x = loaded(Net(), tmp_path / "m.pt"), torch.randn(2, 3, 5, 5)
    want = torch.as_tensor(rushlight.load(tmp_path / "m.pt")(x)[0])
    fast = rushlight.optimize_for_inference(model)
    assert "batch_norm" not in str(fast.graph)
    torch.testing.assert_close(torch.as_tensor(fast(x)[0]), want, rtol=1e-4, atol=1e-4)
    plain = rushlight.freeze(rushlight.load(tmp_path / "m.pt"), optimize_numerics=False)
    rushlight.run_frozen_optimizations(plain)
    assert "batch_norm" not in str(plain.graph)
    torch.testing.assert_close(torch.as_tensor(plain(x)[0]), want, rtol=1e-4, atol=1e-4)


class Scaled(nn.Module):
    """A convolution whose result meets constants of float64 without dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.register_buffer("k", torch.tensor(2.0, dtype=torch.float64))

    def forward(self, x):
        return self.conv(x) * self.k + self.k


def test_scalar_tensors_do_not_promote_weights(tmp_path: pathlib.Path) -> None:
    model, x = loaded(Scaled(), tmp_path / "m.pt"), torch.randn(1, 3, 5, 5)
    want = torch.as_tensor(model(x))
    frozen = rushlight.freeze(rushlight.load(tmp_path / "m.pt"))
    assert "aten::mul" not in str(frozen.graph)
    torch.testing.assert_close(torch.as_tensor(frozen(x)), want, rtol=1e-5, atol=1e-5)


class Views(nn.Module):
    """Attributes that torch keeps in one memory, one of them written to; a tuple that holds one."""

    def __init__(self) -> None:
        super().__init__()
        self.a = torch.zeros(2)
        self.b = self.a[0:1]
        self.t = (self.a, [self.b])

    def forward(self, x):
        self.b.add_(1)
        return x + self.a + self.t[0]


class Holders(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.t, self.d, self.n = (
            (1, torch.ones(1), "a"),
            {"a": torch.ones(1), "b": torch.zeros(1)},
            3,
        )

    def forward(self, x):
        return x + self.t[1] + self.d["a"] * self.n


def live(make: Any, **options: Any) -> tuple[Any, Any]:
    """The module frozen by rushlight and by torch."""
    torch.manual_seed(0)
    module = make().eval()
    return rushlight.freeze(rushlight.script(module), **options), torch.jit.freeze(
        torch.jit.script(module), **options
    )


@pytest.mark.parametrize(
    "make", [Holders, lambda: nn.Linear(2, 2), lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU())]
)
def test_code_is_torchs(make: Any) -> None:
    ours, theirs = live(make)
    assert ours.code == theirs.code


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_batch_norms_go_with_their_checks(dims: int) -> None:
    conv, norm = getattr(nn, f"Conv{dims}d"), getattr(nn, f"BatchNorm{dims}d")
    ours, theirs = live(lambda: nn.Sequential(conv(2, 3, 2), norm(3), nn.ReLU()))
    operators = [
        [node.kind() for node in f.graph.nodes() if node.kind() != "prim::Constant"]
        for f in (ours, theirs)
    ]
    assert operators[0] == operators[1]
    x = torch.rand(1, 2, *[4] * dims)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)


def test_memory_of_live_tensors_stays_shared() -> None:
    ours, theirs = live(Views)
    assert [hasattr(ours, name) for name in "abt"] == [hasattr(theirs, name) for name in "abt"]
    for _ in range(2):
        assert torch.equal(ours(torch.ones(2)), 1 + 2 * ours.a)


@torch.jit.interface
class Changes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = torch.zeros(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        return x + self.n


class Behind(nn.Module):
    part: Changes

    def __init__(self) -> None:
        super().__init__()
        self.part = Counts()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part.forward(x)


Behind.__annotations__["part"] = Changes  # torch takes no text for it


def test_interfaces() -> None:
    ours, theirs = live(Behind)
    assert [f(torch.ones(1)).item() for f in (ours, theirs, ours)] == [
        2,
        3,
        4,
    ]  # they share the counter
    with pytest.raises(RuntimeError, match="failed to freeze interface attribute 'part'"):
        live(Behind, preserved_attrs=["part"])
