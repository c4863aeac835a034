"""Gradients of pointwise operators.  `grad(names, argument=formula)`: README.md, Gradients.

Sums over broadcast dimensions, real parts and dtypes are the caller's.  Numbers have no conj(), so
a product with the conjugate of a number is times_conj (helpers.py)."""

ZERO = "torch.zeros_like(grad)"

# -- Arithmetic

grad("add.Tensor", self="grad", other="times_conj(grad, alpha)")
grad("add.Scalar", self="grad")
grad("sub.Tensor subtract.Tensor", self="grad", other="-times_conj(grad, alpha)")
grad("sub.Scalar subtract.Scalar", self="grad")
grad("rsub.Tensor", self="-times_conj(grad, alpha)", other="grad")
grad("rsub.Scalar", self="-times_conj(grad, alpha)")
grad("_add_relu.Tensor", self="grad * (result > 0)", other="times_conj(grad * (result > 0), alpha)")
grad("mul.Tensor multiply.Tensor", self="grad * other.conj()", other="grad * self.conj()")
grad("mul.Scalar multiply.Scalar", self="times_conj(grad, other)")
grad("div.Tensor divide.Tensor true_divide.Tensor", self="grad / other.conj()",
     other="-grad * (result / other).conj()")
grad("div.Scalar divide.Scalar true_divide.Scalar", self="torch.conj(torch.conj(grad) / other)")
grad("div.Tensor_mode divide.Tensor_mode",
     self="grad / other.conj() if rounding_mode is None else torch.zeros_like(grad)",
     other="-grad * (result / other).conj() if rounding_mode is None else torch.zeros_like(grad)")
grad("div.Scalar_mode divide.Scalar_mode",
     self="torch.conj(torch.conj(grad) / other) if rounding_mode is None else "
          "torch.zeros_like(grad)")
grad("remainder.Tensor", self="grad", other="-grad * torch.div(self, other, rounding_mode='floor')")
grad("remainder.Scalar_Tensor", other="-grad * torch.floor(self / other)")
grad("fmod.Tensor", self="grad", other="-grad * torch.div(self, other, rounding_mode='trunc')")
grad("remainder.Scalar fmod.Scalar", self="grad")
grad("neg negative", self="-grad")
grad("positive", self="grad")
grad("square", self="grad * (2 * self).conj()")
grad("reciprocal", self="-grad * (result * result).conj()")
grad("abs absolute", self="grad * self.sgn()")
grad("sgn", self="""
if not self.is_complex():
    return torch.zeros_like(grad)
along = torch.real(grad * result.conj())
torch.where(self == 0, 0, (grad - along * result) / self.abs())
""")
grad("angle", self="""
if not self.is_complex():
    return torch.zeros_like(grad)
r = self.abs()
torch.where(self == 0, 0, grad * torch.complex(-self.imag, self.real) / (r * r))
""")
grad("sign ceil floor trunc fix round round.decimals", self=ZERO)
grad("frac", self="grad")
grad("nan_to_num", self="grad * torch.isfinite(self)")
grad("frexp.Tensor", self="grad0 / torch.exp2(result1)")
grad("ldexp.Tensor", self="grad * torch.pow(2.0, other).conj()",
     other="grad * (result * 0.6931471805599453).conj()")

# Zero exponents and bases are apart: 0 times infinity is none of these derivatives.
helper("""
def pow_base(grad: Tensor, self: Tensor, exponent: Tensor) -> Tensor:
    return torch.where(exponent == 0, 0, grad * (exponent * torch.pow(self, exponent - 1)).conj())
""")
helper("""
def pow_exponent(grad: Tensor, self: Tensor, exponent: Tensor, result: Tensor) -> Tensor:
    nothing = torch.logical_and(self == 0, torch.real(exponent) >= 0)
    return torch.where(nothing, 0, grad * (result * torch.log(self)).conj())
""")
grad("pow.Tensor_Tensor", self="pow_base(grad, self, exponent)",
     exponent="pow_exponent(grad, self, exponent, result)")
grad("pow.Tensor_Scalar", self="""
if exponent == 0:
    return torch.zeros_like(grad)
grad * (torch.pow(self, exponent - 1) * exponent).conj()
""")
grad("pow.Scalar",
     exponent="pow_exponent(grad, torch.scalar_tensor(self, dtype=result.dtype), exponent, result)")
