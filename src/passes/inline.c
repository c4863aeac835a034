/* passes/inline.c -- replaces calls of functions and methods by their bodies.
 *
 * Calls inside a body are inlined too, each body once for all its callers.  A function that calls
 * itself is not inlined, nor one whose body would make the graph larger than MOST_NODES. */
#include "passes/passes_int.h"
#include "ops/table/op_keys.h"

#define MOST_NODES (1u << 20)

typedef struct inlined { /* a callee's body, calls in it inlined */
  function *f;
  ir_graph *graph; /* NULL while it is being made */
  uint32_t n_nodes;
  struct inlined *next;
} inlined;

typedef struct inliner {
  session *s;
  inlined *known;
} inliner;

static uint32_t inline_block(inliner *in, ir_block *b, uint32_t n_nodes);

static function *callee_of(const ir_node *n)
{
  return n->kind == IR_CALL_FUNCTION || n->kind == IR_CALL_METHOD ? ir_node_callee(n) : NULL;
}

/* Return the inlined body; NULL: it cannot be inlined. */
static const inlined *body_of(inliner *in, function *f)
{
  for (const inlined *i = in->known; i; i = i->next)
    if (i->f == f)
      return i->graph ? i : NULL;
  inlined *made = session_new(in->s, inlined);
  *made = (inlined){.f = f, .next = in->known};
  in->known = made;
  if (f->state == FUNCTION_COMPILING)
    return NULL;
  function_ensure(in->s, f);
  if (!f->graph)
    return NULL;
  ir_graph *g = ir_graph_copy(in->s, f->graph);
  session_defer(in->s, ir_graph_free_deferred, g);
  made->n_nodes = inline_block(in, g->block, 0);
  made->graph = g;
  return made;
}

/* Keep the names that results had at the call. */
static void keep_name(session *s, const ir_value *call, ir_value *v)
{
  if (call->name && !v->name && v->node->kind != IR_PARAM && v->node->kind != IR_CONSTANT) {
    const char *name = session_strdup(s, call->name);
    ir_value_set_name(s, (ir_value *)(uintptr_t)call, NULL);
    ir_value_set_name(s, v, name);
  }
}

void pass_inline_call(session *s, ir_node *n, const ir_graph *body)
{
  ir_value **in = session_array(s, ir_value *, n->n_inputs),
           **out = session_array(s, ir_value *, n->n_outputs);

  for (uint32_t i = 0; i < n->n_inputs; i++)
    in[i] = ir_node_input(n, i);
  ir_block_inline(s, body->block, n, in, out);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    keep_name(s, n->outputs[i], out[i]);
  pass_replace(n, out);
}

/* Inline calls in b; returns n_nodes plus the number of nodes in b. */
static uint32_t inline_block(inliner *in, ir_block *b, uint32_t n_nodes)
{
  session_enter(in->s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    session_poll(in->s);
    next = n->next;
    n_nodes++;
    for (uint32_t i = 0; i < n->n_blocks; i++)
      n_nodes = inline_block(in, n->blocks[i], n_nodes);
    function *f = callee_of(n);
    const inlined *body = f ? body_of(in, f) : NULL;
    if (!body || ir_block_n_inputs(body->graph->block) != n->n_inputs ||
        ir_block_n_outputs(body->graph->block) != n->n_outputs ||
        n_nodes + body->n_nodes > MOST_NODES)
      continue;
    n_nodes += body->n_nodes;
    pass_inline_call(in->s, n, body->graph);
  }
  session_leave(in->s);
  return n_nodes;
}

void pass_inline(session *s, ir_graph *g)
{
  inliner in = {.s = s};

  inline_block(&in, g->block, 0);
}

/* -- Forks ------------------------------------------------------------------------------------- */

typedef struct fork_list {
  ir_node *n;
  struct fork_list *next;
} fork_list;

static void find_fork(session *s, ir_node *n, void *arg)
{
  fork_list **all = arg, *one;

  if (n->kind != IR_FORK || n->n_outputs != 1)
    return;
  one = session_new(s, fork_list);
  *one = (fork_list){n, *all};
  *all = one;
}

/* Run a fork at once and use its result for its future, if every use of the future is a visible
 * wait. */
static void inline_fork(session *s, ir_node *n, inliner *in)
{
  ir_value *future = n->outputs[0], *result;

  for (const ir_use *u = future->uses; u; u = u->next)
    if (!ir_node_is_op(u->user, OPN_WAIT))
      return;
  ir_value **inputs = session_array(s, ir_value *, n->n_inputs);
  for (uint32_t i = 0; i < n->n_inputs; i++)
    inputs[i] = ir_node_input(n, i);
  const inlined *body = n->function ? body_of(in, n->function) : NULL;
  const ir_block *b = body ? body->graph->block : n->n_blocks == 1 ? n->blocks[0] : NULL;
  if (!b || ir_block_n_inputs(b) != n->n_inputs || ir_block_n_outputs(b) != 1)
    return;
  ir_block_inline(s, b, n, inputs, &result);
  while (future->uses) {
    ir_node *wait = future->uses->user;
    ir_value_replace_all_uses(wait->outputs[0], result);
    ir_node_destroy(wait);
  }
  ir_node_destroy(n);
}

void pass_inline_fork_wait(session *s, ir_graph *g)
{
  inliner in = {.s = s};
  fork_list *all = NULL;
  pass_each(s, g->block, find_fork, &all);
  for (; all; all = all->next)
    inline_fork(s, all->n, &in);
}
