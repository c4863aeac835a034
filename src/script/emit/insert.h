/* script/emit/insert.h -- calls of operators put into a graph by tools: the overload is chosen,
 * arguments are converted and defaults filled in as for a call in TorchScript. */
#ifndef RUSH_SCRIPT_INSERT_H
#define RUSH_SCRIPT_INSERT_H

#include "ir/program.h"

/* The last n_named of args[n] have the names[].  What it gives stands before `at`: several results
 * are one tuple, none is None.  The graph's types are a program's.  Leaves the session when no
 * overload fits: what was inserted stays. */
ir_value *script_insert(session *s, ir_graph *g, ir_node *at, const char *name,
                        ir_value *const *args, uint32_t n, const char *const *names,
                        uint32_t n_named);

#endif
