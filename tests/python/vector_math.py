#!/usr/bin/env python3
"""Accuracy of the vector functions, over every exponent of float32: a table, or --docs to write it
into docs/numerics.md.

    PYTHONPATH=build/python python3 tests/python/vector_math.py

Errors are in units in the last place of float32 against PyTorch's float64 result; float64 is
compared with PyTorch's own float64, which is itself good to about one unit.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Callable

import rushlight
import torch

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "numerics.md"
MANTISSAS = 48
SPECIAL = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1.0, -1.0, 0.5, -0.5, 2.0, -2.0]

# Function: most units in the last place that float32 and float64 may be off.
ONE = {
    "sqrt": (0.5, 1),
    "rsqrt": (1.5, 2),
    "exp": (1.5, 2),
    "exp2": (1.5, 2),
    "expm1": (2, 3),
    "log": (1.5, 2),
    "log2": (2, 2),
    "log10": (2, 2),
    "log1p": (2, 3),
    "sigmoid": (2.5, 4),
    "tanh": (2, 3),
    "sinh": (2.5, 3),
    "cosh": (2, 3),
    "sin": (2.5, 2),
    "cos": (2.5, 2),
    "tan": (3.5, 3),
    "asin": (2.5, 2),
    "acos": (2, 2),
    "atan": (2, 2),
    "asinh": (2, 3),
    "acosh": (2, 3),
    "atanh": (2, 3),
    "erf": (1.5, 3),
    "erfc": (3, 8),
}
TWO = {"atan2": (2.5, 2), "hypot": (1, 2), "pow": (1.5, 2)}


def samples(dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Both signs of every exponent with dozens of mantissas each, and the special values."""
    generator = torch.Generator().manual_seed(seed)
    wide = dtype == torch.float64
    exponents, bits, ints = (2048, 52, torch.int64) if wide else (256, 23, torch.int32)
    mantissa = torch.randint(
        0, 1 << bits, (2, exponents, MANTISSAS), generator=generator, dtype=torch.int64
    )
    mantissa[..., 0], mantissa[..., 1], mantissa[..., 2] = 0, (1 << bits) - 1, 1
    value = (torch.arange(exponents, dtype=torch.int64)[None, :, None] << bits) + mantissa
    value[1] |= -(1 << 63) if wide else 1 << 31
    if not wide:
        value = torch.where(value >= 1 << 31, value - (1 << 32), value)
    return torch.cat([value.reshape(-1).to(ints).view(dtype), torch.tensor(SPECIAL, dtype=dtype)])


def pairs(dtype: torch.dtype, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Random pairs of all exponents, near ones, and all special values against each other."""
    generator = torch.Generator().manual_seed(1)
    x, y = samples(dtype, 2), samples(dtype, 3)
    x, y = (t[torch.randperm(len(t), generator=generator)] for t in (x, y))
    near = torch.randn(len(x), generator=generator, dtype=dtype) * 4
    other = torch.randn(len(x), generator=generator, dtype=dtype) * 20
    special = torch.tensor(SPECIAL + [3.0, -3.0, 0.25, 1e30, -1e-30], dtype=dtype)
    a, b = torch.meshgrid(special, special, indexing="ij")
    first = near.abs() if name == "pow" else near
    return torch.cat([x, first, a.reshape(-1)]), torch.cat([y, other, b.reshape(-1)])


def units(got: torch.Tensor, want: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Distance of `got` from `want` (float64) in units of the last place of dtype; 0 where both are
    not finite alike."""
    bits, least = (52, -1074) if dtype == torch.float64 else (23, -149)
    want = want.double()
    _, exponent = torch.frexp(want)
    unit = torch.ldexp(
        torch.ones_like(want), torch.clamp(exponent - 1 - bits, min=least).to(torch.int32)
    )
    return torch.where(
        torch.isfinite(want), (got.double() - want).abs() / unit, torch.zeros_like(want)
    )


def call(name: str, *args: torch.Tensor) -> torch.Tensor:
    return getattr(rushlight.ops.aten, name)(*args)


def kinds(t: torch.Tensor) -> torch.Tensor:
    """What a value is besides its size: NaN, infinite, zero, and the sign of what is not NaN."""
    sign = torch.where(torch.isnan(t), 0, torch.signbit(t).to(torch.int64) * 2 - 1)
    return sign * (
        1 + 2 * torch.isinf(t).to(torch.int64) + 4 * (t == 0).to(torch.int64)
    ) + 100 * torch.isnan(t)


def measure(name: str, dtype: torch.dtype) -> tuple[float, float, list[str]]:
    """(worst error in units, at which argument, what differs from PyTorch in kind or beyond its
    tolerances)."""
    args = pairs(dtype, name) if name in TWO else (samples(dtype),)
    own: Callable[..., torch.Tensor] = getattr(torch, name)
    got, theirs = call(name, *args), own(*args)
    exact = own(*(a.double() for a in args))
    wrong = []
    # At the edges of the range PyTorch rounds early now and then (cosh(89.1), the last denormal):
    # what is right, is right.
    right = torch.isfinite(got) & (
        units(got, exact if dtype == torch.float32 else theirs, dtype) <= 1
    )
    rtol, atol = (1.3e-6, 1e-5) if dtype == torch.float32 else (1e-7, 1e-7)
    differ = (kinds(got) != kinds(theirs)) | ~torch.isclose(
        got, theirs, rtol=rtol, atol=atol, equal_nan=True
    )
    differ &= ~right
    for i in differ.nonzero()[:5, 0].tolist():
        at = ", ".join(repr(a[i].item()) for a in args)
        wrong.append(f"{name}({at}) is {got[i].item()!r}, PyTorch says {theirs[i].item()!r}")
    finite = torch.isfinite(got) & torch.isfinite(theirs)
    if name == "sigmoid":  # 1 / (1 + exp(-x)), as PyTorch has it: 0 where the result is denormal
        finite &= exact.abs() >= torch.finfo(dtype).tiny
    error = torch.where(finite, units(got, exact if dtype == torch.float32 else theirs, dtype), 0.0)
    worst = int(error.argmax())
    return float(error[worst]), float(args[0][worst]), wrong


def theirs(name: str) -> float:
    """PyTorch's own worst error in float32, over the same samples."""
    args = pairs(torch.float32, name) if name in TWO else (samples(torch.float32),)
    own = getattr(torch, name)
    got, exact = own(*args), own(*(a.double() for a in args))
    counts = torch.isfinite(got) & (
        (exact.abs() >= torch.finfo(torch.float32).tiny) | (name != "sigmoid")
    )
    return float(torch.where(counts, units(got, exact, torch.float32), 0.0).max())


def table() -> list[str]:
    lines = [
        "| function | float32: units, at | PyTorch's | float64: units from PyTorch |",
        "| --- | --- | --- | --- |",
    ]
    for name in (*ONE, *TWO):
        one, at, _ = measure(name, torch.float32)
        two, _, _ = measure(name, torch.float64)
        lines.append(f"| {name} | {one:.2f} at {at:.6g} | {theirs(name):.2f} | {two:.2f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--docs", action="store_true", help="write the table into docs/numerics.md")
    options = parser.parse_args()
    lines = table()
    print("\n".join(lines))
    if options.docs:
        head, rest = PAGE.read_text().split("<!-- table -->", 1)
        tail = rest.split("<!-- end -->", 1)[1]
        PAGE.write_text(head + "<!-- table -->\n" + "\n".join(lines) + "\n<!-- end -->" + tail)


if __name__ == "__main__":
    sys.exit(main())
