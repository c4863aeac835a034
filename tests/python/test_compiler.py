"""What is grouped and compiled answers as PyTorch, whatever its arguments are, and fails as what is
not compiled."""

from __future__ import annotations

import itertools
import pathlib
import re
import subprocess
from typing import Any

import numpy
import pytest
import rushlight
from conftest import TOP, import_file

torch = pytest.importorskip("torch")

FILE = pathlib.Path(__file__).resolve().parent.parent / "script" / "programs" / "chains.py"


MODULE = import_file(FILE)
NAMES = [
    name for name, value in vars(MODULE).items() if callable(value) and value.__module__ == "chains"
]


def arguments() -> dict[str, tuple[Any, Any]]:
    torch.manual_seed(3)
    r = torch.randn
    special = torch.tensor(
        [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-40, 3e38, -1.5, 1.0]
    )
    pairs = list(itertools.product(special, special))
    return {
        "same": (r(5, 7), r(5, 7)),
        "long": (r(3, 40000), r(3, 40000)),
        "special": (torch.stack([p[0] for p in pairs]), torch.stack([p[1] for p in pairs])),
        "row": (r(4, 6), r(6)),
        "column": (r(4, 1), r(4, 6)),
        "both": (r(4, 1, 5), r(3, 1)),
        "number of no dimensions": (r(4, 5), r(())),
        "no dimensions": (r(()), r(())),
        "one element": (r(1), r(3, 4)),
        "transposed": (r(5, 4).t(), r(4, 5)),
        "both transposed": (r(5, 4).t(), r(5, 4).t()),
        "channels last": tuple(
            r(2, 3, 4, 5).to(memory_format=torch.channels_last) for _ in range(2)
        ),
        "strided": (r(6, 9)[::2, 1::2], r(3, 4)),
        "parts of rows": (r(4, 24)[:, 3:9], r(4, 24)[:, 12:18]),
        "a part of one row": (r(1, 24)[:, 3:9], r(1, 6)),
        "parts of one row": (r(1, 24)[:, 3:9], r(1, 24)[:, 12:18]),
        "parts of rows and a row": (r(4, 24)[:, 3:9], r(6)),
        "parts of planes": (r(3, 9, 24)[:, 2:5, 3:9], r(3, 3, 6)),
        "rows with gaps": (r(4, 6, 2)[..., 0], r(4, 6)),
        "columns with gaps": (r(6, 8)[:, ::2].t(), r(4, 6)),
        "a column of a part": (r(4, 2)[:, :1], r(4, 6)),
        "long parts": (r(70, 3000)[:, 900:], r(70, 3000)[:, :2100]),
        "parts of rows of vectors": (r(5, 96)[:, 3:40], r(37)),
        "planes of parts": (r(3, 70, 50)[:, 5:40, 3:40], r(35, 37)),
        "long planes of parts": (r(9, 70, 90)[:, 2:62, 5:85], r(80)),
        "parts of rows and a column": (r(40, 100)[:, :50], r(40, 1)),
        "expanded": (r(1, 4).expand(3, 4), r(3, 4)),
        "offset": (r(33)[1:], r(40)[8:]),
        "empty": (r(0, 3), r(0, 3)),
        "double": (r(3, 4).double(), r(3, 4).double()),
        "mixed": (r(3, 4), r(3, 4).double()),
        "half": (r(3, 4).half(), r(3, 4).half()),
        "ints": (torch.arange(1, 13).reshape(3, 4), torch.arange(2, 14).reshape(3, 4)),
        "requires grad": (r(3, 4).requires_grad_(), r(3, 4)),
    }


ARGUMENTS = arguments()


@pytest.fixture(scope="module")
def ours() -> Any:
    return rushlight.load(str(FILE))


def same(got: Any, want: Any, what: str) -> None:
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape, what
        w = w.detach()
        assert all(
            a == b for a, b, n in zip(g.stride(), w.stride(), w.shape, strict=True) if n > 1
        ), what
        torch.testing.assert_close(g, w, equal_nan=True, msg=lambda m: f"{what}: {m}")


@pytest.mark.parametrize("name", NAMES)
def test_as_pytorch(ours: Any, name: str) -> None:
    theirs = getattr(MODULE, name)
    for kind, args in ARGUMENTS.items():
        if (name, kind) == ("activations", "special"):
            continue  # PyTorch's gelu(inf) is NaN in vectors and inf elsewhere
        try:
            want = theirs(*args)
        except (RuntimeError, NotImplementedError) as e:
            with pytest.raises((RuntimeError, NotImplementedError)) as got:
                getattr(ours, name)(*args)
            assert str(e).split("\n")[0] in str(got.value), f"{name}, {kind}"
            continue
        same(getattr(ours, name)(*args), want, f"{name}, {kind}")


def test_parts_of_rows_are_compiled(ours: Any) -> None:
    x = torch.randn(4, 24)
    for part in (x[:, 3:9], x[:1, 3:9]):
        before = rushlight.compile_counters()
        ours.affine(part, torch.randn(part.shape))
        after = rushlight.compile_counters()
        assert after["interpreted"] == before["interpreted"]
        assert after["group_calls"] > before["group_calls"]


def test_groups_are_compiled(ours: Any) -> None:
    before = rushlight.compile_counters()
    a, b = torch.rand(1000), torch.rand(1000)
    for _ in range(3):
        ours.mulchain(a, b)
    after = rushlight.compile_counters()
    assert after["group_calls"] >= before["group_calls"] + 3
    ours.mulchain(a.double(), b.double())
    assert rushlight.compile_counters()["interpreted"] == after["interpreted"] + 1


