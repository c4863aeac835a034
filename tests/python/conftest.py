"""What every test here shares.  The built package is on PYTHONPATH (tools/run_tests.py puts it
there)."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
DATA = TOP / "tests" / "data"
SHARED = pathlib.Path(
    os.environ.get("RUSHLIGHT_SHARED", TOP.parent / "shared")
)  # probes, the corpus' maker


def import_file(path: pathlib.Path, name: str = "") -> ModuleType:
    """Import that file, whatever sys.path is.  It stays in sys.modules: inspect looks for
    a class's file there."""
    spec = importlib.util.spec_from_file_location(name or path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def ordinary_grad_mode() -> Iterator[None]:
    """A program that switches PyTorch's grad mode in its tasks may leave it switched: not for the
    next test."""
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


@pytest.fixture
def run(command: str) -> Callable[..., subprocess.CompletedProcess]:
    """run(*arguments, code=0): the command, whose exit code has to be that."""

    def go(*args: str, code: int = 0) -> subprocess.CompletedProcess:
        done = subprocess.run([command, *args], capture_output=True, text=True, timeout=120)
        assert done.returncode == code, f"exit code {done.returncode}: {done.stdout}{done.stderr}"
        return done

    return go


@pytest.fixture(scope="session")
def corpus_tools() -> pathlib.Path:
    """The folder of make.py and casefile.py."""
    pytest.importorskip("torch")
    if not (SHARED / "corpus" / "make.py").exists():
        pytest.skip(f"the corpus: no {SHARED.name}/corpus beside the project (or RUSHLIGHT_SHARED)")
    return SHARED / "corpus"


@pytest.fixture(scope="session")
def corpus(build: pathlib.Path, corpus_tools: pathlib.Path) -> pathlib.Path:
    if os.environ.get("RUSHLIGHT_CORPUS"):
        return pathlib.Path(os.environ["RUSHLIGHT_CORPUS"])
    out = build / "corpus"
    jobs = str(min(os.cpu_count() or 1, 8))
    made = subprocess.run(
        [sys.executable, str(corpus_tools / "make.py"), str(out), "--jobs", jobs],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    return out


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A long text is named by its argument: names of tests go into the environment, which has no
    room for a megabyte."""
    return argname if isinstance(val, str | bytes) and len(val) > 200 else None
