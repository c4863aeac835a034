"""The text that specifies Export IR, sentence by sentence (docs/export.md): what holds here, and
what PyTorch 2.13 does in another way."""

from __future__ import annotations

import ast
import json
import os
import pathlib
import re
import subprocess
import zipfile
from typing import Any

import pytest
import rushlight
from test_exports_that_lie import args, kwargs, program, tree

PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "data" / "exports"
COMMAND = pathlib.Path(os.environ["RUSH_BUILD_DIR"]) / "cli" / "rushlight"
EACH = pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.pt2")), ids=lambda p: p.stem)
LINE = re.compile(
    r"%(\w+)( : \[num_users=\d+\])? = (placeholder|get_attr|call_function)\[target=([\w.]+)\]"
)


def shown(path: pathlib.Path, *options: str) -> str:
    done = subprocess.run([COMMAND, "show", *options, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def nodes(text: str) -> list[tuple[str, str, str]]:
    """Name, op and target of the nodes in the text of a graph, without the output."""
    lines = [line.strip() for line in text.rstrip("\n").split("\n")]
    assert lines[0] == "graph():" and lines[-1].startswith("return")
    found = [LINE.match(line) for line in lines[1:-1]]
    assert all(found), text
    return [(m[1], m[3], m[4]) for m in found if m]


def model(path: pathlib.Path) -> Any:
    with zipfile.ZipFile(path) as z:
        return json.loads(z.read("m/models/model.json"))


# -- What holds --


@EACH
def test_a_graph_is_a_list_of_nodes(path: pathlib.Path) -> None:
    """Inputs come first, then calls and the graphs that they are given, at last what returns."""
    ops = [op for _, op, _ in nodes(shown(path, "--fx-graph"))]
    assert ops == sorted(ops, key=lambda op: op != "placeholder")
    names = [name for name, _, _ in nodes(shown(path, "--fx-graph"))]
    assert len(names) == len(set(names))


@EACH
def test_get_attr_reads_graphs(path: pathlib.Path) -> None:
    inner = shown(path, "--fx").count("torch.nn.Module):")
    read = {target for _, op, target in nodes(shown(path, "--fx-graph")) if op == "get_attr"}
    assert len(read) < inner


@EACH
def test_the_code_is_python(path: pathlib.Path) -> None:
    code = shown(path, "--fx-code")
    assert isinstance(ast.parse(code).body[-1], ast.FunctionDef)


@EACH
def test_the_rank_is_known(path: pathlib.Path) -> None:
    for value in model(path)["graph_module"]["graph"]["tensor_values"].values():
        assert {*value} >= {"dtype", "sizes", "device", "strides"}
        assert all({*size} <= {"as_int", "as_expr"} for size in value["sizes"])


def test_the_smallest_graph_has_one_node(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "least.pt2"
    nothing = program((), (), (), args(args(), kwargs()), tree("tuple", None), names=())
    path.write_bytes(nothing)
    assert nodes(shown(path, "--fx-graph")) == []
    assert rushlight.load(path)() == ()


def test_state_is_lifted_to_inputs() -> None:
    text = shown(PROGRAMS / "state.pt2", "--fx")
    assert "p_embedding_weight: PARAMETER target='embedding.weight'" in text
    assert "b_scratch: BUFFER target='scratch' persistent=False" in text
    module = rushlight.load(PROGRAMS / "state.pt2")
    assert "embedding.weight" in dict(module.named_parameters())


def test_mutation_is_named_by_the_signature() -> None:
    text = shown(PROGRAMS / "mutation_named.pt2", "--fx")
    assert "BUFFER_MUTATION target='b'" in text and "USER_INPUT_MUTATION" in text


def test_constants_are_in_the_graph() -> None:
    text = shown(PROGRAMS / "constant_results.pt2", "--fx-graph")
    assert text.rstrip().endswith("3, 2.5, None, True)")


def test_operators_with_several_results() -> None:
    values = model(PROGRAMS / "several_results.pt2")["graph_module"]["graph"]["nodes"]
    topk = next(n for n in values if n["target"] == "torch.ops.aten.topk.default")
    assert len(topk["outputs"]) == 2 and all("as_tensor" in o for o in topk["outputs"])


def test_symbols_have_ranges() -> None:
    assert re.search(
        r"Range constraints: \{s\d+: VR\[2, int_oo\]",
        shown(PROGRAMS / "constant_results.pt2", "--fx"),
    )


# -- What PyTorch 2.13 does in another way --


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def module(torch: Any, code: Any) -> Any:
    class Code(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: Any, k: int = 3) -> Any:
            return code(self, x, k)

    return Code()


def exported(torch: Any, code: Any, **options: Any) -> Any:
    return torch.export.export(module(torch, code), (torch.ones(3, 4),), **options)


def test_training_ir_is_not_functional(torch: Any) -> None:
    p = exported(torch, lambda m, x, k: x.clone().add_(1))
    assert "torch.ops.aten.add_.Tensor" in str(p.graph) and p.verifiers[0].dialect == "TRAINING"
    p = p.run_decompositions()
    assert "add_" not in str(p.graph) and p.verifiers[0].dialect == "ATEN"


def test_the_text_of_a_graph(torch: Any) -> None:
    """Inputs have no `args`, the output is `return (add,)`, names are those of the author."""
    assert str(exported(torch, lambda m, x, k: x + 1).graph).split("\n    ")[3:] == [
        "%x : [num_users=1] = placeholder[target=x]",
        "%add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor]"
        "(args = (%x, 1), kwargs = {})",
        "return (add,)",
    ]


def test_inputs_have_no_defaults(torch: Any) -> None:
    graph = exported(torch, lambda m, x, k: x + k).graph
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    assert [n.args for n in inputs] == [()] * 3 and inputs[-1].name == "x"


def test_metadata_of_nodes(torch: Any) -> None:
    """source_fn_stack comes from strict export only; torch_fn is new; the output has none."""
    strictly = exported(torch, lambda m, x, k: m.linear(x), strict=True).graph
    loosely = exported(torch, lambda m, x, k: m.linear(x)).graph
    keys = [{*n.meta} for g in (strictly, loosely) for n in g.nodes if n.op == "call_function"]
    assert "source_fn_stack" in keys[0] and "source_fn_stack" not in keys[1]
    assert all(k >= {"val", "stack_trace", "nn_module_stack", "torch_fn"} for k in keys)
    assert [{*n.meta} for n in loosely.nodes if n.op == "output"] == [set()]


def test_the_stack_of_modules_has_names_of_classes(torch: Any) -> None:
    graph = exported(torch, lambda m, x, k: m.linear(x)).graph
    linear = next(n for n in graph.nodes if n.op == "call_function")
    stack = list(linear.meta["nn_module_stack"].values())
    assert stack[-1] == ("linear", "torch.nn.modules.linear.Linear")


def test_numbers_are_symbols_of_three_kinds(torch: Any) -> None:
    """s77 of sizes, u0 of data; ints, floats and bools; ranges of expressions, too."""
    rows = torch.export.Dim("rows", max=40)

    def code(m: Any, x: Any, k: int) -> Any:
        item = x.sum().item()
        return x * (x.shape[0] ** 0.5), torch.zeros(1) + item

    shapes = {"x": {0: 3 * rows}}
    p = torch.export.export(module(torch, code), (torch.ones(6, 4),), dynamic_shapes=shapes)
    kinds = {type(n.meta.get("val")).__name__ for n in p.graph.nodes}
    assert {"SymInt", "SymFloat", "FakeTensor"} <= kinds
    keys = [str(k) for k in p.range_constraints]
    assert any(re.fullmatch(r"3\*s\d+", k) for k in keys)
    assert {type(v).__name__ for v in p.range_constraints.values()} == {"ValueRanges"}


def test_a_fake_tensor_has_strides(torch: Any) -> None:
    p = exported(torch, lambda m, x, k: x.t())
    (value,) = [n.meta["val"] for n in p.graph.nodes if n.op == "call_function"]
    assert value.stride() == (1, 4)
    assert repr(value) == "FakeTensor(..., size=(4, 3))"
    whole = torch.export.export(module(torch, lambda m, x, k: x + 1), (torch.ones(2).int(),))
    (value,) = [n.meta["val"] for n in whole.graph.nodes if n.op == "call_function"]
    assert repr(value) == "FakeTensor(..., size=(2,), dtype=torch.int32)"


def test_known_numbers_have_no_node(torch: Any) -> None:
    p = exported(torch, lambda m, x, k: x * torch.ops.aten.sym_size.int(x, 0))
    assert "sym_size" not in str(p.graph) and "(%x, 3)" in str(p.graph)


def test_cond_today(torch: Any) -> None:
    """torch.cond; its result is a tuple; the operands keep the container that the author gave."""

    def code(m: Any, x: Any, k: int) -> Any:
        return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))

    text = str(exported(torch, code).graph)
    assert "target=torch.ops.higher_order.cond](args = (%gt, %true_graph_0, %false_graph_0" in text
    assert text.endswith("return (getitem,)")
