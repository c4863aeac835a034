/* api/graph.c -- graphs for compilers that use backend.h: read-only access by opaque handles,
 * passes, and the calls of groups. The handles are the internal pointers under other names, so that
 * reading costs no table. graph_call_spec serialises the facts of arguments into bytes that a
 * compiler can use as the key of its cache. */
#include "api/api_int.h"
#include "api/backend_int.h"
#include "passes/passes.h"

/* -- The public names of nodes, blocks and values ---------------------------------------------- */

static const ir_node *node_in(const rush_node *n) { return (const ir_node *)(const void *)n; }
static const rush_node *node_out(const ir_node *n) { return (const rush_node *)(const void *)n; }
static const ir_block *block_in(const rush_block *b) { return (const ir_block *)(const void *)b; }
static const rush_block *block_out(const ir_block *b)
{
  return (const rush_block *)(const void *)b;
}
static const ir_value *value_in(const rush_graph_value *v)
{
  return (const ir_value *)(const void *)v;
}
static const rush_graph_value *value_out(const ir_value *v)
{
  return (const rush_graph_value *)(const void *)v;
}

static const rush_node *listed(const ir_node *n) { return n == n->block->ret ? NULL : node_out(n); }

const rush_node *graph_block_first(const rush_block *b)
{
  return listed(ir_block_first(block_in(b)));
}
const rush_node *graph_node_next(const rush_node *n) { return listed(node_in(n)->next); }
const char *graph_node_kind(const rush_node *n) { return ir_node_kind_name(node_in(n)); }

const char *graph_node_overload(const rush_node *n)
{
  const ir_node *in = node_in(n);

  return in->kind == IR_OP ? in->op->schema->overload : "";
}

size_t graph_node_n_inputs(const rush_node *n) { return node_in(n)->n_inputs; }
size_t graph_node_n_outputs(const rush_node *n) { return node_in(n)->n_outputs; }
size_t graph_node_n_blocks(const rush_node *n) { return node_in(n)->n_blocks; }

const rush_graph_value *graph_node_input(const rush_node *n, size_t i)
{
  return i < node_in(n)->n_inputs ? value_out(ir_node_input(node_in(n), (uint32_t)i)) : NULL;
}

const rush_graph_value *graph_node_output(const rush_node *n, size_t i)
{
  return i < node_in(n)->n_outputs ? value_out(node_in(n)->outputs[i]) : NULL;
}

const rush_block *graph_node_block(const rush_node *n, size_t i)
{
  return i < node_in(n)->n_blocks ? block_out(node_in(n)->blocks[i]) : NULL;
}

size_t graph_block_n_inputs(const rush_block *b) { return ir_block_n_inputs(block_in(b)); }
size_t graph_block_n_outputs(const rush_block *b) { return ir_block_n_outputs(block_in(b)); }

const rush_graph_value *graph_block_input(const rush_block *b, size_t i)
{
  return i < ir_block_n_inputs(block_in(b)) ? value_out(ir_block_input(block_in(b), (uint32_t)i))
                                            : NULL;
}

const rush_graph_value *graph_block_output(const rush_block *b, size_t i)
{
  return i < ir_block_n_outputs(block_in(b)) ? value_out(ir_block_output(block_in(b), (uint32_t)i))
                                             : NULL;
}

uint32_t graph_value_id(const rush_graph_value *v) { return value_in(v)->id; }
bool graph_value_is_tensor(const rush_graph_value *v)
{
  return type_is(value_in(v)->type, TYPE_TENSOR);
}
bool graph_value_constant(const rush_graph_value *v, rush_value *out)
{
  return ir_value_as_constant(value_in(v), out);
}

/* -- Passes ------------------------------------------------------------------------------------ */

rush_status graph_pass_register(rush_context *c, const rush_pass_def *def, rush_error *err)
{
  rush_pass_def own;
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  TRY(API_READ(err, rush_pass_def, def, &own));
  return pass_register(cx.ctx, &own, err);
}

typedef struct group_job {
  rush_pass *pass;
  const rush_group_def *def;
} group_job;

static void group_body(session *s, void *arg)
{
  group_job *job = arg;
  rush_pass inner = *job->pass;

  inner.s = s;
  pass_group(&inner, job->def);
}

/* The pass may be external: a failure is returned to it as a status. */
rush_status graph_pass_group(rush_pass *pass, const rush_group_def *def)
{
  rush_group_def own;
  group_job job = {pass, &own};
  call_ctx *cx = pass->s->cx;

  TRY(API_READ(cx->err, rush_group_def, def, &own));
  TRY(API_NEED(cx->err, rush_group_def, &own, op));
  TRY(API_NEED(cx->err, rush_group_def, &own, refuse));
  return session_run(cx, group_body, &job);
}

rush_context *graph_pass_context(const rush_pass *pass) { return pass->s->cx->ctx; }
const rush_block *graph_pass_block(const rush_pass *pass) { return block_out(pass->graph->block); }

/* -- Calls of groups --------------------------------------------------------------------------- */

void *graph_call_state(const rush_call *call) { return call->state ? call->state->user : NULL; }
size_t graph_call_n_results(const rush_call *call) { return call->n_results; }

rush_status graph_call_run_group(rush_call *call)
{
  if (!call->state || !call->state->body)
    return call_unsupported(call->cx, "%s: this call has no subgraph to interpret",
                            call->op->schema->name);
  return call->state->run(call, call->state->body);
}

typedef struct spec_writer {
  char *out;
  size_t max, n;
} spec_writer;

static void write_bytes(spec_writer *w, const void *from, size_t n)
{
  if (w->n + n <= w->max)
    memcpy(w->out + w->n, from, n);
  w->n += n;
}

/* Write a byte for the kind of value, and for a tensor everything that code may be specialised
 * for. */
static void write_facts(spec_writer *w, rush_value v)
{
  uint8_t tag = (uint8_t)v.tag;

  write_bytes(w, &tag, 1);
  if (v.tag != RUSH_TAG_TENSOR)
    return;
  const rush_tensor *t = v.as.tensor;
  uint8_t head[3] = {t ? 1 : 0, t ? (uint8_t)t->dtype : 0, t ? tensor_requires_grad(t) : 0};
  int32_t n_dims = t ? t->n_dims : 0;

  write_bytes(w, head, sizeof head);
  write_bytes(w, &n_dims, sizeof n_dims);
  if (t) {
    write_bytes(w, t->sizes, sizeof *t->sizes * (size_t)n_dims);
    write_bytes(w, t->strides, sizeof *t->strides * (size_t)n_dims);
  }
}

size_t graph_call_spec(const rush_call *call, void *out, size_t max)
{
  spec_writer w = {out, max, 0};

  for (uint32_t i = 0; i < call->n_args; i++)
    write_facts(&w, call->args[i]);
  return w.n;
}
