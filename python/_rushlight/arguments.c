/* _rushlight/arguments.c -- the arguments of a call: converted one by one, or bound to a function's
 * parameters.
 *
 * The core binds (rush_function_bind) and refuses; only a value of a wrong type is refused here, in
 * PyTorch's words, which quote the object.  That message is made after the refusal, by a second
 * walk that looks for the part that does not fit.  Cost: O(arguments). */
#include "script.h"

#include <string.h>

/* -- Rows -------------------------------------------------------------------------------------- */

/* Make empty rows for so many; py_args_free frees them. */
static int alloc_rows(py_args *out, size_t n_args, size_t n_named)
{
  out->n_args = out->n_named = 0;
  out->args = n_args <= PY_FEW_ARGS ? out->few : PyMem_Malloc(n_args * sizeof *out->args);
  out->named =
    n_named <= PY_FEW_ARGS ? out->few_named : PyMem_Malloc(n_named * sizeof *out->named);
  if (out->args && out->named)
    return 0;
  py_args_free(out);
  PyErr_NoMemory();
  return -1;
}

int py_args_convert(py_call *call, PyObject *const *args, size_t n_args, PyObject *kwnames,
                    py_args *out)
{
  size_t n_named = kwnames ? (size_t)PyTuple_GET_SIZE(kwnames) : 0;

  if (alloc_rows(out, n_args, n_named) < 0)
    return -1;
  for (size_t i = 0; i < n_args + n_named; i++) {
    rush_value v;
    if (py_to_value(call, args[i], &v) < 0) {
      py_args_free(out);
      return -1;
    }
    if (i < n_args) {
      out->args[out->n_args++] = v;
    } else {
      PyObject *name = PyTuple_GET_ITEM(kwnames, (Py_ssize_t)(i - n_args));
      out->named[out->n_named++] = (rush_named_value){PyUnicode_AsUTF8(name), v};
    }
  }
  return 0;
}

void py_args_free(py_args *a)
{
  for (size_t i = 0; i < a->n_named; i++)
    rush_value_release(a->named[i].value);
  if (a->named != a->few_named)
    PyMem_Free(a->named);
  for (size_t i = 0; i < a->n_args; i++)
    rush_value_release(a->args[i]);
  if (a->args != a->few)
    PyMem_Free(a->args);
  a->args = a->few;
  a->named = a->few_named;
  a->n_args = a->n_named = 0;
}

bool py_args_require_grad(const py_call *call)
{
  for (size_t i = 0; i < call->n_seen; i++)
    if (rush_tensor_requires_grad(call->seen[i].tensor.as.tensor))
      return true;
  return false;
}

/* -- Why a value does not fit ------------------------------------------------------------------ */

/* Return the first item that does not have the type, or NULL; borrowed. */
static PyObject *first_bad(py_call *call, PyObject *sequence, const rush_type *t, bool is_tuple,
                           const rush_type **which)
{
  PyObject *bad = NULL;

  for (Py_ssize_t i = 0; !bad && i < PySequence_Fast_GET_SIZE(sequence); i++) {
    PyObject *item = PySequence_Fast_GET_ITEM(sequence, i);
    rush_value v = rush_value_none();
    *which = rush_type_elem(t, is_tuple ? (size_t)i : 0);
    if (py_to_value_as(call, item, *which, &v) != 0)
      bad = item;
    PyErr_Clear();
    rush_value_release(v);
  }
  return bad;
}

static PyObject *bad_in_dict(py_call *call, PyObject *dict, const rush_type *t,
                             const rush_type **which)
{
  PyObject *key, *value, *bad = NULL;
  Py_ssize_t at = 0;

  while (!bad && PyDict_Next(dict, &at, &key, &value)) {
    PyObject *both[2] = {key, value};
    for (size_t i = 0; i < 2 && !bad; i++) {
      rush_value v = rush_value_none();
      *which = rush_type_elem(t, i);
      if (py_to_value_as(call, both[i], *which, &v) != 0)
        bad = both[i];
      PyErr_Clear();
      rush_value_release(v);
    }
  }
  return bad;
}

