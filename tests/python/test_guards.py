"""Guards, snapshots and bailouts (docs/executors.md): a plan whose guard fails goes on in the code
of the unchanged graph, and nobody can tell."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import re
import subprocess
import tempfile
import weakref
from typing import Any

import executor_runs
import guard_programs
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from rushlight import _rushlight  # noqa: E402

PROGRAMS = 200
HEAD = "from typing import Dict, List, Optional, Tuple\nimport torch\n"


def loaded(text: str) -> Any:
    """The program's function main, from one path: tracebacks name it."""
    path = pathlib.Path(tempfile.gettempdir()) / f"guards{os.getpid()}.py"
    path.write_text(text, encoding="utf-8")
    try:
        return rushlight.load(str(path)).main
    finally:
        path.unlink()


def arguments(turn: int, recorded: bool = False) -> tuple:
    """Others each turn: sizes, values and flags change."""
    rows = 2 + turn % 2
    a = torch.arange(3.0 * rows).reshape(rows, 3) - 3 * turn
    b = torch.ones(rows, 3) * (turn - 1)
    if recorded:
        a.requires_grad_()
    return a, b, [torch.ones(rows, 3), torch.zeros(rows, 3)], turn % 4, turn % 3 == 0


def flat(x: Any) -> list:
    if isinstance(x, (tuple, list)):
        return [v for item in x for v in flat(item)]
    return [x]


def told(x: Any) -> Any:
    """All that can be seen of a value; tensors bit by bit."""
    if isinstance(x, torch.Tensor):
        y = x.detach().contiguous()
        return (
            str(x.dtype),
            tuple(x.shape),
            x.stride(),
            x.requires_grad,
            y.numpy().tobytes(),
        )
    return repr(x)


def sharing(values: list) -> list[int]:
    """For each value the first one that has its memory."""
    first: dict[Any, int] = {}
    return [
        first.setdefault(x.untyped_storage().data_ptr() if isinstance(x, torch.Tensor) else i, i)
        for i, x in enumerate(values)
    ]


def outcome(f: Any, args: tuple, recorded: bool = False) -> Any:
    """Results, arguments, memory that they share, random numbers and gradients, or the error."""
    torch.manual_seed(7)
    rushlight.manual_seed(7)
    try:
        out = flat(f(*args))
    except Exception as e:  # noqa: BLE001
        out = [type(e).__name__, str(e)]
    kept = flat(args)
    seen = [[told(x) for x in out], [told(x) for x in kept], sharing(out + kept)]
    seen.append((rushlight.get_rng_state(), told(torch.get_rng_state())))
    if recorded:
        sums = [x.sum() for x in out if isinstance(x, torch.Tensor) and x.requires_grad]
        try:
            if sums:
                sum(sums).backward()
            seen.append(told(args[0].grad))
        except RuntimeError as e:  # what a gradient needs was written to
            seen.append(str(e))
    return seen


def checked(f: Any) -> int:
    """Guards that were checked, by the newest plan."""
    found = re.search(r"guards: (\d+) checked", f.plans)
    return int(found[1]) if found else 0


def bailouts(f: Any) -> int:
    """By points: copies of a guard in an unrolled loop have one."""
    by_point = dict(re.findall(r"guard of point (\d+): .* (\d+) bailouts", f.plans))
    return sum(map(int, by_point.values()))


def without_plans(text: str, turns: list[int], recorded: bool) -> list[Any]:
    with rushlight.jit.optimized_execution(False):
        f = loaded(text)
        return [outcome(f, arguments(turn, recorded), recorded) for turn in turns]


def fail_each(text: str, recorded: bool) -> int:
    """Fail every guard that a call checks, in turn; returns how many there were."""
    failed = 0
    turns = [1, 3]  # of the same sizes: one plan
    wants = without_plans(text, turns, recorded)
    with executor_runs.failing_guards(0, 1 << 60):
        f = loaded(text)
        for _ in range(2):
            for turn, want in zip(turns, wants, strict=True):
                assert outcome(f, arguments(turn, recorded), recorded) == want, text
        for turn, want in zip(turns, wants, strict=True):
            before = checked(f)
            assert outcome(f, arguments(turn, recorded), recorded) == want, text
            n = checked(f) - before
            for nth in range(1, n + 1):
                _rushlight.set_guard_failures(0, nth)
                had = bailouts(f)
                got = outcome(f, arguments(turn, recorded), recorded)
                assert got == want, f"guard {nth} of {n}, turn {turn}\n{text}\n{f.plans}"
                assert bailouts(f) == had + 1, f"guard {nth} of {n}\n{text}\n{f.plans}"
                failed += 1
            _rushlight.set_guard_failures(0, 1 << 60)
    return failed


