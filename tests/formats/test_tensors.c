/* Test npy and safetensors: directories of tensors that other programs write. */
#include "support/oom.h"

#include "formats/npy.h"
#include "formats/safetensors.h"

typedef struct job {
  str bytes;
  void (*read)(session *s, const input *in, text_buf *out);
  text_buf out;
} job;

static void print_sizes(text_buf *out, uint32_t n_dims, const int64_t *sizes)
{
  for (uint32_t i = 0; i < n_dims; i++)
    text_printf(out, " %lld", (long long)sizes[i]);
}

static void read_npy(session *s, const input *in, text_buf *out)
{
  npy_header h;
  npy_read(s, in, &h);
  text_printf(out, "dtype %d%s%s", (int)h.dtype, h.big_endian ? " big" : "",
              h.fortran_order ? " fortran" : "");
  print_sizes(out, h.n_dims, h.sizes);
  text_printf(out, ", %zu bytes", h.data_bytes);
}

static void read_safetensors(session *s, const input *in, text_buf *out)
{
  safetensors *t = safetensors_read(s, in);
  for (uint32_t i = 0; i < t->n_entries; i++) {
    const safetensors_entry *e = &t->entries[i];
    text_printf(out, "%.*s: dtype %d", (int)e->name.len, e->name.p, (int)e->dtype);
    print_sizes(out, e->n_dims, e->sizes);
    text_printf(out, " \"%.*s\";", (int)e->n_bytes, in->bytes.p + e->data);
  }
  for (uint32_t i = 0; i < 2 * t->n_metadata; i++)
    text_printf(out, "%c%.*s", i % 2 ? '=' : ' ', (int)t->metadata[i].len, t->metadata[i].p);
}

static void body(session *s, void *arg)
{
  job *j = arg;
  input in = {"f", j->bytes};
  j->read(s, &in, &j->out);
}

static rush_status read_bytes(context *c, job j, char *result, size_t cap)
{
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  call_ctx_init(&cx, c, &err);
  text_init(&j.out, c);
  rush_status st = session_run(&cx, body, &j);
  snprintf(result, cap, "%s", st ? err.message : text_str(&j.out));
  text_free(&j.out);
  rush_error_clear(&err);
  return st;
}

/* Make a file from the header text, with n_data bytes of '0'. */
static size_t wrap(char *to, bool npy, const char *header, size_t n_data)
{
  size_t n = strlen(header), start = npy ? 10 : 8;
  if (npy)
    memcpy(to, "\x93NUMPY\1\0", 8);
  else
    memset(to, 0, 8);
  to[npy ? 8 : 0] = (char)(n & 0xff);
  to[npy ? 9 : 1] = (char)(n >> 8);
  memcpy(to + start, header, n);
  memset(to + start + n, '0', n_data);
  return start + n + n_data;
}

typedef struct row {
  const char *header;
  size_t n_data;
  const char *text;
} row;

static void check_rows(const row *rows, size_t n_rows, bool npy)
{
  context *c = test_context(NULL);
  for (size_t i = 0; i < n_rows; i++) {
    char file[1024], got[1024];
    size_t n = wrap(file, npy, rows[i].header, rows[i].n_data);
    job j = {.bytes = {file, n}, .read = npy ? read_npy : read_safetensors};
    read_bytes(c, j, got, sizeof got);
    assert_string_equal(got, rows[i].text);
    for (size_t cut = 0; cut < n && strncmp(got, "f: ", 3) != 0; cut++) {
      j.bytes.len = cut;
      char ignored[1024];
      assert_int_not_equal(read_bytes(c, j, ignored, sizeof ignored), RUSH_OK);
    }
  }
  test_context_done(c);
}

static void npy_headers_are_read_strictly(void **state)
{
  static const row rows[] = {
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, "dtype 6 2 3, 24 bytes"},
    {"{'descr': '>i8', 'fortran_order': True, 'shape': (1,)}\n", 8,
     "dtype 4 big fortran 1, 8 bytes"},
    {"{'descr': '|b1', 'fortran_order': False, 'shape': ()}", 1, "dtype 11, 1 bytes"},
    {"{'descr': '<c16', 'fortran_order': False, 'shape': (5L,)}", 80, "dtype 10 5, 80 bytes"},
    {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': ()}", 8,
     "f: .npy arrays of dtype '<M8[ns]' are not supported"},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", 8,
     "f: structured .npy arrays are not supported"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (99, 3), }", 24,
     "f: offset 70: 297 elements of 4 bytes do not fit the 24 bytes that follow"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 24,
     "f: offset 10: the sizes overflow"},
    {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4,
     "f: offset 35: malformed .npy header: expected 'descr', 'fortran_order' and 'shape', once "
     "each"},
    {"{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", 4,
     "f: offset 44: malformed .npy header: expected True or False"},
  };
  (void)state;
  check_rows(rows, COUNT_OF(rows), true);
}

static void safetensors_must_cover_their_data_once(void **state)
{
  static const row rows[] = {
    {"{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[8,10]},\"a\":{\"dtype\":\"F32\","
     "\"shape\":[1,2],\"data_offsets\":[0,8]},\"__metadata__\":{\"k\":\"v\"}}  ",
     10, "b: dtype 0 2 \"00\";a: dtype 6 1 2 \"00000000\"; k=v"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
     "f: offset 61: shape and dtype need 8 bytes, data_offsets give 4"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3,
     "f: offset 61: a hole in the data"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
     3, "f: offset 115: an overlap in the data"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 3,
     "f: offset 63: 1 bytes of data belong to no tensor"},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1,
     "f: tensor \"a\": dtype F4 is not supported"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,9]}}", 2,
     "f: offset 59: data_offsets leave the 2 bytes of data"},
  };
  (void)state;
  check_rows(rows, COUNT_OF(rows), false);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(npy_headers_are_read_strictly),
      cmocka_unit_test(safetensors_must_cover_their_data_once),
  };
  return RUN_TESTS(tests);
}
