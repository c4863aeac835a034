"""Pointwise operators: arithmetic, comparison, bits, rounding.  Formulas are explained in
README.md."""


def named(inplace=None, out=None):
    """The variants that PyTorch registers."""
    got = {"inplace": inplace, "out": out}
    return {k: n for k, n in got.items() if n and registered(n)}


def unary(name, expr, /, **more):
    """aten::NAME(self, ...), aten::NAME_, aten::NAME.out."""
    op(f"aten::{name}", family="pointwise", expr=expr,
       variants=named(f"aten::{name}_", f"aten::{name}.out"), **more)


def binary(name, expr, /, scalar=True, **more):
    """aten::NAME.Tensor and .Scalar with their variants."""
    op(f"aten::{name}.Tensor", family="pointwise", expr=expr,
       variants=named(f"aten::{name}_.Tensor",
                      f"aten::{name}.out" if registered(f"aten::{name}.out")
                      else f"aten::{name}.Tensor_out"), **more)
    if scalar:
        op(f"aten::{name}.Scalar", family="pointwise", expr=expr,
           variants=named(f"aten::{name}_.Scalar", f"aten::{name}.Scalar_out"), **more)


def plain(name, expr, /, **more):
    """aten::NAME(self, other), aten::NAME_, aten::NAME.out."""
    unary(name, expr, **more)


OPMATH = {"other": "opmath"}
ROUND = {"alpha": "rounded"}

# -- Arithmetic

ADD = {"bool": "self | (other & alpha)", "int": "fma(alpha, other, self)",
       "float": "fma(alpha, other, self)", "complex": "fma(alpha, other, self)"}
SUB = {"int float complex": {"alpha=1": "self - other", "else": "fma(-alpha, other, self)"}}
RSUB = {"int float complex": {"alpha=1": "other - self", "else": "fma(-alpha, self, other)"}}
binary("add", ADD, scalars=ROUND, name="add_stub")
NO_BOOL = ("Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
           "to "
           "invert a mask, use the `~` or `logical_not()` operator instead.\n"
           "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
           "`logical_xor()` "
           "operator instead.")  # one, and two
binary("sub", SUB, scalars=ROUND, refuse_bool=NO_BOOL)
binary("rsub", RSUB, scalars=ROUND, refuse_bool=NO_BOOL)
op("aten::subtract.Scalar", family="pointwise", expr=SUB, scalars=ROUND, refuse_bool=NO_BOOL,
   variants={"inplace": "aten::subtract_.Scalar"})
op("aten::subtract.Tensor", family="pointwise", expr=SUB,
   scalars=ROUND, refuse_bool=NO_BOOL,
   variants={"inplace": "aten::subtract_.Tensor", "out": "aten::subtract.out"})
MUL = {"bool": "self & other", "int float complex": "self * other"}
binary("mul", MUL, scalars=OPMATH, name="mul_cpu")
binary("multiply", MUL, scalars=OPMATH, name="mul_cpu")
DIV = {"float complex": "self / other"}
MODES = {"rounding_mode=None": {"float complex": "self / other"},
         "rounding_mode='trunc'": {},
         "rounding_mode='floor'": {"int float": "self // other"}}
for NAME in ("div", "divide", "true_divide"):
    binary(NAME, DIV, promote="float", scalars=OPMATH, name="div_cpu")
    if NAME != "true_divide":
        for KIND, OUT in (("Tensor_mode", "out_mode"), ("Scalar_mode", "Scalar_mode_out")):
            # PyTorch rounds a quotient of 16-bit tensors before it truncates it, but not a quotient
            # by a number
            TRUNC = "trunc(rnd(self / other))" if KIND == "Tensor_mode" else "trunc(self / other)"
            MODES["rounding_mode='trunc'"] = {"int": "tdiv(self, other)", "float": TRUNC}
            op(f"aten::{NAME}.{KIND}", family="pointwise", expr=dict(MODES),
               promote="float_in_first_arm", scalars=OPMATH, name="div_cpu",
               variants=named(f"aten::{NAME}_.{KIND}", f"aten::{NAME}.{OUT}"))