def test_errors_stand_where_they_happen(command: str, tmp_path: pathlib.Path) -> None:
    class Net(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            c = a * a
            d = c + a
            return d * b - c

    path = tmp_path / "net.pt"
    torch.jit.script(Net()).save(str(path))
    texts = [
        subprocess.run(
            [command, "run", str(path), "rand(3)", "rand(4)", "--executor", executor],
            capture_output=True,
            text=True,
        ).stderr
        for executor in ("simple", "specialising")
    ]
    assert (
        texts[0] == texts[1]
        and "must match the size of tensor b (4)" in texts[0]
        and "d * b - c" in texts[0]
    )
    assert texts[0].count("<--- HERE") == 2  # the archive's code, and the author's


def test_a_compiler_from_outside(command: str, build: pathlib.Path, tmp_path: pathlib.Path) -> None:
    plugin = build / "examples" / "pointwise_compiler.so"
    if not plugin.exists():
        pytest.skip("the example was not built")
    path = tmp_path / "mulchain.pt"

    class Net(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            c = a * b
            d = c * c
            return c * d

    torch.jit.script(Net()).save(str(path))

    def answer(*args: str) -> str:
        done = subprocess.run([command, *args], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "pw::CompilationGroup_0(%a.1, %b.1)" in answer(
        "show", "--optimized", "--plugin", str(plugin), str(path)
    )
    both = [[f"rand({n})"] * 2 for n in (0, 1, 3, 4, 5, 7, 9, 1000, 70001)]
    for args in (*both, ["rand(3,4)", "rand(4)"], ["ones(3)", "arange(3)"]):
        want = answer("run", str(path), *args, "--executor", "simple", "--json")
        assert answer("run", str(path), *args, "--plugin", str(plugin), "--json") == want


@pytest.mark.parametrize("name", ["pointwise_compiler.c", "row_compiler.c"])
def test_the_sample_compilers_are_short(name: str) -> None:
    assert len((TOP / "examples" / name).read_text().splitlines()) <= 300


class RowNorms(torch.nn.Module):
    """Norms of rows, and what looks like one: other dimensions, shapes that are no row's."""

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        d = x - x.mean(-1, keepdim=True)
        columns = x.sum([0], keepdim=True) * 0.5 - x
        of_weights = w.sum(-1, keepdim=True) + w * 2.0
        deviation = (d * d).sum(-1, True) / 8.0
        return [
            x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w,
            d / (deviation + 1e-5),
            deviation,
            columns,
            of_weights,
        ]


def test_a_compiler_of_rows(command: str, build: pathlib.Path, tmp_path: pathlib.Path) -> None:
    plugin = build / "examples" / "row_compiler.so"
    if not plugin.exists():
        pytest.skip("the example was not built")
    path = tmp_path / "norms.pt"
    torch.jit.script(RowNorms()).save(str(path))

    def answer(*args: str) -> str:
        done = subprocess.run([command, *args], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def results(args: list[str], *options: str) -> dict[str, Any]:
        out = tmp_path / "out.npz"
        answer("run", str(path), *args, "--output", str(out), *options)
        with numpy.load(out) as file:
            return dict(file)

    shown = answer("show", "--optimized", "--plugin", str(plugin), str(path))
    assert len(re.findall(r"= row::CompilationGroup_\d+\(", shown)) >= 2, shown
    sizes = (
        "4,8|8",
        "2,3,8|8",
        "2,3,8|2,3,1",
        "3,8|2,3,8",
        "3,8|1,8",
        "8|8",
        "0,8|8",
        "70,900|900",
    )
    for pair in sizes:
        args = [f"rand({one})" for one in pair.split("|")]
        got, want = results(args, "--plugin", str(plugin)), results(args, "--executor", "simple")
        assert got.keys() == want.keys() and len(got) == 5
        for key in got:
            numpy.testing.assert_allclose(got[key], want[key], rtol=2e-5, atol=1e-5, err_msg=pair)


def test_code_that_is_finished_cannot_be_written_to() -> None:
    maps = pathlib.Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("no /proc")

    def both() -> set[str]:  # of torch's own compilers there may be some
        return {
            line.split()[0]
            for line in maps.read_text().splitlines()
            if {"w", "x"} <= set(line.split()[1])
        }

    before = both()
    functions = [
        rushlight.jit.CompilationUnit(f"def f(x):\n    return (x * {i} + {i}).relu() * x\n").f
        for i in range(1, 5)
    ]
    for f in functions:
        for _ in range(8):
            f(torch.ones(1000))
    lines = [line.split() for line in maps.read_text().splitlines()]
    code = [line[1] for line in lines if len(line) > 5 and "rushlight-code" in line[5]]
    assert all("w" not in flags for flags in code), code
    assert both() <= before


def test_perf_finds_the_names_of_compiled_code(command: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.pt"
    torch.jit.trace(lambda x: torch.relu(x * 2.0 + 1.0), torch.randn(64)).save(str(path))
    run = [command, "bench", str(path), "randn(64)", "--executor", "profiling"]
    maps = []
    for extra in ([], ["--perf-map"]):
        with subprocess.Popen([*run, *extra], stdout=subprocess.DEVNULL) as done:
            assert done.wait(timeout=60) == 0
        maps.append(pathlib.Path(f"/tmp/perf-{done.pid}.map"))
    assert not maps[0].exists()
    if rushlight.get_cpu() == "portable":
        pytest.skip("no machine code here")
    lines = maps[1].read_text().splitlines()
    maps[1].unlink()
    assert lines and re.fullmatch(r"[0-9a-f]+ [0-9a-f]+ rushlight: mul\+add\+relu", lines[0])
    assert int(lines[0].split()[0], 16) > 4096 and int(lines[0].split()[1], 16) > 16
