/* api/tensor.c -- tensors of rushlight.h: creating, wrapping the host's memory, reading, DLPack.
 * Wrapped memory is checked here: sizes and strides must be in range and inside the given bytes,
 * since inner code trusts them. */
#include "api/api_int.h"

#include "tensor/dlpack.h"
#include "tensor/sparse.h"

static rush_status check_shape(int n_dims, const int64_t *sizes, int dtype, rush_error *err)
{
  if (!dtype_is_valid(dtype))
    return error_set(err, RUSH_EARGUMENT, "dtype %d is none that is known", dtype);
  if (n_dims < 0 || n_dims > TENSOR_MAX_DIMS)
    return error_set(err, RUSH_EARGUMENT, "a tensor has 0 to %d dimensions, not %d",
                     TENSOR_MAX_DIMS, n_dims);
  for (int i = 0; i < n_dims; i++)
    if (sizes[i] < 0)
      return error_set(err, RUSH_EARGUMENT, "size %lld of dimension %d is negative",
                       (long long)sizes[i], i);
  return RUSH_OK;
}

rush_status rush_tensor_create(rush_context *c, rush_dtype dtype, int n_dims, const int64_t *sizes,
                               rush_value *out, rush_error *err)
{
  call_ctx cx;
  rush_tensor *t;

  TRY(api_begin(&cx, c, err));
  TRY(check_shape(n_dims, sizes, (int)dtype, err));
  TRY(tensor_new(&cx, (int)dtype, n_dims, sizes, &t));
  *out = value_tensor_steal(t);
  return RUSH_OK;
}

/* Compute the bytes that sizes and strides reach from element 0; returns false for negative strides
 * or overflow. */
static bool reach_bytes(int n_dims, const int64_t *sizes, const int64_t *strides, size_t item,
                        size_t *out)
{
  int64_t last = 0, step;

  for (int i = 0; i < n_dims; i++) {
    if (sizes[i] == 0) {
      *out = 0;
      return true;
    }
    if (strides[i] < 0 || __builtin_mul_overflow(sizes[i] - 1, strides[i], &step) ||
        __builtin_add_overflow(last, step, &last))
      return false;
  }
  return size_mul((size_t)last + 1, item, out);
}

/* Wrap memory; n_bytes SIZE_MAX: as many as the tensor reaches. */
static rush_status wrap(rush_context *c, int dtype, int n_dims, const int64_t *sizes,
                        const int64_t *strides, int64_t offset, void *data, size_t n_bytes,
                        void (*deleter)(void *, void *), void *user, rush_value *out,
                        rush_error *err)
{
  int64_t own[TENSOR_MAX_DIMS];
  size_t reach, before;
  storage *st;
  rush_tensor *t;
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  TRY(check_shape(n_dims, sizes, dtype, err));
  if (!strides) {
    strides_contiguous(n_dims, sizes, own);
    strides = own;
  }
  if (!reach_bytes(n_dims, sizes, strides, dtype_bytes(dtype), &reach) || offset < 0 ||
      !size_mul((size_t)offset, dtype_bytes(dtype), &before))
    return error_set(err, RUSH_EARGUMENT,
                     "strides must not be negative, nor reach beyond the address space");
  if (!data && reach)
    return error_set(err, RUSH_EARGUMENT,
                     "data is NULL, and the tensor has elements: expected %zu bytes of memory",
                     reach);
  if (n_bytes == SIZE_MAX)
    n_bytes = reach;
  else if (reach && (before > n_bytes || reach > n_bytes - before))
    return error_set(err, RUSH_EARGUMENT,
                     "the tensor reaches %zu bytes behind the %zu of its buffer",
                     before + reach - n_bytes, n_bytes);
  TRY(storage_wrap(&cx, data, n_bytes, STORAGE_FOREIGN, NULL, NULL, &st));
  rush_status s = tensor_new_view(&cx, st, dtype, n_dims, sizes, strides, offset, &t);
  if (s == RUSH_OK) {
    st->deleter = deleter; /* only now: on failure the memory stays the caller's */
    st->user = user;
    t->h.small = TENSOR_WRAPS;
    *out = value_tensor_steal(t);
  }
  storage_release(st);
  return s;
}

rush_status rush_tensor_wrap(rush_context *c, rush_dtype dtype, int n_dims, const int64_t *sizes,
                             const int64_t *strides, void *data, void (*deleter)(void *, void *),
                             void *user, rush_value *out, rush_error *err)
{
  return wrap(c, (int)dtype, n_dims, sizes, strides, 0, data, SIZE_MAX, deleter, user, out, err);
}

