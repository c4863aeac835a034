/* Graphs, blocks, nodes and values of backend.h as Python objects.  rushlight/ir.py adds to these types what can be said
 * in Python.
 *
 * A block, node or value holds the Python object of its graph, so the graph lives as long as any of them; a handle
 * of what was destroyed says so when it is used. */
#include "ir.h"
#include "script.h"

#include <string.h>

/* -- Objects --------------------------------------------------------------------------------------------- */

#define G(o) ((rush_graph *)(uintptr_t)((py_ir *)(o))->p)
#define B(o) ((const rush_block *)((py_ir *)(o))->p)
#define N(o) ((const rush_node *)((py_ir *)(o))->p)
#define V(o) ((const rush_graph_value *)((py_ir *)(o))->p)
#define ST(o) (((py_ir *)(o))->state)
#define API(o) (ST(o)->api)
/* The graph's object of a graph, block, node or value. */
#define GRAPH(o) (((py_ir *)(o))->graph ? ((py_ir *)(o))->graph : (o))

static PyObject *make(py_state *st, int kind, PyObject *graph, const void *p)
{
  PyTypeObject *type = st->ir_types[kind];

  if (!p)
    Py_RETURN_NONE;
  py_ir *o = (py_ir *)type->tp_alloc(type, 0);
  if (!o)
    return NULL;
  o->graph = Py_XNewRef(graph);
  o->state = st;
  o->p = p;
  return (PyObject *)o;
}

PyObject *py_graph_steal(py_state *st, rush_graph *g)
{
  PyObject *o = make(st, PY_GRAPH, NULL, g);

  if (!o)
    st->api->graph_release(g);
  return o;
}

static PyObject *node_of(PyObject *o, const rush_node *n) { return make(ST(o), PY_NODE, GRAPH(o), n); }
static PyObject *value_of(PyObject *o, const rush_graph_value *v) { return make(ST(o), PY_VALUE, GRAPH(o), v); }
PyObject *py_ir_value(PyObject *graph, const rush_graph_value *v) { return value_of(graph, v); }
static PyObject *block_of(PyObject *o, const rush_block *b) { return make(ST(o), PY_BLOCK, GRAPH(o), b); }

static void ir_dealloc(PyObject *self)
{
  py_ir *o = (py_ir *)self;
  PyTypeObject *type = Py_TYPE(self);

  if (type == o->state->ir_types[PY_GRAPH])
    o->state->api->graph_release(G(self));
  Py_XDECREF(o->graph);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject *ir_compare(PyObject *a, PyObject *b, int op)
{
  if ((op != Py_EQ && op != Py_NE) || Py_TYPE(a) != Py_TYPE(b))
    Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((((py_ir *)a)->p == ((py_ir *)b)->p) == (op == Py_EQ));
}

static Py_hash_t ir_hash(PyObject *self) { return (Py_hash_t)((uintptr_t)((py_ir *)self)->p >> 4) & PY_SSIZE_T_MAX; }

/* Is the node or value still there? */
static int live(PyObject *o)
{
  py_state *st = ST(o);
  bool is = Py_TYPE(o) == st->ir_types[PY_NODE]    ? st->api->node_is_live(N(o))
            : Py_TYPE(o) == st->ir_types[PY_VALUE] ? st->api->value_is_live(V(o))
            : Py_TYPE(o) == st->ir_types[PY_BLOCK] ? st->api->node_is_live(st->api->block_return(B(o)))
                                                   : true;

  if (!is)
    PyErr_Format(PyExc_RuntimeError, "this %s was destroyed", strrchr(Py_TYPE(o)->tp_name, '.') + 1);
  return is ? 0 : -1;
}

#define LIVE(o) do { if (live(o) < 0) return NULL; } while (0)

/* An argument of the kind that is wanted, of the same graph as `of`. */
static const void *want(PyObject *of, PyObject *o, int kind)
{
  py_state *st = ST(of);

  if (!PyObject_TypeCheck(o, st->ir_types[kind])) {
    PyErr_Format(PyExc_TypeError, "expected a %s, not %s", strrchr(st->ir_types[kind]->tp_name, '.') + 1, Py_TYPE(o)->tp_name);
    return NULL;
  }
  return kind != PY_GRAPH && live(o) < 0 ? NULL : ((py_ir *)o)->p;
}

static PyObject *text_out(PyObject *o, rush_status status, char *text, rush_error *err)
{
  py_state *st = ST(o);

  if (status != RUSH_OK)
    return py_raise(st, err);
  PyObject *s = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  rush_free_text(st->context, text);
  return s;
}

/* None, or what err says. */
static PyObject *done(PyObject *o, rush_status status, rush_error *err)
{
  if (status != RUSH_OK)
    return py_raise(ST(o), err);
  Py_RETURN_NONE;
}

/* append, which steals the item; -1 also when it is NULL. */
static int add(PyObject *list, PyObject *item)
{
  int result = item ? PyList_Append(list, item) : -1;

  Py_XDECREF(item);
  return result;
}

/* -- Graphs ---------------------------------------------------------------------------------------------- */

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
    return PyErr_Format(PyExc_TypeError, "scope is a Graph, whose program has the classes that the text names");
  if (st->api->graph_parse(st->context, text, tensors, scope == Py_None ? NULL : G(scope), &g, &err) != RUSH_OK)
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
  return text_out(self, status, text, &err);
}

