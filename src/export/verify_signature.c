/* export/verify_signature.c -- the signature of an exported program against its graph and its
 * state, the module call graph, and guards. */
#include "export/verify_int.h"

#include "formats/json.h"
#include "tensor/dtype.h"

/* -- Arguments of the signature ---------------------------------------------------------------- */

static const char *arg_kind(exported_arg_kind kind)
{
  static const char *const words[] = {"a tensor",   "a symbolic int", "a symbolic float",
                                      "a symbolic bool", "a constant", "an object", "a token"};

  return words[kind];
}

/* True if a value of that description can be what the signature says. */
static bool is_described_so(exported_arg_kind kind, const fx_val *val)
{
  static const fx_val_kind kinds[] = {FX_VAL_TENSOR, FX_VAL_INT,    FX_VAL_FLOAT, FX_VAL_BOOL,
                                      FX_VAL_CONSTANT, FX_VAL_OBJECT, FX_VAL_TENSOR};

  return !val || val->kind == kinds[kind];
}

/* True if two described tensors have one dtype and sizes that can be the same. */
static bool can_be_same(const fx_val *a, const fx_val *b)
{
  if (!a || !b || a->kind != FX_VAL_TENSOR || b->kind != FX_VAL_TENSOR)
    return true;
  const fx_tensor *x = a->as.tensor, *y = b->as.tensor;
  if (x->dtype != y->dtype || x->n_dims != y->n_dims)
    return false;
  for (uint32_t i = 0; i < x->n_dims; i++)
    if (x->sizes[i].has_value && y->sizes[i].has_value &&
        x->sizes[i].value.i != y->sizes[i].value.i)
      return false;
  return true;
}

/* -- Inputs ------------------------------------------------------------------------------------ */

/* What the outputs of the signature may name. */
typedef struct named_inputs {
  table parameters, buffers, users; /* name -> fx_node of the input */
} named_inputs;

/* Compare a weight with what is known of its input. */
static void check_state_shape(verifier *v, const fx_node *n, const char *target,
                              const export_state *state)
{
  const fx_tensor *t = n->val && n->val->kind == FX_VAL_TENSOR ? n->val->as.tensor : NULL;
  bool same = true;

  if (!t || state->n_dims < 0)
    return;
  same = t->dtype == state->dtype && (int)t->n_dims == state->n_dims;
  for (int i = 0; same && i < state->n_dims; i++)
    same = !t->sizes[i].has_value || t->sizes[i].value.i == state->sizes[i];
  if (!same)
    verify_fault(v, RULE_STATE_SHAPE, n,
                 "expected '%s' with the dtype and sizes of its input, %s of %u dimensions, found "
                 "%s of %d dimensions, or others of their sizes",
                 target, dtype_name(t->dtype), t->n_dims, dtype_name(state->dtype), state->n_dims);
}

static void check_state(verifier *v, const fx_node *n, const program_input *in)
{
  const bool is_constant = in->kind == INPUT_TENSOR_CONSTANT || in->kind == INPUT_CUSTOM_OBJECT ||
                           (in->kind == INPUT_BUFFER && !in->is_persistent);
  const char *target = in->target ? in->target : "";

  if (!v->o->state || in->kind == INPUT_USER || in->kind == INPUT_TOKEN)
    return;
  const export_state *state = table_get(v->o->state, str_of(target));
  const bool is_there = state && (is_constant ? state->is_constant || state->is_weight
                                              : state->is_weight || in->kind == INPUT_BUFFER);
  if (!is_there)
    verify_fault(v, RULE_STATE_MISSING, n, "expected '%s' among the %s of the archive, found none",
                 target, is_constant ? "constants" : "weights");
  else if (in->kind == INPUT_PARAMETER && !state->is_parameter)
    verify_fault(v, RULE_STATE_KIND, n, "expected the parameter '%s', found a buffer", target);
  else if (in->kind == INPUT_BUFFER && !in->is_persistent && state->is_weight)
    verify_fault(v, RULE_STATE_KIND, n,
                 "expected '%s' among the constants, since it is not persistent, found a weight",
                 target);
  else if (in->kind != INPUT_CUSTOM_OBJECT)
    check_state_shape(v, n, target, state);
}

