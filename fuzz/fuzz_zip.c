/* Zip archives: open, find and read every record, check every CRC. */
#include "fuzz.h"

#include "formats/zip.h"

static void body(session *s, str text)
{
  mapping *m;

  (void)zip_looks_like(text.p, text.len);
  session_check(s, mapping_copy(s->cx, "fuzz", text.p, text.len, &m));
  mapping_defer(s, m);
  zip_archive *z = zip_open(s, m, text.len % 2 == 1);
  zip_archive *kept = zip_retain(z);
  session_defer(s, (void (*)(void *))zip_release, kept);
  for (uint32_t i = 0; i < z->n_entries; i++) {
    const zip_entry *e = &z->entries[i];
    fuzz_demand(zip_find_name(z, e->name) == e, "a record is not found by its name");
    char *path = session_strndup(s, e->path.p, e->path.len);
    fuzz_demand(!e->in_root || zip_need(s, z, path) == e, "a record is not found by its path");
    fuzz_demand(zip_input(s, z, e).bytes.len == e->n_bytes, "a record's size");
  }
  zip_check(s, z);
  zip_need(s, z, "absent");
}

int fuzz_zip(const uint8_t *data, size_t n)
{
  fuzz_session(data, n, body);
  return 0;
}
