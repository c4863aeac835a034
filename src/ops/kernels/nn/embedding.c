/* ops/kernels/nn/embedding.c -- rows of a table by index: embedding, embedding_bag, renorm and
 * one_hot. Indices become contiguous int64 once and are checked before anything is read. Bags are
 * split into tasks and sum their rows in order with the loops of gather_kernel.c; maxima, padding
 * and 16-bit tables use the row-by-row path. PyTorch fills a bag's side results depending on the
 * method it chooses, so `quick` repeats that choice. Cost: O(indices * columns). */
#include <math.h>
#include <string.h>

#include "ops/kernels/nn.h"
#include "ops/kernels/views.h"
#include "ops/kernels/work.h"
#include "ops/math/gather.h"

#define GRAIN_BYTES 65536 /* of a task */

/* -- Indices ----------------------------------------------------------------------------------- */

static rush_status check_index_dtype(call_ctx *cx, const rush_tensor *indices, int number,
                                     const char *of)
{
  if (indices->dtype == RUSH_INT64 || indices->dtype == RUSH_INT32)
    return RUSH_OK;
  return call_fail(cx,
                   "Expected tensor for argument #%d 'indices' to have one of the following scalar "
                   "types: Long, Int; "
                   "but got torch.%sTensor instead (while checking arguments for %s)",
                   number, dtype_aten_name(indices->dtype), of);
}

static rush_status check_range(call_ctx *cx, const rush_tensor *indices, int64_t n_rows)
{
  const int64_t *at = indices->data;
  for (int64_t i = 0; i < indices->n_elems; i++) {
    TRY(call_poll_at(cx, i));
    if (at[i] < 0 || at[i] >= n_rows)
      return call_fail_type(cx, "IndexError", "index out of range in self");
  }
  return RUSH_OK;
}

/* -- embedding --------------------------------------------------------------------------------- */

typedef struct lookup {
  const char *from;
  char *to;
  const int64_t *at;
  int64_t row_stride, col_stride, n_cols; /* strides: bytes */
  size_t item;
} lookup;

static void lookup_rows(void *arg, int64_t begin, int64_t end)
{
  const lookup *l = arg;
  const size_t row = (size_t)l->n_cols * l->item;
  for (int64_t i = begin; i < end; i++) {
    const char *from = l->from + l->at[i] * l->row_stride;
    char *to = l->to + (size_t)i * row;
    if (l->col_stride == (int64_t)l->item)
      memcpy(to, from, row);
    else
      for (int64_t k = 0; k < l->n_cols; k++)
        memcpy(to + (size_t)k * l->item, from + k * l->col_stride, l->item);
  }
}

/* weight, indices, padding_idx, scale_grad_by_freq, sparse */
rush_status kernel_embedding(rush_call *c)
{
  const rush_tensor *weight = call_tensor(c, 0);
  const size_t item = tensor_item_bytes(weight);
  work w = work_begin(c);
  const rush_tensor *indices = work_rows(&w, call_tensor(c, 1), RUSH_INT64);
  WORK_DO(&w, check_range(c->cx, indices, weight->sizes[0]));
  lookup l = {weight->data, call_out(c, 0)->data, indices->data, weight->strides[0] * (int64_t)item,
              weight->strides[1] * (int64_t)item, weight->sizes[1], item};
  work_run(&w, indices->n_elems, 1 + GRAIN_BYTES / (1 + l.n_cols * (int64_t)item), lookup_rows, &l);
  return work_end(&w);
}

static double row_norm(const double *row, int64_t n, double p)
{
  double sum = 0;
  for (int64_t k = 0; k < n; k++) {
    const double x = fabs(row[k]);
    if (isinf(p))
      sum = x > sum || isnan(x) ? x : sum;
    else
      sum += p == 2.0 ? x * x : p == 1.0 ? x : p == 0.0 ? x != 0.0 : pow(x, p);
  }
  return isinf(p) || p == 1.0 || p == 0.0 ? sum : p == 2.0 ? sqrt(sum) : pow(sum, 1.0 / p);
}

/* Scale row `at` of self down to the maximal norm; `row` holds it as doubles meanwhile. */
static rush_status renorm_row(call_ctx *cx, rush_tensor *self, int64_t at, double max_norm,
                              double p, rush_tensor *row)
{
  rush_tensor *view = NULL;
  double *x = row->data;
  TRY(tensor_select(cx, self, 0, at, &view));
  rush_status st = tensor_copy(cx, row, view);
  const double norm = st == RUSH_OK ? row_norm(x, row->n_elems, p) : 0.0;
  if (st == RUSH_OK && norm > max_norm) {
    for (int64_t k = 0; k < row->n_elems; k++)
      x[k] *= max_norm / (norm + 1e-7);
    st = tensor_copy(cx, view, row);
  }
  tensor_release(view);
  return st;
}

