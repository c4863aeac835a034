"""Exported programs (.pt2) that are changed at random in their structure: fields left out, doubled
or renamed, values of other types, indices and counts that are off, names of other things,
expressions of symbols bent, tree specs and weights' entries too.

    python tests/python/mutated_exports.py --replay build/fuzz/replay [--seed 1 | --today]
                                           [--count 500] [--jobs 2] [--keep DIR] [--programs DIR]

Each mutant is one of tests/data/exports (or of DIR) with 1 to 4 changes, made from its seed alone.
The fuzz target `export` (fuzz/fuzz_export.c), of a build with sanitizers or without, reads, prints,
verifies, lowers, shows, runs and writes it.  A finding is a crash, a sanitizer's report, a leak, a
failure without a message, a text that does not come back after writing, or a hang.  The census
says how many mutants of each kind of change were taken whole.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import copy
import functools
import json
import pathlib
import random
import re
import subprocess
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "data" / "exports"
BATCH = 100
HANGS = 120.0  # seconds that a batch, or one mutant, may take
Json = Any
Place = tuple[Json, Any]  # a container, and the key of a value in it

NUMBERS = [0, -1, 1, 2, 7, 255, 2**31, 2**62, -(2**63), 2**64, 1e300, 1.5]
TEXTS = ["", "x", "a" * 300, "a\0b", "\u00e9", "self", "forward", "1", "add", "%", "'\"\\"]
VALUES = [None, True, *NUMBERS, *TEXTS, [], {}, [[]], [None]]
UNIONS: list[Json] = [
    {"as_none": True}, {"as_int": 3}, {"as_ints": [1, 2]}, {"as_float": 0.5}, {"as_bool": True},
    {"as_string": "x"}, {"as_tensor": {"name": "x"}}, {"as_tensors": []}, {"as_scalar_type": 7},
    {"as_sym_int": {"as_name": "x"}}, {"as_sym_ints": [{"as_int": 1}]}, {"as_layout": 7},
    {"as_optional_tensors": [{"as_none": True}]}, {"as_operator": "torch.ops.aten.add.Tensor"},
    {"as_device": {"type": "cpu", "index": None}}, {"as_memory_format": 1}, {"as_tensor": {}},
    {"as_complex": {"real": 1, "imag": 2}}, {"as_nested_tensors": [[]]}, {"as_int_lists": [[1]]},
    {"as_custom_obj": {"name": "x", "class_fqn": "a.B"}}, {"as_string_to_argument": {}},
]  # fmt: skip
TARGETS = [
    "torch.ops.aten.add.Tensor", "torch.ops.aten.add_.Tensor", "torch.ops.aten.max.dim",
    "torch.ops.aten.split.Tensor", "torch.ops.aten.item.default", "torch.ops.aten.sym_size.int",
    "torch.ops.aten._assert_scalar.default", "torch.ops.aten.index.Tensor", "_operator.getitem",
    "_operator.add", "torch.sym_ite", "torch.sym_float", "math.floor", "os.system", "",
    "torch.ops.higher_order.cond", "torch.ops.higher_order.while_loop",
    "torch.ops.higher_order.scan", "torch.ops.higher_order.map_impl",
    "torch.ops.higher_order.wrap_with_autocast", "torch.ops.higher_order.with_effects",
    "torch.ops.higher_order.wrap_with_set_grad_enabled", "torch.ops.higher_order.new",
]  # fmt: skip
EXPRESSIONS = [
    "Symbol('s0', positive=True, integer=True)", "Integer(9223372036854775807)", "Integer(-3)",
    "Add(Integer(1), Integer(9223372036854775807))", "Mul(Integer(2), Symbol('u0', integer=True))",
    "FloorDiv(Symbol('s77', positive=True, integer=True), Integer(0))", "Rational(1, 0)", "Add(",
    "Pow(Integer(2), Integer(1000000))", "zoo", "nan", "s0 + 1", "__import__('os')",
    "Mod(Integer(5))",
    "Add(" * 300 + "Integer(1)" + ", Integer(1))" * 300, "Integer(" + "9" * 400 + ")", "int_oo",
    "Piecewise((Integer(1), true))", "Max(Symbol('s0'), Symbol('s1'))", "Float('1e999')",
]  # fmt: skip


def places(part: Json) -> Iterator[Place]:
    """Every value in the JSON, by its container and key."""
    keys = list(part) if isinstance(part, dict) else range(len(part))
    for key in keys:
        yield part, key
        if isinstance(part[key], (dict, list)):
            yield from places(part[key])


class Mutant:
    def __init__(self, rng: random.Random, records: dict[str, bytes]) -> None:
        self.rng = rng
        self.records = records
        self.parts = {
            name: json.loads(data) for name, data in records.items() if name.endswith(".json")
        }
        self.model = next(v for k, v in self.parts.items() if "/models/" in k)
        self.kinds: list[str] = []

    def where(self, wanted: Callable[[Json, Any], bool] = lambda c, k: True) -> Place:
        return self.rng.choice([(c, k) for c, k in places(self.model) if wanted(c, k)])

    def text(self) -> dict[str, bytes]:
        changed = {name: json.dumps(part).encode() for name, part in self.parts.items()}
        return {**self.records, **changed}


MUTATIONS: list[tuple[Callable[[Mutant], None], int]] = []


def mutation(weight: int) -> Callable[[Any], Any]:
    def add(change: Callable[[Mutant], None]) -> Callable[[Mutant], None]:
        MUTATIONS.append((change, weight))
        return change

    return add


def copied(m: Mutant) -> Json:
    container, key = m.where()
    return copy.deepcopy(container[key])


@mutation(4)
def fields(m: Mutant) -> None:
    """A field is left out, or has another name."""
    container, key = m.where(lambda c, k: isinstance(c, dict))
    value = container.pop(key)
    if m.rng.random() < 0.4:
        container[
            m.rng.choice(["new", str(key) + "s", m.where(lambda c, k: type(k) is str)[1]])
        ] = value


@mutation(4)
def types(m: Mutant) -> None:
    """A value of another type, or another kind of argument."""
    container, key = m.where()
    container[key] = copy.deepcopy(m.rng.choice([*VALUES, *UNIONS, *UNIONS]))


@mutation(3)
def unions(m: Mutant) -> None:
    container, key = m.where(
        lambda c, k: isinstance(c[k], dict) and any(x.startswith("as_") for x in c[k])
    )
    container[key] = copy.deepcopy(m.rng.choice(UNIONS))


@mutation(3)
def numbers(m: Mutant) -> None:
    """Indices, sizes, counts, dtypes."""
    container, key = m.where(lambda c, k: type(c[k]) in (int, float))
    near = [container[key] + 1, container[key] - 1, -container[key]]
    container[key] = m.rng.choice([*NUMBERS, *near, *near])


@mutation(4)
def names(m: Mutant) -> None:
    """A name of something else, or of nothing."""
    is_text = lambda c, k: type(c[k]) is str  # noqa: E731
    container, key = m.where(is_text)
    other, other_key = m.where(is_text)
    container[key] = m.rng.choice([other[other_key]] * 4 + TEXTS)


@mutation(2)
def targets(m: Mutant) -> None:
    container, key = m.where(lambda c, k: k == "target")
    container[key] = m.rng.choice(TARGETS)


@mutation(3)
def counts(m: Mutant) -> None:
    """An item more or less, or in another place."""
    container, key = m.where(lambda c, k: isinstance(c[k], list) and len(c[k]) > 0)
    items = container[key]
    i = m.rng.randrange(len(items))
    how = m.rng.randrange(5)
    if how == 0:
        del items[i]
    elif how == 1:
        items.insert(i, copy.deepcopy(items[i]))
    elif how == 2:
        items.append(items.pop(i))
    elif how == 3:
        items.insert(i, copied(m))
    else:
        items[:] = items * m.rng.choice([0, 2, 40])


@mutation(3)
def parts(m: Mutant) -> None:
    """Any value in the place of any other."""
    container, key = m.where()
    container[key] = copied(m)


@mutation(3)
def expressions(m: Mutant) -> None:
    """An expression of symbols, or a range, a guard."""
    found = [(c, k) for c, k in places(m.model) if k == "expr_str"]
    if found and m.rng.random() < 0.6:
        container, key = m.rng.choice(found)
        container[key] = bent(m.rng, container[key])
        return
    ranges = m.model.get("range_constraints")
    if isinstance(ranges, dict) and m.rng.random() < 0.5:
        bounds = {
            "min_val": m.rng.choice([*NUMBERS, None]),
            "max_val": m.rng.choice([*NUMBERS, None]),
        }
        ranges[m.rng.choice([*ranges, "s0", *EXPRESSIONS])] = bounds
        return
    guards = m.model.get("guards_code")
    if isinstance(guards, list):
        guards.append(
            m.rng.choice([*EXPRESSIONS, "L['x'].size()[0] % 0 == 1", "not " * 500, "1 <"])
        )


def bent(rng: random.Random, text: str) -> str:
    if rng.random() < 0.4 or len(text) < 2:
        return rng.choice(EXPRESSIONS)
    i = rng.randrange(len(text))
    return rng.choice([
        text[:i], text[:i] + rng.choice("()*+-,'09=sI ") + text[i:], text[:i] + text[i + 1 :],
        f"Add({text}, {text})", f"Mul({text}, Integer(-1))", f"Not({text})", f"Pow({text}, {text})",
    ])  # fmt: skip


@mutation(2)
def specs(m: Mutant) -> None:
    """The tree of arguments or results, which is JSON in a text."""
    container, key = m.where(lambda c, k: k in ("in_spec", "out_spec") and type(c[k]) is str)
    try:
        spec = json.loads(container[key])
    except ValueError:
        return
    inside, at = m.rng.choice(list(places(spec)))
    inside[at] = copy.deepcopy(m.rng.choice([*VALUES, *(c[k] for c, k in places(spec))]))
    container[key] = json.dumps(spec)


@mutation(1)
def weights(m: Mutant) -> None:
    configs = [v for k, v in m.parts.items() if k.endswith("_config.json")]
    found = [place for config in configs for place in places(config)]
    container, key = m.rng.choice(found)
    container[key] = copy.deepcopy(m.rng.choice(VALUES + [c[k] for c, k in found]))


@functools.cache
def programs(folder: pathlib.Path) -> list[tuple[str, dict[str, bytes]]]:
    found = []
    for path in sorted(folder.rglob("*.pt2")):
        with zipfile.ZipFile(path) as z:
            found.append((path.stem, {name: z.read(name) for name in z.namelist()}))
    return found


def mutant(seed: int, folder: pathlib.Path = PROGRAMS) -> tuple[list[str], dict[str, bytes]]:
    """The changes of the mutant of that seed, and its records."""
    rng = random.Random(seed)
    name, records = rng.choice(programs(folder))
    m = Mutant(rng, records)
    for _ in range(rng.choice([1, 1, 1, 2, 2, 4])):
        change = rng.choices([f for f, _ in MUTATIONS], [w for _, w in MUTATIONS])[0]
        try:
            change(m)
        except (IndexError, KeyError, TypeError, RecursionError):
            continue  # an earlier change took what this one bends
        m.kinds.append(change.__name__)
    return m.kinds or ["none"], m.text()


def save(seed: int, folder: pathlib.Path, path: pathlib.Path) -> list[str]:
    kinds, records = mutant(seed, folder)
    with zipfile.ZipFile(path, "w") as z:
        for name, data in records.items():
            z.writestr(zipfile.ZipInfo(name), data)
    return kinds


def replay(command: str, path: pathlib.Path) -> tuple[str, str]:
    """What is found in a mutant or a folder of them ("" if nothing), and the messages."""
    try:
        done = subprocess.run(
            [command, "-v", path], capture_output=True, timeout=HANGS, errors="replace", text=True
        )
    except subprocess.TimeoutExpired:
        return "hangs", ""
    said = re.search(
        r"(ERROR: \w+Sanitizer[^\n]*|[^\n]*runtime error:[^\n]*|fuzz: [^\n]*)", done.stderr
    )
    if done.returncode == 0 and not said:
        return "", done.stderr
    return (said[0] if said else f"exit code {done.returncode}"), done.stderr


def run_batch(
    command: str, seeds: range, programs_: pathlib.Path
) -> tuple[list[str], Counter[Any]]:
    census: Counter[Any] = Counter()
    findings = []
    with tempfile.TemporaryDirectory() as folder:
        inside = pathlib.Path(folder) / "export"
        inside.mkdir()
        kinds = {seed: save(seed, programs_, inside / f"{seed}.pt2") for seed in seeds}
        what, said = replay(command, inside)
        if what:
            for seed in seeds:
                what, _ = replay(command, inside / f"{seed}.pt2")
                if what:
                    findings.append(f"seed {seed} ({', '.join(kinds[seed])}): {what}")
            findings = findings or [f"seeds {seeds}, together: {what}"]
        lines = said.splitlines()
        refused = {
            int(path[1])
            for line, after in zip(lines, lines[1:] + [""], strict=True)
            if (path := re.search(r"/(\d+)\.pt2$", line)) and after and not after.endswith(".pt2")
        }
        for seed, of in kinds.items():
            for kind in {*of, "all"}:
                census[kind, "refused" if seed in refused else "taken"] += 1
    return findings, census


def run_many(
    command: str, seed: int, count: int, jobs: int, programs_: pathlib.Path = PROGRAMS
) -> tuple[list[str], Counter[Any]]:
    batches = [range(s, min(s + BATCH, seed + count)) for s in range(seed, seed + count, BATCH)]
    findings: list[str] = []
    census: Counter[Any] = Counter()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for found, counted in pool.map(lambda b: run_batch(command, b, programs_), batches):
            findings += found
            census += counted
            for line in found:
                print(line, flush=True)
    return findings, census


def table(census: Counter[Any]) -> str:
    kinds = sorted({kind for kind, _ in census})
    rows = (f"{k:14} {census[k, 'taken']:7} {census[k, 'refused']:8}" for k in kinds)
    return "\n".join([f"{'':14} {'taken':>7} {'refused':>8}", *rows])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replay", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--today", action="store_true")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--programs", type=pathlib.Path, default=PROGRAMS)
    o = parser.parse_args()
    seed = int(time.time()) // 86400 * 1_000_000 if o.today else o.seed
    findings, census = run_many(o.replay, seed, o.count, o.jobs, o.programs)
    print(table(census))
    for line in findings if o.keep else []:
        number = int(re.search(r"\d+", line)[0])
        o.keep.mkdir(parents=True, exist_ok=True)
        save(number, o.programs, o.keep / f"{number}.pt2")
    print(f"{o.count} mutants from seed {seed}, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
