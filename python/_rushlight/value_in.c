/* value_in.c -- converts Python objects to values: by the object's own kind, or to a given type
 * with PyTorch's conversions.
 *
 * One function per container serves both: with a type, the items are converted to its element
 * types, and a misfit is an answer (1), because other types or overloads may fit; without one,
 * every failure is an exception.  The type decides, not the object, where there is one: an empty
 * list or a number fits several.  Tensors are converted in tensor_in.c.  Cost: O(items). */
#include "script.h"

#include <string.h>

#define MAX_NESTING 100

static int by_kind(py_call *call, PyObject *o, int depth, rush_value *out);
static int list_as(py_call *call, PyObject *o, const rush_type *t, int depth, rush_value *out);
static int tuple_as(py_call *call, PyObject *o, const rush_type *t, int depth, rush_value *out);
static int dict_as(py_call *call, PyObject *o, const rush_type *t, int depth, rush_value *out);
static int complex_as(py_call *call, PyObject *o, rush_value *out);

/* -- By kind ----------------------------------------------------------------------------------- */

static int long_to_value(PyObject *o, rush_value *out)
{
  int overflow;
  long long i = PyLong_AsLongLongAndOverflow(o, &overflow);

  if (overflow) {
    PyErr_SetString(PyExc_OverflowError, "int does not fit in 64 bits");
    return -1;
  }
  if (i == -1 && PyErr_Occurred())
    return -1;
  *out = rush_value_int(i);
  return 0;
}

static int text_to_value(py_call *call, PyObject *o, rush_value *out)
{
  rush_error err = RUSH_ERROR_INIT;
  Py_ssize_t n;
  const char *text = PyUnicode_AsUTF8AndSize(o, &n);

  if (!text)
    return -1;
  if (rush_string_create(call->state->context, text, (size_t)n, out, &err) != RUSH_OK) {
    py_raise(call->state, &err);
    return -1;
  }
  return 0;
}

/* By PyTorch's numbers. */
static const char *const device_names[] = {
  "cpu",    "cuda",  "mkldnn", "opengl", "opencl", "ideep", "hip", "fpga", "maia", "xla",
  "vulkan", "metal", "xpu",    "mps",    "meta",   "hpu",   "ve",  "lazy", "ipu",  "mtia"};

const char *py_device_name(size_t kind)
{
  return kind < sizeof device_names / sizeof *device_names ? device_names[kind] : "privateuseone";
}

/* Convert a device of torch's: "cpu", "cpu:0". */
static int device_to_value(PyObject *o, rush_value *out)
{
  PyObject *type = PyObject_GetAttrString(o, "type");
  PyObject *index = type ? PyObject_GetAttrString(o, "index") : NULL;
  int64_t kind = type && PyUnicode_Check(type) ? -1 : 1;

  for (size_t i = 0; kind < 0 && i < sizeof device_names / sizeof *device_names; i++)
    if (PyUnicode_CompareWithASCIIString(type, device_names[i]) == 0)
      kind = (int64_t)i;
  long at = index && PyLong_Check(index) ? PyLong_AsLong(index) : -1;
  PyErr_Clear();
  *out = rush_value_none();
  out->tag = RUSH_TAG_DEVICE;
  out->as.i = (kind < 0 ? 1 : kind) << 32 | (uint32_t)(int32_t)at;
  Py_XDECREF(type);
  Py_XDECREF(index);
  return 0;
}

