/* ops/kernels/nn/loss.c -- losses over classes: negative log likelihood, the margin losses, and
 * connectionist temporal classification with its gradient. They are loops over contiguous tensors
 * that accumulate in double. CTC is the forward-backward algorithm of Graves et al. in logarithms,
 * O(steps * states) per sequence, where a sequence of n targets has 2n + 1 states; alpha is kept
 * because its gradient needs it. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/work.h"

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

/* Return element i of any float dtype. */
static inline double any_at(const rush_tensor *t, int64_t i)
{
  if (t->dtype == RUSH_BFLOAT16)
    return (double)f32_of_bf16(((const uint16_t *)t->data)[i]);
  return t->dtype == RUSH_FLOAT16 ? (double)f32_of_f16(((const uint16_t *)t->data)[i])
                                  : nn_number_at(t, i);
}
static inline int64_t int_at(const rush_tensor *t, int64_t i)
{
  return ((const int64_t *)t->data)[i];
}

/* Return class indices as int64: Long, or Byte as PyTorch accepts it. */
static rush_tensor *read_targets(work *w, rush_tensor *t, bool takes_bytes)
{
  const char *name = dtype_aten_name(t->dtype);
  if (t->dtype != RUSH_INT64 && !(takes_bytes && t->dtype == RUSH_UINT8))
    WORK_DO(w, takes_bytes
                 ? call_fail(w->cx, "expected target dtype to be Long or Byte, but got %s", name)
                 : call_fail(w->cx, "expected scalar type Long but found %s", name));
  return work_rows(w, t, RUSH_INT64);
}

static void set_result(const rush_call *c, uint32_t i, double x)
{
  tensor_set(call_out(c, i), 0, value_float(x));
}

/* -- Negative log likelihood: self, target, weight, reduction, ignore_index -------------------- */

typedef struct nll {
  const rush_tensor *x, *target, *weight; /* contiguous; weight may be NULL */
  int64_t n, classes, inner; /* x: [n, classes, inner], target: [n, inner] */
  int64_t ignore;
  double sum, total; /* of the losses, and of the weights */
} nll;

/* Sum the losses, or store each in `each`. */
static rush_status nll_run(call_ctx *cx, nll *l, rush_tensor *each)
{
  for (int64_t i = 0; i < l->n * l->inner; i++) {
    TRY(call_poll_at(cx, i));
    const int64_t t = int_at(l->target, i);
    double loss = 0;
    if (t != l->ignore) {
      if (t < 0 || t >= l->classes)
        return call_fail_type(cx, "IndexError", "Target %lld is out of bounds.", (long long)t);
      const double w = l->weight ? nn_number_at(l->weight, t) : 1.0;
      const int64_t at = (i / l->inner * l->classes + t) * l->inner + i % l->inner;
      loss = -any_at(l->x, at) * w;
      l->sum += loss;
      l->total += w;
    }
    if (each)
      nn_set_number(each, i, loss);
  }
  return RUSH_OK;
}

rush_status kernel_nll_loss(rush_call *c)
{
  rush_tensor *x = call_tensor(c, 0), *weight = call_tensor(c, 2), *each = NULL;
  const int64_t reduction = call_int(c, 3);
  work w = work_begin(c);
  TRY(nn_check_float(c->cx, "nll_loss_out_frame", x->dtype));
  if (weight && weight->dtype != x->dtype)
    return call_fail(c->cx, "expected scalar type %s but found %s", dtype_aten_name(x->dtype),
                     dtype_aten_name(weight->dtype));
  nll l = {.x = work_rows(&w, x, x->dtype), /* 16-bit floats stay: few are read */
           .target = read_targets(&w, call_tensor(c, 1), true),
           .weight = work_input(&w, weight),
           .n = x->n_dims > 1 ? x->sizes[0] : 1,
           .classes = x->sizes[x->n_dims > 1],
           .inner = 1,
           .ignore = call_int(c, 4)};
  for (int d = 2; d < x->n_dims; d++)
    l.inner *= x->sizes[d];
  if (reduction == REDUCE_NONE && x->n_dims > 1)
    each = work_output(&w, 0, nn_dtype(x->dtype));
  WORK_DO(&w, nll_run(c->cx, &l, each));
  if (!each)
    set_result(c, 0, reduction == REDUCE_MEAN ? l.sum / l.total : l.sum);
  if (c->n_results > 1)
    set_result(c, 1, each ? 0 : l.total);
  return work_end(&w);
}

