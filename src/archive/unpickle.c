/* archive/unpickle.c -- converts the nodes of a pickle to values (unpickle.h).
 *
 * The pickle machine (formats/pickle.h) has built a graph of plain nodes; here each becomes a
 * value once, so that sharing is kept.  The names that may be called are a closed list:
 * constructors of tensors, storages and containers of torch, and classes of the program.  Types
 * of containers without a tag are inferred, and decided when a typed position receives them.
 * Nothing in the file is trusted: sizes, strides and offsets are checked against the storage
 * before a tensor is made. */
#include "archive/unpickle.h"
#include "archive/storages.h"

#include "ir/program.h"
#include "ops/kernels/quantized/quantized.h"
#include "run/code.h"
#include "tensor/sparse.h"

static rush_value node_value(unpickler *u, const pickle_node *n);

/* -- Storages ---------------------------------------------------------------------------------- */

/* True for "FloatStorage", which is "Float" and "Storage"; UntypedStorage is bytes. */
static bool is_storage_name(str name, const char *dtype)
{
  size_t n = strlen(dtype);

  return name.len == n + 7 && memcmp(name.p, dtype, n) == 0 &&
         memcmp(name.p + n, "Storage", 7) == 0;
}

static int storage_dtype(unpickler *u, const pickle_node *n)
{
  if (n->kind == PICKLE_GLOBAL && (str_is(n->as.global.module, "torch") ||
                                   str_is(n->as.global.module, "torch.storage")))
    for (int d = 0; d < N_DTYPES; d++)
      if (dtype_is_valid(d) && is_storage_name(n->as.global.name, dtype_aten_name(d)))
        return d;
  if (n->kind == PICKLE_GLOBAL && is_storage_name(n->as.global.name, "Untyped"))
    return RUSH_UINT8;
  pickle_fail(u->s, u->p, n, "expected a storage class of torch, found %s",
              pickle_kind_name((pickle_kind)n->kind));
}

/* Return the bytes to reverse of each item; 0: none. */
static size_t swapped_bytes(const unpickler *u, int dtype)
{
  return u->big_endian ? dtype_bytes(dtype_to_real(dtype)) : 0;
}

void unpickler_copy_items(const unpickler *u, void *to, const void *from, size_t n_bytes, int dtype)
{
  copy_items(to, from, n_bytes, swapped_bytes(u, dtype));
}

storage *unpickler_storage(unpickler *u, str key, int dtype)
{
  storage *st = table_get(&u->storages, key);

  if (st || !u->zip)
    return st;
  const zip_entry *e =
    zip_need(u->s, u->zip, session_printf(u->s, "%s%.*s", u->folder, (int)key.len, key.p));
  mapping *owner = NULL;
  str bytes = zip_read(u->s, u->zip, e, &owner);
  st = storage_of_bytes(u->s, bytes, owner, DTYPE_MOST_ALIGNED, swapped_bytes(u, dtype));
  session_table_put(u->s, &u->storages, key, st);
  return st;
}

static storage *meta_storage(unpickler *u, str key, size_t n_bytes)
{
  storage *st = table_get(&u->storages, key);

  if (st)
    return st;
  session_check(u->s, storage_new_meta(u->s->cx, n_bytes, &st));
  session_defer(u->s, storage_unref, st);
  session_table_put(u->s, &u->storages, key, st);
  return st;
}

static storage *late_storage_of(unpickler *u, const pickle_node *n, str key, int dtype,
                                size_t n_bytes)
{
  late_storage *l = table_get(u->late, key);

  if (l)
    return l->st;
  if (n_bytes > u->late_bytes)
    pickle_fail(u->s, u->p, n, "storages are larger than the file");
  u->late_bytes -= n_bytes;
  l = session_new(u->s, late_storage);
  *l = (late_storage){.dtype = dtype};
  session_check(u->s, storage_new(u->s->cx, n_bytes, &l->st));
  session_defer(u->s, storage_unref, l->st);
  if (n_bytes)
    memset(l->st->data, 0, n_bytes);
  session_table_put(u->s, u->late, key, l);
  return l->st;
}

/* Load ('storage', torch.FloatStorage, '0', 'cpu', count[, view]); borrowed from the unpickler. */
static storage *load_storage(unpickler *u, const pickle_node *n, int *dtype)
{
  if (n->kind != PICKLE_PERSID)
    pickle_fail(u->s, u->p, n, "expected a storage, found %s",
                pickle_kind_name((pickle_kind)n->kind));
  const pickle_seq *t = pickle_need_tuple(u->s, u->p, n->as.persid, "storage");
  if (t->n < 5 || !str_is(pickle_need_str(u->s, u->p, t->at[0], "storage tag"), "storage"))
    pickle_fail(u->s, u->p, n, "expected ('storage', class, key, device, count)");
  *dtype = storage_dtype(u, t->at[1]);
  str key = pickle_need_str(u->s, u->p, t->at[2], "storage key");
  int64_t count = pickle_need_int(u->s, u->p, t->at[4], "storage size");
  size_t wanted;
  if (count < 0 || !size_mul((size_t)count, dtype_bytes(*dtype), &wanted))
    pickle_fail(u->s, u->p, n, "storage '%.*s' has %lld elements", (int)key.len, key.p,
                (long long)count);
  if (u->late && t->n > 5 && t->at[5]->kind != PICKLE_NONE)
    pickle_fail(u->s, u->p, n, "storage '%.*s' is a view of another, as PyTorch before 0.4 wrote",
                (int)key.len, key.p);
  bool meta = u->meta || (t->at[3]->kind == PICKLE_STR &&
                          str_is(pickle_need_str(u->s, u->p, t->at[3], "device"), "meta"));
  storage *st = meta      ? meta_storage(u, key, wanted)
                : u->late ? late_storage_of(u, n, key, *dtype, wanted)
                          : unpickler_storage(u, key, *dtype);
  if (!st)
    pickle_fail(u->s, u->p, n, "there is no storage '%.*s'", (int)key.len, key.p);
  if (st->n_bytes < wanted)
    pickle_fail(u->s, u->p, n, "storage '%.*s' is %zu bytes, but %lld of %s take %zu", (int)key.len,
                key.p, st->n_bytes, (long long)count, dtype_name(*dtype), wanted);
  return st;
}

