/* export/capture_region.c -- regions of a gradient mode and of autocast become graphs of their own:
 * wrap_with_set_grad_enabled and wrap_with_autocast, as torch.export writes them.
 *
 * While a program is captured, a change of the mode is a marker: a node with one of the targets
 * below.  At the end the nodes between two markers move into a graph, whose inputs are what they
 * use of outside in the order of first use, and whose results are what is used of them, likewise;
 * the markers go.  Gradient modes come first: a region of autocast inside of one stays inside. */
#include "export/capture_int.h"

#include "base/grow.h"
#include "ops/call/lookup.h"

static const char set_grad[] = "torch._C._set_grad_enabled";
static const char enter_autocast[] = "torch.amp.autocast_mode._enter_autocast";
static const char exit_autocast[] = "torch.amp.autocast_mode._exit_autocast";

void capture_mark_grad(capture *c, bool enabled)
{
  const fx_arg arg = {.kind = FX_BOOL, .as.b = enabled};

  capture_node(c, set_grad, &arg, 1)->returns_none = true;
  c->has_regions = true;
}

void capture_mark_autocast(capture *c, const fx_arg *args, uint32_t n)
{
  capture_node(c, n ? enter_autocast : exit_autocast, args, n)->returns_none = true;
  c->has_regions = true;
  c->n_autocast += n ? 1 : c->n_autocast ? UINT32_MAX : 0;
}

static bool is_call(const fx_node *n, const char *target)
{
  return n->op == FX_CALL_FUNCTION && strcmp(n->target, target) == 0;
}

/* -- Lists of nodes ---------------------------------------------------------------------------- */

typedef struct nodes {
  session *s;
  fx_node **v;
  uint32_t n, cap;
  table members;
} nodes;

static void nodes_init(session *s, nodes *l)
{
  *l = (nodes){.s = s};
  session_table_init(s, &l->members);
}

static bool has(const nodes *l, const fx_node *n) { return table_get(&l->members, address_key(n)); }

static void take_in(nodes *l, fx_node *n)
{
  if (has(l, n))
    return;
  session_table_put(l->s, &l->members, address_key(n), n);
  GROW(l->s, l->v, l->n, l->cap, 16);
  l->v[l->n++] = n;
}

/* -- Moving ------------------------------------------------------------------------------------ */

/* Move a node to the end of another graph, under its name. */
static void move_node(session *s, fx_node *n, fx_graph *to)
{
  if (n->op == FX_GET_ATTR)
    fx_graph_move_subgraph(s, n->graph, to, n->target);
  fx_node_unlink(n);
  n->graph = to;
  n->name = fx_names_take(s, &to->names, str_of(n->name));
  n->prev = to->last;
  *(to->last ? &to->last->next : &to->first) = n;
  to->last = n;
  n->index = to->n_nodes++;
}

static fx_arg replaced(capture *c, fx_arg a, const table *by);

static fx_arg *replaced_items(capture *c, const fx_arg *from, uint32_t n, const table *by)
{
  fx_arg *items = session_alloc_in(c->s, c->mem, ((size_t)n + 1) * sizeof *items);

  for (uint32_t i = 0; i < n; i++)
    items[i] = replaced(c, from[i], by);
  return items;
}

/* Return an argument with other nodes in the place of those in the table. */
static fx_arg replaced(capture *c, fx_arg a, const table *by)
{
  if (a.kind == FX_NODE) {
    fx_node *n = table_get(by, address_key(a.as.node));
    return n ? fx_arg_node(n) : a;
  }
  if (a.kind != FX_LIST && a.kind != FX_TUPLE)
    return a;
  session_enter(c->s);
  a.as.items = replaced_items(c, a.as.items, a.n, by);
  session_leave(c->s);
  return a;
}

static void replace_inputs(capture *c, fx_node *n, const table *by)
{
  fx_named *named = session_alloc_in(c->s, c->mem, ((size_t)n->n_kwargs + 1) * sizeof *named);

  for (uint32_t i = 0; i < n->n_kwargs; i++)
    named[i] = (fx_named){n->kwargs[i].name, replaced(c, n->kwargs[i].arg, by)};
  n->args = replaced_items(c, n->args, n->n_args, by);
  n->kwargs = named;
}

/* -- One region -------------------------------------------------------------------------------- */

typedef struct region {
  capture *c;
  fx_graph *g, *inner;
  nodes inside, used, results;
  table outside; /* node of outside -> its placeholder */
} region;

static void note_used(void *arg, fx_node *n)
{
  region *r = arg;

  if (!has(&r->inside, n))
    take_in(&r->used, n);
}
static void note_result(void *arg, fx_node *n)
{
  region *r = arg;

  if (has(&r->inside, n))
    take_in(&r->results, n);
}