/* -- Margins ----------------------------------------------------------------------------------- */

typedef struct margins {
  const rush_tensor *x, *target, *weight; /* contiguous; weight may be NULL */
  int64_t n, classes;
  double p, margin;
} margins;

static margins read_margins(work *w, rush_tensor *weight)
{
  rush_tensor *x = call_tensor(w->call, 0);
  return (margins){.x = work_rows(w, x, x->dtype),
                   .target = read_targets(w, call_tensor(w->call, 1), false),
                   .weight = work_input(w, weight),
                   .n = x->n_dims == 2 ? x->sizes[0] : 1,
                   .classes = x->n_dims ? x->sizes[x->n_dims - 1] : 1};
}

static rush_status multi_margin_row(call_ctx *cx, const margins *m, int64_t row, double *loss)
{
  const int64_t t = int_at(m->target, row), at = row * m->classes;
  double sum = 0;
  if (t < 0 || t >= m->classes)
    return call_fail(cx, "target out of range");
  for (int64_t k = 0; k < m->classes; k++) {
    TRY(call_poll_at(cx, k));
    const double z = m->margin - nn_number_at(m->x, at + t) + nn_number_at(m->x, at + k);
    if (k != t && z > 0)
      sum += (m->p == 1 ? z : z * z) * (m->weight ? nn_number_at(m->weight, t) : 1.0);
  }
  *loss = sum / (double)m->classes;
  return RUSH_OK;
}

/* True if class k is among the targets of a row, which end at the first negative one. */
static bool is_target(const margins *m, int64_t row, int64_t k)
{
  for (int64_t i = 0; i < m->classes && int_at(m->target, row * m->classes + i) >= 0; i++)
    if (int_at(m->target, row * m->classes + i) == k)
      return true;
  return false;
}

static rush_status multilabel_row(call_ctx *cx, const margins *m, int64_t row, double *loss)
{
  const int64_t at = row * m->classes;
  double sum = 0;
  for (int64_t i = 0; i < m->classes && int_at(m->target, at + i) >= 0; i++) {
    const int64_t t = int_at(m->target, at + i);
    if (t >= m->classes)
      return call_fail(cx, "argument #2 'target' is out of range");
    for (int64_t k = 0; k < m->classes; k++) {
      if ((k & 63) == 63)
        TRY(call_poll(cx));
      const double z = 1 - nn_number_at(m->x, at + t) + nn_number_at(m->x, at + k);
      if (z > 0 && !is_target(m, row, k))
        sum += z;
    }
  }
  *loss = sum / (double)m->classes;
  return RUSH_OK;
}

typedef rush_status margin_row(call_ctx *cx, const margins *m, int64_t row, double *loss);

/* Reduce every row's loss to result 0. */
static void margins_run(work *w, const margins *m, int64_t reduction, margin_row *fn)
{
  rush_tensor *out = call_out(w->call, 0);
  double sum = 0, loss = 0;
  for (int64_t row = 0; row < m->n && w->st == RUSH_OK && !call_over_at(w->cx, row); row++) {
    WORK_DO(w, fn(w->cx, m, row, &loss));
    if (w->st == RUSH_OK && reduction == REDUCE_NONE)
      nn_set_number(out, row, loss);
    sum += loss;
  }
  if (w->st == RUSH_OK && reduction != REDUCE_NONE)
    set_result(w->call, 0, reduction == REDUCE_MEAN ? sum / (double)m->n : sum);
}

static rush_status check_margins(rush_call *c, const char *kernel)
{
  const int dtype = call_tensor(c, 0)->dtype;
  return dtype == RUSH_FLOAT32 || dtype == RUSH_FLOAT64 ? RUSH_OK
                                                        : call_no_dtype(c->cx, kernel, dtype);
}

/* self, target, p, margin, weight, reduction */
rush_status kernel_multi_margin_loss(rush_call *c)
{
  const double p = call_float(c, 2);
  TRY(check_margins(c, "multi_margin_loss_cpu_kernel"));
  if (p != 1 && p != 2)
    return call_fail(c->cx, "only p == 1 and p == 2 supported");
  work w = work_begin(c);
  margins m = read_margins(&w, call_tensor(c, 4));
  m.p = p;
  m.margin = call_float(c, 3);
  margins_run(&w, &m, call_int(c, 5), multi_margin_row);
  return work_end(&w);
}

