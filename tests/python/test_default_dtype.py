"""torch.set_default_dtype: calls of scripts, traces and operators use the default dtype that torch
has when they start, also after plans were made for another one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import rushlight

torch = pytest.importorskip("torch")

DTYPES = (torch.float64, torch.float16, torch.bfloat16, torch.float32)


@contextmanager
def default_dtype(dtype: Any) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


# PyTorch computes factories of constants once for all calls, so every size here depends on `x`.
def factories(x):
    n = x.size(0)
    made = [
        torch.ones(n),
        torch.zeros([n]),
        torch.full([n], 1.5),
        torch.eye(n),
        torch.arange(n / 2),
    ]
    made += [torch.linspace(0, 1, n), torch.logspace(0, 1, n), torch.arange(0.0, n, 0.5)]
    return made + [
        torch.rand(n),
        torch.randn(n),
        torch.normal(0.0, 1.0, [n]),
        torch.empty(n).fill_(1),
    ]


def windows(x):
    n = x.size(0)
    made = [torch.hann_window(n), torch.bartlett_window(n), torch.hamming_window(n)]
    return made + [torch.fft.fftfreq(n), torch.fft.rfftfreq(n)]


def numbers(x):
    f = float(x[0].item())
    made = [
        torch.tensor(f),
        torch.as_tensor(f),
        torch.scalar_tensor(f),
        torch.scalar_tensor(x.size(0)),
    ]
    return made + [torch.tensor(complex(f, 2.0)), x * complex(f, 2.0)]


def promotions(x):
    made = [
        x / 2,
        x / x,
        x * 1.5,
        x + 0.5,
        1.5 - x,
        x % 1.5,
        x**0.5,
        (x > 1) * 1.5,
        x.clamp(0.5, 2),
    ]
    made += [x.sin(), torch.sigmoid(x), torch.atan2(x, x), x.rsqrt(), torch.polygamma(1, x)]
    made += [torch.logsumexp(x, 0), torch.where(x > 1, x, 2.5), torch.true_divide(x, 3)]
    return made + [torch.full_like(x, 1.5), x.float() * 1.5, x.half() + 0.5, x.double() / 3]


def transforms(x):
    return [torch.fft.fft(x), torch.fft.rfft(x), torch.cov(x), torch.trapezoid(x)]


def result_type(x):
    return [torch.empty([0], dtype=torch.result_type(x, 1.5))]


FUNCTIONS = (factories, windows, numbers, promotions, result_type)
TRACED = (factories, windows, promotions, transforms)


def check(ours: Any, theirs: Any, calls: int = 3) -> None:
    x = torch.tensor([1, 2, 3])
    for _ in range(calls):
        torch.manual_seed(0)
        want = theirs(x)
        torch.manual_seed(0)
        got = ours(x)
        for i, (a, b) in enumerate(zip(got, want, strict=True)):
            assert a.dtype is b.dtype, (i, a, b)
            torch.testing.assert_close(a, b, msg=lambda m, i=i: f"{i}: {m}")


@pytest.mark.parametrize("f", FUNCTIONS)
def test_scripts_use_the_default_dtype_of_the_call(f: Callable[..., Any]) -> None:
    ours = rushlight.script(f)
    for dtype in (torch.float32, *DTYPES):
        with default_dtype(dtype):
            check(ours, torch.jit.script(f))


@pytest.mark.parametrize("f", TRACED)
@pytest.mark.parametrize("dtype", DTYPES)
def test_traces_use_the_default_dtype_of_the_call(f: Callable[..., Any], dtype: Any) -> None:
    if f is transforms and dtype.itemsize == 2:
        pytest.skip("torch.fft refuses 16 bits")
    x = torch.tensor([1, 2, 3])
    with default_dtype(dtype):
        ours = rushlight.trace(f, (x,), check_trace=False)
        check(ours, torch.jit.trace(f, (x,), check_trace=False))
    if f is promotions:  # no dtype stands in the trace
        for other in (torch.float32, torch.float64):
            with default_dtype(other):
                check(ours, f)


def test_transforms_refuse_integers_that_become_16_bits() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        with default_dtype(dtype), pytest.raises(RuntimeError, match="Unsupported dtype"):
            rushlight.ops.aten.fft_fft(torch.tensor([1, 2, 3]))


def scaled(x, w):
    return (x * w / 2).sum() * torch.ones([x.size(0)]).sum()


def test_gradients_with_another_default_dtype() -> None:
    ours, x = rushlight.script(scaled), torch.tensor([1, 2, 3])
    for dtype in (torch.float32, torch.float64, torch.float32):
        with default_dtype(dtype):
            for _ in range(3):
                grads = []
                for f in (ours, scaled):
                    w = torch.tensor([0.5, 1.5, 2.5], requires_grad=True)
                    y = f(x, w)
                    y.backward()
                    grads.append((y.detach(), w.grad))
                (a, da), (b, db) = grads
                assert a.dtype is b.dtype is dtype and da.dtype is db.dtype is dtype
                torch.testing.assert_close((a, da), (b, db))


def test_operators_and_data_have_the_default_dtype() -> None:
    with default_dtype(torch.float64):
        assert rushlight.get_default_dtype() is rushlight.float64
        assert rushlight.ones(2).dtype is rushlight.float64
        assert rushlight.tensor([1, 2.5]).dtype is rushlight.float64
        assert rushlight.tensor([1j]).dtype is rushlight.complex128
        assert rushlight.tensor([]).dtype is rushlight.float64
        assert (rushlight.tensor([1, 2]) / 2).dtype is rushlight.float64
    assert rushlight.get_default_dtype() is rushlight.float32
    assert rushlight.ones(2).dtype is rushlight.tensor([2.5]).dtype is rushlight.float32


def test_setting_it_here_sets_torchs() -> None:
    with default_dtype(torch.float32):
        rushlight.set_default_dtype("float64")
        assert torch.get_default_dtype() is torch.float64
        rushlight.set_default_dtype(torch.bfloat16)
        assert torch.get_default_dtype() is torch.bfloat16
        for wrong in (rushlight.int64, torch.complex64, "bool"):
            with pytest.raises(TypeError, match="only floating-point types"):
                rushlight.set_default_dtype(wrong)
    assert rushlight.ones(2).dtype is rushlight.float32


WITHOUT_TORCH = """
import sys
import rushlight
def f(n: int):
    return rushlight.arange(n) / 2
unit = rushlight.CompilationUnit("def f(n: int):\\n    return torch.arange(n) / 2, torch.ones([n])\\n")
for name in ("float32", "float64", "float16", "float32"):
    rushlight.set_default_dtype(name)
    for _ in range(3):
        a, b = unit.f(3)
        assert str(a.dtype).endswith(name) and a.dtype is b.dtype is rushlight.ones(2).dtype, a
assert "torch" not in sys.modules
"""


def test_without_torch() -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


TWO = torch.tensor(1 + 2j, dtype=torch.complex128)


def complex_numbers(x):
    return x * complex(1, 2), x * TWO, x + TWO, x - TWO, x / TWO, x * 1.5


@pytest.mark.parametrize("x", [torch.tensor([1, 2, 3]), torch.ones(2)])
def test_complex_constants_of_traces_are_numbers(x: Any) -> None:
    ours = rushlight.trace(complex_numbers, (x,), check_trace=False)
    theirs = torch.jit.trace(complex_numbers, (x,), check_trace=False)
    for _ in range(3):
        torch.testing.assert_close(ours(x), theirs(x))