static int other_to_value(py_call *call, PyObject *o, int depth, rush_value *out)
{
  py_state *st = call->state;

  if (PyObject_TypeCheck(o, st->module_type) && ((py_module *)o)->module) {
    *out = rush_value_retain(rush_module_value(((py_module *)o)->module));
    return 0;
  }
  if (py_find_torch(st)) {
    int is = PyObject_IsInstance(o, st->torch_tensor);
    if (is)
      return is < 0 ? -1 : py_torch_to_value(call, o, out);
    PyObject *number = PyDict_GetItemWithError(st->torch_names, o);
    if (number)
      return long_to_value(number, out);
    PyErr_Clear(); /* not hashable: no dtype or such */
  }
  const char *type = Py_TYPE(o)->tp_name;
  if (strcmp(type, "torch.device") == 0)
    return device_to_value(o, out);
  if (PyObject_CheckBuffer(o) && !PyBytes_Check(o))
    return py_buffer_to_value(call, o, out);
  if (PyObject_HasAttrString(o, "__dlpack__"))
    return py_from_dlpack(call, o, out);
  if (PyIndex_Check(o)) {
    PyObject *i = PyNumber_Index(o);
    int result = i ? long_to_value(i, out) : -1;
    Py_XDECREF(i);
    return result;
  }
  if (PyMapping_Check(o) && PyObject_HasAttrString(o, "items"))
    return dict_as(call, o, NULL, depth, out);
  if (PyType_Check(o) || strncmp(type, "numpy.dtype", 11) == 0) {
    const int dtype = py_dtype_of(st, o);
    *out = rush_value_int(dtype);
    return dtype < 0 ? -1 : 0;
  }
  PyErr_Format(PyExc_TypeError, "a value of type '%s' cannot be passed to a program", type);
  return -1;
}

/* Convert by the object's own kind; the `depth` containers around it count. */
static int by_kind(py_call *call, PyObject *o, int depth, rush_value *out)
{
  py_state *st = call->state;

  if (depth > MAX_NESTING) {
    PyErr_SetString(PyExc_ValueError, "values are nested too deeply");
    return -1;
  }
  if (o == Py_None)
    *out = rush_value_none();
  else if (PyBool_Check(o))
    *out = rush_value_bool(o == Py_True);
  else if (PyLong_CheckExact(o))
    return long_to_value(o, out);
  else if (PyFloat_Check(o))
    *out = rush_value_float(PyFloat_AS_DOUBLE(o));
  else if (PyUnicode_Check(o))
    return text_to_value(call, o, out);
  else if (Py_IS_TYPE(o, st->tensor_type)) {
    *out = rush_value_retain(((py_tensor *)o)->value);
    call->saw_ours = true;
    return py_remember(call, *out, o);
  } else if (Py_IS_TYPE(o, st->dtype_type))
    return long_to_value(PyTuple_GET_ITEM(o, 1), out);
  else if (Py_IS_TYPE(o, st->object_type) || Py_IS_TYPE(o, st->enum_type))
    *out = rush_value_retain(((py_object *)o)->value);
  else if (PyObject_TypeCheck(o, st->module_type))
    *out = rush_value_retain(rush_module_value(((py_module *)o)->module));
  else if (PyList_Check(o) || PyTuple_Check(o))
    return PyTuple_Check(o) ? tuple_as(call, o, NULL, depth, out)
                            : list_as(call, o, NULL, depth, out);
  else if (PyDict_Check(o))
    return dict_as(call, o, NULL, depth, out);
  else if (PyComplex_Check(o))
    return complex_as(call, o, out);
  else
    return other_to_value(call, o, depth, out);
  return 0;
}

int py_to_value(py_call *call, PyObject *o, rush_value *out) { return by_kind(call, o, 0, out); }

/* -- By type: numbers -------------------------------------------------------------------------- */

static int number_as(PyObject *o, rush_type_kind kind, rush_value *out)
{
  PyObject *n = PyNumber_Check(o) && !PyUnicode_Check(o)
                  ? (kind == RUSH_TYPE_FLOAT ? PyNumber_Float(o) : PyNumber_Long(o))
                  : NULL;

  if (!n) {
    PyErr_Clear();
    return 1;
  }
  if (kind == RUSH_TYPE_FLOAT)
    *out = rush_value_float(PyFloat_AS_DOUBLE(n));
  else {
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow(n, &overflow);
    if (overflow) {
      Py_DECREF(n);
      return 1;
    }
    *out = rush_value_int(i);
  }
  Py_DECREF(n);
  return 0;
}

