"""Factorizations and operators built from them (linalg_factor.c, linalg_ops.c)."""



def factor(name, shape, kernel, out=None):
    op(f"aten::{name}", family="linalg", results="rule", shape=shape, kernel=f"kernel_{kernel}",
       **({"variants": {"out": f"aten::{out}"}} if out else {}))


factor("linalg_inv", "inverse", "linalg_inv", out="linalg_inv.out")
factor("inverse", "inverse", "linalg_inv", out="inverse.out")
factor("linalg_inv_ex", "inverse_status", "linalg_inv", out="linalg_inv_ex.inverse")
factor("linalg_solve", "solve", "linalg_solve", out="linalg_solve.out")
factor("linalg_solve_ex", "solve_status", "linalg_solve", out="linalg_solve_ex.out")
factor("_linalg_solve_ex", "solve_all", "linalg_solve", out="_linalg_solve_ex.result")
op("aten::_linalg_check_errors", family="linalg", kernel="kernel_linalg_check_errors")
factor("det", "det", "det")
factor("linalg_det", "det", "det", out="linalg_det.out")
factor("_linalg_det", "det_lu", "det", out="_linalg_det.result")
factor("slogdet", "slogdet", "slogdet", out="slogdet.out")
factor("linalg_slogdet", "slogdet", "slogdet", out="linalg_slogdet.out")
factor("_linalg_slogdet", "slogdet_lu", "slogdet", out="_linalg_slogdet.sign")
factor("logdet", "logdet", "logdet")
factor("linalg_lu_factor", "lu_factor", "lu_factor", out="linalg_lu_factor.out")
factor("linalg_lu_factor_ex", "lu_factor_status", "lu_factor", out="linalg_lu_factor_ex.out")
factor("linalg_cholesky", "cholesky", "linalg_cholesky", out="linalg_cholesky.out")
factor("cholesky", "cholesky", "linalg_cholesky", out="cholesky.out")
factor("linalg_cholesky_ex", "cholesky_status", "linalg_cholesky", out="linalg_cholesky_ex.L")
factor("cholesky_solve", "cholesky_solve", "cholesky_solve", out="cholesky_solve.out")
factor("linalg_solve_triangular", "solve_triangular", "solve_triangular",
       out="linalg_solve_triangular.out")
factor("linalg_qr", "qr", "linalg_qr", out="linalg_qr.out")
factor("qr", "qr_some", "qr", out="qr.Q")
factor("linalg_eigh", "eigh", "linalg_eigh", out="linalg_eigh.eigvals")
factor("_linalg_eigh", "eigh", "linalg_eigh", out="_linalg_eigh.eigenvalues")
factor("linalg_eigvalsh", "eigvalsh", "linalg_eigh", out="linalg_eigvalsh.out")
factor("linalg_eig", "eig", "linalg_eig", out="linalg_eig.out")
factor("linalg_eigvals", "eigvals", "linalg_eig", out="linalg_eigvals.out")
factor("geqrf", "geqrf", "geqrf", out="geqrf.a")
factor("linalg_ldl_factor", "ldl_factor", "ldl_factor", out="linalg_ldl_factor.out")
factor("linalg_ldl_factor_ex", "ldl_factor_status", "ldl_factor", out="linalg_ldl_factor_ex.out")
factor("linalg_ldl_solve", "ldl_solve", "ldl_solve", out="linalg_ldl_solve.out")
factor("linalg_svd", "svd", "linalg_svd", out="linalg_svd.U")
factor("_linalg_svd", "svd", "linalg_svd", out="_linalg_svd.U")
factor("linalg_svdvals", "svdvals", "linalg_svdvals", out="linalg_svdvals.out")
factor("svd", "svd_v", "svd", out="svd.U")
factor("linalg_matrix_exp", "matrix_exp", "matrix_exp", out="linalg_matrix_exp.out")
factor("matrix_exp", "matrix_exp", "matrix_exp")

