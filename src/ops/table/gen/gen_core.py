"""Formulas of pointwise operators become their decompositions: TorchScript over operators that
torch.export's run_decompositions leaves, or that are decomposed in turn.  Used by gen.py.

A formula (gen_tape.py) is printed operation by operation: `a + b * c` is torch.add(a, torch.mul(b,
c)).  What is computed of numbers alone stays Python.  Each arm of an entry becomes a branch on what
the formula was chosen by: dtypes, and values of arguments.
"""

from __future__ import annotations

import ast
from typing import Any

from gen_tape import CLASSES, DTYPES, ExprError, flatten

BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
}
COMPARE = {
    ast.Eq: ("eq", "eq"),
    ast.NotEq: ("ne", "ne"),
    ast.Lt: ("lt", "gt"),  # of tensor and number, of number and tensor
    ast.LtE: ("le", "ge"),
    ast.Gt: ("gt", "lt"),
    ast.GtE: ("ge", "le"),
}
FUNCTIONS = {
    *("abs", "exp", "exp2", "expm1", "log", "log1p", "sin", "cos", "tanh", "sigmoid", "erf"),
    *("sqrt", "rsqrt", "trunc", "floor", "ceil", "isnan", "isinf", "real", "imag", "complex"),
    "hypot",
}
LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}
LARGEST["float64"] = 1.7976931348623157e308
TYPES = {
    "Tensor": "Tensor",
    "Tensor?": "Optional[Tensor]",
    "Scalar": "number",
    "Scalar?": "Optional[number]",
    "float": "float",
    "float?": "Optional[float]",
    "int": "int",
    "bool": "bool",
    "str": "str",
    "Generator?": "Optional[Generator]",
}


class Printer:
    """Prints one formula; `tensors`: names of tensors, among arguments and locals."""

    def __init__(self, tensors: set[str], first: str) -> None:
        self.tensors = set(tensors)
        self.first = first  # a tensor of the dtype that is computed in

    def is_tensor(self, e: ast.expr) -> bool:
        return any(isinstance(n, ast.Name) and n.id in self.tensors for n in ast.walk(e))

    def binary(self, e: ast.BinOp) -> str:
        a, b = self(e.left), self(e.right)
        left, right = self.is_tensor(e.left), self.is_tensor(e.right)
        if isinstance(e.op, ast.FloorDiv):
            return f'torch.div({a}, {b}, rounding_mode="floor")'
        if type(e.op) not in BINARY:
            raise ExprError(f"no core operator for {ast.unparse(e)}")
        name = BINARY[type(e.op)]
        if not left and not right:
            return f"({a} {ast.unparse(e).removeprefix(ast.unparse(e.left)).split()[0]} {b})"
        if left:
            return f"torch.{name}({a}, {b})"
        if name == "sub":
            return f"torch.rsub({b}, {a})"
        if name == "div":
            return f"torch.mul(torch.reciprocal({b}), {a})"
        if name == "pow":
            raise ExprError("a power of a number")
        return f"torch.{name}({b}, {a})"

    def compare(self, e: ast.Compare) -> str:
        if len(e.ops) != 1:
            raise ExprError("a chain of comparisons")
        a, b = e.left, e.comparators[0]
        if not self.is_tensor(e):
            return f"({ast.unparse(e)})"
        names = COMPARE[type(e.ops[0])]
        if self.is_tensor(a):
            return f"torch.{names[0]}({self(a)}, {self(b)})"
        return f"torch.{names[1]}({self(b)}, {self(a)})"

    def call(self, e: ast.Call) -> str:
        assert isinstance(e.func, ast.Name)
        name, args = e.func.id, e.args
        if name == "rnd":
            return self(args[0])
        if name == "where" and not self.is_tensor(args[0]):
            return f"({self(args[1])} if {self(args[0])} else {self(args[2])})"
        if not self.is_tensor(e):
            if name != "abs":
                raise ExprError(f"{name} of numbers")
            return f"abs({self(args[0])})"
        texts = [self(a) for a in args]
        if name in ("min", "max"):
            return self.extreme(name, args, texts)
        if name == "k":
            return f"{texts[0]}.to({self.first}.dtype)"
        if name == "fma":
            product = ast.BinOp(args[0], ast.Mult(), args[1])
            return self(ast.BinOp(product, ast.Add(), args[2]))
        if name == "phi":
            error = f"torch.erf(torch.mul({texts[0]}, 0.7071067811865476))"
            return f"torch.mul(torch.add({error}, 1), 0.5)"
        if name == "tdiv":
            return f'torch.div({texts[0]}, {texts[1]}, rounding_mode="trunc")'
        if name == "where":
            return f"torch.where({', '.join(texts)})"
        plain = name[1:] if name[0] == "z" and name[1:] in FUNCTIONS else name
        if plain not in FUNCTIONS or not all(map(self.is_tensor, args)):
            raise ExprError(f"no core operator for {name}")
        return f"torch.{plain}({', '.join(texts)})"

    def extreme(self, name: str, args: list[ast.expr], texts: list[str]) -> str:
        left, right = map(self.is_tensor, args)
        if left and right:
            return f"torch.{name}imum({texts[0]}, {texts[1]})"
        tensor, number = texts if left else texts[::-1]
        bounds = f"{number}, None" if name == "max" else f"None, {number}"
        return f"torch.clamp({tensor}, {bounds})"

    def name(self, e: ast.Name) -> str:
        if e.id in ("inf", "nan"):
            return f'float("{e.id}")'
        if e.id in ("dtype_max", "dtype_min"):
            sign = "-" if e.id == "dtype_min" else ""
            text = f"{sign}{LARGEST['float32']!r}"
            for dtype, most in LARGEST.items():
                if dtype != "float32":
                    number = DTYPES[dtype]
                    text = f"({sign}{most!r} if {self.first}.dtype == {number} else {text})"
            return text
        return e.id

    def __call__(self, e: ast.expr) -> str:
        if isinstance(e, ast.Constant):
            return repr(e.value)
        if isinstance(e, ast.Name):
            return self.name(e)
        if isinstance(e, ast.BinOp):
            return self.binary(e)
        if isinstance(e, ast.Compare):
            return self.compare(e)
        if isinstance(e, ast.Call):
            return self.call(e)
        if isinstance(e, ast.BoolOp):
            word = "and" if isinstance(e.op, ast.And) else "or"
            if not self.is_tensor(e):
                return "(" + f" {word} ".join(map(self, e.values)) + ")"
            text = self(e.values[0])
            for other in e.values[1:]:
                text = f"torch.logical_{word}({text}, {self(other)})"
            return text
        if isinstance(e, ast.UnaryOp):
            inner = self(e.operand)
            if isinstance(e.op, ast.USub):
                return f"torch.neg({inner})" if self.is_tensor(e) else f"(-{inner})"
            if isinstance(e.op, ast.Not):
                return f"torch.logical_not({inner})" if self.is_tensor(e) else f"(not {inner})"
        raise ExprError(f"no core operator for {ast.unparse(e)}")


