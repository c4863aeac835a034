/* base/table.c -- the hash table of table.h and its hash function. Entries are in an array in
 * insertion order; slots hold an entry's number and half of its hash, so that probing reads few
 * entries. The hash multiplies 64 bits at a time (wyhash's mixing) and has no secret key: chosen
 * keys can slow a table down, which the limits on input bound. Cost: O(1) expected; removed entries
 * are dropped when the table grows. */
#include "base/table.h"

#include "base/macros.h"

#define FIRST_SLOTS 8u

/* -- Hash -------------------------------------------------------------------------------------- */

/* Mix 64 bits: fold the halves of the 128-bit product. */
static inline uint64_t mix(uint64_t a, uint64_t b)
{
  unsigned __int128 p = (unsigned __int128)a * b;
  return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static inline uint64_t load64(const unsigned char *p)
{
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}

uint64_t hash_bytes(const void *data, size_t len)
{
  const uint64_t k0 = UINT64_C(0x9e3779b97f4a7c15), k1 = UINT64_C(0xd6e8feb86659fd93);
  const unsigned char *p = data;
  uint64_t h = k1 ^ len;
  size_t rest = len;
  for (; rest > 8; rest -= 8, p += 8)
    h = mix(h ^ load64(p), k0);
  uint64_t last = 0;
  if (rest) /* `data` may be NULL when there is none */
    memcpy(&last, p, rest);
  return mix(mix(h ^ last, k0) ^ k1, k0);
}

/* -- Table ------------------------------------------------------------------------------------- */

void table_init(table *t, context *c) { *t = (table){.ctx = c}; }

void table_free(table *t)
{
  mem_free(t->ctx, t->entries, t->cap * sizeof *t->entries);
  mem_free(t->ctx, t->slots, 2 * (size_t)t->n_slots * sizeof *t->slots);
  table_init(t, t->ctx);
}

static inline uint64_t hash_key(str key)
{
  return key.len == TABLE_ADDRESS ? hash_bytes(&key.p, sizeof key.p) : hash_bytes(key.p, key.len);
}
static inline bool same_key(str a, str b)
{
  return a.len == TABLE_ADDRESS || b.len == TABLE_ADDRESS ? a.p == b.p && a.len == b.len
                                                          : str_eq(a, b);
}

/* Return the entry with this key, or NULL. */
static table_entry *find_entry(const table *t, str key, uint64_t hash)
{
  if (!t->n_slots)
    return NULL;
  uint32_t mask = t->n_slots - 1;
  uint32_t tag = (uint32_t)(hash >> 32);
  for (uint32_t i = (uint32_t)hash & mask; t->slots[2 * i]; i = (i + 1) & mask) {
    table_entry *e = &t->entries[t->slots[2 * i] - 1];
    if (t->slots[2 * i + 1] == tag && e->hash == hash && e->value && same_key(e->key, key))
      return e;
  }
  return NULL;
}

/* Fill a slot for entry `index`.  A slot is two numbers: entry + 1, and half of its hash, so that a
 * search reads only entries that probably match. */
static void slot_fill(table *t, uint32_t index)
{
  uint32_t mask = t->n_slots - 1;
  uint64_t hash = t->entries[index].hash;
  uint32_t i = (uint32_t)hash & mask;
  while (t->slots[2 * i])
    i = (i + 1) & mask;
  t->slots[2 * i] = index + 1;
  t->slots[2 * i + 1] = (uint32_t)(hash >> 32);
}

/* Make room for one more entry.  Removed entries are dropped here, because every slot is filled
 * anew. */
static bool grow_slots(table *t)
{
  uint32_t n_slots = FIRST_SLOTS;
  while (n_slots / 4 * 3 < t->n_live + t->n_live / 2 + 1) {
    if (n_slots > UINT32_MAX / 4)
      return false;
    n_slots *= 2;
  }
  uint32_t cap = n_slots / 4 * 3;
  table_entry *entries = mem_alloc(t->ctx, cap * sizeof *entries);
  uint32_t *slots = mem_alloc_zero(t->ctx, 2 * (size_t)n_slots * sizeof *slots);
  if (!entries || !slots) {
    mem_free(t->ctx, entries, cap * sizeof *entries);
    mem_free(t->ctx, slots, 2 * (size_t)n_slots * sizeof *slots);
    return false;
  }
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->n; i++)
    if (t->entries[i].value)
      entries[n++] = t->entries[i];
  mem_free(t->ctx, t->entries, t->cap * sizeof *t->entries);
  mem_free(t->ctx, t->slots, 2 * (size_t)t->n_slots * sizeof *t->slots);
  t->entries = entries;
  t->slots = slots;
  t->n = t->n_live = n;
  t->cap = cap;
  t->n_slots = n_slots;
  for (uint32_t i = 0; i < n; i++)
    slot_fill(t, i);
  return true;
}

void *table_get(const table *t, str key)
{
  table_entry *e = find_entry(t, key, hash_key(key));
  return e ? e->value : NULL;
}

/* Add an entry; its key must be absent. */
static bool add_entry(table *t, str key, uint64_t hash, void *value)
{
  ASSERT(value != NULL, "NULL marks removed entries");
  if (t->n == t->cap && !grow_slots(t))
    return false;
  t->entries[t->n] = (table_entry){key, hash, value};
  slot_fill(t, t->n++);
  t->n_live++;
  return true;
}

bool table_put(table *t, str key, void *value)
{
  ASSERT(value != NULL, "NULL marks removed entries");
  uint64_t hash = hash_key(key);
  table_entry *e = find_entry(t, key, hash);
  if (!e)
    return add_entry(t, key, hash, value);
  e->key = key; /* the new key lives as long as the new value */
  e->value = value;
  return true;
}

void *table_remove(table *t, str key)
{
  table_entry *e = find_entry(t, key, hash_key(key));
  if (!e)
    return NULL;
  void *value = e->value;
  e->value = NULL; /* the entry stays in its chain until the next growth */
  e->key = (str){NULL, 0};
  t->n_live--;
  return value;
}
