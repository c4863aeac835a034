/* api/ir_node.c -- graphs as data: nodes, their positions, inputs, outputs and blocks. Functions
 * check that handles are alive and belong to one graph before they edit, because the internal
 * functions only assert it. Destroyed nodes remain in the arena with a flag, so that a stale
 * handle is an error and not a crash. Nesting is limited, since functions over graphs recurse
 * into blocks. */
#include "api/ir_int.h"

#define MOST_NESTED 400 /* blocks in blocks: what walks graphs calls itself */

/* -- Reading ----------------------------------------------------------------------------------- */

bool api_node_is_live(const rush_node *n) { return !node_in(n)->destroyed; }
rush_graph *api_node_graph(const rush_node *n) { return graph_out(node_in(n)->graph); }
const rush_block *api_node_owner(const rush_node *n) { return block_out(node_in(n)->block); }

const rush_node *api_node_prev(const rush_node *n)
{
  const ir_node *in = node_in(n);

  return !in->block || !in->prev || in->prev == in->block->ret ? NULL : node_out(in->prev);
}

static void schema_text(session *s, edit *e, text_buf *out)
{
  ir_node_resolve(s, e->n);
  if (e->n->kind == IR_OP)
    schema_print(out, e->n->op->schema);
  else
    text_puts(out, "(no schema)");
}

static rush_status node_text(const rush_node *n, ir_text_fn *fn, char **out, rush_error *err)
{
  edit e = {.n = node_in(n)};

  TRY(ir_need_node(e.n, err));
  return ir_text(e.n->graph, fn, &e, out, err);
}

rush_status api_node_schema(const rush_node *n, char **out, rush_error *err)
{
  return node_text(n, schema_text, out, err);
}

static void print_node(session *s, edit *e, text_buf *out)
{
  (void)s;
  ir_print_node_with(out, e->n, true);
}

rush_status api_node_text(const rush_node *n, char **out, rush_error *err)
{
  return node_text(n, print_node, out, err);
}

static void source_text(session *s, edit *e, text_buf *out)
{
  (void)s;
  if (e->n->range.src)
    source_excerpt(out, &e->n->range);
}

rush_status api_node_source(const rush_node *n, char **out, rush_error *err)
{
  return node_text(n, source_text, out, err);
}

rush_status api_node_is_before(const rush_node *a, const rush_node *b, bool *out, rush_error *err)
{
  const ir_node *x = node_in(a), *y = node_in(b);

  TRY(ir_need_node(x, err));
  TRY(ir_need_node(y, err));
  if (x->graph != y->graph)
    return ir_misuse(err, "the nodes belong to different graphs");
  for (const ir_node *n = x; n; n = n->block && n->block->owner ? n->block->owner : NULL)
    if (!n->block)
      return ir_misuse(err, "the node is in no block");
  for (const ir_node *n = y; n; n = n->block && n->block->owner ? n->block->owner : NULL)
    if (!n->block)
      return ir_misuse(err, "the node is in no block");
  *out = x->kind == IR_PARAM && x != y ? x->block == y->block || !ir_node_is_before(y, x)
         : y->kind == IR_PARAM         ? false
                                       : ir_node_is_before(x, y);
  return RUSH_OK;
}

static rush_status find_named(const ir_node *n, const char *name, uint32_t *i, rush_error *err)
{
  int at = n->kind == IR_OP ? schema_arg_index(n->op->schema, str_of(name)) : -1;

  if (at < 0 || (uint32_t)at >= n->n_inputs)
    return ir_misuse(err, "%s has no argument '%s'", ir_node_kind_name(n), name);
  *i = (uint32_t)at;
  return RUSH_OK;
}

static void resolve(session *s, edit *e) { ir_node_resolve(s, e->n); }

rush_status api_node_named_input(const rush_node *n, const char *name, const rush_graph_value **out,
                                 rush_error *err)
{
  edit e = {.n = node_in(n)};
  uint32_t i;

  TRY(ir_need_node(e.n, err));
  TRY(ir_edit(e.n->graph, resolve, &e, err));
  TRY(find_named(e.n, name, &i, err));
  *out = value_out(ir_node_input(e.n, i));
  return RUSH_OK;
}

/* -- Making and placing ------------------------------------------------------------------------ */

typedef struct create_job {
  edit e;
  const rush_graph_value *const *inputs;
  size_t n_inputs, n_outputs;
} create_job;

static void create(session *s, edit *e)
{
  const create_job *j = (const create_job *)(const void *)e;

  e->n = ir_node_new_named(s, e->g, str_of(e->text));
  for (size_t i = 0; i < j->n_inputs; i++)
    ir_node_add_input(s, e->n, value_in(j->inputs[i]));
  ir_node_resolve(s, e->n);
  for (size_t i = 0; i < j->n_outputs; i++)
    ir_node_add_output(s, e->n, type_simple(TYPE_TENSOR));
}

