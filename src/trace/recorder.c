/* trace/recorder.c -- builds the flat graph of a trace (recorder.h).
 *
 * Values are found by number in an array beside the graph, which also has the frame of each; nodes
 * have their frame in an array by origin, because passes use `scratch`.  Attributes are chains of
 * prim::GetAttr from the first input, made once each, before all other nodes: so dead code
 * elimination sees that a write to one is visible outside. */
#include "trace/recorder_int.h"

#include <stdlib.h>

#include "base/grow.h"
#include "ir/facts.h"
#include "ops/table/op_keys.h"

/* -- Life -------------------------------------------------------------------------------------- */

static void free_deferred(void *r) { recorder_free(r); }

recorder *recorder_new(session *s, program *p, const type *self)
{
  recorder *r = mem_alloc_zero(p->ctx, sizeof *r);

  if (!r)
    session_check(s, call_nomem(s->cx));
  session_defer(s, free_deferred, r);
  r->p = program_retain(p);
  table_init(&r->attributes, p->ctx);
  table_init(&r->places, p->ctx);
  r->self = self;
  r->g = ir_graph_new(s, &p->types);
  GROW_IN(s, &r->g->mem, r->frames, r->n_frames, r->cap_frames, 16);
  r->frames[r->n_frames++] = (frame){NULL, 0, false};
  if (self) {
    r->module = session_alloc_in(s, &r->g->mem, sizeof *r->module);
    *r->module = (attribute){"", "self", NULL, ir_block_add_input(s, r->g->block, self, NULL)};
    recorder_enter(s, r, r->module->value, 0);
    r->values[0].attribute = r->frames[0].module = r->module;
  }
  return session_keep(s, r);
}

void recorder_free(recorder *r)
{
  if (!r)
    return;
  program *p = r->p;
  context *c = p->ctx;
  for (uint32_t i = 0; i < r->n_functions; i++)
    if (r->functions[i].graph)
      ir_graph_free(r->functions[i].graph);
  table_free(&r->attributes);
  table_free(&r->places);
  if (r->g)
    ir_graph_free(r->g);
  mem_free(c, r, sizeof *r);
  program_release(p);
}

program *recorder_program(const recorder *r) { return r->p; }

/* -- Values ------------------------------------------------------------------------------------ */

bool recorder_has(const recorder *r, traced v)
{
  return v > 0 && v <= r->cap_values && r->values[v - 1].value;
}

ir_value *recorder_value(session *s, const recorder *r, traced v)
{
  if (!recorder_has(r, v))
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "%u is no value of this trace", v);
  return r->values[v - 1].value;
}

traced recorder_enter(session *s, recorder *r, ir_value *v, uint32_t of_frame)
{
  while (v->id >= r->cap_values)
    GROW_IN(s, &r->g->mem, r->values, r->cap_values, r->cap_values, 256);
  r->values[v->id] = (value_info){v, of_frame, r->n_numbers++, NULL};
  return v->id + 1;
}

static bool is_letter(char c)
{
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool recorder_is_plain_name(const char *name)
{
  if (!is_letter(*name))
    return false;
  while (is_letter(*name) || (*name >= '0' && *name <= '9'))
    name++;
  return !*name;
}

static void check_open(session *s, const recorder *r)
{
  if (r->is_finished)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                        "this trace is finished; nothing more can be recorded");
}

traced recorder_input(session *s, recorder *r, const type *t, const char *name)
{
  check_open(s, r);
  ir_value *v = ir_block_add_input(s, r->g->block, t, NULL);
  traced made = recorder_enter(s, r, v, 0);

  if (name && recorder_is_plain_name(name))
    ir_value_set_name(s, v, name);
  return made;
}

void recorder_set_name(session *s, recorder *r, traced v, const char *name)
{
  ir_value *value = recorder_value(s, r, v);

  if (!r->values[v - 1].attribute)
    ir_value_set_name(s, value, name);
}

void recorder_keep_unused(recorder *r) { r->keeps_unused = true; }

void recorder_skip(recorder *r, uint32_t n) { r->n_numbers += n; }

/* -- Attributes -------------------------------------------------------------------------------- */

static const type *attribute_type(session *s, const attribute *owner, str name)
{
  const type *t = owner->value->type;

  if (t->kind == TYPE_CLASS) {
    class_complete(s, t);
    int i = class_attr_index(t, name);
    if (i >= 0)
      return t->cls->attrs[i].type;
  }
  session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "the traced module has nothing at '%s%s%.*s'",
                      owner->path, *owner->path ? "." : "", (int)name.len, name.p);
}

