/* value/list.c -- lists: an array that doubles. Reserving never shrinks, and capacity is checked
 * for overflow. Cost: O(1) amortised per append. */
#include <string.h>

#include "base/macros.h"
#include "value/value.h"

rush_status list_new(call_ctx *cx, const type *elem, size_t cap, rush_list **out)
{
  rush_list *l = mem_alloc(cx->ctx, sizeof *l);
  if (!l)
    return call_nomem(cx);
  heap_init(&l->h, cx->ctx, RUSH_TAG_LIST);
  type_retain(elem);
  l->elem = elem;
  l->n = l->cap = 0;
  l->items = NULL;
  rush_status st = cap ? list_reserve(cx, l, cap) : RUSH_OK;
  if (st == RUSH_OK)
    *out = l;
  else
    value_release(value_heap_steal(RUSH_TAG_LIST, l));
  return st;
}

rush_status list_reserve(call_ctx *cx, rush_list *l, size_t cap)
{
  size_t bytes;
  if (cap <= l->cap)
    return RUSH_OK;
  if (!size_mul(cap, sizeof *l->items, &bytes))
    return call_nomem(cx);
  rush_value *items;
  if (l->h.flags & VALUE_IN_ARENA) { /* its items are not ours to resize */
    items = mem_alloc(l->h.ctx, bytes);
    if (items && l->n)
      memcpy(items, l->items, l->n * sizeof *items);
  } else {
    items = mem_realloc(l->h.ctx, l->items, l->cap * sizeof *items, bytes);
  }
  if (!items)
    return call_nomem(cx);
  l->items = items;
  l->cap = cap;
  return RUSH_OK;
}

rush_status list_out_of_range(call_ctx *cx)
{
  return error_set_type(cx->err, RUSH_ERAISED, "IndexError", "list index out of range");
}

rush_status list_append_steal(call_ctx *cx, rush_list *l, rush_value v)
{
  if (l->n == l->cap) {
    rush_status st = list_reserve(cx, l, l->cap < 4 ? 4 : l->cap + l->cap / 2);
    if (st != RUSH_OK) {
      value_release(v);
      return st;
    }
  }
  l->items[l->n++] = v;
  return RUSH_OK;
}

rush_status list_of_ints(call_ctx *cx, const int64_t *v, size_t n, rush_value *out)
{
  rush_list *l;
  TRY(list_new(cx, type_simple(TYPE_INT), n, &l));
  for (size_t i = 0; i < n; i++)
    l->items[i] = value_int(v[i]);
  l->n = n;
  *out = value_heap_steal(RUSH_TAG_LIST, l);
  return RUSH_OK;
}
