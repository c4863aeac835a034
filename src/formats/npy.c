/* formats/npy.c -- reads the header of .npy files. The header is a Python dict of literals, so a
 * parser for the few literals that can occur is enough; Python is never evaluated. It checks that
 * the data fits into the file, since tensors then use the bytes in place. */
#include "formats/npy.h"

#include <string.h>

enum { MAGIC_BYTES = 6, ALIGN_BYTES = 64, MAX_HEADER_BYTES = 1 << 20 };
static const char magic[] = "\x93NUMPY";

static const struct npy_dtype {
  const char *code; /* without the byte order; or NULL */
  uint8_t dtype, item_bytes;
} dtypes[] = {
#define DTYPE(id, number, name, aten, c_name, bytes, class, tape, numpy, ...) \
  {numpy, number, bytes},
#include "base/dtypes.def"
};

/* The header's text is a Python dict of literals. */
typedef struct literal {
  session *s;
  const input *in;
  size_t pos, end;
} literal;

/* -- Literals ---------------------------------------------------------------------------------- */

_Noreturn static void malformed(literal *l, const char *wanted)
{
  input_fail(l->s, l->in, l->pos, "malformed .npy header: expected %s", wanted);
}

static void skip_blanks(literal *l)
{
  while (l->pos < l->end && strchr(" \t\n\r", l->in->bytes.p[l->pos]) && l->in->bytes.p[l->pos])
    l->pos++;
}

static bool accept(literal *l, char ch)
{
  skip_blanks(l);
  if (l->pos >= l->end || l->in->bytes.p[l->pos] != ch)
    return false;
  l->pos++;
  return true;
}

static void expect(literal *l, char ch)
{
  char wanted[4] = {'\'', ch, '\'', 0};
  if (!accept(l, ch))
    malformed(l, wanted);
}

static bool accept_word(literal *l, const char *word)
{
  size_t n = strlen(word);

  skip_blanks(l);
  if (l->end - l->pos < n || memcmp(l->in->bytes.p + l->pos, word, n) != 0)
    return false;
  l->pos += n;
  return true;
}

static str read_string(literal *l)
{
  skip_blanks(l);
  char quote = l->pos < l->end ? l->in->bytes.p[l->pos] : 0;
  if (quote != '\'' && quote != '"')
    malformed(l, "a string");
  size_t start = ++l->pos;
  while (l->pos < l->end && l->in->bytes.p[l->pos] != quote)
    l->pos++;
  if (l->pos == l->end)
    malformed(l, "the end of a string");
  return (str){l->in->bytes.p + start, l->pos++ - start};
}

static int64_t read_size(literal *l)
{
  int64_t v = 0;

  skip_blanks(l);
  size_t start = l->pos;
  for (; l->pos < l->end; l->pos++) {
    unsigned digit = (unsigned)(l->in->bytes.p[l->pos] - '0');
    if (digit > 9)
      break;
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (int64_t)digit, &v))
      malformed(l, "a smaller size");
  }
  if (l->pos == start)
    malformed(l, "a size");
  accept(l, 'L'); /* Python 2's long */
  return v;
}

/* -- Reading ----------------------------------------------------------------------------------- */

static size_t read_descr(literal *l, npy_header *h)
{
  size_t at = l->pos;

  skip_blanks(l);
  if (l->pos < l->end && l->in->bytes.p[l->pos] == '[')
    session_fail_status(l->s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "%s: structured .npy arrays are not supported", l->in->place);
  str d = read_string(l);
  char order = d.len ? d.p[0] : 0;
  for (size_t i = 0; i < COUNT_OF(dtypes) && d.len > 1; i++) {
    if (!dtypes[i].code || !str_is((str){d.p + 1, d.len - 1}, dtypes[i].code) ||
        !strchr("<>|=", order))
      continue;
    h->dtype = (rush_dtype)dtypes[i].dtype;
    h->big_endian = order == '>' && dtypes[i].item_bytes > 1;
    return dtypes[i].item_bytes;
  }
  if (d.len < 2 || d.len > 40)
    input_fail(l->s, l->in, at, "malformed .npy dtype");
  session_fail_status(l->s, RUSH_EUNSUPPORTED, NULL, NULL,
                      "%s: .npy arrays of dtype '%.*s' are not supported", l->in->place,
                      (int)d.len, d.p);
}

