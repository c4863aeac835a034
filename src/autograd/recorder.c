/* autograd/recorder.c -- an operator's call while gradients are recorded. There are three ways:
 * with formulas, the kernel runs unrecorded and one record is made; with a body, the body runs
 * recorded; with neither, what the kernel calls is recorded. In-place and out= variants are
 * expressed in the arguments of their base, whose formulas they use. It also tracks bases of views,
 * so that a write to a view reaches the base's gradient. */
#include "autograd/record.h"
#include "ops/call/registry.h"
#include "ops/table/table.h"

#define MAX_ARGS 64
#define MAX_RESULTS 16

/* -- Arguments in the order of the base, which formulas speak of ------------------------------- */

static const op *base_of(const op *o) { return o->base ? o->base : o; }

/* Fill the base's arguments; returns the bits of those that the call writes to. */
static uint64_t base_row(const rush_call *c, const op *base, rush_value *row)
{
  uint64_t written = 0;
  if (c->op->base == base)
    call_base_args(c, row);
  else
    memcpy(row, c->args, c->n_args * sizeof *row);
  for (uint32_t i = 0; i < base->schema->n_args && i < 64; i++) {
    const int at = c->op->base == base ? variant_arg(c->op, i) : (int)i;
    if (at >= 0 && call_writes(c, (uint32_t)at))
      written |= UINT64_C(1) << i;
  }
  return written;
}

/* Fill the base's results: the tensors that a variant wrote to. */
static void base_results(const rush_call *c, const op *base, rush_value *row)
{
  uint32_t k = 0;
  for (uint32_t i = 0; i < base->schema->n_returns; i++)
    row[i] = i < c->n_results ? c->results[i] : value_none();
  for (uint32_t i = 0; c->op->base == base && i < c->n_args && k < base->schema->n_returns; i++)
    if (call_gets_result(c->op, i))
      row[k++] = c->args[i];
}

static bool requires(const rush_value *v)
{
  rush_tensor *t;
  for (tensor_walk w = {v, 1}; (t = tensor_walk_next(&w)) != NULL;)
    if (tensor_requires_grad(t))
      return true;
  return false;
}

static bool is_differentiated(const op_gradients *g, const rush_value *row)
{
  for (uint32_t f = 0; f < g->n; f++)
    for (uint32_t i = 0; i < g->items[f].n_inputs; i++)
      if (requires(&row[g->items[f].input[i]]))
        return true;
  return false;
}

/* -- Results ----------------------------------------------------------------------------------- */

static rush_tensor *viewed(const rush_call *c, const rush_tensor *t)
{
  for (uint32_t i = 0; i < c->n_args; i++)
    if (call_tensor(c, i) && call_tensor(c, i) != t && call_tensor(c, i)->st == t->st)
      return call_tensor(c, i);
  return NULL;
}

/* True if some formula uses the gradient of the result. */
static bool is_needed(const op_gradients *g, uint32_t result)
{
  for (uint32_t f = 0; f < g->n; f++)
    for (uint32_t i = 0; i < g->items[f].n_takes; i++)
      if (g->items[f].take[i].from == GRADIENT_OF_RESULT && g->items[f].take[i].index == result)
        return true;
  return false;
}

static rush_status attach(const rush_call *c, grad_record *r, rush_tensor *t, uint32_t at)
{
  const int arg = call_argument_of(c, t);
  if (dtype_class_of(t->dtype) < DTYPE_FLOAT || (arg >= 0 && !call_writes(c, (uint32_t)arg)))
    return RUSH_OK;
  grad_edge e = {grad_record_retain(r), at};
  if (arg >= 0 && c->op->family != FAMILY_VIEW)
    return grad_written_steal(c->cx, t, e);
  rush_tensor *from = arg < 0 ? viewed(c, t) : NULL;
  if (from) {
    rush_status st = grad_set_base(c->cx, t, from);
    if (st != RUSH_OK) {
      grad_record_release(e.to);
      return st;
    }
  }
  return grad_attach_steal(c->cx, t, e);
}

static void no_grad(const rush_call *c, rush_tensor *t)
{
  if (call_argument_of(c, t) < 0)
    t->h.flags &= (uint8_t)~(TENSOR_REQUIRES_GRAD | TENSOR_HAS_GRAD_FN);
}

static rush_status attach_all(const rush_call *c, grad_record *r, const rush_value *results)
{
  for (uint32_t i = 0; i < r->n_results; i++) {
    const grad_slot *s = &r->results[i];
    for (uint32_t k = 0; k < s->n; k++) {
      rush_value v = s->kind == GRAD_LIST ? results[i].as.list->items[k] : results[i];
      if (v.tag != RUSH_TAG_TENSOR || !v.as.tensor)
        continue;
      if (!is_needed(r->formulas, i))
        no_grad(c, v.as.tensor);
      else
        TRY(attach(c, r, v.as.tensor, s->first + k));
    }
  }
  return RUSH_OK;
}

