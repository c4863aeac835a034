"""Lies of classes: interfaces, self, hooks, contexts, NamedTuples, enums, constants."""

from __future__ import annotations

from lying_code import cast
from lying_world import (
    ANY,
    BAIT,
    BOOL,
    FIELDS,
    FLOAT,
    INT,
    NONE,
    SIMPLE,
    STR,
    TENSOR,
    A,
    C,
    Call,
    D,
    E,
    I,
    Maker,
    N,
    Object,
    P,
    Type,
    W,
    argument,
    claimed,
    dict_of,
    hidden,
    lie,
    list_of,
    literal,
    named,
    optional,
    plain,
    takes_objects,
    tuple_of,
)


@lie(5)
def interface(m: Maker) -> None:
    """A class whose method is not the interface's."""
    r = m.rng
    i, a = m.name("I"), m.name("A")
    returns, takes = m.any_type(1), m.any_type(1)
    real_returns = claimed(m, returns) if m.chance(0.5) else returns
    real_takes = claimed(m, takes) if m.chance(0.4) else takes
    base = r.choice(["Interface", "Interface", "ModuleInterface"])
    no_i, no_a = m.chance(0.1), m.chance(0.2)
    untyped = m.chance(0.1)
    selves = r.choice(
        ["self"] * 5
        + [f"self: __torch__.{a}"] * 3
        + ["self: __torch__.C", "self: Any", f"self: __torch__.{i}"]
    )
    inner = Maker(r, world=m.world, n=m.n + 100)
    value = inner.value(real_returns, 1)
    if m.chance(0.3):
        inner.look("x", real_takes)
    arrow = "" if no_a else f" -> {real_returns}"
    m.world[i] = (
        f"class {i}({base}):\n  def f(self, x: {takes}){'' if no_i else f' -> {returns}'}:\n    "
        f"pass\n" + ("  def g(self) -> int:\n    pass\n" if m.chance(0.1) else "")
    )
    m.world[a] = (
        f"class {a}{'(Module)' if base[0] == 'M' else ''}:\n  a : int\n  def f({selves}, "
        f"x{'' if untyped else f': {real_takes}'}){arrow}:\n"
    )
    m.world[a] += "".join(s + "\n" for s in inner.lines) + f"    return {value}\n"
    m.methods += inner.methods
    m.lie()
    o = m.let(f"__torch__.{a}.__new__(__torch__.{a})")
    m.line(f"{o}.a = {m.value(INT)}")
    how = r.randrange(6)
    if how == 0:
        z = m.let(f"annotate(__torch__.{i}, {o})")
    elif how == 1:
        g = m.name("g")
        m.methods += [
            f"  def {g}(self: __torch__.M, x: __torch__.{i}) -> __torch__.{i}:",
            "    return x",
        ]
        z = m.let(f"(self).{g}({o}, )")
    elif how == 2:
        z = m.let(f"unchecked_cast(__torch__.{i}, annotate(Any, {o}))")
    elif how == 3:
        z = m.let(f"(annotate(List[__torch__.{i}], [{o}]))[0]")
    elif how == 4:
        z = "self.i"
        m.attributes["i"] = f"__torch__.{i}"
        m.state["i"] = Object(a, {"a": BAIT})
    else:
        w = m.name()
        m.line(f"{w} : __torch__.{i} = {o}")
        z = w
    m.look(m.let(f"({z}).f({m.value(takes, 1)}, )"), returns)


