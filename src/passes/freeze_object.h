/* passes/freeze_object.h -- freezing: makes the constant parts of a module's object part of its
 * program.
 *
 *   methods inlined -> attributes of numbers and strings folded -> branches on them removed ->
 *   attributes that are never written folded -> a class of its own for the rest
 *
 * An attribute is kept if a method sets it or writes to its memory (or to memory that it shares),
 * if it is preserved, or if its module is used in a way that is not analysed.  The frozen object
 * shares the memory of what is kept. */
#ifndef RUSH_PASSES_FREEZE_OBJECT_H
#define RUSH_PASSES_FREEZE_OBJECT_H

#include "passes/passes.h"

/* Freeze an object.  `preserved`: attributes and methods ("weight", "helper", "sub.weight") to keep
 * besides forward.  The result is new, held by the session (pass_hold).  Its class is in the
 * program of the old one, whose lock the caller holds. */
rush_value freeze_object(session *s, rush_value object, const char *const *preserved,
                         uint32_t n_preserved);
/* Run the optimisations that constant weights allow: remove_dropout and the fold_frozen_*
 * passes. */
void freeze_optimize(session *s, ir_graph *g, bool numerics);
/* Replace f's graph by g; the old one lives as long as the program, for running calls. */
void freeze_replace_graph(session *s, function *f, ir_graph *g_steal);

#endif
