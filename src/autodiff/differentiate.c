/* autodiff/differentiate.c -- differentiates a graph: checks it, and works in rounds.
 *
 * A captured result that requires a gradient may get one when df is differentiated itself, so df
 * takes gradients of captures too.  What is captured is known only at the end; so the work is
 * repeated until a round captures nothing new, which is the second one but for odd graphs. */
#include "autodiff/autodiff_int.h"

#include "ir/alias.h"
#include "passes/passes.h"

#define MOST_ROUNDS 8

/* -- Checks ------------------------------------------------------------------------------------ */

static bool in_group(const alias_info *a, uint32_t group, const ir_value *v)
{
  return group != ALIAS_NO_MEMORY && alias_group(a, v) == group;
}

/* Refuse results that share memory with an input or another result: records of f could not follow a
 * later write. */
static void check_results(session *s, ir_graph *g)
{
  const alias_info *a = alias_analyse_all(s, g);
  const ir_block *b = g->block;

  for (uint32_t i = 0; i < ir_block_n_outputs(b); i++) {
    const ir_value *v = ir_block_output(b, i);
    const uint32_t group = alias_group(a, v);
    bool shared = group == ALIAS_CONSTANTS;

    for (uint32_t k = 0; k < ir_block_n_inputs(b); k++)
      shared |= in_group(a, group, ir_block_input(b, k));
    for (uint32_t k = 0; k < i; k++)
      shared |= in_group(a, group, ir_block_output(b, k));
    if (shared)
      session_fail_status(s, RUSH_EUNSUPPORTED, NULL, &v->node->range,
                          "result %u of a graph that is differentiated may share memory with an "
                          "input, a constant or another result",
                          i);
  }
}

void diff_check(session *s, const ir_graph *of)
{
  ir_graph *g = ir_graph_twin(s, of);

  session_defer(s, ir_graph_free_deferred, g);
  for (const ir_node *n = ir_block_first(g->block); n != g->block->ret; n = n->next) {
    session_poll(s);
    if (!pass_is_differentiable(s, n))
      session_fail_status(s, RUSH_EUNSUPPORTED, NULL, &n->range,
                          "differentiating a graph with %s, which has no derivative, writes, or "
                          "draws random numbers",
                          ir_node_kind_name(n));
  }
  check_results(s, g);
}

/* -- Rounds ------------------------------------------------------------------------------------ */

static void number_values(diff *d, const ir_node *w, const ir_node *f, uint32_t *n)
{
  for (uint32_t i = 0; i < w->n_outputs; i++) {
    w->outputs[i]->scratch = ++*n;
    d->values[*n] = (diff_value){.v = w->outputs[i], .in_f = f->outputs[i]};
  }
}

uint32_t diff_n_values(const ir_graph *g)
{
  const ir_block *b = g->block;
  uint32_t n = b->param->n_outputs + 1;

  for (const ir_node *m = ir_block_first(b); m != b->ret; m = m->next)
    n += m->n_outputs;
  return n;
}

static void begin_round(diff *d, const ir_graph *g)
{
  uint32_t n = 0;

  d->n_inputs = ir_block_n_inputs(g->block);
  d->w = ir_graph_twin(d->s, g);
  session_defer(d->s, ir_graph_free_deferred, d->w);
  d->f = ir_graph_twin(d->s, g);
  session_defer(d->s, ir_graph_free_deferred, d->f);
  d->n_values = diff_n_values(g);
  d->values = session_array(d->s, diff_value, d->n_values);
  number_values(d, d->w->block->param, d->f->block->param, &n);
  const ir_node *f = ir_block_first(d->f->block);
  for (const ir_node *w = ir_block_first(d->w->block); w != d->w->block->ret;
       w = w->next, f = f->next)
    number_values(d, w, f, &n);
  d->last = ir_block_last(d->w->block);
  *d->out = (graph_gradient){.f = d->f, .df = d->w};
  d->cap_vjps = 0;
}

/* Note which captured values may get gradients; returns true if there is a new one. */
static bool note_captured(const diff *d, bool *vjps)
{
  bool found = false;

  for (uint32_t i = d->out->n_outputs; i < ir_block_n_outputs(d->f->block); i++)
    for (uint32_t k = 1; k < d->n_values; k++)
      if (d->values[k].in_f == ir_block_output(d->f->block, i) && d->values[k].requires && !vjps[k])
        found = vjps[k] = true;
  return found;
}

void diff_round(diff *d, const ir_graph *g)
{
  begin_round(d, g);
  reverse_requires(d);
  reverse_build(d);
  capture_split(d);
  ir_verify(d->s, d->f, "differentiate");
  ir_verify(d->s, d->w, "differentiate");
}

void diff_rounds(diff *d, const ir_graph *g, bool **vjps)
{
  *vjps = session_array(d->s, bool, diff_n_values(g));
  d->vjps = *vjps;
  for (int round = 0; round < MOST_ROUNDS; round++) {
    diff_round(d, g);
    if (!note_captured(d, *vjps))
      return;
  }
}

void differentiate(session *s, const ir_graph *g, const diff_options *o, graph_gradient *out)
{
  diff d = {.s = s, .o = *o, .out = out};
  bool *vjps;

  diff_check(s, g);
  diff_rounds(&d, g, &vjps);
}

void differentiate_pack(session *s, ir_graph *df)
{
  ir_block *b = df->block;
  const uint32_t n = ir_block_n_outputs(b);
  ir_value **in = session_array(s, ir_value *, n + 1);
  const type **elems = session_array(s, const type *, n + 1);

  if (n == 1)
    return;
  for (uint32_t i = 0; i < n; i++) {
    in[i] = ir_block_output(b, i);
    elems[i] = in[i]->type;
  }
  ir_node *pack = ir_node_new(s, df, IR_TUPLE_CONSTRUCT, in, n);
  ir_node_append(pack, b);
  const type *t = session_type(s, type_tuple(df->types, elems, n));
  ir_value *all = ir_node_add_output(s, pack, t);
  while (ir_block_n_outputs(b))
    ir_block_remove_output(b, 0);
  ir_block_add_output(s, b, all);
}
