/* ops/call/instance.c -- instances of operators' calls (instance.h).
 *
 *   second call of a place -> op_call, then the rule once more in a session -> instance
 *   later calls            -> compare arguments, make results, compute
 *
 * Instances are never replaced, so that lookups need no lock; the newest is found first.  A view's
 * offset is kept relative to its argument's: the rule runs over two offsets to see that it follows.
 * Rejected: facts from passes instead of comparisons, which serve only calls whose sizes a plan
 * knows, and would make a wrong type in a graph a wrong access to memory; keys by hash, which read
 * the same fields and then have to compare all the same.
 *
 * Cost of a call: some 15 instructions for a tensor argument, 3 for each of its sizes. */
#include "ops/call/instance.h"

#include "base/session.h"
#include "ops/call/results.h"
#include "ops/call/shape.h"
#include "ops/table/op_keys.h"
#include "ops/table/table.h"

#define MOST_ITEMS 16 /* of a list argument, and results */
#define MOST_MISSES 64
#define KEY_FLAGS (TENSOR_CONTIGUOUS | TENSOR_CONJ | TENSOR_WRAPPED_NUMBER)

typedef enum key_kind {
  KEY_SAME,    /* not compared: the same in every call */
  KEY_TAG,     /* any value of the tag */
  KEY_VALUE,   /* tag and value */
  KEY_INDEX,   /* an int from 0 to value - 1: select's */
  KEY_TENSOR,
  KEY_INTS,
  KEY_TENSORS
} key_kind;

typedef struct tensor_key {
  int16_t dtype;
  uint16_t n_dims;
  uint8_t flags;
  const int64_t *sizes; /* then strides */
} tensor_key;

typedef struct arg_key {
  key_kind kind;
  uint32_t tag, n; /* n: of a list's items */
  int64_t value;
  const tensor_key *tensors;
  const int64_t *ints;
} arg_key;

typedef struct result_plan {
  tensor_plan geometry;
  bool is_itself;  /* the argument */
  bool is_item;    /* of a list that the operator returns */
  int alias;       /* the argument whose memory it shares, or -1 */
  uint32_t item, result; /* as in shape_facts */
  int64_t offset;  /* after that argument's, without the index */
} result_plan;

struct op_instance {
  op_instance *next;
  size_t n_bytes;
  uint32_t n_args, n_results;
  const arg_key *args;
  const result_plan *results;
  point_instance *point; /* of a pointwise operator: it has the results */
  bool has_work;         /* some result is memory to compute */
  bool has_views;        /* some result is an argument or a view */
  int index;             /* the argument with KEY_INDEX, or -1 */
  int64_t step;          /* what it adds to a view's offset, for each */
};

/* -- Finding ----------------------------------------------------------------------------------- */

static inline bool tensor_fits(const tensor_key *k, const rush_tensor *t)
{
  const int n = k->n_dims;

  if (UNLIKELY(!t) || t->dtype != k->dtype || t->n_dims != k->n_dims ||
      (t->h.flags ^ k->flags) & KEY_FLAGS || UNLIKELY(t->st->origin == STORAGE_META))
    return false;
  for (int i = 0; i < n; i++)
    if (t->sizes[i] != k->sizes[i])
      return false;
  for (int i = 0; !(k->flags & TENSOR_CONTIGUOUS) && i < n; i++)
    if (t->strides[i] != k->sizes[n + i])
      return false;
  return LIKELY(!t->extra) || !(t->extra->quant || t->extra->nested || t->extra->sparse);
}

static bool list_fits(const arg_key *k, const rush_list *l)
{
  if (l->n != k->n)
    return false;
  for (uint32_t i = 0; i < k->n; i++)
    if (k->kind == KEY_INTS ? l->items[i].tag != RUSH_TAG_INT || l->items[i].as.i != k->ints[i]
                            : l->items[i].tag != RUSH_TAG_TENSOR ||
                                !tensor_fits(&k->tensors[i], l->items[i].as.tensor))
      return false;
  return true;
}

static inline bool instance_fits(const op_instance *in, const rush_value *args)
{
  for (uint32_t i = 0; i < in->n_args; i++) {
    const arg_key *k = &in->args[i];
    if (k->kind == KEY_SAME)
      continue;
    if (args[i].tag != k->tag)
      return false;
    if (LIKELY(k->kind == KEY_TENSOR) ? !tensor_fits(k->tensors, args[i].as.tensor)
        : k->kind == KEY_VALUE        ? args[i].as.i != k->value
        : k->kind == KEY_INDEX        ? (uint64_t)args[i].as.i >= (uint64_t)k->value
        : k->kind != KEY_TAG && !list_fits(k, args[i].as.list))
      return false;
  }
  return true;
}

