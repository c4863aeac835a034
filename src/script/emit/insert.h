/* script/emit/insert.h -- inserts calls of operators into a graph, for tools: the overload is
 * chosen, arguments are converted and defaults filled in as for a call in TorchScript. */
#ifndef RUSH_SCRIPT_INSERT_H
#define RUSH_SCRIPT_INSERT_H

#include "ir/program.h"

/* Insert a call before `at`.  The last n_named of args[n] have the names[].  The result is a tuple
 * of several, and None for no result.  The graph's types must be a program's.  Leaves the session
 * if no overload fits; nodes inserted until then remain. */
ir_value *script_insert(session *s, ir_graph *g, ir_node *at, const char *name,
                        ir_value *const *args, uint32_t n, const char *const *names,
                        uint32_t n_named);

#endif
