"""Are a result's bits the same with 1, 2 and 8 threads, and with AVX-512, AVX2 and portable code?

    python tests/python/same_bits.py [--only NAME] [--shapes 3] [--seed 0] [--corpus DIR]
    [--no-operators]

Sources: operators on larger random arguments (so that they are cut into pieces and have whole
vectors) and on PyTorch's own samples (op_db), the networks of programs.py, quantized layers, and
the programs of a corpus.  Each runs once for every pair of CPU and number of threads, from the same
seed, on arguments of its own; all results must be equal, bit for bit. (Any NaN equals any NaN: what
is in one depends on the order of an instruction's operands.)  A line per difference; closes with
what was compared and how many differ.  test_same_bits.py runs a part of it.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import io
import itertools
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import rushlight
import same_bits_cases
import torch

Case = tuple[str, tuple, dict]


def ways() -> list[tuple[str, int]]:
    """(cpu, threads), the reference first; what the machine lacks is left out."""
    out = []
    for cpu in ("avx512", "avx2", "portable"):
        rushlight.set_cpu(cpu)
        if rushlight.get_cpu() == cpu:
            out += [(cpu, n) for n in (1, 2, 8)]
    rushlight.set_cpu("native")
    return out


# -- Bits
# --------------------------------------------------------------------------------------------------


def tensor_bits(t: torch.Tensor) -> Any:
    t = t.detach().resolve_conj().resolve_neg().contiguous()
    shape, dtype = tuple(t.shape), t.dtype
    if t.is_quantized:
        t = t.int_repr()
    if t.is_complex():
        t = torch.view_as_real(t)
    if t.is_floating_point():
        wide = t.float() if t.element_size() < 4 else t
        t = torch.where(wide.isnan(), torch.full_like(t, float("nan")), t)
    return dtype, shape, t.reshape(-1).view(torch.uint8) if t.numel() else None


def bits(value: Any) -> Any:
    """Something of lists, tuples, texts and byte tensors that `same` compares."""
    if isinstance(value, torch.Tensor):
        return tensor_bits(value)
    if isinstance(value, (list, tuple)):
        return [bits(v) for v in value]
    if isinstance(value, dict):
        return [(bits(k), bits(v)) for k, v in value.items()]
    return "nan" if value != value else repr(value)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def copied(value: Any) -> Any:
    """The same argument on memory of its own, laid out as it was."""
    if isinstance(value, torch.Tensor):
        if any(
            stride == 0 and size > 1
            for size, stride in zip(value.shape, value.stride(), strict=False)
        ):
            return value.detach()
        return value.detach().clone(memory_format=torch.preserve_format)
    if type(value) in (list, tuple):
        return type(value)(copied(v) for v in value)
    return value


def manual_seed(seed: int) -> None:
    """Programs draw from torch's generator once torch is there, single operators from ours."""
    rushlight.manual_seed(seed)
    torch.manual_seed(seed)


# -- Comparison
# --------------------------------------------------------------------------------------------------


class Tally:
    def __init__(self, only: str, few: bool = False, most_lines: int = 3) -> None:
        self.only, self.most_lines = only, most_lines
        self.ways = ways()
        if few:  # every CPU, every number of threads, but not every pair
            self.ways = self.ways[:1] + self.ways[2::2]
        self.operators: set[str] = set()
        self.programs = self.calls = self.refused = 0
        self.different: dict[str, list[str]] = {}

    def compare(self, name: str, text: str, run: Callable[[], Any]) -> bool:
        """True when it ran: `run` in each way; what differs is kept."""
        first, wrong, failed = None, [], False
        for cpu, n_threads in self.ways:
            rushlight.set_cpu(cpu)
            rushlight.set_num_threads(n_threads)
            manual_seed(1)
            try:
                got = bits(run())
            except Exception as error:
                got, failed = f"{type(error).__name__}: {error}", True
            if first is None:
                first = got
            elif not same(first, got):
                wrong.append(f"{cpu}/{n_threads}")
        self.calls += not failed
        self.refused += failed
        if wrong:
            lines = self.different.setdefault(name, [])
            lines.append(text)
            if len(lines) <= self.most_lines:
                print(
                    f"DIFFERS {name}({text}) with {', '.join(wrong)} from "
                    f"{self.ways[0][0]}/{self.ways[0][1]}",
                    flush=True,
                )
        return not failed

    def operator(self, case: Case) -> None:
        name, args, kwargs = case
        if self.only and self.only not in name:
            return
        theirs = getattr(rushlight.ops.aten, name, None)
        if theirs is None:
            return
        if self.compare(
            name,
            shown(args, kwargs),
            lambda: theirs(*copied(args), **{k: copied(v) for k, v in kwargs.items()}),
        ):
            self.operators.add(name)

    def close(self) -> int:
        cpus = ", ".join(dict.fromkeys(cpu for cpu, _ in self.ways))
        print(
            f"{len(self.operators)} operators and {self.programs} programs compared "
            f"({self.calls} calls, {self.refused} refused) on {cpus} with 1, 2 and 8 threads: "
            f"{len(self.different)} differ"
        )
        return 1 if self.different else 0