/* self, target, reduction: the loss, and (forward) which classes are targets */
rush_status kernel_multilabel_margin_loss(rush_call *c)
{
  TRY(check_margins(c, "multilabel_margin_loss_forward_out_frame"));
  work w = work_begin(c);
  const margins m = read_margins(&w, NULL);
  margins_run(&w, &m, call_int(c, 2), multilabel_row);
  for (int64_t i = 0; w.st == RUSH_OK && c->n_results > 1 && i < m.x->n_elems; i++) {
    if ((i & 63) == 63 && call_over(c->cx))
      break;
    nn_set_number(call_out(c, 1), i, is_target(&m, i / m.classes, i % m.classes) ? 1 : 0);
  }
  return work_end(&w);
}

/* -- Connectionist temporal classification ----------------------------------------------------- */

typedef struct ctc {
  call_ctx *cx;
  rush_tensor *logs, *targets, *in_lengths, *target_lengths; /* logs: [steps, batch, labels] */
  rush_tensor *loss, *alpha; /* alpha: [batch, steps, states] */
  int64_t steps, batch, labels, states, blank;
  rush_tensor *grad, *loss_in, *alpha_in, *made; /* the way back */
  bool zero_infinity;
} ctc;

/* Return an int[] or a tensor of integers as int64. */
static rush_tensor *read_lengths(work *w, uint32_t at, int64_t n, const char *what)
{
  const rush_list *l = call_list(w->call, at);
  rush_tensor *t = call_tensor(w->call, at);
  if (t && dtype_class_of(t->dtype) != DTYPE_INT)
    WORK_DO(w, call_fail(w->cx, "%s must be integral", what));
  if (t ? t->n_dims != 1 || t->n_elems != n : l->n != (size_t)n)
    WORK_DO(w, call_fail(w->cx, "%s must be of size batch_size", what));
  if (t)
    return work_rows(w, t, RUSH_INT64);
  t = work_new(w, RUSH_INT64, 1, &n);
  for (int64_t i = 0; i < n && w->st == RUSH_OK; i++)
    ((int64_t *)t->data)[i] = l->items[i].as.i;
  return t;
}

static double log_add(double a, double b)
{
  const double high = a > b ? a : b, low = a > b ? b : a;
  return high == -(double)INFINITY ? high : high + log1p(exp(low - high));
}

/* Return the label of a state: there are blanks between all targets. */
static int64_t label_of(const ctc *j, int64_t first, int64_t state)
{
  return state % 2 ? int_at(j->targets, first + state / 2) : j->blank;
}

/* Process one sequence: alpha[t][s], the probability of all paths that are in state s at step t. */
static void ctc_sequence(ctc *j, int64_t b, int64_t first)
{
  const int64_t steps = int_at(j->in_lengths, b), n = int_at(j->target_lengths, b),
                row = b * j->steps * j->states;
  const double none = -(double)INFINITY;
  for (int64_t t = 0; t < steps; t++) {
    if ((t & 63) == 63 && call_over(j->cx))
      return;
    const int64_t at = row + t * j->states, logs = (t * j->batch + b) * j->labels;
    for (int64_t s = 0; s < 2 * n + 1; s++) {
      double a = t == 0 ? s <= 1 ? 0.0 : none : nn_number_at(j->alpha, at - j->states + s);
      const int64_t label = label_of(j, first, s);
      if (t > 0 && s > 0)
        a = log_add(a, nn_number_at(j->alpha, at - j->states + s - 1));
      if (t > 0 && s > 1 && label_of(j, first, s - 2) != label)
        a = log_add(a, nn_number_at(j->alpha, at - j->states + s - 2));
      nn_set_number(j->alpha, at + s, a + nn_number_at(j->logs, logs + label));
    }
  }
  double total = n == 0 ? 0.0 : none;
  if (steps > 0) {
    const int64_t at = row + (steps - 1) * j->states;
    total = nn_number_at(j->alpha, at + 2 * n);
    if (n > 0)
      total = log_add(total, nn_number_at(j->alpha, at + 2 * n - 1));
  }
  nn_set_number(j->loss, b, -total);
}

