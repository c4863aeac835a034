"""Snippets of the language (language/*.txt), from text and by torch.jit.script: accepted or refused
alike, with the same message, result, error and output.

A table: snippets with a function f, between lines of `=`.  `#> ARGS` calls it; `#! WHY` says that
we differ on purpose.
"""

from __future__ import annotations

import copy
import enum
import math
import os
import pathlib
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from rushlight import _rushlight

torch = pytest.importorskip("torch")

FOLDER = pathlib.Path(__file__).resolve().parent / "language"
PREAMBLE = """import math
import torch
import enum
import collections
import dataclasses
from collections import namedtuple, OrderedDict
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Callable, Dict, Final, List, NamedTuple, Optional, Tuple, Union
from torch import Tensor
"""


def snippets(path: pathlib.Path) -> Iterator[tuple[int, str, list[str], bool]]:
    for i, chunk in enumerate(re.split(r"^=+\n", path.read_text(encoding="utf-8"), flags=re.M), 1):
        lines = chunk.strip("\n").split("\n")
        calls = [line[2:].strip() for line in lines if line.startswith("#>")]
        source = "\n".join(line for line in lines if not line.startswith(("#>", "#!"))) + "\n"
        yield i, source, calls, any(line.startswith("#!") for line in lines)


def scripted(source: str, name: str, folder: pathlib.Path) -> Any:
    """The text as a module, its f by torch.jit.script."""
    file = folder / f"{name}.py"
    file.write_text(PREAMBLE + source, encoding="utf-8")
    module = types.ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
    exec(compile(PREAMBLE + source, str(file), "exec", dont_inherit=True), module.__dict__)
    return torch.jit.script(module.f)  # type: ignore[attr-defined]


def plain(v: Any) -> str:
    """A result as text that both sides share."""
    if isinstance(v, torch.Tensor):
        return f"T{str(v.dtype)[6:]}{list(v.shape)}{v.tolist()}"
    if isinstance(v, (list, tuple)):
        return f"{'[' if isinstance(v, list) else '('}{', '.join(plain(x) for x in v)}]"
    if isinstance(v, dict):
        return "{" + ", ".join(f"{plain(k)}: {plain(x)}" for k, x in v.items()) + "}"
    if isinstance(v, (enum.Enum, _rushlight.EnumValue)):
        return f"member {v.name}"
    return repr(v)


def stable(e: BaseException, name: str) -> str:
    """The part of a message that both sides share: the first line, or the last of a traceback."""
    text = re.sub(
        r" \(of Python compilation unit at: \w+\)", "", str(e).replace(f"{name}.", "")
    ).strip()
    return (
        text.split("\n")[-1 if "Traceback of TorchScript" in text else 0].strip().rstrip(":")[:90]
    )


def outcome(f: Any, call: str, name: str, capfd: Any) -> tuple[str, str, str]:
    args = copy.deepcopy(eval(call, {"torch": torch, "math": math}))
    capfd.readouterr()
    try:
        result, error = plain(f(*args)), ""
    except Exception as e:  # noqa: BLE001
        result, error = "", f"{type(e).__name__}: {stable(e, name)}"
    sys.stdout.flush()
    return result, error, capfd.readouterr().out


def difference(source: str, calls: list[str], name: str, folder: pathlib.Path, capfd: Any) -> str:
    """What differs, or nothing."""
    theirs = ours = refusal = our_refusal = None
    try:
        theirs = scripted(source, name, folder)
    except Exception as e:  # noqa: BLE001
        refusal = e
    try:
        ours = _rushlight.compile(PREAMBLE + source).f
    except Exception as e:  # noqa: BLE001
        our_refusal = e
    if (theirs is None) != (ours is None):
        return f"torch {refusal or 'accepts'}, we {our_refusal or 'accept'}"
    if refusal and our_refusal:
        want = stable(refusal, name)
        return "" if want in str(our_refusal) else f"torch says {want!r}, we {our_refusal}"
    for call in calls:
        want, got = outcome(theirs, call, name, capfd), outcome(ours, call, name, capfd)
        if want != got:
            return f"f{call}: torch {want}, we {got}"
    return ""


@pytest.mark.parametrize("table", sorted(p.stem for p in FOLDER.glob("*.txt")))
def test_as_torch_jit_script(
    table: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong, n, known = [], 0, 0
    for i, source, calls, is_known in snippets(FOLDER / f"{table}.txt"):
        n += 1
        known += is_known
        what = (
            "" if is_known else difference(source, calls, f"rush_text_{table}_{i}", tmp_path, capfd)
        )
        if what:
            wrong.append(f"#{i} {what}\n{source}")
    with capfd.disabled():
        print(
            f"\n{table}: {n - known - len(wrong)} of {n} snippets as torch.jit.script, {known} "
            f"differ on purpose"
        )
    assert os.path.getsize(FOLDER / f"{table}.txt") and not wrong, (
        f"{len(wrong)} differ:\n" + "\n".join(wrong)
    )
