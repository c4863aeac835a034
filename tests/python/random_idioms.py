"""Statements of random programs that follow a pattern: early exits of nested loops, refinement of
several names, unpacking in all its forms, objects in objects, with.  random_programs.py has the
plain ones."""

from __future__ import annotations

from collections.abc import Callable

from random_expressions import (
    BOOL,
    FLOAT,
    INT,
    LONG,
    STR,
    UNION,
    WORDS,
    Expressions,
    Function,
    Record,
    Type,
    lst,
    opt,
)

SIMPLE: tuple[Type, ...] = (INT, INT, STR, FLOAT, BOOL, lst(INT), opt(INT))


class Idioms(Expressions):
    def block(
        self, n: int, depth: int, before: Callable[[], None] | None = None, end: str = ""
    ) -> None:
        raise NotImplementedError

    def loop(
        self,
        head: str,
        times: int,
        names: dict[str, Type],
        depth: int,
        frozen: list[Type],
        end: str = "",
    ) -> None:
        raise NotImplementedError

    def if_else(self, depth: int) -> None:
        raise NotImplementedError

    def declare(self, depth: int = 0) -> None:
        raise NotImplementedError

    def iterable(self) -> tuple[str, Type, list[Type]]:
        raise NotImplementedError

    def too_deep(self) -> bool:
        return self.factor * 40 > self.budget

    def exit_line(self) -> str:
        if self.loops and self.chance(0.7):
            word = self.r.choice(("break", "continue"))
            self.note(word)
            return word
        if self.is_procedure:
            self.note("early return of nothing")
            return "return"
        if self.result and self.chance(0.8):
            self.note("early return" + (" in a loop" if self.loops else ""))
            return f"return {self.expr(self.result, 1)}"
        return ""

    # -- Loops
    # ---------------------------------------------------------------------------------------

    def search(self, depth: int) -> None:
        """Nested loops that are left from within, in each way."""
        if self.factor * 15 > self.budget:
            return self.if_else(depth)
        self.note("search in nested loops")
        i, j = self.fresh("i"), self.fresh("x")
        source, u, frozen = self.iterable()
        before = list(self.frozen)
        self.frozen = self.frozen + frozen
        self.loops += 2
        factor, self.factor = self.factor, self.factor * 12
        env, fixed = dict(self.env), set(self.fixed)
        self.put(f"for {i} in range({self.r.randint(2, 3)}):")
        self.indent += 1
        self.env[i] = INT
        self.fixed.add(i)
        self.put(f"for {j} in {source}:")
        self.env[j] = u
        self.fixed.add(j)
        self.block(self.r.randint(0, 1), 0, end=f"if {self.truth(2)}:")
        self.indent += 2
        self.put(self.exit_line() or "break")
        self.indent -= 1
        for _ in range(self.r.randint(0, 2)):
            self.put(f"elif {self.truth(1)}:")
            self.put("    " + (self.exit_line() or "continue"))
        self.indent -= 1
        self.env.pop(j)
        self.loops -= 1
        if self.chance(0.5):
            self.put(f"if {self.truth(1)}:")
            self.put("    " + (self.exit_line() or "break"))
        self.indent -= 1
        self.loops -= 1
        self.factor, self.frozen, self.env, self.fixed = factor, before, env, fixed

    def while_true(self, depth: int) -> None:
        if self.too_deep():
            return self.if_else(depth)
        self.note("while True")
        i = self.fresh("i")
        self.put(f"{i} = 0")
        self.env[i] = INT
        self.fixed.add(i)
        old = self.factor
        self.factor, self.loops = old * 5, self.loops + 1
        self.put("while True:")

        def count() -> None:
            self.put(f"{i} += 1")
            self.put(f"if {i} > {self.r.randint(1, 4)}:")
            self.put("    break")

        self.block(self.r.randint(1, 4), depth - 1, count)
        self.factor, self.loops = old, self.loops - 1

    def for_unpacked(self, depth: int) -> None:
        """Names in parentheses, three at once, an enumerate that starts elsewhere."""
        if self.too_deep():
            return self.if_else(depth)
        a, b, c = (self.fresh("x") for _ in range(3))
        dicts = [(n, t) for n, t in self.env.items() if t[0] == "dict"]
        one, t1, f1 = self.plain_iterable()
        two, t2, f2 = self.plain_iterable()
        k = self.r.randrange(5)
        if k == 0 and dicts:
            n, t = self.r.choice(dicts)
            self.note("for over enumerate of items()")
            return self.loop(
                f"for {a}, ({b}, {c}) in enumerate({n}.items()):",
                LONG,
                {a: INT, b: t[1], c: t[2]},
                depth,
                [t],
            )
        if k == 1:
            self.note("for over enumerate of zip")
            head = f"for {a}, ({b}, {c}) in enumerate(zip({one}, {two})):"
            return self.loop(head, LONG, {a: INT, b: t1, c: t2}, depth, f1 + f2)
        if k == 2:
            self.note("for over zip of three")
            return self.loop(
                f"for {a}, {b}, {c} in zip({one}, {two}, range(4)):",
                4,
                {a: t1, b: t2, c: INT},
                depth,
                f1 + f2,
            )
        if k == 3:
            self.note("for over enumerate from a start")
            # below 0 PyTorch leaves some out
            head = f"for {a}, {b} in enumerate({one}, {self.r.randint(0, 5)}):"
            return self.loop(head, LONG, {a: INT, b: t1}, depth, f1)
        pairs = lst(("tuple", INT, STR))
        self.note("for over a list of tuples")
        return self.loop(
            f"for {a}, {b} in {self.expr(pairs, 1)}:", LONG, {a: INT, b: STR}, depth, [pairs]
        )

    def plain_iterable(self) -> tuple[str, Type, list[Type]]:
        for _ in range(4):
            source, t, frozen = self.iterable()
            if not frozen or frozen[0][0] == "list":
                return source, t, frozen
        return "[1, 2, 3]", INT, []

    def for_fixed(self, depth: int) -> None:
        """Over a tuple, which is unrolled, and over an enumeration."""
        if self.too_deep():
            return self.if_else(depth)
        x = self.fresh("x")
        if self.chance(0.5):
            self.note("for over an enumeration")
            return self.loop(f"for {x} in Color:", 3, {x: ("enum",)}, depth, [])
        self.note("for over a tuple")
        t = self.r.choice((INT, STR, FLOAT))
        items = ", ".join(self.expr(t, 1) for _ in range(self.r.randint(2, 3)))
        loops, self.loops = (
            self.loops,
            -1,
        )  # no break or continue of this loop: TorchScript has none where it unrolls
        self.loop(f"for {x} in ({items}):", 3, {x: t}, 0, [])
        self.loops = loops

    # -- Refinement
    # ----------------------------------------------------------------------------------

    def optionals(self) -> list[tuple[str, Type]]:
        found = [(n, t) for n, t in self.env.items() if t[0] == "opt"]
        while len(found) < 2:
            t = opt(self.r.choice((INT, STR, ("tuple", INT, opt(STR)))))
            v = self.fresh()
            self.put(f"{v}: {self.name(t)} = {self.expr(t, 2)}")
            self.env[v] = t
            found.append((v, t))
        return self.r.sample(found, 2)

    def if_refined_more(self, depth: int) -> None:
        (a, t), (b, u) = self.optionals()

        def known(*names: str) -> Callable[[], None]:
            def learn() -> None:
                for n in names:
                    self.env[n] = self.env[n][1]
                    self.fixed.add(n)

            return learn

        self.tested |= {a, b}
        k = self.r.randrange(6)
        if k == 0:
            self.note("refinement of two names")
            self.put(f"if {a} is not None and {b} is not None:")
            self.block(self.r.randint(1, 3), depth - 1, known(a, b))
        elif k == 1:
            self.note("refinement of two names by or")
            self.put(f"if {a} is None or {b} is None:")
            self.block(1, depth - 1)
            self.put("else:")
            self.block(self.r.randint(1, 3), depth - 1, known(a, b))
        elif k == 2:
            self.note("refinement by not")
            self.put(f"if not ({a} is None):")
            self.block(self.r.randint(1, 2), depth - 1, known(a))
        elif k == 3 and not self.loops and self.chance(0.6):
            self.note("refinement by assert")
            self.put(f"assert {a} is not None, '! none'")
            known(a)()
        elif k == 4 and a not in self.fixed and t[1][0] != "obj":
            self.note("refinement by assignment")
            self.put(f"if {a} is None:")
            del self.env[a]
            self.put(f"    {a} = {self.expr(t[1], 1)}")
            self.env[a] = t
            known(a)()
        else:
            self.nested_refinement(a, t, depth)

    def nested_refinement(self, a: str, t: Type, depth: int) -> None:
        """What an optional tuple holds, an optional too."""
        self.note("nested refinement")
        x = self.fresh()
        self.put(f"if {a} is not None:")
        self.indent += 1
        if t[1][0] == "tuple":
            env, fixed = dict(self.env), set(self.fixed)
            self.put(f"{x} = {a}[1]")
            self.env[x] = ("str",)
            self.fixed.add(x)
            self.put(f"if {x} is not None:")
            self.block(self.r.randint(1, 2), 0)
            self.env, self.fixed = env, fixed
        else:
            self.put(f"if {self.truth(1)}:")
            env, fixed = dict(self.env), set(self.fixed)
            self.env[a] = t[1]
            self.fixed.add(a)
            self.block(self.r.randint(1, 2), 0)
            self.env, self.fixed = env, fixed
        self.indent -= 1

    # -- Assignments
    # ---------------------------------------------------------------------------------

    def assign_more(self, depth: int = 0) -> None:
        k = self.r.randrange(5)
        ints = [n for n, t in self.env.items() if t == INT and n not in self.fixed]
        lists = [
            n for n, t in self.env.items() if t in (lst(INT), lst(STR)) and t not in self.frozen
        ]
        if k == 0:
            self.note("assignment to two names")
            t = self.any_type(1)
            if self.holds_optionals(t):
                t = lst(INT)
            a, b = self.fresh(), self.fresh()
            self.put(f"{a} = {b} = {self.expr(t, 2)}")
            self.env |= {a: t, b: t}
        elif k == 1:
            self.note("nested tuple unpacking")
            a, b, c = (self.fresh() for _ in range(3))
            t = ("tuple", INT, self.r.choice((STR, BOOL, lst(INT))))
            if self.chance(0.5):
                self.put(f"{a}, ({b}, {c}) = {self.expr(('tuple', FLOAT, t), 2)}")
            else:
                self.put(f"({b}, {c}), {a} = {self.expr(t, 2)}, {self.expr(FLOAT, 1)}")
            self.env |= {a: FLOAT, b: INT, c: t[2]}
        elif k == 2 and lists and self.may_write:
            n = self.r.choice(lists)
            self.note("list items that change places")
            self.put(f"if len({n}) > 2:")
            i, j = self.r.sample(("0", "1", "2", "-1", "-2"), 2)
            self.put(f"    {n}[{i}], {n}[{j}] = {n}[{j}], {n}[{i}]")
        elif k == 3 and lists and self.may_write:
            n = self.r.choice(lists)
            if n in self.fixed:
                return self.declare()
            self.note("list *=")
            self.put(f"if len({n}) < 4:")
            self.put(f"    {n} *= {self.r.randint(0, 2)}")
        elif ints:
            n = self.r.choice(ints)
            self.note("augmented assignment of bits")
            op = self.r.choice(("|=", "&=", "^=", "<<=", ">>="))
            self.put(
                f"{n} {op} {self.r.randint(0, 4) if op in ('<<=', '>>=') else self.small_int(1)}"
            )
            self.put(f"{n} = {n} % 101")
        else:
            self.declare()

    # -- Objects
    # -------------------------------------------------------------------------------------

    def objects_with(self, what: str) -> list[tuple[str, Type]]:
        return [
            (n, t)
            for n, t in self.env.items()
            if t[0] == "obj" and n != "self" and what in self.classes[t[1]].magic
        ]

    def object_statement(self, depth: int = 0) -> None:
        """What writes an object by more than an attribute's name."""
        choices = [
            (n, t, m) for m in ("@setter", "__setitem__", "@chain") for n, t in self.objects_with(m)
        ]
        inner = [
            (f"{n}.{a}.{b}", bt)
            for n, t in self.env.items()
            if t[0] == "obj"
            for a, at in self.classes[t[1]].attrs
            if at[0] == "obj"
            for b, bt in self.classes[at[1]].attrs
        ]
        if not self.may_write or self.frozen or not (choices or inner):
            return self.object_list(depth)
        if inner and (not choices or self.chance(0.3)):
            p, pt = self.r.choice(inner)
            self.note("attribute of an attribute written")
            self.put(f"{p} = {self.expr(pt, 1)}")
            return
        n, _, m = self.r.choice(choices)
        self.note(
            "property written"
            if m == "@setter"
            else "method that returns self"
            if m == "@chain"
            else m
        )
        self.cost += self.factor * 6
        if m == "@setter":
            self.put(f"{n}.level = {self.small_int(1)}")
        elif m == "__setitem__":
            self.put(f"{n}[{self.small_int(1)}] = {self.small_int(1)}")
        else:
            self.put(f"{n}.then({self.small_int(1)}).then({self.small_int(0)})")

    def object_list(self, depth: int = 0) -> None:
        """Objects in a list or dict, written through it."""
        found = [(n, t) for n, t in self.env.items() if t[0] == "obj" and self.counter_of(t[1])]
        if not found or not self.may_write or self.frozen:
            return self.declare()
        n, t = self.r.choice(found)
        a, v, x = self.counter_of(t[1]), self.fresh(), self.fresh("x")
        other = self.expr(t, 1)
        if self.chance(0.5):
            self.note("objects in a list")
            self.put(f"{v} = [{n}, {other}]")
            self.put(f"{v}[{self.r.choice((0, 1, -1))}].{a} += {self.r.randint(1, 9)}")
            self.put(f"for {x} in {v}:")
            self.env[v] = lst(t)
        else:
            self.note("objects in a dict")
            self.put(f"{v} = {{'p': {n}, 'q': {other}}}")
            self.put(f"{v}['{self.r.choice('pq')}'].{a} -= {self.r.randint(1, 9)}")
            self.put(f"for {x} in {v}.values():")
        self.put(f"    {x}.{a} = ({x}.{a} + {self.r.randint(1, 50)}) % 101")
        self.put(f"print({n}.{a})")

    def counter_of(self, c: int) -> str:
        return next((a for a, t in self.classes[c].attrs if t == INT), "")

    def with_block(self, depth: int) -> None:
        found = self.objects_with("__enter__")
        if not found or not self.may_write or self.too_deep():
            return self.if_else(depth)
        n, _ = self.r.choice(found)
        self.note("with")
        self.cost += self.factor * 8
        x = self.fresh("x")
        names = {x: INT} if self.chance(0.6) else {}
        self.put(f"with {n} as {x}:" if names else f"with {n}:")

        def bind() -> None:
            self.env.update(names)
            self.fixed.update(names)

        self.block(self.r.randint(1, 3), depth - 1, bind)

    def class_extras(self, c: int) -> None:
        """Special members that write the counter."""
        a = self.counter_of(c)
        if not a:
            return
        name, magic = self.classes[c].name, self.classes[c].magic
        n = self.r.randint(1, 5)
        if self.chance(0.5):
            magic.add("@setter")
            self.lines += [
                "    @property",
                "    def level(self) -> int:",
                f"        return self.{a} % 50",
                "",
            ]
            self.lines += ["    @level.setter", "    def level(self, v: int) -> None:"]
            self.lines += [f"        self.{a} = (v + {n}) % 97", ""]
        if self.chance(0.4):
            magic.add("__setitem__")
            self.lines += [
                "    def __setitem__(self, i: int, v: int) -> None:",
                f"        self.{a} = (i * {n} - v) % 89",
                "",
            ]
        if self.chance(0.5):
            magic.add("@chain")
            self.lines += [f'    def then(self, x: int) -> "{name}":', "        if x % 5 != 0:"]
            self.lines += [
                f"            self.{a} = (self.{a} * {n} + x) % 103",
                "        return self",
                "",
            ]
        if self.chance(0.5):
            magic.add("__enter__")
            self.lines += [
                "    def __enter__(self) -> int:",
                f"        self.{a} = (self.{a} + {n}) % 101",
            ]
            self.lines += [
                f"        return self.{a}",
                "",
                "    def __exit__(self, kind: Any, value: Any, where: Any) -> None:",
            ]
            self.lines += [
                f"        print('left', self.{a})",
                f"        self.{a} = (self.{a} * 2) % 101",
                "",
            ]

    # -- Definitions
    # ---------------------------------------------------------------------------------

    def statement(self, depth: int) -> None:
        raise NotImplementedError

    def record(self) -> None:
        name, fields, n_defaults = f"N{len(self.records)}", [], 0
        for i in range(self.r.randint(1, 4)):
            t = self.r.choice(SIMPLE) if self.chance(0.7) else self.any_type(1)
            fields.append((f"n{i}", t if t[0] != "obj" else INT))
        while (
            n_defaults < len(fields)
            and fields[-1 - n_defaults][1] in (INT, STR, opt(INT))
            and self.chance(0.4)
        ):
            n_defaults += 1
        self.note("own named tuple")
        self.lines.append(f"class {name}(NamedTuple):")
        for i, (f, t) in enumerate(fields):
            value = (
                {INT: " = 4", STR: " = 'n'", opt(INT): " = None"}.get(t, "")
                if i >= len(fields) - n_defaults
                else ""
            )
            self.lines.append(f"    {f}: {self.name(t)}{value}")
        self.lines.append("")
        self.records.append(Record(name, fields, n_defaults))

    def function_of_union(self) -> None:
        """Its parameter is one of several types, which isinstance decides."""
        name, p = self.fresh("f"), self.fresh("p")
        result = self.r.choice((INT, STR, lst(INT)))
        kind = self.r.choice(("Union[int, str, List[int]]", "Any"))
        self.note(f"function of {kind[:5].strip('[')}")
        self.begin([], result, True, 60)
        self.lines.append(f"def {name}({p}: {kind}) -> {self.name(result)}:")
        tests = list(zip(UNION, ("int", "str", "List[int]"), strict=True))[
            : 2 if kind == "Any" else 3
        ]
        for i, (t, text) in enumerate(tests):
            last = kind != "Any" and i == 2
            self.put("else:" if last else f"{'el' * (i > 0)}if isinstance({p}, {text}):")

            def bind(t: Type = t) -> None:
                self.env[p] = t
                self.fixed.add(p)
                for _ in range(self.r.randint(0, 2)):
                    self.statement(0)
                self.put(f"return {self.expr(self.result or INT, 2)}")

            self.block(0, 0, bind)
        if kind == "Any":
            self.put(f"return {self.expr(result, 1)}")
        self.lines.append("")
        self.functions.append(Function(name, [(p, ("union",))], 0, result, False, self.cost + 1))

    def procedure(self) -> None:
        """Returns nothing: what it is for is what it writes."""
        name = self.fresh("f")
        params = [
            (
                self.fresh("p"),
                self.r.choice((lst(INT), lst(STR), ("dict", STR, INT), self.any_object())),
            )
        ]
        params += [(self.fresh("p"), self.any_type(1)) for _ in range(self.r.randint(0, 2))]
        self.note("procedure")
        self.begin(params, None, True, self.r.choice((120, 600)))
        self.is_procedure = True
        arrow = " -> None" if self.chance(0.7) else ""
        self.lines.append(
            f"def {name}({', '.join(f'{p}: {self.name(t)}' for p, t in params)}){arrow}:"
        )
        for _ in range(self.r.randint(2, 5)):
            self.statement(2)
        self.lines.append("")
        self.functions.append(Function(name, params, 0, ("none",), False, self.cost + 1))

    def message(self) -> str:
        """Of an error: the program's own begin with "! ", and are compared."""
        word = self.r.choice(WORDS[1:])
        if self.chance(0.5):
            return repr("! " + word)
        self.note("message made")
        n, s = self.pick(INT), self.pick(STR)
        if n and self.chance(0.6) and "'" not in n and '"' not in n:
            return f'f"! {word} {{{n}}}"'
        return f"'! ' + {s}" if s else f"'! {word} ' + str({self.small_int(0)})"
