/* ir/build.h -- what tools put into graphs: constants of any value, functions around graphs. */
#ifndef RUSH_IR_BUILD_H
#define RUSH_IR_BUILD_H

#include "ir/program.h"

/* An unlinked prim::Constant of v, its type t or (NULL) what the value says: lists made outside
 * programs have the type that their items have in common. */
ir_node *build_constant(session *s, ir_graph *g, rush_value v, const type *t);
/* A function of the program whose body is a copy of g, which was verified; several outputs become a
 * tuple. */
function *build_function(session *s, program *p, const char *name, const ir_graph *g);

#endif
