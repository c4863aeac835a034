/* api/struct.c -- structs of which the caller's header and this library may have different
 * versions.
 *
 * Each begins with `struct_bytes`, the size that the caller compiled.  Fields are only ever added
 * at the end (tests/house/abi.py), so the common part of two versions is a prefix. */
#include "api/api_int.h"

/* No struct is as large: a larger number is an uninitialised field. */
#define MOST_BYTES 65536

static rush_status refuse_unknown(rush_error *err, const char *name, size_t at, size_t n_bytes)
{
  return error_set(err, RUSH_EARGUMENT,
                   "%s: byte %zu is set, and version %s of the library has %zu bytes: the caller "
                   "was built for a newer one",
                   name, at, rush_version(), n_bytes);
}

rush_status api_read(rush_error *err, const char *name, size_t least, const void *from, void *to,
                     size_t n_bytes)
{
  const unsigned char *bytes = from;
  size_t has;

  memcpy(&has, from, sizeof has);
  if (LIKELY(has == n_bytes)) {
    memcpy(to, from, n_bytes);
    return RUSH_OK;
  }
  if (has < (least ? least : sizeof has) || has > MOST_BYTES)
    return error_set(err, RUSH_EARGUMENT,
                     "struct_bytes of a %s is %zu: it should be sizeof(%s), which is %zu here",
                     name, has, name, n_bytes);
  for (size_t i = n_bytes; i < has; i++)
    if (bytes[i])
      return refuse_unknown(err, name, i, n_bytes);
  if (has < n_bytes)
    memset((char *)to + has, 0, n_bytes - has);
  memcpy(to, from, has < n_bytes ? has : n_bytes);
  memcpy(to, &n_bytes, sizeof n_bytes);
  return RUSH_OK;
}

rush_status api_need(rush_error *err, const char *name, const char *entry, bool is_there)
{
  return is_there ? RUSH_OK
                  : error_set(err, RUSH_EARGUMENT, "a %s needs its entry '%s', which is NULL", name,
                              entry);
}

void api_fill(void *to, const void *from, size_t n_bytes)
{
  size_t room;

  memcpy(&room, to, sizeof room);
  if (room < sizeof room)
    return;
  if (room > n_bytes)
    room = n_bytes;
  memcpy(to, from, room);
  memcpy(to, &room, sizeof room);
}
