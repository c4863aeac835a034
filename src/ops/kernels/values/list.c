/* ops/kernels/values/list.c -- operators on lists.
 *
 * A kernel never keeps a pointer into a list across a release of an item, because a destructor may
 * change the list. */
#include "base/macros.h"
#include "ops/point/scalar.h"

#define RETURN_INT(e) return call->results[0] = value_int(e), RUSH_OK
#define RETURN_BOOL(e) return call->results[0] = value_bool(e), RUSH_OK

static void return_list(rush_call *call, rush_list *l)
{
  call->results[0] = value_heap_steal(RUSH_TAG_LIST, l);
}

/* -- One item ---------------------------------------------------------------------------------- */

/* Remove the item at i; the caller owns the reference. */
static rush_value take_item(rush_list *l, int64_t i)
{
  rush_value v = l->items[i];
  l->n--;
  memmove(l->items + i, l->items + i + 1, (l->n - (size_t)i) * sizeof v);
  return v;
}

rush_kernel kernel_list_len, kernel_list_getitem, kernel_list_setitem, kernel_list_append;
rush_status kernel_list_len(rush_call *call) { RETURN_INT((int64_t)call_list(call, 0)->n); }

rush_status kernel_list_getitem(rush_call *call)
{
  const rush_list *l = call_list(call, 0);
  int64_t i = list_index(l, call_int(call, 1));
  if (i < 0)
    return list_out_of_range(call->cx);
  call->results[0] = value_retain(l->items[i]);
  return RUSH_OK;
}

rush_status kernel_list_setitem(rush_call *call)
{
  rush_list *l = call_list(call, 0);
  int64_t i = list_index(l, call_int(call, 1));
  if (i < 0)
    return list_out_of_range(call->cx);
  list_set_steal(l, i, value_retain(call->args[2]));
  call_return_arg(call, 0, 0);
  return RUSH_OK;
}

rush_status kernel_list_append(rush_call *call)
{
  TRY(list_append_steal(call->cx, call_list(call, 0), value_retain(call->args[1])));
  call_return_arg(call, 0, 0);
  return RUSH_OK;
}

rush_kernel kernel_list_insert, kernel_list_pop, kernel_list_delete, kernel_list_clear;
rush_status kernel_list_insert(rush_call *call)
{
  rush_list *l = call_list(call, 0);
  int64_t n = (int64_t)l->n, i = index_wrap(call_int(call, 1), l->n);
  i = i < 0 ? 0 : i > n ? n : i;
  TRY(list_append_steal(call->cx, l, value_retain(call->args[2])));
  rush_value v = l->items[n];
  memmove(l->items + i + 1, l->items + i, (size_t)(n - i) * sizeof v);
  l->items[i] = v;
  return RUSH_OK;
}

rush_status kernel_list_pop(rush_call *call)
{
  rush_list *l = call_list(call, 0);
  if (l->n == 0)
    return call_fail(call->cx, "pop from empty list");
  int64_t i = list_index(l, call_int(call, 1));
  if (i < 0)
    return list_out_of_range(call->cx);
  call->results[0] = take_item(l, i);
  return RUSH_OK;
}

rush_status kernel_list_delete(rush_call *call)
{
  rush_list *l = call_list(call, 0);
  int64_t i = list_index(l, call_int(call, 1));
  if (i < 0)
    return call_fail(call->cx, "pop index out of range");
  value_release(take_item(l, i));
  return RUSH_OK;
}

rush_status kernel_list_clear(rush_call *call)
{
  rush_list *l = call_list(call, 0);
  while (l->n)
    value_release(l->items[--l->n]);
  return RUSH_OK;
}

/* -- Whole lists ------------------------------------------------------------------------------- */

/* Append n items of `from`, which may be l itself, in steps; there must be room. */
static rush_status fill_items(call_ctx *cx, rush_list *l, const rush_list *from, int64_t start,
                              int64_t step, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    TRY(call_poll_at(cx, (int64_t)i));
    l->items[l->n++] = value_retain(from->items[start + (int64_t)i * step]);
  }
  return RUSH_OK;
}

/* Append items[0..n), which may be l's own. */
static rush_status append_items(call_ctx *cx, rush_list *l, const rush_list *from, size_t n)
{
  size_t total;
  if (!size_add(l->n, n, &total))
    return call_nomem(cx);
  TRY(list_reserve(cx, l, total));
  return fill_items(cx, l, from, 0, 1, n);
}

