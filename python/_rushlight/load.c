/* load.c -- load(), and its class of results. */
#include "py.h"

PyObject *py_load(PyObject *m, PyObject *args, PyObject *kwargs)
{
  static char *names[] = {"source", "check_full", "copy", "name", "type", "meta", "program", NULL};
  py_state *st = PyModule_GetState(m);
  rush_load_options options = RUSH_LOAD_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *module = NULL;
  PyObject *source, *path = NULL, *type = (PyObject *)st->module_type;
  int full = 0, copy = 0, meta = 0;
  rush_status status;
  Py_buffer b;

  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|ppzOpz", names, &source, &full, &copy,
                                   &options.name, &type, &meta, &options.program))
    return NULL;
  if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, st->module_type)) {
    PyErr_Format(PyExc_TypeError, "load(): expected a subclass of Module as `type`, not %R", type);
    return NULL;
  }
  options.check_full = full;
  options.copy = copy;
  options.meta = meta;
  if (PyObject_CheckBuffer(source)) {
    if (PyObject_GetBuffer(source, &b, PyBUF_SIMPLE) < 0)
      return NULL;
    Py_BEGIN_ALLOW_THREADS status = rush_module_load_bytes(st->context, b.buf, (size_t)b.len, NULL,
                                                           NULL, &options, &module, &err);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&b);
  } else {
    if (!PyUnicode_FSConverter(source, &path))
      return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = rush_module_load(st->context, PyBytes_AS_STRING(path), &options, &module, &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
  }
  if (status != RUSH_OK)
    return py_raise(st, &err);
  return py_module_make(st, (PyTypeObject *)type, module);
}

PyObject *py_set_module_class(PyObject *m, PyObject *type)
{
  py_state *st = PyModule_GetState(m);

  if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, st->module_type))
    return PyErr_Format(PyExc_TypeError, "expected a subclass of Module, not %R", type);
  Py_XSETREF(st->module_class, Py_NewRef(type));
  Py_RETURN_NONE;
}