static void no_grads(const rush_call *c)
{
  rush_tensor *t;
  for (tensor_walk w = {c->results, c->n_results}; (t = tensor_walk_next(&w)) != NULL;)
    no_grad(c, t);
}

/* -- The ways to record a call ----------------------------------------------------------------- */

static rush_status unrecorded(rush_call *c)
{
  const call_recorder *recorder = c->cx->recorder;
  c->cx->recorder = NULL; /* what a kernel calls is its own matter */
  rush_status st = call_dispatch(c);
  c->cx->recorder = recorder;
  return st;
}

/* Detach results that are documented as not being views (unsafe_chunk): writes treat them as if
 * they were none. */
static rush_status separate(rush_call *c)
{
  rush_list *l =
    c->op->effects & OP_UNSAFE_VIEWS && c->results[0].tag == RUSH_TAG_LIST
      ? c->results[0].as.list
      : NULL;
  for (size_t i = 0; l && i < l->n; i++) {
    rush_tensor *own;
    TRY(tensor_clone(c->cx, l->items[i].as.tensor, &own));
    value_release(l->items[i]);
    l->items[i] = value_tensor_steal(own);
  }
  return RUSH_OK;
}

static rush_status too_many(rush_call *c, const op *base)
{
  return call_unsupported(
    c->cx, "recording %s, which has %u arguments and %u results; the limits are %d and %d",
    c->op->schema->name, base->schema->n_args, base->schema->n_returns, MAX_ARGS, MAX_RESULTS);
}

static rush_status by_formulas(rush_call *c, const op *base, const op_gradients *g)
{
  rush_value row[MAX_ARGS], results[MAX_RESULTS];
  grad_record *r;
  if (base->schema->n_args > MAX_ARGS || base->schema->n_returns > MAX_RESULTS ||
      c->n_args > MAX_ARGS)
    return too_many(c, base);
  const uint64_t written = base_row(c, base, row);
  if (!is_differentiated(g, row)) {
    TRY(unrecorded(c));
    no_grads(c);
    return RUSH_OK;
  }
  TRY(grad_record_begin(c->cx, base, g, row, written, &r));
  rush_status st = unrecorded(c);
  if (st == RUSH_OK)
    st = separate(c);
  if (st == RUSH_OK) {
    base_results(c, base, results);
    st = grad_record_end(c->cx, r, results, c->op->effects & OP_WRITES);
  }
  if (st == RUSH_OK)
    st = attach_all(c, r, results);
  grad_record_release(r);
  return st;
}

/* Run an in-place operator whose base is differentiated through its body: the base, and a copy. */
static rush_status by_base(rush_call *c)
{
  const op *base = c->op->base;
  rush_value row[MAX_ARGS], made[MAX_RESULTS];
  if (base->schema->n_args > MAX_ARGS || base->schema->n_returns > MAX_RESULTS)
    return too_many(c, base);
  call_base_args(c, row);
  TRY(op_invoke(c->cx, base, row, base->schema->n_args, made, base->schema->n_returns));
  rush_status st = RUSH_OK;
  uint32_t k = 0;
  for (uint32_t i = 0; i < c->n_args && k < base->schema->n_returns && st == RUSH_OK; i++) {
    if (!call_gets_result(c->op, i))
      continue;
    rush_value args[3] = {c->args[i], made[k], value_bool(false)}, copied;
    st = op_invoke_name(c->cx, "aten::copy_", "", args, 3, &copied);
    if (st == RUSH_OK) {
      value_release(copied);
      if (k < c->n_results)
        call_return_arg(c, k, i);
    }
    k++;
  }
  for (uint32_t i = 0; i < base->schema->n_returns; i++)
    value_release(made[i]);
  return st;
}

/* Return the out-of-place version of a view made in place (t_, squeeze_), whose formulas it has. */
static const op *viewing(const op *o)
{
  str name = str_of(o->schema->name);
  if (o->family != FAMILY_VIEW || o->base || !(o->effects & OP_WRITES) || !name.len ||
      name.p[name.len - 1] != '_')
    return NULL;
  return op_find(o->ctx, (str){name.p, name.len - 1}, str_of(o->schema->overload));
}

static bool has_body(const op *o) { return o->row && o->row->body; }

/* Run an operator with neither formula nor body: what its kernel calls is recorded.  A result
 * without a record has no derivative. */
