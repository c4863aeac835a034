"""The C form of the operator table (gen_table.py): rows, names, packed bodies, keys, opcodes.

Strings are in one pool and rows name them by offset, so that the library has no pointers to
relocate in its largest tables; bodies and gradients are packed, and unpacked when they are first
needed.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable
from typing import Any

import gen_tape
from gen_table import OPCODE_FIELDS, Row, Schema, Table, TableError

Write = Callable[[str], object]  # takes the next piece of the text that is made


def c_quote(data: bytes) -> str:
    out = []
    for b in data:
        ch = chr(b)
        if ch == "\n":
            out.append("\\n")
        elif ch in '"\\':
            out.append("\\" + ch)
        elif ch == "?":
            out.append("\\?")
        elif 32 <= b < 127:
            out.append(ch)
        else:
            out.append(f"\\{b:03o}")
    return "".join(out)


class Pool:
    """Texts, each once, NUL-terminated; offset 0 is the empty one."""

    def __init__(self) -> None:
        self.offsets, self.parts, self.size = {"": 0}, [b"\0"], 1

    def at(self, text: str) -> Any:
        if text not in self.offsets:
            data = text.encode() + b"\0"
            self.offsets[text] = self.size
            self.parts.append(data)
            self.size += len(data)
        return self.offsets[text]

    def write(self, w: Write) -> None:
        w("const char op_pool[] =\n")
        for part in self.parts:
            body, lines = part[:-1], []
            for i in range(0, len(body), 80):
                lines.append(f'"{c_quote(body[i : i + 80])}"')
            w("  " + "\n  ".join([*lines, '"\\0"']) + "\n")
        w("  ;\n\n")


def name_hash(name: str) -> Any:
    h = 2166136261
    for b in name.encode():
        h = ((h ^ b) * 16777619) & 0xFFFFFFFF
    return h


def write_bytes(w: Write, name: str, data: bytes) -> None:
    w(f"const unsigned char {name}[] = {{\n")
    for i in range(0, len(data), 24):
        w("  " + ",".join(str(b) for b in data[i : i + 24]) + ",\n")
    w("};\n")


class Bodies:
    """The composites' texts, in blocks that are compressed separately: using one decompresses only
    its block."""

    BLOCK = 16384

    def __init__(self, rows: Any, more: list[str]) -> None:
        self.offsets: dict[str, int] = {"": 0}
        self.blocks = [b"\0"]  # offset 0: no body
        sorted_rows = sorted(rows, key=lambda r: (r.group or "", r.schema.full))
        cores = (row.core for row in sorted_rows)
        for body in [*(row.body for row in sorted_rows), *more, *cores]:
            if body and body not in self.offsets:
                data = body.encode() + b"\0"
                if len(self.blocks[-1]) + len(data) > self.BLOCK:
                    self.blocks.append(b"")
                self.offsets[body] = sum(map(len, self.blocks))
                self.blocks[-1] += data

    def write(self, w: Write) -> None:
        packed = [zlib.compress(b, 9) for b in self.blocks]
        w("const struct op_body_block op_body_blocks[] = {\n")
        at = start = 0
        for block, data in zip(self.blocks, packed, strict=True):
            w(f"  {{{start}, {at}}},\n")
            start, at = start + len(block), at + len(data)
        w(f"  {{{start}, {at}}}}};\nconst uint32_t op_n_body_blocks = {len(packed)};\n")
        write_bytes(w, "op_bodies_packed", b"".join(packed))


def write_rows(
    w: Write, table: Any, pool: Any, bodies: Bodies, names: list[str], by_name: Any
) -> None:
    listed = sorted(
        {
            k
            for row in table.rows.values()
            for k in (row.kernel, row.compute, row.sparse)
            if k and k is not True
        }
    )
    kernels = {None: 0, **{k: i + 1 for i, k in enumerate(listed)}}
    w("rush_kernel *const op_kernels[] = {NULL,\n" + "".join(f"  {k},\n" for k in listed) + "};\n")
    w("const struct op_row op_rows[] = {\n")
    index = 0
    for name in names:
        for s in by_name[name]:
            row = table.rows[s.full]
            effects = sorted(
                set(row.effects) | ({"OP_WRITES"} if any(a.write for a in s.args) else set())
            )
            w(
                f"  [{index}] = "
                f"{{.schema = {pool.at(s.text)}, .name_len = {len(s.name)},\n    "
                f".family = {row.family}, "
                f".variant = {row.variant}, "
                f".effects = {' | '.join(effects) or '0'},\n"
                f"    .shape = {row.shape}, .base = {row.base.index if row.base else -1}, "
                f".point = {table.points.index(row.point) if row.point else -1}, "
                f".body = {bodies.offsets[row.body or '']}, "
                f".core = {bodies.offsets[row.core or '']}, "
                f".group = {pool.at(row.group)}, .grad = {row.grad},\n"
                f"    .kernel = {kernels[row.kernel]}, .compute = {kernels[row.compute]}, "
                f".reuse = {row.reuse}, .sparse = "
                f"{'SPARSE_TAKEN' if row.sparse is True else kernels[row.sparse]}}}, /* {s.full} "
                f"*/\n"
            )
            index += 1
    w(f"}};\nconst uint32_t op_n_rows = {index};\n\n")


def write_names(w: Write, names: list[str], by_name: Any) -> None:
    n_slots = 1
    while n_slots < 2 * len(names):
        n_slots *= 2
    slots, first = [0] * n_slots, 0
    w("const struct op_name_row op_names[] = {\n")
    for i, name in enumerate(names):
        w(f"  {{{first}, {len(by_name[name])}}}, /* {name} */\n")
        first += len(by_name[name])
        at = name_hash(name) & (n_slots - 1)
        while slots[at]:
            at = (at + 1) & (n_slots - 1)
        slots[at] = i + 1
    w(f"}};\nconst uint32_t op_n_names = {len(names)};\n\n")
    w(f"const uint32_t op_n_name_slots = {n_slots};\nconst uint16_t op_name_slots[] = {{\n")
    for i in range(0, n_slots, 16):
        w("  " + ", ".join(str(x) for x in slots[i : i + 16]) + ",\n")
    w("};\n\n")


def write_synonyms(w: Write, table: Any, names: list[str]) -> None:
    """By number of name, as OPN_...; both have rows."""
    at = {name: i + 1 for i, name in enumerate(names)}
    pairs = sorted((at[a], at[b]) for a, b in table.synonyms.items() if a in at and b in at)
    w("const struct op_synonym op_synonyms[] = {\n")
    w("".join(f"  {{{a}, {b}}}, /* {names[a - 1]} */\n" for a, b in pairs))
    w(f"  {{0, 0}}\n}};\nconst uint32_t op_n_synonyms = {len(pairs)};\n\n")


def write_properties(w: Write, table: Any, pool: Any) -> None:
    """All of them: programs are compiled also where operators are left out."""
    rows = sorted(table.properties.items())
    w("const struct op_property op_properties[] = {\n")
    w("".join(f"  {{{pool.at(shown)}, {pool.at(name)}}}, /* {shown} */\n" for shown, name in rows))
    w(f"  {{0, 0}}\n}};\nconst uint32_t op_n_properties = {len(rows)};\n\n")


def opcode_row(table: Table, row: Row, keys: dict[str, str]) -> tuple[str, str]:
    """The typed instruction of an entry with the key `opcode`: which macro, and the line."""
    s, name = row.schema, row.entry["opcode"]
    types = [a.type for a in s.args]
    fields = {OPCODE_FIELDS.get(t) for t in types}
    if "c" not in row.entry or len(types) > 2 or len(fields) != 1 or None in fields:
        raise TableError(
            row.where, f"{s.full}: opcode needs the key c, and one or two numbers of one type"
        )
    expr = row.entry["c"]
    for a, register in zip(s.args, "xy", strict=False):
        use = f"({register} != 0)" if a.type == "bool" else register
        expr = re.sub(rf"\b{a.name}\b", use, expr)
    result = s.returns[0].upper()
    macro = f"TYPED{len(types)}"
    if len(types) == 2 and result == "BOOL" and "bool" not in types:
        return "COMPARE", f"COMPARE({name}, {keys[s.full]}, {fields.pop()}, {expr})\n"
    return macro, f"{macro}({name}, {keys[s.full]}, {result}, {fields.pop()}, {expr})\n"


def write_opcodes(path: str, table: Table) -> None:
    """run/opcodes.def includes it.  Of every table: also operators that are left out are
    instructions."""
    taken: set[str] = {"NONE"}
    fulls = sorted(table.schemas, key=lambda n: (n.split(".")[0] != n.split(".")[0].lower(), n))
    keys = {full: key_of(full, taken) for full in fulls}
    rows: dict[str, list[str]] = {"TYPED2": [], "TYPED1": [], "COMPARE": []}
    for row in table.rows.values():
        if "opcode" in row.entry:
            macro, line = opcode_row(table, row, keys)
            rows[macro].append(line)
    text = "/* Made by ops/table/gen.py from the keys `opcode`.  Do not edit. */\n"
    for macro, lines in rows.items():
        text += f"\n#ifdef {macro}\n{''.join(lines)}#endif\n"
    write_if_new(path, text)


def write_packed(w: Write, rest: list[Schema]) -> None:
    text = "".join(s.text + "\n" for s in rest).encode()
    packed = zlib.compress(text, 9)
    w(
        f"const uint32_t op_n_unpacked = {len(rest)}, op_unpacked_bytes = {len(text)}, "
        f"op_packed_bytes = {len(packed)};\n"
    )
    namespaces = sorted({s.name.split("::")[0] for s in rest})
    w("const char op_packed_namespaces[] = " + " ".join(f'"{n}::\\0"' for n in namespaces) + ";\n")
    write_bytes(w, "op_packed", packed)


def key_of(name: str, taken: set[str]) -> str:
    """The C name of an operator or of all its overloads, without OPK_ and OPN_; "" if another has
    it."""
    space, _, rest = name.rpartition("::")
    text = re.sub(r"\W", "_", rest if space == "aten" else f"{space}__{rest}")
    for key in (text.upper(), text):
        if key not in taken:
            taken.add(key)
            return key
    return ""


def write_key_enum(w: Write, enum: str, prefix: str, names: list[str]) -> None:
    """Number from 1 on.  Of names that differ in case alone, the one in small letters is the
    regular one."""
    taken: set[str] = {"NONE"}
    keys = {
        name: key_of(name, taken)
        for name in sorted(names, key=lambda n: (n.split(".")[0] != n.split(".")[0].lower(), n))
    }
    w(f"enum {enum} {{\n  {prefix}_NONE = 0,\n")
    w("".join(f"  {prefix}_{keys[n]} = {i},\n" for i, n in enumerate(names, 1) if keys[n]))
    w("};\n")


def write_keys(path: str, order: list[str], names: list[str], rest: list[Schema]) -> None:
    """The numbers of operators (op.key, op.name_key), those of the rows before the packed ones."""
    parts = [
        "/* Made by ops/table/gen.py: numbers of operators, to switch on instead of comparing "
        "names.\n * OPK_ADD_TENSOR is aten::add.Tensor (op.key), OPN_ADD any overload of aten::add "
        "(op.name_key);\n * other namespaces are spelled: OPN_PRIM__DTYPE.  Do not edit. */\n"
        "#ifndef RUSH_OPS_TABLE_OP_KEYS_H\n#define RUSH_OPS_TABLE_OP_KEYS_H\n\n"
    ]
    write_key_enum(
        parts.append, "op_name_key", "OPN", [*names, *dict.fromkeys(s.name for s in rest)]
    )
    write_key_enum(parts.append, "op_key", "OPK", [*order, *(s.full for s in rest)])
    parts.append("\n#endif\n")
    write_if_new(path, "".join(parts))


def write_if_new(path: str, text: str) -> None:
    """What includes a file that stays the same is not compiled again."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            if f.read() == text:
                return
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def write_refusals(
    w: Write, table: Any, pool: Any, refusals: dict[str, list[tuple[int, str, str]]]
) -> None:
    lines = [
        (table.rows[full].index, mask, kind, pool.at(text))
        for full, row in refusals.items()
        if full in table.rows
        for mask, kind, text in row
    ]
    w("const struct op_refusal op_refusals[] = {\n")
    w(
        "".join(
            f"  {{{index}, {text}, {mask}u, {kind}}},\n"
            for index, mask, kind, text in sorted(lines)
        )
    )
    w(f"}};\nconst uint32_t op_n_refusals = {len(lines)};\n\n")