static int plain_as(py_call *call, PyObject *o, rush_value *out, rush_tag wanted)
{
  rush_value made;

  if (py_to_value(call, o, &made) < 0) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_OverflowError)) {
      PyErr_Clear();
      return 1;
    }
    return -1;
  }
  if (made.tag != (uint32_t)wanted) {
    rush_value_release(made);
    return 1;
  }
  *out = made;
  return 0;
}

static bool is_tensor(py_call *call, PyObject *o)
{
  py_state *st = call->state;

  if (Py_IS_TYPE(o, st->tensor_type))
    return true;
  int is = py_find_torch(st) ? PyObject_IsInstance(o, st->torch_tensor) : 0;
  if (is < 0)
    PyErr_Clear();
  return is == 1;
}

static int int_as(py_call *call, PyObject *o, rush_value *out)
{
  if (PyLong_Check(o)) {
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
    *out = rush_value_int(i);
    return overflow ? 1 : 0;
  }
  if (PyFloat_Check(o) || PyComplex_Check(o) || PyUnicode_Check(o))
    return 1;
  if (is_tensor(call, o)) /* of one element */
    return number_as(o, RUSH_TYPE_INT, out);
  if (PyIndex_Check(o))
    return number_as(o, RUSH_TYPE_INT, out);
  return plain_as(call, o, out, RUSH_TAG_INT); /* dtypes, layouts */
}

static int number_any(py_call *call, PyObject *o, rush_value *out)
{
  if (is_tensor(call, o)) {
    PyObject *item = PyObject_CallMethod(o, "item", NULL);
    int result = item ? number_any(call, item, out) : 1;
    PyErr_Clear();
    Py_XDECREF(item);
    return result;
  }
  if (!PyNumber_Check(o))
    return 1;
  if (py_to_value(call, o, out) < 0)
    return -1;
  if (out->tag == RUSH_TAG_INT || out->tag == RUSH_TAG_FLOAT || out->tag == RUSH_TAG_BOOL ||
      out->tag == RUSH_TAG_COMPLEX)
    return 0;
  rush_value_release(*out);
  return 1;
}

/* -- Containers -------------------------------------------------------------------------------- */

static void release_items(rush_value *v, Py_ssize_t n)
{
  for (Py_ssize_t i = 0; i < n; i++)
    rush_value_release(v[i]);
  PyMem_Free(v);
}

/* Convert an item of a container to element `i` of its type; t NULL: by its kind. */
static int item_as(py_call *call, PyObject *o, const rush_type *t, size_t i, int depth,
                   rush_value *out)
{
  return t ? py_to_value_as(call, o, rush_type_elem(t, i), out) : by_kind(call, o, depth + 1, out);
}

/* Convert a constructed container to the exact type (an empty one does not show its element
 * type). */
static int convert_steal(py_call *call, const rush_type *t, rush_value made, rush_value *out)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_status st = rush_type_convert(call->state->context, t, made, out, &err);

  rush_value_release(made);
  rush_error_clear(&err);
  return st == RUSH_OK ? 0 : 1;
}

/* Convert the items of any iterable, all to one element type, or a tuple's one by one. */
static int items_as(py_call *call, PyObject *o, const rush_type *t, bool is_tuple, int depth,
                    rush_value **items, Py_ssize_t *n)
{
  PyObject *fast =
    t && (PyUnicode_Check(o) || (is_tensor(call, o) && !is_tuple)) ? NULL : PySequence_Fast(o, "");
  int result = 0;

  if (!fast) {
    PyErr_Clear();
    return 1;
  }
  Py_ssize_t size = PySequence_Fast_GET_SIZE(fast), done = 0;
  if (t && is_tuple && (size_t)size != rush_type_n_elems(t)) {
    Py_DECREF(fast);
    return 1;
  }
  *items = PyMem_Calloc((size_t)size + 1, sizeof(**items));
  if (!*items) {
    Py_DECREF(fast);
    PyErr_NoMemory();
    return -1;
  }
  for (; done < size && result == 0; done += result == 0)
    result = item_as(call, PySequence_Fast_GET_ITEM(fast, done), t, is_tuple ? (size_t)done : 0,
                     depth, &(*items)[done]);
  Py_DECREF(fast);
  if (result != 0)
    release_items(*items, done);
  *n = size;
  return result;
}

