/* _rushlight/script.c -- the Python types Unit, Type and Function over rushlight/script.h. A unit
 * holds the Python object that answers the compiler's requests (script_host.c). The Python layer
 * above implements torch.jit's interface; this file only converts arguments and errors. */
#include "script.h"

#include <string.h>

static PyObject *type_or_raise(py_unit *u, rush_status st, const rush_type *t, rush_error *err)
{
  return st == RUSH_OK ? py_type_wrap(u, t) : py_raise(u->state, err);
}

/* -- Units ------------------------------------------------------------------------------------- */

static py_unit *make_unit(PyTypeObject *type, PyObject *host, bool is_borrowed)
{
  static const char *const questions[] = {"name", "attr",    "type",   "class_attr",
                                         "default", "call", "called", "block"};
  rush_error err = RUSH_ERROR_INIT;
  py_state *st = PyType_GetModuleState(type); /* no base type: it cannot be derived from */
  py_unit *u = st ? (py_unit *)type->tp_alloc(type, 0) : NULL;

  if (!u)
    return NULL;
  u->state = st;
  u->types = is_borrowed ? NULL : PyDict_New();
  for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
    u->ask[i] = PyObject_GetAttrString(host, questions[i]);
    if (!u->ask[i]) {
      Py_DECREF(u);
      return NULL;
    }
  }
  rush_host h = py_host;
  h.user = u;
  h.gives_user = is_borrowed;
  if ((!is_borrowed && !u->types) || rush_unit_create(st->context, &h, &u->unit, &err) != RUSH_OK) {
    Py_DECREF(u);
    (void)py_raise(st, &err);
    return NULL;
  }
  u->is_borrowed = is_borrowed;
  return u;
}

static PyObject *unit_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  PyObject *host;

  (void)kwargs;
  if (!PyArg_ParseTuple(args, "O", &host))
    return NULL;
  return Py_XNewRef((PyObject *)make_unit(
    type, host, false)); /* once more: its functions may outlive it, and use the host through it */
}

static void unit_dealloc(PyObject *self)
{
  py_unit *u = (py_unit *)self;
  PyTypeObject *type = Py_TYPE(self);

  for (size_t i = 0; i < sizeof u->ask / sizeof *u->ask; i++)
    Py_XDECREF(u->ask[i]);
  Py_XDECREF(u->types);
  if (u->unit && !u->is_borrowed)
    rush_unit_release(u->unit);
  type->tp_free(self);
  Py_DECREF(type);
}

/* Return a new list of the functions from number `first` on. */
static PyObject *text_functions(py_unit *u, size_t first)
{
  PyObject *list = PyList_New(0);
  rush_function *f;

  for (size_t i = first; list && (f = rush_unit_text_function(u->unit, i)); i++)
    if (py_append_steal(list, py_function_wrap(u, f)) < 0)
      Py_CLEAR(list);
  return list;
}

/* define_text(host, like, text, prefix, scope) */
PyObject *py_define_text(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  PyObject *host, *like, *scope;
  const char *text, *prefix;
  size_t first = 0;
  rush_source *src;
  Py_ssize_t n;

  if (!PyArg_ParseTuple(args, "OOs#sO:define_text", &host, &like, &text, &n, &prefix, &scope))
    return NULL;
  py_unit *u = PyObject_TypeCheck(like, st->function_type)
                 ? py_unit_hold(((py_function *)like)->unit)
                 : make_unit(st->unit_type, host, true);
  if (!u)
    return NULL;
  if (like == Py_None) /* the first reference is the unit's */
    Py_INCREF((PyObject *)u);
  while (rush_unit_text_function(u->unit, first))
    first++;
  rush_status status;
  WITHOUT_GIL(status = rush_unit_add_source(u->unit, "<string>", text, (size_t)n, 1, &src, &err));
  if (status == RUSH_OK) {
    void *given = Py_NewRef(scope);
    WITHOUT_GIL(status = rush_unit_define_text(u->unit, src, prefix, given, &err));
  }
  PyObject *list = status == RUSH_OK ? text_functions(u, first) : py_raise(st, &err);
  py_unit_drop(u);
  return list;
}

static PyObject *unit_add_source(PyObject *self, PyObject *args)
{
  py_unit *u = (py_unit *)self;
  rush_error err = RUSH_ERROR_INIT;
  unsigned first_line = 1;
  const char *file, *text;
  rush_source *src;
  rush_status st;
  Py_ssize_t n;

  if (!PyArg_ParseTuple(args, "ss#|I", &file, &text, &n, &first_line))
    return NULL;
  WITHOUT_GIL(st = rush_unit_add_source(u->unit, file, text, (size_t)n, first_line, &src, &err));
  return st == RUSH_OK ? PyCapsule_New(src, "rush_source", NULL) : py_raise(u->state, &err);
}