@lie(4)
def odd_self(m: Maker) -> None:
    """`self` of a method, of the root, of a hook or of __enter__ is annotated with another type."""
    r = m.rng
    t = r.choice(
        [
            C,
            D,
            W,
            N,
            STR,
            INT,
            list_of(INT),
            list_of(ANY),
            optional(C),
            ANY,
            P,
            E,
            I,
            tuple_of(INT),
            TENSOR,
            named("M"),
        ]
    )
    m.lie()
    how = r.randrange(5)
    inner = Maker(r, world=m.world, n=m.n + 100)
    inner.look("self", t)
    body = "".join(s + "\n" for s in inner.lines) or "    pass\n"
    if how == 0:
        m.self_text = f": {t}"
        m.look("self", t)
        return
    a = m.name("A")
    if how == 1:
        m.methods += [
            f"  def {a}(self: {t}) -> int:",
            *body.rstrip("\n").split("\n"),
            "    return 1",
        ]
        m.look(m.let(f"(self).{a}()"), INT)
        return
    if how == 2:
        m.world[a] = (
            f"class {a}:\n  a : int\n  def __enter__(self: {t}) -> int:\n{body}    return 1\n"
            f"  def __exit__(self: __torch__.{a}, x: Any, y: Any, z: Any) -> NoneType:\n    return "
            f"None\n"
        )
        if m.chance(0.5):
            m.world[a] = (
                m.world[a]
                .replace(f"__enter__(self: {t})", f"__enter__(self: __torch__.{a})", 1)
                .replace(f"__exit__(self: __torch__.{a}", f"__exit__(self: {t}")
            )
            if t.kind == "named" and t.name in FIELDS:
                m.world[a] = (
                    m.world[a]
                    .replace(body, "")
                    .replace("    return None\n", f"{body}    return None\n")
                )
    else:
        m.world[a] = (
            f"class {a}:\n  a : int\n  def f(self: {t}, x: int) -> int:\n{body}    return 1\n"
        )
    o = m.let(f"__torch__.{a}.__new__(__torch__.{a})")
    m.line(f"{o}.a = {BAIT}")
    if how == 2:
        m.line(f"with {o}:")
        m.line("  pass")
    elif how == 3:
        m.look(m.let(f"({o}).f(1, )"), INT)
    else:
        m.look(m.let(f"(annotate(__torch__.I, {o})).f(1, )"), INT)


@lie(3)
def context(m: Maker) -> None:
    """__enter__ and __exit__ with odd arguments and results."""
    r = m.rng
    a = m.name("A")
    t = m.any_type(1)
    inner = Maker(r, world=m.world, n=m.n + 100)
    value = inner.value(t, 1)
    m.world[a] = (
        f"class {a}:\n  a : int\n  def __enter__(self: __torch__.{a}) -> "
        f"{claimed(m, t) if m.chance(0.3) else t}:\n"
    )
    m.world[a] += "".join(s + "\n" for s in inner.lines) + f"    return {value}\n"
    types = [ANY, ANY, ANY]
    if m.chance(0.7):
        types[r.randrange(3)] = m.any_type(1)
        m.lie()
    if m.chance(0.1):
        types = types[: r.randrange(3)] if m.chance(0.5) else [*types, INT]
        m.lie()
    inner = Maker(r, world=m.world, n=m.n + 200)
    for i, x in enumerate(types):
        inner.look(f"x{i}", x)
    parameters = "".join(f", x{i}: {x}" for i, x in enumerate(types))
    m.world[a] += (
        f"  def __exit__(self: __torch__.{a}{parameters}) -> "
        f"{r.choice(['NoneType', 'bool', 'int', 'Any'])}:\n"
    )
    m.world[a] += "".join(s + "\n" for s in inner.lines)
    m.world[a] += "    return " + r.choice(["None", "True", "1"]) + "\n"
    m.methods += inner.methods
    o = m.let(f"__torch__.{a}.__new__(__torch__.{a})")
    m.line(f"{o}.a = 1")
    v = m.name()
    m.line(f"with {o} as {v}:" if m.chance(0.6) else f"with {o}:")
    m.indent += 1
    if " as " in m.lines[-1]:
        m.look(v, t)
    m.line(
        r.choice(
            [
                "pass",
                f"{m.name('_')} = torch.floordiv(1, 0)",
                'ops.prim.RaiseException("sx", "builtins.ValueError")',
            ]
        )
    )
    if "pass" not in m.lines[-1] or not m.world[a].endswith("-> NoneType:\n    return None\n"):
        m.lie()
    m.indent -= 1


