/* ops/kernels/views.h -- geometry of views, and helpers for kernels.
 *
 * A `geom` is the geometry of a view under construction: start from a tensor's, change it with the
 * functions here, and make the view.  Dimensions are counted from the front and positions are
 * within them: shape rules have checked what came from a program. */
#ifndef RUSH_OPS_VIEWS_H
#define RUSH_OPS_VIEWS_H

#include "ops/call/call.h"

typedef struct geom {
  int n_dims;
  int64_t offset;
  int64_t sizes[TENSOR_MAX_DIMS], strides[TENSOR_MAX_DIMS];
} geom;

void geom_of(geom *g, const rush_tensor *t);
/* Make a view of t with g's geometry; requires_grad and quantizer are kept. */
rush_status geom_view(call_ctx *cx, const rush_tensor *t, const geom *g,
                      rush_tensor **out) RUSH_CHECKED;
/* Copy the view g_from of `from` into the view g_to of `to`, which has the same sizes. */
rush_status geom_copy(call_ctx *cx, rush_tensor *to, const geom *g_to, const rush_tensor *from,
                      const geom *g_from) RUSH_CHECKED;

void geom_remove_dim(geom *g, int dim);
void geom_insert_dim(geom *g, int dim, int64_t size, int64_t stride);
void geom_select(geom *g, int dim, int64_t index);
void geom_narrow(geom *g, int dim, int64_t start, int64_t length);
/* Change to another geometry of the same elements; returns false if that needs a copy. */
bool geom_reshape(geom *g, int n, const int64_t *sizes);
/* Replace dimensions a and b by their diagonal, as the last dimension. */
void geom_diagonal(geom *g, int64_t offset, int a, int b);

/* The same operations on tensors; *out new. */
rush_status tensor_select(call_ctx *cx, const rush_tensor *t, int dim, int64_t index,
                          rush_tensor **out) RUSH_CHECKED;
rush_status tensor_narrow(call_ctx *cx, const rush_tensor *t, int dim, int64_t start,
                          int64_t length, rush_tensor **out) RUSH_CHECKED;
rush_status tensor_permute(call_ctx *cx, const rush_tensor *t, const int64_t *dims,
                           rush_tensor **out) RUSH_CHECKED;
rush_status tensor_transpose(call_ctx *cx, const rush_tensor *t, int a, int b,
                             rush_tensor **out) RUSH_CHECKED;
/* Move these dimensions to the end; they keep their order. */
rush_status tensor_dims_last(call_ctx *cx, const rush_tensor *t, uint64_t dims,
                             rush_tensor **out) RUSH_CHECKED;
/* Expand to n sizes, or refuse as PyTorch does. */
rush_status tensor_expand(call_ctx *cx, const rush_tensor *t, int n, const int64_t *sizes,
                          rush_tensor **out) RUSH_CHECKED;
/* Make a view if possible, else a copy; the sizes have t's number of elements. */
rush_status tensor_reshape(call_ctx *cx, const rush_tensor *t, int n, const int64_t *sizes,
                           rush_tensor **out) RUSH_CHECKED;

/* -- Memory formats ---------------------------------------------------------------------------- */

enum {
  FORMAT_CONTIGUOUS = 0,
  FORMAT_PRESERVE = 1,
  FORMAT_CHANNELS_LAST = 2,
  FORMAT_CHANNELS_LAST_3D = 3
};

/* -- Arguments and results of kernels ---------------------------------------------------------- */

/* Return a list of tensors as result `i`; steals the tensors, also on failure. */
rush_status call_return_tensors_steal(rush_call *c, uint32_t i, rush_tensor **t,
                                      size_t n) RUSH_CHECKED;
/* Read an int[] argument of any length up to the limit of dims, or fail with the operator's
 * name. */
rush_status call_sizes(rush_call *c, uint32_t i, int64_t *out, int *n) RUSH_CHECKED;
/* Return item k of a Tensor[] argument, NULL if undefined. */
static inline rush_tensor *list_tensor(const rush_list *l, size_t k)
{
  return l->items[k].tag == RUSH_TAG_TENSOR ? l->items[k].as.tensor : NULL;
}

#endif
