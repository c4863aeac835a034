/* ops/kernels/nn/attention_ops.c -- operators of attention: scaled_dot_product_attention and its
 * parts.  attention.c does the work.
 *
 * PyTorch chooses between a fused kernel and a composite; the choice shows in the strides of the
 * result and in the refusals, so it is made here too.  Both run the same kernel. */
#include <math.h>
#include <string.h>

#include "ops/math/attention.h"
#include "ops/call/call.h"
#include "ops/kernels/linalg/matmul.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/views.h"
#include "ops/kernels/work.h"
#include "tensor/iter.h"

typedef struct sdpa { /* arguments, borrowed, and what is made of them */
  rush_tensor *q, *k, *v, *mask;
  double dropout, scale;
  bool causal, gqa;
  /* requires grad, in a call that may record: PyTorch then takes the differentiable path */
  bool learned_mask;
} sdpa;

/* PyTorch's sdp::SDPBackend. */
enum { SDP_MATH = 0, SDP_FLASH = 1 };

/* -- The choice -------------------------------------------------------------------------------- */

static bool dense_last(const rush_tensor *t)
{
  return t->strides[t->n_dims - 1] == 1 || t->sizes[t->n_dims - 1] == 1;
}

static bool mask_fits_flash(const sdpa *a)
{
  const rush_tensor *m = a->mask;
  const int64_t want[4] = {a->q->sizes[0], a->q->sizes[1], a->q->sizes[2], a->k->sizes[2]};
  if (!m)
    return true;
  if (a->learned_mask || (m->n_dims != 2 && m->n_dims != 4))
    return false;
  for (int i = 0; i < m->n_dims; i++)
    if (m->sizes[i] != 1 && m->sizes[i] != want[i + 4 - m->n_dims])
      return false;
  return true;
}

static int choose(const sdpa *a)
{
  const rush_tensor *q = a->q, *k = a->k, *v = a->v;
  if (q->n_dims != 4 || k->n_dims != 4 || v->n_dims != 4 || a->dropout > 0.0)
    return SDP_MATH;
  if (nn_dtype(q->dtype) != RUSH_FLOAT32 && q->dtype != RUSH_FLOAT64)
    return SDP_MATH;
  if (q->sizes[0] != k->sizes[0] || q->sizes[0] != v->sizes[0] || q->sizes[3] != k->sizes[3] ||
      q->sizes[3] != v->sizes[3])
    return SDP_MATH;
  const bool same_heads = q->sizes[1] == k->sizes[1] && q->sizes[1] == v->sizes[1];
  const bool grouped =
    a->gqa && k->sizes[1] == v->sizes[1] && k->sizes[1] && q->sizes[1] % k->sizes[1] == 0;
  if (!same_heads && !grouped)
    return SDP_MATH;
  if (q->sizes[2] == 0 || k->sizes[2] == 0 || q->n_elems == 0)
    return SDP_MATH;
  return dense_last(q) && dense_last(k) && dense_last(v) && mask_fits_flash(a) ? SDP_FLASH
                                                                               : SDP_MATH;
}

/* -- Operands ---------------------------------------------------------------------------------- */

typedef struct folded { /* any number of leading dimensions as batch and head */
  int n_lead;
  int64_t lead[TENSOR_MAX_DIMS];
  int64_t batch, heads, kv_heads;
} folded;

/* Return t, of any strides, as `dtype`. */
static rush_tensor *as_dtype(work *w, rush_tensor *t, int dtype)
{
  return t->dtype == dtype ? t : work_rows(w, t, dtype);
}

/* View `t` as [batch, heads, rows, cols]; heads 0: there is no head dimension to group. */
static attention_operand fold(work *w, const folded *f, rush_tensor *t, int64_t heads,
                              int64_t rows_, int64_t cols)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  for (int i = 0; i < f->n_lead; i++)
    sizes[i] = f->lead[i];
  if (f->n_lead)
    sizes[f->n_lead - 1] = heads;
  sizes[f->n_lead] = rows_;
  sizes[f->n_lead + 1] = cols;
  t = WORK_MAKE(w, tensor_expand(w->cx, t, f->n_lead + 2, sizes, &w->made));
  if (f->n_lead > 2) {
    const int64_t four[4] = {f->batch, heads, rows_, cols};
    t = WORK_MAKE(w, tensor_reshape(w->cx, t, 4, four, &w->made));
  }
  if (w->st != RUSH_OK)
    return (attention_operand){0};
  const int64_t *s = t->strides + t->n_dims;
  return (attention_operand){.data = t->data, .batch = t->n_dims > 3 ? s[-4] : 0,
                             .head = t->n_dims > 2 ? s[-3] : 0, .row = s[-2], .col = s[-1]};
}

