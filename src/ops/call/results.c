/* ops/call/results.c -- results by shape rule: the call path makes the results that the rule of an
 * operator's entry describes, so that kernels only compute and views have no kernel.
 *
 * A rule runs over the call's values in a frame of this call (shape/shape.h: run time) and passes
 * one result after another.  Each becomes a tensor at once: a view of the argument that it aliases,
 * that argument itself, or memory of its own; results of a Tensor[] are appended to a list.
 * Rejected: collecting all facts first, which takes memory for as many rows as unbind() returns.
 *
 * Cost: a view takes 270 (t) to 430 (slice) instructions more than geometry written by hand took.
 */
#include "ops/call/results.h"

#include "base/integer.h"
#include "ops/call/registry.h"
#include "ops/table/table.h"
#include "shape/shape.h"

#define MOST_ARGS 64 /* of an operator of the table */

typedef struct making { /* of one call's results */
  shape_call rule; /* first: what the rule hands results over with */
  rush_call *call;
  shape_env *env;
  shape_facts first; /* of args[0], which nearly every rule reads */
  bool has_work; /* some result is memory that the kernel has to fill, or an argument it writes */
} making;

/* Return the tensor that result r aliases. */
static rush_tensor *viewed_tensor(const rush_call *c, const shape_facts *r)
{
  const rush_value *v = &c->args[r->alias];
  return v->tag == RUSH_TAG_LIST ? v->as.list->items[r->item].as.tensor : v->as.tensor;
}

static rush_status make_view(call_ctx *cx, const rush_tensor *t, const shape_facts *r,
                             rush_tensor **out)
{
  if (r->dtype == t->dtype)
    return tensor_as_strided(cx, t, r->n_dims, r->sizes, r->strides, r->offset, out);
  TRY(tensor_new_view(cx, t->st, r->dtype, r->n_dims, r->sizes, r->strides, r->offset, out));
  (*out)->h.flags |= t->h.flags & TENSOR_REQUIRES_GRAD;
  return RUSH_OK;
}

rush_status tensor_copy_rows(call_ctx *cx, const rush_tensor *t, rush_tensor **out)
{
  rush_tensor *made;
  TRY(tensor_new(cx, t->dtype, t->n_dims, t->sizes, &made));
  rush_status st = tensor_copy(cx, made, t);
  if (st == RUSH_OK && tensor_quantizer(t))
    st = tensor_set_quantizer(cx, made, tensor_quantizer(t));
  if (st != RUSH_OK) {
    tensor_release(made);
    return st;
  }
  *out = made;
  return RUSH_OK;
}

/* Replace `*t` by a row-major copy of it. */
static rush_status replace_by_copy(call_ctx *cx, rush_tensor **t)
{
  rush_tensor *view = *t;
  rush_status st = tensor_copy_rows(cx, view, t);
  tensor_release(view);
  return st;
}

/* Make a result for which no view has the geometry of r: t's elements in row-major order, viewed as
 * r. */
static rush_status make_reshaped_copy(call_ctx *cx, const rush_tensor *t, const shape_facts *r,
                                      rush_tensor **out)
{
  rush_tensor *rows;
  TRY(tensor_copy_rows(cx, t, &rows));
  rush_status st = tensor_as_strided(cx, rows, r->n_dims, r->sizes, r->strides, 0, out);
  tensor_release(rows);
  if (st == RUSH_OK)
    (*out)->h.flags |= t->h.flags & TENSOR_REQUIRES_GRAD;
  return st;
}

/* Return t with the geometry that the operator gives it. */
static rush_status change_geometry(call_ctx *cx, rush_tensor *t, const shape_facts *r,
                                   rush_tensor **out)
{
  rush_tensor *view;
  TRY(make_view(cx, t, r, &view));
  rush_status st = tensor_set_like(cx, t, view);
  tensor_release(view);
  if (st == RUSH_OK)
    *out = tensor_retain(t);
  return st;
}

static bool are_row_major(int n_dims, const int64_t *sizes, const int64_t *strides)
{
  int64_t dense = 1;
  /* the product may wrap around: tensor_new refuses such sizes */
  for (int i = n_dims; i-- > 0; dense = i64_mul(dense, i64_max(sizes[i], 1)))
    if (strides[i] != dense)
      return false;
  return true;
}

/* Return the dying argument whose buffer result 0 may take, retained, or NULL. */
static __attribute__((noinline)) rush_tensor *dying_argument(rush_call *c, int dtype, int n_dims,
                                                            const int64_t *sizes)
{
  const uint64_t may = c->op->row->reuse & c->last_use;
  rush_tensor *t = NULL;
  for (uint32_t k = 0; !t && may >> k; k++)
    if (may >> k & 1)
      t = call_take_buffer(c, k, dtype, n_dims, sizes);
  return t;
}