@lie(4)
def tuples(m: Maker) -> None:
    """NamedTuples: defaults, cousins, themselves."""
    r = m.rng
    p = m.name("P")
    how = r.randrange(6)
    t, u = m.any_type(1), m.any_type(0)
    if how == 0:  # contains itself, or through another
        q = m.name("Q")
        inside = r.choice(
            [
                named(p),
                optional(named(p)),
                list_of(named(p)),
                tuple_of(named(p)),
                named(q),
                dict_of(STR, named(p)),
            ]
        )
        m.world[p] = f"class {p}(NamedTuple):\n  a : {inside}\n  b : int\n"
        m.world[q] = (
            f"class {q}(NamedTuple):\n  c : {r.choice([named(p), optional(named(p)), INT])}\n"
        )
        m.lie()
        x = m.let(
            r.choice(
                [
                    f"uninitialized(__torch__.{p})",
                    f"annotate({optional(named(p))}, None)",
                    f"annotate(List[__torch__.{p}], [])",
                ]
            )
        )
        m.line(f'print("@Any", annotate(Any, {x}))')
        if m.chance(0.5):
            m.line(
                f"_z = unchecked_cast(__torch__.{p}, annotate(Any, "
                f"{r.choice(['(None, 1)', '(1, 2)', x])}))"
            )
        return
    if how == 1:  # a default of another type
        claim = claimed(m, t)
        m.world[p] = f"class {p}(NamedTuple):\n  b : {u}\n  a : {claim} = {literal(m, t)}\n"
        x = m.let(f"__torch__.{p}({m.value(u, 1)})")
        m.look(m.let(f"({x}).a"), claim)
        return
    m.world[p] = f"class {p}(NamedTuple):\n  a : {t}\n  b : {u}\n"
    if how == 2:  # a tuple cast to it
        ct, cu = (claimed(m, t), u) if m.chance(0.5) else (t, claimed(m, u))
        x = m.let(f"({m.value(ct, 1)}, {m.value(cu, 1)})")
        m.lie()
        z = m.let(f"unchecked_cast(__torch__.{p}, {hidden(m, x, tuple_of(ct, cu))})")
        m.look(m.let(f"({z}).a"), t)
        m.look(m.let(f"({z}).b"), u)
    elif how == 3:  # it cast to a tuple
        claim = claimed(m, tuple_of(t, u))
        x = m.let(f"__torch__.{p}({m.value(t, 1)}, {m.value(u, 1)})")
        m.lie()
        z = m.let(f"unchecked_cast({claim}, {hidden(m, x, named(p))})")
        m.look(z, claim)
    elif how == 4:  # to a cousin
        q = m.name("P")
        c = claimed(m, t)
        m.world[q] = f"class {q}(NamedTuple):\n  {r.choice('ab')} : {c}\n  c : {u}\n"
        x = m.let(f"__torch__.{p}({m.value(t, 1)}, {m.value(u, 1)})")
        m.lie()
        z = m.let(f"unchecked_cast(__torch__.{q}, {hidden(m, x, named(p))})")
        m.look(m.let(f"({z})[0]"), c)
        m.look(m.let(f"({z}).c"), u)
    else:  # made of a wrong value
        c = claimed(m, t)
        x = m.let(f"__torch__.{p}({m.value(t, 1)}, {m.value(u, 1)})")
        m.world[p] = f"class {p}(NamedTuple):\n  a : {c}\n  b : {u}\n"
        m.look(m.let(f"({x}).a"), c)


