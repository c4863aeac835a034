/* export/lower_program.c -- makes one class, one object and one function of an exported program:
 * state becomes attributes, placeholders of the user become arguments, the output node a tuple.
 * The specs of the file are checked here against the graph, since nothing later looks at them
 * again. */
#include "export/lower_int.h"

#include "base/grow.h"

void *lower_keep_array(lowering *lo, size_t n, size_t item)
{
  return session_alloc_in(lo->s, &lo->program->mem, (n + 1) * item);
}

const char *lower_keep_text(lowering *lo, str text)
{
  char *copy = session_alloc_in(lo->s, &lo->program->mem, text.len + 1);

  if (text.len)
    memcpy(copy, text.p, text.len);
  return copy;
}

/* -- State ------------------------------------------------------------------------------------- */

#define NO_SLOT UINT32_MAX

/* Return a number by name; the tables have the number + 1 as a pointer. */
static uint32_t number_of(const table *numbers, const char *name)
{
  return (uint32_t)(uintptr_t)table_get(numbers, str_of(name)) - 1;
}

static bool is_state(const program_input *in)
{
  return in->kind == INPUT_PARAMETER || in->kind == INPUT_BUFFER ||
         in->kind == INPUT_TENSOR_CONSTANT;
}

static type *make_class(lowering *lo, const table *state, table *slots)
{
  type *cls = program_add_class(lo->s, lo->program, TYPE_CLASS, "__torch__.ExportedProgram");

  cls->cls->is_module = true;
  for (uint32_t i = 0; i < state->n; i++) { /* everything that was saved is an attribute */
    const table_entry *e = &state->entries[i];
    if (!e->value) /* removed */
      continue;
    uint32_t slot =
      class_add_attr(lo->s, cls, session_strndup(lo->s, e->key.p, e->key.len),
                     type_simple(TYPE_TENSOR));
    bool is_parameter = ((rush_tensor *)e->value)->h.flags & TENSOR_IS_PARAMETER;
    cls->cls->attrs[slot].is_parameter = is_parameter;
    cls->cls->attrs[slot].is_buffer = !is_parameter;
    session_table_put(lo->s, slots, e->key, (void *)((uintptr_t)slot + 1));
  }
  for (uint32_t i = 0; i < lo->data->n_inputs; i++) {
    const program_input *in = &lo->data->inputs[i];
    if (is_state(in) && number_of(slots, in->target) == NO_SLOT)
      lower_fail(lo, "the program uses '%s', which was not saved", in->target);
  }
  class_complete(lo->s, cls);
  return cls;
}

static rush_object *make_object(lowering *lo, const type *cls, const table *state,
                                const table *slots)
{
  rush_object *o;

  session_check(lo->s, object_new(lo->s->cx, cls, cls->cls->n_attrs, &o));
  session_defer_value(lo->s, value_heap_steal(RUSH_TAG_OBJECT, o));
  for (uint32_t i = 0; i < state->n; i++) {
    if (!state->entries[i].value)
      continue;
    uint32_t slot = (uint32_t)(uintptr_t)table_get(slots, state->entries[i].key) - 1;
    ASSERT(slot < o->n_slots, "every weight is an attribute");
    o->slots[slot] = value_retain(value_tensor_steal(state->entries[i].value));
  }
  return o;
}

/* -- Specs of the arguments -------------------------------------------------------------------- */

static const exported_call_entry *root_call(lowering *lo)
{
  for (uint32_t i = 0; i < lo->data->n_calls; i++)
    if (!*lo->data->calls[i].fqn && lo->data->calls[i].has_signature)
      return &lo->data->calls[i];
  lower_fail(lo, "there is no 'in_spec'");
}

/* Check the form that torch.export writes and calls rely on: a tuple of args and a dict of kwargs
 * whose keys are names. */
static void check_in_spec(lowering *lo)
{
  const tree_spec *in = lo->e->in;

  if (in->kind != TREE_TUPLE || in->n_children != 2 || in->children[0].kind != TREE_TUPLE ||
      in->children[1].kind != TREE_DICT)
    lower_fail(lo, "the input spec is no pair of a tuple of args and a dict of kwargs");
  const tree_spec *kwargs = &in->children[1];
  for (uint32_t i = 0; i < kwargs->n_children; i++) {
    if (kwargs->keys[i].tag != RUSH_TAG_STRING)
      lower_fail(lo, "the input spec has a keyword argument whose name is no text");
    const str name = value_str(kwargs->keys[i]);
    if (name.len && memchr(name.p, 0, name.len))
      lower_fail(lo, "the name '%.*s' has a NUL in it", (int)name.len, name.p);
  }
}

