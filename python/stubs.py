#!/usr/bin/env python3
"""Write the type stubs of Tensor's methods and of the operators, from the operator table.

    stubs.py OPS_FOLDER TABLES... -- TEMPLATE.pyi OUT.pyi OPERATORS.pyi

OUT is TEMPLATE with the methods in place of its line "    # METHODS"; OPERATORS has the names of every operator that can run.
"""

from __future__ import annotations

import keyword
import os
import re
import sys
from typing import Any

TYPES = {
    "Tensor": "Tensor", "int": "_int", "SymInt": "_int", "float": "_float", "bool": "_bool", "str": "_str",
    "Scalar": "_number", "ScalarType": "_dtype", "complex": "_complex", "Device": "_str",
    "MemoryFormat": "_int", "Layout": "_int",
}  # fmt: skip
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


def parameters(schema: Any) -> str:
    parts, starred, optional = ["self"], False, False
    for a in schema.args[1:]:
        if a.kwarg_only and not starred:
            parts.append("*")
            starred = True
        name = f"{a.name}_" if keyword.iskeyword(a.name) else a.name
        optional = optional or a.default is not None
        default = " = ..." if a.default is not None or (optional and not a.kwarg_only) else ""
        parts.append(f"{name}: {python_type(a.type)}{default}")
    return ", ".join(parts)


def result(schema: Any) -> str:
    returns = [python_type(r.split(" ")[0], True) for r in schema.returns]
    if not returns:
        return "None"
    return returns[0] if len(returns) == 1 else f"tuple[{', '.join(returns)}]"


def gathers(schema: Any) -> str | None:
    """The name of the only argument, when it is a list of ints."""
    some = [a for a in schema.args[1:] if not a.kwarg_only]
    return some[0].name if len(some) == 1 and re.match(r"(SymInt|int)\[", some[0].type) else None


def is_method(schema: Any) -> bool:
    args = schema.args
    if not schema.name.startswith("aten::") or schema.name.startswith("aten::__") or not args:
        return False
    return args[0].name == "self" and args[0].type == "Tensor" and not any(a.write for a in args[1:])


def methods(table: Any, taken: set[str]) -> list[str]:
    """The lines of class Tensor."""
    by_name: dict[str, list[Any]] = {}
    for full, schema in table.schemas.items():
        name = schema.name[6:]
        if name not in taken and full in table.rows and table.runs(table.rows[full]) and is_method(schema):
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
                texts.append(f"def {name}(self, *{gathers(schema)}: _int{named}) -> {result(schema)}: ...")
        for text in texts:
            if len(texts) > 1:
                lines.append("    @overload")
            ignored = "  # type: ignore[overload-overlap,overload-cannot-match]" if len(texts) > 1 else ""
            lines.append(f"    {text}{ignored}")
    return lines


def operators(table: Any) -> list[str]:
    names: dict[str, set[str]] = {}
    for full, row in table.rows.items():
        if table.runs(row):
            namespace, _, name = full.partition(".")[0].partition("::")
            names.setdefault(namespace, set()).add(name)
    lines = []
    for namespace in NAMESPACES:
        shown = [name for name in sorted(names.get(namespace, ())) if name.isidentifier() and not keyword.iskeyword(name)]
        lines += ["", f"class {namespace.capitalize()}(Namespace):", *(f"    {name}: Operator" for name in shown or ["nms"])]
    return lines


OPERATORS_HEAD = '''"""The operators that can run, by namespace (written at build time from the operator table)."""

from .ops import Namespace, Operator
'''
NAMESPACES = ("aten", "prim", "quantized", "torchvision")


def read_table(folder: str, paths: list[str]) -> Any:
    sys.path.append(folder)
    import gen

    rules = os.path.join(os.path.dirname(folder), "shape", "rules.def")
    return gen.read_all(os.path.join(folder, "schemas.txt"), os.path.join(folder, "tape.def"), rules, paths)


def main(argv: list[str]) -> None:
    at = argv.index("--")
    table = read_table(argv[1], argv[2:at])
    template, out, ops_out = argv[at + 1 :]
    with open(template, encoding="utf-8") as f:
        text = f.read()
    inside = text[text.index("class Tensor:") : text.index("# METHODS")]
    taken = set(re.findall(r"^    (?:def )?(\w+)[(:]", inside, re.M)) | SKIPPED
    with open(out, "w", encoding="utf-8") as f:
        f.write(text.replace("    # METHODS\n", "\n".join(methods(table, taken)) + "\n"))
    with open(ops_out, "w", encoding="utf-8") as f:
        f.write(OPERATORS_HEAD + "\n".join(operators(table)) + "\n")


if __name__ == "__main__":
    main(sys.argv)
