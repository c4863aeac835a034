/* ir_type.c -- types as Python objects.  Their classes (ListType ...) are written in Python:
 * rushlight/ir.py registers one for each kind. */
#include "ir.h"

#define T(o) ((const rush_type *)((py_ir *)(o))->p)

PyObject *py_type_steal(py_state *st, const rush_type *t)
{
  if (!t)
    return PyErr_NoMemory();
  if (py_need_part(st, PY_PART_IR) < 0) {
    st->api->type_release(t);
    return NULL;
  }
  PyObject *cls =
    st->type_classes ? PyDict_GetItemString(st->type_classes, st->api->type_kind(t)) : NULL;
  PyTypeObject *type = cls ? (PyTypeObject *)cls : st->ir_types[PY_TYPE];
  py_ir *o = (py_ir *)type->tp_alloc(type, 0);

  if (!o) {
    st->api->type_release(t);
    return NULL;
  }
  o->state = st;
  o->p = t;
  return (PyObject *)o;
}

static void type_dealloc(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);

  if (((py_ir *)self)->state)
    ((py_ir *)self)->state->api->type_release(T(self));
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject *text(PyObject *self, bool annotation)
{
  py_state *st = ((py_ir *)self)->state;
  rush_error err = RUSH_ERROR_INIT;
  char *s;

  if (st->api->type_text(st->context, T(self), annotation, &s, &err) != RUSH_OK)
    return py_raise(st, &err);
  return py_text_steal(st, s);
}

static PyObject *type_repr(PyObject *self) { return text(self, true); }
static PyObject *type_str(PyObject *self, PyObject *unused)
{
  (void)unused;
  return text(self, false);
}
static PyObject *type_annotation(PyObject *self, void *unused)
{
  (void)unused;
  return text(self, true);
}

static PyObject *type_kind(PyObject *self, PyObject *unused)
{
  (void)unused;
  return PyUnicode_FromString(((py_ir *)self)->state->api->type_kind(T(self)));
}

static PyObject *type_elems(PyObject *self, PyObject *unused)
{
  py_state *st = ((py_ir *)self)->state;
  PyObject *list = PyList_New(0);

  (void)unused;
  for (size_t i = 0; list && i < st->api->type_n_elems(T(self)); i++) {
    if (py_append_steal(list, py_type_steal(st, st->api->type_elem(T(self), i))) < 0)
      Py_CLEAR(list);
  }
  return list;
}

static PyObject *type_fields(PyObject *self, PyObject *unused)
{
  py_state *st = ((py_ir *)self)->state;
  PyObject *list = PyList_New(0);
  const char *name;

  (void)unused;
  for (size_t i = 0; list && (name = st->api->type_field(T(self), i)); i++) {
    if (py_append_steal(list, PyUnicode_FromString(name)) < 0)
      Py_CLEAR(list);
  }
  return list;
}

static PyObject *type_name(PyObject *self, PyObject *unused)
{
  const char *name = ((py_ir *)self)->state->api->type_name(T(self));

  (void)unused;
  if (!name)
    Py_RETURN_NONE;
  return PyUnicode_FromString(name);
}

static PyObject *type_is_subtype(PyObject *self, PyObject *other)
{
  py_state *st = ((py_ir *)self)->state;

  if (!PyObject_TypeCheck(other, st->ir_types[PY_TYPE]))
    return PyErr_Format(PyExc_TypeError, "expected a Type, not %s", Py_TYPE(other)->tp_name);
  return PyBool_FromLong(st->api->type_is_subtype(T(self), T(other)));
}

static PyObject *type_compare(PyObject *a, PyObject *b, int op)
{
  py_state *st = ((py_ir *)a)->state;

  if ((op != Py_EQ && op != Py_NE) || !PyObject_TypeCheck(b, st->ir_types[PY_TYPE]))
    Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong(st->api->type_equal(T(a), T(b)) == (op == Py_EQ));
}

static Py_hash_t type_hash(PyObject *self)
{
  PyObject *s = text(self, true);
  Py_hash_t h = s ? PyObject_Hash(s) : -1;

  Py_XDECREF(s);
  return h;
}

