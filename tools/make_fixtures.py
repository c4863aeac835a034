#!/usr/bin/env python3
"""make_fixtures.py: write the archives of tests/data with torch 2.13.0.  Run by hand; the results are committed.

life.pt      TorchScript with a loop and prints: Conway's game of life
digits.pt    a small trained-looking network, frozen: convolution, pooling, linear, softmax
digits.pt2   the same, exported
worker.pt    methods that change the module's state and methods that do not, tasks, an endless loop; a weight worth packing
"""

from __future__ import annotations

import pathlib
import re
import zipfile

import torch
from torch import nn

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data"


class Life(nn.Module):
    """A glider on a torus, printed generation by generation."""

    def __init__(self) -> None:
        super().__init__()
        board = torch.zeros(8, 12, dtype=torch.int64)
        for y, x in ((0, 1), (1, 2), (2, 0), (2, 1), (2, 2)):
            board[y, x] = 1
        self.register_buffer("board", board)

    def step(self, board: torch.Tensor) -> torch.Tensor:
        near = torch.zeros_like(board)
        for dy in range(-1, 2):
            for dx in range(-1, 2):
                if dy != 0 or dx != 0:
                    near = near + torch.roll(board, [dy, dx], [0, 1])
        return ((near == 3) | ((near == 2) & (board == 1))).to(torch.int64)

    def forward(self, generations: int) -> int:
        board = self.board
        for _i in range(generations):
            board = self.step(board)
        for row in board.unbind(0):
            line = ""
            for cell in row.unbind(0):
                line += "#" if bool(cell) else "."
            print(line)
        return int(board.sum())


class Digits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.out = nn.Linear(4 * 4 * 4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.conv(x)))
        x = nn.functional.max_pool2d(x, 2)
        return torch.softmax(self.out(x.flatten(1)), -1)


class Worker(nn.Module):
    """What threads do to one module at once."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(96, 128)
        self.outer = nn.Linear(128, 96)
        self.register_buffer("total", torch.zeros(96))
        self.calls = 0
        self.seen = [0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Changes nothing."""
        return torch.softmax(self.outer(torch.relu(self.inner(x))), -1) + x

    @torch.jit.export
    def count(self, x: torch.Tensor) -> int:
        """Changes an attribute, a list and a buffer."""
        self.calls += 1
        self.seen.append(self.calls)
        self.total += self.forward(x).round().sum(0) * 0 + 1
        return self.calls

    @torch.jit.export
    def tasks(self, x: torch.Tensor) -> torch.Tensor:
        futures = [torch.jit.fork(self.forward, x[i : i + 1]) for i in range(x.size(0))]
        rows = [torch.jit.wait(f) for f in futures]
        return torch.cat(rows)

    @torch.jit.export
    def spin(self, x: torch.Tensor) -> torch.Tensor:
        """Until somebody cancels it."""
        while bool(x.size(0) > 0):
            x = self.forward(x)
        return x


def without_paths(path: str) -> None:
    """Write the archive again without what tells where it was made: debug records, folders in stack traces."""
    with zipfile.ZipFile(path) as z:
        records = [(name.split("/", 1)[1], z.read(name)) for name in z.namelist()]
    writer = torch._C.PyTorchFileWriter(str(path))
    for name, data in records:
        if name.endswith(".debug_pkl") or name in ("version", "byteorder", ".data/serialization_id", ".data/version"):
            continue  # the writer adds what it needs itself
        if name.endswith(".json"):
            data = re.sub(rb'File \\"/[^"]*/', rb'File \\"', data)
        writer.write_record(name, data, len(data))
    writer.write_end_of_file()


def main() -> None:
    torch.manual_seed(0)
    OUT.mkdir(parents=True, exist_ok=True)
    torch.jit.script(Life()).save(str(OUT / "life.pt"))
    digits = Digits().eval()
    torch.jit.freeze(torch.jit.script(digits)).save(str(OUT / "digits.pt"))
    torch.export.save(torch.export.export(digits, (torch.randn(1, 1, 8, 8),)), OUT / "digits.pt2")
    torch.jit.script(Worker().eval()).save(str(OUT / "worker.pt"))
    for path in OUT.glob("*.pt*"):
        without_paths(path)


if __name__ == "__main__":
    main()
