/* _rushlight/ir_node.c -- the Python methods of blocks, nodes and values of graphs, over the
 * functions of backend.h. An object holds its graph, so that a handle never outlives the memory it
 * points to; the C functions check that a node is still alive. Iteration takes a snapshot, because
 * loops often move or destroy nodes. */
#include "ir.h"
#include "script.h"

#include <string.h>

/* -- Blocks ------------------------------------------------------------------------------------ */

static const rush_block *block_in(PyObject *o)
{
  return Py_TYPE(o) == ST(o)->ir_types[PY_GRAPH] ? API(o)->graph_block(G(o)) : B(o);
}

/* Return an iterator over a snapshot of the nodes of a block (or of a graph's): they may be moved
 * or destroyed meanwhile. */
PyObject *py_block_nodes(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  PyObject *list = PyList_New(0), *it;

  for (const rush_node *n = API(self)->block_first(block_in(self)); list && n;
       n = API(self)->node_next(n))
    if (py_append_steal(list, py_ir_node(self, n)) < 0)
      Py_CLEAR(list);
  it = list ? PyObject_GetIter(list) : NULL;
  Py_XDECREF(list);
  return it;
}

PyObject *py_block_param(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  return py_ir_node(self, API(self)->block_param(block_in(self)));
}

PyObject *py_block_return(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  return py_ir_node(self, API(self)->block_return(block_in(self)));
}

static PyObject *block_owner(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  return py_ir_node(self, API(self)->block_owner(B(self)));
}

/* _find(block, kind, recurse, all) */
static PyObject *find_in(PyObject *self, const rush_block *b, const char *kind, int recurse,
                         PyObject *all)
{
  const rush_node *n = NULL;

  while ((n = API(self)->block_find(b, kind, recurse, n))) {
    if (!all)
      return py_ir_node(self, n);
    if (py_append_steal(all, py_ir_node(self, n)) < 0)
      return NULL;
  }
  return Py_NewRef(Py_None);
}

static PyObject *find_nodes(PyObject *self, PyObject *args, PyObject *kwargs, bool all)
{
  static char *names[] = {"kind", "recurse", NULL};
  PyObject *list = NULL, *found = NULL;
  const char *kind;
  int recurse = 1;

  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|p:findNode", names, &kind, &recurse))
    return NULL;
  LIVE(self);
  if (all && !(list = PyList_New(0)))
    return NULL;
  if (Py_TYPE(self) != ST(self)->ir_types[PY_NODE]) {
    found = find_in(self, block_in(self), kind, recurse, list);
  } else {
    found = Py_NewRef(Py_None);
    for (size_t i = 0; i < API(self)->node_n_blocks(N(self)) && found && (list || found == Py_None);
         i++) {
      Py_DECREF(found);
      found = find_in(self, API(self)->node_block(N(self), i), kind, recurse, list);
    }
  }
  if (!all)
    return found;
  if (!found)
    Py_CLEAR(list);
  Py_XDECREF(found);
  return list;
}

PyObject *py_find_node(PyObject *self, PyObject *args, PyObject *kwargs)
{
  return find_nodes(self, args, kwargs, false);
}
PyObject *py_find_all(PyObject *self, PyObject *args, PyObject *kwargs)
{
  return find_nodes(self, args, kwargs, true);
}

/* -- Nodes ------------------------------------------------------------------------------------- */

static PyObject *node_text(PyObject *self,
                           rush_status (*fn)(const rush_node *, char **, rush_error *))
{
  rush_error err = RUSH_ERROR_INIT;
  char *text = NULL;

  LIVE(self);
  rush_status status = fn(N(self), &text, &err);
  return py_text_or_raise(ST(self), status, text, &err);
}

static PyObject *node_repr(PyObject *self)
{
  if (!API(self)->node_is_live(N(self)))
    return PyUnicode_FromString("<destroyed Node>");
  return node_text(self, API(self)->node_text);
}
static PyObject *node_schema(PyObject *self, PyObject *unused)
{
  (void)unused;
  return node_text(self, API(self)->node_schema);
}
static PyObject *node_source(PyObject *self, PyObject *unused)
{
  (void)unused;
  return node_text(self, API(self)->node_source);
}

static PyObject *node_kind(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  const char *kind = API(self)->node_kind(N(self));
  return PyUnicode_FromString(*kind == '^' ? "prim::PythonOp" : kind);
}