static inline const op_instance *find(const op_cache *cache, const rush_value *args)
{
  for (const op_instance *in = atomic_load_explicit(&cache->first, memory_order_acquire); in;
       in = in->next)
    if (LIKELY(instance_fits(in, args)))
      return in;
  return NULL;
}

/* -- Running ----------------------------------------------------------------------------------- */

static rush_status make_aliased(rush_call *c, const op_instance *in, const result_plan *r,
                                rush_tensor **out)
{
  const rush_value *v = &c->args[r->alias];
  rush_tensor *t = v->tag == RUSH_TAG_LIST ? v->as.list->items[r->item].as.tensor : v->as.tensor;

  if (r->is_itself) {
    *out = tensor_retain(t);
    return RUSH_OK;
  }
  const tensor_plan *g = &r->geometry;
  const int64_t moved = in->index < 0 ? 0 : in->step * c->args[in->index].as.i;
  return tensor_new_view(c->cx, t->st, g->dtype, g->n_dims, g->sizes, g->sizes + g->n_dims,
                         t->offset + r->offset + moved, out);
}

static rush_status add_item(rush_call *c, uint32_t result, rush_tensor *t_steal)
{
  rush_value *at = &c->results[result];
  rush_list *l;

  if (at->tag == RUSH_TAG_NONE) {
    const rush_status st = list_new(c->cx, type_simple(TYPE_TENSOR), 4, &l);
    if (st != RUSH_OK) {
      tensor_release(t_steal);
      return st;
    }
    *at = value_heap_steal(RUSH_TAG_LIST, l);
  }
  return list_append_steal(c->cx, at->as.list, value_tensor_steal(t_steal));
}

static inline rush_status make_results(rush_call *c, const op_instance *in)
{
  for (uint32_t i = 0; i < in->n_results; i++) {
    const result_plan *r = &in->results[i];
    rush_tensor *t = NULL;
    TRY(r->alias < 0 ? call_planned_result(c, r->result, &r->geometry, &t)
                     : make_aliased(c, in, r, &t));
    if (UNLIKELY(r->is_item))
      TRY(add_item(c, r->result, t));
    else
      c->results[r->result] = value_tensor_steal(t);
  }
  return RUSH_OK;
}

static rush_status run_instance(rush_call *c, const op_instance *in)
{
  if (in->point)
    return op_border.points->run(in->point, c);
  TRY(make_results(c, in));
  return in->has_work ? c->op->compute(c) : RUSH_OK;
}

/* -- Making ------------------------------------------------------------------------------------ */

bool op_has_instances(const op *o)
{
  const uint32_t never = OP_WRITES | OP_RANDOM | OP_SIDE_EFFECT | OP_DATA_SIZE | OP_COPIES |
                         OP_GEOMETRY | OP_COMPLEX_BODY | OP_STATISTICS | OP_WAITS;

  if (o->outside || !o->row || o->variant != VARIANT_BASE || o->effects & never)
    return false;
  return o->kernel == call_by_rule || (o->family == FAMILY_POINTWISE && !o->kernel);
}

typedef struct making {
  const rush_call *c;
  uint64_t constants;
  op_instance *made; /* or NULL */
  arg_key *args;
  result_plan *results;
  uint32_t n_results;
  bool has_work, has_views;
  int index;
  int64_t step, n_indices;
} making;

static tensor_key key_of(session *s, const rush_tensor *t)
{
  int64_t *sizes = session_array(s, int64_t, 2 * (size_t)t->n_dims + 1);

  for (int i = 0; i < t->n_dims; i++) {
    sizes[i] = t->sizes[i];
    sizes[t->n_dims + i] = t->strides[i];
  }
  return (tensor_key){t->dtype, t->n_dims, t->h.flags & KEY_FLAGS, sizes};
}

