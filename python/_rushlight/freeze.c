/* freeze.c -- freezing: the functions of jit/freezing.py. */
#include "py.h"

/* Return the strings in a tuple, borrowed from it; NULL with an exception. */
static const char **names_of(PyObject *tuple)
{
  Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  const char **out = PyMem_Calloc((size_t)n + 1, sizeof *out);

  if (!out)
    return (const char **)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < n; i++)
    if (!(out[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, i)))) {
      PyMem_Free(out);
      return NULL;
    }
  return out;
}

/* freeze(module, names, numerics, optimize): optimize without folding if it is None. */
PyObject *py_freeze(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  rush_freeze_options options = RUSH_FREEZE_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  PyObject *of, *names, *optimize;
  rush_module *made = NULL;
  rush_status status;
  int numerics;

  if (!PyArg_ParseTuple(args, "O!O!pO", st->module_type, &of, &PyTuple_Type, &names, &numerics,
                        &optimize))
    return NULL;
  if (!((py_module *)of)->module) {
    PyErr_SetString(PyExc_RuntimeError, "the module has no program yet: its __init__ has not run");
    return NULL;
  }
  const char **list = names_of(names);
  if (!list)
    return NULL;
  options.preserved = list;
  options.n_preserved = (size_t)PyTuple_GET_SIZE(names);
  options.keep_numerics = !numerics;
  options.fold_only = optimize == Py_False;
  if (optimize == Py_None)
    status = py_unlocked_module_optimize_frozen(((py_module *)of)->module, &options, &err);
  else
    status = py_unlocked_module_freeze(((py_module *)of)->module, &options, &made, &err);
  PyMem_Free(list);
  if (status != RUSH_OK)
    return py_raise(st, &err);
  if (!made)
    Py_RETURN_NONE;
  return py_module_wrap_steal(st, made);
}
