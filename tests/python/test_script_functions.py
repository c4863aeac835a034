"""rushlight.script of live functions and classes beside torch.jit.script."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import itertools
import pathlib
import re
from typing import Any

import pytest
import rushlight
from conftest import SHARED, import_file
from probes import PREAMBLE, TABLE, is_as_recorded, rows, shown

torch = pytest.importorskip("torch")

# Where we answer otherwise, and why.
EXCEPT = {
    "float.060": "PyTorch takes a == a for true, also of NaN",
    "rej_syntax.478": "type() stays no function of programs",
    "rej_syntax.485": "object() stays no function of programs",
    "rej_syntax.497": "memoryview() stays no function of programs",
}
# Refused as there, in other words: Python's builtins have no place in programs; what is closed over
# is named by its type.
OTHER_WORDS = {
    "list.223", "rej_syntax.482", "rej_syntax.488", "rej_syntax.489", "rej_syntax.490",
    "rej_syntax.491", "rej_syntax.494", "rej_def.606", "rej_def.615",
}  # fmt: skip
_numbers = itertools.count()


def imported(text: str, folder: pathlib.Path) -> Any:
    """Make a module of a text that is in a file."""
    name = f"rush_snippet_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    return import_file(path)


def outcome(
    source: str, inputs: str, status: str, folder: pathlib.Path, cache: dict[str, Any]
) -> tuple[str, str, str]:
    """(result, "", "") or ("", class, message)."""
    try:
        if source not in cache:
            cache.clear()
            cache[source] = imported(PREAMBLE + source, folder)
            cache["f"] = rushlight.script(cache[source].f)
        f = cache.get("f") or rushlight.script(cache[source].f)
        if status in ("compile_error", "compiles"):
            return "compiles", "", ""
        return shown(f(*eval(inputs, {"torch": torch}))), "", ""
    except Exception as e:  # noqa: BLE001
        return (
            "",
            type(e).__name__,
            re.sub(r"__torch__\.rush_snippet_\d+\.", "__torch__.", " ".join(str(e).split())),
        )


@pytest.mark.skipif(not TABLE.exists(), reason="no ../shared/probes here")
def test_every_probe(tmp_path: pathlib.Path) -> None:
    wrong, taken, cache = [], 0, {}
    for name, source, inputs, status, want, message in rows():
        taken += 1
        got = outcome(source, inputs, status, tmp_path, cache)
        as_recorded = is_as_recorded(status, want, "" if name in OTHER_WORDS else message, got)
        if name not in EXCEPT and not as_recorded:
            wrong.append(f"{name} {inputs}: {got} is not {status} {want} {message}\n{source}")
    print(f"probes through the Python entry: {taken} rows")
    assert taken > 800
    assert not wrong, f"{len(wrong)} of {taken} differ:\n" + "\n".join(wrong)


# -- Snippets that both compile
# ---------------------------------------------------------------------------------


def snippets() -> dict[str, str]:
    """Of the files in snippets/: `=== NAME`, then a text that defines `f`; a line `#: a, b` of it
    is a call.  words_*: for test_words."""
    out: dict[str, str] = {}
    for file in sorted((pathlib.Path(__file__).parent / "snippets").glob("*.txt")):
        for part in re.split(r"^=== ", file.read_text(encoding="utf-8"), flags=re.M)[1:]:
            name, text = part.split("\n", 1)
            assert name not in out, f"{file}: {name} stands twice"
            out[name] = text
    return out


SNIPPETS = snippets()
# Where we answer otherwise, and why.
OTHERWISE = {
    "mutual_recursion": "PyTorch runs out of stack, ours is the error of recursion",
    "any_args": "lists of several types are Any's here",
    "torch_size_annotation": "torch.Size is a list of ints here",
}


class Close:
    """A tensor that equals another nearly."""

    def __init__(self, value: torch.Tensor) -> None:
        self.value = value.detach().clone()

    def __eq__(self, other: object) -> bool:
        if (
            not isinstance(other, Close)
            or self.value.dtype != other.value.dtype
            or self.value.shape != other.value.shape
        ):
            return False
        return torch.allclose(self.value, other.value, rtol=1e-4, atol=1e-6, equal_nan=True)

    def __repr__(self) -> str:
        return shown(self.value)


def plain(value: Any) -> Any:
    """For comparing: classes by name, tensors as lists."""
    if isinstance(value, torch.Tensor):
        return Close(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value).__name__, value._fields, [plain(v) for v in value]
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [plain(v) for v in value]
    if isinstance(value, dict):
        return [(k, plain(v)) for k, v in value.items()]
    if hasattr(value, "__dict__") and type(value).__module__.startswith("rush_snippet"):
        return type(value).__name__, str(value) if hasattr(value, "name") else {
            k: plain(v) for k, v in vars(value).items()
        }
    return type(value).__name__, repr(value)


def key_of(error: BaseException) -> Any:
    """The part of an error that both must have: the class and the first line that says
    something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].startswith("The following operation failed"):
        lines = [line for line in lines if ": " in line and not line.startswith("File")][
            -1:
        ] or lines[-1:]
    return type(error).__name__, lines[0] if lines else ""


