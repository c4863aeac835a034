"""Where the time of calls goes, in the manner of `torch.profiler`.

>>> with rushlight.profiler.profile() as prof:
...     model(x)
>>> print(prof.key_averages().table())
>>> prof.export_chrome_trace("trace.json")     # for https://ui.perfetto.dev

Calls that begin inside of the `with`, on any thread, are recorded.  One profile at a time.
"""

from __future__ import annotations

import json
import linecache
import os
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import NamedTuple

from . import _rushlight


class Event(NamedTuple):
    """One event that ran. Events of one thread nest: an event's children follow it, one level
    deeper."""

    name: str
    kind: str  # "operator", or "function": a method or function of a program
    thread: int
    depth: int
    start_ns: int
    end_ns: int  # 0: it had not ended
    bytes: int  # by how much memory grew meanwhile
    inputs: str  # an operator's tensors: "float32[1, 3, 8, 8], float32[4]"
    file: str | None  # of the line that called it
    line: int
    code: str | None  # that line
    caller: str | None  # the function whose graph has the call
    node: int

    @property
    def seconds(self) -> float:
        return max(0, self.end_ns - self.start_ns) * 1e-9


class Average:
    """All events of one name: `count`, `total` and `self_total` in seconds, `bytes`."""

    def __init__(self, key: str) -> None:
        self.key, self.count, self.total, self.self_total, self.bytes = key, 0, 0.0, 0.0, 0

    def __repr__(self) -> str:
        return f"<{self.key}: {self.count} calls, {self.self_total:.6f} s>"


_SORT_KEYS: dict[str, Callable[[Average], float]] = {
    "total": lambda row: row.total,
    "self_total": lambda row: row.self_total,
    "mean": lambda row: row.total / row.count,
    "count": lambda row: row.count,
    "bytes": lambda row: row.bytes,
}
_TORCHS = """cpu_time_total=total self_cpu_time_total=self_total cpu_time=mean
cpu_memory_usage=bytes self_cpu_memory_usage=bytes"""
_SORT_KEYS |= {pair.split("=")[0]: _SORT_KEYS[pair.split("=")[1]] for pair in _TORCHS.split()}


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= 0.9995 * scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


class Averages(list[Average]):
    """The averages of a profile, largest own time first."""

    def table(self, sort_by: str | None = None, row_limit: int = 100) -> str:
        """Return text for a terminal, at most `row_limit` rows (-1: all).

        `sort_by` is "total", "self_total", "mean", "count", "bytes", or torch.profiler's name of
        one ("cpu_time_total", "self_cpu_time_total", "cpu_time", "cpu_memory_usage" ...); the
        largest first. None: keep the order.
        """
        rows = list(self)
        if sort_by is not None:
            key = _SORT_KEYS.get(sort_by)
            if key is None:
                raise AttributeError(f"sort_by is one of {', '.join(_SORT_KEYS)}, not {sort_by!r}")
            rows.sort(key=key, reverse=True)
        rows = rows if row_limit < 0 else rows[:row_limit]
        width = max([20, *(len(row.key) for row in rows)])
        whole = sum(row.self_total for row in self) or 1.0
        lines = [f"{'name':{width}} {'calls':>8} {'total':>9} {'self':>9} {'share':>7} {'mean':>9}"]
        for row in rows:
            mean, share = row.total / row.count, 100 * row.self_total / whole
            times = (
                f"{_time(row.total):>9} {_time(row.self_total):>9} {share:6.1f}% {_time(mean):>9}"
            )
            lines.append(f"{row.key:{width}} {row.count:8} {times}")
        return "\n".join(lines)


