/* tensor.c -- the Tensor type: its methods are operators of the table.
 *
 * Attributes that are not found in the type are looked up as operators; arithmetic calls them
 * directly.  Basic indices become view operators here, all others are resolved in indexing.py. */
#include "exchange.h"

#include <string.h>

static rush_tensor *tensor_of(PyObject *self) { return ((py_tensor *)self)->value.as.tensor; }

static void tensor_dealloc(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);

  rush_value_release(((py_tensor *)self)->value);
  type->tp_free(self);
  Py_DECREF(type);
}

/* -- Attributes -------------------------------------------------------------------------------- */

/* Return the sizes as a rushlight.Size, a subclass of tuple: filled in place, as fast as one. */
static PyObject *get_shape(PyObject *self, void *unused)
{
  PyTypeObject *size = (PyTypeObject *)((py_tensor *)self)->state->size_class;
  const int64_t *sizes = rush_tensor_sizes(tensor_of(self));
  const int n = rush_tensor_n_dims(tensor_of(self));

  if (size) {
    PyObject *t = size->tp_alloc(size, n);
    for (int i = 0; t && i < n; i++) {
      PyObject *item = PyLong_FromLongLong(sizes[i]);
      if (!item)
        Py_CLEAR(t);
      else
        PyTuple_SET_ITEM(t, i, item);
    }
    return t;
  }
  (void)unused;
  return py_ints(rush_tensor_sizes(tensor_of(self)), rush_tensor_n_dims(tensor_of(self)));
}
static PyObject *get_strides(PyObject *self, PyObject *unused)
{
  (void)unused;
  return py_ints(rush_tensor_strides(tensor_of(self)), rush_tensor_n_dims(tensor_of(self)));
}
static PyObject *get_ndim(PyObject *self, void *unused)
{
  (void)unused;
  return PyLong_FromLong(rush_tensor_n_dims(tensor_of(self)));
}
static PyObject *get_dtype(PyObject *self, void *unused)
{
  PyObject *o = ((py_tensor *)self)->state->dtypes[rush_tensor_dtype(tensor_of(self))];

  (void)unused;
  return Py_NewRef(o ? o : Py_None);
}
static PyObject *get_requires_grad(PyObject *self, void *unused)
{
  (void)unused;
  return PyBool_FromLong(rush_tensor_requires_grad(tensor_of(self)));
}
static PyObject *get_is_recorded(PyObject *self, void *unused)
{
  (void)unused;
  return PyBool_FromLong(rush_tensor_is_recorded(tensor_of(self)));
}
static PyObject *get_grad(PyObject *self, void *unused)
{
  rush_value v = rush_tensor_grad(tensor_of(self));
  PyObject *o =
    v.tag == RUSH_TAG_TENSOR ? py_tensor_wrap(((py_tensor *)self)->state, v) : Py_NewRef(Py_None);

  (void)unused;
  rush_value_release(v);
  return o;
}
static int set_grad(PyObject *self, PyObject *value, void *unused)
{
  py_state *st = ((py_tensor *)self)->state;
  rush_error err = RUSH_ERROR_INIT;

  (void)unused;
  if (value && value != Py_None && !Py_IS_TYPE(value, st->tensor_type)) {
    PyErr_Format(PyExc_TypeError, "expected a rushlight.Tensor or None as the gradient, not %s",
                 Py_TYPE(value)->tp_name);
    return -1;
  }
  rush_value v = value && value != Py_None ? ((py_tensor *)value)->value : rush_value_none();
  if (rush_tensor_set_grad(tensor_of(self), v, &err) == RUSH_OK)
    return 0;
  py_raise(st, &err);
  return -1;
}
static bool can_require_grad(rush_dtype d)
{
  switch (d) {
  case RUSH_FLOAT16:
  case RUSH_BFLOAT16:
  case RUSH_FLOAT32:
  case RUSH_FLOAT64:
  case RUSH_COMPLEX32:
  case RUSH_COMPLEX64:
  case RUSH_COMPLEX128:
  case RUSH_FLOAT8_E5M2:
  case RUSH_FLOAT8_E4M3FN:
  case RUSH_FLOAT8_E5M2FNUZ:
  case RUSH_FLOAT8_E4M3FNUZ:
    return true;
  default:
    return false;
  }
}
static int set_requires_grad(PyObject *self, PyObject *value, void *unused)
{
  (void)unused;
  const rush_tensor *t = tensor_of(self);
  const rush_dtype dtype = rush_tensor_dtype(t);
  const char *why = NULL;

  if (value != Py_True && value != Py_False)
    why = "requires_grad must be a bool";
  else if (rush_tensor_is_recorded(t))
    why = value == Py_True
            ? NULL
            : "you can only change requires_grad flags of leaf variables. If you want to use a "
              "computed variable in a "
              "subgraph that doesn't require differentiation use var_no_grad = var.detach().";
  else if (value == Py_True && !can_require_grad(dtype))
    why = "only Tensors of floating point and complex dtype can require gradients";
  if (why) {
    PyErr_SetString(PyExc_RuntimeError, why);
    return -1;
  }
  if (!rush_tensor_is_recorded(t))
    rush_tensor_set_requires_grad(tensor_of(self), value == Py_True);
  return 0;
}
static PyObject *get_device(PyObject *self, void *unused)
{
  (void)self;
  (void)unused;
  return PyUnicode_FromString("cpu");
}
static PyObject *get_transposed(PyObject *self, void *unused)
{
  (void)unused;
  return py_operator(((py_tensor *)self)->state, "aten::numpy_T", &self, 1, NULL);
}

