"""The operator table as gen.py reads it: the schemas that PyTorch registers, the entries of the
tables (../README.md), and what is checked before anything is written.

An entry becomes a Row: its schema, and how it computes (a formula, a kernel, a body).  Rows are
made once, here, so that what is written (gen_write.py) has nothing left to decide.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import Any, NamedTuple

import gen_core
import gen_grad
import gen_names
import gen_tape

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
        path = os.path.join(os.path.dirname(__file__), "..", "..", "..", "export", "decomposed.def")
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
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        shown = "src/ops/table/" + os.path.relpath(path, here)

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