def formula_lines(printer: Printer, text: str) -> list[str]:
    """The statements of a formula; the last returns its value."""
    out = []
    for node in parsed(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            out.append(f"{name} = {printer(node.value)}")
            if printer.is_tensor(node.value):
                printer.tensors.add(name)
        elif isinstance(node, ast.Expr):
            several = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            out.append(f"return {', '.join(map(printer, several))}")
    return out


def parsed(text: str) -> ast.Module:
    """The formula; its lines may be indented, and go on in the next inside of parentheses."""
    lines: list[str] = []
    depth = 0
    for line in text.splitlines():
        if depth > 0:
            lines[-1] += " " + line.strip()
        else:
            lines.append(line.strip())
        depth += line.count("(") - line.count(")")
    return ast.parse("\n".join(lines))


def condition(cond: tuple) -> str:
    _, name, kind, value = cond
    if kind in ("COND_NONE", "COND_GIVEN"):
        return f"{name} is {'not ' if kind == 'COND_GIVEN' else ''}None"
    return f"{name} == " + (f'"{value}"' if isinstance(value, str) else repr(value))


def class_test(cls: str, tensors: list[str]) -> str:
    if cls == "complex":
        return " or ".join(f"{t}.is_complex()" for t in tensors)
    if cls == "float":
        return " or ".join(f"{t}.is_floating_point()" for t in tensors)
    return " and ".join(f"{t}.dtype == {DTYPES['bool']}" for t in tensors)


def arm_lines(schema: Any, tensors: list[str], first: str, arm: tuple) -> list[str]:
    conds, text = arm
    given = {name for _, name, kind, _ in conds if kind == "COND_NONE"}
    optional = [
        a.name
        for a in schema.args
        if a.type.endswith("?") and a.type != "Generator?" and a.name not in given
    ]
    names = {n.id for n in ast.walk(parsed(text)) if isinstance(n, ast.Name)}
    checks = [f"assert {name} is not None" for name in optional if name in names]
    return checks + formula_lines(Printer(set(tensors), first), text)


def branches(schema: Any, tensors: list[str], first: str, arms: list[tuple]) -> list[str]:
    """The arms of one class of dtypes, the one without conditions last."""
    out = []
    for conds, text in arms:
        lines = arm_lines(schema, tensors, first, (conds, text))
        if not conds:
            return out + lines
        out.append(f"if {' and '.join(map(condition, conds))}:")
        out += [f"    {line}" for line in lines]
    return [*out, f'raise RuntimeError("{schema.name}: no formula for these arguments")']


def core_text(schema: Any, entry: dict[str, Any]) -> str:
    """The decomposition of a pointwise operator; ExprError: an operation has no core operator."""
    tensors = [a.name for a in schema.args if a.type == "Tensor"]
    promote, fixed = entry.get("promote", "arguments"), entry.get("fixed", {})
    listed = promote if isinstance(promote, list) else [t for t in tensors if t not in fixed]
    if not listed or any(a.type not in TYPES for a in schema.args):
        raise ExprError("arguments of other types")
    by_class: dict[str, list[tuple]] = {}
    for classes, conds, text in flatten(schema, entry["expr"], list(CLASSES), []):
        for cls in classes:
            by_class.setdefault(cls, []).append((conds, text))
    if promote == "float":
        by_class = {c: by_class[c] for c in ("float", "complex") if c in by_class}
    body: list[str] = []
    classes = [c for c in ("complex", "float", "bool", "int") if c in by_class]
    for i, cls in enumerate(classes):
        lines = branches(schema, tensors, listed[0], by_class[cls])
        if i == len(classes) - 1 or all(by_class[c] == by_class[cls] for c in classes[i:]):
            body += lines
            break
        body.append(f"if {class_test(cls, listed)}:")
        body += [f"    {line}" for line in lines]
    args = ", ".join(f"{a.name}: {TYPES[a.type]}" for a in schema.args)
    n = len(schema.returns)
    result = "Tensor" if n == 1 else f"Tuple[{', '.join(['Tensor'] * n)}]"
    return f"def core({args}) -> {result}:\n" + "".join(f"    {line}\n" for line in body)
