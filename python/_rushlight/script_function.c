/* _rushlight/script_function.c -- the Python types Function and Type; their objects keep the unit
 * alive. */
#include "script.h"

#include <string.h>

py_unit *py_unit_hold(py_unit *u)
{
  rush_unit_retain(u->unit);
  return (py_unit *)Py_NewRef((PyObject *)u);
}

void py_unit_drop(py_unit *u)
{
  rush_unit_release(u->unit);
  Py_DECREF((PyObject *)u);
}

static PyObject *new_type(py_unit *u, const rush_type *t)
{
  py_type *made = (py_type *)u->state->type_type->tp_alloc(u->state->type_type, 0);

  if (made) {
    made->type = t;
    made->unit = py_unit_hold(u);
  }
  return (PyObject *)made;
}

PyObject *py_type_wrap(py_unit *u, const rush_type *t)
{
  if (!t)
    Py_RETURN_NONE;
  if (!u->types) /* a reference cycle otherwise */
    return new_type(u, t);
  PyObject *key = PyLong_FromVoidPtr((void *)t);
  PyObject *found = key ? PyDict_GetItemWithError(u->types, key) : NULL;
  if (found || !key || PyErr_Occurred()) {
    Py_XDECREF(key);
    return Py_XNewRef(found);
  }
  PyObject *made = new_type(u, t);
  if (made && PyDict_SetItem(u->types, key, made) < 0)
    Py_CLEAR(made);
  Py_DECREF(key);
  return made;
}

/* -- Functions --------------------------------------------------------------------------------- */

static PyObject *function_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf,
                                     PyObject *kwnames)
{
  py_function *f = (py_function *)self;
  py_state *st = f->unit->state;
  const char *dot = strrchr(rush_function_name(f->function), '.');
  py_call call = {.state = st, .strict_text = true};
  PyObject *out = NULL;
  py_args a;

  if (st->call_hook &&
      py_hooked_call(st, self, NULL, args, (size_t)PyVectorcall_NARGS(nargsf), kwnames, &out))
    return out;
  if (py_args_bind(&call, f->function, dot ? dot + 1 : rush_function_name(f->function), 0, args,
                   (size_t)PyVectorcall_NARGS(nargsf), kwnames, &a) < 0) {
    py_call_end(&call);
    return NULL;
  }
  if (f->is_random < 0)
    WITHOUT_GIL(f->is_random = rush_function_is_random(f->function));
  const py_callee callee = {
    .function = f->function, .called = self, .is_random = f->is_random};
  return py_run_steal(&call, &a, &callee);
}

static void function_dealloc(PyObject *self);

static PyObject *make_function(py_unit *u, PyTypeObject *type, rush_function *f)
{
  py_function *o = (py_function *)type->tp_alloc(type, 0);

  if (!o)
    return NULL;
  o->function = f;
  o->unit = py_unit_hold(u);
  o->vectorcall = function_vectorcall;
  o->is_random = -1;
  return (PyObject *)o;
}

PyObject *py_function_wrap(py_unit *u, rush_function *f)
{
  return make_function(u, u->state->function_type, f);
}

/* Implement Function(other): the same function, for subclasses. */
static PyObject *function_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  PyObject *other;

  (void)kwargs;
  if (!PyArg_ParseTuple(args, "O", &other))
    return NULL;
  const PyTypeObject *base = Py_TYPE(other);
  while (base && base->tp_dealloc != function_dealloc)
    base = base->tp_base;
  if (!base)
    return PyErr_Format(PyExc_TypeError, "a compiled function is made by a unit");
  return make_function(((py_function *)other)->unit, type, ((py_function *)other)->function);
}

