/* export/lower_functional.c -- higher-order operators that take an operator as an argument, and
 * print.
 *
 *   out_dtype(op, dtype, args...)             op on promoted tensors, its result in that dtype
 *   auto_functionalized(op, NAME=...)         op on copies of what it writes to; the copies are
 *                                             results behind its own
 *   auto_functionalized_v2(op, _all_bases=)   the same, where what is written to are views of bases
 *   print(format, args...)                    text and values one after the other
 *
 * All are lowered to calls of operators that exist: nothing is interpreted when the program runs.
 * What is written to is copied whole, with its strides, as PyTorch does. */
#include "export/lower_int.h"

#include <stdlib.h>

#include "ops/call/lookup.h"

static _Noreturn void bad(lowering *lo, const lower_node *n, const char *what)
{
  lower_fail(lo, "%.*s: %s", (int)n->target.len, n->target.p, what);
}

static ir_value *constant(lowering *lo, rush_value v) { return lower_constant(lo, v, NULL); }
static ir_value *none(lowering *lo) { return constant(lo, value_none()); }

/* Return the operator's target, argument 0. */
static str target_arg(lowering *lo, const lower_node *n)
{
  rush_value target;

  if (n->n_positional < 1 || !n->args[0].value ||
      !ir_value_as_constant(n->args[0].value, &target) || target.tag != RUSH_TAG_STRING)
    bad(lo, n, "the operator is missing");
  return value_str(target);
}

/* -- out_dtype --------------------------------------------------------------------------------- */

static ir_value *cast(lowering *lo, ir_value *v, ir_value *dtype)
{
  ir_value *no = constant(lo, value_bool(false));

  return lower_emit(lo, "aten::to", "dtype", (ir_value *[]){v, dtype, no, no, none(lo)}, 5);
}

/* Return the dtype that the arguments and one number of `dtype` promote to. */
static ir_value *promoted(lowering *lo, const lower_node *n, ir_value *dtype)
{
  ir_value *one = lower_list(lo, (ir_value *[]){constant(lo, value_int(1))}, 1,
                             type_simple(TYPE_INT));
  ir_value *with = lower_emit(lo, "aten::empty", "memory_format",
                              (ir_value *[]){one, dtype, none(lo), none(lo), none(lo), none(lo)},
                              6);
  ir_value *most = dtype;

  for (uint32_t i = 2; i < n->n_args; i++) {
    ir_value *v = n->args[i].value;
    if (!v || !type_is(v->type, TYPE_TENSOR))
      continue;
    ir_value *of_two = lower_emit(lo, "aten::result_type", "Tensor", (ir_value *[]){with, v}, 2);
    most = lower_emit(lo, "aten::promote_types", "", (ir_value *[]){most, of_two}, 2);
  }
  return most;
}

static void lower_out_dtype(lowering *lo, const lower_node *n)
{
  lower_node inner = *n;

  inner.target = target_arg(lo, n);
  if (n->n_positional < 2 || !n->args[1].value || n->n_results != 1)
    bad(lo, n, "the dtype is missing");
  ir_value *dtype = n->args[1].value, *most = promoted(lo, n, dtype);
  inner.n_args -= 2;
  inner.n_positional -= 2;
  inner.vals = NULL;
  inner.args = session_array(lo->s, lower_arg, (size_t)inner.n_args + 1);
  for (uint32_t i = 0; i < inner.n_args; i++) {
    inner.args[i] = n->args[i + 2];
    if (inner.args[i].value && type_is(inner.args[i].value->type, TYPE_TENSOR))
      inner.args[i].value = cast(lo, inner.args[i].value, most);
  }
  lower_call(lo, &inner);
  if (!n->results[0] || !type_is(n->results[0]->type, TYPE_TENSOR))
    bad(lo, n, "the operator returns no tensor");
  n->results[0] = cast(lo, n->results[0], dtype);
}

/* -- auto_functionalized ----------------------------------------------------------------------- */

static const lower_arg *named_arg_of(const lower_node *n, const char *name)
{
  for (uint32_t i = n->n_positional; i < n->n_args; i++)
    if (str_is(n->args[i].name, name))
      return &n->args[i];
  return NULL;
}