static PyGetSetDef tensor_getset[] = {
    {"shape", get_shape, NULL, "sizes as a tuple of ints", NULL},
    {"ndim", get_ndim, NULL, "number of dimensions", NULL},
    {"dtype", get_dtype, NULL, "data type", NULL},
    {"_device", get_device, NULL, "the device's name", NULL},
    {"requires_grad", get_requires_grad, set_requires_grad, "does it require a gradient?", NULL},
    {"grad", get_grad, set_grad, "what backward() added up, or None", NULL},
    {"is_recorded", get_is_recorded, NULL, "is it a result of a recorded operator?", NULL},
    {"T", get_transposed, NULL, "dimensions reversed, a view", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

/* -- Borders: numpy, DLPack, buffers ----------------------------------------------------------- */

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused)
{
  (void)self;
  (void)unused;
  return Py_BuildValue("(ii)", 1, 0);
}

static int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
  rush_tensor *t = tensor_of(self);
  int n = rush_tensor_n_dims(t);
  const char *format = py_buffer_format(rush_tensor_dtype(t));
  size_t item = rush_dtype_bytes(rush_tensor_dtype(t));

  if (rush_tensor_layout(t) != 0) {
    PyErr_SetString(PyExc_BufferError,
                    "a sparse tensor's elements are in no buffer: use tensor.to_dense() first");
    return -1;
  }
  if (!format) {
    PyErr_Format(PyExc_BufferError, "%s has no buffer format: convert to float32 first",
                 rush_dtype_name(rush_tensor_dtype(t)));
    return -1;
  }
  if (!(flags & PyBUF_STRIDES) && !rush_tensor_is_contiguous(t)) {
    PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous: call .contiguous() first");
    return -1;
  }
  if (flags & PyBUF_WRITABLE && rush_tensor_is_read_only(t)) {
    PyErr_SetString(PyExc_BufferError, "the tensor's memory is read-only: pass a copy");
    return -1;
  }
  Py_ssize_t *dims = PyMem_Malloc(2 * (size_t)(n + 1) * sizeof(*dims));
  if (!dims) {
    PyErr_NoMemory();
    return -1;
  }
  for (int i = 0; i < n; i++) {
    dims[i] = rush_tensor_sizes(t)[i];
    dims[n + i] = rush_tensor_strides(t)[i] * (Py_ssize_t)item;
  }
  *view = (Py_buffer){.buf = flags & PyBUF_WRITABLE ? rush_tensor_data_mut(t)
                                                    : (void *)rush_tensor_data(t),
                      .obj = Py_NewRef(self),
                      .len = rush_tensor_n_elems(t) * (Py_ssize_t)item,
                      .readonly = rush_tensor_is_read_only(t),
                      .itemsize = (Py_ssize_t)item,
                      .ndim = n,
                      .format = flags & PyBUF_FORMAT ? (char *)format : NULL,
                      .shape = dims,
                      .strides = dims + n,
                      .internal = dims};
  return 0;
}
static void tensor_release_buffer(PyObject *self, Py_buffer *view)
{
  (void)self;
  PyMem_Free(view->internal);
}

