/* autodiff/capture.c -- cuts a graph with a reverse part into f and df (lambda lifting).
 *
 * What the reverse part reads of the forward part becomes an input of df.  Constants and lists are
 * copied instead, and sizes are read from a value that is captured anyway; of others f returns the
 * sizes, as a list of numbers, so that the tensor can be freed. */
#include "autodiff/autodiff_int.h"

#include "base/grow.h"
#include "ops/table/op_keys.h"

/* Return the first node of the reverse part, or the return node. */
static ir_node *reverse_begin(const diff *d)
{
  ir_node *ret = d->w->block->ret;

  return d->last == ret ? ir_block_first(d->w->block) : d->last->next;
}

typedef void read_fn(diff *d, ir_node *n, uint32_t i);

static void each_input(diff *d, ir_node *n, read_fn *fn)
{
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (diff_is_forward(ir_node_input(n, i)))
      fn(d, n, i);
}

/* Visit every input, of the nodes from `n` to the block's return node, that is a value of the
 * forward part. */
static void each_read(diff *d, ir_node *n, read_fn *fn)
{
  ir_node *ret = n->block->ret;

  session_enter(d->s);
  for (; n != ret; n = n->next) {
    session_poll(d->s);
    each_input(d, n, fn);
    for (uint32_t b = 0; b < n->n_blocks; b++)
      each_read(d, ir_block_first(n->blocks[b]), fn);
  }
  each_input(d, ret, fn);
  session_leave(d->s);
}

/* -- What is made again ------------------------------------------------------------------------ */

/* Replace the input by a copy of the constant or the list that makes it, at the start of the
 * reverse part. */
static void remake(diff *d, ir_node *n, uint32_t i)
{
  const ir_value *v = ir_node_input(n, i);
  const ir_node *from = v->node;
  diff_value *of = diff_of(d, v);

  if (from->kind != IR_CONSTANT && from->kind != IR_LIST_CONSTRUCT)
    return;
  if (!of->captured) {
    ir_node *made;
    ir_value **in = session_array(d->s, ir_value *, from->n_inputs + 1);

    for (uint32_t k = 0; k < from->n_inputs; k++)
      in[k] = ir_node_input(from, k);
    made = from->kind == IR_CONSTANT
             ? ir_constant_new(d->s, d->w, ir_constant_value(from), v->type)
             : ir_node_new(d->s, d->w, IR_LIST_CONSTRUCT, in, from->n_inputs);
    if (!made->n_outputs)
      ir_node_add_output(d->s, made, v->type);
    of->captured = made->outputs[0];
    ir_node_insert_before(made, reverse_begin(d));
    for (uint32_t k = 0; k < made->n_inputs; k++)
      remake(d, made, k);
  }
  ir_node_set_input(n, i, of->captured);
}

/* -- Captures ---------------------------------------------------------------------------------- */

static bool is_size(const ir_node *n) { return ir_node_op_key(n) == OPK_SIZE; }

static void note_read(diff *d, ir_node *n, uint32_t i)
{
  diff_value *of = diff_of(d, ir_node_input(n, i));

  if (is_size(n))
    of->wants_sizes = true;
  else
    of->is_read = true;
}

/* Return where an output of f is v, or append it. */
static uint32_t output_of(const diff *d, ir_value *v)
{
  for (uint32_t i = 0; i < ir_block_n_outputs(d->f->block); i++)
    if (ir_block_output(d->f->block, i) == v)
      return i;
  ir_block_add_output(d->s, d->f->block, v);
  return ir_block_n_outputs(d->f->block) - 1;
}

typedef struct capture {
  ir_value *in_f; /* a value of f */
  ir_value **to;  /* becomes the input of df */
  const char *name;
  uint32_t id;    /* number * 2, + 1: its sizes */
} capture;

typedef struct captures {
  capture *items;
  uint32_t n, cap;
} captures;

static void put_capture(const diff *d, captures *all, ir_value *in_f, ir_value **to,
                        const char *name, uint32_t id)
{
  GROW(d->s, all->items, all->n, all->cap, 16);
  all->items[all->n++] = (capture){in_f, to, name, id};
}

/* Make the sizes of a value in f, just behind it. */
static ir_value *sizes_in_f(const diff *d, ir_value *v)
{
  ir_node *pos =
    v->node->kind == IR_PARAM ? ir_block_first(d->f->block) : v->node->next;

  return diff_op(d->s, pos, "aten::size", "", &v, 1);
}

static void replace_read(diff *d, ir_node *n, uint32_t i)
{
  const diff_value *of = diff_of(d, ir_node_input(n, i));

  if (of->captured)
    ir_node_set_input(n, i, of->captured);
}

static void add_inputs(const diff *d, const captures *all, diff_indices *out, bool of_inputs)
{
  out->at = session_array(d->s, uint32_t, all->n + 1);
  for (uint32_t i = 0; i < all->n; i++) {
    const capture *c = &all->items[i];

    if ((c->in_f->node == d->f->block->param) != of_inputs)
      continue;
    const uint32_t at = of_inputs ? c->in_f->index : output_of(d, c->in_f);
    out->at[out->n++] = at;
    if (!of_inputs && at >= d->out->n_outputs)
      d->out->captured[at - d->out->n_outputs] = c->id;
    *c->to = ir_block_add_input(d->s, d->w->block, c->in_f->type, NULL);
  }
}

/* Collect what is captured, in the order of the forward part. */
static captures collect(diff *d)
{
  captures all = {0};

  for (uint32_t i = 1; i < d->n_values; i++) {
    diff_value *of = &d->values[i];

    if (of->is_read && !of->captured)
      put_capture(d, &all, of->in_f, &of->captured, of->v->name, 2 * i);
    else if (of->wants_sizes && !of->captured)
      put_capture(d, &all, sizes_in_f(d, of->in_f), &of->sizes, NULL, 2 * i + 1);
  }
  return all;
}

