"""Programs that lie: small archives, nearly well typed, with one or two places where a value is not
what its type says.

A seed says the whole case: the archive's bytes, the command's arguments, the type of the result,
and the names of the lies that it holds.  The parts of a TorchScript case are

    world    classes, NamedTuples, enums and interfaces that it may use
    values   expressions of a given type
    lies     a value of one type arrives where another is declared: by a cast, through an alias, a
    future, an interface,
             a default, a pickle ...
    looks    each value is then read as deep as its declared type goes, and printed behind a word
    that names the type:
             `@int 5`.  The driver (lying_run.py) compares the two.

Most types that a lie claims differ from the true one in one place only (near()), and some not at
all: such a program is right and has to be answered.  Text and pickles are written by hand: PyTorch
would refuse to write them. Exported programs are changed copies of one that a test made:
lying_exports.py.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from archives import pack

BAIT = 4702111234474983745  # 0x4141414141414141: read as an address it is none
STRINGS = ("sa", "sb", "sc")  # all strings begin with s: the driver recognises strings by it


@dataclass(frozen=True)
class Type:
    kind: str
    args: tuple[Type, ...] = ()
    name: str = ""

    def __str__(self) -> str:
        if self.kind == "named":
            return "__torch__." + self.name
        if self.args or self.kind == "Tuple":
            return f"{self.kind}[{', '.join(map(str, self.args)) or '()'}]"
        return self.kind


def takes_objects(t: Type) -> bool:
    """Can a container of this type take an object?  In constants and defaults it keeps its program
    (docs/security.md)."""
    return "__torch__" in str(t) or "Any" in str(t)


INT, FLOAT, BOOL, STR, TENSOR, ANY, NONE = (
    Type(k) for k in ("int", "float", "bool", "str", "Tensor", "Any", "NoneType")
)
SIMPLE = (INT, FLOAT, BOOL, STR, TENSOR)


def list_of(t: Type) -> Type:
    return Type("List", (t,))


def dict_of(k: Type, v: Type) -> Type:
    return Type("Dict", (k, v))


def optional(t: Type) -> Type:
    return t if t.kind in ("Optional", "Any", "NoneType") else Type("Optional", (t,))


def tuple_of(*t: Type) -> Type:
    return Type("Tuple", t)


def named(name: str) -> Type:
    return Type("named", (), name)


C, D, N, W, P, Q, E, F, I, A, B = (named(n) for n in "CDNWPQEFIAB")  # noqa: E741
FIELDS = {  # of classes and NamedTuples
    "C": [("a", INT)],
    "D": [("a", STR), ("l", list_of(INT))],
    "N": [("a", INT), ("n", optional(N))],
    "W": [("x", ANY), ("l", list_of(ANY)), ("d", dict_of(STR, ANY)), ("o", optional(C))],
    "P": [("a", INT), ("b", STR)],
    "Q": [("c", C), ("p", P), ("l", list_of(INT))],
}
CLASSES, TUPLES, ENUMS, INTERFACES = "CDNW", "PQ", "EF", "I"
WORLD = {
    "C": "class C:\n  a : int\n",
    "D": "class D:\n  a : str\n  l : List[int]\n",
    "N": "class N:\n  a : int\n  n : Optional[__torch__.N]\n",
    "W": "class W:\n  x : Any\n  l : List[Any]\n  d : Dict[str, Any]\n  o : "
    "Optional[__torch__.C]\n",
    "P": "class P(NamedTuple):\n  a : int\n  b : str\n",
    "Q": "class Q(NamedTuple):\n  c : __torch__.C\n  p : __torch__.P\n  l : List[int]\n",
    "E": "class E(Enum):\n  X = 1\n  Y = 2\n",
    "F": 'class F(Enum):\n  X = "sx"\n  Y = "sy"\n',
    "I": "class I(Interface):\n  def f(self, x: int) -> int:\n    pass\n",
    "A": "class A:\n  a : int\n  def f(self, x: int) -> int:\n    return torch.add(x, 1)\n",
    "B": "class B:\n  b : str\n  def f(self, x: int) -> int:\n    return torch.mul(x, 2)\n",
}


# -- Pickles
# --------------------------------------------------------------------------------------------------


class Node:
    """What a pickle holds besides Python's own values."""


