"""Versions move as PyTorch's do: over op_db's in-place and out= forms, writes through views and
indexing, and what only reads.

tests/run/test_operators.c asks the same of every operator of the table by its schema, without
PyTorch.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # of PyTorch's samples

import rushlight  # noqa: E402
from op_walk import entry_name, samples_of, with_out  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

aten = rushlight.ops.aten
NIGHTLY = bool(os.environ.get("RUSHLIGHT_NIGHTLY"))
SAMPLES, STEP = 4, 4  # of an entry; every so manyth entry


class Pairs:
    """Arguments of a sample: PyTorch's on memory of their own, and ours with the same elements."""

    def __init__(self) -> None:
        self.theirs: list[torch.Tensor] = []
        self.ours: list[rushlight.Tensor] = []

    def __call__(self, value: Any) -> tuple[Any, Any]:
        if isinstance(value, torch.Tensor):
            with torch.no_grad():
                t = value.detach().clone().contiguous()
            o = aten.clone(rushlight.from_dlpack(t))
            self.theirs.append(t)
            self.ours.append(o)
            return t, o
        if type(value) in (list, tuple):
            both = [self(v) for v in value]
            return type(value)(a for a, _ in both), type(value)(b for _, b in both)
        if type(value) is dict:
            both = {k: self(v) for k, v in value.items()}
            return {k: a for k, (a, _) in both.items()}, {k: b for k, (_, b) in both.items()}
        return value, value

    def state(self) -> tuple[list[int], list[int], list[torch.Tensor]]:
        return (
            [t._version for t in self.theirs],
            [aten._version(o) for o in self.ours],
            [t.clone() for t in self.theirs],
        )

    def wrong(self, before: tuple, written: int) -> str:
        """Versions that should have moved, as elements changed, and versions of what is only read
        that did."""
        for i, (theirs, ours, old) in enumerate(zip(*before, strict=True)):
            moved, theirs_moved = (
                aten._version(self.ours[i]) > ours,
                self.theirs[i]._version > theirs,
            )
            changed = old.shape != self.theirs[i].shape or not torch.equal(
                old.nan_to_num(), self.theirs[i].nan_to_num()
            )
            if not moved and theirs_moved and changed:
                return f"version of tensor {i} did not move"
            if (
                moved and not theirs_moved and i != written
            ):  # some of PyTorch's out= forms forget it
                return f"version of tensor {i}, which is read, moved"
        return ""


def compare(function: Any, operator: str, sample: tuple) -> str | None:
    """What differs, "" when nothing does; None where there is nothing to compare."""
    pairs = Pairs()
    try:
        (args, ours), (kwargs, our_kwargs) = pairs(tuple(sample[0])), pairs(sample[1])
    except Exception:
        return None  # of no dense memory
    found = aten.find(operator)
    if found is None:
        return None
    before = pairs.state()
    try:
        with torch.no_grad():
            function(*args, **kwargs)
        found(*ours, **our_kwargs)
    except Exception:
        return None
    return pairs.wrong(before, len(pairs.theirs) - 1 if "out" in kwargs else 0)


def test_in_place_and_out_forms_of_every_sample() -> None:
    different, n = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in op_db if NIGHTLY else op_db[::STEP]:
            dtype = next(
                (
                    d
                    for d in (torch.float32, torch.int64, torch.bool)
                    if op.supports_dtype(d, "cpu")
                ),
                None,
            )
            if dtype is None:
                continue
            inplace = op.get_inplace()
            for info, sample in samples_of(op, dtype, SAMPLES):
                name, forms = op.aten_name or op.name, []
                if inplace is not None and not info.broadcasts_input:
                    forms.append((inplace, getattr(inplace, "__name__", name + "_"), sample))
                given = with_out(op.op, sample) if op.supports_out else None
                if given is not None and isinstance(given[1]["out"], torch.Tensor):
                    forms.append((op.op, name, given))
                for function, operator, one in forms:
                    why = compare(function, operator, one)
                    n += why is not None
                    if why:
                        different.append(f"{entry_name(op)} as {operator}: {why}")
    assert not different, "\n".join(different[:20])
    assert n > (1200 if NIGHTLY else 250), n


