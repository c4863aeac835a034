/* passes/inline.c -- replaces calls of functions and methods by their bodies.
 *
 * Calls inside a body are inlined too, each body once for all its callers.  A function that calls
 * itself is not inlined, nor one whose body would make the graph too large or nested too deep.
 * Inlined nodes remember the calls that they came with (ir_inlined), so that tracebacks and
 * profiles do not change.
 *
 * Two uses.  The pass `inline` compiles every callee, and fails if one does not compile.  Code is
 * made from graphs inlined by pass_inline_calls, which never makes a call fail: a callee that does
 * not compile, or that another program has not compiled yet (its lock must not be taken under
 * ours), stays a call. */
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

typedef struct inline_limits {
  uint32_t nodes;  /* of one graph */
  uint32_t copied; /* in all: a body is copied for each of its callers */
  uint32_t levels; /* nested blocks and calls */
} inline_limits;
static const inline_limits most_by_name = {1u << 20, 1u << 22, 500};
static const inline_limits most_for_code = {50000, 400000, 64};

typedef struct inlined { /* a callee's body, calls in it inlined */
  function *f;
  ir_graph *graph; /* NULL while it is being made */
  uint32_t n_nodes, n_levels;
  struct inlined *next;
} inlined;

typedef struct inliner {
  session *s;
  inlined *known;
  const inline_limits *most;
  const program *own; /* NULL: compile any callee; else only those of this program */
  uint32_t n_copied;  /* nodes */
  uint32_t n_open;    /* bodies being made */
  uint32_t most_levels;
} inliner;

static void inline_block(inliner *in, ir_block *b, inlined *of, uint32_t level);

/* Return what the node calls; NULL: nothing that can be inlined.  The pass autocast finds the
 * settings of its regions in the calls that make their objects. */
static function *callee_of(const ir_node *n)
{
  if (n->kind == IR_CALL_METHOD && pass_is_autocast(ir_node_input(n, 0)))
    return NULL;
  return n->kind == IR_CALL_FUNCTION || n->kind == IR_CALL_METHOD ? ir_node_callee(n) : NULL;
}

/* Compile f; returns false if that fails, for a reason that does not end the caller's work. */
static bool compile_quietly(inliner *in, function *f)
{
  rush_error *err = in->s->cx->err, own = RUSH_ERROR_INIT;

  if (f->program != in->own || f->program->has_ended)
    return false;
  in->s->cx->err = &own;
  const rush_status st = function_prepare(in->s->cx, f);
  in->s->cx->err = err;
  rush_error_clear(&own);
  if (st != RUSH_OK)
    session_look(in->s); /* a deadline is not the callee's */
  return st == RUSH_OK;
}

/* Compile the callee if it has to be; returns false if it stays a call. */
static bool has_body(inliner *in, function *f)
{
  if (f->state == FUNCTION_COMPILING || (in->own && f->is_builtin))
    return false;
  if (!in->own)
    function_ensure(in->s, f);
  else if (f->state != FUNCTION_COMPILED && !compile_quietly(in, f))
    return false;
  return f->graph != NULL;
}

/* Return the inlined body; NULL: it cannot be inlined. */
static const inlined *body_of(inliner *in, function *f)
{
  for (const inlined *i = in->known; i; i = i->next)
    if (i->f == f)
      return i->graph ? i : NULL;
  if (in->n_open >= in->most_levels)
    return NULL;
  inlined *made = session_new(in->s, inlined);
  *made = (inlined){.f = f, .next = in->known};
  in->known = made;
  if (!has_body(in, f))
    return NULL;
  ir_graph *g = ir_graph_copy(in->s, f->graph);
  session_defer(in->s, ir_graph_free_deferred, g);
  in->n_open++;
  inline_block(in, g->block, made, 1);
  in->n_open--;
  made->graph = g;
  return made;
}

/* Keep the names that results had at the call. */
static void keep_name(session *s, const ir_value *call, ir_value *v)
{
  if (call->name && !v->name && v->node->kind != IR_PARAM && v->node->kind != IR_CONSTANT) {
    const char *name = session_strdup(s, call->name);
    ir_value_set_name(s, (ir_value *)(uintptr_t)call, NULL);
    ir_value_set_name(s, v, name);
  }
}

void pass_inline_call(session *s, ir_node *n, function *f, const ir_graph *body)
{
  ir_value **out = session_array(s, ir_value *, n->n_outputs);

  ASSERT(body != n->graph, "a graph inlined into itself");
  ASSERT(ir_block_n_inputs(body->block) == n->n_inputs &&
           ir_block_n_outputs(body->block) == n->n_outputs,
         "a call and the body have as many inputs and outputs");
  ir_call_inline(s, n, body->block, f, out);
  ir_graph_keep_types(s, n->graph, &f->program->types);
  ir_graph_keep_types_of(s, n->graph, body);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    keep_name(s, n->outputs[i], out[i]);
  pass_replace(n, out);
}

