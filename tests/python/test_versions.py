"""Archives of older operator versions mean what PyTorch makes of them."""

from __future__ import annotations

import io
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from archives import with_version  # noqa: E402


class Divisions(torch.nn.Module):
    def forward(self, x, y, k: int, f: float):
        z, w, v = x.clone(), x.clone(), x.clone()
        z.div_(k)
        w.div_(y)
        v.div_(y, rounding_mode="floor")
        out = torch.empty_like(x)
        torch.div(x, y, out=out)
        return (
            torch.div(x, y),
            x / k,
            torch.div(x, f),
            x / y,
            torch.div(x, y, rounding_mode="trunc"),
            torch.div(x, k, rounding_mode=None),
            z,
            w,
            v,
            out,
        )


class Factories(torch.nn.Module):
    def forward(self, k: int, f: float):
        out = torch.zeros(3)
        return (
            torch.full([2], k),
            torch.full([2], f),
            torch.full([2], k, dtype=torch.int64),
            torch.full([2], True),
            torch.linspace(0, k, 5),
            torch.logspace(0, 1, 5),
            torch.linspace(0, 1, 3, out=out).clone(),
            torch.logspace(0, 1, 3, 2.0, out=out),
            torch.nn.functional.gelu(out),
        )


def saved(module: Any) -> bytes:
    out = io.BytesIO()
    torch.jit.save(torch.jit.script(module), out)
    return out.getvalue()


def answer(call: Any) -> Any:
    try:
        return call()
    except RuntimeError as e:
        # What failed while it ran is the last line; what does not compile is a line, and then
        # places in the source.
        lines = [line.removeprefix("archive:").strip() for line in str(e).splitlines()]
        lines = [line for line in lines if line]
        ran = [
            line.removeprefix("RuntimeError: ")
            for line in lines
            if line.startswith("RuntimeError: ")
        ]
        return ran[-1] if ran else lines[0]


def check(data: bytes, *args: Any) -> None:
    def mine() -> Any:
        return rushlight.load(data)(*args)

    want, got = answer(lambda: torch.jit.load(io.BytesIO(data))(*args)), answer(mine)
    if isinstance(want, str):
        assert got == want
        return
    assert isinstance(got, tuple), got
    for a, b in zip(got, want, strict=False):
        a = torch.as_tensor(a)
        assert a.dtype == b.dtype
        assert torch.equal(a, b) or torch.allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("version", range(1, 11))
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_division_of_its_version(version: int, dtype: Any) -> None:
    x, y = torch.tensor([7, -7, 9], dtype=dtype), torch.tensor([2, 2, -4], dtype=dtype)
    place = "version" if version < 6 else ".data/version"
    check(with_version(saved(Divisions()), version, place), x, y, 2, 2.0)


@pytest.mark.parametrize("version", range(1, 11))
def test_factories_of_their_version(version: int) -> None:
    data = saved(Factories())
    check(with_version(data, version), 3, 2.5)


@pytest.mark.parametrize("version", [1, 5, 7, 8, 9])
def test_steps_may_be_left_out_as_once(version: int) -> None:
    """Today's printer writes all arguments: the text is rewritten as it was."""
    from archives import changed, records

    data = saved(Steps())
    code = next(v for k, v in records(data).items() if k.endswith(".py"))
    name = next(k for k in records(data) if k.endswith(".py")).split("/", 1)[1]
    text = code.decode().replace(", 100)", ")").replace(", 100, 10.)", ")").encode()
    assert text != code
    check(with_version(changed(data, **{name: text}), version), 2.0)


class Steps(torch.nn.Module):
    def forward(self, f: float):
        return torch.linspace(0, f, 100), torch.logspace(0, f, 100)


@pytest.mark.parametrize("version", [0, 11, 1000, 10**30])
def test_unknown_versions_are_refused(version: int) -> None:
    with pytest.raises(Exception, match="version"):
        rushlight.load(with_version(saved(Factories()), version))