static PyObject *node_overload(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  return PyUnicode_FromString(API(self)->node_overload(N(self)));
}

enum { INPUTS, OUTPUTS, BLOCKS };

static PyObject *node_list(PyObject *self, int which)
{
  const rush_backend_api *api = API(self);

  LIVE(self);
  size_t n = which == INPUTS    ? api->node_n_inputs(N(self))
             : which == OUTPUTS ? api->node_n_outputs(N(self))
                                : api->node_n_blocks(N(self));
  PyObject *list = PyList_New(0);

  for (size_t i = 0; list && i < n; i++)
    if (py_append_steal(list, which == INPUTS    ? py_ir_value(self, api->node_input(N(self), i))
                  : which == OUTPUTS ? py_ir_value(self, api->node_output(N(self), i))
                                     : py_ir_block(self, api->node_block(N(self), i))) < 0)
      Py_CLEAR(list);
  return list;
}

static PyObject *node_inputs(PyObject *self, PyObject *unused)
{
  (void)unused;
  return node_list(self, INPUTS);
}
static PyObject *node_outputs(PyObject *self, PyObject *unused)
{
  (void)unused;
  return node_list(self, OUTPUTS);
}
static PyObject *node_blocks(PyObject *self, PyObject *unused)
{
  (void)unused;
  return node_list(self, BLOCKS);
}

static PyObject *node_owner(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  return py_ir_block(self, API(self)->node_owner(N(self)));
}

static PyObject *node_graph(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  return Py_NewRef(((py_ir *)self)->graph);
}

static PyObject *node_beside(PyObject *self, bool next)
{
  LIVE(self);
  if (!API(self)->node_owner(N(self)) ||
      (next && N(self) == API(self)->block_return(API(self)->node_owner(N(self)))))
    Py_RETURN_NONE;
  return py_ir_node(self, next ? API(self)->node_next(N(self)) : API(self)->node_prev(N(self)));
}
static PyObject *node_prev(PyObject *self, PyObject *unused)
{
  (void)unused;
  return node_beside(self, false);
}
static PyObject *node_next(PyObject *self, PyObject *unused)
{
  (void)unused;
  return node_beside(self, true);
}

static PyObject *node_is_live(PyObject *self, PyObject *unused)
{
  (void)unused;
  return PyBool_FromLong(API(self)->node_is_live(N(self)));
}

/* _place(other, after, move) */
static PyObject *node_place(PyObject *self, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  int after, move;
  PyObject *at;

  if (!PyArg_ParseTuple(args, "Opp:_place", &at, &after, &move) || !py_ir_want(self, at, PY_NODE))
    return NULL;
  rush_status status = move ? API(self)->node_move(N(self), N(at), after, &err)
                            : API(self)->node_insert(N(self), N(at), after, &err);
  return py_done(ST(self), status, &err);
}

static PyObject *node_destroy(PyObject *self, PyObject *unused)
{
  rush_error err = RUSH_ERROR_INIT;

  (void)unused;
  rush_status status = API(self)->node_destroy(N(self), &err);
  return py_done(ST(self), status, &err);
}

static PyObject *node_is_before(PyObject *self, PyObject *other)
{
  rush_error err = RUSH_ERROR_INIT;
  bool out;

  if (!py_ir_want(self, other, PY_NODE))
    return NULL;
  if (API(self)->node_is_before(N(self), N(other), &out, &err) != RUSH_OK)
    return py_raise(ST(self), &err);
  return PyBool_FromLong(out);
}

/* _set_input(i, value, insert) */
static PyObject *node_set_input(PyObject *self, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  Py_ssize_t i;
  PyObject *v;
  int insert;

  if (!PyArg_ParseTuple(args, "nOp:replaceInput", &i, &v, &insert) ||
      !py_ir_want(self, v, PY_VALUE))
    return NULL;
  rush_status status = insert ? API(self)->node_insert_input(N(self), (size_t)i, V(v), &err)
                              : API(self)->node_set_input(N(self), (size_t)i, V(v), &err);
  return py_done(ST(self), status, &err);
}

static PyObject *node_replace_input(PyObject *self, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  PyObject *from, *to;

  if (!PyArg_ParseTuple(args, "OO:replaceInputWith", &from, &to) ||
      !py_ir_want(self, from, PY_VALUE) || !py_ir_want(self, to, PY_VALUE))
    return NULL;
  rush_status status = API(self)->node_replace_input(N(self), V(from), V(to), &err);
  return py_done(ST(self), status, &err);
}