@lie(3)
def class_constants(m: Maker) -> None:
    """Constants of a class, of the archive, whose values are of another type."""
    r = m.rng
    t = m.any_type()
    claim = claimed(m, t)
    if t not in SIMPLE[:4]:  # PyTorch writes few others
        m.lie()
    how = r.randrange(4)
    if how == 0:
        m.head += [f"k : Final[{claim}] = {literal(m, t)}"]
        m.look(m.let("self.k"), claim)
    elif how == 1:
        a = m.name("A")
        m.world[a] = (
            f"class {a}:\n  a : int\n  k : {r.choice(['Final[%s]', '%s'])} = "
            f"{literal(m, t)}\n".replace("%s", str(claim))
        )
        o = m.let(f"__torch__.{a}.__new__(__torch__.{a})")
        m.look(m.let(f"({o}).k"), claim)
    else:
        m.constants += [plain(m, t)]
        v = m.let("CONSTANTS.c0")
        if how == 2:
            m.look(m.let(f"annotate({claim}, {v})"), claim)
        else:
            z = m.let(f"unchecked_cast({claim}, annotate(Any, {v}))")
            m.look(z, claim)
            if t.kind in ("List", "Dict"):
                if not takes_objects(claim):
                    m.change(z, claim)
                m.look(m.let(f"unchecked_cast({m.near(t)}, annotate(Any, CONSTANTS.c0))"), t)


@lie(3)
def enums(m: Maker) -> None:
    """Members of several kinds, values of odd ones."""
    r = m.rng
    e = m.name("E")
    t = r.choice([INT, STR, FLOAT, BOOL, list_of(INT), tuple_of(INT), NONE, TENSOR, C, E])
    u = r.choice([t, INT, STR, FLOAT, BOOL])
    if (t, u) not in ((INT, INT), (STR, STR), (FLOAT, FLOAT)):
        m.lie()
    m.world[e] = f"class {e}(Enum):\n  X = {literal(m, t)}\n  Y = {literal(m, u)}\n"
    v = m.let(f"__torch__.{e}.{r.choice('XY')}")
    how = r.randrange(4)
    if how == 0:
        m.look(m.let(f"({v}).value"), t)
    elif how == 1:
        m.look(m.let(f"unchecked_cast({u}, annotate(Any, ({v}).value))"), u)
        m.lie()
    elif how == 2:
        z = m.let(f"unchecked_cast(__torch__.{r.choice('EF')}, annotate(Any, {v}))")
        m.look(m.let(f"({z}).value"), INT)
        m.lie()
    else:
        m.attributes["e"] = r.choice([f"__torch__.{e}", "__torch__.E", "__torch__.F"])
        m.state["e"] = Call(
            "__torch__", r.choice([e, "E", "F"]), (plain(m, r.choice([t, u, INT])),)
        )
        m.lie()
        m.look(m.let("(self.e).value"), r.choice([t, INT, STR]))