/* -- Tensors ----------------------------------------------------------------------------------- */

static int read_ints(unpickler *u, const pickle_node *n, const char *what, int64_t *out)
{
  const pickle_seq *t;

  if (n->kind == PICKLE_REDUCE && pickle_is_call(n, "torch", "Size")) /* torch.Size((2, 3)) */
    n = pickle_need_tuple(u->s, u->p, n->as.object->args, what)->at[0];
  t = n->kind == PICKLE_LIST ? pickle_need_list(u->s, u->p, n, what)
                             : pickle_need_tuple(u->s, u->p, n, what);
  if (t->n > TENSOR_MAX_DIMS)
    pickle_fail(u->s, u->p, n, "%u dimensions; at most %d are known", t->n, TENSOR_MAX_DIMS);
  for (uint32_t i = 0; i < t->n; i++) {
    out[i] = pickle_need_int(u->s, u->p, t->at[i], what);
    if (out[i] < 0)
      pickle_fail(u->s, u->p, n, "%s %lld of dimension %u is negative", what, (long long)out[i], i);
  }
  return (int)t->n;
}

static void set_quantizer(unpickler *u, rush_tensor *t, const pickle_node *n)
{
  const pickle_seq *q = pickle_need_tuple(u->s, u->p, n, "quantizer");
  quantizer made = {0};

  if (q->n < 3)
    pickle_fail(u->s, u->p, n, "a quantizer of %u fields", q->n);
  if (pickle_is_global(q->at[0], "torch", "per_tensor_affine")) {
    made.scale = q->at[1]->kind == PICKLE_FLOAT
                   ? q->at[1]->as.d
                   : (double)pickle_need_int(u->s, u->p, q->at[1], "scale");
    made.zero_point = pickle_need_int(u->s, u->p, q->at[2], "zero point");
  } else if ((pickle_is_global(q->at[0], "torch", "per_channel_affine") ||
              pickle_is_global(q->at[0], "torch", "per_channel_affine_float_qparams")) &&
             q->n >= 4) {
    rush_value scales = node_value(u, q->at[1]), zeros = node_value(u, q->at[2]);
    if (scales.tag != RUSH_TAG_TENSOR || zeros.tag != RUSH_TAG_TENSOR)
      pickle_fail(u->s, u->p, n, "a per-channel quantizer without tensors");
    int64_t axis = pickle_need_int(u->s, u->p, q->at[3], "axis");
    if (axis < 0 || axis >= t->n_dims || scales.as.tensor->n_dims != 1 ||
        zeros.as.tensor->n_dims != 1 || scales.as.tensor->sizes[0] != t->sizes[axis] ||
        zeros.as.tensor->sizes[0] != t->sizes[axis] || !dtype_is_float(scales.as.tensor->dtype) ||
        dtype_is_complex(zeros.as.tensor->dtype))
      pickle_fail(u->s, u->p, n,
                  "a per-channel quantizer whose scales and zero points do not fit axis %lld",
                  (long long)axis);
    made.per_channel = true;
    made.axis = (int32_t)axis;
    made.scales = scales.as.tensor;
    made.zero_points = zeros.as.tensor;
  } else {
    pickle_fail(u->s, u->p, n,
                "a quantizer that is neither per_tensor_affine nor per_channel_affine");
  }
  session_check(u->s, tensor_set_quantizer(u->s->cx, t, &made));
}

/* Return the dtype: dtypes without a storage class (uint16, float8 ...) are in untyped storages,
 * and the seventh field names them. */
static int read_dtype(unpickler *u, const pickle_node *n, const pickle_seq *a)
{
  const pickle_node *d = a->n > 6 ? a->at[6] : n;

  if (d->kind == PICKLE_GLOBAL && str_is(d->as.global.module, "torch"))
    for (int i = 0; i < N_DTYPES; i++)
      if (dtype_is_valid(i) && str_is(d->as.global.name, dtype_name(i)))
        return i;
  pickle_fail(u->s, u->p, d, "expected a dtype that is known");
}

/* Return the result of an operator with one tensor argument. */
static rush_value applied(unpickler *u, const char *name, rush_value v)
{
  rush_value out;

  session_check(u->s, op_invoke_name(u->s->cx, name, "", &v, 1, &out));
  session_defer_value(u->s, out);
  return out;
}

/* Apply {"conj": True, "neg": True}: PyTorch conjugates and negates lazily, and a file contains
 * what is in memory. */