class profile:  # noqa: N801 (torch's name)
    """Record the calls inside a `with`: at most `max_events` events (0: a million); `dropped` is
    the number of events beyond that."""

    def __init__(self, max_events: int = 0) -> None:
        self._max_events = max_events
        self._events: list[Event] = []
        self.dropped = 0

    def start(self) -> None:
        _rushlight.profile_start(self._max_events)

    def stop(self) -> None:
        events, self.dropped = _rushlight.profile_stop()
        self._events = [Event(*event) for event in events]

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.stop()

    def events(self) -> list[Event]:
        """Return the events in the order in which they began."""
        return list(self._events)

    def _nested(self) -> Iterable[tuple[Event, float, list[Event]]]:
        """Yield each event that ended, the seconds of its children, and its parent."""
        children = [0.0] * len(self._events)
        around: list[list[Event]] = []
        stacks: dict[int, list[int]] = {}
        for i, event in enumerate(self._events):
            stack = stacks.setdefault(event.thread, [])
            while stack and self._events[stack[-1]].depth >= event.depth:
                stack.pop()
            if stack:
                children[stack[-1]] += event.seconds
            around.append([self._events[k] for k in stack])
            stack.append(i)
        for event, seconds, outer in zip(self._events, children, around, strict=True):
            if event.end_ns:
                yield event, seconds, outer

    def key_averages(self, key: Callable[[Event], str] = lambda event: event.name) -> Averages:
        """Sum the events by name, or by another key, for instance `lambda e: f"{e.file}:{e.line}"`;
        "" leaves an event out."""
        sums: dict[str, Average] = {}
        for event, seconds, outer in self._nested():
            name = key(event)
            if not name:
                continue
            row = sums.setdefault(name, Average(name))
            row.count += 1
            row.self_total += event.seconds - seconds
            row.bytes += event.bytes
            if all(key(other) != name for other in outer):
                row.total += event.seconds
        return Averages(sorted(sums.values(), key=lambda row: -row.self_total))

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a file for https://ui.perfetto.dev or chrome://tracing."""
        zero = self._events[0].start_ns if self._events else 0
        rows: list[dict[str, object]] = []

        def add(kind: str, thread: int, name: str, args: object, **more: object) -> None:
            head = {"ph": kind, "pid": 1, "tid": thread + 1, "name": name}
            rows.append({**head, **more, "args": args})

        for thread in sorted({event.thread for event in self._events}):
            add("M", thread, "thread_name", {"name": f"thread {thread}"})
        for e in self._events:
            if e.end_ns:
                keys = ("inputs", "file", "line", "code", "bytes")
                times = {"ts": (e.start_ns - zero) / 1e3, "dur": (e.end_ns - e.start_ns) / 1e3}
                args = {key: getattr(e, key) for key in keys}
                add("X", e.thread, e.name, args, cat=e.kind, **times)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"displayTimeUnit": "ns", "traceEvents": rows}, file)


class ScriptProfile:
    """torch.jit._ScriptProfile: counts the runs of each line of a program between `enable` and
    `disable`, and their time.  Several may be enabled at once; one that is enabled again adds to
    what it has.  While one is enabled no `profile` can be recorded."""

    _lock = threading.Lock()
    _enabled: list[ScriptProfile] = []  # noqa: RUF012 (of all)

    def __init__(self) -> None:
        self._events: list[Event] = []

    @classmethod
    def _collect(cls) -> None:
        """Give what was recorded since the last time to all that are enabled."""
        if cls._enabled:
            recorded = profile()
            recorded.stop()
            for one in cls._enabled:
                one._events += recorded.events()

    def _set_enabled(self, on: bool) -> None:
        with self._lock:
            if on == any(one is self for one in self._enabled):
                return
            self._collect()
            self._enabled[:] = [one for one in self._enabled if one is not self]
            if on:
                self._enabled.append(self)
            if self._enabled:
                profile().start()

    def enable(self) -> None:
        self._set_enabled(True)

    def disable(self) -> None:
        self._set_enabled(False)

    def dump_string(self) -> str:
        """Return a table, a block for each file; empty if nothing ran."""
        if any(one is self for one in self._enabled):
            raise RuntimeError("Only disabled profilers are allowed to dump stats.")
        lines: dict[str, dict[int, list[int]]] = {}
        for event in self._events:
            if event.file is not None:
                row = lines.setdefault(event.file, {}).setdefault(event.line, [0, 0])
                if event.kind == "operator":
                    row[0] += 1
                    row[1] += max(0, event.end_ns - event.start_ns)
        return "\n".join(_lines_table(file, found) for file, found in lines.items())

    def dump(self) -> None:
        print(self.dump_string())


def _lines_table(file: str, found: dict[int, list[int]]) -> str:
    head = "  Line #    Hits   Time (ns) Line Contents"
    rows = [head, "=" * len(head)]
    for line in range(min(found), max(found) + 1):
        hits, spent = found.get(line, (0, 0))
        counts = f"{hits:8d}{spent:12d}" if hits else " " * 20
        rows.append(f"{line:8d}{counts} {linecache.getline(file, line).rstrip()}")
    return "\n".join(rows) + "\n"
