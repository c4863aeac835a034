/* passes/closures.c -- turns forked closures into functions.
 *
 * Values that a closure uses from outside become the function's parameters and the fork's inputs
 * (lambda lifting). */
#include <stdio.h>

#include "passes/passes_int.h"

typedef struct lifting {
  session *s;
  program *program;
  const char *owner;
  pass_fn *finish;
} lifting;

static void lift_block(lifting *l, ir_block *b);

static bool is_inside(const ir_block *b, const ir_block *outer)
{
  for (; b; b = b->owner ? b->owner->block : NULL)
    if (b == outer)
      return true;
  return false;
}

typedef struct capture {
  session *s;
  ir_block *block;
  ir_value **outside; /* values that block inputs represent */
  uint32_t n;
} capture;

static ir_value *captured(capture *c, ir_value *v)
{
  ASSERT(ir_block_n_inputs(c->block) == c->n, "each input of a closure is a captured value");
  for (uint32_t i = 0; i < c->n; i++)
    if (c->outside[i] == v)
      return ir_block_input(c->block, i);
  if ((c->n & (c->n - 1)) == 0) {
    ir_value **grown = session_array(c->s, ir_value *, c->n ? c->n * 2 : 1);
    for (uint32_t i = 0; i < c->n; i++)
      grown[i] = c->outside[i];
    c->outside = grown;
  }
  c->outside[c->n++] = v;
  return ir_block_add_input(c->s, c->block, v->type, v->name);
}

static void capture_inputs(capture *c, ir_node *n)
{
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    ir_value *v = ir_node_input(n, i);
    if (v && !is_inside(v->node->block, c->block))
      ir_node_set_input(n, i, captured(c, v));
  }
}

static void capture_block(capture *c, ir_block *b)
{
  session_enter(c->s);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    session_poll(c->s);
    capture_inputs(c, n);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      capture_block(c, n->blocks[i]);
  }
  capture_inputs(c, b->ret);
  session_leave(c->s);
}

static function *closure_function(lifting *l, ir_node *closure)
{
  session *s = l->s;
  ir_block *b = closure->blocks[0];
  program *p = l->program;
  ASSERT(closure->n_blocks == 1 && ir_block_n_outputs(b) == 1, "a closure has one result");
  function *out = program_add_closure(s, p, session_printf(s, "%s.__forked_function", l->owner));
  schema *sc = session_alloc_in(s, &p->mem, sizeof *sc);
  sc->name = out->name;
  sc->overload = "";
  sc->n_args = ir_block_n_inputs(b);
  sc->args = session_alloc_in(s, &p->mem, sc->n_args * sizeof *sc->args);
  sc->returns = session_alloc_in(s, &p->mem, sizeof *sc->returns);
  sc->n_returns = 1;
  sc->returns[0].name = "";
  sc->returns[0].type = closure->outputs[0]->type;
  out->schema = sc;
  ir_graph *g = ir_graph_new(s, &p->types);
  session_defer(s, ir_graph_free_deferred, g);
  ir_value **in = session_array(s, ir_value *, sc->n_args), *result;
  for (uint32_t i = 0; i < sc->n_args; i++) {
    char *name = session_alloc_in(s, &p->mem, 16);
    snprintf(name, 16, "arg%u", i);
    sc->args[i].name = name;
    sc->args[i].type = ir_block_input(b, i)->type;
    in[i] = ir_block_add_input(s, g->block, sc->args[i].type, NULL);
  }
  ir_block_inline(s, b, g->block->ret, in, &result);
  ir_block_add_output(s, g->block, result);
  lift_block(l, g->block);
  l->finish(s, g);
  function_set_graph_steal(out, session_keep(s, g));
  out->state = FUNCTION_COMPILED;
  return out;
}

static void lift(lifting *l, ir_node *closure)
{
  session *s = l->s;
  capture c = {s, closure->blocks[0], NULL, 0};
  capture_block(&c, closure->blocks[0]);
  function *body = closure_function(l, closure);
  ir_value *out = closure->outputs[0];
  while (out->uses) {
    ir_node *user = out->uses->user;
    if (user->kind != IR_FORK && user->kind != IR_AWAITABLE)
      session_fail(s, &user->range, "a nested function can only be given to fork");
    ir_node_remove_input(user, 0);
    for (uint32_t i = 0; i < c.n; i++)
      ir_node_add_input(s, user, c.outside[i]);
    user->function = body;
  }
  ir_node_destroy(closure);
}

static void lift_block(lifting *l, ir_block *b)
{
  session_enter(l->s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    session_poll(l->s);
    next = n->next;
    if (n->kind == IR_CLOSURE) {
      lift(l, n);
      continue;
    }
    for (uint32_t i = 0; i < n->n_blocks; i++)
      lift_block(l, n->blocks[i]);
  }
  session_leave(l->s);
}

void lift_closures(session *s, program *p, const char *owner, ir_graph *g, pass_fn *finish)
{
  lifting l = {s, p, owner, finish};

  if (ir_graph_may_have(g, IR_CLOSURE))
    lift_block(&l, g->block);
}

void pass_lift_closures(session *s, ir_graph *g)
{
  program *p = program_of_types(g->types);

  if (!p)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "lift_closures needs a graph of a program");
  lift_closures(s, p, "graph", g, pass_dce);
}
