import torch
from enum import Enum
from typing import Any, List, NamedTuple, Optional, Tuple


class Color(Enum):
    RED = 1
    GREEN = 2


class Point(NamedTuple):
    x: int
    y: torch.Tensor


@torch.jit.interface
class Shape:
    def area(self) -> int:
        pass


class Box:
    def __init__(self, side: int):
        self.side = side
        self.seen: List[int] = []

    @staticmethod
    def unit() -> int:
        return 1

    def area(self) -> int:
        self.seen.append(self.side)
        return self.side * self.side


def measure(s: Shape) -> int:
    return s.area()


def f(x: torch.Tensor, c: Color, a: Any, o: Optional[Box] = None) -> Tuple[int, Point, bool, str]:
    b = Box(Box.unit() + 2)
    if o is not None:
        b = o
    b.side = 4
    p = Point(measure(b), x)
    kind = "other"
    if isinstance(a, (int, float)):
        kind = "number"
    if c == Color.RED:
        kind = c.name + "é"
    return p.x + c.value, p, isinstance(a, str), kind
