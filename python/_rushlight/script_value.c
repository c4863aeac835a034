/* _rushlight/script_value.c -- converts Python objects to values of given types, with PyTorch's
 * conversions and its messages if they do not fit. Conversion is driven by the required type, not
 * by the object, because an empty list or a number fits several. The messages are made only after a
 * refusal, by a second walk that looks for the part that does not fit. Cost: O(items). */
#include "script.h"

#include <string.h>

static int as_any_list(py_call *call, PyObject *o, const rush_type *t, rush_value *out);

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

static void release_items(rush_value *v, Py_ssize_t n)
{
  for (Py_ssize_t i = 0; i < n; i++)
    rush_value_release(v[i]);
  PyMem_Free(v);
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

/* Convert items of any iterable, each to elem (n types: item by item). */
static int items_as(py_call *call, PyObject *o, const rush_type *t, bool is_tuple,
                    rush_value **items, Py_ssize_t *n)
{
  PyObject *fast =
    PyUnicode_Check(o) || (is_tensor(call, o) && !is_tuple) ? NULL : PySequence_Fast(o, "");
  int result = 0;

  if (!fast) {
    PyErr_Clear();
    return 1;
  }
  Py_ssize_t size = PySequence_Fast_GET_SIZE(fast), done = 0;
  if (is_tuple && (size_t)size != rush_type_n_elems(t)) {
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
    result = py_to_value_as(call, PySequence_Fast_GET_ITEM(fast, done),
                            rush_type_elem(t, is_tuple ? (size_t)done : 0), &(*items)[done]);
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

static int as_any_list(py_call *call, PyObject *o, const rush_type *t, rush_value *out)
{
  if (held_as(call, o, t, RUSH_TAG_LIST, out) == 0)
    return 0;
  rush_error err = RUSH_ERROR_INIT;
  rush_value *items, made;
  Py_ssize_t n;
  int result = items_as(call, o, t, false, &items, &n);

  if (result != 0)
    return result;
  rush_status st = rush_list_create(call->state->context, items, (size_t)n, &made, &err);
  release_items(items, n);
  if (st != RUSH_OK) {
    py_raise(call->state, &err);
    return -1;
  }
  return convert_steal(call, t, made, out);
}

static int as_tuple(py_call *call, PyObject *o, const rush_type *t, rush_value *out)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value *items;
  Py_ssize_t n;
  int result = PyDict_Check(o) ? 1 : items_as(call, o, t, true, &items, &n);

  if (result != 0)
    return result;
  rush_status st = rush_type_name(t)
                     ? rush_named_tuple_create(call->state->context, t, items, (size_t)n, out, &err)
                     : rush_tuple_create(call->state->context, items, (size_t)n, out, &err);
  release_items(items, n);
  if (st != RUSH_OK) {
    py_raise(call->state, &err);
    return -1;
  }
  return 0;
}

static int as_dict(py_call *call, PyObject *o, const rush_type *t, rush_value *out)
{
  if (held_as(call, o, t, RUSH_TAG_DICT, out) == 0)
    return 0;
  rush_error err = RUSH_ERROR_INIT;
  PyObject *items =
    PyMapping_Check(o) && PyObject_HasAttrString(o, "items") ? PyMapping_Items(o) : NULL;
  int result = 0;

  if (!items) {
    PyErr_Clear();
    return 1;
  }
  Py_ssize_t n = PyList_GET_SIZE(items), i = 0;
  rush_value *kv = PyMem_Calloc(2 * (size_t)n + 1, sizeof(*kv)), made;
  for (; kv && i < n && result == 0; i++) {
    PyObject *pair = PyList_GET_ITEM(items, i);
    rush_value one;
    for (int j = 0; j < 2 && result == 0; j++)
      if ((result = py_to_value_as(call, PyTuple_GET_ITEM(pair, j), rush_type_elem(t, (size_t)j),
                                   &one)) == 0)
        kv[j * n + i] = one;
  }
  Py_DECREF(items);
  if (!kv) {
    PyErr_NoMemory();
    return -1;
  }
  if (result == 0 &&
      rush_dict_create(call->state->context, kv, kv + n, (size_t)n, &made, &err) != RUSH_OK) {
    py_raise(call->state, &err);
    result = -1;
  } else if (result == 0) {
    release_items(kv, 2 * n);
    return convert_steal(call, t, made, out);
  }
  release_items(kv, 2 * n); /* slots that were not reached are None */
  return result;
}

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
      return as_tuple(call, o, known->type, out);
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
    return as_any_list(call, o, t, out);
  case RUSH_TYPE_TUPLE:
    return as_tuple(call, o, t, out);
  case RUSH_TYPE_DICT:
    return as_dict(call, o, t, out);
  case RUSH_TYPE_OPTIONAL:
    *out = rush_value_none();
    return o == Py_None ? 0 : py_to_value_as(call, o, rush_type_elem(t, 0), out);
  case RUSH_TYPE_UNION:
    return union_as(call, o, t, out);
  case RUSH_TYPE_CLASS: case RUSH_TYPE_INTERFACE:
    return object_as(call, o, t, out);
  case RUSH_TYPE_ENUM:
    return enum_as(call, o, t, out);
  case RUSH_TYPE_GENERATOR:
    return generator_as(call, o, out);
  case RUSH_TYPE_FUTURE: case RUSH_TYPE_AWAIT:
    return future_as(call, o, t, out);
  default:
    return any_as(call, o, out);
  }
}

