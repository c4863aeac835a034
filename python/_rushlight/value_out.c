/* value_out.c -- converts values to Python objects, and reports in-place writes at the end of a
 * call. value_in.c has the other way. */
#include "exchange.h"
#include "rushlight/script.h"

#include <string.h>

/* -- Values out -------------------------------------------------------------------------------- */

PyObject *py_tensor_to_torch(py_state *st, rush_value v)
{
  if (py_is_quantized(rush_tensor_dtype(v.as.tensor)))
    return py_package_call(st, "to_torch", "(N)", py_tensor_wrap(st, v));
  if (rush_tensor_layout(v.as.tensor) != 0)
    return py_package_call(st, "sparse_to_torch", "(N)", py_tensor_wrap(st, v));
  if (rush_tensor_is_meta(v.as.tensor))
    return py_package_call(st, "meta_to_torch", "(N)", py_tensor_wrap(st, v));
  if (rush_tensor_is_read_only(v.as.tensor)) { /* torch would write to it */
    rush_error err = RUSH_ERROR_INIT;
    rush_value copy;
    if (py_clone(st, v, &copy, &err) != RUSH_OK)
      return py_raise(st, &err);
    PyObject *made = py_tensor_to_torch(st, copy);
    rush_value_release(copy);
    return made;
  }
  PyObject *quick = st->exchange ? py_exchange_write(st->exchange, st->context, v.as.tensor) : NULL;
  if (quick)
    return quick;
  PyObject *capsule = py_dlpack_capsule(st, v.as.tensor, false);
  PyObject *t = capsule ? PyObject_CallOneArg(st->torch_from_dlpack, capsule) : NULL;
  Py_XDECREF(capsule);
  return t;
}

static PyObject *tensor_out(py_call *call, rush_value v)
{
  py_state *st = call->state;

  if (!v.as.tensor)
    Py_RETURN_NONE;
  for (size_t i = 0; i < call->n_seen; i++)
    if (call->seen[i].tensor.as.tensor == v.as.tensor)
      return Py_NewRef(call->seen[i].object);
  if (st->tensors && PyDict_GET_SIZE(st->tensors)) {
    PyObject *key = PyLong_FromVoidPtr(v.as.tensor),
             *at = key ? PyDict_GetItem(st->tensors, key) : NULL;
    Py_XDECREF(key);
    if (at)
      return Py_NewRef((PyObject *)PyLong_AsVoidPtr(at));
  }
  bool to_torch = call->saw_torch || (!call->saw_ours && !call->saw_numpy && py_find_torch(st));
  if (to_torch)
    return py_tensor_to_torch(st, v);
  PyObject *ours = py_tensor_wrap(st, v);
  if (!call->saw_numpy || call->saw_ours || !ours || rush_tensor_layout(v.as.tensor) != 0 ||
      !py_buffer_format(rush_tensor_dtype(v.as.tensor)))
    return ours;
  PyObject *numpy = PyImport_ImportModule("numpy");
  PyObject *array = numpy ? PyObject_CallMethod(numpy, "asarray", "O", ours) : NULL;
  Py_XDECREF(numpy);
  Py_DECREF(ours);
  return array;
}

/* Return the Python class of a scripted one (borrowed), or NULL. */
static PyObject *class_of(py_state *st, rush_value v)
{
  const char *name = st->classes ? rush_value_class(v) : NULL;

  return name ? PyDict_GetItemString(st->classes, name) : NULL;
}

static PyObject *enum_out(py_call *call, rush_value v)
{
  PyObject *cls = class_of(call->state, v);
  rush_value of;

  return cls ? PyObject_GetAttrString(cls, rush_enum_name(v, &of))
             : py_value_wrap(call->state, call->state->enum_type, v);
}

/* Make an instance of the Python class with the same attributes, as PyTorch does; the wrapper makes
 * modules and futures. */
static PyObject *instance_out(py_call *call, rush_value v)
{
  py_state *st = call->state;
  PyObject *cls = v.tag == RUSH_TAG_OBJECT ? class_of(st, v) : NULL;
  PyObject *o;

  if (!cls) {
    o = py_value_wrap(call->state, st->object_type, v);
    if (!o || !st->wrap_object || (v.tag != RUSH_TAG_OBJECT && v.tag != RUSH_TAG_FUTURE))
      return o;
    const char *kind = v.tag != RUSH_TAG_FUTURE      ? "object"
                       : rush_future_is_awaitable(v) ? "awaitable"
                                                     : "future";
    PyObject *wrapped = PyObject_CallFunction(st->wrap_object, "Os", o, kind);
    Py_DECREF(o);
    return wrapped;
  }
  o = PyObject_CallMethod(cls, "__new__", "O", cls);
  for (size_t i = 0; o && i < rush_object_n_attrs(v); i++) {
    const char *name = rush_object_attr_name(v, i);
    rush_value item = py_unlocked_object_attr(v, name);
    PyObject *attr = item.tag == RUSH_TAG_UNSET ? NULL : py_from_value(call, item);
    if (item.tag != RUSH_TAG_UNSET && (!attr || PyObject_SetAttrString(o, name, attr) < 0))
      Py_CLEAR(o);
    Py_XDECREF(attr);
    rush_value_release(item);
  }
  return o;
}

