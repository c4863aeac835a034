/* limits.c -- limits that end a call early: signals, limits of seconds and bytes, and handles that
 * cancel.
 *
 * Signals: Python's handlers run on its main thread, which is inside the call.  The library polls
 * there now and then (rush_context_set_interrupt), and an exception of a handler ends the call.
 * Taking the GIL costs up to a switch interval while other threads run Python, so this is done some
 * thirty times a second.
 *
 * Limits of a block (`with rushlight.limits(...)`) belong to its thread: they are kept in the
 * thread's dict, as a tuple (seconds, bytes, Cancel).  While no block is open anywhere nothing is
 * looked up. */
#include "limits.h"
#include "rushlight/script.h"

#include <string.h>

/* -- Signals ----------------------------------------------------------------------------------- */

static bool signal_came(void *user)
{
  const py_state *st = user;

  if (PyThread_get_thread_ident() != st->main_thread)
    return false;
  PyGILState_STATE gil = PyGILState_Ensure();
  const bool came =
    PyErr_Occurred() ||
    PyErr_CheckSignals() < 0; /* what was raised stays pending until the call returns */
  PyGILState_Release(gil);
  return came;
}

/* Return Python's main thread, from threading, which uses the importing thread if none was recorded
 * before. */
static unsigned long find_main_thread(void)
{
  PyObject *threading = PyDict_GetItemString(PyImport_GetModuleDict(), "threading"); /* borrowed */
  PyObject *thread = threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
  PyObject *ident = thread ? PyObject_GetAttrString(thread, "ident") : NULL;
  unsigned long found =
    ident && PyLong_Check(ident) ? PyLong_AsUnsignedLong(ident) : PyThread_get_thread_ident();

  PyErr_Clear();
  Py_XDECREF(ident);
  Py_XDECREF(thread);
  return found;
}

/* -- Handles ----------------------------------------------------------------------------------- */

typedef struct py_cancel {
  PyObject_HEAD
  rush_cancel *handle;
  char is_requested;
} py_cancel;

static PyObject *cancel_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  py_state *st = PyType_GetModuleState(type);
  py_cancel *k;

  if (!PyArg_ParseTuple(args, ":Cancel") ||
      (kwargs && PyDict_GET_SIZE(kwargs) &&
       !PyErr_Format(PyExc_TypeError, "Cancel() takes no arguments")))
    return NULL;
  k = (py_cancel *)type->tp_alloc(type, 0);
  if (k && !(k->handle = rush_cancel_create(st->context))) {
    PyErr_NoMemory();
    Py_CLEAR(k);
  }
  return (PyObject *)k;
}
static void cancel_dealloc(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);

  rush_cancel_release(((py_cancel *)self)->handle);
  type->tp_free(self);
  Py_DECREF(type);
}
static PyObject *cancel_request(PyObject *self, PyObject *unused)
{
  (void)unused;
  ((py_cancel *)self)->is_requested = 1;
  rush_cancel_request(((py_cancel *)self)->handle);
  Py_RETURN_NONE;
}

static PyMethodDef cancel_methods[] = {
  {"request", cancel_request, METH_NOARGS,
   "end the calls that the handle was given to, now and from now on; any thread"},
  {NULL, NULL, 0, NULL}};
static PyMemberDef cancel_members[] = {
  {"requested", T_BOOL, offsetof(py_cancel, is_requested), READONLY, "was request() called?"},
  {NULL, 0, 0, 0, NULL}};
static PyType_Slot cancel_slots[] = {
  {Py_tp_new, cancel_new},
  {Py_tp_dealloc, cancel_dealloc},
  {Py_tp_methods, cancel_methods},
  {Py_tp_members, cancel_members},
  {Py_tp_doc, "Ends calls from another thread: with rushlight.limits(cancel=handle)."},
  {0, NULL}};
static PyType_Spec cancel_spec = {"rushlight.Cancel", sizeof(py_cancel), 0, Py_TPFLAGS_DEFAULT,
                                  cancel_slots};

/* -- Limits of a call -------------------------------------------------------------------------- */

/* Read a number of seconds or bytes, or None: 0.  -1 with an exception set. */
static int read_limit(PyObject *o, const char *name, double *out)
{
  const double v = o == Py_None ? 0 : PyFloat_AsDouble(o);

  if (v == -1.0 && PyErr_Occurred())
    return -1;
  if (o != Py_None && !(v > 0)) {
    PyErr_Format(PyExc_ValueError,
                 "%s: expected a number above 0, or None for no limit, but got %R", name, o);
    return -1;
  }
  *out = v;
  return 0;
}

static double lesser(double a, double b) { return a > 0 && (b <= 0 || a < b) ? a : b; }

/* Return (seconds, bytes, Cancel or None) of the thread's innermost block (borrowed), or NULL. */
static PyObject *block_of_thread(const py_state *st)
{
  PyObject *dict = st->n_blocks ? PyThreadState_GetDict() : NULL;

  return dict ? PyDict_GetItem(dict, (PyObject *)st->cancel_type) : NULL;
}

