"""Formulas of the operator table become tapes (see tape.h).  Used by gen.py.

A formula is Python syntax: an expression over argument names, or assignments and a last expression
(a tuple for several results).  Types are the symbolic ones of tape.h: b bool, k what the operator
computes in, r the real type of k, i int64, d float64; w is a number that takes the type of what it
meets.
"""

from __future__ import annotations

import ast
import math
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

CLASSES = {"bool": "b", "int": "i", "float": "f", "complex": "c"}
CLASS_BITS = {"bool": 1, "int": 2, "float": 4, "complex": 8}
SYMS = {"b": "SYM_B", "k": "SYM_K", "r": "SYM_R", "z": "SYM_Z", "i": "SYM_I", "d": "SYM_D"}


def read_dtypes() -> dict[str, int]:
    """Numbers of dtypes by name (src/base/dtypes.def)."""
    path = os.path.join(os.path.dirname(__file__), "..", "..", "..", "base", "dtypes.def")
    with open(path, encoding="utf-8") as f:
        rows = re.findall(r'^DTYPE\(\w+, (\d+), "(\w+)"', f.read(), re.M)
    return {name: int(number) for number, name in rows}


DTYPES = read_dtypes()
OUTS = {"common": "OUT_COMMON", "same": "OUT_SAME", "real": "OUT_REAL", "complex": "OUT_COMPLEX"}
NUMBERS = {"inf": math.inf, "nan": math.nan, "pi": math.pi, "e": math.e}
DTYPE_CONSTS = {
    "dtype_max": "CONST_DTYPE_MAX",
    "dtype_min": "CONST_DTYPE_MIN",
    "dtype_eps": "CONST_DTYPE_EPS",
}
BINARY = {
    ast.Add: "ADD",
    ast.Sub: "SUB",
    ast.Mult: "MUL",
    ast.Div: "DIV",
    ast.FloorDiv: "FDIV",
    ast.Mod: "REM",
    ast.Pow: "POW",
    ast.BitAnd: "AND",
    ast.BitOr: "OR",
    ast.BitXor: "XOR",
    ast.LShift: "SHL",
    ast.RShift: "SHR",
}
PROMOTING = {"self", "other", "min", "max", "exponent", "input"}
TENSORS = {"Tensor", "Tensor?"}
NUMBERS_ARGS = {"Scalar", "Scalar?", "float", "float?", "int", "int?", "bool", "bool?", "SymInt"}


class ExprError(Exception):
    """A formula is wrong, or uses an operation without a primitive."""


class Primitives:
    """The primitives of tape.def and the functions of special.def."""

    def __init__(self, path: str) -> None:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        self.ops = {
            m[0]: (int(m[1]), m[2], m[3])
            for m in re.findall(r'^TAPE\((\w+), (\d), "(\w+)", "(\w)"\)', text, re.M)
        }
        with open(os.path.join(os.path.dirname(path), "special.def"), encoding="utf-8") as f:
            text = f.read()
        self.calls = {}
        for kind in ("CALL1", "CALL2", "CALLZ"):
            for i, name in enumerate(re.findall(rf"^{kind}\((\w+),", text, re.M)):
                self.calls[name] = (kind, i)


class Node:
    """One value: an input, a constant, or an instruction."""

    def __init__(self, kind: str, typ: str, **what: Any) -> None:
        self.kind, self.type = kind, typ
        self.op = what.get("op")
        self.args = what.get("args", ())
        self.aux = what.get("aux", 0)
        self.value = what.get("value")
        self.reg: int | None = None
        self.itype = what.get("itype", "")  # an instruction's own type; `type` is the result's


