from typing import Dict


def f(n: int) -> Dict[str, int]:
    out = {"a": n}
    for i in range(n):
        out = [i]
    return out
