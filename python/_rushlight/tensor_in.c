/* tensor_in.c -- converts incoming tensors: torch's, buffers (numpy), and objects with DLPack, on
 * their own memory.
 *
 * A copy that represents the caller's tensor, and read-only memory, are marked as read-only:
 * programs that would write to them are refused, instead of writing where the caller does not see
 * it. */
#include "layout.h"

#include <string.h>

/* Release a Python object whose memory a tensor used. */
static void drop_object(void *user, void *data)
{
  (void)data;
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF((PyObject *)user);
  PyGILState_Release(gil);
}

uint64_t py_hash_geometry(const rush_tensor *t)
{
  uint64_t h = (uint64_t)rush_tensor_n_dims(t);
  for (int i = 0; i < rush_tensor_n_dims(t); i++) {
    h = (h ^ (uint64_t)rush_tensor_sizes(t)[i]) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ (uint64_t)rush_tensor_strides(t)[i]) * UINT64_C(0xc2b2ae3d27d4eb4f);
  }
  return h;
}

static int remember_tensor(py_call *call, rush_value v, PyObject *o, bool is_torch)
{
  const size_t n_few = sizeof call->few / sizeof *call->few;

  if (!call->seen) {
    call->seen = call->few;
    call->cap_seen = n_few;
  }
  if (call->n_seen == call->cap_seen) {
    size_t cap = 2 * call->cap_seen;
    py_seen *grown =
      PyMem_Realloc(call->seen == call->few ? NULL : call->seen, cap * sizeof(*grown));
    if (!grown) {
      PyErr_NoMemory();
      return -1;
    }
    if (call->seen == call->few)
      memcpy(grown, call->few, sizeof call->few);
    call->seen = grown;
    call->cap_seen = cap;
  }
  Py_INCREF(o);
  (void)rush_value_retain(v); /* the program may drop it: out of a dict that it was passed in */
  call->seen[call->n_seen++] = (py_seen){.tensor = v,
                                         .object = o,
                                         .version = rush_tensor_version(v.as.tensor),
                                         .is_torch = is_torch,
                                         .data = rush_tensor_data(v.as.tensor),
                                         .geometry = py_hash_geometry(v.as.tensor)};
  return 0;
}

int py_remember(py_call *call, rush_value v, PyObject *o)
{
  return remember_tensor(call, v, o, false);
}

PyObject *py_tensor_object(const rush_tensor *t) { return rush_tensor_user(t, drop_object); }

static int read_ints(PyObject *sequence, int64_t *out, int max)
{
  Py_ssize_t n = PySequence_Size(sequence);

  if (n < 0 || n > max) {
    if (n > max)
      PyErr_Format(PyExc_ValueError, "a tensor of %zd dimensions; at most %d are known", n, max);
    return -1;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *item = PySequence_GetItem(sequence, i);
    out[i] = item ? PyLong_AsLongLong(item) : -1;
    Py_XDECREF(item);
    if (out[i] == -1 && PyErr_Occurred())
      return -1;
  }
  return (int)n;
}

static int wrap_memory(py_call *call, PyObject *owner, int dtype, int n_dims, const int64_t *sizes,
                       const int64_t *strides, void *data, rush_value *out)
{
  rush_error err = RUSH_ERROR_INIT;

  Py_INCREF(owner);
  if (rush_tensor_wrap(call->state->context, (rush_dtype)dtype, n_dims, sizes, strides, data,
                       drop_object, owner, out, &err) != RUSH_OK) {
    Py_DECREF(owner);
    py_raise(call->state, &err);
    return -1;
  }
  return 0;
}

/* Wrap the whole storage: as_strided works as in torch. */
static int wrap_storage(py_call *call, PyObject *owner, const py_geometry *g, rush_value *out)
{
  rush_error err = RUSH_ERROR_INIT;

  Py_INCREF(owner);
  if (rush_tensor_wrap_part(call->state->context, (rush_dtype)g->dtype, g->n_dims, g->sizes,
                            g->strides, g->offset, g->base, g->n_bytes, drop_object, owner, out,
                            &err) != RUSH_OK) {
    Py_DECREF(owner);
    py_raise(call->state, &err);
    return -1;
  }
  return 0;
}

