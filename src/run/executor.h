/* run/executor.h -- plans: code made for the arguments that a function gets.
 *
 * A function's canonical code (run/code.h) takes anything.  An executor belongs to a function and
 * the object that it is called with, hangs on that object, and has plans: code from the same graph
 * after passes that knew the facts of tensor arguments and what attributes hold
 * (passes/specialise.h).
 *
 *   first call      canonical; the facts of its arguments are kept
 *   next call       a plan for these facts is made, by one thread; others run canonical code
 *   later calls     the plan whose facts the arguments fit
 *   other sizes     the plan is widened: sizes that differed become unknown; one plan serves all
 *   other dtypes, ranks, None or a tensor: a plan of its own, up to MOST_PLANS
 *
 * Only outer calls choose plans.  Calls that are profiled, that write results into buffers of the
 * caller's, or that have quantized, sparse or nested arguments run canonical code.  Calls that may
 * record gradients have plans of their own.  Making a plan never fails a call: after an error the
 * executor waits 2, 4, 8 ... calls.
 *
 * Threads: lookups take no lock.  A plan lives as long as its executor, so that calls in other
 * threads may still run one that was replaced; their number is limited by MOST_MADE. */
#ifndef RUSH_RUN_EXECUTOR_H
#define RUSH_RUN_EXECUTOR_H

#include "run/code_int.h"

/* What happened so far; simultaneous calls may count as one. */
typedef struct executor_counts {
  uint64_t calls;    /* that could have run a plan */
  uint64_t hits;     /* that did */
  uint32_t plans;    /* now */
  uint32_t made;     /* in all */
  uint32_t widened;  /* of these, instead of a narrower one */
  uint32_t failures; /* attempts that ended with an error */
} executor_counts;

/* Return the code to run for an outer call of f with these arguments: a plan's, or `canonical`. */
const code *executor_choose(call_ctx *cx, const code *canonical, const rush_value *args);
/* True if calls of this code choose plans: some node may profit from it. */
bool executor_serves(const code *canonical);
/* Get the counts of f's executor for the object (NULL: f takes none); false: there is none yet. */
bool executor_get_counts(const function *f, const rush_object *self, executor_counts *out);
/* Copy the graph that f's last outer call with the object ran; with none yet, that of the canonical
 * code. */
ir_graph *executor_last_graph(session *s, function *f, const rush_object *self);
/* Free an executor that hangs on code, with those behind it. */
void executors_free(attachment *first);
/* Print each plan: what it assumes, its memory, then its graph. */
void executor_describe(session *s, text_buf *out, const function *f, const rush_object *self);

#endif
