"""What is written to is checked as PyTorch checks it (out_rules.py): overlaps, shapes, dtypes,
resizing."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

import out_rules  # noqa: E402
import rushlight  # noqa: E402
from op_walk import entry_name, sample_text  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

ENTRIES = """add mul exp sin clamp abs neg ceil round sign trunc atan2 eq logical_and bitwise_not isposinf signbit
nn.functional.softplus nn.functional.hardshrink nn.functional.relu addcmul lerp cumsum cumprod logcumsumexp gather scatter_add
index_select index_add take masked_select sort topk kthvalue cat stack argmax any diag outer cross linalg.inv_ex linalg.det
linalg.slogdet linalg.cross aminmax take_along_dim renorm unsqueeze_copy view_copy addr dot""".split()
DIFFERENT: set[tuple[str, str]] = set()


def test_what_is_written_to() -> None:
    failed = []
    n = 0
    warnings.simplefilter("ignore")
    for op in op_db:
        if entry_name(op) not in ENTRIES:
            continue
        for rule, function, sample in out_rules.cases(op, 2):
            n += 1
            way, why = out_rules.check(op, function, sample)
            if way == "differ" and (entry_name(op), rule) not in DIFFERENT:
                failed.append(f"{entry_name(op)} {rule} ({sample_text(sample)}): {why}")
    assert not failed, "\n".join(failed)
    assert n > 500


def test_resizing_warns() -> None:
    out = torch.zeros(7)
    with pytest.warns(UserWarning, match="was resized"):
        rushlight.ops.aten.add(torch.ones(3), torch.ones(3), out=out)
    assert out.tolist() == [2.0, 2.0, 2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rushlight.ops.aten.add(torch.ones(3), torch.ones(3), out=torch.zeros(0))


@pytest.mark.parametrize("name", ["split_copy", "unbind_copy"])
def test_lists_are_written_to(name: str) -> None:
    x = torch.arange(6.0).reshape(3, 2)
    outs = (
        [torch.zeros(2, 2), torch.zeros(1, 2)]
        if name == "split_copy"
        else [torch.zeros(2) for _ in range(3)]
    )
    args = (x, 2) if name == "split_copy" else (x,)
    overload = "Tensor_out" if name == "split_copy" else "int_out"
    getattr(getattr(rushlight.ops.aten, name), overload)(*args, out=outs)
    want = getattr(torch, name)(*args)
    assert all(torch.equal(a, b) for a, b in zip(outs, want, strict=True))


REFUSED = {
    "add": lambda m, o: m.add(m.ones(4, 4), 1, out=o),
    "sin": lambda m, o: m.sin(m.ones(4, 4), out=o),
    "maximum": lambda m, o: m.maximum(m.ones(4, 4), m.ones(4), out=o),
    "mm": lambda m, o: m.mm(m.ones(4, 4), m.ones(4, 4), out=o),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_not_resized(name: str) -> None:
    """Else its new elements would be whatever was in memory."""
    theirs = torch.zeros(0, 4, dtype=torch.int64)
    mine = rushlight.tensor([], dtype=rushlight.int64).reshape([0, 4])
    with pytest.raises(RuntimeError):
        REFUSED[name](torch, theirs)
    with pytest.raises(RuntimeError):
        REFUSED[name](rushlight, mine)
    assert tuple(mine.shape) == tuple(theirs.shape) == (0, 4)
