/* export.c -- exported programs as data (rushlight/export.h) for the package rushlight.export.
 *
 * One type, ExportedProgram, holds a program; graphs, nodes and values of it are capsules that keep
 * it alive.  Python's own objects (Graph, Node, FakeTensor ...) are made in Python: `walk` calls a
 * function for each node and `leaf` for what plain Python has no object for. */
#include "export.h"

#include <string.h>

typedef struct py_exported {
  PyObject_HEAD
  rush_exported_program *program;
  py_state *state;
} py_exported;

#define P(o) (((py_exported *)(o))->program)
#define ST(o) (((py_exported *)(o))->state)

static const char graph_name[] = "rush_export_graph", node_name[] = "rush_export_node";

/* -- Capsules ---------------------------------------------------------------------------------- */

static void capsule_end(PyObject *capsule) { Py_DECREF((PyObject *)PyCapsule_GetContext(capsule)); }

/* Make a capsule of a part of the program; it keeps the program. */
static PyObject *capsule_of(PyObject *self, const void *part, const char *name)
{
  PyObject *c = PyCapsule_New((void *)(uintptr_t)part, name, capsule_end);

  if (c)
    PyCapsule_SetContext(c, Py_NewRef(self));
  return c;
}

/* Return the part, which is of this program; NULL with an exception set. */
static const void *part_of(PyObject *self, PyObject *capsule, const char *name)
{
  const void *part = PyCapsule_GetPointer(capsule, name);

  if (part && PyCapsule_GetContext(capsule) != self) {
    PyErr_SetString(PyExc_ValueError, "it is of another program");
    return NULL;
  }
  return part;
}

/* -- Arguments --------------------------------------------------------------------------------- */

typedef struct walker { /* of one graph */
  py_exported *self;
  PyObject *leaf;  /* leaf(kind, value...): an object */
  PyObject *nodes; /* address of a node -> its object; NULL: no nodes are known */
} walker;

static PyObject *arg_out(walker *w, const rush_export_arg *a);

static PyObject *node_out(walker *w, const rush_export_node *n)
{
  PyObject *key = PyLong_FromVoidPtr((void *)(uintptr_t)n);
  PyObject *found = key && w->nodes ? PyDict_GetItemWithError(w->nodes, key) : NULL;

  Py_XDECREF(key);
  if (!found && !PyErr_Occurred())
    PyErr_SetString(PyExc_ValueError, "an argument is a node that was not seen");
  return Py_XNewRef(found);
}

/* Make a list of the items, or a tuple. */
static PyObject *items_out(walker *w, const rush_export_arg *a, bool is_tuple)
{
  PyObject *list = PyList_New(0);
  const rush_export_arg *item;

  for (size_t i = 0; list && (item = rush_export_arg_item(a, i, NULL)); i++)
    if (py_append_steal(list, arg_out(w, item)) < 0)
      Py_CLEAR(list);
  if (!list || !is_tuple)
    return list;
  PyObject *tuple = PyList_AsTuple(list);
  Py_DECREF(list);
  return tuple;
}

static PyObject *dict_out(walker *w, const rush_export_arg *a)
{
  PyObject *dict = PyDict_New();
  const rush_export_arg *item;
  const char *key;

  for (size_t i = 0; dict && (item = rush_export_arg_item(a, i, &key)); i++) {
    PyObject *value = arg_out(w, item);
    if (!value || PyDict_SetItemString(dict, key, value) < 0)
      Py_CLEAR(dict);
    Py_XDECREF(value);
  }
  return dict;
}

static PyObject *dtype_out(py_state *st, int64_t number)
{
  PyObject *found = number >= 0 && number < RUSH_N_DTYPES ? st->dtypes[number] : NULL;

  return Py_NewRef(found ? found : Py_None);
}