enum { DEF_STATIC = 1, DEF_HOOK = 2, DEF_DECLARED_ONLY = 4, DEF_CLASS_METHOD = 8 };

/* define(name, source, line, scope, self=None, flags=0, drop_body=None[, signature source, line])
 * */
static PyObject *unit_define(PyObject *self, PyObject *args)
{
  py_unit *u = (py_unit *)self;
  rush_function_def def = RUSH_FUNCTION_DEF_INIT;
  rush_error err = RUSH_ERROR_INIT;
  PyObject *source, *scope, *cls = Py_None, *signature = NULL;
  rush_function *f;
  rush_status st;
  unsigned flags = 0;

  if (!PyArg_ParseTuple(args, "sOIO|OIzOI", &def.name, &source, &def.line, &scope, &cls, &flags,
                        &def.drop_body, &signature, &def.signature_line))
    return NULL;
  def.source = PyCapsule_GetPointer(source, "rush_source");
  def.signature = signature ? PyCapsule_GetPointer(signature, "rush_source") : NULL;
  if (!def.source || PyErr_Occurred())
    return NULL;
  def.self = PyObject_TypeCheck(cls, u->state->type_type) ? ((py_type *)cls)->type : NULL;
  def.is_static = flags & DEF_STATIC;
  def.is_hook = flags & DEF_HOOK;
  def.is_declared_only = flags & DEF_DECLARED_ONLY;
  def.is_class_method = flags & DEF_CLASS_METHOD;
  def.scope = Py_NewRef(scope);
  WITHOUT_GIL(st = rush_unit_define(u->unit, &def, &f, &err));
  return st == RUSH_OK ? py_function_wrap(u, f) : py_raise(u->state, &err);
}

/* add_class(name, kind, object, container=0) */
static PyObject *unit_add_class(PyObject *self, PyObject *args)
{
  py_unit *u = (py_unit *)self;
  rush_class_def def = RUSH_CLASS_DEF_INIT;
  rush_error err = RUSH_ERROR_INIT;
  const rush_type *t = NULL;
  PyObject *object;
  rush_status st;
  int kind, container = 0;

  if (!PyArg_ParseTuple(args, "siO|i", &def.name, &kind, &object, &container))
    return NULL;
  if (kind < RUSH_CLASS_SCRIPT || kind > RUSH_CLASS_NAMED_TUPLE)
    return PyErr_Format(PyExc_ValueError, "there is no kind %d of class", kind);
  def.kind = (rush_class_kind)kind;
  def.container = (rush_container)container;
  def.object = Py_NewRef(object);
  WITHOUT_GIL(st = rush_unit_add_class(u->unit, &def, &t, &err));
  return type_or_raise(u, st, t, &err);
}

/* make_type(kind, elems=()) */
static PyObject *unit_make_type(PyObject *self, PyObject *args)
{
  py_unit *u = (py_unit *)self;
  rush_error err = RUSH_ERROR_INIT;
  const rush_type *t = NULL, *few[16];
  PyObject *elems = NULL;
  int kind;

  if (!PyArg_ParseTuple(args, "i|O", &kind, &elems))
    return NULL;
  PyObject *fast = elems ? PySequence_Fast(elems, "elements are a sequence") : PyTuple_New(0);
  if (!fast)
    return NULL;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
  const rush_type **list = n <= 16 ? few : PyMem_Calloc((size_t)n, sizeof(*list));
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *o = PySequence_Fast_GET_ITEM(fast, i);
    if (!list || !PyObject_TypeCheck(o, u->state->type_type)) {
      PyErr_Format(PyExc_TypeError, "expected a Type, not %s", Py_TYPE(o)->tp_name);
      break;
    }
    list[i] = ((py_type *)o)->type;
  }
  rush_status st = PyErr_Occurred() ? RUSH_EARGUMENT
                                    : rush_unit_make_type(u->unit, (rush_type_kind)kind, list,
                                                          (size_t)n, &t, &err);
  if (list != few)
    PyMem_Free(list);
  Py_DECREF(fast);
  return type_or_raise(u, st, t, &err);
}

