"""Gradients of products, distances, losses, dropout and random numbers (README.md, Gradients)."""

# -- Matrices and vectors: `b.mH` of a product a b is what takes its gradient back to a

helper("""
def mm_left(grad: Tensor, right: Tensor, alpha: number) -> Tensor:
    return times_conj(torch.matmul(grad, right.transpose(-2, -1).conj()), alpha)
""")
helper("""
def mm_right(grad: Tensor, left: Tensor, alpha: number) -> Tensor:
    a = left.to_sparse() if left.is_sparse_csr else left
    return times_conj(torch.matmul(a.transpose(-2, -1).conj(), grad), alpha)
""")
grad("mm", self="mm_left(grad, mat2, 1)", mat2="mm_right(grad, self, 1)")
grad("bmm", self="mm_left(grad, mat2, 1)", mat2="mm_right(grad, self, 1)")
grad("addmm", self="times_conj(grad, beta)", mat1="mm_left(grad, mat2, alpha)",
     mat2="mm_right(grad, mat1, alpha)")
grad("baddbmm", self="times_conj(grad, beta)", batch1="mm_left(grad, batch2, alpha)",
     batch2="mm_right(grad, batch1, alpha)")
grad("addbmm", self="times_conj(grad, beta)", batch1="mm_left(grad.unsqueeze(0), batch2, alpha)",
     batch2="mm_right(grad.unsqueeze(0), batch1, alpha)")
VECTOR = "times_conj(grad.unsqueeze(-1) * {}.conj(), {})"
grad("mv", self=VECTOR.format("vec", "1"),
     vec="torch.mv((self.to_sparse() if self.is_sparse_csr else self).t().conj(), grad)")
grad("addmv", self="times_conj(grad, beta)", mat=VECTOR.format("vec", "alpha"),
     vec="times_conj(torch.mv(mat.t().conj(), grad), alpha)")
grad("addr", self="times_conj(grad, beta)", vec1="times_conj(torch.mv(grad, vec2.conj()), alpha)",
     vec2="times_conj(torch.mv(grad.t(), vec1.conj()), alpha)")
grad("dot", self="grad * tensor.conj()", tensor="grad * self.conj()")
grad("vdot", self="grad.conj() * other", other="grad * self")
# Vectors are matrices of one row or one column while the product is taken.
helper("""
def matmul_gradient(grad: Tensor, self: Tensor, other: Tensor) -> Tuple[Tensor, Tensor]:
    a = self.unsqueeze(0) if self.dim() == 1 else self
    b = other.unsqueeze(-1) if other.dim() == 1 else other
    g = grad.unsqueeze(-1) if other.dim() == 1 else grad
    g = g.unsqueeze(-2) if self.dim() == 1 else g
    right = mm_right(g, a, 1)
    return mm_left(g, b, 1), right.squeeze(-1) if other.dim() == 1 else right
""")
grad("matmul linalg_matmul", {"self, other": "matmul_gradient(grad, self, other)"})
LINEAR = {"input": "torch.matmul(grad, weight.conj()) if weight.dim() > 1 else grad.unsqueeze(-1) "
                   "* weight.conj()",
          "weight": """
x = input.reshape([-1, input.size(-1)]).conj()
if weight_sizes[0] == 0 or len(weight_sizes) > 1:
    return torch.mm(grad.reshape([-1, weight_sizes[0]]).t(), x)
torch.mv(x.t(), grad.reshape([-1]))
""", "bias": "grad"}
grad("linear", LINEAR)

