/* ops/kernels/nn/loss.c -- losses over classes: negative log likelihood, the margin losses, and
 * connectionist temporal classification with its gradient. They are loops over contiguous tensors
 * that accumulate in double. CTC is the forward-backward algorithm of Graves et al. in logarithms,
 * O(steps * states) per sequence, where a sequence of n targets has 2n + 1 states; alpha is kept
 * because its gradient needs it. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/views.h"

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

/* Convert class indices to int64: Long, or Byte as PyTorch accepts it. */
static rush_status read_targets(call_ctx *cx, rush_tensor *t, bool takes_bytes, rush_tensor **out)
{
  rush_tensor *as = NULL;
  if (t->dtype != RUSH_INT64 && !(takes_bytes && t->dtype == RUSH_UINT8))
    return takes_bytes
             ? call_fail(cx, "expected target dtype to be Long or Byte, but got %s",
                         dtype_aten_name(t->dtype))
             : call_fail(cx, "expected scalar type Long but found %s", dtype_aten_name(t->dtype));
  TRY(tensor_to_dtype(cx, t, RUSH_INT64, &as));
  rush_status st = tensor_contiguous(cx, as, out);
  tensor_release(as);
  return st;
}

/* Return a scalar as result `i`. */
static rush_status return_number(rush_call *c, uint32_t i, double x, int dtype)
{
  rush_tensor *t;
  TRY(tensor_from_scalar(c->cx, value_float(x), dtype, &t));
  call_return_steal(c, i, t);
  return RUSH_OK;
}

/* -- Negative log likelihood: self, target, weight, reduction, ignore_index -------------------- */

typedef struct nll {
  rush_tensor *x, *target, *weight; /* owned, contiguous; weight may be NULL */
  int64_t n, classes, inner;        /* x: [n, classes, inner], target: [n, inner] */
  int64_t reduction, ignore;
  int dtype;
  double sum, total; /* of the losses, and of the weights */
} nll;

static void nll_end(nll *l)
{
  tensor_release(l->x);
  tensor_release(l->target);
  tensor_release(l->weight);
}

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

static rush_status nll_return(rush_call *c, nll *l, int n_dims, const int64_t *sizes)
{
  if (l->reduction == REDUCE_NONE && n_dims >= 0) {
    rush_tensor *each;
    TRY(tensor_new(c->cx, l->x->dtype == RUSH_FLOAT64 ? RUSH_FLOAT64 : RUSH_FLOAT32, n_dims, sizes,
                   &each));
    rush_status st = nll_run(c->cx, l, each);
    if (st != RUSH_OK) {
      tensor_release(each);
      return st;
    }
    TRY(nn_return_steal(c, 0, each, l->dtype, NULL));
    l->total = 0;
  } else {
    TRY(nll_run(c->cx, l, NULL));
    TRY(return_number(c, 0, l->reduction == REDUCE_MEAN ? l->sum / l->total : l->sum, l->dtype));
  }
  return c->n_results > 1 ? return_number(c, 1, l->total, l->dtype) : RUSH_OK;
}

/* Compute the loss; n_dims < 0: one number even without a reduction. */
static rush_status nll_compute(rush_call *c, nll *l, int n_dims, const int64_t *sizes)
{
  rush_tensor *x = call_tensor(c, 0), *weight = call_tensor(c, 2);
  l->reduction = call_int(c, 3);
  l->ignore = call_int(c, 4);
  l->dtype = x->dtype;
  rush_status st = nn_check_float(c->cx, "nll_loss_out_frame", x->dtype);
  if (st == RUSH_OK && weight && weight->dtype != x->dtype)
    st = call_fail(c->cx, "expected scalar type %s but found %s", dtype_aten_name(x->dtype),
                   dtype_aten_name(weight->dtype));
  if (st == RUSH_OK)
    st = read_targets(c->cx, call_tensor(c, 1), true, &l->target);
  if (st == RUSH_OK)
    st = tensor_contiguous(c->cx, x, &l->x); /* 16-bit floats stay: few are read */
  if (st == RUSH_OK && weight)
    st = nn_input(c->cx, weight, &l->weight);
  if (st == RUSH_OK)
    st = nll_return(c, l, n_dims, sizes);
  nll_end(l);
  return st;
}

