/* trace/sensor.c -- records calls and makes a function of them (sensor.h). During the calls
 * only identities and arguments are noted, in arrays; the graph is built at the end, so that a
 * failed trace leaves nothing. Objects are found by address in an open-addressed table and are
 * held, so that an address cannot be used again. Cost: O(steps), with all recorded values held in
 * memory meanwhile. */
#include "trace/sensor.h"

#include "ops/call/profile.h"
#include "ir/facts.h"
#include "passes/passes.h"
#include "trace/recorder.h"

typedef enum origin {
  ORIGIN_INPUT,
  ORIGIN_RESULT,
  ORIGIN_ELEMENT,
  ORIGIN_MADE,
  ORIGIN_CONSTANT
} origin;

typedef struct item { /* a value of the trace; its number is its place */
  origin from;
  bool is_used;     /* ELEMENT: somebody asked for it */
  uint32_t a,
    /* INPUT: number; RESULT: step, number; ELEMENT: item of the container, number; MADE: range of
     * `parts` */
    b;
  rush_value value; /* retained */
} item;

typedef struct step {
  const op *op;       /* or */
  function *function; /* its program is retained */
  uint32_t inputs, n_inputs; /* range of `parts` */
  uint32_t outputs,
    /* items in a row, containers' elements between: outputs[i] stand in `parts` behind the
     * inputs */
    n_outputs;
  uint32_t end; /* of the items that it made */
} step;

struct trace {
  context *ctx; /* retained */
  call_hook hook;
  bool is_on, failed;
  item *items;
  uint32_t *parts;
  step *steps;
  const char **names;
  uint32_t n_items, cap_items, n_parts, cap_parts, n_steps, cap_steps, n_inputs;
  /* n_slots, a power of two: item + 1 by the address of its value; the newest one is found */
  uint32_t *slots;
  uint32_t n_slots, n_taken;
};

#define NOTHING UINT32_MAX

/* -- Growing ----------------------------------------------------------------------------------- */

static void *room(trace *t, void *list, uint32_t n, uint32_t *cap, size_t item_bytes)
{
  if (n < *cap)
    return list;
  uint32_t more = *cap ? *cap * 2 : 64;
  void *grown = mem_realloc(t->ctx, list, *cap * item_bytes, more * item_bytes);
  if (!grown) {
    t->failed = true;
    return list;
  }
  *cap = more;
  return grown;
}

static uint32_t add_item(trace *t, origin from, uint32_t a, uint32_t b, rush_value v)
{
  t->items = room(t, t->items, t->n_items, &t->cap_items, sizeof *t->items);
  if (t->n_items == t->cap_items)
    return NOTHING;
  t->items[t->n_items] = (item){from, false, a, b, value_retain(v)};
  return t->n_items++;
}

