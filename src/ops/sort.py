"""Sorting and picking by order (sort.c), running sums and extremes (scan.c)."""


def sort(name, kernel, **variants):
    op(f"aten::{name}", family="sort", kernel=f"kernel_{kernel}", variants={k: f"aten::{v}" for k, v in variants.items()})


sort("sort", "sort", out="sort.values")
sort("sort.stable", "sort_stable", out="sort.values_stable")
sort("argsort", "argsort")
sort("argsort.stable", "argsort_stable", out="argsort.stable_out")
sort("msort", "msort", out="msort.out")
sort("topk", "topk", out="topk.values")
sort("kthvalue", "kthvalue", out="kthvalue.values")
sort("mode", "mode", out="mode.values")
for name in ("median", "nanmedian"):
    sort(name, name, out=f"{name}.out")
    sort(f"{name}.dim", f"{name}_dim", out=f"{name}.dim_values")

for name in ("cumsum", "cumprod"):
    op(f"aten::{name}", family="scan", kernel=f"kernel_{name}", variants={"out": f"aten::{name}.out"})
    op(f"aten::{name}_", family="scan", kernel=f"kernel_{name}_inplace")
for name in ("cummax", "cummin"):
    op(f"aten::{name}", family="scan", kernel=f"kernel_{name}", variants={"out": f"aten::{name}.out"})
op("aten::logcumsumexp", family="scan", kernel="kernel_logcumsumexp", variants={"out": "aten::logcumsumexp.out"})
op("aten::_logcumsumexp", family="scan", kernel="kernel_logcumsumexp", variants={"out": "aten::_logcumsumexp.out"})
