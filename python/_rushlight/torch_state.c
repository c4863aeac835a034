/* torch, if it is imported: the extension's references to it, its random state and grad mode. */
#include "exchange.h"
#include "layout.h"

/* Map torch.NAME to the number; a name that this torch lacks is skipped. */
static int add_name(py_state *st, PyObject *torch, const char *name, long number)
{
  PyObject *object = PyObject_GetAttrString(torch, name);

  if (!object) {
    PyErr_Clear();
    return 0;
  }
  PyObject *n = PyLong_FromLong(number);
  int result = n ? PyDict_SetItem(st->torch_names, object, n) : -1;
  Py_XDECREF(n);
  Py_DECREF(object);
  return result;
}

/* Fill dtypes, layouts, memory formats and quantization schemes: programs use their numbers. */
static int fill_torch_names(py_state *st, PyObject *torch)
{
  static const char *const formats[] = {"contiguous_format", "preserve_format", "channels_last",
                                        "channels_last_3d"};
  static const char *const layouts[] = {"strided", "sparse_coo", "sparse_csr", "_mkldnn"};
  static const char *const schemes[] = {"per_tensor_affine", "per_channel_affine",
                                        "per_tensor_symmetric", "per_channel_symmetric",
                                        "per_channel_affine_float_qparams"};

  st->torch_names = PyDict_New();
  if (!st->torch_names)
    return -1;
  for (int d = 0; d < RUSH_N_DTYPES; d++) {
    const char *name = rush_dtype_name((rush_dtype)d);
    if (name && add_name(st, torch, name, d) < 0)
      return -1;
  }
  for (int i = 0; i < 4; i++)
    if (add_name(st, torch, formats[i], i) < 0 || add_name(st, torch, layouts[i], i) < 0)
      return -1;
  for (int i = 0; i < 5; i++)
    if (add_name(st, torch, schemes[i], i) < 0)
      return -1;
  return 0;
}

int py_find_torch(py_state *st)
{
  if (st->torch_tensor)
    return 1;
  if (!st->name_torch && !(st->name_torch = PyUnicode_InternFromString("torch"))) {
    PyErr_Clear();
    return 0;
  }
  PyObject *modules = PyImport_GetModuleDict();
  PyObject *torch = PyDict_GetItemWithError(modules, st->name_torch); /* borrowed */
  if (!torch) {
    PyErr_Clear();
    return 0;
  }
  PyObject *tensor = PyObject_GetAttrString(torch, "Tensor");
  PyObject *dlpack = PyObject_GetAttrString(torch, "from_dlpack");
  PyObject *grad = PyObject_GetAttrString(torch, "is_grad_enabled");
  PyObject *default_dtype = PyObject_GetAttrString(torch, "get_default_dtype");
  PyObject *graph = PyImport_ImportModule("torch.autograd.graph");
  PyObject *bump = graph ? PyObject_GetAttrString(graph, "increment_version") : NULL;
  Py_XDECREF(graph);
  if (!tensor || !dlpack || !grad || !default_dtype || !bump || fill_torch_names(st, torch) < 0) {
    PyErr_Clear(); /* torch is still being imported: treated as missing */
    Py_XDECREF(tensor);
    Py_XDECREF(dlpack);
    Py_XDECREF(grad);
    Py_XDECREF(default_dtype);
    Py_XDECREF(bump);
    return 0;
  }
  st->torch_from_dlpack = dlpack;
  st->torch_grad_enabled = grad;
  st->torch_default_dtype = default_dtype;
  st->torch_increment_version = bump;
  st->name_is_neg = PyUnicode_InternFromString("is_neg");
  st->name_is_conj = PyUnicode_InternFromString("is_conj");
  st->name_requires_grad = PyUnicode_InternFromString("requires_grad");
  if (st->name_is_neg && st->name_is_conj && st->name_requires_grad)
    st->exchange = py_exchange_find(tensor);
  PyErr_Clear();
  st->layout = py_layout_find(torch, st->exchange);
  st->torch_tensor = tensor;
  return 1;
}

