"""Seeds that are exported programs and saved tensors: made by hand, or by PyTorch if it is
installed (fuzz_seeds.py)."""

from __future__ import annotations

import io
import json
import pathlib
import sys
from collections.abc import Iterator

from fuzz_archives import below_root, sections, wanted

TOP = pathlib.Path(__file__).resolve().parent.parent

# -- What only PyTorch writes
# ------------------------------------------------------------------------------------------


def node(target: str, outputs: list[object], *args: tuple[str, object]) -> dict[str, object]:
    inputs = [{"name": name, "arg": arg} for name, arg in args]
    return {"target": target, "inputs": inputs, "outputs": outputs, "metadata": {}}


def tensor_named(name: str) -> dict[str, object]:
    return {"as_tensor": {"name": name}}


# An argument of each kind, right and wrong.
ARGUMENTS = [
    {"as_bools": [True, False]},
    {"as_strings": ["a", "b"]},
    {"as_floats": [1.5]},
    {"as_ints": [1]},
    {"as_sym_ints": [{"as_int": 1}, {"as_name": "n"}]},
    {"as_sym_floats": [{"as_float": 0.5}, {"as_name": "h"}]},
    {"as_sym_bools": [{"as_bool": True}, {"as_name": "m"}]},
    {"as_optional_tensor": {"as_tensor": {"name": "x"}}},
    {"as_optional_tensor": {"as_none": True}},
    {"as_optional_tensors": [{"as_tensor": {"name": "x"}}, {"as_none": True}] * 9},
    {"as_tensors": [{"name": "x"}] * 20},
    {"as_nested_tensors": [[{"name": "x"}]]},
    {"as_int_lists": [[1], []]},
    {"as_float_lists": [[1.5]]},
    {"as_complex": {"real": 1.0, "imag": 2.0, "more": 0}},
    {"as_device": {"type": "cpu", "index": 1}},
    {"as_memory_format": 99},
    {"as_memory_format": 1},
    {"as_layout": 7},
    {"as_scalar_type": 99},
    {"as_sym_int": {"as_int": 1}},
    {"as_sym_bool": {"as_bool": False}},
    {"as_sym_int": {}},
    {"as_bogus": 1},
]


X, Y = tensor_named("x"), tensor_named("y")
N, H, M = (
    {"as_sym_int": {"as_name": "n"}},
    {"as_sym_float": {"as_name": "h"}},
    {"as_sym_bool": {"as_name": "m"}},
)
ADD = node(
    "torch.ops.aten.add.Tensor",
    [tensor_named("c")],
    ("self", tensor_named("a")),
    ("other", tensor_named("b")),
)
GRAPH = {
    "inputs": [tensor_named("a"), tensor_named("b")],
    "outputs": [tensor_named("c")],
    "nodes": [ADD],
}
BODY = {"as_graph": {"name": "g", "graph": GRAPH}}
SIZE = node("torch.ops.aten.sym_size.int", [N], ("self", X), ("dim", {"as_int": 0}))
HALF = node("_operator.truediv", [H], ("", N), ("", {"as_int": 2}))
MORE = node("_operator.gt", [M], ("", N), ("", {"as_int": 2}))


def higher_order_nodes() -> list[list]:
    """Return operators that take a graph, with the right number of arguments, and with others."""

    def call(name: str, outputs: list[object], *args: object) -> list:
        return [node(f"torch.ops.higher_order.{name}", outputs, *(("", a) for a in args))]

    none, no_tensors = {"as_none": True}, {"as_tensors": []}
    one, two = {"as_tensors": [{"name": "x"}]}, {"as_tensors": [{"name": "x"}, {"name": "x"}]}
    autocast = {"as_string": "cpu"}, {"as_scalar_type": 13}, {"as_bool": True}, none
    return [
        call("associative_scan", [{"as_tensors": [{"name": "y"}]}], BODY, one, no_tensors),
        call("associative_scan", [Y], BODY, no_tensors),
        call("map_impl", [Y], BODY, one, one),
        call("cond", [Y], X, BODY, BODY, two),
        call("cond", [Y], {"as_int": 1}, BODY, BODY, no_tensors),
        call("while_loop", [Y], BODY, BODY, two, no_tensors),
        call(
            "with_effects",
            [tensor_named("t"), Y],
            none,
            {"as_string": "torch.ops.aten.relu.default"},
            X,
        ),
        call("with_effects", [Y], none),
        call("wrap_with_set_grad_enabled", [Y], {"as_bool": False}, BODY, X, X),
        call("wrap_with_set_grad_enabled", [Y]),
        call("wrap_with_autocast", [Y], *autocast, BODY, X, X),
    ]


