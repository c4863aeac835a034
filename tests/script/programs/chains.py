"""Chains of pointwise operators, which the compiler groups: called with many kinds of arguments by test_compiler.py."""

from typing import Tuple

import torch
from torch import Tensor


def mulchain(a: Tensor, b: Tensor):
    c = a * b
    a = c * c
    return c * a


def affine(a: Tensor, b: Tensor):
    return torch.clamp(a * 2.5 + b, min=-1.0, max=3.0) - 1


def halves(a: Tensor, b: Tensor):
    x = torch.relu(a - b)
    return x / (b.abs() + 1.0) * 0.5, x + 1.0


def compares(a: Tensor, b: Tensor):
    m = a * 2.0 > b + 1.0
    return torch.where(m, a - b, b * 3.0), m


def number(a: Tensor, b: Tensor, k: float = 0.75):
    return (a * k + b) * k - k


def rounds(a: Tensor, b: Tensor):
    return torch.floor(a * 4.0) + torch.ceil(b) - torch.trunc(a) * torch.sqrt(b.abs())


def subtracts(a: Tensor, b: Tensor):
    return torch.sub(a, b, alpha=2) * torch.rsub(a, b) + torch.maximum(a, b) - torch.minimum(a, -b)


def branches(a: Tensor, b: Tensor):
    c = a * b + 1.0
    if bool((c > 0.0).any()):
        c = (c - 1.0) * 2.0
    else:
        c = c * c + b
    for i in range(3):
        c = c * 0.5 + b * i
    return c


def between(a: Tensor, b: Tensor):
    c = a * b
    s = c.sum()
    d = c + b
    return d * s - c


def writes(a: Tensor, b: Tensor):
    c = a.clone()
    d = c * b
    c.add_(1.0)
    e = c * b
    return d + e * c


def many(a: Tensor, b: Tensor):
    x = a
    for_sum = a + b
    x = x * 1.01 + b
    x = x * 1.02 - b
    x = x * 1.03 + a
    x = x * 1.04 - a
    x = (x + 0.1) * (x - 0.2) + (x + 0.3) * (x - 0.4)
    y = x * for_sum
    z = y - for_sum
    return x, y, z, y + z


def activations(a: Tensor, b: Tensor):
    x = torch.sigmoid(a) * torch.tanh(b)
    return torch.nn.functional.silu(x + a) + torch.nn.functional.gelu(x * b) * torch.exp(-x)


def deviates(a: Tensor, b: Tensor) -> Tuple[Tensor, Tensor]:
    c = a / b
    return c * c, torch.isnan(c) | (c > 2.0)