FLOOR_DIVIDE = {"int float": "self // other"}
op("aten::floor_divide", family="pointwise", expr=FLOOR_DIVIDE, scalars=OPMATH,
   name="div_floor_cpu",
   variants={"inplace": "aten::floor_divide_.Tensor", "out": "aten::floor_divide.out"})
op("aten::floor_divide.Scalar", family="pointwise", expr=FLOOR_DIVIDE, scalars=OPMATH,
   name="div_floor_cpu",
   variants=named("aten::floor_divide_.Scalar", "aten::floor_divide.Scalar_out"))
binary("remainder", {"int float": "self % other"}, name="remainder_cpu")
op("aten::remainder.Scalar_Tensor", family="pointwise", expr={"int float": "self % other"},
   name="remainder_cpu", variants={"out": "aten::remainder.Scalar_Tensor_out"})
binary("fmod", {"int float": "fmod(self, other)"}, name="fmod_cpu")
POWERS = {"exponent=2": {"int float complex": "self * self"},
          "exponent=1": {"int float complex": "self"},
          "exponent=3": {"int float": "self * self * self"},
          "exponent=0.5": {"float": "sqrt(self)"}, "exponent=-0.5": {"float": "rsqrt(self)"},
          "exponent=-1": {"float": "1 / self"}, "exponent=-2": {"float": "1 / (self * self)"},
          "else": {"bool": "self | ~exponent", "int": "ipow(self, exponent)",
                   "float complex": "self ** exponent"}}
op("aten::pow.Tensor_Scalar", family="pointwise", expr=POWERS, promote=["self", "exponent"],
   name="pow", variants={"inplace": "aten::pow_.Scalar", "out": "aten::pow.Tensor_Scalar_out"})
POW = {"int float complex": "self ** exponent"}
op("aten::pow.Tensor_Tensor", family="pointwise", expr=POW, name="pow",
   variants={"inplace": "aten::pow_.Tensor", "out": "aten::pow.Tensor_Tensor_out"})
op("aten::pow.Scalar", family="pointwise", expr=POW, name="pow",
   variants={"out": "aten::pow.Scalar_out"})
WIDEST = (
    "torch.result_type(torch.empty([1], dtype=torch.complex128 if {0}.is_complex() else "
    "torch.float64), {1})"
)
for KIND, ARGUMENTS, DTYPE in (("Tensor_Tensor", "self.to(dtype), exponent.to(dtype)",
                                "torch.complex128 if self.is_complex() or exponent.is_complex() "
                                "else torch.float64"),
                               ("Tensor_Scalar", "self.to(dtype), exponent", WIDEST.format("self",
                                   "exponent")),
                               ("Scalar", "self, exponent.to(dtype)", WIDEST.format("exponent",
                                   "self"))):
    op(f"aten::float_power.{KIND}", family="pointwise", shape="float_power", body=f"""
def float_power(self: Tensor, exponent: Tensor) -> Tensor:
    dtype = {DTYPE}
    return torch.pow({ARGUMENTS})
""", variants={k: v for k, v in (("inplace", {"Tensor_Tensor": "aten::float_power_.Tensor",
                                              "Tensor_Scalar":
                                              "aten::float_power_.Scalar"}.get(KIND)),
                                 ("out", f"aten::float_power.{KIND}_out")) if v})
for NAME in ("neg", "negative"):
    unary(NAME, {"int float complex": "-self"}, refuse_bool="Negation, the `-` operator, on a bool "
          "tensor is not supported. If you are trying to invert a mask, use the `~` or "
          "`logical_not()` "
          "operator instead.")
unary("abs", {"int float": "abs(self)", "complex": "hypot(real(self), imag(self))"}, out="real",
      name="abs_cpu")
op("prim::abs", family="pointwise", expr={"int float": "abs(x)",
                                          "complex": "hypot(real(x), imag(x))"},
   out="real", name="abs_cpu")
unary("absolute", {"int float": "abs(self)", "complex": "hypot(real(self), imag(self))"},
      out="real", name="abs_cpu")
