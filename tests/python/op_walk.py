"""All of PyTorch's operator samples (op_db) through Rushlight's operators: the table of the
operators' proof.

    python tests/python/op_walk.py [--only REGEX] [--samples N] [--dtypes float32,int64] [--jobs 2]
    [--out FILE]

A line an entry: samples, passed, failed, cannot run, and why the first of each failed.  What fails
is listed in op_exceptions.tsv with its reason; the exit code is 1 when something fails that is not
listed, or (all samples run) when something listed does not fail any more: the list may only shrink.
 Per sample the entry's function runs twice, by PyTorch and by our operators (torch_calls.py), on
 equal copies of the arguments; compared are values, dtypes,
shapes, strides of dimensions larger than 1, which argument a result shares memory with, and the
arguments afterwards.  The function's in-place form, `out=` form, other layouts of its tensors
(op_layouts.py) and error inputs are counted apart. test_ops.py runs a part of it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import pathlib
import re
import sys
import time
import types
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import rushlight
import torch
from op_layouts import layouts_of
from torch.testing._internal import common_utils
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core
from torch_calls import Missing, Ours

# It reads the source of every frame above for each sample, to find marks that are not ours: half of
# the time, under pytest.
core.extract_test_fn = common_utils.extract_test_fn = lambda: None

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.complex128,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
]
# Memory that PyTorch leaves as it was: only the form is compared.
UNDEFINED = {
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "empty_permuted",
    "resize_",
    "resize_as_",
}
# PyTorch itself dies of some of their other layouts.
NO_LAYOUTS = {"_chunk_cat"}
LAYOUT_DTYPES = {torch.float32, torch.int64}
EXCEPTIONS = pathlib.Path(__file__).with_name("op_exceptions.tsv")
FORMS = ("in-place", "out=", "layouts", "errors")
WAYS = ("pass", "differ", "refused", "cannot run")


def entry_name(op: Any) -> str:
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


class Copies:
    """Arguments again, on memory of their own: the same strides, offsets and sharing."""

    def __init__(self) -> None:
        self.storages: dict[int, torch.UntypedStorage] = {}
        self.tensors: list[torch.Tensor] = []

    def __call__(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if type(value) in (list, tuple):
            return type(value)(self(v) for v in value)
        if type(value) is dict:
            return {k: self(v) for k, v in value.items()}
        return value

    def tensor(self, t: torch.Tensor) -> torch.Tensor:
        if type(t) not in (torch.Tensor, torch.nn.Parameter) or t.layout != torch.strided:
            return t
        t = t.detach()
        conj, neg = t.is_conj(), t.is_neg()
        if conj or neg:
            t = t.conj() if conj else t
            t = torch._neg_view(t) if neg else t
        source = t.untyped_storage()
        storage = self.storages.setdefault(source._cdata, source.clone())
        made = torch.empty(0, dtype=t.dtype).set_(storage, t.storage_offset(), t.shape, t.stride())
        if conj or neg:
            made = made.conj() if conj else made
            made = torch._neg_view(made) if neg else made
        self.tensors.append(made)
        return made


def tolerances(op: Any) -> dict[torch.dtype, tuple[float, float]]:
    """(atol, rtol) by dtype where the entry widens them."""
    found: dict[torch.dtype, tuple[float, float]] = {}
    for info in op.decorators:
        for inner in getattr(info, "decorators", [info]):
            if isinstance(inner, toleranceOverride) and getattr(info, "device_type", None) in (
                None,
                "cpu",
            ):
                for dtype, (atol, rtol) in inner.d.items():
                    old = found.get(dtype, (0.0, 0.0))
                    found[dtype] = (max(old[0], atol), max(old[1], rtol))
    return found


def difference(
    got: Any,
    want: Any,
    name: str = "",
    tolerance: tuple[float, float] | None = None,
    place: str = "result",
) -> str:
    """What differs, or ''.  `tolerance`: (atol, rtol) instead of assert_close's for the dtype."""
    if isinstance(want, torch.Tensor):
        return tensor_difference(got, want, name, tolerance, place)
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            return f"{place}: expected {len(want)} items, got {got!r:.60}"
        pairs = enumerate(zip(got, want, strict=True))
        return next(
            (d for i, (g, w) in pairs if (d := difference(g, w, name, tolerance, f"{place}[{i}]"))),
            "",
        )
    if isinstance(want, torch.dtype) or want is None or isinstance(want, (bool, int, str)):
        same = got == want and isinstance(got, bool) == isinstance(want, bool)
        return "" if same else f"{place}: {got!r:.60} is not {want!r:.60}"
    try:
        torch.testing.assert_close(got, want, equal_nan=True)
    except (AssertionError, TypeError) as error:
        return f"{place}: {str(error).splitlines()[0]:.100}"
    return ""


