/* formats/safetensors.c -- reads the directory of a .safetensors file with the pull reader of
 * json.h and checks it: sizes against ranges, and ranges sorted by position, which must cover the
 * data exactly once. It uses heap sort because that needs no memory and has no bad case that a
 * hostile file could choose. Cost: O(header + n log n) for n tensors. */
#include "formats/safetensors.h"

#include <string.h>

#include "base/grow.h"
#include "formats/json.h"

/* The reference reader's limit: a header of 100 MB. */
#define MAX_HEADER_BYTES ((uint64_t)100 * 1000 * 1000)
enum { MAX_DIMS = 64, FIRST_CAP = 16 };

static const struct dtype_name {
  const char *name; /* or NULL */
  uint8_t dtype, item_bytes;
} dtypes[] = {
#define DTYPE(id, number, name, aten, c_name, bytes, class, tape, numpy, safetensors, ...) \
  {safetensors, number, bytes},
#include "base/dtypes.def"
};

typedef struct reader {
  session *s;
  json j;
  safetensors *out;
  uint32_t cap, cap_metadata;
  size_t data, data_bytes; /* the part after the header */
} reader;

/* -- One tensor -------------------------------------------------------------------------------- */

static size_t read_dtype(reader *r, safetensors_entry *e)
{
  str name = json_string(&r->j);

  for (size_t i = 0; i < COUNT_OF(dtypes); i++)
    if (dtypes[i].name && str_is(name, dtypes[i].name)) {
      e->dtype = (rush_dtype)dtypes[i].dtype;
      return dtypes[i].item_bytes;
    }
  session_fail_status(r->s, RUSH_EUNSUPPORTED, NULL, NULL,
                      "%s: tensor \"%.*s\": dtype %.*s is not supported", r->j.in.place,
                      (int)(e->name.len < 200 ? e->name.len : 200), e->name.p,
                      (int)(name.len < 40 ? name.len : 40), name.p);
}

static void read_shape(reader *r, safetensors_entry *e)
{
  uint32_t cap = 0;

  for (json_begin_array(&r->j); json_next_item(&r->j);) {
    int64_t size = json_int(&r->j);
    if (size < 0)
      json_fail(&r->j, "negative size");
    if (e->n_dims == MAX_DIMS)
      json_fail(&r->j, "more than %d dimensions", MAX_DIMS);
    GROW(r->s, e->sizes, e->n_dims, cap, FIRST_CAP);
    e->sizes[e->n_dims++] = size;
  }
}

static void read_offsets(reader *r, safetensors_entry *e)
{
  int64_t at[2];
  int n = 0;

  for (json_begin_array(&r->j); json_next_item(&r->j);) {
    if (n == 2)
      json_fail(&r->j, "data_offsets has more than two numbers");
    at[n++] = json_int(&r->j);
  }
  if (n != 2 || at[0] < 0 || at[1] < at[0] || (uint64_t)at[1] > r->data_bytes)
    json_fail(&r->j, "data_offsets leave the %zu bytes of data", r->data_bytes);
  e->data = r->data + (size_t)at[0];
  e->n_bytes = (size_t)(at[1] - at[0]);
}

static void check_bytes(reader *r, const safetensors_entry *e, size_t item_bytes)
{
  size_t n_bytes = item_bytes;

  for (uint32_t i = 0; i < e->n_dims; i++)
    if (e->sizes[i] == 0)
      n_bytes = 0;
  for (uint32_t i = 0; i < e->n_dims && n_bytes; i++)
    if (!size_mul(n_bytes, (size_t)e->sizes[i], &n_bytes))
      json_fail(&r->j, "the sizes overflow");
  if (n_bytes != e->n_bytes)
    json_fail(&r->j, "shape and dtype need %zu bytes, data_offsets give %zu", n_bytes, e->n_bytes);
}

