/* ops/kernels/linalg/fft_ops.c -- the operators of torch.fft, around the lines of fft.c and
 * fft_lines.c. All are one of three kinds (complex to complex, real to half-complex, back) along a
 * list of dimensions, one dimension after the other. Float32 input runs in float32 only if it is
 * large; small input runs in double, where there is no time to save. An even real dimension is
 * transformed as half as many complex numbers. The shape rule determines lengths and makes the
 * result, in PyTorch's memory order. */
#include <math.h>
#include <stdatomic.h>

#include "base/threads.h"
#include "ops/math/fft.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/views.h"
#include "ops/kernels/work.h"

#define GRAIN 8192 /* elements of a task */

enum { NORM_NONE, NORM_BY_ROOT_N, NORM_BY_N };

/* -- One dimension of a contiguous complex128 tensor ------------------------------------------- */

typedef struct line_job {
  call_ctx *cx;
  const fft_plan *plan;
  cplx *x;
  int64_t n, inner;
  bool backward;
  _Atomic int failed;
} line_job;

static void run_lines(void *arg, int64_t begin, int64_t end)
{
  line_job *j = arg;
  const size_t n = (size_t)j->n, n_bytes = (2 * n + fft_scratch_len(j->plan)) * sizeof(cplx);
  cplx *in = mem_alloc_data(j->cx->ctx, n_bytes);
  if (!in) {
    atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
    return;
  }
  for (int64_t line = begin; line < end; line++) {
    cplx *x = j->x + line / j->inner * j->n * j->inner + line % j->inner;
    for (size_t i = 0; i < n && !call_over_at(j->cx, (int64_t)i); i++)
      in[i] = x[(int64_t)i * j->inner];
    fft_run(j->cx, j->plan, j->backward, in, in + n, in + 2 * n);
    for (size_t i = 0; i < n && !call_over_at(j->cx, (int64_t)i); i++)
      x[(int64_t)i * j->inner] = in[n + i];
  }
  mem_free_data(j->cx->ctx, in, n_bytes);
}

/* Transform along `dim`, from `from` (of the same form, or x itself); `scale` and `conj` (the
 * conjugate of the result) for the last of several. */
static rush_status transform(call_ctx *cx, const rush_tensor *from, rush_tensor *x, int dim,
                             bool backward, double scale, bool conj)
{
  line_job j = {.cx = cx, .x = x->data, .n = x->sizes[dim], .inner = 1, .backward = backward};
  if (x->n_elems == 0)
    return RUSH_OK;
  for (int i = dim + 1; i < x->n_dims; i++)
    j.inner *= x->sizes[i];
  if (fft_lines_has(j.n)) {
    const fft_lines f = {.form = FFT_COMPLEX,
                         .is_f64 = x->dtype == RUSH_COMPLEX128,
                         .backward = backward,
                         .conj = conj,
                         .scale = scale,
                         .n = j.n,
                         .inner = j.inner,
                         .outer = x->n_elems / j.n / j.inner,
                         .in = from->data,
                         .out = x->data};
    return fft_lines_run(cx, &f);
  }
  TRY(tensor_copy(cx, x, from));
  fft_plan *plan = fft_plan_new(cx, j.n);
  if (!plan)
    return call_nomem(cx);
  j.plan = plan;
  rush_status st = parallel_for(cx, x->n_elems / j.n, i64_max(1, GRAIN / j.n), run_lines, &j);
  fft_plan_free(cx->ctx, plan);
  for (int64_t i = 0; (scale != 1 || conj) && i < x->n_elems; i++)
    j.x[i] = (cplx){j.x[i].re * scale, conj ? -j.x[i].im * scale : j.x[i].im * scale};
  return st == RUSH_OK && j.failed ? call_nomem(cx) : st;
}

/* -- The three kinds --------------------------------------------------------------------------- */

