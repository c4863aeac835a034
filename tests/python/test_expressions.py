"""Symbolic expressions: read, printed and computed as sympy and torch do.

tests/data/expressions.tsv holds what they said (expression_cases.py makes it); with torch, more
random expressions are made anew.
"""

from __future__ import annotations

import math
import os
import pathlib
import random
import subprocess
from typing import NamedTuple

import pytest
from conftest import DATA

N_RANDOM = int(os.environ.get("RUSH_N_EXPRESSIONS", "1000"))


class Answer(NamedTuple):
    """What expression_tool prints of an expression."""

    srepr: str
    str: str
    python: str
    value: str
    symbols: str
    normal_form: str


def ask(tool: pathlib.Path, lines: list[list[str]], *options: str) -> list[Answer]:
    text = "".join("\t".join(line) + "\n" for line in lines)
    ran = subprocess.run([tool, *options], input=text, capture_output=True, text=True, check=True)
    return [Answer(*line.split("\t")) for line in ran.stdout.splitlines()]


@pytest.fixture(scope="module")
def tool(build: pathlib.Path) -> pathlib.Path:
    path = build / "tests" / "expression_tool"
    if not path.exists():
        pytest.skip("the tests' tools were not built")
    return path


def cases() -> list[list[str]]:
    return [line.split("\t") for line in (DATA / "expressions.tsv").read_text().splitlines()]


def python(value: str) -> bool | int | float:
    return (
        value == "True"
        if value in ("True", "False")
        else (int(value) if value.lstrip("-").isdigit() else float(value))
    )


def same_value(want: str, got: str) -> bool:
    """Compare values.  Sums of floats may be computed in another order.  sympy evaluates what does
    not decide the result, too, and has no value then; it has integers of any length on the way to a
    short one, where we overflow."""
    if want == "!" or got.startswith("! OverflowError"):
        return True
    a, b = python(want), python(got) if not got.startswith("!") else None
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-12) or (math.isnan(a) and math.isnan(b))
    return a == b and (type(a) is type(b) or a == 0)  # sympy's 0.0 may become 0


def compare(tool: pathlib.Path, lines: list[list[str]]) -> None:
    """Compare the answers about all lines with what sympy and torch said."""
    answers = ask(tool, [[text, *values] for text, _, _, _, *values in lines])
    assert len(answers) == len(lines)
    n_values = 0
    for (srepr, shown, code, value, *_), answer in zip(lines, answers, strict=True):
        assert answer.srepr == srepr
        assert answer.str == shown, srepr
        assert answer.python == code or (code == "!" and answer.python.startswith("! Not")), srepr
        assert same_value(value, answer.value), (srepr, value, answer.value)
        n_values += value != "!" and not answer.value.startswith("!")
    assert n_values > 0.8 * len(lines)


def test_as_recorded(tool: pathlib.Path) -> None:
    compare(tool, cases())


def test_random_expressions(tool: pathlib.Path) -> None:
    pytest.importorskip("torch")
    import expression_cases

    seed = random.randrange(10**6)
    print("seed", seed)
    compare(tool, list(expression_cases.random_cases(seed, N_RANDOM)))


S = [f"Symbol('s{i}', positive=True, integer=True)" for i in range(3)]


def extreme(r: random.Random) -> str:
    def term() -> str:
        one = r.choice(S)
        if r.random() < 0.7:
            one = f"Mul(Integer({r.choice([2, 3, 16])}), {one})"
        if r.random() < 0.2:
            return f"Integer({r.randint(-2, 20)})"
        return one if r.random() < 0.5 else f"Add(Integer({r.randint(1, 9)}), {one})"

    args = ", ".join(term() for _ in range(r.randint(2, 3)))
    return f"Add(Integer({r.randint(1, 2)}), {r.choice(['Min', 'Max'])}({args}))"


def test_what_always_loses_in_min_and_max(tool: pathlib.Path) -> None:
    """torch.export.load reads with sympy's own Min and Max, which drop it."""
    cases = {
        f"Min(Integer(16), Mul(Integer(16), {S[0]}))": "16",
        f"Add(Integer(1), Max(Integer(1), {S[0]}))": "s0 + 1",
        f"Max(Integer(2), {S[0]})": "Max(2, s0)",
        f"Max({S[0]}, {S[1]}, Add({S[0]}, Integer(-2)))": "Max(s0, s1)",
        "Max(Integer(1), Symbol('u0', integer=True))": "Max(1, u0)",
    }
    assert [a.str for a in ask(tool, [[text] for text in cases], "--fold")] == [*cases.values()]


