/* _rushlight/script_host.c -- the compiler's requests to Python: a rush_host whose functions call
 * methods of a Python object and read the tuples they return. Pending exceptions become errors of
 * the compiler with their text, except KeyboardInterrupt, which remains pending, so that it reaches
 * the user. Answers are held until the compiler has read them. */
#include "script.h"

#include <frameobject.h>

#include <string.h>

/* -- Failures ---------------------------------------------------------------------------------- */

static const char *const front_end[] = {"FrontendError", "NotSupportedError",
                                        "UnsupportedNodeError", "UnknownTypeError"};

/* Convert the pending exception to the compiler's error.  One that is not an Exception
 * (KeyboardInterrupt) remains pending. */
static rush_status fail_with_python(rush_error *err)
{
  PyObject *type, *value, *traceback;

  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
    return rush_host_fail(err, RUSH_ERAISED, "RuntimeError", "interrupted");
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject *text = value ? PyObject_Str(value) : NULL;
  const char *message = text ? PyUnicode_AsUTF8(text) : NULL;
  const char *name = "RuntimeError";
  const char *own = type ? ((PyTypeObject *)type)->tp_name : "";
  if (type && !(((PyTypeObject *)type)->tp_flags & Py_TPFLAGS_HEAPTYPE))
    name = own;
  for (size_t i = 0; i < sizeof front_end / sizeof *front_end; i++)
    if (strcmp(own, front_end[i]) == 0)
      name = front_end[i];
  rush_status st =
    rush_host_fail(err, RUSH_ERAISED, name, message ? message : "a Python exception");
  PyErr_Clear();
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return st;
}

/* -- Answers ----------------------------------------------------------------------------------- */

static int read_name(py_unit *u, PyObject *answer, rush_name *out);

static const char *text_item(PyObject *answer, Py_ssize_t i)
{
  return i < PyTuple_GET_SIZE(answer) ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(answer, i)) : NULL;
}

/* Allocate an array that lives as long as the answer: the answer is a tuple, its holder a pair of
 * it and bytes. */
static void *array_for(PyObject **owner, size_t n_bytes)
{
  PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(n_bytes ? n_bytes : 1));
  PyObject *pair = bytes ? PyTuple_Pack(2, *owner, bytes) : NULL;
  void *p = pair ? PyBytes_AS_STRING(bytes) : NULL;

  Py_XDECREF(bytes);
  if (!pair)
    return NULL;
  Py_SETREF(*owner, pair);
  memset(p, 0, n_bytes);
  return p;
}

static int function_items(py_unit *u, PyObject *list, PyObject **owner, rush_name *out)
{
  PyObject *fast = PySequence_Fast(list, "functions");
  Py_ssize_t n = fast ? PySequence_Fast_GET_SIZE(fast) : 0;
  rush_function **f = fast ? array_for(owner, (size_t)n * sizeof(*f)) : NULL;

  for (Py_ssize_t i = 0; f && i < n; i++) {
    PyObject *o = PySequence_Fast_GET_ITEM(fast, i);
    if (!PyObject_TypeCheck(o, u->state->function_type)) {
      PyErr_Format(PyExc_TypeError, "expected a compiled function, not %s", Py_TYPE(o)->tp_name);
      f = NULL;
      break;
    }
    f[i] = ((py_function *)o)->function;
  }
  Py_XDECREF(fast);
  out->functions = f;
  out->n = (size_t)n;
  return f ? 0 : -1;
}

static int name_items(py_unit *u, PyObject *list, PyObject **owner, rush_name *out)
{
  Py_ssize_t n = PyTuple_Check(list) ? PyTuple_GET_SIZE(list) : -1;
  rush_name *items = n >= 0 ? array_for(owner, (size_t)n * sizeof(*items)) : NULL;

  for (Py_ssize_t i = 0; items && i < n; i++)
    if (read_name(u, PyTuple_GET_ITEM(list, i), &items[i]) < 0)
      return -1;
  out->items = items;
  out->n = (size_t)n;
  return items ? 0 : -1;
}

