/* ops/kernels/nn/transformer.c -- the fused layers of nn.MultiheadAttention and
 * nn.TransformerEncoderLayer, also over nested tensors: queries, keys and values are used in the
 * buffer of their one product, without copies. */
#include <math.h>
#include <string.h>

#include "ops/math/attention.h"
#include "ops/kernels/linalg/matmul.h"
#include "ops/kernels/nested/nested.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/views.h"

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
static rush_status project_third(call_ctx *cx, const mha *a, int third, rush_tensor *x,
                                 rush_tensor **out)
{
  rush_tensor *w = NULL, *b = NULL;
  rush_status st = tensor_narrow(cx, a->qkv_weight, 0, third * a->dim, a->dim, &w);
  if (st == RUSH_OK)
    st = tensor_narrow(cx, a->qkv_bias, 0, third * a->dim, a->dim, &b);
  if (st == RUSH_OK)
    st = make_linear(cx, x, w, b, out);
  tensor_release(w);
  tensor_release(b);
  return st;
}

/* Convert to float32 or float64; steals. */
static rush_status wide_steal(call_ctx *cx, rush_tensor *t, rush_tensor **out)
{
  if (!nn_is_half(t->dtype)) {
    *out = t;
    return RUSH_OK;
  }
  rush_status st = tensor_to_dtype(cx, t, RUSH_FLOAT32, out);
  tensor_release(t);
  return st;
}

