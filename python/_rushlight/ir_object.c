/* _rushlight/ir_object.c -- what graphs, blocks, nodes, values and types have in common: an object
 * that holds its graph's.  A handle of what was destroyed says so when it is used. */
#include "ir.h"

#include <string.h>

PyObject *py_ir_make(py_state *st, int kind, PyObject *graph, const void *p)
{
  PyTypeObject *type = st->ir_types[kind];

  if (!p)
    Py_RETURN_NONE;
  if (py_need_part(st, PY_PART_IR) < 0)
    return NULL;
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
  PyObject *o = py_ir_make(st, PY_GRAPH, NULL, g);

  if (!o)
    st->api->graph_release(g);
  return o;
}

PyObject *py_ir_node(PyObject *o, const rush_node *n)
{
  return py_ir_make(ST(o), PY_NODE, GRAPH(o), n);
}
PyObject *py_ir_value(PyObject *o, const rush_graph_value *v)
{
  return py_ir_make(ST(o), PY_VALUE, GRAPH(o), v);
}
PyObject *py_ir_block(PyObject *o, const rush_block *b)
{
  return py_ir_make(ST(o), PY_BLOCK, GRAPH(o), b);
}

void py_ir_dealloc(PyObject *self)
{
  py_ir *o = (py_ir *)self;
  PyTypeObject *type = Py_TYPE(self);

  if (type == o->state->ir_types[PY_GRAPH])
    o->state->api->graph_release(G(self));
  Py_XDECREF(o->graph);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject *py_ir_compare(PyObject *a, PyObject *b, int op)
{
  if ((op != Py_EQ && op != Py_NE) || Py_TYPE(a) != Py_TYPE(b))
    Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((((py_ir *)a)->p == ((py_ir *)b)->p) == (op == Py_EQ));
}

Py_hash_t py_ir_hash(PyObject *self)
{
  return (Py_hash_t)((uintptr_t)((py_ir *)self)->p >> 4) & PY_SSIZE_T_MAX;
}

/* Check that the node or value is live. */
int py_ir_live(PyObject *o)
{
  py_state *st = ST(o);
  bool is = Py_TYPE(o) == st->ir_types[PY_NODE]    ? st->api->node_is_live(N(o))
            : Py_TYPE(o) == st->ir_types[PY_VALUE] ? st->api->value_is_live(V(o))
            : Py_TYPE(o) == st->ir_types[PY_BLOCK]
              ? st->api->node_is_live(st->api->block_return(B(o)))
              : true;

  if (!is)
    PyErr_Format(PyExc_RuntimeError, "this %s was destroyed",
                 strrchr(Py_TYPE(o)->tp_name, '.') + 1);
  return is ? 0 : -1;
}

/* Check that an argument has the required kind and belongs to the same graph as `of`. */
const void *py_ir_want(PyObject *of, PyObject *o, int kind)
{
  py_state *st = ST(of);

  if (!PyObject_TypeCheck(o, st->ir_types[kind])) {
    PyErr_Format(PyExc_TypeError, "expected a %s, not %s",
                 strrchr(st->ir_types[kind]->tp_name, '.') + 1, Py_TYPE(o)->tp_name);
    return NULL;
  }
  return kind != PY_GRAPH && py_ir_live(o) < 0 ? NULL : ((py_ir *)o)->p;
}