static PyObject *tensor_numpy(PyObject *self, PyObject *unused)
{
  (void)unused;
  if (rush_tensor_layout(tensor_of(self)) != 0)
    return PyErr_Format(PyExc_TypeError,
                        "can't convert %s layout tensor to numpy. Use Tensor.to_dense() first.",
                        rush_tensor_layout(tensor_of(self)) == 1 ? "Sparse" : "SparseCsr");
  PyObject *numpy = PyImport_ImportModule("numpy");
  PyObject *array = numpy ? PyObject_CallMethod(numpy, "asarray", "O", self) : NULL;
  Py_XDECREF(numpy);
  return array;
}

/* -- Python's own protocols -------------------------------------------------------------------- */

static PyObject *tensor_repr(PyObject *self)
{
  py_tensor *t = (py_tensor *)self;
  rush_error err = RUSH_ERROR_INIT;
  char *text;

  if (rush_value_to_text(t->state->context, t->value, true, &text, &err) != RUSH_OK)
    return py_raise(t->state, &err);
  return py_text_steal(t->state, text);
}

static Py_ssize_t tensor_len(PyObject *self)
{
  rush_tensor *t = tensor_of(self);

  if (rush_tensor_n_dims(t) == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return rush_tensor_sizes(t)[0];
}

static PyObject *tensor_item(PyObject *self, PyObject *unused)
{
  (void)unused;
  return py_operator(((py_tensor *)self)->state, "aten::item", &self, 1, NULL);
}

static PyObject *tensor_tolist(PyObject *self, PyObject *unused)
{
  (void)unused;
  if (rush_tensor_n_dims(tensor_of(self)) == 0)
    return tensor_item(self, NULL);
  PyObject *parts = py_operator(((py_tensor *)self)->state, "aten::unbind.int", &self, 1, NULL);
  PyObject *list = parts ? PyList_New(0) : NULL;
  Py_ssize_t n = parts ? PySequence_Size(parts) : 0;
  for (Py_ssize_t i = 0; list && i < n; i++) {
    PyObject *part = PySequence_GetItem(parts, i);
    PyObject *item = part ? tensor_tolist(part, NULL) : NULL;
    if (py_append_steal(list, item) < 0)
      Py_CLEAR(list);
    Py_XDECREF(part);
  }
  Py_XDECREF(parts);
  return list;
}

static PyObject *as_number(PyObject *self, PyObject *(*convert)(PyObject *))
{
  PyObject *item = tensor_item(self, NULL);
  PyObject *o = item ? convert(item) : NULL;

  Py_XDECREF(item);
  return o;
}
static PyObject *tensor_float(PyObject *self) { return as_number(self, PyNumber_Float); }
static PyObject *tensor_int(PyObject *self) { return as_number(self, PyNumber_Long); }
static int tensor_bool(PyObject *self)
{
  PyObject *item = tensor_item(self, NULL);
  int yes = item ? PyObject_IsTrue(item) : -1;

  Py_XDECREF(item);
  return yes;
}

static PyObject *tensor_index(PyObject *self)
{
  PyObject *item = tensor_item(self, NULL);

  if (item && !PyLong_Check(item)) {
    Py_DECREF(item);
    PyErr_SetString(PyExc_TypeError,
                    "only integer tensors of a single element can be converted to an index");
    return NULL;
  }
  return item;
}

/* True for operands of operators: any library's tensors, and numbers. */
static bool is_operand(PyObject *x)
{
  return py_state_of(x) || PyLong_Check(x) || PyFloat_Check(x) || PyComplex_Check(x) ||
         PyIndex_Check(x) || PyObject_CheckBuffer(x) || PyObject_HasAttrString(x, "__dlpack__");
}

/* Run a binary operator; the state comes from the operand that is ours. */
static PyObject *binary(const char *name, PyObject *a, PyObject *b)
{
  PyObject *args[2] = {a, b};
  py_state *st = py_state_of(a) ? py_state_of(a) : py_state_of(b);

  if (!st || !is_operand(a) || !is_operand(b))
    Py_RETURN_NOTIMPLEMENTED;
  return py_operator(st, name, args, 2, NULL);
}
static PyObject *unary(const char *name, PyObject *a)
{
  return py_operator(py_state_of(a), name, &a, 1, NULL);
}

#define BINARY(fn, name) \
  static PyObject *fn(PyObject *a, PyObject *b) { return binary(name, a, b); }
BINARY(nb_add, "aten::add")
BINARY(nb_mul, "aten::mul")
BINARY(nb_div, "aten::div")
BINARY(nb_floordiv, "aten::floor_divide")
BINARY(nb_mod, "aten::remainder")
BINARY(nb_matmul, "aten::matmul")
BINARY(nb_and, "aten::bitwise_and")
BINARY(nb_or, "aten::bitwise_or")
BINARY(nb_xor, "aten::bitwise_xor")
BINARY(nb_shl, "aten::bitwise_left_shift")
BINARY(nb_shr, "aten::bitwise_right_shift")
BINARY(nb_iadd, "aten::add_")
BINARY(nb_isub, "aten::sub_")
BINARY(nb_imul, "aten::mul_")
BINARY(nb_idiv, "aten::div_")
BINARY(nb_ifloordiv, "aten::floor_divide_")
BINARY(nb_imod, "aten::remainder_")
BINARY(nb_iand, "aten::bitwise_and_")
BINARY(nb_ior, "aten::bitwise_or_")
BINARY(nb_ixor, "aten::bitwise_xor_")
BINARY(nb_ishl, "aten::bitwise_left_shift_")
BINARY(nb_ishr, "aten::bitwise_right_shift_")
static PyObject *nb_sub(PyObject *a, PyObject *b)
{
  return py_state_of(a) ? binary("aten::sub", a, b) : binary("aten::rsub", b, a);
}
static PyObject *nb_pow(PyObject *a, PyObject *b, PyObject *modulus)
{
  if (modulus != Py_None) {
    PyErr_SetString(PyExc_TypeError, "pow() of tensors takes no modulus");
    return NULL;
  }
  return binary("aten::pow", a, b);
}
static PyObject *nb_ipow(PyObject *a, PyObject *b, PyObject *modulus)
{
  (void)modulus; /* None: the statement has no third operand */
  return binary("aten::pow_", a, b);
}
static PyObject *nb_pos(PyObject *a) { return unary("aten::positive", a); }
static PyObject *nb_neg(PyObject *a) { return unary("aten::neg", a); }
static PyObject *nb_abs(PyObject *a) { return unary("aten::abs", a); }
static PyObject *nb_invert(PyObject *a) { return unary("aten::bitwise_not", a); }

static PyObject *tensor_compare(PyObject *a, PyObject *b, int op)
{
  static const char *const names[] = {
    [Py_LT] = "aten::lt", [Py_LE] = "aten::le", [Py_EQ] = "aten::eq",
    [Py_NE] = "aten::ne", [Py_GT] = "aten::gt", [Py_GE] = "aten::ge"};
  if (b == Py_None || PyUnicode_Check(b))
    Py_RETURN_NOTIMPLEMENTED;
  return binary(names[op], a, b);
}

/* Apply x[i], x[i:j], x[..., None], x[mask]: one view operator per index. */
static PyObject *apply_index(py_state *st, PyObject *x, PyObject *index, Py_ssize_t *dim)
{
  PyObject *d = PyLong_FromSsize_t(*dim), *result = NULL;

  if (!d)
    return NULL;
  if (index == Py_None) {
    result = py_operator(st, "aten::unsqueeze", (PyObject *[]){x, d}, 2, NULL);
    ++*dim;
  } else if (PySlice_Check(index)) {
    PySliceObject *s = (PySliceObject *)index;
    PyObject *one = PyLong_FromLong(1);
    result =
      one ? py_operator(st, "aten::slice.Tensor",
                        (PyObject *[]){x, d, s->start, s->stop, s->step == Py_None ? one : s->step},
                        5, NULL)
          : NULL;
    Py_XDECREF(one);
    ++*dim;
  } else if (PyIndex_Check(index) && !py_state_of(index)) {
    result = py_operator(st, "aten::select.int", (PyObject *[]){x, d, index}, 3, NULL);
  } else {
    PyErr_Format(PyExc_TypeError,
                 "indices are ints, slices, None, Ellipsis, lists or tensors, not '%s'",
                 Py_TYPE(index)->tp_name);
  }
  Py_DECREF(d);
  return result;
}

/* True if an index needs only views.  Lists, tensors, booleans and everything else are handled in
 * Python (indexing.py). */
static bool is_basic(PyObject *all)
{
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all); i++) {
    PyObject *x = PyTuple_GET_ITEM(all, i);
    if (x != Py_None && x != Py_Ellipsis && !PySlice_Check(x) &&
        (!PyLong_Check(x) || PyBool_Check(x)))
      return false;
  }
  return true;
}