static void drop_list(rush_list *l) { value_release(value_heap_steal(RUSH_TAG_LIST, l)); }

static rush_status copy_list(rush_call *call, const rush_list *l, size_t cap, rush_list **out)
{
  rush_list *c;
  TRY(list_new(call->cx, l->elem, cap, &c));
  rush_status st = fill_items(call->cx, c, l, 0, 1, l->n);
  if (st == RUSH_OK)
    *out = c;
  else
    drop_list(c);
  return st;
}

static rush_status return_filled(rush_call *call, rush_list *c, rush_status st)
{
  if (st == RUSH_OK)
    return_list(call, c);
  else
    drop_list(c);
  return st;
}

rush_kernel kernel_list_extend, kernel_list_reverse, kernel_list_copy, kernel_list_slice,
  kernel_list_add, kernel_list_add_;
rush_status kernel_list_extend(rush_call *call)
{
  const rush_list *other = call_list(call, 1);
  return append_items(call->cx, call_list(call, 0), other, other->n);
}

rush_status kernel_list_reverse(rush_call *call)
{
  rush_list *l = call_list(call, 0);
  for (size_t i = 0, j = l->n; i + 1 < j; i++) {
    TRY(call_poll_at(call->cx, (int64_t)i));
    rush_value v = l->items[--j];
    l->items[j] = l->items[i];
    l->items[i] = v;
  }
  return RUSH_OK;
}

rush_status kernel_list_copy(rush_call *call)
{
  rush_list *c;
  TRY(copy_list(call, call_list(call, 0), call_list(call, 0)->n, &c));
  return_list(call, c);
  return RUSH_OK;
}

rush_status kernel_list_add(rush_call *call)
{
  const rush_list *a = call_list(call, 0), *b = call_list(call, 1);
  size_t total;
  rush_list *c;
  if (!size_add(a->n, b->n, &total))
    return call_nomem(call->cx);
  TRY(copy_list(call, a, total, &c));
  return return_filled(call, c, fill_items(call->cx, c, b, 0, 1, b->n));
}

rush_status kernel_list_add_(rush_call *call)
{
  TRY(kernel_list_extend(call));
  call_return_arg(call, 0, 0);
  return RUSH_OK;
}

rush_status kernel_list_slice(rush_call *call)
{
  const rush_list *l = call_list(call, 0);
  int64_t step = call_int(call, 3), start, n;
  if (step == 0)
    return call_fail(call->cx, "List slice should have non-zero step");
  n = slice_adjust((int64_t)l->n, call->args[1], call->args[2], step, &start);
  rush_list *c;
  TRY(list_new(call->cx, l->elem, (size_t)n, &c));
  return return_filled(call, c, fill_items(call->cx, c, l, start, step, (size_t)n));
}

static rush_status repeat(rush_call *call, const rush_list *l, int64_t times)
{
  size_t total;
  rush_list *c;
  if (!size_mul(l->n, times > 0 ? (size_t)times : 0, &total))
    return call_nomem(call->cx);
  TRY(list_new(call->cx, l->elem, total, &c));
  rush_status st = RUSH_OK;
  for (size_t i = 0; i < total && st == RUSH_OK; i++) {
    c->items[c->n++] = value_retain(l->items[i % l->n]);
    st = call_poll_at(call->cx, (int64_t)i);
  }
  return return_filled(call, c, st);
}

rush_kernel kernel_list_mul, kernel_list_mul_right, kernel_list_mul_;
rush_status kernel_list_mul(rush_call *call)
{
  return repeat(call, call_list(call, 0), call_int(call, 1));
}
rush_status kernel_list_mul_right(rush_call *call)
{
  return repeat(call, call_list(call, 1), call_int(call, 0));
}

rush_status kernel_list_mul_(rush_call *call)
{
  rush_list *l = call_list(call, 0);
  int64_t times = call_int(call, 1);
  size_t n = l->n, total;
  if (times <= 0) {
    TRY(kernel_list_clear(call));
  } else {
    if (!size_mul(n, (size_t)times, &total))
      return call_nomem(call->cx);
    TRY(list_reserve(call->cx, l, total));
    while (l->n < total) {
      rush_value v = value_retain(l->items[l->n - n]);
      l->items[l->n++] = v;
      TRY(call_poll_at(call->cx, (int64_t)l->n));
    }
  }
  call_return_arg(call, 0, 0);
  return RUSH_OK;
}

