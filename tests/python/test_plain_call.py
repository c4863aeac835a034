"""The rule of docs/autograd.md: which calls record.  Without torch in processes of their own; with
it beside torch."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import rushlight

CODE = """
def affine(x: Tensor, w: Tensor, b: Tensor):
    for i in range(3):
        x = x * w + b
        x = x * w + b
    return x

def write(x: Tensor):
    return x.add_(1)

def quiet(x: Tensor):
    return x * 2, x.t(), x

def asks(x: Tensor):
    return torch.is_grad_enabled()
"""

HEAD = (
    "import sys, rushlight\n"
    f"unit = rushlight.CompilationUnit({CODE!r})\n"
    "count = rushlight.compile_counters\n"
    "def ones(*sizes, grad=False):\n"
    "    t = rushlight.ops.aten.ones(list(sizes))\n"
    "    t.requires_grad = grad\n"
    "    return t\n"
)


@pytest.fixture
def without_torch(tmp_path: pathlib.Path) -> Callable[..., None]:
    """Run a text in a process that has no torch."""

    def go(text: str, *args: Any) -> None:
        path = tmp_path / "program.py"
        path.write_text(HEAD + text + '\nassert "torch" not in sys.modules\n')
        done = subprocess.run(
            [sys.executable, str(path), *map(str, args)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr

    return go


def test_an_argument_that_requires_grad(without_torch: Callable[..., None]) -> None:
    without_torch("""
x, w, b = ones(64), ones(64, grad=True), ones(64)
y = unit.affine(x, w, b)
assert y.requires_grad and y.is_recorded and count()["group_calls"] == 0
y.sum().backward()
assert w.grad is not None and x.grad is None
with rushlight.no_grad():
    y = unit.affine(x, w, b)
# The second call has a plan, in which the loop is one group.
assert not y.requires_grad and count()["group_calls"] == 1 and count()["interpreted"] == 0
y = unit.affine(x, w.detach(), b)
assert not y.requires_grad and count()["group_calls"] == 2
assert [t.requires_grad for t in unit.quiet(ones(2, 2, grad=True))] == [True, True, True]
with rushlight.no_grad():
    assert [t.requires_grad for t in unit.quiet(ones(2, 2, grad=True))][::2] == [False, True]
""")


def test_writes_to_leaves(without_torch: Callable[..., None]) -> None:
    without_torch("""
w = ones(3, grad=True)
for write in (unit.write, lambda w: w.add_(1)):
    try:
        write(w)
    except RuntimeError as e:
        assert "a leaf Variable that requires grad is being used in an in-place operation." in str(e)
    else:
        raise AssertionError("written")
    with rushlight.no_grad():
        assert write(w) is w or write(w).requires_grad
assert w.requires_grad and float(w[0]) > 2
""")


def test_modes(without_torch: Callable[..., None]) -> None:
    without_torch("""
import threading
assert rushlight.is_grad_enabled() and not rushlight.is_inference_mode_enabled()
seen = []
with rushlight.no_grad():
    assert not rushlight.is_grad_enabled() and not unit.asks(ones(1))
    thread = threading.Thread(target=lambda: seen.append(rushlight.is_grad_enabled()))
    thread.start()
    thread.join()
    with rushlight.enable_grad():
        assert rushlight.is_grad_enabled() and unit.asks(ones(1))
    assert not rushlight.is_grad_enabled()
assert seen == [True]
with rushlight.inference_mode():
    assert rushlight.is_inference_mode_enabled() and not rushlight.is_grad_enabled()
    with rushlight.inference_mode(False):
        assert not rushlight.is_inference_mode_enabled() and rushlight.is_grad_enabled()
    assert not (ones(2, grad=True) * 2).requires_grad
assert rushlight.is_grad_enabled()
rushlight.set_grad_enabled(False)
assert not rushlight.is_grad_enabled()
rushlight.set_grad_enabled(True)
assert rushlight.is_grad_enabled()
with rushlight.set_grad_enabled(False):
    assert not rushlight.is_grad_enabled()
assert rushlight.is_grad_enabled()

def mode():
    "doc"
    return rushlight.is_grad_enabled()

def modes():
    got = yield rushlight.is_grad_enabled()
    yield got, rushlight.is_grad_enabled()
    return 7

