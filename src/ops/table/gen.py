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
import sys

# This folder is last in the path: its tables are called math.py, string.py, random.py ...
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p) != HERE] + [HERE]
sys.dont_write_bytecode = True

import contextlib  # noqa: E402
import re  # noqa: E402
import zlib  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any, NamedTuple  # noqa: E402

import gen_core  # noqa: E402
import gen_grad  # noqa: E402
import gen_names  # noqa: E402
import gen_tape  # noqa: E402

Write = Callable[[str], object]  # takes the next piece of the text that is made

KEYS = {
    "family",
    "expr",
    "promote",
    "fixed",
    "out",
    "scalars",
    "layout",
    "refuse_bool",
    "name",
    "kernel",
    "c",
    "body",
    "schema",
    "shape",
    "no_rule",
    "results",
    "reuse",
    "variants",
    "same",
    "effects",
    "grad",
    "sparse",
    "synonym_of",
    "autocast",
    "script_autocast",
    "opcode",
    "property",
}
EFFECTS = {
    "random": "OP_RANDOM",
    "side_effect": "OP_SIDE_EFFECT",
    "no_grad": "OP_NO_GRAD",
    "data_size": "OP_DATA_SIZE",
    "returns_arg": "OP_RETURNS_ARG",
    "nested": "OP_NESTED",
    "quantized": "OP_QUANTIZED",
    "nested_rows": "OP_NESTED_ROWS",
    "quantized_unit": "OP_Q_UNIT",
    "quantized_symmetric": "OP_Q_SYMMETRIC",
    "quantized_scales": "OP_Q_SCALES",
    "quantized_order": "OP_Q_ORDER",
    "geometry": "OP_GEOMETRY",
    "complex_body": "OP_COMPLEX_BODY",
    "dropout": "OP_DROPOUT",
    "unsafe_views": "OP_UNSAFE_VIEWS",
    "waits": "OP_WAITS",
    "takes_numbers": "OP_TAKES_NUMBERS",
    "moves_items": "OP_MOVES_ITEMS",
}
# What the kernel of an entry does is not done by the forms that write its result.
OWN_EFFECTS = {"OP_GEOMETRY", "OP_COMPLEX_BODY"}
# What autocast makes of arguments: everywhere, and in PyTorch's pass over programs.
AUTOCAST = {
    "autocast": {"lower": "OP_AUTOCAST_LOWER", "float32": "OP_AUTOCAST_FLOAT32"},
    "script_autocast": {
        "lower": "OP_SCRIPT_AUTOCAST_LOWER",
        "float32": "OP_SCRIPT_AUTOCAST_FLOAT32",
    },
}
# Keys that known() puts into entries.
KNOWN = {"effects", "synonym_of", "property", *AUTOCAST}


class Family(NamedTuple):
    """What a word of the key `family` implies; the other words only group."""

    effects: tuple[str, ...] = ()
    kind: str = "FAMILY_KERNEL"
    gradient: bool = False  # results have the shape of the argument whose gradient they are
    no_rule: str = ""  # why entries with a kernel need no shape rule