static PyObject *graph_repr(PyObject *self)
{
  rush_error err = RUSH_ERROR_INIT;
  char *text = NULL;
  rush_status status = API(self)->graph_text(G(self), true, &text, &err);

  return text_out(self, status, text, &err);
}

static PyObject *graph_dot(PyObject *self, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  const char *name = "graph";
  char *text = NULL;

  if (!PyArg_ParseTuple(args, "|s:dot", &name))
    return NULL;
  rush_status status = API(self)->graph_dot(G(self), name, &text, &err);
  return text_out(self, status, text, &err);
}

static PyObject *graph_block(PyObject *self, PyObject *unused)
{
  (void)unused;
  return block_of(self, API(self)->graph_block(G(self)));
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
  return done(self, status, &err);
}

static PyObject *graph_run_pass(PyObject *self, PyObject *name)
{
  rush_error err = RUSH_ERROR_INIT;
  const char *text = PyUnicode_AsUTF8(name);

  if (!text)
    return NULL;
  rush_status status = API(self)->graph_run_pass(G(self), text, &err);
  return done(self, status, &err);
}

static PyObject *graph_insert_point(PyObject *self, PyObject *unused)
{
  (void)unused;
  return node_of(self, API(self)->graph_insert_point(G(self)));
}

static PyObject *graph_set_insert_point(PyObject *self, PyObject *at)
{
  rush_error err = RUSH_ERROR_INIT;
  const void *p = PyObject_TypeCheck(at, ST(self)->ir_types[PY_BLOCK]) ? (live(at) < 0 ? NULL : API(self)->block_return(B(at)))
                                                                       : want(self, at, PY_NODE);

  if (!p)
    return NULL;
  rush_status status = API(self)->graph_set_insert_point(G(self), p, &err);
  return done(self, status, &err);
}

static PyObject *graph_insert_node(PyObject *self, PyObject *n)
{
  rush_error err = RUSH_ERROR_INIT;

  if (!want(self, n, PY_NODE))
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
      (type != Py_None && !want(self, type, PY_TYPE)) || py_to_value(&call, o, &v) < 0)
    return NULL;
  const rush_type *t = type == Py_None ? NULL : ((py_ir *)type)->p;
  if (API(self)->graph_insert_constant(G(self), v, t, &out, &err) != RUSH_OK)
    py_raise(ST(self), &err);
  else
    result = value_of(self, out);
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
    m->values[i] = want(self, o, PY_VALUE);
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
  size_t n = (size_t)PySequence_Fast_GET_SIZE(seq), k = kwargs ? (size_t)PyDict_GET_SIZE(kwargs) : 0;
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
    if (API(self)->graph_insert(G(self), name, m.values, m.constants, m.n, m.names, m.n_named, &out, &err) != RUSH_OK)
      py_raise(ST(self), &err);
    else
      result = value_of(self, out);
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
    if (!inputs)
      goto end;
  }
  for (Py_ssize_t i = 0; i < n; i++)
    if (!(inputs[i] = want(self, PySequence_Fast_GET_ITEM(seq, i), PY_VALUE)))
      goto end;
  if (API(self)->node_create(G(self), kind, inputs, (size_t)n, n_outputs, &out, &err) != RUSH_OK)
    py_raise(ST(self), &err);
  else
    result = node_of(self, out);
end:
  PyMem_Free(inputs);
  Py_XDECREF(seq);
  return result;
}

