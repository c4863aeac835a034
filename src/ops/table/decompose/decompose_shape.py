"""Decompositions (decompose_nn.py) of operators that move elements: views, their copies, joining,
splitting, indexing."""


def simple(name: str, takes: str, value: str) -> None:
    """A decomposition that is one expression."""
    decompose(name, f"def core({takes}) -> Tensor:\n    return {value}\n")


# -- Views

simple("broadcast_to", "self: Tensor, size: List[int]", "self.expand(size)")
simple("mT", "self: Tensor", "self.transpose(-2, -1)")
simple("adjoint", "self: Tensor", "torch.conj(self.transpose(-2, -1))")
simple("conj resolve_conj", "self: Tensor",
       "torch.conj_physical(self) if self.is_complex() else self")
simple("resolve_neg positive detach", "self: Tensor", "self.alias()")
simple("imag", "self: Tensor", "torch.select(torch.view_as_real(self), -1, 1)")
simple("ravel", "self: Tensor", "torch.reshape(self, [-1])")
simple("reshape_as", "self: Tensor, other: Tensor", "torch.reshape(self, other.size())")
simple("_reshape_alias", "self: Tensor, size: List[int], stride: List[int]", "self.view(size)")
simple("linalg_diagonal", "A: Tensor, offset: int, dim1: int, dim2: int",
       "torch.diagonal(A, offset, dim1, dim2)")
decompose("numpy_T", """
def core(self: Tensor) -> Tensor:
    n = self.dim()
    return self.permute([n - 1 - i for i in range(n)])
""")
decompose("matrix_H", """
def core(self: Tensor) -> Tensor:
    return self.alias() if self.dim() == 0 else torch.conj(self.transpose(-2, -1))
""")
decompose("squeeze", """
def core(self: Tensor) -> Tensor:
    dims: List[int] = []
    for i in range(self.dim()):
        if self.size(i) == 1:
            dims.append(i)
    return torch.squeeze(self, dims)
""")
decompose("movedim.intlist", """
def core(self: Tensor, source: List[int], destination: List[int]) -> Tensor:
    n = self.dim()
    to = [-1 for _ in range(n)]
    taken = [False for _ in range(n)]
    for i in range(len(source)):
        a, b = source[i], destination[i]
        a = a + n if a < 0 else a
        b = b + n if b < 0 else b
        to[b] = a
        taken[a] = True
    rest: List[int] = []
    for i in range(n):
        if not taken[i]:
            rest.append(i)
    at = 0
    for i in range(n):
        if to[i] < 0:
            to[i] = rest[at]
            at = at + 1
    return self.permute(to)
""")
simple("movedim.int", "self: Tensor, source: int, destination: int",
       "torch.movedim(self, [source], [destination])")
for k in 1, 2, 3:
    steps = {
        1: "torch.reshape(self, [1]) if self.dim() == 0 else self",
        2: "torch.reshape(self, [1, 1]) if self.dim() == 0 else "
           "(self.unsqueeze(0) if self.dim() == 1 else self)",
        3: "torch.reshape(self, [1, 1, 1]) if self.dim() == 0 else "
           "(self.unsqueeze(0).unsqueeze(-1) if self.dim() == 1 else "
           "(self.unsqueeze(-1) if self.dim() == 2 else self))",
    }
    simple(f"atleast_{k}d", "self: Tensor", steps[k])
    decompose(f"atleast_{k}d.Sequence", f"""
def core(tensors: List[Tensor]) -> List[Tensor]:
    return [torch.atleast_{k}d(t) for t in tensors]
""")
decompose("meshgrid.indexing", """
def core(tensors: List[Tensor], indexing: str) -> List[Tensor]:
    n = len(tensors)
    sizes = [t.numel() for t in tensors]
    swaps = indexing == "xy" and n > 1
    if swaps:
        sizes[0], sizes[1] = sizes[1], sizes[0]
    out: List[Tensor] = []
    for i in range(n):
        at = (1 - i) if swaps and i < 2 else i
        shape = [1 for _ in range(n)]
        shape[at] = sizes[at]
        out.append(tensors[i].reshape(shape).expand(sizes))
    return out
""")
decompose("meshgrid", """
def core(tensors: List[Tensor]) -> List[Tensor]:
    return torch.meshgrid(tensors, indexing="ij")
""")

