"""Words and manners that test suites of TorchScript programs look at."""

from __future__ import annotations

import enum
import io
import pathlib
import re
import sys
import zipfile
from typing import Any

import pytest
import rushlight
from conftest import import_file

torch = pytest.importorskip("torch")

HEAD = """import cmath
import torch
from typing import Dict, List, Tuple
from torch import Tensor
"""
REFUSED = {
    "keyword": (
        "def g(a: int): return a\ndef f(): return g(a=1, b=2)",
        r"Keyword argument b unknown\.",
    ),
    "builtin": (
        "def f(c: complex): return cmath.polar(c)",
        r"is currently not supported in Torchscript:\n",
    ),
    "empty list": (
        "def g(a: List[int]): return a\ndef f():\n    a = []\n    return g(a)",
        r"Empty lists default to List\[Tensor\]\. Add a variable annotation",
    ),
    "class attribute": (
        "class A:\n    X = 3\n    def __init__(self): self.y = self.X\ndef f(): return A().y",
        r"Consider converting this to an instance attribute",
    ),
    "overload's parameters": (
        "@torch.jit._overload\ndef g(x: Tensor) -> Tensor: ...\ndef g(x, y=2): return x\ndef f(x): "
        "return g(x)",
        r"Did not find type for param y",
    ),
}


def imported(text: str, folder: pathlib.Path) -> Any:
    path = folder / "manners.py"
    path.write_text(HEAD + text)
    return import_file(path)


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, tmp_path: pathlib.Path) -> None:
    text, words = REFUSED[name]
    for script in (torch.jit.script, rushlight.script):
        with pytest.raises(Exception, match=words):
            script(imported(text, tmp_path).f)


def test_unhashable(tmp_path: pathlib.Path) -> None:
    f = rushlight.script(imported("def f(a: List[int]): return hash(a)", tmp_path).f)
    with pytest.raises(Exception, match="unhashable type: 'list'"):
        f([1])


def test_too_many_arguments(tmp_path: pathlib.Path) -> None:
    f = imported("def f(x): return x", tmp_path).f
    for script in (torch.jit.script, rushlight.script):
        for args, kwargs in (((1, 2), {}), ((1,), {"z": 2}), ((1,), {"x": 2})):
            with pytest.raises(
                RuntimeError,
                match=r"f\(\) expected at most 1 argument\(s\) but received 2 argument\(s\)",
            ):
                script(f)(*args, **kwargs)


def test_devices_and_generators(tmp_path: pathlib.Path) -> None:
    text = (
        "def f(d: torch.device, g: torch.Generator):\n"
        "    return d.type, d.index, torch.rand(2, generator=g), torch.randn(3, generator=g)\n"
    )
    f = imported(text, tmp_path).f
    drawn = []
    for script in (torch.jit.script, rushlight.script):
        g = torch.Generator()
        g.manual_seed(5)
        made = script(f)
        drawn.append(
            [*made("cuda:1", g), *made(torch.device("cpu"), g), torch.rand(1, generator=g)]
        )
        with pytest.raises(RuntimeError, match="at start of device string: nonsense"):
            made("nonsense", g)
    assert all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        for a, b in zip(*drawn, strict=True)
    )


AWAITED = """
from torch._awaits import _Await as Await
class Pair:
    def __init__(self, a: Tensor, b: Tensor):
        self.a, self.b = a, b
def make(x) -> Pair:
    print("made")
    return Pair(x, x + 1)
def value(a: Await[Tensor]) -> Tensor:
    return torch.jit._awaitable_wait(a)
def f(x):
    pair = torch.jit._awaitable(make, x)
    print("before")
    return pair.a + pair.b + value(torch.jit._awaitable_nowait(x))
"""


def test_awaitables(tmp_path: pathlib.Path, capfd: Any) -> None:
    f = imported(AWAITED, tmp_path).f
    for script in (torch.jit.script, rushlight.script):
        assert script(f)(torch.ones(1)).item() == 4.0
        sys.stdout.flush()
        assert capfd.readouterr().out.split() == ["before", "made"]


def test_functions_of_graphs() -> None:
    f = rushlight.CompilationUnit("def f(x, n: int = 3, s: str = 'a,b'):\n    return x + n").f
    unit = rushlight.CompilationUnit()
    assert (
        unit.create_function("g", f.graph)(torch.ones(1), 2, "").item() == 3.0
        and unit.g.name == "g"
    )
    assert [a.default_value for a in f.schema.arguments] == [None, 3, "a,b"]
    assert (
        type(rushlight.CompilationUnit("def f(x):\n    return torch.max(x, 0)").f(torch.ones(2)))
        is tuple
    )