ANY_ELEMENTS = Family(("OP_QUANTIZED",))  # the same for any elements, or made for quantized ones
ITEMS = "the results are items of containers, whose number only the values determine"
FAMILIES = {
    "backward": Family(gradient=True),
    "cast": ANY_ELEMENTS,
    "control": ANY_ELEMENTS,
    "copy": Family(("OP_QUANTIZED", "OP_COPIES")),
    "dict": ANY_ELEMENTS._replace(no_rule=ITEMS),
    "list": ANY_ELEMENTS._replace(no_rule=ITEMS),
    "meta": ANY_ELEMENTS,
    "nested": Family(no_rule="facts describe one strided tensor, not the parts of a nested one"),
    "quantized": ANY_ELEMENTS._replace(
        no_rule="facts have no quantizer, and packed weights have no facts"
    ),
    "sparse": Family(no_rule="facts describe strides; the data determine the number of indices"),
    "string": ANY_ELEMENTS,
    "view": Family(("OP_QUANTIZED",), "FAMILY_VIEW"),
}
# Rules of written(): see ../README.md.
WRITTEN = {
    "exact": "OP_OUT_EXACT",
    "cast": "",
    "apart": "OP_OUT_APART",
    "dtype": "OP_OUT_DTYPE",
    "overlap": "OP_OUT_OVERLAP",
}
C_TYPES = {
    "int": ("int64_t", "call_int"),
    "float": ("double", "call_float"),
    "bool": ("bool", "call_bool"),
    "str": ("str", "call_str"),
}
# Arguments that determine the shape of a gradient (rule_gradient_of in shape/rules_nn.inc).
GRADIENT_OF = {
    "self",
    "input",
    "saved_v",
    "x1",
    "log_probs",
    "input_sizes",
    "self_sizes",
    "sizes",
    "input_size",
}
C_RETURNS = {"int": "value_int", "float": "value_float", "bool": "value_bool"}
# Where the interpreter's typed instructions find a number; of a bool only whether it is 0 counts.
OPCODE_FIELDS = {"int": "i", "float": "d", "bool": "i"}


class TableError(Exception):
    """An entry is wrong: its place and the reason."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")


# -- Schemas ---------------------------------------------------------------------------------------


class Arg:
    """One argument of a schema, with the parts that the generator needs."""

    def __init__(self, text: str, kwarg_only: bool) -> None:
        self.kwarg_only = kwarg_only
        self.default = None
        decl = text
        m = re.match(r"^(.*\s[\w.]+)=(.*)$", text, re.S)
        if m:
            decl, self.default = m.group(1), m.group(2)
        typ, _, self.name = decl.rpartition(" ")
        self.write = "!" in typ
        self.type = re.sub(r"\([^()]*\)", "", typ) if typ.startswith("Tensor") else typ


def split_args(text: str) -> Any:
    """Split at commas outside brackets and quotes."""
    out, depth, quote, cur = [], 0, None, ""
    for ch in text:
        if quote:
            quote = None if ch == quote else quote
        elif ch in "\"'":
            quote = ch
        elif ch in "([{":
            depth += 1
        elif ch in ")]}":
            depth -= 1
        elif ch == "," and depth == 0:
            out.append(cur.strip())
            cur = ""
            continue
        cur += ch
    if cur.strip():
        out.append(cur.strip())
    return out


class Schema:
    """Name, overload and arguments of one schema text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.full = text[: text.index("(")]
        self.name, _, self.overload = self.full.partition(".")
        self._args: list[Arg] | None = None
        self._returns: list[str] = []

    @property
    def args(self) -> Any:
        if self._args is None:
            depth, start = 0, len(self.full)
            for end in range(start, len(self.text)):
                depth += {"(": 1, ")": -1}.get(self.text[end], 0)
                if depth == 0:
                    break
            made: list[Arg] = []
            kwonly = False
            for a in split_args(self.text[start + 1 : end]):
                if a == "*":
                    kwonly = True
                elif a != "...":
                    made.append(Arg(a, kwonly))
            self._args = made
            ret = self.text[end + 1 :].split("->", 1)[1].strip()
            self._returns = [
                re.sub(r"\([^()]*\)", "", r) if r.startswith("Tensor") else r
                for r in split_args(ret[1:-1] if ret.startswith("(") else ret)
            ]
        return self._args

    @property
    def returns(self) -> Any:
        _ = self.args  # parses both
        return self._returns


def read_schemas(path: str) -> dict:
    with open(path, encoding="utf-8") as f:
        return {s.full: s for s in (Schema(line.rstrip("\n")) for line in f)}


# -- Entries ---------------------------------------------------------------------------------------


