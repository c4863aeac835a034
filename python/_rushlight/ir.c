/* ir.c -- graphs, blocks, nodes and values of backend.h as Python objects.  rushlight/ir.py adds
 * the methods that can be written in Python.
 *
 * A block, node or value holds the Python object of its graph, so the graph lives as long as any of
 * them; using the handle of a destroyed one raises an error. */
#include "ir.h"
#include "script.h"

#include <string.h>

/* -- Graphs ------------------------------------------------------------------------------------ */

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
  py_state *st = PyType_GetModuleState(type);
  rush_error err = RUSH_ERROR_INIT;
  rush_graph *g;

  if (!st || !PyArg_ParseTuple(args, ":Graph") || (kwargs && PyDict_GET_SIZE(kwargs)))
    return NULL;
  if (st->api->graph_create(st->context, &g, &err) != RUSH_OK)
    return py_raise(st, &err);
  return py_graph_steal(st, g);
}

PyObject *py_parse_ir(PyObject *m, PyObject *args, PyObject *kwargs)
{
  static char *names[] = {"input", "parse_tensor_constants", "scope", NULL};
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  PyObject *scope = Py_None;
  int tensors = 0;
  const char *text;
  rush_graph *g;

  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|pO:parse_ir", names, &text, &tensors, &scope))
    return NULL;
  if (scope != Py_None && !PyObject_TypeCheck(scope, st->ir_types[PY_GRAPH]))
    return PyErr_Format(PyExc_TypeError,
                        "scope is a Graph, whose program has the classes that the text names");
  if (st->api->graph_parse(st->context, text, tensors, scope == Py_None ? NULL : G(scope), &g,
                           &err) != RUSH_OK)
    return py_raise(st, &err);
  return py_graph_steal(st, g);
}

static PyObject *graph_str(PyObject *self, PyObject *args, PyObject *kwargs)
{
  static char *names[] = {"print_source_ranges", NULL};
  rush_error err = RUSH_ERROR_INIT;
  int ranges = 1;
  char *text = NULL;

  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:str", names, &ranges))
    return NULL;
  rush_status status = API(self)->graph_text(G(self), ranges, &text, &err);
  return py_text_or_raise(ST(self), status, text, &err);
}

static PyObject *graph_repr(PyObject *self)
{
  rush_error err = RUSH_ERROR_INIT;
  char *text = NULL;
  rush_status status = API(self)->graph_text(G(self), true, &text, &err);

  return py_text_or_raise(ST(self), status, text, &err);
}

static PyObject *graph_dot(PyObject *self, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  const char *name = "graph";
  char *text = NULL;

  if (!PyArg_ParseTuple(args, "|s:dot", &name))
    return NULL;
  rush_status status = API(self)->graph_dot(G(self), name, &text, &err);
  return py_text_or_raise(ST(self), status, text, &err);
}

static PyObject *graph_block(PyObject *self, PyObject *unused)
{
  (void)unused;
  return py_ir_block(self, API(self)->graph_block(G(self)));
}

static PyObject *graph_copy(PyObject *self, PyObject *unused)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_graph *g;

  (void)unused;
  if (API(self)->graph_copy(G(self), &g, &err) != RUSH_OK)
    return py_raise(ST(self), &err);
  return py_graph_steal(ST(self), g);
}

static PyObject *graph_lint(PyObject *self, PyObject *unused)
{
  rush_error err = RUSH_ERROR_INIT;

  (void)unused;
  rush_status status = API(self)->graph_lint(G(self), &err);
  return py_done(ST(self), status, &err);
}

static PyObject *graph_run_pass(PyObject *self, PyObject *name)
{
  rush_error err = RUSH_ERROR_INIT;
  const char *text = PyUnicode_AsUTF8(name);

  if (!text)
    return NULL;
  rush_status status = API(self)->graph_run_pass(G(self), text, &err);
  return py_done(ST(self), status, &err);
}

static PyObject *graph_insert_point(PyObject *self, PyObject *unused)
{
  (void)unused;
  return py_ir_node(self, API(self)->graph_insert_point(G(self)));
}

