/* passes/dce.c -- dead code elimination.
 *
 * Live nodes are those with an effect, those that make the graph's outputs, those that write to
 * memory that something live can see, and those whose results they use.  Each result of a branch or
 * a loop is live by itself: dead ones are removed, with the nodes that made them.  In the graph of
 * a plan (ir_graph.keeps_errors) a node that may fail is live, too. */
#include "base/grow.h"
#include "ir/alias.h"
#include "passes/passes_int.h"

typedef struct dce {
  session *s;
  alias_info *alias;
  bool *live_value;    /* by the value's number */
  bool *live_group;
  uint32_t *first;     /* of a group's writes, by group: index + 1 */
  uint32_t *next;      /* by write */
  ir_node **writers;   /* by write */
  ir_value **values;   /* to be looked at */
  ir_node **nodes;
  uint32_t n_values, cap_values, n_nodes, cap_nodes;
} dce;

static void need_node(dce *d, ir_node *n)
{
  if (n->scratch || n->kind == IR_PARAM)
    return;
  ASSERT(!n->destroyed && n->block && n->kind != IR_RETURN, "only a linked node can be live");
  n->scratch = 1;
  GROW(d->s, d->nodes, d->n_nodes, d->cap_nodes, 64);
  d->nodes[d->n_nodes++] = n;
}

static void need_value(dce *d, ir_value *v)
{
  ASSERT(v->scratch < alias_n_values(d->alias), "a value that the analysis has not seen");
  if (d->live_value[v->scratch])
    return;
  d->live_value[v->scratch] = true;
  GROW(d->s, d->values, d->n_values, d->cap_values, 64);
  d->values[d->n_values++] = v;
}

static void need_inputs(dce *d, const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_inputs; i++)
    need_value(d, ir_node_input(n, i));
}

static void need_group(dce *d, uint32_t group)
{
  if (group == ALIAS_NO_MEMORY || d->live_group[group])
    return;
  ASSERT(group < alias_n_values(d->alias), "a group outside the analysis");
  d->live_group[group] = true;
  for (uint32_t w = d->first[group]; w; w = d->next[w - 1])
    need_node(d, d->writers[w - 1]);
}

/* Mark the sources of value v of a branch or loop. */
static void follow_value(dce *d, const ir_value *v)
{
  ir_node *n = v->node;
  uint32_t i = v->index;

  need_group(d, alias_group(d->alias, v));
  if (n->kind == IR_PARAM) {
    ir_node *owner = n->block->owner;
    if (!owner)
      return;
    need_node(d, owner);
    if (owner->kind == IR_LOOP && i > 0) {
      need_value(d, ir_node_input(owner, i + 1));
      need_value(d, ir_block_output(n->block, i));
    }
    return;
  }
  need_node(d, n);
  if (n->kind == IR_IF) {
    need_value(d, ir_block_output(n->blocks[0], i));
    need_value(d, ir_block_output(n->blocks[1], i));
  } else if (n->kind == IR_LOOP) {
    need_value(d, ir_node_input(n, i + 2));
    need_value(d, ir_block_output(n->blocks[0], i + 1));
  }
}

/* Mark a whole block, if its owner's kind is not supported. */
static void need_block(dce *d, const ir_block *b)
{
  need_inputs(d, b->ret);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next)
    need_node(d, n);
}

static void follow_node(dce *d, const ir_node *n)
{
  if (n->block->owner)
    need_node(d, n->block->owner);
  if (n->kind == IR_IF) {
    need_value(d, ir_node_input(n, 0));
  } else if (n->kind == IR_LOOP) {
    need_value(d, ir_node_input(n, 0));
    need_value(d, ir_node_input(n, 1));
    need_value(d, ir_block_output(n->blocks[0], 0));
  } else {
    need_inputs(d, n);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      need_block(d, n->blocks[i]);
  }
}

static void begin_block(dce *d, ir_block *b)
{
  session_enter(d->s);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    session_poll(d->s);
    n->scratch = 0;
    for (uint32_t i = 0; i < n->n_blocks; i++)
      begin_block(d, n->blocks[i]);
  }
  b->ret->scratch = 1;
  session_leave(d->s);
}