# -- Copies of views

COPIES = {
    "alias_copy": ("self: Tensor", "self.alias()"),
    "diagonal_copy": ("self: Tensor, offset: int, dim1: int, dim2: int",
                      "torch.diagonal(self, offset, dim1, dim2)"),
    "expand_copy": ("self: Tensor, size: List[int], implicit: bool", "self.expand(size)"),
    "squeeze_copy": ("self: Tensor", "torch.squeeze(self)"),
    "squeeze_copy.dim": ("self: Tensor, dim: int", "torch.squeeze(self, [dim])"),
    "squeeze_copy.dims": ("self: Tensor, dim: List[int]", "torch.squeeze(self, dim)"),
    "t_copy": ("self: Tensor", "torch.t(self)"),
    "transpose_copy.int": ("self: Tensor, dim0: int, dim1: int", "self.transpose(dim0, dim1)"),
    "unfold_copy": ("self: Tensor, dimension: int, size: int, step: int",
                    "self.unfold(dimension, size, step)"),
    "unsqueeze_copy": ("self: Tensor, dim: int", "self.unsqueeze(dim)"),
}
for name, (takes, view) in COPIES.items():
    decompose(name, f"""
def core({takes}) -> Tensor:
    return torch.clone({view}, memory_format=torch.contiguous_format)
""")
decompose("split_with_sizes_copy", """
def core(self: Tensor, split_sizes: List[int], dim: int) -> List[Tensor]:
    return [torch.clone(t, memory_format=torch.contiguous_format)
            for t in torch.split_with_sizes(self, split_sizes, dim)]
""")

# -- Splitting

decompose("unsafe_split.Tensor", """
def core(self: Tensor, split_size: int, dim: int) -> List[Tensor]:
    return torch.split(self, split_size, dim)
""")
decompose("unsafe_split_with_sizes", """
def core(self: Tensor, split_sizes: List[int], dim: int) -> List[Tensor]:
    return torch.split_with_sizes(self, split_sizes, dim)
""")
decompose("tensor_split.indices", """
def core(self: Tensor, indices: List[int], dim: int) -> List[Tensor]:
    out: List[Tensor] = []
    start = 0
    for end in indices:
        out.append(torch.slice(self, dim, start, end))
        start = end
    out.append(torch.slice(self, dim, start, self.size(dim)))
    return out
""")
decompose("tensor_split.sections", """
def core(self: Tensor, sections: int, dim: int) -> List[Tensor]:
    size = self.size(dim)
    each = size // sections
    more = size % sections
    out: List[Tensor] = []
    start = 0
    for i in range(sections):
        end = start + each + (1 if i < more else 0)
        out.append(torch.slice(self, dim, start, end))
        start = end
    return out
""")
for name, dim in ("vsplit", "0"), ("hsplit", "0 if self.dim() == 1 else 1"), ("dsplit", "2"):
    for overload, arg, kind in ("int", "sections", "int"), ("array", "indices", "List[int]"):
        decompose(f"{name}.{overload}", f"""
def core(self: Tensor, {arg}: {kind}) -> List[Tensor]:
    return torch.tensor_split(self, {arg}, {dim})
""")

# -- Joining

for name, k, dim in ("vstack", 2, "0"), ("dstack", 3, "2"):
    simple(name, "tensors: List[Tensor]",
           f"torch.cat([torch.atleast_{k}d(t) for t in tensors], {dim})")
