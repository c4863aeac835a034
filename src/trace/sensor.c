/* trace/sensor.c -- reports calls of this library to a recorder (sensor.h).
 *
 * Each call becomes a node at once, in a session of its own; the first failure is kept and returned
 * at the end.  Objects are found by address in an open-addressed table and are held, so that an
 * address cannot be used again.  The result of a call and its elements get values before they can
 * change; dead code elimination removes unused ones.  Cost: O(values), which are all held in memory
 * meanwhile. */
#include "trace/sensor.h"

#include "ops/call/profile.h"
#include "ir/facts.h"
#include "passes/passes.h"
#include "trace/recorder.h"

typedef struct item { /* an object that has a value in the trace */
  rush_value value;   /* retained */
  traced is;
} item;

struct trace {
  context *ctx; /* retained */
  call_hook hook;
  bool is_on;
  rush_status status; /* of the first call that could not be recorded */
  rush_error error;
  program *p; /* ours */
  type *cls;  /* of the module that the trace becomes */
  recorder *r;
  item *items;
  rush_value *objects; /* whose methods were called: attributes m0, m1 ... of the class; retained */
  uint32_t n_items, cap_items, n_objects, cap_objects;
  table by_address; /* item + 1, of the newest one */
};

/* Make room for one more in an array of the trace. */
static void *room(session *s, trace *t, void *row, uint32_t n, uint32_t *cap, size_t item_bytes)
{
  if (n < *cap)
    return row;
  uint32_t more = *cap ? *cap * 2 : 64;
  void *grown = mem_realloc(t->ctx, row, *cap * item_bytes, more * item_bytes);
  if (!grown)
    session_check(s, call_nomem(s->cx));
  *cap = more;
  return grown;
}

/* -- Identity ---------------------------------------------------------------------------------- */

static bool has_identity(rush_value v)
{
  switch (v.tag) {
  case RUSH_TAG_TENSOR:
  case RUSH_TAG_LIST:
  case RUSH_TAG_TUPLE:
  case RUSH_TAG_DICT:
  case RUSH_TAG_OBJECT:
  case RUSH_TAG_FUTURE:
    return v.as.heap != NULL;
  default:
    return false;
  }
}

/* Make `is` the object's value from now on. */
static void name_object(session *s, trace *t, rush_value v, traced is)
{
  if (!has_identity(v))
    return;
  t->items = room(s, t, t->items, t->n_items, &t->cap_items, sizeof *t->items);
  t->items[t->n_items++] = (item){value_retain(v), is};
  if (!table_put(&t->by_address, address_key(v.as.heap), (void *)(uintptr_t)t->n_items))
    session_check(s, call_nomem(s->cx));
}

/* -- Values ------------------------------------------------------------------------------------ */

static const type *value_type(session *s, trace *t, rush_value v)
{
  const type *found = type_of_value(&t->p->types, v);
  if (!found)
    session_check(s, call_nomem(s->cx));
  return found;
}

static traced add_node(session *s, trace *t, const char *kind, const traced *in, uint32_t n,
                       const type *out)
{
  traced made;

  recorder_add(
    s, t->r,
    &(recorder_call){.kind = kind, .inputs = in, .n_inputs = n, .n_outputs = 1, .types = &out},
    &made);
  return made;
}

/* Get item i of a container; returns false after the last. */
static bool element_at(rush_value v, size_t i, rush_value *out)
{
  if (v.tag == RUSH_TAG_LIST && i < v.as.list->n)
    *out = v.as.list->items[i];
  else if (v.tag == RUSH_TAG_TUPLE && i < v.as.tuple->n)
    *out = v.as.tuple->items[i];
  else if (v.tag == RUSH_TAG_DICT && i < v.as.dict->n_used)
    *out = v.as.dict->entries[i].value;
  else
    return false;
  return true;
}

static bool is_deleted(rush_value v, size_t i)
{
  return v.tag == RUSH_TAG_DICT && v.as.dict->entries[i].key.tag == RUSH_TAG_UNSET;
}