/* long: one line for each kind of argument. */
static PyObject *plain_out(walker *w, const rush_export_arg *a, const rush_export_arg_info *info)
{
  switch (info->kind) {
  case RUSH_EXPORT_NONE:
    Py_RETURN_NONE;
  case RUSH_EXPORT_NODE:
    return node_out(w, info->node);
  case RUSH_EXPORT_INT:
    return PyLong_FromLongLong(info->i);
  case RUSH_EXPORT_FLOAT:
    return PyFloat_FromDouble(info->f);
  case RUSH_EXPORT_BOOL:
    return PyBool_FromLong(info->i != 0);
  case RUSH_EXPORT_COMPLEX:
    return PyComplex_FromDoubles(info->f, info->imaginary);
  case RUSH_EXPORT_STRING:
    return PyUnicode_DecodeUTF8(info->text, (Py_ssize_t)info->n, "surrogateescape");
  case RUSH_EXPORT_DTYPE:
    return dtype_out(w->self->state, info->i);
  case RUSH_EXPORT_LAYOUT:
    return PyObject_CallFunction(w->leaf, "sL", "layout", (long long)info->i);
  case RUSH_EXPORT_MEMORY_FORMAT:
    return PyObject_CallFunction(w->leaf, "sL", "memory_format", (long long)info->i);
  case RUSH_EXPORT_DEVICE:
    return PyObject_CallFunction(w->leaf, "ss", "device", info->text);
  case RUSH_EXPORT_OPERATOR:
    return PyObject_CallFunction(w->leaf, "ss", "operator", info->text);
  case RUSH_EXPORT_OBJECT:
    return PyObject_CallFunction(w->leaf, "s(ss)", "object", info->text, info->class_name);
  case RUSH_EXPORT_LIST:
  case RUSH_EXPORT_TUPLE:
    return items_out(w, a, info->kind == RUSH_EXPORT_TUPLE);
  case RUSH_EXPORT_DICT:
    return dict_out(w, a);
  }
  return PyErr_Format(PyExc_SystemError, "an argument of kind %d", (int)info->kind);
}

static PyObject *arg_out(walker *w, const rush_export_arg *a)
{
  rush_export_arg_info info = RUSH_EXPORT_ARG_INFO_INIT;

  rush_export_arg_get(a, &info);
  if (Py_EnterRecursiveCall(" in an argument of a program"))
    return NULL;
  PyObject *out = plain_out(w, a, &info);
  Py_LeaveRecursiveCall();
  return out;
}

/* -- Graphs ------------------------------------------------------------------------------------ */

static PyObject *args_out(walker *w, const rush_export_node *n, size_t n_args)
{
  PyObject *tuple = PyTuple_New((Py_ssize_t)n_args);

  for (size_t i = 0; tuple && i < n_args; i++) {
    PyObject *o = arg_out(w, rush_export_node_arg(n, i));
    if (!o)
      Py_CLEAR(tuple);
    else
      PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, o);
  }
  return tuple;
}

static PyObject *kwargs_out(walker *w, const rush_export_node *n, size_t n_kwargs)
{
  PyObject *dict = PyDict_New();
  const char *name;

  for (size_t i = 0; dict && i < n_kwargs; i++) {
    const rush_export_arg *a = rush_export_node_kwarg(n, i, &name);
    PyObject *o = arg_out(w, a);
    if (!o || PyDict_SetItemString(dict, name, o) < 0)
      Py_CLEAR(dict);
    Py_XDECREF(o);
  }
  return dict;
}

