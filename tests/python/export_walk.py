"""TorchScript to exported programs: every archive of a corpus, beside PyTorch's own converter.

    python tests/python/export_walk.py CORPUS [--only PATTERN]

The first call of `forward` that returns is exported by rushlight (rushlight.export.export),
written, loaded by PyTorch (torch.export.load) and called there: its results must be those of the
archive under PyTorch. The same call goes through PyTorch's TS2EPConverter: what that converts is
counted apart, and whether PyTorch can write and load what it converted itself.

Then every tensor argument whose first size is that of the first one gets a batch that varies
(Dim("batch", 1, 64)). Where the archive runs with all of SIZES under PyTorch, the exported program,
loaded by PyTorch, must give the archive's results with each of them, and refuse 65; or be refused,
with a reason. A wrong result ends with 1.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import logging
import os
import pathlib
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import executor_runs
import rushlight
import rushlight.export
import torch
from torch._export.converter import TS2EPConverter

SIZES = (1, 2, 3, 5, 8)
MOST = 64
Call = dict[str, Any]


def seed(call: Call) -> None:
    executor_runs.manual_seed(call.get("seed", 5))


def given(call: Call) -> tuple[tuple, dict[str, Any]]:
    """Its arguments, on memory of their own."""
    args, named = (executor_runs.copied(call[key], False) for key in ("args", "kwargs"))
    return tuple(args), named


def called(f: Any, call: Call) -> Any:
    args, named = given(call)
    seed(call)
    return f(*args, **named)


def first_call(folder: pathlib.Path) -> Call | None:
    for call in torch.load(folder / "calls.pt", weights_only=True)["calls"]:
        if call["method"] == "forward" and "raises" not in call:
            return call
    return None


def reason(error: BaseException) -> str:
    """The line of a message that says what is wrong: a program's error follows its traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]*Error: ", line)]
    return f"{type(error).__name__}: {(named[-1:] or lines[:1] or [''])[0]}"[:160]


def has_place(error: BaseException) -> bool:
    """Whether the message shows a line of the program."""
    return "~~~" in str(error) or "File " in str(error)


def differs(got: Any, want: Any) -> str:
    """How two results differ; "": they do not."""
    if isinstance(want, torch.Tensor) and isinstance(got, torch.Tensor):
        try:
            torch.testing.assert_close(got, want, equal_nan=True)
        except AssertionError as error:
            return reason(error)
        except (RuntimeError, NotImplementedError):  # kinds that it cannot compare
            same = str(got.to_dense() if got.is_sparse else got)
            return "" if same == str(want.to_dense() if want.is_sparse else want) else "other text"
        return ""
    if isinstance(want, dict):
        if not isinstance(got, dict) or list(got) != list(want):
            return "other keys"
        return next((d for k in want if (d := differs(got[k], want[k]))), "")
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            return "another number of results"
        return next((d for g, w in zip(got, want, strict=True) if (d := differs(g, w))), "")
    if isinstance(want, float) and isinstance(got, (int, float)):
        return differs(torch.tensor(float(got)), torch.tensor(want))
    return "" if got == want else f"{got!r} instead of {want!r}"[:160]


def by_us(path: pathlib.Path, call: Call, shapes: Any, file: pathlib.Path) -> Any:
    """The program that we export, as PyTorch loads it."""
    args, named = given(call)
    seed(call)
    made = rushlight.export.export(
        rushlight.load(str(path)), args, named or None, dynamic_shapes=shapes
    )
    rushlight.export.save(made, str(file))
    return torch.export.load(str(file)).module()


def by_torch(path: pathlib.Path, call: Call, file: pathlib.Path) -> str:
    """Return why PyTorch cannot convert it; otherwise "", or "!" and why not its own file."""
    args, named = given(call)
    seed(call)
    try:
        made = TS2EPConverter(torch.jit.load(str(path)), args, named or None).convert()
    except Exception as error:  # noqa: BLE001
        return reason(error)
    try:
        torch.export.save(made, str(file))
        torch.export.load(str(file))
    except Exception as error:  # noqa: BLE001
        return f"!{reason(error)}"
    return ""


def apart(path: pathlib.Path, call: Call, file: pathlib.Path) -> str:
    """Return by_torch's answer, from a process of its own: some programs crash the converter."""
    answer = file.with_suffix(".txt")
    answer.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        answer.write_text(by_torch(path, call, file))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return answer.read_text() if answer.exists() else f"PyTorch ends with {status}"


# -- A batch that varies
# --------------------------------------------------------------------------------------------------


def is_plain(t: torch.Tensor) -> bool:
    return not t.is_nested and t.layout == torch.strided and not t.is_quantized and t.dim() > 0


def batch_of(call: Call) -> int:
    """The first size of the first tensor that has sizes; 0: there is none."""
    found = executor_runs.leaves([*call["args"], *call["kwargs"].values()])
    return next((t.size(0) for t in found if is_plain(t)), 0)


