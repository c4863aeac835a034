/* operator.h -- functions of the module about single operators. */
#ifndef RUSH_PY_OPERATOR_H
#define RUSH_PY_OPERATOR_H

#include "py.h"

PyObject *py_call_operator(PyObject *m, PyObject *const *args, Py_ssize_t n_args,
                           PyObject *kwnames);
PyObject *py_call_function(PyObject *m, PyObject *const *args, Py_ssize_t n_args,
                           PyObject *kwnames);
PyObject *py_gradients(PyObject *m, PyObject *arg);
PyObject *py_call_gradient(PyObject *m, PyObject *args);
PyObject *py_operator_shape(PyObject *m, PyObject *const *args, Py_ssize_t n_args,
                            PyObject *kwnames);
PyObject *py_has_operator(PyObject *m, PyObject *arg);
PyObject *py_operator_schemas(PyObject *m, PyObject *const *args, Py_ssize_t n_args);

#endif
