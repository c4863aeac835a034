/* ops/call/bind.c -- matches positional and named values to a schema, as torch.ops does for a call
 * from Python.
 *
 * Each value is converted by one recursive function that follows the declared type; overloads are
 * tried in order of registration, those that need no change of kind first.  Cost: O(values); most
 * calls' arguments already have the schema's types and skip all of this (schema_takes). */
#include "ops/call/call.h"

#include <stdarg.h>
#include <stdlib.h>


/* -- One value to one type --------------------------------------------------------------------- */

static rush_status bind_value(call_ctx *cx, const type *t, int32_t fixed_len, rush_value v,
                              bool *fits, rush_value *out);

static bool is_number(rush_value v)
{
  return v.tag == RUSH_TAG_BOOL || v.tag == RUSH_TAG_INT || v.tag == RUSH_TAG_FLOAT ||
         v.tag == RUSH_TAG_COMPLEX;
}

/* Make a new list of the items of a list or tuple, or of the single value repeated fixed_len times.
 * The caller's list, of another element type, does not see what is written to the new one. */
static rush_status bind_list(call_ctx *cx, const type *t, int32_t fixed_len, rush_value v,
                             bool *fits, rush_value *out)
{
  const rush_value *items = &v;
  size_t n = 0;
  bool repeat = false;
  if (v.tag == RUSH_TAG_LIST) {
    items = v.as.list->items;
    n = v.as.list->n;
  } else if (v.tag == RUSH_TAG_TUPLE) {
    items = v.as.tuple->items;
    n = v.as.tuple->n;
  } else if (fixed_len > 0) {
    n = (size_t)fixed_len;
    repeat = true;
  } else {
    return RUSH_OK;
  }
  rush_list *list = NULL;
  TRY(list_new(cx, t->elems[0], n, &list));
  rush_status st = RUSH_OK;
  bool all = true;
  for (size_t i = 0; i < n && all && st == RUSH_OK; i++) {
    rush_value item = value_none();
    all = false;
    st = bind_value(cx, t->elems[0], 0, items[repeat ? 0 : i], &all, &item);
    if (st == RUSH_OK && all)
      st = list_append_steal(cx, list, item);
  }
  rush_value made = value_heap_steal(RUSH_TAG_LIST, list);
  if (st != RUSH_OK || !all) {
    value_release(made);
    return st;
  }
  *fits = true;
  *out = made;
  return RUSH_OK;
}

/* Make a new dict, keys and values one by one; an empty dict fits every dict type. */
static rush_status bind_dict(call_ctx *cx, const type *t, const rush_dict *from, bool *fits,
                             rush_value *out)
{
  rush_dict *d = NULL;
  const dict_entry *e;
  size_t pos = 0;
  bool all = true;
  TRY(dict_new(cx, t->elems[0], t->elems[1], &d));
  rush_status st = RUSH_OK;
  while (st == RUSH_OK && all && (e = dict_next(from, &pos)) != NULL) {
    rush_value key = value_none(), value = value_none();
    bool fits_value = false;
    st = bind_value(cx, t->elems[0], 0, e->key, &all, &key);
    if (st == RUSH_OK && all)
      st = bind_value(cx, t->elems[1], 0, e->value, &fits_value, &value);
    all = all && fits_value;
    if (st == RUSH_OK && all) {
      st = dict_set_steal(cx, d, key, value);
    } else {
      value_release(key);
      value_release(value);
    }
  }
  rush_value made = value_heap_steal(RUSH_TAG_DICT, d);
  if (st != RUSH_OK || !all) {
    value_release(made);
    return st;
  }
  *fits = true;
  *out = made;
  return RUSH_OK;
}

/* Bind item by item: an int is accepted for a float. */
static rush_status bind_tuple(call_ctx *cx, const type *t, const rush_tuple *from, bool *fits,
                              rush_value *out)
{
  rush_tuple *made;
  bool all = from->n == t->n_elems;
  if (!all)
    return RUSH_OK;
  TRY(tuple_new(cx, t->name ? t : NULL, from->n, &made));
  rush_status st = RUSH_OK;
  for (size_t i = 0; i < from->n && all && st == RUSH_OK; i++)
    st = bind_value(cx, t->elems[i], 0, from->items[i], &all, &made->items[i]);
  rush_value v = value_heap_steal(RUSH_TAG_TUPLE, made);
  if (st != RUSH_OK || !all) {
    value_release(v);
    return st;
  }
  *fits = true;
  *out = v;
  return RUSH_OK;
}

