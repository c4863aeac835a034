"""The page of `show --html`: that it needs nothing else and lets nothing of an archive act; and, in
a browser, how it looks and moves (where a Chromium is installed).  Its layout alone:
test_page_layout.py."""

from __future__ import annotations

import base64
import hashlib
import json
import pathlib
import re
import struct
import subprocess
import zipfile
from xml.etree import ElementTree

import browser
import pytest
from conftest import DATA

DIGITS, LIFE, EXPORTED = str(DATA / "digits.pt"), str(DATA / "life.pt"), str(DATA / "digits.pt2")
EVIL = "</script><img src=x onerror=document.title=1>"
MOST_BYTES = 92 * 1024  # of the page without its data


@pytest.fixture
def page(command: str, tmp_path: pathlib.Path):
    def make(model: str, *more: str) -> pathlib.Path:
        path = tmp_path / (pathlib.Path(model).name + ".html")
        done = subprocess.run(
            [command, "show", model, "--html", "-o", str(path), *more],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0 and done.stdout == "", done.stderr
        return path

    return make


def split(path: pathlib.Path) -> tuple[str, dict]:
    """The page without its data, and the data."""
    parts = re.fullmatch(
        r'(.*<script id="data" type="application/json">)(.*?)(</script>.*)', path.read_text(), re.S
    )
    return parts[1] + parts[3], json.loads(parts[2])


def functions_of(data: dict) -> dict:
    return {f["name"]: f for f in data["program"]["functions"]}


# -- Without a browser
# -----------------------------------------------------------------------------------------------


def test_page_needs_nothing_else(page) -> None:
    text, _ = split(page(DIGITS))
    assert len(text.encode()) <= MOST_BYTES
    assert not re.search(
        r"""(src|href)\s*=|@import|url\((?!#)|fetch\(|XMLHttp|WebSocket|innerHTML|eval\(""", text
    )
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {
        "http://www.w3.org/2000/svg"
    }  # a name, not a place


def test_policy_lets_only_this_script_run(page) -> None:
    text, _ = split(page(DIGITS))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    script = re.findall(r"<script>(.*?)</script>", text, re.S)
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert (
        len(script) == 1
        and f"script-src 'sha256-{digest}'" in policy
        and policy.startswith("default-src 'none'")
    )
    assert re.findall(r"[\w-]+-src (?!'(?:none|unsafe-inline|sha256)[^;]*)[^;]*", policy) == [
        "img-src blob:"
    ]  # its own, for PNG


def test_weights_without_statistics_say_why(page, tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("plain", torch.arange(6.0))
            self.register_buffer("spiral", torch.ones(3, dtype=torch.complex64))
            self.register_buffer("empty", torch.zeros(0, 3))
            self.register_buffer("vast", torch.zeros(1).expand(1 << 27))
            self.register_buffer(
                "packed",
                torch.quantize_per_tensor(torch.tensor([0.5, -1.0, 2.0]), 0.5, 3, torch.quint8),
            )

        def forward(self, x):
            return x + self.plain.sum()

    path = tmp_path / "weights.pt"
    torch.jit.save(torch.jit.trace(Model(), torch.ones(2)), str(path))
    weights = {w["name"]: w for w in split(page(str(path)))[1]["weights"]}
    assert {name: w.get("why") for name, w in weights.items()} == {
        "plain": None,
        "spiral": "complex numbers have no order",
        "empty": "no elements",
        "vast": "not read: beyond the first 64 Mi elements",
        "packed": None,
    }
    assert (weights["packed"]["min"], weights["packed"]["max"]) == (
        -1.0,
        2.0,
    )  # the numbers that it represents
    assert all(("bins" in w) != ("why" in w) for w in weights.values())


def test_packed_weights_are_read(page, tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("this torch has no fbgemm")
    model = torch.ao.quantization.quantize_dynamic(
        torch.nn.Sequential(torch.nn.Linear(3, 2)), {torch.nn.Linear}, torch.qint8
    )
    torch.jit.save(torch.jit.script(model), str(tmp_path / "packed.pt"))
    weights = split(page(str(tmp_path / "packed.pt")))[1]["weights"]
    assert [(w["name"].rsplit(".", 1)[1], w["role"], w["dtype"], w["shape"]) for w in weights] == [
        ("weight", "packed", "qint8", [2, 3]),
        ("bias", "packed", "float32", [2]),
    ]
    assert all("bins" in w for w in weights)


def test_writing_operators_are_marked(page, tmp_path: pathlib.Path) -> None:
    text = b"    out = annotate(List[Tensor], [])\n    _9 = torch.append(out, torch.add_(x0, 1))\n"
    _, data = split(page(long_model(tmp_path / "list.zip", text, b"torch.stack(out)")))
    writes = {o["name"]: o["writes"] for o in data["program"]["ops"] if "writes" in o}
    assert writes == {"aten::append": [0], "aten::add_": [0]}


def test_data_of_a_program(page) -> None:
    _, data = split(page(LIFE))
    assert (
        data["file"] == "life.pt"
        and data["profile"] is None
        and data["program"]["format"] == "TorchScript"
    )
    assert [m["name"] for m in data["program"]["methods"]] == ["forward", "step"]
    forward = functions_of(data)["__torch__.Life.forward"]
    loop = next(n for n in forward["nodes"] if n.get("kind") == "prim::Loop")
    call = loop["blocks"][0]["nodes"][0]
    assert data["program"]["functions"][call["call"]]["name"] == "__torch__.Life.step"
    source = data["program"]["sources"][call["at"][0]]
    assert ").step(" in source["text"].splitlines()[call["at"][1] - 1]
    assert [(w["name"], w["shape"]) for w in data["weights"]] == [("board", [8, 12])]


def test_data_of_an_exported_program(page) -> None:
    _, data = split(page(EXPORTED))
    program = data["program"]
    for n in functions_of(data)["__torch__.ExportedProgram.forward"]["nodes"]:
        if "op" in n and n["at"][0] == 0:  # every operator is on the line that it names
            line = program["sources"][0]["text"].splitlines()[n["at"][1] - 1]
            assert program["ops"][n["op"]]["name"].replace("::", ".") in line
    weight = next(w for w in data["weights"] if w["name"] == "conv.weight")
    assert weight["min"] < weight["mean"] < weight["max"] and sum(weight["bins"]) == 36


def two_layers(path: pathlib.Path) -> str:
    """An exported program of modules in modules, with a dynamic size."""
    torch = pytest.importorskip("torch")

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.fc(x).relu()

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Block(), Block()

        def forward(self, x):
            y = self.b(self.a(x)) + x
            return y.sum()

    rows = torch.export.Dim("rows", min=2, max=9)
    made = torch.export.export(Net(), (torch.ones(3, 4),), dynamic_shapes=({0: rows},))
    torch.export.save(made, str(path))
    return str(path)


def test_an_exported_program_has_shapes_modules_and_lines(page, tmp_path: pathlib.Path) -> None:
    _, data = split(page(two_layers(tmp_path / "net.pt2")))
    program = data["program"]
    paths = [m["path"] for m in program["modules"]]
    assert paths == ["", "a", "a.fc", "b", "b.fc"]
    assert [m["outer"] for m in program["modules"]] == [None, 0, 1, 0, 3]
    assert program["modules"][2]["class"] == "torch.nn.modules.linear.Linear"
    forward = functions_of(data)["__torch__.ExportedProgram.forward"]
    seen = []
    for n in forward["nodes"]:
        if "op" in n and not program["ops"][n["op"]]["name"].startswith("aten::sym_"):
            source = program["sources"][n["at"][0]]
            line = source["text"].splitlines()[n["at"][1] - 1]
            name, kind, is_tensor = forward["values"][n["out"][0]]
            seen.append((name, paths[n["module"]], kind, line))
            assert is_tensor and source["name"].endswith("test_page.py")
    inside = "return self.fc(x).relu()"
    outside = "y = self.b(self.a(x)) + x"
    assert seen == [
        ("linear", "a.fc", "float32[s77, 4]", inside),
        ("relu", "a", "float32[s77, 4]", inside),
        ("linear_1", "b.fc", "float32[s77, 4]", inside),
        ("relu_1", "b", "float32[s77, 4]", inside),
        ("add", "", "float32[s77, 4]", outside),
        ("sum_1", "", "float32[]", "return y.sum()"),
    ]


def test_measured_nodes_are_nodes_of_the_graph(page) -> None:
    _, data = split(page(LIFE, "--profile", "generations=4"))
    profile, functions = data["profile"], functions_of(data)

    def nodes(block: dict) -> list:
        return [
            m
            for n in block["nodes"]
            for m in (n, *(x for b in n.get("blocks", []) for x in nodes(b)))
        ]

    assert profile["calls"] > 0 and profile["nodes"]
    for row in profile["nodes"]:
        method = profile["methods"][row["parent"]]
        assert row["node"] in {n["id"] for n in nodes(functions[method["name"]]) if "op" in n}, row
    assert sum(row["total"] for row in profile["nodes"]) < profile["seconds"]


def rezipped(model: str, to: pathlib.Path, change) -> str:
    with zipfile.ZipFile(model) as old, zipfile.ZipFile(to, "w") as new:
        for info in old.infolist():
            new.writestr(zipfile.ZipInfo(info.filename), change(info.filename, old.read(info)))
    return str(to)


def hostile_script(to: pathlib.Path) -> str:
    def change(name: str, data: bytes) -> bytes:
        if name.endswith("__torch__.py"):
            data = (
                data.replace(b'"#"', json.dumps(EVIL).encode())
                + f"# {EVIL} <!-- <script>\n".encode()
            )
        return data

    return rezipped(LIFE, to, change)


def hostile_export(to: pathlib.Path) -> str:
    def change(name: str, data: bytes) -> bytes:
        if name.endswith(".json"):
            data = data.replace(b"conv.weight", EVIL.encode()).replace(
                b'"conv2d"', json.dumps(EVIL).encode()
            )
        return data

    return rezipped(EXPORTED, to, change)


@pytest.mark.parametrize("make", [hostile_script, hostile_export])
def test_names_and_texts_of_archives_stay_data(page, tmp_path: pathlib.Path, make) -> None:
    path = page(make(tmp_path / f"{EVIL[10:14]}.zip"))
    text, data = split(path)
    assert (
        EVIL in json.dumps(data) and EVIL not in path.read_text() and "<img" not in path.read_text()
    )
    assert path.read_text().count("<script") == 2 and path.read_text().count("</script") == 2


def test_usage(command: str, tmp_path: pathlib.Path) -> None:
    for args in (
        [DIGITS, "--profile"],
        [DIGITS, "-o", "x"],
        [DIGITS, "--html", "zeros(1)"],
        ["--html"],
    ):
        assert subprocess.run([command, "show", *args], capture_output=True).returncode == 2, args
    lost = subprocess.run(
        [command, "show", DIGITS, "--html", "-o", str(tmp_path / "no" / "x")],
        capture_output=True,
        text=True,
    )
    assert lost.returncode == 3 and "cannot write" in lost.stderr
    out = subprocess.run([command, "show", DIGITS, "--html"], capture_output=True, text=True)
    assert (
        out.returncode == 0
        and out.stdout.startswith("<!DOCTYPE html>")
        and out.stdout.endswith("</html>\n")
    )


# -- In a browser
# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory):
    path = browser.find() or pytest.skip(
        "no browser is installed (chromium, or RUSHLIGHT_BROWSER): the page is not looked at"
    )
    w = browser.Browser(path, tmp_path_factory.mktemp("browser"))
    yield w
    w.close()


@pytest.fixture
def opened(window, page):
    """Opens a model's page; at the end its console must have been silent."""
    window.errors.clear()

    def go(model: str, *more: str, ask: str = ""):
        window.open(page(model, *more), ask)
        return window

    yield go
    assert window.errors == [] and window.run("document.documentElement.dataset.errors") == "0"


def drawn_nodes(data: dict, block: dict, function: dict, is_body: bool = True) -> int:
    """How many nodes a block is drawn as with all boxes open, by the page's rules told once
    more."""
    folded, inner = set(), 0
    defs = {}

    def define(b: dict) -> None:
        for n in b["nodes"]:
            defs.update(dict.fromkeys(n["out"], n))
            for x in n.get("blocks", []):
                define(x)

    define(function)

    def is_folded(n: dict) -> bool:
        kind = n.get("kind", "")
        lists = ("prim::ListConstruct", "prim::TupleConstruct", "prim::DictConstruct")
        return kind in ("prim::Constant", "prim::GetAttr") or (
            kind in lists and all(v in defs and is_folded(defs[v]) for v in n["in"])
        )

    for n in block["nodes"]:
        if is_folded(n):
            folded.update(n["out"])
        elif "call" in n:
            callee = data["program"]["functions"][n["call"]]
            inner += drawn_nodes(data, callee, callee)
        elif "blocks" in n:
            inner += sum(drawn_nodes(data, b, function, False) for b in n["blocks"])
        elif (
            n.get("kind") != "prim::ListConstruct" or function["values"][n["out"][0]][1] != "int[]"
        ):
            inner += 1
    return inner


def test_every_node_is_drawn(opened, page) -> None:
    for model in (DIGITS, EXPORTED, LIFE):
        w = opened(model, ask="open=all&fit")
        data = split(page(model))[1]
        forward = data["program"]["functions"][data["program"]["methods"][0]["function"]]
        assert w.run("document.querySelectorAll('#nodes > .node:not(.io)').length") == drawn_nodes(
            data, forward, forward
        ), model
        counts = w.run(
            "[dataset.nodes, dataset.drawn]".replace("dataset", "document.documentElement.dataset")
        )
        assert (
            counts[0]
            == counts[1]
            == str(w.run("document.querySelectorAll('#nodes > .node').length"))
        )
        assert w.run("""[...document.querySelectorAll('#nodes > .node')].every((a, i, all) => all.every((b) => {
            const [p, q] = [a.getBoundingClientRect(), b.getBoundingClientRect()];
            return a === b || p.right <= q.left + 1 || q.right <= p.left + 1 || p.bottom <= q.top + 1 || q.bottom <= p.top + 1;
        }))"""), f"{model}: nodes overlap"


def test_modules_are_boxes_and_shapes_are_on_edges(opened, tmp_path: pathlib.Path) -> None:
    w = opened(two_layers(tmp_path / "net.pt2"), ask="open=all&fit")
    titles = "[...document.querySelectorAll('{}')].map((t) => t.textContent)"
    assert sorted(w.run(titles.format("#boxes .title"))) == ["Block", "Block", "Linear", "Linear"]
    flows = w.run(titles.format("#nodes .flow"))
    assert flows.count("s77×4") >= 6 and flows.count("scalar") == 1
    assert "Net" not in w.run(titles.format("#boxes .title"))
    w = opened(two_layers(tmp_path / "net.pt2"), ask="open=none&fit")
    closed = w.run(titles.format("#nodes > .node:not(.io) .title"))
    assert closed[:4] == ["Block", "Block", "add", "sum"]
    assert w.run("document.documentElement.dataset.errors") == "0"


@pytest.mark.parametrize("ask", ["", "tab=weights", "tab=operators"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page_is_not_blank(opened, theme: str, ask: str) -> None:
    w = opened(EXPORTED, "--profile", "rand(1,1,8,8)", ask=ask)
    w.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    w.settle()
    width, height, rows, step = browser.pixels(w.screenshot(0.5))
    w.ask("Emulation.setEmulatedMedia", features=[])
    counts: dict[bytes, int] = {}
    for row in rows[30:]:  # below the header
        for x in range(width):
            pixel = row[x * step : x * step + 3]
            counts[pixel] = counts.get(pixel, 0) + 1
    common = max(counts, key=counts.get)
    assert width >= 600 and height >= 300 and len(counts) > 40
    assert sum(common) > 600 if theme == "light" else sum(common) < 150
    assert counts[common] < 0.97 * sum(counts.values())


def centre(w, selector: str) -> tuple[float, float]:
    x, y, width, height = w.run(
        f"(r => [r.x, r.y, r.width, "
        f"r.height])(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
    )
    return x + width / 2, y + height / 2


def test_wheel_zooms_and_drag_moves(opened) -> None:
    w = opened(DIGITS)
    scale = (
        "+document.getElementById('world').getAttribute('transform').match(/scale\\((.*)\\)/)[1]"
    )
    x, y = centre(w, "#nodes > .node:nth-child(3)")
    before = w.run(scale)
    w.mouse("mouseWheel", x, y, deltaX=0, deltaY=-200)
    w.settle()
    assert w.run(scale) > 1.2 * before
    now = centre(w, "#nodes > .node:nth-child(3)")
    assert abs(now[0] - x) < 3 and abs(now[1] - y) < 3  # the point under the pointer stays
    px, py = centre(w, "#canvas")
    px -= 300
    w.mouse("mousePressed", px, py, button="left", clickCount=1)
    w.mouse("mouseMoved", px + 60, py + 40, button="left", buttons=1)
    w.mouse("mouseReleased", px + 60, py + 40, button="left", clickCount=1)
    w.settle()
    moved = centre(w, "#nodes > .node:nth-child(3)")
    assert abs(moved[0] - now[0] - 60) < 3 and abs(moved[1] - now[1] - 40) < 3


def test_click_shows_details_and_source_line(opened) -> None:
    w = opened(DIGITS)
    node = "#nodes > .node.c-matmul"
    w.click(*centre(w, node))
    assert "conv2d" in w.run("document.querySelector('#details h2').textContent")
    assert "torch.conv2d(" in w.run("document.querySelector('#source .here').textContent")
    w.key("ArrowDown")
    assert "relu" in w.run("document.querySelector('#details h2').textContent")
    line = w.run(
        "[...document.querySelectorAll('#source .row')].findIndex(r => "
        "r.textContent.includes('softmax'))"
    )
    w.run(f"document.querySelectorAll('#source .row')[{line}].click()")
    assert "softmax" in w.run("document.querySelector('#details h2').textContent")


def test_boxes_open_and_search_finds_what_is_inside(opened) -> None:
    w = opened(LIFE, ask="open=none")
    assert w.run("document.documentElement.dataset.boxes") == "0"
    w.key("/")
    w.ask("Input.insertText", text="roll")
    w.settle()
    assert w.run("document.querySelectorAll('#found li').length") == 1
    w.key("Enter")
    assert int(w.run("document.documentElement.dataset.boxes")) >= 4
    assert "aten::roll" in w.run("document.querySelector('#details h2').textContent")
    assert w.run("document.querySelectorAll('.picked').length") == 1


def test_hostile_names_are_only_shown(opened, tmp_path: pathlib.Path) -> None:
    for make in (hostile_script, hostile_export):
        model = make(tmp_path / f"{make.__name__}.zip")
        for ask in ("open=all&fit", "find=img", "tab=weights", "tab=operators"):
            w = opened(model, ask=ask)
            assert w.run("document.images.length") == 0 and w.run("document.title") != "1"
            assert w.run("document.scripts.length") == 2
        opened(model, ask="panel&tab=weights")
        assert w.run("document.body.textContent.includes('<img src=x')")


def long_model(to: pathlib.Path, lines: bytes, result: bytes) -> str:
    """life.pt, whose `step` does `lines` first."""

    def change(name: str, data: bytes) -> bytes:
        if name.endswith("__torch__.py"):
            start = data.index(b"    near = torch.zeros_like(board)\n")
            data = (
                data[:start]
                + b"    x0 = torch.zeros_like(board)\n"
                + lines
                + b"    return "
                + result
                + b"\n"
            )
        return data

    return rezipped(LIFE, to, change)


def ten_thousand(to: pathlib.Path) -> str:
    text = b"".join(
        b"    x%d = torch.add(x%d, x%d)\n" % (i + 1, i, i // 2 if i % 9 == 0 else i)
        if i % 50
        else b"    x%d = torch.add(x%d, torch.ones([8, 12]))\n" % (i + 1, i)
        for i in range(9900)
    )
    return long_model(to, text, b"x9900")


SEEN = """((keys) => { const c = canvas.getBoundingClientRect();
    return scene.nodes.filter((n) => !keys || keys.includes(n.key)).every((n) => {
        const [x, y] = [n.ax * view.k + view.x, n.ay * view.k + view.y];
        return x > -0.5 && y > -0.5 && x + n.w * view.k < c.width + 0.5 && y + n.h * view.k < c.height + 0.5; }); })"""
INPUTS = (
    "whole.block.items.filter((it) => it.kind === 'io' && !it.isEnd).slice(0, 1).map((it) => "
    "it.key)"
)


@pytest.fixture
def resized(window):
    def to(width: int, height: int) -> None:
        window.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    yield to
    window.ask("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize("size", [(400, 800), (1280, 800), (2560, 1440)])
def test_it_opens_at_the_input_on_the_whole_width(
    opened, resized, tmp_path: pathlib.Path, size: tuple[int, int]
) -> None:
    resized(*size)
    for model in (DIGITS, EXPORTED, LIFE, ten_thousand(tmp_path / "long.zip")):
        w = opened(model, ask="method=step")
        assert w.run("canvas.getBoundingClientRect().width") == size[0], (
            "the graph has the whole width"
        )
        assert w.run(f"{SEEN}({INPUTS})") and w.run("view.k >= 0.75"), (
            "the input is there and can be read"
        )
        assert w.run("document.documentElement.scrollWidth <= innerWidth"), "nothing is cut off"
        w.run("document.getElementById('fit').click()")
        w.settle()
        assert w.run(f"{SEEN}()"), "Fit shows everything"
        w.key("Home")
        assert w.run(f"{SEEN}({INPUTS})")


def test_ten_thousand_nodes_are_usable(opened, tmp_path: pathlib.Path) -> None:
    w = opened(ten_thousand(tmp_path / "long.zip"), ask="method=step")
    assert int(w.run("document.documentElement.dataset.nodes")) >= 10000
    assert w.run("+document.documentElement.dataset.drawn") < 100
    alone = (
        "scene.nodes.filter((n) => n.node && !n.up.length && n.down.length && n.title === 'ones')"
    )
    assert w.run(f"{alone}.length") == 198 and w.run(
        f"{alone}.every((n) => n.down[0].layer === n.layer + 1)"
    )
    assert w.run("scene.edges.some((e) => e.e.to === null)")  # long edges have lanes
    w.key("0")
    assert (
        w.run("+document.documentElement.dataset.drawn") >= 10000
        and w.run("document.querySelectorAll('#nodes > .node').length") == 0
    )
    width, height, rows, step = browser.pixels(w.screenshot(0.5))
    strip = {
        rows[y][x * step : x * step + 3] for y in range(60, height - 20, 20) for x in range(width)
    }
    assert len(strip) > 3, "the whole can be seen"
    w.key("/")
    w.ask("Input.insertText", text="zeros_like")
    w.settle()
    w.key("Enter")
    first = w.run("picked")
    assert first and w.run(f"{SEEN}([picked])") and w.run("view.k >= 0.75")
    w.run("document.getElementById('find').value = 'ones'; search()")
    w.key("Enter")
    w.key("Enter")
    assert w.run("document.getElementById('count').textContent") == "2 of 198"
    assert w.run("picked") != first and w.run(f"{SEEN}([picked])")


def test_readers_stand_below_what_wrote(opened, page, tmp_path: pathlib.Path) -> None:
    text = (
        b"    out = annotate(List[Tensor], [])\n    for i in range(3):\n      _9 = "
        b"torch.append(out, x0)\n"
    )
    text += b"    x1 = torch.stack(out)\n"
    w = opened(long_model(tmp_path / "list.zip", text, b"x1"), ask="method=step")
    by = "scene.nodes.concat(scene.boxes).find((n) => n.title === '%s')"
    assert w.run(f"({by % 'stack'}).up.includes({by % 'Loop'})")
    assert w.run(f"({by % 'ListConstruct'}).down.includes({by % 'Loop'})")


def saved(w, kind: str) -> bytes:
    """What a button offers as a download."""
    w.run(
        f"window.got = new Promise((f) => {{ window.save = f; }}); "
        f"document.getElementById('save-{kind}').click()"
    )
    text = w.run("""window.got.then((blob) => new Promise((f) => {
        const r = new FileReader(); r.onload = () => f(r.result.split(',')[1]); r.readAsDataURL(blob); }))""")
    return base64.b64decode(text)


def test_saved_pictures_stand_alone(opened, tmp_path: pathlib.Path) -> None:
    for model in (
        LIFE,
        hostile_script(tmp_path / "evil.zip"),
        hostile_export(tmp_path / "evil2.zip"),
    ):
        w = opened(model, ask="open=all")
        picture = ElementTree.fromstring(saved(w, "svg"))
        tags = {e.tag.removeprefix("{http://www.w3.org/2000/svg}") for e in picture.iter()}
        assert tags <= {"svg", "title", "rect", "defs", "marker", "path", "g", "text", "line"}
        attributes = {(k, v) for e in picture.iter() for k, v in e.items()}
        assert not any(
            k in ("class", "style", "href") or k.startswith("on") or "var(" in v
            for k, v in attributes
        )
        titles = [e.text for e in picture.iter("{http://www.w3.org/2000/svg}text")]
        assert w.run("scene.nodes.filter((n) => n.title.length < 12).map((n) => n.title)") != []
        assert set(
            w.run("scene.nodes.filter((n) => n.title.length < 12).map((n) => n.title)")
        ) <= set(titles)
    opened(DIGITS)
    picture = ElementTree.fromstring(saved(w, "svg"))
    width, height, rows, step = browser.pixels(saved(w, "png"))
    assert abs(width / height - float(picture.get("width")) / float(picture.get("height"))) < 0.02
    assert len({row[x * step : x * step + 3] for row in rows[::7] for x in range(0, width, 7)}) > 4


def test_a_picture_too_large_is_made_smaller_and_says_so(opened, tmp_path: pathlib.Path) -> None:
    w = opened(ten_thousand(tmp_path / "long.zip"), ask="method=step")
    width, height = struct.unpack(">II", saved(w, "png")[16:24])
    assert 0 < width < 16001 and 15000 < height < 16001
    assert "too long for a PNG" in w.run("document.getElementById('note').textContent")


def test_missing_operators_are_marked_and_listed_first(opened, tmp_path: pathlib.Path) -> None:
    def change(name: str, data: bytes) -> bytes:
        return (
            data.replace(b"torch.ops.aten.softmax", b"torch.ops.strange.softmax")
            if name.endswith(".json")
            else data
        )

    w = opened(rezipped(EXPORTED, tmp_path / "strange.zip", change), ask="tab=operators")
    first = w.run("document.querySelector('#operators .card').textContent")
    assert (
        first.startswith("Cannot run here: 1 operator")
        and "strange" in first
        and "plug-in" in first
    )
    assert w.run("scene.nodes.filter((n) => n.missing).length") == 1


def test_a_thousand_nodes_stay_quick(opened, tmp_path: pathlib.Path) -> None:
    """What is out of sight is not in the document."""
    text = b"".join(
        b"    x%d = torch.add(x%d, torch.mul(board, x%d))\n" % (i + 1, i, max(0, i - 7))
        for i in range(600)
    )
    w = opened(long_model(tmp_path / "long.zip", text, b"x600"), ask="method=step&fit")
    assert int(w.run("document.documentElement.dataset.nodes")) >= 1200
    drawn = "+document.documentElement.dataset.drawn"
    all_ = w.run(drawn)
    x, y = centre(w, "#canvas")
    for _ in range(25):
        w.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240)
    w.settle()
    assert w.run(drawn) < 200 < all_
