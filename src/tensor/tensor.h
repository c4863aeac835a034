/* tensor/tensor.h -- tensors and storages.
 *
 * A storage is a refcounted buffer that knows how its memory is given back, and a version that
 * moves with every write.  A tensor is a strided view of one.  A small storage and its data are one
 * block (storage_new), so a tiny tensor costs two blocks from free lists and its views need no
 * special case.
 *
 * Invariants.  (1) n_dims <= TENSOR_MAX_DIMS.  (2) Every element the sizes and strides can reach
 * lies inside the storage: checked when a view is made, so kernels never check.  (3) `data` points
 * at element 0 (storage data + offset * item bytes).  (4) `n_elems` is the product of sizes, and
 * the product of the sizes other than 0 is an int64 too.  (5) So are strides in bytes, also of
 * dimensions of size 1 or 0: kernels multiply sizes and strides of a tensor without looking for
 * overflow.
 *
 * Threads: counts are atomic; contents are for one writer at a time.
 * An undefined tensor is a value with a NULL pointer, never a rush_tensor. */
#ifndef RUSH_TENSOR_TENSOR_H
#define RUSH_TENSOR_TENSOR_H

#include "tensor/dtype.h"
#include "value/value.h"

#define TENSOR_INLINE_DIMS 5
#define TENSOR_MAX_DIMS 64
#define TENSOR_INLINE_BYTES 64

/* Derived data (packed weights), a list on the storage it was made from.  Its maker embeds this. */
typedef struct storage_cache storage_cache;
struct storage_cache {
  storage_cache *next;
  uint32_t kind;    /* the maker's word for what it is */
  uint32_t version; /* of the storage when it was made */
  void (*destroy)(storage_cache *self, context *c);
};

typedef struct storage storage;
struct storage {
  heap h; /* RUSH_TAG_STORAGE */
  void *data;
  size_t n_bytes;
  /* Gives `data` back; NULL: mem_free_data (or nothing for inline and empty storages). */
  void (*deleter)(void *user, void *data);
  void *user;
  _Atomic uint32_t version; /* moves with every mutable data pointer handed out */
  uint8_t origin;           /* storage_origin */
  bool read_only; /* the memory may not be written to: op_call refuses, tensor_copy is not called */
  _Atomic(storage_cache *) cache; /* freed with the storage */
};
typedef enum storage_origin {
  STORAGE_OURS,    /* mem_alloc_data */
  STORAGE_MAPPED,  /* a mapped file, private: written pages are copied by the kernel */
  STORAGE_FOREIGN, /* the caller's memory */
  /* of torch's device meta: reads as zeros and takes no memory; programs do not get it
   * (L_GET_ATTR) */
  STORAGE_META
} storage_origin;

/* Quantizer of per-tensor or per-channel affine tensors. */
typedef struct quantizer {
  bool per_channel;
  int32_t axis;
  double scale;
  int64_t zero_point;
  rush_tensor *scales, *zero_points; /* per channel: owned, or NULL */
} quantizer;

/* The elements of a sparse tensor (tensor/sparse.h). */
typedef struct sparse_parts sparse_parts;

/* What few tensors have.  Owned by the tensor. */
typedef struct tensor_extra {
  int64_t *dims; /* sizes then strides, when n_dims > TENSOR_INLINE_DIMS */
  quantizer *quant;
  void *grad_record; /* autograd */
  rush_tensor *nested; /* ops/kernels/nested/nested.h: sizes of a nested tensor's parts, owned */
  sparse_parts *sparse; /* owned, or NULL */
  void (*grad_destroy)(void *);
} tensor_extra;

struct rush_tensor {
  heap h; /* h.flags: tensor_flags; h.small: unused */
  int16_t dtype;
  uint16_t n_dims;
  _Atomic uint32_t number; /* what hash() is made of, from context_number; 0: not asked yet */
  int64_t n_elems;
  void *data;
  storage *st;     /* owned */
  int64_t offset;  /* elements */
  int64_t *sizes;  /* inline_dims, or extra->dims */
  int64_t *strides; /* sizes + TENSOR_INLINE_DIMS, or sizes + n_dims in extra */
  int64_t inline_dims[2 * TENSOR_INLINE_DIMS];
  tensor_extra *extra; /* or NULL */
};
enum tensor_flags {
  TENSOR_CONTIGUOUS = 1, /* row-major, no gaps: recomputed whenever geometry changes */
  TENSOR_REQUIRES_GRAD = 2,
  TENSOR_IS_PARAMETER = 4,
  TENSOR_CONJ = 8, /* never set on results: conj() materialises; reserved */
  TENSOR_WRAPPED_NUMBER = 16, /* a Python number as a tensor: promotes as a number */
  TENSOR_HAS_GRAD_FN = 32     /* requires grad as the result of an operator: not a leaf */
};

