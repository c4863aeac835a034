"""Sparse tensors (sparse.c, kernels/sparse_*.c): the operators that make them, return their parts,
and take them.

sparse(KERNEL, NAMES) adds the key `sparse` to the entries NAMES of any file: KERNEL runs if an
argument is sparse; True means that the entry's own kernel takes them.
"""


def make(name, kernel, **more):
    op(f"aten::{name}", family="sparse", kernel=kernel, sparse=True, **more)


def query(name, kernel, **more):
    make(name, kernel, effects=["no_grad"], **more)


make("sparse_coo_tensor.indices", "kernel_sparse_coo_tensor")
make("sparse_coo_tensor.indices_size", "kernel_sparse_coo_tensor_sizes",
     same=["aten::_sparse_coo_tensor_unsafe"])
make("sparse_coo_tensor.size", "kernel_sparse_coo_tensor_empty")
make("_sparse_coo_tensor_with_dims", "kernel_sparse_coo_with_dims")
make("_sparse_coo_tensor_with_dims_and_tensors", "kernel_sparse_coo_with_dims_and_tensors")
make("sparse_csr_tensor.crow_col_value", "kernel_sparse_csr_tensor")
make("sparse_csr_tensor.crow_col_value_size", "kernel_sparse_csr_tensor_sizes",
     same=["aten::_sparse_csr_tensor_unsafe"])
make("sparse_compressed_tensor.comp_plain_value", "kernel_sparse_compressed")
make("sparse_compressed_tensor.comp_plain_value_size", "kernel_sparse_compressed_sizes",
     same=["aten::_sparse_compressed_tensor_unsafe"])
query("_validate_sparse_coo_tensor_args", "kernel_validate_sparse_coo")
query("_validate_sparse_csr_tensor_args", "kernel_validate_sparse_csr")
query("_validate_sparse_compressed_tensor_args", "kernel_validate_sparse_compressed")

query("indices", "kernel_coo_indices")
query("_indices", "kernel_coo_raw_indices")
make("values", "kernel_sparse_values")
query("_values", "kernel_sparse_raw_values")
query("crow_indices", "kernel_crow_indices")
query("col_indices", "kernel_col_indices")
query("_nnz", "kernel_nnz")
query("is_coalesced", "kernel_is_coalesced")
query("_coalesced_", "kernel_set_coalesced")
query("sparse_dim", "kernel_sparse_dim")
query("dense_dim", "kernel_dense_dim")
op("prim::is_sparse", family="sparse", kernel="kernel_is_sparse", sparse=True)
op("prim::is_sparse_csr", family="sparse", kernel="kernel_is_sparse_csr", sparse=True)
op("prim::layout", family="sparse", kernel="kernel_layout", sparse=True, effects=["nested"])
sparse(True,
       "dim numel sym_numel size sym_size size.int sym_size.int len.Tensor element_size "
       "prim::itemsize is_floating_point is_complex "
             "is_signed is_same_size is_conj is_neg is_inference is_distributed is_pinned is_leaf "
             "prim::is_cuda prim::is_ipu "
             "prim::is_maia prim::is_meta prim::is_mkldnn prim::is_mps prim::is_mtia "
             "prim::is_vulkan prim::is_xla prim::is_xpu "
             "prim::is_cpu prim::is_quantized prim::is_nested prim::requires_grad prim::dtype "
             "prim::device prim::name prim::grad grad "
             "backward backward.TensorList retain_grad retains_grad get_device _version output_nr "
             "requires_grad_")

make("coalesce", "kernel_sparse_coalesce", same=["aten::_coalesce"])
op("aten::_to_dense", family="sparse", kernel="kernel_dense_to_dense", shape="like_rows",
   sparse="kernel_sparse_to_dense")
sparse("kernel_sparse_to_dense", "to_dense")
sparse("kernel_sparse_detach", "detach alias prim::data")
sparse(True, "detach_ positive lift lift_fresh resolve_conj resolve_neg")
sparse("kernel_convert_sparse",
       "to.dtype to.device to.dtype_layout to.other to.prim_Device to.prim_dtype to.prim_other "
       "_to_copy type_as clone as_tensor lift_fresh_copy contiguous")
sparse(True, "cpu copy_")
make("to_sparse", "kernel_to_sparse", same=["aten::_to_sparse"])
make("to_sparse.sparse_dim", "kernel_to_sparse_dim", same=["aten::_to_sparse.sparse_dim"])
make("to_sparse_csr", "kernel_to_sparse_csr", same=["aten::_to_sparse_csr"])

# Operators that map zero to zero run on the values: on the sums of duplicates, unless the values
# may be changed separately.
sparse("kernel_sparse_unary",
       "abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isinf isnan isneginf "
       "isposinf log1p nan_to_num rad2deg relu "
       "round round.decimals sgn sign signbit sin sinh sqrt tan tanh trunc")
sparse("kernel_sparse_on_values", "neg conj _conj conj_physical real imag")
sparse("kernel_sparse_pow", "pow.Tensor_Scalar")
sparse("kernel_sparse_mul", "mul.Tensor mul.Scalar")
sparse("kernel_sparse_div", "div.Tensor div.Scalar")
sparse("kernel_sparse_add", "add.Tensor")
sparse("kernel_sparse_add_number", "add.Scalar sub.Scalar")
sparse("kernel_sparse_sub", "sub.Tensor")
make("sparse_mask", "kernel_sparse_mask")

