/* module.c -- the type of modules.
 *
 * A Module represents an object of a program; attributes are converted when they are read and
 * cached, so that parameters and submodules keep their identity. */
#include "ir.h"
#include "limits.h"
#include "module.h"

#include <string.h>

/* -- Small things ------------------------------------------------------------------------------ */

/* -- Modules ----------------------------------------------------------------------------------- */

static int module_traverse(PyObject *self, visitproc visit, void *arg)
{
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((py_module *)self)->cache);
  Py_VISIT(((py_module *)self)->trees);
  Py_VISIT(((py_module *)self)->recorder);
  Py_VISIT(((py_module *)self)->graphs);
  return 0;
}
static int module_clear(PyObject *self)
{
  PyObject *type, *value, *tb;

  PyErr_Fetch(&type, &value, &tb); /* a module may be destroyed while an exception is set */
  py_slots_forget((py_module *)self);
  Py_CLEAR(((py_module *)self)->cache);
  Py_CLEAR(((py_module *)self)->trees);
  Py_CLEAR(((py_module *)self)->recorder);
  Py_CLEAR(((py_module *)self)->graphs);
  PyErr_Restore(type, value, tb);
  return 0;
}
static void module_dealloc(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);

  PyObject_GC_UnTrack(self);
  if (((py_module *)self)->state && ((py_module *)self)->state->last_called == self)
    ((py_module *)self)->state->last_called = NULL;
  py_module_leave((py_module *)self);
  module_clear(self);
  rush_module_release(((py_module *)self)->module);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject *module_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  py_module *m = (py_module *)type->tp_alloc(type, 0);
  PyTypeObject *ours = type;

  (void)args;
  (void)kwargs;
  while (ours->tp_dealloc != module_dealloc)
    ours = ours->tp_base;
  if (m)
    m->state = PyType_GetModuleState(ours);
  return (PyObject *)m;
}

static bool has_method(py_module *m, const char *name)
{
  for (size_t i = 0; i < rush_module_n_methods(m->module); i++)
    if (strcmp(rush_module_method_name(m->module, i), name) == 0)
      return true;
  return false;
}

static PyObject *module_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
  py_module *m = (py_module *)self;
  bool python = m->is_hooked || !m->module || !has_method(m, "forward");
  PyObject *forward =
    python ? PyObject_GetAttrString(self, "_call_impl") : py_method_new(m->state, self, "forward");
  PyObject *out = forward ? PyObject_Call(forward, args, kwargs) : NULL;

  Py_XDECREF(forward);
  return out;
}

/* The program's methods have priority over those of Python's classes, Python's other attributes
 * over the program's. */
static PyObject *module_getattro(PyObject *self, PyObject *name)
{
  PyObject *found = PyObject_GenericGetAttr(self, name);
  py_module *m = (py_module *)self;

  if (!m->module || (!found && !PyErr_ExceptionMatches(PyExc_AttributeError)))
    return found;
  const char *text = PyUnicode_AsUTF8(name);
  if (found) {
    if (text && text[0] != '_' && has_method(m, text))
      Py_SETREF(found, py_method_new(m->state, self, text));
    return found;
  }
  if (!text || (text[0] == '_' && text[1] == '_'))
    return NULL;
  PyObject *type, *value, *tb;
  PyErr_Fetch(&type, &value, &tb);
  found = has_method(m, text) ? py_method_new(m->state, self, text) : py_slot_get(m, name);
  if (found || PyErr_Occurred()) {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(tb);
    return found;
  }
  found = PyObject_CallMethod(self, "_missing", "O", name);
  if (!found && !PyErr_ExceptionMatches(PyExc_AttributeError)) {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(tb);
  } else if (!found) {
    PyErr_Restore(type, value, tb);
  }
  return found;
}

/* Set an attribute of the program; returns False if it has none of this name.  (Without
 * tp_setattro, since nn.Module could not be a base then.) */
static PyObject *module_set(PyObject *self, PyObject *args)
{
  py_module *m = (py_module *)self, *like = NULL;
  PyObject *name, *o;
  const char *there = NULL;

  if (!PyArg_ParseTuple(args, "UO|O!s", &name, &o, m->state->module_type, &like, &there))
    return NULL;
  const char *text = PyUnicode_AsUTF8(name);
  if (like && there && like->module && text)
    return py_slot_share(m, name, o, like, there) < 0 ? NULL : Py_NewRef(Py_True);
  if (!m->module || !text || (text[0] == '_' && text[1] == '_') || !py_slot_exists(m, text))
    return text ? Py_NewRef(Py_False) : NULL;
  return py_slot_set(m, name, o) < 0 ? NULL : Py_NewRef(Py_True);
}

