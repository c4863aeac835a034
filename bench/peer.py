#!/usr/bin/env python3
"""peer.py MODEL [ARG...]: the same as `rushlight bench MODEL ARG... --json`, by PyTorch."""
import argparse
import json
import statistics
import time

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("args", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    names = {n: getattr(torch, n) for n in ("zeros", "ones", "randn", "rand", "full", "randint", "arange", "int64")}
    args = [eval(text, {"__builtins__": {}}, names) for text in options.args]  # our own rows' texts
    begin = time.perf_counter()
    model = torch.jit.load(options.model)
    load = time.perf_counter() - begin
    with torch.inference_mode():
        model(*args)
        if options.once:
            return
        if hasattr(model, "training"):  # else it was frozen when saved
            model = torch.jit.freeze(model)
        for _ in range(5):  # the profiling executor specialises in these
            model(*args)
        samples, end = [], time.perf_counter() + options.seconds
        while time.perf_counter() < end or len(samples) < 5:
            begin = time.perf_counter()
            model(*args)
            samples.append(time.perf_counter() - begin)
    print(json.dumps({"load": load, "median": statistics.median(samples), "min": min(samples), "calls": len(samples)}))


if __name__ == "__main__":
    main()
