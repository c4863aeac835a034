/* script/emit/resolve.c -- the names that Python and torch define for every program: builtins,
 * torch functions, math, constants. A torch path is turned into an operator's name by rules,
 * with a table for the exceptions; a full table of torch's functions would have to be maintained
 * by hand. */
#include "script/emit/resolve.h"
#include "ops/call/lookup.h"

#include <math.h>
#include <string.h>

/* -- Python's names ---------------------------------------------------------------------------- */

static const struct { const char *name; special_form form;
} specials[] = {
  {"isinstance", SPECIAL_ISINSTANCE},
  {"getattr", SPECIAL_GETATTR},
  {"hasattr", SPECIAL_HASATTR},
  {"tuple", SPECIAL_TUPLE},
  {"list", SPECIAL_LIST},
  {"dict", SPECIAL_DICT},
  {"range", SPECIAL_RANGE},
  {"zip", SPECIAL_ZIP},
  {"enumerate", SPECIAL_ENUMERATE},
  {"slice", SPECIAL_SLICE},
  {"print", SPECIAL_PRINT},
  {"super", SPECIAL_SUPER},
};

static const struct { const char *name, *op;
} builtins[] = {
  {"len", "aten::len"},       {"hex", "aten::hex"},   {"oct", "aten::oct"},
  {"round", "aten::round"},   {"hash", "aten::hash"}, {"id", "prim::id"},
  {"min", "prim::min"},       {"max", "prim::max"},   {"abs", "prim::abs"},
  {"all", "aten::all"},       {"any", "aten::any"},   {"divmod", "aten::divmod"},
  {"sum", "aten::sum"},       {"ord", "aten::ord"},   {"chr", "aten::chr"},
  {"bin", "aten::bin"},       {"pow", "aten::pow"},   {"rangelist", "prim::rangelist"},
  {"sorted", "aten::sorted"},
};

static const struct { const char *name, *op; type_kind kind; } casts[] = {
    {"float", "aten::Float", TYPE_FLOAT},       {"int", "aten::Int", TYPE_INT},
    {"bool", "aten::Bool", TYPE_BOOL},          {"str", "aten::str", TYPE_STRING},
    {"complex", "aten::Complex", TYPE_COMPLEX}, {"_to_tensor", "prim::NumToTensor", TYPE_TENSOR},
};

static const char *const exceptions[] = {
  "Exception",       "RuntimeError",       "ValueError",          "IndexError",
  "KeyError",        "TypeError",          "NotImplementedError", "AttributeError",
  "ArithmeticError", "ZeroDivisionError",  "OverflowError",       "StopIteration",
  "LookupError",     "NameError",          "ImportError",         "OSError",
  "TimeoutError",    "UnicodeError",       "BufferError",         "EOFError",
  "MemoryError",     "RecursionError",     "SyntaxError",         "SystemError",
  "Warning",         "FloatingPointError",
};
static const char *const exception_names[] = {
  "builtins.Exception",
  "builtins.RuntimeError",
  "builtins.ValueError",
  "builtins.IndexError",
  "builtins.KeyError",
  "builtins.TypeError",
  "builtins.NotImplementedError",
  "builtins.AttributeError",
  "builtins.ArithmeticError",
  "builtins.ZeroDivisionError",
  "builtins.OverflowError",
  "builtins.StopIteration",
  "builtins.LookupError",
  "builtins.NameError",
  "builtins.ImportError",
  "builtins.OSError",
  "builtins.TimeoutError",
  "builtins.UnicodeError",
  "builtins.BufferError",
  "builtins.EOFError",
  "builtins.MemoryError",
  "builtins.RecursionError",
  "builtins.SyntaxError",
  "builtins.SystemError",
  "builtins.Warning",
  "builtins.FloatingPointError",
};