static PyObject *module_py_slot(PyObject *self, PyObject *name)
{
  PyObject *o = py_slot_get((py_module *)self, name);

  if (!o && !PyErr_Occurred())
    PyErr_SetObject(PyExc_AttributeError, name);
  return o;
}
/* Return a method of the program, whatever Python's class has of that name. */
static PyObject *module_program_method(PyObject *self, PyObject *name)
{
  py_module *m = (py_module *)self;
  const char *text = PyUnicode_AsUTF8(name);

  if (!text)
    return NULL;
  if (!m->module ||
      !(has_method(m, text) || rush_object_has_method(rush_module_value(m->module), text))) {
    PyErr_SetObject(PyExc_AttributeError, name);
    return NULL;
  }
  return py_method_new(m->state, self, text);
}
/* Return (name, kind) of every attribute, in order. */
static PyObject *module_slots_list(PyObject *self, PyObject *unused)
{
  py_module *m = (py_module *)self;
  rush_value object = m->module ? rush_module_value(m->module) : rush_value_none();
  size_t n = rush_object_n_attrs(object);
  PyObject *list = PyList_New((Py_ssize_t)n);

  (void)unused;
  for (size_t i = 0; list && i < n; i++) {
    PyObject *item =
      Py_BuildValue("(sI)", rush_object_attr_name(object, i), rush_object_slot_kind(object, i));
    if (!item)
      Py_CLEAR(list);
    else
      PyList_SET_ITEM(list, (Py_ssize_t)i, item);
  }
  return list;
}
/* Use the program of another module, with its state. */
static PyObject *module_adopt(PyObject *self, PyObject *other)
{
  py_module *m = (py_module *)self, *from = (py_module *)other;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *made;

  if (!PyObject_TypeCheck(other, m->state->module_type) || !from->module)
    return PyErr_Format(PyExc_TypeError, "_adopt() takes a module");
  if (rush_module_around(m->state->context, rush_module_value(from->module), from->module, &made,
                         &err) != RUSH_OK)
    return py_raise(m->state, &err);
  py_module_leave(m);
  py_slots_forget(m);
  rush_module_release(m->module);
  m->module = made;
  py_module_enrol(m);
  Py_XSETREF(m->trees, Py_XNewRef(from->trees));
  Py_CLEAR(m->graphs);
  Py_XSETREF(m->cache, from->cache ? PyDict_Copy(from->cache) : NULL);
  Py_RETURN_NONE;
}
static PyObject *module_is_script(PyObject *self, void *unused)
{
  (void)unused;
  return PyBool_FromLong(((py_module *)self)->module != NULL);
}
static PyObject *module_class_name(PyObject *self, void *unused)
{
  py_module *m = (py_module *)self;
  const char *name = m->module ? rush_value_class(rush_module_value(m->module)) : NULL;

  (void)unused;
  return name ? PyUnicode_FromString(name) : Py_NewRef(Py_None);
}
static PyObject *module_same(PyObject *self, PyObject *other)
{
  py_module *a = (py_module *)self, *b = (py_module *)other;

  return PyBool_FromLong(
    PyObject_TypeCheck(other, a->state->module_type) && a->module && b->module &&
    rush_module_value(a->module).as.heap == rush_module_value(b->module).as.heap);
}

/* Set `training` of an object and of all below it. */
static int set_training(py_state *st, rush_value object, bool on)
{
  rush_error err = RUSH_ERROR_INIT;

  for (size_t i = 0; i < rush_object_n_attrs(object); i++) {
    const char *name = rush_object_attr_name(object, i);
    rush_value v = py_unlocked_object_attr(object, name);
    int result = 0;
    if (v.tag == RUSH_TAG_OBJECT)
      result = set_training(st, v, on);
    else if (strcmp(name, "training") == 0 && v.tag == RUSH_TAG_BOOL &&
             py_unlocked_object_set_attr(st->context, object, name, rush_value_bool(on), &err) !=
               RUSH_OK) {
      py_raise(st, &err);
      result = -1;
    }
    rush_value_release(v);
    if (result < 0)
      return -1;
  }
  return 0;
}
static PyObject *module_set_training(PyObject *self, PyObject *arg)
{
  int on = PyObject_IsTrue(arg);

  if (!((py_module *)self)->module)
    return py_no_program();
  if (on < 0 || set_training(((py_module *)self)->state,
                             rush_module_value(((py_module *)self)->module), on) < 0)
    return NULL;
  Py_RETURN_NONE;
}

