/* exchange.c -- DLPack: capsules, and torch's tensors through its C exchange API, which takes tens
 * of nanoseconds per tensor where attributes and capsules take microseconds.  If torch lacks it or
 * refuses a tensor, the slow path is used. */
#include "exchange.h"

/* DLPack's ABI, version 1 (dlpack.h of the DLPack project). */
typedef struct dl_tensor {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t n_dims;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *sizes, *strides;
  uint64_t offset_bytes;
} dl_tensor;

typedef struct dl_managed {
  struct {
    uint32_t major, minor;
  } version;
  void *manager;
  void (*deleter)(struct dl_managed *self);
  uint64_t flags;
  dl_tensor tensor;
} dl_managed;

struct py_exchange {
  struct {
    uint32_t major, minor;
  } version;
  void *older;
  int (*allocate)(dl_tensor *like, dl_managed **out, void *error,
                  void (*set_error)(void *, const char *, const char *));
  int (*managed_of)(void *object, dl_managed **out);
  int (*object_of)(dl_managed *tensor, void **out); /* steals on success */
  int (*tensor_of)(void *object, dl_tensor *out);   /* borrowed */
  int (*stream_of)(int type, int32_t id, void **out);
};

enum { DL_CPU = 1, DL_IS_COPIED = 2 };

/* -- Capsules ---------------------------------------------------------------------------------- */

/* The first members of a managed tensor before version 1. */
typedef struct dl_plain {
  dl_tensor tensor;
  void *manager;
  void (*deleter)(struct dl_plain *self);
} dl_plain;

/* Free a capsule.  A used one has another name: its content belongs to the consumer. */
static void free_capsule(PyObject *capsule)
{
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    dl_plain *m = PyCapsule_GetPointer(capsule, "dltensor");
    m->deleter(m);
  } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    m->deleter(m);
  }
}

PyObject *py_dlpack_capsule(py_state *state, rush_tensor *t, bool versioned)
{
  rush_error err = RUSH_ERROR_INIT;
  void *managed;

  if (rush_tensor_to_dlpack(state->context, t, versioned, &managed, &err) != RUSH_OK)
    return py_raise(state, &err);
  return PyCapsule_New(managed, versioned ? "dltensor_versioned" : "dltensor", free_capsule);
}

/* A consumer's arguments of __dlpack__. */
typedef struct dl_request {
  bool versioned, copy;
} dl_request;

static int read_request(PyObject *const *args, PyObject *kwnames, dl_request *r)
{
  for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++) {
    PyObject *name = PyTuple_GET_ITEM(kwnames, i), *value = args[i];
    int major = 0, minor, type = DL_CPU, id;
    if (value == Py_None)
      continue;
    if (PyUnicode_CompareWithASCIIString(name, "copy") == 0) {
      r->copy = PyObject_IsTrue(value) == 1;
    } else if (PyUnicode_CompareWithASCIIString(name, "max_version") == 0) {
      if (!PyTuple_Check(value) || !PyArg_ParseTuple(value, "ii", &major, &minor))
        return -1;
      r->versioned = major >= 1;
    } else if (PyUnicode_CompareWithASCIIString(name, "dl_device") == 0) {
      if (!PyTuple_Check(value) || !PyArg_ParseTuple(value, "ii", &type, &id))
        return -1;
      if (type != DL_CPU) {
        PyErr_SetString(PyExc_BufferError, "the tensor is on the CPU: dl_device (1, 0)");
        return -1;
      }
    } /* stream: there is none on the CPU */
  }
  return 0;
}

PyObject *py_tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
  py_tensor *t = (py_tensor *)self;
  rush_error err = RUSH_ERROR_INIT;
  dl_request r = {false, false};
  rush_value v;

  if (read_request(args + n, kwnames, &r) < 0)
    return NULL;
  if (!r.copy)
    return py_dlpack_capsule(t->state, t->value.as.tensor, r.versioned);
  if (py_clone(t->state, t->value, &v, &err) != RUSH_OK)
    return py_raise(t->state, &err);
  PyObject *capsule = py_dlpack_capsule(t->state, v.as.tensor, r.versioned);
  rush_value_release(v);
  if (capsule && r.versioned)
    ((dl_managed *)PyCapsule_GetPointer(capsule, "dltensor_versioned"))->flags |= DL_IS_COPIED;
  return capsule;
}

/* -- Torch's exchange API ---------------------------------------------------------------------- */

const struct py_exchange *py_exchange_find(PyObject *tensor_type)
{
  PyObject *capsule = PyObject_GetAttrString(tensor_type, "__dlpack_c_exchange_api__");
  const struct py_exchange *api = NULL;

  if (capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
    api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api"); /* lives as long as torch */
  PyErr_Clear();
  Py_XDECREF(capsule);
  return api && api->version.major == 1 && api->tensor_of && api->object_of ? api : NULL;
}

static int dtype_of(const dl_tensor *t)
{
  static const struct {
    uint8_t code, bits;
    int8_t dtype;
  } rows[] = {{2, 32, RUSH_FLOAT32}, {0, 64, RUSH_INT64},     {6, 8, RUSH_BOOL},
              {2, 64, RUSH_FLOAT64}, {2, 16, RUSH_FLOAT16},   {4, 16, RUSH_BFLOAT16},
              {1, 8, RUSH_UINT8},    {0, 8, RUSH_INT8},       {0, 16, RUSH_INT16},
              {0, 32, RUSH_INT32},   {5, 64, RUSH_COMPLEX64}, {5, 128, RUSH_COMPLEX128}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].code == t->dtype.code && rows[i].bits == t->dtype.bits && t->dtype.lanes == 1)
      return rows[i].dtype;
  return -1;
}

bool py_exchange_read(const struct py_exchange *api, PyObject *o, py_geometry *g)
{
  dl_tensor t;

  if (api->tensor_of(o, &t) != 0) {
    PyErr_Clear();
    return false;
  }
  g->dtype = dtype_of(&t);
  g->n_dims = t.n_dims;
  g->sizes = t.sizes;
  g->strides = t.strides;
  g->data = (char *)t.data + t.offset_bytes;
  g->base = NULL;
  g->has_meta = true;
  return g->dtype >= 0 && t.device.type == DL_CPU && t.n_dims <= 64;
}

PyObject *py_exchange_write(const struct py_exchange *api, rush_context *context, rush_tensor *t)
{
  void *managed = NULL, *object = NULL;

  if (rush_tensor_to_dlpack(context, t, true, &managed, NULL) != RUSH_OK)
    return NULL;
  if (api->object_of(managed, &object) == 0)
    return object;
  PyErr_Clear();
  ((dl_managed *)managed)->deleter(managed);
  return NULL;
}
