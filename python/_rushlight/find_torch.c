/* find_torch.c -- finds torch, if it is imported, and what the extension needs of it. */
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
  for (int d = 0; d < 30; d++) {
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
  PyObject *modules = PyImport_GetModuleDict();
  PyObject *torch = PyDict_GetItemString(modules, "torch"); /* borrowed */
  if (!torch)
    return 0;
  PyObject *tensor = PyObject_GetAttrString(torch, "Tensor");
  PyObject *dlpack = PyObject_GetAttrString(torch, "from_dlpack");
  PyObject *grad = PyObject_GetAttrString(torch, "is_grad_enabled");
  PyObject *graph = PyImport_ImportModule("torch.autograd.graph");
  PyObject *bump = graph ? PyObject_GetAttrString(graph, "increment_version") : NULL;
  Py_XDECREF(graph);
  if (!tensor || !dlpack || !grad || !bump || fill_torch_names(st, torch) < 0) {
    PyErr_Clear(); /* torch is still being imported: as if it were not there */
    Py_XDECREF(tensor);
    Py_XDECREF(dlpack);
    Py_XDECREF(grad);
    Py_XDECREF(bump);
    return 0;
  }
  st->torch_from_dlpack = dlpack;
  st->torch_grad_enabled = grad;
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
