/* save.c -- writes archives, reads the author's files in them, and returns code as text. */
#include "export.h"

#include <string.h>

typedef struct byte_sink { /* grows without the GIL */
  char *data;
  size_t n, cap;
} byte_sink;

static bool sink_write(void *user, const void *data, size_t n_bytes)
{
  byte_sink *s = user;

  if (n_bytes > s->cap - s->n) {
    size_t cap = s->cap ? 2 * s->cap : 1 << 16;
    while (cap < s->n + n_bytes)
      cap *= 2;
    char *grown = PyMem_RawRealloc(s->data, cap);
    if (!grown)
      return false;
    s->data = grown;
    s->cap = cap;
  }
  if (n_bytes)
    memcpy(s->data + s->n, data, n_bytes);
  s->n += n_bytes;
  return true;
}

/* Read {name: str or bytes}: borrowed from `files`, a dict or None. */
static int read_files(PyObject *files, rush_extra_file **out, size_t *n)
{
  Py_ssize_t pos = 0, len;
  PyObject *key, *value;

  *out = NULL;
  *n = 0;
  if (files == Py_None)
    return 0;
  if (!PyDict_Check(files)) {
    PyErr_SetString(PyExc_TypeError, "_extra_files is a dict of names and contents");
    return -1;
  }
  *out = PyMem_Calloc((size_t)PyDict_Size(files) + 1, sizeof(**out));
  if (!*out) {
    PyErr_NoMemory();
    return -1;
  }
  while (PyDict_Next(files, &pos, &key, &value)) {
    rush_extra_file *f = &(*out)[(*n)++];
    char *bytes;
    f->name = PyUnicode_AsUTF8(key);
    if (PyUnicode_Check(value)) {
      f->data = PyUnicode_AsUTF8AndSize(value, &len);
    } else {
      f->data = PyBytes_AsStringAndSize(value, &bytes, &len) < 0 ? NULL : bytes;
    }
    if (!f->name || !f->data)
      return -1;
    f->n_bytes = (size_t)len;
  }
  return 0;
}

/* save(module or object, path or None, extra files or None, function or None): returns bytes if
 * there is no path. */
PyObject *py_save(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  rush_save_options options = RUSH_SAVE_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  byte_sink sink = {NULL, 0, 0};
  rush_extra_file *files = NULL;
  PyObject *object, *path, *extra, *encoded = NULL, *out = NULL;
  rush_status status;

  if (!PyArg_ParseTuple(args, "OOOz", &object, &path, &extra, &options.function))
    return NULL;
  bool is_module = PyObject_TypeCheck(object, st->module_type);
  rush_exported_program *program = py_exported_program(st, object);
  if (!is_module && !program && !PyObject_TypeCheck(object, st->object_type))
    return PyErr_Format(PyExc_TypeError, "save() takes a module or a script object, not %s",
                        Py_TYPE(object)->tp_name);
  if (read_files(extra, &files, &options.n_extra_files) < 0 ||
      (path != Py_None && !PyUnicode_FSConverter(path, &encoded)))
    goto done;
  options.extra_files = files;
  if (!encoded) {
    options.write = sink_write;
    options.write_user = &sink;
  }
  const char *name = encoded ? PyBytes_AS_STRING(encoded) : NULL;
  Py_BEGIN_ALLOW_THREADS status =
    is_module ? rush_module_save(((py_module *)object)->module, name, &options, &err)
    : program ? rush_exported_program_save(program, name, &options, &err)
              : rush_object_save(st->context, ((py_object *)object)->value, name, &options, &err);
  Py_END_ALLOW_THREADS
  if (status != RUSH_OK)
    py_raise(st, &err);
  else
    out = encoded ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize(sink.data, (Py_ssize_t)sink.n);
done:
  PyMem_RawFree(sink.data);
  PyMem_Free(files);
  Py_XDECREF(encoded);
  return out;
}

/* save_value(path, value) */
PyObject *py_save_value(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  py_call call = {.state = st};
  rush_error err = RUSH_ERROR_INIT;
  PyObject *path, *object, *out = NULL;
  rush_status status;
  rush_value v;

  if (!PyArg_ParseTuple(args, "O&O", PyUnicode_FSConverter, &path, &object))
    return NULL;
  if (py_to_value(&call, object, &v) == 0) {
    Py_BEGIN_ALLOW_THREADS
    status = rush_value_save(st->context, PyBytes_AS_STRING(path), v, &err);
    Py_END_ALLOW_THREADS
    out = py_done(st, status, &err);
    rush_value_release(v);
  }
  py_call_end(&call);
  Py_DECREF(path);
  return out;
}

/* extra_files(module): {name: bytes}. */
PyObject *py_extra_files(PyObject *m, PyObject *object)
{
  py_state *st = PyModule_GetState(m);

  if (!PyObject_TypeCheck(object, st->module_type))
    return PyErr_Format(PyExc_TypeError, "extra_files() takes a module");
  rush_module *module = ((py_module *)object)->module;
  PyObject *d = PyDict_New();
  for (size_t i = 0; d && i < rush_module_n_extra_files(module); i++) {
    const void *data;
    size_t n;
    const char *name = rush_module_extra_file(module, i, &data, &n);
    PyObject *bytes = PyBytes_FromStringAndSize(data, (Py_ssize_t)n);
    if (!bytes || PyDict_SetItemString(d, name, bytes) < 0)
      Py_CLEAR(d);
    Py_XDECREF(bytes);
  }
  return d;
}

/* method_code(module, method): (text, (constant, ...)). */
PyObject *py_method_code(PyObject *m, PyObject *args)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  const char *method;
  PyObject *object;
  rush_value constants;
  char *text;

  if (!PyArg_ParseTuple(args, "O!s", st->module_type, &object, &method))
    return NULL;
  if (rush_module_code(((py_module *)object)->module, method, &text, &constants, &err) != RUSH_OK)
    return py_raise(st, &err);
  py_call call = {.state = st};
  PyObject *code = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
  PyObject *values = code ? py_from_value(&call, constants) : NULL;
  rush_free_text(st->context, text);
  rush_value_release(constants);
  py_call_end(&call);
  PyObject *out = values ? PyTuple_Pack(2, code, values) : NULL;
  Py_XDECREF(code);
  Py_XDECREF(values);
  return out;
}
