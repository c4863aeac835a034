"""The stubs name what is there, and nothing else."""

from __future__ import annotations

import ast
import keyword
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import rushlight
from rushlight import _rushlight

FOLDER = pathlib.Path(rushlight.__file__).parent
FROM_OBJECT = set(dir(object)) | {
    "__module__",
    "__weakref__",
    "__getstate__",
    "__slots__",
    "__dict__",
}
# Slots that Python shows under a second name, and what classes of C have besides.
IMPLIED = {"__hash__", "__buffer__", "__release_buffer__", "__vectorcalloffset__"}


def stub(name: str) -> ast.Module:
    return ast.parse((FOLDER / name).read_text())


def names(body: list[ast.stmt]) -> set[str]:
    found = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.ImportFrom) and node.module != "typing":
            found |= {
                alias.asname
                for alias in node.names
                if alias.asname and not re.match("_(?!_)", alias.asname)
            }
    return found


def test_the_package() -> None:
    assert (FOLDER / "py.typed").exists()
    assert names(stub("__init__.pyi").body) == set(rushlight.__all__)


def test_the_extension() -> None:
    there = {name for name in dir(_rushlight) if not name.startswith("__")} | {"__version__"}
    assert names(stub("_rushlight.pyi").body) == there


def test_the_classes() -> None:
    for name in rushlight.__all__:  # parts finish the extension's types
        getattr(rushlight, name)
    for file, module in (("_rushlight.pyi", _rushlight), ("__init__.pyi", rushlight)):
        for node in stub(file).body:
            if not isinstance(node, ast.ClassDef) or node.name in ("Error", "dtype", "EnumValue"):
                continue
            cls = (
                getattr(module, node.name)
                if node.name != "ScriptModule"
                else rushlight.jit.script_module.ScriptModule
            )
            own = {
                name
                for name in vars(cls)
                if name not in FROM_OBJECT | IMPLIED and name not in keyword.kwlist
            }
            said = names(node.body) - FROM_OBJECT
            public = {name for name in own if name.startswith("__") or not name.startswith("_")}
            assert public - said - {"__getattribute__", "__delattr__"} == set(), (
                f"{node.name}: the stub lacks these"
            )
            assert said - own - set(dir(cls)) - {"__getattr__", "__buffer__"} == set(), (
                f"{node.name}: these are not there"
            )


def test_what_it_says_about_types() -> None:
    text = (FOLDER / "__init__.pyi").read_text()
    for node in ast.walk(ast.parse((FOLDER / "__init__.py").read_text())):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            assert f"def {node.name}(" in text
            assert node.returns is not None, f"{node.name} has no annotation"


def test_operators_are_typed() -> None:
    for node in ast.walk(ast.parse(pathlib.Path(rushlight.ops.__file__).read_text())):
        if isinstance(node, ast.FunctionDef):
            assert node.returns is not None, f"{node.name} has no annotation"


USES = """
import pytest

import rushlight
x = rushlight.zeros(2, 3, dtype=rushlight.float64)
y: rushlight.Tensor = rushlight.cat([x, x], dim=0).to("cpu", rushlight.float32)
n: int = x.shape.numel() + x.data_ptr() + x.size(0)
rushlight.max(x, 1).values.relu()
x.sort(0).indices.to(rushlight.int32)
a, b = rushlight.split(x, 1)
k: str | None = x.device.type
x.typo
rushlight.zeroes(2)
x.relu(1, 2, 3)
"""


def test_mypy_knows_methods_and_functions(tmp_path: pathlib.Path) -> None:
    """A misspelt name is an error where it is used, and nothing else is."""
    api = pytest.importorskip("mypy.api")
    (tmp_path / "uses.py").write_text(USES.lstrip("\n"))
    options = [f"--cache-dir={os.devnull}", "--follow-imports=silent"]
    out, _, _ = api.run([*options, str(tmp_path / "uses.py")])
    errors = [
        line.partition("uses.py:")[2]
        for line in out.splitlines()
        if "uses.py:" in line and ": error:" in line
    ]
    assert [int(line.partition(":")[0]) for line in errors] == [11, 12, 13], out
    assert '"Tensor" has no attribute "typo"' in errors[0] and 'no attribute "zeroes"' in errors[1]


