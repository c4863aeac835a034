/* module.c -- the type of modules.
 *
 * A Module represents an object of a program; attributes are converted when they are read and
 * cached, so that parameters and submodules keep their identity. */
#include "layout.h"
#include "limits.h"
#include "script.h"
#include "ir.h"

#include <string.h>

/* -- Small things ------------------------------------------------------------------------------ */

PyObject *py_no_program(void)
{
  PyErr_SetString(PyExc_AttributeError, "the module is no program (yet)");
  return NULL;
}
PyObject *py_module_dump(py_module *self, rush_dump what, const char *method)
{
  rush_error err = RUSH_ERROR_INIT;
  char *text;

  if (!self->module)
    return py_no_program();
  if (py_unlocked_module_dump(self->module, what, method, &text, &err) != RUSH_OK)
    return py_raise(self->state, &err);
  return py_text_steal(self->state, text);
}
/* -- Modules ----------------------------------------------------------------------------------- */

/* Register the Module of an object: a result of a program that is this object becomes the same
 * Module. */
static void module_enrol(py_module *m)
{
  PyObject *key = PyLong_FromVoidPtr(rush_module_value(m->module).as.heap),
           *at = PyLong_FromVoidPtr(m);

  if (!m->state->modules)
    m->state->modules = PyDict_New();
  if (!key || !at || !m->state->modules || PyDict_SetItem(m->state->modules, key, at) < 0)
    PyErr_Clear(); /* only identity is lost */
  Py_XDECREF(key);
  Py_XDECREF(at);
}
static py_module *module_enrolled(py_state *st, rush_value object)
{
  PyObject *key = PyLong_FromVoidPtr(object.as.heap);
  PyObject *at = key && st->modules ? PyDict_GetItem(st->modules, key) : NULL;

  Py_XDECREF(key);
  return at ? PyLong_AsVoidPtr(at) : NULL;
}
static void module_leave(py_module *m)
{
  if (!m->module || module_enrolled(m->state, rush_module_value(m->module)) != m)
    return;
  PyObject *key = PyLong_FromVoidPtr(rush_module_value(m->module).as.heap);
  if (!key || PyDict_DelItem(m->state->modules, key) < 0)
    PyErr_Clear();
  Py_XDECREF(key);
}

/* Add or remove the object of a tensor of ours in st->tensors, which has it while a cache has the
 * pair. */
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
static void unpublish_all(py_module *m)
{
  PyObject *name, *entry;
  Py_ssize_t i = 0;

  while (m->cache && PyDict_Next(m->cache, &i, &name, &entry))
    publish(m->state, entry, false);
}

static int module_traverse(PyObject *self, visitproc visit, void *arg)
{
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((py_module *)self)->cache);
  Py_VISIT(((py_module *)self)->trees);
  Py_VISIT(((py_module *)self)->recorder);
  return 0;
}
static int module_clear(PyObject *self)
{
  PyObject *type, *value, *tb;

  PyErr_Fetch(&type, &value, &tb); /* a module may go while an exception passes */
  unpublish_all((py_module *)self);
  Py_CLEAR(((py_module *)self)->cache);
  Py_CLEAR(((py_module *)self)->trees);
  Py_CLEAR(((py_module *)self)->recorder);
  PyErr_Restore(type, value, tb);
  return 0;
}
static void module_dealloc(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);

  PyObject_GC_UnTrack(self);
  module_leave((py_module *)self);
  module_clear(self);
  rush_module_release(((py_module *)self)->module);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject *module_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  py_module *m = (py_module *)type->tp_alloc(type, 0);
  PyTypeObject *ours = type;

  (void)args;
  (void)kwargs;
  while (ours->tp_dealloc != module_dealloc)
    ours = ours->tp_base;
  if (m)
    m->state = PyType_GetModuleState(ours);
  return (PyObject *)m;
}

static bool has_hooks(rush_module *module)
{
  const rush_type *t = rush_module_format(module) == RUSH_FORMAT_TORCHSCRIPT
                         ? rush_object_type(rush_module_value(module))
                         : NULL;

  return t && (rush_class_hook(t, 0, true) || rush_class_hook(t, 0, false));
}

/* Set m->trees for an exported program that has some.  Returns 0, or -1 with an exception set. */
static int find_trees(py_module *m)
{
  rush_error err = RUSH_ERROR_INIT;
  char *text;

  if (rush_module_format(m->module) != RUSH_FORMAT_EXPORT)
    return 0;
  if (py_unlocked_module_dump(m->module, RUSH_DUMP_TREES, NULL, &text, &err) != RUSH_OK) {
    py_raise(m->state, &err);
    return -1;
  }
  const bool has_trees = *text != 0;
  PyObject *part = has_trees ? PyImport_ImportModule("rushlight.pytree") : NULL;
  if (part)
    m->trees = PyObject_CallMethod(part, "Trees", "s", text);
  Py_XDECREF(part);
  rush_free_text(m->state->context, text);
  return has_trees && !m->trees ? -1 : 0;
}

