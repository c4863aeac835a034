from typing import List


def f(xs: List[int]) -> List[float]:
    return [x + 1 for x in xs]
