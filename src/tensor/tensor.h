/* tensor/tensor.h -- tensors and storages.
 *
 * A storage is a refcounted buffer with a function that frees its memory, and a version that
 * increases with every write.  A tensor is a strided view of a storage.  A small storage and its
 * data are one block (storage_new), so a tiny tensor takes two blocks from free lists, and its
 * views need no special case.
 *
 * Invariants.  (1) n_dims <= TENSOR_MAX_DIMS.  (2) Every element that sizes and strides can reach
 * is inside the storage: checked when a view is made, so kernels never check.  (3) `data` points to
 * element 0 (storage data + offset * item bytes).  (4) `n_elems` is the product of sizes, and the
 * product of the sizes other than 0 fits into an int64 too.  (5) So do strides in bytes, also of
 * dimensions of size 1 or 0: kernels multiply sizes and strides of a tensor without overflow
 * checks.
 *
 * Threads: counts are atomic; only one thread at a time may write contents. An undefined tensor is
 * a value with a NULL pointer, never a rush_tensor. */
#ifndef RUSH_TENSOR_TENSOR_H
#define RUSH_TENSOR_TENSOR_H

#include "tensor/dtype.h"
#include "value/value.h"

#define TENSOR_INLINE_DIMS 5
#define TENSOR_MAX_DIMS 64
#define TENSOR_INLINE_BYTES 64

/* Derived data (packed weights), in a list of the storage it was made from.  Embedded in the
 * maker's struct. */
typedef struct storage_cache storage_cache;
struct storage_cache {
  storage_cache *next;
  uint32_t kind;    /* identifies the kind of data to its maker */
  uint32_t version; /* version of the storage when it was made */
  void (*destroy)(storage_cache *self, context *c);
};