def tensor_difference(
    got: Any, want: torch.Tensor, name: str, tolerance: tuple[float, float] | None, place: str
) -> str:
    if not isinstance(got, torch.Tensor):
        return f"{place}: got a {type(got).__name__}, not a tensor"
    if got.dtype != want.dtype:
        return f"{place}: dtype {got.dtype}, expected {want.dtype}"
    if got.shape != want.shape:
        return f"{place}: shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    for size, a, b in zip(want.shape, got.stride(), want.stride(), strict=True):
        if size > 1 and a != b and want.numel():
            return (
                f"{place}: strides {got.stride()}, expected {want.stride()} of shape "
                f"{tuple(want.shape)}"
            )
    if name in UNDEFINED:
        return ""
    try:
        options = {} if tolerance is None else {"atol": tolerance[0], "rtol": tolerance[1]}
        torch.testing.assert_close(
            got.resolve_conj(), want.resolve_conj(), equal_nan=True, check_stride=False, **options
        )
    except AssertionError as error:
        lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
        return f"{place}: {' '.join(lines[1:])[:160] or lines[0]:.160}"
    except RuntimeError:
        same = torch.equal(got.to(torch.float32), want.to(torch.float32))
        return "" if same else f"{place}: values differ"
    return ""


def tensors_of(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors_of(v)]
    return []


def sharing(results: Any, arguments: list[torch.Tensor]) -> list:
    """For each result tensor: which argument's memory it lies in, and where."""
    found = []
    for r in tensors_of(results):
        place = None
        for i, a in enumerate(arguments):
            storage = a.untyped_storage()
            at = r.data_ptr() - storage.data_ptr()
            if place is None and r.numel() and storage.nbytes() and 0 <= at < storage.nbytes():
                place = (i, at)
        found.append(place)
    return found


def run_theirs(function: Any, sample: tuple) -> tuple[Any, list[torch.Tensor]]:
    copies = Copies()
    args, kwargs = copies(sample[0]), copies(sample[1])
    torch.manual_seed(1)
    with torch.no_grad():
        return function(*args, **kwargs), copies.tensors


class NothingCalled(Exception):
    """True if Python's own code made the result: there is nothing of ours to compare."""


def run_ours(function: Any, sample: tuple) -> tuple[Any, list[torch.Tensor]]:
    copies = Copies()
    args, kwargs = copies(sample[0]), copies(sample[1])
    torch.manual_seed(1)
    rushlight.manual_seed(1)
    with torch.no_grad(), Ours() as mode:
        # A builtin of PyTorch's is called by name even where none of its arguments is a tensor.
        direct = not isinstance(function, types.FunctionType) and not tensors_of(
            [*args, *kwargs.values()]
        )
        result = mode.call(function, args, kwargs) if direct else function(*args, **kwargs)
        if not mode.called:
            raise NothingCalled
    return result, copies.tensors


def check(
    op: Any, function: Any, sample: tuple, tolerance: tuple[float, float] | None
) -> tuple[str, str]:
    """(one of WAYS or 'no sample', why)."""
    try:
        want, theirs = run_theirs(function, sample)
    except Exception:
        return "no sample", ""  # PyTorch refuses it, too
    if any(
        t.layout != torch.strided
        for t in [*theirs, *tensors_of(want), *tensors_of([*sample[0], *sample[1].values()])]
    ):
        return "cannot run", "sparse tensors"
    try:
        got, mine = run_ours(function, sample)
    except NothingCalled:
        return "no sample", ""
    except (Missing, NotImplementedError) as error:
        return "cannot run", f"{str(error).splitlines()[0]:.160}"
    except Exception as error:
        return "refused", f"{type(error).__name__}: {' '.join(str(error).split()):.160}"
    why = difference(got, want, op.name, tolerance) or difference(
        mine, theirs, op.name, tolerance, "arguments afterwards"
    )
    if not why and sharing(got, mine) != sharing(want, theirs):
        why = f"shares memory with {sharing(got, mine)}, expected {sharing(want, theirs)}"
    return ("differ", why) if why else ("pass", "")


def shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        strides = (
            ""
            if value.layout != torch.strided or value.is_contiguous()
            else f"/{list(value.stride())}"
        )
        return f"{str(value.dtype)[6:]}{list(value.shape)}{strides}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(shown(v) for v in value) + "]"
    return f"{value!r:.40}"


def sample_text(sample: tuple) -> str:
    return ", ".join([*map(shown, sample[0]), *(f"{k}={shown(v)}" for k, v in sample[1].items())])


def samples_of(op: Any, dtype: torch.dtype, most: int) -> Iterator[tuple[Any, tuple]]:
    torch.manual_seed(0)
    try:
        for i, sample in enumerate(op.sample_inputs("cpu", dtype)):
            if i >= most:
                return
            yield sample, ((sample.input, *sample.args), sample.kwargs)
    except Exception:  # the samples' own code does not support every dtype
        return


def listed(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) else [value]


def with_out(function: Any, sample: tuple) -> tuple | None:
    """The sample with results given: NaN or the largest number in them."""
    copies = Copies()
    torch.manual_seed(1)
    try:
        with torch.no_grad():
            want = function(*copies(sample[0]), **copies(sample[1]))
    except Exception:
        return None
    if not tensors_of(want) or not all(
        isinstance(t, torch.Tensor) and t.layout == torch.strided for t in listed(want)
    ):
        return None

    def blank(t: torch.Tensor) -> torch.Tensor:
        made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype)
        try:
            return made.fill_(float("nan") if t.is_floating_point() or t.is_complex() else 1)
        except RuntimeError:
            return made.zero_()

    outs = tuple(blank(t) for t in want) if isinstance(want, (list, tuple)) else blank(want)
    if isinstance(want, list):
        outs = list(outs)
    return sample[0], {**sample[1], "out": outs}


class Row:
    """What became of an entry's samples."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts: Counter = Counter()  # by (form, dtype, way)
        self.why: list[tuple[str, str, str, str, str]] = []  # form, dtype, way, sample, why

    def add(self, form: str, dtype: str, way: str, why: str, text: str) -> None:
        self.counts[form, dtype, way] += 1
        if way in WAYS[1:]:
            self.why.append((form, dtype, way, text, why))

    def n(self, way: str, form: str = "function", dtype: str | None = None) -> int:
        return sum(
            n
            for (f, d, w), n in self.counts.items()
            if f == form and w == way and dtype in (None, d)
        )


def check_forms(
    row: Row, op: Any, dtype: torch.dtype, info: Any, sample: tuple, tolerance: Any
) -> None:
    """The in-place and the out= form of one sample."""
    name = str(dtype)[6:]
    inplace = op.get_inplace()
    if inplace is not None and not info.broadcasts_input and isinstance(sample[0][0], torch.Tensor):
        row.add("in-place", name, *check(op, inplace, sample, tolerance), sample_text(sample))
    if op.supports_out:
        given = with_out(op.op, sample)
        if given is not None:
            row.add("out=", name, *check(op, op.op, given, tolerance), sample_text(given))


def check_errors(row: Row, op: Any) -> None:
    """What PyTorch refuses is refused."""
    if op.error_inputs_func is None:
        return
    try:
        inputs = list(op.error_inputs("cpu"))
    except Exception:
        return
    for item in inputs:
        sample = ((item.sample_input.input, *item.sample_input.args), item.sample_input.kwargs)
        try:
            run_theirs(op.op, sample)
            continue  # PyTorch's own binding decides by more than the arguments
        except Exception as error:
            theirs = type(error)
        if theirs is TypeError and not tensors_of([*sample[0], *sample[1].values()]):
            continue  # PyTorch's binding of Python wants a tensor; torch.ops takes numbers
        try:
            run_ours(op.op, sample)
            way, why = (
                "differ",
                f"accepted; PyTorch raises {theirs.__name__}: {str(item.error_regex):.60}",
            )
        except (Missing, NotImplementedError) as error:
            way, why = (
                ("pass", "")
                if theirs is NotImplementedError
                else ("cannot run", f"{str(error).splitlines()[0]:.120}")
            )
        except Exception:
            way, why = "pass", ""
        row.add("errors", "-", way, why, sample_text(sample))


def check_layouts(row: Row, op: Any, dtype: torch.dtype, sample: tuple, tolerance: Any) -> None:
    """Strides, expansion, emptiness, no dimensions: results as PyTorch's, or both refuse."""
    for layout, other in layouts_of(sample):
        way, why = check(op, op.op, other, tolerance)
        row.add("layouts", str(dtype)[6:], way, f"{layout}: {why}", sample_text(other))


