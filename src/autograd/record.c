/* autograd/record.c -- gradient records and the data that tensors keep for them: edges, leaves,
 * saved arguments, shapes, versions. Saved tensors are new headers without a record, so that no
 * reference cycle arises. Leaves are found again through a weak pointer under the context's lock,
 * because parameters are shared by threads. Releasing keeps a list of dead records instead of
 * recursing. */
#include "autograd/record.h"

#include "base/threads.h"

/* -- Tensors ----------------------------------------------------------------------------------- */

static rush_status set_shape(call_ctx *cx, grad_shape *s, const rush_tensor *t) RUSH_CHECKED;

static void set_keeper(grad_meta *m, grad_meta *keeper)
{
  if (m->retains && m->edge.to)
    m->edge.to->made[m->edge.result].keeper = keeper;
}

void grad_retain(grad_meta *m)
{
  m->retains = true;
  set_keeper(m, m);
}

static void meta_destroy(void *p)
{
  grad_meta *m = p;
  set_keeper(m, NULL);
  grad_record_release(m->edge.to);
  tensor_release(m->base);
  tensor_release(m->grad);
  mem_free(m->ctx, m, sizeof *m);
}

/* Make the meta under the context's lock: parameters are shared by threads. */
static rush_status meta_make(call_ctx *cx, rush_tensor *t, grad_meta **out)
{
  context *c = t->h.ctx;
  tensor_extra *x = t->extra, *made = NULL;
  if (x && x->grad_record) {
    *out = x->grad_record;
    return RUSH_OK;
  }
  grad_meta *m = mem_alloc_zero(c, sizeof *m);
  if (!x)
    x = made = mem_alloc_zero(c, sizeof *x);
  if (!m || !x) {
    mem_free(c, m, m ? sizeof *m : 0);
    mem_free(c, made, made ? sizeof *made : 0);
    return call_nomem(cx);
  }
  m->ctx = c;
  x->grad_destroy = meta_destroy;
  x->grad_record = m;
  atomic_store_explicit(&t->extra, x, memory_order_release);
  *out = m;
  return RUSH_OK;
}

rush_status grad_meta_of(call_ctx *cx, rush_tensor *t, grad_meta **out)
{
  *out = grad_meta_find(t);
  if (*out)
    return RUSH_OK;
  context_setup_begin(cx->ctx);
  rush_status st = meta_make(cx, t, out);
  context_setup_end(cx->ctx);
  return st;
}

bool grad_is_recorded(const rush_tensor *t)
{
  const uint8_t both = TENSOR_REQUIRES_GRAD | TENSOR_HAS_GRAD_FN;
  const grad_meta *m = grad_meta_find(t);
  return m && (t->h.flags & both) == both && m->edge.to;
}

/* Retain a record unless it is being freed. */
static grad_record *retain_living(grad_record *r)
{
  uint32_t n = r ? atomic_load_explicit(&r->refs, memory_order_relaxed) : 0;
  while (n && !atomic_compare_exchange_weak(&r->refs, &n, n + 1))
    continue;
  return n ? r : NULL;
}

/* Retain a leaf's record under the context's lock; if the record was freed meanwhile, make
 * another. */
static rush_status retain_leaf(call_ctx *cx, rush_tensor *t, grad_meta *m, grad_record **out)
{
  if ((*out = retain_living(m->leaf)) != NULL)
    return RUSH_OK;
  grad_record *r = mem_alloc_zero(t->h.ctx, sizeof *r);
  grad_tensor *made = mem_alloc_zero(t->h.ctx, sizeof *made);
  if (!r || !made) {
    mem_free(t->h.ctx, r, r ? sizeof *r : 0);
    mem_free(t->h.ctx, made, made ? sizeof *made : 0);
    return call_nomem(cx);
  }
  atomic_init(&r->refs, 1);
  r->ctx = t->h.ctx;
  r->leaf = tensor_retain(t);
  r->made = made;
  r->n_made = 1;
  rush_status st = set_shape(cx, &made->shape, t);
  if (st != RUSH_OK)
    grad_record_release(r);
  else
    *out = m->leaf = r;
  return st;
}

static void forget_leaf(grad_record *r)
{
  grad_meta *m = grad_meta_find(r->leaf);
  context_setup_begin(r->ctx);
  if (m && m->leaf == r)
    m->leaf = NULL;
  context_setup_end(r->ctx);
  tensor_release(r->leaf);
}

