"""Decompositions: operators that have kernels or formulas, over the operators that PyTorch's
run_decompositions leaves (src/export/decompose.c). Composites are decomposed by their bodies,
unless a body checks values, which an exported program cannot."""

decompose("linear", """
def linear(input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    turned = weight.permute([1, 0]) if weight.dim() == 2 else weight.unsqueeze(1)
    sizes = input.size()
    rows = input if input.dim() == 2 else input.reshape([-1, sizes[-1]])
    expands = bias is not None and (input.dim() == 2 or bias.dim() <= 1)
    if bias is not None and expands:
        out = torch.addmm(bias, rows, turned)
    else:
        out = torch.mm(rows, turned)
    if input.dim() != 2 or weight.dim() != 2:
        out = out.view(sizes[:-1] + weight.size()[:-1])
    if bias is not None and not expands:
        out = out + bias
    return out
""")

decompose("softmax.int", """
def softmax(self: Tensor, dim: int, dtype: Optional[int]) -> Tensor:
    return torch._softmax(self if dtype is None else self.to(dtype), dim, False)
""")

decompose("log_softmax.int", """
def log_softmax(self: Tensor, dim: int, dtype: Optional[int]) -> Tensor:
    return torch._log_softmax(self if dtype is None else self.to(dtype), dim, False)
""")

decompose("layer_norm", """
def layer_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor],
               bias: Optional[Tensor], eps: float, cudnn_enable: bool) -> Tensor:
    out, _, _ = torch.native_layer_norm(input, normalized_shape, weight, bias, eps)
    return out
""")

decompose("group_norm", """
def group_norm(input: Tensor, num_groups: int, weight: Optional[Tensor], bias: Optional[Tensor],
               eps: float, cudnn_enabled: bool) -> Tensor:
    n, c = input.size(0), input.size(1)
    inner = 1
    for size in input.size()[2:]:
        inner = inner * size
    out, _, _ = torch.native_group_norm(input, weight, bias, n, c, inner, num_groups, eps)
    return out
""")

decompose("batch_norm", """
def batch_norm(input: Tensor, weight: Optional[Tensor], bias: Optional[Tensor],
               running_mean: Optional[Tensor], running_var: Optional[Tensor], training: bool,
               momentum: float, eps: float, cudnn_enabled: bool) -> Tensor:
    if running_mean is None or running_var is None:
        out, _, _ = torch._native_batch_norm_legit(input, weight, bias, True, momentum, eps)
    elif training:
        out, _, _, mean, var = torch._native_batch_norm_legit_functional(
            input, weight, bias, running_mean, running_var, True, momentum, eps)
        running_mean.copy_(mean)
        running_var.copy_(var)
    else:
        out, _, _ = torch._native_batch_norm_legit_no_training(input, weight, bias, running_mean,
                                                               running_var, momentum, eps)
    return out
""")

decompose("instance_norm", """
def instance_norm(input: Tensor, weight: Optional[Tensor], bias: Optional[Tensor],
                  running_mean: Optional[Tensor], running_var: Optional[Tensor],
                  use_input_stats: bool, momentum: float, eps: float,
                  cudnn_enabled: bool) -> Tensor:
    sizes = input.size()
    n, c = sizes[0], sizes[1]
    flat = input.reshape([1, n * c] + sizes[2:])
    w = weight.repeat([n]) if weight is not None else None
    b = bias.repeat([n]) if bias is not None else None
    if use_input_stats:
        if running_mean is not None and running_var is not None:
            out, _, _, mean, var = torch._native_batch_norm_legit_functional(
                flat, w, b, running_mean.repeat([n]), running_var.repeat([n]), True, momentum, eps)
            running_mean.copy_(torch.mean(mean.view([n, c]), [0]))
            running_var.copy_(torch.mean(var.view([n, c]), [0]))
        else:
            out, _, _ = torch._native_batch_norm_legit(flat, w, b, True, momentum, eps)
    else:
        assert running_mean is not None and running_var is not None
        out, _, _ = torch._native_batch_norm_legit_no_training(
            flat, w, b, running_mean.repeat([n]), running_var.repeat([n]), momentum, eps)
    return out.view(sizes)
""")