/* Compute leading sizes of the scores; the last one is the number of heads. */
static rush_status fold_lead(call_ctx *cx, const sdpa *a, folded *f)
{
  int64_t qk[TENSOR_MAX_DIMS], ql[TENSOR_MAX_DIMS], kl[TENSOR_MAX_DIMS], vl[TENSOR_MAX_DIMS];
  int n = 0;
  const rush_tensor *t[3] = {a->q, a->k, a->v};
  int64_t *l[3] = {ql, kl, vl};
  for (int i = 0; i < 3; i++)
    memcpy(l[i], t[i]->sizes, sizeof *ql * (size_t)(t[i]->n_dims - 2));
  if (a->gqa && a->q->n_dims > 2 && a->k->n_dims > 2 && a->v->n_dims > 2) {
    const int64_t hq = ql[a->q->n_dims - 3], hk = kl[a->k->n_dims - 3], hv = vl[a->v->n_dims - 3];
    if (hk == 0 || hv == 0 || hq % hk || hq % hv)
      return call_fail(cx,
                       "Number of heads in key and value must divide the number of heads in query");
    if (hk != hv)
      return call_unsupported(
        cx, "scaled_dot_product_attention with different numbers of heads in key and value");
    f->kv_heads = hk;
    kl[a->k->n_dims - 3] = vl[a->v->n_dims - 3] = hq;
  }
  if (!sizes_broadcast(a->q->n_dims - 2, ql, a->k->n_dims - 2, kl, &n, qk) ||
      !sizes_broadcast(n, qk, a->v->n_dims - 2, vl, &f->n_lead, f->lead)) {
    const int at = a->q->n_dims > 2 ? a->q->n_dims - 3 : 0;
    for (int i = 0; i <= at; i++)
      if (i < a->k->n_dims - 2 && ql[i] != kl[i])
        return call_fail(
          cx,
          "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton "
          "dimension %d",
          (long long)ql[i], (long long)kl[i], i);
    return call_fail(cx, "The batch sizes of query, key and value do not fit");
  }
  f->batch = f->heads = 1;
  for (int i = 0; i < f->n_lead - 1; i++)
    f->batch *= f->lead[i];
  if (f->n_lead)
    f->heads = f->lead[f->n_lead - 1];
  if (!f->kv_heads)
    f->kv_heads = f->heads;
  return RUSH_OK;
}

/* Refuse a product whose inner sizes differ, as the batch of products does. */
static rush_status check_inner(call_ctx *cx, int64_t batch, int64_t want, int64_t have)
{
  return want == have ? RUSH_OK
                      : call_fail(cx,
                                  "Expected size for first two dimensions of batch2 tensor to be: "
                                  "[%lld, %lld] but got: [%lld, %lld].",
                                  (long long)batch, (long long)want, (long long)batch,
                                  (long long)have);
}

static rush_status fold_all(work *w, const sdpa *a, const folded *f, attention_args *args)
{
  const int64_t l = a->q->sizes[a->q->n_dims - 2], s = a->k->sizes[a->k->n_dims - 2];
  const int64_t e = a->q->sizes[a->q->n_dims - 1], ev = a->v->sizes[a->v->n_dims - 1];
  TRY(check_inner(w->cx, f->batch, e, a->k->sizes[a->k->n_dims - 1]));
  TRY(check_inner(w->cx, f->batch, s, a->v->sizes[a->v->n_dims - 2]));
  *args = (attention_args){.dtype = nn_dtype(a->q->dtype),
                           .n_batch = f->batch,
                           .n_heads = f->heads,
                           .n_queries = l,
                           .n_keys = s,
                           .dim = e,
                           .value_dim = ev,
                           .causal = a->causal,
                           .scale = a->scale,
                           .kv_group = f->kv_heads ? f->heads / f->kv_heads : 1};
  args->q = fold(w, f, as_dtype(w, a->q, args->dtype), f->heads, l, e);
  args->k = fold(w, f, as_dtype(w, a->k, args->dtype), f->kv_heads, s, e);
  args->v = fold(w, f, as_dtype(w, a->v, args->dtype), f->kv_heads, s, ev);
  return w->st;
}