class Compiler:
    """One formula for one dtype class."""

    def __init__(self, prims: Any, inputs: Any, cls: str, fixed: Any) -> None:
        self.prims, self.cls = prims, cls
        self.k = "b" if cls == "bool" else "k"
        self.nodes: dict[tuple, Node] = {}
        self.order: list[Node] = []
        self.names: dict[str, Node] = {}
        for i, (name, typ) in enumerate(inputs):
            t = self.norm(typ)
            self.names[name] = Node("input", t, value=i)
        self.fixed = fixed  # name -> number known by a condition

    def norm(self, typ: str) -> Any:
        if self.cls == "bool" and typ == "k":
            return "b"
        return "k" if typ == "r" and self.cls != "complex" else typ

    def class_of(self, typ: str) -> Any:
        return {"b": "b", "i": "i", "d": "f", "r": "f", "z": "c"}.get(typ) or CLASSES[self.cls]

    # -- Making nodes

    def const(self, value: Any, typ: str = "w") -> Any:
        key = ("const", repr(value), typ)
        if key not in self.nodes:
            self.nodes[key] = Node("const", typ, value=value)
        return self.nodes[key]

    def emit(self, op: str, typ: str, args: Any, aux: int = 0, rtype: str | None = None) -> Any:
        """Add an instruction. typ: the instruction's type; rtype: the result's."""
        arity, classes, result = self.prims.ops[op]
        if len(args) != arity:
            raise ExprError(f"{op.lower()} takes {arity} values")
        if self.class_of(typ) not in classes:
            raise ExprError(f"{op.lower()} does not exist for class {self.cls} (type {typ})")
        if rtype is None:
            rtype = {"k": typ, "b": "b", "r": "r", "z": "k"}[result]
        key = (op, typ, tuple(id(a) for a in args), aux)
        if key not in self.nodes:
            self.nodes[key] = Node("instr", self.norm(rtype), op=op, args=args, aux=aux, itype=typ)
            self.order.append(self.nodes[key])
        return self.nodes[key]

    def cast(self, node: Any, typ: str) -> Any:
        typ = self.norm(typ)
        if node.type == typ:
            return node
        if node.kind == "const":
            return self.const(node.value, typ)
        return self.emit("CVT", typ, (node,), aux=node.type, rtype=typ)

    def meet(self, *nodes: Any) -> tuple:
        """Convert operands to one type: numbers adapt, bool converts to any, real converts to
        complex."""
        rank = {"w": 0, "b": 1, "i": 2, "k": 3, "r": 2, "d": 4}
        if self.cls == "bool":
            rank["i"] = 3
        typ = max((n.type for n in nodes), key=lambda t: rank[t])
        if typ == "w" or (typ == "b" and self.cls != "bool" and any(n.type == "w" for n in nodes)):
            typ = self.k
        return typ, [self.cast(n, typ) for n in nodes]

    def apply(self, op: str, *nodes: Any) -> Any:
        typ, args = self.meet(*nodes)
        one = [n.kind == "const" and n.value == 1 for n in args]
        if op == "MUL" and any(one):
            return args[0] if one[1] else args[1]
        if op == "FMA" and (one[0] or one[1]):
            return self.apply("ADD", args[0] if one[1] else args[1], args[2])
        if op in ("ADD", "SUB", "MUL", "POW") and typ == "b":
            raise ExprError(f"{op.lower()} of bools")
        return self.emit(op, typ, tuple(args))

    def as_bool(self, node: Any) -> Any:
        if node.type == "b":
            return node
        if node.kind == "const":
            return self.const(bool(node.value), "b")
        return self.emit("CVT", "b", (node,), aux=node.type, rtype="b")

    # -- Syntax

    def run(self, text: str) -> list:
        try:
            tree = ast.parse(re.sub(r"\n\s+", "\n", text.strip()))
        except SyntaxError as x:
            raise ExprError(f"{x.msg} in {text!r}") from None
        for st in tree.body[:-1]:
            if not (
                isinstance(st, ast.Assign)
                and len(st.targets) == 1
                and isinstance(st.targets[0], ast.Name)
            ):
                raise ExprError(f"only assignments before the last expression: {ast.unparse(st)}")
            self.names[st.targets[0].id] = self.expr(st.value)
        if not tree.body or not isinstance(tree.body[-1], ast.Expr):
            raise ExprError("a formula ends in an expression")
        last = tree.body[-1].value
        return [self.expr(x) for x in (last.elts if isinstance(last, ast.Tuple) else [last])]

    def expr(self, x: Any) -> Any:
        if isinstance(x, ast.Constant) and isinstance(x.value, (bool, int, float)):
            return self.const(x.value, "b" if isinstance(x.value, bool) else "w")
        if isinstance(x, ast.Name):
            return self.name(x.id)
        if isinstance(x, ast.BinOp):
            return self.apply(BINARY[type(x.op)], self.expr(x.left), self.expr(x.right))
        if isinstance(x, ast.UnaryOp):
            return self.unary(x)
        if isinstance(x, ast.BoolOp):
            parts = [self.as_bool(self.expr(v)) for v in x.values]
            while len(parts) > 1:
                op = "AND" if isinstance(x.op, ast.And) else "OR"
                parts[:2] = [self.emit(op, "b", (parts[0], parts[1]))]
            return parts[0]
        if isinstance(x, ast.Compare) and len(x.ops) == 1:
            return self.compare(x)
        if isinstance(x, ast.IfExp):
            return self.where(self.expr(x.test), self.expr(x.body), self.expr(x.orelse))
        if isinstance(x, ast.Call) and isinstance(x.func, ast.Name) and not x.keywords:
            return self.call(x.func.id, [self.expr(a) for a in x.args])
        raise ExprError(f"no formula has {ast.unparse(x)!r}")

    def name(self, name: str) -> Any:
        if name in self.fixed:
            return self.const(self.fixed[name], "b" if isinstance(self.fixed[name], bool) else "w")
        if name in self.names:
            return self.names[name]
        if name in NUMBERS:
            return self.const(NUMBERS[name])
        if name in DTYPE_CONSTS:
            return self.const(DTYPE_CONSTS[name], self.norm("r"))
        raise ExprError(f"unknown name {name!r}")

    def unary(self, x: Any) -> Any:
        v = self.expr(x.operand)
        if isinstance(x.op, ast.USub):
            if v.kind == "const" and isinstance(v.value, (int, float)):
                return self.const(-v.value, v.type)
            return self.apply("NEG", v)
        if isinstance(x.op, ast.Invert):
            return self.apply("NOT", v)
        if isinstance(x.op, ast.Not):
            return self.emit("NOT", "b", (self.as_bool(v),))
        return v

    def compare(self, x: Any) -> Any:
        a, b = self.expr(x.left), self.expr(x.comparators[0])
        ops = {
            ast.Eq: ("EQ", a, b),
            ast.NotEq: ("NE", a, b),
            ast.Lt: ("LT", a, b),
            ast.LtE: ("LE", a, b),
            ast.Gt: ("LT", b, a),
            ast.GtE: ("LE", b, a),
        }
        if type(x.ops[0]) not in ops:
            raise ExprError(f"no formula has {ast.unparse(x)!r}")
        return self.apply(*ops[type(x.ops[0])])

    def where(self, c: Any, a: Any, b: Any) -> Any:
        c = self.as_bool(c)
        if c.kind == "const":
            return a if c.value else b
        typ, (a, b) = self.meet(a, b)
        return self.emit("WHERE", typ, (c, a, b))

    def call(self, name: str, args: Any) -> Any:
        casts = {"k": "k", "i64": "i", "f64": "d", "real_type": "r"}
        if name == "bool":
            return self.as_bool(*args)
        if name in casts:
            return self.cast(args[0], casts[name])
        if name == "where":
            return self.where(*args)
        if name == "isnan":
            return self.emit("NE", args[0].type, (args[0], args[0]))
        if name == "isinf":
            return self.apply("EQ", self.apply("ABS", args[0]), self.const(math.inf))
        if name in ("real", "imag"):
            if self.cls != "complex":
                return args[0] if name == "real" else self.const(0, self.k)
            return self.emit(name.upper(), "k", tuple(args))
        if name == "complex":
            a, b = (self.cast(x, "r") for x in args)
            return self.emit("COMPLEX", "r", (a, b), rtype="k" if self.cls == "complex" else "z")
        if name in self.prims.calls:
            kind, index = self.prims.calls[name]
            typ, args = self.meet(*args)
            return self.emit(kind, typ, tuple(args), aux=index)
        if name.upper() in self.prims.ops and name not in ("cvt", "call1", "call2", "callz"):
            return self.apply(name.upper(), *args)
        raise ExprError(f"unknown function {name!r}")


