/* export/verify.c -- the verifier of exported programs: faults, dialects, and the form of a graph.
 * Each graph is walked twice: once for the places of its nodes, since arguments may point anywhere,
 * and once for the rules.  Graphs inside are walked once each, however often they are used. */
#include "export/verify_int.h"

#include <stdio.h>
#include <stdlib.h>

/* -- Rules ------------------------------------------------------------------------------------- */

static const struct { const char *name, *demand; } rules[] = {
#define RULE(id, name, demand) {name, demand},
#include "export/verify.def"
#undef RULE
};

bool export_rule_at(uint32_t i, const char **name, const char **demand)
{
  if (i >= N_RULES)
    return false;
  *name = rules[i].name;
  *demand = rules[i].demand;
  return true;
}

/* -- Faults ------------------------------------------------------------------------------------ */

/* The author's place of a node, as text. */
typedef struct place_try {
  const fx_node *n;
  char text[200];
} place_try;

static void find_place(session *s, void *arg)
{
  place_try *job = arg;
  fx_place place;

  if (fx_place_of(fx_node_metadata(s, job->n, "stack_trace"), &place))
    snprintf(job->text, sizeof job->text, " (%.*s:%.*s)", (int)place.file.len, place.file.p,
             (int)place.line.len, place.line.p);
}

/* Append ' (net.py:7)', the author's place, if the node has one. */
static void print_place(verifier *v, const fx_node *n)
{
  place_try job = {.n = n};
  const char *why;

  if (n->metadata.len && verify_try(v, find_place, &job, &why))
    text_puts(v->out, job.text);
}

void verify_fault(verifier *v, verify_rule rule, const fx_node *n, const char *fmt, ...)
{
  va_list ap;

  if (v->n_faults++ >= EXPORT_MOST_FAULTS)
    return;
  text_printf(v->out, "%s: %s: ", rules[rule].name, v->p->place ? v->p->place : "program");
  if (n && n->at)
    text_printf(v->out, "offset %zu: ", n->at);
  if (n) {
    text_printf(v->out, "node '%s'", n->name ? n->name : "");
    if (v->at && *v->at->path)
      text_printf(v->out, " of the graph '%s'", v->at->path);
    print_place(v, n);
    text_puts(v->out, ": ");
  }
  va_start(ap, fmt);
  text_vprintf(v->out, fmt, ap);
  va_end(ap);
  text_putc(v->out, '\n');
}

bool verify_try(verifier *v, void (*body)(session *s, void *arg), void *arg, const char **why)
{
  rush_error err = RUSH_ERROR_INIT, *outer = v->s->cx->err;

  v->s->cx->err = &err;
  const rush_status st = session_run(v->s->cx, body, arg);
  v->s->cx->err = outer;
  const char *message = session_take_message(v->s, &err);
  *why = message ? message : "";
  session_look(v->s);
  if (st == RUSH_ENOMEM)
    session_check(v->s, call_nomem(v->s->cx));
  return st == RUSH_OK;
}

const char *verify_type_text(session *s, const type *t)
{
  text_buf *text = session_text(s);

  type_print(text, t);
  return session_take_text(s, text);
}

const char *verify_arg_kind(const fx_arg *a)
{
  static const char *const words[] = {"None",          "a value",   "an int",         "a float",
                                      "a bool",        "a complex", "a string",       "a dtype",
                                      "a layout",      "a memory format", "a device", "a list",
                                      "a tuple",       "a dict",    "an operator",    "an object"};

  return a->kind == FX_NODE ? verify_val_kind(a->as.node->val) : words[a->kind];
}

const char *verify_val_kind(const fx_val *v)
{
  static const char *const words[] = {"a tensor",  "a symbolic int", "a symbolic float",
                                      "a symbolic bool", "an object", "a list", "a constant"};

  return !v ? "nothing known" : v->kind == FX_VAL_LIST && v->is_tuple ? "a tuple" : words[v->kind];
}

/* -- Operators --------------------------------------------------------------------------------- */

/* Functions on symbolic numbers that PyTorch's verifier allows, by the names that files have for
 * them, and how many arguments they take (0: any); in the order of strcmp. */
