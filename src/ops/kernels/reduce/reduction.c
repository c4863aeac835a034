/* ops/kernels/reduce/reduction.c -- operators that reduce: sums, products, means, extremes,
 * variances, norms, logsumexp. Each reads its arguments by name (overloads have them at different
 * positions), checks as PyTorch does, runs one or two jobs of reduce.h and finishes the
 * accumulators. Variances make two passes in double instead of Welford's update: the machine has no
 * state of three numbers, and two passes are accurate too. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/threads.h"
#include "ops/point/point_run.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/kernels/views.h"

/* -- Arguments, found by name: overloads differ ------------------------------------------------ */

typedef struct reduction {
  rush_call *c;
  rush_tensor *x;    /* borrowed */
  uint64_t dims;
  bool keepdim, whole; /* whole: no dimension was named */
  int one_dim;       /* the dimension that a `dim: int` names, or -1 */
  int n_dims;        /* of the result */
  int64_t sizes[TENSOR_MAX_DIMS];
} reduction;

static int arg_named(const rush_call *c, const char *name)
{
  const schema *sc = c->op->schema;
  for (uint32_t i = 1; i < sc->n_args; i++)
    if (strcmp(sc->args[i].name, name) == 0)
      return (int)i;
  return -1;
}

static int named_dtype(const rush_call *c)
{
  int i = arg_named(c, "dtype");
  return i < 0 ? DTYPE_NONE : call_dtype_or(c, (uint32_t)i, DTYPE_NONE);
}

static uint64_t all_dims(const rush_tensor *x)
{
  return x->n_dims == 64 ? ~(uint64_t)0 : (UINT64_C(1) << x->n_dims) - 1;
}

static rush_status read_dims(reduction *r, uint32_t arg)
{
  int64_t dims[TENSOR_MAX_DIMS];
  int n = call_ints(r->c, arg, dims, TENSOR_MAX_DIMS);
  if (n < 0)
    return call_fail(r->c->cx, "%s: too many dimensions", r->c->op->schema->name);
  r->dims = 0;
  for (int i = 0; i < n; i++) {
    int d;
    TRY(dim_wrap(r->c->cx, dims[i], r->x->n_dims, &d));
    if (r->dims >> d & 1)
      return call_fail(r->c->cx, "dim %d appears multiple times in the list of dims", d);
    r->dims |= UINT64_C(1) << d;
  }
  if (n == 1 && r->c->args[arg].tag == RUSH_TAG_INT)
    r->one_dim = (int)(r->x->n_dims ? __builtin_ctzll(r->dims) : 0);
  if (n == 0)
    r->dims = all_dims(r->x);
  else
    r->whole = false;
  return RUSH_OK;
}

static void result_sizes(reduction *r)
{
  r->n_dims = 0;
  for (int d = 0; d < r->x->n_dims; d++) {
    if (!(r->dims >> d & 1))
      r->sizes[r->n_dims++] = r->x->sizes[d];
    else if (r->keepdim)
      r->sizes[r->n_dims++] = 1;
  }
}

static rush_status read_reduction(rush_call *c, reduction *r)
{
  *r = (reduction){.c = c, .x = call_tensor(c, 0), .one_dim = -1, .whole = true};
  r->dims = all_dims(r->x);
  int dim = arg_named(c, "dim"), keep = arg_named(c, "keepdim");
  if (dim >= 0 && !call_is_none(c, (uint32_t)dim))
    TRY(read_dims(r, (uint32_t)dim));
  r->keepdim = keep >= 0 && call_bool(c, (uint32_t)keep);
  result_sizes(r);
  return RUSH_OK;
}