static rush_status fold_mask(work *w, const sdpa *a, const folded *f, attention_args *args)
{
  rush_tensor *m = a->mask;
  if (!m)
    return RUSH_OK;
  args->mask_is_bool = m->dtype == RUSH_BOOL;
  const int n = m->n_dims;
  const int64_t want[2] = {args->n_keys, args->n_queries};
  for (int i = 0; i < 2 && i < n; i++)
    if (m->sizes[n - 1 - i] != 1 && m->sizes[n - 1 - i] != want[i])
      return call_fail(w->cx,
                       "The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                       "non-singleton dimension %d",
                       (long long)want[i], (long long)m->sizes[n - 1 - i], f->n_lead + 1 - i);
  if (!args->mask_is_bool)
    m = as_dtype(w, m, args->dtype);
  args->mask = fold(w, f, m, f->heads, args->n_queries, args->n_keys);
  return w->st;
}

/* -- The call ---------------------------------------------------------------------------------- */

static rush_status check_attention(call_ctx *cx, const sdpa *a)
{
  const rush_tensor *q = a->q, *k = a->k, *v = a->v;
  if (q->dtype != k->dtype || q->dtype != v->dtype)
    return call_fail(cx,
                     "Expected query, key, and value to have the same dtype, but got query.dtype: "
                     "%s key.dtype: %s and "
                     "value.dtype: %s instead.",
                     dtype_c_name(q->dtype), dtype_c_name(k->dtype), dtype_c_name(v->dtype));
  if (q->n_dims < 2 || k->n_dims < 2 || v->n_dims < 2)
    return call_fail(cx,
                     "Expected query, key, and value to all be  at least 2 dimensional, but got "
                     "query.dim: %d key.dim: %d "
                     "and value.dim: %d instead.",
                     q->n_dims, k->n_dims, v->n_dims);
  if (a->mask && a->mask->dtype != RUSH_BOOL && a->mask->dtype != RUSH_FLOAT32 &&
      a->mask->dtype != q->dtype)
    return call_fail(cx,
                     "Expected attn_mask dtype to be bool or float or to match query dtype, but "
                     "got attn_mask.dtype: %s "
                     "and  query.dtype: %s instead.",
                     dtype_c_name(a->mask->dtype), dtype_c_name(q->dtype));
  if (nn_dtype(q->dtype) != RUSH_FLOAT32 && q->dtype != RUSH_FLOAT64)
    return call_fail(cx, "expected scalar type Float but found %s", dtype_aten_name(q->dtype));
  return RUSH_OK;
}

/* Make result 0, of the sizes of the scores times values, or (flash) laid out as q; result 1 if
 * `with_lse`: the logarithms of the sums. */
static rush_status run_attention(rush_call *c, const sdpa *a, bool flash, bool with_lse)
{
  folded f = {0};
  attention_args args = {0};
  work w = work_begin(c);
  WORK_DO(&w, fold_lead(c->cx, a, &f));
  WORK_DO(&w, fold_all(&w, a, &f, &args));
  WORK_DO(&w, fold_mask(&w, a, &f, &args));
  int64_t sizes[TENSOR_MAX_DIMS + 2];
  memcpy(sizes, f.lead, sizeof *sizes * (size_t)f.n_lead);
  sizes[f.n_lead] = args.n_queries;
  sizes[f.n_lead + 1] = args.value_dim;
  rush_tensor *y = flash ? WORK_MAKE(&w, tensor_new_like(c->cx, a->q, args.dtype, &w.made))
                         : work_new(&w, args.dtype, f.n_lead + 2, sizes);
  if (with_lse) {
    const int64_t by_head[3] = {args.n_batch, args.n_queries, args.n_heads};
    const rush_tensor *sums = work_new(&w, args.dtype, 3, by_head);
    args.lse = sums->data;
    WORK_DO(&w, tensor_transpose(c->cx, sums, 1, 2, call_result(c, 1)));
  }
  if (w.st == RUSH_OK) {
    const int64_t *s = y->strides + y->n_dims;
    args.out = y->data;
    args.out_row = s[-2];
    args.out_head = flash ? s[-3] : args.n_queries * args.value_dim;
    args.out_batch = flash ? s[-4] : f.heads * args.out_head;
    w.st = attention(c->cx, &args);
  }
  if (a->q->dtype != args.dtype) {
    const rush_tensor *wide = y;
    y = WORK_MAKE(&w, tensor_new_like(c->cx, y, a->q->dtype, &w.made));
    WORK_DO(&w, tensor_copy(c->cx, y, wide));
  }
  return work_end_with(&w, y, call_result(c, 0));
}

