/* trace/define.c -- defines traced functions in their program.
 *
 * Functions get free names in the order in which calls were traced, as in PyTorch; calls between
 * them are connected before their graphs are handed over.  Graphs are verified, since they may come
 * from a text, too. */
#include "ir/facts.h"
#include "passes/passes.h"
#include "script/front/host.h"
#include "trace/recorder_int.h"

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

/* Define a function; `exact`: operators stay as they were called. */
static function *define(session *s, program *p, const type *self, const char *name, ir_graph *g,
                        bool exact)
{
  session_defer(s, ir_graph_free_deferred, g);
  ir_check(s, g, name);
  if (!exact)
    pass_normalize_ops(s, g);
  function *f = self ? class_add_method(s, self, name) : program_add_function(s, p, name);
  f->schema = schema_of(s, p, f->name, g, self != NULL);
  function_set_graph_steal(f, session_keep(s, g));
  atomic_store(&f->state, FUNCTION_COMPILED);
  return f;
}

function *trace_function_steal(session *s, program *p, const type *self, const char *name,
                               ir_graph *g)
{
  return define(s, p, self, name, g, false);
}

/* Return a name that no method of the class, or (for a task) no function of the program has. */
static const char *free_name(session *s, const recorder *r, const type *self, uint32_t n_tasks)
{
  const char *name = "forward";

  if (!self)
    return script_host_unique(s, r->p,
                              session_printf(s, "__torch__.__forked_function_%u", n_tasks));
  for (uint32_t k = 1; class_find_method(self, name); k++)
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
    f->made = define(s, r->p, f->self, f->name, g, r->keeps_unused);
  }
  return r->functions[r->n_functions - 1].made;
}
