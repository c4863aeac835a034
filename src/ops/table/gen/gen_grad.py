"""The key `grad`: formulas become functions in TorchScript, one text for all of them.

    grad={"self": "grad * other.conj()", "input, weight": "...lines...\\n(a, b)"}

A key names the arguments whose gradients its formula gives.  A formula is an expression, or lines
that end in one (or return on every path).  It may name the operator's arguments, `grad` (one
result) or `grad0`, `grad1`..., `result` or `result0`..., `NAME_sizes` (an argument's sizes, when it
is not needed itself), `needs` (List[bool]: which of the key's inputs are wanted), and helpers.  The
function made of it takes what it names, in that order.  What it gives is afterwards fitted to the
argument (ops/call/gradient.h): no formula sums over broadcast dimensions.
"""

from __future__ import annotations

import ast
import re
import textwrap
import zlib
from typing import Any

KNOWN = {
    "torch",
    "math",
    "ops",
    "len",
    "range",
    "int",
    "float",
    "bool",
    "complex",
    "str",
    "max",
    "min",
    "abs",
    "list",
    "sum",
    "enumerate",
    "zip",
    "isinstance",
    "reversed",
    "sorted",
    "any",
    "all",
    "round",
    "RuntimeError",
    "List",
    "Optional",
    "Tuple",
    "Tensor",
    "number",
}


class GradError(Exception):
    """A formula is wrong."""


def parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as x:
        raise GradError(f"{x.msg} in line {x.lineno} of its gradient") from None


def names_of(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Return the names that are read, and the names that are assigned."""
    read: set[str] = set()
    written: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else written).add(node.id)
        elif isinstance(node, ast.arg):
            written.add(node.arg)
    return read, written


def sources(schema: Any) -> list[str]:
    """Return everything that a formula can take, in order."""
    args = [a.name for a in schema.args]
    n = len(schema.returns)
    grads = (
        ["grad0"]
        if n == 1 and "grad" in args
        else ["grad"]
        if n == 1
        else [f"grad{i}" for i in range(n)]
    )
    results = ["result"] if n == 1 else [f"result{i}" for i in range(n)]
    sizes = [f"{a.name}_sizes" for a in schema.args if a.type.startswith("Tensor")]
    return [*grads, *args, *sizes, *(r for r in results if r not in args), "needs"]


def declared(name: str, schema: Any) -> str:
    """Return the declaration of a parameter; those that are not the operator's values have types of
    their own."""
    if name == "needs":
        return "needs: List[bool]"
    types = {
        f"{a.name}_sizes": "List[List[int]]" if "[" in a.type else "List[int]" for a in schema.args
    }
    return f"{name}: {types[name]}" if name in types else name


def one(schema: Any, name: str, inputs: list[str], text: str, helpers: set[str]) -> str:
    """Return inputs, takes and source, each ended by a NUL."""
    text = textwrap.dedent(text).strip()
    tree = parse(text)
    if not tree.body:
        raise GradError("an empty gradient")
    args = {a.name for a in schema.args}
    for i in inputs:
        if i not in args:
            raise GradError(f"a gradient of {i}, which is no argument")
    read, written = names_of(tree)
    takes = [s for s in sources(schema) if s in read]
    unknown = read - set(takes) - written - KNOWN - helpers
    if unknown:
        raise GradError(f"its gradient names {min(unknown)}, which is neither argument nor helper")
    lines = text.split("\n")
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        lines[last.lineno - 1] = "return " + lines[last.lineno - 1]
    optional = {a.name for a in schema.args if a.type == "Tensor?"}
    if len(inputs) == 1 and inputs[0] in optional & set(takes):
        lines.insert(0, f"assert {inputs[0]} is not None")  # nobody asks for the gradient of None
    params = ", ".join(declared(t, schema) for t in takes)
    source = f"def {name}({params}):\n" + "".join(f"  {line}\n" for line in lines)
    parse(source)
    return f"{' '.join(inputs)}\0{' '.join(takes)}\0{source}\0"


class Texts:
    """Helpers, then the formulas of each operator: lists of texts, each list ended by an empty
    text."""

    def __init__(self) -> None:
        self.helpers: dict[str, str] = {}
        self.text = ""
        self.at: dict[str, int] = {}

    def helper(self, text: str) -> None:
        text = text.strip() + "\n"
        tree = parse(text)
        if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
            raise GradError("a helper is one function")
        if tree.body[0].name in self.helpers:
            raise GradError(f"there is a helper {tree.body[0].name} already")
        self.helpers[tree.body[0].name] = text

    def begin(self) -> None:
        """Start the formulas; all helpers have been added."""
        self.text = (
            "".join(f"{name}\0{self.helpers[name]}\0" for name in sorted(self.helpers)) + "\0"
        )

    def add(self, schema: Any, grad: Any) -> int:
        """Add an operator's formulas; return where they begin."""
        if not isinstance(grad, dict) or not grad:
            raise GradError("`grad` is a dict of formulas by input")
        name = "gradient_of_" + re.sub(r"\W", "_", schema.full.split("::")[1])
        texts: list[str] = []
        seen: set[str] = set()
        for key, text in grad.items():
            inputs = [i.strip() for i in key.split(",")]
            if seen & set(inputs):
                raise GradError(f"two gradients of {min(seen & set(inputs))}")
            seen |= set(inputs)
            texts.append(one(schema, name, inputs, text, set(self.helpers)))
        whole = "".join(texts) + "\0"
        if whole not in self.at:
            self.at[whole] = len(self.text.encode())
            self.text += whole
        return self.at[whole]

    def write(self, w: Any) -> None:
        data = self.text.encode()
        packed = zlib.compress(data, 9)
        w(
            f"const uint32_t op_gradient_bytes = {len(data)}, op_gradient_packed_bytes = "
            f"{len(packed)};\n"
        )
        w("const unsigned char op_gradient_packed[] = {\n")
        for i in range(0, len(packed), 24):
            w("  " + ",".join(str(b) for b in packed[i : i + 24]) + ",\n")
        w("};\n\n")
