"""Some hundreds of exported programs that are changed at random (mutated_exports.py): refused with
a message, or taken whole.  `make nightly` runs 20,000, under sanitizers."""

from __future__ import annotations

import os
import pathlib

import mutated_exports

REPLAY = pathlib.Path(os.environ["RUSH_BUILD_DIR"]) / "fuzz" / "replay"
COUNT = 400


def test_mutants_do_no_harm() -> None:
    findings, census = mutated_exports.run_many(str(REPLAY), 1, COUNT, 2)
    print(mutated_exports.table(census))
    assert not findings, "\n".join(findings)
    assert census["all", "taken"] + census["all", "refused"] == COUNT
    assert census["all", "taken"] >= 0.1 * COUNT, "some are nearly right"


def test_a_seed_says_the_whole_mutant() -> None:
    assert mutated_exports.mutant(7) == mutated_exports.mutant(7)
    assert len({str(mutated_exports.mutant(seed)[1]) for seed in range(50)}) == 50


def test_what_is_found(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    mutated_exports.save(1, mutated_exports.PROGRAMS, folder / "1.pt2")
    crashes = tmp_path / "crashes"
    crashes.write_text("#!/bin/sh\necho 'x.c:1: runtime error: null' >&2\n")
    crashes.chmod(0o755)
    assert "runtime error" in mutated_exports.replay(str(crashes), folder)[0]
    findings, _ = mutated_exports.run_batch(str(crashes), range(1, 3), mutated_exports.PROGRAMS)
    assert len(findings) == 2 and "seed 1" in findings[0]
