/* _rushlight/layout.c -- reads torch's tensors directly at the offsets that torch 2.13's headers
 * imply. Offsets are used only after a check at import: tensors of many kinds must read the same
 * through them and through their public attributes, else the exchange API is used. Reading through
 * attributes costs some 60 ns each, which is more than a small operator. */
#include "layout.h"

#include <string.h>

#define KNOWN_VERSION "2.13."

/* Offsets of torch 2.13 on 64-bit machines, from what its headers declare. */
enum {
  OBJECT_IMPL = 16, /* of a Python tensor: TensorImpl* */
  IMPL_STORAGE = 16,
  IMPL_AUTOGRAD = 24,
  IMPL_N_DIMS = 56,
  IMPL_SIZES = 64, /* 5 of them; more dimensions: a pointer to all sizes, then all strides */
  IMPL_STRIDES = 104,
  IMPL_OFFSET = 144,
  IMPL_DTYPE = 160,
  IMPL_KEYS = 168,
  STORAGE_DATA = 16,
  STORAGE_BYTES = 48,
  INLINE_DIMS = 5
};

#define READ(type, from, at) (*(type const *)(const void *)((const char *)(from) + (at)))

/* Return the bytes of an element by torch's number of the dtype, which is ours; 0: not supported
 * here. */
static size_t item_bytes(unsigned dtype)
{
  static const uint8_t bytes[16] = {1, 1, 2, 4, 8, 2, 4, 8, 0, 8, 16, 1, 0, 0, 0, 2};

  return dtype < 16 ? bytes[dtype] : 0;
}

static bool read_impl(const void *impl, py_geometry *g)
{
  const void *storage = READ(void *, impl, IMPL_STORAGE);
  unsigned dtype = READ(uint16_t, impl, IMPL_DTYPE);
  size_t item = item_bytes(dtype), n_dims = READ(size_t, impl, IMPL_N_DIMS);

  if (!storage || !item || n_dims > INLINE_DIMS)
    return false;
  g->has_meta = READ(void *, impl, IMPL_AUTOGRAD) != NULL;
  g->dtype = (int)dtype;
  g->n_dims = (int)n_dims;
  g->sizes = (const int64_t *)(const void *)((const char *)impl + IMPL_SIZES);
  g->strides = (const int64_t *)(const void *)((const char *)impl + IMPL_STRIDES);
  g->base = READ(char *, storage, STORAGE_DATA);
  g->n_bytes = READ(size_t, storage, STORAGE_BYTES);
  g->offset = READ(int64_t, impl, IMPL_OFFSET);
  g->data = (char *)g->base + g->offset * (int64_t)item;
  return true;
}

bool py_layout_read(const py_layout *l, PyObject *o, py_geometry *g)
{
  const void *impl = READ(void *, o, OBJECT_IMPL);
  uint64_t keys = READ(uint64_t, impl, IMPL_KEYS);

  if (keys != l->plain_keys[0] && keys != l->plain_keys[1])
    return false;
  return read_impl(impl, g) &&
         READ(void *, READ(void *, impl, IMPL_STORAGE), l->deleter_at) == l->deleter;
}

/* -- The check --------------------------------------------------------------------------------- */

/* Expressions over `t` (torch): tensors that must be read correctly, ... */
static const char *const readable[] = {"t.empty(3, 5)",
                                       "t.empty(7, 9)[1:, ::2]",
                                       "t.empty(2, 3, 4, 5, dtype=t.bfloat16).permute(3, 0, 2, 1)",
                                       "t.empty((), dtype=t.int64)",
                                       "t.empty(1, 2, 3, 1, 2, dtype=t.bool)",
                                       "t.empty(0, 4, dtype=t.float64)",
                                       "t.empty(4, dtype=t.complex64)",
                                       "t.empty(3, dtype=t.uint8).expand(2, 3)",
                                       "t.empty(8, dtype=t.float16)[3:]",
                                       "t.nn.Parameter(t.empty(2))",
                                       "t.empty(2, requires_grad=True)"};
/* ... and others that must not be read directly. */
static const char *const unusual[] = {
    "t._neg_view(t.empty(2))",
    "t.empty(2, dtype=t.complex64).conj()", "t._lazy_clone(t.empty(2))", "t.empty(2).to_sparse()",
    "t.empty(2, device='meta')", "t.empty(1, 1, 1, 1, 1, 2)"};