def convolution(n: int) -> str:
    """The body of conv<n>d: an input without a batch gets one."""
    return f"""
def conv(input: Tensor, weight: Tensor, bias: Optional[Tensor], stride: List[int],
         padding: List[int], dilation: List[int], groups: int) -> Tensor:
    if input.dim() == {n + 2}:
        return torch.convolution(input, weight, bias, stride, padding, dilation, False, {[0] * n},
                                 groups)
    out = torch.convolution(input.unsqueeze(0), weight, bias, stride, padding, dilation, False,
                            {[0] * n}, groups)
    return torch.squeeze(out, [0])
"""


def turned_convolution(n: int) -> str:
    """The body of conv_transpose<n>d."""
    return f"""
def conv(input: Tensor, weight: Tensor, bias: Optional[Tensor], stride: List[int],
         padding: List[int], output_padding: List[int], groups: int,
         dilation: List[int]) -> Tensor:
    if input.dim() == {n + 2}:
        return torch.convolution(input, weight, bias, stride, padding, dilation, True,
                                 output_padding, groups)
    out = torch.convolution(input.unsqueeze(0), weight, bias, stride, padding, dilation, True,
                            output_padding, groups)
    return torch.squeeze(out, [0])
"""


for n in 1, 2, 3:
    decompose(f"conv{n}d", convolution(n))
    decompose(f"conv_transpose{n}d" + ("" if n == 1 else ".input"), turned_convolution(n))

PRODUCT = """
def matmul(self: Tensor, other: Tensor) -> Tensor:
    n, m = self.dim(), other.dim()
    a, b = self.size(), other.size()
    if n == 1 and m == 1:
        return torch.sum(torch.mul(self, other), [0])
    if n == 2 and m == 1:
        return torch.sum(torch.mul(self, other), [1])
    if n == 1 and m == 2:
        return torch.squeeze(torch.mm(self.unsqueeze(0), other), [0])
    if n == 2 and m == 2:
        return torch.mm(self, other)
    if m == 1:
        return torch.sum(torch.mul(self, other), [-1])
    if m == 2 and n > 2:
        return torch.mm(self.reshape([-1, a[-1]]), other).view(a[:-1] + b[1:])
    if n == 1:
        return torch.squeeze(torch.matmul(self.unsqueeze(0), other), [-2])
    batch = torch.broadcast_shapes(a[:-2], b[:-2]) if n > 2 else b[:-2]
    count = 1
    for size in batch:
        count = count * size
    left = self.expand(batch + a[-2:]).reshape([count, a[-2], a[-1]])
    right = other.expand(batch + b[-2:]).reshape([count, b[-2], b[-1]])
    return torch.bmm(left, right).view(batch + [a[-2], b[-1]])
"""
decompose("matmul", PRODUCT)

decompose("zeros", """
def zeros(size: List[int], dtype: Optional[int], layout: Optional[int], device: Optional[Device],
          pin_memory: Optional[bool]) -> Tensor:
    if dtype is None:
        return torch.full(size, 0.0, dtype=None, layout=layout, device=device,
                          pin_memory=pin_memory)
    return torch.full(size, 0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
""")
decompose("ones", """
def ones(size: List[int], dtype: Optional[int], layout: Optional[int], device: Optional[Device],
         pin_memory: Optional[bool]) -> Tensor:
    if dtype is None:
        return torch.full(size, 1.0, dtype=None, layout=layout, device=device,
                          pin_memory=pin_memory)
    return torch.full(size, 1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
""")
decompose("zeros_like", """
def zeros_like(self: Tensor, dtype: Optional[int], layout: Optional[int],
               device: Optional[Device], pin_memory: Optional[bool],
               memory_format: Optional[int]) -> Tensor:
    return torch.full_like(self, 0, dtype=dtype, layout=layout, device=device,
                           pin_memory=pin_memory, memory_format=memory_format)
""")
decompose("ones_like", """
def ones_like(self: Tensor, dtype: Optional[int], layout: Optional[int],
              device: Optional[Device], pin_memory: Optional[bool],
              memory_format: Optional[int]) -> Tensor:
    return torch.full_like(self, 1, dtype=dtype, layout=layout, device=device,
                           pin_memory=pin_memory, memory_format=memory_format)
""")
decompose("new_zeros", """
def new_zeros(self: Tensor, size: List[int], dtype: Optional[int], layout: Optional[int],
              device: Optional[Device], pin_memory: Optional[bool]) -> Tensor:
    return torch.full(size, 0, dtype=self.dtype if dtype is None else dtype, layout=layout,
                      device=self.device if device is None else device, pin_memory=pin_memory)
""")
decompose("new_full", """
def new_full(self: Tensor, size: List[int], fill_value: number, dtype: Optional[int],
             layout: Optional[int], device: Optional[Device],
             pin_memory: Optional[bool]) -> Tensor:
    return torch.full(size, fill_value, dtype=self.dtype if dtype is None else dtype,
                      layout=layout, device=self.device if device is None else device,
                      pin_memory=pin_memory)
""")
decompose("arange", """
def arange(end: number, dtype: Optional[int], layout: Optional[int], device: Optional[Device],
           pin_memory: Optional[bool]) -> Tensor:
    return torch.arange(0, end, 1, dtype=dtype, layout=layout, device=device,
                        pin_memory=pin_memory)
""")
decompose("arange.start", """
def arange(start: number, end: number, dtype: Optional[int], layout: Optional[int],
           device: Optional[Device], pin_memory: Optional[bool]) -> Tensor:
    return torch.arange(start, end, 1, dtype=dtype, layout=layout, device=device,
                        pin_memory=pin_memory)
""")