static rush_value apply_metadata(unpickler *u, const pickle_node *metadata, rush_value v)
{
  const pickle_node *conj = pickle_get(metadata, "conj"), *neg = pickle_get(metadata, "neg");
  const uint32_t flags = v.as.tensor->h.flags & TENSOR_REQUIRES_GRAD;
  bool marked = (conj && conj->kind == PICKLE_BOOL && conj->as.b) ||
                (neg && neg->kind == PICKLE_BOOL && neg->as.b);

  if (marked && u->late) /* its bytes are not read yet */
    session_fail_status(
      u->s, RUSH_EUNSUPPORTED, NULL, NULL,
      "a lazily conjugated or negated tensor in a file of torch.save's old format: save it after "
      "resolve_conj() and resolve_neg()");
  if (conj && conj->kind == PICKLE_BOOL && conj->as.b && dtype_is_complex(v.as.tensor->dtype))
    v = applied(u, "aten::conj_physical", v);
  if (neg && neg->kind == PICKLE_BOOL && neg->as.b)
    v = applied(u, "aten::neg", v);
  v.as.tensor->h.flags |= flags;
  return v;
}

/* Read _rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks), _rebuild_tensor
 * (four of them), _rebuild_qtensor (with a quantizer before requires_grad). */
static rush_value rebuild_tensor(unpickler *u, const pickle_node *n, bool quantized)
{
  const pickle_seq *a = pickle_need_tuple(u->s, u->p, n->as.object->args, "tensor");
  int64_t sizes[TENSOR_MAX_DIMS], strides[TENSOR_MAX_DIMS];
  rush_tensor *t;
  int dtype;

  if (a->n < (quantized ? 6u : 4u))
    pickle_fail(u->s, u->p, n, "a tensor of %u fields", a->n);
  storage *st = load_storage(u, a->at[0], &dtype);
  const bool v3 = pickle_is_global(n->as.object->callable, "torch._utils", "_rebuild_tensor_v3");
  if (v3)
    dtype = read_dtype(u, n, a);
  int64_t offset = pickle_need_int(u->s, u->p, a->at[1], "storage offset");
  int n_dims = read_ints(u, a->at[2], "size", sizes);
  if (read_ints(u, a->at[3], "stride", strides) != n_dims)
    pickle_fail(u->s, u->p, n, "sizes and strides differ in length");
  input_check(u->s, &u->p->in, (size_t)n->offset,
              tensor_new_view(u->s->cx, st, dtype, n_dims, sizes, strides, offset, &t));
  rush_value v = value_tensor_steal(t);
  session_defer_value(u->s, v);
  if (quantized)
    set_quantizer(u, t, a->at[4]);
  uint32_t grad = quantized ? 5 : 4;
  if (a->n > grad && a->at[grad]->kind == PICKLE_BOOL && a->at[grad]->as.b)
    t->h.flags |= TENSOR_REQUIRES_GRAD;
  const uint32_t metadata = v3 ? 7 : 6;
  if (!quantized && a->n > metadata && a->at[metadata]->kind == PICKLE_DICT)
    v = apply_metadata(u, a->at[metadata], v);
  return v;
}

/* Read a layout: its number in archives of programs,
 * torch.serialization._get_layout('torch.sparse_coo') in torch.save's files. */
static int read_layout(unpickler *u, const pickle_node *n)
{
  static const char *const names[] = {"torch.strided", "torch.sparse_coo", "torch.sparse_csr"};

  if (n->kind == PICKLE_INT && (n->as.i == LAYOUT_COO || n->as.i == LAYOUT_CSR))
    return (int)n->as.i;
  if (n->kind == PICKLE_REDUCE && pickle_is_call(n, "torch.serialization", "_get_layout")) {
    const pickle_seq *a = pickle_need_tuple(u->s, u->p, n->as.object->args, "layout");
    for (int i = LAYOUT_COO; i <= LAYOUT_CSR && a->n == 1; i++)
      if (str_is(pickle_need_str(u->s, u->p, a->at[0], "layout"), names[i]))
        return i;
  }
  session_fail_status(u->s, RUSH_EUNSUPPORTED, NULL, NULL,
                      "a sparse tensor of a layout other than torch.sparse_coo and "
                      "torch.sparse_csr: convert it before it is saved");
}

static rush_tensor *tensor_part(unpickler *u, const pickle_node *n, const char *what)
{
  rush_value v = node_value(u, n);

  if (v.tag != RUSH_TAG_TENSOR || !v.as.tensor)
    pickle_fail(u->s, u->p, n, "the %s of a sparse tensor are no tensor", what);
  return v.as.tensor;
}

/* Make a sparse tensor without data, which has no elements either: only sizes, dtype and layout. */
static rush_status without_data(unpickler *u, sparse_parts *p, int n_dims, const int64_t *sizes,
                                rush_tensor **out)
{
  int64_t none[TENSOR_MAX_DIMS + 1] = {0};
  call_ctx *cx = u->s->cx;
  rush_tensor *indices, *values, *crow = NULL;
  const int sparse_dim = p->layout == LAYOUT_COO && p->indices->n_dims == 2
                           ? (int)i64_min(p->indices->sizes[0], n_dims)
                           : 2;
  if (n_dims < sparse_dim)
    return call_fail(cx, "a sparse tensor of %d dimensions and %d sparse ones", n_dims, sparse_dim);
  memcpy(none + 1, sizes + sparse_dim, (size_t)(n_dims - sparse_dim) * sizeof *none);
  TRY(tensor_new(cx, p->values->dtype, 1 + n_dims - sparse_dim, none, &values));
  session_defer_value(u->s, value_tensor_steal(values));
  TRY(tensor_new(cx, RUSH_INT64, p->crow ? 1 : 2,
                 p->crow ? (int64_t[]){0} : (int64_t[]){sparse_dim, 0}, &indices));
  session_defer_value(u->s, value_tensor_steal(indices));
  if (p->crow) {
    TRY(tensor_new(cx, RUSH_INT64, 1, (int64_t[]){sizes[0] + 1}, &crow));
    session_defer_value(u->s, value_tensor_steal(crow));
    TRY(tensor_fill(cx, crow, value_int(0)));
  }
  *p = (sparse_parts){.layout = p->layout, .crow = crow, .indices = indices, .values = values};
  return sparse_new_checked(cx, p, n_dims, sizes, out);
}

