/* export/capture.c -- the program around a captured graph: state and inputs become placeholders,
 * what the code returns becomes the output, and the structure of both becomes the specs that
 * torch.utils._pytree writes.
 *
 * Inputs stand in PyTorch's order: parameters, buffers, constants, then the user's.  Parameters and
 * buffers that nothing uses are inputs, too; a tensor that several names share is one input, under
 * the first of them. */
#include "export/capture_int.h"

#include <math.h>

#include "base/grow.h"
#include "base/number.h"
#include "formats/json.h"

/* -- State ------------------------------------------------------------------------------------- */

typedef enum state_pass { PASS_PARAMETERS, PASS_BUFFERS } state_pass;

static const char *path_of(capture *c, const char *outer, const char *name)
{
  return *outer ? session_printf(c->s, "%s.%s", outer, name) : name;
}

static void add_attribute(capture *c, const char *path, const class_attr *a, rush_value v,
                          state_pass pass)
{
  rush_tensor *t = v.tag == RUSH_TAG_TENSOR ? v.as.tensor : NULL;

  if (!t)
    return;
  const char *name = capture_text(c, path_of(c, path, a->name));
  if (!a->is_parameter && !a->is_buffer)
    session_table_put(c->s, &c->attributes, address_key(t), (void *)(uintptr_t)name);
  if (!(pass == PASS_PARAMETERS ? a->is_parameter : a->is_buffer))
    return;
  if (table_get(&c->tensors, address_key(t)) && !c->options->structure)
    session_table_put(c->s, c->state, str_of(name), t); /* tied */
  else
    capture_add_state(c, pass == PASS_PARAMETERS ? INPUT_PARAMETER : INPUT_BUFFER, name, t, false);
}

static bool is_module(rush_value v)
{
  return v.tag == RUSH_TAG_OBJECT && v.as.object->type->cls->is_module;
}

/* Add a module's parameters or buffers, and those of the modules inside. */
static void add_module(capture *c, const rush_object *o, const char *path, state_pass pass)
{
  const class_info *cls = o->type->cls;

  session_enter(c->s);
  const char *known = table_get(&c->paths, address_key(o));
  const bool is_second = known && (pass == PASS_PARAMETERS || strcmp(known, path) != 0);
  if (is_second && !c->options->structure) { /* a module under a second name */
    session_leave(c->s);
    return;
  }
  if (!known)
    session_table_put(c->s, &c->paths, address_key(o), (void *)(uintptr_t)capture_text(c, path));
  for (uint32_t i = 0; i < cls->n_attrs; i++)
    add_attribute(c, path, &cls->attrs[i], o->slots[i], pass);
  for (uint32_t i = 0; i < cls->n_attrs; i++)
    if (is_module(o->slots[i]))
      add_module(c, o->slots[i].as.object, path_of(c, path, cls->attrs[i].name), pass);
  session_leave(c->s);
}

/* -- Structure --------------------------------------------------------------------------------- */

static void write_leaf(text_buf *out)
{
  text_puts(out, "{\"type\": null, \"context\": null, \"children_spec\": []}");
}

static void begin_node(text_buf *out, const char *type, const char *context)
{
  text_printf(out, "{\"type\": \"builtins.%s\", \"context\": ", type);
  json_quote(out, str_of(context));
  text_puts(out, ", \"children_spec\": [");
}

/* Append the keys of a dict as JSON. */
static const char *keys_of(capture *c, const rush_dict *d)
{
  text_buf *out = session_text(c->s);
  char number[FLOAT_REPR_BYTES];
  size_t pos = 0, n = 0;

  text_putc(out, '[');
  for (dict_entry *e; (e = dict_next(d, &pos)) != NULL; n++) {
    text_puts(out, n ? ", " : "");
    if (e->key.tag == RUSH_TAG_STRING)
      json_quote(out, value_str(e->key));
    else if (e->key.tag == RUSH_TAG_INT)
      text_printf(out, "%lld", (long long)e->key.as.i);
    else if (e->key.tag == RUSH_TAG_FLOAT && isfinite(e->key.as.d))
      text_add(out, number, float_repr(e->key.as.d, number));
    else if (e->key.tag == RUSH_TAG_BOOL)
      text_puts(out, e->key.as.b ? "true" : "false");
    else
      capture_fail(c, "a dict whose keys are neither texts nor numbers cannot be an input or "
                      "output");
  }
  text_putc(out, ']');
  return session_take_text(c->s, out);
}

