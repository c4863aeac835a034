/* init.c -- the extension module: its functions, its state, its callbacks from the library. */
#include "export.h"
#include "ir.h"
#include "limits.h"
#include "operator.h"
#include "script.h"

#include <string.h>
#include <sys/stat.h>

PyObject *py_register_operator(PyObject *m, PyObject *args);
PyObject *py_save(PyObject *m, PyObject *args);
PyObject *py_save_value(PyObject *m, PyObject *args);
PyObject *py_extra_files(PyObject *m, PyObject *object);
PyObject *py_method_code(PyObject *m, PyObject *args);
PyObject *py_method_signature(PyObject *m, PyObject *args);
PyObject *py_load(PyObject *m, PyObject *args, PyObject *kwargs);
PyObject *py_compile(PyObject *m, PyObject *args);
PyObject *py_set_module_class(PyObject *m, PyObject *type);

/* -- Settings ---------------------------------------------------------------------------------- */

static PyObject *py_manual_seed(PyObject *m, PyObject *arg)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  uint64_t seed = PyLong_AsUnsignedLongLongMask(arg);

  if (PyErr_Occurred())
    return NULL;
  return py_done(st, rush_manual_seed(st->context, seed, &err), &err);
}
static PyObject *py_get_rng_state(PyObject *m, PyObject *unused)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  PyObject *bytes = PyBytes_FromStringAndSize(NULL, RUSH_GENERATOR_STATE_BYTES);

  (void)unused;
  if (bytes && rush_generator_get_state(st->context, PyBytes_AS_STRING(bytes), &err) != RUSH_OK) {
    Py_DECREF(bytes);
    return py_raise(st, &err);
  }
  return bytes;
}

static PyObject *py_set_rng_state(PyObject *m, PyObject *arg)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  Py_buffer b;
  /* torch's tensors show their memory through numpy only */
  PyObject *data =
    PyObject_CheckBuffer(arg) ? Py_NewRef(arg) : PyObject_CallMethod(arg, "numpy", NULL);

  if (!data || PyObject_GetBuffer(data, &b, PyBUF_SIMPLE) < 0) {
    Py_XDECREF(data);
    return NULL;
  }
  rush_status status = rush_generator_set_state(st->context, b.buf, (size_t)b.len, &err);
  PyBuffer_Release(&b);
  Py_DECREF(data);
  return py_done(st, status, &err);
}

static PyObject *py_set_num_threads(PyObject *m, PyObject *arg)
{
  long n = PyLong_AsLong(arg);

  if (n == -1 && PyErr_Occurred())
    return NULL;
  if (n < 1 || n > 4096)
    return PyErr_Format(PyExc_ValueError, "the number of threads is 1 to 4096, not %ld", n);
  rush_context_set_threads(((py_state *)PyModule_GetState(m))->context, (int)n);
  Py_RETURN_NONE;
}
static PyObject *py_get_num_threads(PyObject *m, PyObject *unused)
{
  (void)unused;
  return PyLong_FromLong(rush_context_get_threads(((py_state *)PyModule_GetState(m))->context));
}
static const char *const cpu_names[] = {"native", "portable", "avx2", "avx512"};

static PyObject *py_set_cpu(PyObject *m, PyObject *arg)
{
  py_state *st = PyModule_GetState(m);
  const char *name = PyUnicode_AsUTF8(arg);
  rush_error err = RUSH_ERROR_INIT;

  if (!name)
    return NULL;
  for (int level = RUSH_CPU_NATIVE; level <= RUSH_CPU_AVX512; level++)
    if (strcmp(name, cpu_names[level]) == 0) {
      if (rush_context_set_cpu(st->context, (rush_cpu)level, &err) != RUSH_OK)
        return py_raise(st, &err);
      Py_RETURN_NONE;
    }
  return PyErr_Format(PyExc_ValueError, "the cpu is native, portable, avx2 or avx512, not '%s'",
                      name);
}
static const char *const executor_names[] = {
  [RUSH_EXECUTOR_SIMPLE] = "simple",
  [RUSH_EXECUTOR_SPECIALISING] = "specialising",
  [RUSH_EXECUTOR_PROFILING] = "profiling"};

