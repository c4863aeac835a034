/* passes/named.c -- the library's own passes by name: a sorted table made from a .def file, lookup
 * by binary search, and running a list of names. Graphs are checked before a pass runs, with the
 * rules for emitted graphs or for finished ones, depending on the pass's flag. */
#include "passes/passes_int.h"

const graph_pass graph_passes[] = {
#define PASS(name, exact, flags, what) {#name, pass_##name, exact, flags, what},
#include "passes/passes.def"
#undef PASS
};
const uint32_t n_graph_passes = COUNT_OF(graph_passes);

/* The names of the note that describes PyTorch's executors, where its Python has others. */
static const struct { const char *name, *pass; } synonyms[] = {
  {"eliminate_redundant_guards", "guard_elimination"},
  {"propagate_input_shapes", "complete_shape_analysis"},
  {"propagate_requires_grad", "requires_grad_analysis"},
  {"unroll_loops", "loop_unrolling"},
};

const graph_pass *pass_find(str name)
{
  for (size_t i = 0; i < COUNT_OF(synonyms); i++)
    if (str_is(name, synonyms[i].name))
      name = str_of(synonyms[i].pass);

  uint32_t lo = 0, hi = n_graph_passes;

  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    const char *other = graph_passes[mid].name;
    ASSERT(!mid || strcmp(graph_passes[mid - 1].name, other) < 0, "passes.def is sorted by name");
    int order = strncmp(name.p, other, name.len);

    if (order == 0 && !other[name.len])
      return &graph_passes[mid];
    if (order > 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return NULL;
}

/* Read the next name of "a,b,c"; returns false at the end. */
static bool next_name(const char **names, str *out)
{
  if (!**names)
    return false;
  *out = (str){*names, strcspn(*names, ",")};
  *names += out->len + ((*names)[out->len] == ',');
  return true;
}

/* Check what passes for emitted graphs rely on; ir/verify.c checks finished graphs. */
static void check_emitted(session *s, ir_node *n, void *arg)
{
  bool ok = true;

  (void)arg;
  if (n->kind == IR_LOAD || n->kind == IR_STORE)
    ok = n->attrs && n->attrs->kind == ATTR_STRING && strcmp(n->attrs->name, "name") == 0 &&
         (n->kind == IR_LOAD ? n->n_outputs == 1 : n->n_inputs == 1);
  else if (n->kind == IR_IF)
    ok = n->n_inputs == 1 && n->n_blocks == 2 && ir_block_n_outputs(n->blocks[0]) == n->n_outputs &&
         ir_block_n_outputs(n->blocks[1]) == n->n_outputs;
  else if (n->kind == IR_LOOP)
    ok = n->n_inputs >= 1 &&
         (n->n_blocks == 1 || (n->n_blocks == 2 && ir_block_n_outputs(n->blocks[1]) == 1)) &&
         ir_block_n_inputs(n->blocks[0]) >= 1 &&
         (n->n_blocks == 2 || ir_block_n_outputs(n->blocks[0]) >= 1);
  else if (n->kind == IR_CLOSURE)
    ok = n->n_blocks == 1 && n->n_outputs == 1 && ir_block_n_inputs(n->blocks[0]) == 0 &&
         ir_block_n_outputs(n->blocks[0]) == 1;
  else if (n->kind == IR_WITH)
    ok = n->n_blocks == 2;
  if (!ok)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                        "the graph is broken: a %s is not as it is emitted", ir_node_kind_name(n));
}

static void check_before(session *s, ir_graph *g, const graph_pass *p)
{
  if (p->flags & PASS_EARLY)
    pass_each(s, g->block, check_emitted, NULL);
  else
    ir_check(s, g, p->name);
}

void pass_run_by_name(session *s, ir_graph *g, const char *names)
{
  bool checked = false;
  str name;

  while (next_name(&names, &name)) {
    const graph_pass *p = pass_find(name);
    const uint32_t n_inputs = ir_block_n_inputs(g->block);

    if (!p)
      session_fail_status(s, RUSH_EARGUMENT, NULL, NULL, "there is no pass '%.*s'", (int)name.len,
                          name.p);
    if (!checked)
      check_before(s, g, p);
    checked = !(p->flags & PASS_EARLY); /* what follows lowering is checked once more */
    p->run(s, g);
    ASSERT(p->flags & PASS_SIGNATURE || ir_block_n_inputs(g->block) == n_inputs,
           "a pass that may change the graph's inputs has the flag");
#ifndef NDEBUG
    if (!(p->flags & PASS_EARLY))
      ir_verify(s, g, p->name);
#endif
  }
}

/* -- For every function ------------------------------------------------------------------------ */

static rush_status run_one(rush_pass *p, void *user)
{
  const graph_pass *pass = user;

  pass->run(p->s, p->graph); /* ours: the jump crosses no foreign frame */
  return RUSH_OK;
}

rush_status pass_add_named(context *c, const char *names, rush_error *err)
{
  str name;

  while (next_name(&names, &name)) {
    const graph_pass *p = pass_find(name);

    if (!p)
      return error_set(err, RUSH_EARGUMENT, "there is no pass '%.*s'", (int)name.len, name.p);
    if (p->flags & PASS_SIGNATURE)
      return error_set(err, RUSH_EARGUMENT,
                       "the pass %s changes what functions take: it runs over graphs only",
                       p->name);
    rush_pass_def def = {.struct_bytes = sizeof def, .name = p->name, .order = -1, .run = run_one,
                         .user = (void *)(uintptr_t)p};
    rush_status st = pass_register(c, &def, err);
    if (st != RUSH_OK)
      return st;
  }
  return RUSH_OK;
}