static int read_value(py_unit *u, PyObject *o, PyObject *type, rush_name *out)
{
  py_call call = {.state = u->state};
  py_type *t = PyObject_TypeCheck(type, u->state->type_type) ? (py_type *)type : NULL;
  int result =
    t ? py_to_value_as(&call, o, t->type, &out->value) : py_to_value(&call, o, &out->value);

  py_call_end(&call);
  if (result > 0)
    PyErr_Format(PyExc_RuntimeError, "a value of type '%s' is no constant of its type",
                 Py_TYPE(o)->tp_name);
  out->type = t ? t->type : NULL;
  return result == 0 ? 0 : -1;
}

/* Read an answer: a tuple (kind, ...), or None: unknown. */
static int read_parts(py_unit *u, PyObject *answer, PyObject **owner, rush_name *out)
{
  Py_ssize_t n = PyTuple_GET_SIZE(answer);
  PyObject *first = n > 1 ? PyTuple_GET_ITEM(answer, 1) : Py_None;

  switch (out->kind) {
  case RUSH_NAME_PATH: case RUSH_NAME_OPERATOR: case RUSH_NAME_EXCEPTION: case RUSH_NAME_HIDDEN:
    out->text = text_item(answer, 1);
    return out->text ? 0 : -1;
  case RUSH_NAME_FUNCTION: case RUSH_NAME_METHOD: {
    PyObject *one = PyTuple_Pack(1, first);
    int result = one ? function_items(u, one, owner, out) : -1;
    Py_XDECREF(one);
    return result;
  }
  case RUSH_NAME_OVERLOADS:
    return function_items(u, first, owner, out);
  case RUSH_NAME_DISPATCH:
    out->text = text_item(answer, 2);
    out->index = n > 3 ? PyLong_AsLongLong(PyTuple_GET_ITEM(answer, 3)) : 0;
    out->flag = n > 4 && PyTuple_GET_ITEM(answer, 4) == Py_True;
    return out->text ? name_items(u, first, owner, out) : -1;
  case RUSH_NAME_TYPE:
    if (!PyObject_TypeCheck(first, u->state->type_type))
      break;
    out->type = ((py_type *)first)->type;
    return 0;
  case RUSH_NAME_VALUE:
    return read_value(u, first, n > 2 ? PyTuple_GET_ITEM(answer, 2) : Py_None, out);
  case RUSH_NAME_TUPLE:
    return name_items(u, first, owner, out);
  case RUSH_NAME_OBJECT:
    out->text = n > 2 ? text_item(answer, 2) : Py_TYPE(first)->tp_name;
    out->object = Py_NewRef(first);
    out->flag = n > 3 && PyTuple_GET_ITEM(answer, 3) == Py_True;
    return 0;
  case RUSH_NAME_HOST_CALL: case RUSH_NAME_UNUSED:
  {
    PyObject *one = n > 2 ? PyTuple_Pack(1, PyTuple_GET_ITEM(answer, 2)) : NULL;
    int result = one ? function_items(u, one, owner, out) : -1;
    Py_XDECREF(one);
    out->message = out->kind == RUSH_NAME_UNUSED ? text_item(answer, 3) : NULL;
    out->flag = out->kind == RUSH_NAME_HOST_CALL && n > 3 && PyTuple_GET_ITEM(answer, 3) == Py_True;
    out->object = Py_NewRef(first);
    return result;
  }
  case RUSH_NAME_UNKNOWN:
    return 0;
  }
  PyErr_Format(PyExc_TypeError, "what a name means is said by (kind, ...), not %R", answer);
  return -1;
}

static int read_name(py_unit *u, PyObject *answer, rush_name *out)
{
  if (answer == Py_None)
    return 0;
  if (!PyTuple_Check(answer) || PyTuple_GET_SIZE(answer) < 1 ||
      !PyLong_Check(PyTuple_GET_ITEM(answer, 0))) {
    PyErr_Format(PyExc_TypeError, "what a name means is said by (kind, ...), not %R", answer);
    return -1;
  }
  out->kind = (rush_name_kind)PyLong_AsLong(PyTuple_GET_ITEM(answer, 0));
  PyObject *owner = Py_NewRef(answer);
  int result = read_parts(u, answer, &owner, out);
  if (result < 0) {
    Py_DECREF(owner);
    if (out->object)
      Py_DECREF((PyObject *)out->object);
    out->object = NULL;
    out->kind = RUSH_NAME_UNKNOWN;
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_TypeError, "what a name means is incomplete");
    return -1;
  }
  out->owner = owner;
  return 0;
}