rush_status kernel_nll_loss(rush_call *c)
{
  const rush_tensor *x = call_tensor(c, 0), *target = call_tensor(c, 1),
                    *weight = call_tensor(c, 2);
  sizes_text a, b;
  if (x->n_dims != 1 && x->n_dims != 2)
    return call_fail(c->cx, "input tensor should be 1D or 2D");
  if (target->n_dims > 1)
    return call_fail(c->cx, "0D or 1D target tensor expected, multi-target not supported");
  if (!(x->n_dims == 1 && target->n_dims == 0) &&
      (target->n_dims == 0 || x->sizes[0] != target->sizes[0]))
    return call_fail(c->cx, "size mismatch (got input: %s, target: %s)",
                     sizes_print(&a, x->n_dims, x->sizes),
                     sizes_print(&b, target->n_dims, target->sizes));
  nll l = {.n = x->n_dims == 2 ? x->sizes[0] : 1, .classes = x->sizes[x->n_dims - 1], .inner = 1};
  if (weight && (weight->n_dims != 1 || weight->n_elems != l.classes))
    return call_fail(c->cx,
                     "weight tensor should be defined either for all %lld classes or no classes "
                     "but got weight tensor "
                     "of shape: %s",
                     (long long)l.classes, sizes_print(&a, weight->n_dims, weight->sizes));
  return nll_compute(c, &l, x->n_dims == 2 ? 1 : -1, target->sizes);
}

rush_status kernel_nll_loss2d(rush_call *c)
{
  const rush_tensor *x = call_tensor(c, 0), *target = call_tensor(c, 1),
                    *weight = call_tensor(c, 2);
  sizes_text a, b;
  if (target->n_dims != 3)
    return call_fail(
      c->cx,
      "only batches of spatial targets supported (3D tensors) but got targets of dimension: %d",
      target->n_dims);
  if (x->n_dims != 4)
    return call_fail(
      c->cx,
      "only batches of spatial inputs supported (4D tensors), but got input of dimension: %d",
      x->n_dims);
  if (weight && weight->n_elems != x->sizes[1])
    return call_fail(c->cx, "weight tensor should be defined either for all or no classes");
  if (x->sizes[0] != target->sizes[0] || x->sizes[2] != target->sizes[1] ||
      x->sizes[3] != target->sizes[2])
    return call_fail(c->cx, "size mismatch (got input: %s , target: %s",
                     sizes_print(&a, x->n_dims, x->sizes),
                     sizes_print(&b, target->n_dims, target->sizes));
  nll l = {.n = x->sizes[0], .classes = x->sizes[1], .inner = x->sizes[2] * x->sizes[3]};
  return nll_compute(c, &l, 3, target->sizes);
}

rush_status kernel_nll_loss_nd(rush_call *c)
{
  const rush_tensor *x = call_tensor(c, 0), *target = call_tensor(c, 1),
                    *weight = call_tensor(c, 2);
  sizes_text a, b;
  if (x->n_dims < 1)
    return call_fail_type(c->cx, "ValueError", "Expected 1 or more dimensions (got %d)", x->n_dims);
  if (x->n_dims != 1 && (target->n_dims == 0 || x->sizes[0] != target->sizes[0]))
    return call_fail_type(
      c->cx, "ValueError", "Expected input batch_size (%lld) to match target batch_size (%lld).",
      (long long)x->sizes[0], (long long)(target->n_dims ? target->sizes[0] : 0));
  if (x->n_dims <= 2)
    return kernel_nll_loss(c);
  if (x->n_dims == 4)
    return kernel_nll_loss2d(c);
  int64_t sizes[TENSOR_MAX_DIMS], inner = 1;
  sizes[0] = x->sizes[0];
  for (int d = 2; d < x->n_dims; d++)
    inner *= sizes[d - 1] = x->sizes[d];
  if (target->n_dims != x->n_dims - 1 ||
      memcmp(sizes, target->sizes, sizeof *sizes * target->n_dims) != 0)
    return call_fail(c->cx, "Expected target size %s, got %s",
                     sizes_print(&a, x->n_dims - 1, sizes),
                     sizes_print(&b, target->n_dims, target->sizes));
  if (weight && weight->n_elems != x->sizes[1])
    return call_fail(c->cx, "weight tensor should be defined either for all or no classes");
  nll l = {.n = x->sizes[0], .classes = x->sizes[1], .inner = inner};
  return nll_compute(c, &l, target->n_dims, target->sizes);
}