static rush_status number_to_tensor(call_ctx *cx, rush_value v, rush_value *out)
{
  static const int dtypes[] = {[RUSH_TAG_BOOL] = RUSH_BOOL,
                               [RUSH_TAG_INT] = RUSH_INT64,
                               [RUSH_TAG_FLOAT] = RUSH_FLOAT64,
                               [RUSH_TAG_COMPLEX] = RUSH_COMPLEX128};
  rush_tensor *t = NULL;
  TRY(tensor_from_scalar(cx, v, dtypes[v.tag], &t));
  t->h.flags |= TENSOR_WRAPPED_NUMBER;
  *out = value_tensor_steal(t);
  return RUSH_OK;
}

/* Parse "cpu", "cuda:1". */
static bool device_of_text(str s, rush_value *out)
{
  static const struct { const char *name; int kind; } kinds[] = {
      {"cpu", 0}, {"cuda", 1}, {"mps", 13}, {"meta", 14}};
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    size_t n = strlen(kinds[i].name);
    if (s.len < n || memcmp(s.p, kinds[i].name, n) != 0)
      continue;
    if (s.len == n)
      *out = value_device(kinds[i].kind, -1);
    else if (s.p[n] == ':' && s.len > n + 1)
      *out = value_device(kinds[i].kind, atoi(s.p + n + 1));
    else
      continue;
    return true;
  }
  return false;
}

/* Convert a tensor of one element to a number. */
static rush_status bind_item(call_ctx *cx, const type *t, rush_value v, bool *fits, rush_value *out)
{
  if (v.as.tensor->n_dims != 0 || v.as.tensor->n_elems != 1)
    return RUSH_OK;
  rush_value item = value_none();
  TRY(tensor_item(cx, v.as.tensor, &item));
  rush_status st = bind_value(cx, t, 0, item, fits, out);
  value_release(item);
  return st;
}

static rush_status bind_simple(call_ctx *cx, const type *t, rush_value v, bool *fits,
                               rush_value *out)
{
  type_kind kind = type_runtime(t)->kind;
  if (kind == TYPE_FLOAT && (v.tag == RUSH_TAG_INT || v.tag == RUSH_TAG_BOOL)) {
    *out = value_float(v.tag == RUSH_TAG_INT ? (double)v.as.i : v.as.b);
    *fits = true;
  } else if (kind == TYPE_INT && v.tag == RUSH_TAG_BOOL) {
    *out = value_int(v.as.b);
    *fits = true;
  } else if (kind == TYPE_NUMBER && is_number(v)) {
    *out = value_retain(v);
    *fits = true;
  } else if (kind == TYPE_TENSOR && is_number(v)) {
    TRY(number_to_tensor(cx, v, out));
    *fits = true;
  } else if (kind == TYPE_COMPLEX && (v.tag == RUSH_TAG_INT || v.tag == RUSH_TAG_FLOAT)) {
    TRY(complex_new(cx, v.tag == RUSH_TAG_INT ? (double)v.as.i : v.as.d, 0, out));
    *fits = true;
  } else if (kind == TYPE_DEVICE && v.tag == RUSH_TAG_STRING) {
    *fits = device_of_text(value_str(v), out);
  } else if ((kind == TYPE_NUMBER || kind == TYPE_FLOAT || kind == TYPE_INT || kind == TYPE_BOOL) &&
             v.tag == RUSH_TAG_TENSOR && v.as.tensor) {
    return bind_item(cx, t, v, fits, out);
  }
  return RUSH_OK;
}

/* True if `v` is a `t` without conversion.  A container that a host made without items, or of items
 * without a common type, has no type yet: a parameter of type Any refuses it, as in PyTorch; an
 * empty container that happens to have the declared type is decided now and stays shared with the
 * host. */