/* Apply the smallest of the byte limits of running calls, and of the context's. */
static void apply_bytes(py_state *st)
{
  double least = st->max_bytes;

  for (const py_limits *l = st->budgets; l; l = l->next)
    least = lesser(l->most_bytes, least);
  if (least != st->applied_bytes &&
      rush_context_set_limit_bytes(st->context, (size_t)least, NULL) == RUSH_OK)
    st->applied_bytes = least;
}

void py_limits_begin(py_limits *l, py_state *st, PyObject *owner, rush_call_options *options)
{
  const py_module *module =
    owner && PyObject_TypeCheck(owner, st->module_type) ? (const py_module *)owner : NULL;
  PyObject *block = block_of_thread(st);
  double seconds = st->max_seconds, bytes = 0;

  if (module) {
    seconds = lesser(module->max_seconds, seconds);
    bytes = module->max_bytes;
  }
  if (block) {
    PyObject *cancel = PyTuple_GET_ITEM(block, 2);
    seconds = lesser(PyFloat_AS_DOUBLE(PyTuple_GET_ITEM(block, 0)), seconds);
    bytes = lesser(PyFloat_AS_DOUBLE(PyTuple_GET_ITEM(block, 1)), bytes);
    if (cancel != Py_None) {
      l->cancel = Py_NewRef(cancel);
      options->cancel = ((py_cancel *)cancel)->handle;
    }
  }
  options->limit_seconds = seconds;
  if (bytes > 0) {
    rush_memory now = RUSH_MEMORY_INIT;
    rush_memory_get(st->context, &now);
    l->most_bytes = (double)now.live_bytes + bytes;
    l->next = st->budgets;
    st->budgets = l;
    apply_bytes(st);
  }
}

void py_limits_end(py_limits *l, py_state *st)
{
  if (l->most_bytes > 0) {
    py_limits **at = &st->budgets;
    while (*at != l)
      at = &(*at)->next;
    *at = l->next;
    apply_bytes(st);
  }
  Py_CLEAR(l->cancel);
}

/* -- The functions ----------------------------------------------------------------------------- */

PyObject *py_set_limits(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  PyObject *seconds, *bytes;
  double s, b;

  if (!PyArg_ParseTuple(args, "OO:set_limits", &seconds, &bytes) ||
      read_limit(seconds, "max_seconds", &s) < 0 || read_limit(bytes, "max_bytes", &b) < 0)
    return NULL;
  st->max_seconds = s;
  st->max_bytes = b;
  apply_bytes(st);
  Py_RETURN_NONE;
}

/* _swap_block(seconds, bytes, cancel) -> the previous block, which _swap_block(*block) restores;
 * None: there was none. */
PyObject *py_swap_block(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  PyObject *dict = PyThreadState_GetDict(), *key = (PyObject *)st->cancel_type, *cancel, *seconds,
           *bytes;
  PyObject *before = dict ? Py_XNewRef(PyDict_GetItem(dict, key)) : NULL, *block = NULL;
  double s, b;

  if (PyTuple_GET_SIZE(args) == 0) {
    if (before && PyDict_DelItem(dict, key) == 0)
      st->n_blocks--;
  } else if (PyArg_ParseTuple(args, "OOO:_swap_block", &seconds, &bytes, &cancel) &&
             read_limit(seconds, "max_seconds", &s) == 0 &&
             read_limit(bytes, "max_bytes", &b) == 0) {
    if (cancel != Py_None && !PyObject_TypeCheck(cancel, st->cancel_type))
      PyErr_Format(PyExc_TypeError, "cancel: expected a rushlight.Cancel or None, not %s",
                   Py_TYPE(cancel)->tp_name);
    else
      block = Py_BuildValue("(ddO)", s, b, cancel);
    if (block && dict && PyDict_SetItem(dict, key, block) == 0)
      st->n_blocks += !before;
    Py_XDECREF(block);
  }
  if (PyErr_Occurred()) {
    Py_XDECREF(before);
    return NULL;
  }
  return before ? before : Py_NewRef(Py_None);
}

/* Return a module's max_seconds or max_bytes: closure is the field's offset. */
PyObject *py_module_get_limit(PyObject *self, void *offset)
{
  const double v = *(const double *)(const void *)((const char *)self + (uintptr_t)offset);

  return v > 0 ? PyFloat_FromDouble(v) : Py_NewRef(Py_None);
}
int py_module_set_limit(PyObject *self, PyObject *value, void *offset)
{
  double v;

  if (read_limit(value ? value : Py_None, "a module's limit", &v) < 0)
    return -1;
  *(double *)(void *)((char *)self + (uintptr_t)offset) = v;
  return 0;
}

int py_add_limits(PyObject *m, py_state *st)
{
  st->main_thread = find_main_thread();
  rush_context_set_interrupt(st->context, signal_came, st);
  st->cancelled = PyErr_NewExceptionWithDoc(
    "rushlight.Cancelled", "A call was ended by its Cancel handle.", st->error, NULL);
  if (!st->cancelled || PyModule_AddObjectRef(m, "Cancelled", st->cancelled) < 0)
    return -1;
  return (st->cancel_type = py_add_type(m, &cancel_spec)) ? 0 : -1;
}
