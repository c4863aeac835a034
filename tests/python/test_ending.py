"""Calls that end before their work is done: signals, seconds, bytes, handles.  What is called would
run for ever."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rushlight

PROGRAMS = rushlight.CompilationUnit("""
def count(n: int) -> int:
    while n != 0:
        n += 2
    return n
def items(n: int) -> List[int]:
    out = [0]
    while n != 0:
        out[0] += n
    return out
def tensors(n: int) -> Tensor:
    x = torch.ones(8)
    while n != 0:
        x = x * 1.0
    return x
def products(n: int) -> Tensor:
    x = torch.ones(700, 700)
    while n != 0:
        x = torch.mm(x, x) * 0.0
    return x
def large(n: int) -> Tensor:
    return torch.ones(n).sum()
""")
ENDLESS: dict[str, Callable[[], Any]] = {
    "count": lambda: PROGRAMS.count(1),
    "items": lambda: PROGRAMS.items(1),
    "tensors": lambda: PROGRAMS.tensors(1),
    "products": lambda: PROGRAMS.products(1),
    "operator": lambda: rushlight.tensor([1.0]).expand(1 << 45).sum(),
}


@pytest.fixture(autouse=True)
def no_limits() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)
    rushlight.set_limits()


def signal_soon(n: int = 1) -> threading.Thread:
    def send() -> None:
        for _ in range(n):
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Python's handler, which a shell's background job starts without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("name", ENDLESS)
def test_ctrl_c_ends_a_call(name: str) -> None:
    sender = signal_soon()
    with pytest.raises(KeyboardInterrupt):
        ENDLESS[name]()
    sender.join()


def test_ctrl_c_ends_a_call_while_other_threads_run() -> None:
    stop = False

    def spin() -> None:
        while not stop:
            pass

    def call() -> None:
        while not stop:
            rushlight.tensor([1.0, 2.0]).exp()

    others = [threading.Thread(target=spin), threading.Thread(target=call)]
    for thread in others:
        thread.start()
    sender = signal_soon()
    try:
        with pytest.raises(KeyboardInterrupt):
            ENDLESS["tensors"]()
    finally:
        stop = True
    for thread in [*others, sender]:
        thread.join()


def test_handlers_of_the_users_run_meanwhile() -> None:
    seen = []

    def handler(number: int, frame: Any) -> None:
        seen.append(
            rushlight.tensor([2.0]).item() + PROGRAMS.large(3).item()
        )  # it may call the library
        if len(seen) == 2:
            raise LookupError("enough")

    signal.signal(signal.SIGINT, handler)
    sender = signal_soon(2)
    with pytest.raises(LookupError, match="enough"):
        ENDLESS["tensors"]()
    sender.join()
    assert seen == [5.0, 5.0]


def test_a_signal_that_raises_nothing_changes_nothing() -> None:
    seen = []
    signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    sender = signal_soon()
    with rushlight.limits(max_seconds=0.5), pytest.raises(TimeoutError):
        ENDLESS["count"]()
    sender.join()
    assert seen == [signal.SIGINT]


@pytest.mark.parametrize("name", [name for name in ENDLESS if name != "operator"])
def test_seconds_end_a_call(name: str) -> None:
    with (
        rushlight.limits(max_seconds=0.1),
        pytest.raises((TimeoutError, RuntimeError), match="deadline"),
    ):
        ENDLESS[name]()


def test_bytes_end_a_call() -> None:
    for _ in range(2):
        with (
            rushlight.limits(max_bytes=1_000_000),
            pytest.raises((MemoryError, RuntimeError), match="would pass the limit of"),
        ):
            PROGRAMS.large(1_000_000)
        assert PROGRAMS.large(1_000_000).item() == 1e6  # nothing is left of the limit
    rushlight.set_limits(max_bytes=rushlight.memory_stats()["live_bytes"] + 1_000_000)
    with pytest.raises((MemoryError, RuntimeError), match="would pass the limit of"):
        PROGRAMS.large(1_000_000)
    with pytest.raises(MemoryError):
        rushlight.ops.aten.ones([1_000_000])


def test_a_handle_ends_calls() -> None:
    handle = rushlight.Cancel()
    timer = threading.Timer(0.1, handle.request)
    assert not handle.requested
    timer.start()
    for _ in range(2):  # it stays requested
        with rushlight.limits(cancel=handle), pytest.raises(rushlight.Cancelled):
            ENDLESS["tensors"]()
    assert handle.requested and issubclass(rushlight.Cancelled, rushlight.Error)
    timer.join()


def test_limits_are_of_single_operators_too() -> None:
    x = rushlight.ops.aten.ones([1, 2, 100])
    with rushlight.limits(max_seconds=0.1), pytest.raises(TimeoutError):
        rushlight.ops.aten._adaptive_avg_pool2d(x, [20000, 20000])
    with rushlight.limits(max_bytes=1e6), pytest.raises(MemoryError):
        rushlight.ops.aten.ones([1000, 1000])
    assert rushlight.ops.aten.ones([1000, 1000]).shape == (1000, 1000)


def test_modules_have_limits(tmp_path: Any) -> None:
    path = tmp_path / "m.pt"
    unit = rushlight.CompilationUnit(
        "def f(n: int):\n    while n != 0:\n        n += 2\n    return torch.ones(n + 1000000)\n"
    )
    rushlight.save(unit.f, str(path))
    model = rushlight.load(str(path))
    assert model.max_seconds is None and model.max_bytes is None
    model.max_seconds = 0.1
    model.max_bytes = 100_000
    with pytest.raises((TimeoutError, RuntimeError), match="deadline"):
        model(1)
    model.max_seconds = 60
    with pytest.raises((MemoryError, RuntimeError), match="would pass"):
        model(0)
    model.max_bytes = None
    assert model(0).shape == (1_000_000,)
    for wrong in (0, -1, float("nan"), "much"):
        with pytest.raises((ValueError, TypeError)):
            model.max_seconds = wrong


def test_blocks_nest_and_belong_to_their_thread() -> None:
    with rushlight.limits(max_seconds=0.1):
        with (
            rushlight.limits(max_bytes=1000),
            pytest.raises((TimeoutError, RuntimeError), match="deadline"),
        ):
            ENDLESS["count"]()  # the outer block's seconds
        with pytest.raises(ValueError, match="max_seconds"), rushlight.limits(max_seconds=-1):
            pass
        with pytest.raises((TimeoutError, RuntimeError), match="deadline"):
            ENDLESS["count"]()
        done = []
        other = threading.Thread(target=lambda: done.append(PROGRAMS.large(10).item()))
        other.start()
        other.join()
        assert done == [10.0]
    with pytest.raises(TypeError, match="cancel: expected"):
        rushlight.limits(cancel=1).__enter__()
    with pytest.raises(ValueError, match="max_bytes"):
        rushlight.set_limits(max_bytes=0)
