/* run/outputs.c -- results in buffers of the caller's (outputs.h): checks for shared memory, and
 * the final copies.
 *
 * Memory is compared by byte ranges, which errs on the safe side.  Leaves that a copy would
 * overwrite are saved first.  Cost: O(buffers * tensors) comparisons per call with buffers. */
#include "run/outputs.h"
#include "tensor/sparse.h"

#define MOST_LOOKED_AT \
  10000000 /* values of arguments or of the state: objects may be in many places */
#define MOST_DEPTH 200

/* -- Before the call --------------------------------------------------------------------------- */

static rush_status refuse_output(call_ctx *cx, uint32_t i, const char *why)
{
  return error_set_type(cx->err, RUSH_EARGUMENT, "ValueError", "the buffer of output %u %s", i,
                        why);
}

static rush_status check_buffer(call_ctx *cx, uint32_t i, rush_value v)
{
  const rush_tensor *t = v.tag == RUSH_TAG_TENSOR ? v.as.tensor : NULL;

  if (!t)
    return refuse_output(cx, i, "is no tensor");
  if (t->st->read_only || tensor_is_meta(t))
    return refuse_output(cx, i,
                  tensor_is_meta(t) ? "has no memory: it is on device meta"
                                    : "is on memory that may not be written to");
  if (tensor_requires_grad(t))
    return refuse_output(cx, i,
                         "requires grad: results that are written to a buffer are not recorded");
  if (t->extra && (t->extra->quant || t->extra->nested))
    return refuse_output(cx, i, "is quantized or nested");
  if (tensor_sparse(t))
    return refuse_output(cx, i, "is sparse");
  return tensor_is_dense(t) ? RUSH_OK
                            : refuse_output(cx, i, "has gaps, or elements that share memory");
}

static rush_status check_apart(call_ctx *cx, const output_buffers *o, uint32_t i)
{
  for (uint32_t k = 0; k < i; k++)
    if (o->wanted[k] && tensor_overlaps(o->wanted[k], o->wanted[i]))
      return error_set_type(cx->err, RUSH_EARGUMENT, "ValueError",
                            "the buffers of outputs %u and %u share memory", k, i);
  return RUSH_OK;
}

/* True if an operator may write to the buffer directly: its result begins where its storage
 * does. */
static bool may_be_direct(const rush_tensor *t) { return t->offset == 0 && t->data == t->st->data; }

rush_status outputs_begin(call_ctx *cx, output_buffers *o, const rush_value *buffers, size_t n)
{
  rush_status st = RUSH_OK;

  if (n > 65536)
    return error_set(cx->err, RUSH_EARGUMENT, "%zu output buffers are too many", n);
  *o = (output_buffers){.n = (uint32_t)n};
  o->wanted = mem_alloc_zero(cx->ctx, n * sizeof *o->wanted);
  o->direct = mem_alloc_zero(cx->ctx, n * sizeof *o->direct);
  o->copied = mem_alloc_zero(cx->ctx, n * sizeof *o->copied);
  if (!o->wanted || !o->direct || !o->copied)
    st = call_nomem(cx);
  for (uint32_t i = 0; i < n && st == RUSH_OK; i++) {
    if (buffers[i].tag == RUSH_TAG_NONE)
      continue;
    if ((st = check_buffer(cx, i, buffers[i])) != RUSH_OK)
      break;
    o->wanted[i] = buffers[i].as.tensor;
    o->direct[i] = may_be_direct(o->wanted[i]) ? o->wanted[i] : NULL;
    st = check_apart(cx, o, i);
  }
  if (st != RUSH_OK)
    outputs_end(cx, o);
  return st;
}

void outputs_end(call_ctx *cx, output_buffers *o)
{
  mem_free(cx->ctx, o->wanted, o->n * sizeof *o->wanted);
  mem_free(cx->ctx, o->direct, o->n * sizeof *o->direct);
  mem_free(cx->ctx, o->copied, o->n * sizeof *o->copied);
  *o = (output_buffers){0};
}

typedef struct look {
  const output_buffers *o;
  uint32_t n_left; /* values that may still be looked at */
} look;

static bool tensor_shares(const output_buffers *o, const rush_tensor *t)
{
  for (uint32_t i = 0; t && i < o->n; i++)
    if (o->wanted[i] && tensor_overlaps(o->wanted[i], t))
      return true;
  return false;
}

static bool value_shares(look *l, rush_value v, uint32_t depth);

static bool items_share(look *l, const rush_value *items, size_t n, uint32_t depth)
{
  for (size_t i = 0; i < n; i++)
    if (value_shares(l, items[i], depth))
      return true;
  return false;
}

