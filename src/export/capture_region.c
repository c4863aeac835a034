/* export/capture_region.c -- regions of a gradient mode and of autocast become graphs of their own:
 * wrap_with_set_grad_enabled and wrap_with_autocast, as torch.export writes them.
 *
 * While a program is captured, a change of the mode is a marker: a node with one of the targets
 * below.  At the end the nodes between two markers move into a graph, whose inputs are what they
 * use of outside in the order of first use, and whose results are what is used of them, likewise;
 * the markers go.  Gradient modes come first: a region of autocast inside of one stays inside.
 *
 * The uses of all nodes of a graph are listed before its first region is made, so that a region
 * costs what it holds and what uses its results: O(n log n) for a graph. */
#include "export/capture_int.h"

#include <stdlib.h>

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

/* -- Uses of nodes ----------------------------------------------------------------------------- */

typedef struct use {
  fx_node *user;
  uint32_t at; /* grows along the graph */
  struct use *next;
} use;

/* The regions of one kind of one graph. */
typedef struct wrapping {
  capture *c;
  fx_graph *g;
  const char *target; /* of their calls */
  bool hides_inputs;  /* PyTorch numbers the program's inputs in their graphs */
  table uses;         /* node -> its uses, the last one first */
  fx_node *user;
  uint32_t n_uses;
  uint32_t made;      /* the number in the name of the next call's graph */
} wrapping;

static void note_use(void *arg, fx_node *n)
{
  wrapping *w = arg;
  use *u = session_new(w->c->s, use);

  *u = (use){w->user, w->n_uses++, table_get(&w->uses, address_key(n))};
  session_table_put(w->c->s, &w->uses, address_key(n), u);
}

static void list_uses(wrapping *w)
{
  session_table_init(w->c->s, &w->uses);
  for (fx_node *n = w->g->first; n; n = n->next) {
    w->user = n;
    fx_node_inputs(w->c->s, n, note_use, w);
  }
}

/* -- One region -------------------------------------------------------------------------------- */

typedef struct region {
  wrapping *w;
  capture *c;
  fx_graph *g, *inner;
  nodes inside, used, results, users; /* users: the nodes outside that use the results */
  table outside; /* node of outside -> its placeholder */
} region;

static void note_used(void *arg, fx_node *n)
{
  region *r = arg;

  if (!has(&r->inside, n))
    take_in(&r->used, n);
}

static int by_first_use(const void *a, const void *b)
{
  const use *left = a, *right = b;

  return left->at < right->at ? -1 : left->at > right->at;
}

/* Find the results, in the order of their first use outside, and who uses them. */
static void find_results(region *r)
{
  use *found = session_array(r->c->s, use, (size_t)r->inside.n + 1);
  uint32_t n = 0;

  for (uint32_t i = 0; i < r->inside.n; i++) {
    bool is_result = false;
    for (const use *u = table_get(&r->w->uses, address_key(r->inside.v[i])); u; u = u->next) {
      if (has(&r->inside, u->user))
        continue;
      take_in(&r->users, u->user);
      found[n] = (use){r->inside.v[i], u->at, NULL};
      is_result = true;
    }
    n += is_result;
  }
  qsort(found, n, sizeof *found, by_first_use);
  for (uint32_t i = 0; i < n; i++)
    take_in(&r->results, found[i].user);
}