# Each operand's gradient is one einsum more: the result's subscripts and those of the others give
# its own.
helper("""
def einsum_terms(equation: str, dims: List[int]) -> List[str]:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    text = equation.replace(" ", "")
    sides = text.split("->")
    terms = sides[0].split(",")
    most = 0
    for i in range(len(terms)):
        if "..." in terms[i]:
            most = max(most, dims[i] - (len(terms[i]) - 3))
    free = ""
    for i in range(len(letters)):
        if letters[i] not in text and len(free) < most:
            free += letters[i]
    out: List[str] = []
    for i in range(len(terms)):
        n = dims[i] - (len(terms[i]) - 3)
        out.append(terms[i].replace("...", free[most - n:]) if "..." in terms[i] else terms[i])
    if len(sides) > 1:
        out.append(sides[1].replace("...", free))
    else:
        last = free
        for i in range(len(letters)):
            if sides[0].count(letters[i]) == 1:
                last += letters[i]
        out.append(last)
    return out
""")
helper("""
def einsum_operand(grad: Tensor, terms: List[str], tensors: List[Tensor], at: int) -> Tensor:
    mine = terms[at]
    known = terms[-1]
    names = [terms[-1]]
    values = [grad]
    for i in range(len(tensors)):
        if i != at:
            known += terms[i]
            names.append(terms[i])
            values.append(tensors[i].conj())
    once = ""
    have = ""
    for i in range(len(mine)):
        if mine[i] not in once:
            once += mine[i]
            if mine[i] in known:
                have += mine[i]
    out = torch.einsum(",".join(names) + "->" + have, values)
    for i in range(len(once)):
        if once[i] not in have:
            out = out.unsqueeze(i)
    sizes: List[int] = []
    for i in range(len(once)):
        sizes.append(max(out.size(i), tensors[at].size(mine.find(once[i]))))
    out = out.expand(sizes)
    seen = ""
    for i in range(len(mine)):
        if mine[i] in seen:
            first = mine.find(mine[i])
            n = tensors[at].size(i)
            shape = [1] * (out.dim() + 1)
            shape[first] = n
            shape[i] = n
            out = out.unsqueeze(i) * torch.eye(n, dtype=out.dtype).reshape(shape)
        seen += mine[i]
    return out
""")
grad("einsum", tensors="""
terms = einsum_terms(equation, [t.dim() for t in tensors])
[einsum_operand(grad, terms, tensors, i) for i in range(len(tensors))]
""")

# -- Distances

# |d| ** p summed: of each difference d, with g and r beside it.
helper("""
def distance_slope(d: Tensor, g: Tensor, r: Tensor, p: float) -> Tensor:
    if p == 0.0:
        return torch.zeros_like(d)
    if p == 1.0:
        return g * torch.sgn(d)
    if p == 2.0:
        return torch.where(r == 0, 0, g * d / r)
    if p == math.inf:
        return g * torch.sgn(d) * (d.abs() == r)
    if p < 2.0:
        return torch.where(torch.logical_or(r == 0, d == 0), 0, torch.sgn(d) *
                           torch.pow(d.abs(), p - 1) * g / torch.pow(r, p - 1))
    return torch.where(r == 0, 0, d * torch.pow(d.abs(), p - 2) * g / torch.pow(r, p - 1))
""")
CDIST = """
slope = distance_slope(x1.unsqueeze(-2) - x2.unsqueeze(-3), grad.unsqueeze(-1),
                       result.unsqueeze(-1), {})
(slope.sum([-2]), -slope.sum([-3]))
"""
grad("cdist _cdist_forward", {"x1, x2": CDIST.format("p")})
grad("_euclidean_dist", {"x1, x2": CDIST.format("2.0")})
grad("pdist _pdist_forward", self="""
pairs = torch.triu_indices(self.size(0), self.size(0), 1)
d = self.index_select(0, pairs[0]) - self.index_select(0, pairs[1])
slope = distance_slope(d, grad.unsqueeze(-1), result.unsqueeze(-1), p)
torch.zeros_like(self).index_add(0, pairs[0], slope).index_add(0, pairs[1], -slope)
""")

# -- Losses

