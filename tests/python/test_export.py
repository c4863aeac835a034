"""Exported programs against PyTorch's ep.module(): what calls they refuse and how, shapes, pytrees,
control flow."""

from __future__ import annotations

import collections
import copy
import json
import pathlib
import subprocess
import zipfile
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import exported_programs  # noqa: E402
import rushlight  # noqa: E402
from torch import nn  # noqa: E402
from torch._higher_order_ops.associative_scan import associative_scan  # noqa: E402
from torch._higher_order_ops.map import map as map_over  # noqa: E402
from torch._higher_order_ops.print import print as print_values  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402
from torch.export import Dim  # noqa: E402

X = torch.arange(12.0).reshape(3, 4)


def plain(v: Any) -> Any:
    """OrderedDicts come back as dicts, which keep their order too."""
    if isinstance(v, dict):
        return {k: plain(item) for k, item in v.items()}
    return type(v)(map(plain, v)) if isinstance(v, (list, tuple)) else v


def same(want: Any, got: Any) -> None:
    want, got = plain(want), plain(got)
    want, want_spec = torch.utils._pytree.tree_flatten(want)
    got, got_spec = torch.utils._pytree.tree_flatten(got)
    assert str(want_spec) == str(got_spec)
    for a, b in zip(want, got, strict=False):
        if isinstance(a, torch.Tensor):
            assert a.dtype == b.dtype
            torch.testing.assert_close(
                b, a.detach(), rtol=1e-2 if a.dtype == torch.bfloat16 else 1e-5, atol=1e-5
            )
        else:
            assert type(a) is type(b) and a == b


def outcome(f: Any, args: tuple, kwargs: dict) -> tuple[Any, Any]:
    try:
        return None, f(*args, **kwargs)
    except Exception as error:  # whatever PyTorch raises
        return type(error), str(error)


def check(
    tmp_path: pathlib.Path, module: nn.Module, calls: list[tuple[tuple, dict]], **how: Any
) -> None:
    """Export with the first call's arguments; make all calls, in both dialects."""
    program = torch.export.export(module, *copy.deepcopy(calls[0]), **how)
    for dialect in (program, program.run_decompositions()):
        path = str(tmp_path / "m.pt2")
        torch.export.save(dialect, path)
        theirs, ours = torch.export.load(path).module(), rushlight.load(path)
        for args, kwargs in calls:
            a, b = copy.deepcopy(args), copy.deepcopy(args)
            want_type, want = outcome(theirs, a, copy.deepcopy(kwargs))
            got_type, got = outcome(ours, b, copy.deepcopy(kwargs))
            assert got_type is want_type, (want, got)
            if want_type is None:
                same(want, got)
                same(a, b)
            elif "exported input tree spec" in want:
                assert "exported input tree spec" in got
            else:
                assert got.split("\n(this call: ")[0] == want


def test_guards_and_pytrees(tmp_path: pathlib.Path) -> None:
    class Trees(nn.Module):
        def forward(self, a, b, *, c=None, d=None):
            o = collections.OrderedDict([("z", b[0] + c), ("a", a["k"])])
            return {"o": o, "n": None, "l": [d[0], (b[1],)], "i": a["j"], "t": True}

    n = Dim("n", min=3, max=9)
    shapes = {
        "a": {"k": {0: n}, "j": None},
        "b": [{0: n}, {0: n}, None],
        "c": {0: n},
        "d": ({0: n}, None),
    }
    y = torch.ones(5, 4)
    ok = (({"k": X, "j": 2}, [X, X + 1, "s"]), {"c": X, "d": (X, 1.5)})
    calls = [
        ok,
        (({"k": y, "j": 2}, [y, y, "s"]), {"c": y, "d": (y, 1.5)}),
        (({"k": X, "j": 3}, [X, X, "s"]), ok[1]),
        (({"k": X, "j": 2}, [X, X, "t"]), ok[1]),
        (ok[0], {"c": X, "d": (X, 2.5)}),
        (({"k": X, "j": 2}, [X, y, "s"]), ok[1]),
        (({"k": y, "j": 2}, [X, X, "s"]), ok[1]),
        (({"k": X[:2], "j": 2}, [X[:2], X[:2], "s"]), {"c": X[:2], "d": (X[:2], 1.5)}),
        (({"k": X[:, :1], "j": 2}, [X, X, "s"]), ok[1]),
        (ok[0], {"c": X[0], "d": (X, 1.5)}),
        (ok[0], {"c": X}),
        (ok[0], {**ok[1], "e": 1}),
        (({"k": X}, [X, X, "s"]), ok[1]),
        (({"k": X, "j": 2}, (X, X, "s")), ok[1]),
    ]
    check(tmp_path, Trees(), calls, dynamic_shapes=shapes)


