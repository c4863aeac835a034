/* exchange.h -- DLPack: capsules, and torch's tensors through its C exchange API. */
#ifndef RUSH_PY_EXCHANGE_H
#define RUSH_PY_EXCHANGE_H

#include "py.h"

/* Make a capsule with our tensor, new; versioned: of DLPack 1, which can mark memory as
 * read-only. */
PyObject *py_dlpack_capsule(py_state *state, rush_tensor *t, bool versioned);
/* Tensor.__dlpack__ (METH_FASTCALL | METH_KEYWORDS). */
PyObject *py_tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);

/* Return the API of a tensor type; NULL: it has none, or an unknown one. */
const struct py_exchange *py_exchange_find(PyObject *tensor_type);

/* The position of a tensor's elements: borrowed from the tensor. */
typedef struct py_geometry {
  int dtype, n_dims;
  const int64_t *sizes, *strides; /* strides NULL: row-major */
  void *data;
  void *base;      /* of the storage, if its whole extent is known; else NULL */
  size_t n_bytes;  /* bytes from base on */
  int64_t offset;  /* of data after base, in elements */
  bool has_meta;   /* torch has autograd data for it: it may require a gradient */
} py_geometry;
/* Read a tensor's geometry.  Returns false, without an exception, if the tensor is not on the CPU,
 * not strided, of another dtype... */
bool py_exchange_read(const struct py_exchange *api, PyObject *o, py_geometry *g);

/* Make a tensor of the API's framework on t's memory; NULL, without an exception, if the framework
 * does not support it. */
PyObject *py_exchange_write(const struct py_exchange *api, rush_context *context, rush_tensor *t);

#endif