/* Return the container of a ScriptList or ScriptDict itself, if its type is the required one. */
static int held_as(py_call *call, PyObject *o, const rush_type *t, rush_tag tag, rush_value *out)
{
  PyObject *inner = PyList_CheckExact(o) || PyTuple_CheckExact(o) || PyDict_CheckExact(o)
                      ? NULL
                      : PyObject_GetAttrString(o, "_c");
  int result = 1;

  if (inner && PyObject_TypeCheck(inner, call->state->object_type) &&
      ((py_object *)inner)->value.tag == (uint32_t)tag)
    result = convert_steal(call, t, rush_value_retain(((py_object *)inner)->value), out);
  PyErr_Clear();
  Py_XDECREF(inner);
  return result;
}

static int list_as(py_call *call, PyObject *o, const rush_type *t, int depth, rush_value *out)
{
  if (t && held_as(call, o, t, RUSH_TAG_LIST, out) == 0)
    return 0;
  rush_error err = RUSH_ERROR_INIT;
  rush_value *items, made;
  Py_ssize_t n;
  int result = items_as(call, o, t, false, depth, &items, &n);

  if (result != 0)
    return result;
  rush_status st =
    rush_list_create(call->state->context, items, (size_t)n, t ? &made : out, &err);
  release_items(items, n);
  if (st != RUSH_OK) {
    py_raise(call->state, &err);
    return -1;
  }
  return t ? convert_steal(call, t, made, out) : 0;
}

static int tuple_as(py_call *call, PyObject *o, const rush_type *t, int depth, rush_value *out)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value *items;
  Py_ssize_t n;
  int result = PyDict_Check(o) ? 1 : items_as(call, o, t, true, depth, &items, &n);

  if (result != 0)
    return result;
  rush_status st = t && rush_type_name(t)
                     ? rush_named_tuple_create(call->state->context, t, items, (size_t)n, out, &err)
                     : rush_tuple_create(call->state->context, items, (size_t)n, out, &err);
  release_items(items, n);
  if (st != RUSH_OK) {
    py_raise(call->state, &err);
    return -1;
  }
  return 0;
}

/* Convert the items of a mapping: the n keys in front of their values. */
static int pairs_as(py_call *call, PyObject *o, const rush_type *t, int depth, rush_value **kv,
                    Py_ssize_t *n)
{
  PyObject *items =
    !t || (PyMapping_Check(o) && PyObject_HasAttrString(o, "items")) ? PyMapping_Items(o) : NULL;
  int result = 0;

  if (!items) {
    if (!t)
      return -1;
    PyErr_Clear();
    return 1;
  }
  *n = PyList_GET_SIZE(items);
  *kv = PyMem_Calloc(2 * (size_t)*n + 1, sizeof **kv); /* slots that are not reached are None */
  if (!*kv) {
    Py_DECREF(items);
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < *n && result == 0; i++) {
    PyObject *pair = PyList_GET_ITEM(items, i);
    for (int j = 0; j < 2 && result == 0; j++) {
      rush_value one;
      if ((result = item_as(call, PyTuple_GET_ITEM(pair, j), t, (size_t)j, depth, &one)) == 0)
        (*kv)[j * *n + i] = one;
    }
  }
  Py_DECREF(items);
  if (result != 0)
    release_items(*kv, 2 * *n);
  return result;
}

static int dict_as(py_call *call, PyObject *o, const rush_type *t, int depth, rush_value *out)
{
  if (t && held_as(call, o, t, RUSH_TAG_DICT, out) == 0)
    return 0;
  rush_error err = RUSH_ERROR_INIT;
  rush_value *kv, made;
  Py_ssize_t n;
  int result = pairs_as(call, o, t, depth, &kv, &n);

  if (result != 0)
    return result;
  rush_status st =
    rush_dict_create(call->state->context, kv, kv + n, (size_t)n, t ? &made : out, &err);
  release_items(kv, 2 * n);
  if (st != RUSH_OK) {
    py_raise(call->state, &err);
    return -1;
  }
  return t ? convert_steal(call, t, made, out) : 0;
}