/* Return the value of argument "_NAME_WHAT", or NULL. */
static ir_value *view_arg(lowering *lo, const lower_node *n, const char *name, const char *what)
{
  const lower_arg *a = named_arg_of(n, session_printf(lo->s, "_%s_%s", name, what));

  return a ? a->value : NULL;
}

static bool is_absent(const ir_value *v)
{
  rush_value c;

  return ir_value_as_constant(v, &c) && c.tag == RUSH_TAG_NONE;
}

static int64_t int_of(lowering *lo, const lower_node *n, const ir_value *v)
{
  rush_value c;

  if (!v || !ir_value_as_constant(v, &c) || c.tag != RUSH_TAG_INT)
    bad(lo, n, "an index of a base is no number");
  return c.as.i;
}

/* Return a copy with the same strides. */
static ir_value *copied(lowering *lo, const lower_node *n, ir_value *v)
{
  if (!type_is(v->type, TYPE_TENSOR))
    bad(lo, n, "what is written to is no tensor");
  ir_value *sizes = lower_emit(lo, "aten::size", "", &v, 1),
           *strides = lower_emit(lo, "aten::stride", "", &v, 1);
  ir_value *made = lower_emit(
    lo, "aten::new_empty_strided", "",
    (ir_value *[]){v, sizes, strides, none(lo), none(lo), none(lo), none(lo)}, 7);
  return lower_emit(lo, "aten::copy_", "",
                    (ir_value *[]){made, v, constant(lo, value_bool(false))}, 3);
}

/* Return the items of a list that a node of the graph makes, *n_items of them. */
static ir_value **list_items(lowering *lo, const lower_node *n, ir_value *list, uint32_t *n_items)
{
  const ir_node *made = list->node;
  rush_value c;

  *n_items = 0;
  if (ir_value_as_constant(list, &c) && c.tag == RUSH_TAG_LIST && c.as.list->n == 0)
    return session_array(lo->s, ir_value *, 1);
  if (made->kind != IR_LIST_CONSTRUCT && made->kind != IR_TUPLE_CONSTRUCT)
    bad(lo, n, "a list of tensors is missing");
  ir_value **items = session_array(lo->s, ir_value *, (size_t)made->n_inputs + 1);
  for (; *n_items < made->n_inputs; ++*n_items)
    items[*n_items] = ir_node_input(made, *n_items);
  return items;
}

/* The call of the operator that writes, being made. */
typedef struct mutable_call {
  const lower_node *n;
  const schema *sc;
  lower_node inner;
  ir_value **bases; /* n_bases: copies */
  uint32_t n_bases;
} mutable_call;

static void add_arg(mutable_call *c, const char *name, ir_value *v)
{
  c->inner.args[c->inner.n_args++] = (lower_arg){.name = str_of(name), .value = v};
}

/* Return the view of a base that the arguments "_NAME_..." describe; NULL: it is None. */
static ir_value *regenerated(lowering *lo, const mutable_call *c, const char *name)
{
  const lower_node *n = c->n;
  ir_value *index = view_arg(lo, n, name, "base_index");

  if (!index)
    bad(lo, n, session_printf(lo->s, "what '%s' is a view of is not said", name));
  if (is_absent(index))
    return NULL;
  const int64_t at = int_of(lo, n, index);
  if (at < 0 || at >= c->n_bases)
    bad(lo, n, session_printf(lo->s, "'%s' is a view of a base that is not there", name));
  ir_value *base = c->bases[at], *one = constant(lo, value_int(1)),
           *offset = view_arg(lo, n, name, "storage_offset"),
           *size = view_arg(lo, n, name, "size"), *stride = view_arg(lo, n, name, "stride"),
           *dim = view_arg(lo, n, name, "slice_dim"),
           *start = view_arg(lo, n, name, "slice_start"),
           *end = view_arg(lo, n, name, "slice_end");
  if (view_arg(lo, n, name, "alias"))
    return lower_emit(lo, "aten::alias", "", &base, 1);
  if (offset && size && stride)
    return lower_emit(lo, "aten::as_strided", "", (ir_value *[]){base, size, stride, offset}, 4);
  if (dim && start && end)
    return lower_emit(lo, "aten::slice", "Tensor", (ir_value *[]){base, dim, start, end, one}, 5);
  return base;
}