unary("square", {"int float complex": "self * self"})
unary("sign", {"bool": "self", "int float": "k(self > 0) - k(self < 0)"}, name="sign_cpu")
unary("sgn", {"bool": "self", "int float": "k(self > 0) - k(self < 0)",
              "complex": "m = hypot(real(self), imag(self))\nwhere(m == 0, self, self / m)"})
unary("reciprocal", {"float complex": "1 / self"}, promote="float")
unary("fix", {"int": "self", "float": "trunc(self)"})
for NAME in ("ceil", "floor", "trunc"):
    unary(NAME, {"int": "self", "float": f"{NAME}(self)"},
          name=f"{NAME}_cpu" if NAME != "trunc" else NAME)
unary("round", {"int": "self", "float": "rint(self)"}, name="round_cpu")
op("aten::round.decimals", family="pointwise", name="round_cpu", fixed={"decimals": "float64"},
   expr={"int": "self", "float": """p = k(f64(10) ** abs(decimals))
         where(decimals == 0, rint(self),
               where(decimals > 0, rint(self * p) / p, rint(self / p) * p))"""},
   variants={"inplace": "aten::round_.decimals", "out": "aten::round.decimals_out"})
unary("frac", {"float": "self - trunc(self)"}, name="frac_cpu")
op("aten::frexp.Tensor", family="pointwise", expr={"float": "frexpm(self), frexpe(self)"},
   out=["common", "int32"], name="frexp", variants={"out": "aten::frexp.Tensor_out"})
op("aten::lerp.Tensor", family="pointwise", promote=["self", "end"], name="lerp_kernel_tensor",
   expr={"float": """d = end - self
         near = abs(weight) < 0.5
         fma(where(near, weight, weight - 1), d, where(near, self, end))""",
         "complex": "self + weight * (end - self)"},
   variants={"inplace": "aten::lerp_.Tensor", "out": "aten::lerp.Tensor_out"})
op("aten::lerp.Scalar", family="pointwise", name="lerp_kernel_scalar",
   expr={"float": """d = end - self
         near = abs(weight) < 0.5
         fma(where(near, weight, weight - 1), d, where(near, self, end))""",
         "complex": "self + weight * (end - self)"},
   variants={"inplace": "aten::lerp_.Scalar", "out": "aten::lerp.Scalar_out"})
unary("addcmul", {"int float complex": "self + value * tensor1 * tensor2"}, name="addcmul_cpu_out")
unary("addcdiv", {"float complex": "self + value * tensor1 / tensor2"}, name="addcdiv_cpu_out")
plain("gcd", {"int": "gcd(self, other)"}, name="gcd_cpu")
plain("lcm",
      {"int": "g = gcd(self, other)\n"
              "where(g == 0, 0, abs(tdiv(self, where(g == 0, 1, g)) * other))"},
      name="lcm_cpu")

# -- Largest, smallest

MAX = {"bool": "self | other", "int float": "max(self, other)"}
MIN = {"bool": "self & other", "int float": "min(self, other)"}
plain("maximum", MAX, name="maximum_cpu")
plain("minimum", MIN, name="minimum_cpu")
op("aten::max.other", family="pointwise", expr=MAX, name="maximum_cpu",
   variants={"out": "aten::max.out"})
op("aten::min.other", family="pointwise", expr=MIN, name="minimum_cpu",
   variants={"out": "aten::min.out"})
plain("fmax", {"bool": "self | other", "int": "max(self, other)", "float": "fmax(self, other)"},
      name="fmax_cpu")
plain("fmin", {"bool": "self & other", "int": "min(self, other)", "float": "fmin(self, other)"},
      name="fmin_cpu")
CLAMP = {"min=None": {"int float": "min(self, max)"}, "max=None": {"int float": "max(self, min)"},
         "else": {"int float": "min(max(self, min), max)"}}
for NAME in ("clamp", "clip"):
    unary(NAME, CLAMP, name="clamp_scalar_cpu")
    op(f"aten::{NAME}.Tensor", family="pointwise", name="clamp_cpu", expr=CLAMP,
       variants={"inplace": f"aten::{NAME}_.Tensor", "out": f"aten::{NAME}.Tensor_out"})
