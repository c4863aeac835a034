/* ops/kernels/optim.c -- steps of optimizers on tensors, and the operators _fused_*_ (optim.h).
 *
 * Every tensor of an item becomes a row of elements in the order of the parameter's memory.
 * Tensors that are laid out otherwise are copied before and after.  16-bit elements are computed in
 * float32, a block at a time. */
#include "ops/kernels/optim.h"

#include <math.h>

#include "base/macros.h"
#include "base/threads.h"
#include "ops/kernels/work.h"
#include "ops/table/op_keys.h"

enum { GRAIN = 16 }; /* blocks: some microseconds */

/* An item, ready to be computed. */
typedef struct row_set {
  const optim_rule *rule;
  optim_update *update;
  int dtype;
  int64_t n, first; /* elements; blocks of the items before */
  void *data[OPTIM_ROWS]; /* parameter, gradient, states; NULL: not used */
  rush_tensor *made[OPTIM_ROWS]; /* owned: copies in the parameter's order, or NULL */
} row_set;

typedef struct job {
  row_set *sets;
  size_t n;
} job;

void optim_number_step(optim_rule *r, double step, double lr_decay)
{
  r->step_size = r->lr;
  if (r->kind == OPTIM_ADAM) {
    r->step_size = r->lr / (1 - pow(r->beta1, step));
    r->correction = sqrt(1 - pow(r->beta2, step));
  } else if (r->kind == OPTIM_ADAGRAD)
    r->step_size = r->lr / (1 + (step - 1) * lr_decay);
}

static rush_tensor *item_tensor(const optim_item *item, int k)
{
  return k == 0 ? item->param : k == 1 ? item->grad : item->state[k - 2];
}

/* True if the step writes to tensor k of an item. */
static bool is_written(const optim_rule *r, int k) { return k != 1 || r->grad_scale != 0; }

/* -- Checks ------------------------------------------------------------------------------------ */

static const char *const names[] = {"sgd", "adam", "rmsprop", "adagrad"};

static rush_status check_item(call_ctx *cx, const optim_item *item)
{
  const rush_tensor *p = item->param;
  sizes_text want, got;
  if (dtype_class_of(p->dtype) != DTYPE_FLOAT || dtype_bytes(p->dtype) == 1)
    return call_fail_type(cx, "NotImplementedError",
                          "\"fused_%s_kernel\" not implemented for '%s'", names[item->rule.kind],
                          dtype_aten_name(p->dtype));
  for (int k = 0; k < OPTIM_ROWS; k++) {
    const rush_tensor *t = item_tensor(item, k);
    if (!t)
      continue;
    if (t->dtype != p->dtype)
      return call_fail(cx, "expected scalar type %s but found %s", dtype_aten_name(p->dtype),
                       dtype_aten_name(t->dtype));
    if (t->n_dims != p->n_dims || memcmp(t->sizes, p->sizes, sizeof *p->sizes * p->n_dims) != 0)
      return call_fail(cx, "a parameter of sizes %s has a %s of sizes %s: expected the same",
                       sizes_print(&want, p->n_dims, p->sizes), k == 1 ? "gradient" : "state",
                       sizes_print(&got, t->n_dims, t->sizes));
    if (is_written(&item->rule, k) && tensor_overlaps_itself(t))
      return call_fail(cx, "unsupported operation: more than one element of the written-to tensor "
                           "refers to a single memory location. Please clone() the tensor before "
                           "performing the operation.");
  }
  return RUSH_OK;
}

/* -- Rows -------------------------------------------------------------------------------------- */

/* Set row k to the elements of t, in the order of `as`, a dense tensor of its sizes. */
static rush_status set_row(call_ctx *cx, row_set *s, int k, rush_tensor *t, const rush_tensor *as)
{
  if (tensor_same_geometry(t, as) || (t->n_elems <= 1 && t->n_elems == as->n_elems)) {
    s->data[k] = is_written(s->rule, k) ? tensor_data_mut(t) : t->data;
    return RUSH_OK;
  }
  TRY(tensor_new_strided(cx, t->dtype, as->n_dims, as->sizes, as->strides, &s->made[k]));
  TRY(tensor_copy(cx, s->made[k], t));
  s->data[k] = s->made[k]->data;
  return RUSH_OK;
}