/* Add the list of views "_NAME_0_...", "_NAME_1_..." */
static void add_views(lowering *lo, mutable_call *c, const schema_arg *a)
{
  ir_value *length = view_arg(lo, c->n, a->name, "length");
  const int64_t n = !length || is_absent(length) ? -1 : int_of(lo, c->n, length);

  if (n < 0) {
    add_arg(c, a->name, none(lo));
    return;
  }
  if (n > c->n->n_args)
    bad(lo, c->n, "a list has more items than are described");
  ir_value **items = session_array(lo->s, ir_value *, (size_t)n + 1);
  for (int64_t i = 0; i < n; i++) {
    items[i] = regenerated(lo, c, session_printf(lo->s, "%s_%lld", a->name, (long long)i));
    if (!items[i])
      bad(lo, c->n, "an item that is written to is None");
  }
  add_arg(c, a->name, lower_list(lo, items, (uint32_t)n, type_simple(TYPE_TENSOR)));
}

static bool is_written(const schema_arg *a) { return a->is_write || a->elem_write; }

static bool is_list_arg(const schema_arg *a)
{
  const type *t = a->type->kind == TYPE_OPTIONAL ? type_elem(a->type) : a->type;

  return t->kind == TYPE_LIST;
}

/* Copy the bases, and add what the operator writes to as views of them. */
static void add_written_views(lowering *lo, mutable_call *c)
{
  const lower_arg *all = named_arg_of(c->n, "_all_bases");

  if (all && all->value)
    c->bases = list_items(lo, c->n, all->value, &c->n_bases);
  for (uint32_t i = 0; i < c->n_bases; i++)
    c->bases[i] = is_absent(c->bases[i]) ? c->bases[i] : copied(lo, c->n, c->bases[i]);
  for (uint32_t i = 0; i < c->sc->n_args; i++) {
    const schema_arg *a = &c->sc->args[i];
    if (!is_written(a))
      continue;
    ir_value *v = is_list_arg(a) ? NULL : regenerated(lo, c, a->name);
    if (is_list_arg(a))
      add_views(lo, c, a);
    else
      add_arg(c, a->name, v ? v : none(lo));
  }
}

/* Copy what the operator writes to; the copies are the bases. */
static void add_written(lowering *lo, mutable_call *c)
{
  for (uint32_t i = 0; i < c->sc->n_args; i++) {
    const schema_arg *a = &c->sc->args[i];
    const lower_arg *given = is_written(a) ? named_arg_of(c->n, a->name) : NULL;
    uint32_t n = 0;
    if (!is_written(a))
      continue;
    if (!given || !given->value)
      bad(lo, c->n, session_printf(lo->s, "'%s', which is written to, is missing", a->name));
    ir_value *v = given->value;
    if (!is_absent(v) && is_list_arg(a)) {
      ir_value **items = list_items(lo, c->n, v, &n);
      for (uint32_t k = 0; k < n; k++)
        items[k] = copied(lo, c->n, items[k]);
      v = lower_list(lo, items, n, type_simple(TYPE_TENSOR));
    } else if (!is_absent(v)) {
      v = copied(lo, c->n, v);
    }
    add_arg(c, a->name, v);
    c->bases[c->n_bases++] = v;
  }
}

/* Add the arguments that are only read. */
static void add_read(mutable_call *c)
{
  for (uint32_t i = 0; i < c->sc->n_args; i++) {
    const schema_arg *a = &c->sc->args[i];
    const lower_arg *given = is_written(a) ? NULL : named_arg_of(c->n, a->name);
    if (given)
      c->inner.args[c->inner.n_args++] = *given;
  }
}

/* Call the operator; its results come first, None if it has none, then the bases. */
static void call_written(lowering *lo, mutable_call *c)
{
  const uint32_t n_own = c->sc->n_returns ? c->sc->n_returns : 1;

  if (c->n->n_results < n_own || c->n->n_results - n_own > c->n_bases)
    bad(lo, c->n, "its results are not those of the operator and of what it writes to");
  c->inner.results = c->n->results;
  c->inner.n_results = c->sc->n_returns;
  c->inner.vals = c->n->vals;
  c->inner.is_list = false;
  lower_call(lo, &c->inner);
  for (uint32_t i = n_own; i < c->n->n_results; i++)
    c->n->results[i] = c->bases[i - n_own];
}

