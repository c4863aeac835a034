/* library.c -- operators implemented by a Python function: rushlight/library.py registers them
 * through backend.h's table.
 *
 * The kernel takes the GIL, makes Python objects of the arguments (torch's tensors if torch is
 * imported, else ours, on the same memory), calls the function and converts its results.  The
 * function is library.py's, which has checked the number and the types of the results against the
 * schema; it returns a tuple of them. */
#include "py.h"

#include <string.h>

typedef struct py_op {
  py_state *st;
  PyObject *function; /* owned */
  uint64_t written;   /* bit i: argument i is written to */
} py_op;

/* Return the static name of the pending exception's class in programs: call_fail needs a static
 * name. */
static const char *static_class(PyObject *type)
{
  static const char *const names[] = {
    "ValueError",          "TypeError",      "IndexError",     "KeyError",
    "NotImplementedError", "AssertionError", "AttributeError", "ZeroDivisionError",
    "OverflowError",       "MemoryError",    "OSError",        "KeyboardInterrupt",
    "TimeoutError"};
  const char *name = ((PyTypeObject *)type)->tp_name;

  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0)
      return names[i];
  return "RuntimeError";
}

/* Fail the call with the pending exception. */
static rush_status fail_with_pending(py_op *op, rush_call *call)
{
  PyObject *type, *value, *trace;

  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyObject *text = value ? PyObject_Str(value) : NULL;
  const char *message = text ? PyUnicode_AsUTF8(text) : NULL;
  rush_status st = op->st->api->call_fail(call, type ? static_class(type) : "RuntimeError", "%s",
                                          message ? message : "");
  PyErr_Clear();
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return st;
}

static PyObject *arguments(py_op *op, py_call *c, rush_call *call)
{
  size_t n = op->st->api->call_n_args(call);
  PyObject *tuple = PyTuple_New((Py_ssize_t)n);

  for (size_t i = 0; tuple && i < n; i++) {
    rush_value v = op->st->api->call_arg(call, i);
    PyObject *o = v.tag == RUSH_TAG_TENSOR && !v.as.heap ? Py_NewRef(Py_None) : py_from_value(c, v);
    if (!o)
      Py_CLEAR(tuple);
    else
      PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, o);
  }
  return tuple;
}

static int set_results(py_op *op, py_call *c, rush_call *call, PyObject *answer)
{
  rush_value v;

  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(answer); i++) {
    if (py_to_value(c, PyTuple_GET_ITEM(answer, i), &v) < 0)
      return -1;
    op->st->api->call_return_steal(call, (size_t)i, v);
  }
  return 0;
}

static rush_status run_python(rush_call *call)
{
  const rush_backend_api *api = rush_backend(RUSH_BACKEND_ABI);
  py_op *op = api->call_user(call);
  PyGILState_STATE gil = PyGILState_Ensure();
  py_call c = {.state = op->st};
  PyObject *args = arguments(op, &c, call),
           *answer = args ? PyObject_CallObject(op->function, args) : NULL;
  rush_status st = RUSH_OK;

  for (size_t i = 0; answer && i < 64 && op->written >> i; i++)
    if (op->written >> i & 1 && api->call_arg(call, i).tag == RUSH_TAG_TENSOR &&
        api->call_arg(call, i).as.heap)
      (void)rush_tensor_data_mut(api->call_arg(call, i).as.tensor); /* it has another version now */
  if (!answer || !PyTuple_Check(answer) || set_results(op, &c, call, answer) < 0)
    st = fail_with_pending(op, call);
  Py_XDECREF(args);
  Py_XDECREF(answer);
  py_call_end(&c);
  PyGILState_Release(gil);
  return st;
}

static void drop_op(void *user)
{
  py_op *op = user;

  if (Py_IsInitialized()) {
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF(op->function);
    PyGILState_Release(gil);
  }
  PyMem_RawFree(op);
}

/* _register_operator(schema, function, written arguments as bits, gradients as ((inputs, formula),
 * ...)) */
PyObject *py_register_operator(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  rush_op_def def = {.struct_bytes = sizeof def, .kernel = run_python, .destroy_user = drop_op};
  rush_gradient_def gradients[1];
  rush_error err = RUSH_ERROR_INIT;
  unsigned long long written;
  PyObject *function;

  if (!PyArg_ParseTuple(args, "sOKzz:_register_operator", &def.schema, &function, &written,
                        &gradients[0].inputs, &gradients[0].formula))
    return NULL;
  if (gradients[0].inputs) {
    def.gradients = gradients;
    def.n_gradients = 1;
  }
  py_op *op = PyMem_RawMalloc(sizeof *op);
  if (!op)
    return PyErr_NoMemory();
  *op = (py_op){.st = st, .function = Py_NewRef(function), .written = written};
  def.user = op;
  rush_status status = st->api->op_register(st->context, &def, &err);
  if (status == RUSH_OK)
    Py_RETURN_NONE;
  Py_DECREF(op->function);
  PyMem_RawFree(op);
  return py_raise(st, &err);
}
