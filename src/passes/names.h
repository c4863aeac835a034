/* passes/names.h -- names to numbers: which slot of an array beside it a name has.
 *
 * Small sets are searched in order, larger ones by hash.  Memory is the session's. */
#ifndef RUSH_PASSES_NAMES_H
#define RUSH_PASSES_NAMES_H

#include "base/session.h"

typedef struct name_set {
  const char **names;
  uint32_t *hashes, *slots; /* slots: number + 1, or 0; NULL while the set is small */
  uint32_t n, cap, n_slots;
} name_set;

uint32_t name_hash(const char *name);
/* The name's number, or -1. */
int32_t name_find(const name_set *t, const char *name, uint32_t hash);
/* A name that is not there yet: its number is n - 1 afterwards.  True when `cap` grew: arrays
 * beside it follow. */
bool name_add(session *s, name_set *t, const char *name, uint32_t hash);
/* The names of both sets (b may be NULL), each once, sorted; *n: how many. */
const char **names_sorted(session *s, const name_set *a, const name_set *b, uint32_t *n);

#endif