/* insertGraph(graph, inputs): its nodes, copied; what its outputs became. */
static PyObject *graph_insert_graph(PyObject *self, PyObject *args)
{
  PyObject *from, *list, *result = NULL;
  rush_error err = RUSH_ERROR_INIT;

  if (!PyArg_ParseTuple(args, "OO:insertGraph", &from, &list) || !want(self, from, PY_GRAPH))
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
    if (!(in[i] = want(self, PySequence_Fast_GET_ITEM(seq, (Py_ssize_t)i), PY_VALUE)))
      goto end;
  if (in && API(self)->graph_insert_graph(G(self), G(from), in, n, in + n, &err) != RUSH_OK)
    py_raise(ST(self), &err);
  else if (in && (result = PyList_New(0)))
    for (size_t i = 0; i < n_out && result; i++)
      if (add(result, value_of(self, in[n + i])) < 0)
        Py_CLEAR(result);
end:
  PyMem_Free(in);
  Py_DECREF(seq);
  return result;
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
  if (py_args_convert(&call, &PyTuple_GET_ITEM(args, 0), (size_t)PyTuple_GET_SIZE(args), NULL, &a) < 0) {
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
  if (status == RUSH_OK && inlined && (status = st->api->graph_run_pass(g, "inline", &err)) != RUSH_OK)
    st->api->graph_release(g);
  return status == RUSH_OK ? py_graph_steal(st, g) : py_raise(st, &err);
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

/* -- Blocks ---------------------------------------------------------------------------------------------- */

static const rush_block *block_in(PyObject *o)
{
  return Py_TYPE(o) == ST(o)->ir_types[PY_GRAPH] ? API(o)->graph_block(G(o)) : B(o);
}

/* Nodes of a block (or of a graph's) at the moment of the call, as an iterator: they may be moved or destroyed meanwhile. */
static PyObject *block_nodes(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  PyObject *list = PyList_New(0), *it;

  for (const rush_node *n = API(self)->block_first(block_in(self)); list && n; n = API(self)->node_next(n))
    if (add(list, node_of(self, n)) < 0)
      Py_CLEAR(list);
  it = list ? PyObject_GetIter(list) : NULL;
  Py_XDECREF(list);
  return it;
}

static PyObject *block_param(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  return node_of(self, API(self)->block_param(block_in(self)));
}

static PyObject *block_return(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  return node_of(self, API(self)->block_return(block_in(self)));
}

static PyObject *block_owner(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  return node_of(self, API(self)->block_owner(B(self)));
}

/* _find(block, kind, recurse, all) */
static PyObject *find_in(PyObject *self, const rush_block *b, const char *kind, int recurse, PyObject *all)
{
  const rush_node *n = NULL;

  while ((n = API(self)->block_find(b, kind, recurse, n))) {
    if (!all)
      return node_of(self, n);
    if (add(all, node_of(self, n)) < 0)
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
    for (size_t i = 0; i < API(self)->node_n_blocks(N(self)) && found && (list || found == Py_None); i++) {
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

static PyObject *find_node(PyObject *self, PyObject *args, PyObject *kwargs) { return find_nodes(self, args, kwargs, false); }
static PyObject *find_all(PyObject *self, PyObject *args, PyObject *kwargs) { return find_nodes(self, args, kwargs, true); }

/* -- Nodes ----------------------------------------------------------------------------------------------- */

static PyObject *node_text(PyObject *self, rush_status (*fn)(const rush_node *, char **, rush_error *))
{
  rush_error err = RUSH_ERROR_INIT;
  char *text = NULL;

  LIVE(self);
  rush_status status = fn(N(self), &text, &err);
  return text_out(self, status, text, &err);
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
  return PyUnicode_FromString(API(self)->node_kind(N(self)));
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
  size_t n = which == INPUTS ? api->node_n_inputs(N(self)) : which == OUTPUTS ? api->node_n_outputs(N(self)) : api->node_n_blocks(N(self));
  PyObject *list = PyList_New(0);

  for (size_t i = 0; list && i < n; i++)
    if (add(list, which == INPUTS    ? value_of(self, api->node_input(N(self), i))
                  : which == OUTPUTS ? value_of(self, api->node_output(N(self), i))
                                     : block_of(self, api->node_block(N(self), i))) < 0)
      Py_CLEAR(list);
  return list;
}

static PyObject *node_inputs(PyObject *self, PyObject *unused) { (void)unused; return node_list(self, INPUTS); }
static PyObject *node_outputs(PyObject *self, PyObject *unused) { (void)unused; return node_list(self, OUTPUTS); }
static PyObject *node_blocks(PyObject *self, PyObject *unused) { (void)unused; return node_list(self, BLOCKS); }

static PyObject *node_owner(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  return block_of(self, API(self)->node_owner(N(self)));
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
  if (!API(self)->node_owner(N(self)) || (next && N(self) == API(self)->block_return(API(self)->node_owner(N(self)))))
    Py_RETURN_NONE;
  return node_of(self, next ? API(self)->node_next(N(self)) : API(self)->node_prev(N(self)));
}
static PyObject *node_prev(PyObject *self, PyObject *unused) { (void)unused; return node_beside(self, false); }
static PyObject *node_next(PyObject *self, PyObject *unused) { (void)unused; return node_beside(self, true); }

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

  if (!PyArg_ParseTuple(args, "Opp:_place", &at, &after, &move) || !want(self, at, PY_NODE))
    return NULL;
  rush_status status = move ? API(self)->node_move(N(self), N(at), after, &err) : API(self)->node_insert(N(self), N(at), after, &err);
  return done(self, status, &err);
}

static PyObject *node_destroy(PyObject *self, PyObject *unused)
{
  rush_error err = RUSH_ERROR_INIT;

  (void)unused;
  rush_status status = API(self)->node_destroy(N(self), &err);
  return done(self, status, &err);
}

static PyObject *node_is_before(PyObject *self, PyObject *other)
{
  rush_error err = RUSH_ERROR_INIT;
  bool out;

  if (!want(self, other, PY_NODE))
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

  if (!PyArg_ParseTuple(args, "nOp:replaceInput", &i, &v, &insert) || !want(self, v, PY_VALUE))
    return NULL;
  rush_status status = insert ? API(self)->node_insert_input(N(self), (size_t)i, V(v), &err)
                              : API(self)->node_set_input(N(self), (size_t)i, V(v), &err);
  return done(self, status, &err);
}

static PyObject *node_replace_input(PyObject *self, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  PyObject *from, *to;

  if (!PyArg_ParseTuple(args, "OO:replaceInputWith", &from, &to) || !want(self, from, PY_VALUE) || !want(self, to, PY_VALUE))
    return NULL;
  rush_status status = API(self)->node_replace_input(N(self), V(from), V(to), &err);
  return done(self, status, &err);
}

static PyObject *node_remove(PyObject *self, PyObject *arg, rush_status (*fn)(const rush_node *, size_t, rush_error *))
{
  rush_error err = RUSH_ERROR_INIT;
  size_t i = PyLong_AsSize_t(arg);

  if (i == (size_t)-1 && PyErr_Occurred())
    return NULL;
  rush_status status = fn(N(self), i, &err);
  return done(self, status, &err);
}
static PyObject *node_remove_input(PyObject *self, PyObject *i) { return node_remove(self, i, API(self)->node_remove_input); }
static PyObject *node_erase_output(PyObject *self, PyObject *i) { return node_remove(self, i, API(self)->node_remove_output); }
static PyObject *node_erase_block(PyObject *self, PyObject *i) { return node_remove(self, i, API(self)->node_erase_block); }

/* insertOutput(i, type=None, name=None) */
static PyObject *node_insert_output(PyObject *self, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  const rush_graph_value *out;
  const char *name = NULL;
  PyObject *type = Py_None;
  Py_ssize_t i;

  if (!PyArg_ParseTuple(args, "n|Oz:insertOutput", &i, &type, &name) || (type != Py_None && !want(self, type, PY_TYPE)))
    return NULL;
  if (API(self)->node_insert_output(N(self), (size_t)i, type == Py_None ? NULL : ((py_ir *)type)->p,
                                    name && *name ? name : NULL, &out, &err) != RUSH_OK)
    return py_raise(ST(self), &err);
  return value_of(self, out);
}

static PyObject *node_add_block(PyObject *self, PyObject *unused)
{
  rush_error err = RUSH_ERROR_INIT;
  const rush_block *b;

  (void)unused;
  if (API(self)->node_add_block(N(self), &b, &err) != RUSH_OK)
    return py_raise(ST(self), &err);
  return block_of(self, b);
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
  return value_of(self, out);
}

/* -- Attributes ------------------------------------------------------------------------------------------ */

static PyObject *node_attr_names(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  PyObject *list = PyList_New(0);
  const char *name;

  for (size_t i = 0; list && (name = API(self)->node_attr_name(N(self), i)); i++)
    if (add(list, PyUnicode_FromString(name)) < 0)
      Py_CLEAR(list);
  return list;
}

/* The kind of an attribute as torch's kindOf says it, or None. */
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
  if (strcmp(kind, "g") == 0) {
    if (api->node_attr_graph(N(self), name, &g, &err) != RUSH_OK)
      return py_raise(ST(self), &err);
    return py_graph_steal(ST(self), g);
  }
  if (strncmp(kind, "ty", 2) == 0) {
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && i < api->node_attr_n_types(N(self), name); i++)
      if (add(list, py_type_steal(ST(self), api->node_attr_type(N(self), name, i))) < 0)
        Py_CLEAR(list);
    return list;
  }
  if (api->node_attr(N(self), name, &v, &err) != RUSH_OK)
    return py_raise(ST(self), &err);
  return value_object(self, v);
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
  if (strncmp(kind, "ty", 2) == 0) {
    Py_ssize_t n = PySequence_Size(o);

    if (n < 0 || n > 64)
      return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "at most 64 types");
    PyObject *seq = PySequence_Fast(o, "types");
    for (Py_ssize_t i = 0; seq && i < n; i++)
      if (!(types[i] = want(self, PySequence_Fast_GET_ITEM(seq, i), PY_TYPE)))
        Py_CLEAR(seq);
    if (!seq)
      return NULL;
    status = API(self)->node_set_attr_types(N(self), name, types, (size_t)n, &err);
    Py_DECREF(seq);
    return done(self, status, &err);
  }
  if (py_to_value(&call, o, &v) < 0)
    return NULL;
  status = API(self)->node_set_attr(N(self), name, kind, v, &err);
  rush_value_release(v);
  py_call_end(&call);
  return done(self, status, &err);
}

static PyObject *node_remove_attr(PyObject *self, PyObject *arg)
{
  rush_error err = RUSH_ERROR_INIT;
  const char *name = PyUnicode_AsUTF8(arg);

  if (!name)
    return NULL;
  rush_status status = API(self)->node_remove_attr(N(self), name, &err);
  return done(self, status, &err);
}

static PyObject *node_copy_attrs(PyObject *self, PyObject *from)
{
  rush_error err = RUSH_ERROR_INIT;

  if (!want(self, from, PY_NODE))
    return NULL;
  rush_status status = API(self)->node_copy_attrs(N(self), N(from), &err);
  return done(self, status, &err);
}

/* -- Values ---------------------------------------------------------------------------------------------- */

static PyObject *value_name(PyObject *self, PyObject *unused)
{
  (void)unused;
  LIVE(self);
  const char *name = API(self)->value_name(V(self));
  return name ? PyUnicode_FromString(name) : PyUnicode_FromFormat("%u", API(self)->value_id(V(self)));
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
  return node_of(self, API(self)->value_node(V(self)));
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

  if (!want(self, type, PY_TYPE))
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
    PyObject *node = node_of(self, n);
    if (add(list, node ? Py_BuildValue("(Nn)", node, (Py_ssize_t)input) : NULL) < 0)
      Py_CLEAR(list);
  }
  return list;
}

