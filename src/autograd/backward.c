/* autograd/backward.c -- computes gradients (backward.h): a depth-first walk finds the records
 * between outputs and inputs, a count of missing contributions says which are complete, and of
 * these the one that was made last runs next (Kahn's topological order with a heap, the order of
 * PyTorch's engine).  So contributions to a gradient are added in the reverse order of the calls,
 * whatever the graph around them: a record of a whole graph (autodiff/) adds in the same order as
 * records of its nodes.  Rejected: a stack instead of the heap, with which the order depends on
 * how records are connected.
 *
 * The walk has its own stack and a table from records to nodes, since graphs may be a million
 * records deep and several runs must not write into shared records; the table is asked once for
 * each edge. Cost: O(edges + records * log records) and the formulas. */
#include "autograd/backward.h"

#include "ops/table/table.h"

typedef struct node { /* of the run: a record */
  grad_record *r;     /* retained */
  uint32_t n_waiting; /* missing gradients: edges of records that will run */
  uint32_t edge;      /* the walk's place */
  uint32_t first;     /* its edges in walk.edges */
  bool is_needed;     /* leads to an input */
  rush_value *grads;  /* r->n_made, or NULL: there are none */
} node;

typedef struct walk {
  call_ctx *cx;
  node *nodes;
  uint32_t n, cap;
  table by_record; /* node + 1 */
  uint32_t *edges, n_edges, cap_edges; /* node + 1 of each edge's record; 0: it has none */
  uint32_t *stack, n_stack, cap_stack; /* the walk's; then a heap of the nodes that can run */
  const grad_edge *wanted;  /* of the inputs, or NULL: every leaf */
  size_t n_wanted;
  bool retain_graph;
  const rush_gradient_host *host; /* or NULL */
} walk;

static void walk_free(walk *w)
{
  context *c = w->cx->ctx;
  for (uint32_t i = 0; i < w->n; i++) {
    for (uint32_t k = 0; w->nodes[i].grads && k < w->nodes[i].r->n_made; k++)
      value_release(w->nodes[i].grads[k]);
    mem_free(c, w->nodes[i].grads, w->nodes[i].r->n_made * sizeof(rush_value));
    grad_record_release(w->nodes[i].r);
  }
  mem_free(c, w->nodes, w->cap * sizeof *w->nodes);
  table_free(&w->by_record);
  mem_free(c, w->edges, w->cap_edges * sizeof *w->edges);
  mem_free(c, w->stack, w->cap_stack * sizeof *w->stack);
}

/* -- The table of nodes ------------------------------------------------------------------------ */

static node *find_record(const walk *w, const grad_record *r)
{
  const uintptr_t i = (uintptr_t)table_get(&w->by_record, address_key(r));
  return i ? &w->nodes[i - 1] : NULL;
}

/* Return the node of the k-th edge of n; NULL: its gradient is not needed. */
static node *edge_node(const walk *w, const node *n, uint32_t k)
{
  const uint32_t i = w->edges[n->first + k];
  return i && w->nodes[i - 1].is_needed ? &w->nodes[i - 1] : NULL;
}

/* Make room for `more` items of `bytes` each behind n. */
static rush_status grow(const walk *w, void **items, uint32_t n, uint32_t more, uint32_t *cap,
                        size_t bytes)
{
  uint32_t to = *cap ? *cap : 32;
  if (more <= *cap - n)
    return RUSH_OK;
  if (more > UINT32_MAX / 4 || n > UINT32_MAX / 4)
    return call_fail(w->cx, "a gradient through more than %u records", UINT32_MAX / 4);
  while (to - n < more)
    to *= 2;
  void *grown = mem_realloc(w->cx->ctx, *items, *cap * bytes, to * bytes);
  if (!grown)
    return call_nomem(w->cx);
  *items = grown;
  *cap = to;
  return RUSH_OK;
}

static rush_status push(walk *w, uint32_t i)
{
  TRY(grow(w, (void **)&w->stack, w->n_stack, 1, &w->cap_stack, sizeof *w->stack));
  w->stack[w->n_stack++] = i;
  return RUSH_OK;
}

