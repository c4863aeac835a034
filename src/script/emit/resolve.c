/* script/emit/resolve.c -- the names that Python and torch define for every program: builtins,
 * torch functions, math, constants.
 *
 * src/ops/table/names.py has a row for each of them, which both front ends read. A path without a
 * row is the operator of its last name ("torch.relu" is aten::relu): a full table of torch's
 * functions would have to be maintained by hand. */
#include "script/emit/resolve.h"

#include <math.h>
#include <string.h>

#include "ops/call/lookup.h"
#include "ops/table/table.h"
#include "script/emit/body.h"

/* -- Rows -------------------------------------------------------------------------------------- */

static const char *text_of(const struct op_known *k) { return op_pool + k->text; }

static special_form form_of(const struct op_known *k)
{
#define SPECIAL_WORD(id, word) word,
  static const char *const words[] = {SPECIAL_FORMS(SPECIAL_WORD)};
#undef SPECIAL_WORD
  size_t i = 0;
  while (i + 1 < COUNT_OF(words) && strcmp(words[i], text_of(k)) != 0)
    i++;
  return (special_form)i;
}

static sugared operator_sugar(const char *name)
{
  return (sugared){.kind = SUGAR_BUILTIN, .as.builtin = {name, NULL, NULL}};
}

/* Describe a function that stays Python's: its parameters have numbers for names, as PyTorch's
 * messages show. */
static sugared stays(session *s, program *p, const char *name, int n_args)
{
  static const char *const params[] = {"", "a: Tensor", "a: Tensor, b: Tensor"};
  static const char *const places[] = {"0", "1"};
  function *f =
    script_define_text(s, p, name,
                       session_printf(s,
                                      "def %s(%s) -> Tensor:\n  raise NotImplementedError(\"%s is "
                                      "Python's: there is no Python here\")\n",
                                      name, params[n_args], name));
  for (int i = 0; i < n_args; i++)
    f->schema->args[i].name = places[i];
  f->schema->returns[0].name = "0";
  return (sugared){.kind = SUGAR_FUNCTION, .as.function = f};
}

static bool row_sugar(session *s, program *p, const struct op_known *k, const char *path,
                      sugared *out);

/* Return the rows PATH.0 and PATH.1, between which an argument chooses. */
static sugared dispatch_sugar(session *s, program *p, const struct op_known *k, const char *path)
{
  sugared *items = session_array(s, sugared, 2);
  for (int i = 0; i < 2; i++) {
    const char *item = session_printf(s, "%s.%d", path, i);
    row_sugar(s, p, op_known_find(item), item, &items[i]);
  }
  return (sugared){.kind = SUGAR_DISPATCH,
                   .as.dispatch = {items, text_of(k), (uint16_t)k->number, false}};
}

/* Convert a row of `path`; returns false for rows that mean something in modules or live Python
 * only. */
static bool row_sugar(session *s, program *p, const struct op_known *k, const char *path,
                      sugared *out)
{
  switch ((enum op_known_kind)k->kind) {
  case KNOWN_OP:
    *out = operator_sugar(text_of(k));
    return true;
  case KNOWN_FORM:
    *out = (sugared){.kind = SUGAR_SPECIAL, .as.special = form_of(k)};
    return true;
  case KNOWN_CAST:
    *out = (sugared){.kind = SUGAR_CAST,
                     .as.builtin = {text_of(k), NULL, type_simple((type_kind)k->number)}};
    return true;
  case KNOWN_TENSOR:
    *out = (sugared){.kind = SUGAR_TENSOR_TYPE, .as.dtype = k->number};
    return true;
  case KNOWN_EXCEPTION:
    *out = (sugared){.kind = SUGAR_EXCEPTION, .as.name = text_of(k)};
    return true;
  case KNOWN_MODULE:
    *out = (sugared){.kind = SUGAR_TORCH, .as.name = op_pool + k->path};
    return true;
  case KNOWN_DISPATCH:
    *out = dispatch_sugar(s, p, k, path);
    return true;
  case KNOWN_BODY:
    *out = script_define_known(s, p, k);
    return true;
  case KNOWN_REFUSED: case KNOWN_STAYS:
    return false;
  }
  return false;
}

/* -- Python's names ---------------------------------------------------------------------------- */

bool resolve_builtin_name(const char *name, sugared *out)
{
  const struct op_known *k = strchr(name, '.') ? NULL : op_known_find(name);
  return k && k->kind <= KNOWN_EXCEPTION && k->kind != KNOWN_MODULE &&
         row_sugar(NULL, NULL, k, name, out); /* which need no session */
}

bool resolve_python_name(session *s, program *p, const char *name, source_range at, sugared *out)
{
  const struct op_known *k = op_known_find(session_printf(s, "builtins.%s", name));
  if (!k)
    return false;
  if (k->kind == KNOWN_REFUSED)
    session_fail(
      s, &at, "Python builtin <built-in function %s> is currently not supported in Torchscript",
      name);
  *out = stays(s, p, name, k->number);
  return true;
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

static const struct { const char *name; double value; } math_constants[] = {
    {"pi", 3.14159265358979323846}, {"e", 2.7182818284590452354}, {"tau", 6.28318530717958647692},
    {"inf", INFINITY}, {"nan", NAN},
};

static bool constant_out(sugared *out, rush_value v, type_kind k)
{
  *out = (sugared){.kind = SUGAR_CONSTANT, .as.constant = {v, type_simple(k)}};
  return true;
}

/* Resolve torch.float32 and torch.pi, and math's constants. */
static bool constant_attr(const char *path, const char *name, sugared *out)
{
  bool is_torch = text_same(path, "torch");
  for (size_t i = 0; is_torch && i < COUNT_OF(torch_ints); i++)
    if (text_same(torch_ints[i].name, name))
      return constant_out(out, value_int(torch_ints[i].value), TYPE_INT);
  if (is_torch || text_same(path, "math") || text_same(path, "cmath"))
    for (size_t i = 0; i < COUNT_OF(math_constants); i++)
      if (text_same(math_constants[i].name, name))
        return constant_out(out, value_float(math_constants[i].value), TYPE_FLOAT);
  return false;
}

bool resolve_torch_attr(session *s, program *p, const char *path, const char *name, sugared *out)
{
  uint32_t n;
  const char *whole = session_printf(s, "%s.%s", path, name);
  const struct op_known *k = op_known_find(whole), *module = op_known_find(path);
  if (k)
    return row_sugar(s, p, k, whole, out);
  if (text_same(whole, "torch.ops")) {
    *out = (sugared){.kind = SUGAR_OPS};
    return true;
  }
  if (constant_attr(path, name, out))
    return true;
  const char *op = session_printf(
    s, "aten::%s%s", module && module->kind == KNOWN_MODULE ? text_of(module) : "", name);
  *out = operator_sugar(op);
  return session_op_overloads(s, str_of(op), &n) != NULL && n > 0;
}

bool resolve_attr(session *s, const resolver *r, const sugared *base, const char *name,
                  source_range at, sugared *out)
{
  (void)at;
  return base->kind == SUGAR_TORCH && resolve_torch_attr(s, r->program, base->as.name, name, out);
}
