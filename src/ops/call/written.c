/* ops/call/written.c -- checks of in-place and out= arguments (written.h): overlaps by byte ranges,
 * dtypes that can be cast, sizes. Messages are PyTorch's. An overlap of tensors with gaps cannot be
 * decided cheaply and is accepted, as in PyTorch. */
#include "ops/call/written.h"

rush_status written_check_self(call_ctx *cx, const rush_tensor *out)
{
  if (LIKELY(!tensor_overlaps_itself(out)) || out->n_elems == 0)
    return RUSH_OK;
  return call_fail(cx, "unsupported operation: more than one element of the written-to tensor "
                       "refers to a single memory "
                       "location. Please clone() the tensor before performing the operation.");
}

typedef enum overlap { OVERLAP_NONE, OVERLAP_PARTIAL, OVERLAP_FULL, OVERLAP_UNKNOWN } overlap;

static overlap overlap_of(const rush_tensor *a, const rush_tensor *b)
{
  if (a == b)
    return OVERLAP_FULL;
  if (!tensor_overlaps(a, b))
    return OVERLAP_NONE;
  if (!tensor_is_dense(a) || !tensor_is_dense(b))
    return OVERLAP_UNKNOWN;
  bool same = a->data == b->data && a->dtype == b->dtype && tensor_same_geometry(a, b);
  return same ? OVERLAP_FULL : OVERLAP_PARTIAL;
}

static rush_status refuse_overlap(call_ctx *cx)
{
  return call_fail(cx,
                   "unsupported operation: some elements of the input tensor and the written-to "
                   "tensor refer to a single "
                   "memory location. Please clone() the tensor before performing the operation.");
}

rush_status written_check_input(call_ctx *cx, const rush_tensor *out, const rush_tensor *in)
{
  return overlap_of(out, in) == OVERLAP_PARTIAL ? refuse_overlap(cx) : RUSH_OK;
}

rush_status written_check_apart(call_ctx *cx, const rush_tensor *out, const rush_tensor *in)
{
  overlap o = overlap_of(out, in);
  return o == OVERLAP_PARTIAL || o == OVERLAP_FULL ? refuse_overlap(cx) : RUSH_OK;
}

/* Return PyTorch's name of a dtype where it prints its C++ type. */
static const char *c_name(int dtype)
{
  static const char *const names[N_DTYPES] = {
#define DTYPE(id, number, name, aten, c_name, ...) [number] = c_name,
#include "base/dtypes.def"
  };
  return names[dtype] ? names[dtype] : dtype_aten_name(dtype);
}

rush_status written_check_dtype(call_ctx *cx, const rush_tensor *out, int from, bool exactly)
{
  if (exactly && out->dtype != from)
    return call_fail(cx, "Expected out tensor to have dtype %s, but got %s instead", c_name(from),
                     c_name(out->dtype));
  if (dtype_can_cast(from, out->dtype))
    return RUSH_OK;
  return call_fail(cx, "result type %s can't be cast to the desired output type %s",
                   dtype_aten_name(from), dtype_aten_name(out->dtype));
}

rush_status written_fit(call_ctx *cx, rush_tensor *out, bool is_inplace, int n_dims,
                        const int64_t *sizes, const int64_t *strides)
{
  bool fits = out->n_dims == n_dims;
  for (int i = 0; i < n_dims && fits; i++)
    fits = out->sizes[i] == sizes[i];
  if (LIKELY(fits))
    return RUSH_OK;
  if (is_inplace) {
    sizes_text a, b;
    return call_fail(cx, "output with shape %s doesn't match the broadcast shape %s",
                     sizes_print(&a, out->n_dims, out->sizes), sizes_print(&b, n_dims, sizes));
  }
  if (out->n_elems != 0)
    call_warn(
      cx,
      "An output with one or more elements was resized since it had a shape that differs from the "
      "result's. This behavior is deprecated.");
  TRY(tensor_resize(cx, out, n_dims, sizes));
  if (strides)
    tensor_reorder(out, strides);
  return RUSH_OK;
}
