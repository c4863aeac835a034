"""The command: answers, exit codes, help, JSON, progress, and that manual page and completions say
the same as --help."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import zipfile

import pytest
from conftest import DATA, TOP

DIGITS, LIFE = str(DATA / "digits.pt"), str(DATA / "life.pt")


def test_run_prints_as_pytorch(run) -> None:
    out = run("run", DIGITS, "zeros(1,1,8,8)").stdout
    assert out.startswith("tensor([[0.1084, 0.0727,") and out.endswith("]])\n")
    assert run("run", LIFE, "0").stdout.splitlines()[-1] == "5"
    assert run("run", LIFE, "generations=4").stdout.splitlines()[-1] == "5"


def test_run_as_json(run) -> None:
    got = json.loads(run("run", DIGITS, "zeros(1,1,8,8)", "--json").stdout)["result"]
    assert got["dtype"] == "float32" and got["shape"] == [1, 10] and len(got["data"][0]) == 10
    assert sum(got["data"][0]) == pytest.approx(1)


def test_arguments(run, tmp_path: pathlib.Path) -> None:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 8, 8), }"
    header += b" " * (64 - (10 + len(header) + 1) % 64) + b"\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(256)
    (tmp_path / "x.npy").write_bytes(data)
    assert (
        run("run", DIGITS, f"@{tmp_path}/x.npy").stdout
        == run("run", DIGITS, "zeros(1,1,8,8)").stdout
    )
    assert (
        run("run", DIGITS, "full([1,1,8,8], 0.5)").stdout
        == run("run", DIGITS, "x=full([1,1,8,8], 0.5)").stdout
    )
    first = run("run", DIGITS, "randn(1,1,8,8)").stdout
    assert (
        first
        == run("run", DIGITS, "randn(1,1,8,8)").stdout
        != run("run", DIGITS, "randn(1,1,8,8)", "--seed=1").stdout
    )
    assert run("run", DIGITS, "randn(1,1,8,8)", "--seed", "0", "--threads", "2").stdout == first


def test_show(run) -> None:
    assert "forward" in run("show", DIGITS).stdout
    assert "def forward" in run("show", LIFE, "--code").stdout
    assert "graph(" in run("show", LIFE, "--graph", "--method", "step").stdout
    assert "aten::" in run("show", LIFE, "--ops").stdout
    for view in ([], ["--code"], ["--graph"], ["--bytecode"], ["--ops"]):
        assert json.loads(run("show", LIFE, *view, "--json").stdout)


def test_show_check(run, tmp_path: pathlib.Path) -> None:
    assert "well-formed" in run("show", LIFE, "--check").stdout
    assert json.loads(run("show", "--check", LIFE, "--json").stdout) == {"ok": True, "faults": ""}
    assert "methods:" in run("show", LIFE, "--check", "full").stdout  # the option of all verbs
    source = tmp_path / "bad.py"
    source.write_text(
        "def good(x: int):\n    return x\ndef bad(x: int) -> str:\n    return good(x)\n"
    )
    said = run("show", str(source), "--check", code=1).stdout
    assert (
        said.startswith("__torch__.bad: ")
        and 'bad.py", line 4' in said
        and "__torch__.good:" not in said
    )
    assert "schema only" not in run("show", LIFE, "--ops").stdout


def test_show_check_names_operators_that_cannot_run(run, tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other.pt"
    with zipfile.ZipFile(DIGITS) as old, zipfile.ZipFile(other, "w") as new:
        for item in old.infolist():
            new.writestr(item, old.read(item).replace(b"torch.relu", b"ops.nobody.does"))
    assert "nobody::does" in run("show", str(other), "--check", code=1).stdout


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    "args",
    [
        ["run", DIGITS, "zeros(1,1,8,8)"],
        ["run", DIGITS, "zeros(1,1,8,8)", "--json"],
        ["show", LIFE],
        ["show", LIFE, "--code", "--json"],
        ["show", LIFE, "--check"],
        ["show", LIFE, "--html"],
        ["profile", DIGITS, "zeros(1,1,8,8)", "--calls=1"],
        ["bench", DIGITS, "zeros(1,1,8,8)", "--seconds=0.01"],
        ["script", str(TOP / "tests" / "script" / "programs" / "chains.py")],
        ["--help"],
        ["--version"],
    ],
    ids=" ".join,
)
def test_a_full_disk_is_a_failure(command: str, args: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [command, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert done.returncode == 3 and "rushlight: standard output could not be written" in done.stderr


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    "args",
    [
        ["show", LIFE, "--html", "--output=/dev/full"],
        ["profile", DIGITS, "zeros(1,1,8,8)", "--calls=1", "--output=/dev/full"],
        ["script", str(TOP / "tests" / "script" / "programs" / "chains.py"), "--output=/dev/full"],
    ],
    ids=" ".join,
)
def test_a_file_on_a_full_disk_is_a_failure(run, args: list[str]) -> None:
    assert "/dev/full" in run(*args, code=3).stderr


def test_bench(run) -> None:
    got = json.loads(run("bench", DIGITS, "zeros(1,1,8,8)", "--seconds=0.05", "--json").stdout)
    assert (
        0 < got["min"] <= got["median"] <= got["max"]
        and got["calls"] >= 5
        and got["peak_bytes"] > 0
    )
    assert "median" in run("bench", DIGITS, "zeros(1,1,8,8)", "--seconds", "0.05").stdout


def test_bench_against(command: str) -> None:
    done = subprocess.run(
        [command, "bench", DIGITS, "zeros(1,1,8,8)", "--seconds=0.1", "--against", DIGITS,
         "--json"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in (0, 1) and json.loads(done.stdout)["ratio"] > 0


def test_exit_code_2_usage(run, command: str) -> None:
    for args in (
        ["dance"], ["run"], ["run", DIGITS, "zeros(1,1,8,8)", "--colour"], ["show"], ["show",
                                                                                      DIGITS, "x"],
        ["bench", DIGITS, "--seconds=soon"], ["verify"], ["verify", "a", "--stack=5"], ["verify",
                                                                                        "a", "b",
                                                                                        "c"],
        ["run", DIGITS, "--threads=0"],
        ["run", DIGITS, "--cpu=abacus"], ["run", DIGITS, "what("], ["run", DIGITS, "zeros(1,1,8,8)",
                                                                    "--check=some"],
    ):  # fmt: skip
        done = run(*args, code=2)
        assert done.stdout == "" and done.stderr.startswith("rushlight"), args
        assert "--help" in done.stderr or "argument" in done.stderr or "expected" in done.stderr, (
            args,
            done.stderr,
        )
    assert subprocess.run([command], capture_output=True).returncode == 2


def test_exit_code_3_file_refused(run, tmp_path: pathlib.Path) -> None:
    broken = tmp_path / "broken.pt"
    broken.write_bytes(pathlib.Path(DIGITS).read_bytes()[:-200])
    (tmp_path / "notes.txt").write_text("no archive")
    for path in ("nofile.pt", str(broken), str(tmp_path / "notes.txt"), str(tmp_path)):
        assert pathlib.Path(path).name in run("run", path, code=3).stderr
    error = json.loads(run("run", "nofile.pt", "--json", code=3).stdout)["error"]
    assert error["type"] == "OSError" and "nofile.pt" in error["message"]
    assert run("verify", str(tmp_path), code=3).stderr.count("no case") == 1


def test_corrupt_records_are_named(run, tmp_path: pathlib.Path) -> None:
    with zipfile.ZipFile(DIGITS) as z:
        largest = max(z.infolist(), key=lambda info: info.file_size)
        offset = largest.header_offset + 200
    data = bytearray(pathlib.Path(DIGITS).read_bytes())
    data[offset] ^= 255
    path = tmp_path / "flipped.pt"
    path.write_bytes(data)
    said = run("run", str(path), "zeros(1,1,8,8)", "--check=full", code=3).stderr
    assert "flipped.pt" in said and largest.filename.split("/", 1)[1] in said


def test_exit_code_4_program_raised(run) -> None:
    done = run("run", DIGITS, "zeros(1,3,8,8)", code=4)
    assert "RuntimeError" in done.stderr and "channels" in done.stderr
    assert (
        json.loads(run("run", DIGITS, "zeros(1,3,8,8)", "--json", code=4).stdout)["error"]["type"]
        == "RuntimeError"
    )


def test_exit_code_5_limit(run) -> None:
    assert (
        "limit"
        in run("run", DIGITS, "zeros(100,1,800,800)", "--max-bytes", "10000000", code=5).stderr
    )
    assert "limit" in run("run", LIFE, "100000000", "--max-seconds", "0.05", code=5).stderr


def test_help(run) -> None:
    text = run("--help").stdout
    verbs = re.findall(r"^  (\w+) +(?:MODEL|DIR)", text, re.M)
    assert " ".join(verbs) == (
        "run record verify bench profile gradcheck bind export decompose show"
    )
    assert all(f"  {code}" in text for code in (0, 1, 2, 3, 4, 5, 70))
    for verb in verbs:
        own = run(verb, "--help").stdout
        assert (
            own.startswith(f"rushlight {verb} - ")
            and f"rushlight {verb} " in own.split("Examples:")[1]
        )
    assert re.fullmatch(r"rushlight \d+\.\d+\.\d+\n", run("--version").stdout)


def options_of_verbs() -> dict[str, dict[str, str]]:
    """verb -> option -> whether it takes a value ("" for a flag), as help.def has them."""
    text = (TOP / "cli" / "help.def").read_text()
    told: dict[str, dict[str, str]] = {
        verb: {} for verb in re.findall(r'^VERB\("(\w+)"', text, re.M)
    }
    for verbs, option, value in re.findall(
        r'^OPTION\(\s*"([^"]*)",\s+"(--[\w-]+)",\s+"([^"]*)"', text, re.M
    ):
        for verb in told if verbs == "all" else verbs.split():
            told[verb].setdefault(option, value)
    return told


def test_help_of_a_verb_lists_its_options_alone(run) -> None:
    for verb, told in options_of_verbs().items():
        text = run("help", verb).stdout.split("\nOptions:\n")[1].split("\nExamples:")[0]
        assert set(re.findall(r"^  (--[\w-]+)", text, re.M)) == set(told), verb
        for line in text.splitlines():  # each has its meaning, beside it or below
            assert (
                re.match(r"  --[\w-]+( \S+)?  +\S|  --[\w-]+ \S+$| {20}\S", line)
                or len(line.split()) > 2
            ), line


def test_options_of_other_verbs_are_refused(run) -> None:
    told = options_of_verbs()
    every = {option: value for options in told.values() for option, value in options.items()}
    for verb, own in told.items():
        for option, value in every.items():
            if option not in own:
                done = run(verb, DIGITS, option, *(["1"] if value else []), code=2)
                assert (
                    f"'{option}' is an option of " in done.stderr
                    and f"not of {verb}" in done.stderr
                ), (verb, option)


def test_every_option_that_is_read_is_documented() -> None:
    told = set(
        re.findall(
            r'^OPTION\(\s*"[^"]*",\s+"(--[\w-]+)"', (TOP / "cli" / "help.def").read_text(), re.M
        )
    )
    used = set()
    for path in (TOP / "cli").glob("*.c"):
        used |= set(re.findall(r'"(--[a-z-]+)"', path.read_text()))
    assert used == told


def test_manual_and_completions_name_every_option(build: pathlib.Path) -> None:
    told = re.findall(
        r'^OPTION\(\s*"[^"]*",\s+"(--[\w-]+)"', (TOP / "cli" / "help.def").read_text(), re.M
    )
    folder = build / "packaging"
    manual = (folder / "rushlight.1").read_text().replace("\\-", "-")
    assert all(option in manual for option in told)
    for name in ("rushlight", "_rushlight"):
        assert all(option in (folder / name).read_text() for option in told), name
    assert all(f"-l {option[2:]} " in (folder / "rushlight.fish").read_text() for option in told)
    for shell, name in (("bash", "rushlight"), ("zsh", "_rushlight"), ("fish", "rushlight.fish")):
        if shutil.which(shell):
            subprocess.run([shell, "-n", str(folder / name)], check=True)
    if shutil.which("bash"):
        script = (
            f". {folder}/rushlight; COMP_WORDS=(rushlight run --cp); COMP_CWORD=2; "
            f"_rushlight; echo ${{COMPREPLY[@]}}"
        )
        assert (
            subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout
            == "--cpu\n"
        )


@pytest.mark.parametrize(
    ("verb", "option"),
    [("bench", "--seconds=0.3"), ("profile", "--calls=3"), ("bench", f"--against={DIGITS}")],
)
def test_progress_is_for_terminals(command: str, verb: str, option: str) -> None:
    args = [command, verb, DIGITS, "zeros(1,1,8,8)", option]
    assert subprocess.run(args, capture_output=True).stderr == b""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    code = process.wait()  # 1: bench found the other model faster
    assert code in (0, 1) and b"calls" in seen and seen.endswith(b"\r\x1b[K")


def test_script_makes_an_archive(command: str, tmp_path: pathlib.Path) -> None:
    source, archive = tmp_path / "twice.py", tmp_path / "twice.pt"
    source.write_text("def twice(x: int):\n    return 2 * x\n")
    done = subprocess.run(
        [command, "script", source, "-o", archive], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    for model in (source, archive):
        done = subprocess.run(
            [command, "run", model, "4"], capture_output=True, text=True, timeout=200
        )
        assert done.stdout == "8\n", done.stderr
    done = subprocess.run(
        [command, "run", source, "twice", "5"], capture_output=True, text=True, timeout=200
    )
    assert done.stdout == "10\n", done.stderr
    source.write_text("def twice(x: int) -> str:\n    return 2 * x\n")
    done = subprocess.run([command, "script", source], capture_output=True, text=True, timeout=200)
    assert done.returncode == 4 and f'File "{source}", line 2' in done.stderr


@pytest.mark.parametrize("name", ["digits.pt", "digits.pt2"])
def test_copy_reads_files_instead_of_mapping_them(
    run, command: str, tmp_path: pathlib.Path, name: str
) -> None:
    model, image = str(DATA / name), tmp_path / "image.npy"
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 8, 8), }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    image.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(256))
    plain = run("run", model, f"@{image}").stdout
    assert run("run", model, f"@{image}", "--copy").stdout == plain
    for verb in (["show"], ["bench", "--seconds", "0.05"], ["profile", "--calls", "1"]):
        assert (
            run(
                verb[0], model, *(() if verb[0] == "show" else (f"@{image}", *verb[1:])), "--copy"
            ).returncode
            == 0
        )
    if (
        not shutil.which("strace")
        or subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode
    ):
        return
    for more, mapped in ((), True), (("--copy",), False):
        trace = tmp_path / "trace"
        call = [
            "strace",
            "-f",
            "-y",
            "-e",
            "trace=mmap",
            "-o",
            str(trace),
            command,
            "run",
            model,
            f"@{image}",
            *more,
        ]
        assert subprocess.run(call, capture_output=True).returncode == 0
        assert (f"{name}>" in trace.read_text(), "image.npy>" in trace.read_text()) == (
            mapped,
            mapped,
        )


def test_objects_are_printed_without_addresses(run, tmp_path: pathlib.Path) -> None:
    source = tmp_path / "a.py"
    source.write_text(
        "import torch\n"
        "class C:\n    def __init__(self, x: int):\n        self.x = x\n"
        "def f(x: torch.Tensor):\n    c = C(1)\n    d = C(2)\n    print(c, [c], (c, d), {'a': c})\n"
        "    return id(c) == id(c), id(c) == id(d), hash(x) == hash(x), hash(x) == hash(x + 1), "
        "(id(c), hash(x), hash((x, 1)))\n"
    )
    first, second = (run("run", str(source), "f", "ones(2)").stdout for _ in range(2))
    assert first == second  # an address would differ
    assert "C object> [" in first and " at 0x" not in first
    assert "(True, False, True, False, (" in first


def test_run_answers_programs_that_ask_for_gradients(run, tmp_path: pathlib.Path) -> None:
    source = tmp_path / "asks.py"
    source.write_text(
        "import torch\ndef f(x: torch.Tensor):\n    x = x.requires_grad_()\n"
        "    y = torch.autograd.grad([(x * x * x).sum()], [x])[0]\n    assert y is not None\n    "
        "return y\n"
    )
    out = run("run", str(source), "f", "full([2], 2.0)").stdout
    assert "12" in out and "requires_grad" not in out


def test_run_without_arguments_uses_the_sample_inputs(run) -> None:
    program = str(DATA / "digits.pt2")
    done = run("run", program)
    assert done.stdout.startswith("tensor([[") and "sample inputs" in done.stderr
    assert json.loads(run("bench", program, "--seconds=0.01", "--json").stdout)["calls"] >= 5
    assert "aten::" in run("profile", program, "--calls=1").stdout


def test_a_call_without_arguments_says_what_to_give(run, tmp_path: pathlib.Path) -> None:
    for verb in ("run", "bench", "profile"):
        said = run(verb, DIGITS, code=2).stderr
        assert (
            "forward needs arguments: x: Tensor" in said
            and f'rushlight {verb} {DIGITS} "randn(2,3)"' in said
        )
    source = tmp_path / "kinds.py"
    source.write_text(
        "def f(x: Tensor, n: int, names: List[str], o: Optional[float], d: Dict[str, Tensor], k: "
        "int = 1):\n    return x\n"
    )
    said = run("run", str(source), "f", code=2).stderr
    assert '"randn(2,3)" "1" "[\'a\', \'b\']" "None" "{\'a\': randn(2,3)}" --method f' in said
    command = re.search(r"For example: rushlight (.*)", said)[1]
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {command}"], capture_output=True, text=True
    ).stdout.splitlines()
    assert run(*words).stdout.startswith("tensor(")


@pytest.mark.parametrize("name", ["r.npy", "r.npz", "r.safetensors", "r.pt"])
def test_results_go_to_files(run, tmp_path: pathlib.Path, name: str) -> None:
    np = pytest.importorskip("numpy")
    path = tmp_path / name
    assert run("run", DIGITS, "zeros(1,1,8,8)", "-o", str(path)).stdout == ""
    value = rushlight_load(path)
    assert value.shape == (1, 10) and np.isclose(value.sum(), 1)
    source = tmp_path / "same.py"
    source.write_text("def f(x: Tensor):\n    return x\n")
    key = {"r.safetensors": "[tensor]"}.get(name, "")
    again = run("run", str(source), f"@{path}{key}").stdout
    assert again == run("run", DIGITS, "zeros(1,1,8,8)").stdout


def rushlight_load(path: pathlib.Path):
    """What the format's own readers see."""
    np = pytest.importorskip("numpy")
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".npz":
        return np.load(path)["arr_0"]
    if path.suffix == ".safetensors":
        data = path.read_bytes()
        n = int.from_bytes(data[:8], "little")
        entry = json.loads(data[8 : 8 + n])["tensor"]
        assert entry["dtype"] == "F32"
        return np.frombuffer(data[8 + n :], np.float32).reshape(entry["shape"])
    return pytest.importorskip("torch").load(path, weights_only=True).numpy()