/* Push a record that is new to the walk; *at is its node + 1. */
static rush_status enter(walk *w, grad_record *r, uint32_t *at)
{
  TRY(grow(w, (void **)&w->nodes, w->n, 1, &w->cap, sizeof *w->nodes));
  TRY(grow(w, (void **)&w->edges, w->n_edges, r->n_tensors, &w->cap_edges, sizeof *w->edges));
  if (!table_put(&w->by_record, address_key(r), (void *)(uintptr_t)(w->n + 1)))
    return call_nomem(w->cx);
  w->nodes[w->n] = (node){.r = grad_record_retain(r), .first = w->n_edges};
  memset(w->edges + w->n_edges, 0, r->n_tensors * sizeof *w->edges);
  w->n_edges += r->n_tensors;
  *at = ++w->n;
  return push(w, w->n - 1);
}

static bool is_wanted(const walk *w, const grad_record *r)
{
  if (!w->wanted)
    return !r->o;
  for (size_t i = 0; i < w->n_wanted; i++)
    if (w->wanted[i].to == r)
      return true;
  return false;
}

/* Step along the next edge of the walk's top. */
static rush_status walk_edge(walk *w, node *n)
{
  uint32_t *at = &w->edges[n->first + n->edge];
  grad_record *to = n->r->tensors[n->edge].edge.to;
  if (to && !*at) {
    const node *there = find_record(w, to);
    uint32_t made = 0;
    if (!there) {
      const uint32_t k = n->first + n->edge; /* and looked at again when its walk is over */
      TRY(enter(w, to, &made));
      w->edges[k] = made;
      return RUSH_OK;
    }
    *at = (uint32_t)(there - w->nodes) + 1;
  }
  n->is_needed |= edge_node(w, n, n->edge) != NULL;
  n->edge++;
  return RUSH_OK;
}

/* Visit everything that `from` leads to.  A node is finished after the nodes it leads to. */
static rush_status walk_from(walk *w, grad_record *from)
{
  uint32_t made;
  if (find_record(w, from))
    return RUSH_OK;
  TRY(enter(w, from, &made));
  while (w->n_stack) {
    node *n = &w->nodes[w->stack[w->n_stack - 1]];
    if (n->edge < n->r->n_tensors) {
      TRY(walk_edge(w, n));
      continue;
    }
    n->is_needed |= is_wanted(w, n->r);
    w->n_stack--;
  }
  return RUSH_OK;
}

static void count_waiting(walk *w)
{
  for (uint32_t i = 0; i < w->n; i++)
    for (uint32_t k = 0; w->nodes[i].is_needed && k < w->nodes[i].r->n_tensors; k++) {
      node *to = edge_node(w, &w->nodes[i], k);
      if (to)
        to->n_waiting++;
    }
}

/* -- The nodes that can run -------------------------------------------------------------------- */

/* True if node a runs before node b. */
static bool is_before(const walk *w, uint32_t a, uint32_t b)
{
  return w->nodes[a].r->number > w->nodes[b].r->number;
}

static void swap(uint32_t *a, uint32_t *b)
{
  const uint32_t t = *a;
  *a = *b;
  *b = t;
}

static rush_status push_ready(walk *w, uint32_t i)
{
  uint32_t at = w->n_stack;
  TRY(push(w, i));
  for (; at && is_before(w, w->stack[at], w->stack[(at - 1) / 2]); at = (at - 1) / 2)
    swap(&w->stack[at], &w->stack[(at - 1) / 2]);
  return RUSH_OK;
}

static uint32_t pop_ready(walk *w)
{
  const uint32_t top = w->stack[0];
  w->stack[0] = w->stack[--w->n_stack];
  for (uint32_t at = 0, next; (next = 2 * at + 1) < w->n_stack; at = next) {
    next += next + 1 < w->n_stack && is_before(w, w->stack[next + 1], w->stack[next]);
    if (!is_before(w, w->stack[next], w->stack[at]))
      break;
    swap(&w->stack[next], &w->stack[at]);
  }
  return top;
}

/* -- Gradients --------------------------------------------------------------------------------- */

static bool is_defined_tensor(rush_value v) { return v.tag == RUSH_TAG_TENSOR && v.as.tensor; }

