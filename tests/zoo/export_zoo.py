"""Models of other libraries, exported: does rushlight.export.export do as torch.export.export does?

    python tests/zoo/export_zoo.py [NAME ...] [--jobs N] [--keep DIR] [--list] [--untimed]

For each model of tests/zoo/models.py, with random weights: torch.export.export(strict=False) and
rushlight.export.export of the same call.  The file that rushlight.export.save writes is opened by
torch.export.load; its operators, those of nested graphs included, are compared with those of
PyTorch's program, in order, and its results with the module's.  Times are processor time of one
thread, each the median of a few calls that were interleaved, after a first call of each: our call,
PyTorch's, and the floor, which is the module's own forward under a mode that does nothing with each
operator.  Our call is fast if it takes a fifth of PyTorch's, or 1.5 times the floor.

Prints a line a model; ends with 1 when fewer than 95 % of the models are exported, fewer than 90 %
have the same operators, or any file is not opened with the same results.  Times decide nothing.  A
model that torch.export.export itself refuses is named, and not counted.
"""

from __future__ import annotations

import functools
import io
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import walk
from walk import distance, leaves

CLOSE = 1e-5  # of the largest element
EXPORTED, SAME_OPERATORS = 0.95, 0.90
AT_LEAST = 120  # models
FASTER, OF_FLOOR = 5.0, 1.5
ROUNDS, ROUNDS_SECONDS = 3, 20.0


def operators(program: Any) -> Iterator[str]:
    """Yield the names of what a torch.fx.GraphModule calls, in order, nested graphs after the call
    that has them."""
    import torch

    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        is_operator = hasattr(node.target, "namespace")
        yield str(node.target) if is_operator else node.target.__name__
        for used in node.all_input_nodes:
            inner = getattr(program, used.target, None) if used.op == "get_attr" else None
            if isinstance(inner, torch.fx.GraphModule):
                yield from operators(inner)


