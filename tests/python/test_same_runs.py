"""Each executor does the same: values, memory that results share, arguments and state after the
call, prints, random states, versions, gradients, errors with tracebacks (executor_runs.py)."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import executor_runs
import pytest
import random_run
import rushlight
from executor_runs import MODES, Difference, difference, observe

try:
    import probes
    import script_programs_classes  # noqa: F401
    import script_programs_corners  # noqa: F401
    import script_programs_flow  # noqa: F401
    import script_programs_modules  # noqa: F401
    import script_programs_texts  # noqa: F401
    from script_programs import PROGRAMS as PROGRAMS_OF_PEOPLE
except pytest.skip.Exception:  # without torch
    PROGRAMS_OF_PEOPLE = {}

HEAD = """from typing import Any, Dict, List, Optional, Tuple
import torch
from torch import Tensor

"""

# Small programs, each with its calls of `run`.  Most were found by random programs.
PROGRAMS: dict[str, tuple[str, list[Any]]] = {
    "equal results in a tuple": (
        "def run(x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:\n    return x + 1, x + 1, x * 1\n",
        [[1.0, 2.0]],
    ),
    "equal items of lists": (
        "def run(x: Tensor) -> Tuple[List[Tensor], List[Tensor]]:\n"
        "    return [x + 1, x + 1], [x, x + 1, x * 1]\n",
        [[1.0, 2.0]],
    ),
    "a product with one of what is not dense": (
        "def run(x: Tensor) -> Tuple[Tensor, Tensor, bool]:\n"
        "    y = x.t() * 1\n    z = x[:, :1].expand(2, 3) * 1\n"
        "    return y.sin(), z.view(-1), y.is_contiguous()\n",
        [[[1.0, 2.0], [3.0, 4.0]]],
    ),
    "a view that needs no gradient": (
        "def run(x: Tensor) -> Tuple[Tensor, Tensor, bool]:\n"
        "    with torch.no_grad():\n        y = x.t().t()\n"
        "    return y, y * 2, x.expand(x.size()).requires_grad\n",
        [[[1.0, 2.0], [3.0, 4.0]]],
    ),
    "sizes that change in place": (
        "def run(x: Tensor) -> Tuple[int, int, int, int, List[int]]:\n"
        "    x = x.exp()\n    a = x.dim()\n    x.unsqueeze_(0)\n    b = x.size(0)\n"
        "    x.squeeze_(0)\n    c = x.size(0)\n    x.t_()\n    d = x.size(0)\n"
        "    x.swapaxes_(0, 1)\n    return a, b, c, d, x.transpose_(0, 1).size()\n",
        [[[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]],
    ),
    "a number that nothing uses": (
        "def run(x: Tensor) -> Tensor:\n    dead = 4 // x.size(0)\n    rest = 4 % x.size(0)\n"
        "    for i in range(3):\n        if x.size(0) > 2:\n            x = x + 1\n"
        "        else:\n            dead = 8 // x.dim()\n            rest = 8 % x.dim()\n"
        "    return x + 1\n",
        [[1.0], [[2.0], [1.0]], []],
    ),
    "equal operators with a gradient each": (
        "def run(x: Tensor, n: int = 2) -> Tensor:\n"
        "    return (x * 3.3).sin() * (x * 3.3).exp() + x.log() * x.log()\n",
        [[0.3, 1.7, 2.9], [0.11, 0.77]],
    ),
    "layouts by turns": (
        "def run(x: Tensor) -> Tuple[bool, List[int], Tensor]:\n"
        "    y = x * 1\n"
        "    return y.is_contiguous(), y.stride(), x.transpose(0, 1).contiguous() * 2\n",
        [[[1.0, 2.0], [3.0, 4.0]], ([1.0, 2.0], [3.0, 4.0])],
    ),
    "views of equal results": (
        "def run(x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:\n"
        "    return (x + 1).view(-1), (x + 1).view(-1), (x * 1).view(-1)\n",
        [[[1.0, 2.0], [3.0, 4.0]]],
    ),
    "writes to what is used later": (
        "def run(x: Tensor) -> Tuple[Tensor, Tensor, List[Tensor]]:\n"
        "    y = x.exp()\n    z = y * 2\n    y.add_(1)\n    rows: List[Tensor] = []\n"
        "    for i in range(x.size(0)):\n        rows.append(y[i])\n        y[i] = z[i] + i\n"
        "    y.mul_(2)\n    return y, z * y, rows\n",
        [[1.0, 2.0], [1.0, 2.0, 3.0]],
    ),
}


def tensors(value: Any) -> Any:
    """A tensor of the numbers; a tuple's is not row-major."""
    if isinstance(value, tuple):
        return rushlight.tensor(list(value)).t().contiguous().t()
    return rushlight.tensor(value)


