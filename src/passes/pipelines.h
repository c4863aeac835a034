/* passes/pipelines.h -- the sequences of passes that PyTorch's executors run, as tables.
 *
 * An entry is a pass, another pipeline, or PHASE_CUSTOM: the passes that are registered in the
 * context.  Passes that may round differently are left out unless they are asked for. */
#ifndef RUSH_PASSES_PIPELINES_H
#define RUSH_PASSES_PIPELINES_H

#include "passes/passes.h"

#define PHASE_CUSTOM "custom_passes"

typedef struct graph_pipeline {
  const char *name; /* PyTorch's function */
  const char *const *phases; /* NULL-ended */
} graph_pipeline;

extern const graph_pipeline graph_pipelines[];
extern const uint32_t n_graph_pipelines;

/* Called after a phase with the pipeline that it belongs to; `left_out`: it was not run. */
typedef void phase_seen(session *s, const ir_graph *g, const char *pipeline, const char *phase,
                        bool left_out, void *arg);
/* Run the pipeline of that name over a graph.  `relaxed`: with passes that may round
 * differently. */
void pipeline_run(session *s, ir_graph *g, const char *name, bool relaxed, phase_seen *seen,
                  void *arg);

#endif
