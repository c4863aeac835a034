/* trace/function_graph.c -- makes a function of each frame of a trace (finish_int.h).
 *
 * Callees come first; a frame's nodes are copied into a graph of its own, in their order, between
 * loads of attributes and calls of other frames.  Numbers and names follow PyTorch's
 * fixup_trace_scopes.cpp, where blocks are copied to graphs: a copied value keeps its name and
 * takes its position's number, and the results of calls are made afterwards and take the numbers
 * after that.  Cost: O(nodes + arguments of frames). */
#include "base/grow.h"
#include "ir/facts.h"
#include "trace/finish_int.h"

/* -- Functions: values ------------------------------------------------------------------------- */

static bool is_root(const finisher *w) { return w->f->frame == 0; }

static void map(finisher *w, const ir_value *flat, ir_value *v)
{
  w->now[flat->id] = v;
  w->stamp[flat->id] = w->f->frame + 1;
}

static bool is_mapped(const finisher *w, const ir_value *flat)
{
  return w->stamp[flat->id] == w->f->frame + 1;
}

static void take(finisher *w, uint32_t number)
{
  while (number >= w->cap_taken)
    GROW(w->s, w->is_taken, w->cap_taken, w->cap_taken, 256);
  w->is_taken[number] = true;
}

static bool is_taken(const finisher *w, uint32_t number)
{
  return number < w->cap_taken && w->is_taken[number];
}

/* Number a value that only exists once calls are made. */
static void take_last(finisher *w, ir_value *v) { v->id = w->last++; }

/* Set the name or number of this function's value to those that copying the flat one would have. */
static void define_flat(finisher *w, const ir_value *flat, bool is_named)
{
  ir_value *v = w->now[flat->id];
  const char *name = is_named ? flat->name : NULL;
  uint32_t number =
    is_root(w) && !finish_info(w, flat)->attribute ? finish_info(w, flat)->number : w->n_made;

  w->n_made++;
  if (!name && is_taken(w, number) && flat->name)
    name = session_printf(w->s, "%s.%u", flat->name, ++w->last);
  if (name) {
    while (ir_graph_named(w->g, str_of(name)))
      name = session_printf(w->s, "%s.%u", flat->name, ++w->last);
    ir_value_set_name(w->s, v, name);
    return;
  }
  while (is_taken(w, number))
    number = ++w->last;
  take(w, number);
  v->id = number;
}

/* Define an input; in PyTorch a method's argument gets its number after the node that uses it
 * first. */
static void define_input(finisher *w, const ir_value *flat)
{
  if (!w->is_left[flat->id])
    return;
  w->is_left[flat->id] = false;
  define_flat(w, flat,
         finish_info(w, flat)->attribute != NULL ||
           finish_is_inside(w, w->f->frame, finish_info(w, flat)->frame));
}

static ir_value *use(finisher *w, const ir_value *flat)
{
  const attribute *a = finish_info(w, flat)->attribute;

  if (is_mapped(w, flat)) {
    define_input(w, flat);
    return w->now[flat->id];
  }
  ASSERT(a, "a value of another frame that was not shared");
  const ir_value *holder = a == w->r->frames[w->f->frame].module
                             ? w->scopes[w->f->frame].self
                             : table_get(&w->seen, finish_key(w->s, SET_LOADS, w->f->frame, flat));
  return w->now[holder->id];
}

/* -- Functions: nodes -------------------------------------------------------------------------- */

static void append(finisher *w, ir_node *n)
{
  ir_node_append(n, w->g->block);
  w->n_nodes++;
}

static void copy_node(finisher *w, const ir_node *from)
{
  static ir_value *const unset[16] = {NULL};
  ir_node *n = ir_node_new(w->s, w->g, from->kind,
                           from->n_inputs <= COUNT_OF(unset)
                             ? unset
                             : session_array(w->s, ir_value *, from->n_inputs),
                           from->n_inputs);

  n->op = from->op;
  n->function = from->function;
  n->range = from->range;
  ir_node_copy_attrs(w->s, n, from);
  if (w->path)
    ir_node_set_scope(w->s, n, w->path, strlen(w->path));
  if (n->kind == IR_CALL_FUNCTION) { /* as in PyTorch, the function is a value before it */
    uint32_t number = is_root(w) ? finish_info(w, from->outputs[0])->number - 1 : w->n_made;
    w->n_made++;
    take(w, number);
    ir_attr_set_int(w->s, n, "_fn", number);
    ir_attr_set_int(w->s, n, "_at", w->n_nodes);
  }
  for (uint32_t i = 0; i < from->n_outputs; i++) {
    map(w, from->outputs[i], ir_node_add_output(w->s, n, from->outputs[i]->type));
    define_flat(w, from->outputs[i], true);
  }
  for (uint32_t i = 0; i < from->n_inputs; i++)
    ir_node_set_input(n, i, use(w, ir_node_input(from, i)));
  append(w, n);
}