static PyObject *unit_parse_type(PyObject *self, PyObject *args)
{
  py_unit *u = (py_unit *)self;
  rush_error err = RUSH_ERROR_INIT;
  const rush_type *t = NULL;
  const char *text;
  PyObject *scope;
  rush_status st;

  if (!PyArg_ParseTuple(args, "sO", &text, &scope))
    return NULL;
  WITHOUT_GIL(st = rush_unit_parse_type(u->unit, text, scope, &t, &err));
  return type_or_raise(u, st, t, &err);
}

static PyObject *unit_type_of(PyObject *self, PyObject *o)
{
  py_unit *u = (py_unit *)self;
  py_call call = {.state = u->state};
  rush_error err = RUSH_ERROR_INIT;
  const rush_type *t = NULL;
  rush_value v;
  int result = py_to_value(&call, o, &v);

  py_call_end(&call);
  if (result < 0)
    return NULL;
  rush_status st = rush_unit_type_of(u->unit, v, &t, &err);
  rush_value_release(v);
  return type_or_raise(u, st, t, &err);
}

static PyObject *unit_unify(PyObject *self, PyObject *args)
{
  py_unit *u = (py_unit *)self;
  py_type *a, *b;

  if (!PyArg_ParseTuple(args, "O!O!", u->state->type_type, &a, u->state->type_type, &b))
    return NULL;
  return py_type_wrap(u, rush_unit_unify(u->unit, a->type, b->type));
}

static PyObject *unit_find_type(PyObject *self, PyObject *arg)
{
  py_unit *u = (py_unit *)self;
  const char *name = PyUnicode_AsUTF8(arg);
  const rush_type *t;

  if (!name)
    return NULL;
  WITHOUT_GIL(t = rush_unit_find_type(u->unit, name));
  return py_type_wrap(u, t);
}

/* convert(object, type): as if returned by a call; TypeError if it does not fit. */
static PyObject *unit_convert(PyObject *self, PyObject *args)
{
  py_unit *u = (py_unit *)self;
  py_call call = {.state = u->state};
  PyObject *o, *out = NULL;
  py_type *t;
  rush_value v;

  if (!PyArg_ParseTuple(args, "OO!", &o, u->state->type_type, &t))
    return NULL;
  int result = py_to_value_as(&call, o, t->type, &v);
  if (result > 0)
    PyErr_Format(PyExc_TypeError, "a value of type '%s' does not fit", Py_TYPE(o)->tp_name);
  if (result == 0) {
    out = py_from_value(&call, v);
    rush_value_release(v);
  }
  py_call_end(&call);
  return out;
}

/* set_attr(object, name, value): converts to the attribute's type. */
static PyObject *unit_set_attr(PyObject *self, PyObject *args)
{
  py_unit *u = (py_unit *)self;
  py_state *st = u->state;
  py_call call = {.state = st};
  rush_error err = RUSH_ERROR_INIT;
  const rush_type *of = NULL;
  const char *name, *attr;
  PyObject *object, *o;
  rush_value v, owner;
  int result = 1;

  if (!PyArg_ParseTuple(args, "OsO", &object, &name, &o))
    return NULL;
  if (PyObject_TypeCheck(object, st->module_type))
    owner = rush_module_value(((py_module *)object)->module);
  else if (PyObject_TypeCheck(object, st->object_type))
    owner = ((py_object *)object)->value;
  else
    return PyErr_Format(PyExc_TypeError, "attributes are of objects and modules, not %s",
                        Py_TYPE(object)->tp_name);
  const rush_type *t = rush_object_type(owner);
  for (size_t i = 0; t && (attr = rush_class_attr(t, i, &of, NULL)) != NULL; i++)
    if (strcmp(attr, name) == 0)
      break;
  if (!t || !attr)
    return PyErr_Format(PyExc_AttributeError, "there is no attribute '%s' to set", name);
  result = py_to_value_as(&call, o, of, &v);
  if (result == 0) {
    if (py_unlocked_object_set_attr(st->context, owner, name, v, &err) != RUSH_OK) {
      py_raise(st, &err);
      result = -1;
    }
    rush_value_release(v);
  } else if (result > 0) {
    PyErr_Format(PyExc_RuntimeError, "attribute '%s' takes no value of type '%s'", name,
                 Py_TYPE(o)->tp_name);
  }
  py_call_end(&call);
  if (result != 0)
    return NULL;
  Py_RETURN_NONE;
}

