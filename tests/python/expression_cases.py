"""Expressions as PyTorch has them, with what sympy and torch print and compute: the cases of
test_expressions.py.

    python tests/python/expression_cases.py [CORPUS...]      writes tests/data/expressions.tsv

The table holds the expressions of archives (.pt2 below the folders CORPUS), a list of special ones,
and random ones, so that the test runs without torch.  A line is srepr, str, Python code ("!": the
printer refuses), the value ("!": there is none within 64 bits) and the symbols' values.
"""

from __future__ import annotations

import json
import pathlib
import random
import re
import signal
import sys
import zipfile
from collections.abc import Iterator
from typing import Any

import sympy
import torch.utils._sympy.functions as tf
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.printers import PythonPrinter

TABLE = pathlib.Path(__file__).resolve().parents[1] / "data" / "expressions.tsv"
SIZES = [sympy.Symbol(n, positive=True, integer=True) for n in ("s0", "s17", "s27", "s77")]
UNBACKED = [sympy.Symbol(n, integer=True) for n in ("u0", "u1")]
REAL = sympy.Symbol("zuf0", real=True)
FUNCTIONS = {n: getattr(tf, n) for n in dir(tf) if isinstance(getattr(tf, n), type)}
NAMES: dict[str, Any] = {
    **{n: f for n, f in FUNCTIONS.items() if issubclass(f, sympy.Basic)},
    "int_oo": int_oo,
}
UNARY = [n for n in NAMES if n.startswith("OpaqueUnaryFn_")]
# What sympy and torch raise for what they cannot make, print or compute.
REFUSED = (
    *(ArithmeticError, AssertionError, AttributeError, NotImplementedError, TypeError, ValueError),
    *(sympy.PolynomialError, RecursionError),
)


class Random:
    """Random expressions, weighted towards what shapes have."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)

    def leaf(self) -> Any:
        return self.r.choice([*SIZES, *SIZES, *UNBACKED, sympy.Integer(self.r.randint(-9, 64))])

    def integer(self, depth: int) -> Any:
        if depth <= 0 or self.r.random() < 0.15:
            return self.leaf()
        a, b = self.integer(depth - 1), self.integer(depth - self.r.randint(1, 2))
        positive = self.r.choice([*SIZES, sympy.Integer(self.r.randint(1, 16))])
        kind = self.r.randrange(20)
        if kind < 5:
            return a + b
        if kind < 8:
            return a * b
        if kind == 8:
            return a - b
        if kind == 9:
            return self.r.choice(SIZES) ** self.r.randint(2, 3)
        if kind < 13:
            return tf.FloorDiv(a, positive)
        if kind == 13:
            return tf.PythonMod(a, positive)
        if kind == 14:
            return self.r.choice([tf.Max, tf.Min])(a, b, self.leaf())
        if kind == 15:
            return self.r.choice([tf.Max, tf.Min])(a, b)
        if kind == 16:
            return tf.Where(self.condition(depth - 1), a, b)
        return self.rare(kind, depth, a, positive)

    def rare(self, kind: int, depth: int, a: Any, positive: Any) -> Any:
        size = self.r.choice(SIZES)
        if kind == 17:
            return self.r.choice(
                [
                    tf.CeilDiv(a, positive),
                    tf.CleanDiv(a * positive + size, positive),
                    tf.ModularIndexing(size + 3, positive, self.r.randint(2, 9)),
                    tf.Mod(size * positive + 1, positive + 2),
                    tf.LShift(size, UNBACKED[0]),
                    tf.RShift(a, UNBACKED[1]),
                    tf.PowByNatural(positive, UNBACKED[0]),
                ]
            )
        if kind == 18:
            rounding = [tf.CeilToInt, tf.FloorToInt, tf.TruncToInt, tf.RoundToInt]
            return self.r.choice(rounding)(self.real(depth - 1))
        return self.r.choice(
            [
                tf.BitwiseFn_bitwise_and(a, positive),
                tf.BitwiseFn_bitwise_or(a, UNBACKED[1]),
                tf.BitwiseFn_bitwise_xor(UNBACKED[0], a),
                sympy.Abs(a),
                tf.Identity(a + size),
                tf.IsNonOverlappingAndDenseIndicator(size, a, sympy.Integer(1), size),
                sympy.Piecewise((a, self.condition(depth - 1)), (size, True)),
            ]
        )

    def real(self, depth: int) -> Any:
        if depth <= 0:
            return self.r.choice(
                [REAL, sympy.Float(self.r.choice([0.5, 0.1, 2.5, 1e20, -3.0, 1e-7]))]
            )
        a, b = self.real(depth - 1), self.real(depth - 2)
        whole = self.integer(depth - 1)
        kind = self.r.randrange(11)
        if kind == 0:
            return tf.ToFloat(whole)
        if kind == 9:
            return sympy.Rational(self.r.randint(1, 5), self.r.randint(2, 6)) * whole
        if kind == 10:
            return whole * sympy.Pow(self.r.choice(SIZES), -self.r.randint(1, 2))
        if kind == 1:
            return tf.IntTrueDiv(whole, self.r.choice(SIZES) + 1)
        if kind == 2:
            return tf.FloatTrueDiv(a, tf.ToFloat(self.r.choice(SIZES)))
        if kind == 3:
            return tf.FloatPow(a, sympy.Float(2.0))
        if kind == 4:
            return tf.RoundDecimal(a, sympy.Integer(self.r.randint(0, 3)))
        if kind == 5:
            return NAMES[self.r.choice(UNARY)](a)
        if kind == 6:
            return tf.TruncToFloat(a)
        return a + b if kind == 7 else a * b

    def condition(self, depth: int) -> Any:
        kind = self.r.randrange(10) if depth > 0 else 0
        if kind >= 8:
            parts = [self.condition(depth - 1) for _ in range(self.r.randint(2, 3))]
            return self.r.choice([sympy.And, sympy.Or])(*parts)
        if kind == 7:
            return sympy.Not(self.condition(depth - 1), evaluate=False)
        of = self.real if kind == 6 else self.integer
        relation = self.r.choice([sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge])
        return relation(of(depth - 1), of(depth - 1))

    def any(self) -> Any:
        depth = self.r.randint(1, 4)
        return self.r.choice([self.integer, self.integer, self.integer, self.real, self.condition])(
            depth
        )

    def values(self, e: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for symbol in sorted(e.free_symbols, key=str):
            small = self.r.random() < 0.9 or symbol in UNBACKED  # these are exponents
            low = 1 if symbol in SIZES else -9 if self.r.random() < 0.5 else 0
            found[str(symbol)] = self.r.randint(low, 12 if small else 10**6)
            if symbol == REAL:
                found["zuf0"] = self.r.choice([0.5, 2.25, -1.5, 3.0, 0.1, 1e6])
        return found


def parsed(text: str) -> Any:
    """Parse srepr as torch.export.load does, but with torch's own Max and Min."""
    return sympy.sympify(text, locals=NAMES)


