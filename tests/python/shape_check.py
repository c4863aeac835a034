"""Compare shape rules with what operators produce, on PyTorch's samples (op_db).

    python tests/python/shape_check.py [--only REGEX] [--samples 3] [--dtypes float32,int64]
    [--missing]

Each sample is called as a whole (aten::NAME) and as the operators that PyTorch makes of it.  A rule
is right when it says over numbers, and over symbols with the numbers put in, what our kernel gives:
sizes, dtype, strides of dimensions larger than 1, offset, and the argument whose memory a result
shares.  test_shapes.py runs the same.
"""

from __future__ import annotations

import argparse
import collections
import math
import random
import re
import sys
import warnings
from typing import Any

import rushlight
import rushlight.ir
import torch
from op_walk import tensors_of
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core
from torch.utils._python_dispatch import TorchDispatchMode

# It reads the source of every frame above for each sample, to find marks that are not ours: half of
# the time, under pytest.
core.extract_test_fn = common_utils.extract_test_fn = lambda: None


def copied(value: Any) -> Any:
    """The argument again, on memory of its own, with the same strides."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        if any(
            stride == 0 and size > 1
            for size, stride in zip(value.shape, value.stride(), strict=False)
        ):
            return value
        made = value.clone()
        if made.stride() != value.stride():  # it has gaps, which a clone does not keep
            made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
            made.copy_(value)
        return made
    if type(value) in (list, tuple):
        return type(value)(copied(v) for v in value)
    return value


def samples(op: Any, dtype: torch.dtype, most: int) -> list:
    torch.manual_seed(0)
    out = []
    try:
        for sample in op.sample_inputs("cpu", dtype):
            out.append(sample)
            if len(out) >= most:
                break
    except Exception:
        pass
    return out


def shared_argument(t: torch.Tensor, args: list[Any]) -> tuple[int, int] | None:
    """Which argument's memory is it, and where in it."""
    at = t.data_ptr()
    for i, arg in enumerate(args):
        for a in tensors_of(arg):
            start = a.untyped_storage().data_ptr()
            if at and start <= at < start + a.untyped_storage().nbytes():
                return i, (at - start) // t.element_size()
    return None


def difference(rule: Any, t: torch.Tensor, shared: tuple[int, int] | None) -> str:
    """What differs between a rule's result and a tensor, or ''."""
    known = -1 not in rule.sizes
    if len(rule.sizes) != t.dim() or any(
        r not in (-1, s) for r, s in zip(rule.sizes, t.shape, strict=True)
    ):
        return f"sizes {list(rule.sizes)}, made {list(t.shape)}"
    if f"torch.{rule.dtype.name}" != str(t.dtype):
        return f"dtype {rule.dtype.name}, made {t.dtype}"
    for size, r, s in zip(t.shape, rule.strides, t.stride(), strict=True):
        if known and size > 1 and r != s and t.numel():
            return f"strides {list(rule.strides)}, made {list(t.stride())} for {list(t.shape)}"
    if t.numel() and rule.alias != (None if shared is None else shared[0]):
        return f"memory of argument {rule.alias}, made {shared and shared[0]}"
    if t.numel() and shared is not None and known and rule.offset not in (-1, shared[1]):
        return f"offset {rule.offset}, made {shared[1]}"
    return ""


def compare(rule: Any, result: Any, args: list[Any]) -> str:
    """What differs between all of a rule's results and an operator's, or ''."""
    made = tensors_of(result)
    if len(rule.results) != len(made):
        return f"{len(rule.results)} tensors, made {len(made)}"
    for r, t in zip(rule.results, made, strict=True):
        why = difference(r, t, shared_argument(t, args))
        if why:
            return why
    return ""


def formulas_hold(rule: Any) -> str:
    """Check that formulas, evaluated by Python, equal the numbers, and that the guards hold."""
    values = {name: hint for name, (hint, _, _) in rule.symbols.items() if hint is not None}
    for guard in rule.guards:
        if not eval(guard, {}, dict(values)):
            return f"guard {guard} does not hold"
    for r in rule.results:
        for texts, numbers in zip(r.formulas[:2], (r.sizes, r.strides), strict=True):
            for text, number in zip(texts, numbers, strict=True):
                if number != -1 and eval(text, {}, dict(values)) != number:
                    return f"{text} is not {number}"
    return ""


def shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        strides = "" if value.is_contiguous() else f"/{list(value.stride())}"
        return f"{str(value.dtype)[6:]}{list(value.shape)}{strides}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(shown, value)) + "]"
    return repr(value)


def resized(value: Any, sizes: dict[int, int]) -> Any:
    """Arguments with other sizes in the tensors, uninitialised."""
    if isinstance(value, torch.Tensor):
        return torch.empty([sizes.get(n, n) for n in value.shape], dtype=value.dtype)
    if isinstance(value, dict):
        return {k: resized(v, sizes) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(resized(v, sizes) for v in value)
    return value


class Graph:
    """The text of a graph with one call, whose tensors are inputs of which some facts are known."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.inputs: list[str] = []
        self.lines: list[str] = []

    def tensor(self, t: torch.Tensor) -> str:
        sizes = [str(n) if self.random.random() < 0.6 else "*" for n in t.shape]
        if t.dim() and self.random.random() < 0.5:
            sizes.append(f"strides={list(t.stride())}")
        dtype = rushlight.ir.TensorType.create_from_tensor(t).scalarType()
        self.inputs.append(f"%i{len(self.inputs)} : {dtype}({', '.join([*sizes, 'device=cpu'])})")
        return self.inputs[-1].split()[0]

    def node(self, kind: str, made: str) -> str:
        self.lines.append(f"  %c{len(self.lines)} : {kind} = {made}")
        return self.lines[-1].split()[0]

    def value(self, v: Any, kind: str) -> str:
        """The value's name; a float of a Scalar stays one, as in PyTorch."""
        if isinstance(v, torch.Tensor):
            if v.layout != torch.strided or v.is_quantized or v.is_nested:
                raise ValueError("facts are about strided tensors")
            return self.tensor(v)
        if v is None:
            return self.node("NoneType", "prim::Constant()")
        if isinstance(v, torch.dtype):
            v = getattr(rushlight, str(v)[6:]).scalar_type
        if isinstance(v, (bool, int, float, str)):
            if isinstance(v, float) and not math.isfinite(v):
                raise ValueError("not written as a number")
            shown = f'"{v}"' if isinstance(v, str) else repr(int(v) if type(v) is bool else v)
            kind = {bool: "bool", int: "int", float: "float", str: "str"}[type(v)]
            return self.node(kind, f"prim::Constant[value={shown}]()")
        if isinstance(v, (list, tuple)) and v:
            items = [self.value(item, kind) for item in v]
            of = next(
                k
                for t, k in (
                    (torch.Tensor, "Tensor"),
                    (bool, "bool"),
                    (int, "int"),
                    (float, "float"),
                )
                if isinstance(v[0], t)
            )
            return self.node(f"{of}[]", f"prim::ListConstruct({', '.join(items)})")
        raise ValueError(f"no text for {v!r}")


def schema_of(operator: str) -> Any:
    name, _, overload = operator.partition(".")
    return next(
        s for s in torch._C._jit_get_schemas_for_operator(name) if s.overload_name == overload
    )


def facts_difference(operator: str, args: list, kwargs: dict, result: Any, call: str) -> str | None:
    """What propagation on partial facts says that is not so, or ''; None: it is not asked."""
    graph = Graph(call)
    schema = schema_of(operator)
    if any(str(r.type) != "Tensor" for r in schema.returns):
        return None
    try:
        names = [
            graph.value(
                args[i] if i < len(args) else kwargs.get(a.name, a.default_value), str(a.type)
            )
            for i, a in enumerate(schema.arguments)
        ]
    except (ValueError, StopIteration, AttributeError):
        return None
    outs = ", ".join(f"%r{i}" for i in range(len(schema.returns)))
    typed = ", ".join(f"%r{i} : Tensor" for i in range(len(schema.returns)))
    text = "\n".join(
        [
            f"graph({', '.join(graph.inputs)}):",
            *graph.lines,
            f"  {typed} = {schema.name}({', '.join(names)})",
            f"  return ({outs})",
        ]
    )
    try:
        parsed = rushlight.ir.parse_ir(text + "\n")
    except Exception:
        return None  # numbers where the operator wants another type: the text has no casts
    parsed.run_pass("propagate_shapes_on_graph")
    absent = isinstance(result, tuple) and None in [x if x is None else 0 for x in result]
    for out, made in zip(parsed.outputs(), result if absent else tensors_of(result), strict=True):
        if made is None:
            continue
        kind = out.type()
        # The text of no dimensions is also that of an unknown rank.
        sizes, strides = kind.varyingSizes() or None, kind.strides()
        if kind.scalarType() is None:
            continue
        exact = rushlight.ir.TensorType.create_from_tensor(made)
        if (
            kind.scalarType() != exact.scalarType()
            or (sizes is not None and len(sizes) != made.dim())
            or any(a not in (None, b) for a, b in zip(sizes or [], made.shape, strict=False))
            or (
                made.numel()
                and any(
                    a != b and n > 1
                    for a, b, n in zip(strides or [], made.stride(), made.shape, strict=False)
                )
            )
        ):
            return f"facts {kind.str()}, made {exact.str()} in\n{text}"
    return ""


class Checker:
    """Counts and differences of all calls so far."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.counts: collections.Counter[str] = collections.Counter()
        self.missing: collections.Counter[str] = collections.Counter()
        self.rules: collections.Counter[str] = collections.Counter()
        self.operators: set[str] = set()
        self.wrong: list[tuple[str, str, str]] = []  # operator, call, why

    def add(self, name: str, call: str, way: str, why: str = "") -> None:
        self.counts[way] += 1
        if way == "wrong":
            self.wrong.append((name, call, why))

    def check(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        """One call of our operator, and its rule."""
        call = (
            f"{name}("
            f"{', '.join([*map(shown, args), *(f'{k}={shown(v)}' for k, v in kwargs.items())])})"
        )
        if call in self.seen:
            return
        self.seen.add(call)
        mine = [copied(a) for a in args]
        named = {k: copied(v) for k, v in kwargs.items()}
        try:
            plain = rushlight.ops.shape(name, *mine, **named)
            symbolic = self.symbolic_difference(name, mine, named, plain)
        except NotImplementedError as error:
            self.counts["no rule"] += 1
            self.missing[str(error)[:100]] += 1
            return
        except Exception as error:
            if "Expected a value of type 'List[Tensor]'" in str(
                error
            ):  # only PyTorch's functions take one
                self.counts["no operator's call"] += 1
                return
            plain, failure = None, f"rule refuses: {type(error).__name__}: {str(error)[:150]}"
        ours, theirs = self.run_ours(name, mine, named), None
        if ours is None:
            ours, theirs = self.run_theirs(name, args, kwargs), True
        if ours is None:
            self.counts["neither runs"] += 1
            return
        if plain is None:
            self.add(name, call, "wrong", failure)
            return
        why = compare(plain, ours, args if theirs else mine)
        if why and not theirs:
            alternative = self.run_theirs(name, args, kwargs)
            if alternative is not None and not compare(plain, alternative, args):
                self.counts["kernel differs from PyTorch"] += 1
                return
        if not why:
            why = symbolic
        if not why:
            facts = facts_difference(plain.operator, args, kwargs, ours, call)
            self.counts["facts"] += facts is not None
            why = facts or ""
        elif why and theirs:
            self.counts["kernel refuses"] += 1
            return
        self.rules[plain.rule] += not why
        self.operators.add(plain.operator)
        self.add(name, call, "wrong" if why else "right", f"rule {plain.rule}: {why}")

    def symbolic_difference(
        self, name: str, args: list[Any], kwargs: dict[str, Any], plain: Any
    ) -> str:
        try:
            symbolic = rushlight.ops.shape(name, *args, symbolic=True, **kwargs)
        except Exception as error:
            return f"symbolic: {type(error).__name__}: {str(error)[:150]}"
        for p, s in zip(plain.results, symbolic.results, strict=True):
            if p[1:6] != s[1:6] and -1 not in p.sizes:
                return f"symbolic: {s[1:6]} with {s.formulas}, numbers say {p[1:6]}"
        return formulas_hold(symbolic) or self.generalization(name, args, kwargs, symbolic)

    def generalization(
        self, name: str, args: list[Any], kwargs: dict[str, Any], symbolic: Any
    ) -> str:
        """Compare formulas with the rule over numbers, for other sizes that pass the guards."""
        hints = {
            symbol: hint for symbol, (hint, _, _) in symbolic.symbols.items() if hint is not None
        }
        tensors = tensors_of([*args, *kwargs.values()])
        if not all(
            t.stride() == torch.empty(t.shape, dtype=t.dtype).stride() and t.storage_offset() == 0
            for t in tensors
        ):
            return ""
        if len(set(hints.values())) < len(hints) or max(hints.values(), default=0) > 300:
            return ""  # a stride has a symbol of its own, or it would take long
        for change in (
            {s: v + 1 for s, v in hints.items()},
            *({s: v * 2} for s, v in list(hints.items())[:4]),
        ):
            values = {**hints, **change}
            if not all(eval(guard, {}, dict(values)) for guard in symbolic.guards):
                continue
            sizes = {hint: values[s] for s, hint in hints.items()}
            try:
                other = rushlight.ops.shape(name, *resized(args, sizes), **resized(kwargs, sizes))
            except Exception as error:
                return f"for {values}: {type(error).__name__}: {str(error)[:100]}"
            self.counts["other sizes"] += 1
            for r, o in zip(symbolic.results, other.results, strict=True):
                if -1 in o.sizes:
                    continue
                sizes_found, strides_found = (
                    [eval(text, {}, dict(values)) for text in texts] for texts in r.formulas[:2]
                )
                strides_found = [
                    s if n > 1 else o
                    for s, n, o in zip(strides_found, o.sizes, o.strides, strict=True)
                ]
                if sizes_found != list(o.sizes) or (
                    0 not in o.sizes and strides_found != list(o.strides)
                ):
                    return (
                        f"for {values}: {r.formulas[:2]} gives {sizes_found} {strides_found}, "
                        f"not {o} {symbolic.guards}"
                    )
        return ""

    def run_ours(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        space, _, operator = name.partition("::")
        operator, _, overload = operator.partition(".")
        try:
            function = getattr(getattr(rushlight.ops, space), operator)
            return (getattr(function, overload) if overload else function)(*args, **kwargs)
        except Exception:
            return None

    def run_theirs(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        space, _, operator = name.partition("::")
        operator, _, overload = operator.partition(".")
        try:
            function = getattr(getattr(torch.ops, space), operator)
            return (getattr(function, overload) if overload else function)(*args, **kwargs)
        except Exception:
            return None


class Recorder(TorchDispatchMode):
    """Hands every operator that PyTorch calls to the checker."""

    def __init__(self, checker: Checker) -> None:
        super().__init__()
        self.checker = checker

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name + (
            f".{func._schema.overload_name}" if func._schema.overload_name else ""
        )
        if (
            name.startswith("aten::")
            and not name.endswith(("_out", ".out"))
            and "backward" not in name
        ):
            self.checker.check(name, list(args), kwargs)
        return func(*args, **kwargs)


def check_operator(checker: Checker, op: Any, dtypes: list[torch.dtype], most: int) -> None:
    for dtype in dtypes:
        if not op.supports_dtype(dtype, "cpu"):
            continue
        for sample in samples(op, dtype, most):
            args = [sample.input, *sample.args]
            if hasattr(torch.ops.aten, op.aten_name) and rushlight._rushlight.has_operator(
                f"aten::{op.aten_name}"
            ):
                plain = [a.detach() if isinstance(a, torch.Tensor) else a for a in args]
                checker.check(f"aten::{op.aten_name}", plain, sample.kwargs)
            with torch.no_grad(), Recorder(checker):
                try:
                    op.op(sample.input, *sample.args, **sample.kwargs)
                except Exception:
                    continue


def check_backward(checker: Checker, only: str = "") -> None:
    """The *_backward operators, which samples do not call."""
    import test_backward_ops

    for name, make in test_backward_ops.CASES.items():
        if re.search(only, name):
            torch.manual_seed(0)
            operator = name.partition("#")[0].partition(".")[0]  # the rest identifies the case
            checker.check(
                f"aten::{operator}", list(make(test_backward_ops.Draw(torch.float32))), {}
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--samples", type=int, default=3, help="of each operator and dtype")
    parser.add_argument("--dtypes", default="float32,int64")
    parser.add_argument("--missing", action="store_true", help="list operators without a rule")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    checker = Checker()
    for op in op_db:
        if re.search(options.only, op.name):
            check_operator(
                checker, op, [getattr(torch, d) for d in options.dtypes.split(",")], options.samples
            )
    check_backward(checker, options.only)
    per: collections.Counter[str] = collections.Counter()
    for name, call, why in checker.wrong:
        per[name] += 1
        if per[name] <= 2:
            print("WRONG", call[:300], "--", why)
    if options.missing:
        for text, n in checker.missing.most_common():
            print("NO RULE", n, text)
    print(
        dict(checker.counts),
        f"{len(checker.operators)} operators, {len(checker.rules)} rules, {len(per)} operators "
        f"wrong",
    )
    return 1 if checker.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