/* Get the key of a list of ints or tensors; returns false if it is another. */
static bool key_of_list(session *s, const rush_list *l, arg_key *k)
{
  const uint32_t n = (uint32_t)l->n;

  if (l->n > MOST_ITEMS || l->n == 0)
    return false;
  tensor_key *tensors = session_array(s, tensor_key, n);
  int64_t *ints = session_array(s, int64_t, n);
  k->kind = l->items[0].tag == RUSH_TAG_INT ? KEY_INTS : KEY_TENSORS;
  k->n = n;
  k->tensors = tensors;
  k->ints = ints;
  for (uint32_t i = 0; i < n; i++) {
    const rush_value v = l->items[i];
    if (k->kind == KEY_INTS && v.tag == RUSH_TAG_INT)
      ints[i] = v.as.i;
    else if (k->kind == KEY_TENSORS && v.tag == RUSH_TAG_TENSOR && v.as.tensor)
      tensors[i] = key_of(s, v.as.tensor);
    else
      return false;
  }
  return true;
}

/* Set the argument that only moves a view: the index of select(tensor, dim, index), so that a loop
 * over rows has one instance. */
static void find_index(making *m)
{
  const rush_value *v = m->c->args;
  const rush_tensor *t = m->c->op->key == OPK_SELECT_INT ? v[0].as.tensor : NULL;

  m->index = -1;
  if (!t || m->constants >> 2 & 1 || v[1].tag != RUSH_TAG_INT || v[2].tag != RUSH_TAG_INT)
    return;
  const int64_t dim = v[1].as.i + (v[1].as.i < 0 ? t->n_dims : 0);
  if (v[2].as.i < 0 || dim < 0 || dim >= t->n_dims)
    return;
  m->index = 2;
  m->step = t->strides[dim];
  m->n_indices = t->sizes[dim];
}

/* Get argument i's key; returns false if no instance can depend on it. */
static bool find_key(session *s, const making *m, uint32_t i, arg_key *k)
{
  const rush_value v = m->c->args[i];
  tensor_key *t;

  *k = (arg_key){.kind = KEY_SAME, .tag = v.tag};
  if (v.tag != RUSH_TAG_TENSOR && i < 64 && m->constants >> i & 1)
    return true;
  if ((int)i == m->index) {
    k->kind = KEY_INDEX;
    k->value = m->n_indices;
    return true;
  }
  switch (v.tag) {
  case RUSH_TAG_NONE:
    k->kind = KEY_TAG;
    return true;
  case RUSH_TAG_BOOL: case RUSH_TAG_INT: case RUSH_TAG_FLOAT: case RUSH_TAG_DEVICE:
    k->kind = m->made->point && op_border.points->rereads(m->made->point, i) ? KEY_TAG : KEY_VALUE;
    k->value = v.as.i;
    return true;
  case RUSH_TAG_TENSOR:
    if (!v.as.tensor)
      return false;
    t = session_new(s, tensor_key);
    *t = key_of(s, v.as.tensor);
    k->kind = KEY_TENSOR;
    k->tensors = t;
    return true;
  case RUSH_TAG_LIST:
    return key_of_list(s, v.as.list, k);
  default:
    return false;
  }
}

/* Run the rule as if the storage offset of every tensor were `offset`. */
static shape_call *apply_rule(session *s, const rush_call *c, int64_t offset)
{
  shape_call *call = session_new(s, shape_call);

  call->args = shape_args_of(s, c->op->schema, c->args);
  for (uint32_t i = 0; i < c->n_args; i++)
    for (uint32_t k = 0; call->args[i].tensors && k < call->args[i].n; k++)
      call->args[i].tensors[k].offset = offset;
  op_shape(s, c->op, call);
  return call;
}

/* Plan a result; `moved` is the same one for other offsets.  Returns false if calls cannot make it
 * without the rule. */
static bool plan_result(session *s, making *m, const shape_facts *r, const shape_facts *moved,
                        result_plan *out)
{
  const op *o = m->c->op;
  int64_t *dims = session_array(s, int64_t, 2 * (size_t)r->n_dims + 1);

  *out = (result_plan){.is_itself = r->flags & SHAPE_ITSELF, .alias = r->alias, .item = r->item,
                       .is_item = o->schema->returns[r->result].type->kind == TYPE_LIST,
                       .result = r->result, .offset = r->offset};
  for (int i = 0; i < r->n_dims; i++)
    if (r->sizes[i] < 0 || r->strides[i] < 0)
      return false;
  if (!tensor_plan_make(&out->geometry, r->dtype, r->n_dims, r->sizes, r->strides, dims))
    return false;
  if (m->index >= 0)
    out->offset -= m->step * m->c->args[m->index].as.i;
  m->has_views |= r->alias >= 0;
  if (r->alias >= 0)
    return moved->offset - r->offset == 1;
  m->has_work = true;
  return o->compute != NULL;
}