/* Ask with the GIL; `what` is released, and may be NULL with an exception set. */
static rush_status ask_about_steal(py_unit *u, py_question q, void *scope, PyObject *what,
                                   rush_name *out, rush_error *err)
{
  PyObject *args[3] = {NULL, scope ? scope : Py_None, what};
  PyObject *answer =
    what ? PyObject_Vectorcall(u->ask[q], args + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL)
         : NULL;
  rush_status st = RUSH_OK;

  if (!answer || read_name(u, answer, out) < 0)
    st = fail_with_python(err);
  Py_XDECREF(answer);
  Py_XDECREF(what);
  return st;
}

static rush_status ask_python(void *user, py_question q, void *scope, const char *name,
                              rush_name *out, rush_error *err)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  rush_status st = ask_about_steal(user, q, scope, PyUnicode_FromString(name), out, err);

  PyGILState_Release(gil);
  return st;
}

static rush_status ask_name(void *user, void *scope, const char *name, rush_name *out,
                            rush_error *err)
{
  return ask_python(user, ASK_NAME, scope, name, out, err);
}
static rush_status ask_attr(void *user, void *object, const char *name, rush_name *out,
                            rush_error *err)
{
  return ask_python(user, ASK_ATTR, object, name, out, err);
}
static rush_status ask_block(void *user, void *object, const char *text, rush_name *out,
                             rush_error *err)
{
  return ask_python(user, ASK_BLOCK, object, text, out, err);
}
static rush_status ask_called(void *user, void *object, size_t n_args, rush_name *out,
                              rush_error *err)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  rush_status st = ask_about_steal(user, ASK_CALLED, object, PyLong_FromSize_t(n_args), out, err);

  PyGILState_Release(gil);
  return st;
}
static rush_status ask_class_attr(void *user, void *object, const char *name, rush_name *out,
                                  rush_error *err)
{
  return ask_python(user, ASK_CLASS_ATTR, object, name, out, err);
}

static rush_status ask_type(void *user, void *scope, const char *dotted, const rush_type **out,
                            rush_error *err)
{
  py_unit *u = user;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *answer = PyObject_CallFunction(u->ask[ASK_TYPE], "Os", scope ? scope : Py_None, dotted);
  rush_status st = RUSH_OK;

  if (!answer)
    st = fail_with_python(err);
  else if (PyObject_TypeCheck(answer, u->state->type_type))
    *out = ((py_type *)answer)->type;
  Py_XDECREF(answer);
  PyGILState_Release(gil);
  return st;
}

/* True if the parameter has no annotation in the function of the scope. */
static bool has_no_annotation(PyObject *scope, const char *name)
{
  PyObject *fn = scope ? PyObject_GetAttrString(scope, "fn") : NULL;
  PyObject *all = fn && fn != Py_None ? PyObject_GetAttrString(fn, "__annotations__") : NULL;
  bool none = all && PyDict_Check(all) && !PyDict_GetItemString(all, name);

  PyErr_Clear();
  Py_XDECREF(all);
  Py_XDECREF(fn);
  return none;
}

/* Fail because a default does not have the parameter's type. */
static void fail_default(py_unit *u, PyObject *scope, const char *name, const rush_type *type)
{
  rush_error ignored = RUSH_ERROR_INIT;
  char *want = NULL, because[256] = "";
  bool inferred = rush_type_kind_of(type) == RUSH_TYPE_TENSOR && has_no_annotation(scope, name);

  (void)!rush_type_to_text(u->state->context, type, true, &want, &ignored);
  if (inferred)
    PyOS_snprintf(
      because, sizeof because,
      "Because \"%s\" was not annotated with an explicit type it is assumed to be type 'Tensor'.",
      name);
  PyErr_Format(PyExc_RuntimeError, "Expected a default value of type %s%s on parameter \"%s\".%s",
               want ? want : "?", inferred ? " (inferred)" : "", name, because);
  if (want)
    rush_free_text(u->state->context, want);
  rush_error_clear(&ignored);
}

/* Get a default: the host returns (object,), None, or NotImplemented for a default of another
 * overload. */