typedef enum fft_kind { FFT_C2C, FFT_R2C, FFT_C2R } fft_kind;
typedef struct fft_job {
  fft_kind kind;
  bool backward, onesided, conj_in, conj_out;
  int norm;
  int n_dims;
  int dims[TENSOR_MAX_DIMS]; /* the last is the half-complex one */
  int64_t last;              /* C2R: its length */
  rush_tensor *out;          /* the result; the last step's if its rows are contiguous */
} fft_job;

/* Allocate memory for a step of the job: the result if it fits, else a new tensor. */
static rush_status new_step(call_ctx *cx, const fft_job *j, int dtype, int n, const int64_t *sizes,
                            rush_tensor **t)
{
  if (dtype != j->out->dtype || !tensor_is_contiguous(j->out) ||
      memcmp(sizes, j->out->sizes, sizeof *sizes * (size_t)n) != 0)
    return tensor_new(cx, dtype, n, sizes, t);
  *t = tensor_retain(j->out);
  return RUSH_OK;
}

/* Return a contiguous copy in a dtype. */
static rush_status fresh_copy(call_ctx *cx, const rush_tensor *t, const fft_job *j, int dtype,
                              rush_tensor **out)
{
  TRY(new_step(cx, j, dtype, t->n_dims, t->sizes, out));
  rush_status st = tensor_copy(cx, *out, t);
  if (st != RUSH_OK)
    tensor_release(*out);
  for (int64_t i = 0; st == RUSH_OK && j->conj_in && i < (*out)->n_elems; i++)
    if (dtype == RUSH_COMPLEX128)
      ((cplx *)(*out)->data)[i].im *= -1;
    else
      ((float *)(*out)->data)[2 * i + 1] *= -1;
  return st;
}

/* Make the other half of a transform of real numbers, along `dim`: x[n - k] is the conjugate of
 * x[k]. Steals. */
static rush_status mirror_steal(call_ctx *cx, rush_tensor *half, int dim, int64_t n,
                                rush_tensor **out)
{
  int64_t sizes[TENSOR_MAX_DIMS], inner = 1;
  rush_tensor *t = NULL;
  memcpy(sizes, half->sizes, sizeof *sizes * half->n_dims);
  const int64_t have = sizes[dim];
  sizes[dim] = n;
  for (int i = dim + 1; i < half->n_dims; i++)
    inner *= sizes[i];
  const bool is_f64 = half->dtype == RUSH_COMPLEX128;
  rush_status st = tensor_new(cx, half->dtype, half->n_dims, sizes, &t);
  for (int64_t i = 0; st == RUSH_OK && i < t->n_elems; i++) {
    const int64_t k = i / inner % n, row = i / inner / n, at = i % inner;
    const int64_t from = k < have && 2 * k <= n ? k : n - k,
                  place = (row * have + from) * inner + at;
    cplx v = {0, 0};
    if (from < have)
      v = is_f64 ? ((const cplx *)half->data)[place]
                 : (cplx){(double)((const float *)half->data)[2 * place],
                          (double)((const float *)half->data)[2 * place + 1]};
    /* what must be real is taken as real */
    v.im = from == 0 || 2 * from == n ? 0 : from == k ? v.im : -v.im;
    if (is_f64)
      ((cplx *)t->data)[i] = v;
    else
      ((float *)t->data)[2 * i] = (float)v.re, ((float *)t->data)[2 * i + 1] = (float)v.im;
  }
  tensor_release(half);
  if (st == RUSH_OK)
    *out = t;
  return st;
}

static double scale_of(const fft_job *j, const rush_tensor *x)
{
  double n = 1;
  for (int i = 0; i < j->n_dims; i++)
    n *= (double)(j->kind == FFT_C2R && i == j->n_dims - 1 ? j->last : x->sizes[j->dims[i]]);
  return j->norm == NORM_NONE ? 1 : j->norm == NORM_BY_N ? 1 / n : 1 / sqrt(n);
}

/* True for float32 if PyTorch computes in it and there is time to save: small input is computed in
 * double. */
