"""Differentiation of graphs: f, df and their numbers; graphs that run with one record have the
recorder's values and gradients, bit for bit, and its second derivatives; what a record of a graph
shares with records of operators."""

from __future__ import annotations

import gc
import pathlib
import random
import re
from typing import Any

import pytest
import rushlight
from rushlight import ir

torch = pytest.importorskip("torch")

CHAIN = """graph(%x : Tensor, %y : Tensor, %w : Tensor):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::mul(%x, %y)
  %b : Tensor = aten::tanh(%a)
  %c : Tensor = aten::add(%b, %x, %one)
  %d : Tensor = aten::mm(%c, %w)
  %e : Tensor = aten::mul(%d, %d)
  return (%e, %c)
"""


def packed(graph: Any, values: list[Any]) -> None:
    if len(values) > 1:
        node = graph.create("prim::TupleConstruct", values, 1)
        node.output().setType(ir.TupleType([v.type() for v in values]))
        values = [graph.insertNode(node).output()]
    graph.registerOutput(values[0])


def both(text: str) -> tuple[Any, Any]:
    """The graph as a function, and as a function of one prim::DifferentiableGraph."""
    plain, inner, outer = ir.parse_ir(text), ir.parse_ir(text), ir.Graph()
    outputs = list(plain.outputs())
    for _ in outputs:
        plain.eraseOutput(0)
    packed(plain, outputs)
    inputs = [outer.addInput() for _ in inner.inputs()]
    for to, of in zip(inputs, inner.inputs(), strict=True):
        to.setType(of.type())
    n = len(list(inner.outputs()))
    node = outer.insertNode(outer.create("prim::DifferentiableGraph", inputs, n))
    node.g_("Subgraph", inner)
    for to, of in zip(node.outputs(), inner.outputs(), strict=True):
        to.setType(of.type())
    packed(outer, list(node.outputs()))
    unit = rushlight.CompilationUnit()
    return unit.create_function("plain", plain), unit.create_function("whole", outer)


def results(function: Any, args: list[Any]) -> list[Any]:
    """Results, gradients and second derivatives."""
    out = function(*args)
    out = list(out) if isinstance(out, tuple) else [out]
    leaves = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    parts = [o for o in out if o.requires_grad]
    first = torch.autograd.grad(
        [o.sin().sum() for o in parts], leaves, create_graph=True, allow_unused=True
    )
    made = [g for g in first if g is not None and g.requires_grad]
    second = torch.autograd.grad([g.sin().sum() for g in made], leaves, allow_unused=True)
    return [*out, *first, *second]


def same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(
        x is y is None or (x is not None and y is not None and torch.equal(x, y))
        for x, y in zip(a, b, strict=True)
    )


def matrices(n: int, dtype: Any = None) -> list[Any]:
    torch.manual_seed(5)
    return [torch.randn(3, 3, dtype=dtype, requires_grad=True) for _ in range(n)]


# -- f and df
# --------------------------------------------------------------------------------------------------


def test_what_is_captured_and_what_is_made_again() -> None:
    g = ir.parse_ir(
        "graph(%x : Float(2, 3, requires_grad=1), %y : Float(3, requires_grad=0)):\n"
        "  %a : Tensor = aten::mul(%x, %y)\n  %b : Tensor = aten::exp(%a)\n  return (%b)"
    )
    made = ir.differentiate(g)
    assert made.f_real_outputs == 1 and made.df_input_vjps == [0]
    assert made.df_input_captured_inputs == [1] and made.df_input_captured_outputs == [0]
    assert made.df_output_vjps == [0]
    assert [n.kind() for n in made.f.nodes()] == ["aten::mul", "aten::exp"]
    assert [n.kind() for n in made.df.nodes()] == ["prim::GradOf"] * 2
    made.f.lint()
    made.df.lint()


def test_the_numbers_are_torchs() -> None:
    text = CHAIN.replace("%w : Tensor", "%w : Float(3, 3, requires_grad=0)")
    ours = ir.differentiate(ir.parse_ir(text))
    theirs = torch._C._jit_differentiate(torch._C.parse_ir(text))
    assert ours.f_real_outputs == theirs.f_real_outputs
    assert ours.df_output_vjps == theirs.df_output_vjps
    assert ours.df_input_captured_inputs == theirs.df_input_captured_inputs
    names = [n.kind() for n in theirs.df.findAllNodes("prim::GradOf")]
    assert [n.kind() for n in ours.df.findAllNodes("prim::GradOf")] == names