attribute *recorder_find_attribute(session *s, recorder *r, str path)
{
  attribute *found = path.len ? table_get(&r->attributes, path) : r->module;
  size_t dot = path.len;

  if (found)
    return found;
  if (!r->module)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "a traced function has no attributes");
  session_enter(s);
  while (dot > 0 && path.p[dot - 1] != '.')
    dot--;
  attribute *owner = recorder_find_attribute(s, r, (str){path.p, dot ? dot - 1 : 0});
  session_leave(s);
  char *copy = session_alloc_in(s, &r->g->mem, path.len + 1);
  memcpy(copy, path.p, path.len);
  ir_node *n = ir_node_new(s, r->g, IR_GET_ATTR, &owner->value, 1);
  ir_attr_set_string(s, n, "name", copy + dot);
  ir_value *v =
    ir_node_add_output(s, n, attribute_type(s, owner, (str){copy + dot, path.len - dot}));
  if (r->last_attribute)
    ir_node_insert_after(n, r->last_attribute);
  else
    ir_node_insert_before(n, ir_block_first(r->g->block));
  r->last_attribute = n;
  found = session_alloc_in(s, &r->g->mem, sizeof *found);
  *found = (attribute){copy, copy + dot, owner, v};
  recorder_enter(s, r, v, 0);
  r->n_numbers--; /* PyTorch numbers the attributes of the module before all else */
  r->values[v->id].attribute = found;
  session_table_put(s, &r->attributes, (str){copy, path.len}, found);
  return found;
}

traced recorder_attribute(session *s, recorder *r, const char *path)
{
  return recorder_find_attribute(s, r, str_of(path))->value->id + 1;
}

/* -- Places ------------------------------------------------------------------------------------ */

/* Return a source with the text "f.py(7): f\nmain.py(9): <module>\n", which is shown whole. */
static const source *place_of(session *s, recorder *r, const char *where)
{
  str text = str_of(where);
  const source *known = table_get(&r->places, text);
  const char *end = strchr(where, '\n'), *close = strstr(where, "): "), *open = close;

  if (known || !close || (end && close > end))
    return known;
  while (open > where && *open != '(')
    open--;
  const char *name = session_strndup(s, where, (size_t)(open - where));
  source *made = program_add_source(s, r->p, name, where, text.len);
  made->first_line = (uint32_t)strtoul(open + 1, NULL, 10);
  session_table_put(s, &r->places, (str){made->text, text.len}, made);
  return made;
}

/* True if the node has a position: those that PyTorch's tracer adds for the language have none. */
static bool has_place(const ir_node *n)
{
  switch (n->kind) {
  case IR_CONSTANT:
    return ir_constant_value(n).tag != RUSH_TAG_NONE;
  case IR_OP:
    break;
  case IR_UNKNOWN_OP: case IR_HIGHER_ORDER:
    return true;
  default: /* prim:: */
    return false;
  }
  switch (n->op->name_key) {
  case OPN_INT: case OPN_FLOAT: case OPN_BOOL: case OPN_SCALARIMPLICIT:
    return false;
  }
  return strncmp(n->op->schema->name, "prim::", 6) != 0;
}

static void set_place(session *s, recorder *r, ir_node *n, const char *where)
{
  const source *src = where && *where && has_place(n) ? place_of(s, r, where) : NULL;

  if (src)
    n->range = (source_range){src, 0, (uint32_t)src->len};
}

/* -- Nodes ------------------------------------------------------------------------------------- */

/* Link the node after the maker of `after`, or at the end; return its frame. */
static uint32_t link(session *s, recorder *r, ir_node *n, traced after)
{
  const ir_value *v = after ? recorder_value(s, r, after) : NULL;
  uint32_t in = r->open;

  if (v && !r->values[after - 1].attribute) {
    in = r->values[after - 1].frame;
    if (v->node->kind != IR_PARAM)
      ir_node_insert_after(n, v->node);
    else if (r->last_attribute)
      ir_node_insert_after(n, r->last_attribute);
    else
      ir_node_insert_before(n, ir_block_first(r->g->block));
  } else {
    ir_node_append(n, r->g->block);
  }
  while (n->origin >= r->cap_nodes)
    GROW_IN(s, &r->g->mem, r->frame_of, r->cap_nodes, r->cap_nodes, 256);
  r->frame_of[n->origin] = in;
  return in;
}

traced recorder_constant(session *s, recorder *r, rush_value v, const type *t, const char *where)
{
  check_open(s, r);
  v.aux = 0;
  ir_node *n = ir_constant_new(s, r->g, v, t);
  uint32_t in = link(s, r, n, 0);

  set_place(s, r, n, where);
  return recorder_enter(s, r, n->outputs[0], in);
}

/* Return the operator by which function f calls the host; f calls nothing else. */
static const op *host_op(session *s, const function *f)
{
  const ir_block *b = f->graph ? f->graph->block : NULL;

  for (const ir_node *n = b ? ir_block_first(b) : NULL; n && n != b->ret; n = n->next)
    if (n->kind == IR_OP && n->op->schema->is_of_host)
      return n->op;
  session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "'%s' calls nothing of the host's",
                      f->qualified);
}

#define FEW 16 /* inputs of an ordinary node: more are put in the session */

