/* passes/freeze.h -- a module's object with what never changes made part of its program.
 *
 *   methods inlined -> attributes of numbers and texts -> branches on them go -> attributes that
 *   nobody writes to
 *   -> a class of its own for what is left
 *
 * An attribute stays when a method sets it or writes to its memory (or to memory that it shares),
 * when it is preserved, or when its module goes somewhere that is not followed.  The frozen object
 * shares the memory of what stays. */
#ifndef RUSH_PASSES_FREEZE_H
#define RUSH_PASSES_FREEZE_H

#include "passes/passes.h"

/* `preserved`: attributes and methods ("weight", "helper", "sub.weight") that stay, besides
 * forward.  The object is new: pass_hold's.  Its class is in the program of the old one, whose lock
 * the caller holds. */
rush_value freeze_object(session *s, rush_value object, const char *const *preserved,
                         uint32_t n_preserved);
/* What can be made faster once weights are constants: remove_dropout and the fold_frozen_* passes.
 * */
void freeze_optimize(session *s, ir_graph *g, bool numerics);
/* f's graph is g from now on; the old one lives as long as the program, for calls that run. */
void freeze_replace_graph(session *s, function *f, ir_graph *g_steal);

#endif
