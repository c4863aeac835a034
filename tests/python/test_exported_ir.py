"""Text of exported programs both ways: `show --ir` without a loss, parsed by `export --ir` into the
same program; and the text of graphs, as PyTorch prints it.  Fixed points over many programs are
demanded by the fuzz target `export`, which is run here without a fuzzer."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["RUSH_BUILD_DIR"])
COMMAND = BUILD / "cli" / "rushlight"
DATA = TOP / "tests" / "data"
PROGRAMS = sorted((DATA / "exports").glob("*.pt2")) + [DATA / "exported.pt2", DATA / "digits.pt2"]
CORPUS = os.environ.get("RUSHLIGHT_CORPUS")


def run(*args: object, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([COMMAND, *args], capture_output=True, text=True)
    assert code is None or done.returncode == code, done.stderr
    return done


def text_of(path: pathlib.Path) -> str:
    return run("show", "--ir", path).stdout


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_a_text_gives_the_same_file(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    if path.stem == "tokens":
        pytest.skip("an operator of its own, which cannot be lowered")
    text = tmp_path / "program.txt"
    text.write_text(text_of(path))
    run("export", path, "--ir", text, "-o", tmp_path / "parsed.pt2")
    assert text_of(tmp_path / "parsed.pt2") == text.read_text()
    written = pathlib.Path(tmp_path / "written.pt2")
    rushlight = pytest.importorskip("rushlight")
    rushlight.load(path).save(written)
    assert (tmp_path / "parsed.pt2").read_bytes() == written.read_bytes()


def replay(folder: pathlib.Path) -> None:
    done = subprocess.run([BUILD / "fuzz" / "replay", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_texts_are_fixed_points() -> None:
    """The target prints, parses and prints both texts, and compares the JSON of both programs."""
    replay(DATA / "fuzz" / "export")


@pytest.mark.skipif(not CORPUS, reason="no corpus")
def test_texts_of_the_corpus(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    models = sorted(pathlib.Path(CORPUS).glob("*/*/model.pt2"))
    for path in models:
        shutil.copy(path, folder / f"{path.parent.parent.name}_{path.parent.name}.pt2")
    assert models
    said = subprocess.run(
        [BUILD / "fuzz" / "replay", "-v", folder], capture_output=True, text=True, timeout=600
    )
    assert said.returncode == 0, said.stderr[-3000:]
    assert "graph:" not in said.stderr, "every text of a graph can be parsed"


def test_a_changed_text_is_another_program(tmp_path: pathlib.Path) -> None:
    path = DATA / "exports" / "from_bytecode.pt2"
    text = text_of(path)
    assert "aten.relu.default" in text
    changed = tmp_path / "changed.txt"
    changed.write_text(text.replace("aten.relu.default", "aten.neg.default"))
    made = tmp_path / "changed.pt2"
    run("export", path, "--ir", changed, "-o", made)
    assert "aten.neg.default" in run("show", made, "--fx").stdout
    result = json.loads(run("run", made, "ones(3,4)", "--json").stdout)
    assert "0" in json.dumps(result)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema 8", "schema eight", r"2:10: expected an int of 64 bits, found 'eight'"),
        ("schema 8", "schema 99999999999999999999", r"2:10: expected an int of 64 bits"),
        ("(%args_0)", "(%nothing)", r"\d+:\d+: there is no value 'nothing' before this"),
        ("%add = ", "%relu = ", r"\d+:\d+: a second value 'relu'"),
        ("tensor float32", "tensor float33", r"\d+:\d+: expected a dtype, found 'float33'"),
        ('"cpu"', '"cpu', r"\d+:\d+: "),
        ("meta {", "meta {a", r"\d+:\d+: "),
        ("= output", "= return", r"expected placeholder, get_attr, call or output"),
        ("input user", "input looser", r"expected a kind of input"),
        ("output user", "output looser", r"expected a kind of output"),
        ("graph {", "graph {{", r"expected '}'|expected"),
        ('exported_program "model"', 'exported_program "other"', r"the program 'other'"),
    ],
)
def test_errors_tell_line_and_column(
    tmp_path: pathlib.Path, old: str, new: str, message: str
) -> None:
    path = DATA / "exports" / "from_bytecode.pt2"
    text = text_of(path)
    assert old in text
    (tmp_path / "wrong.txt").write_text(text.replace(old, new, 1))
    done = run("export", path, "--ir", tmp_path / "wrong.txt", "-o", tmp_path / "x.pt2", code=None)
    assert done.returncode not in (0, 70)
    assert re.search(r"wrong\.txt:.*(" + message + ")", done.stderr), done.stderr


@pytest.mark.parametrize("what", ["[", "(", '{"a": '])
def test_nesting_is_bounded(tmp_path: pathlib.Path, what: str) -> None:
    path = DATA / "exports" / "from_bytecode.pt2"
    text = text_of(path).replace("(%args_0)", "(" + what * 100000, 1)
    (tmp_path / "deep.txt").write_text(text)
    done = run("export", path, "--ir", tmp_path / "deep.txt", "-o", tmp_path / "x.pt2", code=5)
    assert "nested too deep" in done.stderr


def test_torchscript_has_no_such_text() -> None:
    assert "no exported program" in run("show", "--ir", DATA / "life.pt", code=2).stderr
