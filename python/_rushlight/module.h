/* module.h -- modules: module_wrap.c makes them, module_slots.c has their attributes, module.c the
 * type. */
#ifndef RUSH_PY_MODULE_H
#define RUSH_PY_MODULE_H

#include "py.h"

/* -- module_wrap.c ----------------------------------------------------------------------------- */

/* The Module is the one for its object from now on; no longer. */
void py_module_enrol(py_module *m);
void py_module_leave(py_module *m);

/* -- module_slots.c ---------------------------------------------------------------------------- */

/* Return the value of an attribute of the program, new; NULL: an exception is set, or (without one)
 * there is none. */
PyObject *py_slot_get(py_module *m, PyObject *name);
bool py_slot_exists(py_module *m, const char *name);
/* 0, or -1 with an exception set. */
int py_slot_set(py_module *m, PyObject *name, PyObject *o);
/* The attribute becomes the very value that `like` has at `there`; o stands for it. */
int py_slot_share(py_module *m, PyObject *name, PyObject *o, py_module *like, const char *there);
/* Tensors of ours that the cache knows objects for are not known by them any more. */
void py_slots_forget(py_module *m);

#endif