decompose("hstack", """
def core(tensors: List[Tensor]) -> Tensor:
    rows = [torch.atleast_1d(t) for t in tensors]
    return torch.cat(rows, 0 if rows[0].dim() == 1 else 1)
""")
decompose("column_stack", """
def core(tensors: List[Tensor]) -> Tensor:
    columns: List[Tensor] = []
    for t in tensors:
        columns.append(t if t.dim() > 1 else torch.reshape(t, [t.numel(), 1]))
    return torch.cat(columns, 1)
""")
decompose("block_diag", """
def core(tensors: List[Tensor]) -> Tensor:
    blocks = [torch.atleast_2d(t) for t in tensors]
    width = 0
    dtype = blocks[0].dtype
    for t in blocks:
        width = width + t.size(1)
        dtype = torch.promote_types(dtype, t.dtype)
    rows: List[Tensor] = []
    left = 0
    for t in blocks:
        right = width - left - t.size(1)
        rows.append(torch.constant_pad_nd(t.to(dtype), [left, right], 0))
        left = left + t.size(1)
    return torch.cat(rows, 0)
""")
decompose("cartesian_prod", """
def core(tensors: List[Tensor]) -> Tensor:
    if len(tensors) == 1:
        return tensors[0]
    grids = torch.meshgrid(tensors, indexing="ij")
    return torch.stack([torch.reshape(t, [-1]) for t in grids], 1)
""")
simple("tile", "self: Tensor, dims: List[int]",
       "self.repeat([1 for _ in range(self.dim() - len(dims))] + dims)")
decompose("_pad_circular", """
def core(self: Tensor, pad: List[int]) -> Tensor:
    out = self
    for i in range(len(pad) // 2):
        dim = self.dim() - 1 - i
        size = self.size(dim)
        before, after = pad[2 * i], pad[2 * i + 1]
        parts: List[Tensor] = []
        if before > 0:
            parts.append(torch.slice(out, dim, size - before, size))
        parts.append(torch.slice(out, dim, max(0, -before), size + min(0, after)))
        if after > 0:
            parts.append(torch.slice(out, dim, 0, after))
        out = torch.cat(parts, dim)
    return out
""")

# -- Elements in another order

simple("fliplr", "self: Tensor", "torch.flip(self, [1])")
simple("flipud", "self: Tensor", "torch.flip(self, [0])")
decompose("roll", """
def core(self: Tensor, shifts: List[int], dims: List[int]) -> Tensor:
    if self.numel() == 0:
        return torch.clone(self)
    if len(dims) == 0:
        flat = torch.reshape(self, [-1])
        return torch.reshape(torch.roll(flat, shifts, [0]), self.size())
    out = self
    for i in range(len(dims)):
        size = self.size(dims[i])
        at = torch.arange(0, size, 1, dtype=4, device=self.device)
        out = torch.index_select(out, dims[i], torch.remainder(torch.sub(at, shifts[i]), size))
    return out
""")
decompose("rot90", """
def core(self: Tensor, k: int, dims: List[int]) -> Tensor:
    turns = k % 4
    if turns == 1:
        return torch.flip(self, [dims[1]]).transpose(dims[0], dims[1])
    if turns == 2:
        return torch.flip(self, dims)
    if turns == 3:
        return torch.flip(self, [dims[0]]).transpose(dims[0], dims[1])
    return torch.clone(self, memory_format=torch.contiguous_format)
""")
decompose("pixel_shuffle", """
def core(self: Tensor, upscale_factor: int) -> Tensor:
    r, sizes, n = upscale_factor, self.size(), self.dim()
    batch = [i for i in range(n - 3)]
    c, h, w = sizes[-3] // (r * r), sizes[-2], sizes[-1]
    parts = torch.reshape(self, sizes[:-3] + [c, r, r, h, w])
    b = n - 3
    turned = parts.permute(batch + [b, b + 3, b + 1, b + 4, b + 2])
    return torch.reshape(turned, sizes[:-3] + [c, h * r, w * r])
""")
decompose("pixel_unshuffle", """
def core(self: Tensor, downscale_factor: int) -> Tensor:
    r, sizes, n = downscale_factor, self.size(), self.dim()
    batch = [i for i in range(n - 3)]
    c, h, w = sizes[-3], sizes[-2] // r, sizes[-1] // r
    parts = torch.reshape(self, sizes[:-3] + [c, h, r, w, r])
    b = n - 3
    turned = parts.permute(batch + [b, b + 2, b + 4, b + 1, b + 3])
    return torch.reshape(turned, sizes[:-3] + [c * r * r, h, w])
""")
decompose("channel_shuffle native_channel_shuffle", """
def core(self: Tensor, groups: int) -> Tensor:
    sizes = self.size()
    parts = torch.reshape(self, [sizes[0], groups, sizes[1] // groups] + sizes[2:])
    return torch.reshape(parts.transpose(1, 2), sizes)
""")
decompose("diag_embed", """
def core(self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    n = self.dim() + 1
    a = dim1 + n if dim1 < 0 else dim1
    b = dim2 + n if dim2 < 0 else dim2
    by = offset
    if a > b:
        a, b = b, a
        by = -offset
    t = self
    if by > 0:
        t = torch.constant_pad_nd(t, [by, 0], 0)
    elif by < 0:
        t = torch.constant_pad_nd(t, [0, -by], 0)
    size = t.size(-1)
    t = torch.movedim(t.unsqueeze(a), -1, b)
    at = torch.arange(0, size, 1, dtype=4, device=self.device)
    is_on = torch.eq(torch.add(at, by).unsqueeze(-1), at)
    shape = [size if i == a or i == b else 1 for i in range(n)]
    none: List[int] = []
    return torch.where(torch.reshape(is_on, shape), t,
                       torch.full(none, 0, dtype=self.dtype, device=self.device))
""")
simple("diagflat", "self: Tensor, offset: int",
       "torch.diag_embed(torch.reshape(self, [-1]), offset)")