unary("clamp_min", {"int float": "max(self, min)"}, name="clamp_min_scalar_cpu")
unary("clamp_max", {"int float": "min(self, max)"}, name="clamp_max_scalar_cpu")
op("aten::clamp_min.Tensor", family="pointwise", name="clamp_min_cpu",
   expr={"bool": "self | min", "int float": "max(self, min)"},
   variants={"inplace": "aten::clamp_min_.Tensor", "out": "aten::clamp_min.Tensor_out"})
op("aten::clamp_max.Tensor", family="pointwise", name="clamp_max_cpu",
   expr={"bool": "self & max", "int float": "min(self, max)"},
   variants={"inplace": "aten::clamp_max_.Tensor", "out": "aten::clamp_max.Tensor_out"})

# -- Comparison

for NAME, LONG, SIGN in (("eq", None, "=="), ("ne", "not_equal", "!="), ("lt", "less", "<"),
                         ("le", "less_equal", "<="), ("gt", "greater", ">"),
                         ("ge", "greater_equal", ">=")):
    ALL = "bool int float complex" if NAME in ("eq", "ne") else "bool int float"
    for N in (NAME, LONG):
        if N:
            binary(N, {ALL: f"self {SIGN} other"}, promote="bool_out", name=f"{NAME}_cpu")
unary("isnan", "isnan(self)", out="bool")
FINITE = {"bool int": "not isnan(self)", "float": "abs(self) < inf",
          "complex": "abs(real(self)) < inf and abs(imag(self)) < inf"}
unary("isfinite", FINITE, out="bool")
unary("isinf", {"bool int": "isnan(self)", "float": "isinf(self)",
                "complex": "isinf(real(self)) or isinf(imag(self))"}, out="bool")
unary("isposinf", {"bool int": "isnan(self)", "float": "self == inf"}, out="bool")
unary("isneginf", {"bool int": "isnan(self)", "float": "self == -inf"}, out="bool")
unary("isreal", {"bool int float": "self == self or self != self", "complex": "imag(self) == 0"},
      out="bool")
unary("signbit", {"bool": "self != self", "int": "self < 0", "float": "signbit(self)"}, out="bool")
plain("heaviside", {"bool": "(not self and values) or self", "int float":
                    "where(self == 0, values, k(self > 0))"}, name="heaviside_cpu")

# -- Logic and bits

EVERY = "bool int float complex"
plain("logical_and", {EVERY: "bool(self) and bool(other)"}, promote="bool_out")
plain("logical_or", {EVERY: "bool(self) or bool(other)"}, promote="bool_out")
plain("logical_xor", {EVERY: "bool(self) ^ bool(other)"}, promote="bool_out")
unary("logical_not", {EVERY: "not self"}, out="bool")
unary("bitwise_not", {"bool int": "~self"}, name="bitwise_not_cpu")
for NAME, SIGN in (("and", "&"), ("or", "|"), ("xor", "^")):
    BITS = {"bool int": f"self {SIGN} other"}
    binary(f"bitwise_{NAME}", BITS, name=f"bitwise_{NAME}_cpu")
    op(f"aten::bitwise_{NAME}.Scalar_Tensor", family="pointwise", expr=BITS,
       name=f"bitwise_{NAME}_cpu", variants={"out": f"aten::bitwise_{NAME}.Scalar_Tensor_out"})
    for KIND in ("Tensor", "Scalar"):
        op(f"aten::__{NAME}__.{KIND}", family="pointwise", expr=BITS, name=f"bitwise_{NAME}_cpu",
           variants={"inplace": f"aten::__i{NAME}__.{KIND}"})