/* Set a node's gradient to `grad` (stolen). */
static rush_status set_steal(const walk *w, node *n, uint32_t result, rush_value grad)
{
  if (!n->grads && !(n->grads = mem_alloc_zero(w->cx->ctx, n->r->n_made * sizeof *n->grads))) {
    value_release(grad);
    return call_nomem(w->cx);
  }
  value_release(n->grads[result]);
  n->grads[result] = grad;
  return RUSH_OK;
}

/* Add `grad` (stolen) to a node's gradient. */
static rush_status add_steal(walk *w, node *n, uint32_t result, rush_value grad)
{
  if (!n->grads || !is_defined_tensor(n->grads[result]))
    return set_steal(w, n, result, grad);
  rush_value args[2] = {n->grads[result], grad}, sum;
  rush_status st = op_invoke_name(w->cx, "aten::add", "Tensor", args, 2, &sum);
  value_release(grad);
  TRY(st);
  value_release(n->grads[result]);
  n->grads[result] = sum;
  return RUSH_OK;
}

static rush_status zeros(call_ctx *cx, const grad_shape *s, rush_value *out)
{
  rush_tensor *t;
  TRY(tensor_new(cx, s->dtype, s->n_dims, s->sizes, &t));
  rush_status st = tensor_fill(cx, t, value_int(0));
  if (st != RUSH_OK)
    tensor_release(t);
  else
    *out = value_tensor_steal(t);
  return st;
}

static rush_status filled(call_ctx *cx, const rush_tensor *like, rush_value *out)
{
  rush_tensor *t;
  if (like->n_elems != 1)
    return call_fail(cx, "grad can be implicitly created only for scalar outputs");
  TRY(tensor_new(cx, like->dtype, like->n_dims, like->sizes, &t));
  tensor_set(t, 0, value_int(1));
  *out = value_tensor_steal(t);
  return RUSH_OK;
}

/* -- Arguments of formulas --------------------------------------------------------------------- */

static rush_status modified(call_ctx *cx, const rush_tensor *t, uint32_t version)
{
  sizes_text sizes;
  return call_fail(
    cx,
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation: "
    "[torch.%sTensor %s] is at version %u; expected version %u instead. Hint: enable anomaly "
    "detection to find the "
    "operation that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True).",
    dtype_aten_name(t->dtype), sizes_print(&sizes, t->n_dims, t->sizes),
    (unsigned)atomic_load_explicit(&t->st->version, memory_order_relaxed), (unsigned)version);
}

/* Unpack a saved tensor: as it was, with its record if the run is recorded itself. */
static rush_status unpack_tensor(walk *w, const grad_record *r, rush_value saved,
                                 const grad_tensor *of, grad_edge e, rush_value *out)
{
  if (!is_defined_tensor(saved)) {
    *out = saved;
    return RUSH_OK;
  }
  rush_tensor *t = saved.as.tensor, *a;
  if (!r->unchecked && atomic_load_explicit(&t->st->version, memory_order_relaxed) != of->version)
    return modified(w->cx, t, of->version);
  if (!w->cx->recorder || !e.to) {
    *out = value_retain(saved);
    return RUSH_OK;
  }
  TRY(tensor_alias(w->cx, t, &a));
  a->h.flags |= t->h.flags & TENSOR_WRAPPED_NUMBER;
  *out = value_tensor_steal(a);
  grad_record_retain(e.to);
  rush_status st = grad_attach_steal(w->cx, a, e);
  if (st != RUSH_OK)
    value_release(*out);
  return st;
}

static grad_edge edge_of(grad_record *r, bool is_result, uint32_t at)
{
  return is_result ? (grad_edge){r, at} : r->tensors[at].edge;
}

static rush_status unpack_saved(walk *w, grad_record *r, bool is_result, uint32_t i,
                                rush_value *out)
{
  const grad_slot *s = is_result ? &r->results[i] : &r->args[i];
  const grad_tensor *tensors = is_result ? r->made : r->tensors;
  if (s->kind == GRAD_TENSOR)
    return unpack_tensor(w, r, s->saved, &tensors[s->first], edge_of(r, is_result, s->first), out);
  if (s->kind == GRAD_OTHER) {
    *out = value_retain(s->saved);
    return RUSH_OK;
  }
  const rush_list *from = s->saved.as.list;
  rush_list *l;
  TRY(list_new(w->cx, from->elem, from->n, &l));
  rush_status st = RUSH_OK;
  for (uint32_t k = 0; k < from->n && st == RUSH_OK; k++) {
    st = unpack_tensor(w, r, from->items[k], &tensors[s->first + k],
                       edge_of(r, is_result, s->first + k), &l->items[k]);
    l->n += st == RUSH_OK;
  }
  *out = value_heap_steal(RUSH_TAG_LIST, l);
  if (st != RUSH_OK)
    value_release(*out);
  return st;
}

