/* passes/pipelines.c -- the tables of the pipelines, and running one.
 *
 * They are those of PyTorch's graph executors (runOptimization, runNondiffOptimization,
 * runProfilingOptimizations).  No pass makes bailouts (insertBailOuts): a guard that fails
 * continues in the code of the unchanged graph.  Differentiable subgraphs are cut out and small
 * ones put back; the derivatives themselves are the executor's (docs/autograd.md). */
#include "passes/pipelines.h"
#include "passes/passes_int.h"

static const char *const optimization[] = {
  "dce", "cse", "peephole", "constant_propagation", "constant_pooling", "loop_unrolling", "cse",
  "check_inplace", NULL,
};
static const char *const nondiff[] = {
  "decompose_ops", "lower_simple_tuples", "batch_mm", "quant_fusion", "fuse", PHASE_CUSTOM, NULL,
};
static const char *const profiling[] = {
  "insert_guards", "lower_grad_of", "guard_elimination", "specialize_autogradzero",
  "constant_propagation", "runOptimization", "create_autodiff_subgraphs",
  "inline_autodiff_subgraphs", "runNondiffOptimization", "dce", NULL,
};

const graph_pipeline graph_pipelines[] = {
  {"runOptimization", optimization},
  {"runNondiffOptimization", nondiff},
  {"runProfilingOptimizations", profiling},
};
const uint32_t n_graph_pipelines = COUNT_OF(graph_pipelines);

static const graph_pipeline *find_pipeline(const char *name)
{
  for (uint32_t i = 0; i < n_graph_pipelines; i++)
    if (strcmp(graph_pipelines[i].name, name) == 0)
      return &graph_pipelines[i];
  return NULL;
}

void pipeline_run(session *s, ir_graph *g, const char *name, bool relaxed, phase_seen *seen,
                  void *arg)
{
  const graph_pipeline *pipeline = find_pipeline(name);

  ASSERT(pipeline, "a pipeline of the table");
  session_enter(s);
  for (const char *const *phase = pipeline->phases; *phase; phase++) {
    const graph_pass *p = pass_find(str_of(*phase));
    const bool left_out = p && !p->exact && !relaxed;

    if (find_pipeline(*phase)) {
      pipeline_run(s, g, *phase, relaxed, seen, arg);
      continue;
    }
    ASSERT(p || strcmp(*phase, PHASE_CUSTOM) == 0, "a phase is a pass of passes.def");
    if (!p) {
      pass_run_registered(s, g);
    } else if (!left_out) {
      p->run(s, g);
      ir_verify(s, g, p->name);
    }
    seen(s, g, name, *phase, left_out, arg);
  }
  session_leave(s);
}