/* Call make(capsule, op, name, target, args, kwargs), and remember what it made for the node. */
static int walk_node(walker *w, PyObject *make, const rush_export_node *n)
{
  static const char *const ops[] = {"placeholder", "get_attr", "call_function", "output"};
  rush_export_node_info info = RUSH_EXPORT_NODE_INFO_INIT;

  rush_export_node_get(n, &info);
  PyObject *args = args_out(w, n, info.n_args);
  PyObject *kwargs = args ? kwargs_out(w, n, info.n_kwargs) : NULL;
  PyObject *at = kwargs ? capsule_of((PyObject *)w->self, n, node_name) : NULL;
  PyObject *made = at ? PyObject_CallFunction(make, "OsssOO", at, ops[info.op], info.name,
                                              info.target, args, kwargs)
                      : NULL;
  PyObject *key = made ? PyLong_FromVoidPtr((void *)(uintptr_t)n) : NULL;
  const int result = key ? PyDict_SetItem(w->nodes, key, made) : -1;

  Py_XDECREF(args);
  Py_XDECREF(kwargs);
  Py_XDECREF(at);
  Py_XDECREF(made);
  Py_XDECREF(key);
  return result;
}

/* walk(graph, make, leaf): calls make for each node, in order. */
static PyObject *exported_walk(PyObject *self, PyObject *args)
{
  walker w = {.self = (py_exported *)self};
  PyObject *capsule, *make;

  if (!PyArg_ParseTuple(args, "OOO", &capsule, &make, &w.leaf))
    return NULL;
  const rush_export_graph *g = part_of(self, capsule, graph_name);
  if (!g || !(w.nodes = PyDict_New()))
    return NULL;
  const rush_export_node *n = rush_export_graph_first(g);
  while (n && walk_node(&w, make, n) == 0)
    n = rush_export_node_next(n);
  Py_DECREF(w.nodes);
  if (n)
    return NULL;
  Py_RETURN_NONE;
}

/* graph(): the outermost. */
static PyObject *exported_graph(PyObject *self, PyObject *unused)
{
  (void)unused;
  return capsule_of(self, rush_exported_program_graph(P(self)), graph_name);
}

/* subgraphs(graph): [(name, graph), ...]. */
static PyObject *exported_subgraphs(PyObject *self, PyObject *capsule)
{
  const rush_export_graph *g = part_of(self, capsule, graph_name), *inner;
  PyObject *list = g ? PyList_New(0) : NULL;
  const char *name;

  for (size_t i = 0; list && (inner = rush_export_graph_subgraph(g, i, &name)); i++) {
    PyObject *c = capsule_of(self, inner, graph_name);
    if (!c || py_append_steal(list, Py_BuildValue("(sN)", name, c)) < 0)
      Py_CLEAR(list);
  }
  return list;
}

/* metadata(node): the JSON of its metadata, or "". */
static PyObject *exported_metadata(PyObject *self, PyObject *capsule)
{
  const rush_export_node *n = part_of(self, capsule, node_name);
  rush_error err = RUSH_ERROR_INIT;
  char *text;

  if (!n)
    return NULL;
  const rush_status st = rush_exported_program_metadata(P(self), n, NULL, &text, &err);
  return py_text_or_raise(ST(self), st, text, &err);
}

/* -- Values ------------------------------------------------------------------------------------ */

static PyObject *expression_text(PyObject *self, const rush_export_expression *e)
{
  rush_error err = RUSH_ERROR_INIT;
  char *text;

  if (!e)
    Py_RETURN_NONE;
  const rush_status st = rush_exported_program_expression(P(self), e, &text, &err);
  return py_text_or_raise(ST(self), st, text, &err);
}

/* Return a number, or leaf("symbol", (kind, text, hint or None)). */
static PyObject *number_out(walker *w, const rush_export_number *n, rush_export_val_kind kind)
{
  static const char *const kinds[] = {"int", "int", "float", "bool"};
  PyObject *value = !n->has_value                   ? Py_NewRef(Py_None)
                    : kind == RUSH_EXPORT_VAL_FLOAT ? PyFloat_FromDouble(n->f)
                    : kind == RUSH_EXPORT_VAL_BOOL  ? PyBool_FromLong(n->i != 0)
                                                    : PyLong_FromLongLong(n->i);
  if (!value || !n->expression)
    return value;
  PyObject *text = expression_text((PyObject *)w->self, n->expression);
  PyObject *made =
    text ? PyObject_CallFunction(w->leaf, "s(sOO)", "symbol", kinds[kind], text, value) : NULL;
  Py_DECREF(value);
  Py_XDECREF(text);
  return made;
}