static const struct allowed { const char *name; uint32_t n_args; } allowed[] = {
  {"_operator.abs", 1},      {"_operator.add", 2},    {"_operator.and_", 2},
  {"_operator.eq", 2},       {"_operator.floordiv", 2}, {"_operator.ge", 2},
  {"_operator.getitem", 2},  {"_operator.gt", 2},     {"_operator.le", 2},
  {"_operator.lshift", 2},   {"_operator.lt", 2},     {"_operator.mod", 2},
  {"_operator.mul", 2},      {"_operator.ne", 2},     {"_operator.neg", 1},
  {"_operator.not_", 1},     {"_operator.or_", 2},    {"_operator.pos", 1},
  {"_operator.pow", 2},      {"_operator.rshift", 2}, {"_operator.sub", 2},
  {"_operator.truediv", 2},  {"builtins.round", 0},   {"math.ceil", 1},
  {"math.floor", 1},         {"math.trunc", 1},       {"torch._sym_sqrt", 1},
  {"torch.sym_float", 1},    {"torch.sym_int", 1},    {"torch.sym_ite", 3},
  {"torch.sym_max", 2},      {"torch.sym_min", 2},    {"torch.sym_not", 1},
  {"torch.sym_sqrt", 1},     {"torch.sym_sum", 0}};

/* Functions of torch's own modules that are allowed before autograd's decompositions. */
static const char *const allowed_modules[] = {
  "torch._C._set_grad_enabled", "torch._functorch.predispatch.",
  "torch.amp.autocast_mode._enter_autocast", "torch.amp.autocast_mode._exit_autocast",
  "torch.autograd.grad_mode.set_grad_enabled",
  "torch.export.custom_ops._call_custom_autograd_function_in_pre_dispatch",
  "torch.fx.experimental.symbolic_shapes.cast_symbool_to_symint_guardless"};

static const char *const core_operators[] = {
#define CORE(name) name,
#include "export/core_aten.def"
#undef CORE
};

static int compare_names(const void *key, const void *item)
{
  return strcmp(key, *(const char *const *)item);
}
static bool begins(const char *text, const char *with)
{
  return strncmp(text, with, strlen(with)) == 0;
}

static bool is_allowed_module(const char *target)
{
  for (size_t i = 0; i < COUNT_OF(allowed_modules); i++)
    if (begins(target, allowed_modules[i]))
      return true;
  return false;
}

static bool is_core(verifier *v, const schema *sc)
{
  const char *dot = *sc->overload ? "." : "";

  return !begins(sc->name, "aten::") ||
         bsearch(session_printf(v->s, "%s%s%s", sc->name, dot, sc->overload), core_operators,
                 COUNT_OF(core_operators), sizeof *core_operators, compare_names) != NULL;
}

/* Check an operator of the table. */
static void check_operator(verifier *v, const fx_node *n, const op *o)
{
  if (v->is_functional && schema_is_mutable(o->schema))
    verify_fault(v, RULE_NOT_FUNCTIONAL, n,
                 "expected an operator that writes to nothing, found %s, which does", n->target);
  if (v->is_core && !is_core(v, o->schema))
    verify_fault(v, RULE_NOT_CORE, n, "expected an operator of core ATen, found %s", n->target);
  if (v->is_edge)
    verify_promotion(v, n, o);
  verify_arguments(v, n, o);
}

static void check_function(verifier *v, const fx_node *n)
{
  const struct allowed *f =
    bsearch(n->target, allowed, COUNT_OF(allowed), sizeof *allowed, compare_names);

  if (f)
    verify_symbolic(v, n, f->n_args);
  else if (!is_allowed_module(n->target))
    verify_fault(v, RULE_NOT_ALLOWED, n,
                 "expected an operator, or a function on symbolic numbers, found %s", n->target);
}

