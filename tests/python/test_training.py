"""The example that trains without Python (examples/digits/train.c), and what PyTorch makes of
it."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest
import rushlight
from conftest import TOP

DIGITS = TOP / "examples" / "digits"


@pytest.fixture(scope="module")
def trained(
    build: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[pathlib.Path, str]:
    program = build / "examples" / "digits" / "train_digits"
    if not program.exists():
        pytest.skip("the examples are not built")
    out = tmp_path_factory.mktemp("trained") / "out.pt"
    done = subprocess.run(
        [program, DIGITS / "digits.pt", out],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out, done.stdout


def test_it_learns_from_random_weights(trained: tuple[pathlib.Path, str]) -> None:
    out, text = trained
    rows = re.findall(
        r"^epoch (\d+): loss ([\d.]+), ([\d.]+) % of 500 new digits right", text, re.M
    )
    first = re.search(r"^random weights: ([\d.]+) % right", text, re.M)
    assert first and float(first[1]) < 40
    assert float(rows[-1][2]) >= 97 and float(rows[-1][1]) < 0.5 * float(rows[0][1])
    model = rushlight.load(out)
    assert not model.training
    images = rushlight.load_value(DIGITS / "images.npy")  # of handwriting, which it never saw
    right = [int(model(images)[i].argmax()) == i for i in range(10)]
    assert sum(right) >= 5


def test_bad_arguments_are_refused(build: pathlib.Path, tmp_path: pathlib.Path) -> None:
    program = build / "examples" / "digits" / "train_digits"
    assert subprocess.run([program], capture_output=True, check=False).returncode == 2
    done = subprocess.run(
        [program, "no.pt", tmp_path / "out.pt"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3 and "no.pt" in done.stderr


def test_pytorch_opens_it_and_trains_further(trained: tuple[pathlib.Path, str]) -> None:
    torch = pytest.importorskip("torch")
    out, text = trained
    images = torch.from_numpy(rushlight.load_value(DIGITS / "images.npy").numpy().copy())
    images = images.reshape(10, 1, 8, 8)
    model = torch.jit.load(str(out))
    ours = rushlight.load(out)(images)
    torch.testing.assert_close(model(images), ours, rtol=1e-4, atol=1e-5)

    optimizer = torch.optim.Adam(model.parameters())
    optimizer.load_state_dict(torch.load(str(out) + ".state.pt"))
    assert optimizer.param_groups[0]["lr"] == 2e-3
    for p in model.parameters():
        assert optimizer.state[p]["exp_avg"].shape == p.shape
        assert optimizer.state[p]["step"].item() == 40 * text.count("epoch ")
    model.eval()  # no dropout: the loss must fall
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), torch.arange(10))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