static PyObject *node_remove(PyObject *self, PyObject *arg,
                             rush_status (*fn)(const rush_node *, size_t, rush_error *))
{
  rush_error err = RUSH_ERROR_INIT;
  size_t i = PyLong_AsSize_t(arg);

  if (i == (size_t)-1 && PyErr_Occurred())
    return NULL;
  rush_status status = fn(N(self), i, &err);
  return py_done(ST(self), status, &err);
}
static PyObject *node_remove_input(PyObject *self, PyObject *i)
{
  return node_remove(self, i, API(self)->node_remove_input);
}
static PyObject *node_erase_output(PyObject *self, PyObject *i)
{
  return node_remove(self, i, API(self)->node_remove_output);
}
static PyObject *node_erase_block(PyObject *self, PyObject *i)
{
  return node_remove(self, i, API(self)->node_erase_block);
}

/* insertOutput(i, type=None, name=None) */
static PyObject *node_insert_output(PyObject *self, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  const rush_graph_value *out;
  const char *name = NULL;
  PyObject *type = Py_None;
  Py_ssize_t i;

  if (!PyArg_ParseTuple(args, "n|Oz:insertOutput", &i, &type, &name) ||
      (type != Py_None && !py_ir_want(self, type, PY_TYPE)))
    return NULL;
  if (API(self)->node_insert_output(N(self), (size_t)i, type == Py_None ? NULL : ((py_ir *)type)->p,
                                    name && *name ? name : NULL, &out, &err) != RUSH_OK)
    return py_raise(ST(self), &err);
  return py_ir_value(self, out);
}

static PyObject *node_add_block(PyObject *self, PyObject *unused)
{
  rush_error err = RUSH_ERROR_INIT;
  const rush_block *b;

  (void)unused;
  if (API(self)->node_add_block(N(self), &b, &err) != RUSH_OK)
    return py_raise(ST(self), &err);
  return py_ir_block(self, b);
}

static PyObject *node_named_input(PyObject *self, PyObject *arg)
{
  rush_error err = RUSH_ERROR_INIT;
  const char *name = PyUnicode_AsUTF8(arg);
  const rush_graph_value *out;

  if (!name)
    return NULL;
  if (API(self)->node_named_input(N(self), name, &out, &err) != RUSH_OK)
    return py_raise(ST(self), &err);
  return py_ir_value(self, out);
}

/* -- Attributes -------------------------------------------------------------------------------- */

static PyObject *node_attr_names(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  PyObject *list = PyList_New(0);
  const char *name;

  for (size_t i = 0; list && (name = API(self)->node_attr_name(N(self), i)); i++)
    if (py_append_steal(list, PyUnicode_FromString(name)) < 0)
      Py_CLEAR(list);
  return list;
}

/* Return the kind of an attribute as in torch's kindOf, or None. */
static PyObject *node_attr_kind(PyObject *self, PyObject *arg)
{
  const char *name = PyUnicode_AsUTF8(arg);

  if (!name)
    return NULL;
  LIVE(self);
  const char *kind = API(self)->node_attr_kind(N(self), name);
  if (!kind)
    Py_RETURN_NONE;
  return PyUnicode_FromString(kind);
}

static PyObject *value_object(PyObject *self, rush_value v)
{
  py_call call = {.state = ST(self), .saw_torch = py_find_torch(ST(self)) > 0};
  PyObject *o = py_from_value(&call, v);

  rush_value_release(v);
  py_call_end(&call);
  return o;
}

static PyObject *attr_graphs(PyObject *self, const char *name)
{
  rush_error err = RUSH_ERROR_INIT;
  PyObject *list = PyList_New(0);
  rush_graph *g;

  for (size_t i = 0; list && i < API(self)->node_attr_n_graphs(N(self), name); i++) {
    if (API(self)->node_attr_graph_at(N(self), name, i, &g, &err) != RUSH_OK) {
      Py_DECREF(list);
      return py_raise(ST(self), &err);
    }
    if (py_append_steal(list, py_graph_steal(ST(self), g)) < 0)
      Py_CLEAR(list);
  }
  return list;
}