static rush_status renorm(rush_call *c, rush_tensor *self)
{
  if (self->n_dims != 2)
    return call_fail(c->cx, "'self' must be 2-D");
  TRY(check_index_dtype(c->cx, call_tensor(c, 1), 2, "embedding_renorm_"));
  TRY(nn_check_float(c->cx, "embedding_renorm_", self->dtype));
  work w = work_begin(c);
  const rush_tensor *indices = work_rows(&w, call_tensor(c, 1), RUSH_INT64);
  rush_tensor *row = work_new(&w, RUSH_FLOAT64, 1, &self->sizes[1]);
  bool *done = work_memory(&w, self->sizes[0], 1);
  WORK_DO(&w, check_range(c->cx, indices, self->sizes[0]));
  for (int64_t i = 0; w.st == RUSH_OK && i < indices->n_elems && !call_over_at(c->cx, i); i++) {
    const int64_t at = ((const int64_t *)indices->data)[i];
    if (!done[at])
      w.st = renorm_row(c->cx, self, at, call_float(c, 2), call_float(c, 3), row);
    done[at] = true;
  }
  return work_end(&w);
}

/* self, indices, max_norm, norm_type */
rush_status kernel_embedding_renorm_(rush_call *c)
{
  TRY(renorm(c, call_tensor(c, 0)));
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}
rush_status kernel_embedding_renorm(rush_call *c)
{
  TRY(tensor_copy(c->cx, call_out(c, 0), call_tensor(c, 0)));
  return renorm(c, call_out(c, 0));
}

/* -- Bags -------------------------------------------------------------------------------------- */

typedef enum bag_mode { BAG_SUM, BAG_MEAN, BAG_MAX } bag_mode;

typedef struct bags {
  call_ctx *cx;
  bag_mode mode;
  gather sum;
  int dtype, wide; /* of weight; of the arithmetic */
  int64_t n_bags, n_indices, n_cols, n_rows, padding; /* padding: -1 for none */
  bool include_last, keeps_size,
    quick; /* quick: where PyTorch takes its fused path, which shows in details */
  rush_tensor *weight, *indices, *offsets, *factors; /* contiguous; factors in `wide` or NULL */
  rush_tensor *out, *offset2bag, *bag_size, *max_at; /* out in `wide` */
} bags;

static rush_status check_offsets(const bags *b)
{
  const int64_t *at = b->offsets->data, n = b->offsets->n_elems;
  if (n > 0 && at[0] != 0)
    return call_fail(
      b->cx,
      "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
      "position 0. However, got %lld",
      (long long)at[0]);
  if (n > 0 && at[n - 1] > b->n_indices)
    return call_fail(
      b->cx, "offsets[-1] can not be greater than input's length %lld but got offsets[-1] of %lld",
      (long long)b->n_indices, (long long)at[n - 1]);
  for (int64_t i = 1; i < n; i++)
    if (at[i] < at[i - 1])
      return call_fail(
        b->cx, "Expected i < index_size to be true, but got false.  (Could this error message be "
               "improved?  If so, please report an enhancement request to PyTorch.)");
  return RUSH_OK;
}

static rush_status check_bag_args(const bags *b, const rush_tensor *weight,
                                  const rush_tensor *indices, const rush_tensor *offsets,
                                  const rush_tensor *factors)
{
  if (indices->n_dims != 1 && indices->n_dims != 2)
    return call_fail(b->cx, "input has to be a 1D or 2D Tensor, but got Tensor of dimension %d",
                     indices->n_dims);
  if (offsets->n_dims != 1)
    return call_fail(b->cx, "offsets has to be a 1D Tensor, but got Tensor of dimension %d",
                     offsets->n_dims);
  if (weight->n_dims != 2)
    return call_fail(b->cx, "weight has to be a 2D Tensor, but got Tensor of dimension %d",
                     weight->n_dims);
  TRY(check_index_dtype(b->cx, indices, 1, "embedding_bag"));
  if (nn_dtype(weight->dtype) != RUSH_FLOAT32 && weight->dtype != RUSH_FLOAT64)
    return call_fail(
      b->cx,
      "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, "
      "BFloat16, Float, Double; but got torch.%sTensor instead (while checking arguments for "
      "embedding_bag)",
      dtype_aten_name(weight->dtype));
  if (b->include_last && offsets->sizes[0] < 1)
    return call_fail(b->cx, "include_last_offset: number of offset should be at least 1");
  if (!factors)
    return RUSH_OK;
  if (b->mode != BAG_SUM)
    return call_fail(b->cx, "embedding_bag: per_sample_weights only supported with mode='sum'");
  if (factors->dtype != weight->dtype)
    return call_fail(
      b->cx,
      "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
      "'per_sample_weights'; but type torch.%sTensor does not equal torch.%sTensor (while checking "
      "arguments for embedding_bag)",
      dtype_aten_name(weight->dtype), dtype_aten_name(factors->dtype));
  if (factors->n_dims != 1 || factors->n_elems != b->n_indices)
    return call_fail(
      b->cx,
      "Expected per_sample_weights.value().numel() == indices.numel() to be true, but got false.  "
      "(Could this error message be improved?  If so, please report an enhancement request to "
      "PyTorch.)");
  return RUSH_OK;
}