static PyObject *module_methods(PyObject *self, PyObject *unused)
{
  py_module *m = (py_module *)self;
  size_t n = m->module ? rush_module_n_methods(m->module) : 0;
  PyObject *list = PyList_New((Py_ssize_t)n);

  (void)unused;
  for (size_t i = 0; list && i < n; i++) {
    PyObject *name = PyUnicode_FromString(rush_module_method_name(m->module, i));
    if (!name)
      Py_CLEAR(list);
    else
      PyList_SET_ITEM(list, (Py_ssize_t)i, name);
  }
  return list;
}

static PyObject *module_state(PyObject *self, PyObject *args)
{
  py_module *m = (py_module *)self;
  py_call call = {.state = m->state};
  rush_error err = RUSH_ERROR_INIT;
  int parameters_only = 0;
  if (!m->module)
    return py_no_program();
  PyObject *d = PyArg_ParseTuple(args, "|p", &parameters_only) ? PyDict_New() : NULL;

  for (size_t i = 0, n = d ? py_unlocked_module_n_state(m->module) : 0; i < n; i++) {
    rush_value v;
    bool is_parameter;
    char *name;
    if (py_unlocked_module_state_at(m->module, i, &name, &is_parameter, &v, &err) != RUSH_OK) {
      py_raise(m->state, &err);
      Py_CLEAR(d);
      break;
    }
    PyObject *o = is_parameter || !parameters_only ? py_from_value(&call, v) : Py_NewRef(Py_None);
    if (o && (is_parameter || !parameters_only) && PyDict_SetItemString(d, name, o) < 0)
      Py_CLEAR(o);
    rush_free_text(m->state->context, name);
    rush_value_release(v);
    if (!o) {
      Py_CLEAR(d);
      break;
    }
    Py_DECREF(o);
  }
  py_call_end(&call);
  return d;
}

static PyObject *module_set_state(PyObject *self, PyObject *args)
{
  py_module *m = (py_module *)self;
  py_call call = {.state = m->state};
  rush_error err = RUSH_ERROR_INIT;
  const char *name;
  PyObject *o, *result = NULL;
  rush_value v;

  if (!m->module)
    return py_no_program();
  if (!PyArg_ParseTuple(args, "sO", &name, &o) || py_to_value(&call, o, &v) < 0)
    goto done;
  if (py_unlocked_module_set_state(m->module, name, v, &err) == RUSH_OK)
    result = Py_NewRef(Py_None);
  else
    py_raise(m->state, &err);
  rush_value_release(v);
done:
  py_call_end(&call);
  return result;
}

static PyObject *module_copy(PyObject *self, PyObject *unused)
{
  py_module *m = (py_module *)self;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *copy;

  (void)unused;
  if (!m->module)
    return py_no_program();
  if (py_unlocked_module_copy(m->module, &copy, &err) != RUSH_OK)
    return py_raise(m->state, &err);
  return py_module_make(m->state, Py_TYPE(self), copy);
}

static PyObject *module_code(PyObject *self, void *unused)
{
  (void)unused;
  return py_module_dump((py_module *)self, RUSH_DUMP_CODE, "forward");
}
static PyObject *module_inlined_graph(PyObject *self, void *unused)
{
  (void)unused;
  return py_method_graph(((py_module *)self)->state, self, "forward", true);
}
static PyObject *module_graph(PyObject *self, void *unused)
{
  (void)unused;
  return py_shown_graph(((py_module *)self)->state, self, "forward");
}
static PyObject *module_repr(PyObject *self)
{
  rush_module *m = ((py_module *)self)->module;
  const char *name = m ? rush_value_class(rush_module_value(m)) : NULL;
  const char *last = name ? strrchr(name, '.') : NULL;

  return PyUnicode_FromFormat("ScriptModule(original_name=%s)", last   ? last + 1
                                                                : name ? name
                                                                       : "?");
}

