"""Copies of a corpus' cases with one weight changed by 1 %, as `casefile.py --perturb` changes it.

    python tools/perturb.py OUT DEST [--corpus ../shared/corpus] [--only TEXT] [--most N]

For every case of OUT, each weight that casefile.sensitivity picks is changed, the program is saved
with torch.jit.save or torch.export.save to DEST/CASE.K/ beside the case's calls, and PyTorch
replays the copy: copies on which it notices nothing are removed again.  `rushlight verify DEST`
must fail on every one that is left.  --most stops after N copies.
"""

from __future__ import annotations

import argparse
import glob
import os
import shutil
import sys
import warnings
from typing import Any

import torch


def changed(weight: torch.Tensor) -> None:
    """Change a weight by +-1 %, with the signs that casefile.sensitivity draws."""
    with torch.no_grad():
        sign = torch.randint(0, 2, weight.shape, generator=torch.Generator().manual_seed(1))
        weight.mul_((1 + 0.01 * (2 * sign - 1)).to(weight.dtype))


def picks_of(model: Any) -> list[str]:
    """Return the names of the weights to change: first, middle, last floating one."""
    names = [name for name, p in model.named_parameters() if p.is_floating_point()]
    return [names[i] for i in sorted({0, len(names) // 2, len(names) - 1})] if names else []


def save_changed(folder: str, name: str, dest: str) -> None:
    path = os.path.join(folder, "model.pt")
    if os.path.exists(path):
        model = torch.jit.load(path)
        changed(dict(model.named_parameters())[name])
        torch.jit.save(model, os.path.join(dest, "model.pt"))
        return
    program = torch.export.load(os.path.join(folder, "model.pt2"))
    changed(program.state_dict[name])
    torch.export.save(program, os.path.join(dest, "model.pt2"))


def perturb(casefile: Any, folder: str, dest: str) -> tuple[int, int]:
    """Return (copies kept, copies tried) of one case."""
    kept = tried = 0
    picks = picks_of(casefile.load_model(folder))
    for k, name in enumerate(picks):
        copy = f"{dest}.{k}"
        os.makedirs(copy, exist_ok=True)
        shutil.copy(os.path.join(folder, "calls.pt"), copy)
        save_changed(folder, name, copy)
        tried += 1
        if casefile.replay(copy) is None:
            shutil.rmtree(copy)
        else:
            kept += 1
    return kept, tried


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", help="folder that make.py of the corpus wrote")
    parser.add_argument("dest", help="folder for the copies")
    parser.add_argument("--corpus", default="../shared/corpus", help="where casefile.py is")
    parser.add_argument("--only", default="", help="part of a case name")
    parser.add_argument("--most", type=int, default=1 << 30, help="stop after this many copies")
    options = parser.parse_args()
    sys.path.insert(0, options.corpus)
    import casefile

    assert torch.version.cuda is None, "the CPU build of torch is the reference"
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    kept = tried = 0
    for calls in sorted(glob.glob(os.path.join(options.out, "*", "*", "calls.pt"))):
        folder = os.path.dirname(calls)
        name = os.path.relpath(folder, options.out)
        if options.only not in name or kept >= options.most:
            continue
        one = perturb(casefile, folder, os.path.join(options.dest, name))
        kept, tried = kept + one[0], tried + one[1]
    print(f"{kept} copies that PyTorch notices, of {tried}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
