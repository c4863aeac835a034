import torch


def f(value: int) -> int:
    total = value + 1
    return totel * 2
