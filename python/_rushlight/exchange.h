/* exchange.h -- DLPack: capsules, and torch's tensors through its C exchange API. */
#ifndef RUSH_PY_EXCHANGE_H
#define RUSH_PY_EXCHANGE_H

#include "py.h"

/* A capsule with our tensor, new; versioned: of DLPack 1, which can say that memory is read-only.
 * */
PyObject *py_dlpack_capsule(py_state *state, rush_tensor *t, bool versioned);
/* Tensor.__dlpack__ (METH_FASTCALL | METH_KEYWORDS). */
PyObject *py_tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);

/* The API of a tensor type, or NULL: it has none, or one that is not known here. */
const struct py_exchange *py_exchange_find(PyObject *tensor_type);

/* Where a tensor's elements are: borrowed from the tensor. */
typedef struct py_geometry {
  int dtype, n_dims;
  const int64_t *sizes, *strides; /* strides NULL: row-major */
  void *data;
  void *base;      /* of the storage, when its whole extent is known; else NULL */
  size_t n_bytes;  /* from base on */
  int64_t offset;  /* of data behind base, in elements */
  bool has_meta;   /* torch keeps notes for autograd: it may require a gradient */
} py_geometry;
/* False, without an exception: the tensor is not on the CPU, not strided, of another dtype... */
bool py_exchange_read(const struct py_exchange *api, PyObject *o, py_geometry *g);

/* A tensor of the API's framework on t's memory; NULL, without an exception, when it takes no such
 * one. */
PyObject *py_exchange_write(const struct py_exchange *api, rush_context *context, rush_tensor *t);

#endif