static void check_call(verifier *v, const fx_node *n)
{
  const op *o = NULL;

  if (verify_is_higher_order(n->target)) {
    verify_higher_order(v, n);
  } else if (strcmp(n->target, "_operator.getitem") == 0) {
    verify_getitem(v, n);
  } else if (!begins(n->target, "torch.ops.")) {
    check_function(v, n);
  } else {
    o = session_op_of_target(v->s, str_of(n->target));
    if (o)
      check_operator(v, n, o);
    else if (begins(n->target, "torch.ops.aten."))
      verify_fault(v, RULE_UNKNOWN_OPERATOR, n, "there is no operator %s in PyTorch 2.13",
                   n->target);
  }
  verify_value(v, n, o);
}

/* -- Uses -------------------------------------------------------------------------------------- */

static size_t position_of(const verify_graph *g, const fx_node *n)
{
  return (uintptr_t)table_get(&g->positions, address_key(n));
}

typedef struct use_check {
  verifier *v;
  const fx_node *user;
  size_t at;
} use_check;

static void check_use(void *arg, fx_node *used)
{
  const use_check *c = arg;
  const size_t at = position_of(c->v->at, used);

  if (!at)
    verify_fault(c->v, RULE_FOREIGN_NODE, c->user,
                 "expected arguments of this graph, found '%s', which is in none or in another",
                 used->name);
  else if (at >= c->at)
    verify_fault(c->v, RULE_USE_BEFORE_DEFINITION, c->user,
                 "expected arguments that are defined before, found '%s', which is defined later",
                 used->name);
}

/* -- A graph ----------------------------------------------------------------------------------- */

/* Note places, names and graphs inside.  Returns false if the list cannot be walked. */
static bool note_nodes(verifier *v, verify_graph *g)
{
  const fx_node *previous = NULL;
  size_t n_nodes = 0;

  for (const fx_node *n = g->graph->first; n; previous = n, n = n->next) {
    session_poll(v->s);
    if (n->prev != previous || n->graph != g->graph || ++n_nodes > g->graph->n_nodes) {
      verify_fault(v, RULE_NODE_LIST, n,
                   "expected one list of %u nodes of this graph, found a link to elsewhere",
                   g->graph->n_nodes);
      return false;
    }
    session_table_put(v->s, &g->positions, address_key(n), (void *)(uintptr_t)n_nodes);
    if (table_get(&g->names, str_of(n->name)))
      verify_fault(v, RULE_UNIQUE_NAMES, n, "expected a name of its own, found a second '%s'",
                   n->name);
    else
      session_table_put(v->s, &g->names, str_of(n->name), (void *)(uintptr_t)n);
  }
  for (uint32_t i = 0; i < g->graph->n_subgraphs; i++)
    session_table_put(v->s, &g->subgraphs, str_of(g->graph->subgraphs[i].name),
                      g->graph->subgraphs[i].graph);
  if (previous == g->graph->last && n_nodes == g->graph->n_nodes)
    return true;
  verify_fault(v, RULE_NODE_LIST, previous, "expected the last of %u nodes, found node %zu",
               g->graph->n_nodes, n_nodes);
  return false;
}

static void check_output(verifier *v, const fx_node *n)
{
  if (n->next)
    verify_fault(v, RULE_ONE_OUTPUT, n,
                 "expected the output as the last node, found '%s' behind it", n->next->name);
  if (n->n_args != 1 || n->n_kwargs)
    verify_fault(v, RULE_ONE_OUTPUT, n, "expected an output of one argument, found %u",
                 n->n_args + n->n_kwargs);
}

static void check_node(verifier *v, const fx_node *n, bool is_input_allowed)
{
  switch (n->op) {
  case FX_PLACEHOLDER:
    if (!is_input_allowed)
      verify_fault(v, RULE_PLACEHOLDERS_FIRST, n,
                   "expected inputs before all other nodes, found one behind '%s'", n->prev->name);
    verify_value(v, n, NULL);
    break;
  case FX_GET_ATTR:
    if (!n->target || !table_get(&v->at->subgraphs, str_of(n->target)))
      verify_fault(v, RULE_GET_ATTR, n, "expected the name of a graph inside, found '%s'",
                   n->target ? n->target : "");
    break;
  case FX_CALL_FUNCTION:
    check_call(v, n);
    break;
  case FX_OUTPUT:
    check_output(v, n);
    break;
  }
  verify_metadata(v, n);
}

