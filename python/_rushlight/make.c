/* make.c -- makes tensors from Python's data: tensor(), as_tensor(), from_dlpack(); and converts
 * objects that denote dtypes.
 *
 * Nested sequences are read three times, as torch.tensor does: their sizes along the first items,
 * the dtype that all numbers promote to, and the numbers themselves, which are written directly
 * into the new tensor.  Rejected: a list of the library's values (aten::tensor), which wraps
 * integers that do not fit, as TorchScript does. */
#include "py.h"

#include <math.h>
#include <string.h>

#define MAX_DIMS 64

/* -- Numbers and sequences --------------------------------------------------------------------- */

/* A tensor that is filled from nested sequences. */
typedef struct maker {
  py_state *st;
  int64_t sizes[MAX_DIMS];
  int n_dims;
  int dtype;  /* of the elements at `at`: the requested one, or wider */
  size_t item_bytes;
  char *at;   /* the next element */
} maker;

typedef enum { IS_OTHER, IS_NUMBER, IS_BOXED, IS_SEQUENCE } data_kind;

/* True for a tensor of ours or of torch's. */
static bool is_any_tensor(py_state *st, PyObject *o)
{
  if (Py_IS_TYPE(o, st->tensor_type))
    return true;
  bool yes = py_find_torch(st) && PyObject_IsInstance(o, st->torch_tensor) == 1;
  PyErr_Clear();
  return yes;
}

/* True for an array without dimensions, or a scalar of numpy's: it has a dtype and item(). */
static bool is_boxed(PyObject *o)
{
  PyObject *n = PyObject_HasAttrString(o, "dtype") && PyObject_HasAttrString(o, "item")
                  ? PyObject_GetAttrString(o, "ndim")
                  : NULL;
  bool yes = n && PyLong_Check(n) && PyLong_AsLong(n) == 0;

  PyErr_Clear();
  Py_XDECREF(n);
  return yes;
}

static data_kind kind_of(py_state *st, PyObject *o)
{
  if (PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) || PyComplex_CheckExact(o))
    return IS_NUMBER;
  if (PyList_CheckExact(o) || PyTuple_CheckExact(o))
    return IS_SEQUENCE;
  if (PyUnicode_Check(o) || PyBytes_Check(o))
    return IS_OTHER;
  if (is_any_tensor(st, o) || is_boxed(o))
    return IS_BOXED;
  if (PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o))
    return IS_NUMBER;
  return PySequence_Check(o) ? IS_SEQUENCE : IS_OTHER;
}

static int refuse_data(PyObject *o)
{
  if (PyUnicode_Check(o) || PyBytes_Check(o))
    PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(o)->tp_name);
  else
    PyErr_Format(PyExc_RuntimeError, "Could not infer dtype of %s", Py_TYPE(o)->tp_name);
  return -1;
}

/* Get sizes along the first item of each level. */
static int measure_nesting(maker *m, PyObject *o)
{
  PyObject *at = Py_NewRef(o);

  for (m->n_dims = 0; at && kind_of(m->st, at) == IS_SEQUENCE;) {
    Py_ssize_t n = PySequence_Size(at);
    if (n >= 0 && m->n_dims == MAX_DIMS)
      PyErr_Format(PyExc_ValueError, "data is nested more than %d levels deep", MAX_DIMS);
    if (n < 0 || m->n_dims == MAX_DIMS) {
      Py_DECREF(at);
      return -1;
    }
    m->sizes[m->n_dims++] = n;
    if (n == 0)
      break;
    Py_SETREF(at, PySequence_GetItem(at, 0));
  }
  Py_XDECREF(at);
  return at ? 0 : -1;
}

/* Return the dtype that both fit in, by PyTorch's rules; -1 with an exception set. */
static int promote(py_state *st, int a, int b)
{
  rush_value args[2] = {rush_value_int(a), rush_value_int(b)}, result;
  rush_error err = RUSH_ERROR_INIT;
  size_t n;

  if (a == b)
    return a;
  if (rush_op_call(st->context, "aten::promote_types", args, 2, NULL, 0, &result, 1, &n, &err) !=
      RUSH_OK) {
    py_raise(st, &err);
    return -1;
  }
  return (int)result.as.i;
}

static int boxed_dtype(py_state *st, PyObject *o)
{
  PyObject *dtype = PyObject_GetAttrString(o, "dtype");
  int found = dtype ? py_dtype_of(st, dtype) : -1;

  Py_XDECREF(dtype);
  return found;
}

