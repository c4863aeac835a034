/* script/emit/emit.h -- from a function's tree to its graph.
 *
 *   typed tree --emit_*.c--> graph with Loads and Stores --passes/ssa.c--> block parameters instead
 *   of variables --passes/exits.c--> no early exits --passes/closures.c--> forked functions of
 *   their own
 *
 * Emission follows PyTorch's rules for types, overloads and refinement, so that programs mean the
 * same and graphs have the same form. */
#ifndef RUSH_SCRIPT_EMIT_H
#define RUSH_SCRIPT_EMIT_H

#include "script/emit/resolve.h"

/* Make f->graph from `def`; f->schema must exist (its return type may be NULL: it is inferred, and
 * then written into the schema). */
void script_emit_function(session *s, function *f, const ast_def *def, const resolver *r);
/* Make f->schema from the signature: annotations (Tensor if there is none) and constant
 * defaults. */
void script_declare_function(session *s, function *f, const ast_def *def, const resolver *r);

#endif