/* Bind the object and its elements to values now: a container may change later. */
static void bind(session *s, trace *t, rush_value v, traced is)
{
  rush_value element;
  bool is_tuple = v.tag == RUSH_TAG_TUPLE, is_dict = v.tag == RUSH_TAG_DICT;

  session_enter(s);
  name_object(s, t, v, is);
  for (size_t i = 0; element_at(v, i, &element); i++) {
    if (!has_identity(element) || is_deleted(v, i))
      continue;
    rush_value at = is_dict ? v.as.dict->entries[i].key : value_int((int64_t)i);
    traced in[2] = {is, recorder_constant(s, t->r, at, NULL, NULL)};
    const char *kind = is_tuple ? "prim::TupleIndex" : "aten::__getitem__";
    bind(s, t, element, add_node(s, t, kind, in, 2, value_type(s, t, element)));
  }
  session_leave(s);
}

/* A program whose function was called, kept as long as ours. */
typedef struct called {
  program *program;
  struct called *next;
} called;

static void release_called(program *p)
{
  for (called *c = p->front; c; c = c->next)
    program_release(c->program);
}

static void hold_program(session *s, trace *t, program *p)
{
  for (called *c = t->p->front; c; c = c->next)
    if (c->program == p)
      return;
  called *c = session_alloc_in(s, &t->p->mem, sizeof *c);
  *c = (called){program_retain(p), t->p->front};
  t->p->front = c;
}

/* Return the attribute of ours for a module or object of a program. */
static traced held_object(session *s, trace *t, rush_value v)
{
  const char *name = session_printf(s, "m%u", t->n_objects);

  t->objects = room(s, t, t->objects, t->n_objects, &t->cap_objects, sizeof *t->objects);
  hold_program(s, t, v.as.object->type->cls->program);
  class_add_attr(s, t->cls, name, v.as.object->type);
  t->objects[t->n_objects++] = value_retain(v);
  return recorder_attribute(s, t->r, name);
}

/* Return the value of v; a new one if no call returned it. */
static traced find(session *s, trace *t, rush_value v)
{
  rush_value element;
  bool is_row = v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE;
  traced made;

  if (!has_identity(v) && recorder_has(t->r, v.aux))
    return v.aux;
  const uintptr_t known =
    has_identity(v) ? (uintptr_t)table_get(&t->by_address, address_key(v.as.heap)) : 0;
  if (known)
    return t->items[known - 1].is;
  if (is_row) { /* not found again: it may change */
    uint32_t n = (uint32_t)(v.tag == RUSH_TAG_LIST ? v.as.list->n : v.as.tuple->n);
    traced *in = session_array(s, traced, n + 1);
    session_enter(s);
    for (uint32_t i = 0; i < n && element_at(v, i, &element); i++)
      in[i] = find(s, t, element);
    session_leave(s);
    return add_node(s, t, v.tag == RUSH_TAG_LIST ? "prim::ListConstruct" : "prim::TupleConstruct",
                    in, n, value_type(s, t, v));
  }
  made = v.tag == RUSH_TAG_OBJECT ? held_object(s, t, v)
                                  : recorder_constant(s, t->r, v, NULL, NULL);
  if (v.tag != RUSH_TAG_DICT)
    name_object(s, t, v, made);
  return made;
}

/* -- Calls ------------------------------------------------------------------------------------- */

typedef struct event { /* one call */
  trace *t;
  const op *op;       /* or */
  function *function;
  const rush_value *args;
  rush_value *results; /* numbers among them are marked */
  uint32_t n_args, n_results;
} event;

#define FEW 16 /* arguments, results: an ordinary call takes no memory from the session */

static bool is_number(rush_value v)
{
  return !has_identity(v) && v.tag <= RUSH_TAG_FLOAT && v.tag != RUSH_TAG_TENSOR;
}