/* Name the leaves as guards and messages do: x, x['key'], x[0]. */
static void name_tree(lowering *lo, const tree_spec *t, const char *path, uint32_t *leaf)
{
  if (t->kind == TREE_LEAF)
    lo->e->leaf_names[(*leaf)++] = lower_keep_text(lo, str_of(path));
  session_enter(lo->s);
  for (uint32_t i = 0; i < t->n_children; i++) {
    rush_value key = t->keys ? t->keys[i] : value_int(i);
    const char *below =
      key.tag == RUSH_TAG_STRING
        ? session_printf(lo->s, t->kind == TREE_OTHER ? "%s.%s" : "%s['%s']", path,
                         key.as.string->text)
        : session_printf(lo->s, "%s[%lld]", path,
                         key.tag == RUSH_TAG_INT ? (long long)key.as.i : (long long)i);
    name_tree(lo, &t->children[i], below, leaf);
  }
  session_leave(lo->s);
}

static void name_leaves(lowering *lo)
{
  exported *e = lo->e;
  const tree_spec *pos = &e->in->children[0], *named = &e->in->children[1];
  uint32_t leaf = 0;

  e->leaf_names = lower_keep_array(lo, e->n_leaves, sizeof(char *));
  for (uint32_t i = 0; i < pos->n_children; i++)
    name_tree(lo, &pos->children[i],
              i < e->n_arg_names ? e->arg_names[i] : session_printf(lo->s, "args[%u]", i), &leaf);
  for (uint32_t i = 0; i < named->n_children; i++)
    name_tree(lo, &named->children[i], named->keys[i].as.string->text, &leaf);
}

static void lower_trees(lowering *lo)
{
  const exported_call_entry *call = root_call(lo);
  exported *e = lo->e;
  const str in = call->in_spec, out = call->out_spec;

  e->in = tree_parse(lo->s, &lo->program->mem, lo->program, lo->data->place, in);
  e->out = tree_parse(lo->s, &lo->program->mem, lo->program, lo->data->place, out);
  if (!tree_is_plain(e->in) || !tree_is_plain(e->out)) {
    e->in_text = lower_keep_text(lo, in);
    e->out_text = lower_keep_text(lo, out);
  }
  check_in_spec(lo);
  e->n_leaves = tree_n_leaves(e->in);
  e->n_arg_names = call->n_arg_names;
  e->arg_names = lower_keep_array(lo, e->n_arg_names, sizeof *e->arg_names);
  for (uint32_t i = 0; i < e->n_arg_names; i++)
    e->arg_names[i] = lower_keep_text(lo, str_of(call->arg_names[i]));
  name_leaves(lo);
}

/* -- Inputs ------------------------------------------------------------------------------------ */

static ir_value *get_attr(lowering *lo, const char *target)
{
  ir_node *n = ir_node_new(lo->s, lo->g, IR_GET_ATTR, &lo->self, 1);

  ir_attr_set_string(lo->s, n, "name", target);
  ir_node_append(n, lo->block);
  return ir_node_add_output(lo->s, n, type_simple(TYPE_TENSOR));
}

typedef struct leaf_reader {
  lowering *lo;
  const fx_node **leaves; /* placeholders: e->n_leaves; NULL: a constant */
  uint32_t n;
  table numbers;          /* name of a placeholder -> its leaf + 1 */
} leaf_reader;

/* Bind the next leaf: a constant, or an argument of the function. */
static void lower_leaf(leaf_reader *q, const program_input *in, const fx_node *n)
{
  static const type_kind kinds[] = {TYPE_TENSOR, TYPE_INT, TYPE_FLOAT, TYPE_BOOL};
  lowering *lo = q->lo;
  exported *e = lo->e;
  const uint32_t leaf = q->n++;

  if (leaf >= e->n_leaves)
    lower_fail(lo, "more user inputs than leaves in the input spec");
  e->leaf_constants[leaf] = value_unset();
  if (in->arg.kind == ARG_CONSTANT) {
    rush_value v = lower_plain(lo, &in->arg.constant);
    e->leaf_constants[leaf] = v;
    if (value_is_heap(v))
      program_keep_steal(lo->s, lo->program, v);
    return;
  }
  if (in->arg.kind > ARG_SYM_BOOL)
    lower_fail(lo, "the input '%s' is no tensor and no number", n->name);
  e->leaf_is_input[leaf] = true;
  q->leaves[leaf] = n;
  session_table_put(lo->s, &q->numbers, str_of(n->name), (void *)((uintptr_t)leaf + 1));
  lo->scope->nodes[n->index].v =
    ir_block_add_input(lo->s, lo->g->block, type_simple(kinds[in->arg.kind]),
                       lower_keep_text(lo, str_of(n->name)));
}

