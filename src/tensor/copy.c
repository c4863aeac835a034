/* tensor/copy.c -- copies between tensors of any strides and dtypes; reading, writing and filling
 * elements.
 *
 * Same dtype: memcpy if rows are contiguous on both sides, a tiled transpose if the fast dimensions
 * differ, else strided loops.  Different dtypes are converted through a block of 2 kB on the stack.
 * Overlapping tensors are copied to a temporary first, as in PyTorch. */
#include "base/threads.h"
#include "tensor/items.h"
#include "tensor/iter.h"
#include "tensor/sparse.h"

#define GRAIN 32768
#define BLOCK_BYTES 2048 /* of elements on their way through the stack */
#define TILE 16

/* -- Same dtype -------------------------------------------------------------------------------- */

#define STRIDED(type)                                     \
  for (int64_t i = 0; i < n; i++, d += ds, s += ss)       \
    *(type *)d = *(const type *)s;

/* Loops that vectorise: reversed copies, and one element to many. */
#define TURNED(type)                                      \
  for (int64_t i = 0; i < n; i++)                         \
    ((type *)d)[i] = ((const type *)s)[-i];
#define SPREAD(type)                                      \
  {                                                       \
    const type v = *(const type *)s;                      \
    for (int64_t i = 0; i < n; i++)                       \
      ((type *)d)[i] = v;                                 \
  }
#define GATHERED(type)                                    \
  for (int64_t i = 0; i < n; i++, s += ss)                \
    ((type *)d)[i] = *(const type *)s;

void copy_elems(size_t item, char *d, int64_t ds, const char *s, int64_t ss, int64_t n)
{
  if (ds == (int64_t)item && ss == ds) {
    memcpy(d, s, (size_t)n * item);
    return;
  }
  bool row = ds == (int64_t)item;
  if (row && ss == -ds)
    BY_ITEM(item, TURNED)
  else if (row && ss == 0)
    BY_ITEM(item, SPREAD)
  else if (row)
    BY_ITEM(item, GATHERED)
  else
    BY_ITEM(item, STRIDED)
}

typedef struct copy_arg {
  int to, from;
  size_t to_bytes, from_bytes;
} copy_arg;

static void loop_same(void *p, int64_t n, char *const *ptrs, const int64_t *strides)
{
  const copy_arg *a = p;
  copy_elems(a->to_bytes, ptrs[0], strides[0], ptrs[1], strides[1], n);
}

/* -- With conversion: gather a block, convert it, scatter it ----------------------------------- */

static void loop_convert(void *p, int64_t n, char *const *ptrs, const int64_t *strides)
{
  const copy_arg *a = p;
  int64_t tb = (int64_t)a->to_bytes, fb = (int64_t)a->from_bytes;
  bool d_dense = strides[0] == tb, s_dense = strides[1] == fb;
  if (d_dense && s_dense) {
    convert_elems(a->to, ptrs[0], a->from, ptrs[1], n);
    return;
  }
  bytes16 in[BLOCK_BYTES / sizeof(bytes16)], out[BLOCK_BYTES / sizeof(bytes16)];
  const int64_t block = BLOCK_BYTES / i64_max(tb, fb);
  for (int64_t at = 0; at < n; at += block) {
    int64_t m = i64_min(block, n - at);
    char *d = ptrs[0] + at * strides[0];
    const char *s = ptrs[1] + at * strides[1];
    if (!s_dense)
      copy_elems(a->from_bytes, (char *)in, fb, s, strides[1], m);
    convert_elems(a->to, d_dense ? d : (char *)out, a->from, s_dense ? s : (char *)in, m);
    if (!d_dense)
      copy_elems(a->to_bytes, d, strides[0], (char *)out, tb, m);
  }
}

/* -- Transposes -------------------------------------------------------------------------------- */

/* A copy where dst is dense along dim 0 and src along another: tiles that fit into L1 on both
 * sides. */
typedef struct transpose {
  const tensor_iter *it;
  size_t item;
  int across; /* the dimension along which src is dense */
  int64_t n_tiles0, n_tiles1;
} transpose;

/* Copy a whole tile through the stack: rows a power of two apart share few sets of the cache, and
 * stay cached only while one side is read or written. */