decompose("t", """
def t(self: Tensor) -> Tensor:
    return self.permute([1, 0]) if self.dim() == 2 else self.alias()
""")
decompose("transpose.int", """
def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    n = self.dim()
    dims = [i for i in range(n)]
    if n == 0:
        return self.alias()
    a = dim0 + n if dim0 < 0 else dim0
    b = dim1 + n if dim1 < 0 else dim1
    dims[a], dims[b] = b, a
    return self.permute(dims)
""")
decompose("squeeze.dim", """
def squeeze(self: Tensor, dim: int) -> Tensor:
    return torch.squeeze(self, [dim])
""")
decompose("stack", """
def stack(tensors: List[Tensor], dim: int) -> Tensor:
    return torch.cat([t.unsqueeze(dim) for t in tensors], dim)
""")
decompose("unbind.int", """
def unbind(self: Tensor, dim: int) -> List[Tensor]:
    return [self.select(dim, i) for i in range(self.size(dim))]
""")
decompose("split.Tensor", """
def split(self: Tensor, split_size: int, dim: int) -> List[Tensor]:
    size = self.size(dim)
    if split_size == 0:
        return [self.alias()]
    sizes: List[int] = []
    left = size
    while left > 0:
        sizes.append(min(left, split_size))
        left = left - split_size
    return torch.split_with_sizes(self, sizes, dim)
""")
decompose("sum", """
def sum(self: Tensor, dtype: Optional[int]) -> Tensor:
    none: List[int] = []
    return torch.sum(self, none, False, dtype=dtype)
""")
decompose("__and__.Tensor", """
def both(self: Tensor, other: Tensor) -> Tensor:
    return torch.bitwise_and(self, other)
""")
decompose("floor_divide", """
def floor_divide(self: Tensor, other: Tensor) -> Tensor:
    return torch.div(self, other, rounding_mode="floor")
""")
decompose("rsub.Scalar", """
def rsub(self: Tensor, other: number, alpha: number) -> Tensor:
    return torch.add(torch.mul(self, -alpha), other)
""")
decompose("clamp_min", """
def clamp_min(self: Tensor, min: number) -> Tensor:
    return torch.clamp(self, min, None)
""")
decompose("clamp_max", """
def clamp_max(self: Tensor, max: number) -> Tensor:
    return torch.clamp(self, None, max)
""")

