/* export.h -- exported programs as data: what other files of the extension use of export.c. */
#ifndef RUSH_PY_EXPORT_H
#define RUSH_PY_EXPORT_H

#include "py.h"
#include "rushlight/export.h"

int py_add_exported_type(PyObject *m, py_state *state);
PyObject *py_load_exported(PyObject *m, PyObject *args);
PyObject *py_exported_of(PyObject *m, PyObject *module);
PyObject *py_decomposed_operators(PyObject *m, PyObject *unused);
/* export_call.c */
/* Read a list of texts, which are borrowed from it: new (PyMem_Free), or NULL with an exception. */
const char **py_read_texts(PyObject *list, size_t *n);
PyObject *py_export_call(PyObject *m, PyObject *args);
/* Return the program that the object holds (borrowed), or NULL. */
rush_exported_program *py_exported_program(py_state *state, PyObject *o);

#endif