/* Explain, in PyTorch's words, why the object does not have the type.  New. */
PyObject *py_cast_details(py_call *call, PyObject *o, const rush_type *t)
{
  rush_type_kind k = rush_type_kind_of(t);
  const rush_type *inner = NULL;
  rush_error err = RUSH_ERROR_INIT;
  char *want = NULL;
  PyObject *bad = NULL, *out = NULL;

  if (k == RUSH_TYPE_OPTIONAL)
    return py_cast_details(call, o, rush_type_elem(t, 0));
  if (k == RUSH_TYPE_TUPLE && PyTuple_Check(o) &&
      (size_t)PyTuple_GET_SIZE(o) == rush_type_n_elems(t))
    bad = first_bad(call, o, t, true, &inner);
  if (k == RUSH_TYPE_LIST && PyList_Check(o)) {
    rush_type_kind e = rush_type_kind_of(rush_type_elem(t, 0));
    if (e != RUSH_TYPE_INT && e != RUSH_TYPE_FLOAT && e != RUSH_TYPE_BOOL &&
        e != RUSH_TYPE_COMPLEX && e != RUSH_TYPE_TENSOR)
      bad = first_bad(call, o, t, false, &inner);
  }
  if (k == RUSH_TYPE_DICT && PyDict_Check(o))
    bad = bad_in_dict(call, o, t, &inner);
  if (bad)
    return py_cast_details(call, bad, inner);
  (void)!rush_type_to_text(call->state->context, t, true, &want, &err);
  rush_error_clear(&err);
  if (k == RUSH_TYPE_TENSOR)
    out = PyUnicode_FromFormat("Unable to cast %S to Tensor", o);
  else if (k == RUSH_TYPE_TUPLE && PyTuple_Check(o))
    out = PyUnicode_FromFormat("Object %R had a different number of elements than type %s", o,
                               want ? want : "?");
  else if (k == RUSH_TYPE_UNION)
    out = PyUnicode_FromFormat("Expected a member of %s but instead found type %s",
                               want ? want : "?", Py_TYPE(o)->tp_name);
  else if (k == RUSH_TYPE_ENUM || k == RUSH_TYPE_CLASS || k == RUSH_TYPE_INTERFACE)
    out =
      PyUnicode_FromFormat("Unable to cast %S to %s", (PyObject *)Py_TYPE(o), want ? want : "?");
  else
    out = PyUnicode_FromFormat("Unable to cast Python instance of type %S to C++ type '?' (#define "
                               "PYBIND11_DETAILED_ERROR_MESSAGES or "
                               "compile in debug mode for details)",
                               (PyObject *)Py_TYPE(o));
  if (want)
    rush_free_text(call->state->context, want);
  return out;
}

/* Return the type's name; for a NamedTuple with its fields. */
static PyObject *friendly_name(PyObject *o)
{
  const char *name =
    strrchr(Py_TYPE(o)->tp_name, '.') ? strrchr(Py_TYPE(o)->tp_name, '.') + 1 : Py_TYPE(o)->tp_name;
  PyObject *fields = PyTuple_Check(o) ? PyObject_GetAttrString(o, "_fields") : NULL;
  PyObject *comma = fields ? PyUnicode_FromString(", ") : NULL;
  PyObject *joined = comma ? PyUnicode_Join(comma, fields) : NULL;
  PyObject *out = joined ? PyUnicode_FromFormat("%s (aka NamedTuple(%U))", name, joined)
                         : PyUnicode_FromString(Py_TYPE(o)->tp_name);

  PyErr_Clear();
  Py_XDECREF(joined);
  Py_XDECREF(comma);
  Py_XDECREF(fields);
  return out;
}

/* Explain why an array cannot be a tensor, new; NULL without an exception: it can, or it is not an
 * array. */
static PyObject *buffer_details(py_call *call, PyObject *o)
{
  PyObject *type, *value, *trace, *out = NULL;
  rush_value v;

  if (!PyObject_CheckBuffer(o) || PyBytes_Check(o))
    return NULL;
  if (py_to_value(call, o, &v) == 0) {
    rush_value_release(v);
    return NULL;
  }
  PyErr_Fetch(&type, &value, &trace);
  if (value)
    out = PyObject_Str(value);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  PyErr_Clear();
  return out;
}

static void fail_cast(py_call *call, rush_function *f, const char *name, const rush_argument *arg,
                      PyObject *o, size_t position)
{
  rush_error err = RUSH_ERROR_INIT;
  char *want = NULL, *text = NULL;
  PyObject *repr = PyObject_Repr(o);
  PyObject *inferred =
    arg->is_inferred
      ? PyUnicode_FromFormat(
          "Inferred '%s' to be of type 'Tensor' because it was not annotated with an "
          "explicit type.\n",
          arg->name)
      : PyUnicode_FromString("");

  PyErr_Clear();
  PyObject *details = buffer_details(call, o), *found = friendly_name(o);
  if (!details)
    details = py_cast_details(call, o, arg->type);
  PyErr_Clear();
  if (rush_type_to_text(call->state->context, arg->type, true, &want, &err) == RUSH_OK &&
      rush_function_dump(f, RUSH_DUMP_SCHEMA, &text, &err) == RUSH_OK)
    PyErr_Format(PyExc_RuntimeError,
                 "%s() Expected a value of type '%s%s' for argument '%s' but instead found type "
                 "'%V'.\n%VPosition: %zu\nValue: %V\n"
                 "Declaration: %s\nCast error details: %V",
                 name, want, arg->is_inferred ? " (inferred)" : "", arg->name, found, "?", inferred,
                 "", position, repr, "?", text, details, "?");
  rush_error_clear(&err);
  if (want)
    rush_free_text(call->state->context, want);
  if (text)
    rush_free_text(call->state->context, text);
  Py_XDECREF(repr);
  Py_XDECREF(details);
  Py_XDECREF(found);
  Py_XDECREF(inferred);
}

