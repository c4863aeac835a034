"""Pointwise operators: transcendental functions, activations, complex numbers."""


def unary(name, expr, /, **more):
    """aten::NAME(self, ...), aten::NAME_, aten::NAME.out."""
    got = {"inplace": f"aten::{name}_", "out": f"aten::{name}.out"}
    op(f"aten::{name}", family="pointwise", expr=expr,
       variants={k: n for k, n in got.items() if registered(n)}, **more)


# -- Transcendental: integers become float32

COMPLEX = {"exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan",
           "asinh", "acosh", "atanh", "sqrt"}
ALIASES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
           "acosh": "arccosh", "atanh": "arctanh"}
for NAME in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos",
             "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh",
             "erf", "erfc", "erfinv", "lgamma", "digamma", "sigmoid"):
    FORMULA = {"float": f"{NAME}(self)"}
    if NAME in COMPLEX:
        FORMULA["complex"] = f"z{NAME}(self)"
    if NAME == "sigmoid":
        FORMULA["complex"] = "1 / (1 + zexp(-self))"
    if NAME in ("exp2", "expm1", "log1p"):
        FORMULA["complex"] = {"exp2": "zexp(self * 0.6931471805599453)", "expm1": "zexp(self) - 1",
                              "log1p": "zlog(1 + self)"}[NAME]
    if NAME == "rsqrt":
        FORMULA["complex"] = "1 / zsqrt(self)"
    if NAME in ("log2", "log10"):
        FORMULA["complex"] = (
            f"zlog(self) / "
            f"{0.6931471805599453 if NAME == 'log2' else 2.302585092994046}"
        )
    unary(NAME, FORMULA, promote="float", name=f"{NAME}_vml_cpu",
          effects={"sigmoid": ["quantized_unit"], "tanh": ["quantized_symmetric"]}.get(NAME, []))
    if NAME in ALIASES:
        unary(ALIASES[NAME], FORMULA, promote="float", name=f"{NAME}_vml_cpu")
for NAME, FROM in (("expit", "sigmoid"), ("exp2", "exp2"), ("expm1", "expm1"), ("log1p", "log1p"),
                   ("erf", "erf"), ("erfc", "erfc"), ("erfinv", "erfinv"), ("gammaln", "lgamma"),
                   ("digamma", "digamma"), ("psi", "digamma")):
    FORMULA = {"float": f"{FROM}(self)"}
    if FROM in ("exp2", "expm1", "log1p", "sigmoid"):
        FORMULA["complex"] = {"exp2": "zexp(self * 0.6931471805599453)", "expm1": "zexp(self) - 1",
                              "log1p": "zlog(1 + self)", "sigmoid": "1 / (1 + zexp(-self))"}[FROM]
    unary(f"special_{NAME}", FORMULA, promote="float")
for NAME in ("sinc", "special_sinc"):
    unary(NAME, {"float": "x = self * 3.141592653589793\nwhere(self == 0, 1, sin(x) / x)",
                 "complex": "x = self * 3.141592653589793\nwhere(self == 0, 1, zsin(x) / x)"},
                 promote="float")
unary("deg2rad", {"float": "self * 0.017453292519943295"}, promote="float")
unary("rad2deg", {"float": "self * 57.29577951308232"}, promote="float")
unary("atan2", {"float": "atan2(self, other)"}, promote="float")
unary("arctan2", {"float": "atan2(self, other)"}, promote="float")
unary("hypot", {"float": "hypot(self, other)"})
unary("nextafter", {"float": "nextafter(self, other)"})
unary("logaddexp", {"complex": """less = real(self) < real(other)
    lo = where(less, self, other)
    hi = where(less, other, self)
    where(isinf(real(lo)) and real(lo) == real(hi),
          where(real(lo) < 0, lo, zlog(zexp(lo) + zexp(hi))), hi + zlog(1 +
                zexp(lo - hi)))""", "float": """m = where(self < other or isnan(other), other, self)
    where(isinf(self) and self == other, self, m + log1p(exp(-abs(self - other))))"""})
unary("logaddexp2", {"float": """m = where(self < other or isnan(other), other, self)
    where(isinf(self) and self == other, self,
    m + 1.4426950408889634 * log1p(exp2(-abs(self - other))))"""})
for KIND in ("Tensor", "Scalar"):
    op(f"aten::copysign.{KIND}", family="pointwise", expr={"float": "copysign(self, other)"},
       promote="float", variants={"inplace": f"aten::copysign_.{KIND}", "out": "aten::copysign.out"
                                  if KIND == "Tensor" else "aten::copysign.Scalar_out"})