def answers(script: Any, text: str, folder: pathlib.Path, capsys: Any) -> list[Any]:
    """Return each call's result: ("ok", value) or ("error", key); one error alone when it does not
    compile."""
    module = imported(PREAMBLE + text.replace("from __future__ import annotations\n", ""), folder)
    if "from __future__" in text:
        module = imported(
            "from __future__ import annotations\n"
            + PREAMBLE
            + text.replace("from __future__ import annotations\n", ""),
            folder,
        )
    try:
        f = script(module.f)
    except Exception as e:  # noqa: BLE001
        return [("refused", key_of(e), str(e))]
    out: list[Any] = []
    for line in text.splitlines():
        if not line.startswith("#:"):
            continue
        torch.manual_seed(7)
        args = eval(f"({line[2:]},)" if line[2:].strip() else "()", vars(module))
        capsys.readouterr()
        try:
            out.append(("ok", plain(f(*args)), capsys.readouterr().out, plain(args)))
        except Exception as e:  # noqa: BLE001
            out.append(("error", key_of(e), str(e)))
    return out


def agree(ours: list[Any], theirs: list[Any]) -> bool:
    if len(ours) != len(theirs):
        return False
    for a, b in zip(ours, theirs, strict=True):
        if a[0] != b[0]:
            return False
        if a[0] == "ok" and a[1:] != b[1:]:
            return False
        if a[0] != "ok" and a[1][0] != b[1][0]:
            return False
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in SNIPPETS if not name.startswith("words_")])
def test_snippet(name: str, tmp_path: pathlib.Path, capsys: Any) -> None:
    if name in OTHERWISE:
        pytest.skip(OTHERWISE[name])
    theirs = answers(torch.jit.script, SNIPPETS[name], tmp_path, capsys)
    ours = answers(rushlight.script, SNIPPETS[name], tmp_path, capsys)
    assert agree(ours, theirs), f"ours:   {ours}\ntheirs: {theirs}"


def words(answer: list[Any]) -> list[str]:
    """Whole messages, without the file's number and what only ours suggest."""
    return [
        re.sub(
            r" Did you mean [^?\n]*\?", "", re.sub(r"rush_snippet_\d+", "rush_snippet", a[2])
        ).strip()
        for a in answer
        if a[0] != "ok"
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in SNIPPETS if name.startswith("words_")])
def test_words(name: str, tmp_path: pathlib.Path, capsys: Any) -> None:
    """Messages equal PyTorch's, and mark the same part of the source."""
    theirs = words(answers(torch.jit.script, SNIPPETS[name], tmp_path, capsys))
    assert theirs and words(answers(rushlight.script, SNIPPETS[name], tmp_path, capsys)) == theirs


# -- torch.nn.functional
# --------------------------------------------------------------------------------------