@dataclass(eq=False)
class Object(Node):
    name: str
    state: Any = None


@dataclass(eq=False)
class Call(Node):
    module: str
    name: str
    args: tuple


def tagged(value: Any, t: object) -> Call:
    return Call("torch.jit._pickle", "restore_type_tag", (value, str(t)))


def built(value: Any, kind: str) -> Call:
    return Call("torch.jit._pickle", f"build_{kind}list", (value,))


def text(s: str) -> bytes:
    return b"X" + struct.pack("<I", len(s.encode())) + s.encode()


def tensor_pickle() -> bytes:
    storage = (
        b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + b"K\x02tQ"
    )
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + b"K\x00K\x02\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR"
    )


TENSOR_VALUE = Call("tensor", "", ())


class Pickler:
    """Equal objects are written once and shared, as `is` says."""

    def __init__(self) -> None:
        self.memo: dict[int, int] = {}
        self.kept: list[Any] = []  # so that no id is used twice

    def write(self, v: Any) -> bytes:
        if id(v) in self.memo:
            return b"j" + struct.pack("<I", self.memo[id(v)])
        if v is None:
            return b"N"
        if isinstance(v, bool):
            return b"\x88" if v else b"\x89"
        if isinstance(v, int):
            return b"\x8a\x08" + struct.pack("<q", v)
        if isinstance(v, float):
            return b"G" + struct.pack(">d", v)
        if isinstance(v, str):
            return text(v)
        if isinstance(v, tuple):
            return b"(" + b"".join(map(self.write, v)) + b"t"
        if v is TENSOR_VALUE:
            return tensor_pickle()
        if isinstance(v, list):
            return b"]" + self.remember(v) + b"(" + b"".join(map(self.write, v)) + b"e"
        if isinstance(v, dict):
            return (
                b"}"
                + self.remember(v)
                + b"("
                + b"".join(self.write(k) + self.write(x) for k, x in v.items())
                + b"u"
            )
        if isinstance(v, Object):
            module, _, name = f"__torch__.{v.name}".rpartition(".")
            head = f"c{module}\n{name}\n".encode() + b")\x81" + self.remember(v)
            return head + (b"" if v.state is None else self.write(v.state) + b"b")
        assert isinstance(v, Call), v
        return f"c{v.module}\n{v.name}\n".encode() + self.write(v.args) + b"R" + self.remember(v)

    def remember(self, v: Any) -> bytes:
        self.kept.append(v)
        n = self.memo[id(v)] = len(self.memo)
        return b"r" + struct.pack("<I", n)


def pickled(v: Any) -> bytes:
    return b"\x80\x02" + Pickler().write(v) + b"."


# -- Cases
# --------------------------------------------------------------------------------------------------


@dataclass
class Case:
    seed: int
    kinds: list[str]
    records: dict[str, bytes]
    args: list[str]
    returns: Type | None = None
    suffix: str = ".pt"
    honest: bool = False  # nothing lies: it has to be answered

    @property
    def data(self) -> bytes:
        return pack(self.records, aligned=False)

    @property
    def code(self) -> str:
        return self.records.get(
            "m/code/__torch__.py", self.records.get("m/models/model.json", b"")
        ).decode()


