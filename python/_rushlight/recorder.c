/* _rushlight/recorder.c -- rushlight._rushlight.Recorder: rush_recorder_* of script.h for Python's
 * sensor (rushlight/jit/torch_trace.py).  It converts arguments and errors; values are Python ints.
 * The GIL is released around every call, because each takes the unit's lock. */
#include "ir.h"
#include "script.h"

typedef struct py_recorder {
  PyObject_HEAD
  rush_recorder *r;
  py_unit *unit; /* owned */
} py_recorder;

#define R(self) (((py_recorder *)(self))->r)
#define STATE(self) (((py_recorder *)(self))->unit->state)

/* Evaluate `call`, which sets a rush_status from `err`, without the GIL. */
#define UNLOCKED(status, call)                                                                     \
  Py_BEGIN_ALLOW_THREADS                                                                           \
  (status) = (call);                                                                               \
  Py_END_ALLOW_THREADS

static PyObject *number_or_raise(PyObject *self, rush_status st, uint32_t v, rush_error *err)
{
  return st == RUSH_OK ? PyLong_FromUnsignedLong(v) : py_raise(STATE(self), err);
}


static PyObject *recorder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  py_state *st = PyType_GetModuleState(type);
  rush_error err = RUSH_ERROR_INIT;
  PyObject *unit, *cls = Py_None;
  rush_status status;

  if (!st || (kwargs && PyDict_GET_SIZE(kwargs)) ||
      !PyArg_ParseTuple(args, "O!|O", st->unit_type, &unit, &cls))
    return NULL;
  py_recorder *made = (py_recorder *)type->tp_alloc(type, 0);
  if (!made)
    return NULL;
  made->unit = (py_unit *)Py_NewRef(unit);
  const rush_type *self = PyObject_TypeCheck(cls, st->type_type) ? ((py_type *)cls)->type : NULL;
  UNLOCKED(status, rush_recorder_create(made->unit->unit, self, &made->r, &err))
  if (status == RUSH_OK)
    return (PyObject *)made;
  made->r = NULL;
  Py_DECREF(made);
  return py_raise(st, &err);
}

static void recorder_dealloc(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);

  rush_recorder_release(R(self));
  Py_XDECREF(((py_recorder *)self)->unit);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject *recorder_input(PyObject *self, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  const char *name, *type;
  rush_status st;
  uint32_t v;

  if (!PyArg_ParseTuple(args, "zs:input", &name, &type))
    return NULL;
  UNLOCKED(st, rush_recorder_input(R(self), name, type, &v, &err))
  return number_or_raise(self, st, v, &err);
}

static PyObject *recorder_attribute(PyObject *self, PyObject *o)
{
  const char *path = PyUnicode_AsUTF8(o);
  rush_error err = RUSH_ERROR_INIT;
  rush_status st;
  uint32_t v;

  if (!path)
    return NULL;
  UNLOCKED(st, rush_recorder_attribute(R(self), path, &v, &err))
  return number_or_raise(self, st, v, &err);
}

static PyObject *recorder_constant(PyObject *self, PyObject *args)
{
  const char *type = NULL, *where = NULL;
  py_call call = {.state = STATE(self)};
  rush_error err = RUSH_ERROR_INIT;
  PyObject *o, *out = NULL;
  rush_status st;
  rush_value v;
  uint32_t made;

  if (!PyArg_ParseTuple(args, "O|zz:constant", &o, &where, &type))
    return NULL;
  if (py_to_value(&call, o, &v) == 0) {
    UNLOCKED(st, rush_recorder_constant(R(self), v, type, where, &made, &err))
    rush_value_release(v);
    out = number_or_raise(self, st, made, &err);
  }
  py_call_end(&call);
  return out;
}

