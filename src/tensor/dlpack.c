/* tensor/dlpack.c -- tensors to and from DLPack's structs (https://dmlc.github.io/dlpack), with and
 * without version.
 *
 * Memory is shared: an exported tensor is kept alive until the consumer calls its deleter; an
 * imported one calls the producer's deleter when its storage is freed.  The structs are declared
 * here instead of including dlpack.h, of which nothing else is needed. */
#include "tensor/dlpack.h"

#include "tensor/sparse.h"

/* -- The specification's structs --------------------------------------------------------------- */

typedef struct dl_device {
  int32_t kind; /* 1: CPU */
  int32_t index;
} dl_device;
typedef struct dl_dtype {
  uint8_t code; /* 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool */
  uint8_t bits;
  uint16_t lanes;
} dl_dtype;
typedef struct dl_tensor {
  void *data;
  dl_device device;
  int32_t n_dims;
  dl_dtype dtype;
  int64_t *sizes;
  int64_t *strides; /* elements; NULL: row-major */
  uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed {
  dl_tensor tensor;
  void *manager;
  void (*deleter)(struct dl_managed *self);
} dl_managed;
typedef struct dl_versioned {
  struct { uint32_t major, minor; } version;
  void *manager;
  void (*deleter)(struct dl_versioned *self);
  uint64_t flags; /* DL_READ_ONLY ... */
  dl_tensor tensor;
} dl_versioned;

enum { DL_READ_ONLY = 1 }; /* of flags */
enum {
  DL_CPU = 1,
  DL_INT = 0,
  DL_UINT = 1,
  DL_FLOAT = 2,
  DL_BFLOAT = 4,
  DL_COMPLEX = 5,
  DL_BOOL = 6,
  DL_FLOAT8_E4M3FN = 10,
  DL_FLOAT8_E4M3FNUZ = 11,
  DL_FLOAT8_E5M2 = 12,
  DL_FLOAT8_E5M2FNUZ = 13,
  DL_NONE = 255 /* ours: DLPack has no such dtype */
};

static const struct dtype_row {
  int dtype;
  uint8_t code, bits;
} dtype_rows[] = {
#define DTYPE(id, number, name, aten, c_name, bytes, class, tape, numpy, safetensors, exported, \
              dlpack)                                                                           \
  {DL_##dlpack == DL_NONE ? DTYPE_NONE : number, DL_##dlpack, 8 * bytes},
#include "base/dtypes.def"
};

/* -- Out --------------------------------------------------------------------------------------- */

/* One block: the managed struct and the data for its deleter. */
typedef struct export_block {
  union {
    dl_managed plain;
    dl_versioned versioned;
  } u;
  rush_tensor *tensor; /* owned */
  int64_t dims[];      /* sizes, then strides */
} export_block;

static size_t block_bytes(const rush_tensor *t)
{
  return sizeof(export_block) + 2 * sizeof(int64_t) * t->n_dims;
}

static void block_free(export_block *b)
{
  rush_tensor *t = b->tensor;

  mem_free(t->h.ctx, b, block_bytes(t));
  tensor_release(t);
}
static void plain_deleter(dl_managed *m) { block_free(m->manager); }
static void versioned_deleter(dl_versioned *m) { block_free(m->manager); }

rush_status tensor_to_dlpack(call_ctx *cx, rush_tensor *t, bool versioned, void **out)
{
  const struct dtype_row *row = NULL;

  for (size_t i = 0; i < COUNT_OF(dtype_rows); i++)
    if (dtype_rows[i].dtype == t->dtype)
      row = &dtype_rows[i];
  if (tensor_sparse(t))
    return call_fail_type(cx, "BufferError",
                          "DLPack has no sparse tensors: pass tensor.to_dense()");
  if (t->st->read_only && !versioned)
    return call_fail_type(
      cx, "BufferError",
      "the tensor's memory is read-only, which DLPack can say from version 1 on: ask for "
      "max_version=(1, 0), or pass a copy");
  if (!row)
    return call_unsupported(cx, "DLPack has no dtype for %s", dtype_name(t->dtype));
  export_block *b = mem_alloc_zero(t->h.ctx, block_bytes(t));
  if (!b)
    return call_nomem(cx);
  memcpy(b->dims, t->sizes, sizeof(int64_t) * t->n_dims);
  memcpy(b->dims + t->n_dims, t->strides, sizeof(int64_t) * t->n_dims);
  dl_tensor dl = {.data = t->data,
                  .device = {DL_CPU, 0},
                  .n_dims = t->n_dims,
                  .dtype = {row->code, row->bits, 1},
                  .sizes = b->dims,
                  .strides = b->dims + t->n_dims};
  b->tensor = tensor_retain(t);
  if (t->st->origin ==
      STORAGE_MAPPED) /* others may write to it from now on: nothing derived is kept */
    t->st->origin = STORAGE_FOREIGN;
  else
    t->h.flags &= (uint8_t)~TENSOR_IS_PARAMETER;
  if (versioned) {
    b->u.versioned = (dl_versioned){.version = {1, 1},
                                    .manager = b,
                                    .deleter = versioned_deleter,
                                    .tensor = dl,
                                    .flags = t->st->read_only ? DL_READ_ONLY : 0};
    *out = &b->u.versioned;
  } else {
    b->u.plain = (dl_managed){.tensor = dl, .manager = b, .deleter = plain_deleter};
    *out = &b->u.plain;
  }
  return RUSH_OK;
}

/* -- In ---------------------------------------------------------------------------------------- */

void dlpack_release(void *managed, bool versioned)
{
  dl_managed *m = managed;
  dl_versioned *v = managed;

  if (versioned && v->deleter)
    v->deleter(v);
  else if (!versioned && m->deleter)
    m->deleter(m);
}
static void release_plain(void *user, void *data)
{
  (void)data;
  dlpack_release(user, false);
}
static void release_versioned(void *user, void *data)
{
  (void)data;
  dlpack_release(user, true);
}

/* Return our dtype, or DTYPE_NONE. */
static int dtype_from(dl_dtype d)
{
  for (size_t i = 0; i < COUNT_OF(dtype_rows); i++)
    if (dtype_rows[i].code == d.code && dtype_rows[i].bits == d.bits && d.lanes == 1)
      return dtype_rows[i].dtype;
  return DTYPE_NONE;
}

static rush_status import_tensor(call_ctx *cx, const dl_tensor *dl, void *managed, bool versioned,
                                 rush_tensor **out, bool *taken)
{
  int64_t strides[TENSOR_MAX_DIMS];
  int64_t last = 0;
  size_t n_bytes = 0;
  storage *st;
  bool empty = false;

  if (dl->device.kind != DL_CPU)
    return error_set(cx->err, RUSH_EARGUMENT,
                     "DLPack tensor on device kind %d; only CPU (1) is taken",
                     (int)dl->device.kind);
  int dtype = dtype_from(dl->dtype);
  if (dtype == DTYPE_NONE || dl->n_dims < 0 || dl->n_dims > TENSOR_MAX_DIMS)
    return error_set(cx->err, RUSH_EARGUMENT,
                     "DLPack tensor of code %d, %d bits, %d dimensions is not known here",
                     dl->dtype.code, dl->dtype.bits, (int)dl->n_dims);
  if (dl->strides)
    memcpy(strides, dl->strides, sizeof(int64_t) * (size_t)dl->n_dims);
  else
    strides_contiguous(dl->n_dims, dl->sizes, strides);
  for (int i = 0; i < dl->n_dims; i++) {
    if (strides[i] < 0 || dl->sizes[i] < 0)
      return error_set(cx->err, RUSH_EARGUMENT,
                       "DLPack tensor with a negative size or stride in dimension %d", i);
    empty |= dl->sizes[i] == 0;
    last += (dl->sizes[i] - 1) * strides[i];
  }
  if (!empty)
    n_bytes = (size_t)(last + 1) * dtype_bytes(dtype);
  TRY(storage_wrap(cx, (char *)dl->data + dl->byte_offset, n_bytes, STORAGE_FOREIGN,
                   versioned ? release_versioned : release_plain, managed, &st));
  *taken = true;
  st->read_only = versioned && ((const dl_versioned *)managed)->flags & DL_READ_ONLY;
  rush_status s = tensor_new_view(cx, st, dtype, dl->n_dims, dl->sizes, strides, 0, out);
  storage_release(st);
  return s;
}

rush_status tensor_from_dlpack_steal(call_ctx *cx, void *managed, bool versioned, rush_tensor **out)
{
  dl_versioned *v = managed;
  dl_managed *m = managed;
  bool taken = false;
  rush_status st;

  if (versioned && v->version.major != 1)
    st = error_set(cx->err, RUSH_EARGUMENT, "DLPack version %u.%u; this build knows 1.x",
                   (unsigned)v->version.major, (unsigned)v->version.minor);
  else
    st = import_tensor(cx, versioned ? &v->tensor : &m->tensor, managed, versioned, out, &taken);
  if (!taken)
    dlpack_release(managed, versioned);
  return st;
}