/* Run all sequences; their targets are rows of a matrix, or one after the other. */
static rush_status ctc_run(ctc *j, bool is_flat, void (*sequence)(ctc *j, int64_t b, int64_t first))
{
  int64_t first = 0;
  const int64_t width = is_flat ? 0 : j->targets->sizes[1];
  for (int64_t b = 0; b < j->batch; b++) {
    const int64_t steps = int_at(j->in_lengths, b), n = int_at(j->target_lengths, b);
    if (steps < 0 || steps > j->steps)
      return call_fail(j->cx,
                       "Expected input_lengths to have value at most %lld, but got value %lld",
                       (long long)j->steps, (long long)steps);
    if (n < 0 || (is_flat ? first + n > j->targets->n_elems : n > width))
      return call_fail(
        j->cx, "Expected tensor to have size at least %lld at dimension %d, but got size %lld",
        (long long)n, is_flat ? 0 : 1, (long long)(is_flat ? j->targets->n_elems : width));
    for (int64_t i = 0; i < n; i++)
      if (int_at(j->targets, first + i) < 0 || int_at(j->targets, first + i) >= j->labels)
        return call_fail(j->cx, "targets must be labels below %lld", (long long)j->labels);
    TRY(call_poll(j->cx));
    sequence(j, b, first);
    first += is_flat ? n : width;
  }
  return RUSH_OK;
}

/* Check log_probs, argument `at`, and the targets and lengths after it. */
static rush_status check_ctc(rush_call *c, uint32_t at, int64_t blank)
{
  const rush_tensor *logs = call_tensor(c, at), *targets = call_tensor(c, at + 1);
  if (logs->n_dims != 3)
    return call_fail(c->cx, "ctc_loss: expected log_probs of 3 dimensions, got %d", logs->n_dims);
  if (targets->n_dims != 1 && targets->n_dims != 2)
    return call_fail(c->cx, "ctc_loss: expected targets of 1 or 2 dimensions, got %d",
                     targets->n_dims);
  TRY(nn_check_float(c->cx, "ctc_loss_cpu", logs->dtype));
  if (blank < 0 || blank >= logs->sizes[2])
    return call_fail(c->cx, "blank must be in label range");
  if (targets->n_dims == 2 && targets->sizes[0] != logs->sizes[1])
    return call_fail(c->cx, "Expected tensor to have size %lld at dimension 0, but got size %lld",
                     (long long)logs->sizes[1], (long long)targets->sizes[0]);
  return RUSH_OK;
}

/* Return the number of states: one between and around all labels of the longest target. */
static rush_status count_states(const ctc *j, int64_t *states)
{
  int64_t longest = 0, total = 0;
  for (int64_t b = 0; b < j->batch; b++) {
    longest = i64_max(longest, int_at(j->target_lengths, b));
    total += i64_max(0, i64_min(int_at(j->target_lengths, b), INT32_MAX));
  }
  if (j->targets->n_dims == 1 && total != j->targets->n_elems)
    return call_fail(j->cx,
                     "Expected tensor to have size %lld at dimension 0, but got size %lld for "
                     "argument #2 'targets' (while checking arguments for "
                     "ctc_loss_allocate_outputs)",
                     (long long)total, (long long)j->targets->n_elems);
  if (longest > INT32_MAX)
    return call_fail(j->cx, "ctc_loss: a target of %lld labels", (long long)longest);
  *states = 2 * longest + 1;
  return RUSH_OK;
}

static ctc ctc_begin(work *w, uint32_t at, int64_t blank)
{
  rush_tensor *logs = call_tensor(w->call, at), *targets = call_tensor(w->call, at + 1);
  ctc j = {.cx = w->cx, .blank = blank};
  WORK_DO(w, check_ctc(w->call, at, blank));
  if (w->st != RUSH_OK)
    return j;
  j.steps = logs->sizes[0];
  j.batch = logs->sizes[1];
  j.labels = logs->sizes[2];
  j.in_lengths = read_lengths(w, at + 2, j.batch, "input_lengths");
  j.target_lengths = read_lengths(w, at + 3, j.batch, "target_lengths");
  j.targets = targets->dtype == RUSH_INT32 ? work_rows(w, targets, RUSH_INT64)
                                           : read_targets(w, targets, false);
  j.logs = work_input(w, logs);
  WORK_DO(w, count_states(&j, &j.states));
  const int64_t sizes[3] = {j.batch, j.steps, j.states};
  j.loss = work_new(w, j.logs->dtype, 1, &j.batch);
  j.alpha = work_new(w, j.logs->dtype, 3, sizes);
  WORK_DO(w, tensor_fill(w->cx, j.alpha, value_float(-(double)INFINITY)));
  return j;
}