# name_ or name.out: what writes by index and mask, with what it takes
def writes() -> list[tuple[str, tuple]]:
    i, s, m = torch.tensor([0, 2]), torch.ones(2, 4), torch.tensor([[True], [False], [True]])
    flat, two = torch.tensor([1, 5]), torch.zeros(2, 4, dtype=torch.int64)
    return [
        ("scatter_", (0, two, s)),
        ("scatter_", (0, two, 2.0)),
        ("scatter_add_", (0, two, s)),
        ("scatter_reduce_", (0, two, s, "sum")),
        ("index_put_", ([i], s)),
        ("index_put_", ([None, flat % 2], torch.ones(1))),
        ("_index_put_impl_", ([i], s)),
        ("index_fill_", (0, i, 3.0)),
        ("index_add_", (0, i, s)),
        ("index_copy_", (0, i, s)),
        ("index_reduce_", (0, i, s, "prod")),
        ("masked_fill_", (m, 1.0)),
        ("masked_scatter_", (m, torch.ones(12))),
        ("put_", (flat, torch.ones(2))),
        ("fill_diagonal_", (1.0,)),
        ("copy_", (torch.ones(3, 4),)),
        ("copy_", (torch.ones(4),)),
        ("zero_", ()),
        ("fill_", (2.0,)),
        ("add_", (1,)),
        ("clamp_", (0.0, 1.0)),
        ("normal_", ()),
        ("uniform_", ()),
        ("bernoulli_", (0.5,)),
        ("random_", ()),
        ("exponential_", ()),
        ("tril_", ()),
        ("cumsum_", (0,)),
        ("relu_", ()),
        ("t_", ()),
        ("squeeze_", ()),
        ("unsqueeze_", (0,)),
        ("transpose_", (0, 1)),
        ("swapaxes_", (0, 1)),
        ("sum", (0,)),
        ("index_select", (0, i)),
        ("scatter", (0, two, s)),
        ("clone", ()),
        ("select", (0, 1)),
        ("add", (1,)),
    ]


def version(t: Any) -> int:
    return t._version if isinstance(t, torch.Tensor) else aten._version(t)


@pytest.mark.parametrize("view", ("itself", "a row's view", "a part", "transposed twice"))
def test_a_view_moves_what_it_is_a_view_of(view: str) -> None:
    """All tensors that share the memory get the new version; arguments that are read do not."""

    def viewed(space: Any, base: Any) -> Any:
        if view == "itself":
            return base
        if view == "a row's view":
            return space.select(base, 0, 1)
        if view == "a part":
            return space.slice(space.select(base, 0, 0), 1, 0, 4)
        return space.t(space.t(space.select(base, 0, 1)))

    for name, args in writes():
        theirs = torch.zeros(3, 4) if view == "itself" else torch.zeros(2, 3, 4)
        ours = aten.clone(rushlight.from_dlpack(theirs))
        pairs, before = Pairs(), version(ours)
        args, our_args = pairs(args)
        read = [version(o) for o in pairs.ours]
        getattr(torch.ops.aten, name)(viewed(torch.ops.aten, theirs), *args)
        aten.find(name)(viewed(aten, ours), *our_args)
        moved = version(ours) > before, version(theirs) > 0
        assert moved[0] == moved[1], f"{name} on {view}: moved {moved[0]}, PyTorch's {moved[1]}"
        assert [version(o) for o in pairs.ours] == read, f"{name}: versions of what is read moved"


def test_items_that_are_set_move_the_version() -> None:
    for index, value in (
        (0, 1.0),
        ((slice(None), 1), 2.0),
        ((..., -1), 7.0),
        ((0, 1), 3.0),
        ((slice(None, None, 2),), 5.0),
        ((None, 0), 1.0),
    ):
        theirs = torch.zeros(3, 4)
        ours = aten.clone(rushlight.from_dlpack(theirs))
        before = version(ours)
        theirs[index] = value
        ours[index] = value
        assert version(ours) > before and version(theirs) == 1, index
    i, m = torch.tensor([0, 2]), torch.ones(3, 4, dtype=torch.bool)
    for line in (
        "x[0] = 1",
        "x[:, i] = 2",
        "x[m] = 3",
        "x[0][1] += 4",
        "x[:, :2] *= 2",
        "x[..., None, 0] = 5",
    ):
        unit = rushlight.jit.CompilationUnit(f"def f(x, i, m):\n    {line}\n    return x\n")
        mine = aten.clone(rushlight.from_dlpack(torch.zeros(3, 4)))
        before = version(mine)
        unit.f(mine, rushlight.from_dlpack(i), rushlight.from_dlpack(m))
        assert version(mine) > before, line
