/* _rushlight/module_slots.c -- reading and setting attributes of programs' objects from Python.
 *
 * A module's cache has the object of each attribute that was read: (object, our tensor or None,
 * address of its elements).  Parameters and submodules thereby keep their identity, and the program
 * follows when torch gives a parameter other memory. */
#include "layout.h"
#include "module.h"
#include "rushlight/script.h"

#include <string.h>

/* Add the object of a tensor of ours to st->tensors, or remove it; the table contains it while a
 * cache has the pair. */
static void publish(py_state *st, PyObject *entry, bool on)
{
  PyObject *tensor = PyTuple_GET_ITEM(entry, 1);

  if (tensor == Py_None)
    return;
  PyObject *key = PyLong_FromVoidPtr(((py_tensor *)tensor)->value.as.tensor),
           *at = PyLong_FromVoidPtr(PyTuple_GET_ITEM(entry, 0));
  if (!st->tensors)
    st->tensors = PyDict_New();
  PyObject *now = key && st->tensors ? PyDict_GetItem(st->tensors, key) : NULL;
  if (key && at && st->tensors && on)
    (void)!PyDict_SetItem(st->tensors, key, at);
  else if (now && PyLong_AsVoidPtr(now) == PyTuple_GET_ITEM(entry, 0))
    (void)!PyDict_DelItem(st->tensors, key);
  PyErr_Clear(); /* only identity is lost */
  Py_XDECREF(key);
  Py_XDECREF(at);
}

void py_slots_forget(py_module *m)
{
  PyObject *name, *entry;
  Py_ssize_t i = 0;

  while (m->cache && PyDict_Next(m->cache, &i, &name, &entry))
    publish(m->state, entry, false);
}

/* Return the address of the elements of a tensor of torch's; NULL: unknown. */
static void *elements_of(py_state *st, PyObject *o)
{
  py_geometry g;

  if (!st->torch_tensor || !st->layout ||
      !PyObject_TypeCheck(o, (PyTypeObject *)st->torch_tensor) ||
      !py_layout_read(st->layout, o, &g))
    return NULL;
  return g.data;
}

/* Cache the object for the attribute while its value is v: (object, our tensor, address of its
 * elements). */
static int module_remember(py_module *m, PyObject *name, PyObject *o, rush_value v)
{
  PyObject *tensor = v.tag == RUSH_TAG_TENSOR ? py_tensor_wrap(m->state, v) : Py_NewRef(Py_None);
  PyObject *at = tensor ? PyLong_FromVoidPtr(elements_of(m->state, o)) : NULL;
  PyObject *entry = at ? PyTuple_Pack(3, o, tensor, at) : NULL;

  if (!m->cache)
    m->cache = PyDict_New();
  PyObject *old = m->cache ? PyDict_GetItem(m->cache, name) : NULL;
  if (old)
    publish(m->state, old, false);
  int result = entry && m->cache ? PyDict_SetItem(m->cache, name, entry) : -1;
  if (result == 0)
    publish(m->state, entry, true);
  Py_XDECREF(tensor);
  Py_XDECREF(at);
  Py_XDECREF(entry);
  return result;
}

static bool is_wrapper_of(py_state *st, PyObject *entry, rush_value v)
{
  PyObject *o = PyTuple_GET_ITEM(entry, 0), *tensor = PyTuple_GET_ITEM(entry, 1);

  if (tensor != Py_None)
    return v.tag == RUSH_TAG_TENSOR && ((py_tensor *)tensor)->value.as.tensor == v.as.tensor;
  return v.tag == RUSH_TAG_OBJECT && PyObject_TypeCheck(o, st->module_type) &&
         ((py_module *)o)->module &&
         rush_module_value(((py_module *)o)->module).as.heap == v.as.heap;
}

/* Return the cached object of the attribute, new; NULL without an exception. */
static PyObject *module_recall(py_module *m, PyObject *name, rush_value v)
{
  PyObject *entry = m->cache ? PyDict_GetItem(m->cache, name) : NULL;

  return entry && is_wrapper_of(m->state, entry, v) ? Py_NewRef(PyTuple_GET_ITEM(entry, 0)) : NULL;
}

/* True if the object's memory is read-only. */
static bool is_read_only(PyObject *o)
{
  Py_buffer b;

  if (!PyObject_CheckBuffer(o) || PyObject_GetBuffer(o, &b, PyBUF_FULL_RO) < 0) {
    PyErr_Clear();
    return false;
  }
  const bool yes = b.readonly;
  PyBuffer_Release(&b);
  return yes;
}

