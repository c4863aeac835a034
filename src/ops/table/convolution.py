"""Convolutions (convolution.c)."""

helper("""
def convolution_slopes(grad: Tensor, input: Tensor, weight: Tensor, stride: List[int],
                       padding: List[int], dilation: List[int],
                       transposed: bool, groups: int, needs: List[bool]) -> Tuple[Optional[Tensor],
                             Optional[Tensor], Optional[Tensor]]:
    single = input.dim() != weight.dim()
    x = input.unsqueeze(0) if single else input
    g = grad.unsqueeze(0) if single else grad
    a, b, c = torch.convolution_backward(g, x, weight, None, stride, padding, dilation, transposed,
                                         [0] * (weight.dim() - 2), groups, needs)
    return a.squeeze(0) if single and needs[0] else a, b, c
""")
helper("""
def convolution_slopes_padded(grad: Tensor, input: Tensor, weight: Tensor, stride: List[int],
                              padding: str, dilation: List[int],
                              groups: int, needs: List[bool]) -> Tuple[Optional[Tensor],
                                  Optional[Tensor], Optional[Tensor]]:
    k = weight.dim() - 2
    if padding == "valid":
        return convolution_slopes(grad, input, weight, stride, [0] * k, dilation, False, groups,
                                  needs)
    left: List[int] = []
    more: List[int] = []
    for d in range(k):
        whole = (dilation[d] if len(dilation) == k else dilation[0]) * (weight.size(d + 2) - 1)
        left.append(whole // 2)
        more = [0, whole % 2] + more
    x = torch.constant_pad_nd(input, more)
    a, b, c = convolution_slopes(grad, x, weight, stride, left, dilation, False, groups, needs)
    if needs[0]:
        a = torch.constant_pad_nd(torch._unwrap_optional(a), [-n for n in more])
    return a, b, c
""")
SLOPES = "convolution_slopes(grad, input, weight, stride, padding, dilation, {0}, groups, needs)"
FORWARD, ANY = ({"input, weight, bias": SLOPES.format(t)} for t in ("False", "transposed"))
BACK = {"input, weight, bias": SLOPES.format("True")}
PADDED = {"input, weight, bias": "convolution_slopes_padded(grad, input, weight, stride, padding, "
                                 "dilation, groups, needs)"}
for n in (1, 2, 3):
    op(f"aten::conv{n}d", family="convolution", shape="convolution", results="rule",
       kernel="kernel_convolution", grad=FORWARD)
    op(f"aten::conv{n}d.padding", family="convolution", shape="convolution", results="rule",
       kernel="kernel_convolution", grad=PADDED)
op("aten::conv_transpose1d", family="convolution", shape="convolution_transposed", results="rule",
   kernel="kernel_convolution_transposed", grad=BACK)
op("aten::conv_transpose2d.input", family="convolution", shape="convolution_transposed",
   results="rule", kernel="kernel_convolution_transposed", grad=BACK)
op("aten::conv_transpose3d.input", family="convolution", shape="convolution_transposed",
   results="rule", kernel="kernel_convolution_transposed", grad=BACK)
op("aten::convolution", family="convolution", shape="convolution", results="rule",
   kernel="kernel_convolution", grad=ANY, variants={"out": "aten::convolution.out"})
op("aten::convolution_overrideable", family="convolution", shape="convolution", results="rule",
   kernel="kernel_convolution", grad=ANY, variants={"out": "aten::convolution_overrideable.out"})
op("aten::_convolution", family="convolution", shape="convolution", results="rule",
   kernel="kernel_convolution", grad=ANY, variants={"out": "aten::_convolution.out"})
op("aten::_convolution.deprecated", family="convolution", shape="convolution", results="rule",
   kernel="kernel_convolution", grad=ANY)
op("aten::_convolution_mode", family="convolution", shape="convolution", results="rule",
   kernel="kernel_convolution", grad=PADDED)
op("aten::mkldnn_convolution", family="convolution", shape="convolution", results="rule",
   kernel="kernel_convolution",
   grad={"self, weight, bias": "convolution_slopes(grad, self, weight, stride, padding, dilation, "
                               "False, groups, needs)"},
   variants={"out": "aten::mkldnn_convolution.out"})
for name, out in (("thnn_conv2d", "out"), ("_slow_conv2d_forward", "output"), ("slow_conv3d",
    "out"),
                  ("slow_conv_dilated2d", "out"), ("slow_conv_dilated3d", "out")):
    op(f"aten::{name}", family="convolution", shape="convolution", results="rule",
       kernel="kernel_convolution", variants={"out": f"aten::{name}.{out}"})
op("aten::_conv_depthwise2d", family="convolution", shape="convolution_depthwise", results="rule",
   kernel="kernel_convolution", variants={"out": "aten::_conv_depthwise2d.out"})
op("aten::conv_depthwise3d", family="convolution", shape="convolution_depthwise", results="rule",
   kernel="kernel_convolution", variants={"out": "aten::conv_depthwise3d.out"})
for n in (2, 3):
    op(f"aten::slow_conv_transpose{n}d", family="convolution", shape="convolution_transposed",
       results="rule",
       kernel="kernel_convolution_transposed",
       variants={"out": f"aten::slow_conv_transpose{n}d.out"})
op("aten::conv_tbc", family="convolution", shape="conv_tbc", results="rule",
   kernel="kernel_conv_tbc",
   grad={"self, weight, bias": "torch.conv_tbc_backward(grad, self, weight, bias, pad)"},
   variants={"out": "aten::conv_tbc.out"})

# Facts about these operators that other parts read.
known("_convolution.deprecated conv1d conv1d.padding conv2d conv2d.padding conv3d "
      "conv3d.padding conv_tbc conv_transpose1d conv_transpose2d.input conv_transpose3d.input",
      autocast="lower")
known("_convolution.* conv1d.* conv2d.* conv3d.* conv_tbc.* conv_transpose1d.* "
      "conv_transpose2d.* conv_transpose3d.* convolution.* cudnn_convolution.* "
      "cudnn_convolution_transpose.*",
      script_autocast="lower")
