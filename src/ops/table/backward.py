"""Gradients that programs call by name, pointwise: the incoming gradient times the slope."""


def slope(name, expr, out="grad_input", /, **more):
    """Add aten::NAME and its out= form."""
    op(f"aten::{name}", family="backward", expr=expr,
       variants={"out": f"aten::{name}.{out}"} if registered(f"aten::{name}.{out}") else {}, **more)


# -- Activations

slope("threshold_backward", {"int float": "where(self <= threshold, 0, grad_output)"},
      name="threshold_cpu")
slope("sigmoid_backward", {"float": "grad_output * (1 - output) * output",
                           "complex": "z = (1 - output) * output\ngrad_output * complex(real(z), "
                                      "-imag(z))"}, name="sigmoid_backward_cpu")
slope("tanh_backward", {"float": "grad_output * (1 - output * output)",
                        "complex": "z = 1 - output * output\ngrad_output * complex(real(z), "
                                   "-imag(z))"}, name="tanh_backward_cpu")
slope("hardtanh_backward",
      {"int float": "where(self <= min_val or self >= max_val, 0, grad_output)"},
      promote=["grad_output", "self"], name="hardshrink_backward_cpu")
# PyTorch's sixth is a float32, for float64 too
slope("hardsigmoid_backward",
      {"float": "where(self > -3 and self < 3, grad_output * 0.16666667163372040, 0)"},
      name="hardsigmoid_backward")
slope("hardswish_backward",
      {"float": "where(self <= -3, 0, "
                "where(self < 3, grad_output * (self / 3 + 0.5), grad_output))"},
      "out", name="hardswish_backward_cpu")
slope("leaky_relu_backward",
      {"float": "where(self > 0, grad_output, grad_output * negative_slope)"},
      name="leaky_relu_backward_cpu")
slope("elu_backward", {"float": {
    "is_result=True": """where(self_or_result <= 0, grad_output * input_scale * (self_or_result
    + alpha * scale),
        grad_output * scale)""",
    "else": """where(self_or_result <= 0,
    grad_output * input_scale * (alpha * scale) * exp(self_or_result * input_scale),
        grad_output * scale)"""}}, name="elu_backward_cpu")
slope("silu_backward", {"float": "s = sigmoid(self)\ngrad_output * s * (1 + self * (1 - s))",
                        "complex": "s = 1 / (1 + zexp(-self))\nz = s * (1 + self * (1 - "
                                   "s))\ngrad_output * complex(real(z), -imag(z))"},
      name="silu_backward_cpu")
slope("mish_backward", {"float": """t = tanh(log1p(exp(self)))
      grad_output * (t + self * sigmoid(self) * (1 - t * t))"""}, name="mish_backward_cpu")
slope("softplus_backward",
      {"float": "z = exp(self * beta)\nwhere(self * beta > threshold, grad_output, grad_output * z "
                "/ (z + 1))"},
      name="softplus_backward_cpu")
slope("gelu_backward", {"float": {
    "approximate='none'": "grad_output * (phi(self) + self * exp(-0.5 * self * self) * "
                          "0.3989422804014327)",
    "approximate='tanh'": """t = tanh(0.7978845608028654 * (self + 0.044715 * self * self * self))
        d = 0.7978845608028654 * (1 + 0.134145 * self * self)
        grad_output * (0.5 * (1 + t) + 0.5 * self * (1 - t * t) * d)"""}},
        name="GeluBackwardKernelImpl")
SHRINK = {"float": "where(self >= -lambd and self <= lambd, 0, GRAD)"}
for NAME, GRAD in (("softshrink", "grad_output"), ("hardshrink", "grad_out")):
    slope(f"{NAME}_backward", {"float": SHRINK["float"].replace("GRAD", GRAD)},
          name="shrink_backward_cpu")
slope("log_sigmoid_backward", {"float": """z = exp(-abs(self))
      grad_output * where(self < 0, 1 - z / (1 + z), z / (1 + z))"""}, promote=["grad_output",
          "self"],
      name="log_sigmoid_backward_cpu")
slope("logit_backward", {"float": {
    "eps=None": "where(self < 0 or self > 1, nan, grad_output / (self * (1 - self)))",
    "else": "where(self < eps or self > 1 - eps, 0, grad_output / (self * (1 - self)))"}},
    name="logit_backward_cpu")
op("aten::_prelu_kernel_backward", family="backward", name="prelu_backward_cpu", out=["common",
    "common"],
   expr={"float": "where(self > 0, grad_output, weight * grad_output), where(self > 0, 0, self * "
                  "grad_output)"})
op("aten::rrelu_with_noise_backward", family="backward",
   variants={"out": "aten::rrelu_with_noise_backward.out"}, body="""
def rrelu_with_noise_backward(grad_output: Tensor, self: Tensor, noise: Tensor, lower: number,
                              upper: number, training: bool,
                              self_is_result: bool) -> Tensor:
    if training and float(upper) - float(lower) > 1e-6:
        return noise * grad_output
    return torch.leaky_relu_backward(grad_output, self, (float(lower) + float(upper)) / 2,
                                     self_is_result)
""")
op("aten::glu_backward", family="backward", variants={"out": "aten::glu_backward.grad_input"},
   body="""
def glu_backward(grad_output: Tensor, self: Tensor, dim: int) -> Tensor:
    a, b = torch.chunk(self, 2, dim)
    s = torch.sigmoid(b)
    g = grad_output * s
    return torch.cat([g, g * (1 - s) * a], dim)
""")
op("aten::infinitely_differentiable_gelu_backward", family="backward", body="""
def gelu_backward(grad: Tensor, self: Tensor) -> Tensor:
    return torch.gelu_backward(grad, self)
""")

