/* formats/zip_write.c -- writes zip archives record by record, then the directory (zip_write.h).
 * Each header is filled in a small buffer, with zip64 fields only if values need them; data is
 * aligned to 64 bytes by an extra field, so that readers can use mapped weights in place. Times are
 * fixed, so that equal content has equal bytes. Output is only appended, never rewritten. */
#include "formats/zip_write.h"

#include <string.h>

#include "base/grow.h"
#include "base/table.h"
#include "formats/zip_int.h"

enum { LOCAL_BYTES = 30, ALIGN_BYTES = 64, EXTRA_HEAD_BYTES = 4 };
enum { FLAG_UTF8 = 1 << 11, VERSION_PLAIN = 20, VERSION_ZIP64 = 45, DATE_1980 = 0x21 };
/* The largest record that is deflated: code and JSON, never weights; zlib's counts have 32 bits. */
#define MAX_DEFLATE_BYTES ((size_t)1 << 30)

typedef struct record {
  const char *name;
  uint64_t header;
  uint64_t packed, n_bytes;
  uint32_t crc;
  bool deflated;
} record;

struct zip_writer {
  session *s;
  output out;
  const char *root;
  uint64_t pos; /* bytes written */
  record *records;
  uint32_t n, cap;
  table names;
  bool finished;
};

/* -- Fields ------------------------------------------------------------------------------------ */

typedef struct fields { /* a header being filled; the largest has 56 bytes and 28 of extra fields */
  uint8_t bytes[128];
  size_t n;
} fields;

static void put_field(fields *f, uint64_t v, int n_bytes)
{
  for (int i = 0; i < n_bytes; i++, v >>= 8)
    f->bytes[f->n++] = (uint8_t)v;
}

static uint32_t clip32(uint64_t v)
{
  return v >= UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

static void emit(zip_writer *z, const void *data, size_t n_bytes)
{
  output_put(z->s, &z->out, data, n_bytes);
  z->pos += n_bytes;
}

static bool is_wide(const record *r)
{
  return r->packed >= UINT32_MAX || r->n_bytes >= UINT32_MAX;
}

/* Write the fields that both headers share: version to flags, method, time, CRC, sizes. */
static void put_common(fields *f, const record *r, bool wide)
{
  put_field(f, wide ? VERSION_ZIP64 : VERSION_PLAIN, 2);
  put_field(f, FLAG_UTF8, 2);
  put_field(f, r->deflated ? 8 : 0, 2);
  put_field(f, 0, 2);
  put_field(f, DATE_1980, 2);
  put_field(f, r->crc, 4);
  put_field(f, clip32(is_wide(r) ? UINT32_MAX : r->packed), 4);
  put_field(f, clip32(is_wide(r) ? UINT32_MAX : r->n_bytes), 4);
  put_field(f, strlen(r->name), 2);
}

/* -- Records ----------------------------------------------------------------------------------- */

static void free_names(void *z)
{
  table_free(&((zip_writer *)z)->names);
}

zip_writer *zip_writer_new(session *s, const output *out, const char *root)
{
  zip_writer *z = session_new(s, zip_writer);

  z->s = s;
  z->out = *out;
  z->root = session_strdup(s, root);
  table_init(&z->names, s->cx->ctx);
  session_defer(s, free_names, z);
  return z;
}

static record *record_new(zip_writer *z, const char *path)
{
  session *s = z->s;

  ASSERT(!z->finished, "the archive is finished");
  GROW(s, z->records, z->n, z->cap, 64);
  record *r = &z->records[z->n++];
  r->name = session_printf(s, "%s%s%s", z->root, *z->root ? "/" : "", path);
  if (strlen(r->name) > UINT16_MAX)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "%s: a record name of %zu bytes is too long",
                        z->out.place, strlen(r->name));
  if (table_get(&z->names, str_of(r->name)))
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "%s: two records \"%s\"", z->out.place,
                        r->name);
  session_table_put(s, &z->names, str_of(r->name), (void *)r->name);
  return r;
}

static uint32_t crc_of(const void *data, size_t n_bytes)
{
  uLong crc = crc32(0, NULL, 0);
  const Bytef *p = data;

  for (size_t at = 0; at < n_bytes; at += (size_t)1 << 30) {
    size_t n = n_bytes - at;
    crc = crc32(crc, p + at, n > (size_t)1 << 30 ? (uInt)1 << 30 : (uInt)n);
  }
  return (uint32_t)crc;
}

static void write_record(zip_writer *z, record *r, const void *data)
{
  static const char filling[ALIGN_BYTES] = "ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ"
                                           "ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ";
  fields f = {.n = 0};
  size_t name_len = strlen(r->name), wide = is_wide(r) ? 20 : 0;

  r->header = z->pos;
  uint64_t start = z->pos + LOCAL_BYTES + name_len + wide + EXTRA_HEAD_BYTES;
  size_t padding = (size_t)((ALIGN_BYTES - start % ALIGN_BYTES) % ALIGN_BYTES);
  put_field(&f, 0x04034b50, 4);
  put_common(&f, r, wide != 0);
  put_field(&f, wide + EXTRA_HEAD_BYTES + padding, 2);
  emit(z, f.bytes, f.n);
  emit(z, r->name, name_len);
  f.n = 0;
  if (wide) {
    put_field(&f, 1, 2);
    put_field(&f, 16, 2);
    put_field(&f, r->n_bytes, 8);
    put_field(&f, r->packed, 8);
  }
  put_field(&f, 'F' | 'B' << 8, 2);
  put_field(&f, padding, 2);
  emit(z, f.bytes, f.n);
  emit(z, filling, padding);
  emit(z, data, (size_t)r->packed);
}