static void add_placeholders(region *r, bool hides_inputs)
{
  session *s = r->c->s;

  for (uint32_t i = 0; i < r->used.n; i++) {
    const fx_node *n = r->used.v[i];
    const bool is_hidden = hides_inputs && n->op == FX_PLACEHOLDER;
    const char *name = is_hidden ? session_printf(s, "arg%u_1", i) : n->name;
    fx_node *p = fx_node_new(s, r->inner, FX_PLACEHOLDER, name, name);
    p->target = p->name;
    p->val = n->val;
    session_table_put(s, &r->outside, address_key(n), p);
  }
}

static fx_arg results_tuple(capture *c, const nodes *l)
{
  fx_arg *items = session_alloc_in(c->s, c->mem, ((size_t)l->n + 1) * sizeof *items);

  for (uint32_t i = 0; i < l->n; i++)
    items[i] = fx_arg_node(l->v[i]);
  return (fx_arg){.kind = FX_TUPLE, .n = l->n, .as.items = items};
}

static void add_inner_output(region *r)
{
  fx_arg *all = session_alloc_in(r->c->s, r->c->mem, sizeof *all);
  fx_node *out = fx_node_new(r->c->s, r->inner, FX_OUTPUT, "output", "output");

  *all = results_tuple(r->c, &r->results);
  out->args = all;
  out->n_args = 1;
}

static fx_node *put_before(region *r, fx_op op, const char *target, const char *name,
                           const fx_arg *args, uint32_t n_args, fx_node *at)
{
  capture *c = r->c;
  fx_node *n = fx_node_new(c->s, r->g, op, capture_text(c, target), name);
  fx_arg *copy = session_alloc_in(c->s, c->mem, ((size_t)n_args + 1) * sizeof *copy);

  if (n_args)
    memcpy(copy, args, n_args * sizeof *copy);
  n->args = copy;
  n->n_args = n_args;
  fx_node_move_before(n, at);
  return n;
}

/* Add the items of the call's result, in the place of what the region computes. */
static void add_items(region *r, fx_node *call, fx_node *at)
{
  const bool is_one = r->results.n == 1;
  const fx_val **vals =
    session_alloc_in(r->c->s, r->c->mem, ((size_t)r->results.n + 1) * sizeof *vals);
  fx_val *all = session_alloc_in(r->c->s, r->c->mem, sizeof *all);
  table *by = session_new(r->c->s, table);

  session_table_init(r->c->s, by);
  *all = (fx_val){.kind = FX_VAL_LIST, .is_tuple = true, .n = r->results.n, .as.items = vals};
  call->val = all;
  for (uint32_t i = 0; i < r->results.n; i++) {
    const fx_node *from = r->results.v[i];
    const fx_arg args[] = {fx_arg_node(call), fx_arg_int(i)};
    fx_node *n = put_before(r, FX_CALL_FUNCTION, "_operator.getitem",
                            is_one ? "getitem" : from->name, args, 2, at);
    if (!is_one)
      n->name = from->name;
    n->val = vals[i] = from->val;
    n->metadata = from->metadata;
    session_table_put(r->c->s, by, address_key(from), n);
  }
  for (fx_node *n = at; n; n = n->next)
    replace_inputs(r->c, n, by);
}

static bool has_effect(capture *c, const fx_node *n)
{
  const op *o =
    n->op == FX_CALL_FUNCTION ? session_op_of_target(c->s, str_of(n->target)) : NULL;

  return o && (schema_is_mutable(o->schema) || o->effects & (OP_SIDE_EFFECT | OP_RANDOM));
}

/* Remove the nodes of a region of which nothing is used; if they have effects they stay, in no
 * region: PyTorch opens no program in which a region has no result. */
static void drop_nodes(region *r)
{
  for (uint32_t i = 0; i < r->inside.n; i++)
    if (has_effect(r->c, r->inside.v[i]))
      return;
  for (uint32_t i = 0; i < r->inside.n; i++)
    fx_node_unlink(r->inside.v[i]);
}

