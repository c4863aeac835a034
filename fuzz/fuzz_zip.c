/* Zip archives: open, read every record, check every CRC. */
#include "fuzz.h"

#include "formats/zip.h"

static void fuzz_body(session *s, str text)
{
  mapping *m;
  session_check(s, mapping_copy(s->cx, "fuzz", text.p, text.len, &m));
  mapping_defer(s, m);
  zip_archive *z = zip_open(s, m, false);
  for (uint32_t i = 0; i < z->n_entries; i++)
    fuzz_demand(zip_read(s, z, &z->entries[i], NULL).len == z->entries[i].n_bytes, "a record's size");
  zip_check(s, z);
}
