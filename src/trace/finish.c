/* trace/finish.c -- cuts a finished trace into functions (recorder.h).
 *
 * Steps, each a walk over the flat graph or the frames: dead code is removed; nodes become items of
 * their frames; uses across frames become arguments and results of the calls between (lambda
 * lifting); uses of attributes become loads from `self` in the frame whose module has them; each
 * frame is copied into a graph of its own, callees first.  Numbers and names follow PyTorch's
 * fixup_trace_scopes.cpp, where blocks are copied to graphs: a copied value keeps its name and
 * takes its position's number, and the results of calls are made afterwards and take the numbers
 * after that. */
#include "base/grow.h"
#include "ir/facts.h"
#include "passes/passes.h"
#include "script/front/host.h"
#include "trace/recorder_int.h"

typedef struct item { /* of a frame: a node, or a call of another frame */
  ir_node *node;
  uint32_t frame;
} item;

typedef struct values { /* an ordered set */
  ir_value **v;
  uint32_t n, cap;
} values;

/* A read of `attribute` of `owner`; both represent values of the frame's function in the flat
 * graph. */
typedef struct load {
  ir_value *holder, *owner;
  const char *name;
  struct load *next;
} load;

typedef struct scope { /* data of a frame while finishing */
  bool is_linked; /* it is an item of its parent */
  item *items;
  values inputs, outputs;
  ir_value *future; /* of a task */
  ir_value *self;   /* represents the module inside the function */
  load *loads;      /* in the order of the text */
  uint32_t n_items, cap_items, n_loads;
  const char *name; /* of the function: "forward1" */
} scope;

typedef struct finisher {
  session *s;
  recorder *r;
  scope *scopes; /* by frame */
  table seen;    /* (kind, frame, value): members of sets, holders of attributes */
  table n_calls; /* by path: a row of one */
  /* The function that is being made: */
  traced_function *f;
  ir_graph *g;
  ir_value **now;    /* by flat id: its value here; valid if `stamp` matches */
  uint32_t *stamp;
  bool *is_left;     /* by flat id: an argument that has no number yet */
  bool *is_taken;    /* numbers */
  uint32_t cap_taken, cap_calls;
  uint32_t n_made;   /* values so far */
  uint32_t last;     /* the next number for values that do not get one by copying */
  uint32_t n_nodes;
  const char *path;  /* scope of its nodes, or NULL */
} finisher;

/* -- Sets -------------------------------------------------------------------------------------- */

typedef struct member_key {
  uint32_t set, frame;
  const void *value;
} member_key;
enum { SET_INPUTS, SET_OUTPUTS, SET_LOADS };

static str key_of(session *s, uint32_t set, uint32_t frame, const void *value)
{
  member_key *k = session_new(s, member_key);

  *k = (member_key){set, frame, value};
  return (str){(const char *)k, sizeof *k};
}

static void add(finisher *w, values *set, uint32_t kind, uint32_t frame, ir_value *v)
{
  str key = key_of(w->s, kind, frame, v);

  if (table_get(&w->seen, key))
    return;
  session_table_put(w->s, &w->seen, key, v);
  GROW(w->s, set->v, set->n, set->cap, 4);
  set->v[set->n++] = v;
}

static value_info *info(const finisher *w, const ir_value *v) { return &w->r->values[v->id]; }

/* -- Frames ------------------------------------------------------------------------------------ */

static void add_item(finisher *w, uint32_t frame, item it)
{
  scope *sc = &w->scopes[frame];

  GROW(w->s, sc->items, sc->n_items, sc->cap_items, 8);
  sc->items[sc->n_items++] = it;
}

static void link_frame(finisher *w, uint32_t f)
{
  if (f == 0 || w->scopes[f].is_linked)
    return;
  session_enter(w->s);
  w->scopes[f].is_linked = true;
  link_frame(w, w->r->frames[f].parent);
  add_item(w, w->r->frames[f].parent, (item){NULL, f});
  session_leave(w->s);
}

static bool is_attribute(const finisher *w, const ir_node *n)
{
  return n->kind == IR_GET_ATTR && info(w, n->outputs[0])->attribute;
}

