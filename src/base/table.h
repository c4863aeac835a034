/* base/table.h -- hash table from byte strings, or addresses, to pointers.
 *
 * Open addressing; keeps the insertion order.  Keys are borrowed: they must live as long as the
 * table (in an arena, or inside the values).  A key made by address_key is the address itself, for
 * tables of objects by identity: nothing is read there.  table_put returns false if memory runs
 * out.  One thread at a time. */
#ifndef RUSH_BASE_TABLE_H
#define RUSH_BASE_TABLE_H

#include "base/text.h"

typedef struct table_entry {
  str key;
  uint64_t hash;
  void *value;
} table_entry;
typedef struct table {
  context *ctx;
  table_entry *entries; /* in insertion order; value NULL after removal */
  uint32_t *slots;      /* index + 1 into entries, or 0 */
  uint32_t n, n_live, cap, n_slots;
} table;

void table_init(table *t, context *c);
void table_free(table *t);
void *table_get(const table *t, str key); /* NULL: not found */
bool table_put(table *t, str key, void *value) RUSH_CHECKED; /* replaces an existing value */
void *table_remove(table *t, str key);    /* returns the removed value, or NULL */
uint64_t hash_bytes(const void *p, size_t len);

#define TABLE_ADDRESS SIZE_MAX /* the length of such a key */
static inline str address_key(const void *p) { return (str){p, TABLE_ADDRESS}; }

#endif
