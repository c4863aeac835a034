/* _rushlight/object.c -- the Python types of script objects and enum members: attributes, calls,
 * comparison, hashing. An object is a handle to the library's value, so that Python and programs
 * share state; comparison and hash are by identity of that value. Python's own lookup comes first,
 * then the value's attributes and methods. */
#include "py.h"

#include <string.h>

static void object_dealloc(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);

  rush_value_release(((py_object *)self)->value);
  type->tp_free(self);
  Py_DECREF(type);
}
static PyObject *object_repr(PyObject *self)
{
  py_object *o = (py_object *)self;
  rush_error err = RUSH_ERROR_INIT;
  char *text;

  if (rush_value_to_text(o->state->context, o->value, true, &text, &err) != RUSH_OK)
    return py_raise(o->state, &err);
  return py_text_steal(o->state, text);
}
static PyObject *object_getattro(PyObject *self, PyObject *name)
{
  PyObject *found = PyObject_GenericGetAttr(self, name);
  py_object *o = (py_object *)self;
  const char *text = found ? NULL : PyUnicode_AsUTF8(name);
  rush_value v = rush_value_none();

  if (found || !text || !PyErr_ExceptionMatches(PyExc_AttributeError))
    return found;
  py_call call = {.state = o->state};
  if (o->value.tag == RUSH_TAG_ENUM) {
    const char *member = rush_enum_name(o->value, &v);
    PyErr_Clear();
    if (strcmp(text, "name") == 0)
      return PyUnicode_FromString(member);
    if (strcmp(text, "value") == 0)
      return py_from_value(&call, v);
    PyErr_SetObject(PyExc_AttributeError, name);
    return NULL;
  }
  v = py_unlocked_object_attr(o->value, text);
  if (v.tag == RUSH_TAG_UNSET) {
    if (!rush_object_has_method(o->value, text))
      return NULL;
    PyErr_Clear();
    return py_method_new(o->state, self, text);
  }
  PyErr_Clear();
  found = py_from_value(&call, v);
  rush_value_release(v);
  return found;
}
static int object_setattro(PyObject *self, PyObject *name, PyObject *o)
{
  return py_set_attr(((py_object *)self)->state, ((py_object *)self)->value, name, o);
}
static PyObject *object_compare(PyObject *a, PyObject *b, int op)
{
  if ((op != Py_EQ && op != Py_NE) || Py_TYPE(a) != Py_TYPE(b))
    Py_RETURN_NOTIMPLEMENTED;
  bool same = ((py_object *)a)->value.as.heap == ((py_object *)b)->value.as.heap;
  return PyBool_FromLong(same == (op == Py_EQ));
}
static Py_hash_t object_hash(PyObject *self)
{
  return _Py_HashPointer(((py_object *)self)->value.as.heap);
}
static PyObject *object_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
  py_object *o = (py_object *)self;

  if (!rush_object_has_method(o->value, "forward"))
    return PyErr_Format(PyExc_TypeError, "this object has no forward() to call");
  PyObject *forward = py_method_new(o->state, self, "forward");
  PyObject *out = forward ? PyObject_Call(forward, args, kwargs) : NULL;
  Py_XDECREF(forward);
  return out;
}
static PyType_Slot object_slots[] = {
  {Py_tp_call, object_call},         {Py_tp_dealloc, object_dealloc},
  {Py_tp_repr, object_repr},         {Py_tp_getattro, object_getattro},
  {Py_tp_setattro, object_setattro}, {Py_tp_richcompare, object_compare},
  {Py_tp_hash, object_hash},         {0, NULL}};
static PyType_Spec object_spec = {"rushlight.ScriptObject", sizeof(py_object), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  object_slots};
static PyType_Spec enum_spec = {"rushlight.EnumValue", sizeof(py_object), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                object_slots};

int py_add_object_types(PyObject *m, py_state *st)
{
  st->object_type = py_add_type(m, &object_spec);
  st->enum_type = py_add_type(m, &enum_spec);
  return st->object_type && st->enum_type ? 0 : -1;
}
