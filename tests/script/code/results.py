import torch


def f(x: torch.Tensor):
    return torch.frexp(x)
