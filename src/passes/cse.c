/* passes/cse.c -- common subexpression elimination.
 *
 * A pure node is replaced by an equal one before it, in its block or one around it. Nodes that read
 * or return memory that is written are kept, and so is one of two results that both leave the
 * graph: they would share memory outside.
 *
 * Nodes are in hash chains (no base/table.c: equality is that of computations, and leaving a block
 * removes its nodes). */
#include "ir/alias.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

typedef struct cse {
  session *s;
  alias_info *alias;
  bool *escapes;
  ir_node **nodes; /* hash table: of what can be reused here, a chain a bucket, newest first */
  ir_node **chain; /* by node->scratch */
  uint32_t n_buckets, n, n_nodes; /* n of the graph's n_nodes are in the table, or were */
  const ir_node *subgraph; /* whose block is being visited: it uses no values of outside */
} cse;

static uint64_t mix(uint64_t h, uint64_t x)
{
  return (h ^ x) * UINT64_C(0x9e3779b97f4a7c15) ^ h >> 29;
}

static uint64_t hash_of(const ir_node *n)
{
  uint64_t h = mix(n->kind, (uintptr_t)n->op);

  for (uint32_t i = 0; i < n->n_inputs; i++)
    h = mix(h, (uintptr_t)ir_node_input(n, i));
  if (n->kind == IR_CONSTANT)
    h = mix(h, pass_constant_hash(n));
  const char *name = n->kind == IR_GET_ATTR ? ir_attr_string(n, "name") : NULL;
  return name ? mix(h, hash_bytes(name, strlen(name))) : h;
}

static bool same(const ir_node *a, const ir_node *b)
{
  if (a->kind != b->kind || a->op != b->op || a->n_inputs != b->n_inputs ||
      a->n_outputs != b->n_outputs)
    return false;
  if (a->kind == IR_CONSTANT)
    return pass_same_constant(a, b);
  if (a->kind == IR_UNKNOWN_OP && strcmp(ir_node_kind_name(a), ir_node_kind_name(b)) != 0)
    return false;
  for (uint32_t i = 0; i < a->n_inputs; i++)
    if (ir_node_input(a, i) != ir_node_input(b, i))
      return false;
  for (uint32_t i = 0; i < a->n_outputs; i++)
    if (!type_equal(a->outputs[i]->type, b->outputs[i]->type))
      return false;
  return pass_same_attrs(a, b);
}

static bool written(const cse *c, const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (alias_is_written(c->alias, ir_node_input(n, i)))
      return true;
  for (uint32_t i = 0; i < n->n_outputs; i++)
    if (alias_is_written(c->alias, n->outputs[i]))
      return true;
  return false;
}

/* True if gradients are recorded of the results: two uses of one result and two results with a use
 * each add up differently. */
static bool adds_gradients(const ir_node *n)
{
  return n->graph->is_recorded && n->kind == IR_OP && n->n_outputs &&
         !(n->op->effects & OP_NO_GRAD) && alias_type_has_memory(n->outputs[0]->type);
}

/* True if the node's results are objects that exist without it, or tuples, which have no identity.
 * */
static bool finds(const ir_node *n)
{
  switch (n->kind) {
  case IR_CONSTANT: case IR_GET_ATTR: case IR_MODULE_CONTAINER_INDEX: case IR_LIST_UNPACK:
  case IR_TUPLE_CONSTRUCT: case IR_TUPLE_UNPACK: case IR_TUPLE_INDEX: case IR_TUPLE_SLICE:
  case IR_UNCHECKED_CAST:
    return true;
  default:
    return ir_node_is_op(n, OPN___GETITEM__);
  }
}

/* True if results of both may be seen outside: a group that leaves may contain either, so that
 * being in one group does not tell that they are one. */
static bool both_leave(const cse *c, const ir_node *a, const ir_node *b)
{
  if (finds(a))
    return false;
  for (uint32_t i = 0; i < a->n_outputs; i++) {
    uint32_t x = alias_group(c->alias, a->outputs[i]), y = alias_group(c->alias, b->outputs[i]);
    if (x != ALIAS_NO_MEMORY && c->escapes[x] && c->escapes[y] && !pass_is_hidden(a->outputs[i]) &&
        !pass_is_hidden(b->outputs[i]))
      return true;
  }
  return false;
}

/* Record that m now represents n's memory. */
static void share(cse *c, const ir_node *m, const ir_node *n)
{
  for (uint32_t i = 0; i < m->n_outputs; i++) {
    uint32_t x = alias_group(c->alias, m->outputs[i]), y = alias_group(c->alias, n->outputs[i]);
    if (x != ALIAS_NO_MEMORY)
      c->escapes[x] |= c->escapes[y];
  }
}

/* Replace n by an equal node; returns true if it was removed. */
static bool merge(cse *c, ir_node *n)
{
  ASSERT(c->n < c->n_nodes, "more nodes than were counted");
  ir_node **bucket = &c->nodes[hash_of(n) & (c->n_buckets - 1)];

  for (ir_node *m = *bucket; m; m = c->chain[m->scratch])
    if (same(m, n) && !both_leave(c, m, n) &&
        (!c->subgraph || ir_block_is_inside(m->block, c->subgraph))) {
      ASSERT(!m->destroyed && ir_node_is_before(m, n), "an equal node that runs before");
      ASSERT(!m->block->owner || ir_block_is_inside(n->block, m->block->owner),
             "nodes of blocks that ended are forgotten");
      share(c, m, n);
      pass_replace(n, m->outputs);
      return true;
    }
  n->scratch = ++c->n;
  c->chain[n->scratch] = *bucket;
  *bucket = n;
  return false;
}

static void merge_block(cse *c, ir_block *b)
{
  ir_node *last = NULL; /* that was added */
  uint32_t known = c->n;

  session_enter(c->s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    session_poll(c->s);
    next = n->next;
    const ir_node *subgraph = c->subgraph;
    if (n->n_blocks && ir_node_has_subgraph_block(n))
      c->subgraph = n;
    for (uint32_t i = 0; i < n->n_blocks; i++)
      merge_block(c, n->blocks[i]);
    c->subgraph = subgraph;
    n->scratch = 0;
    if (pass_is_pure(n) && !adds_gradients(n) && !written(c, n) && !merge(c, n))
      last = n;
  }
  session_leave(c->s);
  /* Forget the nodes of this block: the newest of a bucket first. */
  for (ir_node *n = last; n && n != b->ret; n = n->prev)
    if (n->scratch > known) {
      ASSERT(c->nodes[hash_of(n) & (c->n_buckets - 1)] == n, "the newest of its bucket");
      c->nodes[hash_of(n) & (c->n_buckets - 1)] = c->chain[n->scratch];
    }
}

static uint32_t count(session *s, const ir_block *b)
{
  uint32_t n = 0;

  session_enter(s);
  for (const ir_node *m = ir_block_first(b); m != b->ret; m = m->next) {
    n++;
    for (uint32_t i = 0; i < m->n_blocks; i++)
      n += count(s, m->blocks[i]);
  }
  session_leave(s);
  return n;
}

void pass_cse(session *s, ir_graph *g)
{
  cse c = {.s = s, .alias = alias_analyse_all(s, g), .n_buckets = 64};
  uint32_t n = c.n_nodes = count(s, g->block);

  while (c.n_buckets < n)
    c.n_buckets *= 2;
  c.escapes = pass_escaping(s, c.alias, g);
  c.nodes = session_array(s, ir_node *, c.n_buckets);
  c.chain = session_array(s, ir_node *, (size_t)n + 1);
  merge_block(&c, g->block);
}