static double scale_or_default(const rush_call *c, uint32_t i, const rush_tensor *q)
{
  const double e = q->n_dims ? (double)q->sizes[q->n_dims - 1] : 1.0;
  return call_float_or(c, i, e > 0 ? 1.0 / sqrt(e) : 1.0);
}

/* Run the composite, which adds its mask, because dropout draws numbers. */
static rush_status through_math(rush_call *c, rush_tensor *mask)
{
  const op *o = op_find(c->cx->ctx, str_of("aten::_scaled_dot_product_attention_math"), str_of(""));
  rush_value args[9] = {c->args[0], c->args[1], c->args[2], c->args[3], c->args[4], c->args[5],
                        value_none(), c->args[6], c->args[7]};
  rush_value results[2];
  rush_tensor *sums = NULL;
  if (mask && mask->dtype == RUSH_BOOL) {
    const rush_value where[3] = {args[3], value_float(0.0), value_float(-INFINITY)};
    TRY(nn_invoke(c->cx, "aten::where", "Scalar", where, 3, &sums));
    args[3] = nn_arg(sums);
  }
  rush_status st = op_invoke(c->cx, o, args, 9, results, 2);
  tensor_release(sums);
  TRY(st);
  value_release(results[1]);
  c->results[0] = results[0];
  return RUSH_OK;
}

/* (query, key, value, attn_mask, dropout_p, is_causal, *, scale, enable_gqa) */
static sdpa sdpa_of(const rush_call *c)
{
  return (sdpa){.q = call_tensor(c, 0),
                .k = call_tensor(c, 1),
                .v = call_tensor(c, 2),
                .mask = call_tensor(c, 3),
                .dropout = call_float(c, 4),
                .causal = call_bool(c, 5),
                .scale = scale_or_default(c, 6, call_tensor(c, 0)),
                .gqa = call_bool(c, 7),
                .learned_mask =
                  c->cx->recorder && call_tensor(c, 3) && tensor_requires_grad(call_tensor(c, 3))};
}

rush_status kernel_sdpa(rush_call *c)
{
  const sdpa a = sdpa_of(c);
  TRY(check_attention(c->cx, &a));
  const bool flash = choose(&a) == SDP_FLASH;
  if (!flash && a.causal && a.mask)
    return call_fail(
      c->cx,
      "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
  if (a.dropout > 0.0)
    return through_math(c, a.mask);
  return run_attention(c, &a, flash, false);
}

rush_status kernel__fused_sdp_choice(rush_call *c)
{
  const sdpa a = sdpa_of(c);
  TRY(check_attention(c->cx, &a));
  call_return_value_steal(c, 0, value_int(choose(&a)));
  return RUSH_OK;
}

/* (query, key, value, dropout_p, is_causal, *, attn_mask, scale) -> (output, logsumexp) */
rush_status kernel__sdpa_flash_for_cpu(rush_call *c)
{
  const sdpa a = {.q = call_tensor(c, 0),
                  .k = call_tensor(c, 1),
                  .v = call_tensor(c, 2),
                  .mask = call_tensor(c, 5),
                  .causal = call_bool(c, 4),
                  .scale = scale_or_default(c, 6, call_tensor(c, 0)),
                  .gqa = true};
  TRY(check_attention(c->cx, &a));
  if (a.q->n_dims != 4 || a.k->n_dims != 4 || a.v->n_dims != 4)
    return call_fail(c->cx, "scaled_dot_product_attention_flash_attention: Accept only 4 dims "
                            "inputs shape of {B, H, T, K}");
  if (call_float(c, 3) != 0.0)
    return call_fail(
      c->cx, "scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0");
  if (a.mask && a.mask->dtype == RUSH_BOOL)
    return call_fail(c->cx, "scaled_dot_product_attention_flash_attention: Attention mask is the "
                            "same data type as query");
  if (a.mask && a.mask->n_dims != 2 && a.mask->n_dims != 4)
    return call_fail(c->cx,
                     "scaled_dot_product_attention_flash_attention: Attention mask dim in {2, 4}");
  if (a.q->sizes[3] != a.v->sizes[3] || a.k->sizes[3] != a.v->sizes[3])
    return call_fail(
      c->cx, "scaled_dot_product_attention_flash_attention: Q/K/V should have the same head size");
  return run_attention(c, &a, true, true);
}