/* -- Searching --------------------------------------------------------------------------------- */

/* Find the first item equal to v from `from` on; n if there is none. */
static rush_status find_item(rush_call *call, const rush_list *l, size_t from, rush_value v,
                             size_t *out)
{
  size_t i;
  bool same = false;
  for (i = from; i < l->n; i++) {
    TRY(call_poll_at(call->cx, (int64_t)i));
    TRY(value_equal(call->cx, l->items[i], v, &same));
    if (same)
      break;
  }
  *out = i;
  return RUSH_OK;
}

rush_kernel kernel_list_remove, kernel_list_count, kernel_list_index, kernel_list_contains;
rush_status kernel_list_remove(rush_call *call)
{
  rush_list *l = call_list(call, 0);
  size_t i;
  TRY(find_item(call, l, 0, call->args[1], &i));
  if (i == l->n)
    return call_fail(call->cx, "list.remove(x): x not in list");
  value_release(take_item(l, (int64_t)i));
  return RUSH_OK;
}

rush_status kernel_list_count(rush_call *call)
{
  const rush_list *l = call_list(call, 0);
  int64_t n = 0;
  size_t i = 0;
  for (;;) {
    TRY(find_item(call, l, i, call->args[1], &i));
    if (i++ == l->n)
      break;
    n++;
  }
  RETURN_INT(n);
}

/* Fail with the element printed as by a C++ stream. */
static rush_status not_in_list(rush_call *call)
{
  rush_value v = call->args[1];
  text_buf t;
  text_init(&t, call->cx->ctx);
  rush_status st = RUSH_OK;
  if (v.tag == RUSH_TAG_FLOAT)
    text_printf(&t, "%g", v.as.d);
  else if (v.tag == RUSH_TAG_BOOL)
    text_putc(&t, v.as.b ? '1' : '0');
  else
    st = value_print(call->cx, &t, v);
  if (st == RUSH_OK)
    st = call_fail(call->cx, "'%s' is not in list", text_str(&t));
  text_free(&t);
  return st;
}

rush_status kernel_list_index(rush_call *call)
{
  const rush_list *l = call_list(call, 0);
  size_t i;
  TRY(find_item(call, l, 0, call->args[1], &i));
  if (i == l->n)
    return not_in_list(call);
  RETURN_INT((int64_t)i);
}

rush_status kernel_list_contains(rush_call *call)
{
  const rush_list *l = call_list(call, 0);
  size_t i;
  TRY(find_item(call, l, 0, call->args[1], &i));
  RETURN_BOOL(i < l->n);
}

static rush_status equal_lists(rush_call *call, bool *out)
{
  const rush_list *a = call_list(call, 0), *b = call_list(call, 1);
  bool same = a->n == b->n;
  for (size_t i = 0; same && i < a->n;
       i++) { /* not by identity: a list with a NaN is unequal to itself */
    TRY(call_poll_at(call->cx, (int64_t)i));
    TRY(value_equal(call->cx, a->items[i], b->items[i], &same));
  }
  *out = same;
  return RUSH_OK;
}

rush_kernel kernel_list_eq, kernel_list_ne;
rush_status kernel_list_eq(rush_call *call)
{
  bool same;
  TRY(equal_lists(call, &same));
  RETURN_BOOL(same);
}

rush_status kernel_list_ne(rush_call *call)
{
  bool same;
  TRY(equal_lists(call, &same));
  RETURN_BOOL(!same);
}

/* -- Order ------------------------------------------------------------------------------------- */

static rush_status is_less(call_ctx *cx, rush_value a, rush_value b, bool *out);

static rush_status tuple_less(call_ctx *cx, const rush_tuple *a, const rush_tuple *b, bool *out)
{
  size_t n = a->n < b->n ? a->n : b->n;
  for (size_t i = 0; i < n; i++) {
    bool same;
    TRY(value_equal(cx, a->items[i], b->items[i], &same));
    if (!same)
      return is_less(cx, a->items[i], b->items[i], out);
  }
  *out = a->n < b->n;
  return RUSH_OK;
}

