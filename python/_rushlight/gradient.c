/* _rushlight/gradient.c -- connects recorded results to torch's autograd. A recorded call becomes
 * one autograd.Function (rushlight/gradients.py) over the call's inputs, so that torch sees a
 * single node and runs our gradients in its backward pass. Views of arguments become torch's views,
 * and tensors that the program wrote to become results. It also implements the gradient host, which
 * provides and receives gradients of leaves for a program's own backward(). */
#include "py.h"

#include <string.h>

/* -- Results of recorded calls ----------------------------------------------------------------- */

/* True if the results become torch's tensors. */
static bool runs_in_torch(py_call *call)
{
  return call->saw_torch || (!call->saw_ours && !call->saw_numpy && py_find_torch(call->state));
}

static bool is_known(const py_call *call, const rush_tensor *t)
{
  for (size_t i = 0; i < call->n_seen; i++)
    if (call->seen[i].tensor.as.tensor == t)
      return true;
  return false;
}

/* Return the argument of torch's that t is a view of, or NULL. */
static const py_seen *viewed(const py_call *call, const rush_tensor *t)
{
  const rush_tensor *base = rush_tensor_base(t);

  for (size_t i = 0; base && i < call->n_seen; i++) {
    const py_seen *s = &call->seen[i];
    if (s->is_torch && s->tensor.as.tensor == base &&
        rush_tensor_dtype(base) == rush_tensor_dtype(t))
      return s;
  }
  return NULL;
}

static int append_tensor(py_state *st, PyObject *list, rush_value v)
{
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++)
    if (((py_tensor *)PyList_GET_ITEM(list, i))->value.as.tensor == v.as.tensor)
      return 0;
  PyObject *o = py_tensor_wrap(st, v);
  int result = o ? PyList_Append(list, o) : -1;
  Py_XDECREF(o);
  return result;
}

/* Return 1 if the container or object was visited before in this walk, else 0; -1 with an exception
 * set. Without this, n lists that hold the one before twice would be visited 2^n times. */
static int was_met(PyObject *met, rush_value v)
{
  if (v.tag != RUSH_TAG_LIST && v.tag != RUSH_TAG_TUPLE && v.tag != RUSH_TAG_DICT &&
      v.tag != RUSH_TAG_OBJECT)
    return 0;
  PyObject *key = PyLong_FromVoidPtr(v.as.heap);
  int found = key ? PySet_Contains(met, key) : -1;

  if (found == 0 && PySet_Add(met, key) < 0)
    found = -1;
  Py_XDECREF(key);
  return found;
}

/* Collect the tensors in v that were recorded; in `leaves` those that only require grad. */
static int collect(py_call *call, rush_value v, PyObject *met, int depth, PyObject *list,
                   PyObject *leaves)
{
  if (v.tag == RUSH_TAG_TENSOR) {
    if (!v.as.tensor || !rush_tensor_requires_grad(v.as.tensor) || is_known(call, v.as.tensor) ||
        viewed(call, v.as.tensor))
      return 0;
    return append_tensor(call->state, rush_tensor_is_recorded(v.as.tensor) ? list : leaves, v);
  }
  const int known = depth > 100 || rush_object_is_module(v) ? 1 : was_met(met, v);
  if (known)
    return known < 0 ? -1 : 0;
  if (v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE) {
    for (size_t i = 0; i < rush_value_len(v); i++)
      if (collect(call, rush_value_item(v, i), met, depth + 1, list, leaves) < 0)
        return -1;
  } else if (v.tag == RUSH_TAG_DICT) {
    for (size_t i = 0; i < rush_value_len(v); i++) {
      rush_value key, value;
      rush_value_entry(v, i, &key, &value);
      if (collect(call, key, met, depth + 1, list, leaves) < 0 ||
          collect(call, value, met, depth + 1, list, leaves) < 0)
        return -1;
    }
  } else if (v.tag == RUSH_TAG_OBJECT) {
    for (size_t i = 0; i < rush_object_n_attrs(v); i++) {
      rush_value item = py_unlocked_object_attr(v, rush_object_attr_name(v, i));
      int result = collect(call, item, met, depth + 1, list, leaves);
      rush_value_release(item);
      if (result < 0)
        return -1;
    }
  }
  return 0;
}

