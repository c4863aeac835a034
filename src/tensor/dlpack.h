/* tensor/dlpack.h -- import and export of tensors as DLPack, with the plain and the versioned (1.x)
 * structs.
 *
 * The structs follow the DLPack specification v1.1 and are declared in dlpack.c.  Exported strides
 * are never NULL; only CPU memory is accepted.  An exported tensor keeps ours alive until its
 * deleter is called. */
#ifndef RUSH_TENSOR_DLPACK_H
#define RUSH_TENSOR_DLPACK_H

#include "tensor/tensor.h"

/* Export t.  *out is a DLManagedTensor* or DLManagedTensorVersioned*, new: its deleter releases
 * it. */
rush_status tensor_to_dlpack(call_ctx *cx, rush_tensor *t, bool versioned, void **out) RUSH_CHECKED;
/* Import `managed`; steals it, also on failure. */
rush_status tensor_from_dlpack_steal(call_ctx *cx, void *managed, bool versioned, rush_tensor **out)
    RUSH_CHECKED;
void dlpack_release(void *managed, bool versioned); /* call its deleter */

#endif