/* Visit the leaves of a value in the order of torch.utils._pytree, appending its spec. */
typedef void leaf_visit(capture *c, rush_value leaf, const char *name, const char *text);

static void visit_items(capture *c, text_buf *out, const rush_value *items, size_t n,
                        const char *name, const char *text, leaf_visit *visit);

static void visit_tree(capture *c, text_buf *out, rush_value v, const char *name,
                       const char *text, leaf_visit *visit)
{
  size_t pos = 0, n = 0;

  session_enter(c->s);
  switch (v.tag) {
  case RUSH_TAG_LIST:
    begin_node(out, "list", "null");
    visit_items(c, out, v.as.list->items, v.as.list->n, name, text, visit);
    text_puts(out, "]}");
    break;
  case RUSH_TAG_TUPLE:
    begin_node(out, "tuple", "null");
    visit_items(c, out, v.as.tuple->items, v.as.tuple->n, name, text, visit);
    text_puts(out, "]}");
    break;
  case RUSH_TAG_DICT:
    begin_node(out, "dict", keys_of(c, v.as.dict));
    for (dict_entry *e; (e = dict_next(v.as.dict, &pos)) != NULL; n++) {
      const bool is_text = e->key.tag == RUSH_TAG_STRING;
      const char *key = is_text ? e->key.as.string->text
                                : session_printf(c->s, "%lld", (long long)e->key.as.i);
      text_puts(out, n ? ", " : "");
      visit_tree(c, out, e->value, session_printf(c->s, "%s_%s", name, key),
                 session_printf(c->s, is_text ? "%s['%s']" : "%s[%s]", text, key), visit);
    }
    text_puts(out, "]}");
    break;
  default:
    write_leaf(out);
    visit(c, v, name, text);
  }
  session_leave(c->s);
}

static void visit_items(capture *c, text_buf *out, const rush_value *items, size_t n,
                        const char *name, const char *text, leaf_visit *visit)
{
  for (size_t i = 0; i < n; i++) {
    text_puts(out, i ? ", " : "");
    visit_tree(c, out, items[i], session_printf(c->s, "%s_%zu", name, i),
               session_printf(c->s, "%s[%zu]", text, i), visit);
  }
}

/* -- Inputs ------------------------------------------------------------------------------------ */

static fx_arg constant_arg(capture *c, rush_value v)
{
  if (v.tag != RUSH_TAG_NONE && v.tag != RUSH_TAG_BOOL && v.tag != RUSH_TAG_INT &&
      v.tag != RUSH_TAG_FLOAT && v.tag != RUSH_TAG_STRING)
    capture_fail(c, "an input or output of this kind cannot be exported: tensors, numbers, texts, "
                    "None, and lists, tuples and dicts of them can");
  return capture_arg(c, v, NULL);
}

static void add_input(capture *c, fx_node *n, exported_arg arg)
{
  GROW(c->s, c->inputs, c->n_inputs, c->cap_inputs, 32);
  c->inputs[c->n_inputs++] = (program_input){
    .kind = INPUT_USER, .is_constant_input = arg.kind == ARG_CONSTANT, .arg = arg};
  c->first_input = c->first_input ? c->first_input : n;
}

/* True if `text`, "L['x'][0]", is the input that the caller calls "x[0]". */
static bool is_input(const char *text, const char *input)
{
  const size_t n = strcspn(input, "[");

  return strncmp(text, "L['", 3) == 0 && strncmp(text + 3, input, n) == 0 &&
         strncmp(text + 3 + n, "']", 2) == 0 && strcmp(text + 5 + n, input + n) == 0;
}

/* Find what the caller said of a dimension of an input. */
static const capture_dim *dim_of(capture *c, const char *text, int dim, int64_t size)
{
  for (uint32_t i = 0; i < c->options->n_dims; i++) {
    const capture_dim *d = &c->options->dims[i];
    if (d->dim != dim)
      continue;
    if (d->input && (c->options->structure ? strcmp(text, d->input) == 0
                                           : is_input(text, d->input))) {
      c->found[i] = 1;
      return d;
    }
    if (!d->input && (!c->found[i] || c->found[i] == size)) {
      c->found[i] = size;
      return d;
    }
  }
  return NULL;
}