static PyObject *py_set_executor(PyObject *m, PyObject *arg)
{
  py_state *st = PyModule_GetState(m);
  const char *name = PyUnicode_AsUTF8(arg);
  rush_error err = RUSH_ERROR_INIT;

  if (!name)
    return NULL;
  for (int i = RUSH_EXECUTOR_SIMPLE; i <= RUSH_EXECUTOR_PROFILING; i++)
    if (strcmp(name, executor_names[i]) == 0)
      return py_done(st, rush_context_set_executor(st->context, (rush_executor)i, &err), &err);
  return PyErr_Format(PyExc_ValueError,
                      "the executor is simple, specialising or profiling, not '%s'", name);
}
static PyObject *py_get_executor(PyObject *m, PyObject *unused)
{
  (void)unused;
  return PyUnicode_FromString(
    executor_names[rush_context_get_executor(((py_state *)PyModule_GetState(m))->context)]);
}
/* set_plan_limits(off, n_exact, n_wide): the limits before, as such a tuple. */
static PyObject *py_set_plan_limits(PyObject *m, PyObject *args)
{
  rush_context *c = ((py_state *)PyModule_GetState(m))->context;
  int off, n_exact, n_wide, had_exact, had_wide;
  bool was_off;

  if (!PyArg_ParseTuple(args, "pii:set_plan_limits", &off, &n_exact, &n_wide))
    return NULL;
  rush_context_get_plan_limits(c, &was_off, &had_exact, &had_wide);
  rush_context_set_plan_limits(c, off, n_exact, n_wide);
  return Py_BuildValue("Oii", was_off ? Py_True : Py_False, had_exact, had_wide);
}
/* default_dtype(): the dtype of floats: torch's if torch is imported. */
static PyObject *py_default_dtype(PyObject *m, PyObject *unused)
{
  py_state *st = PyModule_GetState(m);

  (void)unused;
  if (py_sync_default_dtype(st) < 0)
    return NULL;
  return Py_NewRef(st->dtypes[rush_context_get_default_dtype(st->context)]);
}
static PyObject *py_set_default_dtype(PyObject *m, PyObject *arg)
{
  py_state *st = PyModule_GetState(m);
  const int dtype = py_dtype_of(st, arg);

  if (dtype < 0)
    return NULL;
  if (!rush_context_set_default_dtype(st->context, (rush_dtype)dtype))
    return PyErr_Format(PyExc_TypeError,
                        "only floating-point types are supported as the default type");
  Py_CLEAR(st->default_dtype); /* the next call compares torch's anew */
  return Py_NewRef(st->dtypes[dtype]);
}
static PyObject *py_set_subgraph_inlining(PyObject *m, PyObject *arg)
{
  const int on = PyObject_IsTrue(arg);

  if (on < 0)
    return NULL;
  return PyBool_FromLong(rush_context_set_subgraph_inlining(
    ((py_state *)PyModule_GetState(m))->context, on != 0));
}
static PyObject *py_get_plan_limits(PyObject *m, PyObject *unused)
{
  int n_exact, n_wide;
  bool off;

  (void)unused;
  rush_context_get_plan_limits(((py_state *)PyModule_GetState(m))->context, &off, &n_exact,
                               &n_wide);
  return Py_BuildValue("Oii", off ? Py_True : Py_False, n_exact, n_wide);
}
static PyObject *py_set_guard_failures(PyObject *m, PyObject *args)
{
  unsigned long long seed, nth;

  if (!PyArg_ParseTuple(args, "KK:set_guard_failures", &seed, &nth))
    return NULL;
  rush_context_set_guard_failures(((py_state *)PyModule_GetState(m))->context, seed, nth);
  Py_RETURN_NONE;
}
static PyObject *py_get_cpu(PyObject *m, PyObject *unused)
{
  (void)unused;
  return PyUnicode_FromString(
    cpu_names[rush_context_get_cpu(((py_state *)PyModule_GetState(m))->context)]);
}
static PyObject *py_profile_start(PyObject *m, PyObject *arg)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  size_t most = PyLong_AsSize_t(arg);

  if (PyErr_Occurred())
    return NULL;
  return py_done(st, rush_profile_start(st->context, most, &err), &err);
}
static PyObject *profile_event(const rush_profile_event *e)
{
  return Py_BuildValue(
    "(ssIIKKLszIzzI)", e->name, e->kind == RUSH_PROFILE_OPERATOR ? "operator" : "function",
    e->thread, e->depth, (unsigned long long)e->start_ns, (unsigned long long)e->end_ns,
    (long long)e->bytes, e->inputs, e->file, e->line, e->code, e->caller, e->node);
}
static PyObject *py_profile_stop(PyObject *m, PyObject *unused)
{
  rush_context *c = ((py_state *)PyModule_GetState(m))->context;
  PyObject *events = PyList_New(0);
  rush_profile_event e;
  uint64_t n_dropped = 0;

  (void)unused;
  rush_profile_stop(c);
  rush_profile_n_events(c, &n_dropped);
  for (size_t i = 0; events && rush_profile_event_at(c, i, &e); i++) {
    if (py_append_steal(events, profile_event(&e)) < 0)
      Py_CLEAR(events);
  }
  return events ? Py_BuildValue("(NK)", events, (unsigned long long)n_dropped) : NULL;
}
static PyObject *py_memory_stats(PyObject *m, PyObject *unused)
{
  rush_memory s = RUSH_MEMORY_INIT;

  (void)unused;
  rush_memory_get(((py_state *)PyModule_GetState(m))->context, &s);
  return Py_BuildValue("{s:n,s:n,s:n,s:n,s:n,s:K,s:K,s:K}", "live_bytes", (Py_ssize_t)s.live_bytes,
                       "peak_bytes", (Py_ssize_t)s.peak_bytes, "cached_bytes",
                       (Py_ssize_t)s.cached_bytes, "packed_bytes", (Py_ssize_t)s.packed_bytes,
                       "limit_bytes", (Py_ssize_t)s.limit_bytes, "n_allocs",
                       (unsigned long long)s.n_allocs, "n_data", (unsigned long long)s.n_data,
                       "n_cache_hits", (unsigned long long)s.n_cache_hits);
}
static PyObject *py_reset_peak(PyObject *m, PyObject *unused)
{
  (void)unused;
  rush_memory_reset_peak(((py_state *)PyModule_GetState(m))->context);
  Py_RETURN_NONE;
}
static PyObject *py_empty_cache(PyObject *m, PyObject *unused)
{
  (void)unused;
  rush_memory_trim(((py_state *)PyModule_GetState(m))->context);
  Py_RETURN_NONE;
}

