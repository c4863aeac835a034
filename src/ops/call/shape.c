/* ops/call/shape.c -- shapes of an operator's results: it gathers what the operator's table entry
 * specifies for promotion, runs the entry's shape rule over numbers or symbols, and can return the
 * answer as values for hosts. Both kinds of calls share their text through a macro, since they
 * differ only in types. External operators may have a rule's name or a function. */
#include "ops/call/shape.h"

#include "ops/call/registry.h"
#include "ops/table/table.h"
#include "ops/table/tape.h"

static const op *base_of(const op *o) { return o->base ? o->base : o; }

static uint32_t rule_in_place(void) { return shape_rule_find(STR("itself")); }

/* Return the rule's number, or 0. */
static uint32_t rule_of(const op *o)
{
  if (o->outside && o->outside->shape)
    return shape_rule_find(str_of(o->outside->shape));
  if (!o->row || !o->row->shape)
    return 0;
  return o->variant == VARIANT_INPLACE ? rule_in_place() : o->row->shape;
}

bool op_has_shape(const op *o) { return rule_of(o) || (o->outside && o->outside->shape_fn); }

/* -- Promotion by the entry -------------------------------------------------------------------- */

static int16_t out_of(uint8_t out)
{
  switch (out) {
  case OUT_COMMON:
    return SHAPE_OUT_COMMON;
  case OUT_SAME:
    return SHAPE_OUT_FIRST;
  case OUT_REAL:
    return SHAPE_OUT_REAL;
  case OUT_COMPLEX:
    return SHAPE_OUT_COMPLEX;
  default:
    return (int16_t)(out - OUT_DTYPE);
  }
}

/* Get an external operator's promotion: all tensors promote, and every result has their common
 * dtype. */
static bool outside_pointwise(const op *o, shape_pointwise *p)
{
  *p = (shape_pointwise){.promote = SHAPE_PROMOTE};
  for (uint32_t i = 0; i < o->schema->n_args && p->n_inputs < COUNT_OF(p->arg); i++)
    if (o->schema->args[i].type->kind == TYPE_TENSOR) {
      p->arg[p->n_inputs] = (uint8_t)i;
      p->promotes[p->n_inputs++] = true;
    }
  for (uint32_t i = 0; i < o->schema->n_returns && p->n_results < COUNT_OF(p->outs); i++)
    p->outs[p->n_results++] = SHAPE_OUT_COMMON;
  return true;
}

static bool pointwise_of(const op *o, shape_pointwise *p)
{
  const op *base = base_of(o);
  if (o->outside)
    return outside_pointwise(o, p);
  if (!base->row || base->row->point < 0)
    return false;
  const struct point_row *row = &point_rows[base->row->point];
  *p = (shape_pointwise){
    .n_inputs = row->n_inputs, .n_results = row->n_results, .row_major = row->row_major};
  for (int i = 0; i < row->n_inputs; i++) {
    const int at =
      o->variant == VARIANT_OUT ? variant_arg(o, row->inputs[i].arg) : row->inputs[i].arg;
    p->arg[i] = (uint8_t)(at < 0 ? 0 : at);
    p->promotes[i] = at >= 0 && row->inputs[i].flags & INPUT_PROMOTES;
  }
  for (int i = 0; i < row->n_results; i++)
    p->outs[i] = out_of(row->outs[i]);
  p->promote = row->promote == PROMOTE_FIRST   ? SHAPE_PROMOTE_FIRST
               : row->promote == PROMOTE_FLOAT ? SHAPE_PROMOTE_FLOAT
                                               : SHAPE_PROMOTE;
  return true;
}
/* Return the argument that decides whether integers become floats (rounding_mode: if it is None),
 * or -1. */
static int float_when_none(const op *o)
{
  const op *base = base_of(o);
  if (o->outside)
    return -1;
  const struct point_row *row = &point_rows[base->row->point];
  if (row->promote != PROMOTE_FLOAT_FIRST_ARM)
    return -1;
  const int arg = point_arms[row->first_arm].conds[0].arg;
  return o->variant == VARIANT_OUT ? variant_arg(o, (uint32_t)arg) : arg;
}