static PyObject *node_attr(PyObject *self, PyObject *arg)
{
  const rush_backend_api *api = API(self);
  const char *name = PyUnicode_AsUTF8(arg);
  rush_error err = RUSH_ERROR_INIT;
  rush_value v;
  rush_graph *g;

  if (!name)
    return NULL;
  LIVE(self);
  const char *kind = api->node_attr_kind(N(self), name);
  if (!kind)
    return PyErr_Format(PyExc_RuntimeError, "required keyword attribute '%s' is undefined", name);
  if (strcmp(kind, "gs") == 0)
    return attr_graphs(self, name);
  if (strcmp(kind, "g") == 0) {
    if (api->node_attr_graph(N(self), name, &g, &err) != RUSH_OK)
      return py_raise(ST(self), &err);
    return py_graph_steal(ST(self), g);
  }
  if (strncmp(kind, "ty", 2) == 0) {
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && i < api->node_attr_n_types(N(self), name); i++)
      if (py_append_steal(list, py_type_steal(ST(self), api->node_attr_type(N(self), name, i))) < 0)
        Py_CLEAR(list);
    return list;
  }
  if (api->node_attr(N(self), name, &v, &err) != RUSH_OK)
    return py_raise(ST(self), &err);
  return value_object(self, v);
}

/* Set an attribute to the graphs of a sequence: a list, or one. */
static PyObject *set_graphs(PyObject *self, const char *name, bool list, PyObject *o)
{
  rush_error err = RUSH_ERROR_INIT;
  const rush_graph *graphs[64];
  PyObject *seq = PySequence_Fast(o, "expected a sequence of graphs");
  const Py_ssize_t n = seq ? PySequence_Fast_GET_SIZE(seq) : 0;

  if (n > 64)
    PyErr_Format(PyExc_ValueError, "an attribute of %zd graphs; the limit is 64", n);
  for (Py_ssize_t i = 0; seq && i < n && !PyErr_Occurred(); i++)
    graphs[i] = py_ir_want(self, PySequence_Fast_GET_ITEM(seq, i), PY_GRAPH);
  Py_XDECREF(seq); /* the caller's object holds the graphs */
  if (PyErr_Occurred())
    return NULL;
  return py_done(ST(self),
                 API(self)->node_set_attr_graphs(N(self), name, graphs, (size_t)n, list, &err),
                 &err);
}

static PyObject *node_set_attr(PyObject *self, PyObject *args)
{
  py_call call = {.state = ST(self)};
  rush_error err = RUSH_ERROR_INIT;
  const char *name, *kind;
  const rush_type *types[64];
  rush_status status;
  rush_value v;
  PyObject *o;

  if (!PyArg_ParseTuple(args, "ssO:_set_attr", &name, &kind, &o))
    return NULL;
  LIVE(self);
  if (kind[0] == 'g')
    return set_graphs(self, name, kind[1] == 's', o);
  if (strncmp(kind, "ty", 2) == 0) {
    Py_ssize_t n = PySequence_Size(o);

    if (n < 0 || n > 64)
      return PyErr_Occurred()
               ? NULL
               : PyErr_Format(PyExc_ValueError, "an attribute of %zd types; the limit is 64", n);
    PyObject *seq = PySequence_Fast(o, "types");
    for (Py_ssize_t i = 0; seq && i < n; i++)
      if (!(types[i] = py_ir_want(self, PySequence_Fast_GET_ITEM(seq, i), PY_TYPE)))
        Py_CLEAR(seq);
    if (!seq)
      return NULL;
    status = API(self)->node_set_attr_types(N(self), name, types, (size_t)n, &err);
    Py_DECREF(seq);
    return py_done(ST(self), status, &err);
  }
  if (py_to_value(&call, o, &v) < 0)
    return NULL;
  status = API(self)->node_set_attr(N(self), name, kind, v, &err);
  rush_value_release(v);
  py_call_end(&call);
  return py_done(ST(self), status, &err);
}

static PyObject *node_remove_attr(PyObject *self, PyObject *arg)
{
  rush_error err = RUSH_ERROR_INIT;
  const char *name = PyUnicode_AsUTF8(arg);

  if (!name)
    return NULL;
  rush_status status = API(self)->node_remove_attr(N(self), name, &err);
  return py_done(ST(self), status, &err);
}

static PyObject *node_copy_attrs(PyObject *self, PyObject *from)
{
  rush_error err = RUSH_ERROR_INIT;

  if (!py_ir_want(self, from, PY_NODE))
    return NULL;
  rush_status status = API(self)->node_copy_attrs(N(self), N(from), &err);
  return py_done(ST(self), status, &err);
}

