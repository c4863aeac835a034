/* script_type.c -- the type Type of compiled live Python code: types of programs, and classes that
 * can be extended. */
#include "script.h"

#include <string.h>

static void type_dealloc(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);

  if (((py_type *)self)->unit)
    py_unit_drop(((py_type *)self)->unit);
  type->tp_free(self);
  Py_DECREF(type);
}
static PyObject *type_text(PyObject *self, bool annotation)
{
  py_type *t = (py_type *)self;
  rush_error err = RUSH_ERROR_INIT;
  char *text;

  if (rush_type_to_text(t->unit->state->context, t->type, annotation, &text, &err) != RUSH_OK)
    return py_raise(t->unit->state, &err);
  return py_text_steal(t->unit->state, text);
}
static PyObject *type_str(PyObject *self) { return type_text(self, true); }
static PyObject *type_annotation(PyObject *self, void *unused)
{
  (void)unused;
  return type_text(self, true);
}
static PyObject *type_kind(PyObject *self, void *unused)
{
  (void)unused;
  return PyLong_FromLong(rush_type_kind_of(((py_type *)self)->type));
}
static PyObject *type_name(PyObject *self, void *unused)
{
  const char *name = rush_type_name(((py_type *)self)->type);

  (void)unused;
  if (!name)
    Py_RETURN_NONE;
  return PyUnicode_FromString(name);
}
static PyObject *type_elems(PyObject *self, void *unused)
{
  py_type *t = (py_type *)self;
  size_t n = rush_type_n_elems(t->type);
  PyObject *out = PyTuple_New((Py_ssize_t)n);

  (void)unused;
  for (size_t i = 0; out && i < n; i++) {
    PyObject *e = py_type_wrap(t->unit, rush_type_elem(t->type, i));
    if (!e)
      Py_CLEAR(out);
    else
      PyTuple_SET_ITEM(out, (Py_ssize_t)i, e);
  }
  return out;
}
static PyObject *type_fields(PyObject *self, void *unused)
{
  py_type *t = (py_type *)self;
  PyObject *out = PyList_New(0);

  (void)unused;
  for (size_t i = 0; out && rush_type_field(t->type, i); i++) {
    if (py_append_steal(out, PyUnicode_FromString(rush_type_field(t->type, i))) < 0)
      Py_CLEAR(out);
  }
  return out;
}
static PyObject *type_attrs(PyObject *self, void *unused)
{
  py_type *t = (py_type *)self;
  PyObject *out = PyList_New(0);
  const rush_type *of;
  const char *name;
  unsigned flags;

  (void)unused;
  for (size_t i = 0; out && (name = rush_class_attr(t->type, i, &of, &flags)) != NULL; i++) {
    if (py_append_steal(out, Py_BuildValue("(sNI)", name, py_type_wrap(t->unit, of), flags)) < 0)
      Py_CLEAR(out);
  }
  return out;
}
static PyObject *type_method_names(PyObject *self, void *unused)
{
  py_type *t = (py_type *)self;
  PyObject *out = PyList_New(0);
  const char *name;

  (void)unused;
  for (size_t i = 0; out && (name = rush_class_method_name(t->type, i)) != NULL; i++) {
    if (py_append_steal(out, PyUnicode_FromString(name)) < 0)
      Py_CLEAR(out);
  }
  return out;
}
static PyObject *type_method(PyObject *self, PyObject *arg)
{
  py_type *t = (py_type *)self;
  const char *name = PyUnicode_AsUTF8(arg);
  rush_function *f = name ? rush_class_method(t->type, name) : NULL;

  if (!name)
    return NULL;
  if (!f)
    Py_RETURN_NONE;
  return py_function_wrap(t->unit, f);
}
static PyObject *type_hooks(PyObject *self, PyObject *pre)
{
  py_type *t = (py_type *)self;
  PyObject *out = PyList_New(0);
  rush_function *f;

  for (size_t i = 0; out && (f = rush_class_hook(t->type, i, pre == Py_True)) != NULL; i++) {
    if (py_append_steal(out, py_function_wrap(t->unit, f)) < 0)
      Py_CLEAR(out);
  }
  return out;
}
static PyObject *type_is_subtype(PyObject *self, PyObject *other)
{
  py_type *t = (py_type *)self;

  if (!PyObject_TypeCheck(other, t->unit->state->type_type))
    return PyErr_Format(PyExc_TypeError, "expected a Type, not %s", Py_TYPE(other)->tp_name);
  return PyBool_FromLong(rush_type_is_subtype(t->type, ((py_type *)other)->type));
}
static PyObject *type_compare(PyObject *a, PyObject *b, int op)
{
  py_type *t = (py_type *)a;

  if ((op != Py_EQ && op != Py_NE) || !PyObject_TypeCheck(b, t->unit->state->type_type))
    Py_RETURN_NOTIMPLEMENTED;
  const rush_type *x = t->type, *y = ((py_type *)b)->type;
  bool same = x == y || (rush_type_is_subtype(x, y) && rush_type_is_subtype(y, x));
  return PyBool_FromLong(same == (op == Py_EQ));
}
static Py_hash_t type_hash(PyObject *self)
{
  return (Py_hash_t)rush_type_kind_of(((py_type *)self)->type);
}