static bool plan_results(session *s, making *m)
{
  const rush_call *c = m->c;

  if (c->op->family == FAMILY_POINTWISE)
    return true;
  const shape_call *call = apply_rule(s, c, 0), *moved = apply_rule(s, c, 1);
  if (call->n_results == 0 || call->n_results > MOST_ITEMS || moved->n_results != call->n_results)
    return false;
  m->n_results = call->n_results;
  m->results = session_array(s, result_plan, call->n_results);
  for (uint32_t i = 0; i < call->n_results; i++)
    if (!plan_result(s, m, call->results[i], moved->results[i], &m->results[i]))
      return false;
  return true;
}

static void *take(char **at, const void *from, size_t n_bytes)
{
  char *to = *at;

  *at += (n_bytes + 7) & ~(size_t)7;
  return n_bytes ? memcpy(to, from, n_bytes) : to;
}

static size_t keys_bytes(const making *m)
{
  size_t n = m->c->n_args * sizeof(arg_key) + m->n_results * sizeof(result_plan);

  for (uint32_t i = 0; i < m->c->n_args; i++) {
    const arg_key *k = &m->args[i];
    const uint32_t n_tensors = k->kind == KEY_TENSOR ? 1 : k->kind == KEY_TENSORS ? k->n : 0;
    n += n_tensors * sizeof(tensor_key) + (k->kind == KEY_INTS ? k->n : 0) * sizeof(int64_t);
    for (uint32_t t = 0; t < n_tensors; t++)
      n += 2 * (size_t)k->tensors[t].n_dims * sizeof(int64_t);
  }
  for (uint32_t i = 0; i < m->n_results; i++)
    n += 2 * (size_t)m->results[i].geometry.n_dims * sizeof(int64_t);
  return n;
}

static void copy_keys(const making *m, arg_key *args, char **at)
{
  for (uint32_t i = 0; i < m->c->n_args; i++) {
    arg_key *k = &args[i];
    const uint32_t n_tensors = k->kind == KEY_TENSOR ? 1 : k->kind == KEY_TENSORS ? k->n : 0;
    if (k->kind == KEY_INTS)
      k->ints = take(at, k->ints, k->n * sizeof *k->ints);
    if (!n_tensors)
      continue;
    tensor_key *t = take(at, k->tensors, n_tensors * sizeof *t);
    k->tensors = t;
    for (uint32_t j = 0; j < n_tensors; j++)
      t[j].sizes = take(at, t[j].sizes, 2 * (size_t)t[j].n_dims * sizeof(int64_t));
  }
}

/* Copy what the session knows into one block behind the instance. */
static op_instance *instance_new(session *s, const making *m)
{
  const size_t n_bytes = sizeof(op_instance) + keys_bytes(m);
  op_instance *in = mem_alloc_zero(s->cx->ctx, n_bytes);

  if (!in)
    session_check(s, call_nomem(s->cx));
  char *at = (char *)(in + 1);
  *in = (op_instance){.n_bytes = n_bytes, .n_args = m->c->n_args, .n_results = m->n_results,
                      .point = m->made->point, .has_work = m->has_work,
                      .has_views = m->has_views, .index = m->index,
                      .step = m->step};
  arg_key *args = take(&at, m->args, m->c->n_args * sizeof *args);
  result_plan *results = take(&at, m->results, m->n_results * sizeof *results);
  in->args = args;
  in->results = results;
  copy_keys(m, args, &at);
  for (uint32_t i = 0; i < m->n_results; i++) {
    tensor_plan *g = &results[i].geometry;
    g->sizes = take(&at, g->sizes, 2 * (size_t)g->n_dims * sizeof(int64_t));
    g->strides = g->strides ? g->sizes + g->n_dims : NULL;
  }
  ASSERT(at == (char *)in + n_bytes, "an instance is as large as its parts");
  return in;
}

static void free_point(void *arg)
{
  op_instance *in = arg;

  op_border.points->free(in->point);
  in->point = NULL;
}