/* Collect items; frames without nodes are dropped, except tasks. */
static void collect_items(finisher *w)
{
  ir_block *b = w->r->g->block;

  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    session_poll(w->s);
    if (is_attribute(w, n))
      continue;
    const ir_attr *task = n->kind == IR_FORK ? ir_attr_find(n, "_frame") : NULL;
    if (task) {
      scope *sc = &w->scopes[task->as.i];
      link_frame(w, (uint32_t)task->as.i);
      sc->future = n->outputs[0];
      add(w, &sc->outputs, SET_OUTPUTS, (uint32_t)task->as.i, ir_node_input(n, 0));
    } else {
      link_frame(w, w->r->frame_of[n->origin]);
      add_item(w, w->r->frame_of[n->origin], (item){n, 0});
    }
  }
}

/* -- Arguments and results --------------------------------------------------------------------- */

static bool is_inside(const finisher *w, uint32_t frame, uint32_t outer)
{
  while (frame != outer && frame != 0)
    frame = w->r->frames[frame].parent;
  return frame == outer;
}

/* True if the attribute is the frame's module, or inside it. */
static bool owns(const finisher *w, uint32_t f, const attribute *a)
{
  const frame *fr = &w->r->frames[f];
  const char *path = fr->module ? fr->module->path : "";
  size_t n = strlen(path);

  return !fr->is_task &&
         (n == 0 || (strncmp(a->path, path, n) == 0 && (a->path[n] == '.' || !a->path[n])));
}

/* Make v, which frame `user` uses, an argument and a result of the calls between. */
static void share(finisher *w, ir_value *v, uint32_t user)
{
  const attribute *a = info(w, v)->attribute;

  if (a) {
    for (; !owns(w, user, a); user = w->r->frames[user].parent)
      add(w, &w->scopes[user].inputs, SET_INPUTS, user, v);
    return;
  }
  for (uint32_t source = info(w, v)->frame; source != user;)
    if (is_inside(w, user, source)) {
      add(w, &w->scopes[user].inputs, SET_INPUTS, user, v);
      user = w->r->frames[user].parent;
    } else {
      add(w, &w->scopes[source].outputs, SET_OUTPUTS, source, v);
      source = w->r->frames[source].parent;
    }
}

static void connect(finisher *w, uint32_t f)
{
  const scope *sc = &w->scopes[f];

  session_enter(w->s);
  for (uint32_t i = 0; i < sc->n_items; i++) {
    const ir_node *n = sc->items[i].node;
    uint32_t inner = sc->items[i].frame;
    if (n) {
      for (uint32_t k = 0; k < n->n_inputs; k++)
        share(w, ir_node_input(n, k), f);
      continue;
    }
    connect(w, inner);
    if (w->r->frames[inner].is_task)
      share(w, w->scopes[inner].outputs.v[0], inner);
    else
      share(w, w->r->frames[inner].module->value, f);
  }
  session_leave(w->s);
}

/* -- Names and attributes ---------------------------------------------------------------------- */

/* Make a placeholder for a value of a function. */
static ir_value *stand_in(finisher *w, const type *t)
{
  ir_value *v = ir_node_add_output(
    w->s, ir_node_new(w->s, w->r->g, IR_UNINITIALIZED, NULL, 0), t);

  recorder_enter(w->s, w->r, v, 0);
  w->r->n_numbers--;
  return v;
}

/* Return the name of a call: forward, forward1 ... of each module; fork, fork1 ... */
static const char *call_name(finisher *w, const frame *f)
{
  str key = str_of(f->is_task ? "" : f->module->path);
  const char *wanted = f->is_task ? "fork" : "forward";
  uint32_t *n = table_get(&w->n_calls, key);

  if (!n)
    session_table_put(w->s, &w->n_calls, key, n = session_new(w->s, uint32_t));
  const char *name = *n ? session_printf(w->s, "%s%u", wanted, *n) : wanted;
  ++*n;
  size_t n_bytes = strlen(name) + 1;
  return memcpy(session_alloc_in(w->s, &w->r->g->mem, n_bytes), name, n_bytes);
}