/* Move the nodes of [first, end) into a graph, which `target` calls with `flags` first. */
static void wrap_nodes(capture *c, fx_node *first, fx_node *end, const char *target,
                 const fx_arg *flags, uint32_t n_flags, const char *graph_name, const char *name)
{
  session *s = c->s;
  region *r = session_new(s, region);

  *r = (region){.c = c, .g = first->graph, .inner = fx_graph_new(s, c->mem)};
  nodes_init(s, &r->inside);
  nodes_init(s, &r->used);
  nodes_init(s, &r->results);
  session_table_init(s, &r->outside);
  for (fx_node *n = first; n != end; n = n->next)
    take_in(&r->inside, n);
  for (fx_node *n = first; n != end; n = n->next)
    fx_node_inputs(s, n, note_used, r);
  for (const fx_node *n = end; n; n = n->next)
    fx_node_inputs(s, n, note_result, r);
  if (!r->results.n) {
    drop_nodes(r);
    return;
  }
  add_placeholders(r, target[strlen(target) - 1] == 't');
  for (uint32_t i = 0; i < r->inside.n; i++) {
    move_node(s, r->inside.v[i], r->inner);
    replace_inputs(c, r->inside.v[i], &r->outside);
  }
  add_inner_output(r);
  const char *kept = capture_text(c, graph_name);
  fx_graph_add_subgraph(s, r->g, kept, r->inner);
  fx_arg *args = session_array(s, fx_arg, (size_t)n_flags + r->used.n + 2);
  memcpy(args, flags, n_flags * sizeof *args);
  args[n_flags] = fx_arg_node(put_before(r, FX_GET_ATTR, kept, name, NULL, 0, end));
  for (uint32_t i = 0; i < r->used.n; i++)
    args[n_flags + 1 + i] = fx_arg_node(r->used.v[i]);
  fx_node *call = put_before(r, FX_CALL_FUNCTION, target, NULL, args, n_flags + 1 + r->used.n, end);
  if (r->results.n == 1)
    call->name = r->results.v[0]->name;
  add_items(r, call, end);
}

/* -- All regions of a graph -------------------------------------------------------------------- */

static uint32_t count_calls(const fx_graph *g, const char *a, const char *b)
{
  uint32_t count = 0;

  for (const fx_node *n = g->first; n; n = n->next)
    count += is_call(n, a) || is_call(n, b);
  return count;
}

static fx_node *next_marker(fx_node *n)
{
  while (n->op != FX_OUTPUT && !is_call(n, set_grad))
    n = n->next;
  return n;
}

static void wrap_grad(capture *c, fx_graph *g)
{
  uint32_t made = count_calls(g, set_grad, set_grad) + 1, segment = 0;
  fx_node *end;

  for (fx_node *n = next_marker(g->first); n->op != FX_OUTPUT; n = end) {
    fx_node *first = n->next;
    end = next_marker(first);
    segment++;
    if (!n->args[0].as.b && first != end)
      wrap_nodes(c, first, end, "torch.ops.higher_order.wrap_with_set_grad_enabled", n->args, 1,
           session_printf(c->s, "submod_%u", segment), session_printf(c->s, "submod_%u", made++));
    fx_node_unlink(n);
  }
}

/* Return the end of the region that a node enters. */
static fx_node *exit_of(fx_node *enter)
{
  uint32_t depth = 1;
  fx_node *n = enter->next;

  for (; n->op != FX_OUTPUT; n = n->next) {
    depth += is_call(n, enter_autocast);
    depth -= is_call(n, exit_autocast);
    if (!depth)
      break;
  }
  return n;
}

static void wrap_autocast(capture *c, fx_graph *g)
{
  uint32_t made = count_calls(g, enter_autocast, exit_autocast) + 1, segment = 1;
  fx_node *next;

  for (fx_node *n = g->first; n; n = next) {
    next = n->next;
    if (is_call(n, exit_autocast)) {
      fx_node_unlink(n);
      continue;
    }
    if (!is_call(n, enter_autocast))
      continue;
    fx_node *end = exit_of(n), *first = n->next;
    if (first != end)
      wrap_nodes(c, first, end, "torch.ops.higher_order.wrap_with_autocast", n->args, n->n_args,
           session_printf(c->s, "submod_%u", segment), session_printf(c->s, "submod_%u", made++));
    segment += 2;
    fx_node_unlink(n);
    next = end;
  }
}

static void wrap_inside(capture *c, fx_graph *g, void (*wrap_graph)(capture *c, fx_graph *g))
{
  session_enter(c->s);
  wrap_graph(c, g);
  for (uint32_t i = 0; i < g->n_subgraphs; i++)
    wrap_inside(c, g->subgraphs[i].graph, wrap_graph);
  fx_graph_count_users(c->s, g); /* numbers nodes anew: some were moved out */
  session_leave(c->s);
}

void capture_wrap_regions(capture *c)
{
  if (!c->has_regions)
    return;
  wrap_inside(c, c->p->graph, wrap_grad);
  wrap_inside(c, c->p->graph, wrap_autocast);
  const fx_arg *returned = c->p->graph->last->args;
  for (uint32_t i = 0; i < c->n_outputs; i++)
    if (returned->as.items[i].kind == FX_NODE)
      c->outputs[i].arg.name = returned->as.items[i].as.node->name;
}
