"""Exported programs (.pt2) that lie: specs of wrong kinds and counts, values that are not what the
graph says they are.

A small right program is made first: inputs as a tree of tuples, lists, dicts and leaves (tensors,
sizes, constants), weights and a buffer, a few nodes (operators, sizes, cond, while_loop), outputs
as a tree, mutations.  Then up to three lies change it; without one it has to be answered.
"""

from __future__ import annotations

import copy
import json
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

from lying_world import BAIT, Case, pickled

Json = Any
LEAF = {"type": None, "context": None, "children_spec": []}


def tensor(name: str) -> Json:
    return {"as_tensor": {"name": name}}


def size(name: str) -> Json:
    return {"as_sym_int": {"as_name": name}}


def node(target: str, outputs: list[Json], *args: tuple[str, Json]) -> Json:
    inputs = [{"name": name, "arg": arg, "kind": 1} for name, arg in args]
    return {"target": target, "inputs": inputs, "outputs": outputs, "metadata": {}}


def graph(inputs: list[Json], outputs: list[Json], nodes: list[Json]) -> Json:
    return {
        "inputs": inputs,
        "outputs": outputs,
        "nodes": nodes,
        "tensor_values": {},
        "sym_int_values": {},
        "sym_bool_values": {},
        "sym_float_values": {},
        "custom_obj_values": {},
        "is_single_tensor_return": False,
    }


def weight(path: str, sizes: list[int], is_param: bool) -> Json:
    strides = [1] * len(sizes)
    for i in range(len(sizes) - 1, 0, -1):
        strides[i - 1] = strides[i] * sizes[i]
    ints = lambda v: [{"as_int": i} for i in v]  # noqa: E731
    meta = {
        "dtype": 7,
        "sizes": ints(sizes),
        "requires_grad": is_param,
        "device": {"type": "cpu", "index": None},
        "strides": ints(strides),
        "storage_offset": {"as_int": 0},
        "layout": 7,
    }
    return {"path_name": path, "is_param": is_param, "use_pickle": False, "tensor_meta": meta}