static void lower_auto(lowering *lo, const lower_node *n, bool has_bases)
{
  const str target = target_arg(lo, n);
  const op *o = session_op_of_target(lo->s, target);

  if (!o) { /* nothing is known of what it writes to */
    lower_unknown(lo, n, target);
    return;
  }
  mutable_call c = {.n = n, .sc = o->schema, .inner = *n};
  c.inner.target = target;
  c.inner.n_args = c.inner.n_positional = 0;
  c.inner.args = session_array(lo->s, lower_arg, (size_t)o->schema->n_args + 1);
  c.bases = session_array(lo->s, ir_value *, (size_t)o->schema->n_args + 1);
  if (has_bases)
    add_written_views(lo, &c);
  else
    add_written(lo, &c);
  add_read(&c);
  call_written(lo, &c);
}

/* -- print ------------------------------------------------------------------------------------- */

/* Find the value of the field {TEXT}: by position, by name, or (empty) the next one.  NULL: the
 * text is no such field. */
static ir_value *field(const lower_node *n, str text, uint32_t *next)
{
  uint32_t at = 0;

  if (!text.len)
    at = ++*next;
  for (size_t i = 0; i < text.len; i++) {
    if (text.p[i] < '0' || text.p[i] > '9') {
      const uint32_t first = n->n_positional;
      for (at = first; at < n->n_args && !str_eq(n->args[at].name, text); at++)
        ;
      return at < n->n_args ? n->args[at].value : NULL;
    }
    at = at < 100000 ? at * 10 + (uint32_t)(text.p[i] - '0') : at;
  }
  at += text.len ? 1 : 0; /* behind the format */
  return at < n->n_positional ? n->args[at].value : NULL;
}

typedef struct print_pieces {
  lowering *lo;
  ir_value **items;
  uint32_t n;
} print_pieces;

static void add_text(print_pieces *p, const char *text, size_t len)
{
  rush_value v;

  if (!len)
    return;
  session_check(p->lo->s, string_new(p->lo->s->cx, text, len, &v));
  p->items[p->n++] = constant(p->lo, v);
}

/* Split a text of Python's str.format into texts and values; returns false if a field is of a form
 * that is not known here. */
static bool split_format(print_pieces *p, const lower_node *n, str format)
{
  uint32_t next = 0;
  size_t from = 0;

  for (size_t i = 0; i < format.len; i++) {
    const char c = format.p[i];
    if (c != '{' && c != '}')
      continue;
    add_text(p, format.p + from, i - from);
    from = i + 1;
    if (i + 1 < format.len && format.p[i + 1] == c) { /* twice: itself */
      from = ++i;
      continue;
    }
    const char *end = c == '{' ? memchr(format.p + from, '}', format.len - from) : NULL;
    ir_value *v = end ? field(n, (str){format.p + from, (size_t)(end - format.p) - from}, &next)
                      : NULL;
    if (!v)
      return false;
    p->items[p->n++] = v;
    i = (size_t)(end - format.p);
    from = i + 1;
  }
  add_text(p, format.p + from, format.len - from);
  return true;
}

static void lower_print(lowering *lo, const lower_node *n)
{
  rush_value format;

  if (n->n_positional < 1 || !n->args[0].value ||
      !ir_value_as_constant(n->args[0].value, &format) || format.tag != RUSH_TAG_STRING)
    bad(lo, n, "the format is missing");
  const str text = value_str(format);
  print_pieces p = {lo, session_array(lo->s, ir_value *, 2 * text.len + 2), 0};
  if (split_format(&p, n, text))
    lower_emit(lo, "rushlight::print", "", p.items, p.n);
  else
    lower_raise(lo, session_printf(lo->s,
                                   "print: a field of '%.*s' is not among its arguments, or has "
                                   "a conversion or a format, which are not supported here",
                                   (int)(text.len < 200 ? text.len : 200), text.p));
  for (uint32_t i = 0; i < n->n_results; i++)
    n->results[i] = none(lo);
}

bool lower_functional(lowering *lo, const lower_node *n, str name)
{
  if (str_is(name, "out_dtype"))
    lower_out_dtype(lo, n);
  else if (str_is(name, "auto_functionalized"))
    lower_auto(lo, n, false);
  else if (str_is(name, "auto_functionalized_v2"))
    lower_auto(lo, n, true);
  else if (str_is(name, "print"))
    lower_print(lo, n);
  else
    return false;
  return true;
}
