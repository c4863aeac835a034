"""What the walks over the zoo share: the libraries, a process for each model, the results compared.

zoo.py and export_zoo.py each have a function that tries one model in a process of its own and gives
an answer as JSON, and one that says what the answer means.  The libraries are installed beside the
build, in folders of their own: torch is that of the Python that runs the walk.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

TOP = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ["torchvision==0.28.0", "timm==1.0.31", "transformers==5.23.0"]  # each for torch 2.13.0
NEEDED = ["safetensors==0.8.0", "huggingface-hub==2.4.0", "tokenizers==0.23.3", "pyyaml==6.0.3",
          "tqdm==4.70.1", "pillow==13.0.0", "regex==2026.11.15"]  # fmt: skip
SECONDS = 300  # for one model
BYTES = 10 << 30
TryOne = Callable[[str, pathlib.Path], dict[str, Any]]


def install(folder: pathlib.Path) -> None:
    """The libraries, in folders of their own; torch is this Python's, whatever torchvision would
    bring."""
    if (folder / "done").exists():
        return
    for name, packages in (("libraries", ["--no-deps", *PACKAGES]), ("needed", NEEDED)):
        print("installing", *packages, flush=True)
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "install",
                "-q",
                "--target",
                str(folder / name),
                *packages,
            ],
            check=True,
        )
    (folder / "done").touch()


def import_libraries(folder: pathlib.Path) -> None:
    """From `folder`.  torchvision's compiled library does not load beside the CPU's torch:
    vision_reference.py stands in."""
    sys.path[:0] = [str(folder / "libraries")]
    sys.path.append(str(folder / "needed"))
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch

    assert torch.version.cuda is None, "the CPU wheel of torch is wanted"
    import vision_reference

    vision_reference.define()
    import timm
    import torchvision
    import transformers

    for name, module in list(sys.modules.items()):
        if name.startswith("torchvision") and hasattr(module, "_has_ops"):
            module._has_ops = vision_reference.has_ops
    transformers.logging.set_verbosity_error()
    found = (torchvision.__version__.split("+")[0], timm.__version__, transformers.__version__)
    assert found == tuple(p.split("==")[1] for p in PACKAGES), f"of other versions: {found}"


def leaves(x: Any) -> list[Any]:
    """What a result holds, in order; dicts by their order, None left out."""
    if x is None:
        return []
    if isinstance(x, dict):
        return [leaf for v in x.values() for leaf in leaves(v)]
    if isinstance(x, (list, tuple)):
        return [leaf for v in x for leaf in leaves(v)]
    if type(x).__module__.startswith("torch") or not hasattr(x, "__dataclass_fields__"):
        return [np.asarray(x.detach() if hasattr(x, "detach") else x)]
    return [leaf for name in x.__dataclass_fields__ for leaf in leaves(getattr(x, name))]


def distance(want: list[np.ndarray], got: list[np.ndarray]) -> float:
    """The largest difference of floats, by the largest element of their array; inf for any other
    difference."""
    if len(want) != len(got):
        return float("inf")
    worst = 0.0
    for a, b in zip(want, got, strict=True):
        if a.shape != b.shape or (a.dtype.kind != b.dtype.kind):
            return float("inf")
        if a.dtype.kind not in "fc":
            worst = worst if np.array_equal(a, b) else float("inf")
        elif a.size:
            with np.errstate(invalid="ignore"):
                gap = np.where(
                    (a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a.astype(np.float64) - b)
                )
            finite = np.abs(a[np.isfinite(a)])
            scale = max(float(finite.max()) if finite.size else 0.0, 1e-30)
            worst = max(worst, float(np.nan_to_num(gap, nan=np.inf).max()) / scale)
    return worst


def child(name: str, folder: pathlib.Path, try_one: TryOne) -> int:
    """Start a process for the model: what it does wrong ends nothing else."""
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    try:
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        (folder / "answer.json").write_text(json.dumps(try_one(name, folder)))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(0)


def answers(
    names: list[str], o: argparse.Namespace, try_one: TryOne
) -> Iterator[tuple[str, dict[str, Any] | None, float, pathlib.Path]]:
    """Yield (name, answer or None, seconds, folder) of each model, as they end; the folder is
    removed when the next is asked for."""
    running: dict[int, tuple[str, pathlib.Path, float]] = {}
    waiting = list(names)
    while waiting or running:
        while waiting and len(running) < o.jobs:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="zoo-", dir=o.folder))
            name = waiting.pop(0)
            running[child(name, folder, try_one)] = (name, folder, time.monotonic())
        pid, _ = os.wait()
        name, folder, begin = running.pop(pid)
        file = folder / "answer.json"
        answer = json.loads(file.read_text()) if file.exists() else None
        yield name, answer, time.monotonic() - begin, folder
        shutil.rmtree(folder)


def options(documentation: str) -> argparse.ArgumentParser:
    """Return a parser of the options that all walks have."""
    p = argparse.ArgumentParser(description=documentation.splitlines()[0])
    p.add_argument("names", nargs="*", help="parts of names")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--keep", type=pathlib.Path, help="leave files of models that fail here")
    p.add_argument("--folder", type=pathlib.Path, default=TOP / "build-zoo")
    p.add_argument("--list", action="store_true")
    return p


def begin(o: argparse.Namespace) -> list[str]:
    """Return the names of the models that were asked for; the libraries are there then."""
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import models

    names = [n for n, _ in models.everything() if not o.names or any(part in n for part in o.names)]
    if o.list:
        print(*names, sep="\n")
        sys.exit()
    install(o.folder)
    import_libraries(o.folder)
    import rushlight  # before the forks

    print(f"{len(names)} models; rushlight {rushlight.__version__}", flush=True)
    return names


def keep(o: argparse.Namespace, name: str, folder: pathlib.Path) -> None:
    """Copy the files of a model to where the caller wants them."""
    if o.keep:
        shutil.copytree(folder, o.keep / name.replace("/", "_"), dirs_exist_ok=True)
