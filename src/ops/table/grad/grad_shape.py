"""Gradients of views, of what joins, repeats, turns and pads, and of conversions (README.md,
Gradients)."""

# -- The same elements

grad("alias alias_copy lift lift_fresh lift_fresh_copy resolve_conj resolve_neg contiguous clone "
     "cpu cuda type_as real "
     "to.dtype to.device to.dtype_layout to.other to.prim_Device to.prim_dtype to.prim_other "
     "_to_copy expand expand_copy expand_as "
     "broadcast_to _autocast_to_reduced_precision _autocast_to_full_precision", self="grad")
grad("broadcast_tensors", tensors="grad")
grad("copy", self="torch.zeros_like(grad)", src="grad")
grad("view _unsafe_view view_copy view_as reshape reshape_as _reshape_alias _reshape_alias_copy "
     "flatten.using_ints ravel unflatten.int "
     "squeeze squeeze.dim squeeze.dims squeeze_copy squeeze_copy.dim squeeze_copy.dims unsqueeze "
     "unsqueeze_copy "
     "atleast_1d atleast_2d atleast_3d", self="grad.reshape(self_sizes)")
for N in "123":
    grad(f"atleast_{N}d.Sequence",
         tensors="[grad[i].reshape(tensors_sizes[i]) for i in range(len(grad))]")
grad("conj _conj _conj_copy", self="torch.conj(grad)")
grad("imag", self="torch.complex(torch.zeros_like(grad), grad)")
grad("view_as_real view_as_real_copy", self="torch.view_as_complex(grad.contiguous())")
grad("view_as_complex view_as_complex_copy", self="torch.view_as_real(grad.resolve_conj())")
grad("fill.Scalar", self="torch.zeros_like(grad)")
grad("fill.Tensor", self="torch.zeros_like(grad)", value="grad")
grad("zero", self="torch.zeros_like(grad)")

# -- Other orders

helper("""
def inverse_permutation(dims: List[int]) -> List[int]:
    out = [0] * len(dims)
    for i in range(len(dims)):
        out[dims[i] % len(dims)] = i
    return out
""")
grad("permute permute_copy", self="grad.permute(inverse_permutation(dims))")
grad("transpose.int transpose_copy.int swapdims transpose_", self="grad.transpose(dim0, dim1)")
grad("swapaxes", self="grad.transpose(axis0, axis1)")
grad("t t_copy", self="grad.t()")
grad("numpy_T numpy_T.a", self="torch.numpy_T(grad)")
grad("mT mT.a", self="grad.transpose(-2, -1)")
grad("matrix_H matrix_H.a", self="torch.matrix_H(grad)")
grad("adjoint", self="torch.adjoint(grad)")
grad("movedim.intlist movedim.int moveaxis.intlist moveaxis.int",
     self="torch.movedim(grad, destination, source)")
grad("flip", self="grad.flip(dims)")
grad("fliplr", self="torch.fliplr(grad)")
grad("flipud", self="torch.flipud(grad)")
grad("rot90", self="torch.rot90(grad, -k, dims)")
grad("roll", self="torch.roll(grad, [-s for s in shifts], dims)")
grad("pixel_shuffle", self="torch.pixel_unshuffle(grad, upscale_factor)")
grad("pixel_unshuffle", self="torch.pixel_shuffle(grad, downscale_factor)")
grad("channel_shuffle native_channel_shuffle",
     self="torch.channel_shuffle(grad, grad.size(1) // groups)")

# -- Parts: what was left out gets zeros

grad("select.int select_copy.int",
     self="torch.select_scatter(grad.new_zeros(self_sizes), grad, dim, index)")
grad("slice.Tensor slice_copy.Tensor",
     self="torch.slice_scatter(grad.new_zeros(self_sizes), grad, dim, start, end, step)")
NARROW = """
first = {start}
first = first + self_sizes[dim] if first < 0 else first
torch.slice_scatter(grad.new_zeros(self_sizes), grad, dim, first, first + length)
"""
grad("narrow narrow_copy", self=NARROW.format(start="start"))
grad("narrow.Tensor", self=NARROW.format(start="int(start)"))
grad("diagonal diagonal_copy",
     self="torch.diagonal_scatter(grad.new_zeros(self_sizes), grad, offset, dim1, dim2)")
grad("linalg_diagonal",
     A="torch.diagonal_scatter(grad.new_zeros(A_sizes), grad, offset, dim1, dim2)")