STRICT = """
import numpy as np

import rushlight
from rushlight import Tensor


def scores(model: rushlight.ScriptModule, x: Tensor) -> list[float]:
    y: Tensor = model(x)
    eps: float = rushlight.finfo(y.dtype).eps
    top = y.contiguous(memory_format=rushlight.channels_last).max(1)
    flat: list[float] = (top.values + eps).tolist()
    return flat


model = rushlight.load("model.pt")
x = rushlight.as_tensor(np.zeros((2, 3), np.float32))
with rushlight.no_grad(), rushlight.record(model, "calls.pt") as recording:
    found = scores(model, x)
n: int = len(recording) + x.untyped_storage().nbytes() + rushlight.iinfo(rushlight.int8).bits
rushlight.register_dataclass(type(recording), serialized_type_name="a.b")
"""


def test_a_strict_program_has_no_errors(tmp_path: pathlib.Path) -> None:
    api = pytest.importorskip("mypy.api")
    (tmp_path / "strict.py").write_text(STRICT.lstrip("\n"))
    options = ["--strict", f"--cache-dir={os.devnull}", "--follow-imports=silent"]
    out, _, code = api.run([*options, str(tmp_path / "strict.py")])
    assert code == 0, out


def test_mypy_finds_nothing_but_what_is_listed() -> None:
    """The package itself; pyproject.toml lists the exceptions."""
    api = pytest.importorskip("mypy.api")
    config = pathlib.Path(__file__).resolve().parents[2] / "pyproject.toml"
    options = [f"--config-file={config}", f"--cache-dir={os.devnull}", "--no-error-summary"]
    out, error, code = api.run([*options, str(FOLDER)])
    assert code == 0, out + error


def test_mypy_finds_nothing_in_the_generator_of_the_table(tmp_path: pathlib.Path) -> None:
    """Copied first: beside it are tables whose names are those of standard modules (math.py)."""
    api = pytest.importorskip("mypy.api")
    table = pathlib.Path(__file__).resolve().parents[2] / "src/ops/table"
    copies = [str(shutil.copy(path, tmp_path)) for path in sorted(table.glob("gen*.py"))]
    options = ["--python-version=3.10", f"--cache-dir={os.devnull}", "--no-error-summary"]
    out, error, code = api.run([*options, *copies])
    assert copies and code == 0, out + error


CONFIG = """
[mypy]
follow_imports = silent
[mypy-torch.*]
follow_imports = skip
[mypy-rushlight.jit.*,rushlight.ir,rushlight.methods,rushlight.testing,rushlight.torch_graph]
ignore_errors = True
"""
# Names that are made at their first use, or are subclasses of the stub's class.
ALLOWED = r"""
rushlight\.functions\..*
rushlight\.return_types\..*
rushlight\._operators
rushlight\.ops\..*
rushlight\.export\..*
rushlight\.jit\..*
rushlight\.jit
rushlight\.ScriptModule\.(inputs|outputs)
rushlight\.(gradients|signature)\..*
rushlight\._rushlight\.ScriptMethod\.bind_outputs
rushlight\._rushlight\.Tensor\.(__buffer__|norm|randint_like|std|std_mean|to|type|unique|unique_consecutive|var|var_mean|view|view_copy|where)
rushlight\.numerics\.memory_format
"""


def test_stubtest_finds_nothing(tmp_path: pathlib.Path) -> None:
    """The stubs against the modules as they are at run time."""
    stubtest = pytest.importorskip("mypy.stubtest")
    (tmp_path / "mypy.ini").write_text(CONFIG)
    (tmp_path / "allowed").write_text(ALLOWED.lstrip("\n"))
    options = [
        "--concise",
        "--ignore-missing-stub",
        "--ignore-unused-allowlist",
        "--allowlist",
        str(tmp_path / "allowed"),
    ]
    command = [
        sys.executable,
        "-m",
        stubtest.__name__,
        "rushlight",
        *options,
        "--mypy-config-file",
        str(tmp_path / "mypy.ini"),
    ]
    path = str(FOLDER.parent)
    environ = {
        **os.environ,
        "MYPYPATH": path,
        "PYTHONPATH": os.pathsep.join([path, *filter(None, sys.path)]),
    }
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=600, env=environ
    )
    assert done.returncode == 0, done.stdout + done.stderr