/* Get the gradient of result i: zeros if there were no contributions. */
static rush_status result_grad(walk *w, const node *n, uint32_t i, rush_value *out)
{
  const grad_slot *s = &n->r->results[i];
  rush_list *l = NULL;
  if (s->kind == GRAD_LIST)
    TRY(list_new(w->cx, type_elem(n->r->o->schema->returns[i].type), s->n, &l));
  rush_status st = RUSH_OK;
  rush_value v = value_none();
  for (uint32_t k = 0; k < s->n && st == RUSH_OK; k++) {
    v = n->grads[s->first + k];
    if (is_defined_tensor(v))
      (void)value_retain(v);
    else
      st = zeros(w->cx, &n->r->made[s->first + k].shape, &v);
    if (st == RUSH_OK && l)
      l->items[l->n++] = v;
  }
  *out = l ? value_heap_steal(RUSH_TAG_LIST, l) : v;
  if (st != RUSH_OK && l)
    value_release(*out);
  return st;
}

static rush_status shape_list(call_ctx *cx, const grad_shape *s, rush_value *out)
{
  return list_of_ints(cx, s->sizes, s->n_dims, out);
}

static rush_status arg_sizes(walk *w, const grad_record *r, uint32_t i, rush_value *out)
{
  const grad_slot *s = &r->args[i];
  type_store *types = type_store_of_context(w->cx->ctx);
  rush_list *l;
  if (s->kind == GRAD_TENSOR)
    return shape_list(w->cx, &r->tensors[s->first].shape, out);
  const type *ints = types ? type_list(types, type_simple(TYPE_INT)) : NULL;
  if (!ints)
    return call_nomem(w->cx);
  TRY(list_new(w->cx, ints, s->n, &l));
  rush_status st = RUSH_OK;
  for (uint32_t k = 0; k < s->n && st == RUSH_OK; k++) {
    st = shape_list(w->cx, &r->tensors[s->first + k].shape, &l->items[k]);
    l->n += st == RUSH_OK;
  }
  *out = value_heap_steal(RUSH_TAG_LIST, l);
  if (st != RUSH_OK)
    value_release(*out);
  return st;
}

/* -- Running a record -------------------------------------------------------------------------- */

/* True if the gradient of the argument will be used. */
static bool slot_is_used(const walk *w, const node *n, const grad_slot *s)
{
  for (uint32_t k = 0; k < s->n; k++)
    if (edge_node(w, n, s->first + k))
      return true;
  return false;
}

/* True if the gradient of the formula's input i will be used. */
static bool is_used(const walk *w, const node *n, const op_gradient *g, uint32_t i)
{
  return slot_is_used(w, n, &n->r->args[g->input[i]]);
}

static rush_status needs(walk *w, const node *n, const op_gradient *g, rush_value *out)
{
  rush_list *l;
  TRY(list_new(w->cx, type_simple(TYPE_BOOL), g->n_inputs, &l));
  for (uint32_t i = 0; i < g->n_inputs; i++)
    l->items[l->n++] = value_bool(is_used(w, n, g, i));
  *out = value_heap_steal(RUSH_TAG_LIST, l);
  return RUSH_OK;
}

/* Return the sum so far of the gradients of argument i, a tensor; borrowed. */
static rush_value so_far(const walk *w, const node *n, uint32_t i)
{
  const uint32_t k = n->r->args[i].first;
  const node *to = edge_node(w, n, k);
  return to && to->grads ? to->grads[n->r->tensors[k].edge.result] : value_none();
}