grad("unfold unfold_copy", self="""
if len(self_sizes) == 0:
    return grad.sum()
torch.unfold_backward(grad, self_sizes, dimension, size, step)
""")
helper("""
def reach(sizes: List[int], strides: List[int]) -> int:
    n = 1
    for i in range(len(sizes)):
        if sizes[i] == 0:
            return 0
        n += (sizes[i] - 1) * strides[i]
    return n
""")
# By way of the storage: elements that the argument shows more than once get equal shares.
helper("""
def as_strided_gradient(grad: Tensor, self: Tensor, size: List[int], stride: List[int],
                        offset: Optional[int]) -> Tensor:
    own = self.storage_offset()
    first = own if offset is None else offset
    low = min(own, first)
    n = max(own - low + reach(self.size(), self.stride()), first - low + reach(size, stride))
    at = torch.arange(n)
    back = grad.new_zeros([n]).index_add(0,
                                         torch.as_strided(at, size, stride, first -
                                                          low).reshape([-1]), grad.reshape([-1]))
    shown = torch.as_strided(at, self.size(), self.stride(), own - low).reshape([-1])
    times = torch.zeros([n], dtype=torch.long).index_add(0, shown, torch.ones_like(shown))
    return (back.index_select(0, shown).reshape(self.size()) / times.index_select(0,
          shown).reshape(self.size()))
""")
grad("as_strided as_strided_copy",
     self="as_strided_gradient(grad, self, size, stride, storage_offset)")
grad("as_strided_scatter",
     self="torch.as_strided_scatter(grad.contiguous(), grad.new_zeros(src_sizes), size, stride, "
          "storage_offset)",
     src="torch.as_strided_copy(grad.contiguous(), size, stride, storage_offset)")
grad("slice_scatter",
     self="torch.slice_scatter(grad, grad.new_zeros(src_sizes), dim, start, end, step)",
     src="torch.slice(grad, dim, start, end, step)")
grad("select_scatter", self="torch.select_scatter(grad, grad.new_zeros(src_sizes), dim, index)",
     src="grad.select(dim, index)")
grad("diagonal_scatter",
     self="torch.diagonal_scatter(grad, grad.new_zeros(src_sizes), offset, dim1, dim2)",
     src="grad.diagonal(offset, dim1, dim2)")
grad("diag", self="""
if len(self_sizes) == 1:
    return grad.diagonal(diagonal)
torch.diagonal_scatter(grad.new_zeros(self_sizes), grad, diagonal)
""")
grad("diag_embed", self="grad.diagonal(offset, dim1, dim2)")
grad("diagflat", self="grad.diagonal(offset).reshape(self_sizes)")
grad("tril", self="grad.tril(diagonal)")
grad("triu", self="grad.triu(diagonal)")

# -- Several pieces

grad("split.Tensor unsafe_split.Tensor split_copy.Tensor split.sizes split_with_sizes "
     "unsafe_split_with_sizes split_with_sizes_copy "
     "chunk unsafe_chunk tensor_split.sections tensor_split.indices "
     "tensor_split.tensor_indices_or_sections",
     self="torch.cat(grad, dim)")
grad("hsplit.int hsplit.array", self="torch.cat(grad, 0 if len(self_sizes) == 1 else 1)")
grad("vsplit.int vsplit.array", self="torch.cat(grad, 0)")
grad("dsplit.int dsplit.array", self="torch.cat(grad, 2)")
grad("unbind.int unbind_copy.int", self="torch.stack(grad, dim)")
# n[i] slices of `grad` along `dim` belong to tensor i.
helper("""
def pieces(grad: Tensor, dim: int, n: List[int], sizes: List[List[int]]) -> List[Tensor]:
    out: List[Tensor] = []
    at = 0
    for i in range(len(n)):
        out.append(grad.narrow(dim, at, n[i]).reshape(sizes[i]))
        at += n[i]
    return out
""")
# A tensor of sizes [0] stands for nothing, whatever the others' dimensions.
grad("cat concat concatenate", tensors="""
d = dim + grad.dim() if dim < 0 else dim
pieces(grad, d, [s[d] if len(s) == grad.dim() else 0 for s in tensors_sizes], tensors_sizes)
""")
grad("stack", tensors="torch.unbind(grad, dim)")
grad("hstack", tensors="""
d = 0 if grad.dim() == 1 else 1
pieces(grad, d, [s[d] if len(s) > d else 1 for s in tensors_sizes], tensors_sizes)
""")
grad("vstack row_stack",
     tensors="pieces(grad, 0, [s[0] if len(s) > 1 else 1 for s in tensors_sizes], tensors_sizes)")