def printed(e: Any) -> str:
    try:
        return PythonPrinter().doprint(e)
    except REFUSED:
        return "!"


def number(value: Any) -> str:
    """Show what sympy computed as Python's number."""
    if value in (sympy.true, sympy.false):
        return str(bool(value))
    if isinstance(value, sympy.Integer):
        return str(int(value)) if -(2**63) <= int(value) < 2**63 else "!"
    return repr(float(value)) if value.is_number and value not in (int_oo, -int_oo) else "!"


def computed(e: Any, values: dict[str, Any]) -> str:
    with_numbers = {
        s: sympy.Float(values[str(s)]) if s == REAL else sympy.Integer(values[str(s)])
        for s in e.free_symbols
    }
    try:
        return number(e.replace(tf.Identity, lambda x: x).xreplace(with_numbers).doit())
    except REFUSED:
        return "!"


def case(e: Any, values: dict[str, Any]) -> list[str]:
    shown = [f"{k}={v!r}" for k, v in values.items()]
    return [sympy.srepr(e), str(e), printed(e), computed(e, values), *shown]


def too_slow(*_: Any) -> None:
    raise TimeoutError


def random_cases(seed: int, n: int) -> Iterator[list[str]]:
    """Yield n different expressions that sympy reads back as they are, with numbers of 64 bits."""
    seen: set[str] = set()
    source = Random(seed)
    signal.signal(signal.SIGALRM, too_slow)
    while len(seen) < n:
        try:
            signal.setitimer(signal.ITIMER_REAL, 2)
            e = source.any()
            text = sympy.srepr(e)
            plain = len(text) < 3000 and not e.has(
                sympy.zoo, sympy.nan, sympy.I, sympy.floor, sympy.oo, int_oo
            )
            large = re.search(r"\d{19}|precision=(?!53)|e\+\d{4}", text)
            # Where of what may not be integers is no commutative factor, by oversight.
            ordinary = plain and not large and all(w.is_commutative for w in e.atoms(tf.Where))
            usable = text not in seen and ordinary and parsed(text) == e
            made = case(e, source.values(e)) if usable and e.free_symbols else None
        except (*REFUSED, TimeoutError):
            continue
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if made:
            seen.add(text)
            yield made