static PyObject *subscript_by_views(PyObject *self, PyObject *all)
{
  py_state *st = ((py_tensor *)self)->state;
  Py_ssize_t n = PyTuple_GET_SIZE(all), used = 0, dim = 0;

  for (Py_ssize_t i = 0; i < n; i++)
    used += PyTuple_GET_ITEM(all, i) != Py_None && PyTuple_GET_ITEM(all, i) != Py_Ellipsis;
  PyObject *x = Py_NewRef(self);
  for (Py_ssize_t i = 0; x && i < n; i++) {
    PyObject *item = PyTuple_GET_ITEM(all, i);
    if (item == Py_Ellipsis) {
      Py_ssize_t skip = rush_tensor_n_dims(tensor_of(self)) - used;
      dim += skip > 0 ? skip : 0;
      continue;
    }
    PyObject *next = apply_index(st, x, item, &dim);
    Py_SETREF(x, next);
  }
  return x;
}

static PyObject *tensor_subscript(PyObject *self, PyObject *index)
{
  PyObject *all = PyTuple_Check(index) ? Py_NewRef(index) : PyTuple_Pack(1, index), *x;

  if (!all)
    return NULL;
  /* an Ellipsis alone makes a new object, too */
  if (is_basic(all) && !(PyTuple_GET_SIZE(all) == 1 && PyTuple_GET_ITEM(all, 0) == Py_Ellipsis))
    x = subscript_by_views(self, all);
  else
    x = py_package_call(((py_tensor *)self)->state, "get_item", "(OO)", self, index);
  Py_DECREF(all);
  return x;
}

