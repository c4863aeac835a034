"""Gradients of factorizations, and of what is made of them.

X.mH is the adjoint; the gradient G of A is what makes <grad, dX> equal to <G, dA>.
"""

helper("""
def solve_slopes(grad: Tensor, A: Tensor, B: Tensor, x: Tensor, left: bool,
                 needs: List[bool]) -> Tuple[Optional[Tensor], Tensor]:
    vector = B.dim() == 1 or (A.dim() - 1 == B.dim() and A.size()[:-1] == B.size())
    g = torch.linalg_solve(A.mH, grad, left=left)
    a: Optional[Tensor] = None
    if needs[0]:
        if vector:
            a = -(g.unsqueeze(-1) * x.unsqueeze(-2).conj())
        else:
            a = -torch.matmul(g, x.mH) if left else -torch.matmul(x.mH, g)
    return a, g
""")
helper("""
def det_slope(grad: Tensor, A: Tensor) -> Tensor:
    if A.numel() == 0:
        return torch.zeros_like(A)
    u, s, vh = torch.linalg_svd(A, False)
    one = torch.ones_like(s).narrow(-1, 0, 1)
    n = s.size(-1)
    before = torch.cumprod(torch.cat([one, s.narrow(-1, 0, n - 1)], -1), -1)
    after = torch.cumprod(torch.cat([one, s.flip([-1]).narrow(-1, 0, n - 1)], -1), -1).flip([-1])
    turn = torch.linalg_det(u) * torch.linalg_det(vh)
    return (torch.matmul(u * (before * after).unsqueeze(-2), vh) *
            (grad * turn.conj()).unsqueeze(-1).unsqueeze(-1))
""")
helper("""
def slogdet_slope(grad: Tensor, sign: Tensor, grad_sign: Tensor, A: Tensor) -> Tensor:
    g = torch.linalg_inv(A).mH
    if A.is_complex():
        return (g * torch.complex(grad,
                                  torch.imag(grad_sign * sign.conj())).unsqueeze(-1).unsqueeze(-1))
    return g * grad.unsqueeze(-1).unsqueeze(-1)
""")
helper("""
def lu_slope(gl: Tensor, gu: Tensor, p: Tensor, l: Tensor, u: Tensor) -> Tensor:
    m, n = l.size(-2), u.size(-1)
    k = min(m, n)
    l1, u1 = l.narrow(-2, 0, k), u.narrow(-1, 0, k)
    gl1, gu1 = gl.narrow(-2, 0, k), gu.narrow(-1, 0, k)
    low, high = torch.matmul(l1.mH, gl1), torch.matmul(gu1, u1.mH)
    if n > m:
        low = low - torch.matmul(gu.narrow(-1, k, n - k), u.narrow(-1, k, n - k).mH)
    if m > n:
        high = high - torch.matmul(l.narrow(-2, k, m - k).mH, gl.narrow(-2, k, m - k))
    g = torch.linalg_solve_triangular(l1.mH, low.tril(-1) + high.triu(), upper=True,
                                      unitriangular=True)
    g = torch.linalg_solve_triangular(u1.mH, g, upper=False, left=False)
    if n > m:
        more = torch.linalg_solve_triangular(l1.mH, gu.narrow(-1, k, n - k), upper=True,
                                             unitriangular=True)
        g = torch.cat([g, more], -1)
    if m > n:
        more = torch.linalg_solve_triangular(u1.mH, gl.narrow(-2, k, m - k), upper=False,
                                             left=False)
        g = torch.cat([g, more], -2)
    return torch.matmul(p, g)
""")
helper("""
def lu_factor_slope(grad: Tensor, lu: Tensor, pivots: Tensor) -> Tensor:
    k = min(lu.size(-1), lu.size(-2))
    p, l, u = torch.lu_unpack(lu, pivots)
    return lu_slope(grad.narrow(-1, 0, k).tril(-1), grad.narrow(-2, 0, k).triu(), p, l, u)
""")
helper("""
def cholesky_slope(grad: Tensor, result: Tensor, upper: bool) -> Tensor:
    l = result.mH if upper else result
    g = grad.mH if upper else grad
    half = torch.matmul(l.mH, g).tril()
    whole = (half + half.tril(-1).mH) * 0.5
    whole = torch.linalg_solve_triangular(l.mH, whole, upper=True)
    return torch.linalg_solve_triangular(l, whole, upper=False, left=False)
""")
helper("""
def triangle(x: Tensor, upper: bool, unitriangular: bool) -> Tensor:
    k = 1 if unitriangular else 0
    return x.triu(k) if upper else x.tril(-k)
""")
helper("""
def qr_slope(gq: Tensor, gr: Tensor, q: Tensor, r: Tensor, mode: str) -> Tensor:
    m, n = q.size(-2), r.size(-1)
    if mode == "r":
        raise RuntimeError("The derivative of linalg.qr depends on Q, which is not computed when "
                           "mode='r'. Please use linalg.qr(A, mode='reduced') if you are going to "
                           "require its derivative")
    if mode == "complete" and m > n:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and "
                           "nrows > ncols")
    wide = n > m
    u, gu, g = r, gr, gq
    if wide:
        u, gu = r.narrow(-1, 0, m), gr.narrow(-1, 0, m)
        g = g + torch.matmul(torch.matmul(q, r.narrow(-1, m, n - m)), gr.narrow(-1, m, n - m).mH)
    x = (torch.matmul(gu, u.mH) - torch.matmul(q.mH, g)).triu()
    x = x + x.triu(1).mH
    if x.is_complex():
        d = x.diagonal(0, -2, -1)
        x = x - torch.diag_embed(torch.complex(torch.zeros_like(torch.real(d)), torch.imag(d)))
    a = torch.linalg_solve_triangular(u.mH, g + torch.matmul(q, x), upper=False, left=False)
    return torch.cat([a, torch.matmul(q, gr.narrow(-1, m, n - m))], -1) if wide else a
""")
helper("""
def eigh_slope(gl: Tensor, gv: Tensor, l: Tensor, v: Tensor) -> Tensor:
    gaps = l.unsqueeze(-2) - l.unsqueeze(-1)
    same = torch.eye(l.size(-1), dtype=torch.bool)
    turn = torch.matmul(v.mH, gv)
    inner = (turn - turn.mH) * 0.5 / gaps.masked_fill(same, 1.0)
    inner = inner.masked_fill(same, 0.0) + torch.diag_embed(gl)
    return torch.matmul(torch.matmul(v, inner), v.mH)
""")
helper("""
def eig_slope(gl: Tensor, gv: Tensor, l: Tensor, v: Tensor) -> Tensor:
    along = torch.matmul(v.mH, gv)
    d = torch.real(along.diagonal(0, -2, -1))
    along = along - torch.matmul(v.mH, v) * d.unsqueeze(-2)
    gaps = (l.unsqueeze(-2) - l.unsqueeze(-1)).conj()
    same = torch.eye(l.size(-1), dtype=torch.bool)
    inner = (along / gaps.masked_fill(same, 1.0)).masked_fill(same, 0.0) + torch.diag_embed(gl)
    return torch.linalg_solve(v.mH, torch.matmul(inner, v.mH))
""")
helper("""
def svd_slope(gu: Tensor, gs: Tensor, gvh: Tensor, u: Tensor, s: Tensor, vh: Tensor) -> Tensor:
    k = s.size(-1)
    m, n = u.size(-2), vh.size(-1)
    a, b = u.narrow(-1, 0, k), vh.narrow(-2, 0, k)
    ga, gb = gu.narrow(-1, 0, k), gvh.narrow(-2, 0, k)
    left, right = torch.matmul(a.mH, ga), torch.matmul(b, gb.mH)
    x, y = left - left.mH, right - right.mH
    column, row = s.unsqueeze(-1), s.unsqueeze(-2)
    same = torch.eye(k, dtype=torch.bool)
    gaps = ((row - column) * (row + column)).masked_fill(same, 1.0)
    inner = ((x * row + column * y) / gaps).masked_fill(same, 0.0) + torch.diag_embed(gs)
    if x.is_complex():
        inner = inner + torch.diag_embed(x.diagonal(0, -2, -1) / (s * 2))
    g = torch.matmul(torch.matmul(a, inner), b)
    if m > k:
        g = g + torch.matmul((ga - torch.matmul(a, left)) / row, b)
    if n > k:
        g = g + torch.matmul(a, (gb - torch.matmul(right.mH, b)) / column)
    return g
""")
helper("""
def pinv_slope(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    g, p = grad.mH, result.mH
    a = torch.matmul(g, torch.matmul(result, p))
    b = torch.matmul(torch.matmul(p, result), g)
    whole = (a - torch.matmul(self, torch.matmul(result, a)) + b -
             torch.matmul(torch.matmul(b, result), self))
    return whole - torch.matmul(p, torch.matmul(grad, p))
""")
helper("""
def matrix_exp_slope(grad: Tensor, self: Tensor) -> Tensor:
    n = self.size(-1)
    a = self.mH
    top = torch.cat([a, grad], -1)
    both = torch.cat([top, torch.cat([torch.zeros_like(a), a], -1)], -2)
    return torch.linalg_matrix_exp(both).narrow(-2, 0, n).narrow(-1, n, n)
""")

