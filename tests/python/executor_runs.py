"""The same calls under each executor, and all that can be seen of them.

MODES are the ways to run a program: executors, and settings of one. `observe` makes one call and
returns what it did as plain data: results with their layouts and aliases, arguments and state after
it, what it printed, random states, versions, gradients, or the error with its traceback.
`difference` makes the same calls in every mode and tells where the first differs.

    python tests/python/executor_runs.py SEED      runs a program of random_tensors.py, in detail
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import random_tensors
import rushlight

ADDRESS = re.compile(r"<\S+ object(?: at 0x\w+)?>")
# Results that never leave are written to once, or by each operator into the memory of the one
# before: only the difference of the versions is the program's.
VERSIONS = re.compile(r"is at version (\d+); expected version (\d+) instead")


@contextlib.contextmanager
def failing_guards(seed: int, nth: int = 0) -> Iterator[None]:
    """Functions that run first in here have guards behind their nodes, some of which fail."""
    rushlight._rushlight.set_guard_failures(seed, nth)
    try:
        yield
    finally:
        rushlight._rushlight.set_guard_failures(0, 0)


class Mode(NamedTuple):
    """A way to run: every program has to do the same in each."""

    name: str
    executor: str
    plans: bool = True
    seed: int = 0  # of guards that fail

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """What is called in it for the first time runs in this way."""
        before = rushlight.get_executor()
        rushlight.set_executor(self.executor)
        try:
            with rushlight.jit.optimized_execution(self.plans), failing_guards(self.seed):
                yield
        finally:
            rushlight.set_executor(before)


class Loaded:
    """A module whose calls are an executor's; the setting is the process's."""

    def __init__(self, path: pathlib.Path, executor: str) -> None:
        self.executor, self.module = executor, rushlight.load(str(path))

    def __call__(self, *args: Any) -> Any:
        rushlight.set_executor(self.executor)
        return self.module(*args)


# Guards fail on purpose by each of these seeds.
SEEDS = range(1, 11 if os.environ.get("RUSHLIGHT_NIGHTLY") else 2)
MODES = (
    Mode("simple", "simple"),
    Mode("specialising", "specialising"),
    Mode("profiling", "profiling"),
    *(Mode(f"failing guards, seed {seed}", "profiling", seed=seed) for seed in SEEDS),
    Mode("without plans", "profiling", plans=False),
)


# -- What is seen
# --------------------------------------------------------------------------------------------------


class Seen:
    """Values as plain data; tensors that share memory get the same number."""

    def __init__(self) -> None:
        self.memory: dict[int, int] = {}

    def tensor(self, t: Any) -> Any:
        shares = None
        if t.numel():
            start = t.data_ptr() - t.storage_offset() * t.element_size()
            shares = self.memory.setdefault(start, len(self.memory)), t.storage_offset()
        if type(t).__module__.startswith("torch"):
            import same_bits

            elements: Any = same_bits.bits(t)
        else:
            elements = repr(t.detach().tolist())
        strides = [
            s if n > 1 and t.numel() else 0 for n, s in zip(t.shape, t.stride(), strict=True)
        ]
        layout = str(t.dtype), tuple(t.shape), strides, t.requires_grad
        return "tensor", layout, shares, elements

    def value(self, v: Any) -> Any:
        if hasattr(v, "storage_offset") and hasattr(v, "stride"):
            return self.tensor(v)
        if isinstance(v, (list, tuple)):
            return [type(v).__name__, *map(self.value, v)]
        if isinstance(v, dict):
            return [(self.value(k), self.value(item)) for k, item in v.items()]
        return type(v).__name__, ADDRESS.sub("<object>", repr(v))


def same(a: Any, b: Any) -> bool:
    if hasattr(a, "storage_offset"):
        return hasattr(b, "storage_offset") and a.shape == b.shape and bool((a == b).all())
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def leaves(value: Any) -> list[Any]:
    """The tensors of a value, depth first."""
    if hasattr(value, "storage_offset") and hasattr(value, "stride"):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return []


def manual_seed(seed: int) -> None:
    """Programs draw from torch's generator once torch is there."""
    rushlight.manual_seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def random_states() -> list[str]:
    states = [rushlight.get_rng_state()]
    if "torch" in sys.modules:
        states.append(sys.modules["torch"].get_rng_state().numpy().tobytes())
    return [hashlib.sha256(state).hexdigest()[:16] for state in states]


def version(t: Any) -> int:
    return t._version() if callable(t._version) else t._version


def gradients(results: list[Any], inputs: list[Any]) -> Any:
    """Of what can be differentiated; an error is a result, too."""
    parts = [r.sum() for r in results if r.requires_grad and r.is_floating_point()]
    if not parts:
        return None
    try:
        total = parts[0]
        for p in parts[1:]:
            total = total + p.to(total.dtype)
        total.backward()
    except Exception as error:  # noqa: BLE001
        text = VERSIONS.sub(lambda m: f"{int(m[1]) - int(m[2])} writes later", str(error))
        return f"{type(error).__name__}: {text}"
    return [None if i.grad is None else Seen().value(i.grad) for i in inputs]