static PyObject *numbers_out(walker *w, const rush_export_val *v,
                             bool (*at)(const rush_export_val *, size_t, rush_export_number *))
{
  PyObject *list = PyList_New(0);
  rush_export_number n;

  for (size_t i = 0; list && at(v, i, &n); i++)
    if (py_append_steal(list, number_out(w, &n, RUSH_EXPORT_VAL_INT)) < 0)
      Py_CLEAR(list);
  return list;
}

/* Return leaf("tensor", (dtype, sizes, strides, offset, layout, device, requires_grad)). */
static PyObject *tensor_out(walker *w, const rush_export_val *v, const rush_export_val_info *info)
{
  PyObject *sizes = numbers_out(w, v, rush_export_val_size);
  PyObject *strides = sizes ? numbers_out(w, v, rush_export_val_stride) : NULL;
  PyObject *offset = strides ? number_out(w, &info->number, RUSH_EXPORT_VAL_INT) : NULL;
  PyObject *made =
    offset ? PyObject_CallFunction(w->leaf, "s(NOOOisO)", "tensor",
                                   dtype_out(w->self->state, info->dtype), sizes, strides, offset,
                                   info->layout, info->device,
                                   info->requires_grad ? Py_True : Py_False)
           : NULL;

  Py_XDECREF(sizes);
  Py_XDECREF(strides);
  Py_XDECREF(offset);
  return made;
}

static PyObject *val_out(walker *w, const rush_export_val *v);

static PyObject *vals_out(walker *w, const rush_export_val *v, const rush_export_val_info *info)
{
  PyObject *list = PyList_New(0);

  for (size_t i = 0; list && i < info->n; i++)
    if (py_append_steal(list, val_out(w, rush_export_val_item(v, i))) < 0)
      Py_CLEAR(list);
  if (!list || !info->is_tuple)
    return list;
  PyObject *tuple = PyList_AsTuple(list);
  Py_DECREF(list);
  return tuple;
}

static PyObject *val_out(walker *w, const rush_export_val *v)
{
  rush_export_val_info info = RUSH_EXPORT_VAL_INFO_INIT;

  if (!v)
    Py_RETURN_NONE;
  rush_export_val_get(v, &info);
  switch (info.kind) {
  case RUSH_EXPORT_VAL_TENSOR:
    return tensor_out(w, v, &info);
  case RUSH_EXPORT_VAL_INT:
  case RUSH_EXPORT_VAL_FLOAT:
  case RUSH_EXPORT_VAL_BOOL:
    return number_out(w, &info.number, info.kind);
  case RUSH_EXPORT_VAL_OBJECT:
    return PyObject_CallFunction(w->leaf, "s(zs)", "object", NULL, info.class_name);
  case RUSH_EXPORT_VAL_LIST:
    return vals_out(w, v, &info);
  case RUSH_EXPORT_VAL_CONSTANT:
    return arg_out(w, info.constant);
  }
  return PyErr_Format(PyExc_SystemError, "a value of kind %d", (int)info.kind);
}

/* val(node, leaf): (what is known of its value,); () if nothing is. */
static PyObject *exported_val(PyObject *self, PyObject *args)
{
  rush_export_node_info info = RUSH_EXPORT_NODE_INFO_INIT;
  walker w = {.self = (py_exported *)self};
  PyObject *capsule;

  if (!PyArg_ParseTuple(args, "OO", &capsule, &w.leaf))
    return NULL;
  const rush_export_node *n = part_of(self, capsule, node_name);
  if (!n)
    return NULL;
  rush_export_node_get(n, &info);
  if (!info.val && !info.returns_none)
    return PyTuple_New(0);
  return Py_BuildValue("(N)", val_out(&w, info.val));
}

/* -- Text -------------------------------------------------------------------------------------- */