rush_status rush_tensor_wrap_part(rush_context *c, rush_dtype dtype, int n_dims,
                                  const int64_t *sizes, const int64_t *strides, int64_t offset,
                                  void *data, size_t n_bytes, void (*deleter)(void *, void *),
                                  void *user, rush_value *out, rush_error *err)
{
  return wrap(c, (int)dtype, n_dims, sizes, strides, offset, data,
              n_bytes == SIZE_MAX ? n_bytes - 1 : n_bytes, deleter, user, out, err);
}

rush_status rush_tensor_new_meta(rush_context *c, rush_dtype dtype, int n_dims,
                                 const int64_t *sizes, const int64_t *strides, rush_value *out,
                                 rush_error *err)
{
  size_t reach;
  storage *st;
  rush_tensor *t;
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  TRY(check_shape(n_dims, sizes, (int)dtype, err));
  if (!reach_bytes(n_dims, sizes, strides, dtype_bytes((int)dtype), &reach))
    return error_set(err, RUSH_EARGUMENT,
                     "strides must not be negative, nor reach beyond the address space");
  TRY(storage_new_meta(&cx, reach, &st));
  rush_status s = tensor_new_view(&cx, st, (int)dtype, n_dims, sizes, strides, 0, &t);
  if (s == RUSH_OK)
    *out = value_tensor_steal(t);
  storage_release(st);
  return s;
}

bool rush_tensor_is_meta(const rush_tensor *t) { return tensor_is_meta(t); }
int rush_tensor_layout(const rush_tensor *t) { return tensor_layout(t); }

rush_dtype rush_tensor_dtype(const rush_tensor *t) { return (rush_dtype)t->dtype; }
int rush_tensor_n_dims(const rush_tensor *t) { return t->n_dims; }
const int64_t *rush_tensor_sizes(const rush_tensor *t) { return t->sizes; }
const int64_t *rush_tensor_strides(const rush_tensor *t) { return t->strides; }
int64_t rush_tensor_n_elems(const rush_tensor *t) { return t->n_elems; }
size_t rush_tensor_storage_bytes(const rush_tensor *t) { return t->st ? t->st->n_bytes : 0; }
bool rush_tensor_is_contiguous(const rush_tensor *t) { return tensor_is_contiguous(t); }
bool rush_tensor_requires_grad(const rush_tensor *t) { return tensor_requires_grad(t); }
void rush_tensor_set_requires_grad(rush_tensor *t, bool on)
{
  t->h.flags =
    (uint8_t)(on ? t->h.flags | TENSOR_REQUIRES_GRAD : t->h.flags & ~TENSOR_REQUIRES_GRAD);
}
uint32_t rush_tensor_version(const rush_tensor *t) { return atomic_load(&t->st->version); }
const void *rush_tensor_data(const rush_tensor *t) { return tensor_sparse(t) ? NULL : t->data; }
void *rush_tensor_data_mut(rush_tensor *t)
{
  return t->st->read_only || tensor_sparse(t) ? NULL : tensor_data_mut(t);
}
void rush_tensor_set_read_only(rush_tensor *t) { t->st->read_only = true; }
bool rush_tensor_is_read_only(const rush_tensor *t) { return t->st->read_only; }

rush_status rush_tensor_contiguous(rush_context *c, rush_tensor *t, rush_value *out,
                                   rush_error *err)
{
  call_ctx cx;
  rush_tensor *r;

  TRY(api_begin(&cx, c ? c : t->h.ctx, err));
  TRY(tensor_contiguous(&cx, t, &r));
  *out = value_tensor_steal(r);
  return RUSH_OK;
}

rush_status rush_tensor_to_dlpack(rush_context *c, rush_tensor *t, bool versioned, void **out,
                                  rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, c ? c : t->h.ctx, err));
  return tensor_to_dlpack(&cx, t, versioned, out);
}

rush_status rush_tensor_from_dlpack_steal(rush_context *c, void *managed, bool versioned,
                                          rush_value *out, rush_error *err)
{
  call_ctx cx;
  rush_tensor *t;
  rush_status st = api_begin(&cx, c, err);

  if (st != RUSH_OK) {
    dlpack_release(managed, versioned);
    return st;
  }
  TRY(tensor_from_dlpack_steal(&cx, managed, versioned, &t));
  *out = value_tensor_steal(t);
  return RUSH_OK;
}
