"""Tensors of torch's device meta: modules hold, save, load, copy and replace them; programs do not
run on them."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import rushlight

torch = pytest.importorskip("torch")
nn = torch.nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.far, self.near = nn.Linear(2, 3, device="meta"), nn.Linear(3, 4)
        self.register_buffer("b", torch.zeros(4, 2, device="meta").t())

    def forward(self, x):
        return self.near(self.far(x)) + self.b


def state(module: Any) -> list[Any]:
    return [
        (k, v.is_meta, v.shape, v.stride(), v.dtype)
        for k, v in module.state_dict(keep_vars=True).items()
    ]


def through(save: Any, load: Any, module: Any, **options: Any) -> Any:
    file = io.BytesIO()
    save(module, file)
    file.seek(0)
    return load(file, **options)


def test_state_is_kept() -> None:
    ours, theirs = rushlight.script(Net()), torch.jit.script(Net())
    assert state(ours) == state(theirs) == state(copy.deepcopy(ours))
    for save, load in ((rushlight.save, rushlight.load), (rushlight.save, torch.jit.load)):
        assert state(through(save, load, ours)) == state(theirs)
    assert state(through(torch.jit.save, rushlight.load, theirs)) == state(theirs)


@pytest.mark.parametrize("device", ["meta", torch.device("meta")])
def test_archives_without_their_data(device: Any) -> None:
    made = torch.jit.script(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    ours = through(torch.jit.save, rushlight.load, made, map_location=device)
    theirs = through(torch.jit.save, torch.jit.load, made, map_location=device)
    assert state(ours) == state(theirs) and all(p.requires_grad for p in ours.parameters())
    ours.load_state_dict(made.state_dict(), assign=True)
    x = torch.rand(4, 2)
    torch.testing.assert_close(ours.eval()(x), made.eval()(x))


def test_programs_do_not_run_on_them() -> None:
    module = rushlight.script(Net())
    with pytest.raises(
        RuntimeError,
        match="attribute 'weight' of __torch__.*Linear is on the device meta: it has no data",
    ):
        module(torch.ones(1, 2))
    with pytest.raises(RuntimeError, match="is on the device meta"):
        rushlight.freeze(module.eval())(torch.ones(1, 2))
    with pytest.raises(ValueError, match="not on the CPU"):
        module(torch.ones(1, 2, device="meta"))


def test_there_and_back() -> None:
    module = rushlight.script(nn.Linear(2, 3))
    assert module.to("meta").weight.is_meta
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        module.to("cpu")
    module.load_state_dict({"weight": torch.ones(3, 2), "bias": torch.zeros(3)}, assign=True)
    assert torch.equal(module(torch.ones(1, 2)), torch.full((1, 3), 2.0))
