"""Models of other libraries, with random weights: does Rushlight give PyTorch's results?

    python tests/zoo/zoo.py [NAME ...] [--jobs N] [--keep DIR] [--list]

For each model of tests/zoo/models.py: PyTorch builds it, runs it and saves it (torch.jit.script,
torch.jit.trace or torch.export); Rushlight opens the file and runs it in the same process, where
torch is, and in another one that cannot import torch.  A model agrees when both results do: floats
within 1e-4 of the largest, or no farther from the model in float64 than four times PyTorch's own
float32, everything else equal.  NAME: a part of names.  The libraries, of the versions below, are
installed beside the build (build-zoo); torch comes from this Python.  Prints a line a model; ends
with 1 when more than 2 % of the models do not agree.  A model that PyTorch itself cannot save is
named, and not counted.
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
from typing import Any

import numpy as np

TOP = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ["torchvision==0.28.0", "timm==1.0.31", "transformers==5.23.0"]  # each for torch 2.13.0
NEEDED = ["safetensors==0.8.0", "huggingface-hub==2.4.0", "tokenizers==0.23.3", "pyyaml==6.0.3",
          "tqdm==4.70.1", "pillow==13.0.0", "regex==2026.11.15"]  # fmt: skip
SECONDS = 300  # for one model
BYTES = 10 << 30
CLOSE = 1e-4  # of the largest element
BAR = 0.98


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


def save(case: Any, path: pathlib.Path) -> pathlib.Path:
    """The file that PyTorch writes of the case."""
    import torch

    if case.door == "export":
        path = path.with_suffix(".pt2")
        torch.export.save(torch.export.export(case.module, case.args, case.kwargs), path)
        return path
    path = path.with_suffix(".pt")
    if case.door == "script":
        made = torch.jit.script(case.module)
    else:
        made = torch.jit.trace(case.module, case.args, check_trace=False)
    torch.jit.save(made, path)
    return path


def in_double(x: Any) -> Any:
    import torch
    from torch.utils._pytree import tree_map

    return tree_map(
        lambda t: t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t, x
    )


def without_torch(path: pathlib.Path, calls: pathlib.Path) -> list[np.ndarray]:
    """The same call in a process that cannot import torch."""
    out = calls.with_name("plain.npz")
    command = [
        sys.executable,
        str(pathlib.Path(__file__).with_name("plain.py")),
        str(path),
        str(calls),
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(
            done.stderr.strip().splitlines()[-1]
            if done.stderr.strip()
            else f"exit {done.returncode}"
        )
    with np.load(out) as made:
        return [made[k] for k in made.files]


def try_one(name: str, folder: pathlib.Path) -> dict[str, Any]:
    """{"made": reason PyTorch has, or None; "torch", "plain": distance or what failed}."""
    import models
    import torch

    torch.manual_seed(1)
    torch.set_num_threads(1)
    answer: dict[str, Any] = {"made": None}
    try:
        case = dict(models.everything())[name]()
        models.liven(case)
        torch.manual_seed(2)
        with torch.no_grad():
            result = case.module(*case.args, **case.kwargs)
            want = leaves(result)
            path = save(case, folder / "model")
            if case.door == "script":
                want = leaves(torch.jit.load(path)(*case.args, **case.kwargs))
    except Exception as error:
        answer["made"] = (
            f"{type(error).__name__}: "
            f"{str(error).strip().splitlines()[0] if str(error).strip() else ''}"[
                :200
            ]
        )
        return answer
    if is_flat(want):
        answer["note"] = "a constant result"
    import plain
    import rushlight

    bound = CLOSE
    for where in ("torch", "plain"):
        try:
            if where == "torch":
                torch.manual_seed(2)
                with torch.no_grad():
                    got = leaves(rushlight.load(str(path))(*case.args, **case.kwargs))
            else:
                plain.write_call(folder / "call.json", case.args, case.kwargs)
                got = without_torch(path, folder / "call.json")
            answer[where] = distance(want, got)
            if bound < answer[where] < float("inf"):
                with torch.no_grad():
                    exact = leaves(
                        case.module.double()(*in_double(case.args), **in_double(case.kwargs))
                    )
                bound = max(CLOSE, 4 * distance(exact, want))
                answer[where] = (
                    min(answer[where], distance(exact, got))
                    if distance(exact, got) <= bound
                    else answer[where]
                )
        except Exception as error:
            answer[where] = f"{type(error).__name__}: {str(error).strip()}"[:600]
    answer["bound"] = bound
    return answer


def child(name: str, folder: pathlib.Path) -> int:
    """A process for the model: what it does wrong ends nothing else."""
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


def is_flat(results: list[np.ndarray]) -> bool:
    """True if the results do not depend on the input."""
    floats = [r.astype(np.float64) for r in results if r.dtype.kind == "f" and r.size > 1]
    return bool(floats) and all(np.ptp(r) <= 1e-6 * np.abs(r).max() for r in floats)


def verdict(answer: dict[str, Any]) -> tuple[bool, str]:
    """(agrees, what to print)."""
    texts = []
    good = True
    for where in ("torch", "plain"):
        d = answer.get(where, "did not end")
        close = isinstance(d, float) and d <= answer["bound"]
        good &= close
        texts.append(f"{d:.1e}" if close else f"{where}: {d}")
    return good, "  ".join([*texts, answer.get("note", "")]).rstrip()


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("names", nargs="*", help="parts of names")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--keep", type=pathlib.Path, help="leave files of models that do not agree here")
    p.add_argument("--folder", type=pathlib.Path, default=TOP / "build-zoo")
    p.add_argument("--list", action="store_true")
    o = p.parse_args()
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import models

    names = [n for n, _ in models.everything() if not o.names or any(part in n for part in o.names)]
    if o.list:
        print(*names, sep="\n")
        return 0
    install(o.folder)
    import_libraries(o.folder)
    import rushlight  # before the forks

    print(f"{len(names)} models; rushlight {rushlight.__version__}", flush=True)
    return report(names, o)


def report(names: list[str], o: argparse.Namespace) -> int:
    running: dict[int, tuple[str, pathlib.Path, float]] = {}
    waiting, agreed, wrong, unmade = list(names), 0, [], []
    while waiting or running:
        while waiting and len(running) < o.jobs:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="zoo-", dir=o.folder))
            name = waiting.pop(0)
            running[child(name, folder)] = (name, folder, time.monotonic())
        pid, status = os.wait()
        name, folder, begin = running.pop(pid)
        file = folder / "answer.json"
        answer = (
            json.loads(file.read_text())
            if file.exists()
            else {"made": f"no answer: {os.waitstatus_to_exitcode(status)}"}
        )
        took = time.monotonic() - begin
        if answer["made"]:
            unmade.append(name)
            print(f"{name:<48} {took:5.1f} s  PyTorch: {answer['made']}", flush=True)
        else:
            good, text = verdict(answer)
            agreed += good
            wrong += [] if good else [name]
            print(
                f"{name:<48} {took:5.1f} s  {'agrees' if good else 'DIFFERS'}  {text}", flush=True
            )
        if o.keep and name in wrong:
            shutil.copytree(folder, o.keep / name.replace("/", "_"), dirs_exist_ok=True)
        shutil.rmtree(folder)
    counted = len(names) - len(unmade)
    print(
        f"{agreed} of {counted} models agree; {len(unmade)} that PyTorch does not save are not "
        f"counted"
    )
    print(*(f"differs: {name}" for name in wrong), sep="\n")
    return 0 if counted and agreed >= BAR * counted else 1


if __name__ == "__main__":
    sys.exit(main())
