"""Reductions (reduction.c over reduce.c)."""


# Shape rules by kernel.
SHAPES = {"sum": "reduce_sum", "nansum": "reduce_sum", "prod": "reduce_sum", "mean": "reduce_mean",
          "count_nonzero": "reduce_count",
          "all": "reduce_truth", "any": "reduce_truth", "argmax": "reduce_place",
          "argmin": "reduce_place", "amax": "reduce_extreme", "amin": "reduce_extreme",
          "max": "reduce_extreme", "min": "reduce_extreme",
          "max_dim": "reduce_index", "min_dim": "reduce_index", "aminmax": "reduce_two",
          "var": "reduce_spread", "std": "reduce_spread", "var_mean": "reduce_variance",
          "std_mean": "reduce_variance",
          "logsumexp": "reduce_float", "norm": "reduce_norm", "frobenius_norm": "reduce_norm"}


def reduction(name, kernel, effects=(), **variants):
    op(f"aten::{name}", family="reduction", kernel=f"kernel_reduce_{kernel}", results="rule",
       shape=SHAPES[kernel], effects=list(effects),
       variants={"out": [f"aten::{v}" for v in variants["out"]]} if variants.get("out") else {})


reduction("sum", "sum", out=["sum.out"])
reduction("sum.dim_IntList", "sum", out=["sum.IntList_out"])
reduction("nansum", "nansum", out=["nansum.out"])
reduction("mean", "mean", out=["mean.dtype_out"])
reduction("mean.dim", "mean", out=["mean.out"], effects=["quantized_scales"])
reduction("prod", "prod", out=["prod.out"])
reduction("prod.dim_int", "prod", out=["prod.int_out"])
op("aten::nanmean", family="reduction", shape="reduce_mean", variants={"out": "aten::nanmean.out"},
   body="""
def nanmean(self: Tensor, dim: Optional[List[int]], keepdim: bool, dtype: Optional[int]) -> Tensor:
    if not (self.is_floating_point() or self.is_complex()):
        raise RuntimeError("nanmean(): expected input to have floating point or complex dtype")
    return torch.nansum(self, dim, keepdim, dtype=dtype) / torch.sum(self == self, dim, keepdim)
""")
op("aten::sum_to_size", family="reduction", results="rule", kernel="kernel_reduce_sum_to_size",
   shape="sum_to_size", effects=["returns_arg"])
reduction("count_nonzero", "count_nonzero", out=["count_nonzero.out"])
reduction("count_nonzero.dim_IntList", "count_nonzero", out=["count_nonzero.dim_IntList_out"])

for name in ("all", "any"):
    reduction(name, name, out=[f"{name}.all_out"])
    reduction(f"{name}.dim", name, out=[f"{name}.out"])
    reduction(f"{name}.dims", name, out=[f"{name}.dims_out"])
reduction("_is_all_true", "all")
reduction("_is_any_true", "any")

for name in ("max", "min"):
    reduction(name, name, out=[f"{name}.unary_out"])
    reduction(f"{name}.dim", f"{name}_dim", out=[f"{name}.dim_{name}"])
    reduction(f"a{name}", f"a{name}", out=[f"a{name}.out"])
    reduction(f"arg{name}", f"arg{name}", out=[f"arg{name}.out"])
reduction("aminmax", "aminmax", out=["aminmax.out"])
reduction("_aminmax", "aminmax", out=["_aminmax.out"])
reduction("_aminmax.dim", "aminmax", out=["_aminmax.dim_out"])

for name in ("var", "std"):
    reduction(name, name)
    reduction(f"{name}.dim", name, out=[f"{name}.out"])
    reduction(f"{name}.correction", name, out=[f"{name}.correction_out"])
    reduction(f"{name}_mean", f"{name}_mean")
    reduction(f"{name}_mean.dim", f"{name}_mean")
    reduction(f"{name}_mean.correction", f"{name}_mean", out=[f"{name}_mean.correction_out"])

for name in ("logsumexp", "special_logsumexp"):
    op(f"aten::{name}", family="reduction", shape="reduce_float", results="rule",
       kernel="kernel_reduce_logsumexp", effects=["complex_body"],
       variants={"out": f"aten::{name}.out"}, body="""
def logsumexp(self: Tensor, dim: List[int], keepdim: bool) -> Tensor:
    if self.numel() == 0:
        return torch.log(torch.sum(torch.exp(self), dim, keepdim))
    most = torch.amax(torch.real(self), dim, True)
    most = torch.where(torch.isinf(most), torch.zeros_like(most), most)
    sums = torch.log(torch.sum(torch.exp(self - most), dim, keepdim))
    return sums + most if keepdim or self.dim() == 0 else sums + torch.amax(most, dim, False)
""")