rush_status call_new_result(rush_call *c, uint32_t i, int dtype, int n_dims, const int64_t *sizes,
                            const int64_t *strides, rush_tensor **out)
{
  if (UNLIKELY(strides && !are_row_major(n_dims, sizes, strides)))
    return tensor_new_strided(c->cx, dtype, n_dims, sizes, strides, out);
  if (c->last_use && i == 0 && (*out = dying_argument(c, dtype, n_dims, sizes)) != NULL)
    return RUSH_OK;
  return tensor_new(c->cx, dtype, n_dims, sizes, out);
}

rush_status call_planned_result(rush_call *c, uint32_t i, const tensor_plan *p, rush_tensor **out)
{
  if (c->last_use & c->op->row->reuse && i == 0 && !p->strides &&
      (*out = dying_argument(c, p->dtype, p->n_dims, p->sizes)) != NULL)
    return RUSH_OK;
  return tensor_new_planned(c->cx, p, out);
}

/* Make uninitialised memory of r's geometry. */
static rush_status make_fresh(making *m, const shape_facts *r, rush_tensor **out)
{
  m->has_work = true;
  return call_new_result(m->call, r->result, r->dtype, r->n_dims, r->sizes, r->strides, out);
}

static bool is_view(const op *o) { return o->family == FAMILY_VIEW || o->effects & OP_COPIES; }

static rush_status make_result(making *m, const shape_facts *r, rush_tensor **out)
{
  const rush_call *c = m->call;
  const op *o = c->op;
  if (r->alias < 0)
    return is_view(o) && !o->compute ? make_reshaped_copy(c->cx, call_tensor(c, 0), r, out)
                                     : make_fresh(m, r, out);
  rush_tensor *t = viewed_tensor(c, r);
  if (r->flags & SHAPE_ITSELF && call_writes(c, (uint32_t)r->alias)) {
    if (!o->compute)
      return change_geometry(c->cx, t, r, out);
    m->has_work = true;
    *out = tensor_retain(t);
    return RUSH_OK;
  }
  if (r->flags & SHAPE_ITSELF && !(o->effects & OP_COPIES)) {
    *out = tensor_retain(t);
    return RUSH_OK;
  }
  TRY(make_view(c->cx, t, r, out));
  return o->effects & OP_COPIES ? replace_by_copy(c->cx, out) : RUSH_OK;
}

static bool returns_list(const op *o, uint32_t result)
{
  return o->schema->returns[result].type->kind == TYPE_LIST;
}

static rush_status new_list(rush_call *c, uint32_t result)
{
  rush_list *l;
  TRY(list_new(c->cx, type_simple(TYPE_TENSOR), 4, &l));
  c->results[result] = value_heap_steal(RUSH_TAG_LIST, l);
  return RUSH_OK;
}

static rush_status add_result(making *m, const shape_facts *r)
{
  rush_call *c = m->call;
  rush_tensor *t = NULL;
  rush_value *at = &c->results[r->result];
  TRY(make_result(m, r, &t));
  if (!returns_list(c->op, r->result)) {
    *at = value_tensor_steal(t);
    return RUSH_OK;
  }
  if (at->tag == RUSH_TAG_NONE) {
    rush_status st = new_list(c, r->result);
    if (st != RUSH_OK) {
      tensor_release(t);
      return st;
    }
  }
  return list_append_steal(c->cx, at->as.list, value_tensor_steal(t));
}

/* Add empty lists, if the rule described no result. */
static rush_status add_empty_lists(rush_call *c)
{
  for (uint32_t i = 0; i < c->n_results; i++)
    if (returns_list(c->op, i))
      TRY(new_list(c, i));
  return RUSH_OK;
}

/* Receive a result of the rule. */
static void made(shape_call *rule, shape_facts *r)
{
  making *m = (making *)rule;
  m->env->st = add_result(m, r);
}

rush_status call_by_rule(rush_call *c)
{
  const op *o = c->op;
  shape_frame frame;
  shape_arg args[MOST_ARGS];
  making m;
  m.rule.schema = o->schema;
  m.rule.args = args;
  m.rule.unread = UINT64_MAX;
  if (LIKELY(c->args[0].tag == RUSH_TAG_TENSOR && c->args[0].as.tensor)) {
    shape_facts_of(c->args[0].as.tensor, &m.first);
    args[0] = (shape_arg){.value = c->args[0], .n = 1, .tensors = &m.first};
    m.rule.unread = ~UINT64_C(1);
  }
  m.rule.values = c->args;
  m.rule.pointwise = NULL;
  m.rule.copies = false;
  m.rule.made = made;
  m.call = c;
  m.has_work = false;
  m.env = shape_frame_open(&frame, c->cx);
  shape_apply(m.env, o->row->shape, &m.rule);
  rush_status st = m.env->st;
  shape_frame_close(&frame);
  if (UNLIKELY(m.rule.n_results == 0 && st == RUSH_OK))
    st = add_empty_lists(c);
  return st == RUSH_OK && m.has_work && o->compute ? o->compute(c) : st;
}