op("aten::ldexp.Tensor", family="pointwise", shape="together_float", body="""
def ldexp(self: Tensor, other: Tensor) -> Tensor:
    return torch.mul(self, torch.pow(2.0, other))
""", variants={"inplace": "aten::ldexp_", "out": "aten::ldexp.out"})
XLOGY = {"float": "where(isnan(other), other, where(self == 0, 0, self * log(other)))"}
XLOG1PY = {"float": "where(isnan(other), other, where(self == 0, 0, self * log1p(other)))"}
for NAME, FORMULA in (("xlogy", XLOGY), ("special_xlogy", XLOGY), ("special_xlog1py", XLOG1PY)):
    FIRST = "aten::xlogy.Tensor" if NAME == "xlogy" else f"aten::{NAME}"
    OUTS = ("OutTensor", "OutScalar_Self", "OutScalar_Other") if NAME == "xlogy" else (
        "out", "self_scalar_out", "other_scalar_out")
    SELF, OTHER = ("Scalar_Self", "Scalar_Other") if NAME == "xlogy" else ("self_scalar",
        "other_scalar")
    op(FIRST, family="pointwise", expr=FORMULA, promote="float",
       variants={k: n for k, n in {"inplace": f"aten::{NAME}_.Tensor",
                                   "out": f"aten::{NAME}.{OUTS[0]}"}.items() if registered(n)})
    op(f"aten::{NAME}.{SELF}", family="pointwise", expr=FORMULA, promote="float",
       variants={"out": f"aten::{NAME}.{OUTS[1]}"})
    op(f"aten::{NAME}.{OTHER}", family="pointwise", expr=FORMULA, promote="float",
       variants={k: n for k, n in {"inplace": f"aten::{NAME}_.{OTHER}",
                                   "out": f"aten::{NAME}.{OUTS[2]}"}.items() if registered(n)})
unary("logit", {"eps=None": {"float": "log(rnd(self / rnd(1 - self)))"},
                "else": {"float": """lo = eps
                         x = where(self < lo, lo, where(self > 1 - lo, 1 - lo, self))
                         log(rnd(x / rnd(1 - x)))"""}}, promote="float",
      scalars={"eps": "rounded"})
unary("special_logit", {"eps=None": {"float": "log(rnd(self / rnd(1 - self)))"},
                        "else": {"float": """lo = eps
                         x = where(self < lo, lo, where(self > 1 - lo, 1 - lo, self))
                         log(rnd(x / rnd(1 - x)))"""}}, promote="float",
      scalars={"eps": "rounded"})
unary("special_entr", {"float": "where(isnan(self), self, where(self > 0, -self * log(self), "
                                "where(self == 0, 0, -inf)))"}, promote="float")
unary("special_ndtr", {"float": "rnd(1 + rnd(erf(rnd(self / 1.4142135623730951)))) * 0.5"},
      promote="float")

# -- Activations

unary("relu", {"int float": "max(self, 0)"}, name="clamp_min_scalar_cpu",
      refuse_bool="Boolean inputs not supported for relu")
unary("relu6", {"int float": "min(max(self, 0), 6)"}, name="hardtanh_cpu",
      refuse_bool="Bool inputs not supported for hardtanh")
unary("hardtanh", {"int float": "min(max(self, min_val), max_val)"}, name="hardtanh_cpu",
      refuse_bool="Bool inputs not supported for hardtanh")
unary("hardsigmoid", {"float": "min(max(self + 3, 0), 6) / 6"}, name="hardsigmoid_cpu",
      effects=["quantized_unit"])
unary("hardswish", {"float": "self * min(max(self + 3, 0), 6) / 6"}, name="hardswish_cpu")
unary("leaky_relu", {"float": "where(self > 0, self, self * negative_slope)"},
      name="leaky_relu_cpu")
unary("elu",
      {"float": "where(self <= 0, expm1(self * input_scale) * (alpha * scale), self * scale)"},
      name="elu_cpu")
unary("selu",
      {"float": "where(self <= 0, expm1(self) * 1.7580993408473766, self * 1.0507009873554805)"},
      name="elu_cpu")
unary("celu", {"float": "where(self <= 0, expm1(self * (1 / alpha)) * alpha, self)"},
      name="elu_cpu")
