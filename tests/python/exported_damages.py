"""Damages of exported programs, each of one rule: `DAMAGES` has (what is done, the rule that names
it, a program of tests/data/exports, a change of its JSON).  Where `torch` is true, PyTorch's own
verifier (or its reader) refuses the damaged program as well.

Damages that no reader lets through (a use before the definition, two nodes of one name) are made to
the structure itself, in tests/export/test_verify.c.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import zipfile
from collections.abc import Callable
from typing import Any

PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "data" / "exports"
Json = Any


class Model:
    """A program's JSON, and the configs of its weights and constants."""

    def __init__(self, path: pathlib.Path) -> None:
        with zipfile.ZipFile(path) as z:
            self.records = {name: z.read(name) for name in z.namelist()}
        self.parts = {
            name: json.loads(data)
            for name, data in self.records.items()
            if name.endswith(".json") and data
        }
        self.root = next(v for k, v in self.parts.items() if "/models/" in k)
        self.module = self.root["graph_module"]
        self.graph = self.module["graph"]
        self.nodes = self.graph["nodes"]
        self.inputs = self.module["signature"]["input_specs"]
        self.outputs = self.module["signature"]["output_specs"]
        self.calls = self.module["module_call_graph"]

    def config(self, which: str) -> Json:
        return next(v["config"] for k, v in self.parts.items() if f"_{which}_config" in k)

    def node(self, name: str) -> Json:
        return next(n for n in self.nodes if n["name"] == name)

    def called(self, target: str) -> Json:
        return next(n for n in self.nodes if target in n["target"])

    def value(self, name: str) -> Json:
        return self.graph["tensor_values"][name]

    def save(self, path: pathlib.Path) -> pathlib.Path:
        with zipfile.ZipFile(path, "w") as z:
            for name, data in self.records.items():
                part = self.parts.get(name)
                z.writestr(name, data if part is None else json.dumps(part).encode())
        return path


@dataclasses.dataclass
class Damage:
    name: str
    rule: str
    program: str
    change: Callable[[Model], None]
    torch: bool = False

    def make(self, path: pathlib.Path) -> pathlib.Path:
        m = Model(PROGRAMS / f"{self.program}.pt2")
        self.change(m)
        return m.save(path)


DAMAGES: list[Damage] = []


def damage(rule: str, program: str, torch: bool = False) -> Callable[[Any], Any]:
    def add(change: Callable[[Model], None]) -> Callable[[Model], None]:
        DAMAGES.append(Damage(change.__name__, rule, program, change, torch))
        return change

    return add


def set_target(m: Model, name: str, target: str) -> None:
    m.node(name)["target"] = target


def graph_of(node: Json, at: int) -> Json:
    return node["inputs"][at]["arg"]["as_graph"]["graph"]


def argument(node: Json, name: str) -> Json:
    return next(i for i in node["inputs"] if i["name"] == name)


# -- Operators and their arguments --


@damage("program.dialect", "state", torch=True)
def a_dialect_that_nobody_knows(m: Model) -> None:
    m.root["verifiers"] = ["ATLANTIC"]


@damage("op.not-functional", "mutation_named", torch=True)
def a_write_in_aten(m: Model) -> None:
    set_target(m, "add", "torch.ops.aten.add_.Tensor")


@damage("op.not-functional", "mutation", torch=True)
def training_called_aten(m: Model) -> None:
    m.root["verifiers"] = ["ATEN"]


@damage("op.unknown", "state", torch=True)
def an_operator_that_aten_lacks(m: Model) -> None:
    set_target(m, "mul", "torch.ops.aten.multiplicate.Tensor")


@damage("op.not-allowed", "symbolic_floats", torch=True)
def a_function_of_os(m: Model) -> None:
    m.called("sym_float")["target"] = "os.getpid"


@damage("args.missing", "state")
def a_weight_that_is_not_given(m: Model) -> None:
    node = m.node("linear")
    node["inputs"] = [i for i in node["inputs"] if i["name"] != "weight"]


