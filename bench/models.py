"""The models that bench/run.py measures: made with torch at the first run, kept in the build folder."""
import pathlib

TOP = pathlib.Path(__file__).resolve().parent.parent

try:
    import torch
    from torch import nn
except ImportError:
    torch = None


def has_torch():
    return torch is not None


def mlp():
    return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10))


def convnet():
    def block(n, m, stride):
        return nn.Sequential(nn.Conv2d(n, m, 3, stride, 1, bias=False), nn.BatchNorm2d(m), nn.ReLU())
    return nn.Sequential(block(3, 32, 2), block(32, 64, 2), block(64, 64, 1), block(64, 128, 2), block(128, 128, 1),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def encoder():
    return nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)


def definitions():
    """name -> (module, arguments as the command writes them).  Classes need torch, so they are made here."""
    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(64, 128, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.lstm(x)[0]

    class Loop(nn.Module):
        def forward(self, n: int) -> int:
            total = 0
            for i in range(n):
                if i % 3 == 0:
                    total += i
                else:
                    total -= 1
            return total

    class Chain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(100):
                x = x + 1.0
            return x

    class Pointwise(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(x * y + 1.0) * torch.tanh(x - y)

    class Products(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x @ y

    return {
        "loop of integers, 10000": (Loop(), ["10000"]),
        "100 adds of 8 elements": (Chain(), ["randn(8)"]),
        "pointwise, 1M elements": (Pointwise(), ["randn(1024,1024)", "randn(1024,1024)"]),
        "product 512x512": (Products(), ["randn(512,512)", "randn(512,512)"]),
        "mlp, batch 1": (mlp(), ["randn(1,256)"]),
        "mlp, batch 64": (mlp(), ["randn(64,256)"]),
        "convnet 3x64x64": (convnet(), ["randn(1,3,64,64)"]),
        "encoder layer, 64 tokens": (encoder(), ["randn(1,64,128)"]),
        "lstm, 32 steps": (Lstm(), ["randn(1,32,64)"]),
    }


def archives(folder):
    """(row, path, arguments) of every archive; those of tests/data first."""
    rows = [("digits", TOP / "tests" / "data" / "digits.pt", ["randn(1,1,8,8)"])]
    if torch is None:
        return rows
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    for name, (module, call) in definitions().items():
        path = folder / ("".join(ch if ch.isalnum() else "_" for ch in name) + ".pt")
        if not path.exists():
            torch.jit.script(module.eval()).save(str(path))
        rows.append((name, path, call))
    return rows
