"""Words and manners that test suites of TorchScript programs look at."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from typing import Any

import pytest
import rushlight

torch = pytest.importorskip("torch")

HEAD = """import cmath
import torch
from typing import Dict, List
from torch import Tensor
"""
REFUSED = {
    "keyword": ("def g(a: int): return a\ndef f(): return g(a=1, b=2)", r"Keyword argument b unknown\."),
    "builtin": ("def f(c: complex): return cmath.polar(c)", r"is currently not supported in Torchscript:\n"),
    "empty list": (
        "def g(a: List[int]): return a\ndef f():\n    a = []\n    return g(a)",
        r"Empty lists default to List\[Tensor\]\. Add a variable annotation",
    ),
    "class attribute": (
        "class A:\n    X = 3\n    def __init__(self): self.y = self.X\ndef f(): return A().y",
        r"Consider converting this to an instance attribute",
    ),
    "overload's parameters": (
        "@torch.jit._overload\ndef g(x: Tensor) -> Tensor: ...\ndef g(x, y=2): return x\ndef f(x): return g(x)",
        r"Did not find type for param y",
    ),
}


def imported(text: str, folder: pathlib.Path) -> Any:
    path = folder / "manners.py"
    path.write_text(HEAD + text)
    spec = importlib.util.spec_from_file_location("manners", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["manners"] = module  # inspect looks for a class's file there
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, tmp_path: pathlib.Path) -> None:
    text, words = REFUSED[name]
    for script in (torch.jit.script, rushlight.script):
        with pytest.raises(Exception, match=words):
            script(imported(text, tmp_path).f)


def test_unhashable(tmp_path: pathlib.Path) -> None:
    f = rushlight.script(imported("def f(a: List[int]): return hash(a)", tmp_path).f)
    with pytest.raises(Exception, match="unhashable type: 'list'"):
        f([1])


def test_too_many_arguments(tmp_path: pathlib.Path) -> None:
    f = imported("def f(x): return x", tmp_path).f
    for script in (torch.jit.script, rushlight.script):
        for args, kwargs in (((1, 2), {}), ((1,), {"z": 2}), ((1,), {"x": 2})):
            with pytest.raises(RuntimeError, match=r"f\(\) expected at most 1 argument\(s\) but received 2 argument\(s\)"):
                script(f)(*args, **kwargs)
