"""Operators on numbers alone: arithmetic, comparison, conversion."""

# Both arguments' types by overload; the empty overload takes any two numbers.
REAL = {"int": ("int64_t", "int64_t"), "float": ("double", "double"),
        "int_float": ("double", "double"), "float_int": ("double", "double")}
COMPLEX = ["complex", "int_complex", "complex_int", "float_complex", "complex_float"]

for name, formula in {"add": "i64_add(a, b)", "sub": "i64_sub(a, b)",
                      "mul": "i64_mul(a, b)"}.items():
    sign = {"add": "+", "sub": "-", "mul": "*"}[name]
    op(f"aten::{name}.int", family="scalar", c=formula, opcode=f"{name.upper()}_INT")
    op(f"aten::{name}.float", family="scalar", c=f"a {sign} b", opcode=f"{name.upper()}_FLOAT")
    for overload in ["int_float", "float_int"]:
        op(f"aten::{name}.{overload}", family="scalar", c=f"(double)a {sign} (double)b")
    op(f"aten::{name}.complex", family="scalar", kernel=f"kernel_{name}_numbers",
       same=[f"aten::{name}.{o}" for o in COMPLEX[1:]] + [f"aten::{name}"])

op("aten::div.int", family="scalar", c="(double)a / (double)b")
op("aten::div.float", family="scalar", c="a / b", opcode="DIV_FLOAT")
op("aten::div.complex", family="scalar", kernel="kernel_div_numbers", same=["aten::div"])

op("aten::floordiv.int", family="scalar", kernel="kernel_floordiv_numbers",
   same=["aten::floordiv.int_float", "aten::floordiv.float_int", "aten::floordiv"])
op("aten::floordiv.float", family="scalar", c="floor(a / b)")
op("aten::remainder.int", family="scalar", kernel="kernel_remainder_numbers",
   same=["aten::remainder.int_float", "aten::remainder.float_int", "aten::remainder"])
op("aten::remainder.float", family="scalar", c="f64_mod(a, b)")
op("aten::__round_to_zero_floordiv.int", family="scalar", kernel="kernel_truncdiv_int")
op("aten::divmod.int", family="scalar", kernel="kernel_divmod_int")
op("aten::divmod.float", family="scalar", kernel="kernel_divmod_float")
op("aten::divmod.int_float", family="scalar", kernel="kernel_divmod_mixed",
   same=["aten::divmod.float_int"])

op("aten::neg.int", family="scalar", c="i64_neg(a)", opcode="NEG_INT")
op("aten::neg.float", family="scalar", c="-a", opcode="NEG_FLOAT")
op("aten::neg.complex", family="scalar", kernel="kernel_neg_number", same=["aten::neg.Scalar"])
op("prim::abs.int", family="scalar", c="i64_abs(a)")
op("prim::abs.float", family="scalar", c="fabs(a)")
op("prim::abs.complex", family="scalar", kernel="kernel_abs_number", same=["prim::abs.Scalar"])
op("aten::gcd.int", family="scalar", c="i64_gcd(a, b)")

for name, sign in {"__and__": "&", "__or__": "|", "__xor__": "^"}.items():
    for overload in ["int", "bool"]:
        op(f"aten::{name}.{overload}", family="scalar", c=f"a {sign} b",
           opcode=f"{name.strip('_')}_{overload}".upper())
op("aten::__lshift__.int", family="scalar", c="i64_shl(a, b)")
op("aten::__rshift__.int", family="scalar", c="i64_shr(a, b)")
op("aten::__not__", family="scalar", c="!self", opcode="NOT_BOOL")

for name, sign in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    for overload in ["int", "float"]:
        op(f"aten::{name}.{overload}", family="scalar", c=f"a {sign} b",
           opcode=f"{name}_{overload}".upper())
    for overload in ["int_float", "float_int"]:
        op(f"aten::{name}.{overload}", family="scalar", c=f"(double)a {sign} (double)b")
    op(f"aten::{name}", family="scalar", kernel=f"kernel_{name}_numbers")
    if name in ("eq", "ne"):
        op(f"aten::{name}.bool", family="scalar", c=f"a {sign} b", opcode=f"{name.upper()}_BOOL")
        op(f"aten::{name}.str", family="string",
           c="str_eq(a, b)" if name == "eq" else "!str_eq(a, b)")
        op(f"aten::{name}.complex", family="scalar", kernel=f"kernel_{name}_numbers_complex",
           same=[f"aten::{name}.float_complex", f"aten::{name}.complex_float"])
        op(f"aten::{name}.device", family="scalar", kernel=f"kernel_{name}_values",
           same=[f"aten::{name}.enum"])
    else:
        op(f"aten::{name}.str", family="string", c=f"str_compare(a, b) {sign} 0")

for name, sign in {"min": "<", "max": ">"}.items():
    op(f"prim::{name}.int", family="scalar", c=f"a {sign} b ? a : b", opcode=f"{name.upper()}_INT")
    op(f"prim::{name}.float", family="scalar", c=f"a {sign} b ? a : b")
    for overload in ["int_float", "float_int"]:
        op(f"prim::{name}.{overload}", family="scalar",
           c=f"(double)a {sign} (double)b ? (double)a : (double)b")
    op(f"prim::{name}", family="scalar", kernel=f"kernel_{name}_numbers")

