/* _rushlight/common.c -- functions that every file of the extension uses and that use none of them:
 * errors as exceptions, texts, lists, new objects around values, and calls of the package's
 * functions.
 *
 * The files are in an order in which each calls only those before it: common, exchange, layout,
 * torch_state, dtype, module_wrap, tensor_in, convert, gradient, call, operator; then the types
 * (tensor, ir*, script*, module*, method, object) and init.  tests/house/circles.py checks that
 * there is no cycle. */
#include "py.h"
#include "rushlight/script.h"

#include <frameobject.h>

#include <stdarg.h>
#include <string.h>

/* -- Errors ------------------------------------------------------------------------------------ */

PyObject *py_raise(py_state *state, rush_error *err)
{
  PyObject *type = NULL;

  if (PyErr_Occurred()) { /* a callback into Python failed: its exception is more precise */
    rush_error_clear(err);
    return NULL;
  }
  if (err->status == RUSH_ENOMEM) {
    type = PyExc_MemoryError;
  } else if (err->status == RUSH_ECANCELLED) {
    type = state->cancelled;
  } else if (err->type && state->errors &&
             (type = PyDict_GetItemString(state->errors, err->type)) != NULL) {
    PyErr_Clear();
  } else if (err->type && strcmp(err->type, "Error") == 0) {
    type = state->error;
  } else if (err->type) {
    PyObject *builtins = PyEval_GetBuiltins();
    type = builtins ? PyDict_GetItemString(builtins, err->type) : NULL;
    if (!type || !PyExceptionClass_Check(type))
      type = NULL;
  }
  if (!type)
    type = PyExc_RuntimeError;
  const char *message = err->message ? err->message : rush_status_name(err->status);
  if (err->traceback)
    PyErr_Format(type, "%s%s%s\n", err->traceback,
                 err->type && strcmp(err->type, "Error") == 0 ? "" : "RuntimeError: ", message);
  else
    PyErr_Format(type, "%s",
                 message); /* its quotes of a file may not be UTF-8: replaced there */
  rush_error_clear(err);
  return NULL;
}

/* -- Texts, lists, statuses -------------------------------------------------------------------- */

PyObject *py_text_steal(py_state *st, char *text)
{
  PyObject *o = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");

  rush_free_text(st->context, text);
  return o;
}

PyObject *py_text_or_raise(py_state *st, rush_status status, char *text, rush_error *err)
{
  return status == RUSH_OK ? py_text_steal(st, text) : py_raise(st, err);
}

PyObject *py_done(py_state *st, rush_status status, rush_error *err)
{
  if (status != RUSH_OK)
    return py_raise(st, err);
  Py_RETURN_NONE;
}

int py_append_steal(PyObject *list, PyObject *item)
{
  int result = item ? PyList_Append(list, item) : -1;

  Py_XDECREF(item);
  return result;
}

PyTypeObject *py_add_type(PyObject *m, PyType_Spec *spec)
{
  PyTypeObject *t = (PyTypeObject *)PyType_FromModuleAndSpec(m, spec, NULL);

  if (t && PyModule_AddType(m, t) < 0)
    Py_CLEAR(t);
  return t;
}

PyObject *py_ints(const int64_t *v, int n)
{
  PyObject *t = PyTuple_New(n);

  for (int i = 0; t && i < n; i++) {
    PyObject *o = PyLong_FromLongLong(v[i]);
    if (!o)
      Py_CLEAR(t);
    else
      PyTuple_SET_ITEM(t, i, o);
  }
  return t;
}

const char *py_buffer_format(rush_dtype d)
{
  switch (d) {
  case RUSH_BOOL: return "?";
  case RUSH_INT8: return "b";
  case RUSH_UINT8: return "B";
  case RUSH_INT16: return "h";
  case RUSH_UINT16: return "H";
  case RUSH_INT32: return "i";
  case RUSH_UINT32: return "I";
  case RUSH_INT64: return "q";
  case RUSH_UINT64: return "Q";
  case RUSH_FLOAT16: return "e";
  case RUSH_FLOAT32: return "f";
  case RUSH_FLOAT64: return "d";
  case RUSH_COMPLEX64: return "Zf";
  case RUSH_COMPLEX128: return "Zd";
  default: return NULL;
  }
}

/* -- Python that failed inside a program ------------------------------------------------------- */