/* -- Binding ----------------------------------------------------------------------------------- */

/* Bind parameter i of f to an object; returns 0, 1 if it does not fit, -1 with an exception set. */
static int bind_one(py_call *call, rush_function *f, size_t i, const rush_argument *arg,
                    PyObject *o, rush_value *out)
{
  if (o == Py_None && arg->type &&
      rush_type_kind_of(arg->type) == RUSH_TYPE_TENSOR) { /* None, as PyTorch takes it */
    bool undefined;
    WITHOUT_GIL(undefined = rush_function_takes_undefined(f, i));
    if (undefined) {
      *out = rush_value_none();
      out->tag = RUSH_TAG_TENSOR;
      out->as.heap = NULL;
      return 0;
    }
  }
  if (arg->fixed_len && (PyLong_Check(o) || PyFloat_Check(o)))
    return py_to_value(call, o, out);
  return py_to_value_as(call, o, arg->type, out);
}

typedef struct py_binding { /* what the conversion of one argument needs */
  py_call *call;
  rush_function *f;
  const char *name;
  PyObject *const *args;
} py_binding;

/* Convert for rush_function_bind.  A failure leaves an exception. */
static rush_status bind_argument(void *user, size_t given, size_t i, const rush_argument *to,
                                 rush_value *out, rush_error *err)
{
  const py_binding *b = user;
  const int result = bind_one(b->call, b->f, i, to, b->args[given], out);

  if (result > 0)
    fail_cast(b->call, b->f, b->name, to, b->args[given], i);
  return result == 0 ? RUSH_OK : rush_host_fail(err, RUSH_ERAISED, "RuntimeError", "");
}

/* Divide the row of bound values: arguments that follow the n_given positional ones without a gap
 * are positional too; the others become named, because parameters with defaults are between. */
static void split_row(rush_function *f, size_t skip, size_t n_given, size_t n, py_args *out)
{
  rush_argument arg;

  out->n_args = n_given;
  for (size_t i = skip + n_given; i < n; i++) {
    if (out->args[i].tag == RUSH_TAG_UNSET || !rush_function_arg(f, i, &arg))
      continue;
    if (out->n_args == i - skip && !arg.keyword_only)
      out->n_args++;
    else
      out->named[out->n_named++] = (rush_named_value){arg.name, out->args[i]};
  }
  if (skip)
    memmove(out->args, out->args + skip, out->n_args * sizeof *out->args);
}

int py_args_bind(py_call *call, rush_function *f, const char *name, size_t skip,
                 PyObject *const *args, size_t n_args, PyObject *kwnames, py_args *out)
{
  const size_t n = rush_function_n_args(f),
               n_named = kwnames ? (size_t)PyTuple_GET_SIZE(kwnames) : 0;
  const char *few[PY_FEW_ARGS],
    **names = n_named <= PY_FEW_ARGS ? few : PyMem_Malloc(n_named * sizeof *names);
  rush_error err = RUSH_ERROR_INIT;
  py_binding binding = {call, f, name, args};
  bool bound = false;

  if (alloc_rows(out, n, n_named) < 0 || !names)
    goto done;
  for (size_t k = 0; k < n_named; k++)
    if (!(names[k] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, (Py_ssize_t)k))))
      goto done;
  const rush_given given = {&binding, name, skip, n_args, n_named, names, bind_argument};
  bound = rush_function_bind(f, &given, out->args, &err) == RUSH_OK;
  if (bound)
    split_row(f, skip, n_args, n, out);
  else if (!PyErr_Occurred())
    py_raise(call->state, &err);
  else
    rush_error_clear(&err);
done:
  if (names != few)
    PyMem_Free((void *)names);
  if (bound)
    return 0;
  if (!PyErr_Occurred())
    PyErr_NoMemory();
  py_args_free(out);
  return -1;
}