def calls_of(path: pathlib.Path, arguments: list[Any]) -> Iterator[dict[str, Any]]:
    run = rushlight.load(str(path)).run
    for needs_grad in (False, True):
        for records in (False, True):
            for value in arguments * 3:
                x = tensors(value)
                x = x.requires_grad_() if needs_grad else x
                yield observe(run, (x,), lambda: None, records)


@pytest.mark.parametrize("name", PROGRAMS)
def test_small_programs(name: str, tmp_path: pathlib.Path) -> None:
    text, arguments = PROGRAMS[name]
    path = tmp_path / "program.py"
    path.write_text(HEAD + text)
    found = difference(lambda: calls_of(path, arguments))
    assert not found, found.text


def test_a_difference_is_seen(tmp_path: pathlib.Path) -> None:
    """The comparison itself: values, memory, errors."""
    path = tmp_path / "program.py"

    def other(text: str) -> Difference | None:
        def run() -> Iterator[dict[str, Any]]:
            first = rushlight.get_executor() == MODES[0].executor
            path.write_text(HEAD + "def run(x: Tensor):\n    y = x + 1\n" + text[not first :: 2])
            yield from calls_of(path, [[1.0, 2.0]])

        return difference(run)

    def mixed(a: str, b: str) -> str:
        n = max(len(a), len(b))
        return "".join(p + q for p, q in zip(a.ljust(n), b.ljust(n), strict=True))

    whole = "    return x, y, y"
    for what, text in {
        "result": "    return x, y, y + 1",
        "arguments": "    x.mul_(2)\n    return x, y, y",
        "printed": "    print(1)\n    return x, y, y",
        "error": "    assert x.dim() == 2\n    return x, y, y",
    }.items():
        assert (found := other(mixed(whole, text))) and what in (found.what, "arguments"), what
    assert other(mixed(whole, "    return x, y, x + 1")).what == "result"  # another's memory
    assert not other(mixed(whole, whole))


def test_random_programs_over_tensors() -> None:
    totals = random_run.run(1, 700, jobs=2, batch=350, tensors=True)
    assert not totals.found, "\n".join(random_run.report(f) for f in totals.found)
    assert totals.programs == 700 and totals.raised < 0.6 * totals.calls
    assert len(totals.other_errors) <= 4, "\n".join(map(random_run.report, totals.other_errors))


# -- Programs of others, which PyTorch's tensors go into
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def torch() -> Any:
    """One thread: pieces of PyTorch's own work must not differ."""
    made = pytest.importorskip("torch")
    made.set_num_threads(1)
    return made


def test_the_corpus(torch: Any, corpus: pathlib.Path) -> None:
    folders = sorted(path.parent for path in corpus.rglob("calls.pt"))
    found = []
    for folder in folders[:: 1 if os.environ.get("RUSHLIGHT_NIGHTLY") else 4]:
        if differs := difference(lambda folder=folder: executor_runs.archive_calls(folder)):
            found.append(f"{folder.name}: {differs.text[:1500]}")
    assert len(folders) >= 323 and not found, "\n".join(found)


def probe_calls(source: str, inputs: list[str], torch: Any) -> Iterator[dict[str, Any]]:
    f = rushlight._rushlight.compile(probes.PREAMBLE + source).f
    for text in inputs * 3:
        yield observe(f, eval(text, {"torch": torch}), lambda: None)


def test_probes(torch: Any) -> None:
    if not probes.TABLE.exists():
        pytest.skip("no ../shared/probes here")
    sources: dict[str, list[str]] = {}
    for _, source, inputs, status, _, _ in probes.rows():
        if status in ("ok", "runtime_error"):
            sources.setdefault(source, []).append(inputs)
    found = []
    for source, inputs in sources.items():
        differs = difference(lambda s=source, i=inputs: probe_calls(s, i, torch))
        if differs:
            found.append(f"{source}\n{differs.text[:1500]}")
    assert len(sources) > 300 and not found, "\n".join(found)


@pytest.mark.parametrize("name", list(PROGRAMS_OF_PEOPLE))
def test_programs_of_people(name: str, torch: Any, tmp_path: pathlib.Path) -> None:
    thing, arguments = PROGRAMS_OF_PEOPLE[name]
    torch.manual_seed(1)
    path = tmp_path / "program.pt"
    torch.jit.save(torch.jit.script(thing() if isinstance(thing, type) else thing), str(path))

    def run() -> Iterator[dict[str, Any]]:
        for needs_grad in (False, True):
            program = rushlight.load(str(path))
            executor_runs.manual_seed(2)
            for args in arguments * 3:
                args = executor_runs.copied(args, needs_grad)
                yield observe(program, args, lambda: None, needs_grad)
            yield {"state": executor_runs.Seen().value(executor_runs.kept_by(program))}

    found = difference(run)
    assert not found, found.text
