"""`rushlight show --fx`: exported programs as PyTorch prints them, letter by letter."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import warnings
import zipfile
from typing import Any

import pytest

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
COMMAND = pathlib.Path(os.environ["RUSH_BUILD_DIR"]) / "cli" / "rushlight"
VIEWS = ("--fx", "--fx-graph", "--fx-code")


def shown(path: pathlib.Path, view: str) -> str:
    done = subprocess.run([COMMAND, "show", path, view], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_pytorch_printed() -> None:
    """For an archive of the repository; tools/make_fixtures.py wrote down what PyTorch printed."""
    assert shown(DATA / "exported.pt2", "--fx") == (DATA / "exported.txt").read_text()


@pytest.mark.parametrize("path", sorted((DATA / "exports").glob("*.pt2")), ids=lambda p: p.stem)
def test_what_pytorch_printed_for_all_kinds(path: pathlib.Path) -> None:
    """exported_programs.py wrote down what PyTorch printed."""
    assert shown(path, "--fx") == path.with_suffix(".txt").read_text()


def test_other_archives_are_refused() -> None:
    done = subprocess.run(
        [COMMAND, "show", DATA / "life.pt", "--fx"], capture_output=True, text=True
    )
    assert done.returncode != 0 and "is no exported program" in done.stderr


try:
    import exported_programs
    import torch
except ImportError:
    NAMES: list[str] = []
else:
    NAMES = exported_programs.NAMES


def texts(path: pathlib.Path) -> dict[str, str]:
    """What PyTorch prints for the archive."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = torch.export.load(path)
    return dict(zip(VIEWS, (str(p), f"{p.graph}\n", p.graph_module.code), strict=True))


def without_names(graph: dict[str, Any]) -> None:
    """Take out of the graph what older minors of the schema do not have."""
    for node in graph["nodes"]:
        node.pop("name", None)
        node.pop("is_hop_single_tensor_return", None)
        for given in node["inputs"]:
            given.pop("kind", None)
            if "as_graph" in given["arg"]:
                without_names(given["arg"]["as_graph"]["graph"])


def older(path: pathlib.Path) -> pathlib.Path:
    """The archive as an older PyTorch would have written it."""
    made = path.with_suffix(".old.pt2")
    with zipfile.ZipFile(path) as from_, zipfile.ZipFile(made, "w") as to:
        for info in from_.infolist():
            data = from_.read(info)
            if info.filename.endswith("models/model.json"):
                model = json.loads(data)
                without_names(model["graph_module"]["graph"])
                model["schema_version"] = {"major": 8, "minor": 5}
                del model["guards_code"], model["torch_version"]
                data = json.dumps(model).encode()
            to.writestr(info.filename, data)
    return made


# By PyTorch: one tensor of a higher-order operator.
REFUSED_AS_OLDER = {"assembly", "dtypes_of_results"}


@pytest.mark.parametrize("name", NAMES)
def test_as_pytorch(name: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"{name}.pt2"
    torch.export.save(exported_programs.make(name), path)
    for archive in (path, *([] if name in REFUSED_AS_OLDER else [older(path)])):
        for view, text in texts(archive).items():
            assert shown(archive, view) == text