@dataclass
class Maker:
    """A case in the making: forward's lines, what stands beside it, the pickles."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    attributes: dict[str, Type | str] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    constants: list[Any] = field(default_factory=list)
    head: list[str] = field(default_factory=list)  # of class M: hooks, constants
    world: dict[str, str] = field(default_factory=lambda: dict(WORLD))
    parameters: list[str] = field(default_factory=list)
    args: list[str] = field(default_factory=list)
    self_text: str = ": __torch__.M"
    kinds: list[str] = field(default_factory=list)
    indent: int = 2
    n: int = 0
    honest: bool = True

    def name(self, prefix: str = "v") -> str:
        self.n += 1
        return f"{prefix}{self.n}"

    def line(self, s: str) -> None:
        self.lines.append("  " * self.indent + s)

    def let(self, expression: str) -> str:
        v = self.name()
        self.line(f"{v} = {expression}")
        return v

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def lie(self) -> None:
        self.honest = False

    # -- Types

    def any_type(self, depth: int = 2) -> Type:
        r = self.rng
        if depth <= 0 or r.random() < 0.25:
            return r.choice([INT, INT, FLOAT, BOOL, STR, STR, TENSOR, C, C, D, P, E])
        k = r.randrange(13)
        inner = lambda: self.any_type(depth - 1)  # noqa: E731
        if k < 4:
            return list_of(ANY if r.random() < 0.3 else inner())
        if k < 6:
            return dict_of(r.choice([STR, STR, INT]), ANY if r.random() < 0.3 else inner())
        if k < 8:
            return tuple_of(*(inner() for _ in range(r.choice([1, 2, 2, 3]))))
        if k == 8:
            return optional(inner())
        if k == 9:
            return Type(
                "Union",
                tuple(
                    r.sample(
                        [INT, STR, C, list_of(INT), list_of(STR), P, E, NONE], r.choice([2, 3])
                    )
                ),
            )
        if k == 10:
            return ANY
        return named(r.choice("CDNWPQEFI"))

    def mutable_type(self) -> Type:
        r = self.rng
        inner = r.choice([ANY, ANY, self.any_type(1)])
        t = list_of(inner) if r.random() < 0.6 else dict_of(r.choice([STR, INT]), inner)
        return r.choice([t, t, t, list_of(t), tuple_of(t, INT), dict_of(STR, t), optional(t)])

    def near(self, t: Type) -> Type:
        """A type that differs in one place."""
        r = self.rng
        if t.args and r.random() < 0.7:
            i = r.randrange(len(t.args))
            if t.kind == "Dict" and i == 0:
                new = r.choice([STR, INT, FLOAT, BOOL])
            else:
                new = self.near(t.args[i])
            if t.kind == "Tuple" and r.random() < 0.1:
                return Type("Tuple", (*t.args, new) if r.random() < 0.5 else t.args[:-1])
            return Type(t.kind, (*t.args[:i], new, *t.args[i + 1 :]))
        if t == ANY:
            return r.choice([INT, STR, C, TENSOR, list_of(INT), P, self.any_type(1)])
        choices: list[Type] = [ANY, self.any_type(1), self.any_type(0), optional(t), C, INT, STR]
        if t.kind == "Optional":
            choices += [t.args[0]] * 3
        if t.kind == "List":
            choices += [tuple_of(t.args[0]), dict_of(INT, t.args[0]), list_of(ANY)]
        if t.kind in ("Tuple", "Union"):
            choices += [P, Q, *t.args]
        if t.kind == "named":
            choices += [C, D, N, P, Q, E, F, tuple_of(INT, STR), I]
        return r.choice(choices)

    # -- Values

    def value(self, t: Type, depth: int = 3, like: Type | None = None) -> str:
        """An expression of the type, with statements before it where one is not enough.  What is
        Any in it is of the type that `like` has there."""
        r = self.rng
        k = t.kind
        if like and k != "Any" and (like.kind != k or len(like.args) != len(t.args)):
            like = None
        parts = like.args if like else (None,) * len(t.args)
        if k == "int":
            return r.choice(["1", "0", "-1", "7", str(BAIT), str(BAIT)])
        if k == "float":
            return r.choice(["1.5", "0.", "2.2250738585072014e-308", "261634.62744140625"])
        if k == "bool":
            return r.choice(["True", "False"])
        if k == "str":
            return f'"{r.choice(STRINGS)}"'
        if k == "Tensor":
            return r.choice(["torch.ones([2])", "torch.zeros([1, 2])"])
        if k == "NoneType":
            return "None"
        if k == "Any":
            return (
                f"annotate(Any, {self.value(like or self.any_type(min(depth - 1, 1)), depth - 1)})"
            )
        if k == "List":
            n = 0 if depth <= 0 else r.choice([0, 1, 1, 2])
            return (
                f"annotate({t}, "
                f"[{', '.join(self.value(t.args[0], depth - 1, parts[0]) for _ in range(n))}])"
            )
        if k == "Dict":
            n = 0 if depth <= 0 else r.choice([0, 1, 1])
            items = [
                f"{self.value(t.args[0])}: {self.value(t.args[1], depth - 1, parts[1])}"
                for _ in range(n)
            ]
            return f"annotate({t}, {{{', '.join(items)}}})"
        if k == "Tuple":
            items = [self.value(x, depth - 1, y) for x, y in zip(t.args, parts, strict=True)]
            return f"({', '.join(items)},)" if t.args else "()"
        if k == "Optional":
            none = depth <= 0 or r.random() < 0.3
            value = "None" if none else self.value(t.args[0], depth - 1, parts[0])
            return f"annotate({t}, {value})"
        if k == "Union":
            return f"annotate({t}, {self.value(r.choice(t.args), depth - 1)})"
        if k in ("Future", "Await"):
            return f"{'fork' if k == 'Future' else 'awaitable'}(self.{self.method(t.args[0])}, )"
        return self.instance(t, depth)

    def method(self, returns: Type, value: str | None = None) -> str:
        """Make a method without arguments that returns a value of the type."""
        g = self.name("g")
        outside, self.lines, indent = self.lines, [], self.indent
        self.indent = 2
        v = value or self.value(returns, 2)
        self.methods += [
            f"  def {g}(self: __torch__.M) -> {returns}:",
            *self.lines,
            f"    return {v}",
        ]
        self.lines, self.indent = outside, indent
        return g

    def instance(self, t: Type, depth: int) -> str:
        n = t.name
        if n in ENUMS:
            return f"__torch__.{n}.{self.rng.choice('XY')}"
        if n in TUPLES:
            return f"__torch__.{n}({', '.join(self.value(x, depth - 1) for _, x in FIELDS[n])})"
        if n == "I":
            return f"annotate(__torch__.I, {self.instance(self.rng.choice([A, B]), depth)})"
        v = self.let(f"__torch__.{n}.__new__(__torch__.{n})")
        for a, x in FIELDS.get(n, []):
            if x.kind == "Optional" and depth <= 1:
                self.line(f"{v}.{a} = annotate({x}, None)")
            else:
                self.line(f"{v}.{a} = {self.value(x, depth - 1)}")
        return v

    # -- Looks

    def look(self, v: str, t: Type, depth: int = 3) -> None:
        """Read v as deep as the type is."""
        k = t.kind
        if k in ("int", "float", "bool", "str"):
            self.line(f'print("@{k}", {v})')
            if k == "int" and self.chance(0.3):
                self.line(f'print("@int", torch.add({v}, 0))')
            if k == "str" and self.chance(0.3):
                self.line(f'print("@int", torch.len({v}))')
        elif k == "Tensor":
            self.line(f'print("@int", torch.dim({v}))')
        elif k in ("Any", "NoneType"):
            self.line(f'print("@{k}", {v})')
        elif depth <= 0:
            return
        elif k in ("List", "Dict", "Optional", "Union"):
            self.look_container(v, t, depth)
        elif k == "Tuple":
            if self.chance(0.3) and t.args:
                names = [self.name() for _ in t.args]
                self.line(f"{', '.join(names)}, = {v}")
            else:
                names = [self.let(f"({v})[{i}]") for i in range(len(t.args))]
            for x, e in zip(names, t.args, strict=True):
                self.look(x, e, depth - 1)
        elif k == "Future":
            self.look(self.let(f"torch.wait({v})"), t.args[0], depth - 1)
        elif k == "Await":
            self.look(self.let(f"ops.prim.awaitable_wait({v})"), t.args[0], depth - 1)
        elif k == "named":
            self.look_named(v, t, depth)

    def block(self, head: str, body: Callable[[], None]) -> None:
        self.line(head)
        self.indent += 1
        before = len(self.lines)
        body()
        if len(self.lines) == before:
            self.line("pass")
        self.indent -= 1
        self.line("else:")
        self.line("  pass")

    def look_container(self, v: str, t: Type, depth: int) -> None:
        if t.kind == "List":
            self.line(f'print("@int", torch.len({v}))')
            at = self.rng.choice(["0", "0", "-1"])
            self.block(
                f"if torch.gt(torch.len({v}), 0):",
                lambda: self.look(self.let(f"{v}[{at}]"), t.args[0], depth - 1),
            )
        elif t.kind == "Dict":
            keys = self.let(f"torch.keys({v})")
            self.line(f'print("@int", torch.len({v}))')

            def inside() -> None:
                key = self.let(f"{keys}[0]")
                self.look(key, t.args[0], 1)
                how = self.rng.randrange(3)
                if how == 0:
                    self.look(self.let(f"{v}[{key}]"), t.args[1], depth - 1)
                elif how == 1:
                    self.look(self.let(f"(torch.values({v}))[0]"), t.args[1], depth - 1)
                else:
                    self.look(self.let(f"((torch.items({v}))[0])[1]"), t.args[1], depth - 1)

            self.block(f"if torch.gt(torch.len({keys}), 0):", inside)
        elif t.kind == "Optional":
            self.block(
                f"if torch.__isnot__({v}, None):",
                lambda: self.look(
                    self.let(f"unchecked_cast({t.args[0]}, {v})"), t.args[0], depth - 1
                ),
            )
        else:
            for m in t.args:
                if m != NONE:
                    self.block(
                        f"if isinstance({v}, {m}):",
                        lambda m=m: self.look(self.let(f"unchecked_cast({m}, {v})"), m, depth - 1),
                    )

    def look_named(self, v: str, t: Type, depth: int) -> None:
        n = t.name
        if n in FIELDS:
            for a, x in FIELDS[n]:
                self.look(self.let(f"({v}).{a}"), x, depth - 1)
            if n in CLASSES and self.chance(0.2):
                self.line(f'print("@object", {v})')
        elif n in ENUMS:
            self.look(self.let(f"({v}).value"), INT if n == "E" else STR)
            self.look(self.let(f"({v}).name"), STR) if self.chance(0) else None
        elif n in ("I", "A", "B"):
            self.look(self.let(f"({v}).f(1, )"), INT)

    # -- Changes

    def change(self, v: str, t: Type, depth: int = 2) -> None:
        """Write into v what its own type allows."""
        if t.kind == "List":
            x = self.value(t.args[0], 1)
            how = self.rng.randrange(6)
            if how < 3:
                self.line(f"{self.name('_')} = torch.append({v}, {x})")
            elif how == 3:
                self.line(f"torch.extend({v}, annotate({t}, [{x}]))")
            elif how == 4:
                self.line(f"torch.insert({v}, 0, {x})")
            else:
                self.block(
                    f"if torch.gt(torch.len({v}), 0):",
                    lambda: self.line(f"{self.name('_')} = torch._set_item({v}, 0, {x})"),
                )
        elif t.kind == "Dict":
            key = self.value(t.args[0])
            self.line(f"torch._set_item({v}, {key}, {self.value(t.args[1], 1)})")
        elif t.kind == "Tuple" and t.args and depth:
            i = self.rng.randrange(len(t.args))
            self.change(self.let(f"({v})[{i}]"), t.args[i], depth - 1)
        elif t.kind == "Optional" and depth:
            self.block(
                f"if torch.__isnot__({v}, None):",
                lambda: self.change(
                    self.let(f"unchecked_cast({t.args[0]}, {v})"), t.args[0], depth - 1
                ),
            )
        elif t.kind == "named" and t.name in CLASSES:
            a, x = self.rng.choice(FIELDS[t.name])
            self.line(f"{v}.{a} = {self.value(x, 1)}")

    # -- The archive

    def finish(self, seed: int) -> Case:
        r = self.rng
        returns = r.choice([INT, INT, STR, FLOAT])
        result = self.value(returns)
        code = [
            "class M(Module):",
            "  __parameters__ = []",
            "  __buffers__ = []",
            *("  " + h for h in self.head),
        ]
        code += [f"  {a} : {t}" for a, t in self.attributes.items()]
        parameters = "".join(", " + p for p in self.parameters)
        code += [f"  def forward(self{self.self_text}{parameters}) -> {returns}:"]
        code += ['    print("@start")', *self.lines, f"    return {result}", *self.methods]
        texts = "\n".join(code) + "\n" + "".join(self.used_world("\n".join(code)))
        records = {
            "m/data.pkl": pickled(Object("M", self.state)),
            "m/code/__torch__.py": texts.encode(),
            "m/constants.pkl": pickled(tuple(self.constants)),
            "m/version": b"3\n",
            "m/data/0": struct.pack("<2f", 1, 2),
        }
        return Case(seed, self.kinds, records, self.args, returns, honest=self.honest)

    def used_world(self, code: str) -> list[str]:
        """The classes that the code names, and those that these name."""
        used: dict[str, str] = {}
        state = pickled((self.state, tuple(self.constants))).decode(errors="replace")
        code += state.replace("c__torch__\n", " __torch__.")
        todo = [n for n in self.world if re.search(rf"__torch__\.{n}\b", code)]
        while todo:
            n = todo.pop(0)
            if n not in used:
                used[n] = self.world[n]
                todo += [m for m in self.world if re.search(rf"__torch__\.{m}\b", used[n])]
        return list(used.values())


# -- Lies
# -------------------------------------------------------------------------------------------------
# Each takes the maker and writes into it.  LIES lists them.

Lie = Callable[[Maker], None]
LIES: dict[str, tuple[Lie, int]] = {}


def lie(weight: int = 2) -> Callable[[Lie], Lie]:
    def add(f: Lie) -> Lie:
        LIES[f.__name__] = (f, weight)
        return f

    return add


def claimed(m: Maker, t: Type) -> Type:
    """Choose the type that a lie declares for a value of type t; one in six is right."""
    if m.chance(1 / 6):
        return t
    new = m.near(t)
    if new != t:
        m.lie()
    return new


def likely(m: Maker, t: Type) -> tuple[str, Type]:
    """A new variable of type t, and what a lie says it is: often what its content allows."""
    claim = claimed(m, t)
    return m.let(m.value(t, like=claim if m.chance(0.7) else None)), claim


def hidden(m: Maker, v: str, t: Type) -> str:
    """v behind Any, by one of the ways there are."""
    r = m.rng
    how = r.randrange(9)
    if how < 3:
        return m.let(f"annotate(Any, {v})")
    if how == 3:
        return m.let(f"({m.let(f'annotate(List[Any], [{v}])')})[0]")
    if how == 4:
        d = m.let("annotate(Dict[str, Any], {})")
        m.line(f'torch._set_item({d}, "sk", {v})')
        return m.let(f'{d}["sk"]')
    if how == 5:
        w = m.let("__torch__.W.__new__(__torch__.W)")
        m.line(f"{w}.x = annotate(Any, {v})")
        return m.let(f"({w}).x")
    if how == 6:
        g = m.name("g")
        m.methods += [f"  def {g}(self: __torch__.M, x: Any) -> Any:", "    return x"]
        return m.let(f"(self).{g}({v}, )")
    if how == 7 and t.kind not in ("Optional", "Any", "NoneType", "Union"):
        return m.let(f"annotate(Optional[{t}], {v})")
    m.attributes.setdefault("any", ANY)
    m.state.setdefault("any", 5)
    m.line(f"self.any = annotate(Any, {v})")
    return m.let("self.any")


def hidden_deep(m: Maker, v: str, t: Type, claim: Type) -> tuple[str, Type]:
    """v inside a container that is cast as a whole: covariant tuples, lists of lists, optionals."""
    how = m.rng.randrange(4)
    if how == 0:
        return m.let(f"annotate(Any, ({v}, 1))"), tuple_of(claim, INT)
    if how == 1:
        return m.let(f"annotate(Any, annotate(List[{t}], [{v}]))"), list_of(claim)
    if how == 2:
        return m.let(f'annotate(Any, annotate(Dict[str, {t}], {{"sk": {v}}}))'), dict_of(STR, claim)
    return m.let(f"annotate(Any, annotate({optional(t)}, {v}))"), optional(claim)


def literal(m: Maker, t: Type, depth: int = 2) -> str:
    """A constant's text, where no statement can be."""
    r = m.rng
    k = t.kind
    if k in ("int", "float", "bool", "str", "NoneType"):
        return m.value(t)
    if k == "List":
        return (
            "["
            + ", ".join(
                literal(m, t.args[0], depth - 1)
                for _ in range(r.choice([0, 1, 2]) if depth > 0 else 0)
            )
            + "]"
        )
    if k == "Dict":
        return (
            "{"
            + (
                f"{literal(m, t.args[0])}: {literal(m, t.args[1], depth - 1)}"
                if r.random() < 0.7
                else ""
            )
            + "}"
        )
    if k == "Tuple":
        return "(" + "".join(literal(m, x, depth - 1) + ", " for x in t.args) + ")"
    if k == "Optional":
        return "None" if r.random() < 0.3 else literal(m, t.args[0], depth - 1)
    if k == "Union":
        return literal(m, r.choice(t.args), depth - 1)
    if k == "named" and t.name in ENUMS:
        return f"__torch__.{t.name}.X"
    if k == "named" and t.name == "P":
        m.lie()
        return r.choice(['__torch__.P(1, "sa")', '(1, "sa")'])
    m.lie()  # PyTorch writes no such constant
    return r.choice(
        [
            "1",
            "None",
            '"sa"',
            "[]",
            "1.5",
            "(1, 2)",
            "__torch__.E.X",
            "annotate(List[Any], [1])",
            "torch.ones([1])",
        ]
    )