/* Compare by the class's own __lt__. */
static rush_status object_less(call_ctx *cx, rush_value a, rush_value b, bool *out)
{
  const op_body_runtime *rt = context_slot_get(cx->ctx, SLOT_PROGRAM);
  rush_value args[2] = {a, b}, less;
  if (a.tag != RUSH_TAG_OBJECT || !rt)
    return call_fail(
      cx, "Only list of Tensors, ints, floats, bools, strs or objects with __lt__ can be sorted");
  TRY(rt->method(cx, "__lt__", args, 2, &less));
  *out = less.tag == RUSH_TAG_BOOL && less.as.b;
  value_release(less);
  return less.tag == RUSH_TAG_BOOL ? RUSH_OK : call_fail(cx, "__lt__ must return a bool");
}

static rush_status tensor_less(call_ctx *cx, rush_value a, rush_value b, bool *out)
{
  rush_value x, y;
  if (!a.as.tensor || !b.as.tensor) /* lists of any type may hold undefined ones */
    return call_fail(cx, "an undefined Tensor cannot be sorted");
  TRY(tensor_item(cx, a.as.tensor, &x));
  rush_status st = tensor_item(cx, b.as.tensor, &y);
  if (st == RUSH_OK) {
    st = is_less(cx, x, y, out);
    value_release(y);
  }
  value_release(x);
  return st;
}

static rush_status is_less(call_ctx *cx, rush_value a, rush_value b, bool *out)
{
  rush_status st;
  if (a.tag != b.tag)
    return call_fail(cx, "values of different types cannot be sorted");
  switch ((int)a.tag) {
  case RUSH_TAG_BOOL:
    *out = a.as.b < b.as.b;
    return RUSH_OK;
  case RUSH_TAG_INT:
    *out = a.as.i < b.as.i;
    return RUSH_OK;
  case RUSH_TAG_FLOAT:
    *out = a.as.d < b.as.d;
    return RUSH_OK;
  case RUSH_TAG_STRING:
    *out = str_compare(value_str(a), value_str(b)) < 0;
    return RUSH_OK;
  case RUSH_TAG_TENSOR:
    return tensor_less(cx, a, b, out);
  case RUSH_TAG_TUPLE:
    TRY(call_enter(cx));
    st = tuple_less(cx, a.as.tuple, b.as.tuple, out);
    call_leave(cx);
    return st;
  default:
    return object_less(cx, a, b, out);
  }
}

/* Merge from[lo, mid) and from[mid, hi) into to; equal items keep their order. */
static rush_status merge(call_ctx *cx, const rush_value *from, rush_value *to, size_t lo,
                         size_t mid, size_t hi, bool reverse)
{
  size_t i = lo, j = mid;
  for (size_t k = lo; k < hi; k++) {
    TRY(call_poll_at(cx, (int64_t)k));
    bool right = i == mid;
    if (i < mid && j < hi)
      TRY(reverse ? is_less(cx, from[i], from[j], &right) : is_less(cx, from[j], from[i], &right));
    to[k] = right ? from[j++] : from[i++];
  }
  return RUSH_OK;
}

/* Sort n items between two buffers; *a ends as the one with the result. */
static rush_status sort_items(call_ctx *cx, rush_value **a, rush_value **b, size_t n, bool reverse)
{
  for (size_t w = 1; w < n; w *= 2) {
    for (size_t lo = 0; lo < n; lo += 2 * w) {
      size_t mid = lo + w < n ? lo + w : n, hi = mid + w < n ? mid + w : n;
      TRY(merge(cx, *a, *b, lo, mid, hi, reverse));
    }
    rush_value *swap = *a;
    *a = *b;
    *b = swap;
  }
  return RUSH_OK;
}

/* Check objects before the first comparison, which may never happen. */
static rush_status check_sortable(call_ctx *cx, const rush_list *l)
{
  const op_body_runtime *rt = context_slot_get(cx->ctx, SLOT_PROGRAM);
  return rt && l->n && l->items[0].tag == RUSH_TAG_OBJECT
           ? rt->check_order(cx, l->items[0].as.object->type)
           : RUSH_OK;
}

/* Sort; a failure leaves the list unchanged.  The items are held: an object's __lt__ may change the
 * list. */
