"""Operators of lists of tensors (src/ops/table/foreach.py), and fused steps of optimizers
(src/ops/table/optim.py), against PyTorch's."""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterator
from typing import Any

import pytest
import rushlight

torch = pytest.importorskip("torch")

from op_walk import Copies, difference  # noqa: E402

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8,
          torch.bool, torch.complex64]  # fmt: skip
# What PyTorch computes with another approximation, or contracts; the others agree in every bit.
# sqrt: MKL's, which it calls for rows, is not exact on every processor.
ROUNDED = set("""acos asin atan cos cosh erf erfc exp expm1 lgamma log log10 log1p log2 pow sigmoid
    sin sinh tan tanh norm reciprocal rsqrt sqrt mm
    addcdiv addcmul lerp""".split())  # fmt: skip


def overloads(prefix: str) -> list[Any]:
    """The operators of PyTorch with that prefix that run here, but for out= forms."""
    names = [n for n in dir(torch.ops.aten) if n.startswith(prefix)]
    names += [n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::" + prefix)]
    found = []
    for name in sorted({n.removeprefix("aten::").partition(".")[0] for n in names}):
        packet = getattr(torch.ops.aten, name)
        found += [getattr(packet, o) for o in packet.overloads() if "out" not in o]
    return [o for o in found if o._schema.name not in ("aten::_foreach_powsum",)]


FOREACH = overloads("_foreach_")


def tensors(dtype: Any, seed: int, shapes: Any = ((2, 3), (5,), ())) -> list[Any]:
    torch.manual_seed(seed)
    made = [torch.rand(s, dtype=torch.float64) * 3 + 0.2 for s in shapes]
    if dtype.is_complex:
        made = [t * (1 + 0.5j) for t in made]
    return [t.to(dtype) for t in made]


def argument(a: Any, dtype: Any, seed: int) -> Any:
    kind = str(a.type)
    if kind == "List[Tensor]":
        if a.name == "mat2" or seed == -1:
            return tensors(dtype, 7, ((3, 2), (2, 2)))
        return tensors(dtype, seed)
    if kind == "Tensor":
        return (
            tensors(dtype, seed, ((3,),))[0]
            if a.name == "scalars"
            else tensors(dtype, seed, ((),))[0]
        )
    number = 2 if not dtype.is_floating_point or a.name == "alpha" else 0.75
    if kind == "List[number]":
        return [number, 3, 1]
    return number if kind == "number" and a.name != "ord" else None


def call_both(function: Any, arguments: list, named: dict, any_words: bool = False) -> str:
    """What differs in results, arguments afterwards, or errors; '' if nothing.  `any_words`: the
    words of errors are those of the operator of one tensor, which other tests compare."""
    found = []
    for run in (function, rushlight_operator(function)):
        copies = Copies()
        args, kwargs = copies(arguments), copies(named)
        try:
            found.append((run(*args, **kwargs), args, None))
        except Exception as error:
            found.append((None, args, error))
    (want, theirs, refused), (got, mine, error) = found
    if refused or error:
        same = (
            bool(refused)
            and bool(error)
            and (
                any_words
                or (
                    type(refused) is type(error)
                    and first_sentence(refused) == first_sentence(error)
                )
            )
        )
        return "" if same else f"{error!r}, expected {refused!r}"
    name = function._schema.name.removeprefix("aten::_foreach_").rstrip("_")
    is_exact = name not in ROUNDED and not any(t.is_complex() for t in copies.tensors)
    tolerance = (0.0, 0.0) if is_exact else None
    return difference(got, want, "", tolerance) or difference(mine, theirs, "", tolerance)


def first_sentence(error: Any) -> str:
    return str(error).split("  (")[0].splitlines()[0]


def rushlight_operator(function: Any) -> Any:
    name = function._schema.name.removeprefix("aten::")
    return getattr(getattr(rushlight.ops.aten, name), function._schema.overload_name or "default")


@pytest.mark.parametrize("function", FOREACH, ids=str)
def test_agrees_with_pytorch(function: Any) -> None:
    schema = function._schema
    for dtype in DTYPES:
        given = [a for a in schema.arguments if a.name not in ("memory_format", "non_blocking")]
        values = [argument(a, dtype, -1 if "_mm" in schema.name else i)
                  for i, a in enumerate(given)]  # fmt: skip
        pairs = [(a, v) for a, v in zip(given, values, strict=True) if v is not None]
        args = [v for a, v in pairs if not a.kwarg_only]
        why = call_both(function, args, {a.name: v for a, v in pairs if a.kwarg_only}, True)
        if dtype.is_complex and schema.name == "aten::_foreach_abs_":
            continue  # PyTorch refuses it; abs_ of one tensor writes the real result here
        assert not why, f"{dtype}: {why}"


def wrong_arguments(schema: Any) -> Iterator[tuple[str, list]]:
    """Lists that are empty, too short, tensors of another shape."""
    given = [
        a for a in schema.arguments if a.name not in ("memory_format", "non_blocking", "dtype")
    ]
    right = [argument(a, torch.float32, i) for i, a in enumerate(given)]
    right = [1 if v is None else v for v in right]
    for i, a in enumerate(given):
        if isinstance(right[i], list):
            yield f"short {a.name}", right[:i] + [right[i][:1]] + right[i + 1 :]
            yield f"empty {a.name}", right[:i] + [[]] + right[i + 1 :]
        elif str(a.type) == "Tensor":
            for shape in ((), (2,), (1, 3), (1,)):
                yield f"{a.name} {shape}", right[:i] + [torch.ones(shape)] + right[i + 1 :]
    if all(isinstance(v, (int, float)) or isinstance(v, list) for v in right):
        yield "all empty", [[] if isinstance(v, list) else v for v in right]


# PyTorch itself reads beyond a list that is too short.
@pytest.mark.parametrize("function", [f for f in FOREACH if "_copy." not in str(f)], ids=str)
def test_refuses_what_pytorch_refuses(function: Any) -> None:
    for what, args in wrong_arguments(function._schema):
        named = {a.name: v for a, v in zip(function._schema.arguments, args, strict=False)
                 if a.kwarg_only}  # fmt: skip
        # Of two reasons to refuse an empty list, PyTorch's operators give one or the other.
        why = call_both(function, args[: len(args) - len(named)], named, "empty" in what)
        assert not why, f"{what}: {why}"


def test_norm_and_maximum_of_empty_tensors() -> None:
    aten = torch.ops.aten
    for function, args in ((aten._foreach_max.default, ()), (aten._foreach_norm.Scalar, (2,)),
                           (aten._foreach_norm.Scalar, (float("inf"),)),
                           (aten._foreach_norm.Scalar, (1, torch.float64))):  # fmt: skip
        named = {"dtype": args[1]} if len(args) > 1 else {}
        assert not call_both(function, [[torch.ones(2), torch.ones(0)], *args[:1]], named)


def test_gradients_go_through_lists() -> None:
    made = []
    for add, mul in (
        (torch._foreach_add, torch._foreach_mul_),
        (rushlight.ops.aten._foreach_add, rushlight.ops.aten._foreach_mul_),
    ):
        x = [t.requires_grad_() for t in tensors(torch.float64, 1)]
        y = add(x, [2.0, 3.0, 4.0])
        mul(y, x)
        sum(t.sum() for t in y).backward()
        made.append([t.grad for t in x])
    assert not difference(made[1], made[0])


def test_runs_in_a_program() -> None:
    @rushlight.script
    def program(x: list[torch.Tensor], y: list[torch.Tensor]) -> list[torch.Tensor]:
        torch._foreach_mul_(x, 0.5)
        torch._foreach_addcmul_(x, y, y, 2.0)
        return torch._foreach_norm(x, 1)

    x, y = tensors(torch.float32, 1), tensors(torch.float32, 2)
    want = [(a * 0.5 + b * b * 2).abs().sum() for a, b in zip(x, y, strict=True)]
    assert not difference(program(x, y), want)


# -- Fused steps -----------------------------------------------------------------------------------

SHAPES = ((1,), (15,), (4, 4), (17,), (512,), (513,), (), (0,), (70, 71))
RATES = {"lr": 0.02, "weight_decay": 0.03, "maximize": False}
SGD = {**RATES, "momentum": 0.9, "dampening": 0.2, "nesterov": False, "is_first_step": False}
ADAM = {**RATES, "beta1": 0.8, "beta2": 0.95, "eps": 1e-6, "amsgrad": False}
FUSED = {
    "_fused_sgd": (1, False, [SGD, {**SGD, "nesterov": True, "dampening": 0.0},
                              {**SGD, "is_first_step": True}, {**SGD, "momentum": 0.0},
                              {**SGD, "maximize": True, "weight_decay": 0.0}]),
    "_fused_adam": (3, True, [ADAM, {**ADAM, "amsgrad": True}, {**ADAM, "beta1": 0.3},
                              {**ADAM, "maximize": True, "weight_decay": 0.0}]),
    "_fused_adamw": (3, True, [ADAM, {**ADAM, "amsgrad": True}, {**ADAM, "maximize": True}]),
    "_fused_adagrad": (1, True, [{**RATES, "lr_decay": 0.1, "eps": 1e-6},
                                 {**RATES, "lr_decay": 0.0, "eps": 1e-6, "maximize": True}]),
}  # fmt: skip


def fused_arguments(name: str, options: dict, dtype: Any, shapes: Any = SHAPES) -> list:
    n_states, has_steps, _ = FUSED[name]
    lists = [tensors(dtype, k, shapes) for k in range(2 + n_states)]
    if not options.get("amsgrad", True):
        lists[-1] = []
    if options.get("momentum") == 0:
        lists[-1] = []
    return [*lists, *([[torch.tensor(3.0) for _ in shapes]] if has_steps else [])]


def close(got: Any, want: Any) -> str:
    """Steps are a few roundings apart: PyTorch's vector code contracts products."""
    dtype = next(t.dtype for t in want[0])
    tolerance = {torch.float64: (1e-14, 1e-13), torch.float32: (1e-6, 2e-6)}.get(dtype)
    return difference(got, want, "", tolerance)


def theirs_of(name: str) -> Any:
    """PyTorch's operator.  Its vector code for SGD on 16-bit elements leaves parameters as they are
    (2.13): computed in float32 instead."""
    if name != "_fused_sgd_":
        return getattr(torch.ops.aten, name)

    def step(*lists: list, **options: Any) -> None:
        wide = [[t.float() if t.element_size() == 2 else t for t in given] for given in lists]
        torch._fused_sgd_(*wide, **options)
        for given, w in zip(lists, wide, strict=True):
            torch._foreach_copy_(given, w) if given else None

    return types.SimpleNamespace(default=step, tensor_lr=step)


@pytest.mark.parametrize("tensor_lr", [False, True])
@pytest.mark.parametrize("name", FUSED)
def test_fused_steps_agree_with_pytorch(name: str, tensor_lr: bool) -> None:
    for options, dtype in itertools.product(FUSED[name][2], (
            torch.float32, torch.float64, torch.bfloat16, torch.float16)):  # fmt: skip
        if tensor_lr:
            options = {**options, "lr": torch.tensor(options["lr"], dtype=torch.float64)}
        for form in ("_", ""):
            if name + form == "_fused_sgd" and dtype.itemsize == 2:
                continue
            found = []
            for ops in (theirs_of(name + form), getattr(rushlight.ops.aten, name + form)):
                args = fused_arguments(name, options, dtype)
                overload = "tensor_lr" if tensor_lr else "default"
                found.append((getattr(ops, overload)(*args, **options), args))
            (want, theirs), (got, mine) = found
            assert not close(mine, theirs), f"{dtype} {options}: {close(mine, theirs)}"
            assert form == "_" or not close(got, want)
            assert got is None if form == "_" else len(got) == len(want)


def test_fused_steps_unscale_gradients_and_skip_infinite_ones() -> None:
    for name, found_inf in itertools.product(FUSED, (0.0, 1.0)):
        options = {**FUSED[name][2][0], "grad_scale": torch.tensor(4.0),
                   "found_inf": torch.tensor(found_inf)}  # fmt: skip
        lists = []
        for ops in (torch.ops.aten, rushlight.ops.aten):
            lists.append(fused_arguments(name, options, torch.float32))
            getattr(ops, name + "_")(*lists[-1], **options)
        assert not close(lists[1], lists[0])


def test_fused_steps_take_any_layout() -> None:
    for name in FUSED:
        options = FUSED[name][2][0]
        plain = fused_arguments(name, options, torch.float64, ((6, 4), (8,)))
        other = [[t.clone() for t in ts] for ts in plain]
        for k, ts in enumerate(other[: 2 + (name != "_fused_sgd")]):
            ts[0] = (
                ts[0].t().contiguous().t() if k != 1 else ts[0]
            )  # columns; the gradient has rows
            ts[1] = torch.stack([ts[1]] * 2, 1)[:, 0] if k != 2 else ts[1]  # gaps
        getattr(rushlight.ops.aten, name + "_")(*plain, **options)
        getattr(rushlight.ops.aten, name + "_")(*other, **options)
        same = [torch.equal(a, b) for p, o in zip(plain, other, strict=True)
                for a, b in zip(p, o, strict=True)]  # fmt: skip
        assert all(same)


def test_fused_steps_refuse_wrong_lists() -> None:
    cases = []
    for name in FUSED:
        options = FUSED[name][2][0]
        right = fused_arguments(name, options, torch.float32, ((3,), (2,)))
        for i in range(1, len(right)):
            cases.append((name,
                          right[:i] + [right[i][:1] if right[i] else right[0]] + right[i + 1 :],
                          options))  # fmt: skip
        cases.append((name, [right[0], [t.double() for t in right[1]], *right[2:]], options))
        cases.append((name, [[t.int() for t in ts] for ts in right[:-1]] + right[-1:], options))
        cases.append((name, right, {**options, "lr": torch.ones(2)}))
    for name, args, options in cases:
        function = getattr(torch.ops.aten, name + "_")
        function = getattr(function, "tensor_lr" if torch.is_tensor(options["lr"]) else "default")
        assert not call_both(function, args, options), name


def test_fused_steps_refuse_other_sizes() -> None:
    args = fused_arguments("_fused_adam", ADAM, torch.float32, ((3,), (2,)))
    args[1] = args[1][::-1]  # PyTorch reads beyond the end
    with pytest.raises(RuntimeError, match=r"sizes \[3\] has a gradient of sizes \[2\]"):
        rushlight.ops.aten._fused_adam_(*args, **ADAM)
    args[1] = [t.expand(3) if t.numel() == 1 else t for t in args[1][::-1]]
    args[2][0] = torch.ones(1).expand(3)
    with pytest.raises(RuntimeError, match="more than one element"):
        rushlight.ops.aten._fused_adam_(*args, **ADAM)


def test_gradients_are_unscaled_and_checked() -> None:
    """What torch.amp.GradScaler calls, in place and functional."""
    name = "_amp_foreach_non_finite_check_and_unscale"
    for bad, scale, found in itertools.product(
        (1.0, float("inf"), float("nan")), (0.5, 1.0), (0, 1)
    ):
        rows = []
        for ops in (torch.ops.aten, rushlight.ops.aten):
            grads = [*tensors(torch.float32, 1), torch.tensor([bad, 2.0])]
            args = [grads, torch.tensor([float(found)]), torch.tensor(scale)]
            made = getattr(ops, name)(*args)
            assert getattr(ops, name + "_")(*args) is None
            rows.append((args, made))
        assert not difference(rows[1], rows[0], "", (0.0, 0.0))
    for args in ([[torch.ones(2)], torch.zeros(2), torch.ones(1)],
                 [[torch.ones(2)], torch.zeros(1), torch.ones(2)],
                 [[torch.ones(2)], torch.zeros(1).double(), torch.ones(1)],
                 [[torch.ones(2)], torch.zeros(1), torch.ones(1).half()]):  # fmt: skip
        assert not call_both(getattr(torch.ops.aten, name + "_").default, args, {})