/* text(what, graph or None): what is "program", "graph", "code" or "readable". */
static PyObject *exported_text(PyObject *self, PyObject *args)
{
  static const char *const kinds[] = {"program", "graph", "code", "readable"};
  const rush_export_graph *g = NULL;
  rush_error err = RUSH_ERROR_INIT;
  PyObject *capsule;
  const char *what;
  char *text;
  int kind = 0;

  if (!PyArg_ParseTuple(args, "sO", &what, &capsule))
    return NULL;
  if (capsule != Py_None && !(g = part_of(self, capsule, graph_name)))
    return NULL;
  while (kind < 4 && strcmp(what, kinds[kind]) != 0)
    kind++;
  const rush_status st =
    rush_exported_program_print(P(self), g, (rush_export_text)kind, &text, &err);
  return py_text_or_raise(ST(self), st, text, &err);
}

/* verify(dialect or None): a line for each rule that the program breaks. */
static PyObject *exported_verify(PyObject *self, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  const char *dialect;
  char *faults;

  if (!PyArg_ParseTuple(args, "z", &dialect))
    return NULL;
  const rush_status st = rush_exported_program_verify(P(self), dialect, &faults, &err);
  return py_text_or_raise(ST(self), st, faults, &err);
}

/* -- Signature, ranges, calls ------------------------------------------------------------------ */

/* Return (kind, kind of argument, name, class or None, constant, target or None, persistent). */
static PyObject *spec_out(walker *w, const rush_export_spec *s)
{
  PyObject *constant = s->constant ? arg_out(w, s->constant) : Py_NewRef(Py_None);

  return constant ? Py_BuildValue("(iiszNzO)", s->kind, (int)s->arg, s->name, s->class_name,
                                  constant, s->target, s->is_persistent ? Py_True : Py_False)
                  : NULL;
}

/* signature(leaf): ([input, ...], [output, ...]). */
static PyObject *exported_signature(PyObject *self, PyObject *leaf)
{
  walker w = {.self = (py_exported *)self, .leaf = leaf};
  PyObject *inputs = PyList_New(0), *outputs = PyList_New(0);
  rush_export_spec spec = RUSH_EXPORT_SPEC_INIT;

  for (size_t i = 0; inputs && rush_exported_program_input(P(self), i, &spec); i++)
    if (py_append_steal(inputs, spec_out(&w, &spec)) < 0)
      Py_CLEAR(inputs);
  for (size_t i = 0; outputs && rush_exported_program_output(P(self), i, &spec); i++)
    if (py_append_steal(outputs, spec_out(&w, &spec)) < 0)
      Py_CLEAR(outputs);
  PyObject *both = inputs && outputs ? PyTuple_Pack(2, inputs, outputs) : NULL;
  Py_XDECREF(inputs);
  Py_XDECREF(outputs);
  return both;
}

static PyObject *bound_out(bool is_known, int64_t bound)
{
  return is_known ? PyLong_FromLongLong(bound) : Py_NewRef(Py_None);
}

/* ranges(): [(expression, least or None, most or None), ...], of expressions that occur. */
static PyObject *exported_ranges(PyObject *self, PyObject *unused)
{
  rush_export_range r = RUSH_EXPORT_RANGE_INIT;
  PyObject *list = PyList_New(0);

  (void)unused;
  for (size_t i = 0; list && rush_exported_program_range(P(self), i, &r); i++)
    if (r.is_used &&
        py_append_steal(list, Py_BuildValue("(NNN)", expression_text(self, r.expression),
                                            bound_out(r.has_min, r.min),
                                            bound_out(r.has_max, r.max))) < 0)
      Py_CLEAR(list);
  return list;
}

typedef bool call_spec(const rush_exported_program *p, size_t call, size_t i,
                       rush_export_spec *out);