static void check_found(const capture *c)
{
  for (uint32_t i = 0; i < c->options->n_dims; i++) {
    const capture_dim *d = &c->options->dims[i];
    if (!c->found[i])
      session_fail_status(c->s, RUSH_EARGUMENT, "ValueError", NULL,
                          "dimension %d of %s was to vary, but there is no tensor input with it",
                          d->dim, d->input ? d->input : "the inputs");
  }
}

/* Refuse an example that is outside of what its dimension may be. */
static void check_example(capture *c, const capture_dim *d, int64_t size, const char *where)
{
  const int64_t factor = d->factor ? d->factor : 1, n = (size - d->offset) / factor;

  if (n * factor + d->offset != size)
    session_fail_status(c->s, RUSH_EARGUMENT, "ValueError", NULL,
                        "%s is %lld in the example, which is not %lld*%s + %lld", where,
                        (long long)size, (long long)factor, d->name, (long long)d->offset);
  if (capture_is_hint(c, d)) /* its range is compared with what was found at the end */
    return;
  if ((d->dim >= 0 && size < 2) || n < d->least || n > d->most)
    session_fail_status(c->s, RUSH_EARGUMENT, "ValueError", NULL,
                        "%s varies, but is %lld in the example: a size of at least 2 in the range "
                        "[%lld, %lld] is needed there",
                        where, (long long)size, (long long)d->least, (long long)d->most);
}

/* Return the symbol of a name that another dimension has already, or NULL. */
static symint known_symbol(capture *c, const capture_dim *d, int64_t n, const char *where)
{
  const capture_symbol *y = d->name ? capture_symbol_by(c, &c->by_dim, str_of(d->name)) : NULL;

  if (!y)
    return NULL;
  if (y->atom->hint != n)
    session_fail_status(c->s, RUSH_EARGUMENT, "ValueError", NULL,
                        "Constraints violated (%s)! %s = %lld is not equal to %s = %lld", d->name,
                        where, (long long)n, y->text, (long long)y->atom->hint);
  return sym_of_atom(c->env, (sym_atom *)(uintptr_t)y->atom);
}

/* Return the size of an input's dimension, or an input that is an int (dimension -1): of a new
 * symbol, or that of an equal name. */
static symint symbol_for(capture *c, const capture_dim *d, int64_t size, fx_node *n,
                         const char *text)
{
  const char *where = capture_text(c, d->dim < 0 ? text
                                                 : session_printf(c->s, "%s.size()[%d]", text,
                                                                  d->dim));
  const int64_t factor = d->factor ? d->factor : 1, root = (size - d->offset) / factor;
  const bool is_hint = capture_is_hint(c, d);
  const int64_t lowest = d->dim >= 0 ? 2 : -INT64_MAX;
  const int64_t least = is_hint || d->least < lowest ? lowest : d->least;
  sym_env *env = c->env;

  check_example(c, d, size, where);
  symint e = known_symbol(c, d, root, where);
  if (!e) {
    e = sym_new(env, root, least <= root ? least : root);
    e->terms[0].atoms[0]->hi = is_hint || d->most == CAPTURE_AUTO_RANGE ? SYM_INF : d->most;
    if (d->symbol)
      e->terms[0].atoms[0]->number = d->symbol - 1;
  }
  capture_symbol_add(c, e, d, n, d->dim, where);
  return sym_add(env, sym_mul(env, sym_const(env, factor), e), sym_const(env, d->offset));
}

/* Strides of a tensor whose sizes vary follow from the sizes that they are products of. */
static void set_strides(capture *c, symshape_facts *f, const rush_tensor *t)
{
  bool done[TENSOR_MAX_DIMS] = {false};
  int64_t reach;

  for (int n = 0; n < f->n_dims; n++) {
    int d = -1;
    for (int i = f->n_dims - 1; i >= 0; i--)
      if (!done[i] && (d < 0 || t->strides[i] < t->strides[d]))
        d = i;
    for (int i = f->n_dims - 1; i >= 0 && t->strides[d] > 1; i--)
      if (done[i] && !__builtin_mul_overflow(t->sizes[i], t->strides[i], &reach) &&
          reach == t->strides[d]) {
        f->strides[d] = sym_mul(c->env, f->sizes[i], f->strides[i]);
        break;
      }
    done[d] = true;
  }
}