def shown(args: Any, kwargs: dict) -> str:
    def one(v: Any) -> str:
        if isinstance(v, torch.Tensor):
            return f"{str(v.dtype)[6:]}{list(v.shape)}" + (
                "" if v.is_contiguous() else f" strides {v.stride()}"
            )
        return "[" + ", ".join(map(one, v)) + "]" if isinstance(v, (list, tuple)) else repr(v)

    return ", ".join([*map(one, args), *(f"{k}={one(v)}" for k, v in kwargs.items())])


# -- Sources
# --------------------------------------------------------------------------------------------------

UNDEFINED = (
    "empty",
    "new_empty",
    "resize",
    "set_",
    "from_file",
)  # results that are whatever memory held


def sample_cases(most: int) -> Iterator[Case]:
    import op_walk

    for op in op_walk.op_db:
        if op.aten_name.startswith(UNDEFINED):
            continue
        for dtype in (
            torch.float32,
            torch.float64,
            torch.bfloat16,
            torch.float16,
            torch.int64,
            torch.complex64,
        ):
            if op.supports_dtype(dtype, "cpu"):
                for _, (args, kwargs) in op_walk.samples_of(op, dtype, most):
                    yield op.aten_name, args, kwargs


def run_operators(tally: Tally, n_shapes: int, n_samples: int, seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)
    for case in same_bits_cases.cases(n_shapes):
        tally.operator(case)
    if n_samples:
        for case in sample_cases(n_samples):
            tally.operator(case)


def perform(model: Any, calls: list[dict]) -> list:
    out = []
    for call in calls:
        args, kwargs = copied(call["args"]), {k: copied(v) for k, v in call["kwargs"].items()}
        if "seed" in call:
            manual_seed(call["seed"])
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            try:
                result = getattr(model, call["method"])(*args, **kwargs)
            except Exception as error:
                result = f"{type(error).__name__}: {error}"
        out.append([result, args, text.getvalue()])
    return out


def run_programs(tally: Tally, corpus: str) -> None:
    for path in sorted(glob.glob(os.path.join(corpus, "**", "calls.pt"), recursive=True)):
        folder = os.path.dirname(path)
        name = os.path.relpath(folder, corpus)
        if tally.only and tally.only not in name:
            continue
        model = next(
            m
            for m in (os.path.join(folder, "model.pt"), os.path.join(folder, "model.pt2"))
            if os.path.exists(m)
        )
        calls = torch.load(path, weights_only=True)["calls"]
        tally.programs += tally.compare(
            name, "", lambda m=model, c=calls: perform(rushlight.load(m), c * 3)
        )


def run_networks(tally: Tally, most: int | None = None) -> None:
    """The programs of test_networks.py, and quantized layers; a program a call."""
    import programs

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.pt")

        def compare(name: str, args: tuple) -> None:
            def thrice() -> list:  # the second and the third call have packed weights
                model = rushlight.load(path)
                return [model(*copied(args)) for _ in range(3)]

            tally.programs += tally.compare(name, "", thrice)

        every = [p for p in programs.PROGRAMS if tally.only in p.name]
        for p in every[:most]:
            torch.manual_seed(7)
            with torch.no_grad():
                args = p.args()
                programs.save(p, p.make().eval(), args, p.modes.split()[0], path)
            compare(p.name, args)
        for name, program, args in itertools.islice(same_bits_cases.quantized_programs(), most):
            if tally.only in name:
                torch.jit.save(program, path)
                compare(name, args)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="part of an operator's or case's name")
    parser.add_argument(
        "--shapes", type=int, default=3, help="random shapes for each operator and dtype"
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=3,
        help="of PyTorch's samples for each operator and dtype; 0: none",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", help="a made corpus: its programs too")
    parser.add_argument("--no-operators", action="store_true")
    parser.add_argument("--no-networks", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    tally = Tally(options.only)
    if not options.no_operators:
        run_operators(tally, options.shapes, options.samples, options.seed)
    if not options.no_networks:
        run_networks(tally)
    if options.corpus:
        run_programs(tally, options.corpus)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