/* Read _rebuild_sparse_tensor; in archives of programs: (layout, sizes, requires_grad, indices,
 * values, hooks); in files of torch.save: (layout, (indices, values, sizes[, is_coalesced])).
 * Compressed rows have two tensors of indices. */
static rush_value rebuild_sparse(unpickler *u, const pickle_node *n)
{
  const pickle_seq *a = pickle_need_tuple(u->s, u->p, n->as.object->args, "sparse tensor");
  const bool saved = a->n == 2;
  int64_t sizes[TENSOR_MAX_DIMS];
  rush_tensor *t;

  if (a->n < 2)
    pickle_fail(u->s, u->p, n, "a sparse tensor of %u fields", a->n);
  sparse_parts p = {.layout = (uint8_t)read_layout(u, a->at[0])};
  const uint32_t n_parts = p.layout == LAYOUT_CSR ? 3 : 2;
  const pickle_seq *d = saved ? pickle_need_tuple(u->s, u->p, a->at[1], "sparse tensor") : a;
  uint32_t at = saved ? 0 : 3;
  if (d->n < at + n_parts + 1)
    pickle_fail(u->s, u->p, n, "a sparse tensor of %u fields", d->n);
  if (u->late)
    session_fail_status(u->s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "a sparse tensor in a file of torch.save's old format: save it anew");
  if (p.layout == LAYOUT_CSR)
    p.crow = tensor_part(u, d->at[at++], "crow_indices");
  p.indices = tensor_part(u, d->at[at++], "indices");
  p.values = tensor_part(u, d->at[at++], "values");
  const int n_dims = read_ints(u, saved ? d->at[at++] : a->at[1], "size", sizes);
  p.is_coalesced = saved && d->n > at && d->at[at]->kind == PICKLE_BOOL && d->at[at]->as.b;
  input_check(u->s, &u->p->in, (size_t)n->offset,
              u->meta ? without_data(u, &p, n_dims, sizes, &t)
                      : sparse_new_checked(u->s->cx, &p, n_dims, sizes, &t));
  session_defer_value(u->s, value_tensor_steal(t));
  if (!saved && a->at[2]->kind == PICKLE_BOOL && a->at[2]->as.b)
    t->h.flags |= TENSOR_REQUIRES_GRAD;
  return value_tensor_steal(t);
}

/* Read torch.nn.Parameter: (data, requires_grad, hooks). */
static rush_value rebuild_parameter(unpickler *u, const pickle_node *n)
{
  const pickle_seq *a = pickle_need_tuple(u->s, u->p, n->as.object->args, "parameter");
  rush_value v = a->n ? node_value(u, a->at[0]) : value_none();

  if (v.tag != RUSH_TAG_TENSOR)
    pickle_fail(u->s, u->p, n, "a parameter without a tensor");
  if (a->n > 1 && a->at[1]->kind == PICKLE_BOOL && a->at[1]->as.b)
    v.as.tensor->h.flags |= TENSOR_REQUIRES_GRAD;
  v.as.tensor->h.flags |= TENSOR_IS_PARAMETER;
  return v;
}

static const char *type_in_words(session *s, const type *t)
{
  text_buf b;

  text_init(&b, s->cx->ctx);
  type_print_annotation(&b, t);
  return session_take_text(s, &b);
}

/* -- Containers -------------------------------------------------------------------------------- */

static void set_list_type(rush_list *l, const type *elem)
{
  type_retain(elem);
  type_release(l->elem);
  l->elem = elem;
}

static void set_dict_type(rush_dict *d, const type *key, const type *value)
{
  type_retain(key);
  type_retain(value);
  type_release(d->key);
  type_release(d->value);
  d->key = key;
  d->value = value;
}

static void set_undecided(heap *h, bool undecided)
{
  h->flags = (uint8_t)(undecided ? h->flags | VALUE_UNDECIDED : h->flags & ~VALUE_UNDECIDED);
}

/* Infer the type of plain data, which no class declares, from the items. */
static const type *inferred_type(unpickler *u, const rush_value *items, size_t n,
                                 type_kind otherwise, bool *undecided)
{
  return session_type(u->s, type_of_items(u->types, items, n, otherwise, undecided));
}

/* Make a list; `elem` NULL: the pickle does not specify it. */
static rush_value make_list(unpickler *u, const pickle_seq *seq, const type *elem)
{
  rush_list *l;

  session_check(u->s, list_new(u->s->cx, elem ? elem : type_simple(TYPE_ANY), seq->n, &l));
  rush_value v = value_heap_steal(RUSH_TAG_LIST, l);
  session_defer_value(u->s, v);
  for (uint32_t i = 0; i < seq->n; i++) {
    rush_value item = node_value(u, seq->at[i]);
    if (elem && !type_contains_value(elem, item))
      pickle_fail(u->s, u->p, seq->at[i], "item %u of a list: expected %s, found a %s", i,
                  type_in_words(u->s, elem), pickle_kind_name((pickle_kind)seq->at[i]->kind));
    session_check(u->s, list_append_steal(u->s->cx, l, value_retain(item)));
  }
  bool undecided = !elem;
  if (!elem && !u->find_class) {
    undecided = false;
    set_list_type(l, inferred_type(u, l->items, l->n, TYPE_TENSOR, &undecided));
  }
  set_undecided(&l->h, undecided);
  return v;
}

