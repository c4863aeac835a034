"""Random well-typed programs that mean the same in TorchScript and in Python.

    python tests/python/random_programs.py SEED [--census N]      prints a program, or counts of
    what N of them hold

program(seed) gives a text with a function `main`, and argument tuples for it.  random_run.py runs
programs three times, with rushlight, PyTorch and CPython, which must agree.  So what the languages
define differently is left out on purpose:

* integers stay small (every stored one is below BIG; products below 2**50), floats finite, texts
and lists short;
* no division by zero, no printing of floats, or of texts inside containers, no iteration over a
list that the body writes;
* no % of floats and // by powers of two alone (PyTorch rounds on the way), no ** and round() of
integers (it makes floats),
  no int() or float() of a text with a space behind the number, no zfill() of a sign, no "is" of
  enumeration members, no popitem(), no sorted() of a text;
* no closures, lambdas, try, comprehension's if, slices written or deleted: TorchScript has none;
* what may raise stands in print(): compilers drop an unused expression with its error.

An expression is made for a type it must have, from the variables in reach, with a bound of what it
can be.  A program is all that a seed says: the same in every process.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from random_expressions import (
    BOOL,
    FLOAT,
    INT,
    LONG,
    MAGIC,
    STR,
    WORDS,
    Class,
    Function,
    Type,
    lst,
    opt,
)
from random_idioms import Idioms

HEAD = """import math
import torch
from enum import Enum
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