static bool takes_as_it_is(const type *t, rush_value v)
{
  const bool undecided = value_is_undecided(v);
  if (t->kind == TYPE_VAR || ((t->kind == TYPE_LIST || t->kind == TYPE_DICT) && type_has_vars(t)))
    return t->kind == TYPE_VAR || v.tag == (t->kind == TYPE_LIST ? RUSH_TAG_LIST : RUSH_TAG_DICT);
  if (t->kind == TYPE_ANY)
    return !undecided;
  if (undecided && !(v.tag == RUSH_TAG_LIST && v.as.list->n == 0) &&
      !(v.tag == RUSH_TAG_DICT && v.as.dict->n == 0))
    return t->kind <= TYPE_ANY_ENUM && type_contains_value(t, v);
  if (!type_contains_value(t, v))
    return false;
  if (undecided)
    ((heap *)v.as.heap)->flags &= (uint8_t)~VALUE_UNDECIDED;
  return true;
}

/* Convert `v` to a `t`; *fits is false if it cannot; *out is written (new) only if it can. */
static rush_status bind_value(call_ctx *cx, const type *t, int32_t fixed_len, rush_value v,
                              bool *fits, rush_value *out)
{
  *fits = false;
  if (t->kind == TYPE_OPTIONAL) {
    if (value_is_none(v)) {
      *fits = true;
      *out = v;
      return RUSH_OK;
    }
    return bind_value(cx, t->elems[0], fixed_len, v, fits, out);
  }
  if (takes_as_it_is(t, v)) {
    *fits = true;
    *out = value_retain(v);
    return RUSH_OK;
  }
  if (t->kind == TYPE_LIST)
    return bind_list(cx, t, fixed_len, v, fits, out);
  if (t->kind == TYPE_TUPLE && v.tag == RUSH_TAG_TUPLE)
    return bind_tuple(cx, t, v.as.tuple, fits, out);
  if (t->kind == TYPE_DICT && v.tag == RUSH_TAG_DICT)
    return bind_dict(cx, t, v.as.dict, fits, out);
  return bind_simple(cx, t, v, fits, out);
}

rush_status value_bind(call_ctx *cx, const type *t, rush_value v, bool *fits, rush_value *out)
{
  *fits = false;
  return bind_value(cx, t, 0, v, fits, out);
}

/* -- The refusals of a call -------------------------------------------------------------------- */

/* Return the first container inside `v`, or v itself, that makes it undecided. */
static rush_value undecided_part(rush_value v)
{
  rush_value items[1] = {v}, *at = items;
  size_t n = 1;
  for (size_t i = 0; i < n;) {
    rush_value one = at[i++];
    if (!value_is_undecided(one))
      continue;
    v = one;
    if (v.tag == RUSH_TAG_DICT)
      break;
    at = v.tag == RUSH_TAG_LIST ? v.as.list->items : v.as.tuple->items;
    n = v.tag == RUSH_TAG_LIST ? v.as.list->n : v.as.tuple->n;
    i = 0;
  }
  return v;
}

/* Refuse a value for a parameter of type Any whose own type cannot be inferred; PyTorch's
 * message. */
static rush_status refuse_undecided(call_ctx *cx, rush_value v)
{
  const rush_value part = undecided_part(v);
  const bool is_list = part.tag == RUSH_TAG_LIST,
             is_empty = is_list ? part.as.list->n == 0 : part.as.dict->n == 0;
  text_buf shown;
  text_init(&shown, cx->ctx);
  rush_status st = value_repr(cx, &shown, v);
  if (st == RUSH_OK)
    st =
      error_set_type(cx->err, RUSH_EARGUMENT, "RuntimeError", "Tracer cannot infer type of %s\n:%s",
                     text_str(&shown),
                     is_empty  ? is_list ? "List trace inputs must have elements"
                                         : "Dictionary inputs must have entries"
                     : is_list ? "List inputs to traced functions must have consistent element type"
                               : "Dictionary inputs to traced functions must have consistent type");
  text_free(&shown);
  return st;
}

