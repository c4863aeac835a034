"""torch.save files of plain data, in both formats; safetensors and npy."""

from __future__ import annotations

import collections
import io
import os
import pathlib
import subprocess
from typing import Any

import numpy
import pytest
import rushlight

torch = pytest.importorskip("torch")

BUILD = pathlib.Path(os.environ.get("RUSH_BUILD_DIR", "build"))
REAL = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.complex128,
]
UNTYPED = [torch.uint16, torch.uint32, torch.uint64]


def through(value: Any, tmp_path: pathlib.Path, zipped: bool, **more: Any) -> Any:
    path = tmp_path / "value.pt"
    torch.save(value, path, _use_new_zipfile_serialization=zipped, **more)
    return rushlight.load_value(str(path))


def same(got: Any, want: Any) -> None:
    if isinstance(want, torch.Tensor):
        got = torch.as_tensor(got) if not isinstance(got, torch.Tensor) else got
        assert got.dtype == want.dtype and got.shape == want.shape
        assert torch.equal(
            got.contiguous().view(torch.uint8) if got.numel() and got.dim() else got,
            want.contiguous().view(torch.uint8) if got.numel() and got.dim() else want,
        )
    elif isinstance(want, dict):
        assert list(got) == list(want)
        for k in want:
            same(got[k], want[k])
    elif isinstance(want, (list, tuple)):
        assert type(got) is type(want) and len(got) == len(want)
        for a, b in zip(got, want, strict=False):
            same(a, b)
    else:
        assert type(got) is type(want) and (got == want or (got != got and want != want))


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("protocol", [2, 4])
def test_plain_data(tmp_path: pathlib.Path, zipped: bool, protocol: int) -> None:
    value = {
        "none": None,
        "flags": (True, False),
        "ints": [0, -1, 2**40, -(2**63)],
        "floats": [0.5, float("inf"), float("nan")],
        "complex": 1 + 2j,
        "text": "caf\u00e9 \U0001f600",
        "nested": [{"a": {1: [()]}}],
        "empty": [],
        "ordered": collections.OrderedDict(b=1, a=2),
    }
    same(through(value, tmp_path, zipped, pickle_protocol=protocol), value)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("dtype", REAL + UNTYPED)
def test_every_dtype(tmp_path: pathlib.Path, zipped: bool, dtype: Any) -> None:
    data = (torch.arange(24) % 2).reshape(2, 3, 4).to(dtype)
    same(
        through([data, data[1], data[:0], data[0, 0, 0]], tmp_path, zipped),
        [data, data[1], data[:0], data[0, 0, 0]],
    )


class Holder(torch.nn.Module):
    """What numpy and DLPack have no word for is kept by a program."""

    def __init__(self, q):
        super().__init__()
        self.q = q

    def forward(self):
        return self.q.dequantize() if self.q.is_quantized else self.q.to(torch.float32)


def test_quantized_and_narrow_tensors() -> None:
    x = torch.randn(4, 6)
    for q in (
        torch.quantize_per_tensor(x, 0.1, 3, torch.quint8),
        torch.quantize_per_tensor(x, 0.1, 0, torch.qint32),
        torch.quantize_per_channel(
            x, torch.rand(4) + 0.1, torch.zeros(4, dtype=torch.int64), 0, torch.qint8
        ),
        x.to(torch.float8_e4m3fn),
        x.to(torch.float8_e5m2),
    ):
        out = io.BytesIO()
        torch.jit.save(torch.jit.script(Holder(q)), out)
        m = rushlight.load(out.getvalue())
        try:
            got = torch.as_tensor(m())
        except NotImplementedError as e:  # loading is what is tested here
            assert "cannot run here" in str(e)
            continue
        assert torch.allclose(got, Holder(q)())


@pytest.mark.parametrize("zipped", [True, False])
def test_views_and_ties_share_memory(tmp_path: pathlib.Path, zipped: bool) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    got = through({"base": base, "t": base.t(), "row": base[1], "again": base}, tmp_path, zipped)
    rushlight.ops.aten.add_(got["row"], 100)
    want = base.clone()
    want[1] += 100
    same(got["base"], want)
    same(got["t"], want.t())
    same(got["again"], want)