/* Format "  file(line): function", a line for each frame of a traceback, innermost first. */
static PyObject *places(PyObject *traceback)
{
  PyObject *text = PyUnicode_FromString("");

  for (PyTracebackObject *t = (PyTracebackObject *)traceback; t && text; t = t->tb_next) {
    PyCodeObject *code = PyFrame_GetCode(t->tb_frame);
    PyObject *number =
      PyObject_GetAttrString((PyObject *)t, "tb_lineno"); /* the field may not be computed yet */
    PyObject *line = number ? PyUnicode_FromFormat("  %U(%S): %U\n%U", code->co_filename, number,
                                                   code->co_name, text)
                            : NULL;
    Py_XDECREF(number);
    Py_DECREF(code);
    Py_SETREF(text, line);
  }
  return text;
}

/* Convert a pending exception of Python code that a program called, as PyTorch does: a RuntimeError
 * that names it. */
rush_status py_fail_in_call(rush_error *err)
{
  PyObject *type, *value, *traceback;

  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
    return rush_host_fail(err, RUSH_ERAISED, "RuntimeError", "interrupted");
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject *where = places(traceback && ((PyTracebackObject *)traceback)->tb_next
                             ? (PyObject *)((PyTracebackObject *)traceback)->tb_next
                             : traceback);
  PyObject *text =
    value && where
      ? PyUnicode_FromFormat("%s: %S\n\nAt:\n%U", ((PyTypeObject *)type)->tp_name, value, where)
      : NULL;
  const char *message = text ? PyUnicode_AsUTF8(text) : NULL;
  rush_status st =
    rush_host_fail(err, RUSH_ERAISED, "RuntimeError", message ? message : "a Python exception");
  PyErr_Clear();
  Py_XDECREF(where);
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return st;
}

/* -- Values ------------------------------------------------------------------------------------ */

rush_status py_clone(py_state *st, rush_value v, rush_value *out, rush_error *err)
{
  size_t n;

  return rush_op_call(st->context, "aten::clone", &v, 1, NULL, 0, out, 1, &n, err);
}

PyObject *py_tensor_wrap(py_state *state, rush_value v)
{
  if (py_need_part(state, PY_PART_TENSOR) < 0)
    return NULL;
  py_tensor *t = (py_tensor *)state->tensor_type->tp_alloc(state->tensor_type, 0);
  if (t) {
    t->value = rush_value_retain(v);
    t->state = state;
  }
  return (PyObject *)t;
}

PyObject *py_value_wrap(py_state *st, PyTypeObject *type, rush_value v)
{
  py_object *o = (py_object *)type->tp_alloc(type, 0);

  if (o) {
    o->value = rush_value_retain(v);
    o->state = st;
  }
  return (PyObject *)o;
}

/* -- The package ------------------------------------------------------------------------------- */

/* Return a function of the package, borrowed; NULL with an exception set. */
static PyObject *find_in_package(py_state *st, const char *name)
{
  PyObject *found = st->package ? PyDict_GetItemString(st->package, name) : NULL;

  if (found)
    return found;
  if (!st->find_in_package)
    return PyErr_Format(PyExc_RuntimeError, "%s is asked for before rushlight is imported", name);
  PyErr_Clear();
  found = PyObject_CallFunction(st->find_in_package, "s", name);
  if (found && ((!st->package && !(st->package = PyDict_New())) ||
                PyDict_SetItemString(st->package, name, found) < 0))
    Py_CLEAR(found);
  Py_XDECREF(found); /* the dict has it */
  return found;
}

PyObject *py_package_call(py_state *st, const char *name, const char *format, ...)
{
  PyObject *f = find_in_package(st, name), *args = NULL;
  va_list ap;

  va_start(ap, format);
  if (f)
    args = Py_VaBuildValue(format, ap);
  va_end(ap);
  PyObject *made = args ? PyObject_CallObject(f, args) : NULL;
  Py_XDECREF(args);
  return made;
}

PyObject *py_set_package(PyObject *m, PyObject *find)
{
  Py_XSETREF(((py_state *)PyModule_GetState(m))->find_in_package, Py_NewRef(find));
  Py_RETURN_NONE;
}

int py_import_part(py_state *st, py_part part)
{
  static const char *const finished[] = {
    [PY_PART_TENSOR] = "Tensor", [PY_PART_IR] = "Graph", [PY_PART_MODULE] = "ScriptMethod"};

  if (!find_in_package(st, finished[part]))
    return -1;
  st->has_part[part] = true;
  return 0;
}
