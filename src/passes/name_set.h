/* passes/name_set.h -- sets of names that number them: the number is an index into arrays beside
 * the set.
 *
 * Small sets are searched in order, larger ones by hash.  Memory is the session's. */
#ifndef RUSH_PASSES_NAME_SET_H
#define RUSH_PASSES_NAME_SET_H

#include "base/session.h"

typedef struct name_set {
  const char **names;
  uint32_t *hashes, *slots; /* slots: number + 1, or 0; NULL while the set is small */
  uint32_t n, cap, n_slots;
} name_set;

uint32_t name_hash(const char *name);
/* Return the name's number, or -1. */
int32_t name_find(const name_set *t, const char *name, uint32_t hash);
/* Add a new name; its number is n - 1 afterwards.  Returns true if `cap` grew: then the arrays
 * beside it must grow too. */
bool name_add(session *s, name_set *t, const char *name, uint32_t hash);
/* Return the distinct names of both sets (b may be NULL), sorted; *n is their number. */
const char **names_sorted(session *s, const name_set *a, const name_set *b, uint32_t *n);

#endif