static rush_status refuse_type(call_ctx *cx, const schema *sc, uint32_t i, rush_value v)
{
  if (!cx->err)
    return RUSH_EARGUMENT;
  if (sc->args[i].type->kind == TYPE_ANY && value_is_undecided(v))
    return refuse_undecided(cx, v);
  text_buf want, got;
  text_init(&want, cx->ctx);
  text_init(&got, cx->ctx);
  type_print_annotation(&want, sc->args[i].type);
  if (sc->args[i].is_inferred)
    text_puts(&want, " (inferred)");
  type_store *ts = type_store_of_context(cx->ctx);
  const type *t = ts ? type_of_value(ts, v) : NULL;
  const char *python = v.tag == RUSH_TAG_LIST    ? "list"
                       : v.tag == RUSH_TAG_TUPLE ? "tuple"
                       : v.tag == RUSH_TAG_DICT  ? "dict"
                                                 : NULL;
  if (python) /* as Python calls it */
    text_puts(&got, python);
  else if (t)
    type_print_annotation(&got, t);
  text_puts(&got, "'.");
  if (sc->args[i].is_inferred)
    text_printf(
      &got,
      "\nInferred '%s' to be of type 'Tensor' because it was not annotated with an explicit type.",
      sc->args[i].name);
  rush_status st = error_set_type(
    cx->err, RUSH_EARGUMENT, "RuntimeError",
    "%s() Expected a value of type '%s' for argument '%s' but instead found type '%s\nPosition: %u",
    sc->name, text_str(&want), sc->args[i].name, text_str(&got), i);
  error_add_part(cx->err, ERROR_WRONG_TYPE);
  text_free(&want);
  text_free(&got);
  return st;
}

/* Return the name that messages use. */
static const char *shown_name(const schema *sc, const bind_source *from)
{
  return from->name ? from->name : sc->name;
}

/* Return the number of the argument that is given for the parameter by name, or -1. */
static int find_named(const bind_source *from, const char *parameter)
{
  for (uint32_t k = 0; k < from->n_named; k++)
    if (from->is_named(from, k, parameter))
      return (int)(from->n_args + k);
  return -1;
}

/* Refuse with PyTorch's message, and the keyword that is the reason if no parameter has it. */
static rush_status refuse_call(call_ctx *cx, const schema *sc, const bind_source *from,
                               const char *fmt, ...) RUSH_PRINTF(4, 5);
static rush_status refuse_call(call_ctx *cx, const schema *sc, const bind_source *from,
                               const char *fmt, ...)
{
  text_buf t;
  va_list ap;
  str unknown = {NULL, 0};
  if (!cx->err)
    return RUSH_EARGUMENT;
  text_init(&t, cx->ctx);
  va_start(ap, fmt);
  text_vprintf(&t, fmt, ap);
  va_end(ap);
  for (uint32_t k = 0; k < from->n_named && !unknown.p; k++)
    if (schema_arg_index(sc, from->named(from, k)) < 0)
      unknown = from->named(from, k);
  if (unknown.p)
    text_printf(&t, " Got an unexpected keyword '%.*s'.", (int)unknown.len, unknown.p);
  rush_status st =
    text_failed(&t) ? call_nomem(cx)
                    : error_set_type(cx->err, RUSH_EARGUMENT, "RuntimeError", "%s", text_str(&t));
  text_free(&t);
  return st;
}

/* Refuse a named argument that no parameter took. */
static rush_status refuse_keyword(call_ctx *cx, const schema *sc, const bind_source *from)
{
  text_buf t;
  if (!cx->err)
    return RUSH_EARGUMENT;
  text_init(&t, cx->ctx);
  for (uint32_t k = 0; k < from->n_named && !t.len; k++) {
    const str name = from->named(from, k);
    const int at = schema_arg_index(sc, name);
    if (at < 0)
      text_printf(&t, "Unknown keyword argument '%.*s' for operator '%s'. Schema: ", (int)name.len,
                  name.p, shown_name(sc, from));
    else if ((uint32_t)at < from->n_bound + from->n_args)
      text_printf(&t,
                  "Argument '%.*s' specified both as positional and keyword argument. Schema: ",
                  (int)name.len, name.p);
  }
  schema_print(&t, sc);
  rush_status st =
    text_failed(&t) ? call_nomem(cx)
                    : error_set_type(cx->err, RUSH_EARGUMENT, "RuntimeError", "%s", text_str(&t));
  error_add_part(cx->err, ERROR_SHOWS_SCHEMA);
  text_free(&t);
  return st;
}

/* -- All arguments ----------------------------------------------------------------------------- */

