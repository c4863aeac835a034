/* support/bytes.h -- keeps the output of a saver in memory. */
#ifndef TEST_SUPPORT_BYTES_H
#define TEST_SUPPORT_BYTES_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct bytes {
  char *p;        /* of malloc */
  size_t n, most; /* most: refuse more bytes than this; 0: no limit */
} bytes;

/* A function for rush_save_options.write; write_user is the bytes. */
static inline bool gather(void *user, const void *data, size_t n)
{
  bytes *b = user;

  if (b->most && b->n + n > b->most)
    return false;
  b->p = realloc(b->p, b->n + n + 1);
  memcpy(b->p + b->n, data, n);
  b->n += n;
  return true;
}

#endif