def test_several_results_go_to_files(run, tmp_path: pathlib.Path) -> None:
    np = pytest.importorskip("numpy")
    source = tmp_path / "two.py"
    source.write_text(
        "def f(x: Tensor):\n    return {'a': x, 'b': (x > 0).t()}\ndef g(x: Tensor):\n    return "
        "x, x.half()\n"
    )
    run("run", str(source), "f", "ones(2,3)", "-o", str(tmp_path / "f.npz"))
    with np.load(tmp_path / "f.npz") as both:
        assert both["a"].shape == (2, 3) and both["b"].dtype == bool and both["b"].shape == (3, 2)
    run("run", str(source), "g", "ones(2,3)", "-o", str(tmp_path / "g.npz"))
    with np.load(tmp_path / "g.npz") as both:
        assert both["arr_1"].dtype == np.float16
    assert (
        "one tensor"
        in run("run", str(source), "g", "ones(2)", "-o", str(tmp_path / "g.npy"), code=2).stderr
    )
    assert (
        ".safetensors"
        in run("run", str(source), "g", "ones(2)", "-o", str(tmp_path / "g.txt"), code=2).stderr
    )
    np.savez(tmp_path / "x.npz", x=np.arange(3), y=np.zeros((2, 2)))
    assert run("run", str(source), "g", f"@{tmp_path}/x.npz[x]").stdout.count("Type{3}") == 2
    assert "name or number" in run("run", str(source), "g", f"@{tmp_path}/x.npz[z]", code=2).stderr


