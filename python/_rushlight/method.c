/* method.c -- the type of bound methods: calling, preparing and printing a method of a program from
 * Python.
 *
 * A call goes through call_method.  Exported programs whose arguments or results contain classes
 * use pytree.py, which converts instances to containers and back; all others use call_plain
 * directly. */
#include "script.h"
#include "ir.h"

#include <string.h>

/* -- Calling ----------------------------------------------------------------------------------- */

/* Additional effects of a call: see py_callee. */
typedef struct how_called {
  PyObject *buffers;
  bool *copied;
  bool prepares;
} how_called;

/* Call; `owner` is a module or a script object; the arguments are values that the core supports. */
static PyObject *call_plain(py_state *st, PyObject *owner, const char *name, PyObject *const *args,
                            size_t n_args, PyObject *kwnames, how_called how)
{
  rush_module *module =
    PyObject_TypeCheck(owner, st->module_type) ? ((py_module *)owner)->module : NULL;
  py_call call = {.state = st, .strict_text = true};
  PyObject *out = NULL;
  py_args a;

  if (!how.prepares && st->call_hook &&
      py_hooked_call(st, owner, name, args, n_args, kwnames, &out))
    return out;
  if (module && py_module_refresh((py_module *)owner) < 0)
    return NULL;
  const rush_type *t =
    module && rush_module_format(module) != RUSH_FORMAT_TORCHSCRIPT
      ? NULL
      : rush_object_type(module ? rush_module_value(module) : ((py_object *)owner)->value);
  rush_function *f = t ? rush_class_method(t, name) : NULL;
  rush_argument self;
  int skip =
    f && rush_function_arg(f, 0, &self) && self.type == t; /* a text's functions have no self */
  if ((f ? py_args_bind(&call, f, name, skip, args, n_args, kwnames, &a)
         : py_args_convert(&call, args, n_args, kwnames, &a)) < 0) {
    py_call_end(&call);
    return NULL;
  }
  const py_callee callee = {.module = module,
                            .owner = owner,
                            .called = module ? owner : NULL,
                            .context = st->context,
                            .object = module ? rush_value_none() : ((py_object *)owner)->value,
                            .method = name,
                            .buffers = how.buffers,
                            .copied = how.copied,
                            .prepares = how.prepares,
                            .is_random =
                              !how.prepares && (!module || rush_module_is_random(module))};
  return py_run_steal(&call, &a, &callee);
}

