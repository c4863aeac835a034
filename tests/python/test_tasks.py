"""fork and wait: in programs, in traces, in Python beside torch; and torch.jit's switches."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from typing import Any, List  # noqa: UP035

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from rushlight.testing import FileCheck  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.jit import Future  # noqa: E402

X = torch.arange(6.0).reshape(2, 3)


def negate(x: Tensor) -> Tensor:
    return torch.neg(x)


def forked(x: Tensor) -> Tensor:
    task = torch.jit.fork(negate, x)
    return torch.jit.wait(task) + x


def test_a_fork_is_a_graph_in_the_graph() -> None:
    graph = rushlight.script(forked).graph
    FileCheck().check("prim::fork_0(").check("aten::wait").check("with prim::fork_0 = graph").check(
        "prim::CallFunction"
    ).run(graph)
    assert "negate" in str(graph.findNode("prim::fork").g("Subgraph"))


class Forking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.w = nn.Parameter(torch.ones(3))

    def scaled(self, x: Any) -> Any:
        return self.fc(x) * self.w, x

    def forward(self, x: Any) -> Any:
        one, two = torch.jit.fork(self.fc, x), torch.jit.fork(self.scaled, x)
        a, b = torch.jit.wait(two)
        return torch.jit.wait(one) + a * b


@pytest.mark.parametrize("fork", ["fork", "rushlight"])
def test_traced_forks_stay_tasks(fork: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fork == "rushlight":
        monkeypatch.setattr(torch.jit, "fork", rushlight.fork)
        monkeypatch.setattr(torch.jit, "wait", rushlight.wait)
    module = Forking()
    traced = rushlight.trace(module, X)
    assert (
        str(traced.graph).count("prim::fork_") == 4 and str(traced.graph).count("aten::wait") == 2
    )
    other = torch.rand(4, 3)
    assert torch.allclose(traced(other), module(other))
    buffer = io.BytesIO()
    rushlight.save(traced, buffer)
    buffer.seek(0)
    assert torch.allclose(torch.jit.load(buffer)(other), module(other))


def test_futures_of_torch() -> None:
    def waits(tasks: List[Future[Tensor]]) -> Tensor:  # noqa: UP006
        return torch.jit.wait(tasks[0]) + torch.jit.wait(tasks[1])

    tasks = [rushlight.fork(negate, X), rushlight.fork(lambda: X)]
    assert torch.equal(rushlight.script(waits)(tasks), X * 0)
    assert [torch.equal(t, X) for t in torch.futures.wait_all(tasks)] == [False, True]

    def gives(x: Tensor) -> Future[Tensor]:
        return torch.jit.fork(negate, x)

    result = rushlight.script(gives)(X)
    assert isinstance(result, torch._C.Future) and torch.equal(
        torch.futures.collect_all([result]).wait()[0].wait(), -X
    )


def test_an_ignored_method_may_call_itself_what_it_likes() -> None:
    class Mine(nn.Module):
        def forward(this, x: Tensor) -> Tensor:  # noqa: N805
            return this.helper(x)

        @torch.jit.ignore
        def helper(this, x: Tensor) -> Tensor:  # noqa: N805
            return x + 5

    assert torch.equal(rushlight.script(Mine())(X), X + 5)


def test_switches() -> None:
    before = rushlight.jit.set_fusion_strategy([("STATIC", 1)])
    assert rushlight.jit.set_fusion_strategy(before) == [("STATIC", 1)]
    with pytest.raises(
        ValueError, match="FusionBehavior only supported 'STATIC' or 'DYNAMIC', got: NONE"
    ):
        rushlight.jit.set_fusion_strategy([("NONE", 1)])
    with pytest.raises(Exception, match="unrecognized fuser option"), rushlight.jit.fuser("fuser9"):
        pass
    for target, words in ((List, "without a contained type"), (dict, "without contained types")):  # noqa: UP006
        with pytest.raises(RuntimeError, match=words):
            rushlight.jit.isinstance([1], target)
    module = rushlight.script(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    assert rushlight.jit.export_opnames(module) == torch.jit.export_opnames(
        torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    )
    assert rushlight.script(forked).graph_for(X).findNode("aten::wait") is not None


def test_switched_off() -> None:
    program = """
import torch, rushlight
module = torch.nn.ReLU()
assert rushlight.script(module) is module and rushlight.trace(module, torch.ones(1)) is module
assert rushlight.script(len) is len and rushlight.script_method(len) is len
"""
    subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTORCH_JIT": "0"},
        check=True,
        timeout=100,
    )
