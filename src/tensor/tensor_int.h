/* tensor/tensor_int.h -- blocks: the memory of headers and small storages.
 *
 * All blocks have one size, so that one free list per thread serves both.  A block is put on the
 * list of the thread that frees it. */
#ifndef RUSH_TENSOR_TENSOR_INT_H
#define RUSH_TENSOR_TENSOR_INT_H

#include "base/isa.h"
#include "tensor/tensor.h"

#define BLOCK_BYTES 160
_Static_assert(sizeof(rush_tensor) <= BLOCK_BYTES, "a tensor header is one block");
_Static_assert(sizeof(storage) + TENSOR_INLINE_BYTES <= BLOCK_BYTES,
               "a small storage is one block");

void *block_alloc(context *c) RUSH_CHECKED; /* NULL: memory ran out */
void block_free(context *c, void *p);

/* The operations on tensors and storages for the value layer. */
extern const value_ops tensor_value_ops, storage_value_ops;

/* Convert 16-bit floats. */
ISA_DECLARE(void, halves_to_f32, (bool bf16, const uint16_t *s, float *d, int64_t n));
ISA_DECLARE(void, halves_from_f32, (bool bf16, const float *s, uint16_t *d, int64_t n));

static inline void *storage_inline_data(storage *st) { return st + 1; }
/* Make room for n_bytes, keeping the content.  Only for a storage that a single tensor uses. */
rush_status storage_grow(call_ctx *cx, storage *st, size_t n_bytes) RUSH_CHECKED;

#endif