/* Make a module; the method _construct of Python subclasses completes it. */
PyObject *py_module_make(py_state *st, PyTypeObject *type, rush_module *steal)
{
  py_module *m = (py_module *)type->tp_alloc(type, 0);

  if (!m) {
    rush_module_release(steal);
    return NULL;
  }
  m->module = steal;
  m->state = st;
  m->is_hooked = has_hooks(steal);
  module_enrol(m);
  if (find_trees(m) < 0) {
    Py_DECREF(m);
    return NULL;
  }
  PyObject *construct = PyObject_GetAttrString((PyObject *)type, "_construct");
  PyObject *done = construct ? PyObject_CallOneArg(construct, (PyObject *)m) : NULL;
  if (!construct && PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    return (PyObject *)m;
  }
  Py_XDECREF(construct);
  if (!done)
    Py_CLEAR(m);
  Py_XDECREF(done);
  return (PyObject *)m;
}

PyObject *py_module_wrap(py_state *st, rush_value object, rush_module *root)
{
  py_module *there = module_enrolled(st, object);
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;

  if (there)
    return Py_NewRef((PyObject *)there);
  if (rush_module_around(st->context, object, root, &m, &err) != RUSH_OK)
    return py_raise(st, &err);
  return py_module_wrap_steal(st, m);
}

static bool has_method(py_module *m, const char *name)
{
  for (size_t i = 0; i < rush_module_n_methods(m->module); i++)
    if (strcmp(rush_module_method_name(m->module, i), name) == 0)
      return true;
  return false;
}

static PyObject *module_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
  py_module *m = (py_module *)self;
  bool python = m->is_hooked || !m->module || !has_method(m, "forward");
  PyObject *forward =
    python ? PyObject_GetAttrString(self, "_call_impl") : py_method_new(m->state, self, "forward");
  PyObject *out = forward ? PyObject_Call(forward, args, kwargs) : NULL;

  Py_XDECREF(forward);
  return out;
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
static int set_slot(py_module *m, PyObject *name, PyObject *o);

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
      result = set_slot(m, name, o); /* the key is there: the dict keeps its form */
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
static PyObject *module_slot(py_module *m, PyObject *name)
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

/* The program's methods have priority over those of Python's classes, Python's other attributes
 * over the program's. */
