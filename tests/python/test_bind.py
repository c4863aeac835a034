"""rushlight bind: the header compiles as C and C++, and its function gives what `run` gives."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import zipfile
from typing import Any, Callable

import pytest
from conftest import DATA, TOP

CC = shutil.which("cc")
needs_cc = pytest.mark.skipif(CC is None, reason="a C compiler")

MAIN = """
#include <stdio.h>
#include "%(header)s"

int main(int n, char **a)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  rush_status st = n == 2 ? rush_module_load(NULL, a[1], NULL, &m, &err) : RUSH_EARGUMENT;
  if (st == RUSH_OK) {
%(body)s
    rush_module_release(m);
  }
  if (st != RUSH_OK)
    printf("%%s\\n", err.message);
  rush_error_clear(&err);
  return 0;
}
"""


def call(build: pathlib.Path, folder: pathlib.Path, model: str, header: pathlib.Path, body: str):
    """Compile a program that calls the header's function, strictly, and return what it prints."""
    source, program = folder / "main.c", folder / "main"
    source.write_text(MAIN % {"header": header, "body": body})
    packaging = build / "packaging"
    subprocess.run(
        [CC, "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{TOP / 'include'}", str(source)]
        + ["-o", str(program), str(packaging / "librushlight.so"), f"-Wl,-rpath,{packaging}"],
        check=True,
    )
    return subprocess.run([str(program), model], capture_output=True, text=True, check=True).stdout


@needs_cc
def test_the_function_gives_what_run_gives(run, build, tmp_path: pathlib.Path) -> None:
    model, header = str(DATA / "digits.pt2"), tmp_path / "digits.h"
    run("bind", model, "-o", str(header))
    body = """
    float x[64], y[10];
    digits_inputs in = {x};
    digits_outputs out = {y, 10, {0, 0}};
    for (int i = 0; i < 64; i++)
      x[i] = 1;
    st = digits_forward(NULL, m, &in, &out, &err);
    for (int i = 0; i < 10 && st == RUSH_OK; i++)
      printf("%.6g ", y[i]);
    printf("(%d %d)\\n", (int)out.output_sizes[0], (int)out.output_sizes[1]);
    out.output_room = 9;
    st = st == RUSH_OK ? digits_forward(NULL, m, &in, &out, &err) : st;
"""
    said = call(build, tmp_path, model, header, body).splitlines()
    want = json.loads(run("run", model, "ones(1,1,8,8)", "--json").stdout)
    numbers = [float(x) for x in said[0].split("(")[0].split()]
    assert numbers == pytest.approx(want["result"]["data"][0], rel=1e-5)
    assert said[0].endswith("(1 10)") and said[1] == "the buffer output is too small"


