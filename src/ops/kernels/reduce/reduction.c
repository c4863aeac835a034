/* ops/kernels/reduce/reduction.c -- operators that reduce: sums, products, means, extremes,
 * variances, norms, logsumexp. Their shape rules check the arguments and make the results; a kernel
 * runs one or two jobs of reduce.h and finishes the accumulators into them. Variances make two
 * passes in double instead of Welford's update: the loop has no state of three numbers, and two
 * passes are accurate too. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/threads.h"
#include "ops/point/point_run.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/kernels/views.h"
#include "ops/kernels/work.h"

/* -- Arguments, found by name: overloads differ ------------------------------------------------ */

typedef struct reduction {
  rush_call *c;
  rush_tensor *x; /* borrowed */
  uint64_t dims;  /* that are reduced */
} reduction;

/* Read the dimensions.  `none`: an empty list names no dimension, rather than all. */
static reduction read_reduction(rush_call *c, bool none)
{
  reduction r = {.c = c, .x = call_tensor(c, 0)};
  int64_t dims[TENSOR_MAX_DIMS];
  const int at = call_arg(c, "dim"), n_dims = r.x->n_dims,
            n = at < 0 ? 0 : call_ints(c, (uint32_t)at, dims, TENSOR_MAX_DIMS);
  for (int i = 0; i < n; i++)
    r.dims |= UINT64_C(1) << (dims[i] < 0 ? dims[i] + i64_max(n_dims, 1) : dims[i]);
  if (n == 0 && !(none && at >= 0 && call_list(c, (uint32_t)at)))
    r.dims = n_dims == 64 ? ~UINT64_C(0) : (UINT64_C(1) << n_dims) - 1;
  return r;
}

/* -- Running ----------------------------------------------------------------------------------- */

/* Return the accumulator type of a dtype. */
static tape_type acc_type(int dtype)
{
  switch (dtype_class_of(dtype)) {
  case DTYPE_BOOL:
    return TY_BOOL;
  case DTYPE_INT:
    return TY_I64;
  case DTYPE_FLOAT:
  case DTYPE_COMPLEX:
  case DTYPE_QUANT:
    break;
  }
  return dtype == RUSH_FLOAT64 || dtype == RUSH_COMPLEX128 ? TY_F64 : TY_F32;
}

/* Allocate n accumulators, new, as tensor data. */
static rush_status new_accs(call_ctx *cx, tape_type type, int64_t n, void **out)
{
  *out = mem_alloc_data(cx->ctx, (size_t)n * tape_type_bytes(type));
  return *out ? RUSH_OK : call_nomem(cx);
}

static void free_accs(call_ctx *cx, tape_type type, int64_t n, void *accs)
{
  if (accs)
    mem_free_data(cx->ctx, accs, (size_t)n * tape_type_bytes(type));
}

/* Convert accumulators to the elements of a row-major tensor. */
static rush_status store_accs(call_ctx *cx, rush_tensor *out, tape_type type, const void *accs)
{
  const tape_isa *isa = tape_isa_of(cx->ctx);
  const int dtype = dtype_is_complex(out->dtype) ? dtype_to_real(out->dtype) : out->dtype;
  const int64_t n = dtype_is_complex(out->dtype) ? 2 * out->n_elems : out->n_elems;
  char *to = tensor_data_mut(out);
  for (int64_t i = 0, step = 0; i < n; i += BLOCK_MAX, step++) {
    TRY(call_poll_at(cx, step));
    block_write(isa, i64_min(BLOCK_MAX, n - i), to + i * (int64_t)dtype_bytes(dtype), dtype,
                (const char *)accs + i * (int64_t)tape_type_bytes(type), type);
  }
  return RUSH_OK;
}

typedef void finish_fn(void *acc, tape_type type, int64_t begin, int64_t end, const void *arg);

typedef struct finishing {
  finish_fn *fn;
  void *acc;
  tape_type type;
  const void *arg;
} finishing;

static void finish_some(void *p, int64_t begin, int64_t end)
{
  const finishing *f = p;
  f->fn(f->acc, f->type, begin, end, f->arg);
}

static rush_status finish_all(call_ctx *cx, finish_fn *fn, void *acc, tape_type type, int64_t n,
                              const void *arg)
{
  finishing f = {fn, acc, type, arg};
  return serial_for(cx, n, BLOCK_MAX, finish_some, &f);
}

