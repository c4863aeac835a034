/* ops/kernels/quantized/quantized_embedding.c -- embedding tables of bytes with parameters per row:
 * the custom class EmbeddingPackedParamsBase, lookup, and bags. The table remains the original
 * quantized tensor; rows are dequantized when they are looked up, and a bag then calls the ordinary
 * embedding_bag on those rows. PyTorch packs each row with its parameters after it; keeping the
 * tensor makes unpacking and the pickled state free of conversions. */
#include <string.h>

#include "ops/kernels/nn.h"
#include "ops/kernels/quantized/quantize.h"
#include "ops/kernels/quantized/quantized.h"
#include "ops/kernels/work.h"

typedef struct embedding_packed {
  context *ctx;
  rush_tensor *weight; /* quint8, parameters of each row */
} embedding_packed;

static void destroy_embedding(void *self)
{
  embedding_packed *p = self;
  tensor_release(p->weight);
  mem_free(p->ctx, p, sizeof *p);
}

static rush_status packed_new(call_ctx *cx, rush_tensor *weight, embedding_packed **out)
{
  if (weight->dtype != RUSH_QUINT8)
    return call_unsupported(cx, "embedding tables of dtype %s", dtype_name(weight->dtype));
  if (weight->n_dims != 2 || !tensor_quantizer(weight))
    return call_fail(cx, "quantized::embedding_bag_prepack weight tensor rank should be 2");
  embedding_packed *p = mem_alloc(cx->ctx, sizeof *p);
  if (!p)
    return call_nomem(cx);
  *p = (embedding_packed){cx->ctx, tensor_retain(weight)};
  *out = p;
  return RUSH_OK;
}

/* (version, [weight], [], [bits]) */
static rush_status set_embedding_state(call_ctx *cx, rush_value state, void **self)
{
  const rush_tuple *t =
    state.tag == RUSH_TAG_TUPLE && state.as.tuple->n == 4 ? state.as.tuple : NULL;
  const rush_list *l = t && t->items[1].tag == RUSH_TAG_LIST ? t->items[1].as.list : NULL;
  embedding_packed *p = NULL;
  if (!l || l->n != 1 || l->items[0].tag != RUSH_TAG_TENSOR || !l->items[0].as.tensor)
    return call_fail(cx,
                     "EmbeddingPackedParamsBase: expected a state (version, [weight], [], [bits])");
  TRY(packed_new(cx, l->items[0].as.tensor, &p));
  *self = p;
  return RUSH_OK;
}

static rush_status get_state(call_ctx *cx, void *self, rush_value *state)
{
  const embedding_packed *p = self;
  rush_tuple *t = NULL;
  rush_list *l = NULL;
  static const type_kind kinds[4] = {TYPE_INT, TYPE_TENSOR, TYPE_FLOAT, TYPE_INT};
  TRY(tuple_new(cx, NULL, 4, &t));
  t->items[0] = value_int(1);
  rush_status st = RUSH_OK;
  for (int i = 1; i < 4 && st == RUSH_OK; i++) {
    st = list_new(cx, type_simple(kinds[i]), 1, &l);
    if (st == RUSH_OK)
      t->items[i] = value_heap_steal(RUSH_TAG_LIST, l);
  }
  if (st == RUSH_OK)
    st = list_append_steal(cx, t->items[1].as.list, value_tensor_steal(tensor_retain(p->weight)));
  if (st == RUSH_OK)
    st = list_append_steal(cx, t->items[3].as.list, value_int(8));
  if (st != RUSH_OK) {
    value_release(value_heap_steal(RUSH_TAG_TUPLE, t));
    return st;
  }
  *state = value_heap_steal(RUSH_TAG_TUPLE, t);
  return RUSH_OK;
}

const custom_class embedding_packed_class = {
  "__torch__.torch.classes.quantized.EmbeddingPackedParamsBase", destroy_embedding,
  set_embedding_state, get_state};

rush_status kernel_quantized_embedding_bag_prepack(rush_call *c)
{
  embedding_packed *p = NULL;
  TRY(packed_new(c->cx, call_tensor(c, 0), &p));
  return custom_value_new_steal(c->cx, &embedding_packed_class, p, &c->results[0]);
}

rush_status kernel_quantized_embedding_bag_unpack(rush_call *c)
{
  void *self = NULL;
  TRY(call_custom(c, 0, &embedding_packed_class, &self));
  call_return_steal(c, 0, tensor_retain(((embedding_packed *)self)->weight));
  return RUSH_OK;
}

