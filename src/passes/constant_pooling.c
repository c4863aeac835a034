/* passes/constant_pooling.c -- merges equal constants into one node.  In PyTorch's order: each one
 * that is kept moves to the front of the graph when it is found.  Its hash table is no
 * base/table.c: equality is that of constants, not of bytes. */
#include "ir/alias.h"
#include "passes/passes_int.h"

typedef struct kept { /* a constant, and its hash: a search reads nodes that are likely the same */
  ir_node *node;
  uint64_t hash;
} kept;
typedef struct pool {
  session *s;
  const alias_info *alias; /* made with the first container */
  kept *slots; /* hash table of the constants kept */
  uint32_t n, cap;
} pool;

static void put_kept(pool *p, kept k)
{
  uint64_t at = k.hash;
  ASSERT(p->n < p->cap && (p->cap & (p->cap - 1)) == 0, "a free slot, and a power of 2");
  while (p->slots[at & (p->cap - 1)].node)
    at++;
  p->slots[at & (p->cap - 1)] = k;
}

static void grow_pool(pool *p)
{
  const kept *old = p->slots;
  uint32_t old_cap = p->cap;
  p->cap = old_cap ? old_cap * 2 : 64;
  p->slots = session_array(p->s, kept, p->cap);
  for (uint32_t i = 0; i < old_cap; i++)
    if (old[i].node)
      put_kept(p, old[i]);
}

/* Return the tensor if it may be pooled: dense; parameters and quantized tensors are not pooled. */
static const rush_tensor *comparable(const ir_node *n)
{
  rush_value v = ir_constant_value(n);
  const rush_tensor *t = v.tag == RUSH_TAG_TENSOR ? v.as.tensor : NULL;

  return t && tensor_is_contiguous(t) && t->data && !t->extra && !tensor_requires_grad(t) ? t
                                                                                          : NULL;
}

static bool same_elements(const ir_node *a, const ir_node *b)
{
  const rush_tensor *x = comparable(a), *y = comparable(b);

  return x && y && x->dtype == y->dtype && tensor_same_geometry(x, y) &&
         memcmp(x->data, y->data, (size_t)x->n_elems * tensor_item_bytes(x)) == 0;
}

static uint64_t hash_of(const ir_node *n)
{
  const rush_tensor *t = comparable(n);
  size_t bytes = t ? (size_t)t->n_elems * tensor_item_bytes(t) : 0;

  return t ? hash_bytes(t->data, bytes < 64 ? bytes : 64) + bytes : pass_constant_hash(n);
}

/* Return the equal constant kept before; NULL: this one is kept. */
static ir_node *keep_constant(pool *p, ir_node *n)
{
  if (2 * p->n >= p->cap)
    grow_pool(p);
  uint64_t hash = hash_of(n);
  for (uint64_t at = hash;; at++) {
    const kept *k = &p->slots[at & (p->cap - 1)];
    if (!k->node)
      break;
    if (k->hash == hash && (pass_same_constant(k->node, n) || same_elements(k->node, n)))
      return k->node;
  }
  put_kept(p, (kept){n, hash});
  p->n++;
  return NULL;
}

/* True if a constant may be shared: containers and tensors are not, if a constant one is written
 * to. */
static bool can_share(pool *p, const ir_node *n)
{
  rush_value v = ir_constant_value(n);

  if (v.tag != RUSH_TAG_LIST && v.tag != RUSH_TAG_TUPLE && v.tag != RUSH_TAG_TENSOR)
    return true;
  if (v.tag == RUSH_TAG_TUPLE && !pass_can_be_written(n->outputs[0]->type))
    return true;
  if (!p->alias)
    p->alias = alias_analyse_all(p->s, n->graph);
  return !alias_is_written(p->alias, n->outputs[0]);
}

static void pool_constant(session *s, ir_node *n, void *arg)
{
  (void)s;
  if (n->kind != IR_CONSTANT || pass_subgraph_around(n->block))
    return;
  ir_node *same = can_share(arg, n) ? keep_constant(arg, n) : NULL;
  if (same) {
    ASSERT(same != n && !same->destroyed, "a constant merged with itself, or with a removed one");
    ASSERT(same->block == n->graph->block, "constants that are kept moved to the graph's block");
    ASSERT(ir_node_is_before(same, n), "a constant is kept behind one that it replaces");
    ir_value_replace_all_uses(n->outputs[0], same->outputs[0]);
    ir_node_destroy(n);
    return;
  }
  ir_node *first = ir_block_first(n->graph->block);
  if (n != first)
    ir_node_move_before(n, first);
}

void pass_constant_pooling(session *s, ir_graph *g)
{
  pool p = {.s = s};

  pass_each(s, g->block, pool_constant, &p);
}