# -- Registers
# ---------------------------------------------------------------------------------------


class Arm:
    """A compiled tape with the conditions that select it."""

    def __init__(self, classes: Any, conds: Any) -> None:
        self.classes, self.conds = classes, conds
        self.instrs: list[Node] = []
        self.consts: list[Node] = []
        self.results: list[Node] = []
        self.n_regs = 0


def allocate(arm: Any, comp: Any, n_inputs: int, numbers: set[int], results: Any) -> None:
    """Assign registers: constants follow the inputs, temporaries are reused after their last use;
    values that depend only on the inputs `numbers` are computed once, and keep a register of their
    own."""
    live, todo = [], list(results)
    needed = set()
    while todo:
        n = todo.pop()
        if id(n) not in needed:
            needed.add(id(n))
            todo.extend(n.args)
    live = [n for n in comp.order if id(n) in needed]
    consts: list[Node] = []
    for n in [x for i in live for x in i.args] + results:
        if n.kind == "input":
            n.reg = n.value
        elif n.kind == "const" and n.reg is None:
            n.reg = n_inputs + len(consts)
            consts.append(n)
    last = {}
    for at, n in enumerate(live):
        for a in n.args:
            last[id(a)] = at
    for r in results:
        last[id(r)] = len(live)
    first = n_inputs + len(consts)
    free: list[int] = []
    kept: set[int] = set()
    n_regs = first
    for at, n in enumerate(live):
        if all(
            a.kind == "const" or (a.kind == "input" and a.value in numbers) or id(a) in kept
            for a in n.args
        ):
            kept.add(id(n))
            n.reg, n_regs = n_regs, n_regs + 1
            continue
        dying = [
            a
            for a in dict.fromkeys(n.args)
            if a.kind == "instr" and last[id(a)] == at and id(a) not in kept
        ]
        same = [a for a in dying if a.type == n.type and n.op != "CVT"]
        free.extend(a.reg for a in same)
        if free:
            n.reg = free.pop(0)
        else:
            n.reg, n_regs = n_regs, n_regs + 1
        free.extend(a.reg for a in dying if a not in same)
    arm.instrs, arm.consts, arm.n_regs = live, consts, n_regs
    arm.results = results
    if n_regs > 22:
        raise ExprError(f"the formula needs {n_regs} registers")