def symbol_nodes() -> list[list]:
    """Return calculations with sizes."""
    relu = node("torch.ops.aten.relu.default", [Y], ("self", X))
    out_n = {"as_sym_int": {"as_name": "k"}}
    return [
        [
            SIZE,
            HALF,
            MORE,
            node("torch.sym_ite", [out_n], ("", M), ("", N), ("", {"as_int": 7})),
            relu,
        ],
        [SIZE, HALF, MORE, node("torch.sym_ite", [out_n], ("", N), ("", N), ("", H)), relu],
        [SIZE, node("torch.sym_ite", [out_n], ("", N)), relu],
        [
            SIZE,
            node("_operator.pos", [out_n], ("", N)),
            node("torch.sym_int", [{"as_sym_int": {"as_name": "j"}}], ("", N)),
            relu,
        ],
        [
            SIZE,
            HALF,
            node("_operator.add", [H], ("", N), ("", H)),
            node("_operator.neg", [{"as_sym_float": {"as_name": "q"}}], ("", H)),
            relu,
        ],
        [
            SIZE,
            node("_operator.pow", [out_n], ("", N), ("", N)),
            node("_operator.add", [out_n], ("", N)),
            relu,
        ],
        [SIZE, node("_operator.add", [out_n], ("", N), ("", BODY)), relu],
    ]


def operator_nodes() -> list[list]:
    """Return operators with results and arguments that their schemas do not have."""
    return [
        [node("torch.ops.aten.max.dim", [Y], ("self", X), ("dim", {"as_int": 0}))],
        [node("torch.ops.aten.split.Tensor", [Y], ("self", X), ("split_size", {"as_int": 1}))],
        [node("torch.ops.aten.relu.default", [{"as_tensors": [{"name": "y"}]}], ("self", X))],
        [node("torch.ops.aten.mul.Tensor", [Y], ("self", {"as_int": 2}), ("other", X))],
        [
            node(
                "torch.ops.aten.mul.Tensor",
                [Y],
                ("self", X),
                ("other", {"as_complex": {"real": 0.0, "imag": 1.0}}),
            )
        ],
        [
            node(
                "torch.ops.aten.upsample_nearest2d.vec",
                [Y],
                ("input", X),
                ("output_size", {"as_none": True}),
                ("scale_factors", {"as_ints": [2, 2]}),
            )
        ],
        [node("torch.ops.aten.sum.dim_IntList", [Y], ("self", X), ("dim", {"as_int": 0}))],
        [node("torch.ops.aten.cat.default", [Y], ("tensors", {"as_ints": []}))],
        [
            node(
                "torch.ops.aten.dropout.default",
                [Y],
                ("input", X),
                ("p", {"as_int": 0}),
                ("train", {"as_bool": False}),
            )
        ],
        [node("torch.ops.aten.add.Tensor", [Y], ("self", X))],
        [node("torch.ops.aten.add.Tensor", [Y], ("self", X), ("bogus", X))],
        [node("torch.ops.aten.add.Tensor", [Y], ("self", {"as_string": "a"}), ("other", X))],
        [node("torch.ops.aten.__contains__.int_list", [Y], ("l", X))],
        [node("torch.ops.aten.list.t", [Y], ("l", {"as_ints": [1]}))],
        *(
            [SIZE, HALF, MORE, node("torch.ops.foo.bar.default", [Y], ("a", argument))]
            for argument in ARGUMENTS
        ),
    ]


def small_exports() -> Iterator[bytes]:
    """The programs of tests/data/exports as sections: those that libFuzzer can take apart."""
    for path in sorted((TOP / "tests" / "data" / "exports").glob("*.pt2")):
        yield sections("models/model.json", below_root(path.read_bytes()))


def crafted() -> Iterator[bytes]:
    """Return the fixture's program with other nodes: arguments of every kind, operators on symbols,
    rare features."""
    content = {
        k: v
        for k, v in below_root((TOP / "tests" / "data" / "digits.pt2").read_bytes()).items()
        if wanted(k)
    }
    for nodes in [*higher_order_nodes(), *symbol_nodes(), *operator_nodes()]:
        model = json.loads(content["models/model.json"])
        module = model["graph_module"]
        module["graph"] |= {"nodes": nodes, "outputs": [Y], "tensor_values": {}}
        for spec in module["signature"]["output_specs"]:
            spec["user_output"] = {"arg": Y}
        yield sections(
            "models/model.json", content | {"models/model.json": json.dumps(model).encode()}
        )