/* -- Margins ----------------------------------------------------------------------------------- */

typedef struct margins {
  rush_tensor *x, *target, *weight; /* owned, contiguous */
  int64_t n, classes;
  double p, margin;
} margins;

static rush_status margins_begin(rush_call *c, margins *m, rush_tensor *weight, const char *kernel)
{
  rush_tensor *x = call_tensor(c, 0);
  if (x->dtype != RUSH_FLOAT32 && x->dtype != RUSH_FLOAT64)
    return call_no_dtype(c->cx, kernel, x->dtype);
  if (x->n_dims > 2 || (x->n_dims == 2 && x->sizes[1] == 0) ||
      (x->n_dims == 1 && x->sizes[0] == 0)) {
    sizes_text a;
    return call_fail(
      c->cx, "Expected non-empty vector or matrix with optional 0-dim batch size, but got: %s",
      sizes_print(&a, x->n_dims, x->sizes));
  }
  m->n = x->n_dims == 2 ? x->sizes[0] : 1;
  m->classes = x->n_dims ? x->sizes[x->n_dims - 1] : 1;
  TRY(read_targets(c->cx, call_tensor(c, 1), false, &m->target));
  TRY(nn_input(c->cx, x, &m->x));
  return weight ? nn_input(c->cx, weight, &m->weight) : RUSH_OK;
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

/* Compute every row's loss, reduced, as result 0. */
static rush_status margins_return(rush_call *c, const margins *m, int64_t reduction, margin_row *fn)
{
  const rush_tensor *x = call_tensor(c, 0);
  rush_tensor *each = NULL;
  double sum = 0, loss = 0;
  const bool keeps = reduction == REDUCE_NONE;
  const bool is_vector =
    x->n_dims == 2 || (fn == multi_margin_row && call_tensor(c, 1)->n_dims == 1);
  TRY(tensor_new(c->cx, m->x->dtype, is_vector ? 1 : 0, &m->n, &each));
  rush_status st = RUSH_OK;
  for (int64_t row = 0; row < m->n && st == RUSH_OK && !call_over_at(c->cx, row); row++) {
    st = fn(c->cx, m, row, &loss);
    if (st == RUSH_OK && keeps)
      nn_set_number(each, row, loss);
    sum += st == RUSH_OK ? loss : 0;
  }
  if (st == RUSH_OK && keeps)
    return nn_return_steal(c, 0, each, x->dtype, NULL);
  tensor_release(each);
  return st == RUSH_OK
           ? return_number(c, 0, reduction == REDUCE_MEAN ? sum / (double)m->n : sum, x->dtype)
           : st;
}

/* self, target, p, margin, weight, reduction */
rush_status kernel_multi_margin_loss(rush_call *c)
{
  const rush_tensor *x = call_tensor(c, 0), *target = call_tensor(c, 1),
                    *weight = call_tensor(c, 4);
  margins m = {.p = call_float(c, 2), .margin = call_float(c, 3)};
  sizes_text a, b;
  if (m.p != 1 && m.p != 2)
    return call_fail(c->cx, "only p == 1 and p == 2 supported");
  rush_status st = margins_begin(c, &m, call_tensor(c, 4), "multi_margin_loss_cpu_kernel");
  if (st == RUSH_OK && (target->n_dims > 1 || target->n_elems != m.n))
    st = call_fail(c->cx,
                   "multi_margin_loss: target tensor should be 1-D with size equal to the number "
                   "of input samples (batch "
                   "size). Expected target size [%lld], but got %s. Input has shape %s.",
                   (long long)m.n, sizes_print(&a, target->n_dims, target->sizes),
                   sizes_print(&b, x->n_dims, x->sizes));
  if (st == RUSH_OK && weight && (weight->n_dims > 1 || weight->n_elems != m.classes))
    st = call_fail(c->cx, "inconsistent weight size, expected %lld but got %s",
                   (long long)m.classes, sizes_print(&a, weight->n_dims, weight->sizes));
  if (st == RUSH_OK)
    st = margins_return(c, &m, call_int(c, 5), multi_margin_row);
  tensor_release(m.x);
  tensor_release(m.target);
  tensor_release(m.weight);
  return st;
}

/* self, target, reduction: the loss, and (forward) which classes are targets */
rush_status kernel_multilabel_margin_loss(rush_call *c)
{
  const rush_tensor *x = call_tensor(c, 0), *target = call_tensor(c, 1);
  margins m = {0};
  sizes_text a, b;
  rush_tensor *marks;
  rush_status st = margins_begin(c, &m, NULL, "multilabel_margin_loss_forward_out_frame");
  if (st == RUSH_OK && (x->n_dims != target->n_dims || x->n_elems != target->n_elems))
    st = call_fail(c->cx, "inconsistent target size: %s for input of size: %s",
                   sizes_print(&a, target->n_dims, target->sizes),
                   sizes_print(&b, x->n_dims, x->sizes));
  if (st == RUSH_OK)
    st = margins_return(c, &m, call_int(c, 2), multilabel_row);
  if (st == RUSH_OK && c->n_results > 1) {
    st = tensor_new(c->cx, m.x->dtype, x->n_dims, x->sizes, &marks);
    for (int64_t i = 0; st == RUSH_OK && i < x->n_elems && !((i & 63) == 63 && call_over(c->cx));
         i++)
      nn_set_number(marks, i, is_target(&m, i / m.classes, i % m.classes) ? 1 : 0);
    if (st == RUSH_OK)
      st = nn_return_steal(c, 1, marks, x->dtype, NULL);
  }
  tensor_release(m.x);
  tensor_release(m.target);
  return st;
}

/* -- Connectionist temporal classification ----------------------------------------------------- */

typedef struct ctc {
  call_ctx *cx;
  rush_tensor *logs, *targets, *in_lengths,
    *target_lengths;         /* owned; logs [steps, batch, labels] */
  rush_tensor *loss, *alpha; /* owned; alpha [batch, steps, states] */
  int64_t steps, batch, labels, states, blank;
  rush_tensor *grad, *loss_in, *alpha_in, *made;             /* the way back: borrowed */
  bool zero_infinity;
} ctc;

static void ctc_end(ctc *j)
{
  rush_tensor *all[] = {j->logs, j->targets, j->in_lengths, j->target_lengths, j->loss, j->alpha};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    tensor_release(all[i]);
}

/* Convert an int[] or a tensor of integers to int64. */
static rush_status read_lengths(rush_call *c, uint32_t at, int64_t n, const char *what,
                                rush_tensor **out)
{
  const rush_list *l = call_list(c, at);
  rush_tensor *t = call_tensor(c, at);
  if (t && dtype_class_of(t->dtype) != DTYPE_INT)
    return call_fail(c->cx, "%s must be integral", what);
  if (t ? t->n_dims != 1 || t->n_elems != n : l->n != (size_t)n)
    return call_fail(c->cx, "%s must be of size batch_size", what);
  if (t)
    return tensor_to_dtype(c->cx, t, RUSH_INT64, out);
  TRY(tensor_new(c->cx, RUSH_INT64, 1, &n, out));
  for (int64_t i = 0; i < n; i++)
    ((int64_t *)(*out)->data)[i] = l->items[i].as.i;
  return RUSH_OK;
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

/* Read arguments: log_probs is argument `at`; targets and the lengths follow. */
static rush_status ctc_begin(rush_call *c, uint32_t at, int64_t blank, ctc *j)
{
  rush_tensor *logs = call_tensor(c, at), *targets = call_tensor(c, at + 1);
  if (logs->n_dims != 3)
    return call_fail(c->cx, "ctc_loss: expected log_probs of 3 dimensions, got %d", logs->n_dims);
  if (targets->n_dims != 1 && targets->n_dims != 2)
    return call_fail(c->cx, "ctc_loss: expected targets of 1 or 2 dimensions, got %d",
                     targets->n_dims);
  TRY(nn_check_float(c->cx, "ctc_loss_cpu", logs->dtype));
  j->steps = logs->sizes[0];
  j->batch = logs->sizes[1];
  j->labels = logs->sizes[2];
  j->blank = blank;
  if (j->blank < 0 || j->blank >= j->labels)
    return call_fail(c->cx, "blank must be in label range");
  if (targets->n_dims == 2 && targets->sizes[0] != j->batch)
    return call_fail(c->cx, "Expected tensor to have size %lld at dimension 0, but got size %lld",
                     (long long)j->batch, (long long)targets->sizes[0]);
  TRY(read_lengths(c, at + 2, j->batch, "input_lengths", &j->in_lengths));
  TRY(read_lengths(c, at + 3, j->batch, "target_lengths", &j->target_lengths));
  if (targets->dtype != RUSH_INT32)
    TRY(read_targets(c->cx, targets, false, &j->targets));
  else
    TRY(tensor_to_dtype(c->cx, targets, RUSH_INT64, &j->targets));
  TRY(nn_input(c->cx, logs, &j->logs));
  int64_t longest = 0, total = 0;
  for (int64_t b = 0; b < j->batch; b++) {
    longest = i64_max(longest, int_at(j->target_lengths, b));
    total += i64_max(0, i64_min(int_at(j->target_lengths, b), INT32_MAX));
  }
  if (targets->n_dims == 1 && total != targets->n_elems)
    return call_fail(c->cx,
                     "Expected tensor to have size %lld at dimension 0, but got size %lld for "
                     "argument #2 'targets' "
                     "(while checking arguments for ctc_loss_allocate_outputs)",
                     (long long)total, (long long)targets->n_elems);
  if (longest > INT32_MAX)
    return call_fail(c->cx, "ctc_loss: a target of %lld labels", (long long)longest);
  j->states = 2 * longest + 1;
  const int64_t sizes[3] = {j->batch, j->steps, j->states};
  TRY(tensor_new(c->cx, j->logs->dtype, 1, &j->batch, &j->loss));
  TRY(tensor_new(c->cx, j->logs->dtype, 3, sizes, &j->alpha));
  return tensor_fill(c->cx, j->alpha, value_float(-(double)INFINITY));
}

/* log_probs, targets, input_lengths, target_lengths, blank, zero_infinity */
rush_status kernel__ctc_loss(rush_call *c)
{
  ctc j = {.cx = c->cx};
  rush_status st = ctc_begin(c, 0, call_int(c, 4), &j);
  if (st == RUSH_OK)
    st = ctc_run(&j, call_tensor(c, 1)->n_dims == 1, ctc_sequence);
  if (st == RUSH_OK) {
    const int dtype = call_tensor(c, 0)->dtype;
    st = nn_return_steal(c, 0, tensor_retain(j.loss), dtype, NULL);
    if (st == RUSH_OK)
      st = nn_return_steal(c, 1, tensor_retain(j.alpha), dtype, NULL);
  }
  ctc_end(&j);
  return st;
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
  ctc j = {.cx = c->cx, .zero_infinity = call_bool(c, 8)};
  rush_tensor *given[3] = {call_tensor(c, 0), call_tensor(c, 5), call_tensor(c, 6)}, *in[3] = {0};
  rush_status st = ctc_begin(c, 1, call_int(c, 7), &j);
  for (int i = 0; i < 3 && st == RUSH_OK; i++)
    st = nn_input(c->cx, given[i], &in[i]);
  for (int i = 0; i < 3 && st == RUSH_OK; i++)
    if (in[i]->dtype != j.logs->dtype || in[i]->n_elems < (i < 2 ? j.batch : j.alpha->n_elems))
      st = call_fail(c->cx, "ctc_loss backward: the arguments do not belong together");
  if (st == RUSH_OK)
    st = tensor_new(c->cx, j.logs->dtype, 3, j.logs->sizes, &j.made);
  if (st == RUSH_OK)
    st = tensor_fill(c->cx, j.made, value_float(-(double)INFINITY));
  if (st == RUSH_OK) {
    j.grad = in[0];
    j.loss_in = in[1];
    j.alpha_in = in[2];
    st = ctc_run(&j, call_tensor(c, 2)->n_dims == 1, ctc_sequence_back);
  }
  if (st == RUSH_OK)
    st = nn_return_steal(c, 0, tensor_retain(j.made), call_tensor(c, 1)->dtype, NULL);
  for (int i = 0; i < 3; i++)
    tensor_release(in[i]);
  tensor_release(j.made);
  ctc_end(&j);
  return st;
}
