"""Additional requirements of in-place and out= forms for the tensors that they write to; written.h
has the common ones.

exact: the tensor must have the result's dtype.  cast: it may have any dtype that the result can be
    cast to.  Pointwise operators cast unless they are listed as exact; others are exact unless they
    are listed to cast;
apart: the tensor must not share memory with an argument that is read;
overlap: memory that is shared with an argument that is read is not refused, and pointwise operators
    do not refuse elements of the tensor that share memory;
dtype: the operator computes in the tensor's dtype unless a dtype is given.
"""

written("exact", "abs", "ceil", "complex", "conj_physical", "floor", "frac", "frexp", "gelu",
        "hardshrink", "heaviside",
        "isneginf", "isposinf", "log_sigmoid", "nan_to_num", "neg", "polar", "round", "sgn", "sign",
        "signbit", "softplus", "softshrink", "trunc", "where")
written("cast", "_chunk_cat", "addr", "bernoulli", "cat", "cholesky", "cholesky_inverse",
        "cholesky_solve", "column_stack", "concat",
        "concatenate", "dstack", "fft_hfft", "fft_hfft2", "fft_hfftn", "fft_irfft", "fft_irfft2",
        "fft_irfftn", "geqrf", "hstack",
        "kron", "ldexp", "linalg_cond", "linalg_householder_product", "linalg_lstsq",
        "linalg_matrix_power",
        "linalg_matrix_rank", "linalg_pinv", "linalg_tensorinv", "linalg_tensorsolve", "logsumexp",
        "max.unary_out", "mean", "min.unary_out",
        "mvlgamma", "nanmean", "normal", "outer", "stack", "std", "var", "vstack")
written("dtype", "cumprod", "cumsum", "nansum", "prod", "sum")
written("apart", "cross", "gather", "index_select", "linalg_cross", "masked_select", "take",
        "take_along_dim")
written("overlap", "alias_copy", "as_strided_copy", "avg_pool2d", "bmm", "cholesky", "diag",
        "diagonal_copy", "expand_copy",
        "linalg_cholesky", "linalg_eigvalsh", "linalg_householder_product", "linalg_inv",
        "linalg_lu_solve",
        "linalg_matrix_norm", "linalg_pinv", "linalg_solve", "linalg_solve_triangular",
        "linalg_svdvals", "linalg_tensorinv",
        "linalg_tensorsolve", "linear", "log_softmax", "logsumexp", "lu_solve", "masked_fill",
        "matmul", "mm", "mv", "mvlgamma",
        "ormqr", "permute_copy", "slice_scatter", "softmax", "squeeze_copy", "std", "t_copy",
        "tensordot", "transpose_copy",
        "tril", "triu", "unfold_copy", "unsqueeze_copy", "var", "view_copy")
