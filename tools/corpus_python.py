"""Replay a corpus through the Python module, with the corpus' own comparison as the judge.

    python tools/corpus_python.py OUT [--corpus ../shared/corpus] [--only TEXT] [--seconds 5]

Needs torch (the judge compares torch tensors).  A line per failing case; closes with `N passed, N
failed`.
"""

from __future__ import annotations

import argparse
import glob
import os
import sys
import time


def model_path(folder: str) -> str:
    """Return the path of a case's archive."""
    path = os.path.join(folder, "model.pt")
    return path if os.path.exists(path) else os.path.join(folder, "model.pt2")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", help="folder that make.py of the corpus wrote")
    parser.add_argument("--corpus", default="../shared/corpus", help="where casefile.py is")
    parser.add_argument("--only", default="", help="part of a case name")
    parser.add_argument("--seconds", type=float, default=5.0, help="no case may take longer")
    options = parser.parse_args()
    sys.path.insert(0, options.corpus)
    import casefile
    import rushlight
    import torch

    assert torch.version.cuda is None, "the CPU build of torch is the reference"
    torch.set_num_threads(1)
    passed = failed = 0
    for calls in sorted(glob.glob(os.path.join(options.out, "*", "*", "calls.pt"))):
        folder = os.path.dirname(calls)
        name = os.path.relpath(folder, options.out)
        if options.only not in name:
            continue
        started = time.monotonic()
        try:
            why = casefile.replay(folder, model=rushlight.load(model_path(folder)))
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        seconds = time.monotonic() - started
        if not why and seconds > options.seconds:
            why = f"took {seconds:.1f} s"
        passed, failed = passed + (not why), failed + bool(why)
        if why:
            print(f"FAIL {name}: {' '.join(str(why).split())[:400]}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
