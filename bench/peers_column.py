"""Rushlight as a column of the peers' scripts (../shared/peers/README.md):

    PEERS_EXTRA=bench/peers_column.py python ../shared/peers/t2_steady.py --columns eager

Calls go through the C interface (bench/column.c by ctypes), programs are those of bench/*.c; `make bench` builds them.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import sys
from typing import Any

import torch

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("RUSH_BUILD_DIR", HERE.parent / "build")).resolve()
sys.path.insert(0, str(HERE))

DTYPES = {torch.float32: 6, torch.float64: 7, torch.int64: 4, torch.int32: 3, torch.bool: 11}
C_TYPES = {6: ctypes.c_float, 7: ctypes.c_double, 4: ctypes.c_int64, 3: ctypes.c_int32, 11: ctypes.c_bool}


def open_library() -> Any:
    lib = ctypes.CDLL(str(BUILD / "bench" / "libbench_column.so"))
    lib.column_open.restype = ctypes.c_void_p
    lib.column_why.restype = ctypes.c_char_p
    lib.column_why.argtypes = [ctypes.c_void_p]
    lib.column_arg.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    lib.column_call.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.column_result.restype = ctypes.c_void_p
    lib.column_result.argtypes = [ctypes.c_void_p, ctypes.c_int] + [ctypes.c_void_p] * 3
    return lib


class Column:
    """A loaded archive with its arguments; calling it runs it once (`times` for more, in C)."""

    def __init__(self, path: str, args: tuple, threads: int) -> None:
        self.lib = open_library()
        self.args = [a.contiguous() if isinstance(a, torch.Tensor) else a for a in args]  # our arguments live on these
        self.column = self.lib.column_open(str(path).encode(), threads)
        self.check(0 if not self.lib.column_why(self.column) else -1)
        for a in self.args:
            if isinstance(a, torch.Tensor):
                sizes = (ctypes.c_int64 * max(a.dim(), 1))(*a.shape)
                self.check(self.lib.column_arg(self.column, DTYPES[a.dtype], a.dim(), sizes, a.data_ptr(), 0))
            else:
                self.check(self.lib.column_arg(self.column, -1, 0, None, None, int(a)))

    def check(self, status: int) -> None:
        if status:
            raise RuntimeError(self.lib.column_why(self.column).decode())

    def times(self, n: int) -> None:
        self.check(self.lib.column_call(self.column, n))

    def results(self) -> list[torch.Tensor]:
        out: list[torch.Tensor] = []
        dtype, n_dims, sizes = ctypes.c_int(), ctypes.c_int(), ctypes.POINTER(ctypes.c_int64)()
        while True:
            data = self.lib.column_result(self.column, len(out), ctypes.byref(dtype), ctypes.byref(n_dims), ctypes.byref(sizes))
            if not data:
                return out
            shape = [sizes[i] for i in range(n_dims.value)]
            kind = C_TYPES[dtype.value]
            count = int(torch.tensor(shape).prod()) if shape else 1
            buffer = (kind * count).from_address(data)
            out.append(
                torch.frombuffer(buffer, dtype=next(k for k, v in DTYPES.items() if v == dtype.value)).reshape(shape).clone()
            )


def prepare(name: str, model: Any, args: tuple, threads: int, paths: dict) -> Any:
    """The column of t2: None where there is no archive."""
    if not paths.get("pt"):
        return None
    column = Column(paths["pt"], args, threads)
    column.times(1)
    got = column.results()  # what the script compares: it looks at the outputs of the first calls only

    def call() -> Any:
        column.times(1)
        return got

    return call


def command(test: str, paths: dict, threads: int) -> list[str] | None:
    """Whole programs for t1, t3 and t4."""
    bench = BUILD / "bench"
    if test == "t1":
        return [str(bench / "bench_start"), paths["pt"], str(threads)]
    if test == "t3":
        return [str(bench / "bench_load"), paths["pt"], "5"]
    if test == "t4":
        import models

        path = models.overhead_of_script(pathlib.Path(paths["script"]), BUILD / "bench" / "t4.pt")
        return [str(bench / "bench_overhead"), str(path)]
    return None


columns = {"rushlight": prepare}
commands = {"rushlight": command}
