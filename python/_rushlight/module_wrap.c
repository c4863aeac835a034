/* _rushlight/module_wrap.c -- Python modules around the library's: one for each module's object, so
 * that a result that Python has already is the same Python object. */
#include "module.h"
#include "rushlight/script.h"

/* Register the Module of an object: a result of a program that is this object becomes the same
 * Module. */
void py_module_enrol(py_module *m)
{
  PyObject *key = PyLong_FromVoidPtr(rush_module_value(m->module).as.heap),
           *at = PyLong_FromVoidPtr(m);

  if (!m->state->modules)
    m->state->modules = PyDict_New();
  if (!key || !at || !m->state->modules || PyDict_SetItem(m->state->modules, key, at) < 0)
    PyErr_Clear(); /* only identity is lost */
  Py_XDECREF(key);
  Py_XDECREF(at);
}

static py_module *module_enrolled(py_state *st, rush_value object)
{
  PyObject *key = PyLong_FromVoidPtr(object.as.heap);
  PyObject *at = key && st->modules ? PyDict_GetItem(st->modules, key) : NULL;

  Py_XDECREF(key);
  return at ? PyLong_AsVoidPtr(at) : NULL;
}

void py_module_leave(py_module *m)
{
  if (!m->module || module_enrolled(m->state, rush_module_value(m->module)) != m)
    return;
  PyObject *key = PyLong_FromVoidPtr(rush_module_value(m->module).as.heap);
  if (!key || PyDict_DelItem(m->state->modules, key) < 0)
    PyErr_Clear();
  Py_XDECREF(key);
}

static bool has_hooks(rush_module *module)
{
  const rush_type *t = rush_module_format(module) == RUSH_FORMAT_TORCHSCRIPT
                         ? rush_object_type(rush_module_value(module))
                         : NULL;

  return t && (rush_class_hook(t, 0, true) || rush_class_hook(t, 0, false));
}

/* Set m->trees for an exported program that has some.  Returns 0, or -1 with an exception set. */
static int find_trees(py_module *m)
{
  rush_error err = RUSH_ERROR_INIT;
  char *text;

  if (rush_module_format(m->module) != RUSH_FORMAT_EXPORT)
    return 0;
  if (py_unlocked_module_dump(m->module, RUSH_DUMP_TREES, NULL, &text, &err) != RUSH_OK) {
    py_raise(m->state, &err);
    return -1;
  }
  const bool has_trees = *text != 0;
  if (has_trees)
    m->trees = py_package_call(m->state, "Trees", "(s)", text);
  rush_free_text(m->state->context, text);
  return has_trees && !m->trees ? -1 : 0;
}

/* Make a module; the method _construct of Python subclasses completes it. */
PyObject *py_module_make(py_state *st, PyTypeObject *type, rush_module *steal)
{
  py_module *m = (py_module *)type->tp_alloc(type, 0);

  if (!m) {
    rush_module_release(steal);
    return NULL;
  }
  m->module = steal;
  m->state = st;
  m->is_hooked = has_hooks(steal);
  py_module_enrol(m);
  if (find_trees(m) < 0) {
    Py_DECREF(m);
    return NULL;
  }
  PyObject *construct = PyObject_GetAttrString((PyObject *)type, "_construct");
  PyObject *done = construct ? PyObject_CallOneArg(construct, (PyObject *)m) : NULL;
  if (!construct && PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    return (PyObject *)m;
  }
  Py_XDECREF(construct);
  if (!done)
    Py_CLEAR(m);
  Py_XDECREF(done);
  return (PyObject *)m;
}

PyObject *py_module_wrap_steal(py_state *st, rush_module *module)
{
  if (py_need_part(st, PY_PART_MODULE) < 0) {
    rush_module_release(module);
    return NULL;
  }
  return py_module_make(st, (PyTypeObject *)st->module_class, module);
}

PyObject *py_module_wrap(py_state *st, rush_value object, rush_module *root)
{
  py_module *there = module_enrolled(st, object);
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;

  if (there)
    return Py_NewRef((PyObject *)there);
  if (rush_module_around(st->context, object, root, &m, &err) != RUSH_OK)
    return py_raise(st, &err);
  return py_module_wrap_steal(st, m);
}

PyObject *py_no_program(void)
{
  PyErr_SetString(PyExc_AttributeError, "the module is no program (yet)");
  return NULL;
}

PyObject *py_module_dump(py_module *self, rush_dump what, const char *method)
{
  rush_error err = RUSH_ERROR_INIT;
  char *text;

  if (!self->module)
    return py_no_program();
  if (py_unlocked_module_dump(self->module, what, method, &text, &err) != RUSH_OK)
    return py_raise(self->state, &err);
  return py_text_steal(self->state, text);
}
