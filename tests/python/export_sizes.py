"""Which sizes an exported program refuses: TorchScript programs by us, their sources by PyTorch.

    python tests/python/export_sizes.py CORPUS [--only PATTERN]

The programs are those of export_walk.py that have a batch. Each is exported by rushlight from its
archive, and by torch.export.export from the Python source that ../shared/corpus has for it (or, as
a second witness, from what PyTorch's TS2EPConverter makes of the archive); once with
Dim("batch", min=1, max=64), once with Dim.AUTO. Both programs are then called with each of TRIED.

A program AGREES when both exports are refused, or both programs refuse the same sizes. Ours REFUSES
MORE (something is lacking), or ACCEPTS MORE. Whatever size ours accepts, its results must be those
of the archive under PyTorch; otherwise it is WRONG, and the script ends with 1. A witness has no
say where it cannot export the program with fixed sizes, or cannot open what it wrote.
"""

from __future__ import annotations

import collections
import copy
import functools
import importlib
import inspect
import io
import json
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import export_walk
import rushlight.export
import torch
from export_walk import Call, Walk, called, given, reason, seed, with_batch
from torch._export.converter import TS2EPConverter

TRIED = (1, 2, 3, 5, 8, 64, 65)
CORPUS = pathlib.Path(
    os.environ.get("RUSHLIGHT_SHARED", pathlib.Path(__file__).parents[3] / "shared"), "corpus"
)
EXPORT = "the export"  # what is refused when there is no program
AGREE, WRONG = "agree", "WRONG"
OTHERS = ("ours refuses more", "ours accepts more")
Refused = dict[str, str]  # what is refused, and why


# -- The witnesses
# --------------------------------------------------------------------------------------------------


def sources() -> dict[str, Any]:
    """The cases of the corpus by name: each has `twin()`, its program as ordinary Python."""
    sys.path.insert(0, str(CORPUS))
    define = importlib.import_module("define")
    found: dict[str, Any] = {}
    for file in sorted((CORPUS / "cases").glob("*.py")):
        found.update(define.read_definitions(str(file)))
    return found


def module_of(source: Any) -> torch.nn.Module:
    """A module whose forward is `source`, a function or a module."""
    if isinstance(source, torch.nn.Module):
        return source
    made = type("Source", (torch.nn.Module,), {"forward": staticmethod(source)})
    return made()  # type: ignore[no-any-return]


class Converted(TS2EPConverter):
    """PyTorch's converter, with the sizes that we ask for instead of its own Dim.AUTO for all."""

    def __init__(self, model: Any, args: tuple, shapes: tuple) -> None:
        super().__init__(model, args)
        self.shapes = shapes

    def retrace_as_exported_program(self, gm: Any, name_to_constant: Any) -> Any:
        return torch.export.export(gm, self.sample_args, dynamic_shapes=self.shapes, strict=False)


def shapes_by_name(path: pathlib.Path, call: Call, batch: int, dim: Any) -> dict[str, Any]:
    """`dynamic_shapes` of all arguments of a call."""
    names = [a.name for a in torch.jit.load(str(path)).forward.schema.arguments[1:]]
    given_names = [*names[: len(call["args"])], *call["kwargs"]]
    found = export_walk.argument_shapes(path, call, batch, dim)
    return {name: found.get(name) for name in given_names}


def reloaded(program: Any) -> Any:
    """What PyTorch runs after writing and reading it."""
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file).module()


def by_source(case: Any, path: pathlib.Path, call: Call, batch: int, dim: Any) -> Any:
    args, named = given(call)
    seed(call)
    source = module_of(case.twin())
    found = list(shapes_by_name(path, call, batch, dim).values())
    shapes: Any = tuple(found)
    if named:
        parameters = list(inspect.signature(source.forward).parameters)
        shapes = dict(zip([*parameters[: len(args)], *named], found, strict=True))
    with torch.set_grad_enabled(not call.get("no_grad")):
        made = torch.export.export(source, args, named or None, dynamic_shapes=shapes, strict=False)
    return reloaded(made)


def by_converter(path: pathlib.Path, call: Call, batch: int, dim: Any) -> Any:
    if call["kwargs"]:
        raise NotImplementedError("the converter takes no keyword arguments")
    args, _ = given(call)
    seed(call)
    shapes = tuple(shapes_by_name(path, call, batch, dim).values())
    return reloaded(Converted(torch.jit.load(str(path)), args, shapes).convert())


def by_us(path: pathlib.Path, call: Call, batch: int, dim: Any, file: pathlib.Path) -> Any:
    """Our program as PyTorch loads it, so that both sides compute with the same kernels."""
    shapes = export_walk.argument_shapes(path, call, batch, dim)
    return export_walk.by_us(path, call, shapes, file)