static int tensor_assign(PyObject *self, PyObject *index, PyObject *value)
{
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "elements of a tensor cannot be deleted");
    return -1;
  }
  PyObject *r =
    py_package_call(((py_tensor *)self)->state, "set_item", "(OOO)", self, index, value);
  Py_XDECREF(r);
  return r ? 0 : -1;
}

static PyObject *tensor_iter(PyObject *self)
{
  if (rush_tensor_n_dims(tensor_of(self)) == 0) {
    PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor");
    return NULL;
  }
  PyObject *parts = py_operator(((py_tensor *)self)->state, "aten::unbind.int", &self, 1, NULL);
  PyObject *it = parts ? PyObject_GetIter(parts) : NULL;
  Py_XDECREF(parts);
  return it;
}

static int tensor_contains(PyObject *self, PyObject *item)
{
  PyObject *equal = PyObject_RichCompare(self, item, Py_EQ);
  PyObject *any = equal && py_state_of(equal)
                    ? py_operator(py_state_of(equal), "aten::any", &equal, 1, NULL)
                    : NULL;
  int yes = any ? PyObject_IsTrue(any) : PyErr_Occurred() ? -1 : 0;

  Py_XDECREF(equal);
  Py_XDECREF(any);
  return yes;
}

/* Return any operator that takes self first: x.relu(), x.view(2, 3). */
static PyObject *tensor_getattro(PyObject *self, PyObject *name)
{
  PyObject *found = PyObject_GenericGetAttr(self, name);

  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError))
    return found;
  const char *text = PyUnicode_AsUTF8(name);
  if (!text || text[0] == '_')
    return NULL;
  PyErr_Clear();
  return py_package_call(((py_tensor *)self)->state, "tensor_method", "(OO)", self, name);
}

static PyObject *tensor_data_ptr(PyObject *self, PyObject *unused)
{
  (void)unused;
  if (rush_tensor_layout(tensor_of(self)) != 0) {
    PyErr_SetString(PyExc_RuntimeError,
                    "Cannot access data pointer of Tensor that doesn't have storage");
    return NULL;
  }
  return PyLong_FromVoidPtr((void *)rush_tensor_data(tensor_of(self)));
}

static PyObject *tensor_storage_bytes(PyObject *self, PyObject *unused)
{
  (void)unused;
  return PyLong_FromSize_t(rush_tensor_storage_bytes(tensor_of(self)));
}

