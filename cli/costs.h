/* costs.h -- sums of a profile: by operator, by source line, by method.
 *
 * Costs borrow the strings of the context's profile: they live until the next
 * rush_profile_start. */
#ifndef RUSH_CLI_COSTS_H
#define RUSH_CLI_COSTS_H

#include "call.h"

typedef struct costs_row {
  const char *name; /* of the operator or method; a line's code */
  /* methods: the line that calls it; nodes: its inputs in its last call; or NULL */
  const char *code;
  const char *file; /* lines, methods: position; or NULL */
  uint32_t line;
  uint32_t parent;  /* methods, nodes: index + 1 of the calling method's row, or 0 */
  uint32_t node;    /* methods, nodes: the calling node, in the caller's graph */
  uint32_t level;   /* methods: nesting depth */
  size_t calls;
  double total;     /* seconds; recursion counts once */
  double self;      /* without calls of operators; for a method: without calls of methods */
  int64_t bytes;
} costs_row;

typedef struct costs_table {
  costs_row *rows;
  size_t n, cap;
  uint32_t *slots; /* hash of two keys -> index + 1 */
  const void *(*keys)[2];
  size_t n_slots;
} costs_table;

typedef struct costs {
  costs_table operators, lines; /* by self, largest first */
  costs_table methods;          /* a tree, callers first */
  costs_table nodes;            /* of the graphs, one for each call path of their method */
  size_t calls;   /* of the model */
  double seconds; /* total time of the calls */
  size_t first;   /* event of these calls */
  size_t n_events;
  uint64_t n_dropped;
} costs;

/* Call `n` times (at most for `budget` seconds, if that is not 0) with profiling, after `warmup`
 * calls without. */
rush_status costs_calls(cli *c, rush_module *m, const call_args *a, size_t warmup, size_t n,
                        double budget, costs *out, rush_error *err);
void costs_free(costs *r);

/* Return "Net.forward" for "__torch__.nets.___torch_mangle_3.Net.forward": borrowed. */
const char *costs_short_name(const char *qualified);
/* Print "1.25 ms" into `out`. */
#define COSTS_TIME_BYTES 24
const char *costs_time(double seconds, char out[COSTS_TIME_BYTES]);
/* Print the first `most` rows as a table of `width` columns. */
void costs_print_operators(FILE *f, const costs *r, size_t most, int width);
void costs_json_operators(FILE *f, const costs *r);
/* Print all tables as one object; with_nodes: with the time of each node of the graphs. */
void costs_json(FILE *f, const costs *r, bool with_nodes);

#endif