class Export:
    """The right program."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.inputs: list[Json] = []
        self.specs: list[Json] = []
        self.nodes: list[Json] = []
        self.outputs: list[Json] = []
        self.output_specs: list[Json] = []
        self.tensors: list[str] = []
        self.sizes: list[str] = []
        self.args: list[str] = []
        self.n = 0
        self.add_state()
        self.in_spec = self.add_arguments()
        for _ in range(rng.choice([1, 2, 3, 4])):
            self.add_node()
        self.out_spec = self.add_outputs()

    def name(self, prefix: str) -> str:
        self.n += 1
        return f"{prefix}{self.n}"

    def add_state(self) -> None:
        self.weights = {"w": weight("w0", [2, 2], True), "b": weight("w1", [2], False)}
        for name, kind in (("w", "parameter"), ("b", "buffer")):
            spec = {"arg": {"name": f"s_{name}"}, f"{kind}_name": name}
            self.specs.append({kind: spec | ({"persistent": True} if kind == "buffer" else {})})
            self.inputs.append(tensor(f"s_{name}"))
            self.tensors.append(f"s_{name}")

    def leaf(self) -> tuple[Json, str]:
        r = self.rng
        how = r.randrange(10)
        if how < 7:
            arg, text = tensor(self.name("x")), r.choice(["randn(2,2)", "ones(2,2)"])
            self.tensors.append(arg["as_tensor"]["name"])
        elif how == 7:
            arg, text = size(self.name("n")), "2"
            self.sizes.append(arg["as_sym_int"]["as_name"])
        else:
            arg, text = r.choice(
                [
                    ({"as_int": 3}, "3"),
                    ({"as_none": True}, "None"),
                    ({"as_bool": True}, "True"),
                    ({"as_string": "sa"}, "'sa'"),
                ]
            )
        self.inputs.append(arg)
        self.specs.append({"user_input": {"arg": arg}})
        return copy.deepcopy(LEAF), text

    def tree(self, depth: int) -> tuple[Json, str]:
        r = self.rng
        how = r.randrange(10) if depth else 0
        if how < 6:
            return self.leaf()
        parts = [self.tree(depth - 1) for _ in range(r.choice([0, 1, 2]))]
        specs, texts = [p[0] for p in parts], [p[1] for p in parts]
        if how == 6:
            return spec_of("builtins.list", "null", specs), f"[{','.join(texts)}]"
        if how < 9:
            return spec_of("builtins.tuple", "null", specs), f"({''.join(t + ',' for t in texts)})"
        keys = [f"k{i}" for i in range(len(parts))]
        items = (f"'{k}':{t}" for k, t in zip(keys, texts, strict=True))
        return spec_of("builtins.dict", json.dumps(keys), specs), f"{{{','.join(items)}}}"

    def add_arguments(self) -> Json:
        r = self.rng
        trees = [self.leaf(), *(self.tree(2) for _ in range(r.choice([0, 1, 1, 2])))]
        self.arg_names = [f"a{i}" for i in range(len(trees))]
        self.args += [t for _, t in trees]
        named = [self.tree(1) for _ in range(r.choice([0, 0, 1, 2]))]
        keys = [f"key{i}" for i in range(len(named))]
        self.args += [f"{k}={t}" for k, (_, t) in zip(keys, named, strict=True)]
        kwargs = spec_of("builtins.dict", json.dumps(keys), [s for s, _ in named])
        return spec_of(
            "builtins.tuple",
            "null",
            [spec_of("builtins.tuple", "null", [s for s, _ in trees]), kwargs],
        )

    def add_node(self) -> None:
        r = self.rng
        x, y = (tensor(r.choice(self.tensors)) for _ in range(2))
        out = self.name("t")
        how = r.randrange(9)
        if how < 3:
            op = r.choice(["add", "mul", "sub"])
            alpha = [("alpha", {"as_int": 1})] if op != "mul" and r.random() < 0.3 else []
            self.nodes.append(
                node(
                    f"torch.ops.aten.{op}.Tensor", [tensor(out)], ("self", x), ("other", y), *alpha
                )
            )
        elif how == 3:
            n = self.name("n")
            self.nodes.append(
                node("torch.ops.aten.sym_size.int", [size(n)], ("self", x), ("dim", {"as_int": 0}))
            )
            self.sizes.append(n)
            return
        elif how == 4 and self.sizes:
            sizes = {"as_sym_ints": [{"as_name": r.choice(self.sizes)}, {"as_int": 2}]}
            self.nodes.append(node("torch.ops.aten.zeros.default", [tensor(out)], ("size", sizes)))
        elif how == 5:
            names = [self.name("t") for _ in range(2)]
            outs = {"as_tensors": [{"name": n} for n in names]}
            self.nodes.append(
                node(
                    "torch.ops.aten.split.Tensor",
                    [outs],
                    ("self", tensor("s_w")),
                    ("split_size", {"as_int": 1}),
                )
            )
            self.tensors += names
            return
        elif how == 6:
            self.add_cond(x, y, out)
        elif how == 7:
            self.add_loop(x, out)
        else:
            names = {"as_tensors": [x["as_tensor"]] * r.choice([1, 2])}
            self.nodes.append(
                node(
                    "torch.ops.aten.cat.default",
                    [tensor(self.name("t"))],
                    ("tensors", names),
                    ("dim", {"as_int": 0}),
                )
            )
            self.nodes.append(node("torch.ops.aten.relu.default", [tensor(out)], ("self", x)))
        self.tensors.append(out)

    def body(self, op: str, n: int = 2) -> Json:
        names = [self.name("g") for _ in range(n)]
        out = self.name("g")
        add = node(
            f"torch.ops.aten.{op}.Tensor",
            [tensor(out)],
            ("self", tensor(names[0])),
            ("other", tensor(names[-1])),
        )
        return {
            "as_graph": {
                "name": self.name("sub"),
                "graph": graph([tensor(x) for x in names], [tensor(out)], [add]),
            }
        }

    def add_cond(self, x: Json, y: Json, out: str) -> None:
        n, b = self.name("n"), self.name("b")
        self.nodes.append(
            node("torch.ops.aten.sym_size.int", [size(n)], ("self", x), ("dim", {"as_int": 0}))
        )
        true = {"as_sym_bool": {"as_name": b}}
        self.nodes.append(node("_operator.gt", [true], ("", size(n)), ("", {"as_int": 1})))
        operands = {"as_tensors": [x["as_tensor"], y["as_tensor"]]}
        args = ("", true), ("", self.body("add")), ("", self.body("mul")), ("", operands)
        self.nodes.append(
            node("torch.ops.higher_order.cond", [{"as_tensors": [{"name": out}]}], *args)
        )
        self.sizes.append(n)

    def add_loop(self, x: Json, out: str) -> None:
        g, s, b = self.name("g"), self.name("g"), self.name("g")
        total = node("torch.ops.aten.sum.default", [tensor(s)], ("self", tensor(g)))
        less = node(
            "torch.ops.aten.lt.Scalar",
            [tensor(b)],
            ("self", tensor(s)),
            ("other", {"as_float": 9.0}),
        )
        cond = {
            "as_graph": {
                "name": self.name("sub"),
                "graph": graph([tensor(g)], [tensor(b)], [total, less]),
            }
        }
        g, o = self.name("g"), self.name("g")
        more = node(
            "torch.ops.aten.add.Scalar",
            [tensor(o)],
            ("self", tensor(g)),
            ("other", {"as_float": 1.0}),
        )
        body = {
            "as_graph": {"name": self.name("sub"), "graph": graph([tensor(g)], [tensor(o)], [more])}
        }
        args = (
            ("", cond),
            ("", body),
            ("", {"as_tensors": [x["as_tensor"]]}),
            ("", {"as_tensors": []}),
        )
        self.nodes.append(
            node("torch.ops.higher_order.while_loop", [{"as_tensors": [{"name": out}]}], *args)
        )

    def add_outputs(self) -> Json:
        r = self.rng
        if r.random() < 0.3:
            new = self.name("t")
            self.nodes.append(
                node(
                    "torch.ops.aten.add.Scalar",
                    [tensor(new)],
                    ("self", tensor("s_b")),
                    ("other", {"as_int": 1}),
                )
            )
            self.outputs.append(tensor(new))
            self.output_specs.append(
                {"buffer_mutation": {"arg": {"name": new}, "buffer_name": "b"}}
            )
        leaves = []
        for _ in range(r.choice([1, 1, 2, 3])):
            arg = r.choice(
                [tensor(r.choice(self.tensors))] * 4
                + ([size(r.choice(self.sizes))] if self.sizes else [])
                + [{"as_int": 5}]
            )
            self.outputs.append(arg)
            self.output_specs.append({"user_output": {"arg": arg}})
            leaves.append(copy.deepcopy(LEAF))
        if len(leaves) == 1 and r.random() < 0.5:
            return leaves[0]
        keys = json.dumps([f"o{i}" for i in range(len(leaves))])
        kind, context = r.choice(
            [("tuple", "null"), ("tuple", "null"), ("list", "null"), ("dict", keys)]
        )
        return spec_of(f"builtins.{kind}", context, leaves)

    def model(self) -> Json:
        signature = {
            "inputs": [],
            "outputs": [],
            "in_spec": [1, self.in_spec],
            "out_spec": [1, self.out_spec],
            "forward_arg_names": self.arg_names,
        }
        return {
            "graph_module": {
                "graph": graph(self.inputs, self.outputs, self.nodes),
                "signature": {"input_specs": self.specs, "output_specs": self.output_specs},
                "module_call_graph": [{"fqn": "", "signature": signature}],
                "metadata": {},
                "treespec_namedtuple_fields": {},
            },
            "opset_version": {"aten": 10},
            "range_constraints": {},
            "schema_version": {"major": 8, "minor": 20},
            "verifiers": ["TRAINING"],
            "torch_version": "2.13.0",
            "guards_code": [],
        }


def spec_of(kind: str, context: str, children: list[Json]) -> Json:
    return {"type": kind, "context": context, "children_spec": children}


# -- Places in a model
# --------------------------------------------------------------------------------------------------


def places(j: Json) -> Iterator[tuple[Any, Any]]:
    """Each (container, key) below j."""
    items = j.items() if isinstance(j, dict) else enumerate(j) if isinstance(j, list) else ()
    for k, v in items:
        yield j, k
        yield from places(v)


def unions(j: Json) -> list[tuple[Any, Any]]:
    """The places that hold {"as_...": ...}."""
    return [
        (c, k)
        for c, k in places(j)
        if isinstance(c[k], dict) and any(str(x).startswith("as_") for x in c[k])
    ]


def names(j: Json) -> list[tuple[Any, Any]]:
    return [
        (c, k)
        for c, k in places(j)
        if isinstance(k, str) and k.endswith("name") and isinstance(c[k], str)
    ]


def trees(spec: Json) -> list[Json]:
    return [spec, *(t for c in spec["children_spec"] for t in trees(c))]


ODD_UNIONS = [
    {"as_int": 1},
    {"as_int": BAIT},
    {"as_float": 1.5},
    {"as_bool": True},
    {"as_none": True},
    {"as_string": "s\0a"},
    {"as_ints": [1, BAIT]},
    {"as_tensors": [{"name": "s_w"}]},
    {"as_tensors": []},
    {"as_tensor": {"name": "s_b"}},
    {"as_sym_int": {"as_name": "n1"}},
    {"as_sym_int": {"as_int": 2}},
    {"as_sym_float": {"as_name": "n1"}},
    {"as_sym_bool": {"as_bool": False}},
    {"as_sym_ints": [{"as_int": BAIT}]},
    {"as_optional_tensor": {"as_none": True}},
    {"as_optional_tensors": [{"as_none": True}, {"as_tensor": {"name": "s_w"}}]},
    {"as_strings": ["sa"]},
    {"as_floats": [1.5]},
    {"as_bools": [True]},
    {"as_scalar_type": 99},
    {"as_layout": 7},
    {"as_device": {"type": "cpu", "index": 3}},
    {"as_int_lists": [[1], []]},
    {"as_nested_tensors": [[{"name": "s_w"}]]},
    {"as_complex": {"real": 1.0, "imag": 2.0}},
    {},
]


# -- Lies
# --------------------------------------------------------------------------------------------------


def other_union(r: random.Random, e: Export, m: Json) -> None:
    """A value of another kind, in the graph, the signature or both."""
    c, k = r.choice(unions(m["graph_module"]))
    c[k] = copy.deepcopy(
        r.choice(
            [r.choice(ODD_UNIONS), r.choice(unions(m["graph_module"]))[0].get("arg", {"as_int": 1})]
        )
    )


def other_kind(r: random.Random, e: Export, m: Json) -> None:
    """The same name under another kind: a tensor is a size, one tensor is a list."""
    c, k = r.choice([(c, k) for c, k in unions(m["graph_module"])])
    name = json.dumps(c[k])
    known = [n for n in e.tensors + e.sizes if f'"{n}"' in name]
    n = r.choice(known or e.tensors)
    c[k] = r.choice([
        tensor(n), size(n), {"as_sym_bool": {"as_name": n}}, {"as_sym_float": {"as_name": n}},
        {"as_tensors": [{"name": n}] * r.choice([1, 2, 20])},
        {"as_optional_tensor": {"as_tensor": {"name": n}}}, {"as_sym_ints": [{"as_name": n}]},
        {"as_optional_tensors": [{"as_tensor": {"name": n}}]},
    ])  # fmt: skip


def other_name(r: random.Random, e: Export, m: Json) -> None:
    c, k = r.choice(names(m["graph_module"]))
    other, key = r.choice(names(m["graph_module"]))
    c[k] = r.choice([other[key], other[key], c[k] + "\0a", "", "x" * 5000, "w\0", "zz"])


def other_target(r: random.Random, e: Export, m: Json) -> None:
    n = r.choice(e.nodes)
    n["target"] = r.choice([
        r.choice(e.nodes)["target"], "torch.ops.aten.max.dim", "torch.ops.aten.item.default",
        "torch.ops.aten._assert_scalar.default",
        "torch.ops.higher_order.cond", "torch.ops.higher_order.while_loop",
        "torch.ops.higher_order.map_impl", "torch.ops.aten.add_.Tensor",
        "torch.ops.aten.index.Tensor", "_operator.add", "_operator.getitem", "torch.sym_ite",
        "torch.sym_int", "torch.ops.aten.sym_size.int",
        "torch.ops.aten.split.Tensor", "torch.ops.aten.tensor_split.sections",
        "torch.ops.higher_order.wrap_with_set_grad_enabled",
        "torch.ops.higher_order.scan", "torch.ops.higher_order.with_effects",
        "torch.ops.prim.device.default", "torch.ops.aten.resize_.default",
    ])  # fmt: skip


def other_count(r: random.Random, e: Export, m: Json) -> None:
    """One item less or more in any array."""
    found = [c[k] for c, k in places(m["graph_module"]) if isinstance(c[k], list)]
    a = r.choice([x for x in found if x] or found)
    i = r.randrange(len(a)) if a else 0
    how = r.randrange(4)
    if how == 0:
        del a[i : i + 1]
    elif how == 1:
        a.insert(i, copy.deepcopy(a[i]) if a else {})
    elif how == 2:
        a.reverse()
    else:
        a.clear()


def in_spec(r: random.Random, e: Export, m: Json) -> None:
    bend(r, r.choice(trees(e.in_spec)))


def argument_spec(r: random.Random, e: Export, m: Json) -> None:
    """The two trees at the top: positional arguments and those with names."""
    bend(r, r.choice([e.in_spec, *e.in_spec["children_spec"]]))


def out_spec(r: random.Random, e: Export, m: Json) -> None:
    bend(r, r.choice(trees(e.out_spec)))


def bend(r: random.Random, t: Json) -> None:
    how = r.randrange(8)
    children = t["children_spec"]
    if how == 0:
        t["type"] = r.choice(
            [
                "builtins.list",
                "builtins.tuple",
                "builtins.dict",
                "collections.OrderedDict",
                "collections.namedtuple",
                "collections.defaultdict",
                "collections.deque",
                "builtins.set",
                None,
                5,
                "torch.Size",
                "my.Class",
            ]
        )
    elif how == 1:
        t["context"] = r.choice(
            [
                "null",
                None,
                "[]",
                "[1, 2]",
                '["k0"]',
                '["k0", "k0"]',
                '"s"',
                "5",
                "{}",
                "[null]",
                "[[1]]",
                '["a\\u0000b"]',
                '["k0", "k1", "k2"]',
                "not json",
                '{"key": ["k0"]}',
                "[true]",
                "[1.5]",
                "[" * 100,
            ]
        )
    elif how == 2 and children:
        children.pop(r.randrange(len(children)))
    elif how == 3:
        children.append(
            copy.deepcopy(
                r.choice(
                    [
                        LEAF,
                        spec_of("builtins.tuple", "null", []),
                        spec_of("builtins.dict", '["k"]', [LEAF]),
                    ]
                )
            )
        )
    elif how == 4:
        t.clear()
        t.update(copy.deepcopy(LEAF))
    elif how == 5:
        inside = dict(t)
        t.clear()
        t.update(spec_of(r.choice(["builtins.tuple", "builtins.list"]), "null", [inside]))
    elif how == 6:
        t["children_spec"] = r.choice([None, 5, {}, [None], [[]], "s", children * 3])
    else:
        children.reverse()


def weights(r: random.Random, e: Export, m: Json) -> None:
    """Weights whose sizes, types, names or files are others."""
    name = r.choice(list(e.weights))
    w = e.weights[name]
    how = r.randrange(7)
    if how == 0:
        e.weights[name + "\0a"] = copy.deepcopy(w)
    elif how == 1:
        w["tensor_meta"]["dtype"] = r.choice([0, 1, 4, 5, 8, 11, 12, 13, 44, -1, 2**31, BAIT])
    elif how == 2:
        i = {"as_int": r.choice([0, 1, 3, -1, 2**62, BAIT])}
        w["tensor_meta"][r.choice(["sizes", "strides"])] = r.choice([[i], [i, i], [], [i] * 70])
    elif how == 3:
        w["tensor_meta"]["storage_offset"] = {"as_int": r.choice([1, 4, -1, 2**62, BAIT])}
    elif how == 4:
        w["path_name"] = r.choice(["w1", "w0", "", "../w0", "w0\0", "model_weights_config.json"])
    elif how == 5:
        w["use_pickle"] = True
    else:
        del e.weights[name]


def spec_kinds(r: random.Random, e: Export, m: Json) -> None:
    """An input or output spec of another kind."""
    kinds = [
        "user_input",
        "parameter",
        "buffer",
        "tensor_constant",
        "custom_obj",
        "token",
        "constant_input",
    ]
    outs = [
        "user_output",
        "loss_output",
        "buffer_mutation",
        "user_input_mutation",
        "gradient_to_parameter",
        "token",
        "parameter_mutation",
    ]
    specs, choices = (e.specs, kinds) if r.random() < 0.5 else (e.output_specs, outs)
    spec = r.choice(specs)
    (kind, inside), *_ = spec.items()
    del spec[kind]
    inside = dict(inside)
    n = r.choice([*e.tensors, *e.sizes, "b", "w"])
    for key in ("buffer_name", "parameter_name", "user_input_name", "tensor_constant_name"):
        if r.random() < 0.5:
            inside[key] = r.choice([n, "b", "w"])
    if r.random() < 0.3:
        inside["value"] = copy.deepcopy(r.choice(ODD_UNIONS))
    spec[r.choice(choices)] = inside


def other_json(r: random.Random, e: Export, m: Json) -> None:
    """Any value of the model replaced by any other of it."""
    c, k = r.choice(list(places(m["graph_module"])))
    other, key = r.choice(list(places(m["graph_module"])))
    c[k] = copy.deepcopy(r.choice([other[key], other[key], None, [], {}, BAIT, -1, "s", True, 1.5]))


def constraints(r: random.Random, e: Export, m: Json) -> None:
    n = r.choice(e.sizes or ["n1"])
    m["range_constraints"] = {
        n: r.choice(
            [
                {"min_val": 5, "max_val": 1},
                {"min_val": BAIT, "max_val": None},
                {"min_val": -1, "max_val": 2},
                None,
            ]
        )
    }
    m["guards_code"] = [r.choice([
        "L['a0'].size()[0] == 2", "L['a0'].size()[9] == 2", "L['zz'].size()[0] == 2",
        "not " * 3000 + "True", "(" * 2000 + "1" + ")" * 2000,
        "L['a0']", "L['a0'] + 1", "1 // 0 == 1", "2 ** 62 * 8 == 0", "L['a1'][0] == 1", "", "L[",
        "x" * 10000, "1 < 2 < 3 < 4" + " < 5" * 1000,
        "L['a0'].size()[-1] % 0 == 0", "L['a0'].stride()[0] == 2",
        "-9223372036854775808 // -1 == 0", "True and " * 2000 + "True",
    ])]  # fmt: skip


def arguments(r: random.Random, e: Export, m: Json) -> None:
    """Other arguments than the spec wants."""
    i = r.randrange(len(e.args))
    other = [
        "1",
        "None",
        "[1]",
        "(1,2)",
        "{'k0':1}",
        "'s'",
        "randn(3)",
        "randn(2,2)",
        "[]",
        "()",
        "{}",
        "zz=1",
        "key0=1",
        "1.5",
        "True",
    ]
    how = r.randrange(4)
    if how == 0:
        head, eq, _ = e.args[i].partition("=")
        e.args[i] = (head + eq if eq and head.isidentifier() else "") + r.choice(other[:11])
    elif how == 1:
        del e.args[i]
    elif how == 2:
        e.args.append(r.choice(other))
    else:
        e.args.reverse()


LIES: list[tuple[Callable[[random.Random, Export, Json], None], int]] = [
    (other_union, 3), (other_kind, 3), (other_name, 3), (other_target, 3), (other_count, 3),
    (in_spec, 3), (argument_spec, 2), (out_spec, 2),
    (weights, 3), (spec_kinds, 3), (other_json, 3), (constraints, 2), (arguments, 3),
]  # fmt: skip


def case(seed: int) -> Case:
    r = random.Random(seed)
    e = Export(r)
    m = e.model()
    kinds = []
    for _ in range(r.choice([0, 1, 1, 1, 1, 2, 2, 3])):
        f = r.choices([f for f, _ in LIES], [w for _, w in LIES])[0]
        try:
            f(r, e, m)
        except (
            KeyError,
            IndexError,
            AttributeError,
            TypeError,
            ValueError,
        ):  # an earlier lie took what this one bends
            continue
        kinds.append("pt2 " + f.__name__)
    with_texts(m)
    records = {
        "m/archive_format": b"pt2",
        "m/archive_version": b"0",
        "m/byteorder": b"little",
        "m/.data/version": b"3",
        "m/models/model.json": json.dumps(m).encode(),
        "m/data/weights/model_weights_config.json": json.dumps({"config": e.weights}).encode(),
        "m/data/constants/model_constants_config.json": b'{"config": {}}',
        "m/data/weights/w0": struct.pack("<4f", 1, 2, 3, 4),
        "m/data/weights/w1": pickled([1]) if r.random() < 0.1 else struct.pack("<2f", 1, 2),
    }
    return Case(seed, kinds or ["pt2"], records, e.args, None, ".pt2", honest=not kinds)


def with_texts(m: Json) -> None:
    """Tree specs are JSON in strings."""
    entries = m["graph_module"].get("module_call_graph")
    for entry in entries if isinstance(entries, list) else []:
        s = entry.get("signature") if isinstance(entry, dict) else None
        if isinstance(s, dict):
            for key in ("in_spec", "out_spec"):
                if not isinstance(s.get(key), str):
                    s[key] = json.dumps(s.get(key))