/* -- torch's state around a call --------------------------------------------------------------- */

int py_set_random_state(PyObject *o, const char *method, const char *bytes)
{
  PyObject *torch = PyImport_ImportModule("torch"), *r = NULL;
  PyObject *dtype = torch ? PyObject_GetAttrString(torch, "uint8") : NULL;
  PyObject *make = torch ? PyObject_GetAttrString(torch, "frombuffer") : NULL;
  PyObject *array = make ? PyByteArray_FromStringAndSize(bytes, RUSH_GENERATOR_STATE_BYTES) : NULL;
  PyObject *args = array ? PyTuple_Pack(1, array) : NULL,
           *kwargs = dtype ? Py_BuildValue("{s:O}", "dtype", dtype) : NULL;
  PyObject *tensor = args && kwargs ? PyObject_Call(make, args, kwargs) : NULL;

  if (tensor)
    r = PyObject_CallMethod(o, method, "O", tensor);
  Py_XDECREF(r);
  Py_XDECREF(tensor);
  Py_XDECREF(kwargs);
  Py_XDECREF(args);
  Py_XDECREF(array);
  Py_XDECREF(make);
  Py_XDECREF(dtype);
  Py_XDECREF(torch);
  return r ? 0 : -1;
}

/* Exchange torch's random state around a call that may draw numbers, so that torch.manual_seed
 * takes effect. */
int py_sync_generator(py_state *st, bool into_torch)
{
  PyObject *torch = PyImport_ImportModule("torch");
  rush_error err = RUSH_ERROR_INIT;
  char bytes[RUSH_GENERATOR_STATE_BYTES];
  PyObject *state = NULL;
  Py_buffer b;
  int result = -1;

  if (!torch)
    return -1;
  if (into_torch) {
    if (rush_generator_get_state(st->context, bytes, &err) != RUSH_OK) {
      py_raise(st, &err);
      goto done;
    }
    result = py_set_random_state(torch, "set_rng_state", bytes);
    goto done;
  }
  PyObject *tensor = PyObject_CallMethod(torch, "get_rng_state", NULL);
  state = tensor ? PyObject_CallMethod(tensor, "numpy", NULL) : NULL;
  Py_XDECREF(tensor);
  if (!state || PyObject_GetBuffer(state, &b, PyBUF_SIMPLE) < 0)
    goto done;
  result = 0;
  if (rush_generator_set_state(st->context, b.buf, (size_t)b.len, &err) != RUSH_OK) {
    py_raise(st, &err);
    result = -1;
  }
  PyBuffer_Release(&b);
done:
  Py_XDECREF(state);
  Py_DECREF(torch);
  return result;
}

py_grad_mode py_get_grad_mode(py_state *st)
{
  py_grad_mode mode = PY_GRAD_ENABLED;
  PyObject *v = NULL;

  if (py_find_torch(st)) {
    v = PyObject_CallNoArgs(st->torch_grad_enabled);
    mode = v == Py_False ? PY_GRAD_OFF : PY_GRAD_ENABLED;
  } else if (PyContextVar_Get(st->grad_mode, Py_None, &v) == 0 && v != Py_None) {
    mode = v == Py_True ? PY_GRAD_EXPLICIT : PY_GRAD_OFF;
  }
  PyErr_Clear();
  Py_XDECREF(v);
  return mode;
}

int py_sync_default_dtype(py_state *st)
{
  if (!py_find_torch(st))
    return 0;
  PyObject *dtype = PyObject_CallNoArgs(st->torch_default_dtype);
  if (dtype && dtype != st->default_dtype) {
    const int number = py_dtype_of(st, dtype);
    if (number >= 0) {
      rush_context_set_default_dtype(st->context, (rush_dtype)number);
      Py_XSETREF(st->default_dtype, Py_NewRef(dtype));
    }
  }
  Py_XDECREF(dtype);
  return PyErr_Occurred() ? -1 : 0;
}
