/* limits.h -- limits that end a call early: signals, seconds, bytes, handles that cancel. */
#ifndef RUSH_PY_LIMITS_H
#define RUSH_PY_LIMITS_H

#include "py.h"

/* One call's limits, in a list of those that limit bytes.  Zero-initialise. */
struct py_limits {
  struct py_limits *next;
  double most_bytes; /* limit on the context's bytes in use meanwhile, or 0 */
  PyObject *cancel;  /* owned, or NULL */
};

/* Begin and end the limits of a call, with the GIL: fills the options; `owner` (or NULL) is the
 * module or object whose method it is. */
void py_limits_begin(py_limits *l, py_state *st, PyObject *owner, rush_call_options *options);
void py_limits_end(py_limits *l, py_state *st);

PyObject *py_set_limits(PyObject *m, PyObject *args);
PyObject *py_swap_block(PyObject *m, PyObject *args);
PyObject *py_module_get_limit(PyObject *self, void *offset);
int py_module_set_limit(PyObject *self, PyObject *value, void *offset);
int py_add_limits(PyObject *m, py_state *st);

#endif