class Point:
    """The pointwise side of one entry."""

    schema: Any
    inputs: list[tuple[int, str, list[str], str]]  # argument, name, flags, type
    arms: list[Arm]
    promote: str
    outs: list[str]
    refuse_bool: str  # the error's text, or ""
    row_major: bool
    name: str


def parse_cond(schema: Any, text: str) -> tuple:
    m = re.fullmatch(r"(\w+)\s*(==|=|!=)\s*(.+)", text.strip())
    names = [a.name for a in schema.args]
    if not m or m[1] not in names:
        raise ExprError(f"{text!r} is neither a dtype class nor a condition on an argument")
    arg, value = names.index(m[1]), ast.literal_eval(m[3])
    if value is None:
        return (arg, m[1], "COND_GIVEN" if m[2] == "!=" else "COND_NONE", None)
    if m[2] == "!=":
        raise ExprError(f"{text!r}: only None can be compared with !=")
    if isinstance(value, str):
        return (arg, m[1], "COND_TEXT", value)
    if isinstance(value, (bool, int)):
        return (arg, m[1], "COND_NUMBER", value)
    if isinstance(value, float) and (2 * value).is_integer():
        return (arg, m[1], "COND_HALVES", value)
    raise ExprError(
        f"{text!r}: a condition compares with None, a text, an integer or a half of one"
    )


def flatten(schema: Any, expr: Any, classes: Any, conds: Any) -> Iterator[Any]:
    """Return (classes, conditions, formula) of a possibly nested dict, in order."""
    if isinstance(expr, str):
        yield classes, conds, expr
        return
    if not isinstance(expr, dict):
        raise ExprError("expr is a text or a dict")
    for key, sub in expr.items():
        words = key.split()
        if words and all(w in CLASSES for w in words):
            yield from flatten(schema, sub, [w for w in words if w in classes], conds)
        elif key == "else":
            yield from flatten(schema, sub, classes, conds)
        else:
            more = [parse_cond(schema, c) for c in key.split(" and ")]
            yield from flatten(schema, sub, classes, conds + more)


def entry_inputs(schema: Any, entry: dict[str, Any], names: set[str]) -> Any:
    """Return (argument, flags, type) of each argument the formulas use."""
    promote = entry.get("promote", "arguments")
    listed = promote if isinstance(promote, list) else None
    fixed, scalars = entry.get("fixed", {}), entry.get("scalars", {})
    out = []
    for i, a in enumerate(schema.args):
        if a.name not in names:
            continue
        flags = []
        typ = {"bool": "b", "int64": "i", "float64": "d", "real": "r"}.get(fixed.get(a.name), "k")
        if a.type in TENSORS:
            promotes = a.name in listed if listed else a.name not in fixed
            if scalars.get(a.name) == "opmath":
                flags.append("INPUT_OPMATH")
        elif a.type in NUMBERS_ARGS:
            flags.append("INPUT_SCALAR")
            promotes = a.name in (listed or PROMOTING) and a.type.startswith("Scalar")
            if a.type.startswith("bool") and a.name not in fixed:
                typ = "b"
            how = scalars.get(a.name, "rounded" if promotes else "opmath")
            if how not in ("rounded", "opmath"):
                raise ExprError(f"scalars: {how!r} is neither rounded nor opmath")
            if how == "opmath":
                flags.append("INPUT_OPMATH")
        else:
            raise ExprError(f"argument {a.name} of type {a.type} in a formula")
        if promotes:
            flags.append("INPUT_PROMOTES")
        out.append((i, a.name, flags, typ))
    return out


