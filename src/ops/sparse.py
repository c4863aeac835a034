"""Sparse tensors (sparse.c, kernels/sparse_*.c): what makes them, what asks for their parts, and which operators take them.

sparse(KERNEL, NAMES) puts the key `sparse` into the entries NAMES, wherever they stand: KERNEL runs where an argument is sparse,
True says that the entry's own kernel takes them."""


def make(name, kernel, **more):
    op(f"aten::{name}", family="sparse", kernel=kernel, sparse=True, **more)


def ask(name, kernel, **more):
    make(name, kernel, effects=["no_grad"], **more)


make("sparse_coo_tensor.indices", "kernel_sparse_coo_tensor")
make("sparse_coo_tensor.indices_size", "kernel_sparse_coo_tensor_sizes", same=["aten::_sparse_coo_tensor_unsafe"])
make("sparse_coo_tensor.size", "kernel_sparse_coo_tensor_empty")
make("_sparse_coo_tensor_with_dims", "kernel_sparse_coo_with_dims")
make("_sparse_coo_tensor_with_dims_and_tensors", "kernel_sparse_coo_with_dims_and_tensors")
make("sparse_csr_tensor.crow_col_value", "kernel_sparse_csr_tensor")
make("sparse_csr_tensor.crow_col_value_size", "kernel_sparse_csr_tensor_sizes", same=["aten::_sparse_csr_tensor_unsafe"])
make("sparse_compressed_tensor.comp_plain_value", "kernel_sparse_compressed")
make("sparse_compressed_tensor.comp_plain_value_size", "kernel_sparse_compressed_sizes", same=["aten::_sparse_compressed_tensor_unsafe"])
ask("_validate_sparse_coo_tensor_args", "kernel_validate_sparse_coo")
ask("_validate_sparse_csr_tensor_args", "kernel_validate_sparse_csr")
ask("_validate_sparse_compressed_tensor_args", "kernel_validate_sparse_compressed")

ask("indices", "kernel_coo_indices")
ask("_indices", "kernel_coo_raw_indices")
make("values", "kernel_sparse_values")
ask("_values", "kernel_sparse_raw_values")
ask("crow_indices", "kernel_crow_indices")
ask("col_indices", "kernel_col_indices")
ask("_nnz", "kernel_nnz")
ask("is_coalesced", "kernel_is_coalesced")
ask("_coalesced_", "kernel_set_coalesced")
ask("sparse_dim", "kernel_sparse_dim")
ask("dense_dim", "kernel_dense_dim")
op("prim::is_sparse", family="sparse", kernel="kernel_is_sparse", sparse=True)
op("prim::is_sparse_csr", family="sparse", kernel="kernel_is_sparse_csr", sparse=True)
op("prim::layout", family="sparse", kernel="kernel_layout", sparse=True, effects=["nested"])
sparse(True, "dim numel sym_numel size sym_size size.int sym_size.int len.Tensor element_size prim::itemsize is_floating_point is_complex "
             "is_signed is_same_size is_conj is_neg is_inference is_distributed is_pinned is_leaf prim::is_cuda prim::is_ipu "
             "prim::is_maia prim::is_meta prim::is_mkldnn prim::is_mps prim::is_mtia prim::is_vulkan prim::is_xla prim::is_xpu "
             "prim::is_cpu prim::is_quantized prim::is_nested prim::requires_grad prim::dtype prim::device prim::name prim::grad grad "
             "backward backward.TensorList retain_grad retains_grad get_device _version output_nr requires_grad_")

make("coalesce", "kernel_sparse_coalesce", same=["aten::_coalesce"])
op("aten::_to_dense", family="sparse", kernel="kernel_dense_to_dense", sparse="kernel_sparse_to_dense")
sparse("kernel_sparse_to_dense", "to_dense")
sparse("kernel_sparse_detach", "detach alias prim::data")
sparse(True, "detach_ positive lift lift_fresh resolve_conj resolve_neg")
sparse(True, "to.dtype to.device to.dtype_layout to.other to.prim_Device to.prim_dtype to.prim_other _to_copy type_as cpu clone as_tensor "
             "lift_fresh_copy copy_ contiguous")
make("to_sparse", "kernel_to_sparse", same=["aten::_to_sparse"])
make("to_sparse.sparse_dim", "kernel_to_sparse_dim", same=["aten::_to_sparse.sparse_dim"])
make("to_sparse_csr", "kernel_to_sparse_csr", same=["aten::_to_sparse_csr"])

# What maps zero to zero runs on the values: on the sums of duplicates, but where they may be changed one by one.
sparse("kernel_sparse_unary",
       "abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isinf isnan isneginf isposinf log1p nan_to_num rad2deg relu "
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
make("_sparse_sum", "kernel_sparse_sum_all")
make("_sparse_sum.dtype", "kernel_sparse_sum_all")
make("_sparse_sum.dim", "kernel_sparse_sum_dim")
make("_sparse_sum.dim_dtype", "kernel_sparse_sum_dim_dtype")

sparse("kernel_sparse_mm", "mm")
sparse("kernel_sparse_addmm", "addmm")
sparse("kernel_sparse_mv", "mv")
sparse("kernel_sparse_matmul", "matmul")
sparse("kernel_sparse_linear", "linear")
make("_sparse_mm", "kernel_sparse_mm", same=["aten::_sparse_sparse_matmul"])
make("_sparse_addmm", "kernel_sparse_addmm")

sparse("kernel_sparse_t", "t")
sparse("kernel_sparse_transpose", "transpose.int")
sparse("kernel_sparse_permute", "permute")
sparse("kernel_sparse_select", "select.int")
sparse("kernel_sparse_index_select", "index_select")
sparse("kernel_sparse_unsqueeze", "unsqueeze")
sparse("kernel_sparse_cat", "cat")
sparse("kernel_sparse_zeros_like", "zeros_like empty_like")
sparse("kernel_sparse_zero", "zero_")