/* Return the dtype of Python's floats, and of its complex numbers. */
static int default_dtype(py_state *st) { return rush_context_get_default_dtype(st->context); }
static int complex_dtype(py_state *st)
{
  const int real = default_dtype(st);
  return real == RUSH_FLOAT64   ? RUSH_COMPLEX128
         : real == RUSH_FLOAT16 ? RUSH_COMPLEX32
                                : RUSH_COMPLEX64;
}

static int infer(maker *m, PyObject *o, int depth);

static int infer_items(maker *m, PyObject *o, int depth)
{
  PyObject *items = depth > MAX_DIMS ? NULL : PySequence_Fast(o, "not a sequence");
  int found = -1;

  for (Py_ssize_t i = 0; items && i < PySequence_Fast_GET_SIZE(items); i++) {
    PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(items, i));
    int of_item = infer(m, item, depth + 1);
    Py_DECREF(item);
    if (of_item < 0 || (found = found < 0 ? of_item : promote(m->st, found, of_item)) < 0) {
      Py_DECREF(items);
      return -1;
    }
  }
  if (!items && !PyErr_Occurred())
    PyErr_Format(PyExc_ValueError, "data is nested more than %d levels deep", MAX_DIMS);
  Py_XDECREF(items);
  return items && found < 0 ? default_dtype(m->st) : found;
}

/* Return the dtype of a number, or the promoted one of a sequence; -1 with an exception set. */
static int infer(maker *m, PyObject *o, int depth)
{
  switch (kind_of(m->st, o)) {
  case IS_NUMBER:
    return PyBool_Check(o)    ? RUSH_BOOL
           : PyLong_Check(o)  ? RUSH_INT64
           : PyFloat_Check(o) ? default_dtype(m->st)
                              : complex_dtype(m->st);
  case IS_BOXED:
    return boxed_dtype(m->st, o);
  case IS_SEQUENCE:
    return infer_items(m, o, depth);
  case IS_OTHER:
    break;
  }
  return refuse_data(o);
}

/* -- Writing elements -------------------------------------------------------------------------- */

static int refuse_number(int dtype)
{
  PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow",
               rush_dtype_name((rush_dtype)dtype));
  return -1;
}

/* True if v fits.  Negative numbers wrap around in unsigned dtypes, as far as PyTorch allows. */
static bool int_fits(int dtype, size_t item_bytes, long long v)
{
  const bool is_signed = dtype != RUSH_UINT8 && dtype < RUSH_UINT16;
  const long long most = item_bytes == 8 ? LLONG_MAX : (1LL << (8 * item_bytes - is_signed)) - 1;

  return v <= most && v >= (is_signed ? -most - 1 : -most);
}

static bool float_fits(int dtype, size_t item_bytes, double v)
{
  const bool is_signed = dtype != RUSH_UINT8 && dtype < RUSH_UINT16;
  const double end =
    ldexp(1.0, (int)(8 * item_bytes) - is_signed); /* the first that does not fit */

  return v >= (is_signed ? -end : 0.0) && v < end;
}

static int put_int(maker *m, PyObject *o)
{
  int overflow = 0;
  long long v;

  if (PyFloat_Check(o) && m->dtype != RUSH_UINT64) {
    if (!float_fits(m->dtype, m->item_bytes, PyFloat_AS_DOUBLE(o)))
      return refuse_number(m->dtype);
    v = (long long)PyFloat_AS_DOUBLE(o);
  } else if (m->dtype == RUSH_UINT64 && PyLong_Check(o)) {
    v = (long long)PyLong_AsUnsignedLongLong(o);
  } else {
    PyObject *number = PyNumber_Index(o);
    v = number ? PyLong_AsLongLongAndOverflow(number, &overflow) : -1;
    Py_XDECREF(number);
    if (overflow)
      PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
    else if (!PyErr_Occurred() && !int_fits(m->dtype, m->item_bytes, v))
      return refuse_number(m->dtype);
  }
  if (PyErr_Occurred())
    return -1;
  memcpy(m->at, &v, m->item_bytes); /* the low bytes: the machine is little-endian */
  return 0;
}

static int put_float(maker *m, PyObject *o)
{
  if (PyComplex_Check(o)) {
    PyErr_SetString(PyExc_TypeError, "must be real number, not complex");
    return -1;
  }
  const double d = PyFloat_AsDouble(o);
  const float f = (float)d;
  if (d == -1.0 && PyErr_Occurred())
    return -1;
  memcpy(m->at, m->dtype == RUSH_FLOAT32 ? (const void *)&f : &d, m->item_bytes);
  return 0;
}

