/* trace/finish.c -- cuts a finished trace into functions (recorder.h).
 *
 * Steps, each a walk over the flat graph or the frames: dead code is removed; nodes become items of
 * their frames; uses across frames become arguments and results of the calls between (lambda
 * lifting); uses of attributes become loads from `self` in the frame whose module has them;
 * function_graph.c then copies each frame into a graph of its own.  Rejected: moving nodes to the
 * new graphs; PyTorch copies them, and values are numbered in the order of its copies. */
#include "base/grow.h"
#include "passes/passes.h"
#include "trace/finish_int.h"

/* -- Sets -------------------------------------------------------------------------------------- */

typedef struct member_key {
  uint32_t set, frame;
  const void *value;
} member_key;

str finish_key(session *s, uint32_t set, uint32_t frame, const void *value)
{
  member_key *k = session_new(s, member_key);

  *k = (member_key){set, frame, value};
  return (str){(const char *)k, sizeof *k};
}

static void add(finisher *w, values *set, uint32_t kind, uint32_t frame, ir_value *v)
{
  str key = finish_key(w->s, kind, frame, v);

  if (table_get(&w->seen, key))
    return;
  session_table_put(w->s, &w->seen, key, v);
  GROW(w->s, set->v, set->n, set->cap, 4);
  set->v[set->n++] = v;
}

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
  return n->kind == IR_GET_ATTR && finish_info(w, n->outputs[0])->attribute;
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
  const attribute *a = finish_info(w, v)->attribute;

  if (a) {
    for (; !owns(w, user, a); user = w->r->frames[user].parent)
      add(w, &w->scopes[user].inputs, SET_INPUTS, user, v);
    return;
  }
  for (uint32_t source = finish_info(w, v)->frame; source != user;)
    if (finish_is_inside(w, user, source)) {
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
  str key = finish_key(w->s, SET_LOADS, f, a->value);
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
    attribute *a = finish_info(w, v[i])->attribute;
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
  if (!r->keeps_unused)
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
  finish_make_function(w, 0, &inputs, &outputs);
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