static void add_placeholders(region *r)
{
  session *s = r->c->s;
  const bool hides_inputs = r->w->hides_inputs && r->g == r->c->p->graph;

  for (uint32_t i = 0; i < r->used.n; i++) {
    const fx_node *n = r->used.v[i];
    const bool is_hidden = hides_inputs && n->op == FX_PLACEHOLDER;
    const char *name = is_hidden ? session_printf(s, "arg%u_1", n->index) : n->name;
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

  n->args = capture_args(c, args, n_args);
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
    fx_node *n = put_before(r, FX_CALL_FUNCTION, "_operator.getitem", "getitem", args, 2, at);
    if (!is_one)
      n->name = from->name;
    n->val = vals[i] = from->val;
    n->metadata = from->metadata;
    session_table_put(r->c->s, by, address_key(from), n);
  }
  for (uint32_t i = 0; i < r->users.n; i++)
    replace_inputs(r->c, r->users.v[i], by);
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

static region *region_new(wrapping *w, fx_node *first, fx_node *end)
{
  session *s = w->c->s;
  region *r = session_new(s, region);

  *r = (region){.w = w, .c = w->c, .g = w->g, .inner = fx_graph_new(s, w->c->mem)};
  nodes_init(s, &r->inside);
  nodes_init(s, &r->used);
  nodes_init(s, &r->results);
  nodes_init(s, &r->users);
  session_table_init(s, &r->outside);
  for (fx_node *n = first; n != end; n = n->next)
    take_in(&r->inside, n);
  for (fx_node *n = first; n != end; n = n->next)
    fx_node_inputs(s, n, note_used, r);
  find_results(r);
  return r;
}

/* Put the call of the region's graph before `end`: with the marker's arguments, then what the
 * region uses. */
static fx_node *call_region(region *r, const fx_node *marker, const char *graph_name, fx_node *end)
{
  capture *c = r->c;
  const uint32_t n_flags = marker->n_args;
  fx_arg *args = session_array(c->s, fx_arg, (size_t)n_flags + r->used.n + 2);
  const char *name = session_printf(c->s, "submod_%u", r->w->made++);

  memcpy(args, marker->args, n_flags * sizeof *args);
  args[n_flags] = fx_arg_node(put_before(r, FX_GET_ATTR, graph_name, name, NULL, 0, end));
  for (uint32_t i = 0; i < r->used.n; i++)
    args[n_flags + 1 + i] = fx_arg_node(r->used.v[i]);
  return put_before(r, FX_CALL_FUNCTION, r->w->target, NULL, args, n_flags + 1 + r->used.n, end);
}

/* Move the nodes from a marker to `end` into a graph; `segment`: the number in its name. */
static void wrap_nodes(wrapping *w, const fx_node *marker, fx_node *end, uint32_t segment)
{
  capture *c = w->c;
  session *s = c->s;

  if (marker->next == end)
    return;
  region *r = region_new(w, marker->next, end);
  if (!r->results.n) {
    drop_nodes(r);
    return;
  }
  add_placeholders(r);
  for (uint32_t i = 0; i < r->inside.n; i++) {
    move_node(s, r->inside.v[i], r->inner);
    replace_inputs(c, r->inside.v[i], &r->outside);
  }
  add_inner_output(r);
  const char *name = session_printf(s, "submod_%u", segment);
  while (fx_graph_subgraph(r->g, name)) /* of the other kind of regions */
    name = session_printf(s, "submod_%u", w->made++);
  name = capture_text(c, name);
  fx_graph_add_subgraph(s, r->g, name, r->inner);
  fx_node *call = call_region(r, marker, name, end);
  if (r->results.n == 1)
    call->name = r->results.v[0]->name;
  add_items(r, call, end);
}

/* -- All regions of a graph -------------------------------------------------------------------- */

static fx_node *next_marker(fx_node *n)
{
  while (n->op != FX_OUTPUT && !is_call(n, set_grad))
    n = n->next;
  return n;
}

static void wrap_grad(wrapping *w)
{
  uint32_t segment = 0;
  fx_node *end;

  for (const fx_node *n = w->g->first; n; n = n->next)
    w->made += is_call(n, set_grad);
  for (fx_node *n = next_marker(w->g->first); n->op != FX_OUTPUT; n = end) {
    end = next_marker(n->next);
    segment++;
    if (!n->args[0].as.b)
      wrap_nodes(w, n, end, segment);
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

/* Return the number of the segment that follows a region: there is one between two regions, if
 * nodes are between them. */
static uint32_t segment_after(const fx_node *exit, uint32_t segment)
{
  const fx_node *n = exit->op == FX_OUTPUT ? exit : exit->next;

  return segment + (n->op != FX_OUTPUT && !is_call(n, enter_autocast));
}

static void wrap_autocast(wrapping *w)
{
  uint32_t segment = 0;
  fx_node *next;

  for (fx_node *n = w->g->first; n; n = n->next)
    if (is_call(n, enter_autocast)) {
      n = exit_of(n);
      w->made = segment_after(n, w->made + 1);
    }
  for (fx_node *n = w->g->first; n; n = next) {
    next = n->next;
    if (is_call(n, enter_autocast)) {
      next = exit_of(n);
      const uint32_t after = segment_after(next, segment + 1);
      wrap_nodes(w, n, next, segment + 1);
      segment = after;
    }
    if (is_call(n, enter_autocast) || is_call(n, exit_autocast))
      fx_node_unlink(n);
  }
}

static void wrap_inside(capture *c, fx_graph *g, bool is_autocast)
{
  wrapping *w = session_new(c->s, wrapping); /* its table lives as long as the session */

  session_enter(c->s);
  *w = (wrapping){.c = c, .g = g, .hides_inputs = is_autocast, .made = 1};
  w->target = is_autocast ? "torch.ops.higher_order.wrap_with_autocast"
                          : "torch.ops.higher_order.wrap_with_set_grad_enabled";
  fx_graph_count_users(c->s, g); /* numbers nodes anew: some were moved */
  list_uses(w);
  (is_autocast ? wrap_autocast : wrap_grad)(w);
  fx_graph_close_gaps(c->s, g);
  for (uint32_t i = 0; i < g->n_subgraphs; i++)
    wrap_inside(c, g->subgraphs[i].graph, is_autocast);
  fx_graph_count_users(c->s, g);
  session_leave(c->s);
}

void capture_wrap_regions(capture *c)
{
  if (!c->has_regions)
    return;
  wrap_inside(c, c->p->graph, false);
  wrap_inside(c, c->p->graph, true);
  const fx_arg *returned = c->p->graph->last->args;
  for (uint32_t i = 0; i < c->n_outputs; i++)
    if (returned->as.items[i].kind == FX_NODE)
      c->outputs[i].arg.name = returned->as.items[i].as.node->name;
}
