"""TorchScript in a text: `rushlight run examples/statistics.py spread '[1.0, 4.0]'`."""

import torch


class Range:
    def __init__(self, first: float):
        self.low = first
        self.high = first

    def add(self, x: float) -> None:
        self.low = min(self.low, x)
        self.high = max(self.high, x)


def spread(xs: list[float]) -> float:
    r = Range(xs[0])
    for x in xs:
        r.add(x)
    return r.high - r.low


def standardize(x: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return (x - x.mean()) / (x.std() + eps)
