/* export_call.c -- rushlight.export.export of a module of ours: its arguments and the dimensions
 * that may vary, to rush_module_export. */
#include "export.h"

/* Read (input or None, dimension, name or None, least, most, factor, offset, symbol, is dynamic)
 * tuples; texts are borrowed from them.  Returns new items, or NULL with an exception set. */
static rush_export_dim *read_dims(PyObject *list, size_t *n)
{
  const Py_ssize_t count = PyList_Size(list);
  rush_export_dim *dims = count < 0 ? NULL : PyMem_Calloc((size_t)count + 1, sizeof *dims);

  if (count >= 0 && !dims)
    PyErr_NoMemory();
  for (Py_ssize_t i = 0; dims && i < count; i++) {
    long long least, most, factor, offset;
    unsigned symbol;
    int is_dynamic;
    rush_export_dim *d = &dims[i];
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "zizLLLLIp", &d->input, &d->dim, &d->name,
                          &least, &most, &factor, &offset, &symbol, &is_dynamic)) {
      PyMem_Free(dims);
      return NULL;
    }
    d->least = least;
    d->most = most;
    d->factor = factor;
    d->offset = offset;
    d->symbol = symbol;
    d->is_dynamic = is_dynamic;
  }
  *n = dims ? (size_t)count : 0;
  return dims;
}

typedef struct values { /* the arguments: new */
  rush_value *args;
  rush_named_value *named;
  size_t n_args, n_named;
} values;

static void free_values(values *v)
{
  for (size_t i = 0; i < v->n_args; i++)
    rush_value_release(v->args[i]);
  for (size_t i = 0; i < v->n_named; i++)
    rush_value_release(v->named[i].value);
  PyMem_Free(v->args);
  PyMem_Free(v->named);
}

static int read_values(py_call *call, PyObject *args, PyObject *kwargs, values *v)
{
  PyObject *key, *item;
  Py_ssize_t at = 0;

  v->args = PyMem_Calloc((size_t)PyTuple_GET_SIZE(args) + 1, sizeof *v->args);
  v->named = PyMem_Calloc((size_t)PyDict_GET_SIZE(kwargs) + 1, sizeof *v->named);
  if (!v->args || !v->named) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++, v->n_args++)
    if (py_to_value(call, PyTuple_GET_ITEM(args, i), &v->args[i]) < 0)
      return -1;
  for (; PyDict_Next(kwargs, &at, &key, &item); v->n_named++) {
    v->named[v->n_named].name = PyUnicode_AsUTF8(key);
    if (!v->named[v->n_named].name || py_to_value(call, item, &v->named[v->n_named].value) < 0)
      return -1;
  }
  return 0;
}

/* -- Structure --------------------------------------------------------------------------------- */

const char **py_read_texts(PyObject *list, size_t *n)
{
  const Py_ssize_t count = PyList_Size(list);
  const char **texts = count < 0 ? NULL : PyMem_Calloc((size_t)count + 1, sizeof *texts);

  if (count >= 0 && !texts)
    PyErr_NoMemory();
  for (Py_ssize_t i = 0; texts && i < count; i++)
    if (!(texts[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(list, i)))) {
      PyMem_Free(texts);
      return NULL;
    }
  *n = texts ? (size_t)count : 0;
  return texts;
}

#define N_TEXTS 5

typedef struct tree {
  rush_export_structure s;
  const char **texts[N_TEXTS]; /* arg_names, names, texts, temporary, classes: new */
  values samples;
} tree;

static void free_tree(tree *t)
{
  for (int i = 0; i < N_TEXTS; i++)
    PyMem_Free(t->texts[i]);
  free_values(&t->samples);
}

/* Read (in_spec, out_spec, arg_names, names, texts, temporary, classes, args or None, kwargs or
 * None). */
static int read_tree(py_call *call, PyObject *tuple, tree *t)
{
  size_t n[N_TEXTS] = {0};
  PyObject *lists[N_TEXTS], *args, *kwargs;

  if (!PyArg_ParseTuple(tuple, "ssO!O!O!O!O!OO", &t->s.in_spec, &t->s.out_spec, &PyList_Type,
                        &lists[0], &PyList_Type, &lists[1], &PyList_Type, &lists[2],
                        &PyList_Type, &lists[3], &PyList_Type, &lists[4], &args, &kwargs))
    return -1;
  for (int i = 0; i < N_TEXTS; i++)
    if (!(t->texts[i] = py_read_texts(lists[i], &n[i])))
      return -1;
  if (n[1] != n[2] || n[4] % 2) {
    PyErr_SetString(PyExc_ValueError, "a name and a text are needed for each leaf and class");
    return -1;
  }
  t->s.arg_names = t->texts[0];
  t->s.names = t->texts[1];
  t->s.texts = t->texts[2];
  t->s.temporary = t->texts[3];
  t->s.classes = t->texts[4];
  t->s.n_classes = n[4] / 2;
  t->s.n_arg_names = n[0];
  t->s.n_leaves = n[1];
  t->s.n_temporary = n[3];
  if (args == Py_None)
    return 0;
  if (!PyTuple_Check(args) || !PyDict_Check(kwargs)) {
    PyErr_SetString(PyExc_TypeError, "the example is a tuple and a dict");
    return -1;
  }
  if (read_values(call, args, kwargs, &t->samples) < 0)
    return -1;
  t->s.sample_args = t->samples.args;
  t->s.n_sample_args = t->samples.n_args;
  t->s.sample_named = t->samples.named;
  t->s.n_sample_named = t->samples.n_named;
  return 0;
}

/* export_call(module, method, args, kwargs, dimensions, structure or None, is draft): a module that
 * is an exported program, and the report of a draft or None. */
PyObject *py_export_call(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  rush_export_options options = RUSH_EXPORT_OPTIONS_INIT;
  PyObject *module, *given, *named, *list, *structure, *out = NULL;
  tree t = {.s = RUSH_EXPORT_STRUCTURE_INIT};
  rush_error err = RUSH_ERROR_INIT;
  py_call call = {.state = st};
  rush_module *made = NULL;
  rush_export_dim *dims;
  char *report = NULL;
  const char *method;
  values v = {0};
  int is_draft;

  if (!PyArg_ParseTuple(args, "O!sO!O!O!Op", st->module_type, &module, &method, &PyTuple_Type,
                        &given, &PyDict_Type, &named, &PyList_Type, &list, &structure,
                        &is_draft) ||
      !(dims = read_dims(list, &options.n_dims)))
    return NULL;
  options.dims = dims;
  options.report = is_draft ? &report : NULL;
  options.structure = structure == Py_None ? NULL : &t.s;
  if (read_values(&call, given, named, &v) == 0 &&
      (structure == Py_None || read_tree(&call, structure, &t) == 0)) {
    rush_status status;
    Py_BEGIN_ALLOW_THREADS
    status = rush_module_export(((py_module *)module)->module, method, v.args, v.n_args, v.named,
                                v.n_named, &options, &made, &err);
    Py_END_ALLOW_THREADS
    if (status != RUSH_OK)
      py_raise(st, &err);
    else
      out = Py_BuildValue("(Nz)", py_module_wrap_steal(st, made), report);
  }
  if (report)
    rush_free_text(st->context, report);
  free_tree(&t);
  free_values(&v);
  PyMem_Free(dims);
  py_call_end(&call);
  return out;
}
