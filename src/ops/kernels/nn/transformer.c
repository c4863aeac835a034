/* ops/kernels/nn/transformer.c -- the fused layer of nn.MultiheadAttention, also over nested
 * tensors: queries, keys and values are used in the buffer of their one product, without copies. */
#include <math.h>
#include <string.h>

#include "ops/math/attention.h"
#include "ops/kernels/linalg/matmul.h"
#include "ops/kernels/nested/nested.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/views.h"
#include "ops/kernels/work.h"

typedef struct mha { /* borrowed arguments */
  rush_tensor *query, *key, *value, *qkv_weight, *qkv_bias, *proj_weight, *proj_bias, *mask;
  int64_t dim, n_heads;
  int64_t mask_type; /* 0: [query, key], 1: [batch, key], 2: [batch, head, query, key] */
  bool has_type;
} mha;

/* -- Checks ------------------------------------------------------------------------------------ */

static rush_status check_mha(call_ctx *cx, const mha *a)
{
  const int nested = tensor_nested(a->query) != NULL;
  if (a->query->n_dims + nested != 3)
    return call_fail(cx, "expected 3-D `query`, got %d-D tensor", a->query->n_dims + nested);
  if (a->query->sizes[2 - nested] != a->dim)
    return call_fail(cx, "passed-in embed_dim %lld didn't match last dim of query %lld",
                     (long long)a->dim, (long long)a->query->sizes[2 - nested]);
  const rush_tensor *other[2] = {a->key, a->value};
  for (int i = 0; i < 2; i++) {
    if (other[i]->n_dims + nested != 3)
      return call_fail(cx, "expected 3-D `%s`, got %d-D tensor", i ? "value" : "key",
                       other[i]->n_dims + nested);
    if (memcmp(other[i]->sizes, a->query->sizes, sizeof *other[i]->sizes * other[i]->n_dims) != 0)
      return call_fail(cx, "expected `query`/`key`/`value` shapes to match");
  }
  if (a->qkv_weight->n_dims != 2)
    return call_fail(cx, "expected 2-D `qkv_weight`, got %d-D tensor", a->qkv_weight->n_dims);
  if (a->dim * 3 != a->qkv_weight->sizes[0])
    return call_fail(cx, "expected `qkv_weight` first dim to be 3x embed_dim");
  if (a->dim != a->qkv_weight->sizes[1])
    return call_fail(cx, "expected `qkv_weight` second dim to be embed_Dim");
  if (a->qkv_bias->n_dims != 1)
    return call_fail(cx, "expected 1-D `qkv_bias`, got %d-D tensor", a->qkv_bias->n_dims);
  if (a->qkv_bias->sizes[0] != 3 * a->dim)
    return call_fail(cx, "expected `qkv_bias` first dim and first dim of query to be equal");
  if (a->n_heads <= 0 || a->dim % a->n_heads)
    return call_fail(cx, "`embed_dim` must divide evenly by `num_heads`");
  if (a->mask && !a->has_type)
    return call_fail(cx, "Mask Type should be defined");
  if (a->mask && nested)
    return call_unsupported(cx, "_native_multi_head_attention of nested tensors with a mask");
  return RUSH_OK;
}

/* -- Pieces ------------------------------------------------------------------------------------ */

static bool same_tensor(const rush_tensor *a, const rush_tensor *b)
{
  return a == b || (a->data == b->data && a->dtype == b->dtype && tensor_same_geometry(a, b));
}

/* Project one input with rows [third * dim, (third + 1) * dim) of the packed projection. */
static rush_tensor *project_third(work *w, const mha *a, int third, rush_tensor *x)
{
  call_ctx *cx = w->cx;
  const int64_t at = third * a->dim;
  rush_tensor *rows = WORK_MAKE(w, tensor_narrow(cx, a->qkv_weight, 0, at, a->dim, &w->made)),
              *bias = WORK_MAKE(w, tensor_narrow(cx, a->qkv_bias, 0, at, a->dim, &w->made));
  return WORK_MAKE(w, make_linear(cx, x, rows, bias, &w->made));
}

/* Compute qkv[0..2] in float32 or float64: three projections, or one of all (and NULL, NULL) if
 * there is one input. */