decompose("max_pool2d", """
def max_pool2d(self: Tensor, kernel_size: List[int], stride: List[int], padding: List[int],
               dilation: List[int], ceil_mode: bool) -> Tensor:
    out, _ = torch.max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)
    return out
""")
decompose("max_pool3d", """
def max_pool3d(self: Tensor, kernel_size: List[int], stride: List[int], padding: List[int],
               dilation: List[int], ceil_mode: bool) -> Tensor:
    out, _ = torch.max_pool3d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)
    return out
""")
decompose("adaptive_avg_pool2d", """
def pool(self: Tensor, output_size: List[int]) -> Tensor:
    if output_size[0] == 1 and output_size[1] == 1:
        return torch.mean(self, [-1, -2], True)
    return torch._adaptive_avg_pool2d(self, output_size)
""")
decompose("adaptive_avg_pool3d", """
def pool(self: Tensor, output_size: List[int]) -> Tensor:
    if output_size[0] == 1 and output_size[1] == 1 and output_size[2] == 1:
        return torch.mean(self, [-1, -2, -3], True)
    return torch._adaptive_avg_pool3d(self, output_size)
""")
def padding(n: int, is_reflection: bool) -> str:
    """The body of reflection_pad<n>d or replication_pad<n>d: an index for each dimension."""
    at = "last - (last - at.abs()).abs()" if is_reflection else "torch.clamp(at, 0, last)"
    return f"""
def padding(self: Tensor, padding: List[int]) -> Tensor:
    n = self.dim()
    out = self
    for i in range({n}):
        size = self.size(n - 1 - i)
        last = size - 1
        at = torch.arange(-padding[2 * i], size + padding[2 * i + 1], 1, dtype=4,
                          device=self.device)
        index: List[Optional[Tensor]] = []
        for _ in range(n - 1 - i):
            index.append(None)
        index.append({at})
        out = torch.index(out, index)
    return out
"""


for n in 1, 2, 3:
    decompose(f"reflection_pad{n}d", padding(n, True))
    decompose(f"replication_pad{n}d", padding(n, False))

