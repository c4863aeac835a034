"""Lies of code: casts, aliases, tasks, arguments."""

from __future__ import annotations

from lying_world import (
    ANY,
    BAIT,
    BOOL,
    ENUMS,
    FLOAT,
    INT,
    SIMPLE,
    STR,
    TENSOR,
    TUPLES,
    E,
    Maker,
    Object,
    Type,
    argument,
    claimed,
    dict_of,
    hidden,
    hidden_deep,
    lie,
    likely,
    list_of,
    literal,
    optional,
    plain,
    takes_objects,
    tuple_of,
)


@lie(4)
def cast(m: Maker) -> None:
    t = m.any_type()
    v, claim = likely(m, t)
    y = hidden(m, v, t)
    z = m.let(f"unchecked_cast({claim}, {y})")
    m.look(z, claim)


@lie(8)
def alias(m: Maker) -> None:
    """An alias writes after the cast."""
    t = m.mutable_type()
    v, claim = likely(m, t)
    if m.chance(0.3):
        y, claim = hidden_deep(m, v, t, claim)
    else:
        y = hidden(m, v, t)
    z = m.let(f"unchecked_cast({claim}, {y})")
    m.change(v, t)
    if m.chance(0.3):
        m.change(z, claim)
    m.look(z, claim)
    if m.chance(0.5):
        m.look(v, t)


@lie(4)
def asked(m: Maker) -> None:
    """isinstance narrows a container's type; then an alias writes."""
    t = m.mutable_type()
    v, claim = likely(m, t)
    y = hidden(m, v, t)

    def inside() -> None:
        z = m.let(f"unchecked_cast({claim}, {y})")
        m.change(v, t)
        m.look(z, claim)

    m.block(f"if isinstance({y}, {claim}):", inside)


@lie(5)
def derived(m: Maker) -> None:
    """A container that an operator made of another."""
    r = m.rng
    t = r.choice(
        [list_of(ANY), list_of(m.any_type(1)), dict_of(STR, ANY), dict_of(STR, m.any_type(1))]
    )
    v = m.let(m.value(t))
    if t.kind == "List":
        x = t.args[0]
        text_, made = r.choice(
            [
                (f"torch.list({v})", t),
                (f"torch.copy({v})", t),
                (f"torch.slice({v}, 0, 9, 1)", t),
                (f"torch.add({v}, {v})", t),
                (f"torch.mul({v}, 2)", t),
                (f"torch.add_({v}, {v})", t),
                (f"[{v}, {v}]", list_of(t)),
                (f"[{v}[i] for i in range(torch.len({v}))]", t),
                (f'torch.dict(annotate(List[Tuple[str, {t}]], [("sk", {v})]))', dict_of(STR, t)),
            ]
        )
    else:
        x = t.args[1]
        text_, made = r.choice(
            [
                (f"torch.values({v})", list_of(x)),
                (f"torch.keys({v})", list_of(STR)),
                (f"torch.items({v})", list_of(tuple_of(STR, x))),
                (f"torch.copy({v})", t),
                (f"torch.dict({v})", t),
                (f"torch.dict(torch.items({v}))", t),
                (f'torch.get({v}, "sk")', optional(x)),
                (f'torch.setdefault({v}, "sk", {m.value(x, 1)})', x),
                (f"torch.popitem({v})", tuple_of(STR, x)),
                (f'torch.pop({v}, "sa")', x),
            ]
        )
    if t.kind == "Dict" and ("pop" in text_):
        m.line(f'torch._set_item({v}, "sa", {m.value(x, 1)})')
    made_v = m.let(text_)
    claim = claimed(m, made)
    y = hidden(m, made_v, made)
    z = m.let(f"unchecked_cast({claim}, {y})")
    if m.chance(0.7):
        m.change(made_v, made)
    if m.chance(0.3):
        m.change(v, t)
    m.look(z, claim)


@lie(4)
def future(m: Maker) -> None:
    t = m.any_type(1)
    kind = m.rng.choice(["Future", "Future", "Await"])
    f = m.let(m.value(Type(kind, (t,))))
    claim = claimed(m, t)
    y = hidden(m, f, Type(kind, (t,)))
    how = m.rng.randrange(4)
    if how == 0 and kind == "Future":
        fs = m.let(f"annotate(List[Future[{t}]], [{f}])")
        z = m.let(f"(unchecked_cast(List[Future[{claim}]], annotate(Any, {fs})))[0]")
    elif how == 1:
        other = "Await" if kind == "Future" else "Future"
        if m.chance(0.3):
            kind = other
            m.lie()
        z = m.let(f"unchecked_cast({kind}[{claim}], {y})")
    else:
        z = m.let(f"unchecked_cast({kind}[{claim}], {y})")
    if m.chance(0.3) and kind == "Future":
        m.look(m.let(f"torch.wait({f})"), t)
    m.look(z, Type(kind, (claim,)))