grad("dstack",
     tensors="pieces(grad, 2, [s[2] if len(s) > 2 else 1 for s in tensors_sizes], tensors_sizes)")
grad("column_stack",
     tensors="pieces(grad, 1, [s[1] if len(s) > 1 else 1 for s in tensors_sizes], tensors_sizes)")
grad("block_diag", tensors="""
out: List[Tensor] = []
row = 0
column = 0
for s in tensors_sizes:
    h = s[0] if len(s) == 2 else 1
    w = s[-1] if len(s) > 0 else 1
    out.append(grad.narrow(0, row, h).narrow(1, column, w).reshape(s))
    row += h
    column += w
out
""")
helper("""
def sum_but(grad: Tensor, dim: int) -> Tensor:
    others: List[int] = []
    for d in range(grad.dim()):
        if d != dim:
            others.append(d)
    return grad.sum(others) if len(others) > 0 else grad
""")
grad("meshgrid",
     tensors="[sum_but(grad[i], i).reshape(tensors_sizes[i]) for i in range(len(grad))]")
grad("meshgrid.indexing", tensors="""
swap = indexing == 'xy' and len(grad) > 1
[sum_but(grad[i], 1 - i if swap and i < 2 else
         i).reshape(tensors_sizes[i]) for i in range(len(grad))]
""")
grad("cartesian_prod", tensors="""
if len(tensors_sizes) == 1:
    return [grad]
n = [s[0] for s in tensors_sizes]
[sum_but(grad.select(1, i).reshape(n), i) for i in range(len(n))]
""")
grad("combinations", self="""
at = torch.combinations(torch.arange(self_sizes[0]), r, with_replacement)
grad.new_zeros(self_sizes).index_add(0, at.reshape([-1]), grad.reshape([-1]))
""")

# -- Repeating and padding

helper("""
def repeat_gradient(grad: Tensor, sizes: List[int], repeats: List[int]) -> Tensor:
    lead = len(repeats) - len(sizes)
    shape: List[int] = []
    dims: List[int] = []
    for i in range(len(repeats)):
        dims.append(len(shape))
        shape.append(repeats[i])
        if i >= lead:
            shape.append(sizes[i - lead])
    if len(dims) == 0:
        return grad
    return grad.reshape(shape).sum(dims)
""")
grad("repeat", self="repeat_gradient(grad, self_sizes, repeats)")
grad("tile", self="repeat_gradient(grad, self_sizes, [1] * (len(self_sizes) - len(dims)) + dims)")
# Padding along one dimension is a choice of indices: those that padding the numbers 0, 1, 2...
# gives.
helper("""
def pad_gradient(grad: Tensor, sizes: List[int], pad: List[int], mode: str) -> Tensor:
    if mode == 'constant':
        return torch.constant_pad_nd(grad, [-p for p in pad], 0)
    out = grad
    for i in range(len(pad) // 2):
        dim = len(sizes) - 1 - i
        at = torch.arange(sizes[dim], dtype=torch.double).reshape([1, 1, -1])
        index = torch.pad(at, [pad[2 * i], pad[2 * i + 1]], mode).reshape([-1]).to(torch.long)
        shape = out.size()
        shape[dim] = sizes[dim]
        out = out.new_zeros(shape).index_add(dim, index, out)
    return out
""")
grad("constant_pad_nd", self="torch.constant_pad_nd(grad, [-p for p in pad], 0)")
grad("pad", self="pad_gradient(grad, self_sizes, pad, mode)")
grad("_pad_circular", self="pad_gradient(grad, self_sizes, pad, 'circular')")
grad("_pad_enum",
     self="pad_gradient(grad, self_sizes, pad, ['reflect', 'replicate', 'circular', "
          "'constant'][mode])")
for N in "123":
    grad(f"reflection_pad{N}d", self="pad_gradient(grad, self_sizes, padding, 'reflect')")
    grad(f"replication_pad{N}d", self="pad_gradient(grad, self_sizes, padding, 'replicate')")
grad("im2col",
     self="torch.col2im(grad, [self_sizes[-2], self_sizes[-1]], kernel_size, dilation, padding, "
          "stride)")
grad("col2im", self="torch.im2col(grad, kernel_size, dilation, padding, stride)")