class Row:
    """One operator of the table."""

    def __init__(self, schema: Any, where: str, entry: dict[str, Any]) -> None:
        self.schema, self.where, self.entry = schema, where, entry
        self.family, self.variant, self.base = "FAMILY_SCHEMA_ONLY", "VARIANT_BASE", None
        self.kernel, self.body, self.group = None, None, ""
        self.compute: str | None = None  # the kernel behind results="rule"
        self.effects: list[str] = []
        self.point, self.index, self.grad = None, None, 0
        self.shape = 0
        self.reuse = 0  # bit i: result 0 may take the buffer of argument i
        self.sparse: Any = None  # the kernel for sparse arguments; True: its own
        self.core: str | None = None  # TorchScript over fewer operators (decompose/)

    @property
    def implied(self) -> Family:
        return FAMILIES.get(self.group, Family())


class Table:
    """All entries, checked."""

    def __init__(self, schemas: dict[str, Any], tapes: Any, shapes: dict[str, int]) -> None:
        self.refusals: dict[str, list[tuple[int, str, str]]] = {}
        self.schemas, self.tapes = schemas, tapes
        self.rows: dict[str, Row] = {}
        self.shapes = shapes  # rules by name
        self.kernels: set[str] = set()
        self.scalars: list[tuple[str, str]] = []
        self.points: list[Any] = []
        self.gradients = gen_grad.Texts()
        self.late_grads: list[Any] = []
        self.late_sparse: list[tuple[str, str, Any]] = []
        self.late_core: list[tuple[str, str, str]] = []
        self.written: dict[str, dict[str, str]] = {}
        self.late_known: list[tuple[str, str, dict[str, Any]]] = []
        self.synonyms: dict[str, str] = {}
        self.properties: dict[str, str] = {}  # of a tensor: the operator's name
        self.names = gen_names.Names()

    def find(self, full: str, where: str) -> Any:
        if full not in self.schemas:
            raise TableError(where, f"PyTorch registers no operator {full}")
        return self.schemas[full]

    def add_schema(self, full: str, where: str, text: str) -> None:
        """Add an operator that PyTorch does not have: `NAMESPACE::NAME(ARGUMENTS) -> RESULTS`."""
        if full in self.schemas:
            raise TableError(where, f"{full}: remove the key schema, schemas.txt has it")
        if not re.fullmatch(re.escape(full) + r"\(.*\) -> \S.*", text) or "::" not in full:
            raise TableError(
                where, f"{full}: schema {text!r}, expected {full}(ARGUMENTS) -> RESULTS"
            )
        self.schemas[full] = Schema(text)

    def add_row(self, full: str, where: str, entry: dict[str, Any]) -> Any:
        row = Row(self.find(full, where), where, entry)
        if full in self.rows:
            raise TableError(where, f"{full} has an entry already, at {self.rows[full].where}")
        self.rows[full] = row
        row.group = entry["family"]
        self.add_effects(row, entry.get("effects", []), where)
        row.effects.extend(row.implied.effects)
        return row

    def add_effects(self, row: Row, effects: list[str], where: str) -> None:
        for e in effects:
            if e not in EFFECTS:
                raise TableError(
                    where,
                    f"{row.schema.full}: unknown effect {e!r}, expected one of "
                    + ", ".join(sorted(EFFECTS)),
                )
            row.effects.append(EFFECTS[e])

    # -- What other parts ask about ----------------------------------------------------------------

    def set_known(self, full: str, where: str, keys: dict[str, Any]) -> None:
        """known(NAMES, KEY=...): keys of entries elsewhere, or of operators known by schema alone;
        NAME.* are all overloads."""
        name, _, overload = full.partition(".")
        all_of = [s for s in self.schemas.values() if s.name == name] if overload == "*" else []
        if overload == "*" and not all_of:
            self.find(name, where)
        for schema in all_of or [self.find(full, where)]:
            row = self.rows.setdefault(schema.full, Row(schema, where, {}))
            self.add_effects(row, keys.get("effects", []), where)
            for key, values in AUTOCAST.items():
                self.set_autocast(row, where, key, keys.get(key), values)
            if "property" in keys:
                self.set_property(schema.name, where, keys["property"])
            if "synonym_of" in keys:
                self.set_synonym(schema.name, where, keys["synonym_of"])

    def set_autocast(
        self, row: Row, where: str, key: str, value: str | None, values: dict[str, str]
    ) -> None:
        if value is None:
            return
        if value not in values:
            raise TableError(
                where, f"{row.schema.full}: {key}={value!r}, expected one of {', '.join(values)}"
            )
        if set(values.values()) & set(row.effects):
            raise TableError(where, f"{row.schema.full} has the key {key!r} already")
        row.effects.append(values[value])

    def set_property(self, name: str, where: str, value: Any) -> None:
        """True: the operator has the property's name."""
        shown = name.split("::")[1] if value is True else value
        if self.properties.setdefault(shown, name) != name:
            raise TableError(where, f"{shown} is the property {self.properties[shown]} already")

    def set_synonym(self, name: str, where: str, of: str) -> None:
        """All overloads; the in-place forms are synonyms too."""
        names = {s.name for s in self.schemas.values()}
        of = of if "::" in of else f"aten::{of}"
        if of not in names:
            raise TableError(where, f"PyTorch registers no operator {of}")
        if self.synonyms.setdefault(name, of) != of:
            raise TableError(where, f"{name} is a synonym of {self.synonyms[name]} already")
        if f"{name}_" in names and f"{of}_" in names:
            self.synonyms[f"{name}_"] = f"{of}_"

    def add(self, full: str, where: str, entry: dict[str, Any]) -> None:
        """Add one call of op() in a table file."""
        for key in entry:
            if key not in KEYS:
                raise TableError(where, f"{full}: unknown key {key!r}")
        if not isinstance(entry.get("family"), str):
            raise TableError(where, f"{full}: family is missing")
        if "schema" in entry:
            self.add_schema(full, where, entry["schema"])
        for name in [full, *entry.get("same", [])]:
            row = self.add_row(name, where, entry)
            self.fill(row)
            self.late_known.append(
                (name, where, {k: entry[k] for k in entry if k in KNOWN - {"effects"}})
            )
        base = self.rows[full]
        for kind, names in entry.get("variants", {}).items():
            if kind not in ("inplace", "out"):
                raise TableError(where, f"{full}: unknown kind of variant {kind!r}")
            for name in [names] if isinstance(names, str) else names:
                self.add_variant(base, kind, name)

    def fill(self, row: Any) -> None:
        """Set the row's implementation, and the rule of its results' shapes."""
        e, full, where = row.entry, row.schema.full, row.where
        row.body = e.get("body")
        rule = e.get("shape", "pointwise" if "expr" in e else None)
        in_place = row.schema.args and row.schema.args[0].write and row.schema.returns == ["Tensor"]
        if "shape" not in e and rule is None and in_place:
            rule = "itself"
        if (
            "shape" not in e
            and rule is None
            and row.implied.gradient
            and row.schema.returns == ["Tensor"]
            and any(a.name in GRADIENT_OF for a in row.schema.args)
        ):
            rule = "gradient"
        self.check_no_rule(row, rule)
        if rule is not None and rule not in self.shapes:
            raise TableError(where, f"{full}: there is no shape rule {rule!r}")
        row.shape = self.shapes.get(rule, 0)
        self.set_sparse(row, where, e.get("sparse"))
        self.set_reuse(row, where)
        if "results" in e:
            if e["results"] != "rule" or not row.shape:
                raise TableError(where, f"{full}: results='rule' is for entries with a shape rule")
            row.kernel, row.compute = "call_by_rule", e.get("kernel")
            self.kernels |= {k for k in (row.kernel, row.compute) if k}
            row.family = row.implied.kind
        elif "kernel" in e:
            if not re.fullmatch(r"[A-Za-z_]\w*", e["kernel"]):
                raise TableError(where, f"{full}: kernel {e['kernel']!r}: expected a C identifier")
            row.kernel = e["kernel"]
            self.kernels.add(row.kernel)
            row.family = row.implied.kind
        elif "expr" in e:
            row.family = "FAMILY_POINTWISE"
            try:
                row.point = gen_tape.compile_entry(self.tapes, row.schema, e)
            except gen_tape.ExprError as x:
                raise TableError(where, f"{full}: {x}") from None
            self.points.append(row.point)
        elif "c" in e:
            row.family = "FAMILY_SCALAR"
            row.kernel = "scalar_" + re.sub(r"\W", "_", full)
            self.scalars.append((row.kernel, self.scalar_kernel(row)))
        elif row.body:
            row.family = "FAMILY_COMPOSITE"

    def check_no_rule(self, row: Row, rule: str | None) -> None:
        """Refuse an entry with a kernel and results of tensors that has neither a shape rule nor a
        reason."""
        reason = row.entry.get("no_rule")
        if rule and reason:
            raise TableError(row.where, f"{row.schema.full} has a shape rule, and no_rule")
        tensors = any("Tensor" in text for text in row.schema.returns)
        if not (rule or reason or row.implied.no_rule) and "kernel" in row.entry and tensors:
            raise TableError(
                row.where,
                f"{row.schema.full}: expected a shape rule (shape=...), or the reason why there is "
                "none (no_rule=...)",
            )

    def set_sparse(self, row: Any, where: str, kernel: Any) -> None:
        """Set the implementation for sparse arguments: a kernel's name, or True for the entry's
        own."""
        if kernel is None:
            return
        if row.sparse or (kernel is True and "kernel" not in row.entry):
            why = "takes sparse tensors already" if row.sparse else "has no kernel of its own"
            raise TableError(where, f"{row.schema.full} {why}")
        row.sparse = kernel
        if kernel is not True:
            self.kernels.add(kernel)

    def set_reuse(self, row: Any, where: str) -> None:
        """The arguments named by `reuse`; of a formula of one result, all tensors."""
        formula = "expr" in row.entry and row.schema.returns == ["Tensor"]
        tensors = [i for i, a in enumerate(row.schema.args) if a.type in ("Tensor", "Tensor?")]
        names = row.entry.get(
            "reuse", [row.schema.args[i].name for i in tensors] if formula else []
        )
        if names and not formula and row.entry.get("results") != "rule":
            raise TableError(where, f"{row.schema.full}: reuse is for entries with results='rule'")
        for name in names:
            at = [i for i in tensors if row.schema.args[i].name == name and i < 16]
            if not at:
                raise TableError(
                    where, f"{row.schema.full}: reuse={name!r} is not a tensor argument"
                )
            row.reuse |= 1 << at[0]

    def scalar_kernel(self, row: Any) -> str:
        """Return the boxed kernel of a C expression."""
        s = row.schema
        lines = []
        for i, a in enumerate(s.args):
            if a.type not in C_TYPES:
                raise TableError(
                    row.where,
                    f"{s.full}: argument {a.name} has type {a.type}; a C expression takes "
                    f"{', '.join(C_TYPES)}",
                )
            ctype, getter = C_TYPES[a.type]
            lines.append(f"  {ctype} {a.name} = {getter}(call, {i});\n  (void){a.name};")
        if len(s.returns) != 1 or s.returns[0] not in C_RETURNS:
            raise TableError(row.where, f"{s.full}: a C expression cannot return {s.returns}")
        lines.append(f"  call->results[0] = {C_RETURNS[s.returns[0]]}({row.entry['c']});")
        return "\n".join(lines)

    def add_variant(self, base: Any, kind: str, name: str) -> None:
        row = self.add_row(name, base.where, {"family": base.group})
        b, v = base.schema.args, row.schema.args
        row.variant = "VARIANT_INPLACE" if kind == "inplace" else "VARIANT_OUT"
        row.base, row.family, row.effects = (
            base,
            base.family,
            [e for e in base.effects if e not in OWN_EFFECTS],
        )
        row.shape = base.shape
        written = [a.name for a in v if a.write]
        if kind == "inplace" and not (v and v[0].write):
            raise TableError(base.where, f"{name} does not write its first argument")
        if kind == "out" and not written:
            raise TableError(base.where, f"{name} has no argument to write to")
        known = {a.name for a in v}
        for i, a in enumerate(b):
            if a.name not in known and a.default is None and not (kind == "inplace" and i == 0):
                raise TableError(
                    base.where, f"{name} has no argument {a.name} for {base.schema.full}"
                )
        extra = [a.name for a in v if a.name not in {x.name for x in b} and not a.write]
        if extra:
            raise TableError(base.where, f"{base.schema.full} has no argument {extra[0]} of {name}")

    def set_written(self, kind: str, names: tuple[str, ...], where: str) -> None:
        """Implement written(kind, names...): set the requirements of these forms (or of all
        overloads of these operators) for the tensors they write to."""
        if kind not in WRITTEN:
            raise TableError(
                where, f"unknown rule {kind!r}, expected one of " + ", ".join(sorted(WRITTEN))
            )
        for name in names:
            rules = self.written.setdefault(f"aten::{name}", {})
            if kind in rules:
                raise TableError(where, f"{name} has the rule {kind!r} already, at {rules[kind]}")
            rules[kind] = where

    def finish(self) -> None:
        """Complete the table once all entries are known."""
        self.add_regular_variants()
        for full, where, kernel in self.late_sparse:
            row = self.rows.get(self.find(full, where).full)
            if not row or row.base:
                raise TableError(where, f"{full} has no entry of its own")
            self.set_sparse(row, where, kernel)
        for full, where, text in self.late_core:
            row = self.rows.get(self.find(full, where).full)
            if not row or row.core or row.base:
                raise TableError(where, f"{full} has no entry, or a decomposition already")
            row.core = text
        for full, where, keys in self.late_known:
            self.set_known(full, where, keys)
        self.add_formulas()
        left = dict(self.written)
        for row in self.rows.values():
            if row.base is None:
                continue
            names = (row.base.schema.name, row.schema.full)
            rules = {
                kind: where for name in names for kind, where in self.written.get(name, {}).items()
            }
            for name in names:
                left.pop(name, None)
            row.effects += [WRITTEN[kind] for kind in rules if kind not in ("cast", "exact")]
            is_exact = "exact" in rules if row.family == "FAMILY_POINTWISE" else "cast" not in rules
            if row.variant == "VARIANT_OUT" and is_exact:
                row.effects.append("OP_OUT_EXACT")
        for name, rules in left.items():
            raise TableError(next(iter(rules.values())), f"{name} has no in-place or out= form")

    def add_formulas(self) -> None:
        """Make decompositions of the formulas of pointwise operators that PyTorch decomposes."""
        path = os.path.join(os.path.dirname(__file__), "..", "..", "export", "decomposed.def")
        with open(path, encoding="utf-8") as f:
            names = re.findall(r'^DECOMPOSED(?:_ALWAYS)?\("(.*)"\)', f.read(), re.M)
        for row in filter(None, map(self.rows.get, names)):
            if row.core or row.body or row.base or row.schema.name in self.synonyms:
                continue
            if "expr" in row.entry:
                with contextlib.suppress(gen_tape.ExprError):  # its operations are no operators
                    row.core = gen_core.core_text(row.schema, row.entry)

    def runs(self, row: Any) -> bool:
        return row is not None and (
            row.family != "FAMILY_SCHEMA_ONLY" if row.base is None else self.runs(row.base)
        )

    def add_regular_variants(self) -> None:
        """Add the in-place and out= forms that no entry lists: those whose other arguments are a
        runnable operator's."""
        bases: dict[str, list[Any]] = {}
        for row in self.rows.values():
            if self.runs(row) and row.variant == "VARIANT_BASE":
                bases.setdefault(row.schema.name, []).append(row)
        for full, schema in self.schemas.items():
            if (
                full in self.rows
                or schema.name.split("::")[0] not in VARIANT_NAMESPACES
                or not any(a.write for a in schema.args)
            ):
                continue
            kind, name = "out", schema.name
            if schema.args[0].write and name.endswith("_"):
                kind, name = "inplace", name[:-1]
            fits = [b for b in bases.get(name, []) if is_variant(b.schema, schema, kind)]
            if fits:
                exact = [
                    b for b in fits if b.schema.overload == schema.overload.removesuffix("_out")
                ]
                self.add_variant((exact or fits)[0], kind, full)


