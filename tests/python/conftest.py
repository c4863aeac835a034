"""What every test here shares.  The built package is on PYTHONPATH (tools/run_tests.py puts it there)."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
DATA = TOP / "tests" / "data"


@pytest.fixture(autouse=True)
def ordinary_grad_mode() -> Iterator[None]:
    """A program that switches PyTorch's grad mode in its tasks may leave it switched: not for the next test."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_grad_enabled(True)


@pytest.fixture
def digits() -> pathlib.Path:
    return DATA / "digits.pt"


@pytest.fixture(scope="session")
def build() -> pathlib.Path:
    """The build directory under test."""
    return pathlib.Path(os.environ.get("RUSH_BUILD_DIR", TOP / "build")).resolve()


@pytest.fixture(scope="session")
def command(build: pathlib.Path) -> str:
    """The `rushlight` command."""
    path = build / "cli" / "rushlight"
    if not path.exists():
        pytest.skip("the command was not built")
    return str(path)


@pytest.fixture(scope="session")
def corpus_tools() -> pathlib.Path:
    """The folder of make.py and casefile.py."""
    pytest.importorskip("torch")
    shared = pathlib.Path(os.environ.get("RUSHLIGHT_SHARED", TOP.parent / "shared"))
    if not (shared / "corpus" / "make.py").exists():
        pytest.skip(f"the corpus: no {shared.name}/corpus beside the project (or RUSHLIGHT_SHARED)")
    return shared / "corpus"
