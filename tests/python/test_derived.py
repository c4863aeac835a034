"""What follows from weights alone is computed once, and again when a weight changes
(src/passes/derive.c, src/compile/derived.c)."""

from __future__ import annotations

import pathlib
import re
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import rushlight
from executor_runs import Loaded

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    with torch.no_grad():
        yield
    rushlight.set_executor("profiling")


class Standardised(nn.Conv2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = self.weight
        w = (w - w.mean(dim=[1, 2, 3], keepdim=True)) * torch.rsqrt(
            w.var(dim=[1, 2, 3], keepdim=True) + 1e-5
        )
        return functional.conv2d(x, w, self.bias, self.stride, self.padding)


class Network(nn.Module):
    """Standardised weights, a table read by a fixed index, a factor of statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = Standardised(3, 32, 3, padding=1), Standardised(32, 16, 1)
        self.table, self.scale = nn.Parameter(torch.randn(9)), nn.Parameter(torch.rand(16))
        self.register_buffer("index", torch.randint(0, 9, (16,)))
        self.register_buffer("variance", torch.rand(16) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.b(functional.relu(self.a(x)))
        factor = self.scale * (self.variance + 1e-5).rsqrt()
        return y * factor.view(1, -1, 1, 1) + self.table[self.index].view(1, -1, 1, 1)

    @torch.jit.export
    def change(self, by: float) -> None:
        with torch.no_grad():
            self.a.weight.add_(self.a.weight * self.a.weight, alpha=by)


def saved(net: Any, path: pathlib.Path) -> pathlib.Path:
    torch.jit.script(net.eval()).save(str(path))
    return path


def both(path: pathlib.Path) -> tuple[Loaded, Loaded]:
    return Loaded(path, "profiling"), Loaded(path, "simple")


def test_bits_are_those_of_operators(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    net, x = Network(), torch.randn(1, 3, 14, 14)
    path = saved(net, tmp_path / "net.pt")
    plain = Loaded(path, "simple")(x)
    for executor in ("profiling", "specialising"):
        ours = Loaded(path, executor)
        for _ in range(6):
            assert torch.equal(ours(x), plain)
    torch.testing.assert_close(plain, net(x), rtol=1e-4, atol=1e-4)


def test_the_command_shows_them(command: str, tmp_path: pathlib.Path) -> None:
    path = saved(Network(), tmp_path / "net.pt")
    out = subprocess.run(
        [command, "show", str(path), "--plan", "randn(1,3,14,14)"], capture_output=True, text=True
    )
    main = out.stdout.split("\nwith ")[0]
    assert out.returncode == 0, out.stderr
    assert len(re.findall(r"= rushlight::derived_\d+\(", main)) == 4
    assert not re.findall(r"aten::(var|mean|index|rsqrt|mul)\(", main), main


def test_they_are_kept(tmp_path: pathlib.Path) -> None:
    """The memory of what is kept is counted, and goes with the program."""
    path, x = saved(Network(), tmp_path / "net.pt"), torch.randn(1, 3, 14, 14)
    before = rushlight.memory_stats()["packed_bytes"]
    ours = Loaded(path, "profiling")
    for _ in range(6):
        ours(x)
    assert rushlight.memory_stats()["packed_bytes"] >= before + 4 * 3 * 32 * 9
    del ours
    assert rushlight.memory_stats()["packed_bytes"] == before


def test_a_weight_that_changes_is_seen(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(1)
    net, x = Network(), torch.randn(1, 3, 14, 14)
    path = saved(net, tmp_path / "net.pt")
    ours, plain = both(path)
    seen, shared = [], []
    for step in range(12):  # more often than versions are kept
        for _ in range(4):
            assert torch.equal(ours(x), plain(x)), step
        seen.append(ours(x).sum().item())
        for m in (ours.module, plain.module):
            m.change(0.01 * (step + 1))
            if step == 3:
                m.table = m.table.neg()
            if step == 5:  # torch shares its memory from now on
                shared.append(m.index)
        for index in shared:
            index.fill_(step % 4)
    assert len(set(seen)) == len(seen)


def test_what_may_be_seen_or_written_is_made_anew(tmp_path: pathlib.Path) -> None:
    class Leaves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.rand(4, 4))
            self.kept = torch.zeros(4, 4)

        def forward(
            self, x: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor], torch.Tensor]:
            returned = self.w * 2
            written = self.w + 1
            written.add_(x)
            listed = [self.w.exp()]
            listed.append(x)
            self.kept = self.w.neg()
            same = (self.w * 3).contiguous()
            moved = self.w.tan()
            moved.unsqueeze_(0)
            return returned, same, listed, written + moved + self.w.sin()

    net, x = Leaves(), torch.ones(4, 4)
    path = saved(net, tmp_path / "net.pt")
    ours, plain = both(path)
    for _ in range(6):
        got, want = ours(x), plain(x)
        mine = [*got[:2], *got[2], got[3], ours.module.kept]
        theirs = [*want[:2], *want[2], want[3], plain.module.kept]
        for g, w in zip(mine, theirs, strict=True):
            assert g.shape == w.shape and g.tolist() == w.tolist()
        for t in (got[0], got[1], got[2][0]):
            t.fill_(7.0)
        rushlight.ops.aten.fill_(ours.module.kept, 7.0)


def test_conditions_and_loops(tmp_path: pathlib.Path) -> None:
    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.v = nn.Parameter(torch.rand(4, 4)), nn.Parameter(torch.rand(4))

        def forward(self, x: torch.Tensor, n: int, flag: bool) -> torch.Tensor:
            for i in range(n):
                x = x @ (self.w - self.w.mean()).softmax(0) + i
                if flag:
                    x = x * (self.v.exp() + self.v)
            return x

    path = saved(Flow(), tmp_path / "net.pt")
    ours, plain = both(path)
    for n, flag in ((3, True), (3, True), (3, False), (0, True), (5, False), (5, True)):
        for _ in range(3):
            assert torch.equal(ours(torch.ones(2, 4), n, flag), plain(torch.ones(2, 4), n, flag))


def test_gradients_go_through(tmp_path: pathlib.Path) -> None:
    """A call that records computes from the weights, also after calls that do not."""
    torch.manual_seed(2)
    path = saved(Network(), tmp_path / "net.pt")
    x = torch.randn(1, 3, 14, 14)
    found = []
    for executor in ("profiling", "simple"):
        m = Loaded(path, executor)
        for _ in range(4):
            m(x)
        with torch.enable_grad(), rushlight.enable_grad():
            for _ in range(3):
                for p in m.module.parameters():
                    p.grad = None
                loss = rushlight.ops.aten.sum(m(x))
                loss.backward()
        found.append([p.grad.tolist() for p in m.module.parameters()])
        assert m(x) is not None
    assert found[0] == found[1]


def test_another_default_dtype(tmp_path: pathlib.Path) -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.arange(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.n / 2) + x

    ours = Loaded(saved(Half(), tmp_path / "net.pt"), "profiling")
    try:
        for dtype in (torch.float32, torch.float64, torch.float32, torch.float64):
            torch.set_default_dtype(dtype)
            for _ in range(4):
                assert ours(torch.ones(4, dtype=torch.int64)).dtype == dtype
    finally:
        torch.set_default_dtype(torch.float32)


def test_many_threads(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(3)
    path, x = saved(Network(), tmp_path / "net.pt"), torch.randn(1, 3, 14, 14)
    want, ours = Loaded(path, "simple")(x), Loaded(path, "profiling")
    wrong: list[int] = []

    def call() -> None:
        with torch.no_grad():
            for i in range(20):
                if not torch.equal(ours(x), want):
                    wrong.append(i)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