static void lower_input(leaf_reader *q, const program_input *in, const fx_node *n)
{
  lowering *lo = q->lo;

  lo->at = n->at;
  if (in->arg.kind != ARG_CONSTANT && strcmp(in->arg.name, n->name) != 0)
    lower_fail(lo, "an input of the graph is '%s', its spec has '%s'", n->name, in->arg.name);
  if (in->kind == INPUT_USER)
    lower_leaf(q, in, n);
  else if (in->kind == INPUT_TOKEN) /* only orders effects, as the order of nodes does */
    lo->scope->nodes[n->index].v = lower_constant(lo, value_none(), NULL);
  else if (in->kind == INPUT_CUSTOM_OBJECT)
    lo->scope->nodes[n->index].v = lower_custom_object(lo, in->target);
  else if (is_state(in))
    lo->scope->nodes[n->index].v = get_attr(lo, in->target);
}

/* Bind the placeholders to attributes, arguments and constants; each leaf is bound once. */
static void lower_inputs(leaf_reader *q)
{
  lowering *lo = q->lo;
  exported *e = lo->e;
  uint32_t i = 0;

  e->leaf_constants = lower_keep_array(lo, e->n_leaves, sizeof(rush_value));
  e->leaf_is_input = lower_keep_array(lo, e->n_leaves, sizeof(bool));
  q->leaves = session_array(lo->s, const fx_node *, (size_t)e->n_leaves + 1);
  session_table_init(lo->s, &q->numbers);
  for (const fx_node *n = lo->data->graph->first; n; n = n->next) {
    if (n->op != FX_PLACEHOLDER)
      continue;
    if (i == lo->data->n_inputs)
      lower_fail(lo, "%u input specs for more inputs of the graph", i);
    lower_input(q, &lo->data->inputs[i++], n);
  }
  if (i != lo->data->n_inputs)
    lower_fail(lo, "%u input specs for %u inputs of the graph", lo->data->n_inputs, i);
  if (q->n != e->n_leaves)
    lower_fail(lo, "%u user inputs, but %u leaves in the input spec", q->n, e->n_leaves);
}

/* -- Outputs ----------------------------------------------------------------------------------- */

/* Return the target of a mutation: a tensor of the program or the caller. */
static uint32_t written_to(leaf_reader *q, const program_output *o, exported_output kind,
                           const table *slots, const ir_value *v)
{
  lowering *lo = q->lo;
  const bool is_input = kind == OUTPUT_INPUT_MUTATION;
  const uint32_t at = number_of(is_input ? &q->numbers : slots, o->target);

  if (at == NO_SLOT)
    lower_fail(lo, "there is no %s '%s' to write to", is_input ? "input" : "buffer", o->target);
  const ir_value *input =
    is_input ? lo->scope->nodes[q->leaves[at]->index].v : NULL;
  if (!type_is(v->type, TYPE_TENSOR) || (input && !type_is(input->type, TYPE_TENSOR)))
    lower_fail(lo, "what is written to '%s', or that input, is no tensor", o->target);
  return at;
}

static exported_output output_kind(exported_output_kind kind)
{
  switch (kind) {
  case EXPORTED_USER_OUTPUT:
  case EXPORTED_LOSS_OUTPUT:
    return OUTPUT_USER;
  case EXPORTED_BUFFER_MUTATION:
  case EXPORTED_PARAMETER_MUTATION:
    return OUTPUT_BUFFER_MUTATION;
  case EXPORTED_USER_INPUT_MUTATION:
    return OUTPUT_INPUT_MUTATION;
  default:
    return OUTPUT_IGNORED;
  }
}