@pytest.mark.parametrize("zipped", [True, False])
def test_modules_states(tmp_path: pathlib.Path, zipped: bool) -> None:
    state = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).state_dict()
    same(dict(through(state, tmp_path, zipped)), {k: v.detach() for k, v in state.items()})
    p = torch.nn.Parameter(torch.ones(2))
    p.note = "kept by Python only"
    same(through(p, tmp_path, zipped), p.detach())


@pytest.mark.parametrize("zipped", [True, False])
def test_what_is_no_plain_data_is_refused_by_name(tmp_path: pathlib.Path, zipped: bool) -> None:
    with pytest.raises(Exception, match="fractions.Fraction"):
        import fractions

        through(fractions.Fraction(1, 2), tmp_path, zipped)
    with pytest.raises(Exception, match="torch.nn.modules.linear.Linear"):
        through(torch.nn.Linear(1, 1), tmp_path, zipped)


def test_big_endian(tmp_path: pathlib.Path) -> None:
    from archives import changed

    values = {
        d: torch.tensor([1, 2, 258]).to(d)
        for d in (torch.int16, torch.int64, torch.float32, torch.complex64, torch.bfloat16)
    }
    out = io.BytesIO()
    torch.save(list(values.values()), out)
    swapped = {}
    for i, t in enumerate(values.values()):
        raw = (
            torch.view_as_real(t).numpy()
            if t.is_complex()
            else t.view(torch.int16).numpy()
            if t.dtype == torch.bfloat16
            else t.numpy()
        )
        swapped[f"data/{i}"] = raw.byteswap().tobytes()
    path = tmp_path / "big.pt"
    path.write_bytes(changed(out.getvalue(), byteorder=b"big", **swapped))
    same(rushlight.load_value(str(path)), list(values.values()))


def test_truncated_old_files(tmp_path: pathlib.Path) -> None:
    out = io.BytesIO()
    torch.save(
        {"a": torch.arange(3.0), "b": torch.ones(2, dtype=torch.int64)},
        out,
        _use_new_zipfile_serialization=False,
    )
    path = tmp_path / "cut.pt"
    for n in range(len(out.getvalue())):
        path.write_bytes(out.getvalue()[:n])
        with pytest.raises(Exception, match="cut.pt"):
            rushlight.load_value(str(path))


def test_the_command_takes_files_as_arguments(tmp_path: pathlib.Path) -> None:
    command = BUILD / "cli" / "rushlight"
    if not command.exists():
        pytest.skip("no command here")
    torch.jit.save(torch.jit.script(Doubles()), str(tmp_path / "m.pt"))
    x = torch.tensor([1.5, 2.0])
    torch.save(x, tmp_path / "x.pt")
    torch.save(x, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    numpy.save(tmp_path / "x.npy", x.numpy())
    header = b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    (tmp_path / "x.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + x.numpy().tobytes()
    )
    for name in ("x.pt", "old.pt", "x.npy"):
        out = subprocess.run(
            [command, "run", tmp_path / "m.pt", f"@{tmp_path / name}"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "3" in out.stdout and "4" in out.stdout
    out = subprocess.run(
        [command, "run", "--method", "named", tmp_path / "m.pt", f"@{tmp_path / 'x.safetensors'}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "3" in out.stdout and "4" in out.stdout


class Doubles(torch.nn.Module):
    def forward(self, x):
        return x * 2

    @torch.jit.export
    def named(self, x: dict[str, torch.Tensor]):
        return x["x"] * 2


def test_conjugates_and_negatives_are_applied(tmp_path: pathlib.Path) -> None:
    """PyTorch writes what lies in memory, with a note that it is to be conjugated or negated."""
    z = torch.tensor([1 + 2j, 3 - 4j])
    assert torch.as_tensor(through(z.conj(), tmp_path, True)).tolist() == [1 - 2j, 3 + 4j]
    assert torch.as_tensor(through(z.conj().imag, tmp_path, True)).tolist() == [-2.0, 4.0]
    assert torch.as_tensor(through(z, tmp_path, True)).tolist() == [1 + 2j, 3 - 4j]
    with pytest.raises(NotImplementedError, match="lazily conjugated"):
        through(z.conj(), tmp_path, False)