void zip_write(zip_writer *z, const char *path, const void *data, size_t n_bytes)
{
  record *r = record_new(z, path);

  r->packed = r->n_bytes = n_bytes;
  r->crc = crc_of(data, n_bytes);
  write_record(z, r, data);
}

void zip_write_deflated(zip_writer *z, const char *path, const void *data, size_t n_bytes)
{
  z_stream stream = zip_stream(z->s->cx->ctx);

  if (n_bytes > MAX_DEFLATE_BYTES) {
    zip_write(z, path, data, n_bytes);
    return;
  }
  uint8_t *packed = session_alloc(z->s, n_bytes + 1);
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    session_check(z->s, call_nomem(z->s->cx));
  stream.next_in = (Bytef *)data;
  stream.avail_in = (uInt)n_bytes;
  stream.next_out = packed;
  stream.avail_out = (uInt)n_bytes;
  int code = deflate(&stream, Z_FINISH);
  size_t n_packed = n_bytes - stream.avail_out;
  deflateEnd(&stream);
  if (code != Z_STREAM_END) { /* it did not get smaller */
    zip_write(z, path, data, n_bytes);
    return;
  }
  record *r = record_new(z, path);
  r->packed = n_packed;
  r->n_bytes = n_bytes;
  r->crc = crc_of(data, n_bytes);
  r->deflated = true;
  write_record(z, r, packed);
}

void zip_write_identity(zip_writer *z)
{
  uint64_t names = 0, bytes = 0;

  for (uint32_t i = 0; i < z->n; i++) {
    const uint64_t name = hash_bytes(z->records[i].name, strlen(z->records[i].name));
    names = (names ^ name) * UINT64_C(0x9e3779b97f4a7c15) + i;
    bytes = (bytes ^ z->records[i].crc) * UINT64_C(0xd6e8feb86659fd93) + z->records[i].n_bytes;
  }
  const char *id =
    session_printf(z->s, "%020llu%020llu", (unsigned long long)names, (unsigned long long)bytes);
  zip_write(z, ".data/serialization_id", id, 40);
}

/* -- The directory ----------------------------------------------------------------------------- */

static void write_central(zip_writer *z, const record *r)
{
  fields f = {.n = 0};
  bool far = r->header >= UINT32_MAX;
  size_t extra = (is_wide(r) ? 16u : 0u) + (far ? 8u : 0u);

  put_field(&f, 0x02014b50, 4);
  put_field(&f, extra ? VERSION_ZIP64 : VERSION_PLAIN, 2);
  put_common(&f, r, is_wide(r));
  put_field(&f, extra ? extra + EXTRA_HEAD_BYTES : 0, 2);
  put_field(&f, 0, 2); /* comment */
  put_field(&f, 0, 2); /* disk */
  put_field(&f, 0, 6); /* attributes */
  put_field(&f, clip32(r->header), 4);
  emit(z, f.bytes, f.n);
  emit(z, r->name, strlen(r->name));
  f.n = 0;
  if (extra) {
    put_field(&f, 1, 2);
    put_field(&f, extra, 2);
  }
  if (is_wide(r)) {
    put_field(&f, r->n_bytes, 8);
    put_field(&f, r->packed, 8);
  }
  if (far)
    put_field(&f, r->header, 8);
  emit(z, f.bytes, f.n);
}

static void put_end64(fields *f, uint64_t n, uint64_t at, uint64_t n_bytes)
{
  put_field(f, 0x06064b50, 4);
  put_field(f, 44, 8);
  put_field(f, VERSION_ZIP64, 2);
  put_field(f, VERSION_ZIP64, 2);
  put_field(f, 0, 8); /* disks */
  put_field(f, n, 8);
  put_field(f, n, 8);
  put_field(f, n_bytes, 8);
  put_field(f, at, 8);
  put_field(f, 0x07064b50, 4);
  put_field(f, 0, 4);
  put_field(f, at + n_bytes, 8);
  put_field(f, 1, 4);
}

void zip_finish(zip_writer *z)
{
  fields f = {.n = 0};
  uint64_t at = z->pos;

  ASSERT(!z->finished, "the archive is finished");
  for (uint32_t i = 0; i < z->n; i++)
    write_central(z, &z->records[i]);
  uint64_t n_bytes = z->pos - at;
  if (z->n >= UINT16_MAX || at >= UINT32_MAX || n_bytes >= UINT32_MAX)
    put_end64(&f, z->n, at, n_bytes);
  put_field(&f, 0x06054b50, 4);
  put_field(&f, 0, 4);
  put_field(&f, z->n >= UINT16_MAX ? UINT16_MAX : z->n, 2);
  put_field(&f, z->n >= UINT16_MAX ? UINT16_MAX : z->n, 2);
  put_field(&f, clip32(n_bytes), 4);
  put_field(&f, clip32(at), 4);
  put_field(&f, 0, 2);
  emit(z, f.bytes, f.n);
  z->finished = true;
}