def argument(m: Maker, t: Type, depth: int = 2) -> str:
    """The command's text of a value of the type."""
    r = m.rng
    k = t.kind
    if k in ("int", "bool", "NoneType"):
        return {"NoneType": "None"}.get(k) or m.value(t)
    if k == "float":
        return "1.5"
    if k == "str":
        return f"'{r.choice(STRINGS)}'"
    if k == "List":
        return (
            "["
            + ",".join(
                argument(m, t.args[0], depth - 1)
                for _ in range(r.choice([0, 1, 2]) if depth > 0 else 0)
            )
            + "]"
        )
    if k == "Dict":
        return (
            "{"
            + (
                f"{argument(m, t.args[0])}:{argument(m, t.args[1], depth - 1)}"
                if r.random() < 0.7
                else ""
            )
            + "}"
        )
    if k == "Tuple":
        return "(" + "".join(argument(m, x, depth - 1) + "," for x in t.args) + ")"
    if k == "Optional":
        return r.choice(["None", argument(m, t.args[0], depth - 1)])
    if k == "Union":
        return argument(m, r.choice(t.args), depth)
    if k == "Tensor":
        return "ones(2)"
    if k == "Any":
        return argument(m, m.any_type(1), depth - 1)
    m.lie()
    if t.name == "P":
        return "(1,'sa')"
    return r.choice(["1", "None", "'sa'"])