static void record_call(session *s, void *arg)
{
  event *e = arg;
  trace *t = e->t;
  const function *f = e->function;
  bool is_small = e->n_args <= FEW && e->n_results <= FEW;
  traced few_in[FEW], few_out[FEW];
  const type *few_types[FEW] = {NULL};
  traced *in = is_small ? few_in : session_array(s, traced, e->n_args + 1);
  traced *out = is_small ? few_out : session_array(s, traced, e->n_results + 1);
  const type **types = is_small ? few_types : session_array(s, const type *, e->n_results + 1);

  for (uint32_t i = 0; i < e->n_args; i++)
    in[i] = find(s, t, e->args[i]);
  for (uint32_t i = 0; i < e->n_results; i++)
    if (f || (e->results[i].tag != RUSH_TAG_NONE && e->results[i].tag != RUSH_TAG_TENSOR))
      types[i] = value_type(s, t, e->results[i]);
  if (f)
    hold_program(s, t, f->program);
  recorder_add(s, t->r,
               &(recorder_call){.kind = !f ? NULL : f->self ? "prim::CallMethod"
                                                            : "prim::CallFunction",
                                .op = e->op,
                                .callee = e->function,
                                .method = f && f->self ? f->name : NULL,
                                .inputs = in,
                                .n_inputs = e->n_args,
                                .n_outputs = e->n_results,
                                .types = types},
               out);
  for (uint32_t i = 0; i < e->n_results; i++) {
    bind(s, t, e->results[i], out[i]);
    if (is_number(e->results[i]))
      e->results[i].aux = out[i];
  }
}

static void record(event *e)
{
  trace *t = e->t;
  call_ctx cx;

  if (t->status != RUSH_OK)
    return;
  call_ctx_init(&cx, t->ctx, &t->error);
  t->status = session_run(&cx, record_call, e);
}

static void on_op(void *user, rush_call *c)
{
  record(&(event){.t = user,
                  .op = c->op,
                  .args = c->args,
                  .results = c->results,
                  .n_args = c->n_args,
                  .n_results = c->n_results});
}

static void on_function(void *user, void *f, const rush_value *args, uint32_t n_args,
                        rush_value *result)
{
  record(&(event){
    .t = user, .function = f, .args = args, .results = result, .n_args = n_args, .n_results = 1});
}

/* -- Life -------------------------------------------------------------------------------------- */

typedef struct beginning {
  trace *t;
  const rush_value *inputs;
  const char *const *names;
  uint32_t n;
} beginning;

static void begin_trace(session *s, void *arg)
{
  const beginning *b = arg;
  trace *t = b->t;
  traced *in = session_array(s, traced, b->n + 1);

  t->p = program_new(s, t->ctx);
  t->p->front_free = release_called;
  t->cls = program_add_class(s, t->p, TYPE_CLASS, "__torch__.Traced");
  t->cls->cls->is_module = true;
  t->r = recorder_new(s, t->p, t->cls);
  for (uint32_t i = 0; i < b->n; i++)
    in[i] = recorder_input(s, t->r, value_type(s, t, b->inputs[i]),
                           b->names && b->names[i] ? b->names[i] : "input");
  for (uint32_t i = 0; i < b->n; i++)
    bind(s, t, b->inputs[i], in[i]);
}

rush_status trace_begin(context *c, const rush_value *inputs, const char *const *names, uint32_t n,
                        trace **out, rush_error *err)
{
  trace *t = mem_alloc_zero(c, sizeof *t);
  beginning b = {t, inputs, names, n};
  call_ctx cx;

  if (!t)
    return error_nomem(err);
  t->ctx = context_retain(c);
  table_init(&t->by_address, c);
  t->hook = (call_hook){.user = t, .op = on_op, .function = on_function};
  call_ctx_init(&cx, c, err);
  rush_status st = session_run(&cx, begin_trace, &b);
  if (st == RUSH_OK && profile_add_hook(c, &t->hook, NULL) != RUSH_OK)
    st = error_nomem(err);
  if (st != RUSH_OK) {
    trace_drop(t);
    return st;
  }
  t->is_on = true;
  *out = t;
  return RUSH_OK;
}

