"""Lies in the pickles of an archive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lying_world import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    STR,
    TENSOR,
    A,
    B,
    C,
    D,
    E,
    I,
    Maker,
    N,
    Object,
    P,
    Q,
    Type,
    W,
    built,
    claimed,
    dict_of,
    hidden,
    lie,
    list_of,
    plain,
    tagged,
    tuple_of,
)


def dressed(m: Maker, v: Any, t: Type) -> Any:
    """v with a tag, of its type or of another, or as a typed list."""
    r = m.rng
    if isinstance(v, list) and r.random() < 0.3:
        kind = r.choice(["int", "double", "bool", "tensor"])
        if t != list_of({"int": INT, "double": FLOAT, "bool": BOOL, "tensor": TENSOR}[kind]):
            m.lie()
        return built(v, kind)
    if isinstance(v, (list, dict)) and r.random() < 0.7:
        return tagged(v, claimed(m, t))
    if r.random() < 0.05:
        return tagged(v, claimed(m, t))
    return v


def pickle_type(m: Maker) -> Type:
    return m.rng.choice([m.mutable_type(), m.mutable_type(), m.any_type()])


def unused(m: Maker, attribute: str) -> str:
    """A second lie of a kind must not declare the attribute of the first one anew."""
    return m.name(attribute) if attribute in m.attributes else attribute


@lie(6)
def mistyped(m: Maker) -> None:
    """An attribute that holds a value of another type."""
    t = pickle_type(m)
    claim = claimed(m, t)
    v = dressed(m, plain(m, t, like=claim if m.chance(0.7) else None), t)
    if v in ([], {}) and str(claim).startswith("Union"):
        m.lie()  # empty and untagged: it may be any of the lists
    if m.chance(0.3):
        a, o = m.name("A"), unused(m, "o")
        m.world[a] = f"class {a}:\n  x : {claim}\n"
        m.attributes[o] = f"__torch__.{a}"
        m.state[o] = Object(a, {"x": v})
        z = m.let(f"(self.{o}).x")
    else:
        x = unused(m, "x")
        m.attributes[x] = claim
        m.state[x] = v
        z = m.let(f"self.{x}")
    if m.chance(0.4):
        m.change(z, claim)
    m.look(z, claim)
    if m.chance(0.3):
        again = m.near(claim)
        m.lie()
        m.look(m.let(f"unchecked_cast({again}, {hidden(m, z, claim)})"), again)


@lie(9)
def shared(m: Maker) -> None:
    """One pickled value in two attributes, objects or depths, of types that differ."""
    r = m.rng
    t = m.mutable_type()
    u = claimed(m, t)
    if m.chance(0.2):
        t, u = u, t
    v = plain(m, t, like=u if m.chance(0.7) else None)
    first, second = (dressed(m, v, t), dressed(m, v, u)) if m.chance(0.5) else (v, v)
    if m.chance(0.1):
        first = second = dressed(m, v, t)

    def wrapped(x: Any, w: Type) -> tuple[Any, Type, Callable[[str], str]]:
        how = r.randrange(7)
        if how == 0:
            return [x], list_of(w), lambda e: f"({e})[0]"
        if how == 1:
            return (x, 1), tuple_of(w, INT), lambda e: f"({e})[0]"
        if how == 2:
            return {"sk": x}, dict_of(STR, w), lambda e: f'({e})["sk"]'
        return x, w, lambda e: e

    # a program may tell two such lies
    first_name, second_name = (m.name("a"), m.name("b")) if "a" in m.attributes else ("a", "b")
    a, at, read_a = wrapped(first, t)
    b, bt, read_b = wrapped(second, u)
    if m.chance(0.2):
        bt = ANY
        m.lie()
    types, values = {first_name: at, second_name: bt}, {first_name: a, second_name: b}
    m.attributes |= types if m.chance(0.7) else dict(reversed(types.items()))
    m.state |= values if m.chance(0.7) else dict(reversed(values.items()))
    if m.chance(0.2):
        o = m.name("A")
        m.world[o] = f"class {o}:\n  b : {bt}\n"
        m.state["o"] = Object(o, {"b": m.state.pop(second_name)})
        m.attributes["o"] = f"__torch__.{o}"
        del m.attributes[second_name]
        y = "(self.o).b"
    else:
        y = f"self.{second_name}"
    x = m.let(read_a(f"self.{first_name}"))
    if bt == ANY:
        z = m.let(f"unchecked_cast({u}, {y})")
    else:
        z = m.let(read_b(y))
    if m.chance(0.7):
        m.change(x, t)
    if m.chance(0.4):
        m.change(z, u)
    m.look(z, u)
    m.look(x, t)


@lie(4)
def wrong_object(m: Maker) -> None:
    """Objects of other classes, with attributes missing, twice or of others."""
    r = m.rng
    t = r.choice([C, D, N, W, I, P, Q, E])
    actual = r.choice([t, C, D, N, W, A, B])
    v = plain(m, actual)
    if actual != t:
        m.lie()
    if isinstance(v, Object) and isinstance(v.state, dict) and m.chance(0.5):
        m.lie()
        how = r.randrange(5)
        key = r.choice(list(v.state) or ["a"])
        if how == 0:
            v.state.pop(key, None)
        elif how == 1:
            v.state[key] = plain(m, m.any_type(1))
        elif how == 2:
            v.state = r.choice([[], (), 5, "s", {1: 2}, None])
        elif how == 3:
            v.state[key] = v  # contains itself
        else:
            v.state = {"zz": 1, **v.state}
    holder = r.randrange(3)
    if holder == 0:
        m.attributes["x"], m.state["x"] = t, v
        z = m.let("self.x")
    elif holder == 1:
        m.attributes["x"], m.state["x"] = (
            list_of(t),
            r.choice([tagged([v], list_of(t)), [v], tagged([v], list_of(actual))]),
        )
        z = m.let("(self.x)[0]")
    else:
        m.attributes["x"], m.state["x"] = ANY, v
        z = m.let(f"unchecked_cast({t}, self.x)")
    m.change(z, t) if m.chance(0.3) else None
    m.look(z, t)


@lie(4)
def set_state(m: Maker) -> None:
    """__setstate__ with odd annotations, arguments and bodies."""
    r = m.rng
    a = m.name("A")
    t = pickle_type(m)
    claim = claimed(m, t)
    kept = claimed(m, claim) if m.chance(0.2) else claim
    self_ = r.choice(
        [f"self: __torch__.{a}"] * 4
        + ["self", "self: __torch__.C", "self: Any", "self: __torch__.W"]
    )
    if self_ not in ("self", f"self: __torch__.{a}"):
        m.lie()
    annotation = f": {claim}" if m.chance(0.85) else ""
    arrow = r.choice([" -> NoneType"] * 4 + ["", " -> int"])
    inner = Maker(r, world=m.world, n=m.n + 100)
    if m.chance(0.3):
        inner.look("s", claim)
    if m.chance(0.3):
        inner.change("s", claim)
    sets = "    self.x = s\n" if m.chance(0.9) else ""
    extra = ", y: int" + ("=1" if m.chance(0.5) else "") if m.chance(0.1) else ""
    if extra or not sets or not annotation or arrow != " -> NoneType":
        m.lie()
    m.world[a] = (
        f"class {a}:\n  x : {kept}\n  n : int\n  def __setstate__({self_}, "
        f"s{annotation}{extra}){arrow}:\n"
    )
    m.world[a] += "".join(s + "\n" for s in inner.lines) + sets + "    return None\n"
    m.methods += inner.methods
    state = dressed(m, plain(m, t), t)
    if state is None:
        m.lie()  # an object without a state: x is never set
    m.attributes["o"] = f"__torch__.{a}"
    m.state["o"] = Object(a, state)
    z = m.let("(self.o).x")
    if m.chance(0.3):
        m.attributes["p"] = u = claimed(m, t)
        m.state["p"] = state
        p = m.let("self.p")
        m.change(p, u)
        m.look(z, kept)
        m.look(p, u)
    else:
        m.look(z, kept)
    if m.chance(0.1):
        m.lie()  # n was never set
        m.look(m.let("(self.o).n"), INT)