def resized(value: Any, batch: int, n: int) -> Any:
    """With n rows instead of a batch: the last one again, so that offsets still ascend."""
    if isinstance(value, torch.Tensor):
        if not is_plain(value) or value.size(0) != batch:
            return value
        return value.detach()[torch.arange(n).clamp(max=batch - 1)].clone()
    if isinstance(value, dict):
        return {k: resized(v, batch, n) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(resized(v, batch, n) for v in value)
    return value


def with_batch(call: Call, batch: int, n: int) -> Call:
    return {**call, **{key: resized(call[key], batch, n) for key in ("args", "kwargs")}}


def shapes_of(value: Any, batch: int, dim: Any) -> Any:
    """`dynamic_shapes` of an argument; None: nothing of it varies."""
    if isinstance(value, torch.Tensor):
        return {0: dim} if is_plain(value) and value.size(0) == batch else None
    if isinstance(value, dict):
        found: Any = {k: shapes_of(v, batch, dim) for k, v in value.items()}
        return found if any(v is not None for v in found.values()) else None
    if type(value) in (list, tuple):
        found = [shapes_of(v, batch, dim) for v in value]
        return found if any(v is not None for v in found) else None
    return None


def argument_shapes(path: pathlib.Path, call: Call, batch: int, dim: Any) -> dict[str, Any]:
    """`dynamic_shapes` of a call, by the names of its arguments."""
    schema = torch.jit.load(str(path)).forward.schema
    names = [a.name for a in schema.arguments[1:]]
    values = {**dict(zip(names, call["args"], strict=False)), **call["kwargs"]}
    found = {k: shapes_of(v, batch, dim) for k, v in values.items()}
    return {k: v for k, v in found.items() if v is not None}


def has_batch(path: pathlib.Path, call: Call, batch: int) -> bool:
    """Whether the archive takes every size; one that refuses a size has no batch there."""
    try:
        for n in SIZES:
            called(torch.jit.load(str(path)), with_batch(call, batch, n))
    except Exception:  # noqa: BLE001
        return False
    return True


def varied(path: pathlib.Path, call: Call, file: pathlib.Path) -> tuple[str, str]:
    """Return ("no batch" | "right" | "refused" | "wrong", why)."""
    batch = batch_of(call)
    if batch < 1 or not has_batch(path, call, batch):
        return "no batch", ""
    # an example of size 2 at least: torch.export takes 0 and 1 for constants
    call = with_batch(call, batch, max(batch, 2))
    batch = max(batch, 2)
    shapes = argument_shapes(path, call, batch, rushlight.export.Dim("batch", min=1, max=MOST))
    try:
        made = by_us(path, call, shapes, file)
    except Exception as error:  # noqa: BLE001
        return "refused", reason(error)
    for n in SIZES:
        other = with_batch(call, batch, n)
        try:
            found = differs(called(made, other), called(torch.jit.load(str(path)), other))
        except Exception as error:  # noqa: BLE001
            found = reason(error)
        if found:
            return "wrong", f"batch {n}: {found}"
        made = torch.export.load(str(file)).module()  # a call may change its state
    try:
        called(made, with_batch(call, batch, MOST + 1))
    except Exception:  # noqa: BLE001
        return "right", ""
    return "wrong", f"batch {MOST + 1} is not refused"


# -- The walk
# --------------------------------------------------------------------------------------------------


class Walk:
    def __init__(self) -> None:
        self.file = pathlib.Path(tempfile.mkdtemp()) / "program.pt2"
        self.n: collections.Counter[str] = collections.Counter()

    def note(self, name: str, what: str) -> None:
        print(f"{name}: {what}", flush=True)

    def exported(self, path: pathlib.Path, call: Call) -> str:
        """Why our program is not right; "" when it is."""
        try:
            made = by_us(path, call, None, self.file)
        except Exception as error:  # noqa: BLE001
            return f"refused{'' if has_place(error) else ' without a line'}, {reason(error)}"
        try:
            found = differs(called(made, call), called(torch.jit.load(str(path)), call))
        except Exception as error:  # noqa: BLE001
            found = reason(error)
        return f"WRONG, {found}" if found else ""

    def take(self, name: str, path: pathlib.Path, call: Call) -> None:
        theirs, ours = apart(path, call, self.file), self.exported(path, call)
        whose = "taken" if theirs[:1] in ("", "!") else "not taken"
        self.n[whose] += 1
        self.n[f"{whose}, ours"] += not ours
        if ours:
            can = " (nor can PyTorch load its own: " + theirs[1:] + ")" if theirs[:1] == "!" else ""
            self.n[f"{whose}, theirs unloadable"] += theirs[:1] == "!"
            self.note(name, f"PyTorch: {whose}; {ours}{can}")
        self.n["wrong"] += ours.startswith("WRONG")
        how, why = varied(path, call, self.file)
        self.n[how] += 1
        if why:
            self.note(name, f"dynamic batch: {how}, {why}")

    def report(self) -> None:
        n = self.n
        print(
            f"TS2EPConverter takes {n['taken']}: {n['taken, ours']} exported by us, loaded by "
            f"PyTorch, same results; of the others {n['taken, theirs unloadable']} are none that "
            f"PyTorch can write and load itself"
        )
        print(f"it refuses {n['not taken']}: {n['not taken, ours']} exported by us, same results")
        print(
            f"a batch that varies, sizes {SIZES}: {n['right'] + n['refused'] + n['wrong']} "
            f"programs have one: {n['right']} right, {n['refused']} refused, {n['wrong']} wrong; "
            f"{n['no batch']} have none"
        )


def walked(about: str, take: Callable[[str, pathlib.Path, Call], None]) -> None:
    """Take the first call of each archive of the corpus that the command line names."""
    p = argparse.ArgumentParser(description=about)
    p.add_argument("corpus", type=pathlib.Path)
    p.add_argument("--only", default="*", help="archives whose name fits this pattern")
    o = p.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    for path in sorted(o.corpus.rglob("model.pt")):
        name = str(path.parent.relative_to(o.corpus))
        if fnmatch.fnmatch(name, o.only) and (call := first_call(path.parent)):
            take(name, path, call)


def main() -> int:
    walk = Walk()
    walked(__doc__.splitlines()[0], walk.take)
    walk.report()
    return 1 if walk.n["wrong"] or not walk.n["taken"] else 0


if __name__ == "__main__":
    sys.exit(main())