static ir_node *new_node(session *s, recorder *r, const recorder_call *c)
{
  ir_value *few[FEW], **in = c->n_inputs <= FEW ? few : session_array(s, ir_value *, c->n_inputs);
  ir_node *n;

  for (uint32_t i = 0; i < c->n_inputs; i++)
    in[i] = recorder_value(s, r, c->inputs[i]);
  if (c->op) {
    n = ir_node_new_op(s, r->g, c->op, in, c->n_inputs);
  } else if (c->host_attrs) {
    n = ir_node_new(s, r->g, IR_OP, in, c->n_inputs);
    n->op = host_op(s, c->callee);
    ir_attr_set_string(s, n, "_attrs", c->host_attrs);
    ir_attr_set_string(s, n, "_scalars", c->host_scalars);
  } else {
    n = ir_node_new_named(s, r->g, str_of(c->kind));
    n->function = c->callee;
    for (uint32_t i = 0; i < c->n_inputs; i++)
      ir_node_add_input(s, n, in[i]);
  }
  if (c->method)
    ir_attr_set_string(s, n, "name", c->method);
  if (n->kind == IR_CALL_FUNCTION) {
    if (!c->callee)
      session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "prim::CallFunction needs a function");
    r->n_numbers++; /* the function is a value, too */
  }
  return n;
}

static const type *made(session *s, const type *t)
{
  if (!t)
    session_check(s, call_nomem(s->cx));
  return t;
}

/* Return the type that text shows for a value; for a constant tensor, with the tensor's facts. */
static const type *shown_type(session *s, recorder *r, const ir_value *v)
{
  rush_value constant;

  if (!type_is(v->type, TYPE_TENSOR) || !ir_value_as_constant(v, &constant) ||
      constant.tag != RUSH_TAG_TENSOR || !constant.as.tensor)
    return v->type;
  ir_facts f = ir_facts_of_tensor(constant.as.tensor);
  return ir_facts_type(s, &r->p->types, &f);
}

/* Return the type of output i of a node whose inputs determine it. */
static const type *follows(session *s, recorder *r, const ir_node *n, uint32_t i)
{
  type_store *ts = &r->p->types;
  const type *in = n->n_inputs ? ir_node_input(n, 0)->type : type_simple(TYPE_TENSOR);

  if (n->kind == IR_TUPLE_CONSTRUCT) {
    const type **elems = session_array(s, const type *, n->n_inputs + 1);
    for (uint32_t k = 0; k < n->n_inputs; k++)
      elems[k] = shown_type(s, r, ir_node_input(n, k));
    return made(s, type_tuple(ts, elems, n->n_inputs));
  }
  if (n->kind == IR_LIST_CONSTRUCT)
    return made(s, type_list(ts, ir_type_unshaped(s, ts, in)));
  if (n->kind == IR_TUPLE_UNPACK && in->kind == TYPE_TUPLE && i < in->n_elems)
    return in->elems[i];
  const function *callee = ir_node_callee(n);
  if (callee)
    return callee->schema->returns[0].type;
  bool holds = in->kind == TYPE_LIST || in->kind == TYPE_FUTURE;
  if (holds)
    return in->elems[0];
  return in->kind == TYPE_DICT ? in->elems[1] : type_simple(TYPE_TENSOR);
}

void recorder_add(session *s, recorder *r, const recorder_call *c, traced *outputs)
{
  check_open(s, r);
  ir_node *n = new_node(s, r, c);

  if (!c->op)
    ir_node_resolve(s, n);
  uint32_t in = link(s, r, n, c->after);
  for (uint32_t i = 0; i < c->n_outputs; i++) {
    const type *t = c->types && c->types[i] ? c->types[i] : NULL;
    if (i >= n->n_outputs)
      ir_node_add_output(s, n, t ? t : follows(s, r, n, i));
    else if (t)
      n->outputs[i]->type = t;
    outputs[i] = recorder_enter(s, r, n->outputs[i], in);
  }
  for (uint32_t i = c->n_outputs; i < n->n_outputs; i++)
    recorder_enter(s, r, n->outputs[i], in);
  if (!c->op)
    ir_node_resolve(s, n);
  set_place(s, r, n, c->where);
}

/* -- Frames ------------------------------------------------------------------------------------ */

void recorder_open(session *s, recorder *r, const char *path)
{
  check_open(s, r);
  attribute *module =
    path ? recorder_find_attribute(s, r, str_of(path)) : r->frames[r->open].module;

  GROW_IN(s, &r->g->mem, r->frames, r->n_frames, r->cap_frames, 16);
  r->frames[r->n_frames] = (frame){module, r->open, !path};
  r->open = r->n_frames++;
}

traced recorder_close(session *s, recorder *r, traced result)
{
  frame *f = &r->frames[r->open];

  if (!r->open)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "no call is open in this trace");
  if (!f->is_task || !result) {
    r->open = f->parent;
    return 0;
  }
  ir_value *v = recorder_value(s, r, result);
  ir_node *n = ir_node_new(s, r->g, IR_FORK, &v, 1);
  ir_attr_set_int(s, n, "_frame", r->open);
  r->open = f->parent;
  uint32_t in = link(s, r, n, 0);
  return recorder_enter(
    s, r, ir_node_add_output(s, n, made(s, type_future(&r->p->types, v->type))), in);
}