/* Return the tag of values that need no conversion to the kind of type; types that contain others
 * have none. */
static int plain_tag(type_kind k)
{
  switch (k) {
  case TYPE_TENSOR: return RUSH_TAG_TENSOR;
  case TYPE_INT: return RUSH_TAG_INT;
  case TYPE_FLOAT: return RUSH_TAG_FLOAT;
  case TYPE_BOOL: return RUSH_TAG_BOOL;
  case TYPE_STRING: return RUSH_TAG_STRING;
  default: return -1;
  }
}

bool schema_takes(const schema *sc, uint32_t first, const rush_value *args, uint32_t n_args)
{
  if (n_args != sc->n_args)
    return false;
  for (uint32_t i = first; i < n_args; i++)
    if ((int)args[i].tag != plain_tag(sc->args[i].type->kind) || sc->args[i].kwarg_only ||
        sc->args[i].fixed_len)
      return false;
  return true;
}

static bool wants_tensor(const type *t)
{
  return t->kind == TYPE_TENSOR || (t->kind == TYPE_OPTIONAL && t->elems[0]->kind == TYPE_TENSOR);
}

/* Convert what PyTorch accepts from Python for a function's argument, but not for an operator's: 1
 * for True, a list for a tuple, None for a tensor. */
static rush_status bind_for_function(call_ctx *cx, const type *t, rush_value v, bool *fits,
                                   rush_value *out)
{
  if (t->kind == TYPE_BOOL && v.tag == RUSH_TAG_INT) {
    *out = value_bool(v.as.i != 0);
    *fits = true;
  } else if (t->kind == TYPE_TENSOR && value_is_none(v)) {
    *out = (rush_value){.tag = RUSH_TAG_TENSOR}; /* an undefined one, which operators refuse */
    *fits = true;
  } else if (t->kind == TYPE_TUPLE && v.tag == RUSH_TAG_LIST && v.as.list->n == t->n_elems) {
    rush_tuple *items;
    TRY(tuple_new(cx, NULL, t->n_elems, &items));
    for (uint32_t i = 0; i < t->n_elems; i++)
      items->items[i] = value_retain(v.as.list->items[i]);
    rush_status st = bind_tuple(cx, t, items, fits, out);
    value_release(value_heap_steal(RUSH_TAG_TUPLE, items));
    return st;
  }
  return RUSH_OK;
}

/* Bind parameter i, which no positional argument is for; counts the named ones that are used. */
static rush_status bind_rest(call_ctx *cx, const schema *sc, const bind_source *from, uint32_t i,
                             uint32_t *n_used, rush_value *out)
{
  const schema_arg *a = &sc->args[i];
  const int at = from->n_named ? find_named(from, a->name) : -1;
  if (at >= 0) {
    ++*n_used;
    return from->convert(cx, from, sc, (uint32_t)at, i, out);
  }
  if (!a->has_default)
    return refuse_call(cx, sc, from, "%s() is missing value for argument '%s'.",
                       shown_name(sc, from), a->name);
  *out =
    from->skips_defaults ? (rush_value){.tag = RUSH_TAG_UNSET} : value_retain(a->default_value);
  return RUSH_OK;
}

/* Bind the arguments to the parameters after the bound ones, in the parameters' order, as PyTorch
 * does: of several reasons to refuse the first parameter's is reported. */
static rush_status bind_each(call_ctx *cx, const schema *sc, const bind_source *from,
                             rush_value *out)
{
  const uint32_t n_given = from->n_bound + from->n_args;
  uint32_t n_used = 0, i = from->n_bound;
  rush_status st = RUSH_OK;
  for (; i < n_given && st == RUSH_OK; i++)
    st = UNLIKELY(sc->args[i].kwarg_only)
           ? refuse_call(cx, sc, from,
                         "%s() takes %u positional argument(s) but %u was/were given. ",
                         shown_name(sc, from), i, n_given)
           : from->convert(cx, from, sc, i - from->n_bound, i, &out[i]);
  for (; i < sc->n_args && st == RUSH_OK; i++)
    st = bind_rest(cx, sc, from, i, &n_used, &out[i]);
  uint32_t n_bound = st == RUSH_OK ? i : i - 1; /* the last one failed */
  if (st == RUSH_OK && n_used < from->n_named)
    st = refuse_keyword(cx, sc, from);
  if (UNLIKELY(st != RUSH_OK))
    while (n_bound > from->n_bound)
      value_release(out[--n_bound]);
  return st;
}