/* Run a job into `out`; finish (NULL: none) first processes the accumulators [begin, end). */
static rush_status run_to(const reduction *r, reduce_job *job, rush_tensor *out, finish_fn *finish,
                          const void *arg)
{
  call_ctx *cx = r->c->cx;
  const int64_t n = out->n_elems * (dtype_is_complex(job->x->dtype) ? 2 : 1);
  const bool in_place =
    tape_type_of(dtype_is_complex(out->dtype) ? dtype_to_real(out->dtype) : out->dtype) ==
      (int)job->type &&
    tensor_item_bytes(out) * (size_t)out->n_elems == (size_t)n * tape_type_bytes(job->type);
  void *acc = out->data;
  rush_status st = in_place ? RUSH_OK : new_accs(cx, job->type, n, &acc);
  if (st == RUSH_OK)
    st = reduce_run(cx, job, acc);
  if (st == RUSH_OK && finish)
    st = finish_all(cx, finish, acc, job->type, n, arg);
  if (in_place)
    return st;
  if (st == RUSH_OK)
    st = store_accs(cx, out, job->type, acc);
  free_accs(cx, job->type, n, acc);
  return st;
}

#define EACH(T, ...)                 \
  do {                               \
    T *a = acc;                      \
    for (int64_t i = begin; i < end; i++) \
      a[i] = (T)(__VA_ARGS__);       \
  } while (0)

static void finish_divide(void *acc, tape_type type, int64_t begin, int64_t end, const void *arg)
{
  const double by = *(const double *)arg;
  if (type == TY_F32)
    EACH(float, a[i] / (float)by);
  else
    EACH(double, a[i] / by);
}

static void finish_sqrt(void *acc, tape_type type, int64_t begin, int64_t end, const void *arg)
{
  (void)arg;
  if (type == TY_F32)
    EACH(float, sqrtf(a[i]));
  else
    EACH(double, sqrt(a[i]));
}

/* Convert the input to the dtype that the operator computes in; new.  A conversion that the machine
 * makes anyway, block by block, is left to it. */
static rush_status as_dtype(const reduction *r, int dtype, rush_tensor **out)
{
  const dtype_class from = dtype_class_of(r->x->dtype), to = dtype_class_of(dtype);
  const bool widens =
    from != DTYPE_COMPLEX && to != DTYPE_COMPLEX && from <= to &&
    (dtype_bytes(dtype) == 8 || (dtype == RUSH_FLOAT32 && r->x->dtype != RUSH_FLOAT64));
  if (r->x->dtype == dtype || (widens && to != DTYPE_BOOL)) {
    *out = tensor_retain(r->x);
    return RUSH_OK;
  }
  return tensor_to_dtype(r->c->cx, r->x, dtype, out);
}

/* -- Sums and products ------------------------------------------------------------------------- */

/* Reduce x, which is the input in the result's dtype. */
static rush_status reduce_as(const reduction *r, rush_tensor *x, reduce_kind kind,
                             finish_fn *finish, const void *arg)
{
  rush_tensor *out = call_out(r->c, 0);
  reduce_job job = {.x = x, .dims = r->dims, .kind = kind, .type = acc_type(out->dtype)};
  if (job.type == TY_BOOL) { /* a sum of bools is their or, a product their and */
    job.kind = kind == REDUCE_PROD ? REDUCE_MIN : REDUCE_MAX;
    job.as_bool = true;
  }
  if (job.type == TY_I64 && kind == REDUCE_NANSUM)
    job.kind = REDUCE_SUM;
  return run_to(r, &job, out, finish, arg);
}

/* Multiply complex numbers one by one: they are rare. */
static rush_status complex_product(const reduction *r, rush_tensor *x)
{
  if (x->dtype == RUSH_COMPLEX32)
    return call_no_dtype(r->c->cx, "prod_out_cpu", x->dtype);
  rush_tensor *rows, *view, *out = call_out(r->c, 0);
  TRY(tensor_dims_last(r->c->cx, x, r->dims, &view));
  rush_status st = tensor_contiguous(r->c->cx, view, &rows);
  tensor_release(view);
  TRY(st);
  const int64_t n = reduce_n_elems(x, r->dims);
  const bool wide = x->dtype == RUSH_COMPLEX128;
  for (int64_t o = 0; st == RUSH_OK && o < out->n_elems; o++) {
    double re = 1, im = 0;
    for (int64_t i = 2 * o * n; i < 2 * (o + 1) * n && st == RUSH_OK; i += 2) {
      st = call_poll_at(r->c->cx, i / 2);
      double a = wide ? ((double *)rows->data)[i] : (double)((float *)rows->data)[i];
      double b = wide ? ((double *)rows->data)[i + 1] : (double)((float *)rows->data)[i + 1];
      double t = re * a - im * b;
      im = re * b + im * a;
      re = t;
    }
    if (wide)
      ((double *)out->data)[2 * o] = re, ((double *)out->data)[2 * o + 1] = im;
    else
      ((float *)out->data)[2 * o] = (float)re, ((float *)out->data)[2 * o + 1] = (float)im;
  }
  tensor_release(rows);
  return st;
}