rush_status grad_move_leaf(call_ctx *cx, rush_tensor *t)
{
  grad_record *r = grad_leaf_of(t);
  grad_meta *m;
  rush_tensor *own;
  if (!r)
    return RUSH_OK;
  rush_status st = tensor_alias(cx, t, &own);
  if (st == RUSH_OK && (st = grad_meta_of(cx, own, &m)) != RUSH_OK)
    tensor_release(own);
  if (st == RUSH_OK) {
    own->h.small = t->h.small; /* to a host it is that tensor */
    context_setup_begin(cx->ctx);
    grad_meta_find(t)->leaf = NULL;
    m->leaf = r;
    r->leaf = own;
    context_setup_end(cx->ctx);
    tensor_release(t);
  }
  grad_record_release(r);
  return st;
}

grad_record *grad_leaf_of(const rush_tensor *t)
{
  grad_meta *m = grad_meta_find(t);
  if (!m)
    return NULL;
  context_setup_begin(t->h.ctx);
  grad_record *r = retain_living(m->leaf);
  context_setup_end(t->h.ctx);
  return r;
}

static rush_status leaf_edge(call_ctx *cx, rush_tensor *t, grad_edge *out)
{
  grad_meta *m;
  TRY(grad_meta_of(cx, t, &m));
  context_setup_begin(cx->ctx);
  rush_status st = retain_leaf(cx, t, m, &out->to);
  context_setup_end(cx->ctx);
  out->result = 0;
  return st;
}

rush_status grad_edge_of(call_ctx *cx, rush_tensor *t, grad_edge *out)
{
  grad_edge none = {NULL, 0};
  TRY(grad_refresh(cx, t));
  *out = none;
  if (!tensor_requires_grad(t) || dtype_class_of(t->dtype) < DTYPE_FLOAT)
    return RUSH_OK;
  if (!grad_is_recorded(t))
    return leaf_edge(cx, t, out);
  *out = grad_meta_find(t)->edge;
  grad_record_retain(out->to);
  return RUSH_OK;
}

rush_status grad_attach_steal(call_ctx *cx, rush_tensor *t, grad_edge e)
{
  grad_meta *m;
  rush_status st = grad_meta_of(cx, t, &m);
  if (st != RUSH_OK) {
    grad_record_release(e.to);
    return st;
  }
  grad_record *old = m->edge.to;
  set_keeper(m, NULL);
  m->edge = e;
  set_keeper(m, m);
  grad_record_release(old);
  if (m->base && grad_meta_find(m->base))
    m->seen = grad_meta_find(m->base)->generation;
  t->h.flags |= TENSOR_REQUIRES_GRAD | TENSOR_HAS_GRAD_FN;
  return RUSH_OK;
}

/* -- Records ----------------------------------------------------------------------------------- */

static rush_status set_shape(call_ctx *cx, grad_shape *s, const rush_tensor *t)
{
  s->dtype = t->dtype;
  s->n_dims = t->n_dims;
  s->sizes = s->few;
  if (t->n_dims > TENSOR_INLINE_DIMS &&
      !(s->sizes = mem_alloc(cx->ctx, t->n_dims * sizeof *s->sizes))) {
    s->n_dims = 0;
    return call_nomem(cx);
  }
  memcpy(s->sizes, t->sizes, t->n_dims * sizeof *s->sizes);
  return RUSH_OK;
}

grad_record *grad_record_retain(grad_record *r)
{
  if (r)
    atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  return r;
}

static void free_saved(grad_record *r, bool all)
{
  for (uint32_t i = 0; i < r->n_args + r->n_results; i++) {
    grad_slot *s = i < r->n_args ? &r->args[i] : &r->results[i - r->n_args];
    if (s->saved.tag == RUSH_TAG_NONE || !(all || s->kind != GRAD_OTHER))
      continue;
    value_release(s->saved);
    s->saved = value_none();
    r->freed = true;
  }
}

void grad_record_free_saved(grad_record *r) { free_saved(r, false); }

static void tensors_free(context *c, grad_tensor *t, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    if (t[i].shape.n_dims > TENSOR_INLINE_DIMS)
      mem_free(c, t[i].shape.sizes, t[i].shape.n_dims * sizeof *t[i].shape.sizes);
  mem_free(c, t, n * sizeof *t);
}

static bool drop(grad_record *r)
{
  return r && atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1;
}

/* Release a record; dead ones are listed, since a chain of a million must not recurse. */
void grad_record_release(grad_record *r)
{
  grad_record *dead = drop(r) ? r : NULL;
  while (dead) {
    r = dead;
    dead = r->next_free;
    if (r->leaf)
      forget_leaf(r);
    free_saved(r, true);
    for (uint32_t i = 0; i < r->n_tensors; i++)
      if (drop(r->tensors[i].edge.to)) {
        r->tensors[i].edge.to->next_free = dead;
        dead = r->tensors[i].edge.to;
      }
    tensors_free(r->ctx, r->tensors, r->n_tensors);
    tensors_free(r->ctx, r->made, r->n_made);
    if (r->graph) {
      mem_free(r->ctx, r->ran, r->graph->n_nodes);
      r->graph->release(r->graph);
    }
    mem_free(r->ctx, r->args, r->n_args * sizeof *r->args);
    mem_free(r->ctx, r->results, r->n_results * sizeof *r->results);
    mem_free(r->ctx, r, sizeof *r);
  }
}

