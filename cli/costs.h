/* costs.h -- what a profile says, added up: by operator, by source line, by method.
 *
 * Costs borrow the strings of the context's profile: they live until the next rush_profile_start.
 * */
#ifndef RUSH_CLI_COSTS_H
#define RUSH_CLI_COSTS_H

#include "call.h"

typedef struct costs_row {
  const char *name; /* of the operator or method; a line's code */
  /* methods: the line that calls it; nodes: its inputs when it was last called; or NULL */
  const char *code;
  const char *file; /* lines, methods: where; or NULL */
  uint32_t line;
  uint32_t parent;  /* methods, nodes: index + 1 of the calling method's row, or 0 */
  uint32_t node;    /* methods, nodes: that called it, in the caller's graph */
  uint32_t level;   /* methods: how deep */
  size_t calls;
  double total;     /* seconds; what nests in itself counts once */
  double self;      /* without what it called; of a method: without the methods it called */
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
  costs_table operators, lines; /* by self, the most first */
  costs_table methods;          /* a tree, callers first */
  costs_table nodes;            /* of the graphs, for each way in which their method was reached */
  size_t calls;   /* of the model */
  double seconds; /* that they took */
  size_t first;   /* event of these calls */
  size_t n_events;
  uint64_t n_dropped;
} costs;

/* Call `n` times (at most for `budget` seconds, if that is not 0) with a profile on, after `warmup`
 * calls without. */
rush_status costs_calls(cli *c, rush_module *m, const call_args *a, size_t warmup, size_t n,
                        double budget, costs *out, rush_error *err);
void costs_free(costs *r);

/* "__torch__.nets.___torch_mangle_3.Net.forward" -> "Net.forward": borrowed. */
const char *costs_short_name(const char *qualified);
/* "1.25 ms", into `out`. */
#define COSTS_TIME_BYTES 24
const char *costs_time(double seconds, char out[COSTS_TIME_BYTES]);
/* The first `most` rows as a table that fits `width` columns. */
void costs_print_operators(FILE *f, const costs *r, size_t most, int width);
void costs_json_operators(FILE *f, const costs *r);
/* All tables as one object; with what each node of the graphs took, if asked. */
void costs_json(FILE *f, const costs *r, bool with_nodes);

#endif
