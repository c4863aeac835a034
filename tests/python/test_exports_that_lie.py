"""Exported programs whose JSON is well-formed and lies: names, counts, indices and types that do
not agree are refused when the archive is opened, by file, record and offset; nothing runs."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import numpy
import pytest
import rushlight
from archives import pack

X, Y, W = ({"as_tensor": {"name": n}} for n in "xyw")
LEAF = {"type": None, "context": None, "children_spec": []}
TWO = numpy.arange(2, dtype=numpy.float32)


def tree(kind: str, context: object, *children: Any) -> dict[str, Any]:
    return {
        "type": f"builtins.{kind}",
        "context": json.dumps(context),
        "children_spec": list(children),
    }


def args(*children: Any) -> dict[str, Any]:
    return tree("tuple", None, *children)


def kwargs(*names: object) -> dict[str, Any]:
    return tree("dict", list(names), *[LEAF] * len(names))


def node(target: str, outputs: list[Any], *inputs: Any) -> dict[str, Any]:
    given = [i if isinstance(i, tuple) else ("", i) for i in inputs]
    return {
        "target": target,
        "inputs": [{"name": n, "arg": a, "kind": 1} for n, a in given],
        "outputs": outputs,
        "metadata": {},
    }


def add(out: Any, a: Any, b: Any) -> dict[str, Any]:
    return node("torch.ops.aten.add.Tensor", [out], ("self", a), ("other", b))


def user(*values: Any) -> list[Any]:
    return [{"user_input": {"arg": v}} for v in values]


def given(*values: Any) -> list[Any]:
    return [{"user_output": {"arg": v}} for v in values]


def weight(**changes: Any) -> dict[str, Any]:
    one = {"as_int": 1}
    meta = {
        "dtype": 7,
        "sizes": [{"as_int": 2}],
        "strides": [one],
        "storage_offset": {"as_int": 0},
        "requires_grad": False,
    }
    meta |= {"device": {"type": "cpu", "index": None}, "layout": 7} | changes
    return {"path_name": "w0", "is_param": False, "use_pickle": False, "tensor_meta": meta}


def program(
    inputs: Any = (X, Y),
    nodes: Any = (add(W, X, Y),),
    outputs: Any = (W,),
    in_spec: Any = None,
    out_spec: Any = None,
    input_specs: Any = None,
    output_specs: Any = None,
    names: Any = ("x", "y"),
    weights: Any = None,
    constants: Any = None,
    **parts: Any,
) -> bytes:
    def spec(t: Any) -> str:
        return t if isinstance(t, str) else json.dumps([1, t])

    graph = {
        "inputs": list(inputs),
        "outputs": list(outputs),
        "nodes": list(nodes),
        "tensor_values": {},
        "sym_int_values": {},
    }
    signature = {
        "input_specs": list(user(*inputs) if input_specs is None else input_specs),
        "output_specs": list(given(*outputs) if output_specs is None else output_specs),
    }
    call = {
        "inputs": [],
        "outputs": [],
        "in_spec": spec(in_spec or args(args(LEAF), kwargs("y"))),
        "out_spec": spec(out_spec or LEAF),
        "forward_arg_names": list(names),
    }
    module = {
        "graph": graph,
        "signature": signature,
        "module_call_graph": [{"fqn": "", "signature": call}],
        "metadata": {},
    }
    model = {"graph_module": module, "range_constraints": {}, "guards_code": [], **parts}
    content = {
        "m/archive_format": b"pt2",
        "m/byteorder": b"little",
        "m/.data/version": b"3",
        "m/models/model.json": json.dumps(model).encode(),
        "m/data/weights/model_weights_config.json": json.dumps({"config": weights or {}}).encode(),
        "m/data/constants/model_constants_config.json": json.dumps(
            {"config": constants or {}}
        ).encode(),
        "m/data/weights/w0": bytes(64),
        "m/data/constants/w0": bytes(64),
    }
    return pack(content)


NUMBERS = itertools.count()


def body(outputs: Any, *nodes: Any, inputs: Any = ("a", "b")) -> dict[str, Any]:
    graph = {
        "inputs": [{"as_tensor": {"name": n}} for n in inputs],
        "outputs": list(outputs),
        "nodes": list(nodes),
    }
    return {"as_graph": {"name": f"g{next(NUMBERS)}", "graph": graph}}


def higher(name: str, outputs: Any, *inputs: Any) -> dict[str, Any]:
    return node(f"torch.ops.higher_order.{name}", list(outputs), *inputs)


A, B, C = ({"as_tensor": {"name": n}} for n in "abc")
SIZE = node(
    "torch.ops.aten.sym_size.int",
    [{"as_sym_int": {"as_name": "n"}}],
    ("self", X),
    ("dim", {"as_int": 0}),
)
N = {"as_sym_int": {"as_name": "n"}}
HALF = node("_operator.truediv", [{"as_sym_float": {"as_name": "h"}}], N, {"as_int": 2})
H = {"as_sym_float": {"as_name": "h"}}
ONE_X = {"as_tensors": [{"name": "x"}]}
TWO_X = {"as_tensors": [{"name": "x"}, {"name": "y"}]}
MUTATION = {"arg": {"name": "w"}}


def test_the_honest_one_runs() -> None:
    m = rushlight.load(program(weights={"w": weight()}))
    assert numpy.array_equal(numpy.asarray(m(TWO, y=TWO)), 2 * TWO)


LIES: dict[str, tuple[dict[str, Any], str]] = {
    # argument specs
    "kwargs a tuple": (dict(in_spec=args(args(LEAF), args(LEAF))), "no pair"),
    "kwargs a list": (dict(in_spec=args(args(LEAF), tree("list", None, LEAF))), "no pair"),
    "kwargs a leaf": (dict(in_spec=args(args(LEAF), LEAF)), "no pair"),
    "args a leaf": (dict(in_spec=args(LEAF, kwargs("y"))), "no pair"),
    "args a dict": (dict(in_spec=args(kwargs("x"), kwargs("y"))), "no pair"),
    "args a list": (dict(in_spec=args(tree("list", None, LEAF), kwargs("y"))), "no pair"),
    "args only": (dict(in_spec=args(args(LEAF, LEAF))), "no pair"),
    "three parts": (dict(in_spec=args(args(LEAF), kwargs("y"), args())), "no pair"),
    "a list of parts": (dict(in_spec=tree("list", None, args(LEAF), kwargs("y"))), "no pair"),
    "a leaf for all": (dict(in_spec=LEAF), "no pair"),
    "kwargs ordered by int": (
        dict(in_spec=args(args(LEAF), kwargs(4702111234474983745))),
        "no text",
    ),
    "kwargs by bool": (
        dict(in_spec=args(args(LEAF), kwargs(True))),
        "different texts or different ints",
    ),
    "kwargs twice": (dict(in_spec=args(args(), kwargs("x", "x"))), "different texts"),
    "kwargs with NUL": (dict(in_spec=args(args(LEAF), kwargs("y\0z"))), "NUL"),
    "fewer keys": (dict(in_spec=args(args(LEAF), tree("dict", [], LEAF))), "0 keys and 1 values"),
    "more keys": (
        dict(in_spec=args(args(LEAF), tree("dict", ["y", "z"], LEAF))),
        "2 keys and 1 values",
    ),
    "no keys": (dict(in_spec=args(args(LEAF), tree("dict", None, LEAF))), "without its keys"),
    "mixed keys": (
        dict(in_spec=args(args(tree("dict", ["a", 1], LEAF, LEAF)), kwargs())),
        "different texts or",
    ),
    "a leaf with children": (
        dict(in_spec=args(args(LEAF | {"children_spec": [LEAF]}), kwargs("y"))),
        "a leaf .* 1 children",
    ),
    "two trees": (
        dict(in_spec=json.dumps([1, args(args(LEAF), kwargs("y")), args(args(LEAF), kwargs("y"))])),
        "two trees",
    ),
    "no tree": (dict(in_spec="[1]"), "without a tree"),
    "fewer leaves": (dict(in_spec=args(args(LEAF), kwargs())), "more user inputs than leaves"),
    "more leaves": (
        dict(in_spec=args(args(LEAF, LEAF), kwargs("y"))),
        "2 user inputs, but 3 leaves",
    ),
    "fewer results": (dict(out_spec=args()), "1 outputs for the user, but 0 leaves"),
    "more results": (dict(out_spec=args(LEAF, LEAF)), "1 outputs for the user, but 2 leaves"),
    "argument names with NUL": (dict(names=("x\0", "y")), "NUL"),
    # inputs
    "a spec too many": (dict(input_specs=user(X, Y, Y)), "3 input specs for 2 inputs"),
    "a spec missing": (dict(input_specs=user(X)), "1 input specs for more inputs"),
    "another name": (dict(input_specs=user(Y, X)), "its spec has"),
    "an input twice": (dict(inputs=(X, X)), "second value of the name 'x'"),
    "no kind": (dict(input_specs=[{}, *user(Y)]), "of no kind"),
    "two kinds": (dict(input_specs=[user(X)[0] | {"token": {}}, *user(Y)]), "of two kinds"),
    "an unknown kind": (dict(input_specs=[{"bogus": {}}, *user(Y)]), "not known"),
    "two values": (dict(input_specs=user(X | {"as_int": 1}, Y)), "2 kinds"),
    "no value": (dict(input_specs=[{"user_input": {}}, *user(Y)]), "without its argument"),
    "a custom object": (
        dict(input_specs=user({"as_custom_obj": {"name": "x", "class_fqn": "c"}}, Y)),
        "no tensor and no number",
    ),
    "a graph": (dict(input_specs=user(body([A]), Y)), "a constant of kind"),
    "a weight that is not there": (
        dict(
            input_specs=[
                {"buffer": {"arg": {"name": "x"}, "buffer_name": "q", "persistent": True}},
                *user(Y),
            ]
        ),
        "'q', which was not saved",
    ),
    "a weight without a name": (
        dict(input_specs=[{"buffer": {"arg": {"name": "x"}}}, *user(Y)]),
        "without its argument or target",
    ),
    # outputs
    "an output spec too many": (dict(output_specs=given(W, W)), "2 output specs for 1 outputs"),
    "an output spec missing": (dict(output_specs=[]), "0 output specs for 1 outputs"),
    "an unknown output": (dict(output_specs=[{"bogus": {"arg": W}}]), "not known"),
    "an output of two kinds": (dict(output_specs=[given(W)[0] | {"token": {}}]), "of two kinds"),
    "a buffer that is not there": (
        dict(output_specs=[{"buffer_mutation": MUTATION | {"buffer_name": "q"}}]),
        "no buffer 'q'",
    ),
    "a buffer without a name": (
        dict(output_specs=[{"buffer_mutation": MUTATION}], weights={"w": weight()}),
        "without its argument or target",
    ),
    "an input that is not there": (
        dict(output_specs=[{"user_input_mutation": MUTATION | {"user_input_name": "q"}}]),
        "no input 'q'",
    ),
    "a number into a buffer": (
        dict(
            outputs=(W, {"as_int": 1}),
            output_specs=[
                *given(W),
                {"buffer_mutation": {"arg": {"name": "w"}, "buffer_name": "b"}},
            ],
            weights={"b": weight()},
        ),
        "no tensor",
    ),
    "a result that nobody makes": (dict(outputs=(A,)), "no value 'a'"),
    "a result used before it is made": (dict(nodes=(add(W, C, Y), add(C, X, Y))), "no value 'c'"),
    "a name made twice": (dict(nodes=(add(W, X, Y), add(W, X, Y))), "second value of the name 'w'"),
    "a result of a name of an input": (
        dict(nodes=(add(X, X, Y),), outputs=(X,)),
        "second value of the name 'x'",
    ),
    "an argument of two kinds": (dict(nodes=(add(W, X | {"as_int": 1}, Y),)), "2 kinds"),
    "an argument twice": (
        dict(nodes=(node("torch.ops.aten.relu.default", [W], ("self", X), ("self", Y)),)),
        "'self' twice",
    ),
    "a target with NUL": (
        dict(nodes=(node("torch.ops.aten.relu\0.default", [W], ("self", X)),)),
        "NUL",
    ),
    "a result with NUL": (dict(nodes=(add({"as_tensor": {"name": "w\0"}}, X, Y),)), "NUL"),
    # numbers
    "a number for a list of indices": (
        dict(
            nodes=(
                node("torch.ops.aten.index.Tensor", [W], ("self", X), ("indices", {"as_int": 1})),
            )
        ),
        r"item 0 of a list of Tensor\? is int",
    ),
    "a float for a list of indices": (
        dict(
            nodes=(
                node(
                    "torch.ops.aten.index.Tensor", [W], ("self", X), ("indices", {"as_float": 0.5})
                ),
            )
        ),
        r"item 0 of a list of Tensor\? is float",
    ),
    "a number for a list of tensors": (
        dict(nodes=(node("torch.ops.aten.cat.default", [W], ("tensors", {"as_float": 0.5})),)),
        "a list of Tensor is float",
    ),
    "a float dimension": (
        dict(
            nodes=(
                node(
                    "torch.ops.aten.select.int",
                    [W],
                    ("self", X),
                    ("dim", {"as_float": 1.5}),
                    ("index", {"as_int": 0}),
                ),
            )
        ),
        "a float where a int",
    ),
    "a float size": (
        dict(
            nodes=(
                SIZE,
                HALF,
                node(
                    "torch.ops.aten.view.default",
                    [W],
                    ("self", X),
                    ("size", {"as_sym_ints": [{"as_name": "h"}]}),
                ),
            )
        ),
        "are not of its types",
    ),
    "a symbolic float for an int": (
        dict(
            nodes=(
                SIZE,
                HALF,
                node(
                    "torch.ops.aten.select.int",
                    [W],
                    ("self", X),
                    ("dim", {"as_int": 0}),
                    ("index", H),
                ),
            )
        ),
        "a float where a int",
    ),
    "a tensor for a size": (
        dict(
            nodes=(
                node(
                    "torch.ops.aten.view.default",
                    [W],
                    ("self", X),
                    ("size", {"as_sym_ints": [{"as_name": "x"}]}),
                ),
            )
        ),
        "are not of its types",
    ),
    "an operator on any type": (
        dict(
            nodes=(
                node("torch.ops.aten.append.t", [], ("self", TWO_X), ("el", {"as_int": 1})),
                add(W, X, Y),
            )
        ),
        "has no place|twice|not of its types",
    ),
    "a token in a list of tensors": (
        dict(
            inputs=(X, Y, A),
            input_specs=[*user(X, Y), {"token": {"arg": {"name": "a"}}}],
            nodes=(
                node(
                    "torch.ops.aten.cat.default",
                    [W],
                    ("tensors", {"as_nested_tensors": [[{"name": "a"}]]}),
                ),
            ),
        ),
        "are not of its types",
    ),
    "layout 0": (
        dict(
            nodes=(
                node(
                    "torch.ops.aten.empty_like.default",
                    [W],
                    ("self", X),
                    ("layout", {"as_layout": 0}),
                ),
            )
        ),
        "layout 0",
    ),
    "a device of index 1000": (
        dict(
            nodes=(
                node(
                    "torch.ops.aten.empty_like.default",
                    [W],
                    ("self", X),
                    ("device", {"as_device": {"type": "cpu", "index": 1000}}),
                ),
            )
        ),
        "device index 1000",
    ),
    # graphs
    "cond without a graph": (
        dict(nodes=(higher("cond", [W], X, body([A]), {"as_int": 1}, TWO_X),)),
        "a graph is missing",
    ),
    "cond with too few operands": (
        dict(nodes=(higher("cond", [W], X, body([A]), body([A]), ONE_X),)),
        "2 is given 1|inputs is given",
    ),
    "branches that differ": (
        dict(nodes=(higher("cond", [W], X, body([A]), body([A, B]), TWO_X),)),
        "different numbers",
    ),
    "branches of other types": (
        dict(nodes=(higher("cond", [W], X, body([A]), body([{"as_int": 1}]), TWO_X),)),
        "different types",
    ),
    "more results than a branch": (
        dict(nodes=(higher("cond", [W, C], X, body([A]), body([A]), TWO_X),)),
        "more outputs",
    ),
    "a loop that drops a value": (
        dict(nodes=(higher("while_loop", [W], body([A]), body([A]), TWO_X),)),
        "another number",
    ),
    "a loop of two conditions": (
        dict(nodes=(higher("while_loop", [W], body([A, A]), body([A, B]), TWO_X),)),
        "more than one",
    ),
    "a loop that changes types": (
        dict(nodes=(higher("while_loop", [W], body([A]), body([{"as_int": 1}, B]), TWO_X),)),
        "the condition is no bool",
    ),
    "a map that collects numbers": (
        dict(nodes=(higher("map_impl", [W], body([{"as_int": 1}], inputs="a"), ONE_X),)),
        "collected is no tensor",
    ),
    "a scan that collects numbers": (
        dict(
            nodes=(
                higher(
                    "scan", [C, W], body([A, {"as_int": 1}]), ONE_X, {"as_tensors": [{"name": "y"}]}
                ),
            )
        ),
        "collected is no tensor",
    ),
    "a scan over nothing": (
        dict(nodes=(higher("scan", [W], body([A]), ONE_X, {"as_tensors": []}),)),
        "nothing to go over",
    ),
    "a value of the graph outside": (
        dict(nodes=(higher("cond", [W], X, body([X]), body([A]), TWO_X),)),
        "no value 'x'",
    ),
    "an effect of nothing": (dict(nodes=(higher("with_effects", [W]),)), "the operator is missing"),
    "autocast to dtype 99": (
        dict(
            nodes=(
                higher(
                    "wrap_with_autocast",
                    [W],
                    {"as_string": "cpu"},
                    {"as_int": 99},
                    {"as_bool": True},
                    {"as_none": True},
                    body([A]),
                    X,
                    Y,
                ),
            )
        ),
        "another dtype",
    ),
    # weights
    "weights with NUL": (dict(weights={"a": weight(), "a\0b": weight()}), "NUL"),
    "constants with NUL": (dict(constants={"\0": weight()}), "NUL"),
    "a path with NUL": (dict(weights={"a": weight() | {"path_name": "w0\0"}}), "NUL"),
    "a weight and a constant of one name": (
        dict(weights={"a": weight()}, constants={"a": weight()}),
        "second weight 'a'",
    ),
    "a sparse weight": (dict(weights={"a": weight(layout=1)}), "layout 1"),
    "a weight of ints that requires grad": (
        dict(weights={"a": weight(dtype=5, requires_grad=True)}),
        "can require gradients",
    ),
    "more strides than sizes": (
        dict(weights={"a": weight(strides=[{"as_int": 1}] * 2)}),
        "1 sizes and 2 strides",
    ),
    "a negative offset": (dict(weights={"a": weight(storage_offset={"as_int": -1})}), "a"),
    "an offset behind the end": (
        dict(weights={"a": weight(storage_offset={"as_int": 2**62})}),
        "a",
    ),
    "sizes that overflow": (
        dict(weights={"a": weight(sizes=[{"as_int": 2**62}] * 2, strides=[{"as_int": 2**62}] * 2)}),
        "a",
    ),
    "dtype 0": (dict(weights={"a": weight(dtype=0)}), "dtype number 0"),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_refused_at_the_door(lie: str) -> None:
    changes, match = LIES[lie]
    with pytest.raises(Exception, match=r"archive: \S+\.json: offset \d+: ") as e:
        rushlight.load(program(**changes))
    assert re.search(match, str(e.value)), str(e.value)


def nested(depth: int, where: int) -> dict[str, Any]:
    """while_loop inside the condition (0) or the body (1) of while_loop."""
    parts = [body([{"as_bool": False}], inputs="a"), body([A], inputs="a")]
    for _ in range(depth):
        loop = higher(
            "while_loop", [{"as_tensor": {"name": "q"}}], *parts, {"as_tensors": [{"name": "a"}]}
        )
        q = {"as_tensor": {"name": "q"}}
        parts = [body([{"as_bool": False}], inputs="a"), body([A], inputs="a")]
        parts[where] = body([q], loop, inputs="a")
    return higher("while_loop", [W], *parts, ONE_X)


def test_loops_in_conditions_do_not_double_without_end() -> None:
    with pytest.raises(Exception, match="more than 4 conditions"):
        rushlight.load(program(nodes=(nested(40, 0),)))
    rushlight.load(program(nodes=(nested(40, 1),)))


def test_effects_of_effects_of_effects() -> None:
    again = {"as_string": "torch.ops.higher_order.with_effects"}
    with pytest.raises(Exception, match="nested too deep"):
        rushlight.load(
            program(nodes=(higher("with_effects", [W], *[{"as_none": True}, again] * 100000, X),))
        )


def test_many_leaves_are_found_by_name() -> None:
    n = 20000
    names = [f"x{i}" for i in range(n)]
    inputs = [{"as_tensor": {"name": name}} for name in names]
    first = inputs[0]
    spec = args(args(*[LEAF] * n), kwargs())
    values = {name: {"sizes": [{"as_expr": {"expr_str": f"s{i}"}}]} for i, name in enumerate(names)}
    ranges = {f"s{i}": {"min_val": 0, "max_val": None} for i in range(n)}
    data = program(
        inputs=inputs,
        nodes=(add(W, first, first),),
        in_spec=spec,
        names=names,
        range_constraints=ranges,
    )
    assert rushlight.load(data) is not None
    assert values and rushlight.load(data)(*[TWO] * n) is not None