helper("""
def nll_gradient(grad: Tensor, sizes: List[int], target: Tensor, weight: Optional[Tensor],
                 reduction: int, ignore: int) -> Tensor:
    d = 0 if len(sizes) == 1 else 1
    kept = target != ignore
    index = torch.where(kept, target, 0)
    w = torch.ones(target.size(), dtype=grad.dtype)
    if weight is not None:
        w = weight.index_select(0, index.reshape([-1])).reshape(target.size())
    w = torch.where(kept, w, 0)
    g = grad * w
    if reduction == 1:
        g = g / w.sum()
    return torch.zeros(sizes, dtype=g.dtype).scatter(d, index.unsqueeze(d), -g.unsqueeze(d))
""")
NLL = "nll_gradient({}, self_sizes, target, weight, reduction, ignore_index)"
grad("nll_loss nll_loss2d nll_loss_nd", self=NLL.format("grad"))
grad("nll_loss_forward nll_loss2d_forward", self=NLL.format("grad0"))
grad("multi_margin_loss", self="""
x = self.reshape([1, -1]) if self.dim() < 2 else self
t = target.reshape([-1, 1])
if self.numel() == 0:
    return torch.zeros_like(self)
n = x.size(1)
z = margin - x.gather(1, t) + x
slope = torch.where(z > 0, torch.ones_like(z) if p == 1 else 2 * z, 0)
if weight is not None:
    slope = slope * weight.index_select(0, t.reshape([-1])).unsqueeze(1)
slope = slope.scatter(1, t, 0) / n
slope = slope.scatter(1, t, -slope.sum([1], True))
g = grad.reshape([-1, 1]) / (x.size(0) if reduction == 1 else 1)
(slope * g).reshape(self.size())
""")
helper("""
def multilabel_margin_gradient(grad: Tensor, self: Tensor, target: Tensor,
                               reduction: int) -> Tensor:
    if self.numel() == 0:
        return torch.zeros_like(self)
    x = self if self.dim() == 2 else self.reshape([1, -1])
    t = target.reshape(x.size())
    n = x.size(1)
    valid = torch.cumsum((t < 0).to(torch.long), 1) == 0
    index = torch.where(valid, t, 0)
    is_target = torch.zeros_like(x).scatter_add(1, index, valid.to(x.dtype)) > 0
    z = 1 - x.gather(1, index).unsqueeze(2) + x.unsqueeze(1)
    counts = torch.logical_and(valid.unsqueeze(2), torch.logical_not(is_target).unsqueeze(1))
    hit = torch.logical_and(z > 0, counts).to(x.dtype)
    out = hit.sum([1]).scatter_add(1, index, -hit.sum([2])) / n
    g = grad.reshape([-1, 1]) / (x.size(0) if reduction == 1 else 1)
    return (out * g).reshape(self.size())
""")
grad("multilabel_margin_loss", self="multilabel_margin_gradient(grad, self, target, reduction)")
grad("multilabel_margin_loss_forward",
     self="multilabel_margin_gradient(grad0, self, target, reduction)")