/* -- Classes, which types are ------------------------------------------------------------------ */

static PyObject *class_add_attr(PyObject *self, PyObject *args)
{
  py_type *t = (py_type *)self, *of;
  rush_error err = RUSH_ERROR_INIT;
  unsigned flags = 0;
  const char *name;
  rush_status st;

  if (!PyArg_ParseTuple(args, "sO!|I", &name, t->unit->state->type_type, &of, &flags))
    return NULL;
  WITHOUT_GIL(st = rush_class_add_attr(t->unit->unit, t->type, name, of->type, flags, &err));
  return py_done(t->unit->state, st, &err);
}

/* Read (name, value, type=None) as a value; -1 with an exception. */
static int named_value(py_type *t, PyObject *args, const char **name, rush_value *v,
                       const rush_type **of)
{
  py_call call = {.state = t->unit->state};
  PyObject *o, *type = Py_None;

  if (!PyArg_ParseTuple(args, "sO|O", name, &o, &type))
    return -1;
  *of = PyObject_TypeCheck(type, t->unit->state->type_type) ? ((py_type *)type)->type : NULL;
  int result = *of ? py_to_value_as(&call, o, *of, v) : py_to_value(&call, o, v);
  py_call_end(&call);
  if (result > 0)
    PyErr_Format(PyExc_RuntimeError, "a value of type '%s' does not fit '%s'", Py_TYPE(o)->tp_name,
                 *name);
  return result == 0 ? 0 : -1;
}
static PyObject *add_named(PyObject *self, PyObject *args, bool is_member)
{
  py_type *t = (py_type *)self;
  rush_unit *u = t->unit->unit;
  rush_error err = RUSH_ERROR_INIT;
  const rush_type *of;
  const char *name;
  rush_status st;
  rush_value v;

  if (named_value(t, args, &name, &v, &of) < 0)
    return NULL;
  WITHOUT_GIL(st = is_member ? rush_class_add_member(u, t->type, name, v, &err)
                             : rush_class_add_constant(u, t->type, name, of, v, &err));
  rush_value_release(v);
  return py_done(t->unit->state, st, &err);
}
static PyObject *class_add_constant(PyObject *self, PyObject *args)
{
  return add_named(self, args, false);
}
static PyObject *class_add_member(PyObject *self, PyObject *args)
{
  return add_named(self, args, true);
}
/* add_field(name, type[, (default,)]) */
static PyObject *class_add_field(PyObject *self, PyObject *args)
{
  py_type *t = (py_type *)self, *of;
  py_call call = {.state = t->unit->state};
  rush_error err = RUSH_ERROR_INIT;
  rush_value v = rush_value_none();
  PyObject *o = NULL;
  const char *name;
  rush_status st;

  if (!PyArg_ParseTuple(args, "sO!|(O)", &name, t->unit->state->type_type, &of, &o))
    return NULL;
  int result = o ? py_to_value_as(&call, o, of->type, &v) : 0;
  py_call_end(&call);
  if (result > 0)
    PyErr_Format(PyExc_RuntimeError, "the default of field '%s' is not of its type", name);
  if (result != 0)
    return NULL;
  WITHOUT_GIL(st =
                rush_class_add_field(t->unit->unit, t->type, name, of->type, o ? &v : NULL, &err));
  rush_value_release(v);
  return py_done(t->unit->state, st, &err);
}
static PyObject *class_add_property(PyObject *self, PyObject *args)
{
  py_type *t = (py_type *)self;
  py_state *state = t->unit->state;
  rush_error err = RUSH_ERROR_INIT;
  PyObject *getter, *setter = Py_None;
  const char *name;
  rush_status st;

  if (!PyArg_ParseTuple(args, "sO!|O", &name, state->function_type, &getter, &setter))
    return NULL;
  rush_function *set =
    PyObject_TypeCheck(setter, state->function_type) ? ((py_function *)setter)->function : NULL;
  WITHOUT_GIL(st = rush_class_add_property(t->unit->unit, t->type, name,
                                           ((py_function *)getter)->function, set, &err));
  return py_done(t->unit->state, st, &err);
}
static PyObject *class_add_hook(PyObject *self, PyObject *args)
{
  py_type *t = (py_type *)self;
  rush_error err = RUSH_ERROR_INIT;
  PyObject *f;
  rush_status st;
  int pre;

  if (!PyArg_ParseTuple(args, "O!p", t->unit->state->function_type, &f, &pre))
    return NULL;
  WITHOUT_GIL(
    st = rush_class_add_hook(t->unit->unit, t->type, ((py_function *)f)->function, pre, &err));
  return py_done(t->unit->state, st, &err);
}
static PyObject *class_complete(PyObject *self, PyObject *unused)
{
  py_type *t = (py_type *)self;
  rush_error err = RUSH_ERROR_INIT;
  rush_status st;

  (void)unused;
  WITHOUT_GIL(st = rush_class_complete(t->type, &err));
  return py_done(t->unit->state, st, &err);
}
static PyObject *class_forget(PyObject *self, PyObject *unused)
{
  py_type *t = (py_type *)self;

  (void)unused;
  WITHOUT_GIL(rush_unit_forget_class(t->unit->unit, t->type));
  Py_RETURN_NONE;
}
static PyObject *class_create(PyObject *self, PyObject *unused)
{
  py_type *t = (py_type *)self;
  rush_error err = RUSH_ERROR_INIT;
  rush_value v;

  (void)unused;
  if (rush_object_create(t->unit->state->context, t->type, &v, &err) != RUSH_OK)
    return py_raise(t->unit->state, &err);
  PyObject *o = py_value_wrap(t->unit->state, t->unit->state->object_type, v);
  rush_value_release(v);
  return o;
}