static void name_calls(finisher *w, uint32_t f)
{
  scope *sc = &w->scopes[f];
  const frame *fr = &w->r->frames[f];

  session_enter(w->s);
  if (f)
    sc->name = call_name(w, fr);
  if (fr->module && !fr->is_task) {
    sc->self = stand_in(w, fr->module->value->type);
    ir_value_set_name(w->s, sc->self, "self");
  }
  for (uint32_t i = 0; i < sc->n_items; i++)
    if (!sc->items[i].node)
      name_calls(w, sc->items[i].frame);
  session_leave(w->s);
}

/* Return the name of a value: "fc", or "_0_x" for "0-x". */
static const char *value_name(session *s, const char *name)
{
  if (recorder_is_plain_name(name))
    return name;
  char *made = session_printf(s, "_%s", name);
  char *to = made;
  for (const char *c = made; *c; c++) {
    if (((unsigned char)*c & 0xC0) == 0x80) /* the rest of a character of UTF-8 */
      continue;
    bool is_word = *c == '_' || (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ||
                   (*c >= 'A' && *c <= 'Z');
    *to++ = is_word ? *c : '_';
  }
  *to = '\0';
  return made;
}

/* Add loads of the attribute and of its owners; owners come first. */
static void load_attribute(finisher *w, uint32_t f, attribute *a)
{
  scope *sc = &w->scopes[f];
  const attribute *module = w->r->frames[f].module;
  str key = key_of(w->s, SET_LOADS, f, a->value);
  attribute *way[64];
  uint32_t n = 0;

  if (a == module || table_get(&w->seen, key))
    return;
  for (attribute *at = a; at != module; at = at->owner) {
    if (n == COUNT_OF(way))
      session_fail(w->s, NULL, "'%s' is too deep in the traced module", a->path);
    way[n++] = at;
  }
  ir_value *owner = sc->self;
  load **at = &sc->loads, *rest = sc->loads;
  while (n--) {
    load *l = session_new(w->s, load);
    *l = (load){stand_in(w, way[n]->value->type), owner, way[n]->name, NULL};
    ir_value_set_name(w->s, l->holder, value_name(w->s, way[n]->name));
    owner = l->holder;
    *at = l;
    at = &l->next;
    sc->n_loads++;
  }
  *at = rest;
  session_table_put(w->s, &w->seen, key, owner);
}

static void load_all(finisher *w, uint32_t f, ir_value *const *v, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    attribute *a = info(w, v[i])->attribute;
    if (a && owns(w, f, a))
      load_attribute(w, f, a);
  }
}

static void find_loads(finisher *w, uint32_t f, ir_value *const *outputs, uint32_t n_outputs)
{
  const scope *sc = &w->scopes[f];

  session_enter(w->s);
  for (uint32_t i = 0; i < sc->n_items; i++) {
    const ir_node *n = sc->items[i].node;
    uint32_t inner = sc->items[i].frame;
    for (uint32_t k = 0; n && k < n->n_inputs; k++)
      load_all(w, f, &n->inputs[k]->value, 1);
    if (n)
      continue;
    const scope *called = &w->scopes[inner];
    const frame *fr = &w->r->frames[inner];
    find_loads(w, inner, called->outputs.v, called->outputs.n);
    if (!fr->is_task && owns(w, f, fr->module))
      load_attribute(w, f, fr->module);
    load_all(w, f, called->inputs.v, called->inputs.n);
  }
  load_all(w, f, outputs, n_outputs);
  session_leave(w->s);
}

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

/* Give this function's value the name or number that copying the flat one would. */
static void define(finisher *w, const ir_value *flat, bool is_named)
{
  ir_value *v = w->now[flat->id];
  const char *name = is_named ? flat->name : NULL;
  uint32_t number = is_root(w) && !info(w, flat)->attribute ? info(w, flat)->number : w->n_made;

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
  define(w, flat,
         info(w, flat)->attribute != NULL || is_inside(w, w->f->frame, info(w, flat)->frame));
}