static PyObject *module_define(PyObject *self, PyObject *args);
static PyMethodDef module_methods_table[] = {
  {"methods", module_methods, METH_NOARGS, "names of the methods that can be called"},
  {"_state", module_state, METH_VARARGS, "parameters (and buffers) by qualified name"},
  {"_set_state", module_set_state, METH_VARARGS, "copy a tensor into a named parameter or buffer"},
  {"_set_training", module_set_training, METH_O, "set `training` of all submodules"},
  {"_define", module_define, METH_VARARGS, "add a text's definitions to a module of compile()"},
  {"_slot", module_py_slot, METH_O, "an attribute of the program"},
  {"_set", module_set, METH_VARARGS,
   "set an attribute and cache its Python object; False: there is no such attribute"},
  {"_program_method", module_program_method, METH_O, "a method of the program"},
  {"_slots", module_slots_list, METH_NOARGS, "(name, kind) of every attribute"},
  {"_adopt", module_adopt, METH_O, "become another view of a module"},
  {"_is_same", module_same, METH_O, "do both show one module?"},
  {"copy", module_copy, METH_NOARGS, "another instance with state of its own"},
  {NULL, NULL, 0, NULL}};
static PyGetSetDef module_getset[] = {
  {"code", module_code, NULL, "TorchScript source", NULL},
  {"_is_script", module_is_script, NULL, "is there a program?", NULL},
  {"_class_name", module_class_name, NULL, "qualified name of the module's class", NULL},
  {"graph", module_graph, NULL, "a copy of forward's graph, always the same one", NULL},
  {"max_seconds", py_module_get_limit, py_module_set_limit, "seconds that a call may take, or None",
   (void *)offsetof(py_module, max_seconds)},
  {"max_bytes", py_module_get_limit, py_module_set_limit, "bytes that a call may use, or None",
   (void *)offsetof(py_module, max_bytes)},
  {"inlined_graph", module_inlined_graph, NULL, "the same, calls replaced by what they call", NULL},
  {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef module_members[] = {
  {"_is_hooked", T_BOOL, offsetof(py_module, is_hooked), 0, "calls go through Python's _call_impl"},
  {"_recorder", T_OBJECT, offsetof(py_module, recorder), 0,
   "the function that calls are reported to, or None"},
  {NULL, 0, 0, 0, NULL}};
static PyType_Slot module_slots[] = {
  {Py_tp_dealloc, module_dealloc},
  {Py_tp_new, module_new},
  {Py_tp_traverse, module_traverse},
  {Py_tp_clear, module_clear},
  {Py_tp_members, module_members},
  {Py_tp_call, module_call},
  {Py_tp_getattro, module_getattro},
  {Py_tp_repr, module_repr},
  {Py_tp_methods, module_methods_table},
  {Py_tp_getset, module_getset},
  {Py_tp_doc, "A program loaded from an archive, with its state."},
  {0, NULL}};
static PyType_Spec module_spec = {"rushlight._rushlight.Module", sizeof(py_module), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                  module_slots};

int py_add_module_types(PyObject *m, py_state *st)
{
  st->module_type = py_add_type(m, &module_spec);
  return st->module_type ? 0 : -1;
}

/* -- Texts ------------------------------------------------------------------------------------- */

/* Implement compile(text, name, first_line): a new module; module._define(text, name, first_line):
 * add definitions to it. */
static PyObject *compile_text(py_state *st, py_module *into, PyObject *args)
{
  rush_text_options options = RUSH_TEXT_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *module = NULL;
  rush_status status;
  const char *text;
  Py_ssize_t n;
  unsigned first_line = 1;

  if (!PyArg_ParseTuple(args, "s#|zI", &text, &n, &options.name, &first_line))
    return NULL;
  options.first_line = first_line;
  Py_BEGIN_ALLOW_THREADS
  status = into ? rush_module_define(into->module, text, (size_t)n, &options, &err)
                : rush_module_compile(st->context, text, (size_t)n, &options, &module, &err);
  Py_END_ALLOW_THREADS
  if (status != RUSH_OK)
    return py_raise(st, &err);
  return into ? Py_NewRef(Py_None) : py_module_wrap_steal(st, module);
}
PyObject *py_compile(PyObject *m, PyObject *args)
{
  return compile_text(PyModule_GetState(m), NULL, args);
}
static PyObject *module_define(PyObject *self, PyObject *args)
{
  return compile_text(((py_module *)self)->state, (py_module *)self, args);
}