/* module_of(object): a Module around an object of a module's class. */
static PyObject *unit_module_of(PyObject *self, PyObject *o)
{
  py_unit *u = (py_unit *)self;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;

  if (!PyObject_TypeCheck(o, u->state->object_type))
    return PyErr_Format(PyExc_TypeError, "expected a ScriptObject, not %s", Py_TYPE(o)->tp_name);
  if (rush_module_of_object(u->unit, ((py_object *)o)->value, &m, &err) != RUSH_OK)
    return py_raise(u->state, &err);
  return py_module_wrap_steal(u->state, m);
}

/* type_of_object(object): the Type of a ScriptObject or Module. */
static PyObject *unit_type_of_object(PyObject *self, PyObject *o)
{
  py_unit *u = (py_unit *)self;
  rush_value v = rush_value_none();

  if (PyObject_TypeCheck(o, u->state->module_type))
    v = rush_module_value(((py_module *)o)->module);
  else if (PyObject_TypeCheck(o, u->state->object_type))
    v = ((py_object *)o)->value;
  return py_type_wrap(u, rush_object_type(v));
}

/* register_class(type, python_class): values of one become instances of the other. */
static PyObject *unit_register_class(PyObject *self, PyObject *args)
{
  py_unit *u = (py_unit *)self;
  py_state *st = u->state;
  py_type *t;
  PyObject *cls;

  if (!PyArg_ParseTuple(args, "O!O", st->type_type, &t, &cls))
    return NULL;
  if ((!st->classes && !(st->classes = PyDict_New())) ||
      (!st->class_types && !(st->class_types = PyDict_New())))
    return NULL;
  if (PyDict_SetItemString(st->classes, rush_type_name(t->type), cls) < 0 ||
      PyDict_SetItem(st->class_types, cls, (PyObject *)t) < 0)
    return NULL;
  Py_RETURN_NONE;
}

/* set_wrapper(f): f(ScriptObject, kind) makes Python's objects for modules ("module"), futures
 * ("future") and awaitables ("awaitable") in results. */
static PyObject *unit_set_wrapper(PyObject *self, PyObject *f)
{
  py_state *st = ((py_unit *)self)->state;

  Py_XSETREF(st->wrap_object, Py_NewRef(f));
  Py_RETURN_NONE;
}

/* hold(object, type): returns a ScriptObject that is the value, so that programs and Python share
 * it. */
static PyObject *unit_hold(PyObject *self, PyObject *args)
{
  py_state *st = ((py_unit *)self)->state;
  py_call call = {.state = st};
  PyObject *o, *out = NULL;
  py_type *t;
  rush_value v;

  if (!PyArg_ParseTuple(args, "OO!", &o, st->type_type, &t))
    return NULL;
  int result = py_to_value_as(&call, o, t->type, &v);
  if (result > 0)
    PyErr_Format(PyExc_TypeError, "a value of type '%s' does not fit", Py_TYPE(o)->tp_name);
  if (result == 0) {
    out = py_value_wrap(st, st->object_type, v);
    rush_value_release(v);
  }
  py_call_end(&call);
  return out;
}

/* take(object): returns the value of a ScriptObject of hold(), as Python's own. */
static PyObject *unit_take(PyObject *self, PyObject *o)
{
  py_state *st = ((py_unit *)self)->state;
  py_call call = {.state = st};

  if (!PyObject_TypeCheck(o, st->object_type))
    return PyErr_Format(PyExc_TypeError, "expected a ScriptObject, not %s", Py_TYPE(o)->tp_name);
  PyObject *out = py_from_value(&call, ((py_object *)o)->value);
  py_call_end(&call);
  return out;
}

PyObject *py_set_error(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  const char *name;
  PyObject *cls;

  if (!PyArg_ParseTuple(args, "sO", &name, &cls))
    return NULL;
  if (!PyExceptionClass_Check(cls))
    return PyErr_Format(PyExc_TypeError, "%R is no class of exceptions", cls);
  if ((!st->errors && !(st->errors = PyDict_New())) ||
      PyDict_SetItemString(st->errors, name, cls) < 0)
    return NULL;
  Py_RETURN_NONE;
}

/* future_result(object): returns the result of a Future; raises what its task raised. */
PyObject *py_future_result(PyObject *m, PyObject *o)
{
  py_state *st = PyModule_GetState(m);
  py_call call = {.state = st};
  rush_error err = RUSH_ERROR_INIT;
  rush_value v;

  if (!PyObject_TypeCheck(o, st->object_type))
    return PyErr_Format(PyExc_TypeError, "expected a ScriptObject, not %s", Py_TYPE(o)->tp_name);
  if (rush_future_result(st->context, ((py_object *)o)->value, &v, &err) != RUSH_OK)
    return py_raise(st, &err);
  PyObject *out = py_from_value(&call, v);
  rush_value_release(v);
  py_call_end(&call);
  return out;
}