op("aten::Int.bool", family="scalar", c="(int64_t)a", opcode="BOOL_TO_INT")
op("aten::Int.float", family="scalar", c="i64_from_f64(a)")
op("aten::Int.Scalar", family="scalar", kernel="kernel_int_of_number")
op("aten::Int.str", family="scalar", kernel="kernel_int_of_str")
op("aten::Float.int", family="scalar", c="(double)a", opcode="INT_TO_FLOAT")
op("aten::Float.bool", family="scalar", c="(double)a")
op("aten::Float.Scalar", family="scalar", kernel="kernel_float_of_number")
op("aten::Float.str", family="scalar", kernel="kernel_float_of_str")
op("aten::Bool.int", family="scalar", c="a != 0", opcode="INT_TO_BOOL")
op("aten::Bool.float", family="scalar", c="a != 0", opcode="FLOAT_TO_BOOL")
op("aten::Complex.Scalar", family="scalar", kernel="kernel_complex_of_number")
op("aten::Complex.int_bool", family="scalar", kernel="kernel_complex_of_pair",
   same=[f"aten::Complex.{o}" for o in ["bool_int", "float_bool", "bool_float", "float_int",
                                        "int_float",
                                        "int_int", "bool_bool", "float_float", "Tensor_Tensor",
                                        "Tensor_float", "float_Tensor", "Tensor_int", "int_Tensor",
                                        "Tensor_bool", "bool_Tensor"]])

# Numbers from tensors (item itself is in cast.py).
op("aten::Int.Tensor", family="scalar", kernel="kernel_int_of_tensor")
op("aten::Float.Tensor", family="scalar", kernel="kernel_float_of_tensor")
op("aten::Bool.Tensor", family="scalar", kernel="kernel_bool_of_tensor")
op("aten::ScalarImplicit", family="scalar", kernel="kernel_scalar_implicit")
op("aten::FloatImplicit", family="scalar", kernel="kernel_float_implicit")
op("aten::IntImplicit", family="scalar", kernel="kernel_int_implicit")
op("aten::ComplexImplicit", family="scalar", kernel="kernel_complex_implicit")

op("aten::__range_length", family="scalar", kernel="kernel_range_length")
op("aten::__derive_index", family="scalar", c="i64_add(start, i64_mul(index, step))")

# Values of any type.
op("aten::__is__", family="scalar", kernel="kernel_is")
op("aten::__isnot__", family="scalar", kernel="kernel_is_not")
for name in ("aten::_unwrap_optional", "prim::unchecked_unwrap_optional"):
    op(name, family="scalar", kernel="kernel_unwrap_optional", effects=["moves_items"])
op("prim::unchecked_cast", family="scalar", kernel="kernel_first_argument")
op("prim::EnumName", family="scalar", kernel="kernel_enum_name")
op("prim::EnumValue.int", family="scalar", kernel="kernel_enum_value",
   same=["prim::EnumValue.float", "prim::EnumValue.str"])
op("prim::IfThenElse", family="scalar", kernel="kernel_if_then_else")
op("prim::TupleIndex", family="scalar", kernel="kernel_tuple_index")
op("prim::tolist", family="control", kernel="kernel_tolist")
op("prim::id", family="scalar", kernel="kernel_id")
op("aten::hash.generic", family="scalar", kernel="kernel_hash")
op("aten::device", family="scalar", kernel="kernel_device_of_str")
op("aten::device.with_index", family="scalar", kernel="kernel_device_with_index")
op("prim::type", family="scalar", kernel="kernel_device_type")
op("prim::index", family="scalar", kernel="kernel_device_index")

op("prim::Print", family="control", kernel="kernel_print", effects=["side_effect"])
# What torch.ops.higher_order.print becomes: its text and values, one after the other.
op("rushlight::print", schema="rushlight::print(...) -> ()", family="control",
   kernel="kernel_print_pieces", effects=["side_effect"])
op("aten::_print", family="control", kernel="kernel_print", effects=["side_effect"])
op("aten::warn", family="control", kernel="kernel_warn", effects=["side_effect"])
op("prim::RaiseException", family="control", kernel="kernel_raise", effects=["side_effect"])
op("aten::is_scripting", family="control", c="true")
op("aten::_get_tracing_state", family="control", c="false")
# The value of a mode is not a constant.
op("aten::is_grad_enabled", family="control", c="call->cx->grad_mode", effects=["side_effect"])
op("aten::set_grad_enabled", family="control", kernel="kernel_set_grad_enabled",
   effects=["side_effect"])
op("aten::is_autocast_enabled", family="control", c="false", same=["aten::is_autocast_cpu_enabled"])
op("aten::get_autocast_dtype", family="control", kernel="kernel_autocast_dtype")
op("aten::_nnpack_available", family="control", c="false",
   same=["aten::is_vulkan_available", "aten::_use_cudnn_rnn_flatten_weight"])
op("prim::TimePoint", family="control", kernel="kernel_time_point", effects=["side_effect"])

# Facts about these operators that other parts read.
known("add.* add_.* sub.* sub_.* mul.* mul_.* div.* div_.*", effects=["takes_numbers"])
known("add.* div.* mul.* sub.*", script_autocast="float32")

# The interpreter runs tasks itself.
op("aten::wait", family="control", effects=["waits"])
op("prim::awaitable_wait", family="control", effects=["waits"])