static rush_status sum_like(rush_call *c, reduce_kind kind, const char *kernel)
{
  const reduction r = read_reduction(c, false);
  const int dtype = call_out(c, 0)->dtype;
  rush_tensor *x;
  if (dtype_is_float8(dtype) || dtype_class_of(dtype) == DTYPE_QUANT ||
      tape_type_of(r.x->dtype) < 0)
    return call_no_dtype(c->cx, kernel, dtype);
  if (kind == REDUCE_NANSUM && (dtype_is_complex(r.x->dtype) || dtype_is_complex(dtype)))
    return call_fail(c->cx, "nansum on CPU does not support complex inputs");
  TRY(as_dtype(&r, dtype, &x));
  rush_status st = kind == REDUCE_PROD && dtype_is_complex(dtype)
                     ? complex_product(&r, x)
                     : reduce_as(&r, x, kind, NULL, NULL);
  tensor_release(x);
  return st;
}

rush_status kernel_reduce_sum(rush_call *c) { return sum_like(c, REDUCE_SUM, "sum_cpu"); }
rush_status kernel_reduce_nansum(rush_call *c) { return sum_like(c, REDUCE_NANSUM, "nansum_cpu"); }
rush_status kernel_reduce_prod(rush_call *c) { return sum_like(c, REDUCE_PROD, "prod_cpu"); }

rush_status kernel_reduce_mean(rush_call *c)
{
  const reduction r = read_reduction(c, false);
  const int dtype = call_out(c, 0)->dtype;
  rush_tensor *x;
  if (dtype_is_float8(dtype))
    return call_no_dtype(c->cx, "sum_cpu", dtype);
  TRY(as_dtype(&r, dtype, &x));
  const double n = (double)reduce_n_elems(r.x, r.dims);
  rush_status st = reduce_as(&r, x, REDUCE_SUM, finish_divide, &n);
  tensor_release(x);
  return st;
}

/* Reduce the elements' truth: x != 0, for complex numbers too. */
static rush_status reduce_truth(const reduction *r, reduce_kind kind, tape_type type)
{
  reduce_job job = {.x = r->x, .dims = r->dims, .kind = kind, .type = type,
                    .as_bool = type != TY_BOOL || r->x->dtype != RUSH_BOOL};
  rush_tensor *bits = NULL;
  if (dtype_is_complex(r->x->dtype)) {
    TRY(tensor_to_dtype(r->c->cx, r->x, RUSH_BOOL, &bits));
    job.x = bits;
  }
  rush_status st = run_to(r, &job, call_out(r->c, 0), NULL, NULL);
  tensor_release(bits);
  return st;
}

/* (self, dim) */
rush_status kernel_reduce_count_nonzero(rush_call *c)
{
  const reduction r = read_reduction(c, false);
  return reduce_truth(&r, REDUCE_SUM, TY_I64);
}

/* (self, size): sum over the dimensions that the size lacks or has as 1. */
rush_status kernel_reduce_sum_to_size(rush_call *c)
{
  const rush_tensor *out = call_out(c, 0);
  reduction r = {.c = c, .x = call_tensor(c, 0)};
  const int lead = r.x->n_dims - out->n_dims;
  for (int d = 0; d < r.x->n_dims; d++)
    if (d < lead || out->sizes[d - lead] != r.x->sizes[d])
      r.dims |= UINT64_C(1) << d;
  return reduce_as(&r, r.x, REDUCE_SUM, NULL, NULL);
}

/* -- All, any ---------------------------------------------------------------------------------- */

static rush_status truth(rush_call *c, reduce_kind kind)
{
  const reduction r = read_reduction(c, true);
  return reduce_truth(&r, kind, TY_BOOL);
}

rush_status kernel_reduce_all(rush_call *c) { return truth(c, REDUCE_MIN); }
rush_status kernel_reduce_any(rush_call *c) { return truth(c, REDUCE_MAX); }

/* -- Extremes ---------------------------------------------------------------------------------- */

