from typing import Any

import torch


class Guard:
    def __init__(self, depth: int):
        self.depth = depth

    def __enter__(self) -> int:
        self.depth += 1
        return self.depth

    def __exit__(self, type: Any, value: Any, tb: Any):
        self.depth -= 1


def double(x: torch.Tensor, times: int) -> torch.Tensor:
    return x * times


def f(x: torch.Tensor, n: int) -> torch.Tensor:
    task = torch.jit.fork(double, x, n)
    g = Guard(n)
    with g as depth:
        y = x + depth
        if depth > 5:
            return y
    with torch.no_grad():
        y = y * 2
    if n < 0:
        raise ValueError(f"negative: {n}")
    return y + torch.jit.wait(task)