bool resolve_builtin_name(const char *name, sugared *out)
{
  for (size_t i = 0; i < COUNT_OF(builtins); i++) {
    if (text_same(builtins[i].name, name)) {
      *out = (sugared){.kind = SUGAR_BUILTIN, .as.builtin = {builtins[i].op, NULL, NULL}};
      return true;
    }
  }
  for (size_t i = 0; i < COUNT_OF(specials); i++) {
    if (text_same(specials[i].name, name)) {
      *out = (sugared){.kind = SUGAR_SPECIAL, .as.special = specials[i].form};
      return true;
    }
  }
  for (size_t i = 0; i < COUNT_OF(casts); i++) {
    if (text_same(casts[i].name, name)) {
      *out = (sugared){.kind = SUGAR_CAST,
                       .as.builtin = {casts[i].op, NULL, type_simple(casts[i].kind)}};
      return true;
    }
  }
  for (size_t i = 0; i < COUNT_OF(exceptions); i++) {
    if (text_same(exceptions[i], name)) {
      *out = (sugared){.kind = SUGAR_EXCEPTION, .as.name = exception_names[i]};
      return true;
    }
  }
  if (text_same(name, "AssertionError")) {
    *out = (sugared){.kind = SUGAR_EXCEPTION, .as.name = ""};
    return true;
  }
  return false;
}

/* -- torch ------------------------------------------------------------------------------------- */

static const struct { const char *name; int value;
} torch_ints[] = {
#define DTYPE(id, number, name, ...) {name, number},
#include "base/dtypes.def"
  {"short", RUSH_INT16},
  {"int", RUSH_INT32},
  {"long", RUSH_INT64},
  {"half", RUSH_FLOAT16},
  {"float", RUSH_FLOAT32},
  {"double", RUSH_FLOAT64},
  {"cfloat", RUSH_COMPLEX64},
  {"cdouble", RUSH_COMPLEX128},
  {"contiguous_format", 0},
  {"preserve_format", 1},
  {"channels_last", 2},
  {"channels_last_3d", 3},
  {"strided", 0},
  {"sparse_coo", 1},
  {"per_tensor_affine", 0},
  {"per_channel_affine", 1},
  {"per_tensor_symmetric", 2},
  {"per_channel_symmetric", 3},
  {"per_channel_affine_float_qparams", 4},
};

static const struct { const char *name; int dtype;
} tensor_types[] = {
  {"FloatTensor", RUSH_FLOAT32}, {"DoubleTensor", RUSH_FLOAT64}, {"HalfTensor", RUSH_FLOAT16},
  {"ByteTensor", RUSH_UINT8},    {"CharTensor", RUSH_INT8},      {"ShortTensor", RUSH_INT16},
  {"IntTensor", RUSH_INT32},     {"LongTensor", RUSH_INT64},     {"BoolTensor", RUSH_BOOL},
};

static const struct { const char *path; special_form form; } torch_specials[] = {
    {"torch.jit.annotate", SPECIAL_ANNOTATE},       {"torch.jit.isinstance", SPECIAL_ISINSTANCE},
    {"torch.jit.fork", SPECIAL_FORK},               {"torch.jit._fork", SPECIAL_FORK},
    {"torch.jit._awaitable", SPECIAL_AWAITABLE},
    {"torch.jit.is_scripting", SPECIAL_IS_SCRIPTING}, {"torch.jit.is_tracing", SPECIAL_IS_TRACING},
    {"torch._jit_internal.is_scripting", SPECIAL_IS_SCRIPTING},
};

/* Python functions whose operator has another name. */
static const struct { const char *path, *op;
} torch_ops[] = {
  {"torch.jit.wait", "aten::wait"},
  {"torch.jit._wait", "aten::wait"},
  {"torch.jit._awaitable_wait", "prim::awaitable_wait"},
  {"torch.jit._awaitable_nowait", "prim::awaitable_nowait"},
  {"torch.nn.functional.linear", "aten::linear"},
  {"torch.is_tensor", "prim::is_tensor"},
  {"torch.get_device", "aten::get_device"},
  {"torch.nested.to_padded_tensor", "aten::nested_to_padded_tensor"},
  {"torch.nn.functional.logsigmoid", "aten::log_sigmoid"},
  {"torch._segment_reduce", "aten::segment_reduce"},
  {"torch.nn.functional._list_with_default", "aten::list_with_default"},
  {"math.remainder", "aten::mathremainder"},
};

