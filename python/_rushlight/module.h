/* module.h -- modules: module_wrap.c makes them, module_slots.c has their attributes, module.c the
 * type. */
#ifndef RUSH_PY_MODULE_H
#define RUSH_PY_MODULE_H

#include "py.h"

/* -- module_wrap.c ----------------------------------------------------------------------------- */

/* Make the Module the one that represents its object; py_module_leave ends this. */
void py_module_enrol(py_module *m);
void py_module_leave(py_module *m);

/* -- module_slots.c ---------------------------------------------------------------------------- */

/* Return the value of an attribute of the program, new; NULL: an exception is set, or (without one)
 * there is none. */
PyObject *py_slot_get(py_module *m, PyObject *name);
bool py_slot_exists(py_module *m, const char *name);
/* Set an attribute of the program; returns 0, or -1 with an exception set. */
int py_slot_set(py_module *m, PyObject *name, PyObject *o);
/* Set the attribute to the same value that `like` has at `there`; o is its Python object. */
int py_slot_share(py_module *m, PyObject *name, PyObject *o, py_module *like, const char *there);
/* Remove the tensors in the cache from st->tensors. */
void py_slots_forget(py_module *m);

#endif
