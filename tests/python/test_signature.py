"""What methods take and return, as data: in Python and in the command."""

from __future__ import annotations

import inspect
import json
import os
import pathlib
import subprocess
import zipfile
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402

BUILD = pathlib.Path(os.environ.get("RUSH_BUILD_DIR", "build"))


class Rows(nn.Module):
    """Two inputs in a dict, an int, constants; outputs in a dict and a tuple, one of a computed
    size."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Any, d: Any, *, k: Any = 2, flag: Any = True, unused: Any = None) -> Any:
        return {"a": self.linear(x) + d["q"], "b": (torch.cat([x, x[:1]]), x.shape[0] * k)}


def rows(folder: pathlib.Path) -> str:
    batch = Dim("batch", min=2, max=64)
    args = (torch.randn(8, 4), {"q": torch.randn(8, 3)})
    shapes = {
        "x": {0: batch},
        "d": {"q": {0: batch}},
        "k": Dim.DYNAMIC,
        "flag": None,
        "unused": None,
    }
    program = torch.export.export(
        Rows(), args, {"k": 3, "flag": True, "unused": None}, dynamic_shapes=shapes
    )
    path = str(folder / "rows.pt2")
    torch.export.save(program, path)
    return path


def test_inputs_of_an_exported_program(tmp_path: pathlib.Path) -> None:
    x, q, k, flag, unused = rushlight.load(rows(tmp_path)).inputs
    assert (x.name, x.type, x.dtype, x.argument) == ("x", "Tensor", rushlight.float32, 0)
    (symbol,) = x.ranges
    assert x.shape == (symbol, 4) and x.example == (8, 4) and x.ranges == {symbol: (2, 64)}
    assert (q.name, q.shape, q.argument) == ("d['q']", (symbol, 3), 1)
    assert (k.name, k.type, k.shape, k.keyword_only) == ("k", "int", None, True) and len(
        k.ranges
    ) == 1
    assert flag.constant is True and flag.type == "bool" and unused.constant is None
    assert all(item.default is inspect.Parameter.empty for item in (x, q, k, flag, unused))
    assert (
        repr(x) == f"Input(x: Tensor, dtype=rushlight.float32, shape=({symbol}, 4), "
        f"ranges={{'{symbol}': (2, 64)}})"
    )


def test_outputs_of_an_exported_program(tmp_path: pathlib.Path) -> None:
    model = rushlight.load(rows(tmp_path))
    (symbol,) = model.inputs[0].ranges
    a, cat, size = model.outputs
    assert [item.name for item in model.outputs] == [
        "output['a']",
        "output['b'][0]",
        "output['b'][1]",
    ]
    assert a.shape == (symbol, 3) and a.ranges == {symbol: (2, 64)} and a.argument == 0
    assert (
        cat.shape == (f"{symbol} + 1", 4)
        and cat.ranges == {f"{symbol} + 1": (3, 65)}
        and cat.example == (9, 4)
    )
    assert (size.type, size.argument, size.shape) == ("int", 1, None)


def test_formulas_and_their_bounds(tmp_path: pathlib.Path) -> None:
    class Sizes(nn.Module):
        def forward(self, x: Any) -> Any:
            n = x.shape[0]
            return (
                x.new_zeros(2 * n + 3),
                x.new_zeros(n // 2, n * n),
                x.new_zeros((n + 1) // 3),
                torch.nonzero(x),
            )

    program = torch.export.export(
        Sizes(), (torch.zeros(6),), dynamic_shapes=({0: Dim("n", min=5, max=10)},)
    )
    torch.export.save(program, str(tmp_path / "m.pt2"))
    model = rushlight.load(str(tmp_path / "m.pt2"))
    (n,) = model.inputs[0].ranges
    first, second, third, found = model.outputs
    assert first.ranges == {f"2*{n} + 3": (13, 23)}
    assert second.shape == (f"({n}//2)", f"{n}**2") and second.ranges[f"({n}//2)"] == (2, 5)
    assert third.ranges == {f"(({n} + 1)//3)": (2, 3)}
    assert found.shape is not None and found.shape[1] == 1 and str(found.shape[0]).startswith("u")


class Scores(NamedTuple):
    mean: torch.Tensor
    rest: tuple[torch.Tensor, int]


class Scripted(nn.Module):
    def forward(
        self, x: torch.Tensor, names: list[str], scale: float = 2.0, bias: int | None = None
    ) -> torch.Tensor:
        return x * scale + len(names)

    @torch.jit.export
    def scores(self, x: torch.Tensor) -> Scores:
        return Scores(x.mean(), (x, x.size(0)))


def test_torchscript(tmp_path: pathlib.Path) -> None:
    torch.jit.script(Scripted()).save(str(tmp_path / "m.pt"))
    model = rushlight.load(str(tmp_path / "m.pt"))
    assert [(i.name, i.type) for i in model.inputs] == [
        ("x", "Tensor"), ("names", "List[str]"), ("scale", "float"), ("bias", "Optional[int]"),
    ]  # fmt: skip
    assert model.inputs[0].default is inspect.Parameter.empty and model.inputs[2].default == 2.0
    assert model.inputs[3].default is None and model.inputs[0].shape is None
    assert [(o.name, o.type) for o in model.outputs] == [("output", "Tensor")]
    assert [(o.name, o.type) for o in model.scores.outputs] == [
        ("output.mean", "Tensor"), ("output.rest[0]", "Tensor"), ("output.rest[1]", "int"),
    ]  # fmt: skip
    assert [o.argument for o in model.scores.outputs] == [0, 1, 1]


def test_attributes_of_these_names_are_the_programs_own(tmp_path: pathlib.Path) -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.outputs = nn.Linear(2, 2)
            self.inputs = 3

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.outputs(x) * self.inputs

    torch.jit.script(Named()).save(str(tmp_path / "m.pt"))
    model = rushlight.load(str(tmp_path / "m.pt"))
    assert model.inputs == 3 and model.outputs.weight.shape == (2, 2)
    assert [i.name for i in model.forward.inputs] == ["x"]
    script = rushlight.jit.script(Named())
    assert script.inputs == 3 and [i.name for i in script.forward.inputs] == ["x"]


def show(*args: str) -> str:
    done = subprocess.run(
        [BUILD / "cli" / "rushlight", "show", *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_show(tmp_path: pathlib.Path) -> None:
    path = rows(tmp_path)
    (symbol,) = rushlight.load(path).inputs[0].ranges
    text = show(path, "--signature")
    assert (
        f"x: Tensor, float32[{symbol}, 4], 2 <= {symbol} <= 64" in text
        and "flag: bool, always True" in text
    )
    assert f"output['b'][0]: Tensor, float32[{symbol} + 1, 4]" in text
    assert f"d['q']: Tensor, float32[{symbol}, 3]" in show(path)
    data = json.loads(show(path, "--signature", "--json"))["forward"]
    assert data["inputs"][0]["sizes"][0] == {"value": 8, "min": 2, "max": 64, "symbol": symbol}
    assert data["inputs"][3]["constant"] == "True" and data["inputs"][2]["keyword_only"]
    assert [o["name"] for o in data["outputs"]] == [
        "output['a']",
        "output['b'][0]",
        "output['b'][1]",
    ]


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("s77", "s77"),  # what older files have
        ("2*s77 + 1", "2*s77 + 1"),
        ("Add(Symbol('s0'", None),
        ("Add(" * 3000 + "Integer(1)" + ")" * 3000, None),
        (
            "Mul(Integer(9223372036854775807), Integer(2), Symbol('s0', positive=True))",
            "2*9223372036854775807*s0",
        ),
        ("Pow(Add(Symbol('a'), Integer(-1)), Integer(2))", "(a - 1)**2"),
        ("Mul(Integer(2), FloorDiv(Symbol('a'), Integer(3)))", "2*((a//3))"),
        ("Max(Integer(1), Symbol('a'))", "Max(1, a)"),
        ("", None),
    ],
)
def test_hostile_expressions(tmp_path: pathlib.Path, expression: str, shown: str | None) -> None:
    """Texts are shown as sympy does, or refused (None), whatever they are."""

    class Twice(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2

    program = torch.export.export(Twice(), (torch.zeros(6),), dynamic_shapes=({0: Dim.DYNAMIC},))
    torch.export.save(program, str(tmp_path / "m.pt2"))
    with (
        zipfile.ZipFile(tmp_path / "m.pt2") as source,
        zipfile.ZipFile(tmp_path / "h.pt2", "w") as target,
    ):
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("models/model.json"):
                model = json.loads(data)
                for value in model["graph_module"]["graph"]["tensor_values"].values():
                    value["sizes"][0]["as_expr"]["expr_str"] = expression
                data = json.dumps(model).encode()
            target.writestr(name, data)
    if shown is None:
        with pytest.raises((RuntimeError, RecursionError), match="expected|nested too deep"):
            rushlight.load(str(tmp_path / "h.pt2"))
        return
    model = rushlight.load(str(tmp_path / "h.pt2"))
    assert torch.equal(model(torch.ones(6)), torch.full((6,), 2.0))
    shape = model.inputs[0].shape
    assert shape is not None and shape[0] == shown
