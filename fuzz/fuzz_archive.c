/* Whole files through the entry point of all loading: opened (with every checksum, as it is; then
 * with its checksums repaired, since a mutation seldom keeps them), compiled, called; or read as
 * plain data. */
#include "fuzz.h"

#include <string.h>
#include <zlib.h>

#include "formats/zip.h"

static uint32_t get(const uint8_t *p, int n)
{
  uint32_t v = 0;
  while (n-- > 0)
    v = v << 8 | p[n];
  return v;
}

static void put32(uint8_t *p, uint32_t v)
{
  for (int i = 0; i < 4; i++)
    p[i] = (uint8_t)(v >> (8 * i));
}

/* Repair the CRCs of stored records, in the directory and in local headers that have one. */
static void mend(uint8_t *data, size_t n)
{
  for (size_t at = 0; at + 46 <= n; at++) {
    if (get(data + at, 4) != 0x02014b50 || get(data + at + 10, 2) != 0)
      continue;
    size_t header = get(data + at + 42, 4), n_bytes = get(data + at + 24, 4);
    if (header + 30 > n || get(data + header, 4) != 0x04034b50)
      continue;
    size_t from = header + 30 + get(data + header + 26, 2) + get(data + header + 28, 2);
    if (from > n || n_bytes > n - from)
      continue;
    uint32_t crc = (uint32_t)crc32(0, data + from, (uInt)n_bytes);
    put32(data + at + 16, crc);
    if (get(data + header + 14, 4) != 0)
      put32(data + header + 14, crc);
  }
}

static bool count_state(void *arg, const char *name, rush_value *slot, bool is_parameter)
{
  (void)name;
  (void)slot;
  (void)is_parameter;
  return ++*(int *)arg < 1000;
}

/* Read the state, copy and query the modules, whatever the file contains. */
static void look(call_ctx *cx, module *m)
{
  rush_error err = RUSH_ERROR_INIT;
  call_ctx inner = *cx;
  module *copy;
  int n = 0;

  inner.err = &err;
  rush_status st = module_walk_state(&inner, m, count_state, &n);
  fuzz_check_error(st, &err);
  rush_error_clear(&err);
  if ((st = module_copy(&inner, m, &copy)) == RUSH_OK) {
    (void)module_is_random(&inner, copy);
    rush_error_clear(&err);
    module_release(copy);
    return;
  }
  fuzz_check_error(st, &err);
  rush_error_clear(&err);
}

static int read_part(void *user, uint64_t offset, void *to, size_t n)
{
  memcpy(to, ((const str *)user)->p + offset, n);
  return 0;
}

static void keep_bytes(void *user, void *data)
{
  (void)user;
  (void)data;
}

/* Read the bytes in all supported ways, by their number. */
static bool use(session *s, str bytes, const char *name, bool check_full)
{
  archive_source from = {.n_bytes = bytes.len, .name = name, .check_full = check_full};
  if (bytes.len % 4 == 1) {
    from.read = read_part;
    from.user = &bytes;
  } else {
    from.data = bytes.p;
    from.deleter = bytes.len % 4 == 2 ? keep_bytes : NULL;
  }
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx = *s->cx;
  module *m;

  cx.err = &err;
  rush_status st = module_load(&cx, &from, &m);
  fuzz_check_error(st, &err);
  rush_error_clear(&err);
  if (st != RUSH_OK)
    return false;
  look(&cx, m);
  module_release(m);
  fuzz_use_module(s, bytes, name, check_full, true);
  return true;
}

static void body(session *s, str text)
{
  if (!zip_looks_like(text.p, text.len)) {
    use(s, text, "fuzz.pt", false);
    fuzz_use_value(s, text, "fuzz.npy");
    return;
  }
  if (use(s, text, "fuzz.pt", true))
    return;
  char *mended = session_strndup(s, text.p, text.len);
  mend((uint8_t *)mended, text.len);
  str bytes = {mended, text.len};
  if (!use(s, bytes, "fuzz.pt", false))
    fuzz_use_value(s, bytes, "fuzz.pt");
}

int fuzz_archive(const uint8_t *data, size_t n)
{
  fuzz_session(data, n, body);
  return 0;
}
