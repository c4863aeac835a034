"""Sorting and selection by order (sort.c), running sums and extremes (scan.c)."""


def sort(name, kernel, shape, **variants):
    op(f"aten::{name}", family="sort", results="rule", shape=shape, kernel=f"kernel_{kernel}",
       variants={k: f"aten::{v}" for k, v in variants.items()})


sort("sort", "sort", "sort", out="sort.values")
sort("sort.stable", "sort_stable", "sort", out="sort.values_stable")
sort("argsort", "argsort", "sort_indices")
sort("argsort.stable", "argsort_stable", "sort_indices", out="argsort.stable_out")
sort("msort", "msort", "sort_values", out="msort.out")
sort("topk", "topk", "topk", out="topk.values")
sort("kthvalue", "kthvalue", "choose", out="kthvalue.values")
sort("mode", "mode", "choose", out="mode.values")
for name in ("median", "nanmedian"):
    sort(name, name, "reduce", out=f"{name}.out")
    sort(f"{name}.dim", f"{name}_dim", "choose", out=f"{name}.dim_values")

for name in ("cumsum", "cumprod"):
    op(f"aten::{name}", family="scan", results="rule", shape="scan_sum", kernel=f"kernel_{name}",
       variants={"out": f"aten::{name}.out"})
    op(f"aten::{name}_", family="scan", shape="itself", kernel=f"kernel_{name}_inplace")
for name in ("cummax", "cummin"):
    op(f"aten::{name}", family="scan", results="rule", shape="scan_index", kernel=f"kernel_{name}",
       variants={"out": f"aten::{name}.out"})
op("aten::logcumsumexp", family="scan", results="rule", shape="scan_float",
   kernel="kernel_logcumsumexp", variants={"out": "aten::logcumsumexp.out"})
op("aten::_logcumsumexp", family="scan", results="rule", shape="scan_float",
   kernel="kernel_logcumsumexp", variants={"out": "aten::_logcumsumexp.out"})

# Facts about these operators that other parts read.
known("cumprod.* cumsum.*", script_autocast="float32")

# What in-place and out= forms demand of what they write to (../README.md).
written("dtype", "cumprod", "cumsum")