decompose("glu", """
def glu(self: Tensor, dim: int) -> Tensor:
    half = self.size(dim) // 2
    return torch.mul(torch.slice(self, dim, 0, half),
                     torch.sigmoid(torch.slice(self, dim, half, 2 * half)))
""")
decompose("reshape", """
def reshape(self: Tensor, shape: List[int]) -> Tensor:
    if self.is_contiguous():
        return self.view(shape)
    return torch.clone(self, memory_format=torch.contiguous_format).view(shape)
""")
decompose("contiguous", """
def contiguous(self: Tensor, memory_format: int) -> Tensor:
    if memory_format == 0 and self.is_contiguous():
        return self
    return torch.clone(self, memory_format=memory_format)
""")
decompose("dropout", """
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    if not train or p == 0.0:
        return input
    out, _ = torch.native_dropout(input, p, True)
    return out
""")
decompose("chunk unsafe_chunk", """
def chunk(self: Tensor, chunks: int, dim: int) -> List[Tensor]:
    size = self.size(dim)
    each = (size + chunks - 1) // chunks
    if each == 0:
        return torch.split_with_sizes(self, [0 for _ in range(chunks)], dim)
    return torch.split(self, each, dim)
""")
decompose("flatten.using_ints", """
def flatten(self: Tensor, start_dim: int, end_dim: int) -> Tensor:
    n = self.dim()
    if n == 0:
        return torch.reshape(self, [1])
    first = start_dim + n if start_dim < 0 else start_dim
    last = end_dim + n if end_dim < 0 else end_dim
    if first == last:
        return self
    count = 1
    for size in self.size()[first:last + 1]:
        count = count * size
    return torch.reshape(self, self.size()[:first] + [count] + self.size()[last + 1:])
""")
decompose("to.dtype", """
def to(self: Tensor, dtype: int, non_blocking: bool, copy: bool,
       memory_format: Optional[int]) -> Tensor:
    if self.dtype == dtype and not copy:
        return self
    return torch._to_copy(self, dtype=dtype, memory_format=memory_format)
""")
decompose("narrow", """
def narrow(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    first = start + self.size(dim) if start < 0 else start
    return torch.slice(self, dim, first, first + length)
""")
decompose("_prelu_kernel", """
def prelu(self: Tensor, weight: Tensor) -> Tensor:
    return torch.where(torch.gt(self, 0), self, torch.mul(weight, self))
""")
decompose("item", """
def item(self: Tensor) -> number:
    return torch._local_scalar_dense(self)
""")
decompose("broadcast_tensors", """
def broadcast(tensors: List[Tensor]) -> List[Tensor]:
    sizes: List[int] = []
    for t in tensors:
        sizes = torch.broadcast_shapes(sizes, t.size())
    return [t.expand(sizes) for t in tensors]
""")
decompose("_scaled_dot_product_flash_attention_for_cpu", """
def attention(query: Tensor, key: Tensor, value: Tensor, dropout_p: float, is_causal: bool,
              attn_mask: Optional[Tensor], scale: Optional[float]) -> Tuple[Tensor, Tensor]:
    by = float(query.size(-1)) ** -0.5 if scale is None else scale
    scores = torch.mul(torch.matmul(query, key.transpose(-2, -1)), by)
    if is_causal:
        rows = torch.arange(0, query.size(-2), 1, dtype=4, device=query.device)
        columns = torch.arange(0, key.size(-2), 1, dtype=4, device=query.device)
        later = torch.gt(columns.unsqueeze(0), rows.unsqueeze(1))
        scores = torch.where(later, torch.full_like(scores, float("-inf")), scores)
    if attn_mask is not None:
        if attn_mask.dtype == 11:
            scores = torch.where(attn_mask, scores, torch.full_like(scores, float("-inf")))
        else:
            scores = torch.add(scores, attn_mask)
    shares = torch._softmax(scores, -1, False)
    if attn_mask is not None: # may leave nothing of a row
        shares = torch._safe_softmax(scores, -1)
    out = torch.matmul(shares, value).permute([2, 0, 1, 3])
    laid_out = torch.clone(out, memory_format=torch.contiguous_format).permute([1, 2, 0, 3])
    return laid_out, torch.logsumexp(scores, [-1], False)
""")
# As the fused kernel, or as the one with dropout: no size decides, unlike in the operator's body.
decompose("scaled_dot_product_attention", """
def sdpa(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor], dropout_p: float,
         is_causal: bool, scale: Optional[float], enable_gqa: bool) -> Tensor:
    if query.dim() == 4 and dropout_p == 0.0 and not enable_gqa:
        out, _ = torch._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale)
        return out
    mask = attn_mask
    if attn_mask is not None:
        if attn_mask.dtype == 11:
            none: List[int] = []
            zero = torch.full(none, 0.0, dtype=query.dtype, device=query.device)
            least = torch.full(none, float("-inf"), dtype=query.dtype, device=query.device)
            mask = torch.where(attn_mask, zero, least)
    out, _ = torch._scaled_dot_product_attention_math(query, key, value, mask, dropout_p, is_causal,
                                                      None, scale=scale, enable_gqa=enable_gqa)
    return out
""")
decompose("std.dim", """
def std(self: Tensor, dim: Optional[List[int]], unbiased: bool, keepdim: bool) -> Tensor:
    return torch.sqrt(torch.var(self, dim, correction=1 if unbiased else 0, keepdim=keepdim))
""")
decompose("var.dim", """
def var(self: Tensor, dim: Optional[List[int]], unbiased: bool, keepdim: bool) -> Tensor:
    return torch.var(self, dim, correction=1 if unbiased else 0, keepdim=keepdim)
""")
decompose("unflatten.int", """
def unflatten(self: Tensor, dim: int, sizes: List[int]) -> Tensor:
    at = dim + self.dim() if dim < 0 else dim
    return self.view(self.size()[:at] + sizes + self.size()[at + 1:])
""")
decompose("eye", """
def eye(n: int, dtype: Optional[int], layout: Optional[int], device: Optional[Device],
        pin_memory: Optional[bool]) -> Tensor:
    at = torch.arange(0, n, 1, dtype=4, device=device)
    none: List[int] = []
    return torch.where(torch.eq(at.unsqueeze(1), at.unsqueeze(0)),
                       torch.full(none, 1.0, dtype=dtype, device=device),
                       torch.full(none, 0.0, dtype=dtype, device=device))
""")
decompose("expand_as", """
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    return self.expand(other.size())
""")
decompose("view_as", """
def view_as(self: Tensor, other: Tensor) -> Tensor:
    return self.view(other.size())
""")
decompose("split.sizes", """
def split(self: Tensor, split_size: List[int], dim: int) -> List[Tensor]:
    return torch.split_with_sizes(self, split_size, dim)
""")
decompose("type_as", """
def type_as(self: Tensor, other: Tensor) -> Tensor:
    return self.to(other.dtype)
""")
decompose("linalg_inv", """
def inv(A: Tensor) -> Tensor:
    out, _ = torch.linalg_inv_ex(A, check_errors=True)
    return out
""")
decompose("linalg_cholesky", """
def cholesky(self: Tensor, upper: bool) -> Tensor:
    out, _ = torch.linalg_cholesky_ex(self, upper=upper, check_errors=True)
    return out
""")
decompose("linalg_det", """
def det(A: Tensor) -> Tensor:
    out, _, _ = torch._linalg_det(A)
    return out
""")
decompose("logdet", """
def logdet(self: Tensor) -> Tensor:
    out, _, _ = torch._linalg_det(self)
    return torch.log(out)
""")
decompose("linalg_eigvalsh", """
def eigvalsh(self: Tensor, UPLO: str) -> Tensor:
    out, _ = torch._linalg_eigh(self, UPLO, False)
    return out
""")
decompose("linalg_solve", """
def solve(A: Tensor, B: Tensor, left: bool) -> Tensor:
    out, _, _, _ = torch._linalg_solve_ex(A, B, left=left, check_errors=True)
    return out
""")
decompose("linalg_svdvals", """
def svdvals(A: Tensor, driver: Optional[str]) -> Tensor:
    _, out, _ = torch._linalg_svd(A, False, False, driver=driver)
    return out
""")
decompose("embedding_bag.padding_idx", """
def bag(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool, mode: int,
        sparse: bool, per_sample_weights: Optional[Tensor], include_last_offset: bool,
        padding_idx: Optional[int]) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    at = -1
    if padding_idx is not None:
        at = padding_idx + weight.size(0) if padding_idx < 0 else padding_idx
    if weight.requires_grad:
        return torch._embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse,
                                    per_sample_weights, include_last_offset, at)
    return torch._embedding_bag_forward_only(weight, indices, offsets, scale_grad_by_freq, mode,
                                             sparse, per_sample_weights, include_last_offset, at)
""")
decompose("embedding_bag", """
def bag(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool, mode: int,
        sparse: bool, per_sample_weights: Optional[Tensor],
        include_last_offset: bool) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    if weight.requires_grad:
        return torch._embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse,
                                    per_sample_weights, include_last_offset, -1)
    return torch._embedding_bag_forward_only(weight, indices, offsets, scale_grad_by_freq, mode,
                                             sparse, per_sample_weights, include_last_offset, -1)
""")
decompose("index_add", """
def index_add(self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: number) -> Tensor:
    none: List[int] = []
    if self.dim() == 0:
        made = torch.index_add(torch.reshape(self, [1]), 0, torch.reshape(index, [1]),
                               torch.reshape(source, [1]), alpha=alpha)
        return torch.reshape(made, none)
    at: List[Optional[Tensor]] = []
    for _ in range(dim + self.dim() if dim < 0 else dim):
        at.append(None)
    at.append(index)
    return torch.index_put(self, at, source if alpha == 1 else torch.mul(source, alpha), True)
""")
decompose("nll_loss_nd nll_loss nll_loss2d", """
def nll_loss(self: Tensor, target: Tensor, weight: Optional[Tensor], reduction: int,
             ignore_index: int) -> Tensor:
    dim = 0 if self.dim() == 1 else 1
    ignored = torch.eq(target, ignore_index)
    kept = torch.where(ignored, torch.full_like(target, 0), target)
    loss = torch.neg(torch.squeeze(torch.gather(self, dim, kept.unsqueeze(dim)), [dim]))
    if weight is not None:
        at: List[Optional[Tensor]] = [kept]
        shares = torch.index(weight, at)
        loss = torch.mul(loss, shares)
    else:
        shares = torch.full_like(loss, 1)
    loss = torch.where(ignored, torch.full_like(loss, 0), loss)
    none: List[int] = []
    if reduction == 0:
        return loss
    if reduction == 2:
        return torch.sum(loss, none)
    shares = torch.where(ignored, torch.full_like(shares, 0), shares)
    return torch.div(torch.sum(loss, none), torch.sum(shares, none))
""")
decompose("linspace", """
def linspace(start: number, end: number, steps: int, dtype: Optional[int], layout: Optional[int],
             device: Optional[Device], pin_memory: Optional[bool]) -> Tensor:
    if steps < 2:
        return torch.full([steps], start, dtype=dtype, device=device)
    step = (float(end) - float(start)) / float(steps - 1)
    at = torch.arange(0.0, float(steps), 1.0, dtype=dtype, device=device)
    return torch.add(torch.mul(at, step), start)
""")
decompose("select_scatter", """
def select_scatter(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    at = index + self.size(dim) if index < 0 else index
    return torch.slice_scatter(self, src.unsqueeze(dim), dim, at, at + 1)
""")
decompose("fill.Tensor", """
def fill(self: Tensor, value: Tensor) -> Tensor:
    return torch.copy(self, value)
""")
decompose("fill.Scalar", """
def fill(self: Tensor, value: number) -> Tensor:
    return torch.full_like(self, value)
""")
decompose("empty_like", """
def empty_like(self: Tensor, dtype: Optional[int], layout: Optional[int],
               device: Optional[Device], pin_memory: Optional[bool],
               memory_format: Optional[int]) -> Tensor:
    return torch.empty(self.size(), dtype=self.dtype if dtype is None else dtype,
                       device=self.device if device is None else device)
""")
decompose("real", """
def real(self: Tensor) -> Tensor:
    return torch.select(torch.view_as_real(self), -1, 0) if self.is_complex() else self
""")
decompose("_unsafe_view", """
def unsafe_view(self: Tensor, size: List[int]) -> Tensor:
    return self.view(size)
""")
decompose("masked_fill.Scalar", """
def masked_fill(self: Tensor, mask: Tensor, value: number) -> Tensor:
    none: List[int] = []
    return torch.where(mask, torch.full(none, value, dtype=self.dtype, device=self.device), self)
""")
decompose("masked_fill.Tensor", """
def masked_fill(self: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    return torch.where(mask, value.to(self.dtype), self)
""")
decompose("new_ones", """
def new_ones(self: Tensor, size: List[int], dtype: Optional[int], layout: Optional[int],
             device: Optional[Device], pin_memory: Optional[bool]) -> Tensor:
    return torch.full(size, 1, dtype=self.dtype if dtype is None else dtype, layout=layout,
                      device=self.device if device is None else device, pin_memory=pin_memory)
""")
decompose("new_empty", """
def new_empty(self: Tensor, size: List[int], dtype: Optional[int], layout: Optional[int],
              device: Optional[Device], pin_memory: Optional[bool]) -> Tensor:
    return torch.empty(size, dtype=self.dtype if dtype is None else dtype,
                       device=self.device if device is None else device)
""")
decompose("rsub.Tensor", """
def rsub(self: Tensor, other: Tensor, alpha: number) -> Tensor:
    return torch.sub(other, self, alpha=alpha)
""")
for name, test in ("tril", "le"), ("triu", "ge"):
    decompose(name, f"""
def {name}(self: Tensor, diagonal: int) -> Tensor:
    rows = torch.arange(0, self.size(-2), 1, dtype=4, device=self.device).unsqueeze(1)
    columns = torch.arange(0, self.size(-1), 1, dtype=4, device=self.device).unsqueeze(0)
    keep = torch.{test}(torch.sub(columns, rows), diagonal)
    none: List[int] = []
    return torch.where(keep, self, torch.full(none, 0, dtype=self.dtype, device=self.device))
""")
decompose("xlogy.Tensor", """
def xlogy(self: Tensor, other: Tensor) -> Tensor:
    none: List[int] = []
    zero = torch.full(none, 0.0, dtype=other.dtype, device=other.device)
    product = torch.where(torch.eq(self, 0), zero, torch.mul(self, torch.log(other)))
    return torch.where(torch.isnan(other), other, product)
""")
decompose("all", """
def all(self: Tensor) -> Tensor:
    return torch.logical_not(torch.any(torch.logical_not(self)))
""")
decompose("binary_cross_entropy", """
def binary_cross_entropy(self: Tensor, target: Tensor, weight: Optional[Tensor],
                         reduction: int) -> Tensor:
    without = torch.clamp(torch.log1p(torch.neg(self)), -100, None)
    loss = torch.sub(torch.mul(torch.sub(target, 1), without),
                     torch.mul(target, torch.clamp(torch.log(self), -100, None)))
    if weight is not None:
        loss = torch.mul(loss, weight)
    if reduction == 1:
        return torch.mean(loss)
    none: List[int] = []
    return torch.sum(loss, none) if reduction == 2 else loss
""")
decompose("cosine_similarity", """
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int, eps: float) -> Tensor:
    a = torch.clamp(torch.linalg_vector_norm(x1, 2, [dim], True), eps, None)
    b = torch.clamp(torch.linalg_vector_norm(x2, 2, [dim], True), eps, None)
    return torch.sum(torch.mul(torch.div(x1, a), torch.div(x2, b)), [dim])
""")
decompose("norm.ScalarOpt_dim", """
def norm(self: Tensor, p: Optional[number], dim: List[int], keepdim: bool) -> Tensor:
    return torch.linalg_vector_norm(self, 2 if p is None else p, dim, keepdim)
""")
