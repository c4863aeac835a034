"""`import rushlight` loads the extension and little else; each name brings its part when it is
first used."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import rushlight
from conftest import DATA

# Modules that cost milliseconds and that no plain import needs.
HEAVY = {
    "ast", "collections", "contextlib", "dataclasses", "dis", "enum", "functools",
    "importlib.resources", "inspect", "json",
    "numpy", "pickle", "re", "tokenize", "torch", "typing",
}  # fmt: skip
COUNT = """
import sys
before = set(sys.modules)
{}
print(*sorted(set(sys.modules) - before))
"""


def added(code: str) -> set[str]:
    """The modules that the code imports in a Python without site-packages."""
    path = os.pathsep.join(p for p in sys.path if p)
    out = subprocess.run(
        [sys.executable, "-S", "-c", COUNT.format(code)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    return set(out.stdout.split())


def fresh(code: str) -> str:
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return out.stdout.strip()


def test_the_import_adds_few_modules() -> None:
    found = added("import rushlight")
    assert not found & HEAVY, sorted(found & HEAVY)
    assert {name for name in found if name.startswith("rushlight")} == {
        "rushlight",
        "rushlight._rushlight",
    }
    assert len(found) <= 4, sorted(found)


def test_running_a_program_needs_no_compiler() -> None:
    """Loading and calling: the compiler's questions (ast, inspect, entry ...) stay out."""
    path = str(DATA / "digits.pt")
    found = added(
        f"import rushlight; rushlight.load({path!r})(rushlight.tensor([[[[0.0] * 8] * 8]]))"
    )
    assert not found & {
        "ast",
        "inspect",
        "dataclasses",
        "importlib.resources",
        "rushlight.jit.entry",
        "rushlight.ir",
    }


@pytest.mark.parametrize(
    "name", sorted({*rushlight.__all__, "isinstance", "TracerWarning"} - {"__version__"})
)
def test_every_name_is_there(name: str) -> None:
    assert getattr(rushlight, name) is getattr(rushlight, name)
    assert name in dir(rushlight) or name in ("isinstance", "TracerWarning")


@pytest.mark.parametrize(
    "first",
    [
        "type(rushlight.tensor([1.0])).add",
        "rushlight.Tensor.relu",
        "rushlight.tensor([1.0]).relu().tolist()",
        f"{str(DATA / 'digits.pt')!r} and rushlight.load({str(DATA / 'digits.pt')!r})"
        f".graph.nodes()",
        f"rushlight.load({str(DATA / 'digits.pt')!r}).forward.inputs[0].name",
        "rushlight.parse_ir('graph(%x : Tensor):\\n  return (%x)').inputs()",
        "rushlight.CompilationUnit('def f(x: int): return x').f(1)",
        "rushlight.limits(max_seconds=1.0).__enter__()",
        "rushlight.jit.script, rushlight.jit.isinstance, rushlight.jit.entry, "
        "rushlight.jit._ScriptProfile",
        "rushlight.no_grad().__enter__()",
    ],
)
def test_any_name_may_be_first(first: str) -> None:
    fresh(f"import rushlight; {first}")


def test_star_brings_everything() -> None:
    assert (
        fresh("from rushlight import *; print(script.__name__, Tensor.__name__, load.__name__)")
        == "script Tensor load"
    )


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'rushlight' has no attribute 'scirpt'"):
        rushlight.scirpt  # noqa: B018
    with pytest.raises(AttributeError, match=r"module 'rushlight\.jit' has no attribute 'scirpt'"):
        rushlight.jit.scirpt  # noqa: B018
