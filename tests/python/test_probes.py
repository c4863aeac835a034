"""Hundreds of snippets of TorchScript with PyTorch's recorded answers (probes.py), through the text
entry."""

from __future__ import annotations

import pytest
from probes import PREAMBLE, TABLE, is_as_recorded, rows, shown
from rushlight import _rushlight

torch = pytest.importorskip("torch")


def outcome(source: str, inputs: str, status: str) -> tuple[str, str, str]:
    """(result, "", "") or ("", class, message)."""
    try:
        f = _rushlight.compile(PREAMBLE + source).f
        if status in ("compile_error", "compiles"):
            return "compiles", "", ""
        return shown(f(*eval(inputs, {"torch": torch}))), "", ""
    except Exception as e:  # noqa: BLE001
        return "", type(e).__name__, " ".join(str(e).split())


@pytest.mark.skipif(not TABLE.exists(), reason="no ../shared/probes here")
def test_answers_as_pytorch(capsys: pytest.CaptureFixture[str]) -> None:
    wrong, n = [], 0
    for name, source, inputs, status, want, message in rows():
        n += 1
        got = outcome(source, inputs, status)
        if not is_as_recorded(status, want, message, got):
            wrong.append(f"{name} {inputs}: {got} is not {status} {want} {message}\n{source}")
    with capsys.disabled():
        print(f"\njit_probes through the text entry: {n - len(wrong)} of {n} rows as recorded")
    assert n > 800
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:60])
