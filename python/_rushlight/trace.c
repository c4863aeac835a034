/* _rushlight/trace.c -- traces for Python: calls on rushlight.Tensors are recorded in C through
 * script.h; calls on torch's tensors are recorded by Python, which passes a graph's text. Both
 * become functions of a unit. This file only converts arguments and errors. */
#include "script.h"

static const char TRACE[] = "rush_trace";

/* Convert the items of a sequence, in `call`; -1 with an exception set. */
static int read_items(py_call *call, PyObject *list, rush_value **out, size_t *n)
{
  *n = (size_t)PyTuple_GET_SIZE(list);
  *out = PyMem_Calloc(*n + 1, sizeof **out);
  if (!*out) {
    PyErr_NoMemory();
    return -1;
  }
  for (size_t i = 0; i < *n; i++)
    if (py_to_value(call, PyTuple_GET_ITEM(list, (Py_ssize_t)i), &(*out)[i]) < 0)
      return -1;
  return 0;
}

static void free_items(rush_value *items, size_t n)
{
  for (size_t i = 0; items && i < n; i++)
    rush_value_release(items[i]);
  PyMem_Free(items);
}

/* define_graph(unit, name, self_type or None, text, constants): a Function */
static PyObject *define_graph(py_state *st, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  py_call call = {.state = st};
  rush_value *constants = NULL;
  const char *name, *text;
  PyObject *unit, *cls, *list, *out = NULL;
  rush_function *f;
  rush_status status;
  size_t n = 0;

  if (!PyArg_ParseTuple(args, "OsOsO!", &unit, &name, &cls, &text, &PyTuple_Type, &list))
    return NULL;
  py_unit *u = (py_unit *)unit;
  const rush_type *self = PyObject_TypeCheck(cls, st->type_type) ? ((py_type *)cls)->type : NULL;
  if (read_items(&call, list, &constants, &n) == 0) {
    Py_BEGIN_ALLOW_THREADS
    status = rush_unit_define_graph(u->unit, name, self, text, constants, n, &f, &err);
    Py_END_ALLOW_THREADS
    out = status == RUSH_OK ? py_function_wrap(u, f) : py_raise(st, &err);
  }
  free_items(constants, n);
  py_call_end(&call);
  return out;
}

static void drop_trace(PyObject *capsule)
{
  rush_trace_cancel(PyCapsule_GetPointer(capsule, TRACE));
}

/* trace_begin(inputs, names): returns the argument of trace_end. */
static PyObject *trace_begin(py_state *st, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  py_call call = {.state = st};
  rush_value *inputs = NULL;
  const char **names = NULL;
  PyObject *list, *texts, *out = NULL;
  rush_trace *t;
  size_t n = 0;

  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &list, &PyTuple_Type, &texts))
    return NULL;
  if (read_items(&call, list, &inputs, &n) < 0 || !(names = PyMem_Calloc(n + 1, sizeof *names)))
    goto done;
  for (size_t i = 0; i < n && (Py_ssize_t)i < PyTuple_GET_SIZE(texts); i++)
    if (!(names[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(texts, (Py_ssize_t)i))))
      goto done;
  if (rush_trace_begin(st->context, inputs, names, n, &t, &err) != RUSH_OK)
    py_raise(st, &err);
  else if (!(out = PyCapsule_New(t, TRACE, drop_trace)))
    rush_trace_cancel(t);
done:
  PyMem_Free(names);
  free_items(inputs, n);
  py_call_end(&call);
  return out;
}

/* trace_end(trace, outputs): a Module */
static PyObject *trace_end(py_state *st, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  py_call call = {.state = st};
  rush_value *outputs = NULL;
  PyObject *capsule, *list, *out = NULL;
  rush_module *m;
  size_t n = 0;

  if (!PyArg_ParseTuple(args, "OO!", &capsule, &PyTuple_Type, &list))
    return NULL;
  rush_trace *t = PyCapsule_GetPointer(capsule, TRACE);
  if (t && read_items(&call, list, &outputs, &n) == 0) {
    PyCapsule_SetDestructor(capsule, NULL);
    out = rush_trace_end(t, outputs, n, &m, &err) == RUSH_OK ? py_module_wrap_steal(st, m)
                                                             : py_raise(st, &err);
  }
  free_items(outputs, n);
  py_call_end(&call);
  return out;
}

/* trace_cancel(trace): stop recording; nothing after trace_end */
static PyObject *trace_cancel(PyObject *capsule)
{
  rush_trace *t = PyCapsule_GetPointer(capsule, TRACE);

  if (!t)
    return NULL;
  if (PyCapsule_GetDestructor(capsule)) {
    PyCapsule_SetDestructor(capsule, NULL);
    rush_trace_cancel(t);
  }
  Py_RETURN_NONE;
}

/* set_call_hook(f or None): f(callee, method, args, kwargs) returns a result or NotImplemented. */
static PyObject *set_call_hook(py_state *st, PyObject *f)
{
  Py_XSETREF(st->call_hook, f == Py_None ? NULL : Py_NewRef(f));
  Py_RETURN_NONE;
}

static py_state *state_of(PyObject *module) { return PyModule_GetState(module); }

static PyObject *py_define_graph(PyObject *m, PyObject *args)
{
  return define_graph(state_of(m), args);
}
static PyObject *py_trace_begin(PyObject *m, PyObject *args)
{
  return trace_begin(state_of(m), args);
}
static PyObject *py_trace_end(PyObject *m, PyObject *args) { return trace_end(state_of(m), args); }
static PyObject *py_trace_cancel(PyObject *m, PyObject *capsule)
{
  (void)m;
  return trace_cancel(capsule);
}

static PyObject *py_set_call_hook(PyObject *m, PyObject *f)
{
  return set_call_hook(state_of(m), f);
}

static PyMethodDef functions[] = {
  {"set_call_hook", py_set_call_hook, METH_O,
   "set_call_hook(f): f(callee, method, args, kwargs) is asked before programs are called"},
  {"define_graph", py_define_graph, METH_VARARGS,
   "define_graph(unit, name, type, text, constants): a Function whose graph is the text"},
  {"trace_begin", py_trace_begin, METH_VARARGS,
   "trace_begin(inputs, names): record the calls of operators that follow"},
  {"trace_end", py_trace_end, METH_VARARGS,
   "trace_end(trace, outputs): what was recorded, a Module"},
  {"trace_cancel", py_trace_cancel, METH_O,
   "trace_cancel(trace): stop recording; nothing after trace_end"},
  {NULL, NULL, 0, NULL}};

int py_add_trace(PyObject *m) { return PyModule_AddFunctions(m, functions); }