def test_random_extremes(tool: pathlib.Path) -> None:
    pytest.importorskip("torch")
    import expression_cases
    import sympy

    names = {k: v for k, v in expression_cases.NAMES.items() if k not in ("Min", "Max")}
    r = random.Random(1)
    lines = [extreme(r) for _ in range(400)]
    answers = ask(tool, [[line] for line in lines], "--fold")
    for line, answer in zip(lines, answers, strict=True):
        assert answer.str == str(sympy.sympify(line, locals=names)), line


def test_table_is_up_to_date() -> None:
    pytest.importorskip("torch")
    import expression_cases

    recorded = cases()
    for text, shown, code, *_ in recorded:
        e = expression_cases.parsed(text)
        if "Not(" in text:  # parsing evaluates it
            continue
        assert (str(e), expression_cases.printed(e)) == (shown, code)
    special = [line[0] for line in expression_cases.special_cases()]
    assert set(special) <= {line[0] for line in recorded}


def test_str_is_read_back(tool: pathlib.Path) -> None:
    """str loses assumptions and says CleanDiv as FloorDiv, but its value and text stay."""
    kept = [line for line in cases() if "Identity" not in line[0] and "Where" not in line[0]]
    answers = ask(tool, [[shown, *values] for _, shown, _, _, *values in kept])
    for (srepr, shown, _, value, *_), answer in zip(kept, answers, strict=True):
        assert answer.str == shown, srepr
        assert same_value(value, answer.value), srepr


def test_python_is_read_back(tool: pathlib.Path) -> None:
    """Code of guards computes what its expression does, as Python's own parser reads it."""
    unlike = (
        "Mod(",
        "Bitwise",
        "Infinity",
        "RoundDecimal",
        "Where(",
        "oo",
        "Opaque",
        "Rational",
        "Identity",
    )
    kept = [line for line in cases() if line[2] != "!" and not any(s in line[0] for s in unlike)]
    assert len(kept) > 300
    answers = ask(tool, [[code, *values] for _, _, code, _, *values in kept], "--python")
    for (srepr, _, code, value, *_), answer in zip(kept, answers, strict=True):
        of_one_kind = len({name[0] for name in answer.symbols.split()}) < 2
        if of_one_kind and "/" not in code and "Pow(" not in srepr:  # else its order may differ
            assert answer.python == code, srepr
        assert same_value(value, answer.value), (code, answer.value)


