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

import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import walk
from walk import distance, leaves

CLOSE = 1e-4  # of the largest element
BAR = 0.98


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
    o = walk.options(__doc__).parse_args()
    names = walk.begin(o)
    agreed, wrong, unmade = 0, [], []
    for name, found, took, folder in walk.answers(names, o, try_one):
        answer = found or {"made": "no answer"}
        if answer["made"]:
            unmade.append(name)
            print(f"{name:<48} {took:5.1f} s  PyTorch: {answer['made']}", flush=True)
            continue
        good, text = verdict(answer)
        agreed += good
        print(f"{name:<48} {took:5.1f} s  {'agrees' if good else 'DIFFERS'}  {text}", flush=True)
        if not good:
            wrong.append(name)
            walk.keep(o, name, folder)
    counted = len(names) - len(unmade)
    print(
        f"{agreed} of {counted} models agree; {len(unmade)} that PyTorch does not save are not "
        f"counted"
    )
    print(*(f"differs: {name}" for name in wrong), sep="\n")
    return 0 if counted and agreed >= BAR * counted else 1


if __name__ == "__main__":
    sys.exit(main())