/* True for "namespace::name": a kind that graph text can contain. */
static bool is_kind(const char *kind)
{
  const char *colons = strstr(kind, "::");
  size_t n = strspn(kind, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:");

  return colons && colons != kind && colons[2] && !kind[n];
}

rush_status api_node_create(rush_graph *g, const char *kind, const rush_graph_value *const *inputs,
                            size_t n_inputs, size_t n_outputs, const rush_node **out,
                            rush_error *err)
{
  create_job j = {
    .e = {.text = kind}, .inputs = inputs, .n_inputs = n_inputs, .n_outputs = n_outputs};

  if (!is_kind(kind) || strcmp(kind, "prim::Param") == 0 || strcmp(kind, "prim::Return") == 0)
    return ir_misuse(err, "'%s' is no kind of node: namespace::name is", kind);
  if (n_inputs > 1000000 || n_outputs > 1000000)
    return ir_misuse(err, "a node of %zu inputs and %zu outputs", n_inputs, n_outputs);
  for (size_t i = 0; i < n_inputs; i++)
    TRY(ir_need_value(graph_in(g), value_in(inputs[i]), err));
  TRY(ir_edit(graph_in(g), create, &j.e, err));
  *out = node_out(j.e.n);
  return RUSH_OK;
}

static uint32_t depth_of(const ir_block *b)
{
  uint32_t depth = 0;

  for (; b; b = b->owner ? b->owner->block : NULL)
    depth++;
  return depth;
}

static uint32_t height_of(const ir_node *n)
{
  uint32_t height = 0;

  for (uint32_t i = 0; i < n->n_blocks; i++)
    for (const ir_node *m = ir_block_first(n->blocks[i]); m != n->blocks[i]->ret; m = m->next) {
      uint32_t h = m->n_blocks ? height_of(m) : 0;
      height = h > height ? h : height;
    }
  return height + (n->n_blocks > 0);
}

/* Check that n may be linked beside `at`. */
static rush_status need_place(const ir_node *n, const ir_node *at, bool after, rush_error *err)
{
  TRY(ir_need_node(n, err));
  TRY(ir_need_node(at, err));
  if (n->graph != at->graph)
    return ir_misuse(err, "the nodes belong to different graphs");
  if (n->kind == IR_PARAM || n->kind == IR_RETURN)
    return ir_misuse(err, "a block's inputs and outputs stay where they are");
  if (!at->block || at->kind == IR_PARAM || (after && at->kind == IR_RETURN))
    return ir_misuse(err,
                     "nodes go before or behind a node that is in a block, not behind its end");
  if (ir_block_is_inside(at->block, n))
    return ir_misuse(err, "a node cannot go into itself");
  if (n->n_blocks && depth_of(at->block) + height_of(n) > MOST_NESTED)
    return ir_misuse(err, "blocks nest at most %d deep", MOST_NESTED);
  return RUSH_OK;
}

rush_status api_node_insert(const rush_node *n, const rush_node *at, bool after, rush_error *err)
{
  ir_node *in = node_in(n), *pos = node_in(at);

  TRY(need_place(in, pos, after, err));
  if (in->block)
    return ir_misuse(err, "the node is in a block already");
  if (after)
    ir_node_insert_after(in, pos);
  else
    ir_node_insert_before(in, pos);
  return RUSH_OK;
}

rush_status api_node_move(const rush_node *n, const rush_node *at, bool after, rush_error *err)
{
  ir_node *in = node_in(n), *pos = node_in(at);

  TRY(need_place(in, pos, after, err));
  if (!in->block)
    return ir_misuse(err, "the node is in no block");
  if (after)
    ir_node_move_after(in, pos);
  else
    ir_node_move_before(in, pos);
  return RUSH_OK;
}

rush_status api_node_destroy(const rush_node *n, rush_error *err)
{
  ir_node *in = node_in(n);

  TRY(ir_need_node(in, err));
  if (in->kind == IR_PARAM || in->kind == IR_RETURN)
    return ir_misuse(err, "a block's inputs and outputs are erased one by one");
  if (!ir_node_is_unused(in))
    return ir_misuse(err, "%s cannot be destroyed: its outputs have uses", ir_node_kind_name(in));
  ir_node_destroy(in);
  return RUSH_OK;
}

/* -- Inputs ------------------------------------------------------------------------------------ */

static rush_status need_slot(const ir_node *n, size_t i, size_t most, const char *what,
                             rush_error *err)
{
  TRY(ir_need_node(n, err));
  return i < most ? RUSH_OK
                  : error_set_type(err, RUSH_EARGUMENT, "IndexError", "%s %zu of %s, which has %zu",
                                   what, i, ir_node_kind_name(n), most);
}

static rush_status need_inputs(const ir_node *n, rush_error *err)
{
  TRY(ir_need_node(n, err));
  return n->kind == IR_PARAM ? ir_misuse(err, "a block's parameters take nothing") : RUSH_OK;
}

static void insert_input(session *s, edit *e)
{
  ir_node_insert_input(s, e->n, (uint32_t)e->i, e->v);
}

rush_status api_node_insert_input(const rush_node *n, size_t i, const rush_graph_value *v,
                                  rush_error *err)
{
  edit e = {.n = node_in(n), .v = value_in(v), .i = i};

  TRY(need_inputs(e.n, err));
  TRY(need_slot(e.n, i, (size_t)e.n->n_inputs + 1, "input", err));
  TRY(ir_need_value(e.n->graph, e.v, err));
  return ir_edit(e.n->graph, insert_input, &e, err);
}

rush_status api_node_set_input(const rush_node *n, size_t i, const rush_graph_value *v,
                               rush_error *err)
{
  ir_node *in = node_in(n);

  TRY(need_slot(in, i, in->n_inputs, "input", err));
  TRY(ir_need_value(in->graph, value_in(v), err));
  ir_node_set_input(in, (uint32_t)i, value_in(v));
  return RUSH_OK;
}

rush_status api_node_remove_input(const rush_node *n, size_t i, rush_error *err)
{
  TRY(need_slot(node_in(n), i, node_in(n)->n_inputs, "input", err));
  ir_node_remove_input(node_in(n), (uint32_t)i);
  return RUSH_OK;
}

rush_status api_node_replace_input(const rush_node *n, const rush_graph_value *from,
                                   const rush_graph_value *to, rush_error *err)
{
  ir_node *in = node_in(n);

  TRY(ir_need_node(in, err));
  TRY(ir_need_value(in->graph, value_in(from), err));
  TRY(ir_need_value(in->graph, value_in(to), err));
  for (uint32_t i = 0; i < in->n_inputs; i++)
    if (ir_node_input(in, i) == value_in(from))
      ir_node_set_input(in, i, value_in(to));
  return RUSH_OK;
}

/* -- Outputs and blocks ------------------------------------------------------------------------ */

static void insert_output(session *s, edit *e)
{
  e->v = ir_node_insert_output(s, e->n, (uint32_t)e->i, e->t);
  ir_graph_keep_types(s, e->g, e->t->store);
  if (e->text)
    ir_value_set_name(s, e->v, e->text);
}

rush_status api_node_insert_output(const rush_node *n, size_t i, const rush_type *t,
                                   const char *name, const rush_graph_value **out, rush_error *err)
{
  edit e = {.n = node_in(n), .i = i, .t = t ? type_in(t) : type_simple(TYPE_TENSOR), .text = name};

  TRY(need_slot(e.n, i, (size_t)e.n->n_outputs + 1, "output", err));
  if (e.n->kind == IR_RETURN)
    return ir_misuse(err, "a block's return has no outputs");
  TRY(ir_edit(e.n->graph, insert_output, &e, err));
  *out = value_out(e.v);
  return RUSH_OK;
}

rush_status api_node_remove_output(const rush_node *n, size_t i, rush_error *err)
{
  ir_node *in = node_in(n);

  TRY(need_slot(in, i, in->n_outputs, "output", err));
  if (in->outputs[i]->uses)
    return ir_misuse(err, "output %zu of %s cannot be erased: it has uses", i,
                     ir_node_kind_name(in));
  ir_node_remove_output(in, (uint32_t)i);
  return RUSH_OK;
}

static void add_block(session *s, edit *e) { e->b = ir_node_add_block(s, e->n); }

rush_status api_node_add_block(const rush_node *n, const rush_block **out, rush_error *err)
{
  edit e = {.n = node_in(n)};

  TRY(ir_need_node(e.n, err));
  if (e.n->kind == IR_PARAM || e.n->kind == IR_RETURN ||
      (e.n->block && depth_of(e.n->block) >= MOST_NESTED))
    return ir_misuse(err, "this node cannot have a block more");
  TRY(ir_edit(e.n->graph, add_block, &e, err));
  *out = block_out(e.b);
  return RUSH_OK;
}

rush_status api_node_erase_block(const rush_node *n, size_t i, rush_error *err)
{
  ir_node *in = node_in(n);

  TRY(need_slot(in, i, in->n_blocks, "block", err));
  ir_node_destroy_block(in, (uint32_t)i);
  return RUSH_OK;
}