@lie(4)
def hooks(m: Maker) -> None:
    """Hooks of the root, and of a module inside, whose annotations are not forward's."""
    r = m.rng
    t = r.choice([INT, STR, list_of(ANY), m.any_type(1)])
    u = claimed(m, t)
    inner = Maker(r, world=m.world, n=m.n + 100)
    inner.look("input", tuple_of(u))
    input_ = r.choice([f"Tuple[{u}]"] * 4 + [f"{u}", f"Tuple[{u}, int]", "Tuple[()]", "Any"])
    if input_ != f"Tuple[{u}]" or u != t:
        m.lie()
    pre_returns = r.choice([f"Tuple[{u}]", f"{u}", "NoneType"])
    result = {f"Tuple[{u}]": "input", f"{u}": "(input)[0]", "NoneType": "None"}[pre_returns]
    self_ = r.choice(["self: __torch__.S"] * 4 + ["self", "self: __torch__.C", "self: Any"])
    if ":" in self_ and "S" not in self_:
        m.lie()
    out = r.choice([INT, claimed(m, INT)])
    s = "class S(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
    s += '  __forward_pre_hooks__ = ["pre", ]\n  __forward_hooks__ = ["post", ]\n'
    s += f"  def forward(self: __torch__.S, x: {t}) -> int:\n    return 1\n"
    s += (
        f"  def pre({self_}, input: {input_}) -> {pre_returns}:\n"
        + "".join(x + "\n" for x in inner.lines)
        + f"    return {result}\n"
    )
    inner = Maker(r, world=m.world, n=m.n + 200)
    inner.look("output", out)
    value = inner.value(out, 1)
    s += (
        f"  def post(self: __torch__.S, input: {r.choice([f'Tuple[{t}]', input_])}, output: "
        f"{out}) -> {out}:\n"
    )
    s += "".join(x + "\n" for x in inner.lines) + f"    return {value}\n"
    m.methods += inner.methods
    if m.chance(0.4):  # the root's: the command calls them
        m.self_text = ": __torch__.M"
        m.head += ['__forward_pre_hooks__ = ["pre", ]', '__forward_hooks__ = ["post", ]']
        m.parameters += [f"x: {t}"]
        m.args += [argument(m, t)]
        m.methods += (
            s[s.index("  def pre(") :]
            .replace("__torch__.S", "__torch__.M")
            .rstrip("\n")
            .split("\n")
        )
        m.look("x", t)
        return
    m.world["S"] = s
    m.attributes["s"] = "__torch__.S"
    m.state["s"] = Object("S", {})
    x = m.let(f"({m.value(t, 1)},)")
    if m.chance(0.5):
        y = m.let(f"__torch__.S.pre(self.s, {x}, )")
        m.look(m.let(f"__torch__.S.post(self.s, {x}, (self.s).forward(({x})[0], ), )"), out)
        m.line(f'print("@Any", annotate(Any, {y}))')
    else:
        m.look(m.let(f"(self.s).forward(({x})[0], )"), INT)


@lie(1)
def families(m: Maker) -> None:
    """Types whose comparison or size could explode, or that need themselves."""
    r = m.rng
    n = r.choice([3, 8, 20, 40])
    k = m.name("K")
    base = r.choice(["(NamedTuple)", "", "(Interface)"])
    wrap = r.choice(["%s", "Optional[%s]", "List[%s]", "Tuple[%s, int]"])
    m.lie()
    for i in range(n):
        t = wrap % f"__torch__.{k}_{(i + 1) % n if m.chance(0.1) else i + 1}"
        if base == "(Interface)":
            m.world[f"{k}_{i}"] = (
                f"class {k}_{i}{base}:\n  def f(self, x: {t}) -> {t}:\n    pass\n  def g(self, x: "
                f"{t}) -> {t}:\n    pass\n"
            )
            m.world[f"{k}x_{i}"] = (
                m.world[f"{k}_{i}"]
                .replace(k + "_", k + "x_")
                .replace("(Interface)", "")
                .replace("pass", "return x")
            )
        else:
            m.world[f"{k}_{i}"] = f"class {k}_{i}{base}:\n  a : {t}\n  b : {t}\n"
            m.world[f"{k}x_{i}"] = m.world[f"{k}_{i}"].replace(k + "_", k + "x_")
    m.world[f"{k}_{n}"] = f"class {k}_{n}{base}:\n" + (
        "  def f(self) -> int:\n    pass\n" if base == "(Interface)" else "  a : int\n"
    )
    m.world[f"{k}x_{n}"] = (
        m.world[f"{k}_{n}"]
        .replace(k + "_", k + "x_")
        .replace("(Interface)", "")
        .replace("pass", "return 1")
    )
    how = r.randrange(4)
    if how == 0:
        v = m.let(f"uninitialized(__torch__.{k}_0)")
    elif how == 1:
        m.parameters += [
            f"x: Optional[__torch__.{k}_0]=None",
            f"y: Optional[__torch__.{k}x_0]=None",
        ]
        v = m.let(f"unchecked_cast(__torch__.{k}_0, annotate(Any, x))")
        m.line("if torch.gt(1, 0):")
        m.line(f"  w = unchecked_cast(__torch__.{k}_0, annotate(Any, x))")
        m.line("else:")
        m.line(f"  w = unchecked_cast(__torch__.{k}x_0, annotate(Any, y))")
    elif how == 2 and base != "(NamedTuple)":
        v = m.let(f"annotate(__torch__.{k}_0, __torch__.{k}x_0.__new__(__torch__.{k}x_0))")
    else:
        v = m.let(
            f"unchecked_cast(__torch__.{k}_0, annotate(Any, {r.choice(['1', '(1, 2)', '[]'])}))"
        )
    m.line(f'print("@Any", annotate(Any, {v}))')


