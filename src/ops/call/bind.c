/* ops/call/bind.c -- matches positional and named values to a schema, as torch.ops does for a call
 * from Python.
 *
 * Each value is converted by one recursive function that follows the declared type; overloads are
 * tried in order of registration, those that need no change of kind first.  Cost: O(values); most
 * calls' arguments already have the schema's types and skip all of this (schema_takes). */
#include "ops/call/call.h"

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

/* -- All of them ------------------------------------------------------------------------------- */

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

static rush_status refuse_binding(call_ctx *cx, const char *fmt, const char *name, str what)
{
  text_buf t;
  text_init(&t, cx->ctx);
  text_add(&t, what.p, what.len);
  rush_status st = error_set_type(cx->err, RUSH_EARGUMENT, "RuntimeError", fmt, name, text_str(&t));
  text_free(&t);
  return st;
}

/* Find the positions of named arguments; from_kwarg is -1 if an argument is not named. */
static rush_status place_kwargs(call_ctx *cx, const schema *sc, uint32_t n_args,
                                const named_arg *kwargs, uint32_t n_kwargs, int *from_kwarg)
{
  for (uint32_t i = 0; i < sc->n_args; i++)
    from_kwarg[i] = -1;
  for (uint32_t k = 0; k < n_kwargs; k++) {
    int at = schema_arg_index(sc, kwargs[k].name);
    if (at < 0)
      return refuse_binding(cx, "%s() got an unexpected keyword argument '%s'", sc->name,
                            kwargs[k].name);
    if ((uint32_t)at < n_args || from_kwarg[at] >= 0)
      return refuse_binding(cx, "%s() got several values for argument '%s'", sc->name,
                            kwargs[k].name);
    from_kwarg[at] = (int)k;
  }
  return RUSH_OK;
}

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

/* Convert what PyTorch accepts from Python for a method's argument, but not for an operator's: 1
 * for True, a list for a tuple, None for a tensor. */
static rush_status bind_for_method(call_ctx *cx, const type *t, rush_value v, bool *fits,
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

rush_status schema_bind(call_ctx *cx, const schema *sc, const rush_value *args, uint32_t n_args,
                        const named_arg *kwargs, uint32_t n_kwargs, rush_value *out)
{
  uint32_t n_positional = 0;
  while (n_positional < sc->n_args && !sc->args[n_positional].kwarg_only)
    n_positional++;
  if (n_args > n_positional)
    return error_set_type(cx->err, RUSH_EARGUMENT, "RuntimeError",
                          "%s() expected at most %u argument(s) but received %u argument(s).",
                          sc->name, n_positional, n_args);
  int from_kwarg[OP_MOST_ARGS];
  if (sc->n_args > OP_MOST_ARGS)
    return call_unsupported(cx, "%s: too many arguments", sc->name);
  TRY(place_kwargs(cx, sc, n_args, kwargs, n_kwargs, from_kwarg));
  rush_status st = RUSH_OK;
  uint32_t i = 0;
  for (; i < sc->n_args && st == RUSH_OK; i++) {
    const schema_arg *a = &sc->args[i];
    if (i >= n_args && from_kwarg[i] < 0) {
      if (!a->has_default) {
        st =
          refuse_binding(cx, "%s() is missing value for argument '%s'.", sc->name, str_of(a->name));
        break;
      }
      out[i] = value_retain(a->default_value);
      continue;
    }
    rush_value v = i < n_args ? args[i] : kwargs[from_kwarg[i]].value, made = value_none();
    bool fits = false;
    if (!(is_number(v) && wants_tensor(a->type) && !sc->takes_numbers))
      st = bind_value(cx, a->type, a->fixed_len, v, &fits, &made);
    if (st == RUSH_OK && !fits && !strstr(sc->name, "::"))
      st = bind_for_method(cx, a->type, v, &fits, &made);
    if (st == RUSH_OK && !fits)
      st = refuse_type(cx, sc, i, v);
    if (st != RUSH_OK)
      break;
    out[i] = made;
  }
  if (st != RUSH_OK)
    while (i > 0)
      value_release(out[--i]);
  return st;
}

/* -- Calls by name ----------------------------------------------------------------------------- */

/* Try to bind overload `o`; a refusal is not an error yet. */
static rush_status try_bind(call_ctx *cx, const op *o, const rush_value *args, uint32_t n_args,
                            const named_arg *kwargs, uint32_t n_kwargs, rush_value *bound,
                            rush_error *refusal)
{
  call_ctx quiet = *cx;
  rush_error_clear(refusal);
  quiet.err = refusal;
  return schema_bind(&quiet, o->schema, args, n_args, kwargs, n_kwargs, bound);
}

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
  const uint32_t n_refused = mem_n_refused(cx->ctx);
  const op *const *ops = op_overloads(cx->ctx, base, &n);
  if (!ops && mem_n_refused(cx->ctx) != n_refused)
    return call_nomem(cx);
  rush_error refusal = RUSH_ERROR_INIT;
  bool seen = false;
  for (uint32_t try = 0; try < 2 * n; try++) { /* once more, and numbers may become tensors */
    uint32_t i = try % n;
    const schema *sc = ops[i]->schema;
    if (dot && !str_eq(str_of(sc->overload),
                       (str){dot + 1, name.len - base.len - 1}))
      continue;
    if (sc->n_args > OP_MOST_ARGS)
      continue;
    seen = true;
    rush_status st = try_bind(cx, ops[i], args, n_args, kwargs, n_kwargs, bound, &refusal);
    if (st == RUSH_EARGUMENT)
      continue;
    if (st == RUSH_OK && try < n && changed_kind(sc, args, n_args, kwargs, n_kwargs, bound)) {
      op_release_bound(ops[i], bound);
      continue;
    }
    if (st == RUSH_OK) {
      *found = ops[i];
      rush_error_clear(&refusal);
    } else if (cx->err) {
      error_move(cx->err, &refusal);
    }
    return st;
  }
  if (!seen)
    return error_set(cx->err, RUSH_EUNSUPPORTED, "no operator %.*s", (int)name.len, name.p);
  if (cx->err && !(n_args > 1 && is_number(args[0]) && args[1].tag == RUSH_TAG_TENSOR)) {
    error_move(cx->err, &refusal);
    return RUSH_EARGUMENT;
  }
  rush_error_clear(&refusal);
  return cx->err ? refuse_number(cx, base, args[0]) : RUSH_EARGUMENT;
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