typedef struct storage storage;
struct storage {
  heap h; /* RUSH_TAG_STORAGE */
  void *data;
  size_t n_bytes;
  /* Frees `data`; NULL: mem_free_data (or nothing for inline and empty storages). */
  void (*deleter)(void *user, void *data);
  void *user;
  _Atomic uint32_t version; /* increases with every request of a mutable data pointer */
  uint8_t origin;           /* storage_origin */
  /* the memory must not be written to: op_call refuses such calls; tensor_copy is not called */
  bool read_only;
  _Atomic(storage_cache *) cache; /* freed with the storage */
};
typedef enum storage_origin {
  STORAGE_OURS,    /* mem_alloc_data */
  STORAGE_MAPPED,  /* a private mapping of a file: the kernel copies pages that are written */
  STORAGE_FOREIGN, /* the caller's memory */
  /* of torch's device meta: reads as zeros and uses no memory; programs never get it
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

/* Fields that few tensors need.  Owned by the tensor. */
typedef struct tensor_extra {
  int64_t *dims; /* sizes then strides, if n_dims > TENSOR_INLINE_DIMS */
  quantizer *quant;
  _Atomic(void *) grad_record; /* autograd */
  rush_tensor *nested; /* ops/kernels/nested/nested.h: sizes of a nested tensor's parts, owned */
  sparse_parts *sparse; /* owned, or NULL */
  void (*grad_destroy)(void *);
} tensor_extra;

struct rush_tensor {
  heap h; /* h.flags: tensor_flags; h.small: unused */
  int16_t dtype;
  uint16_t n_dims;
  _Atomic uint32_t number; /* the base of hash(), from context_number; 0: not requested yet */
  int64_t n_elems;
  void *data;
  storage *st;     /* owned */
  int64_t offset;  /* elements */
  int64_t *sizes;  /* inline_dims, or extra->dims */
  int64_t *strides; /* sizes + TENSOR_INLINE_DIMS, or sizes + n_dims in extra */
  int64_t inline_dims[2 * TENSOR_INLINE_DIMS];
  /* or NULL.  Atomic: the first call that records makes that of a parameter, which other threads
   * read meanwhile. */
  _Atomic(tensor_extra *) extra;
};
enum tensor_flags {
  TENSOR_CONTIGUOUS = 1, /* row-major without gaps: recomputed whenever geometry changes */
  TENSOR_REQUIRES_GRAD = 2,
  TENSOR_IS_PARAMETER = 4,
  TENSOR_CONJ = 8, /* never set on results: conj() materialises; reserved */
  TENSOR_WRAPPED_NUMBER = 16, /* a Python number as a tensor: promoted as a number */
  TENSOR_HAS_GRAD_FN = 32     /* requires grad as the result of an operator: it is not a leaf */
};

/* -- Making (all new) -------------------------------------------------------------------------- */

/* Make a contiguous, uninitialised tensor. */
rush_status tensor_new(call_ctx *cx, int dtype, int n_dims, const int64_t *sizes,
                       rush_tensor **out) RUSH_CHECKED;
/* A geometry that was checked once, to make many tensors of: row-major if `strides` is NULL.  The
 * sizes, and row-major strides after them, or dense `strides`, live elsewhere. */
typedef struct tensor_plan {
  int16_t dtype;
  uint16_t n_dims;
  int64_t n_elems;
  size_t n_bytes;
  const int64_t *sizes, *strides;
} tensor_plan;
/* Fill a plan; `dims` has room for sizes and strides, which it gets.  Returns false where only
 * tensor_new can tell: of what it would refuse, and of quantized dtypes. */
bool tensor_plan_make(tensor_plan *out, int dtype, int n_dims, const int64_t *sizes,
                      const int64_t *strides, int64_t *dims);
/* Make an uninitialised tensor of the plan. */
rush_status tensor_new_planned(call_ctx *cx, const tensor_plan *p, rush_tensor **out) RUSH_CHECKED;
/* Make a tensor with `strides`, not negative: its storage is as large as they reach. */
rush_status tensor_new_strided(call_ctx *cx, int dtype, int n_dims, const int64_t *sizes,
                               const int64_t *strides, rush_tensor **out) RUSH_CHECKED;
/* Make a tensor of t's sizes, dtype `dtype` (DTYPE_NONE: t's), and strides as PyTorch's
 * empty_like(preserve_format). */
rush_status tensor_new_like(call_ctx *cx, const rush_tensor *t, int dtype,
                            rush_tensor **out) RUSH_CHECKED;
/* Make a view of a storage; RUSH_ERAISED if elements are outside of it. */
rush_status tensor_new_view(call_ctx *cx, storage *st, int dtype, int n_dims, const int64_t *sizes,
                            const int64_t *strides, int64_t offset, rush_tensor **out) RUSH_CHECKED;
/* Make a view of t's storage with another geometry (offset absolute), the same dtype and
 * requires_grad. */
rush_status tensor_as_strided(call_ctx *cx, const rush_tensor *t, int n_dims, const int64_t *sizes,
                              const int64_t *strides, int64_t offset,
                              rush_tensor **out) RUSH_CHECKED;
/* Return the class of a number, and the dtype of a tensor made of it: bool, int64, the default
 * dtype, the complex one of its size; number_dtype: where the default dtype is float32. */
dtype_class number_class(rush_value number);
int number_dtype(rush_value number);
int number_dtype_in(const call_ctx *cx, rush_value number);
/* Make a 0-dim tensor from a number (Bool, Int, Float, Complex value), converted to dtype. */
rush_status tensor_from_scalar(call_ctx *cx, rush_value number, int dtype,
                               rush_tensor **out) RUSH_CHECKED;
/* Make a new header on the same storage and geometry (alias, detach). */
rush_status tensor_alias(call_ctx *cx, const rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* Return `t` itself, retained, if it is contiguous; else a contiguous copy. */
rush_status tensor_contiguous(call_ctx *cx, rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* Return a contiguous copy with `dtype`, or t itself if it already is that. */
rush_status tensor_to_dtype(call_ctx *cx, rush_tensor *t, int dtype,
                            rush_tensor **out) RUSH_CHECKED;
/* Make a copy; strides as clone(preserve_format). */
rush_status tensor_clone(call_ctx *cx, const rush_tensor *t, rush_tensor **out) RUSH_CHECKED;

rush_status storage_new(call_ctx *cx, size_t n_bytes, storage **out) RUSH_CHECKED;
/* Wrap memory; on success the storage calls deleter(user, data) when it is freed. */
rush_status storage_wrap(call_ctx *cx, void *data, size_t n_bytes, storage_origin origin,
                         void (*deleter)(void *, void *), void *user, storage **out) RUSH_CHECKED;

/* Make a storage for tensors that have sizes and no data. */
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
/* without gaps or overlaps, in some order of the dimensions */
bool tensor_is_dense(const rush_tensor *t);
/* Like tensor_is_dense, for a geometry of at most TENSOR_MAX_DIMS dimensions. */
bool strides_are_dense(int n_dims, const int64_t *sizes, const int64_t *strides);
/* True if contiguous in torch.channels_last (4-d) or channels_last_3d (5-d) order. */
bool tensor_is_channels_last(const rush_tensor *t);
/* True if the order of its strides is channels last (PyTorch's suggest_memory_format).  Gaps are
 * allowed; [N, 1, 1, 1] counts as channels first. */
bool tensor_prefers_channels_last(const rush_tensor *t);
bool tensor_same_geometry(const rush_tensor *a, const rush_tensor *b); /* sizes and strides */
/* True if two tensors may share bytes.  Conservative. */
bool tensor_overlaps(const rush_tensor *a, const rush_tensor *b);
/* True if two indices may address the same memory (expanded tensors).  In-place writes are refused
 * then. */
bool tensor_overlaps_itself(const rush_tensor *t);
/* Give t an extra if it has none.  The tensor is the caller's alone. */
rush_status tensor_need_extra(call_ctx *cx, rush_tensor *t) RUSH_CHECKED;
static inline const quantizer *tensor_quantizer(const rush_tensor *t)
{
  return t->extra ? t->extra->quant : NULL;
}
rush_status tensor_set_quantizer(call_ctx *cx, rush_tensor *t,
                                 const quantizer *q) RUSH_CHECKED; /* copies */
void tensor_drop_quantizer(rush_tensor *t);

/* Return a pointer for writing; increases the storage's version. */
static inline void *tensor_data_mut(rush_tensor *t)
{
  count_add(&t->st->version);
  return t->data;
}

/* -- Elements ---------------------------------------------------------------------------------- */

/* Get one element as a number (bool, int, float, complex), by linear index in row-major order. */
rush_status tensor_get(call_ctx *cx, const rush_tensor *t, int64_t linear,
                       rush_value *out) RUSH_CHECKED;
void tensor_set(rush_tensor *t, int64_t linear,
                rush_value number); /* converts; complex to real drops the imaginary part */
/* Get the only element; like item(), RUSH_ERAISED if there is not exactly one. */
rush_status tensor_item(call_ctx *cx, const rush_tensor *t, rush_value *out) RUSH_CHECKED;

/* -- Copying (tensor/copy.c) ------------------------------------------------------------------- */

/* Assign dst[...] = src, with broadcasting of src and conversion of dtype.  Overlap is allowed. */
rush_status tensor_copy(call_ctx *cx, rush_tensor *dst, const rush_tensor *src) RUSH_CHECKED;
rush_status tensor_fill(call_ctx *cx, rush_tensor *t, rush_value number) RUSH_CHECKED;
/* Copy n elements of `item` bytes (1, 2, 4, 8, 16) with byte strides, which may be negative. */
void copy_elems(size_t item, char *d, int64_t ds, const char *s, int64_t ss, int64_t n);
/* Convert n elements between contiguous buffers; any pair of dtypes. */
void convert_elems(int to, void *dst, int from, const void *src, int64_t n);

/* -- Geometry helpers -------------------------------------------------------------------------- */

/* Compute row-major strides. */
void strides_contiguous(int n_dims, const int64_t *sizes, int64_t *strides);
/* Multiply sizes; returns false on overflow or a negative size. */
bool sizes_numel(int n_dims, const int64_t *sizes, int64_t *out);
/* Wrap a dim index as PyTorch does: IndexError "Dimension out of range (expected to be in range of
 * [-2, 1], but got 5)".  A 0-dim tensor allows -1 and 0. */
rush_status dim_wrap(call_ctx *cx, int64_t dim, int n_dims, int *out) RUSH_CHECKED;
/* Resize in place (resize_): grows the storage if needed; contiguous afterwards. */
rush_status tensor_resize(call_ctx *cx, rush_tensor *t, int n_dims,
                          const int64_t *sizes) RUSH_CHECKED;
/* Change the order of dimensions in memory of a contiguous tensor, to dense `strides`; its elements
 * become undefined. */
void tensor_reorder(rush_tensor *t, const int64_t *strides);
/* Replace t's geometry and storage by other's (set_, in-place views); t remains the same object. */
rush_status tensor_set_like(call_ctx *cx, rush_tensor *t, const rush_tensor *other) RUSH_CHECKED;

/* Print "[2, 3]" for messages; borrowed from `buf`. */
typedef struct sizes_text {
  char s[512];
} sizes_text;
const char *sizes_print(sizes_text *buf, int n, const int64_t *sizes);

/* -- Printing (tensor/print.c) ----------------------------------------------------------------- */

/* Print as libtorch's operator<< (prim::Print and str(tensor) in TorchScript). */
rush_status tensor_print_aten(call_ctx *cx, text_buf *out, const rush_tensor *t) RUSH_CHECKED;
/* Print as Python's repr(tensor). */
rush_status tensor_print_python(call_ctx *cx, text_buf *out, const rush_tensor *t) RUSH_CHECKED;

#endif
