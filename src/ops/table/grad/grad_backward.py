"""Gradients of gradients that programs call by name, of the other names of convolutions, and of
fake quantization.

A gradient is linear in what arrives: by that it is differentiated by itself.
"""


def again(name, second, like="self", more="", arrived="grad_output"):
    """NAME(arrived, like, more): `second` is the second derivative of the function."""
    tail = f", {more}" if more else ""
    grad(name, {arrived: f"torch.{name}(grad, {like}{tail})",
                like: f"torch.zeros_like({like})" if second == "0" else f"{second}\n"})


BOTH = "grad * grad_output * ({})"
again("threshold_backward", "0", more="threshold")
again("hardtanh_backward", "0", more="min_val, max_val")
again("hardsigmoid_backward", "0")
again("leaky_relu_backward", "0", more="negative_slope, self_is_result")
again("softshrink_backward", "0", more="lambd")
again("hardshrink_backward", "0", more="lambd", arrived="grad_out")
again("hardswish_backward", BOTH.format("torch.logical_and(self > -3, self < 3) / 3"))
grad("sigmoid_backward", grad_output="torch.sigmoid_backward(grad, output.conj())",
     output="grad.conj() * grad_output * (1 - 2 * output.conj())")
grad("tanh_backward", grad_output="torch.tanh_backward(grad, output.conj())",
     output="grad.conj() * grad_output * output.conj() * -2")
again("silu_backward",
      "s = torch.sigmoid(self)\n" + BOTH.format("s * (1 - s) * (2 + self * (1 - 2 * s))"))
again("mish_backward", """
t = torch.tanh(torch.softplus(self))
s = torch.sigmoid(self)
d = (1 - t * t) * s
grad * grad_output * (2 * d + self * (d * (1 - s) - 2 * t * d * s))
""")
again("softplus_backward", """
s = torch.sigmoid(self * beta)
torch.where(self * beta > threshold, torch.zeros_like(s), grad * grad_output * beta * s * (1 - s))
""", more="beta, threshold")
again("log_sigmoid_backward", BOTH.format("-torch.sigmoid(self) * torch.sigmoid(-self)"),
      more="buffer")
grad("elu_backward",
     grad_output="torch.elu_backward(grad, alpha, scale, input_scale, is_result, self_or_result)",
     self_or_result="""
low = torch.full_like(self_or_result, float(input_scale))
if not is_result:
    low = (torch.exp(self_or_result * input_scale) *
           (float(alpha) * float(scale) * float(input_scale) * float(input_scale)))
torch.where(self_or_result <= 0, grad * grad_output * low, torch.zeros_like(low))
""")
grad("logit_backward", grad_output="torch.logit_backward(grad, self, eps)", self="""
x = self * (1 - self)
g = grad * grad_output * (2 * self - 1) / (x * x)
if eps is not None:
    g = torch.where(torch.logical_or(self < eps, self > 1 - eps), torch.zeros_like(g), g)
g
""")
grad("gelu_backward", grad_output="torch.gelu_backward(grad, self, approximate=approximate)",
     self="""
x = self
if approximate == "none":
    return grad * grad_output * (2 - x * x) * torch.exp(-0.5 * x * x) * 0.3989422804014327
b, a = 0.7978845608028654, 0.044715
t = torch.tanh(b * (x + a * x * x * x))
d = b * (1 + 3 * a * x * x)
grad * grad_output * (1 - t * t) * (d - x * t * d * d + 3 * a * b * x * x)
""")
grad("_prelu_kernel_backward", {
    "grad_output": "grad0 * torch.where(self > 0, torch.ones_like(self), weight) + "
                   "torch.where(self > 0, torch.zeros_like(self), grad1 * self)",
    "self": "torch.where(self > 0, torch.zeros_like(self), grad1 * grad_output)",
    "weight": "torch.where(self > 0, torch.zeros_like(self), grad0 * grad_output)"})

# -- Averages and resizing are linear

for n in ("2d", "3d"):
    grad(f"avg_pool{n}_backward", self="torch.zeros_like(self)", grad_output=f"""
torch.avg_pool{n}(grad, kernel_size, stride, padding, ceil_mode, count_include_pad,
                  divisor_override)
""")
    grad(f"_adaptive_avg_pool{n}_backward", self="torch.zeros_like(self)",
         grad_output=f"torch._adaptive_avg_pool{n}(grad, grad_output.size()[-{n[0]}:])")
for name, n in (("upsample_nearest1d", 1), ("upsample_nearest2d", 2), ("upsample_nearest3d", 3),
                ("_upsample_nearest_exact1d", 1),
                ("_upsample_nearest_exact2d", 2), ("_upsample_nearest_exact3d", 3),
                ("upsample_linear1d", 1),
                ("upsample_bilinear2d", 2), ("upsample_trilinear3d", 3), ("upsample_bicubic2d", 2),
                ("_upsample_bilinear2d_aa", 2),
                ("_upsample_bicubic2d_aa", 2), ("_upsample_lanczos2d_aa", 2)):
    scales = "scales" if n == 1 else ", ".join(["scales_d", "scales_h", "scales_w"][3 - n:])
    align = "" if "nearest" in name else "align_corners, "
    grad(f"{name}_backward", grad_output=f"torch.{name}(grad, output_size, {align}{scales})")
grad("unfold_backward", grad_in="grad.unfold(dim, size, step)")

# -- Convolutions by their old names

SLOW = "convolution_slopes(grad, self, weight, stride, padding, {0}, {1}, 1, needs)"
grad("thnn_conv2d _slow_conv2d_forward", {"self, weight, bias": SLOW.format("[1, 1]", "False")})
grad("slow_conv3d", {"self, weight, bias": SLOW.format("[1, 1, 1]", "False")})
grad("slow_conv_dilated2d slow_conv_dilated3d", {"self, weight, bias": SLOW.format("dilation",
                                                                                   "False")})
grad("slow_conv_transpose2d slow_conv_transpose3d", {"self, weight, bias": SLOW.format("dilation",
                                                                                       "True")})
grad("_conv_depthwise2d conv_depthwise3d", {
    "self, weight, bias":
    "convolution_slopes(grad, self, weight, stride, padding, dilation, False, self.size(self.dim() "
    "- weight.dim() + 1), needs)"})
grad("_batch_norm_impl_index", {
    "input, weight, bias": "batch_norm_slopes(grad0, input, weight, running_mean, running_var, "
                           "training, eps, needs)"})

# -- Fake quantization: through, where nothing was cut off

for n, more in (("fake_quantize_per_tensor_affine", "scale, zero_point, quant_min, quant_max"),
                ("fake_quantize_per_channel_affine",
                 "scale, zero_point, axis, quant_min, quant_max")):
    grad(n, self=f"grad * torch.{n}_cachemask(self, {more})[1]")
    grad(f"{n}_cachemask", self="grad0 * result1")
for n in ("tensor", "channel"):
    grad(f"fake_quantize_per_{n}_affine_cachemask_backward", {"grad": "grad0 * mask"})
grad("fake_quantize_per_tensor_affine.tensor_qparams", self="""
torch.fake_quantize_per_tensor_affine_cachemask(self, float(scale), int(zero_point), quant_min,
                                                quant_max)[1] * grad
""")
grad("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", self="grad0 * result1")
