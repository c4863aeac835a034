/* passes/lint.c -- leaves when the graph is broken, and changes nothing. */
#include "passes/passes_int.h"

void pass_lint(session *s, ir_graph *g) { ir_verify(s, g, "lint"); }
