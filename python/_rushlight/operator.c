/* _rushlight/operator.c -- single operators called by name, their gradients, shapes and schemas. */
#include "limits.h"
#include "operator.h"

#define MAX_RESULTS 16

static void release_results(rush_value *results, size_t n)
{
  for (size_t i = 0; i < n; i++)
    rush_value_release(results[i]);
}

/* Convert the results of a call and release them: nothing, an object, a tuple. */
static PyObject *py_results(py_call *call, rush_value *results, size_t n, bool as_tuple)
{
  PyObject *out = NULL;

  if (!as_tuple && n <= 1) {
    out = n == 0 ? Py_NewRef(Py_None) : py_from_value(call, results[0]);
  } else {
    out = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; out && i < n; i++) {
      PyObject *item = py_from_value(call, results[i]);
      if (!item)
        Py_CLEAR(out);
      else
        PyTuple_SET_ITEM(out, (Py_ssize_t)i, item);
    }
  }
  release_results(results, n);
  return out;
}

/* Call an operator; if no argument determines the kind of the resulting tensors, they are ours if
 * `ours`. */
static PyObject *run_operator(py_state *st, const char *name, PyObject *const *args, size_t n_args,
                              PyObject *kwnames, bool ours)
{
  rush_value results[MAX_RESULTS];
  rush_error err = RUSH_ERROR_INIT;
  py_call call = {.state = st};
  py_limits limits = {0};
  PyObject *out = NULL;
  rush_status status;
  size_t n = 0;
  py_args a;

  if (py_sync_default_dtype(st) < 0 || py_args_convert(&call, args, n_args, kwnames, &a) < 0) {
    py_call_end(&call);
    return NULL;
  }
  call.saw_ours |= ours && !call.saw_torch && !call.saw_numpy;
  rush_call_options options = RUSH_CALL_OPTIONS_INIT;
  /* Views of our tensors are always recorded: one that requires no grad yet may be written to with
   * a value that does. */
  options.record_gradients =
    (call.saw_ours || py_args_require_grad(&call)) && py_get_grad_mode(st) != PY_GRAD_OFF;
  py_limits_begin(&limits, st, NULL, &options);
  Py_BEGIN_ALLOW_THREADS status =
    rush_op_call_with(st->context, name, a.args, a.n_args, a.named, a.n_named, &options, results,
                      MAX_RESULTS, &n, &err);
  Py_END_ALLOW_THREADS
  py_limits_end(&limits, st);
  if (status != RUSH_OK)
    py_raise(st, &err);
  else if (!options.record_gradients || py_connect(&call, NULL, results, n) == 0)
    out = py_results(&call, results, n, false);
  else
    release_results(results, n);
  if (out && py_call_writes(&call) < 0)
    Py_CLEAR(out);
  py_args_free(&a);
  py_call_end(&call);
  return out;
}

PyObject *py_operator(py_state *st, const char *name, PyObject *const *args, size_t n_args,
                      PyObject *kwnames)
{
  return run_operator(st, name, args, n_args, kwnames, false);
}

static PyObject *call_named(PyObject *m, PyObject *const *args, Py_ssize_t n_args,
                            PyObject *kwnames, bool ours)
{
  const char *name = n_args > 0 && PyUnicode_Check(args[0]) ? PyUnicode_AsUTF8(args[0]) : NULL;

  if (!name) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_TypeError,
                      "call_operator(name, *args, **kwargs) takes the operator's name first");
    return NULL;
  }
  return run_operator(PyModule_GetState(m), name, args + 1, (size_t)n_args - 1, kwnames, ours);
}

PyObject *py_call_operator(PyObject *m, PyObject *const *args, Py_ssize_t n_args, PyObject *kwnames)
{
  return call_named(m, args, n_args, kwnames, false);
}

PyObject *py_call_function(PyObject *m, PyObject *const *args, Py_ssize_t n_args,
                           PyObject *kwnames)
{
  return call_named(m, args, n_args, kwnames, true);
}