static rush_status refuse_dtype(const reduction *r, const char *kernel, int dtype)
{
  return call_no_dtype(r->c->cx, kernel, dtype);
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

/* Runs a job into a new tensor of `dtype`; finish (NULL: none) processes the accumulators [begin,
 * end) first. */
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

static rush_status run_to(const reduction *r, reduce_job *job, int dtype, finish_fn *finish,
                          const void *arg, rush_tensor **result)
{
  call_ctx *cx = r->c->cx;
  rush_tensor *out = NULL;
  TRY(tensor_new(cx, dtype, r->n_dims, r->sizes, &out));
  const int64_t n = out->n_elems * (dtype_is_complex(job->x->dtype) ? 2 : 1);
  const bool in_place =
    tape_type_of(dtype_is_complex(dtype) ? dtype_to_real(dtype) : dtype) == (int)job->type &&
    tensor_item_bytes(out) * (size_t)out->n_elems == (size_t)n * tape_type_bytes(job->type);
  void *acc = out->data;
  rush_status st = in_place ? RUSH_OK : new_accs(cx, job->type, n, &acc);
  if (st == RUSH_OK)
    st = reduce_run(cx, job, acc);
  if (st == RUSH_OK && finish)
    st = finish_all(cx, finish, acc, job->type, n, arg);
  if (st == RUSH_OK && !in_place)
    st = store_accs(cx, out, job->type, acc);
  if (!in_place)
    free_accs(cx, job->type, n, acc);
  if (st == RUSH_OK)
    *result = out;
  else
    tensor_release(out);
  return st;
}

static rush_status give_to(const reduction *r, reduce_job *job, int dtype, finish_fn *finish,
                           const void *arg)
{
  rush_tensor *out = NULL;
  TRY(run_to(r, job, dtype, finish, arg, &out));
  call_return_steal(r->c, 0, out);
  return RUSH_OK;
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

/* Return the result dtype of sum and prod for a dtype argument. */
static int sum_dtype(const rush_call *c, const rush_tensor *x)
{
  int dtype = named_dtype(c);
  if (dtype != DTYPE_NONE)
    return dtype;
  return dtype_class_of(x->dtype) <= DTYPE_INT ? RUSH_INT64 : x->dtype;
}

/* Reduce an input of another dtype. */
static rush_status reduce_as(reduction *r, rush_tensor *x, reduce_kind kind, int dtype,
                             finish_fn *finish, const void *arg)
{
  reduce_job job = {.x = x, .dims = r->dims, .kind = kind, .type = acc_type(dtype)};
  if (job.type == TY_BOOL) { /* a sum of bools is their or, a product their and */
    job.kind = kind == REDUCE_PROD ? REDUCE_MIN : REDUCE_MAX;
    job.as_bool = true;
  }
  if (job.type == TY_I64 && kind == REDUCE_NANSUM)
    job.kind = REDUCE_SUM;
  return give_to(r, &job, dtype, finish, arg);
}

/* Copy with the kept dimensions first, row-major; new. */
static rush_status with_reduced_last(const reduction *r, rush_tensor *x, rush_tensor **out)
{
  int64_t order[TENSOR_MAX_DIMS];
  int n = 0;
  for (uint64_t gone = 0; gone < 2; gone++)
    for (int d = 0; d < x->n_dims; d++)
      if ((r->dims >> d & 1) == gone)
        order[n++] = d;
  geom g;
  rush_tensor *view = NULL;
  geom_of(&g, x);
  TRY(geom_permute(r->c->cx, &g, n, order));
  TRY(geom_view(r->c->cx, x, &g, &view));
  rush_status st = tensor_contiguous(r->c->cx, view, out);
  tensor_release(view);
  return st;
}

/* Multiply complex numbers one by one: they are rare. */
static rush_status complex_product(const reduction *r, rush_tensor *x)
{
  if (x->dtype == RUSH_COMPLEX32)
    return call_no_dtype(r->c->cx, "prod_out_cpu", x->dtype);
  rush_tensor *rows = NULL, *out = NULL;
  TRY(with_reduced_last(r, x, &rows));
  rush_status st = tensor_new(r->c->cx, x->dtype, r->n_dims, r->sizes, &out);
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
  if (st == RUSH_OK)
    call_return_steal(r->c, 0, out);
  else
    tensor_release(out);
  return st;
}

static rush_status sum_like(rush_call *c, reduce_kind kind, const char *kernel)
{
  reduction r;
  rush_tensor *x = NULL;
  TRY(read_reduction(c, &r));
  const int dtype = sum_dtype(c, r.x);
  if (dtype_is_float8(dtype) || dtype_class_of(dtype) == DTYPE_QUANT ||
      tape_type_of(r.x->dtype) < 0)
    return refuse_dtype(&r, kernel, dtype);
  if (kind == REDUCE_NANSUM && (dtype_is_complex(r.x->dtype) || dtype_is_complex(dtype)))
    return call_fail(c->cx, "nansum on CPU does not support complex inputs");
  TRY(as_dtype(&r, dtype, &x));
  rush_status st = kind == REDUCE_PROD && dtype_is_complex(dtype)
                     ? complex_product(&r, x)
                     : reduce_as(&r, x, kind, dtype, NULL, NULL);
  tensor_release(x);
  return st;
}

rush_status kernel_reduce_sum(rush_call *c) { return sum_like(c, REDUCE_SUM, "sum_cpu"); }
rush_status kernel_reduce_nansum(rush_call *c) { return sum_like(c, REDUCE_NANSUM, "nansum_cpu"); }
rush_status kernel_reduce_prod(rush_call *c) { return sum_like(c, REDUCE_PROD, "prod_cpu"); }

rush_status kernel_reduce_mean(rush_call *c)
{
  reduction r;
  rush_tensor *x = NULL;
  TRY(read_reduction(c, &r));
  int dtype = named_dtype(c);
  const bool given = dtype != DTYPE_NONE;
  dtype = given ? dtype : r.x->dtype;
  if (!dtype_is_float(dtype) && !dtype_is_complex(dtype))
    return call_fail(
      c->cx,
      "mean(): could not infer output dtype. %s dtype must be either a floating point or "
      "complex dtype. Got: %s",
      given ? "Optional" : "Input", dtype_aten_name(dtype));
  if (dtype_is_float8(dtype))
    return refuse_dtype(&r, "sum_cpu", dtype);
  TRY(as_dtype(&r, dtype, &x));
  const double n = (double)reduce_n_elems(r.x, r.dims);
  rush_status st = reduce_as(&r, x, REDUCE_SUM, dtype, finish_divide, &n);
  tensor_release(x);
  return st;
}

/* (self, dim) */
rush_status kernel_reduce_count_nonzero(rush_call *c)
{
  reduction r;
  TRY(read_reduction(c, &r));
  reduce_job job = {.dims = r.dims, .kind = REDUCE_SUM, .type = TY_I64, .as_bool = true};
  rush_tensor *x = NULL;
  TRY(dtype_is_complex(r.x->dtype) ? tensor_to_dtype(c->cx, r.x, RUSH_BOOL, &x)
                                   : (x = tensor_retain(r.x), RUSH_OK));
  job.x = x;
  rush_status st = give_to(&r, &job, RUSH_INT64, NULL, NULL);
  tensor_release(x);
  return st;
}

/* (self, size) */
rush_status kernel_reduce_sum_to_size(rush_call *c)
{
  reduction r = {.c = c, .x = call_tensor(c, 0), .keepdim = true};
  int64_t want[TENSOR_MAX_DIMS];
  int n;
  TRY(call_sizes(c, 1, want, &n));
  const int lead = r.x->n_dims - n;
  bool fits = lead >= 0;
  for (int d = 0; d < r.x->n_dims && fits; d++) {
    const int64_t to = d < lead ? 1 : want[d - lead];
    fits = to == 1 || to == r.x->sizes[d];
    if (d < lead || (to == 1 && r.x->sizes[d] != 1))
      r.dims |= UINT64_C(1) << d;
  }
  if (!fits) {
    sizes_text a, b;
    return call_fail(c->cx, "size {%s} is not expandable to size {%s}.", sizes_print(&a, n, want),
                     sizes_print(&b, r.x->n_dims, r.x->sizes));
  }
  if (r.dims == 0 && n > 0) {
    call_return_arg(c, 0, 0);
    return RUSH_OK;
  }
  r.n_dims = n;
  memcpy(r.sizes, want, sizeof *want * (size_t)n);
  const int dtype = dtype_class_of(r.x->dtype) <= DTYPE_INT ? RUSH_INT64 : r.x->dtype;
  return reduce_as(&r, r.x, REDUCE_SUM, dtype, NULL, NULL);
}

/* -- All, any ---------------------------------------------------------------------------------- */

static rush_status truth(rush_call *c, reduce_kind kind)
{
  reduction r;
  rush_tensor *x = NULL;
  TRY(read_reduction(c, &r));
  const int dim = arg_named(c, "dim");
  if (r.whole && dim >= 0 &&
      c->args[dim].tag == RUSH_TAG_LIST) { /* an empty list names no dimension here */
    r.dims = 0;
    result_sizes(&r);
  }
  TRY(dtype_is_complex(r.x->dtype) ? tensor_to_dtype(c->cx, r.x, RUSH_BOOL, &x)
                                   : (x = tensor_retain(r.x), RUSH_OK));
  reduce_job job = {
    .x = x, .dims = r.dims, .kind = kind, .type = TY_BOOL, .as_bool = x->dtype != RUSH_BOOL};
  rush_status st = give_to(&r, &job, r.x->dtype == RUSH_UINT8 ? RUSH_UINT8 : RUSH_BOOL, NULL, NULL);
  tensor_release(x);
  return st;
}

rush_status kernel_reduce_all(rush_call *c) { return truth(c, REDUCE_MIN); }
rush_status kernel_reduce_any(rush_call *c) { return truth(c, REDUCE_MAX); }

/* -- Extremes ---------------------------------------------------------------------------------- */

/* Check that every output has an element to choose. */
static rush_status check_nonempty(const reduction *r, const char *name, const char *whole_text,
                                  const char *whole_type)
{
  if (r->x->n_elems > 0)
    return RUSH_OK;
  if (r->whole)
    return call_fail_type(r->c->cx, whole_type, "%s%s", name, whole_text);
  for (int d = 0; d < r->x->n_dims; d++)
    if (r->dims >> d & 1 && r->x->sizes[d] == 0)
      return call_fail_type(r->c->cx, "IndexError",
                            "%s: Expected reduction dim %d to have non-zero size.", name, d);
  return RUSH_OK;
}

#define NAME_DIM                                                                                \
  ": Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim " \
  "with the 'dim' argument."

static rush_status check_ordered(const reduction *r, const char *kernel)
{
  const int dtype = r->x->dtype;
  if (dtype_is_complex(dtype) || dtype_is_float8(dtype) || tape_type_of(dtype) < 0 ||
      dtype == RUSH_UINT64)
    return refuse_dtype(r, kernel, dtype);
  return RUSH_OK;
}

static rush_status extreme(rush_call *c, reduce_kind kind, const char *name, const char *kernel)
{
  reduction r;
  TRY(read_reduction(c, &r));
  TRY(check_ordered(&r, kernel));
  TRY(check_nonempty(&r, name, NAME_DIM, "RuntimeError"));
  reduce_job job = {.x = r.x, .dims = r.dims, .kind = kind, .type = acc_type(r.x->dtype)};
  return give_to(&r, &job, r.x->dtype, NULL, NULL);
}

rush_status kernel_reduce_amax(rush_call *c)
{
  return extreme(c, REDUCE_MAX, "amax()", "max_values_cpu");
}
rush_status kernel_reduce_amin(rush_call *c)
{
  return extreme(c, REDUCE_MIN, "amin()", "min_values_cpu");
}
rush_status kernel_reduce_max(rush_call *c) { return extreme(c, REDUCE_MAX, "max()", "max_all"); }
rush_status kernel_reduce_min(rush_call *c) { return extreme(c, REDUCE_MIN, "min()", "min_all"); }

rush_status kernel_reduce_aminmax(rush_call *c)
{
  reduction r;
  TRY(read_reduction(c, &r));
  TRY(check_ordered(&r, "aminmax_cpu"));
  TRY(check_nonempty(
    &r, r.whole ? "aminmax()" : "aminmax",
    ": cannot compute aminmax over an empty dimension as the operation has no identity.",
    "RuntimeError"));
  for (uint32_t i = 0; i < 2; i++) {
    reduce_job job = {
      .x = r.x, .dims = r.dims, .kind = i ? REDUCE_MAX : REDUCE_MIN, .type = acc_type(r.x->dtype)};
    rush_tensor *out = NULL;
    TRY(run_to(&r, &job, r.x->dtype, NULL, NULL, &out));
    call_return_steal(c, i, out);
  }
  return RUSH_OK;
}

/* Compute values (may not be needed) and indices. */
static rush_status extreme_at(const reduction *r, reduce_kind kind, rush_tensor **values,
                              rush_tensor **at)
{
  call_ctx *cx = r->c->cx;
  const tape_type type = acc_type(r->x->dtype);
  reduce_job job = {.x = r->x, .dims = r->dims, .kind = kind, .type = type};
  rush_tensor *indices = NULL, *v = NULL;
  void *acc = NULL;
  const int64_t n = reduce_n_outputs(r->x, r->dims);
  rush_status st = tensor_new(cx, RUSH_INT64, r->n_dims, r->sizes, &indices);
  if (st == RUSH_OK)
    st = new_accs(cx, type, n, &acc);
  if (st == RUSH_OK)
    st = reduce_run(cx, &job, acc);
  if (st == RUSH_OK)
    st = reduce_find(cx, &job, acc, tensor_data_mut(indices));
  if (st == RUSH_OK && values)
    st = tensor_new(cx, r->x->dtype, r->n_dims, r->sizes, &v);
  if (st == RUSH_OK && values)
    st = store_accs(cx, v, type, acc);
  free_accs(cx, type, n, acc);
  if (st != RUSH_OK) {
    tensor_release(v);
    tensor_release(indices);
    return st;
  }
  if (values)
    *values = v;
  *at = indices;
  return st;
}

static rush_status extreme_dim(rush_call *c, reduce_kind kind, const char *name, const char *kernel)
{
  reduction r;
  rush_tensor *values = NULL, *at = NULL;
  TRY(read_reduction(c, &r));
  if (dtype_is_complex(r.x->dtype))
    return call_fail(c->cx, "%s: does not support complex input", name);
  TRY(check_ordered(&r, kernel));
  TRY(check_nonempty(&r, name, NAME_DIM, "RuntimeError"));
  TRY(extreme_at(&r, kind, &values, &at));
  call_return_steal(c, 0, values);
  call_return_steal(c, 1, at);
  return RUSH_OK;
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
  reduction r;
  rush_tensor *at = NULL;
  TRY(read_reduction(c, &r));
  if (dtype_is_complex(r.x->dtype) || r.x->dtype == RUSH_BOOL)
    return call_fail(c->cx, "%s: does not support %s input", name,
                     r.x->dtype == RUSH_BOOL ? "bool" : "complex");
  TRY(check_ordered(&r, kernel));
  TRY(check_nonempty(&r, name, ": Expected reduction dim to be specified for input.numel() == 0.",
                     "IndexError"));
  TRY(extreme_at(&r, kind, NULL, &at));
  call_return_steal(c, 0, at);
  return RUSH_OK;
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

static rush_status variance_of(const reduction *r, double correction, bool root, rush_tensor **var,
                               rush_tensor **mean)
{
  call_ctx *cx = r->c->cx;
  const bool pairs = dtype_is_complex(r->x->dtype);
  const int64_t n_out = reduce_n_outputs(r->x, r->dims), n_acc = pairs ? 2 * n_out : n_out;
  const double n = (double)reduce_n_elems(r->x, r->dims);
  void *means = NULL, *devs = NULL;
  rush_tensor *v = NULL, *m = NULL;
  reduce_job job = {.x = r->x, .dims = r->dims, .kind = REDUCE_SUM, .type = TY_F64};
  rush_status st = new_accs(cx, TY_F64, n_acc, &means);
  if (st == RUSH_OK)
    st = new_accs(cx, TY_F64, n_acc, &devs);
  if (st == RUSH_OK)
    st = reduce_run(cx, &job, means);
  if (st == RUSH_OK)
    st = finish_all(cx, finish_mean, means, TY_F64, n_acc, &n);
  if (st == RUSH_OK) {
    job.kind = REDUCE_SQ_DEV;
    job.param = means;
    st = reduce_run(cx, &job, devs);
  }
  if (st == RUSH_OK)
    st = tensor_new(cx, pairs ? dtype_to_real(r->x->dtype) : r->x->dtype, r->n_dims, r->sizes, &v);
  if (st == RUSH_OK && mean)
    st = tensor_new(cx, r->x->dtype, r->n_dims, r->sizes, &m);
  if (st == RUSH_OK) {
    const spread_arg by = {n == 0 ? 0 : n - correction > 0 ? n - correction : 0, pairs, root};
    st = finish_all(cx, finish_variance, devs, TY_F64, n_out, &by);
  }
  if (st == RUSH_OK)
    st = store_accs(cx, v, TY_F64, devs);
  if (st == RUSH_OK && mean)
    st = store_accs(cx, m, TY_F64, means);
  free_accs(cx, TY_F64, n_acc, means);
  free_accs(cx, TY_F64, n_acc, devs);
  if (st != RUSH_OK) {
    tensor_release(v);
    tensor_release(m);
    return st;
  }
  *var = v;
  if (mean)
    *mean = m;
  return RUSH_OK;
}

/* (self, [dim], unbiased | correction, [keepdim]) */
static rush_status variance(rush_call *c, bool root, bool with_mean, const char *name)
{
  reduction r;
  rush_tensor *var = NULL, *mean = NULL;
  TRY(read_reduction(c, &r));
  if (!dtype_is_float(r.x->dtype) && !dtype_is_complex(r.x->dtype))
    return call_fail(c->cx, "%s only support floating point and complex dtypes",
                     with_mean ? name : "std and var");
  if (dtype_is_float8(r.x->dtype))
    return refuse_dtype(&r, "std_cpu", r.x->dtype);
  const int unbiased = arg_named(c, "unbiased"), by = arg_named(c, "correction");
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
  TRY(variance_of(&r, correction, root, &var, with_mean ? &mean : NULL));
  call_return_steal(c, 0, var);
  if (with_mean)
    call_return_steal(c, 1, mean);
  return RUSH_OK;
}

rush_status kernel_reduce_var(rush_call *c) { return variance(c, false, false, "var"); }
rush_status kernel_reduce_std(rush_call *c) { return variance(c, true, false, "std"); }
rush_status kernel_reduce_var_mean(rush_call *c) { return variance(c, false, true, "var_mean"); }
rush_status kernel_reduce_std_mean(rush_call *c) { return variance(c, true, true, "std_mean"); }

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
  reduction r;
  void *max = NULL;
  TRY(read_reduction(c, &r));
  if (dtype_is_complex(r.x->dtype))
    return call_unsupported(c->cx, "logsumexp of complex tensors");
  const int dtype = dtype_class_of(r.x->dtype) <= DTYPE_INT ? RUSH_FLOAT32 : r.x->dtype;
  const tape_type type = acc_type(dtype);
  const int64_t n = reduce_n_outputs(r.x, r.dims);
  reduce_job job = {.x = r.x, .dims = r.dims, .kind = REDUCE_MAX, .type = type};
  TRY(new_accs(c->cx, type, n, &max));
  rush_status st = reduce_run(c->cx, &job, max);
  if (st == RUSH_OK)
    st = finish_all(c->cx, finite_or_zero, max, type, n, NULL);
  if (st == RUSH_OK) {
    job.kind = REDUCE_EXP_SUM;
    job.param = max;
    st = give_to(&r, &job, dtype, finish_log, max);
  }
  free_accs(c->cx, type, n, max);
  return st;
}

/* -- Norms ------------------------------------------------------------------------------------- */

static rush_status check_norm(const reduction *r, int dtype, double p)
{
  call_ctx *cx = r->c->cx;
  const int from = r->x->dtype;
  if (!dtype_is_float(from) && !dtype_is_complex(from))
    return strcmp(r->c->op->schema->name, "aten::norm") == 0
             ? call_fail(
                 cx,
                 "norm(): input dtype should be either floating point or complex. Got %s instead.",
                 dtype_aten_name(from))
             : call_fail(
                 cx,
                 "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s",
                 dtype_aten_name(from));
  if (dtype != DTYPE_NONE && !dtype_is_float(dtype) && !dtype_is_complex(dtype))
    return call_fail(cx,
                     "linalg.vector_norm: dtype should be floating point or complex, but got %s",
                     dtype_aten_name(dtype));
  if (dtype != DTYPE_NONE && dtype_is_complex(from) != dtype_is_complex(dtype))
    return call_fail(cx, "linalg.vector_norm: dtype should be %s for %s inputs, but got %s",
                     dtype_is_complex(from) ? "complex" : "real",
                     dtype_is_complex(from) ? "complex" : "real", dtype_aten_name(dtype));
  if (dtype != DTYPE_NONE && dtype_promote(from, dtype) != dtype)
    return call_fail(
      cx,
      "linalg.vector_norm: the dtype of the input (%s) should be convertible without narrowing to "
      "the specified dtype (%s)",
      dtype_aten_name(from), dtype_aten_name(dtype));
  if (r->x->n_elems > 0 || !(p < 0 || p == INFINITY))
    return RUSH_OK;
  char ord[32];
  snprintf(ord, sizeof ord, isinf(p) ? (p < 0 ? "-inf" : "inf") : "%g", p);
  if (r->whole)
    return call_fail(cx,
                     "linalg.vector_norm cannot compute the %s norm on an empty tensor because the "
                     "operation does not "
                     "have an identity",
                     ord);
  for (int d = 0; d < r->x->n_dims; d++)
    if (r->dims >> d & 1 && r->x->sizes[d] == 0)
      return call_fail(cx,
                       "linalg.vector_norm cannot compute the %s norm on the dimension %dbecause "
                       "this dimension is "
                       "empty and the operation does not have an identity",
                       ord, d);
  return RUSH_OK;
}

/* Compute |x| to the power p; *out new. */
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

static rush_status norm_of(reduction *r, rush_tensor *x, double p, int dtype)
{
  reduce_job job = {.x = x, .dims = r->dims, .type = acc_type(dtype)};
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
  rush_status st = give_to(r, &job, dtype, finish, &root);
  tensor_release(power);
  return st;
}

static rush_status vector_norm(rush_call *c, double p)
{
  reduction r;
  rush_tensor *x = NULL, *abs = NULL;
  TRY(read_reduction(c, &r));
  int dtype = named_dtype(c);
  TRY(check_norm(&r, dtype, p));
  dtype = dtype == DTYPE_NONE ? r.x->dtype : dtype;
  const int real = dtype_is_complex(dtype) ? dtype_to_real(dtype) : dtype;
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
    st = norm_of(&r, x, p, real);
  tensor_release(x);
  return st;
}

/* p or ord is the second argument of all overloads; None is 2. */
rush_status kernel_reduce_norm(rush_call *c)
{
  if (c->n_args > 1 && c->args[1].tag == RUSH_TAG_COMPLEX)
    return call_fail(c->cx,
                     "linalg.vector_norm: Expected a non-complex scalar as the order of norm.");
  return vector_norm(c, call_float_or(c, 1, 2));
}

/* (self, dim, keepdim) */
rush_status kernel_reduce_frobenius_norm(rush_call *c) { return vector_norm(c, 2); }