@lie(2)
def future_alias(m: Maker) -> None:
    """A task returns a list that others hold too."""
    t = m.mutable_type()
    m.attributes["shared"] = ANY
    m.state["shared"] = 1
    v, claim = likely(m, t)
    m.line(f"self.shared = annotate(Any, {v})")
    g = m.name("g")
    m.methods += [
        f"  def {g}(self: __torch__.M) -> {claim}:",
        "    y = self.shared",
        f"    return unchecked_cast({claim}, y)",
    ]
    f = m.let(f"{m.rng.choice(['fork', 'awaitable'])}(self.{g}, )")
    wait = "torch.wait" if "fork" in m.lines[-1] else "ops.prim.awaitable_wait"
    if m.chance(0.5):
        m.change(v, t)
    z = m.let(f"{wait}({f})")
    m.change(v, t)
    m.look(z, claim)


@lie(2)
def inferred(m: Maker) -> None:
    """Methods without annotations; their results are what they are."""
    t = m.any_type(1)
    g, h = m.name("g"), m.name("g")
    claim = claimed(m, t)
    how = m.rng.randrange(4)
    if how == 0:
        m.methods += [f"  def {g}(self):", f"    return {m.value(INT)}"]
        z, claim = m.let(f"(self).{g}()"), INT
    elif how == 1:  # each needs the other's result
        m.methods += [
            f"  def {g}(self):",
            f"    return (self).{h}()",
            f"  def {h}(self):",
            f"    return (self).{g}()",
        ]
        z = m.let(f"(self).{g}()")
        m.lie()
    elif how == 2:
        m.methods += [f"  def {g}(self, x):", "    return x"]
        z, claim = m.let(f"(self).{g}({m.value(t)}, )"), TENSOR
        m.lie()
    else:
        m.methods += [f"  def {g}(self, x: {t}) -> {claim}:", "    return x"]
        z = m.let(f"(self).{g}({m.value(t)}, )")
    m.look(z, claim)


@lie(4)
def defaults(m: Maker) -> None:
    """Arguments whose defaults are of another type."""
    r = m.rng
    t = m.any_type()
    claim = claimed(m, t)
    g = m.name("g")
    inner = Maker(r, world=m.world, n=m.n + 100)
    inner.look("x", claim)
    if m.chance(0.3) and not takes_objects(claim):
        inner.change("x", claim)
        inner.look("x", claim)
    where = r.randrange(4)
    value = literal(m, t)
    if (
        "__torch__" in str(t) or "Any" in str(t) or "Tensor" in str(t)
    ):  # PyTorch writes no such default
        m.lie()
    if where == 0:
        m.parameters += [f"x: {claim}={value}"]
        m.look("x", claim)
        return
    body = [*(inner.lines or ["    pass"]), "    return 1"]
    m.methods += inner.methods
    if where == 1:
        a = m.name("A")
        m.world[a] = (
            f"class {a}:\n  a : int\n  def f(self, x: {claim}={value}) -> int:\n"
            + "\n".join(body)
            + "\n"
        )
        o = m.let(f"__torch__.{a}.__new__(__torch__.{a})")
        for _ in range(r.choice([1, 2])):
            m.look(m.let(f"({o}).f()"), INT)
        return
    m.methods += [f"  def {g}(self: __torch__.M, y: int, x: {claim}={value}) -> int:", *body]
    for _ in range(r.choice([1, 2])):
        m.look(m.let(f"(self).{g}(1, )"), INT)
    if where == 3:
        m.look(m.let(f"torch.wait(fork(self.{g}, 1))"), INT)


# -- Calls


@lie(4)
def arguments(m: Maker) -> None:
    """The command passes another kind of value than forward declares."""
    t = m.any_type()
    claim = claimed(m, t)
    m.parameters += [f"x: {claim}"]
    m.args += [argument(m, t)]
    m.lie()  # empty lists, tuples as NamedTuples: some are refused by right
    if m.chance(0.4):
        m.change("x", claim)
    m.look("x", claim)
    if m.chance(0.5):
        again = m.near(claim)
        m.look(m.let(f"unchecked_cast({again}, {hidden(m, 'x', claim)})"), again)