def compile_entry(prims: Any, schema: Any, entry: dict[str, Any]) -> Any:
    flat = list(flatten(schema, entry["expr"], list(CLASSES), []))
    text_names = set()
    for _, _, text in flat:
        text_names |= set(re.findall(r"[A-Za-z_]\w*", text))
    p = Point()
    names = {a.name for a in schema.args}
    used = text_names & names
    listed = entry.get("promote", "arguments")
    if isinstance(listed, list):
        used |= set(listed)
    p.inputs = entry_inputs(schema, entry, used)
    if len(p.inputs) > 10:
        raise ExprError("too many arguments for a formula")
    p.schema, p.arms = schema, []
    promote = {
        "arguments": "PROMOTE_ARGUMENTS",
        "bool_out": "PROMOTE_ARGUMENTS",
        "float": "PROMOTE_FLOAT",
        "none": "PROMOTE_FIRST",
        "float_in_first_arm": "PROMOTE_FLOAT_FIRST_ARM",
    }.get("arguments" if isinstance(listed, list) else listed)
    if promote is None:
        raise ExprError(f"promote: {listed!r}")
    p.promote = promote
    outs = entry.get("out", "bool" if listed == "bool_out" else "common")
    p.outs = []
    for o in [outs] if isinstance(outs, str) else outs:
        if o not in OUTS and o not in DTYPES:
            raise ExprError(f"out: {o!r} is no dtype")
        p.outs.append(OUTS.get(o) or f"OUT_DTYPE + {DTYPES[o]}")
    p.refuse_bool = entry.get("refuse_bool", "")
    if entry.get("layout", "row_major") != "row_major":
        raise ExprError(f"layout: {entry['layout']!r}, expected 'row_major'")
    p.row_major = "layout" in entry
    p.name = entry.get("name", schema.name.split("::")[1])
    ones = [
        (i, a.name)
        for i, a in enumerate(schema.args)
        if a.default == "1" and a.name in text_names and a.type == "Scalar"
    ]
    for classes, conds, text in flat:
        for cls in classes:
            variants = [conds]
            if ones and len(conds) < 3 and ones[0][0] not in [c[0] for c in conds]:
                i, name = ones[0]
                variants.insert(0, conds + [(i, name, "COND_NUMBER", 1)])
            for cs in variants:
                p.arms.append(compile_arm(prims, p, cls, cs, text))
    merge(p)
    return p


def compile_arm(prims: Any, p: Any, cls: str, conds: Any, text: str) -> Any:
    if len(conds) > 3:
        raise ExprError("more than three conditions")
    known = {
        name: value for _, name, kind, value in conds if kind in ("COND_NUMBER", "COND_HALVES")
    }
    comp = Compiler(prims, [(name, typ) for _, name, _, typ in p.inputs], cls, known)
    results = []
    for r, out in zip(comp.run(text), p.outs + ["?"] * 9, strict=False):
        if out == "?":
            raise ExprError(f"more results than the {len(p.outs)} of `out`")
        if r.type == "w":
            r = comp.const(r.value, comp.k)
        results.append(r)
    if len(results) != len(p.outs) or len(results) > 2:
        raise ExprError(f"{len(results)} results for {len(p.outs)} of `out` (at most 2)")
    arm = Arm([cls], conds)
    numbers = {i for i, (_, _, flags, _) in enumerate(p.inputs) if "INPUT_SCALAR" in flags}
    allocate(arm, comp, len(p.inputs), numbers, results)
    return arm


def shape(arm: Any) -> tuple:
    return (
        arm.conds,
        [(n.op, n.itype, n.reg, [a.reg for a in n.args], n.aux) for n in arm.instrs],
        [(repr(c.value), c.type) for c in arm.consts],
        [(r.reg, r.type) for r in arm.results],
    )