static rush_status ask_default(void *user, void *scope, const char *name, const rush_type *type,
                               rush_value *out, rush_error *err)
{
  py_unit *u = user;
  py_call call = {.state = u->state};
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *t = py_type_wrap(u, type);
  PyObject *answer =
    t ? PyObject_CallFunction(u->ask[ASK_DEFAULT], "OsO", scope ? scope : Py_None, name, t) : NULL;
  rush_status st = RUSH_OK;

  if (!answer) {
    st = fail_with_python(err);
  } else if (answer == Py_NotImplemented) {
    out->aux = 1;
  } else if (PyTuple_Check(answer) && PyTuple_GET_SIZE(answer) == 1) {
    bool none =
      PyTuple_GET_ITEM(answer, 0) == Py_None && rush_type_kind_of(type) == RUSH_TYPE_TENSOR;
    int result = none ? 1 : py_to_value_as(&call, PyTuple_GET_ITEM(answer, 0), type, out);
    if (result > 0)
      fail_default(u, scope, name, type);
    if (result != 0)
      st = fail_with_python(err);
  }
  py_call_end(&call);
  Py_XDECREF(t);
  Py_XDECREF(answer);
  PyGILState_Release(gil);
  return st;
}

/* Fail because the Python function returned another type. */
static rush_status fail_result(py_call *call, PyObject *answer, const rush_type *type,
                               rush_error *err)
{
  rush_error ignored = RUSH_ERROR_INIT;
  char *want = NULL;

  (void)!rush_type_to_text(call->state->context, type, true, &want, &ignored);
  PyErr_Clear();
  PyObject *details = py_cast_details(call, answer, type);
  PyErr_Clear();
  PyObject *text = PyUnicode_FromFormat(
    " expected value of type %s for return value but instead got value of type %s.\nValue: %R\n"
    "Cast error details: %V",
    want ? want : "?", Py_TYPE(answer)->tp_name, answer, details, "?");
  const char *message = text ? PyUnicode_AsUTF8(text) : NULL;
  rush_status st = rush_host_fail(err, RUSH_ERAISED, "RuntimeError",
                                  message ? message : "a value of another type");
  PyErr_Clear();
  if (want)
    rush_free_text(call->state->context, want);
  rush_error_clear(&ignored);
  Py_XDECREF(details);
  Py_XDECREF(text);
  return st;
}

static rush_status call_python(void *user, void *object, const rush_value *args, size_t n,
                               const rush_type *type, rush_value *result, rush_error *err)
{
  py_unit *u = user;
  py_call call = {.state = u->state};
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *tuple = PyTuple_New((Py_ssize_t)n), *answer = NULL;
  rush_status st = RUSH_OK;

  if (tuple && py_get_grad_mode(u->state) != PY_GRAD_OFF && py_connect(&call, NULL, args, n) < 0)
    Py_CLEAR(tuple);
  for (size_t i = 0; tuple && i < n; i++) {
    PyObject *o = py_from_value(&call, args[i]);
    if (!o)
      Py_CLEAR(tuple);
    else
      PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, o);
  }
  if (tuple)
    answer = PyObject_CallFunctionObjArgs(u->ask[ASK_CALL], (PyObject *)object, tuple, NULL);
  bool undefined = answer == Py_None && rush_type_kind_of(type) ==
                                          RUSH_TYPE_TENSOR; /* a function that returns nothing */
  if (undefined)
    *result = (rush_value){.tag = RUSH_TAG_TENSOR};
  int converted = undefined ? 0 : answer ? py_to_value_as(&call, answer, type, result) : -1;
  if (converted > 0)
    st = fail_result(&call, answer, type, err);
  else if (converted < 0)
    st = py_fail_in_call(err);
  Py_XDECREF(answer);
  Py_XDECREF(tuple);
  py_call_end(&call);
  PyGILState_Release(gil);
  return st;
}

static void release_object(void *user, void *object)
{
  (void)user;
  if (!Py_IsInitialized())
    return;
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF((PyObject *)object);
  PyGILState_Release(gil);
}

const rush_host py_host = {.struct_bytes = sizeof(rush_host),
                           .name = ask_name,
                           .attr = ask_attr,
                           .called = ask_called,
                           .block = ask_block,
                           .type = ask_type,
                           .class_attr = ask_class_attr,
                           .default_value = ask_default,
                           .call = call_python,
                           .release = release_object};