static int function_traverse(PyObject *self, visitproc visit, void *arg)
{
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((py_function *)self)->dict);
  return 0;
}
static int function_clear(PyObject *self)
{
  Py_CLEAR(((py_function *)self)->dict);
  return 0;
}
static void function_dealloc(PyObject *self)
{
  py_function *f = (py_function *)self;
  PyTypeObject *type = Py_TYPE(self);

  PyObject_GC_UnTrack(self);
  if (f->weakrefs)
    PyObject_ClearWeakRefs(self);
  if (f->unit && f->unit->state->last_called == self)
    f->unit->state->last_called = NULL;
  Py_CLEAR(f->dict);
  if (f->unit)
    py_unit_drop(f->unit);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject *function_compile(PyObject *self, PyObject *unused)
{
  py_function *f = (py_function *)self;
  rush_error err = RUSH_ERROR_INIT;
  rush_status status;

  (void)unused;
  WITHOUT_GIL(status = rush_function_compile(f->function, &err));
  return py_done(f->unit->state, status, &err);
}

static PyObject *dump(py_function *f, rush_dump what)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_status status;
  char *text;

  WITHOUT_GIL(status = rush_function_dump(f->function, what, &text, &err));
  return py_text_or_raise(f->unit->state, status, text, &err);
}

static PyObject *function_dump(PyObject *self, PyObject *arg)
{
  long what = PyLong_AsLong(arg);

  return PyErr_Occurred() ? NULL : dump((py_function *)self, (rush_dump)what);
}
static PyObject *function_schema(PyObject *self, void *unused)
{
  (void)unused;
  return dump((py_function *)self, RUSH_DUMP_SCHEMA);
}
static PyObject *function_graph(PyObject *self, void *unused)
{
  (void)unused;
  return dump((py_function *)self, RUSH_DUMP_GRAPH);
}
static PyObject *function_qualified(PyObject *self, void *unused)
{
  (void)unused;
  return PyUnicode_FromString(rush_function_name(((py_function *)self)->function));
}
static PyObject *function_args(PyObject *self, void *unused)
{
  py_function *f = (py_function *)self;
  PyObject *list = PyList_New(0);
  rush_argument arg;

  (void)unused;
  for (size_t i = 0; list && rush_function_arg(f->function, i, &arg); i++) {
    PyObject *type = py_type_wrap(f->unit, arg.type);
    PyObject *item =
      type ? Py_BuildValue("(sNOO)", arg.name, type, arg.has_default ? Py_True : Py_False,
                           arg.keyword_only ? Py_True : Py_False)
           : NULL;
    if (py_append_steal(list, item) < 0)
      Py_CLEAR(list);
  }
  return list;
}
static PyObject *function_result(PyObject *self, void *unused)
{
  (void)unused;
  return py_type_wrap(((py_function *)self)->unit,
                      rush_function_result(((py_function *)self)->function));
}
static PyObject *function_module(PyObject *self, PyObject *unused)
{
  py_function *f = (py_function *)self;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  rush_status status;

  (void)unused;
  WITHOUT_GIL(status = rush_function_module(f->function, &m, &err));
  return status == RUSH_OK ? py_module_wrap_steal(f->unit->state, m)
                           : py_raise(f->unit->state, &err);
}

static PyMethodDef function_methods[] = {
    {"compile", function_compile, METH_NOARGS, "compile the body, and what it needs"},
    {"dump", function_dump, METH_O, "a text about the function, by rush_dump's number"},
    {"as_module", function_module, METH_NOARGS, "a module whose forward is the function"},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef function_getset[] = {
    {"schema_text", function_schema, NULL, "the signature", NULL},
    {"graph_text", function_graph, NULL, "the IR as text", NULL},
    {"qualified_name", function_qualified, NULL, "\"__torch__.module.name\"", NULL},
    {"arguments", function_args, NULL, "[(name, Type, has a default, keyword only)]", NULL},
    {"result", function_result, NULL, "the result's Type, or None before it is known", NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef function_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(py_function, vectorcall), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(py_function, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(py_function, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};
static PyType_Slot function_slots[] = {{Py_tp_new, function_new},
                                       {Py_tp_dealloc, function_dealloc},
                                       {Py_tp_traverse, function_traverse},
                                       {Py_tp_clear, function_clear},
                                       {Py_tp_call, PyVectorcall_Call},
                                       {Py_tp_methods, function_methods},
                                       {Py_tp_getset, function_getset},
                                       {Py_tp_members, function_members},
                                       {Py_tp_doc, "A compiled function."},
                                       {0, NULL}};
static PyType_Spec function_spec = {"rushlight.Function", sizeof(py_function), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
                                      Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                    function_slots};

int py_add_function_type(PyObject *m, py_state *state)
{
  state->function_type = py_add_type(m, &function_spec);
  return state->function_type ? 0 : -1;
}