/* log_probs, targets, input_lengths, target_lengths, blank, zero_infinity */
rush_status kernel__ctc_loss(rush_call *c)
{
  work w = work_begin(c);
  ctc j = ctc_begin(&w, 0, call_int(c, 4));
  WORK_DO(&w, ctc_run(&j, call_tensor(c, 1)->n_dims == 1, ctc_sequence));
  work_return(&w, 0, j.loss, call_tensor(c, 0)->dtype);
  work_return(&w, 1, j.alpha, call_tensor(c, 0)->dtype);
  return work_end(&w);
}

/* Compute the slopes of one step: the share of all paths through a label in the total, against its
 * probability. */
static void ctc_step_back(const ctc *j, int64_t b, int64_t first, int64_t t)
{
  const int64_t n = int_at(j->target_lengths, b), at = (b * j->steps + t) * j->states;
  const int64_t logs = (t * j->batch + b) * j->labels;
  const double by = nn_number_at(j->grad, b), loss = nn_number_at(j->loss_in, b);
  for (int64_t s = 0; s < 2 * n + 1; s++) {
    const int64_t to = logs + label_of(j, first, s);
    nn_set_number(j->made, to,
               log_add(nn_number_at(j->made, to),
                       nn_number_at(j->alpha_in, at + s) + nn_number_at(j->alpha, at + s)));
  }
  for (int64_t l = logs; l < logs + j->labels; l++) {
    const double p = nn_number_at(j->logs, l);
    nn_set_number(j->made, l, (exp(p) - exp(nn_number_at(j->made, l) + loss - p)) * by);
  }
}

/* Process one sequence backwards: alpha becomes beta[t][s], the probability of all ends of paths
 * that are in state s at step t. */
static void ctc_sequence_back(ctc *j, int64_t b, int64_t first)
{
  const int64_t steps = int_at(j->in_lengths, b), n = int_at(j->target_lengths, b),
                row = b * j->steps * j->states;
  const double none = -(double)INFINITY;
  for (int64_t t = j->steps - 1; t >= 0; t--) {
    const int64_t at = row + t * j->states, logs = (t * j->batch + b) * j->labels;
    const bool ends = t == steps - 1;
    if ((t & 63) == 63 && call_over(j->cx))
      return;
    if (t >= steps || (j->zero_infinity && nn_number_at(j->loss_in, b) == (double)INFINITY)) {
      for (int64_t l = logs; l < logs + j->labels; l++)
        nn_set_number(j->made, l, 0);
      continue;
    }
    for (int64_t s = 2 * n; s >= 0; s--) {
      double a = ends ? s >= 2 * n - 1 ? 0.0 : none : nn_number_at(j->alpha, at + j->states + s);
      const int64_t label = label_of(j, first, s);
      if (!ends && s < 2 * n)
        a = log_add(a, nn_number_at(j->alpha, at + j->states + s + 1));
      if (!ends && s < 2 * n - 1 && label_of(j, first, s + 2) != label)
        a = log_add(a, nn_number_at(j->alpha, at + j->states + s + 2));
      nn_set_number(j->alpha, at + s, a + nn_number_at(j->logs, logs + label));
    }
    ctc_step_back(j, b, first, t);
  }
}

/* grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank,
 * zero_infinity */
rush_status kernel__ctc_loss_backward(rush_call *c)
{
  work w = work_begin(c);
  ctc j = ctc_begin(&w, 1, call_int(c, 7));
  rush_tensor *in[3] = {work_input(&w, call_tensor(c, 0)), work_input(&w, call_tensor(c, 5)),
                        work_input(&w, call_tensor(c, 6))};
  for (int i = 0; i < 3 && w.st == RUSH_OK; i++)
    if (in[i]->dtype != j.logs->dtype || in[i]->n_elems < (i < 2 ? j.batch : j.alpha->n_elems))
      w.st = call_fail(c->cx, "ctc_loss backward: the arguments do not belong together");
  if (w.st == RUSH_OK) {
    j.zero_infinity = call_bool(c, 8);
    j.grad = in[0];
    j.loss_in = in[1];
    j.alpha_in = in[2];
    j.made = work_output(&w, 0, j.logs->dtype);
    WORK_DO(&w, tensor_fill(c->cx, j.made, value_float(-(double)INFINITY)));
    WORK_DO(&w, ctc_run(&j, call_tensor(c, 2)->n_dims == 1, ctc_sequence_back));
  }
  return work_end(&w);
}
