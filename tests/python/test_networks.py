"""Networks of many architectures give what PyTorch gives, however they were saved.

Two ways of each, one of TorchScript and one of torch.export where there is one; all of them with
RUSHLIGHT_NIGHTLY=1.
"""

from __future__ import annotations

import os
import pathlib

import pytest

pytest.importorskip("torch")

import programs  # noqa: E402


def ways(p: programs.Program, number: int) -> list[str]:
    modes = p.modes.split()
    if os.environ.get("RUSHLIGHT_NIGHTLY"):
        return modes
    script = [m for m in modes if m not in ("export", "core")]
    return [m[number % len(m)] for m in (script, [m for m in modes if m not in script]) if m]


CASES = [(p, mode) for number, p in enumerate(programs.PROGRAMS) for mode in ways(p, number)]


@pytest.mark.parametrize(("program", "mode"), CASES, ids=[f"{p.name}.{mode}" for p, mode in CASES])
def test_program(program: programs.Program, mode: str, tmp_path: pathlib.Path) -> None:
    assert programs.check(program, mode, str(tmp_path)) == ""