static PyObject *module_getattro(PyObject *self, PyObject *name)
{
  PyObject *found = PyObject_GenericGetAttr(self, name);
  py_module *m = (py_module *)self;

  if (!m->module || (!found && !PyErr_ExceptionMatches(PyExc_AttributeError)))
    return found;
  const char *text = PyUnicode_AsUTF8(name);
  if (found) {
    if (text && text[0] != '_' && has_method(m, text))
      Py_SETREF(found, py_method_new(m->state, self, text));
    return found;
  }
  if (!text || (text[0] == '_' && text[1] == '_'))
    return NULL;
  PyObject *type, *value, *tb;
  PyErr_Fetch(&type, &value, &tb);
  found = has_method(m, text) ? py_method_new(m->state, self, text) : module_slot(m, name);
  if (found || PyErr_Occurred()) {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(tb);
    return found;
  }
  found = PyObject_CallMethod(self, "_missing", "O", name);
  if (!found && !PyErr_ExceptionMatches(PyExc_AttributeError)) {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(tb);
  } else if (!found) {
    PyErr_Restore(type, value, tb);
  }
  return found;
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

/* Copy a tensor on read-only memory: a program may write to what it keeps.  Steals *v on
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
static bool has_slot(py_module *m, const char *name)
{
  rush_value object = rush_module_value(m->module);

  for (size_t i = 0; i < rush_object_n_attrs(object); i++)
    if (strcmp(rush_object_attr_name(object, i), name) == 0)
      return true;
  return false;
}
static int set_slot(py_module *m, PyObject *name, PyObject *o)
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
      is_read_only(o)) { /* v is a copy, which o does not stand for */
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
/* Use the same value that another module has for the same object. */
static int share_slot(py_module *m, PyObject *name, PyObject *o, py_module *like, const char *there)
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
/* Set an attribute of the program; returns False if it has none of this name.  (Without
 * tp_setattro, since nn.Module could not be a base then.) */
static PyObject *module_set(PyObject *self, PyObject *args)
{
  py_module *m = (py_module *)self, *like = NULL;
  PyObject *name, *o;
  const char *there = NULL;

  if (!PyArg_ParseTuple(args, "UO|O!s", &name, &o, m->state->module_type, &like, &there))
    return NULL;
  const char *text = PyUnicode_AsUTF8(name);
  if (like && there && like->module && text)
    return share_slot(m, name, o, like, there) < 0 ? NULL : Py_NewRef(Py_True);
  if (!m->module || !text || (text[0] == '_' && text[1] == '_') || !has_slot(m, text))
    return text ? Py_NewRef(Py_False) : NULL;
  return set_slot(m, name, o) < 0 ? NULL : Py_NewRef(Py_True);
}

static PyObject *module_py_slot(PyObject *self, PyObject *name)
{
  PyObject *o = module_slot((py_module *)self, name);

  if (!o && !PyErr_Occurred())
    PyErr_SetObject(PyExc_AttributeError, name);
  return o;
}
/* Return a method of the program, whatever Python's class has of that name. */
static PyObject *module_program_method(PyObject *self, PyObject *name)
{
  py_module *m = (py_module *)self;
  const char *text = PyUnicode_AsUTF8(name);

  if (!text)
    return NULL;
  if (!m->module ||
      !(has_method(m, text) || rush_object_has_method(rush_module_value(m->module), text))) {
    PyErr_SetObject(PyExc_AttributeError, name);
    return NULL;
  }
  return py_method_new(m->state, self, text);
}
/* Return (name, kind) of every attribute, in order. */
static PyObject *module_slots_list(PyObject *self, PyObject *unused)
{
  py_module *m = (py_module *)self;
  rush_value object = m->module ? rush_module_value(m->module) : rush_value_none();
  size_t n = rush_object_n_attrs(object);
  PyObject *list = PyList_New((Py_ssize_t)n);

  (void)unused;
  for (size_t i = 0; list && i < n; i++) {
    PyObject *item =
      Py_BuildValue("(sI)", rush_object_attr_name(object, i), rush_object_slot_kind(object, i));
    if (!item)
      Py_CLEAR(list);
    else
      PyList_SET_ITEM(list, (Py_ssize_t)i, item);
  }
  return list;
}
/* Use the program of another module, with its state. */
static PyObject *module_adopt(PyObject *self, PyObject *other)
{
  py_module *m = (py_module *)self, *from = (py_module *)other;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *made;

  if (!PyObject_TypeCheck(other, m->state->module_type) || !from->module)
    return PyErr_Format(PyExc_TypeError, "_adopt() takes a module");
  if (rush_module_around(m->state->context, rush_module_value(from->module), from->module, &made,
                         &err) != RUSH_OK)
    return py_raise(m->state, &err);
  module_leave(m);
  unpublish_all(m);
  rush_module_release(m->module);
  m->module = made;
  module_enrol(m);
  Py_XSETREF(m->trees, Py_XNewRef(from->trees));
  Py_XSETREF(m->cache, from->cache ? PyDict_Copy(from->cache) : NULL);
  Py_RETURN_NONE;
}
static PyObject *module_is_script(PyObject *self, void *unused)
{
  (void)unused;
  return PyBool_FromLong(((py_module *)self)->module != NULL);
}
static PyObject *module_class_name(PyObject *self, void *unused)
{
  py_module *m = (py_module *)self;
  const char *name = m->module ? rush_value_class(rush_module_value(m->module)) : NULL;

  (void)unused;
  return name ? PyUnicode_FromString(name) : Py_NewRef(Py_None);
}
static PyObject *module_same(PyObject *self, PyObject *other)
{
  py_module *a = (py_module *)self, *b = (py_module *)other;

  return PyBool_FromLong(
    PyObject_TypeCheck(other, a->state->module_type) && a->module && b->module &&
    rush_module_value(a->module).as.heap == rush_module_value(b->module).as.heap);
}

/* Set `training` of an object and of all below it. */
static int set_training(py_state *st, rush_value object, bool on)
{
  rush_error err = RUSH_ERROR_INIT;

  for (size_t i = 0; i < rush_object_n_attrs(object); i++) {
    const char *name = rush_object_attr_name(object, i);
    rush_value v = py_unlocked_object_attr(object, name);
    int result = 0;
    if (v.tag == RUSH_TAG_OBJECT)
      result = set_training(st, v, on);
    else if (strcmp(name, "training") == 0 && v.tag == RUSH_TAG_BOOL &&
             py_unlocked_object_set_attr(st->context, object, name, rush_value_bool(on), &err) !=
               RUSH_OK) {
      py_raise(st, &err);
      result = -1;
    }
    rush_value_release(v);
    if (result < 0)
      return -1;
  }
  return 0;
}
static PyObject *module_set_training(PyObject *self, PyObject *arg)
{
  int on = PyObject_IsTrue(arg);

  if (!((py_module *)self)->module)
    return py_no_program();
  if (on < 0 || set_training(((py_module *)self)->state,
                             rush_module_value(((py_module *)self)->module), on) < 0)
    return NULL;
  Py_RETURN_NONE;
}

static PyObject *module_methods(PyObject *self, PyObject *unused)
{
  py_module *m = (py_module *)self;
  size_t n = m->module ? rush_module_n_methods(m->module) : 0;
  PyObject *list = PyList_New((Py_ssize_t)n);

  (void)unused;
  for (size_t i = 0; list && i < n; i++) {
    PyObject *name = PyUnicode_FromString(rush_module_method_name(m->module, i));
    if (!name)
      Py_CLEAR(list);
    else
      PyList_SET_ITEM(list, (Py_ssize_t)i, name);
  }
  return list;
}

static PyObject *module_state(PyObject *self, PyObject *args)
{
  py_module *m = (py_module *)self;
  py_call call = {.state = m->state};
  rush_error err = RUSH_ERROR_INIT;
  int parameters_only = 0;
  if (!m->module)
    return py_no_program();
  PyObject *d = PyArg_ParseTuple(args, "|p", &parameters_only) ? PyDict_New() : NULL;

  for (size_t i = 0, n = d ? py_unlocked_module_n_state(m->module) : 0; i < n; i++) {
    rush_value v;
    bool is_parameter;
    char *name;
    if (py_unlocked_module_state_at(m->module, i, &name, &is_parameter, &v, &err) != RUSH_OK) {
      py_raise(m->state, &err);
      Py_CLEAR(d);
      break;
    }
    PyObject *o = is_parameter || !parameters_only ? py_from_value(&call, v) : Py_NewRef(Py_None);
    if (o && (is_parameter || !parameters_only) && PyDict_SetItemString(d, name, o) < 0)
      Py_CLEAR(o);
    rush_free_text(m->state->context, name);
    rush_value_release(v);
    if (!o) {
      Py_CLEAR(d);
      break;
    }
    Py_DECREF(o);
  }
  py_call_end(&call);
  return d;
}

static PyObject *module_set_state(PyObject *self, PyObject *args)
{
  py_module *m = (py_module *)self;
  py_call call = {.state = m->state};
  rush_error err = RUSH_ERROR_INIT;
  const char *name;
  PyObject *o, *result = NULL;
  rush_value v;

  if (!m->module)
    return py_no_program();
  if (!PyArg_ParseTuple(args, "sO", &name, &o) || py_to_value(&call, o, &v) < 0)
    goto done;
  if (py_unlocked_module_set_state(m->module, name, v, &err) == RUSH_OK)
    result = Py_NewRef(Py_None);
  else
    py_raise(m->state, &err);
  rush_value_release(v);
done:
  py_call_end(&call);
  return result;
}

static PyObject *module_copy(PyObject *self, PyObject *unused)
{
  py_module *m = (py_module *)self;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *copy;

  (void)unused;
  if (!m->module)
    return py_no_program();
  if (py_unlocked_module_copy(m->module, &copy, &err) != RUSH_OK)
    return py_raise(m->state, &err);
  return py_module_make(m->state, Py_TYPE(self), copy);
}

static PyObject *module_code(PyObject *self, void *unused)
{
  (void)unused;
  return py_module_dump((py_module *)self, RUSH_DUMP_CODE, "forward");
}
static PyObject *module_inlined_graph(PyObject *self, void *unused)
{
  (void)unused;
  return py_method_graph(((py_module *)self)->state, self, "forward", true);
}
static PyObject *module_graph(PyObject *self, void *unused)
{
  (void)unused;
  return py_method_graph(((py_module *)self)->state, self, "forward", false);
}
static PyObject *module_repr(PyObject *self)
{
  rush_module *m = ((py_module *)self)->module;
  const char *name = m ? rush_value_class(rush_module_value(m)) : NULL;
  const char *last = name ? strrchr(name, '.') : NULL;

  return PyUnicode_FromFormat("ScriptModule(original_name=%s)", last   ? last + 1
                                                                : name ? name
                                                                       : "?");
}

static PyObject *module_define(PyObject *self, PyObject *args);
static PyMethodDef module_methods_table[] = {
  {"methods", module_methods, METH_NOARGS, "names of the methods that can be called"},
  {"_state", module_state, METH_VARARGS, "parameters (and buffers) by qualified name"},
  {"_set_state", module_set_state, METH_VARARGS, "copy a tensor into a named parameter or buffer"},
  {"_set_training", module_set_training, METH_O, "set `training` of all submodules"},
  {"_define", module_define, METH_VARARGS, "add a text's definitions to a module of compile()"},
  {"_slot", module_py_slot, METH_O, "an attribute of the program"},
  {"_set", module_set, METH_VARARGS,
   "set an attribute, which the object stands for from then on; False: there is none"},
  {"_program_method", module_program_method, METH_O, "a method of the program"},
  {"_slots", module_slots_list, METH_NOARGS, "(name, kind) of every attribute"},
  {"_adopt", module_adopt, METH_O, "become another view of a module"},
  {"_is_same", module_same, METH_O, "do both show one module?"},
  {"copy", module_copy, METH_NOARGS, "another instance with state of its own"},
  {NULL, NULL, 0, NULL}};
static PyGetSetDef module_getset[] = {
  {"code", module_code, NULL, "TorchScript source", NULL},
  {"_is_script", module_is_script, NULL, "is there a program?", NULL},
  {"_class_name", module_class_name, NULL, "qualified name of the module's class", NULL},
  {"graph", module_graph, NULL, "a copy of forward's graph", NULL},
  {"max_seconds", py_module_get_limit, py_module_set_limit, "seconds that a call may take, or None",
   (void *)offsetof(py_module, max_seconds)},
  {"max_bytes", py_module_get_limit, py_module_set_limit, "bytes that a call may use, or None",
   (void *)offsetof(py_module, max_bytes)},
  {"inlined_graph", module_inlined_graph, NULL, "the same, calls replaced by what they call", NULL},
  {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef module_members[] = {
  {"_is_hooked", T_BOOL, offsetof(py_module, is_hooked), 0, "calls go through Python's _call_impl"},
  {"_recorder", T_OBJECT, offsetof(py_module, recorder), 0, "is told of calls, or None"},
  {NULL, 0, 0, 0, NULL}};
static PyType_Slot module_slots[] = {
  {Py_tp_dealloc, module_dealloc},
  {Py_tp_new, module_new},
  {Py_tp_traverse, module_traverse},
  {Py_tp_clear, module_clear},
  {Py_tp_members, module_members},
  {Py_tp_call, module_call},
  {Py_tp_getattro, module_getattro},
  {Py_tp_repr, module_repr},
  {Py_tp_methods, module_methods_table},
  {Py_tp_getset, module_getset},
  {Py_tp_doc, "A program loaded from an archive, with its state."},
  {0, NULL}};
static PyType_Spec module_spec = {"rushlight._rushlight.Module", sizeof(py_module), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                  module_slots};

PyObject *py_module_wrap_steal(py_state *st, rush_module *module)
{
  if (py_need_part(st, PY_PART_MODULE) < 0) {
    rush_module_release(module);
    return NULL;
  }
  return py_module_make(st, (PyTypeObject *)st->module_class, module);
}

int py_add_module_types(PyObject *m, py_state *st)
{
  st->module_type = py_add_type(m, &module_spec);
  return st->module_type ? 0 : -1;
}

/* -- Texts ------------------------------------------------------------------------------------- */

/* compile(text, name, first_line): a new module; module._define(text, name, first_line): more of
 * it. */
static PyObject *compile_text(py_state *st, py_module *into, PyObject *args)
{
  rush_text_options options = RUSH_TEXT_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *module = NULL;
  rush_status status;
  const char *text;
  Py_ssize_t n;
  unsigned first_line = 1;

  if (!PyArg_ParseTuple(args, "s#|zI", &text, &n, &options.name, &first_line))
    return NULL;
  options.first_line = first_line;
  Py_BEGIN_ALLOW_THREADS
  status = into ? rush_module_define(into->module, text, (size_t)n, &options, &err)
                : rush_module_compile(st->context, text, (size_t)n, &options, &module, &err);
  Py_END_ALLOW_THREADS
  if (status != RUSH_OK)
    return py_raise(st, &err);
  return into ? Py_NewRef(Py_None) : py_module_wrap_steal(st, module);
}
PyObject *py_compile(PyObject *m, PyObject *args)
{
  return compile_text(PyModule_GetState(m), NULL, args);
}
static PyObject *module_define(PyObject *self, PyObject *args)
{
  return compile_text(((py_module *)self)->state, (py_module *)self, args);
}
