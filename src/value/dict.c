/* value/dict.c -- dicts that keep insertion order: an array of entries and an open-addressed table
 * of entry numbers. (No base/table.c: keys are values, and 1 == 1.0 == True.) Slots hold entry
 * numbers + 1. A removed entry keeps its slot (key UNSET) until the next rebuild, so probing needs
 * no tombstones of its own. The layout is CPython's; a table of entries would be smaller but could
 * not keep the order. Cost: O(1) expected per operation, O(n) for a rebuild. */
#include <string.h>

#include "base/macros.h"
#include "base/table.h"
#include "value/value.h"



rush_status dict_new(call_ctx *cx, const type *key, const type *value, rush_dict **out)
{
  rush_dict *d = mem_alloc_zero(cx->ctx, sizeof *d);
  if (!d)
    return call_nomem(cx);
  heap_init(&d->h, cx->ctx, RUSH_TAG_DICT);
  type_retain(key);
  type_retain(value);
  d->key = key;
  d->value = value;
  *out = d;
  return RUSH_OK;
}

static uint64_t hash_key(rush_value k)
{
  if (k.tag == RUSH_TAG_STRING)
    return hash_bytes(k.as.string->text, k.as.string->len);
  if (k.tag == RUSH_TAG_COMPLEX) {
    double parts[2] = {value_complex(k)->re + 0.0, value_complex(k)->im + 0.0}; /* no -0 */
    return hash_bytes(parts, sizeof parts);
  }
  if (k.tag == RUSH_TAG_FLOAT)
    k.as.d += 0.0;
  if (k.tag == RUSH_TAG_BOOL)
    k.as.i = k.as.b;
  return hash_bytes(&k.as.i, sizeof k.as.i);
}

static bool same_key(rush_value a, rush_value b)
{
  if (a.tag != b.tag)
    return false;
  switch ((int)a.tag) {
  case RUSH_TAG_STRING:
    return str_eq(value_str(a), value_str(b));
  case RUSH_TAG_FLOAT:
    return a.as.d == b.as.d;
  case RUSH_TAG_COMPLEX:
    return value_complex(a)->re == value_complex(b)->re &&
           value_complex(a)->im == value_complex(b)->im;
  case RUSH_TAG_BOOL:
    return a.as.b == b.as.b;
  default: /* int; tensors and enum members by identity */
    return a.as.i == b.as.i;
  }
}

static dict_entry *find_key(const rush_dict *d, rush_value key, uint64_t hash)
{
  if (!d->n_slots)
    return NULL;
  size_t mask = d->n_slots - 1;
  for (size_t i = hash & mask; d->slots[i]; i = (i + 1) & mask) {
    dict_entry *e = &d->entries[d->slots[i] - 1];
    if (e->hash == hash && same_key(e->key, key))
      return e;
  }
  return NULL;
}

rush_value *dict_get(const rush_dict *d, rush_value key)
{
  dict_entry *e = find_key(d, key, hash_key(key));
  return e ? &e->value : NULL;
}

static void link_entry(rush_dict *d, size_t i)
{
  size_t mask = d->n_slots - 1, at = d->entries[i].hash & mask;
  while (d->slots[at])
    at = (at + 1) & mask;
  d->slots[at] = (uint32_t)i + 1;
}

/* Make room for one more entry: compact removed ones, growing if less than a quarter was
 * removed. */
static rush_status make_room(call_ctx *cx, rush_dict *d)
{
  context *c = d->h.ctx;
  size_t cap = d->n + d->n / 3 < d->cap ? d->cap : d->cap < 4 ? 8 : d->cap * 2;
  size_t n_slots = 16;
  while (n_slots < cap * 2)
    n_slots *= 2;
  if (cap >= UINT32_MAX)
    return call_nomem(cx);
  uint32_t *slots = mem_alloc_zero(c, n_slots * sizeof *slots);
  dict_entry *entries = slots ? mem_alloc(c, cap * sizeof *entries) : NULL;
  if (!entries) {
    mem_free(c, slots, n_slots * sizeof *slots);
    return call_nomem(cx);
  }
  size_t n = 0;
  for (size_t i = 0; i < d->n_used; i++)
    if (d->entries[i].key.tag != RUSH_TAG_UNSET)
      entries[n++] = d->entries[i];
  mem_free(c, d->entries, d->cap * sizeof *d->entries);
  mem_free(c, d->slots, d->n_slots * sizeof *d->slots);
  d->entries = entries;
  d->cap = cap;
  d->slots = slots;
  d->n_slots = n_slots;
  d->n_used = n;
  for (size_t i = 0; i < n; i++)
    link_entry(d, i);
  return RUSH_OK;
}

rush_status dict_set_steal(call_ctx *cx, rush_dict *d, rush_value key, rush_value value)
{
  uint64_t hash = hash_key(key);
  dict_entry *e = find_key(d, key, hash);
  if (e) {
    rush_value old = e->value;
    e->value = value;
    value_release(key);
    value_release(old);
    return RUSH_OK;
  }
  if (d->n_used == d->cap) {
    rush_status st = make_room(cx, d);
    if (st != RUSH_OK) {
      value_release(key);
      value_release(value);
      return st;
    }
  }
  d->entries[d->n_used] = (dict_entry){.key = key, .value = value, .hash = hash};
  link_entry(d, d->n_used++);
  d->n++;
  return RUSH_OK;
}

bool dict_remove(rush_dict *d, rush_value key, rush_value *value)
{
  dict_entry *e = find_key(d, key, hash_key(key));
  if (!e)
    return false;
  rush_value old_key = e->key, old = e->value;
  e->key = value_unset();
  e->value = value_none();
  d->n--;
  value_release(old_key);
  if (value)
    *value = old;
  else
    value_release(old);
  return true;
}

void dict_clear(rush_dict *d)
{
  dict_entry *entries = d->entries; /* releasing may look at the dict */
  size_t n = d->n_used, cap = d->cap;
  mem_free(d->h.ctx, d->slots, d->n_slots * sizeof *d->slots);
  d->entries = NULL;
  d->slots = NULL;
  d->n = d->n_used = d->cap = d->n_slots = 0;
  for (size_t i = 0; i < n; i++) {
    if (entries[i].key.tag == RUSH_TAG_UNSET)
      continue;
    value_release(entries[i].key);
    value_release(entries[i].value);
  }
  mem_free(d->h.ctx, entries, cap * sizeof *entries);
}

dict_entry *dict_next(const rush_dict *d, size_t *pos)
{
  while (*pos < d->n_used) {
    dict_entry *e = &d->entries[(*pos)++];
    if (e->key.tag != RUSH_TAG_UNSET)
      return e;
  }
  return NULL;
}