static rush_status check_ordered(const reduction *r, const char *kernel)
{
  const int dtype = r->x->dtype;
  if (dtype_is_complex(dtype) || dtype_is_float8(dtype) || tape_type_of(dtype) < 0 ||
      dtype == RUSH_UINT64)
    return call_no_dtype(r->c->cx, kernel, dtype);
  return RUSH_OK;
}

static rush_status extreme_to(const reduction *r, reduce_kind kind, uint32_t result)
{
  reduce_job job = {.x = r->x, .dims = r->dims, .kind = kind, .type = acc_type(r->x->dtype)};
  return run_to(r, &job, call_out(r->c, result), NULL, NULL);
}

static rush_status extreme(rush_call *c, reduce_kind kind, const char *kernel)
{
  const reduction r = read_reduction(c, false);
  TRY(check_ordered(&r, kernel));
  return extreme_to(&r, kind, 0);
}

rush_status kernel_reduce_amax(rush_call *c) { return extreme(c, REDUCE_MAX, "max_values_cpu"); }
rush_status kernel_reduce_amin(rush_call *c) { return extreme(c, REDUCE_MIN, "min_values_cpu"); }
rush_status kernel_reduce_max(rush_call *c) { return extreme(c, REDUCE_MAX, "max_all"); }
rush_status kernel_reduce_min(rush_call *c) { return extreme(c, REDUCE_MIN, "min_all"); }

rush_status kernel_reduce_aminmax(rush_call *c)
{
  const reduction r = read_reduction(c, false);
  TRY(check_ordered(&r, "aminmax_cpu"));
  TRY(extreme_to(&r, REDUCE_MIN, 0));
  return extreme_to(&r, REDUCE_MAX, 1);
}

/* Compute extremes (unless `values` is NULL) and the indices of their first occurrences. */
static rush_status extreme_at(const reduction *r, reduce_kind kind, rush_tensor *values,
                              rush_tensor *places)
{
  call_ctx *cx = r->c->cx;
  const tape_type type = acc_type(r->x->dtype);
  reduce_job job = {.x = r->x, .dims = r->dims, .kind = kind, .type = type};
  void *acc;
  TRY(new_accs(cx, type, places->n_elems, &acc));
  rush_status st = reduce_run(cx, &job, acc);
  if (st == RUSH_OK)
    st = reduce_find(cx, &job, acc, tensor_data_mut(places));
  if (st == RUSH_OK && values)
    st = store_accs(cx, values, type, acc);
  free_accs(cx, type, places->n_elems, acc);
  return st;
}

static rush_status extreme_dim(rush_call *c, reduce_kind kind, const char *name, const char *kernel)
{
  const reduction r = read_reduction(c, false);
  if (dtype_is_complex(r.x->dtype))
    return call_fail(c->cx, "%s: does not support complex input", name);
  TRY(check_ordered(&r, kernel));
  return extreme_at(&r, kind, call_out(c, 0), call_out(c, 1));
}

rush_status kernel_reduce_max_dim(rush_call *c)
{
  return extreme_dim(c, REDUCE_MAX, "max()", "max_cpu");
}
rush_status kernel_reduce_min_dim(rush_call *c)
{
  return extreme_dim(c, REDUCE_MIN, "min()", "min_cpu");
}

static rush_status arg_extreme(rush_call *c, reduce_kind kind, const char *name, const char *kernel)
{
  const reduction r = read_reduction(c, false);
  if (dtype_is_complex(r.x->dtype) || r.x->dtype == RUSH_BOOL)
    return call_fail(c->cx, "%s: does not support %s input", name,
                     r.x->dtype == RUSH_BOOL ? "bool" : "complex");
  TRY(check_ordered(&r, kernel));
  return extreme_at(&r, kind, NULL, call_out(c, 0));
}

rush_status kernel_reduce_argmax(rush_call *c)
{
  return arg_extreme(c, REDUCE_MAX, "argmax()", "argmax_cpu");
}
rush_status kernel_reduce_argmin(rush_call *c)
{
  return arg_extreme(c, REDUCE_MIN, "argmin()", "argmin_cpu");
}

/* -- Variances: two passes, in double ---------------------------------------------------------- */

/* Divide sums to get means; after an infinity, as running means do. */
static void finish_mean(void *acc, tape_type type, int64_t begin, int64_t end, const void *arg)
{
  const double n = *(const double *)arg;
  double *a = acc;
  (void)type;
  for (int64_t i = begin; i < end; i++) {
    a[i] /= n;
    a[i] = n > 1 && isinf(a[i]) ? (double)NAN : a[i];
  }
}

