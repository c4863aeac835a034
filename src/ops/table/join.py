"""Operators that join, repeat, rotate or pad tensors."""


def join(name, kernel=None, out=None, shape=None, results="rule", **more):
    """The shape rule has the operator's name unless it is told."""
    op(f"aten::{name}", family="join", kernel=kernel or "kernel_" + name.split(".")[0],
       shape=shape or name, **({"results": results} if results else {}),
       **({"variants": {"out": f"aten::{out}"}} if out else {}), **more)


for name in ("cat", "concat", "concatenate"):
    join(name, "kernel_cat", f"{name}.out", shape="cat")
join("stack", "kernel_cat", "stack.out")
for name in ("hstack", "vstack", "dstack", "column_stack", "block_diag"):
    join(name, out=f"{name}.out")
join("row_stack", "kernel_vstack", "row_stack.out", shape="vstack")
op("aten::broadcast_tensors", family="view", results="rule", shape="broadcast_tensors")
op("aten::broadcast_to", family="view", results="rule", shape="expand")
op("aten::meshgrid", family="view", results="rule", shape="meshgrid",
   same=["aten::meshgrid.indexing"])
join("cartesian_prod", effects=["returns_arg"])
join("repeat", out="repeat.out")
join("tile", "kernel_repeat")
join("flip", out="flip.out")
join("fliplr")
join("flipud")
join("rot90", out="rot90.out")
join("roll", out="roll.out")
join("diag", out="diag.out")
join("diag_embed", out="diag_embed.out")
join("diagflat")

op("aten::pad", family="join", shape="pad", body="""
def pad(self: Tensor, pad: List[int], mode: str, value: Optional[float]) -> Tensor:
    modes = ["reflect", "replicate", "circular", "constant"]
    if mode not in modes:
        raise NotImplementedError("Unrecognised padding mode " + mode)
    return torch._pad_enum(self, pad, modes.index(mode), value)
""")
op("aten::_pad_enum", family="join", shape="pad", body="""
def _pad_enum(self: Tensor, pad: List[int], mode: int, value: Optional[float]) -> Tensor:
    n, dims = len(pad), self.dim()
    if n % 2 != 0:
        raise RuntimeError("Padding length must be divisible by 2")
    if n > 2 * dims:
        raise RuntimeError("Padding length should be less than or equal to two times the input "
                           "dimension but got padding length {} and input of dimension {}".format(
                               n, dims))
    if mode == 3:
        if value is None:
            return torch.constant_pad_nd(self, pad)
        return torch.constant_pad_nd(self, pad, value)
    if mode >= 0 and mode < 3:
        if value is not None and value != 0.0:
            name = ["reflect", "replicate", "circular"][mode]
            raise RuntimeError('Padding mode "' + name + '"' + " doesn't take in value argument")
        if n >= 2 and n <= 6 and (dims == n // 2 + 1 or dims == n // 2 + 2):
            if mode == 2:
                return torch._pad_circular(self, pad)
            if n == 2:
                return torch.reflection_pad1d(self, pad) if mode == 0 else (
                    torch.replication_pad1d(self, pad))
            if n == 4:
                return torch.reflection_pad2d(self, pad) if mode == 0 else (
                    torch.replication_pad2d(self, pad))
            return torch.reflection_pad3d(self, pad) if mode == 0 else (
                torch.replication_pad3d(self, pad))
    raise NotImplementedError("Padding size {} is not supported for {}D input tensor.".format(
        n, dims))
""")
join("_pad_circular", "kernel_pad_circular", shape="pad_circular")
join("constant_pad_nd", out="constant_pad_nd.out", shape="pad_constant")
for kind, rule in (("reflection", "pad_reflected"), ("replication", "pad_replicated")):
    for n in "123":
        join(f"{kind}_pad{n}d", f"kernel_{kind}_pad", f"{kind}_pad{n}d.out", shape=rule)

op("aten::repeat_interleave.Tensor", family="join", shape="repeat_places",
   variants={"out": "aten::repeat_interleave.Tensor_out"}, body="""
def repeat_interleave(repeats: Tensor, output_size: Optional[int]) -> Tensor:
    if repeats.dim() != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.dtype != torch.long and repeats.dtype != torch.int:
        raise RuntimeError("repeats has to be Long or Int tensor")
    if repeats.numel() == 0:
        return torch.empty_like(repeats)
    if bool((repeats < 0).any()):
        raise RuntimeError("repeats can not be negative")
    ends = torch.cumsum(repeats, 0)
    total = int(ends[-1])
    if output_size is not None and output_size != total:
        raise RuntimeError("allocated size does not match required size")
    places = torch.arange(total, dtype=torch.long)
    return torch.searchsorted(ends, places, right=True).to(repeats.dtype)
""")
op("aten::repeat_interleave.self_Tensor", family="join", shape="repeat_interleave", body="""
def repeat_interleave(self: Tensor, repeats: Tensor, dim: Optional[int],
                      output_size: Optional[int]) -> Tensor:
    x = self
    d = 0
    if dim is None:
        x = self.flatten()
    else:
        d = dim
    r = repeats
    if r.dim() == 0 or (r.dim() == 1 and r.size(0) == 1):
        r = r.reshape([1]).expand([x.size(d)])
    elif r.dim() != 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    elif r.size(0) != x.size(d):
        raise RuntimeError("repeats must have the same size as input along dim, but got "
                           "repeats.size(0) = " + str(r.size(0)) + " and input.size(" + str(d)
                           + ") = " + str(x.size(d)))
    return x.index_select(d, torch.repeat_interleave(r, output_size=output_size))
""")
op("aten::repeat_interleave.self_int", family="join", shape="repeat_interleave", body="""
def repeat_interleave(self: Tensor, repeats: int, dim: Optional[int],
                      output_size: Optional[int]) -> Tensor:
    x = self
    d = 0
    if dim is None:
        x = self.flatten()
    else:
        d = dim
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    if x.dim() == 0:
        x = x.reshape([1])
    if d < 0:
        d = d + x.dim()
    wide = x.unsqueeze(d + 1)
    sizes = wide.size()
    sizes[d + 1] = repeats
    return wide.expand(sizes).clone(memory_format=torch.contiguous_format).flatten(d, d + 1)
""")

# What other parts ask about these.
known("concat concatenate", synonym_of="cat")
known("row_stack", synonym_of="vstack")
known("reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d "
      "replication_pad3d",
      autocast="float32")

# What in-place and out= forms demand of what they write to (../README.md).
written("cast", "cat", "column_stack", "concat", "concatenate", "dstack", "hstack", "stack",
        "vstack")
written("overlap", "diag")
