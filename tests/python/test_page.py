"""The page of `show --html`: that it needs nothing else and lets nothing of an archive act; and, in a browser, how it looks
and moves (nightly, where one is installed)."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pathlib
import re
import subprocess
import zipfile

import browser
import pytest
from conftest import DATA

DIGITS, LIFE, EXPORTED = str(DATA / "digits.pt"), str(DATA / "life.pt"), str(DATA / "digits.pt2")
EVIL = "</script><img src=x onerror=document.title=1>"
MOST_BYTES = 60 * 1024  # of the page without its data


@pytest.fixture
def page(command: str, tmp_path: pathlib.Path):
    def make(model: str, *more: str) -> pathlib.Path:
        path = tmp_path / (pathlib.Path(model).name + ".html")
        done = subprocess.run(
            [command, "show", model, "--html", "-o", str(path), *more], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0 and done.stdout == "", done.stderr
        return path

    return make


def split(path: pathlib.Path) -> tuple[str, dict]:
    """The page without its data, and the data."""
    parts = re.fullmatch(r'(.*<script id="data" type="application/json">)(.*?)(</script>.*)', path.read_text(), re.S)
    return parts[1] + parts[3], json.loads(parts[2])


def functions_of(data: dict) -> dict:
    return {f["name"]: f for f in data["program"]["functions"]}


# -- Without a browser -----------------------------------------------------------------------------------------------


def test_page_needs_nothing_else(page) -> None:
    text, _ = split(page(DIGITS))
    assert len(text.encode()) <= MOST_BYTES
    assert not re.search(r"""(src|href)\s*=|@import|url\((?!#)|fetch\(|XMLHttp|WebSocket|innerHTML|eval\(""", text)
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not a place


def test_policy_lets_only_this_script_run(page) -> None:
    text, _ = split(page(DIGITS))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    script = re.findall(r"<script>(.*?)</script>", text, re.S)
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert len(script) == 1 and f"script-src 'sha256-{digest}'" in policy and policy.startswith("default-src 'none'")


def test_data_of_a_program(page) -> None:
    _, data = split(page(LIFE))
    assert data["file"] == "life.pt" and data["profile"] is None and data["program"]["format"] == "TorchScript"
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
        if "op" in n:  # every operator stands in the line that it names
            line = program["sources"][0]["text"].splitlines()[n["at"][1] - 1]
            assert program["ops"][n["op"]]["name"].replace("::", ".") in line
    weight = next(w for w in data["weights"] if w["name"] == "conv.weight")
    assert weight["min"] < weight["mean"] < weight["max"] and sum(weight["bins"]) == 36


def test_measured_nodes_are_nodes_of_the_graph(page) -> None:
    _, data = split(page(LIFE, "--profile", "generations=4"))
    profile, functions = data["profile"], functions_of(data)

    def nodes(block: dict) -> list:
        return [m for n in block["nodes"] for m in (n, *(x for b in n.get("blocks", []) for x in nodes(b)))]

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
            data = data.replace(b'"#"', json.dumps(EVIL).encode()) + f"# {EVIL} <!-- <script>\n".encode()
        return data

    return rezipped(LIFE, to, change)


def hostile_export(to: pathlib.Path) -> str:
    def change(name: str, data: bytes) -> bytes:
        if name.endswith(".json"):
            data = data.replace(b"conv.weight", EVIL.encode()).replace(b'"conv2d"', json.dumps(EVIL).encode())
        return data

    return rezipped(EXPORTED, to, change)


@pytest.mark.parametrize("make", [hostile_script, hostile_export])
def test_names_and_texts_of_archives_stay_data(page, tmp_path: pathlib.Path, make) -> None:
    path = page(make(tmp_path / f"{EVIL[10:14]}.zip"))
    text, data = split(path)
    assert EVIL in json.dumps(data) and EVIL not in path.read_text() and "<img" not in path.read_text()
    assert path.read_text().count("<script") == 2 and path.read_text().count("</script") == 2


def test_usage(command: str, tmp_path: pathlib.Path) -> None:
    for args in ([DIGITS, "--profile"], [DIGITS, "-o", "x"], [DIGITS, "--html", "zeros(1)"], ["--html"]):
        assert subprocess.run([command, "show", *args], capture_output=True).returncode == 2, args
    lost = subprocess.run([command, "show", DIGITS, "--html", "-o", str(tmp_path / "no" / "x")], capture_output=True, text=True)
    assert lost.returncode == 3 and "cannot write" in lost.stderr
    out = subprocess.run([command, "show", DIGITS, "--html"], capture_output=True, text=True)
    assert out.returncode == 0 and out.stdout.startswith("<!DOCTYPE html>") and out.stdout.endswith("</html>\n")


# -- In a browser ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory):
    if not os.environ.get("RUSHLIGHT_NIGHTLY"):
        pytest.skip("RUSHLIGHT_NIGHTLY=1 runs it")
    path = browser.find() or pytest.skip("no browser is installed (chromium, or RUSHLIGHT_BROWSER)")
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
    """How many nodes a block is drawn as with all boxes open, by the page's rules told once more."""
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
        elif n.get("kind") != "prim::ListConstruct" or function["values"][n["out"][0]][1] != "int[]":
            inner += 1
    return inner


def test_every_node_is_drawn(opened, page) -> None:
    for model in (DIGITS, EXPORTED, LIFE):
        w = opened(model, ask="open=all&fit")
        data = split(page(model))[1]
        forward = data["program"]["functions"][data["program"]["methods"][0]["function"]]
        assert w.run("document.querySelectorAll('#nodes > .node:not(.io)').length") == drawn_nodes(data, forward, forward), (
            model
        )
        counts = w.run("[dataset.nodes, dataset.drawn]".replace("dataset", "document.documentElement.dataset"))
        assert counts[0] == counts[1] == str(w.run("document.querySelectorAll('#nodes > .node').length"))
        assert w.run("""[...document.querySelectorAll('#nodes > .node')].every((a, i, all) => all.every((b) => {
            const [p, q] = [a.getBoundingClientRect(), b.getBoundingClientRect()];
            return a === b || p.right <= q.left + 1 || q.right <= p.left + 1 || p.bottom <= q.top + 1 || q.bottom <= p.top + 1;
        }))"""), f"{model}: nodes overlap"


@pytest.mark.parametrize("ask", ["", "tab=weights", "tab=operators"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page_is_not_blank(opened, theme: str, ask: str) -> None:
    w = opened(EXPORTED, "--profile", "rand(1,1,8,8)", ask=ask)
    w.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    w.settle()
    width, height, rows, step = browser.pixels(w.screenshot())
    w.ask("Emulation.setEmulatedMedia", features=[])
    counts: dict[bytes, int] = {}
    for row in rows[60::2]:  # below the header
        for x in range(0, width, 2):
            pixel = row[x * step : x * step + 3]
            counts[pixel] = counts.get(pixel, 0) + 1
    common = max(counts, key=counts.get)
    assert width >= 1000 and height >= 600 and len(counts) > 40
    assert sum(common) > 600 if theme == "light" else sum(common) < 150
    assert counts[common] < 0.97 * sum(counts.values())


def centre(w, selector: str) -> tuple[float, float]:
    x, y, width, height = w.run(
        f"(r => [r.x, r.y, r.width, r.height])(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
    )
    return x + width / 2, y + height / 2


def test_wheel_zooms_and_drag_moves(opened) -> None:
    w = opened(DIGITS)
    scale = "+document.getElementById('world').getAttribute('transform').match(/scale\\((.*)\\)/)[1]"
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
    line = w.run("[...document.querySelectorAll('#source .row')].findIndex(r => r.textContent.includes('softmax'))")
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
        assert w.run("document.body.textContent.includes('<img src=x')")


def test_a_thousand_nodes_stay_quick(opened, tmp_path: pathlib.Path) -> None:
    """life.pt with a longer method: laid out and moved within a frame or two on a slow machine."""
    body = b"".join(b"    x%d = torch.add(x%d, torch.mul(board, x%d))\n" % (i + 1, i, max(0, i - 7)) for i in range(1000))

    def change(name: str, data: bytes) -> bytes:
        if name.endswith("__torch__.py"):
            start = data.index(b"    near = torch.zeros_like(board)\n")
            data = data[:start] + b"    x0 = torch.zeros_like(board)\n" + body + b"    return x1000\n"
        return data

    w = opened(rezipped(LIFE, tmp_path / "long.zip", change), ask="method=step&fit")
    assert int(w.run("document.documentElement.dataset.nodes")) >= 2000
    assert w.run("(() => { const t = performance.now(); rebuild(); draw(); return performance.now() - t; })()") < 3000
    drawn = "+document.documentElement.dataset.drawn"
    all_ = w.run(drawn)
    x, y = centre(w, "#canvas")
    for _ in range(25):
        w.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240)
    w.settle()
    assert w.run(drawn) < 200 < all_  # what is out of sight is not in the document
