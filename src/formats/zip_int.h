/* formats/zip_int.h -- zlib with the context's memory; for zip.c and zip_write.c. */
#ifndef RUSH_FORMATS_ZIP_INT_H
#define RUSH_FORMATS_ZIP_INT_H

#include <zlib.h>

#include "base/context.h"

static inline voidpf zip_zlib_alloc(voidpf c, uInt n, uInt size)
{
  /* The size is stored before the block: zlib's free does not pass it. */
  size_t n_bytes;
  if (!size_mul(n, size, &n_bytes) || !size_add(n_bytes, 16, &n_bytes))
    return Z_NULL;
  size_t *p = mem_alloc(c, n_bytes);
  if (p == NULL)
    return Z_NULL;
  *p = n_bytes;
  return (uint8_t *)p + 16;
}

static inline void zip_zlib_free(voidpf c, voidpf p)
{
  size_t *head = (size_t *)((uint8_t *)p - 16);
  mem_free(c, head, *head);
}

static inline z_stream zip_stream(context *c)
{
  return (z_stream){.zalloc = zip_zlib_alloc, .zfree = zip_zlib_free, .opaque = c};
}

#endif