def test_standard_input(command: str, run, tmp_path: pathlib.Path) -> None:
    np = pytest.importorskip("numpy")
    wanted = run("run", DIGITS, "zeros(1,1,8,8)").stdout
    model = subprocess.run(
        [command, "run", "-", "zeros(1,1,8,8)"],
        input=pathlib.Path(DIGITS).read_bytes(),
        capture_output=True,
    )
    assert model.stdout.decode() == wanted
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), np.float32))
    data = (tmp_path / "x.npy").read_bytes()
    assert (
        subprocess.run(
            [command, "run", DIGITS, "@-"], input=data, capture_output=True
        ).stdout.decode()
        == wanted
    )
    twice = subprocess.run([command, "run", "-", "@-"], input=data, capture_output=True)
    assert twice.returncode == 2 and b"once" in twice.stderr
    shown = subprocess.run(
        [command, "show", "-"], input=pathlib.Path(DIGITS).read_bytes(), capture_output=True
    )
    assert b"forward" in shown.stdout


def test_dtypes_of_factories(run, tmp_path: pathlib.Path) -> None:
    source = tmp_path / "same.py"
    source.write_text("def f(x: Tensor):\n    return str(x.dtype), x.shape\n")
    for factory, dtype in (
        ("ones(2,9,dtype=int64)", "4"),
        ("zeros([2,9], dtype=torch.bool)", "11"),
        ("full((2, 9), 0.5)", "6"),
        ("randint(0, 5, (2, 9))", "4"),
        ("rand(2,9,dtype=float16)", "5"),
    ):
        assert run("run", str(source), factory).stdout == f"('{dtype}', [2, 9])\n", factory
    assert run("run", str(source), "randn(2,9)", "--dtype=bfloat16").stdout == "('15', [2, 9])\n"
    assert run("run", str(source), "eye(3)", "--dtype=float64").stdout == "('7', [3, 3])\n"
    assert run("run", str(source), "arange(3)", "--dtype=float64").stdout == "('4', [3])\n"
    assert "--dtype" in run("run", str(source), "eye(3)", "--dtype=real", code=2).stderr