static PyObject *named_tuple_out(py_call *call, rush_value v, PyObject *tuple)
{
  PyObject *known = class_of(call->state, v);
  if (known) {
    PyObject *args =
      PyTuple_Check(tuple) ? PyTuple_GetSlice(tuple, 0, PyTuple_GET_SIZE(tuple)) : NULL;
    PyObject *made = args ? PyObject_Call(known, args, NULL) : NULL;
    Py_XDECREF(args);
    return made;
  }
  PyObject *fields = PyTuple_New((Py_ssize_t)rush_value_len(v));
  PyObject *collections = PyImport_ImportModule("collections");
  const char *name = rush_value_class(v);
  const char *last = name ? strrchr(name, '.') : NULL;
  PyObject *type = NULL, *result = NULL;

  for (size_t i = 0; fields && i < rush_value_len(v); i++) {
    PyObject *f = PyUnicode_FromString(rush_value_field(v, i));
    if (!f)
      Py_CLEAR(fields);
    else
      PyTuple_SET_ITEM(fields, (Py_ssize_t)i, f);
  }
  if (fields && collections)
    type = PyObject_CallMethod(collections, "namedtuple", "sO",
                               last   ? last + 1
                               : name ? name
                                      : "NamedTuple",
                               fields);
  if (type)
    result = PyObject_Call(type, tuple, NULL);
  Py_XDECREF(fields);
  Py_XDECREF(collections);
  Py_XDECREF(type);
  return result;
}

static PyObject *items_out(py_call *call, rush_value v)
{
  size_t n = rush_value_len(v);
  bool is_list = v.tag == RUSH_TAG_LIST;
  PyObject *o = is_list ? PyList_New((Py_ssize_t)n) : PyTuple_New((Py_ssize_t)n);

  for (size_t i = 0; o && i < n; i++) {
    PyObject *item = py_from_value(call, rush_value_item(v, i));
    if (!item)
      Py_CLEAR(o);
    else if (is_list)
      PyList_SET_ITEM(o, (Py_ssize_t)i, item);
    else
      PyTuple_SET_ITEM(o, (Py_ssize_t)i, item);
  }
  if (o && !is_list && rush_value_field(v, 0) &&
      rush_value_class(v)) { /* an operator's results have names, but are a plain tuple */
    PyObject *named = named_tuple_out(call, v, o);
    Py_SETREF(o, named);
  }
  return o;
}

static PyObject *dict_out(py_call *call, rush_value v)
{
  PyObject *d = PyDict_New();

  for (size_t i = 0; d && i < rush_value_len(v); i++) {
    rush_value key, value;
    rush_value_entry(v, i, &key, &value);
    PyObject *k = py_from_value(call, key);
    PyObject *x = k ? py_from_value(call, value) : NULL;
    if (!x || PyDict_SetItem(d, k, x) < 0)
      Py_CLEAR(d);
    Py_XDECREF(k);
    Py_XDECREF(x);
  }
  return d;
}

static PyObject *device_out(py_call *call, rush_value v)
{
  int32_t index = (int32_t)(uint32_t)v.as.i;
  const char *kind_name = py_device_name((size_t)(v.as.i >> 32));
  PyObject *name = index < 0 ? PyUnicode_FromString(kind_name)
                             : PyUnicode_FromFormat("%s:%d", kind_name, (int)index);

  if (!name || !py_find_torch(call->state))
    return name;
  PyObject *torch = PyImport_ImportModule("torch");
  PyObject *device = torch ? PyObject_CallMethod(torch, "device", "O", name) : NULL;
  Py_XDECREF(torch);
  Py_DECREF(name);
  return device;
}

/* Convert a container or an object inside another one, once for all its occurrences: shared parts
 * remain shared, and n lists that hold the one before twice are n lists, not 2^n. */
static PyObject *part_out(py_call *call, rush_value v, PyObject *(*make)(py_call *, rush_value))
{
  PyObject *key = NULL, *o = NULL;

  if (call->height) {
    if (!(key = PyLong_FromVoidPtr(v.as.heap)) || (!call->parts && !(call->parts = PyDict_New())))
      goto done;
    if ((o = Py_XNewRef(PyDict_GetItemWithError(call->parts, key))) || PyErr_Occurred())
      goto done;
  }
  if (Py_EnterRecursiveCall(" in a result of a program"))
    goto done;
  call->height++;
  o = make(call, v);
  call->height--;
  Py_LeaveRecursiveCall();
  if (o && key && PyDict_SetItem(call->parts, key, o) < 0)
    Py_CLEAR(o);
  if (!call->height)
    Py_CLEAR(call->parts);
done:
  Py_XDECREF(key);
  return o;
}

