"""Train the digit classifier of the demo and write digits.pt, digits.pt2 and ten test images.

    python examples/digits/train.py        # needs torch==2.13.0 (CPU), scikit-learn, numpy

The data are the 1,797 8x8 digits that scikit-learn ships.  Prints the accuracy on the 360 held
back.
"""

from __future__ import annotations

import os

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))


class Digits(nn.Module):
    """Two convolutions and two linear layers: logits of the ten digits."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.hidden = nn.Linear(32 * 4 * 4, 64)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.features(x).flatten(1)
        return self.out(self.drop(torch.relu(self.hidden(x))))


def train(x: torch.Tensor, y: torch.Tensor) -> Digits:
    """The trained network, in eval mode."""
    model = Digits()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(30):
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    return model.eval()


def without_debug_records(path: str) -> None:
    """Rewrite a TorchScript archive without its source ranges: they hold this machine's paths."""
    reader = torch._C.PyTorchFileReader(path)
    own = (
        "version",
        ".data/version",
        ".data/serialization_id",
        "byteorder",
    )  # the writer adds these
    kept = [
        (name, reader.get_record(name))
        for name in reader.get_all_records()
        if not name.endswith(".debug_pkl") and name not in own
    ]
    version = int(reader.get_record("version"))
    del reader
    writer = torch._C.PyTorchFileWriter(path)
    for name, data in kept:
        writer.write_record(name, data, len(data))
    writer.set_min_version(version)
    writer.write_end_of_file()


def main() -> None:
    """Train, report, save."""
    assert torch.version.cuda is None, "the CPU build of torch is meant"
    torch.manual_seed(0)
    data = load_digits()
    x = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    y = torch.tensor(data.target)
    order = torch.randperm(len(x))
    held, rest = order[:360], order[360:]
    model = train(x[rest], y[rest])
    with torch.no_grad():
        correct = (model(x[held]).argmax(1) == y[held]).sum().item()
    print(f"{correct} of {len(held)} held-back digits are right")

    torch.jit.script(model).save(os.path.join(HERE, "digits.pt"))
    without_debug_records(os.path.join(HERE, "digits.pt"))
    batch = torch.export.Dim("batch", min=1, max=1024)
    program = torch.export.export(model, (x[:4].clone(),), dynamic_shapes=({0: batch},))
    for node in program.graph.nodes:  # stack traces would carry this machine's paths
        node.meta.pop("stack_trace", None)
    torch.export.save(program, os.path.join(HERE, "digits.pt2"))
    ten = torch.stack([x[held][(y[held] == digit).nonzero()[0, 0]] for digit in range(10)])
    np.save(os.path.join(HERE, "images.npy"), ten.numpy())


if __name__ == "__main__":
    main()
