"""Compare operators with PyTorch on its own samples (op_db).

    python tests/python/ops_check.py [--only NAME] [--samples 3] [--all]

A line per difference; at the end how many operators agree, differ, or cannot run yet.  test_ops.py runs the same.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from typing import Any

import rushlight
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core

# It reads the source of every frame above for each sample, to find marks that are not ours: half of the time, under pytest.
core.extract_test_fn = lambda: None

DTYPES = [torch.float32, torch.int64, torch.bool, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.complex64]
TOLERANCE = {
    torch.float32: (2e-5, 1e-5),
    torch.float64: (1e-9, 1e-9),
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
    torch.complex64: (2e-5, 1e-5), torch.complex128: (1e-9, 1e-9),
}
# What PyTorch leaves undefined, or draws by the samples' own generators.
UNDEFINED = {
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "empty_permuted",
    "resize_",
    "resize_as_",
}


def copied(value: Any) -> Any:
    """The argument again, on memory of its own, with the same strides."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone(memory_format=torch.preserve_format) if not overlaps(value) else value.detach()
    if isinstance(value, (list, tuple)):
        return type(value)(copied(v) for v in value) if type(value) in (list, tuple) else value
    return value


def overlaps(t: torch.Tensor) -> bool:
    return any(stride == 0 and size > 1 for size, stride in zip(t.shape, t.stride(), strict=False))


def difference(got: Any, want: Any, place: str = "result") -> str:
    """What differs, or ''."""
    if isinstance(want, torch.Tensor):
        return tensor_difference(got, want, place)
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            return f"{place}: expected {len(want)} items, got {got!r:.60}"
        return next(
            (d for i, (g, w) in enumerate(zip(got, want, strict=False)) if (d := difference(g, w, f"{place}[{i}]"))), ""
        )
    if isinstance(want, float) and isinstance(got, float):
        return (
            ""
            if got == want or (got != got and want != want) or abs(got - want) <= 1e-9 * abs(want)
            else f"{place}: {got} is not {want}"
        )
    return "" if type(got) is type(want) and got == want else f"{place}: {got!r:.60} is not {want!r:.60}"


def tensor_difference(got: Any, want: torch.Tensor, place: str) -> str:
    if not isinstance(got, torch.Tensor):
        return f"{place}: got a {type(got).__name__}, not a tensor"
    if got.dtype != want.dtype:
        return f"{place}: dtype {got.dtype}, expected {want.dtype}"
    if got.shape != want.shape:
        return f"{place}: shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    rtol, atol = TOLERANCE.get(want.dtype, (0, 0))
    if want.dtype == torch.complex32:
        got, want, rtol, atol = got.to(torch.complex64), want.to(torch.complex64), 2e-3, 2e-3
    if not torch.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True):
        bad = ~torch.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
        return f"{place}: {int(bad.sum())} of {bad.numel()} differ, first {got[bad][0].item()} for {want[bad][0].item()}"
    for size, a, b in zip(want.shape, got.stride(), want.stride(), strict=False):
        if size > 1 and a != b and want.numel():
            return f"{place}: strides {got.stride()}, expected {want.stride()}"
    return ""


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


def check_sample(name: str, sample: Any) -> tuple[str, str]:
    """('agree' | 'differ' | 'refused' | 'unsupported' | 'no', why)."""
    args = (sample.input, *sample.args)
    torch.manual_seed(1)
    rushlight.manual_seed(1)
    theirs = getattr(torch.ops.aten, name)
    mine = [copied(a) for a in args], {k: copied(v) for k, v in sample.kwargs.items()}
    try:
        want = theirs(*[copied(a) for a in args], **{k: copied(v) for k, v in sample.kwargs.items()})
    except Exception:
        return "no", ""  # the operator's Python form takes other arguments
    try:
        got = getattr(rushlight.ops.aten, name)(*mine[0], **mine[1])
    except NotImplementedError as error:
        return "unsupported", str(error)
    except Exception as error:
        return "refused", f"{type(error).__name__}: {str(error)[:200]}"
    why = "" if name in UNDEFINED else difference(got, want)
    return ("differ", why) if why else ("agree", "")


def shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype)[6:]}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(shown(v) for v in value) + "]"
    return repr(value)


def check_operator(op: Any, most: int) -> tuple[dict[str, int], list[str]]:
    """How many samples went which way, and a text per difference."""
    counts: dict[str, int] = {}
    texts = []
    name = op.aten_name
    if not hasattr(torch.ops.aten, name):
        return counts, texts
    for dtype in DTYPES:
        if not op.supports_dtype(dtype, "cpu"):
            continue
        for sample in samples(op, dtype, most):
            way, why = check_sample(name, sample)
            counts[way] = counts.get(way, 0) + 1
            if way in ("differ", "refused"):
                text = ", ".join(
                    [shown(sample.input), *map(shown, sample.args), *(f"{k}={shown(v)}" for k, v in sample.kwargs.items())]
                )
                texts.append(f"{name}({text}): {why}")
    return counts, texts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--samples", type=int, default=3, help="of each operator and dtype")
    parser.add_argument("--all", action="store_true", help="every difference, not the first two of an operator")
    parser.add_argument("--json", help="write the names of operators that agree, differ, cannot run yet")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    went: dict[str, set[str]] = {"agree": set(), "differ": set(), "unsupported": set()}
    for op in op_db:
        if options.only and options.only not in op.name:
            continue
        counts, texts = check_operator(op, options.samples)
        for text in texts if options.all else texts[:2]:
            print("DIFFERS", text, flush=True)
        if len(texts) > 2 and not options.all:
            print(f"        ... {len(texts) - 2} more of {op.aten_name}")
        if texts:
            went["differ"].add(op.aten_name)
        elif counts.get("unsupported"):
            went["unsupported"].add(op.aten_name)
        elif counts.get("agree"):
            went["agree"].add(op.aten_name)
    went["agree"] -= went["differ"] | went["unsupported"]
    went["unsupported"] -= went["differ"]
    print(f"{len(went['agree'])} operators agree, {len(went['differ'])} differ, {len(went['unsupported'])} cannot run yet")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({way: sorted(names) for way, names in went.items()}, file, indent=1)
    return 1 if went["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