/* True if something in v requires grad, or may: the walk ends after *most values.  Mostly there is
 * none, and nothing to do. */
static bool requires_grad(rush_value v, size_t *most)
{
  if (v.tag == RUSH_TAG_TENSOR)
    return v.as.tensor && rush_tensor_requires_grad(v.as.tensor);
  if (v.tag == RUSH_TAG_OBJECT || v.tag == RUSH_TAG_DICT || (*most)-- == 0)
    return true;
  if (v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE)
    for (size_t i = 0; i < rush_value_len(v); i++)
      if (requires_grad(rush_value_item(v, i), most))
        return true;
  return false;
}

static bool concerns(const py_call *call, const rush_value *values, size_t n)
{
  size_t most = 200; /* containers and numbers; the depth is no more */

  for (size_t i = 0; i < call->n_seen; i++)
    if (rush_tensor_is_recorded(call->seen[i].tensor.as.tensor))
      return true;
  for (size_t i = 0; i < n; i++)
    if (requires_grad(values[i], &most))
      return true;
  return false;
}

/* Make a view of an argument torch's view of it. */
static int connect_view(py_call *call, rush_value v, const py_seen *s)
{
  const rush_tensor *t = v.as.tensor;
  const long long at =
    ((const char *)rush_tensor_data(t) - (const char *)rush_tensor_data(s->tensor.as.tensor)) /
    (long long)rush_dtype_bytes(rush_tensor_dtype(t));
  PyObject *sizes = py_ints(rush_tensor_sizes(t), rush_tensor_n_dims(t));
  PyObject *strides = py_ints(rush_tensor_strides(t), rush_tensor_n_dims(t));
  PyObject *first = PyObject_CallMethod(s->object, "storage_offset", NULL);
  long long offset = first ? PyLong_AsLongLong(first) + at : 0;
  PyObject *o = sizes && strides && first
                  ? PyObject_CallMethod(s->object, "as_strided", "OOL", sizes, strides, offset)
                  : NULL;
  int result = o ? py_remember(call, v, o) : -1;

  Py_XDECREF(sizes);
  Py_XDECREF(strides);
  Py_XDECREF(first);
  Py_XDECREF(o);
  return result;
}

static int connect_views(py_call *call, rush_value v, PyObject *met, int depth)
{
  if (v.tag == RUSH_TAG_TENSOR) {
    const py_seen *s =
      v.as.tensor && !is_known(call, v.as.tensor) && rush_tensor_requires_grad(v.as.tensor)
        ? viewed(call, v.as.tensor)
        : NULL;
    return s ? connect_view(call, v, s) : 0;
  }
  const int known = depth > 100 || rush_object_is_module(v) ? 1 : was_met(met, v);
  if (known)
    return known < 0 ? -1 : 0;
  for (size_t i = 0; i < rush_object_n_attrs(v); i++) {
    rush_value item = py_unlocked_object_attr(v, rush_object_attr_name(v, i));
    int result = connect_views(call, item, met, depth + 1);
    rush_value_release(item);
    if (result < 0)
      return -1;
  }
  for (size_t i = 0; i < rush_value_len(v); i++) {
    rush_value key, item;
    if (v.tag == RUSH_TAG_DICT)
      rush_value_entry(v, i, &key, &item);
    else
      item = rush_value_item(v, i);
    if (connect_views(call, item, met, depth + 1) < 0)
      return -1;
  }
  return 0;
}

static bool overlap(const py_seen *a, const py_seen *b)
{
  const char *p = a->base ? a->base : a->data, *q = b->base ? b->base : b->data;
  const size_t n = a->base ? a->n_bytes : 1, m = b->base ? b->n_bytes : 1;

  return p < q + m && q < p + n;
}

/* Update versions of torch's tensors that the program wrote to: saved tensors on the same memory,
 * which have separate storages here, are no longer valid, and a gradient that needs them is
 * refused. */