def walk(
    op: Any,
    dtypes: list[torch.dtype],
    most: int,
    forms: int = 2,
    layouts: int = 0,
    errors: bool = True,
) -> Row:
    """One entry: all dtypes; the other forms and layouts of the first `forms`, `layouts` samples of
    each dtype."""
    row = Row(entry_name(op))
    wide = tolerances(op)
    for dtype in dtypes:
        if not op.supports_dtype(dtype, "cpu"):
            continue
        for i, (info, sample) in enumerate(samples_of(op, dtype, most)):
            tolerance = wide.get(dtype)
            row.add(
                "function",
                str(dtype)[6:],
                *check(op, op.op, sample, tolerance),
                sample_text(sample),
            )
            if i < forms:
                check_forms(row, op, dtype, info, sample, tolerance)
            if i < layouts and dtype in LAYOUT_DTYPES and op.name not in NO_LAYOUTS:
                check_layouts(row, op, dtype, sample, tolerance)
    if errors:
        check_errors(row, op)
    return row


def exceptions() -> dict[tuple[str, str], tuple[set[str], str]]:
    """What is known to fail: (entry, form) -> (dtypes, reason)."""
    found = {}
    for text in EXCEPTIONS.read_text(encoding="utf-8").splitlines()[1:]:
        entry, form, dtypes, reason = text.split("\t")
        found[entry, form] = (set(dtypes.split(",")), reason)
    if torch.backends.cpu.get_cpu_capability() != "AVX512":  # where oneDNN takes bfloat16
        reason = "PyTorch sums or interpolates in 16 bits; here in float32"
        found["nn.functional.conv_transpose1d", "function"] = ({"bfloat16"}, reason)
    return found


def unlisted(row: Row, known: dict[tuple[str, str], tuple[set[str], str]]) -> list[str]:
    """The entry's failures that have no line in the list."""
    return [
        f"{row.name} ({form}) {way}: ({text}): {why}"
        for form, dtype, way, text, why in row.why
        if dtype not in known.get((row.name, form), (set(), ""))[0]
    ]


def line(row: Row) -> str:
    total = sum(row.n(w) for w in WAYS)
    parts = [
        f"{row.name:<44}{total:>6}{row.n('pass'):>7}{row.n('differ'):>7}{row.n('refused'):>8}"
        f"{row.n('cannot run'):>11}"
    ]
    for form in FORMS:
        n = sum(row.n(w, form) for w in WAYS)
        parts.append(f"{row.n('pass', form)}/{n}".rjust(9) if n else "-".rjust(9))
    return "".join(parts)


def work(job: tuple[int, list[str], int, int, int]) -> tuple[dict, list, str]:
    index, dtypes, most, forms, layouts = job
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    row = walk(op_db[index], [getattr(torch, d) for d in dtypes], most, forms, layouts)
    return {"|".join(k): n for k, n in row.counts.items()}, row.why, row.name