static rush_status sort_list(rush_call *call, rush_list *l, bool reverse)
{
  context *c = call->cx->ctx;
  const size_t n = l->n, bytes = n * sizeof(rush_value);
  TRY(check_sortable(call->cx, l));
  rush_value *held = mem_alloc(c, bytes), *a = mem_alloc(c, bytes), *b = mem_alloc(c, bytes);
  rush_status st = held && a && b ? RUSH_OK : call_nomem(call->cx);
  for (size_t i = 0; st == RUSH_OK && i < n; i++)
    a[i] = held[i] = value_retain(l->items[i]);
  const bool holds = st == RUSH_OK;
  if (st == RUSH_OK)
    st = sort_items(call->cx, &a, &b, n, reverse);
  if (st == RUSH_OK && l->n != n)
    st = call_fail(call->cx, "a list was changed while it was sorted");
  for (size_t i = 0; holds && i < n; i++) {
    rush_value old = st == RUSH_OK ? l->items[i] : held[i];
    if (st == RUSH_OK)
      l->items[i] = a[i]; /* takes over what is held */
    value_release(old);
  }
  mem_free(c, held, bytes);
  mem_free(c, a, bytes);
  mem_free(c, b, bytes);
  return st;
}

rush_kernel kernel_list_sort, kernel_list_sorted;
rush_status kernel_list_sort(rush_call *call)
{
  return sort_list(call, call_list(call, 0), call_bool(call, 1));
}

rush_status kernel_list_sorted(rush_call *call)
{
  rush_list *c;
  TRY(copy_list(call, call_list(call, 0), call_list(call, 0)->n, &c));
  rush_status st = sort_list(call, c, false);
  if (st == RUSH_OK)
    return_list(call, c);
  else
    value_release(value_heap_steal(RUSH_TAG_LIST, c));
  return st;
}

static rush_status extreme(rush_call *call, bool want_max)
{
  const rush_list *l = call_list(call, 0);
  if (l->n == 0)
    return call_fail(call->cx, "%s() arg is an empty sequence", want_max ? "max" : "min");
  rush_value best = l->items[0];
  for (size_t i = 1; i < l->n; i++) {
    bool less;
    TRY(call_poll_at(call->cx, (int64_t)i));
    TRY(want_max ? is_less(call->cx, best, l->items[i], &less)
                 : is_less(call->cx, l->items[i], best, &less));
    best = less ? l->items[i] : best;
  }
  call->results[0] = value_retain(best);
  return RUSH_OK;
}

/* Return the lexicographically smaller or larger of two lists. */
static rush_status extreme_pair(rush_call *call, bool want_max)
{
  const rush_list *a = call_list(call, 0), *b = call_list(call, 1);
  size_t n = a->n < b->n ? a->n : b->n;
  for (size_t i = 0; i < n; i++) {
    bool same, less;
    TRY(value_equal(call->cx, a->items[i], b->items[i], &same));
    if (same)
      continue;
    TRY(is_less(call->cx, a->items[i], b->items[i], &less));
    call_return_arg(call, 0, less != want_max ? 0 : 1);
    return RUSH_OK;
  }
  call_return_arg(call, 0, want_max ? (b->n > a->n) : (b->n < a->n));
  return RUSH_OK;
}

rush_kernel kernel_list_min, kernel_list_max, kernel_list_min_pair, kernel_list_max_pair;
rush_status kernel_list_min(rush_call *call) { return extreme(call, false); }
rush_status kernel_list_max(rush_call *call) { return extreme(call, true); }
rush_status kernel_list_min_pair(rush_call *call) { return extreme_pair(call, false); }
rush_status kernel_list_max_pair(rush_call *call) { return extreme_pair(call, true); }

/* -- Sums -------------------------------------------------------------------------------------- */

rush_kernel kernel_list_sum, kernel_list_any, kernel_list_all, kernel_rangelist;
rush_status kernel_list_sum(rush_call *call)
{
  const rush_list *l = call_list(call, 0);
  int64_t i = 0;
  double re = 0, im = 0;
  for (size_t k = 0; k < l->n; k++) {
    num v = num_of(l->items[k]);
    TRY(call_poll_at(call->cx, (int64_t)k));
    i = i64_add(i, v.i);
    re += v.re;
    im += v.im;
  }
  if (l->elem->kind == TYPE_COMPLEX)
    return complex_new(call->cx, re, im, &call->results[0]);
  call->results[0] = l->elem->kind == TYPE_FLOAT ? value_float(re) : value_int(i);
  return RUSH_OK;
}