/* Read arrays of numbers and texts for a node, in one block. */
static uint32_t *read_rows(PyObject *inputs, PyObject *types, rush_recorded *node,
                           uint32_t **outputs)
{
  size_t n_in = (size_t)PyList_GET_SIZE(inputs), n_out = (size_t)PyTuple_GET_SIZE(types);
  const char **texts =
    PyMem_Calloc(1, n_out * sizeof *texts + (n_in + n_out + 1) * sizeof(uint32_t));
  if (!texts) {
    PyErr_NoMemory();
    return NULL;
  }
  uint32_t *numbers = (uint32_t *)(void *)(texts + n_out);

  for (size_t i = 0; i < n_out; i++) {
    PyObject *text = PyTuple_GET_ITEM(types, (Py_ssize_t)i);
    if (text != Py_None && !(texts[i] = PyUnicode_AsUTF8(text)))
      goto failed;
  }
  for (size_t i = 0; i < n_in; i++) {
    numbers[i] = (uint32_t)PyLong_AsUnsignedLong(PyList_GET_ITEM(inputs, (Py_ssize_t)i));
    if (PyErr_Occurred())
      goto failed;
  }
  node->inputs = numbers;
  node->n_inputs = n_in;
  node->types = texts;
  node->n_outputs = n_out;
  *outputs = numbers + n_in;
  return (uint32_t *)(void *)texts;
failed:
  PyMem_Free(texts);
  return NULL;
}

static PyObject *recorder_add(PyObject *self, PyObject *args, PyObject *kwargs)
{
  static char *names[] = {"kind",   "inputs", "types", "where",   "after",
                          "callee", "method", "attrs", "scalars", NULL};
  rush_recorded node = RUSH_RECORDED_INIT;
  rush_error err = RUSH_ERROR_INIT;
  PyObject *inputs, *types, *callee = NULL, *out = NULL;
  uint32_t *outputs;
  rush_status st;

  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO!O!|zIO!zzz:add", names, &node.kind,
                                   &PyList_Type, &inputs, &PyTuple_Type, &types, &node.where,
                                   &node.after, STATE(self)->function_type, &callee, &node.method,
                                   &node.host_attrs, &node.host_scalars))
    return NULL;
  node.callee = callee ? ((py_function *)callee)->function : NULL;
  uint32_t *rows = read_rows(inputs, types, &node, &outputs);
  if (!rows)
    return NULL;
  UNLOCKED(st, rush_recorder_add(R(self), &node, outputs, &err))
  if (st != RUSH_OK)
    py_raise(STATE(self), &err);
  else if ((out = PyTuple_New((Py_ssize_t)node.n_outputs)) != NULL)
    for (size_t i = 0; i < node.n_outputs && out; i++) {
      PyObject *v = PyLong_FromUnsignedLong(outputs[i]);
      if (v)
        PyTuple_SET_ITEM(out, (Py_ssize_t)i, v);
      else
        Py_CLEAR(out);
    }
  PyMem_Free(rows);
  return out;
}

static PyObject *recorder_set_name(PyObject *self, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  const char *name;
  unsigned value;
  rush_status st;

  if (!PyArg_ParseTuple(args, "Is:set_name", &value, &name))
    return NULL;
  UNLOCKED(st, rush_recorder_set_name(R(self), value, name, &err))
  return py_done(STATE(self), st, &err);
}

static PyObject *recorder_skip(PyObject *self, PyObject *n)
{
  unsigned long numbers = PyLong_AsUnsignedLong(n);

  if (PyErr_Occurred())
    return NULL;
  rush_recorder_skip(R(self), (uint32_t)numbers);
  Py_RETURN_NONE;
}

static PyObject *recorder_keep_unused(PyObject *self, PyObject *unused)
{
  (void)unused;
  rush_recorder_keep_unused(R(self));
  Py_RETURN_NONE;
}

static PyObject *recorder_open(PyObject *self, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  const char *path = NULL;
  rush_status st;

  if (!PyArg_ParseTuple(args, "|z:open", &path))
    return NULL;
  UNLOCKED(st, rush_recorder_open(R(self), path, &err))
  return py_done(STATE(self), st, &err);
}