/* -- Arguments --------------------------------------------------------------------------------- */

static void fail_schema(py_call *call, rush_function *f, const char *format, ...)
{
  rush_error err = RUSH_ERROR_INIT;
  char *text = NULL;
  va_list ap;

  va_start(ap, format);
  PyObject *head = PyUnicode_FromFormatV(format, ap);
  va_end(ap);
  if (head && rush_function_dump(f, RUSH_DUMP_SCHEMA, &text, &err) == RUSH_OK)
    PyErr_Format(PyExc_RuntimeError, "%U Declaration: %s", head, text);
  else if (head)
    PyErr_SetObject(PyExc_RuntimeError, head);
  rush_error_clear(&err);
  if (text)
    rush_free_text(call->state->context, text);
  Py_XDECREF(head);
}

/* Return the first item that does not have the type, or NULL; borrowed. */
static PyObject *first_bad(py_call *call, PyObject *sequence, const rush_type *t, bool is_tuple,
                           const rush_type **which)
{
  PyObject *bad = NULL;

  for (Py_ssize_t i = 0; !bad && i < PySequence_Fast_GET_SIZE(sequence); i++) {
    PyObject *item = PySequence_Fast_GET_ITEM(sequence, i);
    rush_value v = rush_value_none();
    *which = rush_type_elem(t, is_tuple ? (size_t)i : 0);
    if (py_to_value_as(call, item, *which, &v) != 0)
      bad = item;
    PyErr_Clear();
    rush_value_release(v);
  }
  return bad;
}

static PyObject *bad_in_dict(py_call *call, PyObject *dict, const rush_type *t,
                             const rush_type **which)
{
  PyObject *key, *value, *bad = NULL;
  Py_ssize_t at = 0;

  while (!bad && PyDict_Next(dict, &at, &key, &value)) {
    PyObject *both[2] = {key, value};
    for (size_t i = 0; i < 2 && !bad; i++) {
      rush_value v = rush_value_none();
      *which = rush_type_elem(t, i);
      if (py_to_value_as(call, both[i], *which, &v) != 0)
        bad = both[i];
      PyErr_Clear();
      rush_value_release(v);
    }
  }
  return bad;
}

/* Explain, in PyTorch's words, why the object does not have the type.  New. */
PyObject *py_cast_details(py_call *call, PyObject *o, const rush_type *t)
{
  rush_type_kind k = rush_type_kind_of(t);
  const rush_type *inner = NULL;
  rush_error err = RUSH_ERROR_INIT;
  char *want = NULL;
  PyObject *bad = NULL, *out = NULL;

  if (k == RUSH_TYPE_OPTIONAL)
    return py_cast_details(call, o, rush_type_elem(t, 0));
  if (k == RUSH_TYPE_TUPLE && PyTuple_Check(o) &&
      (size_t)PyTuple_GET_SIZE(o) == rush_type_n_elems(t))
    bad = first_bad(call, o, t, true, &inner);
  if (k == RUSH_TYPE_LIST && PyList_Check(o)) {
    rush_type_kind e = rush_type_kind_of(rush_type_elem(t, 0));
    if (e != RUSH_TYPE_INT && e != RUSH_TYPE_FLOAT && e != RUSH_TYPE_BOOL &&
        e != RUSH_TYPE_COMPLEX && e != RUSH_TYPE_TENSOR)
      bad = first_bad(call, o, t, false, &inner);
  }
  if (k == RUSH_TYPE_DICT && PyDict_Check(o))
    bad = bad_in_dict(call, o, t, &inner);
  if (bad)
    return py_cast_details(call, bad, inner);
  (void)!rush_type_to_text(call->state->context, t, true, &want, &err);
  rush_error_clear(&err);
  if (k == RUSH_TYPE_TENSOR)
    out = PyUnicode_FromFormat("Unable to cast %S to Tensor", o);
  else if (k == RUSH_TYPE_TUPLE && PyTuple_Check(o))
    out = PyUnicode_FromFormat("Object %R had a different number of elements than type %s", o,
                               want ? want : "?");
  else if (k == RUSH_TYPE_UNION)
    out = PyUnicode_FromFormat("Expected a member of %s but instead found type %s",
                               want ? want : "?", Py_TYPE(o)->tp_name);
  else if (k == RUSH_TYPE_ENUM || k == RUSH_TYPE_CLASS || k == RUSH_TYPE_INTERFACE)
    out =
      PyUnicode_FromFormat("Unable to cast %S to %s", (PyObject *)Py_TYPE(o), want ? want : "?");
  else
    out = PyUnicode_FromFormat("Unable to cast Python instance of type %S to C++ type '?' (#define "
                               "PYBIND11_DETAILED_ERROR_MESSAGES or "
                               "compile in debug mode for details)",
                               (PyObject *)Py_TYPE(o));
  if (want)
    rush_free_text(call->state->context, want);
  return out;
}