/* Read the geometry of a plain strided CPU tensor of torch, by its public attributes. */
static int torch_geometry(PyObject *o, int64_t *sizes, int64_t *strides, void **data)
{
  PyObject *shape = PyObject_GetAttrString(o, "shape");
  PyObject *stride = shape ? PyObject_CallMethod(o, "stride", NULL) : NULL;
  PyObject *pointer = stride ? PyObject_CallMethod(o, "data_ptr", NULL) : NULL;
  int n = -1;

  if (pointer) {
    *data = PyLong_AsVoidPtr(pointer);
    if (!PyErr_Occurred() && (n = read_ints(shape, sizes, 64)) >= 0 &&
        read_ints(stride, strides, 64) != n)
      n = -1;
  }
  Py_XDECREF(shape);
  Py_XDECREF(stride);
  Py_XDECREF(pointer);
  return n;
}

static bool attr_is_true(PyObject *o, const char *name)
{
  PyObject *v = PyObject_GetAttrString(o, name);
  bool yes = v && PyObject_IsTrue(v) == 1;

  PyErr_Clear();
  Py_XDECREF(v);
  return yes;
}

/* True if the result of the method or attribute is true, or if it cannot be determined. */
static bool may_be(PyObject *v)
{
  bool yes = !v || v != Py_False;

  PyErr_Clear();
  Py_XDECREF(v);
  return yes;
}

static void read_grad(py_state *st, PyObject *o, rush_tensor *t)
{
  if (!may_be(PyObject_GetAttr(o, st->name_requires_grad)))
    return;
  rush_tensor_set_requires_grad(t, true);
  if (!attr_is_true(o, "is_leaf"))
    rush_tensor_set_leaf(t, false);
}

/* Record the conversion; returns 1, or -1 with an exception. */
static int remember_torch(py_call *call, PyObject *o, rush_value *out)
{
  if (remember_tensor(call, *out, o, true) < 0) {
    rush_value_release(*out);
    return -1;
  }
  call->saw_torch = true;
  return 1;
}

bool py_is_quantized(int dtype)
{
  return dtype == RUSH_QINT8 || dtype == RUSH_QUINT8 || dtype == RUSH_QINT32;
}
/* Convert a tensor of torch's by a Python function that makes ours: returns 1, or -1 with an
 * exception. */
static int copied_in(py_call *call, const char *function, PyObject *o, rush_value *out)
{
  PyObject *made = py_package_call(call->state, function, "(O)", o);

  if (!made)
    return -1;
  *out = rush_value_retain(((py_tensor *)made)->value);
  Py_DECREF(made);
  rush_tensor_set_read_only(out->as.tensor);
  read_grad(call->state, o, out->as.tensor);
  return remember_torch(call, o, out);
}
static int quantized_in(py_call *call, PyObject *o, rush_value *out)
{
  return copied_in(call, "from_torch", o, out);
}

/* Convert a tensor without data: returns 1, or -1 with an exception. */
static int meta_in(py_call *call, PyObject *o, rush_value *out)
{
  int64_t sizes[64], strides[64];
  void *data;
  rush_error err = RUSH_ERROR_INIT;
  PyObject *dtype = PyObject_GetAttrString(o, "dtype");
  PyObject *number = dtype ? PyDict_GetItemWithError(call->state->torch_names, dtype) : NULL;
  int n = number ? torch_geometry(o, sizes, strides, &data) : -1;

  if (!number && !PyErr_Occurred())
    PyErr_Format(PyExc_TypeError, "tensors of %S are not known here", dtype);
  Py_XDECREF(dtype);
  if (n < 0)
    return -1;
  if (rush_tensor_new_meta(call->state->context, (rush_dtype)PyLong_AsLong(number), n, sizes,
                           strides, out, &err) != RUSH_OK) {
    py_raise(call->state, &err);
    return -1;
  }
  read_grad(call->state, o, out->as.tensor);
  return remember_torch(call, o, out);
}