static ir_value *use(finisher *w, const ir_value *flat)
{
  const attribute *a = info(w, flat)->attribute;

  if (is_mapped(w, flat)) {
    define_input(w, flat);
    return w->now[flat->id];
  }
  ASSERT(a, "a value of another frame that was not shared");
  const ir_value *holder = a == w->r->frames[w->f->frame].module
                             ? w->scopes[w->f->frame].self
                             : table_get(&w->seen, key_of(w->s, SET_LOADS, w->f->frame, flat));
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
  ir_node *n = ir_node_new(w->s, w->g, from->kind, NULL, 0);

  n->op = from->op;
  n->function = from->function;
  n->range = from->range;
  ir_node_copy_attrs(w->s, n, from);
  if (w->path)
    ir_node_set_scope(w->s, n, w->path, strlen(w->path));
  if (n->kind == IR_CALL_FUNCTION) { /* as in PyTorch, the function is a value before it */
    uint32_t number = is_root(w) ? info(w, from->outputs[0])->number - 1 : w->n_made;
    w->n_made++;
    take(w, number);
    ir_attr_set_int(w->s, n, "_fn", number);
    ir_attr_set_int(w->s, n, "_at", w->n_nodes);
  }
  for (uint32_t i = 0; i < from->n_outputs; i++) {
    map(w, from->outputs[i], ir_node_add_output(w->s, n, from->outputs[i]->type));
    define(w, from->outputs[i], true);
  }
  for (uint32_t i = 0; i < from->n_inputs; i++)
    ir_node_add_input(w->s, n, use(w, ir_node_input(from, i)));
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
    define(w, out->v[i], true);
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
    define(w, self, true);
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
    define(w, l->holder, true);
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

static void make_function(finisher *w, uint32_t f, const values *inputs, const values *outputs)
{
  const scope *sc = &w->scopes[f];

  session_enter(w->s);
  for (uint32_t i = 0; i < sc->n_items; i++)
    if (!sc->items[i].node) {
      const scope *inner = &w->scopes[sc->items[i].frame];
      make_function(w, sc->items[i].frame, &inner->inputs, &inner->outputs);
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

/* -- The whole --------------------------------------------------------------------------------- */

/* Count numbers: by now PyTorch has made the values of all frames' modules, arguments and loads. */
static void count_numbers(finisher *w)
{
  uint32_t n = 0;

  for (uint32_t f = 0; f < w->r->n_frames; f++)
    if (!w->r->frames[f].is_task && (f == 0 || w->scopes[f].is_linked))
      n += 1 + w->scopes[f].n_loads + w->scopes[f].inputs.n;
  w->r->n_numbers += n - 1 - w->scopes[0].inputs.n;
}

static values inputs_of(finisher *w)
{
  const ir_block *b = w->r->g->block;
  uint32_t first = w->r->self != NULL, n = ir_block_n_inputs(b) - first;
  values in = {session_array(w->s, ir_value *, n + 1), n, n};

  for (uint32_t i = 0; i < n; i++)
    in.v[i] = ir_block_input(b, first + i);
  return in;
}

uint32_t recorder_finish(session *s, recorder *r, traced output)
{
  finisher *w = session_new(s, finisher);
  ir_value *out = recorder_value(s, r, output);
  const values outputs = {&out, 1, 1};

  if (r->is_finished)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "this trace is finished already");
  r->is_finished = true;
  *w = (finisher){.s = s, .r = r, .scopes = session_array(s, scope, r->n_frames)};
  session_table_init(s, &w->seen);
  session_table_init(s, &w->n_calls);
  ir_block_add_output(s, r->g->block, out);
  pass_dce(s, r->g);
  collect_items(w);
  connect(w, 0);
  share(w, out, 0);
  name_calls(w, 0);
  find_loads(w, 0, &out, 1);
  count_numbers(w);
  w->now = session_array(s, ir_value *, r->g->next_id);
  w->stamp = session_array(s, uint32_t, r->g->next_id);
  w->is_left = session_array(s, bool, r->g->next_id);
  r->functions = session_alloc_in(s, &r->g->mem, r->n_frames * sizeof *r->functions);
  values inputs = inputs_of(w);
  make_function(w, 0, &inputs, &outputs);
  return r->n_functions;
}

ir_graph *recorder_graph(session *s, const recorder *r, uint32_t i)
{
  if (i >= r->n_functions || !r->functions[i].graph)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "this trace has no graph %u", i);
  ir_graph *g = ir_graph_twin(s, r->functions[i].graph);

  session_defer(s, ir_graph_free_deferred, g);
  pass_canonicalize(s, g);
  pass_erase_shape_information(s, g);
  return session_keep(s, g);
}

/* -- Definitions ------------------------------------------------------------------------------- */

static schema *schema_of(session *s, program *p, const char *name, const ir_graph *g,
                         bool is_method)
{
  schema *sc = session_alloc_in(s, &p->mem, sizeof *sc);
  uint32_t n = ir_block_n_inputs(g->block);

  *sc = (schema){.name = name, .overload = "", .n_args = n, .n_returns = 1};
  sc->args = session_alloc_in(s, &p->mem, (n + 1) * sizeof *sc->args);
  sc->returns = session_alloc_in(s, &p->mem, sizeof *sc->returns);
  sc->returns[0] = (schema_arg){
    .name = "", .type = ir_type_unshaped(s, &p->types, ir_block_output(g->block, 0)->type)};
  for (uint32_t i = 0; i < n; i++) {
    const ir_value *v = ir_block_input(g->block, i);
    const char *given = v->name ? v->name : session_printf(s, "argument_%u", i);
    size_t n_given = strcspn(given, "."); /* x.1 is a name of the graph's */
    char *copy = session_alloc_in(s, &p->mem, n_given + 1);
    memcpy(copy, given, n_given);
    sc->args[i] = (schema_arg){.name = i == 0 && is_method ? "self" : copy,
                               .type = ir_type_unshaped(s, &p->types, v->type)};
  }
  return sc;
}

function *trace_function_steal(session *s, program *p, const type *self, const char *name,
                               ir_graph *g)
{
  session_defer(s, ir_graph_free_deferred, g);
  ir_check(s, g, name);
  pass_normalize_ops(s, g);
  function *f = self ? class_add_method(s, self, name) : program_add_function(s, p, name);
  f->schema = schema_of(s, p, f->name, g, self != NULL);
  function_set_graph_steal(f, session_keep(s, g));
  atomic_store(&f->state, FUNCTION_COMPILED);
  return f;
}

/* Return a name that no method of the class, or (for a task) no function of the program has. */
static const char *free_name(session *s, const recorder *r, const type *self, uint32_t n_tasks)
{
  const char *name = "forward";

  if (!self)
    return script_host_unique(s, r->p,
                              session_printf(s, "__torch__.__forked_function_%u", n_tasks));
  for (uint32_t k = 1; class_find_method(self, str_of(name)); k++)
    name = session_printf(s, "forward%u", k);
  return name;
}

static traced_function *function_of(const recorder *r, uint32_t frame)
{
  uint32_t i = 0;

  while (r->functions[i].frame != frame)
    i++;
  return &r->functions[i];
}

static void connect_calls(session *s, const recorder *r, const traced_function *f)
{
  for (uint32_t i = 0; i < f->n_calls; i++) {
    const traced_function *callee = function_of(r, f->calls[i].callee);
    if (callee->self)
      ir_attr_set_string(s, f->calls[i].node, "name", callee->name);
    else
      f->calls[i].node->function = callee->made;
  }
}

function *recorder_define(session *s, recorder *r, const char *name)
{
  uint32_t n_tasks = 0;

  if (!r->is_finished || !r->n_functions || !r->functions[r->n_functions - 1].graph)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                        "a trace is defined once, when it is finished");
  for (uint32_t i = 0; i < r->n_functions; i++) {
    traced_function *f = &r->functions[i];
    bool is_last = i + 1 == r->n_functions;
    f->name = !is_last ? free_name(s, r, f->self, n_tasks)
              : f->self ? name
                        : script_host_unique(s, r->p, name);
    n_tasks += !is_last && !f->self;
    connect_calls(s, r, f);
    ir_graph *g = f->graph;
    f->graph = NULL;
    f->made = trace_function_steal(s, r->p, f->self, f->name, g);
  }
  return r->functions[r->n_functions - 1].made;
}