/* -- Making (all new) -------------------------------------------------------------------------- */

/* Contiguous, uninitialised. */
rush_status tensor_new(call_ctx *cx, int dtype, int n_dims, const int64_t *sizes,
                       rush_tensor **out) RUSH_CHECKED;
/* Dense with strides in the order given by `strides` (must be a permutation layout of sizes). */
rush_status tensor_new_strided(call_ctx *cx, int dtype, int n_dims, const int64_t *sizes,
                               const int64_t *strides, rush_tensor **out) RUSH_CHECKED;
/* Same sizes; `dtype` or DTYPE_NONE for t's; strides as PyTorch's empty_like(preserve_format). */
rush_status tensor_new_like(call_ctx *cx, const rush_tensor *t, int dtype,
                            rush_tensor **out) RUSH_CHECKED;
/* A view of a storage.  Checked against it: RUSH_ERAISED when elements lie outside. */
rush_status tensor_new_view(call_ctx *cx, storage *st, int dtype, int n_dims, const int64_t *sizes,
                            const int64_t *strides, int64_t offset, rush_tensor **out) RUSH_CHECKED;
/* A view of t's storage with another geometry (offset absolute), same dtype, requires_grad kept. */
rush_status tensor_as_strided(call_ctx *cx, const rush_tensor *t, int n_dims, const int64_t *sizes,
                              const int64_t *strides, int64_t offset,
                              rush_tensor **out) RUSH_CHECKED;
/* 0-dim from a number (Bool, Int, Float, Complex value), converted to dtype. */
rush_status tensor_from_scalar(call_ctx *cx, rush_value number, int dtype,
                               rush_tensor **out) RUSH_CHECKED;