X4 = "torch.randn(2, 3, 8, 8)"
CALLS = {
    "relu": "X",
    "relu6": "X",
    "elu": "X",
    "selu": "X",
    "celu": "X",
    "leaky_relu": "X",
    "gelu": "",
    "silu": "X",
    "mish": "X",
    "hardtanh": "X",
    "hardswish": "X",
    "hardsigmoid": "X",
    "tanhshrink": "X",
    "softsign": "X",
    "softmin": "X, 1",
    "softmax": "X, 1",
    "log_softmax": "X, 1",
    "glu": "torch.randn(2, 4)",
    "threshold": "X, 0.1, 2.0",
    "dropout": "X, 0.0, True",
    "alpha_dropout": "X, 0.0, True",
    "max_pool2d": "X, 2",
    "max_pool1d": "torch.randn(1, 2, 8), 2",
    "max_pool2d_with_indices": "X, 2",
    "adaptive_avg_pool2d": "X, [2, 2]",
    "adaptive_max_pool2d": "X, [2, 2]",
    "adaptive_max_pool2d_with_indices": "X, [3, 2]",
    "lp_pool2d": "X, 2.0, 2",
    "lp_pool1d": "X[0], 2.0, 2",
    "batch_norm": "X, torch.zeros(3), torch.ones(3), None, None, False, 0.1, 1e-5",
    "instance_norm": "X",
    "layer_norm": "X, [8, 8]",
    "group_norm": "X, 3",
    "rms_norm": "X, [8]",
    "local_response_norm": "X, 2",
    "normalize": "X",
    "embedding": "torch.tensor([1, 0]), torch.randn(3, 4)",
    "embedding_bag": "torch.tensor([[1, 0]]), torch.randn(3, 4)",
    "cross_entropy": "torch.randn(3, 4), torch.tensor([0, 1, 2])",
    "nll_loss": "torch.randn(3, 4), torch.tensor([0, 1, 2])",
    "mse_loss": "X, X * 2",
    "l1_loss": "X, X + 1",
    "smooth_l1_loss": "X, X + 1",
    "huber_loss": "X, X + 2",
    "kl_div": "X, X.abs()",
    "binary_cross_entropy": "X.sigmoid(), X.sigmoid()",
    "binary_cross_entropy_with_logits": "X, X.sigmoid()",
    "poisson_nll_loss": "X, X.abs()",
    "gaussian_nll_loss": "X, X, X.abs() + 1",
    "cosine_embedding_loss": "torch.randn(3, 4), torch.randn(3, 4), torch.ones(3)",
    "hinge_embedding_loss": "X, torch.ones(2, 3, 8, 8)",
    "margin_ranking_loss": "X, X + 1, torch.ones(2, 3, 8, 8)",
    "soft_margin_loss": "X, torch.ones(2, 3, 8, 8)",
    "multilabel_soft_margin_loss": "torch.randn(2, 3), torch.ones(2, 3)",
    "triplet_margin_loss": "torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4)",
    "multi_margin_loss": "torch.randn(3, 4), torch.tensor([0, 1, 2])",
    "pad": "X, [1, 1]",
    "interpolate": "X, None, 2.0",
    "upsample": "X, None, 2",
    "grid_sample": "X, torch.zeros(2, 4, 4, 2), 'bilinear', 'zeros', False",
    "affine_grid": "torch.randn(2, 2, 3), [2, 3, 4, 4], False",
    "pairwise_distance": "torch.randn(3, 4), torch.randn(3, 4)",
    "fold": "",
    "unfold": "X, [2, 2]",
    "one_hot": "",
    "linear": "",
    "bilinear": "",
    "max_unpool2d": "torch.randn(1, 1, 2, 2), torch.tensor([[[[0, 2], [8, 10]]]]), [2, 2]",
    "gumbel_softmax": "",
    "feature_alpha_dropout": "X, 0.0",
    "multi_head_attention_forward": "",
    "scaled_dot_product_attention": "",
}


@pytest.mark.filterwarnings("ignore")
def test_functional() -> None:
    """Every Python function of torch.nn.functional is taken or refused as torch.jit.script does,
    and those with sample calls agree."""
    import torch.nn.functional as functional

    wrong, taken, called = [], 0, 0
    for name in sorted(vars(functional)):
        fn = getattr(functional, name)
        if not isinstance(fn, type(test_functional)) or fn.__module__ != "torch.nn.functional":
            continue
        outcomes = []
        for script in (torch.jit.script, rushlight.script):
            try:
                outcomes.append(script(fn))
            except Exception as e:  # noqa: BLE001
                outcomes.append(e)
        theirs, ours = outcomes
        refused = [isinstance(x, Exception) for x in outcomes]
        if refused[0] != refused[1]:
            wrong.append(f"{name}: {ours if refused[1] else 'taken'}"[:300])
        if any(refused):
            continue
        taken += 1
        if CALLS.get(name):
            torch.manual_seed(0)
            args = eval(f"({CALLS[name].replace('X', X4)},)", {"torch": torch})
            try:
                want = plain(theirs(*args))
            except RuntimeError:  # PyTorch's own trouble with a number where a list is declared
                continue
            called += 1
            try:
                got = plain(ours(*args))
            except Exception as e:  # noqa: BLE001
                got = str(e)
            if got != want:
                wrong.append(f"{name}: {got} is not {want}"[:400])
    print(f"torch.nn.functional: {taken} functions taken, {called} called")
    assert not wrong, "\n".join(wrong)


# -- The language programs of the corpus
# ------------------------------------------------------------------------

