/* api/ir_tools.c -- graphs as data: alias queries, valid moves, pattern matching and rewriting, and
 * builders. The analysis is copied into an array by value id, so that the host can keep it after
 * the session ends; later values count as aliasing everything. A builder keeps its first error, so
 * a chain of calls needs one check at the end. */
#include "api/ir_int.h"
#include "ir/alias.h"
#include "passes/tools.h"

/* -- Aliases ----------------------------------------------------------------------------------- */

/* Results by value->id: types and numbers of values are fixed, graphs change. */
struct rush_aliases {
  context *ctx;
  uint32_t n;       /* ids below it were there */
  uint32_t *groups; /* n, then n_groups flags: written */
  size_t n_bytes;
};

typedef struct alias_job {
  edit e;
  rush_aliases *out;
} alias_job;

static void note_values(session *s, const alias_info *a, const ir_block *b, uint32_t *groups)
{
  session_enter(s);
  for (const ir_node *n = b->param;; n = n == b->param ? ir_block_first(b) : n->next) {
    for (uint32_t i = 0; i < n->n_outputs; i++)
      groups[n->outputs[i]->id] = alias_group(a, n->outputs[i]);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      note_values(s, a, n->blocks[i], groups);
    if (n == b->ret)
      break;
  }
  session_leave(s);
}

static void analyse(session *s, edit *e)
{
  alias_job *j = (alias_job *)(void *)e;

  ir_graph_resolve(s, e->g);
  ir_check(s, e->g, NULL);
  const alias_info *a = alias_analyse_all(s, e->g);
  uint32_t n = e->g->next_id, n_groups = alias_n_values(a);
  size_t n_bytes = sizeof *j->out + ((size_t)n + n_groups + 1) * sizeof(uint32_t);
  rush_aliases *out = mem_alloc_zero(e->g->ctx, n_bytes);

  if (!out)
    session_check(s, call_nomem(s->cx));
  *out = (rush_aliases){e->g->ctx, n, (uint32_t *)(void *)(out + 1), n_bytes};
  note_values(s, a, e->g->block, out->groups);
  for (uint32_t i = 0, group; i < alias_n_writes(a); i++) {
    (void)alias_write(a, i, &group);
    if (group < n_groups)
      out->groups[n + group] = 1;
  }
  j->out = out;
}

rush_status api_alias_analyse(rush_graph *g, rush_aliases **out, rush_error *err)
{
  alias_job j = {.out = NULL};
  rush_status st = ir_edit(graph_in(g), analyse, &j.e, err);

  if (st == RUSH_OK)
    *out = j.out;
  return st;
}

void api_alias_release(rush_aliases *a)
{
  if (a)
    mem_free(a->ctx, a, a->n_bytes);
}

/* True if values of these types may be the same object; types of different kinds never are. */
static bool may_be_same_type(const type *x, const type *y)
{
  x = type_runtime(x);
  y = type_runtime(y);
  x = type_is(x, TYPE_OPTIONAL) ? type_runtime(type_elem(x)) : x;
  y = type_is(y, TYPE_OPTIONAL) ? type_runtime(type_elem(y)) : y;
  if (x->kind == y->kind)
    return true;
  bool open_x = x->kind == TYPE_ANY || x->kind == TYPE_UNION || x->kind == TYPE_VAR ||
                x->kind == TYPE_INTERFACE;
  bool open_y = y->kind == TYPE_ANY || y->kind == TYPE_UNION || y->kind == TYPE_VAR ||
                y->kind == TYPE_INTERFACE;

  return open_x || open_y || x->kind == TYPE_ANY_LIST || y->kind == TYPE_ANY_LIST ||
         x->kind == TYPE_ANY_TUPLE || y->kind == TYPE_ANY_TUPLE;
}

bool api_alias_may(const rush_aliases *a, const rush_graph_value *x, const rush_graph_value *y,
                   bool contained)
{
  const ir_value *v = value_in(x), *w = value_in(y);

  if (v->id >= a->n || w->id >= a->n)
    return true;
  return a->groups[v->id] != ALIAS_NO_MEMORY && a->groups[v->id] == a->groups[w->id] &&
         (contained || may_be_same_type(v->type, w->type));
}

bool api_alias_has_writers(const rush_aliases *a, const rush_graph_value *v)
{
  const ir_value *in = value_in(v);

  return in->id >= a->n ||
         (a->groups[in->id] != ALIAS_NO_MEMORY && a->groups[a->n + a->groups[in->id]]);
}

/* -- Moves ------------------------------------------------------------------------------------- */

static void move(session *s, edit *e)
{
  ir_graph_resolve(s, e->g);
  ir_check(s, e->g, NULL);
  e->flag = move_if_valid(s, e->n, e->at, e->flag, e->i == 0);
}

