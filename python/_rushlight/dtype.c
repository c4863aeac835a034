/* _rushlight/dtype.c -- conversion of objects to dtypes: one of rushlight's, torch's or numpy's, a
 * Python type, or a name. */
#include "py.h"

#include <string.h>

/* Return the dtype of that name, or -1. */
static int named_dtype(const char *name)
{
  for (int d = 0; d < RUSH_N_DTYPES; d++) {
    const char *known = rush_dtype_name((rush_dtype)d);
    if (known && strcmp(known, name) == 0)
      return d;
  }
  return -1;
}

static int refuse_dtype(PyObject *o)
{
  PyErr_Format(PyExc_TypeError,
               "dtype: expected a dtype of rushlight, torch or numpy, or a name such as 'float32', "
               "but got %R of type '%s'",
               o, Py_TYPE(o)->tp_name);
  return -1;
}

/* Return the dtype of Python's own types, as numpy and torch interpret them. */
static int python_dtype(PyObject *o)
{
  return o == (PyObject *)&PyBool_Type      ? RUSH_BOOL
         : o == (PyObject *)&PyLong_Type    ? RUSH_INT64
         : o == (PyObject *)&PyFloat_Type   ? RUSH_FLOAT64
         : o == (PyObject *)&PyComplex_Type ? RUSH_COMPLEX128
                                            : -1;
}

/* Return the numpy.dtype that o is, or whose scalar class it is (np.float32); new.  NULL without an
 * exception: it is neither. */
static PyObject *numpy_dtype(PyObject *o)
{
  PyObject *numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy"); /* borrowed */
  PyObject *type = numpy ? PyObject_GetAttrString(numpy, "dtype") : NULL, *made = NULL;

  if (type && PyObject_IsInstance(o, type) == 1) {
    made = Py_NewRef(o);
  } else if (type && PyType_Check(o) && PyObject_HasAttrString(o, "dtype")) {
    made = PyObject_CallOneArg(type, o);
    PyObject *scalar = made ? PyObject_GetAttrString(made, "type") : NULL;
    if (scalar != o) /* an abstract class: np.floating */
      Py_CLEAR(made);
    Py_XDECREF(scalar);
  }
  PyErr_Clear();
  Py_XDECREF(type);
  return made;
}

/* Convert a numpy dtype by its name, in the machine's byte order. */
static int from_numpy_dtype(PyObject *dtype)
{
  PyObject *name = PyObject_GetAttrString(dtype, "name"),
           *native = PyObject_GetAttrString(dtype, "isnative");
  const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
  int found = text && native == Py_True ? named_dtype(text) : -1;

  PyErr_Clear();
  Py_XDECREF(name);
  Py_XDECREF(native);
  return found;
}

int py_dtype_of(py_state *st, PyObject *o)
{
  if (Py_IS_TYPE(o, st->dtype_type))
    return (int)PyLong_AsLong(PyTuple_GET_ITEM(o, 1));
  int found = python_dtype(o);
  if (PyUnicode_Check(o)) {
    const char *text = PyUnicode_AsUTF8(o);
    PyErr_Clear();
    found = !text ? -1 : named_dtype(strncmp(text, "torch.", 6) == 0 ? text + 6 : text);
  } else if (strcmp(Py_TYPE(o)->tp_name, "torch.dtype") == 0 && py_find_torch(st)) {
    PyObject *number = PyDict_GetItemWithError(st->torch_names, o);
    found = number ? (int)PyLong_AsLong(number) : -1;
  } else if (found < 0) {
    PyObject *dtype = numpy_dtype(o);
    found = dtype ? from_numpy_dtype(dtype) : -1;
    Py_XDECREF(dtype);
  }
  return found >= 0 ? found : refuse_dtype(o);
}
