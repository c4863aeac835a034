"""Loading and calling archives from Python, without torch."""

from __future__ import annotations

import io
import pathlib
import threading
import time

import pytest
import rushlight
from conftest import DATA

np = pytest.importorskip("numpy")


def probabilities(model: rushlight.ScriptModule) -> list:
    x = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
    return np.asarray(model(x)).round(5).tolist()


def test_loads_from_a_path_bytes_and_a_file(digits: pathlib.Path) -> None:
    want = probabilities(rushlight.load(digits))
    assert probabilities(rushlight.load(str(digits))) == want
    assert probabilities(rushlight.load(digits.read_bytes())) == want
    assert probabilities(rushlight.load(io.BytesIO(digits.read_bytes()))) == want
    assert probabilities(rushlight.load(digits, check_full=True, copy=True)) == want
    with digits.open("rb") as file:
        assert probabilities(rushlight.load(file)) == want


def test_both_formats_agree(digits: pathlib.Path) -> None:
    assert probabilities(rushlight.load(digits)) == probabilities(
        rushlight.load(DATA / "digits.pt2")
    )


def test_methods_and_printing(capfd: pytest.CaptureFixture) -> None:
    life = rushlight.load(DATA / "life.pt")
    assert life.methods() == ["forward", "step"]
    assert repr(life).endswith("ScriptModule(original_name=Life)")
    assert "generations" in life.forward.schema
    assert life.forward.name == "forward"
    assert "aten::" in str(life.forward.graph) and "def forward" in life.code
    assert life(4) == 5
    assert life(generations=4) == 5
    board = life.step(life.board)
    assert int(board.sum()) == 5


def test_prints_go_to_sys_stdout(capsys: pytest.CaptureFixture) -> None:
    rushlight.load(DATA / "life.pt")(0)
    assert (
        capsys.readouterr().out
        == ".#..........\n..#.........\n###.........\n" + "............\n" * 5
    )


def test_state() -> None:
    life = rushlight.load(DATA / "life.pt")
    state = life.state_dict()
    assert list(state) == ["board"] and list(life.named_parameters()) == []
    assert [name for name, _ in life.named_buffers()] == ["board"]
    glider = np.asarray(state["board"]).copy()
    life.load_state_dict({"board": np.zeros_like(glider)})
    assert int(life.board.sum()) == 0
    with pytest.raises(RuntimeError, match="unexpected: other"):
        life.load_state_dict({"board": glider, "other": glider})
    with pytest.raises(ValueError, match="dtype and sizes"):
        life.load_state_dict({"board": glider[:2]})
    other = rushlight.load(DATA / "life.pt")
    assert int(other.board.sum()) == 5, "instances do not see each other's state"
    copy = other.copy()
    copy.load_state_dict({"board": np.zeros_like(glider)})
    assert int(other.board.sum()) == 5


def test_attributes_can_be_assigned() -> None:
    life = rushlight.load(DATA / "life.pt")
    assert life.training is True
    assert life.eval() is life and life.training is False
    life.training = True
    assert life.training is True
    with pytest.raises((TypeError, RuntimeError), match="training"):
        life.training = "yes"
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        life.colour  # noqa: B018
    life.colour = 3
    assert life.colour == 3, "an attribute of Python's object, which the program does not see"


def test_parameters_are_the_modules_memory() -> None:
    model = rushlight.load(DATA / "digits.pt2")
    before = probabilities(model)
    bias = dict(model.named_parameters())["out.bias"]
    (bias.detach() if hasattr(bias, "detach") else bias)[0].fill_(
        50.0
    )  # torch's, where another test imported it
    assert probabilities(model) != before and probabilities(model)[0][0] == 1.0


def test_refusals(tmp_path: pathlib.Path, digits: pathlib.Path) -> None:
    with pytest.raises(OSError, match="nofile.pt"):
        rushlight.load("nofile.pt")
    with pytest.raises(RuntimeError, match="zip archive"):
        rushlight.load(b"not an archive")
    with pytest.raises(TypeError, match="path, bytes or a binary file"):
        rushlight.load(17)
    broken = bytearray(digits.read_bytes())
    (tmp_path / "short.pt").write_bytes(broken[: len(broken) // 2])
    with pytest.raises(RuntimeError, match=r"short\.pt"):
        rushlight.load(tmp_path / "short.pt")
    model = rushlight.load(digits)
    with pytest.raises(RuntimeError, match="forward"):
        model()
    with pytest.raises(RuntimeError, match="expected at most"):
        model(np.zeros((1, 1, 8, 8), np.float32), what=1)
    with pytest.raises(AssertionError, match="size"):
        rushlight.load(DATA / "digits.pt2")(np.zeros((1, 1, 9, 8), np.float32))


def test_the_gil_is_released_while_running() -> None:
    """Another thread counts while a call of a tenth of a second runs."""
    life = rushlight.load(DATA / "life.pt")
    life.load_state_dict({"board": np.zeros((8, 12), np.int64)})
    counted, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    a = np.random.default_rng(0).random((1200, 1200), dtype=np.float32)
    before = counted[0]
    for _ in range(3):
        rushlight.ops.aten.matmul(a, a)
    during = counted[0] - before
    stop.set()
    thread.join()
    assert during > 10


def test_many_threads_call_one_module(digits: pathlib.Path) -> None:
    model = rushlight.load(digits)
    want, got = probabilities(model), []

    def work() -> None:
        got.extend(probabilities(model) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 80 and all(one == want for one in got)