context *trace_context(const trace *t) { return t->ctx; }

static void stop(trace *t)
{
  if (t->is_on)
    profile_remove_hook(t->ctx, &t->hook);
  t->is_on = false;
}

void trace_drop(trace *t)
{
  if (!t)
    return;
  context *c = t->ctx;
  stop(t);
  for (uint32_t i = 0; i < t->n_items; i++)
    value_release(t->items[i].value);
  for (uint32_t i = 0; i < t->n_objects; i++)
    value_release(t->objects[i]);
  mem_free(c, t->items, t->cap_items * sizeof *t->items);
  mem_free(c, t->objects, t->cap_objects * sizeof *t->objects);
  table_free(&t->by_address);
  recorder_free(t->r);
  program_release(t->p);
  rush_error_clear(&t->error);
  mem_free(c, t, sizeof *t);
  context_release(c);
}

/* -- The end ----------------------------------------------------------------------------------- */

typedef struct ending {
  trace *t;
  const rush_value *outputs;
  uint32_t n;
  rush_value object;
} ending;

static void end_trace(session *s, void *arg)
{
  ending *e = arg;
  trace *t = e->t;
  traced *out = session_array(s, traced, e->n + 1);
  rush_object *o;

  for (uint32_t i = 0; i < e->n; i++)
    out[i] = find(s, t, e->outputs[i]);
  recorder_finish(
    s, t->r, e->n == 1 ? out[0] : add_node(s, t, "prim::TupleConstruct", out, e->n, NULL));
  recorder_define(s, t->r, "forward");
  session_check(s, object_new(s->cx, t->cls, t->n_objects, &o));
  for (uint32_t i = 0; i < t->n_objects; i++)
    o->slots[i] = value_retain(t->objects[i]);
  e->object = value_heap_steal(RUSH_TAG_OBJECT, o);
}

rush_status trace_end_steal(call_ctx *cx, trace *t, const rush_value *outputs, uint32_t n,
                            program **out, rush_value *object)
{
  ending e = {t, outputs, n, value_none()};

  stop(t);
  rush_status st = t->status;
  if (st == RUSH_ENOMEM)
    st = call_nomem(cx);
  else if (st != RUSH_OK)
    st = error_set_type(cx->err, st, t->error.type, "%s", t->error.message);
  else
    st = session_run(cx, end_trace, &e);
  if (st == RUSH_OK) {
    *out = program_retain(t->p);
    *object = e.object;
  }
  trace_drop(t);
  return st;
}

/* -- Functions from texts ---------------------------------------------------------------------- */

static void set_constants(session *s, ir_graph *g, const rush_value *constants, uint32_t n)
{
  uint32_t i = 0;

  for (ir_node *node = ir_block_first(g->block); node != g->block->ret; node = node->next) {
    session_poll(s);
    if (node->kind != IR_CONSTANT || node->outputs[0]->type->kind != TYPE_TENSOR ||
        ir_constant_value(node).tag != RUSH_TAG_NONE)
      continue;
    if (i == n)
      session_fail(s, NULL, "the graph has more constant tensors than the %u that were given", n);
    node->constant = ir_graph_add_constant(s, g, constants[i++]);
  }
  if (i != n)
    session_fail(s, NULL, "the graph has %u constant tensors, and %u were given", i, n);
}

function *script_define_graph(session *s, program *p, const type *self, const char *name,
                              const char *text, const rush_value *constants, uint32_t n)
{
  ir_graph *g = ir_parse(s, &p->types, text);

  session_defer(s, ir_graph_free_deferred, g);
  set_constants(s, g, constants, n);
  if (ir_block_n_outputs(g->block) != 1 ||
      (self && (!ir_block_n_inputs(g->block) || ir_block_input(g->block, 0)->type != self)))
    session_fail(s, NULL, "the graph of '%s' needs one output%s%s", name,
                 self ? ", and a first input of type " : "", self ? self->name : "");
  return trace_function_steal(s, p, self, name, session_keep(s, g));
}
