"""Rushlight as columns of the peers' scripts (../shared/peers/README.md):

    PEERS_EXTRA=bench/peers_column.py python ../shared/peers/t2_steady.py --columns eager

Column `rushlight` calls through the C interface (bench/column.c by ctypes; loops of many calls are
loops in C), column `rushlight_py` calls the Python module with torch's tensors (t2 and t9 only);
programs are those of bench/*.c.  `make bench` builds all; RUSH_BUILD_DIR says where.  Products and
convolutions (t6) are archives of one operator whose weight is a parameter, as a program has it;
outputs are compared with torch's before anything is measured.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import re
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

# torch is imported where it is used: t1 would otherwise count this process' memory as that of the
# programs it starts.
HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("RUSH_BUILD_DIR", HERE.parent / "build")).resolve()

DTYPES = {"float32": 6, "float64": 7, "int64": 4, "int32": 3, "bool": 11, "bfloat16": 15}
C_TYPES = {
    6: ctypes.c_float, 7: ctypes.c_double, 4: ctypes.c_int64, 3: ctypes.c_int32, 11: ctypes.c_bool,
    15: ctypes.c_uint16,
}  # fmt: skip


def open_library() -> Any:
    lib = ctypes.CDLL(str(BUILD / "bench" / "libbench_column.so"))
    lib.column_open.restype = ctypes.c_void_p
    lib.column_why.restype = ctypes.c_char_p
    lib.column_why.argtypes = [ctypes.c_void_p]
    lib.column_arg.argtypes = [
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
    ]
    lib.column_call.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.column_train.argtypes = [ctypes.c_void_p, ctypes.c_double, ctypes.c_double]
    lib.column_steps.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.column_result.restype = ctypes.c_void_p
    lib.column_result.argtypes = [ctypes.c_void_p, ctypes.c_int] + [ctypes.c_void_p] * 3
    return lib


class Column:
    """A loaded archive with its arguments; calling it runs it once (`times` for more, in C)."""

    def __init__(self, path: str, args: tuple, threads: int) -> None:
        import torch

        self.lib = open_library()
        self.args = [
            a.contiguous() if isinstance(a, torch.Tensor) else a for a in args
        ]  # our arguments live on these
        self.column = self.lib.column_open(str(path).encode(), threads)
        self.check(0 if not self.lib.column_why(self.column) else -1)
        for a in self.args:
            if isinstance(a, torch.Tensor):
                sizes = (ctypes.c_int64 * max(a.dim(), 1))(*a.shape)
                self.check(
                    self.lib.column_arg(
                        self.column,
                        DTYPES[str(a.dtype).removeprefix("torch.")],
                        a.dim(),
                        sizes,
                        a.data_ptr(),
                        0,
                    )
                )
            else:
                self.check(self.lib.column_arg(self.column, -1, 0, None, None, int(a)))

    def check(self, status: int) -> None:
        if status:
            raise RuntimeError(self.lib.column_why(self.column).decode())

    def times(self, n: int) -> None:
        self.check(self.lib.column_call(self.column, n))

    def train(self, lr: float, momentum: float) -> None:
        """Prepare `steps`: SGD; the last argument has the classes."""
        self.check(self.lib.column_train(self.column, lr, momentum))

    def steps(self, n: int) -> None:
        """Train n steps; the result is the last loss."""
        self.check(self.lib.column_steps(self.column, n))

    def results(self) -> list[Any]:
        import torch

        out: list[Any] = []
        dtype, n_dims, sizes = ctypes.c_int(), ctypes.c_int(), ctypes.POINTER(ctypes.c_int64)()
        while True:
            data = self.lib.column_result(
                self.column,
                len(out),
                ctypes.byref(dtype),
                ctypes.byref(n_dims),
                ctypes.byref(sizes),
            )
            if not data:
                return out
            shape = [sizes[i] for i in range(n_dims.value)]
            kind = C_TYPES[dtype.value]
            count = int(torch.tensor(shape).prod()) if shape else 1
            buffer = (kind * count).from_address(data)
            name = next(k for k, v in DTYPES.items() if v == dtype.value)
            out.append(torch.frombuffer(buffer, dtype=getattr(torch, name)).reshape(shape).clone())


def loop_of(column: Column, result: Any) -> Callable[[], Any]:
    """Return a callable for the peers' timer: as many calls in C as take a millisecond; it returns
    `result`."""
    column.times(3)
    begin = time.perf_counter()
    column.times(2)
    calls = max(1, min(20000, int(2e-3 / max(time.perf_counter() - begin, 1e-9))))

    def call() -> Any:
        column.times(calls)
        return result

    call.calls = calls  # type: ignore[attr-defined]
    return call


def of_program(module: Any, args: tuple, threads: int) -> Column:
    """Return a scripted module as an archive, loaded; the file needs no name after that."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "one.pt"
        module.save(str(path))
        return Column(str(path), args, threads)