def merge(p: Any) -> None:
    """Merge equal tapes into one arm of several classes, as long as each class keeps its order."""
    out: list[Arm] = []
    last: dict[str, int] = {}
    for arm in p.arms:
        cls = arm.classes[0]
        for i in range(last.get(cls, -1) + 1, len(out)):
            if shape(out[i]) == shape(arm):
                out[i].classes.append(cls)
                last[cls] = i
                break
        else:
            last[cls] = len(out)
            out.append(arm)
    p.arms = out


# -- Writing
# -------------------------------------------------------------------------------------------


def c_const(c: Any) -> str:
    if isinstance(c.value, str):
        return f"{{{c.value}, {SYMS[c.type]}, 0, 0}}"
    if isinstance(c.value, (bool, int)):
        return f"{{CONST_INT, {SYMS[c.type]}, INT64_C({int(c.value)}), {float(c.value)!r}}}"
    v = c.value
    text = (
        "NAN"
        if math.isnan(v)
        else ("-INFINITY" if v < 0 else "INFINITY")
        if math.isinf(v)
        else v.hex()
    )
    return f"{{CONST_FLOAT, {SYMS[c.type]}, 0, {text}}}"


def write(w: Callable[[str], object], points: Any, prims: Any, pool: Any) -> None:
    arms: list[str] = []
    instrs: list[str] = []
    consts: list[str] = []
    seen: dict[tuple, tuple[int, int]] = {}
    w("#include <math.h>\n\nconst struct point_row point_rows[] = {\n")
    for p in points:
        inputs = ", ".join(
            f"{{{i}, {' | '.join(flags) or 0}, {SYMS[typ]}}}" for i, _, flags, typ in p.inputs
        )
        w(
            f"  {{.first_arm = {len(arms)}, .n_arms = {len(p.arms)}, .n_inputs = {len(p.inputs)}, "
            f".n_results = {len(p.outs)},\n   .promote = {p.promote}, .outs = "
            f"{{{', '.join(p.outs)}}}, "
            f".row_major = {int(p.row_major)}, .name = {pool.at(p.name)}, .refuse_bool = "
            f"{pool.at(p.refuse_bool)},\n"
            f"   .inputs = {{{inputs}}}}}, /* {p.schema.full} */\n"
        )
        for arm in p.arms:
            tape = [
                f"{{TAPE_{n.op}, {SYMS[n.itype]}, {n.reg}, " + regs(n) + "}" for n in arm.instrs
            ]
            cons = [c_const(c) for c in arm.consts]
            conds = ", ".join(
                f"{{{i}, {kind}, {cond_value(kind, v, pool)}}}" for i, _, kind, v in arm.conds
            )
            key = tuple(tape), tuple(cons)
            if key not in seen:
                seen[key] = (len(instrs), len(consts))
                instrs += tape
                consts += cons
            at = seen[key]
            bits = sum(CLASS_BITS[c] for c in arm.classes)
            arms.append(
                f"  {{{bits}, {len(arm.conds)}, {len(tape)}, {len(cons)}, {arm.n_regs}, "
                f"{{{', '.join(str(r.reg) for r in arm.results)}}}, "
                f"{{{', '.join(SYMS[r.type] for r in arm.results)}}}, "
                f"{{{conds or '{0}'}}}, {at[0]}, {at[1]}}},\n"
            )
    w("  {0}\n};\nconst point_arm point_arms[] = {\n" + "".join(arms) + "  {0}\n};\n")
    w(
        "const tape_instr point_instrs[] = {\n"
        + "".join(f"  {t},\n" for t in instrs)
        + "  {0}\n};\n"
    )
    w(
        "const tape_const point_consts[] = {\n"
        + "".join(f"  {c},\n" for c in consts)
        + "  {0}\n};\n\n"
    )


def cond_value(kind: str, v: Any, pool: Any) -> Any:
    return pool.at(v) if kind == "COND_TEXT" else int(2 * v if kind == "COND_HALVES" else v or 0)


def regs(n: Node) -> str:
    r = [a.reg for a in n.args] + [0, 0, 0]
    if n.op == "CVT":
        return f"{r[0]}, {SYMS[n.aux]}, 0"
    if n.op in ("CALL1", "CALL2", "CALLZ"):
        return f"{r[0]}, {r[1]}, {n.aux}"
    return f"{r[0]}, {r[1]}, {r[2]}"