static void add_call(finisher *w, ir_node *n, uint32_t callee)
{
  GROW_IN(w->s, &w->r->g->mem, w->f->calls, w->f->n_calls, w->cap_calls, 4);
  w->f->calls[w->f->n_calls++] = (traced_call){n, callee};
  ir_attr_set_string(w->s, n, "name", w->scopes[callee].name);
  append(w, n);
}

static void use_inputs(finisher *w, ir_node *n, const scope *called)
{
  for (uint32_t i = 0; i < called->inputs.n; i++)
    ir_node_add_input(w->s, n, use(w, called->inputs.v[i]));
}

static void fork_task(finisher *w, uint32_t callee)
{
  const scope *called = &w->scopes[callee];
  ir_node *n = ir_node_new(w->s, w->g, IR_FORK, NULL, 0);

  use_inputs(w, n, called);
  w->n_made++;
  map(w, called->future, ir_node_add_output(w->s, n, called->future->type));
  take_last(w, n->outputs[0]);
  add_call(w, n, callee);
}

static const type *plain(finisher *w, const type *t)
{
  return ir_type_unshaped(w->s, &w->r->p->types, t);
}

/* Return a tuple type without facts about tensors: for calls with several results. */
static const type *plain_tuple(finisher *w, const values *v)
{
  const type **elems = session_array(w->s, const type *, v->n + 1);

  for (uint32_t i = 0; i < v->n; i++)
    elems[i] = plain(w, v->v[i]->type);
  const type *t = type_tuple(&w->r->p->types, elems, v->n);
  if (!t)
    session_check(w->s, call_nomem(w->s->cx));
  return t;
}

static void call_frame(finisher *w, uint32_t callee)
{
  const scope *called = &w->scopes[callee];
  const values *out = &called->outputs;
  ir_node *n = ir_node_new(w->s, w->g, IR_CALL_METHOD, NULL, 0);

  w->n_made += out->n == 1;
  ir_node_add_input(w->s, n, use(w, w->r->frames[callee].module->value));
  use_inputs(w, n, called);
  const type *t = out->n == 1   ? plain(w, out->v[0]->type)
                  : out->n == 0 ? type_simple(TYPE_NONE)
                                : plain_tuple(w, out);
  ir_value *result = ir_node_add_output(w->s, n, t);
  take_last(w, result);
  add_call(w, n, callee);
  if (out->n == 1)
    map(w, out->v[0], result);
  if (out->n < 2)
    return;
  ir_node *parts = ir_node_new(w->s, w->g, IR_TUPLE_UNPACK, &result, 1);
  for (uint32_t i = 0; i < out->n; i++) {
    map(w, out->v[i], ir_node_add_output(w->s, parts, out->v[i]->type));
    define_flat(w, out->v[i], true);
  }
  append(w, parts);
}

static ir_value *result_of(finisher *w, const values *outputs)
{
  if (outputs->n == 1)
    return use(w, outputs->v[0]);
  uint32_t number = w->last++;
  ir_node *n = outputs->n == 0 ? ir_constant_new(w->s, w->g, value_none(), NULL)
                               : ir_node_new(w->s, w->g, IR_TUPLE_CONSTRUCT, NULL, 0);
  for (uint32_t i = 0; i < outputs->n; i++)
    ir_node_add_input(w->s, n, use(w, outputs->v[i]));
  if (outputs->n)
    ir_node_add_output(w->s, n, plain_tuple(w, outputs));
  append(w, n);
  n->outputs[0]->id = number;
  return n->outputs[0];
}

/* -- Functions --------------------------------------------------------------------------------- */

/* Return "__module.a/__module.a.b" for "a.b". */
static const char *scope_text(session *s, const char *path)
{
  text_buf *t = session_text(s);

  for (const char *end = path; *path; end += *end != '\0') {
    end += strcspn(end, ".");
    text_printf(t, "%s__module.%.*s", t->len ? "/" : "", (int)(end - path), path);
    if (!*end)
      break;
  }
  return t->len ? session_take_text(s, t) : NULL;
}

/* Count the values before the results of calls. */
static uint32_t count_values(const finisher *w, const values *inputs)
{
  const scope *sc = &w->scopes[w->f->frame];
  uint32_t n = !w->r->frames[w->f->frame].is_task + inputs->n + sc->n_loads;

  for (uint32_t i = 0; i < sc->n_items; i++) {
    const ir_node *node = sc->items[i].node;
    n += node ? node->n_outputs : w->scopes[sc->items[i].frame].outputs.n;
  }
  return n;
}