grad("log_sigmoid_forward", self="grad0 * torch.sigmoid(-self)")
grad("binary_cross_entropy", {"self": """
g = (grad / (self.numel() if reduction == 1 else 1) *
     (self - target) / torch.clamp_min(self * (1 - self), 1e-12))
g * weight if weight is not None else g
""", "target": """
g = grad / (self.numel() if reduction == 1 else 1) * (torch.log1p(-self) - torch.log(self))
g * weight if weight is not None else g
"""})
# How likely path position s is at time t, given the target, takes the class of s away from what the
# probabilities say.  As in PyTorch this is the gradient of what log_softmax was applied to.
helper("""
def ctc_behind(lp: Tensor, path: Tensor) -> Tensor:
    n = path.numel()
    low = -math.inf
    at = lp.index_select(1, path)
    skips = torch.zeros([n], dtype=torch.bool)
    if n > 2:
        differs = torch.constant_pad_nd((path[2:] != path[:-2]).to(torch.long), [0, 2], 0)
        skips = torch.logical_and(differs == 1, torch.arange(n) % 2 == 1)
    row = torch.where(torch.arange(n) >= n - 2, at[-1], low)
    rows = [row]
    for i in range(at.size(0) - 1):
        next = torch.constant_pad_nd(row, [0, 2], low)
        ways = torch.stack([row, next[1:n + 1], torch.where(skips, next[2:n + 2], low)])
        row = at[at.size(0) - 2 - i] + torch.logsumexp(ways, [0])
        rows.append(row)
    return torch.flip(torch.stack(rows), [0])
""")
helper("""
def ctc_gradient(grad: Tensor, log_probs: Tensor, targets: Tensor, n_inputs: List[int],
                 n_targets: List[int], blank: int,
                 zero_infinity: bool, nll: Tensor, ahead: Tensor) -> Tensor:
    flat = log_probs.dim() == 2
    lps = log_probs.unsqueeze(1) if flat else log_probs
    losses = nll.reshape([-1])
    grads = grad.reshape([-1])
    columns: List[Tensor] = []
    start = 0
    for b in range(lps.size(1)):
        lp = lps.select(1, b).narrow(0, 0, n_inputs[b])
        n = n_targets[b]
        words = (targets.narrow(0, start, n) if targets.dim() == 1 else
                 targets.select(0, b).narrow(0, 0, n))
        start += n
        path = torch.full([2 * n + 1], blank, dtype=torch.long)
        if n > 0:
            path = path.index_put([torch.arange(n) * 2 + 1], words.to(torch.long))
        column = torch.zeros_like(lps.select(1, b))
        if n_inputs[b] > 0 and not (zero_infinity and bool(losses[b] == math.inf)):
            alpha = (ahead if ahead.dim() == 2 else ahead[b]).narrow(0, 0, n_inputs[b]).narrow(1,
                  0, 2 * n + 1)
            seen = torch.exp(alpha + ctc_behind(lp, path) - lp.index_select(1, path) + losses[b])
            part = (torch.exp(lp).index_add(1, path, -seen)) * grads[b]
            column = torch.constant_pad_nd(part, [0, 0, 0, lps.size(0) - n_inputs[b]], 0)
        columns.append(column)
    out = torch.stack(columns, 1)
    return out.squeeze(1) if flat else out
""")
helper("""
def ints_of(x: Tensor) -> List[int]:
    out: List[int] = []
    for i in range(x.numel()):
        out.append(int(x[i]))
    return out
""")
CTC = "ctc_gradient(grad0, log_probs, targets, {}, {}, blank, zero_infinity, result0, result1)"
grad("_ctc_loss", log_probs=CTC.format("input_lengths", "target_lengths"))
grad("_ctc_loss.Tensor", log_probs=CTC.format("ints_of(input_lengths)", "ints_of(target_lengths)"))

# -- Dropout and random numbers

grad("native_dropout",
     input="grad0 * result1 * (1 / (1 - p) if (train is None or train) and p < 1 else 1.0)")
grad("glu", self="""
half = self.chunk(2, dim)
s = torch.sigmoid(half[1])
torch.cat([grad * s, grad * half[0] * s * (1 - s)], dim)
""")
grad("rrelu_with_noise", self="""
if training:
    return grad * noise
torch.where(self > 0, grad, grad * ((float(lower) + float(upper)) / 2))
""")
grad("rrelu_with_noise_functional", self="""
if training:
    return grad0 * result1
torch.where(self > 0, grad0, grad0 * ((float(lower) + float(upper)) / 2))
""")
grad("native_dropout_backward", grad_output="grad * mask * scale")
grad("bernoulli bernoulli.p random random.from random.to uniform log_normal cauchy exponential "
     "geometric normal_functional bernoulli_.float normal_ "
     "poisson _standard_gamma", self="torch.zeros_like(grad)")
grad("bernoulli.Tensor", self="torch.zeros_like(grad)", p="torch.zeros_like(grad)")
grad("normal.Tensor_float", mean="torch.zeros_like(grad)")
grad("normal.float_Tensor", std="torch.zeros_like(grad)")
grad("normal.Tensor_Tensor", mean="torch.zeros_like(grad)", std="torch.zeros_like(grad)")
