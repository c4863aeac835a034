/* export/verify.h -- checks exported programs as data against the rules of torch.export.
 *
 * A rule has a name ("graph.use-before-definition") and one line that says what it demands:
 * verify.def.  They are what PyTorch 2.13's verifier and the lint of its graphs demand, what its
 * reader takes for granted, and what seed 004's text of the IR says.  A fault is a line:
 *
 *   args.type: net.pt2: models/model.json: offset 2012: node 'add' (net.py:7): argument 'self' of
 *   aten::add.Tensor: expected Tensor, found an int
 *
 * Dialects: TRAINING lets operators write to their arguments; ATEN does not.  A program is held to
 * those that it names; CORE_ATEN (ATEN of core operators only) and EDGE (that, without implicit
 * promotion) are for programs that a backend is to take, and are asked for.
 *
 * Nothing is taken for granted: structures that no reader makes are faults, too.
 *
 * Cost: O(nodes, arguments, bytes of metadata).  Threads: those of the program. */
#ifndef RUSH_EXPORT_VERIFY_H
#define RUSH_EXPORT_VERIFY_H

#include "export/program.h"

/* What an archive has under a name. */
typedef struct export_state {
  bool is_weight, is_constant; /* of data/weights, of data/constants; it may be in both */
  bool is_parameter;
  int dtype, n_dims;           /* -1: not known */
  const int64_t *sizes;        /* n_dims */
} export_state;

typedef struct export_verify_options {
  const char *dialect; /* NULL: the program's own; "TRAINING", "ATEN", "CORE_ATEN", "EDGE" */
  const table *state;  /* name -> export_state; NULL: weights are not looked at */
} export_verify_options;

#define EXPORT_MOST_FAULTS 100 /* that are printed; the number of others is the last line */

/* Append a line for each fault; returns their number.  Leaves the session with RUSH_EARGUMENT for
 * an unknown dialect. */
uint32_t export_verify(session *s, const exported_program *p, const export_verify_options *o,
                       text_buf *out);
/* Iterate over the rules: returns false behind the last.  `demand` is what the rule demands. */
bool export_rule_at(uint32_t i, const char **name, const char **demand);

#endif