#define TILE_COPY(type)                                                        \
  if (n0 == TILE && n1 == TILE) {                                              \
    type tile[TILE][TILE];                                                     \
    for (int i = 0; i < TILE; i++)                                             \
      memcpy(tile[i], s + i * s0, sizeof tile[i]);                             \
    for (int j = 0; j < TILE; j++)                                             \
      for (int i = 0; i < TILE; i++)                                           \
        ((type *)(d + j * d1))[i] = tile[i][j];                                \
    break;                                                                     \
  }                                                                            \
  for (int64_t i = 0; i < n0; i++)                                             \
    for (int64_t j = 0; j < n1; j++)                                           \
      *(type *)(d + i * (int64_t)sizeof(type) + j * d1) =                      \
        *(const type *)(s + i * s0 + j * (int64_t)sizeof(type));

static void copy_tile(size_t item, char *d, int64_t d1, const char *s, int64_t s0, int64_t n0,
                      int64_t n1)
{
  BY_ITEM(item, TILE_COPY)
}

/* Copy tiles [begin, end): tile numbers count along dim 0 first, then `across`, then the other
 * dimensions. */
static void transpose_tiles(void *p, int64_t begin, int64_t end)
{
  const transpose *t = p;
  const tensor_iter *it = t->it;
  const int64_t *ds = iter_strides(it, 0), *ss = iter_strides(it, 1);
  for (int64_t k = begin; k < end; k++) {
    int64_t i = k % t->n_tiles0 * TILE, rest = k / t->n_tiles0;
    int64_t j = rest % t->n_tiles1 * TILE;
    rest /= t->n_tiles1;
    char *d = it->data[0] + i * ds[0] + j * ds[t->across];
    const char *s = it->data[1] + i * ss[0] + j * ss[t->across];
    for (int dim = 1; dim < it->n_dims; dim++) {
      if (dim == t->across)
        continue;
      int64_t c = rest % it->sizes[dim];
      rest /= it->sizes[dim];
      d += c * ds[dim];
      s += c * ss[dim];
    }
    copy_tile(t->item, d, ds[t->across], s, ss[0],
              i64_min(TILE, it->sizes[0] - i), i64_min(TILE, it->sizes[t->across] - j));
  }
}

static int find_across(const tensor_iter *it, size_t item)
{
  const int64_t *ds = iter_strides(it, 0), *ss = iter_strides(it, 1);
  if (ds[0] != (int64_t)item || ss[0] == (int64_t)item || ss[0] == 0 || it->sizes[0] < 4)
    return 0;
  for (int d = 1; d < it->n_dims; d++)
    if (ss[d] == (int64_t)item && it->sizes[d] >= 4)
      return d;
  return 0;
}

static rush_status run_same(call_ctx *cx, tensor_iter *it, copy_arg *a)
{
  int across = find_across(it, a->to_bytes);
  if (!across) {
    iter_widen(it);
    return iter_run(cx, it, GRAIN, loop_same, a);
  }
  transpose t = {it, a->to_bytes, across, (it->sizes[0] + TILE - 1) / TILE,
                 (it->sizes[across] + TILE - 1) / TILE};
  int64_t n = t.n_tiles0 * t.n_tiles1;
  for (int d = 1; d < it->n_dims; d++)
    if (d != across)
      n *= it->sizes[d];
  return parallel_for(cx, n, GRAIN / (TILE * TILE), transpose_tiles, &t);
}

/* -- Public ------------------------------------------------------------------------------------ */

static rush_status copy_disjoint(call_ctx *cx, rush_tensor *dst, const rush_tensor *src)
{
  copy_arg a = {dst->dtype, src->dtype, tensor_item_bytes(dst), tensor_item_bytes(src)};
  if (a.to == a.from && tensor_is_contiguous(dst) && tensor_is_contiguous(src) &&
      dst->n_elems == src->n_elems && dst->n_elems < GRAIN) {
    memcpy(dst->data, src->data, (size_t)dst->n_elems * a.to_bytes);
    return RUSH_OK;
  }
  tensor_iter it;
  iter_init(&it, dst->n_dims, dst->sizes);
  iter_add(&it, dst);
  iter_add(&it, src);
  iter_finish(&it);
  return a.to == a.from ? run_same(cx, &it, &a) : iter_run(cx, &it, GRAIN, loop_convert, &a);
}

static bool expandable(const rush_tensor *src, const rush_tensor *dst)
{
  for (int i = 1; i <= src->n_dims; i++) {
    int64_t n = src->sizes[src->n_dims - i];
    if (i > dst->n_dims ? n != 1 : n != 1 && n != dst->sizes[dst->n_dims - i])
      return false;
  }
  return true;
}