static void check_input(verifier *v, const fx_node *n, const program_input *in)
{
  const bool is_object = in->kind == INPUT_CUSTOM_OBJECT;

  if (strcmp(in->arg.name, n->name) != 0 && in->arg.kind != ARG_CONSTANT)
    verify_fault(v, RULE_INPUT_NAME, n, "expected the name of the signature's input, '%s'",
                 in->arg.name);
  if (!is_described_so(in->arg.kind, n->val))
    verify_fault(v, RULE_INPUT_KIND, n, "expected %s, as the signature has it, found %s",
                 arg_kind(in->arg.kind), verify_val_kind(n->val));
  if (in->kind != INPUT_USER && in->kind != INPUT_TOKEN &&
      in->arg.kind != (is_object ? ARG_CUSTOM_OBJECT : ARG_TENSOR))
    verify_fault(v, RULE_INPUT_KIND, n, "expected %s as state, found %s",
                 is_object ? "an object" : "a tensor", arg_kind(in->arg.kind));
  check_state(v, n, in);
}

static void note_input(verifier *v, named_inputs *names, const fx_node *n, const program_input *in)
{
  void *node = (void *)(uintptr_t)n;

  if (in->kind == INPUT_USER)
    session_table_put(v->s, &names->users, str_of(in->arg.name), node);
  else if (in->kind == INPUT_PARAMETER || in->kind == INPUT_BUFFER)
    session_table_put(v->s, in->kind == INPUT_BUFFER ? &names->buffers : &names->parameters,
                      str_of(in->target ? in->target : ""), node);
}

static void check_inputs(verifier *v, named_inputs *names)
{
  const exported_program *p = v->p;
  const fx_node *n = p->graph->first;
  uint32_t n_inputs = 0;

  for (const fx_node *i = n; i && i->op == FX_PLACEHOLDER; i = i->next)
    n_inputs++;
  if (n_inputs != p->n_inputs)
    verify_fault(v, RULE_INPUT_COUNT, NULL, "expected %u inputs, as the graph has, found %u",
                 n_inputs, p->n_inputs);
  for (uint32_t i = 0; i < p->n_inputs && i < n_inputs; i++, n = n->next) {
    session_poll(v->s);
    if (n_inputs == p->n_inputs)
      check_input(v, n, &p->inputs[i]);
    note_input(v, names, n, &p->inputs[i]);
  }
}

/* -- Outputs ----------------------------------------------------------------------------------- */

/* The place of a kind among the outputs. */
static int rank_of(exported_output_kind kind)
{
  switch (kind) {
  case EXPORTED_TOKEN:
    return 0;
  case EXPORTED_BUFFER_MUTATION:
  case EXPORTED_PARAMETER_MUTATION:
  case EXPORTED_USER_INPUT_MUTATION:
    return 1;
  case EXPORTED_USER_OUTPUT:
  case EXPORTED_LOSS_OUTPUT:
    return 2;
  case EXPORTED_GRADIENT_TO_PARAMETER:
  case EXPORTED_GRADIENT_TO_USER_INPUT:
    return 3;
  }
  return 4;
}

/* Return the inputs that an output of the kind may name; NULL: it names none. */
static const table *targets_of(const named_inputs *names, exported_output_kind kind)
{
  switch (kind) {
  case EXPORTED_BUFFER_MUTATION:
    return &names->buffers;
  case EXPORTED_PARAMETER_MUTATION:
  case EXPORTED_GRADIENT_TO_PARAMETER:
    return &names->parameters;
  case EXPORTED_USER_INPUT_MUTATION:
  case EXPORTED_GRADIENT_TO_USER_INPUT:
    return &names->users;
  case EXPORTED_USER_OUTPUT:
  case EXPORTED_LOSS_OUTPUT:
  case EXPORTED_TOKEN:
    break;
  }
  return NULL;
}

static void check_target(verifier *v, const named_inputs *names, table *written,
                         const program_output *out, const fx_node *n)
{
  const table *targets = targets_of(names, out->kind);
  const char *target = out->target ? out->target : "";

  if (!targets)
    return;
  const fx_node *input = table_get(targets, str_of(target));
  const char *key = session_printf(v->s, "%d %s", rank_of(out->kind), target);
  if (!input)
    verify_fault(v, RULE_OUTPUT_TARGET, n,
                 "expected an output that names an input of its kind, found '%s'", target);
  else if (table_get(written, str_of(key)))
    verify_fault(v, RULE_OUTPUT_TARGET, n, "expected one output for '%s', found a second", target);
  else if (n && !can_be_same(n->val, input->val))
    verify_fault(v, RULE_OUTPUT_SHAPE, n,
                 "expected the dtype and sizes of '%s', which it is written to, found others",
                 target);
  session_table_put(v->s, written, str_of(key), (void *)(uintptr_t)out);
}