static const struct { const char *name; double value; } math_constants[] = {
    {"pi", 3.14159265358979323846}, {"e", 2.7182818284590452354}, {"tau", 6.28318530717958647692},
    {"inf", INFINITY}, {"nan", NAN},
};

static const char *const torch_modules[] = {
  "torch.nn",     "torch.nn.functional", "torch.jit",
  "torch.linalg", "torch.fft",           "torch.special",
  "torch._C",     "torch._C._nn",        "torch._jit_internal",
  "torch.cuda",   "torch.utils",         "torch.functional",
  "torch._VF",    "torch.nested",        "torch.autograd",
};

static bool constant_out(sugared *out, rush_value v, type_kind k)
{
  *out = (sugared){.kind = SUGAR_CONSTANT, .as.constant = {v, type_simple(k)}};
  return true;
}

/* Return the operator behind a dotted path: torch.linalg.inv is aten::linalg_inv. */
static const char *op_of_path(session *s, const char *path, const char *name)
{
  if (text_same(path, "torch.linalg"))
    return session_printf(s, "aten::linalg_%s", name);
  if (text_same(path, "torch.fft"))
    return session_printf(s, "aten::fft_%s", name);
  if (text_same(path, "torch.special"))
    return session_printf(s, "aten::special_%s", name);
  return session_printf(s, "aten::%s", name);
}

static bool math_attr(session *s, const char *name, sugared *out)
{
  uint32_t n;
  for (size_t i = 0; i < COUNT_OF(math_constants); i++)
    if (text_same(math_constants[i].name, name))
      return constant_out(out, value_float(math_constants[i].value), TYPE_FLOAT);
  const char *op = session_printf(s, "aten::%s", name);
  *out = (sugared){.kind = SUGAR_BUILTIN, .as.builtin = {op, NULL, NULL}};
  return session_op_overloads(s, str_of(op), &n) != NULL && n > 0;
}

bool resolve_torch_attr(session *s, const char *path, const char *name, sugared *out)
{
  uint32_t n;
  const char *whole = session_printf(s, "%s.%s", path, name);
  if (text_same(path, "math"))
    return math_attr(s, name, out);
  if (text_same(path, "cmath"))
    return math_attr(s,
                     text_same(name, "phase")  ? "angle"
                     : text_same(name, "rect") ? "polar"
                                               : name,
                     out);
  if (text_same(whole, "torch.ops")) {
    *out = (sugared){.kind = SUGAR_OPS};
    return true;
  }
  for (size_t i = 0; i < COUNT_OF(torch_modules); i++) {
    if (text_same(torch_modules[i], whole)) {
      *out = (sugared){.kind = SUGAR_TORCH, .as.name = torch_modules[i]};
      return true;
    }
  }
  for (size_t i = 0; i < COUNT_OF(torch_specials); i++) {
    if (text_same(torch_specials[i].path, whole)) {
      *out = (sugared){.kind = SUGAR_SPECIAL, .as.special = torch_specials[i].form};
      return true;
    }
  }
  for (size_t i = 0; text_same(path, "torch") && i < COUNT_OF(tensor_types); i++) {
    if (text_same(tensor_types[i].name, name)) {
      *out = (sugared){.kind = SUGAR_TENSOR_TYPE, .as.dtype = tensor_types[i].dtype};
      return true;
    }
  }
  for (size_t i = 0; text_same(path, "torch") && i < COUNT_OF(torch_ints); i++)
    if (text_same(torch_ints[i].name, name))
      return constant_out(out, value_int(torch_ints[i].value), TYPE_INT);
  for (size_t i = 0; text_same(path, "torch") && i < COUNT_OF(math_constants); i++)
    if (text_same(math_constants[i].name, name))
      return constant_out(out, value_float(math_constants[i].value), TYPE_FLOAT);
  const char *op = op_of_path(s, path, name);
  for (size_t i = 0; i < COUNT_OF(torch_ops); i++)
    if (text_same(torch_ops[i].path, whole))
      op = torch_ops[i].op;
  *out = (sugared){.kind = SUGAR_BUILTIN, .as.builtin = {op, NULL, NULL}};
  return session_op_overloads(s, str_of(op), &n) != NULL && n > 0;
}
