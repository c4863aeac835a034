"""Each executor does the same: values, memory that results share, arguments and state after the
call, prints, random states, versions, gradients, errors with tracebacks (executor_runs.py)."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import executor_runs
import pytest
import random_run
import rushlight
from executor_runs import MODES, Difference, difference, observe
from small_runs import HEAD, PROGRAMS, calls_of, compared

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


@pytest.mark.parametrize("name", PROGRAMS)
def test_small_programs(name: str, tmp_path: pathlib.Path) -> None:
    found = compared(name, tmp_path)
    assert not found, found.text


def test_small_programs_without_torch() -> None:
    """Where torch is there its grad mode counts, and calls may record."""
    program = pathlib.Path(__file__).with_name("small_runs.py")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


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