PyObject *py_from_value(py_call *call, rush_value v)
{
  double re, im;
  size_t n;

  switch ((rush_tag)v.tag) {
  case RUSH_TAG_NONE:
    Py_RETURN_NONE;
  case RUSH_TAG_TENSOR:
    return tensor_out(call, v);
  case RUSH_TAG_BOOL:
    return PyBool_FromLong(v.as.b);
  case RUSH_TAG_INT:
    return PyLong_FromLongLong(v.as.i);
  case RUSH_TAG_FLOAT:
    return PyFloat_FromDouble(v.as.d);
  case RUSH_TAG_COMPLEX:
    rush_value_complex(v, &re, &im);
    return PyComplex_FromDoubles(re, im);
  case RUSH_TAG_STRING: {
    const char *text = rush_value_string(v, &n);
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)n,
                                call->strict_text ? "strict" : "surrogateescape");
  }
  case RUSH_TAG_LIST:
  case RUSH_TAG_TUPLE:
    return part_out(call, v, items_out);
  case RUSH_TAG_DICT:
    return part_out(call, v, dict_out);
  case RUSH_TAG_ENUM:
    return enum_out(call, v);
  case RUSH_TAG_DEVICE:
    return device_out(call, v);
  case RUSH_TAG_OBJECT:
    if (rush_object_is_module(v))
      return py_module_wrap(call->state, v, NULL);
    /* fall through */
  case RUSH_TAG_FUTURE:
    return part_out(call, v, instance_out);
  case RUSH_TAG_GENERATOR:
  case RUSH_TAG_CUSTOM:
  case RUSH_TAG_STORAGE:
  case RUSH_TAG_FUNCTION:
  case RUSH_TAG_UNSET:
    return py_value_wrap(call->state, call->state->object_type, v);
  }
  PyErr_Format(PyExc_SystemError, "a value with the unknown tag %u", (unsigned)v.tag);
  return NULL;
}

/* -- The end of a call ------------------------------------------------------------------------- */

/* Give torch's tensor the new shape of an argument that the program reshaped (squeeze_, resize_,
 * set_). */
static PyObject *reshape_torch(py_call *call, const py_seen *s)
{
  int n = rush_tensor_n_dims(s->tensor.as.tensor);
  const char *data = rush_tensor_data(s->tensor.as.tensor);
  const bool same = s->base && data >= s->base &&
                    data < s->base + s->n_bytes; /* another part of torch's own storage */
  if (data != s->data && !same) {
    PyObject *capsule = py_dlpack_capsule(call->state, s->tensor.as.tensor, false);
    PyObject *t = capsule ? PyObject_CallOneArg(call->state->torch_from_dlpack, capsule) : NULL;
    PyObject *r = t ? PyObject_CallMethod(s->object, "set_", "O", t) : NULL;
    Py_XDECREF(capsule);
    Py_XDECREF(t);
    return r;
  }
  PyObject *sizes = py_ints(rush_tensor_sizes(s->tensor.as.tensor), n);
  PyObject *strides = py_ints(rush_tensor_strides(s->tensor.as.tensor), n);
  PyObject *r = NULL;
  if (sizes && strides && same)
    r = PyObject_CallMethod(s->object, "as_strided_", "OOL", sizes, strides,
                            (long long)((size_t)(data - s->base) /
                                        rush_dtype_bytes(rush_tensor_dtype(s->tensor.as.tensor))));
  else if (sizes && strides)
    r = PyObject_CallMethod(s->object, "as_strided_", "OO", sizes, strides);
  Py_XDECREF(sizes);
  Py_XDECREF(strides);
  return r;
}

int py_call_writes(py_call *call)
{
  char state[RUSH_GENERATOR_STATE_BYTES];
  if (call->generator && (!rush_generator_value_state(call->drawn, state) ||
                          py_set_random_state(call->generator, "set_state", state) < 0))
    return -1;
  for (size_t i = 0; i < call->n_seen; i++) {
    py_seen *s = &call->seen[i];
    if (s->is_torch && py_hash_geometry(s->tensor.as.tensor) != s->geometry) {
      PyObject *r = reshape_torch(call, s);
      if (!r)
        return -1;
      Py_DECREF(r);
      s->geometry = py_hash_geometry(s->tensor.as.tensor);
    }
    if (!s->is_torch || rush_tensor_version(s->tensor.as.tensor) == s->version)
      continue;
    PyObject *r = PyObject_CallOneArg(call->state->torch_increment_version, s->object);
    if (!r)
      return -1;
    Py_DECREF(r);
    s->version = rush_tensor_version(s->tensor.as.tensor);
  }
  return 0;
}

void py_call_end(py_call *call)
{
  if (call->generator) {
    rush_value_release(call->drawn);
    Py_CLEAR(call->generator);
  }
  for (size_t i = 0; i < call->n_seen; i++) {
    rush_value_release(call->seen[i].tensor);
    Py_DECREF(call->seen[i].object);
  }
  if (call->seen != call->few)
    PyMem_Free(call->seen);
  call->seen = NULL;
  call->n_seen = call->cap_seen = 0;
}