def test_sizes_are_captured_as_numbers() -> None:
    g = ir.parse_ir(
        "graph(%x : Tensor, %y : Tensor):\n  %one : int = prim::Constant[value=1]()\n"
        "  %a : Tensor = aten::add(%x, %y, %one)\n  return (%a)"
    )
    made = ir.differentiate(g)
    assert made.df_input_captured_inputs == []
    assert [v.type().annotation_str for v in made.f.outputs()] == [
        "Tensor",
        "List[int]",
        "List[int]",
    ]


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("aten::relu_(%x)", "differentiating a graph with aten::relu_"),
        ("aten::bernoulli(%x, %none)", "differentiating a graph with aten::bernoulli"),
        ("aten::t(%x)", "may share memory"),
        ("aten::_cummax_helper(%x)", "differentiating a graph with aten::_cummax_helper"),
    ],
)
def test_what_is_refused(node: str, message: str) -> None:
    text = "graph(%x : Tensor):\n  %none : NoneType = prim::Constant()\n"
    g = ir.parse_ir(f"{text}  %y : Tensor = {node}\n  return (%y)")
    with pytest.raises((RuntimeError, NotImplementedError), match=message):
        ir.differentiate(g)


# -- Whole graphs that run
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("needed", range(1, 8))
def test_any_set_of_arguments_may_require_gradients(needed: int) -> None:
    plain, whole = both(CHAIN)
    args = matrices(3, torch.double)
    for i, a in enumerate(args):
        a.requires_grad_(bool(needed >> i & 1))
    assert same(results(plain, args), results(whole, args))


@pytest.mark.parametrize("dtypes", [("double", "float"), ("cfloat", "float"), ("float", "cdouble")])
def test_gradients_have_the_arguments_dtypes_and_sizes(dtypes: tuple[str, str]) -> None:
    text = (
        "graph(%x : Tensor, %y : Tensor):\n  %a : Tensor = aten::mul(%x, %y)\n"
        "  %b : Tensor = aten::mul(%a, %x)\n  return (%b)"
    )
    plain, whole = both(text)
    torch.manual_seed(2)
    for shape in [(3, 1), (1, 4), (3, 4), (4,), ()]:
        x = torch.randn(3, 4, dtype=getattr(torch, dtypes[0]), requires_grad=True)
        y = torch.randn(shape, dtype=getattr(torch, dtypes[1]), requires_grad=True)

        def run(function: Any, args: tuple[Any, Any] = (x, y)) -> list[Any]:
            out = function(*args)
            return [out, *torch.autograd.grad(out, args, torch.ones_like(out))]

        got = run(whole)
        assert same(run(plain), got) and [g.dtype for g in got[1:]] == [x.dtype, y.dtype]


def test_contributions_are_added_in_the_recorders_order() -> None:
    lines = [f"  %a{i} : Tensor = aten::mul(%x, %y{i})" for i in range(6)]
    lines += ["  %s0 : Tensor = aten::mul(%a0, %a1)"]
    lines += [f"  %s{i} : Tensor = aten::mul(%s{i - 1}, %a{i + 1})" for i in range(1, 5)]
    inputs = ", ".join(["%x : Tensor", *(f"%y{i} : Tensor" for i in range(6))])
    plain, whole = both(f"graph({inputs}):\n" + "\n".join(lines) + "\n  return (%s4)")
    args = matrices(7)

    assert same(results(plain, args), results(whole, args))


UNARY = "tanh sigmoid exp sin relu neg abs sqrt log1p".split()
BINARY = "mul div atan2 maximum".split()