/* Return the arguments as a tuple and a dict: new, or NULL with an exception set. */
static PyObject *tuple_of(PyObject *const *args, size_t n_args)
{
  PyObject *positional = PyTuple_New((Py_ssize_t)n_args);

  for (size_t i = 0; positional && i < n_args; i++)
    PyTuple_SET_ITEM(positional, (Py_ssize_t)i, Py_NewRef(args[i]));
  return positional;
}
static PyObject *dict_of(PyObject *const *values, PyObject *kwnames)
{
  PyObject *named = PyDict_New();

  for (Py_ssize_t i = 0; named && kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
    if (PyDict_SetItem(named, PyTuple_GET_ITEM(kwnames, i), values[i]) < 0)
      Py_CLEAR(named);
  return named;
}

/* Call recorder.METHOD(question, answer); answer NULL: the pending exception, which is kept unless
 * the recorder fails. */
static int notify_recorder(PyObject *recorder, PyObject *question, PyObject *answer)
{
  PyObject *type = NULL, *value = NULL, *tb = NULL, *done;

  if (answer) {
    done = PyObject_CallMethod(recorder, "_end", "OO", question, answer);
  } else {
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    done = PyObject_CallMethod(recorder, "_fail", "OO", question, value);
  }
  if (done && !answer) {
    PyErr_Restore(type, value, tb);
  } else {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(tb);
  }
  Py_XDECREF(done);
  return done ? 0 : -1;
}

/* Make a recorded call. */
static PyObject *call_recorded(py_state *st, PyObject *owner, const char *name,
                               PyObject *const *args, size_t n_args, PyObject *kwnames,
                               how_called how)
{
  py_module *m = (py_module *)owner;
  PyObject *recorder = Py_NewRef(m->recorder), *positional = tuple_of(args, n_args),
           *named = dict_of(args + n_args, kwnames);
  PyObject *question = NULL, *out = NULL;

  if (positional && named)
    question = PyObject_CallMethod(recorder, "_begin", "sOOO", name, positional, named,
                                   rush_module_is_random(m->module) ? Py_True : Py_False);
  if (question) {
    out = call_plain(st, owner, name, args, n_args, kwnames, how);
    if (notify_recorder(recorder, question, out) < 0)
      Py_CLEAR(out);
  }
  Py_XDECREF(question);
  Py_XDECREF(positional);
  Py_XDECREF(named);
  Py_DECREF(recorder);
  return out;
}

/* Return the values of a call's tuple and dict as one array, and the dict's keys: borrowed, and
 * new. */
static PyObject **row_of(PyObject *args, PyObject *kwargs, PyObject **kwnames)
{
  const Py_ssize_t n = PyTuple_GET_SIZE(args), n_named = PyDict_Size(kwargs);
  PyObject **row = PyMem_Calloc((size_t)(n + n_named) + 1, sizeof *row), *key, *value;
  Py_ssize_t at = 0, i = 0;

  *kwnames = row ? PyTuple_New(n_named) : NULL;
  if (!*kwnames) {
    PyMem_Free(row);
    PyErr_NoMemory();
    return NULL;
  }
  for (Py_ssize_t k = 0; k < n; k++)
    row[k] = PyTuple_GET_ITEM(args, k);
  for (; PyDict_Next(kwargs, &at, &key, &value); i++) {
    PyTuple_SET_ITEM(*kwnames, i, Py_NewRef(key));
    row[n + i] = value;
  }
  return row;
}

/* Return the arguments as (tuple, dict) of plain containers, made by pytree.py; new. */
static PyObject *lower(PyObject *trees, PyObject *const *args, size_t n_args, PyObject *kwnames)
{
  PyObject *positional = tuple_of(args, n_args), *named = dict_of(args + n_args, kwnames);
  PyObject *both =
    positional && named ? PyObject_CallMethod(trees, "lower", "OO", positional, named) : NULL;

  Py_XDECREF(positional);
  Py_XDECREF(named);
  return both;
}

static PyObject *call_containers(py_state *st, PyObject *owner, const char *name,
                                 PyObject *const *args, size_t n_args, PyObject *kwnames,
                                 how_called how)
{
  const bool is_recorded =
    PyObject_TypeCheck(owner, st->module_type) && ((py_module *)owner)->recorder &&
    ((py_module *)owner)->recorder != Py_None && ((py_module *)owner)->module && !how.prepares;

  return (is_recorded ? call_recorded : call_plain)(st, owner, name, args, n_args, kwnames, how);
}

/* Call with arguments or results that contain classes: they are converted to containers and
 * back. */
static PyObject *call_with_trees(py_state *st, PyObject *owner, const char *name,
                                 PyObject *const *args, size_t n_args, PyObject *kwnames,
                                 how_called how)
{
  PyObject *trees = Py_NewRef(((py_module *)owner)->trees), *names = NULL, *out = NULL;
  PyObject *both = lower(trees, args, n_args, kwnames);
  PyObject **row =
    both ? row_of(PyTuple_GET_ITEM(both, 0), PyTuple_GET_ITEM(both, 1), &names) : NULL;

  if (row)
    out = call_containers(st, owner, name, row, (size_t)PyTuple_GET_SIZE(PyTuple_GET_ITEM(both, 0)),
                     PyTuple_GET_SIZE(names) ? names : NULL, how);
  if (out && !how.prepares)
    Py_SETREF(out, PyObject_CallMethod(trees, "rebuild", "(O)", out));
  if (row) {
    Py_DECREF(names);
    PyMem_Free(row);
  }
  Py_XDECREF(both);
  Py_DECREF(trees);
  return out;
}

static PyObject *call_method(py_state *st, PyObject *owner, const char *name, PyObject *const *args,
                             size_t n_args, PyObject *kwnames, how_called how)
{
  const bool has_trees = PyObject_TypeCheck(owner, st->module_type) && ((py_module *)owner)->trees;

  return (has_trees ? call_with_trees : call_containers)(st, owner, name, args, n_args, kwnames,
                                                         how);
}

/* -- Bound methods ----------------------------------------------------------------------------- */

typedef struct py_method {
  PyObject_HEAD
  PyObject *owner; /* a module, or a script object */
  py_state *state;
  char *name;
  vectorcallfunc vectorcall;
} py_method;

static PyObject *method_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf,
                                   PyObject *kwnames)
{
  py_method *m = (py_method *)self;

  return call_method(m->state, m->owner, m->name, args, (size_t)PyVectorcall_NARGS(nargsf), kwnames,
                     (how_called){0});
}

