/* Units of live Python functions and classes: rushlight/script.h for Python. */
#ifndef RUSH_PY_SCRIPT_H
#define RUSH_PY_SCRIPT_H

#include "py.h"
#include "rushlight/script.h"

/* Python's Unit owns its rush_unit.  For a text it is reversed: the rush_unit owns the Unit, and
 * lives as long as a function or type of it. */
typedef struct py_unit {
  PyObject_HEAD
  rush_unit *unit;
  bool is_borrowed;  /* the rush_unit owns this */
  py_state *state;
  PyObject *ask[8];  /* the host's methods, by py_question */
  PyObject *types;   /* address of a rush_type -> Type */
} py_unit;
typedef enum py_question {
  ASK_NAME,
  ASK_ATTR,
  ASK_TYPE,
  ASK_CLASS_ATTR,
  ASK_DEFAULT,
  ASK_CALL,
  ASK_CALLED,
  ASK_BLOCK
} py_question;

typedef struct py_type {
  PyObject_HEAD
  const rush_type *type;
  py_unit *unit; /* owned, and so is its rush_unit */
} py_type;

typedef struct py_function {
  PyObject_HEAD
  rush_function *function;
  py_unit *unit; /* owned, and so is its rush_unit */
  PyObject *dict, *weakrefs;
  vectorcallfunc vectorcall;
  signed char is_random; /* -1: unknown */
} py_function;

/* -- value_in.c, arguments.c ------------------------------------------------------------------- */

/* Convert a Python object to our value of that type, new: returns 0; 1 if it does not fit; -1 with
 * an exception set. */
int py_to_value_as(py_call *call, PyObject *o, const rush_type *t, rush_value *out);
/* Explain, in PyTorch's words, why it does not fit: new. */
PyObject *py_cast_details(py_call *call, PyObject *o, const rush_type *t);
/* Bind arguments of a function whose first `skip` parameters are already bound; messages use
 * `name`. */
int py_args_bind(py_call *call, rush_function *f, const char *name, size_t skip,
                 PyObject *const *args, size_t n_args, PyObject *kwnames, py_args *out);

/* -- script_function.c ------------------------------------------------------------------------- */

PyObject *py_type_wrap(py_unit *u, const rush_type *t); /* the same object for the same type; new */
PyObject *py_function_wrap(py_unit *u, rush_function *f); /* new */
py_unit *py_unit_hold(py_unit *u); /* retains both, for as long as a part of it is used */
void py_unit_drop(py_unit *u);
int py_add_function_type(PyObject *m, py_state *state);

/* -- script_host.c ----------------------------------------------------------------------------- */

extern const rush_host py_host; /* user: a py_unit */

/* -- script_type.c ----------------------------------------------------------------------------- */

extern PyType_Spec py_type_spec;

/* -- script.c ---------------------------------------------------------------------------------- */

int py_add_script_types(PyObject *m, py_state *state);
PyObject *py_define_text(PyObject *m, PyObject *args);
PyObject *py_future_result(PyObject *m, PyObject *o);

/* -- trace.c ----------------------------------------------------------------------------------- */

int py_add_trace(PyObject *m);
/* -- recorder.c -------------------------------------------------------------------------------- */

int py_add_recorder(PyObject *m);

#endif