/* Return the type's name; for a NamedTuple with its fields. */
static PyObject *friendly_name(PyObject *o)
{
  const char *name =
    strrchr(Py_TYPE(o)->tp_name, '.') ? strrchr(Py_TYPE(o)->tp_name, '.') + 1 : Py_TYPE(o)->tp_name;
  PyObject *fields = PyTuple_Check(o) ? PyObject_GetAttrString(o, "_fields") : NULL;
  PyObject *comma = fields ? PyUnicode_FromString(", ") : NULL;
  PyObject *joined = comma ? PyUnicode_Join(comma, fields) : NULL;
  PyObject *out = joined ? PyUnicode_FromFormat("%s (aka NamedTuple(%U))", name, joined)
                         : PyUnicode_FromString(Py_TYPE(o)->tp_name);

  PyErr_Clear();
  Py_XDECREF(joined);
  Py_XDECREF(comma);
  Py_XDECREF(fields);
  return out;
}

/* Explain why an array cannot be a tensor, new; NULL without an exception: it can, or it is not an
 * array. */
static PyObject *buffer_details(py_call *call, PyObject *o)
{
  PyObject *type, *value, *trace, *out = NULL;
  rush_value v;

  if (!PyObject_CheckBuffer(o) || PyBytes_Check(o))
    return NULL;
  if (py_to_value(call, o, &v) == 0) {
    rush_value_release(v);
    return NULL;
  }
  PyErr_Fetch(&type, &value, &trace);
  if (value)
    out = PyObject_Str(value);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  PyErr_Clear();
  return out;
}

static void fail_cast(py_call *call, rush_function *f, const char *name, const rush_argument *arg,
                      PyObject *o, size_t position)
{
  rush_error err = RUSH_ERROR_INIT;
  char *want = NULL, *text = NULL;
  PyObject *repr = PyObject_Repr(o);
  PyObject *inferred =
    arg->is_inferred
      ? PyUnicode_FromFormat(
          "Inferred '%s' to be of type 'Tensor' because it was not annotated with an "
          "explicit type.\n",
          arg->name)
      : PyUnicode_FromString("");

  PyErr_Clear();
  PyObject *details = buffer_details(call, o), *found = friendly_name(o);
  if (!details)
    details = py_cast_details(call, o, arg->type);
  PyErr_Clear();
  if (rush_type_to_text(call->state->context, arg->type, true, &want, &err) == RUSH_OK &&
      rush_function_dump(f, RUSH_DUMP_SCHEMA, &text, &err) == RUSH_OK)
    PyErr_Format(PyExc_RuntimeError,
                 "%s() Expected a value of type '%s%s' for argument '%s' but instead found type "
                 "'%V'.\n%VPosition: %zu\nValue: %V\n"
                 "Declaration: %s\nCast error details: %V",
                 name, want, arg->is_inferred ? " (inferred)" : "", arg->name, found, "?", inferred,
                 "", position, repr, "?", text, details, "?");
  rush_error_clear(&err);
  if (want)
    rush_free_text(call->state->context, want);
  if (text)
    rush_free_text(call->state->context, text);
  Py_XDECREF(repr);
  Py_XDECREF(details);
  Py_XDECREF(found);
  Py_XDECREF(inferred);
}

static PyObject *keyword_of(PyObject *const *values, PyObject *kwnames, const char *name)
{
  for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), name) == 0)
      return values[i];
  return NULL;
}

