#!/usr/bin/env python3
"""bench/run.py --build DIR: what Rushlight takes, and what PyTorch takes in the same run where it is there.

Prints a table and writes DIR/bench.json: a list of {"row", "ours", "peer", "peer_name", "ratio", "threads"}, times in
seconds, ratio = peer's time over ours (above 1: we are faster).  `peer` and `ratio` are null without torch.

Both sides run the same archives with the same inputs, each in a process of its own, one after the other in turns; the
cell is the least of the rounds' medians, because on a machine that others use too the least disturbed round says most.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time

import models

TOP = pathlib.Path(__file__).resolve().parent.parent
SECONDS = 0.5


def command_json(command):
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        return None, (run.stderr.strip().splitlines() or ["no message"])[-1]
    return json.loads(run.stdout), ""


def ours(args, path, call, threads):
    return command_json([str(args.build / "cli" / "rushlight"), "bench", str(path), *call, "--json",
                         f"--seconds={args.seconds}", f"--threads={threads}"])


def theirs(args, path, call, threads):
    return command_json([sys.executable, str(TOP / "bench" / "peer.py"), str(path), *call, "--threads", str(threads),
                         "--seconds", str(args.seconds)])


def least(rounds, key):
    values = [r[key] for r in rounds if r]
    return min(values) if values else None


def start_time(command, times=10):
    """Seconds from nothing to the first result, the least of some."""
    best = None
    for _ in range(times):
        begin = time.perf_counter()
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
        took = time.perf_counter() - begin
        best = took if best is None else min(best, took)
    return best


def show(row):
    def cell(seconds):
        if seconds is None:
            return "-"
        for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6)):
            if seconds * scale >= 1:
                return f"{seconds * scale:.3g} {unit}"
        return f"{seconds * 1e9:.3g} ns"
    ratio = f"{row['ratio']:.2f}" if row["ratio"] else "-"
    print(f"{row['row']:<34}{row['threads']:>8}{cell(row['ours']):>12}{cell(row['peer']):>12}{ratio:>8}  {row['note']}",
          flush=True)


def make_row(name, mine, peer, threads, note=""):
    ratio = peer / mine if mine and peer else None
    row = {"row": name, "ours": mine, "peer": peer, "peer_name": "torch.jit, frozen", "ratio": ratio, "threads": threads,
           "note": note}
    show(row)
    return row


def measure(args, name, path, call, threads, torch):
    mine, peer, note = [], [], ""
    for _ in range(args.rounds):
        got, why = ours(args, path, call, threads)
        mine.append(got)
        note = note or why
        if torch:
            peer.append(theirs(args, path, call, threads)[0])
    rows = [make_row(name, least(mine, "median"), least(peer, "median"), threads, note[:100])]
    if threads == args.threads[0]:
        rows.append(make_row(name + ", load", least(mine, "load"), least(peer, "load"), threads))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build")
    parser.add_argument("--threads", type=lambda s: [int(n) for n in s.split(",")], default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--only", help="rows whose name has this in it")
    args = parser.parse_args()
    archives = models.archives(args.build / "bench-models")
    torch = models.has_torch()
    if not torch:
        print("no torch here: no peer, and only the models of tests/data")
    print(f"{'row':<34}{'threads':>8}{'ours':>12}{'peer':>12}{'ratio':>8}")
    rows = []
    if not args.only or args.only in "start":
        path, call = TOP / "tests" / "data" / "digits.pt", ["zeros(1,1,8,8)"]
        mine = start_time([str(args.build / "cli" / "rushlight"), "run", str(path), *call])
        peer = start_time([sys.executable, str(TOP / "bench" / "peer.py"), str(path), *call, "--once"], 3) if torch else None
        rows.append(make_row("process start to result", mine, peer, 1))
    for name, path, call in archives:
        if args.only and args.only not in name:
            continue
        for threads in args.threads:
            rows += measure(args, name, path, call, threads, torch)
    out = args.build / "bench.json"
    out.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"written: {out}")


if __name__ == "__main__":
    main()
