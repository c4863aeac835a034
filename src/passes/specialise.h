/* passes/specialise.h -- what a plan assumes, and the pass that writes it into a graph.
 *
 * A plan (run/executor.h) is made for facts of the arguments and for what attributes of `self` hold
 * now.  The pass puts both into the graph, where the other passes find them: numbers become
 * constants, tensors' types get facts.  What it read is listed, so that a later call can compare.
 * Elements of tensors are never read. */
#ifndef RUSH_PASSES_SPECIALISE_H
#define RUSH_PASSES_SPECIALISE_H

#include "passes/points.h"

/* An attribute whose value the graph relies on. */
typedef struct state_read {
  const rush_object *object; /* self, or the value of an earlier read: borrowed */
  uint32_t slot;
  rush_value value;      /* a number, None, or an object, borrowed; a tensor: only the tag counts */
  const ir_facts *facts; /* of a tensor; else NULL */
  const char *name;      /* of the attribute, for listings; the class's */
} state_read;

typedef struct specialisation {
  /* the graph's input 0 in every call; NULL: any object, of which nothing may be read */
  const rush_object *self;
  const ir_facts *const *entry; /* per input of the graph; NULL: no tensor, or nothing is assumed */
  uint32_t n_args;
  /* the function's graph, inlined, with points; NULL: none was profiled */
  const ir_graph *base;
  point_facts points; /* what was recorded at base's points */
  /* Set by the pass; in the session's memory. */
  state_read *reads;
  uint32_t n_reads, cap_reads;
} specialisation;

/* True if attributes still hold what the pass read.  O(reads). */
bool state_reads_hold(const state_read *reads, uint32_t n);
/* Run the pass, then those that profit from it (docs/executors.md).  They are exact: results,
 * effects and errors stay the same. */
void pass_specialise(session *s, ir_graph *g, specialisation *sp);

#endif