PyObject *py_set_size_class(PyObject *m, PyObject *type)
{
  py_state *st = PyModule_GetState(m);

  if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, &PyTuple_Type))
    return PyErr_Format(PyExc_TypeError, "a subclass of tuple");
  Py_XSETREF(st->size_class, Py_NewRef(type));
  Py_RETURN_NONE;
}

static PyMethodDef tensor_methods[] = {
  {"data_ptr", tensor_data_ptr, METH_NOARGS,
   "the address of the first element, to be read: writes there are not seen"},
  {"_storage_bytes", tensor_storage_bytes, METH_NOARGS, "bytes of the memory that views share"},
  {"stride", get_strides, METH_NOARGS, "strides in elements"},
  {"numpy", tensor_numpy, METH_NOARGS, "a numpy array on the same memory"},
  {"tolist", tensor_tolist, METH_NOARGS, "nested lists of numbers"},
  {"__dlpack__", (PyCFunction)(void (*)(void))py_tensor_dlpack, METH_FASTCALL | METH_KEYWORDS,
   "a DLPack capsule"},
  {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, "(1, 0): the CPU"},
  {NULL, NULL, 0, NULL}};

static PyType_Slot tensor_slots[] = {
  {Py_tp_dealloc, tensor_dealloc},
  {Py_tp_doc, "A tensor in memory of Rushlight's, numpy's or torch's."},
  {Py_tp_repr, tensor_repr},
  {Py_tp_getattro, tensor_getattro},
  {Py_tp_methods, tensor_methods},
  {Py_tp_getset, tensor_getset},
  {Py_tp_richcompare, tensor_compare},
  {Py_tp_hash, PyObject_HashNotImplemented},
  {Py_bf_getbuffer, tensor_get_buffer},
  {Py_bf_releasebuffer, tensor_release_buffer},
  {Py_mp_length, tensor_len},
  {Py_mp_subscript, tensor_subscript},
  {Py_mp_ass_subscript, tensor_assign},
  {Py_sq_contains, tensor_contains},
  {Py_tp_iter, tensor_iter},
  {Py_nb_add, nb_add},
  {Py_nb_subtract, nb_sub},
  {Py_nb_multiply, nb_mul},
  {Py_nb_true_divide, nb_div},
  {Py_nb_floor_divide, nb_floordiv},
  {Py_nb_remainder, nb_mod},
  {Py_nb_power, nb_pow},
  {Py_nb_matrix_multiply, nb_matmul},
  {Py_nb_and, nb_and},
  {Py_nb_or, nb_or},
  {Py_nb_xor, nb_xor},
  {Py_nb_lshift, nb_shl},
  {Py_nb_rshift, nb_shr},
  {Py_nb_inplace_add, nb_iadd},
  {Py_nb_inplace_subtract, nb_isub},
  {Py_nb_inplace_multiply, nb_imul},
  {Py_nb_inplace_true_divide, nb_idiv},
  {Py_nb_inplace_floor_divide, nb_ifloordiv},
  {Py_nb_inplace_remainder, nb_imod},
  {Py_nb_inplace_power, nb_ipow},
  {Py_nb_inplace_and, nb_iand},
  {Py_nb_inplace_or, nb_ior},
  {Py_nb_inplace_xor, nb_ixor},
  {Py_nb_inplace_lshift, nb_ishl},
  {Py_nb_inplace_rshift, nb_ishr},
  {Py_nb_index, tensor_index},
  {Py_nb_positive, nb_pos},
  {Py_nb_negative, nb_neg},
  {Py_nb_absolute, nb_abs},
  {Py_nb_invert, nb_invert},
  {Py_nb_float, tensor_float},
  {Py_nb_int, tensor_int},
  {Py_nb_bool, tensor_bool},
  {0, NULL}};
static PyType_Spec tensor_spec = {"rushlight.Tensor", sizeof(py_tensor), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  tensor_slots};

int py_add_tensor_type(PyObject *m, py_state *state)
{
  return (state->tensor_type = py_add_type(m, &tensor_spec)) ? 0 : -1;
}

py_state *py_state_of(PyObject *self)
{
  return Py_TYPE(self)->tp_dealloc == tensor_dealloc ? ((py_tensor *)self)->state : NULL;
}