def test_casts_say_why(tmp_path: pathlib.Path) -> None:
    f = imported("def f(a: Tuple[int, str], b: List[Tensor]): return a", tmp_path).f
    wrong = ((1, 2), []), ((1, "a", 3), []), ((1, "a"), [3])
    said: list[list[str]] = [[], []]
    for to, script in zip(said, (torch.jit.script, rushlight.script), strict=True):
        for args in wrong:
            with pytest.raises(RuntimeError) as caught:
                script(f)(*args)
            to.append(str(caught.value))
    assert said[0] == said[1]


def test_containers_with_one_wrong_value() -> None:
    def f(d: dict[str, torch.Tensor]) -> torch.Tensor:
        return d["a"]

    x, script = torch.ones(3), rushlight.script(f)
    for _ in range(20):  # what was converted before the wrong value is given back once
        with pytest.raises(RuntimeError, match="Expected a value of type 'Dict"):
            script({"a": x, "b": (x,)})


class Plain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.flag, self.size, self.rate, self.name = True, 1, 1.5, "x"
        self.names, self.pairs, self.pair, self.nothing = ["a"], {"a": 1}, (1, "a"), None
        self.register_buffer("b", torch.ones(1))

    def forward(self, x):
        return x


ATTRIBUTES: list[tuple[str, object]] = [
    ("flag", 3), ("flag", None), ("flag", "x"), ("size", True), ("size", "x"), ("size", 2**70),
    ("rate", 2), ("rate", None),
    ("name", 3), ("names", [1]), ("names", ("b",)), ("names", 3), ("pairs", {"a": "b"}), ("pairs",
                                                                                          [1]),
                                                                                          ("pair",
                                                                                           (1, 2)),
    ("pair", [2, "b"]), ("pair", 3), ("nothing", 3),
]  # fmt: skip


def test_attributes_take_what_torchs_take() -> None:
    ours, theirs = rushlight.script(Plain()), torch.jit.script(Plain())
    for name, value in ATTRIBUTES:
        said = []
        for module in (ours, theirs):
            try:
                setattr(module, name, value)
                said.append(repr(getattr(module, name)))
            except RuntimeError as error:
                said.append(str(error))
        assert said[0] == said[1], (name, value)


@pytest.mark.parametrize(
    "act",
    [
        lambda m: m.train("x"),
        lambda m: m.register_buffer("c", torch.ones(1)),
        lambda m: m.register_parameter("c", torch.nn.Parameter(torch.ones(1))),
        lambda m: m.load_state_dict(3),
        lambda m: delattr(m, "b"),
        lambda m: delattr(m, "absent"),
    ],
)
def test_refusals_of_modules(act: Any) -> None:
    said = []
    for script in (rushlight.script, torch.jit.script):
        with pytest.raises((RuntimeError, ValueError, TypeError, AttributeError)) as error:
            act(script(Plain()))
        said.append((error.type, str(error.value)))
    assert said[0] == said[1]


class Ignored(torch.nn.Module):
    @torch.jit.ignore
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @torch.jit.export
    def other(self, x):
        return x


def test_an_ignored_forward_is_pythons() -> None:
    module = rushlight.script(Ignored())
    assert module(torch.ones(1)) == 2 and module.forward(torch.ones(1)) == 2


def test_saved_code_is_torchs() -> None:
    texts = []
    for script in (rushlight.script, torch.jit.script):
        archive = zipfile.ZipFile(
            io.BytesIO(script(torch.nn.Sequential(torch.nn.ReLU(), Plain())).save_to_buffer())
        )
        read = {
            n.split("/", 1)[1]: archive.read(n).decode()
            for n in archive.namelist()
            if n.endswith(".py")
        }
        texts.append(
            [re.sub(r"[./]?___torch_mangle_\d+", "", n + text) for n, text in sorted(read.items())]
        )
    assert texts[0] == texts[1]


class Shade(enum.Enum):
    RED = 1
    BLUE = 2


class Colored(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shade = Shade.RED

    def forward(self, x: Shade):
        assert x.value < 3, "too many"
        return self.shade == x


def test_enums_are_set() -> None:
    module = rushlight.script(Colored())
    module.shade = Shade.BLUE
    assert module(Shade.BLUE) and module.shade == Shade.BLUE
    with pytest.raises(RuntimeError, match="Could not cast attribute 'shade'"):
        module.shade = 1


def test_methods_show_their_constants() -> None:
    module = rushlight.script(Plain())
    assert module.forward.code_with_constants[0] == module.code


def test_archives_tell_of_one_function() -> None:
    """What a saved program keeps of its source is the functions, as in PyTorch, not the files."""
    module = rushlight.script(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 2)))
    archive = zipfile.ZipFile(io.BytesIO(module.save_to_buffer()))
    assert sum(i.file_size for i in archive.infolist() if i.filename.endswith(".debug_pkl")) < 5000
    loaded = rushlight.load(io.BytesIO(module.save_to_buffer()))
    with pytest.raises(RuntimeError) as error:
        loaded(torch.ones(1, 3))
    said = str(error.value).partition("original code")[2]
    assert "linear.py" in said and "~~~~~~~~ <--- HERE" in said and "def extra_repr" not in said
