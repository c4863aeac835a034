#!/usr/bin/env python3
"""Write the type stubs of Tensor's methods, of the functions and of the operators, from the
operator table.

    stubs.py OPS_FOLDER TABLES... -- TENSOR.pyi FUNCTIONS.pyi FUNCTIONS.txt OUT_FOLDER

TENSOR.pyi and FUNCTIONS.pyi are templates, with the methods in place of the line "    # METHODS"
and the functions in place of "# FUNCTIONS". FUNCTIONS.txt has the names of operators that are
functions of torch. OUT_FOLDER gets both stubs under their names, `_operators.pyi` (the names of all
operators that can run), `return_types.pyi` (named results) and `_names.py`, which the package
reads: the functions that can run.
"""

from __future__ import annotations

import keyword
import os
import re
import sys
from typing import Any

TYPES = {
    "Tensor": "Tensor", "int": "_int", "SymInt": "_int", "float": "_float", "bool": "_bool",
    "str": "_str",
    "Scalar": "_number", "ScalarType": "_dtype", "complex": "_complex", "Device": "_str",
    "MemoryFormat": "_int", "Layout": "_int",
}  # fmt: skip
ELSEWHERE = {
    "as_tensor",
    "manual_seed",
    "tensor",
    "trace",
}  # rushlight's own functions of these names
SKIPPED = {"dtype", "device", "layout", "pin_memory", "shape", "T"}


def python_type(kind: str, is_result: bool = False) -> str:
    if kind.endswith("?"):
        return f"{python_type(kind[:-1], is_result)} | None"
    if kind.endswith("]"):
        inner, _, size = kind.rpartition("[")
        one = python_type(inner, is_result)
        if is_result:
            return f"_list[{one}]"
        return f"Sequence[{one}] | {one}" if size != "]" else f"Sequence[{one}]"
    return TYPES.get(kind, "Any")


def parameters(schema: Any, is_method: bool = True) -> str:
    parts, starred, optional = ["self"] if is_method else [], False, False
    for a in schema.args[1:] if is_method else schema.args:
        if a.kwarg_only and not starred:
            parts.append("*")
            starred = True
        name = (
            f"{a.name}_" if keyword.iskeyword(a.name) else "input" if a.name == "self" else a.name
        )
        optional = optional or a.default is not None
        default = " = ..." if a.default is not None or (optional and not a.kwarg_only) else ""
        parts.append(f"{name}: {python_type(a.type)}{default}")
    names = {a.name for a in schema.args}
    if not is_method and {"dtype", "device"} <= names and "requires_grad" not in names:
        parts.append("requires_grad: _bool = ...")
    return ", ".join(parts)


def result(schema: Any) -> str:
    returns = [python_type(r.split(" ")[0], True) for r in schema.returns]
    if not returns:
        return "None"
    if len(returns) == 1:
        return "tuple[Tensor, ...]" if returns == ["_list[Tensor]"] else returns[0]
    return (
        f"_results.{result_class(schema)}"
        if result_class(schema)
        else f"tuple[{', '.join(returns)}]"
    )


def result_class(schema: Any) -> str:
    """The class of named results, or ""; out= forms return the tensors that they were given."""
    names = [r.rpartition(" ")[2] for r in schema.returns if " " in r]
    is_named = len(names) == len(schema.returns) > 1 and all(name.isidentifier() for name in names)
    return schema.name[6:] if is_named and not any(a.write for a in schema.args) else ""


def result_classes(table: Any) -> list[str]:
    lines: dict[str, list[str]] = {}
    for full, row in table.rows.items():
        schema = table.schemas.get(full)
        if (
            schema is not None
            and full.startswith("aten::")
            and table.runs(row)
            and result_class(schema)
        ):
            fields = [
                (r.rpartition(" ")[2], python_type(r.split(" ")[0], True)) for r in schema.returns
            ]
            body = [
                f"    {name}: {kind}{IGNORED if name in TUPLE else ''}" for name, kind in fields
            ]
            lines.setdefault(
                result_class(schema), ["", f"class {result_class(schema)}(NamedTuple):", *body]
            )
    return [line for name in sorted(lines) for line in lines[name]]


def gathers(schema: Any) -> str | None:
    """The name of the only argument, when it is a list of ints."""
    some = [a for a in schema.args[1:] if not a.kwarg_only]
    return some[0].name if len(some) == 1 and re.match(r"(SymInt|int)\[", some[0].type) else None


def is_method(schema: Any) -> bool:
    args = schema.args
    if not schema.name.startswith("aten::") or schema.name.startswith("aten::__") or not args:
        return False
    return (
        args[0].name == "self" and args[0].type == "Tensor" and not any(a.write for a in args[1:])
    )


def methods(table: Any, taken: set[str]) -> list[str]:
    """The lines of class Tensor."""
    by_name: dict[str, list[Any]] = {}
    for full, schema in table.schemas.items():
        name = schema.name[6:]
        if (
            name not in taken
            and full in table.rows
            and table.runs(table.rows[full])
            and is_method(schema)
        ):
            by_name.setdefault(name, []).append(schema)
    lines = []
    for name, schemas in sorted(by_name.items()):
        texts = []
        for schema in schemas:
            text = f"def {name}({parameters(schema)}) -> {result(schema)}: ..."
            if text not in texts:
                texts.append(text)
            if gathers(schema):
                only = [a for a in schema.args[1:] if a.kwarg_only]
                named = "".join(f", {a.name}: {python_type(a.type)} = ..." for a in only)
                texts.append(
                    f"def {name}(self, *{gathers(schema)}: _int{named}) -> {result(schema)}: ..."
                )
        for text in texts:
            if len(texts) > 1:
                lines.append("    @overload")
            lines.append(f"    {text}")
    return lines