static rush_status by_kernel(rush_call *c)
{
  TRY(call_dispatch(c));
  if (c->op->outside && c->state && c->state->body)
    return RUSH_OK; /* a group of nodes, which ran one by one */
  for (uint32_t i = 0; i < c->n_results; i++) {
    rush_tensor *t = c->results[i].tag == RUSH_TAG_TENSOR ? c->results[i].as.tensor : NULL;
    const int arg = t ? call_argument_of(c, t) : -1;
    if (!t || dtype_class_of(t->dtype) < DTYPE_FLOAT || (arg < 0 && grad_is_recorded(t)) ||
        (arg >= 0 && !call_writes(c, (uint32_t)arg)))
      continue;
    if (c->op->effects & OP_RANDOM) {
      if (arg < 0)
        no_grad(c, t);
      continue;
    }
    grad_record *r;
    rush_value none[MAX_RESULTS] = {{0}};
    if (c->n_args > MAX_ARGS || c->op->schema->n_args != c->n_args ||
        c->op->schema->n_returns > MAX_RESULTS)
      continue;
    TRY(grad_record_begin(c->cx, c->op, NULL, c->args, 0, &r));
    none[i] = c->results[i];
    rush_status st = grad_record_end(c->cx, r, none, false);
    if (st == RUSH_OK)
      st = attach(c, r, t, 0);
    grad_record_release(r);
    TRY(st);
  }
  return RUSH_OK;
}

/* Check writes to views of leaves. */
static rush_status check_bases(const rush_call *c)
{
  for (uint32_t i = 0; i < c->n_args; i++) {
    const rush_tensor *t =
      call_writes(c, i) && c->args[i].tag == RUSH_TAG_TENSOR ? c->args[i].as.tensor : NULL;
    const grad_meta *m = t ? grad_meta_find(t) : NULL;
    if (m && m->base &&
        (m->base->h.flags & (TENSOR_REQUIRES_GRAD | TENSOR_HAS_GRAD_FN)) == TENSOR_REQUIRES_GRAD)
      return call_fail(
        c->cx,
        "a view of a leaf Variable that requires grad is being used in an in-place operation.");
  }
  return RUSH_OK;
}

static rush_status record(rush_call *c)
{
  const op_gradients *g = NULL;
  const op *base = viewing(c->op);
  base = base ? base : base_of(c->op);
  c->cx->watch |= CALL_RECORDED;
  c->last_use = 0; /* a result in a dying argument's buffer would be that argument */
  if (c->op->effects & OP_WRITES)
    TRY(check_bases(c));
  TRY(op_gradients_of(c->cx, base, &g));
  if (g)
    return by_formulas(c, base, g);
  if (c->op->base && has_body(c->op->base))
    return by_base(c);
  return has_body(c->op) ? call_through_body(c) : by_kernel(c);
}

/* -- Views of what requires no gradient yet ---------------------------------------------------- */

static rush_status before(rush_call *c)
{
  rush_tensor *t;
  for (tensor_walk w = {c->args, c->n_args}; (t = tensor_walk_next(&w)) != NULL;)
    if (t->extra)
      TRY(grad_refresh(c->cx, t));
  return RUSH_OK;
}

static rush_status set_view(rush_call *c, rush_tensor *t)
{
  const grad_meta *m = grad_meta_find(t);
  if (m && m->base)
    return RUSH_OK;
  rush_tensor *from = call_argument_of(c, t) < 0 ? viewed(c, t) : NULL;
  return from ? grad_set_base(c->cx, t, from) : RUSH_OK;
}

static rush_status after(rush_call *c)
{
  rush_tensor *t;
  if (c->op->family != FAMILY_VIEW || c->op->effects & (OP_NO_GRAD | OP_WRITES))
    return RUSH_OK;
  for (tensor_walk w = {c->results, c->n_results}; (t = tensor_walk_next(&w)) != NULL;)
    TRY(set_view(c, t));
  return RUSH_OK;
}

const call_recorder autograd_recorder = {
  .call = record, .before = before, .after = after, .call_gradient_op = autograd_call_op};

bool autograd_may_hold(rush_value v)
{
  bool any = false;
  if (v.tag == RUSH_TAG_TENSOR)
    return v.as.tensor && tensor_requires_grad(v.as.tensor);
  if (v.tag != RUSH_TAG_LIST)
    return v.tag > RUSH_TAG_LIST && v.tag <= RUSH_TAG_OBJECT;
  for (size_t i = 0; i < v.as.list->n && !any; i++)
    any = v.as.list->items[i].tag == RUSH_TAG_LIST || autograd_may_hold(v.as.list->items[i]);
  return any;
}

rush_status autograd_begin(call_ctx *cx, call_recorder *own, const rush_gradient_host *host,
                           bool any, const rush_value *args, size_t n_args)
{
  *own = autograd_recorder;
  if (host) {
    own->own_host = *host;
    own->host = &own->own_host;
  }
  cx->recorder = own;
  for (size_t i = 0; i < n_args && !any; i++)
    any = autograd_may_hold(args[i]);
  cx->watch |= any ? CALL_RECORDED : 0;
  return RUSH_OK;
}

rush_status autograd_need(call_ctx *cx, const char *what)
{
  (void)cx, (void)what;
  return RUSH_OK;
}
