/* passes/batch_mm.c -- several matrix products with one common matrix become one product.
 *
 *   mm(a, w), mm(b, w), mm(c, w)  ->  rows of mm(cat([a, b, c], 0), w)
 *   mm(x, a), mm(x, b), mm(x, c)  ->  columns of mm(x, cat([a, b, c], 1))
 *   mm(a, b) + mm(c, d) + ...     ->  prim::MMTreeReduce(c, a, ..., d, b, ...)
 *
 * The last is mm(cat(left sides, 1), cat(right sides, 0)) if the sizes fit when it runs.  Sizes are
 * read at run time, so nothing needs to be known of them.  At least FEWEST products, in one block,
 * whose operands are never written to, all made before the first result is used.  Sums may be
 * rounded in another order. */
#include "base/grow.h"
#include "ir/alias.h"
#include "ops/call/lookup.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

#include <stdlib.h>

#define FEWEST 4

typedef struct product {
  ir_node *n;
  uint32_t at; /* in the block */
} product;

typedef struct batcher {
  session *s;
  alias_info *alias;
  product *v;
  uint32_t n, cap;
  bool reduced;    /* a sum became one node */
  uint32_t shared; /* the operand that is the same: 0 or 1 */
} batcher;

static void add_product(batcher *b, ir_node *n)
{
  ASSERT(!b->n || b->v[b->n - 1].n->order < n->order, "products are added in the block's order");
  GROW(b->s, b->v, b->n, b->cap, 16);
  b->v[b->n] = (product){n, b->n};
  b->n++;
}

static int by_first(const void *a, const void *b)
{
  const product *x = a, *y = b;
  uintptr_t p = (uintptr_t)ir_node_input(x->n, 0), q = (uintptr_t)ir_node_input(y->n, 0);

  return p != q ? (p < q ? -1 : 1) : x->at < y->at ? -1 : 1;
}

static int by_second(const void *a, const void *b)
{
  const product *x = a, *y = b;
  uintptr_t p = (uintptr_t)ir_node_input(x->n, 1), q = (uintptr_t)ir_node_input(y->n, 1);

  return p != q ? (p < q ? -1 : 1) : x->at < y->at ? -1 : 1;
}

/* Return the position of the last node of the block that makes an operand of n. */
static uint64_t made_at(const ir_node *n)
{
  uint64_t last = 0;

  for (uint32_t i = 0; i < 2; i++) {
    const ir_node *m = ir_node_input(n, i)->node;
    if (m->block == n->block && m->kind != IR_PARAM && m->order > last)
      last = m->order;
  }
  return last;
}

static uint64_t used_at(const ir_node *n)
{
  uint64_t first = UINT64_MAX;

  for (const ir_use *u = n->outputs[0]->uses; u; u = u->next) {
    const ir_node *m = u->user;
    while (m->block != n->block)
      m = m->block->owner;
    if (m->order < first)
      first = m->order;
  }
  return first;
}