static PyObject *call_specs(walker *w, size_t call, call_spec *at)
{
  rush_export_spec spec = RUSH_EXPORT_SPEC_INIT;
  PyObject *list = PyList_New(0);

  for (size_t i = 0; list && at(P(w->self), call, i, &spec); i++)
    if (py_append_steal(list, spec_out(w, &spec)) < 0)
      Py_CLEAR(list);
  return list;
}

static PyObject *call_names(PyObject *self, size_t call)
{
  PyObject *list = PyList_New(0);
  const char *name;

  for (size_t i = 0; list && (name = rush_exported_program_call_arg_name(P(self), call, i)); i++)
    if (py_append_steal(list, PyUnicode_FromString(name)) < 0)
      Py_CLEAR(list);
  return list;
}

/* Return (fqn, None), or (fqn, (inputs, outputs, in_spec, out_spec, names)). */
static PyObject *call_out(walker *w, size_t i, const rush_export_call *c)
{
  if (!c->has_signature)
    return Py_BuildValue("(sO)", c->fqn, Py_None);
  return Py_BuildValue("(s(NNzzN))", c->fqn, call_specs(w, i, rush_exported_program_call_input),
                       call_specs(w, i, rush_exported_program_call_output), c->in_spec,
                       c->out_spec, call_names((PyObject *)w->self, i));
}

/* calls(leaf): the module call graph. */
static PyObject *exported_calls(PyObject *self, PyObject *leaf)
{
  walker w = {.self = (py_exported *)self, .leaf = leaf};
  rush_export_call c = RUSH_EXPORT_CALL_INIT;
  PyObject *list = PyList_New(0);

  for (size_t i = 0; list && rush_exported_program_call(P(self), i, &c); i++)
    if (py_append_steal(list, call_out(&w, i, &c)) < 0)
      Py_CLEAR(list);
  return list;
}

/* info(): (name, major, minor, torch_version, opset, guards, dialects). */
static PyObject *exported_info(PyObject *self, PyObject *unused)
{
  PyObject *guards = PyList_New(0), *dialects = PyList_New(0);
  rush_export_info info = RUSH_EXPORT_INFO_INIT;
  const char *text;

  (void)unused;
  rush_exported_program_get(P(self), &info);
  for (size_t i = 0; guards && (text = rush_exported_program_guard(P(self), i)); i++)
    if (py_append_steal(guards, PyUnicode_FromString(text)) < 0)
      Py_CLEAR(guards);
  for (size_t i = 0; dialects && (text = rush_exported_program_dialect(P(self), i)); i++)
    if (py_append_steal(dialects, PyUnicode_FromString(text)) < 0)
      Py_CLEAR(dialects);
  return Py_BuildValue("(sLLssNN)", info.name, (long long)info.major, (long long)info.minor,
                       info.torch_version, info.opset, guards, dialects);
}

/* -- State, archive ---------------------------------------------------------------------------- */

/* Return the object of a tensor of the state; torch's requires a gradient if ours does. */
static PyObject *tensor_of_state(py_call *call, rush_value v)
{
  PyObject *o = py_from_value(call, v);

  if (o && !Py_IS_TYPE(o, call->state->tensor_type) && rush_tensor_requires_grad(v.as.tensor) &&
      PyObject_SetAttrString(o, "requires_grad", Py_True) < 0)
    Py_CLEAR(o);
  return o;
}

/* state(): [(name, is_constant, tensor), ...]. */
static PyObject *exported_state(PyObject *self, PyObject *unused)
{
  rush_exported_program *p = P(self);
  rush_error err = RUSH_ERROR_INIT;
  rush_status st;
  const char *name;
  bool is_constant;
  rush_value v;
  size_t n;

  (void)unused;
  WITHOUT_GIL(st = rush_exported_program_n_state(p, &n, &err));
  if (st != RUSH_OK)
    return py_raise(ST(self), &err);
  PyObject *list = PyList_New(0);
  py_call call = {.state = ST(self)};
  for (size_t i = 0; list && rush_exported_program_state(p, i, &name, &is_constant, &v); i++) {
    PyObject *o = tensor_of_state(&call, v);
    rush_value_release(v);
    if (!o || py_append_steal(list, Py_BuildValue("(sON)", name, is_constant ? Py_True : Py_False,
                                                  o)) < 0)
      Py_CLEAR(list);
  }
  py_call_end(&call);
  return list;
}