/* Get rows `indices` (any shape, int32 or int64) of a table of bytes, as floats. */
static rush_status gather(call_ctx *cx, const rush_tensor *w, const rush_tensor *indices,
                          rush_tensor *out)
{
  const quantizer *q = tensor_quantizer(w);
  const int64_t width = w->sizes[1];
  for (int64_t i = 0; i < indices->n_elems; i++) {
    int64_t row;
    float scale = (float)q->scale, zero = (float)q->zero_point;
    convert_elems(RUSH_INT64, &row, indices->dtype,
                  (const char *)indices->data + (size_t)i * tensor_item_bytes(indices), 1);
    if (row < 0 || row >= w->sizes[0])
      return call_fail_type(cx, "IndexError",
                            "embedding: index %lld is out of range for a table of %lld rows",
                            (long long)row, (long long)w->sizes[0]);
    if (q->per_channel) {
      convert_elems(RUSH_FLOAT32, &scale, q->scales->dtype,
                    (const char *)q->scales->data + (size_t)row * tensor_item_bytes(q->scales), 1);
      convert_elems(
        RUSH_FLOAT32, &zero, q->zero_points->dtype,
        (const char *)q->zero_points->data + (size_t)row * tensor_item_bytes(q->zero_points), 1);
    }
    const uint8_t *from = (const uint8_t *)w->data + row * w->strides[0];
    float *to = (float *)out->data + i * width;
    const float bias = -zero * scale;
    for (int64_t k = 0; k < width; k++)
      to[k] = scale * (float)from[k * w->strides[1]] + bias;
  }
  return RUSH_OK;
}

/* (weight, indices, pruned_weights) */
rush_status kernel_quantized_embedding_byte(rush_call *c)
{
  void *self = NULL;
  int64_t sizes[TENSOR_MAX_DIMS];
  TRY(call_custom(c, 0, &embedding_packed_class, &self));
  const rush_tensor *table = ((embedding_packed *)self)->weight;
  if (!dtype_is_integral(call_tensor(c, 1)->dtype))
    return call_fail(c->cx, "Expect 32 or 64 bit indices, but found %s instead.",
                     dtype_aten_name(call_tensor(c, 1)->dtype));
  if (call_tensor(c, 1)->n_dims >= TENSOR_MAX_DIMS)
    return call_fail(c->cx, "embedding_byte: too many dimensions");
  work w = work_begin(c);
  const rush_tensor *indices = WORK_MAKE(&w, tensor_contiguous(c->cx, call_tensor(c, 1), &w.made));
  memcpy(sizes, indices->sizes, sizeof *sizes * indices->n_dims);
  sizes[indices->n_dims] = table->sizes[1];
  rush_tensor *out = work_new(&w, RUSH_FLOAT32, indices->n_dims + 1, sizes);
  WORK_DO(&w, gather(c->cx, table, indices, out));
  return work_end_with(&w, out, call_result(c, 0));
}

/* Make 0, step, 2 step ... */
static rush_tensor *counted(work *w, int64_t n, int64_t step)
{
  rush_tensor *t = work_new(w, RUSH_INT64, 1, &n);
  for (int64_t i = 0; i < n && w->st == RUSH_OK; i++)
    ((int64_t *)t->data)[i] = i * step;
  return t;
}

/* (weight, indices, offsets, scale_grad_by_freq, mode, pruned_weights, per_sample_weights,
 * compressed_indices_mapping,
 *  include_last_offset): sums, for every mode, as PyTorch's. */
rush_status kernel_quantized_embedding_bag_byte(rush_call *c)
{
  rush_tensor *indices = call_tensor(c, 1);
  void *self = NULL;
  TRY(call_custom(c, 0, &embedding_packed_class, &self));
  const rush_tensor *table = ((embedding_packed *)self)->weight;
  if (call_bool(c, 5) || !call_is_none(c, 7))
    return call_unsupported(c->cx, "quantized::embedding_bag_byte with pruned weights");
  if (indices->n_dims == 0 || indices->n_dims > 2 || (indices->n_dims == 1 && !call_tensor(c, 2)))
    return call_fail(c->cx, "embedding_bag_byte expects offsets to be set for 1D indices.");
  const int64_t n = indices->n_elems, sizes[2] = {n, table->sizes[1]}, n_bags = indices->sizes[0],
                last = indices->sizes[indices->n_dims - 1];
  work w = work_begin(c);
  rush_tensor *rows = work_new(&w, RUSH_FLOAT32, 2, sizes), *starts = call_tensor(c, 2);
  indices = WORK_MAKE(&w, tensor_contiguous(c->cx, indices, &w.made));
  WORK_DO(&w, gather(c->cx, table, indices, rows));
  rush_tensor *places = counted(&w, n, 1);
  starts = starts ? work_rows(&w, starts, RUSH_INT64) : counted(&w, n_bags, last);
  const rush_value args[8] = {nn_arg(rows),   nn_arg(places),
                              nn_arg(starts), value_bool(false),
                              value_int(0),   value_bool(false),
                              c->args[6],     value_bool(call_tensor(c, 2) && call_bool(c, 8))};
  WORK_DO(&w, op_invoke_name(c->cx, "aten::embedding_bag", "", args, 8, &c->results[0]));
  return work_end(&w);
}