static void touch_aliases(py_call *call)
{
  for (size_t i = 0; i < call->n_seen; i++) {
    const py_seen *s = &call->seen[i];
    if (!s->is_torch || rush_tensor_version(s->tensor.as.tensor) == s->version)
      continue;
    for (size_t k = 0; k < call->n_seen; k++)
      if (k != i && call->seen[k].is_torch && overlap(s, &call->seen[k]))
        (void)rush_tensor_data_mut(call->seen[k].tensor.as.tensor);
  }
}

/* Collect arguments of torch's that the program wrote to: they are results too. */
static PyObject *written(py_call *call, PyObject *list)
{
  PyObject *dirty = PyList_New(0);

  for (size_t i = 0; dirty && i < call->n_seen; i++) {
    const py_seen *s = &call->seen[i];
    if (!s->is_torch || !rush_tensor_is_recorded(s->tensor.as.tensor))
      continue;
    Py_ssize_t before = PyList_GET_SIZE(list);
    if (append_tensor(call->state, list, s->tensor) < 0)
      Py_CLEAR(dirty);
    else if (PyList_GET_SIZE(list) > before && PyList_Append(dirty, s->object) < 0)
      Py_CLEAR(dirty);
  }
  return dirty;
}

/* Return torch's object for a leaf, new; NULL without an exception: there is none. */
static PyObject *object_of(py_call *call, rush_tensor *t)
{
  py_state *st = call->state;

  for (size_t i = 0; i < call->n_seen; i++)
    if (call->seen[i].tensor.as.tensor == t)
      return Py_NewRef(call->seen[i].object);
  PyObject *key = PyLong_FromVoidPtr(t);
  PyObject *at = key && st->tensors ? PyDict_GetItem(st->tensors, key) : NULL;
  Py_XDECREF(key);
  PyErr_Clear();
  if (at)
    return Py_NewRef((PyObject *)PyLong_AsVoidPtr(at));
  PyObject *user = py_tensor_object(t);
  return user && PyObject_TypeCheck(user, (PyTypeObject *)st->torch_tensor) ? Py_NewRef(user)
                                                                            : NULL;
}

/* Register the objects that the module returns for its parameters. */
static void look_at_parameters(PyObject *owner)
{
  PyObject *list = owner ? PyObject_CallMethod(owner, "parameters", NULL) : NULL;
  PyObject *all = list ? PySequence_List(list) : NULL;

  PyErr_Clear();
  Py_XDECREF(list);
  Py_XDECREF(all);
}

/* Make an object for a leaf that has none in Python. */
static PyObject *new_leaf(py_call *call, rush_value v)
{
  PyObject *o = py_tensor_to_torch(call->state, v);
  PyObject *r = o ? PyObject_CallMethod(o, "requires_grad_", NULL) : NULL;
  rush_value grad = rush_tensor_grad(v.as.tensor);

  if (r && grad.tag == RUSH_TAG_TENSOR) {
    PyObject *g = py_tensor_to_torch(call->state, grad);
    if (!g || PyObject_SetAttrString(o, "grad", g) < 0)
      Py_CLEAR(r);
    Py_XDECREF(g);
  }
  rush_value_release(grad);
  if (!r || py_remember(call, v, o) < 0)
    Py_CLEAR(o);
  Py_XDECREF(r);
  return o;
}

static PyObject *objects_of(py_call *call, PyObject *owner, PyObject *leaves)
{
  PyObject *objects = PyList_New(PyList_GET_SIZE(leaves));
  bool looked = false;

  for (Py_ssize_t i = 0; objects && i < PyList_GET_SIZE(leaves); i++) {
    rush_value v = ((py_tensor *)PyList_GET_ITEM(leaves, i))->value;
    PyObject *o = object_of(call, v.as.tensor);
    if (!o && !looked) {
      look_at_parameters(owner);
      looked = true;
      o = object_of(call, v.as.tensor);
    }
    if (!o)
      o = new_leaf(call, v);
    if (!o)
      Py_CLEAR(objects);
    else
      PyList_SET_ITEM(objects, i, o);
  }
  return objects;
}