static rush_value make_tuple(unpickler *u, const pickle_seq *seq, const type *named)
{
  rush_tuple *t;

  session_check(u->s, tuple_new(u->s->cx, named, seq->n, &t));
  rush_value v = value_heap_steal(RUSH_TAG_TUPLE, t);
  session_defer_value(u->s, v);
  for (uint32_t i = 0; i < seq->n; i++)
    t->items[i] = value_retain(node_value(u, seq->at[i]));
  for (uint32_t i = 0; i < seq->n; i++)
    if (u->find_class || value_is_undecided(t->items[i]))
      set_undecided(&t->h, true);
  return v;
}

/* Infer the types of a plain dict, as inferred_type does, over all keys and values. */
static void infer_dict(unpickler *u, rush_dict *d)
{
  rush_value *kv = session_array(u->s, rush_value, 2 * d->n + 1);
  bool undecided = false;
  size_t pos = 0, n = 0;

  for (dict_entry *e; (e = dict_next(d, &pos)); n++) {
    kv[n] = e->key;
    kv[d->n + n] = e->value;
  }
  const type *key = inferred_type(u, kv, n, TYPE_STRING, &undecided);
  set_dict_type(d, key, inferred_type(u, kv + d->n, n, TYPE_TENSOR, &undecided));
  set_undecided(&d->h, undecided);
}

static rush_value make_dict(unpickler *u, const pickle_seq *pairs)
{
  rush_dict *d;

  session_check(u->s, dict_new(u->s->cx, type_simple(TYPE_ANY), type_simple(TYPE_ANY), &d));
  rush_value v = value_heap_steal(RUSH_TAG_DICT, d);
  session_defer_value(u->s, v);
  for (uint32_t i = 0; i + 1 < pairs->n; i += 2) {
    rush_value key = node_value(u, pairs->at[i]), value = node_value(u, pairs->at[i + 1]);
    if (key.tag == RUSH_TAG_LIST || key.tag == RUSH_TAG_DICT || key.tag == RUSH_TAG_NONE ||
        key.tag == RUSH_TAG_OBJECT || key.tag == RUSH_TAG_TUPLE)
      pickle_fail(u->s, u->p, pairs->at[i], "a dict key of kind %s",
                  pickle_kind_name((pickle_kind)pairs->at[i]->kind));
    session_check(u->s, dict_set_steal(u->s->cx, d, value_retain(key), value_retain(value)));
  }
  if (u->find_class)
    set_undecided(&d->h, true);
  else
    infer_dict(u, d);
  return v;
}

static bool type_fits_items(const type *t, const rush_tuple *v)
{
  for (size_t i = 0; i < v->n; i++)
    if (!type_contains_value(t->elems[i], v->items[i]))
      return false;
  return true;
}

/* -- Types of containers that have none in the file -------------------------------------------- */

/* A pickle of a list rarely specifies the element type.  The first typed position that holds a
 * container decides it, once: a later position of another element type then refuses the value
 * (type_contains_value). A decision is never undone, so code that already holds the value (a
 * __setstate__ method) can rely on it. */

static const type *elem_of(const type *t, uint32_t i)
{
  return t ? t->elems[i] : type_simple(TYPE_ANY);
}

static void decide_list(session *s, rush_list *l, const type *t)
{
  for (size_t i = 0; i < l->n; i++) {
    value_retype(s, l->items[i], elem_of(t, 0));
    if (!type_contains_value(elem_of(t, 0), l->items[i]))
      return; /* stays a list of Any, which fits no other type */
  }
  set_list_type(l, elem_of(t, 0));
}

static void decide_dict(session *s, rush_dict *d, const type *t)
{
  size_t pos = 0;

  for (dict_entry *e; (e = dict_next(d, &pos));) {
    value_retype(s, e->key, elem_of(t, 0));
    value_retype(s, e->value, elem_of(t, 1));
    if (!type_contains_value(elem_of(t, 0), e->key) ||
        !type_contains_value(elem_of(t, 1), e->value))
      return;
  }
  set_dict_type(d, elem_of(t, 0), elem_of(t, 1));
}

static void decide_tuple(session *s, rush_tuple *v, const type *t)
{
  if (t && t->n_elems != v->n)
    t = NULL;
  for (size_t i = 0; i < v->n; i++)
    value_retype(s, v->items[i], elem_of(t, (uint32_t)i));
}

void value_retype(session *s, rush_value v, const type *t)
{
  if (v.tag != RUSH_TAG_LIST && v.tag != RUSH_TAG_DICT && v.tag != RUSH_TAG_TUPLE)
    return;
  const bool undecided = value_is_undecided(v);
  t = type_container_in(t, v.tag == RUSH_TAG_LIST   ? TYPE_LIST
                           : v.tag == RUSH_TAG_DICT ? TYPE_DICT
                                                    : TYPE_TUPLE);
  session_enter(s);
  set_undecided(v.as.heap, false); /* first: what is shared is decided once */
  if (undecided && v.tag == RUSH_TAG_LIST)
    decide_list(s, v.as.list, t);
  else if (undecided && v.tag == RUSH_TAG_DICT)
    decide_dict(s, v.as.dict, t);
  else if (undecided)
    decide_tuple(s, v.as.tuple, t);
  if (t && t->fields && !v.as.tuple->type && v.as.tuple->n == t->n_elems &&
      type_fits_items(t, v.as.tuple)) {
    type_retain(t);
    v.as.tuple->type = t;
  }
  session_leave(s);
}