rush_status api_node_move_if_valid(const rush_node *n, const rush_node *at, bool after,
                                   bool try_only, bool *done, rush_error *err)
{
  edit e = {.n = node_in(n), .at = node_in(at), .flag = after, .i = try_only};

  TRY(ir_need_node(e.n, err));
  TRY(ir_need_node(e.at, err));
  if (!e.n->block || e.n->block != e.at->block || e.n->kind == IR_PARAM || e.n->kind == IR_RETURN ||
      e.at->kind == IR_PARAM || (e.at->kind == IR_RETURN && after))
    return ir_misuse(err, "nodes of one block can be moved beside each other");
  TRY(ir_edit(e.n->graph, move, &e, err));
  *done = e.flag;
  return RUSH_OK;
}

/* -- Patterns ---------------------------------------------------------------------------------- */

typedef bool found_fn(void *user, const rush_match *m);
typedef struct match_job {
  edit e;
  ir_graph *pattern;
  const ir_graph *by;
  found_fn *found;
  void *user;
  size_t n;
} match_job;

static bool call_filter(void *user, const ir_match *m)
{
  const match_job *j = user;

  return j->found(j->user, (const rush_match *)(const void *)m);
}

static void match(session *s, edit *e)
{
  match_job *j = (match_job *)(void *)e;

  ir_graph_resolve(s, e->g);
  ir_graph_resolve(s, j->pattern);
  if (j->by) {
    j->n = rewrite_all(s, j->pattern, j->by, e->g, j->found ? call_filter : NULL, j);
    return;
  }
  for (const ir_match *m = match_all(s, j->pattern, e->g); m && call_filter(j, m); m = m->next)
    ;
}

rush_status api_graph_match(rush_graph *g, rush_graph *pattern, found_fn *found, void *user,
                            rush_error *err)
{
  match_job j = {.pattern = graph_in(pattern), .found = found, .user = user};

  if (g == pattern)
    return ir_misuse(err, "a graph is no pattern of itself");
  return ir_edit(graph_in(g), match, &j.e, err);
}

rush_status api_graph_rewrite(rush_graph *g, rush_graph *pattern, const rush_graph *by,
                              found_fn *accept, void *user, size_t *n, rush_error *err)
{
  match_job j = {.pattern = graph_in(pattern), .by = graph_in(by), .found = accept, .user = user};

  if (g == pattern || g == by)
    return ir_misuse(err, "a graph is no pattern of itself");
  TRY(ir_edit(graph_in(g), match, &j.e, err));
  *n = j.n;
  return RUSH_OK;
}

const rush_node *api_match_anchor(const rush_match *m)
{
  return node_out(((const ir_match *)(const void *)m)->anchor);
}

const rush_graph_value *api_match_value(const rush_match *rm, const rush_graph_value *of_pattern)
{
  const ir_match *m = (const ir_match *)(const void *)rm;
  const ir_value *p = value_in(of_pattern);

  return p->node->graph == m->pattern ? value_out(m->values[p->scratch]) : NULL;
}

/* -- Building ---------------------------------------------------------------------------------- */

struct rush_builder {
  ir_graph *g;
  rush_error err;
};

rush_builder *api_build_begin(rush_graph *g)
{
  rush_builder *b = mem_alloc_zero(graph_in(g)->ctx, sizeof *b);

  if (b)
    b->g = graph_in(g);
  return b;
}

bool api_build_failed(const rush_builder *b) { return b->err.status != RUSH_OK; }

const rush_graph_value *api_build_input(rush_builder *b, const char *name, const char *type)
{
  rush_graph *g = graph_out(b->g);
  const rush_graph_value *out = NULL;
  const rush_type *t;

  if (api_build_failed(b) || api_type_parse(b->g->ctx, type, g, &t, &b->err) != RUSH_OK)
    return NULL;
  rush_status st = api_node_insert_output(node_out(b->g->block->param),
                                          ir_block_n_inputs(b->g->block), t, name, &out, &b->err);

  api_type_release(t);
  return st == RUSH_OK ? out : NULL;
}

const rush_graph_value *api_build_constant(rush_builder *b, rush_value v)
{
  const rush_graph_value *out = NULL;

  return api_build_failed(b) ||
             api_graph_insert_constant(graph_out(b->g), v, NULL, &out, &b->err) != RUSH_OK
           ? NULL
           : out;
}

const rush_graph_value *api_build_call(rush_builder *b, const char *op,
                                       const rush_graph_value *const *args, size_t n_args)
{
  const rush_graph_value *out = NULL;

  if (api_build_failed(b))
    return NULL;
  for (size_t i = 0; i < n_args; i++)
    if (!args[i]) {
      (void)ir_misuse(&b->err, "argument %zu of %s is no value", i, op);
      return NULL;
    }
  return api_graph_insert(graph_out(b->g), op, args, NULL, n_args, NULL, 0, &out, &b->err) ==
             RUSH_OK
           ? out
           : NULL;
}

void api_build_output(rush_builder *b, const rush_graph_value *v)
{
  if (!api_build_failed(b))
    (void)!api_node_insert_input(node_out(b->g->block->ret), ir_block_n_outputs(b->g->block), v,
                                 &b->err);
}

rush_status api_build_end(rush_builder *b, rush_error *err)
{
  rush_status st = b->err.status;

  if (err)
    error_move(err, &b->err);
  rush_error_clear(&b->err);
  mem_free(b->g->ctx, b, sizeof *b);
  return st;
}