/* Evaluate a text; new; NULL, without an exception. */
static PyObject *evaluate(PyObject *names, const char *text)
{
  PyObject *o = PyRun_String(text, Py_eval_input, names, names);

  PyErr_Clear();
  return o;
}

static uint64_t keys_of(PyObject *o)
{
  return READ(uint64_t, READ(void *, o, OBJECT_IMPL), IMPL_KEYS);
}

/* Find the word in which two of torch's storages agree, and which is not a data pointer. */
static bool find_deleter(py_layout *l, PyObject *a, PyObject *b)
{
  const void *x = READ(void *, READ(void *, a, OBJECT_IMPL), IMPL_STORAGE);
  const void *y = READ(void *, READ(void *, b, OBJECT_IMPL), IMPL_STORAGE);

  for (size_t at = STORAGE_DATA + 8; at <= STORAGE_DATA + 16; at += 8)
    if (READ(void *, x, at) == READ(void *, y, at) && READ(void *, x, at)) {
      l->deleter_at = at;
      l->deleter = READ(void *, x, at);
      return true;
    }
  return false;
}

static bool reads_right(const py_layout *l, PyObject *o, const struct py_exchange *exchange)
{
  py_geometry got, want;

  return o && py_layout_read(l, o, &got) && py_exchange_read(exchange, o, &want) &&
         got.dtype == want.dtype && got.n_dims == want.n_dims && got.data == want.data &&
         memcmp(got.sizes, want.sizes, sizeof(int64_t) * (size_t)got.n_dims) == 0 &&
         memcmp(got.strides, want.strides, sizeof(int64_t) * (size_t)got.n_dims) == 0;
}

static bool stores(PyObject *o, size_t n_bytes)
{
  return READ(size_t, READ(void *, READ(void *, o, OBJECT_IMPL), IMPL_STORAGE), STORAGE_BYTES) ==
         n_bytes;
}

static bool check_layout(py_layout *l, PyObject *names, const struct py_exchange *exchange)
{
  PyObject *a = evaluate(names, "t.empty(3)"), *b = evaluate(names, "t.empty(300)");
  PyObject *inference = evaluate(names, "(t.inference_mode()(t.empty))(3)");
  PyObject *parameter = evaluate(names, "t.empty(2, requires_grad=True)");
  bool ok =
    a && b && inference && parameter && find_deleter(l, a, b) && stores(a, 12) && stores(b, 1200);
  py_geometry g;

  if (ok) {
    l->plain_keys[0] = keys_of(a);
    l->plain_keys[1] = keys_of(inference);
    ok = reads_right(l, inference, exchange) && py_layout_read(l, a, &g) && !g.has_meta &&
         py_layout_read(l, parameter, &g) && g.has_meta;
  }
  for (size_t i = 0; i < sizeof readable / sizeof *readable && ok; i++) {
    PyObject *o = evaluate(names, readable[i]);
    ok = reads_right(l, o, exchange);
    Py_XDECREF(o);
  }
  for (size_t i = 0; i < sizeof unusual / sizeof *unusual && ok; i++) {
    PyObject *o = evaluate(names, unusual[i]);
    ok = o && !py_layout_read(l, o, &g);
    Py_XDECREF(o);
  }
  Py_XDECREF(a);
  Py_XDECREF(b);
  Py_XDECREF(inference);
  Py_XDECREF(parameter);
  return ok;
}

const py_layout *py_layout_find(PyObject *torch, const struct py_exchange *exchange)
{
  py_layout *l = PyMem_Calloc(1, sizeof *l);
  PyObject *version = PyObject_GetAttrString(torch, "__version__");
  const char *text = version ? PyUnicode_AsUTF8(version) : NULL;
  PyObject *names = exchange && text && strncmp(text, KNOWN_VERSION, strlen(KNOWN_VERSION)) == 0 &&
                        sizeof(void *) == 8
                      ? Py_BuildValue("{s:O,s:O}", "t", torch, "__builtins__", PyEval_GetBuiltins())
                      : NULL;

  if (l && (!names || !check_layout(l, names, exchange))) {
    PyMem_Free(l);
    l = NULL;
  }
  PyErr_Clear();
  Py_XDECREF(names);
  Py_XDECREF(version);
  return l;
}