/* A new header on the same storage and geometry (alias, detach). */
rush_status tensor_alias(call_ctx *cx, const rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* `t` itself, retained, when contiguous; else a contiguous copy. */
rush_status tensor_contiguous(call_ctx *cx, rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* A contiguous copy (or t itself, when it fits) as `dtype`. */
rush_status tensor_to_dtype(call_ctx *cx, rush_tensor *t, int dtype,
                            rush_tensor **out) RUSH_CHECKED;
/* A fresh copy; strides preserved as clone(preserve_format). */
rush_status tensor_clone(call_ctx *cx, const rush_tensor *t, rush_tensor **out) RUSH_CHECKED;

rush_status storage_new(call_ctx *cx, size_t n_bytes, storage **out) RUSH_CHECKED;
/* Wrap memory; on success the storage calls deleter(user, data) at its end. */
rush_status storage_wrap(call_ctx *cx, void *data, size_t n_bytes, storage_origin origin,
                         void (*deleter)(void *, void *), void *user, storage **out) RUSH_CHECKED;

/* For tensors that have sizes and no data. */
rush_status storage_new_meta(call_ctx *cx, size_t n_bytes, storage **out) RUSH_CHECKED;

static inline rush_tensor *tensor_retain(rush_tensor *t)
{
  if (t)
    heap_retain(&t->h);
  return t;
}
void tensor_destroy(rush_tensor *t);
static inline void tensor_release(rush_tensor *t)
{
  if (t && heap_drop(&t->h))
    tensor_destroy(t);
}
static inline storage *storage_retain(storage *s)
{
  if (s)
    heap_retain(&s->h);
  return s;
}
void storage_destroy(storage *s);
static inline void storage_release(storage *s)
{
  if (s && heap_drop(&s->h))
    storage_destroy(s);
}
static inline rush_value value_tensor_steal(rush_tensor *t)
{
  return (rush_value){.tag = RUSH_TAG_TENSOR, .as.tensor = t};
}

/* -- Asking ------------------------------------------------------------------------------------ */

static inline bool tensor_is_contiguous(const rush_tensor *t)
{
  return t->h.flags & TENSOR_CONTIGUOUS;
}
static inline bool tensor_requires_grad(const rush_tensor *t)
{
  return t->h.flags & TENSOR_REQUIRES_GRAD;
}
static inline bool tensor_is_quantized(const rush_tensor *t)
{
  return dtype_class_of(t->dtype) == DTYPE_QUANT;
}
static inline bool tensor_is_meta(const rush_tensor *t)
{
  return t->st && t->st->origin == STORAGE_META;
}
static inline size_t tensor_item_bytes(const rush_tensor *t) { return dtype_bytes(t->dtype); }
bool tensor_is_dense(const rush_tensor *t); /* non-overlapping and dense in some order */
/* The same of a geometry of at most TENSOR_MAX_DIMS dimensions. */
bool strides_are_dense(int n_dims, const int64_t *sizes, const int64_t *strides);
/* contiguous in torch.channels_last (4-d) or channels_last_3d (5-d) order. */
bool tensor_is_channels_last(const rush_tensor *t);
/* Do its strides, in their order, say channels last (PyTorch's suggest_memory_format)?  Gaps are
 * allowed; [N, 1, 1, 1] is taken for channels first. */
bool tensor_prefers_channels_last(const rush_tensor *t);
bool tensor_same_geometry(const rush_tensor *a, const rush_tensor *b); /* sizes and strides */
/* Do two tensors share bytes?  Conservative: true when it cannot tell. */
bool tensor_overlaps(const rush_tensor *a, const rush_tensor *b);
/* Does one element have two places (expanded)?  Then in-place writes are refused. */
bool tensor_overlaps_itself(const rush_tensor *t);
static inline const quantizer *tensor_quantizer(const rush_tensor *t)
{
  return t->extra ? t->extra->quant : NULL;
}
rush_status tensor_set_quantizer(call_ctx *cx, rush_tensor *t,
                                 const quantizer *q) RUSH_CHECKED; /* copies */
void tensor_drop_quantizer(rush_tensor *t);

/* Pointer for writing: moves the storage's version. */
static inline void *tensor_data_mut(rush_tensor *t)
{
  atomic_fetch_add_explicit(&t->st->version, 1, memory_order_relaxed);
  return t->data;
}

/* -- Elements ---------------------------------------------------------------------------------- */

/* One element as a number (bool, int, float, complex), by linear index in row-major order. */
rush_status tensor_get(call_ctx *cx, const rush_tensor *t, int64_t linear,
                       rush_value *out) RUSH_CHECKED;
void tensor_set(rush_tensor *t, int64_t linear,
                rush_value number); /* converts; complex -> real drops im */
/* The only element: RUSH_ERAISED as item() when there is not exactly one. */
rush_status tensor_item(call_ctx *cx, const rush_tensor *t, rush_value *out) RUSH_CHECKED;

/* -- Copying (tensor/copy.c) ------------------------------------------------------------------- */

/* dst[...] = src, with broadcasting of src and conversion of dtype.  Overlap is handled. */
rush_status tensor_copy(call_ctx *cx, rush_tensor *dst, const rush_tensor *src) RUSH_CHECKED;
rush_status tensor_fill(call_ctx *cx, rush_tensor *t, rush_value number) RUSH_CHECKED;
/* n elements of `item` bytes (1, 2, 4, 8, 16) between byte strides, which may be negative. */
void copy_elems(size_t item, char *d, int64_t ds, const char *s, int64_t ss, int64_t n);
/* n elements between contiguous buffers with conversion; any pair of dtypes. */
void convert_elems(int to, void *dst, int from, const void *src, int64_t n);

/* -- Geometry helpers -------------------------------------------------------------------------- */

/* Row-major strides. */
void strides_contiguous(int n_dims, const int64_t *sizes, int64_t *strides);
/* Product of sizes; false on overflow or a negative size. */
bool sizes_numel(int n_dims, const int64_t *sizes, int64_t *out);
/* Wrap a dim index as PyTorch: IndexError "Dimension out of range (expected to be in range of [-2,
 * 1], but got 5)".  A 0-dim tensor takes -1 and 0. */
rush_status dim_wrap(call_ctx *cx, int64_t dim, int n_dims, int *out) RUSH_CHECKED;
/* Resize in place (resize_): grows the storage when needed; contiguous afterwards. */
rush_status tensor_resize(call_ctx *cx, rush_tensor *t, int n_dims,
                          const int64_t *sizes) RUSH_CHECKED;
/* Another order of the dimensions in memory, for a contiguous tensor whose elements nobody needs:
 * strides that are dense. */
void tensor_reorder(rush_tensor *t, const int64_t *strides);
/* Replace t's geometry and storage by other's (set_, in-place views); t stays the same object. */
rush_status tensor_set_like(call_ctx *cx, rush_tensor *t, const rush_tensor *other) RUSH_CHECKED;

/* "[2, 3]" for messages; borrowed from `buf`. */
typedef struct sizes_text {
  char s[512];
} sizes_text;
const char *sizes_print(sizes_text *buf, int n, const int64_t *sizes);

/* -- Printing (tensor/print.c) ----------------------------------------------------------------- */

/* As libtorch's operator<< prints (what prim::Print and str(tensor) in TorchScript show). */
rush_status tensor_print_aten(call_ctx *cx, text_buf *out, const rush_tensor *t) RUSH_CHECKED;
/* As Python's repr(tensor). */
rush_status tensor_print_python(call_ctx *cx, text_buf *out, const rush_tensor *t) RUSH_CHECKED;

#endif