/* (buffers, args, kwargs): returns (the result, a list of bool: which buffers received a copy). */
static PyObject *method_call_into(PyObject *self, PyObject *all)
{
  py_method *m = (py_method *)self;
  PyObject *buffers, *args, *kwargs, *kwnames, *list, *out = NULL;

  if (!PyArg_ParseTuple(all, "O!O!O!", &PyTuple_Type, &buffers, &PyTuple_Type, &args, &PyDict_Type,
                        &kwargs))
    return NULL;
  const Py_ssize_t n = PyTuple_GET_SIZE(buffers);
  PyObject **row = row_of(args, kwargs, &kwnames);
  bool *copied = row ? PyMem_Calloc((size_t)n + 1, sizeof *copied) : NULL;
  if (!copied) {
    PyMem_Free(row);
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
  }
  PyObject *result = call_method(m->state, m->owner, m->name, row, (size_t)PyTuple_GET_SIZE(args),
                                 PyTuple_GET_SIZE(kwnames) ? kwnames : NULL,
                                 (how_called){.buffers = buffers, .copied = copied});
  list = result ? PyList_New(n) : NULL;
  for (Py_ssize_t i = 0; list && i < n; i++)
    PyList_SET_ITEM(list, i, PyBool_FromLong(copied[i]));
  out = list ? PyTuple_Pack(2, result, list) : NULL;
  Py_XDECREF(list);
  Py_XDECREF(result);
  Py_DECREF(kwnames);
  PyMem_Free(copied);
  PyMem_Free(row);
  return out;
}
static void method_dealloc(PyObject *self)
{
  py_method *m = (py_method *)self;
  PyTypeObject *type = Py_TYPE(self);

  Py_XDECREF(m->owner);
  PyMem_Free(m->name);
  type->tp_free(self);
  Py_DECREF(type);
}
/* Return the module whose method this is; raises AttributeError for a script object's. */
static py_module *method_module(py_method *m)
{
  if (PyObject_TypeCheck(m->owner, m->state->module_type))
    return (py_module *)m->owner;
  PyErr_SetString(PyExc_AttributeError, "known for methods of the loaded module itself only");
  return NULL;
}
/* Prepare without arguments: for the program's sample inputs, or what the method's code refers
 * to. */