/* Drop leading dimensions of size 1 that dst does not have. */
static rush_status drop_leading(call_ctx *cx, const rush_tensor *src, int n_dims, rush_tensor **out)
{
  int drop = src->n_dims - n_dims;
  return tensor_as_strided(cx, src, n_dims, src->sizes + drop, src->strides + drop, src->offset,
                           out);
}

/* Fail because src does not fit: the shapes do not broadcast, or not to dst's. */
static rush_status refuse_sizes(call_ctx *cx, const rush_tensor *dst, const rush_tensor *src)
{
  for (int i = 1; i <= dst->n_dims && i <= src->n_dims; i++) {
    int64_t a = dst->sizes[dst->n_dims - i], b = src->sizes[src->n_dims - i];
    if (a != b && a != 1 && b != 1)
      return call_fail(cx, "The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                           "non-singleton dimension %d", (long long)a, (long long)b,
                       (dst->n_dims > src->n_dims ? dst->n_dims : src->n_dims) - i);
  }
  int64_t sizes[TENSOR_MAX_DIMS];
  int n = 0;
  (void)sizes_broadcast(dst->n_dims, dst->sizes, src->n_dims, src->sizes, &n, sizes);
  sizes_text a, b;
  return call_fail(cx, "output with shape %s doesn't match the broadcast shape %s",
                   sizes_print(&a, dst->n_dims, dst->sizes), sizes_print(&b, n, sizes));
}

/* Copy a sparse tensor to one of the same layout, as a whole. */
static rush_status copy_sparse(call_ctx *cx, rush_tensor *dst, const rush_tensor *src)
{
  if (!tensor_sparse(src) || !tensor_sparse(dst))
    return call_fail(cx, "copy_() between dense and sparse Tensors is not implemented!");
  return sparse_assign(cx, dst, src);
}

rush_status tensor_copy(call_ctx *cx, rush_tensor *dst, const rush_tensor *src)
{
  if (tensor_sparse(src) || tensor_sparse(dst))
    return copy_sparse(cx, dst, src);
  if (!expandable(src, dst))
    return refuse_sizes(cx, dst, src);
  if (dst->n_elems == 0)
    return RUSH_OK;
  bool same_place =
    dst->data == src->data && dst->dtype == src->dtype && tensor_same_geometry(dst, src);
  if (same_place)
    return RUSH_OK;
  (void)tensor_data_mut(dst);
  if (src->n_dims > dst->n_dims) {
    rush_tensor *v;
    TRY(drop_leading(cx, src, dst->n_dims, &v));
    rush_status s = tensor_copy(cx, dst, v);
    tensor_release(v);
    return s;
  }
  if (!tensor_overlaps(dst, src))
    return copy_disjoint(cx, dst, src);
  rush_tensor *copy;
  TRY(tensor_new_like(cx, src, DTYPE_NONE, &copy));
  rush_status s = copy_disjoint(cx, copy, src);
  if (s == RUSH_OK)
    s = copy_disjoint(cx, dst, copy);
  tensor_release(copy);
  return s;
}

/* -- Elements ---------------------------------------------------------------------------------- */

/* Store a number at p; complex to real drops the imaginary part. */
static void store(int dtype, void *p, rush_value v)
{
  switch (v.tag) {
  case RUSH_TAG_BOOL: {
    uint8_t b = v.as.b;
    convert_elems(dtype, p, RUSH_BOOL, &b, 1);
    return;
  }
  case RUSH_TAG_INT:
    convert_elems(dtype, p, RUSH_INT64, &v.as.i, 1);
    return;
  case RUSH_TAG_FLOAT:
    convert_elems(dtype, p, RUSH_FLOAT64, &v.as.d, 1);
    return;
  case RUSH_TAG_COMPLEX: {
    double parts[2] = {value_complex(v)->re, value_complex(v)->im};
    convert_elems(dtype, p, RUSH_COMPLEX128, parts, 1);
    return;
  }
  }
  ASSERT(false, "a number");
}

static void *element_at(const rush_tensor *t, int64_t linear)
{
  int64_t at = linear;
  if (!tensor_is_contiguous(t)) {
    at = 0;
    for (int i = t->n_dims - 1; i >= 0; i--) {
      at += linear % t->sizes[i] * t->strides[i];
      linear /= t->sizes[i];
    }
  }
  return (char *)t->data + at * (int64_t)tensor_item_bytes(t);
}