static rush_value add_tensor_input(capture *c, const rush_tensor *t, fx_node *n, const char *text)
{
  symshape_facts f = capture_facts_of(c, t);
  const bool requires_grad = t->h.flags & TENSOR_REQUIRES_GRAD;
  bool varies = false;

  f.flags = 0;
  for (int i = 0; i < f.n_dims; i++) {
    const capture_dim *d = dim_of(c, text, i, t->sizes[i]);
    if (!d)
      continue;
    f.sizes[i] = symbol_for(c, d, t->sizes[i], n, text);
    varies = true;
  }
  if (varies)
    set_strides(c, &f, t);
  n->val = capture_val_of_input(c, &f, t);
  add_input(c, n, (exported_arg){.kind = ARG_TENSOR, .name = n->name});
  return capture_tensor_new(c, n, &f, requires_grad);
}

/* Make the placeholder of an int that varies. */
static rush_value add_int_input(capture *c, const capture_dim *d, int64_t i, fx_node *n,
                                const char *text)
{
  fx_number *number = session_alloc_in(c->s, c->mem, sizeof *number);
  fx_val *val = session_alloc_in(c->s, c->mem, sizeof *val);
  const symint e = symbol_for(c, d, i, n, text);

  capture_describe(c, number, e);
  *val = (fx_val){.kind = FX_VAL_INT, .as.number = number};
  n->val = val;
  add_input(c, n, (exported_arg){.kind = ARG_SYM_INT, .name = n->name});
  session_table_put(c->s, c->number_nodes, address_key(e), n);
  return capture_int(c, e);
}

/* Make the placeholder of a leaf; its value in the capture goes to the next of c->leaves. */
static void input_leaf(capture *c, rush_value v, const char *name, const char *text)
{
  fx_node *n = fx_node_new(c->s, c->g, FX_PLACEHOLDER, name, name);
  const capture_dim *d = v.tag == RUSH_TAG_INT ? dim_of(c, text, -1, v.as.i) : NULL;

  n->target = n->name;
  GROW(c->s, c->leaves, c->n_leaves, c->cap_leaves, 16);
  if (v.tag == RUSH_TAG_TENSOR && v.as.tensor) {
    const rush_value made = add_tensor_input(c, v.as.tensor, n, text);
    c->leaves[c->n_leaves++] = made;
    return;
  }
  if (d) {
    const rush_value made = add_int_input(c, d, v.as.i, n, text);
    c->leaves[c->n_leaves++] = made;
    return;
  }
  fx_val *val = session_alloc_in(c->s, c->mem, sizeof *val);
  const fx_arg arg = constant_arg(c, v.tag == RUSH_TAG_TENSOR ? value_none() : v);
  *val = (fx_val){.kind = FX_VAL_CONSTANT, .as.constant = arg};
  n->val = val;
  add_input(c, n, (exported_arg){.kind = ARG_CONSTANT, .name = n->name, .constant = arg});
  c->leaves[c->n_leaves++] = v;
}

/* Return what stands for the next leaf of an argument. */
static rush_value next_leaf(capture *c, rush_value v, void *at)
{
  uint32_t *i = at;

  (void)v;
  return c->leaves[(*i)++];
}

/* Add the arguments that were given in one way; returns the number of them. */
static uint32_t add_arguments(capture *c, text_buf *spec, const function *f,
                              const rush_value *args, uint32_t n_args, capture_given given)
{
  uint32_t n = 0;

  for (uint32_t i = function_takes_self(f); i < n_args; i++) {
    const char *name = f->schema->args[i].name;
    if (c->options->given && c->options->given[i] != given)
      continue;
    if (!c->options->given && given != CAPTURE_BY_POSITION)
      continue;
    text_puts(spec, n++ ? ", " : "");
    visit_tree(c, spec, args[i], name, session_printf(c->s, "L['%s']", name), input_leaf);
  }
  return n;
}

static const char *names_given(capture *c, const function *f, uint32_t n_args)
{
  text_buf *out = session_text(c->s);
  const char *between = "";

  text_putc(out, '[');
  for (uint32_t i = function_takes_self(f); i < n_args && c->options->given; i++)
    if (c->options->given[i] == CAPTURE_BY_NAME) {
      text_puts(out, between);
      between = ", ";
      json_quote(out, str_of(f->schema->args[i].name));
    }
  text_putc(out, ']');
  return session_take_text(c->s, out);
}

static str keep_spec(capture *c, text_buf *spec)
{
  return str_of(capture_text(c, session_take_text(c->s, spec)));
}