@pytest.mark.parametrize("first", range(1, PROGRAMS + 1, 20))
def test_every_guard_fails_in_turn(first: int) -> None:
    failed = [fail_each(guard_programs.program(seed), False) for seed in range(first, first + 20)]
    assert sum(n > 0 for n in failed) >= 18 and sum(failed) > 200


@pytest.mark.parametrize("first", (1, 21))
def test_every_guard_fails_in_calls_that_record(first: int) -> None:
    failed = [fail_each(guard_programs.program(seed), True) for seed in range(first, first + 20)]
    assert sum(failed) > 200


@pytest.mark.parametrize("first", range(201, 401, 50))
def test_guards_fail_at_random(first: int) -> None:
    """Also in programs whose arguments change: sizes, values, flags."""
    turns = list(range(6))
    for seed in range(first, first + 50):
        text = guard_programs.program(seed)
        wants = without_plans(text, turns, False)
        with executor_runs.failing_guards(seed):
            f = loaded(text)
            for _ in range(2):
                for turn, want in zip(turns, wants, strict=True):
                    assert outcome(f, arguments(turn)) == want, text


# -- Guards of what was recorded


def script(body: str) -> Any:
    return loaded(HEAD + body)


ITEMS = """
def main(xs: List[torch.Tensor]) -> int:
    n = 0
    for x in xs:
        if x.size(0) == 3:
            n += x.dim()
        else:
            n += 100
    return n
"""


def test_items_of_lists_are_guarded() -> None:
    f = script(ITEMS)
    xs = [torch.ones(3), torch.ones(3)]
    for _ in range(4):
        assert f(xs) == 2
    assert "prim::Guard" in f.plans and "prim::If" not in f.plans
    assert "Float(3, strides=[1], device=cpu)" in f.plans
    assert bailouts(f) == 0


def test_a_guard_that_fails_gets_wider() -> None:
    f = script(ITEMS)
    for _ in range(3):
        assert f([torch.ones(3)]) == 1
    for n in range(1, 9):
        assert f([torch.ones(n)]) == (1 if n == 3 else 100)
    assert "Float(*, strides=[1], device=cpu)" in f.plans
    assert bailouts(f) == 2 and "0 did not hold" in f.plans


def test_a_guard_that_keeps_failing_goes() -> None:
    f = script(ITEMS)
    values = [
        torch.ones((3,) * rank, dtype=dtype)
        for rank in (1, 2, 3, 4)
        for dtype in (torch.float32, torch.int64, torch.bool)
    ]
    for _ in range(10):
        for x in values:
            assert f([x]) == x.dim()
    assert "prim::Guard" not in f.plans
    assert bailouts(f) == 0  # of the plan's own: it has none
    assert int(re.search(r"(\d+) made", f.plans)[1]) <= 8


def test_nothing_is_guarded_that_nobody_asks_about() -> None:
    f = script(
        "def main(xs: List[torch.Tensor]) -> torch.Tensor:\n"
        "    return torch.relu(xs[0] + 1) * xs[1]\n"
    )
    for _ in range(4):
        f([torch.ones(3), torch.ones(3)])
    assert "prim::Guard" not in f.plans


def test_what_another_guard_implies_is_not_guarded() -> None:
    f = script(
        "def main(xs: List[torch.Tensor]) -> int:\n"
        "    x = xs[0]\n"
        "    l = [x]\n"
        "    n = 0\n"
        "    for i in range(3):\n"
        "        n += l[0].size(0)\n"
        "    return n + x.size(0)\n"
    )
    for _ in range(4):
        assert f([torch.ones(5)]) == 20
    assert f.plans.count("prim::Guard") == 1 and "aten::size" not in f.plans