"""


class Program(NamedTuple):
    text: str
    calls: list[tuple]
    census: Counter


class Writer(Idioms):
    """One program in the making."""

    # -- Statements
    # ----------------------------------------------------------------------------------

    def block(
        self, n: int, depth: int, before: Callable[[], None] | None = None, end: str = ""
    ) -> None:
        """An indented block of about n statements; its new names are forgotten after it."""
        env, fixed = dict(self.env), set(self.fixed)
        self.indent += 1
        mark = len(self.lines)
        if before:
            before()
        for _ in range(n):
            if self.cost < self.budget:
                self.statement(depth)
        if end:
            self.put(end)
        if len(self.lines) == mark:
            self.put("pass")
        self.indent -= 1
        self.env, self.fixed = env, fixed

    def statement(self, depth: int) -> None:
        simple = (
            self.declare,
            self.declare,
            self.declare,
            self.assign,
            self.assign,
            self.augment,
            self.write,
            self.write,
            self.write,
            self.show,
            self.unpack,
            self.call_statement,
            self.risky,
            self.assign_more,
            self.object_statement,
            self.object_statement,
        )
        compound = (
            self.if_else,
            self.if_else,
            self.if_refined,
            self.for_range,
            self.for_each,
            self.for_several,
            self.while_loop,
            self.define_in_both,
            self.leave,
            self.fail,
            self.search,
            self.while_true,
            self.for_unpacked,
            self.for_fixed,
            self.if_refined_more,
            self.with_block,
        )
        if self.loops > 0 and self.chance(0.08):
            return self.leave(depth)
        self.r.choice(simple if depth <= 0 or self.chance(0.68) else compound)(depth)

    def declare(self, depth: int = 0) -> None:
        t = self.any_type()
        value = self.expr(t, 2)
        v = self.fresh()
        plain = not self.holds_optionals(t) and self.chance(0.6)
        self.note("assignment" if plain else "annotated assignment")
        self.put(f"{v} = {value}" if plain else f"{v}: {self.name(t)} = {value}")
        self.env[v] = t

    def targets(self) -> list[tuple[str, Type]]:
        found = [
            (n, t) for n, t in self.env.items() if n not in self.fixed and n not in self.tested
        ]
        if self.may_write and not self.frozen:
            for n, t in self.env.items():
                if t[0] == "obj":
                    found += [(f"{n}.{a}", at) for a, at in self.classes[t[1]].attrs]
        return found

    def assign(self, depth: int = 0) -> None:
        found = self.targets()
        if not found:
            return self.declare()
        target, t = self.r.choice(found)
        self.note("attribute written" if "." in target else "assignment")
        self.put(f"{target} = {self.expr(t, 2)}")

    def augment(self, depth: int = 0) -> None:
        found = [(n, t) for n, t in self.targets() if t in (INT, FLOAT, STR)]
        if not found:
            return self.assign()
        if self.chance(0.4) and self.augment_by_itself():
            return
        target, t = self.r.choice(found)
        self.note("augmented assignment")
        if t == STR:
            self.put(f"{target} += {self.expr(STR, 1)}")
            self.put(f"{target} = {target}[-12:]")
        else:
            self.put(f"{target} {self.r.choice(('+=', '-=', '*='))} {self.expr(t, 1)}")
            self.put(
                f"{target} = {target} % 101"
                if t == INT
                else f"{target} = math.fmod({target}, 50.0)"
            )

    def augment_by_itself(self) -> bool:
        """x.a += x.bump(), which writes x.a: it is read before."""
        found = [(n, t[1]) for n, t in self.env.items() if t[0] == "obj"]
        bumps = [
            (n, m, self.counter(c))
            for n, c in found
            for m in self.classes[c].methods
            if m.name == "bump" and self.may_call(m)
        ]
        if not bumps:
            return False
        n, m, a = self.r.choice(bumps)
        self.cost += self.factor * m.cost
        self.note("augmented by a call that writes it")
        self.put(f"{n}.{a} {self.r.choice(('+=', '-='))} {n}.bump()")
        self.put(f"{n}.{a} = {n}.{a} % 101")
        return True

    def counter(self, c: int) -> str:
        """The attribute that bump() counts in, or ""."""
        return next((a for a, t in self.classes[c].attrs if t == INT), "")

    def unpack(self, depth: int = 0) -> None:
        self.note("tuple unpacking")
        swap = [n for n, t in self.env.items() if t == INT and n not in self.fixed]
        if len(swap) > 1 and self.chance(0.4):
            a, b = self.r.sample(swap, 2)
            self.put(f"{a}, {b} = {b}, {self.small_int(1)}")
            return
        t = ("tuple", *(self.any_type(1) for _ in range(self.r.randint(2, 3))))
        value = self.expr(t, 2)
        names = [self.fresh() for _ in t[1:]]
        self.put(f"{', '.join(names)} = {value}")
        for n, u in zip(names, t[1:], strict=True):
            if u[0] != "opt":
                self.env[n] = u

    def show(self, depth: int = 0) -> None:
        self.note("print")
        self.put(f"print({', '.join(self.printable(2) for _ in range(self.r.randint(1, 3)))})")

    def call_statement(self, depth: int = 0) -> None:
        found = [INT] + [f.result for f in self.functions]
        for t in self.env.values():
            found += [m.result for m in self.classes[t[1]].methods] if t[0] == "obj" else []
        for t in self.r.sample(found, len(found)):
            call = self.call(t, 2)
            if call:
                self.put(call)
                return
        self.show()

    def containers(self) -> list[tuple[str, Type]]:
        """Lists and dicts that may be written, also inside objects and other lists."""
        if not self.may_write:
            return []
        found = []
        for n, t in self.env.items():
            found.append((n, t))
            if t[0] == "obj":
                found += [(p, pt) for p, pt in self.parts(n, t) if "[" not in p]
        return [(n, t) for n, t in found if t[0] in ("list", "dict") and t not in self.frozen]

    def write(self, depth: int = 0) -> None:
        found = self.containers()
        if not found:
            return self.declare()
        n, t = self.r.choice(found)
        (self.write_list if t[0] == "list" else self.write_dict)(n, t)

    def write_list(self, n: str, t: Type) -> None:
        u = t[1]
        k = self.r.randrange(12)
        guard, what, line = f"if len({n}) > 0:", "", ""
        i = self.r.choice(("0", "-1", f"{self.small_int(0)} % len({n})", f"len({n}) - 1"))
        if k < 3:
            guard, what, line = f"if len({n}) < {LONG}:", "append", f"{n}.append({self.expr(u, 2)})"
        elif k == 3:
            guard, what, line = (
                f"if len({n}) < {LONG - 4}:",
                "extend",
                f"{n}.extend({self.expr(t, 1)}[:3])",
            )
        elif k == 4:
            guard, what, line = (
                f"if len({n}) < {LONG}:",
                "insert",
                f"{n}.insert({self.r.choice((0, 1, -1, 3, 20))}, {self.expr(u, 1)})",
            )
        elif k == 5:
            what, line = "pop", f"{n}.pop({self.r.choice(('', i))})"
        elif k == 6:
            what, line = "item written", f"{n}[{i}] = {self.expr(u, 1)}"
        elif k == 7 and u == INT:
            what, line = "item augmented", f"{n}[{i}] += {self.r.choice((1, 2, -3))}"
            self.put(guard)
            self.put("    " + line)
            guard, line = f"if len({n}) > 0:", f"{n}[{i}] = {n}[{i}] % 100"
        elif k == 7:
            what, line = "item deleted", f"del {n}[{i}]"
        elif k == 8 and u in (INT, STR, FLOAT):
            guard, what, line = "", "sort", f"{n}.sort({self.r.choice(('', 'reverse=True'))})"
        elif k == 8 or k == 9:
            guard, what, line = "", "reverse", f"{n}.reverse()"
        elif k == 10 and self.chance(0.3):
            guard, what, line = "", "clear", f"{n}.clear()"
        elif k == 10:
            guard, what, line = (
                f"if len({n}) < {LONG - 4}:",
                "list +=",
                f"{n} += {self.expr(t, 1)}[:2]",
            )
            if "." in n or n in self.fixed:
                line = f"{n}.extend({self.expr(t, 0)}[1:3])"
        elif u[0] == "list" and u not in self.frozen and u[1] == INT:
            what, line = "inner list written", f"{n}[{i}].append({self.small_int(1)})"
            guard = f"if len({n}) > 0 and len({n}[{i}]) < {LONG}:"
        elif u == INT or u == STR:
            x = self.expr(u, 0)
            guard, what, line = f"if {x} in {n}:", "remove", f"{n}.remove({x})"
        else:
            guard, what, line = f"if len({n}) < {LONG}:", "append", f"{n}.append({self.expr(u, 2)})"
        self.note("list " + what)
        if guard:
            self.put(guard)
        self.put("    " * bool(guard) + line)

    def write_dict(self, n: str, t: Type) -> None:
        key = self.key(t[1], 1)
        k = self.r.randrange(9)
        if k < 4 and t[2] == lst(INT) and t[2] not in self.frozen and self.chance(0.6):
            self.note("dict inner list written")
            key = self.key(t[1], 0)
            self.put(f"if {key} in {n} and len({n}[{key}]) < {LONG}:")
            self.put(
                f"    {n}[{key}].{self.r.choice(('append(', 'insert(0, '))}{self.small_int(1)})"
            )
        elif k < 4:
            self.note("dict item written")
            self.put(f"{n}[{key}] = {self.expr(t[2], 2)}")
        elif k == 4:
            self.note("dict setdefault")
            self.put(f"{n}.setdefault({key}, {self.expr(t[2], 1)})")
        elif k == 5:
            self.note("dict update")
            self.put(f"{n}.update({self.expr(t, 1)})")
        elif k == 6:
            key = self.key(t[1], 0)
            self.note("dict item deleted")
            self.put(f"if {key} in {n}:")
            self.put(f"    {self.r.choice((f'del {n}[{key}]', f'{n}.pop({key})'))}")
        elif k == 7 and t[2] == INT:
            key = self.key(t[1], 0)
            self.note("dict item augmented")
            self.put(f"if {key} in {n}:")
            self.put(f"    {n}[{key}] += {self.r.randint(-3, 3)}")
            self.put(f"    {n}[{key}] = {n}[{key}] % 100")
        elif self.chance(0.3):
            self.note("dict clear")
            self.put(f"{n}.clear()")
        else:
            self.put(f"{n}[{key}] = {self.expr(t[2], 1)}")

    def risky(self, depth: int = 0) -> None:
        """Put code that may raise into print()."""
        if self.loops and self.chance(0.7):
            return self.show()
        choices = []
        for n, t in self.env.items():
            if t in (lst(INT), lst(STR)):
                choices += [
                    ("index error", f"{n}[{self.small_int(0)} % 16]"),
                    ("index error", f"{n}[{self.r.randint(-4, 4)}]"),
                    ("value error of index", f"{n}.index({self.expr(t[1], 0)})"),
                ]
                if self.may_write and not self.frozen:
                    choices.append(("pop of an empty list", f"{n}.pop()"))
            elif t[0] == "dict" and t[2] in (INT, STR):
                choices.append(("key error", f"{n}[{self.key(t[1], 0)}]"))
            elif t == STR:
                # PyTorch's int() refuses "1 ", which Python's takes: without the space; and what 64
                # bits do not hold.
                number = f"int({n}[:9].strip())"
                choices += [
                    ("text index error", f"{n}[{self.r.randint(-3, 5)}]"),
                    ("value error of int()", number),
                ]
            elif t == INT:
                choices.append(("division by zero", f"7 // ({n} % 5)"))
        if not choices:
            return self.show()
        what, text = self.r.choice(choices)
        self.note(what)
        self.put(f"print({text})")

    # -- Control flow
    # --------------------------------------------------------------------------------

    def if_else(self, depth: int) -> None:
        self.note("if")
        self.put(f"if {self.truth(2)}:")
        self.block(self.r.randint(1, 3), depth - 1)
        while self.chance(0.2):
            self.note("elif")
            self.put(f"elif {self.truth(2)}:")
            self.block(self.r.randint(1, 2), depth - 1)
        if self.chance(0.5):
            self.note("else")
            self.put("else:")
            self.block(self.r.randint(1, 3), depth - 1)

    def if_refined(self, depth: int) -> None:
        found = [(n, t) for n, t in self.env.items() if t[0] == "opt"]
        if not found:
            t = opt(self.r.choice((INT, STR, lst(INT))))
            v = self.fresh()
            self.put(f"{v}: {self.name(t)} = {self.expr(t, 2)}")
            self.env[v] = t
            found = [(v, t)]
        n, t = self.r.choice(found)
        k = self.r.randrange(5)

        def known() -> None:
            self.env[n] = t[1]
            self.fixed.add(n)

        if k < 2:
            self.note("refinement by is not None")
            self.put(
                f"if {n} is not None:"
                if self.chance(0.6)
                else f"if {n} is not None and {self.truth(1)}:"
            )
            self.block(self.r.randint(1, 3), depth - 1, known)
            if self.chance(0.3):
                self.put("else:")
                self.block(1, depth - 1)
        elif k == 2:
            self.note("refinement by is None, else")
            self.put(f"if {n} is None:")
            self.block(1, depth - 1, lambda: self.env.pop(n) and None)  # whose type is now None's
            self.put("else:")
            self.block(self.r.randint(1, 3), depth - 1, known)
        elif k == 3 and self.result and not self.loops:
            self.note("refinement by return")
            self.put(f"if {n} is None:")
            of = self.env.pop(n)
            self.block(0, 0, end=f"return {self.expr(self.result, 1)}")
            self.env[n] = of
            known()
        else:
            self.note("refinement by conditional expression")
            v = self.fresh()
            self.put(f"{v} = {n} if {n} is not None else {self.expr(t[1], 1)}")
            self.env[v] = t[1]

    def loop(
        self,
        head: str,
        times: int,
        names: dict[str, Type],
        depth: int,
        frozen: list[Type],
        end: str = "",
    ) -> None:
        self.put(head)
        old, frozen_before = self.factor, list(self.frozen)
        self.factor, self.loops, self.frozen = (
            old * max(times, 1),
            self.loops + 1,
            self.frozen + frozen,
        )

        def bind() -> None:
            self.env.update(names)
            self.fixed.update(names)

        self.block(self.r.randint(1, 4), depth - 1, bind, end)
        self.factor, self.loops, self.frozen = old, self.loops - 1, frozen_before

    def for_range(self, depth: int) -> None:
        if self.too_deep():
            return self.if_else(depth)
        i = self.fresh("i")
        k = self.r.randrange(4)
        if k == 0:
            span = str(self.r.randint(0, 6))
        elif k == 1:
            span = f"{self.r.randint(-2, 3)}, {self.r.randint(0, 6)}"
        elif k == 2:
            span = (
                f"{self.r.randint(-3, 9)}, {self.r.randint(-3, 9)}, "
                f"{self.r.choice((1, 2, 3, -1, -2))}"
            )
        else:
            span = f"{self.small_int(0)} % {self.r.randint(1, 6)}"
        self.note("for over range")
        self.loop(f"for {i} in range({span}):", 6, {i: INT}, depth, [])

    def iterable(self) -> tuple[str, Type, list[Type]]:
        """What can be iterated over, its elements, the types that the body must not write."""
        found: list[tuple[str, Type, list[Type]]] = []
        for n, t in self.env.items():
            if t[0] == "list":
                found += [(n, t[1], [t]), (f"{n}[:{self.r.randint(1, 6)}]", t[1], [])]
            elif t[0] == "dict":
                found += [(n, t[1], [t]), (f"{n}.keys()", t[1], [t]), (f"{n}.values()", t[2], [t])]
            elif t == STR:
                found.append((n, STR, []))
        t = lst(self.r.choice((INT, STR)))
        found.append((f"[{self.expr(t[1], 1)}, {self.expr(t[1], 1)}]", t[1], []))
        source, u, frozen = self.r.choice(found)
        self.note(
            "iteration over "
            + (frozen[0][0] if frozen else "text" if source in self.env else "copy")
        )
        return source, u, frozen

    def for_each(self, depth: int) -> None:
        if self.too_deep():
            return self.if_else(depth)
        source, u, frozen = self.iterable()
        x = self.fresh("x")
        self.note("for over a container")
        self.loop(f"for {x} in {source}:", LONG, {x: u}, depth, frozen)

    def for_several(self, depth: int) -> None:
        if self.too_deep():
            return self.if_else(depth)
        dicts = [(n, t) for n, t in self.env.items() if t[0] == "dict"]
        a, b = self.fresh("x"), self.fresh("x")
        if dicts and self.chance(0.35):
            n, t = self.r.choice(dicts)
            self.note("for over items()")
            return self.loop(f"for {a}, {b} in {n}.items():", LONG, {a: t[1], b: t[2]}, depth, [t])
        source, u, frozen = self.iterable()
        if ".keys" in source or ".values" in source or frozen and frozen[0][0] == "dict":
            source = f"list({source})" if "." in source else f"list({source}.keys())"
        if self.chance(0.5):
            self.note("for over enumerate")
            return self.loop(
                f"for {a}, {b} in enumerate({source}):", LONG, {a: INT, b: u}, depth, frozen
            )
        other, w, more = self.iterable()
        if more and more[0][0] == "dict":
            other, w, more = "[1, 2, 3]", INT, []
        self.note("for over zip")
        self.loop(
            f"for {a}, {b} in zip({source}, {other}):", LONG, {a: u, b: w}, depth, frozen + more
        )

    def while_loop(self, depth: int) -> None:
        if self.too_deep():
            return self.if_else(depth)
        if self.chance(0.3):
            return self.while_swapping(depth)
        i = self.fresh("i")
        self.note("while")
        self.put(f"{i} = 0")
        head = (
            f"while {i} < {self.r.randint(1, 5)}"
            + (f" and {self.truth(1)}" if self.chance(0.4) else "")
            + ":"
        )
        self.env[i] = INT
        self.fixed.add(i)
        old = self.factor
        self.factor, self.loops = old * 5, self.loops + 1
        self.put(head)
        self.block(self.r.randint(1, 4), depth - 1, lambda: self.put(f"{i} += 1"))
        self.factor, self.loops = old, self.loops - 1

    def while_swapping(self, depth: int) -> None:
        """Variables that take each other's places, one of which the test compares; their sum gets
        smaller."""
        a, b = self.fresh("i"), self.fresh("i")
        self.note("while over variables that change places")
        for v in (a, b):
            self.put(f"{v} = {self.small_int(0)} % {self.r.randint(2, 4)}")
        self.env |= {a: INT, b: INT}
        self.fixed |= {a, b}
        old = self.factor
        self.factor, self.loops = old * 6, self.loops + 1
        self.put(f"while {a} {self.r.choice(('>', '!='))} 0:")
        self.block(self.r.randint(0, 2), depth - 1, lambda: self.put(f"{a}, {b} = {b}, {a} - 1"))
        self.factor, self.loops = old, self.loops - 1

    def define_in_both(self, depth: int) -> None:
        """A name that both branches define, or that one does while the other leaves."""
        t = self.any_type(1)
        if self.holds_optionals(t):
            t = INT
        v = self.fresh()
        self.note("name defined by branches")
        test = self.truth(2)
        self.put(f"if {test}:")
        self.block(self.r.randint(0, 1), depth - 1, end="")
        self.tail_of_block(f"{v} = {self.expr(t, 2)}")
        self.put("else:")
        end = f"{v} = {self.expr(t, 2)}"
        if self.chance(0.3) and self.result:  # break and continue do not count as leaving there
            end = f"return {self.expr(self.result, 1)}"
        self.block(self.r.randint(0, 1), depth - 1)
        self.tail_of_block(end)
        self.env[v] = t

    def tail_of_block(self, line: str) -> None:
        self.indent += 1
        self.put("pass")
        if self.lines.pop() == self.lines[-1]:  # this block's, not that of a block within
            self.lines.pop()
        self.put(line)
        self.indent -= 1

    def leave(self, depth: int) -> None:
        """A break, continue or return under a condition."""
        line = self.exit_line()
        if not line:
            return self.if_else(depth)
        self.put(f"if {self.truth(2)}:")
        self.block(self.r.randint(0, 1), 0)
        self.tail_of_block(line)

    def fail(self, depth: int) -> None:
        rare = f"{self.small_int(0)} % 11 == {self.r.randint(0, 10)}"
        errors = (
            "ValueError",
            "RuntimeError",
            "IndexError",
            "KeyError",
            "TypeError",
            "NotImplementedError",
            "Oops",
        )
        error = self.r.choice(errors)
        if self.chance(0.4):
            self.note("assert")
            self.put(f"assert not ({rare}), {self.message()}")
        else:
            self.note("raise")
            self.put(f"if {rare}:")
            self.block(self.r.randint(0, 1), 0)
            self.tail_of_block(f"raise {error}({self.message()})")

    # -- Definitions
    # ---------------------------------------------------------------------------------

    def parameters(self, n: int, own: int = -1) -> tuple[list[tuple[str, Type]], int, str]:
        params = []
        for _ in range(n):
            t = self.any_type(1)
            while ("obj", own) in (t, t[-1]):
                t = self.any_type(1)
            params.append((self.fresh("p"), t))
        texts = [f"{p}: {self.name(t)}" for p, t in params]
        n_defaults = 0
        values = {INT: "3", STR: "'d'", BOOL: "True", FLOAT: "1.5"}
        while n_defaults < n and self.chance(0.4):
            t = params[n - 1 - n_defaults][1]
            if t not in values and t[0] != "opt":
                break
            n_defaults += 1
            value = values.get(t, "None")
            texts[n - n_defaults] += f" = {value}"
            self.note("default argument")
        return params, n_defaults, ", ".join(texts)

    def function(self, method_of: int = -1) -> None:
        name = self.fresh("m" if method_of >= 0 else "f")
        params, n_defaults, text = self.parameters(self.r.randint(1, 3), method_of)
        result = self.any_type(1)
        while ("obj", method_of) in (result, result[-1]):
            result = self.any_type(1)
        pure = self.chance(0.35)
        own = [("self", ("obj", method_of))] if method_of >= 0 else []
        indent = "    " if method_of >= 0 else ""
        self.begin(own + params, result, not pure, self.r.choice((120, 120, 600)))
        keyword_only = method_of < 0 and n_defaults == 0 and len(params) > 1 and self.chance(0.12)
        if keyword_only:
            self.note("keyword-only argument")
            text = text[: text.index(params[-1][0])] + "*, " + text[text.index(params[-1][0]) :]
        arrow = f" -> {self.name(result)}"
        if result in (INT, STR, BOOL, lst(INT)) and self.chance(0.15):
            self.note("return type inferred")
            arrow = ""
        self.fixed.add("self")
        self.indent += method_of >= 0
        self.lines.append(f"{indent}def {name}({'self, ' if own else ''}{text}){arrow}:")
        for _ in range(self.r.randint(1, 4)):
            self.statement(2)
        self.put(f"return {self.expr(result, 2)}")
        self.lines.append("")
        f = Function(name, params, n_defaults, result, pure, self.cost + 1, keyword_only)
        self.note("method" if own else "function")
        (self.classes[method_of].methods if own else self.functions).append(f)

    def klass(self) -> None:
        name = f"C{len(self.classes)}"
        attrs = []
        for i in range(self.r.randint(1, 4)):
            attrs.append((f"a{i}", self.any_type(1)))
        self.lines.append(f"class {name}:")
        self.lines.append(
            f"    def __init__(self, {', '.join(f'{a}: {self.name(t)}' for a, t in attrs)}) -> "
            f"None:"
        )
        self.lines += [f"        self.{a} = {a}" for a, _ in attrs] + [""]
        self.note("class")
        self.classes.append(Class(name, attrs, [], set()))
        for _ in range(self.r.randint(1, 3)):
            self.function(len(self.classes) - 1)
        counter = self.counter(-1)
        if counter and self.chance(0.6):
            self.lines += [
                "    def bump(self) -> int:",
                f"        self.{counter} = (self.{counter} + 3) % 101",
            ]
            self.lines += [f"        return self.{counter}", ""]
            self.classes[-1].methods.append(Function("bump", [], 0, INT, False, 3))
        self.class_extras(len(self.classes) - 1)
        for m, (params, result, _) in MAGIC.items():
            if self.chance(0.15):
                self.magic_method(m, params, result)
                self.classes[-1].magic.add(m)

    def magic_method(self, m: str, params: list[Type], result: Type) -> None:
        names = [(self.fresh("p"), t) for t in params]
        static = m == "@staticmethod"
        self.begin(
            ([] if static else [("self", ("obj", len(self.classes) - 1))]) + names, None, False, 60
        )
        self.indent += 1
        if m.startswith("@"):
            self.lines.append(f"    {m}")
        name = {"@property": "prop", "@staticmethod": "fixed"}.get(m, m)
        args = ", ".join([] if static else ["self"]) + "".join(
            f"{'' if static else ', '}{p}: {self.name(t)}" for p, t in names
        )
        self.lines.append(f"    def {name}({args}) -> {self.name(result)}:")
        if self.chance(0.4):
            self.statement(1)
        value = self.expr(result, 2)
        self.put(f"return {'abs(' + value + ')' if m == '__len__' else value}")
        self.lines.append("")

    def flat(self, n: str, t: Type, depth: int = 0) -> list[tuple[str, Type]]:
        """What main returns of a variable."""
        if t[0] == "obj":
            return (
                []
                if depth > 1
                else [
                    x
                    for a, at in self.classes[t[1]].attrs
                    for x in self.flat(f"{n}.{a}", at, depth + 1)
                ]
            )
        if t[0] == "named":
            return [(f"{n}.count", INT), (f"{n}.label", STR), (f"{n}.items", lst(INT))]
        if t[0] == "record":
            return [
                x for f, ft in self.records[t[1]].fields for x in self.flat(f"{n}.{f}", ft, depth)
            ]
        if t[0] == "enum":
            return [(f"{n}.value", INT)]
        if t[0] == "tuple":
            return [x for i, u in enumerate(t[1:]) for x in self.flat(f"{n}[{i}]", u, depth)]
        if self.holds_objects(t):
            x = self.fresh("x")
            parts = self.flat(x, t[1], depth + 1) if t[0] == "list" else []
            return [(f"[{text} for {x} in {n}]", lst(u)) for text, u in parts]
        return [(n, t)]

    def holds_objects(self, t: Any) -> bool:
        return t[0] in ("obj", "named", "record", "enum") or any(
            isinstance(u, tuple) and self.holds_objects(u) for u in t[1:]
        )

    def main(self) -> list[tuple]:
        kinds = (
            INT,
            INT,
            FLOAT,
            BOOL,
            STR,
            lst(INT),
            lst(INT),
            lst(STR),
            ("dict", STR, INT),
            ("dict", INT, INT),
            opt(INT),
            ("tuple", INT, STR),
        )
        params = [(self.fresh("p"), self.r.choice(kinds)) for _ in range(self.r.randint(3, 5))]
        self.begin(params, None, True, 1500)
        self.lines.append("def main(" + ", ".join(f"{p}: {self.name(t)}" for p, t in params) + "):")
        for i in range(len(self.classes)):
            if self.chance(0.6):
                v = self.fresh()
                self.put(f"{v} = {self.expr(('obj', i), 2)}")
                self.env[v] = ("obj", i)
        for _ in range(self.r.randint(0, 4)):
            self.declare()
        for _ in range(self.r.randint(4, 9)):
            self.statement(3)
        out = [text for n, t in self.env.items() for text, _ in self.flat(n, t)]
        self.put(f"return ({', '.join(out[-40:])},)")
        return [tuple(self.value(t) for _, t in params) for _ in range(3)]

    def value(self, t: Type) -> Any:
        """An argument."""
        r = self.r
        if t == INT:
            return r.choice((0, 1, 2, 5, -3, 17, 100, -40, 999))
        if t == FLOAT:
            return r.choice((0.0, 0.5, -2.25, 3.0, 0.1, 123.456))
        if t == BOOL:
            return r.random() < 0.5
        if t == STR:
            return r.choice(WORDS)
        if t[0] == "list":
            return [self.value(t[1]) for _ in range(r.randint(0, 5))]
        if t[0] == "dict":
            return {
                (r.randrange(7) if t[1] == INT else r.choice(WORDS)): self.value(t[2])
                for _ in range(r.randint(0, 4))
            }
        if t[0] == "tuple":
            return tuple(self.value(u) for u in t[1:])
        return None if r.random() < 0.4 else self.value(t[1])

    def write_all(self) -> Program:
        self.lines += [
            "class Pair(NamedTuple):",
            "    count: int",
            "    label: str",
            "    items: List[int]",
            "",
        ]
        self.lines += ["class Color(Enum):", "    RED = 1", "    GREEN = 2", "    BLUE = 5", ""]
        self.lines += ["class Oops(Exception):", "    pass", ""]
        for _ in range(self.r.randint(0, 2)):
            self.record()
        for _ in range(self.r.randint(0, 2)):
            self.klass()
        for _ in range(self.r.randint(1, 3)):
            self.r.choice(
                (
                    self.function,
                    self.function,
                    self.function,
                    self.function_of_union,
                    self.procedure,
                )
            )()
        calls = self.main()
        return Program(HEAD + "\n".join(self.lines) + "\n", calls, self.census)


def program(seed: int) -> Program:
    return Writer(seed).write_all()


def main() -> None:
    if "--census" in sys.argv:
        total: Counter = Counter()
        n = int(sys.argv[-1])
        for seed in range(int(sys.argv[1]), int(sys.argv[1]) + n):
            total.update(program(seed).census)
        for what, count in sorted(total.items()):
            print(f"{what:40} {count}")
        return
    p = program(int(sys.argv[1]))
    print(p.text)
    for call in p.calls:
        print("#", call)


if __name__ == "__main__":
    main()