for NAME, LONG, SIGN in (("lshift", "left", "<<"), ("rshift", "right", ">>")):
    SHIFT = {"int": f"self {SIGN} other"}
    op(f"aten::bitwise_{LONG}_shift.Tensor", family="pointwise", expr=SHIFT, name=f"{NAME}_cpu",
       variants={"inplace": f"aten::bitwise_{LONG}_shift_.Tensor",
                 "out": f"aten::bitwise_{LONG}_shift.Tensor_out"})
    op(f"aten::bitwise_{LONG}_shift.Tensor_Scalar", family="pointwise", expr=SHIFT,
       name=f"{NAME}_cpu",
       variants={"inplace": f"aten::bitwise_{LONG}_shift_.Tensor_Scalar",
                 "out": f"aten::bitwise_{LONG}_shift.Tensor_Scalar_out"})
    op(f"aten::bitwise_{LONG}_shift.Scalar_Tensor", family="pointwise", expr=SHIFT,
       name=f"{NAME}_cpu", variants={"out": f"aten::bitwise_{LONG}_shift.Scalar_Tensor_out"})
    for KIND in ("Tensor", "Scalar"):
        op(f"aten::__{NAME}__.{KIND}", family="pointwise", expr=SHIFT,
           name=f"{NAME}_cpu", variants={"inplace": f"aten::__i{NAME}__.{KIND}",
                                         "out": f"aten::__{NAME}__.{KIND}_out"})

# -- Choice

for KIND in ("self", "ScalarSelf", "ScalarOther", "Scalar"):
    op(f"aten::where.{KIND}", family="pointwise", expr="where(condition, self, other)",
       fixed={"condition": "bool"}, variants=named(None, f"aten::where.{KIND}_out"))
for KIND in ("Scalar", "Tensor"):
    op(f"aten::masked_fill.{KIND}", family="pointwise", expr="where(mask, value, self)",
       promote=["self"], fixed={"mask": "bool"}, layout="row_major",
       variants={"inplace": f"aten::masked_fill_.{KIND}", "out": f"aten::masked_fill.{KIND}_out"})
def finite(part):
    """Return `part` without NaN and infinities, by the given arguments."""
    def choice(nan, posinf, neginf):
        return (
            f"where(isnan({part}), {nan}, where({part} == inf, {posinf}, where({part} == -inf, "
            f"{neginf}, {part})))"
        )

    def infinities(nan):
        return {"posinf=None": {"neginf=None": choice(nan, "dtype_max", "dtype_min"),
                                "else": choice(nan, "dtype_max", "neginf")},
                "neginf=None": choice(nan, "posinf", "dtype_min"), "else": choice(nan, "posinf",
                    "neginf")}

    return {"nan=None": infinities("0"), **infinities("nan")}


def of_parts(re, im):
    """Combine two formulas under the same conditions into complex numbers."""
    return {k: of_parts(re[k], im[k]) if isinstance(re[k],
        dict) else f"complex({re[k]}, {im[k]})" for k in re}


unary("nan_to_num", {"bool int": "self", "float": finite("self"),
                     "complex": of_parts(finite("real(self)"), finite("imag(self)"))})

# Facts about these operators that other parts read.
known("absolute", synonym_of="abs")
known("clip", synonym_of="clamp")
known("divide.* true_divide.*", synonym_of="div")
known("greater_equal.*", synonym_of="ge")
known("greater.*", synonym_of="gt")
known("less_equal.*", synonym_of="le")
known("less.*", synonym_of="lt")
known("multiply.*", synonym_of="mul")
known("not_equal.*", synonym_of="ne")
known("negative", synonym_of="neg")
known("subtract.*", synonym_of="sub")
known("fix", synonym_of="trunc")
known("divide.* divide_.* multiply.* multiply_.* subtract.* subtract_.* true_divide.* "
      "true_divide_.* floor_divide.* floor_divide_.*",
      effects=["takes_numbers"])
known("addcdiv.* addcmul.* pow.* reciprocal.*", script_autocast="float32")

# What in-place and out= forms demand of what they write to (../README.md).
written("exact", "abs", "ceil", "floor", "frac", "frexp", "heaviside", "isneginf", "isposinf",
        "nan_to_num", "neg", "round", "sgn", "sign", "signbit", "trunc", "where")
written("overlap", "masked_fill")
