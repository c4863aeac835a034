"""Seeing: `rushlight profile`, shares in `bench`, `rushlight.profiler`."""

from __future__ import annotations

import json
import pathlib

import pytest
from conftest import DATA

DIGITS, LIFE = str(DATA / "digits.pt"), str(DATA / "life.pt")


def test_profile_tables(run) -> None:
    out = run("profile", LIFE, "generations=4", "--calls=3").stdout
    assert (
        out.startswith("3 calls, ") and "....\n" not in out
    )  # what the program prints is not shown
    assert "aten::roll " in out and "torch.roll(board" in out
    assert "\nLife.forward" in out and "\n  Life.step " in out
    assert all(len(line) <= 100 for line in out.splitlines())


def test_profile_as_json(run) -> None:
    got = json.loads(
        run("profile", LIFE, "generations=4", "--calls=3", "--warmup=0", "--json").stdout
    )
    assert got["calls"] == 3 and got["dropped"] == 0 and got["seconds"] > 0
    rolls = next(row for row in got["operators"] if row["name"] == "aten::roll")
    assert rolls["calls"] == 3 * 4 * 8 and 0 < rolls["self"] <= rolls["total"] < got["seconds"]
    assert sum(row["share"] for row in got["operators"]) < 1
    line = next(row for row in got["lines"] if row["code"].startswith("_8 = torch.roll("))
    assert line["calls"] == rolls["calls"] and line["self"] == pytest.approx(
        rolls["self"], rel=1e-6
    )
    methods = [row["name"].rsplit(".", 2)[1:] for row in got["methods"]]
    assert methods == [["Life", "forward"], ["Life", "step"]]
    assert got["methods"][1]["parent"] == 0 and got["methods"][1]["calls"] == 12
    assert got["methods"][1]["total"] < got["methods"][0]["total"] <= got["seconds"]


def test_trace_opens_in_perfetto(run, tmp_path: pathlib.Path) -> None:
    """Complete events, with times in microseconds, that nest on their thread."""
    path = tmp_path / "trace.json"
    assert (
        str(path) in run("profile", DIGITS, "zeros(1,1,8,8)", "--calls=2", "-o", str(path)).stdout
    )
    events = json.loads(path.read_text())["traceEvents"]
    assert {e["name"] for e in events if e["ph"] == "M"} == {"process_name", "thread_name"}
    done = [e for e in events if e["ph"] == "X"]
    outer = [e for e in done if e["name"].endswith(".forward")]
    assert len(outer) == 2 and len(done) == len([e for e in events if e["ph"] != "M"])
    for e in done:
        assert any(
            o["ts"] <= e["ts"] and e["ts"] + e["dur"] <= o["ts"] + o["dur"] + 0.002 for o in outer
        ), e
    conv = next(e for e in done if e["name"] == "aten::conv2d")
    assert conv["args"]["inputs"].startswith("float32[1, 1, 8, 8]") and conv["args"]["line"] > 0
    assert (
        "cannot write"
        in run("profile", DIGITS, "zeros(1,1,8,8)", "-o", str(tmp_path / "no" / "t"), code=3).stderr
    )


def test_profile_of_what_fails(run) -> None:
    assert "channels" in run("profile", DIGITS, "zeros(1,3,8,8)", code=4).stderr
    for args in (
        ["profile"],
        ["profile", DIGITS, "--calls=0"],
        ["profile", DIGITS, "--warmup=x"],
        ["profile", DIGITS, "--no"],
    ):
        assert "--help" in run(*args, code=2).stderr


def test_bench_tells_shares(run) -> None:
    got = json.loads(run("bench", DIGITS, "zeros(1,1,8,8)", "--seconds=0.05", "--json").stdout)[
        "operators"
    ]
    assert {"aten::conv2d", "aten::linear"} <= {row["name"] for row in got}
    assert got == sorted(got, key=lambda row: -row["self"])
    assert "aten::conv2d" in run("bench", DIGITS, "zeros(1,1,8,8)", "--seconds=0.05").stdout


def test_profiler_of_the_module(tmp_path: pathlib.Path) -> None:
    import rushlight

    life = rushlight.load(LIFE)
    with rushlight.profiler.profile() as prof:
        life(2)
    life(3)  # not recorded
    events = prof.events()
    assert events[0].name == "__torch__.Life.forward" and events[0].depth == 0 and prof.dropped == 0
    rows = {row.key: row for row in prof.key_averages()}
    assert rows["aten::roll"].count == 16 and rows["__torch__.Life.step"].count == 2
    assert sum(row.self_total for row in rows.values()) == pytest.approx(events[0].seconds)
    by_line = prof.key_averages(lambda e: f"{e.line}" if e.kind == "operator" else "")
    assert sum(row.count for row in by_line) == sum(e.kind == "operator" for e in events)
    assert "aten::roll" in prof.key_averages().table()
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert len([e for e in trace if e["ph"] == "X"]) == len(events)
    with rushlight.profiler.profile(max_events=5) as prof:
        life(2)
    assert len(prof.events()) == 5 and prof.dropped == len(events) - 5
    with pytest.raises(ValueError):
        rushlight.profiler.profile(max_events=2**40).start()