reduction("norm.Scalar", "norm", out=["norm.Scalar_out"])
reduction("norm.ScalarOpt_dim", "norm", out=["norm.out"])
reduction("norm.ScalarOpt_dim_dtype", "norm", out=["norm.dtype_out"])
reduction("norm.ScalarOpt_dtype", "norm", out=["norm.ScalarOpt_dtype_out"])
reduction("linalg_vector_norm", "norm", out=["linalg_vector_norm.out"])
reduction("frobenius_norm.dim", "frobenius_norm", out=["frobenius_norm.out"])
op("aten::segment_reduce", family="reduction", body="""
def segment_reduce(data: Tensor, reduce: str, lengths: Optional[Tensor], indices: Optional[Tensor],
                   offsets: Optional[Tensor], axis: int, unsafe: bool,
                   initial: Optional[number]) -> Tensor:
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    n = data.size(axis)
    if lengths is not None:
        counts = lengths.to(torch.long)
    elif offsets is not None:
        counts = torch.diff(offsets.to(torch.long))
    else:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if counts.dim() - 1 != axis % data.dim():
        raise RuntimeError("segment_reduce(): Expected axis to be the last dimension of lengths "
                           "but got " + str(axis) + ".")
    if not unsafe:
        if counts.numel() > 0 and bool((counts < 0).any()):
            raise RuntimeError("lengths contains negative value!")
        if bool((counts.sum(-1) != n).any()):
            raise RuntimeError("segment_reduce(): Expected all rows of lengths along axis to sum "
                               "to data.size(lengths.dim()-1) when !unsafe.")
    starts = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}
    if reduce not in starts:
        raise RuntimeError("segment_reduce(): reduction " + reduce +
                           " is not one of sum, mean, max, min, prod")
    start = starts[reduce] if initial is None else float(initial)
    dim = counts.dim() - 1
    n_segments = counts.size(-1)
    sizes = data.size()
    tail = sizes[dim + 1:]
    rows = 1
    for s in sizes[:dim]:
        rows *= s
    ends = counts.reshape([rows, n_segments]).cumsum(1)
    place = torch.searchsorted(ends, torch.arange(n).expand([rows, n]).contiguous(), right=True)
    flat = data.reshape([rows, n, -1])
    result = torch.full([rows, n_segments + 1, flat.size(2)], start, dtype=data.dtype)
    kinds = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}
    result = result.scatter_reduce(1, place.unsqueeze(2).expand([rows, n, flat.size(2)]), flat,
                                   kinds[reduce])
    result = result.narrow(1, 0, n_segments).reshape(sizes[:dim] + [n_segments] + tail)
    if reduce == "mean":
        divisor = counts.reshape(sizes[:dim] + [n_segments] + [1] * len(tail))
        result = torch.where(divisor == 0,
                             torch.full_like(result,
                                             float("nan")) if initial is None else result,
                                             result / divisor.clamp(min=1))
    return result
""", variants={"out": "aten::segment_reduce.out"})
op("aten::hash_tensor", family="reduction", shape="reduce_hash",
   variants={"out": "aten::hash_tensor.out"}, body="""
def hash_tensor(self: Tensor, dim: List[int], keepdim: bool, mode: int) -> Tensor:
    if mode != 0:
        raise RuntimeError("Unknown hash_tensor mode: " + str(mode))
    if self.numel() == 0 and len(dim) == 0:
        raise RuntimeError("hash_tensor: Expected reduction dim to be specified for input.numel() "
                           "== 0. Specify the reduction dim with the 'dim' argument.")
    bits = (self.to(torch.double).view(dtype=torch.long) if self.is_floating_point() else
            self.to(torch.long))
    if self.dim() == 0:
        return bits.view(dtype=torch.uint64).clone()
    dims = [d % self.dim() for d in dim] if len(dim) > 0 else list(range(self.dim()))
    for d in dims:
        n = bits.size(d)
        if n == 0:
            sizes = bits.size()
            sizes[d] = 1
            bits = torch.zeros(sizes, dtype=torch.long)
        while n > 1:
            half = n // 2
            folded = bits.narrow(d, 0, half) ^ bits.narrow(d, n - half, half)
            bits = folded if 2 * half == n else torch.cat([folded, bits.narrow(d, half, 1)], d)
            n -= half
    if not keepdim:
        bits = torch.squeeze(bits, dims)
    return bits.view(dtype=torch.uint64).clone()
""")

# Facts about these operators that other parts read.
known("special_logsumexp", synonym_of="logsumexp")
known("prod prod.dim_int", autocast="float32")
known("frobenius_norm.dim logsumexp.* prod.* sum.*", script_autocast="float32")

# What in-place and out= forms demand of what they write to (../README.md).
written("cast", "logsumexp", "max.unary_out", "mean", "min.unary_out", "nanmean", "std", "var")
written("dtype", "nansum", "prod", "sum")
written("overlap", "logsumexp", "std", "var")
