"""rushlight.export: exported programs as data, with torch.export's names and texts."""

from __future__ import annotations

import copy
import io
import json
import pathlib
import random
import subprocess
import sys
import warnings
import zipfile
from typing import Any

import pytest
import rushlight
from conftest import DATA
from rushlight import export

try:
    import exported_programs
    import torch
except ImportError:
    NAMES: list[str] = []
else:
    NAMES = exported_programs.NAMES

# -- With PyTorch: what torch.export.load finds in the same file --


def number(stride: Any) -> Any:
    """A stride's value in the example: torch.export.load simplifies Min(16, 16*s0) by the range of
    s0, and a program that is read keeps what the file says."""
    node = getattr(stride, "node", None)
    return stride if node is None or node.hint is None else node.hint


def plain(value: Any) -> Any:
    """A value as text that PyTorch's and ours have in common."""
    if isinstance(value, (list, tuple)) and not isinstance(value, rushlight.dtype):
        return [isinstance(value, tuple), *map(plain, value)]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (export.values.FakeTensor, torch.Tensor)):
        return (  # not the offset: torch.export.load forgets it
            plain(value.shape),
            plain(tuple(map(number, value.stride()))),
            plain(value.dtype),
            plain(value.layout),
            str(value.device),
            value.requires_grad,
        )
    symbolic = (export.values.SymInt, export.values.SymFloat, export.values.SymBool)
    if isinstance(value, (*symbolic, torch.SymInt, torch.SymFloat, torch.SymBool)):
        hint = value.node.hint
        return (type(value).__name__, str(value), str(value.node.expr), str(hint))
    if callable(value) and not isinstance(value, type):  # an address is in the text of some
        return getattr(value, "__name__", str(value))
    return str(value).replace("rushlight.", "torch.")


def target(value: Any) -> Any:
    if hasattr(value, "_overloadname"):
        return str(value), repr(value), value.name(), value.__name__
    return str(value) if isinstance(value, str) else (value.__name__, value.__module__)


def check_nodes(ours: Any, theirs: Any) -> None:
    assert len(ours.nodes) == len(theirs.nodes)
    assert str(ours) == str(theirs)
    for a, b in zip(ours.nodes, theirs.nodes, strict=True):
        where = f"{b.op} {b.name}"
        assert (a.op, a.name, repr(a)) == (b.op, b.name, repr(b))
        assert target(a.target) == target(b.target), where
        assert plain(a.args) == plain(b.args), where
        assert plain(a.kwargs) == plain(b.kwargs), where
        assert [n.name for n in a.users] == [n.name for n in b.users], where
        assert [n.name for n in a.all_input_nodes] == [n.name for n in b.all_input_nodes], where
        assert (a.next.name if a.next else "") == (b.next.name if b.op != "output" else "")
        assert set(a.meta) == set(b.meta), where
        for key in b.meta:
            if key == "source_fn_stack":  # torch has functions
                assert [name for name, _ in a.meta[key]] == [name for name, _ in b.meta[key]]
            else:
                assert plain(a.meta[key]) == plain(b.meta[key]), (where, key)


def same(a: Any, b: Any) -> bool:
    """True if the tensors are equal, bit by bit."""
    return (
        (a.dtype, a.shape, a.stride(), a.requires_grad)
        == (b.dtype, b.shape, b.stride(), b.requires_grad)
        and type(a) is type(b)
        and torch.allclose(a.detach(), b.detach(), 0, 0, equal_nan=True)
    )


SIGNATURE = (
    "parameters buffers non_persistent_buffers lifted_tensor_constants lifted_custom_objs "
    "user_inputs user_outputs inputs_to_parameters inputs_to_buffers buffers_to_mutate "
    "parameters_to_mutate user_inputs_to_mutate inputs_to_lifted_tensor_constants "
    "inputs_to_lifted_custom_objs backward_signature assertion_dep_token input_tokens "
    "output_tokens"
).split()


