"""Networks of many architectures, made with PyTorch and run by rushlight.

    python tests/python/programs.py [PATTERN]

PROGRAMS says how to make each module, its arguments, and the ways it becomes an archive: script, freeze, trace, export,
core (export after run_decompositions); they stand in programs_*.py.  test_networks.py runs them all.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

# The order of the programs.
# isort: off
import programs_sequences  # noqa: F401
import programs_images  # noqa: F401
import programs_graphs  # noqa: F401

# isort: on
import torch
from programs_base import PROGRAMS, Program
from torch import Tensor, nn


def save(p: Program, module: nn.Module, args: tuple, mode: str, path: str) -> Callable:
    """Make the archive; what PyTorch would run."""
    if mode in ("export", "core"):
        exported = torch.export.export(module, args, strict=False)
        exported = exported.run_decompositions() if mode == "core" else exported
        torch.export.save(exported, path)
        return exported.module()
    made = (
        torch.jit.trace(module, args, check_trace=False)
        if mode == "trace"
        else torch.jit.script(module)
    )
    made = torch.jit.freeze(made) if mode == "freeze" else made
    torch.jit.save(made, path)
    return torch.jit.load(path)


def leaves(value: Any) -> list:
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def difference(got: Any, want: Any) -> str:
    """What differs, or ''."""
    a, b = leaves(got), leaves(want)
    if len(a) != len(b):
        return f"{len(a)} results, expected {len(b)}"
    for i, (x, y) in enumerate(zip(a, b)):
        if not isinstance(y, Tensor):
            if x != y:
                return f"result {i}: {x!r}, expected {y!r}"
        elif x.dtype != y.dtype or x.shape != y.shape:
            return f"result {i}: {x.dtype} {tuple(x.shape)}, expected {y.dtype} {tuple(y.shape)}"
        elif not torch.allclose(x, y, rtol=2e-4, atol=2e-5, equal_nan=True):
            return f"result {i}: differs by up to {(x - y).abs().max().item():.3g}"
    return ""


def check(p: Program, mode: str, folder: str) -> str:
    """Compare with PyTorch; return '' if the results agree."""
    import rushlight

    torch.manual_seed(7)
    module = p.make().eval()
    args = p.args()
    path = os.path.join(folder, f"{p.name}.{mode}.pt" + ("2" if mode in ("export", "core") else ""))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        theirs = save(p, module, args, mode, path)
        torch.manual_seed(8)
        want = theirs(*args)
    ours = rushlight.load(path)
    torch.manual_seed(8)
    return difference(ours(*args), want)


def main() -> int:
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for p in PROGRAMS:
            if not re.search(pattern, p.name):
                continue
            for mode in p.modes.split():
                try:
                    why = check(p, mode, folder)
                except Exception as error:
                    why = f"{type(error).__name__}: {str(error).strip()[-700:]}"
                bad += bool(why)
                print(f"{p.name}.{mode}: {why or 'agrees'}", flush=True)
    print(f"{bad} disagree")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