/* Add arguments that are leaves of a structure that the caller describes. */
static void add_leaves(capture *c, exported_call_entry *root, const capture_structure *tree,
                       const rush_value *args, uint32_t n_args)
{
  if (n_args != tree->n_leaves)
    session_fail_status(c->s, RUSH_EARGUMENT, NULL, NULL,
                        "%u arguments are given, and %zu described", n_args, tree->n_leaves);
  root->arg_names = session_alloc_in(c->s, c->mem, (tree->n_arg_names + 1) * sizeof(char *));
  for (size_t i = 0; i < tree->n_arg_names; i++)
    root->arg_names[root->n_arg_names++] = capture_text(c, tree->arg_names[i]);
  for (uint32_t i = 0; i < n_args; i++)
    input_leaf(c, args[i], tree->names[i], capture_text(c, tree->texts[i]));
  root->in_spec = str_of(capture_text(c, tree->in_spec));
  check_found(c);
}

static void add_inputs(capture *c, exported_call_entry *root, const function *f,
                       const rush_value *args, uint32_t n_args)
{
  const uint32_t first = function_takes_self(f);
  text_buf *spec = session_text(c->s);

  if (c->options->structure) {
    add_leaves(c, root, c->options->structure, args + first, n_args - first);
    return;
  }

  root->arg_names = session_alloc_in(c->s, c->mem, ((size_t)n_args + 1) * sizeof(char *));
  for (uint32_t i = function_takes_self(f); i < n_args; i++)
    if (!c->options->given || c->options->given[i])
      root->arg_names[root->n_arg_names++] = capture_text(c, f->schema->args[i].name);
  text_puts(spec, "[1, ");
  begin_node(spec, "tuple", "null");
  begin_node(spec, "tuple", "null");
  add_arguments(c, spec, f, args, n_args, CAPTURE_BY_POSITION);
  text_puts(spec, "]}, ");
  begin_node(spec, "dict", names_given(c, f, n_args));
  add_arguments(c, spec, f, args, n_args, CAPTURE_BY_NAME);
  text_puts(spec, "]}]}]");
  root->in_spec = keep_spec(c, spec);
  check_found(c);
}

/* Return the arguments as the captured code sees them. */
static rush_value *captured_arguments(capture *c, const function *f, const rush_value *args,
                                      uint32_t n_args)
{
  rush_value *out = session_array(c->s, rush_value, (size_t)n_args + 1);
  uint32_t at = 0;

  for (uint32_t i = 0; i < n_args; i++)
    out[i] = capture_own_copy(c, args[i]);
  if (c->options->structure) {
    memcpy(out + function_takes_self(f), c->leaves, c->n_leaves * sizeof *out);
    return out;
  }
  for (int given = CAPTURE_BY_POSITION; given <= CAPTURE_BY_NAME; given++)
    for (uint32_t i = function_takes_self(f); i < n_args; i++)
      if (c->options->given ? (int)c->options->given[i] == given : given == CAPTURE_BY_POSITION)
        out[i] = capture_rebuild(c, args[i], next_leaf, &at);
  return out;
}

/* -- Outputs ----------------------------------------------------------------------------------- */

static void add_output(capture *c, program_output o, fx_arg a)
{
  if (c->n_outputs == c->cap_outputs) {
    uint32_t cap = c->cap_outputs;
    GROW(c->s, c->outputs, c->n_outputs, c->cap_outputs, 16);
    GROW(c->s, c->returned, c->n_outputs, cap, 16);
  }
  c->outputs[c->n_outputs] = o;
  c->returned[c->n_outputs++] = a;
}

/* Return what a spec says of a value; *a receives it as an argument of a node. */
static exported_arg spec_of(capture *c, rush_value v, fx_arg *a)
{
  static const exported_arg_kind kinds[] = {
    [FX_VAL_INT] = ARG_SYM_INT, [FX_VAL_FLOAT] = ARG_SYM_FLOAT, [FX_VAL_BOOL] = ARG_SYM_BOOL};
  const capture_number *number = capture_number_of(v);
  const bool is_tensor = v.tag == RUSH_TAG_TENSOR && v.as.tensor;

  *a = number || is_tensor ? capture_arg(c, v, NULL)
                           : constant_arg(c, v.tag == RUSH_TAG_TENSOR ? value_none() : v);
  if (a->kind == FX_NODE)
    return (exported_arg){.kind = is_tensor ? ARG_TENSOR : kinds[number->kind],
                          .name = a->as.node->name};
  return (exported_arg){.kind = ARG_CONSTANT, .name = "", .constant = *a};
}

