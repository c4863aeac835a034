"""Exported programs of many nodes: every step takes time in proportion to the program.

Each kind of program is made with N nodes and with 8 * N, and the processor time of each step is
compared: what is quadratic takes 64 times as long, what is linear 8 times.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable
from typing import Any

import pytest
import rushlight
import rushlight.export

N, TIMES, MOST = 1500, 8, 30
BODIES: dict[str, Callable[[int], list[str]]] = {
    "a chain": lambda n: ["z = z + 1"] * n,
    "sizes that depend on data": lambda n: (
        ["w = torch.masked_select(x, z > 0)", "z = z + w.sum() + w.size(0)"] * (n // 2)
    ),
    "numbers of data": lambda n: ["z = z + int(y[0].item()) * x.size(0)"] * (n // 3),
    "writes through views": lambda n: ["z = z + 1"] + ["z[0].add_(1)"] * (n // 2),
    "a list": lambda n: [
        "l = [z]",
        *["l.append(z + 1)"] * (n // 2),
        *(f"z = z + l[{i}]" for i in range(n // 2)),
    ],
    "branches": lambda n: ["z = z + 1 if bool((z > 0).all()) else z * 2"] * (n // 5),
}


def archive(run: Any, folder: pathlib.Path, kind: str, n: int) -> Any:
    lines = ["def forward(x: Tensor, y: Tensor) -> Tensor:", "z = x", *BODIES[kind](n), "return z"]
    source, model = folder / f"model_{n}.py", folder / f"model_{n}.pt"
    source.write_text("\n    ".join(lines) + "\n")
    run("script", str(source), "-o", str(model), "--method", "forward")
    return rushlight.load(str(model))


def steps(model: Any, file: pathlib.Path) -> dict[str, float]:
    """The seconds of each step."""
    took: dict[str, float] = {}

    def timed(name: str, f: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = f()
        took[name] = time.process_time() - start
        return result

    example = (rushlight.ones(3, 2), rushlight.tensor([1, 2]))
    rows = {"x": {0: rushlight.export.Dim.AUTO}}
    made = timed("capture", lambda: rushlight.export.export(model, example, dynamic_shapes=rows))
    timed("write", lambda: rushlight.export.save(made, str(file)))
    read = timed("read", lambda: rushlight.export.load(str(file)))
    timed("show", lambda: str(read))
    timed("verify", lambda: read.validate())
    timed("lower", lambda: rushlight.load(str(file)))
    timed("decompose", lambda: read.run_decompositions())
    return took


@pytest.mark.parametrize("kind", BODIES)
def test_time_grows_with_the_program(run: Any, tmp_path: pathlib.Path, kind: str) -> None:
    small, large = (archive(run, tmp_path, kind, n) for n in (N, N * TIMES))
    file = tmp_path / "program.pt2"
    one = [steps(small, file) for _ in range(3)]
    many = steps(large, file)
    assert len(list(rushlight.export.load(str(file)).graph.nodes)) > N * TIMES // 2
    for name, took in many.items():
        least = max(min(each[name] for each in one), 0.001)  # what is less is mostly noise
        assert took < MOST * least, f"{name}: {took:.3f} s, and {least:.3f} s for 1/{TIMES}"


def test_a_long_text_of_short_expressions(run: Any, tmp_path: pathlib.Path) -> None:
    """What limits the text of an expression does not limit the text of a program."""
    model = archive(run, tmp_path, "sizes that depend on data", 16000)
    example = (rushlight.ones(3, 2), rushlight.tensor([1, 2]))
    rows = {"x": {0: rushlight.export.Dim.AUTO}}
    made = rushlight.export.export(model, example, dynamic_shapes=rows)
    file = tmp_path / "program.pt2"
    rushlight.export.save(made, str(file))
    assert file.stat().st_size > 1 << 23  # twice the limit at least