decompose("diag", """
def core(self: Tensor, diagonal: int) -> Tensor:
    if self.dim() == 1:
        return torch.diag_embed(self, diagonal)
    return torch.clone(torch.diagonal(self, diagonal))
""")

# -- Indexing

decompose("_unsafe_index.Tensor", """
def core(self: Tensor, indices: List[Optional[Tensor]]) -> Tensor:
    return torch.index(self, indices)
""")
decompose("_unsafe_index_put", """
def core(self: Tensor, indices: List[Optional[Tensor]], values: Tensor,
         accumulate: bool) -> Tensor:
    return torch.index_put(self, indices, values, accumulate)
""")
decompose("take", """
def core(self: Tensor, index: Tensor) -> Tensor:
    at: List[Optional[Tensor]] = [index]
    return torch.index(torch.reshape(self, [-1]), at)
""")
decompose("take_along_dim", """
def core(self: Tensor, indices: Tensor, dim: Optional[int]) -> Tensor:
    if dim is None:
        return torch.gather(torch.reshape(self, [-1]), 0, torch.reshape(indices, [-1]))
    at = dim + self.dim() if dim < 0 else dim
    of, to = self.size(), indices.size()
    for i in range(self.dim()):
        if i != at:
            both = torch.broadcast_shapes([of[i]], [to[i]])
            of[i], to[i] = both[0], both[0]
    return torch.gather(self.expand(of), at, indices.expand(to))
""")
AT_DIM = """
    at: List[Optional[Tensor]] = []
    for _ in range(dim + self.dim() if dim < 0 else dim):
        at.append(None)
    at.append(index)
"""
decompose("index_copy", f"""
def core(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    if self.dim() == 0:
        return torch.reshape(source, self.size())
{AT_DIM}
    return torch.index_put(self, at, source)
""")
for kind, value in ("Scalar", "number"), ("Tensor", "Tensor"):
    made = ("torch.full(none, value, dtype=self.dtype, device=self.device)" if kind == "Scalar" else
            "value.to(self.dtype)")
    decompose(f"index_fill.int_{kind}", f"""
def core(self: Tensor, dim: int, index: Tensor, value: {value}) -> Tensor:
    none: List[int] = []
    if self.dim() == 0:
        return torch.reshape(torch.index_fill(torch.reshape(self, [1]), 0, index, value), none)
{AT_DIM}
    return torch.index_put(self, at, {made})
""")
decompose("where", """
def core(condition: Tensor) -> List[Tensor]:
    return torch.unbind(torch.nonzero(condition), 1)
""")
decompose("nonzero_numpy", """
def core(self: Tensor) -> List[Tensor]:
    return torch.unbind(torch.nonzero(torch.atleast_1d(self)), 1)
""")
simple("argwhere", "self: Tensor", "torch.nonzero(self)")
simple("msort", "self: Tensor", "torch.sort(self, 0, False)[0]")
simple("argsort", "self: Tensor, dim: int, descending: bool",
       "torch.sort(self, dim, descending)[1]")