# How an operator's name shows its base.
VARIANT_NAMESPACES = {"aten", "quantized"}


def is_variant(base: Schema, schema: Schema, kind: str) -> bool:
    """True if `schema` has the arguments of `base`, and one to write for each of its results."""
    known = {a.name for a in base.args}
    written = [a for a in schema.args if a.write and (kind == "inplace" or a.name not in known)]
    mine = [(a.name, a.type) for a in schema.args if kind == "inplace" or a not in written]
    theirs = [(a.name, a.type) for a in base.args if (a.name, a.type) in mine or a.default is None]
    if kind == "inplace" and len(written) != 1:
        return False
    lists = [a.type.endswith("[]") for a in written]
    return bool(written) and mine == theirs and lists == [r.endswith("[]") for r in base.returns]


def share_gradients(table: Any, row: Any) -> None:
    """Give in-place operators with a kernel of their own the formulas of the functional form."""
    name, dot, overload = row.schema.full.partition(".")
    in_place = name.endswith("_") and not name.endswith("__") and not row.base
    base = table.rows.get(name[:-1] + dot + overload) if in_place else None
    if base and "grad" in base.entry and "grad" not in row.entry:
        if [a.name for a in base.schema.args] == [a.name for a in row.schema.args]:
            row.entry = {**row.entry, "grad": base.entry["grad"]}