/* True if input i of formula g has an edge to a record. */
static bool is_wanted(const grad_record *r, const op_gradient *g, uint32_t i)
{
  const grad_slot *s = &r->args[g->input[i]];
  for (uint32_t k = 0; k < s->n; k++)
    if (r->tensors[s->first + k].edge.to)
      return true;
  return false;
}

/* -- Contents of a slot ------------------------------------------------------------------------ */

static const rush_list *tensor_list(rush_value v)
{
  bool is = v.tag == RUSH_TAG_LIST && v.as.list->n;
  for (size_t i = 0; is && i < v.as.list->n; i++)
    is = v.as.list->items[i].tag == RUSH_TAG_TENSOR || v.as.list->items[i].tag == RUSH_TAG_NONE;
  return is ? v.as.list : NULL;
}

static rush_tensor *tensor_in(rush_value v)
{
  return v.tag == RUSH_TAG_TENSOR ? v.as.tensor : NULL;
}

static rush_tensor *slot_tensor(const grad_slot *s, rush_value v, uint32_t k)
{
  return tensor_in(s->kind == GRAD_LIST ? v.as.list->items[k] : v);
}

/* Make slots, and room for the tensors. */
static rush_status make_slots(call_ctx *cx, const rush_value *values, uint32_t n, grad_slot **slots,
                              grad_tensor **tensors, uint32_t *n_tensors)
{
  grad_slot *s = mem_alloc_zero(cx->ctx, n * sizeof *s);
  if (!s)
    return call_nomem(cx);
  uint32_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    const rush_list *l = tensor_list(values[i]);
    s[i].kind = l ? GRAD_LIST : tensor_in(values[i]) ? GRAD_TENSOR : GRAD_OTHER;
    s[i].first = at;
    s[i].n = l ? (uint32_t)l->n : s[i].kind == GRAD_TENSOR;
    at += s[i].n;
  }
  grad_tensor *t = mem_alloc_zero(cx->ctx, at * sizeof *t);
  if (!t) {
    mem_free(cx->ctx, s, n * sizeof *s);
    return call_nomem(cx);
  }
  *slots = s;
  *tensors = t;
  *n_tensors = at;
  return RUSH_OK;
}

static rush_status set_shapes(call_ctx *cx, const grad_slot *s, const rush_value *values,
                              uint32_t n, grad_tensor *tensors)
{
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < s[i].n; k++)
      if (slot_tensor(&s[i], values[i], k))
        TRY(set_shape(cx, &tensors[s[i].first + k].shape, slot_tensor(&s[i], values[i], k)));
  return RUSH_OK;
}

/* Save a tensor as a separate header, without a record, which would be a cycle. */
static rush_status save_tensor(call_ctx *cx, rush_tensor *t, bool copy, grad_tensor *of,
                               rush_value *out)
{
  const uint8_t grad = TENSOR_REQUIRES_GRAD | TENSOR_HAS_GRAD_FN | TENSOR_IS_PARAMETER;
  rush_tensor *a;
  if (!t) {
    *out = value_none();
    return RUSH_OK;
  }
  if (copy)
    TRY(tensor_clone(cx, t, &a));
  else
    TRY(tensor_alias(cx, t, &a));
  a->h.flags = (uint8_t)((a->h.flags | (t->h.flags & TENSOR_WRAPPED_NUMBER)) & ~grad);
  of->version = atomic_load_explicit(&a->st->version, memory_order_relaxed);
  *out = value_tensor_steal(a);
  return RUSH_OK;
}

/* Save a list; one that the program may change is copied. */
static rush_status save_list(call_ctx *cx, const rush_list *from, grad_tensor *tensors, bool copy,
                             rush_value *out)
{
  rush_list *l;
  TRY(list_new(cx, from->elem, from->n, &l));
  rush_status st = RUSH_OK;
  for (size_t i = 0; i < from->n && st == RUSH_OK; i++) {
    rush_value v = from->items[i];
    if (tensors && v.tag == RUSH_TAG_TENSOR)
      st = save_tensor(cx, v.as.tensor, copy, &tensors[i], &l->items[i]);
    else
      l->items[i] = value_retain(v);
    l->n += st == RUSH_OK;
  }
  *out = value_heap_steal(RUSH_TAG_LIST, l);
  if (st != RUSH_OK) {
    value_release(*out);
    *out = value_none();
  }
  return st;
}