static PyObject *prepare_without_args(py_method *m, py_module *module)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_status st;

  if (py_module_refresh(module) < 0)
    return NULL;
  Py_BEGIN_ALLOW_THREADS
  st = rush_module_prepare(module->module, m->name, NULL, 0, NULL, 0, NULL, &err);
  Py_END_ALLOW_THREADS
  return py_done(m->state, st, &err);
}
/* prepare(*args, **kwargs): compiles what such a call would. */
static PyObject *method_prepare(PyObject *self, PyObject *args, PyObject *kwargs)
{
  py_method *m = (py_method *)self;
  py_module *module = method_module(m);
  PyObject *kwnames, *none = NULL, *out;

  if (!module)
    return NULL;
  if (!module->module)
    return py_no_program();
  if (PyTuple_GET_SIZE(args) == 0 && (!kwargs || PyDict_Size(kwargs) == 0))
    return prepare_without_args(m, module);
  if (!kwargs && !(kwargs = none = PyDict_New()))
    return NULL;
  PyObject **row = row_of(args, kwargs, &kwnames);
  Py_XDECREF(none);
  if (!row)
    return NULL;
  out = call_method(m->state, m->owner, m->name, row, (size_t)PyTuple_GET_SIZE(args),
                    PyTuple_GET_SIZE(kwnames) ? kwnames : NULL, (how_called){.prepares = true});
  Py_DECREF(kwnames);
  PyMem_Free(row);
  return out;
}
static PyObject *method_schema(PyObject *self, void *unused)
{
  py_method *m = (py_method *)self;
  py_module *module = method_module(m);
  rush_error err = RUSH_ERROR_INIT;
  char *text;

  (void)unused;
  if (!module)
    return NULL;
  if (rush_module_method_schema(module->module, m->name, &text, &err) != RUSH_OK)
    return py_raise(m->state, &err);
  PyObject *made = py_text_steal(m->state, text);
  return made ? py_package_call(m->state, "method_schema", "(NOs)", made, m->owner, m->name) : NULL;
}
static PyObject *method_graph(PyObject *self, void *unused)
{
  py_method *m = (py_method *)self;

  (void)unused;
  return py_shown_graph(m->state, m->owner, m->name);
}
static PyObject *method_inlined_graph(PyObject *self, void *unused)
{
  py_method *m = (py_method *)self;

  (void)unused;
  return py_method_graph(m->state, m->owner, m->name, true);
}
static PyObject *method_code(PyObject *self, void *unused)
{
  py_module *module = method_module((py_method *)self);

  (void)unused;
  return module ? py_module_dump(module, RUSH_DUMP_CODE, ((py_method *)self)->name) : NULL;
}
static PyObject *method_plans(PyObject *self, void *unused)
{
  py_module *module = method_module((py_method *)self);

  (void)unused;
  return module ? py_module_dump(module, RUSH_DUMP_PLANS, ((py_method *)self)->name) : NULL;
}
static PyObject *method_owner(PyObject *self, void *unused)
{
  (void)unused;
  return Py_NewRef(((py_method *)self)->owner);
}
static PyObject *method_last_graph(PyObject *self, PyObject *unused)
{
  py_method *m = (py_method *)self;

  (void)unused;
  if (!PyObject_TypeCheck(m->owner, m->state->module_type))
    return method_graph(self, NULL); /* an object's method runs as part of other calls */
  return py_last_graph(m->state, m->owner, m->name);
}
static PyObject *method_graph_for(PyObject *self, PyObject *args, PyObject *kwargs)
{
  PyObject *result = PyObject_Call(self, args, kwargs);

  if (!result)
    return NULL;
  Py_DECREF(result);
  return method_last_graph(self, NULL);
}
static PyObject *method_name(PyObject *self, void *unused)
{
  (void)unused;
  return PyUnicode_FromString(((py_method *)self)->name);
}
/* Return the docstring of the original Python method; a loaded one has none. */
static PyObject *method_doc(PyObject *self, void *unused)
{
  py_method *m = (py_method *)self;

  (void)unused;
  return py_package_call(m->state, "method_doc", "(Os)", m->owner, m->name);
}
static PyMethodDef method_methods[] = {
  {"_call_into", method_call_into, METH_VARARGS, "a call whose results go to buffers"},
  {"prepare", (PyCFunction)(void (*)(void))method_prepare, METH_VARARGS | METH_KEYWORDS,
   "prepare(*args, **kwargs): compile what such a call would, changing nothing; without arguments: "
   "everything that the code names"},
  {"graph_for", (PyCFunction)(void (*)(void))method_graph_for, METH_VARARGS | METH_KEYWORDS,
   "call the method; the graph that ran"},
  {"last_graph", method_last_graph, METH_NOARGS, "the graph that the last call ran"},
  {NULL, NULL, 0, NULL}};
static PyGetSetDef method_getset[] = {
  {"code", method_code, NULL, "the method's source", NULL},
  {"plans", method_plans, NULL, "the plans that calls have made, as text", NULL},
  {"__name__", method_name, NULL, "the method's name", NULL},
  {"__doc__", method_doc, NULL, "the docstring of what it was made of, or None", NULL},
  {"owner", method_owner, NULL, "the module whose method it is", NULL},
  {"schema", method_schema, NULL, "the method's schema as text", NULL},
  {"graph", method_graph, NULL, "a copy of the method's graph, always the same one", NULL},
  {"inlined_graph", method_inlined_graph, NULL, "the same, calls replaced by what they call", NULL},
  {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef method_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(py_method, vectorcall), READONLY, NULL},
    {"name", T_STRING, offsetof(py_method, name), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};
static PyType_Slot method_slots[] = {{Py_tp_dealloc, method_dealloc},
                                     {Py_tp_call, PyVectorcall_Call},
                                     {Py_tp_getset, method_getset},
                                     {Py_tp_methods, method_methods},
                                     {Py_tp_members, method_members},
                                     {0, NULL}};
static PyType_Spec method_spec = {"rushlight.ScriptMethod", sizeof(py_method), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
                                    Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  method_slots};

PyObject *py_method_new(py_state *st, PyObject *owner, const char *name)
{
  py_method *m = py_need_part(st, PY_PART_MODULE) < 0
                   ? NULL
                   : (py_method *)st->method_type->tp_alloc(st->method_type, 0);
  size_t n = strlen(name) + 1;

  if (!m)
    return NULL;
  m->vectorcall = method_vectorcall;
  m->owner = Py_NewRef(owner);
  m->state = st;
  m->name = PyMem_Malloc(n);
  if (!m->name) {
    Py_DECREF(m);
    return PyErr_NoMemory();
  }
  memcpy(m->name, name, n);
  return (PyObject *)m;
}

int py_add_method_type(PyObject *m, py_state *st)
{
  st->method_type = py_add_type(m, &method_spec);
  return st->method_type ? 0 : -1;
}