/* -- Script objects ---------------------------------------------------------------------------- */

static bool is_script_name(str module)
{
  return module.len >= 9 && memcmp(module.p, "__torch__", 9) == 0;
}

static str qualified_name(unpickler *u, const pickle_node *callable)
{
  str m = callable->as.global.module, n = callable->as.global.name;

  return str_of(session_printf(u->s, "%.*s.%.*s", (int)m.len, m.p, (int)n.len, n.p));
}

static rush_value make_custom(unpickler *u, const pickle_node *n, const custom_class *cls)
{
  rush_value v, state = n->as.object->state ? node_value(u, n->as.object->state) : value_none();
  void *self;

  session_check(u->s, cls->set_state(u->s->cx, state, &self));
  session_check(u->s, custom_value_new_steal(u->s->cx, cls, self, &v));
  session_defer_value(u->s, v);
  return v;
}

/* Set attributes from a dict, each converted to its declared type. */
static void set_attributes(unpickler *u, const pickle_node *n, rush_object *o)
{
  const pickle_seq *pairs = pickle_need_dict(u->s, u->p, n->as.object->state, "attributes");
  const class_info *cls = o->type->cls;

  for (uint32_t i = 0; i + 1 < pairs->n; i += 2) {
    str name = pickle_need_str(u->s, u->p, pairs->at[i], "attribute name");
    int slot = class_attr_index(o->type, name);
    if (slot < 0) /* the code does not declare it: PyTorch drops it too */
      continue;
    rush_value v = node_value(u, pairs->at[i + 1]); /* the session's: what follows may leave */
    const type *t = cls->attrs[slot].type;
    if (v.tag == RUSH_TAG_INT && t->kind == TYPE_FLOAT)
      v = value_float((double)v.as.i);
    value_retype(u->s, v, t);
    value_release(o->slots[slot]);
    o->slots[slot] = value_retain(v);
    if (!type_contains_value(t, v)) /* compiled code relies on declared types */
      pickle_fail(u->s, u->p, pairs->at[i + 1], "attribute '%.*s' of %s: expected %s, found a %s",
                  (int)name.len, name.p, o->type->name, type_in_words(u->s, t),
                  pickle_kind_name((pickle_kind)pairs->at[i + 1]->kind));
  }
}

static rush_value make_object(unpickler *u, const pickle_node *n)
{
  const pickle_node *callable = n->as.object->callable;
  str name = qualified_name(u, callable);
  const custom_class *custom = custom_class_known(name);
  rush_object *o;

  if (custom)
    return make_custom(u, n, custom);
  const type *t = u->find_class(u, name);
  if (t->kind != TYPE_CLASS)
    pickle_fail(u->s, u->p, n, "'%.*s' is no class", (int)name.len, name.p);
  if (!t->cls)
    session_fail_status(u->s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "custom class '%.*s' is not registered%s", (int)name.len, name.p,
                        custom_class_hint());
  session_check(u->s, object_new(u->s->cx, t, t->cls->n_attrs, &o));
  rush_value v = value_heap_steal(RUSH_TAG_OBJECT, o);
  session_defer_value(u->s, v);
  if (!n->as.object->state)
    return v;
  function *set_state = class_find_method(t, "__setstate__");
  if (set_state) {
    rush_value args[2] = {v, node_value(u, n->as.object->state)}, result;
    function_ensure(u->s, set_state);
    if (set_state->schema->n_args != 2)
      pickle_fail(u->s, u->p, n, "__setstate__ of '%.*s' takes %u arguments, not self and a state",
                  (int)name.len, name.p, set_state->schema->n_args);
    value_retype(u->s, args[1], set_state->schema->args[1].type);
    if (!type_contains_value(set_state->schema->args[1].type, args[1]))
      pickle_fail(u->s, u->p, n, "the state of '%.*s': expected %s", (int)name.len, name.p,
                  type_in_words(u->s, set_state->schema->args[1].type));
    session_check(u->s, function_call(u->s->cx, set_state, args, 2, &result));
    value_release(result);
  } else {
    set_attributes(u, n, o);
  }
  return v;
}

static rush_value make_named_tuple(unpickler *u, const pickle_node *n, const type *t)
{
  const pickle_seq *a = pickle_need_tuple(u->s, u->p, n->as.object->args, "NamedTuple");

  if (a->n != t->n_elems)
    pickle_fail(u->s, u->p, n, "%u fields; %s has %u", a->n, t->name, t->n_elems);
  rush_value v = make_tuple(u, a, NULL);
  value_retype(u->s, v, t);
  if (!v.as.tuple->type)
    pickle_fail(u->s, u->p, n, "a field of %s has another type", t->name);
  return v;
}

/* Call a script name: an enum with its value, a NamedTuple with its fields. */
static rush_value call_script_name(unpickler *u, const pickle_node *n)
{
  const pickle_node *args = n->as.object->args;
  str name = qualified_name(u, n->as.object->callable);
  const type *t = u->find_class(u, name);
  bool equal = false;

  if (t->kind == TYPE_TUPLE)
    return make_named_tuple(u, n, t);
  if (t->kind == TYPE_CLASS)
    return make_object(u, n);
  if (t->kind != TYPE_ENUM)
    pickle_fail(u->s, u->p, n, "'%.*s' cannot be called", (int)name.len, name.p);
  rush_value wanted = node_value(u, args);
  if (wanted.tag == RUSH_TAG_TUPLE && wanted.as.tuple->n == 1)
    wanted = wanted.as.tuple->items[0];
  for (uint32_t i = 0; i < t->cls->n_members; i++) {
    session_check(
      u->s, value_equal(u->s->cx, value_enum(t->cls->enum_members[i])->value, wanted, &equal));
    if (equal)
      return t->cls->enum_members[i];
  }
  pickle_fail(u->s, u->p, n, "enum '%.*s' has no member of that value", (int)name.len, name.p);
}

