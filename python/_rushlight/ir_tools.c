/* _rushlight/ir_tools.c -- alias queries, moves and pattern matching of graphs, as functions of the
 * module. Results of an analysis are a capsule; matches are dicts by the pattern's names. A Python
 * callback that raises stops the matching, and the caller gets its exception. */
#include "ir.h"

static void free_aliases(PyObject *capsule)
{
  py_state *st = PyCapsule_GetContext(capsule);

  st->api->alias_release(PyCapsule_GetPointer(capsule, "rush_aliases"));
}

/* alias_analyse(graph): a capsule for alias_query. */
PyObject *py_alias_analyse(PyObject *m, PyObject *graph)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  rush_aliases *a;

  if (!PyObject_TypeCheck(graph, st->ir_types[PY_GRAPH]))
    return PyErr_Format(PyExc_TypeError, "a Graph is wanted");
  if (st->api->alias_analyse(G(graph), &a, &err) != RUSH_OK)
    return py_raise(st, &err);
  PyObject *capsule = PyCapsule_New(a, "rush_aliases", free_aliases);
  if (!capsule)
    st->api->alias_release(a);
  else
    PyCapsule_SetContext(capsule, st);
  return capsule;
}

/* alias_query(capsule, value, other or None, contained): True if they may share memory; without
 * other: if the value is written. */
PyObject *py_alias_query(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  PyObject *capsule, *v, *w;
  int contained;

  if (!PyArg_ParseTuple(args, "OO!Op:alias_query", &capsule, st->ir_types[PY_VALUE], &v, &w,
                        &contained))
    return NULL;
  rush_aliases *a = PyCapsule_GetPointer(capsule, "rush_aliases");
  if (!a)
    return NULL;
  if (w != Py_None && (!PyObject_TypeCheck(w, st->ir_types[PY_VALUE]) ||
                       ((py_ir *)v)->graph != ((py_ir *)w)->graph))
    return PyErr_Format(PyExc_TypeError, "two values of one graph are wanted");
  return PyBool_FromLong(w == Py_None ? st->api->alias_has_writers(a, V(v))
                                      : st->api->alias_may(a, V(v), V(w), contained));
}

/* move_if_valid(node, at, after, try_only) */
PyObject *py_move_if_valid(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  PyObject *n, *at;
  int after, try_only;
  bool done;

  if (!PyArg_ParseTuple(args, "O!O!pp:move_if_valid", st->ir_types[PY_NODE], &n,
                        st->ir_types[PY_NODE], &at, &after, &try_only))
    return NULL;
  if (st->api->node_move_if_valid(N(n), N(at), after, try_only, &done, &err) != RUSH_OK)
    return py_raise(st, &err);
  return PyBool_FromLong(done);
}

typedef struct visitor {
  py_state *st;
  PyObject *graph, *pattern; /* Graphs */
  PyObject *list, *accept;   /* list of matches, or the filter */
} visitor;

static int put_pair(PyObject *dict, PyObject *key, PyObject *v)
{
  int result = key && v ? PyDict_SetItem(dict, key, v) : -1;

  Py_XDECREF(key);
  Py_XDECREF(v);
  return result;
}

/* Return the matched values by the pattern's names. */
static PyObject *match_dict(const visitor *x, const rush_match *match)
{
  const rush_backend_api *api = x->st->api;
  const rush_block *b = api->graph_block(G(x->pattern));
  PyObject *dict = PyDict_New();

  for (const rush_node *n = api->block_param(b); dict && n;
       n = n == api->block_param(b) ? api->block_first(b) : api->node_next(n))
    for (size_t i = 0; dict && i < api->node_n_outputs(n); i++) {
      const rush_graph_value *p = api->node_output(n, i), *v = api->match_value(match, p);
      const char *name = api->value_name(p);

      if (v && put_pair(dict,
                   name ? PyUnicode_FromString(name) : PyUnicode_FromFormat("%u", api->value_id(p)),
                   py_ir_value(x->graph, v)) < 0)
        Py_CLEAR(dict);
    }
  return dict;
}

static bool visit_match(void *user, const rush_match *match)
{
  visitor *x = user;
  PyObject *dict = PyErr_Occurred() ? NULL : match_dict(x, match);
  bool more = false;

  if (dict && x->list) {
    more = PyList_Append(x->list, dict) == 0;
  } else if (dict) {
    PyObject *answer = PyObject_CallOneArg(x->accept, dict);
    more = answer && PyObject_IsTrue(answer) == 1;
    Py_XDECREF(answer);
  }
  Py_XDECREF(dict);
  return more;
}

/* graph_match(graph, pattern): dicts of values by the pattern's names. */
PyObject *py_graph_match(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  visitor x = {.st = st};

  if (!PyArg_ParseTuple(args, "O!O!:graph_match", st->ir_types[PY_GRAPH], &x.graph,
                        st->ir_types[PY_GRAPH], &x.pattern) ||
      !(x.list = PyList_New(0)))
    return NULL;
  if (st->api->graph_match(G(x.graph), G(x.pattern), visit_match, &x, &err) != RUSH_OK)
    py_raise(st, &err);
  if (PyErr_Occurred())
    Py_CLEAR(x.list);
  return x.list;
}

/* graph_rewrite(graph, pattern, by, accept or None): returns the number of replacements. */
PyObject *py_graph_rewrite(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  visitor x = {.st = st};
  PyObject *by;
  size_t n = 0;

  if (!PyArg_ParseTuple(args, "O!O!O!O:graph_rewrite", st->ir_types[PY_GRAPH], &x.graph,
                        st->ir_types[PY_GRAPH], &x.pattern, st->ir_types[PY_GRAPH], &by, &x.accept))
    return NULL;
  if (st->api->graph_rewrite(G(x.graph), G(x.pattern), G(by),
                             x.accept == Py_None ? NULL : visit_match, &x, &n, &err) != RUSH_OK)
    py_raise(st, &err);
  return PyErr_Occurred() ? NULL : PyLong_FromSize_t(n);
}