/* samples(): (args, kwargs), or None. */
static PyObject *exported_samples(PyObject *self, PyObject *unused)
{
  rush_exported_program *p = P(self);
  rush_error err = RUSH_ERROR_INIT;
  rush_status st;
  rush_value v;

  (void)unused;
  WITHOUT_GIL(st = rush_exported_program_samples(p, &v, &err));
  if (st != RUSH_OK)
    return py_raise(ST(self), &err);
  py_call call = {.state = ST(self)};
  PyObject *out = py_from_value(&call, v);
  rush_value_release(v);
  py_call_end(&call);
  return out;
}

/* extra_files(): {name: bytes}. */
static PyObject *exported_extra_files(PyObject *self, PyObject *unused)
{
  PyObject *d = PyDict_New();
  const char *name;
  const void *data;
  size_t n;

  (void)unused;
  for (size_t i = 0;
       d && (name = rush_exported_program_extra_file(P(self), i, &data, &n)); i++) {
    PyObject *bytes = PyBytes_FromStringAndSize(data, (Py_ssize_t)n);
    if (!bytes || PyDict_SetItemString(d, name, bytes) < 0)
      Py_CLEAR(d);
    Py_XDECREF(bytes);
  }
  return d;
}

/* module(type, check_guards): a Module that runs the program. */
static PyObject *exported_module(PyObject *self, PyObject *args)
{
  rush_exported_program *p = P(self);
  rush_error err = RUSH_ERROR_INIT;
  rush_module *made;
  PyObject *type;
  rush_status st;
  int guards;

  if (!PyArg_ParseTuple(args, "Op", &type, &guards))
    return NULL;
  if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, ST(self)->module_type))
    return PyErr_Format(PyExc_TypeError, "expected a subclass of Module, not %R", type);
  WITHOUT_GIL(st = rush_exported_program_module(p, guards, &made, &err));
  return st == RUSH_OK ? py_module_make(ST(self), (PyTypeObject *)type, made)
                       : py_raise(ST(self), &err);
}

rush_exported_program *py_exported_program(py_state *st, PyObject *o)
{
  return Py_IS_TYPE(o, st->exported_type) ? P(o) : NULL;
}

/* Make the object of a program (steals); NULL with an exception set. */
static PyObject *exported_new(py_state *st, rush_exported_program *made)
{
  py_exported *self = (py_exported *)st->exported_type->tp_alloc(st->exported_type, 0);

  if (!self) {
    rush_exported_program_release(made);
    return NULL;
  }
  self->program = made;
  self->state = st;
  return (PyObject *)self;
}

PyObject *py_decomposed_operators(PyObject *m, PyObject *unused)
{
  (void)m;
  (void)unused;
  return PyUnicode_FromString(rush_decomposed_operators());
}

/* decompose(names or None): the program over fewer operators. */
static PyObject *exported_decompose(PyObject *self, PyObject *names)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_exported_program *made;
  const char **ops = NULL;
  size_t n_ops = 0;
  rush_status st;

  if (names != Py_None && !(ops = py_read_texts(names, &n_ops)))
    return NULL;
  if (ops)
    WITHOUT_GIL(st = rush_exported_program_decompose_ops(P(self), ops, n_ops, &made, &err));
  else
    WITHOUT_GIL(st = rush_exported_program_decompose(P(self), &made, &err));
  PyMem_Free(ops);
  return st == RUSH_OK ? exported_new(ST(self), made) : py_raise(ST(self), &err);
}