simple("argsort.stable", "self: Tensor, stable: bool, dim: int, descending: bool",
       "torch.sort(self, stable=stable, dim=dim, descending=descending)[1]")
decompose("one_hot", """
def core(self: Tensor, num_classes: int) -> Tensor:
    if num_classes < 0:
        raise RuntimeError("one_hot without the number of classes, which depends on data")
    at = torch.arange(0, num_classes, 1, dtype=4, device=self.device)
    return torch.eq(self.unsqueeze(-1), at).to(4)
""")
decompose("unfold_backward", """
def core(grad_in: Tensor, input_sizes: List[int], dim: int, size: int, step: int) -> Tensor:
    if len(input_sizes) == 0:
        return torch.clone(torch.squeeze(grad_in, [0]))
    axis = dim + len(input_sizes) if dim < 0 else dim
    at = torch.arange(0, input_sizes[axis], 1, dtype=4, device=grad_in.device)
    index = torch.reshape(at.unfold(0, size, step), [-1])
    grads = torch.movedim(grad_in, -1, axis + 1).flatten(axis, axis + 1)
    places: List[Optional[Tensor]] = []
    for _ in range(axis):
        places.append(None)
    places.append(index)
    zeros = torch.full(input_sizes, 0, dtype=grad_in.dtype, device=grad_in.device)
    return torch.index_put(zeros, places, grads, True)
""")
decompose("zero", """
def core(self: Tensor) -> Tensor:
    return torch.full_like(self, 0)
""")
decompose("to.device", """
def core(self: Tensor, device: Device, dtype: int, non_blocking: bool, copy: bool,
         memory_format: Optional[int]) -> Tensor:
    return torch.to(self, dtype, non_blocking, copy, memory_format)
""")
decompose("to.other", """
def core(self: Tensor, other: Tensor, non_blocking: bool, copy: bool,
         memory_format: Optional[int]) -> Tensor:
    return torch.to(self, other.dtype, non_blocking, copy, memory_format)
""")
decompose("to.dtype_layout", """
def core(self: Tensor, dtype: Optional[int], layout: Optional[int], device: Optional[Device],
         pin_memory: Optional[bool], non_blocking: bool, copy: bool,
         memory_format: Optional[int]) -> Tensor:
    return torch.to(self, self.dtype if dtype is None else dtype, non_blocking, copy, memory_format)
""")
decompose("combinations", """
def core(self: Tensor, r: int, with_replacement: bool) -> Tensor:
    n = self.size(0)
    if r == 0:
        return torch.empty([0], dtype=self.dtype, device=self.device)
    at = torch.arange(0, n, 1, dtype=4, device=self.device)
    places = torch.meshgrid([at for _ in range(r)], indexing="ij")
    chosen = torch.full([n for _ in range(r)], True, dtype=11, device=self.device)
    for i in range(r - 1):
        in_order = (torch.le(places[i], places[i + 1]) if with_replacement else
                    torch.lt(places[i], places[i + 1]))
        chosen = torch.logical_and(chosen, in_order)
    index: List[Optional[Tensor]] = [torch.nonzero(chosen)]
    return torch.index(self, index)
""")