static void project(work *w, const mha *a, rush_tensor **qkv)
{
  if (same_tensor(a->query, a->key) && same_tensor(a->query, a->value)) {
    qkv[0] =
      WORK_MAKE(w, make_linear(w->cx, a->query, a->qkv_weight, a->qkv_bias, &w->made));
  } else {
    qkv[0] = project_third(w, a, 0, a->query);
    qkv[1] = project_third(w, a, 1, a->key);
    qkv[2] = project_third(w, a, 2, a->value);
  }
  for (int i = 0; i < 3; i++)
    qkv[i] = work_input(w, qkv[i]);
}

/* Return the arguments of attention() for `rows` rows per batch. */
static attention_args operands(const mha *a, rush_tensor **qkv, int64_t n_batch, int64_t n_rows)
{
  const bool packed = qkv[1] == NULL;
  const int64_t row = packed ? 3 * a->dim : a->dim, head = a->dim / a->n_heads;
  const size_t item = tensor_item_bytes(qkv[0]);
  attention_args g = {.dtype = qkv[0]->dtype,
                      .n_batch = n_batch,
                      .n_heads = a->n_heads,
                      .n_queries = n_rows,
                      .n_keys = n_rows,
                      .dim = head,
                      .value_dim = head,
                      .kv_group = 1,
                      .scale = 1.0 / sqrt((double)head),
                      .hidden_is_nan = true,
                      .out_batch = n_rows * a->dim,
                      .out_head = head,
                      .out_row = a->dim};
  attention_operand *o[3] = {&g.q, &g.k, &g.v};
  for (int i = 0; i < 3; i++)
    *o[i] = (attention_operand){
      .data = packed ? (const char *)qkv[0]->data + (size_t)(i * a->dim) * item : qkv[i]->data,
      .batch = n_rows * row,
      .head = head,
      .row = row,
      .col = 1};
  return g;
}

/* Set `m`, bool (true hides), as the mask in `g`. */
static rush_status set_mask(call_ctx *cx, const mha *a, const rush_tensor *m, attention_args *g)
{
  static const int n_dims[3] = {2, 2, 4};
  if (a->mask_type < 0 || a->mask_type > 2)
    return call_fail(
      cx, "Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask)");
  const int n = n_dims[a->mask_type];
  const int64_t want[3][4] = {{g->n_queries, g->n_keys}, {g->n_batch, g->n_keys},
                              {g->n_batch, g->n_heads, g->n_queries, g->n_keys}};
  if (m->n_dims != n || memcmp(m->sizes, want[a->mask_type], sizeof *m->sizes * (size_t)n) != 0)
    return call_fail(cx, "the mask's shape does not fit its type %lld", (long long)a->mask_type);
  g->mask = (attention_operand){.data = m->data, .col = 1};
  g->mask.row = a->mask_type == 1 ? 0 : g->n_keys;
  g->mask.batch = a->mask_type == 0   ? 0
                  : a->mask_type == 1 ? g->n_keys
                                      : g->n_heads * g->n_queries * g->n_keys;
  g->mask.head = a->mask_type == 2 ? g->n_queries * g->n_keys : 0;
  g->mask_is_bool = g->mask_hides = true;
  return RUSH_OK;
}

static int64_t longest_part(const rush_tensor *parts)
{
  int64_t n = 0;
  for (int64_t i = 0; i < parts->sizes[0]; i++)
    n = i64_max(n, ((const int64_t *)parts->data)[i * parts->sizes[1]]);
  return n;
}

/* Compute attention of every part with itself. */
static rush_status attend_parts(call_ctx *cx, const mha *a, rush_tensor **qkv, rush_tensor *out,
                                rush_tensor *weights)
{
  const rush_tensor *parts = tensor_nested(a->query);
  const int64_t longest = longest_part(parts), item = (int64_t)tensor_item_bytes(out);
  int64_t at = 0;
  if (weights)
    memset(weights->data, 0, (size_t)weights->n_elems * (size_t)item);
  for (int64_t i = 0; i < parts->sizes[0]; i++) {
    const int64_t n = ((const int64_t *)parts->data)[i * parts->sizes[1]];
    attention_args g = operands(a, qkv, 1, n);
    const char **p[3] = {(const char **)&g.q.data, (const char **)&g.k.data,
                         (const char **)&g.v.data};
    for (int k = 0; k < 3; k++)
      *p[k] += at * g.q.row * item;
    g.out = (char *)out->data + at * a->dim * item;
    if (weights) {
      g.weights = (char *)weights->data + i * a->n_heads * longest * longest * item;
      g.weights_head = longest * longest;
      g.weights_row = longest;
    }
    TRY(attention(cx, &g));
    at += n;
  }
  return RUSH_OK;
}