PyObject *py_gradients(PyObject *m, PyObject *arg)
{
  py_state *st = PyModule_GetState(m);
  const char *name = PyUnicode_AsUTF8(arg), *inputs, *takes;
  rush_error err = RUSH_ERROR_INIT;
  size_t n = 0;

  if (!name)
    return NULL;
  if (rush_op_n_gradients(st->context, name, &n, &err) != RUSH_OK)
    return py_raise(st, &err);
  PyObject *out = PyList_New((Py_ssize_t)n);
  for (size_t i = 0; out && i < n; i++) {
    if (rush_op_gradient(st->context, name, i, &inputs, &takes, &err) != RUSH_OK) {
      Py_DECREF(out);
      return py_raise(st, &err);
    }
    PyObject *item = Py_BuildValue("(ss)", inputs, takes);
    if (!item)
      Py_CLEAR(out);
    else
      PyList_SET_ITEM(out, (Py_ssize_t)i, item);
  }
  return out;
}

static PyObject *run_gradient(py_call *call, const char *name, size_t i, PyObject *values,
                              PyObject *inputs)
{
  rush_value results[MAX_RESULTS];
  rush_error err = RUSH_ERROR_INIT;
  py_args a, b;
  PyObject *out = NULL;

  if (py_args_convert(call, &PyTuple_GET_ITEM(values, 0), (size_t)PyTuple_GET_SIZE(values), NULL,
                      &a) < 0)
    return NULL;
  if (py_args_convert(call, &PyTuple_GET_ITEM(inputs, 0), (size_t)PyTuple_GET_SIZE(inputs), NULL,
                      &b) < 0) {
    py_args_free(&a);
    return NULL;
  }
  rush_status status;
  Py_BEGIN_ALLOW_THREADS status = rush_op_gradient_run(call->state->context, name, i, a.args,
                                                       a.n_args, b.args, b.n_args, results, &err);
  Py_END_ALLOW_THREADS
  if (status != RUSH_OK)
    py_raise(call->state, &err);
  else
    out = py_results(call, results, b.n_args, true);
  py_args_free(&a);
  py_args_free(&b);
  return out;
}

PyObject *py_call_gradient(PyObject *m, PyObject *args)
{
  py_call call = {.state = PyModule_GetState(m)};
  const char *name;
  Py_ssize_t i;
  PyObject *values, *inputs;

  if (!PyArg_ParseTuple(args, "snO!O!", &name, &i, &PyTuple_Type, &values, &PyTuple_Type, &inputs))
    return NULL;
  if (i < 0 || PyTuple_GET_SIZE(inputs) > MAX_RESULTS)
    return PyErr_Format(PyExc_ValueError, "%s has no such gradient", name);
  PyObject *out = run_gradient(&call, name, (size_t)i, values, inputs);
  py_call_end(&call);
  return out;
}

PyObject *py_operator_shape(PyObject *m, PyObject *const *args, Py_ssize_t n_args,
                                   PyObject *kwnames)
{
  py_state *st = PyModule_GetState(m);
  const char *name = n_args > 1 && PyUnicode_Check(args[0]) ? PyUnicode_AsUTF8(args[0]) : NULL;
  rush_value result = {.tag = RUSH_TAG_NONE};
  rush_error err = RUSH_ERROR_INIT;
  py_call call = {.state = st};
  PyObject *out = NULL;
  rush_status status;
  py_args a;

  if (!name) {
    if (!PyErr_Occurred())
      PyErr_SetString(
        PyExc_TypeError,
        "operator_shape(name, symbolic, *args, **kwargs) takes the operator's name first");
    return NULL;
  }
  if (py_args_convert(&call, args + 2, (size_t)n_args - 2, kwnames, &a) == 0) {
    status = rush_op_shape(st->context, name, a.args, a.n_args, a.named, a.n_named,
                           args[1] == Py_True, &result, &err);
    if (status != RUSH_OK)
      py_raise(st, &err);
    else
      out = py_from_value(&call, result);
    rush_value_release(result);
    py_args_free(&a);
  }
  py_call_end(&call);
  return out;
}

PyObject *py_has_operator(PyObject *m, PyObject *arg)
{
  const char *name = PyUnicode_AsUTF8(arg);

  if (!name)
    return NULL;
  return PyBool_FromLong(rush_op_exists(((py_state *)PyModule_GetState(m))->context, name));
}

PyObject *py_operator_schemas(PyObject *m, PyObject *const *args, Py_ssize_t n_args)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  const char *name = n_args > 0 ? PyUnicode_AsUTF8(args[0]) : NULL;
  char *text;

  if (n_args > 0 && !name)
    return NULL;
  if (rush_op_schemas(st->context, name, &text, &err) != RUSH_OK)
    return py_raise(st, &err);
  return py_text_steal(st, text);
}
