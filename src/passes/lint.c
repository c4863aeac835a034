/* passes/lint.c -- leaves the session if the graph is invalid; changes nothing. */
#include "passes/passes_int.h"

void pass_lint(session *s, ir_graph *g) { ir_verify(s, g, "lint"); }
