/* archive/storages.c -- storages of the bytes of files (storages.h). */
#include "archive/storages.h"

static void release_mapping(void *user, void *data)
{
  (void)data;
  mapping_release(user);
}

void storage_unref(void *st) { storage_release(st); }

void copy_items(void *to, const void *from, size_t n_bytes, size_t swap)
{
  uint8_t *put = to;
  const uint8_t *take = from;

  if (swap <= 1 && n_bytes)
    memcpy(to, from, n_bytes);
  for (size_t i = 0; swap > 1 && i + swap <= n_bytes; i += swap)
    for (size_t k = 0; k < swap; k++)
      put[i + k] = take[i + swap - 1 - k];
}

storage *storage_of_bytes(session *s, str bytes, mapping *owner, size_t align, size_t swap)
{
  storage *st;

  if (owner && (uintptr_t)bytes.p % align == 0 && swap <= 1) {
    session_check(s, storage_wrap(s->cx, (void *)(uintptr_t)bytes.p, bytes.len, STORAGE_MAPPED,
                                  release_mapping, owner, &st));
    mapping_retain(owner);
  } else {
    session_check(s, storage_new(s->cx, bytes.len, &st));
    copy_items(st->data, bytes.p, bytes.len, swap);
  }
  session_defer(s, storage_unref, st);
  return st;
}
