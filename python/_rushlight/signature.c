/* signature.c -- the inputs and outputs of a method, as tuples that rushlight/signature.py
 * names. */
#include "py.h"

/* Return an integer limit, or None if there is none. */
static PyObject *limit(int64_t v, int64_t none)
{
  return v == none ? Py_NewRef(Py_None) : PyLong_FromLongLong(v);
}

/* Return (value or None, least or None, most or None, symbol or None). */
static PyObject *size_out(const rush_signature_size *s)
{
  return Py_BuildValue("(NNNz)", limit(s->value, -1), limit(s->min, INT64_MIN),
                       limit(s->max, INT64_MAX), s->symbol);
}

static PyObject *sizes_out(const rush_signature_item *item)
{
  PyObject *sizes = PyTuple_New(item->n_sizes);

  for (int i = 0; sizes && i < item->n_sizes; i++) {
    PyObject *size = size_out(&item->sizes[i]);
    if (!size)
      Py_CLEAR(sizes);
    else
      PyTuple_SET_ITEM(sizes, i, size);
  }
  return sizes;
}

/* Return (name, type, argument, keyword_only, has_default, is_constant, value, dtype or None, sizes
 * or None). */
static PyObject *item_out(py_state *st, const rush_signature_item *item)
{
  py_call call = {.state = st};
  PyObject *value = py_from_value(&call, item->value);
  PyObject *dtype =
    item->is_described && st->dtypes[item->dtype] ? st->dtypes[item->dtype] : Py_None;
  PyObject *sizes = item->is_described ? sizes_out(item) : Py_NewRef(Py_None);
  PyObject *out =
    value && sizes
      ? Py_BuildValue("(ssnNNNOOO)", item->name, item->type, (Py_ssize_t)item->argument,
                      PyBool_FromLong(item->keyword_only), PyBool_FromLong(item->has_default),
                      PyBool_FromLong(item->is_constant), value, dtype, sizes)
      : NULL;

  Py_XDECREF(value);
  Py_XDECREF(sizes);
  py_call_end(&call);
  return out;
}

static PyObject *items_out(py_state *st, const rush_signature *s,
                           bool (*item_at)(const rush_signature *, size_t, rush_signature_item *))
{
  rush_signature_item item = RUSH_SIGNATURE_ITEM_INIT;
  PyObject *list = PyList_New(0);

  for (size_t i = 0; list && item_at(s, i, &item); i++)
    if (py_append_steal(list, item_out(st, &item)) < 0)
      Py_CLEAR(list);
  return list;
}

/* method_signature(module, method): (inputs, outputs), lists of tuples. */
PyObject *py_method_signature(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  rush_signature *s;
  rush_status status;
  const char *method;
  PyObject *o;

  if (!PyArg_ParseTuple(args, "O!s", st->module_type, &o, &method))
    return NULL;
  rush_module *module = ((py_module *)o)->module;
  if (!module)
    return PyErr_Format(PyExc_AttributeError, "the module is no program (yet)");
  WITHOUT_GIL(status = rush_module_signature(module, method, &s, &err));
  if (status != RUSH_OK)
    return py_raise(st, &err);
  PyObject *inputs = items_out(st, s, rush_signature_input),
           *outputs = inputs ? items_out(st, s, rush_signature_output) : NULL;
  PyObject *both = outputs ? PyTuple_Pack(2, inputs, outputs) : NULL;

  rush_signature_release(s);
  Py_XDECREF(inputs);
  Py_XDECREF(outputs);
  return both;
}