static void find_effects(dce *d, ir_block *b)
{
  session_enter(d->s);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    session_poll(d->s);
    if (pass_has_effect(n) || (n->graph->keeps_errors && pass_may_fail(n)))
      need_node(d, n);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      find_effects(d, n->blocks[i]);
  }
  session_leave(d->s);
}

static void index_writes(dce *d)
{
  uint32_t n = alias_n_writes(d->alias);

  d->first = session_array(d->s, uint32_t, alias_n_values(d->alias));
  d->next = session_array(d->s, uint32_t, n);
  d->writers = session_array(d->s, ir_node *, n);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t group;
    d->writers[i] = alias_write(d->alias, i, &group);
    d->next[i] = d->first[group];
    d->first[group] = i + 1;
  }
}

/* -- Removing ---------------------------------------------------------------------------------- */

static bool is_live(const dce *d, const ir_value *v) { return d->live_value[v->scratch]; }

/* Remove dead results.  All are decided before anything is cut; uses are removed before what they
 * use. */
static void cut_results(dce *d, ir_node *n)
{
  for (uint32_t i = n->n_outputs; i-- > 0;) {
    if (is_live(d, n->outputs[i]))
      continue;
    if (n->kind == IR_IF) {
      ir_block_remove_output(n->blocks[0], i);
      ir_block_remove_output(n->blocks[1], i);
      ir_node_remove_output(n, i);
    } else if (n->kind == IR_LOOP && !is_live(d, ir_block_input(n->blocks[0], i + 1))) {
      ir_block_remove_output(n->blocks[0], i + 1);
      ir_node_remove_input(n, i + 2);
      ir_node_remove_output(n, i);
    }
  }
}

static void sweep(dce *d, ir_block *b)
{
  session_enter(d->s);
  for (ir_node *n = ir_block_last(b), *prev; n != b->ret; n = prev) {
    session_poll(d->s);
    prev = n->prev;
    ASSERT(n->scratch <= 1, "a mark of another pass");
    if (!n->scratch) {
      ASSERT_SLOW(ir_node_is_unused(n));
      ir_node_destroy(n);
      continue;
    }
    uint32_t n_carried = n->kind == IR_LOOP ? n->n_outputs : 0;
    bool *gone = session_array(d->s, bool, n_carried + 1);
    for (uint32_t i = 0; i < n_carried; i++)
      gone[i] = !is_live(d, n->outputs[i]) && !is_live(d, ir_block_input(n->blocks[0], i + 1));
    if (n->kind == IR_IF || n->kind == IR_LOOP)
      cut_results(d, n);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      sweep(d, n->blocks[i]);
    for (uint32_t i = n_carried; i-- > 0;)
      if (gone[i])
        ir_block_remove_input(n->blocks[0], i + 1);
    ASSERT(n->kind != IR_IF || pass_if_is_whole(n), "a result was cut in some places only");
    ASSERT(n->kind != IR_LOOP || pass_loop_is_whole(n), "a carried value was cut here and there");
  }
  session_leave(d->s);
}

void pass_dce(session *s, ir_graph *g)
{
  dce d = {.s = s, .alias = alias_analyse_all(s, g)};

  d.live_value = session_array(s, bool, alias_n_values(d.alias));
  d.live_group = session_array(s, bool, alias_n_values(d.alias));
  index_writes(&d);
  begin_block(&d, g->block);
  need_group(&d, ALIAS_CONSTANTS);
  for (uint32_t i = 0; i < ir_block_n_inputs(g->block); i++)
    need_group(&d, alias_group(d.alias, ir_block_input(g->block, i)));
  need_inputs(&d, g->block->ret);
  find_effects(&d, g->block);
  while (d.n_values || d.n_nodes) {
    if (d.n_values)
      follow_value(&d, d.values[--d.n_values]);
    else
      follow_node(&d, d.nodes[--d.n_nodes]);
  }
  sweep(&d, g->block);
}
