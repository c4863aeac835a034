"""The verifier of exported programs (rushlight show --check): right programs break no rule, each
planted damage is named by its rule, and PyTorch refuses what the list says that it refuses."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import warnings
from typing import Any

import pytest
from exported_damages import DAMAGES, PROGRAMS, Damage, Model

TOP = pathlib.Path(__file__).resolve().parents[2]
COMMAND = pathlib.Path(os.environ["RUSH_BUILD_DIR"]) / "cli" / "rushlight"
RULES = dict(
    re.findall(
        r'RULE\(\w+,\s+"([^"]+)",\s+"([^"]+)"\)', (TOP / "src/export/verify.def").read_text()
    )
)


def faults(path: pathlib.Path, *options: str) -> list[str]:
    """The faults that --check finds, by rule."""
    done = subprocess.run(
        [COMMAND, "show", "--check", *options, path], capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    rules = [line.split(": ")[0] for line in done.stdout.splitlines()]
    return [rule for rule in rules if rule in RULES]


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.pt2")), ids=lambda p: p.stem)
def test_right_programs_break_no_rule(path: pathlib.Path) -> None:
    assert not faults(path)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.name)
def test_damages_are_named(damage: Damage, tmp_path: pathlib.Path) -> None:
    assert damage.rule in faults(damage.make(tmp_path / "damaged.pt2"))


def test_there_are_enough_damages() -> None:
    assert len(DAMAGES) >= 30
    others = (TOP / "tests/export/test_verify.c").read_text() + pathlib.Path(__file__).read_text()
    missing = [r for r in RULES if r not in {d.rule for d in DAMAGES} and f'"{r}"' not in others]
    assert not missing, "each rule is broken by a test"


@pytest.mark.parametrize("damage", [d for d in DAMAGES if d.torch], ids=lambda d: d.name)
def test_pytorch_refuses_them_too(damage: Damage, tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("exported_programs")  # registers the operator of `tokens`
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception):  # noqa: B017 - of many classes
            torch.export.load(damage.make(tmp_path / "damaged.pt2")).validate()


def test_a_fault_says_rule_place_node_and_what_was_expected(tmp_path: pathlib.Path) -> None:
    m = Model(PROGRAMS / "state.pt2")
    node = m.node("linear")
    node["inputs"][1]["arg"] = {"as_int": 3}
    node["metadata"] = {"stack_trace": '  File "net.py", line 7, in forward\n    y = linear(x)\n'}
    path = m.save(tmp_path / "net.pt2")
    done = subprocess.run([COMMAND, "show", "--check", path], capture_output=True, text=True)
    assert done.returncode == 1
    assert re.search(
        r"^args\.type: .*net\.pt2: m/models/model\.json: offset \d+: node 'linear' \(net\.py:7\): "
        r"argument 'weight' of torch\.ops\.aten\.linear\.default: expected Tensor, found an int$",
        done.stdout,
        re.M,
    ), done.stdout
    done = subprocess.run(
        [COMMAND, "show", "--check", "--json", path], capture_output=True, text=True
    )
    answer = json.loads(done.stdout)
    assert answer["ok"] is False and "args.type" in answer["faults"]


def dialect(program: str, name: str) -> list[str]:
    return faults(PROGRAMS / f"{program}.pt2", "--dialect", name)


def test_dialects_on_request() -> None:
    assert "op.not-functional" in dialect("mutation", "ATEN")
    assert not dialect("mutation", "TRAINING")
    assert "op.not-core" in dialect("state", "CORE_ATEN")
    assert not dialect("mutation_named", "CORE_ATEN")
    assert not dialect("mutation_named", "EDGE")


def test_edge_has_no_promotion(tmp_path: pathlib.Path) -> None:
    m = Model(PROGRAMS / "mutation_named.pt2")
    m.value("mul")["dtype"] = 8
    path = m.save(tmp_path / "mixed.pt2")
    assert "op.promotion" in faults(path, "--dialect", "EDGE")
    assert "op.promotion" not in faults(path)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--check", "--dialect", "ATLANTIC", PROGRAMS / "state.pt2"], "ATLANTIC"),
        (["--dialect", "ATEN", PROGRAMS / "state.pt2"], "requires --check"),
        (["--check", "--dialect", "ATEN", TOP / "tests/data/life.pt"], "exported programs"),
    ],
)
def test_wrong_options(args: list[Any], words: str) -> None:
    done = subprocess.run([COMMAND, "show", *args], capture_output=True, text=True)
    assert done.returncode == 2 or done.returncode == 4
    assert words in done.stderr


def test_the_table_of_the_documentation() -> None:
    text = (TOP / "docs" / "export_rules.md").read_text()
    for name, demand in RULES.items():
        assert f"| `{name}` | {demand} |" in text
