/* export/decompose.h -- makes exported programs over fewer operators, as run_decompositions does.
 *
 *     exported_program --decompose_program--> exported_program of the dialect ATEN
 *
 * The graph is captured again (export/capture.h): its nodes are evaluated one after the other, and
 * operators that PyTorch's default table decomposes (decomposed.def) are replaced by what their
 * decomposition or body in our table calls, until none is left.  Everything else is copied: other
 * operators, functions on symbolic numbers, assertions, higher-order operators (the graphs inside
 * are decomposed, too).  Symbols, ranges, guards, signature and structure stay. */
#ifndef RUSH_EXPORT_DECOMPOSE_H
#define RUSH_EXPORT_DECOMPOSE_H

#include "export/program.h"

/* Of the operators in PyTorch's default table only these are decomposed: n_ops names as in
 * schemas, "aten::add.Tensor".  Composites that the table cannot have (views, in-place forms)
 * always are. */
typedef struct decompose_table {
  const char *const *ops;
  size_t n_ops;
} decompose_table;

/* Return the names of the default table's operators, a line each, after an empty line. */
const char *decompose_operators(void);

/* Decompose a program by a table; NULL: PyTorch's default one.  The result retains `from`, of which
 * it uses parts, and is released when the session ends unless session_keep is called.  Leaves the
 * session with RUSH_EUNSUPPORTED, naming the node, for what cannot be decomposed. */
exported_program *decompose_program(session *s, const exported_program *from,
                                    const decompose_table *ops);

#endif
