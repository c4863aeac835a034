"""Operators built from factorizations (linalg.py): solving with them, ranks, condition numbers,
least squares.

LAPACK's results are in column-major order, and so are these: .mT.contiguous().mT.
"""


def matrices(full, body, shape=None, **variants):
    op(f"aten::{full}", family="linalg", shape=shape, body=body, variants={k: f"aten::{v}" for k,
        v in variants.items()})


# -- LU
# --------------------------------------------------------------------------------------------------

matrices("lu_unpack", """
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool,
              unpack_pivots: bool) -> Tuple[Tensor, Tensor, Tensor]:
    if unpack_pivots and LU_pivots.dtype != torch.int32:
        raise RuntimeError("torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of "
                           "torch.int32 dtype.Note: this function is intended to be used with the "
                           "output produced by torch.linalg.lu_factor")
    m, n = LU_data.size(-2), LU_data.size(-1)
    k = min(m, n)
    p = torch.empty([0], dtype=LU_data.dtype)
    l = torch.empty([0], dtype=LU_data.dtype)
    u = torch.empty([0], dtype=LU_data.dtype)
    if unpack_data:
        l = torch.tril(LU_data.narrow(-1, 0, k), -1) + torch.eye(m, k, dtype=LU_data.dtype)
        u = torch.triu(LU_data.narrow(-2, 0, k))
    if unpack_pivots:
        batch = LU_pivots.size()[:-1]
        count = 1
        for size in batch:
            count *= size
        swaps = LU_pivots.reshape([count, LU_pivots.size(-1)]).to(torch.int64) - 1
        rows = torch.arange(m).expand([swaps.size(0), m]).contiguous()
        for i in range(swaps.size(1)):
            other = swaps.narrow(1, i, 1)
            mine = rows.narrow(1, i, 1).clone()
            rows.narrow(1, i, 1).copy_(torch.gather(rows, 1, other))
            rows.scatter_(1, other, mine)
        p = torch.scatter(torch.zeros([swaps.size(0), m, m], dtype=LU_data.dtype), 1,
                          rows.unsqueeze(1), 1).reshape(batch + [m, m])
    return p, l, u
""", out="lu_unpack.out", shape="lu_unpack")
matrices("linalg_lu", """
def linalg_lu(A: Tensor, pivot: bool) -> Tuple[Tensor, Tensor, Tensor]:
    lu, pivots, info = torch.linalg_lu_factor_ex(A, pivot=pivot)
    return torch.lu_unpack(lu, pivots, True, pivot)
""", out="linalg_lu.out", shape="lu")
matrices("linalg_lu_solve", """
def linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool) -> Tensor:
    if not left:
        return torch.linalg_lu_solve(LU, pivots, B.mT.conj(), left=True,
                                     adjoint=not adjoint).mT.conj()
    p, l, u = torch.lu_unpack(LU, pivots)
    if adjoint:
        y = torch.linalg_solve_triangular(u.mT.conj(), B, upper=False)
        return torch.matmul(p, torch.linalg_solve_triangular(l.mT.conj(), y, upper=True,
            unitriangular=True)).mT.contiguous().mT
    y = torch.linalg_solve_triangular(l, torch.matmul(p.mT, B), upper=False, unitriangular=True)
    return torch.linalg_solve_triangular(u, y, upper=True).mT.contiguous().mT
""", out="linalg_lu_solve.out", shape="solve_third")
matrices("lu_solve", """
def lu_solve(self: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    return torch.linalg_lu_solve(LU_data, LU_pivots, self)
""", out="lu_solve.out", shape="solve_first")

# -- Triangles
# ----------------------------------------------------------------------------------------------

matrices("cholesky_inverse", """
def cholesky_inverse(self: Tensor, upper: bool) -> Tensor:
    return torch.cholesky_solve(torch.eye(self.size(-1), dtype=self.dtype).expand(self.size()),
                                self, upper).mT.contiguous().mT
""", out="cholesky_inverse.out", shape="matrix_columns")
matrices("triangular_solve", """
def triangular_solve(self: Tensor, A: Tensor, upper: bool, transpose: bool,
                     unitriangular: bool) -> Tuple[Tensor, Tensor]:
    x = torch.linalg_solve_triangular(A.mT if transpose else A, self, upper=upper != transpose,
                                      unitriangular=unitriangular)
    sizes = x.size()[:-2] + A.size()[-2:]
    return x.mT.contiguous().mT, A.expand(sizes).mT.clone(memory_format=torch.contiguous_format).mT
""", out="triangular_solve.X", shape="triangular_solve")