grad("lerp.Tensor", self="grad * (1 - weight).conj()", end="grad * weight.conj()",
     weight="grad * (end - self).conj()")
grad("lerp.Scalar", self="times_conj(grad, 1 - weight)", end="times_conj(grad, weight)")
grad("addcmul", self="grad", tensor1="times_conj(grad * tensor2.conj(), value)",
     tensor2="times_conj(grad * tensor1.conj(), value)")
grad("addcdiv", self="grad", tensor1="times_conj(grad / tensor2.conj(), value)",
     tensor2="-times_conj(grad * (tensor1 / (tensor2 * tensor2)).conj(), value)")
grad("hypot", self="grad * torch.where(result == 0, 0, self / result)",
     other="grad * torch.where(result == 0, 0, other / result)")
grad("atan2 arctan2", {"self, other": """
r = self * self + other * other
g = torch.where(r == 0, 0, grad / r)
(g * other, g * -self)
"""})
for KIND in ("Tensor", "Scalar"):
    grad(f"copysign.{KIND}", self="torch.where(self == 0, 0, grad * (result / self))",
         **({"other": ZERO} if KIND == "Tensor" else {}))
grad("nextafter", self="torch.where(torch.isnan(other), 0, grad)", other=ZERO)

# -- Largest, smallest: both get half where they are equal

grad("maximum max.other",
     self="torch.where(self == other, grad / 2, torch.where(self < other, 0, grad))",
     other="torch.where(self == other, grad / 2, torch.where(self > other, 0, grad))")
grad("minimum min.other",
     self="torch.where(self == other, grad / 2, torch.where(self > other, 0, grad))",
     other="torch.where(self == other, grad / 2, torch.where(self < other, 0, grad))")
grad("fmax", self="torch.where(torch.logical_or(self >= other, other.isnan()), grad, 0)",
     other="torch.where(torch.logical_or(self >= other, other.isnan()), 0, grad)")
grad("fmin", self="torch.where(torch.logical_or(self <= other, other.isnan()), grad, 0)",
     other="torch.where(torch.logical_or(self <= other, other.isnan()), 0, grad)")
for NAME, KIND in (("clamp", ""), ("clip", ""), ("clamp", ".Tensor"), ("clip", ".Tensor")):
    WITHIN = """
g = grad
if min is not None:
    g = torch.where(self >= min, g, 0)
if max is not None:
    g = torch.where(self <= max, g, 0)
g
"""
    # Where min is above max, the result is max.
    BOUNDS = {"min": """
g = torch.where(self < min, grad, 0)
if max is not None:
    g = torch.where(torch.lt(min, max), g, 0)
g
""", "max": """
g = torch.where(self > max, grad, 0)
if min is not None:
    g = torch.where(torch.lt(max, min), grad, g)
g
"""}
    grad(NAME + KIND, self=WITHIN, **(BOUNDS if KIND else {}))
grad("clamp_min", self="torch.where(self >= min, grad, 0)")
grad("clamp_max", self="torch.where(self <= max, grad, 0)")
grad("clamp_min.Tensor", self="torch.where(self >= min, grad, 0)",
     min="torch.where(self < min, grad, 0)")
grad("clamp_max.Tensor", self="torch.where(self <= max, grad, 0)",
     max="torch.where(self > max, grad, 0)")
grad("heaviside", values="torch.where(self == 0, grad, 0)")

# -- Choice

grad("where.self", self="torch.where(condition, grad, 0)", other="torch.where(condition, 0, grad)")
grad("where.ScalarSelf", other="torch.where(condition, 0, grad)")
grad("where.ScalarOther", self="torch.where(condition, grad, 0)")
grad("masked_fill.Scalar", self="grad.masked_fill(mask, 0)")
grad("masked_fill.Tensor", self="grad.masked_fill(mask, 0)", value="torch.where(mask, grad, 0)")

# -- Transcendental