@lie(2)
def uninitialised(m: Maker) -> None:
    t = m.any_type()
    m.lie()
    v = m.let(f"uninitialized({t})")
    if m.chance(0.5):
        m.change(v, t)
    m.look(v, t)


@lie(2)
def optionals(m: Maker) -> None:
    """None where a cast declares a value."""
    t = m.any_type(1)
    m.lie()
    v = (
        m.let(f"annotate(Optional[{t}], None)")
        if t.kind not in ("Optional", "Any")
        else m.let(f"annotate({t}, None)")
    )
    how = m.rng.randrange(3)
    if how == 0:
        z = m.let(f"ops.prim.unchecked_unwrap_optional({v})")
    elif how == 1:
        z = m.let(f"ops.aten._unwrap_optional({v})")
    else:
        z = m.let(f"unchecked_cast({t}, {v})")
    m.look(z, t)


@lie(2)
def assigned(m: Maker) -> None:
    """Writes of another type: attributes, items, returns, branches, loops."""
    t = m.any_type()
    claim = claimed(m, t)
    how = m.rng.randrange(5)
    v = m.let(m.value(t))
    if how == 0:
        a = m.name("A")
        m.world[a] = f"class {a}:\n  x : {claim}\n"
        o = m.let(f"__torch__.{a}.__new__(__torch__.{a})")
        m.line(f"{o}.x = {v}")
        m.look(m.let(f"({o}).x"), claim)
    elif how == 1:
        lst = m.let(f"annotate({list_of(claim)}, [])")
        m.line(f"{m.name('_')} = torch.append({lst}, {v})")
        m.look(lst, list_of(claim))
    elif how == 2:
        x = m.name()
        m.line("if torch.gt(torch.len([1]), 0):")
        m.line(f"  {x} = {v}")
        m.line("else:")
        m.indent += 1
        w = m.let(m.value(claim))
        m.indent -= 1
        m.line(f"  {x} = {w}")
        if claim == ANY:  # both keep their types, which have nothing in common
            m.lie()
        m.look(x, claim)
    elif how == 3:
        x = m.name()
        m.line(f"{x} : {claim} = {v}")
        m.look(x, claim)
    else:
        m.attributes["z"] = claim
        m.state["z"] = plain(m, claim)
        m.line(f"self.z = {v}")
        m.look(m.let("self.z"), claim)


KINDS_OF = {"List": "AnyListType", "Tuple": "AnyTupleType", "Union": "Any", "Optional": "Any"}


@lie(2)
def wide_names(m: Maker) -> None:
    """Through the types that stand for many: number, AnyListType, AnyTupleType, AnyClassType,
    AnyEnumType."""
    t = m.any_type(1)
    wide = KINDS_OF.get(t.kind, "Any")
    if t.kind in ("int", "float", "bool"):
        wide = m.rng.choice(["number", "Scalar"])
    elif t.kind == "named":
        wide = (
            "AnyEnumType"
            if t.name in ENUMS
            else "AnyTupleType"
            if t.name in TUPLES
            else "AnyClassType"
        )
    v, claim = likely(m, t)
    how = m.rng.randrange(3)
    if how == 0:
        y = m.let(f"annotate({wide}, {v})")
    elif how == 1:
        y = m.let(f"(annotate(List[{wide}], [{v}]))[0]")
    else:
        g = m.name("g")
        m.methods += [f"  def {g}(self: __torch__.M, x: {wide}) -> {wide}:", "    return x"]
        y = m.let(f"(self).{g}({v}, )")
    m.lie()
    if t in (INT, FLOAT) and m.chance(0.3):
        m.look(
            m.let(f"torch.{claim if claim in SIMPLE[:3] else 'int'}({y})"),
            claim if claim in SIMPLE[:3] else INT,
        )
        return
    if m.chance(0.5):
        m.change(v, t)
    m.look(m.let(f"unchecked_cast({claim}, {y})"), claim)