static int put_complex(maker *m, PyObject *o)
{
  const Py_complex c = PyComplex_AsCComplex(o);
  const double wide[2] = {c.real, c.imag};
  const float narrow[2] = {(float)c.real, (float)c.imag};

  if (c.real == -1.0 && PyErr_Occurred())
    return -1;
  memcpy(m->at, m->dtype == RUSH_COMPLEX64 ? (const void *)narrow : wide, m->item_bytes);
  return 0;
}

static int put_number(maker *m, PyObject *o)
{
  int truth;

  switch (m->dtype) {
  case RUSH_BOOL:
    if ((truth = PyObject_IsTrue(o)) < 0)
      return -1;
    *m->at = (char)truth;
    return 0;
  case RUSH_FLOAT32:
  case RUSH_FLOAT64:
    return put_float(m, o);
  case RUSH_COMPLEX64:
  case RUSH_COMPLEX128:
    return put_complex(m, o);
  default:
    return put_int(m, o);
  }
}

static int put_element(maker *m, PyObject *o)
{
  const data_kind kind = kind_of(m->st, o);
  PyObject *number = kind == IS_BOXED ? PyObject_CallMethod(o, "item", NULL) : Py_NewRef(o);
  int result = -1;

  if (kind == IS_SEQUENCE)
    PyErr_Format(PyExc_ValueError, "expected a number at dim %d, but got a sequence", m->n_dims);
  else if (kind == IS_OTHER)
    refuse_data(o);
  else if (number)
    result = put_number(m, number);
  m->at += m->item_bytes;
  Py_XDECREF(number);
  return result;
}

static int fill_tensor(maker *m, PyObject *o, int dim)
{
  if (dim == m->n_dims)
    return put_element(m, o);
  if (kind_of(m->st, o) != IS_SEQUENCE) {
    PyErr_Format(PyExc_TypeError, "expected sequence of length %lld at dim %d, but got %s",
                 (long long)m->sizes[dim], dim, Py_TYPE(o)->tp_name);
    return -1;
  }
  PyObject *items = PySequence_Fast(o, "not a sequence");
  const Py_ssize_t n = items ? PySequence_Fast_GET_SIZE(items) : -1;
  int result = n == m->sizes[dim] ? 0 : -1;
  if (items && result < 0)
    PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %zd)",
                 (long long)m->sizes[dim], dim, n);
  for (Py_ssize_t i = 0; result == 0 && i < n && i < PySequence_Fast_GET_SIZE(items); i++) {
    PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(items, i));
    result = fill_tensor(m, item, dim + 1);
    Py_DECREF(item);
  }
  Py_XDECREF(items);
  return result;
}

/* Return the dtype in which numbers are stored before they are converted to `dtype`: float16,
 * bfloat16 and similar ones are converted at the end. */
static int written_as(int dtype)
{
  switch (dtype) {
  case RUSH_FLOAT16:
  case RUSH_BFLOAT16:
  case RUSH_FLOAT8_E5M2:
  case RUSH_FLOAT8_E4M3FN:
  case RUSH_FLOAT8_E5M2FNUZ:
  case RUSH_FLOAT8_E4M3FNUZ:
    return RUSH_FLOAT64;
  case RUSH_COMPLEX32:
    return RUSH_COMPLEX128;
  case RUSH_QINT8:
  case RUSH_QUINT8:
  case RUSH_QINT32:
  case RUSH_QUINT4X2:
    return -1;
  default:
    return dtype;
  }
}

/* Replace *v by aten::to(*v, dtype, copy=copy). */
static int convert_dtype(py_state *st, rush_value *v, int dtype, bool copy)
{
  rush_value args[4] = {*v, rush_value_int(dtype), rush_value_bool(false), rush_value_bool(copy)},
             result;
  rush_call_options options = RUSH_CALL_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  size_t n;

  options.record_gradients =
    rush_tensor_requires_grad(v->as.tensor) && py_get_grad_mode(st) != PY_GRAD_OFF;
  if (rush_op_call_with(st->context, "aten::to.dtype", args, 4, NULL, 0, &options, &result, 1, &n,
                        &err) != RUSH_OK) {
    py_raise(st, &err);
    return -1;
  }
  rush_value_release(*v);
  *v = result;
  return 0;
}