/* Convert on the fast path: returns 1 on success, 0 to use the slow one, -1 with an exception. */
static int from_torch_exchange(py_call *call, PyObject *o, rush_value *out)
{
  py_state *st = call->state;
  bool plain = st->layout && (PyObject *)Py_TYPE(o) == st->torch_tensor;
  py_geometry g;

  if (plain && py_layout_read(st->layout, o, &g)) {
    if (py_is_quantized(g.dtype))
      return quantized_in(call, o, out);
    if (wrap_storage(call, o, &g, out) < 0)
      return -1;
    if (g.has_meta)
      read_grad(st, o, out->as.tensor);
    if (remember_torch(call, o, out) < 0)
      return -1;
    call->seen[call->n_seen - 1].base = g.base;
    call->seen[call->n_seen - 1].n_bytes = g.n_bytes;
    return 1;
  }
  if (!st->exchange || !py_exchange_read(st->exchange, o, &g) || !g.strides)
    return 0;
  if (py_is_quantized(g.dtype))
    return quantized_in(call, o, out);
  if (!g.data)
    return 0;
  /* elements that are negated or conjugated when read are rare, and made real the long way */
  if (g.dtype >= RUSH_FLOAT16 && g.dtype != RUSH_BOOL &&
      may_be(PyObject_CallMethodNoArgs(o, st->name_is_neg)))
    return 0;
  if ((g.dtype == RUSH_COMPLEX64 || g.dtype == RUSH_COMPLEX128) &&
      may_be(PyObject_CallMethodNoArgs(o, st->name_is_conj)))
    return 0;
  if (wrap_memory(call, o, g.dtype, g.n_dims, g.sizes, g.strides, g.data, out) < 0)
    return -1;
  read_grad(st, o, out->as.tensor);
  return remember_torch(call, o, out);
}

/* Return a tensor whose elements are in memory as they are read; new: o itself, or a copy if they
 * are lazily negated or conjugated, or are zeros without memory. */
static PyObject *real_elements(PyObject *o)
{
  PyObject *plain = PyObject_CallMethod(o, "resolve_conj", NULL);
  PyObject *real = plain ? PyObject_CallMethod(plain, "resolve_neg", NULL) : NULL;
  PyObject *zero = real ? PyObject_CallMethod(real, "_is_zerotensor", NULL) : NULL;

  if (zero == Py_True)
    Py_SETREF(real, PyObject_CallMethod(real, "clone", NULL));
  else if (!zero && real)
    PyErr_Clear();
  Py_XDECREF(zero);
  Py_XDECREF(plain);
  return real;
}

/* Find a tensor that was passed before: passed twice, it is one tensor.  Only the first few are
 * compared, since lists of parameters are long. */
static bool find_seen(py_call *call, PyObject *o, rush_value *out)
{
  for (size_t i = 0; i < call->n_seen && i < 16; i++)
    if (call->seen[i].object == o) {
      *out = rush_value_retain(call->seen[i].tensor);
      return true;
    }
  return false;
}

/* Return the layout of a tensor, by its number.  Refuses oneDNN's, jagged and unsupported sparse
 * ones: -1 with an exception. */
static int layout_of(const py_state *st, PyObject *o)
{
  PyObject *layout = PyObject_GetAttrString(o, "layout");
  PyObject *number = layout ? PyDict_GetItemWithError(st->torch_names, layout) : NULL;
  const long known = number ? PyLong_AsLong(number) : -1;

  if (layout && (known < 0 || known > 2) && !PyErr_Occurred())
    PyErr_Format(PyExc_ValueError,
                 "a tensor of layout %S cannot be passed to a program, only torch.strided, "
                 "torch.sparse_coo and "
                 "torch.sparse_csr: pass tensor.to_dense()",
                 layout);
  Py_XDECREF(layout);
  return known > 2 ? -1 : (int)known;
}

int py_torch_to_value(py_call *call, PyObject *o, rush_value *out)
{
  if (find_seen(call, o, out))
    return 0;
  int quick = from_torch_exchange(call, o, out);
  if (quick != 0)
    return quick < 0 ? -1 : 0;

  int64_t sizes[64], strides[64];
  void *data = NULL;
  py_state *st = call->state;

  if (attr_is_true(o, "is_quantized"))
    return quantized_in(call, o, out) < 0 ? -1 : 0;
  const int layout = layout_of(st, o);
  if (layout != 0)
    return layout < 0 || copied_in(call, "sparse_from_torch", o, out) < 0 ? -1 : 0;
  if (call->takes_meta && attr_is_true(o, "is_meta"))
    return meta_in(call, o, out) < 0 ? -1 : 0;
  if (!attr_is_true(o, "is_cpu")) {
    PyErr_SetString(PyExc_ValueError, "the tensor is not on the CPU: pass tensor.cpu()");
    return -1;
  }
  PyObject *real = real_elements(o);
  PyObject *dtype = real ? PyObject_GetAttrString(real, "dtype") : NULL;
  PyObject *number = dtype ? PyDict_GetItemWithError(st->torch_names, dtype) : NULL;
  int n = number ? torch_geometry(real, sizes, strides, &data) : -1;
  if (!number && !PyErr_Occurred())
    PyErr_Format(PyExc_TypeError, "tensors of %S are not known here", dtype);
  int result =
    n < 0 ? -1 : wrap_memory(call, real, (int)PyLong_AsLong(number), n, sizes, strides, data, out);
  if (result == 0 && !data && rush_tensor_n_elems(out->as.tensor)) {
    PyErr_Format(PyExc_TypeError,
                 "a tensor of type '%s' without data cannot be passed to a program",
                 Py_TYPE(o)->tp_name);
    rush_value_release(*out);
    result = -1;
  }
  if (result == 0) {
    read_grad(st, o, out->as.tensor);
    if (real != o)
      rush_tensor_set_read_only(out->as.tensor);
  }
  Py_XDECREF(dtype);
  Py_XDECREF(real);
  if (result == 0 && remember_tensor(call, *out, o, true) < 0) {
    rush_value_release(*out);
    return -1;
  }
  call->saw_torch = true;
  return result;
}