@damage("args.type", "state")
def a_string_for_a_tensor(m: Model) -> None:
    argument(m.node("linear"), "weight")["arg"] = {"as_string": "p"}


@damage("args.type", "several_results")
def a_float_for_an_int(m: Model) -> None:
    argument(m.called("topk"), "k")["arg"] = {"as_float": 2.5}


@damage("args.type", "branches")
def a_string_in_a_branch(m: Model) -> None:
    node = graph_of(m.called("cond"), 2)["nodes"][0]
    node["inputs"][-1]["arg"] = {"as_strings": ["x"]}


@damage("args.position", "numbers_and_options")
def a_dtype_by_its_position(m: Model) -> None:
    node = m.called("zeros.default")
    node["inputs"] = [argument(node, "size"), argument(node, "dtype")]
    for given in node["inputs"]:
        given["kind"] = 1
    node["inputs"][1]["name"] = ""


@damage("args.symbolic", "constant_results")
def a_sum_of_one(m: Model) -> None:
    del m.called("_operator.add")["inputs"][1]


@damage("args.symbolic", "constant_results")
def a_tensor_that_is_multiplied_as_a_number(m: Model) -> None:
    m.called("_operator.mul")["inputs"][0]["arg"] = {"as_tensor": {"name": "args_0"}}


# -- What is known of values --


@damage("val.missing", "state")
def nothing_known_of_a_result(m: Model) -> None:
    del m.graph["tensor_values"]["mul"]


@damage("val.missing", "keywords")
def nothing_known_of_an_input(m: Model) -> None:
    del m.graph["tensor_values"][m.graph["inputs"][0]["as_tensor"]["name"]]


@damage("val.kind", "several_results")
def one_result_of_two(m: Model) -> None:
    del m.called("max.dim")["outputs"][1]


@damage("val.kind", "mutation_named")
def a_tensor_that_is_a_number(m: Model) -> None:
    node = m.node("add")
    node["outputs"] = [{"as_sym_int": {"as_name": "add"}}]
    m.graph["sym_int_values"]["add"] = {"as_int": 3}
    del m.graph["tensor_values"]["add"]
    m.outputs[:] = [s for s in m.outputs if json.dumps(s).find('"add"') < 0]
    m.graph["outputs"] = [o for o in m.graph["outputs"] if o != {"as_tensor": {"name": "add"}}]


@damage("val.tensor", "state")
def a_stride_too_many(m: Model) -> None:
    m.value("mul")["strides"].append({"as_int": 1})


@damage("val.tensor", "state")
def a_negative_size(m: Model) -> None:
    m.value("mul")["sizes"][0] = {"as_int": -2}


@damage("val.shape", "state")
def another_dtype(m: Model) -> None:
    m.value("linear")["dtype"] = 5


@damage("val.shape", "branches")
def another_size(m: Model) -> None:
    for name in [n for n in m.graph["tensor_values"] if n.startswith("sum")]:
        m.value(name)["sizes"] = [{"as_int": 9}]
        m.value(name)["strides"] = [{"as_int": 1}]


@damage("metadata.object", "state")
def metadata_of_numbers(m: Model) -> None:
    m.node("mul")["metadata"] = {"seq_nr": 5}


# -- Ranges --


@damage("range.empty", "derived_sizes")
def a_range_that_ends_before_it_begins(m: Model) -> None:
    bounds = next(iter(m.root["range_constraints"].values()))
    bounds["min_val"], bounds["max_val"] = 7, 3


@damage("range.symbol", "formulas_of_sizes")
def a_symbol_without_a_range(m: Model) -> None:
    del m.root["range_constraints"][next(iter(m.root["range_constraints"]))]


@damage("val.example", "formulas_of_sizes")
def an_expression_of_another_value(m: Model) -> None:
    for value in m.graph["sym_int_values"].values():
        said = value["as_expr"]
        if said["hint"] is not None and not said["expr_str"].isidentifier():
            said["expr_str"] = f"1 + {said['expr_str']}"
            return