static PyObject *graph_set_insert_point(PyObject *self, PyObject *at)
{
  rush_error err = RUSH_ERROR_INIT;
  const void *p = PyObject_TypeCheck(at, ST(self)->ir_types[PY_BLOCK])
                    ? (py_ir_live(at) < 0 ? NULL : API(self)->block_return(B(at)))
                    : py_ir_want(self, at, PY_NODE);

  if (!p)
    return NULL;
  rush_status status = API(self)->graph_set_insert_point(G(self), p, &err);
  return py_done(ST(self), status, &err);
}

static PyObject *graph_insert_node(PyObject *self, PyObject *n)
{
  rush_error err = RUSH_ERROR_INIT;

  if (!py_ir_want(self, n, PY_NODE))
    return NULL;
  if (API(self)->graph_insert_node(G(self), N(n), &err) != RUSH_OK)
    return py_raise(ST(self), &err);
  return Py_NewRef(n);
}

static PyObject *graph_insert_constant(PyObject *self, PyObject *args)
{
  py_call call = {.state = ST(self)};
  rush_error err = RUSH_ERROR_INIT;
  const rush_graph_value *out;
  PyObject *o, *type = Py_None, *result = NULL;
  rush_value v;

  if (!PyArg_ParseTuple(args, "O|O:insertConstant", &o, &type) ||
      (type != Py_None && !py_ir_want(self, type, PY_TYPE)) || py_to_value(&call, o, &v) < 0)
    return NULL;
  const rush_type *t = type == Py_None ? NULL : ((py_ir *)type)->p;
  if (API(self)->graph_insert_constant(G(self), v, t, &out, &err) != RUSH_OK)
    py_raise(ST(self), &err);
  else
    result = py_ir_value(self, out);
  rush_value_release(v);
  py_call_end(&call);
  return result;
}

/* Values, and other objects as constants. */
typedef struct mixed_args {
  const rush_graph_value **values;
  rush_value *constants;
  const char **names;
  size_t n, n_named;
} mixed_args;

static void mixed_free(mixed_args *m)
{
  for (size_t i = 0; m->constants && i < m->n; i++)
    rush_value_release(m->constants[i]);
  PyMem_Free(m->constants);
  PyMem_Free(m->values);
  PyMem_Free(m->names);
}

static int mixed_add(PyObject *self, py_call *call, mixed_args *m, PyObject *o)
{
  size_t i = m->n;

  if (PyObject_TypeCheck(o, ST(self)->ir_types[PY_VALUE])) {
    m->values[i] = py_ir_want(self, o, PY_VALUE);
    if (!m->values[i])
      return -1;
  } else if (py_to_value(call, o, &m->constants[i]) < 0) {
    return -1;
  }
  m->n++;
  return 0;
}

static int mixed_fill(PyObject *self, py_call *call, mixed_args *m, PyObject *seq, PyObject *kwargs)
{
  size_t n = (size_t)PySequence_Fast_GET_SIZE(seq),
         k = kwargs ? (size_t)PyDict_GET_SIZE(kwargs) : 0;
  PyObject *key, *o;
  Py_ssize_t pos = 0;

  m->values = PyMem_Calloc(n + k + 1, sizeof *m->values);
  m->constants = PyMem_Calloc(n + k + 1, sizeof *m->constants);
  m->names = PyMem_Calloc(k + 1, sizeof *m->names);
  if (!m->values || !m->constants || !m->names) {
    PyErr_NoMemory();
    return -1;
  }
  for (size_t i = 0; i < n; i++)
    if (mixed_add(self, call, m, PySequence_Fast_GET_ITEM(seq, (Py_ssize_t)i)) < 0)
      return -1;
  while (kwargs && PyDict_Next(kwargs, &pos, &key, &o)) {
    m->names[m->n_named] = PyUnicode_AsUTF8(key);
    if (!m->names[m->n_named++] || mixed_add(self, call, m, o) < 0)
      return -1;
  }
  return 0;
}