/* -- Objects ----------------------------------------------------------------------------------- */

/* Return the Type that a Python class was registered with (borrowed), or NULL. */
static py_type *type_of_class(py_state *st, PyObject *cls)
{
  PyObject *t = st->class_types ? PyDict_GetItemWithError(st->class_types, cls) : NULL;

  PyErr_Clear();
  return (py_type *)t;
}

/* Convert an instance of the Python class behind a script class: its attributes are copied, as in
 * PyTorch. */
static int instance_as(py_call *call, PyObject *o, const rush_type *t, rush_value *out)
{
  rush_error err = RUSH_ERROR_INIT;
  const rush_type *attr_type;
  const char *name;
  rush_value object;

  if (rush_class_complete(t, &err) != RUSH_OK ||
      rush_object_create(call->state->context, t, &object, &err) != RUSH_OK) {
    py_raise(call->state, &err);
    return -1;
  }
  for (size_t i = 0; (name = rush_class_attr(t, i, &attr_type, NULL)) != NULL; i++) {
    PyObject *attr = PyObject_GetAttrString(o, name);
    rush_value v;
    int result = attr ? py_to_value_as(call, attr, attr_type, &v) : -1;
    Py_XDECREF(attr);
    if (result == 0) {
      if (py_unlocked_object_set_attr(call->state->context, object, name, v, &err) != RUSH_OK)
        result = 1;
      rush_error_clear(&err);
      rush_value_release(v);
    }
    if (result != 0) {
      rush_value_release(object);
      return result;
    }
  }
  *out = object;
  return 0;
}

/* Convert an object of a C++ class of torch's (torch.classes): ours of that name, made from its
 * state. */
static int custom_as(py_call *call, PyObject *o, const rush_type *t, rush_value *out)
{
  rush_error err = RUSH_ERROR_INIT;
  PyObject *method = PyObject_CallMethod(o, "_get_method", "s", "__getstate__");
  PyObject *state = method ? PyObject_CallNoArgs(method) : NULL;
  rush_value v;

  Py_XDECREF(method);
  if (!state)
    return -1;
  int result = py_to_value(call, state, &v);
  Py_DECREF(state);
  if (result < 0)
    return -1;
  if (rush_custom_create(call->state->context, rush_type_name(t), v, out, &err) != RUSH_OK) {
    py_raise(call->state, &err);
    result = -1;
  }
  rush_value_release(v);
  return result;
}

/* True if the type is the class `known`, or an archive's class of that name. */
static bool is_same_class(const py_type *known, const rush_type *t)
{
  return rush_type_is_subtype(known->type, t) ||
         (rush_type_name(t) && rush_type_name(known->type) &&
          strcmp(rush_type_name(known->type), rush_type_name(t)) == 0);
}

/* True if `cls` derives in Python from the class that t was compiled from.  As in PyTorch such an
 * object is converted to the base: its attributes, with the base's methods. */
static bool is_of_subclass(py_state *st, PyTypeObject *cls, const rush_type *t)
{
  if (rush_type_kind_of(t) != RUSH_TYPE_CLASS || !cls->tp_mro)
    return false;
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(cls->tp_mro); i++) {
    py_type *base = type_of_class(st, PyTuple_GET_ITEM(cls->tp_mro, i));
    if (base && is_same_class(base, t))
      return true;
  }
  return false;
}

