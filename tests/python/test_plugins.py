"""Operators from shared objects: rushlight.load_library, their shapes, gradients and errors."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
import rushlight

USE = """
def f(x):
    return torch.ops.plug.cube(x, 2.0)
"""
BAD = """
#include <rushlight/backend.h>
%s
static rush_status kernel(rush_call *call) { (void)call; return RUSH_OK; }
rush_status %s(const rush_backend_api *api, rush_context *c, rush_error *err);
rush_status %s(const rush_backend_api *api, rush_context *c, rush_error *err)
{
  rush_gradient_def gradients[] = {{"%s", "grad"}};
  rush_op_def def = {.struct_bytes = sizeof def, .schema = "%s", .kernel = kernel, .alias = %s, .shape = %s,
                     .gradients = gradients, .n_gradients = 1};
  return api->op_register(c, &def, err);
}
"""
GOOD = {"abi": "RUSH_PLUGIN_DECLARE;", "entry": "rush_plugin", "input": "x", "schema": "bad::op(Tensor x) -> Tensor",
        "alias": "RUSH_ALIAS_SCHEMA", "shape": "NULL"}  # fmt: skip


@pytest.fixture
def plugin(build: pathlib.Path) -> pathlib.Path:
    path = build / "examples" / "plugin_op.so"
    if not path.exists():
        pytest.skip("the examples were not built")
    rushlight.load_library(path)
    return path


def test_runs_and_has_a_shape(plugin: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert str(plugin.resolve()) in rushlight.ops.loaded_libraries
    rushlight.ops.load_library(str(plugin))  # again: nothing happens
    x = rushlight.tensor([1.0, 2.0, -3.0], rushlight.float32)
    assert rushlight.ops.plug.cube(x).tolist() == [1.0, 8.0, -27.0]
    path = tmp_path / "use.py"
    path.write_text("import torch\n" + USE)
    assert rushlight.load(str(path)).f(x).tolist() == [2.0, 16.0, -54.0]
    found = rushlight.ops.shape("plug::cube", x)
    assert found.results[0].sizes == (3,)
    assert found.rule == "pointwise"


def test_has_a_gradient(plugin: pathlib.Path) -> None:
    (formula,) = rushlight.ops.gradient("plug::cube").values()
    assert formula.takes == ("grad", "x", "scale")
    x = rushlight.tensor([1.0, 2.0, -3.0], rushlight.float32)
    ones = rushlight.tensor([1.0, 1.0, 1.0], rushlight.float32)
    assert formula({"grad": ones, "x": x, "scale": 2.0})[0].tolist() == [6.0, 24.0, 54.0]


def test_twice_is_refused(plugin: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="plug::cube is registered already"):
        rushlight._rushlight.load_plugin(str(plugin))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"abi": ""}, "does not say which version"),
        ({"abi": "extern const uint32_t rush_plugin_abi; const uint32_t rush_plugin_abi = 77;"}, "built for version 77"),
        ({"entry": "other"}, "exports no function rush_plugin"),
        ({"schema": "bad::op(Tensor x -> Tensor"}, "schema|expected"),
        ({"schema": "aten::relu(Tensor x) -> Tensor"}, "aten::relu is registered already"),
        ({"input": "y"}, "'y', which is no argument"),
        ({"shape": '"nonsense"'}, "no shape rule 'nonsense'"),
        ({"alias": "RUSH_ALIAS_PURE", "schema": "bad::op(Tensor(a!) x) -> Tensor(a!)"}, "said to be pure"),
        ({"alias": "(rush_alias_kind)9"}, "9 is no kind"),
    ],
)
def test_errors(change: dict[str, str], message: str, tmp_path: pathlib.Path) -> None:
    w = GOOD | change
    source, made = tmp_path / "bad.c", tmp_path / "bad.so"
    source.write_text(BAD % (w["abi"], w["entry"], w["entry"], w["input"], w["schema"], w["alias"], w["shape"]))
    top = pathlib.Path(__file__).resolve().parents[2]
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{top / 'include'}", str(source), "-o", str(made)], check=True)
    with pytest.raises((ValueError, RuntimeError), match=message):
        rushlight.load_library(made)
    assert str(made) not in rushlight.ops.loaded_libraries


def test_no_file() -> None:
    with pytest.raises((OSError, RuntimeError), match="nowhere"):
        rushlight.load_library("/nowhere/at_all.so")


def test_torch_manners() -> None:
    assert isinstance(rushlight.ops.loaded_libraries, set)
    assert sys.modules["rushlight"].load_library is rushlight.ops.load_library