@pytest.mark.parametrize(
    "body",
    [
        "def main(x: torch.Tensor) -> int:\n    return torch.nonzero(x).size(1)\n",
        "def main(x: torch.Tensor) -> int:\n    return x[x > 0].dim()\n",
        "def main(x: torch.Tensor) -> int:\n    return x[:int(x.sum().item()) % 2].dim()\n",
        "def main(x: torch.Tensor) -> int:\n"
        "    d = {'a': x}\n"
        "    return d['a'].dim() + torch.stack([d['a']]).dim()\n",
    ],
)
def test_results_that_depend_on_data_are_guarded(body: str) -> None:
    f = script(body)
    wants = [f(torch.ones(4)), *(f(torch.ones(4)) for _ in range(3))]
    assert len(set(wants)) == 1
    assert "aten::dim" not in f.plans and "aten::size" not in f.plans


def test_an_undefined_or_odd_item_bails_out() -> None:
    f = script(
        "def main(xs: List[Optional[torch.Tensor]]) -> int:\n"
        "    x = xs[0]\n"
        "    if x is not None:\n"
        "        return x.size(0) + x.dim()\n"
        "    return -1\n"
    )
    odd = torch.sparse_coo_tensor(torch.tensor([[0]]), torch.ones(1), (3,))
    for x, want in ((torch.ones(3), 4), (None, -1), (odd, 4), (torch.ones(3), 4)) * 3:
        assert f([x]) == want


def test_errors_behind_a_bailout_have_their_lines() -> None:
    f = script(
        "def part(x: torch.Tensor, n: int) -> torch.Tensor:\n"
        "    return x.view(n, 2)\n"
        "def main(xs: List[torch.Tensor]) -> torch.Tensor:\n"
        "    n = xs[0].size(0)\n"
        "    y = xs[0] + 1\n"
        "    return part(y, n)\n"
    )
    with rushlight.jit.optimized_execution(False):
        with pytest.raises(RuntimeError) as plain:
            f([torch.ones(3)])
    for _ in range(3):
        f([torch.ones(2, 2)])
    for _ in range(2):
        with pytest.raises(RuntimeError) as got:
            f([torch.ones(3)])
        assert str(got.value) == str(plain.value) and "in part" in str(got.value)


def test_results_that_a_plan_could_share_stay_two() -> None:
    """The branch that writes is not in the plan: equal values that it can see stay two."""
    f = script(
        "def main(x: torch.Tensor, xs: List[torch.Tensor]) -> List[torch.Tensor]:\n"
        "    a = x + 1\n"
        "    b = x + 1\n"
        "    l = [a]\n"
        "    k = [a]\n"
        "    if xs[0].size(0) != 3:\n"
        "        a.add_(10)\n"
        "        l.append(b)\n"
        "        return [a * 1, b * 1] + l + k\n"
        "    return [a * 1, b * 1]\n"
    )
    x = torch.zeros(2)
    for n in (3, 3, 3, 4, 3, 5, 5):
        got = [float(v[0]) for v in f(x, [torch.ones(n)])]
        assert got == ([1.0, 1.0] if n == 3 else [11.0, 1.0, 11.0, 1.0, 11.0])


def test_a_list_that_a_snapshot_has_twice_is_one() -> None:
    f = script(
        "def main(x: torch.Tensor, xs: List[torch.Tensor], n: int) -> int:\n"
        "    a = [x, x]\n"
        "    b = a\n"
        "    if x.dim() > 5:\n"
        "        b = [x]\n"
        "    for i in range(2):\n"
        "        if xs[0].size(0) != 3:\n"
        "            a.append(x)\n"
        "            n += len(b)\n"
        "    return n\n"
    )
    for size, want in ((3, 1), (3, 1), (4, 8), (3, 1), (5, 8)):
        assert f(torch.ones(1), [torch.ones(size)], 1) == want


def test_sizes_that_are_changed_in_place_are_not_guarded() -> None:
    f = script(
        "def main(xs: List[torch.Tensor]) -> List[int]:\n"
        "    x = xs[0]\n"
        "    a = x.dim()\n"
        "    x.unsqueeze_(0)\n"
        "    return [a, x.dim(), x.size(0)]\n"
    )
    for _ in range(4):
        assert f([torch.ones(3)]) == [1, 2, 1]


