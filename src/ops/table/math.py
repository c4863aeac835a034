"""math.*: functions of numbers."""

# name -> C expression of a double, and whether there is a complex form (kernel_NAME_complex).
FLOATS = {"gamma": ("tgamma({})", 0), "fabs": ("fabs({})", 0), "degrees": ("({} * (180.0 / M_PI))",
                                                                           0),
          "radians": ("({} * (M_PI / 180.0))", 0), "lgamma": ("vm_lgamma_f64({})", 0),
          "log1p": ("log1p({})", 0), "expm1": ("expm1({})", 0), "erf": ("erf({})", 0),
          "erfc": ("erfc({})", 0), "round": ("nearbyint({})", 0), "exp": ("exp({})", 1),
          "log": ("log({})", 1), "log10": ("log10({})", 1), "sqrt": ("sqrt({})", 1),
          "sin": ("sin({})", 1), "cos": ("cos({})", 1), "tan": ("tan({})", 1), "asin": ("asin({})",
                                                                                        1),
          "acos": ("acos({})", 1), "atan": ("atan({})", 1), "sinh": ("sinh({})", 1),
          "cosh": ("cosh({})", 1), "tanh": ("tanh({})", 1), "asinh": ("asinh({})", 1),
          "acosh": ("acosh({})", 1), "atanh": ("atanh({})", 1)}
for name, (formula, has_complex) in FLOATS.items():
    op(f"aten::{name}.int", family="math", c=formula.format("(double)a"))
    op(f"aten::{name}.float", family="math", c=formula.format("a"))
    op(f"aten::{name}.Scalar", family="math", kernel=f"kernel_{name}_number")
    if has_complex:
        op(f"aten::{name}.complex", family="math", kernel=f"kernel_{name}_complex")

op("aten::angle.int", family="math", c="a < 0 ? M_PI : 0.0")
op("aten::angle.float", family="math", c="a < 0 || (a == 0 && signbit(a)) ? M_PI : 0.0")
op("aten::angle.complex", family="math", kernel="kernel_angle_number", same=["aten::angle.Scalar"])

op("aten::floor.int", family="math", c="a")
op("aten::ceil.int", family="math", c="a")
op("aten::floor.float", family="math", kernel="kernel_floor_number", same=["aten::floor.Scalar"])
op("aten::ceil.float", family="math", kernel="kernel_ceil_number", same=["aten::ceil.Scalar"])

for name, formula in {"atan2": "atan2(x, y)", "copysign": "copysign(x, y)", "fmod": "fmod(x, y)",
                      "mathremainder": "remainder(x, y)"}.items():
    for overload in ["int", "float", "int_float", "float_int"]:
        op(f"aten::{name}.{overload}", family="math",
           c=formula.replace("(x, y)", "((double)a, (double)b)"))
    op("aten::atan2.Scalar_Scalar" if name == "atan2" else f"aten::{name}", family="math",
       kernel=f"kernel_{name}_numbers")

op("aten::pow.int", family="math", kernel="kernel_pow_numbers",
   same=[f"aten::pow.{o}" for o in ["float", "int_float", "float_int", "Scalar_Scalar", "complex",
                                    "float_complex", "complex_float"]])
op("aten::pow.int_to_int", family="math", kernel="kernel_pow_int")
op("aten::log.int_int", family="math", kernel="kernel_log_numbers",
   same=[f"aten::log.{o}" for o in ["float_float", "int_float", "float_int", "Scalar_Scalar",
                                    "complex_complex", "int_complex", "complex_int",
                                    "float_complex", "complex_float"]])
op("aten::polar.int", family="math", kernel="kernel_polar_numbers",
   same=[f"aten::polar.{o}" for o in ["float", "int_float", "float_int", "Scalar_Scalar"]])

op("aten::isnan.float", family="math", c="isnan(a)")
op("aten::isinf.float", family="math", c="isinf(a)")
op("aten::isfinite.float", family="math", c="isfinite(a)")
op("aten::isnan.complex", family="math", kernel="kernel_isnan_complex")
op("aten::isinf.complex", family="math", kernel="kernel_isinf_complex")
op("aten::isfinite.complex", family="math", kernel="kernel_isfinite_complex")

op("aten::factorial.int", family="math", kernel="kernel_factorial")
op("aten::ldexp", family="math", c="ldexp(x, (int)(i < -10000 ? -10000 : i > 10000 ? 10000 : i))")
op("aten::modf", family="math", kernel="kernel_modf")
op("aten::frexp", family="math", kernel="kernel_frexp")