static void output_leaf(capture *c, rush_value v, const char *name, const char *text)
{
  fx_arg a;

  (void)name;
  (void)text;
  if (v.tag == RUSH_TAG_STRING && !c->options->structure) /* a live capture may be for itself */
    capture_fail(c, "the program returns a text, which PyTorch does not open in a .pt2");
  const exported_arg arg = spec_of(c, v, &a);
  add_output(c, (program_output){.kind = EXPORTED_USER_OUTPUT, .arg = arg}, a);
}

/* Buffers that the code has replaced are outputs before the user's. */
static void add_written(capture *c)
{
  for (uint32_t i = 0; i < c->n_written; i++) {
    const capture_written *w = &c->written[i];
    const char *path = table_get(&c->paths, address_key(w->object));
    const class_attr *a = &w->object->type->cls->attrs[w->slot];
    const rush_value v = capture_field(c, w->object, w->slot);
    bool is_last = true;
    for (uint32_t k = i + 1; k < c->n_written; k++)
      is_last &= c->written[k].object != w->object || c->written[k].slot != w->slot;
    if (!path || !a->is_buffer || v.tag != RUSH_TAG_TENSOR || !is_last ||
        v.as.tensor == w->object->slots[w->slot].as.tensor)
      continue;
    const fx_arg arg = capture_arg(c, v, NULL);
    add_output(c,
               (program_output){.kind = EXPORTED_BUFFER_MUTATION,
                                .arg = {.kind = ARG_TENSOR, .name = arg.as.node->name},
                                .target = capture_text(c, path_of(c, path, a->name))},
               arg);
  }
}

static void add_outputs(capture *c, exported_call_entry *root, rush_value result)
{
  text_buf *spec = session_text(c->s);
  fx_arg *all = session_alloc_in(c->s, c->mem, sizeof *all);

  add_written(c);
  text_puts(spec, "[1, ");
  visit_tree(c, spec, result, "", "", output_leaf);
  text_puts(spec, "]");
  root->out_spec =
    c->options->structure ? str_of(capture_text(c, c->options->structure->out_spec))
                          : keep_spec(c, spec);
  fx_arg *items = session_alloc_in(c->s, c->mem, ((size_t)c->n_outputs + 1) * sizeof *items);
  if (c->n_outputs)
    memcpy(items, c->returned, c->n_outputs * sizeof *items);
  *all = (fx_arg){.kind = FX_TUPLE, .n = c->n_outputs, .as.items = items};
  fx_node *out = fx_node_new(c->s, c->g, FX_OUTPUT, "output", "output");
  out->args = all;
  out->n_args = 1;
}

/* -- Numbers that nothing uses ---------------------------------------------------------------- */

typedef struct dropping {
  const fx_node **by; /* by the index of a node: the last user of it that was dropped */
  const fx_node *user;
} dropping;

static void drop_use(void *arg, fx_node *n)
{
  dropping *d = arg;

  if (d->by[n->index] != d->user) /* users are counted, not uses */
    n->n_users -= n->n_users != 0;
  d->by[n->index] = d->user;
}

/* Remove nodes that compute numbers from sizes and that nothing uses, as torch.export does; others
 * stay. */
static void drop_numbers(capture *c, fx_graph *g)
{
  fx_node *before;

  session_enter(c->s);
  fx_graph_count_users(c->s, g);
  dropping d = {.by = session_array(c->s, const fx_node *, (size_t)g->n_nodes + 1)};
  for (fx_node *n = g->last; n; n = before) {
    const bool is_number = n->val && (n->val->kind == FX_VAL_INT || n->val->kind == FX_VAL_FLOAT ||
                                      n->val->kind == FX_VAL_BOOL);
    before = n->prev;
    if (n->op != FX_CALL_FUNCTION || !is_number || n->n_users ||
        strcmp(n->target, "torch.ops.aten.item.default") == 0)
      continue;
    d.user = n;
    fx_node_inputs(c->s, n, drop_use, &d);
    fx_node_unlink(n);
  }
  for (uint32_t i = 0; i < g->n_subgraphs; i++)
    drop_numbers(c, g->subgraphs[i].graph);
  session_leave(c->s);
}

/* -- Constants that nothing uses --------------------------------------------------------------- */

typedef struct only_users { /* by the index of a node: the last that uses it */
  fx_node **of;
  fx_node *user;
} only_users;