static void check_output(verifier *v, const program_output *out, uint32_t i, const fx_arg *a)
{
  const fx_node *n = a->kind == FX_NODE ? a->as.node : NULL;

  if (!n) {
    if (out->arg.kind != ARG_CONSTANT)
      verify_fault(v, RULE_OUTPUT_NAME, v->p->graph->last,
                   "expected '%s' as output %u, as the signature has it, found %s", out->arg.name,
                   i, verify_arg_kind(a));
    return;
  }
  if (strcmp(out->arg.name, n->name) != 0)
    verify_fault(v, RULE_OUTPUT_NAME, v->p->graph->last,
                 "expected '%s' as output %u, as the signature has it, found '%s'", out->arg.name,
                 i, n->name);
  else if (!is_described_so(out->arg.kind, n->val))
    verify_fault(v, RULE_OUTPUT_NAME, n, "expected output %u to be %s, found %s", i,
                 arg_kind(out->arg.kind), verify_val_kind(n->val));
}

static void check_outputs(verifier *v, const named_inputs *names)
{
  const exported_program *p = v->p;
  const fx_node *last = p->graph->last;
  table *written = session_new(v->s, table);

  if (!last || last->op != FX_OUTPUT || last->n_args != 1)
    return;
  const verify_items items = verify_items_of(&last->args[0]);
  session_table_init(v->s, written);
  if (items.n != p->n_outputs)
    verify_fault(v, RULE_OUTPUT_COUNT, NULL, "expected %u outputs, as the graph has, found %u",
                 items.n, p->n_outputs);
  for (uint32_t i = 0; i < p->n_outputs && i < items.n; i++) {
    const program_output *out = &p->outputs[i];
    session_poll(v->s);
    if (items.n == p->n_outputs)
      check_output(v, out, i, &items.items[i]);
    check_target(v, names, written, out,
                 items.items[i].kind == FX_NODE ? items.items[i].as.node : NULL);
    if (i && rank_of(out->kind) < rank_of(out[-1].kind))
      verify_fault(v, RULE_OUTPUT_ORDER, last,
                   "expected tokens, then mutations, then results, then gradients, found output %u "
                   "behind one of a later kind",
                   i);
  }
}

/* -- Module calls ------------------------------------------------------------------------------ */

typedef struct spec_try {
  str text;
  uint32_t n_leaves;
} spec_try;

/* Count the leaves of a tree spec: {"type", "context", "children_spec"}; a leaf has no type. */
static void count_leaves(session *s, json *j, spec_try *job)
{
  bool is_leaf = false;
  str key;

  session_enter(s);
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "type")) {
      is_leaf = json_is_null(j);
      json_skip(j);
    } else if (str_is(key, "children_spec")) {
      for (json_begin_array(j); json_next_item(j);)
        count_leaves(s, j, job);
    } else {
      json_skip(j);
    }
  }
  job->n_leaves += is_leaf;
  session_leave(s);
}

/* Read "[1, SPEC]". */
static void read_spec(session *s, void *arg)
{
  spec_try *job = arg;
  const input in = {"tree spec", job->text};
  json j;

  json_init(&j, s, &in);
  json_begin_array(&j);
  if (!json_next_item(&j))
    json_fail(&j, "a tree spec without a version");
  json_skip(&j);
  if (!json_next_item(&j))
    json_fail(&j, "a tree spec without a tree");
  count_leaves(s, &j, job);
  if (json_next_item(&j))
    json_fail(&j, "a tree spec of two trees");
  json_end(&j);
}

static void check_spec(verifier *v, const char *fqn, const char *which, str text, uint32_t n_values)
{
  spec_try job = {.text = text};
  const char *why;

  if (!verify_try(v, read_spec, &job, &why))
    verify_fault(v, RULE_CALL_SPEC, NULL, "the %s of the module '%s' cannot be read: %s", which,
                 fqn, why);
  else if (job.n_leaves != n_values)
    verify_fault(v, RULE_CALL_SPEC, NULL,
                 "expected %u leaves of the %s of the module '%s', as many as values, found %u",
                 n_values, which, fqn, job.n_leaves);
}

static void check_call_values(verifier *v, const exported_call_entry *e, const char *which,
                              const exported_arg *args, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    if (*args[i].name && !table_get(&v->at->names, str_of(args[i].name)))
      verify_fault(v, RULE_CALL_VALUE, NULL,
                   "expected %s of the module '%s' in the graph, found no value '%s'", which,
                   e->fqn, args[i].name);
}

