"""rushlight.trace beside torch.jit.trace: results on other inputs than traced, operators of the graphs, warnings, errors."""

from __future__ import annotations

import collections
import io
import textwrap
import warnings

import numpy as np
import pytest
import rushlight
import torch
from trace_snippets import SNIPPETS, Snippet

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def r(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes)


def i(*sizes: int) -> torch.Tensor:
    return torch.randint(0, 2, sizes)


SCOPE = {"torch": torch, "np": np, "C": torch.randn(2, 3)[0:1].clone(), "r": r, "i": i}


def function_of(snippet: Snippet, n: int):
    text = snippet.text if "\nreturn" in snippet.text else f"return {snippet.text}"
    names = ", ".join("xyz"[:n])
    scope = {"__name__": "snippets", **SCOPE}
    exec(f"def f({names}):\n{textwrap.indent(text, '  ')}", scope)
    return scope["f"]


def inputs_of(text: str) -> tuple:
    return eval(f"({text},)", dict(SCOPE))


def flat(value) -> list:
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in flat(v)]
    if isinstance(value, dict):
        return [leaf for v in value.values() for leaf in flat(v)]
    return [value]


def clone(value):
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {k: clone(v) for k, v in value.items()}
    return type(value)(clone(v) for v in value)


def traced_by(trace, f, inputs, **options):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.manual_seed(0)
        made = trace(f, clone(inputs), check_trace=False, **options)
    texts = [str(w.message).split(".")[0] for w in seen if issubclass(w.category, torch.jit.TracerWarning)]
    return made, texts


def kinds(graph) -> collections.Counter:
    found = collections.Counter()
    for line in str(graph).splitlines():
        _, _, right = line.partition(" = ")
        kind = right.partition("(")[0].partition("[")[0]
        if "::" in kind and kind not in ("prim::Constant", "prim::ListConstruct", "prim::TupleConstruct"):
            found[kind] += 1
    return found


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda s: s.text.replace("\n", "; ")[:60])
def test_snippet(snippet: Snippet) -> None:
    torch.manual_seed(1)
    inputs, others = inputs_of(snippet.inputs), inputs_of(snippet.others)
    f = function_of(snippet, len(inputs))
    theirs, told = traced_by(torch.jit.trace, f, inputs, strict=False)
    ours, said = traced_by(rushlight.trace, f, inputs, strict=False)
    for given in (inputs, others):
        expected, got = theirs(*clone(given)), ours(*clone(given))
        assert type(got) is type(expected)
        for a, b in zip(flat(got), flat(expected), strict=True):
            torch.testing.assert_close(a, b, equal_nan=True)
    assert set(said) == set(told)
    if snippet.same_kinds:
        assert kinds(ours.graph) == kinds(theirs.graph), f"{ours.graph}\n{theirs.graph}"