static bool is_narrow(const rush_tensor *t, const fft_job *j)
{
  bool narrow = (t->dtype == RUSH_FLOAT32 || t->dtype == RUSH_COMPLEX64) && t->n_elems >= 4096;
  for (int i = 0; i < j->n_dims; i++)
    narrow &=
      fft_lines_has(j->kind == FFT_C2R && i == j->n_dims - 1 ? j->last : t->sizes[j->dims[i]]);
  return narrow;
}

/* True if the half-complex dimension can be transformed as half as many complex elements. */
static bool halves(const rush_tensor *t, const fft_job *j)
{
  const int last = j->n_dims ? j->dims[j->n_dims - 1] : -1;
  const int64_t n = last < 0 ? 0 : j->kind == FFT_C2R ? j->last : t->sizes[last];
  if (j->kind == FFT_C2C || last != t->n_dims - 1 || n % 2 || n == 0 || t->n_elems == 0 ||
      !fft_lines_has(n))
    return false;
  return (j->kind == FFT_R2C ? j->onesided : t->sizes[last] > n / 2) &&
         fft_lines_suits(n, t->n_elems / t->sizes[last]);
}

/* Transform along the last dimension, from x to a new tensor. */
static rush_status transform_half(call_ctx *cx, const rush_tensor *x, const fft_job *j,
                                  double scale, bool conj, rush_tensor **out)
{
  const bool of_reals = j->kind == FFT_R2C;
  const int dim = x->n_dims - 1,
            real = dtype_is_complex(x->dtype) ? dtype_to_real(x->dtype) : x->dtype;
  const int64_t n = of_reals ? x->sizes[dim] : j->last;
  int64_t sizes[TENSOR_MAX_DIMS];
  memcpy(sizes, x->sizes, sizeof *sizes * x->n_dims);
  sizes[dim] = of_reals ? n / 2 + 1 : n;
  TRY(new_step(cx, j, of_reals ? dtype_to_complex(real) : real, x->n_dims, sizes, out));
  const fft_lines f = {.form = of_reals ? FFT_OF_REALS : FFT_TO_REALS,
                       .is_f64 = real == RUSH_FLOAT64,
                       .backward = !of_reals,
                       .conj = conj,
                       .scale = scale,
                       .n = n,
                       .outer = x->n_elems / x->sizes[dim],
                       .inner = 1,
                       .in_n = x->sizes[dim],
                       .in = x->data,
                       .out = (*out)->data};
  rush_status st = fft_lines_run(cx, &f);
  if (st != RUSH_OK)
    tensor_release(*out);
  return st;
}

/* Transform the half-complex dimension of C2R, which is the last.  Steals. */
static rush_status to_reals_steal(call_ctx *cx, rush_tensor *x, const fft_job *j, bool half,
                                  double scale, rush_tensor **out)
{
  const int last = j->dims[j->n_dims - 1];
  rush_tensor *whole = NULL;
  rush_status st;
  if (half) {
    st = transform_half(cx, x, j, scale, false, &whole);
    tensor_release(x);
  } else {
    st = mirror_steal(cx, x, last, j->last, &whole);
    if (st == RUSH_OK &&
        (st = transform(cx, whole, whole, last, true, scale, j->conj_out)) != RUSH_OK)
      tensor_release(whole);
  }
  *out = whole;
  return st;
}

