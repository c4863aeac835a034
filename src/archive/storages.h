/* archive/storages.h -- storages of the bytes of files: the mapped memory itself where it can be, a
 * copy otherwise. */
#ifndef RUSH_ARCHIVE_STORAGES_H
#define RUSH_ARCHIVE_STORAGES_H

#include "base/session.h"
#include "formats/mapping.h"
#include "tensor/tensor.h"

/* The alignment that any dtype needs: another tensor may read the same storage as larger numbers.
 * */
#define DTYPE_MOST_ALIGNED 8

/* Make a storage of `bytes`, released by the session: the memory of `owner` (retained; NULL: there
 * is none) if it is aligned to `align` and has the machine's order, else a copy.  `swap`: reverse
 * the order of each so many bytes; 0 or 1: none. */
storage *storage_of_bytes(session *s, str bytes, mapping *owner, size_t align, size_t swap);
/* Copy bytes in the same way. */
void copy_items(void *to, const void *from, size_t n_bytes, size_t swap);
/* Release a storage (session_defer). */
void storage_unref(void *st);

#endif