static PyObject *type_short_name(PyObject *self, PyObject *unused);
static PyObject *type_qualified_name(PyObject *self, PyObject *unused);
static PyMethodDef type_methods[] = {
  {"isSubtypeOf", type_is_subtype, METH_O, "is every value of this type one of the other?"},
  {"method", type_method, METH_O, "a class's method as a Function, or None"},
  {"hooks", type_hooks, METH_O, "hooks(pre): Functions that run before (else behind) forward"},
  {"add_attr", class_add_attr, METH_VARARGS,
   "add_attr(name, type, flags=0): 1 parameter, 2 buffer"},
  {"add_constant", class_add_constant, METH_VARARGS, "add_constant(name, value, type=None)"},
  {"add_member", class_add_member, METH_VARARGS, "add_member(name, value): of an enum"},
  {"add_field", class_add_field, METH_VARARGS,
   "add_field(name, type[, (default,)]): of a NamedTuple"},
  {"add_property", class_add_property, METH_VARARGS, "add_property(name, getter, setter=None)"},
  {"add_hook", class_add_hook, METH_VARARGS, "add_hook(function, pre)"},
  {"complete", class_complete, METH_NOARGS, "compile a script class's __init__"},
  {"forget", class_forget, METH_NOARGS, "its name finds nothing from now on"},
  {"name", type_short_name, METH_NOARGS, "a class's name"},
  {"qualified_name", type_qualified_name, METH_NOARGS, "a class's qualified name"},
  {"create", class_create, METH_NOARGS, "an object without attributes yet"},
  {NULL, NULL, 0, NULL}};
/* torch's names for the same: ClassType.name(), qualified_name(), str(). */
static PyObject *type_short_name(PyObject *self, PyObject *unused)
{
  const char *name = rush_type_name(((py_type *)self)->type),
             *dot = name ? strrchr(name, '.') : NULL;

  (void)unused;
  return name ? PyUnicode_FromString(dot ? dot + 1 : name) : Py_NewRef(Py_None);
}
static PyObject *type_qualified_name(PyObject *self, PyObject *unused)
{
  const char *name = rush_type_name(((py_type *)self)->type);

  (void)unused;
  return name ? PyUnicode_FromString(name) : Py_NewRef(Py_None);
}
static PyGetSetDef type_getset[] = {
    {"annotation_str", type_annotation, NULL, "as an annotation writes it", NULL},
    {"kind_number", type_kind, NULL, "rush_type_kind", NULL},
    {"qualified", type_name, NULL, "a class's qualified name, or None", NULL},
    {"elems", type_elems, NULL, "types of elements", NULL},
    {"fields", type_fields, NULL, "a NamedTuple's names", NULL},
    {"attrs", type_attrs, NULL, "a class's attributes: [(name, Type, flags)]", NULL},
    {"methods", type_method_names, NULL, "names of a class's methods", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot type_slots[] = {{Py_tp_dealloc, type_dealloc},
                                   {Py_tp_str, type_str},
                                   {Py_tp_repr, type_str},
                                   {Py_tp_hash, type_hash},
                                   {Py_tp_richcompare, type_compare},
                                   {Py_tp_methods, type_methods},
                                   {Py_tp_getset, type_getset},
                                   {Py_tp_doc, "A type of programs; a class can be added to."},
                                   {0, NULL}};
PyType_Spec py_type_spec = {"rushlight.Type", sizeof(py_type), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, type_slots};