for make in (lambda: rushlight.no_grad, rushlight.no_grad, lambda: rushlight.set_grad_enabled(False),
             lambda: rushlight.inference_mode, rushlight.inference_mode):
    decorator = make()
    assert decorator(mode)() is False and decorator(mode).__doc__ == "doc" and rushlight.is_grad_enabled()
    generator = decorator(modes)()
    assert next(generator) is False and rushlight.is_grad_enabled() and generator.send(3) == (3, False)
    try:
        next(generator)
    except StopIteration as end:
        assert end.value == 7
with rushlight.no_grad():
    assert rushlight.enable_grad(mode)() is True
try:
    with rushlight.no_grad():
        raise KeyError
except KeyError:
    assert rushlight.is_grad_enabled()
""")


def test_single_operators_record(without_torch: Callable[..., None]) -> None:
    without_torch("""
import copy
x = ones(2, 3)
x.requires_grad_()
(x * 3).sum().backward()
assert x.grad.tolist() == [[3.0] * 3] * 2
x.grad = None
y = unit.quiet(x * 3)[0]            # behind a function, and before one
(y[0] + 1).square().sum().backward()
assert x.grad.tolist() == [[2 * 7.0 * 6] * 3, [0.0] * 3]
z = x.detach() * 2
z[0] = x[1] * 5                     # a write to what requires nothing yet
assert z.requires_grad and z.is_recorded
x.grad = None
z.sum().backward()
assert x.grad.tolist() == [[0.0] * 3, [5.0] * 3]
assert not (x.detach() * 2).requires_grad
w = ones(4, grad=True)
for _ in range(50):                 # an optimizer
    w.grad = None
    ((w - 3) ** 2).sum().backward()
    with rushlight.no_grad():
        w.sub_(w.grad * 0.1)
assert all(abs(v - 3) < 1e-3 for v in w.tolist()) and w.requires_grad
twin = copy.deepcopy(w)
assert twin.requires_grad and not twin.is_recorded and copy.copy(w).requires_grad
assert not rushlight.tensor(w).requires_grad and rushlight.as_tensor(w, dtype=rushlight.float64).is_recorded
for wrong, words in ((lambda: copy.deepcopy(w * 2), "graph leaves"),
                     (lambda: ones(2).sum().backward(), "does not require grad"),
                     (lambda: (w * 2).backward(), "scalar outputs"),
                     (lambda: setattr(w * 2, "requires_grad", False), "leaf variables"),
                     (lambda: setattr(rushlight.tensor([1]), "requires_grad", True), "floating point")):
    try:
        wrong()
    except RuntimeError as e:
        assert words in str(e), e
    else:
        raise AssertionError(words)