@lie(2)
def to_list(m: Maker) -> None:
    """tolist() whose declared type is not the tensor's."""
    r = m.rng
    make, true = r.choice([
        ("torch.ones([2])", list_of(FLOAT)), ("torch.ones([2], dtype=4)", list_of(INT)),
        ("torch.ones([2], dtype=11)", list_of(BOOL)),
        ("torch.ones([2, 1])", list_of(list_of(FLOAT))), ("torch.tensor(1)", INT),
        ("torch.tensor(1.5)", FLOAT),
        ("torch.zeros([0])", list_of(FLOAT)), ("torch.ones([0, 2], dtype=4)",
                                               list_of(list_of(INT))),
    ])  # fmt: skip
    claim = claimed(m, true)
    v = m.let(
        f"annotate({claim}, {m.let(make)}.tolist())"
        if m.chance(0.5)
        else f"annotate({claim}, ({m.let(make)}).tolist())"
    )
    if claim.kind == "List" and m.chance(0.5):
        m.change(v, claim)
    m.look(v, claim)
    if m.chance(0.3):
        again = m.near(claim)
        m.lie()
        m.look(m.let(f"unchecked_cast({again}, {hidden(m, v, claim)})"), again)


@lie(2)
def odd_keys(m: Maker) -> None:
    """Dicts whose keys are Any, tensors, floats, lists; looked up with other keys."""
    r = m.rng
    k = r.choice(
        [
            ANY,
            TENSOR,
            FLOAT,
            BOOL,
            Type("complex"),
            Type("Device"),
            list_of(INT),
            optional(INT),
            Type("number"),
            E,
            tuple_of(INT),
        ]
    )
    d = m.let(f"annotate({dict_of(k, INT)}, {{}})")
    m.lie()
    for _ in range(2):
        key = (
            m.value(m.any_type(1) if k == ANY else INT if k.kind == "number" else k)
            if k.kind not in ("complex", "Device")
            else '"sa"'
        )
        m.line(f"torch._set_item({d}, {key}, {BAIT})")
    claim = dict_of(r.choice([STR, INT, k]), INT)
    if m.chance(0.5):
        m.look(d, dict_of(k, INT))
    m.look(m.let(f"unchecked_cast({claim}, {hidden(m, d, dict_of(k, INT))})"), claim)


@lie(3)
def mixed_items(m: Maker) -> None:
    """Operators that compare, hash, sort or join items, on lists whose items are of several
    kinds."""
    r = m.rng
    items = [m.value(m.any_type(1), 1) for _ in range(r.choice([1, 2, 3]))]
    v = m.let(f"annotate(List[Any], [{', '.join(items)}])")
    t = list_of(m.any_type(1))
    u = m.let(f"unchecked_cast({t}, {hidden(m, v, list_of(ANY))})" if m.chance(0.6) else m.value(t))
    if m.chance(0.5):
        m.change(v, list_of(ANY))
    m.lie()
    other = m.value(t.args[0], 1)
    m.line(r.choice([
        f"torch.sort({u}, False)", f"print(torch.sorted({u}))", f"print(torch.index({u}, {other}))",
        f"print(torch.count({u}, {other}))",
        f"torch.remove({u}, {other})", f'print(torch.join("s", {u}))', f"print(torch.sum({u}))",
        f"print(torch.max({u}))",
        f"print(torch.any({u}))", f"print(torch.__contains__({u}, {other}))",
        f"print(torch.eq({u}, {u}))", f"print(torch.lt({u}, {u}))",
        f"print(torch.tensor({u}))", f"print(torch.stack({u}, 0))", f"print(torch.cat({u}, 0))",
        f"print(torch.zeros({u}))",
        f"print(torch.pop({u}, 0))", f"torch.reverse({u})", f"torch.clear({u})",
        f'print(torch.format("{{}} {{}}", {u}, {v}))',
        f"print(torch.dict({u}))", f"a, b, = {u}", f"torch.copy_({u}, {u})",
        f"print(torch.einsum(\"i\", {u}))",
    ]))  # fmt: skip
    m.look(u, t)


@lie(2)
def loops(m: Maker) -> None:
    """A variable that a loop or a branch carries while an alias of it changes."""
    t = m.mutable_type()
    if t.kind == "Optional":  # annotate() of what is never None is no Optional
        m.lie()
    v, claim = likely(m, t)
    x = m.let(m.value(claim))
    m.line(f"for i in range({m.rng.choice([1, 2, 3])}):")
    m.indent += 1
    y = hidden(m, v, t)
    z = m.let(f"unchecked_cast({claim}, {y})")
    if m.chance(0.5):
        m.change(v, t)
        m.line(f"{x} = {z}")
    else:
        m.line(f"{x} = {z}")
        m.change(v, t)
    m.indent -= 1
    m.look(x, claim)


