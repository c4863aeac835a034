"""`python -m rushlight` is the command."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rushlight", *args],
        capture_output=True,
        text=True,
        env=dict(os.environ),
    )


def test_it_is_the_command(command: str, digits: pathlib.Path) -> None:
    args = ["run", str(digits), "zeros(1,1,8,8)"]
    ours, theirs = run(*args), subprocess.run([command, *args], capture_output=True, text=True)
    assert ours.returncode == theirs.returncode == 0 and ours.stdout == theirs.stdout != ""
    assert (
        run("--nonsense").returncode
        == subprocess.run([command, "--nonsense"], capture_output=True).returncode
        != 0
    )