def write_c(path: str, table: Any, left_out: str) -> None:
    by_name: dict[str, list[Schema]] = {}
    used = {row.schema.name for row in table.rows.values()}
    for s in table.schemas.values():
        if s.name in used:
            by_name.setdefault(s.name, []).append(s)
            if s.full not in table.rows:
                table.rows[s.full] = Row(s, "", {})
    names = sorted(by_name)
    order = [s.full for name in names for s in by_name[name]]
    for i, full in enumerate(order):
        table.rows[full].index = i
    pool = Pool()
    parts: list[str] = []
    w = parts.append
    w("/* Made by ops/table/gen.py from the operator table.  Do not edit. */\n")
    w(
        '#include "ops/table/table.h"\n#include "ops/table/tape.h"\n#include '
        '"ops/point/scalar.h"\n\n'
    )
    w(f'const char op_left_out[] = "{left_out}";\n\n')
    for k in sorted(table.kernels):
        w(f"rush_kernel {k};\n")
    w("\n")
    w(
        "extern rush_kernel pointwise_call;\n"
        "rush_status nested_call(rush_call *c, call_next *next), quantized_call(rush_call *c, "
        "call_next *next);\n"
        "rush_status sparse_call(rush_call *c, const rush_tensor *first, call_next *taken);\n"
        "rush_status quantized_copy(call_ctx *cx, rush_tensor *to, rush_tensor *from);\n"
        "extern const struct point_instances point_instances;\n"
        "const op_borders op_border = {pointwise_call, nested_call, quantized_call, sparse_call, "
        "quantized_copy, &point_instances};\n\n"
    )
    for name, body in sorted(table.scalars):
        w(f"static rush_status {name}(rush_call *call)\n{{\n{body}\n  return RUSH_OK;\n}}\n")
    w("\n")
    bodies = Bodies(table.rows.values(), [row.body for row in table.names.rows.values()])
    write_rows(w, table, pool, bodies, names, by_name)
    bodies.write(w)
    write_names(w, names, by_name)
    write_synonyms(w, table, names)
    write_properties(w, table, pool)
    table.names.write(w, pool, bodies)
    write_refusals(w, table, pool, table.refusals)
    gen_tape.write(w, table.points, table.tapes, pool)
    rest = [s for s in table.schemas.values() if s.name not in used]
    write_packed(w, rest)
    table.gradients.write(w)
    pool.write(w)
    write_if_new(path, "".join(parts))
    write_keys(os.path.join(os.path.dirname(path), "op_keys.h"), order, names, rest)