/* Decide for each value whether it or its sizes are captured. */
static void settle_reads(diff *d)
{
  for (uint32_t i = 1; i < d->n_values; i++) {
    diff_value *of = &d->values[i];

    of->is_read |= d->vjps[i];
    if (of->wants_sizes && d->available && !(d->available[i] & CAPTURE_SIZES))
      of->is_read = true;
    if (of->is_read && d->available && !(d->available[i] & CAPTURE_VALUE) && !of->captured)
      session_fail_status(d->s, RUSH_EINTERNAL, NULL, NULL,
                          "a gradient needs a value that was not captured");
  }
}

/* Zeros take the place of undefined gradients where an operator has several results. */
static void want_sizes_of_results(const diff *d)
{
  for (const ir_node *n = d->last; d->o.is_for_all && n != d->w->block->ret; n = n->prev)
    for (uint32_t i = 0; i < n->n_outputs && n->n_outputs > 1; i++)
      if (diff_of(d, n->outputs[i])->requires && type_is(n->outputs[i]->type, TYPE_TENSOR))
        diff_of(d, n->outputs[i])->wants_sizes = true;
}

static void replace_sizes(diff *d)
{
  for (ir_node *n = reverse_begin(d), *next; n != d->w->block->ret; n = next) {
    next = n->next;
    if (!is_size(n) || !diff_is_forward(ir_node_input(n, 0)))
      continue;
    ir_value *sizes = diff_of(d, ir_node_input(n, 0))->sizes;
    if (!sizes)
      continue;
    ir_value_replace_all_uses(n->outputs[0], sizes);
    ir_node_destroy(n);
  }
}

static captures capture_all(diff *d)
{
  each_read(d, reverse_begin(d), remake);
  each_read(d, reverse_begin(d), note_read);
  want_sizes_of_results(d);
  settle_reads(d);
  captures all = collect(d);
  d->out->captured = session_array(d->s, uint32_t, all.n + 1);
  add_inputs(d, &all, &d->out->captured_inputs, true);
  add_inputs(d, &all, &d->out->captured_outputs, false);
  replace_sizes(d);
  each_read(d, reverse_begin(d), replace_read);
  return all;
}

/* -- Outputs of df ----------------------------------------------------------------------------- */

static void add_output(diff *d, uint32_t input, ir_value *grad)
{
  diff_indices *out = &d->out->output_vjps;

  GROW(d->s, out->at, out->n, d->cap_vjps, 8);
  out->at[out->n++] = input;
  ir_block_add_output(d->s, d->w->block, grad);
}

static void set_outputs(diff *d)
{
  ir_block *b = d->w->block;

  while (ir_block_n_outputs(b))
    ir_block_remove_output(b, 0);
  for (uint32_t i = 0; i < d->n_inputs; i++) {
    const diff_value *v = diff_of(d, ir_block_input(b, i));

    for (uint32_t k = 0; k < v->n_parts; k++)
      add_output(d, i, v->parts[k]);
    if (v->requires && !d->o.is_separate && (v->grad || !d->o.so_far))
      add_output(d, i,
                 v->grad ? v->grad : diff_op(d->s, b->ret, "prim::AutogradZero", "", NULL, 0));
  }
}

/* True if the node has no effect besides its results. */
static bool can_go(const ir_node *n)
{
  switch (n->kind) {
  case IR_OP:
    return !(n->op->effects & (OP_WRITES | OP_SIDE_EFFECT)) && !n->n_blocks;
  case IR_CONSTANT:
  case IR_LIST_CONSTRUCT:
  case IR_LIST_UNPACK:
  case IR_TUPLE_CONSTRUCT:
  case IR_TUPLE_UNPACK:
    return true;
  default:
    return false;
  }
}

/* Remove what the gradients do not need, before it reads anything. */
static void remove_dead(const diff *d)
{
  const ir_node *end = reverse_begin(d)->prev;

  for (ir_node *n = ir_block_last(d->w->block), *prev; n != end; n = prev) {
    session_poll(d->s);
    prev = n->prev;
    if (can_go(n) && ir_node_is_unused(n))
      ir_node_destroy(n);
  }
}

/* Remove w's forward part; captures get the names that its values had. */
static void remove_forward(const diff *d, const captures *all)
{
  ir_block *b = d->w->block;
  ir_node *first = reverse_begin(d);

  for (ir_node *n = first->prev, *prev; n != b->ret; n = prev) {
    prev = n->prev;
    ir_node_destroy(n);
  }
  for (uint32_t i = d->n_inputs; i-- > 0;)
    ir_block_remove_input(b, i);
  for (uint32_t i = 0; i < all->n; i++)
    if (all->items[i].name)
      ir_value_set_name(d->s, *all->items[i].to, all->items[i].name);
}

/* The gradients of captured values are told by the values' numbers until f's outputs are known. */
static void number_vjps(const diff *d)
{
  for (uint32_t i = 0; i < d->out->input_vjps.n; i++)
    if (d->out->input_vjps.at[i] >= d->out->n_outputs)
      d->out->input_vjps.at[i] =
        output_of(d, d->values[d->out->input_vjps.at[i] - d->out->n_outputs].in_f);
}

void capture_split(diff *d)
{
  d->out->n_outputs = ir_block_n_outputs(d->f->block);
  set_outputs(d);
  remove_dead(d);
  const captures all = capture_all(d);
  number_vjps(d);
  remove_forward(d, &all);
}