static int object_as(py_call *call, PyObject *o, const rush_type *t, rush_value *out)
{
  py_state *st = call->state;

  if (Py_IS_TYPE(o, st->object_type) || PyObject_TypeCheck(o, st->object_type)) {
    rush_value v = ((py_object *)o)->value;
    if (v.tag == RUSH_TAG_CUSTOM && rush_value_class(v) &&
        strcmp(rush_value_class(v), rush_type_name(t)) == 0) {
      *out = rush_value_retain(v);
      return 0;
    }
    if (v.tag != RUSH_TAG_OBJECT || !rush_type_is_subtype(rush_object_type(v), t))
      return 1;
    *out = rush_value_retain(v);
    return 0;
  }
  if (PyObject_TypeCheck(o, st->module_type)) {
    rush_value v = rush_module_value(((py_module *)o)->module);
    if (!rush_type_is_subtype(rush_object_type(v), t))
      return 1;
    *out = rush_value_retain(v);
    return 0;
  }
  PyObject *inner = PyObject_GetAttrString(o, "_c"); /* what a wrapper in Python wraps */
  if (inner && inner != o &&
      (PyObject_TypeCheck(inner, st->object_type) || PyObject_TypeCheck(inner, st->module_type))) {
    int result = object_as(call, inner, t, out);
    Py_DECREF(inner);
    return result;
  }
  PyErr_Clear();
  Py_XDECREF(inner);
  py_type *known = type_of_class(st, (PyObject *)Py_TYPE(o));
  if (!known && strncmp(rush_type_name(t), "__torch__.torch.classes.", 24) == 0 &&
      strstr(Py_TYPE(o)->tp_name, "ScriptObject"))
    return custom_as(call, o, t, out);
  if (!known || !is_same_class(known, t))
    return is_of_subclass(st, Py_TYPE(o), t) ? instance_as(call, o, t, out) : 1;
  return instance_as(call, o, rush_type_kind_of(t) == RUSH_TYPE_CLASS ? t : known->type, out);
}

static int enum_as(py_call *call, PyObject *o, const rush_type *t, rush_value *out)
{
  py_state *st = call->state;
  py_type *known = type_of_class(st, (PyObject *)Py_TYPE(o));

  if (Py_IS_TYPE(o, st->enum_type)) {
    *out = rush_value_retain(((py_object *)o)->value);
    return 0;
  }
  if (!known || (t && !is_same_class(known, t)))
    return 1;
  PyObject *name = PyObject_GetAttrString(o, "name");
  const char *text = name ? PyUnicode_AsUTF8(name) : NULL;
  rush_value v = text ? rush_class_member(t ? t : known->type, text) : rush_value_none();
  PyErr_Clear();
  Py_XDECREF(name);
  if (v.tag != RUSH_TAG_ENUM)
    return 1;
  *out = rush_value_retain(v);
  return 0;
}

/* Convert to Any by the object's own type; registered classes and enums are converted to theirs. */
static int any_as(py_call *call, PyObject *o, rush_value *out)
{
  py_type *known = type_of_class(call->state, (PyObject *)Py_TYPE(o));

  if (known) {
    switch (rush_type_kind_of(known->type)) {
    case RUSH_TYPE_CLASS:
      return object_as(call, o, known->type, out);
    case RUSH_TYPE_ENUM:
      return enum_as(call, o, known->type, out);
    case RUSH_TYPE_TUPLE:
      return tuple_as(call, o, known->type, 0, out);
    default:
      break;
    }
  }
  if (py_to_value(call, o, out) == 0)
    return 0;
  if (!PyErr_ExceptionMatches(PyExc_TypeError))
    return -1;
  PyErr_Clear();
  return 1;
}

/* True if the object has the type's own kind, before any conversion. */
static bool is_exactly(py_call *call, PyObject *o, const rush_type *t)
{
  switch (rush_type_kind_of(t)) {
  case RUSH_TYPE_NONE:
    return o == Py_None;
  case RUSH_TYPE_BOOL:
    return PyBool_Check(o);
  case RUSH_TYPE_INT:
    return PyLong_Check(o) && !PyBool_Check(o);
  case RUSH_TYPE_FLOAT:
    return PyFloat_Check(o);
  case RUSH_TYPE_COMPLEX:
    return PyComplex_Check(o);
  case RUSH_TYPE_STRING:
    return PyUnicode_Check(o);
  case RUSH_TYPE_TENSOR:
    return is_tensor(call, o);
  case RUSH_TYPE_LIST:
    return PyList_Check(o) &&
           (!PyList_GET_SIZE(o) || is_exactly(call, PyList_GET_ITEM(o, 0), rush_type_elem(t, 0)));
  case RUSH_TYPE_DICT:
    return PyDict_Check(o);
  case RUSH_TYPE_TUPLE:
    if (!PyTuple_Check(o) || (size_t)PyTuple_GET_SIZE(o) != rush_type_n_elems(t))
      return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++)
      if (!is_exactly(call, PyTuple_GET_ITEM(o, i), rush_type_elem(t, (size_t)i)))
        return false;
    return true;
  case RUSH_TYPE_CLASS:
  case RUSH_TYPE_INTERFACE:
  case RUSH_TYPE_ENUM:
  case RUSH_TYPE_ANY:
  case RUSH_TYPE_DEVICE:
    return true; /* the conversion sets the error */
  case RUSH_TYPE_OPTIONAL:
    return o == Py_None || is_exactly(call, o, rush_type_elem(t, 0));
  default:
    return false;
  }
}