static void check_root(verifier *v)
{
  const exported_program *p = v->p;
  const exported_call_entry *e = p->n_calls ? &p->calls[0] : NULL;
  uint32_t n_inputs = 0, n_outputs = 0;

  if (!e || *e->fqn || !e->has_signature) {
    verify_fault(
      v, RULE_CALL_ROOT, NULL,
      "expected the program itself, '', with a signature as the first module call, found "
      "%s%s",
      e ? e->fqn : "none", e && !e->has_signature ? " without one" : "");
    return;
  }
  for (uint32_t i = 0; i < p->n_inputs; i++)
    n_inputs += p->inputs[i].kind == INPUT_USER;
  for (uint32_t i = 0; i < p->n_outputs; i++)
    n_outputs += rank_of(p->outputs[i].kind) == 2;
  check_spec(v, "", "in_spec", e->in_spec, n_inputs);
  check_spec(v, "", "out_spec", e->out_spec, n_outputs);
}

static void check_calls(verifier *v)
{
  check_root(v);
  for (uint32_t i = 0; i < v->p->n_calls; i++) {
    const exported_call_entry *e = &v->p->calls[i];
    session_poll(v->s);
    if (i && !*e->fqn)
      verify_fault(v, RULE_CALL_ROOT, NULL,
                   "expected the program itself, '', as the first module call only, found it "
                   "again");
    check_call_values(v, e, "an input", e->inputs, e->n_inputs);
    check_call_values(v, e, "an output", e->outputs, e->n_outputs);
    if (i && e->has_signature) {
      check_spec(v, e->fqn, "in_spec", e->in_spec, e->n_inputs);
      check_spec(v, e->fqn, "out_spec", e->out_spec, e->n_outputs);
    }
  }
}

/* -- Guards ------------------------------------------------------------------------------------ */

typedef struct guard_try {
  verifier *v;
  const char *text;
  const expression *e;
  const expression *stranger; /* a symbol that is about no argument */
} guard_try;

/* Return the text between the first two apostrophes of *t, and what follows; empty: there are
 * none. */
static str take_quoted(str *t)
{
  const char *from = t->len ? memchr(t->p, '\'', t->len) : NULL, *end = t->p + t->len;
  const char *to = from ? memchr(from + 1, '\'', (size_t)(end - from - 1)) : NULL;

  if (!to)
    return (str){0};
  *t = (str){to + 1, (size_t)(end - to - 1)};
  return (str){from + 1, (size_t)(to - from - 1)};
}

/* True if the name is `wanted`, or an item of it: forward(*args) has args_0, args_1. */
static bool is_argument(const char *name, str wanted)
{
  const size_t n = strlen(name);

  return wanted.len && n >= wanted.len && memcmp(name, wanted.p, wanted.len) == 0 &&
         (n == wanted.len || name[wanted.len] == '_');
}

/* Note a symbol that is not L['NAME'] or, of **kwargs, L['kwargs']['NAME'], with the name of an
 * argument. */
static void check_guard_symbol(void *arg, const expression *symbol)
{
  guard_try *job = arg;
  const exported_call_entry *root = &job->v->p->calls[0];
  str text = symbol->name;
  const str name = take_quoted(&text), key = take_quoted(&text);
  bool is_known = root->arg_names == NULL;

  for (uint32_t i = 0; i < root->n_arg_names && !is_known; i++)
    is_known = is_argument(root->arg_names[i], name) || str_is(key, root->arg_names[i]);
  if (!is_known && !job->stranger)
    job->stranger = symbol;
}

static void read_guard(session *s, void *arg)
{
  guard_try *job = arg;

  job->e =
    expression_read(s, s->mem, "guards_code", str_of(job->text), EXPRESSION_PYTHON);
  if (job->v->p->n_calls)
    expression_symbols(s, job->e, check_guard_symbol, job);
  if (job->stranger)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "%.*s", (int)job->stranger->name.len,
                        job->stranger->name.p);
}

static void check_guards(verifier *v)
{
  for (uint32_t i = 0; i < v->p->n_guards; i++) {
    guard_try job = {.v = v, .text = v->p->guards[i]};
    const char *why;
    if (verify_try(v, read_guard, &job, &why))
      continue;
    if (job.stranger)
      verify_fault(v, RULE_GUARD_INPUT, NULL,
                   "expected a guard about arguments of forward, found %s in: %s", why, job.text);
    else
      verify_fault(v, RULE_GUARD_SYNTAX, NULL, "%s, in the guard %s", why, job.text);
  }
}

void verify_signature(verifier *v)
{
  named_inputs *names = session_new(v->s, named_inputs);

  session_table_init(v->s, &names->parameters);
  session_table_init(v->s, &names->buffers);
  session_table_init(v->s, &names->users);
  check_inputs(v, names);
  check_outputs(v, names);
  check_calls(v);
  check_guards(v);
}