static uint32_t rule_or_fail(session *s, const op *o)
{
  const uint32_t rule = rule_of(o);
  if (!rule)
    session_fail_status(s, RUSH_EUNSUPPORTED, NULL, NULL, "%s%s%s has no shape rule",
                        o->schema->name, *o->schema->overload ? "." : "", o->schema->overload);
  return rule;
}

/* The same text for both kinds of calls. */
#define RUN(apply_rule)                                         \
  do {                                                          \
    shape_pointwise p;                                          \
    const uint32_t rule = rule_or_fail(s, o);                   \
    call->schema = o->schema;                                   \
    call->copies = base_of(o)->effects & OP_COPIES;             \
    call->pointwise = pointwise_of(o, &p) ? &p : NULL;          \
    if (call->pointwise) {                                      \
      const int at = float_when_none(o);                        \
      if (at >= 0 && call->args[at].value.tag == RUSH_TAG_NONE) \
        p.promote = SHAPE_PROMOTE_FLOAT;                        \
    }                                                           \
    apply_rule;                                                 \
    call->pointwise = NULL;                                     \
  } while (0)

void op_shape(session *s, const op *o, shape_call *call)
{
  shape_env env = shape_env_of(s, NULL);
  if (o->outside && o->outside->shape_fn)
    op_shape_custom(s, o, call);
  else
    RUN(shape_apply(&env, rule, call));
}
void op_symshape(session *s, sym_env *env, const op *o, symshape_call *call)
{
  shape_env all = shape_env_of(s, env);
  if (o->outside && o->outside->shape_fn)
    op_symshape_custom(s, env, o, call);
  else
    RUN(symshape_apply(&all, rule, call));
}

/* -- As values --------------------------------------------------------------------------------- */

typedef struct value_request {
  const op *o;
  const rush_value *args;
  bool symbolic;
  rush_value out; /* owned */
} value_request;

static void drop_value(void *p)
{
  value_release(*(rush_value *)p);
  *(rush_value *)p = value_none();
}
/* A list under construction: the session holds a reference until its end. */
typedef struct parts {
  session *s;
  rush_list *list; /* borrowed */
} parts;
static parts new_parts(session *s, const type *elem)
{
  rush_value *held = session_new(s, rush_value);
  parts p = {s, NULL};
  session_check(s, list_new(s->cx, elem, 8, &p.list));
  *held = value_heap_steal(RUSH_TAG_LIST, p.list);
  session_defer(s, drop_value, held);
  return p;
}
static void add_part(parts *p, rush_value v)
{
  session_check(p->s, list_append_steal(p->s->cx, p->list, v));
}
static rush_value as_list(const parts *p)
{
  return value_retain(value_heap_steal(RUSH_TAG_LIST, p->list));
}
/* Return its items as a tuple; the list is empty afterwards. */
static rush_value as_tuple(parts *p)
{
  rush_tuple *t = NULL;
  session_check(p->s, tuple_new(p->s->cx, NULL, p->list->n, &t));
  for (size_t i = 0; i < p->list->n; i++)
    t->items[i] = p->list->items[i];
  p->list->n = 0;
  return value_heap_steal(RUSH_TAG_TUPLE, t);
}

static rush_value text_value(session *s, const char *text)
{
  rush_value v;
  session_check(s, string_new(s->cx, text, strlen(text), &v));
  return v;
}
static rush_value ints_value(session *s, int n, const int64_t *v)
{
  rush_value r;
  session_check(s, list_of_ints(s->cx, v, (size_t)n, &r));
  return r;
}
static rush_value symint_text(session *s, symint e)
{
  text_buf *t = session_text(s);
  sym_print(t, e);
  return text_value(s, session_take_text(s, t));
}
static rush_value symints_text(session *s, int n, const symint *e)
{
  parts p = new_parts(s, type_simple(TYPE_STRING));
  for (int i = 0; i < n; i++)
    add_part(&p, symint_text(s, e[i]));
  return as_list(&p);
}