@damage("val.example", "formulas_of_sizes")
def a_size_before_its_symbols_of_another_value(m: Model) -> None:
    """Its symbol has no example yet where the size stands."""
    name = m.graph["inputs"][0]["as_tensor"]["name"]
    size = m.graph["tensor_values"][name]["sizes"][0]["as_expr"]
    size["expr_str"] = f"Pow({size['expr_str']}, Integer(2))"


@damage("val.example", "formulas_of_sizes")
def a_size_that_is_a_bool(m: Model) -> None:
    name = m.graph["inputs"][0]["as_tensor"]["name"]
    size = m.graph["tensor_values"][name]["sizes"][0]["as_expr"]
    size["expr_str"] = f"Not({size['expr_str']})"


@damage("range.hint", "constant_results")
def an_example_out_of_its_range(m: Model) -> None:
    bounds = next(iter(m.root["range_constraints"].values()))
    bounds["min_val"], bounds["max_val"] = 1000, 2000


# -- Signature --


@damage("signature.input-count", "keywords", torch=True)
def an_input_too_few(m: Model) -> None:
    del m.inputs[-1]


@damage("signature.input-name", "keywords", torch=True)
def inputs_in_another_order(m: Model) -> None:
    m.inputs[0], m.inputs[1] = m.inputs[1], m.inputs[0]


@damage("signature.input-kind", "constant_results", torch=True)
def a_tensor_that_the_signature_calls_a_number(m: Model) -> None:
    name = m.inputs[0]["user_input"]["arg"]["as_tensor"]["name"]
    m.inputs[0] = {"user_input": {"arg": {"as_sym_int": {"as_name": name}}}}


@damage("signature.state-missing", "state", torch=True)
def a_parameter_that_is_not_there(m: Model) -> None:
    del m.config("weights")["linear.weight"]


@damage("signature.state-missing", "state", torch=True)
def a_constant_that_is_not_there(m: Model) -> None:
    del m.config("constants")["constant"]


@damage("signature.state-kind", "state", torch=True)
def a_parameter_that_is_a_buffer(m: Model) -> None:
    m.config("weights")["linear.weight"]["is_param"] = False


@damage("signature.state-kind", "state", torch=True)
def a_buffer_that_should_not_be_kept(m: Model) -> None:
    m.config("weights")["scratch"] = dict(m.config("weights")["linear.weight"], is_param=False)


@damage("signature.state-shape", "mutation")
def a_weight_of_other_sizes(m: Model) -> None:
    m.config("weights")["b"]["tensor_meta"]["sizes"] = [{"as_int": 2}]


@damage("signature.output-count", "several_results", torch=True)
def an_output_too_many(m: Model) -> None:
    m.outputs.append(m.outputs[0])


@damage("signature.output-name", "several_results", torch=True)
def outputs_in_another_order(m: Model) -> None:
    m.outputs[0], m.outputs[1] = m.outputs[1], m.outputs[0]


@damage("signature.output-order", "mutation_named", torch=True)
def a_result_before_the_mutations(m: Model) -> None:
    m.outputs.insert(0, m.outputs.pop())
    m.graph["outputs"].insert(0, m.graph["outputs"].pop())


@damage("signature.output-target", "mutation_named", torch=True)
def a_mutation_of_nothing(m: Model) -> None:
    m.outputs[0]["buffer_mutation"]["buffer_name"] = "nowhere"


@damage("signature.output-target", "mutation_named")
def two_mutations_of_one_buffer(m: Model) -> None:
    m.outputs[1]["buffer_mutation"]["buffer_name"] = m.outputs[0]["buffer_mutation"]["buffer_name"]


@damage("signature.output-target", "gradients")
def a_gradient_of_nothing(m: Model) -> None:
    m.outputs[1]["gradient_to_parameter"]["parameter_name"] = "linear.wait"


