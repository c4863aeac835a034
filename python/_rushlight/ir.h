/* Graphs as Python objects: ir.c graphs, blocks, nodes, values; ir_type.c types; ir_tools.c queries and rewriting. */
#ifndef RUSH_PY_IR_H
#define RUSH_PY_IR_H

#include "py.h"

enum { PY_GRAPH, PY_BLOCK, PY_NODE, PY_VALUE, PY_TYPE }; /* py_state.ir_types */

typedef struct py_ir { /* of all five */
  PyObject_HEAD
  PyObject *graph; /* of blocks, nodes and values: whose they are */
  py_state *state;
  const void *p;   /* rush_graph (owned), rush_block, rush_node, rush_graph_value, rush_type (owned) */
} py_ir;

PyObject *py_graph_steal(py_state *st, rush_graph *g);
/* NULL: no memory. */
PyObject *py_type_steal(py_state *st, const rush_type *t);
PyObject *py_parse_ir(PyObject *m, PyObject *args, PyObject *kwargs);
int py_add_ir_types(PyObject *m, py_state *st);
int py_add_type_types(PyObject *m, py_state *st);
/* Functions of the module. */
PyObject *py_register_types(PyObject *m, PyObject *classes);
PyObject *py_parse_type(PyObject *m, PyObject *args);
PyObject *py_function_graph(PyObject *m, PyObject *args);
PyObject *py_make_type(PyObject *m, PyObject *args);
PyObject *py_unify_types(PyObject *m, PyObject *args);
PyObject *py_alias_analyse(PyObject *m, PyObject *graph);
PyObject *py_alias_query(PyObject *m, PyObject *args);
PyObject *py_move_if_valid(PyObject *m, PyObject *args);
PyObject *py_graph_match(PyObject *m, PyObject *args);
PyObject *py_graph_rewrite(PyObject *m, PyObject *args);

PyObject *py_ir_value(PyObject *graph, const rush_graph_value *v); /* of that Graph; new */
PyObject *py_method_graph(py_state *st, PyObject *owner, const char *name, bool inlined);

#endif