/* Complete the message of a function's refusal. */
static void add_declaration(call_ctx *cx, const schema *sc)
{
  text_buf t;
  if (!cx->err || cx->err->status != RUSH_EARGUMENT || !cx->err->message ||
      error_has_part(cx->err, ERROR_SHOWS_SCHEMA))
    return;
  text_init(&t, cx->ctx);
  text_printf(&t, "%s%sDeclaration: ", cx->err->message,
              error_has_part(cx->err, ERROR_WRONG_TYPE) ? "\n" : " ");
  schema_print(&t, sc);
  if (!text_failed(&t))
    error_set_type(cx->err, RUSH_EARGUMENT, cx->err->type, "%s", text_str(&t));
  text_free(&t);
}

rush_status bind_arguments(call_ctx *cx, const schema *sc, const bind_source *from, rush_value *out)
{
  const uint32_t n = from->n_bound + from->n_args + from->n_named;
  rush_status st;
  if (n > sc->n_args) /* before the values are looked at, as PyTorch does */
    st = refuse_call(cx, sc, from,
                     "%s() expected at most %u argument(s) but received %u argument(s).",
                     shown_name(sc, from), sc->n_args, n);
  else
    st = bind_each(cx, sc, from, out);
  if (st != RUSH_OK && from->is_function)
    add_declaration(cx, sc);
  return st;
}

/* -- Values ------------------------------------------------------------------------------------ */

typedef struct value_source {
  bind_source base;
  const rush_value *args;
  const named_arg *kwargs;
} value_source;

static str named_value(const bind_source *from, uint32_t k)
{
  return ((const value_source *)from)->kwargs[k].name;
}

static bool is_named_value(const bind_source *from, uint32_t k, const char *parameter)
{
  const str name = named_value(from, k);
  return name.len && *name.p == *parameter && str_is(name, parameter);
}

static rush_status convert_value(call_ctx *cx, const bind_source *from, const schema *sc,
                                 uint32_t given, uint32_t i, rush_value *out)
{
  const value_source *s = (const value_source *)from;
  const rush_value v =
    given < from->n_args ? s->args[given] : s->kwargs[given - from->n_args].value;
  const schema_arg *a = &sc->args[i];
  bool fits = false;
  rush_status st = RUSH_OK;
  if (!(is_number(v) && wants_tensor(a->type) && !sc->takes_numbers))
    st = bind_value(cx, a->type, a->fixed_len, v, &fits, out);
  if (st == RUSH_OK && !fits && from->is_function)
    st = bind_for_function(cx, a->type, v, &fits, out);
  return st == RUSH_OK && !fits ? refuse_type(cx, sc, i, v) : st;
}

rush_status schema_bind(call_ctx *cx, const schema *sc, bool is_function, const rush_value *args,
                        uint32_t n_args, const named_arg *kwargs, uint32_t n_kwargs,
                        rush_value *out)
{
  const value_source from = {.base = {.n_args = n_args,
                                      .n_named = n_kwargs,
                                      .is_function = is_function,
                                      .named = named_value,
                                      .is_named = is_named_value,
                                      .convert = convert_value},
                             .args = args,
                             .kwargs = kwargs};
  return bind_arguments(cx, sc, &from.base, out);
}

/* -- Calls by name ----------------------------------------------------------------------------- */

/* True if binding made a tensor from a number, or the reverse.  Overloads that need no such change
 * come first. */
static bool changed_kind(const schema *sc, const rush_value *args, uint32_t n_args,
                         const named_arg *kwargs, uint32_t n_kwargs, const rush_value *bound)
{
  for (uint32_t i = 0; i < n_args; i++)
    if (bound[i].tag == RUSH_TAG_TENSOR ? is_number(args[i])
                                        : args[i].tag == RUSH_TAG_TENSOR && is_number(bound[i]))
      return true;
  for (uint32_t k = 0; k < n_kwargs; k++)
    if (is_number(kwargs[k].value) &&
        bound[schema_arg_index(sc, kwargs[k].name)].tag == RUSH_TAG_TENSOR)
      return true;
  return false;
}