static PyObject *py_compile_counters(PyObject *m, PyObject *unused)
{
  rush_compile_counters n = {.struct_bytes = sizeof n};

  (void)unused;
  rush_compile_stats(((py_state *)PyModule_GetState(m))->context, &n);
  return Py_BuildValue(
    "{s:K,s:K,s:K,s:K,s:K}", "groups", (unsigned long long)n.groups, "plans",
    (unsigned long long)n.plans, "group_calls", (unsigned long long)n.group_calls, "interpreted",
    (unsigned long long)n.interpreted, "functions", (unsigned long long)n.functions);
}

/* Raise OSError's class with errno and filename if there is nothing at the path (bytes).  Returns
 * 0, or -1. */
static int check_path(PyObject *path)
{
  struct stat s;

  if (stat(PyBytes_AS_STRING(path), &s) == 0)
    return 0;
  PyObject *name = PyUnicode_DecodeFSDefault(PyBytes_AS_STRING(path));
  if (name)
    PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, name);
  Py_XDECREF(name);
  return -1;
}

/* Load operators and passes of a shared object into the module's context. */
static PyObject *py_load_plugin(PyObject *m, PyObject *arg)
{
  py_state *st = PyModule_GetState(m);
  rush_error err = RUSH_ERROR_INIT;
  PyObject *path;

  if (!PyUnicode_FSConverter(arg, &path))
    return NULL;
  if (check_path(path) < 0) {
    Py_DECREF(path);
    return NULL;
  }
  rush_status status = rush_plugin_load(st->context, PyBytes_AS_STRING(path), &err);
  Py_DECREF(path);
  return py_done(st, status, &err);
}

