"""The expressions of random programs: each is made for the type that it must have.
random_programs.py has the rest."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

BIG, LONG, FAR = 1200, 10, 1000.0  # of stored integers, lists and floats
INT, FLOAT, BOOL, STR = ("int",), ("float",), ("bool",), ("str",)
SCALARS = (INT, INT, INT, FLOAT, BOOL, STR, STR)
WORDS = ("", "a", "b", "ab", "key", "x,y", "Hello", "zz top", "q-r-s", "42", " pad ")
TEXT_METHODS = (
    "upper()", "lower()", "strip()", "lstrip()", "rstrip()", "swapcase()", "capitalize()",
    "strip('a ')", "title()",
)  # fmt: skip
TEXT_TESTS = (
    "isdigit()",
    "isalpha()",
    "isalnum()",
    "isupper()",
    "islower()",
    "isspace()",
    "istitle()",
    "isprintable()",
)
# ("list", T), ("dict", K, V), ("tuple", T...), ("opt", T), ("obj", i), ("named",), ("record", i),
# ("enum",), ("union",), ("none",) of what returns nothing
Type = tuple
UNION = (INT, STR, ("list", INT))  # what ("union",) may be


class Function(NamedTuple):
    name: str
    params: list[tuple[str, Type]]
    n_defaults: int  # of the last parameters
    result: Type
    is_pure: bool  # writes nothing that others see
    cost: int  # statements that a call runs, at most
    keyword_only: bool = False  # the last parameter


class Record(NamedTuple):
    """A NamedTuple of the program's own."""

    name: str
    fields: list[tuple[str, Type]]
    n_defaults: int


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
    "__sub__": ([INT], INT, "({o} - {x})"),
    "__mul__": ([INT], INT, "({o} * {x})"),
    "__mod__": ([INT], INT, "({o} % {x})"),
    "__neg__": ([], INT, "(-{o})"),
    "__and__": ([INT], INT, "({o} & {x})"),
    "__ne__": ([INT], BOOL, "({o} != {x})"),
    "__le__": ([INT], BOOL, "({o} <= {x})"),
    "__ge__": ([INT], BOOL, "({o} >= {x})"),
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
        self.records: list[Record] = []
        self.names = self.effects = 0  # effects: calls, which may print or write
        self.begin([], None)

    # -- Small things
    # --------------------------------------------------------------------------------

    def begin(
        self,
        params: list[tuple[str, Type]],
        result: Type | None,
        may_write: bool = True,
        budget: int = 1000,
    ) -> None:
        """A new body."""
        self.env: dict[str, Type] = dict(
            params
        )  # what the name is here: refined where that is known
        self.fixed: set[str] = set()  # loop variables and refined ones: not assigned to
        self.frozen: list[Type] = []  # types of containers that are iterated over
        self.result, self.may_write, self.is_procedure = result, may_write, False
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
        """A variable of the type, or a part of one."""
        found = [n for n, u in self.env.items() if u == t]
        for n, u in self.env.items():
            found += [p for p, pt in self.parts(n, u) if pt == t]
        return self.r.choice(found) if found else None

    def parts(self, n: str, u: Type, depth: int = 2) -> list[tuple[str, Type]]:
        """Attributes, fields and items of a variable."""
        found: list[tuple[str, Type]] = []
        if u[0] == "obj":
            found = [(f"{n}.{a}", at) for a, at in self.classes[u[1]].attrs]
            if "@setter" in self.classes[u[1]].magic and n != "self":
                found.append((f"{n}.level", INT))
        elif u[0] == "record":
            found = [(f"{n}.{a}", at) for a, at in self.records[u[1]].fields]
            found += [(f"{n}[{i}]", at) for i, (_, at) in enumerate(self.records[u[1]].fields)]
        elif u[0] == "tuple":
            found = [(f"{n}[{i}]", ut) for i, ut in enumerate(u[1:])]
        elif u[0] == "named":
            found = [(f"{n}.count", INT), (f"{n}.label", STR), (f"{n}.items", lst(INT))]
        elif u[0] == "enum":
            found = [(f"{n}.name", STR), (f"{n}.value", INT)]
        if depth > 1:
            found += [
                x
                for p, pt in found
                if pt[0] in ("obj", "record", "tuple")
                for x in self.parts(p, pt, depth - 1)
            ]
        return found

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
        if t[0] == "record":
            return self.records[t[1]].name
        names = {
            "named": "Pair",
            "enum": "Color",
            "union": "Union[int, str, List[int]]",
            "none": "None",
        }
        return names.get(t[0], t[0])

    def any_type(self, depth: int = 2) -> Type:
        if depth == 0 or self.chance(0.35):
            return self.r.choice(SCALARS)
        k = self.r.random()
        if k < 0.04:
            return lst(lst(INT))
        if k < 0.4:
            return lst(
                self.any_type(depth - 1)
                if self.chance(0.3)
                else self.r.choice((INT, INT, INT, STR, FLOAT, BOOL))
            )
        if k < 0.6:
            value = self.r.choice((INT, INT, STR, BOOL, FLOAT)) if self.chance(0.75) else lst(INT)
            return (
                "dict",
                self.r.choice((INT, INT, STR, STR, BOOL)),
                value if self.chance(0.9) else opt(INT),
            )
        if k < 0.72:
            return ("tuple", *(self.any_type(depth - 1) for _ in range(self.r.randint(1, 3))))
        if k < 0.82:
            of = self.r.choice((INT, STR, lst(INT), FLOAT, ("tuple", INT, opt(STR))))
            return opt(of if self.chance(0.85) else self.any_object())
        if k < 0.94 and self.classes:
            return ("obj", self.r.randrange(len(self.classes)))
        if self.records and self.chance(0.5):
            return ("record", self.r.randrange(len(self.records)))
        return self.r.choice((("named",), ("enum",), INT, lst(opt(INT)), lst(("tuple", INT, STR))))

    def holds_optionals(self, t: Type) -> bool:
        """What TorchScript would infer of an expression may be narrower."""
        return t[0] == "opt" or any(isinstance(u, tuple) and self.holds_optionals(u) for u in t[1:])

    def any_object(self) -> Type:
        return ("obj", self.r.randrange(len(self.classes))) if self.classes else ("named",)

    # -- Expressions
    # --------------------------------------------------------------------------------- Each is made
    # by a method that returns its text; numbers, texts and lists also say how large they can be.

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
        if depth > 0 and t[0] not in ("opt", "union") and self.chance(0.08):
            self.note("conditional expression")
            return (
                f"({self.expr(t, depth - 1)} if {self.truth(depth - 1)} else "
                f"{self.expr(t, depth - 1)})"
            )
        return getattr(self, "make_" + t[0])(t, depth)

    def or_variable(self, t: Type, p: float = 0.7) -> str | None:
        return self.pick(t) if self.chance(p) else None

    def annotated(self, t: Type, text: str) -> str:
        """A display of optionals would be of what they are refined to."""
        if text[0] not in "[{" or not self.holds_optionals(t):
            return text
        self.note("torch.jit.annotate")
        return f"torch.jit.annotate({self.name(t)}, {text})"

    def make_dict(self, t: Type, depth: int) -> str:
        return self.annotated(t, self.dict_of(t, depth))

    def dict_of(self, t: Type, depth: int) -> str:
        v = self.or_variable(t)
        if v:
            return v
        k = self.r.random()
        if k < 0.25 and depth > 0:
            self.note("dict comprehension")
            return self.dict_comprehension(t, depth)
        v = self.pick(t)
        if v and k < 0.5:
            self.note("dict copy")
            return f"dict({v})" if self.chance(0.5) else f"{v}.copy()"
        if k > 0.9 and depth > 0 and t[1] in (INT, STR) and not self.holds_optionals(t):
            self.note("dict from pairs")
            keys = [self.key(t[1], 0) for _ in range(2)]
            if self.chance(0.5):
                return f"dict(zip([{', '.join(keys)}], {self.expr(lst(t[2]), depth - 1)}))"
            # of what has no effects: PyTorch evaluates the pairs twice
            return "dict([" + ", ".join(f"({key}, {self.expr(t[2], 0)})" for key in keys) + "])"
        self.note("dict display")
        keys = {
            INT: self.r.sample(range(7), 2),
            STR: [repr(w) for w in self.r.sample(WORDS, 2)],
            BOOL: [True, False],
        }[t[1]]
        return "{" + ", ".join(f"{key}: {self.expr(t[2], depth - 1)}" for key in keys) + "}"

    def dict_comprehension(self, t: Type, depth: int) -> str:
        x, y = self.fresh("x"), self.fresh("x")
        as_key = {INT: "{} % 7", STR: "str({})", BOOL: "({} > 1)"}[t[1]]
        k, d = (
            self.r.randrange(3),
            next(((n, u) for n, u in self.env.items() if u[0] == "dict" and u[2] == INT), None),
        )
        if k == 0 and d:
            self.frozen.append(d[1])  # a call in the element may not write to it
            value = self.with_name(y, INT, lambda: self.expr(t[2], depth - 1))
            self.frozen.pop()
            return f"{{{as_key.format(y)}: {value} for {x}, {y} in {d[0]}.items()}}"
        value = self.with_name(x, INT, lambda: self.expr(t[2], depth - 1))
        if k == 1:
            return (
                f"{{{as_key.format(y)}: {value} for {y}, {x} in "
                f"enumerate([{self.small_int(0)}, {self.small_int(0)}])}}"
            )
        return f"{{{as_key.format(x)}: {value} for {x} in range({self.r.randint(0, 4)})}}"

    def make_tuple(self, t: Type, depth: int) -> str:
        v = self.or_variable(t, 0.4)
        if v:
            return v
        if len(t) > 2 and depth > 0 and self.chance(0.15):
            self.note("tuple +")
            cut = self.r.randint(1, len(t) - 2)
            return (
                f"({self.expr(('tuple', *t[1 : cut + 1]), depth - 1)} + "
                f"{self.expr(('tuple', *t[cut + 1 :]), depth - 1)})"
            )
        longer = [
            n
            for n, u in self.env.items()
            if u[0] == "tuple" and len(u) > len(t) and u[: len(t)] == t
        ]
        if longer and self.chance(0.5):
            self.note("tuple slice")
            return f"{self.r.choice(longer)}[{self.r.choice(('', '0'))}:{len(t) - 1}]"
        self.note("tuple display")
        return (
            "("
            + ", ".join(self.expr(u, depth - 1) for u in t[1:])
            + ("," if len(t) == 2 else "")
            + ")"
        )

    def make_opt(self, t: Type, depth: int) -> str:
        k = self.r.random()
        v = self.pick(t)
        if v and k < 0.5:
            return v
        if t[1] in SCALARS and k < 0.7:
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
        return (
            f"Pair({a[0]}, {a[1]}, {a[2]})"
            if self.chance(0.6)
            else f"Pair(count={a[0]}, label={a[1]}, items={a[2]})"
        )

    def make_record(self, t: Type, depth: int) -> str:
        v = self.or_variable(t)
        if v:
            return v
        self.note("own named tuple made")
        record = self.records[t[1]]
        n = len(record.fields) - self.r.randint(0, record.n_defaults)
        args = [self.expr(u, depth - 1) for _, u in record.fields[:n]]
        if n and self.chance(0.4):
            i = self.r.randrange(n)
            args[i:] = [f"{f}={a}" for (f, _), a in zip(record.fields[i:n], args[i:], strict=True)]
        return f"{record.name}({', '.join(args)})"

    def make_union(self, t: Type, depth: int) -> str:
        return self.expr(self.r.choice(UNION), depth)

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
        if t == BOOL:
            return self.truth(0)
        return repr(self.r.choice(WORDS)) if self.chance(0.6) else f"{self.expr(STR, depth)}[:1]"

    def call(self, t: Type, depth: int, pure: bool = False) -> str | None:
        """Make a call of a function or method that returns a t."""
        found: list[tuple[str, Function]] = [("", f) for f in self.functions]
        for n, u in self.env.items():
            if u[0] == "obj":
                found += 2 * [(n + ".", m) for m in self.classes[u[1]].methods]
        found = [
            (p, f)
            for p, f in found
            if f.result == t and self.may_call(f) and (f.is_pure or not pure)
        ]
        if not found:
            return None
        prefix, f = self.r.choice(found)
        self.cost += self.factor * f.cost
        self.effects += 1
        self.note("method call" if prefix else "function call")
        n = len(f.params) - (
            self.r.randint(0, f.n_defaults)
            if f.n_defaults and not (prefix and "self" in self.env)
            else 0
        )
        args = [self.expr(pt, depth - 1) for _, pt in f.params[:n]]
        if f.keyword_only:
            args[-1] = f"{f.params[n - 1][0]}={args[-1]}"
        elif n > 1 and not prefix and self.chance(0.08):
            self.note("star argument")
            i = self.r.randrange(n)
            args[i:] = [f"*({', '.join(args[i:])},)"]
        elif n > 1 and self.chance(0.25):
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
        effects = self.effects
        text, bound = self.whole(depth)
        if bound <= BIG:
            return text
        if self.effects > effects:  # PyTorch evaluates the left side of % twice
            return f"(({text}) & {self.r.choice((63, 127, 511))})"
        return f"({text}) % {self.r.choice((97, 1009, 512, 10))}"

    def int_pair(self, depth: int) -> tuple[str, int]:
        op = self.r.choice("+-*+-*/%")
        a, n = self.whole(depth - 1 if op != "%" else 0)
        if op in "/%":
            self.note("integer " + ("//" if op == "/" else op))
            by = (
                str(self.r.choice((1, 2, 3, 7, -2, -5)))
                if self.chance(0.7)
                else f"(abs({self.whole(0)[0]}) + 1)"
            )
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
        k = self.r.randrange(18)
        if k >= 12:
            return self.int_from_more(k - 12, depth)
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
            return (
                f"{self.r.choice(('min', 'max'))}({self.small_int(depth - 1)}, "
                f"{self.small_int(depth - 1)})",
                BIG,
            )
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

    def int_from_more(self, k: int, depth: int) -> tuple[str, int]:
        made = (
            "min max of a list",
            "divmod",
            "gcd factorial",
            "count in a list",
            "sum of a comprehension",
            "find in a part",
        )
        self.note("integer from " + made[k])
        if k == 0:
            v = self.pick(lst(INT))
            least = (
                f"({self.r.choice(('min', 'max'))}({v}) if len({v}) > 0 else {self.whole(0)[0]})"
            )
            return (least, BIG) if v else self.whole(0)
        if k == 1:
            return (
                f"divmod({self.small_int(depth - 1)}, "
                f"{self.r.choice((2, 3, -7))})[{self.r.randrange(2)}]",
                BIG,
            )
        if k == 2:
            a = self.small_int(0)
            return self.r.choice(
                (
                    (f"math.gcd({a}, {self.small_int(0)})", BIG),
                    (f"math.factorial(abs({a}) % 7)", 720),
                )
            )
        if k == 3:
            t = self.r.choice((INT, STR))
            return f"{self.pick(lst(t)) or self.expr(lst(t), 0)}.count({self.expr(t, 0)})", LONG
        if k == 4:
            text, n = self.comprehension(lst(INT), depth)
            return f"sum({text})", n * BIG
        # PyTorch refuses a start behind the text, takes ends below 0 for others, and counts what
        # reaches over an end.
        find = (
            f"{self.r.choice(('find', 'rfind'))}({self.r.choice(WORDS[1:4])!r}, 0, "
            f"{self.r.randint(0, 9)})"
        )
        return f"{self.expr(STR, 0)}.{find}", 24

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
                (
                    f"{self.small_int(0)} % len({v})",
                    "0",
                    "-1",
                    f"-1 - abs({self.small_int(0)}) % len({v})",
                    f"len({v}) - 1",
                )
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
            return self.r.choice(
                ("0.5", "1.25", "2.0", "3.75", "10.0", "0.1", "1e-3", "(-1.5)")
            ), 10.0
        k = self.r.randrange(12)
        a, n = self.number(depth - 1)
        if k >= 9:
            return self.number_more(k - 9, a, n, depth)
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
        return (
            (call, FAR)
            if call
            else (f"({a} if {self.truth(depth - 1)} else {self.number(0)[0]})", max(n, FAR))
        )

    def number_more(self, k: int, a: str, n: float, depth: int) -> tuple[str, float]:
        if (
            k == 0
            # by powers of two: PyTorch rounds a / b before the floor, and its % is
            # fmod(fmod(a, b) + b, b)
        ):
            self.note("float //")
            return f"({a} // {self.r.choice(('2.0', '0.5', '-4.0'))})", 2 * n + 1.0
        if k == 1:
            self.note("float min max sum")
            b, m = self.number(depth - 1)
            if self.chance(0.3):
                return f"sum([{a}, {b}])", n + m
            # no -0.0: of -0.0 and 0.0 PyTorch takes the second, Python the first
            pair = f"{a} + 0.0, {b} + 0.0"
            return self.r.choice(
                (f"min({pair})", f"max([{pair}])", f"max({pair}, 0.25)")
            ), n + m + 1.0
        self.note("math function of parts")
        f = self.r.choice(
            (
                "modf({})[0]",
                "ldexp({}, 3)",
                "copysign({}, -1.0)",
                "frexp({})[0]",
                "pow(math.fabs({}), 2)",
            )
        )
        return "math." + f.format(a), 8 * n if "pow" not in f else n * n if n < 1e90 else 1e200

    def small_float(self, depth: int) -> str:
        text, bound = self.number(depth)
        return (
            text
            if bound <= FAR
            else f"math.fmod({text}, {self.r.choice(('64.0', '7.5', '1000.0'))})"
        )

    def text(self, depth: int) -> tuple[str, int]:
        special = self.magic(STR, depth) if depth > 0 and self.chance(0.12) else None
        if special:
            return special, 24
        if depth <= 0 or self.chance(0.25):
            v = self.pick(STR)
            return (v, 24) if v and self.chance(0.7) else (repr(self.r.choice(WORDS)), 6)
        k = self.r.randrange(16)
        s = self.expr(STR, depth - 1)
        if k >= 13:
            return self.text_more(k - 13, s, depth)
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
            return (
                f"{s}.replace({self.r.choice(('a', 'b', 'x,', 'll'))!r}, {self.r.choice(WORDS)!r})",
                200,
            )
        if k == 4:
            self.note("f-string")
            parts = [self.printable(depth - 1) for _ in range(self.r.randint(1, 3))]
            parts = [
                p for p in parts if "'" not in p and '"' not in p and "\\" not in p and "{" not in p
            ] or ["1"]
            return 'f"' + self.r.choice(("", "<", "n=")) + self.r.choice(("", " ", ":")).join(
                "{" + p + "}" for p in parts
            ) + '"', 100
        if k == 5:
            self.note("format")
            return (
                f"'{{}}-{{}}'.format({self.printable(depth - 1)}, {self.printable(depth - 1)})",
                80,
            )
        if k == 6:
            self.note("percent format")
            return f"('%d:%s' % ({self.small_int(depth - 1)}, {self.expr(STR, 0)}))", 40
        if k == 7:
            self.note("join")
            return f"{self.r.choice(WORDS)!r}.join({self.expr(lst(STR), depth - 1)})", 400
        if k == 8:
            self.note("text of a number")
            return (
                f"{self.r.choice(('str', 'str', 'hex', 'oct', 'bin'))}("
                f"{self.small_int(depth - 1)})",
                14,
            )
        if k == 9:
            self.note("chr")
            return f"chr(97 + {self.small_int(0)} % 26)", 1
        if k == 10:
            self.note("text method")
            return f"{s}.{self.r.choice(('ljust', 'rjust', 'center'))}({self.r.randint(0, 8)})", 24
        text = (
            self.item_of(STR, depth)
            if k == 11
            else self.magic(STR, depth)
            if self.chance(0.5)
            else self.call(STR, depth)
        )
        return (text, 24) if text else (s, 24)

    def text_more(self, k: int, s: str, depth: int) -> tuple[str, int]:
        if k == 0:
            self.note("text partition")
            how = (
                f"{self.r.choice(('partition', 'rpartition'))}("
                f"{self.r.choice((' ', 'a', '-', ':'))!r})"
            )
            return f"{s}.{how}[{self.r.randrange(3)}]", 24
        if k == 1:
            self.note("part of a split")
            how = self.r.choice(
                ("split(' ', 1)[0]", "rsplit(',', 1)[-1]", "split('a')[0]", "rsplit('-')[-1]")
            )
            return f"{s}.{how}", 24
        self.note("text padded")
        n = self.r.randint(0, 8)
        return (
            self.r.choice(
                (
                    f"{s}.ljust({n}, '*')",
                    f"{s}.rjust({n}, '.')",
                    f"str(abs({self.small_int(0)})).zfill({n})",
                )
            ),
            24,
        )  # zfill of a sign: PyTorch puts zeros before it

    def slice(self) -> str:
        def part() -> str:
            return (
                ""
                if self.chance(0.35)
                else str(self.r.randint(-5, 8))
                if self.chance(0.7)
                else self.small_int(0)
            )

        step = "" if self.chance(0.7) else f":{self.r.choice((1, 2, 3, -1, -2))}"
        return f"{part()}:{part()}{step}"

    def printable(self, depth: int) -> str:
        """What prints the same everywhere."""
        t = self.r.choice(
            (
                INT,
                INT,
                BOOL,
                STR,
                STR,
                lst(INT),
                lst(BOOL),
                ("tuple", INT, BOOL),
                opt(INT),
                ("dict", INT, INT),
            )
        )
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
        k = self.r.randrange(15)
        if k >= 12:
            return self.truth_more(k - 12, depth)
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
            op = (
                self.r.choice(("==", "!="))
                if t != STR
                else self.r.choice(("==", "!=", "<", "<=", ">", ">="))
            )
            self.note(f"comparison of {t[0]}")
            return f"({self.expr(t, depth - 1)} {op} {self.expr(t, depth - 1)})"
        if k == 6:
            for n, u in self.env.items():
                if u[0] == "opt" and self.chance(0.6):
                    self.note("refinement in an expression")
                    self.tested.add(n)
                    if u[1] == INT:
                        return self.r.choice(
                            (
                                f"({n} is not None and {n} > {self.small_int(0)})",
                                f"({n} is None or {n} % 3 == 1)",
                            )
                        )
                    return f"({n} {self.r.choice(('is', 'is not'))} None)"
        if k == 7:
            self.note("text test")
            # A variable or literal: PyTorch evaluates a receiver twice in a condition.
            return (
                f"{self.text(0)[0]}.{self.r.choice(('startswith', 'endswith'))}("
                f"{self.expr(STR, depth - 1)})"
            )
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
                f"({self.number(depth - 1)[0]} "
                f"{self.r.choice(('<', '<=', '>', '>=', '==', '!='))} {self.number(depth - 1)[0]})"
            )
        self.note("comparison of int")
        return (
            f"({self.whole(depth - 1)[0]} {self.r.choice(('<', '<=', '>', '>=', '==', '!='))} "
            f"{self.whole(depth - 1)[0]})"
        )

    def truth_more(self, k: int, depth: int) -> str:
        if k == 0:
            self.note("any all")
            v = self.pick(lst(BOOL)) or self.pick(lst(INT))
            return (
                f"{self.r.choice(('any', 'all'))}("
                f"{v or f'[{self.truth(depth - 1)}, {self.truth(depth - 1)}]'})"
            )
        if k == 1:
            self.note("test of text")
            if self.chance(0.5):
                return (
                    f"({self.expr(STR, 0)} {self.r.choice(('in', 'not in'))} "
                    f"{self.expr(STR, depth - 1)})"
                )
            return f"{self.text(0)[0]}.{self.r.choice(TEXT_TESTS)}"
        objects = [(n, u) for n, u in self.env.items() if u[0] in ("obj", "list")]
        if objects and self.chance(0.5):
            self.note("is")
            n, u = self.r.choice(objects)
            return f"({n} {self.r.choice(('is', 'is not'))} {self.pick(u)})"
        self.note("comparison of tuple")
        a = [self.small_int(0) for _ in range(4)]
        return f"(({a[0]}, {a[1]}) {self.r.choice(('==', '!='))} ({a[2]}, {a[3]}))"

    def magic(self, t: Type, depth: int) -> str | None:
        """By a special method of some object."""
        found = []
        for n, u in self.env.items():
            if u[0] == "obj" and n != "self":
                found += [
                    (n, self.classes[u[1]].name, m)
                    for m in MAGIC
                    if m in self.classes[u[1]].magic and MAGIC[m][1] == t
                ]
        if not found:
            return None
        n, c, m = self.r.choice(found)
        self.effects += 1
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
        text, n = self.items_of(t, depth)
        return self.annotated(t, text), n

    def items_of(self, t: Type, depth: int) -> tuple[str, int]:
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
        if k == 5 and t[1] in (INT, STR, FLOAT, BOOL, ("tuple", INT, STR)) and depth > 0:
            a, n = self.items(t, depth - 1)
            self.note("sorted")
            return f"sorted({a})", n
        if k == 6 and depth > 0 and not self.holds_optionals(t):
            self.note("list *")
            n = self.r.randint(0, 3)
            return self.r.choice(
                (
                    f"([{self.expr(t[1], depth - 1)}] * {n})",
                    f"({n} * [{self.expr(t[1], depth - 1)}])",
                )
            ), n
        if k == 7 and t == lst(STR) and depth > 0:
            self.note("split")
            return self.r.choice(
                (
                    f"{self.expr(STR, depth - 1)}.split({self.r.choice((',', 'a', '-'))!r})",
                    f"list({self.expr(STR, depth - 1)})",
                )
            ), 24
        if k == 7 and t == lst(INT):
            self.note("list(range)")
            return f"list(range({self.r.randint(0, 5)}))", 5
        if k == 7 and t[1][0] == "tuple" and len(t[1]) == 3 and depth > 0:
            return self.pairs(t, depth)
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

    def pairs(self, t: Type, depth: int) -> tuple[str, int]:
        _, a, b = t[1]
        found = [n for n, u in self.env.items() if u == ("dict", a, b)]
        if found:
            self.note("list of items()")
            return f"list({found[0]}.items())", 64
        if a == INT and self.chance(0.5):
            self.note("list of enumerate()")
            return f"list(enumerate({self.expr(lst(b), depth - 1)}))", LONG
        self.note("list of zip()")
        return f"list(zip({self.expr(lst(a), depth - 1)}, {self.expr(lst(b), depth - 1)}))", LONG

    def comprehension(self, t: Type, depth: int) -> tuple[str, int]:
        if self.chance(0.3):
            return self.comprehension_of_two(t, depth)
        self.note("list comprehension")
        x = self.fresh("x")
        k = self.r.randrange(9)
        u: Type
        if k < 4:
            source, u, n = f"range({self.r.randint(0, 6)})", INT, 6
        elif k == 4:
            source, u, n = self.expr(STR, 0), STR, 24
        elif k == 5:
            source, u, n = "Color", ("enum",), 3
        else:
            u = self.r.choice((INT, STR))
            v = self.pick(lst(u))
            source, n = v or self.expr(lst(u), 0), LONG
        self.frozen.append(lst(u))  # a call in the element may not write to it
        text = self.with_name(x, u, lambda: self.expr(t[1], depth - 1))
        self.frozen.pop()
        return f"[{text} for {x} in {source}]", n

    def comprehension_of_two(self, t: Type, depth: int) -> tuple[str, int]:
        x, y = self.fresh("x"), self.fresh("x")
        dicts = [(n, u) for n, u in self.env.items() if u[0] == "dict"]
        k = self.r.randrange(3)
        a, b = INT, self.r.choice((INT, STR))
        frozen = [lst(a), lst(b)]
        one, two = (self.pick(lst(t)) or self.expr(lst(t), 0) for t in (a, b))
        source, bound = f"zip({one}, {two})" if k < 2 else f"enumerate({two})", LONG
        if k == 0 and dicts:
            n, u = self.r.choice(dicts)
            (_, a, b), source, bound, frozen = u, f"{n}.items()", 64, [u]
        self.note("list comprehension over two")
        self.frozen += frozen
        text = self.with_name(
            x, a, lambda: self.with_name(y, b, lambda: self.expr(t[1], depth - 1))
        )
        del self.frozen[-len(frozen) :]
        return f"[{text} for {x}, {y} in {source}]", bound