def special_cases() -> Iterator[list[str]]:
    """Yield what random expressions rarely or never have."""
    s0, s17 = SIZES[:2]
    u0, u1 = UNBACKED
    source = Random(0)
    cases = [
        *(sympy.true, sympy.false, int_oo, -int_oo, sympy.oo, -sympy.oo, sympy.nan),
        *(sympy.Float(x) for x in (0.5, -2.5, 1e-20, 1e22, 123456789012345.6, 0.1, 3.0, 1 / 3)),
        *(sympy.Float(x) * REAL for x in (1e-5, 1e-4, 1e15, 1e14, -0.25, 2.0 / 3, 1e300)),
        *(sympy.Integer(n) for n in (0, 1, -1, 2**63 - 1, -(2**63))),
        *(sympy.Rational(1, 2), sympy.Rational(-7, 3), s0 / 2, -s0 / 2, 2 * s0 / 3, s0 / s17),
        *(3 - s0, s0 - 3, -3 - s0, 3 - 2 * s0, 3 - s0 * s17, -s0 + s17, 2.5 - s0, s0 - s17),
        *(
            1 / s0,
            s0**-2,
            1 / (s0 * s17),
            1 / (s0 + 1),
            -1 / s0,
            sympy.sqrt(s0),
            1 / sympy.sqrt(s0),
        ),
        *(s0 ** sympy.Rational(3, 2) + sympy.sqrt(s0) + s0, 2**u0, s0**u0, 2 ** (-u0), s0**2 * 3),
        *((s0 + 1) ** 2, -((s0 + 1) ** 2), -(s0 + 1) * s17, s17**2 + SIZES[3] * (s17 + SIZES[3])),
        *(sympy.Eq(u0, 3), u0 >= 2, sympy.Ne(s0 + u0, u1), sympy.And(u0 > 2, u0 < 7)),
        *(sympy.Or(u0 > 2, sympy.Eq(s0, u0)), sympy.Xor(u0 > 2, s0 > 3)),
        *(sympy.Not(sympy.Eq(u0, 3), evaluate=False), sympy.ITE(u0 > 1, s0 > 2, s0 > 3)),
        *(tf.Min(16, 16 * s0 - u0), tf.Max(3, u0, s0 + s17), tf.Max(s0 + s17, u0, 3, s0 * u1)),
        *(tf.FloorDiv(s0, 2) + u0, tf.FloorDiv(s0 - 1, 2) + 1, -tf.FloorDiv(s0, 2), -tf.Mod(s0, 7)),
        *(s17 + tf.FloorDiv(s0, 2) * tf.FloorDiv(s0, 3), 2 * tf.FloorDiv(s0 + s17, 2)),
        *(tf.RoundDecimal(REAL, 2), tf.FloatPow(REAL, sympy.Float(0.5)), tf.TruncToFloat(REAL)),
        *(
            sympy.floor(REAL),
            sympy.ceiling(REAL),
            sympy.Abs(u0),
            tf.Identity(s0),
            tf.Identity(s0) * 2,
        ),
        *(tf.IntTrueDiv(s0 * 10**17, s17 * 3), tf.IntTrueDiv(s0, 3) * 2, u0 * s0 + s0 * u1 + s0),
    ]
    for e in cases:
        yield case(e, source.values(e))


def archive_cases(folders: list[pathlib.Path]) -> Iterator[list[str]]:
    source = Random(1)
    for text in sorted(archive_texts(folders)):
        e = parsed(text)
        assert sympy.srepr(e) == text, text
        yield case(e, source.values(e))


def archive_texts(folders: list[pathlib.Path]) -> set[str]:
    """Collect the expr_str of all archives."""
    found: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("expr_str"), str):
                found.add(node["expr_str"])
            for child in node.values():
                visit(child)
        elif isinstance(node, list):
            for child in node:
                visit(child)

    for path in (p for folder in folders for p in sorted(folder.rglob("*.pt2"))):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if "models/" in name and name.endswith(".json"):
                    visit(json.loads(archive.read(name)))
    return found


def main() -> None:
    cases = [*archive_cases([pathlib.Path(p) for p in sys.argv[1:]]), *special_cases()]
    cases += random_cases(20, 500)
    TABLE.write_text("".join("\t".join(line) + "\n" for line in cases))
    print(f"{len(cases)} expressions in {TABLE.name}, {TABLE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