static PyObject *py_load_value(PyObject *m, PyObject *args, PyObject *kwargs)
{
  static char *names[] = {"path", "check_full", "copy", NULL};
  rush_load_options options = RUSH_LOAD_OPTIONS_INIT;
  py_state *st = PyModule_GetState(m);
  py_call call = {.state = st};
  rush_error err = RUSH_ERROR_INIT;
  PyObject *arg, *path, *out;
  int full = 0, copy = 0;
  rush_value v;

  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$pp:load_value", names, &arg, &full, &copy))
    return NULL;
  if (!PyUnicode_FSConverter(arg, &path))
    return NULL;
  if (check_path(path) < 0) {
    Py_DECREF(path);
    return NULL;
  }
  options.check_full = full;
  options.copy = copy;
  rush_status status =
    rush_value_load_with(st->context, PyBytes_AS_STRING(path), &options, &v, &err);
  Py_DECREF(path);
  if (status != RUSH_OK)
    return py_raise(st, &err);
  out = py_from_value(&call, v);
  rush_value_release(v);
  py_call_end(&call);
  return out;
}

/* -- Callbacks --------------------------------------------------------------------------------- */

/* Print to sys.stdout for print() of a program; an exception there is raised when the call
 * returns. */
static void print_to_python(void *user, const char *text, size_t n_bytes)
{
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *out = PySys_GetObject("stdout");
  PyObject *s = PyUnicode_DecodeUTF8(text, (Py_ssize_t)n_bytes, "replace");

  (void)user;
  if (out && out != Py_None && s && !PyErr_Occurred()) {
    PyObject *r = PyObject_CallMethod(out, "write", "O", s);
    Py_XDECREF(r);
  }
  Py_XDECREF(s);
  PyGILState_Release(gil);
}
static void warn_to_python(void *user, const char *text)
{
  PyGILState_STATE gil = PyGILState_Ensure();

  (void)user;
  if (!PyErr_Occurred())
    (void)!PyErr_WarnEx(PyExc_UserWarning, text, 1);
  PyGILState_Release(gil);
}

/* -- The module -------------------------------------------------------------------------------- */

static PyStructSequence_Field dtype_fields[] = {
    {"name", "as torch names it"}, {"number", "PyTorch's ScalarType"},
    {"scalar_type", "PyTorch's name of that: Float, Long"}, {NULL, NULL}};
static PyStructSequence_Desc dtype_desc = {"rushlight.dtype", "A data type.", dtype_fields, 2};

static PyObject *dtype_repr(PyObject *self)
{
  return PyUnicode_FromFormat("rushlight.%U", PyTuple_GET_ITEM(self, 0));
}

static int add_dtypes(PyObject *m, py_state *st)
{
  st->dtype_type = PyStructSequence_NewType(&dtype_desc);
  if (st->dtype_type) {
    st->dtype_type->tp_repr = dtype_repr;
    PyType_Modified(st->dtype_type);
  }
  if (!st->dtype_type || PyModule_AddObjectRef(m, "dtype", (PyObject *)st->dtype_type) < 0)
    return -1;
  for (int d = 0; d < RUSH_N_DTYPES; d++) {
    const char *name = rush_dtype_name((rush_dtype)d);
    PyObject *o = name ? PyStructSequence_New(st->dtype_type) : NULL;
    if (!name)
      continue;
    PyObject *text = PyUnicode_FromString(name), *number = PyLong_FromLong(d);
    PyObject *scalar_type = PyUnicode_FromString(rush_dtype_scalar_type((rush_dtype)d));
    if (!o || !text || !number || !scalar_type)
      return -1;
    PyStructSequence_SetItem(o, 0, text);
    PyStructSequence_SetItem(o, 1, number);
    PyStructSequence_SetItem(o, 2, scalar_type);
    st->dtypes[d] = o;
    if (PyModule_AddObjectRef(m, name, o) < 0)
      return -1;
  }
  return 0;
}

