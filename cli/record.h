/* record.h -- what a profile says, added up: by operator, by source line, by method.
 *
 * A record borrows the strings of the context's profile: it lives until the next rush_profile_start. */
#ifndef RUSH_CLI_RECORD_H
#define RUSH_CLI_RECORD_H

#include "call.h"

typedef struct record_row {
  const char *name; /* of the operator or method; a line's code */
  const char *code; /* methods: the line that calls it; nodes: its inputs when it was last called; or NULL */
  const char *file; /* lines, methods: where; or NULL */
  uint32_t line;
  uint32_t parent;  /* methods, nodes: index + 1 of the calling method's row, or 0 */
  uint32_t node;    /* methods, nodes: that called it, in the caller's graph */
  uint32_t level;   /* methods: how deep */
  size_t calls;
  double total;     /* seconds; what nests in itself counts once */
  double self;      /* without what it called; of a method: without the methods it called */
  int64_t bytes;
} record_row;

typedef struct record_table {
  record_row *rows;
  size_t n, cap;
  uint32_t *slots; /* hash of two keys -> index + 1 */
  const void *(*keys)[2];
  size_t n_slots;
} record_table;

typedef struct record {
  record_table operators, lines; /* by self, the most first */
  record_table methods;          /* a tree, callers first */
  record_table nodes;            /* of the graphs, for each way in which their method was reached */
  size_t calls;   /* of the model */
  double seconds; /* that they took */
  size_t first;   /* event of these calls */
  size_t n_events;
  uint64_t n_dropped;
} record;

/* Call `n` times (at most for `budget` seconds, if that is not 0) with a profile on, after `warmup` calls without. */
rush_status record_calls(cli *c, rush_module *m, const call_args *a, size_t warmup, size_t n, double budget,
                         record *out, rush_error *err);
void record_free(record *r);

/* "__torch__.nets.___torch_mangle_3.Net.forward" -> "Net.forward": borrowed. */
const char *record_short_name(const char *qualified);
/* "1.25 ms", into `out`. */
#define RECORD_TIME_BYTES 24
const char *record_time(double seconds, char out[RECORD_TIME_BYTES]);
/* The first `most` rows as a table that fits `width` columns. */
void record_print_operators(FILE *f, const record *r, size_t most, int width);
void record_json_operators(FILE *f, const record *r);
/* All tables as one object; with what each node of the graphs took, if asked. */
void record_json(FILE *f, const record *r, bool with_nodes);

#endif