op("aten::linalg_matrix_norm.str_ord", family="linalg", shape="matrix_norm",
   variants={"out": "aten::linalg_matrix_norm.str_ord_out"}, body="""
def matrix_norm(self: Tensor, ord: str, dim: List[int], keepdim: bool,
                dtype: Optional[int]) -> Tensor:
    x = self if dtype is None else self.to(dtype)
    if len(dim) != 2:
        raise RuntimeError("linalg.matrix_norm: dim must be a 2-tuple. Got " + str(dim))
    if ord == "fro":
        return torch.linalg_vector_norm(x, 2, dim, keepdim)
    if ord != "nuc":
        raise RuntimeError("linalg.matrix_norm: Order " + ord + " not supported.")
    r = torch.sum(torch.linalg_svdvals(x.movedim(dim, [-2, -1])), [-1], False)
    if keepdim:
        low = min(dim[0] % x.dim(), dim[1] % x.dim())
        high = max(dim[0] % x.dim(), dim[1] % x.dim())
        r = r.unsqueeze(low).unsqueeze(high)
    return r
""")
op("aten::linalg_matrix_norm", family="linalg", shape="matrix_norm",
   variants={"out": "aten::linalg_matrix_norm.out"}, body="""
def matrix_norm(self: Tensor, ord: number, dim: List[int], keepdim: bool,
                dtype: Optional[int]) -> Tensor:
    x = self if dtype is None else self.to(dtype)
    if len(dim) != 2:
        raise RuntimeError("linalg.matrix_norm: dim must be a 2-tuple. Got " + str(dim))
    p = float(ord)
    first = dim[0] % x.dim()
    second = dim[1] % x.dim()
    if abs(p) == 2.0:
        s = torch.linalg_svdvals(x.movedim(dim, [-2, -1]))
        r = (torch.sum(s, [-1]) if p > 0 and s.size(-1) == 0 else
             torch.amax(s, [-1], False) if p > 0 else torch.amin(s, [-1], False))
        if keepdim:
            r = r.unsqueeze(min(first, second)).unsqueeze(max(first, second))
        return r
    if abs(p) == 1.0:
        first, second = second, first
    elif abs(p) != math.inf:
        raise RuntimeError("linalg.matrix_norm: Order " + str(ord) + " not supported.")
    sums = torch.sum(torch.abs(x), [second], True)
    if p > 0:
        r = sums.sum([first], True) if sums.size(first) == 0 else torch.amax(sums, [first], True)
    else:
        r = torch.amin(sums, [first], True)
    if not keepdim:
        r = r.squeeze([first, second])
    return r
""")
op("aten::linalg_norm", family="linalg", shape="matrix_norm",
   variants={"out": "aten::linalg_norm.out"}, body="""
def norm(self: Tensor, ord: Optional[number], dim: Optional[List[int]], keepdim: bool,
         dtype: Optional[int]) -> Tensor:
    if ord is not None:
        if dim is not None and len(dim) == 2 or dim is None and self.dim() == 2:
            return torch.linalg_matrix_norm(self, ord, [-2, -1] if dim is None else dim, keepdim,
                                            dtype=dtype)
        return torch.linalg_vector_norm(self, ord, dim, keepdim, dtype=dtype)
    return torch.linalg_vector_norm(self, 2, dim, keepdim, dtype=dtype)
""")
op("aten::linalg_norm.ord_str", family="linalg", shape="matrix_norm",
   variants={"out": "aten::linalg_norm.ord_str_out"}, body="""
def norm(self: Tensor, ord: str, dim: Optional[List[int]], keepdim: bool,
         dtype: Optional[int]) -> Tensor:
    return torch.linalg_matrix_norm(self, ord, [-2, -1] if dim is None else dim, keepdim,
                                    dtype=dtype)
""")
op("aten::linalg_matrix_power", family="linalg", shape="matrix_power",
   variants={"out": "aten::linalg_matrix_power.out"}, body="""
def matrix_power(self: Tensor, n: int) -> Tensor:
    x = self
    k = n
    if n < 0:
        x = torch.linalg_inv(x)
        k = -n
    r = torch.eye(x.size(-1), dtype=x.dtype).expand(x.size())
    empty = True
    while k > 0:
        if k % 2 == 1:
            r = x if empty else torch.matmul(r, x)
            empty = False
        k = k // 2
        if k > 0:
            x = torch.matmul(x, x)
    return r.clone() if n == 0 or n == 1 else r
""")
op("aten::matrix_power", family="linalg", shape="matrix_power",
   variants={"out": "aten::matrix_power.out"}, body="""
def matrix_power(self: Tensor, n: int) -> Tensor:
    return torch.linalg_matrix_power(self, n)
""")
op("aten::linalg_pinv.atol_rtol_tensor", family="linalg", shape="pinv",
   variants={"out": "aten::linalg_pinv.atol_rtol_tensor_out"}, body="""
def pinv(self: Tensor, atol: Optional[Tensor], rtol: Optional[Tensor], hermitian: bool) -> Tensor:
    if self.numel() == 0:
        return torch.zeros_like(self.mT)
    real = (torch.float64 if self.dtype == torch.float64 or self.dtype == torch.complex128 else
            torch.float32)
    eps = 2.220446049250313e-16 if real == torch.float64 else 1.1920928955078125e-07
    a = torch.zeros([], dtype=real) if atol is None else atol.to(real)
    r = (torch.full([], max(self.size(-1), self.size(-2)) * eps, dtype=real) if rtol is None else
         rtol.to(real))
    if rtol is None and atol is not None:
        r = torch.where(a > 0, torch.zeros_like(r), r)
    if hermitian: # the lower triangle alone counts
        w, v = torch.linalg_eigh(self)
        size = w.abs()
        cut = torch.maximum(a.unsqueeze(-1), r.unsqueeze(-1) * torch.amax(size, [-1], True))
        kept = torch.where(size > cut, torch.reciprocal(w), torch.zeros_like(w))
        return torch.matmul(v * kept.unsqueeze(-2), v.mH)
    u, s, vh = torch.linalg_svd(self, False)
    cut = torch.maximum(a.unsqueeze(-1), r.unsqueeze(-1) * torch.amax(s, [-1], True))
    inverted = torch.where(s > cut, torch.reciprocal(s), torch.zeros_like(s))
    return torch.matmul(vh.mH * inverted.unsqueeze(-2), u.mH)
""")
op("aten::linalg_pinv.atol_rtol_float", family="linalg", shape="pinv",
   variants={"out": "aten::linalg_pinv.atol_rtol_float_out"}, body="""
def pinv(self: Tensor, atol: Optional[float], rtol: Optional[float], hermitian: bool) -> Tensor:
    a: Optional[Tensor] = None
    r: Optional[Tensor] = None
    if atol is not None:
        a = torch.full([], atol, dtype=torch.double)
    if rtol is not None:
        r = torch.full([], rtol, dtype=torch.double)
    return torch.linalg_pinv(self, atol=a, rtol=r, hermitian=hermitian)
""")
op("aten::linalg_pinv.rcond_tensor", family="linalg", shape="pinv",
   variants={"out": "aten::linalg_pinv.out_rcond_tensor"}, body="""
def pinv(self: Tensor, rcond: Tensor, hermitian: bool) -> Tensor:
    return torch.linalg_pinv(self, atol=torch.zeros_like(rcond), rtol=rcond, hermitian=hermitian)
""")
op("aten::linalg_pinv", family="linalg", shape="pinv", variants={"out": "aten::linalg_pinv.out"},
   body="""
def pinv(self: Tensor, rcond: float, hermitian: bool) -> Tensor:
    return torch.linalg_pinv(self, atol=0.0, rtol=rcond, hermitian=hermitian)
""")
op("aten::pinverse", family="linalg", shape="pinv", body="""
def pinverse(self: Tensor, rcond: float) -> Tensor:
    return torch.linalg_pinv(self, rcond, False)
""")
op("aten::linalg_multi_dot", family="linalg", shape="multi_dot",
   variants={"out": "aten::linalg_multi_dot.out"}, body="""
def multi_dot(tensors: List[Tensor]) -> Tensor:
    r = tensors[0]
    for i in range(1, len(tensors)):
        r = torch.matmul(r, tensors[i])
    return r
""")
op("aten::chain_matmul", family="linalg", shape="multi_dot", body="""
def chain_matmul(matrices: List[Tensor]) -> Tensor:
    return torch.linalg_multi_dot(matrices)
""")
op("aten::linalg_cross", family="linalg", shape="together",
   variants={"out": "aten::linalg_cross.out"}, body="""
def cross(self: Tensor, other: Tensor, dim: int) -> Tensor:
    if self.dim() != other.dim():
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    a, b = self, other
    if a.size(dim) == 3 and b.size(dim) == 3:
        a, b = torch.broadcast_tensors([self, other])
    else:
        raise RuntimeError("linalg.cross: inputs dimension " + str(dim) +
                           " must have length 3. Got " + str(a.size(dim))
                           + " and " + str(b.size(dim)))
    return (torch.roll(a, [-1], [dim]) * torch.roll(b, [-2], [dim]) - torch.roll(a, [-2], [dim]) *
            torch.roll(b, [-1], [dim]))
""")
op("aten::cross", family="linalg", shape="together", variants={"out": "aten::cross.out"}, body="""
def cross(self: Tensor, other: Tensor, dim: Optional[int]) -> Tensor:
    if dim is not None:
        return torch.linalg_cross(self, other, dim=dim)
    for d in range(self.dim()):
        if self.size(d) == 3:
            return torch.linalg_cross(self, other, dim=d)
    raise RuntimeError("no dimension of size 3 in input")
""")
op("aten::linalg_vecdot", family="linalg", shape="along",
   variants={"out": "aten::linalg_vecdot.out"}, body="""
def vecdot(x: Tensor, y: Tensor, dim: int) -> Tensor:
    return torch.sum(torch.conj(x) * y, [dim], False)
""")

# Facts about these operators that other parts read.
known("det", synonym_of="linalg_det")
known("inverse", synonym_of="linalg_inv")
known("matrix_exp", synonym_of="linalg_matrix_exp")
known("matrix_power", synonym_of="linalg_matrix_power")
known("cholesky cholesky_solve geqrf inverse linalg_cholesky linalg_cholesky_ex linalg_eig "
      "linalg_eigh linalg_eigvals linalg_eigvalsh linalg_inv linalg_inv_ex linalg_qr "
      "linalg_solve linalg_svd linalg_svdvals pinverse qr svd",
      autocast="float32")
known("linalg_vecdot", autocast="lower")
known("cross.*", script_autocast="float32")
known("chain_matmul.*", script_autocast="lower")

# What in-place and out= forms demand of what they write to (../README.md).
written("cast", "cholesky", "cholesky_solve", "geqrf", "linalg_matrix_power", "linalg_pinv")
written("apart", "cross", "linalg_cross")
written("overlap", "cholesky", "linalg_cholesky", "linalg_eigvalsh", "linalg_inv",
        "linalg_matrix_norm", "linalg_pinv", "linalg_solve", "linalg_solve_triangular",
        "linalg_svdvals")