static int64_t bag_begin(const bags *b, int64_t bag)
{
  return ((const int64_t *)b->offsets->data)[bag];
}
static int64_t bag_limit(const bags *b, int64_t bag)
{
  return bag + 1 < b->n_bags ? bag_begin(b, bag + 1) : b->n_indices;
}
/* Return the end of a bag.  The last offset of include_last_offset matters only on PyTorch's quick
 * path. */
static int64_t bag_end(const bags *b, int64_t bag)
{
  return b->include_last && b->quick ? bag_begin(b, bag + 1) : bag_limit(b, bag);
}

#define BAG_ROWS(T, F)                                                              \
  static void add_row_##F(int64_t n, T *to, const T *from, T factor)                \
  {                                                                                 \
    for (int64_t k = 0; k < n; k++)                                                 \
      to[k] += factor * from[k];                                                    \
  }                                                                                 \
  static void max_row_##F(int64_t n, T *to, const T *from, int64_t row, bool first, \
                          int64_t *max_at)                                          \
  {                                                                                 \
    for (int64_t k = 0; k < n; k++)                                                 \
      if (first || from[k] > to[k]) {                                               \
        to[k] = from[k];                                                            \
        max_at[k] = row;                                                            \
      }                                                                             \
  }                                                                                 \
  static void divide_row_##F(int64_t n, T *to, int64_t by)                          \
  {                                                                                 \
    for (int64_t k = 0; k < n; k++)                                                 \
      to[k] /= (T)by;                                                               \
  }
BAG_ROWS(float, f32)
BAG_ROWS(double, f64)

/* Add one index of a bag, from a row in the arithmetic's dtype. */
static void bag_take(const bags *b, int64_t bag, int64_t i, const void *from, bool first)
{
  const int64_t n = b->n_cols, row = ((const int64_t *)b->indices->data)[i];
  const bool is_f64 = b->wide == RUSH_FLOAT64;
  void *to = (char *)b->out->data + (size_t)(bag * n) * dtype_bytes(b->wide);
  int64_t *max_at = b->mode == BAG_MAX ? (int64_t *)b->max_at->data + bag * n : NULL;
  if (b->mode == BAG_MAX && is_f64)
    max_row_f64(n, to, from, row, first, max_at);
  else if (b->mode == BAG_MAX)
    max_row_f32(n, to, from, row, first, max_at);
  else if (is_f64)
    add_row_f64(n, to, from, b->factors ? ((const double *)b->factors->data)[i] : 1.0);
  else
    add_row_f32(n, to, from, b->factors ? ((const float *)b->factors->data)[i] : 1.0F);
}

#define BAG_ROWS_AT_ONCE 16384 /* rows between two looks at the clock */

/* Sum rows that need no conversion and no padding check. */
static int64_t sum_bag(const bags *b, int64_t bag)
{
  const int64_t begin = bag_begin(b, bag), n = i64_max(0, bag_end(b, bag) - begin);
  const size_t item = dtype_bytes(b->wide);
  const char *factors = b->factors ? (const char *)b->factors->data + (size_t)begin * item : NULL;
  /* Sums of pieces are added into the result, as if they were one. */
  for (int64_t i = 0; i < n && !(i && call_over(b->cx)); i += BAG_ROWS_AT_ONCE)
    b->sum.rows(b->n_cols, b->weight->data, (const int64_t *)b->indices->data + begin + i,
                i64_min(BAG_ROWS_AT_ONCE, n - i), factors ? factors + (size_t)i * item : NULL,
                (char *)b->out->data + (size_t)(bag * b->n_cols) * item);
  return n;
}