def results_of(jobs: list[tuple], n_workers: int) -> Iterator[tuple[dict, list, str]]:
    """work() of each job in order; one that kills its process is told apart by running alone."""
    if n_workers == 1:
        yield from map(work, jobs)
        return
    fork = multiprocessing.get_context("fork")
    at = 0
    while at < len(jobs):
        with ProcessPoolExecutor(n_workers, mp_context=fork) as pool:
            try:
                for result in pool.map(work, jobs[at:]):
                    yield result
                    at += 1
                return
            except BrokenProcessPool:
                pass
        with ProcessPoolExecutor(1, mp_context=fork) as alone:
            try:
                yield alone.submit(work, jobs[at]).result()
            except BrokenProcessPool:
                name = entry_name(op_db[jobs[at][0]])
                yield (
                    {"function|float32|cannot run": 1},
                    [("function", "float32", "cannot run", "", "the process died")],
                    name,
                )
        at += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="entries whose name matches")
    parser.add_argument(
        "--samples", type=int, default=1 << 30, help="of each entry and dtype; default all"
    )
    parser.add_argument("--dtypes", default=",".join(str(d)[6:] for d in DTYPES))
    parser.add_argument(
        "--forms",
        type=int,
        default=2,
        help="samples of each dtype whose in-place and out= forms run",
    )
    parser.add_argument(
        "--layouts", type=int, default=0, help="samples of each dtype run in other layouts"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--all", action="store_true", help="every failing sample, not the first of each kind"
    )
    parser.add_argument("--json", help="counts and reasons, for other tools")
    options = parser.parse_args()
    chosen = [i for i, op in enumerate(op_db) if re.search(options.only, entry_name(op))]
    jobs = [
        (i, options.dtypes.split(","), options.samples, options.forms, options.layouts)
        for i in chosen
    ]
    print(f"{'entry':<44}{'n':>6}{'pass':>7}{'differ':>7}{'refused':>8}{'cannot run':>11}", end="")
    print(f"{'in-place':>9}{'out=':>9}{'layouts':>9}{'errors':>9}")
    rows: list[Row] = []
    began = time.monotonic()
    for counts, why, name in results_of(jobs, options.jobs):
        row = Row(name)
        row.counts.update({tuple(k.split("|")): n for k, n in counts.items()})
        row.why = why
        rows.append(row)
        print(line(row), flush=True)
        seen = set()
        for form, _, way, text, reason in why:
            if options.all or (form, way) not in seen:
                print(f"    {form} {way}: ({text}): {reason}", flush=True)
            seen.add((form, way))
    return summary(rows, options, time.monotonic() - began)


def summary(rows: list[Row], options: argparse.Namespace, seconds: float) -> int:
    total = sum(r.n(w) for r in rows for w in WAYS)
    passed = sum(r.n("pass") for r in rows)
    runs = sum(
        1
        for r in rows
        if 0 < sum(r.n(w, dtype="float32") for w in WAYS) * 0.9 <= r.n("pass", dtype="float32")
    )
    floats = sum(1 for r in rows if sum(r.n(w, dtype="float32") for w in WAYS))
    whole = sum(1 for r in rows if r.counts and not r.why)
    print(
        f"\n{passed} of {total} samples pass ({passed / max(total, 1):.2%}); {whole} of "
        f"{len(rows)} entries whole;"
    )
    print(f"float32: {runs} entries of {len(rows)} pass 90 % ({floats} have float32 samples)")
    for form in FORMS:
        n = sum(r.n(w, form) for r in rows for w in WAYS)
        print(f"{form}: {sum(r.n('pass', form) for r in rows)} of {n}")
    print(f"{seconds:.0f} s")
    if options.json:
        with open(options.json, "w") as file:
            entries = [
                {
                    "name": r.name,
                    "counts": {"|".join(k): n for k, n in r.counts.items()},
                    "why": r.why,
                }
                for r in rows
            ]
            json.dump(entries, file)
    return judged(
        rows, everything=options.samples > 1 << 20 and options.layouts > 0 and not options.only
    )


def judged(rows: list[Row], everything: bool) -> int:
    """Return 0 if exactly the listed samples fail."""
    known = exceptions()
    fresh = [text for r in rows for text in unlisted(r, known)]
    for text in fresh[:200]:
        print(f"not listed: {text:.300}")
    failing = {(r.name, form, dtype) for r in rows for form, dtype, *_ in r.why}
    listed_now = (
        [(e, f, d) for (e, f), (dtypes, _) in known.items() for d in dtypes] if everything else []
    )
    mended = [one for one in listed_now if one not in failing]
    for entry, form, dtype in mended:
        print(f"listed in {EXCEPTIONS.name}, and passes now: {entry}, {form}, {dtype}")
    print(f"{len(fresh)} failures not listed, {len(mended)} listed that pass")
    return 1 if fresh or mended else 0


if __name__ == "__main__":
    sys.exit(main())
