/* formats/zip_build.h -- builds small zip files in memory, valid and broken ones, for tests. */
#ifndef TEST_FORMATS_ZIP_BUILD_H
#define TEST_FORMATS_ZIP_BUILD_H

#include <zlib.h>

#include "support/test.h"

#include "base/text.h"

typedef struct zip_build {
  text_buf file, directory;
  uint32_t n;
} zip_build;

static inline void build_le(text_buf *t, uint64_t v, int n_bytes)
{
  for (int i = 0; i < n_bytes; i++)
    text_putc(t, i < 8 ? (char)(v >> (8 * i)) : 0);
}

static inline void build_init(zip_build *b, context *c)
{
  text_init(&b->file, c);
  text_init(&b->directory, c);
  b->n = 0;
}

static inline void build_free(zip_build *b)
{
  text_free(&b->file);
  text_free(&b->directory);
}

/* Write flags, method, time, CRC, sizes, name and extra lengths: what both headers share. */
static inline void build_common(text_buf *t, int flags, bool deflated, uint32_t crc, size_t packed,
                                size_t n_bytes, size_t name_len)
{
  build_le(t, (uint64_t)flags, 2);
  build_le(t, deflated ? 8 : 0, 2);
  build_le(t, 0, 4);
  build_le(t, crc, 4);
  build_le(t, packed, 4);
  build_le(t, n_bytes, 4);
  build_le(t, name_len, 2);
  build_le(t, 0, 2);
}

static inline size_t build_deflate(const char *data, size_t n, uint8_t *to, size_t cap)
{
  z_stream z = {0};
  assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  z.next_in = (Bytef *)data;
  z.avail_in = (uInt)n;
  z.next_out = to;
  z.avail_out = (uInt)cap;
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  deflateEnd(&z);
  return cap - z.avail_out;
}

/* sizes_follow: write sizes of 0 in the local header and set bit 3, as PyTorch does. */
static inline void build_add(zip_build *b, const char *name, const char *data, size_t n,
                             bool deflated, bool sizes_follow)
{
  uint8_t packed[4096];
  size_t name_len = strlen(name), header = b->file.len;
  size_t n_packed = deflated ? build_deflate(data, n, packed, sizeof packed) : n;
  uint32_t crc = (uint32_t)crc32(0, (const Bytef *)data, (uInt)n);
  int flags = sizes_follow ? 8 : 0;
  build_le(&b->file, 0x04034b50, 4);
  build_le(&b->file, 20, 2);
  build_common(&b->file, flags, deflated, sizes_follow ? 0 : crc, sizes_follow ? 0 : n_packed,
               sizes_follow ? 0 : n, name_len);
  text_add(&b->file, name, name_len);
  text_add(&b->file, deflated ? (char *)packed : data, n_packed);
  build_le(&b->directory, 0x02014b50, 4);
  build_le(&b->directory, 20, 2);
  build_le(&b->directory, 20, 2);
  build_common(&b->directory, flags, deflated, crc, n_packed, n, name_len);
  build_le(&b->directory, 0, 10); /* comment, disk, attributes */
  build_le(&b->directory, header, 4);
  text_add(&b->directory, name, name_len);
  b->n++;
}

static inline void build_end(zip_build *b)
{
  size_t at = b->file.len;
  text_add(&b->file, text_str(&b->directory), b->directory.len);
  build_le(&b->file, 0x06054b50, 4);
  build_le(&b->file, 0, 4);
  build_le(&b->file, b->n, 2);
  build_le(&b->file, b->n, 2);
  build_le(&b->file, b->directory.len, 4);
  build_le(&b->file, at, 4);
  build_le(&b->file, 0, 2);
}

#endif