def test_typos_get_suggestions(run) -> None:
    assert "did you mean 'run'?" in run("rnu", DIGITS, code=2).stderr
    assert "did you mean '--graph'?" in run("show", DIGITS, "--grahp", code=2).stderr
    assert "did you mean 'randn'?" in run("run", DIGITS, "rnadn(1,1,8,8)", code=2).stderr
    assert "did you mean 'bench'?" in run("help", "bnech", code=2).stderr
    assert "did you mean 'avx2'?" in run("show", DIGITS, "--cpu=avx", code=2).stderr
    assert "did you mean 'simple'?" in run("show", DIGITS, "--executor", "simpel", code=2).stderr
    assert (
        "did you mean 'float16'?" in run("run", DIGITS, "ones(1)", "--dtype=flaot16", code=2).stderr
    )
    assert "did you mean 'float64'?" in run("run", DIGITS, "ones(1, dtype=flaot64)", code=2).stderr
    assert "did you mean 'True'?" in run("run", DIGITS, "Ture", code=2).stderr
    assert "did you mean 'zeros(...)'?" in run("run", DIGITS, "zeros", code=2).stderr
    assert "the verb comes before the options" in run("--graph", DIGITS, code=2).stderr


def test_conflicts_are_refused(run, tmp_path: pathlib.Path) -> None:
    for args in (
        ["show", LIFE, "--code", "--graph"],
        ["show", LIFE, "--ops", "--check"],
        ["show", LIFE, "--html", "--json"],
        ["run", LIFE, "2", "--json", "-o", str(tmp_path / "x.npy")],
        ["run", LIFE, "2", "--threads=1", "--threads=2"],
        ["show", LIFE, "--seconds=2"],
        ["run", LIFE, "2", "--output"],
    ):
        assert run(*args, code=2).stdout == "", args
    for names in (
        ("--html", "--graph"),
        ("--html", "--check"),
        ("--dot", "--asm"),
        ("--check", "--digest"),
        ("--method=step", "--ops"),
        ("--method=step", "--check"),
        ("--profile", "--html"),
        ("--output=x", "--html"),
    ):
        args = names if names[1] != "--html" else names[:1]  # the last two need what they lack
        message = run("show", LIFE, *args, code=2).stderr
        assert all(name.partition("=")[0] in message for name in names), (names, message)


