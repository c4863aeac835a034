/* api/ir_gradient.c -- differentiation of graphs for callers: a graph goes in, two and their
 * numbers come out. */
#include "api/ir_int.h"

#include "autodiff/differentiate.h"

typedef struct gradient_job {
  edit e; /* first: what the session's body gets */
  ir_graph *f, *df;
  rush_value numbers;
} gradient_job;

static void release_held(void *held) { value_release(*(rush_value *)held); }

/* Append a list of numbers. */
static void put_numbers(session *s, rush_list *to, const uint32_t *numbers, uint32_t n)
{
  int64_t *wide = session_array(s, int64_t, n + 1);
  rush_value v;

  for (uint32_t i = 0; i < n; i++)
    wide[i] = numbers[i];
  session_check(s, list_of_ints(s->cx, wide, n, &v));
  session_check(s, list_append_steal(s->cx, to, v));
}

static void put_all(session *s, gradient_job *job, const graph_gradient *g)
{
  const diff_indices *all[] = {&g->input_vjps, &g->captured_inputs, &g->captured_outputs,
                               &g->output_vjps};
  type_store *types = type_store_of_context(s->cx->ctx);
  rush_list *l;

  if (!types)
    session_check(s, call_nomem(s->cx));
  const type *ints = session_type(s, type_list(types, type_simple(TYPE_INT)));
  session_check(s, list_new(s->cx, ints, 5, &l));
  job->numbers = value_heap_steal(RUSH_TAG_LIST, l);
  session_defer(s, release_held, &job->numbers);
  put_numbers(s, l, &g->n_outputs, 1);
  for (size_t i = 0; i < COUNT_OF(all); i++)
    put_numbers(s, l, all[i]->at, all[i]->n);
}

static void run(session *s, edit *e)
{
  gradient_job *job = (gradient_job *)(void *)e;
  const diff_options options = {.needed = NULL};
  graph_gradient g;
  ir_graph *of = ir_graph_twin(s, e->g);

  session_defer(s, ir_graph_free_deferred, of);
  ir_graph_resolve(s, of);
  ir_check(s, of, "the graph");
  differentiate(s, of, &options, &g);
  put_all(s, job, &g);
  differentiate_pack(s, g.df);
  job->f = session_keep(s, g.f);
  job->df = session_keep(s, g.df);
  session_keep(s, &job->numbers);
}

rush_status api_graph_differentiate(const rush_graph *g, rush_graph **f, rush_graph **df,
                                    rush_value *numbers, rush_error *err)
{
  gradient_job job = {.f = NULL};

  TRY(ir_edit(graph_in(g), run, &job.e, err));
  *f = graph_out(job.f);
  *df = graph_out(job.df);
  *numbers = job.numbers;
  return RUSH_OK;
}