static PyObject *graph_insert(PyObject *self, PyObject *args, PyObject *kwargs)
{
  py_call call = {.state = ST(self)};
  rush_error err = RUSH_ERROR_INIT;
  const rush_graph_value *out;
  PyObject *list = NULL, *result = NULL;
  mixed_args m = {0};
  const char *name;

  if (!PyArg_ParseTuple(args, "s|O:insert", &name, &list))
    return NULL;
  PyObject *seq = list ? PySequence_Fast(list, "insert takes a list of arguments") : PyTuple_New(0);
  if (seq && mixed_fill(self, &call, &m, seq, kwargs) == 0) {
    if (API(self)->graph_insert(G(self), name, m.values, m.constants, m.n, m.names, m.n_named, &out,
                                &err) != RUSH_OK)
      py_raise(ST(self), &err);
    else
      result = py_ir_value(self, out);
  }
  mixed_free(&m);
  py_call_end(&call);
  Py_XDECREF(seq);
  return result;
}

static PyObject *graph_create(PyObject *self, PyObject *args)
{
  PyObject *a = NULL, *b = NULL, *seq = NULL, *result = NULL;
  const rush_graph_value **inputs = NULL;
  rush_error err = RUSH_ERROR_INIT;
  const rush_node *out;
  const char *kind;
  Py_ssize_t n = 0;
  size_t n_outputs = 1;

  if (!PyArg_ParseTuple(args, "s|OO:create", &kind, &a, &b))
    return NULL;
  PyObject *number = b ? b : a && PyLong_Check(a) ? a : NULL;
  PyObject *list = a && a != number ? a : NULL;
  if (number && (n_outputs = PyLong_AsSize_t(number)) == (size_t)-1 && PyErr_Occurred())
    return NULL;
  if (list) {
    seq = PySequence_Fast(list, "create takes a list of inputs");
    n = seq ? PySequence_Fast_GET_SIZE(seq) : 0;
    inputs = seq ? PyMem_Calloc((size_t)n + 1, sizeof *inputs) : NULL;
    if (seq && !inputs)
      PyErr_NoMemory();
    if (!inputs)
      goto end;
  }
  for (Py_ssize_t i = 0; i < n; i++)
    if (!(inputs[i] = py_ir_want(self, PySequence_Fast_GET_ITEM(seq, i), PY_VALUE)))
      goto end;
  if (API(self)->node_create(G(self), kind, inputs, (size_t)n, n_outputs, &out, &err) != RUSH_OK)
    py_raise(ST(self), &err);
  else
    result = py_ir_node(self, out);
end:
  PyMem_Free(inputs);
  Py_XDECREF(seq);
  return result;
}

/* insertGraph(graph, inputs): copies its nodes; returns the values of its outputs. */
static PyObject *graph_insert_graph(PyObject *self, PyObject *args)
{
  PyObject *from, *list, *result = NULL;
  rush_error err = RUSH_ERROR_INIT;

  if (!PyArg_ParseTuple(args, "OO:insertGraph", &from, &list) || !py_ir_want(self, from, PY_GRAPH))
    return NULL;
  PyObject *seq = PySequence_Fast(list, "insertGraph takes a list of inputs");
  if (!seq)
    return NULL;
  size_t n = (size_t)PySequence_Fast_GET_SIZE(seq);
  size_t n_out = API(self)->block_n_outputs(API(self)->graph_block(G(from)));
  const rush_graph_value **in = PyMem_Calloc(n + n_out + 1, sizeof *in);
  if (!in)
    PyErr_NoMemory();
  for (size_t i = 0; in && i < n; i++)
    if (!(in[i] = py_ir_want(self, PySequence_Fast_GET_ITEM(seq, (Py_ssize_t)i), PY_VALUE)))
      goto end;
  if (in && API(self)->graph_insert_graph(G(self), G(from), in, n, in + n, &err) != RUSH_OK)
    py_raise(ST(self), &err);
  else if (in && (result = PyList_New(0)))
    for (size_t i = 0; i < n_out && result; i++)
      if (py_append_steal(result, py_ir_value(self, in[n + i])) < 0)
        Py_CLEAR(result);
end:
  PyMem_Free(in);
  Py_DECREF(seq);
  return result;
}