/* Return the dtype of a buffer's format, or -1. */
static int buffer_dtype(const Py_buffer *b)
{
  static const struct { char code; uint8_t bytes; int8_t dtype; } rows[] = {
      {'?', 1, RUSH_BOOL},  {'b', 1, RUSH_INT8},  {'B', 1, RUSH_UINT8}, {'h', 2, RUSH_INT16},
      {'H', 2, RUSH_UINT16}, {'i', 4, RUSH_INT32}, {'I', 4, RUSH_UINT32}, {'l', 8, RUSH_INT64},
      {'L', 8, RUSH_UINT64}, {'q', 8, RUSH_INT64}, {'Q', 8, RUSH_UINT64}, {'e', 2, RUSH_FLOAT16},
      {'f', 4, RUSH_FLOAT32}, {'d', 8, RUSH_FLOAT64}};
  const char *f = b->format ? b->format : "B";

  if (*f == '@' || *f == '=' || *f == '<')
    f++;
  if (f[0] == 'Z' && f[1] && !f[2])
    return f[1] == 'f' ? RUSH_COMPLEX64 : f[1] == 'd' ? RUSH_COMPLEX128 : -1;
  for (size_t i = 0; i < sizeof rows / sizeof *rows && f[0] && !f[1]; i++)
    if (rows[i].code == f[0] && rows[i].bytes == b->itemsize)
      return rows[i].dtype;
  return -1;
}

static void drop_buffer(void *user, void *data)
{
  (void)data;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyBuffer_Release(user);
  PyMem_Free(user);
  PyGILState_Release(gil);
}

/* Refuse a buffer whose elements have no dtype, in torch's words and with advice.  Returns -1. */
static int refuse_elements(PyObject *o, const char *format)
{
  PyErr_Clear();
  PyObject *dtype = PyObject_GetAttrString(o, "dtype"),
           *type = dtype ? PyObject_GetAttrString(dtype, "type") : NULL;
  PyObject *name = type ? PyObject_GetAttrString(type, "__name__") : NULL;

  PyErr_Clear();
  if (name)
    PyErr_Format(PyExc_TypeError,
                 "can't convert np.ndarray of type numpy.%U. The only supported types are: "
                 "float64, float32, float16, complex64, "
                 "complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool. "
                 "Convert the array to one of them: "
                 "array.astype(numpy.float32)",
                 name);
  else
    PyErr_Format(PyExc_TypeError,
                 "a buffer of format '%s' cannot be a tensor: its elements have no dtype",
                 format ? format : "B");
  Py_XDECREF(dtype);
  Py_XDECREF(type);
  Py_XDECREF(name);
  return -1;
}

/* Refuse unsupported elements or strides of a buffer; ValueErrors are torch's if a copy would help.
 * Returns 0, or -1. */
static int check_buffer(PyObject *o, const Py_buffer *b, int dtype)
{
  const char order = b->format ? b->format[0] : '@';

  if (dtype < 0 && b->format && (order == '>' || order == '!') && b->itemsize > 1 &&
      !strchr("wsUSOT", b->format[strlen(b->format) - 1])) {
    PyErr_SetString(
      PyExc_ValueError,
      "given numpy array has byte order different from the native byte order. Conversion between "
      "byte "
      "orders is currently not supported. Pass array.astype(array.dtype.newbyteorder('='))");
    return -1;
  }
  if (dtype < 0)
    return refuse_elements(o, b->format);
  if (b->ndim > 64)
    return PyErr_Format(PyExc_ValueError,
                        "an array of %d dimensions cannot be a tensor; 64 are the most", b->ndim),
           -1;
  for (int i = 0; i < b->ndim; i++) {
    if (b->strides[i] < 0 && b->shape[i] > 1) {
      PyErr_SetString(PyExc_ValueError, "At least one stride in the given numpy array is negative, "
                                        "and tensors with negative strides are "
                                        "not currently supported. (You can probably work around "
                                        "this by making a copy of your array "
                                        " with array.copy().) ");
      return -1;
    }
    if (b->itemsize && b->strides[i] % b->itemsize) {
      PyErr_SetString(PyExc_ValueError, "given numpy array strides not a multiple of the element "
                                        "byte size. Copy the numpy array to "
                                        "reallocate the memory.");
      return -1;
    }
  }
  return 0;
}

