"""The expressions of random programs: each is made for the type that it must have.  random_programs.py has the rest."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

BIG, LONG, FAR = 1200, 10, 1000.0  # of stored integers, lists and floats
INT, FLOAT, BOOL, STR = ("int",), ("float",), ("bool",), ("str",)
SCALARS = (INT, INT, INT, FLOAT, BOOL, STR, STR)
WORDS = ("", "a", "b", "ab", "key", "x,y", "Hello", "zz top", "q-r-s", "42", " pad ")
TEXT_METHODS = (
    "upper()", "lower()", "strip()", "lstrip()", "rstrip()", "swapcase()", "capitalize()", "strip('a ')", "title()",
)  # fmt: skip
CALL = re.compile(r"\b[fm]\d+\(")
Type = tuple  # ("list", T), ("dict", K, V), ("tuple", T...), ("opt", T), ("obj", i), ("named",), ("enum",)


class Function(NamedTuple):
    name: str
    params: list[tuple[str, Type]]
    n_defaults: int  # of the last parameters
    result: Type
    is_pure: bool  # writes nothing that others see
    cost: int  # statements that a call runs, at most


class Class(NamedTuple):
    name: str
    attrs: list[tuple[str, Type]]
    methods: list[Function]
    magic: set[str]


# name: (parameters after self, result, how an expression uses it)
MAGIC: dict[str, tuple[list[Type], Type, str]] = {
    "__len__": ([], INT, "len({o})"),
    "__eq__": ([INT], BOOL, "({o} == {x})"),
    "__lt__": ([INT], BOOL, "({o} < {x})"),
    "__contains__": ([STR], BOOL, "({x} in {o})"),
    "__getitem__": ([INT], STR, "{o}[{x}]"),
    "__add__": ([INT], INT, "({o} + {x})"),
    "__call__": ([STR], STR, "{o}({x})"),
    "@property": ([], INT, "{o}.prop"),
    "@staticmethod": ([INT], INT, "{C}.fixed({x})"),
}


def lst(t: Type) -> Type:
    return ("list", t)


def opt(t: Type) -> Type:
    return ("opt", t)


class Expressions:
    """One program in the making."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.census: Counter = Counter()
        self.lines: list[str] = []
        self.classes: list[Class] = []
        self.functions: list[Function] = []
        self.names = 0
        self.begin([], None)

    # -- Small things --------------------------------------------------------------------------------

    def begin(self, params: list[tuple[str, Type]], result: Type | None, may_write: bool = True, budget: int = 1000) -> None:
        """A new body."""
        self.env: dict[str, Type] = dict(params)  # what the name is here: refined where that is known
        self.fixed: set[str] = set()  # loop variables and refined ones: not assigned to
        self.frozen: list[Type] = []  # types of containers that are iterated over
        self.result, self.may_write = result, may_write
        self.indent, self.loops, self.factor, self.cost, self.budget = 1, 0, 1, 0, budget
        self.tested: set[str] = set()  # optionals that a condition may have refined

    def note(self, what: str) -> None:
        self.census[what] += 1

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    def fresh(self, prefix: str = "v") -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)
        self.cost += self.factor

    def pick(self, t: Type) -> str | None:
        """A variable of the type, or an attribute of one."""
        found = [n for n, u in self.env.items() if u == t]
        for n, u in self.env.items():
            if u[0] == "obj":
                found += [f"{n}.{a}" for a, at in self.classes[u[1]].attrs if at == t]
            elif u[0] == "tuple" and t in u[1:]:
                found += [f"{n}[{i}]" for i, ut in enumerate(u[1:]) if ut == t]
            elif u[0] == "named" and t in (INT, STR, lst(INT)):
                found.append(f"{n}.{ {INT: 'count', STR: 'label', lst(INT): 'items'}[t] }")
        return self.r.choice(found) if found else None

    def name(self, t: Type) -> str:
        """The type's text."""
        if t[0] == "list":
            return f"List[{self.name(t[1])}]"
        if t[0] == "dict":
            return f"Dict[{self.name(t[1])}, {self.name(t[2])}]"
        if t[0] == "tuple":
            return f"Tuple[{', '.join(self.name(u) for u in t[1:])}]"
        if t[0] == "opt":
            return f"Optional[{self.name(t[1])}]"
        if t[0] == "obj":
            return self.classes[t[1]].name
        return {"named": "Pair", "enum": "Color"}.get(t[0], t[0])

    def any_type(self, depth: int = 2) -> Type:
        if depth == 0 or self.chance(0.35):
            return self.r.choice(SCALARS)
        k = self.r.random()
        if k < 0.4:
            return lst(self.any_type(depth - 1) if self.chance(0.3) else self.r.choice((INT, INT, INT, STR, FLOAT, BOOL)))
        if k < 0.6:
            value = self.r.choice((INT, INT, STR, BOOL, FLOAT)) if self.chance(0.75) else lst(INT)
            return ("dict", self.r.choice((INT, STR)), value)
        if k < 0.72:
            return ("tuple", *(self.any_type(depth - 1) for _ in range(self.r.randint(1, 3))))
        if k < 0.82:
            return opt(self.r.choice((INT, STR, lst(INT))))
        if k < 0.94 and self.classes:
            return ("obj", self.r.randrange(len(self.classes)))
        return self.r.choice((("named",), ("enum",), INT))

    # -- Expressions ---------------------------------------------------------------------------------
    # Each is made by a method that returns its text; numbers, texts and lists also say how large they can be.

    def expr(self, t: Type, depth: int = 2) -> str:
        """Any expression of the type, as large as variables may be."""
        if t == INT:
            return self.small_int(depth)
        if t == FLOAT:
            return self.small_float(depth)
        if t == STR:
            text, size = self.text(depth)
            return text if size <= 24 else f"({text})[:24]"
        if t == BOOL:
            return self.truth(depth)
        if t[0] == "list":
            text, size = self.items(t, depth)
            return text if size <= LONG else f"({text})[:{LONG}]"
        if depth > 0 and self.chance(0.2):
            call = self.call(t, depth)
            if call:
                return call
        if depth > 0 and t[0] != "opt" and self.chance(0.08):
            self.note("conditional expression")
            return f"({self.expr(t, depth - 1)} if {self.truth(depth - 1)} else {self.expr(t, depth - 1)})"
        return getattr(self, "make_" + t[0])(t, depth)

    def or_variable(self, t: Type, p: float = 0.7) -> str | None:
        return self.pick(t) if self.chance(p) else None

    def make_dict(self, t: Type, depth: int) -> str:
        v = self.or_variable(t)
        if v:
            return v
        k = self.r.random()
        if k < 0.25 and depth > 0:
            self.note("dict comprehension")
            x = self.fresh("x")
            source = f"range({self.r.randint(0, 4)})"
            with_x = {"int": x, "str": f"str({x})"}[t[1][0]]
            return f"{{{with_x}: {self.with_name(x, INT, lambda: self.expr(t[2], depth - 1))} for {x} in {source}}}"
        v = self.pick(t)
        if v and k < 0.5:
            self.note("dict copy")
            return f"dict({v})" if self.chance(0.5) else f"{v}.copy()"
        self.note("dict display")
        keys = self.r.sample(range(7), 2) if t[1] == INT else [repr(w) for w in self.r.sample(WORDS, 2)]
        return "{" + ", ".join(f"{key}: {self.expr(t[2], depth - 1)}" for key in keys) + "}"

    def make_tuple(self, t: Type, depth: int) -> str:
        v = self.or_variable(t, 0.4)
        if v:
            return v
        self.note("tuple display")
        return "(" + ", ".join(self.expr(u, depth - 1) for u in t[1:]) + ("," if len(t) == 2 else "") + ")"

    def make_opt(self, t: Type, depth: int) -> str:
        k = self.r.random()
        v = self.pick(t)
        if v and k < 0.5:
            return v
        if t[1] != lst(INT) and k < 0.7:
            for n, u in self.env.items():
                if u[0] == "dict" and u[2] == t[1]:
                    self.note("dict get")
                    return f"{n}.get({self.key(u[1], depth - 1)})"
        self.note("optional from conditional expression")
        return f"({self.expr(t[1], depth - 1)} if {self.truth(depth - 1)} else None)"

    def make_obj(self, t: Type, depth: int) -> str:
        v = self.or_variable(t, 0.85)
        if v:
            return v
        c = self.classes[t[1]]
        self.note("object made")
        return f"{c.name}({', '.join(self.expr(at, min(depth - 1, 1)) for _, at in c.attrs)})"

    def make_named(self, t: Type, depth: int) -> str:
        v = self.or_variable(t)
        if v:
            return v
        self.note("named tuple made")
        a = [self.expr(u, depth - 1) for u in (INT, STR, lst(INT))]
        return f"Pair({a[0]}, {a[1]}, {a[2]})" if self.chance(0.6) else f"Pair(count={a[0]}, label={a[1]}, items={a[2]})"

    def make_enum(self, t: Type, depth: int) -> str:
        v = self.or_variable(t)
        if v:
            return v
        self.note("enum member")
        return self.r.choice(("Color.RED", "Color.GREEN", "Color.BLUE"))

    def with_name(self, name: str, t: Type, make: Callable[[], str]) -> str:
        self.env[name] = t
        self.fixed.add(name)
        text = make()
        del self.env[name]
        return text

    def key(self, t: Type, depth: int) -> str:
        """Of a small set, so that dicts stay small and keys are found."""
        if t == INT:
            return f"{self.small_int(0)} % 7" if self.chance(0.6) else str(self.r.randrange(7))
        return repr(self.r.choice(WORDS)) if self.chance(0.6) else f"{self.expr(STR, depth)}[:1]"

    def call(self, t: Type, depth: int, pure: bool = False) -> str | None:
        """A call of a function or method that gives a t."""
        found: list[tuple[str, Function]] = [("", f) for f in self.functions]
        for n, u in self.env.items():
            if u[0] == "obj":
                found += [(n + ".", m) for m in self.classes[u[1]].methods]
        found = [(p, f) for p, f in found if f.result == t and self.may_call(f) and (f.is_pure or not pure)]
        if not found:
            return None
        prefix, f = self.r.choice(found)
        self.cost += self.factor * f.cost
        self.note("method call" if prefix else "function call")
        n = len(f.params) - (self.r.randint(0, f.n_defaults) if f.n_defaults and not (prefix and "self" in self.env) else 0)
        args = [self.expr(pt, depth - 1) for _, pt in f.params[:n]]
        if n > 1 and self.chance(0.25):
            self.note("keyword argument")
            args[-1] = f"{f.params[n - 1][0]}={args[-1]}"
        return f"{prefix}{f.name}({', '.join(args)})"

    def may_call(self, f: Function) -> bool:
        if not f.is_pure and (not self.may_write or self.frozen):
            return False
        return self.cost + self.factor * f.cost <= self.budget

    def whole(self, depth: int) -> tuple[str, int]:
        """An integer and a bound."""
        special = self.magic(INT, depth) if depth > 0 and self.chance(0.12) else None
        if special:
            return special, BIG
        if depth <= 0 or self.chance(0.25):
            v = self.pick(INT)
            if v and self.chance(0.75):
                return v, BIG
            n = self.r.choice((0, 1, 2, 3, 5, 7, 10, 100, -1, -4))
            return (str(n), abs(n)) if n >= 0 else (f"({n})", -n)
        return self.r.choice(
            (
                self.int_pair,
                self.int_pair,
                self.int_flat,
                self.int_from,
                self.int_from,
                self.int_choice,
                self.int_item,
                self.int_bits,
            )
        )(depth)

    def small_int(self, depth: int) -> str:
        text, bound = self.whole(depth)
        if bound <= BIG:
            return text
        if CALL.search(text):  # PyTorch evaluates the left side of % twice
            return f"(({text}) & {self.r.choice((63, 127, 511))})"
        return f"({text}) % {self.r.choice((97, 1009, 512, 10))}"

    def int_pair(self, depth: int) -> tuple[str, int]:
        op = self.r.choice("+-*+-*/%")
        a, n = self.whole(depth - 1 if op != "%" else 0)
        if op in "/%":
            self.note("integer " + ("//" if op == "/" else op))
            by = str(self.r.choice((1, 2, 3, 7, -2, -5))) if self.chance(0.7) else f"(abs({self.whole(0)[0]}) + 1)"
            return f"({a} {op * (2 if op == '/' else 1)} {by})", max(n, BIG + 1)
        b, m = self.whole(depth - 1)
        if op == "*" and n * m > 2**50:
            op = "-"
        self.note(f"integer {op}")
        return f"({a} {op} {b})", n * m if op == "*" else n + m

    def int_flat(self, depth: int) -> tuple[str, int]:
        """Without parentheses: precedence and associativity."""
        a = [self.whole(0)[0] for _ in range(4)]
        form = self.r.choice(
            (
                "{} - {} - {} + {}",
                "{} + {} * {} - {}",
                "{} * {} % 7 - {} * {}",
                "-{} + {} // 3 * {} - {}",
                "{} - {} % 5 - {} // -4 + {}",
                "{} * -{} + {} * {}",
            )
        )
        self.note("integers without parentheses")
        return "(" + form.format(*a) + ")", 2 * BIG * BIG + 2 * BIG

    def int_from(self, depth: int) -> tuple[str, int]:
        k = self.r.randrange(12)
        self.note(
            "integer from "
            + (
                "len",
                "call",
                "int(bool)",
                "int(float)",
                "find",
                "sum",
                "min max",
                "abs",
                "ord",
                "floor",
                "enum value",
                "int(text)",
            )[k]
        )
        if k == 0:
            t = self.r.choice((STR, lst(INT), lst(STR), ("dict", INT, INT), ("dict", STR, INT)))
            v = self.pick(t)
            return (f"len({v or self.expr(STR, depth - 1)})"), 64
        if k == 1:
            call = self.magic(INT, depth) if self.chance(0.4) else self.call(INT, depth)
            return (call, BIG) if call else self.whole(0)
        if k == 2:
            return f"int({self.truth(depth - 1)})", 1
        if k == 3:
            return f"int({self.small_float(depth - 1)})", BIG
        if k == 4:
            method = self.r.choice(("find", "rfind", "count"))
            return f"{self.expr(STR, 0)}.{method}({self.r.choice(WORDS[1:])!r})", 24
        if k == 5:
            return f"sum({self.expr(lst(INT), depth - 1)})", LONG * BIG
        if k == 6:
            return f"{self.r.choice(('min', 'max'))}({self.small_int(depth - 1)}, {self.small_int(depth - 1)})", BIG
        if k == 7:
            a, n = self.whole(depth - 1)
            return f"abs({a})", n
        if k == 8:
            return f"ord(({self.expr(STR, depth - 1)} + 'k')[0])", 256
        if k == 9:
            return f"math.{self.r.choice(('floor', 'ceil'))}({self.small_float(depth - 1)})", BIG
        if k == 10:
            return f"{self.expr(('enum',), 0)}.value", 5
        return f"int(str({self.small_int(depth - 1)}))", BIG

    def int_choice(self, depth: int) -> tuple[str, int]:
        self.note("conditional expression")
        a, n = self.whole(depth - 1)
        b, m = self.whole(depth - 1)
        return f"({a} if {self.truth(depth - 1)} else {b})", max(n, m)

    def int_item(self, depth: int) -> tuple[str, int]:
        text = self.item_of(INT, depth)
        return (text, BIG) if text else self.whole(0)

    def int_bits(self, depth: int) -> tuple[str, int]:
        op = self.r.choice(("&", "|", "^", "<<", ">>"))
        self.note("bits")
        a, n = self.whole(depth - 1)
        if op == "<<":
            return f"({self.small_int(0)} << {self.r.randint(0, 6)})", BIG * 64
        if op == ">>":
            return f"({a} >> {self.r.randint(0, 6)})", n
        b, m = self.whole(depth - 1)
        return f"({a} {op} {b})", 2 * max(n, m, 1)

    def item_of(self, t: Type, depth: int) -> str | None:
        """An element of some container, or something else where it has none."""

        def other() -> str:
            return self.expr(t, 0)

        v = self.pick(lst(t))
        if v and self.chance(0.6):
            self.note("list item")
            i = self.r.choice(
                (f"{self.small_int(0)} % len({v})", "0", "-1", f"-1 - abs({self.small_int(0)}) % len({v})", f"len({v}) - 1")
            )
            return f"({v}[{i}] if len({v}) > 0 else {other()})"
        for n, u in self.env.items():
            if u[0] == "dict" and u[2] == t and self.chance(0.7):
                if self.chance(0.5):
                    self.note("dict get")
                    return f"{n}.get({self.key(u[1], depth - 1)}, {other()})"
                self.note("dict item")
                k = self.key(u[1], 0)
                return f"({n}[{k}] if {k} in {n} else {other()})"
        return None

    def number(self, depth: int) -> tuple[str, float]:
        """A float and a bound."""
        if depth <= 0 or self.chance(0.3):
            v = self.pick(FLOAT)
            if v and self.chance(0.7):
                return v, FAR
            return self.r.choice(("0.5", "1.25", "2.0", "3.75", "10.0", "0.1", "1e-3", "(-1.5)")), 10.0
        k = self.r.randrange(9)
        a, n = self.number(depth - 1)
        if k < 3:
            b, m = self.number(depth - 1)
            op = self.r.choice("+-*")
            if op == "*" and n * m > 1e200:
                op = "+"
            self.note(f"float {op}")
            return f"({a} {op} {b})", n * m if op == "*" else n + m
        if k == 3:
            self.note("float /")
            b, _ = self.number(depth - 1)
            return f"({a} / (abs({b}) + 0.5))", n * 2
        if k == 4:
            self.note("float mixed with integer")
            i = self.small_int(depth - 1)
            return self.r.choice((f"({a} + {i})", f"({i} - {a})")), n + BIG
        if k == 5:
            self.note("math function")
            f = self.r.choice(
                (
                    "sin({})",
                    "cos({})",
                    "tanh({})",
                    "atan({})",
                    "exp(math.sin({}))",
                    "sqrt(abs({}))",
                    "log(abs({}) + 1.0)",
                    "fabs({})",
                )
            )
            return "math." + f.format(a), max(n, 3.0)
        if k == 6:
            self.note("float from integer")
            return (
                (f"float({self.small_int(depth - 1)})", BIG)
                if self.chance(0.5)
                else (f"({self.small_int(depth - 1)} / {self.r.choice((2, 3, 8))})", BIG)
            )
        if k == 7:
            text = self.item_of(FLOAT, depth)
            return (text, FAR) if text else (a, n)
        call = self.call(FLOAT, depth)
        return (call, FAR) if call else (f"({a} if {self.truth(depth - 1)} else {self.number(0)[0]})", max(n, FAR))

    def small_float(self, depth: int) -> str:
        text, bound = self.number(depth)
        return text if bound <= FAR else f"math.fmod({text}, {self.r.choice(('64.0', '7.5', '1000.0'))})"

    def text(self, depth: int) -> tuple[str, int]:
        special = self.magic(STR, depth) if depth > 0 and self.chance(0.12) else None
        if special:
            return special, 24
        if depth <= 0 or self.chance(0.25):
            v = self.pick(STR)
            return (v, 24) if v and self.chance(0.7) else (repr(self.r.choice(WORDS)), 6)
        k = self.r.randrange(13)
        s = self.expr(STR, depth - 1)
        if k == 0:
            self.note("text +")
            return f"({s} + {self.expr(STR, depth - 1)})", 48
        if k == 1:
            self.note("text slice")
            return f"({s})[{self.slice()}]", 24
        if k == 2:
            self.note("text method")
            return f"{s}.{self.r.choice(TEXT_METHODS)}", 24
        if k == 3:
            self.note("text method")
            return f"{s}.replace({self.r.choice(('a', 'b', 'x,', 'll'))!r}, {self.r.choice(WORDS)!r})", 200
        if k == 4:
            self.note("f-string")
            parts = [self.printable(depth - 1) for _ in range(self.r.randint(1, 3))]
            parts = [p for p in parts if "'" not in p and '"' not in p and "\\" not in p and "{" not in p] or ["1"]
            return 'f"' + self.r.choice(("", "<", "n=")) + self.r.choice(("", " ", ":")).join(
                "{" + p + "}" for p in parts
            ) + '"', 100
        if k == 5:
            self.note("format")
            return f"'{{}}-{{}}'.format({self.printable(depth - 1)}, {self.printable(depth - 1)})", 80
        if k == 6:
            self.note("percent format")
            return f"('%d:%s' % ({self.small_int(depth - 1)}, {self.expr(STR, 0)}))", 40
        if k == 7:
            self.note("join")
            return f"{self.r.choice(WORDS)!r}.join({self.expr(lst(STR), depth - 1)})", 400
        if k == 8:
            self.note("text of a number")
            return f"{self.r.choice(('str', 'str', 'hex', 'oct', 'bin'))}({self.small_int(depth - 1)})", 14
        if k == 9:
            self.note("chr")
            return f"chr(97 + {self.small_int(0)} % 26)", 1
        if k == 10:
            self.note("text method")
            return f"{s}.{self.r.choice(('ljust', 'rjust', 'center'))}({self.r.randint(0, 8)})", 24
        text = self.item_of(STR, depth) if k == 11 else self.magic(STR, depth) if self.chance(0.5) else self.call(STR, depth)
        return (text, 24) if text else (s, 24)

    def slice(self) -> str:
        def part() -> str:
            return "" if self.chance(0.35) else str(self.r.randint(-5, 8)) if self.chance(0.7) else self.small_int(0)

        step = "" if self.chance(0.7) else f":{self.r.choice((1, 2, 3))}"
        return f"{part()}:{part()}{step}"

    def printable(self, depth: int) -> str:
        """What prints the same everywhere."""
        t = self.r.choice((INT, INT, BOOL, STR, STR, lst(INT), lst(BOOL), ("tuple", INT, BOOL), opt(INT), ("dict", INT, INT)))
        return self.expr(t, depth)

    def truth(self, depth: int) -> str:
        special = self.magic(BOOL, depth) if depth > 0 and self.chance(0.12) else None
        if special:
            return special
        if depth <= 0 or self.chance(0.15):
            v = self.pick(BOOL)
            if v and self.chance(0.6):
                return v
            a, b = self.whole(0)[0], self.whole(0)[0]
            if a == b:
                b = str(self.r.randint(0, 9))
            return f"({a} {self.r.choice(('<', '>', '==', '!='))} {b})"
        k = self.r.randrange(12)
        if k < 2:
            op = self.r.choice(("and", "or"))
            self.note(op)
            return f"({self.truth(depth - 1)} {op} {self.truth(depth - 1)})"
        if k == 2:
            self.note("not")
            return f"(not {self.truth(depth - 1)})"
        if k == 3:
            self.note("comparison chain")
            first, second = self.r.choice(("<", "<=")), self.r.choice(("<", ">=", "=="))
            return f"({self.small_int(0)} {first} {self.small_int(0)} {second} {self.small_int(0)})"
        if k == 4:
            return self.membership(depth)
        if k == 5:
            t = self.r.choice((lst(INT), lst(STR), STR, lst(BOOL), ("enum",), BOOL))
            op = self.r.choice(("==", "!=")) if t != STR else self.r.choice(("==", "!=", "<", "<=", ">", ">="))
            self.note(f"comparison of {t[0]}")
            return f"({self.expr(t, depth - 1)} {op} {self.expr(t, depth - 1)})"
        if k == 6:
            for n, u in self.env.items():
                if u[0] == "opt" and self.chance(0.6):
                    self.note("refinement in an expression")
                    self.tested.add(n)
                    if u[1] == INT:
                        return self.r.choice(
                            (f"({n} is not None and {n} > {self.small_int(0)})", f"({n} is None or {n} % 3 == 1)")
                        )
                    return f"({n} {self.r.choice(('is', 'is not'))} None)"
        if k == 7:
            self.note("text test")
            # A variable or literal: PyTorch evaluates a receiver twice in a condition.
            return f"{self.text(0)[0]}.{self.r.choice(('startswith', 'endswith'))}({self.expr(STR, depth - 1)})"
        if k == 8:
            call = self.magic(BOOL, depth) if self.chance(0.6) else self.call(BOOL, depth)
            if call:
                return call
        if k == 9:
            t = self.r.choice((INT, FLOAT))
            self.note(f"bool({t[0]})")
            return f"bool({self.expr(t, depth - 1)})"
        if k == 10:
            self.note("comparison of float")
            return (
                f"({self.number(depth - 1)[0]} {self.r.choice(('<', '<=', '>', '>=', '==', '!='))} {self.number(depth - 1)[0]})"
            )
        self.note("comparison of int")
        return f"({self.whole(depth - 1)[0]} {self.r.choice(('<', '<=', '>', '>=', '==', '!='))} {self.whole(depth - 1)[0]})"

    def magic(self, t: Type, depth: int) -> str | None:
        """By a special method of some object."""
        found = []
        for n, u in self.env.items():
            if u[0] == "obj" and n != "self":
                found += [(n, self.classes[u[1]].name, m) for m in sorted(self.classes[u[1]].magic) if MAGIC[m][1] == t]
        if not found:
            return None
        n, c, m = self.r.choice(found)
        self.note(m)
        params, _, use = MAGIC[m]
        return use.format(o=n, C=c, x=self.expr(params[0], depth - 1) if params else "")

    def membership(self, depth: int) -> str:
        op = self.r.choice(("in", "not in"))
        for n, u in self.env.items():
            if u[0] == "dict" and self.chance(0.5):
                self.note("in dict")
                return f"({self.key(u[1], depth - 1)} {op} {n})"
        t = self.r.choice((INT, STR))
        self.note("in list")
        return f"({self.expr(t, depth - 1)} {op} {self.expr(lst(t), depth - 1)})"

    def items(self, t: Type, depth: int) -> tuple[str, int]:
        """A list and a bound of its length."""
        v = self.pick(t)
        if v and (depth <= 0 or self.chance(0.4)):
            return v, LONG
        k = self.r.randrange(11)
        if k == 0 and depth > 0:
            a, n = self.items(t, depth - 1)
            b, m = self.items(t, depth - 1)
            self.note("list +")
            return f"({a} + {b})", n + m
        if k == 1 and v:
            self.note("list slice")
            return f"{v}[{self.slice()}]", LONG
        if k == 2 and v:
            self.note("list copy")
            return self.r.choice((f"list({v})", f"{v}.copy()")), LONG
        if k in (3, 4) and depth > 0:
            return self.comprehension(t, depth)
        if k == 5 and t[1] in (INT, STR, FLOAT) and depth > 0:
            a, n = self.items(t, depth - 1)
            self.note("sorted")
            return f"sorted({a})", n
        if k == 6 and depth > 0:
            self.note("list *")
            n = self.r.randint(0, 3)
            return self.r.choice((f"([{self.expr(t[1], depth - 1)}] * {n})", f"({n} * [{self.expr(t[1], depth - 1)}])")), n
        if k == 7 and t == lst(STR) and depth > 0:
            self.note("split")
            return self.r.choice(
                (f"{self.expr(STR, depth - 1)}.split({self.r.choice((',', 'a', '-'))!r})", f"list({self.expr(STR, depth - 1)})")
            ), 24
        if k == 7 and t == lst(INT):
            self.note("list(range)")
            return f"list(range({self.r.randint(0, 5)}))", 5
        if k == 8 and depth > 0:
            for n, u in self.env.items():
                if u[0] == "dict" and u[1] == t[1] or u[0] == "dict" and u[2] == t[1]:
                    self.note("keys and values")
                    return f"list({n}.{'keys' if u[1] == t[1] else 'values'}())", 64
        if k == 9 and depth > 0:
            call = self.call(t, depth)
            if call:
                return call, LONG
        if k == 10 and depth > 0:
            text = self.item_of(t, depth)
            if text:
                return text, LONG
        n = self.r.randint(1, 4)
        self.note("list display")
        return "[" + ", ".join(self.expr(t[1], depth - 1) for _ in range(n)) + "]", n

    def comprehension(self, t: Type, depth: int) -> tuple[str, int]:
        self.note("list comprehension")
        x = self.fresh("x")
        if self.chance(0.5):
            source, u, n = f"range({self.r.randint(0, 6)})", INT, 6
        else:
            u = self.r.choice((INT, STR))
            v = self.pick(lst(u))
            source, n = v or self.expr(lst(u), 0), LONG
        self.frozen.append(lst(u))  # a call in the element may not write to it
        text = self.with_name(x, u, lambda: self.expr(t[1], depth - 1))
        self.frozen.pop()
        return f"[{text} for {x} in {source}]", n