static rush_status attend(work *w, const mha *a, rush_tensor **qkv, rush_tensor *out,
                          rush_tensor *weights)
{
  if (tensor_nested(a->query))
    return attend_parts(w->cx, a, qkv, out, weights);
  attention_args g = operands(a, qkv, a->query->sizes[0], a->query->sizes[1]);
  g.out = out->data;
  if (weights) {
    g.weights = weights->data;
    g.weights_row = g.n_keys;
    g.weights_head = g.n_queries * g.weights_row;
    g.weights_batch = g.n_heads * g.weights_head;
  }
  if (a->mask)
    WORK_DO(w, set_mask(w->cx, a, work_rows(w, a->mask, RUSH_BOOL), &g));
  return WORK_DO(w, attention(w->cx, &g));
}

/* -- Multi-head attention ---------------------------------------------------------------------- */

/* Run attention.  Returns the projected result, in the query's dtype (and nested like it);
 * *weights, unless NULL: per head. */
static rush_tensor *run_mha(work *w, const mha *a, rush_tensor **weights)
{
  rush_tensor *qkv[3] = {NULL, NULL, NULL}, *parts = tensor_nested(a->query);
  WORK_DO(w, check_mha(w->cx, a));
  if (w->st != RUSH_OK)
    return a->query;
  project(w, a, qkv);
  rush_tensor *context = work_new(w, qkv[0]->dtype, a->query->n_dims, a->query->sizes);
  if (weights) {
    const int64_t n = parts ? longest_part(parts) : a->query->sizes[1];
    const int64_t sizes[4] = {parts ? parts->sizes[0] : a->query->sizes[0], a->n_heads, n, n};
    *weights = work_new(w, qkv[0]->dtype, 4, sizes);
  }
  if (w->st == RUSH_OK)
    w->st = attend(w, a, qkv, context, weights ? *weights : NULL);
  rush_tensor *narrow = work_rows(w, context, a->query->dtype),
              *y = WORK_MAKE(w, make_linear(w->cx, narrow, a->proj_weight, a->proj_bias, &w->made));
  if (parts)
    WORK_DO(w, nested_mark(w->cx, y, parts));
  return y;
}

/* Return the mean over heads of [batch, head, query, key]. */
static rush_tensor *average(work *w, rush_tensor *t)
{
  const int64_t dim = 1;
  rush_value list = value_none();
  WORK_DO(w, list_of_ints(w->cx, &dim, 1, &list));
  t = work_invoke(w, "aten::mean", "dim", (rush_value[2]){nn_arg(t), list}, 2);
  value_release(list);
  return t;
}

/* (query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
 * need_weights, average_attn_weights, mask_type) */
rush_status kernel__native_multi_head_attention(rush_call *c)
{
  const mha a = {.query = call_tensor(c, 0),
                 .key = call_tensor(c, 1),
                 .value = call_tensor(c, 2),
                 .dim = call_int(c, 3),
                 .n_heads = call_int(c, 4),
                 .qkv_weight = call_tensor(c, 5),
                 .qkv_bias = call_tensor(c, 6),
                 .proj_weight = call_tensor(c, 7),
                 .proj_bias = call_tensor(c, 8),
                 .mask = call_tensor(c, 9),
                 .mask_type = call_int_or(c, 12, 0),
                 .has_type = !call_is_none(c, 12)};
  work w = work_begin(c);
  rush_tensor *weights = NULL, *out = run_mha(&w, &a, call_bool(c, 10) ? &weights : NULL);
  if (weights && call_bool(c, 11))
    weights = average(&w, weights);
  if (weights) /* undefined when not asked for */
    weights = work_rows(&w, weights, a.query->dtype);
  if (w.st == RUSH_OK) {
    call_return_steal(c, 0, tensor_retain(out));
    call_return_steal(c, 1, tensor_retain(weights));
  }
  return work_end(&w);
}
