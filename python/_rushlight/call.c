/* call.c -- a call of compiled code, from Python's arguments to Python's result; and small
 * functions that many files use. */
#include "limits.h"
#include "script.h"

#include <string.h>

/* -- Recording --------------------------------------------------------------------------------- */

/* Set whether the call records.  With torch imported a call may record whenever torch would.
 * Without torch it records if gradients were requested: an argument requires grad, or it is inside
 * enable_grad(), or (found later, by records_in_training) the module is in training mode. */
static void choose_gradients(const py_call *call, rush_call_options *options)
{
  const py_grad_mode mode = py_get_grad_mode(call->state);

  options->no_grad = mode == PY_GRAD_OFF;
  options->record_gradients =
    call->state->torch_tensor || mode == PY_GRAD_EXPLICIT || py_args_require_grad(call);
}

/* -- Running ----------------------------------------------------------------------------------- */

static bool is_training(rush_value object)
{
  rush_value v =
    object.tag == RUSH_TAG_OBJECT ? rush_object_attr(object, "training") : rush_value_none();
  const bool training = v.tag == RUSH_TAG_BOOL && v.as.b;

  rush_value_release(v);
  return training;
}

/* True if the called module, or one among the arguments, is in training mode.  Waits for locks,
 * without the GIL. */
static bool records_in_training(const py_callee *c, const py_args *a)
{
  bool training = !c->function && is_training(c->module ? rush_module_value(c->module) : c->object);

  for (size_t i = 0; i < a->n_args && !training; i++)
    training = is_training(a->args[i]);
  for (size_t i = 0; i < a->n_named && !training; i++)
    training = is_training(a->named[i].value);
  return training;
}

static rush_status run_callee(const py_callee *c, const py_args *a, rush_call_options *options,
                       rush_value *result, rush_error *err)
{
  options->record_gradients = options->record_gradients || records_in_training(c, a);
  if (c->prepares) {
    *result = rush_value_none();
    return rush_module_prepare(c->module, c->method, a->args, a->n_args, a->named, a->n_named,
                               options, err);
  }
  if (c->function)
    return rush_function_call(c->function, a->args, a->n_args, a->named, a->n_named, options,
                              result, err);
  if (c->module)
    return rush_module_call_named(c->module, c->method, a->args, a->n_args, a->named, a->n_named,
                                  options, result, err);
  return rush_object_call(c->context, c->object, c->method, a->args, a->n_args, a->named,
                          a->n_named, options, result, err);
}

/* Put the callee's buffers into the options: new values, for free_buffers.  Returns 0, or -1 with
 * an exception set. */
static int convert_buffers(py_call *call, const py_callee *c, rush_call_options *options)
{
  const Py_ssize_t n = c->buffers ? PyTuple_GET_SIZE(c->buffers) : 0;
  rush_value *values = n ? PyMem_Calloc((size_t)n, sizeof *values) : NULL;

  if (n && !values) {
    PyErr_NoMemory();
    return -1;
  }
  options->outputs = values;
  options->outputs_copied = c->copied;
  for (Py_ssize_t i = 0; i < n; i++, options->n_outputs++)
    if (py_to_value(call, PyTuple_GET_ITEM(c->buffers, i), &values[i]) < 0)
      return -1;
  return 0;
}

static void free_buffers(const rush_call_options *options)
{
  for (size_t i = 0; i < options->n_outputs; i++)
    rush_value_release(options->outputs[i]);
  PyMem_Free((void *)(uintptr_t)options->outputs);
}

static void note_called(py_state *st, const py_callee *c)
{
  const char *method = c->method ? c->method : "";
  const size_t n = strlen(method) + 1;

  st->last_called = c->called;
  memcpy(st->last_method, n <= sizeof st->last_method ? method : "",
         n <= sizeof st->last_method ? n : 1);
}

PyObject *py_run_steal(py_call *call, py_args *a, const py_callee *c)
{
  py_state *st = call->state;
  bool sync = c->is_random && py_find_torch(st);
  rush_call_options options = RUSH_CALL_OPTIONS_INIT;
  py_gradient_host host = {0};
  py_limits limits = {0};
  rush_error err = RUSH_ERROR_INIT;
  PyObject *out = NULL, *type, *value, *tb;
  rush_status status;
  rush_value result;

  choose_gradients(call, &options);
  options.gradient_host = py_host_begin(&host, call, c->owner);
  if (py_sync_default_dtype(st) < 0 || convert_buffers(call, c, &options) < 0 ||
      (sync && py_sync_generator(st, false) < 0))
    goto done;
  py_limits_begin(&limits, st, c->owner, &options);
  WITHOUT_GIL(status = run_callee(c, a, &options, &result, &err));
  py_limits_end(&limits, st);
  if (c->called && !c->prepares)
    note_called(st, c);
  if (status != RUSH_OK) {
    py_raise(st, &err);
  } else {
    bool ok = !PyErr_Occurred() && (!options.record_gradients || c->prepares ||
                                    py_connect(call, c->owner, &result, 1) == 0);
    out = ok ? py_from_value(call, result) : NULL;
    rush_value_release(result);
  }
  PyErr_Fetch(&type, &value, &tb);
  if (py_call_writes(call) < 0 || (sync && py_sync_generator(st, true) < 0))
    Py_CLEAR(out);
  if (type)
    PyErr_Restore(type, value, tb);
done:
  free_buffers(&options);
  py_args_free(a);
  py_call_end(call);
  return out;
}

int py_hooked_call(py_state *st, PyObject *callee, const char *method, PyObject *const *args,
                   size_t n_args, PyObject *kwnames, PyObject **out)
{
  PyObject *list = PyTuple_New((Py_ssize_t)n_args), *named = PyDict_New();

  for (size_t i = 0; list && i < n_args; i++)
    PyTuple_SET_ITEM(list, (Py_ssize_t)i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; named && kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
    if (PyDict_SetItem(named, PyTuple_GET_ITEM(kwnames, i), args[n_args + (size_t)i]) < 0)
      Py_CLEAR(named);
  *out = list && named ? PyObject_CallFunction(st->call_hook, "OzOO", callee, method, list, named)
                       : NULL;
  Py_XDECREF(list);
  Py_XDECREF(named);
  if (*out != Py_NotImplemented)
    return 1;
  Py_CLEAR(*out);
  return 0;
}
