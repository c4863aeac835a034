"""Damaged archives, through the command: refused with a clear text, never a crash; quick."""

from __future__ import annotations

import pathlib
import random
import subprocess

import pytest
from conftest import DATA

FILES = ["digits.pt", "digits.pt2", "life.pt"]


def outcome(command: str, path: pathlib.Path) -> tuple[int, str]:
    args = [
        command,
        "show",
        str(path),
        "--check=full",
        "--max-seconds=60",
        "--max-bytes=1000000000",
    ]
    done = subprocess.run(args, capture_output=True, text=True, errors="replace", timeout=100)
    return done.returncode, done.stderr


@pytest.mark.parametrize("name", FILES)
def test_truncated(command: str, tmp_path: pathlib.Path, name: str) -> None:
    data = (DATA / name).read_bytes()
    path = tmp_path / name
    for n in range(0, len(data), len(data) // 25 + 1):
        path.write_bytes(data[:n])
        code, said = outcome(command, path)
        assert code == 3 and name in said, f"{n} of {len(data)} bytes: exit code {code}, {said}"


@pytest.mark.parametrize("name", FILES)
def test_flipped_bytes(command: str, tmp_path: pathlib.Path, name: str) -> None:
    data = (DATA / name).read_bytes()
    path = tmp_path / name
    rng = random.Random(0)
    refused = 0
    for _ in range(40):
        broken = bytearray(data)
        for _ in range(rng.choice([1, 1, 4, 64])):
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        path.write_bytes(broken)
        code, said = outcome(command, path)
        assert code in (0, 3, 4), f"exit code {code}: {said}"
        assert code == 0 or name in said
        refused += code == 3
    assert refused >= 30, "CRCs notice nearly all"