/* Compute qkv[0..2]: three projections, or one of all (and NULL, NULL) if there is one input. */
static rush_status project(call_ctx *cx, const mha *a, rush_tensor **qkv)
{
  if (same_tensor(a->query, a->key) && same_tensor(a->query, a->value)) {
    TRY(make_linear(cx, a->query, a->qkv_weight, a->qkv_bias, &qkv[0]));
  } else {
    TRY(project_third(cx, a, 0, a->query, &qkv[0]));
    TRY(project_third(cx, a, 1, a->key, &qkv[1]));
    TRY(project_third(cx, a, 2, a->value, &qkv[2]));
  }
  for (int i = 0; i < 3; i++)
    if (qkv[i]) {
      rush_tensor *t = qkv[i];
      qkv[i] = NULL;
      TRY(wide_steal(cx, t, &qkv[i]));
    }
  return RUSH_OK;
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

/* Set the mask as bool (true hides) in `g`; *held is the tensor made for it. */
static rush_status set_mask(call_ctx *cx, const mha *a, attention_args *g, rush_tensor **held)
{
  if (!a->mask)
    return RUSH_OK;
  static const int n_dims[3] = {2, 2, 4};
  TRY(tensor_to_dtype(cx, a->mask, RUSH_BOOL, held));
  const rush_tensor *m = *held;
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

static rush_status attend(call_ctx *cx, const mha *a, rush_tensor **qkv, rush_tensor *out,
                          rush_tensor *weights)
{
  rush_tensor *held = NULL;
  if (tensor_nested(a->query))
    return attend_parts(cx, a, qkv, out, weights);
  attention_args g = operands(a, qkv, a->query->sizes[0], a->query->sizes[1]);
  g.out = out->data;
  if (weights) {
    g.weights = weights->data;
    g.weights_row = g.n_keys;
    g.weights_head = g.n_queries * g.weights_row;
    g.weights_batch = g.n_heads * g.weights_head;
  }
  rush_status st = set_mask(cx, a, &g, &held);
  if (st == RUSH_OK)
    st = attention(cx, &g);
  tensor_release(held);
  return st;
}

/* -- Multi-head attention ---------------------------------------------------------------------- */

/* Run attention.  *out: the projected result, in the query's dtype (and nested like it); *weights,
 * if not NULL: per head. */
static rush_status run_mha(call_ctx *cx, const mha *a, rush_tensor **out, rush_tensor **weights)
{
  rush_tensor *qkv[3] = {NULL, NULL, NULL}, *context = NULL, *narrow = NULL, *w = NULL, *y = NULL;
  TRY(check_mha(cx, a));
  rush_status st = project(cx, a, qkv);
  if (st == RUSH_OK)
    st = tensor_new(cx, qkv[0]->dtype, a->query->n_dims, a->query->sizes, &context);
  if (st == RUSH_OK && weights) {
    const rush_tensor *parts = tensor_nested(a->query);
    const int64_t n = parts ? longest_part(parts) : a->query->sizes[1];
    const int64_t sizes[4] = {parts ? parts->sizes[0] : a->query->sizes[0], a->n_heads, n, n};
    st = tensor_new(cx, qkv[0]->dtype, 4, sizes, &w);
  }
  if (st == RUSH_OK)
    st = attend(cx, a, qkv, context, w);
  if (st == RUSH_OK)
    st = tensor_to_dtype(cx, context, a->query->dtype, &narrow);
  if (st == RUSH_OK)
    st = make_linear(cx, narrow, a->proj_weight, a->proj_bias, &y);
  if (st == RUSH_OK && tensor_nested(a->query))
    st = nested_mark(cx, y, tensor_nested(a->query));
  for (int i = 0; i < 3; i++)
    tensor_release(qkv[i]);
  tensor_release(context);
  tensor_release(narrow);
  if (st != RUSH_OK) {
    tensor_release(w);
    tensor_release(y);
    return st;
  }
  *out = y;
  if (weights)
    *weights = w;
  return RUSH_OK;
}

/* Compute the mean over heads; steals `w`, [batch, head, query, key]. */
static rush_status average_steal(call_ctx *cx, rush_tensor *w, rush_tensor **out)
{
  const rush_value dims = value_int(1);
  rush_value list = value_none();
  rush_status st = list_of_ints(cx, &dims.as.i, 1, &list);
  if (st == RUSH_OK)
    st = nn_invoke(cx, "aten::mean", "dim", (rush_value[2]){nn_arg(w), list}, 2, out);
  value_release(list);
  tensor_release(w);
  return st;
}

/* (query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
 * need_weights,
 *  average_attn_weights, mask_type) */
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
  rush_tensor *out = NULL, *weights = NULL;
  TRY(run_mha(c->cx, &a, &out, call_bool(c, 10) ? &weights : NULL));
  call_return_steal(c, 0, out);
  if (weights && call_bool(c, 11))
    TRY(average_steal(c->cx, weights, &weights));
  if (weights && weights->dtype != a.query->dtype) {
    rush_tensor *t = NULL;
    rush_status st = tensor_to_dtype(c->cx, weights, a.query->dtype, &t);
    tensor_release(weights);
    TRY(st);
    weights = t;
  }
  call_return_steal(c, 1, weights); /* undefined if not requested */
  return RUSH_OK;
}

/* -- Encoder layer ----------------------------------------------------------------------------- */

typedef struct layer { /* borrowed */
  call_ctx *cx;
  int64_t dim;
  double eps;
  rush_tensor *norm_w[2], *norm_b[2], *ffn_w[2], *ffn_b[2];
  bool gelu;
} layer;

/* Replace *x by its norm. */
static rush_status norm(const layer *l, int which, rush_tensor **x)
{
  rush_value shape = value_none();
  rush_tensor *y = NULL;
  TRY(list_of_ints(l->cx, &l->dim, 1, &shape));
  const rush_value args[5] = {nn_arg(*x), shape, nn_arg(l->norm_w[which]), nn_arg(l->norm_b[which]),
                              value_float(l->eps)};
  rush_status st = nn_invoke(l->cx, "aten::layer_norm", "", args, 5, &y);
  value_release(shape);
  TRY(st);
  tensor_release(*x);
  *x = y;
  return RUSH_OK;
}

/* Replace *x by x + other. */
static rush_status add_to(const layer *l, rush_tensor **x, rush_tensor *other)
{
  rush_value v, args[3] = {nn_arg(*x), nn_arg(other), value_int(1)};
  TRY(op_invoke_name(l->cx, "aten::add_", "Tensor", args, 3, &v));
  value_release(v);
  return RUSH_OK;
}

/* Replace *x by its feed-forward part. */
static rush_status feed_forward(const layer *l, rush_tensor **x)
{
  rush_tensor *hidden = NULL, *out = NULL;
  rush_value acted;
  TRY(nn_invoke(l->cx, "aten::linear", "",
                (rush_value[3]){nn_arg(*x), nn_arg(l->ffn_w[0]), nn_arg(l->ffn_b[0])}, 3, &hidden));
  rush_value args[2] = {nn_arg(hidden), value_none()};
  rush_status st = l->gelu ? string_new(l->cx, "none", 4, &args[1]) : RUSH_OK;
  if (st == RUSH_OK)
    st = op_invoke_name(l->cx, l->gelu ? "aten::gelu_" : "aten::relu_", "", args, l->gelu ? 2 : 1,
                        &acted);
  value_release(args[1]);
  if (st == RUSH_OK) {
    value_release(acted);
    st =
      nn_invoke(l->cx, "aten::linear", "",
                (rush_value[3]){nn_arg(hidden), nn_arg(l->ffn_w[1]), nn_arg(l->ffn_b[1])}, 3, &out);
  }
  tensor_release(hidden);
  TRY(st);
  tensor_release(*x);
  *x = out;
  return RUSH_OK;
}

/* Run a layer; x: the sum of attention and input, or the input if norms come first. */
static rush_status run_layer(const layer *l, const mha *attention_of, bool norm_first,
                             rush_tensor **x)
{
  mha a = *attention_of;
  rush_tensor *src = a.query, *rest = NULL;
  *x = tensor_retain(src);
  if (norm_first)
    TRY(norm(l, 0, x));
  rush_tensor *attended = NULL;
  a.query = a.key = a.value = *x;
  TRY(run_mha(l->cx, &a, &attended, NULL));
  tensor_release(*x);
  *x = attended;
  TRY(add_to(l, x, src));
  if (!norm_first)
    TRY(norm(l, 0, x));
  rest = tensor_retain(*x);
  rush_status st = norm_first ? norm(l, 1, x) : RUSH_OK;
  if (st == RUSH_OK)
    st = feed_forward(l, x);
  if (st == RUSH_OK)
    st = add_to(l, x, rest);
  tensor_release(rest);
  TRY(st);
  return norm_first ? RUSH_OK : norm(l, 1, x);
}

/* (src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first,
 * eps, norm_weight_1,
 *  norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2,
 *  mask, mask_type) */
rush_status kernel__transformer_encoder_layer_fwd(rush_call *c)
{
  const mha a = {.query = call_tensor(c, 0),
                 .key = call_tensor(c, 0),
                 .value = call_tensor(c, 0),
                 .dim = call_int(c, 1),
                 .n_heads = call_int(c, 2),
                 .qkv_weight = call_tensor(c, 3),
                 .qkv_bias = call_tensor(c, 4),
                 .proj_weight = call_tensor(c, 5),
                 .proj_bias = call_tensor(c, 6),
                 .mask = call_tensor(c, 18),
                 .mask_type = call_int_or(c, 19, 0),
                 .has_type = !call_is_none(c, 19)};
  const layer l = {.cx = c->cx,
                   .dim = a.dim,
                   .eps = call_float(c, 9),
                   .gelu = call_bool(c, 7),
                   .norm_w = {call_tensor(c, 10), call_tensor(c, 12)},
                   .norm_b = {call_tensor(c, 11), call_tensor(c, 13)},
                   .ffn_w = {call_tensor(c, 14), call_tensor(c, 16)},
                   .ffn_b = {call_tensor(c, 15), call_tensor(c, 17)}};
  rush_tensor *x = NULL;
  rush_status st = run_layer(&l, &a, call_bool(c, 8), &x);
  call_return_steal(c, 0, x); /* released by the path on failure */
  return st;
}
