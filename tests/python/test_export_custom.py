"""rushlight.export of torch's modules with custom operators, and drafts of what export refuses."""

from __future__ import annotations

import io
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rushlight.export  # noqa: E402
from rushlight.export import Dim, draft_export, export  # noqa: E402
from rushlight.export.draft import FailureType  # noqa: E402


@torch.library.custom_op("capturetest::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x])


@twice.register_fake
def _(x: Any) -> Any:
    return x.new_empty(x.shape[0] * 2, x.shape[1])


@torch.library.custom_op("capturetest::places", mutates_args=())
def places(x: torch.Tensor) -> torch.Tensor:
    return x.nonzero()


@places.register_fake
def _(x: Any) -> Any:
    n = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty([n, x.dim()], dtype=torch.int64)


@torch.library.custom_op("capturetest::grow", mutates_args=("x",))
def grow(x: torch.Tensor, by: float) -> None:
    x.add_(by)


@torch.library.custom_op("capturetest::plain", mutates_args=())
def plain(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


class Calls(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        y = x.clone()
        grow(y, 2.0)
        return twice(y) + 1, places(x - 1)


class Plain(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return plain(x, 3) + x


def operators(program: Any) -> list[str]:
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function"]


@pytest.mark.parametrize("n", [3, 6])
def test_custom_operators_have_their_fake_sizes(n: int) -> None:
    args = (torch.randn(3, 4),)
    want = torch.export.export(
        Calls(), args, dynamic_shapes={"x": {0: torch.export.Dim("b", max=50)}}
    )
    made = export(Calls(), args, dynamic_shapes={"x": {0: Dim("b", max=50)}})
    assert operators(made) == operators(want)
    vals = {node.name: str(node.meta["val"].shape[0]) for node in made.graph.nodes
            if node.name in ("twice", "places")}  # fmt: skip
    assert vals == {"twice": "2*s77", "places": "u0"}
    x = torch.randn(n, 4)
    file = io.BytesIO()
    rushlight.export.save(made, file)
    file.seek(0)
    for run in (made.module(), torch.export.load(file).module()):
        torch.testing.assert_close(run(x), Calls()(x))


def test_an_operator_without_a_fake_implementation() -> None:
    args = (torch.randn(3, 4),)
    with pytest.raises(RuntimeError, match="no fake impl registered"):
        torch.export.export(Plain(), args)
    with pytest.raises(RuntimeError, match="no fake impl registered"):
        export(Plain(), args)


class Decides(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        if x.sum() > 0:
            return x + 1
        return x - 1


def test_a_draft_of_a_decision_on_data() -> None:
    with pytest.raises(RuntimeError, match="depends on data"):
        export(Decides(), (torch.ones(3),))
    made = draft_export(Decides(), (torch.ones(3),))
    assert [f.failure_type for f in made._report.failures] == [FailureType.DATA_DEPENDENT_ERROR]
    assert not made._report.successful() and "Data dependent error" in str(made._report)
    run = made.module()
    assert run(torch.full((3,), 2.0)).tolist() == [3, 3, 3]
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        run(-torch.ones(3))


class Fixed(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x + 1 if x.shape[0] > 3 else x - 1


def test_a_draft_of_a_dimension_that_cannot_vary_so() -> None:
    shapes = {"x": {0: Dim("b")}}
    made = draft_export(Fixed(), (torch.ones(5),), dynamic_shapes=shapes)
    assert [f.failure_type for f in made._report.failures] == [FailureType.GUARD_ADDED]
    assert "4 <= L['x'].size()[0]" in str(made._report)
    assert made.module()(torch.ones(9)).tolist() == [2] * 9
    with pytest.raises(AssertionError, match="Guard failed"):
        made.module()(torch.ones(3))


def test_a_draft_of_a_custom_operator_without_a_fake_implementation() -> None:
    made = draft_export(Plain(), (torch.ones(3, 4),), dynamic_shapes={"x": {0: Dim("b")}})
    assert FailureType.MISSING_FAKE_KERNEL in [f.failure_type for f in made._report.failures]
    torch.testing.assert_close(made.module()(torch.ones(3, 4)), Plain()(torch.ones(3, 4)))


def test_a_draft_without_failures() -> None:
    made = draft_export(Fixed(), (torch.ones(5),))
    assert made._report.successful() and "Congratulations" in str(made._report)


@torch.library.custom_op("rushlight_test::corner", mutates_args=())
def corner(t: torch.Tensor, at: torch.Tensor) -> tuple[int, int]:
    return at[0].item(), at[1].item()  # type: ignore[return-value]


@corner.register_fake
def _(t: torch.Tensor, at: torch.Tensor) -> tuple[int, int]:
    context = torch.library.get_ctx()
    return context.new_dynamic_size(), context.new_dynamic_size()


def test_numbers_of_a_custom_operator_are_refused() -> None:
    """They were those of the example, and the operator was gone."""

    class Cut(torch.nn.Module):
        def forward(self, t: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            i, j = corner(t, at)
            return t[:i, :j]

    with pytest.raises(NotImplementedError, match="rushlight_test::corner returns a number"):
        export(Cut(), (torch.randn(4, 5), torch.tensor([2, 3])))