/* Number named values: their numbers are not printed and must not collide with printed ones. */
static void number_named(ir_graph *g)
{
  uint32_t next = g->next_id;

  for (ir_node *n = g->block->param;;
       n = n == g->block->param ? ir_block_first(g->block) : n->next) {
    for (uint32_t i = 0; i < n->n_outputs; i++)
      if (!n->outputs[i]->name && n->outputs[i]->id >= next)
        next = n->outputs[i]->id + 1;
    const ir_attr *fn = n->kind == IR_CALL_FUNCTION ? ir_attr_find(n, "_fn") : NULL;
    if (fn && fn->as.i >= next)
      next = (uint32_t)fn->as.i + 1;
    if (n == g->block->ret)
      break;
  }
  for (ir_node *n = g->block->param;;
       n = n == g->block->param ? ir_block_first(g->block) : n->next) {
    for (uint32_t i = 0; i < n->n_outputs; i++)
      if (n->outputs[i]->name)
        n->outputs[i]->id = next++;
    if (n == g->block->ret)
      break;
  }
  g->next_id = next;
}

static void add_inputs(finisher *w, const values *inputs)
{
  const frame *fr = &w->r->frames[w->f->frame];
  ir_block *b = w->g->block;
  uint32_t *n_calls = fr->module ? table_get(&w->n_calls, str_of(fr->module->path)) : NULL;

  if (w->f->self) {
    const ir_value *self = w->scopes[w->f->frame].self;
    map(w, self, ir_block_add_input(w->s, b, self->type, NULL));
    define_flat(w, self, true);
  }
  for (uint32_t i = 0; i < inputs->n; i++) {
    map(w, inputs->v[i], ir_block_add_input(w->s, b, inputs->v[i]->type, NULL));
    w->is_left[inputs->v[i]->id] = true;
  }
  if (!w->f->self || is_root(w) || (n_calls && *n_calls > 1))
    for (uint32_t i = 0; i < inputs->n; i++)
      define_input(w, inputs->v[i]);
}

static void add_loads(finisher *w)
{
  for (const load *l = w->scopes[w->f->frame].loads; l; l = l->next) {
    ir_value *owner = w->now[l->owner->id];
    ir_node *n = ir_node_new(w->s, w->g, IR_GET_ATTR, &owner, 1);
    ir_attr_set_string(w->s, n, "name", l->name);
    map(w, l->holder, ir_node_add_output(w->s, n, l->holder->type));
    define_flat(w, l->holder, true);
    append(w, n);
  }
}

static void begin_function(finisher *w, uint32_t f, const values *inputs)
{
  const frame *fr = &w->r->frames[f];

  w->f = &w->r->functions[w->r->n_functions];
  *w->f = (traced_function){.frame = f,
                            .self = fr->module && !fr->is_task ? fr->module->value->type : NULL,
                            .name = w->scopes[f].name};
  w->f->graph = w->g = ir_graph_new(w->s, &w->r->p->types);
  w->r->n_functions++;
  w->path = fr->module ? scope_text(w->s, fr->module->path) : NULL;
  w->n_made = w->n_nodes = w->cap_calls = 0;
  if (w->cap_taken)
    memset(w->is_taken, 0, w->cap_taken * sizeof *w->is_taken);
  w->last = is_root(w) ? w->r->n_numbers : count_values(w, inputs);
}

void finish_make_function(finisher *w, uint32_t f, const values *inputs, const values *outputs)
{
  const scope *sc = &w->scopes[f];

  session_enter(w->s);
  for (uint32_t i = 0; i < sc->n_items; i++)
    if (!sc->items[i].node) {
      const scope *inner = &w->scopes[sc->items[i].frame];
      finish_make_function(w, sc->items[i].frame, &inner->inputs, &inner->outputs);
    }
  begin_function(w, f, inputs);
  add_inputs(w, inputs);
  add_loads(w);
  for (uint32_t i = 0; i < sc->n_items; i++) {
    session_poll(w->s);
    if (sc->items[i].node)
      copy_node(w, sc->items[i].node);
    else if (w->r->frames[sc->items[i].frame].is_task)
      fork_task(w, sc->items[i].frame);
    else
      call_frame(w, sc->items[i].frame);
  }
  ir_block_add_output(w->s, w->g->block, result_of(w, outputs));
  for (uint32_t i = 0; i < inputs->n; i++)
    define_input(w, inputs->v[i]);
  number_named(w->g);
  session_leave(w->s);
}