/* Refuse a number before a tensor, which no overload accepts: torch's own functions use another
 * class of error. */
static rush_status refuse_number(call_ctx *cx, str name, rush_value first)
{
  static const char *const kinds[] = {[RUSH_TAG_BOOL] = "bool",
                                      [RUSH_TAG_INT] = "int",
                                      [RUSH_TAG_FLOAT] = "float",
                                      [RUSH_TAG_COMPLEX] = "complex"};
  const char *colon = memchr(name.p, ':', name.len);
  size_t skip = colon ? (size_t)(colon - name.p) + 2 : 0;
  return error_set_type(cx->err, RUSH_EARGUMENT, "TypeError",
                        "%.*s() received an invalid combination of arguments - got (%s, Tensor)",
                        (int)(name.len - skip), name.p + skip, kinds[first.tag]);
}

void op_release_bound(const op *o, rush_value *bound)
{
  for (uint32_t k = 0; k < o->schema->n_args; k++)
    value_release(bound[k]);
}

static rush_status call_bound(call_ctx *cx, const op *o, const rush_value *bound,
                              rush_value *results, uint32_t max_results, uint32_t *n_results)
{
  if (o->schema->n_returns > max_results)
    return error_set(cx->err, RUSH_EARGUMENT, "%s has %u results, there is room for %u",
                     o->schema->name, o->schema->n_returns, max_results);
  TRY(op_invoke(cx, o, bound, o->schema->n_args, results, o->schema->n_returns));
  *n_results = o->schema->n_returns;
  return RUSH_OK;
}

rush_status op_bind_by_name(call_ctx *cx, str name, const rush_value *args, uint32_t n_args,
                            const named_arg *kwargs, uint32_t n_kwargs, const op **found,
                            rush_value *bound)
{
  /* "aten::add.Tensor" names one overload */
  const char *dot = memchr(name.p, '.', name.len);
  str base = {name.p, dot ? (size_t)(dot - name.p) : name.len};
  uint32_t n = 0;
  const op *const *ops;
  TRY(op_lookup_all(cx, base, &ops, &n));
  const op *refused = NULL; /* the last one */
  call_ctx quiet = *cx; /* a refusal is no error yet */
  quiet.err = NULL;
  for (uint32_t try = 0; try < 2 * n; try++) { /* once more, and numbers may become tensors */
    const op *o = ops[try % n];
    const schema *sc = o->schema;
    if (sc->n_args > OP_MOST_ARGS ||
        (dot && !str_eq(str_of(sc->overload), (str){dot + 1, name.len - base.len - 1})))
      continue;
    const rush_status st = schema_bind(&quiet, sc, false, args, n_args, kwargs, n_kwargs, bound);
    if (st == RUSH_OK && try < n && changed_kind(sc, args, n_args, kwargs, n_kwargs, bound)) {
      op_release_bound(o, bound);
    } else if (st == RUSH_OK) {
      *found = o;
      return RUSH_OK;
    } else if (st != RUSH_EARGUMENT) {
      *found = o; /* it fails again, and reports why */
      return schema_bind(cx, sc, false, args, n_args, kwargs, n_kwargs, bound);
    }
    refused = o;
  }
  if (!refused)
    return error_set(cx->err, RUSH_EUNSUPPORTED, "no operator %.*s", (int)name.len, name.p);
  if (n_args > 1 && is_number(args[0]) && args[1].tag == RUSH_TAG_TENSOR)
    return refuse_number(cx, base, args[0]);
  *found = refused;
  return schema_bind(cx, refused->schema, false, args, n_args, kwargs, n_kwargs, bound);
}

rush_status op_call_by_name(call_ctx *cx, str name, const rush_value *args, uint32_t n_args,
                            const named_arg *kwargs, uint32_t n_kwargs, rush_value *results,
                            uint32_t max_results, uint32_t *n_results)
{
  rush_value bound[OP_MOST_ARGS];
  const op *o = NULL;
  TRY(op_bind_by_name(cx, name, args, n_args, kwargs, n_kwargs, &o, bound));
  rush_status st = call_bound(cx, o, bound, results, max_results, n_results);
  op_release_bound(o, bound);
  return st;
}