/* Transform and scale; the result is contiguous, complex or (for C2R) real. */
static rush_status run_complex(call_ctx *cx, const rush_tensor *t, const fft_job *j, bool half,
                               rush_tensor **out)
{
  rush_tensor *x = NULL, *y = NULL;
  const double scale = scale_of(j, t);
  const bool narrow = is_narrow(t, j), first_half = half && j->kind == FFT_R2C;
  const int real = narrow ? RUSH_FLOAT32 : RUSH_FLOAT64;
  const int n_full = j->n_dims - (first_half || j->kind == FFT_C2R);
  const int dtype = first_half ? real : dtype_to_complex(real);
  const bool ready = t->dtype == dtype && tensor_is_contiguous(t) &&
                     !j->conj_in; /* read where it is, by the first transform */
  rush_status st = RUSH_OK;
  if (!ready || (n_full == 0 && !first_half)) {
    TRY(fresh_copy(cx, t, j, dtype, &x));
    t = x;
  } else if (!first_half) {
    TRY(new_step(cx, j, dtype, t->n_dims, t->sizes, &x));
  }
  if (first_half) {
    st = transform_half(cx, t, j, n_full ? 1 : scale, !n_full && j->conj_out, &y);
    tensor_release(x);
    t = x = st == RUSH_OK ? y : NULL;
  }
  for (int i = 0; st == RUSH_OK && i < n_full; i++) {
    const bool ends = i == n_full - 1 && j->kind != FFT_C2R;
    st =
      transform(cx, i ? x : t, x, j->dims[i], j->backward, ends ? scale : 1, ends && j->conj_out);
  }
  if (st == RUSH_OK && j->kind == FFT_C2R) {
    st = to_reals_steal(cx, x, j, half, scale, &y);
    x = st == RUSH_OK ? y : NULL;
  }
  if (st != RUSH_OK) {
    tensor_release(x);
    return st;
  }
  *out = x;
  return RUSH_OK;
}

static rush_status run_fft(rush_call *c, const rush_tensor *t, fft_job *j)
{
  const bool half = halves(t, j);
  work w = work_begin(c);
  rush_tensor *x = WORK_MAKE(&w, run_complex(c->cx, t, j, half, &w.made));
  if (w.st != RUSH_OK || x == j->out)
    return work_end(&w);
  const int last = j->n_dims ? j->dims[j->n_dims - 1] : 0;
  if (x->n_dims)
    x = WORK_MAKE(&w, tensor_narrow(c->cx, x, last, 0, j->out->sizes[last], &w.made));
  WORK_DO(&w, tensor_copy(c->cx, j->out, x));
  return work_end(&w);
}

/* Read the dimensions from argument `at`.  None: the last ones, as many as there are lengths, or
 * all.
 */
static void read_dims(const rush_call *c, uint32_t at, const rush_list *lengths, fft_job *j)
{
  const int n_dims = call_tensor(c, 0)->n_dims;
  int64_t dims[TENSOR_MAX_DIMS];
  const bool given = !call_is_none(c, at);
  j->out = call_out(c, 0);
  j->n_dims = given     ? call_ints(c, at, dims, TENSOR_MAX_DIMS)
              : lengths ? (int)lengths->n
                        : n_dims;
  for (int i = 0; i < j->n_dims; i++) {
    const int d = given ? (int)dims[i] : i - j->n_dims;
    j->dims[i] = d < 0 ? d + n_dims : d;
  }
  if (j->kind == FFT_C2R)
    j->last = j->out->sizes[j->dims[j->n_dims - 1]];
}

/* -- _fft_c2c and its two relatives ------------------------------------------------------------ */

static rush_status raw_fft(rush_call *c, fft_job j)
{
  j.norm = (int)call_int(c, 2);
  read_dims(c, 1, NULL, &j);
  return run_fft(c, call_tensor(c, 0), &j);
}

rush_kernel kernel__fft_c2c, kernel__fft_r2c, kernel__fft_c2r;
/* (self, dim, normalization, forward) */
rush_status kernel__fft_c2c(rush_call *c)
{
  return raw_fft(c, (fft_job){.kind = FFT_C2C, .backward = !call_bool(c, 3)});
}
/* (self, dim, normalization, onesided) */
rush_status kernel__fft_r2c(rush_call *c)
{
  return raw_fft(c, (fft_job){.kind = FFT_R2C, .onesided = call_bool(c, 3)});
}
/* (self, dim, normalization, last_dim_size) */
rush_status kernel__fft_c2r(rush_call *c)
{
  return raw_fft(c, (fft_job){.kind = FFT_C2R, .backward = true});
}

/* -- torch.fft --------------------------------------------------------------------------------- */