def check(path: pathlib.Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = export.load(path), torch.export.load(path)
    assert str(ours) == str(theirs)
    assert ours.dialect == theirs.dialect
    assert ours._guards_code == theirs._guards_code
    assert str(ours.range_constraints) == str(theirs.range_constraints)
    a, b = ours.graph_signature, theirs.graph_signature
    assert str(a) == str(b) and repr(a) == repr(b)
    for name in SIGNATURE:
        assert str(getattr(a, name)) == str(getattr(b, name)), name
    assert repr(ours.module_call_graph) == repr(theirs.module_call_graph)
    assert repr(ours.call_spec) == repr(theirs.call_spec)
    modules = dict(theirs.graph_module.named_modules())
    found = dict(ours.graph_module.named_modules())
    assert set(found) == {n for n, m in modules.items() if isinstance(m, torch.fx.GraphModule)}
    for name, module in found.items():
        check_nodes(module.graph, modules[name].graph)
        assert module.code == modules[name].code
        text = modules[name].print_readable(print_output=False)
        assert module.print_readable(print_output=False) == text
    for part in ("state_dict", "constants"):
        a, b = getattr(ours, part), getattr(theirs, part)
        assert list(a) == list(b)
        tensors = [name for name in b if isinstance(b[name], torch.Tensor)]
        assert all(same(a[name], b[name]) for name in tensors), part
    for part in ("named_parameters", "named_buffers"):
        pairs = zip(getattr(ours, part)(), getattr(theirs, part)(), strict=True)
        assert all(a == b and same(x, y) for (a, x), (b, y) in pairs)
    assert plain(ours.example_inputs) == plain(theirs.example_inputs)


@pytest.mark.parametrize("name", NAMES)
def test_as_pytorch(name: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"{name}.pt2"
    torch.export.save(exported_programs.make(name), path)
    check(path)


@pytest.mark.skipif(not NAMES, reason="needs torch")
def test_the_corpus(corpus: pathlib.Path) -> None:
    found = sorted(corpus.rglob("model.pt2"))
    assert found
    for path in found:
        check(path)


# -- Without PyTorch --

ROWS = """\
placeholder p_linear_weight p_linear_weight () {}
placeholder p_linear_bias p_linear_bias () {}
placeholder b_calls b_calls () {}
placeholder c_scale c_scale () {}
placeholder x x () {}
placeholder shift shift () {}
placeholder name name () {}
call_function sym_size_int_1 aten.sym_size.int (x, 0) {}
call_function add_ aten.add_.Tensor (b_calls, 1) {}
call_function linear aten.linear.default (x, p_linear_weight, p_linear_bias) {}
call_function mul aten.mul.Tensor (linear, c_scale) {}
call_function div aten.div.Tensor (mul, sym_size_int_1) {}
call_function sum_1 aten.sum.default (div,) {}
call_function gt aten.gt.Scalar (sum_1, 0) {}
get_attr true_graph_0 true_graph_0 () {}
get_attr false_graph_0 false_graph_0 () {}
call_function cond cond (gt, true_graph_0, false_graph_0, [div, shift]) {}
call_function getitem <built-in function getitem> (cond, 0) {}
call_function mul_1 aten.mul.Tensor (getitem, 2) {}
call_function cat aten.cat.default ([getitem, mul_1],) {}
call_function split aten.split.Tensor (cat, 1, 1) {}
call_function getitem_1 <built-in function getitem> (split, 0) {}
call_function getitem_2 <built-in function getitem> (split, 1) {}
call_function getitem_3 <built-in function getitem> (split, 2) {}
call_function reshape aten.reshape.default (getitem_1, [-1]) {}
call_function topk aten.topk.default (reshape, 2) {}
call_function getitem_4 <built-in function getitem> (topk, 0) {}
call_function getitem_5 <built-in function getitem> (topk, 1) {}
call_function _assert_tensor_metadata_default aten._assert_tensor_metadata.default (getitem_2,) \
{'dtype': rushlight.float32, 'device': device(type='cpu'), 'layout': rushlight.strided}
call_function to aten.to.dtype (getitem_2, rushlight.float16) {}
call_function mul_2 <built-in function mul> (2, sym_size_int_1) {}
call_function add <built-in function add> (mul_2, 1) {}
call_function copy__default aten.copy_.default (b_calls, add_) {}
output output output ((getitem_1, to, add, getitem_4),) {}
"""

SIGNATURE_TEXT = """
# inputs
p_linear_weight: PARAMETER target='linear.weight'
p_linear_bias: PARAMETER target='linear.bias'
b_calls: BUFFER target='calls' persistent=True
c_scale: CONSTANT_TENSOR target='scale'
x: USER_INPUT
shift: USER_INPUT
name: USER_INPUT

# outputs
getitem_1: USER_OUTPUT
to: USER_OUTPUT
add: USER_OUTPUT
getitem_4: USER_OUTPUT
"""


@pytest.fixture
def program() -> export.ExportedProgram:
    return export.load(DATA / "exported.pt2")


def test_texts(program: export.ExportedProgram) -> None:
    assert str(program) == (DATA / "exported.txt").read_text()
    assert str(program.graph_signature) == SIGNATURE_TEXT
    assert str(program.range_constraints) == "{s77: VR[2, 64]}"
    nodes = program.graph.nodes
    assert "".join(f"{n.op} {n} {n.target} {n.args} {n.kwargs}\n" for n in nodes) == ROWS
    assert str(program.graph).splitlines()[-1].strip() == nodes[-1].format_node()
    assert program.graph_module.true_graph_0.code.strip().startswith("def forward(self, div, shift")
    assert program.dialect == program.verifier.dialect == "TRAINING"


def test_values(program: export.ExportedProgram) -> None:
    nodes = {n.name: n for n in program.graph.nodes}
    val = nodes["cat"].meta["val"]
    assert repr(val) == "FakeTensor(..., size=(2*s77, 3))"
    assert (int(val.shape[0]), val.shape[1], val.dim(), val.numel()) == (6, 3, 2, 18)
    assert val.dtype is rushlight.float32 and val.stride() == (3, 1) and val.device == "cpu"
    assert nodes["topk"].meta["val"][1].dtype is rushlight.int64
    assert nodes["name"].meta["val"] == "it's"
    rows = nodes["add"].meta["val"]
    assert isinstance(rows, export.values.SymInt) and str(rows) == "2*s77 + 1" and int(rows) == 7
    assert rows == nodes["add"].meta["val"] != nodes["mul_2"].meta["val"]
    assert program.range_constraints["s77"].upper == 64  # type: ignore[index]
    assert 2 in program.range_constraints[export.values.Expression("s77")]


def test_nodes(program: export.ExportedProgram) -> None:
    graph = program.graph
    nodes = {n.name: n for n in graph.nodes}
    linear = nodes["linear"]
    assert linear.target == rushlight.ops.aten.linear.default
    assert linear.target.name() == "aten::linear" and linear.target.schema.startswith(
        "aten::linear("
    )
    assert repr(linear.target) == "<OpOverload(op='aten.linear', overload='default')>"
    assert linear.all_input_nodes == [nodes["x"], nodes["p_linear_weight"], nodes["p_linear_bias"]]
    assert list(linear.users) == [nodes["mul"]] and linear.next is nodes["mul"]
    assert "make_fixtures.py" in linear.stack_trace
    assert list(linear.meta["nn_module_stack"].values())[-1][0] == "linear"
    assert graph.find_nodes(op="call_function", target=linear.target) == [linear]
    assert len(graph.find_nodes(op="placeholder")) == 7
    assert graph.output_node().op == "output"


def test_a_program_cannot_be_changed(program: export.ExportedProgram) -> None:
    node = program.graph.find_nodes(op="call_function")[-1]
    with pytest.raises(NotImplementedError, match="cannot be changed"):
        node.args = ()
    cat = next(n for n in program.graph.nodes if n.name == "cat")
    with pytest.raises(NotImplementedError, match="does not support mutation"):
        cat.args[0].append(cat)
    for name in ("graph", "graph_module", "state_dict", "constants", "verifier", "call_spec"):
        with pytest.raises(RuntimeError, match=f"Unable to set ExportedProgram's {name} attribute"):
            setattr(program, name, None)
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        program()
    with pytest.raises(ValueError, match="Example inputs should be a tuple"):
        program.example_inputs = [1]  # type: ignore[assignment]
    program.validate()
    with pytest.raises(export.exported_program.SpecViolationError, match="copy_"):
        export.exported_program.Verifier("ATEN").check(program)


def test_the_program_of_a_module(program: export.ExportedProgram) -> None:
    """A module that was loaded, and one that was captured from TorchScript."""
    handle = rushlight._rushlight.exported_of(rushlight.load(DATA / "exported.pt2"))
    assert str(export.ExportedProgram(handle)) == str(program)
    with pytest.raises(ValueError, match="is no exported program"):
        rushlight._rushlight.exported_of(rushlight.load(DATA / "life.pt"))


def test_state(program: export.ExportedProgram) -> None:
    assert list(program.state_dict) == ["linear.weight", "linear.bias", "calls"]
    assert list(program.constants) == ["scale"] == list(program.tensor_constants)
    assert [name for name, _ in program.named_parameters()] == ["linear.weight", "linear.bias"]
    assert len(list(program.parameters())) == 2
    assert [name for name, _ in program.named_buffers()] == ["calls"]
    assert len(list(program.buffers())) == 1


def test_calls(program: export.ExportedProgram) -> None:
    first, second = program.module_call_graph
    assert (first.fqn, second.fqn, second.signature) == ("", "linear", None)
    assert first.signature is not None and first.signature.forward_arg_names == [
        "x",
        "shift",
        "name",
    ]
    spec = program.call_spec.in_spec
    assert spec is not None and (spec.num_leaves, spec.num_nodes) == (3, 6)
    value = ((1,), {"shift": 2, "name": 3})
    assert spec.flatten(value) == [1, 2, 3] and spec.unflatten([1, 2, 3]) == value
    with pytest.raises(ValueError, match="has length 1 but"):
        spec.unflatten([1])
    with pytest.raises(ValueError, match="exported input tree spec"):
        spec.flatten(((1,), {"shift": 2}))


def test_the_module_runs(program: export.ExportedProgram) -> None:
    assert program.example_inputs is not None
    args, kwargs = program.example_inputs
    loaded = rushlight.load(DATA / "exported.pt2")
    for module in (program.module(), program.module(check_guards=False)):
        assert str(module(*args, **kwargs)) == str(loaded(*args, **kwargs))


def test_saving(program: export.ExportedProgram, tmp_path: pathlib.Path) -> None:
    buffer = io.BytesIO()
    export.save(program, buffer, extra_files={"notes.txt": "here"})
    export.save(program, tmp_path / "again.pt2", extra_files={"notes.txt": "here"})
    assert (tmp_path / "again.pt2").read_bytes() == buffer.getvalue()
    found: dict[str, str] = {}
    buffer.seek(0)
    again = export.load(buffer, extra_files=found, expected_opset_version={"aten": 10})
    assert found == {"notes.txt": "here"} and str(again) == str(program)
    with pytest.raises(TypeError, match="must be an instance of 'ExportedProgram', got 'int'"):
        export.save(1, buffer)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="'aten' is 10 in the file, but 9 is expected"):
        export.load(tmp_path / "again.pt2", expected_opset_version={"aten": 9})


def test_other_files_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(RuntimeError, match="holds no program"):
        export.load(DATA / "life.pt")
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(RuntimeError, match="expected a .pt2 archive"):
        export.load(tmp_path / "text")


def test_torch_is_not_imported() -> None:
    code = (
        "import sys, rushlight; p = rushlight.export.load(sys.argv[1]); str(p); p.state_dict; "
        "[n.meta for n in p.graph.nodes]; p.module(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, DATA / "exported.pt2"], check=True)


# -- Damaged files --

DAMAGES = {
    "from_node": ("[1]", "{", '[{"from_node": ' * 3000 + "]"),
    "nn_module_stack": ("a", "a,b", "a,[b,c,d"),
    "custom": ("{", "nothing"),
}


def damaged(path: pathlib.Path, change: Any) -> pathlib.Path:
    """The archive with another graph."""
    made = path / "damaged.pt2"
    with zipfile.ZipFile(DATA / "exported.pt2") as from_, zipfile.ZipFile(made, "w") as to:
        for info in from_.infolist():
            data = from_.read(info)
            if info.filename.endswith("models/model.json"):
                model = json.loads(data)
                change(model["graph_module"]["graph"])
                data = json.dumps(model).encode()
            to.writestr(info.filename, data)
    return made


@pytest.mark.parametrize("key", DAMAGES)
def test_damaged_metadata(key: str, tmp_path: pathlib.Path) -> None:
    for text in DAMAGES[key]:

        def change(graph: Any, text: str = text) -> None:
            graph["nodes"][2]["metadata"][key] = text

        program = export.load(damaged(tmp_path, change))
        node = next(n for n in program.graph.nodes if n.name == "linear")
        with pytest.raises(ValueError, match=f"{key} of the node 'linear' is damaged"):
            _ = node.meta


def test_damaged_metadata_of_a_node(tmp_path: pathlib.Path) -> None:
    for value in ([1], "text", 7):

        def change(graph: Any, value: Any = value) -> None:
            graph["nodes"][2]["metadata"] = value

        try:
            nodes = export.load(damaged(tmp_path, change)).graph.nodes
        except RuntimeError:
            continue
        with pytest.raises(ValueError, match="metadata of the node 'linear' is damaged"):
            _ = next(n for n in nodes if n.name == "linear").meta


def test_damaged_specs() -> None:
    for text in (None, "", "{", "[1]", "[1, {}]x", '[1, {"type": [], "children_spec": [1]}]'):
        with pytest.raises(ValueError, match="a tree spec is damaged"):
            export.treespec.treespec_loads(text)


def test_odd_values(tmp_path: pathlib.Path) -> None:
    """A device that no build knows, a layout and a size without bounds: an error or a text."""

    def change(graph: Any) -> None:
        values = graph["tensor_values"]
        values["linear"]["device"] = {"type": "toaster", "index": 3}
        values["mul"]["layout"] = 4
        values["div"]["sizes"] = [{"as_int": -(2**63)}] * 300

    program = export.load(damaged(tmp_path, change))
    nodes = {n.name: n for n in program.graph.nodes}
    with pytest.raises(RuntimeError, match="device type at start of device string: toaster:3"):
        _ = nodes["linear"].meta
    assert str(nodes["mul"].meta["val"].layout) == "rushlight.sparse_bsr"
    assert nodes["div"].meta["val"].dim() == 300 and str(program)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    below = [(*path, key) for key, _ in items]
    nested = [places(value[p[-1]], p) for p in below if isinstance(value[p[-1]], (dict, list))]
    return [*below, *(q for inner in nested for q in inner)]


def use(program: export.ExportedProgram) -> None:
    """Everything of a program but running it."""
    for step in (
        lambda: str(program),
        lambda: [n.meta for m in program.graph_module.modules() for n in m.graph.nodes],
        lambda: (str(program.graph_signature), program.graph_signature.user_inputs),
        lambda: (repr(program.module_call_graph), str(program.range_constraints)),
        program.validate,
        lambda: repr(export.unflatten(program)),
        lambda: export.save(program, io.BytesIO()),
    ):
        try:
            step()
        except (RuntimeError, ValueError, export.exported_program.SpecViolationError):
            pass  # NotImplementedError is a RuntimeError


def test_random_damage(tmp_path: pathlib.Path) -> None:
    """Parts of the graph are replaced by others or by odd values: nothing but errors, of few
    classes."""
    draw = random.Random(5)
    odd: list[Any] = [None, True, -1, 2**63, 1e300, "", [], {}, "s0+", 7]

    def change(graph: Any) -> None:
        everywhere = places(graph)
        path, other = draw.choice(everywhere), draw.choice(everywhere)
        at, value = graph, graph
        for key in path[:-1]:
            at = at[key]
        for key in other:
            value = value[key]
        at[path[-1]] = draw.choice([copy.deepcopy(value), draw.choice(odd)])

    read = 0
    for _ in range(300):
        try:
            program = export.load(damaged(tmp_path, change))
        except (RuntimeError, ValueError):
            continue
        read += 1
        use(program)
    assert read > 10