static void check_nodes(verifier *v, const fx_graph *g)
{
  use_check use = {.v = v};
  bool is_input_allowed = true;

  for (const fx_node *n = g->first; n; n = n->next) {
    session_poll(v->s);
    is_input_allowed &= n->op == FX_PLACEHOLDER;
    use.user = n;
    use.at++;
    fx_node_inputs(v->s, n, check_use, &use);
    check_node(v, n, is_input_allowed);
  }
  if (!g->last || g->last->op != FX_OUTPUT)
    verify_fault(v, RULE_ONE_OUTPUT, g->last, "expected an output as the last node, found %s",
                 g->last ? g->last->name : "no node");
}

static void check_graph(verifier *v, const fx_graph *graph, const char *path)
{
  verify_graph *g = session_new(v->s, verify_graph);
  verify_graph *outer = v->at;
  const bool was_autocast = v->is_autocast;

  session_enter(v->s);
  *g = (verify_graph){.graph = graph, .path = path};
  session_table_init(v->s, &g->positions);
  session_table_init(v->s, &g->names);
  session_table_init(v->s, &g->subgraphs);
  session_table_init(v->s, &g->autocast);
  v->at = g;
  const bool is_list = note_nodes(v, g);
  if (is_list)
    check_nodes(v, graph);
  for (uint32_t i = 0; i < graph->n_subgraphs; i++) {
    const char *name = graph->subgraphs[i].name;
    v->is_autocast = was_autocast || table_get(&g->autocast, str_of(name));
    check_graph(v, graph->subgraphs[i].graph,
                session_printf(v->s, "%s%s%s", path, *path ? "." : "", name));
    v->at = g;
  }
  v->is_autocast = was_autocast;
  if (is_list && !outer)
    verify_signature(v);
  v->at = outer;
  session_leave(v->s);
}

/* -- The program ------------------------------------------------------------------------------- */

static const struct { const char *name; bool is_functional, is_core, is_edge; } dialects[] = {
  {"TRAINING", false, false, false}, {"ATEN", true, false, false}, {"CORE_ATEN", true, true, false},
  {"EDGE", true, true, true}};

/* Demand what the dialect does; returns false if it is not known. */
static bool add_dialect(verifier *v, const char *name)
{
  for (size_t i = 0; i < COUNT_OF(dialects); i++) {
    if (strcmp(dialects[i].name, name) != 0)
      continue;
    v->is_functional |= dialects[i].is_functional;
    v->is_core |= dialects[i].is_core;
    v->is_edge |= dialects[i].is_edge;
    return true;
  }
  return false;
}

static void choose_dialect(verifier *v)
{
  const char *wanted = v->o->dialect;

  if (wanted && !add_dialect(v, wanted))
    session_fail_status(v->s, RUSH_EARGUMENT, NULL, NULL,
                        "expected TRAINING, ATEN, CORE_ATEN or EDGE, found the dialect '%s'",
                        wanted);
  for (uint32_t i = 0; !wanted && i < v->p->n_dialects; i++)
    if (!add_dialect(v, v->p->dialects[i]))
      verify_fault(v, RULE_DIALECT, NULL, "expected TRAINING, ATEN or EDGE, found the dialect '%s'",
                   v->p->dialects[i]);
}

uint32_t export_verify(session *s, const exported_program *p, const export_verify_options *o,
                       text_buf *out)
{
  verifier *v = session_new(s, verifier);

  *v = (verifier){.s = s, .p = p, .o = o, .out = out};
  session_table_init(s, &v->exprs);
  session_table_init(s, &v->examples);
  session_table_init(s, &v->ranges);
  choose_dialect(v);
  verify_ranges(v);
  check_graph(v, p->graph, "");
  verify_late_examples(v);
  if (v->n_faults > EXPORT_MOST_FAULTS)
    text_printf(out, "%u more faults\n", v->n_faults - EXPORT_MOST_FAULTS);
  return v->n_faults;
}
