"""Ranges of sizes, and what does not suit them: `dynamic_shapes` of rushlight.export.export, beside
torch.export with the same module, arguments and dimensions."""

from __future__ import annotations

import io
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rushlight.export as ours  # noqa: E402


class Of(torch.nn.Module):
    """A module of a function of tensors."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def shapes_of(lib: Any, texts: list[Any]) -> Any:
    """Return dynamic_shapes: texts are expressions over Dim."""
    named = {
        n: lib.Dim(n, **kw)
        for n, kw in {
            "a": {"min": 3},
            "b": {"max": 20},
            "c": {},
            "d": {},
            "p": {"min": 1, "max": 2},
        }.items()
    }
    dim = lib.Dim
    scope = {"A": dim.AUTO, "D": dim.DYNAMIC, "S": dim.STATIC, "Dim": dim, **named}

    def read(text: Any) -> Any:
        if isinstance(text, (tuple, list)):
            return tuple(read(item) for item in text)
        return eval(text, scope) if isinstance(text, str) else text

    return (tuple(read(text) for text in texts),)


def add(x: Any, y: Any) -> Any:
    return x + y


def small(x: Any) -> Any:
    assert x.shape[0] <= 32
    return x + 2


def of_thirds(x: Any) -> Any:
    return x.reshape([-1, 3]) if x.shape[0] >= 9 else x


def related(x: Any, y: Any, z: Any) -> Any:
    if x.shape[0] >= 5 and x.shape[0] <= 36 and y.shape[0] % 3 == 0:
        return x + y[1:] + z[3:]
    return x


# What `inputs` are (sizes), and dynamic_shapes
CASES = {
    "hints of equal sizes": (
        add, [(6, 4), (6, 4)], [("A(min=4)", "A"), ("D(max=16)", "A(max=32)")]
    ),
    "one name of two": (add, [(10,), (10,)], [("Dim('C', min=3)",), ("Dim('C', max=12)",)]),
    "a Dim and hints": (add, [(4, 4), (4, 4)], [("A", "a"), ("b", "D")]),
    "a Dim that is a hint": (add, [(4,), (4,)], [("A(max=16)",), ("c",)]),
    "a hint after a Dim": (add, [(4,), (4,)], [("a",), ("D(max=16)",)]),
    "two Dims": (add, [(4,), (4,)], [("c",), ("d",)]),
    "a Dim of one and two": (lambda x: x * 2, [(2, 2)], [("p", None)]),
    "a hint that is too small": (lambda x: x[:6], [(8,)], [("D(max=5)",)]),
    "a hint that is too large": (small, [(8,)], [("A(min=48, max=62)",)]),
    "a static range": (lambda x: x + 2, [(4,)], [("S(min=6, max=8)",)]),
    "one size is left": (small, [(32,)], [("D(min=32)",)]),
    "one size is left of AUTO": (small, [(32,)], [("A(min=32)",)]),
    "zero and one": (lambda x: x + 2, [(0, 1)], [("D", "D")]),
    "a size that is fixed": (lambda x: x + torch.ones(4), [(4,)], [("D",)]),
    "a Dim that is fixed": (lambda x: x + torch.ones(4), [(4,)], [("c",)]),
    "a derived size": (lambda x, y: x + y[1:], [(5,), (6,)], [("c",), ("d",)]),
    "a multiple": (lambda x, y: x.reshape(-1) + y, [(4, 3), (12,)], [("c", None), ("d",)]),
    "a hint derived of a Dim": (lambda x, y: x + y[1:], [(4,), (5,)], [("c",), ("A",)]),
    "not derived": (lambda x, y: x + y[1:], [(5,), (6,)], [("c",), ("2*c",)]),
    "no integer": (lambda x: x[::2], [(10,)], [("2*c + 1",)]),
    "thirds": (of_thirds, [(15,)], [("c",)]),
    "one root": (related, [(11,), (12,), (14,)], [("c",), ("d",), ("a",)]),
    "a range": (small, [(8,)], [("c",)]),
    "a list for a tuple": (lambda x: x[0] + x[1], [[(4,), (4,)]], [(("c",), ("c",))]),
}  # fmt: skip


def attempt(lib: Any, name: str) -> tuple[Any, ...]:
    function, sizes, texts = CASES[name]
    inputs = tuple(
        [torch.ones(*s) for s in size] if isinstance(size, list) else torch.ones(*size)
        for size in sizes
    )
    options = {"strict": False} if lib is not ours else {}
    try:
        program = lib.export(Of(function), inputs, dynamic_shapes=shapes_of(lib, texts), **options)
    except Exception as error:
        text = str(error).split("\n\nThe ")[0]
        return type(error).__name__, text
    return {str(k): str(v) for k, v in program.range_constraints.items()}, program


@pytest.mark.parametrize("name", CASES)
def test_ranges_and_refusals_are_torchs(name: str) -> None:
    theirs, mine = attempt(torch.export, name), attempt(ours, name)
    assert mine[0] == theirs[0]
    if isinstance(theirs[0], str):
        assert mine[1] == theirs[1]


def test_sizes_beyond_a_hint_are_refused() -> None:
    _, program = attempt(ours, "hints of equal sizes")
    module = program.module()
    module(torch.ones(16, 32), torch.ones(16, 32))
    for sizes, text in (((17, 5), r"<= 16"), ((9, 33), r"<= 32"), ((3, 5), r">= 4")):
        with pytest.raises(AssertionError, match=text):
            module(torch.ones(*sizes), torch.ones(*sizes))


def test_where_dynamic_shapes_do_not_suit() -> None:
    """Places are named as dynamic_shapes is written: by name, or by position."""
    module, inputs = Of(lambda x: x["k"][0]), ({"k": [torch.ones(4)]},)

    class Named(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x["k"][0]

    module = Named()
    for read in (
        lambda d: {"k": [(d,)]},
        lambda d: ({"k": [d]},),
        lambda d: ({"k": ((d,),)},),
        lambda d: ({"k": d},),
        lambda d: ({"k": [(d,), (d,)]},),
        lambda d: ({"K": [(d,)]},),
        lambda d: {"x": {"k": [(d, None)]}},
        lambda d: {"x": {"k": [(d,)]}, "k": None},
    ):
        found = []
        for lib in (torch.export, ours):
            with pytest.raises(Exception) as caught:
                lib.export(module, inputs, dynamic_shapes=read(lib.Dim("d")))
            found.append((type(caught.value).__name__, str(caught.value).split("\n\nThe ")[0]))
        assert found[0] == found[1]


# -- Numbers that depend on data
# --------------------------------------------------------------------------------------------


def view_of_zeros(x: Any) -> Any:
    n = x[0].item()
    return torch.zeros(5, n).view(n, 5)


def reshaped(x: Any) -> Any:
    a, b = x.tolist()
    return torch.zeros(a).reshape(b)


def of_numbers(x: Any) -> Any:
    a, b = x.tolist()
    return torch.ones(max(a, 3)) + torch.ones(max(b, 3)), max(x[0], x[1]) + min(x[0], 5)


def checked(x: Any) -> Any:
    n = x[0].item()
    torch._check_is_size(n)
    torch._check(n < x.size(0) * 2)
    return torch.arange(8)[:n]


DATA: dict[str, Any] = {
    "view": (view_of_zeros, [[9, 1], [4, 4]]),
    "reshape": (reshaped, [[4, 4], [6, 6]]),
    "max and min": (of_numbers, [[2, 3], [3, 1], [7, 7]]),
    "select": (lambda x: torch.arange(10)[x[0].item()], [[2, 1], [-3, 1]]),
    "slice": (lambda x: torch.arange(10)[x[0].item() : x[1].item()], [[2, 4], [1, -1], [8, 20]]),
    "narrow": (lambda x: torch.arange(10).narrow(0, x[0].item(), 2), [[2, 4], [-3, 1]]),
    "compared": (checked, [[3, 0], [0, 0]]),
}  # fmt: skip


@pytest.mark.parametrize("name", DATA)
def test_numbers_of_data(name: str) -> None:
    """Where torch.export asks nothing before the program runs, neither do we."""
    function, values = DATA[name]
    example = torch.tensor(values[0])
    torch.export.export(Of(function), (example,), strict=False)
    program = ours.export(Of(function), (example,))
    for one in (program, program.run_decompositions()):
        for value in values:
            x = torch.tensor(value)
            torch.testing.assert_close(one.module()(x), function(x), check_dtype=False)


def test_what_must_be_equal_is_checked() -> None:
    """A number that was found equal to another one is not forgotten."""
    for function, value in ((reshaped, [5, 6]), (of_numbers, [5, 6])):
        program = ours.export(Of(function), (torch.tensor([4, 4]),))
        for one in (program, program.run_decompositions()):
            with pytest.raises(RuntimeError, match="Runtime assertion failed for expression Eq"):
                one.module()(torch.tensor(value))


def test_an_int_of_a_size_fixes_it() -> None:
    texts = []
    for lib, options in ((torch.export, {"strict": False}), (ours, {})):
        with pytest.raises(Exception, match="specialized it to be a constant") as caught:
            shapes = ({0: lib.Dim.DYNAMIC},)
            lib.export(
                Of(lambda x: x * int(x.shape[0] / 1)),
                (torch.ones(28),),
                dynamic_shapes=(shapes,),
                **options,
            )
        texts.append(str(caught.value).split("\n\nThe ")[0])
    assert texts[0] == texts[1]


def test_an_assert_on_data_is_the_programs() -> None:
    scope: dict[str, Any] = {}  # pytest would rewrite an assert in this file
    exec("def f(x):\n    y = x + 1\n    assert y.max().item() > 0\n    return y\n", scope)
    module = ours.export(Of(scope["f"]), (torch.zeros(4),)).module()
    assert torch.equal(module(torch.ones(4)), torch.full((4,), 2.0))
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        module(torch.full((4,), -3.0))
    with pytest.raises(RuntimeError, match="Could not guard on data-dependent expression"):
        ours.export(Of(lambda x: x + 1 if x.max().item() > 0 else x), (torch.zeros(4),))


def test_products_of_sizes_are_left_to_the_program() -> None:
    def flat(x: Any, y: Any) -> Any:
        return x.reshape(-1) + y.reshape(-1)

    shapes = ([("a", "b"), ("c", "d")], [(6, 8), (4, 12)])
    dims = {n: ours.Dim(n, min=2) for pair in shapes[0] for n in pair}
    inputs = tuple(torch.ones(*size) for size in shapes[1])
    given = (tuple(tuple(dims[n] for n in pair) for pair in shapes[0]),)
    module = ours.export(Of(flat), inputs, dynamic_shapes=given).module()
    assert module(torch.ones(3, 4), torch.ones(2, 6)).shape == (12,)
    with pytest.raises(AssertionError, match="Guard failed"):
        module(torch.ones(3, 4), torch.ones(2, 5))


def test_tensors_without_data_are_examples() -> None:
    with torch._subclasses.FakeTensorMode():
        example = torch.ones(4, 4)
    program = ours.export(Of(lambda x: x * 2), (example,))
    assert torch.equal(program.module()(torch.ones(4, 4)), torch.full((4, 4), 2.0))


def test_a_custom_operator_that_returns_a_number() -> None:
    """It crashed."""
    with torch.library._scoped_library("ranges", "FRAGMENT") as lib:
        lib.define("rows(Tensor x) -> (Tensor, SymInt)")
        lib.impl("rows", lambda x: (x.clone(), x.shape[0]), "CPU")
        torch.library.register_fake("ranges::rows", lambda x: (x.clone(), x.shape[0]), lib=lib)
        with pytest.raises(NotImplementedError, match="ranges::rows returns a value that is no"):
            ours.export(Of(lambda x: torch.ops.ranges.rows(x)), (torch.ones(3),))


def written(program: Any) -> Any:
    """The file of a program, at its beginning."""
    file = io.BytesIO()
    ours.save(program, file)
    file.seek(0)
    return file


def equal_numbers(x: Any, n: Any) -> Any:
    a, b = n.tolist()
    return torch.zeros(a).reshape(b) + x[0]


def equal_to_a_constant(x: Any, n: Any) -> Any:
    a, b = n.tolist()
    return torch.ones(24).view(a, 4) * b + x[0]


def equal_to_a_size(x: Any, n: Any) -> Any:
    a, b = n.tolist()
    torch._check(a == x.shape[0])
    return x + torch.ones(a) + b


def equal_to_a_sum(x: Any, n: Any) -> Any:
    a, b, c = n.tolist()
    torch._check(a + b == c)
    return x * 2


def an_index(x: Any, n: Any) -> Any:
    return x[n[0].item()] + 1


FOLLOWING = {
    equal_numbers: [4, 4],
    equal_to_a_constant: [6, 1],
    equal_to_a_size: [5, 2],
    equal_to_a_sum: [2, 3, 5],
    an_index: [2],
}


@pytest.mark.parametrize("function", FOLLOWING, ids=lambda f: f.__name__)
@pytest.mark.parametrize("table", [None, {}], ids=["exported", "functional"])
def test_pytorch_opens_what_has_numbers_that_follow(function: Any, table: Any) -> None:
    """A number of data that equals another one, a size or a constant is in no node any more."""
    args = (torch.arange(5.0), torch.tensor(FOLLOWING[function]))
    shapes = (({0: ours.Dim.AUTO}, None),)
    made = ours.export(Of(function), args, dynamic_shapes=shapes)
    made = made if table is None else made.run_decompositions(table)
    theirs = torch.export.load(written(made))
    assert str(ours.load(written(made))) == str(theirs)
    assert torch.equal(theirs.module()(*args), function(*args))


def test_a_range_of_a_formula_is_written_once() -> None:
    """Two sizes 2*n have one entry; with two, no reader took the file."""
    n = ours.Dim("n", min=2, max=16)
    args = (torch.ones(6), torch.ones(6), torch.ones(3))
    shapes = (({0: 2 * n}, {0: 2 * n}, {0: n}),)
    made = ours.export(Of(lambda x, y, z: (x + y)[::2] + z), args, dynamic_shapes=shapes)
    assert str(ours.load(written(made))) == str(torch.export.load(written(made)))
