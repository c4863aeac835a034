"""run --memory: the predicted peak of a call is kept, and close to what the call takes."""

from __future__ import annotations

import json
import pathlib
import re

import pytest
from conftest import DATA, TOP

DIGITS = str(TOP / "examples" / "digits" / "digits.pt")


@pytest.mark.parametrize(
    "model, arguments", [(DIGITS, ["rand(256,1,8,8)"]), (str(DATA / "digits.pt2"), [])]
)
@pytest.mark.parametrize("threads", ["1", "4"])
def test_the_expected_peak_holds(run, model: str, arguments: list[str], threads: str) -> None:
    done = run("run", model, *arguments, "--memory", "--json", "--threads", threads)
    memory = json.loads(done.stdout)["memory"]
    assert (
        memory["by"] == "measured"
        and memory["before_bytes"] < memory["peak_bytes"] <= memory["expected_peak_bytes"]
    )
    assert memory["expected_peak_bytes"] < 2 * memory["peak_bytes"] + 1_000_000
    said = done.stderr
    assert (
        said.index("expected peak") < said.index("the peak was")
        and "measured by a run on copies" in said
    )


def test_a_limit_below_the_peak_ends_the_measuring_run(run, tmp_path: pathlib.Path) -> None:
    done = run("run", DIGITS, "rand(4096,1,8,8)", "--memory", "--max-bytes", "3000000", code=5)
    assert "expected peak" not in done.stderr and "3000000" in re.sub(r"[,_ ]", "", done.stderr)
    done = run(
        "run",
        DIGITS,
        "rand(2,1,8,8)",
        "--memory",
        "--max-bytes",
        "300000000",
        "-o",
        str(tmp_path / "y.npy"),
    )
    assert "--max-bytes stays the limit" in done.stderr and (tmp_path / "y.npy").exists()


def test_a_limit_that_leaves_no_room_for_packed_weights_is_no_error(
    run, tmp_path: pathlib.Path
) -> None:
    """The second product with a weight packs it, for good: the measured peak has no room for it."""
    torch = pytest.importorskip("torch")
    wide = torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 4))
    torch.jit.script(wide.eval()).save(str(tmp_path / "m.pt"))
    plain = run("run", str(tmp_path / "m.pt"), "ones(1,784)").stdout
    assert run("run", str(tmp_path / "m.pt"), "ones(1,784)", "--memory").stdout == plain


def test_the_call_that_is_measured_changes_nothing(run, tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")

    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.zeros(()))

        def forward(self, x):
            self.n += 1
            print("called")
            return x + torch.rand(2), self.n

    torch.jit.script(Counts()).save(str(tmp_path / "m.pt"))
    plain = run("run", str(tmp_path / "m.pt"), "zeros(2)").stdout
    assert (
        run("run", str(tmp_path / "m.pt"), "zeros(2)", "--memory").stdout == plain
        and plain.count("called") == 1
    )
