/* Torch's tensors through DLPack's C exchange API: tens of nanoseconds a tensor, where attributes and
 * capsules take microseconds.  A torch without it, and tensors that it refuses, go the long way. */
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
  int (*allocate)(dl_tensor *like, dl_managed **out, void *error, void (*set_error)(void *, const char *, const char *));
  int (*managed_of)(void *object, dl_managed **out);
  int (*object_of)(dl_managed *tensor, void **out); /* steals on success */
  int (*tensor_of)(void *object, dl_tensor *out);   /* borrowed */
  int (*stream_of)(int type, int32_t id, void **out);
};

enum { DL_CPU = 1 };

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
  } rows[] = {{2, 32, RUSH_FLOAT32}, {0, 64, RUSH_INT64},    {6, 8, RUSH_BOOL},       {2, 64, RUSH_FLOAT64},
              {2, 16, RUSH_FLOAT16}, {4, 16, RUSH_BFLOAT16}, {1, 8, RUSH_UINT8},      {0, 8, RUSH_INT8},
              {0, 16, RUSH_INT16},   {0, 32, RUSH_INT32},    {5, 64, RUSH_COMPLEX64}, {5, 128, RUSH_COMPLEX128}};
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