static int module_exec(PyObject *m)
{
  py_state *st = PyModule_GetState(m);
  rush_context_options options = RUSH_CONTEXT_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;

  options.stack_bytes = (size_t)64 << 20; /* all that a thread has, as in the interpreter itself */
  options.print = print_to_python;
  options.warn = warn_to_python;
  if (rush_context_create(&options, &st->context, &err) != RUSH_OK) {
    PyErr_SetString(PyExc_RuntimeError, err.message);
    rush_error_clear(&err);
    return -1;
  }
  st->error = PyErr_NewExceptionWithDoc("rushlight.Error", "What a program raised.",
                                        PyExc_RuntimeError, NULL);
  if (!st->error || PyModule_AddObjectRef(m, "Error", st->error) < 0)
    return -1;
  st->grad_mode = PyContextVar_New("rushlight.grad_mode", NULL);
  if (!st->grad_mode || PyModule_AddObjectRef(m, "_grad_mode", st->grad_mode) < 0)
    return -1;
  if (py_add_tensor_type(m, st) < 0 || py_add_method_type(m, st) < 0 ||
      py_add_module_types(m, st) < 0 || py_add_object_types(m, st) < 0 ||
      py_add_script_types(m, st) < 0 || py_add_limits(m, st) < 0 || py_add_trace(m) < 0 ||
      py_add_recorder(m) < 0 || py_add_exported_type(m, st) < 0 || py_add_ir_types(m, st) < 0 ||
      add_dtypes(m, st) < 0)
    return -1;
  return PyModule_AddStringConstant(m, "__version__", rush_version());
}

