"""run_decompositions: programs of the corpus and small ones lose the operators that PyTorch's
default table decomposes, PyTorch opens what comes out, and results stay."""

from __future__ import annotations

import copy
import io
import os
import pathlib
import subprocess
from typing import Any

import mutated_exports
import pytest

torch = pytest.importorskip("torch")

import decompose_walk  # noqa: E402
from rushlight import export as ours  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

CORPUS = os.environ.get("RUSHLIGHT_CORPUS")
COMMAND = str(pathlib.Path(os.environ["RUSH_BUILD_DIR"]) / "cli" / "rushlight")
DECOMPOSED = set(decompose_walk.TABLE)
targets = decompose_walk.targets


def reopened(program: Any) -> Any:
    """What PyTorch reads of our program."""
    data = io.BytesIO()
    ours.save(program, data)
    data.seek(0)
    return torch.export.load(data)


def check_same(want: Any, got: Any) -> None:
    for a, b in zip(pytree.tree_leaves(want), pytree.tree_leaves(got), strict=True):
        if isinstance(a, torch.Tensor):
            low = a.dtype in (torch.float16, torch.bfloat16)
            close = {"rtol": 2e-2, "atol": 2e-2} if low else {"rtol": 1e-4, "atol": 1e-5}
            torch.testing.assert_close(torch.as_tensor(b), a, **close)
        else:
            assert a == b


def check(path: str, calls: list[tuple[tuple, dict]]) -> Any:
    """Decompose the program; make the calls of both, here and by PyTorch. Returns PyTorch's
    reading of the result."""
    made = ours.load(path).run_decompositions()
    assert made.dialect == "ATEN"
    made.validate()
    theirs, original = reopened(made), torch.export.load(path)
    assert not targets(theirs) & DECOMPOSED
    modules = [original.module(), theirs.module(), made.module()]
    for args, kwargs in calls:
        results = []
        for module in modules:
            a, k = copy.deepcopy((args, kwargs))
            torch.manual_seed(0)
            results.append((module(*a, **k), a, k))
        for other in results[1:]:
            check_same(results[0], other)
    return theirs


def exported(tmp_path: pathlib.Path, module: nn.Module, *args: Any, **how: Any) -> str:
    path = str(tmp_path / "model.pt2")
    torch.export.save(torch.export.export(module, args, **how), path)
    return path


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body = body

    def forward(self, *args: Any) -> Any:
        return self.body(*args)


def of_corpus() -> list[str]:
    paths = pathlib.Path(CORPUS).glob("*/*.export/model.pt2") if CORPUS else []
    return sorted(str(p) for p in paths)


@pytest.mark.skipif(not CORPUS, reason="RUSHLIGHT_CORPUS is not set")
def test_corpus() -> None:
    held, wrong = 0, []
    for path in of_corpus():
        name = pathlib.Path(path).parent.name
        try:
            check(path, [torch.export.load(path).example_inputs])
            held += 1
        except Exception as error:  # listed with the others
            wrong.append(f"{name}: {type(error).__name__}: {error}")
    print(f"\n{held} of {len(of_corpus())} programs decompose")
    assert not wrong, "\n".join(wrong)


def test_linear_with_a_dynamic_batch(tmp_path: pathlib.Path) -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Softmax(-1))
    batch = torch.export.Dim("batch", min=2, max=64)
    path = exported(tmp_path, net, torch.randn(5, 4), dynamic_shapes=({0: batch},))
    made = check(path, [((torch.randn(n, 4),), {}) for n in (2, 5, 64)])
    assert targets(made) == {
        "aten.permute.default",
        "aten.addmm.default",
        "aten.relu.default",
        "aten._softmax.default",
    }
    with pytest.raises((AssertionError, RuntimeError)):
        made.module()(torch.randn(65, 4))