static rush_status taken(walk *w, const node *n, const op_gradient *g, gradient_take t,
                         rush_value *out)
{
  switch ((gradient_from)t.from) {
  case GRADIENT_OF_RESULT: return result_grad(w, n, t.index, out);
  case GRADIENT_ARG: return unpack_saved(w, n->r, false, t.index, out);
  case GRADIENT_RESULT: return unpack_saved(w, n->r, true, t.index, out);
  case GRADIENT_SIZES: return arg_sizes(w, n->r, t.index, out);
  case GRADIENT_SO_FAR: *out = value_retain(so_far(w, n, t.index)); return RUSH_OK;
  case GRADIENT_NEEDS: break;
  }
  return needs(w, n, g, out);
}

/* Pass the part for tensor k of a formula's result on to its record. */
static rush_status deliver(walk *w, const node *n, uint32_t k, bool is_total, rush_value made)
{
  const grad_tensor *of = &n->r->tensors[k];
  node *to = edge_node(w, n, k);
  if (!to || !is_defined_tensor(made))
    return RUSH_OK;
  rush_value v = value_retain(made);
  rush_status st = op_gradient_fit(w->cx, of->shape.dtype, of->shape.n_dims, of->shape.sizes, &v);
  if (st != RUSH_OK) {
    value_release(v);
    return st;
  }
  return is_total ? set_steal(w, to, of->edge.result, v) : add_steal(w, to, of->edge.result, v);
}

static rush_status deliver_input(walk *w, const node *n, const grad_slot *s, bool is_total,
                                 rush_value made)
{
  if (s->kind == GRAD_TENSOR)
    return deliver(w, n, s->first, is_total, made);
  if (s->kind != GRAD_LIST || made.tag != RUSH_TAG_LIST)
    return RUSH_OK;
  if (made.as.list->n != s->n)
    return call_fail(w->cx, "a gradient of %u tensors has %zu", s->n, made.as.list->n);
  for (uint32_t k = 0; k < s->n; k++)
    TRY(deliver(w, n, s->first + k, is_total, made.as.list->items[k]));
  return RUSH_OK;
}

#define MOST_TAKES 64 /* without an allocation; a graph's formula may take more */

static rush_status run_formula_in(walk *w, const node *n, const op_gradient *g, rush_value *values,
                                  rush_value *made)
{
  uint32_t n_values = 0;
  rush_status st = RUSH_OK;
  while (n_values < g->n_takes &&
         (st = taken(w, n, g, g->take[n_values], &values[n_values])) == RUSH_OK)
    n_values++;
  if (st == RUSH_OK)
    st = op_gradient_call(w->cx, n->r->o, g, values, NULL, made);
  for (uint32_t i = 0; i < n_values; i++)
    value_release(values[i]);
  TRY(st);
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    if (st == RUSH_OK)
      st = deliver_input(w, n, &n->r->args[g->input[i]], g->is_total, made[i]);
    value_release(made[i]);
  }
  return st;
}

static rush_status run_formula(walk *w, const node *n, const op_gradient *g)
{
  rush_value few[2 * MOST_TAKES], *row = few;
  const size_t bytes = ((size_t)g->n_takes + g->n_inputs) * sizeof *row;
  if (bytes > sizeof few && !(row = mem_alloc(w->cx->ctx, bytes)))
    return call_nomem(w->cx);
  rush_status st = run_formula_in(w, n, g, row, row + g->n_takes);
  if (row != few)
    mem_free(w->cx->ctx, row, bytes);
  return st;
}

static rush_status fail_freed(const walk *w)
{
  return call_fail(w->cx, "Trying to backward through the graph a second time (or directly "
                            "access saved tensors after they have "
                            "already been freed). Saved intermediate values of the graph are freed "
                            "when you call .backward() or "
                            "autograd.grad(). Specify retain_graph=True if you need to backward "
                            "through the graph a second time or if "
                            "you need to access saved tensors after calling backward.");
}

/* Note which nodes ran, whose values are then freed; fails if the values of one were. */
static rush_status note_ran(const walk *w, grad_record *r, const bool *nodes)
{
  bool all = true;
  for (uint32_t i = 0; i < r->graph->n_nodes; i++)
    if (nodes[i] && r->graph->saves[i] && r->ran[i])
      return fail_freed(w);
  for (uint32_t i = 0; i < r->graph->n_nodes && !w->retain_graph; i++) {
    r->ran[i] |= nodes[i];
    all &= r->ran[i] || !r->graph->saves[i];
  }
  r->is_spent = all && !w->retain_graph;
  return RUSH_OK;
}

