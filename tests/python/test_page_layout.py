"""The layout of `show --html`'s page (cli/html/layout.js), which uses no document: run
where Node is installed."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess

import pytest

LAYOUT = pathlib.Path(__file__).parents[2] / "cli" / "html" / "layout.js"

# Graphs are lists of the inputs of each item; item 0 is the input.  Prints where everything was
# placed.
DRIVER = """
const fs = require("fs");
const { layoutBlock } = new Function(fs.readFileSync(process.argv[1], "utf8") + "; return { layoutBlock };")();
const out = JSON.parse(fs.readFileSync(0, "utf8")).map((graph) => {
  const items = graph.map((_, i) => ({ kind: i ? "op" : "io", w: 60 + (i * 37) % 90, h: i % 13 ? (i % 3 ? 30 : 44) : 400 }));
  const edges = graph.flatMap((ins, i) => ins.map((j) => ({ from: items[j], to: items[i] })));
  const b = { items, edges };
  layoutBlock(b, () => {});
  return { w: b.w, h: b.h, items: items.map((it) => [it.x, it.y, it.w, it.h, it.layer]),
    edges: edges.map((e) => ({ ends: [items.indexOf(e.from), items.indexOf(e.to)], lane: Boolean(e.lane), points: e.points })),
    trunks: b.trunks.map((t) => ({ from: items.indexOf(t.from), points: t.points })) };
});
process.stdout.write(JSON.stringify(out));
"""


def laid_out(*graphs: list[list[int]]) -> list[dict]:
    node = shutil.which("node") or pytest.skip(
        "Node is not installed: the layout of the page is not tested without a browser"
    )
    done = subprocess.run(
        [node, "-e", DRIVER, str(LAYOUT)],
        input=json.dumps(graphs),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def chain(n: int) -> list[list[int]]:
    return [[], *([i] for i in range(n - 1))]


def scattered(n: int, seed: int) -> list[list[int]]:
    """Each item uses the one before it and, often, one from anywhere above; some use nothing."""
    graph: list[list[int]] = [[]]
    for i in range(1, n):
        seed = (seed * 1103515245 + 12345) % (1 << 31)
        far = seed % i
        kind = (seed >> 8) % 10
        graph.append(
            [] if kind == 0 else sorted({max(0, i - 1 - kind % 3), far} if kind < 6 else {i - 1})
        )
    return graph


def segments(points: list[list]) -> list[tuple]:
    return [(a[0], a[1], b[0], b[1]) for a, b in zip(points, points[1:], strict=False)]


def through(segment: tuple, box: list) -> bool:
    """A straight horizontal or vertical segment enters the box by more than a pixel."""
    (x0, y0, x1, y1), (x, y, w, h) = segment, box[:4]
    low, high, left, right = min(y0, y1), max(y0, y1), min(x0, x1), max(x0, x1)
    return right > x + 1 and left < x + w - 1 and high > y + 1 and low < y + h - 1


@pytest.mark.parametrize("seed", range(6))
def test_nothing_overlaps_and_edges_lead_down(seed: int) -> None:
    (got,) = laid_out(scattered(120, seed))
    boxes = got["items"]
    for i, (x, y, w, h, _) in enumerate(boxes):
        assert x >= -0.01 and y >= -0.01 and x + w <= got["w"] + 0.01 and y + h <= got["h"] + 0.01
        for p, q, r, s, _ in boxes[:i]:
            assert x + w <= p or p + r <= x or y + h <= q or q + s <= y, "two items overlap"
    for e in got["edges"]:
        (a, b), points = e["ends"], e["points"]
        assert boxes[a][1] + boxes[a][3] <= boxes[b][1], "an edge leads up"
        assert points[-1][:2] == [boxes[b][0] + boxes[b][2] / 2, boxes[b][1]]


@pytest.mark.parametrize("seed", range(4))
def test_lanes_pass_beside_all_items(seed: int) -> None:
    (got,) = laid_out(scattered(400, seed + 50))
    lanes = [e for e in got["edges"] if e["lane"]]
    assert lanes and {e["ends"][0] for e in lanes} == {t["from"] for t in got["trunks"]}
    for route in [*got["trunks"], *lanes]:
        for s in segments(route["points"]):
            assert s[0] == s[2] or s[1] == s[3], "a lane has right angles"
            assert not any(through(s, box) for box in got["items"]), "a lane runs through an item"
    trunks = {t["from"]: t["points"] for t in got["trunks"]}
    for e in lanes:  # a branch leaves its trunk where that is
        (x, y, _), trunk = e["points"][0], trunks[e["ends"][0]]
        assert x == trunk[-1][0] and trunk[-2][1] - 8 <= y <= trunk[-1][1] + 0.01


def drawn(points: list[list]) -> list[tuple[float, float]]:
    """Places along an edge, at most some pixels apart: its curves as the page draws them."""
    out: list[tuple[float, float]] = []
    for (ax, ay, _), (bx, by, is_straight) in zip(points, points[1:], strict=False):
        for t in (i / 60 for i in range(61)):
            s = (
                t if is_straight else 3 * t * t - 2 * t**3
            )  # x of a curve whose handles are at the half of its height
            y = ay + (by - ay) * (t if is_straight else 1.5 * t - 1.5 * t * t + t**3)
            out.append((ax + (bx - ax) * s, y))
    return out


@pytest.mark.parametrize("seed", range(6))
def test_edges_pass_beside_all_items(seed: int) -> None:
    (got,) = laid_out(scattered(60, seed + 20))
    for e in got["edges"]:
        for x, y in drawn(e["points"]):
            for i, (left, top, w, h, _) in enumerate(got["items"]):
                inside = left + 1 < x < left + w - 1 and top + 1 < y < top + h - 1
                assert not inside, f"an edge from {e['ends'][0]} to {e['ends'][1]} runs through {i}"


def test_items_without_inputs_stand_above_their_consumer() -> None:
    graph = chain(40)
    graph.append(
        []
    )  # 40: a constant, then a chain of two without an input, then what uses both late
    graph.append([])
    graph.append([41])
    graph.append([39, 40, 42])
    (got,) = laid_out(graph)
    layers = [item[4] for item in got["items"]]
    assert layers[43] == 40 and layers[40] == layers[42] == 39 and layers[41] == 38


def test_a_chain_is_straight_and_ten_thousand_long() -> None:
    short, long = laid_out(
        chain(50), [[], *([i, max(0, i - 40)] if i % 10 == 9 else [i] for i in range(9999))]
    )
    centres = {round(x + w / 2, 3) for x, _, w, _, _ in short["items"]}
    assert len(centres) == 1
    assert len(long["items"]) == 10000 and len({item[4] for item in long["items"]}) == 10000
    centres = [x + w / 2 for x, _, w, _, _ in long["items"]]
    assert max(centres) - min(centres) < 400  # it does not walk sideways
    assert long["w"] < 1000


def test_edges_of_one_item_share_a_trunk() -> None:
    (got,) = laid_out([*chain(12), [0, 11], [0, 12], [0, 13]])
    via = [
        {(x, y) for x, y, _ in e["points"]}
        for e in got["edges"]
        if e["ends"][0] == 0 and e["ends"][1] >= 12
    ]
    assert len(via) == 3 and len(via[0] & via[1] & via[2]) >= 20


def test_a_wide_fan_uses_one_line() -> None:
    n = 200
    (got,) = laid_out([[], *([0] for _ in range(n)), list(range(1, n + 1))])
    lines = {p[1] for e in got["edges"] if e["ends"][0] == 0 for p in e["points"][1:-1]}
    assert len(lines) == 1
