/* backend.h -- for authors of operators: add your own to a context, at run time.
 *
 * One table of functions, given in two ways.  A program that links the library asks for it with
 * rush_backend(RUSH_BACKEND_ABI).  A plug-in (a shared object for `rushlight --plugin FILE`) links nothing of
 * ours: it exports
 *
 *   rush_status rush_plugin(const rush_backend_api *api, rush_context *c, rush_error *err);
 *
 * which is called once with the context that programs will run in, and registers what it brings.
 *
 * An operator is a schema in PyTorch's syntax and a kernel.  It is found like PyTorch's own: by
 * `torch.ops.NAMESPACE.NAME` in programs, by rush_op_call, by rushlight.ops in Python; defaults, conversions
 * and overloads of its schema are applied before the kernel runs.  Register before loading programs that
 * use it.  examples/custom_op.c is a whole one.
 *
 * Kernels.  Arguments are complete and have the schema's types: a `Tensor` is a RUSH_TAG_TENSOR that is not
 * NULL, a `Tensor?` may be RUSH_TAG_NONE, an `int[]` is a list, a `Scalar` a BOOL, INT, FLOAT or COMPLEX.
 * Tensors have any strides: see call_contiguous.  A kernel gives every result, or fails with call_fail.
 * It may be called by several threads at once, and must not keep the call, its arguments, or borrowed
 * pointers.
 *
 * Words of ownership (new, borrowed, steals): rushlight.h.  Version: `struct_bytes` grows at the end only;
 * RUSH_BACKEND_ABI changes when something else does. */
#ifndef RUSHLIGHT_BACKEND_H
#define RUSHLIGHT_BACKEND_H

#include <rushlight/rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUSH_BACKEND_ABI 1u

/* One call of an operator; lives as long as the kernel runs. */
typedef struct rush_call rush_call;

/* What a kernel returns is RUSH_OK, or the status that call_fail (or a failed function here) returned. */
typedef rush_status rush_kernel(rush_call *call);

typedef struct rush_op_def {
  size_t struct_bytes; /* sizeof(rush_op_def) */
  const char *schema;  /* "example::scale(Tensor x, float k=2.0) -> Tensor"; copied */
  rush_kernel *kernel;
  void *user;          /* call_user; must live as long as the context */
} rush_op_def;

typedef struct rush_backend_api {
  size_t struct_bytes;
  uint32_t abi; /* RUSH_BACKEND_ABI */

  /* Add an operator to the context (NULL: the default one), where it stays.  RUSH_EARGUMENT: the schema
   * cannot be parsed (the message says where), or name and overload are taken. */
  rush_status (*op_register)(rush_context *c, const rush_op_def *def, rush_error *err);

  /* -- Inside a kernel -- */

  void *(*call_user)(const rush_call *call);
  rush_context *(*call_context)(const rush_call *call); /* borrowed */
  size_t (*call_n_args)(const rush_call *call);
  rush_value (*call_arg)(const rush_call *call, size_t i); /* borrowed; i < call_n_args */
  /* Give result i (steals), once each. */
  void (*call_return_steal)(rush_call *call, size_t i, rush_value v);
  /* Fail as a Python exception of class `type` (a static string; NULL: "RuntimeError").  The text is
   * printf's.  Returns RUSH_ERAISED. */
  rush_status (*call_fail)(rush_call *call, const char *type, const char *fmt, ...) RUSH_PRINTF(3, 4);
  /* RUSH_OK, or the limit or cancellation that ends the call: ask about once a millisecond. */
  rush_status (*call_poll)(rush_call *call);
  /* A new contiguous tensor, uninitialised; the failure is the call's. */
  rush_status (*call_create)(rush_call *call, rush_dtype dtype, int n_dims, const int64_t *sizes, rush_value *out);
  /* t with contiguous elements: t itself, retained, or a copy.  *out is new. */
  rush_status (*call_contiguous)(rush_call *call, rush_tensor *t, rush_value *out);
  /* Another operator ("aten::softmax.int", or a name whose first fitting overload is meant), one result, new. */
  rush_status (*call_op)(rush_call *call, const char *name, const rush_value *args, size_t n_args, rush_value *out);
  void (*value_release)(rush_value v);

  /* -- Tensors: as in rushlight.h -- */

  rush_dtype (*tensor_dtype)(const rush_tensor *t);
  int (*tensor_n_dims)(const rush_tensor *t);
  const int64_t *(*tensor_sizes)(const rush_tensor *t);
  const int64_t *(*tensor_strides)(const rush_tensor *t);
  int64_t (*tensor_n_elems)(const rush_tensor *t);
  const void *(*tensor_data)(const rush_tensor *t);
  void *(*tensor_data_mut)(rush_tensor *t);
} rush_backend_api;

/* Static; NULL when this library does not have that version. */
RUSH_API const rush_backend_api *rush_backend(uint32_t abi);

/* What a plug-in exports under this name. */
typedef rush_status rush_plugin_fn(const rush_backend_api *api, rush_context *c, rush_error *err);
#define RUSH_PLUGIN_SYMBOL "rush_plugin"

#ifdef __cplusplus
}
#endif
#endif
