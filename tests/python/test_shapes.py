"""Shape rules: over numbers and over symbols they say what the operators produce, on PyTorch's
samples."""

from __future__ import annotations

import itertools
import os
import sys
import warnings

import pytest
from conftest import TOP

rushlight = pytest.importorskip("rushlight")
torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # of PyTorch's samples

import shape_check  # noqa: E402

NIGHTLY = bool(os.environ.get("RUSHLIGHT_NIGHTLY"))
DTYPES = [torch.float32, torch.int64]
if NIGHTLY:
    DTYPES += [
        torch.float64,
        torch.bool,
        torch.uint8,
        torch.float16,
        torch.bfloat16,
        torch.complex64,
    ]
# Rules that are known to be wrong for some calls, and why.
EXCEPT: dict[str, str] = {}


def test_rules_say_what_operators_make() -> None:
    checker = shape_check.Checker()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in shape_check.op_db:
            shape_check.check_operator(checker, op, DTYPES, 1000 if NIGHTLY else 3)
        shape_check.check_backward(checker)
    wrong = [f"{call[:200]}: {why}" for name, call, why in checker.wrong if name not in EXCEPT]
    print(dict(checker.counts), f"{len(checker.operators)} operators, {len(checker.rules)} rules")
    assert not wrong, "\n".join(wrong[:40])
    assert set(EXCEPT) <= {name for name, _, _ in checker.wrong}, "an exception that is none"
    assert len(checker.operators) >= 590


def test_every_rule_has_an_entry() -> None:
    sys.path.append(str(TOP / "tools"))
    import make_status

    table = make_status.load()
    used = {row.shape for row in table.rows.values()}
    entries = [row for row in table.rows.values() if row.base is None and make_status.runs(row)]
    giving = [row for row in entries if "Tensor" in row.schema.returns]
    print(f"{sum(row.shape > 0 for row in giving)} of {len(giving)} entries have a rule")
    assert [name for name, number in table.shapes.items() if number not in used] == []
    assert sum(row.shape > 0 for row in giving) >= 0.75 * len(giving)


def test_formulas_and_guards() -> None:
    found = rushlight.ops.shape("aten::view", torch.zeros(6, 10), [4, -1], symbolic=True)
    assert found.rule == "view"
    assert found.guards == ["((s0*s1) % 4) == 0"]
    assert found.results[0].formulas == (["4", "((s0*s1)//4)"], ["((s0*s1)//4)", "1"], "0")
    assert found.results[0].alias == 0
    found = rushlight.ops.shape("aten::cat", [torch.zeros(3, 5), torch.zeros(4, 5)], symbolic=True)
    assert found.results[0].formulas[0] == ["s0 + s2", "s1"] and not found.guards
    found = rushlight.ops.shape("aten::nonzero", torch.zeros(3, 5), symbolic=True)
    assert found.results[0].formulas[0] == ["u0", "2"]
    assert found.results[0].sizes == (-1, 2)
    image, weight = torch.zeros(2, 3, 32, 32), torch.zeros(8, 3, 3, 3)
    found = rushlight.ops.shape("aten::conv2d", image, weight, None, [2, 2], [1, 1], symbolic=True)
    assert found.results[0].sizes == (2, 8, 16, 16)


def test_refusals() -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        rushlight.ops.shape("aten::mm", torch.zeros(2, 3), torch.zeros(4, 5))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        rushlight.ops.shape("aten::mm", torch.zeros(2, 3), torch.zeros(4, 5), symbolic=True)
    with pytest.raises(NotImplementedError, match="has no shape rule"):
        rushlight.ops.shape("aten::item", torch.zeros(1))
    with pytest.raises(NotImplementedError, match="no operator"):
        rushlight.ops.shape("aten::no_such_operator", torch.zeros(1))
    with pytest.raises(TypeError):
        rushlight.ops.shape(3, torch.zeros(1))


def test_pairs_on_one_side_of_a_diagonal_are_counted() -> None:
    for rows, columns, offset in itertools.product(range(6), range(6), range(-7, 8)):
        for name in "tril_indices", "triu_indices":
            want = getattr(torch, name)(rows, columns, offset)
            got = getattr(rushlight.ops.aten, name)(rows, columns, offset)
            assert got.tolist() == want.tolist(), (name, rows, columns, offset)


def test_a_row_of_classes_has_one_target() -> None:
    for sizes in (3,), (2,), (1,), (0,), ():
        for classes in 3, 1, 0:
            args = torch.randn(classes), torch.zeros(sizes, dtype=torch.int64), None, 1, -100
            outcomes = []
            for call in torch.ops.aten.nll_loss_nd, rushlight.ops.aten.nll_loss_nd:
                try:
                    outcomes.append(float(call(*args)))
                except (ValueError, IndexError) as error:
                    outcomes.append((type(error), str(error)))
            assert outcomes[0] == outcomes[1], (sizes, classes)
