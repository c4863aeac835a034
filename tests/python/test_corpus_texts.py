"""The language programs of the public corpus (../shared/corpus/cases/lang_*.py) made of functions
and classes, from text: their calls answer as torch.jit.script's."""

from __future__ import annotations

import ast
import copy
import pathlib
import sys
import types
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import rushlight
from conftest import SHARED, import_file

torch = pytest.importorskip("torch")

CASES = SHARED / "corpus" / "cases"


class Definitions(types.ModuleType):
    """A replacement for the corpus' `define`: keeps what script() is given, ignores the rest."""

    def __init__(self) -> None:
        super().__init__("define")
        self.found: list[tuple[str, Any, list[Any]]] = []

    def call(
        self, *args: Any, kw: Any = None, seed: Any = None, raises: Any = None, **_: Any
    ) -> Any:
        return types.SimpleNamespace(args=args, kwargs=kw or {}, seed=seed, raises=raises)

    def script(self, name: str, fn: Any, *calls: Any, **_: Any) -> None:
        self.found.append((name, fn, list(calls)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: args[0] if args and callable(args[0]) else None


def text_of(path: pathlib.Path) -> str:
    """Return the file without modules, and without the descriptions of cases."""
    source = path.read_text(encoding="utf-8")
    lines = source.split("\n")
    modules = {"Module", "nn.Module", "torch.nn.Module"}
    for node in ast.parse(source).body:
        module = isinstance(node, ast.ClassDef) and any(
            ast.unparse(b) in modules for b in node.bases
        )
        if module and isinstance(node, ast.ClassDef):
            modules.add(node.name)
        for d in getattr(node, "decorator_list", []) if isinstance(node, ast.FunctionDef) else []:
            lines[d.lineno - 1] = ""  # a file with marked functions has these only
        if module or isinstance(node, (ast.Expr, ast.For, ast.If)):
            first = min([node.lineno, *[d.lineno for d in getattr(node, "decorator_list", [])]])
            lines[first - 1 : node.end_lineno] = [""] * (node.end_lineno - first + 1)  # type: ignore[operator]
    return "\n".join(lines)


def definitions(path: pathlib.Path) -> list[tuple[str, Any, list[Any]]]:
    words = Definitions()
    sys.modules["define"] = words
    try:
        import_file(path, f"corpus_{path.stem}")
    finally:
        del sys.modules["define"]
    return [
        case
        for case in words.found
        if isinstance(case[1], types.FunctionType) and case[1].__name__ != "<lambda>"
    ]


def run(f: Any, c: Any, name: str) -> tuple[Any, str]:
    torch.manual_seed(zlib.crc32(name.encode()) if c.seed is None else c.seed)
    try:
        return f(*copy.deepcopy(c.args), **copy.deepcopy(c.kwargs)), ""
    except Exception as e:  # noqa: BLE001
        return None, str(e).strip().split("\n")[-1].replace("builtins.", "")


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        wide = torch.complex128 if a.is_complex() else torch.float64
        close = a.shape == b.shape and torch.allclose(
            a.to(wide), b.to(wide), rtol=1e-5, atol=1e-6, equal_nan=True
        )
        return a.dtype == b.dtype and close
    if isinstance(a, (list, tuple)):
        return (
            isinstance(b, (list, tuple))
            and len(a) == len(b)
            and all(same(x, y) for x, y in zip(a, b, strict=True))
        )
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, float):
        return abs(a - b) <= 1e-9 + 1e-6 * abs(b) or a == b or (a != a and b != b)
    return type(a).__name__ == type(b).__name__ and (a == b or not isinstance(a, (int, str, bool)))


def differences(path: pathlib.Path, folder: pathlib.Path) -> Iterator[tuple[str, str]]:
    text = folder / path.name
    text.write_text(text_of(path), encoding="utf-8")
    unit = rushlight.load(str(text))
    for name, fn, calls in definitions(path):
        theirs, ours = torch.jit.script(fn), getattr(unit, fn.__name__)
        what = ""
        for c in calls:
            want, got = run(theirs, c, name), run(ours, c, name)
            if want[1] != got[1] or not same(want[0], got[0]):
                what = f"{c.args}: torch {want}, we {got}"
        yield name, what


@pytest.mark.skipif(not CASES.exists(), reason="no ../shared/corpus here")
@pytest.mark.parametrize("name", sorted(p.stem for p in CASES.glob("lang_*.py")))
def test_from_text(name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = list(differences(CASES / f"{name}.py", tmp_path))
    wrong = [f"{case} {what}" for case, what in found if what]
    with capsys.disabled():
        print(f"\n{name}: {len(found) - len(wrong)} of {len(found)} programs from text")
    assert not wrong, "\n".join(wrong)