INVERSE = "-{0}.mH.matmul({1}).matmul({0}.mH)"
SOLVE = "solve_slopes({0}, A, B, {1}, left, needs)"
LU = "lu_factor_slope(grad0, result0, result1)"
EIGH = "eigh_slope(grad0, grad1, result0, result1)"
SVD = "svd_slope(grad0, grad1, grad2, result0, result1, result2)"
grad("linalg_inv", A=INVERSE.format("result", "grad"))
grad("inverse", self=INVERSE.format("result", "grad"))
grad("linalg_inv_ex", A=INVERSE.format("result0", "grad0"))
grad("linalg_solve", {"A, B": SOLVE.format("grad", "result")})
grad("linalg_solve_ex _linalg_solve_ex", {"A, B": SOLVE.format("grad0", "result0")})
grad("det", self="det_slope(grad, self)")
grad("linalg_det", A="det_slope(grad, A)")
grad("_linalg_det", A="det_slope(grad0, A)")
grad("slogdet", self="slogdet_slope(grad1, result0, grad0, self)")
grad("linalg_slogdet _linalg_slogdet", A="slogdet_slope(grad1, result0, grad0, A)")
grad("logdet", self="torch.linalg_inv(self).mH * grad.unsqueeze(-1).unsqueeze(-1)")
grad("linalg_lu_factor linalg_lu_factor_ex", A=LU)
grad("linalg_lu", A="""
p = result0 if pivot else torch.eye(A.size(-2), dtype=A.dtype)
lu_slope(grad1, grad2, p, result1, result2)
""")
grad("lu_unpack", LU_data="""
m, n = LU_data.size(-2), LU_data.size(-1)
low, high = grad1.tril(-1), grad2.triu()
if m > n:
    high = torch.cat([high, torch.zeros(high.size()[:-2] + [m - n, n], dtype=high.dtype)], -2)
if n > m:
    low = torch.cat([low, torch.zeros(low.size()[:-2] + [m, n - m], dtype=low.dtype)], -1)
low + high
""")
grad("linalg_lu_solve", {"LU, B": """
g = torch.linalg_lu_solve(LU, pivots, grad, left=left, adjoint=not adjoint)
p, l, u = torch.lu_unpack(LU, pivots)
if left:
    a = torch.matmul(result, g.mH) if adjoint else torch.matmul(g, result.mH)
else:
    a = torch.matmul(g.mH, result) if adjoint else torch.matmul(result.mH, g)
a = -torch.matmul(p.mT, a)
torch.matmul(a, u.mH).tril(-1) + torch.matmul(l.mH, a).triu(), g
"""})
grad("linalg_cholesky cholesky", self="cholesky_slope(grad, result, upper)")
grad("linalg_cholesky_ex", self="cholesky_slope(grad0, result0, upper)")
grad("cholesky_solve", {"self, input2": """
g = torch.cholesky_solve(grad, input2, upper)
a = torch.matmul(g, result.mH)
a = -(a + a.mH)
g, torch.matmul(input2, a) if upper else torch.matmul(a, input2)
"""})
grad("linalg_solve_triangular", {"self, B": """
g = torch.linalg_solve_triangular(self.mH, grad, upper=not upper, left=left,
                                  unitriangular=unitriangular)
a = torch.matmul(g, result.mH) if left else torch.matmul(result.mH, g)
-triangle(a, upper, unitriangular), g
"""})
grad("linalg_qr", A="qr_slope(grad0, grad1, result0, result1, mode)")
grad("qr", self="qr_slope(grad0, grad1, result0, result1, 'reduced' if some else 'complete')")
grad("linalg_eigh", self=EIGH)
grad("_linalg_eigh", A=EIGH)
grad("linalg_eigvalsh", self="""
_, v = torch.linalg_eigh(self, UPLO)
torch.matmul(v * grad.unsqueeze(-2), v.mH)
""")
grad("linalg_eig", self="eig_slope(grad0, grad1, result0, result1)")
grad("linalg_eigvals", self="""
l, v = torch.linalg_eig(self)
eig_slope(grad, torch.zeros_like(v), l, v)
""")
grad("linalg_svd _linalg_svd", A=SVD)
grad("linalg_svdvals", A="""
u, _, vh = torch.linalg_svd(A, False)
torch.matmul(u * grad.unsqueeze(-2), vh)
""")
grad("svd", self="""
if not compute_uv:
    u, _, vh = torch.linalg_svd(self, False)
    return torch.matmul(u * grad1.unsqueeze(-2), vh)
svd_slope(grad0, grad1, grad2.mH, result0, result1, result2.mH)
""")
grad("linalg_pinv.atol_rtol_float linalg_pinv.atol_rtol_tensor",
     self="pinv_slope(grad, self, result)")
grad("linalg_matrix_exp matrix_exp", self="matrix_exp_slope(grad, self)")
grad("linalg_lstsq", {"self, b": """
wide = torch.complex128 if self.is_complex() else torch.double
vector = b.dim() == 1 or (self.dim() - 1 == b.dim() and self.size()[:-1] == b.size())
a, y, x, g = self.to(wide), b.to(wide), result0.to(wide), grad0.to(wide)
if vector:
    y, x, g = y.unsqueeze(-1), x.unsqueeze(-1), g.unsqueeze(-1)
p = torch.linalg_pinv(a)
gb = torch.matmul(p.mH, g)
ga = pinv_slope(torch.matmul(g, y.mH), a, p)
if grad1.numel() != 0:
    r = (torch.matmul(a, x) - y) * (grad1.unsqueeze(-2) * 2)
    ga, gb = ga + torch.matmul(r, x.mH), gb - r
ga, gb.squeeze(-1) if vector else gb
"""})
