"""Exported programs in the layouts that PyTorch wrote before: read as PyTorch 2.13 reads them, run,
and written in the present layout."""

from __future__ import annotations

import io
import pathlib
import subprocess
import warnings
import zipfile
from typing import Any

import pytest
import rushlight
from rushlight import export as ours

torch = pytest.importorskip("torch")

import exported_programs  # noqa: E402
from torch._export.serde.serialize import serialize, serialize_torch_artifact  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

X = torch.arange(12.0).reshape(3, 4)
PROGRAMS = ["state", "branches", "derived_sizes", "several_results", "odd_weights", "kept_calls"]


def older(program: Any, path: pathlib.Path, version: str = "8.20", old_names: bool = False) -> None:
    """Save a program as PyTorch 2.6 did; old_names: as the first versions called the records."""
    parts = serialize(program)
    end = "json" if old_names else "pt"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("serialized_exported_program.json", parts.exported_program)
        z.writestr(f"serialized_state_dict.{end}", parts.state_dict)
        z.writestr(f"serialized_constants.{end}", parts.constants)
        z.writestr("serialized_example_inputs.pt", parts.example_inputs)
        z.writestr("version", version)
        z.writestr("extra_files/notes.txt", "here")


def pickled_weights(program: Any, path: pathlib.Path) -> None:
    """Save a program as PyTorch 2.7 did: the present layout, but for the weights."""
    new = io.BytesIO()
    torch.export.save(program, new)
    with zipfile.ZipFile(new) as z, zipfile.ZipFile(path, "w") as to:
        for name in z.namelist():
            if "/data/weights/" not in name and "/data/constants/" not in name:
                to.writestr(name, z.read(name))
        root = z.namelist()[0].split("/", 1)[0]
        for folder, state in ("weights", program.state_dict), ("constants", program.constants):
            data = serialize_torch_artifact(dict(state))
            to.writestr(f"{root}/data/{folder}/model.pt", data)


def theirs(path: pathlib.Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.load(str(path))


def check_same(want: Any, got: Any) -> None:
    pairs = zip(pytree.tree_leaves(want), pytree.tree_leaves(got), strict=True)
    for a, b in pairs:
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(torch.as_tensor(b), a)
        else:
            assert a == b


def check(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Ours is what PyTorch loads, and so is what we write of it."""
    want = theirs(path)
    args, kwargs = want.example_inputs
    program = ours.load(str(path))
    assert str(program) == str(want)
    check_same(want.state_dict, program.state_dict)
    result = want.module()(*pytree.tree_map(torch.clone, args), **kwargs)
    check_same(result, program.module()(*pytree.tree_map(torch.clone, args), **kwargs))
    check_same(result, rushlight.load(str(path))(*pytree.tree_map(torch.clone, args), **kwargs))
    for name, save in (
        ("program.pt2", lambda to: ours.save(program, to)),
        ("module.pt2", lambda to: rushlight.load(str(path)).save(to)),
    ):
        made = tmp_path / name
        save(str(made))
        with zipfile.ZipFile(made) as z:
            names = {n.split("/", 1)[1] for n in z.namelist()}
        assert "models/model.json" in names
        assert not {n for n in names if n.startswith("serialized") or n.endswith("model.pt")} - {
            "data/sample_inputs/model.pt"
        }
        again = torch.export.load(str(made))
        assert str(again) == str(want)
        check_same(want.state_dict, again.state_dict)
        check_same(want.constants, again.constants)
        check_same(result, again.module()(*pytree.tree_map(torch.clone, args), **kwargs))


@pytest.mark.parametrize("name", PROGRAMS)
def test_before_2_7(tmp_path: pathlib.Path, name: str) -> None:
    path = tmp_path / "older.pt2"
    older(exported_programs.make(name), path)
    check(path, tmp_path)
    extra = {"notes.txt": ""}
    torch.export.load(str(tmp_path / "program.pt2"), extra_files=extra)
    assert extra["notes.txt"] in ("here", b"here")


def test_first_names_of_the_records(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "older.pt2"
    older(exported_programs.make("state"), path, old_names=True)
    check(path, tmp_path)


@pytest.mark.parametrize("name", PROGRAMS)
def test_pickled_weights(tmp_path: pathlib.Path, name: str) -> None:
    path = tmp_path / "pickled.pt2"
    pickled_weights(exported_programs.make(name), path)
    check(path, tmp_path)


def test_other_versions_are_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "older.pt2"
    older(exported_programs.make("state"), path, version="7.3")
    with pytest.raises(RuntimeError, match=r"version 7\.3 does not match .* \(8, 20\)"):
        ours.load(str(path))
    with pytest.raises(RuntimeError, match="does not match"):
        theirs(path)


def test_the_command(command: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "older.pt2"
    older(exported_programs.make("state"), path)
    for verb in (["show"], ["show", "--check"], ["show", "--fx"]):
        done = subprocess.run([command, *verb, str(path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("damage", ["serialized_state_dict.pt", "version", "cut"])
def test_damage_is_named(tmp_path: pathlib.Path, damage: str) -> None:
    whole, path = tmp_path / "whole.pt2", tmp_path / "older.pt2"
    older(exported_programs.make("state"), whole)
    with zipfile.ZipFile(whole) as z, zipfile.ZipFile(path, "w") as to:
        for name in z.namelist():
            data = z.read(name)
            if damage == "cut" and name == "serialized_state_dict.pt":
                data = data[: len(data) // 2]
            if name != damage:
                to.writestr(name, data)
    with pytest.raises((RuntimeError, ValueError), match="state_dict|version"):
        rushlight.load(str(path))