static void lower_output_specs(leaf_reader *q, const table *slots, ir_value *const *outs,
                               uint32_t n)
{
  lowering *lo = q->lo;
  exported *e = lo->e;
  uint32_t n_user = 0;

  e->outputs = lower_keep_array(lo, n, sizeof *e->outputs);
  if (lo->data->n_outputs != n)
    lower_fail(lo, "%u output specs for %u outputs of the graph", lo->data->n_outputs, n);
  for (; e->n_outputs < n; e->n_outputs++) {
    const program_output *from = &lo->data->outputs[e->n_outputs];
    struct exported_output_spec *o = &e->outputs[e->n_outputs];
    o->kind = output_kind(from->kind);
    if (o->kind == OUTPUT_BUFFER_MUTATION || o->kind == OUTPUT_INPUT_MUTATION)
      o->target = written_to(q, from, o->kind, slots, outs[e->n_outputs]);
    n_user += o->kind == OUTPUT_USER;
  }
  if (n_user != tree_n_leaves(e->out))
    lower_fail(lo, "%u outputs for the user, but %u leaves in the output spec", n_user,
               tree_n_leaves(e->out));
}

/* -- The function ------------------------------------------------------------------------------ */

static schema *make_schema(lowering *lo, const type *cls, const type *result)
{
  schema *sc = lower_keep_array(lo, 1, sizeof *sc);
  uint32_t n = ir_block_n_inputs(lo->g->block);

  *sc = (schema){.name = "forward", .overload = "", .n_args = n, .n_returns = 1};
  sc->args = lower_keep_array(lo, n, sizeof *sc->args);
  sc->returns = lower_keep_array(lo, 1, sizeof *sc->returns);
  sc->returns[0] = (schema_arg){.name = "", .type = result};
  for (uint32_t i = 0; i < n; i++) {
    ir_value *v = ir_block_input(lo->g->block, i);
    sc->args[i] =
      (schema_arg){.name = i ? lower_keep_text(lo, str_of(v->name ? v->name : "input")) : "self",
                   .type = i ? v->type : cls};
  }
  return sc;
}

static void finish_function(lowering *lo, const type *cls, ir_value *const *outs, uint32_t n_outs)
{
  ir_node *tuple = ir_node_new(lo->s, lo->g, IR_TUPLE_CONSTRUCT, outs, n_outs);
  const type **types = session_array(lo->s, const type *, (size_t)n_outs + 1);

  for (uint32_t i = 0; i < n_outs; i++)
    types[i] = outs[i]->type;
  const type *t = type_tuple(&lo->program->types, types, n_outs);
  if (!t)
    session_check(lo->s, call_nomem(lo->s->cx));
  ir_node_append(tuple, lo->g->block);
  ir_block_add_output(lo->s, lo->g->block, ir_node_add_output(lo->s, tuple, t));
  function *f = class_add_method(lo->s, cls, "forward");
  f->schema = make_schema(lo, cls, t);
  f->is_eager = true;
  for (uint32_t i = 0; i < lo->e->n_outputs; i++) /* written around the graph */
    if (lo->e->outputs[i].kind == OUTPUT_BUFFER_MUTATION)
      f->changes_state[0] = f->changes_state[1] = STATE_CHANGES;
  session_keep(lo->s, lo->g);
  function_set_graph_steal(f, lo->g);
  lo->e->forward = f;
}

exported *exported_lower(session *s, const exported_program *data, const table *state, program *p,
                         rush_value *self)
{
  lowering *lo = session_new(s, lowering);
  leaf_reader *q = session_new(s, leaf_reader);
  table *slots = session_new(s, table);
  lower_scope scope;
  uint32_t n_outs;

  *lo = (lowering){.s = s, .data = data, .program = p, .autocast = -1};
  lo->e = lower_keep_array(lo, 1, sizeof *lo->e);
  lo->e->program = p;
  lo->file = program_add_source(s, p, data->place, "", 0);
  lo->g = ir_graph_new(s, &p->types);
  session_defer(s, ir_graph_free_deferred, lo->g);
  lo->block = lo->g->block;
  session_table_init(s, slots);
  q->lo = lo;
  lower_trees(lo);
  type *cls = make_class(lo, state, slots);
  rush_object *o = make_object(lo, cls, state, slots);
  lo->self = ir_block_add_input(s, lo->g->block, cls, "self");
  lower_enter(lo, data->graph, &scope);
  lower_inputs(q);
  lower_metas(lo, q->leaves);
  lower_guards(lo);
  lower_nodes(lo);
  ir_value **outs = lower_outputs(lo, &n_outs);
  lower_output_specs(q, slots, outs, n_outs);
  finish_function(lo, cls, outs, n_outs);
  *self = value_heap_steal(RUSH_TAG_OBJECT, o);
  return lo->e;
}
