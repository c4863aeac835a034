"""record and verify: what is written, that it comes out again, and where two models part."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

np = pytest.importorskip("numpy")

import rushlight  # noqa: E402
from conftest import DATA, TOP  # noqa: E402

DIGITS = str(TOP / "examples" / "digits" / "digits.pt")
Run = Callable[..., subprocess.CompletedProcess]


@pytest.fixture
def programs(tmp_path: pathlib.Path) -> tuple[str, str]:
    """Two archives of one module with different weights."""
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x, n: int = 2):
            y = torch.relu(self.a(x)) * n
            self.calls += 1
            return torch.softmax(self.b(y), -1) + self.calls, y

    net = Net()
    torch.jit.script(net).save(str(tmp_path / "one.pt"))
    with torch.no_grad():
        net.b.bias[2] += 0.25
    torch.jit.script(net).save(str(tmp_path / "two.pt"))
    return str(tmp_path / "one.pt"), str(tmp_path / "two.pt")


# -- The command
# ---------------------------------------------------------------------------------------


def test_what_the_command_records_is_verified(run: Run, tmp_path: pathlib.Path) -> None:
    calls = str(tmp_path / "calls.pt")
    assert "1 call" in run("record", DIGITS, "rand(2,1,8,8)", "-o", calls).stdout
    done = run("record", DIGITS, "x=rand(3,1,8,8)", "-o", calls, "--append", "--json")
    assert json.loads(done.stdout) == {"file": calls, "calls": 2}
    assert run("verify", DIGITS, calls).stdout == "1 passed, 0 failed\n"
    recorded = rushlight.load_value(calls)
    assert recorded["format"] == 1 and len(recorded["calls"]) == 2
    first, second = recorded["calls"]
    assert first["method"] == "forward" and first["result"].shape == (2, 10)
    assert second["args"] == () and list(second["kwargs"]) == ["x"]
    (rtol, atol), size = first["tolerances"][0], np.abs(np.asarray(first["result"])).max()
    assert rtol == 1e-5 and atol == pytest.approx(1e-5 * size)
    run("record", DIGITS, "rand(2,1,8,8)", "-o", calls, "--rtol", "0.25")
    assert rushlight.load_value(calls)["calls"][0]["tolerances"] == [(0.25, 0.0)]


def test_a_wrong_result_fails_unless_the_tolerance_is_wide(
    run: Run, tmp_path: pathlib.Path
) -> None:
    calls = str(tmp_path / "calls.pt")
    run("record", DIGITS, "rand(2,1,8,8)", "-o", calls)
    recorded = rushlight.load_value(calls)
    wrong = np.array(recorded["calls"][0]["result"])
    wrong[1, 3] += 0.5
    recorded["calls"][0]["result"] = wrong
    rushlight.save_value(calls, recorded)
    done = run("verify", DIGITS, calls, code=1)
    assert "values differ by up to 0.5, at [1, 3]:" in done.stdout
    run("verify", DIGITS, calls, "--atol", "0.6")
    run("verify", DIGITS, calls, "--atol", "-1", code=2)


def test_a_call_that_raises_is_recorded_only_on_request(run: Run, tmp_path: pathlib.Path) -> None:
    calls = tmp_path / "calls.pt"
    done = run("record", DIGITS, "rand(2)", "-o", str(calls), code=4)
    assert "--raises" in done.stderr and not calls.exists()
    run("record", DIGITS, "rand(2)", "-o", str(calls), "--raises")
    run("verify", DIGITS, str(calls))
    run("record", DIGITS, "rand(2,1,8,8)", code=2)
    assert "sample inputs" in run("record", str(DATA / "digits.pt2"), "-o", str(calls)).stderr


# -- Python
# --------------------------------------------------------------------------------------------


def test_calls_are_recorded_as_they_happen(run: Run, tmp_path: pathlib.Path) -> None:
    calls, x = str(tmp_path / "calls.pt"), np.random.default_rng(0).random((2, 1, 8, 8), np.float32)
    model = rushlight.load(DIGITS)
    with rushlight.record(model, calls) as recording:
        want = model(x)
        model.forward(x=x[:1])
        with pytest.raises(RuntimeError):
            model(x[0, 0, 0])
    model(x)  # outside
    assert len(recording) == 3 and np.array_equal(recording.calls[0]["result"], want)
    assert [
        sorted(set(c) - {"method", "args", "kwargs", "tolerances", "seed"}) for c in recording.calls
    ] == [
        ["result"],
        ["result"],
        ["raises"],
    ]
    assert run("verify", DIGITS, calls).stdout == "1 passed, 0 failed\n"
    results = rushlight.record_calls(model, [x, (x[:1],), {"x": x}], calls)
    assert np.array_equal(results[0], results[2]) and results[1].shape == (1, 10)
    run("verify", DIGITS, calls)


def test_a_block_that_raises_writes_nothing(tmp_path: pathlib.Path) -> None:
    model = rushlight.load(DIGITS)
    with pytest.raises(KeyError), rushlight.record(model, tmp_path / "calls.pt"):
        model(np.zeros((1, 1, 8, 8), np.float32))
        raise KeyError
    assert not (tmp_path / "calls.pt").exists()
    with (
        rushlight.record(model),
        pytest.raises(RuntimeError, match="recorded already"),
        rushlight.record(model),
    ):
        pass
    with pytest.raises(TypeError, match="takes a model"):
        rushlight.record(3)
    with pytest.raises(TypeError, match="through the recording"), rushlight.record(len):
        pass


def test_state_random_numbers_and_written_arguments(run: Run, tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")

    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.zeros(()))

        def forward(self, x):
            self.n += 1
            return x + self.n

        @torch.jit.export
        def noisy(self, x):
            return x + torch.rand_like(x)

        @torch.jit.export
        def writes(self, x, names: dict[str, float]):
            x.add_(1)
            return names["a"], float("nan"), [x, x * 2], "text", True, 2 + 3j

    path, calls = str(tmp_path / "odd.pt"), str(tmp_path / "calls.pt")
    torch.jit.script(Odd()).save(path)
    for model in (rushlight.load(path), rushlight.load(path)):
        with rushlight.record(model, calls) as recording:
            x = torch.ones(2, 3)
            model(x), model(x)
            model.noisy(x)
            model.noisy(x)
            model.writes(x, {"a": 0.1})
        first, second = (recording.calls[i] for i in (0, 1))
        assert not torch.equal(first["result"], second["result"])
        assert "seed" in recording.calls[2] and torch.equal(
            recording.calls[2]["result"], recording.calls[3]["result"]
        )
        assert torch.equal(recording.calls[4]["args_after"][0], torch.full((2, 3), 2.0))
        assert run("verify", path, calls).stdout == "1 passed, 0 failed\n"


def test_pytorchs_answers_are_recorded(
    run: Run, programs: tuple[str, str], tmp_path: pathlib.Path
) -> None:
    torch = pytest.importorskip("torch")
    calls = str(tmp_path / "calls.pt")
    theirs = torch.jit.load(programs[0])
    with rushlight.record(theirs, calls):
        theirs(torch.randn(2, 3))
        theirs(torch.randn(4, 3), n=3)
    run("verify", programs[0], calls)
    function = rushlight.record(lambda x: x * 2)
    assert function(3) == 6 and function.calls[0]["result"] == 6
    with pytest.raises(TypeError, match="cannot be part of a recorded call"):
        function(object())


def test_recorded_instances_are_plain(tmp_path: pathlib.Path, run: Run) -> None:
    torch = pytest.importorskip("torch")
    import collections

    class Takes(torch.nn.Module):
        def forward(self, d):
            return collections.OrderedDict(z=d["a"] + 1)

    path, calls = str(tmp_path / "m.pt2"), str(tmp_path / "calls.pt")
    given = collections.OrderedDict(a=torch.ones(2))
    torch.export.save(torch.export.export(Takes(), (given,)), path)
    model = rushlight.load(path)
    with rushlight.record(model, calls) as recording:
        assert type(model(given)) is collections.OrderedDict
    assert type(recording.calls[0]["args"][0]) is dict
    run("verify", path, calls)


def test_without_torch(tmp_path: pathlib.Path, run: Run) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import rushlight\n"
        f"model = rushlight.load({DIGITS!r})\n"
        f"with rushlight.record(model, {str(tmp_path / 'calls.pt')!r}):\n"
        "    model(rushlight.zeros(2, 1, 8, 8))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    run("verify", DIGITS, str(tmp_path / "calls.pt"))


# -- Two models
# ----------------------------------------------------------------------------------------


def test_the_first_node_that_differs_is_named(
    run: Run, programs: tuple[str, str], tmp_path: pathlib.Path
) -> None:
    one, two = programs
    done = run("verify", one, "--against", two, "randn(2,3)", code=1).stdout
    assert "call 0 (forward): result[0]: values differ by up to" in done
    assert "the first node that differs is node" in done and "aten::linear: results[0]" in done
    assert "up to 0.25, at [" in done and "F.linear" in done
    assert done.endswith("0 the same, 1 different\n")
    lines = run(
        "verify", one, "--against", two, "randn(2,3)", "n=3", "--json", code=1
    ).stdout.splitlines()
    call, total = map(json.loads, lines)
    assert (
        call["node"]["operator"] == call["node"]["other"] == "aten::linear"
        and not call["node"]["parted"]
    )
    assert (
        call["largest_difference"] > 0.01
        and call["at"].startswith("result[0][")
        and total == {"same": 0, "different": 1}
    )
    done = run("verify", one, "--against", one, "randn(2,3)").stdout
    assert done == "call 0 (forward): the same in every bit\n1 the same, 0 different\n"
    run("verify", one, "--against", two, "randn(2,3)", "--atol", "0.5")


def test_recorded_calls_are_compared_in_order(
    run: Run, programs: tuple[str, str], tmp_path: pathlib.Path
) -> None:
    """The state that earlier calls left is part of the third."""
    one, calls = programs[0], str(tmp_path / "calls.pt")
    model = rushlight.load(one)
    with rushlight.record(model, calls):
        for _ in range(3):
            model(np.ones((2, 3), np.float32))
    done = run("verify", one, "--against", one, calls).stdout
    assert done.count("the same in every bit") == 3
    other = rushlight.load(one)
    other(np.ones((2, 3), np.float32))
    ahead = str(tmp_path / "ahead.pt")
    rushlight.save(other, ahead)
    done = run("verify", one, "--against", ahead, calls, code=1).stdout
    assert done.count("aten::add_") == 3 and "self.calls += 1" in done


def test_programs_of_different_operators_part(run: Run, programs: tuple[str, str]) -> None:
    done = run("verify", programs[0], "--against", DIGITS, "randn(2,3)", code=1).stdout
    assert "the other raised RuntimeError" in done and "part" in done
    run("verify", programs[0], "--against", programs[1], "--stack", "65536", code=2)
    run("verify", str(TOP / "tests"), "--against", programs[1], code=2)


def test_an_archive_and_an_exported_program_are_compared(run: Run, tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)

        def forward(self, x):
            return torch.relu(self.norm(self.conv(x))).mean([2, 3])

    net = Net().eval()
    x = torch.randn(2, 3, 8, 8)
    torch.export.save(torch.export.export(net, (x,)), tmp_path / "net.pt2")
    torch.jit.trace(net, x).save(str(tmp_path / "net.pt"))
    done = run("verify", str(tmp_path / "net.pt2"), "--against", str(tmp_path / "net.pt")).stdout
    assert done.startswith("call 0 (forward): the same")


def test_help_names_record(run: Run) -> None:
    assert "record MODEL [ARG...]" in run("help", "record").stdout
    assert "--against" in run("help", "verify").stdout
    done: Any = run("recrod", "x.pt", code=2)
    assert "did you mean 'record'" in done.stderr