/* True if the body can replace the call, which is in `of`, `level` blocks deep. */
static bool can_inline(const inliner *in, const ir_node *n, const inlined *body, const inlined *of,
                       uint32_t level)
{
  return ir_block_n_inputs(body->graph->block) == n->n_inputs &&
         ir_block_n_outputs(body->graph->block) == n->n_outputs &&
         of->n_nodes + body->n_nodes <= in->most->nodes &&
         in->n_copied + body->n_nodes <= in->most->copied &&
         level + body->n_levels <= in->most_levels;
}

/* Inline calls in b, a block of `of`, whose counts are updated. */
static void inline_block(inliner *in, ir_block *b, inlined *of, uint32_t level)
{
  session_enter(in->s);
  if (level > of->n_levels)
    of->n_levels = level;
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    session_poll(in->s);
    next = n->next;
    of->n_nodes += 1 + n->n_outputs;
    for (uint32_t i = 0; i < n->n_blocks; i++)
      inline_block(in, n->blocks[i], of, level + 1);
    function *f = callee_of(n);
    const inlined *body = f ? body_of(in, f) : NULL;
    if (!body || !can_inline(in, n, body, of, level))
      continue;
    of->n_nodes += body->n_nodes;
    in->n_copied += body->n_nodes;
    if (of->n_levels < level + body->n_levels)
      of->n_levels = level + body->n_levels;
    pass_inline_call(in->s, n, f, body->graph);
    ASSERT(next->block == b, "inlining removes the call only");
  }
  session_leave(in->s);
}

static void inline_graph(inliner *in, ir_graph *g)
{
  const uint32_t half = in->s->cx->limit_depth / 2; /* what reads the result nests, too */

  in->most_levels = in->most->levels < half ? in->most->levels : half;
  inline_block(in, g->block, session_new(in->s, inlined), 1);
}

void pass_inline(session *s, ir_graph *g)
{
  inline_graph(&(inliner){.s = s, .most = &most_by_name}, g);
}

void pass_inline_calls(session *s, ir_graph *g, const function *f)
{
  inlined self = {.f = (function *)(uintptr_t)f}; /* what it calls may call it */

  inline_graph(&(inliner){.s = s, .most = &most_for_code, .own = f->program, .known = &self}, g);
}

/* -- Forks ------------------------------------------------------------------------------------- */

typedef struct fork_list {
  ir_node *n;
  struct fork_list *next;
} fork_list;

static void find_fork(session *s, ir_node *n, void *arg)
{
  fork_list **all = arg, *one;

  if (n->kind != IR_FORK || n->n_outputs != 1)
    return;
  one = session_new(s, fork_list);
  *one = (fork_list){n, *all};
  *all = one;
}

/* Run a fork at once and use its result for its future, if every use of the future is a visible
 * wait. */
static void inline_fork(session *s, ir_node *n, inliner *in)
{
  ir_value *future = n->outputs[0], *result;

  for (const ir_use *u = future->uses; u; u = u->next)
    if (!ir_node_is_op(u->user, OPN_WAIT))
      return;
  ir_value **inputs = session_array(s, ir_value *, n->n_inputs);
  for (uint32_t i = 0; i < n->n_inputs; i++)
    inputs[i] = ir_node_input(n, i);
  const inlined *body = n->function ? body_of(in, n->function) : NULL;
  const ir_block *b = body ? body->graph->block : n->n_blocks == 1 ? n->blocks[0] : NULL;
  if (!b || ir_block_n_inputs(b) != n->n_inputs || ir_block_n_outputs(b) != 1)
    return;
  ir_block_inline(s, b, n, inputs, &result);
  while (future->uses) {
    ir_node *wait = future->uses->user;
    ASSERT(ir_value_is_visible(result, wait), "a task is waited for after it was forked");
    ir_value_replace_all_uses(wait->outputs[0], result);
    ir_node_destroy(wait);
  }
  ir_node_destroy(n);
}

void pass_inline_fork_wait(session *s, ir_graph *g)
{
  inliner in = {.s = s, .most = &most_by_name, .most_levels = UINT32_MAX};
  fork_list *all = NULL;
  pass_each(s, g->block, find_fork, &all);
  for (; all; all = all->next)
    inline_fork(s, all->n, &in);
}