typedef struct spread_arg {
  double by;
  bool pairs, root;
} spread_arg;

/* Turn sums of squares into variances or their roots; real and imaginary parts (pairs) together. */
static void finish_variance(void *acc, tape_type type, int64_t begin, int64_t end, const void *arg)
{
  const spread_arg *s = arg;
  double *d = acc;
  (void)type;
  for (int64_t i = begin; i < end; i++) {
    double v = (s->pairs ? d[2 * i] + d[2 * i + 1] : d[i]) / s->by;
    d[i] = s->root ? sqrt(v) : v;
  }
}

/* Compute the results: variances or their roots, and means if requested. */
static rush_status variance_of(const reduction *r, double correction, bool root)
{
  call_ctx *cx = r->c->cx;
  const bool pairs = dtype_is_complex(r->x->dtype);
  const int64_t n_out = reduce_n_outputs(r->x, r->dims), n_acc = pairs ? 2 * n_out : n_out;
  const double n = (double)reduce_n_elems(r->x, r->dims);
  const spread_arg by = {n == 0 ? 0 : n - correction > 0 ? n - correction : 0, pairs, root};
  void *means, *devs = NULL;
  reduce_job job = {.x = r->x, .dims = r->dims, .kind = REDUCE_SUM, .type = TY_F64};
  TRY(new_accs(cx, TY_F64, n_acc, &means));
  rush_status st = new_accs(cx, TY_F64, n_acc, &devs);
  if (st == RUSH_OK)
    st = reduce_run(cx, &job, means);
  if (st == RUSH_OK)
    st = finish_all(cx, finish_mean, means, TY_F64, n_acc, &n);
  job.kind = REDUCE_SQ_DEV;
  job.param = means;
  if (st == RUSH_OK)
    st = reduce_run(cx, &job, devs);
  if (st == RUSH_OK)
    st = finish_all(cx, finish_variance, devs, TY_F64, n_out, &by);
  if (st == RUSH_OK)
    st = store_accs(cx, call_out(r->c, 0), TY_F64, devs);
  if (st == RUSH_OK && r->c->n_results > 1)
    st = store_accs(cx, call_out(r->c, 1), TY_F64, means);
  free_accs(cx, TY_F64, n_acc, means);
  free_accs(cx, TY_F64, n_acc, devs);
  return st;
}

/* (self, [dim], unbiased | correction, [keepdim]) */
static rush_status variance(rush_call *c, bool root, const char *name)
{
  const reduction r = read_reduction(c, false);
  if (dtype_is_float8(r.x->dtype))
    return call_no_dtype(c->cx, "std_cpu", r.x->dtype);
  const int unbiased = call_arg(c, "unbiased"), by = call_arg(c, "correction");
  double correction = 1;
  if (unbiased >= 0)
    correction = call_bool(c, (uint32_t)unbiased) ? 1 : 0;
  if (by >= 0)
    correction = call_float_or(c, (uint32_t)by, 1);
  if (r.x->n_elems > 0 && (double)reduce_n_elems(r.x, r.dims) - correction <= 0) {
    text_buf t;
    text_init(&t, c->cx->ctx);
    text_printf(&t,
                "%s(): degrees of freedom is <= 0. Correction should be strictly less than the "
                "reduction factor "
                "(input numel divided by output numel).",
                name);
    call_warn(c->cx, text_str(&t));
    text_free(&t);
  }
  return variance_of(&r, correction, root);
}

rush_status kernel_reduce_var(rush_call *c) { return variance(c, false, "var"); }
rush_status kernel_reduce_std(rush_call *c) { return variance(c, true, "std"); }
rush_status kernel_reduce_var_mean(rush_call *c) { return variance(c, false, "var_mean"); }
rush_status kernel_reduce_std_mean(rush_call *c) { return variance(c, true, "std_mean"); }

/* -- logsumexp --------------------------------------------------------------------------------- */

static void finish_log(void *acc, tape_type type, int64_t begin, int64_t end, const void *arg)
{
  if (type == TY_F32)
    EACH(float, logf(a[i]) + ((const float *)arg)[i]);
  else
    EACH(double, log(a[i]) + ((const double *)arg)[i]);
}

/* Replace an infinite maximum by 0, which is subtracted: differences would be NaN. */
static void finite_or_zero(void *acc, tape_type type, int64_t begin, int64_t end, const void *arg)
{
  (void)arg;
  if (type == TY_F32)
    EACH(float, isinf(a[i]) ? 0 : a[i]);
  else
    EACH(double, isinf(a[i]) ? 0 : a[i]);
}