/* True if a tensor in v shares memory with a buffer, or v is too large to check. */
static bool value_shares(look *l, rush_value v, uint32_t depth)
{
  if (v.tag == RUSH_TAG_TENSOR)
    return tensor_shares(l->o, v.as.tensor);
  if (v.tag != RUSH_TAG_LIST && v.tag != RUSH_TAG_TUPLE && v.tag != RUSH_TAG_DICT &&
      v.tag != RUSH_TAG_OBJECT)
    return false;
  if (depth == MOST_DEPTH || l->n_left == 0)
    return true;
  l->n_left--;
  if (v.tag == RUSH_TAG_LIST)
    return items_share(l, v.as.list->items, v.as.list->n, depth + 1);
  if (v.tag == RUSH_TAG_TUPLE)
    return items_share(l, v.as.tuple->items, v.as.tuple->n, depth + 1);
  if (v.tag == RUSH_TAG_OBJECT)
    return items_share(l, v.as.object->slots, v.as.object->n_slots, depth + 1);
  size_t pos = 0;
  for (const dict_entry *e; (e = dict_next(v.as.dict, &pos));)
    if (value_shares(l, e->value, depth + 1))
      return true;
  return false;
}

void outputs_see_arguments(output_buffers *o, const rush_value *args, uint32_t n_args,
                           const named_arg *kwargs, uint32_t n_kwargs)
{
  look l = {o, MOST_LOOKED_AT};

  o->shares_argument = items_share(&l, args, n_args, 0);
  for (uint32_t i = 0; i < n_kwargs && !o->shares_argument; i++)
    o->shares_argument = value_shares(&l, kwargs[i].value, 0);
  for (uint32_t i = 0; i < o->n && o->shares_argument; i++)
    o->direct[i] = NULL;
}

rush_status outputs_check_state(call_ctx *cx, const output_buffers *o, const program *p,
                                rush_value object)
{
  look l = {o, MOST_LOOKED_AT};

  if (items_share(&l, p->constants, p->n_constants, 0) || value_shares(&l, object, 0))
    return error_set_type(cx->err, RUSH_EARGUMENT, "ValueError",
                          "an output buffer shares memory with the module's state or constants: "
                          "the call would overwrite them");
  return RUSH_OK;
}

/* -- After the call ---------------------------------------------------------------------------- */

static void put_geometry(text_buf *out, const rush_tensor *t)
{
  sizes_text sizes, strides;

  text_printf(out, "%s%s with strides %s", dtype_name(t->dtype),
              sizes_print(&sizes, t->n_dims, t->sizes),
              sizes_print(&strides, t->n_dims, t->strides));
}

static rush_status wrong_buffer(call_ctx *cx, uint32_t i, const rush_tensor *made,
                                const rush_tensor *buffer)
{
  text_buf t;

  text_init(&t, cx->ctx);
  text_printf(&t, "output %u: expected a buffer of ", i);
  put_geometry(&t, made);
  text_puts(&t, tensor_is_contiguous(made) ? ", but got "
                                           : ", or a contiguous one of these sizes, but got ");
  put_geometry(&t, buffer);
  rush_status st =
    text_failed(&t) ? call_nomem(cx)
                    : error_set_type(cx->err, RUSH_EARGUMENT, "ValueError", "%s", text_str(&t));
  text_free(&t);
  return st;
}

/* True if sizes and strides are equal in dimensions larger than 1. */
static bool same_places(const rush_tensor *a, const rush_tensor *b)
{
  for (int i = 0; i < a->n_dims; i++)
    if (a->sizes[i] > 1 && a->strides[i] != b->strides[i])
      return false;
  return true;
}

static rush_status check_leaf(call_ctx *cx, uint32_t i, rush_value made, const rush_tensor *buffer)
{
  const rush_tensor *t = made.tag == RUSH_TAG_TENSOR ? made.as.tensor : NULL;

  if (!t)
    return error_set_type(cx->err, RUSH_EARGUMENT, "ValueError",
                          "output %u has a buffer, but is no tensor", i);
  if (t->dtype != buffer->dtype || t->n_dims != buffer->n_dims ||
      (t->n_dims && memcmp(t->sizes, buffer->sizes, (size_t)t->n_dims * sizeof *t->sizes) != 0) ||
      (!tensor_is_contiguous(buffer) && !same_places(t, buffer)))
    return wrong_buffer(cx, i, t, buffer);
  if (tensor_requires_grad(t))
    return error_set_type(cx->err, RUSH_ERAISED, "RuntimeError",
                          "output %u has a buffer and requires grad: functions with out=... "
                          "arguments don't support automatic "
                          "differentiation; call it in no_grad, or without a buffer",
                          i);
  return RUSH_OK;
}

