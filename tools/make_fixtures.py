#!/usr/bin/env python3
"""make_fixtures.py: write the archives of tests/data with torch 2.13.0.  Run by hand; the results
are committed.

life.pt      TorchScript with a loop and prints: Conway's game of life
digits.pt    a small trained-looking network, frozen: convolution, pooling, linear, softmax
digits.pt2   the same, exported
exported.pt2 an exported program with a batch of any size, a branch, a buffer that a call changes, a
             list of results and a constant; exported.txt: what PyTorch prints for it
worker.pt    methods that change the module's state and methods that do not, tasks, an endless loop;
a weight worth packing cnn.pt       a scripted network that is trained: residual blocks, a loop over
a ModuleList, state that a call changes convs.pt     a scripted network of three convolutions, for
pictures of any size reader.pt    a scripted transformer that takes and gives dicts, lists and
tuples
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


class Exported(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.scale = torch.tensor([1.0, 2.0, 3.0])

    def forward(
        self, x: torch.Tensor, *, shift: torch.Tensor, name: str = "it's"
    ) -> dict[str, object]:
        self.calls += 1
        y = self.linear(x) * self.scale / x.shape[0]
        y = torch.cond(y.sum() > 0, lambda a: (a + shift).relu(), lambda a: a * -1.5, (y,))
        first, second, _ = torch.cat([y, y * 2]).split(1, 1)
        values, _ = first.reshape(-1).topk(2)
        return {"y": [first, second.to(torch.float16)], "rows": 2 * x.shape[0] + 1, "top": values}


class Worker(nn.Module):
    """A module for tests that use one module from several threads at once."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(96, 128)
        self.outer = nn.Linear(128, 96)
        self.register_buffer("total", torch.zeros(96))
        self.calls = 0
        self.seen = [0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Change nothing."""
        y = self.outer(torch.relu(self.inner(x)))
        return torch.softmax(torch.tanh(y * 0.5 + x) - x * y, -1) + x

    @torch.jit.export
    def count(self, x: torch.Tensor) -> int:
        """Change an attribute, a list and a buffer."""
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
        """Run until it is cancelled."""
        while bool(x.size(0) > 0):
            x = self.forward(x)
        return x


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=2)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.norm(self.conv(x)))


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, stride=2)
        self.blocks = nn.ModuleList([Block(4), Block(4)])
        self.out = nn.Linear(4, 5)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        self.calls += 1
        x = torch.relu(self.first(x))
        for block in self.blocks:
            x = block(x)
        x = nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)
        return torch.log_softmax(self.out(x), -1), self.calls


class Convs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.b = nn.Conv2d(8, 16, 3, padding=1)
        self.c = nn.Conv2d(16, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c(torch.relu(self.b(torch.relu(self.a(x))))).mean([2, 3])


class Encoder(nn.Module):
    """One layer: attention over a sequence, then two linear maps."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.proj = nn.Linear(8, 8)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)
        self.norm1 = nn.LayerNorm(8)
        self.norm2 = nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            self.qkv(self.norm1(x)).view(x.size(0), x.size(1), 6, 4).transpose(1, 2).chunk(3, 1)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(y.transpose(1, 2).reshape(x.size(0), x.size(1), 8))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.encoder = Encoder()
        self.names = ["first", "last"]

    def forward(self, batch: dict[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], list[str]]:
        if "tokens" not in batch:
            raise KeyError("tokens")
        x = self.encoder(self.words(batch["tokens"]))
        if "mask" in batch:
            x = x.masked_fill(batch["mask"].unsqueeze(-1), 0.0)
        out: dict[str, torch.Tensor] = {}
        for i, name in enumerate(self.names):
            out[name] = x[:, -i]
        out["mean"] = torch.stack([x[:, i] for i in range(x.size(1))]).mean(0)
        shown = [f"{name}: {list(t.shape)}" for name, t in out.items()]
        return out, sorted(shown)


def without_paths(path: str) -> None:
    """Write the archive again without records that show where it was made: debug records, folders
    in stack traces."""
    with zipfile.ZipFile(path) as z:
        records = [(name.split("/", 1)[1], z.read(name)) for name in z.namelist()]
    writer = torch._C.PyTorchFileWriter(str(path))
    for name, data in records:
        if name.endswith(".debug_pkl") or name in (
            "version",
            "byteorder",
            ".data/serialization_id",
            ".data/version",
        ):
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
    rows = torch.export.Dim("rows", min=2, max=64)
    shapes = {"x": {0: rows}, "shift": None, "name": None}
    exported = torch.export.export(
        Exported(),
        (torch.randn(3, 4),),
        {"shift": torch.ones(3), "name": "it's"},
        dynamic_shapes=shapes,
    )
    torch.export.save(exported, OUT / "exported.pt2")
    torch.jit.script(Worker().eval()).save(str(OUT / "worker.pt"))
    torch.jit.script(Cnn().train()).save(str(OUT / "cnn.pt"))
    torch.jit.script(Convs().eval()).save(str(OUT / "convs.pt"))
    torch.jit.script(Reader().eval()).save(str(OUT / "reader.pt"))
    for path in OUT.glob("*.pt*"):
        without_paths(path)
    (OUT / "exported.txt").write_text(str(torch.export.load(OUT / "exported.pt2")))


if __name__ == "__main__":
    main()
