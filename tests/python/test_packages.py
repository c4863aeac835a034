"""torch.export packages: versions of the schema, several programs, what AOTInductor compiled."""

from __future__ import annotations

import json
import pathlib
import warnings
import zipfile
from collections.abc import Callable

import pytest
import rushlight
from conftest import DATA

DIGITS = DATA / "digits.pt2"


def rewrite(
    to: pathlib.Path, change: Callable[[str, bytes], list[tuple[str, bytes]]]
) -> pathlib.Path:
    """digits.pt2 with every record replaced by what `change` makes of its path below the root and
    its bytes."""
    with zipfile.ZipFile(DIGITS) as old, zipfile.ZipFile(to, "w") as new:
        for item in old.infolist():
            root, _, path = item.filename.partition("/")
            for name, data in change(path, old.read(item)):
                new.writestr(f"{root}/{name}", data)
    return to


def versioned(to: pathlib.Path, version: dict[str, int] | None) -> pathlib.Path:
    def change(path: str, data: bytes) -> list[tuple[str, bytes]]:
        if path == "models/model.json":
            model = json.loads(data)
            model.pop("schema_version")
            data = json.dumps(
                model | ({"schema_version": version} if version is not None else {})
            ).encode()
        return [(path, data)]

    return rewrite(to, change)


def named(to: pathlib.Path, *names: str, compiled: str = "") -> pathlib.Path:
    """The program under other names; with `compiled` also something of AOTInductor's."""

    def change(path: str, data: bytes) -> list[tuple[str, bytes]]:
        made = []
        if path == "archive_format" and compiled:
            made = [
                (f"data/aotinductor/{compiled}/wrapper.so", b"\x7fELF"),
                (f"data/aotinductor/{compiled}/w.json", b"{}"),
            ]
        for own in (
            "models/model.json",
            "data/weights/model_weights_config.json",
            "data/constants/model_constants_config.json",
        ):
            if path == own:
                return [(own.replace("/model", "/" + name), data) for name in names]
        return [*made, (path, data)]

    return rewrite(to, change)


def test_an_unknown_major_version_is_refused(run: Callable, tmp_path: pathlib.Path) -> None:
    for major, minor in ((9, 1), (7, 3), (0, 1), (-8, 20)):
        path = versioned(tmp_path / "m.pt2", {"major": major, "minor": minor})
        said = run("show", str(path), code=4).stderr
        assert (
            f"Serialized schema version SchemaVersion(major={major}, minor={minor}) does not match"
            in said
        )
        with pytest.raises(RuntimeError, match=r"our current schema version \(8, 20\)"):
            rushlight.load(path)


def test_newer_minor_versions_are_accepted_and_said(run: Callable, tmp_path: pathlib.Path) -> None:
    want = run("run", str(DIGITS), "ones(1,1,8,8)").stdout
    path = versioned(tmp_path / "m.pt2", {"major": 8, "minor": 21})
    done = run("run", str(path), "ones(1,1,8,8)")
    assert done.stdout == want
    assert (
        "warning" in done.stderr
        and "models/model.json: schema version 8.21 is newer than 8.20" in done.stderr
    )
    with pytest.warns(UserWarning, match=r"8\.21 is newer than 8\.20"):
        rushlight.load(path)
    for version in (
        {"major": 8, "minor": 20},
        {"major": 8, "minor": 1},
        {"major": 0, "minor": 0},
        None,
    ):
        path = versioned(tmp_path / "m.pt2", version)
        assert run("run", str(path), "ones(1,1,8,8)").stderr == ""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rushlight.load(path)


def test_another_layout_is_refused(run: Callable, tmp_path: pathlib.Path) -> None:
    path = rewrite(
        tmp_path / "m.pt2", lambda path, data: [(path, b"1" if path == "archive_version" else data)]
    )
    assert "ValueError" in (said := run("show", str(path), code=4).stderr)
    assert "Saved archive version 1 does not match our current archive version 0." in said


