"""Archives with operators that are not registered: everything but running the call works."""

from __future__ import annotations

import json
import pathlib

import pytest
import rushlight
from archives import pack
from conftest import DATA

CODE = b"""class M(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def forward(self: __torch__.M,
    x: Tensor) -> Tensor:
    a, b = ops.unheard.pair(x, 2)
    n = annotate(int, ops.unheard.number(x, scale=2.5, flag=True))
    if bool(ops.unheard.likes(a)):
      y = torch.relu(b)
    else:
      y = torch.add(a, n)
    return torch.mean(y)
  def other(self: __torch__.M,
    x: Tensor) -> Tensor:
    return torch.add(x, x)
"""
NAMES = ["unheard::pair", "unheard::number", "unheard::likes"]


@pytest.fixture
def net(tmp_path: pathlib.Path) -> str:
    content = {
        "m/data.pkl": b"\x80\x02c__torch__\nM\n)\x81}(X\x08\x00\x00\x00training\x89ub.",
        "m/code/__torch__.py": CODE,
        "m/constants.pkl": b"\x80\x02).",
        "m/version": b"3\n",
    }
    path = tmp_path / "net.pt"
    path.write_bytes(pack(content))
    return str(path)


VIEWS = [
    "--ops",
    "--code",
    "--graph",
    "--program",
    "--dot",
    "--schema",
    "--signature",
    "--html",
    None,
]


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_shows_the_model(run, net: str, view: str | None) -> None:
    out = run("show", net, *([view] if view else [])).stdout
    if view not in ("--schema", "--signature"):
        assert all(
            name in out or name.replace("unheard::", "ops.unheard.") in out for name in NAMES
        )
    if view in (None, "--code", "--graph"):
        first = [line for line in out.splitlines() if "unknown operator" in line]
        assert out.splitlines()[: len(first)] == first and len(first) == len(NAMES)


def test_missing_operators_are_listed_first(run, net: str) -> None:
    lines = run("show", net, "--ops").stdout.splitlines()
    assert {line.split()[0] for line in lines[:3]} == set(NAMES)
    assert all(line.endswith(" unknown") for line in lines[:3]) and lines[3].endswith(" runs")
    shown = run("show", str(DATA / "digits.pt")).stdout
    assert "unknown operator" not in shown


def test_only_running_the_call_fails(run, net: str) -> None:
    said = run("run", net, "ones(2)", code=4).stderr
    assert (
        "NotImplementedError: unheard::pair is an unknown operator" in said
        and "ops.unheard.pair(x, 2)" in said
    )
    assert run("run", net, "ones(2)", "--method", "other").stdout == "tensor([2., 2.])\n"


def test_types_come_from_the_first_place_that_declares_one(net: str) -> None:
    module = rushlight.load(net)
    text = str(module.forward.graph)
    assert ": (Tensor, Tensor) = unheard::pair(" in text and ": int = unheard::number(" in text
    assert "ops.unheard.number(x, scale=2.5, flag=True)" in module.code


def test_what_is_loaded_can_be_saved(run, net: str, tmp_path: pathlib.Path) -> None:
    rushlight.save(rushlight.load(net), str(tmp_path / "again.pt"))
    before, after = (
        run("show", path, "--ops").stdout for path in (net, str(tmp_path / "again.pt"))
    )
    assert sorted(before.splitlines()) == sorted(after.splitlines())


def test_text_is_refused_at_once() -> None:
    with pytest.raises(RuntimeError, match="Unknown builtin op: unheard::pair"):
        rushlight._rushlight.compile("def f(x):\n    return torch.ops.unheard.pair(x)\n")


def test_a_function_that_does_not_compile_hides_no_other(run, tmp_path: pathlib.Path) -> None:
    source = tmp_path / "half.py"
    source.write_text("def good(x):\n    return x.relu()\ndef bad(x: int) -> str:\n    return x\n")
    lines = run("show", str(source), "--ops").stdout.splitlines()
    assert lines[0].endswith(" does not compile") and "bad" in lines[0]
    assert any(line.startswith("aten::relu ") for line in lines)


def test_as_data(run, net: str) -> None:
    ops = json.loads(run("show", net, "--ops", "--json").stdout)
    assert ops
