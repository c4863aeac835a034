#!/usr/bin/env python3
"""Read the operator table (src/ops/table/*.py, see ../README.md) and write its C form.

    gen.py [--ops=FILE] [--without=gradients] [--without=quantized] schemas.txt tape.def rules.def
    OUT.c TABLE.py...

With --ops only the operators that FILE lists (as `rushlight show --ops` prints them), and those
that they use, run.
--without leaves out formulas of gradients, or the operators of the tables quantized*.py and those
with kernels in quant*.c.

Standard library only, deterministic.  Whatever is wrong with an entry (an unknown key, a name that
PyTorch does not register, a second entry for one operator, a formula that does not compile) is one
error line with file and line, and nothing is written.
"""

from __future__ import annotations

import glob
import os
import re
import sys
from typing import Any

# This folder is not in the path: its tables are called math.py, string.py, random.py ...
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p) != HERE] + [os.path.join(HERE, "gen")]
sys.dont_write_bytecode = True

import gen_grad  # noqa: E402
import gen_tape  # noqa: E402
from gen_table import (  # noqa: E402
    Table,
    TableError,
    read_refusals,
    read_rules,
    read_schemas,
    read_tables,
)
from gen_write import write_c, write_if_new, write_opcodes  # noqa: E402


def read_all(schemas: str, tapes: str, rules: str, tables: list[str]) -> Table:
    """Read the whole table and check it; raise TableError with the reason if it is wrong."""
    table = Table(read_schemas(schemas), gen_tape.Primitives(tapes), read_rules(rules))
    table.refusals = read_refusals(os.path.join(os.path.dirname(schemas), "refusals.txt"))
    read_tables(table, tables)
    table.finish()
    return table


# -- Fewer operators
# ---------------------------------------------------------------------------------


def listed_names(path: str) -> set[str]:
    """Return names without overloads: the first words of the lines that `rushlight show --ops`
    prints."""
    with open(path, encoding="utf-8") as f:
        words = [line.split()[0] for line in f if line.strip() and not line.startswith("#")]
    names = {word.split(".")[0] for word in words if "::" in word}
    if not names:
        raise TableError(
            path,
            "no line begins with the name of an operator: expected what `rushlight show --ops` "
            "prints",
        )
    return names


def names_in_kernels(folder: str) -> dict[str, set[str]]:
    """Return per kernel the operators that its C file names: it may call them."""
    found: dict[str, set[str]] = {}
    for path in glob.glob(os.path.join(folder, "**", "*.c"), recursive=True):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        called = set(re.findall(r'"(\w+::\w+)[".]', text))
        for kernel in re.findall(r"^rush_status (\w+)\(rush_call \*", text, re.M):
            found[kernel] = called
    return found


def prune(table: Any, listed: set[str], called_by: dict[str, set[str]]) -> None:
    """Remove the implementations of operators that are neither listed nor used by listed ones. They
    stay known by schema: calls of them fail by name. All overloads of a name are kept, since
    constants choose among them when code is emitted, and so are the functional forms of variants. A
    body may call all operators whose names are among its words."""
    by_name: dict[str, list[Any]] = {}
    by_word: dict[str, set[str]] = {}
    for row in table.rows.values():
        by_name.setdefault(row.schema.name, []).append(row)
        by_word.setdefault(row.schema.name.split("::")[-1], set()).add(row.schema.name)
    kept, todo = set(), set(listed) & set(by_name)
    if not any(row.group == "sparse" for name in todo for row in by_name[name]):
        leave_out_sparse(table)
    while todo:
        name = todo.pop()
        kept.add(name)
        used: set[str] = set()
        for row in by_name[name]:
            used |= {row.base.schema.name} if row.base else set()
            for kernel in (row.kernel, row.compute, row.sparse):
                used |= called_by.get(kernel, set())
            for word in set(re.findall(r"\w+", row.body or "")):
                used |= by_word.get(word, set())
        todo |= (used & set(by_name)) - kept
    keep_rows(table, {full: row for full, row in table.rows.items() if row.schema.name in kept})


def leave_out_sparse(table: Any) -> None:
    """Make operators refuse sparse tensors, which a file may hold, if no listed operator makes or
    reads sparse tensors."""
    for row in table.rows.values():
        if row.sparse is not True:
            row.sparse = None


def keep_rows(table: Any, rows: dict[str, Any]) -> None:
    """Keep only the implementations of these rows."""
    table.rows = rows
    kernels = {k for row in rows.values() for k in (row.kernel, row.compute, row.sparse)}
    table.kernels &= kernels
    table.scalars = [pair for pair in table.scalars if pair[0] in kernels]
    points = [id(row.point) for row in table.rows.values() if row.point]
    table.points = [p for p in table.points if id(p) in points]


def leave_out_quantized(table: Any, folder: str) -> None:
    """Remove quantized operators; they stay known by schema."""
    kernels: set[str] = set()
    for path in glob.glob(os.path.join(folder, "**", "quant*.c"), recursive=True):
        with open(path, encoding="utf-8") as f:
            kernels |= set(re.findall(r"^rush_status (\w+)\(rush_call \*", f.read(), re.M))
    own = {
        full
        for full, row in table.rows.items()
        if row.kernel in kernels or os.path.basename(row.where).startswith("quantized")
    }
    kept = {full: row for full, row in table.rows.items() if full not in own}
    keep_rows(
        table,
        {full: row for full, row in kept.items() if not row.base or row.base.schema.full in kept},
    )


def write_used(path: str, table: Any, tapes: str, everything: bool) -> None:
    """Write which primitives the tapes of the table use: tape_run.c has loops only for these. The
    engine converts and rounds itself."""
    used = {"CVT", "RND", *(n.op for p in table.points for arm in p.arms for n in arm.instrs)}
    with open(tapes, encoding="utf-8") as f:
        names = re.findall(r"^TAPE\((\w+),", f.read(), re.M)
    lines = [
        "/* Made by ops/table/gen.py: the primitives that the operator table uses.  Do not edit. "
        "*/\n"
    ]
    lines += [f"#define TAPE_USES_{name} {int(everything or name in used)}\n" for name in names]
    write_if_new(path, "".join(lines))


def main(argv: list[str]) -> None:
    only, without = "", set()
    while len(argv) > 1 and argv[1].startswith("--"):
        key, _, value = argv.pop(1).partition("=")
        if key == "--ops":
            only = value
        elif key == "--without" and value in ("gradients", "quantized"):
            without.add(value)
        else:
            sys.exit(f"{key}={value} is no option\n{__doc__}")
    if len(argv) < 6:
        sys.exit(__doc__)
    folder = os.path.dirname(os.path.dirname(os.path.abspath(argv[1])))
    try:
        table = read_all(argv[1], argv[2], argv[3], argv[5:])
        write_opcodes(os.path.join(os.path.dirname(argv[4]), "typed_opcodes.def"), table)
        if only:
            prune(table, listed_names(only), names_in_kernels(folder))
        if "quantized" in without:
            leave_out_quantized(table, folder)
        if "gradients" in without:
            table.gradients = gen_grad.Texts()
            for row in table.rows.values():
                row.grad = 0
        left_out = [
            *(["-Dops"] if only else []),
            *(["-Dquantized=false"] if "quantized" in without else []),
        ]
        write_c(argv[4], table, ", ".join(left_out))
        write_used(os.path.join(os.path.dirname(argv[4]), "tape_used.h"), table, argv[2], not only)
    except TableError as x:
        sys.exit(f"{x}")


if __name__ == "__main__":
    main(sys.argv)