static void run_bag(const bags *b, int64_t bag, void *widened)
{
  const int64_t *at = b->indices->data;
  const bool plain = b->mode != BAG_MAX && b->padding < 0 && !widened;
  const int64_t end = plain ? 0 : bag_end(b, bag);
  const size_t row_bytes = (size_t)b->n_cols * dtype_bytes(b->dtype);
  int64_t count = plain ? sum_bag(b, bag) : 0;
  for (int64_t i = bag_begin(b, bag); i < end; i++) {
    if (i % BAG_ROWS_AT_ONCE == 0 && call_over(b->cx))
      return;
    const void *from = (const char *)b->weight->data + (size_t)at[i] * row_bytes;
    if (at[i] == b->padding)
      continue;
    if (widened) {
      convert_elems(b->wide, widened, b->dtype, from, b->n_cols);
      from = widened;
    }
    bag_take(b, bag, i, from, count == 0);
    count++;
  }
  if (b->quick)
    count = bag_limit(b, bag) - bag_begin(b, bag);
  if (b->mode != BAG_SUM)
    ((int64_t *)b->bag_size->data)[bag] = count;
  if (b->mode == BAG_MEAN && count > 0 && b->wide == RUSH_FLOAT64)
    divide_row_f64(b->n_cols, (double *)b->out->data + bag * b->n_cols, count);
  else if (b->mode == BAG_MEAN && count > 0)
    divide_row_f32(b->n_cols, (float *)b->out->data + bag * b->n_cols, count);
}

static rush_tensor *zeros(work *w, int dtype, int n_dims, const int64_t *sizes)
{
  rush_tensor *t = work_new(w, dtype, n_dims, sizes);
  WORK_DO(w, tensor_fill(w->cx, t, value_int(0)));
  return t;
}

/* Fill the results that a gradient would need, if PyTorch's own method computes them. */
static void make_side_results(work *w, bags *b)
{
  const int64_t n_offsets = b->quick && b->mode == BAG_SUM ? 0 : b->n_indices,
                n_sizes = b->mode == BAG_SUM && !b->keeps_size ? b->offsets->n_elems : b->n_bags;
  const int64_t grid[2] = {b->n_bags, b->n_cols};
  const bool is_max = b->mode == BAG_MAX;
  b->offset2bag = zeros(w, RUSH_INT64, 1, &n_offsets);
  b->bag_size = zeros(w, RUSH_INT64, 1, &n_sizes);
  b->max_at = zeros(w, RUSH_INT64, is_max ? 2 : 1, is_max ? grid : &n_sizes);
  b->out = zeros(w, b->wide, 2, grid);
  for (int64_t bag = 0; bag < b->n_bags && n_offsets > 0 && w->st == RUSH_OK; bag++)
    for (int64_t i = bag_begin(b, bag); i < bag_limit(b, bag) && !call_over_at(b->cx, i); i++)
      ((int64_t *)b->offset2bag->data)[i] = bag;
}

static void run_bags(work *w, bags *b)
{
  make_side_results(w, b);
  void *widened = b->wide != b->dtype ? work_memory(w, b->n_cols, dtype_bytes(b->wide)) : NULL;
  b->sum = ISA_PICK(gather_of, call_cpu(w->cx))(b->wide == RUSH_FLOAT64);
  for (int64_t bag = 0; bag < b->n_bags && w->st == RUSH_OK; bag++) {
    if (bag % 16 == 15 && call_over(b->cx))
      return;
    run_bag(b, bag, widened);
  }
  if (b->mode != BAG_MAX)
    WORK_DO(w, tensor_copy(w->cx, b->max_at, b->bag_size));
}

static rush_status check_bag_indices(const bags *b)
{
  const int64_t *at = b->indices->data;
  TRY(check_offsets(b));
  for (int64_t i = 0; i < b->n_indices; i++) {
    TRY(call_poll_at(b->cx, i));
    if (at[i] < 0 || at[i] >= b->n_rows)
      return call_fail(
        b->cx, "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be %lld",
        (long long)at[i]);
  }
  return RUSH_OK;
}

/* weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
 * include_last_offset */