static rush_status set_rows(call_ctx *cx, row_set *s, const optim_item *item)
{
  rush_tensor *p = item->param;
  s->rule = &item->rule;
  s->dtype = p->dtype;
  s->n = p->n_elems;
  s->update = ISA_PICK(optim_update_of, call_cpu(cx))(p->dtype == RUSH_FLOAT64);
  if (!tensor_is_dense(p)) {
    TRY(tensor_new(cx, p->dtype, p->n_dims, p->sizes, &s->made[0]));
    TRY(tensor_copy(cx, s->made[0], p));
    s->data[0] = s->made[0]->data;
  }
  const rush_tensor *as = s->made[0] ? s->made[0] : p;
  for (int k = 0; k < OPTIM_ROWS; k++)
    if (item_tensor(item, k) && !s->made[k])
      TRY(set_row(cx, s, k, item_tensor(item, k), as));
  return RUSH_OK;
}

/* Copy the rows that are copies back. */
static rush_status write_back(call_ctx *cx, const row_set *s, const optim_item *item)
{
  for (int k = 0; k < OPTIM_ROWS; k++)
    if (s->made[k] && is_written(s->rule, k)) {
      rush_tensor *t = item_tensor(item, k);
      (void)tensor_data_mut(t);
      TRY(tensor_copy(cx, t, s->made[k]));
    }
  return RUSH_OK;
}

/* -- The loop ---------------------------------------------------------------------------------- */

static int64_t n_blocks(int64_t n) { return (n + OPTIM_BLOCK - 1) / OPTIM_BLOCK; }

/* Update n elements of 16 bits from `at` on, which are at most a block. */
static void update_halves(const row_set *s, int64_t at, int64_t n)
{
  float floats[OPTIM_ROWS][OPTIM_BLOCK];
  void *rows[OPTIM_ROWS];
  for (int k = 0; k < OPTIM_ROWS; k++) {
    rows[k] = s->data[k] ? floats[k] : NULL;
    if (rows[k])
      convert_elems(RUSH_FLOAT32, rows[k], s->dtype, (uint16_t *)s->data[k] + at, n);
  }
  s->update(s->rule, n, rows);
  for (int k = 0; k < OPTIM_ROWS; k++)
    if (rows[k] && is_written(s->rule, k))
      convert_elems(s->dtype, (uint16_t *)s->data[k] + at, RUSH_FLOAT32, rows[k], n);
}

/* Update blocks [begin, end) of an item. */
static void update_blocks(const row_set *s, int64_t begin, int64_t end)
{
  const int64_t at = begin * OPTIM_BLOCK, stop = i64_min(end * OPTIM_BLOCK, s->n);
  const int64_t item = (int64_t)dtype_bytes(s->dtype);
  void *rows[OPTIM_ROWS];
  if (item == sizeof(uint16_t)) {
    for (int64_t i = at; i < stop; i += OPTIM_BLOCK)
      update_halves(s, i, i64_min(OPTIM_BLOCK, stop - i));
    return;
  }
  for (int k = 0; k < OPTIM_ROWS; k++)
    rows[k] = s->data[k] ? (char *)s->data[k] + at * item : NULL;
  s->update(s->rule, stop - at, rows);
}

static void run_blocks(void *arg, int64_t begin, int64_t end)
{
  const job *j = arg;
  size_t low = 0, high = j->n; /* the last item that begins at or before `begin` */
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    *(j->sets[middle].first <= begin ? &low : &high) = middle;
  }
  for (const row_set *s = j->sets + low; begin < end; s++) {
    const int64_t stop = i64_min(end, s->first + n_blocks(s->n));
    if (begin < stop)
      update_blocks(s, begin - s->first, stop - s->first);
    begin = stop;
  }
}