def refusals(make: Callable[[], Any], call: Call, batch: int, path: Any = None) -> Refused:
    """What is refused: some of TRIED, or EXPORT; or what is WRONG beside the archive at `path`."""
    try:
        made = make()
    except Exception as error:  # noqa: BLE001
        return {EXPORT: reason(error)}
    found: Refused = {}
    for n in TRIED:
        other = with_batch(call, batch, n)
        try:
            # a call may change its state, on which results depend, and refusals do not
            got = called(copy.deepcopy(made) if path else made, other)
        except Exception as error:  # noqa: BLE001
            found[str(n)] = reason(error)
            continue
        if path and (how := export_walk.differs(got, called(torch.jit.load(str(path)), other))):
            return {WRONG: f"{n}: {how}"}
    return found


def apart(make: Callable[[], Any], call: Call, batch: int, file: pathlib.Path) -> Refused:
    """Return the refusals, from a process of its own: some programs crash PyTorch's converter."""
    file.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        file.write_text(json.dumps(refusals(make, call, batch)))
        os._exit(0)
    os.waitpid(child, 0)
    return json.loads(file.read_text()) if file.exists() else {EXPORT: "it ends"}


# -- The comparison
# --------------------------------------------------------------------------------------------------


def verdict(ours: Refused, theirs: Refused) -> str:
    if WRONG in ours:
        return WRONG
    if set(ours) == set(theirs):
        return AGREE
    refuses_more = EXPORT not in theirs and (EXPORT in ours or set(ours) - set(theirs))
    return OTHERS[0] if refuses_more else OTHERS[1]


def spoken(refused: Refused) -> str:
    if not {EXPORT, WRONG}.isdisjoint(refused):
        return " ".join(refused.values())
    return f"{', '.join(refused) or 'nothing'}" + "".join(
        f" ({n}: {why})" for n, why in refused.items() if n != "65"
    )


class Sizes:
    def __init__(self, walk: Walk) -> None:
        self.file = walk.file.with_suffix(".json")
        self.sources = sources()
        self.found: dict[str, dict[str, list[str]]] = {}

    def take(self, name: str, path: pathlib.Path, call: Call) -> None:
        batch = export_walk.batch_of(call)
        if batch < 1 or not export_walk.has_batch(path, call, batch):
            return
        # an example of size 2 at least: torch.export takes 0 and 1 for constants
        call, batch = with_batch(call, batch, max(batch, 2)), max(batch, 2)
        for what in ("Dim", "Dim.AUTO"):
            self.compare(name, path, call, batch, what)

    def compare(self, name: str, path: pathlib.Path, call: Call, batch: int, what: str) -> None:
        def dim(export: Any) -> Any:
            return export.Dim.AUTO if what == "Dim.AUTO" else export.Dim("batch", min=1, max=64)

        theirs, mine, case = dim(torch.export), dim(rushlight.export), self.sources.get(name)
        # here, since archives that fork have no threads in another process
        program = self.file.with_suffix(".pt2")
        ours = refusals(lambda: by_us(path, call, batch, mine, program), call, batch, path)
        witnesses: dict[str, Callable[[Any], Any]] = {
            "converter": lambda dim: by_converter(path, call, batch, dim)
        }
        if case and case.twin:
            witnesses["source"] = lambda dim: by_source(case, path, call, batch, dim)
        for witness, make in witnesses.items():
            refused = apart(functools.partial(make, theirs), call, batch, self.file)
            fixed = refused
            if EXPORT in refused:
                fixed = apart(functools.partial(make, None), call, batch, self.file)
            has_say = EXPORT not in fixed or WRONG in ours
            how = verdict(ours, refused) if has_say else "no say"
            self.note(f"{what}, {witness}", name, how, (ours, refused))

    def note(self, title: str, name: str, how: str, refused: tuple[Refused, Refused]) -> None:
        self.found.setdefault(title, collections.defaultdict(list))[how].append(name)
        if how in (WRONG, *OTHERS):
            ours, theirs = (spoken(r) for r in refused)
            print(f"{name}: {title}: {how}: we refuse {ours}; PyTorch {theirs}", flush=True)

    def report(self) -> None:
        for title, found in sorted(self.found.items()):
            counts = (f"{len(found[how])} {how}" for how in (AGREE, *OTHERS, WRONG, "no say"))
            print(f"{title}: {', '.join(counts)}")


def main() -> int:
    sizes = Sizes(Walk())
    export_walk.walked(__doc__.splitlines()[0], sizes.take)
    sizes.report()
    return 1 if any(found[WRONG] for found in sizes.found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