# -- Reflections
# --------------------------------------------------------------------------------------------

HOUSEHOLDER = """
def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    m, n = input.size(-2), input.size(-1)
    if input.dim() < 2:
        raise RuntimeError("torch.linalg.householder_product: input must have at least 2 "
                           "dimensions.")
    if m < n:
        raise RuntimeError("torch.linalg.householder_product: input.shape[-2] must be greater than "
                           "or equal to input.shape[-1]")
    if n < tau.size(-1):
        raise RuntimeError("torch.linalg.householder_product: input.shape[-1] must be greater than "
                           "or equal to tau.shape[-1]")
    v = torch.tril(input, -1) + torch.eye(m, n, dtype=input.dtype)
    q = torch.eye(m, n, dtype=input.dtype).expand(input.size()).clone()
    for k in range(tau.size(-1)):
        i = tau.size(-1) - 1 - k
        w = v.narrow(-1, i, 1)
        q = q - tau.narrow(-1, i, 1).unsqueeze(-1) * torch.matmul(w, torch.matmul(w.mT.conj(), q))
    return q.mT.contiguous().mT
"""
matrices("linalg_householder_product", HOUSEHOLDER, out="linalg_householder_product.out",
         shape="matrix_columns")
matrices("orgqr", HOUSEHOLDER.replace("input: Tensor, tau: Tensor",
                                      "self: Tensor, input2: Tensor").replace(
    "    m, n", "    input = self\n    tau = input2\n    m, n", 1), out="orgqr.out",
    shape="matrix_columns")
matrices("ormqr", """
def ormqr(self: Tensor, input2: Tensor, input3: Tensor, left: bool, transpose: bool) -> Tensor:
    m = input3.size(-2) if left else input3.size(-1)
    k = input2.size(-1)
    v = torch.tril(self, -1) + torch.eye(self.size(-2), self.size(-1), dtype=self.dtype)
    out = input3
    for step in range(k):
        i = k - 1 - step if left != transpose else step
        w = v.narrow(-1, i, 1)
        t = input2.narrow(-1, i, 1).unsqueeze(-1)
        if transpose:
            t = t.conj()
        if left:
            out = out - t * torch.matmul(w, torch.matmul(w.mT.conj(), out))
        else:
            out = out - t * torch.matmul(torch.matmul(out, w), w.mT.conj())
    return out.mT.clone(memory_format=torch.contiguous_format).mT
""", out="ormqr.out", shape="columns_third")

# -- Ranks and condition numbers
# --------------------------------------------------------------------------------

RANK = """
def matrix_rank(ARGUMENTS) -> Tensor:
    s = torch.abs(torch.linalg_eigvalsh(x)) if hermitian else torch.linalg_svdvals(x)
    if s.size(-1) == 0:
        return torch.zeros(s.size()[:-1], dtype=torch.int64)
    eps = ((2.220446049250313e-16 if s.dtype == torch.double else 1.1920928955078125e-07) *
           max(x.size(-2), x.size(-1)))
    LIMITS
    bound = torch.maximum(a.unsqueeze(-1).to(s.dtype), r.unsqueeze(-1).to(s.dtype) *
                          torch.amax(s, [-1], True))
    return torch.sum(s > bound, [-1])
"""
matrices("linalg_matrix_rank.atol_rtol_tensor", RANK.replace(
    "ARGUMENTS",
    "input: Tensor, atol: Optional[Tensor], rtol: Optional[Tensor], hermitian: bool").replace(
    "    s =", "    x = input\n    s =", 1).replace("LIMITS",
        """a = torch.zeros([], dtype=s.dtype) if atol is None else atol
    r = torch.full([], eps, dtype=s.dtype) if rtol is None else rtol
    if rtol is None and atol is not None:
        r = torch.where(a > 0, torch.zeros_like(a, dtype=s.dtype), r)"""),
    out="linalg_matrix_rank.atol_rtol_tensor_out", shape="matrix_rank")