def test_a_file_alone_is_shown_and_help_is_a_verb(run) -> None:
    assert run(DIGITS).stdout == run("show", DIGITS).stdout
    assert run(DIGITS, "--ops").stdout == run("show", DIGITS, "--ops").stdout
    assert run("help", "bench").stdout == run("bench", "--help").stdout
    assert run("help").stdout == run("--help").stdout


def test_code_as_data(run) -> None:
    code = json.loads(run("show", LIFE, "--code", "--json").stdout)
    assert [f["name"] for f in code["functions"]] == ["Life.forward", "Life.step"]
    printed = code["text"].split("\n")[1:]  # behind the file's name
    for f in code["functions"]:
        assert f["file"] == "code/__torch__.py" and f["lines"][0]["line"] == f["line"]
        assert all(printed[x["line"] - 1] == x["text"] for x in f["lines"])
    one = json.loads(run("show", LIFE, "--code", "--method", "step", "--json").stdout)["functions"]
    assert [(f["name"], f["file"], f["line"]) for f in one] == [("step", None, 1)]
    assert json.loads(run("show", str(DATA / "digits.pt2"), "--code", "--json").stdout)[
        "functions"
    ][0]["lines"][1:]


def test_bytecode_as_data(run) -> None:
    source = json.loads(run("show", LIFE, "--program").stdout)["sources"][0]["text"].split("\n")
    (step,) = json.loads(run("show", LIFE, "--bytecode", "--method", "step", "--json").stdout)[
        "functions"
    ]
    rows = step["instructions"]
    listing = run("show", LIFE, "--bytecode", "--method", "step").stdout.splitlines()
    assert [r["pc"] for r in rows] == list(range(len(listing) - 1))
    assert [r["op"] for r in rows] == [line.split()[1] for line in listing[1:]]
    (roll,) = [r for r in rows if r.get("operator") == "aten::roll"]
    assert "torch.roll(" in source[roll["at"]["line"] - 1][roll["at"]["column"] - 1 :]
    assert all(0 <= r["to"] < len(rows) for r in rows if "to" in r) and any("to" in r for r in rows)
    assert all(
        re.fullmatch(r"[rk]\d+", x)
        for r in rows
        for x in r.get("inputs", []) + [y for y in r.get("outputs", []) if y]
    )


