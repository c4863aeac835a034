/* ops/kernels/order.h -- sorts, selects and searches elements of any real dtype in PyTorch's order.
 *
 * An element becomes a 64-bit key: keys compare as the elements do, NaN last, -0 equal to 0. So
 * sorting, selecting and searching are written once.  The *_by algorithms are unstable; they take
 * the steps of libstdc++'s std::sort, std::nth_element and std::partial_sort, which PyTorch uses,
 * because the order of two equal elements is visible in the indices.
 *
 * along: presents the argument and the results of an operator along one dimension as contiguous
 * rows; copies those that are not. */
#ifndef RUSH_OPS_ORDER_H
#define RUSH_OPS_ORDER_H

#include "ops/call/call.h"

#define KEY_NAN UINT64_MAX

typedef struct keyed {
  uint64_t key;
  int64_t index;
} keyed;

/* Compute keys of n contiguous elements; order_has is false if the dtype has no order (complex,
 * quantized). */
bool order_has(int dtype);
void order_keys(const call_ctx *cx, int dtype, const void *data, int64_t n, uint64_t *out);
/* Compute keys with positions; `flip` reverses the order (NaN first). */
void order_keyed(const call_ctx *cx, int dtype, const void *data, int64_t n, bool flip, keyed *out);

/* Sort stably by ascending keys; `spare` has n places too. */
void order_stable(const call_ctx *cx, keyed *x, keyed *spare, int64_t n);
void order_sort(const call_ctx *cx, keyed *x, int64_t n);                   /* std::sort */
void order_nth(const call_ctx *cx, keyed *x, int64_t nth, int64_t n);       /* std::nth_element */
void order_first(const call_ctx *cx, keyed *x, int64_t middle, int64_t n);  /* std::partial_sort */
/* Return how many keys of the ascending row are below `key` (right: below or equal); nan_ends: keys
 * of floats, where NaN is neither above nor below, as in searchsorted. */
int64_t order_place(const uint64_t *keys, int64_t n, uint64_t key, bool right, bool nan_ends);

/* Copy to[i] = row[at[i]] for elements of `item` bytes. */
void order_take(const call_ctx *cx, size_t item, void *to, const void *row, const int64_t *at,
                int64_t n);
/* Convert a key back to its element, which must not be NaN. */
void order_unkey(int dtype, uint64_t key, void *to);
/* Scratch for selection; 16 KB, so it is part of the caller's allocation. */
typedef union order_counts {
  int32_t of_11_bits[2][2048]; /* several, so that adjacent equal keys do not wait for each other */
  int64_t of_bytes[4][256];
} order_counts;
/* Return the key at position k (from 0) of the ascending order; reorders x. */
uint64_t order_select(const call_ctx *cx, uint64_t *x, int64_t k, int64_t n, order_counts *counts);
/* The same for float32, with 32 bits per key: compute keys of n elements and return how many are
 * NaN (UINT32_MAX); select; convert a key to its value. */
int64_t order_keys_f32(const float *x, int64_t n, uint32_t *out);
uint32_t order_select_f32(const call_ctx *cx, uint32_t *x, int64_t k, int64_t n,
                          order_counts *counts);
float order_unkey_f32(uint32_t key);

/* -- Rows -------------------------------------------------------------------------------------- */

typedef struct along {
  rush_tensor *t; /* contiguous, with the dimension last; owned */
  int dim, n_dims;
  int64_t n, n_rows;
} along;

rush_status along_open(call_ctx *cx, rush_tensor *t, int64_t dim, along *out) RUSH_CHECKED;
void along_close(along *a);
/* Return memory for a result in row order: `out` itself if its elements are in that order, as they
 * always are with one element per row, else a new tensor. */
rush_status along_rows(call_ctx *cx, const along *a, rush_tensor *out,
                       rush_tensor **rows) RUSH_CHECKED;
/* Copy `rows` into `out` if st is RUSH_OK, and release them.  Returns st, or the copy's status. */
rush_status along_put_steal(call_ctx *cx, const along *a, rush_tensor *rows, rush_tensor *out,
                            rush_status st) RUSH_CHECKED;
static inline const char *along_row(const along *a, int64_t row)
{
  return (const char *)a->t->data + (size_t)(row * a->n) * tensor_item_bytes(a->t);
}

#endif