@lie(2)
def captured(m: Maker) -> None:
    """A task's function inside forward takes values from outside that change before it runs."""
    t = m.mutable_type()
    v, claim = likely(m, t)
    x = hidden(m, v, t)
    f = m.name("f_")
    m.line(f"def {f}():")
    m.indent += 1
    if m.chance(0.3):
        m.change(v, t)
    y = m.let(f"unchecked_cast({claim}, {x})")
    m.line(f"return {y}")
    m.indent -= 1
    k = m.rng.choice(["fork", "fork", "awaitable"])
    h = m.let(f"{k}({f})")
    m.change(v, t)
    m.look(h, Type("Future" if k == "fork" else "Await", (claim,)))


@lie(2)
def functions(m: Maker) -> None:
    """Functions of the file, by their names: annotations, recursion, other modules' methods."""
    r = m.rng
    f = m.name("f_")
    t = m.any_type(1)
    claim = claimed(m, t)
    inner = Maker(r, world=m.world, n=m.n + 100)
    inner.indent = 1
    inner.look("x", claim, 2)
    value = inner.value(t, 1)
    annotation = f": {claim}" if m.chance(0.85) else ""
    arrow = f" -> {r.choice([t, t, claimed(m, t)])}" if m.chance(0.85) else ""
    m.methods += inner.methods
    body = "".join(s + "\n" for s in inner.lines)
    if m.chance(0.15):
        body += f"  return __torch__.{f}(x)\n"
        m.lie()
    m.world[f] = f"def {f}(x{annotation}){arrow}:\n{body}  return {value}\n"
    if not annotation:
        m.lie()
    if claim != t:
        m.lie()
    call = f"__torch__.{f}({m.value(t, 1)})"
    if m.chance(0.3):
        call = f"torch.wait(fork(__torch__.{f}, {m.value(t, 1)}))"
    if "-> " in arrow and arrow != f" -> {t}":
        m.lie()
    m.look(m.let(call), t)


@lie(3)
def same_names(m: Maker) -> None:
    """A name twice: parameters, attributes, methods, fields, members, classes; the types differ."""
    r = m.rng
    t = m.any_type(1)
    u = m.near(t)
    a = m.name("A")
    m.lie()
    how = r.randrange(8)

    def stated(v: str) -> None:
        """Which of the two a name means is open: annotate() states one, and the compiler may
        refuse."""
        one = r.choice([t, u])
        m.look(m.let(f"annotate({one}, {v})"), one)

    if how == 0:
        m.parameters += [f"x: {t}", f"x: {u}"]
        m.args += [argument(m, t), argument(m, u)]
        stated("x")
    elif how == 1:
        m.methods += [f"  def {a}(self, x: {t}, x: {u}) -> {r.choice([t, u])}:", "    return x"]
        stated(f"(self).{a}({m.value(t, 1)}, {m.value(u, 1)}, )")
    elif how == 2:
        m.world[a] = f"class {a}:\n  x : {t}\n  x : {u}\n"
        m.attributes["o"] = f"__torch__.{a}"
        m.state["o"] = Object(a, {"x": plain(m, r.choice([t, u]))})
        stated("(self.o).x")
    elif how == 3:
        m.head += [f"x : {t}", f"x : {u}"]
        m.state["x"] = plain(m, r.choice([t, u]))
        stated("self.x")
    elif how == 4:
        m.world[a] = f"class {a}(NamedTuple):\n  x : {t}\n  x : {u}\n"
        stated(f"(__torch__.{a}({m.value(t, 1)}, {m.value(u, 1)})).x")
    elif how == 5:
        one, two = (
            f"  def f(self) -> {t}:\n    return {literal(m, t)}\n",
            f"  def f(self) -> {u}:\n    return {literal(m, u)}\n",
        )
        m.world[a] = f"class {a}:\n  a : int\n{one}{two}"
        o = m.let(f"__torch__.{a}.__new__(__torch__.{a})")
        stated(f"({o}).f()")
    elif how == 6:
        m.world[a] = f"class {a}:\n  x : {t}\nclass {a}:\n  x : {u}\n"
        m.attributes["o"] = f"__torch__.{a}"
        m.state["o"] = Object(a, {"x": plain(m, r.choice([t, u]))})
        stated("(self.o).x")
    else:
        m.world[a] = (
            f"class {a}:\n  x : {t}\n  x : {u} = {literal(m, u)}\n  def x(self) -> {u}:\n    "
            f"return {literal(m, u)}\n"
        )
        m.attributes["o"] = f"__torch__.{a}"
        m.state["o"] = Object(a, {"x": plain(m, r.choice([t, u]))})
        stated(r.choice(["(self.o).x", "(self.o).x()"]))