/* Join v[0 .. n) to one product before `pos`. */
static void join(batcher *b, product *v, uint32_t n, ir_node *pos)
{
  session *s = b->s;
  int64_t dim = b->shared ? 0 : 1;
  ir_value **parts = session_array(s, ir_value *, n), **sizes = session_array(s, ir_value *, n);
  ir_value *along = pass_put_int(s, pos, dim), *same = ir_node_input(v[0].n, b->shared);
  const type *ints = session_type(s, type_list(pos->graph->types, type_simple(TYPE_INT)));
  const type *tensors = session_type(s, type_list(pos->graph->types, type_simple(TYPE_TENSOR)));

  for (uint32_t i = 0; i < n; i++) {
    ASSERT(v[i].n->block == pos->block, "products of one block are joined");
    ASSERT(ir_node_input(v[i].n, b->shared) == same, "the products share this operand");
    ASSERT(made_at(v[i].n) < pos->order, "an operand is made after the joined product");
    ASSERT_SLOW(pos->order < used_at(v[i].n));
    parts[i] = ir_node_input(v[i].n, 1 - b->shared);
    sizes[i] =
      pass_put_op(s, pos, "aten::size", "int", (ir_value *[]){parts[i], along}, 2)->outputs[0];
  }
  ir_value *list = pass_put_node(s, pos, IR_LIST_CONSTRUCT, parts, n, tensors)->outputs[0];
  ir_value *all = pass_put_op(s, pos, "aten::cat", "", (ir_value *[]){list, along}, 2)->outputs[0];
  ir_value *factors[2] = {b->shared ? all : same, b->shared ? same : all};
  ir_value *result = pass_put_op(s, pos, "aten::mm", "", factors, 2)->outputs[0];
  ir_value *cuts = pass_put_node(s, pos, IR_LIST_CONSTRUCT, sizes, n, ints)->outputs[0];
  ir_value *pieces =
    pass_put_op(s, pos, "aten::split_with_sizes", "", (ir_value *[]){result, cuts, along}, 3)
      ->outputs[0];
  ir_node *unpack = pass_put_node(s, pos, IR_LIST_UNPACK, &pieces, 1, NULL);
  for (uint32_t i = 0; i < n; i++)
    (void)ir_node_add_output(s, unpack, type_simple(TYPE_TENSOR));
  for (uint32_t i = 0; i < n; i++) {
    ir_value *piece = unpack->outputs[i];
    if (!b->shared) { /* columns of a row-major matrix: as the product would have given them */
      ir_value *format = pass_put_int(s, pos, 0);
      piece =
        pass_put_op(s, pos, "aten::contiguous", "", (ir_value *[]){piece, format}, 2)->outputs[0];
    }
    pass_replace(v[i].n, &piece);
    v[i].n = NULL;
  }
}

/* True if n's operand is the result of one of these products, which are in order. */
static bool uses_one(const product *v, uint32_t k, const ir_node *n, uint32_t operand)
{
  const ir_node *made = ir_node_input(n, operand)->node;
  uint32_t lo = 0, hi = k;

  while (lo < hi && made->block == n->block) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (v[mid].n == made)
      return true;
    if (v[mid].n->order < made->order)
      lo = mid + 1;
    else
      hi = mid;
  }
  return false;
}

/* Join products with one operand in common: as many as are made before the first of them is
 * used. */
static void join_some(batcher *b, product *v, uint32_t n)
{
  for (uint32_t from = 0; from + FEWEST <= n;) {
    uint64_t last = made_at(v[from].n), first = used_at(v[from].n);
    uint32_t k = 1;
    for (; from + k < n; k++) {
      uint64_t made = made_at(v[from + k].n), used = used_at(v[from + k].n);
      if ((made > last ? made : last) >= (used < first ? used : first) ||
          uses_one(v + from, k, v[from + k].n, 1 - b->shared))
        break;
      last = made > last ? made : last;
      first = used < first ? used : first;
    }
    if (k >= FEWEST) {
      ir_node *pos =
        v[from + k - 1].n; /* behind its operands, but perhaps behind a use: then before that */
      for (uint32_t i = 0; i < k; i++)
        if (v[from + i].n->order > last && v[from + i].n->order < pos->order)
          pos = v[from + i].n;
      if (pos->order > last && pos->order < first) {
        ir_node *mark = pass_put_node(b->s, pos, IR_UNINITIALIZED, NULL, 0, type_simple(TYPE_NONE));
        join(b, v + from, k, mark);
        ir_node_destroy(mark);
      }
    }
    from += k;
  }
}

static bool is_product(const batcher *b, const ir_node *n)
{
  return ir_node_is_op(n, OPN_MM) && n->n_inputs == 2 && n->outputs[0]->uses &&
         !alias_is_written(b->alias, ir_node_input(n, 0)) &&
         !alias_is_written(b->alias, ir_node_input(n, 1)) &&
         !alias_is_written(b->alias, n->outputs[0]);
}

/* -- Sums of products -------------------------------------------------------------------------- */

/* True if the node's one result is used once and never written to. */
static bool is_inner(const batcher *b, const ir_node *n)
{
  const ir_use *u = n->outputs[0]->uses;

  return u && !u->next && !alias_is_written(b->alias, n->outputs[0]);
}

