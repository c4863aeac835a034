"""Ways out of with, where PyTorch's compiler fails an assertion of its own: compared with Python."""

from typing import Any, List


class Guard:
    def __init__(self, log: List[str], name: str) -> None:
        self.log = log
        self.name = name

    def __enter__(self) -> int:
        self.log.append("in " + self.name)
        return len(self.log)

    def __exit__(self, kind: Any, value: Any, where: Any) -> None:
        self.log.append("out " + self.name)


def by_break(items: List[int], v: int):
    log: List[str] = []
    for x in items:
        with Guard(log, str(x)):
            if x > 3:
                break
            v = v + x
    return v, log


def by_break_and_continue(items: List[int], v: int):
    log: List[str] = []
    last = [1]
    for x in items:
        with Guard(log, "a") as k:
            if x == 2:
                continue
            with Guard(log, "b"):
                if x > 4:
                    break
                v = v + k
                last = [v, x]
            v += 1
        v += 100
    return v, last, log


def by_all(items: List[int], v: int):
    log: List[str] = []
    with Guard(log, "a"):
        if v > 5:
            return v, log
        u = v * 2
        for x in items:
            with Guard(log, "b"):
                if x > 3:
                    return u, log
                with Guard(log, "c"):
                    if x == 2:
                        continue
                    u += x
        y = u
    return u + y, log
