"""Archives whose records were changed and packed again, so that no checksum tells: errors that name the file and
the place, never a crash.  (tests/archive/test_hostile.c changes whole files.)"""

from __future__ import annotations

import os
import pathlib
import random
import struct
from typing import Any

import numpy
import pytest
import rushlight
from archives import changed, legacy, pack, records

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
LONG = "RUSH_LONG" in os.environ
IMAGE = numpy.ones((1, 1, 8, 8), dtype=numpy.float32)
FILES = {"life.pt": (1,), "digits.pt": (IMAGE,), "digits.pt2": (IMAGE,)}


def use(data: bytes, args: tuple[Any, ...]) -> None:
    try:
        m = rushlight.load(data)
        m(*args)
    except (RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError, NotImplementedError, MemoryError, AssertionError,
            RecursionError, OSError, TimeoutError, ZeroDivisionError, OverflowError, rushlight.Error) as e:
        assert str(e) or isinstance(e, (KeyError, AssertionError)), repr(e)


def mutations(content: bytes, rng: random.Random, n: int) -> Any:
    for _ in range(n):
        b = bytearray(content)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            i = rng.randrange(len(b))
            kind = rng.randrange(5)
            if kind == 0:
                b[i] ^= 1 << rng.randrange(8)
            elif kind == 1:
                b[i] = rng.randrange(256)
            elif kind == 2:
                del b[i:i + rng.choice((1, 2, 8))]
            elif kind == 3:
                b[i:i] = content[rng.randrange(len(content)):][:rng.choice((1, 4, 16))]
            else:
                j = rng.randrange(len(content))
                b[i:i + 8] = content[j:j + 8]
            if not b:
                b = bytearray(b"x")
        yield bytes(b)


@pytest.mark.parametrize("name", [*FILES, "legacy"])
def test_changed_records_do_no_harm(name: str) -> None:
    data = legacy() if name == "legacy" else (DATA / name).read_bytes()
    args = (IMAGE[0, 0, :1, :3],) if name == "legacy" else FILES[name]
    content = records(data)
    rng = random.Random(int(os.environ.get("RUSH_SEED", "1")))
    texts = [k for k in content if k.endswith((".pkl", ".py", ".json")) and content[k]]
    for _ in range(20 if LONG else 2):
        for record in texts:
            for new in mutations(content[record], rng, 60):
                if "RUSH_KEEP" in os.environ:
                    pathlib.Path(os.environ["RUSH_KEEP"]).write_bytes(pack(content | {record: new}))
                use(pack(content | {record: new}), args)