/* Return the number of products that the node adds up: 1 for a product, 0 if it is no such sum.
 * Those of earlier nodes of the block are in their `scratch`. */
static uint32_t count_products(const batcher *b, const ir_node *n)
{
  uint32_t count = 0;
  int64_t alpha;

  if (is_product(b, n))
    return 1;
  if (ir_node_op_key(n) != OPK_ADD_TENSOR || !pass_is_constant_int(ir_node_input(n, 2), &alpha) ||
      alpha != 1)
    return 0;
  for (uint32_t i = 0; i < 2; i++) {
    const ir_node *part = ir_node_input(n, i)->node;
    if (part->block != n->block || part->kind != IR_OP || !part->scratch || !is_inner(b, part))
      return 0;
    count += part->scratch;
  }
  return count;
}

/* Replace a sum of n products by one node; what it added is dead then. */
static void reduce(batcher *b, ir_node *root, uint32_t n)
{
  ir_node **stack = session_array(b->s, ir_node *, n + 1);
  ir_value **sides = session_array(b->s, ir_value *, 2 * (size_t)n);
  uint32_t depth = 0, k = 0;

  stack[depth++] = root;
  while (depth) {
    ir_node *at = stack[--depth];
    if (at->scratch > 1) {
      for (uint32_t i = 0; i < 2; i++)
        stack[depth++] = ir_node_input(at, i)->node;
      at->scratch = 0; /* no root of its own */
      continue;
    }
    sides[k] = ir_node_input(at, 0);
    sides[n + k++] = ir_node_input(at, 1);
  }
  ASSERT(k == n, "as many products as were counted");
  pass_replace(root, pass_put_op(b->s, root, "prim::MMTreeReduce", "", sides, 2 * n)->outputs);
}

static void reduce_block(batcher *b, ir_block *block)
{
  for (ir_node *n = ir_block_first(block); n != block->ret; n = n->next) {
    session_poll(b->s);
    n->scratch = n->n_outputs == 1 ? count_products(b, n) : 0;
  }
  for (ir_node *n = ir_block_last(block), *prev; n != block->ret; n = prev) {
    prev = n->prev;
    if (n->scratch >= FEWEST) {
      reduce(b, n, n->scratch);
      b->reduced = true;
    }
  }
  session_enter(b->s);
  for (ir_node *n = ir_block_first(block); n != block->ret; n = n->next)
    for (uint32_t i = 0; i < n->n_blocks; i++)
      reduce_block(b, n->blocks[i]);
  session_leave(b->s);
}

/* -- Blocks ------------------------------------------------------------------------------------ */

static void batch_block(batcher *b, ir_block *block)
{
  session_enter(b->s);
  for (b->shared = 2; b->shared-- > 0;) {
    b->n = 0;
    for (ir_node *n = ir_block_first(block); n != block->ret; n = n->next)
      if (is_product(b, n))
        add_product(b, n);
    if (b->n > 1)
      qsort(b->v, b->n, sizeof *b->v, b->shared ? by_second : by_first);
    for (uint32_t i = 0, end; i < b->n; i = end) {
      const ir_value *same = ir_node_input(b->v[i].n, b->shared);
      for (end = i + 1; end < b->n && ir_node_input(b->v[end].n, b->shared) == same; end++)
        continue;
      join_some(b, b->v + i, end - i);
    }
  }
  for (ir_node *n = ir_block_first(block); n != block->ret; n = n->next)
    for (uint32_t i = 0; i < n->n_blocks; i++)
      batch_block(b, n->blocks[i]);
  session_leave(b->s);
}

void pass_batch_mm(session *s, ir_graph *g)
{
  batcher b = {.s = s, .alias = alias_analyse_all(s, g)};

  reduce_block(&b, g->block);
  if (b.reduced) { /* the products are dead, and the analysis does not know the new values */
    pass_dce(s, g);
    b.alias = alias_analyse_all(s, g);
  }
  batch_block(&b, g->block);
}