static bool is_true(rush_value v)
{
  if (v.tag == RUSH_TAG_STRING)
    return v.as.string->len > 0;
  return v.tag == RUSH_TAG_BOOL ? v.as.b : v.tag == RUSH_TAG_FLOAT ? v.as.d != 0 : v.as.i != 0;
}

rush_status kernel_list_any(rush_call *call)
{
  const rush_list *l = call_list(call, 0);
  bool r = false;
  for (size_t i = 0; i < l->n && !call_over_at(call->cx, (int64_t)i); i++)
    r |= is_true(l->items[i]);
  RETURN_BOOL(r);
}

rush_status kernel_list_all(rush_call *call)
{
  const rush_list *l = call_list(call, 0);
  bool r = true;
  for (size_t i = 0; i < l->n && !call_over_at(call->cx, (int64_t)i); i++)
    r &= is_true(l->items[i]);
  RETURN_BOOL(r);
}

rush_status kernel_rangelist(rush_call *call)
{
  int64_t n = call_int(call, 0);
  rush_list *l;
  if (n < 0)
    return call_fail_type(call->cx, "ValueError", "vector::reserve");
  TRY(list_new(call->cx, type_simple(TYPE_INT), (size_t)n, &l));
  for (int64_t i = 0; i < n && !call_over_at(call->cx, i); i++)
    l->items[l->n++] = value_int(i);
  return_list(call, l);
  return RUSH_OK;
}

/* -- Sizes ------------------------------------------------------------------------------------- */

static rush_status broadcast(rush_call *call, const rush_list *a, const rush_list *b,
                             rush_list **out)
{
  size_t n = a->n > b->n ? a->n : b->n;
  rush_list *l;
  TRY(list_new(call->cx, type_simple(TYPE_INT), n, &l));
  for (size_t i = 0; i < n; i++) {
    int64_t x = i + a->n < n ? 1 : a->items[i + a->n - n].as.i;
    int64_t y = i + b->n < n ? 1 : b->items[i + b->n - n].as.i;
    if (x != y && x != 1 && y != 1) {
      value_release(value_heap_steal(RUSH_TAG_LIST, l));
      return call_fail(call->cx,
                       "The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                       "non-singleton dimension %zu",
                       (long long)x, (long long)y, i);
    }
    l->items[l->n++] = value_int(x == 1 ? y : x);
  }
  *out = l;
  return RUSH_OK;
}

rush_kernel kernel_infer_size, kernel_broadcast_sizes, kernel_reduction_sizes,
  kernel_size_if_not_equal;
rush_status kernel_infer_size(rush_call *call)
{
  rush_list *l;
  TRY(broadcast(call, call_list(call, 0), call_list(call, 1), &l));
  return_list(call, l);
  return RUSH_OK;
}

rush_status kernel_broadcast_sizes(rush_call *call)
{
  rush_list *l;
  TRY(list_new(call->cx, type_simple(TYPE_INT), 0, &l));
  for (uint32_t i = 0; i < call->n_args; i++) {
    rush_list *next = NULL;
    rush_status st = call_list(call, i)
                       ? broadcast(call, l, call_list(call, i), &next)
                       : call_fail(call->cx, "prim::BroadcastSizes: expected lists of ints");
    value_release(value_heap_steal(RUSH_TAG_LIST, l));
    TRY(st);
    l = next;
  }
  return_list(call, l);
  return RUSH_OK;
}

rush_status kernel_reduction_sizes(rush_call *call)
{
  const rush_list *size = call_list(call, 0), *axes = call_list(call, 1);
  bool keepdim = call_bool(call, 2);
  rush_list *l;
  for (size_t i = 0; i < axes->n; i++)
    if (list_index(size, axes->items[i].as.i) < 0)
      return list_out_of_range(call->cx);
  TRY(list_new(call->cx, type_simple(TYPE_INT), size->n, &l));
  for (size_t i = 0; i < size->n; i++) {
    bool reduced = false;
    for (size_t k = 0; k < axes->n; k++)
      reduced |= list_index(size, axes->items[k].as.i) == (int64_t)i;
    if (!reduced || keepdim)
      l->items[l->n++] = reduced ? value_int(1) : size->items[i];
  }
  return_list(call, l);
  return RUSH_OK;
}

rush_status kernel_size_if_not_equal(rush_call *call)
{
  bool same;
  TRY(equal_lists(call, &same));
  if (!same)
    call_return_arg(call, 0, 0);
  return RUSH_OK;
}