/* -- Values ------------------------------------------------------------------------------------ */

static PyObject *value_name(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  const char *name = API(self)->value_name(V(self));
  return name ? PyUnicode_FromString(name)
              : PyUnicode_FromFormat("%u", API(self)->value_id(V(self)));
}

static PyObject *value_set_name(PyObject *self, PyObject *arg)
{
  rush_error err = RUSH_ERROR_INIT;
  const char *name = PyUnicode_AsUTF8(arg);

  if (!name)
    return NULL;
  if (API(self)->value_set_name(V(self), name, &err) != RUSH_OK)
    return py_raise(ST(self), &err);
  return Py_NewRef(self);
}

static PyObject *value_unique(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  return PyLong_FromUnsignedLong(API(self)->value_id(V(self)));
}

static PyObject *value_offset(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  return PyLong_FromSize_t(API(self)->value_offset(V(self)));
}

static PyObject *value_node(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  return py_ir_node(self, API(self)->value_node(V(self)));
}

static PyObject *value_type(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  return py_type_steal(ST(self), API(self)->value_type(V(self)));
}

static PyObject *value_set_type(PyObject *self, PyObject *type)
{
  rush_error err = RUSH_ERROR_INIT;

  if (!py_ir_want(self, type, PY_TYPE))
    return NULL;
  if (API(self)->value_set_type(V(self), ((py_ir *)type)->p, &err) != RUSH_OK)
    return py_raise(ST(self), &err);
  return Py_NewRef(self);
}

/* Uses as (node, input) pairs. */
static PyObject *value_uses(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  PyObject *list = PyList_New(0);
  const rush_node *n;
  size_t input;

  for (size_t i = 0; list && (n = API(self)->value_use(V(self), i, &input)); i++) {
    PyObject *node = py_ir_node(self, n);
    if (py_append_steal(list, node ? Py_BuildValue("(Nn)", node, (Py_ssize_t)input) : NULL) < 0)
      Py_CLEAR(list);
  }
  return list;
}

static PyObject *value_replace_uses(PyObject *self, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  PyObject *by, *after = Py_None;

  if (!PyArg_ParseTuple(args, "O|O:replaceAllUsesWith", &by, &after) ||
      !py_ir_want(self, by, PY_VALUE) || (after != Py_None && !py_ir_want(self, after, PY_NODE)))
    return NULL;
  rush_status status =
    API(self)->value_replace_uses(V(self), V(by), after == Py_None ? NULL : N(after), &err);
  return py_done(ST(self), status, &err);
}

/* (value,) of a constant, or None. */
static PyObject *value_constant(PyObject *self, PyObject *unused)
{
  rush_value v;

  (void)unused;
  LIVE(self);
  if (!API(self)->value_constant(V(self), &v))
    Py_RETURN_NONE;
  PyObject *o = value_object(self, rush_value_retain(v));
  return o ? Py_BuildValue("(N)", o) : NULL;
}

/* -- Tables ------------------------------------------------------------------------------------ */

static PyMethodDef block_methods[] = {
    {"nodes", py_block_nodes, METH_NOARGS, "the nodes in order"},
    {"paramNode", py_block_param, METH_NOARGS, "its outputs are the inputs"},
    {"returnNode", py_block_return, METH_NOARGS, "its inputs are the outputs"},
    {"owningNode", block_owner, METH_NOARGS, "the node it belongs to, or None"},
    {"owningGraph", node_graph, METH_NOARGS, "the graph"},
    {"findNode", KW(py_find_node), "findNode(kind, recurse=True): the first, or None"},
    {"findAllNodes", KW(py_find_all), "findAllNodes(kind, recurse=True)"},
    {NULL, NULL, 0, NULL}};