/* -- Calls ------------------------------------------------------------------------------------- */

static const pickle_node *only_argument(unpickler *u, const pickle_node *n)
{
  const pickle_seq *a = pickle_need_tuple(u->s, u->p, n->as.object->args, "arguments");

  if (a->n < 1)
    pickle_fail(u->s, u->p, n, "a call without arguments");
  return a->at[0];
}

static rush_value typed_list(unpickler *u, const pickle_node *n, type_kind elem)
{
  return make_list(u, pickle_need_list(u->s, u->p, only_argument(u, n), "list"), type_simple(elem));
}

static rush_value restore_type_tag(unpickler *u, const pickle_node *n)
{
  const pickle_seq *a = pickle_need_tuple(u->s, u->p, n->as.object->args, "restore_type_tag");

  if (a->n != 2 || !u->parse_type)
    pickle_fail(u->s, u->p, n, "restore_type_tag takes a value and a type");
  rush_value v = node_value(u, a->at[0]);
  const type *t = u->parse_type(u, pickle_need_str(u->s, u->p, a->at[1], "type"));
  value_retype(u->s, v, t);
  if (!type_contains_value(t, v))
    pickle_fail(u->s, u->p, n, "expected %s", type_in_words(u->s, t));
  return v;
}

/* True for the classes whose instances PyTorch 1.0 to 1.3 wrote with their content as state. */
static bool is_legacy_class(const pickle_node *c, const char *name)
{
  return pickle_is_global(c, "__main__", name) || pickle_is_global(c, "torch.jit._pickle", name);
}

static rush_value tensor_from_id(unpickler *u, const pickle_node *n)
{
  const pickle_node *id = n->as.object->state;

  if (!id)
    id = only_argument(u, n);
  int64_t i = pickle_need_int(u->s, u->p, id, "tensor index");
  if (i < 0 || i >= u->n_tensors)
    pickle_fail(u->s, u->p, n, "there is no tensor %lld", (long long)i);
  return u->tensors[i];
}

static rush_value call_node(unpickler *u, const pickle_node *n);

/* Read (function, class, arguments, state): a tensor with attributes of its own, which are
 * dropped. */
static rush_value rebuild_from_type(unpickler *u, const pickle_node *n)
{
  const pickle_seq *a = pickle_need_tuple(u->s, u->p, n->as.object->args, "tensor");

  if (a->n < 3 || a->at[0]->kind != PICKLE_GLOBAL ||
      !(pickle_is_global(a->at[1], "torch", "Tensor") ||
        pickle_is_global(a->at[1], "torch.nn.parameter", "Parameter")))
    pickle_fail(u->s, u->p, n, "a tensor of a class that is not torch.Tensor");
  pickle_node *call = session_new(u->s, pickle_node);
  *call = *n;
  call->as.object = session_new(u->s, pickle_object);
  call->as.object->callable = a->at[0];
  call->as.object->args = a->at[2];
  return call_node(u, call);
}

/* Convert an instance of an unknown class to data: its attributes that are not None (a dataclass),
 * its pairs (a defaultdict), its items (a deque), or its arguments (a named tuple). */
static rush_value take_instance(unpickler *u, const pickle_node *n)
{
  const pickle_object *o = n->as.object;
  pickle_seq set = {0};

  if (o->pairs.n)
    return make_dict(u, &o->pairs);
  if (o->items.n)
    return make_list(u, &o->items, NULL);
  if (!o->state)
    return make_tuple(u, pickle_need_tuple(u->s, u->p, o->args, "arguments"), NULL);
  const pickle_seq *all = pickle_need_dict(u->s, u->p, o->state, "attributes");
  set.at = session_alloc(u->s, (all->n + 1) * sizeof *set.at);
  for (uint32_t i = 0; i + 1 < all->n; i += 2)
    if (all->at[i + 1]->kind != PICKLE_NONE) {
      set.at[set.n++] = all->at[i];
      set.at[set.n++] = all->at[i + 1];
    }
  return make_dict(u, &set);
}

/* Convert a call.  As for node_value, the result belongs to the session, or to the program
 * (enums). */
