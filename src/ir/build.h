/* ir/build.h -- tools for graphs: constants of any value, functions from graphs. */
#ifndef RUSH_IR_BUILD_H
#define RUSH_IR_BUILD_H

#include "ir/program.h"

/* Make an unlinked prim::Constant of v with type t or (NULL) the value's own: lists made outside
 * programs have the common type of their items. */
ir_node *build_constant(session *s, ir_graph *g, rush_value v, const type *t);
/* Add a function to the program whose body is a copy of g, which must be verified; several outputs
 * become a tuple. */
function *build_function(session *s, program *p, const char *name, const ir_graph *g);

#endif