static void read_shape(literal *l, npy_header *h)
{
  expect(l, '(');
  h->n_dims = 0;
  while (!accept(l, ')')) {
    if (h->n_dims == NPY_MAX_DIMS)
      malformed(l, "at most 64 dimensions");
    h->sizes[h->n_dims++] = read_size(l);
    if (!accept(l, ',')) {
      expect(l, ')');
      break;
    }
  }
}

/* Read the dict; returns the bytes of one element. */
static size_t read_dict(literal *l, npy_header *h)
{
  bool order = false, shape = false;
  size_t item_bytes = 0;

  expect(l, '{');
  while (!accept(l, '}')) {
    str key = read_string(l);
    expect(l, ':');
    if (str_is(key, "descr") && !item_bytes) {
      item_bytes = read_descr(l, h);
    } else if (str_is(key, "fortran_order") && !order) {
      order = true;
      h->fortran_order = accept_word(l, "True");
      if (!h->fortran_order && !accept_word(l, "False"))
        malformed(l, "True or False");
    } else if (str_is(key, "shape") && !shape) {
      shape = true;
      read_shape(l, h);
    } else {
      malformed(l, "'descr', 'fortran_order' and 'shape', once each");
    }
    if (!accept(l, ',')) {
      expect(l, '}');
      break;
    }
  }
  if (!item_bytes || !order || !shape)
    malformed(l, "'descr', 'fortran_order' and 'shape'");
  skip_blanks(l);
  if (l->pos != l->end)
    malformed(l, "the end of the header");
  return item_bytes;
}

bool npy_looks_like(const void *data, size_t n_bytes)
{
  return n_bytes >= MAGIC_BYTES && memcmp(data, magic, MAGIC_BYTES) == 0;
}

void npy_read(session *s, const input *in, npy_header *out)
{
  const uint8_t *p = (const uint8_t *)in->bytes.p;
  size_t n = in->bytes.len, count = 1, data_bytes;
  npy_header h = {.n_dims = 0};

  if (!npy_looks_like(p, n))
    input_fail(s, in, 0, "not a .npy file");
  if (n < 12)
    input_fail(s, in, n, "the .npy header is cut short");
  if (p[6] < 1 || p[6] > 3)
    input_fail(s, in, 6, ".npy version %u is not known", (unsigned)p[6]);
  size_t start = p[6] == 1 ? 10 : 12, len = (size_t)p[8] | (size_t)p[9] << 8;
  if (p[6] > 1)
    len |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
  if (len > n - start || len > MAX_HEADER_BYTES)
    input_fail(s, in, 8, "a .npy header of %zu bytes, in a file of %zu; the limit is %d", len, n,
               MAX_HEADER_BYTES);
  input header = {
    in->place,
    {session_strndup(s, in->bytes.p, start + len), start + len}}; /* a mapped file may change */
  literal l = {s, &header, start, start + len};
  size_t item_bytes = read_dict(&l, &h);
  h.data = start + len;
  for (uint32_t i = 0; i < h.n_dims; i++)
    if (h.sizes[i] == 0)
      count = 0; /* before multiplying: the other sizes may be anything */
  for (uint32_t i = 0; i < h.n_dims && count; i++)
    if (!size_mul(count, (size_t)h.sizes[i], &count))
      input_fail(s, in, start, "the sizes overflow");
  if (!size_mul(count, item_bytes, &data_bytes) || data_bytes > n - h.data)
    input_fail(s, in, h.data, "%zu elements of %zu bytes do not fit the %zu bytes that follow",
               count, item_bytes, n - h.data);
  h.data_bytes = data_bytes;
  *out = h;
}