matrices("linalg_matrix_rank.atol_rtol_float", """
def matrix_rank(self: Tensor, atol: Optional[float], rtol: Optional[float],
                hermitian: bool) -> Tensor:
    a: Optional[Tensor] = None
    r: Optional[Tensor] = None
    if atol is not None:
        a = torch.full([], atol, dtype=torch.double)
    if rtol is not None:
        r = torch.full([], rtol, dtype=torch.double)
    return torch.linalg_matrix_rank(self, atol=a, rtol=r, hermitian=hermitian)
""", out="linalg_matrix_rank.atol_rtol_float_out", shape="matrix_rank")
matrices("linalg_matrix_rank", """
def matrix_rank(self: Tensor, tol: float, hermitian: bool) -> Tensor:
    return torch.linalg_matrix_rank(self, atol=torch.full([], tol, dtype=torch.double),
                                    rtol=torch.zeros([], dtype=torch.double), hermitian=hermitian)
""", out="linalg_matrix_rank.out", shape="matrix_rank")
matrices("linalg_matrix_rank.tol_tensor", """
def matrix_rank(input: Tensor, tol: Tensor, hermitian: bool) -> Tensor:
    return torch.linalg_matrix_rank(input, atol=tol, rtol=torch.zeros_like(tol),
                                    hermitian=hermitian)
""", out="linalg_matrix_rank.out_tol_tensor", shape="matrix_rank")
COND = """
def linalg_cond(ARGUMENTS) -> Tensor:
    if self.dim() < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    SPECTRAL
    if self.size(-1) != self.size(-2):
        raise RuntimeError("linalg.cond(ord=" + str(p) +
              "): A must be batches of square matrices, but they are "
              + str(self.size(-2)) + " by " + str(self.size(-1)) + " matrices")
    if self.numel() == 0:
        return torch.zeros(self.size()[:-2], dtype=self.dtype)
    inverse, info = torch.linalg_inv_ex(self)
    c = torch.linalg_matrix_norm(self, p, [-2, -1]) * torch.linalg_matrix_norm(inverse, p, [-2, -1])
    return torch.where(info > 0, torch.full_like(c, float("inf")), c)
"""
matrices("linalg_cond", COND.replace("ARGUMENTS",
                                     "self: Tensor, p: Optional[number]").replace("SPECTRAL",
                                         """if p is None or float(p) == 2.0 or float(p) == -2.0:
        s = torch.linalg_svdvals(self)
        if self.numel() == 0:
            return torch.zeros(self.size()[:-2], dtype=s.dtype)
        big, small = s.select(-1, 0), s.select(-1, -1)
        return small / big if p is not None and float(p) < 0.0 else big / small"""),
        out="linalg_cond.out", shape="cond")
matrices("linalg_cond.p_str", COND.replace("ARGUMENTS", "self: Tensor, p: str").replace("SPECTRAL",
    """if p == "nuc" and self.numel() != 0:
        s = torch.linalg_svdvals(self)
        return torch.sum(s, [-1]) * torch.sum(1 / s, [-1])"""), out="linalg_cond.p_str_out",
        shape="cond")

# -- Least squares, tensors as matrices
# ------------------------------------------------------------------------

