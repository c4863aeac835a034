/* ir/live.c -- bytes that live at once (live.h).
 *
 * One walk numbers the nodes in the order in which they run and notes for each group of values that
 * may share memory when it is made first and read last; a second sums what lives at each number.
 * Values of a group die together: a loop's carried tensors are counted until the last of them dies,
 * which is on the safe side.  Cost: O(nodes), and
 * for each loop O(groups), and O(results in it) for each value that it carries. */
#include "ir/live.h"

#include "base/grow.h"
#include "ir/alias.h"
#include "ir/facts.h"
#include "ops/call/call.h"
#include "ops/table/table.h"

#define NEVER UINT32_MAX

typedef struct span { /* of a group */
  uint32_t first, last;
  uint32_t buffer; /* the one made last, or NEVER */
} span;

typedef struct buffer { /* a result */
  const ir_node *maker;
  uint32_t group, made, dies;
  uint64_t bytes;
} buffer;

typedef struct walk {
  session *s;
  const alias_info *a;
  span *spans; /* by group */
  uint32_t n_groups, now;
  buffer *buffers;
  uint32_t n, cap;
  ir_live_set out;
} walk;

static void touch(walk *w, const ir_value *v)
{
  const uint32_t g = alias_group(w->a, v);

  if (g == ALIAS_NO_MEMORY)
    return;
  if (w->spans[g].first == NEVER)
    w->spans[g].first = w->now;
  w->spans[g].last = w->now;
}

/* Return the bytes of a tensor with such facts; 0: unknown. */
static uint64_t bytes_of(const ir_facts *f)
{
  uint64_t n = f->dtype == DTYPE_NONE ? 0 : dtype_bytes(f->dtype);

  for (int i = 0; i < f->n_dims && n; i++)
    if (f->sizes[i] < 0 || (f->sizes[i] && n > UINT64_MAX / 2 / (uint64_t)f->sizes[i]))
      return 0;
    else
      n *= (uint64_t)f->sizes[i];
  return f->n_dims < 0 ? 0 : (n + 63) / 64 * 64;
}

/* True if result i of the node is memory of its own. */
static bool is_made(const ir_node *n, uint32_t i)
{
  if (n->kind != IR_OP || ir_node_is_subgraph(n))
    return false; /* a subgraph's own operators make them */
  const schema_arg *r = i < n->op->schema->n_returns ? &n->op->schema->returns[i] : NULL;
  return !r || !(r->alias_before | r->alias_after | r->elem_alias);
}

static void add_result(walk *w, const ir_value *v)
{
  const uint64_t bytes = bytes_of(ir_facts_of(v->type));

  if (ir_facts_of(v->type)->dtype != DTYPE_NONE && ir_facts_has_sizes(ir_facts_of(v->type)))
    w->out.n_results++;
  else
    w->out.n_unknown++;
  if (!bytes)
    return;
  GROW(w->s, w->buffers, w->n, w->cap, 16);
  w->spans[alias_group(w->a, v)].buffer = w->n;
  w->buffers[w->n++] =
    (buffer){.maker = v->node, .group = alias_group(w->a, v), .made = w->now, .bytes = bytes};
}

static void walk_block(walk *w, const ir_block *b);

/* What a loop carries lives as long as the loop, and so does what it reads from outside. */
static void close_loop(walk *w, const ir_node *n, uint32_t start, uint32_t n_before)
{
  const ir_node *carried = n->blocks[0]->param;

  for (uint32_t i = 0; i < carried->n_outputs; i++) {
    const uint32_t g = alias_group(w->a, carried->outputs[i]);
    for (uint32_t k = n_before; k < w->n && g != ALIAS_NO_MEMORY; k++)
      if (w->buffers[k].group == g)
        w->buffers[k].made = start;
  }
  for (uint32_t g = 0; g < w->n_groups; g++)
    if (w->spans[g].first <= start && w->spans[g].last > start)
      w->spans[g].last = w->now;
}

static void walk_node(walk *w, const ir_node *n)
{
  const uint32_t start = ++w->now, n_before = w->n;

  for (uint32_t i = 0; i < n->n_inputs; i++)
    touch(w, ir_node_input(n, i));
  for (uint32_t i = 0; i < n->n_blocks; i++)
    walk_block(w, n->blocks[i]);
  if (n->kind == IR_LOOP)
    close_loop(w, n, start, n_before);
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    touch(w, n->outputs[i]);
    if (is_made(n, i) && n->outputs[i]->type->kind == TYPE_TENSOR)
      add_result(w, n->outputs[i]);
  }
}

static void walk_block(walk *w, const ir_block *b)
{
  session_enter(w->s);
  for (uint32_t i = 0; i < b->param->n_outputs; i++)
    touch(w, b->param->outputs[i]);
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next)
    walk_node(w, n);
  w->now++;
  for (uint32_t i = 0; i < ir_block_n_outputs(b); i++)
    touch(w, ir_block_output(b, i));
  session_leave(w->s);
}

/* True if the node's result may take the buffer of argument i: groups take any of their size. */
static bool may_take(const ir_node *n, uint32_t i)
{
  return n->op->row ? i < 16 && n->op->row->reuse >> i & 1 : ir_node_is_subgraph(n);
}

/* Return the buffer that the result may take over: of an argument that dies with the operator. */
static buffer *taken_over(const walk *w, const buffer *of)
{
  const ir_node *n = of->maker;

  for (uint32_t i = 0; n->kind == IR_OP && i < n->n_inputs; i++) {
    const uint32_t g = alias_group(w->a, ir_node_input(n, i));
    if (g == ALIAS_NO_MEMORY || !may_take(n, i) || w->spans[g].buffer == NEVER)
      continue;
    buffer *b = &w->buffers[w->spans[g].buffer];
    if (b->dies == of->made && b->made < of->made && b->bytes == of->bytes)
      return b;
  }
  return NULL;
}

static void add_up(walk *w)
{
  int64_t *change = session_array(w->s, int64_t, (size_t)w->now + 2);
  int64_t live = 0;

  for (uint32_t i = 0; i < w->n; i++)
    w->buffers[i].dies = w->spans[w->buffers[i].group].last;
  for (uint32_t i = 0; i < w->n; i++) {
    buffer *from = taken_over(w, &w->buffers[i]);
    if (from)
      from->dies--;
  }
  for (uint32_t i = 0; i < w->n; i++) {
    change[w->buffers[i].made] += (int64_t)w->buffers[i].bytes;
    change[w->buffers[i].dies + 1] -= (int64_t)w->buffers[i].bytes;
  }
  for (uint32_t t = 0; t <= w->now; t++) {
    live += change[t];
    w->out.bytes = live > 0 && (uint64_t)live > w->out.bytes ? (uint64_t)live : w->out.bytes;
  }
}

ir_live_set ir_live_set_of(session *s, const ir_graph *g)
{
  walk w = {.s = s, .a = alias_analyse_all(s, g)};

  w.n_groups = alias_n_values(w.a) + 1;
  w.spans = session_array(s, span, w.n_groups);
  for (uint32_t i = 0; i < w.n_groups; i++)
    w.spans[i].first = w.spans[i].buffer = NEVER;
  walk_block(&w, g->block);
  add_up(&w);
  return w.out;
}
