"""Rows looked up by index (embedding.c)."""

op("aten::embedding", family="embedding", shape="embedding", results="rule",
   kernel="kernel_embedding", grad={
   "weight": """
if sparse:
    made = torch.embedding_sparse_backward(grad, indices, weight.size(0), padding_idx,
                                           scale_grad_by_freq)
else:
    made = torch.embedding_dense_backward(grad, indices, weight.size(0), padding_idx,
                                          scale_grad_by_freq)
made
"""}, variants={"out": "aten::embedding.out"})
op("aten::embedding_renorm_", family="embedding", shape="itself", kernel="kernel_embedding_renorm_")
op("aten::embedding_renorm", family="embedding", shape="like", results="rule",
   kernel="kernel_embedding_renorm",
   variants={"out": "aten::embedding_renorm.out"})
helper("""
def embedding_bag_slopes(grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor,
                         bags: Tensor, sizes: Tensor, most: Tensor,
                         scale_grad_by_freq: bool, mode: int, per_sample_weights: Optional[Tensor],
                         padding_idx: int, needs: List[bool]) -> Tuple[Optional[Tensor],
                                                                       Optional[Tensor]]:
    n = weight.size(0)
    skip = (padding_idx + n if padding_idx < 0 and padding_idx + n >= 0 and padding_idx != -1 else
            padding_idx)
    a: Optional[Tensor] = None
    b: Optional[Tensor] = None
    if needs[0]:
        a = torch._embedding_bag_backward(grad, indices, offsets, bags, sizes, most, n,
                                          scale_grad_by_freq, mode, False, per_sample_weights, skip)
    if needs[1]:
        b = torch._embedding_bag_per_sample_weights_backward(grad, weight, indices, offsets, bags,
                                                             mode, skip)
    return a, b
""")
BAG = ("embedding_bag_slopes(grad0, weight, indices, offsets, result1, result2, result3, "
       "scale_grad_by_freq, mode, per_sample_weights, "
       "PAD, needs)")
op("aten::embedding_bag", family="embedding", shape="embedding_bag", kernel="kernel_embedding_bag",
   grad={"weight, per_sample_weights": BAG.replace("PAD", "-1")})
op("aten::embedding_bag.padding_idx", family="embedding", shape="embedding_bag",
   kernel="kernel_embedding_bag", grad={
   "weight, per_sample_weights": BAG.replace("PAD",
                                             "-1 if padding_idx is None else padding_idx if "
                                             "padding_idx >= 0 else padding_idx + weight.size(0)")})
op("aten::_embedding_bag", family="embedding", shape="embedding_bag_kept",
   kernel="kernel__embedding_bag",
   grad={"weight, per_sample_weights": BAG.replace("PAD", "padding_idx")},
   variants={"out": "aten::_embedding_bag.out"})
op("aten::_embedding_bag_forward_only", family="embedding", shape="embedding_bag",
   kernel="kernel__embedding_bag_forward_only",
   variants={"out": "aten::_embedding_bag_forward_only.out"})
op("aten::one_hot", family="embedding", shape="one_hot", kernel="kernel_one_hot",
   effects=["data_size"])