rush_status optim_step(call_ctx *cx, const optim_item *items, size_t n)
{
  size_t n_bytes;
  rush_status st = RUSH_OK;
  for (size_t i = 0; i < n; i++)
    TRY(check_item(cx, &items[i]));
  if (!size_mul(n, sizeof(row_set), &n_bytes))
    return call_nomem(cx);
  row_set *sets = n ? mem_alloc_zero(cx->ctx, n_bytes) : NULL;
  if (n == 0 || !sets)
    return n == 0 ? RUSH_OK : call_nomem_bytes(cx, n_bytes);
  int64_t n_all = 0;
  for (size_t i = 0; i < n && st == RUSH_OK; i++) {
    sets[i].first = n_all;
    st = set_rows(cx, &sets[i], &items[i]);
    n_all += n_blocks(sets[i].n);
  }
  job j = {sets, n};
  if (st == RUSH_OK)
    st = parallel_for(cx, n_all, GRAIN, run_blocks, &j);
  for (size_t i = 0; i < n && st == RUSH_OK; i++)
    st = write_back(cx, &sets[i], &items[i]);
  for (size_t i = 0; i < n; i++)
    for (int k = 0; k < OPTIM_ROWS; k++)
      tensor_release(sets[i].made[k]);
  mem_free(cx->ctx, sets, n_bytes);
  return st;
}

/* -- The operators ----------------------------------------------------------------------------- */

/* Lists of tensors that a fused operator takes, in its order; the last is the steps' numbers. */
typedef struct lists {
  const rush_list *self, *grads, *state[OPTIM_STATES], *steps;
} lists;

/* Get the list called `name`, which must have an item for each parameter, or none if `unused`. */
static rush_status get_list(const rush_call *c, const char *name, bool unused, size_t n,
                            const rush_list **out)
{
  const rush_value v = call_value_at(c, schema_arg_index(c->op->schema, str_of(name)));
  if (v.tag != RUSH_TAG_LIST)
    return RUSH_OK;
  if (v.as.list->n != (unused ? 0 : n))
    return call_fail(c->cx, unused ? "Expected %s.empty() to be true, but got false."
                                   : "Expected %s.size() == n_tensors to be true, but got false.",
                     name);
  *out = unused ? NULL : v.as.list;
  return RUSH_OK;
}

/* Get a number, which may be the only element of a tensor. */
static rush_status get_number(const rush_call *c, rush_value v, double *out)
{
  rush_value item = v;
  if (v.tag == RUSH_TAG_TENSOR) {
    if (!v.as.tensor)
      return call_fail(c->cx, "an undefined tensor has no value");
    if (v.as.tensor->n_elems != 1)
      return call_fail(c->cx, "a Tensor with %lld elements cannot be converted to Scalar",
                       (long long)v.as.tensor->n_elems);
    TRY(tensor_item(c->cx, v.as.tensor, &item));
  }
  const rush_call one = {.args = &item};
  *out = call_float(&one, 0);
  value_release(item.tag == v.tag ? value_none() : item);
  return RUSH_OK;
}

static double named_float(const rush_call *c, const char *name)
{
  const int i = schema_arg_index(c->op->schema, str_of(name));
  return i < 0 ? 0 : call_float(c, (uint32_t)i);
}

static bool named_bool(const rush_call *c, const char *name)
{
  return value_is_true(call_value_at(c, schema_arg_index(c->op->schema, str_of(name))));
}

