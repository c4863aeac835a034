"""Programs exported by torch that together have what an exported program can have: symbolic ints
and floats, sizes known at run time, branches, loops, scans, autocast, mutation, tokens, custom
objects, gradients, results of every kind, every higher-order operator that torch.export.save writes
on a CPU, names that Python reserves.  `make(name)` returns an ExportedProgram; `NAMES` are all.

    python tests/python/exported_programs.py FOLDER             save them there
    python tests/python/exported_programs.py --small FOLDER     without metadata, compressed, with
                                        what torch prints, as tests/data/exports has them
"""

from __future__ import annotations

import io
import json
import pathlib
import sys
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op
from torch._higher_order_ops.foreach_map import foreach_map
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.inline_asm_elementwise import inline_asm_elementwise
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.print import print as print_values
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.strict_mode import strict_mode
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim, ExportedProgram, export
from torch.export.experimental import _export_forward_backward
from torch.fx.traceback import annotate

PROGRAMS: dict[str, Callable[[], ExportedProgram]] = {}
AUTO = {0: Dim.AUTO}


def program(make: Callable[[], ExportedProgram]) -> Callable[[], ExportedProgram]:
    PROGRAMS[make.__name__] = make
    return make


class Code(nn.Module):
    """A module of a function (self, *args, **kwargs) and buffers."""

    def __init__(self, code: Callable[..., Any], buffers: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.code = code
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.code(self, *args, **kwargs)


def exported(code: Callable[..., Any], *args: Any, **options: Any) -> ExportedProgram:
    buffers = options.pop("buffers", {})
    return export(Code(code, buffers), args, options.pop("kwargs", None), **options)


X = torch.arange(12.0).reshape(3, 4)


@program
def symbolic_floats() -> ExportedProgram:
    def code(m: Any, x: Any) -> Any:
        n = x.shape[0]
        return x * (n**0.5) + x / (n / 3) + x * n

    return exported(code, X, dynamic_shapes=((AUTO,),))


@program
def items() -> ExportedProgram:
    def code(m: Any, x: Any) -> Any:
        k = x.item()
        torch._check(k >= 2)
        torch._check(k < 20)
        return torch.zeros(k) + 1, torch.ones(k * 2, 3)

    return exported(code, torch.tensor(5))


@program
def float_items() -> ExportedProgram:
    return exported(lambda m, x: torch.zeros(3) + x.item(), torch.tensor(5.5))


@program
def nonzero() -> ExportedProgram:
    def code(m: Any, x: Any) -> Any:
        y = x.nonzero()
        n = y.shape[0]
        torch._check(n >= 1)
        return y + 1, y.reshape(n), torch.ones(n + 1, 2 * n)

    return exported(code, torch.tensor([0, 1, 2]))


@program
def constant_results() -> ExportedProgram:
    def code(m: Any, x: Any) -> Any:
        return x, x.shape[0], x.shape[0] * 2 + 1, 3, 2.5, None, True

    return exported(code, X, dynamic_shapes=((AUTO,),))


@program
def keywords() -> ExportedProgram:
    def code(
        m: Any, x: Any, *, y: Any, flag: bool = True, name: str = "q", scale: float = 2.0
    ) -> Any:
        return {"a": x + y, "b": [x * scale, (y,)]}

    return exported(code, X, kwargs={"y": X, "flag": True, "name": "it's", "scale": 3.0})


@program
def branches() -> ExportedProgram:
    def code(m: Any, x: Any) -> Any:
        def yes(a: Any) -> Any:
            return torch.cond(a.sum() > 1, lambda q: q + m.b, lambda q: q - 1, (a,))

        y = torch.cond(x.sum() > 0, yes, lambda a: a * 2, (x,))
        return torch.cond(y.sum() > 0, lambda a: (a + 1, a * 2), lambda a: (a.cos(), a.sin()), (y,))

    return exported(code, X, buffers={"b": torch.ones(3, 4)})


@program
def loops() -> ExportedProgram:
    def code(m: Any, i: Any, x: Any) -> Any:
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 2), (i, x))

    return exported(code, torch.tensor(0), X)


