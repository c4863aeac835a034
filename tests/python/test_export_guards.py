"""Conditions on inputs (guards_code of an exported program): read, shown as Python's ast.unparse
shows them, and decided as Python decides them."""

from __future__ import annotations

import ast
import random
import subprocess
import warnings
from typing import Any

import numpy
import pytest
import rushlight
from test_exports_that_lie import LEAF, args, kwargs, program

SIZES = {"x": (6, 4), "y": (1, 4)}
SOURCES = [f"L['{name}'].size()[{i}]" for name in SIZES for i in range(2)]
FUNCTIONS = {
    "Mod": lambda a, b: a % b,
    "FloorDiv": lambda a, b: a // b,
    "Max": max,
    "Min": min,
    "max": max,
    "min": min,
}


class Tensor:
    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes

    def size(self) -> tuple[int, ...]:
        return self.sizes


def tensors() -> list[rushlight.Tensor]:
    return [rushlight.from_numpy(numpy.ones(s, numpy.float32)) for s in SIZES.values()]


def load(*guards: str, **parts: Any) -> Any:
    return rushlight.load(program(guards_code=list(guards), **parts))


def shown(code: str) -> str:
    """As PyTorch's message: L['x'] is x, needless parentheses are gone."""
    for name in SIZES:
        code = code.replace(f"L['{name}']", name)
    return ast.unparse(ast.parse(code, mode="eval"))


def number(r: random.Random, depth: int, whole: bool = False) -> str:
    """Divisions downwards and remainders are of integers, as in what PyTorch writes."""
    if depth == 0 or r.random() < 0.2:
        return r.choice([*SOURCES, str(r.randint(0, 9)), f"-{r.randint(1, 4)}", "0.5"][: 7 - whole])
    whole_only = r.random() < 0.4
    a, b = (number(r, depth - 1, whole or whole_only) for _ in range(2))
    if r.random() < 0.2:
        functions = ["Mod", "FloorDiv"] if whole_only else ["Max", "Min", "max", "min"]
        return f"{r.choice(functions)}({a}, {b})"
    if r.random() < 0.1:
        return f"-({a})" if r.random() < 0.5 else f"(-{a})"
    if r.random() < 0.05:
        return f"({a})**{r.randint(0, 3)}"
    a, b = (f"({v})" if r.random() < 0.5 else v for v in (a, b))
    others = [" + ", "-", "*", " - "] if whole else [" + ", "-", "*", " - ", "/"]
    if whole_only:
        return f"({a}{r.choice([' // ', ' % '])}{b})"
    return f"{a}{r.choice(others)}{b}"


def condition(r: random.Random, depth: int) -> str:
    if depth == 0 or r.random() < 0.4:
        relations = ["==", "!=", "<", "<=", ">", ">="]
        more = f" {r.choice(relations)} {number(r, 1)}" if r.random() < 0.1 else ""
        return f"{number(r, 2)} {r.choice(relations)} {number(r, 2)}{more}"
    a, b = condition(r, depth - 1), condition(r, depth - 1)
    if r.random() < 0.2:
        return f"not ({a})"
    return f"({a}) {r.choice(['and', 'or'])} {f'({b})' if r.random() < 0.5 else b}"


def decided(code: str) -> bool | str:
    inputs = {"L": {name: Tensor(sizes) for name, sizes in SIZES.items()}} | FUNCTIONS
    try:
        return bool(eval(code, {}, inputs))
    except ZeroDivisionError:
        return "ZeroDivisionError"


@pytest.mark.parametrize("seed", range(8))
def test_conditions_are_decided_as_by_python(seed: int) -> None:
    r = random.Random(seed)
    x, y = tensors()
    for _ in range(60):
        code = condition(r, 2)
        m = load(code)
        got: bool | str = True
        try:
            m(x, y=y)
        except AssertionError as e:
            assert str(e).startswith(f"Guard failed: {shown(code)}\n(this call: "), code
            got = False
        except ZeroDivisionError:
            got = "ZeroDivisionError"
        assert got == decided(code), code


def test_conditions_are_shown_as_by_python(command: str, tmp_path: Any) -> None:
    r = random.Random(1)
    codes = [f"({condition(r, 3)}) or 1 == {i}" for i in range(300)]
    file = tmp_path / "m.pt2"
    file.write_bytes(program(guards_code=codes))
    out = subprocess.run([command, "show", file], capture_output=True, text=True, check=True).stdout
    lines = [line.strip() for line in out.split("must hold:\n")[1].splitlines()]
    assert lines[: len(codes)] == [shown(code) for code in codes]


def test_the_first_that_fails_is_named() -> None:
    m = load("L['x'].size()[0] > 1", "2*L['y'].size()[0] == L['x'].size()[0]", "1 == 2")
    with pytest.raises(AssertionError) as e:
        m(tensors()[0], y=tensors()[1])
    assert str(e.value) == (
        "Guard failed: 2 * y.size()[0] == x.size()[0]\n"
        "(this call: 2 == 6; y is float32[1, 4]; x is float32[6, 4])"
    )