rush_status kernel_reduce_logsumexp(rush_call *c)
{
  const reduction r = read_reduction(c, false);
  rush_tensor *out = call_out(c, 0);
  const tape_type type = acc_type(out->dtype);
  reduce_job job = {.x = r.x, .dims = r.dims, .kind = REDUCE_MAX, .type = type};
  void *max;
  TRY(new_accs(c->cx, type, out->n_elems, &max));
  rush_status st = reduce_run(c->cx, &job, max);
  if (st == RUSH_OK)
    st = finish_all(c->cx, finite_or_zero, max, type, out->n_elems, NULL);
  job.kind = REDUCE_EXP_SUM;
  job.param = max;
  if (st == RUSH_OK)
    st = run_to(&r, &job, out, finish_log, max);
  free_accs(c->cx, type, out->n_elems, max);
  return st;
}

/* -- Norms ------------------------------------------------------------------------------------- */

/* Compute |x| to the power p; *out is new. */
static rush_status abs_power(call_ctx *cx, rush_tensor *x, double p, rush_tensor **out)
{
  rush_value v[2] = {{.tag = RUSH_TAG_TENSOR, .as.tensor = x}, value_float(p)}, abs, power;
  TRY(op_invoke_name(cx, "aten::abs", "", v, 1, &abs));
  v[0] = abs;
  if (p == 1) {
    *out = abs.as.tensor;
    return RUSH_OK;
  }
  rush_status st = op_invoke_name(cx, "aten::pow", "Tensor_Scalar", v, 2, &power);
  value_release(abs);
  if (st == RUSH_OK)
    *out = power.as.tensor;
  return st;
}

static void finish_power(void *acc, tape_type type, int64_t begin, int64_t end, const void *arg)
{
  const double p = *(const double *)arg;
  if (type == TY_F32)
    EACH(float, powf(a[i], (float)p));
  else
    EACH(double, pow(a[i], p));
}

static rush_status norm_of(const reduction *r, rush_tensor *x, double p)
{
  rush_tensor *out = call_out(r->c, 0);
  reduce_job job = {.x = x, .dims = r->dims, .type = acc_type(out->dtype)};
  const double root = 1 / p;
  rush_tensor *power = NULL;
  finish_fn *finish = NULL;
  if (p == 0)
    job.kind = REDUCE_NONZERO;
  else if (p == 1)
    job.kind = REDUCE_SUM_ABS;
  else if (p == 2)
    job.kind = REDUCE_SUM_SQ, finish = finish_sqrt;
  else if (isinf(p))
    job.kind = p > 0 ? REDUCE_MAX_ABS : REDUCE_MIN_ABS;
  else {
    TRY(abs_power(r->c->cx, x, p, &power));
    job.x = power;
    job.kind = REDUCE_SUM;
    finish = finish_power;
  }
  rush_status st = run_to(r, &job, out, finish, &root);
  tensor_release(power);
  return st;
}

static rush_status vector_norm(rush_call *c, double p)
{
  const reduction r = read_reduction(c, false);
  rush_tensor *x = NULL, *abs = NULL;
  const int at = call_arg(c, "dtype"),
            dtype = at < 0 ? r.x->dtype : call_dtype_or(c, (uint32_t)at, r.x->dtype);
  const bool special = p == 0 || p == 1 || p == 2 || isinf(p);
  /* powers of 16-bit floats are taken in float32 */
  rush_status st =
    !special && dtype == RUSH_COMPLEX32   ? tensor_to_dtype(c->cx, r.x, RUSH_COMPLEX64, &x)
    : !special && dtype_bytes(dtype) == 2 ? tensor_to_dtype(c->cx, r.x, RUSH_FLOAT32, &x)
                                          : as_dtype(&r, dtype, &x);
  if (st == RUSH_OK && dtype_is_complex(x->dtype)) {
    st = abs_power(c->cx, x, 1, &abs);
    tensor_release(x);
    x = abs;
  }
  if (st == RUSH_OK)
    st = norm_of(&r, x, p);
  tensor_release(x);
  return st;
}

/* p or ord is the second argument of all overloads; None is 2. */
rush_status kernel_reduce_norm(rush_call *c) { return vector_norm(c, call_float_or(c, 1, 2)); }

/* (self, dim, keepdim) */
rush_status kernel_reduce_frobenius_norm(rush_call *c) { return vector_norm(c, 2); }