static PyObject *leaves_of(py_state *st, PyObject *list)
{
  Py_ssize_t n = PyList_GET_SIZE(list);
  rush_value *row = PyMem_Calloc(n ? (size_t)n : 1, sizeof(*row)), found;
  rush_error err = RUSH_ERROR_INIT;

  if (!row)
    return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < n; i++)
    row[i] = ((py_tensor *)PyList_GET_ITEM(list, i))->value;
  rush_status status = rush_gradient_leaves(st->context, row, (size_t)n, &found, &err);
  PyMem_Free(row);
  if (status != RUSH_OK)
    return py_raise(st, &err);
  PyObject *leaves = PyList_New(0);
  for (size_t i = 0; leaves && i < rush_value_len(found); i++)
    if (append_tensor(st, leaves, rush_value_item(found, i)) < 0)
      Py_CLEAR(leaves);
  rush_value_release(found);
  return leaves;
}

/* Make results (all of `list`) torch's tensors with a grad_fn; the call's conversion returns
 * them. */
static int connect(py_call *call, PyObject *owner, PyObject *list, PyObject *dirty)
{
  PyObject *leaves =
    py_call_writes(call) < 0
      ? NULL
      : leaves_of(call->state, list); /* torch's versions are watched from here on */
  PyObject *objects = leaves ? objects_of(call, owner, leaves) : NULL;
  PyObject *made = objects ? py_package_call(call->state, "connect", "(OOOO)", list, leaves,
                                             objects, dirty)
                           : NULL;
  int result =
    made && PyList_Check(made) && PyList_GET_SIZE(made) == PyList_GET_SIZE(list) ? 0 : -1;

  for (Py_ssize_t i = 0; result == 0 && i < PyList_GET_SIZE(list); i++) {
    rush_value v = ((py_tensor *)PyList_GET_ITEM(list, i))->value;
    if (!is_known(call, v.as.tensor))
      result = py_remember(call, v, PyList_GET_ITEM(made, i));
  }
  Py_XDECREF(leaves);
  Py_XDECREF(objects);
  Py_XDECREF(made);
  return result;
}

int py_connect(py_call *call, PyObject *owner, const rush_value *values, size_t n)
{
  if (!concerns(call, values, n) || !runs_in_torch(call))
    return 0;
  PyObject *list = PyList_New(0), *leaves = PyList_New(0), *met = PySet_New(NULL);
  int result = list && leaves && met ? 0 : -1;

  touch_aliases(call);
  for (size_t i = 0; result == 0 && i < n; i++)
    result = collect(call, values[i], met, 0, list, leaves);
  PyObject *dirty = result == 0 ? written(call, list) : NULL;
  if (!dirty)
    result = -1;
  if (result == 0 && PyList_GET_SIZE(list))
    result = connect(call, owner, list, dirty);
  if (met)
    PySet_Clear(met);
  for (size_t i = 0; result == 0 && i < n; i++)
    result = connect_views(call, values[i], met, 0);
  if (result == 0 && PyList_GET_SIZE(leaves)) {
    PyObject *objects = objects_of(call, owner, leaves);
    for (Py_ssize_t i = 0; objects && result == 0 && i < PyList_GET_SIZE(leaves); i++) {
      rush_value v = ((py_tensor *)PyList_GET_ITEM(leaves, i))->value;
      result = is_known(call, v.as.tensor) ? 0 : py_remember(call, v, PyList_GET_ITEM(objects, i));
    }
    result = objects ? result : -1;
    Py_XDECREF(objects);
  }
  Py_XDECREF(met);
  Py_XDECREF(list);
  Py_XDECREF(leaves);
  Py_XDECREF(dirty);
  return result;
}

/* -- Gradients that a program computes --------------------------------------------------------- */

/* Return the leaf's tensor of torch's, new, or NULL; an exception may be set. */
static PyObject *torch_leaf(const py_gradient_host *h, rush_value leaf)
{
  PyObject *o = h->call->state->torch_tensor ? object_of(h->call, leaf.as.tensor) : NULL;

  if (!o && h->owner && h->call->state->torch_tensor) {
    look_at_parameters(h->owner);
    o = object_of(h->call, leaf.as.tensor);
  }
  if (o && !PyObject_TypeCheck(o, (PyTypeObject *)h->call->state->torch_tensor))
    Py_CLEAR(o);
  return o;
}