def test_machine_code_as_data(run) -> None:
    worker = str(DATA / "worker.pt")
    functions = json.loads(run("show", worker, "--asm", "--json").stdout)["functions"]
    lines = [line for f in functions for g in f["groups"] for line in g["lines"]]
    text = run("show", worker, "--asm").stdout
    assert len(lines) == len(text.splitlines())
    for line in lines:
        assert line.get("text", line.get("label")) in text
    if lines:  # where there is an emitter
        assert all(bytes.fromhex(line["bytes"]) for line in lines if "bytes" in line) and any(
            "bytes" in line for line in lines
        )
        assert all(g["operator"] and g["at"]["line"] > 0 for f in functions for g in f["groups"])


def test_views_as_data(run) -> None:
    def view(name: str):
        return json.loads(run("show", LIFE, *([name] if name else []), "--json").stdout)

    shown = view("")
    assert (
        shown["format"] == "TorchScript"
        and "step" in shown["methods"]
        and shown["state"][0]["name"] == "board"
    )
    assert shown["state"][0]["kind"] == "buffer" and len(shown["state"][0]["shape"]) == 2
    assert all(op["count"] > 0 and op["status"] == "runs" for op in view("--ops"))
    assert (
        view("--schema")["forward"].startswith("forward(")
        and len(view("--digest")["forward"]) == 16
    )
    assert view("--graph")["functions"] and view("--signature")["forward"]["inputs"]