def read_gradients(table: Any) -> None:
    """Read the formulas; all tables have been read, so that they may use every helper."""
    table.gradients.begin()
    for full, where, formulas in table.late_grads:
        row = table.rows.get(table.find(full, where).full)
        if not row or row.base or "grad" in row.entry:
            raise TableError(
                where,
                f"{full} has " + ("a gradient already" if row and not row.base else "no entry"),
            )
        row.entry = {**row.entry, "grad": formulas}
    for row in table.rows.values():
        share_gradients(table, row)
        if "grad" in row.entry:
            try:
                row.grad = table.gradients.add(row.schema, row.entry["grad"])
            except gen_grad.GradError as x:
                raise TableError(row.where, f"{row.schema.full}: {x}") from None


def read_rules(path: str) -> dict[str, int]:
    """Return shape rules by name: their numbers, from 1 on (src/shape/rules.def)."""
    with open(path, encoding="utf-8") as f:
        names = re.findall(r"^RULE\((\w+),", f.read(), re.M)
    return {name: i + 1 for i, name in enumerate(names)}


def read_tables(table: Any, paths: list[str]) -> None:
    for path in paths:
        shown = "src/ops/table/" + os.path.relpath(path, os.path.dirname(os.path.abspath(__file__)))

        def op(full: str, shown: str = shown, **entry: Any) -> None:
            frame = sys._getframe(1)
            table.add(full, f"{shown}:{frame.f_lineno}", entry)

        def helper(text: str, shown: str = shown) -> None:
            try:
                table.gradients.helper(text)
            except gen_grad.GradError as x:
                raise TableError(f"{shown}:{sys._getframe(1).f_lineno}", str(x)) from None

        def grad(names: str, formulas: Any = (), shown: str = shown, **more: Any) -> None:
            where = f"{shown}:{sys._getframe(1).f_lineno}"
            for name in names.split():
                table.late_grads.append((f"aten::{name}", where, {**dict(formulas), **more}))

        def sparse(kernel: Any, names: str, shown: str = shown) -> None:
            where = f"{shown}:{sys._getframe(1).f_lineno}"
            table.late_sparse += [
                (f"aten::{name}" if "::" not in name else name, where, kernel)
                for name in names.split()
            ]

        def decompose(names: str, text: str, shown: str = shown) -> None:
            where = f"{shown}:{sys._getframe(1).f_lineno}"
            table.late_core += [(f"aten::{name}", where, text) for name in names.split()]

        def known(names: str, shown: str = shown, **keys: Any) -> None:
            where = f"{shown}:{sys._getframe(1).f_lineno}"
            if not keys or not set(keys) <= KNOWN:
                raise TableError(where, f"known() takes {', '.join(sorted(KNOWN))}")
            table.late_known += [
                (f"aten::{name}" if "::" not in name else name, where, keys)
                for name in names.split()
            ]

        def name(paths: str, shown: str = shown, **keys: Any) -> None:
            try:
                table.names.add(paths, keys)
            except (gen_names.NameError_, SyntaxError) as x:
                raise TableError(f"{shown}:{sys._getframe(1).f_lineno}", str(x)) from None

        def written(kind: str, *names: str, shown: str = shown) -> None:
            table.set_written(kind, names, f"{shown}:{sys._getframe(1).f_lineno}")

        with open(path, encoding="utf-8") as f:
            code = compile(f.read(), path, "exec")
        try:
            exec(
                code,
                {
                    "op": op,
                    "helper": helper,
                    "grad": grad,
                    "written": written,
                    "sparse": sparse,
                    "decompose": decompose,
                    "known": known,
                    "name": name,
                    "registered": table.schemas.__contains__,
                    "__name__": os.path.basename(path)[:-3],
                },
            )
        except TableError:
            raise
        except Exception as x:  # the table's own Python
            inner = x.__traceback__.tb_next if x.__traceback__ else None
            line = inner.tb_lineno if inner else 0
            raise TableError(f"{shown}:{line}", f"{type(x).__name__}: {x}") from None
    read_gradients(table)