static rush_status get_grad(void *user, rush_value leaf, bool *known, rush_value *grad,
                            rush_error *err)
{
  py_gradient_host *h = user;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *o = torch_leaf(h, leaf), *g = o ? PyObject_GetAttrString(o, "grad") : NULL;
  rush_status st = RUSH_OK;

  *known = o != NULL;
  if (g && g != Py_None && py_to_value(h->call, g, grad) < 0)
    Py_CLEAR(g);
  if (o && !g)
    st = py_fail_in_call(err);
  Py_XDECREF(g);
  Py_XDECREF(o);
  PyGILState_Release(gil);
  return st;
}

/* Convert the gradient to torch's, new, with a history if it was recorded. */
static PyObject *grad_out(py_gradient_host *h, rush_value grad)
{
  if (!rush_tensor_is_recorded(grad.as.tensor))
    return py_tensor_to_torch(h->call->state, grad);
  PyObject *list = PyList_New(0), *none = PyList_New(0), *o = NULL;
  if (list && none && append_tensor(h->call->state, list, grad) == 0 &&
      connect(h->call, h->owner, list, none) == 0)
    o = object_of(h->call, grad.as.tensor);
  Py_XDECREF(list);
  Py_XDECREF(none);
  return o;
}

/* Add a gradient; from there on torch continues. */
static rush_status add_grad(void *user, rush_value leaf, rush_value grad, bool create_graph,
                            bool retain_graph, bool *known, rush_error *err)
{
  py_gradient_host *h = user;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *o = torch_leaf(h, leaf), *g = o ? grad_out(h, grad) : NULL;
  PyObject *r = g ? PyObject_CallMethod(o, "backward", "OOO", g, retain_graph ? Py_True : Py_False,
                                        create_graph ? Py_True : Py_False)
                  : NULL;
  rush_status st = o && !r ? py_fail_in_call(err) : RUSH_OK;

  *known = o != NULL;
  Py_XDECREF(r);
  Py_XDECREF(g);
  Py_XDECREF(o);
  PyGILState_Release(gil);
  return st;
}

const rush_gradient_host *py_host_begin(py_gradient_host *h, py_call *call, PyObject *owner)
{
  *h = (py_gradient_host){
    .host = {.struct_bytes = sizeof h->host, .user = h, .get = get_grad, .add = add_grad},
    .call = call,
    .owner = owner};
  return &h->host;
}

/* -- For gradients.py -------------------------------------------------------------------------- */

static int values_of(PyObject *list, rush_value *row)
{
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
    PyObject *o = PyList_GET_ITEM(list, i);
    row[i] = rush_value_none();
    if (o == Py_None)
      continue;
    if (strcmp(Py_TYPE(o)->tp_name, "rushlight.Tensor") != 0) {
      PyErr_Format(PyExc_TypeError, "expected a rushlight.Tensor, not '%s'", Py_TYPE(o)->tp_name);
      return -1;
    }
    row[i] = ((py_tensor *)o)->value;
  }
  return 0;
}

static PyObject *gradients_out(py_state *st, rush_value *results, Py_ssize_t n)
{
  PyObject *out = PyList_New(n);

  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *o = !out ? NULL
                  : results[i].tag == RUSH_TAG_TENSOR && results[i].as.tensor
                    ? py_tensor_wrap(st, results[i])
                    : Py_NewRef(Py_None);
    if (out && !o)
      Py_CLEAR(out);
    else if (out)
      PyList_SET_ITEM(out, i, o);
    rush_value_release(results[i]);
  }
  return out;
}

/* run_gradients(outputs, gradients of them or None, inputs or None: all leaves, create_graph,
 * retain_graph, allow_unused) */
