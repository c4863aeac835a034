"""Attention (attention_ops.c, transformer.c, over attention.c)."""

# The kernel computes the results; the gradient is computed through the body.
op("aten::scaled_dot_product_attention", family="attention", shape="attention",
   kernel="kernel_sdpa", body="""
def sdpa(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor], dropout_p: float,
         is_causal: bool, scale: Optional[float],
         enable_gqa: bool) -> Tensor:
    plain = (attn_mask is None and dropout_p == 0.0 and not enable_gqa and query.dim() == 4 and
             query.size(-1) == value.size(-1))
    if (plain and query.numel() != 0 and key.numel() != 0 and
        query.size()[:-2] == key.size()[:-2] and key.size()[:-2] == value.size()[:-2]):
        return torch._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, is_causal,
            attn_mask=None, scale=scale)[0]
    mask = attn_mask
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            mask = torch.zeros_like(attn_mask,
                                    dtype=query.dtype).masked_fill(torch.logical_not(attn_mask),
                                        -math.inf)
    return torch._scaled_dot_product_attention_math(query, key, value, mask, dropout_p, is_causal,
        None, scale=scale, enable_gqa=enable_gqa)[0]
""")
op("aten::_fused_sdp_choice", family="attention", kernel="kernel__fused_sdp_choice")
# The kernel's sums have no formula; a second derivative is computed through these. (PyTorch refuses
# it.)
helper("""
def attention_sums(query: Tensor, key: Tensor, is_causal: bool, attn_mask: Optional[Tensor],
                   scale: Optional[float]) -> Tensor:
    q, k = query, key
    if query.dtype == torch.half or query.dtype == torch.bfloat16:
        q, k = q.to(torch.float), k.to(torch.float)
    if q.size(1) != k.size(1):
        k = k.repeat_interleave(q.size(1) // k.size(1), 1)
    scores = (torch.matmul(q, k.transpose(-2, -1)) *
              (1.0 / math.sqrt(float(query.size(-1))) if scale is None else scale))
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(attn_mask.logical_not(), float("-inf"))
        else:
            scores = scores + attn_mask
    if is_causal:
        seen = torch.ones([q.size(-2), k.size(-2)], dtype=torch.bool).tril()
        scores = scores.masked_fill(seen.logical_not(), float("-inf"))
    return torch.logsumexp(scores, [-1])
""")
op("aten::_scaled_dot_product_flash_attention_for_cpu", family="attention", shape="attention_sums",
   kernel="kernel__sdpa_flash_for_cpu", grad={
   "query, key, value": """
   if torch.is_grad_enabled():
       return torch._scaled_dot_product_flash_attention_for_cpu_backward(grad0, query, key, value,
             result0,
           attention_sums(query, key, is_causal, attn_mask,
                          scale), dropout_p, is_causal, attn_mask=attn_mask, scale=scale)
   torch._scaled_dot_product_flash_attention_for_cpu_backward(grad0, query, key, value, result0,
       result1, dropout_p, is_causal,
       attn_mask=attn_mask, scale=scale)
   """})
# Without fusion: for dropout, and for results that include the weights.
op("aten::_scaled_dot_product_attention_math", family="attention", body="""
def sdpa_math(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor],
              dropout_p: float, is_causal: bool,
              dropout_mask: Optional[Tensor], scale: Optional[float],
              enable_gqa: bool) -> Tuple[Tensor, Tensor]:
    factor = 1.0 / math.sqrt(float(query.size(-1)))
    if scale is not None:
        factor = scale
    dtype = query.dtype
    q, k, v = query, key, value
    if query.dtype == torch.half or query.dtype == torch.bfloat16:
        q, k, v = q.to(torch.float), k.to(torch.float), v.to(torch.float)
    if enable_gqa:
        k = k.repeat_interleave(q.size(-3) // k.size(-3), -3)
        v = v.repeat_interleave(q.size(-3) // v.size(-3), -3)
    root = math.sqrt(abs(factor))
    left = -root if factor < 0.0 else root
    scores = torch.matmul(q * left, k.transpose(-2, -1) * root)
    if is_causal:
        if attn_mask is not None:
            raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be "
                               "set when is_causal=True")
        seen = torch.ones([q.size(-2), k.size(-2)], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(torch.logical_not(seen), float("-inf"))
    if attn_mask is not None:
        scores = scores + attn_mask
    weights = torch._safe_softmax(scores, -1)
    if dropout_p > 0.0:
        if dropout_mask is not None:
            weights = weights.masked_fill(torch.logical_not(dropout_mask), 0.0)
            return torch.matmul(weights, v * (1.0 / (1.0 - dropout_p))).to(dtype), weights.to(dtype)
        weights = torch.dropout(weights, dropout_p, True)
    return torch.matmul(weights, v).to(dtype), weights.to(dtype)
""")
op("aten::_native_multi_head_attention", family="attention", shape="multi_head_attention",
   kernel="kernel__native_multi_head_attention", effects=["nested"],
   variants={"out": "aten::_native_multi_head_attention.out"})
# What nn.TransformerEncoderLayer runs in evaluation, also over nested tensors.
op("aten::_transformer_encoder_layer_fwd", family="attention", body="""
def transformer_encoder_layer_fwd(src: Tensor, embed_dim: int, num_heads: int, qkv_weight: Tensor,
        qkv_bias: Tensor, proj_weight: Tensor, proj_bias: Tensor, use_gelu: bool, norm_first: bool,
        eps: float, norm_weight_1: Tensor, norm_bias_1: Tensor, norm_weight_2: Tensor,
        norm_bias_2: Tensor, ffn_weight_1: Tensor, ffn_bias_1: Tensor, ffn_weight_2: Tensor,
        ffn_bias_2: Tensor, mask: Optional[Tensor], mask_type: Optional[int]) -> Tensor:
    x = src
    if norm_first:
        x = torch.layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps)
    x = torch._native_multi_head_attention(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias,
        proj_weight, proj_bias, mask, False, True, mask_type)[0].add_(src)
    if not norm_first:
        x = torch.layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps)
    hidden = x
    if norm_first:
        hidden = torch.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps)
    hidden = torch.linear(hidden, ffn_weight_1, ffn_bias_1)
    hidden = torch.gelu_(hidden) if use_gelu else torch.relu_(hidden)
    x = torch.linear(hidden, ffn_weight_2, ffn_bias_2).add_(x)
    return x if norm_first else torch.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps)
""", variants={"out": "aten::_transformer_encoder_layer_fwd.out"})

# What other parts ask about these.
known("_native_multi_head_attention scaled_dot_product_attention", autocast="lower")