/* -- The type ---------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
  {"graph", exported_graph, METH_NOARGS, "the outermost graph"},
  {"subgraphs", exported_subgraphs, METH_O, "subgraphs(graph): (name, graph) of each"},
  {"walk", exported_walk, METH_VARARGS,
   "walk(graph, make, leaf): make(at, op, name, target, args, kwargs) of each node"},
  {"metadata", exported_metadata, METH_O, "metadata(node): JSON"},
  {"val", exported_val, METH_VARARGS, "val(node, leaf): (what is known of its value,)"},
  {"text", exported_text, METH_VARARGS, "text(what, graph): as PyTorch prints it"},
  {"verify", exported_verify, METH_VARARGS,
   "verify(dialect or None): a line for each rule that the program breaks"},
  {"signature", exported_signature, METH_O, "signature(leaf): inputs and outputs"},
  {"ranges", exported_ranges, METH_NOARGS, "(expression, least, most) of each"},
  {"calls", exported_calls, METH_O, "calls(leaf): the module call graph"},
  {"info", exported_info, METH_NOARGS, "name, versions, guards, dialects"},
  {"state", exported_state, METH_NOARGS, "(name, is_constant, tensor) of each"},
  {"samples", exported_samples, METH_NOARGS, "(args, kwargs), or None"},
  {"extra_files", exported_extra_files, METH_NOARGS, "name -> bytes"},
  {"decompose", exported_decompose, METH_O,
   "decompose(names of operators or None): the program over fewer operators"},
  {"module", exported_module, METH_VARARGS, "module(type, check_guards): what runs the program"},
  {NULL, NULL, 0, NULL}};

static void exported_dealloc(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);

  rush_exported_program_release(P(self));
  type->tp_free(self);
  Py_DECREF(type);
}

static PyType_Slot slots[] = {{Py_tp_dealloc, exported_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, "An exported program as data: rushlight.export's."},
                              {0, NULL}};
static PyType_Spec spec = {.name = "rushlight._rushlight.ExportedProgram",
                           .basicsize = sizeof(py_exported),
                           .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           .slots = slots};

int py_add_exported_type(PyObject *m, py_state *st)
{
  st->exported_type = py_add_type(m, &spec);
  return st->exported_type ? 0 : -1;
}

/* exported_of(module): the program that a module is. */
PyObject *py_exported_of(PyObject *m, PyObject *o)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  rush_exported_program *made;
  rush_status status;

  if (!PyObject_TypeCheck(o, st->module_type) || !((py_module *)o)->module)
    return PyErr_Format(PyExc_TypeError, "expected a module, not %s", Py_TYPE(o)->tp_name);
  rush_module *module = ((py_module *)o)->module;
  WITHOUT_GIL(status = rush_exported_program_of_module(module, &made, &err));
  return status == RUSH_OK ? exported_new(st, made) : py_raise(st, &err);
}

/* load_exported(path or bytes, check_full, copy, program or None) */
PyObject *py_load_exported(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  rush_load_options options = RUSH_LOAD_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  rush_exported_program *made = NULL;
  PyObject *source, *path = NULL;
  rush_status status;
  Py_buffer b;
  int full, copy;

  if (!PyArg_ParseTuple(args, "Oppz", &source, &full, &copy, &options.program))
    return NULL;
  options.check_full = full;
  options.copy = copy;
  if (PyObject_CheckBuffer(source)) {
    if (PyObject_GetBuffer(source, &b, PyBUF_SIMPLE) < 0)
      return NULL;
    WITHOUT_GIL(status = rush_exported_program_load_bytes(st->context, b.buf, (size_t)b.len, NULL,
                                                          NULL, &options, &made, &err));
    PyBuffer_Release(&b);
  } else {
    if (!PyUnicode_FSConverter(source, &path))
      return NULL;
    WITHOUT_GIL(status = rush_exported_program_load(st->context, PyBytes_AS_STRING(path), &options,
                                                    &made, &err));
    Py_DECREF(path);
  }
  return status == RUSH_OK ? exported_new(st, made) : py_raise(st, &err);
}