@lie(1)
def addresses(m: Maker) -> None:
    """What would print an address: objects, ids, hashes, in containers too."""
    v = m.let(
        m.value(
            m.rng.choice(
                [
                    C,
                    W,
                    N,
                    A,
                    list_of(C),
                    tuple_of(C, INT),
                    dict_of(STR, C),
                    optional(C),
                    I,
                    Type("Future", (INT,)),
                ]
            )
        )
    )
    how = m.rng.randrange(4)
    if how == 0:
        m.line(f'print("@Any", {v})')
    elif how == 1:
        m.line(f'print("@str", torch.format("s{{}}", {v}))')
    elif how == 2:
        m.look(m.let(f"ops.prim.id({v})"), INT)
        m.lie()
    else:
        m.look(m.let(f"torch.hash({v})"), INT)
        m.lie()


@lie(1)
def many_attributes(m: Maker) -> None:
    """A class with very many attributes: slots are numbers of a few bits."""
    if not m.chance(0.15):
        return cast(m)
    n = m.rng.choice([255, 256, 257, 65535, 65536, 65537, 65540])
    a = m.name("A")
    last = m.rng.choice([STR, C])
    m.world[a] = f"class {a}:\n" + "".join(f"  a{i} : int\n" for i in range(n)) + f"  z : {last}\n"
    m.lie()
    o = m.let(f"__torch__.{a}.__new__(__torch__.{a})")
    m.line(f"{o}.a0 = {BAIT}")
    m.line(f"{o}.a{n - 1} = {BAIT}")
    if m.chance(0.5):
        m.line(f"{o}.z = {m.value(last)}")
    m.look(m.let(f"({o}).z"), last)


@lie(2)
def unset(m: Maker) -> None:
    """An attribute that nothing has set."""
    c = m.rng.choice("CDNWAB")
    m.lie()
    v = m.let(f"__torch__.{c}.__new__(__torch__.{c})")
    if m.chance(0.3):
        m.line(f'print("@object", {v})')
    if m.chance(0.3):
        v = m.let(f"unchecked_cast(__torch__.{c}, {hidden(m, v, named(c))})")
    if c in FIELDS:
        m.look(v, named(c))
    else:
        m.look(m.let(f"({v}).{'a' if c == 'A' else 'b'}"), INT if c == "A" else STR)


MAGIC = {
    "__len__": "torch.len({o})", "__getitem__": "({o})[1]",
    "__contains__": "torch.__contains__({o}, 1)", "__add__": "torch.add({o}, 1)",
    "__eq__": "torch.eq({o}, {o})", "__lt__": "torch.lt({o}, {o})", "__neg__": "torch.neg({o})",
    "__str__": "str({o})",
    "__call__": "({o})(1)", "__bool__": "bool({o})", "__hash__": "torch.hash({o})",
}  # fmt: skip