static int norm_of(const rush_call *c, uint32_t at, bool forward)
{
  if (!call_is_none(c, at) && str_is(call_str(c, at), "ortho"))
    return NORM_BY_ROOT_N;
  return forward == (!call_is_none(c, at) && str_is(call_str(c, at), "forward")) ? NORM_BY_N
                                                                                 : NORM_NONE;
}

/* Compute the length of each transform of x. */
static void read_lengths(const rush_call *c, const rush_tensor *x, const fft_job *j, int64_t *sizes)
{
  const rush_list *many = call_list(c, 1);
  for (int i = 0; i < j->n_dims; i++) {
    const bool half = i == j->n_dims - 1 && j->kind != FFT_C2C;
    const int64_t told = many ? many->items[i].as.i : call_int_or(c, 1, -1);
    sizes[i] = !half                ? j->out->sizes[j->dims[i]]
               : j->kind == FFT_C2R ? j->last / 2 + 1
               : told >= 0          ? told
                                    : x->sizes[j->dims[i]];
  }
}

/* Cut or pad with zeros to the sizes along j->dims.  New. */
static rush_status resized(call_ctx *cx, rush_tensor *t, const fft_job *j, const int64_t *sizes,
                           rush_tensor **out)
{
  int64_t made[TENSOR_MAX_DIMS];
  bool same = true;
  memcpy(made, t->sizes, sizeof *made * t->n_dims);
  for (int i = 0; i < j->n_dims; i++) {
    same &= made[j->dims[i]] == sizes[i];
    made[j->dims[i]] = sizes[i];
  }
  if (same) {
    *out = tensor_retain(t);
    return RUSH_OK;
  }
  work w = work_begin_part(cx);
  rush_tensor *to = work_new(&w, t->dtype, t->n_dims, made);
  geom from, into;
  geom_of(&from, t);
  geom_of(&into, to);
  WORK_DO(&w, tensor_fill(cx, to, value_int(0)));
  for (int d = 0; d < t->n_dims; d++)
    from.sizes[d] = into.sizes[d] = i64_min(from.sizes[d], into.sizes[d]);
  WORK_DO(&w, geom_copy(cx, to, &into, t, &from));
  return work_end_with(&w, to, out);
}

/* Transform several dimensions. `forward`: the direction that the norm scales. */
static rush_status fft_nd(rush_call *c, fft_job j, bool forward)
{
  const int own = call_tensor(c, 0)->dtype,
            dtype = dtype_to_float(own, c->cx->default_dtype);
  int64_t sizes[TENSOR_MAX_DIMS];
  j.norm = norm_of(c, 3, forward);
  read_dims(c, 2, call_list(c, 1), &j);
  work w = work_begin(c);
  rush_tensor *x = WORK_MAKE(
    &w, tensor_to_dtype(c->cx, call_tensor(c, 0),
                        j.kind == FFT_R2C || dtype_is_complex(dtype) ? dtype
                                                                     : dtype_to_complex(dtype),
                        &w.made));
  if (w.st == RUSH_OK)
    read_lengths(c, x, &j, sizes);
  const rush_tensor *t = WORK_MAKE(&w, resized(c->cx, x, &j, sizes, &w.made));
  WORK_DO(&w, run_fft(c, t, &j));
  return work_end(&w);
}

#define FFT(name, job, forward)  \
  rush_kernel kernel_fft_##name; \
  rush_status kernel_fft_##name(rush_call *c) { return fft_nd(c, (fft_job)job, forward); }
#define JOB(...) {__VA_ARGS__}
FFT(fft, JOB(.kind = FFT_C2C), true)
FFT(ifft, JOB(.kind = FFT_C2C, .backward = true), false)
FFT(rfft, JOB(.kind = FFT_R2C, .onesided = true), true)
FFT(irfft, JOB(.kind = FFT_C2R, .backward = true), false)
FFT(hfft, JOB(.kind = FFT_C2R, .backward = true, .conj_in = true), true)
FFT(ihfft, JOB(.kind = FFT_R2C, .onesided = true, .conj_out = true), false)
