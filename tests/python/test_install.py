"""`pip install .` into a fresh virtual environment, and what it gives: minutes, so only when asked
(make nightly)."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from conftest import TOP

pytestmark = pytest.mark.skipif(
    not os.environ.get("RUSHLIGHT_NIGHTLY"), reason="RUSHLIGHT_NIGHTLY=1 runs it"
)

PROGRAM = """
import sys
import rushlight
model = rushlight.load(sys.argv[1])
x = rushlight.ops.aten.zeros([1, 1, 8, 8])
print(len(model(x).tolist()[0]), "torch" in sys.modules, "numpy" in sys.modules)
"""


def test_installs_without_torch(tmp_path: pathlib.Path, digits: pathlib.Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = str(venv / "bin" / "python")
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", str(TOP)], check=True
    )
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    out = subprocess.run(
        [python, "-c", PROGRAM, str(digits)],
        check=True,
        capture_output=True,
        text=True,
        env=env,
        cwd=tmp_path,
    )
    assert out.stdout.split() == ["10", "False", "False"]
    files = [p.name for p in next(venv.rglob("site-packages/rushlight")).iterdir()]
    assert {"__init__.py", "__init__.pyi", "_rushlight.pyi", "ops.py", "py.typed"} <= set(files)


def test_make_install_goes_to_its_prefix(tmp_path: pathlib.Path, digits: pathlib.Path) -> None:
    """Also when the build was set up with another one."""
    make = [
        "make",
        "-C",
        str(TOP),
        f"BUILD={tmp_path / 'build'}",
        "MESON_ARGS=-Dpython=disabled -Dtests=disabled",
    ]
    subprocess.run(make, check=True)
    for name in ("first", "second"):
        prefix = tmp_path / name
        subprocess.run([*make, "install", f"PREFIX={prefix}"], check=True)
        assert next(prefix.rglob("rushlight.pc")).read_text().startswith(f"prefix={prefix}\n")
        assert (prefix / "share" / "doc" / "rushlight" / "LICENSE").exists()
        out = subprocess.run(
            [str(prefix / "bin" / "rushlight"), "run", str(digits), "zeros(1,1,8,8)"],
            check=True,
            capture_output=True,
            text=True,
        )
        assert "tensor(" in out.stdout


def test_a_wheel_brings_the_command(tmp_path: pathlib.Path) -> None:
    """make wheels for one Python: what it builds is installed into an empty environment and tried
    there."""
    make = ["make", "-C", str(TOP), "wheels", f"PYTHONS=--into {tmp_path} {sys.executable}"]
    out = subprocess.run(make, check=True, capture_output=True, text=True)
    assert "installed and tried" in out.stdout and [path.suffix for path in tmp_path.iterdir()] == [
        ".whl"
    ]