static void make_instance(session *s, void *arg)
{
  making *m = arg;
  op_instance *draft = session_new(s, op_instance);

  *draft = (op_instance){0};
  m->made = draft;
  if (m->c->op->family == FAMILY_POINTWISE) {
    session_check(s, op_border.points->make(m->c, &draft->point));
    session_defer(s, free_point, draft);
    if (!draft->point) {
      m->made = NULL;
      return;
    }
  }
  m->args = session_array(s, arg_key, m->c->n_args + 1);
  find_index(m);
  bool can = plan_results(s, m);
  for (uint32_t i = 0; i < m->c->n_args && can; i++)
    can = find_key(s, m, i, &m->args[i]);
  m->made = can ? instance_new(s, m) : NULL;
  if (m->made)
    draft->point = NULL; /* the instance has it */
}

static void give_up(op_cache *cache)
{
  atomic_store_explicit(&cache->misses, MOST_MISSES, memory_order_relaxed);
}

/* Add an instance for the call, which just succeeded.  Failing to is no error. */
static void add_instance(const rush_call *c, op_cache *cache)
{
  call_ctx quiet = *c->cx;
  rush_error err = RUSH_ERROR_INIT;
  rush_call again = *c;
  making m = {.c = &again, .constants = cache->constants};

  quiet.err = &err;
  again.cx = &quiet;
  const rush_status st = session_run(&quiet, make_instance, &m);
  rush_error_clear(&err);
  if (st != RUSH_OK || !m.made) {
    give_up(cache);
    return;
  }
  m.made->next = atomic_load(&cache->first);
  while (!atomic_compare_exchange_weak(&cache->first, &m.made->next, m.made))
    ;
}

/* -- Calls ------------------------------------------------------------------------------------- */

/* True if nothing is done around the operator but recording. */
static inline bool is_plain(const call_ctx *cx) { return !cx->watch && !cx->place && !cx->trial; }

static bool list_requires_grad(const rush_list *l)
{
  for (size_t i = 0; i < l->n; i++)
    if (tensor_requires_grad(l->items[i].as.tensor))
      return true;
  return false;
}

/* True if the recorder has to see a call that fits: it records, or settles whether views of what
 * requires grad do. */
static bool is_recorded(const rush_call *c, const op_instance *in)
{
  if (!c->cx->grad_mode && !in->has_views)
    return false;
  for (uint32_t i = 0; i < in->n_args; i++) {
    const arg_key *k = &in->args[i];
    if (k->kind == KEY_TENSOR      ? tensor_requires_grad(c->args[i].as.tensor)
        : k->kind == KEY_TENSORS ? list_requires_grad(c->args[i].as.list)
                                   : false)
      return true;
  }
  return false;
}

static __attribute__((noinline)) rush_status miss(rush_call *c, op_cache *cache)
{
  const uint32_t n = atomic_load_explicit(&cache->misses, memory_order_relaxed) + 1;

  atomic_store_explicit(&cache->misses, n, memory_order_relaxed);
  TRY(op_call(c));
  if (n > 1 && op_cache_count(cache) < INSTANCES_MOST)
    add_instance(c, cache);
  return RUSH_OK;
}

rush_status op_call_cached(rush_call *c, op_cache *cache)
{
  if (UNLIKELY(!is_plain(c->cx)))
    return op_call(c);
  if (UNLIKELY(atomic_load_explicit(&cache->misses, memory_order_relaxed) >= MOST_MISSES))
    return op_call(c);
  const op_instance *in = find(cache, c->args);
  if (UNLIKELY(!in))
    return miss(c, cache);
  if (UNLIKELY(c->cx->recorder != NULL) && is_recorded(c, in))
    return op_call(c);
  rush_status st = run_instance(c, in);
  if (UNLIKELY(call_is_watched(c->cx)) && st == RUSH_OK)
    st = call_poll(c->cx);
  if (UNLIKELY(st != RUSH_OK))
    call_drop_results(c);
  return st;
}

uint32_t op_cache_count(const op_cache *cache)
{
  uint32_t n = 0;

  for (const op_instance *in = atomic_load(&((op_cache *)(uintptr_t)cache)->first); in;
       in = in->next)
    n++;
  return n;
}

void op_cache_free(context *c, op_cache *cache)
{
  for (op_instance *in = atomic_load(&cache->first), *next; in; in = next) {
    next = in->next;
    op_border.points->free(in->point);
    mem_free(c, in, in->n_bytes);
  }
}