static void note_user(void *arg, fx_node *used)
{
  only_users *u = arg;

  u->of[used->index] = u->user;
}

static fx_node *only_user(const only_users *u, const fx_node *n)
{
  return n->n_users == 1 ? u->of[n->index] : NULL;
}

static bool calls(const fx_node *n, const char *target)
{
  return n && strcmp(n->target, target) == 0;
}

/* Remove the copy that torch.tensor() made of a constant, and its detach_, if nothing uses them;
 * returns whether that was so. */
static bool drop_copy(const only_users *u, const fx_node *constant)
{
  fx_node *copy = only_user(u, constant), *detach = copy ? only_user(u, copy) : NULL;

  if (!calls(copy, "torch.ops.aten.lift_fresh_copy.default"))
    return false;
  if (copy->n_users && (!calls(detach, "torch.ops.aten.detach_.default") || detach->n_users))
    return false;
  if (detach)
    fx_node_unlink(detach);
  fx_node_unlink(copy);
  return true;
}

/* As torch.export does: code that reads a constant needs no node for it. */
static void drop_unused_constants(capture *c)
{
  fx_graph *g = c->p->graph;
  only_users u = {.of = session_array(c->s, fx_node *, (size_t)g->n_nodes + 1)};
  table *placeholders = session_new(c->s, table);
  uint32_t n = 0;

  session_table_init(c->s, placeholders);
  fx_graph_count_users(c->s, g);
  for (u.user = g->first; u.user; u.user = u.user->next) {
    fx_node_inputs(c->s, u.user, note_user, &u);
    if (u.user->op == FX_PLACEHOLDER)
      session_table_put(c->s, placeholders, address_key(u.user->name), u.user);
  }
  for (uint32_t i = 0; i < c->n_inputs; i++) {
    const program_input in = c->inputs[i];
    fx_node *node = table_get(placeholders, address_key(in.arg.name));
    if (in.kind == INPUT_TENSOR_CONSTANT && drop_copy(&u, node)) {
      table_remove(c->state, str_of(in.target));
      fx_node_unlink(node);
    } else {
      c->inputs[n++] = in;
    }
  }
  c->n_inputs = n;
}

/* -- The program ------------------------------------------------------------------------------- */

/* Put the inputs in the order of their placeholders, which constants were moved to. */
static void order_inputs(capture *c)
{
  program_input *in = session_alloc_in(c->s, c->mem, ((size_t)c->n_inputs + 1) * sizeof *in);

  for (uint32_t i = 0; i < c->n_inputs; i++)
    if (c->inputs[i].kind != INPUT_USER)
      in[c->p->n_inputs++] = c->inputs[i];
  for (uint32_t i = 0; i < c->n_inputs; i++)
    if (c->inputs[i].kind == INPUT_USER)
      in[c->p->n_inputs++] = c->inputs[i];
  c->p->inputs = in;
}

/* Return the entry of the last call of a module whose structure is kept. */
static exported_call_entry *kept_call(capture *c, rush_value path)
{
  exported_call_entry *e = table_get(&c->kept, str_of(path.as.string->text));

  if (e)
    return e;
  e = session_new(c->s, exported_call_entry);
  *e = (exported_call_entry){.fqn = capture_text(c, path.as.string->text), .has_signature = true};
  session_table_put(c->s, &c->kept, str_of(e->fqn), e);
  return e;
}

void capture_keep_call(capture *c, const rush_value *in, uint32_t n, bool is_inputs)
{
  const uint32_t first = 2;

  for (uint32_t i = 0; i < first; i++)
    if (i >= n || in[i].tag != RUSH_TAG_STRING)
      capture_fail(c, "a call whose structure is to be kept has no path");
  exported_call_entry *e = kept_call(c, in[0]);
  exported_arg *args = session_alloc_in(c->s, c->mem, ((size_t)n + 1) * sizeof *args);
  fx_arg ignored;
  const str spec = str_of(capture_text(c, in[1].as.string->text));
  for (uint32_t i = first; i < n; i++)
    args[i - first] = spec_of(c, in[i], &ignored);
  if (is_inputs) {
    e->inputs = args, e->n_inputs = n - first, e->in_spec = spec;
  } else {
    e->outputs = args, e->n_outputs = n - first, e->out_spec = spec;
  }
}

