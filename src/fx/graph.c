/* fx/graph.c -- making and walking graphs of torch.fx.  Nodes are a list in the order of execution;
 * who uses a node is counted when it is asked for, in one walk, rather than kept up with each
 * change: readers and printers ask once. */
#include "fx/graph.h"

#include "base/grow.h"

fx_graph *fx_graph_new(session *s, arena *mem)
{
  fx_graph *g = session_alloc_in(s, mem, sizeof *g);

  g->ctx = s->cx->ctx;
  g->mem = mem;
  fx_names_init(&g->names, g->ctx, mem);
  table_init(&g->inner, g->ctx);
  session_defer(s, fx_graph_free_deferred, g);
  return g;
}

void fx_graph_free(fx_graph *g)
{
  if (!g)
    return;
  fx_names_free(&g->names);
  table_free(&g->inner);
  for (uint32_t i = 0; i < g->n_subgraphs; i++)
    fx_graph_free(g->subgraphs[i].graph);
}

void fx_graph_free_deferred(void *g) { fx_graph_free(g); }

const char *fx_target_name(session *s, const char *target)
{
  str t = str_of(target);
  size_t at = 0;

  if (t.len > 10 && memcmp(t.p, "torch.ops.", 10) == 0) {
    for (at = 10; at < t.len && t.p[at] != '.'; at++)
      ;
    at += at < t.len;
  } else {
    for (size_t i = 0; i < t.len; i++)
      at = t.p[i] == '.' ? i + 1 : at;
  }
  return fx_snake_case(s, (str){t.p + at, t.len - at});
}

fx_node *fx_node_new(session *s, fx_graph *g, fx_op op, const char *target, const char *name)
{
  fx_node *n = session_alloc_in(s, g->mem, sizeof *n);

  *n = (fx_node){.graph = g, .op = op, .target = target, .prev = g->last, .index = g->n_nodes++};
  n->name = fx_names_make(s, &g->names, str_of(name ? name : fx_target_name(s, target)));
  *(g->last ? &g->last->next : &g->first) = n;
  g->last = n;
  return n;
}

/* Return the place of a subgraph and 1; 0: there is none of that name. */
static uintptr_t place_of(const fx_graph *g, const char *name)
{
  return (uintptr_t)table_get(&g->inner, str_of(name));
}

void fx_graph_move_subgraph(session *s, fx_graph *from, fx_graph *to, const char *name)
{
  const uintptr_t at = place_of(from, name);

  if (!at)
    return;
  fx_graph *g = from->subgraphs[at - 1].graph;
  from->subgraphs[at - 1].graph = NULL;
  table_remove(&from->inner, str_of(name));
  session_defer(s, fx_graph_free_deferred, g); /* nobody's, until it is added */
  fx_graph_add_subgraph(s, to, name, g);
}

void fx_graph_close_gaps(session *s, fx_graph *g)
{
  uint32_t n = 0;

  for (uint32_t i = 0; i < g->n_subgraphs; i++) {
    if (!g->subgraphs[i].graph)
      continue;
    g->subgraphs[n++] = g->subgraphs[i];
    session_table_put(s, &g->inner, str_of(g->subgraphs[n - 1].name), (void *)(uintptr_t)n);
  }
  g->n_subgraphs = n;
}

void fx_node_unlink(fx_node *n)
{
  fx_graph *g = n->graph;

  *(n->prev ? &n->prev->next : &g->first) = n->next;
  *(n->next ? &n->next->prev : &g->last) = n->prev;
  n->prev = n->next = NULL;
  g->n_nodes--;
}

void fx_node_move_before(fx_node *n, fx_node *at)
{
  fx_graph *g = n->graph;

  if (at == n)
    return;
  *(n->prev ? &n->prev->next : &g->first) = n->next;
  *(n->next ? &n->next->prev : &g->last) = n->prev;
  n->next = at;
  n->prev = at ? at->prev : g->last;
  *(n->prev ? &n->prev->next : &g->first) = n;
  *(at ? &at->prev : &g->last) = n;
}

void fx_graph_add_subgraph(session *s, fx_graph *g, const char *name, fx_graph *inner)
{
  uintptr_t at = place_of(g, name);
  fx_graph *before = at ? g->subgraphs[at - 1].graph : NULL;

  if (!at) {
    GROW_IN(s, g->mem, g->subgraphs, g->n_subgraphs, g->cap_subgraphs, 2);
    at = ++g->n_subgraphs;
    g->subgraphs[at - 1] = (fx_subgraph){name, NULL};
    session_table_put(s, &g->inner, str_of(name), (void *)at);
  }
  g->subgraphs[at - 1].graph = session_keep(s, inner);
  fx_graph_free(before);
}

fx_graph *fx_graph_subgraph(const fx_graph *g, const char *name)
{
  const uintptr_t at = place_of(g, name);

  return at ? g->subgraphs[at - 1].graph : NULL;
}

/* -- Uses -------------------------------------------------------------------------------------- */

static void visit_arg(session *s, const fx_arg *a, fx_visit *visit, void *arg)
{
  if (a->kind == FX_NODE) {
    visit(arg, a->as.node);
  } else if (a->kind == FX_LIST || a->kind == FX_TUPLE || a->kind == FX_DICT) {
    session_enter(s);
    for (uint32_t i = 0; i < a->n; i++)
      visit_arg(s, a->kind == FX_DICT ? &a->as.named[i].arg : &a->as.items[i], visit, arg);
    session_leave(s);
  }
}

void fx_node_inputs(session *s, const fx_node *n, fx_visit *visit, void *arg)
{
  for (uint32_t i = 0; i < n->n_args; i++)
    visit_arg(s, &n->args[i], visit, arg);
  for (uint32_t i = 0; i < n->n_kwargs; i++)
    visit_arg(s, &n->kwargs[i].arg, visit, arg);
}

typedef struct user_count {
  uint32_t *last; /* by node: the last user that was counted, as its index + 1 */
  uint32_t user;
} user_count;

static void count_use(void *arg, fx_node *used)
{
  user_count *c = arg;

  if (c->last[used->index] == c->user)
    return;
  c->last[used->index] = c->user;
  used->n_users++;
}

void fx_graph_count_users(session *s, fx_graph *g)
{
  user_count c = {.last = session_array(s, uint32_t, (size_t)g->n_nodes + 1)};
  uint32_t i = 0;

  for (fx_node *n = g->first; n; n = n->next) {
    n->index = i++;
    n->n_users = 0;
  }
  for (const fx_node *n = g->first; n; n = n->next) {
    session_poll(s);
    c.user = n->index + 1;
    fx_node_inputs(s, n, count_use, &c);
  }
}
