"""The documentation's examples: programs are built and run, Python is run, commands are run or
known to the Makefile."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from conftest import TOP

PAGES = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(
    r"`((?:src|docs|tests|examples|tools|include|cli|python|packaging|bench)/[\w./*-]*)`"
)


def blocks(language: str) -> list:
    found = []
    for page in PAGES:
        for n, match in enumerate(m for m in BLOCK.finditer(page.read_text()) if m[1] == language):
            found.append(pytest.param(match[2], id=f"{page.name}-{n + 1}"))
    return found


@pytest.mark.parametrize("text", blocks("c"))
def test_c(text: str, build: pathlib.Path, tmp_path: pathlib.Path) -> None:
    if "int main(" not in text:
        pytest.skip("a fragment")
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    (tmp_path / "program.c").write_text(text)
    library = build / "packaging"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", f"-I{TOP}/include",
             f"-L{library}", f"-Wl,-rpath,{library}", "-lrushlight", "-pthread"]  # fmt: skip
    program = tmp_path / "program"
    subprocess.run([compiler, str(tmp_path / "program.c"), *flags, "-o", str(program)], check=True)
    done = subprocess.run([str(program)], cwd=TOP, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("text", blocks("python"))
def test_python(text: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("numpy")
    if text.startswith("op("):
        pytest.skip("an entry of the operator table")
    if "import torch" in text:
        pytest.importorskip("torch")
    (tmp_path / "example.py").write_text(text)  # what is scripted is read from its file
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "example.py")],
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=120,
        env=environ,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", blocks("sh"))
def test_commands(text: str, command: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", (TOP / "Makefile").read_text(), re.M))
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            assert all(word in targets for word in words[1:2] if "=" not in word), line
        elif words[:1] == ["cc"] and "pkg-config" not in line:
            if not shutil.which("cc"):
                pytest.skip("no cc")
            done = subprocess.run(words, cwd=TOP, capture_output=True, text=True, timeout=200)
            assert done.returncode == 0, f"{line}\n{done.stderr}"
        elif words and words[0].endswith("rushlight"):
            done = subprocess.run(
                [command, *words[1:]], cwd=TOP, capture_output=True, text=True, timeout=200
            )
            assert done.returncode == 0, f"{line}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_exist(page: pathlib.Path) -> None:
    missing = [
        name
        for name in LINK.findall(page.read_text())
        if "<" not in name and not list(TOP.glob(name.rstrip("/")))
    ]
    assert not missing


def test_status_is_generated(tmp_path: pathlib.Path) -> None:
    status = TOP / "docs" / "status.md"
    out = tmp_path / "status.md"
    out.write_text(status.read_text())  # what was measured is kept from there
    subprocess.run(
        [sys.executable, str(TOP / "tools" / "make_status.py"), "--out", str(out)], check=True
    )
    assert out.read_text() == status.read_text(), "older than the operator table: make status"


PROOF = re.compile(r"`(test_\w+\.py|\w+/test_\w+\.c)::(\w+)`")


CLAIMS = {"executors_pytorch.md": ("capability", 60), "export.md": ("sentence", 50)}


def claims(page: str, first: str) -> list[list[str]]:
    """The rows of the tables whose first column is called that."""
    rows = [[cell.strip() for cell in row.split("|")[1:4]] for row in page.splitlines()]
    rows = [row if len(row) == 3 else [] for row in rows]
    kept, is_claim = [], False
    for before, row in zip([[], *rows], rows, strict=False):
        is_claim = bool(row) and (is_claim if before else row[0] == first)
        if is_claim and row[0] != first and not row[0].startswith("---"):
            kept.append(row)
    return kept


@pytest.mark.parametrize("name", CLAIMS)
def test_tests_named_exist(name: str) -> None:
    """What these pages claim is proven, or says why not."""
    page = (TOP / "docs" / name).read_text()
    for file, test in PROOF.findall(page):
        path = TOP / "tests" / ("python" if file.endswith(".py") else "") / file
        assert path.exists(), file
        text = path.read_text()
        found = rf"^def {test}\(" if file.endswith(".py") else rf"^static void {test}\("
        assert re.search(found, text, re.M), f"{file}::{test}"
    first, fewest = CLAIMS[name]
    rows = claims(page, first)
    for what, here, proof in rows:
        named = PROOF.search(proof) or "tests/passes/" in proof
        assert named or ": because" in here or "never asserted" in here, what
    assert len(rows) > fewest