def test_one_of_several_programs(run: Callable, tmp_path: pathlib.Path) -> None:
    want = run("run", str(DIGITS), "ones(1,1,8,8)").stdout
    path = named(tmp_path / "m.pt2", "encoder", "dec.1")
    said = run("run", str(path), "ones(1,1,8,8)", code=2).stderr
    assert (
        "holds 2 programs, 'encoder', 'dec.1', and none of them is 'model'" in said
        and "--program NAME" in said
    )
    assert run("run", str(path), "--program", "dec.1", "ones(1,1,8,8)").stdout == want
    assert (
        "no program 'encode': the package holds 'encoder', 'dec.1'"
        in run("run", str(path), "--program=encode", code=2).stderr
    )
    with pytest.raises(ValueError, match="holds 2 programs"):
        rushlight.load(path)
    with pytest.raises(ValueError, match="no program ''"):
        rushlight.load(path, program="")
    x = rushlight.ops.aten.ones([1, 1, 8, 8])
    expected = rushlight.load(DIGITS)(x).tolist()
    assert rushlight.load(path, program="encoder")(x).tolist() == expected
    assert rushlight.load(path.read_bytes(), program="dec.1")(x).tolist() == expected


def test_show_one_of_several(run: Callable, tmp_path: pathlib.Path) -> None:
    path = str(named(tmp_path / "m.pt2", "encoder", "decoder"))
    summary = run("show", str(DIGITS)).stdout
    for args in (
        ["--program", "encoder", path],
        [path, "--program", "encoder"],
        [path, "--program=encoder"],
    ):
        assert run("show", *args).stdout == summary
    assert json.loads(run("show", path, "--program=encoder", "--program").stdout) == json.loads(
        run("show", str(DIGITS), "--program").stdout
    )
    assert "<html" in run("show", path, "--html", "--program", "decoder").stdout


def test_a_program_called_model_is_what_torch_loads(run: Callable, tmp_path: pathlib.Path) -> None:
    summary = run("show", str(DIGITS)).stdout
    assert run("show", str(named(tmp_path / "m.pt2", "other", "model"))).stdout == summary
    assert run("show", str(named(tmp_path / "m.pt2", "only"))).stdout == summary


def test_what_aotinductor_compiled(run: Callable, tmp_path: pathlib.Path) -> None:
    for path, args in (
        (named(tmp_path / "a.pt2", compiled="fast"), ["--program", "fast"]),
        (named(tmp_path / "b.pt2", compiled="fast"), []),
        (named(tmp_path / "c.pt2", "slow", compiled="fast"), ["--program", "fast"]),
    ):
        said = run("run", str(path), *args, code=4).stderr
        assert (
            "'fast' is an AOTInductor package: machine code" in said and "torch.export.save" in said
        )
    assert "forward" in run("show", str(named(tmp_path / "d.pt2", "slow", compiled="fast"))).stdout


def test_packages_without_a_program(run: Callable, tmp_path: pathlib.Path) -> None:
    assert (
        "the package holds no program" in run("show", str(named(tmp_path / "m.pt2")), code=3).stderr
    )
    for other in (DATA / "digits.pt", DATA.parent / "script" / "programs" / "chains.py"):
        said = run("run", str(other), "--program", "model", code=2).stderr
        assert "program 'model' cannot be chosen: only packages of torch.export" in said


def test_packages_of_torch(run: Callable, tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    package = pytest.importorskip("torch.export.pt2_archive._package")

    class Net(torch.nn.Module):
        def __init__(self, n: int) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, n)
            self.register_buffer("k", torch.tensor(5.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) + self.k + torch.tensor([1.0])

    nets, x = {"encoder": Net(2), "decoder": Net(4)}, torch.rand(5, 3)
    path = str(tmp_path / "m.pt2")
    package.package_pt2(
        path, exported_programs={name: torch.export.export(net, (x,)) for name, net in nets.items()}
    )
    for name, net in nets.items():
        torch.testing.assert_close(rushlight.load(path, program=name)(x), net(x))