unary("silu", {"float": "self * sigmoid(self)", "complex": "self / (1 + zexp(-self))"},
      name="silu_cpu")
unary("mish", {"float": "self * tanh(log1p(exp(self)))"}, name="mish_cpu")
unary("softplus", {"float": "x = self * beta\nwhere(x > threshold, self, log1p(exp(x)) / beta)"},
      name="softplus_cpu")
unary("gelu", {"float": {
    "approximate='none'": "self * phi(self)",
    "approximate='tanh'": """x = self * self * self
        0.5 * self * (1 + tanh(0.7978845608028654 * (self + 0.044715 * x)))"""}},
        name="GeluKernelImpl")
op("aten::_prelu_kernel", family="pointwise", name="prelu_cpu",
   expr={"float": "where(self > 0, self, weight * self)"})
op("aten::prelu", family="pointwise", shape="prelu", body="""
def prelu(self: Tensor, weight: Tensor) -> Tensor:
    w = weight
    if self.dim() == 0 and weight.numel() != 1:
        raise RuntimeError("Not allow zero-dim input tensor.")
    if self.dim() >= 2 and weight.dim() == 1:
        sizes = [1] * self.dim()
        sizes[1] = weight.numel()
        if weight.numel() != 1 and weight.numel() != self.size(1):
            raise RuntimeError("Mismatch of parameter numbers and input channel size. "
                               "Found parameter numbers = " + str(weight.numel())
                               + " and channel size = " + str(self.size(1)) + ".")
        w = weight.reshape(sizes)
    elif weight.dim() == 1 and weight.numel() == 1:
        w = weight.reshape([1] * self.dim())
    return torch.ops.aten._prelu_kernel(self, w)
""")
unary("threshold", {"int float": "where(self <= threshold, value, self)"}, name="threshold_cpu")
unary("hardshrink", {"float": "where(self >= -lambd and self <= lambd, 0, self)"},
      name="hardshrink_cpu")
unary("softshrink",
      {"float": "where(self > lambd, self - lambd, where(self < -lambd, self + lambd, self * 0))"},
      name="softshrink_cpu")
unary("log_sigmoid", {"float": "min(self, 0) - log1p(exp(-abs(self)))"}, name="log_sigmoid_cpu")

# -- Complex numbers

op("aten::_conj_physical", family="pointwise", expr={"bool int float": "self",
    "complex": "complex(real(self), -imag(self))"},
   variants={"inplace": "aten::conj_physical_", "out": "aten::_conj_physical.out"})
unary("angle", {"float": "where(isnan(self), self, where(self < 0, pi, 0))",
                "complex": "atan2(imag(self), real(self))"}, promote="float", out="real")
op("aten::complex", family="pointwise", expr={"float": "complex(real, imag)"}, out="complex",
   variants={"out": "aten::complex.out"})
op("aten::polar", family="pointwise", out="complex",
   expr={"float": "complex(abs * cos(angle), abs * sin(angle))"},
   variants={"out": "aten::polar.out"})

# Facts about these operators that other parts read.
known("arccos", synonym_of="acos")
known("arccosh", synonym_of="acosh")
known("arcsin", synonym_of="asin")
known("arcsinh", synonym_of="asinh")
known("arctan", synonym_of="atan")
known("arctan2", synonym_of="atan2")
known("arctanh", synonym_of="atanh")
known("special_digamma special_psi", synonym_of="digamma")
known("special_erf", synonym_of="erf")
known("special_erfc", synonym_of="erfc")
known("special_erfinv", synonym_of="erfinv")
known("special_exp2", synonym_of="exp2")
known("special_expm1", synonym_of="expm1")
known("special_gammaln", synonym_of="lgamma")
known("special_log1p", synonym_of="log1p")
known("special_logit", synonym_of="logit")
known("special_expit", synonym_of="sigmoid")
known("special_sinc", synonym_of="sinc")
known("special_xlogy", synonym_of="xlogy")
known("polar", autocast="float32")
known("prelu", autocast="lower")
known("acos.* asin.* atan2.* cosh.* erfinv.* exp.* expm1.* gelu.* log.* log10.* log1p.* "
      "log2.* rsqrt.* sinh.* softplus.* tan.*",
      script_autocast="float32")
known("prelu.*", script_autocast="lower")

# What in-place and out= forms demand of what they write to (../README.md).
written("exact", "complex", "gelu", "hardshrink", "log_sigmoid", "polar", "softplus",
        "softshrink")
written("cast", "ldexp")