def test_symbolic_numbers(tmp_path: pathlib.Path) -> None:
    class Symbolic(nn.Module):
        def forward(self, x, y):
            n = x.shape[0]
            k = torch.sym_max(n, 5) + torch.sym_min(n, 7) - n // 2 + n % 3 + n**2
            if (x.shape[0] * 3) % 4 == 1 and x.shape[0] > y.shape[0] // 2 - 1:
                return x.reshape(-1), x.new_full((n * 2 + 1,), n / 2), k, x[: n - 1]
            return x.reshape(-1), x.new_full((n * 2 + 1,), n / 2), k, x[1:]

    calls = [
        ((torch.ones(n, 4), torch.ones(m, 4)), {}) for n, m in ((3, 4), (7, 4), (5, 4), (3, 40))
    ]
    check(
        tmp_path, Symbolic(), calls, dynamic_shapes={"x": {0: Dim.DYNAMIC}, "y": {0: Dim.DYNAMIC}}
    )


def test_control_flow(tmp_path: pathlib.Path) -> None:
    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("b", torch.arange(4.0))

        def forward(self, x, i):
            a = torch.cond(x.sum() > 0, lambda x: x + self.b, lambda x: x - 1, (x,))
            j, w = while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 2 + i), (i, x))
            m = map_over(lambda r, y: (r + y).sin(), x, self.b)
            last, rows = scan(lambda c, r: (c + r, c * r), self.b.clone(), x, dim=0)
            return a, j, w, m, last, rows

    check(tmp_path, Flow(), [((X, torch.tensor(0)), {}), ((-X, torch.tensor(7)), {})])


HIGHER = [
    "dtypes_of_results",
    "functional_mutation",
    "functional_mutation_of_views",
    "functional_mutation_by_name",
    "lists_mapped",
    "stacked_loops",
]


@pytest.mark.parametrize("name", HIGHER)
def test_operators_given_to_operators(tmp_path: pathlib.Path, name: str) -> None:
    made = exported_programs.make(name)
    torch.export.save(made, tmp_path / "m.pt2")
    args, kwargs = made.example_inputs
    wanted = torch.export.load(tmp_path / "m.pt2").module()(*copy.deepcopy(args), **kwargs)
    found = rushlight.load(tmp_path / "m.pt2")(*copy.deepcopy(args), **kwargs)
    flat = torch.utils._pytree.tree_leaves
    for a, b in zip(flat(found), flat(wanted), strict=True):
        torch.testing.assert_close(torch.as_tensor(a), b)


def test_print(tmp_path: pathlib.Path, command: str) -> None:
    class Prints(nn.Module):
        def forward(self, x):
            print_values("{{x}} is {x}, {0}, {1}", 2.5, "text", x=x)
            return x + 1

    torch.export.save(torch.export.export(Prints(), (torch.ones(2),)), tmp_path / "m.pt2")
    done = subprocess.run(
        [command, "run", tmp_path / "m.pt2", "ones(2)"], capture_output=True, text=True
    )
    assert done.stdout.startswith("{x} is tensor([1., 1.]), 2.5, text\n"), done.stdout + done.stderr