static rush_value call_node(unpickler *u, const pickle_node *n)
{
  const pickle_node *c = n->as.object->callable;

  if (c->kind != PICKLE_GLOBAL)
    pickle_fail(u->s, u->p, n, "a call of something that is no name");
  if (u->find_class && is_script_name(c->as.global.module))
    return call_script_name(u, n);
  if (pickle_is_global(c, "torch._utils", "_rebuild_tensor_v2") ||
      pickle_is_global(c, "torch._utils", "_rebuild_tensor") ||
      pickle_is_global(c, "torch._utils", "_rebuild_tensor_v3"))
    return rebuild_tensor(u, n, false);
  if (pickle_is_global(c, "torch._tensor", "_rebuild_from_type_v2"))
    return rebuild_from_type(u, n);
  if (pickle_is_global(c, "torch._utils", "_rebuild_qtensor"))
    return rebuild_tensor(u, n, true);
  if (pickle_is_global(c, "torch._utils", "_rebuild_sparse_tensor") ||
      pickle_is_global(c, "torch._utils", "_rebuild_sparse_csr_tensor"))
    return rebuild_sparse(u, n);
  if (pickle_is_global(c, "torch._utils", "_rebuild_parameter") ||
      pickle_is_global(c, "torch._utils", "_rebuild_parameter_with_state"))
    return rebuild_parameter(u, n);
  if (pickle_is_global(c, "torch.jit._pickle", "build_intlist"))
    return typed_list(u, n, TYPE_INT);
  if (pickle_is_global(c, "torch.jit._pickle", "build_doublelist"))
    return typed_list(u, n, TYPE_FLOAT);
  if (pickle_is_global(c, "torch.jit._pickle", "build_boollist"))
    return typed_list(u, n, TYPE_BOOL);
  if (pickle_is_global(c, "torch.jit._pickle", "build_tensorlist"))
    return typed_list(u, n, TYPE_TENSOR);
  if (pickle_is_global(c, "torch.jit._pickle", "restore_type_tag"))
    return restore_type_tag(u, n);
  if (u->tensors && (pickle_is_global(c, "torch.jit._pickle", "build_tensor_from_id") ||
                     is_legacy_class(c, "TensorID")))
    return tensor_from_id(u, n);
  if (pickle_is_global(c, "collections", "OrderedDict"))
    return make_dict(u, &n->as.object->pairs);
  if (pickle_is_global(c, "torch", "Size"))
    return make_tuple(u, pickle_need_tuple(u->s, u->p, only_argument(u, n), "torch.Size"), NULL);
  if (pickle_is_global(c, "torch", "device"))
    return value_device(
      str_is(pickle_need_str(u->s, u->p, only_argument(u, n), "device"), "cpu") ? 0 : 1, -1);
  if (u->takes_instances)
    return take_instance(u, n);
  pickle_fail(u->s, u->p, n, "'%.*s.%.*s' is not among the names that a file may call",
              (int)c->as.global.module.len, c->as.global.module.p, (int)c->as.global.name.len,
              c->as.global.name.p);
}

/* Convert a name by itself: a dtype, or one of our classes used as a value. */
static rush_value global_value(unpickler *u, const pickle_node *n)
{
  if (str_is(n->as.global.module, "torch"))
    for (int d = 0; d < N_DTYPES; d++)
      if (dtype_is_valid(d) && str_is(n->as.global.name, dtype_name(d)))
        return value_int(d);
  pickle_fail(u->s, u->p, n, "'%.*s.%.*s' is not among the names that a file may use",
              (int)n->as.global.module.len, n->as.global.module.p, (int)n->as.global.name.len,
              n->as.global.name.p);
}

/* -- Any node ---------------------------------------------------------------------------------- */

static rush_value make_value(unpickler *u, const pickle_node *n)
{
  rush_value v;

  switch ((pickle_kind)n->kind) {
  case PICKLE_NONE:
    return value_none();
  case PICKLE_BOOL:
    return value_bool(n->as.b);
  case PICKLE_INT:
    return value_int(n->as.i);
  case PICKLE_LONG:
    pickle_fail(u->s, u->p, n, "an int beyond 64 bits");
  case PICKLE_FLOAT:
    return value_float(n->as.d);
  case PICKLE_COMPLEX:
    session_check(u->s, complex_new(u->s->cx, n->as.z.re, n->as.z.im, &v));
    break;
  case PICKLE_STR:
  case PICKLE_BYTES:
    session_check(u->s, string_new(u->s->cx, n->as.text.p, n->as.text.len, &v));
    break;
  case PICKLE_LIST:
    return make_list(u, &n->as.seq, NULL);
  case PICKLE_TUPLE:
    return make_tuple(u, &n->as.seq, NULL);
  case PICKLE_DICT:
    return make_dict(u, &n->as.seq);
  case PICKLE_GLOBAL:
    return global_value(u, n);
  case PICKLE_REDUCE:
    return call_node(u, n);
  case PICKLE_OBJECT:
    if (u->find_class && n->as.object->callable->kind == PICKLE_GLOBAL &&
        is_script_name(n->as.object->callable->as.global.module))
      return make_object(u, n);
    return call_node(u, n);
  case PICKLE_PERSID:
    pickle_fail(u->s, u->p, n, "a bare storage is no value");
  }
  session_defer_value(u->s, v);
  return v;
}

/* Convert a node; borrowed from the session.  Each node is converted once, so that sharing is
 * kept. */
static rush_value node_value(unpickler *u, const pickle_node *n)
{
  if (u->done[n->id].tag != RUSH_TAG_UNSET)
    return u->done[n->id];
  if (u->busy[n->id]) /* nothing would release it; PyTorch cannot write it either */
    pickle_fail(u->s, u->p, n, "a value that contains itself");
  session_enter(u->s);
  u->busy[n->id] = 1;
  u->done[n->id] = make_value(u, n);
  u->busy[n->id] = 0;
  session_leave(u->s);
  return u->done[n->id];
}

/* -- The unpickler ----------------------------------------------------------------------------- */

void unpickler_init(unpickler *u, session *s, const zip_archive *zip, const char *folder,
                    type_store *types)
{
  memset(u, 0, sizeof *u);
  u->s = s;
  u->zip = zip;
  u->folder = folder;
  u->types = types;
  session_table_init(s, &u->storages);
}

rush_value unpickle(unpickler *u, const pickle *p)
{
  u->p = p;
  u->done = session_array(u->s, rush_value, p->n_nodes + 1);
  u->busy = session_array(u->s, uint8_t, p->n_nodes + 1);
  for (uint32_t i = 0; i <= p->n_nodes; i++)
    u->done[i] = value_unset();
  return node_value(u, p->root);
}