/* Return the first keyword that no parameter has (borrowed), or NULL. */
static PyObject *unknown_keyword(rush_function *f, PyObject *kwnames)
{
  rush_argument arg;

  for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++) {
    PyObject *name = PyTuple_GET_ITEM(kwnames, i);
    bool known = false;
    for (size_t k = 0; !known && rush_function_arg(f, k, &arg); k++)
      known = PyUnicode_CompareWithASCIIString(name, arg.name) == 0;
    if (!known)
      return name;
  }
  return NULL;
}

/* Raise PyTorch's refusal of a call, with the keyword that is the reason if there is one. */
static void fail_arguments(py_call *call, rush_function *f, PyObject *kwnames, PyObject *refusal)
{
  PyObject *unknown = unknown_keyword(f, kwnames);

  if (refusal && unknown)
    fail_schema(call, f, "%U Got an unexpected keyword '%U'.", refusal, unknown);
  else if (refusal)
    fail_schema(call, f, "%U", refusal);
  Py_XDECREF(refusal);
}

/* Raise for keywords that match no parameter. */
static void fail_keyword(py_call *call, rush_function *f, const char *name, size_t skip,
                         size_t n_args, PyObject *kwnames)
{
  rush_argument arg;

  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); i++) {
    const char *text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, i));
    bool known = false;
    for (size_t k = skip; rush_function_arg(f, k, &arg); k++) {
      if (strcmp(arg.name, text) != 0)
        continue;
      known = true;
      if (k - skip < n_args) {
        fail_schema(call, f, "%s() got multiple values for argument '%s'.", name, text);
        return;
      }
    }
    if (!known) {
      fail_schema(call, f, "Unknown keyword argument '%s' for operator '%s'. Schema:", text, name);
      return;
    }
  }
}

/* Bind parameter i of f to an object; returns 0, 1 if it does not fit, -1 with an exception set. */
static int bind_one(py_call *call, rush_function *f, size_t i, const rush_argument *arg,
                    PyObject *o, rush_value *out)
{
  if (o == Py_None && arg->type &&
      rush_type_kind_of(arg->type) == RUSH_TYPE_TENSOR) { /* None, as PyTorch takes it */
    bool undefined;
    WITHOUT_GIL(undefined = rush_function_takes_undefined(f, i));
    if (undefined) {
      *out = rush_value_none();
      out->tag = RUSH_TAG_TENSOR;
      out->as.heap = NULL;
      return 0;
    }
  }
  if (arg->fixed_len && (PyLong_Check(o) || PyFloat_Check(o)))
    return py_to_value(call, o, out);
  return py_to_value_as(call, o, arg->type, out);
}

int py_args_bind(py_call *call, rush_function *f, const char *name, size_t skip,
                 PyObject *const *args, size_t n_args, PyObject *kwnames, py_args *out)
{
  size_t n = rush_function_n_args(f), used = 0, used_named = 0;
  size_t n_named = kwnames ? (size_t)PyTuple_GET_SIZE(kwnames) : 0;
  static const char too_many[] =
    "%s() expected at most %zu argument(s) but received %zu argument(s).";
  rush_argument arg;

  if (py_args_alloc(out, n, n) < 0)
    return -1;
  if (skip + n_args + n_named > n) { /* before the values are looked at, as PyTorch does */
    fail_arguments(call, f, kwnames,
                   PyUnicode_FromFormat(too_many, name, n, skip + n_args + n_named));
    goto fail;
  }
  for (size_t i = skip; i < n && rush_function_arg(f, i, &arg); i++) {
    PyObject *o = NULL;
    rush_value v;
    if (arg.keyword_only && used < n_args) {
      fail_schema(call, f, "%s() takes %zu positional argument(s) but %zu was/were given. ", name,
                  i, skip + n_args);
      goto fail;
    }
    if (used < n_args) {
      o = args[used++];
    } else if ((o = keyword_of(args + n_args, kwnames, arg.name)) != NULL) {
      used_named++;
    } else if (arg.has_default) {
      continue;
    } else {
      fail_arguments(
        call, f, kwnames,
        PyUnicode_FromFormat("%s() is missing value for argument '%s'.", name, arg.name));
      goto fail;
    }
    int result = bind_one(call, f, i, &arg, o, &v);
    if (result != 0) {
      if (result > 0)
        fail_cast(call, f, name, &arg, o, i);
      goto fail;
    }
    if (out->n_args == i - skip && !arg.keyword_only)
      out->args[out->n_args++] = v;
    else
      out->named[out->n_named++] = (rush_named_value){arg.name, v};
  }
  if (used == n_args && used_named == n_named)
    return 0;
  if (used < n_args)
    fail_schema(call, f, too_many, name, n, skip + n_args + n_named);
  else
    fail_keyword(call, f, name, skip, n_args, kwnames);
fail:
  py_args_free(out);
  return -1;
}