static void add_calls(capture *c, const exported_call_entry *root)
{
  exported_call_entry *calls =
    session_alloc_in(c->s, c->mem, ((size_t)c->paths.n + 1) * sizeof *calls);

  calls[c->p->n_calls++] = *root;
  for (uint32_t i = 0; i < c->paths.n; i++) {
    const char *path = c->paths.entries[i].value;
    const exported_call_entry *kept = table_get(&c->kept, str_of(path));
    if (*path)
      calls[c->p->n_calls++] = kept ? *kept : (exported_call_entry){.fqn = path};
  }
  c->p->calls = calls;
}

static void describe_program(capture *c)
{
  static const char *const dialect[] = {"TRAINING"};
  exported_program *p = c->p;

  p->name = "model";
  p->place = "the program that was exported";
  p->major = EXPORT_SCHEMA_MAJOR;
  p->minor = EXPORT_SCHEMA_MINOR;
  p->torch_version = "2.13.0";
  p->dialects = (const char **)(uintptr_t)dialect;
  p->n_dialects = 1;
  p->outputs =
    session_alloc_in(c->s, c->mem, ((size_t)c->n_outputs + 1) * sizeof *p->outputs);
  if (c->n_outputs)
    memcpy(p->outputs, c->outputs, c->n_outputs * sizeof *p->outputs);
  p->n_outputs = c->n_outputs;
}

capture *capture_new(session *s, const capture_options *options, table *state)
{
  static const capture_options none;
  capture *c = session_new(s, capture);

  *c = (capture){.s = s, .options = options ? options : &none, .state = state};
  c->p = exported_program_new(s);
  c->mem = &c->p->mem;
  c->p->graph = c->g = session_keep(s, fx_graph_new(s, c->mem));
  c->env = sym_env_new(s);
  c->env->by_name = options && options->structure;
  c->found = session_array(s, int64_t, (size_t)c->options->n_dims + 1);
  session_table_init(s, &c->tensors);
  session_table_init(s, &c->paths);
  session_table_init(s, &c->classes);
  session_table_init(s, &c->calls);
  session_table_init(s, &c->kept);
  session_table_init(s, &c->fields);
  session_table_init(s, &c->copies);
  session_table_init(s, &c->homes);
  session_table_init(s, &c->texts);
  session_table_init(s, &c->places);
  session_table_init(s, &c->by_atom);
  session_table_init(s, &c->by_name);
  session_table_init(s, &c->by_dim);
  session_table_init(s, &c->hinted);
  session_table_init(s, &c->ranged);
  session_table_init(s, &c->storages);
  session_table_init(s, &c->attributes);
  c->number_nodes = session_new(s, table);
  session_table_init(s, c->number_nodes);
  c->first_sizes = session_new(s, table);
  session_table_init(s, c->first_sizes);
  for (size_t i = 0; options && options->structure && i < options->structure->n_classes; i++)
    session_table_put(s, &c->classes, str_of(options->structure->classes[2 * i]),
                      (void *)(uintptr_t)options->structure->classes[2 * i + 1]);
  return c;
}

exported_program *capture_function(session *s, function *f, const rush_value *args,
                                   uint32_t n_args, const capture_options *options, table *state)
{
  capture *c = capture_new(s, options, state);
  exported_call_entry root = {.fqn = "", .has_signature = true};
  const bool has_self = function_takes_self(f) && n_args;
  const char *class_name = table_get(&c->classes, str_of(""));
  capture_module module = {.path = "",
                           .class_name = class_name ? class_name : has_self ? f->self->name : ""};

  if (has_self) {
    add_module(c, args[0].as.object, "", PASS_PARAMETERS);
    add_module(c, args[0].as.object, "", PASS_BUFFERS);
    c->module = &module;
  }
  add_inputs(c, &root, f, args, n_args);
  const bool grad_mode = s->cx->grad_mode;
  s->cx->grad_mode = true; /* as torch.export, in which no_grad regions are seen */
  const rush_value result = capture_call(c, f, captured_arguments(c, f, args, n_args), n_args);
  s->cx->grad_mode = grad_mode;
  add_outputs(c, &root, result);
  drop_unused_constants(c);
  if (capture_is_live(c)) {
    drop_numbers(c, c->p->graph);
    capture_finish_values(c);
    capture_place_checks(c);
  }
  capture_wrap_regions(c);
  drop_numbers(c, c->p->graph);
  capture_finish_numbers(c);
  order_inputs(c);
  add_calls(c, &root);
  describe_program(c);
  fx_graph_count_users(s, c->p->graph);
  return c->p;
}
