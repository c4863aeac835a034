"""Distances and scaling by norms (distance.c, and over reductions)."""

op("aten::dist", family="distance", shape="dist", variants={"out": "aten::dist.out"}, body="""
def dist(self: Tensor, other: Tensor, p: number) -> Tensor:
    return torch.norm(self - other, p)
""")
op("aten::pairwise_distance", family="distance", shape="along", body="""
def pairwise_distance(x1: Tensor, x2: Tensor, p: float, eps: float, keepdim: bool) -> Tensor:
    return torch.norm(x1 - x2 + eps, p, [max(x1.dim(), x2.dim()) - 1], keepdim)
""")
op("aten::cosine_similarity", family="distance", shape="along", body="""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int, eps: float) -> Tensor:
    dtype = torch.result_type(x1, x2)
    pair = torch.broadcast_tensors([x1.to(dtype), x2.to(dtype)])
    a = pair[0]
    b = pair[1]
    if not a.is_floating_point():
        raise RuntimeError("expected common dtype to be floating point, yet common dtype is " +
                           str(dtype))
    na = torch.clamp_min(torch.linalg_vector_norm(a, 2, [dim], True), eps)
    nb = torch.clamp_min(torch.linalg_vector_norm(b, 2, [dim], True), eps)
    return torch.sum((a / na) * (b / nb), [dim], False)
""")
op("aten::renorm", family="distance", shape="like", variants={"inplace": "aten::renorm_",
                                                              "out": "aten::renorm.out"}, body="""
def renorm(self: Tensor, p: number, dim: int, maxnorm: number) -> Tensor:
    n = self.dim()
    if float(p) <= 0.0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if float(maxnorm) < 0.0:
        raise RuntimeError("renorm: expected maxnorm to be >= 0 but got " + str(float(maxnorm)))
    if n <= 1:
        raise RuntimeError("renorm: input needs at least 2 dimensions, got " + str(n) +
                           " dimensions")
    if dim < -n or dim >= n:
        raise IndexError("Dimension out of range (expected to be in range of [" + str(-n) + ", " +
                         str(n - 1) + "], but got " + str(dim) + ")")
    others: List[int] = []
    for d in range(n):
        if d != dim % n:
            others.append(d)
    x = (self.to(torch.float32) if self.dtype == torch.float16 or self.dtype == torch.bfloat16 else
         self)
    norm = torch.linalg_vector_norm(x, p, others, True)
    factor = torch.where(norm > maxnorm, maxnorm / (norm + 1e-7), torch.ones_like(norm))
    return (self * factor.to(self.dtype)).contiguous()
""")

op("aten::cdist", family="distance", shape="cdist", results="rule", kernel="kernel_cdist")
op("aten::_cdist_forward", family="distance", shape="cdist", results="rule", kernel="kernel_cdist",
   variants={"out": "aten::_cdist_forward.out"})
op("aten::_euclidean_dist", family="distance", shape="cdist", results="rule",
   kernel="kernel_euclidean_dist", variants={"out": "aten::_euclidean_dist.out"})
op("aten::pdist", family="distance", shape="pdist", results="rule", kernel="kernel_pdist")
op("aten::_pdist_forward", family="distance", shape="pdist", results="rule", kernel="kernel_pdist",
   variants={"out": "aten::_pdist_forward.out"})

op("aten::norm_except_dim", family="distance", shape="norm_except_dim", body="""
def norm_except_dim(v: Tensor, pow: int, dim: int) -> Tensor:
    if dim == -1:
        return torch.norm(v, pow)
    others: List[int] = []
    for d in range(v.dim()):
        if d != dim:
            others.append(d)
    if len(others) == 0:
        return torch.abs(v)
    return torch.norm(v, pow, others, True)
""")
op("aten::_weight_norm", family="distance", shape="together", body="""
def weight_norm(v: Tensor, g: Tensor, dim: int) -> Tensor:
    return v * (g / torch.norm_except_dim(v, 2, dim))
""")
op("aten::_weight_norm_interface", family="distance",
   variants={"out": "aten::_weight_norm_interface.out"}, body="""
def weight_norm_interface(v: Tensor, g: Tensor, dim: int) -> Tuple[Tensor, Tensor]:
    norm = torch.norm_except_dim(v, 2, dim)
    return v * (g / norm), norm.to(torch.float32) if g.dtype == torch.bfloat16 else norm
""")
op("aten::trace", family="reduction", shape="trace", variants={"out": "aten::trace.out"}, body="""
def trace(self: Tensor) -> Tensor:
    if self.dim() != 2:
        raise RuntimeError("trace: expected a matrix, but got tensor with dim " + str(self.dim()))
    return torch.sum(torch.diagonal(self))
""")

# Facts about these operators that other parts read.
known("cdist trace", autocast="float32")
known("cdist.* cosine_similarity.* dist.* pdist.* renorm.*", script_autocast="float32")