def random_graph(seed: int) -> str:
    r = random.Random(seed)
    values, lines = ["x", "y", "z"], ["  %one : int = prim::Constant[value=1]()"]
    for i in range(r.randint(3, 14)):
        name, kind = f"v{i}", r.random()
        a, b = r.choice(values), r.choice(values)
        if kind < 0.4:
            lines.append(f"  %{name} : Tensor = aten::{r.choice(UNARY)}(%{a})")
        elif kind < 0.6:
            lines.append(f"  %{name} : Tensor = aten::add(%{a}, %{b}, %one)")
        elif kind < 0.8:
            lines.append(f"  %{name} : Tensor = aten::{r.choice(BINARY)}(%{a}, %{b})")
        elif kind < 0.9:
            lines.append(f"  %{name} : Tensor = aten::mm(%{a}, %{b})")
        else:
            lines.append(f"  %l{i} : Tensor[] = prim::ListConstruct(%{a}, %{b})")
            lines.append(f"  %s{i} : Tensor = aten::stack(%l{i}, %one)")
            lines.append(f"  %{name} : Tensor = aten::logsumexp(%s{i}, %dims, %no)")
        values.append(name)
    head = (
        "  %no : bool = prim::Constant[value=0]()\n  %i : int = prim::Constant[value=1]()\n"
        "  %dims : int[] = prim::ListConstruct(%i)\n"
    )
    outputs = [v for v in values[3:] if r.random() < 0.3 or v == values[-1]]
    return (
        "graph(%x : Tensor, %y : Tensor, %z : Tensor):\n" + head + "\n".join(lines)
        + f"\n  return ({', '.join('%' + v for v in outputs)})"
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_have_the_same_bits(seed: int) -> None:
    text = random_graph(seed)
    plain, whole = both(text)
    args = matrices(3, torch.double)
    for a in args:
        a.data = a.data.abs() * 0.3 + 0.1

    def filled(tensors: list[Any]) -> list[Any]:
        return [None if t is None else torch.nan_to_num(t, nan=7.0) for t in tensors]

    want, got = filled(results(plain, args)), filled(results(whole, args))
    assert same(want, got), text


# -- What records share
# --------------------------------------------------------------------------------------------------


def test_without_gradients_the_graph_just_runs() -> None:
    plain, whole = both(CHAIN)
    args = matrices(3)
    with torch.no_grad():
        made = whole(*args)
        assert same(list(plain(*args)), list(made)) and not made[0].requires_grad
    assert not whole(*[a.detach() for a in args])[0].requires_grad


def outcome(function: Any, change: Any, args: list[Any]) -> str:
    inputs = [a * 1 for a in args]
    out = function(*inputs)
    try:
        change(inputs, out)
        out[0].sum().backward()
    except RuntimeError as x:
        return str(x).split(":")[0][:60]
    return "fine"


CHANGES = {
    "an argument that is saved": lambda args, out: args[2].mul_(2),
    "a result that is saved": lambda args, out: out[1].detach().mul_(2),
    "a result that is not saved": lambda args, out: out[0].detach().mul_(2),
    "twice": lambda args, out: out[0].sum().backward(),
    "twice, kept": lambda args, out: out[0].sum().backward(retain_graph=True),
}


@pytest.mark.parametrize("what", CHANGES)
def test_writes_and_freed_values_are_errors_as_ever(what: str) -> None:
    plain, whole = both(CHAIN)
    args = matrices(3)
    assert outcome(plain, CHANGES[what], args) == outcome(whole, CHANGES[what], args)


APART = """graph(%x : Tensor, %y : Tensor):
  %a : Tensor = aten::mul(%x, %x)
  %b : Tensor = aten::mul(%y, %y)
  %c : Tensor = aten::mul(%a, %b)
  return (%a, %b, %c)
"""


@pytest.mark.parametrize("order", ["01", "10", "00", "21", "02", "22"])
def test_only_what_ran_is_freed(order: str) -> None:
    found = []
    for function in both(APART):  # our tensors: a call is one node of torch's graph
        args = [rushlight.tensor(a.tolist()).requires_grad_() for a in matrices(2)]
        out = function(*args)
        try:
            for i in order:
                out[int(i)].sum().backward(retain_graph=False)
            found.append([None if a.grad is None else a.grad.tolist() for a in args])
        except RuntimeError as x:
            found.append(str(x)[:60])
    assert found[0] == found[1]


def test_df_runs_with_undefined_gradients() -> None:
    g = ir.parse_ir(CHAIN)
    made = ir.differentiate(g)
    args = matrices(3)
    plain = [a.detach() for a in args]
    outs = made.f(*plain)
    weights = [torch.ones(3, 3), torch.ones(3, 3), None, None]
    captured = [plain[i] for i in made.df_input_captured_inputs]
    captured += [outs[i] for i in made.df_input_captured_outputs]
    for first in (0, 1):
        grads = [w if i == first else None for i, w in enumerate(weights)]
        got = made.df(*grads[: len(made.df_input_vjps)], *captured)
        x, y, w = args
        c = torch.tanh(x * y) + x
        out = [(c @ w) * (c @ w), c][first]
        want = torch.autograd.grad(out.sum(), args, allow_unused=True)
        for a, b in zip(got, want, strict=True):
            assert (a is None) == (b is None)
            if b is not None:
                torch.testing.assert_close(a, b)


def test_records_outlive_the_function() -> None:
    _, whole = both(CHAIN)
    args = matrices(3)
    out = whole(*args)
    del whole
    gc.collect()
    assert all(g is not None for g in torch.autograd.grad(out[0].sum(), args))


def test_without_torchs_tensors() -> None:
    plain, whole = both(CHAIN)
    made = []
    for function in (plain, whole):
        args = [rushlight.tensor([[1.0, 0.5], [2.0, -1.0]]).requires_grad_() for _ in range(3)]
        out = function(*args)
        (out[0].sum() + out[1].sum()).backward()
        made.append([a.grad.tolist() for a in args])
    assert made[0] == made[1]


def test_what_cannot_be_differentiated_twice_says_so() -> None:
    for function in both("graph(%x : Tensor):\n  %y : Tensor = aten::lgamma(%x)\n  return (%y)"):
        x = torch.rand(3, dtype=torch.double, requires_grad=True)
        (g,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        want = torch.special.polygamma(1, x.detach())
        torch.testing.assert_close(h, want)


def test_errors_of_f_are_those_of_its_operators(tmp_path: pathlib.Path) -> None:
    """With the place of the operator that fails, not that of the node around it."""
    path = tmp_path / "program.py"
    path.write_text(
        "def run(x: Tensor, w: Tensor) -> Tensor:\n    a = x * w\n    b = a.tanh() * a.sigmoid()\n"
        "    c = b.exp() + b\n    return c @ w\n"
    )
    graph = rushlight.load(str(path)).run.graph
    whole = graph.copy()
    whole.run_pass("create_autodiff_subgraphs")
    assert "prim::DifferentiableGraph" in str(whole)

    def errors(run: Any) -> list[str]:
        out = []
        for sizes in [(3, 3), (4, 5), (2, 3), (3, 3), (4, 5), (2, 3)]:
            x = torch.ones(2 if sizes != (3, 3) else 3, 3, requires_grad=True)
            try:
                run(x, torch.ones(sizes))
                out.append("")
            except RuntimeError as error:
                out.append(str(error))
        return out

    want = errors(graph)
    assert [", in" in text for text in want] == [False, True, True] * 2
    assert "a = x * w\n        ~~~~~" in want[1] and "c @ w\n           ~~~~~" in want[2]
    assert errors(whole) == want


def test_a_packed_gradient_reads_back_and_runs() -> None:
    outer = both(CHAIN)[1].graph
    outer.run_pass("pack_gradient")
    (node,) = outer.findAllNodes("prim::DifferentiableGraph")
    made = ir.differentiate(ir.parse_ir(CHAIN))
    assert node.i("f_real_outputs") == made.f_real_outputs
    for name in ("df_input_vjps", "df_input_captured_inputs", "df_input_captured_outputs",
                 "df_output_vjps"):  # fmt: skip
        assert getattr(node, "is")(name) == getattr(made, name)
    formulas = [
        [n.s("name") for n in g.findAllNodes("prim::GradOf")]
        for g in (node.g("ReverseSubgraph"), made.df)
    ]
    assert formulas[0] == formulas[1]
    text = re.sub(r" # .*", "", str(outer))  # without the formulas' lines
    again = ir.parse_ir(text)
    assert str(again) == text
    again.run_pass("pack_gradient")
    assert str(again) == text
    plain, packed_one = both(CHAIN)[0], rushlight.CompilationUnit().create_function("f", again)
    found = []
    for function in (plain, packed_one):
        args = matrices(3)
        out = function(*args)
        total = sum((o.sin()).sum() for o in out)
        found.append([o.tolist() for o in (*out, *torch.autograd.grad(total, args))])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "text",
    [
        "with prim::DifferentiableGraph_0.ReverseSubgraph = graph(%a : Tensor):\n  return (%a)\n",
        "with prim::DifferentiableGraph_1.ReverseSubgraph = graph(%a : Tensor):\n  return (%a)\n",
        "with .ReverseSubgraph = graph(%a : Tensor):\n  return (%a)\n",
    ],
)
def test_a_derivative_belongs_to_a_packed_node(text: str) -> None:
    head = (
        "graph(%x : Tensor):\n  %y : Tensor = prim::DifferentiableGraph_0(%x)\n  return (%y)\n"
        "with prim::DifferentiableGraph_0 = graph(%x : Tensor):\n"
        "  %y : Tensor = aten::sin(%x)\n  return (%y)\n"
    )
    assert ir.parse_ir(head)
    with pytest.raises(RuntimeError, match="no node is called"):
        ir.parse_ir(head + text)