sparse("kernel_sparse_sum", "sum")
sparse("kernel_sparse_sum_keep", "sum.dim_IntList")
op("aten::_sparse_sum", family="sparse", body="""
def _sparse_sum(self: Tensor) -> Tensor:
    return self.coalesce().values().sum()
""")
op("aten::_sparse_sum.dtype", family="sparse", body="""
def _sparse_sum(self: Tensor, dtype: int) -> Tensor:
    return self.coalesce().values().sum(dtype=dtype)
""")
make("_sparse_sum.dim", "kernel_sparse_sum_dim", grad={"self": "sparse_sum_back(grad, self, dim)"})
op("aten::_sparse_sum.dim_dtype", family="sparse", body="""
def _sparse_sum(self: Tensor, dim: List[int], dtype: int) -> Tensor:
    return torch._sparse_sum(self.to(dtype), dim)
""")

sparse("kernel_sparse_mm", "mm")
sparse("kernel_sparse_addmm", "addmm")
sparse("kernel_sparse_mv", "mv")
sparse("kernel_sparse_matmul", "matmul")
sparse("kernel_sparse_linear", "linear")
# torch.sparse.mm: its gradient has the elements of the sparse matrix; that of torch.mm is dense.
make("_sparse_mm", "kernel_sparse_mm", grad={"sparse": "sparse_mm_left(grad, sparse, dense, 1)",
                                             "dense": "sparse_mm_right(grad, sparse, dense)"})
make("_sparse_sparse_matmul", "kernel_sparse_mm",
     grad={"self": "sparse_mm_left(grad, self, other, 1)",
           "other": "sparse_mm_right(grad, self, other)"})
make("_sparse_addmm", "kernel_sparse_addmm", grad={"self": "times_conj(grad, beta)",
    "mat1": "sparse_mm_left(grad, mat1, mat2, alpha)",
        "mat2": "mm_right(grad, mat1, alpha)"})

sparse("kernel_sparse_t", "t")
sparse("kernel_sparse_transpose", "transpose.int")
sparse("kernel_sparse_permute", "permute")
sparse("kernel_sparse_select", "select.int")
sparse("kernel_sparse_index_select", "index_select")
sparse("kernel_sparse_unsqueeze", "unsqueeze")
sparse("kernel_sparse_cat", "cat")
sparse("kernel_sparse_zeros_like", "zeros_like empty_like")
sparse("kernel_sparse_zero", "zero_")


# -- Gradients: those of sparse tensors have their elements, as in PyTorch

helper("""
def as_pattern(grad: Tensor, of: Tensor) -> Tensor:
    return grad.sparse_mask(of.coalesce() if of.is_sparse else of)
""")
helper("""
def sparse_mm_left(grad: Tensor, left: Tensor, right: Tensor, alpha: number) -> Tensor:
    made = mm_left(grad, right.to_sparse() if right.is_sparse_csr else right, alpha)
    return as_pattern(made, left) if left.layout != torch.strided else made
""")
helper("""
def sparse_mm_right(grad: Tensor, left: Tensor, right: Tensor) -> Tensor:
    made = mm_right(grad.to_sparse() if grad.is_sparse_csr else grad, left, 1)
    return as_pattern(made, right) if right.layout != torch.strided else made
""")
# The sum's gradient at every element, expanded over the dimensions that were summed.
helper("""
def sparse_sum_back(grad: Tensor, self: Tensor, dims: List[int]) -> Tensor:
    g = grad.to_dense()
    for d in range(self.dim()):
        if d in dims or d - self.dim() in dims or len(dims) == 0:
            g = g.unsqueeze(d)
    return as_pattern(g.expand(self.size()), self)
""")
grad("sparse_coo_tensor.indices sparse_coo_tensor.indices_size _sparse_coo_tensor_unsafe "
     "_sparse_coo_tensor_with_dims_and_tensors",
     values="grad.sparse_mask(result)._values()")
CSR = (
    "sparse_csr_tensor.crow_col_value sparse_csr_tensor.crow_col_value_size "
    "_sparse_csr_tensor_unsafe "
)
COMPRESSED = (
    "sparse_compressed_tensor.comp_plain_value "
    "sparse_compressed_tensor.comp_plain_value_size _sparse_compressed_tensor_unsafe"
)
grad(CSR + COMPRESSED, values="grad.sparse_mask(result).values()")
grad("coalesce _coalesce", self="grad")
grad("values", self="""
if self.is_sparse:
    made = torch._sparse_coo_tensor_unsafe(self.indices(), grad, self.size(), is_coalesced=True)
else:
    made = torch._sparse_csr_tensor_unsafe(self.crow_indices(), self.col_indices(), grad,
                                           self.size())
made
""")
grad("to_dense _to_dense", self="grad if self.layout == torch.strided else as_pattern(grad, self)")
BACK = (
    "grad.to_dense() if self.layout == torch.strided else grad.to_sparse_csr() if "
    "self.is_sparse_csr else grad.to_sparse()"
)
grad("to_sparse _to_sparse to_sparse.sparse_dim _to_sparse.sparse_dim to_sparse_csr _to_sparse_csr",
     self=BACK)
grad("sparse_mask", self="""
made = grad.sparse_mask(mask)
made.to_dense() if self.layout == torch.strided else made
""")

op("aten::embedding_sparse_backward", family="sparse", body="""
def embedding_sparse_backward(grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int,
                              scale_grad_by_freq: bool) -> Tensor:
    if scale_grad_by_freq:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse "
                           "gradients")
    at = indices.reshape([-1])
    rows = grad.reshape([at.numel(), grad.size(-1)])
    if padding_idx != -1:
        kept = (at != padding_idx).nonzero().view([-1])
        at, rows = at.index_select(0, kept), rows.index_select(0, kept)
    return torch._sparse_coo_tensor_unsafe(at.unsqueeze(0), rows, [num_weights, grad.size(-1)])
""")

# Facts about these operators that other parts read.
known("prim::is_sparse prim::is_sparse_csr prim::layout", property=True)