static int union_as(py_call *call, PyObject *o, const rush_type *t, rush_value *out)
{
  for (size_t i = 0; i < rush_type_n_elems(t); i++) {
    const rush_type *elem = rush_type_elem(t, i);
    int result = is_exactly(call, o, elem) || rush_type_kind_of(elem) == RUSH_TYPE_NUMBER
                   ? py_to_value_as(call, o, elem, out)
                   : 1;
    if (result != 1)
      return result;
  }
  return 1;
}

/* Convert a future of Python's, by its result. */
static int foreign_future_as(py_call *call, PyObject *o, const rush_type *t, rush_value *out)
{
  PyObject *given;
  rush_value result;

  if (strcmp(Py_TYPE(o)->tp_name, "Future") != 0 && !PyObject_HasAttrString(o, "set_result"))
    return 1;
  if (!(given = PyObject_CallMethod(o, "wait", NULL)))
    return -1;
  int got = py_to_value_as(call, given, rush_type_elem(t, 0), &result);
  Py_DECREF(given);
  if (got != 0)
    return got;
  rush_error err = RUSH_ERROR_INIT;
  rush_status st = rush_future_create(call->state->context, result, out, &err);
  rush_value_release(result);
  if (st == RUSH_OK)
    return 0;
  py_raise(call->state, &err);
  return -1;
}

static int future_as(py_call *call, PyObject *o, const rush_type *t, rush_value *out)
{
  PyObject *inner = PyObject_TypeCheck(o, call->state->object_type)
                      ? Py_NewRef(o)
                      : PyObject_GetAttrString(o, "_c");
  int result = 1;

  if (inner && PyObject_TypeCheck(inner, call->state->object_type) &&
      ((py_object *)inner)->value.tag == RUSH_TAG_FUTURE) {
    *out = rush_value_retain(((py_object *)inner)->value);
    result = 0;
  }
  PyErr_Clear();
  Py_XDECREF(inner);
  return result == 1 ? foreign_future_as(call, o, t, out) : result;
}

/* Convert "cuda:1" as torch.device does. */
static int device_as(py_call *call, PyObject *text, rush_value *out)
{
  PyObject *torch = py_find_torch(call->state) ? PyImport_ImportModule("torch") : NULL;
  PyObject *device = torch ? PyObject_CallMethod(torch, "device", "O", text) : NULL;
  int result = device ? plain_as(call, device, out, RUSH_TAG_DEVICE) : torch ? -1 : 1;

  Py_XDECREF(device);
  Py_XDECREF(torch);
  return result;
}

/* Convert torch's generator: ours starts in its state, and py_call_writes returns the state.  At
 * most one per call. */