def test_a_dimension_that_is_missing() -> None:
    with pytest.raises(IndexError, match=r"tuple index out of range\n.*no size\(\)\[2\] for x"):
        load("L['x'].size()[2] == 1")(tensors()[0], y=tensors()[1])


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("L['flat_args'][1].size()[0] == 7", "y"),  # as strict export counts inputs
        ("L['flat_args'][0].size()[0] == 7", "xs_0"),
        ("L['xs'][0].size()[0] == 7", "xs_0"),  # of *xs
    ],
)
def test_inputs_have_the_names_of_the_program(code: str, name: str) -> None:
    m = load(code, names=("xs_0",), in_spec=args(args(LEAF), kwargs("y")))
    with pytest.raises(AssertionError, match=f"Guard failed: {name}.size\\(\\)\\[0\\] == 7\n"):
        m(tensors()[0], y=tensors()[1])


@pytest.mark.parametrize(
    "code",
    [
        "L['z'].size()[0] == 1",
        "L['flat_args'][2].size()[0] == 1",
        "L['flat_args'][99999999999].size()[0] == 1",
        "L['x'][0].size()[0] == 1",
        "L['x'].size()[0",
        "L['",
        "L['x'].__class__ == 1",
        "x.size()[0] == 1",
        "1 ==" + " 1 +" * 30000 + " 1",
    ],
)
def test_what_is_not_understood_is_a_warning(code: str) -> None:
    with pytest.warns(UserWarning, match="is not understood and not checked"):
        m = load(code)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert m(tensors()[0], y=tensors()[1]).shape == (6, 4)


def test_nesting_is_limited() -> None:
    assert load("(" * 300 + "1" + ")" * 300)(tensors()[0], y=tensors()[1]).shape == (6, 4)
    with pytest.raises(RecursionError, match="nested too deep"):
        load("not " * 3000 + "1")


def test_a_condition_without_a_value_is_an_error() -> None:
    m = load("L['x'].size()[0] ** 400 > 1")
    with pytest.raises(OverflowError, match="more than 64 bits"):
        m(tensors()[0], y=tensors()[1])


def test_strict_export_and_var_args_as_in_pytorch(tmp_path: Any) -> None:
    torch = pytest.importorskip("torch")

    class Checks(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, *xs: Any, k: Any = None) -> Any:
            torch._check(x[0].shape[0] != 77)
            for one in xs:
                torch._check(one.shape[0] * 3 != 300)
            return [one + 1 for one in xs], x[0]

    good = ([torch.ones(6, 3)], torch.ones(5, 3), torch.ones(4, 3))
    many = {0: torch.export.Dim.AUTO}
    for strict in (False, True):
        ep = torch.export.export(
            Checks(),
            good,
            dynamic_shapes={"x": [many], "xs": (many, many)},
            strict=strict,
            prefer_deferred_runtime_asserts_over_guards=False,
        )
        torch.export.save(ep, tmp_path / "m.pt2")
        theirs = torch.export.load(tmp_path / "m.pt2").module()
        ours = rushlight.load(tmp_path / "m.pt2")
        for i, sizes in enumerate([(77, 3), (100, 3), (100, 3)]):
            bad = [t[0] if isinstance(t, list) else t for t in good]
            bad[i] = torch.ones(sizes)
            with pytest.raises(AssertionError) as want:
                theirs([bad[0]], *bad[1:])
            leaves = [rushlight.from_numpy(t.numpy()) for t in bad]
            with pytest.raises(AssertionError) as got:
                ours([leaves[0]], *leaves[1:])
            assert str(got.value).splitlines()[0] == str(want.value)


@pytest.mark.parametrize(
    ("x", "y", "good", "bad"),
    [
        ((2, 0), (2, 1), (6, 7), [(6, 8), (7, 7), (4, 5), (200, 201)]),
        ((3, 0), (2, 0), (12, 8), [(12, 9), (6, 4), (153, 102)]),
        ((3, -1), (2, 5), (11, 13), [(11, 14), (5, 9)]),
        ((2, 0), (2, 0), (8, 8), [(8, 10), (4, 4)]),
        ((4, 1), (1, 0), (17, 4), [(17, 5), (5, 1)]),
    ],
)
def test_derived_sizes_as_in_pytorch(tmp_path: Any, x: Any, y: Any, good: Any, bad: Any) -> None:
    torch = pytest.importorskip("torch")

    class Sums(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, y: Any) -> Any:
            return x.sum() + y.sum()

    def size(k: int, b: int) -> Any:
        many = torch.export.Dim("many", min=3, max=50)
        many = k * many if k > 1 else many
        return many + b if b > 0 else many - -b if b else many

    ep = torch.export.export(
        Sums(), tuple(map(torch.ones, good)), dynamic_shapes=({0: size(*x)}, {0: size(*y)})
    )
    torch.export.save(ep, tmp_path / "m.pt2")
    theirs = torch.export.load(tmp_path / "m.pt2").module()
    ours = rushlight.load(tmp_path / "m.pt2")
    ours(*(rushlight.ones(n) for n in good))
    for sizes in bad:
        with pytest.raises(AssertionError) as want:
            theirs(*map(torch.ones, sizes))
        with pytest.raises(AssertionError) as got:
            ours(*(rushlight.ones(n) for n in sizes))
        assert str(got.value).splitlines()[0] == str(want.value)