/* differentiate(): (f, df, numbers), see graph_differentiate in backend.h */
static PyObject *graph_differentiate(PyObject *self, PyObject *unused)
{
  py_call call = {.state = ST(self)};
  rush_error err = RUSH_ERROR_INIT;
  rush_value numbers;
  rush_graph *f, *df;

  (void)unused;
  if (API(self)->graph_differentiate(G(self), &f, &df, &numbers, &err) != RUSH_OK)
    return py_raise(ST(self), &err);
  PyObject *a = py_graph_steal(ST(self), f), *b = py_graph_steal(ST(self), df);
  PyObject *c = py_from_value(&call, numbers);
  PyObject *all = a && b && c ? PyTuple_Pack(3, a, b, c) : NULL;

  py_call_end(&call);
  rush_value_release(numbers);
  Py_XDECREF(a);
  Py_XDECREF(b);
  Py_XDECREF(c);
  return all;
}

static PyObject *graph_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
  py_call call = {.state = ST(self)};
  rush_error err = RUSH_ERROR_INIT;
  PyObject *out = NULL;
  rush_status status;
  rush_value result;
  py_args a;

  if (kwargs && PyDict_GET_SIZE(kwargs))
    return PyErr_Format(PyExc_TypeError, "a graph takes positional arguments");
  if (py_sync_default_dtype(call.state) < 0 ||
      py_args_convert(&call, &PyTuple_GET_ITEM(args, 0), (size_t)PyTuple_GET_SIZE(args), NULL, &a) <
        0) {
    py_call_end(&call);
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS
  status = API(self)->graph_call(G(self), a.args, a.n_args, &result, &err);
  Py_END_ALLOW_THREADS
  if (status != RUSH_OK) {
    py_raise(ST(self), &err);
  } else {
    out = PyErr_Occurred() ? NULL : py_from_value(&call, result);
    rush_value_release(result);
  }
  if (out && py_call_writes(&call) < 0)
    Py_CLEAR(out);
  py_args_free(&a);
  py_call_end(&call);
  return out;
}

/* Return the graph that the last call of a function or of a module's method ran. */
PyObject *py_last_graph(py_state *st, PyObject *owner, const char *name)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_graph *g;
  const rush_status status =
    PyObject_TypeCheck(owner, st->function_type)
      ? st->api->graph_of_last_function_call(((py_function *)owner)->function, &g, &err)
      : st->api->graph_of_last_call(((py_module *)owner)->module, name, &g, &err);

  return status == RUSH_OK ? py_graph_steal(st, g) : py_raise(st, &err);
}

/* last_graph(function): a Graph */
PyObject *py_last_function_graph(PyObject *m, PyObject *f)
{
  py_state *st = PyModule_GetState(m);

  if (!PyObject_TypeCheck(f, st->function_type))
    return PyErr_Format(PyExc_TypeError, "last_graph takes a function, not %s",
                        Py_TYPE(f)->tp_name);
  return py_last_graph(st, f, NULL);
}

/* last_executed_graph(): a Graph, or None if what was called last does not exist any more */
PyObject *py_last_executed_graph(PyObject *m, PyObject *unused)
{
  py_state *st = PyModule_GetState(m);
  PyObject *called = st->last_called;

  (void)unused;
  if (!called || (!PyObject_TypeCheck(called, st->function_type) && !st->last_method[0]))
    Py_RETURN_NONE;
  Py_INCREF(called);
  PyObject *graph = py_last_graph(st, called, st->last_method);
  Py_DECREF(called);
  return graph;
}

PyObject *py_method_graph(py_state *st, PyObject *owner, const char *name, bool inlined)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_status status;
  rush_graph *g;

  if (PyObject_TypeCheck(owner, st->function_type))
    status = st->api->graph_of_function(((py_function *)owner)->function, &g, &err);
  else if (PyObject_TypeCheck(owner, st->module_type))
    status = st->api->graph_of_method(((py_module *)owner)->module, name, &g, &err);
  else
    status = st->api->graph_of_value(st->context, ((py_object *)owner)->value, name, &g, &err);
  if (status == RUSH_OK && inlined &&
      (status = st->api->graph_run_pass(g, "inline", &err)) != RUSH_OK)
    st->api->graph_release(g);
  return status == RUSH_OK ? py_graph_steal(st, g) : py_raise(st, &err);
}