# -- Dropout, fake quantization: a mask

slope("native_dropout_backward", {"float complex": "grad_output * mask * scale"}, "out",
      promote="float")
for KIND in "tensor", "channel":
    op(f"aten::fake_quantize_per_{KIND}_affine_cachemask_backward", family="backward",
       expr={"float": "grad * mask"}, promote=["grad"], name="fake_quantize_backward")

# -- Losses


def loss(signature, lines):
    """Add a loss's gradient; `lines` assign the slope of the unreduced loss to `x`."""
    name = signature[:signature.index("(")]
    variants = [f"aten::{name}.{o}" for o in ("grad_input",
                                              "out") if registered(f"aten::{name}.{o}")]
    text = f"\ndef {signature} -> Tensor:\n"
    text += "".join(f"    {line}\n" for line in lines.strip("\n").split("\n"))
    text += "    return x / self.numel() if reduction == 1 else x\n"
    op(f"aten::{name}", family="backward", body=text, variants={"out": variants[0]})


TRIPLE = "grad_output: Tensor, self: Tensor, target: Tensor"
loss(f"mse_loss_backward({TRIPLE}, reduction: int)", "x = (self - target) * 2 * grad_output")
loss(f"smooth_l1_loss_backward({TRIPLE}, reduction: int, beta: float)", """
d = self - target
x = torch.where(d.abs() < beta, d / beta, torch.sign(d)) * grad_output
""")
loss(f"huber_loss_backward({TRIPLE}, reduction: int, delta: float)",
     "x = torch.clamp(self - target, -delta, delta) * grad_output")
loss(f"soft_margin_loss_backward({TRIPLE}, reduction: int)",
     "x = -target * torch.sigmoid(-target * self) * grad_output")
loss(f"binary_cross_entropy_backward({TRIPLE}, weight: Optional[Tensor], reduction: int)", """
x = (self - target) / torch.clamp_min((1 - self) * self, 1e-12) * grad_output
if weight is not None:
    x = x * weight
""")
NLL = """
def NAME(grad_output: Tensor, self: Tensor, target: Tensor, weight: Optional[Tensor],
         reduction: int, ignore_index: int,
         total_weight: Tensor) -> Tensor:
    d = DIM
    kept = target != ignore_index
    at = torch.where(kept, target, torch.zeros_like(target))
    g = -grad_output.expand_as(at)
    if weight is not None:
        g = g * weight.index_select(0, at.reshape([-1])).reshape(at.size())
    if reduction == 1:
        g = g / total_weight
    g = torch.where(kept, g, torch.zeros_like(g))
    return torch.zeros_like(self, memory_format=torch.contiguous_format).scatter(d,
          at.unsqueeze(d), g.unsqueeze(d).to(self.dtype))
"""
op("aten::nll_loss_backward", family="backward",
   variants={"out": "aten::nll_loss_backward.grad_input"},
   body=NLL.replace("NAME", "nll_loss_backward").replace("DIM", "self.dim() - 1"))
op("aten::nll_loss2d_backward", family="backward",
   variants={"out": "aten::nll_loss2d_backward.grad_input"},
   body=NLL.replace("NAME", "nll_loss2d_backward").replace("DIM", "1"))
op("aten::multi_margin_loss_backward", family="backward",
   variants={"out": "aten::multi_margin_loss_backward.grad_input"}, body="""
def multi_margin_loss_backward(grad_output: Tensor, self: Tensor, target: Tensor, p: number,
                               margin: number,
                               weight: Optional[Tensor], reduction: int) -> Tensor:
    x = self.reshape([1, -1]) if self.dim() < 2 else self
    at = target.reshape([-1, 1])
    z = margin - x.gather(1, at) + x
    k = x.size(1)
    g = (torch.where(z > 0, torch.ones_like(z) if float(p) == 1.0 else 2 * z,
                     torch.zeros_like(z)) / k)
    if weight is not None:
        g = g * weight.index_select(0, at.reshape([-1])).unsqueeze(1)
    g = g.scatter(1, at, torch.zeros_like(at, dtype=g.dtype))
    g = g.scatter(1, at, -g.sum([1], True))
    if reduction == 1:
        g = g / x.size(0)
    if grad_output.dim() == 1:
        g = g * grad_output.unsqueeze(1)
    else:
        g = g * grad_output
    return g.reshape(self.size())
""")
op("aten::multilabel_margin_loss_backward", family="backward",
   variants={"out": "aten::multilabel_margin_loss_backward.grad_input"}, body="""
def multilabel_margin_loss_backward(grad_output: Tensor, self: Tensor, target: Tensor,
                                    reduction: int,
                                    is_target: Tensor) -> Tensor:
    k = self.size(-1)
    x = self.reshape([-1, k])
    t = target.reshape([-1, k])
    other = is_target.reshape([-1, k]) == 0
    listed = torch.cumprod((t >= 0).to(torch.long), 1) != 0
    at = torch.where(listed, t, torch.zeros_like(t))
    z = 1 - x.gather(1, at).unsqueeze(2) + x.unsqueeze(1)
    hit = torch.logical_and(torch.logical_and(z > 0, other.unsqueeze(1)),
                            listed.unsqueeze(2)).to(x.dtype)
    g = (hit.sum([1]).scatter_add(1, at, -hit.sum([2]))) / k
    if reduction == 1:
        g = g / x.size(0)
    g = g * (grad_output.unsqueeze(1) if grad_output.dim() == 1 else grad_output)
    return g.reshape(self.size())
""")
