/* ops/kernels/nn/packed_sequence.c -- _pack_padded_sequence and _pad_packed_sequence: whole rows
 * are copied, one step of the sequence after the other. Lengths must not increase, so the rows of a
 * step are the first ones and the packed form needs no index. Cost: one copy of the data. */
#include <string.h>

#include "ops/kernels/views.h"
#include "ops/kernels/work.h"

static rush_status check_lengths(call_ctx *cx, const rush_tensor *lengths, int64_t batch,
                                 int64_t n_steps)
{
  const int64_t *l = lengths->data;
  if (lengths->n_dims != 1 || lengths->n_elems != batch)
    return call_fail(
      cx, "Expected `len(lengths)` to be equal to batch_size, but got %lld (batch_size=%lld)",
      (long long)lengths->n_elems, (long long)batch);
  if (batch == 0)
    return call_fail(cx, "Expected batch_size to be greater than 0");
  for (int64_t i = 0; i < batch; i++) {
    if (l[i] <= 0)
      return call_fail(cx, "Length of all samples has to be greater than 0, but found an element "
                           "in 'lengths' that is <= 0");
    if (i > 0 && l[i] > l[i - 1])
      return call_fail(
        cx, "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this "
            "requirement if you do not need ONNX exportability.");
  }
  if (l[0] > n_steps)
    return call_fail(cx, "Expected lengths of at most %lld, got %lld", (long long)n_steps,
                     (long long)l[0]);
  return RUSH_OK;
}

/* Copy rows of step t, then of t + 1; lengths do not increase, so the rows of a step are the first
 * ones. */
static rush_status pack(rush_call *c, const rush_tensor *in, const rush_tensor *lengths)
{
  const int64_t batch = in->sizes[1], *l = lengths->data, n_steps = l[0];
  int64_t sizes[TENSOR_MAX_DIMS] = {0}, total = 0;
  rush_tensor *data, *counts;
  for (int64_t i = 0; i < batch; i++)
    total += l[i];
  sizes[0] = total;
  memcpy(sizes + 1, in->sizes + 2, sizeof *sizes * (in->n_dims - 2u));
  TRY(tensor_new(c->cx, in->dtype, in->n_dims - 1, sizes, &data));
  call_return_steal(c, 0, data);
  TRY(tensor_new(c->cx, RUSH_INT64, 1, &n_steps, &counts));
  call_return_steal(c, 1, counts);
  const size_t row = (size_t)(in->n_elems / (in->sizes[0] * batch)) * tensor_item_bytes(in);
  char *to = data->data;
  for (int64_t t = 0, n = batch; t < n_steps; t++) {
    while (l[n - 1] <= t)
      n--;
    ((int64_t *)counts->data)[t] = n;
    memcpy(to, (const char *)in->data + (size_t)(t * batch) * row, (size_t)n * row);
    to += (size_t)n * row;
  }
  return RUSH_OK;
}

/* input, lengths, batch_first */
rush_status kernel__pack_padded_sequence(rush_call *c)
{
  rush_tensor *input = call_tensor(c, 0);
  if (input->n_dims < 2)
    return call_fail(c->cx, "_pack_padded_sequence: expected at least 2 dimensions, got %d",
                     input->n_dims);
  if (call_tensor(c, 1)->dtype != RUSH_INT64)
    return call_fail(
      c->cx, "'lengths' argument should be a 1D CPU int64 tensor, but got %dD cpu %s tensor",
      call_tensor(c, 1)->n_dims, dtype_aten_name(call_tensor(c, 1)->dtype));
  if (input->n_elems == 0)
    return call_fail(c->cx, "Cannot pack empty tensors.");
  work w = work_begin(c);
  const rush_tensor *lengths = work_rows(&w, call_tensor(c, 1), RUSH_INT64);
  rush_tensor *turned =
    call_bool(c, 2) ? WORK_MAKE(&w, tensor_transpose(c->cx, input, 0, 1, &w.made)) : input;
  WORK_DO(&w, check_lengths(c->cx, lengths, turned->sizes[1], turned->sizes[0]));
  const rush_tensor *in = work_rows(&w, turned, input->dtype);
  WORK_DO(&w, pack(c, in, lengths));
  return work_end(&w);
}

static rush_status unpack_sequence(rush_call *c, const rush_tensor *data, const rush_tensor *counts,
                          rush_tensor *out, rush_tensor *lengths)
{
  const int64_t *n = counts->data, batch = n[0]; /* not negative: it is a size of `out` */
  const size_t row =
    data->sizes[0] ? (size_t)(data->n_elems / data->sizes[0]) * tensor_item_bytes(data) : 0;
  const char *from = data->data;
  int64_t rows = 0;
  memset(lengths->data, 0, (size_t)batch * sizeof(int64_t));
  for (int64_t t = 0; t < counts->n_elems; t++) {
    if (n[t] < 0 || n[t] > batch || (t > 0 && n[t] > n[t - 1]) || n[t] > data->sizes[0] - rows)
      return call_fail(c->cx, "batch_sizes do not fit the %lld rows of a packed sequence",
                       (long long)data->sizes[0]);
    memcpy((char *)out->data + (size_t)(t * batch) * row, from, (size_t)n[t] * row);
    from += (size_t)n[t] * row;
    rows += n[t];
    for (int64_t i = 0; i < n[t]; i++)
      ((int64_t *)lengths->data)[i] = t + 1;
  }
  return RUSH_OK;
}

/* data, batch_sizes, batch_first, padding_value, total_length */
rush_status kernel__pad_packed_sequence(rush_call *c)
{
  const rush_tensor *given = call_tensor(c, 1);
  const int64_t total = call_int(c, 4);
  if (given->n_dims != 1 || given->dtype != RUSH_INT64 || given->n_elems == 0 ||
      call_tensor(c, 0)->n_dims < 1)
    return call_fail(c->cx,
                     "_pad_packed_sequence: expected batch_sizes to be a 1D CPU int64 tensor");
  if (total > 0 && total < given->n_elems)
    return call_fail(
      c->cx,
      "Expected total_length to be at least the length of the longest sequence in input, but got "
      "total_length=%lld and max sequence length being %lld",
      (long long)total, (long long)given->n_elems);
  work w = work_begin(c);
  const rush_tensor *data = work_rows(&w, call_tensor(c, 0), call_tensor(c, 0)->dtype),
                    *counts = work_rows(&w, call_tensor(c, 1), RUSH_INT64);
  if (data->n_dims >= TENSOR_MAX_DIMS)
    WORK_DO(&w, call_fail(c->cx, "_pad_packed_sequence: too many dimensions"));
  if (w.st == RUSH_OK) {
    /* a negative count: tensor_new refuses */
    int64_t sizes[TENSOR_MAX_DIMS] = {total > 0 ? total : given->n_elems,
                                      ((const int64_t *)counts->data)[0]};
    memcpy(sizes + 2, data->sizes + 1, sizeof *sizes * (data->n_dims - 1u));
    rush_tensor *out = work_new(&w, data->dtype, data->n_dims + 1, sizes),
                *lengths = work_new(&w, RUSH_INT64, 1, &sizes[1]);
    WORK_DO(&w, tensor_fill(c->cx, out, c->args[3]));
    WORK_DO(&w, unpack_sequence(c, data, counts, out, lengths));
    if (call_bool(c, 2))
      out = WORK_MAKE(&w, tensor_transpose(c->cx, out, 0, 1, &w.made));
    if (w.st == RUSH_OK)
      call_return_steal(c, 0, tensor_retain(out));
    work_return(&w, 1, lengths, RUSH_INT64);
  }
  return work_end(&w);
}