PyObject *py_shown_graph(py_state *st, PyObject *owner, const char *name)
{
  if (!PyObject_TypeCheck(owner, st->module_type))
    return py_method_graph(st, owner, name, false);
  py_module *m = (py_module *)owner;
  if (!m->graphs && !(m->graphs = PyDict_New()))
    return NULL;
  PyObject *known = PyDict_GetItemString(m->graphs, name); /* borrowed */
  if (known)
    return Py_NewRef(known);
  PyObject *made = py_method_graph(st, owner, name, false);
  if (made && PyDict_SetItemString(m->graphs, name, made) < 0)
    Py_CLEAR(made);
  return made;
}

/* function_graph(function, inlined) */
PyObject *py_function_graph(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  PyObject *f;
  int inlined;

  if (!PyArg_ParseTuple(args, "O!p:function_graph", st->function_type, &f, &inlined))
    return NULL;
  return py_method_graph(st, f, NULL, inlined);
}

/* -- Tables ------------------------------------------------------------------------------------ */

static PyMethodDef graph_methods[] = {
  {"str", KW(graph_str), "the graph's text"},
  {"dot", graph_dot, METH_VARARGS, "dot(name='graph'): the graph in Graphviz's language"},
  {"block", graph_block, METH_NOARGS, "the outermost block"},
  {"copy", graph_copy, METH_NOARGS, "an independent copy"},
  {"lint", graph_lint, METH_NOARGS, "raises when a rule of graphs is broken"},
  {"run_pass", graph_run_pass, METH_O, "run_pass('dce'): change the graph in place"},
  {"_differentiate", graph_differentiate, METH_NOARGS, "(f, df, numbers): rushlight.ir.Gradient"},
  {"insertPoint", graph_insert_point, METH_NOARGS, "new nodes go before this one"},
  {"setInsertPoint", graph_set_insert_point, METH_O, "before a node, or at the end of a block"},
  {"insertNode", graph_insert_node, METH_O, "link a node at the insert point"},
  {"insertConstant", graph_insert_constant, METH_VARARGS, "insertConstant(value, type=None)"},
  {"insert", KW(graph_insert),
   "insert('aten::add', [x, 3], alpha=2): a call; what is no Value becomes a constant"},
  {"create", graph_create, METH_VARARGS,
   "create(kind, inputs=[], n_outputs=1): a node that is in no block yet"},
  {"insertGraph", graph_insert_graph, METH_VARARGS,
   "insertGraph(graph, inputs): its nodes at the insert point; its outputs"},
  {"nodes", py_block_nodes, METH_NOARGS, "the nodes in order"},
  {"param_node", py_block_param, METH_NOARGS, "its outputs are the inputs"},
  {"return_node", py_block_return, METH_NOARGS, "its inputs are the outputs"},
  {"findNode", KW(py_find_node), "findNode(kind, recurse=True): the first, or None"},
  {"findAllNodes", KW(py_find_all), "findAllNodes(kind, recurse=True)"},
  {NULL, NULL, 0, NULL}};

IR_SLOTS(graph, {Py_tp_repr, graph_repr}, {Py_tp_call, graph_call}, {Py_tp_new, graph_new},
         {Py_tp_doc, "A graph of PyTorch's IR."});
static PyType_Spec graph_spec = {"rushlight.Graph", sizeof(py_ir), 0, Py_TPFLAGS_DEFAULT,
                                 graph_slots};

int py_add_ir_types(PyObject *m, py_state *st)
{
  PyType_Spec *specs[] = {&graph_spec, &py_block_spec, &py_node_spec, &py_value_spec};

  st->api = rush_backend(RUSH_BACKEND_ABI);
  for (int i = PY_GRAPH; i <= PY_VALUE; i++)
    if (!(st->ir_types[i] = py_add_type(m, specs[i])))
      return -1;
  return py_add_type_types(m, st);
}
