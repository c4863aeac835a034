/* run/groups.c -- nodes of external operators: the state that their `prepare` makes, and the code
 * of their subgraphs, which runs when a backend leaves a call to the interpreter. */
#include "run/bytecode_int.h"
#include "run/stack.h"
#include "autodiff/node.h"

/* Interpret the subgraph of the node. */
static rush_status interpret(rush_call *call, void *body)
{
  rush_value v;

  TRY(call_enter(call->cx));
  rush_status st = code_call(call->cx, body, call->args, &v);
  call_leave(call->cx);
  TRY(st);
  return spread_results(call->cx, v, call->results, call->n_results);
}

static rush_status interpret_group(rush_call *call, void *body)
{
  context_count_interpreted(call->cx->ctx);
  return interpret(call, body);
}

/* Run a graph that may be recorded as a whole; if it is not, its nodes. */
static rush_status run_differentiable(rush_call *call, void *body)
{
  bool done;

  TRY(diff_node_call(call->cx, call->state->user, call->args, call->results, &done));
  return done ? RUSH_OK : interpret(call, body);
}

bool site_is_differentiated(const site *st)
{
  return st->state && st->state->run == run_differentiable;
}

static void free_state(context *c, const op *o, op_node_state *state)
{
  if (o->outside->destroy && state->user)
    o->outside->destroy(state->user, o->outside->user);
  code_free(state->body);
  mem_free(c, state, sizeof *state);
}

void groups_free(code *c)
{
  for (uint32_t i = 0; i < c->n_sites; i++)
    if (c->sites[i].state)
      free_state(c->ctx, c->sites[i].op, c->sites[i].state);
}

bool needs_state(const ir_node *n)
{
  return n->op->outside && (n->op->outside->prepare || n->n_blocks == 1);
}

void groups_prepare(session *s, code *c, const group_site *list)
{
  for (const group_site *g = list; g; g = g->next) {
    site *st = &c->sites[g->site];
    const rush_op_def *def = st->op->outside;

    st->state = mem_alloc_zero(c->ctx, sizeof *st->state); /* from here on code_free releases it */
    if (!st->state)
      session_check(s, call_nomem(s->cx));
    st->state->run = g->node->kind == IR_OP ? interpret_group : run_differentiable;
    if (g->node->n_blocks == 1) {
      code *body = code_emit(s, g->node->blocks[0], c->function, c->name);

      body->is_group = true;
      c->has_groups |= g->node->kind == IR_OP;
      st->state->body = body;
    }
    if (def->prepare)
      session_check(s,
                    error_of_callback(s->cx->err,
                                      def->prepare(c->ctx, (const rush_node *)(const void *)g->node,
                                                   def->user, &st->state->user, s->cx->err),
                                      "preparing %s", st->op->schema->name));
  }
}

const ir_graph *code_graph(const code *c) { return c->graph; }
