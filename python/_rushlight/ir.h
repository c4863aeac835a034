/* Graphs as Python objects: ir.c graphs; ir_node.c blocks, nodes, values; ir_type.c types;
 * ir_tools.c queries and rewriting. */
#ifndef RUSH_PY_IR_H
#define RUSH_PY_IR_H

#include "py.h"

enum { PY_GRAPH, PY_BLOCK, PY_NODE, PY_VALUE, PY_TYPE }; /* py_state.ir_types */

typedef struct py_ir { /* of all five types */
  PyObject_HEAD
  PyObject *graph; /* of blocks, nodes and values: their graph */
  py_state *state;
  /* rush_graph (owned), rush_block, rush_node, rush_graph_value, rush_type (owned) */
  const void *p;
} py_ir;

/* The handle of such an object. */
#define G(o) ((rush_graph *)(uintptr_t)((py_ir *)(o))->p)
#define B(o) ((const rush_block *)((py_ir *)(o))->p)
#define N(o) ((const rush_node *)((py_ir *)(o))->p)
#define V(o) ((const rush_graph_value *)((py_ir *)(o))->p)
#define ST(o) (((py_ir *)(o))->state)
#define API(o) (ST(o)->api)
/* The graph's object for a graph, block, node or value. */
#define GRAPH(o) (((py_ir *)(o))->graph ? ((py_ir *)(o))->graph : (o))

/* Make an object of one graph; `of` is the graph's, or any object in it.  New; None for NULL. */
PyObject *py_ir_make(py_state *st, int kind, PyObject *graph, const void *p);
PyObject *py_ir_node(PyObject *of, const rush_node *n);
PyObject *py_ir_value(PyObject *of, const rush_graph_value *v);
PyObject *py_ir_block(PyObject *of, const rush_block *b);
/* Check that the node, value or block is live.  Returns 0, or -1 with an exception set. */
int py_ir_live(PyObject *o);
#define LIVE(o)              \
  do {                       \
    if (py_ir_live(o) < 0)   \
      return NULL;           \
  } while (0)
/* Return the handle of an argument of that kind; NULL with an exception set. */
const void *py_ir_want(PyObject *of, PyObject *o, int kind);

/* The five types, and methods that several have. */
void py_ir_dealloc(PyObject *self);
PyObject *py_ir_compare(PyObject *a, PyObject *b, int op);
Py_hash_t py_ir_hash(PyObject *self);
extern PyType_Spec py_block_spec, py_node_spec, py_value_spec;
#define KW(fn) (PyCFunction)(void (*)(void))(fn), METH_VARARGS | METH_KEYWORDS
#define IR_SLOTS(name, ...)                                                \
  static PyType_Slot name##_slots[] = {{Py_tp_dealloc, py_ir_dealloc},     \
                                       {Py_tp_richcompare, py_ir_compare}, \
                                       {Py_tp_hash, py_ir_hash},           \
                                       {Py_tp_methods, name##_methods},    \
                                       __VA_ARGS__,                        \
                                       {0, NULL}}
PyObject *py_block_nodes(PyObject *self, PyObject *unused);
PyObject *py_block_param(PyObject *self, PyObject *unused);
PyObject *py_block_return(PyObject *self, PyObject *unused);
PyObject *py_find_node(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_find_all(PyObject *self, PyObject *args, PyObject *kwargs);

PyObject *py_graph_steal(py_state *st, rush_graph *g);
/* steals t; NULL: memory ran out */
PyObject *py_type_steal(py_state *st, const rush_type *t);
PyObject *py_parse_ir(PyObject *m, PyObject *args, PyObject *kwargs);
int py_add_ir_types(PyObject *m, py_state *st);
int py_add_type_types(PyObject *m, py_state *st);
/* Functions of the module. */
PyObject *py_register_types(PyObject *m, PyObject *classes);
PyObject *py_parse_type(PyObject *m, PyObject *args);
PyObject *py_function_graph(PyObject *m, PyObject *args);
PyObject *py_last_function_graph(PyObject *m, PyObject *f);
PyObject *py_last_executed_graph(PyObject *m, PyObject *unused);
PyObject *py_make_type(PyObject *m, PyObject *args);
PyObject *py_type_facts(PyObject *m, PyObject *type);
PyObject *py_type_of_facts(PyObject *m, PyObject *args);
PyObject *py_unify_types(PyObject *m, PyObject *args);
PyObject *py_alias_analyse(PyObject *m, PyObject *graph);
PyObject *py_alias_query(PyObject *m, PyObject *args);
PyObject *py_move_if_valid(PyObject *m, PyObject *args);
PyObject *py_graph_match(PyObject *m, PyObject *args);
PyObject *py_graph_rewrite(PyObject *m, PyObject *args);

PyObject *py_method_graph(py_state *st, PyObject *owner, const char *name, bool inlined);
/* Return the graph that shows a method: a copy of the program's, the same object at each call, so
 * that passes and edits of it can be seen.  New reference. */
PyObject *py_shown_graph(py_state *st, PyObject *owner, const char *name);
PyObject *py_last_graph(py_state *st, PyObject *owner, const char *name);

#endif