# -- Refusals --------------------------------------------------------------------------------------

# A line: operator, dtypes, and the error: a kernel's name, or a sentence (with %s for the dtype).
DTYPE_BITS = {
    **{name: [bit] for name, bit in gen_tape.DTYPES.items()},
    "float8": [bit for name, bit in gen_tape.DTYPES.items() if name.startswith("float8")],
    "unsigned": [27, 28, 29],
    "whole": [0, 1, 2, 3, 4],
    "halves": [5, 15],
    "complex": [9, 10],
}


def read_refusals(path: str) -> dict[str, list[tuple[int, str, str]]]:
    """By operator: a mask of dtypes, the kind of refusal, and its text."""
    refusals: dict[str, list[tuple[int, str, str]]] = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            full, dtypes, text = line.rstrip("\n").split(" ", 2)
            mask = sum(1 << bit for name in dtypes.split(",") for bit in DTYPE_BITS[name])
            kind = "REFUSES_TEXT" if " " in text else "REFUSES_NAME"
            if text.startswith("NotImplementedError: "):
                kind, text = "REFUSES_UNIMPLEMENTED", text.removeprefix("NotImplementedError: ")
            refusals.setdefault(full, []).append((mask, kind, text))
    return refusals


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


# -- Writing ---------------------------------------------------------------------------------------


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