PI = "3.141592653589793"
LN2, LN10 = "0.6931471805599453", "2.302585092994046"
ROOT_PI, ROOT_2_PI = "1.7724538509055159", "2.5066282746310002"
grad("exp", self="grad * result.conj()")
grad("exp2 special_exp2", self=f"grad * result.conj() * {LN2}")
grad("expm1 special_expm1", self="grad * (result.conj() + 1)")
grad("log", self="grad / self.conj()")
grad("log2", self=f"grad / (self.conj() * {LN2})")
grad("log10", self=f"grad / (self.conj() * {LN10})")
grad("log1p special_log1p", self="grad / (self + 1).conj()")
grad("sqrt", self="grad / (2 * result.conj())")
grad("rsqrt", self="-0.5 * grad * torch.pow(result, 3).conj()")
grad("sin", self="grad * torch.cos(self).conj()")
grad("cos", self="grad * -torch.sin(self).conj()")
grad("tan", self="grad * (1 + result * result).conj()")
grad("sinh", self="grad * torch.cosh(self).conj()")
grad("cosh", self="grad * torch.sinh(self).conj()")
grad("tanh", self="grad * (1 - result * result).conj()")
grad("asin arcsin", self="grad * torch.rsqrt(1 - self * self).conj()")
grad("acos arccos", self="grad * -torch.rsqrt(1 - self * self).conj()")
grad("atan arctan", self="grad / (self * self + 1).conj()")
grad("asinh arcsinh", self="grad * torch.rsqrt(self * self + 1).conj()")
# The product of two roots: of complex numbers it is not the root of the product.
grad("acosh arccosh", self="grad * (torch.rsqrt(self - 1) * torch.rsqrt(self + 1)).conj()")
grad("atanh arctanh", self="grad / (1 - self * self).conj()")
grad("erf special_erf", self=f"grad * (2 / {ROOT_PI}) * torch.exp(-self * self)")
grad("erfc special_erfc", self=f"grad * (-2 / {ROOT_PI}) * torch.exp(-self * self)")
grad("erfinv special_erfinv", self=f"grad * ({ROOT_PI} / 2) * torch.exp(result * result)")
grad("lgamma special_gammaln", self="grad * torch.digamma(self)")
grad("digamma special_digamma special_psi", self="grad * torch.polygamma(1, self)")
grad("polygamma special_polygamma", self="grad * torch.polygamma(n + 1, self)")
grad("sigmoid special_expit", self="grad * (result * (1 - result)).conj()")
grad("sinc special_sinc", self=f"""
x = self * {PI}
torch.where(self == 0, 0, grad * ((torch.cos(x) * x - torch.sin(x)) / (x * self)).conj())
""")
grad("deg2rad", self="grad * 0.017453292519943295")
grad("rad2deg", self="grad * 57.29577951308232")
grad("logaddexp", self="grad * torch.sigmoid(self - other).conj()",
     other="grad * torch.sigmoid(other - self).conj()")
grad("logaddexp2", self=f"grad * torch.sigmoid((self - other) * {LN2})",
     other=f"grad * torch.sigmoid((other - self) * {LN2})")
for NAME, LOG, BELOW in (("xlogy", "log", "0"), ("special_xlogy", "log", "0"), ("special_xlog1py",
                                                                                "log1p", "-1")):
    SELF = (
        f"torch.where(torch.logical_and(self == 0, other <= {BELOW}), 0, grad * "
        f"torch.{LOG}(other))"
    )
    OTHER = "grad * self / " + ("other" if LOG == "log" else "(other + 1)")
    # log of a number: as a tensor beside the others
    NUMBER = SELF.replace(f"torch.{LOG}(other)",
                          f"torch.{LOG}(torch.scalar_tensor(other, dtype=grad.dtype))").replace(
        "torch.logical_and(self == 0, ",
        "torch.logical_and(self == 0, torch.scalar_tensor(other, dtype=grad.dtype) ").replace(
        " other <=", " <=")
    grad("xlogy.Tensor" if NAME == "xlogy" else NAME, self=SELF, other=OTHER)
    grad(f"{NAME}." + ("Scalar_Self" if NAME == "xlogy" else "self_scalar"), other=OTHER)
    grad(f"{NAME}." + ("Scalar_Other" if NAME == "xlogy" else "other_scalar"), self=NUMBER)
grad("logit special_logit", self="""
g = grad / (self * (1 - self))
if eps is None:
    return torch.where(torch.logical_or(self < 0, self > 1), float('nan'), g)
torch.where(torch.logical_or(self < eps, self > 1 - eps), 0, g)
""")
grad("special_entr", self="grad * (-torch.log(self) - 1)")
grad("special_ndtr", self=f"grad * torch.exp(self * self * -0.5) / {ROOT_2_PI}")
grad("special_ndtri", self=f"grad * torch.exp(result * result * 0.5) * {ROOT_2_PI}")
grad("special_log_ndtr",
     self="grad * 0.7978845608028654 / torch.special_erfcx(self * -0.7071067811865476)")