static PyMethodDef functions[] = {
  {"load", (PyCFunction)(void (*)(void))py_load, METH_VARARGS | METH_KEYWORDS, "open an archive"},
  {"load_exported", py_load_exported, METH_VARARGS,
   "load_exported(path or bytes, check_full, copy, program or None): an ExportedProgram"},
  {"export_call", py_export_call, METH_VARARGS,
   "export_call(module, method, args, kwargs, dimensions, structure): an exported program as a "
   "module"},
  {"exported_of", py_exported_of, METH_O, "exported_of(module): the ExportedProgram that it is"},
  {"compile", py_compile, METH_VARARGS, "compile(text, name, first_line): TorchScript from a text"},
  {"_set_module_class", py_set_module_class, METH_O, "the class of submodules"},
  {"save", py_save, METH_VARARGS,
   "save(module, path or None, extra files or None, function or None); bytes without a path"},
  {"extra_files", py_extra_files, METH_O, "the author's files in a module's archive"},
  {"method_signature", py_method_signature, METH_VARARGS,
   "method_signature(module, method): its inputs and outputs"},
  {"method_code", py_method_code, METH_VARARGS,
   "method_code(module, method): its text, and the constants in it"},
  {"future_result", py_future_result, METH_O,
   "what a Future (a ScriptObject) holds; raises what its task raised"},
  {"set_error", py_set_error, METH_VARARGS,
   "set_error(name, class): what errors of that class are raised as"},
  {"freeze", py_freeze, METH_VARARGS,
   "freeze(module, preserved names, numerics, optimize: True, False, None for that alone)"},
  {"load_plugin", py_load_plugin, METH_O, "operators and passes of a shared object"},
  {"save_value", py_save_value, METH_VARARGS,
   "save_value(path, value): write plain data as .npy, .npz, .safetensors or torch.save's .pt"},
  {"load_value", (PyCFunction)(void (*)(void))py_load_value, METH_VARARGS | METH_KEYWORDS,
   "plain data of a torch.save, .npy or .safetensors file"},
  {"call_operator", (PyCFunction)(void (*)(void))py_call_operator, METH_FASTCALL | METH_KEYWORDS,
   "call_operator(name, *args, **kwargs)"},
  {"call_function", (PyCFunction)(void (*)(void))py_call_function, METH_FASTCALL | METH_KEYWORDS,
   "call_operator(...), whose results are rushlight tensors where no argument is a tensor"},
  {"_register_operator", py_register_operator, METH_VARARGS,
   "library.py's: an operator whose kernel is a Python function"},
  {"_set_package", py_set_package, METH_O,
   "_set_package(find): find(name) is what the package has of that name for the extension"},
  {"_set_size_class", py_set_size_class, METH_O, "the class of shapes"},
  {"gradients", py_gradients, METH_O,
   "an operator's gradient formulas: (inputs, parameters), each as names separated by spaces"},
  {"call_gradient", py_call_gradient, METH_VARARGS, "call_gradient(name, i, values, inputs)"},
  {"operator_shape", (PyCFunction)(void (*)(void))py_operator_shape, METH_FASTCALL | METH_KEYWORDS,
   "operator_shape(name, symbolic, *args, **kwargs): rushlight.ops.shape as plain tuples"},
  {"has_operator", py_has_operator, METH_O, "is there an operator of this name (any overload)?"},
  {"decomposed_operators", py_decomposed_operators, METH_NOARGS,
   "decomposed_operators(): the operators of torch's default table, a line each"},
  {"operator_schemas", (PyCFunction)(void (*)(void))py_operator_schemas, METH_FASTCALL,
   "operator_schemas(name=None): the schemas of one operator, or of all that can run, a line each"},
  {"as_tensor", (PyCFunction)(void (*)(void))py_as_tensor, METH_VARARGS | METH_KEYWORDS,
   "as_tensor(data, dtype=None): a Tensor of numbers, nested sequences, numpy or torch; memory is "
   "shared where the dtype allows"},
  {"tensor", (PyCFunction)(void (*)(void))py_tensor_new, METH_VARARGS | METH_KEYWORDS,
   "tensor(data, dtype=None): a new Tensor of numbers, nested sequences, or a copy of another "
   "tensor"},
  {"from_dlpack", py_import_dlpack, METH_O, "a Tensor on the memory of an object with __dlpack__"},
  {"manual_seed", py_manual_seed, METH_O, "seed the random generator as torch.manual_seed does"},
  {"get_rng_state", py_get_rng_state, METH_NOARGS,
   "the random generator's state, the bytes of torch.get_rng_state()"},
  {"set_rng_state", py_set_rng_state, METH_O, "set it: bytes, or a tensor or array of them"},
  {"set_num_threads", py_set_num_threads, METH_O, "threads that operators may use"},
  {"get_num_threads", py_get_num_threads, METH_NOARGS, "threads that operators may use"},
  {"set_cpu", py_set_cpu, METH_O,
   "kernels to use: native, portable, avx2 or avx512; the results have the same bits"},
  {"get_cpu", py_get_cpu, METH_NOARGS, "kernels used: portable, avx2 or avx512"},
  {"set_executor", py_set_executor, METH_O,
   "how functions run that are called later for the first time: simple, specialising or "
   "profiling"},
  {"get_executor", py_get_executor, METH_NOARGS, "the executor: simple, specialising or profiling"},
  {"set_plan_limits", py_set_plan_limits, METH_VARARGS,
   "set_plan_limits(off, n_exact, n_wide): how calls make plans; returns the limits before"},
  {"default_dtype", py_default_dtype, METH_NOARGS,
   "the dtype of floats, after taking torch's over if torch is imported"},
  {"set_default_dtype", py_set_default_dtype, METH_O,
   "set_default_dtype(dtype): the dtype of floats as long as torch is not imported; returns it"},
  {"set_subgraph_inlining", py_set_subgraph_inlining, METH_O,
   "set_subgraph_inlining(on): if plans leave small parts to single records; what it was"},
  {"get_plan_limits", py_get_plan_limits, METH_NOARGS, "(off, n_exact, n_wide)"},
  {"set_guard_failures", py_set_guard_failures, METH_VARARGS,
   "set_guard_failures(seed, nth): guards that fail although they hold, for tests; 0, 0: none"},
  {"compile_counters", py_compile_counters, METH_NOARGS,
   "groups of operators made, compiled, called and interpreted"},
  {"profile_start", py_profile_start, METH_O,
   "record what calls do, at most so many events (0: a million)"},
  {"profile_stop", py_profile_stop, METH_NOARGS,
   "stop recording: (events as tuples, how many more there were)"},
  {"memory_stats", py_memory_stats, METH_NOARGS,
   "bytes in use, at most, cached, packed; the limit; allocations and cache hits"},
  {"reset_peak_memory_stats", py_reset_peak, METH_NOARGS,
   "the peak of memory_stats() becomes what is in use now"},
  {"empty_cache", py_empty_cache, METH_NOARGS,
   "give free blocks that are kept for reuse back to the system"},
  {"_run_gradients", py_run_gradients, METH_VARARGS,
   "gradients.py's: rush_gradients, rush_backward"},
  {"_gradient_leaves", py_gradient_leaves, METH_O, "the leaves that tensors depend on"},
  {"_to_torch", py_to_torch, METH_O, "torch's tensor on the memory of ours"},
  {"_from_torch", py_from_torch, METH_O, "ours on the memory of torch's"},
  {"_set_limits", py_set_limits, METH_VARARGS,
   "_set_limits(max_seconds or None, max_bytes or None)"},
  {"_swap_block", py_swap_block, METH_VARARGS,
   "_swap_block(seconds, bytes, cancel), or of nothing: call_limits.py's; the block before"},
  {"_touch", py_touch, METH_O, "say that a tensor's memory was written to"},
  {"_address", py_address, METH_O, "which tensor it is"},
  {"parse_ir", (PyCFunction)(void (*)(void))py_parse_ir, METH_VARARGS | METH_KEYWORDS,
   "parse_ir(text, parse_tensor_constants=False, scope=None): a Graph of IR text"},
  {"parse_type", py_parse_type, METH_VARARGS, "parse_type(text, scope=None): a Type"},
  {"define_text", py_define_text, METH_VARARGS,
   "define_text(host, like, text, prefix, scope): the functions of a text, beside those of `like`"},
  {"function_graph", py_function_graph, METH_VARARGS, "function_graph(function, inlined): a Graph"},
  {"last_graph", py_last_function_graph, METH_O,
   "last_graph(function): the Graph that its last call ran"},
  {"last_executed_graph", py_last_executed_graph, METH_NOARGS,
   "last_executed_graph(): the Graph that the last call of anything ran, or None"},
  {"alias_analyse", py_alias_analyse, METH_O, "alias_analyse(graph): for alias_query"},
  {"alias_query", py_alias_query, METH_VARARGS,
   "alias_query(analysis, value, other or None, contained)"},
  {"move_if_valid", py_move_if_valid, METH_VARARGS,
   "move_if_valid(node, at, after, try_only): could it be?"},
  {"graph_match", py_graph_match, METH_VARARGS,
   "graph_match(graph, pattern): dicts of values by the pattern's names"},
  {"graph_rewrite", py_graph_rewrite, METH_VARARGS,
   "graph_rewrite(graph, pattern, by, accept or None): how many"},
  {"make_type", py_make_type, METH_VARARGS, "make_type(kind, elements)"},
  {"type_facts", py_type_facts, METH_O, "type_facts(type): what is known of its tensors"},
  {"type_of_facts", py_type_of_facts, METH_VARARGS,
   "type_of_facts(dtype, sizes, strides, device, requires_grad, defined, contiguous)"},
  {"unify_types", py_unify_types, METH_VARARGS,
   "unify_types(a, b, to_union=False): the type above both, or None"},
  {"register_types", py_register_types, METH_O, "classes of types by kind"},
  {NULL, NULL, 0, NULL}};

/* The context lives until the process ends: returned tensors may outlive the module object. */
static PyModuleDef_Slot slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        .m_name = "rushlight._rushlight",
                                        .m_size = sizeof(py_state),
                                        .m_methods = functions,
                                        .m_slots = slots};

PyMODINIT_FUNC PyInit__rushlight(void) { return PyModuleDef_Init(&definition); }