/* Convert numpy arrays and other objects with the buffer protocol. */
int py_buffer_to_value(py_call *call, PyObject *o, rush_value *out)
{
  int64_t sizes[64], strides[64];
  rush_error err = RUSH_ERROR_INIT;
  Py_buffer *b = PyMem_Calloc(1, sizeof(*b));

  if (!b) {
    PyErr_NoMemory();
    return -1;
  }
  if (PyObject_GetBuffer(o, b, PyBUF_STRIDED | PyBUF_FORMAT | PyBUF_WRITABLE) < 0) {
    PyErr_Clear();
    if (PyObject_GetBuffer(o, b, PyBUF_STRIDED_RO | PyBUF_FORMAT) < 0) {
      PyMem_Free(b);
      return PyErr_ExceptionMatches(PyExc_ValueError) ? refuse_elements(o, NULL)
                                                      : -1; /* dates: numpy shows no buffer */
    }
    b->readonly = 1;
  }
  int dtype = buffer_dtype(b);
  if (check_buffer(o, b, dtype) < 0) {
    PyBuffer_Release(b);
    PyMem_Free(b);
    return -1;
  }
  for (int i = 0; i < b->ndim; i++) {
    sizes[i] = b->shape[i];
    strides[i] = b->strides[i] < 0
                   ? 1
                   : b->strides[i] / (b->itemsize ? b->itemsize : 1); /* below 0: of one element */
  }
  if (rush_tensor_wrap(call->state->context, (rush_dtype)dtype, b->ndim, sizes, strides, b->buf,
                       drop_buffer, b, out, &err) != RUSH_OK) {
    PyBuffer_Release(b);
    PyMem_Free(b);
    py_raise(call->state, &err);
    return -1;
  }
  if (b->readonly)
    rush_tensor_set_read_only(out->as.tensor);
  call->saw_numpy = true;
  return remember_tensor(call, *out, o, false);
}

/* Return the capsule of o's tensor, new: versioned if the producer supports it, so that it can mark
 * memory as read-only. */
static PyObject *dlpack_capsule_of(PyObject *o)
{
  PyObject *method = PyObject_GetAttrString(o, "__dlpack__"),
           *none = method ? PyTuple_New(0) : NULL;
  PyObject *newest = none ? Py_BuildValue("{s:(ii)}", "max_version", 1, 0) : NULL;
  PyObject *capsule = newest ? PyObject_Call(method, none, newest) : NULL;

  if (newest && !capsule &&
      PyErr_ExceptionMatches(PyExc_TypeError)) { /* a producer of before max_version */
    PyErr_Clear();
    capsule = PyObject_CallNoArgs(method);
  }
  Py_XDECREF(newest);
  Py_XDECREF(none);
  Py_XDECREF(method);
  return capsule;
}

/* The capsule is renamed once its contents are ours, as the protocol requires. */
int py_from_dlpack(py_call *call, PyObject *o, rush_value *out)
{
  rush_error err = RUSH_ERROR_INIT;
  PyObject *capsule = dlpack_capsule_of(o);
  const bool versioned = capsule && PyCapsule_IsValid(capsule, "dltensor_versioned");
  void *managed =
    capsule ? PyCapsule_GetPointer(capsule, versioned ? "dltensor_versioned" : "dltensor") : NULL;
  int result = -1;

  if (managed &&
      PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor") == 0) {
    if (rush_tensor_from_dlpack_steal(call->state->context, managed, versioned, out, &err) ==
        RUSH_OK)
      result = 0;
    else
      py_raise(call->state, &err);
  }
  Py_XDECREF(capsule);
  if (result == 0 && remember_tensor(call, *out, o, false) < 0) {
    rush_value_release(*out);
    result = -1;
  }
  return result;
}