def first_difference(want: list[str], got: list[str]) -> str | None:
    """Return where two lists of operators part; None: they are the same."""
    at = next((i for i, (a, b) in enumerate(zip(want, got, strict=False)) if a != b), None)
    if at is None and len(want) == len(got):
        return None
    at = min(len(want), len(got)) if at is None else at
    texts = [names[at] if at < len(names) else "the end" for names in (got, want)]
    return f"operator {at} of {len(want)}: {texts[0]}, not {texts[1]}"


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def under_empty_mode(call: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that makes the call under a mode above autograd that does nothing."""
    import torch
    from torch._dispatch.python import enable_python_dispatcher
    from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

    class Empty(ProxyTorchDispatchMode):  # the dispatcher takes no other class there
        def __init__(self) -> None:
            pass

        def __enter__(self) -> Any:
            torch._ops._set_mode_pre_dispatch(self)
            return self

        def __exit__(self, *error: Any) -> None:
            torch._ops.unset_mode_pre_dispatch(torch._C._TorchDispatchModeKey.PROXY)

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    def run() -> Any:
        with enable_python_dispatcher(), Empty():
            return call()

    return run


def times(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the median processor time of each call, in seconds.  Each was called before."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    end = time.monotonic() + ROUNDS_SECONDS
    for _ in range(ROUNDS):
        for name, call in calls.items():
            begin = time.process_time()
            call()
            taken[name].append(time.process_time() - begin)
        if time.monotonic() > end:
            break
    return {name: statistics.median(t) for name, t in taken.items()}


def try_one(name: str, folder: pathlib.Path, timed: bool = True) -> dict[str, Any]:
    """{"refused": PyTorch's reason} or {"error": ours} or {"difference": of operators, or None;
    "results": distance or what failed; "times"}."""
    import models
    import rushlight.export
    import torch

    torch.manual_seed(1)
    torch.set_num_threads(1)

    def call(function: Callable[..., Any]) -> Any:
        torch.manual_seed(2)
        with torch.no_grad():
            return leaves(function(*case.args, **case.kwargs))

    def theirs() -> Any:
        return torch.export.export(case.module, case.args, case.kwargs, strict=False)

    def ours() -> Any:
        return rushlight.export.export(case.module, case.args, case.kwargs)

    try:
        case = dict(models.everything())[name]()
        models.liven(case)
        want = call(case.module)
        program = theirs()
    except Exception as error:
        return {"refused": first_line(error)}
    try:
        made = ours()
    except Exception as error:
        return {"error": first_line(error)}
    answer: dict[str, Any] = {"difference": "not opened", "results": None}
    try:
        path = str(folder / "model.pt2")
        rushlight.export.save(made, path)
        opened = torch.export.load(path)
        lists = [list(operators(p.graph_module)) for p in (program, opened)]
        answer["difference"] = first_difference(*lists)
        (folder / "torch.txt").write_text(str(program))
        (folder / "rushlight.txt").write_text(str(opened))
        answer["results"] = distance(want, call(opened.module()))
    except Exception as error:
        answer["results"] = first_line(error)
    if not timed:
        return answer
    forward = under_empty_mode(lambda: case.module(*case.args, **case.kwargs))
    try:
        forward()
        answer["times"] = times({"ours": ours, "theirs": theirs, "floor": forward})
    except Exception as error:
        answer["untimed"] = first_line(error)
    return answer


def is_same(answer: dict[str, Any]) -> bool:
    return isinstance(answer["results"], float) and answer["results"] <= CLOSE


def is_fast(taken: dict[str, float]) -> bool:
    return (
        taken["theirs"] >= FASTER * taken["ours"] or taken["ours"] <= OF_FLOOR * taken["floor"]
    )


def text_of(answer: dict[str, Any]) -> str:
    """Return what is printed for a model that was exported."""
    difference = answer["difference"]
    operators = "same operators" if difference is None else f"OTHER OPERATORS {difference}"
    parts = ["exported", operators]
    parts.append("same results" if is_same(answer) else f"OTHER RESULTS {answer['results']}")
    if answer["results"] != 0 and is_same(answer):
        parts[-1] += f" ({answer['results']:.0e})"
    if "times" in answer:
        taken = answer["times"]
        ours, theirs, floor = taken["ours"], taken["theirs"], taken["floor"]
        parts.append(
            f"ours {ours * 1e3:.0f} ms, torch.export {theirs * 1e3:.0f} ms, floor "
            f"{floor * 1e3:.0f} ms: {theirs / ours:.1f} times faster, {ours / floor:.2f} of the "
            f"floor{'' if is_fast(taken) else ', SLOW'}"
        )
    elif "untimed" in answer:
        parts.append(f"not timed: {answer['untimed']}")
    return "; ".join(parts)


class Counts:
    """What became of the models."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.failed: list[str] = []
        self.exported: list[str] = []
        self.other_operators: list[str] = []
        self.other_results: list[str] = []
        self.times: list[dict[str, float]] = []

    def add(self, name: str, answer: dict[str, Any] | None) -> tuple[bool, str]:
        """Note an answer; return (all is well, what is printed)."""
        if answer is None or "error" in answer:
            self.failed.append(name)
            return False, f"NOT EXPORTED {answer['error'] if answer else 'the process ended'}"
        if "refused" in answer:
            self.refused.append(name)
            return True, f"torch.export refuses it: {answer['refused']}"
        self.exported.append(name)
        if answer["difference"] is not None:
            self.other_operators.append(name)
        if not is_same(answer):
            self.other_results.append(name)
        if "times" in answer:
            self.times.append(answer["times"])
        return answer["difference"] is None and is_same(answer), text_of(answer)

    def summary(self) -> str:
        n, counted = len(self.exported), len(self.exported) + len(self.failed)
        lines = [
            f"{n} of {counted} models exported ({share(n, counted)}); "
            f"{n - len(self.other_operators)} with torch.export's operators in its order "
            f"({share(n - len(self.other_operators), counted)}); "
            f"{n - len(self.other_results)} of {n} opened by PyTorch with the same results; "
            f"{len(self.refused)} that torch.export refuses are not counted"
        ]
        if self.times:
            faster = sorted(t["theirs"] / t["ours"] for t in self.times)
            floors = sorted(t["ours"] / t["floor"] for t in self.times)
            fast = sum(map(is_fast, self.times))
            lines.append(
                f"{fast} of {len(self.times)} are fast: at least {FASTER:g} times faster than "
                f"torch.export, or within {OF_FLOOR:g} of the floor; times faster: least "
                f"{faster[0]:.1f}, median {statistics.median(faster):.1f}; of the floor: median "
                f"{statistics.median(floors):.2f}, most {floors[-1]:.2f}"
            )
        return "\n".join(lines)

    def holds(self, is_whole: bool) -> bool:
        n, counted = len(self.exported), len(self.exported) + len(self.failed)
        return (
            counted >= (AT_LEAST if is_whole else 1)
            and n >= EXPORTED * counted
            and n - len(self.other_operators) >= SAME_OPERATORS * counted
            and not self.other_results
        )


def share(n: int, of: int) -> str:
    return f"{100 * n / of:.1f} %" if of else "none"


def warm() -> None:
    """Import what an export imports, once for all processes."""
    import rushlight.export
    import torch

    torch.set_num_threads(1)  # before the forks: no other thread is there
    call = torch.nn.Linear(2, 2), (torch.ones(1, 2),)
    program = torch.export.export(*call)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    torch.export.load(file)
    rushlight.export.export(*call)


def main() -> int:
    p = walk.options(__doc__)
    p.add_argument("--untimed", action="store_true", help="measure no times")
    o = p.parse_args()
    names = walk.begin(o)
    warm()
    counts = Counts()
    one = functools.partial(try_one, timed=not o.untimed)
    for name, answer, took, folder in walk.answers(names, o, one):
        good, text = counts.add(name, answer)
        print(f"{name:<48} {took:5.1f} s  {text}", flush=True)
        if not good:
            walk.keep(o, name, folder)
    print(counts.summary())
    return 0 if counts.holds(not o.names) else 1


if __name__ == "__main__":
    sys.exit(main())
