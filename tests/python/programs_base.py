"""How the networks of programs.py are described."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

ALL = "script freeze trace export core"
STATIC = "trace export core"  # Python that TorchScript does not take


class Program(NamedTuple):
    name: str
    make: Callable[[], nn.Module]
    args: Callable[[], tuple]
    modes: str


PROGRAMS: list[Program] = []


def program(
    name: str, make: Callable[[], nn.Module], args: Callable[[], tuple], modes: str = ALL
) -> None:
    PROGRAMS.append(Program(name, make, args, modes))


def r(*sizes: int) -> Tensor:
    return torch.randn(*sizes)