@program
def scans() -> ExportedProgram:
    def code(m: Any, start: Any, x: Any) -> Any:
        last, all_of = scan(lambda c, a: (c + a, c * a), start, x, dim=0)
        sums = associative_scan(lambda a, b: a + b, x, dim=0, combine_mode="generic")
        return last, all_of, sums, map_over(lambda a, b: a * b + 1, x, start)

    return exported(code, torch.zeros(4), X)


@program
def regions() -> ExportedProgram:
    def code(m: Any, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.t()
        with torch.no_grad():
            return y.float() + 1

    return exported(code, X)


def _mutation(m: Any, x: Any) -> Any:
    m.b.add_(1)
    x.mul_(2)
    m.n.copy_(x.sum())
    return x + m.b


@program
def mutation() -> ExportedProgram:
    return exported(_mutation, X + 1, buffers={"b": torch.zeros(4), "n": torch.zeros(())})


@program
def mutation_named() -> ExportedProgram:
    return mutation().run_decompositions()


@program
def several_results() -> ExportedProgram:
    def code(m: Any, x: Any) -> Any:
        values, places = x.topk(2)
        a, b, _ = x.split(1)
        return values, places, a + b, x.max(dim=0)[0], torch.linalg.svd(x)[1], torch.unique(x)

    return exported(code, X)


@program
def indexing() -> ExportedProgram:
    def code(m: Any, x: Any, i: Any) -> Any:
        y = x.clone()
        y[i] = 0
        y[:, 1:2] = 3
        return x[:, None, i], x[i, :1], y, torch.where(x > 0)[0]

    return exported(code, X, torch.tensor([0, 2]))


@program
def numbers_and_options() -> ExportedProgram:
    def code(m: Any, x: Any) -> Any:
        return (
            x * torch.full((3,), float("inf")) + torch.full((3,), float("nan")),
            torch.full((2,), 1e-30),
            torch.full((2,), 2 + 3j),
            x.to(memory_format=torch.channels_last),
            torch.zeros(2, dtype=torch.float16, device="cpu"),
            torch.empty_like(x, memory_format=torch.preserve_format).shape,
            torch.einsum("abcd,abcd->a", x, x),
            nn.functional.pad(x, (1, 1), mode="constant", value=-float("inf")),
        )

    return exported(code, torch.randn(1, 2, 3, 3))


@program
def derived_sizes() -> ExportedProgram:
    rows = Dim("rows", min=2, max=40)

    def code(m: Any, x: Any, y: Any) -> Any:
        return x[1:] + y, x.repeat(2, 1), torch.cat([x, y]), x.shape[0] // 3 * y.shape[0] % 7

    shapes = (({0: rows}, {0: rows - 1}),)
    return exported(code, torch.randn(6, 4), torch.randn(5, 4), dynamic_shapes=shapes)


@program
def formulas_of_sizes() -> ExportedProgram:
    def code(m: Any, x: Any, y: Any) -> Any:
        a, b = x.shape
        return (
            x.reshape(a * b)[: a * b // 2],
            x.sum(0)[: b - 1],
            nn.functional.interpolate(x[None, None], scale_factor=2.0),
            nn.functional.max_pool2d(x[None], 3, stride=2, padding=1),
            torch.arange(a + b),
            y.view(a, -1),
        )

    both = {0: Dim.AUTO, 1: Dim.AUTO}
    shapes = ((both, {0: Dim.AUTO, 2: Dim.AUTO}),)
    return exported(code, torch.randn(6, 8), torch.randn(6, 3, 4), dynamic_shapes=shapes)


@program
def extremes() -> ExportedProgram:
    """Some are decided when the file is read."""

    def code(m: Any, x: Any) -> Any:
        n = x.shape[0]
        most = torch.sym_max(torch.sym_max(n * 2, 4), 6)
        return torch.ones(torch.sym_min(16, n * 16)), torch.ones(torch.sym_max(n, 3) + 1, most)

    return exported(code, X, dynamic_shapes=((AUTO,),))


@program
def reserved_names() -> ExportedProgram:
    class Names(nn.Module):
        def forward(self, input: Any, max: Any, device: Any) -> Any:
            return input.sum() + max.max() + device

    return export(Names(), (torch.randn(3), torch.randn(3), torch.randn(())))


@program
def annotated() -> ExportedProgram:
    class Annotated(nn.Module):
        def forward(self, x: Any) -> Any:
            with annotate({"stage": 1, "note": "x" * 60, "parts": [1, None, True, "it's"]}):
                y = x + 1
            return y * 2

    return export(Annotated(), (X,))


@program
def state() -> ExportedProgram:
    class State(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(5, 4)
            self.linear = nn.Linear(4, 5, bias=False)
            self.linear.weight = self.embedding.weight
            self.constant = torch.tensor([1.0, 2.0])
            self.register_buffer("scratch", torch.ones(2), persistent=False)

        def forward(self, i: Any) -> Any:
            return self.linear(self.embedding(i)), self.constant * self.scratch

    return export(State(), (torch.tensor([1, 2]),))


@program
def gradients() -> ExportedProgram:
    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 2)

        def forward(self, x: Any, y: Any) -> Any:
            return nn.functional.mse_loss(self.linear(x), y)

    made = export(Loss(), (X, torch.randn(3, 2)))
    return _export_forward_backward(made.run_decompositions())


LIBRARY = torch.library.Library("rushlight_texts", "FRAGMENT")


@program
def tokens() -> ExportedProgram:
    if not hasattr(torch.ops.rushlight_texts, "say"):
        LIBRARY.define("say(Tensor x) -> Tensor")
        LIBRARY.impl("say", lambda x: x.clone(), "CompositeExplicitAutograd")
        LIBRARY.impl("say", torch.empty_like, "Meta")
        _register_effectful_op(torch.ops.rushlight_texts.say.default, _EffectType.ORDERED)
    say = torch.ops.rushlight_texts.say
    return exported(lambda m, x: say(x) + say(x * 2), X).run_decompositions()


@program
def samples() -> ExportedProgram:
    return exported(lambda m, x, y: torch.vmap(lambda a: a @ y + a.sum())(x), X, torch.randn(4, 2))


@program
def kept_calls() -> ExportedProgram:
    class Inner(nn.Module):
        def forward(self, x: Any, k: int = 2) -> Any:
            return x * k

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = Inner()
            self.b = nn.Sequential(Inner(), nn.Linear(4, 3))

        def forward(self, x: Any) -> Any:
            return self.b(self.a(x, k=3))

    return export(Outer(), (X,), preserve_module_call_signature=("a", "b.0"))


@program
def from_bytecode() -> ExportedProgram:
    return exported(lambda m, x: x.relu() + 1, X, strict=True)


@program
def parameter_mutation() -> ExportedProgram:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = nn.Parameter(torch.ones(4))

        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                self.calls.add_(1)
            return x * self.calls

    return export(Counts(), (X,))


@program
def parameter_mutation_named() -> ExportedProgram:
    return parameter_mutation().run_decompositions()


@program
def numbers_given() -> ExportedProgram:
    def code(m: Any, x: Any, n: int, b: bool, f: float, none: None) -> Any:
        return x * n if b else x, torch.ones(n + 1) * f, n * 2

    shapes = ((None, Dim.AUTO, None, None, None),)
    return exported(code, X, 5, True, 2.5, None, dynamic_shapes=shapes)


@program
def no_inputs() -> ExportedProgram:
    return exported(lambda m: torch.arange(3))


@program
def odd_weights() -> ExportedProgram:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            base = torch.arange(30.0).reshape(6, 5)
            self.register_buffer("turned", base.t())
            self.register_buffer("part", base[2:, 1:3])
            self.register_buffer("empty", torch.ones(0, 3))
            self.register_buffer("number", torch.tensor(3))
            self.register_buffer("short", torch.ones(3, dtype=torch.bfloat16))
            self.register_buffer("conjugate", torch.ones(3, dtype=torch.complex64).conj())
            self.complex = nn.Parameter(torch.ones(3, dtype=torch.complex64))

        def forward(self, x: Any) -> Any:
            rest = self.turned.sum() + self.part.sum() + self.empty.sum() + self.short.sum()
            return x + rest + self.number, self.complex, self.conjugate

    return export(Odd(), (X,))


@torch.compiler.nested_compile_region
def _region(a: Any, b: Any) -> Any:
    return a * b + 1


@program
def subgraphs() -> ExportedProgram:
    return exported(lambda m, x: _region(x, x) + _region(x, x * 2), X)


@program
def hints() -> ExportedProgram:
    def code(m: Any, x: Any) -> Any:
        return hints_wrapper(lambda a: a + 1, (x,), {}, hints={"fast": True, "n": 3})

    return exported(code, X, strict=True)


@program
def dtypes_of_results() -> ExportedProgram:
    def code(m: Any, x: Any, y: Any) -> Any:
        return out_dtype(torch.ops.aten.mm.default, torch.int32, x, y)

    return exported(code, torch.ones(3, 4, dtype=torch.int8), torch.ones(4, 3, dtype=torch.int8))


@program
def printing() -> ExportedProgram:
    def code(m: Any, x: Any) -> Any:
        print_values("x is {x}", x=x)
        return x + 1

    return exported(code, X)


@program
def strictly() -> ExportedProgram:
    return exported(lambda m, x: strict_mode(lambda a: a.sin() + 1, (x,)), X)


class _Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2


@program
def own_gradients() -> ExportedProgram:
    return exported(lambda m, x: _Twice.apply(x) + 1, X, strict=True)


def _define_writers() -> None:
    if hasattr(torch.ops.rushlight_texts, "add_to"):
        return

    def add_all(xs: Any, k: int) -> None:
        for x in xs:
            x.add_(k)

    for name, takes, impl in (
        ("add_to", "Tensor(a!) x, int k", lambda x, k: (x.add_(k), None)[1]),
        ("add_all", "Tensor(a!)[] xs, int k", add_all),
    ):
        LIBRARY.define(f"{name}({takes}) -> ()")
        LIBRARY.impl(name, impl, "CompositeExplicitAutograd")
        LIBRARY.impl(name, lambda x, k: None, "Meta")


@program
def functional_mutation() -> ExportedProgram:
    _define_writers()

    def code(m: Any, x: Any) -> Any:
        y = x.clone()
        torch.ops.rushlight_texts.add_to(y, 2)
        return y + 1

    return exported(code, X).run_decompositions()


@program
def functional_mutation_of_views() -> ExportedProgram:
    _define_writers()

    def code(m: Any, x: Any) -> Any:
        y = x.clone()
        torch.ops.rushlight_texts.add_to(y[1:], 2)
        torch.ops.rushlight_texts.add_to(y.t()[2:], 5)
        torch.ops.rushlight_texts.add_all([y[0], x.sin()], 3)
        return y + 1

    return exported(code, X).run_decompositions()


@program
def functional_mutation_by_name() -> ExportedProgram:
    """As before PyTorch 2.6: what is written to is an argument, not a view of a base."""

    def change(module: dict[str, Any], records: dict[str, bytes]) -> None:
        node = next(n for n in module["graph"]["nodes"] if "functionalized" in n["target"])
        operator, k, _, bases = node["inputs"]
        node["target"] = "torch.ops.higher_order.auto_functionalized"
        written = {"name": "x", "arg": {"as_tensor": bases["arg"]["as_tensors"][0]}, "kind": 2}
        node["inputs"] = [operator, written, k]

    return edited(functional_mutation(), change)


@program
def lists_mapped() -> ExportedProgram:
    return exported(lambda m, x: foreach_map(torch.add, [x, x], [x, x * 2]), X, strict=True)


@program
def stacked_loops() -> ExportedProgram:
    loop = torch.ops.higher_order.while_loop_stack_output

    def code(m: Any, i: Any, x: Any) -> Any:
        return loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (i, x), ())

    return exported(code, torch.tensor(0), X, strict=True)


@program
def saved_generators() -> ExportedProgram:
    rand = torch.ops.aten.rand_like.default
    return exported(lambda m, x: torch.ops.higher_order.run_and_save_rng_state(rand, x), X)


@program
def assembly() -> ExportedProgram:
    """Runs on a GPU only."""
    how = {"asm_str": "x", "constraints": "=r,r", "dtype": torch.float32}
    return exported(lambda m, x: inline_asm_elementwise(x, **how), X)


def edited(
    made: ExportedProgram, change: Callable[[dict[str, Any], dict[str, bytes]], None]
) -> ExportedProgram:
    """The program after a change of its JSON and its records: for what export itself refuses."""
    before, after = io.BytesIO(), io.BytesIO()
    torch.export.save(made, before)
    with zipfile.ZipFile(before) as z:
        records = {name.split("/", 1)[1]: z.read(name) for name in z.namelist()}
    model = json.loads(records["models/model.json"])
    change(model["graph_module"], records)
    records["models/model.json"] = json.dumps(model).encode()
    with zipfile.ZipFile(after, "w") as z:
        for name, data in records.items():
            z.writestr(f"archive/{name}", data)
    after.seek(0)
    return torch.export.load(after)


@program
def input_gradients() -> ExportedProgram:
    def change(module: dict[str, Any], records: dict[str, bytes]) -> None:
        specs = module["signature"]["output_specs"]
        loss, gradient = (spec["user_output"]["arg"]["as_tensor"] for spec in specs)
        name = module["graph"]["inputs"][0]["as_tensor"]["name"]
        specs[0] = {"loss_output": {"arg": loss}}
        specs[1] = {"gradient_to_user_input": {"arg": gradient, "user_input_name": name}}
        call = module["module_call_graph"][0]["signature"]  # returns the loss
        version, tree = json.loads(call["out_spec"])
        tree["children_spec"].pop()
        call["out_spec"] = json.dumps([version, tree])

    return edited(exported(lambda m, x: ((x * x).sum(), x * 2), X), change)


@program
def custom_objects() -> ExportedProgram:
    """A packed weight: export itself takes only objects that are flattened by their library."""
    weight = torch.quantize_per_tensor(torch.ones(2, 4), 0.1, 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(weight, None)
    one = {"name": "obj_packed", "class_fqn": packed._type().qualified_name()}

    def change(module: dict[str, Any], records: dict[str, bytes]) -> None:
        graph = module["graph"]
        graph["inputs"].insert(0, {"as_custom_obj": one})
        graph["custom_obj_values"] = {one["name"]: one}
        spec = {"custom_obj": {"arg": one, "custom_obj_name": "packed"}}
        module["signature"]["input_specs"].insert(0, spec)
        node = graph["nodes"][0]
        node["target"] = "torch.ops.quantized.linear_dynamic.default"
        node["inputs"] = [
            {"name": "X", "arg": node["inputs"][0]["arg"], "kind": 1},
            {"name": "W_prepack", "arg": {"as_custom_obj": one}, "kind": 1},
        ]
        records["data/constants/custom_obj_0"] = torch._C._pickle_save(packed)
        entry = {"path_name": "custom_obj_0", "is_param": False, "use_pickle": True}
        config = {"config": {"packed": entry | {"tensor_meta": None}}}
        records["data/constants/model_constants_config.json"] = json.dumps(config).encode()

    return edited(exported(lambda m, x: x.relu(), X), change)


NAMES = list(PROGRAMS)


def make(name: str) -> ExportedProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PROGRAMS[name]()


def without_metadata(part: Any) -> Any:
    """The JSON with the metadata of nodes, which names files of the machine, left out."""
    if isinstance(part, dict):
        return {k: {} if k == "metadata" else without_metadata(v) for k, v in part.items()}
    return [without_metadata(item) for item in part] if isinstance(part, list) else part


def smaller(path: pathlib.Path) -> None:
    """Compress the archive, and leave out what is not needed to read the program."""
    with zipfile.ZipFile(path) as z:
        records = {name.split("/", 1)[1]: z.read(name) for name in z.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in records.items():
            if name.startswith("models/"):
                data = json.dumps(without_metadata(json.loads(data))).encode()
            if not name.startswith(".data/"):
                z.writestr(zipfile.ZipInfo(f"m/{name}"), data, zipfile.ZIP_DEFLATED)


def printed(path: pathlib.Path) -> str:
    """What torch prints for an archive that is `smaller`."""
    whole, none = io.BytesIO(path.read_bytes()), io.BytesIO()
    torch.save(((), {}), none)
    with zipfile.ZipFile(whole, "a") as z:
        z.writestr("m/.data/version", "3\n")
        z.writestr("m/data/sample_inputs/model.pt", none.getvalue())
    whole.seek(0)
    return str(torch.export.load(whole))


def main() -> None:
    is_small, folder = "--small" in sys.argv, pathlib.Path(sys.argv[-1])
    for name in NAMES:
        torch.export.save(make(name), folder / f"{name}.pt2")
        if is_small:
            smaller(folder / f"{name}.pt2")
            text = printed(folder / f"{name}.pt2")
            (folder / f"{name}.txt").write_text(text)


if __name__ == "__main__":
    main()