static PyObject *recorder_close(PyObject *self, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  unsigned result = 0;
  uint32_t future;
  rush_status st;

  if (!PyArg_ParseTuple(args, "|I:close", &result))
    return NULL;
  UNLOCKED(st, rush_recorder_close(R(self), result, &future, &err))
  return number_or_raise(self, st, future, &err);
}

static PyObject *recorder_finish(PyObject *self, PyObject *o)
{
  uint32_t output = (uint32_t)PyLong_AsUnsignedLong(o);
  rush_error err = RUSH_ERROR_INIT;
  rush_status st;
  size_t n = 0;

  if (PyErr_Occurred())
    return NULL;
  UNLOCKED(st, rush_recorder_finish(R(self), output, &n, &err))
  return st == RUSH_OK ? PyLong_FromSize_t(n) : py_raise(STATE(self), &err);
}

static PyObject *recorder_graph(PyObject *self, PyObject *o)
{
  size_t i = PyLong_AsSize_t(o);
  rush_error err = RUSH_ERROR_INIT;
  rush_graph *g;
  rush_status st;

  if (PyErr_Occurred())
    return NULL;
  UNLOCKED(st, rush_recorder_graph(R(self), i, &g, &err))
  return st == RUSH_OK ? py_graph_steal(STATE(self), g) : py_raise(STATE(self), &err);
}

static PyObject *recorder_define(PyObject *self, PyObject *o)
{
  const char *name = PyUnicode_AsUTF8(o);
  rush_error err = RUSH_ERROR_INIT;
  rush_function *f;
  rush_status st;

  if (!name)
    return NULL;
  UNLOCKED(st, rush_recorder_define(R(self), name, &f, &err))
  return st == RUSH_OK ? py_function_wrap(((py_recorder *)self)->unit, f)
                       : py_raise(STATE(self), &err);
}

static PyMethodDef recorder_methods[] = {
  {"input", recorder_input, METH_VARARGS, "input(name or None, type): a value"},
  {"attribute", recorder_attribute, METH_O, "attribute('fc.weight'): a value"},
  {"constant", recorder_constant, METH_VARARGS, "constant(value, where=None, type=None): a value"},
  {"add", (PyCFunction)(void (*)(void))recorder_add, METH_VARARGS | METH_KEYWORDS,
   "add(kind, inputs, types, where=None, after=0, callee=..., method=..., attrs=..., scalars=...): "
   "a node's values"},
  {"set_name", recorder_set_name, METH_VARARGS, "set_name(value, name)"},
  {"skip", recorder_skip, METH_O, "skip(n): leave out n numbers of values"},
  {"keep_unused", recorder_keep_unused, METH_NOARGS, "keep nodes whose results nothing uses"},
  {"open", recorder_open, METH_VARARGS, "open(path): a call of a submodule, or a task"},
  {"close", recorder_close, METH_VARARGS, "close(result=0): its end; the future of a task"},
  {"finish", recorder_finish, METH_O, "finish(output): how many functions there are"},
  {"graph", recorder_graph, METH_O, "graph(i): a Graph to be compared with another trace's"},
  {"define", recorder_define, METH_O, "define(name): the traced Function"},
  {NULL, NULL, 0, NULL}};
static PyType_Slot recorder_slots[] = {
  {Py_tp_new, recorder_new},
  {Py_tp_dealloc, recorder_dealloc},
  {Py_tp_methods, recorder_methods},
  {Py_tp_doc, "Recorder(unit, type=None): builds graphs of the calls reported to it."},
  {0, NULL}};
static PyType_Spec recorder_spec = {"rushlight.Recorder", sizeof(py_recorder), 0,
                                    Py_TPFLAGS_DEFAULT, recorder_slots};

int py_add_recorder(PyObject *m) { return py_add_type(m, &recorder_spec) ? 0 : -1; }