def observe(
    call: Callable[..., Any], args: tuple, state: Callable[[], Any], records: bool = True
) -> dict[str, Any]:
    """All that one call does.  `state` returns what the callee keeps."""
    seen, printed = Seen(), io.StringIO()
    out: dict[str, Any] = {}
    result = None
    with contextlib.redirect_stdout(printed):
        try:
            with rushlight.enable_grad() if records else contextlib.nullcontext():
                result = call(*args)
        except Exception as error:  # noqa: BLE001
            out["error"] = f"{type(error).__name__}: {ADDRESS.sub('<object>', str(error))}"
    out["arguments"] = seen.value(args)
    out["result"] = seen.value(result)
    out["state"] = seen.value(state())
    out["printed"] = printed.getvalue()
    out["versions"] = [version(t) for t in leaves(args)]
    out["random state"] = random_states()
    if records:
        inputs = [t for t in leaves(args) + leaves(state()) if t.requires_grad and t.is_leaf]
        out["gradients"] = gradients(leaves(result), inputs)
    return out


class Difference(NamedTuple):
    what: str
    text: str


# Operators that a compiler takes together run at the place of one of them.  Where two operators of
# straight-line code fail, the error of the later one may therefore be the one that is raised, and
# what draws random numbers between both may have run or not.
OTHER_ERROR = "the error of another operator"


def compare(name: str, i: int, want: dict[str, Any], got: dict[str, Any]) -> Difference | None:
    for what in sorted({*want, *got}):
        if same(want.get(what), got.get(what)):
            continue
        text = f"  {MODES[0].name}: {want.get(what)}\n  {name}: {got.get(what)}"
        if what in ("error", "random state") and "error" in want and "error" in got:
            what = OTHER_ERROR
        return Difference(what, f"call {i}: {what} of {name} differs from {MODES[0].name}\n{text}")
    return None


def difference(run: Callable[[], Iterator[dict[str, Any]]]) -> Difference | None:
    """`run` makes the calls of a program anew; return what differs first between modes."""
    first: list[dict[str, Any]] = []
    other = None
    for mode in MODES:
        with mode.active():
            made = list(run())
        first = first or made
        for i, (want, got) in enumerate(zip(first, made, strict=True)):
            found = compare(mode.name, i, want, got)
            if found and found.what != OTHER_ERROR:
                return found
            other = other or found
    return other


# -- Random programs over tensors
# --------------------------------------------------------------------------------------------------


def made(a: random_tensors.Argument | None, number: int) -> Any:
    if a is None:
        return None
    n = 1
    for size in a.sizes:
        n *= size
    t = rushlight.tensor([((i * 7 + number * 3) % 11 - 4) * 0.25 for i in range(n)])
    t = t.to(getattr(rushlight, a.dtype)).reshape(list(a.sizes))
    if a.is_turned:
        t = t.t().contiguous().t()
    return t.requires_grad_() if a.needs_grad else t


def tensor_calls(p: random_tensors.Program) -> Iterator[dict[str, Any]]:
    """Load the program and make its calls on one object; the state is seen after each."""
    manual_seed(3)
    path = pathlib.Path(tempfile.gettempdir()) / f"random_tensors{os.getpid()}.py"
    path.write_text(p.text, encoding="utf-8")
    module = rushlight.load(str(path))
    path.unlink()
    sizes, n, training, has_opt = p.state
    w = made(random_tensors.Argument(sizes, "float32", False, True), 1)
    total = made(random_tensors.Argument((4,), "float32", False, False), 2)
    opt = made(random_tensors.Argument((4,), "float32", False, False), 5) if has_opt else None
    o = module.make(w, total, n, training, opt)
    for i, call in enumerate(p.calls):
        x = made(call.x, i)
        args = x, made(call.y, i + 1), call.k
        yield observe(o.run, args, o.state, call.records)


# -- Archives of a corpus
# --------------------------------------------------------------------------------------------------


def kept_by(module: Any) -> Any:
    """What a loaded program keeps: its whole pickle, or its tensors if it cannot be saved."""
    try:
        return hashlib.sha256(module.save_to_buffer()).hexdigest()
    except NotImplementedError:
        return dict(module.state_dict())


def copied(value: Any, needs_grad: bool) -> Any:
    """The same argument on memory of its own; tensors that can may require gradients."""
    import same_bits

    if isinstance(value, dict):
        return {k: copied(v, needs_grad) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(copied(v, needs_grad) for v in value)
    value = same_bits.copied(value)
    if needs_grad and hasattr(value, "is_floating_point") and value.is_floating_point():
        value.requires_grad_()
    return value


def archive_calls(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """A case of the corpus: its calls three times on one object, then on another with gradients."""
    import torch

    model = next(m for m in (folder / "model.pt", folder / "model.pt2") if m.exists())
    calls = torch.load(folder / "calls.pt", weights_only=True)["calls"]
    for needs_grad in (False, True):
        module = rushlight.load(str(model))
        manual_seed(5)
        for call in calls * 3:
            if "seed" in call:
                manual_seed(call["seed"])
            args = copied(call["args"], needs_grad)
            named = copied(call["kwargs"], needs_grad)
            function = getattr(module, call["method"])

            def made(*args: Any, f: Any = function, named: Any = named) -> Any:
                return f(*args, **named)

            with torch.set_grad_enabled(needs_grad and "no_grad" not in call):
                yield observe(made, args, lambda: None, needs_grad)
        yield {"state": Seen().value(kept_by(module))}


def main() -> int:
    p = random_tensors.program(int(sys.argv[1]))
    print(p.text)
    for i, seen in enumerate(tensor_calls(p)):
        print(i, p.calls[i], *(f"  {k}: {v}" for k, v in seen.items()), sep="\n")
    found = difference(lambda: tensor_calls(p))
    print(found.text if found else "the same in all modes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