def live_bytes() -> int:
    rushlight.empty_cache()
    return rushlight.memory_stats()["live_bytes"]


def test_a_bailout_leaves_nothing() -> None:
    """Every argument is released when the call is over, and none too often."""
    f = script(
        "def main(a: torch.Tensor, b: torch.Tensor, xs: List[torch.Tensor]) -> torch.Tensor:\n"
        "    c = a + b\n"
        "    if xs[0].size(0) == 3:\n"
        "        return c\n"
        "    d = b * 2\n"
        "    return c + d + a\n"
    )
    with executor_runs.failing_guards(0, 1 << 60):
        # A place keeps an instance at its second call: the last round is measured.
        for i, nth in enumerate((0, 0, *range(1, 9), *range(1, 9), *range(1, 9))):
            _rushlight.set_guard_failures(0, nth or 1 << 60)
            before = live_bytes()
            a, b, x = (rushlight.tensor([1.0] * n) for n in (2, 2, 3))
            f(a, b, [x])
            assert a.tolist() == b.tolist() == [1, 1]
            del a, b, x
            assert i < 18 or live_bytes() == before, nth


def test_two_results_stay_two_in_one_list() -> None:
    f = script(
        "def main(x: torch.Tensor) -> List[List[torch.Tensor]]:\n"
        "    a = x + 1\n"
        "    b = x + 1\n"
        "    return [[a, b, a * 1], [a]]\n"
    )
    for _ in range(4):
        got = f(torch.ones(2))
        got[0][0].zero_()
        assert [float(v[0]) for v in got[0]] == [0, 2, 2] and float(got[1][0][0]) == 0


def test_lists_are_built_only_behind_a_failure() -> None:
    f = script(
        "def main(x: torch.Tensor, xs: List[torch.Tensor], t: Tuple[torch.Tensor, int]) -> "
        "torch.Tensor:\n"
        "    l = [x + 1, x + 2]\n"
        "    if t[1] > 1:\n"
        "        t = (x + 1, 3)\n"
        "    if xs[0].size(0) == 3:\n"
        "        return x\n"
        "    return t[0] + l[1] + t[1] - 1\n"
    )
    x = torch.ones(2)
    for _ in range(3):
        assert torch.equal(f(x, [torch.ones(3)], (x, 2)), x)
    assert "prim::ListConstruct" not in f.plans and "recipe=" in f.plans
    assert torch.equal(f(x, [torch.ones(4)], (x, 2)), 2 * x + 5)


def test_a_profile_keeps_no_tensor() -> None:
    f = script(ITEMS)
    xs = [torch.ones(3)]
    for _ in range(3):
        f(xs)
    gone = weakref.ref(xs[0])
    del xs
    assert gone() is None


def test_executors_by_name(command: str, tmp_path: pathlib.Path) -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> int:
            return torch.masked_select(x, x > 0).size(0) + x.dim()

    path = tmp_path / "m.pt"
    torch.jit.script(Net()).save(str(path))
    plans = {
        executor: subprocess.run(
            [command, "show", str(path), "--plan", "ones(2, 4)", "--executor", executor],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for executor in ("simple", "specialising", "profiling")
    }
    assert "0 plans" in plans["simple"]
    assert "prim::Guard" not in plans["specialising"] and "aten::size" in plans["specialising"]
    assert "guard of point 0" in plans["profiling"] and "aten::size" not in plans["profiling"]


def test_profiling_can_be_switched() -> None:
    assert rushlight.jit.set_profiling_executor(False) is True
    try:
        f = script(ITEMS)
        for _ in range(3):
            assert f([torch.ones(3)]) == 1
        assert "prim::Guard" not in f.plans
    finally:
        assert rushlight.jit.set_profiling_mode(True) is False


def test_many_threads_profile_and_bail_out() -> None:
    f = script(ITEMS)
    inputs = [[torch.ones(1 + n % 4), torch.ones(3)] for n in range(64)]
    wants = [sum(1 if x.size(0) == 3 else 100 for x in xs) for xs in inputs]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(6):
            assert list(pool.map(f, inputs)) == wants