static rush_value result_value(session *s, const shape_facts *r, const symshape_facts *sym)
{
  parts p = new_parts(s, type_simple(TYPE_ANY));
  add_part(&p, value_int(r->result));
  add_part(&p, ints_value(s, r->n_dims, r->sizes));
  add_part(&p, ints_value(s, r->n_dims, r->strides));
  add_part(&p, value_int(r->offset));
  add_part(&p, value_int(r->dtype));
  add_part(&p, value_int(r->alias));
  add_part(&p, value_bool(r->flags & SHAPE_ITSELF));
  if (sym) {
    add_part(&p, symints_text(s, sym->n_dims, sym->sizes));
    add_part(&p, symints_text(s, sym->n_dims, sym->strides));
    add_part(&p, symint_text(s, sym->offset));
  }
  return as_tuple(&p);
}

static int64_t hint_or_unknown(symint e)
{
  int64_t v;
  return sym_hint(e, &v) ? v : SHAPE_UNKNOWN;
}
/* Return the facts with hints instead of symbols. */
static shape_facts hinted(session *s, const symshape_facts *f)
{
  shape_facts r = {.dtype = f->dtype,
                   .flags = f->flags,
                   .n_dims = f->n_dims,
                   .alias = f->alias,
                   .item = f->item,
                   .result = f->result,
                   .offset = hint_or_unknown(f->offset)};
  r.sizes = session_array(s, int64_t, 2 * (size_t)f->n_dims + 1);
  r.strides = r.sizes + f->n_dims;
  for (int i = 0; i < f->n_dims; i++) {
    r.sizes[i] = hint_or_unknown(f->sizes[i]);
    r.strides[i] = hint_or_unknown(f->strides[i]);
  }
  return r;
}

static rush_value symbol_value(session *s, const sym_env *env, uint32_t i)
{
  const sym_atom *a = env->atoms[i];
  parts p = new_parts(s, type_simple(TYPE_ANY));
  add_part(&p, text_value(s, session_printf(s, "%c%u", a->backed ? 's' : 'u', a->number)));
  add_part(&p, a->backed ? value_int(a->hint) : value_none());
  add_part(&p, value_int(a->lo));
  add_part(&p, a->hi == SYM_INF ? value_none() : value_int(a->hi));
  return as_tuple(&p);
}

static void find_value(session *s, void *arg)
{
  value_request *q = arg;
  const schema *sc = q->o->schema;
  shape_call plain = {.args = shape_args_of(s, sc, q->args)};
  sym_env *env = sym_env_new(s);
  const type *any = type_simple(TYPE_ANY);
  parts all = new_parts(s, any), results = new_parts(s, any),
        guards = new_parts(s, type_simple(TYPE_STRING)), symbols = new_parts(s, any);
  if (q->symbolic) {
    symshape_call call = {.args = symshape_args_of(s, env, sc, plain.args)};
    op_symshape(s, env, q->o, &call);
    for (uint32_t i = 0; i < call.n_results; i++) {
      shape_facts r = hinted(s, call.results[i]);
      add_part(&results, result_value(s, &r, call.results[i]));
    }
  } else {
    op_shape(s, q->o, &plain);
    for (uint32_t i = 0; i < plain.n_results; i++)
      add_part(&results, result_value(s, plain.results[i], NULL));
  }
  for (uint32_t i = 0; i < env->n_guards; i++) {
    text_buf *t = session_text(s);
    sym_cond_print(t, env->guards[i]);
    add_part(&guards, text_value(s, session_take_text(s, t)));
  }
  for (uint32_t i = 0; i < env->n_atoms; i++)
    if (env->atoms[i]->kind == SYM_SYMBOL)
      add_part(&symbols, symbol_value(s, env, i));
  add_part(&all,
      text_value(s, session_printf(s, "%s%s%s", sc->name, *sc->overload ? "." : "", sc->overload)));
  add_part(&all,
      text_value(s, q->o->outside && q->o->outside->shape_fn ? "function"
                                                             : shape_rule_name(rule_of(q->o))));
  add_part(&all, as_list(&results));
  add_part(&all, as_list(&guards));
  add_part(&all, as_list(&symbols));
  q->out = as_tuple(&all);
}

rush_status op_shape_value(call_ctx *cx, const op *o, const rush_value *args, bool symbolic,
                           rush_value *out)
{
  value_request q = {.o = o, .args = args, .symbolic = symbolic, .out = value_none()};
  TRY(session_run(cx, find_value, &q));
  *out = q.out;
  return RUSH_OK;
}