""")


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A chain with parameters, as users save it: requires_grad stays.  In eval and training mode,
    and a module that writes."""
    torch = pytest.importorskip("torch")

    class Chain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b = torch.nn.Parameter(torch.rand(64)), torch.nn.Parameter(torch.rand(64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x * self.w + self.b
            x = x * self.w + self.b
            return x * self.w + self.b

    class Writes(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.state = torch.nn.Parameter(torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.state.mul_(0.5)
            self.state[1:3] += x
            return self.state * 2

    folder = tmp_path_factory.mktemp("plain")
    torch.jit.script(Chain().eval()).save(str(folder / "chain.pt"))
    torch.jit.script(Chain().train()).save(str(folder / "train.pt"))
    torch.jit.script(Writes().eval()).save(str(folder / "writes.pt"))
    torch.export.save(
        torch.export.export(Chain().eval(), (torch.rand(3, 64),)), str(folder / "chain.pt2")
    )
    return folder


@pytest.mark.parametrize("name", ["chain.pt", "chain.pt2"])
def test_inference_records_nothing(
    without_torch: Callable[..., None], archives: pathlib.Path, name: str
) -> None:
    without_torch(
        """
model = rushlight.load(sys.argv[1])
y = model(ones(3, 64))
assert not y.requires_grad and not y.is_recorded and not (y + 1).requires_grad
assert count()["group_calls"] == 1 and count()["interpreted"] == 0
x = ones(3, 64, grad=True)
y = model(x)
assert count()["interpreted"] == 0
y.sum().backward()
assert x.grad is not None
had = count()["interpreted"]
with rushlight.enable_grad():
    y = model(ones(3, 64))
assert y.is_recorded and count()["interpreted"] == had
""",
        archives / name,
    )


def test_training_mode_records(without_torch: Callable[..., None], archives: pathlib.Path) -> None:
    without_torch(
        """
model = rushlight.load(sys.argv[1])
assert model(ones(3, 64)).is_recorded
model.eval()
assert not model(ones(3, 64)).requires_grad
model.train()
model(ones(3, 64)).sum().backward()
assert all(p.grad is not None for p in model.parameters())
with rushlight.no_grad():
    for p in model.parameters():
        p.sub_(p.grad * 0.01)
    assert not model(ones(3, 64)).requires_grad
""",
        archives / "train.pt",
    )


def test_programs_that_write_to_parameters(
    without_torch: Callable[..., None], archives: pathlib.Path, run: Callable[..., Any]
) -> None:
    without_torch(
        "y = rushlight.load(sys.argv[1])(ones(2))\nassert y.tolist() == [0, 2, 2, 0]",
        archives / "writes.pt",
    )
    assert "2., 2." in run("run", str(archives / "writes.pt"), "ones(2)").stdout


@pytest.mark.parametrize("name", ["chain.pt", "chain.pt2"])
def test_the_command_compiles_groups(
    run: Callable[..., Any], archives: pathlib.Path, name: str
) -> None:
    import json

    run("run", str(archives / name), "ones(3,64)")
    assert "rushlight::pointwise" in run("show", "--groups", str(archives / name)).stdout
    profile = run("bench", str(archives / name), "ones(3,64)", "--json").stdout
    assert json.loads(profile)


@pytest.mark.parametrize("before", ["nothing", "a quantized tensor"])
def test_with_torch(archives: pathlib.Path, before: str) -> None:
    torch = pytest.importorskip("torch")
    if before != "nothing":  # calls are looked at more closely from then on
        rushlight.ops.aten.quantize_per_tensor(torch.rand(3), 0.1, 0, 13)
    model = rushlight.load(str(archives / "chain.pt"))
    x = torch.rand(3, 64)
    model(x).sum().backward()  # torch's habits, in eval mode too
    assert all(p.grad is not None for p in model.parameters())
    had = rushlight.compile_counters()
    with torch.no_grad():
        y = model(x)
    after = rushlight.compile_counters()
    assert not y.requires_grad and after["group_calls"] == had["group_calls"] + 1
    assert after["interpreted"] == had["interpreted"]
    with torch.no_grad():
        assert model(x).t().requires_grad is False


def test_modes_follow_torch() -> None:
    torch = pytest.importorskip("torch")
    with rushlight.no_grad():
        assert not torch.is_grad_enabled() and not rushlight.is_grad_enabled()
        with rushlight.enable_grad():
            assert torch.is_grad_enabled() and rushlight.is_grad_enabled()
    with torch.no_grad():
        assert not rushlight.is_grad_enabled()
    with rushlight.inference_mode():
        assert torch.is_inference_mode_enabled() and rushlight.is_inference_mode_enabled()
    rushlight.set_grad_enabled(False)
    assert not torch.is_grad_enabled()
    rushlight.set_grad_enabled(True)
    assert rushlight.no_grad(torch.is_grad_enabled)() is False and torch.is_grad_enabled()


def test_operators_on_torch_tensors_record() -> None:
    torch = pytest.importorskip("torch")
    x = torch.rand(3, requires_grad=True)
    rushlight.ops.aten.mul(x, 3).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]
    x.grad = None
    y = x * 2
    rushlight.ops.aten.mul_(y, 3)
    y.sum().backward()
    assert x.grad.tolist() == [6, 6, 6]
    with torch.no_grad():
        assert rushlight.ops.aten.mul(x, 3).grad_fn is None
    y = (
        x * 2
    )  # what it needs is overwritten, whether it is the same tensor or another one on its memory
    for other in (y, y.detach()):
        rushlight.ops.aten.mul_(y, other)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
    ours = rushlight.as_tensor(torch.rand(3))
    ours.requires_grad_()
    (ours * 3).sum().backward()
    assert ours.grad.tolist() == [3, 3, 3]
