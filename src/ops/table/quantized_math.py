"""Arithmetic of quantized tensors: through real numbers, or on the integers where PyTorch works on
them."""


def quant(name, body, **more):
    op(name, family="quantized", body=body, **more)


# The end of a body: rounds `y` in steps before the zero point is added, as `{q}`'s dtype.
STEPS = """
    if {q}.dtype == torch.qint32:
        return torch.quantize_per_tensor(y, {scale}, {zero_point}, {q}.dtype)
    return ops.rushlight._quantize_steps(y, {scale}, {zero_point}, {q}.dtype)
"""
op("rushlight::_quantize_steps", family="quantized", kernel="kernel__quantize_steps",
   schema="rushlight::_quantize_steps(Tensor self, float scale, int zero_point, ScalarType dtype) "
   "-> Tensor")


def binary(name, text, relu):
    for suffix in ("", "_relu"):
        tail = relu if suffix else ""
        quant(f"quantized::{name}{suffix}", f"""
def f(qa: Tensor, qb: Tensor, scale: float, zero_point: int) -> Tensor:
{text}{tail}
""" + STEPS.format(q="qa", scale="scale", zero_point="zero_point"),
same=["_quantized::add"] if name == "add" and not suffix else [])


binary("add", "    y = torch.dequantize(qa) + torch.dequantize(qb)", "\n    y = torch.relu(y)")
for suffix in ("", "_relu"):
    quant(f"quantized::mul{suffix}", f"""
def f(qa: Tensor, qb: Tensor, scale: float, zero_point: int) -> Tensor:
    a = torch.int_repr(qa).to(torch.int) - qa.q_zero_point()
    b = torch.int_repr(qb).to(torch.int) - qb.q_zero_point()
    factor = (torch.tensor(qa.q_scale(), dtype=torch.float) *
              torch.tensor(qb.q_scale(),
                           dtype=torch.float) * torch.reciprocal(torch.tensor(scale,
                                 dtype=torch.float)))
    q = torch.round((a * b).to(torch.float) * factor) + zero_point
    low = -128 if qa.dtype == torch.qint8 else 0
    q = torch.clamp(q, {"max(low, zero_point)" if suffix else "low"}, low + 255)
    return torch._make_per_tensor_quantized_tensor(q.to(torch.int8 if qa.dtype == torch.qint8 else
        torch.uint8), scale, zero_point)
""")

# A number changes the zero point or the scale; the integers are kept, or recomputed if the range is
# exceeded.
for suffix in ("", "_relu"):
    quant(f"quantized::add_scalar{suffix}", f"""
def f(qa: Tensor, b: number) -> Tensor:
    low = -128 if qa.dtype == torch.qint8 else 0
    high = low + 255
    s = qa.q_scale()
    c = float(b)
    z = qa.q_zero_point() - int(round(c / s))
    if z < low:
        return torch.quantize_per_tensor({'torch.relu' if suffix else ''}(torch.dequantize(qa) +
              c), float(high - z) / float(high - low) * s, low, qa.dtype)
    if z > high:
        return torch.quantize_per_tensor({'torch.relu' if suffix else ''}(torch.dequantize(qa) +
              c), float(z - low) / float(high - low) * s, high, qa.dtype)
    q = torch._make_per_tensor_quantized_tensor(torch.int_repr(qa), s, z)
    return {'torch.relu(q)' if suffix else 'q'}
""", same=[f"quantized::add{suffix}.Scalar"])
    quant(f"quantized::add{suffix}.Scalar2", f"""
def f(b: number, qa: Tensor) -> Tensor:
    return ops.quantized.add_scalar{suffix}(qa, b)
""")
    quant(f"quantized::mul_scalar{suffix}", f"""
def f(qa: Tensor, b: number) -> Tensor:
    low = -128 if qa.dtype == torch.qint8 else 0
    high = low + 255
    c = float(b)
    i = torch.int_repr(qa)
    if c == 0.0:
        return torch._make_per_tensor_quantized_tensor(torch.zeros_like(i), 1.0, 0)
    if c > 0.0:
        q = torch._make_per_tensor_quantized_tensor(i, c * qa.q_scale(), qa.q_zero_point())
    else:
        flipped = (high + low - i.to(torch.int)).to(i.dtype)
        q = torch._make_per_tensor_quantized_tensor(flipped, -c * qa.q_scale(), high -
            (qa.q_zero_point() - low))
    return {'torch.relu(q)' if suffix else 'q'}
""", same=[f"quantized::mul{suffix}.Scalar"])
    quant(f"quantized::mul{suffix}.Scalar2", f"""
def f(b: number, qa: Tensor) -> Tensor:
    return ops.quantized.mul_scalar{suffix}(qa, b)
""")
    for name in ("add", "mul"):
        quant(f"quantized::{name}_scalar{suffix}.Tensor", f"""
def f(qa: Tensor, b: Tensor) -> Tensor:
    return ops.quantized.{name}_scalar{suffix}(qa, b.item())
""")
    quant(f"quantized::cat{suffix}", f"""
def f(qx: List[Tensor], dim: int, scale: Optional[float], zero_point: Optional[int]) -> Tensor:
    parts: List[Tensor] = []
    for q in qx:
        parts.append(torch.dequantize(q))
    s = qx[0].q_scale()
    if scale is not None:
        s = scale
    z = qx[0].q_zero_point()
    if zero_point is not None:
        z = zero_point
    y = torch.cat(parts, dim)
    return torch.quantize_per_tensor({'torch.relu(y)' if suffix else 'y'}, s, z, qx[0].dtype)
""")


