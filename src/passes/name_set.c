/* passes/name_set.c -- name sets (name_set.h): linear search while small, then an open-addressed
 * hash table.  Rejected: base/table.c, which allocates beside the session's arena: nearly all sets
 * are scopes of a few variables. */
#include "passes/name_set.h"
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 8 };

uint32_t name_hash(const char *name)
{
  uint32_t h = 2166136261u;
  for (; *name; name++)
    h = (h ^ (unsigned char)*name) * 16777619u;
  return h ^ h >> 15;
}

static bool is_at(const name_set *t, uint32_t i, const char *name, uint32_t hash)
{
  return t->hashes[i] == hash && (t->names[i] == name || strcmp(t->names[i], name) == 0);
}

int32_t name_find(const name_set *t, const char *name, uint32_t hash)
{
  if (!t->slots) {
    for (uint32_t i = 0; i < t->n; i++)
      if (is_at(t, i, name, hash))
        return (int32_t)i;
    return -1;
  }
  uint32_t mask = t->n_slots - 1;
  for (uint32_t at = hash & mask; t->slots[at]; at = (at + 1) & mask)
    if (is_at(t, t->slots[at] - 1, name, hash))
      return (int32_t)(t->slots[at] - 1);
  return -1;
}

static void fill_slot(name_set *t, uint32_t i)
{
  uint32_t mask = t->n_slots - 1, at = t->hashes[i] & mask;
  ASSERT((t->n_slots & mask) == 0 && t->n <= t->n_slots / 2, "a power of 2, at most half full");
  while (t->slots[at])
    at = (at + 1) & mask;
  t->slots[at] = i + 1;
}

static void grow_set(session *s, name_set *t)
{
  uint32_t cap = t->cap;
  GROW(s, t->hashes, t->n, cap, 4);
  GROW(s, t->names, t->n, t->cap, 4);
  if (cap <= SMALL)
    return;
  t->n_slots = cap * 2;
  t->slots = session_array(s, uint32_t, t->n_slots);
  for (uint32_t i = 0; i < t->n; i++)
    fill_slot(t, i);
}

bool name_add(session *s, name_set *t, const char *name, uint32_t hash)
{
  ASSERT_SLOW(hash == name_hash(name) && name_find(t, name, hash) < 0);
  bool grew = t->n == t->cap;
  if (grew)
    grow_set(s, t);
  t->names[t->n] = name;
  t->hashes[t->n] = hash;
  t->n++;
  if (t->slots)
    fill_slot(t, t->n - 1);
  return grew;
}

static int by_name(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char **names_sorted(session *s, const name_set *a, const name_set *b, uint32_t *n)
{
  const char **out = session_array(s, const char *, a->n + (b ? b->n : 0));
  uint32_t k = a->n;
  if (k)
    memcpy(out, a->names, k * sizeof *out);
  for (uint32_t i = 0; b && i < b->n; i++)
    if (name_find(a, b->names[i], b->hashes[i]) < 0)
      out[k++] = b->names[i];
  if (k > 1)
    qsort(out, k, sizeof *out, by_name);
  *n = k;
  return out;
}