grad("special_erfcx", self=f"grad * (2 * self * result - 2 / {ROOT_PI})")
grad("i0 special_i0", self="grad * torch.special_i1(self)")
grad("special_i0e", self="grad * (torch.special_i1e(self) - torch.sgn(self) * result)")
# Nothing divides by zero, also where the quotient is not used: second derivatives would be NaN.
grad("special_i1", self="""
x = torch.where(self == 0, 1, self)
grad * torch.where(self == 0, 0.5, torch.i0(x) - result / x)
""")
grad("special_i1e", self="""
x = torch.where(self == 0, 1, self)
grad * torch.where(self == 0, 0.5, torch.special_i0e(x) - result * (torch.sgn(x) + 1 / x))
""")
GAMMA = "grad * torch.exp((self - 1) * torch.log(other) - other - torch.lgamma(self))"
grad("igamma special_gammainc", other=GAMMA)
grad("igammac special_gammaincc", other="-" + GAMMA)
ZETA = "grad * (-self * torch.special_zeta(self + 1, other))"
grad("special_zeta special_zeta.self_scalar", other=ZETA)

# -- Activations

SIGMOID = "torch.sigmoid(self)"
grad("relu", self="torch.where(result <= 0, 0, grad)")
grad("relu6", self="torch.where(torch.logical_or(self <= 0, self >= 6), 0, grad)")
grad("hardtanh", self="torch.where(torch.logical_or(self <= min_val, self >= max_val), 0, grad)")
grad("hardsigmoid", self="torch.where(torch.logical_and(self > -3, self < 3), grad / 6, 0)")
grad("hardswish",
     self="torch.where(self <= -3, 0, torch.where(self < 3, grad * (self / 3 + 0.5), grad))")
grad("leaky_relu", self="torch.where(self > 0, grad, grad * negative_slope)")
grad("elu",
     self="torch.where(self <= 0, grad * torch.exp(self * input_scale) * alpha * scale * "
          "input_scale, grad * scale)")
grad("selu",
     self="torch.where(self <= 0, grad * torch.exp(self) * 1.7580993408473766, grad * "
          "1.0507009873554805)")
grad("celu", self="torch.where(self <= 0, grad * torch.exp(self / alpha), grad)")
grad("silu", self=f"""
s = {SIGMOID}
grad * (s * (1 + self * (1 - s))).conj()
""")
grad("mish", self=f"""
t = torch.tanh(torch.log1p(torch.exp(self)))
grad * (t + self * {SIGMOID} * (1 - t * t))
""")
grad("softplus", self="""
x = self * beta
torch.where(x > threshold, grad, grad * torch.sigmoid(x))
""")
grad("gelu", self="""
if approximate == 'tanh':
    x2 = self * self
    t = torch.tanh(0.7978845608028654 * self * (1 + 0.044715 * x2))
    slope = 0.7978845608028654 * (1 + 0.134145 * x2)
    return grad * (0.5 * (1 + t) + 0.5 * self * (1 - t * t) * slope)
grad * (torch.special_ndtr(self) + self * torch.exp(self * self * -0.5) / 2.5066282746310002)
""")
grad("_prelu_kernel", self="torch.where(self > 0, grad, weight * grad)",
     weight="torch.where(self > 0, 0, self * grad)")
grad("threshold", self="torch.where(self <= threshold, 0, grad)")
grad("hardshrink", self="torch.where(torch.logical_and(self >= -lambd, self <= lambd), 0, grad)")
grad("softshrink", self="torch.where(torch.logical_and(self >= -lambd, self <= lambd), 0, grad)")
grad("log_sigmoid", self="grad * torch.sigmoid(-self)")

# -- Complex numbers

grad("conj_physical", self="torch.conj(grad)")
grad("complex", real="torch.real(grad)", imag="torch.imag(grad)")
grad("polar", abs="torch.real(grad * torch.polar(torch.ones_like(angle), -angle))",
     angle="torch.imag(grad * result.conj())")
