"""Gradients through programs: one autograd.Function represents everything that a call recorded.

Its inputs are torch's tensors that the records depend on (arguments, parameters), its results are
the results of the call. Its backward computes the gradients with the library; with create_graph
these operators are recorded too, and become such a Function again.
"""

from __future__ import annotations

import functools
from typing import Any

from . import _rushlight


class Recorded:
    """The records of a call: results, the leaves that they depend on, and torch's tensors for
    these."""

    __slots__ = ("leaves", "objects", "outputs", "versions")

    def __init__(self, outputs: list[Any], leaves: list[Any], objects: list[Any]) -> None:
        self.outputs, self.leaves, self.objects = outputs, leaves, objects
        self.versions: list[tuple[Any, int, Any]] = []

    def watch(self, made: list[Any]) -> None:
        """Detect torch's writes to memory that is shared with saved tensors."""
        versions = [
            (o, o._version, ours) for o, ours in zip(self.objects, self.leaves, strict=True)
        ]
        for o, ours in zip(made, self.outputs, strict=True):
            versions.append((o.detach(), o._version, ours))
        self.versions = versions

    def look(self) -> None:
        for i, (tensor, version, ours) in enumerate(self.versions):
            if tensor._version != version:
                _rushlight._touch(ours)
                self.versions[i] = (tensor, tensor._version, ours)


def keeps_graph() -> bool:
    """True if the graph of the running backward will be used again."""
    import torch

    ask = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return ask is None or bool(ask())


def _run(recorded: Recorded, rows: list[Any], needed: Any, records: bool) -> list[Any]:
    """Return the gradients of the leaves, None for those not needed; rows: (result, its gradient,
    torch's)."""
    wanted = [i for i in range(len(recorded.leaves)) if needed[i]]
    out: list[Any] = [None] * len(recorded.leaves)
    if not rows or not wanted:
        return out
    leaves = [recorded.leaves[i] for i in wanted]
    outputs, grads = [row[0] for row in rows], [row[1] for row in rows]
    got = _rushlight._run_gradients(outputs, grads, leaves, records, True, True)
    for i, g in zip(wanted, got, strict=True):
        out[i] = g
    return out


def _rows(recorded: Recorded, grads: Any) -> list[Any]:
    pairs = zip(recorded.outputs, grads, strict=True)
    return [(o, _rushlight._from_torch(g), g) for o, g in pairs if g is not None]


def first_gradients(recorded: Recorded, grads: Any, needed: Any) -> list[Any]:
    """Return the gradients as torch's tensors without a history. The records are kept: gradients of
    gradients use them too."""
    got = _run(recorded, _rows(recorded, grads), needed, False)
    return [None if g is None else _rushlight._to_torch(g) for g in got]


def recorded_gradients(recorded: Recorded, grads: Any, needed: Any) -> list[Any]:
    """Return the gradients with a history: the operators of the backward are recorded."""
    given, at = _rows(recorded, grads), _rushlight._address
    got = _run(recorded, given, needed, True)
    known = {at(ours): o for ours, o in zip(recorded.leaves, recorded.objects, strict=True)}
    known |= {at(ours): o for _, ours, o in given}
    linked = [g for g in got if g is not None and g.is_recorded]
    leaves = [leaf for leaf in _rushlight._gradient_leaves(linked) if at(leaf) in known]
    made = iter(connect(linked, leaves, [known[at(leaf)] for leaf in leaves], []))

    def of_torch(g: Any) -> Any:
        if g is None or g.is_recorded:
            return None if g is None else next(made)
        found = known.get(at(g))
        return _rushlight._to_torch(g) if found is None else found

    return list(map(of_torch, got))


def _apply_of(function: Any) -> Any:
    """Return function.apply without what it does for torch.func where none is active."""
    import torch

    base = getattr(super(torch.autograd.Function, function), "apply", None)
    is_transformed = getattr(torch._C, "_are_functorch_transforms_active", None)
    if base is None or is_transformed is None:
        return function.apply

    def apply(*args: Any) -> Any:
        return function.apply(*args) if is_transformed() else base(*args)

    return apply


@functools.cache
def functions() -> tuple[Any, Any]:
    """Return the autograd functions; call this only if torch is imported."""
    import torch

    empty = torch.empty(0)
    to_torch = _rushlight._to_torch

    class Rushlight(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, recorded: Recorded, dirty: list[Any], *tensors: Any) -> Any:
            ctx.recorded = recorded
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(empty)
            if not dirty:
                return tuple(map(to_torch, recorded.outputs))
            ctx.mark_dirty(*dirty)
            n_new = len(recorded.outputs) - len(dirty)
            return (*map(to_torch, recorded.outputs[:n_new]), *dirty)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            _ = ctx.saved_tensors  # complains when the graph was freed
            recorded, needed = ctx.recorded, ctx.needs_input_grad[2:]
            recorded.look()
            with torch._C.DisableTorchFunctionSubclass():
                run = recorded_gradients if torch.is_grad_enabled() else first_gradients
                got = run(recorded, grads, needed)
            if not keeps_graph():
                ctx.recorded = None
            return (None, None, *got, *[None] * (len(needed) - len(got)))

    def call(node: Any, *grads: Any) -> Any:
        """Call a grad_fn with gradients of the results, as those of torch's operators can be."""
        _ = node.saved_tensors  # complains when the graph was freed
        recorded = node.recorded
        if len(grads) != len(recorded.outputs):
            raise TypeError(f"expected {len(recorded.outputs)} arguments, got {len(grads)} instead")
        recorded.look()
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            return tuple(first_gradients(recorded, grads, node.needs_input_grad[2:]))

    Rushlight._backward_cls.__call__ = call  # type: ignore[attr-defined]

    class Before(torch.autograd.Function):
        """The state of a tensor before the program wrote to it."""

        @staticmethod
        def forward(ctx: Any, tensor: Any) -> Any:
            return tensor.detach()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    return _apply_of(Rushlight), Before


def connect(
    outputs: list[Any], leaves: list[Any], objects: list[Any], dirty: list[Any]
) -> list[Any]:
    """Return tensors of torch with a grad_fn for the recorded calls. The last ones are arguments
    that were written to (`dirty`)."""
    if not outputs:
        return []
    apply, before = functions()
    inputs = objects
    if dirty:
        written = {id(o) for o in dirty}
        objects = [before.apply(o) if id(o) in written else o for o in inputs]
        inputs = [*inputs, *(o for o in dirty if not any(o is i for i in inputs))]
    recorded = Recorded(outputs, leaves, objects)
    made = list(apply(recorded, dirty, *inputs))
    recorded.watch(made)
    return made