/* True if t shares memory with a buffer, other than its own, that will be copied to. */
static bool is_in_the_way(const output_buffers *o, const rush_tensor *t, uint32_t own)
{
  for (uint32_t i = 0; i < o->n; i++)
    if (i != own && o->wanted[i] && o->copied[i] && tensor_overlaps(o->wanted[i], t))
      return true;
  return false;
}

/* Copy leaves that the final copies would overwrite. */
static rush_status save_leaves(call_ctx *cx, const output_buffers *o, rush_value *const *leaves,
                               uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    rush_tensor *t = leaves[i]->tag == RUSH_TAG_TENSOR ? leaves[i]->as.tensor : NULL, *away;
    if (t && is_in_the_way(o, t, i)) {
      TRY(tensor_clone(cx, t, &away));
      tensor_release(t);
      leaves[i]->as.tensor = away;
    } else if (!t && o->shares_argument) {
      look l = {o, MOST_LOOKED_AT};
      if (value_shares(&l, *leaves[i], 0))
        return error_set_type(
          cx->err, RUSH_EARGUMENT, "ValueError",
          "output %u has a tensor that shares memory with the buffer of another output", i);
    }
  }
  return RUSH_OK;
}

rush_status outputs_finish(call_ctx *cx, output_buffers *o, rush_value *const *leaves,
                           uint32_t n_leaves)
{
  bool copies = false;

  if (o->n > n_leaves)
    return error_set_type(cx->err, RUSH_EARGUMENT, "ValueError", "%u output buffers for %u outputs",
                          o->n, n_leaves);
  for (uint32_t i = 0; i < o->n; i++) {
    if (!o->wanted[i])
      continue;
    TRY(check_leaf(cx, i, *leaves[i], o->wanted[i]));
    const rush_tensor *made = leaves[i]->as.tensor;
    o->copied[i] =
      made->n_elems && (made->data != o->wanted[i]->data || !same_places(made, o->wanted[i]));
    copies |= o->copied[i];
  }
  if (copies)
    TRY(save_leaves(cx, o, leaves, n_leaves));
  for (uint32_t i = 0; i < o->n; i++) {
    if (!o->wanted[i])
      continue;
    if (o->copied[i])
      TRY(tensor_copy(cx, o->wanted[i], leaves[i]->as.tensor));
    tensor_release(leaves[i]->as.tensor);
    leaves[i]->as.tensor = tensor_retain(o->wanted[i]);
  }
  return RUSH_OK;
}

/* -- Whole results ----------------------------------------------------------------------------- */

static uint32_t count_leaves(rush_value v)
{
  uint32_t n = 0;

  if (v.tag != RUSH_TAG_TUPLE)
    return 1;
  for (size_t i = 0; i < v.as.tuple->n; i++)
    n += count_leaves(v.as.tuple->items[i]);
  return n;
}

/* Replace *v by a copy if it is a tuple, also inside: leaves are stored there. */
static rush_status own_tuples(call_ctx *cx, rush_value *v, rush_value **leaves, uint32_t *n)
{
  rush_tuple *t;

  if (v->tag != RUSH_TAG_TUPLE) {
    leaves[(*n)++] = v;
    return RUSH_OK;
  }
  TRY(call_enter(cx));
  rush_status st = tuple_new(cx, v->as.tuple->type, v->as.tuple->n, &t);
  if (st == RUSH_OK) {
    for (size_t i = 0; i < t->n; i++)
      t->items[i] = value_retain(v->as.tuple->items[i]);
    value_release(*v);
    *v = value_heap_steal(RUSH_TAG_TUPLE, t);
    for (size_t i = 0; i < t->n && st == RUSH_OK; i++)
      st = own_tuples(cx, &t->items[i], leaves, n);
  }
  call_leave(cx);
  return st;
}

rush_status outputs_finish_result(call_ctx *cx, output_buffers *o, rush_value *result)
{
  const uint32_t n = count_leaves(*result);
  rush_value **leaves = mem_alloc(cx->ctx, n * sizeof *leaves);
  uint32_t n_found = 0;

  if (!leaves)
    return call_nomem(cx);
  rush_status st = own_tuples(cx, result, leaves, &n_found);
  if (st == RUSH_OK)
    st = outputs_finish(cx, o, leaves, n);
  mem_free(cx->ctx, leaves, n * sizeof *leaves);
  return st;
}