matrices("linalg_lstsq", """
def linalg_lstsq(self: Tensor, b: Tensor, rcond: Optional[float],
                 driver: Optional[str]) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    m, n = self.size(-2), self.size(-1)
    how = "gelsy" if driver is None else driver
    if how != "gels" and how != "gelsy" and how != "gelsd" and how != "gelss":
        raise RuntimeError("torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, "
                           "gelsd, gelss)")
    vector = b.dim() == 1 or (self.dim() - 1 == b.dim() and self.size()[:-1] == b.size())
    y = b.unsqueeze(-1) if vector else b
    if y.size(-2) != m:
        raise RuntimeError("torch.linalg.lstsq: input.size(-2) should match other.size(-" +
                           ("1" if vector else "2") + ")")
    u, s, vh = torch.linalg_svd(self, False)
    eps = (2.220446049250313e-16 if s.dtype == torch.double else 1.1920928955078125e-07) * max(m, n)
    limit = eps if rcond is None or rcond < 0.0 else rcond
    none = torch.empty([0], dtype=s.dtype)
    rank = torch.empty([0], dtype=torch.int64)
    keep = torch.ones_like(s, dtype=torch.bool)
    if s.size(-1) > 0 and how != "gels":
        keep = s > limit * torch.amax(s, [-1], True)
    if how != "gels":
        rank = torch.sum(keep, [-1])
    inverse = torch.where(keep, 1 / s, torch.zeros_like(s))
    x = torch.matmul(vh.mT.conj(), inverse.unsqueeze(-1) * torch.matmul(u.mT.conj(), y))
    residuals = none
    if m > n and how != "gelsy" and bool(torch.all(torch.sum(keep, [-1]) == n)):
        r = torch.matmul(self, x) - y
        residuals = torch.sum(torch.real(r * r.conj()) if r.is_complex() else r * r, [-2])
    columns = torch.zeros(x.size()[:-2] + [max(m, n), x.size(-1)],
                          dtype=x.dtype).mT.contiguous().mT.narrow(-2, 0, n).copy_(x)
    return (columns.squeeze(-1) if vector else columns, residuals, rank, s if how == "gelsd" or
            how == "gelss" else none)
""", out="linalg_lstsq.out")
matrices("linalg_tensorinv", """
def linalg_tensorinv(self: Tensor, ind: int) -> Tensor:
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind', but got " + str(ind))
    rows, cols = 1, 1
    for d in range(self.dim()):
        if d < ind:
            rows *= self.size(d)
        else:
            cols *= self.size(d)
    if rows != cols:
        raise RuntimeError("Expected self to satisfy the requirement prod(self.shape[ind:]) == "
                           "prod(self.shape[:ind]), but got " + str(cols) + " != " + str(rows))
    return torch.linalg_inv(self.reshape([rows, cols])).reshape(self.size()[ind:] +
        self.size()[:ind])
""", out="linalg_tensorinv.out", shape="tensorinv")
matrices("linalg_tensorsolve", """
def linalg_tensorsolve(self: Tensor, other: Tensor, dims: Optional[List[int]]) -> Tensor:
    x = self
    if dims is not None:
        last: List[int] = []
        for i in range(len(dims)):
            last.append(self.dim() - len(dims) + i)
        x = torch.movedim(self, dims, last)
    shape = x.size()[other.dim():]
    n = 1
    for size in shape:
        n *= size
    if other.numel() != n:
        raise RuntimeError("Expected self to satisfy the requirement prod(self.shape[other.ndim:]) "
                           "== prod(self.shape[:other.ndim]), but got " + str(n) + " != "
                           + str(other.numel()))
    return torch.linalg_solve(x.reshape([other.numel(), n]), other.flatten()).reshape(shape)
""", out="linalg_tensorsolve.out")
op("aten::_lu_with_info", family="linalg", body="""
def lu_with_info(self: Tensor, pivot: bool, check_errors: bool) -> Tuple[Tensor, Tensor, Tensor]:
    return torch.linalg_lu_factor_ex(self, pivot=pivot, check_errors=check_errors)
""")

# Facts about these operators that other parts read.
known("orgqr", synonym_of="linalg_householder_product")
known("_lu_with_info cholesky_inverse linalg_cond linalg_cond.p_str "
      "linalg_householder_product linalg_lstsq linalg_matrix_rank "
      "linalg_matrix_rank.atol_rtol_float linalg_matrix_rank.atol_rtol_tensor "
      "linalg_matrix_rank.tol_tensor linalg_tensorinv linalg_tensorsolve lu_solve orgqr ormqr "
      "triangular_solve",
      autocast="float32")

# What in-place and out= forms demand of what they write to (../README.md).
written("cast", "cholesky_inverse", "linalg_cond", "linalg_householder_product", "linalg_lstsq",
        "linalg_matrix_rank", "linalg_tensorinv", "linalg_tensorsolve")
written("overlap", "linalg_householder_product", "linalg_lu_solve", "linalg_tensorinv",
        "linalg_tensorsolve", "lu_solve", "ormqr")