@lie(2)
def magic(m: Maker) -> None:
    """Methods that operators call, with odd annotations; sorting by __lt__."""
    r = m.rng
    a = m.name("A")
    name = r.choice(["__lt__", "__lt__", *MAGIC])
    t = m.any_type(1)
    inner = Maker(r, world=m.world, n=m.n + 100)
    two = name not in ("__len__", "__neg__", "__str__", "__bool__", "__hash__")
    u = r.choice([named(a), INT, C, ANY, t])
    if two and u != named(a):
        inner.look("x", u)
    returns = BOOL if name == "__lt__" and m.chance(0.5) else t
    value = inner.value(returns, 1)
    m.world[a] = (
        f"class {a}:\n  a : int\n  def {name}(self: "
        f"__torch__.{r.choice([a, a, a, 'C'])}{f', x: {u}' if two else ''}) -> {returns}:\n"
    )
    m.world[a] += "".join(s + "\n" for s in inner.lines) + f"    return {value}\n"
    m.methods += inner.methods
    m.lie()
    o = m.let(f"__torch__.{a}.__new__(__torch__.{a})")
    m.line(f"{o}.a = {BAIT}")
    if name == "__lt__" and m.chance(0.7):
        lst = m.let(f"annotate(List[__torch__.{a}], [{o}, {o}, {o}])")
        m.line(
            r.choice(
                [
                    f"torch.sort({lst}, False)",
                    f"print(torch.len(torch.sorted({lst})))",
                    f"torch.sort({lst})",
                ]
            )
        )
        return
    m.look(m.let(MAGIC[name].format(o=o)), returns)


@lie(2)
def submodules(m: Maker) -> None:
    """Modules in modules: of another class, shared, interfaces, named by numbers."""
    r = m.rng
    s, q = m.name("S"), m.name("S")
    t = m.any_type(1)
    u = claimed(m, t)
    for name, x in ((s, t), (q, u)):
        m.world[name] = (
            f"class {name}(Module):\n  __parameters__ = []\n  __buffers__ = []\n  x : {x}\n"
        )
        m.world[name] += (
            f"  def forward(self: __torch__.{name}, y: {x}) -> {x}:\n    return self.x\n"
        )
    m.world["J" + s] = (
        f"class J{s}(ModuleInterface):\n  def forward(self, y: {t}) -> {t}:\n    pass\n"
    )
    declared = r.choice([s, s, "J" + s])
    if u != t:
        m.lie()
    actual = r.choice([s, s, q])
    if actual != s:
        m.lie()
    state = Object(actual, {"x": plain(m, t)})
    attribute = r.choice(["s", "0"])
    if attribute == "0":
        m.head += [f'__annotations__["0"] = __torch__.{declared}']
    else:
        m.attributes["s"] = f"__torch__.{declared}"
    m.state[attribute] = state
    if m.chance(0.3):
        m.attributes["t"] = f"__torch__.{r.choice([s, q, 'J' + s])}"
        m.lie()
        m.state["t"] = state
        m.look(m.let(f"(self.t).forward({m.value(t, 1)}, )"), t)
    read = 'getattr(self, "0")' if attribute == "0" else "self.s"
    m.look(m.let(f"({read}).forward({m.value(t, 1)}, )"), t)


@lie(2)
def recursive_interfaces(m: Maker) -> None:
    """Interfaces and classes whose methods take each other."""
    r = m.rng
    n = r.choice([1, 2, 3])
    k = m.name("R")
    m.lie()
    for i in range(n):
        j = (i + 1) % n
        wrap = r.choice(["%s", "%s", "Optional[%s]", "List[%s]", "Tuple[%s, int]"])
        taken, other = wrap % f"__torch__.{k}c{j}", wrap % f"__torch__.{k}i{j}"
        if m.chance(0.5):
            taken, other = other, taken
        arrow = r.choice([" -> int", " -> int", "", f" -> {other}"])
        m.world[f"{k}i{i}"] = (
            f"class {k}i{i}(Interface):\n  def f(self, x: {taken}) -> int:\n    pass\n"
        )
        body = r.choice(["return 1", "return x", "return (self).f(x, )"])
        m.world[f"{k}c{i}"] = (
            f"class {k}c{i}:\n  a : int\n  def f(self, x: {other}){arrow}:\n    {body}\n"
        )
    o = m.let(f"__torch__.{k}c0.__new__(__torch__.{k}c0)")
    m.line(f"{o}.a = 1")
    if m.chance(0.5):
        m.let(f"annotate(__torch__.{k}i0, {o})")
    else:
        m.let(f"unchecked_cast(__torch__.{k}i0, annotate(Any, {o}))")
