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
static const rush_backend_api *table;
static rush_status none(rush_shape *q, void *user) { (void)q; (void)user; return RUSH_OK; }
static rush_status fails(rush_shape *q, void *user) { (void)q; (void)user; return RUSH_EINTERNAL; }
static rush_status twice(rush_shape *q, void *user)
{
  (void)user;
  (void)table->shape_result(q, 0, RUSH_FLOAT32, 0, 0);
  return table->shape_result(q, 0, RUSH_FLOAT32, 0, 0);
}
static rush_status asks(rush_shape *q, void *user)
{
  const rush_size *n = table->shape_int(q, 7, 0), *m = table->size_calc(q, RUSH_SIZE_DIV, n, table->size_number(q, 0));
  (void)user;
  return table->shape_result(q, 0, RUSH_FLOAT32, 1, &m);
}
static rush_status minus(rush_shape *q, void *user)
{
  const rush_size *n = table->size_number(q, -3);
  (void)user;
  return table->shape_result(q, 0, RUSH_FLOAT32, 1, &n);
}
rush_shape_fn *const all[] = {none, fails, twice, asks, minus};
rush_status %s(const rush_backend_api *api, rush_context *c, rush_error *err);
rush_status %s(const rush_backend_api *api, rush_context *c, rush_error *err)
{
  rush_gradient_def gradients[] = {{"%s", "grad"}};
  rush_op_def def = {.struct_bytes = sizeof def, .schema = "%s", .kernel = kernel, .alias = %s, .shape = %s,
                     .gradients = gradients, .n_gradients = 1, .shape_fn = %s};
  table = api;
  return api->op_register(c, &def, err);
}
"""
GOOD = {"abi": "RUSH_PLUGIN_DECLARE;", "entry": "rush_plugin", "input": "x",
        "schema": "bad::op(Tensor x) -> Tensor",
        "alias": "RUSH_ALIAS_SCHEMA", "shape": "NULL", "function": "0"}  # fmt: skip


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


def test_shape_function(plugin: pathlib.Path) -> None:
    x = rushlight.tensor([1.0, 2.0, 3.0, 4.0, 5.0], rushlight.float32)
    assert rushlight.ops.plug.windows(x, 2, 2).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    found = rushlight.ops.shape("plug::windows", x, 2, 2)
    assert (
        found.rule == "function"
        and found.results[0].sizes == (2, 2)
        and found.results[0].strides == (2, 1)
    )
    found = rushlight.ops.shape("plug::windows", x, 3, symbolic=True)
    assert found.results[0].sizes == (3, 3)
    assert found.results[0].formulas[0] == ["s0 - 2", "3"] and found.guards == ["s0 >= 3"]
    with pytest.raises(RuntimeError, match="windows that do not fit"):
        rushlight.ops.shape("plug::windows", x, 6)
    with pytest.raises(IndexError, match="dimension 0 of a tensor of 0"):
        rushlight.ops.shape("plug::windows", rushlight.tensor(1.0, rushlight.float32), 6)


def test_shape_function_in_a_graph(plugin: pathlib.Path) -> None:
    graph = rushlight.ir.parse_ir(
        "graph(%x : Float(5, strides=[1], requires_grad=0, device=cpu)):\n  %n : int = "
        "prim::Constant[value=2]()\n"
        "  %y : Tensor = plug::windows(%x, %n, %n)\n  return (%y)\n"
    )
    graph.run_pass("propagate_shapes_on_graph")
    assert "Float(2, 2, strides=[2, 1]" in str(graph)


def test_has_a_gradient(plugin: pathlib.Path) -> None:
    (formula,) = rushlight.ops.gradient("plug::cube").values()
    assert formula.takes == ("grad", "x", "scale")
    x = rushlight.tensor([1.0, 2.0, -3.0], rushlight.float32)
    ones = rushlight.tensor([1.0, 1.0, 1.0], rushlight.float32)
    assert formula({"grad": ones, "x": x, "scale": 2.0})[0].tolist() == [6.0, 24.0, 54.0]


def test_twice_is_refused(plugin: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="plug::cube is registered already"):
        rushlight._rushlight.load_plugin(str(plugin))


def built(change: dict[str, str], folder: pathlib.Path) -> pathlib.Path:
    w = GOOD | change
    source, made = folder / "bad.c", folder / "bad.so"
    source.write_text(
        BAD
        % (
            w["abi"],
            w["entry"],
            w["entry"],
            w["input"],
            w["schema"],
            w["alias"],
            w["shape"],
            w["function"],
        )
    )
    top = pathlib.Path(__file__).resolve().parents[2]
    subprocess.run(
        ["cc", "-shared", "-fPIC", f"-I{top / 'include'}", str(source), "-o", str(made)], check=True
    )
    return made


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("none", "does not give result 0"),
        ("fails", "failed without a reason"),
        ("twice", "sets result 0 out of order"),
        ("asks", "asks for int 0 of argument 7: there is none"),
        ("minus", "dimension 0 of result 0 has the size -3"),
    ],
)
def test_shape_functions_that_fail(function: str, message: str, tmp_path: pathlib.Path) -> None:
    rushlight.load_library(
        built({"schema": f"bad::{function}(Tensor x) -> Tensor", "function": function}, tmp_path)
    )
    x = rushlight.tensor([1.0], rushlight.float32)
    for symbolic in (False, True) if function != "minus" else (False,):
        with pytest.raises((ValueError, RuntimeError), match=message):
            rushlight.ops.shape(f"bad::{function}", x, symbolic=symbolic)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"abi": ""}, "does not say which version"),
        (
            {"abi": "extern const uint32_t rush_plugin_abi; const uint32_t rush_plugin_abi = 77;"},
            "built for version 77",
        ),
        (
            {"abi": "RUSH_PLUGIN_DECLARE_BYTES(sizeof(rush_backend_api) + 8);"},
            "newer header: its table has .* bytes, that of rushlight",
        ),
        ({"entry": "other"}, "exports no function rush_plugin"),
        ({"schema": "bad::op(Tensor x -> Tensor"}, "schema|expected"),
        ({"schema": "aten::relu(Tensor x) -> Tensor"}, "aten::relu is registered already"),
        ({"input": "y"}, "'y', which is no argument"),
        ({"shape": '"nonsense"'}, "no shape rule 'nonsense'"),
        (
            {"alias": "RUSH_ALIAS_PURE", "schema": "bad::op(Tensor(a!) x) -> Tensor(a!)"},
            "said to be pure",
        ),
        ({"alias": "(rush_alias_kind)9"}, "9 is no kind"),
        ({"shape": '"itself"', "function": "none"}, "one is enough"),
    ],
)
def test_errors(change: dict[str, str], message: str, tmp_path: pathlib.Path) -> None:
    made = built(change, tmp_path)
    with pytest.raises((ValueError, RuntimeError), match=message):
        rushlight.load_library(made)
    assert str(made) not in rushlight.ops.loaded_libraries


def test_no_file() -> None:
    with pytest.raises((OSError, RuntimeError), match="nowhere"):
        rushlight.load_library("/nowhere/at_all.so")


def test_torch_manners() -> None:
    assert isinstance(rushlight.ops.loaded_libraries, set)
    assert sys.modules["rushlight"].load_library is rushlight.ops.load_library