def test_symbols_in_order_of_appearance(tool: pathlib.Path) -> None:
    [answer] = ask(tool, [["Max(u0 + s17*u0, s17//s0)"]])
    assert answer.symbols == "u0 s17 s0"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("(2*a + 4)//2", "s0 + 2"),
        ("Mod(a*b*8 + 3, 8)", "3"),
        ("CeilDiv(a + 1, 4)", "-((-s0 + 3)//4) + 1"),
        ("ModularIndexing(a, 2, 3)", "((s0//2) % 3)"),
        ("Pow(a, 3) - a*a*a", "0"),
        ("PowByNatural(a, 2)", "s0**2"),
        ("Max(a, 0)", "s0"),
        ("Eq(a, b)", "s0 == s1"),
        ("Ne(a, 2)", "s0 != 2"),
        ("a < b", "s1 > s0"),
        ("a >= 2*b", "s0 >= 2*s1"),
        ("a/2", "-"),
        ("ToFloat(a)", "-"),
        ("a**b", "-"),
        ("Where(a > 2, a, b)", "-"),
    ],
)
def test_normal_forms(tool: pathlib.Path, text: str, form: str) -> None:
    assert ask(tool, [[text]])[0].normal_form == form


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected an expression at character 1, found the end of the text"),
        ("2*s0 +", "expected an expression at character 7, found the end of the text"),
        ("s0 s1", "expected an operator or the end of the text at character 4, found 's1'"),
        ("f(s0)", "expected a function that is known at character 1, found 'f(s0)'"),
        ("Mod(s0)", "expected a call with as many arguments as the function takes at character 1"),
        ("Integer(9223372036854775808)", "expected an integer of 64 bits at character 9"),
        ("Rational(1, 0)", "expected a number of 64 bits"),
        ("1/0", "expected a number of 64 bits"),
        ("Float('1e999', precision=53)", "expected a finite number"),
        ("Float('0.5', precision=73)", "expected a precision of 53 bits"),
        ("Symbol('a', integer=2)", "expected True, False or None"),
        ("Symbol('a", "expected the end of the string"),
        ("Symbol('')", "expected a name"),
        ("ExprCondPair(s0, true)", "expected a function that is known"),
        ("Piecewise(s0)", "expected '('"),
        ("L['x']", "expected an operator or the end of the text at character 2"),
        ("(" * 2000 + "s0", "nested too deep"),
        ("-" * 5000 + "s0", "nested too deep"),
        ("Abs(" * 300 + "s0" + ")" * 300, "nested more than 200 times"),
        ("+".join(["s0"] * 20001), "more than 20000 terms"),
    ],
)
def test_wrong_texts(tool: pathlib.Path, text: str, message: str) -> None:
    answer = ask(tool, [[text]])[0]
    assert answer.srepr.startswith("! ")
    assert message in answer.srepr


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a//0", "ZeroDivisionError"),
        ("Mod(a, 0)", "ZeroDivisionError"),
        ("1/(a - 7)", "ZeroDivisionError"),
        ("IntTrueDiv(a, a - 7)", "ZeroDivisionError"),
        ("9223372036854775807 + a", "OverflowError"),
        ("9223372036854775807*a", "OverflowError"),
        ("a**99", "OverflowError"),
        ("FloorDiv(-9223372036854775807 - 1, a - 8)", "OverflowError"),
        ("LShift(a, 62)", "OverflowError"),
        ("LShift(a, -1)", "ValueError"),
        ("TruncToInt(1e30)", "OverflowError"),
        ("OpaqueUnaryFn_sqrt(-ToFloat(a))", "ValueError"),
        ("OpaqueUnaryFn_exp(ToFloat(a*a*a*a))", "OverflowError"),
        ("FloatPow(-2.0, 0.5)", "ValueError"),
        ("b + 1", "KeyError"),
        ("Mod(a/2, 3)", "TypeError"),
        ("int_oo", "OverflowError"),
    ],
)
def test_no_wrong_values(tool: pathlib.Path, text: str, error: str) -> None:
    assert ask(tool, [[text, "a=7"]])[0].value.startswith("! " + error)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-a//2", "-4"),
        ("Mod(-a, 4)", "1"),
        ("PythonMod(a, -4)", "-1"),
        ("a*(a + 1)/2", "28"),
        ("a/2", "3.5"),
        ("IntTrueDiv(9007199254740993, 3)", "3002399751580331.0"),
        ("IntTrueDiv(9223372036854775807, 3)", "3.0744573456182584e+18"),
        ("Eq(9007199254740993, 9007199254740992.0)", "False"),
        ("9007199254740993 > 9007199254740992.0", "True"),
        ("RoundToInt(2.5) + RoundToInt(3.5)", "6"),
        ("RoundDecimal(2.675, 2)", "2.67"),
        ("Where(a > 3, a, 1//0)", "7"),
        ("(a > 9) & Eq(1//0, 1)", "False"),
        ("Max(a, 7.5)", "7.5"),
        ("RShift(-a, 70)", "-1"),
        ("nan > 1", "False"),
    ],
)
def test_values(tool: pathlib.Path, text: str, value: str) -> None:
    assert ask(tool, [[text, "a=7"]])[0].value == value


@pytest.mark.parametrize(
    ("code", "symbols", "again"),
    [
        ("L['x'].size()[0] % 2 == 0", "L['x'].size()[0]", "(L['x'].size()[0] % 2) == 0"),
        ("1 < L['x'][0].n <= 3", "L['x'][0].n", "L['x'][0].n <= 3 and 1 < L['x'][0].n"),
        ("not a == 2 or b", "a b", "b or not (a == 2)"),
        ("a if b > 2 else 3", "a b", "(a if b > 2 else 3)"),
        ("max(a, b) // min(a, 2)", "a b", "max(a, b) // min(2, a)"),
        ("math.floor(a / b) & 1", "a b", "math.floor(a / b) & 1"),
        ("a - b - 1", "a b", "(-1) + a + ((-1)*b)"),
    ],
)
def test_guards_of_code(tool: pathlib.Path, code: str, symbols: str, again: str) -> None:
    answer = ask(tool, [[code]], "--python")[0]
    assert (answer.symbols, answer.python) == (symbols, again)


def test_numbers_times_sums_stay(tool: pathlib.Path) -> None:
    """What code builds is put in sympy's order; sums and products are not multiplied out."""
    texts = ["Add(Integer(1), s0)", "Mul(s0, Integer(2))", "Add(s0, Mul(a, a), Integer(2), s0*3)"]
    shown = [a.str for a in ask(tool, [[t] for t in texts])]
    assert shown == ["s0 + 1", "2*s0", "a*a + s0 + 3*s0 + 2"]