/* Copy requires_grad of torch's tensor to ours. */
static void follow_grad(py_state *st, PyObject *o, rush_tensor *t)
{
  if (!st->torch_tensor || !PyObject_TypeCheck(o, (PyTypeObject *)st->torch_tensor) ||
      rush_tensor_is_recorded(t))
    return;
  PyObject *grad = PyObject_GetAttr(o, st->name_requires_grad);
  if (grad && (grad == Py_True) != rush_tensor_requires_grad(t)) {
    PyObject *leaf = PyObject_GetAttrString(o, "is_leaf");
    rush_tensor_set_requires_grad(t, grad == Py_True);
    rush_tensor_set_leaf(t, grad != Py_True || leaf == Py_True);
    Py_XDECREF(leaf);
  }
  PyErr_Clear();
  Py_XDECREF(grad);
}

static bool attr_is_tensor(rush_value object, const char *name)
{
  const rush_type *t = rush_object_type(object), *of;
  const char *have;

  for (size_t i = 0; t && (have = rush_class_attr(t, i, &of, NULL)) != NULL; i++)
    if (strcmp(have, name) == 0)
      return rush_type_kind_of(of) == RUSH_TYPE_TENSOR;
  return false;
}

/* Copy a tensor on read-only memory: a program may write to its attributes.  Steals *v on
 * failure. */
static int own_memory(py_state *st, rush_value *v)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value copy;

  if (v->tag != RUSH_TAG_TENSOR || !v->as.tensor || !rush_tensor_is_read_only(v->as.tensor))
    return 0;
  const rush_status status = py_clone(st, *v, &copy, &err);
  rush_value_release(*v);
  if (status != RUSH_OK) {
    py_raise(st, &err);
    return -1;
  }
  *v = copy;
  return 0;
}

int py_set_attr(py_state *st, rush_value object, PyObject *name, PyObject *o)
{
  const char *text = PyUnicode_AsUTF8(name);
  py_call call = {.state = st, .takes_meta = true};
  rush_error err = RUSH_ERROR_INIT;
  int result = -1;
  rush_value v;

  if (!text)
    return -1;
  if (!o) {
    PyErr_Format(PyExc_AttributeError, "attribute '%s' cannot be deleted", text);
    return -1;
  }
  bool is_number = PyLong_Check(o) || PyFloat_Check(o) ||
                   PyComplex_Check(o); /* an argument would become a tensor */
  if (is_number && attr_is_tensor(object, text)) {
    PyErr_Format(PyExc_TypeError, "Unable to cast %S to Tensor", (PyObject *)Py_TYPE(o));
    return -1;
  }
  if (py_to_value(&call, o, &v) == 0 && own_memory(st, &v) == 0) {
    if (py_unlocked_object_set_attr(st->context, object, text, v, &err) == RUSH_OK)
      result = 0;
    else
      py_raise(st, &err);
    rush_value_release(v);
  }
  py_call_end(&call);
  return result;
}

int py_slot_set(py_module *m, PyObject *name, PyObject *o)
{
  rush_value object = rush_module_value(m->module);
  bool torchs =
    py_find_torch(m->state) && PyObject_TypeCheck(o, (PyTypeObject *)m->state->torch_tensor);
  PyObject *alias = torchs ? PyObject_CallMethod(o, "detach", NULL)
                           : Py_NewRef(o); /* keeps the memory, whatever happens to o */
  int set = alias ? py_set_attr(m->state, object, name, alias) : -1;

  Py_XDECREF(alias);
  if (set < 0)
    return -1;
  rush_value v = py_unlocked_object_attr(object, PyUnicode_AsUTF8(name));
  if (v.tag == RUSH_TAG_TENSOR && v.as.tensor &&
      is_read_only(o)) { /* v is a copy, not o's value */
    rush_value_release(v);
    return 0;
  }
  if (torchs && v.tag == RUSH_TAG_TENSOR && v.as.tensor)
    follow_grad(m->state, o, v.as.tensor);
  int result =
    v.tag == RUSH_TAG_TENSOR || rush_object_is_module(v) ? module_remember(m, name, o, v) : 0;
  rush_value_release(v);
  return result;
}