static int generator_as(py_call *call, PyObject *o, rush_value *out)
{
  PyObject *state =
    PyObject_HasAttrString(o, "get_state") ? PyObject_CallMethod(o, "get_state", NULL) : NULL;
  PyObject *array = state ? PyObject_CallMethod(state, "numpy", NULL) : NULL;
  rush_error err = RUSH_ERROR_INIT;
  int result = 1;
  Py_buffer b;

  Py_XDECREF(state);
  if (call->generator == o) {
    *out = rush_value_retain(call->drawn);
    result = 0;
  } else if (array && !call->generator && PyObject_GetBuffer(array, &b, PyBUF_SIMPLE) == 0) {
    result = rush_generator_create(call->state->context, b.buf, (size_t)b.len, out, &err) == RUSH_OK
               ? 0
               : 1;
    PyBuffer_Release(&b);
    if (result == 0) {
      call->generator = Py_NewRef(o);
      call->drawn = rush_value_retain(*out);
    }
  }
  rush_error_clear(&err);
  PyErr_Clear();
  Py_XDECREF(array);
  return result;
}

static int tensor_as(py_call *call, PyObject *o, rush_value *out)
{
  if (PyNumber_Check(o) && !is_tensor(call, o) && !PyObject_CheckBuffer(o) &&
      !PyObject_HasAttrString(o, "__dlpack__"))
    return 1;
  return plain_as(call, o, out, RUSH_TAG_TENSOR);
}

static int complex_as(py_call *call, PyObject *o, rush_value *out)
{
  rush_error err = RUSH_ERROR_INIT;
  Py_complex c = PyComplex_AsCComplex(o);

  if (PyErr_Occurred()) {
    PyErr_Clear();
    return 1;
  }
  return rush_complex_create(call->state->context, c.real, c.imag, out, &err) == RUSH_OK
           ? 0
           : (py_raise(call->state, &err), -1);
}

int py_to_value_as(py_call *call, PyObject *o, const rush_type *t, rush_value *out)
{
  int result;

  switch (rush_type_kind_of(t)) {
  case RUSH_TYPE_TENSOR:
    return tensor_as(call, o, out);
  case RUSH_TYPE_ANY:
    return any_as(call, o, out);
  case RUSH_TYPE_NONE:
    *out = rush_value_none();
    return o == Py_None ? 0 : 1;
  case RUSH_TYPE_BOOL:
    if (!PyBool_Check(o) && !(PyNumber_Check(o) && !PyFloat_Check(o) && !PyComplex_Check(o)))
      return 1;
    result = PyObject_IsTrue(o);
    *out = rush_value_bool(result == 1);
    return result < 0 ? -1 : 0;
  case RUSH_TYPE_INT:
    return int_as(call, o, out);
  case RUSH_TYPE_FLOAT:
    if (PyFloat_Check(o)) {
      *out = rush_value_float(PyFloat_AS_DOUBLE(o));
      return 0;
    }
    return PyComplex_Check(o) ? 1 : number_as(o, RUSH_TYPE_FLOAT, out);
  case RUSH_TYPE_COMPLEX:
    return complex_as(call, o, out);
  case RUSH_TYPE_NUMBER:
    return number_any(call, o, out);
  case RUSH_TYPE_STRING:
    return PyUnicode_Check(o) ? plain_as(call, o, out, RUSH_TAG_STRING) : 1;
  case RUSH_TYPE_DEVICE:
    return PyUnicode_Check(o) ? device_as(call, o, out) : plain_as(call, o, out, RUSH_TAG_DEVICE);
  case RUSH_TYPE_LIST:
    return list_as(call, o, t, 0, out);
  case RUSH_TYPE_TUPLE:
    return tuple_as(call, o, t, 0, out);
  case RUSH_TYPE_DICT:
    return dict_as(call, o, t, 0, out);
  case RUSH_TYPE_OPTIONAL:
    *out = rush_value_none();
    return o == Py_None ? 0 : py_to_value_as(call, o, rush_type_elem(t, 0), out);
  case RUSH_TYPE_UNION:
    return union_as(call, o, t, out);
  case RUSH_TYPE_CLASS:
  case RUSH_TYPE_INTERFACE:
    return object_as(call, o, t, out);
  case RUSH_TYPE_ENUM:
    return enum_as(call, o, t, out);
  case RUSH_TYPE_GENERATOR:
    return generator_as(call, o, out);
  case RUSH_TYPE_FUTURE:
  case RUSH_TYPE_AWAIT:
    return future_as(call, o, t, out);
  default:
    return any_as(call, o, out);
  }
}