@needs_cc
def test_sizes_that_vary_are_fields(run, build, tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")

    class Three(torch.nn.Module):
        def forward(self, x, y, k: int, *, scale):
            return x * k + y.sum(), torch.cat([x, x]) * scale, x[x[:, 0] > 0]

    batch = torch.export.Dim("batch", min=3, max=64)
    example = (torch.ones(4, 3), torch.ones(2), 3)
    dynamic = {"x": {0: batch}, "y": None, "k": None, "scale": None}
    program = torch.export.export(
        Three(), example, {"scale": torch.tensor(2.0)}, dynamic_shapes=dynamic
    )
    torch.export.save(program, str(tmp_path / "three.pt2"))
    model, header = str(tmp_path / "three.pt2"), tmp_path / "three.h"
    run("bind", model, "-o", str(header))
    text = header.read_text()
    found = re.search(r"^  int64_t (\w+); /\* size 0 of x", text, re.MULTILINE)
    assert found
    symbol = found[1]
    assert "at least 3, at most 64" in text and f"2*in->{symbol}" in text
    body = """
    float x[] = {1, 2, 3, -1, 5, 6, 7, 8, 9}, y[] = {10, 20}, scale = 2, a[9], b[18], c[9];
    three_inputs in = {3, x, y, &scale};
    three_outputs out = {a, 9, {0}, b, 18, {0}, c, 9, {0}};
    st = three_forward(NULL, m, &in, &out, &err);
    printf("%g %g %g %d %d %d\\n", a[0], b[17], c[3], (int)out.output_0_sizes[0],
           (int)out.output_1_sizes[0], (int)out.output_2_sizes[0]);
    in.SYMBOL = 2;
    st = st == RUSH_OK ? three_forward(NULL, m, &in, &out, &err) : st;
""".replace("SYMBOL", symbol)
    said = call(build, tmp_path, model, header, body).splitlines()
    assert said[0] == "33 18 7 3 6 2"
    assert "Guard failed" in said[1] or ">= 3" in said[1], said


@needs_cc
def test_a_script_is_described_by_an_example(run, build, tmp_path: pathlib.Path) -> None:
    source, header = tmp_path / "f.py", tmp_path / "f.h"
    source.write_text(
        "import torch\nfrom torch import Tensor\nfrom typing import Tuple\n"
        "def forward(x: Tensor, n: int, on: bool, f: float) -> Tuple[Tensor, int, float]:\n"
        "    return (x * n if on else x), x.size(0) + n, f * 2\n"
    )
    model = str(tmp_path / "f.pt")
    run("script", str(source), "-o", model)
    refused = run("bind", model, code=2).stderr
    assert "'x' is a tensor whose dtype and sizes the file does not say" in refused
    run("bind", model, "ones(2,3,dtype=float64)", "2", "True", "1.5", "-o", str(header))
    body = """
    double x[] = {1, 2, 3, 4, 5, 6}, y[6];
    f_inputs in = {x, 5, true, 1.25};
    f_outputs out = {y, 6, {0}, 0, 0};
    st = f_forward(NULL, m, &in, &out, &err);
    printf("%g %d %g\\n", y[5], (int)out.output_1, out.output_2);
"""
    assert call(build, tmp_path, model, header, body).splitlines() == ["30 7 2.5"]


def test_cxx_reads_the_header(run, tmp_path: pathlib.Path) -> None:
    cxx = shutil.which("c++")
    if cxx is None:
        pytest.skip("a C++ compiler")
    header = tmp_path / "digits.h"
    run("bind", str(DATA / "digits.pt2"), "-o", str(header))
    flags = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{TOP / 'include'}", "-x", "c++"]
    subprocess.run([cxx, *flags, "-Wno-unused-function", str(header)], check=True)


def test_what_cannot_be_bound_is_named(run: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")

    class Inside(torch.nn.Module):
        def forward(self, d):
            return d["a"] + 1

    example = ({"a */ evil(); /*": torch.ones(2)},)

    class Odd(torch.nn.Module):
        def forward(self, d):
            return d["a */ evil(); /*"] + 1

    torch.export.save(torch.export.export(Odd(), example), str(tmp_path / "odd.pt2"))
    said = run("bind", str(tmp_path / "odd.pt2"), code=2).stderr
    assert "is inside of a list, tuple or dict" in said
    assert run("bind", code=2).stderr.startswith("rushlight bind: bind takes a model file")


def test_names_of_the_file_cannot_leave_a_comment(run, tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")

    class Plain(torch.nn.Module):
        def forward(self, x):
            return x + 1

    program = torch.export.export(Plain(), (torch.ones(2),))
    path = str(tmp_path / "if.pt2")
    torch.export.save(program, path)
    text = run("bind", path).stdout
    assert "if__forward(" in text and str(tmp_path) not in text
    evil = "x *" + "/ evil(); /" + "*"
    made = torch.export.export(Plain(), (torch.ones(2),))
    made.graph_signature.input_specs[0].arg.name = "x"
    torch.export.save(made, path)
    with zipfile.ZipFile(path) as old:
        parts = {i.filename: old.read(i) for i in old.infolist()}
    model = next(name for name in parts if name.endswith("models/model.json"))
    parts[model] = parts[model].replace(b'"x"', json.dumps(evil).encode())
    with zipfile.ZipFile(tmp_path / "evil.pt2", "w") as new:
        for name, content in parts.items():
            new.writestr(name, content)
    text = run("bind", str(tmp_path / "evil.pt2")).stdout
    assert "evil" in text and "evil()" not in re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