@damage("signature.output-shape", "mutation_named")
def a_buffer_written_with_other_sizes(m: Model) -> None:
    one, two = (m.outputs[i]["buffer_mutation"] for i in (0, 1))
    one["buffer_name"], two["buffer_name"] = two["buffer_name"], one["buffer_name"]


# -- Module calls --


@damage("calls.root", "kept_calls")
def no_call_of_the_program(m: Model) -> None:
    m.calls[0]["signature"] = None


@damage("calls.root", "kept_calls")
def the_program_as_a_call_of_itself(m: Model) -> None:
    m.calls[-1]["fqn"] = ""


@damage("calls.value", "kept_calls", torch=True)
def a_module_that_is_given_nothing(m: Model) -> None:
    call = next(c for c in m.calls if c["fqn"] == "a")
    call["signature"]["inputs"][0] = {"as_tensor": {"name": "nowhere"}}


@damage("calls.spec", "kept_calls")
def a_spec_with_a_leaf_too_many(m: Model) -> None:
    leaf = {"type": None, "context": None, "children_spec": []}
    spec = {"type": "builtins.list", "context": "null", "children_spec": [leaf, leaf]}
    m.calls[0]["signature"]["out_spec"] = json.dumps([1, spec])


@damage("calls.spec", "kept_calls", torch=True)
def a_spec_that_is_no_json(m: Model) -> None:
    m.calls[0]["signature"]["in_spec"] = "[1, {"


# -- Higher-order operators --


@damage("hop.graph", "branches")
def a_branch_that_is_a_number(m: Model) -> None:
    m.called("cond")["inputs"][1]["arg"] = {"as_int": 1}


@damage("hop.operands", "branches")
def an_operand_too_few(m: Model) -> None:
    node = m.called("cond")
    node["inputs"][3]["arg"]["as_tensors"].pop()


@damage("hop.operands", "regions")
def an_operand_of_another_size(m: Model) -> None:
    name = m.called("wrap_with")["inputs"][-1]["arg"]["as_tensor"]["name"]
    m.value(name)["sizes"][0] = {"as_int": 7}


@damage("hop.results", "regions")
def a_result_of_another_dtype(m: Model) -> None:
    graph = graph_of(m.called("wrap_with_set_grad"), 1)
    name = graph["outputs"][0]["as_tensor"]["name"]
    graph["tensor_values"][name]["dtype"] = 8


@damage("hop.results", "regions")
def a_list_where_a_tensor_is_described(m: Model) -> None:
    graph = graph_of(m.called("wrap_with_set_grad"), 1)
    graph["outputs"][0] = {"as_nested_tensors": [[]]}


@damage("hop.results", "loops")
def a_body_that_drops_a_value(m: Model) -> None:
    graph = graph_of(m.called("while_loop"), 1)
    graph["outputs"].pop()


@damage("hop.branches", "branches")
def branches_of_other_dtypes(m: Model) -> None:
    graph = graph_of(m.called("cond"), 2)
    name = graph["outputs"][0]["as_tensor"]["name"]
    graph["tensor_values"][name]["dtype"] = 8


@damage("hop.branches", "branches")
def a_branch_with_more_results(m: Model) -> None:
    graph = graph_of(m.called("cond"), 2)
    graph["outputs"].append(graph["outputs"][0])


@damage("token.first", "tokens")
def an_effect_without_a_token(m: Model) -> None:
    m.called("with_effects")["inputs"][0]["arg"] = {"as_int": 1}


# -- Guards --


@damage("guard.syntax", "derived_sizes")
def a_guard_that_does_not_end(m: Model) -> None:
    m.root["guards_code"][0] += " and ("


@damage("guard.input", "derived_sizes")
def a_guard_about_nothing(m: Model) -> None:
    m.root["guards_code"][0] = "L['nowhere'].size()[0] >= 2"
