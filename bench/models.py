"""The archives that bench/run.py measures: made with torch at the first run, kept in the build
folder.

Networks are those of ../shared/peers/models.py, the peers' own, and one of ours; without the peers
(or without torch) only the repository's archives are measured.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
from typing import Any

TOP = pathlib.Path(__file__).resolve().parent.parent
SHARED = pathlib.Path(os.environ.get("RUSHLIGHT_SHARED", TOP.parent / "shared"))

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

# The rows of the peers' t4, as methods: what bench/overhead.c calls.
OVERHEAD = (
    """
def empty(self, x: Tensor) -> Tensor:
    return x
def add1(self, x: Tensor, y: Tensor) -> Tensor:
    return x + y
def sumint(self, n: int) -> int:
    s = 0
    for i in range(n):
        s = s + i
    return s
def addloop(self, x: Tensor, y: Tensor, n: int) -> Tensor:
    for i in range(n):
        x = x + y
    return x
def listloop(self, n: int) -> int:
    l: List[int] = []
    for i in range(n):
        l.append(i)
    s = 0
    for v in l:
        s += v
    return s
def chain100(self, x: Tensor, y: Tensor) -> Tensor:
"""
    + "    x = x * y\n    x = x + y\n" * 50
    + "    return x\n"
)

LUA = """local c = os.clock
local function sumint(n) local s = 0; for i = 0, n - 1 do s = s + i end return s end
local function empty(x) return x end
local function calls(n) for i = 1, n do empty(i) end end
local function listloop(n)
  local l = {}; for i = 1, n do l[#l + 1] = i end
  local s = 0; for _, v in ipairs(l) do s = s + v end return s
end
local function best(f, n)
  local b = 1e9
  for r = 1, 9 do local t = c(); f(n); local d = c() - t; if d < b then b = d end end
  return b / n
end
print("sumint", best(sumint, 10000000)); print("empty", best(calls, 1000000)); print("listloop", best(listloop, 100000))
"""


def peers_models() -> Any:
    """Return the module models.py of the peers, or None."""
    folder = SHARED / "peers"
    if torch is None or not (folder / "models.py").exists():
        return None
    spec = importlib.util.spec_from_file_location("peers_models", folder / "models.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def affine_chain() -> tuple[Any, tuple[Any, ...]]:
    """Return x * w + b, eight times, with parameters that require grad, as users save them: a plain
    call compiles it."""

    class Affine(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b = (
                torch.nn.Parameter(torch.rand(1024)),
                torch.nn.Parameter(torch.rand(1024)),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(8):
                x = x * self.w + self.b
            return x

    torch.manual_seed(0)
    return Affine().eval(), (torch.rand(64, 1024),)


def network(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return (module in eval mode, arguments): ours, or the peers'."""
    return affine_chain() if name == "affine_chain" else peers_models().get(name)


def archive_of(folder: pathlib.Path, name: str) -> pathlib.Path:
    """Return a network as TorchScript."""
    path = folder / f"{name}.pt"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        model, _ = network(name)
        torch.jit.script(model).save(str(path))
    return path


def overhead_archive(folder: pathlib.Path) -> pathlib.Path:
    """Return a module with the methods of OVERHEAD."""
    path = folder / "overhead.pt"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        module = torch.jit.ScriptModule()
        for text in OVERHEAD.split("\ndef ")[1:]:
            module.define("def " + text + "\n")
        torch.jit.save(module, str(path))
    return path


def overhead_of_script(script: pathlib.Path, path: pathlib.Path) -> pathlib.Path:
    """Return the same from the peers' own text, whose functions take no self."""
    module = torch.jit.ScriptModule()
    for text in script.read_text().split("\ndef ")[1:]:
        module.define("def " + text.replace("(", "(self, ", 1) + "\n")
    torch.jit.save(module, str(path))
    return path
