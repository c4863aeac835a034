"""Files that are no programs: errors name their kind, and plain data is shown."""

from __future__ import annotations

import gzip
import json
import pathlib
import pickle

import pytest
from conftest import DATA

FILES = {
    "onnx": (b"\x08\x0a\x12\x07pytorch\x1a\x052.1.0:" + bytes(40), "an ONNX model"),
    "gguf": (b"GGUF\x03\0\0\0" + bytes(40), "a GGUF file of llama.cpp"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n", "git lfs pull"),
    "html": (b"\n  <!DOCTYPE HTML><html><body>Sign in</body></html>", "an HTML page"),
    "gzip": (gzip.compress(b"x" * 100), "compressed with gzip"),
    "empty": (b"", "an empty file"),
    "tar": (bytes(257) + b"ustar" + bytes(300), "a tar archive"),
    "pickle": (pickle.dumps({"a": 1}), "a Python pickle"),
    "tflite": (b"\x1c\0\0\0TFL3" + bytes(40), "TensorFlow Lite"),
    "other": (b"something else entirely", "the file starts with other bytes"),
}


@pytest.mark.parametrize("kind", FILES)
def test_what_a_file_is_is_said(run, tmp_path: pathlib.Path, kind: str) -> None:
    data, words = FILES[kind]
    path = tmp_path / f"{kind}.pt"
    path.write_bytes(data)
    for verb in ("run", "show"):
        said = run(verb, str(path), code=3).stderr
        assert words in said and path.name in said
    if kind != "other":
        assert words in run("run", str(DATA / "digits.pt"), f"@{path}", code=3).stderr


def test_arrays_and_weights_are_no_programs(run, tmp_path: pathlib.Path) -> None:
    np = pytest.importorskip("numpy")
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    assert "an array, not a program" in run("run", str(tmp_path / "x.npy"), code=3).stderr
    shown = run("show", str(tmp_path / "x.npy")).stdout
    assert (
        "float32[2, 3]  0 to 5, mean 2.5, std 1.871" in shown
        and "in all 1 tensors, 6 elements, 24 bytes" in shown
    )
    np.savez(tmp_path / "x.npz", a=np.array([1, 2]), b=np.array([np.nan, 1]))
    shown = run("show", str(tmp_path / "x.npz")).stdout
    assert "a " in shown and "1 of 2 are NaN" in shown


def test_safetensors_are_shown(run, tmp_path: pathlib.Path) -> None:
    header = json.dumps({"w.0": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0\x80?\0\0\0@")
    assert "a safetensors file: weights without a program" in run("run", str(path), code=3).stderr
    assert "w.0" in run("show", str(path)).stdout
    values = json.loads(run("show", str(path), "--json").stdout)["values"]
    assert values[0].pop("std") == pytest.approx(0.5**0.5)
    assert values == [
        {
            "name": "w.0",
            "dtype": "float32",
            "shape": [2],
            "min": 1,
            "max": 2,
            "mean": 1.5,
            "n_nan": 0,
        }
    ]


def test_state_dicts_are_shown(run, tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "state.pt"
    torch.save(
        {
            "epoch": 3,
            "model": {"l.weight": torch.ones(2, 2, dtype=torch.bfloat16)},
            "losses": [0.5],
        },
        path,
    )
    said = run("run", str(path), code=3).stderr
    assert "weights without a program" in said and "rushlight show" in said
    shown = run("show", str(path)).stdout
    assert (
        "model.l.weight" in shown
        and "bfloat16[2, 2]  1 to 1" in shown
        and "epoch" in shown
        and "losses.0" in shown
    )


def test_what_must_hold_is_said_once_and_what_came(run) -> None:
    shown = run("show", str(DATA / "digits.pt2")).stdout
    conditions = shown.split("must hold:\n")[1].splitlines()
    conditions = [line for line in conditions if line.startswith("  ") and "==" in line]
    assert conditions and len(conditions) == len(set(conditions))
    said = run("run", str(DATA / "digits.pt2"), "zeros(2,1,8,8)", code=2).stderr
    assert "Guard failed: x.size()[0] == 1\n(this call: 2 == 1; x is float32[2, 1, 8, 8])" in said