CORPUS = SHARED / "corpus"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not CORPUS.exists(), reason="no ../shared/corpus here")
def test_language_programs(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.syspath_prepend(str(CORPUS))
    define = importlib.import_module("define")
    programs: list[Any] = []
    monkeypatch.setattr(
        define, "script", lambda name, target, *calls, **_: programs.append((name, target, calls))
    )
    for file in sorted((CORPUS / "cases").glob("lang_*.py")):
        import_file(file)
    wrong, n = [], 0
    for name, target, calls in programs:
        if (
            isinstance(target, type)
            or target.__name__ == "<lambda>"
            or name == "numbers/infinities"
        ):  # nan == nan there
            continue
        n += 1
        ours, theirs = rushlight.script(target), torch.jit.script(target)
        for call in (
            define.seeded(name, calls[0])
            if len(calls) == 1 and not isinstance(calls[0], define.Call)
            else calls
        ):
            results = []
            for f in (ours, theirs):
                capsys.readouterr()
                args = copy.deepcopy(call.args)
                torch.manual_seed(call.seed or 0)
                try:
                    results.append(
                        (plain(f(*args, **call.kwargs)), plain(args), capsys.readouterr().out)
                    )
                except Exception as e:  # noqa: BLE001
                    results.append((key_of(e)[0], plain(args), capsys.readouterr().out))
            if results[0] != results[1]:
                wrong.append(f"{name}: {results[0]} is not {results[1]}"[:600])
    print(f"language programs of the corpus through the Python entry: {n}")
    assert not wrong, "\n".join(wrong)


# -- Texts, containers, futures
# -----------------------------------------------------------------------------------


def test_compilation_unit() -> None:
    offset = torch.ones(1)

    def helper(x):  # noqa: ANN202
        return x + 1

    unit = rushlight.CompilationUnit(
        "def f(x, n: int = 2):\n    return helper(x) * n\ndef g(x):\n    return f(x, 3)\n"
    )
    assert unit.g(offset).item() == 6.0
    assert unit.f(offset).item() == 4.0
    assert unit.find_function("f") is unit.f and [f.name for f in unit.get_functions()] == [
        "f",
        "g",
    ]
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        _ = unit.nope
    with pytest.raises(RuntimeError, match="method 'f' already defined"):
        unit.define("def f(x):\n    return x\n")
    with pytest.raises(RuntimeError, match="cannot be used as a value"):
        rushlight.CompilationUnit("def h(x):\n    return x + offset\n")


def test_shared_containers(tmp_path: pathlib.Path) -> None:
    items, names = rushlight.script([1, 2]), rushlight.script({"a": 1})
    unit = rushlight.CompilationUnit(
        "def f(x: List[int], d: Dict[str, int]):\n    x.append(9)\n    d['q'] = 5\n"
    )
    unit.f(items, names)
    assert items == [1, 2, 9] and names == {"a": 1, "q": 5}
    items[0:2] = [7]
    del names["a"]
    assert list(items) == [7, 9] and len(names) == 1 and items.pop() == 9
    with pytest.raises(TypeError):
        items.append("a")
    with pytest.raises(KeyError):
        _ = names["z"]


def test_futures(tmp_path: pathlib.Path) -> None:
    text = "def g(x):\n    return x + 1\ndef f(x):\n    return torch.jit.fork(g, x)\n"
    future = rushlight.CompilationUnit(text).f(torch.ones(1))
    assert future.done() and rushlight.wait(future).item() == 2.0
    assert rushlight.fork(lambda x: x + 1, 2).value() == 3
    with pytest.raises(ZeroDivisionError):
        rushlight.wait(rushlight.fork(lambda: 1 // 0))


def test_one_object_for_one_function(tmp_path: pathlib.Path) -> None:
    module = imported("import torch\ndef f(x):\n    return x\n", tmp_path)
    assert rushlight.script(module.f) is rushlight.script(module.f)
    assert rushlight.script(rushlight.script(module.f)) is rushlight.script(module.f)
    with pytest.raises(TypeError, match="is a built-in class"):
        rushlight.script(3)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("def q(x): return x", names)
    with pytest.raises(OSError, match="Can't get source for"):
        rushlight.script(names["q"])


LOCALS = """
import rushlight
def make():
    class Color(Enum):
        RED = 1
    class P(NamedTuple):
        x: int
    Pair = Tuple[int, int]
    @rushlight.script
    class U:
        def __init__(self, c: Color):
            self.c = c
        def same(self, o: "U") -> bool:
            return self.c == o.c
        def twin(self) -> "U":
            return U(self.c)
    def f(c: Color, p: Optional[P], q: Pair) -> Tuple[int, bool]:
        return c.value + q[0], U(c).same(U(c).twin())
    global Red
    Red = Color.RED
    return f
f = make()
"""


def test_classes_of_functions_locals(tmp_path: pathlib.Path) -> None:
    module = imported(PREAMBLE + LOCALS, tmp_path)
    assert rushlight.script(module.f)(module.Red, None, (2, 3)) == (3, True)
