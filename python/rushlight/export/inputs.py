"""Checks arguments against what an exported program says of its inputs, without running it."""

from __future__ import annotations

import math
import re
from typing import Any

from .exported_program import ExportedProgram
from .graph_signature import InputKind
from .values import FakeTensor, SymInt

_LINEAR = re.compile(r"(?:(\d+)\*)?([A-Za-z_]\w*)(?: ([+-]) (\d+))?")


class _Checker:
    """Finds the value of each symbol, and compares."""

    def __init__(self, ep: ExportedProgram) -> None:
        self._ranges = ep.range_constraints
        self._values: dict[str, int] = {}

    def size(self, expected: Any, found: int, where: str) -> None:
        if not isinstance(expected, SymInt):
            if found != expected:
                raise RuntimeError(
                    f"Expected input at {where} to be equal to {expected}, but got {found}. "
                    "If you meant for this dimension to be dynamic, please re-export and specify "
                    "dynamic_shapes (e.g. with Dim.DYNAMIC)"
                )
            return
        self._unify(expected, found, where)
        limits = self._ranges.get(expected.node.expr)
        if limits is not None and limits.lower > 2 and found < limits.lower:
            raise RuntimeError(
                f"Expected input at {where} to be >= {limits.lower}, but got {found}"
            )
        if limits is not None and found > limits.upper:
            raise RuntimeError(
                f"Expected input at {where} to be <= {limits.upper}, but got {found}"
            )

    def _unify(self, expected: SymInt, found: int, where: str) -> None:
        """Compare with a linear expression of one symbol, whose value this may be the first to
        tell; others are not checked."""
        form = _LINEAR.fullmatch(expected.node.expr)
        if form is None:
            return
        factor, symbol = int(form[1] or 1), form[2]
        offset = int(f"{form[3] or '+'}{form[4] or 0}")
        if symbol in self._values:
            value = factor * self._values[symbol] + offset
            if found != value:
                raise RuntimeError(
                    f"Expected input at {where} to be equal to {value}, but got {found}"
                )
        elif (found - offset) % factor:
            raise RuntimeError(
                f"Expected input {where} = {found} to be of the form {expected}, where {symbol} is "
                "an integer"
            )
        else:
            self._values[symbol] = (found - offset) // factor

    def input(self, expected: Any, found: Any, where: str) -> None:
        if isinstance(expected, FakeTensor):
            self._tensor(expected, found, where)
        elif isinstance(expected, SymInt):
            self.size(expected, found, where)
        elif isinstance(expected, (int, float, str)):
            is_nan = isinstance(expected, float) and math.isnan(expected)
            same = math.isnan(found) if is_nan and isinstance(found, float) else found == expected
            if type(found) is not type(expected) or not same:
                raise RuntimeError(
                    f"Expected input at {where} to be equal to {expected}, but got {found}"
                )

    def _tensor(self, expected: FakeTensor, found: Any, where: str) -> None:
        if not hasattr(found, "shape"):
            raise RuntimeError(f"Expected input at {where} to be a tensor, but got {type(found)}")
        shape = tuple(found.shape)
        if len(shape) != expected.dim():
            raise RuntimeError(
                f"Unexpected number of dimensions in input at {where}.shape (expected "
                f"{list(expected.shape)}, got {list(shape)})"
            )
        for i, (size, want) in enumerate(zip(shape, expected.shape, strict=True)):
            self.size(want, size, f"{where}.shape[{i}]")


def check_inputs(ep: ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the flattened arguments.  Raise RuntimeError if the program does not accept the sizes
    or the constants among them, ValueError if it does not accept their structure."""
    spec = ep.call_spec.in_spec
    if spec is None:
        raise RuntimeError("the program does not say how it is called")
    leaves, paths = spec.flatten((args, kwargs)), spec.paths()
    specs = ep.graph_signature.input_specs
    inputs = zip(ep.graph.find_nodes(op="placeholder"), specs, strict=False)
    users = [node for node, s in inputs if s.kind == InputKind.USER_INPUT]
    if len(leaves) != len(users):
        raise RuntimeError(
            f"Unexpected number of inputs (expected {len(users)}, got {len(leaves)})"
        )
    checker = _Checker(ep)
    for node, value, path in zip(users, leaves, paths, strict=True):
        name, _, rest = path[4:].partition("]")
        where = f"*args{path[3:]}" if path.startswith("[0]") else f"{name}{rest}"
        checker.input(node.meta.get("val"), value, where)
    return leaves