def through_real(name, args, expr, params="output_scale, output_zero_point", **more):
    """Add an operator of real numbers on `x`, the first argument dequantized."""
    first = args.split(":")[0]
    scale, zero_point = params.split(", ")
    quant(f"quantized::{name}", f"""
def f({args}) -> Tensor:
    x = torch.dequantize({first})
    y = {expr}
""" + STEPS.format(q=first, scale=scale, zero_point=zero_point), **more)


OUT = "output_scale: float, output_zero_point: int"
SAME = "qx.q_scale(), qx.q_zero_point()"
through_real("sigmoid", f"qx: Tensor, {OUT}", "torch.sigmoid(x)")
through_real("hardswish", f"input: Tensor, {OUT}", "torch.hardswish(x)")
through_real("elu", f"self: Tensor, {OUT}, alpha: number, scale: number, input_scale: number",
             "torch.elu(x, alpha, scale, input_scale)")
through_real("celu", f"self: Tensor, {OUT}, alpha: number", "torch.celu(x, alpha)")
through_real("leaky_relu", f"qx: Tensor, negative_slope: number, inplace: bool, {OUT}",
             "torch.leaky_relu(x, negative_slope)")
through_real("prelu", f"qx: Tensor, weight: Tensor, {OUT}", "torch.prelu(x, weight)")
through_real("softmax", f"qx: Tensor, dim: int, {OUT}", "torch.softmax(x, dim)")
through_real("relu6", "qx: Tensor, inplace: bool", "torch.clamp(x, 0.0, 6.0)", SAME)
through_real("clamp", "qx: Tensor, min: Optional[number], max: Optional[number]",
             "torch.clamp(x, min, max)", SAME)
through_real("threshold", "qx: Tensor, threshold: number, value: number",
             "torch.threshold(x, threshold, value)", SAME)
through_real("layer_norm",
             f"input: Tensor, normalized_shape: List[int], weight: Optional[Tensor], bias: "
             f"Optional[Tensor], eps: float, {OUT}",
             "torch.layer_norm(x, normalized_shape, weight, bias, eps)")
through_real("group_norm",
             f"input: Tensor, num_groups: int, weight: Optional[Tensor], bias: Optional[Tensor], "
             f"eps: float, {OUT}",
             "torch.group_norm(x, num_groups, weight, bias, eps)")
through_real("instance_norm",
             f"input: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], eps: float, {OUT}",
             "torch.instance_norm(x, weight, bias, None, None, True, 0.0, eps, False)")
for n in "1d", "2d":
    quant(f"quantized::max_pool{n}", f"""
def f(qx: Tensor, kernel_size: List[int], stride: List[int], padding: List[int],
      dilation: List[int], ceil_mode: bool) -> Tensor:
    return torch.max_pool{n}(qx, kernel_size, stride, padding, dilation, ceil_mode)
""")
quant("quantized::dropout", """
def f(self: Tensor, output_scale: float, output_zero_point: int, p: number,
      training: bool) -> Tensor:
    return self
""")
NORM = ("qx: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], mean: Tensor, var: Tensor, "
        "eps: float, " + OUT)
for name in ("batch_norm", "batch_norm1d", "batch_norm2d", "batch_norm3d"):
    norm = "torch.batch_norm(x, weight, bias, mean, var, False, 0.0, eps, False)"
    through_real(name, NORM, norm)
    through_real(name + "_relu", NORM, f"torch.relu({norm})")
quant("aten::quantized_batch_norm", """
def f(input: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], mean: Tensor, var: Tensor,
      eps: float,
      output_scale: float, output_zero_point: int) -> Tensor:
    return ops.quantized.batch_norm(input, weight, bias, mean, var, eps, output_scale,
                                    output_zero_point)
""")
quant("quantized::matmul", """
def f(qa: Tensor, qb: Tensor, scale: float, zero_point: int) -> Tensor:
    return torch.quantize_per_tensor(torch.matmul(torch.dequantize(qa), torch.dequantize(qb)),
                                     scale, zero_point, qa.dtype)
""")
for n in "1d", "2d", "3d":
    quant(f"aten::quantized_max_pool{n}", f"""
def f(self: Tensor, kernel_size: List[int], stride: List[int], padding: List[int],
      dilation: List[int], ceil_mode: bool) -> Tensor:
    return torch.max_pool{n}(self, kernel_size, stride, padding, dilation, ceil_mode)
""")
for name, args, call in (("per_tensor", "",
                          "torch.fake_quantize_per_tensor_affine(self, scale.item(), "
                          "int(z.item()), quant_min, quant_max)"),
                         ("per_channel", "axis: int, ",
                          "torch.fake_quantize_per_channel_affine(self, scale, z, axis, quant_min, "
                          "quant_max)")):
    quant(f"aten::_fake_quantize_learnable_{name}_affine", f"""
def f(self: Tensor, scale: Tensor, zero_point: Tensor, {args}quant_min: int, quant_max: int,
      grad_factor: float) -> Tensor:
    z = torch.clamp(torch.round(zero_point + 0.5 - 0.5), quant_min, quant_max).to(torch.int)
    return {call}
""")
op("aten::_weight_int8pack_mm", family="matmul", body="""
def f(self: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    return torch.matmul(self, mat2.to(self.dtype).t()) * scales
""")
