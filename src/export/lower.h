/* export/lower.h -- from an exported program as data to a program that runs: one class, one object,
 * one function `forward` (export/exported.h says what calls of it do). */
#ifndef RUSH_EXPORT_LOWER_H
#define RUSH_EXPORT_LOWER_H

#include "export/exported.h"
#include "export/program.h"

/* Fill the empty program `p` from the data; `state` has the tensors by name (rush_tensor *,
 * borrowed). Returns the exported program, in p's arena; *self is the object, new, the session's.
 * */
exported *exported_lower(session *s, const exported_program *data, const table *state, program *p,
                         rush_value *self);

/* Convert an argument that names no node and is no list to a value, new; returns false for a dict
 * or an object. */
bool exported_plain(session *s, const fx_arg *a, rush_value *out_new);

#endif