/* dataclass_method(name, type, method, fields, has_post_init): a method's text.  A field is a tuple
 * (name, annotation, value or None, is_argument, is_parameter, is_compared, is_optional). */
static PyObject *unit_dataclass_method(PyObject *self, PyObject *args)
{
  py_unit *u = (py_unit *)self;
  rush_error err = RUSH_ERROR_INIT;
  const char *name, *type, *method;
  PyObject *list, *made = NULL;
  int has_post_init;
  char *text;

  if (!PyArg_ParseTuple(args, "sssO!p", &name, &type, &method, &PyTuple_Type, &list,
                        &has_post_init))
    return NULL;
  size_t n = (size_t)PyTuple_GET_SIZE(list);
  rush_dataclass_field *fields = PyMem_Calloc(n + 1, sizeof *fields);
  bool ok = fields != NULL || PyErr_NoMemory();
  for (size_t i = 0; ok && i < n; i++) {
    rush_dataclass_field *f = &fields[i];
    int flags[4];
    ok = PyArg_ParseTuple(PyTuple_GET_ITEM(list, (Py_ssize_t)i), "sszpppp", &f->name,
                          &f->annotation, &f->value, &flags[0], &flags[1], &flags[2], &flags[3]);
    f->is_argument = ok && flags[0];
    f->is_parameter = ok && flags[1];
    f->is_compared = ok && flags[2];
    f->is_optional = ok && flags[3];
  }
  if (ok && rush_dataclass_method(u->state->context, name, type, method, fields, n, has_post_init,
                                  &text, &err) != RUSH_OK) {
    (void)py_raise(u->state, &err);
  } else if (ok) {
    made = PyUnicode_FromString(text);
    rush_free_text(u->state->context, text);
  }
  PyMem_Free(fields);
  return made;
}

static PyMethodDef unit_methods[] = {
  {"hold", unit_hold, METH_VARARGS, "hold(object, type): a ScriptObject that is the value"},
  {"take", unit_take, METH_O, "the value of hold(), as Python's own"},
  {"add_source", unit_add_source, METH_VARARGS, "add_source(file, text, first_line=1)"},
  {"dataclass_method", unit_dataclass_method, METH_VARARGS,
   "dataclass_method(name, type, method, fields, has_post_init): a text"},
  {"define", unit_define, METH_VARARGS,
   "define(name, source, line, scope, self=None, flags=0, drop_body=None): a Function"},
  {"add_class", unit_add_class, METH_VARARGS, "add_class(name, kind, object, container=0): a Type"},
  {"make_type", unit_make_type, METH_VARARGS, "make_type(kind, elems=())"},
  {"parse_type", unit_parse_type, METH_VARARGS, "parse_type(text, scope)"},
  {"type_of", unit_type_of, METH_O, "the Type of a value"},
  {"type_of_object", unit_type_of_object, METH_O, "the Type of a ScriptObject or Module"},
  {"unify", unit_unify, METH_VARARGS, "the smallest Type above both, or None"},
  {"find_type", unit_find_type, METH_O, "the class of that qualified name, or None"},
  {"convert", unit_convert, METH_VARARGS, "convert(object, type)"},
  {"set_attr", unit_set_attr, METH_VARARGS, "set_attr(object, name, value)"},
  {"module_of", unit_module_of, METH_O, "a Module around an object"},
  {"register_class", unit_register_class, METH_VARARGS, "register_class(type, python_class)"},
  {"set_wrapper", unit_set_wrapper, METH_O,
   "set_wrapper(f): what Python sees of objects without a class of theirs"},
  {NULL, NULL, 0, NULL}};
static PyType_Slot unit_slots[] = {
  {Py_tp_new, unit_new},
  {Py_tp_dealloc, unit_dealloc},
  {Py_tp_methods, unit_methods},
  {Py_tp_doc, "A growing program of live Python code; Unit(host) asks the host what names mean."},
  {0, NULL}};
static PyType_Spec unit_spec = {"rushlight.Unit", sizeof(py_unit), 0, Py_TPFLAGS_DEFAULT,
                                unit_slots};

int py_add_script_types(PyObject *m, py_state *state)
{
  state->type_type = py_add_type(m, &py_type_spec);
  state->unit_type = py_add_type(m, &unit_spec);
  return py_add_function_type(m, state) == 0 && state->type_type && state->unit_type ? 0 : -1;
}