/* Run the formula of a graph's record for the gradients that there are. */
static rush_status run_graph(walk *w, const node *n)
{
  const grad_record *r = n->r;
  const op_gradient *g = NULL;
  const bool *nodes = NULL;
  const size_t bytes = r->n_results + 2 * (size_t)r->n_args;
  bool *flags = mem_alloc_zero(w->cx->ctx, bytes);
  if (!flags)
    return call_nomem(w->cx);
  for (uint32_t i = 0; i < r->n_results; i++)
    flags[i] =
      r->results[i].kind == GRAD_TENSOR && is_defined_tensor(n->grads[r->results[i].first]);
  bool *used = flags + r->n_results, *adds = used + r->n_args;
  for (uint32_t i = 0; i < r->n_args; i++) {
    used[i] = r->args[i].kind == GRAD_TENSOR && slot_is_used(w, n, &r->args[i]);
    adds[i] = used[i] && is_defined_tensor(so_far(w, n, i));
  }
  /* Recorded additions have their places among the records of the formulas. */
  rush_status st = r->graph->formula(w->cx, r->graph, flags, used, w->cx->recorder ? adds : NULL,
                                     &g, &nodes);
  mem_free(w->cx->ctx, flags, bytes);
  TRY(st);
  TRY(note_ran(w, n->r, nodes));
  return run_formula(w, n, g);
}

static rush_status run_record(walk *w, const node *n)
{
  const op_gradients *g = n->r->formulas;
  if (n->r->freed)
    return fail_freed(w);
  if (!g)
    return call_fail(w->cx, "derivative for %s is not implemented", n->r->o->schema->name);
  if (n->r->graph)
    return run_graph(w, n);
  for (uint32_t f = 0; f < g->n; f++) {
    bool used = false;
    for (uint32_t i = 0; i < g->items[f].n_inputs; i++)
      used |= is_used(w, n, &g->items[f], i);
    if (used)
      TRY(run_formula(w, n, &g->items[f]));
  }
  return RUSH_OK;
}

/* Add `part` to a gradient that is kept, in place or not; a kept gradient shares no memory with
 * others. */
static rush_status keep_gradient(walk *w, rush_tensor **grad, rush_value part, bool in_place)
{
  rush_value args[2] = {{.tag = RUSH_TAG_TENSOR, .as.tensor = *grad}, part}, sum;
  if (*grad)
    TRY(op_invoke_name(w->cx, in_place ? "aten::add_" : "aten::add", "Tensor", args, 2, &sum));
  else
    TRY(op_invoke_name(w->cx, "aten::clone", "", &part, 1, &sum));
  tensor_release(*grad);
  *grad = sum.as.tensor;
  return RUSH_OK;
}

/* True if only the run knows the tensor and its memory, and a copy would have its layout. */
static bool is_only_ours(const rush_tensor *t)
{
  return heap_is_unique(&t->h) && heap_is_unique(&t->st->h) && !t->extra &&
         t->st->origin == STORAGE_OURS && !t->st->deleter && !t->h.small &&
         t->st->n_bytes == (size_t)t->n_elems * tensor_item_bytes(t) &&
         !(t->h.flags & (TENSOR_WRAPPED_NUMBER | TENSOR_REQUIRES_GRAD)) && tensor_is_dense(t);
}

/* Add a leaf's gradient to the one it has, or pass it to the host. */
static rush_status accumulate(walk *w, const node *n)
{
  grad_meta *m = grad_meta_find(n->r->leaf);
  bool known = false;
  if (!m || !n->grads || !is_defined_tensor(n->grads[0]))
    return RUSH_OK;
  const rush_value leaf = {.tag = RUSH_TAG_TENSOR, .as.tensor = n->r->leaf};
  if (w->host)
    TRY(w->host->add(w->host->user, leaf, n->grads[0], w->cx->recorder != NULL, w->retain_graph,
                     &known, w->cx->err));
  if (!known && !m->grad && !w->cx->recorder && is_only_ours(n->grads[0].as.tensor)) {
    m->grad = n->grads[0].as.tensor;
    n->grads[0] = value_none();
    return RUSH_OK;
  }
  return known ? RUSH_OK : keep_gradient(w, &m->grad, n->grads[0], !w->cx->recorder);
}