def plain(m: Maker, t: Type, depth: int = 3, like: Type | None = None) -> Any:
    """A pickled value of the type, untagged; what is Any in it is of the type that `like` has
    there."""
    r = m.rng
    k = t.kind
    if like and k != "Any" and (like.kind != k or len(like.args) != len(t.args)):
        like = None
    parts = like.args if like else (None,) * len(t.args)
    if k == "int":
        return r.choice([1, 0, BAIT])
    if k == "float":
        return r.choice([1.5, 0.0])
    if k == "bool":
        return r.random() < 0.5
    if k == "str":
        return r.choice(STRINGS)
    if k == "Tensor":
        return TENSOR_VALUE
    if k == "Any":
        return plain(m, like or m.any_type(1), depth - 1)
    if k == "List":
        return [
            plain(m, t.args[0], depth - 1, parts[0])
            for _ in range(r.choice([0, 1, 2]) if depth > 0 else 0)
        ]
    if k == "Dict":
        return (
            {plain(m, t.args[0]): plain(m, t.args[1], depth - 1, parts[1])}
            if depth > 0 and r.random() < 0.7
            else {}
        )
    if k == "Tuple":
        return tuple(plain(m, x, depth - 1, y) for x, y in zip(t.args, parts, strict=True))
    if k == "Optional":
        return None if depth <= 0 or r.random() < 0.3 else plain(m, t.args[0], depth - 1, parts[0])
    if k == "Union":
        return plain(m, r.choice(t.args), depth - 1)
    if k == "named":
        n = t.name
        if n in ENUMS:
            return Call("__torch__", n, (1 if n == "E" else "sx",))
        if n in TUPLES:
            return Call("__torch__", n, tuple(plain(m, x, depth - 1) for _, x in FIELDS[n]))
        if n == "I":
            return Object("A", {"a": BAIT})
        return Object(
            n,
            {
                a: None if x.kind == "Optional" and depth <= 1 else plain(m, x, depth - 1)
                for a, x in FIELDS.get(n, [])
            },
        )
    return None