static PyMethodDef node_methods[] = {
    {"kind", node_kind, METH_NOARGS, "'aten::add'"},
    {"overload", node_overload, METH_NOARGS, "'Tensor', or ''"},
    {"schema", node_schema, METH_NOARGS, "the schema that the inputs fit"},
    {"_source", node_source, METH_NOARGS, "file:line:column"},
    {"_inputs", node_inputs, METH_NOARGS, "a list"},
    {"_outputs", node_outputs, METH_NOARGS, "a list"},
    {"_blocks", node_blocks, METH_NOARGS, "a list"},
    {"owningBlock", node_owner, METH_NOARGS, "the block, or None"},
    {"owningGraph", node_graph, METH_NOARGS, "the graph"},
    {"prev", node_prev, METH_NOARGS, "the node before it, or None"},
    {"next", node_next, METH_NOARGS, "the node behind it, or None"},
    {"isLive", node_is_live, METH_NOARGS, "was it not destroyed?"},
    {"_place", node_place, METH_VARARGS, "_place(node, after, move)"},
    {"destroy", node_destroy, METH_NOARGS, "its outputs must have no uses"},
    {"isBefore", node_is_before, METH_O, "does it run before the other?"},
    {"_set_input", node_set_input, METH_VARARGS, "_set_input(i, value, insert)"},
    {"replaceInputWith", node_replace_input, METH_VARARGS, "replaceInputWith(from, to)"},
    {"removeInput", node_remove_input, METH_O, "removeInput(i)"},
    {"eraseOutput", node_erase_output, METH_O, "eraseOutput(i): without uses"},
    {"eraseBlock", node_erase_block, METH_O, "eraseBlock(i)"},
    {"insertOutput", node_insert_output, METH_VARARGS, "insertOutput(i, type=None, name='')"},
    {"addBlock", node_add_block, METH_NOARGS, "a new block, behind the others"},
    {"namedInput", node_named_input, METH_O, "the input that the schema calls so"},
    {"attributeNames", node_attr_names, METH_NOARGS, "names of attributes"},
    {"_attr_kind", node_attr_kind, METH_O, "a kind, or None"},
    {"_attr", node_attr, METH_O, "an attribute"},
    {"_set_attr", node_set_attr, METH_VARARGS, "_set_attr(name, kind, value)"},
    {"_remove_attr", node_remove_attr, METH_O, "forget an attribute"},
    {"_copy_attrs", node_copy_attrs, METH_O, "all of another node"},
    {"findNode", KW(py_find_node), "findNode(kind, recurse=True): the first inside, or None"},
    {"findAllNodes", KW(py_find_all), "findAllNodes(kind, recurse=True)"},
    {NULL, NULL, 0, NULL}};

static PyMethodDef value_methods[] = {
    {"debugName", value_name, METH_NOARGS, "the name without %"},
    {"setDebugName", value_set_name, METH_O, "an older owner of the name gets another"},
    {"unique", value_unique, METH_NOARGS, "a number"},
    {"offset", value_offset, METH_NOARGS, "its place among the node's outputs"},
    {"node", value_node, METH_NOARGS, "the node that computes it"},
    {"owningGraph", node_graph, METH_NOARGS, "the graph"},
    {"type", value_type, METH_NOARGS, "its type"},
    {"setType", value_set_type, METH_O, "setType(type)"},
    {"_uses", value_uses, METH_NOARGS, "(node, input) pairs"},
    {"_replace_uses", value_replace_uses, METH_VARARGS, "_replace_uses(value, after=None)"},
    {"_constant", value_constant, METH_NOARGS, "(value,), or None"},
    {NULL, NULL, 0, NULL}};

static PyObject *value_repr(PyObject *self)
{
  if (!API(self)->value_is_live(V(self)))
    return PyUnicode_FromString("<destroyed Value>");
  PyObject *name = value_name(self, NULL);
  rush_error err = RUSH_ERROR_INIT;
  const rush_node *n = API(self)->value_node(V(self));
  char *text = NULL;
  rush_status status = API(self)->node_text(n, &text, &err);
  PyObject *node = py_text_or_raise(ST(self), status, text, &err), *out = NULL;

  if (name && node)
    out = PyUnicode_FromFormat("%U defined in (%U)", name, node);
  Py_XDECREF(name);
  Py_XDECREF(node);
  return out;
}

IR_SLOTS(block, {Py_tp_doc, "A list of nodes with inputs and outputs."});
IR_SLOTS(node, {Py_tp_repr, node_repr}, {Py_tp_doc, "A call of an operator, or a construct."});
IR_SLOTS(value, {Py_tp_repr, value_repr},
         {Py_tp_doc, "A result of a node or an input of a block, used by nodes."});

PyType_Spec py_block_spec = {"rushlight.Block", sizeof(py_ir), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, block_slots};
PyType_Spec py_node_spec = {"rushlight.Node", sizeof(py_ir), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, node_slots};
PyType_Spec py_value_spec = {"rushlight.Value", sizeof(py_ir), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, value_slots};