static PyObject *value_replace_uses(PyObject *self, PyObject *args)
{
  rush_error err = RUSH_ERROR_INIT;
  PyObject *by, *after = Py_None;

  if (!PyArg_ParseTuple(args, "O|O:replaceAllUsesWith", &by, &after) || !want(self, by, PY_VALUE) ||
      (after != Py_None && !want(self, after, PY_NODE)))
    return NULL;
  rush_status status = API(self)->value_replace_uses(V(self), V(by), after == Py_None ? NULL : N(after), &err);
  return done(self, status, &err);
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

/* -- Tables ---------------------------------------------------------------------------------------------- */

#define KW(fn) (PyCFunction)(void (*)(void))(fn), METH_VARARGS | METH_KEYWORDS

static PyMethodDef graph_methods[] = {
    {"str", KW(graph_str), "the graph's text"},
    {"dot", graph_dot, METH_VARARGS, "dot(name='graph'): the graph in Graphviz's language"},
    {"block", graph_block, METH_NOARGS, "the outermost block"},
    {"copy", graph_copy, METH_NOARGS, "an independent copy"},
    {"lint", graph_lint, METH_NOARGS, "raises when a rule of graphs is broken"},
    {"run_pass", graph_run_pass, METH_O, "run_pass('dce'): change the graph in place"},
    {"insertPoint", graph_insert_point, METH_NOARGS, "new nodes go before this one"},
    {"setInsertPoint", graph_set_insert_point, METH_O, "before a node, or at the end of a block"},
    {"insertNode", graph_insert_node, METH_O, "link a node at the insert point"},
    {"insertConstant", graph_insert_constant, METH_VARARGS, "insertConstant(value, type=None)"},
    {"insert", KW(graph_insert), "insert('aten::add', [x, 3], alpha=2): a call; what is no Value becomes a constant"},
    {"create", graph_create, METH_VARARGS, "create(kind, inputs=[], n_outputs=1): a node that is in no block yet"},
    {"insertGraph", graph_insert_graph, METH_VARARGS, "insertGraph(graph, inputs): its nodes at the insert point; its outputs"},
    {"nodes", block_nodes, METH_NOARGS, "the nodes in order"},
    {"param_node", block_param, METH_NOARGS, "its outputs are the inputs"},
    {"return_node", block_return, METH_NOARGS, "its inputs are the outputs"},
    {"findNode", KW(find_node), "findNode(kind, recurse=True): the first, or None"},
    {"findAllNodes", KW(find_all), "findAllNodes(kind, recurse=True)"},
    {NULL, NULL, 0, NULL}};

static PyMethodDef block_methods[] = {
    {"nodes", block_nodes, METH_NOARGS, "the nodes in order"},
    {"paramNode", block_param, METH_NOARGS, "its outputs are the inputs"},
    {"returnNode", block_return, METH_NOARGS, "its inputs are the outputs"},
    {"owningNode", block_owner, METH_NOARGS, "the node it belongs to, or None"},
    {"owningGraph", node_graph, METH_NOARGS, "the graph"},
    {"findNode", KW(find_node), "findNode(kind, recurse=True): the first, or None"},
    {"findAllNodes", KW(find_all), "findAllNodes(kind, recurse=True)"},
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
    {"findNode", KW(find_node), "findNode(kind, recurse=True): the first inside, or None"},
    {"findAllNodes", KW(find_all), "findAllNodes(kind, recurse=True)"},
    {NULL, NULL, 0, NULL}};

static PyMethodDef value_methods[] = {
    {"debugName", value_name, METH_NOARGS, "the name without %"},
    {"setDebugName", value_set_name, METH_O, "an older owner of the name gets another"},
    {"unique", value_unique, METH_NOARGS, "a number"},
    {"offset", value_offset, METH_NOARGS, "its place among the node's outputs"},
    {"node", value_node, METH_NOARGS, "what gives it"},
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
  PyObject *node = text_out(self, status, text, &err), *out = NULL;

  if (name && node)
    out = PyUnicode_FromFormat("%U defined in (%U)", name, node);
  Py_XDECREF(name);
  Py_XDECREF(node);
  return out;
}

#define SLOTS(name, ...)                                                                                     \
  static PyType_Slot name##_slots[] = {{Py_tp_dealloc, ir_dealloc}, {Py_tp_richcompare, ir_compare},         \
                                       {Py_tp_hash, ir_hash},       {Py_tp_methods, name##_methods},         \
                                       __VA_ARGS__,                 {0, NULL}}
SLOTS(graph, {Py_tp_repr, graph_repr}, {Py_tp_call, graph_call}, {Py_tp_new, graph_new}, {Py_tp_doc, "A graph of PyTorch's IR."});
SLOTS(block, {Py_tp_doc, "A list of nodes with inputs and outputs."});
SLOTS(node, {Py_tp_repr, node_repr}, {Py_tp_doc, "A call of an operator, or a construct."});
SLOTS(value, {Py_tp_repr, value_repr}, {Py_tp_doc, "What a node or block gives, and others take."});

static PyType_Spec specs[] = {
    {"rushlight.Graph", sizeof(py_ir), 0, Py_TPFLAGS_DEFAULT, graph_slots},
    {"rushlight.Block", sizeof(py_ir), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, block_slots},
    {"rushlight.Node", sizeof(py_ir), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, node_slots},
    {"rushlight.Value", sizeof(py_ir), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, value_slots},
};

int py_add_ir_types(PyObject *m, py_state *st)
{
  st->api = rush_backend(RUSH_BACKEND_ABI);
  for (int i = PY_GRAPH; i <= PY_VALUE; i++) {
    st->ir_types[i] = (PyTypeObject *)PyType_FromModuleAndSpec(m, &specs[i], NULL);
    if (!st->ir_types[i] || PyModule_AddType(m, st->ir_types[i]) < 0)
      return -1;
  }
  return py_add_type_types(m, st);
}