/* Make the program use the present memory of torch's tensors (`p.data = ...`, `module.to(...)`). */
int py_module_refresh(py_module *m)
{
  PyObject *name, *entry;
  Py_ssize_t i = 0;

  if (!m->cache || Py_EnterRecursiveCall(" in a module's submodules"))
    return m->cache ? -1 : 0;
  int result = 0;
  while (result == 0 && PyDict_Next(m->cache, &i, &name, &entry)) {
    PyObject *o = PyTuple_GET_ITEM(entry, 0);
    if (PyTuple_GET_ITEM(entry, 1) == Py_None) {
      result = py_module_refresh((py_module *)o);
      continue;
    }
    void *at = elements_of(m->state, o), *was = PyLong_AsVoidPtr(PyTuple_GET_ITEM(entry, 2));
    if (at == was)
      follow_grad(m->state, o, ((py_tensor *)PyTuple_GET_ITEM(entry, 1))->value.as.tensor);
    if (at == was || !at)
      continue;
    rush_value v = py_unlocked_object_attr(rush_module_value(m->module), PyUnicode_AsUTF8(name));
    if (is_wrapper_of(m->state, entry, v))
      result = py_slot_set(m, name, o); /* the key is there: the dict keeps its form */
    rush_value_release(v);
  }
  Py_LeaveRecursiveCall();
  return result;
}

/* Convert the attribute to an object: parameters and submodules are the same in every read.  A
 * tensor is converted to torch's by the class' _parameter. */
static PyObject *slot_out(py_module *m, PyObject *name, rush_value v)
{
  bool keeps = v.tag == RUSH_TAG_TENSOR || rush_object_is_module(v);
  bool is_recorded =
    v.tag == RUSH_TAG_TENSOR && v.as.tensor && rush_tensor_is_recorded(v.as.tensor);
  PyObject *o = keeps ? module_recall(m, name, v) : NULL;

  if (o)
    return o;
  if (rush_object_is_module(v)) {
    o = py_module_wrap(m->state, v, m->module);
  } else {
    py_call call = {.state = m->state};
    o = is_recorded && py_connect(&call, (PyObject *)m, &v, 1) < 0 ? NULL : py_from_value(&call, v);
    py_call_end(&call);
  }
  if (o && v.tag == RUSH_TAG_TENSOR && rush_tensor_requires_grad(v.as.tensor) && !is_recorded &&
      PyObject_SetAttrString(o, "requires_grad", Py_True) < 0)
    Py_CLEAR(o);
  if (o && v.tag == RUSH_TAG_TENSOR && !is_recorded &&
      PyObject_HasAttrString((PyObject *)m, "_parameter")) {
    PyObject *made = PyObject_CallMethod((PyObject *)m, "_parameter", "OO", name, o);
    Py_SETREF(o, made);
  }
  if (o && keeps && module_remember(m, name, o, v) < 0)
    Py_CLEAR(o);
  return o;
}

/* Return the value of an attribute of the program, new; NULL: an exception is set, or (without one)
 * there is none. */
PyObject *py_slot_get(py_module *m, PyObject *name)
{
  const char *text = PyUnicode_AsUTF8(name);
  rush_value v = text && m->module ? py_unlocked_object_attr(rush_module_value(m->module), text)
                                   : (rush_value){.tag = RUSH_TAG_UNSET};

  if (v.tag == RUSH_TAG_UNSET)
    return NULL;
  PyObject *o = slot_out(m, name, v);
  rush_value_release(v);
  return o;
}

bool py_slot_exists(py_module *m, const char *name)
{
  rush_value object = rush_module_value(m->module);

  for (size_t i = 0; i < rush_object_n_attrs(object); i++)
    if (strcmp(rush_object_attr_name(object, i), name) == 0)
      return true;
  return false;
}

/* Use the same value that another module has for the same object. */
int py_slot_share(py_module *m, PyObject *name, PyObject *o, py_module *like, const char *there)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value v = py_unlocked_object_attr(rush_module_value(like->module), there);
  int result = 0;

  if (v.tag == RUSH_TAG_UNSET ||
      py_unlocked_object_set_attr(m->state->context, rush_module_value(m->module),
                                  PyUnicode_AsUTF8(name), v, &err) != RUSH_OK) {
    py_raise(m->state, &err);
    result = -1;
  }
  if (result == 0)
    result = module_remember(m, name, o, v);
  rush_value_release(v);
  return result;
}
