"""Pooling windows (pool.c)."""

helper("""
def to_places(grad: Tensor, like: Tensor, indices: Tensor, n: int) -> Tensor:
    made = torch.zeros(like.size(), dtype=grad.dtype).flatten(-n)
    if grad.numel() != 0:
        made = made.scatter_add(-1, indices.flatten(-n), grad.flatten(-n))
    return made.reshape(like.size())
""")


def averaged(n, tail):
    """Return the gradient of an average pool: that of two dimensions, used for one."""
    if n == "1d":
        head = "grad.unsqueeze(-2), self.unsqueeze(-2)"
        pool = tail.format(head=head, one="[1] + ", zero="[0] + ", n="2d", divisor="None")
        return {"self": f"torch.{pool}.squeeze(-2)"}
    return {"self": "torch." + tail.format(head="grad, self", one="", zero="", n=n,
                                           divisor="divisor_override")}


AVG = ("avg_pool{n}_backward({head}, {one}kernel_size, {one}(kernel_size if len(stride) == 0 else "
       "stride), {zero}padding, ceil_mode, "
       "count_include_pad, {divisor})")
ADAPTIVE = "_adaptive_avg_pool{n}_backward({head})"

for n in "1d", "2d", "3d":
    op(f"aten::max_pool{n}", family="pool", shape="pool_max", results="rule",
       kernel="kernel_max_pool", effects=["quantized_order"],
       grad={"self": f"""
        _, at = torch.max_pool{n}_with_indices(self, kernel_size, stride, padding, dilation,
                                               ceil_mode)
        to_places(grad, self, at, {n[0]})
        """})
    op(f"aten::max_pool{n}_with_indices", family="pool", shape="pool_max_indices", results="rule",
       kernel="kernel_max_pool",
       grad={"self": f"to_places(grad0, self, result1, {n[0]})"},
       variants={} if n == "1d" else {"out": f"aten::max_pool{n}_with_indices.out"})
    op(f"aten::avg_pool{n}", family="pool", shape="pool_average", results="rule",
       kernel="kernel_avg_pool",
       effects=["quantized_scales"], grad=averaged(n, AVG),
       variants={"out": f"aten::avg_pool{n}.out"})
    op(f"aten::adaptive_avg_pool{n}", family="pool", shape="adaptive_pool", results="rule",
       kernel="kernel_adaptive_avg_pool", effects=["quantized_scales"],
       grad=averaged(n, ADAPTIVE),
       variants={"out": f"aten::adaptive_avg_pool{n}.out"})
    op(f"aten::adaptive_max_pool{n}", family="pool", shape="adaptive_pool_indices", results="rule",
       kernel="kernel_adaptive_max_pool",
       grad={"self": f"to_places(grad0, self, result1, {n[0]})"},
       variants={} if n == "1d" else {"out": f"aten::adaptive_max_pool{n}.out"})
for n in "2d", "3d":
    op(f"aten::_adaptive_avg_pool{n}", family="pool", shape="adaptive_pool", results="rule",
       kernel="kernel_adaptive_avg_pool", effects=["quantized_scales"],
       grad=averaged(n, ADAPTIVE),
       variants={"out": f"aten::_adaptive_avg_pool{n}.out"})
    op(f"aten::fractional_max_pool{n}", family="pool", shape="fractional_pool", results="rule",
       kernel="kernel_fractional_max_pool",
       grad={"self": f"to_places(grad0, self, result1, {n[0]})"},
       variants={"out": f"aten::fractional_max_pool{n}.output"})
    op(f"aten::max_unpool{n}", family="pool", shape="max_unpool", results="rule",
       kernel="kernel_max_unpool",
       grad={"self": f"grad.flatten(-{n[0]}).gather(-1, "
                     f"indices.flatten(-{n[0]})).reshape(indices.size())"},
       variants={"out": f"aten::max_unpool{n}.out"})
    op(f"aten::avg_pool{n}_backward", family="backward", shape="pool_backward", results="rule",
       kernel="kernel_avg_pool_backward",
       variants={"out": f"aten::avg_pool{n}_backward.grad_input"})
    op(f"aten::_adaptive_avg_pool{n}_backward", family="backward",
       shape=f"adaptive_pool{n}_backward", results="rule",
       kernel=f"kernel_adaptive_avg_pool{n}_backward",
       variants={"out": f"aten::_adaptive_avg_pool{n}_backward.out"})

# Facts about these operators that other parts read.
known("adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d fractional_max_pool2d "
      "fractional_max_pool3d max_pool3d max_unpool2d max_unpool3d",
      autocast="float32")

# What in-place and out= forms demand of what they write to (../README.md).
written("overlap", "avg_pool2d")