/* Make a tensor (new) of numbers; dtype -1: the promoted one. */
static int from_numbers(py_state *st, PyObject *o, int dtype, rush_value *out)
{
  maker m = {.st = st};
  rush_error err = RUSH_ERROR_INIT;

  if (py_sync_default_dtype(st) < 0 || measure_nesting(&m, o) < 0 ||
      (dtype < 0 && (dtype = infer(&m, o, 0)) < 0))
    return -1;
  m.dtype = written_as(dtype);
  if (m.dtype < 0) {
    PyErr_Format(PyExc_RuntimeError, "tensors of %s are made by quantize_per_tensor",
                 rush_dtype_name((rush_dtype)dtype));
    return -1;
  }
  if (rush_tensor_create(st->context, (rush_dtype)m.dtype, m.n_dims, m.sizes, out, &err) !=
      RUSH_OK) {
    py_raise(st, &err);
    return -1;
  }
  m.item_bytes = rush_dtype_bytes((rush_dtype)m.dtype);
  m.at = rush_tensor_data_mut(out->as.tensor);
  if (fill_tensor(&m, o, 0) == 0 && (dtype == m.dtype || convert_dtype(st, out, dtype, false) == 0))
    return 0;
  rush_value_release(*out);
  return -1;
}

/* -- The functions ----------------------------------------------------------------------------- */

/* True for tensors, arrays and other objects with memory: their elements are used in place. */
static bool has_memory(py_state *st, PyObject *o)
{
  if (PyLong_Check(o) || PyFloat_Check(o) || PyList_Check(o) || PyTuple_Check(o) ||
      PyBytes_Check(o) || PyUnicode_Check(o))
    return false;
  return is_any_tensor(st, o) ||
         (!is_boxed(o) && (PyObject_CheckBuffer(o) || PyObject_HasAttrString(o, "__dlpack__")));
}

/* Copy to memory of its own, without a history. */
static int copy_tensor(py_state *st, rush_value *v, int dtype)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value detached;
  size_t n;

  if (rush_op_call(st->context, "aten::detach", v, 1, NULL, 0, &detached, 1, &n, &err) != RUSH_OK) {
    py_raise(st, &err);
    return -1;
  }
  rush_value_release(*v);
  *v = detached;
  return convert_dtype(st, v, dtype >= 0 ? dtype : (int)rush_tensor_dtype(v->as.tensor), true);
}

static PyObject *make_from_data(PyObject *m, PyObject *args, PyObject *kwargs, const char *format,
                      bool copies)
{
  static char *names[] = {"data", "dtype", NULL};
  py_state *st = PyModule_GetState(m);
  PyObject *data, *wanted = Py_None, *out = NULL;
  py_call call = {.state = st};
  int dtype = -1, ok;
  rush_value v;

  if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, names, &data, &wanted) ||
      (wanted != Py_None && (dtype = py_dtype_of(st, wanted)) < 0))
    return NULL;
  if (!has_memory(st, data)) {
    ok = from_numbers(st, data, dtype, &v) == 0;
  } else {
    ok = py_to_value(&call, data, &v) == 0;
    if (ok && v.tag != RUSH_TAG_TENSOR)
      ok = refuse_data(data) == 0;
    if (ok && (copies ? copy_tensor(st, &v, dtype) < 0
                      : dtype >= 0 && convert_dtype(st, &v, dtype, false) < 0)) {
      rush_value_release(v);
      ok = false;
    }
  }
  if (ok) {
    out = py_tensor_wrap(st, v);
    rush_value_release(v);
  }
  py_call_end(&call);
  return out;
}

PyObject *py_as_tensor(PyObject *m, PyObject *args, PyObject *kwargs)
{
  return make_from_data(m, args, kwargs, "O|O:as_tensor", false);
}
PyObject *py_tensor_new(PyObject *m, PyObject *args, PyObject *kwargs)
{
  return make_from_data(m, args, kwargs, "O|O:tensor", true);
}

PyObject *py_import_dlpack(PyObject *m, PyObject *o)
{
  py_state *st = PyModule_GetState(m);
  py_call call = {.state = st};
  PyObject *out = NULL;
  rush_value v;

  if (py_from_dlpack(&call, o, &v) == 0) {
    out = py_tensor_wrap(st, v);
    rush_value_release(v);
  }
  py_call_end(&call);
  return out;
}
