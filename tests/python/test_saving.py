"""Archives out, in the manners of torch.jit; and every program of the corpus saved, opened by
PyTorch and run there."""

from __future__ import annotations

import io
import os
import pathlib
import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
import saving  # noqa: E402

NIGHTLY = bool(os.environ.get("RUSHLIGHT_NIGHTLY"))

TEXT = """
import torch

def scale(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    return x * by + torch.tensor([1.0, 2.0])
"""


@pytest.fixture
def model(tmp_path: pathlib.Path) -> rushlight.ScriptModule:
    path = tmp_path / "scale.py"
    path.write_text(TEXT)
    return rushlight.load(path)


def test_every_program_of_the_corpus(corpus: pathlib.Path, corpus_tools: pathlib.Path) -> None:
    tool = pathlib.Path(__file__).with_name("saving.py")
    some = [] if NIGHTLY else ["--every", "9"]
    run = subprocess.run(
        [sys.executable, str(tool), str(corpus), "--corpus", str(corpus_tools), *some],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-1000:]


def test_files_buffers_and_extra_files(
    model: rushlight.ScriptModule, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "out.pt"
    rushlight.save(model, path, _extra_files={"a.txt": "text", "b": b"\x00\xff"})
    buffer = io.BytesIO()
    rushlight.save(model, buffer)
    assert buffer.getvalue() == model.save_to_buffer()
    model.save(str(tmp_path / "again.pt"), _extra_files={"a.txt": "text", "b": b"\x00\xff"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for load in (rushlight.load, torch.jit.load):
            extra = {"a.txt": "", "b": "", "missing": ""}
            loaded = load(str(path), _extra_files=extra)
            assert extra == {"a.txt": b"text", "b": b"\x00\xff", "missing": b""}
            assert torch.equal(loaded(torch.ones(2)), torch.tensor([3.0, 4.0]))
    assert sorted(os.listdir(tmp_path)) == ["again.pt", "out.pt", "scale.py"]


def test_code_with_constants(model: rushlight.ScriptModule) -> None:
    loaded = rushlight.load(io.BytesIO(model.save_to_buffer()))
    code, constants = loaded.code_with_constants
    assert code == loaded.code and "def forward(self,\n    x: Tensor" in code
    assert isinstance(constants.const_mapping, dict)


def test_what_is_refused(model: rushlight.ScriptModule, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        rushlight.load(str(tmp_path / "nothing.pt"))
    with pytest.raises(ValueError, match="is a directory"):
        rushlight.load(str(tmp_path))
    with pytest.raises(RuntimeError, match="Parent directory .* does not exist"):
        model.save(str(tmp_path / "no" / "x.pt"))
    data = model.save_to_buffer()
    rushlight.load(data, map_location="cpu")
    rushlight.load(data, map_location=torch.device("cpu"))
    for where, error in (
        ("cuda:0", RuntimeError),
        ("mps", RuntimeError),
        ("bogus", RuntimeError),
        (3, ValueError),
    ):
        with pytest.raises(error):
            rushlight.load(data, map_location=where)


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.row = self.first.weight[1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x)) + self.row


def test_shared_storages_stay_shared() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = io.BytesIO()
        torch.jit.save(torch.jit.script(Tied()), out)
        data = rushlight.load(out.getvalue()).save_to_buffer()
        opened = torch.jit.load(io.BytesIO(data))
    weight = opened.first.weight
    assert weight.data_ptr() == opened.second.weight.data_ptr()
    assert opened.row.data_ptr() == weight.data_ptr() + 12
    again = rushlight.load(data)
    again.first.weight.data.fill_(7.0)
    assert again.second.weight[0, 0] == 7 and again.row[0] == 7


RAISING = [
    'def f(x: int):\n    raise RuntimeError("a")\n',
    'def f(x: int) -> List[Tensor]:\n    raise RuntimeError("a")\n    return []\n',
    'def f(x: int) -> Optional[int]:\n    if x > 1:\n        raise KeyError("a")\n    else:\n      '
    "  assert False\n",
    'def f(x: int):\n    if x > 1:\n        return\n    if x > 2:\n        raise ValueError("a")\n '
    '   raise KeyError("b")\n',
    'def f(x: int):\n    while x > 0:\n        raise RuntimeError("a")\n    raise '
    'RuntimeError("c")\n',
    "def f(x: int) -> int:\n    for i in range(x):\n        if i > 3:\n            raise "
    'ValueError("a")\n'
    '        else:\n            raise ValueError("b")\n    raise KeyError("c")\n',
    'def f(x: int) -> str:\n    with torch.no_grad():\n        raise RuntimeError("a")\n',
]


@pytest.mark.parametrize("source", RAISING)
def test_functions_that_never_return(source: str) -> None:
    """Their result is of the type they declare, which no caller sees: graph, code and archive have
    it."""
    ours, theirs = (
        unit(source).f for unit in (rushlight.CompilationUnit, torch.jit.CompilationUnit)
    )
    assert saving.renamed(ours.graph) == saving.renamed(theirs.graph).replace("(%x :", "(%x.1 :")
    assert (ours.code, str(ours.schema)) == (theirs.code, str(theirs.schema))
    buffer = io.BytesIO(ours.save_to_buffer())
    for load in (rushlight.load, torch.jit.load):
        buffer.seek(0)
        again = load(buffer)
        assert again.code.split(" -> ", 1)[1] == ours.code.split(" -> ", 1)[1]
        with pytest.raises(Exception, match="[abc]|AssertionError"):
            again(1)


def test_the_mode_of_a_file_stays(model: rushlight.ScriptModule, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.pt"
    for mode in (0o600, 0o640, 0o444, 0o755):
        path.touch()
        path.chmod(mode)
        rushlight.jit.save(model, path)
        assert path.stat().st_mode & 0o7777 == mode
        path.unlink()
    umask = os.umask(0o027)
    try:
        rushlight.jit.save(model, path)
    finally:
        os.umask(umask)
    assert path.stat().st_mode & 0o7777 == 0o640


def test_a_link_stays_and_what_it_links_to_is_replaced(
    model: rushlight.ScriptModule, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "there").mkdir()
    real = tmp_path / "there" / "real.pt"
    real.write_bytes(b"old")
    (tmp_path / "second").symlink_to(real)
    for name, to in {
        "absolute": real,
        "relative": "there/real.pt",
        "twice": "second",
        "dangling": "there/new.pt",
    }.items():
        link = tmp_path / name
        link.symlink_to(to)
        rushlight.jit.save(model, link)
        assert link.is_symlink() and rushlight.load(link.resolve())
    assert sorted(p.name for p in (tmp_path / "there").iterdir()) == ["new.pt", "real.pt"]
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="loop"):
        rushlight.jit.save(model, tmp_path / "loop")


def test_leftovers_are_not_in_the_way_and_none_is_left(
    model: rushlight.ScriptModule, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "m.pt"
    for i in range(1100):
        (tmp_path / f"m.pt.part{i}").touch()
    rushlight.jit.save(model, path)
    assert rushlight.load(path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError):
        rushlight.jit.save(model, tmp_path / "no folder" / "m.pt")
    folder = tmp_path / "taken.pt"
    folder.mkdir()
    with pytest.raises(OSError):
        rushlight.jit.save(model, folder)
    folder.rmdir()
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="strace")
def test_bytes_are_synced_before_the_name_and_the_folder_after(tmp_path: pathlib.Path) -> None:
    if subprocess.run(["sh", "-c", "strace -o /dev/null true"], capture_output=True).returncode:
        pytest.skip("strace does not run here")
    code = "import rushlight, sys; rushlight.jit.save(rushlight.load(sys.argv[1]), sys.argv[2])"
    (tmp_path / "scale.py").write_text(TEXT)
    trace = tmp_path / "trace"
    command = [
        "strace",
        "-f",
        "-o",
        trace,
        "-e",
        "trace=fsync,rename,renameat,renameat2",
        sys.executable,
        "-c",
        code,
    ]
    subprocess.run([*command, tmp_path / "scale.py", tmp_path / "m.pt"], check=True, env=os.environ)
    calls = [
        line.split(None, 1)[1].split("(")[0]
        for line in trace.read_text().splitlines()
        if "m.pt" in line or "fsync" in line
    ]
    assert calls == ["fsync", "rename", "fsync"]
