"""Small programs that each executor has to run in the same way (test_same_runs.py).

    python tests/python/small_runs.py [NAME...]    runs them, without torch: nothing is recorded

Most were found by random programs.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import rushlight
from executor_runs import Difference, difference, observe

HEAD = """from typing import Any, Dict, List, Optional, Tuple
import torch
from torch import Tensor

"""

# Each with its calls of `run`.
PROGRAMS: dict[str, tuple[str, list[Any]]] = {
    "equal results in a tuple": (
        "def run(x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:\n    return x + 1, x + 1, x * 1\n",
        [[1.0, 2.0]],
    ),
    "a number drawn behind what fails": (
        "def run(x: Tensor) -> Tensor:\n    torch.manual_seed(3)\n    y = x * 2 + x[:3]\n"
        "    z = torch.rand(2)\n"
        "    return y.sin() + z.sum()\n",
        [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]],
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
        [[[1.0, 2.0], [3.0, 4.0]]] * 2 + [([1.0, 2.0], [3.0, 4.0])],
    ),
    "views of equal results": (
        "def run(x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:\n"
        "    return (x + 1).view(-1), (x + 1).view(-1), (x * 1).view(-1)\n",
        [[[1.0, 2.0], [3.0, 4.0]]],
    ),
    "a constant compared with what dies": (
        "def run(x: Tensor) -> Tensor:\n"
        "    b: Optional[int] = None\n    if x.dim() == 1:\n        b = -1\n"
        "    if b is None:\n        b = 100\n"
        "    if int(x.sum().item()) * 2 <= b:\n        return x + 1\n"
        "    for i in range(3):\n        x = x * 2\n"
        "        if int(x.sum().item()) > b:\n            break\n    return x\n",
        [[1.0, 2.0], [-1.0, -2.0]],
    ),
    "the last view of what dies": (
        "def run(x: Tensor) -> Tuple[List[Tensor], int]:\n"
        "    y = x.exp()\n    rows: List[Tensor] = []\n"
        "    for i in range(2):\n        rows.append(y[i] * 3)\n"
        "    return rows, rows[1].storage_offset() + (x.exp()[1] * 3).storage_offset()\n",
        [[1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]]],
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
    """A tensor of the numbers; a tuple's is every other column of another."""
    if isinstance(value, tuple):
        return rushlight.tensor(list(value)).repeat_interleave(2, 1)[:, ::2]
    return rushlight.tensor(value)


def calls_of(path: pathlib.Path, arguments: list[Any]) -> Iterator[dict[str, Any]]:
    run = rushlight.load(str(path)).run
    for needs_grad in (False, True):
        for records in (False, True):
            for value in arguments * 3:
                x = tensors(value)
                x = x.requires_grad_() if needs_grad else x
                yield observe(run, (x,), lambda: None, records)


def compared(name: str, folder: pathlib.Path) -> Difference | None:
    text, arguments = PROGRAMS[name]
    path = folder / "program.py"
    path.write_text(HEAD + text)
    return difference(lambda: calls_of(path, arguments))


def main() -> int:
    n_different = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or PROGRAMS:
            if found := compared(name, pathlib.Path(folder)):
                n_different += 1
                print(f"{name}: {found.text}")
    return 1 if n_different else 0


if __name__ == "__main__":
    sys.exit(main())