def gathers_function(schema: Any) -> str | None:
    """The first argument's name, when it is a list of ints and the only one by place: zeros(2,
    3)."""
    some = [a for a in schema.args if not a.kwarg_only]
    return some[0].name if len(some) == 1 and re.match(r"(SymInt|int)\[", some[0].type) else None


def functions(table: Any, wanted: list[str], taken: set[str]) -> tuple[list[str], list[str]]:
    """Lines of functions, and the names of all that can run."""
    by_name: dict[str, list[Any]] = {}
    for full, schema in table.schemas.items():
        if full.startswith("aten::") and full in table.rows and table.runs(table.rows[full]):
            by_name.setdefault(schema.name[6:], []).append(schema)
    lines, names = [], []
    for name in wanted:
        if name not in by_name:
            continue
        names.append(name)
        if name in taken or name in ELSEWHERE:
            continue
        texts: list[str] = []
        for schema in by_name[name]:
            text = f"def {name}({parameters(schema, False)}) -> {result(schema)}: ..."
            sizes = gathers_function(schema)
            if sizes:
                rest = parameters(schema, False).partition("*, ")[2]
                texts.append(
                    f"def {name}(*{sizes}: _int{', ' if rest else ''}{rest}) -> {result(schema)}: "
                    f"..."
                )
            if text not in texts:
                texts.append(text)
        for text in texts:
            if len(texts) > 1:
                lines.append("@overload")
            lines.append(text)
    return lines, names


def operators(table: Any) -> list[str]:
    names: dict[str, set[str]] = {}
    for full, row in table.rows.items():
        if table.runs(row):
            namespace, _, name = full.partition(".")[0].partition("::")
            names.setdefault(namespace, set()).add(name)
    lines = []
    for namespace in NAMESPACES:
        shown = [
            name
            for name in sorted(names.get(namespace, ()))
            if name.isidentifier() and not keyword.iskeyword(name)
        ]
        lines += [
            "",
            f"class {namespace.capitalize()}(Namespace):",
            *(f"    {name}: Operator" for name in shown or ["nms"]),
        ]
    return lines


OPERATORS_HEAD = '''"""The operators that can run, by namespace (written at build time from the operator table)."""

from .ops import Namespace, Operator
'''
RESULTS_HEAD = '''"""Named results (written at build time from the operator table)."""

from builtins import int as _int
from builtins import list as _list
from typing import NamedTuple

from ._rushlight import Tensor
'''
NAMES_HEAD = '''"""Names from the operator table (written at build time).

FUNCTIONS: the functions of torch that the table has. KNOWN: the paths of objects that mean something
in TorchScript (src/ops/table/names.py). MODULES: those of torch whose functions are operators, except
for PYTHON, which stay Python functions."""

'''
IGNORED = "  # type: ignore[assignment]"
TUPLE = set(dir(tuple))
NAMESPACES = ("aten", "prim", "quantized", "torchvision")


def read_table(folder: str, paths: list[str]) -> Any:
    sys.path.append(folder)
    import gen

    rules = os.path.join(folder, "..", "..", "shape", "rules.def")
    return gen.read_all(
        os.path.join(folder, "schemas.txt"), os.path.join(folder, "tape.def"), rules, paths
    )


def main(argv: list[str]) -> None:
    at = argv.index("--")
    table = read_table(argv[1], argv[2:at])
    tensor, functions_pyi, wanted, folder = argv[at + 1 :]

    def write(name: str, text: str) -> None:
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)

    text = read(tensor)
    inside = text[text.index("class Tensor:") : text.index("# METHODS")]
    taken = set(re.findall(r"^    (?:def )?(\w+)[(:]", inside, re.M)) | SKIPPED
    write(
        "_rushlight.pyi", text.replace("    # METHODS\n", "\n".join(methods(table, taken)) + "\n")
    )
    write("_operators.pyi", OPERATORS_HEAD + "\n".join(operators(table)) + "\n")
    write("return_types.pyi", RESULTS_HEAD + "\n".join(result_classes(table)) + "\n")
    text = read(functions_pyi)
    lines, names = functions(
        table, read(wanted).split(), set(re.findall(r"^(?:def |class )?(\w+)[(:]", text, re.M))
    )
    write("functions.pyi", text.replace("# FUNCTIONS\n", "\n".join(lines) + "\n"))
    write(
        "_names.py",
        NAMES_HEAD
        + listed("FUNCTIONS", names)
        + listed("KNOWN", table.names.live("op", "form", "cast", "tensor", "body"))
        + listed("MODULES", table.names.live("module"))
        + listed("PYTHON", table.names.live("host")),
    )


def listed(name: str, words: list[str]) -> str:
    lines = "".join(f"    {word}\n" for word in words)
    return f'{name} = frozenset(\n    """\n{lines}    """.split()\n)\n'


def read(path: str) -> str:
    with open(path, encoding="utf-8") as f:
        return f.read()


if __name__ == "__main__":
    main(sys.argv)