static void read_tensor(reader *r, str name)
{
  safetensors_entry e = {.name = name};
  size_t item_bytes = 0;
  bool shape = false, offsets = false;
  str key;

  for (json_begin_object(&r->j); json_next_key(&r->j, &key);) {
    if (str_is(key, "dtype")) {
      item_bytes = read_dtype(r, &e);
    } else if (str_is(key, "shape")) {
      read_shape(r, &e);
      shape = true;
    } else if (str_is(key, "data_offsets")) {
      read_offsets(r, &e);
      offsets = true;
    } else {
      json_fail(&r->j, "expected dtype, shape and data_offsets, found \"%.*s\"",
                (int)(key.len < 40 ? key.len : 40), key.p);
    }
  }
  if (!item_bytes || !shape || !offsets)
    json_fail(&r->j, "a tensor without dtype, shape or data_offsets");
  check_bytes(r, &e, item_bytes);
  safetensors *o = r->out;
  GROW(r->s, o->entries, o->n_entries, r->cap, FIRST_CAP);
  o->entries[o->n_entries++] = e;
}

static void read_metadata(reader *r)
{
  safetensors *o = r->out;
  str key;

  for (json_begin_object(&r->j); json_next_key(&r->j, &key);) {
    str value = json_string(&r->j);
    for (int i = 0; i < 2; i++) {
      uint32_t n = 2 * o->n_metadata + (uint32_t)i;
      GROW(r->s, o->metadata, n, r->cap_metadata, FIRST_CAP);
      o->metadata[n] = i ? value : key;
    }
    o->n_metadata++;
  }
}

/* -- The whole --------------------------------------------------------------------------------- */

static void sift(safetensors_entry **a, size_t i, size_t n)
{
  for (size_t child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && a[child + 1]->data > a[child]->data)
      child++;
    if (a[i]->data >= a[child]->data)
      return;
    safetensors_entry *t = a[i];
    a[i] = a[child];
    a[child] = t;
  }
}

/* Check that the ranges together cover the data once.  Heap sort: a hostile order costs no more. */
static void check_cover(reader *r)
{
  uint32_t n = r->out->n_entries, kept = 0;
  safetensors_entry **a = session_array(r->s, safetensors_entry *, (size_t)n + 1);
  size_t at = r->data;

  for (uint32_t i = 0; i < n; i++)
    if (r->out->entries[i].n_bytes)
      a[kept++] = &r->out->entries[i];
  for (size_t i = kept / 2; i-- > 0;)
    sift(a, i, kept);
  for (size_t i = kept; i-- > 1;) {
    safetensors_entry *t = a[0];
    a[0] = a[i];
    a[i] = t;
    sift(a, 0, i);
  }
  for (uint32_t i = 0; i < kept; at += a[i++]->n_bytes)
    if (a[i]->data != at)
      input_fail(r->s, &r->j.in, at, "%s in the data", a[i]->data < at ? "an overlap" : "a hole");
  if (at != r->data + r->data_bytes)
    input_fail(r->s, &r->j.in, at, "%zu bytes of data belong to no tensor",
               r->data + r->data_bytes - at);
}

static uint64_t header_bytes(const uint8_t *p)
{
  uint64_t v = 0;

  for (int i = 8; i-- > 0;)
    v = v << 8 | p[i];
  return v;
}

bool safetensors_looks_like(const void *data, size_t n_bytes)
{
  const uint8_t *p = data;

  if (n_bytes < 10)
    return false;
  uint64_t n = header_bytes(p);
  return n >= 2 && n <= MAX_HEADER_BYTES && n <= n_bytes - 8 && p[8] == '{';
}

safetensors *safetensors_read(session *s, const input *in)
{
  reader r = {.s = s, .out = session_new(s, safetensors)};
  str key;

  if (in->bytes.len < 8)
    input_fail(s, in, 0, "not a .safetensors file: too short");
  uint64_t n = header_bytes((const uint8_t *)in->bytes.p);
  if (n > MAX_HEADER_BYTES || n > in->bytes.len - 8)
    input_fail(s, in, 0, "a header of %llu bytes, in a file of %zu; the limit is %llu",
               (unsigned long long)n, in->bytes.len, (unsigned long long)MAX_HEADER_BYTES);
  r.data = 8 + (size_t)n;
  r.data_bytes = in->bytes.len - r.data;
  input header = {in->place,
                  {session_strndup(s, in->bytes.p, r.data), r.data}}; /* a mapped file may change */
  json_init_at(&r.j, s, &header, (str){header.bytes.p + 8, (size_t)n});
  for (json_begin_object(&r.j); json_next_key(&r.j, &key);) {
    if (str_is(key, "__metadata__"))
      read_metadata(&r);
    else
      read_tensor(&r, key);
  }
  json_end(&r.j);
  check_cover(&r);
  return r.out;
}