static rush_status embedding_bag(rush_call *c, int64_t padding, bool keeps_size)
{
  rush_tensor *weight = call_tensor(c, 0), *indices = call_tensor(c, 1),
              *offsets = call_tensor(c, 2), *factors = call_tensor(c, 6);
  const int64_t mode = call_int(c, 4);
  bags b = {.cx = c->cx, .mode = (bag_mode)mode, .padding = padding, .keeps_size = keeps_size,
            .include_last = call_bool(c, 7), .n_indices = indices->n_elems};
  if (mode < BAG_SUM || mode > BAG_MAX)
    return call_fail(c->cx, "embedding_bag: unknown mode %lld", (long long)mode);
  TRY(check_bag_args(&b, weight, indices, offsets, factors));
  b.dtype = weight->dtype;
  b.wide = nn_dtype(weight->dtype);
  b.n_rows = weight->sizes[0];
  b.n_cols = weight->sizes[1];
  b.n_bags = offsets->sizes[0] - (b.include_last ? 1 : 0);
  b.quick = mode != BAG_MAX && padding < 0 && b.dtype != RUSH_FLOAT64 && weight->strides[1] == 1;
  work w = work_begin(c);
  b.indices = work_rows(&w, indices, RUSH_INT64);
  b.offsets = work_rows(&w, offsets, RUSH_INT64);
  b.weight = work_rows(&w, weight, weight->dtype);
  b.factors = work_input(&w, factors);
  WORK_DO(&w, check_bag_indices(&b));
  run_bags(&w, &b);
  rush_tensor *side[3] = {b.offset2bag, b.bag_size, b.max_at};
  work_return(&w, 0, b.out, b.dtype);
  for (uint32_t i = 0; i < 3; i++)
    work_return(&w, i + 1, side[i],
                indices->dtype == offsets->dtype ? indices->dtype : RUSH_INT64);
  return work_end(&w);
}

rush_status kernel__embedding_bag(rush_call *c) { return embedding_bag(c, call_int(c, 8), true); }
rush_status kernel__embedding_bag_forward_only(rush_call *c)
{
  return embedding_bag(c, call_int(c, 8), false);
}

/* Overload padding_idx: counted from the end if negative, or None. */
rush_status kernel_embedding_bag(rush_call *c)
{
  const rush_tensor *weight = call_tensor(c, 0);
  int64_t padding = -1;
  if (c->n_args > 8 && !call_is_none(c, 8)) {
    const int64_t n = weight->n_dims > 0 ? weight->sizes[0] : 0;
    padding = call_int(c, 8);
    if (padding < -n || padding >= n)
      return call_fail(
        c->cx,
        "padding_idx must be within the number of embeddings, -%lld through %lld, but got %lld",
        (long long)n, (long long)(n - 1), (long long)padding);
    padding += padding < 0 ? n : 0;
  }
  return embedding_bag(c, padding, tensor_requires_grad(weight));
}

/* -- one_hot ----------------------------------------------------------------------------------- */

static rush_status count_classes(rush_call *c, const rush_tensor *t, int64_t *n_classes)
{
  const int64_t *at = t->data;
  int64_t max = -1;
  if (t->n_elems == 0)
    return *n_classes > 0
             ? RUSH_OK
             : call_fail(c->cx, "Can not infer total number of classes from empty tensor.");
  for (int64_t i = 0; i < t->n_elems; i++) {
    TRY(call_poll_at(c->cx, i));
    if (at[i] < 0)
      return call_fail(c->cx, "Class values must be non-negative.");
    max = i64_max(max, at[i]);
  }
  if (*n_classes == -1)
    *n_classes = max + 1;
  return max < *n_classes ? RUSH_OK
                          : call_fail(c->cx, "Class values must be smaller than num_classes.");
}

/* self, num_classes */
rush_status kernel_one_hot(rush_call *c)
{
  rush_tensor *self = call_tensor(c, 0);
  int64_t n_classes = call_int(c, 1), sizes[TENSOR_MAX_DIMS];
  if (self->dtype != RUSH_INT64)
    return call_fail(c->cx, "one_hot is only applicable to index tensor of type LongTensor.");
  if (self->n_dims >= TENSOR_MAX_DIMS)
    return call_fail(c->cx, "one_hot: too many dimensions");
  work w = work_begin(c);
  const rush_tensor *t = work_rows(&w, self, RUSH_INT64);
  WORK_DO(&w, count_classes(c, t, &n_classes));
  memcpy(sizes, self->sizes, sizeof *sizes * self->n_dims);
  sizes[self->n_dims] = n_classes;
  rush_tensor *out = zeros(&w, RUSH_INT64, self->n_dims + 1, sizes);
  for (int64_t i = 0; i < t->n_elems && w.st == RUSH_OK && !call_over_at(c->cx, i); i++)
    ((int64_t *)out->data)[i * n_classes + ((const int64_t *)t->data)[i]] = 1;
  work_return(&w, 0, out, RUSH_INT64);
  return work_end(&w);
}