def gemm_or_conv(name: str, args: tuple, threads: int) -> Column:
    """t6: (a, b) of a @ b.t(), or (x, weight, stride, padding, groups); without bias as the peers'
    columns."""
    import torch

    if name.startswith("gemm:"):
        weight = args[1]
        module: Any = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    else:
        _, weight, stride, padding, groups = args
        out_ch, in_ch, kernel, _ = weight.shape
        module = torch.nn.Conv2d(
            in_ch * groups, out_ch, kernel, stride, padding, groups=groups, bias=False
        )
    module.weight = torch.nn.Parameter(weight.clone())
    want = module(args[0]).detach()
    column = of_program(torch.jit.script(module.eval()), args[:1], threads)
    column.times(3)  # a weight is packed at its second use
    (got,) = column.results()
    rtol = 1e-3 if want.dtype == torch.float32 else 2e-2
    if not torch.allclose(
        got.float(), want.float(), rtol=rtol, atol=rtol * float(want.float().abs().max())
    ):
        raise RuntimeError(f"{name}: the answers differ")
    return column


def mulchain(args: tuple, threads: int) -> Column:
    """t7: the module from its source, the output made by every call."""
    import torch

    class MulChain(torch.nn.Module):
        # TorchScript reads no annotations of this file.
        def forward(self, a, b):  # noqa: ANN001, ANN202
            c = a.mul(b)
            a = c.mul(c)
            return c.mul(a)

    column = of_program(torch.jit.script(MulChain()), args, threads)
    column.times(3)
    c = args[0] * args[1]
    if not torch.equal(column.results()[0], c * (c * c)):
        raise RuntimeError("mulchain: the answers differ")
    return column


def training(module: Any, args: tuple, threads: int) -> Callable[[], Any]:
    """t8: steps with the script's optimizer, in C."""
    import torch

    column = of_program(torch.jit.script(module), args, threads)
    column.train(1e-3, 0.9)
    column.steps(5)
    begin = time.perf_counter()
    column.steps(5)
    calls = max(1, min(20000, int(10e-3 / max(time.perf_counter() - begin, 1e-9))))

    def call() -> None:
        column.steps(calls)

    call.calls = calls  # type: ignore[attr-defined]
    return call


# the script sleeps 2 ms between columns, and then calls once before it looks at the clock
IDLE_S = 0.0015
SETTLE_S = 0.06


def settled(call: Any) -> Any:
    """Wait until the workers of the column before are asleep, which the script's pause is for.
    onnxruntime's keep a core busy for 48 ms after their last job (measured), which is all of a
    block: the first call after a pause, which is not timed, waits."""
    last = [0.0]

    def patient() -> Any:
        if time.perf_counter() - last[0] > IDLE_S:
            time.sleep(SETTLE_S)
        got = call()
        last[0] = time.perf_counter()
        return got

    patient.calls = getattr(call, "calls", 1)  # type: ignore[attr-defined]
    return patient


def prepare(name: str, model: Any, args: tuple, threads: int, paths: dict) -> Any:
    """Through the C interface."""
    if re.match(r"(gemm|conv):", name):
        call = loop_of(gemm_or_conv(name, args, threads), None)
        return settled(call) if threads > 1 else call
    if name.startswith("train:"):
        return training(model, args, threads)
    if re.match(r"mulchain_\d+$", name):
        return loop_of(mulchain(args, threads), None)
    if not paths.get("pt"):
        return None
    column = Column(paths["pt"], args, threads)
    column.times(3)
    call = loop_of(column, column.results())
    return settled(call) if threads > 1 else call


def loaded(rushlight: Any, model: Any) -> Any:
    """Return a module as the Python module loads it from an archive."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "one.pt")
        torch.jit.script(model).save(path)
        return rushlight.load(path)


def prepare_py(name: str, model: Any, args: tuple, threads: int, paths: dict) -> Any:
    """The Python module, called as its users do: torch's tensors in and out."""
    is_dynamic = name.startswith("dynamic:")  # t9: the script calls it with one batch after another
    if not paths.get("pt") and not is_dynamic:
        return None
    sys.path.insert(0, str(BUILD / "python"))
    import rushlight

    rushlight.set_num_threads(threads)
    if is_dynamic:
        return loaded(rushlight, model)
    module = rushlight.load(paths["pt"])
    return lambda: module(*args)


def command(test: str, paths: dict, threads: int) -> list[str] | None:
    """Whole programs for t1, t3 and t4."""
    bench = BUILD / "bench"
    if test == "t1":
        return [str(bench / "bench_start"), paths["pt"], str(threads)]
    if test == "t3":
        return [str(bench / "bench_load"), paths["pt"], "5"]
    if test == "t4":
        sys.path.insert(0, str(HERE))
        import models

        path = models.overhead_of_script(pathlib.Path(paths["script"]), BUILD / "bench" / "t4.pt")
        return [str(bench / "bench_overhead"), str(path)]
    return None


columns = {"rushlight": prepare, "rushlight_py": prepare_py}
commands = {"rushlight": command}