static rush_status keep_results(walk *w, const node *n)
{
  for (uint32_t k = 0; n->grads && k < n->r->n_made; k++)
    if (n->r->made[k].keeper && is_defined_tensor(n->grads[k]))
      TRY(keep_gradient(w, &n->r->made[k].keeper->grad, n->grads[k], false));
  return RUSH_OK;
}

static void capture(const walk *w, const node *n, rush_value *results)
{
  for (size_t i = 0; i < w->n_wanted; i++)
    if (w->wanted[i].to == n->r && n->grads && is_defined_tensor(n->grads[w->wanted[i].result]))
      results[i] = value_retain(n->grads[w->wanted[i].result]);
}

static void drop_gradients(const node *n)
{
  for (uint32_t k = 0; n->grads && k < n->r->n_made; k++) {
    value_release(n->grads[k]);
    n->grads[k] = value_none();
  }
}

/* Run a node whose gradient is complete. */
static rush_status run_node(walk *w, const node *n, rush_value *results)
{
  bool is_run = false;
  TRY(call_poll(w->cx));
  capture(w, n, results);
  TRY(keep_results(w, n));
  if (!n->r->o && !w->wanted)
    TRY(accumulate(w, n));
  for (uint32_t k = 0; k < n->r->n_tensors && !is_run; k++)
    is_run = edge_node(w, n, k) != NULL;
  if (is_run && n->grads) {
    TRY(run_record(w, n));
    if (!w->retain_graph && (!n->r->graph || n->r->is_spent))
      grad_record_free_saved(n->r);
  }
  drop_gradients(n);
  return RUSH_OK;
}

/* Count down what n contributed to.  Complete leaves run at once, the last argument's first: as if
 * a graph's nodes had run one by one. */
static rush_status count_down(walk *w, const node *n, rush_value *results)
{
  for (uint32_t k = n->r->n_tensors; k-- > 0;) {
    node *to = edge_node(w, n, k);
    if (!to || --to->n_waiting)
      continue;
    if (to->r->o)
      TRY(push_ready(w, (uint32_t)(to - w->nodes)));
    else
      TRY(run_node(w, to, results));
  }
  return RUSH_OK;
}

static rush_status run_all(walk *w, rush_value *results)
{
  for (uint32_t i = 0; i < w->n; i++)
    if (w->nodes[i].is_needed && !w->nodes[i].n_waiting)
      TRY(push_ready(w, i));
  while (w->n_stack) {
    const node *n = &w->nodes[pop_ready(w)];
    TRY(run_node(w, n, results));
    TRY(count_down(w, n, results));
  }
  return RUSH_OK;
}

/* -- From outside ------------------------------------------------------------------------------ */

static rush_status check_grad(call_ctx *cx, const grad_request *q, size_t i)
{
  const rush_tensor *t = q->outputs[i], *g = q->grads ? q->grads[i] : NULL;
  sizes_text a, b;
  if (g &&
      (g->n_dims != t->n_dims || memcmp(g->sizes, t->sizes, t->n_dims * sizeof *t->sizes) != 0))
    return call_fail(cx,
                     "Mismatch in shape: grad_output[%zu] has a shape of torch.Size(%s) and "
                     "output[%zu] has a shape of torch.Size(%s).",
                     i, sizes_print(&a, g->n_dims, g->sizes), i,
                     sizes_print(&b, t->n_dims, t->sizes));
  return RUSH_OK;
}

static rush_status start(walk *w, const grad_request *q)
{
  for (size_t i = 0; i < q->n_outputs; i++) {
    grad_edge e;
    TRY(check_grad(w->cx, q, i));
    TRY(grad_edge_of(w->cx, q->outputs[i], &e));
    if (!e.to)
      return call_fail(
        w->cx, "element %zu of tensors does not require grad and does not have a grad_fn", i);
    rush_status st = walk_from(w, e.to);
    rush_value v = value_none();
    if (st == RUSH_OK && q->grads && q->grads[i])
      v = value_tensor_steal(tensor_retain(q->grads[i]));
    else if (st == RUSH_OK)
      st = filled(w->cx, q->outputs[i], &v);
    if (st == RUSH_OK)
      st = add_steal(w, find_record(w, e.to), e.result, v);
    grad_record_release(e.to);
    TRY(st);
  }
  return RUSH_OK;
}