def test_symbolic_operands(tmp_path: pathlib.Path) -> None:
    class Halves(nn.Module):
        def forward(self, x):
            n = x.shape[0]
            return torch.cond(
                n > 4,
                lambda x: (x[: n // 2].sum(), x.new_zeros(n)),
                lambda x: (x.mean(), x.new_ones(n)),
                (x,),
            )

    calls = [((torch.ones(n, 4),), {}) for n in (6, 3, 5)]
    check(tmp_path, Halves(), calls, dynamic_shapes=({0: Dim.DYNAMIC},))


def test_state_and_constants(tmp_path: pathlib.Path) -> None:
    class Mutating(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.zeros(3))
            self.register_buffer("temporary", torch.ones(2), persistent=False)
            self.a = nn.Linear(4, 4)
            self.again = self.a
            self.c = torch.ones(4) * 3

        def forward(self, x, y):
            self.n.add_(1)
            x.mul_(2)
            y[0] = 5
            with torch.no_grad():
                z = self.again(self.a(x))
            return z + self.c + self.n.sum(), self.temporary.clone()

    check(tmp_path, Mutating(), [((X, X.clone()), {}), ((X, X.clone()), {})])


def test_autocast(tmp_path: pathlib.Path) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.linear(x)
                z = torch.cat([y, x])
                loss = torch.nn.functional.mse_loss(y, x.bfloat16())
                with torch.autocast("cpu", enabled=False):
                    w = self.linear(x)
            return y, z, loss, w

    torch.manual_seed(0)
    check(tmp_path, Mixed(), [((X / 12,), {})])


def test_extra_files_come_back(tmp_path: pathlib.Path) -> None:
    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    path = tmp_path / "twice.pt2"
    files = {"labels.txt": "one\ntwo", "more/config.json": "{}"}
    torch.export.save(torch.export.export(Twice(), (X,)), path, extra_files=files)
    for source in (str(path), path.read_bytes()):
        found: dict[str, Any] = {"labels.txt": "", "more/config.json": "", "missing": ""}
        model = rushlight.load(source, _extra_files=found)
        assert found == {"labels.txt": b"one\ntwo", "more/config.json": b"{}", "missing": b""}
        assert torch.equal(model(X), X * 2)


class Mapped(nn.Module):
    """torch.vmap of what most programs map: layers, several arguments, dictionaries, maps in
    maps."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.dropout = nn.Dropout(0.5)
        self.register_buffer("shared", torch.arange(3.0))

    def forward(self, x, y):
        layer = torch.vmap(lambda r: self.dropout(torch.relu_(self.linear(r))) + self.shared)(x)
        columns = torch.vmap(lambda a, b: a * b.sum(), in_dims=(1, None))(x, y)
        outer = torch.vmap(torch.vmap(torch.dot, in_dims=(None, 0)), in_dims=(0, None))(x, y)
        tree = torch.vmap(lambda d: {"sum": d["x"] + 1, "same": (d["x"], d["pair"][0].cumsum(0))})(
            {"x": x, "pair": (x, y)}
        )
        parts = torch.vmap(lambda r: torch.softmax(r, 0).topk(2).values, chunk_size=2)(x)

        def shares(r):
            k = torch.arange(4.0)
            return r + k, k, y.t()

        return layer, columns, outer, tree, parts, torch.vmap(shares)(x)


def test_vmap(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    check(tmp_path, Mapped().eval(), [((X, X.flip(0)), {}), ((X.sin(), X.cos()), {})])


def test_vmap_of_any_batch(tmp_path: pathlib.Path) -> None:
    class Batch(nn.Module):
        def forward(self, x):
            y = torch.vmap(lambda r: r.view(r.shape[0]).cumsum(0))(x)
            return y.reshape(-1, x.shape[1]), torch.vmap(lambda r: r.max())(x * 2)

    calls = [((torch.ones(n, m),), {}) for n, m in ((3, 4), (1, 4), (6, 2), (0, 4))]
    check(tmp_path, Batch(), calls, dynamic_shapes=({0: Dim("n", min=0), 1: Dim("m")},))


def test_vmap_writes_and_draws(tmp_path: pathlib.Path) -> None:
    class Writes(nn.Module):
        def forward(self, x):
            y = torch.vmap(lambda r: r.add_(1))(x)
            return torch.vmap(lambda r: torch.zeros(4).add(r).mul_(y.sum()))(x)

    class Draws(nn.Module):
        def __init__(self, randomness: str) -> None:
            super().__init__()
            self.randomness = randomness

        def forward(self, x):
            return torch.vmap(lambda r: r + torch.rand(4), randomness=self.randomness)(x)

    check(tmp_path, Writes(), [((X.clone(),), {})])
    path = str(tmp_path / "m.pt2")
    for randomness in ("same", "different"):
        torch.export.save(torch.export.export(Draws(randomness), (X,)), path)
        if randomness == "same":
            noise = rushlight.load(path)(X) - X
            assert (noise - noise[0]).abs().max() < 1e-5 and noise.min() > -1e-5 and noise.max() < 1
        else:
            with pytest.raises(
                RuntimeError, match="aten::rand draws random numbers for each sample"
            ):
                rushlight.load(path)


def test_associative_scan(tmp_path: pathlib.Path) -> None:
    class Scans(nn.Module):
        def forward(self, x, y):
            total = associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic")
            product = associative_scan(
                lambda a, b: a * b, x, 1, reverse=True, combine_mode="generic"
            )
            line = associative_scan(
                lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, y), 0, combine_mode="generic"
            )
            most = associative_scan(
                lambda a, b: {"m": torch.maximum(a["m"], b["m"])},
                {"m": y},
                1,
                combine_mode="generic",
            )
            return total, product, line, most

    check(tmp_path, Scans(), [((X, X.sin()), {}), ((X.cos(), X.flip(1)), {})])


def test_errors_name_the_authors_line(tmp_path: pathlib.Path) -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(5, 4)

        def forward(self, i: torch.Tensor, x: torch.Tensor) -> Any:
            rows = self.embedding(i)  # fails in one of torch's files
            return rows, torch.linalg.inv(x)

    torch.export.save(
        torch.export.export(Rows(), (torch.tensor([1]), torch.eye(2))), tmp_path / "m.pt2"
    )
    m = rushlight.load(str(tmp_path / "m.pt2"))
    for kind, code, args in (
        (IndexError, "rows = self.embedding(i)", (torch.tensor([7]), torch.eye(2))),
        (RuntimeError, "torch.linalg.inv(x)", (torch.tensor([1]), torch.zeros(2, 2))),
    ):
        with pytest.raises(kind) as caught:
            m(*args)
        _, said, place = str(caught.value).partition(
            "\n\nThe operation that failed was written in:"
        )
        assert said and f'File "{__file__}", line ' in place and code in place
        module = "  # in the module embedding, torch.nn.modules.sparse.Embedding"
        assert (module in place) == (kind is IndexError)


def test_errors_of_programs_without_places(tmp_path: pathlib.Path) -> None:
    """A stack trace that is no text, or none: the message stands alone."""
    x = torch.zeros(2, 2)
    torch.export.save(torch.export.export(nn.Sequential(nn.Linear(2, 2)), (x,)), tmp_path / "m.pt2")
    for trace in ("", "no place", 'File "', 7):
        made = tmp_path / "n.pt2"
        with zipfile.ZipFile(tmp_path / "m.pt2") as source, zipfile.ZipFile(made, "w") as to:
            for info in source.infolist():
                data = source.read(info)
                if info.filename.endswith("models/model.json"):
                    model = json.loads(data)
                    graph = model["graph_module"]["graph"]
                    for node in graph["nodes"]:
                        node["metadata"]["stack_trace"] = trace
                    for value in graph["tensor_values"].values():
                        value["sizes"] = value["strides"] = []
                    data = json.dumps(model).encode()
                to.writestr(info.filename, data)
        with pytest.raises(RuntimeError) as caught:
            rushlight.load(str(made))(torch.zeros(2, 3))
        assert "written in" not in str(caught.value)