@pytest.mark.parametrize("sizes", [(3, 5), (2, 3, 5)])
def test_linear_with_a_bias_for_each_row(tmp_path: pathlib.Path, sizes: tuple[int, ...]) -> None:
    class Rows(nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(x, w, b)

    args = (torch.randn(sizes), torch.randn(4, 5), torch.randn(3, 4))
    torch.export.save(torch.export.export(Rows(), args), tmp_path / "rows.pt2")
    check(str(tmp_path / "rows.pt2"), [(args, {})])


def test_writes_become_new_values(tmp_path: pathlib.Path) -> None:
    def write(x: torch.Tensor) -> Any:
        y = x + 1
        rows = y.view(-1)
        turned = y.t()
        y[0].mul_(2)
        y[:, 1:].add_(rows[:1])
        rows.relu_()
        return y, rows, turned

    path = exported(tmp_path, Function(write), torch.randn(3, 4))
    made = check(path, [((torch.randn(3, 4),), {})])
    assert not any(t.split(".")[1].endswith("_") for t in targets(made) if t.startswith("aten."))


def test_written_buffers_and_inputs_are_outputs(tmp_path: pathlib.Path) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(1)
            x[0].mul_(self.seen)
            return x.sum()

    path = exported(tmp_path, Counter(), torch.randn(2, 3))
    made = check(path, [((torch.randn(2, 3),), {})] * 2)
    kinds = [spec.kind.name for spec in made.graph_signature.output_specs]
    assert kinds == ["BUFFER_MUTATION", "USER_INPUT_MUTATION", "USER_OUTPUT"]


def test_graphs_inside_are_decomposed(tmp_path: pathlib.Path) -> None:
    def branch(x: torch.Tensor) -> Any:
        return torch.cond(
            x.sum() > 0, lambda t: torch.softmax(t, 0), lambda t: nn.functional.silu(t), (x,)
        )

    path = exported(tmp_path, Function(branch), torch.randn(4))
    check(path, [((torch.ones(4),), {}), ((-torch.ones(4),), {})])


def test_decomposing_again_changes_nothing(tmp_path: pathlib.Path) -> None:
    path = exported(tmp_path, nn.Conv2d(1, 2, 3), torch.randn(1, 1, 5, 5))
    once = ours.load(path).run_decompositions()
    assert str(once.run_decompositions()) == str(once)


def test_what_cannot_be_decomposed_is_named(tmp_path: pathlib.Path) -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        y = x + 0
        y.expand(2, 3).unfold(0, 1, 1).mul_(2)
        return y

    path = exported(tmp_path, Function(write), torch.randn(2, 3))
    with pytest.raises(NotImplementedError, match=r"'mul_' .* a write through aten::unfold"):
        ours.load(path).run_decompositions()


def operators(program: Any) -> list[str]:
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function"]


def test_a_table_chooses_what_is_decomposed(tmp_path: pathlib.Path) -> None:
    def compute(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.linear(x, w).add_(1)
        return torch.nn.functional.silu(y.reshape(-1))

    path = exported(tmp_path, Function(compute), torch.randn(2, 3), torch.randn(4, 3))
    want, made = torch.export.load(path), ours.load(path)
    for drop in (None, torch.ops.aten.silu.default):
        theirs, table = torch.export.default_decompositions(), ours.default_decompositions()
        if drop is not None:
            del theirs[drop], table[drop]
        there = operators(want.run_decompositions(theirs))
        assert operators(made.run_decompositions(table)) == there
    assert operators(made.run_decompositions({})) == operators(want.run_decompositions({}))

    def own(*args: object) -> None:
        """A decomposition of one's own."""

    with pytest.raises(NotImplementedError, match="a function of its own for aten::silu"):
        made.run_decompositions({torch.ops.aten.silu.default: own})


def test_command(tmp_path: pathlib.Path) -> None:
    path = exported(tmp_path, nn.Linear(4, 3), torch.randn(2, 4))
    out = str(tmp_path / "core.pt2")
    subprocess.run([COMMAND, "decompose", path, "-o", out], check=True)
    assert "aten.addmm.default" in targets(torch.export.load(out))
    done = subprocess.run([COMMAND, "decompose", path], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "-o FILE.pt2" in done.stderr


@pytest.mark.parametrize("seed", [3471, 5986])
def test_damaged_programs_are_refused_or_decompose(tmp_path: pathlib.Path, seed: int) -> None:
    """A hint of a bool that is an int; None for a tensor that a body takes."""
    path = tmp_path / "damaged.pt2"
    mutated_exports.save(seed, mutated_exports.PROGRAMS, path)
    args = [COMMAND, "decompose", str(path), "-o", str(tmp_path / "out.pt2")]
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3, 4), done.stderr


class WritesAll(nn.Module):
    def forward(self, x: Any) -> Any:
        y = x.clone()
        torch.ops.aten.slice.Tensor(y, 0, 0, 9223372036854775807).add_(1)
        return y * 2


def test_a_write_through_a_view_of_all_reaches_the_base(tmp_path: pathlib.Path) -> None:
    x = torch.ones(3)
    path = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(WritesAll(), (x,)), path)
    made = ours.load(str(path)).run_decompositions()
    assert torch.equal(made.module()(x), WritesAll()(x))


# Each found a mistake once, or needs a decomposition of a kind of its own.
OPERATORS = [
    "aten.linear.default", "aten.gelu_backward.default", "aten.einsum.default",
    "aten.lstm.input", "aten.sinc.out", "aten.addcmul_.default", "aten.where.ScalarOther",
    "aten.argwhere.default", "aten.zeros.default", "aten.binary_cross_entropy.default",
    "aten.upsample_bicubic2d.vec", "aten.fft_irfftn.default", "aten.diag_embed.default",
    "aten.max_unpool2d.default", "aten.col2im.default", "aten.multilabel_margin_loss.default",
    "aten.nan_to_num.default", "aten.roll.default", "aten.quantile.default",
]  # fmt: skip
SAMPLES: dict[str, list[Any]] = {
    "aten.linear.default": [((torch.ones(2, 3), torch.ones(4, 3)), {})],
    "aten.gelu_backward.default": [((torch.ones(3), torch.randn(3)), {})],
    "aten.sinc.out": [((2 * torch.ones(3),), {"out": torch.zeros(3)})],
    "aten.addcmul_.default": [((torch.ones(3), torch.randn(3), torch.randn(3)), {})],
    "aten.argwhere.default": [((torch.eye(3),), {})],
    "aten.zeros.default": [(([],), {}), (([2, 3],), {"dtype": torch.int64})],
    "aten.binary_cross_entropy.default": [((torch.rand(4), torch.rand(4)), {})],
    "aten.fft_irfftn.default": [((torch.randn(3, 4, dtype=torch.complex64), [4, 5]), {})],
    "aten.diag_embed.default": [((torch.randn(2, 3), 1, 0, 2), {})],
    "aten.max_unpool2d.default": [
        ((torch.ones(1, 2, 2), torch.tensor([[[0, 3], [9, 15]]]), [4, 4]), {})
    ],
    "aten.col2im.default": [
        ((torch.randn(1, 12, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]), {})
    ],
    "aten.multilabel_margin_loss.default": [
        ((torch.randn(2, 4), torch.tensor([[1, 3, -1, 0], [0, -1, 2, 2]])), {})
    ],
    "aten.nan_to_num.default": [((torch.tensor([1.0, float("nan"), float("inf")]),), {})],
    "aten.roll.default": [((torch.randn(2, 6), [1, -2], [0, 1]), {})],
}


def test_running_and_decomposing_do_not_mix(tmp_path: pathlib.Path) -> None:
    """An operator with a body and a decomposition: each is used for its purpose, in any order."""

    def loss(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.celu(nn.functional.binary_cross_entropy(x, x), 0.5)

    x = torch.rand(4)
    path = exported(tmp_path, Function(loss), x)
    for first in ("decompose", "run"):
        program = ours.load(path)
        if first == "run":
            program.module()(x)
        made = program.run_decompositions()
        assert not {n.target for n in made.graph.nodes} & {"aten.binary_cross_entropy.default"}
        check_same(loss(x), made.module()(x))
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            program.module()(x + 1)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    op = decompose_walk.TABLE[name]
    for sample in SAMPLES.get(name, []) + decompose_walk.given(name):
        assert decompose_walk.check(op, sample) == ""