static rush_status save(call_ctx *cx, grad_slot *s, grad_tensor *tensors, rush_value v, bool copy)
{
  if (s->saved.tag != RUSH_TAG_NONE)
    return RUSH_OK;
  if (s->kind == GRAD_TENSOR)
    return save_tensor(cx, v.as.tensor, copy, &tensors[s->first], &s->saved);
  if (v.tag == RUSH_TAG_LIST)
    return save_list(cx, v.as.list, s->kind == GRAD_LIST ? &tensors[s->first] : NULL, copy,
                     &s->saved);
  s->saved = value_retain(v);
  return RUSH_OK;
}

static bool formula_wanted(const grad_record *r, const op_gradient *g)
{
  for (uint32_t i = 0; i < g->n_inputs; i++)
    if (is_wanted(r, g, i))
      return true;
  return false;
}

static rush_status set_edges(call_ctx *cx, grad_record *r, const rush_value *args)
{
  for (uint32_t i = 0; i < r->n_args; i++)
    for (uint32_t k = 0; k < r->args[i].n; k++)
      if (slot_tensor(&r->args[i], args[i], k))
        TRY(grad_edge_of(cx, slot_tensor(&r->args[i], args[i], k),
                         &r->tensors[r->args[i].first + k].edge));
  return RUSH_OK;
}

static rush_status save_args(call_ctx *cx, grad_record *r, const rush_value *args, uint64_t written)
{
  for (uint32_t f = 0; r->formulas && f < r->formulas->n; f++) {
    const op_gradient *g = &r->formulas->items[f];
    for (uint32_t i = 0; i < g->n_takes && formula_wanted(r, g); i++) {
      const uint32_t a = g->take[i].index;
      if (g->take[i].from == GRADIENT_ARG)
        TRY(save(cx, &r->args[a], r->tensors, args[a], a < 64 && written >> a & 1));
    }
  }
  return RUSH_OK;
}

rush_status grad_record_begin(call_ctx *cx, const op *o, const op_gradients *g,
                              const rush_value *args, uint64_t written, grad_record **out)
{
  grad_record *r = mem_alloc_zero(cx->ctx, sizeof *r);
  if (!r)
    return call_nomem(cx);
  atomic_init(&r->refs, 1);
  r->ctx = cx->ctx;
  r->number = context_next_record(cx->ctx);
  r->o = o;
  r->formulas = g;
  rush_status st = make_slots(cx, args, o->schema->n_args, &r->args, &r->tensors, &r->n_tensors);
  if (st == RUSH_OK) {
    r->n_args = o->schema->n_args;
    st = set_shapes(cx, r->args, args, r->n_args, r->tensors);
  }
  if (st == RUSH_OK)
    st = set_edges(cx, r, args);
  if (st == RUSH_OK)
    st = save_args(cx, r, args, written);
  if (st != RUSH_OK)
    grad_record_release(r);
  else
    *out = r;
  return st;
}

static uint32_t version_of(rush_value v)
{
  return v.tag == RUSH_TAG_TENSOR && v.as.tensor
           ? atomic_load_explicit(&v.as.tensor->st->version, memory_order_relaxed)
           : 0;
}

/* Accept writes by the operator itself that its schema does not declare (running statistics): they
 * are not later writes. */
static void settle_versions(grad_record *r)
{
  for (uint32_t i = 0; i < r->n_args; i++)
    for (uint32_t k = 0; k < r->args[i].n && r->args[i].saved.tag != RUSH_TAG_NONE; k++)
      r->tensors[r->args[i].first + k].version = version_of(
        r->args[i].kind == GRAD_LIST ? r->args[i].saved.as.list->items[k] : r->args[i].saved);
}

rush_status grad_record_end(call_ctx *cx, grad_record *r, const rush_value *results, bool writes)
{
  if (!writes)
    settle_versions(r);
  TRY(make_slots(cx, results, r->o->schema->n_returns, &r->results, &r->made, &r->n_made));
  r->n_results = r->o->schema->n_returns;
  TRY(set_shapes(cx, r->results, results, r->n_results, r->made));
  for (uint32_t f = 0; r->formulas && f < r->formulas->n; f++) {
    const op_gradient *g = &r->formulas->items[f];
    for (uint32_t i = 0; i < g->n_takes && formula_wanted(r, g); i++) {
      const uint32_t k = g->take[i].index;
      if (g->take[i].from == GRADIENT_RESULT)
        TRY(save(cx, &r->results[k], r->made, results[k], false));
    }
  }
  return RUSH_OK;
}