static PyMethodDef type_methods[] = {
    {"str", type_str, METH_NOARGS, "as graphs print it"},
    {"kind", type_kind, METH_NOARGS, "'TensorType', 'ListType' ..."},
    {"containedTypes", type_elems, METH_NOARGS, "the types of elements"},
    {"_fields", type_fields, METH_NOARGS, "names of a NamedTuple's fields"},
    {"_name", type_name, METH_NOARGS, "the qualified name, or None"},
    {"isSubtypeOf", type_is_subtype, METH_O, "is every value of this type one of the other?"},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef type_getset[] = {
  {"annotation_str", type_annotation, NULL, "as Python annotates it: List[int]", NULL},
  {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, type_dealloc},         {Py_tp_repr, type_repr},
                              {Py_tp_richcompare, type_compare},     {Py_tp_hash, type_hash},
                              {Py_tp_methods, type_methods},         {Py_tp_getset, type_getset},
                              {Py_tp_doc, "A type of TorchScript."}, {0, NULL}};
static PyType_Spec spec = {
  "rushlight.GraphType", sizeof(py_ir), 0,
  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

/* -- The module's functions -------------------------------------------------------------------- */

PyObject *py_register_types(PyObject *m, PyObject *classes)
{
  py_state *st = PyModule_GetState(m);

  if (!PyDict_Check(classes))
    return PyErr_Format(PyExc_TypeError, "a dict of classes by kind");
  Py_XSETREF(st->type_classes, Py_NewRef(classes));
  Py_RETURN_NONE;
}

PyObject *py_parse_type(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  PyObject *scope = Py_None;
  const rush_type *t;
  const char *s;

  if (!PyArg_ParseTuple(args, "s|O:parse_type", &s, &scope))
    return NULL;
  if (scope != Py_None && !PyObject_TypeCheck(scope, st->ir_types[PY_GRAPH]))
    return PyErr_Format(PyExc_TypeError, "scope is a Graph");
  if (st->api->type_parse(st->context, s, scope == Py_None ? NULL : ((py_ir *)scope)->p, &t,
                          &err) != RUSH_OK)
    return py_raise(st, &err);
  return py_type_steal(st, t);
}

/* make_type(kind, elements) */
PyObject *py_make_type(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  const rush_type *elems[64], *t;
  const char *kind;
  PyObject *list;

  if (!PyArg_ParseTuple(args, "sO!:make_type", &kind, &PyList_Type, &list))
    return NULL;
  Py_ssize_t n = PyList_GET_SIZE(list);
  if (n > 64)
    return PyErr_Format(PyExc_ValueError, "at most 64 elements");
  for (Py_ssize_t i = 0; i < n; i++) {
    if (!PyObject_TypeCheck(PyList_GET_ITEM(list, i), st->ir_types[PY_TYPE]))
      return PyErr_Format(PyExc_TypeError, "expected a Type, not %s",
                          Py_TYPE(PyList_GET_ITEM(list, i))->tp_name);
    elems[i] = T(PyList_GET_ITEM(list, i));
  }
  if (st->api->type_make(st->context, kind, elems, (size_t)n, &t, &err) != RUSH_OK)
    return py_raise(st, &err);
  return py_type_steal(st, t);
}

/* -- Facts about tensors ----------------------------------------------------------------------- */

/* Return numbers as a list, `unknown` as None. */
static PyObject *numbers(const int64_t *v, int n, int64_t unknown)
{
  PyObject *list = PyList_New(0);

  for (int i = 0; list && i < n; i++) {
    PyObject *item = v[i] == unknown ? Py_NewRef(Py_None) : PyLong_FromLongLong(v[i]);
    if (py_append_steal(list, item) < 0)
      Py_CLEAR(list);
  }
  return list;
}

static PyObject *device_text(py_state *st, int kind, int index)
{
  rush_error err = RUSH_ERROR_INIT;
  char *s;

  if (kind < 0)
    Py_RETURN_NONE;
  if (st->api->value_text(st->context, st->api->device_make(kind, index), false, &s, &err) !=
      RUSH_OK)
    return py_raise(st, &err);
  return py_text_steal(st, s);
}

/* type_facts(type): (dtype's name, sizes, strides, device's text, requires_grad, defined,
 * contiguous), each None or, of the last three, -1 if it is unknown */
PyObject *py_type_facts(PyObject *m, PyObject *type)
{
  py_state *st = PyModule_GetState(m);
  rush_type_facts f;

  if (!PyObject_TypeCheck(type, st->ir_types[PY_TYPE]))
    return PyErr_Format(PyExc_TypeError, "expected a Type, not %s", Py_TYPE(type)->tp_name);
  st->api->type_facts(T(type), &f);
  PyObject *sizes = f.n_dims < 0 ? Py_NewRef(Py_None) : numbers(f.sizes, f.n_dims, -1);
  PyObject *strides =
    f.n_dims < 0 ? Py_NewRef(Py_None) : numbers(f.strides, f.n_dims, RUSH_STRIDE_UNKNOWN);
  PyObject *device = device_text(st, f.device_kind, f.device_index);

  if (!sizes || !strides || !device) {
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    Py_XDECREF(device);
    return NULL;
  }
  return Py_BuildValue("(zNNNiii)", f.dtype < 0 ? NULL : rush_dtype_name((rush_dtype)f.dtype),
                       sizes, strides, device, f.requires_grad, f.defined, f.contiguous);
}

/* Read a list of numbers or None; returns how many, -1 with an exception set. */
static int read_numbers(PyObject *list, int64_t *out, int64_t unknown)
{
  const Py_ssize_t n = PySequence_Size(list);

  if (n > RUSH_TYPE_DIMS)
    PyErr_Format(PyExc_ValueError, "facts are kept of at most %d dimensions, not %zd",
                 RUSH_TYPE_DIMS, n);
  for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) {
    PyObject *item = PySequence_GetItem(list, i);
    out[i] = item == Py_None ? unknown : item ? PyLong_AsLongLong(item) : -1;
    Py_XDECREF(item);
  }
  return PyErr_Occurred() ? -1 : (int)n;
}

static int read_device(py_state *st, const char *name, rush_type_facts *f)
{
  const size_t n = strcspn(name, ":");

  for (int kind = 0; kind < 32; kind++) {
    PyObject *text = device_text(st, kind, -1);
    const char *known = text ? PyUnicode_AsUTF8(text) : NULL;
    const bool same = known && strlen(known) == n && strncmp(known, name, n) == 0;
    Py_XDECREF(text);
    if (!known)
      PyErr_Clear();
    if (same) {
      f->device_kind = kind;
      f->device_index = name[n] ? atoi(name + n + 1) : -1;
      return 0;
    }
  }
  PyErr_Format(PyExc_ValueError, "no device is called '%s'", name);
  return -1;
}

static int read_dtype(const char *name, rush_type_facts *f)
{
  for (int d = 0; d < 64; d++) {
    const char *known = rush_dtype_name((rush_dtype)d);
    if (known && strcmp(known, name) == 0) {
      f->dtype = d;
      return 0;
    }
  }
  PyErr_Format(PyExc_ValueError, "no dtype is called '%s'", name);
  return -1;
}

/* type_of_facts(facts): the inverse of type_facts */
PyObject *py_type_of_facts(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  rush_type_facts f = {.dtype = -1, .n_dims = -1, .device_kind = -1, .device_index = -1};
  const rush_type *t;
  const char *dtype, *device;
  PyObject *sizes, *strides;

  if (!PyArg_ParseTuple(args, "zOOziii:type_of_facts", &dtype, &sizes, &strides, &device,
                        &f.requires_grad, &f.defined, &f.contiguous) ||
      (dtype && read_dtype(dtype, &f) < 0) || (device && read_device(st, device, &f) < 0))
    return NULL;
  if (sizes != Py_None) {
    if ((f.n_dims = read_numbers(sizes, f.sizes, -1)) < 0)
      return NULL;
    if (read_numbers(strides, f.strides, RUSH_STRIDE_UNKNOWN) != f.n_dims)
      return PyErr_Occurred() ? NULL
                              : PyErr_Format(PyExc_ValueError, "expected as many strides as sizes");
  }
  if (st->api->type_of_facts(st->context, &f, &t, &err) != RUSH_OK)
    return py_raise(st, &err);
  return py_type_steal(st, t);
}

PyObject *py_unify_types(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  const rush_type *t;
  PyObject *a, *b;
  int to_union = 0;

  if (!PyArg_ParseTuple(args, "O!O!|p:unify_types", st->ir_types[PY_TYPE], &a,
                        st->ir_types[PY_TYPE], &b, &to_union))
    return NULL;
  if (st->api->type_unify(st->context, T(a), T(b), to_union, &t, &err) != RUSH_OK)
    return py_raise(st, &err);
  if (!t)
    Py_RETURN_NONE;
  return py_type_steal(st, t);
}

int py_add_type_types(PyObject *m, py_state *st)
{
  return (st->ir_types[PY_TYPE] = py_add_type(m, &spec)) ? 0 : -1;
}