rush_status tensor_get(call_ctx *cx, const rush_tensor *t, int64_t linear, rush_value *out)
{
  const void *p = element_at(t, linear);
  int64_t i = 0;
  double d[2] = {0, 0};
  switch (dtype_class_of(t->dtype)) {
  case DTYPE_BOOL:
    *out = value_bool(*(const uint8_t *)p != 0);
    return RUSH_OK;
  case DTYPE_INT:
    convert_elems(RUSH_INT64, &i, t->dtype, p, 1);
    *out = value_int(i);
    return RUSH_OK;
  case DTYPE_FLOAT:
    convert_elems(RUSH_FLOAT64, d, t->dtype, p, 1);
    *out = value_float(d[0]);
    return RUSH_OK;
  case DTYPE_COMPLEX:
    convert_elems(RUSH_COMPLEX128, d, t->dtype, p, 1);
    return complex_new(cx, d[0], d[1], out);
  case DTYPE_QUANT:
    break;
  }
  const quantizer *q = tensor_quantizer(t);
  convert_elems(RUSH_INT64, &i, t->dtype, p, 1);
  if (!q) {
    *out = value_int(i);
    return RUSH_OK;
  }
  double scale = q->scale, zero = (double)q->zero_point;
  if (q->per_channel) {
    int64_t inner = 1;
    for (int k = q->axis + 1; k < t->n_dims; k++)
      inner *= t->sizes[k];
    int64_t channel = linear / inner % t->sizes[q->axis];
    convert_elems(RUSH_FLOAT64, &scale, q->scales->dtype, element_at(q->scales, channel), 1);
    convert_elems(RUSH_FLOAT64, &zero, q->zero_points->dtype, element_at(q->zero_points, channel),
                  1);
  }
  *out = value_float((double)(float)(((double)i - zero) * scale));
  return RUSH_OK;
}

void tensor_set(rush_tensor *t, int64_t linear, rush_value number)
{
  store(t->dtype, element_at(t, linear), number);
}

rush_status tensor_item(call_ctx *cx, const rush_tensor *t, rush_value *out)
{
  if (tensor_sparse(t))
    return sparse_refuse(cx, t, "item");
  if (t->n_elems != 1)
    return call_fail(cx, "a Tensor with %lld elements cannot be converted to Scalar",
                     (long long)t->n_elems);
  return tensor_get(cx, t, 0, out);
}

/* -- Filling ----------------------------------------------------------------------------------- */

typedef struct fill_arg {
  size_t item;
  bool zero;
  bytes16 pattern;
} fill_arg;

#define FILL(type)                                        \
  {                                                       \
    type v;                                               \
    memcpy(&v, &a->pattern, sizeof v);                    \
    if (ds == (int64_t)sizeof v)                          \
      for (int64_t i = 0; i < n; i++)                     \
        ((type *)d)[i] = v;                               \
    else                                                  \
      for (int64_t i = 0; i < n; i++, d += ds)            \
        *(type *)d = v;                                   \
    return;                                               \
  }

static void loop_fill(void *p, int64_t n, char *const *ptrs, const int64_t *strides)
{
  enum { HEAD = 2048 }; /* bytes; memcpy has the machine's widest stores */
  const fill_arg *a = p;
  char *d = ptrs[0];
  int64_t ds = strides[0];
  if (!a->zero && ds == (int64_t)a->item && n * ds >= 2 * HEAD) {
    const int64_t all = n * ds;
    loop_fill(p, HEAD / ds, ptrs, strides);
    for (int64_t at = HEAD; at < all; at += HEAD)
      memcpy(d + at, d, (size_t)i64_min(HEAD, all - at));
    return;
  }
  if (a->zero && ds == (int64_t)a->item) {
    memset(d, 0, (size_t)n * a->item);
    return;
  }
  BY_ITEM(a->item, FILL)
}

rush_status tensor_fill(call_ctx *cx, rush_tensor *t, rush_value number)
{
  if (tensor_sparse(t))
    return sparse_refuse(cx, t, "fill_");
  if (t->n_elems == 0)
    return RUSH_OK;
  fill_arg a = {tensor_item_bytes(t), false, {0, 0}};
  store(t->dtype, &a.pattern, number);
  a.zero = a.pattern.a == 0 && a.pattern.b == 0;
  (void)tensor_data_mut(t);
  if (tensor_is_contiguous(t) && t->n_elems < GRAIN) {
    char *p = t->data;
    int64_t stride = (int64_t)a.item;
    loop_fill(&a, t->n_elems, &p, &stride);
    return RUSH_OK;
  }
  tensor_iter it;
  iter_init(&it, t->n_dims, t->sizes);
  iter_add(&it, t);
  iter_finish(&it);
  return iter_run(cx, &it, GRAIN, loop_fill, &a);
}