/* Find the edges of inputs.  An input that was a leaf counts as that leaf, whatever was written to
 * it since. */
static rush_status input_edges(call_ctx *cx, const grad_request *q, grad_edge *wanted)
{
  for (size_t i = 0; i < q->n_inputs; i++) {
    wanted[i] = (grad_edge){grad_leaf_of(q->inputs[i]), 0};
    if (!wanted[i].to)
      TRY(grad_edge_of(cx, q->inputs[i], &wanted[i]));
    if (!wanted[i].to)
      return call_fail(cx, "One of the differentiated Tensors does not require grad");
  }
  return RUSH_OK;
}

static rush_status check_unused(call_ctx *cx, const grad_request *q, const rush_value *results)
{
  for (size_t i = 0; i < q->n_inputs; i++)
    if (!is_defined_tensor(results[i]) && !q->allow_unused)
      return call_fail(cx, "One of the differentiated Tensors appears to not have been used in the "
                           "graph. Set allow_unused=True if this is "
                           "the desired behavior.");
  return RUSH_OK;
}

rush_status grad_run(call_ctx *cx, const grad_request *q, rush_value *results)
{
  const call_recorder *outer = cx->recorder;
  const bool mode = cx->grad_mode;
  const uint8_t watch = cx->watch;
  walk w = {.cx = cx,
            .by_record = {.ctx = cx->ctx},
            .n_wanted = q->n_inputs,
            .retain_graph = q->retain_graph || q->create_graph,
            .host = outer ? outer->host : NULL};
  grad_edge *wanted = mem_alloc_zero(cx->ctx, q->n_inputs * sizeof *wanted);
  if (!wanted)
    return call_nomem(cx);
  cx->grad_mode = q->create_graph;
  cx->recorder = !q->create_graph ? NULL : outer ? outer : &autograd_recorder;
  cx->watch |= q->create_graph ? CALL_RECORDED : 0;
  for (size_t i = 0; i < q->n_inputs; i++)
    results[i] = value_none();
  w.wanted = q->n_inputs ? wanted : NULL;
  rush_status st = input_edges(cx, q, wanted);
  if (st == RUSH_OK)
    st = start(&w, q);
  if (st == RUSH_OK) {
    count_waiting(&w);
    st = run_all(&w, results);
  }
  if (st == RUSH_OK)
    st = check_unused(cx, q, results);
  walk_free(&w);
  cx->grad_mode = mode;
  cx->watch = watch;
  cx->recorder = outer;
  for (size_t i = 0; i < q->n_inputs; i++) {
    grad_record_release(wanted[i].to);
    if (st != RUSH_OK) {
      value_release(results[i]);
      results[i] = value_none();
    }
  }
  mem_free(cx->ctx, wanted, q->n_inputs * sizeof *wanted);
  return st;
}

rush_status grad_leaves(call_ctx *cx, rush_tensor *const *tensors, size_t n, rush_value *out)
{
  walk w = {.cx = cx, .by_record = {.ctx = cx->ctx}};
  rush_list *l;
  TRY(list_new(cx, type_simple(TYPE_TENSOR), 8, &l));
  rush_status st = RUSH_OK;
  for (size_t i = 0; i < n && st == RUSH_OK; i++) {
    grad_edge e = {NULL, 0};
    st = grad_edge_of(cx, tensors[i], &e);
    if (st == RUSH_OK && e.to)
      st = walk_from(&w, e.to);
    grad_record_release(e.to);
  }
  for (uint32_t i = 0; i < w.n && st == RUSH_OK; i++) {
    rush_tensor *leaf = w.nodes[i].r->leaf;
    if (leaf)
      st = list_append_steal(cx, l, value_tensor_steal(tensor_retain(leaf)));
  }
  walk_free(&w);
  *out = value_heap_steal(RUSH_TAG_LIST, l);
  if (st != RUSH_OK)
    value_release(*out);
  return st;
}
