"""Result dtypes of operators over all pairs of dtypes, as PyTorch recorded them
(../shared/probes/promote.tsv)."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rushlight
from conftest import SHARED

torch = pytest.importorskip("torch")

TABLE = SHARED / "probes" / "promote.tsv"
SCALARS = {"bool": True, "int": 1, "float": 1.0, "complex": 1 + 0j}
aten = rushlight.ops.aten
# A dtype as programs use it: its number.
NUMBERS = {
    0: "uint8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "float16",
    6: "float32",
    7: "float64",
    8: "complex32",
    9: "complex64",
    10: "complex128",
    11: "bool",
    15: "bfloat16",
}
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: getattr(aten, name)
        for name in (
            "add",
            "div",
            "floor_divide",
            "pow",
            "eq",
            "bitwise_and",
            "mul_",
            "result_type",
        )
    },
    "where": lambda a, b: aten.where(torch.tensor([True, False]), a, b),
    "cat": lambda a, b: aten.cat([a.reshape(-1), b.reshape(-1)]),
}


def operand(kind: str, dtype: str) -> Any:
    if kind == "s":
        return SCALARS[dtype]
    return (
        torch.ones(2, dtype=getattr(torch, dtype))
        if kind == "t1"
        else torch.tensor(1, dtype=getattr(torch, dtype))
    )


def cells() -> Iterator[tuple[str, str, str, str]]:
    """(operator, left operand, right operand, dtype or error class)."""
    names: dict[str, str] = {}
    dtypes: list[str] = []
    if not TABLE.exists():
        return
    with TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row[0].startswith("# dtypes:"):
                dtypes = row[0].split()[2:]
            elif row[0].startswith("# values:"):
                names = dict(pair.split("=") for pair in row[0].split("abbreviated: ")[1].split())
            elif row[0].startswith("# E") and " = " in row[0]:
                key, error = row[0][2:].split(" = ", 1)
                names[key] = error.split(":")[0]
            elif not row[0].startswith("#") and row[0] != "op":
                op, left, right, results = row
                for dtype, result in zip(
                    SCALARS if right == "s" else dtypes, results.split(), strict=True
                ):
                    yield op, left, f"{right}:{dtype}", names.get(result, result)


def answer(op: str, left: str, right: str) -> str:
    try:
        got = OPERATORS[op](operand(*left.split(":")), operand(*right.split(":")))
    except Exception as e:  # noqa: BLE001
        return type(e).__name__
    return NUMBERS[got] if isinstance(got, int) else str(got.dtype).removeprefix("torch.")


@pytest.mark.skipif(not TABLE.exists(), reason="no ../shared/probes here")
def test_promotes_as_pytorch() -> None:
    wrong = [
        f"{op}({left}, {right}): {got} is not {want}"
        for op, left, right, want in cells()
        if (got := answer(op, left, right)) != want
    ]
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:20])
