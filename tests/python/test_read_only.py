"""Memory that may not be written to: mapped files, bytes, arrays marked so.  Programs that would
write to it are refused."""

from __future__ import annotations

import mmap
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import rushlight

np = pytest.importorskip("numpy")

REFUSED = "is read-only: it would be written to"
PROGRAMS = rushlight.CompilationUnit("""
def add(x: Tensor) -> Tensor:
    return x.add_(1)
def view(x: Tensor) -> Tensor:
    y = x.view(2, 2)[1:]
    y.mul_(2)
    return x
def put(x: Tensor) -> Tensor:
    x[1:3] = 5
    return x
def put_mask(x: Tensor) -> Tensor:
    x[x > -1] = 5
    return x
def out(x: Tensor) -> Tensor:
    return torch.add(x, 1, out=x)
def copied(x: Tensor) -> Tensor:
    return x.copy_(torch.ones(4))
def random(x: Tensor) -> Tensor:
    return x.uniform_()
def filled(x: Tensor) -> Tensor:
    return x.t().fill_(3.0)
def in_list(x: Tensor) -> Tensor:
    torch.unbind_copy(torch.ones(2, 4), 0, out=[torch.zeros(4), x])
    return x
def norm(x: Tensor) -> Tensor:
    torch.batch_norm(torch.ones(3, 4), None, None, x, torch.ones(4), True, 0.1, 1e-5, False)
    return x
def stats(x: Tensor) -> Tensor:
    torch.instance_norm(torch.ones(3, 4, 2), None, None, torch.ones(4), x, True, 0.1, 1e-5, False)
    return x
def set_item(x: Tensor) -> Tensor:
    d = {"x": x}
    d["x"] += 1
    return x
""")
NAMES = "add view put put_mask out copied random filled in_list norm stats set_item".split()


def mapped(tmp_path: pathlib.Path) -> Any:
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.float32))
    return np.load(tmp_path / "x.npy", mmap_mode="r")


def of_bytes(tmp_path: pathlib.Path) -> Any:
    return np.frombuffer(np.arange(4, dtype=np.float32).tobytes(), np.float32)


def marked(tmp_path: pathlib.Path) -> Any:
    made = np.arange(4, dtype=np.float32)
    made.flags.writeable = False
    return made


def exposed(tmp_path: pathlib.Path) -> Any:
    (tmp_path / "x").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    with open(tmp_path / "x", "rb") as f:
        return memoryview(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)).cast("f")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", [mapped, of_bytes, marked, exposed])
def test_programs_that_write_are_refused(
    make: Callable[[pathlib.Path], Any], name: str, tmp_path: pathlib.Path
) -> None:
    x = make(tmp_path)
    before = list(x)
    run = getattr(PROGRAMS, name)
    for given in (x, rushlight.as_tensor(x)):
        with pytest.raises((ValueError, RuntimeError), match=REFUSED):
            run(given)
    assert list(x) == before
    run(np.array(x))  # a copy may be written to


def test_reading_is_as_ever(tmp_path: pathlib.Path) -> None:
    x = mapped(tmp_path)
    t = rushlight.as_tensor(x)
    assert (t * 2).tolist() == [0.0, 2.0, 4.0, 6.0] and t.sum().item() == 6.0
    same = rushlight.CompilationUnit("def f(x: Tensor):\n    return x, x[1:]\n").f(x)
    assert same[0] is x and not same[1].flags.writeable and np.shares_memory(same[1], x)
    copy = t.clone()
    copy += 1  # a copy's memory is its own
    assert copy.tolist() == [1.0, 2.0, 3.0, 4.0]
    t.squeeze_().requires_grad_(False)  # no element is written


def test_what_comes_out_is_read_only_too() -> None:
    t = rushlight.as_tensor(of_bytes(pathlib.Path()))
    assert (
        not t.numpy().flags.writeable
        and not np.asarray(t[1:]).flags.writeable
        and memoryview(t).readonly
    )
    assert not np.from_dlpack(t).flags.writeable
    back = rushlight.from_dlpack(np.from_dlpack(t))
    with pytest.raises((ValueError, RuntimeError), match=REFUSED):
        back += 1
    with pytest.raises(BufferError, match="read-only"):
        t.__dlpack__()
    with pytest.raises(BufferError):
        t.__dlpack__(max_version=(0, 8))
    with pytest.raises(BufferError, match="CPU"):
        t.__dlpack__(dl_device=(2, 0), max_version=(1, 0))
    copied = np.from_dlpack(t, copy=True)
    copied += 1
    assert copied.tolist() == [1.0, 2.0, 3.0, 4.0] and t.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert np.asarray(t + 1).flags.writeable


def test_what_modules_keep_is_copied() -> None:
    model = rushlight.load(str(pathlib.Path(__file__).parents[1] / "data" / "life.pt"))
    board = np.asarray(model.board).copy()
    board.flags.writeable = False
    model.board = board
    assert np.asarray(model.board).flags.writeable and np.array_equal(
        np.asarray(model.board), board
    )


def test_torch_gets_copies_and_gives_none() -> None:
    torch = pytest.importorskip("torch")
    x = of_bytes(pathlib.Path())
    view = rushlight.CompilationUnit("def f(x: Tensor, y: Tensor):\n    return x[1:], y\n").f(
        x, torch.ones(1)
    )[0]
    view += 1
    assert view.tolist() == [2.0, 3.0, 4.0] and x.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "make",
    [
        "torch.ones(2, dtype=torch.complex64).conj()",
        "torch._neg_view(torch.ones(2))",
        "torch._efficientzerotensor(2)",
    ],
)
def test_stand_ins_for_torchs_tensors_are_not_written_to(make: str) -> None:
    torch = pytest.importorskip("torch")
    x = eval(make, {"torch": torch})
    assert rushlight.ops.aten.add(x, 1).tolist() == (x + 1).tolist()
    with pytest.raises((ValueError, RuntimeError), match=REFUSED):
        PROGRAMS.add(x)


def test_quantized_tensors_of_torch_are_not_written_to() -> None:
    torch = pytest.importorskip("torch")
    x = torch.quantize_per_tensor(torch.tensor([-1.0, 1.0]), 0.1, 10, torch.quint8)
    f = rushlight.CompilationUnit(
        "def f(x: Tensor):\n    return torch.relu_(x)\ndef g(x: Tensor):\n    return "
        "torch.relu(x)\n"
    )
    assert f.g(x).dequantize().tolist() == torch.relu(x).dequantize().tolist()
    with pytest.raises((ValueError, RuntimeError), match=REFUSED):
        f.f(x)


def test_lazy_copies_of_torch_keep_to_themselves() -> None:
    torch = pytest.importorskip("torch")
    first = torch.zeros(4)
    second = torch._lazy_clone(first)
    PROGRAMS.add(second)
    assert first.tolist() == [0.0] * 4 and second.tolist() == [1.0] * 4