def exported() -> Iterator[bytes]:
    """Return exported programs with control flow, symbols, autocast; nothing without torch."""
    try:
        import torch
        from torch._higher_order_ops.associative_scan import associative_scan
        from torch._higher_order_ops.map import map as torch_map
        from torch._higher_order_ops.scan import scan
        from torch._higher_order_ops.while_loop import while_loop
    except ImportError:
        return
    batch = torch.export.Dim("b", min=2, max=9)
    x = torch.ones(3, 2)
    half = torch.autocast("cpu", dtype=torch.bfloat16)

    def cast(x: torch.Tensor) -> object:
        with half:
            return x @ x.t(), torch.cat([x, x @ x.t()], 1)

    def symbols(x: torch.Tensor) -> object:
        b = x.size(0)
        y = x.new_zeros(b * 2 + 1, b // 2 + 2), x.new_zeros(torch.sym_max(b, 4))
        return y, b * 0.5, b % 5, torch.sym_float(b), b, -b

    def kinds(x: torch.Tensor) -> object:
        y = torch.cat([x, x]).to(torch.float64, memory_format=torch.contiguous_format)
        z = (
            torch.full([2], 1 + 2j),
            torch.arange(3, dtype=torch.int32),
            x[torch.tensor([0, 1])],
            x[:, [0]],
            x[..., None],
        )
        larger = torch.nn.functional.interpolate(
            x[None, None], scale_factor=[2.0, 1.5], mode="bilinear"
        )
        return y, z, larger, x.sum(), torch.empty_like(x), x.chunk(2)

    programs = [
        (lambda x: torch.cond(x.sum() > 1, lambda a: a + 1, lambda a: a.sin(), (x,)), (x,), None),
        (
            lambda x: while_loop(
                lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (torch.tensor(0), x)
            ),
            (x,),
            None,
        ),
        (lambda x: torch_map(lambda a, k: a + k, x, torch.ones(2)), (x,), None),
        (lambda x: scan(lambda c, a: (c + a, c * a), torch.zeros(2), x), (x,), None),
        (lambda x: associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic"), (x,), None),
        (cast, (x,), None),
        (symbols, (x,), ({0: batch},)),
        (kinds, (x,), None),
        (lambda x: torch.no_grad()(lambda a: a * 2)(x), (x,), None),
        (lambda x, k=2, *, n=None: {"a": x * k, "b": [x, None, 1.5, "s"]}, (x, 3), None),
    ]
    for f, args, dynamic in programs:
        module = type("M", (torch.nn.Module,), {"forward": lambda self, *a, f=f: f(*a)})()
        module.register_buffer("w", torch.ones(2, 2))
        try:
            out = io.BytesIO()
            torch.export.save(
                torch.export.export(
                    module, args, dynamic_shapes=(dynamic,) if dynamic else None, strict=False
                ),
                out,
            )
            content = {
                k: v
                for k, v in below_root(out.getvalue()).items()
                if wanted(k) and not k.startswith("data/sample")
            }
        except Exception as e:  # noqa: BLE001
            print(f"no seed: {str(e).splitlines()[0]}", file=sys.stderr)
            continue
        model = json.loads(content["models/model.json"])
        for node in model["graph_module"]["graph"]["nodes"]:
            node["metadata"] = {}
        content["models/model.json"] = json.dumps(model).encode()
        yield sections("models/model.json", content)


def saved() -> Iterator[bytes]:
    """Return data.pkl of special tensors; nothing without torch."""
    try:
        import torch
    except ImportError:
        return
    x = torch.ones(2, 2)
    values = [
        torch.nn.Parameter(x),
        torch.quantize_per_tensor(x, 0.5, 3, torch.quint8),
        torch.quantize_per_channel(
            x, torch.ones(2), torch.zeros(2, dtype=torch.int64), 0, torch.qint8
        ),
        torch.ones(2, dtype=torch.complex64).conj(),
        torch._neg_view(x),
        torch.ones(2, dtype=torch.uint16),
        x.to(torch.float8_e4m3fn),
        {"a": [x, x[0], torch.float16, torch.device("cpu"), torch.Size([1]), torch.strided]},
        torch.nn.Linear(2, 2).state_dict(),
        torch.nn.Parameter(x).to(torch.bfloat16),
    ]
    for value in values:
        for zipped in (True, False):
            out = io.BytesIO()
            torch.save(value, out, _use_new_zipfile_serialization=zipped)
            if not zipped:
                yield out.getvalue()
                continue
            content = {k: v for k, v in below_root(out.getvalue()).items() if wanted(k)}
            yield sections("data.pkl", content)
            yield sections("data.pkl", content | {"byteorder": b"big"})