static void add_part(trace *t, uint32_t part)
{
  t->parts = room(t, t->parts, t->n_parts, &t->cap_parts, sizeof *t->parts);
  if (t->n_parts < t->cap_parts)
    t->parts[t->n_parts++] = part;
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

static uint32_t *address_slot(trace *t, const void *address)
{
  uint32_t i = (uint32_t)(((uintptr_t)address >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 32);

  for (;; i++) {
    uint32_t *slot = &t->slots[i & (t->n_slots - 1)];
    if (!*slot || t->items[*slot - 1].value.as.heap == address)
      return slot;
  }
}

static bool grow_slots(trace *t)
{
  uint32_t n_old = t->n_slots, *old = t->slots;
  uint32_t *slots = mem_alloc_zero(t->ctx, (n_old ? 2 * n_old : 256) * sizeof *slots);

  if (!slots)
    return false;
  t->slots = slots;
  t->n_slots = n_old ? 2 * n_old : 256;
  for (uint32_t i = 0; i < n_old; i++)
    if (old[i])
      *address_slot(t, t->items[old[i] - 1].value.as.heap) = old[i];
  mem_free(t->ctx, old, n_old * sizeof *old);
  return true;
}

static void name_item(trace *t, uint32_t id)
{
  if (id == NOTHING || !has_identity(t->items[id].value))
    return;
  if (2 * t->n_taken >= t->n_slots && !grow_slots(t)) {
    t->failed = true;
    return;
  }
  uint32_t *slot = address_slot(t, t->items[id].value.as.heap);
  t->n_taken += *slot == 0;
  *slot = id + 1;
}

/* Item i of a container; false behind the last. */
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

/* The item's value, and what is in it, are found from now on. */
static void bind(trace *t, uint32_t id)
{
  rush_value element;

  name_item(t, id);
  if (id == NOTHING)
    return;
  for (size_t i = 0; element_at(t->items[id].value, i, &element) && !t->failed; i++)
    if (has_identity(element) && !is_deleted(t->items[id].value, i))
      bind(t, add_item(t, ORIGIN_ELEMENT, id, (uint32_t)i, element));
}

static uint32_t use(trace *t, uint32_t id)
{
  for (uint32_t i = id; i != NOTHING && !t->items[i].is_used;
       i = t->items[i].from == ORIGIN_ELEMENT ? t->items[i].a : NOTHING)
    t->items[i].is_used = true;
  return id;
}

/* The item that v is; a new one for what nobody gave. */
static uint32_t find_traced(trace *t, rush_value v)
{
  rush_value element;

  if (v.aux && v.aux <= t->n_items && !has_identity(v))
    return use(t, v.aux - 1);
  if (has_identity(v) && t->n_slots && *address_slot(t, v.as.heap))
    return use(t, *address_slot(t, v.as.heap) - 1);
  if (v.tag != RUSH_TAG_LIST && v.tag != RUSH_TAG_TUPLE) {
    uint32_t id = add_item(t, ORIGIN_CONSTANT, 0, 0, v);
    if (v.tag != RUSH_TAG_DICT)
      name_item(t, id);
    return id;
  }
  uint32_t made[64], *ids = made;
  size_t n = v.tag == RUSH_TAG_LIST ? v.as.list->n : v.as.tuple->n;
  if (n > COUNT_OF(made) && !(ids = mem_alloc(t->ctx, n * sizeof *ids))) {
    t->failed = true;
    return NOTHING;
  }
  for (size_t i = 0; element_at(v, i, &element); i++)
    ids[i] = find_traced(t, element);
  uint32_t first = t->n_parts;
  for (size_t i = 0; i < n; i++)
    add_part(t, ids[i]);
  if (ids != made)
    mem_free(t->ctx, ids, n * sizeof *ids);
  return add_item(t, ORIGIN_MADE, first, (uint32_t)n, v); /* not found again: it may change */
}

/* -- Steps ------------------------------------------------------------------------------------- */

static void record(trace *t, const op *o, function *f, const rush_value *args, uint32_t n_args,
                   rush_value *results, uint32_t n_results)
{
  uint32_t few[64], *ids = few;

  t->steps = room(t, t->steps, t->n_steps, &t->cap_steps, sizeof *t->steps);
  if (n_args > COUNT_OF(few))
    ids = mem_alloc(t->ctx, n_args * sizeof *ids);
  if (t->failed || t->n_steps == t->cap_steps || !ids) {
    t->failed = true;
    return;
  }
  for (uint32_t i = 0; i < n_args; i++)
    ids[i] = find_traced(t, args[i]);
  step *made = &t->steps[t->n_steps];
  if (f)
    program_retain(f->program);
  *made = (step){
    .op = o, .function = f, .inputs = t->n_parts, .n_inputs = n_args, .n_outputs = n_results};
  for (uint32_t i = 0; i < n_args; i++)
    add_part(t, ids[i]);
  if (ids != few)
    mem_free(t->ctx, ids, n_args * sizeof *ids);
  made->outputs = t->n_items;
  for (uint32_t i = 0; i < n_results; i++) { /* first all results, so that they stand in a row */
    uint32_t id = add_item(t, ORIGIN_RESULT, t->n_steps, i, results[i]);
    if (id != NOTHING && !has_identity(results[i]) && results[i].tag <= RUSH_TAG_FLOAT &&
        results[i].tag != RUSH_TAG_TENSOR)
      results[i].aux = id + 1;
  }
  for (uint32_t i = 0; i < n_results && !t->failed; i++)
    bind(t, made->outputs + i);
  t->steps[t->n_steps++].end = t->n_items;
}

static void on_op(void *user, rush_call *c)
{
  record(user, c->op, NULL, c->args, c->n_args, c->results, c->n_results);
}

static void on_function(void *user, void *f, const rush_value *args, uint32_t n_args,
                        rush_value *result)
{
  record(user, NULL, f, args, n_args, result, 1);
}

rush_status trace_begin(context *c, const rush_value *inputs, const char *const *names, uint32_t n,
                        trace **out, rush_error *err)
{
  trace *t = mem_alloc_zero(c, sizeof *t);

  if (!t)
    return error_nomem(err);
  t->ctx = context_retain(c);
  t->n_inputs = n;
  t->names = mem_alloc_zero(c, n * sizeof *t->names);
  for (uint32_t i = 0; i < n; i++) {
    const char *name = names && names[i] ? names[i] : "input";
    char *copy = t->names ? mem_alloc(c, strlen(name) + 1) : NULL;
    if (copy)
      t->names[i] = memcpy(copy, name, strlen(name) + 1);
    t->failed |= !copy;
    add_item(t, ORIGIN_INPUT, i, 0, inputs[i]);
  }
  for (uint32_t i = 0; i < n && !t->failed; i++)
    bind(t, i);
  t->hook = (call_hook){.user = t, .op = on_op, .function = on_function};
  if (t->failed || profile_add_hook(c, &t->hook, NULL) != RUSH_OK) {
    trace_drop(t);
    return error_nomem(err);
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
  for (uint32_t i = 0; i < t->n_steps; i++)
    if (t->steps[i].function)
      program_release(t->steps[i].function->program);
  for (uint32_t i = 0; i < t->n_inputs && t->names; i++)
    mem_free(c, (char *)(uintptr_t)t->names[i], t->names[i] ? strlen(t->names[i]) + 1 : 0);
  mem_free(c, t->names, t->n_inputs * sizeof *t->names);
  mem_free(c, t->items, t->cap_items * sizeof *t->items);
  mem_free(c, t->parts, t->cap_parts * sizeof *t->parts);
  mem_free(c, t->steps, t->cap_steps * sizeof *t->steps);
  mem_free(c, t->slots, t->n_slots * sizeof *t->slots);
  mem_free(c, t, sizeof *t);
  context_release(c);
}

/* -- The graph --------------------------------------------------------------------------------- */

typedef struct builder {
  session *s;
  trace *t;
  program *p;
  ir_graph *g;
  type *cls;
  ir_value **of; /* by item */
  const rush_value *outputs;
  uint32_t n_outputs;
  rush_value *held; /* objects whose methods were called: the class's attributes */
  uint32_t n_held;
  rush_value object;
} builder;

static const type *value_type(builder *b, rush_value v)
{
  const type *t = type_of_value(&b->p->types, v);
  if (!t)
    session_check(b->s, call_nomem(b->s->cx));
  return t;
}

static ir_value *put_node(builder *b, ir_node *n, const type *t)
{
  ir_node_append(n, b->g->block);
  return n->n_outputs ? n->outputs[0] : ir_node_add_output(b->s, n, t);
}

static ir_value *constant(builder *b, rush_value v)
{
  v.aux = 0;
  return put_node(b, ir_constant_new(b->s, b->g, v, NULL), NULL);
}

/* Programs whose functions are called live as long as ours. */
typedef struct called {
  program *program;
  struct called *next;
} called;

static void release_called(program *p)
{
  for (called *c = p->front; c; c = c->next)
    program_release(c->program);
}

static void hold_program(builder *b, program *p)
{
  for (called *c = b->p->front; c; c = c->next)
    if (c->program == p)
      return;
  called *c = session_alloc_in(b->s, &b->p->mem, sizeof *c);
  *c = (called){program_retain(p), b->p->front};
  b->p->front = c;
}

/* A module or object of a program: an attribute of ours. */
static ir_value *held_object(builder *b, rush_value v)
{
  uint32_t i = 0;

  while (i < b->n_held && b->held[i].as.object != v.as.object)
    i++;
  const char *name = session_printf(b->s, "m%u", i);
  if (i == b->n_held) {
    b->held[b->n_held++] = v;
    class_add_attr(b->s, b->cls, name, v.as.object->type);
    hold_program(b, v.as.object->type->cls->program);
  }
  ir_value *self = ir_block_input(b->g->block, 0);
  ir_node *n = ir_node_new(b->s, b->g, IR_GET_ATTR, &self, 1);
  ir_attr_set_string(b->s, n, "name", name);
  return put_node(b, n, v.as.object->type);
}

static ir_value *value_of(builder *b, uint32_t id);

static ir_value *made(builder *b, const item *it)
{
  ir_value **in = session_array(b->s, ir_value *, it->b + 1);

  for (uint32_t i = 0; i < it->b; i++)
    in[i] = value_of(b, b->t->parts[it->a + i]);
  ir_kind kind = it->value.tag == RUSH_TAG_LIST ? IR_LIST_CONSTRUCT : IR_TUPLE_CONSTRUCT;
  return put_node(b, ir_node_new(b->s, b->g, kind, in, it->b), value_type(b, it->value));
}

static ir_value *traced_element(builder *b, const item *it)
{
  const item *of = &b->t->items[it->a];
  bool is_tuple = of->value.tag == RUSH_TAG_TUPLE, is_dict = of->value.tag == RUSH_TAG_DICT;
  ir_value *in[2] = {value_of(b, it->a), NULL};

  in[1] = constant(b, is_dict ? of->value.as.dict->entries[it->b].key : value_int(it->b));
  if (is_tuple)
    return put_node(b, ir_node_new(b->s, b->g, IR_TUPLE_INDEX, in, 2), value_type(b, it->value));
  const op *o =
    op_find(b->s->cx->ctx, STR("aten::__getitem__"), is_dict ? STR("Dict_str") : STR("t"));
  if (!o)
    session_check(b->s, call_nomem(b->s->cx));
  ir_node *n = ir_node_new_op(b->s, b->g, o, in, 2);
  ir_value *v = put_node(b, n, NULL);
  v->type = value_type(b, it->value);
  return v;
}

static ir_value *value_of(builder *b, uint32_t id)
{
  const item *it = &b->t->items[id];

  session_enter(b->s);
  if (!b->of[id]) {
    if (it->from == ORIGIN_MADE)
      b->of[id] = made(b, it);
    else if (it->from == ORIGIN_ELEMENT)
      b->of[id] = traced_element(b, it);
    else
      b->of[id] =
        it->value.tag == RUSH_TAG_OBJECT ? held_object(b, it->value) : constant(b, it->value);
  }
  session_leave(b->s);
  return b->of[id];
}

/* Elements are taken out where their container comes to be: it may change later. */
static void take_out(builder *b, uint32_t from, uint32_t end)
{
  for (uint32_t i = from; i < end; i++)
    if (b->t->items[i].from == ORIGIN_ELEMENT && b->t->items[i].is_used)
      value_of(b, i);
}

static void add_step(builder *b, const step *st)
{
  const trace *t = b->t;
  ir_value **in = session_array(b->s, ir_value *, st->n_inputs + 1);
  ir_node *n;

  for (uint32_t i = 0; i < st->n_inputs; i++)
    in[i] = value_of(b, t->parts[st->inputs + i]);
  if (st->op) {
    n = ir_node_new_op(b->s, b->g, st->op, in, st->n_inputs);
  } else {
    hold_program(b, st->function->program);
    n = ir_node_new(b->s, b->g, st->function->self ? IR_CALL_METHOD : IR_CALL_FUNCTION, in,
                    st->n_inputs);
    ir_attr_set_string(b->s, n, "name", st->function->name);
    n->function = st->function;
    ir_node_add_output(b->s, n, value_type(b, t->items[st->outputs].value));
  }
  ir_node_append(n, b->g->block);
  for (uint32_t i = 0; i < st->n_outputs && i < n->n_outputs; i++) {
    const item *it = &t->items[st->outputs + i];
    if (it->value.tag != RUSH_TAG_NONE && it->value.tag != RUSH_TAG_TENSOR)
      n->outputs[i]->type = value_type(b, it->value);
    b->of[st->outputs + i] = n->outputs[i];
  }
  take_out(b, st->outputs, st->end);
}

static void free_graph(void *g) { ir_graph_free(g); }

static void build(session *s, void *arg)
{
  builder *b = arg;
  trace *t = b->t;
  rush_object *o;

  b->s = s;
  b->p = program_new(
    s, s->cx->ctx); /* released by the border when the rest fails: see trace_end_steal */
  b->p->front_free = release_called;
  b->cls = program_add_class(s, b->p, TYPE_CLASS, "__torch__.Traced");
  b->cls->cls->is_module = true;
  b->g = ir_graph_new(s, &b->p->types);
  session_defer(s, free_graph, b->g);
  b->of = session_array(s, ir_value *, t->n_items + 1);
  b->held = session_array(s, rush_value, t->n_items + 1);
  ir_block_add_input(s, b->g->block, b->cls, "self");
  for (uint32_t i = 0; i < t->n_inputs; i++)
    b->of[i] = ir_block_add_input(s, b->g->block, value_type(b, t->items[i].value), t->names[i]);
  take_out(b, 0, t->n_steps ? t->steps[0].outputs : t->n_items);
  for (uint32_t i = 0; i < t->n_steps; i++)
    add_step(b, &t->steps[i]);
  ir_value **out = session_array(s, ir_value *, b->n_outputs + 1);
  const type **types = session_array(s, const type *, b->n_outputs + 1);
  for (uint32_t i = 0; i < b->n_outputs; i++) {
    out[i] = value_of(b, t->parts[t->n_parts - b->n_outputs + i]);
    types[i] = out[i]->type;
  }
  if (b->n_outputs != 1) {
    const type *tuple = type_tuple(&b->p->types, types, b->n_outputs);
    if (!tuple)
      session_check(s, call_nomem(s->cx));
    out[0] = put_node(b, ir_node_new(s, b->g, IR_TUPLE_CONSTRUCT, out, b->n_outputs), tuple);
  }
  ir_block_add_output(s, b->g->block, out[0]);
  pass_run_by_name(s, b->g, "dce");
  ir_verify(s, b->g, "trace");
  trace_function_steal(s, b->p, b->cls, "forward", session_keep(s, b->g));
  session_check(s, object_new(s->cx, b->cls, b->n_held, &o));
  b->object = value_heap_steal(RUSH_TAG_OBJECT, o);
  for (uint32_t i = 0; i < b->n_held; i++)
    o->slots[i] = value_retain(b->held[i]);
}

rush_status trace_end_steal(call_ctx *cx, trace *t, const rush_value *outputs, uint32_t n,
                            program **out, rush_value *object)
{
  builder b = {.t = t, .outputs = outputs, .n_outputs = n, .object = value_none()};

  stop(t);
  uint32_t *ids = mem_alloc(cx->ctx, n * sizeof *ids);
  for (uint32_t i = 0; i < n && ids; i++)
    ids[i] = find_traced(t, outputs[i]);
  for (uint32_t i = 0; i < n && ids; i++) /* the last parts */
    add_part(t, ids[i]);
  bool failed = !ids || t->failed;
  mem_free(cx->ctx, ids, n * sizeof *ids);
  rush_status st = failed ? call_nomem(cx) : session_run(cx, build, &b);
  if (st == RUSH_OK) {
    *out = b.p;
    *object = b.object;
  } else {
    program_release(b.p);
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

  session_defer(s, free_graph, g);
  set_constants(s, g, constants, n);
  if (ir_block_n_outputs(g->block) != 1 ||
      (self && (!ir_block_n_inputs(g->block) || ir_block_input(g->block, 0)->type != self)))
    session_fail(s, NULL, "the graph of '%s' needs one output%s%s", name,
                 self ? ", and a first input of type " : "", self ? self->name : "");
  return trace_function_steal(s, p, self, name, session_keep(s, g));
}