PyObject *py_run_gradients(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  PyObject *outputs, *grads, *inputs;
  int create, retain, unused;
  rush_error err = RUSH_ERROR_INIT;
  rush_status status;

  if (!PyArg_ParseTuple(args, "O!O!Oppp", &PyList_Type, &outputs, &PyList_Type, &grads, &inputs,
                        &create, &retain, &unused))
    return NULL;
  bool all = inputs == Py_None;
  if (!all && !PyList_Check(inputs))
    return PyErr_Format(PyExc_TypeError, "expected a list of inputs or None, not %s",
                        Py_TYPE(inputs)->tp_name);
  if (PyList_GET_SIZE(grads) != PyList_GET_SIZE(outputs))
    return PyErr_Format(PyExc_TypeError, "%zd gradients for %zd outputs", PyList_GET_SIZE(grads),
                        PyList_GET_SIZE(outputs));
  Py_ssize_t n = PyList_GET_SIZE(outputs), n_in = all ? 0 : PyList_GET_SIZE(inputs);
  rush_value *row = PyMem_Calloc((size_t)(2 * n + 2 * n_in + 1), sizeof(*row)),
             *results = row + 2 * n + n_in;
  PyObject *out = NULL;

  if (!row)
    return PyErr_NoMemory();
  rush_gradient_options o = {sizeof(o), create != 0, retain != 0, unused != 0};
  if (py_sync_default_dtype(st) < 0 || values_of(outputs, row) < 0 ||
      values_of(grads, row + n) < 0 || (!all && values_of(inputs, row + 2 * n) < 0))
    goto done;
  Py_BEGIN_ALLOW_THREADS status = all
                                    ? rush_backward(st->context, row, row + n, (size_t)n, &o, &err)
                                    : rush_gradients(st->context, row, row + n, (size_t)n,
                                                     row + 2 * n, (size_t)n_in, &o, results, &err);
  Py_END_ALLOW_THREADS
  if (status != RUSH_OK)
    py_raise(st, &err);
  else
    out = gradients_out(st, results, n_in);
done:
  PyMem_Free(row);
  return out;
}

static PyObject *not_tensor(PyObject *o)
{
  return PyErr_Format(PyExc_TypeError, "expected a rushlight.Tensor, not %s", Py_TYPE(o)->tp_name);
}

PyObject *py_gradient_leaves(PyObject *m, PyObject *list)
{
  if (!PyList_Check(list))
    return PyErr_Format(PyExc_TypeError, "expected a list of tensors, not %s",
                        Py_TYPE(list)->tp_name);
  return leaves_of(PyModule_GetState(m), list);
}

PyObject *py_to_torch(PyObject *m, PyObject *o)
{
  py_state *st = PyModule_GetState(m);

  if (!Py_IS_TYPE(o, st->tensor_type))
    return not_tensor(o);
  if (!py_find_torch(st))
    return PyErr_Format(PyExc_RuntimeError,
                        "torch is not imported: there is nothing to make a tensor of torch with");
  rush_value v = ((py_tensor *)o)->value, plain;
  rush_error err = RUSH_ERROR_INIT;
  size_t n;
  if (rush_op_call(st->context, "aten::detach", &v, 1, NULL, 0, &plain, 1, &n, &err) != RUSH_OK)
    return py_raise(st, &err);
  PyObject *out = py_tensor_to_torch(st, plain); /* which then does not hold on to the records */
  rush_value_release(plain);
  return out;
}

PyObject *py_from_torch(PyObject *m, PyObject *o)
{
  py_call call = {.state = PyModule_GetState(m)};
  PyObject *out = NULL;
  rush_value v;

  if (py_to_value(&call, o, &v) == 0) {
    out = py_tensor_wrap(call.state, v);
    rush_value_release(v);
  }
  py_call_end(&call);
  return out;
}

/* Record a write to a tensor's memory that the library did not make. */
PyObject *py_touch(PyObject *m, PyObject *o)
{
  py_state *st = PyModule_GetState(m);

  if (!Py_IS_TYPE(o, st->tensor_type))
    return not_tensor(o);
  (void)rush_tensor_data_mut(((py_tensor *)o)->value.as.tensor);
  Py_RETURN_NONE;
}

PyObject *py_address(PyObject *m, PyObject *o)
{
  py_state *st = PyModule_GetState(m);

  if (!Py_IS_TYPE(o, st->tensor_type))
    return not_tensor(o);
  return PyLong_FromVoidPtr(((py_tensor *)o)->value.as.tensor);
}