static rush_status get_rule(const rush_call *c, optim_kind kind, optim_rule *r)
{
  *r = (optim_rule){
    .kind = kind,
    .maximize = named_bool(c, "maximize"),
    .nesterov = named_bool(c, "nesterov"),
    .is_first = named_bool(c, "is_first_step"),
    .decoupled = c->op->name_key == OPN__FUSED_ADAMW_,
    .amsgrad = named_bool(c, "amsgrad"),
    .weight_decay = named_float(c, "weight_decay"),
    .centered = named_bool(c, "centered"),
    .momentum = named_float(c, "momentum"),
    .dampening = named_float(c, "dampening"),
    .beta1 = named_float(c, "beta1"),
    .beta2 = named_float(c, kind == OPTIM_RMSPROP ? "alpha" : "beta2"),
    .eps = named_float(c, "eps"),
  };
  const rush_value scale = call_named(c, "grad_scale");
  TRY(get_number(c, call_named(c, "lr"), &r->lr));
  return scale.tag == RUSH_TAG_TENSOR ? get_number(c, scale, &r->grad_scale) : RUSH_OK;
}

static rush_status get_lists(const rush_call *c, const optim_rule *r, lists *l)
{
  const size_t n = l->self->n;
  TRY(get_list(c, "grads", false, n, &l->grads));
  TRY(get_list(c, "momentum_buffer_list", r->momentum == 0, n, &l->state[0]));
  TRY(get_list(c, "exp_avgs", false, n, &l->state[0]));
  TRY(get_list(c, "exp_avg_sqs", false, n, &l->state[1]));
  TRY(get_list(c, "max_exp_avg_sqs", !r->amsgrad, n, &l->state[2]));
  TRY(get_list(c, "state_sums", false, n, &l->state[0]));
  TRY(get_list(c, "square_avgs", false, n, &l->state[0]));
  TRY(get_list(c, "momentum_buffers", r->momentum == 0, n, &l->state[1]));
  TRY(get_list(c, "grad_avgs", !r->centered, n, &l->state[2]));
  return get_list(c, "state_steps", false, n, &l->steps);
}

static rush_status fill_items(const rush_call *c, const optim_rule *r, const lists *l,
                              optim_item *items)
{
  const double lr_decay = named_float(c, "lr_decay");
  for (size_t i = 0; i < l->self->n; i++) {
    optim_item *item = &items[i];
    double step = 1;
    *item = (optim_item){*r, l->self->items[i].as.tensor, l->grads->items[i].as.tensor, {NULL}};
    for (int k = 0; k < OPTIM_STATES; k++)
      item->state[k] = l->state[k] ? l->state[k]->items[i].as.tensor : NULL;
    if (l->steps)
      TRY(get_number(c, l->steps->items[i], &step));
    optim_number_step(&item->rule, step, lr_decay);
  }
  return RUSH_OK;
}

/* Run a _fused_*_ operator: nothing happens if `found_inf` is 1. */
static rush_status fused_step(rush_call *c, optim_kind kind)
{
  lists l = {.self = call_list(c, 0)};
  optim_rule r;
  double found = 0;
  size_t n_bytes;
  const rush_value found_inf = call_named(c, "found_inf");
  if (found_inf.tag == RUSH_TAG_TENSOR)
    TRY(get_number(c, found_inf, &found));
  if (found == 1)
    return RUSH_OK;
  TRY(get_rule(c, kind, &r));
  TRY(get_lists(c, &r, &l));
  if (!size_mul(l.self->n, sizeof(optim_item), &n_bytes))
    return call_nomem(c->cx);
  optim_item *items = mem_alloc(c->cx->ctx, n_bytes);
  if (!items)
    return call_nomem_bytes(c->cx, n_bytes);
  rush_status st = fill_items(c, &r, &l, items);
  if (st == RUSH_OK)
    st = optim_step(c->cx, items, l.self->n);
  mem_free(c->cx->ctx, items, n_bytes);
  return st;
}

rush_status kernel_fused_sgd(rush_call *c) { return fused_step(c, OPTIM_SGD); }
rush_status kernel_fused_adam(rush_call *c) { return fused_step(c, OPTIM_ADAM); }
rush_status kernel_fused_rmsprop(rush_call *c) { return fused_step(c, OPTIM_RMSPROP); }
rush_status kernel_fused_adagrad(rush_call *c) { return fused_step(c, OPTIM_ADAGRAD); }
