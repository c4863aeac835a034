"""What users of torch and numpy take for granted, without torch: modules' methods, refusals that
say what to do."""

from __future__ import annotations

import errno
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import rushlight
from conftest import DATA, TOP

DIGITS, EXPORTED = str(TOP / "examples" / "digits" / "digits.pt"), str(DATA / "digits.pt2")


def without_torch(code: str) -> str:
    """What the code prints in a Python where torch is not installed."""
    head = (
        f"import sys\nsys.modules['torch'] = None\nimport rushlight\nDIGITS, EXPORTED = "
        f"{DIGITS!r}, {EXPORTED!r}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(code)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_modules_convert() -> None:
    out = without_torch("""
        m = rushlight.load(DIGITS)
        before = m(rushlight.ones(1, 1, 8, 8))
        assert m.double() is m and {p.dtype for p in m.parameters()} == {rushlight.float64}
        after = m(rushlight.ones(1, 1, 8, 8, dtype=rushlight.float64))
        assert after.dtype == rushlight.float64 and rushlight.allclose(after.float(), before, atol=1e-4)
        assert {p.dtype for p in m.half().parameters()} == {rushlight.float16}
        assert {p.dtype for p in m.bfloat16().parameters()} == {rushlight.bfloat16}
        assert {p.dtype for p in m.to(rushlight.float32).parameters()} == {rushlight.float32}
        assert {p.dtype for p in m.to("cpu", dtype=rushlight.float64).parameters()} == {rushlight.float64}
        assert {p.dtype for p in m.to(rushlight.ones(1)).parameters()} == {rushlight.float32}
        assert m.to("cpu") is m.cpu() is m.float() is m
        assert len(m.state_dict()) == len({*m.state_dict()}) and m.hidden.weight.dtype == rushlight.float32
        for bad in (lambda: m.to(rushlight.int64), lambda: m.cuda(), lambda: rushlight.load(EXPORTED).half()):
            try:
                bad()
            except (TypeError, AssertionError, RuntimeError) as error:
                print(error)
    """)
    assert (
        "nn.Module.to only accepts floating point or complex dtypes, but got desired "
        "dtype=rushlight.int64" in out
    )
    assert "'cuda' is not available" in out and "part of its graph" in out


def test_gradients_are_forgotten() -> None:
    without_torch("""
        m = rushlight.load(DIGITS)
        m.requires_grad_(True)
        with rushlight.enable_grad():
            m(rushlight.ones(1, 1, 8, 8)).sum().backward()
        parameter = next(m.parameters())
        assert parameter.grad is not None
        m.zero_grad(set_to_none=False)
        assert parameter.grad.abs().sum().item() == 0
        m.zero_grad()
        assert parameter.grad is None
    """)


def test_hooks() -> None:
    without_torch("""
        m = rushlight.load(DIGITS)
        x = rushlight.ones(1, 1, 8, 8)
        plain, seen = m(x), []
        first = m.register_forward_hook(lambda module, args, output: seen.append((module is m, len(args), output.shape)))
        assert m(x).tolist() == plain.tolist() and seen == [(True, 1, (1, 10))]
        with m.register_forward_hook(lambda module, args, output: output * 0):
            assert m(x).abs().sum().item() == 0
        first.remove()
        assert m(x).tolist() == plain.tolist() and len(seen) == 2
        before = m.register_forward_pre_hook(lambda module, args: args[0] * 0)
        assert m(x).tolist() == m(x * 0).tolist() != plain.tolist()
        before.remove()
        both = m.register_forward_pre_hook(lambda module, args, kwargs: ((x * 0,), {}), with_kwargs=True)
        assert m(x=x).tolist() != plain.tolist()
        both.remove()
        last = m.register_forward_hook(lambda module, args, kwargs, output: list(kwargs), with_kwargs=True)
        assert m(x=x) == ["x"]
    """)


def test_exported_programs_have_parts() -> None:
    without_torch("""
        e = rushlight.load(EXPORTED)
        assert e.training is True and e.eval().training is False
        assert [name for name, _ in e.named_children()] == ["conv", "norm", "out"]
        assert [name for name, _ in e.named_modules()] == ["", "conv", "norm", "out"]
        assert e.get_parameter("conv.weight").shape == e.conv.weight.shape == e.get_submodule("conv").weight.shape
        assert [name for name, _ in e.norm.named_parameters()] == ["weight", "bias"]
        assert [name for name, _ in e.norm.named_buffers()] == ["running_mean", "running_var", "num_batches_tracked"]
        assert len(list(e.parameters())) == 6 and len(list(e.buffers())) == 3
        assert e.norm == e.norm and "weight" in dir(e.norm) and not hasattr(e, "nope") and not hasattr(e.norm, "nope")
    """)


def test_with_torch_modules_are_torch_s() -> None:
    torch = pytest.importorskip("torch")
    model = rushlight.load(EXPORTED)
    assert isinstance(model.get_parameter("conv.weight"), torch.Tensor) and isinstance(
        model.conv.weight, torch.Tensor
    )
    for name in ("to", "half", "zero_grad", "register_forward_hook", "register_forward_pre_hook"):
        assert getattr(type(model), name).__module__ == "torch.nn.modules.module"


ARRAYS = [
    (np.zeros(3)[::-1], ValueError, r"At least one stride .* negative.*array\.copy\(\)"),
    (
        np.zeros(3, ">f4"),
        ValueError,
        r"byte order different from the native byte order.*newbyteorder",
    ),
    (
        np.array(["a"]),
        TypeError,
        r"can't convert np.ndarray of type numpy.str_\. The only supported types are: float64",
    ),
    (np.array([object()]), TypeError, r"can't convert np.ndarray of type numpy.object_"),
    (
        np.array(["2020-01-01"], "M8[D]"),
        TypeError,
        r"can't convert np.ndarray of type numpy.datetime64",
    ),
    (np.zeros(1, [("a", "f4")]), TypeError, r"can't convert np.ndarray of type numpy.void"),
    (
        np.zeros(7, np.uint8)[1:].view([("a", "u1"), ("b", "f2")])["b"],
        ValueError,
        r"not a multiple of the element byte size",
    ),
]


@pytest.mark.parametrize(("array", "error", "why"), ARRAYS)
def test_arrays_that_are_no_tensors(array: np.ndarray, error: type[Exception], why: str) -> None:
    for read in (rushlight.as_tensor, rushlight.tensor, rushlight.from_numpy):
        with pytest.raises(error, match=why):
            read(array)
    with pytest.raises((error, RuntimeError), match=why):
        rushlight.load(DIGITS)(array)


def test_one_row_may_have_any_stride() -> None:
    assert rushlight.as_tensor(np.ones((1, 2))[::-1]).tolist() == [[1.0, 1.0]]


def test_keywords_that_no_program_has() -> None:
    x = np.zeros((1, 1, 8, 8), np.float32)
    for model, error in (
        (rushlight.load(DIGITS), RuntimeError),
        (rushlight.load(EXPORTED), ValueError),
    ):
        with pytest.raises(error, match="unexpected keyword 'y'"):
            model(y=x)
        with pytest.raises((error, RuntimeError), match="'y'"):
            model(x, y=x)


def test_tensors_in_containers_print_as_python_prints_them() -> None:
    x = rushlight.tensor([1.0, 2.0])
    assert str([x]) == "[tensor([1., 2.])]" and str({"a": (x,)}) == "{'a': (tensor([1., 2.]),)}"


def test_dtypes_without_torch() -> None:
    out = without_torch("""
        f = rushlight.CompilationUnit("def f(x: Tensor, dtype: int): return torch.zeros([2], dtype=dtype) + x.to(dtype)").f
        print(f(rushlight.ones(2), dtype=rushlight.float64).dtype, rushlight.zeros(2, dtype=rushlight.float64).dtype)
        print(rushlight.ops.aten.zeros([2], dtype=rushlight.float64).dtype)
    """)
    assert out.split() == ["rushlight.float64"] * 3


@pytest.mark.parametrize("read", ["load", "load_value", "load_library"])
def test_missing_files(read: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        getattr(rushlight, read)("/no/such.pt")
    assert (
        caught.value.errno == errno.ENOENT
        and caught.value.filename == "/no/such.pt"
        and "/no/such.pt" in str(caught.value)
    )


def test_tables_are_sorted() -> None:
    model = rushlight.load(DIGITS)
    with rushlight.profiler.profile() as prof:
        model(np.zeros((1, 1, 8, 8), np.float32))
    averages = prof.key_averages()
    for name, key in (
        ("count", "count"),
        ("self_cpu_time_total", "self_total"),
        ("cpu_time_total", "total"),
    ):
        rows = averages.table(sort_by=name).splitlines()[1:]
        best = max(averages, key=lambda row: getattr(row, key))
        first = next(row for row in averages if rows[0].startswith(f"{row.key} "))
        assert getattr(first, key) == getattr(best, key)
    assert len(averages.table(sort_by="total", row_limit=1).splitlines()) == 2
    with pytest.raises(AttributeError, match="sort_by is one of total, self_total"):
        averages.table(sort_by="nothing")
